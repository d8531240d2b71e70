//! Somebody has to log in at the server, and a host of 2026-07-28 is told by an answer.

use outlive_core::LinkInput;
use outlive_core::cause::Exit;
use outlive_core::link::Resend;
use outlive_core::login::LoginStatus;
use outlive_core::message::Id;
use serde_json::{Value, json};

use crate::pair::*;

fn wanted(number: u64) -> LinkInput {
    LinkInput::Login(LoginStatus::Wanted {
        number,
        link: "https://as.example/authorize?a=b".into(),
        code: Some("AB-CD".into()),
    })
}

fn challenged(id: i64) -> LinkInput {
    LinkInput::Challenged { id: Id::Int(id) }
}

/// A request of a client with these capabilities, and with these parameters besides.
fn with(id: u64, method: &str, capabilities: Value, more: Value) -> String {
    let mut params = json!({
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "h", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        },
        "name": "risky",
    });
    for (name, value) in more.as_object().expect("an object") {
        params[name] = value.clone();
    }
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn links() -> Value {
    json!({"elicitation": {"url": {}}})
}

fn call(id: u64, more: Value) -> String {
    with(id, "tools/call", links(), more)
}

/// A host of which these calls wait for a login.
fn waiting(calls: &[u64]) -> Pair {
    let mut p = Pair::modern();
    p.forget();
    for id in calls {
        p.host(&call(*id, json!({})));
        p.link(challenged(*id as i64));
    }
    p.forget();
    p
}

fn told(p: &mut Pair) -> Vec<Value> {
    let read = |line: &String| serde_json::from_str(line).expect("JSON");
    p.at_host().iter().map(read).collect()
}

fn sent(p: &mut Pair) -> Vec<Value> {
    let read = |line: &String| serde_json::from_str(line).expect("JSON");
    p.at_link().iter().map(read).collect()
}

/// The state of the one answer that asks for a login.
fn state(p: &mut Pair, id: u64) -> String {
    let told = told(p);
    assert_eq!(told.len(), 1, "{told:?}");
    let result = &told[0]["result"];
    assert_eq!(
        (&told[0]["id"], &result["resultType"]),
        (&json!(id), &json!("input_required"))
    );
    let asks = result["inputRequests"].as_object().expect("questions");
    assert_eq!(asks.len(), 1);
    let ask = asks.values().next().expect("a question");
    assert_eq!(ask["method"], "elicitation/create");
    assert_eq!(ask["params"]["mode"], "url");
    assert_eq!(ask["params"]["url"], "https://as.example/authorize?a=b");
    let words = ask["params"]["message"].as_str().expect("words");
    assert!(words.contains("AB-CD"), "{words}");
    result["requestState"].as_str().expect("a state").to_owned()
}

fn answered(state: &str, action: &str) -> Value {
    json!({"requestState": state, "inputResponses": {"outlive-login": {"action": action}}})
}

#[test]
fn one_call_that_waits_is_answered_with_the_link_and_comes_back() {
    let mut p = waiting(&[1, 2]);
    p.link(wanted(7));
    let state = state(&mut p, 1);
    let withdrawn = sent(&mut p);
    assert_eq!(withdrawn.len(), 1, "{withdrawn:?}");
    assert_eq!(withdrawn[0]["method"], "notifications/cancelled");
    assert_eq!(withdrawn[0]["params"]["requestId"], 1);
    p.link(wanted(7));
    p.host(&call(3, json!({})));
    p.link(challenged(3));
    assert_eq!(p.at_host(), [""; 0], "one for each login");
    p.forget();
    p.host(&call(4, answered(&state, "accept")));
    let again = sent(&mut p);
    assert_eq!(again.len(), 1);
    let plain: Value = serde_json::from_str(&call(4, json!({}))).unwrap();
    assert_eq!(again[0], plain, "the server sees nothing of it");
    p.link(challenged(4));
    assert_eq!(p.at_host(), [""; 0], "it waits now");
    p.link(LinkInput::Login(LoginStatus::Granted));
    for id in [2, 3, 4] {
        let why = Resend::Credentials;
        p.link(LinkInput::Unexecuted {
            id: Id::Int(id),
            why,
        });
        assert_eq!(p.all(), ["resent".to_owned(), format!("resend {id}: true")]);
        p.result(id as u64, "{}");
        assert_eq!(told(&mut p)[0]["id"], id);
    }
}

