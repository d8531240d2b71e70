//! What is wrong with a file, and with what is said beside it.

use serde_json::{Value, json};

use crate::fleet::{Fleet, fake, fake_with, refused};
use crate::rig::Setup;

/// What is said to this file.
#[track_caller]
fn said(name: &str, text: &str) -> String {
    let setup = Setup::new();
    setup.file(name, text);
    refused(&setup, &["--servers", name])
}

#[test]
fn a_file_that_cannot_be_read_or_parsed_is_refused_with_line_and_column() {
    let setup = Setup::new();
    let none = refused(&setup, &["--servers", "none.json"]);
    assert!(none.contains("none.json: cannot be read"), "{none}");
    for (name, text, words) in [
        ("mcp.json", "{\n  \"mcpServers\": {,\n}", "mcp.json:2:18: "),
        ("mcp.json", "{}", "mcp.json:1:1: the file has no servers"),
        (
            "mcp.json",
            "{ \"mcpServers\": [] }",
            "mcp.json:1:17: mcpServers is a list",
        ),
        ("config.toml", "[mcp_servers\n", "config.toml:1:13: "),
    ] {
        let said = said(name, text);
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn names_that_are_none_or_make_the_same_address_are_refused() {
    for (servers, words) in [
        (
            json!({ "my server": fake(), "my-server": fake() }),
            "\"my server\" and \"my-server\" would both be at /my-server/mcp",
        ),
        (json!({ "": fake() }), "an empty name"),
    ] {
        let file = json!({ "mcpServers": servers }).to_string();
        let said = said("mcp.json", &file);
        assert!(
            said.contains(words) && said.contains("mcp.json:1:"),
            "{said}"
        );
    }
}

#[test]
fn a_server_with_a_name_in_another_script_works_as_any_other() {
    let fleet = Fleet::of(json!({ "\u{65e5}\u{672c}": fake(), "one": fake() }));
    let mut at = fleet.names();
    at.sort();
    assert_eq!(at, ["one", "u65e5-u672c"]);
    let session = fleet.session("u65e5-u672c");
    let answer = fleet.call("u65e5-u672c", &session, "ping", json!({}));
    assert!(answer["result"].is_object(), "{answer}");
    let session = fleet.all();
    let tools = fleet.tools(&session);
    let pings = tools.iter().filter(|it| it.ends_with("__ping"));
    let pings: Vec<&String> = pings.collect();
    assert_eq!(pings.len(), 2, "{tools:?}");
    for tool in pings {
        let answer = fleet.call_all(&session, tool, json!({}));
        assert!(answer["result"].is_object(), "{tool}: {answer}");
    }
}

#[test]
fn a_server_that_is_neither_on_nor_off_is_not_started_and_its_call_says_why() {
    let mut odd = fake();
    odd["disabled"] = json!("yes");
    let fleet = Fleet::of(json!({ "odd": odd, "one": fake() }));
    let session = fleet.all();
    assert!(
        fleet
            .tools(&session)
            .iter()
            .all(|it| it.starts_with("one__"))
    );
    let answer = fleet.initialize("odd").to_string();
    let why = "disabled of \\\"odd\\\" is a string, where true or false is wanted";
    assert!(answer.contains(why), "{answer}");
}

#[test]
fn a_file_without_a_server_that_is_on_is_refused() {
    let file = json!({ "mcpServers": { "a": { "command": "x", "disabled": true } } });
    let said = said("mcp.json", &file.to_string());
    assert!(said.contains("no server that is switched on"), "{said}");
}

#[test]
fn a_file_and_a_command_are_one_too_many() {
    let setup = Setup::new();
    setup.file("mcp.json", r#"{ "mcpServers": {} }"#);
    for command in [&["--", "cat"][..], &["https://example.com/mcp"]] {
        let flags = [&["--servers", "mcp.json"], command].concat();
        let said = refused(&setup, &flags);
        assert!(said.contains("give one of them"), "{said}");
    }
}

#[test]
fn a_setting_of_one_server_that_is_wrong_is_named_with_its_place() {
    let file =
        |settings: Value| json!({ "mcpServers": { "time": fake_with(settings) } }).to_string();
    for (settings, words) in [
        (
            json!({ "requst-timeout": "5s" }),
            "\"time\": there is no setting \"requst-timeout\"; did you mean \"request-timeout\"?",
        ),
        (
            json!({ "hold": "5" }),
            "\"time\": hold = \"5\": a duration needs a unit",
        ),
        (
            json!({ "listen": "1" }),
            "\"listen\" is no setting of one server",
        ),
        (
            json!("60s"),
            "outlive = \"60s\": expected an object of settings",
        ),
        (json!({ "pool": 0 }), "pool is 0: nobody would answer"),
        (json!({ "share": 1 }), "share = 1: expected true or false"),
        (json!({ "tools": ["a"] }), "expected { allow"),
        (json!({ "prefix": 7 }), "prefix = 7: expected a string"),
        (
            json!({ "request-timeout": "0s" }),
            "request-timeout is 0: use \"off\"",
        ),
    ] {
        let said = said("mcp.json", &file(settings));
        assert!(
            said.contains(words) && said.contains("mcp.json:1:"),
            "{said}"
        );
    }
}

#[test]
fn the_settings_file_names_only_servers_that_there_are() {
    let setup = Setup::new();
    let file = json!({ "mcpServers": { "github": fake(), "time": fake() } });
    setup.file("mcp.json", &file.to_string());
    for (text, words) in [
        (
            "[servers.githb]\nhold = '1s'",
            "there is no server \"githb\" in mcp.json; did you mean \"github\"?",
        ),
        (
            "[servers.time]\ncommand = ['x']",
            "\"time\" is also in mcp.json",
        ),
        (
            "[views.work]\nservers = ['tim']",
            "[views.work]: there is no server \"tim\"; did you mean \"time\"?",
        ),
        (
            "[views.time]\nservers = ['time']",
            "a server has this name: rename the view",
        ),
        (
            "[servers.time]\nholt = '1s'",
            "outlive.toml:2:1: \"time\": there is no setting \"holt\"; did you mean \"hold\"?",
        ),
    ] {
        setup.file("outlive.toml", text);
        let flags = ["--config", "outlive.toml", "--servers", "mcp.json"];
        let said = refused(&setup, &flags);
        assert!(said.contains(words), "{said}");
    }
}
