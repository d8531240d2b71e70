//! Where what the server says goes.

use outlive_core::server::Channel;
use outlive_core::switch::{Client, Input, Output, Sharing, Switch, SwitchLimits};
use outlive_core::{Frame, Message};
use serde_json::{Value, json};

pub const A: Client = Client(1);
pub const B: Client = Client(2);

/// A switch, and what it said.
pub struct Rig {
    pub switch: Switch,
    channels: u64,
}

impl Rig {
    pub fn new(sharing: Sharing) -> Rig {
        Rig::limited(sharing, SwitchLimits::default())
    }

    pub fn limited(sharing: Sharing, limits: SwitchLimits) -> Rig {
        Rig {
            switch: Switch::new(sharing, limits),
            channels: 0,
        }
    }

    /// With clients that have shaken hands.
    pub fn shaken(sharing: Sharing, clients: &[Client]) -> Rig {
        Rig::new(sharing).welcoming(clients)
    }

    pub fn welcoming(mut self, clients: &[Client]) -> Rig {
        let rig = &mut self;
        for client in clients {
            for output in rig.post(*client, &initialize(0)).1 {
                if let Output::Call(id, _) = output {
                    rig.said(&json!({"jsonrpc": "2.0", "id": json_of(&id), "result": welcome()}));
                }
            }
        }
        self
    }

    pub fn post(&mut self, client: Client, message: &Value) -> (Channel, Vec<Output>) {
        self.post_line(client, &message.to_string())
    }

    pub fn post_line(&mut self, client: Client, line: &str) -> (Channel, Vec<Output>) {
        self.post_frame(client, Frame::read_body(line.to_owned().into()))
    }

    pub fn post_frame(&mut self, client: Client, frame: Frame) -> (Channel, Vec<Output>) {
        self.channels += 1;
        let channel = Channel(self.channels);
        (channel, self.feed(Input::Frame(client, channel, frame)))
    }

    pub fn said(&mut self, message: &Value) -> Vec<Output> {
        self.feed(Input::Said(read(message)))
    }

    pub fn feed(&mut self, input: Input) -> Vec<Output> {
        self.switch.handle(input);
        std::iter::from_fn(|| self.switch.poll()).collect()
    }
}

/// A message that the session passes on.
pub fn read(message: &Value) -> Message {
    Message::read(message.to_string().into()).expect("a message")
}

pub fn json_of(id: &outlive_core::Id) -> Value {
    serde_json::from_str(&id.to_json()).expect("an id")
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A question of the server's.
fn question(id: &Value) -> Value {
    let params = json!({"message": "?", "requestedSchema": {}});
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
}

pub fn initialize(id: u64) -> Value {
    let info = json!({"name": "c", "version": "1"});
    request(
        id,
        "initialize",
        json!({
            "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": info,
        }),
    )
}

pub fn welcome() -> Value {
    json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
}

pub fn call(id: u64) -> Value {
    let params = json!({"name": "t", "_meta": {"progressToken": "p"}});
    request(id, "tools/call", params)
}

/// The frame of the only call among these.
pub fn sent(outputs: &[Output]) -> Value {
    let mut calls = outputs.iter().filter_map(|output| match output {
        Output::Call(_, call) => Some(serde_json::from_slice(call.bytes()).expect("JSON")),
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
            let message = serde_json::from_slice(line.bytes()).expect("JSON");
            Some((*client, *channel, message))
        }
        _ => None,
    };
    outputs.iter().filter_map(sent).collect()
}

#[test]
fn a_switch_tells_who_is_there_and_waits() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    assert_eq!((rig.switch.clients(), rig.switch.in_flight()), (2, 0));
    assert!(!rig.switch.is_shaking_hands() && !rig.switch.is_legacy_only());
    for (client, id) in [(A, 1), (A, 2), (B, 1)] {
        rig.post(client, &call(id));
    }
    assert_eq!(rig.switch.in_flight(), 3);
    assert_eq!([A, B].map(|it| rig.switch.in_flight_of(it)), [2, 1]);
    rig.feed(Input::Gone(B));
    assert_eq!((rig.switch.clients(), rig.switch.in_flight()), (1, 2));
}

