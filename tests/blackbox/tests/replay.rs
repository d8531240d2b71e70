//! What may be sent again after a death, and what must be.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Answer, Host, Setup, tree, until};

/// Calls a tool that writes a line and dies until there are more than `die_until`; returns the
/// answer and how many lines there are in the end.
fn append(setup: Setup, tool: &str, die_until: u64) -> (Answer, usize) {
    let file = setup.path("effects");
    let mut host = Host::ready(setup);
    let answer = host.ask(tool, json!({ "file": file, "die_until": die_until }));
    host.ping();
    let effects = std::fs::read_to_string(&file)
        .unwrap_or_default()
        .lines()
        .count();
    (answer, effects)
}

/// FM-08: a tool without annotations took effect and died before its answer. It is not run
/// again, and the error says that it may have taken effect.
#[test]
fn fm_08_unannotated_call_is_never_repeated() {
    let (answer, effects) = append(Setup::new(), "append", 1);
    assert_eq!(effects, 1);
    assert_eq!(answer.refused("connection_lost")["outcome"], "unknown");
    assert!(
        answer.message().contains("may have taken effect"),
        "{}",
        answer.message()
    );
}

/// FM-08: a tool declared idempotent or read-only is run again, and its result arrives.
#[test]
fn fm_08_declared_safe_call_is_repeated() {
    for tool in ["append_idem", "append_read"] {
        let (answer, effects) = append(Setup::new(), tool, 1);
        assert_eq!(answer.text(), "2", "{tool}");
        assert_eq!(effects, 2, "{tool}");
    }
}

/// FM-08: a safe call in flight at two deaths in a row is not sent a third time.
#[test]
fn fm_08_poison_call_is_not_sent_a_third_time() {
    let (answer, effects) = append(Setup::new(), "append_idem", 100);
    answer.refused("connection_lost");
    assert_eq!(effects, 2);
}

/// FM-08: what counts is the new server's tool list: a hint that is gone after the restart
/// repeats nothing.
#[test]
fn fm_08_hint_is_checked_on_the_new_list() {
    let setup = Setup::new();
    let tools = setup.file("tools", "v1");
    let file = setup.path("effects");
    let mut host = Host::ready(setup.knobs(&["--tools", &tools]));
    std::fs::write(&tools, "unhinted").expect("the tools");
    let answer = host.ask("append_idem", json!({ "file": file, "die_until": 1 }));
    answer.refused("connection_lost");
    host.ping();
    assert_eq!(
        std::fs::read_to_string(&file)
            .expect("effects")
            .lines()
            .count(),
        1
    );
}

/// FM-08: a list that no longer has the tool repeats nothing either, not even if it has no tools at all, or none on its
/// first page; nor does one that has the tool twice and says both of it.
#[test]
fn fm_08_empty_and_contradictory_lists_repeat_nothing() {
    for set in ["none", "gap", "twice"] {
        let setup = Setup::new();
        let tools = setup.file("tools", "v1");
        let file = setup.path("effects");
        let mut host = Host::ready(setup.knobs(&["--tools", &tools]));
        std::fs::write(&tools, set).expect("the tools");
        let answer = host.ask("append_idem", json!({ "file": file, "die_until": 1 }));
        assert_eq!(
            answer.refused("connection_lost")["outcome"],
            "unknown",
            "{set}"
        );
        host.ping();
        let effects = std::fs::read_to_string(&file).expect("effects");
        assert_eq!(effects.lines().count(), 1, "{set}");
    }
}

/// FM-62: the progress of a call that is sent again goes on from where it was; the host never sees it go back.
#[test]
fn fm_62_progress_of_a_repeated_call_does_not_go_back() {
    let mut host = Host::ready(Setup::new());
    let id = host.request(
        "tools/call",
        json!({
            "name": "tick_read",
            "arguments": { "ticks": 6, "die_at": 4 },
            "_meta": { "progressToken": "t" },
        }),
    );
    assert_eq!(host.answer(id).text(), "ticked");
    let told = host.notified("notifications/progress");
    let values: Vec<_> = told.iter().map(|m| &m["params"]["progress"]).collect();
    assert_eq!(json!(values), json!([1, 2, 3, 4, 5, 6]));
    host.dropped(4, "late_progress");
    assert_eq!(host.tap().method("tools/call").len(), 2);
}

