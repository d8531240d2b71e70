//! The file of servers changes while clients use them.

use std::path::Path;
use std::time::Duration;

use http_peer::message;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::place::{Place, has, names, pid};
use crate::rig::{Setup, until};

const CHANGED: &str = "notifications/tools/list_changed";

/// Replaces a file, as most editors do.
fn replace(path: &str, text: &str) {
    let draft = format!("{path}.draft");
    std::fs::write(&draft, text).expect("a draft");
    std::fs::rename(&draft, path).expect("a file");
}

fn servers(entries: &Value) -> String {
    json!({ "mcpServers": entries }).to_string()
}

/// A gateway for the servers of a file in this place, with these flags more.
fn serve(place: &Place, entries: &Value, more: &[&str]) -> Fleet {
    let flags = place.flags(entries);
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(["--list-wait", "45s"]);
    flags.extend(more);
    Fleet::start(Setup::new(), &flags)
}

fn is_running(pid: u64) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn pid_of(answer: &Value) -> u64 {
    let pid = answer["result"]["structuredContent"]["pid"].as_u64();
    pid.unwrap_or_else(|| panic!("no pid: {answer}"))
}

/// Waits until the file has been read this often.
fn read(fleet: &Fleet, times: usize) -> Value {
    until("the file to be read", || {
        let log = fleet.log().into_iter();
        let mut read = log.filter(|it| it["event"] == "servers_read");
        read.nth(times - 1)
    })
}

#[test]
fn a_server_that_is_added_is_listed_in_the_same_session_and_the_others_are_not_touched() {
    let place = Place::new();
    let one = place.fake("one", &[]);
    let fleet = serve(&place, &json!({ "one": one }), &[]);
    let session = fleet.all();
    assert!(!has(&fleet.tools(&session), "two"));
    let before = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    let modern = |tool: &str| {
        let call = message::modern_call(5, tool, json!({}));
        let headers = message::modern_headers(&call);
        let headers = message::as_strs(&headers);
        let reply = http_peer::send(fleet.address, "POST", "/mcp", &headers, &call.to_string());
        reply.expect("a response").answer()
    };
    assert!(modern("one__ping")["result"].is_object());
    assert!(modern("two__ping")["error"].is_object());
    assert_eq!(fleet.get("/two/mcp").status, 404);

    let both = json!({ "one": one, "two": place.fake("two", &[]) });
    replace(&place.path("mcp.json"), &servers(&both));
    let told = read(&fleet, 1);
    assert_eq!(told["added"], json!(["two"]), "{told}");
    assert_eq!(
        (&told["changed"], &told["removed"]),
        (&json!([]), &json!([]))
    );
    assert!(has(&fleet.tools(&session), "two"));
    pid_of(&fleet.call_all(&session, "two__ping", json!({})));
    assert!(modern("two__ping")["result"].is_object());
    fleet.session("two");
    assert_eq!(
        pid_of(&fleet.call_all(&session, "one__ping", json!({}))),
        before
    );
    let status = fleet.get("/status.json").json();
    let paths: Vec<&Value> = status["servers"]
        .as_array()
        .expect("servers")
        .iter()
        .collect();
    let paths: Vec<&Value> = paths.iter().map(|it| &it["path"]).collect();
    assert_eq!(paths, ["/one/mcp", "/two/mcp"]);
}

