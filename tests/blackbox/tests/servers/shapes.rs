//! Every shape that hosts give their files.

use serde_json::json;

use crate::fleet::{Fleet, fake};
use crate::rig::Setup;

/// Serves this file, whose only server is the fake under this name.
#[track_caller]
fn serves(file: &str, text: &str) {
    let setup = Setup::new().env("FAKE", env!("CARGO_BIN_EXE_fake"));
    setup.file(file, text);
    let fleet = Fleet::start(setup, &["--servers", file]);
    assert_eq!(fleet.names(), ["it"], "{file}");
    let answer = fleet.initialize("it");
    assert!(answer["result"].is_object(), "{file}: {answer}");
}

#[test]
fn each_host_spells_its_servers_in_its_own_way() {
    let fake = env!("CARGO_BIN_EXE_fake");
    for key in ["mcpServers", "servers", "context_servers"] {
        let text = format!(r#"{{ "{key}": {{ "it": {{ "command": "{fake}" }} }} }} // mine"#);
        serves("mcp.json", &text);
    }
    serves(
        "opencode.jsonc",
        &format!(r#"{{ "mcp": {{ "it": {{ "type": "local", "command": ["{fake}"], }} }} }}"#),
    );
    serves(
        "config.toml",
        &format!("[mcp_servers.it]\ncommand = \"{fake}\""),
    );
    serves(
        "outlive.toml",
        &format!("[servers.it]\ncommand = [\"{fake}\"]\nhold = \"9s\""),
    );
    serves(
        "config.yaml",
        &format!(
            "extensions:\n  it:\n    type: stdio\n    cmd: {fake}\n    args: []\n    enabled: true\n"
        ),
    );
}

#[test]
fn variables_are_those_of_the_environment() {
    let otherwise = format!("${{NO_SUCH_VARIABLE:-{}}}", env!("CARGO_BIN_EXE_fake"));
    for command in ["${FAKE}", "${env:FAKE}", &otherwise] {
        let file = json!({ "servers": { "it": { "command": command } } });
        serves("mcp.json", &file.to_string());
    }
}

#[test]
fn an_address_has_many_names_and_a_server_over_http_is_served_like_any_other() {
    let behind = Fleet::of(json!({ "it": fake() }));
    let url = format!("http://{}/it/mcp", behind.address);
    let front = Fleet::of(json!({
        "a": { "url": url },
        "b": { "serverUrl": url },
        "c": { "httpUrl": url },
        "d": { "type": "http", "url": url, "headers": { "X-Key": "k" } },
    }));
    for server in ["a", "b", "c", "d"] {
        let answer = front.initialize(server);
        assert!(answer["result"].is_object(), "{server}: {answer}");
    }
}
