//! What a handler sees of the request that brought it.

use std::thread;

use outlive::server::{Ctx, Server};
use serde_json::json;

use crate::rig::*;

/// A server whose tool says who called it, one call after the other.
fn server() -> Server {
    let who = |ctx: Ctx, (): ()| async move {
        tokio::task::yield_now().await;
        let who = ctx.headers().map(|headers| headers.get("x-who"));
        let who = who.map(|it| it.and_then(|it| it.to_str().ok()).unwrap_or("nobody"));
        who.unwrap_or("no headers").to_owned()
    };
    Server::builder("test", "1.0.0")
        .concurrency(1)
        .tool("who", "Says who called.", who)
        .build()
}

/// What a modern client called so is told.
fn told(rig: &Rig, name: &str) -> String {
    let request = modern_call(1, "who", json!({}));
    let mut headers = modern_headers(&request);
    headers.push(("X-Who".into(), name.into()));
    let reply = rig.send("POST", &as_strs(&headers), &request.to_string());
    text_of(&reply.answer()).to_owned()
}

#[test]
fn each_call_has_the_headers_it_came_with_also_if_it_had_to_wait() {
    let server = server();
    let rig = Rig::new(&server);
    thread::scope(|all| {
        for n in 0..8 {
            let rig = &rig;
            all.spawn(move || assert_eq!(told(rig, &format!("client {n}")), format!("client {n}")));
        }
    });
    assert_eq!(
        text_of(&rig.modern(&modern_call(2, "who", json!({}))).answer()),
        "nobody"
    );
}

#[test]
fn each_call_of_a_session_has_headers_of_its_own() {
    let server = server();
    let rig = Rig::new(&server);
    let client = rig.client();
    for name in ["first", "second"] {
        let headers = [
            ("Mcp-Session-Id", &*client.session),
            ("MCP-Protocol-Version", "2025-11-25"),
            ("X-Who", name),
        ];
        let call = call(1, "who", json!({})).to_string();
        assert_eq!(text_of(&rig.send("POST", &headers, &call).answer()), name);
    }
    assert_eq!(
        text_of(&client.call(3, "who", json!({})).answer()),
        "nobody"
    );
}

#[test]
fn a_message_to_a_stream_has_those_it_was_posted_with() {
    let server = server();
    let rig = Rig::new(&server);
    let mut stream = rig.send_to("/sse", "GET", &[], "");
    let address = stream.event().expect("an event").data;
    let post = |message: &serde_json::Value, name: &str| {
        let posted = rig.send_to(&address, "POST", &[("X-Who", name)], &message.to_string());
        assert_eq!(posted.status, 202);
    };
    post(&initialize(), "other");
    stream.message();
    post(
        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        "other",
    );
    post(&call(1, "who", json!({})), "me");
    assert_eq!(text_of(&stream.message()), "me");
}

#[tokio::test]
async fn there_are_none_without_http() {
    let client = outlive::Client::builder().server(&server()).connect().await;
    let client = client.expect("to connect");
    let said = client.call("who", json!({})).await.expect("a result");
    assert_eq!(said.text(), "no headers");
}

/// A server whose tool says who the front has found the caller to be, and shows the headers as a log would.
fn telling() -> Server {
    let who = |ctx: Ctx, (): ()| async move {
        let principal = ctx.principal().map(|it| it.to_string());
        format!("{principal:?} {:?} {ctx:?}", ctx.headers())
    };
    Server::builder("test", "1.0.0")
        .tool("who", "Says who called.", who)
        .build()
}

#[test]
fn a_caller_is_known_by_its_token_which_is_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens");
    std::fs::write(&path, "first-secret\nsecond-secret\n").expect("written");
    let server = telling();
    let rig = Rig::with(&server, |http| http.token_file(&path));
    let said = |token: &str| {
        let request = modern_call(1, "who", json!({}));
        let mut headers = modern_headers(&request);
        headers.push(("Authorization".into(), format!("Bearer {token}")));
        headers.push(("Cookie".into(), "login=third-secret".into()));
        let reply = rig.send("POST", &as_strs(&headers), &request.to_string());
        text_of(&reply.answer()).to_owned()
    };
    let (first, second) = (said("first-secret"), said("second-secret"));
    assert!(first.starts_with("Some(\"token-1\")"), "{first}");
    assert!(second.starts_with("Some(\"token-2\")"), "{second}");
    assert!(said("first-secret").starts_with("Some(\"token-1\")"));
    assert!(first.contains("\"authorization\": Sensitive"), "{first}");
    assert!(!first.contains("-secret"), "{first}");
}

#[tokio::test]
async fn without_tokens_a_caller_is_anyone_and_without_http_nobody() {
    let server = telling();
    let client = outlive::Client::builder().server(&server).connect().await;
    let client = client.expect("to connect");
    let said = client.call("who", json!({})).await.expect("a result");
    assert!(said.text().starts_with("None None"), "{}", said.text());

    let said = tokio::task::spawn_blocking(move || {
        let rig = Rig::new(&server);
        rig.modern(&modern_call(1, "who", json!({}))).answer()
    });
    let said = said.await.expect("no panic");
    assert!(text_of(&said).starts_with("Some(\"anyone\")"), "{said}");
}
