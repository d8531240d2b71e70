//! Where what the server says goes.

use outlive_core::Frame;
use outlive_core::server::Channel;
use outlive_core::switch::{Client, Input, Limits, Output, Sharing, Switch};
use serde_json::{Value, json};

pub const A: Client = Client(1);
pub const B: Client = Client(2);

/// A switch, and what it said.
pub struct Desk {
    pub switch: Switch,
    channels: u64,
}

impl Desk {
    pub fn new(sharing: Sharing) -> Desk {
        Desk {
            switch: Switch::new(sharing, Limits::default()),
            channels: 0,
        }
    }

    /// With clients that have shaken hands.
    pub fn shaken(sharing: Sharing, clients: &[Client]) -> Desk {
        let mut desk = Desk::new(sharing);
        for client in clients {
            for output in desk.post(*client, &initialize(0)).1 {
                if let Output::Call(id, _) = output {
                    desk.said(&json!({"jsonrpc": "2.0", "id": json_of(&id), "result": welcome()}));
                }
            }
        }
        desk
    }

    pub fn post(&mut self, client: Client, message: &Value) -> (Channel, Vec<Output>) {
        self.post_line(client, &message.to_string())
    }

    pub fn post_line(&mut self, client: Client, line: &str) -> (Channel, Vec<Output>) {
        self.channels += 1;
        let channel = Channel(self.channels);
        let frame = Frame::Line(line.to_owned().into());
        (channel, self.feed(Input::Frame(client, channel, frame)))
    }

    pub fn said(&mut self, message: &Value) -> Vec<Output> {
        self.feed(Input::Said(message.to_string().into()))
    }

    pub fn feed(&mut self, input: Input) -> Vec<Output> {
        self.switch.handle(input);
        std::iter::from_fn(|| self.switch.poll()).collect()
    }
}

pub fn json_of(id: &outlive_core::Id) -> Value {
    serde_json::from_str(&id.to_json()).expect("an id")
}

pub fn initialize(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "c", "version": "1"},
    }})
}

pub fn welcome() -> Value {
    json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
}

fn call(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "_meta": {"progressToken": "p"}}})
}

/// The frame of the only call among these.
pub fn sent(outputs: &[Output]) -> Value {
    let mut calls = outputs.iter().filter_map(|output| match output {
        Output::Call(_, frame) => Some(serde_json::from_slice(frame).expect("JSON")),
        _ => None,
    });
    let only = calls
        .next()
        .unwrap_or_else(|| panic!("no call in {outputs:?}"));
    assert!(calls.next().is_none(), "{outputs:?}");
    only
}

/// What is sent to whom.
pub fn told(outputs: &[Output]) -> Vec<(Client, Channel, Value)> {
    let sent = |output: &Output| match output {
        Output::Send(client, channel, line) | Output::Offer(client, channel, line) => {
            let message = serde_json::from_slice(line).expect("JSON");
            Some((*client, *channel, message))
        }
        _ => None,
    };
    outputs.iter().filter_map(sent).collect()
}

#[test]
fn a_switch_tells_who_is_there_and_waits() {
    let mut desk = Desk::shaken(Sharing::Legacy, &[A, B]);
    assert_eq!((desk.switch.clients(), desk.switch.in_flight()), (2, 0));
    assert!(!desk.switch.is_shaking_hands() && !desk.switch.is_legacy_only());
    for (client, id) in [(A, 1), (A, 2), (B, 1)] {
        desk.post(client, &call(id));
    }
    assert_eq!(desk.switch.in_flight(), 3);
    assert_eq!([A, B].map(|it| desk.switch.in_flight_of(it)), [2, 1]);
    desk.feed(Input::Gone(B));
    assert_eq!((desk.switch.clients(), desk.switch.in_flight()), (1, 2));
}

#[test]
fn a_session_that_has_ended_says_nothing_more() {
    let mut desk = Desk::shaken(Sharing::Legacy, &[A]);
    let news = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    assert_eq!(told(&desk.said(&news)), [(A, Channel::MAIN, news.clone())]);
    desk.feed(Input::Ended);
    assert_eq!(desk.said(&news), []);
}

