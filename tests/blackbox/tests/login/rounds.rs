//! Hosts of 2026-07-28, which are told of a login by the answer to a call (`input_required`).

use std::time::Duration;

use serde_json::{Value, json};

use crate::person::{Link, asked, logged_in, setup};
use crate::provider::Provider;
use crate::rig::Host;

fn provider() -> Provider {
    Provider::start(Duration::from_secs(3600))
}

fn able() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}})
}

/// A call of a modern client with these capabilities.
fn call(host: &mut Host, capabilities: &Value, more: Value) -> i64 {
    let mut params = json!({
        "name": "echo",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        },
    });
    for (name, value) in more.as_object().expect("an object") {
        params[name] = value.clone();
    }
    host.request("tools/call", params)
}

/// A modern host whose login was withdrawn.
fn withdrawn(provider: &Provider, store: &str, flags: &[&str]) -> Host {
    let mut host = setup(provider, store).flags(flags).start();
    let id = call(&mut host, &able(), json!({}));
    host.answer(id).result();
    provider.withdraw_all();
    host
}

/// What comes back to a call that waits for a login: the link, and the state.
fn question(host: &Host, id: i64) -> (Link, String) {
    let answer = host.answer(id);
    let result = answer.result();
    assert_eq!(result["resultType"], "input_required", "{result}");
    let asks = result["inputRequests"].as_object().expect("questions");
    let ask = &asks["outlive-login"];
    assert_eq!(
        (&ask["method"], asks.len()),
        (&json!("elicitation/create"), 1)
    );
    assert_eq!(ask["params"]["mode"], "url");
    let link = Link::read(ask["params"]["url"].as_str().expect("a link"));
    let state = result["requestState"].as_str().expect("a state");
    (link, state.to_owned())
}

fn answered(state: &str, action: &str) -> Value {
    json!({"requestState": state, "inputResponses": {"outlive-login": {"action": action}}})
}

/// The person accepts, logs in by the link, and the call that came back is answered; one that came meanwhile as well.
/// The server never sees what went between us and the host.
#[test]
fn a_call_is_answered_with_the_link_and_comes_back() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let mut host = withdrawn(&provider, &store, &[]);
    let first = call(&mut host, &able(), json!({}));
    let (link, state) = question(&host, first);
    let others: Vec<i64> = (0..3)
        .map(|_| call(&mut host, &able(), json!({})))
        .collect();
    let again = call(&mut host, &able(), answered(&state, "accept"));
    link.log_in(&provider);
    for id in others.into_iter().chain([again]) {
        let answer = host.answer(id);
        assert_ne!(answer.result()["resultType"], "input_required");
    }
    // Who accepts and comes back when all is done waits for nothing.
    let late = call(&mut host, &able(), answered(&state, "accept"));
    host.answer(late).result();
    assert_eq!((asked(&host), provider.books().logins), (1, 2));
    for request in provider.web.seen() {
        let text = request.text();
        assert!(
            !text.contains("outlive-login") && !text.contains("requestState"),
            "{text}"
        );
    }
    provider.check();
    let all: Vec<u8> = host.lines().concat();
    provider.check_hidden(&String::from_utf8_lossy(&all));
}

/// The person declines: the call that comes back fails at once, and says so.
#[test]
fn a_person_who_declines_ends_the_waiting() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let mut host = withdrawn(&provider, &store, &[]);
    let first = call(&mut host, &able(), json!({}));
    let (_, state) = question(&host, first);
    let again = call(&mut host, &able(), answered(&state, "decline"));
    let answer = host.answer(again);
    assert!(
        answer.message().contains("declined"),
        "{}",
        answer.message()
    );
    assert!(answer.message().contains("It was not executed."));
    assert_eq!(asked(&host), 1);
}

/// A link that was dismissed is no answer of a person: the call waits, says where to log in, and the login goes on.
#[test]
fn what_is_dismissed_waits_as_before() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let mut host = withdrawn(&provider, &store, &["--hold", "1s"]);
    let first = call(&mut host, &able(), json!({}));
    let (link, state) = question(&host, first);
    let again = call(&mut host, &able(), answered(&state, "cancel"));
    let answer = host.answer(again);
    assert!(
        answer.message().contains("/authorize?"),
        "{}",
        answer.message()
    );
    link.log_in(&provider);
    host.logged(1, "logged_in", |_| true);
    let id = call(&mut host, &able(), json!({}));
    host.answer(id).result();
    assert_eq!((asked(&host), provider.books().logins), (1, 2));
}

/// A client without links gets none; its call waits for the login.
#[test]
fn a_client_without_links_waits() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let mut host = withdrawn(&provider, &store, &[]);
    let id = call(&mut host, &json!({"elicitation": {"form": {}}}), json!({}));
    crate::person::link_of(&host, 1).log_in(&provider);
    assert_ne!(host.answer(id).result()["resultType"], "input_required");
    assert_eq!(provider.books().logins, 2);
}
