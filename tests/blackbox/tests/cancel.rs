//! Cancellations, and what races them.

use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::rig::{Host, Setup, until};

const FOR_EVER: u64 = 3_600_000;

/// A small generator; the seed is printed and can be given as `OUTLIVE_SEED`.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let clock = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("a clock")
            .as_nanos() as u64;
        let seed = std::env::var("OUTLIVE_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(clock) | 1;
        println!("seed: OUTLIVE_SEED={seed}");
        Random(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn wait_for_call(host: &Host, id: i64) {
    until("the call at the server", || {
        host.tap()
            .method("tools/call")
            .iter()
            .any(|call| call["id"] == id)
            .then_some(())
    });
}

/// FM-18: the answer to a cancelled call comes late: as a result, as an error, as both. None
/// reaches the host, the server stays, and the next call works.
#[test]
fn fm_18_late_answers_are_dropped() {
    let mut host = Host::ready(Setup::new());
    let first = host.server(1);
    for (how, drops) in [("result", 1), ("error", 2), ("both", 4)] {
        let id = host.call("stubborn", json!({ "how": how }));
        wait_for_call(&host, id);
        host.cancel(id);
        until("the late answer", || {
            host.tap()
                .notes("answered_late")
                .iter()
                .any(|note| note["data"] == id)
                .then_some(())
        });
        assert_eq!(host.ping(), first);
        assert_eq!(host.answers(id), 0, "{how}");
        until("the drop", || {
            let late = |e: &Value| e["reason"] == "late_answer" || e["reason"] == "unknown_answer";
            (host.events().iter().filter(|e| late(e)).count() == drops).then_some(())
        });
    }
}

/// FM-19: ten thousand calls, each ending within two milliseconds, with cancellations at random
/// moments around the end: single, double, of unknown ids and of `initialize`; and a server that
/// answers a cancelled call twice. No id gets two answers, no call that was not cancelled gets
/// none, and the server that began is the one that answers in the end.
#[test]
fn fm_19_cancels_racing_answers() {
    const CALLS: i64 = 10_000;
    let mut random = Random::new();
    let mut host = Host::ready(Setup::new().knobs(&["--answer-cancelled"]));
    let first = host.server(1);
    let mut cancelled = HashMap::new();
    // Cancellations to come, earliest on top.
    let mut due: BinaryHeap<(std::cmp::Reverse<Instant>, i64)> = BinaryHeap::new();
    let mut ids = Vec::new();
    for n in 0..CALLS {
        let id = host.call("racy", json!({ "us": random.below(2000) }));
        ids.push(id);
        let roll = random.below(10);
        for _ in 0..match roll {
            0..=6 => 1,
            7 => 2,
            _ => 0,
        } {
            let when = Instant::now() + Duration::from_micros(random.below(2000));
            due.push((std::cmp::Reverse(when), id));
            cancelled.insert(id, ());
        }
        if random.below(100) == 0 {
            host.cancel(1_000_000 + n);
            host.cancel(1);
        }
        while let Some((std::cmp::Reverse(when), id)) = due.peek().copied()
            && when <= Instant::now()
        {
            due.pop();
            host.cancel(id);
        }
        // Keep pace with the server, so that the cancellations meet the answers.
        if n % 16 == 0 {
            std::thread::sleep(Duration::from_micros(random.below(3000)));
        }
    }
    while let Some((_, id)) = due.pop() {
        host.cancel(id);
    }
    // Every answer by id, once all calls that were not cancelled have theirs.
    let answers = until("the answers to what was not cancelled", || {
        std::thread::sleep(Duration::from_millis(200));
        let mut answers: HashMap<i64, usize> = HashMap::new();
        for message in host.received() {
            if message.get("method").is_none()
                && let Some(id) = message["id"].as_i64()
            {
                *answers.entry(id).or_default() += 1;
            }
        }
        let done = |id: &i64| cancelled.contains_key(id) || answers.contains_key(id);
        ids.iter().all(done).then_some(answers)
    });
    assert_eq!(host.ping(), first);
    let count = |id: &i64| answers.get(id).copied().unwrap_or(0);
    let twice: Vec<&i64> = ids.iter().filter(|id| count(id) > 1).collect();
    assert!(twice.is_empty(), "answered more than once: {twice:?}");
    let raced = ids
        .iter()
        .filter(|id| cancelled.contains_key(id) && count(id) == 0)
        .count();
    let lost = ids
        .iter()
        .filter(|id| cancelled.contains_key(id) && count(id) == 1)
        .count();
    println!(
        "{} cancelled: {raced} in time, {lost} too late",
        cancelled.len()
    );
    assert!(raced > 0 && lost > 0, "no race was run");
    assert_eq!(host.tap().pids().len(), 1, "a server died");
    // Neither the handshake nor what never was is cancelled at the server.
    for record in host.tap().method("notifications/cancelled") {
        let id = &record["params"]["requestId"];
        let host_id = id.as_i64().is_some_and(|id| ids.contains(&id));
        // After thousands of cancellations on one link, calls go under ids of outlive's own.
        let own_id = id.as_str().is_some_and(|id| id.starts_with("outlive-1-"));
        assert!(host_id || own_id, "{record}");
    }
}

/// FM-48: a cancellation reaches the server once, with the right id, and the handler sees it;
/// repeated and pointless ones do not reach it at all.
#[test]
fn fm_48_cancellation_reaches_the_server_once() {
    let mut host = Host::ready(Setup::new());
    let id = host.call("sleep", json!({ "ms": FOR_EVER }));
    wait_for_call(&host, id);
    host.cancel(id);
    host.cancel(id);
    host.cancel(777);
    host.cancel(1);
    until("the handler's notice", || {
        host.tap().notes("cancelled").pop()
    });
    host.ping();
    let told = host.tap().method("notifications/cancelled");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        told[0]["params"],
        json!({ "requestId": id, "reason": "enough" })
    );
    assert_eq!(host.answers(id), 0);
    // The other cancellations are in the log, as useless.
    host.dropped(3, "useless_cancel");
}

/// FM-48: a call that exceeds its bound is cancelled at the server too.
#[test]
fn fm_48_expired_call_is_cancelled_at_the_server() {
    let mut host = Host::ready(Setup::new().flags(&["--request-timeout", "2s"]));
    let id = host.call("sleep", json!({ "ms": FOR_EVER }));
    host.answer(id).refused("timeout");
    until("the handler's notice", || {
        host.tap().notes("cancelled").pop()
    });
    let told = host.tap().method("notifications/cancelled");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["params"]["requestId"], id);
    host.ping();
    assert_eq!(
        host.tap().pids().len(),
        1,
        "a server that takes cancellations well is kept"
    );
}

