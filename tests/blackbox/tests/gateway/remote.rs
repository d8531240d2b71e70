//! A server that is somewhere else, served again: `outlive serve URL`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::asking::Asking;
use crate::gate::{Gate, kind, text};
use crate::rig::Setup;
use crate::web::{Act, Web, event, stream};
use crate::wire::{self, modern_call};

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

/// A client that calls as soon as `initialized` is accepted: no question of the server's is lost for want of a
/// listener, and the tool runs once.
#[test]
fn invariant_03_no_question_is_lost_behind_a_gateway() {
    for (round, listens) in [false, true, false, true].into_iter().enumerate() {
        let asking = Asking::new(50 * round as u64);
        let books = asking.clone();
        let web = Web::start(move |request| books.deal(request));
        let gate = Gate::before(Setup::new(), &[], &[&web.url()]);
        let client = gate.client();
        let _stream = listens.then(|| client.listen());
        let mut reply = client.call(1, "ask", json!({}));
        let question = reply.message();
        assert_eq!(question["method"], "roots/list");
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}});
        assert_eq!(client.post(&answer).status, 202);
        assert_eq!(text(&reply.answer()), "asked");
        assert_eq!(asking.asked.load(Ordering::SeqCst), 1, "executed once");
        assert_eq!(asking.dropped.load(Ordering::SeqCst), 0);
    }
}

/// `initialized` is accepted when the server has it, and not before.
#[test]
fn invariant_08_initialized_is_accepted_when_the_server_has_it() {
    let taken = Arc::new(Mutex::new(None));
    let books = taken.clone();
    let web = Web::start(move |request| {
        if request.rpc() == "notifications/initialized" {
            thread::sleep(Duration::from_millis(600));
            *books.lock().unwrap() = Some(Instant::now());
        }
        None
    });
    let gate = Gate::before(Setup::new(), &[], &[&web.url()]);
    let client = gate.client();
    let taken = taken.lock().unwrap().take();
    assert!(taken.is_some(), "it was accepted before the server had it");
    let answer = client.call(1, "echo", json!({})).answer();
    assert!(text(&answer).starts_with("echo by session-"));
}

/// What a client saw accepted reaches the server before whatever it sends next: progress before the answer, all of it
/// before the call.
#[test]
fn invariant_08_what_a_client_saw_accepted_is_not_overtaken() {
    let dealt = Arc::new(Mutex::new(Vec::new()));
    let books = dealt.clone();
    let web = Web::start(move |request| {
        let ask = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
            "params": {"message": "?", "_meta": {"progressToken": "p"}}});
        let what = match (request.rpc(), request.tool()) {
            ("notifications/progress", _) => {
                thread::sleep(Duration::from_millis(100));
                format!("progress {}", request.body["params"]["progress"])
            }
            ("", _) if request.method == "POST" => "answer".to_owned(),
            (_, "ask") => {
                return Some(vec![stream(), event(&ask), Act::Hang]);
            }
            ("tools/call", tool) => tool.to_owned(),
            _ => return None,
        };
        books.lock().unwrap().push(what);
        None
    });
    let gate = Gate::before(Setup::new(), &[], &[&web.url()]);
    let client = gate.client();
    let mut asked = client.call(1, "ask", json!({}));
    let question = asked.message();
    assert_eq!(question["method"], "elicitation/create");
    let mut expected = Vec::new();
    for n in 0..5 {
        let params =
            json!({"progressToken": question["params"]["_meta"]["progressToken"], "progress": n});
        let progress =
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        assert_eq!(client.post(&progress).status, 202);
        expected.push(format!("progress {n}"));
    }
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    assert_eq!(client.post(&answer).status, 202);
    let next = client.call(2, "echo", json!({})).answer();
    assert!(text(&next).starts_with("echo by session-"), "{next}");
    expected.extend(["answer".to_owned(), "echo".to_owned()]);
    assert_eq!(*dealt.lock().unwrap(), expected);
}

/// An address where nobody is: a client is told within seconds.
#[test]
fn invariant_01_a_client_is_told_within_seconds_that_nobody_is_there() {
    let gate = Gate::before(Setup::new(), &[], &["http://127.0.0.1:1/mcp"]);
    let begun = Instant::now();
    let reply = wire::send(gate.address, "POST", &[], &wire::initialize().to_string());
    let answer = reply.answer();
    assert_eq!(kind(&answer), "unavailable");
    assert!(answer.to_string().contains("refused"), "{answer}");
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
}
