//! What is one client's reaches no other: who hears of what was abandoned, and what a stream tells of its owner.

use outlive_core::error::{Bound, Error, Refusal};
use outlive_core::server::Channel;
use outlive_core::switch::{Client, Input, Output, Sharing};
use outlive_core::{AbandonReason, Generation, Id};
use serde_json::{Value, json};

use crate::handshake::{EVERYBODY, call_id, modern};
use crate::routes::{A, B, Rig, call, initialize, json_of, progress, read, sent, told, welcome};

fn ask() -> Value {
    json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}})
}

fn log() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": 1}})
}

fn custom() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/vendor/thing", "params": {"x": 1}})
}

fn id_of(outputs: &[Output]) -> Id {
    match outputs {
        [Output::Call(id, _), ..] => id.clone(),
        other => panic!("{other:?}"),
    }
}

fn is_refused(outputs: &[Output]) -> bool {
    matches!(outputs, [Output::Answer(line)] if line.is_error())
}

/// Two clients; the first has abandoned a call, which the server goes on with.
fn abandoned(leaves: bool) -> (Rig, Id) {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let (_, outputs) = rig.post(A, &call(1));
    match leaves {
        true => drop(rig.feed(Input::Gone(A))),
        false => drop(rig.post(A, &cancel(1))),
    }
    (rig, id_of(&outputs))
}

#[test]
fn an_abandoned_call_is_a_candidate_until_it_is_answered_or_its_server_dies() {
    for leaves in [true, false] {
        for (end, name) in [
            (Input::Over as fn(Id) -> Input, "answered"),
            (|_| Input::Lost(Generation::FIRST), "died"),
        ] {
            let (mut rig, id) = abandoned(leaves);
            // Nobody else waits for anything: it can only be about that.
            assert!(is_refused(&rig.said(&ask())));
            assert_eq!(told(&rig.said(&log())), []);
            assert_eq!(told(&rig.said(&custom())), []);
            // Somebody else does: it may be about either.
            let (channel, _) = rig.post(B, &call(1));
            assert!(is_refused(&rig.said(&ask())));
            assert_eq!(told(&rig.said(&log())), []);
            assert_eq!(told(&rig.said(&custom())), []);
            assert_eq!(rig.feed(end(id)), []);
            for message in [ask(), log(), custom()] {
                assert_eq!(told(&rig.said(&message)), [(B, channel, message)], "{name}");
            }
        }
    }
}

/// The session gives up on a request, and the server goes on with it.
fn too_long(id: &Id) -> Input {
    Input::Refused(Box::new(Refusal {
        id_json: id.to_json().into(),
        what: "the request".into(),
        error: Error::Timeout {
            after: std::time::Duration::from_secs(1),
            bound: Bound::Idle,
        },
        generation: Generation::FIRST,
    }))
}

fn cancel(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

#[test]
fn a_call_that_took_too_long_is_one_too() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let (_, outputs) = rig.post(A, &call(1));
    rig.feed(too_long(&id_of(&outputs)));
    rig.post(B, &call(1));
    assert!(is_refused(&rig.said(&ask())));
    rig.feed(Input::Over(id_of(&outputs)));
    assert_eq!(told(&rig.said(&ask())).len(), 1);
}

#[test]
fn an_answer_that_crosses_its_cancellation_is_the_end_of_it() {
    let (mut rig, id) = abandoned(false);
    rig.said(&json!({"jsonrpc": "2.0", "id": json_of(&id), "result": {}}));
    let (channel, _) = rig.post(B, &call(1));
    assert_eq!(told(&rig.said(&ask())), [(B, channel, ask())]);
}

#[test]
fn a_client_that_waits_for_something_else_is_asked_all_the_same() {
    let (mut rig, _) = abandoned(false);
    let (channel, _) = rig.post(A, &call(2));
    assert_eq!(told(&rig.said(&ask())), [(A, channel, ask())]);
}

#[test]
fn a_task_goes_on_for_whoever_began_it() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let mut task = call(1);
    task["params"]["task"] = json!({});
    let (_, outputs) = rig.post(A, &task);
    rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    assert_eq!(told(&rig.said(&ask())), [(A, Channel::MAIN, ask())]);
    rig.post(B, &call(1));
    assert!(is_refused(&rig.said(&ask())), "it may be about the task");
}