#[test]
fn a_call_that_is_refused_while_somebody_logs_in_is_told_too() {
    let mut p = waiting(&[]);
    p.link(wanted(7));
    p.host(&call(1, json!({})));
    assert_eq!(p.at_host(), [""; 0], "it may be executed");
    p.link(challenged(1));
    state(&mut p, 1);
    // The next login is told again.
    p.link(LinkInput::Login(LoginStatus::Failed));
    p.host(&call(2, json!({})));
    p.link(challenged(2));
    assert_eq!(p.at_host(), [""; 0]);
    p.link(wanted(8));
    state(&mut p, 2);
}

#[test]
fn what_is_on_its_way_again_is_not_answered() {
    let mut p = waiting(&[1]);
    let why = Resend::Credentials;
    p.link(LinkInput::Unexecuted {
        id: Id::Int(1),
        why,
    });
    p.forget();
    p.link(wanted(7));
    assert_eq!((p.at_host(), p.at_link()), (vec![], vec![]));
}

#[test]
fn only_a_person_who_declines_this_login_ends_it() {
    for (action, orders) in [
        ("decline", vec!["decline login 1".to_owned()]),
        ("cancel", vec![]),
        ("accept", vec![]),
        ("", vec![]),
    ] {
        let mut p = waiting(&[1]);
        p.link(wanted(7));
        let state = state(&mut p, 1);
        p.host(&call(2, answered(&state, action)));
        assert_eq!(p.orders(), orders, "{action}");
        p.forget();
        p.link(LinkInput::Login(LoginStatus::Failed));
        p.link(wanted(8));
        p.host(&call(3, answered(&state, "decline")));
        assert_eq!(p.orders(), [""; 0], "that was another login");
    }
}

#[test]
fn others_are_not_told() {
    let form = json!({"elicitation": {"form": {}}});
    for (method, capabilities, more) in [
        ("tools/call", json!({}), json!({})),
        ("tools/call", form, json!({})),
        (
            "tools/call",
            json!({"elicitation": {"url": null}}),
            json!({}),
        ),
        ("tools/list", links(), json!({})),
        ("server/discover", links(), json!({})),
        // Whoever comes back to the server with its state is in the middle of something.
        ("tools/call", links(), json!({"requestState": "theirs"})),
        ("tools/call", links(), json!({"inputResponses": {}})),
    ] {
        let mut p = waiting(&[]);
        p.host(&with(1, method, capabilities.clone(), more.clone()));
        p.link(challenged(1));
        p.forget();
        p.link(wanted(7));
        assert_eq!(p.at_host(), [""; 0], "{method} {capabilities} {more}");
        assert_eq!(p.at_link(), [""; 0], "{method} {capabilities} {more}");
    }
    // A host that has greeted is asked, not answered.
    let mut p = Pair::ready();
    p.call(1, "risky");
    p.link(challenged(1));
    p.forget();
    p.link(wanted(7));
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn what_is_the_servers_reaches_it() {
    let mut p = waiting(&[1]);
    p.link(wanted(7));
    let state = state(&mut p, 1);
    p.forget();
    let both = json!({"outlive-login": {"action": "accept"}, "theirs": {"action": "accept"}});
    let more = json!({"requestState": state, "inputResponses": both});
    p.host(&call(2, more));
    let again = sent(&mut p);
    let params = &again[0]["params"];
    assert_eq!(
        params["inputResponses"],
        json!({"theirs": {"action": "accept"}})
    );
    assert_eq!(params["requestState"], Value::Null);
    // What only looks like ours is theirs.
    for theirs in ["outlive-login-", "outlive-login-x", "about outlive-login-7"] {
        p.forget();
        p.host(&call(3, json!({"requestState": theirs})));
        assert_eq!(sent(&mut p)[0]["params"]["requestState"], theirs);
        p.cancel(3);
    }
    // And the words may be anywhere else.
    p.forget();
    let text = call(
        4,
        json!({"arguments": {"text": "outlive-login-0000000000000007"}}),
    );
    p.host(&text);
    assert_eq!(p.at_link(), [text]);
}

#[test]
fn an_id_that_was_told_may_be_used_again() {
    let mut p = waiting(&[1]);
    p.link(wanted(7));
    let state = state(&mut p, 1);
    p.forget();
    p.host(&call(1, answered(&state, "accept")));
    let again = sent(&mut p);
    assert_ne!(
        again[0]["id"], 1,
        "the link may still say something of the first"
    );
    p.link(challenged(1));
    p.link(LinkInput::Login(LoginStatus::Granted));
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn what_may_have_been_executed_before_is_not_told() {
    let mut p = Pair::modern();
    p.forget();
    let look = call(1, json!({"name": "look"}));
    p.host(&look);
    p.die(Exit::Signal(9));
    p.revive();
    p.forget();
    p.link(challenged(1));
    p.link(wanted(7));
    assert_eq!(told(&mut p), [Value::Null; 0]);
}
