//! Clients of 2026-07-28: each request speaks for itself, and legacy servers are bridged.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::roster::Roster;
use outlive_core::router::RouterPolicy;
use outlive_core::router::modern::{ModernInput, ModernOutput, ModernRouter};
use outlive_core::server::Channel;
use outlive_core::{Frame, Message, Time};
use serde_json::{Value, json};

use crate::rig::{CAPABILITIES, Rig, frame, names, offer};

/// A modern router, what it has sent, and what servers were sent.
struct ModernRig {
    router: ModernRouter,
    now: Time,
    /// For its entries only.
    catalogue: Rig,
    sent: Vec<(Channel, Value)>,
    done: Vec<Channel>,
    /// What modern servers were handed.
    requests: Vec<(TargetId, Channel, Value)>,
    /// What the router itself has asked of them.
    own: Vec<(TargetId, Channel, Value)>,
    left: Vec<(TargetId, Channel)>,
    /// What servers of the bridge were sent.
    heard: Vec<(TargetId, Channel, Value)>,
    opened: Vec<TargetId>,
    next: u64,
}

impl ModernRig {
    fn of(catalogue: Rig) -> ModernRig {
        let roster = Roster::new(&catalogue.entries, &catalogue.naming, &catalogue.view);
        ModernRig {
            router: ModernRouter::new(RouterPolicy::default(), Arc::new(roster)),
            now: Time::ZERO,
            catalogue,
            sent: Vec::new(),
            done: Vec::new(),
            requests: Vec::new(),
            own: Vec::new(),
            left: Vec::new(),
            heard: Vec::new(),
            opened: Vec::new(),
            next: 0,
        }
    }

    fn feed(&mut self, input: ModernInput) {
        self.router.handle(self.now, input);
        let value = |message: &Message| serde_json::from_slice(message.bytes()).expect("JSON");
        let mut learned = Vec::new();
        while let Some(output) = self.router.poll() {
            match output {
                ModernOutput::Request(target, channel, message) => {
                    let requests = match channel.0 >> 63 {
                        0 => &mut self.requests,
                        _ => &mut self.own,
                    };
                    requests.push((target, channel, value(&message)));
                }
                ModernOutput::Leave(target, channel) => self.left.push((target, channel)),
                ModernOutput::Open(target) => self.opened.push(target),
                ModernOutput::Close(_) => {}
                ModernOutput::Hear(target, channel, message) => {
                    self.heard.push((target, channel, value(&message)));
                }
                ModernOutput::Send(channel, message) => self.sent.push((channel, value(&message))),
                ModernOutput::Done(channel) => self.done.push(channel),
                ModernOutput::Learned(target, offer) => learned.push((target, offer)),
            }
        }
        for (target, offer) in learned {
            let mut entries = self.catalogue.entries.iter_mut();
            if let Some(entry) = entries.find(|it| it.target == target) {
                entry.offer = Some(Arc::from(offer));
            }
            self.publish();
        }
    }

    fn publish(&mut self) {
        let Rig {
            entries,
            naming,
            view,
            ..
        } = &self.catalogue;
        let roster = Arc::new(Roster::new(entries, naming, view));
        self.feed(ModernInput::Roster(roster));
    }

