//! Requests that are refused, lost or never sent, and what becomes of the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::relay::Relay;
use crate::rig::{Host, Setup};
use crate::web::{Act, Web, message, response, result, stream};

fn host(url: &str, flags: &[&str]) -> Host {
    Host::ready(Setup::new().flags(flags).server(&[url]))
}

/// FM-03: the server is deployed anew and knows no session. One handshake serves any number of calls
/// that were refused, and each of them is sent again.
#[test]
fn fm_03_a_forgotten_session_costs_one_handshake_and_no_call() {
    let web = Web::start(|_| None);
    let mut host = host(&web.url(), &[]);
    web.forget_sessions();
    let calls: Vec<i64> = (0..8).map(|_| host.call("echo", json!({}))).collect();
    for id in calls {
        assert!(host.answer(id).text().starts_with("echo by session-"));
        assert_eq!(host.answers(id), 1);
    }
    assert_eq!(web.asked("initialize").len(), 2);
    let lost = host.logged(1, "lost", |_| true);
    assert_eq!(lost[0]["cause"]["kind"], "session_expired");
}

/// FM-03: of what is in flight when the session is gone, what was refused is sent again, and what hangs is settled as
/// perhaps executed; however many there are, one handshake will do.
#[test]
fn fm_03_what_was_not_refused_is_settled_by_its_outcome() {
    let web = Web::start(|request| match request.tool() {
        "hang" => Some(vec![stream(), Act::Hang]),
        _ => None,
    });
    let mut host = host(&web.url(), &[]);
    let hangs = host.call("hang", json!({}));
    web.wait_for(1, "the call", |request| request.tool() == "hang");
    web.forget_sessions();
    let calls: Vec<i64> = (0..50).map(|_| host.call("echo", json!({}))).collect();
    for id in calls {
        host.answer(id).result();
        assert_eq!(host.answers(id), 1);
    }
    let lost = host.answer(hangs);
    let about = lost.refused("connection_lost");
    assert_eq!(about["outcome"], "unknown");
    assert_eq!(about["cause"]["kind"], "session_expired");
    assert_eq!(web.asked("initialize").len(), 2);
    assert_eq!(
        web.asked("tools/call")
            .iter()
            .filter(|request| request.tool() == "hang")
            .count(),
        1
    );
}

/// FM-04: a session may be lost in other words than 404.
#[test]
fn fm_04_a_session_is_lost_in_many_words() {
    let rpc =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}"#;
    for (status, body) in [
        (400, "Bad Request: Server not initialized"),
        (400, rpc),
        (410, "session expired"),
        (404, rpc),
    ] {
        let calls = AtomicUsize::new(0);
        let web = Web::start(move |request| {
            let first = request.rpc() == "tools/call" && calls.fetch_add(1, Ordering::SeqCst) == 0;
            first.then(|| response(status, &[("content-type", "application/json")], body))
        });
        let mut host = host(&web.url(), &[]);
        host.ask("echo", json!({})).result();
        assert_eq!(web.asked("initialize").len(), 2, "{status} {body}");
        assert_eq!(web.asked("tools/call").len(), 2, "{status} {body}");
    }
}

/// FM-06: a response that ends without an answer settles its call at once; only what may run twice
/// is sent again.
#[test]
fn fm_06_a_stream_that_ends_without_an_answer_settles_its_call() {
    for ending in [
        vec![stream(), Act::Close],
        vec![stream(), Act::Reset],
        vec![stream(), Act::Send(": nothing\n\ndata: {\"half".into()), Act::Close],
        vec![Act::Reset],
        vec![Act::Close],
        response(200, &[("content-type", "application/json")], ""),
        response(202, &[], ""),
        vec![
            Act::Send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{\"json".into()),
            Act::Close,
        ],
    ] {
        let looks = AtomicUsize::new(0);
        let shown = format!("{ending:?}");
        let web = Web::start(move |request| match request.tool() {
            "echo" => Some(ending.clone()),
            "look" if looks.fetch_add(1, Ordering::SeqCst) == 0 => Some(ending.clone()),
            _ => None,
        });
        let mut host = host(&web.url(), &[]);
        let lost = host.ask("echo", json!({}));
        let about = lost.refused("connection_lost");
        assert_eq!(about["outcome"], "unknown", "{shown}");
        assert_eq!(about["cause"]["kind"], "unanswered", "{shown}");
        host.ask("look", json!({})).result();
        // The session is the same.
        assert_eq!(web.asked("initialize").len(), 1, "{shown}");
        host.logged(0, "lost", |_| true);
    }
}

/// FM-02 over HTTP: the server is killed in a call and started again on its port. The call
/// fails with what happened, the next succeeds, in the same session of the host.
#[test]
fn fm_02_a_server_killed_in_a_call_and_started_again() {
    let hang = |request: &crate::web::Request| (request.tool() == "echo").then(|| vec![Act::Hang]);
    let web = Web::start(hang);
    let mut host = host(&web.url(), &[]);
    let call = host.call("echo", json!({}));
    web.wait_for(1, "the call", |request| request.tool() == "echo");
    let address = web.kill();
    let lost = host.answer(call);
    lost.refused("connection_lost");
    let held = host.call("look", json!({}));
    host.event("the loss", |e| e["event"] == "lost");
    let _web = Web::start_at(address, |_| None);
    host.answer(held).result();
    host.ask("echo", json!({})).result();
    assert_eq!(host.answers(call), 1);
}