#[test]
fn with_more_than_are_kept_nobody_is_asked_until_the_next_server() {
    let limits = outlive_core::switch::SwitchLimits {
        abandoned: 2,
        ..Default::default()
    };
    let mut rig = Rig::limited(Sharing::Shared, limits).welcoming(&[A, B]);
    let mut ids = Vec::new();
    for n in 1..=3 {
        let (_, outputs) = rig.post(A, &call(n));
        ids.push(id_of(&outputs));
        let params = json!({"requestId": n});
        rig.post(
            A,
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
        );
    }
    assert_eq!(rig.switch.sizes().abandoned, 2);
    ids.into_iter()
        .for_each(|id| drop(rig.feed(Input::Over(id))));
    rig.post(B, &call(1));
    assert!(is_refused(&rig.said(&ask())));
    rig.feed(Input::Lost(Generation::FIRST));
    assert_eq!(told(&rig.said(&ask())).len(), 1);
}

#[test]
fn what_a_server_says_by_itself_is_for_nobody_if_it_has_had_two_users() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    assert_eq!(told(&rig.said(&ask())).len(), 1, "there is no other");
    let (_, outputs) = rig.post(A, &call(1));
    rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    assert_eq!(told(&rig.said(&custom())).len(), 1);
    rig.feed(Input::Gone(A));
    let mut rig = rig.welcoming(&[B]);
    assert!(
        is_refused(&rig.said(&ask())),
        "it may be about what A has had done"
    );
    assert_eq!(told(&rig.said(&custom())), []);
    rig.feed(Input::Lost(Generation::FIRST));
    assert_eq!(told(&rig.said(&ask())), [(B, Channel::MAIN, ask())]);
}

#[test]
fn the_last_to_leave_takes_its_subscriptions_along() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "a://b"}});
    let (_, outputs) = rig.post(A, &subscribe);
    rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    let outputs = rig.feed(Input::Gone(A));
    assert_eq!(sent(&outputs)["method"], "resources/unsubscribe");
    let mut rig = rig.welcoming(&[B]);
    let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a://b"}});
    assert_eq!(told(&rig.said(&updated)), []);
}

#[test]
fn a_name_that_begins_like_another_is_another() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    for (n, uri) in ["x://u", "", "x://"].into_iter().enumerate() {
        let subscribe = json!({"jsonrpc": "2.0", "id": n, "method": "resources/subscribe", "params": {"uri": uri}});
        let (_, outputs) = rig.post(A, &subscribe);
        rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    }
    let mut hears = |uri: &str| {
        let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
        told(&rig.said(&updated)).len()
    };
    assert_eq!([hears("x://u"), hears("x://u/part"), hears("")], [1, 1, 1]);
    assert_eq!([hears("x://user-B/secret"), hears("y://z")], [0, 0]);
}

#[test]
fn one_clients_level_is_not_anothers() {
    let set = |id: u64, level: &str| json!({"jsonrpc": "2.0", "id": id, "method": "logging/setLevel", "params": {"level": level}});
    let said = |level: &str| json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": 1}});
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let choose = |rig: &mut Rig, client: Client, id: u64, level: &str| {
        let (_, outputs) = rig.post(client, &set(id, level));
        let frame = sent(&outputs);
        rig.said(&json!({"jsonrpc": "2.0", "id": frame["id"], "result": {}}));
        frame["params"]["level"].clone()
    };
    // The server goes on with what the other one gets, who has chosen nothing.
    assert_eq!(choose(&mut rig, A, 1, "error"), "info");
    let hear = |rig: &mut Rig, level: &str| -> Vec<Client> {
        told(&rig.said(&said(level)))
            .into_iter()
            .map(|it| it.0)
            .collect()
    };
    assert_eq!(hear(&mut rig, "info"), [B]);
    assert_eq!(hear(&mut rig, "error"), [A, B]);
    assert_eq!(choose(&mut rig, A, 2, "debug"), "debug");
    assert_eq!(
        hear(&mut rig, "debug"),
        [A],
        "the other one has not asked for that"
    );
    // Whoever wanted most leaves.
    let outputs = rig.feed(Input::Gone(A));
    assert_eq!(sent(&outputs)["params"]["level"], "info");
    // Whoever is alone has chosen for itself only: the next has chosen nothing.
    assert_eq!(choose(&mut rig, B, 3, "error"), "error");
    let (_, outputs) = rig.post(A, &crate::routes::initialize(0));
    assert_eq!(sent(&outputs)["params"]["level"], "info");
}