    fn request(&mut self, id: u64, method: &str, mut params: Value) -> Channel {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": format!("p{id}"),
            "kept": 1,
        });
        self.next += 1;
        let channel = Channel(self.next);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.feed(ModernInput::Client(channel, frame(&message)));
        channel
    }

    fn call(&mut self, id: u64, tool: &str) -> Channel {
        self.request(
            id,
            "tools/call",
            json!({"name": tool, "arguments": {"n": id}}),
        )
    }

    fn modern_says(&mut self, server: usize, channel: Channel, message: Value) {
        let Frame::Message(message) = frame(&message) else {
            panic!("{message}");
        };
        self.feed(ModernInput::Modern(TargetId(server), channel, message));
    }

    fn says(&mut self, server: usize, channel: Channel, message: Value) {
        let Frame::Message(message) = frame(&message) else {
            panic!("{message}");
        };
        self.feed(ModernInput::Server(TargetId(server), channel, message));
    }

    /// The switch before a legacy server refuses a modern request.
    fn refuse_modern(&mut self) {
        for (target, channel, message) in std::mem::take(&mut self.requests) {
            let data = json!({"outlive": {"kind": "unsupported", "outcome": "rejected", "retryable": false}});
            let error = json!({"code": -32600, "message": "It speaks earlier revisions only.", "data": data});
            self.modern_says(
                target.0,
                channel,
                json!({"jsonrpc": "2.0", "id": message["id"], "error": error}),
            );
        }
    }

    /// The legacy servers behind the bridge answer everything but what is left to the test.
    fn serve(&mut self, tools: &[&str]) -> Vec<(TargetId, Channel, Value)> {
        let mut rest = Vec::new();
        loop {
            let heard = std::mem::take(&mut self.heard);
            if heard.is_empty() {
                return rest;
            }
            for (target, channel, message) in heard {
                let tool = |name: &&str| json!({"name": name});
                let capabilities: Value = serde_json::from_str(CAPABILITIES).expect("JSON");
                let result = match message["method"].as_str() {
                    Some("initialize") => {
                        json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                        "serverInfo": {"name": "s", "version": "1"}})
                    }
                    Some("tools/list") => {
                        json!({"tools": tools.iter().map(tool).collect::<Vec<_>>()})
                    }
                    Some("prompts/list") => json!({"prompts": []}),
                    Some("resources/list") => json!({"resources": []}),
                    Some("resources/templates/list") => json!({"resourceTemplates": []}),
                    _ => {
                        rest.push((target, channel, message));
                        continue;
                    }
                };
                self.says(
                    target.0,
                    channel,
                    json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
                );
            }
        }
    }

    fn answer(&self, channel: Channel) -> Value {
        let on_it = self.sent.iter().filter(|it| it.0 == channel);
        let answers: Vec<&Value> = on_it
            .map(|it| &it.1)
            .filter(|it| it.get("id").is_some())
            .collect();
        assert_eq!(answers.len(), 1, "{answers:?}");
        let done = self.done.iter().filter(|it| **it == channel);
        assert_eq!(done.count(), 1);
        answers[0].clone()
    }
}

fn known() -> ModernRig {
    ModernRig::of(Rig::known(&[("a", &["x"]), ("b", &["y"])]))
}