/// FM-08: a hint counts on whatever page of the tool list it stands.
#[test]
fn fm_08_hint_on_a_later_page_is_known() {
    let setup = Setup::new().knobs(&["--page", "5"]);
    let file = setup.path("effects");
    let mut host = setup.start();
    host.initialize();
    let mut cursor = json!({});
    loop {
        let id = host.request("tools/list", cursor);
        match host.answer(id).result().get("nextCursor") {
            Some(next) => cursor = json!({ "cursor": next }),
            None => break,
        }
    }
    let answer = host.ask("append_idem", json!({ "file": file, "die_until": 1 }));
    assert_eq!(answer.text(), "2");
    host.ping();
    assert!(
        host.notified("notifications/tools/list_changed").is_empty(),
        "the pages are the same"
    );
}

/// FM-08: `--retry never` repeats nothing, `--retry always` everything.
#[test]
fn fm_08_retry_policy_is_the_users() {
    let (answer, effects) = append(Setup::new().flags(&["--retry", "never"]), "append_idem", 1);
    answer.refused("connection_lost");
    assert_eq!(effects, 1);
    let (answer, effects) = append(Setup::new().flags(&["--retry", "always"]), "append", 1);
    assert_eq!(answer.text(), "2");
    assert_eq!(effects, 2);
}

/// Read-only methods in flight at a death are sent again; the log says so.
#[test]
fn read_only_methods_are_repeated() {
    let mut host = Host::ready(Setup::new());
    let first = host.server(1);
    // It reads and answers nothing from now on, so all of these are in flight when it dies.
    let mute = host.call("mute", json!({}));
    until("its silence", || host.tap().notes("done").pop());
    let ids: Vec<(i64, &str)> = [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/read", json!({ "uri": "mem://a" })),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "greet" })),
        ("ping", json!({})),
    ]
    .into_iter()
    .map(|(method, params)| (host.request(method, params), method))
    .collect();
    let call = host.call("ping", json!({}));
    until("the last of them at the server", || {
        let calls = host.tap().method("tools/call");
        calls
            .iter()
            .any(|record| record["id"] == call)
            .then_some(())
    });
    tree::kill(first, Signal::KILL);
    for (id, method) in &ids {
        host.answer(*id).result();
        assert_eq!(host.answers(*id), 1, "{method}");
    }
    host.answer(mute).refused("connection_lost");
    host.answer(call).refused("connection_lost");
    host.logged(ids.len(), "retried", |e| e["generation"] == 2);
}

/// FM-41: subscriptions and the log level are given to the new server, once; the host gets one
/// `updated` for what it may have missed; what was unsubscribed stays so; and new updates come.
#[test]
fn fm_41_subscriptions_and_log_level_are_replayed() {
    let mut host = Host::ready(Setup::new());
    for (method, params) in [
        ("resources/subscribe", json!({ "uri": "mem://a" })),
        ("resources/subscribe", json!({ "uri": "mem://b" })),
        ("resources/unsubscribe", json!({ "uri": "mem://b" })),
        ("logging/setLevel", json!({ "level": "info" })),
        ("logging/setLevel", json!({ "level": "warning" })),
    ] {
        let id = host.request(method, params);
        host.answer(id).result();
    }
    tree::kill(host.server(1), Signal::KILL);
    host.ready_event(2);
    let updated = |host: &Host| host.notified("notifications/resources/updated");
    until("the synthesised update", || {
        (!updated(&host).is_empty()).then_some(())
    });

    let memory = host.ask("memory", json!({}));
    let memory = &memory.result()["structuredContent"];
    assert_eq!(memory["subscriptions"], json!(["mem://a"]));
    assert_eq!(memory["level"], "warning");
    let replayed = |method: &str| {
        let mut received = host.tap().received(2);
        received.retain(|record| record["method"] == method);
        received
    };
    assert_eq!(replayed("resources/subscribe").len(), 1);
    assert_eq!(replayed("logging/setLevel").len(), 1);
    let id = &replayed("resources/subscribe")[0]["id"];
    assert!(
        id.as_str().is_some_and(|id| id.starts_with("outlive-2-")),
        "{id}"
    );

    host.ask("touch", json!({ "uri": "mem://a" })).result();
    host.ping();
    let uris: Vec<Value> = updated(&host)
        .iter()
        .map(|m| m["params"]["uri"].clone())
        .collect();
    assert_eq!(
        uris,
        [json!("mem://a"), json!("mem://a")],
        "one synthesised, one from the server"
    );
}