#[test]
fn a_changed_server_is_replaced_under_the_session_of_a_host_and_no_other_is() {
    let place = Place::new();
    let (one, two) = (place.fake("one", &[]), place.fake("two", &[]));
    let mut host = place.open(&json!({ "one": one, "two": two }), &["--list-wait", "45s"]);
    host.list_tools();
    let before = (pid(&mut host, "one__ping"), pid(&mut host, "two__ping"));
    let strings = place.path("strings");
    let stays = host.call("two__puppet", json!({ "strings": strings }));
    let fails = host.call("one__sleep", json!({ "ms": 3_600_000 }));
    until("the calls", || {
        let heard = |name| place.heard(name, "tools/call") == 2;
        (heard("one") && heard("two")).then_some(())
    });
    let mut other = one.clone();
    other["env"] = json!({ "SOMETHING": "else" });
    replace(
        &place.path("mcp.json"),
        &servers(&json!({ "one": other, "two": two })),
    );

    let error = host.answer(fails).error().clone();
    let words = error["message"].as_str().expect("a sentence");
    assert!(
        words.contains("The server \"one\" was changed in the file"),
        "{error}"
    );
    assert_eq!(error["data"]["outlive"]["kind"], "removed", "{error}");
    assert_eq!(error["data"]["outlive"]["outcome"], "unknown", "{error}");
    let after = pid(&mut host, "one__ping");
    assert_ne!(after, before.0);
    until("the end of the old one", || {
        (!is_running(before.0)).then_some(())
    });
    assert_eq!(host.answers(stays), 0);
    place.write("strings", "answer");
    host.answer(stays).result();
    assert_eq!(pid(&mut host, "two__ping"), before.1);
    assert_eq!(place.spawns("two"), 1);
    assert!(host.notified(CHANGED).is_empty(), "the lists are the same");

    // A signal means what it meant.
    host.signal(Signal::HUP);
    until("new processes", || {
        let now = (pid(&mut host, "one__ping"), pid(&mut host, "two__ping"));
        (now.0 != after && now.1 != before.1).then_some(())
    });
}

#[test]
fn a_removed_server_ends_and_whoever_used_it_is_told_so_once() {
    let place = Place::new();
    let (one, two) = (place.fake("one", &[]), place.fake("two", &[]));
    let both = json!({ "one": one, "two": two });
    let mut host = place.open(&both, &["--list-wait", "45s"]);
    host.list_tools();
    let gone = pid(&mut host, "one__ping");
    let call = host.call("one__sleep", json!({ "ms": 3_600_000 }));
    until("the call", || {
        (place.heard("one", "tools/call") == 2).then_some(())
    });
    replace(&place.path("mcp.json"), &servers(&json!({ "two": two })));
    let error = host.answer(call).error().clone();
    let words = error["message"].as_str().expect("a sentence");
    assert!(
        words.contains("The server \"one\" was removed from the file"),
        "{error}"
    );
    until("its end", || (!is_running(gone)).then_some(()));
    until("the change", || {
        (!host.notified(CHANGED).is_empty()).then_some(())
    });
    assert!(!has(&names(&host.list_tools()), "one"));
    assert_eq!(host.ask("one__ping", json!({})).error()["code"], -32602);
    // It comes back: one more change, and a new process.
    replace(&place.path("mcp.json"), &servers(&both));
    until("the next change", || {
        (host.notified(CHANGED).len() >= 2).then_some(())
    });
    assert!(has(&names(&host.list_tools()), "one"));
    assert_ne!(pid(&mut host, "one__ping"), gone);
    assert_eq!(host.notified(CHANGED).len(), 2, "once for each");
    assert_eq!(place.spawns("two"), 1);
}

#[test]
fn a_session_with_a_removed_server_alone_ends_and_that_with_another_does_not() {
    let place = Place::new();
    let (one, two) = (place.fake("one", &[]), place.fake("two", &[]));
    let fleet = serve(&place, &json!({ "one": one, "two": two }), &[]);
    let (first, second) = (fleet.session("one"), fleet.session("two"));
    let gone = pid_of(&fleet.call("one", &first, "ping", json!({})));
    let stays = pid_of(&fleet.call("two", &second, "ping", json!({})));
    replace(&place.path("mcp.json"), &servers(&json!({ "two": two })));
    read(&fleet, 1);
    let headers = [("Mcp-Session-Id", first.as_str())];
    let ping = message::call(9, "ping", json!({}));
    assert_eq!(fleet.post("one", &headers, &ping).status, 404);
    assert_eq!(fleet.post("one", &[], &message::initialize()).status, 404);
    until("its end", || (!is_running(gone)).then_some(()));
    assert_eq!(
        pid_of(&fleet.call("two", &second, "ping", json!({}))),
        stays
    );
    // It comes back under the same address; the old session does not.
    replace(
        &place.path("mcp.json"),
        &servers(&json!({ "two": two, "one": one })),
    );
    read(&fleet, 2);
    assert_eq!(fleet.post("one", &headers, &ping).status, 404);
    assert_ne!(
        pid_of(&fleet.call("one", &fleet.session("one"), "ping", json!({}))),
        gone
    );
    assert_eq!(
        pid_of(&fleet.call("two", &second, "ping", json!({}))),
        stays
    );
}

