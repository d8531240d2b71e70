//! FM-35 and FM-36 through the router: what a bad server costs, and what it does not.

use rustix::process::Signal;
use serde_json::json;

use crate::fleet::{Fleet, fake};
use crate::place::{Place, has, names, pid};
use crate::rig::{Setup, until};

const SOON: &[&str] = &["--list-wait", "1s", "--hold", "200ms"];

#[test]
fn fm_35_bad_servers_leave_all_tools_of_the_others_listed_and_callable() {
    let place = Place::new();
    let servers = json!({
        "exits": place.fake("exits", &["--exit-at-start", "1"]),
        "one": place.fake("one", &[]),
        "hangs": place.fake("hangs", &["--hang-in-initialize"]),
        "missing": { "command": "no-such-program-anywhere" },
        "folder": { "command": "/" },
        "refuses": place.fake("refuses", &["--legacy", "--refuse-initialize", "not today"]),
        "asks": { "command": "x", "args": ["${input:key}"] },
        "nowhere": { "url": "http://127.0.0.1:1/mcp" },
        "two": place.fake("two", &[]),
    });
    let mut host = place.open(&servers, SOON);
    // A list does not wait long for servers that were never seen; those that work are soon.
    let all = until("the tools of those that work", || {
        let all = names(&host.list_tools());
        (has(&all, "one") && has(&all, "two")).then_some(all)
    });
    assert!(
        all.iter()
            .all(|it| it.starts_with("one__") || it.starts_with("two__")),
        "{all:?}"
    );
    assert_ne!(pid(&mut host, "one__ping"), pid(&mut host, "two__ping"));
    let refused = host.ask("exits__ping", json!({}));
    assert!(refused.message().contains("exits"), "{}", refused.0);
    pid(&mut host, "one__ping");
}

#[test]
fn fm_35_a_server_that_starts_late_delays_neither_the_handshake_nor_the_others() {
    let place = Place::new();
    place.write("late.wait", "");
    let servers = json!({ "late": place.late("late"), "one": place.fake("one", &[]) });
    // Nothing is known yet: a list waits for it, but not longer than it is told to.
    let mut host = place.open(&servers, &["--list-wait", "500ms"]);
    let all = until("the tools of the other", || {
        Some(names(&host.list_tools())).filter(|all| has(all, "one"))
    });
    assert!(!has(&all, "late"), "{all:?}");
    pid(&mut host, "one__ping");
    assert_eq!(place.spawns("late"), 0);
    // Once it is there, this is told, and its tools are.
    let change = "notifications/tools/list_changed";
    let told = host.notified(change).len();
    place.remove("late.wait");
    until("the change", || {
        (host.notified(change).len() > told).then_some(())
    });
    assert!(has(&names(&host.list_tools()), "late"));
    pid(&mut host, "late__ping");
}

#[test]
fn fm_35_with_a_warm_catalogue_a_server_that_starts_late_is_waited_for_by_its_own_calls_alone() {
    let place = Place::new();
    let servers = json!({ "late": place.late("late"), "one": place.fake("one", &[]) });
    place.learn(&servers);
    place.write("late.wait", "");
    let mut host = place.open(&servers, &[]);
    let all = names(&host.list_tools());
    assert!(has(&all, "one") && has(&all, "late"), "{all:?}");
    let late = host.call("late__ping", json!({}));
    pid(&mut host, "one__ping");
    assert_eq!(host.answers(late), 0);
    place.remove("late.wait");
    host.answer(late).result();
}

#[test]
fn fm_35_a_server_that_is_killed_fails_its_own_calls_and_is_there_for_the_next() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let mut host = place.open(&servers, &[]);
    host.list_tools();
    let (one, two) = (pid(&mut host, "one__ping"), pid(&mut host, "two__ping"));
    let strings = place.path("strings");
    let other = host.call("two__puppet", json!({ "strings": strings }));
    let own = host.call("one__sleep", json!({ "ms": 3_600_000 }));
    until("the call", || {
        (place.heard("one", "tools/call") == 2).then_some(())
    });
    crate::rig::tree::kill(one as u32, Signal::KILL);
    let lost = host.answer(own);
    assert_eq!(lost.refused("connection_lost")["cause"]["server"], "one");
    assert_ne!(pid(&mut host, "one__ping"), one);
    place.write("strings", "answer");
    host.answer(other).result();
    assert_eq!(pid(&mut host, "two__ping"), two);
    assert_eq!(place.spawns("two"), 1);
}

