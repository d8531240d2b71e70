//! Somebody has to log in at the server, and the host is told.

use std::time::Duration;

use outlive_core::cause::Exit;
use outlive_core::login::LoginStatus;
use outlive_core::policy::Policy;
use outlive_core::{Input, LinkInput};
use serde_json::{Value, json};

use crate::pair::*;

fn wanted(number: u64) -> LinkInput {
    LinkInput::Login(LoginStatus::Wanted {
        number,
        link: "https://as.example/authorize?a=b".into(),
        code: None,
    })
}

/// A host whose client declares these capabilities.
fn greeted(capabilities: &str) -> Pair {
    let mut policy = Policy::default();
    policy.request_timeout = Some(Duration::from_secs(10));
    policy.elicitation = Duration::from_secs(60);
    let mut p = Pair::new(policy);
    p.up();
    p.host(&INITIALIZE.replace(
        r#""capabilities":{}"#,
        &format!(r#""capabilities":{capabilities}"#),
    ));
    p.result(0, WELCOME);
    p.host(INITIALIZED);
    p.forget();
    p
}

fn able() -> Pair {
    greeted(r#"{"elicitation":{"url":{}}}"#)
}

fn told(p: &mut Pair) -> Vec<Value> {
    let lines = p.at_host();
    lines
        .iter()
        .map(|it| serde_json::from_str(it).expect("JSON"))
        .collect()
}

fn answer(ask: &Value, result: Value) -> String {
    json!({"jsonrpc": "2.0", "id": ask["id"], "result": result}).to_string()
}

/// The one request that the host was sent.
fn asked(p: &mut Pair) -> Value {
    let told = told(p);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["method"], "elicitation/create");
    told[0].clone()
}

#[test]
fn a_host_that_shows_links_is_asked_once_and_told_of_the_end() {
    let mut p = able();
    p.link(wanted(7));
    p.link(wanted(7));
    let ask = asked(&mut p);
    assert_eq!(ask["params"]["mode"], "url");
    assert_eq!(ask["params"]["url"], "https://as.example/authorize?a=b");
    p.host(&answer(&ask, json!({"action": "accept"})));
    assert_eq!(
        (p.orders(), p.at_link()),
        (vec![], vec![]),
        "the server hears nothing of it"
    );
    p.link(LinkInput::Login(LoginStatus::Granted));
    let told = told(&mut p);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["method"], "notifications/elicitation/complete");
    assert_eq!(
        told[0]["params"]["elicitationId"],
        ask["params"]["elicitationId"]
    );
    p.link(LinkInput::Login(LoginStatus::Granted));
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn only_a_person_who_declines_ends_it() {
    for (result, orders) in [
        (
            json!({"action": "decline"}),
            vec!["decline login 1".to_owned()],
        ),
        (json!({"action": "cancel"}), vec![]),
        (json!({"action": "accept"}), vec![]),
        (json!(5), vec![]),
    ] {
        let mut p = able();
        p.link(wanted(7));
        let ask = asked(&mut p);
        p.host(&answer(&ask, result.clone()));
        assert_eq!(p.orders(), orders, "{result}");
        p.host(&answer(&ask, json!({"action": "decline"})));
        assert_eq!(p.orders(), [""; 0], "once");
    }
    let mut p = able();
    p.link(wanted(7));
    let ask = asked(&mut p);
    p.host(
        &json!({"jsonrpc": "2.0", "id": ask["id"], "error": {"code": -32601, "message": "no"}})
            .to_string(),
    );
    assert_eq!((p.orders(), p.at_link()), (vec![], vec![]));
}

#[test]
fn a_host_that_has_not_answered_is_told_that_it_need_not() {
    for (end, said) in [(LoginStatus::Failed, 1), (LoginStatus::Granted, 2)] {
        let mut p = able();
        p.link(wanted(7));
        let ask = asked(&mut p);
        p.link(LinkInput::Login(end));
        let told = told(&mut p);
        assert_eq!(told.len(), said, "{told:?}");
        assert_eq!(told[0]["method"], "notifications/cancelled");
        assert_eq!(told[0]["params"]["requestId"], ask["id"]);
        p.host(&answer(&ask, json!({"action": "decline"})));
        assert_eq!((p.orders(), p.at_link()), (vec![], vec![]));
    }
}

#[test]
fn others_are_not_asked() {
    for capabilities in [
        "{}",
        r#"{"elicitation":{}}"#,
        r#"{"elicitation":{"form":{}}}"#,
        r#"{"elicitation":{"url":null}}"#,
    ] {
        let mut p = greeted(capabilities);
        p.link(wanted(7));
        p.link(LinkInput::Login(LoginStatus::Granted));
        assert_eq!(p.at_host(), [""; 0], "{capabilities}");
    }
    // Before the greeting is done nothing may be asked.
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&INITIALIZE.replace(
        r#""capabilities":{}"#,
        r#""capabilities":{"elicitation":{"url":{}}}"#,
    ));
    p.forget();
    p.link(wanted(7));
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn the_next_link_asks_again_and_another_login_replaces_the_first() {
    let mut p = able();
    p.link(wanted(7));
    let first = asked(&mut p);
    p.link(wanted(8));
    let told_now = told(&mut p);
    assert_eq!(told_now[0]["params"]["requestId"], first["id"]);
    assert_ne!(
        told_now[1]["params"]["elicitationId"],
        first["params"]["elicitationId"]
    );
    p.die(Exit::Signal(9));
    let taken_back = told(&mut p);
    assert_eq!(taken_back[0]["method"], "notifications/cancelled");
    p.revive();
    p.forget();
    p.link(wanted(8));
    asked(&mut p);
}

#[test]
fn the_clocks_wait_for_the_person_and_a_host_that_leaves_is_not_asked() {
    let mut p = able();
    p.call(1, "risky");
    p.forget();
    p.link(wanted(7));
    asked(&mut p);
    p.advance(50_000);
    assert_eq!(p.failures().len(), 0, "it waits for the person");
    p.advance(25_000);
    assert_eq!(p.failures().len(), 1, "but not for ever");
    p.feed(Input::HostClosed);
    p.forget();
    p.link(LinkInput::Login(LoginStatus::Granted));
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn a_server_cannot_take_it_back() {
    let mut p = able();
    p.link(wanted(7));
    let ask = asked(&mut p);
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ask["id"]}});
    p.server(&cancel.to_string());
    assert_eq!(p.at_host(), [""; 0]);
}
