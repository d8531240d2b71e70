//! A server that is somewhere else, served again: `outlive serve URL`.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::gate::{Gate, kind, text};
use crate::rig::Setup;
use crate::web::{Act, Web};
use crate::wire::modern_call;

#[test]
fn a_call_that_breaks_off_is_told_of_and_the_next_works() {
    let calls = AtomicUsize::new(0);
    let web = Web::start(move |request| {
        let first = request.rpc() == "tools/call" && calls.fetch_add(1, Ordering::SeqCst) == 0;
        first.then(|| vec![Act::Reset])
    });
    let gate = Gate::before(Setup::new(), &[], &[&web.url()]);
    let client = gate.client();
    let lost = client.call(1, "echo", json!({})).answer();
    assert_eq!(kind(&lost), "connection_lost");
    let next = client.call(2, "echo", json!({})).answer();
    assert!(text(&next).starts_with("echo by session-"), "{next}");
}

#[test]
fn a_server_that_forgets_its_sessions_costs_no_call_and_no_session_of_ours() {
    let web = Web::start(|_| None);
    let gate = Gate::before(Setup::new(), &[], &[&web.url()]);
    let client = gate.client();
    web.forget_sessions();
    let next = client.call(1, "echo", json!({})).answer();
    assert!(text(&next).starts_with("echo by session-"), "{next}");
    assert_eq!(web.asked("initialize").len(), 2);
}

#[test]
fn a_server_that_is_deployed_anew_is_found_again() {
    let web = Web::start(|_| None);
    let gate = Gate::before(Setup::new(), &[], &[&web.url()]);
    let client = gate.client();
    let address = web.kill();
    let web = Web::start_at(address, |_| None);
    let next = client.call(1, "echo", json!({})).answer();
    assert!(text(&next).starts_with("echo by session-"), "{next}");
    gate.stop();
    gate.join();
    assert_eq!(web.open_sessions(), 0, "it was told that we left");
}

/// One gateway behind another: modern requests pass both, and a death behind them is told of at the front.
#[test]
fn modern_requests_pass_through_two_gateways() {
    let inner = Gate::new();
    let outer = Gate::before(Setup::new(), &[], &[&inner.url()]);
    let answer = outer.modern(&modern_call(1, "echo", json!({"text": "hi"})));
    assert_eq!(text(&answer.answer()), "hi");
    let said = outer.modern(&modern_call(2, "progress", json!({"steps": 2})));
    let said = said.messages();
    let (answer, progress) = said.split_last().expect("an answer");
    assert_eq!(answer["id"], 2);
    assert!(!progress.is_empty());
    assert!(progress.iter().all(|it| it["params"]["progressToken"] == 2));
    let lost = outer.modern(&modern_call(3, "crash", json!({}))).answer();
    assert_eq!(kind(&lost), "connection_lost");
    let next = outer.modern(&modern_call(3, "ping", json!({}))).answer();
    assert_eq!(text(&next), "pong");
}