#[test]
fn a_session_that_has_ended_says_nothing_more() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    let news = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    assert_eq!(told(&rig.said(&news)), [(A, Channel::MAIN, news.clone())]);
    rig.feed(Input::Ended);
    assert_eq!(rig.said(&news), []);
}

#[test]
fn a_lone_client_passes_byte_for_byte() {
    let mut rig = Rig::shaken(Sharing::Dedicated, &[A]);
    let line = concat!(
        r#"{ "jsonrpc":"2.0","params" :{"_meta":{"progressToken":"\u0041"},"name":"t"}, "#,
        r#""method":"tools/call","id":1.0}"#
    );
    let (channel, outputs) = rig.post_line(A, line);
    let Output::Call(_, frame) = &outputs[0] else {
        panic!("{outputs:?}");
    };
    assert_eq!(frame.bytes(), line);
    let answer = r#"{"id":1.0,  "result":{"x":1.50} ,"jsonrpc":"2.0"}"#;
    let answer = Message::read(answer.into()).expect("a message");
    let outputs = rig.feed(Input::Said(answer.clone()));
    assert_eq!(
        outputs,
        [Output::Send(A, channel, answer), Output::Done(A, channel)]
    );
}

#[test]
fn fm_34_the_same_id_and_token_of_two_clients_are_told_apart() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let (at_a, a) = rig.post(A, &call(1));
    let (at_b, b) = rig.post(B, &call(1));
    let (a, b) = (sent(&a), sent(&b));
    assert_ne!(a["id"], b["id"]);
    let token = |frame: &Value| frame["params"]["_meta"]["progressToken"].clone();
    assert_ne!(token(&a), token(&b));
    let progress = json!({"progressToken": token(&b), "progress": 1});
    let outputs = rig
        .said(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}));
    let heard = told(&outputs);
    assert_eq!((heard[0].0, heard[0].1, heard.len()), (B, at_b, 1));
    assert_eq!(heard[0].2["params"]["progressToken"], "p");
    // In the other order than they were asked.
    for (frame, client, channel) in [(b, B, at_b), (a, A, at_a)] {
        let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": frame["id"], "result": {}}));
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        assert_eq!(told(&outputs), [(client, channel, answer)]);
        assert_eq!(outputs.last(), Some(&Output::Done(client, channel)));
    }
    assert_eq!(rig.switch.in_flight(), 0);
}

#[test]
fn fm_34_a_duplicate_of_one_client_is_refused_and_harms_nothing() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    let (_, first) = rig.post(A, &call(1));
    let (channel, second) = rig.post(A, &call(1));
    let refused = &told(&second)[0];
    assert_eq!((refused.0, refused.1), (A, channel));
    assert_eq!(refused.2["error"]["code"], -32600);
    let answer = rig.said(&json!({"jsonrpc": "2.0", "id": sent(&first)["id"], "result": {}}));
    assert_eq!(told(&answer).len(), 1);
}

#[test]
fn a_question_goes_to_the_only_client_that_can_have_caused_it_or_is_refused() {
    let ask = question(&json!("q"));
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let (channel, _) = rig.post(A, &call(1));
    let outputs = rig.said(&ask);
    assert_eq!(told(&outputs), [(A, channel, ask.clone())]);
    // The other one cannot answer it.
    let answer = json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "accept"}});
    let passed = |outputs: &[Output]| outputs.iter().any(|it| matches!(it, Output::Answer(_)));
    assert!(!passed(&rig.post(B, &answer).1));
    assert!(passed(&rig.post(A, &answer).1));
    assert!(!passed(&rig.post(A, &answer).1), "once");
    // With two candidates nobody is asked.
    rig.post(B, &call(1));
    let outputs = rig.said(&ask);
    assert!(told(&outputs).is_empty() && passed(&outputs), "{outputs:?}");
}

