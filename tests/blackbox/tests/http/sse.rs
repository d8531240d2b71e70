//! HTTP+SSE (2024-11-05), and finding out which transport a server speaks (FM-71).

use serde_json::json;

use crate::rig::{Host, Setup};
use crate::web::{Act, Reply, Request, Web, response, result, stream};

/// A server that speaks HTTP+SSE and nothing else.
fn sse_only(request: &Request) -> Option<Reply> {
    let said =
        |message: serde_json::Value| Act::Aside(format!("event: message\ndata: {message}\n\n"));
    let accepted = |message| {
        let mut reply = response(202, &[], "Accepted");
        reply.push(said(message));
        Some(reply)
    };
    let id = &request.body["id"];
    match (
        request.method.as_str(),
        request.path.as_str(),
        request.rpc(),
    ) {
        ("GET", "/mcp", _) => {
            let endpoint = Act::Send("event: endpoint\ndata: /messages?session=1\n\n".into());
            Some(vec![stream(), Act::Outlet, endpoint, Act::Hang])
        }
        ("POST", "/messages?session=1", "initialize") => {
            accepted(json!({"jsonrpc": "2.0", "id": id, "result": {
            "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"}}}))
        }
        ("POST", "/messages?session=1", "tools/list") => {
            accepted(json!({"jsonrpc": "2.0", "id": id, "result": {"tools": []}}))
        }
        ("POST", "/messages?session=1", "tools/call") if request.tool() == "hang" => {
            Some(response(202, &[], ""))
        }
        ("POST", "/messages?session=1", "tools/call") => accepted(result(request, "old but well")),
        ("POST", "/messages?session=1", _) => Some(response(202, &[], "")),
        _ => Some(response(405, &[], "")),
    }
}

/// A server that speaks HTTP+SSE only is found out and used; when it dies, its calls are settled, and its
/// successor is not asked again what it speaks.
#[test]
fn fm_71_an_old_server_is_found_used_and_remembered() {
    let web = Web::start(sse_only);
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    assert_eq!(host.ask("echo", json!({})).text(), "old but well");
    let call = host.call("hang", json!({}));
    web.wait_for(1, "the call", |request| request.tool() == "hang");
    let address = web.kill();
    host.answer(call).refused("connection_lost");
    let web = Web::start_at(address, sse_only);
    assert_eq!(host.ask("echo", json!({})).text(), "old but well");
    let refused = web
        .seen()
        .iter()
        .filter(|request| request.method == "POST" && request.path == "/mcp")
        .count();
    assert_eq!(refused, 0, "it is known to be an old one");
    host.hang_up();
    assert_eq!(host.exit().code(), Some(0));
}

/// With `--transport sse` nothing is tried before.
#[test]
fn the_transport_can_be_forced() {
    let web = Web::start(sse_only);
    let setup = Setup::new().flags(&["--transport", "sse"]);
    let mut host = Host::ready(setup.server(&[&web.url()]));
    assert_eq!(host.ask("echo", json!({})).text(), "old but well");
    assert_eq!(web.seen()[0].method, "GET");

    let setup = Setup::new().flags(&["--transport", "http"]);
    let mut host = setup.server(&[&web.url()]).start();
    let id = host.request("initialize", json!({}));
    host.answer(id).refused("rejected");
}

/// FM-71: where neither is spoken, both reasons are told; and only an old server's refusals make us look for one.
#[test]
fn fm_71_both_reasons_are_told_and_no_fault_is_masked() {
    let web = Web::start(|_| Some(response(404, &[], "")));
    let mut host = Setup::new().server(&[&web.url()]).start();
    let id = host.request("initialize", json!({}));
    let answer = host.answer(id);
    answer.refused("unavailable");
    assert!(
        answer
            .message()
            .contains("neither Streamable HTTP (POST: status 404) nor HTTP+SSE (GET: status 404)"),
        "{}",
        answer.message()
    );

    for (status, kind) in [
        (500, "connection_lost"),
        (401, "unavailable"),
        (413, "rejected"),
    ] {
        let web = Web::start(move |_| Some(response(status, &[], "")));
        let mut host = Setup::new().server(&[&web.url()]).start();
        let id = host.request("initialize", json!({}));
        let answer = host.answer(id);
        answer.refused(kind);
        assert!(
            answer.message().contains(&status.to_string()),
            "{}",
            answer.message()
        );
        // What is asked at other paths is whether there is a login.
        let mut seen = web.seen().into_iter();
        assert!(seen.all(|request| request.method == "POST" || request.path != "/mcp"));
    }
}

/// FM-71: a server that takes connections and says nothing is given up in time, and is not taken for an old one.
#[test]
fn fm_71_a_black_hole_is_given_up_in_time() {
    let web = Web::start(|_| Some(vec![Act::Hang]));
    let mut host = Setup::new()
        .flags(&["--start-timeout", "1s", "--breaker-failures", "1"])
        .server(&[&web.url()])
        .start();
    let id = host.request("initialize", json!({}));
    host.answer(id).refused("unavailable");
    assert!(web.seen().iter().all(|request| request.method == "POST"));
}

/// FM-71: a server that speaks both is used by the newer transport, and goes on being used so.
#[test]
fn fm_71_of_two_transports_the_newer_is_used() {
    let web = Web::start(|request| {
        (request.method == "GET")
            .then(|| sse_only(request))
            .flatten()
    });
    let mut host = Host::ready(Setup::new().server(&[&web.url()]));
    assert!(
        host.ask("echo", json!({}))
            .text()
            .starts_with("echo by session-")
    );
    assert!(web.seen().iter().all(|request| request.path == "/mcp"));
}

/// An old server that sends us elsewhere with our messages is not followed.
#[test]
fn an_endpoint_at_another_origin_is_refused() {
    let web = Web::start(|request| {
        Some(match request.method.as_str() {
            "GET" => vec![
                stream(),
                Act::Send("event: endpoint\ndata: http://example.com/messages\n\n".into()),
                Act::Hang,
            ],
            _ => response(405, &[], ""),
        })
    });
    let mut host = Setup::new().server(&[&web.url()]).start();
    let id = host.request("initialize", json!({}));
    let answer = host.answer(id);
    answer.refused("unavailable");
    assert!(
        answer.message().contains("another origin"),
        "{}",
        answer.message()
    );
}