#[test]
fn a_prefix_or_a_filter_only_changes_what_is_shown() {
    let place = Place::new();
    let one = place.fake("one", &[]);
    let fleet = serve(&place, &json!({ "one": one }), &[]);
    let (session, alone) = (fleet.all(), fleet.session("one"));
    fleet.tools(&session);
    let before = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    let mut shown = one.clone();
    shown["outlive"] = json!({ "prefix": "uno", "tools": { "deny": ["echo"] } });
    replace(&place.path("mcp.json"), &servers(&json!({ "one": shown })));
    let told = read(&fleet, 1);
    assert_eq!(told["changed"], json!([]), "{told}");
    let all = fleet.tools(&session);
    assert!(all.contains(&"uno__ping".into()), "{all:?}");
    assert!(!all.contains(&"uno__echo".into()), "{all:?}");
    assert_eq!(
        pid_of(&fleet.call_all(&session, "uno__ping", json!({}))),
        before
    );
    for hidden in ["one__ping", "uno__echo", "one__echo"] {
        let answer = fleet.call_all(&session, hidden, json!({ "text": "x" }));
        assert_eq!(answer["error"]["code"], -32602, "{hidden}: {answer}");
    }
    // Where it is alone the same is hidden, also from whoever was there before.
    let headers = [("Mcp-Session-Id", alone.as_str())];
    let echo = message::call(9, "echo", json!({ "text": "x" }));
    assert_eq!(fleet.post("one", &headers, &echo).status, 404);
    let answer = fleet.call("one", &fleet.session("one"), "echo", json!({ "text": "x" }));
    assert!(answer["error"].is_object(), "{answer}");
    // Shown again, it answers everybody again.
    let modern = || {
        let call = message::modern_call(5, "ping", json!({}));
        let headers = message::modern_headers(&call);
        let reply = fleet.post("one", &message::as_strs(&headers), &call);
        reply.answer()["result"].is_object()
    };
    assert!(modern());
    replace(&place.path("mcp.json"), &servers(&json!({ "one": one })));
    read(&fleet, 2);
    assert!(modern());
    fleet.call("one", &fleet.session("one"), "echo", json!({ "text": "x" }));
    // Switched off, it is gone.
    shown["disabled"] = json!(true);
    let two = place.fake("two", &[]);
    replace(
        &place.path("mcp.json"),
        &servers(&json!({ "one": shown, "two": two })),
    );
    assert_eq!(read(&fleet, 3)["removed"], json!(["one"]));
    until("its end", || (!is_running(before)).then_some(()));
    assert!(
        !fleet
            .tools(&session)
            .iter()
            .any(|it| it.starts_with("uno__"))
    );
}

#[test]
fn a_broken_file_changes_nothing_is_told_once_and_is_told_to_be_whole_again() {
    let place = Place::new();
    let one = place.fake("one", &[]);
    let fleet = serve(&place, &json!({ "one": one }), &[]);
    let session = fleet.all();
    fleet.tools(&session);
    let before = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    let file = place.path("mcp.json");
    let unusable = || {
        let log = fleet.log().into_iter();
        let told = log.filter(|it| it["event"] == "servers_unusable");
        told.collect::<Vec<Value>>()
    };
    let problem = || fleet.get("/status.json").json()["problem"].clone();
    assert_eq!(problem(), Value::Null);
    for (times, (text, words)) in [
        ("{ \"mcpServers\": {\n  \"one\": oops\n} }", "mcp.json:2:"),
        (
            "{ \"mcpServers\": { \"a b\": { \"command\": \"x\" },\n \"a/b\": { \"command\": \"y\" } } }",
            "mcp.json:2:",
        ),
        (
            "{ \"mcpServers\": {\n \"one\": { \"command\": \"x\", \"outlive\": { \"hold\": 5 } } } }",
            "mcp.json:2:",
        ),
        ("{ \"mcpServers\": {} }", "no server"),
    ]
    .into_iter()
    .enumerate()
    {
        replace(&file, text);
        let told = until("what is wrong", || unusable().get(times).cloned());
        let why = told["error"].as_str().expect("a sentence");
        assert!(why.contains(words), "{why}");
        assert!(problem().as_str().is_some_and(|it| it.contains(why)), "{why}");
        assert!(fleet.get("/").text().contains("id=problem"));
        let status = fleet.setup.outlive_says(&["status"]);
        let table = String::from_utf8(status.stdout).expect("text");
        assert!(table.contains(why), "{why} in {table}");
        assert_eq!(pid_of(&fleet.call_all(&session, "one__ping", json!({}))), before);
    }
    let both = json!({ "one": one, "two": place.fake("two", &[]) });
    replace(&file, &servers(&both));
    let told = read(&fleet, 1);
    assert_eq!(told["was_unusable"], true, "{told}");
    assert_eq!(told["added"], json!(["two"]), "{told}");
    assert_eq!(problem(), Value::Null);
    assert!(has(&fleet.tools(&session), "two"));
    assert_eq!(
        pid_of(&fleet.call_all(&session, "one__ping", json!({}))),
        before
    );
    assert_eq!(unusable().len(), 4, "each once");
}

