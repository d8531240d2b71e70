//! The order in which messages reach a server, and who listens when it asks.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::asking::Asking;
use crate::rig::{Host, PATIENCE, Setup, until};
use crate::web::{Act, Request, Web, event, result, stream};

/// What the server has dealt with, in order: notifications and answers take it a while.
#[derive(Clone, Default)]
struct Dealt(Arc<Mutex<Vec<String>>>);

impl Dealt {
    /// Deals with a message after this time.
    fn with(&self, request: &Request, after: u64) {
        sleep(Duration::from_millis(after));
        let what = match request.rpc() {
            "" => format!("answer {}", request.body["id"]),
            "notifications/progress" => format!("progress {}", request.body["params"]["progress"]),
            "notifications/x" => format!("x {}", request.body["params"]["n"]),
            "tools/call" => request.tool().to_owned(),
            other => other.to_owned(),
        };
        self.0.lock().unwrap().push(what);
    }

    fn all(&self) -> Vec<String> {
        let all = self.0.lock().unwrap().clone();
        all.into_iter()
            .filter(|it| it != "notifications/initialized")
            .collect()
    }
}

/// A server that asks in each call, and takes its time with each notification: what was sent before is dealt with
/// before.
#[test]
fn invariant_08_what_the_host_said_first_reaches_the_server_first() {
    let dealt = Dealt::default();
    let books = dealt.clone();
    let web = Web::start(move |request| {
        let is_request = request.body["id"].is_i64() && !request.rpc().is_empty();
        if request.method != "POST" || is_request && request.tool().is_empty() {
            return None;
        }
        if request.rpc() == "notifications/initialized" {
            return None;
        }
        let slow = matches!(request.rpc(), "notifications/progress" | "notifications/x");
        books.with(request, if slow { 120 } else { 0 });
        let ask = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
            "params": {"message": "?", "_meta": {"progressToken": "p"}}});
        (request.tool() == "ask").then(|| vec![stream(), event(&ask), Act::Hang])
    });
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    host.call("ask", json!({}));
    host.wait_for("the question", |m| m["method"] == "elicitation/create");
    for n in 1..=3 {
        let progress = json!({"progressToken": "p", "progress": n});
        host.notify("notifications/progress", progress);
    }
    host.send(&json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "decline"}}));
    host.notify("notifications/x", json!({"n": 4}));
    let last = host.call("echo", json!({}));
    host.answer(last).result();
    let expected = [
        "ask",
        "progress 1",
        "progress 2",
        "progress 3",
        "answer \"q\"",
        "x 4",
        "echo",
    ];
    assert_eq!(dealt.all(), expected);
}

/// A cancellation does not wait behind a hundred notifications that the server is slow to take.
#[test]
fn fm_46_a_cancellation_waits_for_no_notification() {
    let web = Web::start(|request| match (request.rpc(), request.tool()) {
        ("notifications/x", _) => {
            sleep(Duration::from_millis(150));
            None
        }
        (_, "echo") => Some(vec![stream(), Act::Hang]),
        _ => None,
    });
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    let call = host.call("echo", json!({}));
    web.wait_for(1, "the call", |request| request.tool() == "echo");
    for n in 0..100 {
        host.notify("notifications/x", json!({ "n": n }));
    }
    host.cancel(call);
    web.wait_for(1, "the cancellation", |request| {
        request.rpc() == "notifications/cancelled"
    });
    let before = web.asked("notifications/x").len();
    assert!(before < 50, "{before} notifications came first");
    web.wait_for(100, "the notifications", |request| {
        request.rpc() == "notifications/x"
    });
    let order: Vec<Value> = web
        .asked("notifications/x")
        .iter()
        .map(|it| it.body["params"]["n"].clone())
        .collect();
    let expected: Vec<Value> = (0..100).map(Value::from).collect();
    assert_eq!(order, expected);
}

