//! Cancellations that meet the answer (FM-18, FM-19).
//!
//! # Theory
//!
//! Nobody knows the moment of an answer, and a defect may show only within one turn of the other side's
//! event loop. Two ways lead there on any machine, however busy:
//!
//! - In passing: calls and cancellations are written without a pause, each cancellation a few calls behind
//!   its own; on pipes in one piece. What meets what is then decided by the order of work over there, not
//!   by a clock.
//! - Closing in: a cancellation that came after the answer comes sooner the next time, one that came
//!   before it later. About half of them fall on each side, and all of them near the answer.

use std::time::{Duration, Instant};

use crate::host::{Host, Id};
use crate::random::Random;
use crate::tool::ToolCall;
use crate::verdict::{Finding, Held};

/// How many calls are cancelled in passing, at a time.
const IN_PASSING: usize = 20;
/// How far behind its call a cancellation comes, at most.
const LAGS: usize = 6;
/// How many calls are cancelled around the time of their answer.
const AROUND: usize = 60;
/// The longest a cancellation waits.
const LONGEST: Duration = Duration::from_millis(200);

/// Races, after which everything must still work and no call may have two answers.
pub async fn race(host: &mut Host, call: &ToolCall, random: &mut Random) -> Held {
    host.serves("at first").await?;
    let mut ids = Vec::new();
    for lag in 0..LAGS {
        ids.extend(in_passing(host, call, lag).await);
        let when = format!("after {IN_PASSING} calls and their cancellations, {lag} calls behind,");
        host.serves(&when).await?;
    }
    ids.extend(closing_in(host, call, random).await);
    host.serves(&format!("after {AROUND} calls and their cancellations"))
        .await?;
    host.linger(Duration::from_millis(200)).await;
    match ids.iter().find(|id| host.responses(id) > 1) {
        Some(id) => Finding::broken(format!(
            "Request {id} was answered {} times.",
            host.responses(id)
        )),
        None => Ok(()),
    }
}

async fn in_passing(host: &mut Host, call: &ToolCall, lag: usize) -> Vec<Id> {
    let ids: Vec<Id> = (0..IN_PASSING).map(|_| host.next_id()).collect();
    let mut piece = String::new();
    for nth in 0..IN_PASSING + lag {
        if let Some(id) = ids.get(nth) {
            let message = host.message(id, "tools/call", call.params());
            match host.has_pipes() {
                true => piece.push_str(&format!("{message}\n")),
                false => host.send(&message).await,
            }
        }
        if let Some(id) = nth.checked_sub(lag).and_then(|nth| ids.get(nth)) {
            match host.has_pipes() {
                true => piece.push_str(&format!("{}\n", host.cancellation(id))),
                false => host.cancel_in_passing(id).await,
            }
        }
    }
    if host.has_pipes() {
        // Whether it was taken is seen by what still works.
        let _ = host.raw(piece).await;
    }
    ids
}

async fn closing_in(host: &mut Host, call: &ToolCall, random: &mut Random) -> Vec<Id> {
    let begun = Instant::now();
    let first = host.call(call).await;
    let timeout = host.timeout();
    host.wait("a call", timeout, |letters| {
        (!letters.responses(&first.0).is_empty() || letters.ended).then_some(())
    })
    .await;
    let mut delay = begun.elapsed().min(LONGEST);
    let mut ids = Vec::new();
    for _ in 0..AROUND {
        let id = host.call(call).await;
        exactly(delay).await;
        let answered = host.responses(&id) > 0;
        host.cancel(&id).await;
        let step = random.moment(Duration::from_millis(200)).as_secs_f64();
        delay = delay.mul_f64(if answered { 1.0 - step } else { 1.0 + step });
        delay = delay.min(LONGEST);
        ids.push(id);
    }
    ids
}

/// Timers of the runtime count milliseconds, in which some servers answer ten calls.
async fn exactly(time: Duration) {
    let slept = tokio::task::spawn_blocking(move || std::thread::sleep(time)).await;
    debug_assert!(slept.is_ok(), "sleeping does not fail");
}
