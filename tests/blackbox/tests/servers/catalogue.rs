//! What is known of servers, and lists that come from it.

use serde_json::json;

use crate::place::{Place, has, names, pid};

#[test]
fn a_list_is_never_empty_while_servers_start() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let mut host = place.start(&servers, &["--list-wait", "45s"]);
    // All of it before anything is answered.
    let opening = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "rig", "version": "0" },
    });
    host.request("initialize", opening);
    host.notify("notifications/initialized", json!({}));
    let all = names(&host.list_tools());
    assert!(has(&all, "one") && has(&all, "two"), "{all:?}");
}

#[test]
fn with_a_warm_catalogue_lists_are_answered_before_any_server_runs() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &["--start-delay", "50"]) });
    place.learn(&servers);
    let mut host = place.open(&servers, &[]);
    let all = names(&host.list_tools());
    assert!(has(&all, "one") && has(&all, "two"), "{all:?}");
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        let id = host.request(method, json!({}));
        host.answer(id).result();
    }
    assert_eq!(
        (place.spawns("one"), place.spawns("two")),
        (1, 1),
        "nobody has started anything since"
    );
    // A call starts the server that it needs, and no other.
    pid(&mut host, "one__ping");
    assert_eq!((place.spawns("one"), place.spawns("two")), (2, 1));
}

#[test]
fn servers_that_differ_in_the_values_of_variables_alone_are_not_taken_for_each_other() {
    let place = Place::new();
    let script = format!(
        "exec '{}' --tools \"$TOOLS_FILE\"",
        env!("CARGO_BIN_EXE_fake")
    );
    let with = |name: &str, set: &str| {
        let file = place.path(&format!("{name}.tools"));
        std::fs::write(&file, set).expect("a file");
        json!({ "command": "sh", "args": ["-c", script], "env": { "TOOLS_FILE": file } })
    };
    let servers = json!({ "one": with("one", "v1"), "two": with("two", "v2") });
    place.learn(&servers);
    // From what was written down.
    let mut host = place.open(&servers, &[]);
    let all = names(&host.list_tools());
    let odd = ["added", "removed"].map(|tool| {
        let own = ["one", "two"].into_iter();
        let mut own = own.filter(|it| all.contains(&format!("{it}__{tool}")));
        (own.next(), own.next())
    });
    assert_eq!(odd, [(Some("two"), None), (Some("one"), None)], "{all:?}");
}

#[test]
fn a_damaged_catalogue_is_ignored_and_written_anew() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    place.learn(&servers);
    let files = || {
        std::fs::read_dir(place.path("catalogue"))
            .expect("a directory")
            .flatten()
    };
    for (n, file) in files().enumerate() {
        let whole = std::fs::read(file.path()).expect("a file");
        let damaged = match n {
            0 => b"\0\xff not ours".to_vec(),
            _ => whole[..whole.len() / 2].to_vec(),
        };
        std::fs::write(file.path(), damaged).expect("a file");
    }
    place.learn(&servers);
    assert_eq!(place.spawns("one"), 2);
}

#[test]
fn a_list_of_many_pages_is_one_and_a_cursor_that_nobody_gave_is_refused() {
    let place = Place::new();
    let servers =
        json!({ "one": place.fake("one", &["--page", "3"]), "two": place.fake("two", &[]) });
    let mut host = place.open(&servers, &["--list-wait", "45s"]);
    let all = names(&host.list_tools());
    let count = |server: &str| all.iter().filter(|it| it.starts_with(server)).count();
    assert_eq!(count("one__"), count("two__"), "{all:?}");
    let id = host.request("tools/list", json!({ "cursor": "nobody gave this" }));
    assert_eq!(host.answer(id).error()["code"], -32602);
}

#[test]
fn a_list_that_has_changed_is_told_once_however_often_the_server_says_so() {
    let place = Place::new();
    let set = place.write("set", "v1");
    let servers =
        json!({ "one": place.fake("one", &["--tools", &set]), "two": place.fake("two", &[]) });
    let mut host = place.open(&servers, &["--list-wait", "45s"]);
    assert!(names(&host.list_tools()).contains(&"one__removed".into()));
    let change = "notifications/tools/list_changed";
    let tell = json!({ "method": change, "params": {} });
    // Nothing has changed, whatever it says.
    host.ask("one__notify", tell.clone()).result();
    place.write("set", "v2");
    for _ in 0..3 {
        host.ask("one__notify", tell.clone()).result();
    }
    host.wait_for("the change", |it| it["method"] == change);
    let all = names(&host.list_tools());
    assert!(
        all.contains(&"one__added".into()) && !all.contains(&"one__removed".into()),
        "{all:?}"
    );
    host.ask("one__notify", tell).result();
    // Whatever the router has to say about this has been said when the next change is.
    place.write("set", "v1");
    host.ask("one__notify", json!({ "method": change, "params": {} }))
        .result();
    crate::rig::until("the next change", || {
        (host.notified(change).len() >= 2).then_some(())
    });
    assert_eq!(host.notified(change).len(), 2);
}