#[test]
fn a_stream_names_whom_the_server_means() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let (_, a) = rig.post(A, &call(1));
    let (channel, b) = rig.post(B, &call(1));
    let of = |rig: &mut Rig, id: &Id, message: &Value| {
        rig.feed(Input::SaidOf(Some(id.clone()), read(message)))
    };
    for message in [log(), custom(), ask()] {
        assert_eq!(
            told(&of(&mut rig, &id_of(&b), &message)),
            [(B, channel, message)]
        );
    }
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    let heard = told(&of(&mut rig, &id_of(&b), &changed));
    assert_eq!(heard.len(), 2, "everybody");
    assert_eq!(heard[1], (B, channel, changed));
    // On the stream of one that nobody waits for.
    rig.feed(Input::Gone(A));
    for (owner, message) in [(None, log()), (None, custom()), (Some(id_of(&a)), custom())] {
        let outputs = rig.feed(Input::SaidOf(owner, read(&message)));
        assert_eq!(outputs, []);
    }
    let outputs = rig.feed(Input::SaidOf(None, read(&ask())));
    assert!(is_refused(&outputs), "{outputs:?}");
}

/// A rig before a modern server.
fn modern_desk() -> Rig {
    let mut rig = Rig::new(Sharing::Pooled);
    let (_, probe) = rig.post(EVERYBODY, &modern(1, "ping"));
    let outputs = rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&probe), "result": {}}));
    rig.said(&json!({"jsonrpc": "2.0", "id": call_id(&outputs), "result": {}}));
    rig
}

