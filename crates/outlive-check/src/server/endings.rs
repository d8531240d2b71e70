//! The host leaves, politely or not (FM-10, FM-20, FM-54, FM-56).

use std::time::Duration;

use serde_json::json;

use crate::host::{Host, Id};
use crate::process::ending;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::server;

const SHUTDOWN: &str = "2026-07-28 basic/transports/stdio: Shutdown";

pub(super) const SCENARIOS: &[Scenario] = &[
    server("eof-when-idle", |stage| Box::pin(idle(stage)))
        .says("A server exits promptly, with status 0, when its input ends.")
        .should(SHUTDOWN)
        .over(Over::Stdio)
        .fm(&[10]),
    server("eof-before-handshake", |stage| {
        Box::pin(before_handshake(stage))
    })
    .says("A server that is never spoken to exits when its input ends.")
    .should(SHUTDOWN)
    .over(Over::Stdio)
    .fm(&[10]),
    server("eof-mid-message", |stage| Box::pin(mid_message(stage)))
        .says("A server exits when its input ends in the middle of a message.")
        .should(SHUTDOWN)
        .over(Over::Stdio)
        .fm(&[10, 59]),
    server("eof-mid-call", |stage| Box::pin(mid_call(stage)))
        .says("A server exits, and does not crash, when its input ends while a call runs.")
        .should(SHUTDOWN)
        .over(Over::Stdio)
        .fm(&[20]),
    server("eof-after-requests", |stage| {
        Box::pin(after_requests(stage))
    })
    .says("What was asked before the end of input is answered.")
    .over(Over::Stdio)
    .fm(&[56]),
    server("last-line-unfinished", |stage| Box::pin(last_line(stage)))
        .says("A last request without a line end is answered.")
        .over(Over::Stdio)
        .fm(&[56, 59]),
    server("output-closed", |stage| Box::pin(output_closed(stage)))
        .says("A server whose output nobody reads any more exits.")
        .over(Over::Stdio)
        .fm(&[10, 20]),
    server("host-vanishes", |stage| Box::pin(vanishes(stage)))
        .says("A server exits when its host is gone while a call runs.")
        .over(Over::Stdio)
        .fm(&[10, 20]),
    server("sigterm-when-idle", |stage| Box::pin(term_idle(stage)))
        .says("A server exits on SIGTERM.")
        .over(Over::Stdio)
        .fm(&[54]),
    server("sigterm-under-load", |stage| Box::pin(term_busy(stage)))
        .says("A server exits on SIGTERM while calls run.")
        .over(Over::Stdio)
        .fm(&[54]),
];

async fn gone(host: &mut Host, what: &str) -> Held {
    let timeout = host.timeout();
    host.end(what, timeout).await.map(|_| ())
}

async fn gone_in_peace(host: &mut Host, what: &str) -> Held {
    let timeout = host.timeout();
    let status = host.end(what, timeout).await?;
    match status.success() {
        true => Ok(()),
        false => Finding::broken(format!("The server {}.", ending(status))),
    }
}

async fn idle(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    host.serves("at first").await?;
    host.close_input();
    gone_in_peace(&mut host, "its end after the end of its input").await
}

async fn before_handshake(stage: &mut Stage) -> Held {
    let mut host = stage.start().await?;
    host.close_input();
    gone(&mut host, "its end after the end of its input").await
}

async fn mid_message(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let id = host.next_id();
    let message = host.message(&id, host.cheapest(), json!({})).to_string();
    let cut = 1 + stage.random.below(message.len() - 2);
    let _ = host.raw(&message[..cut]).await;
    host.close_input();
    gone(&mut host, "its end after half a message").await
}

async fn mid_call(stage: &mut Stage) -> Held {
    let busy = stage.busy()?;
    let mut host = stage.ready().await?;
    for _ in 0..3 {
        host.call(&busy).await;
    }
    host.linger(stage.random.moment(Duration::from_millis(100)))
        .await;
    host.close_input();
    gone_in_peace(
        &mut host,
        "its end after the end of its input, with calls running",
    )
    .await
}

async fn after_requests(stage: &mut Stage) -> Held {
    const REQUESTS: usize = 3;
    let quick = stage.quick()?;
    let mut host = stage.ready().await?;
    let ids: Vec<Id> = (0..REQUESTS).map(|_| host.next_id()).collect();
    let lines = ids
        .iter()
        .map(|id| format!("{}\n", host.message(id, "tools/call", quick.params())));
    let piece: String = lines.collect();
    let _ = host.raw(piece).await;
    host.close_input();
    for (nth, id) in ids.iter().enumerate() {
        let what = format!(
            "call {} of {REQUESTS}, sent before the end of input,",
            nth + 1
        );
        host.answer(id, &what).await?;
    }
    Ok(())
}

async fn last_line(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let id = host.next_id();
    let message = host.message(&id, host.cheapest(), json!({}));
    let _ = host.raw(message.to_string()).await;
    host.close_input();
    host.answer(&id, "a last request without a line end")
        .await
        .map(|_| ())
}

async fn output_closed(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    host.serves("at first").await?;
    host.close_output().await;
    let rounds = host.timeout().as_millis() / 200;
    for _ in 0..rounds {
        // A server finds out by writing.
        host.request(host.cheapest(), json!({})).await;
        if host
            .process()
            .end(Duration::from_millis(200))
            .await
            .is_some()
        {
            return Ok(());
        }
    }
    Finding::broken(format!(
        "It answers into the void: after {:?} the server still runs.",
        host.timeout()
    ))
}

async fn vanishes(stage: &mut Stage) -> Held {
    let busy = stage.busy()?;
    let mut host = stage.ready().await?;
    for _ in 0..3 {
        host.call(&busy).await;
    }
    host.linger(stage.random.moment(Duration::from_millis(100)))
        .await;
    host.close_output().await;
    host.close_input();
    gone(&mut host, "its end after its host was gone").await
}

async fn term_idle(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    host.serves("at first").await?;
    terminate(&mut host)?;
    gone(&mut host, "its end after SIGTERM").await
}

async fn term_busy(stage: &mut Stage) -> Held {
    let busy = stage.busy()?;
    let mut host = stage.ready().await?;
    for _ in 0..5 {
        host.call(&busy).await;
    }
    host.linger(stage.random.moment(Duration::from_millis(100)))
        .await;
    terminate(&mut host)?;
    gone(&mut host, "its end after SIGTERM, with calls running").await
}

fn terminate(host: &mut Host) -> Held {
    host.note("SIGTERM");
    let asked = host.process().terminate();
    asked.map_err(|why| Finding::NotApplicable(why.into()))
}