#[test]
fn a_lone_client_passes_byte_for_byte() {
    let mut desk = Desk::shaken(Sharing::Alone, &[A]);
    let line = r#"{ "jsonrpc":"2.0","params" :{"_meta":{"progressToken":"\u0041"},"name":"t"}, "method":"tools/call","id":1.0}"#;
    let (channel, outputs) = desk.post_line(A, line);
    let Output::Call(_, frame) = &outputs[0] else {
        panic!("{outputs:?}");
    };
    assert_eq!(frame, line);
    let answer = r#"{"id":1.0,  "result":{"x":1.50} ,"jsonrpc":"2.0"}"#;
    let outputs = desk.feed(Input::Said(answer.into()));
    assert_eq!(
        outputs,
        [
            Output::Send(A, channel, answer.into()),
            Output::Done(A, channel)
        ]
    );
}

#[test]
fn fm_34_the_same_id_and_token_of_two_clients_are_told_apart() {
    let mut desk = Desk::shaken(Sharing::Legacy, &[A, B]);
    let (at_a, a) = desk.post(A, &call(1));
    let (at_b, b) = desk.post(B, &call(1));
    let (a, b) = (sent(&a), sent(&b));
    assert_ne!(a["id"], b["id"]);
    let token = |frame: &Value| frame["params"]["_meta"]["progressToken"].clone();
    assert_ne!(token(&a), token(&b));
    let progress = json!({"progressToken": token(&b), "progress": 1});
    let outputs = desk
        .said(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}));
    let heard = told(&outputs);
    assert_eq!((heard[0].0, heard[0].1, heard.len()), (B, at_b, 1));
    assert_eq!(heard[0].2["params"]["progressToken"], "p");
    // In the other order than they were asked.
    for (frame, client, channel) in [(b, B, at_b), (a, A, at_a)] {
        let outputs = desk.said(&json!({"jsonrpc": "2.0", "id": frame["id"], "result": {}}));
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        assert_eq!(told(&outputs), [(client, channel, answer)]);
        assert_eq!(outputs.last(), Some(&Output::Done(client, channel)));
    }
    assert_eq!(desk.switch.in_flight(), 0);
}

#[test]
fn fm_34_a_duplicate_of_one_client_is_refused_and_harms_nothing() {
    let mut desk = Desk::shaken(Sharing::Legacy, &[A]);
    let (_, first) = desk.post(A, &call(1));
    let (channel, second) = desk.post(A, &call(1));
    let refused = &told(&second)[0];
    assert_eq!((refused.0, refused.1), (A, channel));
    assert_eq!(refused.2["error"]["code"], -32600);
    let answer = desk.said(&json!({"jsonrpc": "2.0", "id": sent(&first)["id"], "result": {}}));
    assert_eq!(told(&answer).len(), 1);
}

#[test]
fn a_question_goes_to_the_only_client_that_can_have_caused_it_or_is_refused() {
    let ask = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}});
    let mut desk = Desk::shaken(Sharing::Legacy, &[A, B]);
    let (channel, _) = desk.post(A, &call(1));
    let outputs = desk.said(&ask);
    assert_eq!(told(&outputs), [(A, channel, ask.clone())]);
    // The other one cannot answer it.
    let answer = json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "accept"}});
    let passed = |outputs: &[Output]| outputs.iter().any(|it| matches!(it, Output::Answer(_)));
    assert!(!passed(&desk.post(B, &answer).1));
    assert!(passed(&desk.post(A, &answer).1));
    assert!(!passed(&desk.post(A, &answer).1), "once");
    // With two candidates nobody is asked.
    desk.post(B, &call(1));
    let outputs = desk.said(&ask);
    assert!(told(&outputs).is_empty() && passed(&outputs), "{outputs:?}");
}

#[test]
fn a_client_is_not_asked_what_it_has_not_declared() {
    let mut desk = Desk::shaken(Sharing::Legacy, &[A]);
    desk.post(A, &call(1));
    let outputs = desk.said(&json!({"jsonrpc": "2.0", "id": 5, "method": "roots/list"}));
    assert!(told(&outputs).is_empty());
    assert!(matches!(outputs[..], [Output::Answer(_)]), "{outputs:?}");
}

#[test]
fn with_several_calls_a_question_is_offered_to_the_standalone_stream() {
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}});
    let mut desk = Desk::shaken(Sharing::Alone, &[A]);
    desk.post(A, &call(1));
    let (newest, _) = desk.post(A, &call(2));
    let outputs = desk.said(&ask);
    assert!(matches!(outputs[..], [Output::Offer(A, channel, _)] if channel == newest));
    let mut idle = Desk::shaken(Sharing::Alone, &[A]);
    let outputs = idle.said(&ask);
    assert!(matches!(outputs[..], [Output::Send(A, Channel::MAIN, _)]));
}