#[test]
fn fm_36_tools_stay_listed_when_their_server_is_gone_and_a_call_says_why() {
    let place = Place::new();
    let gone = place.path("gone");
    let knobs = ["--exit-at-start", "7", "--only-while", &gone];
    let servers = json!({ "one": place.fake("one", &knobs), "two": place.fake("two", &[]) });
    let mut host = place.open(&servers, &["--hold", "200ms", "--list-wait", "45s"]);
    let before = names(&host.list_tools());
    place.write("gone", "");
    host.ask("one__crash", json!({})).refused("connection_lost");
    let refused = host.ask("one__ping", json!({}));
    assert!(refused.kind().is_some(), "{}", refused.0);
    assert!(refused.message().contains("\"one\""), "{}", refused.0);
    assert_eq!(names(&host.list_tools()), before);
    pid(&mut host, "two__ping");
    place.remove("gone");
    until("its return", || {
        host.ask("one__ping", json!({}))
            .kind()
            .is_none()
            .then_some(())
    });
}

#[test]
fn fm_36_a_dead_server_is_not_called_ready_but_the_gateway_is() {
    let setup = Setup::new();
    let gone = setup.path("gone");
    let knobs = ["--exit-at-start", "7", "--only-while", &gone];
    let one = json!({ "command": env!("CARGO_BIN_EXE_fake"), "args": knobs, "outlive": { "hold": "100ms" } });
    let file = json!({ "mcpServers": { "one": one, "two": fake() } });
    setup.file("mcp.json", &file.to_string());
    let fleet = Fleet::start(setup, &["--servers", "mcp.json", "--list-wait", "45s"]);
    let session = fleet.all();
    let tools = fleet.tools(&session);
    assert!(has(&tools, "one") && has(&tools, "two"), "{tools:?}");
    fleet.setup.file("gone", "");
    fleet.call_all(&session, "one__crash", json!({}));
    let answer = fleet.call_all(&session, "one__ping", json!({}));
    assert!(answer["error"].is_object(), "{answer}");
    let ready = fleet.get("/ready");
    assert_eq!(ready.status, 200);
    let ready = ready.json();
    for target in ready["targets"].as_array().expect("targets") {
        assert_eq!(target["ready"], target["name"] == "two", "{ready}");
    }
    assert_eq!(fleet.tools(&session), tools);
    let answer = fleet.call_all(&session, "two__ping", json!({}));
    assert!(answer["result"].is_object(), "{answer}");
}

#[test]
fn a_server_that_is_this_very_gateway_is_left_out() {
    let place = Place::new();
    let file = place.path("mcp.json");
    let again = json!({ "command": Setup::outlive(), "args": ["run", "--servers", file] });
    let servers = json!({ "again": again, "one": place.fake("one", &[]) });
    let mut host = place.open(&servers, &["--list-wait", "45s"]);
    let all = names(&host.list_tools());
    assert!(has(&all, "one"), "{all:?}");
    assert!(all.iter().all(|it| it.starts_with("one__")), "{all:?}");
    pid(&mut host, "one__ping");
}

#[test]
fn a_server_that_starts_outlive_for_the_same_file_through_a_shell_is_refused_by_it() {
    let place = Place::new();
    let file = place.path("mcp.json");
    let outlive = Setup::outlive();
    let script = format!("exec '{}' run --servers '{file}'", outlive.display());
    let again = json!({ "command": "sh", "args": ["-c", script], "outlive": { "hold": "100ms" } });
    let servers = json!({ "again": again, "one": place.fake("one", &[]) });
    let mut host = place.open(&servers, &["--list-wait", "45s"]);
    let all = names(&host.list_tools());
    assert!(has(&all, "one"), "{all:?}");
    assert!(all.iter().all(|it| it.starts_with("one__")), "{all:?}");
    pid(&mut host, "one__ping");
    // Each that was started would have started the other server, too.
    let mut pids: Vec<u64> = place
        .tap("one")
        .iter()
        .filter_map(|it| it["pid"].as_u64())
        .collect();
    pids.dedup();
    assert_eq!(pids.len(), 1, "{pids:?}");
}

#[test]
fn nothing_is_left_when_the_host_leaves_and_when_outlive_is_killed() {
    for kill in [false, true] {
        let place = Place::new();
        let servers = json!({
            "one": place.fake("one", &[]),
            "two": place.fake("two", &["--ignore-eof"]),
            "hangs": place.fake("hangs", &["--hang-in-initialize"]),
        });
        let mut host = place.open(&servers, SOON);
        host.list_tools();
        pid(&mut host, "one__ping");
        pid(&mut host, "two__ping");
        assert!(host.tree().len() >= 3, "{:?}", host.tree());
        match kill {
            true => host.signal(Signal::KILL),
            false => {
                host.hang_up();
                assert!(host.exit().success());
            }
        }
        host.wait_for_empty_tree();
    }
}