#[test]
fn a_client_is_not_asked_what_it_has_not_declared() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    rig.post(A, &call(1));
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": 5, "method": "roots/list"}));
    assert!(told(&outputs).is_empty());
    assert!(matches!(outputs[..], [Output::Answer(_)]), "{outputs:?}");
}

#[test]
fn with_several_calls_a_question_is_offered_to_the_standalone_stream() {
    let ask = question(&json!(1));
    let mut rig = Rig::shaken(Sharing::Dedicated, &[A]);
    rig.post(A, &call(1));
    let (newest, _) = rig.post(A, &call(2));
    let outputs = rig.said(&ask);
    assert!(matches!(outputs[..], [Output::Offer(A, channel, _)] if channel == newest));
    let mut idle = Rig::shaken(Sharing::Dedicated, &[A]);
    let outputs = idle.said(&ask);
    assert!(matches!(outputs[..], [Output::Send(A, Channel::MAIN, _)]));
}

#[test]
fn changes_are_told_to_everybody_and_updates_to_those_who_asked() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    assert_eq!(told(&rig.said(&changed)).len(), 2);
    let about = |method: &str, id: u64| request(id, method, json!({"uri": "a://b"}));
    let (_, outputs) = rig.post(B, &about("resources/subscribe", 1));
    rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    for uri in ["a://b", "a://b/part"] {
        let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
        assert_eq!(
            told(&rig.said(&updated)),
            [(B, Channel::MAIN, updated.clone())]
        );
    }
    // The server goes on as long as anybody wants to hear of it.
    let (_, outputs) = rig.post(A, &about("resources/subscribe", 1));
    rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    let (_, outputs) = rig.post(B, &about("resources/unsubscribe", 2));
    assert_eq!(told(&outputs)[0].2["result"], json!({}));
    let outputs = rig.feed(Input::Gone(A));
    assert_eq!(sent(&outputs)["method"], "resources/unsubscribe");
}

#[test]
fn log_messages_go_to_whoever_can_have_caused_them_by_level() {
    let log =
        |level: &str| notification("notifications/message", json!({"level": level, "data": 1}));
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    assert_eq!(
        told(&rig.said(&log("info"))).len(),
        2,
        "nobody in particular"
    );
    let level = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "error"}});
    let (_, outputs) = rig.post(A, &level);
    rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    let heard = told(&rig.said(&log("info")));
    assert_eq!((heard.len(), heard[0].0), (1, B));
    let (channel, _) = rig.post(A, &call(2));
    assert_eq!(told(&rig.said(&log("info"))), []);
    assert_eq!(told(&rig.said(&log("alert"))), [(A, channel, log("alert"))]);
    rig.post(B, &call(2));
    assert_eq!(told(&rig.said(&log("alert"))), [], "one of two");
}

#[test]
fn a_cancellation_is_translated_and_ends_the_channel() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    rig.post(B, &call(1));
    let (channel, outputs) = rig.post(A, &call(1));
    let known = sent(&outputs)["id"].clone();
    let params = json!({"requestId": 1, "reason": "enough"});
    let cancel = notification("notifications/cancelled", params);
    let (own, outputs) = rig.post(A, &cancel);
    let Output::Cancel(_, line, _) = &outputs[0] else {
        panic!("{outputs:?}");
    };
    let line: Value = serde_json::from_slice(line.bytes()).expect("JSON");
    assert_eq!(
        line["params"],
        json!({"requestId": known, "reason": "enough"})
    );
    assert_eq!(
        outputs[1..],
        [Output::Done(A, channel), Output::Done(A, own)]
    );
    let (own, outputs) = rig.post(A, &cancel);
    assert_eq!(outputs, [Output::Done(A, own)], "what is over is over");
}

#[test]
fn a_batch_is_done_with_its_last_answer() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    let batch = format!(
        "[{},\n{}]",
        call(1),
        json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    );
    let (channel, outputs) = rig.post_line(A, &batch);
    let ids: Vec<Value> = outputs
        .iter()
        .map(|output| match output {
            Output::Call(id, _) => json_of(id),
            other => panic!("{other:?}"),
        })
        .collect();
    let one = rig.said(&json!({"jsonrpc": "2.0", "id": ids[1], "result": {}}));
    assert_eq!(told(&one)[0].2["id"], 2);
    assert_eq!(one.len(), 1);
    let two = rig.said(&json!({"jsonrpc": "2.0", "id": ids[0], "result": {}}));
    assert_eq!(two[1..], [Output::Done(A, channel)]);
}

