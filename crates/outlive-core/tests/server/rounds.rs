//! Handlers ask a modern client: their request is answered with the question, and the client
//! comes back with the input.

use std::time::Duration;

use outlive_core::error::{Error, Limit};
use outlive_core::principal::Principal;
use outlive_core::server::{Ask, AskId, Input, Server, StateKeys, Ticket};
use serde_json::{Value, json};

use crate::pair::*;

/// A call whose handler has asked for the roots; the state it was parked with.
fn parked(p: &mut Pair) -> (Ticket, String) {
    let ticket = p.modern_call(1, "a");
    p.ask(Some(ticket), 1);
    let state = state(&p.reply());
    p.forget();
    (ticket, state)
}

fn state(reply: &Value) -> String {
    let state = reply["result"]["requestState"].as_str();
    state.unwrap_or_else(|| panic!("{reply}")).to_string()
}

/// The call again, with the state and these responses.
fn again(id: u64, state: &str, responses: &str) -> String {
    let more = format!(
        r#""name":"a","requestState":{},"inputResponses":{responses},"#,
        json!(state)
    );
    modern_request(id, "tools/call", &more)
}

#[test]
fn a_question_is_the_answer_and_the_handler_goes_on_under_the_next_id() {
    let mut p = Pair::modern();
    let ticket = p.modern_call(1, "a");
    p.forget();
    p.ask_for(
        Some(ticket),
        &[(1, "elicitation/create", r#"{"message":"?"}"#)],
    );
    let reply = p.reply();
    let state = state(&reply);
    assert_eq!(
        reply,
        json!({"jsonrpc": "2.0", "id": 1, "result": {
            "resultType": "input_required",
            "inputRequests": {"ask-1": {"method": "elicitation/create", "params": {"message": "?"}}},
            "requestState": state,
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
        }})
    );
    assert_eq!(p.all(), [""; 0]);
    p.client(&again(
        2,
        &state,
        r#"{"ask-1":{"action":"accept"},"other":{}}"#,
    ));
    assert_eq!(p.asked(), [(1, Ok(r#"{"action":"accept"}"#.into()))]);
    assert_eq!(p.all(), [""; 0], "no second handler");
    p.answer(ticket, r#"{"content":[]}"#);
    assert_eq!(p.reply()["id"], 2);
}

#[test]
fn questions_asked_together_go_in_one_round_under_their_own_names() {
    let mut p = Pair::modern();
    let ticket = p.modern_call(1, "a");
    p.forget();
    let ask = |id, method: &'static str, key: Option<&'static str>| Ask {
        id: AskId(id),
        method: method.into(),
        params: "".into(),
        key: key.map(Into::into),
    };
    p.feed(Input::Ask {
        within: Some(ticket),
        asks: vec![
            ask(1, "roots/list", Some("roots")),
            ask(2, "roots/list", Some("roots")),
            ask(3, "sampling/createMessage", None),
        ],
    });
    let reply = p.reply();
    assert_eq!(
        reply["result"]["inputRequests"],
        json!({
            "roots": {"method": "roots/list"},
            "roots_": {"method": "roots/list"},
            "ask-3": {"method": "sampling/createMessage"},
        })
    );
    p.client(&again(
        2,
        &state(&reply),
        r#"{"roots":{"a":1},"roots_":{"b":2},"ask-3":{"c":3}}"#,
    ));
    assert_eq!(
        p.asked(),
        [
            (1, Ok(r#"{"a":1}"#.into())),
            (2, Ok(r#"{"b":2}"#.into())),
            (3, Ok(r#"{"c":3}"#.into()))
        ]
    );
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn what_is_missing_is_asked_again_with_another_state() {
    for responses in [
        "{}",
        "null",
        "7",
        r#"{"wrong":{}}"#,
        r#"{"ask-1":12345}"#,
        r#"{"ask-1":null}"#,
    ] {
        let mut p = Pair::modern();
        let (ticket, first) = parked(&mut p);
        p.client(&again(2, &first, responses));
        let reply = p.reply();
        assert_eq!(reply["id"], 2, "{responses}");
        assert_eq!(reply["result"]["resultType"], "input_required");
        let second = state(&reply);
        assert_ne!(first, second);
        p.client(&again(3, &second, r#"{"ask-1":{}}"#));
        assert_eq!(p.asked(), [(1, Ok("{}".into()))]);
        p.answer(ticket, "{}");
        assert_eq!(p.reply()["id"], 3);
    }
}

#[test]
fn what_is_asked_meanwhile_comes_in_the_next_round() {
    let mut p = Pair::modern();
    let (ticket, first) = parked(&mut p);
    p.ask(Some(ticket), 2);
    assert_eq!(p.all(), [""; 0], "there is nobody to ask now");
    p.client(&again(2, &first, r#"{"ask-1":{},"ask-2":{"guessed":1}}"#));
    assert_eq!(p.asked(), [(1, Ok("{}".into()))], "ask-2 was not asked yet");
    let reply = p.reply();
    assert_eq!(
        reply["result"]["inputRequests"],
        json!({"ask-2": {"method": "roots/list"}})
    );
    p.client(&again(3, &state(&reply), r#"{"ask-2":{}}"#));
    assert_eq!(p.asked(), [(2, Ok("{}".into()))]);
}

#[test]
fn a_state_is_good_once_and_only_for_its_own_request() {
    let mut p = Pair::modern();
    let (ticket, good) = parked(&mut p);
    let unknown = |p: &mut Pair, line: &str| {
        p.client(line);
        let failure = p.failure();
        assert_eq!(failure.code, -32602, "{line}");
        assert_eq!(
            failure.message,
            "The request was not executed: nothing waits for its `requestState`. It was used before, is too \
             old, or belongs to another request. Call again without it."
        );
        p.forget();
    };
    unknown(&mut p, &again(2, &format!("{good}-TAMPERED"), "{}"));
    unknown(&mut p, &again(2, "", "{}"));
    unknown(
        &mut p,
        &again(2, &good, "{}").replace(r#""name":"a""#, r#""name":"b""#),
    );
    unknown(
        &mut p,
        &again(2, &good, "{}").replace("tools/call", "prompts/get"),
    );
    unknown(
        &mut p,
        &again(2, &good, "{}").replace(&format!("\"{good}\""), "7"),
    );
    p.client(&again(2, &good, r#"{"ask-1":{}}"#));
    assert_eq!(p.asked().len(), 1, "none of that has harmed it");
    unknown(&mut p, &again(3, &good, "{}"));
    p.answer(ticket, "{}");
    assert_eq!(p.reply()["id"], 2);
    unknown(&mut p, &again(4, &good, "{}"));
}

#[test]
fn states_cannot_be_guessed_from_one_another() {
    let state_of = |key: [u8; 16]| {
        let mut p = Pair::modern();
        p.server = Server::new(policy(), key);
        parked(&mut p).1
    };
    let a = state_of([1; 16]);
    assert_eq!(a, state_of([1; 16]), "the key decides");
    for at in [0, 7, 8, 15] {
        let mut key = [1; 16];
        key[at] = 2;
        assert_ne!(a, state_of(key), "all of it");
    }
    let (number, secret) = a.split_once('-').expect("two parts");
    assert_eq!((number, secret.len()), ("0", 32));
    assert_ne!(secret[..16], secret[16..]);
}

#[test]
fn a_state_that_is_null_or_not_there_is_none() {
    let mut p = Pair::modern();
    for more in [
        r#""name":"a","requestState":null,"#,
        r#""name":"a","inputResponses":{},"#,
        r#""name":"requestState","#,
    ] {
        p.client(&modern_request(1, "tools/call", more));
        assert_eq!(p.started().len(), 1, "{more}");
        let ticket = p.newest();
        p.answer(ticket, "{}");
        p.forget();
    }
    p.client(&modern_request(1, "tools/list", r#""requestState":"x","#));
    assert_eq!(p.started().len(), 1, "a list is never asked back");
}

#[test]
fn a_client_that_does_not_come_back_is_given_up() {
    let mut p = Pair::modern_with(|policy| policy.parked_for = Duration::from_millis(700));
    let (ticket, state) = parked(&mut p);
    p.advance(699);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(
        p.all(),
        [
            format!("cancel {ticket} deadline"),
            "asked 1 cancelled_by_caller".into()
        ]
    );
    p.client(&again(2, &state, "{}"));
    assert_eq!(p.failure().code, -32602);
    p.forget();
    p.advance(1000);
    assert_eq!(p.all(), [format!("drop {ticket}")]);
    assert_eq!(p.server.sizes().parked, 0);
}

#[test]
fn a_parked_handler_that_asks_something_else_gets_no_more_time() {
    let mut p = Pair::modern_with(|policy| policy.parked_for = Duration::from_millis(700));
    let (ticket, _) = parked(&mut p);
    p.advance(500);
    p.feed(Input::Unask(AskId(1)));
    p.ask(Some(ticket), 2);
    p.advance(199);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(
        p.orders(),
        [
            format!("cancel {ticket} deadline"),
            "asked 2 cancelled_by_caller".into()
        ]
    );
}

#[test]
fn the_cancellation_of_a_round_that_is_over_is_useless_and_of_the_next_one_is_not() {
    let mut p = Pair::modern();
    let (ticket, state) = parked(&mut p);
    p.cancel(1);
    assert_eq!(p.all(), ["dropped useless_cancel"]);
    p.client(&again(2, &state, r#"{"ask-1":{}}"#));
    p.forget();
    p.cancel(2);
    assert_eq!(p.all(), [format!("cancel {ticket} client")]);
    p.answer(ticket, "{}");
    assert_eq!(p.all(), ["dropped late_answer"]);
}

#[test]
fn a_handler_that_ends_while_nobody_waits_takes_its_state_with_it() {
    let mut p = Pair::modern();
    let (ticket, state) = parked(&mut p);
    p.answer(ticket, "{}");
    assert_eq!(
        p.all(),
        ["asked 1 cancelled_by_caller", "dropped late_answer"]
    );
    p.client(&again(2, &state, "{}"));
    assert_eq!(p.failure().code, -32602);
    assert_eq!(p.server.sizes().timers, 0);
}

#[test]
fn a_handler_that_no_longer_asks_is_still_found() {
    let mut p = Pair::modern_with(|policy| policy.deadline = Some(Duration::from_millis(100)));
    let (ticket, state) = parked(&mut p);
    p.feed(Input::Unask(AskId(1)));
    assert_eq!(p.all(), [""; 0]);
    p.advance(5000);
    p.client(&again(2, &state, r#"{"ask-1":{}}"#));
    assert_eq!(p.all(), [""; 0]);
    p.advance(99);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.failure().id, 2);
    assert_eq!(p.orders(), [format!("cancel {ticket} deadline")]);
}

#[test]
fn the_clock_of_a_handler_stands_still_while_it_is_parked() {
    let mut p = Pair::modern_with(|policy| policy.deadline = Some(Duration::from_millis(100)));
    let ticket = p.modern_call(1, "a");
    p.advance(60);
    p.ask(Some(ticket), 1);
    let first = state(&p.reply());
    p.advance(10_000);
    p.client(&again(2, &first, "{}"));
    let second = state(&p.reply());
    p.advance(10_000);
    p.client(&again(3, &second, r#"{"ask-1":{}}"#));
    p.forget();
    p.advance(39);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    assert_eq!(p.failure().id, 3);
    assert_eq!(p.orders(), [format!("cancel {ticket} deadline")]);
}

#[test]
fn a_parked_handler_takes_no_place_and_is_bounded() {
    let mut p = Pair::modern_with(|policy| {
        policy.concurrency = 1;
        policy.parked = 1;
    });
    let first = p.modern_call(1, "a");
    p.client(&modern_request(2, "tools/call", r#""name":"a","#));
    p.forget();
    p.ask(Some(first), 1);
    let state = state(&serde_json::from_str(&p.sent()[0]).expect("JSON"));
    assert_eq!(p.orders(), ["start 1"]);
    let second = p.newest();
    p.ask(Some(second), 2);
    let limit = Limit::parked(1);
    assert_eq!(p.asked(), [(2, Err(Error::Overloaded { limit }))]);
    assert_eq!(p.all(), [""; 0], "its request is not answered with nothing");
    p.client(&again(3, &state, r#"{"ask-1":{}}"#));
    assert_eq!(p.orders(), ["asked 1 ok"], "it goes on at once");
    assert_eq!((p.server.sizes().busy, p.server.sizes().parked), (2, 0));
}

#[test]
fn a_parked_handler_may_ask_for_more_although_no_other_may_park() {
    let mut p = Pair::modern_with(|policy| policy.parked = 1);
    let (ticket, first) = parked(&mut p);
    p.ask(Some(ticket), 2);
    assert_eq!(p.all(), [""; 0]);
    p.client(&again(2, &first, r#"{"ask-1":{}}"#));
    assert_eq!(p.asked().len(), 1);
    let questions = json!({"ask-2": {"method": "roots/list"}});
    assert_eq!(p.reply()["result"]["inputRequests"], questions);
}

#[test]
fn what_has_to_be_kept_to_ask_again_is_bounded_by_bytes() {
    let mut p = Pair::modern_with(|policy| policy.queue_bytes = 300);
    let ticket = p.modern_call(1, "a");
    let long = format!(r#"{{"x":"{}"}}"#, "y".repeat(300));
    p.forget();
    p.ask_for(
        Some(ticket),
        &[(1, "roots/list", &long), (2, "roots/list", "")],
    );
    let limit = Limit::question_bytes(300);
    assert_eq!(p.asked(), [(2, Err(Error::Overloaded { limit }))]);
    assert_eq!(p.server.sizes().asks, (1, long.len() + "ask-1".len()));
    p.feed(Input::Unask(AskId(1)));
    assert_eq!(p.server.sizes().asks, (0, 0));
}

#[test]
fn only_some_questions_can_be_asked_and_only_in_some_requests() {
    let why = "A client of this revision cannot be asked that here.".to_string();
    let refused = Err(Error::Unsupported { why });
    let mut p = Pair::modern();
    let ticket = p.modern_call(1, "a");
    p.ask_for(Some(ticket), &[(1, "ping", "")]);
    assert_eq!(p.asked(), [(1, refused.clone())]);
    p.client(&modern_request(2, "tools/list", ""));
    let list = p.newest();
    p.ask(Some(list), 2);
    assert_eq!(p.asked(), [(2, refused)]);
    p.ask_for(
        Some(ticket),
        &[(3, "elicitation/create", r#"{"mode":"url"}"#)],
    );
    let why = r#"The client has not declared the capability {"elicitation":{"url":{}}}."#.into();
    assert_eq!(p.asked(), [(3, Err(Error::Unsupported { why }))]);
    assert_eq!(p.sent(), [""; 0]);
    for (id, method, target) in [
        (3, "prompts/get", r#""name":"p","#),
        (4, "resources/read", r#""uri":"u","#),
    ] {
        p.client(&modern_request(id, method, target));
        let ticket = p.newest();
        p.forget();
        p.ask(Some(ticket), id + 10);
        assert_eq!(p.reply()["result"]["resultType"], "input_required");
    }
}

#[test]
fn a_handler_weighs_what_its_last_request_did() {
    let mut p = Pair::modern();
    let first = modern_request(1, "tools/call", r#""name":"a","#).len();
    let (ticket, state) = parked(&mut p);
    assert_eq!(p.server.sizes().bytes, first);
    let retry = again(2, &state, r#"{"ask-1":{}}"#);
    p.client(&retry);
    assert_eq!(p.server.sizes().bytes, retry.len());
    p.answer(ticket, "{}");
    assert_eq!(p.server.sizes().bytes, 0);
}

#[test]
fn a_retry_whose_id_is_in_use_is_refused_and_can_be_made_again() {
    let mut p = Pair::modern();
    let (_, state) = parked(&mut p);
    p.modern_call(2, "b");
    p.forget();
    p.client(&again(2, &state, r#"{"ask-1":{}}"#));
    assert_eq!(p.failure().code, -32600);
    p.client(&again(3, &state, r#"{"ask-1":{}}"#));
    assert_eq!(p.asked().len(), 1);
}

#[test]
fn progress_of_a_parked_handler_is_not_told_and_starts_anew() {
    let mut p = Pair::modern();
    let token = |n: u64| format!(r#"{{"progressToken":{n},"#);
    let with_token =
        |line: String, n: u64| line.replace(r#""_meta":{"#, &format!(r#""_meta":{}"#, token(n)));
    p.client(&with_token(
        modern_request(1, "tools/call", r#""name":"a","#),
        5,
    ));
    let ticket = p.newest();
    let progress = |p: &mut Pair, progress: f64| {
        p.feed(Input::Progress {
            ticket,
            progress,
            total: None,
            message: None,
        });
    };
    p.forget();
    progress(&mut p, 3.0);
    assert_eq!(p.reply()["params"]["progressToken"], 5);
    p.ask(Some(ticket), 1);
    let state = state(&p.reply());
    progress(&mut p, 4.0);
    assert_eq!(p.all(), ["dropped late_progress"]);
    p.client(&with_token(again(2, &state, r#"{"ask-1":{}}"#), 6));
    p.forget();
    progress(&mut p, 1.0);
    assert_eq!(p.reply()["params"]["progressToken"], 6);
}

/// Of two replicas that have these keys, the first has parked a call: what the second says to its state.
fn at_another(ours: &[[u8; 16]], theirs: &[[u8; 16]], changed: impl Fn(&str) -> String) -> String {
    let keys = |keys: &[[u8; 16]]| {
        let shared = StateKeys::default();
        shared.replace(keys.to_vec());
        shared
    };
    let (mut one, mut other) = (Pair::modern(), Pair::modern());
    one.server.share_states(keys(ours), 1);
    other.server.share_states(keys(theirs), 2);
    let (_, state) = parked(&mut one);
    other.client(&again(2, &changed(&state), r#"{"ask-1":{}}"#));
    let failure = other.failure();
    assert_eq!(failure.code, -32602);
    one.client(&again(2, &state, r#"{"ask-1":{}}"#));
    assert_eq!(one.asked().len(), 1, "where it was made it is good");
    failure.message
}

const OTHERS: &str = "was made by another replica";
const NOBODYS: &str = "nothing waits for its `requestState`";

#[test]
fn a_state_of_another_replica_is_refused_with_the_reason() {
    let (old, new) = ([1; 16], [2; 16]);
    let same = str::to_owned;
    for (ours, theirs, says) in [
        (&[old][..], &[old][..], OTHERS),
        // As keys are replaced, one replica after the other.
        (&[old], &[old, new], OTHERS),
        (&[old, new], &[new, old], OTHERS),
        (&[new, old], &[old, new], OTHERS),
        (&[new], &[new, old], OTHERS),
        // The first one seals.
        (&[new, old], &[new], OTHERS),
        (&[new, old], &[old], NOBODYS),
        (&[old], &[new], NOBODYS),
        (&[old], &[], NOBODYS),
    ] {
        let said = at_another(ours, theirs, same);
        assert!(said.contains(says), "{ours:?} {theirs:?}: {said}");
    }
    let forged: [fn(&str) -> String; 5] = [
        |state| state.replacen("1.", "3.", 1),
        |state| state.replacen("1.0", "1.1", 1),
        |state| state.replacen("1.", "2.", 1),
        |state| format!("{state}0"),
        |state| state.split_once('-').expect("a seal").0.to_owned(),
    ];
    for forged in forged {
        let said = at_another(&[old], &[old], forged);
        assert!(said.contains(NOBODYS), "{said}");
    }
}

#[test]
fn keys_that_are_replaced_cost_no_call_that_waits() {
    let mut p = Pair::modern();
    let keys = StateKeys::default();
    keys.replace(vec![[1; 16]]);
    p.server.share_states(keys.clone(), 7);
    let (_, state) = parked(&mut p);
    keys.replace(vec![[2; 16]]);
    p.client(&again(2, &state, r#"{"ask-1":{}}"#));
    assert_eq!(p.asked().len(), 1);
    keys.replace(vec![[2; 16], [1; 16]]);
    p.client(&again(3, &state, r#"{"ask-1":{}}"#));
    assert!(p.failure().message.contains(NOBODYS), "it is our own, used");
}

#[test]
fn a_state_is_good_for_the_principal_that_it_was_given_to() {
    let mut p = Pair::modern();
    p.server.hear_from(Principal::Token(1));
    let (_, state) = parked(&mut p);
    for stranger in [Principal::Token(2), Principal::User(1), Principal::Anyone] {
        p.server.hear_from(stranger);
        p.client(&again(2, &state, r#"{"ask-1":{}}"#));
        assert!(p.failure().message.contains(NOBODYS), "{stranger}");
        p.forget();
    }
    p.server.hear_from(Principal::Token(1));
    p.client(&again(2, &state, r#"{"ask-1":{}}"#));
    assert_eq!(p.asked().len(), 1, "none of that has harmed it");
}