#[test]
fn a_file_that_is_written_in_pieces_or_taken_away_for_a_moment_is_not_broken() {
    let place = Place::new();
    let one = place.fake("one", &[]);
    let fleet = serve(&place, &json!({ "one": one }), &[]);
    let file = place.path("mcp.json");
    let both = servers(&json!({ "one": one, "two": place.fake("two", &[]) }));
    std::fs::remove_file(&file).expect("a file");
    std::thread::sleep(Duration::from_millis(300));
    for end in [both.len() / 3, both.len() / 2, both.len()] {
        std::fs::write(&file, &both[..end]).expect("a file");
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(read(&fleet, 1)["added"], json!(["two"]));
    let log = fleet.log();
    assert!(
        log.iter().all(|it| it["event"] != "servers_unusable"),
        "{log:?}"
    );
}

#[test]
fn a_pipe_at_the_place_of_the_file_is_told_and_holds_up_no_later_file() {
    let place = Place::new();
    let one = place.fake("one", &[]);
    let fleet = serve(&place, &json!({ "one": one }), &[]);
    let session = fleet.all();
    let before = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    let path = place.path("mcp.json");
    std::fs::remove_file(&path).expect("a file");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.is_ok_and(|it| it.success()), "a pipe");
    let told = fleet.event("servers_unusable");
    let why = told["error"].as_str().unwrap_or_default();
    assert!(why.ends_with("mcp.json is not a file any more"), "{told}");
    let both = json!({ "one": one, "two": place.fake("two", &[]) });
    replace(&path, &servers(&both));
    assert_eq!(read(&fleet, 1)["added"], json!(["two"]));
    assert!(has(&fleet.tools(&session), "two"));
    let after = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    assert_eq!(after, before);
}

#[test]
fn a_directory_at_the_place_of_the_file_is_told_and_holds_up_no_later_file() {
    let place = Place::new();
    let one = place.fake("one", &[]);
    let fleet = serve(&place, &json!({ "one": one }), &[]);
    let session = fleet.all();
    let before = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    let path = place.path("mcp.json");
    std::fs::remove_file(&path).expect("a file");
    std::fs::create_dir(&path).expect("a directory");
    fleet.event("servers_unusable");
    let after = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    assert_eq!(after, before);
    std::fs::remove_dir(&path).expect("a directory");
    let both = json!({ "one": one, "two": place.fake("two", &[]) });
    std::fs::write(&path, servers(&both)).expect("a file");
    assert_eq!(read(&fleet, 1)["added"], json!(["two"]));
    let after = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    assert_eq!(after, before);
}

