//! The settings of single servers.

use serde_json::{Value, json};

use crate::fleet::{Fleet, fake, fake_with};
use crate::rig::Setup;

/// Whether a call that takes a while ends with a timeout.
#[track_caller]
fn times_out(fleet: &Fleet, server: &str) -> bool {
    let session = fleet.session(server);
    let answer = fleet.call(server, &session, "sleep", json!({ "ms": 1500 }));
    match &answer["error"]["data"]["outlive"]["kind"] {
        Value::Null => {
            assert!(answer["result"].is_object(), "{answer}");
            false
        }
        kind => {
            assert_eq!(kind, "timeout", "{answer}");
            true
        }
    }
}

#[test]
fn each_server_has_its_own_timeout_and_the_others_the_general_one() {
    let setup = Setup::new();
    let file = json!({ "mcpServers": {
        "hasty": fake_with(json!({ "request-timeout": "100ms" })),
        "patient": fake_with(json!({ "request-timeout": "off" })),
        "plain": fake(),
    }});
    setup.file("mcp.json", &file.to_string());
    let flags = ["--servers", "mcp.json", "--request-timeout", "200ms"];
    let fleet = Fleet::start(setup, &flags);
    assert!(times_out(&fleet, "hasty"));
    assert!(!times_out(&fleet, "patient"));
    assert!(times_out(&fleet, "plain"));
}

#[test]
fn what_the_entry_says_wins_over_the_settings_file_and_that_over_a_flag() {
    let setup = Setup::new();
    let file = json!({ "mcpServers": {
        "entry": fake_with(json!({ "request-timeout": "off" })),
        "file": fake(),
        "off": fake(),
    }});
    setup.file("mcp.json", &file.to_string());
    let fake = env!("CARGO_BIN_EXE_fake");
    let toml = format!(
        "[servers.entry]\nrequest-timeout = '100ms'\n[servers.file]\nrequest-timeout = '100ms'\n\
         [servers.off]\nenabled = false\n[servers.own]\ncommand = ['{fake}']\n"
    );
    setup.file("outlive.toml", &toml);
    let flags = [
        "--config",
        "outlive.toml",
        "--servers",
        "mcp.json",
        "--request-timeout",
        "off",
    ];
    let fleet = Fleet::start(setup, &flags);
    assert_eq!(fleet.names(), ["entry", "file", "own"]);
    assert!(!times_out(&fleet, "entry"));
    assert!(times_out(&fleet, "file"));
    assert!(!times_out(&fleet, "own"));
}

#[test]
fn the_settings_file_alone_may_have_the_servers() {
    let setup = Setup::new();
    let fake = env!("CARGO_BIN_EXE_fake");
    setup.file(
        "outlive.toml",
        &format!("hold = '9s'\n[servers.one]\ncommand = ['{fake}']\nrequest-timeout = '100ms'\n"),
    );
    let fleet = Fleet::start(setup, &["--config", "outlive.toml"]);
    assert_eq!(fleet.names(), ["one"]);
    assert!(times_out(&fleet, "one"));
}

#[test]
fn a_server_behind_outlive_run_is_served_without_that_outlive_and_keeps_its_settings() {
    let outlive = Setup::outlive();
    let fake = env!("CARGO_BIN_EXE_fake");
    let fleet = Fleet::of(json!({
        "flag": {
            "command": outlive,
            "args": ["run", "--request-timeout", "100ms", "--", fake],
        },
        "variable": {
            "command": outlive,
            "args": ["run", "--", fake],
            "env": { "OUTLIVE_REQUEST_TIMEOUT": "100ms" },
        },
    }));
    assert!(times_out(&fleet, "flag"));
    assert!(times_out(&fleet, "variable"));
    let lines = crate::rig::tree::marked(&fleet.setup.mark)
        .into_iter()
        .filter_map(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok());
    let lines: Vec<String> = lines
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .collect();
    assert!(lines.iter().any(|line| line.contains("fake")), "{lines:?}");
    assert!(
        !lines.iter().any(|line| line.contains("outlive run")),
        "{lines:?}"
    );
}