#[test]
fn changes_are_told_to_everybody_and_updates_to_those_who_asked() {
    let mut desk = Desk::shaken(Sharing::Legacy, &[A, B]);
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    assert_eq!(told(&desk.said(&changed)).len(), 2);
    let about = |method: &str, id: u64| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"uri": "a://b"}});
    let (_, outputs) = desk.post(B, &about("resources/subscribe", 1));
    desk.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    for uri in ["a://b", "a://b/part"] {
        let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
        assert_eq!(
            told(&desk.said(&updated)),
            [(B, Channel::MAIN, updated.clone())]
        );
    }
    // The server goes on as long as anybody wants to hear of it.
    let (_, outputs) = desk.post(A, &about("resources/subscribe", 1));
    desk.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    let (_, outputs) = desk.post(B, &about("resources/unsubscribe", 2));
    assert_eq!(told(&outputs)[0].2["result"], json!({}));
    let outputs = desk.feed(Input::Gone(A));
    assert_eq!(sent(&outputs)["method"], "resources/unsubscribe");
}

#[test]
fn log_messages_go_to_whoever_can_have_caused_them_by_level() {
    let log = |level: &str| json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": 1}});
    let mut desk = Desk::shaken(Sharing::Legacy, &[A, B]);
    assert_eq!(
        told(&desk.said(&log("info"))).len(),
        2,
        "nobody in particular"
    );
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "error"}});
    let (_, outputs) = desk.post(A, &level);
    desk.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    let heard = told(&desk.said(&log("info")));
    assert_eq!((heard.len(), heard[0].0), (1, B));
    let (channel, _) = desk.post(A, &call(2));
    assert_eq!(told(&desk.said(&log("info"))), []);
    assert_eq!(
        told(&desk.said(&log("alert"))),
        [(A, channel, log("alert"))]
    );
    desk.post(B, &call(2));
    assert_eq!(told(&desk.said(&log("alert"))), [], "one of two");
}

#[test]
fn a_cancellation_is_translated_and_ends_the_channel() {
    let mut desk = Desk::shaken(Sharing::Legacy, &[A, B]);
    desk.post(B, &call(1));
    let (channel, outputs) = desk.post(A, &call(1));
    let known = sent(&outputs)["id"].clone();
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "enough"}});
    let (own, outputs) = desk.post(A, &cancel);
    let Output::Cancel(_, line) = &outputs[0] else {
        panic!("{outputs:?}");
    };
    let line: Value = serde_json::from_slice(line).expect("JSON");
    assert_eq!(
        line["params"],
        json!({"requestId": known, "reason": "enough"})
    );
    assert_eq!(
        outputs[1..],
        [Output::Done(A, channel), Output::Done(A, own)]
    );
    let (own, outputs) = desk.post(A, &cancel);
    assert_eq!(outputs, [Output::Done(A, own)], "what is over is over");
}

#[test]
fn a_batch_is_done_with_its_last_answer() {
    let mut desk = Desk::shaken(Sharing::Legacy, &[A]);
    let batch = format!(
        "[{},\n{}]",
        call(1),
        json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    );
    let (channel, outputs) = desk.post_line(A, &batch);
    let ids: Vec<Value> = outputs
        .iter()
        .map(|output| match output {
            Output::Call(id, _) => json_of(id),
            other => panic!("{other:?}"),
        })
        .collect();
    let one = desk.said(&json!({"jsonrpc": "2.0", "id": ids[1], "result": {}}));
    assert_eq!(told(&one)[0].2["id"], 2);
    assert_eq!(one.len(), 1);
    let two = desk.said(&json!({"jsonrpc": "2.0", "id": ids[0], "result": {}}));
    assert_eq!(two[1..], [Output::Done(A, channel)]);
}

#[test]
fn more_than_may_be_in_flight_is_refused() {
    let limits = Limits {
        calls_each: 2,
        ..Limits::default()
    };
    let mut desk = Desk::new(Sharing::Legacy);
    desk.switch = Switch::new(Sharing::Legacy, limits);
    desk.post(A, &initialize(0));
    desk.post(A, &call(1));
    let (_, outputs) = desk.post(A, &call(2));
    assert_eq!(told(&outputs)[0].2["error"]["code"], -31002);
    assert_eq!(
        sent(
            &desk
                .post(B, &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
                .1
        )["method"],
        "ping"
    );
}