/// FM-48: a call cancelled while it is held never reaches any server.
#[test]
fn fm_48_held_call_can_be_cancelled() {
    let setup = Setup::new();
    let slow = setup.path("slow");
    let script = format!("while [ -e {slow} ]; do sleep 0.05; done; exec FAKE");
    let mut host = Host::ready(setup.script(&script));
    std::fs::write(&slow, "").expect("the fault");
    host.ask("crash", json!({ "code": 1 }))
        .refused("connection_lost");
    let held = host.call("echo", json!({ "text": "never" }));
    let kept = host.call("echo", json!({ "text": "kept" }));
    host.cancel(held);
    std::fs::remove_file(&slow).expect("the fault");
    assert_eq!(host.answer(kept).text(), "kept");
    host.ping();
    assert_eq!(host.answers(held), 0);
    assert!(
        !host.tap().records().iter().any(|r| r["id"] == held),
        "it was sent"
    );
}

/// FM-49: a thousand calls longer than a pipe holds, each cancelled at a random moment, so that
/// many are half written. The server sees only whole lines, and is never replaced.
#[test]
fn fm_49_cancelling_never_tears_a_frame() {
    let mut random = Random::new();
    let mut host = Host::ready(Setup::new());
    let first = host.server(1);
    let pad = "z".repeat(128 << 10);
    for n in 0..1000 {
        let id = host.call("echo", json!({ "text": pad }));
        if n % 4 == 0 {
            std::thread::sleep(Duration::from_micros(random.below(2000)));
        }
        host.cancel(id);
    }
    assert_eq!(host.ping(), first);
    let torn: Vec<Value> = host
        .tap()
        .records()
        .into_iter()
        .filter(|r| r["json"] == false)
        .collect();
    assert!(
        torn.is_empty(),
        "{} torn lines, the first: {}",
        torn.len(),
        torn[0]
    );
    assert_eq!(host.tap().pids().len(), 1);
    host.received();
}

/// FM-62: progress for a finished call and for a token nobody gave is dropped; what belongs to
/// the call arrives before its answer; the link stays.
#[test]
fn fm_62_stray_progress_is_dropped() {
    let mut host = Host::ready(Setup::new());
    let first = host.server(1);
    for token in [json!("mine"), json!(7)] {
        let meta = json!({ "progressToken": token });
        let params = json!({ "name": "progress", "arguments": {}, "_meta": meta });
        let id = host.request("tools/call", params);
        host.answer(id).result();
        assert_eq!(host.ping(), first);
        let told: Vec<Value> = host
            .received()
            .into_iter()
            .filter(|m| m["method"] == "notifications/progress" || m["id"] == id)
            .filter(|m| m["params"]["progressToken"] == token || m["id"] == id)
            .collect();
        let seen: Vec<&Value> = told.iter().map(|m| &m["params"]["progress"]).collect();
        assert_eq!(
            seen,
            [&json!(1), &json!(2), &Value::Null],
            "two steps, then the answer"
        );
    }
    let tokens = host.notified("notifications/progress");
    assert!(
        tokens
            .iter()
            .all(|m| m["params"]["progressToken"] != "invented"),
        "{tokens:?}"
    );
    host.dropped(6, "late_progress");
}

