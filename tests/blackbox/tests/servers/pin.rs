//! `--pin`: clients are shown what was accepted, whatever servers say later.

use std::path::PathBuf;
use std::process::Output;

use http_peer::Reply;
use serde_json::{Value, json};

use crate::fleet::{Fleet, refused};
use crate::place::{Place, names};
use crate::rig::{Setup, until};

const CHANGED: &str = "notifications/tools/list_changed";

/// A gateway with one server, whose tools are those of the set in the file `set`.
fn fleet(flags: &[&str], settings: Value) -> Fleet {
    let setup = Setup::new();
    let set = setup.file("set", "v1");
    let entry = json!({
        "command": env!("CARGO_BIN_EXE_fake"), "args": ["--tools", set], "outlive": settings,
    });
    let file = json!({ "mcpServers": { "one": entry } }).to_string();
    setup.file("mcp.json", &file);
    let flags = [&["--servers", "mcp.json", "--list-wait", "45s"], flags].concat();
    Fleet::start(setup, &flags)
}

/// The server offers other tools from now on, and says so.
fn change(fleet: &Fleet, session: &str, set: &str) {
    fleet.setup.file("set", set);
    let tell = json!({ "method": CHANGED, "params": {} });
    assert!(fleet.call_all(session, "one__notify", tell)["result"].is_object());
}

fn status(fleet: &Fleet) -> Value {
    fleet.get("/status.json").json()["servers"][0]["withheld"].clone()
}

/// What is withheld, once something is, also on disk.
fn withheld(fleet: &Fleet) -> Value {
    until("something is withheld", || {
        let is_written = accept(fleet, &["one", "--dry-run"]).status.code() == Some(1);
        Some(status(fleet)).filter(|it| it.is_object() && is_written)
    })
}

fn accept(fleet: &Fleet, words: &[&str]) -> Output {
    fleet.setup.outlive_says(&[&["accept"], words].concat())
}

