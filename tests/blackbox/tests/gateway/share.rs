//! All legacy clients share one server.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::gate::{Client, Gate, kind, text};
use crate::rig::{Setup, until};

fn shared() -> Gate {
    Gate::with(Setup::new(), &["--share"])
}

#[test]
fn fm_32_twenty_clients_need_one_process() {
    let gate = shared();
    assert!(gate.servers().is_empty(), "none before it is needed");
    let clients: Vec<Client> = (0..20).map(|_| gate.client()).collect();
    for client in &clients {
        assert_eq!(text(&client.call(1, "ping", json!({})).answer()), "pong");
    }
    assert_eq!(gate.servers().len(), 1);
    clients.iter().for_each(|client| drop(client.leave()));
    assert_eq!(gate.setup.tap().pids().len(), 1, "and there was no other");
}

#[test]
fn fm_33_a_second_client_is_served_by_the_same_server() {
    let gate = shared();
    let clients: Vec<Client> = (0..5).map(|_| gate.client()).collect();
    for client in &clients {
        assert_eq!(text(&client.call(1, "ping", json!({})).answer()), "pong");
    }
    assert_eq!(gate.setup.tap().pids().len(), 1);
    assert_eq!(gate.setup.tap().method("initialize").len(), 1);
    assert_eq!(
        gate.setup.tap().method("notifications/initialized").len(),
        1
    );
}

#[test]
fn fm_34_the_same_ids_and_tokens_do_not_mix() {
    let gate = shared();
    let clients: Vec<Client> = (0..8).map(|_| gate.client()).collect();
    thread::scope(|scope| {
        for (n, client) in clients.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..20 {
                    let words = format!("{n}/{round}");
                    let answer = client.call(1, "echo", json!({"text": words})).answer();
                    assert_eq!(answer["id"], 1);
                    assert_eq!(text(&answer), words);
                    let said = client.call(1, "progress", json!({"steps": 2})).messages();
                    let (answer, progress) = said.split_last().expect("an answer");
                    assert_eq!(answer["id"], 1);
                    for step in progress {
                        assert_eq!(step["params"]["progressToken"], 1, "{step}");
                    }
                }
            });
        }
    });
}

#[test]
fn a_question_is_put_to_the_client_whose_call_it_is_about_and_to_nobody_else() {
    let gate = shared();
    let (one, two) = (gate.client(), gate.client());
    let mut listening = two.listen();
    let mut asking = one.call(1, "elicit", json!({}));
    let ask = asking.message();
    assert_eq!(ask["method"], "elicitation/create", "{ask}");
    // The other client cannot answer it.
    let answer = |words: &str| json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"action": "accept", "content": {"said": words}}});
    assert_eq!(two.post(&answer("two")).status, 202);
    assert_eq!(one.post(&answer("one")).status, 202);
    let answer = asking.message();
    assert!(answer.to_string().contains("one"), "{answer}");
    // Had it been put to the other client, that would have come before this.
    let notify = json!({"method": "notifications/tools/list_changed"});
    assert_eq!(one.call(2, "notify", notify).status, 200);
    let heard = listening.message();
    assert_eq!(
        heard["method"], "notifications/tools/list_changed",
        "{heard}"
    );
}

#[test]
fn updates_go_to_those_who_asked_for_them() {
    let gate = shared();
    let (one, two) = (gate.client(), gate.client());
    let (mut hears, mut hears_not) = (one.listen(), two.listen());
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "test://a"}});
    assert_eq!(one.post(&subscribe).answer()["result"], json!({}));
    let updated =
        json!({"method": "notifications/resources/updated", "params": {"uri": "test://a"}});
    let changed = json!({"method": "notifications/tools/list_changed"});
    for notify in [updated, changed] {
        assert_eq!(two.call(2, "notify", notify).status, 200);
    }
    let methods = |stream: &mut crate::wire::Reply, n: usize| -> Vec<Value> {
        (0..n).map(|_| stream.message()["method"].clone()).collect()
    };
    assert_eq!(
        methods(&mut hears, 2),
        [
            "notifications/resources/updated",
            "notifications/tools/list_changed"
        ]
    );
    assert_eq!(
        methods(&mut hears_not, 1),
        ["notifications/tools/list_changed"]
    );
}

#[test]
fn a_death_costs_everybody_the_call_in_flight_and_nobody_the_session() {
    let gate = shared();
    let (one, two) = (gate.client(), gate.client());
    thread::scope(|scope| {
        let sleeping = scope.spawn(|| two.call(1, "sleep", json!({"ms": 60_000})).answer());
        until("the call", || {
            (!gate.setup.tap().method("tools/call").is_empty()).then_some(())
        });
        let lost = one.call(1, "crash", json!({})).answer();
        assert_eq!(kind(&lost), "connection_lost");
        assert_eq!(
            kind(&sleeping.join().expect("an answer")),
            "connection_lost"
        );
    });
    for client in [one, two] {
        assert_eq!(text(&client.call(2, "ping", json!({})).answer()), "pong");
    }
    // One handshake of the first client, one replayed.
    assert_eq!(gate.setup.tap().method("initialize").len(), 2);
}

#[test]
fn a_client_that_leaves_takes_its_calls_along_and_nothing_else() {
    let gate = shared();
    let (one, two) = (gate.client(), gate.client());
    let _unread = one.call(1, "sleep", json!({"ms": 60_000}));
    assert_eq!(one.leave().status, 200);
    until("the call is cancelled", || {
        (!gate.setup.tap().notes("cancelled").is_empty()).then_some(())
    });
    assert_eq!(text(&two.call(1, "ping", json!({})).answer()), "pong");
    assert_eq!(gate.servers().len(), 1);
}

#[test]
fn a_server_nobody_uses_is_stopped_and_started_again() {
    let gate = Gate::with(Setup::new(), &["--share", "--idle-stop", "100ms"]);
    let client = gate.client();
    // Longer than that: but there is a client.
    thread::sleep(Duration::from_millis(500));
    assert_eq!(text(&client.call(1, "ping", json!({})).answer()), "pong");
    assert_eq!(gate.setup.tap().pids().len(), 1);
    client.leave();
    until("it is stopped", || gate.servers().is_empty().then_some(()));
    assert_eq!(
        text(&gate.client().call(1, "ping", json!({})).answer()),
        "pong"
    );
    assert_eq!(gate.setup.tap().pids().len(), 2);
}

/// Whoever knows the id of a session can speak in its name. So the ids of two gateways have 128 bits, and over a few
/// dozen of them each of these is sometimes set and sometimes not; none comes twice.
#[test]
fn ids_of_sessions_have_128_bits_and_none_that_stands_still() {
    let gates = [shared(), shared()];
    let clients = gates
        .iter()
        .flat_map(|gate| (0..32).map(|_| gate.client().session));
    let ids: Vec<u128> = clients
        .map(|id| {
            assert_eq!(id.len(), 32, "{id}");
            u128::from_str_radix(&id, 16).expect("hexadecimal digits")
        })
        .collect();
    for gate in ids.chunks(32) {
        let set = gate.iter().fold(0, |set, id| set | id);
        let unset = gate.iter().fold(0, |unset, id| unset | !id);
        assert_eq!((set, unset), (u128::MAX, u128::MAX), "{gate:x?}");
    }
    let different: std::collections::HashSet<u128> = ids.iter().copied().collect();
    assert_eq!(different.len(), ids.len());
}