/// `--cancel absorb`: the server never hears of it, the host never hears of the answer.
#[test]
fn cancel_absorb_keeps_it_from_the_server() {
    let mut host = Host::ready(Setup::new().flags(&["--cancel", "absorb"]));
    let id = host.call("sleep", json!({ "ms": 1500 }));
    wait_for_call(&host, id);
    host.cancel(id);
    until("the call's end", || {
        host.tap()
            .notes("done")
            .iter()
            .any(|note| note["data"] == id)
            .then_some(())
    });
    host.ping();
    assert_eq!(host.answers(id), 0);
    assert!(host.tap().method("notifications/cancelled").is_empty());
    host.dropped(1, "absorbed_cancel");
}

/// `--cancel auto`: passed on until the server has died of one, then absorbed; the log says so.
/// The other call in flight fails, because it did die; from then on nobody pays.
#[test]
fn cancel_auto_learns_from_a_death() {
    let mut host = Host::ready(Setup::new().knobs(&["--die-of-cancel"]));
    let other = host.call("sleep", json!({ "ms": FOR_EVER }));
    let id = host.call("sleep", json!({ "ms": FOR_EVER }));
    wait_for_call(&host, id);
    host.cancel(id);
    host.answer(other).refused("connection_lost");
    let learnt = host.event("the lesson", |e| e["event"] == "absorbing_cancels");
    assert_eq!(learnt["generation"], 1);

    let again = host.call("sleep", json!({ "ms": 2000 }));
    wait_for_call(&host, again);
    host.cancel(again);
    assert_eq!(host.ping(), host.server(2));
    until("the call's end", || {
        host.tap()
            .notes("done")
            .iter()
            .any(|note| note["data"] == again)
            .then_some(())
    });
    assert_eq!(host.ping(), host.server(2));
    assert_eq!(host.answers(id), 0);
    assert_eq!(host.answers(again), 0);
    assert_eq!(host.tap().pids().len(), 2, "it died of a second one");
}

/// `--cancel forward`: passed on, whatever it does to the server.
#[test]
fn cancel_forward_never_learns() {
    let setup = Setup::new()
        .flags(&["--cancel", "forward"])
        .knobs(&["--die-of-cancel"]);
    let mut host = Host::ready(setup);
    for generation in 1..=2 {
        let id = host.call("sleep", json!({ "ms": FOR_EVER }));
        wait_for_call(&host, id);
        host.cancel(id);
        host.ready_event(generation + 1);
    }
    host.ping();
    assert_eq!(host.tap().method("notifications/cancelled").len(), 2);
    assert!(
        !host
            .events()
            .iter()
            .any(|e| e["event"] == "absorbing_cancels")
    );
}

/// A server that died of a cancellation but looks alive, and swallows the next line: that line is
/// `outlive`'s, so no call of the host is lost, and the lesson is learnt.
#[test]
fn dead_server_that_looks_alive_is_found_out() {
    let mut host = Host::ready(Setup::new().knobs(&["--die-of-cancel-but-look-alive"]));
    let id = host.call("sleep", json!({ "ms": FOR_EVER }));
    wait_for_call(&host, id);
    host.cancel(id);
    // Nothing is called: it is found out all the same.
    host.ready_event(2);
    assert_eq!(host.ping(), host.server(2));
    host.event("the lesson", |e| e["event"] == "absorbing_cancels");
    let swallowed = host.tap().received(1);
    let last = swallowed.last().expect("a line");
    assert_eq!(
        last["method"], "ping",
        "the line that found out was not a user's"
    );
    assert_eq!(host.answers(id), 0);
}

/// FM-19: calls beside a cancellation that kills the server, as mcp 1.x dies of it: it has read our ping and not
/// answered it, and only the next line lets its process end. That line is another ping. Every call is executed, once.
#[test]
fn fm_19_calls_beside_a_cancellation_that_kills_are_executed_once() {
    const CALLS: usize = 20;
    let setup = Setup::new().knobs(&["--die-of-cancelled-work"]);
    let effects = setup.path("effects");
    let mut host = Host::ready(setup);
    let id = host.call("sleep", json!({ "ms": FOR_EVER }));
    wait_for_call(&host, id);
    host.cancel(id);
    let calls: Vec<i64> = (0..CALLS)
        .map(|_| host.call("append", json!({ "file": effects })))
        .collect();
    for call in calls {
        host.answer(call).result();
    }
    let executed = std::fs::read_to_string(&effects).expect("effects");
    assert_eq!(executed.lines().count(), CALLS);
    host.event("the lesson", |e| e["event"] == "absorbing_cancels");
    let swallowed = host.tap().received(1);
    let last = swallowed.last().expect("a line");
    assert_eq!(
        last["method"], "ping",
        "the line that found out was not a user's"
    );
}