/// A ConfigMap that Kubernetes mounts: the file is a link into a link that is swapped.
#[cfg(unix)]
#[test]
fn a_file_behind_links_that_are_swapped_is_read_and_restarts_only_what_changed() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    let (one, two) = (place.fake("one", &[]), place.fake("two", &[]));
    let edition = |n: u32, entries: &Value| {
        let folder = place.path(&format!("..{n}"));
        std::fs::create_dir(&folder).expect("a directory");
        std::fs::write(format!("{folder}/servers.json"), servers(entries)).expect("a file");
        let link = place.path("..data_tmp");
        symlink(format!("..{n}"), &link).expect("a link");
        std::fs::rename(&link, place.path("..data")).expect("a swap");
    };
    edition(1, &json!({ "one": one, "two": two }));
    symlink("..data/servers.json", place.path("servers.json")).expect("a link");
    let file = place.path("servers.json");
    let catalogue = place.path("catalogue");
    let flags = [
        "--servers",
        &file,
        "--catalogue",
        &catalogue,
        "--list-wait",
        "45s",
    ];
    let fleet = Fleet::start(Setup::new(), &flags);
    let session = fleet.all();
    fleet.tools(&session);
    let ping = |name: &str| pid_of(&fleet.call_all(&session, &format!("{name}__ping"), json!({})));
    let before = (ping("one"), ping("two"));
    let other = place.fake("two", &["--start-delay", "1"]);
    edition(
        2,
        &json!({ "one": one, "two": other, "three": place.fake("three", &[]) }),
    );
    std::fs::remove_dir_all(place.path("..1")).expect("the old edition");
    let told = read(&fleet, 1);
    assert_eq!(told["added"], json!(["three"]), "{told}");
    assert_eq!(told["changed"], json!(["two"]), "{told}");
    assert_eq!(ping("one"), before.0);
    assert_ne!(ping("two"), before.1);
    ping("three");
    // The same again in another order: nothing has changed.
    edition(
        3,
        &json!({ "three": place.fake("three", &[]), "two": other, "one": one }),
    );
    let told = read(&fleet, 2);
    assert_eq!(
        (&told["added"], &told["changed"]),
        (&json!([]), &json!([])),
        "{told}"
    );
    assert_eq!(ping("one"), before.0);
    assert_eq!(place.spawns("two"), 2);
    assert!(
        fleet
            .log()
            .iter()
            .all(|it| it["event"] != "servers_unusable")
    );
}