#[test]
fn what_is_about_all_servers_is_answered_before_any_runs() {
    let mut rig = known();
    let channel = rig.request(1, "server/discover", json!({}));
    let about = rig.answer(channel)["result"].clone();
    assert_eq!(about["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(about["resultType"], "complete");
    assert_eq!(about["capabilities"]["tools"]["listChanged"], true);
    let channel = rig.request(1, "tools/list", json!({}));
    let answer = rig.answer(channel);
    assert_eq!(names(&answer), ["a__x", "b__y"]);
    let result = &answer["result"];
    assert_eq!(
        (&result["resultType"], &result["cacheScope"]),
        (&json!("complete"), &json!("private"))
    );
    assert!(result["ttlMs"].is_number());
    assert!(rig.opened.is_empty() && rig.requests.is_empty());
}

#[test]
fn a_request_that_does_not_speak_for_itself_is_refused() {
    let mut rig = known();
    rig.next += 1;
    let channel = Channel(rig.next);
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    rig.feed(ModernInput::Client(channel, frame(&bare)));
    assert_eq!(rig.answer(channel)["error"]["code"], -32602);
    let channel = rig.request(2, "ping", json!({}));
    assert_eq!(rig.answer(channel)["error"]["code"], -32601);
}

#[test]
fn a_modern_server_gets_the_request_as_it_is_but_for_the_name() {
    let mut rig = known();
    let channel = rig.call(1, "b__y");
    let (target, at, message) = rig.requests.remove(0);
    assert_eq!((target, at), (TargetId(1), channel));
    assert_eq!(message["params"]["name"], "y");
    assert_eq!(
        message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": "p1", "progress": 1}});
    rig.modern_says(1, channel, progress.clone());
    rig.modern_says(0, channel, progress);
    assert_eq!(rig.sent.len(), 1, "another server has no say there");
    let result = json!({"resultType": "input_required", "requests": {}, "requestState": "s"});
    rig.modern_says(
        1,
        channel,
        json!({"jsonrpc": "2.0", "id": 1, "result": result}),
    );
    assert_eq!(rig.answer(channel)["result"], result);
    rig.modern_says(1, channel, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    rig.answer(channel);
}

#[test]
fn a_legacy_server_is_bridged_and_remembered() {
    let mut rig = known();
    let channel = rig.call(7, "a__x");
    rig.refuse_modern();
    let rest = rig.serve(&["x"]);
    let (target, at, call) = rest
        .into_iter()
        .find(|it| it.2["method"] == "tools/call")
        .expect("the call");
    assert_eq!(target, TargetId(0));
    assert_eq!(call["params"]["name"], "x");
    let meta = &call["params"]["_meta"];
    assert_eq!(meta["kept"], 1);
    assert!(
        meta.get("io.modelcontextprotocol/protocolVersion")
            .is_none(),
        "{meta}"
    );
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": meta["progressToken"], "progress": 1}});
    rig.says(0, at, progress);
    assert_eq!(
        rig.sent.last().expect("progress").1["params"]["progressToken"],
        "p7"
    );
    let result = json!({"content": [{"type": "text", "text": "hi"}]});
    rig.says(
        0,
        at,
        json!({"jsonrpc": "2.0", "id": call["id"], "result": result}),
    );
    let answer = rig.answer(channel);
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["content"], result["content"]);
    assert_eq!(answer["result"]["resultType"], "complete");
    // The next one goes over the bridge at once; two clients may choose the same id.
    let channels = [rig.call(7, "a__x"), rig.call(7, "a__x")];
    assert!(rig.requests.is_empty());
    let calls = rig.serve(&["x"]);
    for (channel, (_, at, call)) in channels.into_iter().zip(calls) {
        rig.says(
            0,
            at,
            json!({"jsonrpc": "2.0", "id": call["id"], "result": {"n": call["id"]}}),
        );
        assert_eq!(rig.answer(channel)["result"]["n"], call["id"]);
    }
}

#[test]
fn a_client_that_leaves_cancels_what_it_asked_for() {
    let mut rig = known();
    let channel = rig.call(1, "b__y");
    rig.feed(ModernInput::Left(channel));
    assert_eq!(rig.left, [(TargetId(1), channel)]);
    rig.requests.clear();
    let channel = rig.call(2, "a__x");
    rig.refuse_modern();
    let rest = rig.serve(&["x"]);
    let id = rest
        .iter()
        .find(|it| it.2["method"] == "tools/call")
        .expect("the call")
        .2["id"]
        .clone();
    rig.feed(ModernInput::Left(channel));
    let cancelled = rig.serve(&["x"]);
    assert_eq!(cancelled[0].2["method"], "notifications/cancelled");
    assert_eq!(cancelled[0].2["params"]["requestId"], id);
    rig.says(
        0,
        channel,
        json!({"jsonrpc": "2.0", "id": id, "result": {}}),
    );
    assert!(rig.sent.iter().all(|it| it.0 != channel));
    assert_eq!(rig.router.in_flight(), 0);
}

#[test]
fn an_error_of_ours_says_nothing_about_the_era_of_a_server() {
    let mut rig = known();
    let channel = rig.call(1, "b__y");
    let data =
        json!({"outlive": {"kind": "unavailable", "outcome": "not_sent", "retryable": true}});
    let error = json!({"code": -31002, "message": "No server.", "data": data});
    rig.modern_says(
        1,
        channel,
        json!({"jsonrpc": "2.0", "id": 1, "error": error}),
    );
    assert_eq!(rig.answer(channel)["error"]["code"], -31002);
    rig.requests.clear();
    let channel = rig.call(2, "b__y");
    rig.refuse_modern();
    let rest = rig.serve(&["y"]);
    assert!(
        rest.iter().any(|it| it.2["method"] == "tools/call"),
        "it is bridged now"
    );
    assert!(rig.sent.iter().all(|it| it.0 != channel));
}

#[test]
fn lists_of_servers_that_were_never_seen_are_waited_for() {
    let mut rig = ModernRig::of(Rig::new(&["a"]));
    let channel = rig.request(1, "tools/list", json!({}));
    assert_eq!(rig.opened, [TargetId(0)]);
    assert!(rig.sent.is_empty());
    rig.serve(&["x"]);
    assert_eq!(names(&rig.answer(channel)), ["a__x"]);
    let mut rig = ModernRig::of(Rig::new(&["a"]));
    let channel = rig.request(1, "tools/list", json!({}));
    rig.now = rig.now + Duration::from_secs(6);
    rig.feed(ModernInput::Tick);
    assert!(names(&rig.answer(channel)).is_empty());
}

#[test]
fn a_stream_is_told_of_lists_and_resources_until_it_is_closed() {
    let mut rig = known();
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["outlive:a:x://1"]});
    let streams =
        [1, 2].map(|id| rig.request(id, "subscriptions/listen", json!({"notifications": filter})));
    for (channel, id) in streams.into_iter().zip([1, 2]) {
        let told = rig
            .sent
            .iter()
            .find(|it| it.0 == channel)
            .expect("acknowledged");
        assert_eq!(told.1["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(
            told.1["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
            id
        );
        assert_eq!(told.1["params"]["notifications"], filter);
    }
    let subscribed = rig.serve(&["x"]);
    let subscribed: Vec<_> = subscribed
        .iter()
        .filter(|it| it.2["method"] == "resources/subscribe")
        .collect();
    assert_eq!(subscribed.len(), 1, "once for both");
    assert_eq!(subscribed[0].2["params"]["uri"], "x://1");
    rig.sent.clear();
    let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x://1"}});
    rig.says(0, Channel::MAIN, updated);
    for channel in streams {
        let told = rig.sent.iter().find(|it| it.0 == channel).expect("told");
        assert_eq!(
            told.1["params"]["uri"], "outlive:a:x://1",
            "as the client calls it"
        );
    }
    rig.catalogue.entries[1].offer = Some(Arc::new(offer(&["y", "z"])));
    rig.publish();
    let methods = |rig: &ModernRig, channel| -> Vec<Value> {
        let on_it = rig.sent.iter().filter(|it| it.0 == channel);
        on_it.map(|it| it.1["method"].clone()).collect()
    };
    for channel in streams {
        let told = methods(&rig, channel);
        assert!(
            told.contains(&json!("notifications/tools/list_changed")),
            "{told:?}"
        );
    }
    rig.sent.clear();
    rig.feed(ModernInput::Left(streams[0]));
    assert!(rig.serve(&["x"]).is_empty(), "the other still follows it");
    rig.feed(ModernInput::Shutdown);
    assert!(methods(&rig, streams[0]).is_empty());
    let ended = rig.answer(streams[1]);
    assert_eq!(ended["result"]["resultType"], "complete");
}

#[test]
fn a_changed_server_is_followed_on_and_its_calls_are_told() {
    let mut rig = known();
    let filter = json!({"resourceSubscriptions": ["outlive:a:x://1"]});
    let stream = rig.request(1, "subscriptions/listen", json!({"notifications": filter}));
    rig.serve(&["x"]);
    rig.call(2, "a__x");
    rig.sent.clear();
    rig.catalogue.entries[0].target = TargetId(2);
    rig.publish();
    let failed = rig.sent.iter().find(|it| it.1["id"] == 2).expect("told");
    assert_eq!(failed.1["error"]["data"]["outlive"]["kind"], "removed");
    let words = failed.1["error"]["message"].as_str().expect("a sentence");
    assert!(words.contains("The server \"a\" was changed"), "{words}");
    assert_eq!(rig.left.len(), 1, "the old one is told that nobody waits");
    assert_eq!(rig.opened.last(), Some(&TargetId(2)));
    let subscribed = rig.serve(&["x"]);
    let subscribed = subscribed
        .iter()
        .filter(|it| it.2["method"] == "resources/subscribe");
    assert_eq!(subscribed.map(|it| it.0).collect::<Vec<_>>(), [TargetId(2)]);
    rig.sent.clear();
    let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "x://1"}});
    rig.says(2, Channel::MAIN, updated);
    let told = rig.sent.iter().find(|it| it.0 == stream).expect("told");
    assert_eq!(told.1["params"]["uri"], "outlive:a:x://1");
    rig.feed(ModernInput::Left(stream));
    let unsubscribed = rig.serve(&["x"]);
    assert_eq!(unsubscribed.len(), 1, "it is followed by nobody any more");
    assert_eq!(unsubscribed[0].0, TargetId(2));
}
