//! The life of a legacy session on the wire.

use serde_json::json;

use crate::rig::{Host, Setup};
use crate::web::{Act, Web, event, response, result, stream};

/// `initialize` goes first and alone, `notifications/initialized` before all the rest, even if the host does not
/// wait; from then on every request names the session and the version; at the end it is deleted.
#[test]
fn a_session_from_beginning_to_end() {
    let web = Web::start(|_| None);
    let mut host = Setup::new().server(&[&web.url()]).start();
    let initialize = host.request(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "rig", "version": "0"}}),
    );
    host.notify("notifications/initialized", json!({}));
    let list = host.request("tools/list", json!({}));
    let call = host.call("echo", json!({}));
    for id in [initialize, list, call] {
        host.answer(id).result();
    }
    host.hang_up();
    assert_eq!(host.exit().code(), Some(0));

    let seen = web.seen();
    assert_eq!(seen[0].rpc(), "initialize");
    assert_eq!(seen[1].rpc(), "notifications/initialized");
    assert_eq!(seen[0].header("mcp-session-id"), None);
    assert_eq!(
        seen[0].header("accept"),
        Some("application/json, text/event-stream")
    );
    for request in &seen[1..] {
        let name = request.header("mcp-session-id").expect("a session");
        assert!(name.starts_with("session-"), "{request:?}");
        assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"));
    }
    assert!(seen.iter().any(|request| request.method == "GET"));
    assert_eq!(
        seen.last().map(|request| request.method.as_str()),
        Some("DELETE")
    );
    assert_eq!(web.open_sessions(), 0);
}

/// A server that is slow to hear of the end does not keep us.
#[test]
fn the_end_is_bounded() {
    let web = Web::start(|request| (request.method == "DELETE").then(|| vec![Act::Hang]));
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    host.hang_up();
    assert_eq!(host.exit().code(), Some(0));
}

/// FM-46, legacy: a cancellation is a notification; the stream is not simply closed.
#[test]
fn fm_46_a_legacy_server_is_told_of_a_cancellation() {
    let web = Web::start(|request| (request.tool() == "echo").then(|| vec![stream(), Act::Hang]));
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    let call = host.call("echo", json!({}));
    web.wait_for(1, "the call", |request| request.tool() == "echo");
    host.cancel(call);
    let told = web.wait_for(1, "the cancellation", |request| {
        request.rpc() == "notifications/cancelled"
    });
    assert_eq!(told[0].body["params"]["requestId"], call);
    host.ask("look", json!({})).result();
    assert_eq!(host.answers(call), 0);
    assert_eq!(web.asked("initialize").len(), 1);
}

/// The server asks on the stream of a call, and is answered with a POST.
#[test]
fn questions_of_the_server_are_answered() {
    let web = Web::start(|request| {
        let ask = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "?"}});
        let progress = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
        (request.tool() == "echo").then(|| {
            vec![
                stream(),
                event(&progress),
                event(&ask),
                Act::Wait(std::time::Duration::from_millis(300)),
                event(&result(request, "asked")),
                Act::Close,
            ]
        })
    });
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    let call = host.call("echo", json!({}));
    host.wait_for("the question", |m| m["method"] == "elicitation/create");
    host.send(&json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "decline"}}));
    let answers = web.wait_for(1, "the answer", |request| request.body["id"] == "q");
    assert_eq!(answers[0].body["result"]["action"], "decline");
    assert_eq!(host.answer(call).text(), "asked");
    assert_eq!(host.notified("notifications/message").len(), 1);
}

/// A server that keeps no sessions is used without.
#[test]
fn a_server_without_sessions() {
    let web = Web::start(|request| {
        let id = &request.body["id"];
        match request.rpc() {
            "initialize" => Some(crate::web::message(
                &json!({"jsonrpc": "2.0", "id": id, "result": {
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1"}}}),
            )),
            "tools/call" => Some(crate::web::message(&result(request, "fine"))),
            "tools/list" => Some(crate::web::message(
                &json!({"jsonrpc": "2.0", "id": id, "result": {"tools": []}}),
            )),
            _ if request.method == "GET" => Some(response(405, &[], "")),
            _ => Some(response(202, &[], "")),
        }
    });
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    assert_eq!(host.ask("echo", json!({})).text(), "fine");
    host.hang_up();
    assert_eq!(host.exit().code(), Some(0));
    let seen = web.seen();
    assert!(seen.iter().all(|request| request.method != "DELETE"));
    assert!(
        seen.iter()
            .all(|request| request.header("mcp-session-id").is_none())
    );
}