/// A server that leaves notifications unanswered is not waited for without end: it may be waiting for what comes next.
#[test]
fn invariant_03_a_notification_that_is_not_taken_holds_nobody_up_for_long() {
    let web = Web::start(|request| (request.rpc() == "notifications/x").then(|| vec![Act::Hang]));
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    for n in 0..3 {
        host.notify("notifications/x", json!({ "n": n }));
    }
    let begun = Instant::now();
    host.ask("echo", json!({})).result();
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

/// Cancellations leave the connections alone: the next call goes over one that is open.
#[test]
fn fm_24_a_cancellation_costs_no_connection_of_others() {
    let web = Web::start(|request| (request.tool() == "slow").then(|| vec![stream(), Act::Hang]));
    let relay = crate::relay::Relay::to(web.address());
    let mut host = Host::ready(Setup::new().server(&[&relay.url()]));
    host.ask("echo", json!({})).result();
    let before = relay.taken();
    let rounds = 20;
    for n in 1..=rounds {
        let slow = host.call("slow", json!({}));
        web.wait_for(n, "the call", |request| request.tool() == "slow");
        host.cancel(slow);
        web.wait_for(n, "the cancellation", |request| {
            request.rpc() == "notifications/cancelled"
        });
        host.ask("echo", json!({})).result();
    }
    // Each cancelled call takes its own connection with it; cancellation, ping and call share what is there.
    let made = relay.taken() - before;
    assert!(
        made <= rounds + rounds / 2,
        "{made} connections for {rounds} cancellations"
    );
}

/// The first call comes right behind `initialized`: the server's question finds a listener.
#[test]
fn invariant_03_no_question_is_lost_because_nobody_listens_yet() {
    for slow in [0, 400] {
        let asking = Asking::new(slow);
        let books = asking.clone();
        let web = Web::start(move |request| books.deal(request));
        let mut host = Setup::new().server(&[&web.url()]).start();
        let initialize = host.request(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": {"name": "rig", "version": "0"}}),
        );
        host.answer(initialize).result();
        host.notify("notifications/initialized", json!({}));
        let call = host.call("ask", json!({}));
        let question = host.wait_for("the question", |m| m["method"] == "roots/list");
        host.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}));
        assert_eq!(host.answer(call).text(), "asked");
        assert_eq!(asking.asked.load(Ordering::SeqCst), 1, "executed once");
        assert_eq!(asking.dropped.load(Ordering::SeqCst), 0);
    }
}

/// A server that never answers the GET is used all the same.
#[test]
fn invariant_03_a_server_that_leaves_the_stream_unanswered_is_used_without() {
    let web = Web::start(|request| (request.method == "GET").then(|| vec![Act::Hang]));
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    host.ask("echo", json!({})).result();
    assert_eq!(web.asked("initialize").len(), 1);
}

/// What a server asks for between two streams is believed within reason: a call whose answer waits is not put off for a
/// day.
#[test]
fn fm_26_a_pause_without_end_is_not_taken() {
    let id = AtomicI64::new(0);
    let web = Web::start(move |request| {
        if request.tool() == "cut" {
            id.store(
                request.body["id"].as_i64().unwrap_or_default(),
                Ordering::SeqCst,
            );
            let begun = "id: 1\nretry: 18446744073709551615\ndata:\n\n";
            return Some(vec![stream(), Act::Send(begun.into()), Act::Close]);
        }
        request.header("last-event-id").filter(|it| *it == "1")?;
        let mut answer = result(request, "the rest");
        answer["id"] = json!(id.load(Ordering::SeqCst));
        Some(vec![stream(), event(&answer), Act::Close])
    });
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    let call = host.call("cut", json!({}));
    let resumed = until_for(Duration::from_secs(60), || {
        let seen = web.seen();
        let resumed = seen.iter().find(|it| it.header("last-event-id").is_some());
        resumed.map(|it| it.at)
    });
    assert!(resumed.is_some(), "it was put off");
    assert_eq!(host.answer(call).text(), "the rest");
}

fn until_for<T>(most: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    while begun.elapsed() < most {
        if let Some(found) = look() {
            return Some(found);
        }
        sleep(Duration::from_millis(50));
    }
    None
}

/// A byte order mark before a stream, or before an answer, costs nothing.
#[test]
fn fm_59_a_byte_order_mark_loses_no_message() {
    let web = Web::start(|request| {
        let answer = result(request, "marked");
        (request.tool() == "marked").then(|| {
            vec![
                stream(),
                Act::Send(format!("\u{feff}data: \u{feff}{answer}\n\n")),
                Act::Close,
            ]
        })
    });
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    let call = host.call("marked", json!({}));
    assert_eq!(host.answer(call).text(), "marked");
    // The host's own later lines.
    host.send_raw("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"tools/call\",\"params\":{\"name\":\"marked\"}}\n");
    assert_eq!(host.answer(77).text(), "marked");
    until("both calls", || {
        (web.asked("tools/call").len() == 2).then_some(())
    });
}