#[test]
fn a_closed_stream_cancels_nothing_of_a_legacy_client() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    let (channel, outputs) = rig.post(A, &call(1));
    assert_eq!(rig.feed(Input::Left(A, channel)), []);
    let answer = json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}});
    assert_eq!(told(&rig.said(&answer)).len(), 1);
}

#[test]
fn a_lone_client_cancels_in_its_own_words() {
    let mut rig = Rig::shaken(Sharing::Dedicated, &[A]);
    rig.post(A, &call(1));
    let cancel =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.0}}"#;
    let (_, outputs) = rig.post_line(A, cancel);
    let Output::Cancel(_, line, _) = &outputs[0] else {
        panic!("{outputs:?}");
    };
    assert_eq!(line.bytes(), cancel);
}

#[test]
fn progress_with_a_question_is_passed_on_for_whoever_was_asked() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    rig.post(A, &call(1));
    let params = json!({"message": "?", "requestedSchema": {}});
    let mut ask =
        json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params});
    assert_eq!(told(&rig.said(&ask)).len(), 1);
    ask["id"] = json!(2);
    ask["params"]["_meta"] = json!({"progressToken": "t"});
    assert_eq!(told(&rig.said(&ask)).len(), 1);
    let mut passes = |client, token: Value| {
        let params = json!({"progressToken": token, "progress": 1});
        let line = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        let (_, outputs) = rig.post(client, &line);
        matches!(outputs[0], Output::Notify(..))
    };
    assert!(passes(A, json!("t")));
    assert!(!passes(A, json!("u")) && !passes(A, json!(null)));
    assert!(!passes(B, json!("t")) && !passes(B, json!("u")));
}

#[test]
fn the_server_is_asked_for_the_level_of_the_most_curious() {
    let level = |id: u64, level: &str| request(id, "logging/setLevel", json!({"level": level}));
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let (_, outputs) = rig.post(A, &level(1, "info"));
    rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    for less in ["info", "error"] {
        let (_, outputs) = rig.post(B, &level(1, less));
        assert_eq!(told(&outputs)[0].2["result"], json!({}), "{less}");
    }
    let (_, outputs) = rig.post(B, &level(1, "debug"));
    assert_eq!(sent(&outputs)["params"]["level"], "debug");
    // Who is alone says it to the server.
    rig.feed(Input::Gone(B));
    let (_, outputs) = rig.post(A, &level(2, "error"));
    assert_eq!(sent(&outputs)["params"]["level"], "error");
}

#[test]
fn a_question_goes_to_the_stream_of_the_only_call_that_has_one() {
    let ask = question(&json!(1));
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    let on_main = Frame::read(call(1).to_string().into());
    rig.feed(Input::Frame(A, Channel::MAIN, on_main));
    let (channel, _) = rig.post(A, &call(2));
    let outputs = rig.said(&ask);
    assert!(matches!(outputs[..], [Output::Send(A, at, _)] if at == channel));
}

#[test]
fn what_others_follow_is_not_given_up_for_one_who_leaves() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "a://b"}});
    for client in [A, B] {
        let (_, outputs) = rig.post(client, &subscribe);
        rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    }
    assert_eq!(rig.feed(Input::Gone(A)), []);
    // Also if nobody is left: the next client must not be told of it.
    let outputs = rig.feed(Input::Gone(B));
    assert_eq!(sent(&outputs)["method"], "resources/unsubscribe");
}