#[test]
fn of_fifty_changes_in_a_second_the_last_one_counts_and_a_running_call_is_not_lost() {
    let place = Place::new();
    let one = place.fake("one", &[]);
    let fleet = serve(
        &place,
        &json!({ "one": one, "two": place.fake("two", &[]) }),
        &[],
    );
    let session = fleet.all();
    fleet.tools(&session);
    let before = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    let watcher = fleet.all();
    std::thread::scope(|scope| {
        let call = || fleet.call_all(&session, "one__sleep", json!({ "ms": 8_000 }));
        let running = scope.spawn(call);
        until("the call", || {
            (place.heard("one", "tools/call") == 2).then_some(())
        });
        let file = place.path("mcp.json");
        for n in 0..50 {
            let name = format!("x{n}");
            let entries = match n % 5 {
                0 => json!({ "one": one }),
                1 => json!({ "one": one, name: place.fake("x", &[]) }),
                2 => json!({ name: place.fake("x", &[]), "one": one, "two": one }),
                3 => json!({}),
                _ => json!({ "one": one, "two": place.fake("two", &[]) }),
            };
            match n % 3 {
                0 => replace(&file, &servers(&entries)),
                1 => std::fs::write(&file, servers(&entries)).expect("a file"),
                _ => std::fs::write(&file, &servers(&entries)[..9]).expect("a file"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let last = json!({ "last": place.fake("last", &[]), "one": one });
        std::fs::write(&file, servers(&last)).expect("a file");
        until("the last file", || {
            let tools = fleet.tools(&watcher);
            let is_last = has(&tools, "last") && has(&tools, "one");
            (is_last && !has(&tools, "two") && !tools.iter().any(|it| it.starts_with('x')))
                .then_some(())
        });
        let answer = running.join().expect("an answer");
        assert!(answer["result"].is_object(), "{answer}");
    });
    let after = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    assert_eq!(after, before);
    assert_eq!(place.spawns("one"), 1);
    pid_of(&fleet.call_all(&session, "last__ping", json!({})));
}

#[test]
fn a_server_that_is_renamed_during_a_call_tells_what_became_of_it_and_two_may_swap_their_names() {
    let place = Place::new();
    let (one, two) = (
        place.fake("one", &[]),
        place.fake("two", &["--start-delay", "1"]),
    );
    let three = place.fake("three", &[]);
    let all = json!({ "one": one, "two": two, "three": three });
    // So many tools would be searched and not listed.
    let fleet = serve(&place, &all, &["--expose", "list"]);
    let session = fleet.all();
    fleet.tools(&session);
    let ping = |name: &str| fleet.call_all(&session, &format!("{name}__ping"), json!({}));
    let third = pid_of(&ping("three"));
    pid_of(&ping("one"));
    std::thread::scope(|scope| {
        let call = || fleet.call_all(&session, "one__sleep", json!({ "ms": 3_600_000 }));
        let running = scope.spawn(call);
        until("the call", || {
            (place.heard("one", "tools/call") == 2).then_some(())
        });
        let renamed = json!({ "uno": one, "two": two, "three": three });
        replace(&place.path("mcp.json"), &servers(&renamed));
        let error = running.join().expect("an answer");
        let about = &error["error"]["data"]["outlive"];
        assert_eq!(
            (&about["kind"], &about["outcome"]),
            (&json!("removed"), &json!("unknown")),
            "{error}"
        );
    });
    assert!(has(&fleet.tools(&session), "uno"));
    pid_of(&ping("uno"));
    assert_eq!(ping("one")["error"]["code"], -32602);
    // Each is what the other was; `three` does not notice.
    let heard = (
        place.heard("one", "tools/call"),
        place.heard("two", "tools/call"),
    );
    let swapped = json!({ "uno": two, "two": one, "three": three });
    replace(&place.path("mcp.json"), &servers(&swapped));
    let told = read(&fleet, 2);
    assert_eq!(told["changed"], json!(["two", "uno"]), "{told}");
    pid_of(&ping("uno"));
    assert_eq!(place.heard("two", "tools/call"), heard.1 + 1);
    pid_of(&ping("two"));
    assert_eq!(place.heard("one", "tools/call"), heard.0 + 1);
    assert_eq!(pid_of(&ping("three")), third);
    assert_eq!(place.spawns("three"), 1);
}

#[test]
fn a_file_that_is_far_too_large_is_told_and_changes_nothing() {
    let place = Place::new();
    let one = place.fake("one", &[]);
    let fleet = serve(&place, &json!({ "one": one }), &[]);
    let session = fleet.all();
    let before = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    // A hole of a terabyte, if the file system has such.
    let huge = place.path("huge");
    let file = std::fs::File::create(&huge).expect("a file");
    let sized = [1_u64 << 40, 1 << 33]
        .into_iter()
        .any(|size| file.set_len(size).is_ok());
    assert!(sized, "a large file");
    std::fs::rename(&huge, place.path("mcp.json")).expect("a file");
    let told = fleet.event("servers_unusable");
    let why = told["error"].as_str().unwrap_or_default();
    assert!(why.contains("the file is longer than "), "{told}");
    let after = pid_of(&fleet.call_all(&session, "one__ping", json!({})));
    assert_eq!(after, before);
}

#[test]
fn the_secrets_of_servers_that_come_are_shown_to_nobody() {
    let place = Place::new();
    let one = place.fake("one", &[]);
    let fleet = serve(&place, &json!({ "one": one }), &[]);
    let session = fleet.all();
    fleet.tools(&session);
    let fake = env!("CARGO_BIN_EXE_fake");
    let script = format!("echo \"the key is $API_KEY\" >&2; exec '{fake}'");
    let secret = json!({
        "command": "sh",
        "args": ["-c", script, "--token", "swordfish-swordfish"],
        "env": { "API_KEY": "hunter2hunter2" },
    });
    let file = place.path("mcp.json");
    replace(&file, &servers(&json!({ "one": one, "two": secret })));
    read(&fleet, 1);
    assert!(has(&fleet.tools(&session), "two"));
    let answer = fleet.call_all(&session, "two__crash", json!({}));
    assert!(answer["error"].is_object(), "{answer}");
    fleet.event("lost");
    // What is wrong with a file is told without what is secret in it.
    let mut wrong = secret.clone();
    wrong["outlive"] = json!({ "header": { "Authorization": "Bearer open-sesame-open" } });
    wrong["env"]["API_KEY"] = json!("another-hunter2");
    replace(&file, &servers(&json!({ "one": one, "two": wrong })));
    fleet.event("servers_unusable");
    let says = |words: &[&str]| {
        let said = fleet.setup.outlive_says(words);
        String::from_utf8(said.stdout).expect("text")
    };
    let log = std::fs::read_to_string(fleet.setup.path("log.jsonl")).expect("a log");
    let shown = [
        log,
        answer.to_string(),
        fleet.get("/").text(),
        fleet.get("/status.json").text(),
        fleet.get("/metrics").text(),
        says(&["status"]),
        says(&["status", "--json"]),
        says(&["logs", "servers"]),
    ];
    for text in shown {
        for word in ["hunter2", "swordfish", "sesame"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }
}

#[test]
fn views_and_names_and_tokens_change_together_with_the_settings_file() {
    let place = Place::new();
    let entries = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let view = |servers: &str| format!("[views.work]\nservers = ['{servers}']\n");
    let config = place.write("outlive.toml", &view("one"));
    let fleet = serve(&place, &entries, &["--config", &config]);
    let path = "/view/work/mcp";
    let (session, all) = (fleet.session_at(path), fleet.all());
    fleet.tools(&all);
    let seen = |session: &str| {
        let listed = fleet.ask(path, session, "tools/list", json!({}));
        names(listed["result"]["tools"].as_array().expect("tools"))
    };
    let call = |tool: &str| {
        let params = json!({ "name": tool, "arguments": {} });
        fleet.ask(path, &session, "tools/call", params)
    };
    assert!(has(&seen(&session), "one") && !has(&seen(&session), "two"));
    let one = pid_of(&call("one__ping"));

    replace(&config, &view("two"));
    read(&fleet, 1);
    assert!(has(&seen(&session), "two") && !has(&seen(&session), "one"));
    assert_eq!(call("one__ping")["error"]["code"], -32602);
    pid_of(&call("two__ping"));
    assert!(has(&fleet.tools(&all), "one"), "elsewhere it is there");

    // Names are made in another way, and everybody sees that.
    replace(&config, &format!("separator = '-'\n{}", view("one")));
    read(&fleet, 2);
    assert!(fleet.tools(&all).contains(&"two-ping".into()));
    assert!(seen(&session).contains(&"one-ping".into()));
    assert_eq!(call("one__ping")["error"]["code"], -32602);
    pid_of(&call("one-ping"));
    assert!(one > 0);

    replace(&config, &view("onne"));
    let told = fleet.event("servers_unusable");
    let why = told["error"].as_str().expect("a sentence");
    assert!(
        why.contains("outlive.toml:1:1: [views.work]: there is no server \"onne\""),
        "{why}"
    );
    pid_of(&call("one-ping"));

    // A view that is gone is gone for its sessions, too.
    replace(&config, "");
    read(&fleet, 3);
    let ping = message::call(9, "one__ping", json!({})).to_string();
    let headers = [("Mcp-Session-Id", session.as_str())];
    let reply = http_peer::send(fleet.address, "POST", path, &headers, &ping);
    assert_eq!(reply.expect("a response").status, 404);
    pid_of(&fleet.call_all(&all, "one__ping", json!({})));
}

#[test]
fn a_token_of_a_view_sees_what_the_view_contains_by_then() {
    let place = Place::new();
    let entries = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let view = |servers: &str| format!("[views.work]\nservers = ['{servers}']\n");
    let config = place.write("outlive.toml", &view("one"));
    let tokens = place.write("tokens", "everything\nworker view=work\n");
    let fleet = serve(
        &place,
        &entries,
        &["--config", &config, "--token-file", &tokens],
    );
    let send = |session: &str, body: &Value| {
        let mut headers = vec![("Authorization", "Bearer worker")];
        if !session.is_empty() {
            headers.push(("Mcp-Session-Id", session));
        }
        let body = body.to_string();
        http_peer::send(fleet.address, "POST", "/mcp", &headers, &body).expect("a response")
    };
    let hello = send("", &message::initialize());
    let session = hello
        .header("mcp-session-id")
        .expect("a session")
        .to_owned();
    let call = |tool: &str| send(&session, &message::call(3, tool, json!({}))).answer();
    pid_of(&call("one__ping"));
    replace(&config, &view("two"));
    read(&fleet, 1);
    assert_eq!(call("one__ping")["error"]["code"], -32602);
    pid_of(&call("two__ping"));
    replace(&config, "");
    read(&fleet, 2);
    assert_eq!(
        send(&session, &message::call(4, "two__ping", json!({}))).status,
        403
    );
}
