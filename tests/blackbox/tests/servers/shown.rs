//! What clients are shown: names, views, search, and a server alone.

use serde_json::json;

use crate::fleet::Fleet;
use crate::place::{Place, names, pid};
use crate::rig::Setup;

#[test]
fn names_that_agree_are_long_or_hostile_are_told_apart_and_work() {
    let place = Place::new();
    let long = "a-server-with-a-name-that-is-far-too-long-for-any-client-of-ours";
    let servers = [
        "a",
        "a__ping",
        "Sequential Thinking",
        "weird; rm -rf \"x\"",
        "1.2_3",
        long,
    ];
    let entries = servers.iter().enumerate();
    let entries = entries.map(|(n, name)| (name.to_string(), place.fake(&n.to_string(), &[])));
    let mut host = place.open(
        &json!(entries.collect::<serde_json::Map<_, _>>()),
        &["--list-wait", "45s", "--expose", "list"],
    );
    let all = names(&host.list_tools());
    let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "{all:?}");
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(
        all.iter().all(|it| it.len() <= 50 && it.chars().all(plain)),
        "{all:?}"
    );
    let pings: Vec<&String> = all.iter().filter(|it| it.ends_with("__ping")).collect();
    assert_eq!(pings.len(), servers.len(), "{all:?}");
    let pids: std::collections::BTreeSet<u64> = pings.iter().map(|it| pid(&mut host, it)).collect();
    assert_eq!(pids.len(), servers.len());
}

#[test]
fn without_prefixes_the_first_server_has_a_name_that_two_have() {
    let place = Place::new();
    let set = place.write("set", "v2");
    let servers = json!({ "b": place.fake("b", &[]), "c": place.fake("c", &["--tools", &set]) });
    let mut host = place.open(&servers, &["--list-wait", "45s", "--prefix", "never"]);
    let all = names(&host.list_tools());
    assert_eq!(
        all.iter().filter(|it| it.ends_with("ping")).count(),
        2,
        "{all:?}"
    );
    assert!(
        all.contains(&"ping".into()) && all.contains(&"c__ping".into()),
        "{all:?}"
    );
    assert!(all.contains(&"added".into()), "{all:?}");
    let first = pid(&mut host, "ping");
    assert_ne!(first, pid(&mut host, "c__ping"));
    assert_eq!(place.heard("b", "tools/call"), 1);
}

#[test]
fn as_a_search_there_are_two_tools_and_all_others_work() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let mut host = place.open(&servers, &["--list-wait", "45s", "--expose", "search"]);
    assert_eq!(names(&host.list_tools()), ["find_tools", "call_tool"]);
    let found = host.ask("find_tools", json!({ "query": "two echo" }));
    assert!(found.0.to_string().contains("two__echo"), "{}", found.0);
    let call = json!({ "name": "two__echo", "arguments": { "text": "here" } });
    assert_eq!(host.ask("call_tool", call).text(), "here");
    assert_eq!(
        host.ask("one__echo", json!({ "text": "there" })).text(),
        "there"
    );
    let none = host.ask(
        "call_tool",
        json!({ "name": "two__no_such", "arguments": {} }),
    );
    assert!(
        none.0["error"].is_object() || none.0["result"]["isError"] == true,
        "{}",
        none.0
    );
}

#[test]
fn each_server_is_also_alone_at_its_own_address() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let flags = place.flags(&servers);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let fleet = Fleet::start(Setup::new(), &flags);
    let session = fleet.session("one");
    let listed = fleet.ask("/one/mcp", &session, "tools/list", json!({}));
    let tools = names(listed["result"]["tools"].as_array().expect("tools"));
    assert!(tools.contains(&"ping".into()), "{tools:?}");
    let answer = fleet.call("one", &session, "ping", json!({}));
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(place.spawns("two"), 0);
}

#[test]
fn what_a_view_does_not_contain_is_not_there() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let flags = place.flags(&servers);
    let view = "[views.work]\nservers = ['one']\ntools = { deny = ['crash', 'one__crash'] }\n";
    let config = place.write("outlive.toml", view);
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(["--config", &config]);
    let fleet = Fleet::start(Setup::new(), &flags);
    let path = "/view/work/mcp";
    let session = fleet.session_at(path);
    let listed = fleet.ask(path, &session, "tools/list", json!({}));
    let tools = names(listed["result"]["tools"].as_array().expect("tools"));
    assert!(
        tools.contains(&"one__ping".into()) && !tools.contains(&"one__crash".into()),
        "{tools:?}"
    );
    assert!(tools.iter().all(|it| it.starts_with("one__")), "{tools:?}");
    let answer = fleet.ask(
        path,
        &session,
        "tools/call",
        json!({ "name": "one__ping", "arguments": {} }),
    );
    assert!(answer["result"].is_object(), "{answer}");
    for (method, params) in [
        (
            "tools/call",
            json!({ "name": "two__ping", "arguments": {} }),
        ),
        (
            "tools/call",
            json!({ "name": "one__crash", "arguments": {} }),
        ),
        ("prompts/get", json!({ "name": "two__greet" })),
        ("resources/read", json!({ "uri": "outlive:two:mem://a" })),
        (
            "resources/subscribe",
            json!({ "uri": "outlive:two:mem://a" }),
        ),
        (
            "completion/complete",
            json!({
                "ref": { "type": "ref/prompt", "name": "two__greet" },
                "argument": { "name": "words", "value": "x" },
            }),
        ),
    ] {
        let answer = fleet.ask(path, &session, method, params);
        assert!(answer["error"].is_object(), "{method}: {answer}");
    }
    assert_eq!(place.spawns("one"), 1, "it has not crashed");
    for method in [
        "tools/call",
        "prompts/get",
        "resources/read",
        "resources/subscribe",
        "completion/complete",
    ] {
        assert_eq!(place.heard("two", method), 0, "{method}");
    }
}