/// A server that is not there refuses every call alike: none of them counts as executed, all of them wait
/// for it.
#[test]
fn calls_to_a_server_that_is_gone_wait_for_it() {
    let web = Web::start(|_| None);
    let mut host = host(&web.url(), &[]);
    let address = web.kill();
    let calls: Vec<i64> = (0..8).map(|_| host.call("echo", json!({}))).collect();
    let lost = host.event("the loss", |e| e["event"] == "lost");
    assert_eq!(lost["cause"]["kind"], "unreachable");
    let _web = Web::start_at(address, |_| None);
    for id in calls {
        host.answer(id).result();
    }
}

/// FM-52: a server that is busy is asked again when it says; what a gateway says of a call it may have
/// passed on is not called rejected; and none of it ends the session.
#[test]
fn fm_52_transient_statuses_end_no_session() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let web = Web::start(move |request| match request.tool() {
        "echo" => match count.fetch_add(1, Ordering::SeqCst) {
            0 => Some(response(429, &[("retry-after", "1")], "")),
            1 => Some(response(503, &[("retry-after", "0")], "")),
            _ => None,
        },
        "gateway" => Some(response(502, &[], "<html>")),
        "large" => Some(response(413, &[], "")),
        _ if request.method == "DELETE" => Some(response(502, &[], "")),
        _ => None,
    });
    let mut host = host(&web.url(), &[]);
    host.ask("echo", json!({})).result();
    let tries = web.wait_for(3, "three tries", |request| request.tool() == "echo");
    assert!(tries[1].at - tries[0].at >= Duration::from_millis(900));
    let gateway = host.ask("gateway", json!({}));
    assert_eq!(gateway.refused("connection_lost")["outcome"], "unknown");
    let large = host.ask("large", json!({}));
    assert_eq!(large.refused("rejected")["outcome"], "rejected");
    assert_eq!(large.refused("rejected")["retryable"], false);
    assert_eq!(large.refused("rejected")["status"], 413);
    host.ask("look", json!({})).result();
    assert_eq!(web.asked("initialize").len(), 1);
    host.hang_up();
    assert_eq!(host.exit().code(), Some(0));
    host.logged(0, "lost", |_| true);
}

/// Credentials that are refused are a state one can act on: as soon as the file holds valid ones, the
/// session goes on.
#[test]
fn credentials_are_read_again() {
    let setup = Setup::new();
    let file = setup.file(
        "headers",
        "# who we are\nAuthorization: Bearer first-secret\n",
    );
    let valid = Arc::new(std::sync::Mutex::new("Bearer first-secret".to_string()));
    let wanted = valid.clone();
    let web = Web::start(move |request| {
        let valid = request.header("authorization") == Some(&wanted.lock().unwrap());
        (!valid).then(|| response(401, &[], ""))
    });
    let setup = setup.flags(&["--header-file", &file, "--breaker-retry", "1s"]);
    let mut host = Host::ready(setup.server(&[&web.url()]));
    *valid.lock().unwrap() = "Bearer second-secret".into();
    let refused = host.ask("echo", json!({}));
    assert_eq!(refused.refused("rejected")["status"], 401);
    assert!(refused.message().contains("asks for other credentials"));
    let failed = host.event("the loss", |e| e["state"] == "failed");
    assert_eq!(failed["cause"]["kind"], "unauthorized");
    std::fs::write(&file, "Authorization: Bearer second-secret\n").unwrap();
    host.event("ready again", |e| {
        e["state"] == "ready" && e["generation"] != 1
    });
    host.ask("echo", json!({})).result();
    let log = std::fs::read_to_string(host.setup.path("log.jsonl")).unwrap();
    assert!(!log.contains("-secret"), "{log}");
}

/// FM-24: connections that are dead without our knowing. A call in one of them ends with its bound; the next
/// does not wait in another.
#[test]
fn fm_24_dead_connections_are_not_used_again() {
    let web = Web::start(|_| None);
    let relay = Relay::to(web.address());
    let mut host = host(&relay.url(), &["--request-timeout", "2s"]);
    // Several connections are open and idle.
    let calls: Vec<i64> = (0..4).map(|_| host.call("echo", json!({}))).collect();
    for id in calls {
        host.answer(id).result();
    }
    relay.swallow();
    host.ask("echo", json!({})).refused("timeout");
    host.ask("echo", json!({})).result();
}