/// The record of what was accepted, once it is written.
fn recorded(fleet: &Fleet) -> PathBuf {
    until("a record", || {
        let files = std::fs::read_dir(fleet.setup.state().join("pins")).ok()?;
        let mut paths = files.flatten().map(|it| it.path());
        paths.find(|it| it.extension().is_some_and(|it| it == "accepted"))
    })
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn post_accept(fleet: &Fleet, headers: &[(&str, &str)]) -> Reply {
    http_peer::send(fleet.address, "POST", "/servers/one/accept", headers, "").expect("a response")
}

#[test]
fn what_changes_is_withheld_everywhere_until_outlive_accept() {
    let fleet = fleet(&["--pin"], json!({}));
    let all = fleet.all();
    assert!(fleet.tools(&all).contains(&"one__removed".into()));
    recorded(&fleet);
    assert_eq!(text(&accept(&fleet, &["one"])), "Nothing is withheld.\n");
    change(&fleet, &all, "v2");
    let held = withheld(&fleet);
    assert_eq!(held["reason"], "changed");
    // What is new is not there, what is gone is gone, and what has changed goes on as it was.
    let shown = fleet.tools(&all);
    assert!(!shown.contains(&"one__added".into()) && !shown.contains(&"one__removed".into()));
    let alone = fleet.session("one");
    let listed = fleet.ask("/one/mcp", &alone, "tools/list", json!({}));
    let listed = listed["result"]["tools"].as_array().expect("tools");
    assert!(!names(listed).contains(&"added".into()));
    let changing = listed.iter().find(|it| it["name"] == "changing");
    assert!(changing.expect("a tool")["inputSchema"]["required"].is_null());
    let calls = [
        fleet.call_all(&all, "one__added", json!({})),
        fleet.call("one", &alone, "added", json!({})),
    ];
    for answer in calls {
        let error = &answer["error"];
        let said = error["message"].as_str().expect("a sentence");
        for words in ["have changed", "outlive withholds", "`outlive accept one`"] {
            assert!(said.contains(words), "{said}");
        }
        assert_eq!(error["data"]["outlive"]["kind"], "withheld");
    }
    // Whoever runs it is told.
    let told = |it: &Value| it.to_string().contains("outlive accept one");
    until("the log", || {
        fleet.log().iter().find(|it| told(it)).cloned()
    });
    let metrics = fleet.get("/metrics").text();
    assert!(
        metrics.contains("outlive_withheld_definitions{target=\"one\"} 3"),
        "{metrics}"
    );
    let listed = fleet.setup.outlive_says(&["status"]);
    assert!(text(&listed).contains("outlive accept one"));
    let doctor = fleet
        .setup
        .outlive_says(&["doctor", "--servers", "mcp.json"]);
    assert!(text(&doctor).contains("outlive accept one"), "{doctor:?}");
    // Shown, and only then accepted.
    let dry = accept(&fleet, &["one", "--dry-run"]);
    let shown = text(&dry);
    for words in [
        "tool \"added\" is new",
        "tool \"changing\" has changed\n  + inputSchema.required[0]: \"x\"",
        "tool \"removed\" is no longer there",
        held["digest"].as_str().expect("a digest"),
    ] {
        assert!(shown.contains(words), "{shown}");
    }
    assert!(
        !shown.contains('\u{1b}'),
        "no colours where there is no terminal"
    );
    let json: Value = serde_json::from_str(&text(&accept(&fleet, &["--json"]))).expect("JSON");
    assert_eq!(json["withheld"][0]["digest"], held["digest"]);
    let wrong = accept(&fleet, &["one", "--digest", "0123"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(status(&fleet).is_object(), "nothing was accepted");
    let accepted = accept(&fleet, &["one", "--servers", "mcp.json"]);
    assert_eq!(accepted.status.code(), Some(0), "{accepted:?}");
    until("the gateway takes it up", || {
        fleet
            .tools(&all)
            .contains(&"one__added".into())
            .then_some(())
    });
    assert!(status(&fleet).is_null());
    assert_eq!(text(&accept(&fleet, &["one"])), "Nothing is withheld.\n");
}

#[test]
fn a_host_on_standard_streams_is_told_once_and_also_of_one_server_alone() {
    let place = Place::new();
    let set = place.write("set", "v1");
    let mut entry = place.fake("one", &["--tools", &set]);
    entry["outlive"] = json!({ "pin": true });
    let servers = json!({ "one": entry, "two": place.fake("two", &["--tools", &set]) });
    let mut host = place.open(&servers, &["--list-wait", "45s"]);
    assert!(names(&host.list_tools()).contains(&"one__removed".into()));
    place.write("set", "v2");
    let tell = json!({ "method": CHANGED, "params": {} });
    host.ask("one__notify", tell.clone()).result();
    host.ask("two__notify", tell).result();
    // The other server is not pinned.
    until("the change", || {
        names(&host.list_tools())
            .contains(&"two__added".into())
            .then_some(())
    });
    assert!(!names(&host.list_tools()).contains(&"one__added".into()));
    let refused = host.ask("one__added", json!({}));
    assert_eq!(refused.error()["data"]["outlive"]["kind"], "withheld");
}

#[test]
fn the_page_accepts_what_it_has_shown_and_only_for_who_may() {
    let fleet = fleet(&["--pin"], json!({}));
    let all = fleet.all();
    fleet.tools(&all);
    change(&fleet, &all, "v2");
    let digest = withheld(&fleet)["digest"].as_str().expect("one").to_owned();
    let page = fleet.get("/").text();
    for words in [
        "Withheld: 3 definitions",
        "data-action=accept",
        digest.as_str(),
    ] {
        assert!(page.contains(words), "{page}");
    }
    let (meant, shown) = (
        ("Outlive-Action", "accept"),
        ("Outlive-Digest", digest.as_str()),
    );
    let elsewhere = ("Origin", "http://elsewhere.example.com");
    assert_eq!(post_accept(&fleet, &[shown]).status, 403);
    assert_eq!(post_accept(&fleet, &[meant, shown, elsewhere]).status, 403);
    assert_eq!(post_accept(&fleet, &[meant]).status, 409);
    // It changes once more, and what was shown is accepted no longer.
    change(&fleet, &all, "v3");
    until("the next change", || {
        (status(&fleet)["digest"] != digest.as_str()).then_some(())
    });
    assert_eq!(post_accept(&fleet, &[meant, shown]).status, 409);
    let digest = status(&fleet)["digest"].as_str().expect("one").to_owned();
    let done = post_accept(&fleet, &[meant, ("Outlive-Digest", &digest)]);
    assert_eq!(done.json()["action"], "accept");
    until("it is shown", || {
        fleet
            .tools(&all)
            .contains(&"one__removed".into())
            .then_some(())
    });
    assert!(status(&fleet).is_null());
    assert_eq!(
        post_accept(&fleet, &[meant, ("Outlive-Digest", &digest)]).status,
        409
    );
}

/// The same server with other words, in the state of an earlier run.
fn again(earlier: &Setup, args: &[&str]) -> Fleet {
    let state = earlier.state();
    let setup = Setup::new().env("OUTLIVE_STATE_DIR", state.to_str().expect("a path"));
    let set = earlier.path("set");
    let args = [&["--tools", &set], args].concat();
    let entry = json!({ "command": env!("CARGO_BIN_EXE_fake"), "args": args });
    setup.file(
        "mcp.json",
        &json!({ "mcpServers": { "one": entry } }).to_string(),
    );
    let flags = ["--servers", "mcp.json", "--list-wait", "45s", "--pin"];
    Fleet::start(setup, &flags)
}

#[test]
fn another_command_neither_inherits_what_was_accepted_nor_loses_it() {
    let first = fleet(&["--pin"], json!({}));
    let shown = first.tools(&first.all());
    recorded(&first);
    let other = again(&first.setup, &["--ignore-ping"]);
    let all = other.all();
    until("everything is withheld", || {
        status(&other).is_object().then_some(())
    });
    assert_eq!(other.tools(&all), [""; 0]);
    assert_eq!(status(&other)["reason"], "other_origin");
    let answer = other.call_all(&all, "one__ping", json!({}));
    assert_eq!(answer["error"]["data"]["outlive"]["kind"], "withheld");
    // The first one is as it was.
    let back = again(&first.setup, &[]);
    assert_eq!(back.tools(&back.all()), shown);
    let accepted = until("it is written", || {
        let accepted = accept(&other, &["one", "--servers", "mcp.json"]);
        accepted
            .status
            .success()
            .then(|| text(&accepted))
            .filter(|it| it.contains("Accepted"))
    });
    assert!(
        accepted.contains("another command or address"),
        "{accepted}"
    );
    until("it is shown", || (other.tools(&all) == shown).then_some(()));
}

#[test]
fn an_edit_of_the_file_that_changes_the_command_shows_nothing_until_outlive_accept() {
    let fleet = fleet(&["--pin"], json!({}));
    let all = fleet.all();
    let shown = fleet.tools(&all);
    recorded(&fleet);
    let edit = |args: &[&str], times: usize| {
        let set = fleet.setup.path("set");
        let args = [&["--tools", &set], args].concat();
        let entry = json!({ "command": env!("CARGO_BIN_EXE_fake"), "args": args });
        let file = json!({ "mcpServers": { "one": entry } }).to_string();
        fleet.setup.file("mcp.json", &file);
        until("the file to be read", || {
            let log = fleet.log().into_iter();
            let read = log.filter(|it| it["event"] == "servers_read");
            (read.count() >= times).then_some(())
        });
    };
    edit(&["--ignore-ping"], 1);
    // Nothing of what its predecessor has told either, and not where it is alone.
    assert_eq!(fleet.tools(&all), [""; 0]);
    let alone = fleet.session("one");
    let listed = fleet.ask("/one/mcp", &alone, "tools/list", json!({}));
    assert_eq!(listed["result"]["tools"], json!([]));
    assert_eq!(withheld(&fleet)["reason"], "other_origin");
    let answer = fleet.call_all(&all, "one__ping", json!({}));
    assert_eq!(answer["error"]["data"]["outlive"]["kind"], "withheld");
    // Nothing was lost of what was accepted.
    edit(&[], 2);
    until("what it was", || (fleet.tools(&all) == shown).then_some(()));
    edit(&["--ignore-ping"], 3);
    assert_eq!(fleet.tools(&all), [""; 0]);
    withheld(&fleet);
    let accepted = accept(&fleet, &["one", "--servers", "mcp.json"]);
    assert_eq!(accepted.status.code(), Some(0), "{accepted:?}");
    assert!(text(&accepted).contains("another command or address"));
    until("it is shown", || (fleet.tools(&all) == shown).then_some(()));
    let answer = fleet.call_all(&all, "one__ping", json!({}));
    assert!(answer["result"].is_object(), "{answer}");
    assert!(status(&fleet).is_null());
}

#[test]
fn a_damaged_record_shows_nothing_until_it_is_accepted_anew() {
    let first = fleet(&["--pin"], json!({}));
    let shown = first.tools(&first.all());
    let record = recorded(&first);
    std::fs::write(&record, "not ours").expect("damaged");
    let next = again(&first.setup, &[]);
    let all = next.all();
    until("everything is withheld", || {
        status(&next).is_object().then_some(())
    });
    assert_eq!(next.tools(&all), [""; 0]);
    assert_eq!(status(&next)["reason"], "record");
    let told = |it: &Value| it.to_string().contains("cannot be used");
    until("the log", || next.log().iter().find(|it| told(it)).cloned());
    until("it is accepted", || {
        let accepted = accept(&next, &["one"]);
        text(&accepted).contains("Accepted").then_some(())
    });
    until("it is shown", || (next.tools(&all) == shown).then_some(()));
}

#[test]
fn who_asks_for_pins_without_a_file_or_a_place_is_told() {
    let setup = Setup::new();
    let said = refused(&setup, &["--pin", "--", "true"]);
    assert!(said.contains("--servers FILE"), "{said}");
    setup.file(
        "mcp.json",
        r#"{ "mcpServers": { "a": { "command": "true" } } }"#,
    );
    std::fs::create_dir(setup.state()).expect("a folder");
    std::fs::write(setup.state().join("pins"), "").expect("a file");
    let said = refused(&setup, &["--pin", "--servers", "mcp.json"]);
    assert!(
        said.contains("what was accepted (--pin) cannot be kept"),
        "{said}"
    );
    let unknown = Setup::new().outlive_says(&["accept", "nobody"]);
    assert_eq!(unknown.status.code(), Some(2));
    let said = String::from_utf8(unknown.stderr).expect("text");
    assert!(
        said.contains("nothing is known of a server \"nobody\""),
        "{said}"
    );
}