#[test]
fn progress_of_a_task_goes_on_until_its_client_leaves() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let mut task = call(1);
    task["params"]["task"] = json!({});
    let tokens = [A, B].map(|client| {
        let (_, outputs) = rig.post(client, &task);
        let frame = sent(&outputs);
        rig.said(&json!({"jsonrpc": "2.0", "id": frame["id"], "result": {}}));
        frame["params"]["_meta"]["progressToken"].clone()
    });
    let mut hears = |gone: Option<Client>| {
        gone.map(|client| rig.feed(Input::Gone(client)));
        tokens.clone().map(|token| {
            let params = json!({"progressToken": token, "progress": 1});
            let line =
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            told(&rig.said(&line))
                .first()
                .map(|heard| (heard.0, heard.1))
        })
    };
    assert_eq!(
        hears(None),
        [Some((A, Channel::MAIN)), Some((B, Channel::MAIN))]
    );
    assert_eq!(hears(Some(A)), [None, Some((B, Channel::MAIN))]);
}

#[test]
fn a_question_that_is_withdrawn_is_withdrawn_where_it_was_put() {
    let ask = question(&json!("q"));
    let withdrawn = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}});
    for open in [true, false] {
        let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
        let (channel, outputs) = rig.post(A, &call(1));
        rig.said(&ask);
        if !open {
            rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
        }
        let place = if open { channel } else { Channel::MAIN };
        assert_eq!(told(&rig.said(&withdrawn)), [(A, place, withdrawn.clone())]);
        assert_eq!(rig.said(&withdrawn), [], "once");
        let late = json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "accept"}});
        let (own, outputs) = rig.post(A, &late);
        assert_eq!(outputs, [Output::Done(A, own)]);
    }
}

#[test]
fn a_lone_client_is_asked_whatever_it_has_declared() {
    let ask = json!({"jsonrpc": "2.0", "id": 5, "method": "roots/list"});
    let outputs = Rig::shaken(Sharing::Dedicated, &[A]).said(&ask);
    assert_eq!(told(&outputs), [(A, Channel::MAIN, ask)]);
}

#[test]
fn a_server_of_several_is_told_that_somebody_is_there() {
    let outputs = Rig::shaken(Sharing::Shared, &[A, B])
        .said(&json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    let [Output::Answer(line)] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    let answer: Value = serde_json::from_slice(line.bytes()).expect("JSON");
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": "p", "result": {}}));
}

/// Progress of the request with this token, as the server tells it.
pub fn progress(token: &Value) -> Value {
    let params = json!({"progressToken": token, "progress": 1});
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

#[test]
fn a_token_used_twice_names_two_requests() {
    let mut rig = Rig::shaken(Sharing::Dedicated, &[A]);
    let (first, _) = rig.post(A, &call(1));
    let (second, outputs) = rig.post(A, &call(2));
    let other = sent(&outputs)["params"]["_meta"]["progressToken"].clone();
    assert_ne!(other, "p");
    let heard = |channel| [(A, channel, progress(&json!("p")))];
    assert_eq!(told(&rig.said(&progress(&other))), heard(second));
    assert_eq!(told(&rig.said(&progress(&json!("p")))), heard(first));
    rig.said(&json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(rig.said(&progress(&json!("p"))), []);
    assert_eq!(told(&rig.said(&progress(&other))), heard(second));
    rig.said(&json!({"jsonrpc": "2.0", "id": 2, "result": {}}));
    assert_eq!(rig.said(&progress(&other)), []);
    // It is free again, and passes as it is.
    let (_, outputs) = rig.post(A, &call(3));
    assert_eq!(sent(&outputs)["params"]["_meta"]["progressToken"], "p");
}

#[test]
fn what_the_server_refuses_is_not_remembered() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let mut refused = |method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (_, outputs) = rig.post(A, &request);
        let error = json!({"code": -32602, "message": "no"});
        rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "error": error}));
        rig.switch.sizes()
    };
    let task = json!({"name": "t", "task": {}, "_meta": {"progressToken": "p"}});
    assert_eq!(refused("tools/call", task).tasks, 0);
    let resource = json!({"uri": "a://b"});
    assert_eq!(refused("resources/subscribe", resource).subscriptions, 0);
    refused("logging/setLevel", json!({"level": "error"}));
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
    assert_eq!(told(&rig.said(&log)).len(), 2);
}