/// FM-24: a connection is reset in a call, and all the others are black holes. The call is repeated, since it may be,
/// and on a connection of its own.
#[test]
fn fm_24_a_retry_uses_no_connection_from_before() {
    let looks = AtomicUsize::new(0);
    let web = Web::start(move |request| match request.tool() {
        "look" if looks.fetch_add(1, Ordering::SeqCst) == 0 => Some(vec![Act::Hang]),
        _ => None,
    });
    let relay = Relay::to(web.address());
    let mut host = host(&relay.url(), &[]);
    let calls: Vec<i64> = (0..4).map(|_| host.call("echo", json!({}))).collect();
    for id in calls {
        host.answer(id).result();
    }
    let look = host.call("look", json!({}));
    web.wait_for(1, "the call", |request| request.tool() == "look");
    let before = relay.taken();
    relay.reset_last_and_swallow_the_rest();
    host.answer(look).result();
    assert!(relay.taken() > before);
    assert_eq!(web.asked("initialize").len(), 1);
}

/// FM-24: an answer that stops in the middle is given up after a while, and so are the connections of that time.
#[test]
fn fm_24_an_answer_that_stops_in_the_middle_is_given_up() {
    let half =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{\"json";
    let web = Web::start(move |request| {
        (request.tool() == "half").then(|| vec![Act::Send(half.into()), Act::Hang])
    });
    let relay = Relay::to(web.address());
    let mut host = host(&relay.url(), &["--stall-timeout", "1s"]);
    let calls: Vec<i64> = (0..4).map(|_| host.call("echo", json!({}))).collect();
    for id in calls {
        host.answer(id).result();
    }
    let half = host.call("half", json!({}));
    crate::rig::until("half an answer", || (web.hanging() == 1).then_some(()));
    relay.swallow();
    let lost = host.answer(half);
    assert_eq!(lost.refused("connection_lost")["outcome"], "unknown");
    assert!(lost.message().contains("stopped"), "{}", lost.message());
    host.ask("echo", json!({})).result();
}

/// A way that is slow is not a dead one.
#[test]
fn a_slow_way_costs_no_session() {
    let web = Web::start(|_| None);
    let relay = Relay::to(web.address()).delaying(Duration::from_millis(150));
    let flags = ["--probe-interval", "500ms", "--probe-patience", "20s"];
    let mut host = host(&relay.url(), &flags);
    for _ in 0..3 {
        host.ask("echo", json!({})).result();
        std::thread::sleep(Duration::from_millis(600));
    }
    assert!(!web.asked("ping").is_empty());
    assert_eq!(web.asked("initialize").len(), 1);
    host.logged(0, "lost", |_| true);
}

/// FM-01 without a stream: an idle server that dies is noticed by a probe.
#[test]
fn fm_01_an_idle_death_is_noticed_by_a_probe() {
    let web = Web::start(|_| None);
    let host = host(&web.url(), &["--probe-interval", "200ms"]);
    web.wait_for(1, "the stream is refused", |request| {
        request.method == "GET"
    });
    let address = web.kill();
    let lost = host.event("the loss", |e| e["event"] == "lost");
    assert_eq!(lost["cause"]["kind"], "unreachable");
    let _web = Web::start_at(address, |_| None);
    host.event("ready again", |e| {
        e["state"] == "ready" && e["generation"] != 1
    });
}

/// FM-21 over HTTP: each way in which a call can end has a kind of its own, and the caller's cancellation is none of
/// them.
#[test]
fn fm_21_every_end_has_its_own_kind_over_http() {
    let denied = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let deny = denied.clone();
    let web = Web::start(move |request| match request.tool() {
        _ if deny.load(Ordering::SeqCst) => Some(response(401, &[], "")),
        "hang" => Some(vec![stream(), Act::Hang]),
        "reset" => Some(vec![Act::Reset]),
        "large" => Some(response(413, &[], "")),
        "wrong" => Some(message(
            &json!({"jsonrpc": "2.0", "id": request.body["id"], "error": {"code": 7, "message": "no"}}),
        )),
        _ => None,
    });
    let mut host = host(&web.url(), &["--request-timeout", "3s"]);
    let cancelled = host.call("hang", json!({}));
    web.wait_for(1, "the call", |request| request.tool() == "hang");
    host.cancel(cancelled);
    assert_eq!(host.ask("wrong", json!({})).error()["code"], 7);
    assert_eq!(host.ask("wrong", json!({})).kind(), None);
    host.ask("reset", json!({})).refused("connection_lost");
    host.ask("large", json!({})).refused("rejected");
    host.ask("hang", json!({})).refused("timeout");
    denied.store(true, Ordering::SeqCst);
    host.ask("echo", json!({})).refused("unavailable");
    assert_eq!(host.answers(cancelled), 0);
}

/// A tool's own error, and one of the protocol, pass as they are.
#[test]
fn errors_of_the_server_pass_whatever_their_status() {
    let web = Web::start(|request| {
        let error = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": {"code": -32602, "message": "no"}});
        match request.tool() {
            "good" => Some(message(&error)),
            "bad" => Some(response(
                400,
                &[("content-type", "application/json")],
                &error.to_string(),
            )),
            "look" => Some(message(&result(request, "pretty"))),
            _ => None,
        }
    });
    let mut host = host(&web.url(), &[]);
    for tool in ["good", "bad"] {
        assert_eq!(host.ask(tool, json!({})).error()["code"], -32602);
    }
    assert_eq!(host.ask("look", json!({})).text(), "pretty");
}