#[test]
fn two_modern_calls_at_once_hear_what_is_theirs() {
    let mut curious = modern(1, "tools/call");
    curious["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("info");
    let mut rig = modern_desk();
    let calls = [rig.post(EVERYBODY, &curious), rig.post(EVERYBODY, &curious)];
    for (channel, outputs) in &calls {
        for message in [log(), custom()] {
            let input = Input::SaidOf(Some(id_of(outputs)), read(&message));
            assert_eq!(told(&rig.feed(input)), [(EVERYBODY, *channel, message)]);
        }
    }
    // On a pipe nothing tells which of the two it is about.
    for message in [log(), custom()] {
        assert_eq!(told(&rig.said(&message)), []);
    }
    // One leaves, and the server goes on with it.
    rig.feed(Input::Left(EVERYBODY, calls[0].0));
    for message in [log(), custom()] {
        assert_eq!(told(&rig.said(&message)), []);
    }
    rig.feed(Input::Over(id_of(&calls[0].1)));
    for message in [log(), custom()] {
        assert_eq!(
            told(&rig.said(&message)),
            [(EVERYBODY, calls[1].0, message)]
        );
    }
}

#[test]
fn a_notification_of_an_extension_reaches_a_modern_server_or_is_refused() {
    let note = json!({"jsonrpc": "2.0", "method": "notifications/vendor/thing", "params": {}});
    let mut rig = modern_desk();
    let (channel, outputs) = rig.post(EVERYBODY, &note);
    assert!(
        matches!(&outputs[..], [Output::Notify(_, _, line), Output::Done(_, at)]
            if line.bytes() == &note.to_string() && *at == channel)
    );
    // Whether it is a modern one is found out first.
    for (answer, passes) in [
        (json!({"result": {}}), true),
        (json!({"error": {"code": -32601, "message": "no"}}), false),
    ] {
        let mut rig = Rig::new(Sharing::Pooled);
        let (channel, outputs) = rig.post(EVERYBODY, &note);
        let mut answer = answer;
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = call_id(&outputs);
        let outputs = rig.said(&answer);
        assert_eq!(
            matches!(outputs[0], Output::Notify(..)),
            passes,
            "{outputs:?}"
        );
        assert_eq!(outputs[1..], [Output::Done(EVERYBODY, channel)]);
        if !passes {
            assert_eq!(told(&outputs)[0].2["error"]["code"], -32600);
        }
    }
}

#[test]
fn a_client_without_a_stream_of_its_own_is_told_on_that_of_its_call() {
    let mut rig = Rig::shaken(Sharing::Dedicated, &[A]);
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    assert!(matches!(
        rig.said(&changed)[..],
        [Output::Send(A, Channel::MAIN, _)]
    ));
    let (channel, _) = rig.post(A, &call(1));
    assert!(matches!(rig.said(&changed)[..], [Output::Offer(A, at, _)] if at == channel));
    assert_eq!(told(&rig.said(&custom())), [(A, channel, custom())]);
}

#[test]
fn a_lone_client_is_not_told_how_far_an_abandoned_call_is() {
    for cancels in [true, false] {
        let mut rig = Rig::shaken(Sharing::Dedicated, &[A]);
        rig.post(A, &call(1));
        match cancels {
            true => drop(rig.post(A, &cancel(1))),
            false => drop(rig.feed(too_long(&Id::Int(1)))),
        }
        // The same id and the same token, while the server is at work on the first.
        let (channel, outputs) = rig.post(A, &call(1));
        let frame = sent(&outputs);
        let (id, token) = (&frame["id"], &frame["params"]["_meta"]["progressToken"]);
        assert!(*id != 1 && *token != "p", "{frame}");
        assert_eq!(rig.said(&progress(&json!("p"))), []);
        let heard = told(&rig.said(&progress(token)));
        assert_eq!(heard, [(A, channel, progress(&json!("p")))]);
        // The answer to the second is none to the first.
        let answer = |id: &Value| json!({"jsonrpc": "2.0", "id": id, "result": {}});
        assert_eq!(
            told(&rig.said(&answer(id))),
            [(A, channel, answer(&json!(1)))]
        );
        let (_, outputs) = rig.post(A, &call(1));
        assert_ne!(sent(&outputs)["id"], 1);
        rig.feed(Input::Over(Id::Int(1)));
        let (_, outputs) = rig.post(A, &call(2));
        assert_eq!(sent(&outputs)["params"]["_meta"]["progressToken"], "p");
    }
}

#[test]
fn a_lone_client_hears_everything_else_also_if_a_call_took_too_long() {
    let mut rig = Rig::shaken(Sharing::Dedicated, &[A]);
    rig.post(A, &call(1));
    rig.feed(too_long(&Id::Int(1)));
    for message in [log(), custom(), ask()] {
        assert_eq!(told(&rig.said(&message)), [(A, Channel::MAIN, message)]);
    }
}

/// A client of HTTP+SSE can say more before its handshake is answered; if it leaves, the next one gets its server.
#[test]
fn what_the_client_before_has_chosen_is_not_the_next_ones() {
    let mut rig = Rig::new(Sharing::Dedicated);
    let (_, outputs) = rig.post(A, &initialize(0));
    let shaking = id_of(&outputs);
    let wish = |id: u64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    rig.post(A, &wish(1, "resources/subscribe", json!({"uri": "x://a"})));
    rig.post(A, &wish(2, "logging/setLevel", json!({"level": "debug"})));
    let undone = rig.feed(Input::Gone(A));
    assert_eq!(sent(&undone)["method"], "resources/unsubscribe");
    rig.post(B, &initialize(0));
    let answer =
        json!({"jsonrpc": "2.0", "id": crate::routes::json_of(&shaking), "result": welcome()});
    let outputs = rig.said(&answer);
    let level = sent(&outputs);
    assert_eq!(
        (&level["method"], &level["params"]["level"]),
        (&json!("logging/setLevel"), &json!("info"))
    );
    let updated = |uri: &str| {
        let params = json!({ "uri": uri });
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
    };
    assert_eq!(told(&rig.said(&updated("x://a"))), []);
    rig.post(B, &wish(1, "resources/subscribe", json!({"uri": "x://b"})));
    assert_eq!(told(&rig.said(&updated("x://b"))).len(), 1);
    assert_eq!(told(&rig.said(&updated("x://a"))), []);
}

/// The kinds of the errors that these are, each under its id, and the channels that are done.
fn withdrawn(outputs: &[Output]) -> (Vec<(Channel, Value, Value)>, Vec<Channel>) {
    let kind = |it: &Value| it["error"]["data"]["outlive"]["kind"].clone();
    let told = told(outputs).into_iter();
    let told = told.map(|(_, at, line)| (at, line["id"].clone(), kind(&line)));
    let done = outputs.iter().filter_map(|output| match output {
        Output::Done(_, channel) => Some(*channel),
        _ => None,
    });
    (told.collect(), done.collect())
}

#[test]
fn whoever_loses_its_token_is_told_so_and_nothing_else() {
    for sharing in [Sharing::Dedicated, Sharing::Shared] {
        let mut rig = Rig::shaken(sharing, &[A]);
        let (one, first) = rig.post(A, &call(1));
        let (two, _) = rig.post(A, &call(2));
        let outputs = rig.feed(Input::Withdrawn(A, Channel::MAIN));
        let kind = json!("token_withdrawn");
        let told = vec![(one, json!(1), kind.clone()), (two, json!(2), kind)];
        assert_eq!(withdrawn(&outputs), (told, vec![one, two]), "{sharing:?}");
        let cancelled = |output: &&Output| {
            matches!(output, Output::Cancel(_, _, AbandonReason::TokenWithdrawn))
        };
        assert_eq!(outputs.iter().filter(cancelled).count(), 2);
        let id = sent(&first)["id"].clone();
        for late in [
            json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            log(),
            custom(),
            progress(&id),
        ] {
            assert_eq!(told_to(&rig.said(&late)), [], "{late}");
        }
        assert_eq!(rig.switch.clients(), 0);
    }
}

fn told_to(outputs: &[Output]) -> Vec<Client> {
    told(outputs).into_iter().map(|it| it.0).collect()
}

#[test]
fn a_modern_request_whose_token_is_withdrawn_says_whether_it_was_sent() {
    let mut rig = Rig::new(Sharing::Pooled);
    let (waiting, probe) = rig.post(EVERYBODY, &modern(1, "tools/call"));
    let outputs = rig.feed(Input::Withdrawn(EVERYBODY, waiting));
    let line = &told(&outputs)[0].2;
    assert_eq!(
        line["error"]["data"]["outlive"]["outcome"], "not_sent",
        "{line}"
    );
    let (other, _) = rig.post(EVERYBODY, &modern(1, "tools/call"));
    rig.said(&json!({"jsonrpc": "2.0", "id": sent(&probe)["id"], "result": {"supportedVersions": ["2026-07-28"]}}));
    let (mine, _) = rig.post(EVERYBODY, &modern(1, "tools/call"));
    let outputs = rig.feed(Input::Withdrawn(EVERYBODY, mine));
    let line = &told(&outputs)[0].2;
    assert_eq!(
        line["error"]["data"]["outlive"]["outcome"], "unknown",
        "{line}"
    );
    let told = vec![(mine, json!(1), json!("token_withdrawn"))];
    assert_eq!(withdrawn(&outputs), (told, vec![mine]));
    assert_eq!(
        rig.switch.in_flight(),
        1,
        "the other one is left: {other:?}"
    );
}

#[test]
fn a_level_that_was_cancelled_does_not_come_back() {
    let mut rig = Rig::shaken(Sharing::Shared, &[A]);
    for (id, level) in [(1, "emergency"), (2, "debug")] {
        let params = json!({ "level": level });
        rig.post(
            A,
            &json!({"jsonrpc": "2.0", "id": id, "method": "logging/setLevel", "params": params}),
        );
    }
    rig.post(A, &cancel(1));
    let (_, outputs) = rig.post(A, &cancel(2));
    assert_eq!(
        sent(&outputs)["params"]["level"],
        "info",
        "what it had at first"
    );
}

/// What the session says when a server was replaced is about all clients, whoever waits for what (FM-74).
#[test]
fn all_clients_that_read_warnings_are_told_that_their_server_was_replaced() {
    let set = |level: &str| {
        let params = json!({ "level": level });
        json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": params})
    };
    let replaced = |more: &str| {
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {
            "level": "warning", "logger": "outlive", "data": {
                "event": "server_replaced",
                "server": "time",
                "message": format!(
                    "The server was lost, and a new one is in service, or a new session with it. What the old one \
                     kept in memory is gone.{more}"
                ),
            },
        }})
    };
    let mut rig = Rig::shaken(Sharing::Shared, &[A, B]);
    let (_, outputs) = rig.post(A, &set("info"));
    rig.said(&json!({"jsonrpc": "2.0", "id": sent(&outputs)["id"], "result": {}}));
    rig.post(A, &call(2));
    rig.post(B, &call(2));
    let hears = |rig: &mut Rig, message: &Value| -> Vec<Client> {
        let told = told(&rig.said(message)).into_iter();
        told.map(|it| it.0).collect()
    };
    assert_eq!(
        hears(&mut rig, &replaced("")),
        [A],
        "it has asked for warnings"
    );
    // Anything else that a server says while two wait may be about either.
    assert_eq!(hears(&mut rig, &replaced(" Ask Ann.")), []);
}