/// FM-47: calls before the handshake, a second `initialize`, a missing `initialized`: each is
/// answered once, and the session stays usable, also on the next server.
#[test]
fn fm_47_handshake_mistakes_are_answered_and_survived() {
    let mut host = Setup::new().start();
    let params = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": { "name": "hasty", "version": "0" },
    });
    let early = host.call("ping", json!({}));
    host.answer(early);
    let first = host.request("initialize", params.clone());
    assert_eq!(host.answer(first).result()["protocolVersion"], "2025-06-18");
    let hasty = host.call("ping", json!({}));
    host.answer(hasty);
    let second = host.request("initialize", params.clone());
    host.answer(second);
    host.notify("notifications/initialized", json!({}));
    host.ping();
    for id in [early, first, hasty, second] {
        assert_eq!(host.answers(id), 1, "answers to {id}");
    }

    tree::kill(host.ping(), Signal::KILL);
    host.ready_event(2);
    assert_eq!(host.ping(), host.server(2));
    assert_eq!(host.tap().received(2)[0]["params"], params);
    let third = host.request("initialize", params);
    host.answer(third);
    host.ping();
    assert_eq!(host.tap().pids().len(), 2);
}

/// FM-47: a host that never says `initialized` is not given to a new server as one that did,
/// and still gets every answer.
#[test]
fn fm_47_missing_initialized_is_not_invented() {
    let mut host = Setup::new().start();
    let id = host.request(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "forgetful", "version": "0" },
        }),
    );
    host.answer(id).result();
    tree::kill(host.server(1), Signal::KILL);
    let call = host.call("ping", json!({}));
    host.answer(call).error();
    assert!(host.tap().method("notifications/initialized").is_empty());
    host.notify("notifications/initialized", json!({}));
    host.ping();
}

/// A `ping` of the host is the host's: it reaches the server under its own id.
#[test]
fn ids_pass_through_unchanged() {
    let mut host = Host::ready(Setup::new());
    for id in [
        json!(0),
        json!("0"),
        json!(-7),
        json!("x y"),
        json!(9_007_199_254_740_993_u64),
    ] {
        host.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
        host.answer(id.clone()).result();
        let seen = host
            .tap()
            .method("ping")
            .iter()
            .any(|record| record["id"] == id);
        assert!(seen, "{id} did not reach the server as it was");
    }
}

/// FM-74: a server is replaced under a session. A host that reads log messages is told, once for each server that it
/// had asked for something; a host that does not is not.
#[test]
fn fm_74_a_host_that_reads_logs_is_told_that_its_server_was_replaced() {
    for reads in [true, false] {
        let mut host = Host::ready(Setup::new());
        if reads {
            let id = host.request("logging/setLevel", json!({"level": "info"}));
            host.answer(id).result();
        }
        assert_eq!(host.ask("echo", json!({"text": "hi"})).text(), "hi");
        let told = |host: &Host| {
            let ours = |it: &Value| it["params"]["data"]["event"] == "server_replaced";
            let logs = host.notified("notifications/message");
            logs.iter().filter(|it| ours(it)).count()
        };
        let mut replace = |server: usize| {
            tree::kill(host.server(server), Signal::KILL);
            host.ready_event(server as u64 + 1);
            // Whatever was on its way before this answer has come. A list is nothing that a server remembers.
            host.list_tools();
            told(&host)
        };
        assert_eq!(replace(1), usize::from(reads));
        assert_eq!(replace(2), usize::from(reads), "that one had done nothing");
        assert_eq!(host.ask("echo", json!({"text": "hi"})).text(), "hi");
    }
}
