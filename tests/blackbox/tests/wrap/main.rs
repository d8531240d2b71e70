//! `outlive wrap` and `outlive unwrap` against files of hosts in a temporary home.

mod home;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use home::{Home, outlive};

/// The file of each host as the crate's own tests have it, and where it is kept.
const FILES: [(&str, &str, &str); 10] = [
    (
        "claude-desktop",
        ".config/Claude/claude_desktop_config.json",
        include_str!("../../../../crates/outlive-hosts/tests/hosts/claude_desktop_config.json"),
    ),
    (
        "claude-code",
        ".claude.json",
        include_str!("../../../../crates/outlive-hosts/tests/hosts/claude.json"),
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        include_str!("../../../../crates/outlive-hosts/tests/hosts/cursor_mcp.json"),
    ),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        include_str!("../../../../crates/outlive-hosts/tests/hosts/vscode_mcp.json"),
    ),
    (
        "windsurf",
        ".codeium/windsurf/mcp_config.json",
        include_str!("../../../../crates/outlive-hosts/tests/hosts/windsurf_mcp_config.json"),
    ),
    (
        "zed",
        ".config/zed/settings.json",
        include_str!("../../../../crates/outlive-hosts/tests/hosts/zed_settings.json"),
    ),
    (
        "codex",
        ".codex/config.toml",
        include_str!("../../../../crates/outlive-hosts/tests/hosts/codex_config.toml"),
    ),
    (
        "gemini-cli",
        ".gemini/settings.json",
        include_str!("../../../../crates/outlive-hosts/tests/hosts/gemini_settings.json"),
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        include_str!("../../../../crates/outlive-hosts/tests/hosts/goose_config.yaml"),
    ),
    (
        "opencode",
        ".config/opencode/opencode.jsonc",
        include_str!("../../../../crates/outlive-hosts/tests/hosts/opencode.jsonc"),
    ),
];

#[test]
fn every_host_is_wrapped_once_and_unwrapped_to_the_byte() {
    let home = Home::new();
    let hosts: Vec<&str> = FILES.iter().map(|(host, ..)| *host).collect();
    for (_, file, text) in FILES {
        home.write(file, text);
    }
    let wrap: Vec<&str> = ["wrap"].iter().chain(&hosts).copied().collect();
    let unwrap: Vec<&str> = ["unwrap"].iter().chain(&hosts).copied().collect();

    let mut dry = wrap.clone();
    dry.push("--dry-run");
    let shown = home.run(&dry);
    assert_eq!(shown.code, 0, "{}", shown.err);
    for secret in ["hunter2", "Bearer", "\x1b", "gpt-5"] {
        assert!(!shown.out.contains(secret), "{}", shown.out);
    }
    assert!(
        shown.err.contains("nothing has been written"),
        "{}",
        shown.err
    );
    for (_, file, text) in FILES {
        assert_eq!(home.read(file), text);
        assert_eq!(home.beside(file), [file.rsplit('/').next().unwrap()]);
        let path = home.path(file).display().to_string();
        assert!(
            shown.out.contains(&format!("--- {path}\n+++ {path}\n@@ ")),
            "{}",
            shown.out
        );
    }

    let told = home.run(&wrap);
    assert_eq!(told.code, 0, "{}", told.err);
    let wrapped: Vec<String> = FILES.iter().map(|(_, file, _)| home.read(file)).collect();
    for ((_, file, text), wrapped) in FILES.iter().zip(&wrapped) {
        assert_ne!(wrapped, text);
        assert!(wrapped.contains(outlive().to_str().unwrap()), "{wrapped}");
        assert_eq!(home.read(&format!("{file}.outlive-backup")), *text);
    }
    assert_eq!(home.run(&wrap).code, 0);
    for ((_, file, _), wrapped) in FILES.iter().zip(&wrapped) {
        assert_eq!(home.read(file), *wrapped);
        assert_eq!(
            home.beside(file).len(),
            2,
            "no second backup of the same: {:?}",
            home.beside(file)
        );
    }

    assert_eq!(home.run(&unwrap).code, 0);
    for (_, file, text) in FILES {
        assert_eq!(home.read(file), text);
        assert_eq!(home.beside(file).len(), 1, "{:?}", home.beside(file));
    }
}

#[test]
fn a_file_that_is_malformed_is_named_with_line_and_column_and_not_touched() {
    for (host, file, text, at) in [
        (
            "cursor",
            ".cursor/mcp.json",
            "{\n  \"mcpServers\": {\n    \"a\": {\"command\": x}}}",
            ":3:22: ",
        ),
        (
            "cursor",
            ".cursor/mcp.json",
            "{\"mcpServers\": {\"a\": {\"command\": 1}}}",
            ":1:34: ",
        ),
        ("cursor", ".cursor/mcp.json", "", ":1:1: "),
        (
            "codex",
            ".codex/config.toml",
            "[mcp_servers.a]\ncommand = x\n",
            ":2:11: ",
        ),
        (
            "goose",
            ".config/goose/config.yaml",
            "extensions:\n  a: [x\n  b: }\n",
            ":3:",
        ),
    ] {
        for command in ["wrap", "unwrap"] {
            let home = Home::new();
            home.write(file, text);
            home.write(
                ".gemini/settings.json",
                "{\"mcpServers\": {\"b\": {\"command\": \"x\"}}}",
            );
            let told = home.run(&[command, host, "gemini-cli"]);
            if command == "unwrap" && text.contains("\"command\": 1") {
                // There is nothing of ours in it, so nothing has to be understood.
                assert_eq!(told.code, 0, "{}", told.err);
            } else {
                assert_eq!(told.code, 1, "{command} {text:?}: {}", told.err);
                let place = format!("outlive: {}{at}", home.path(file).display());
                assert!(told.err.contains(&place), "{}", told.err);
            }
            assert_eq!(home.read(file), text);
            assert_eq!(home.beside(file).len(), 1);
            // The other host's file is none the worse.
            let other = home.read(".gemini/settings.json");
            assert_eq!(
                other.contains("\"run\", \"--\", \"x\""),
                command == "wrap",
                "{other}"
            );
        }
    }
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let home = Home::new();
    home.write(".cursor/x", "");
    let path = home.path(".cursor/mcp.json");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.is_ok_and(|it| it.success()), "a pipe");
    for command in ["wrap", "unwrap"] {
        let told = home.run(&[command, "cursor"]);
        assert_ne!(told.code, 0);
        assert!(told.err.contains("mcp.json is not a file"), "{}", told.err);
    }
}

#[test]
fn a_file_with_two_tables_of_servers_is_refused_and_not_touched() {
    let home = Home::new();
    let one = r#"{"command": "cat"}"#;
    for (text, words) in [
        (
            format!(r#"{{"mcpServers": {{"a": {one}}}, "mcpServers": {{"b": {one}}}}}"#),
            "there is a second mcpServers",
        ),
        (
            r#"{"mcpServers": {"a": {"command": "cat", "command": "ls"}}}"#.to_owned(),
            "the server \"a\" has a second \"command\"",
        ),
    ] {
        home.write(".cursor/mcp.json", &text);
        let told = home.run(&["wrap", "cursor"]);
        assert_ne!(told.code, 0, "{}", told.out);
        assert!(told.err.contains(words), "{}", told.err);
        assert_eq!(home.read(".cursor/mcp.json"), text);
        assert_eq!(home.beside(".cursor/mcp.json"), ["mcp.json"]);
    }
}

#[test]
fn links_are_followed_and_permissions_kept() {
    let home = Home::new();
    home.write(
        "dotfiles/mcp.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}",
    );
    fs::set_permissions(
        home.path("dotfiles/mcp.json"),
        fs::Permissions::from_mode(0o640),
    )
    .unwrap();
    fs::create_dir(home.path(".cursor")).unwrap();
    symlink(
        home.path("dotfiles/mcp.json"),
        home.path(".cursor/mcp.json"),
    )
    .unwrap();
    assert_eq!(home.run(&["wrap", "cursor"]).code, 0);
    let link = fs::symlink_metadata(home.path(".cursor/mcp.json")).unwrap();
    assert!(link.is_symlink());
    for file in ["dotfiles/mcp.json", "dotfiles/mcp.json.outlive-backup"] {
        assert_eq!(
            fs::metadata(home.path(file)).unwrap().mode() & 0o777,
            0o640,
            "{file}"
        );
    }
    assert!(
        home.read("dotfiles/mcp.json")
            .contains("\"run\", \"--\", \"x\"")
    );
    assert_eq!(home.run(&["unwrap", "cursor"]).code, 0);
    assert_eq!(
        home.read("dotfiles/mcp.json"),
        "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}"
    );
}

#[test]
fn what_a_host_adds_later_is_wrapped_too_and_all_of_it_comes_back() {
    let home = Home::new();
    let first = r#"{"mcpServers": {"a": {"command": "x"}}}"#;
    let both = r#"{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}"#;
    home.write("mcp.json", first);
    let file = home.path("mcp.json");
    let file = file.to_str().unwrap();
    home.run(&["wrap", "--file", file]);
    let wrapped = home.read("mcp.json");
    home.write(
        "mcp.json",
        &wrapped.replace("}}}", r#"}, "b": {"command": "y"}}}"#),
    );
    let told = home.run(&["wrap", "--file", file, "--json"]);
    let told: Value = serde_json::from_str(&told.out).expect("JSON and nothing else");
    let file_told = &told["files"][0];
    assert_eq!(
        file_told["servers"][0],
        json!({"name": "a", "project": null, "action": "unchanged", "why": null})
    );
    assert_eq!(file_told["servers"][1]["action"], "wrapped");
    assert_eq!(file_told["written"], true);
    assert!(
        file_told["backup"]
            .as_str()
            .unwrap()
            .ends_with("mcp.json.outlive-backup.2")
    );
    assert_eq!(home.run(&["unwrap", "--file", file]).code, 0);
    assert_eq!(home.read("mcp.json"), both);
    assert_eq!(
        home.beside("mcp.json").len(),
        3,
        "no backup is this file: they stay"
    );
}

#[test]
fn a_difference_shows_no_secret_of_a_command_line_or_an_address() {
    let home = Home::new();
    let text = r#"{"mcpServers": {
  "a": {"command": "npx", "args": ["x", "--api-key", "hunter2-hunter2"], "env": {"K": "hunter2-env"}},
  "b": {"url": "https://h.example/mcp?token=hunter2-query", "headers": {"X": "hunter2-header"}}
}}"#;
    home.write("mcp.json", text);
    let file = home.path("mcp.json");
    let told = home.run(&["wrap", "--dry-run", "--file", file.to_str().unwrap()]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(told.out.contains("--api-key"), "{}", told.out);
    let all = told.out + &told.err;
    assert!(!all.contains("hunter2"), "{all}");
}

#[test]
fn a_server_that_unwrap_leaves_behind_outlive_is_a_failure() {
    let home = Home::new();
    let text =
        r#"{"mcpServers": {"a": {"command": "outlive", "args": ["run", "npm", "--", "x"]}}}"#;
    home.write("mcp.json", text);
    let file = home.path("mcp.json");
    let told = home.run(&["unwrap", "--file", file.to_str().unwrap()]);
    assert_eq!(told.code, 1, "{}", told.out);
    assert_eq!(home.read("mcp.json"), text);
}

#[test]
fn wrong_usage_is_told_apart_from_files_that_are_not_there() {
    let home = Home::new();
    let told = home.run(&["wrap", "cursor"]);
    assert_eq!(told.code, 1);
    assert!(
        told.err.contains("cursor: there is no file ") && told.err.contains("--file"),
        "{}",
        told.err
    );
    for args in [
        &["wrap"][..],
        &["wrap", "emacs"],
        &["wrap", "cursor", "zed", "--file", "x"],
        &["wrap", "cursor", "--program", "/usr/bin/env"],
        &["wrap", "cursor", "--program", "/usr/bin/outlive.sh"],
        &["unwrap", "cursor", "--addresses"],
    ] {
        let told = home.run(args);
        assert_eq!(told.code, 2, "{args:?}");
        assert!(told.out.is_empty() && !told.err.is_empty(), "{args:?}");
    }
    home.write(
        "mcp.json",
        "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}",
    );
    let file = home.path("mcp.json");
    let told = home.run(&[
        "wrap",
        "--file",
        file.to_str().unwrap(),
        "--program",
        "outlive",
    ]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(home.read("mcp.json").contains("\"command\": \"outlive\""));
}

/// The words that a host would start, from a wrapped file.
fn started(home: &Home, server: &str) -> Command {
    let file: Value = serde_json::from_str(&home.read(".cursor/mcp.json")).expect("JSON");
    let server = &file["mcpServers"][server];
    let args: Vec<&str> = server["args"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let mut command = Command::new(server["command"].as_str().unwrap());
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for (name, value) in server["env"].as_object().into_iter().flatten() {
        command.env(name, value.as_str().unwrap());
    }
    command
}

const INITIALIZE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\
    \"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}\n";

#[test]
fn a_wrapped_command_answers() {
    let home = Home::new();
    let server = json!({"mcpServers": {"demo": {"command": outlive(), "args": ["demo-server"]}}});
    home.write(".cursor/mcp.json", &server.to_string());
    assert_eq!(home.run(&["wrap", "cursor"]).code, 0);
    let mut child = started(&home, "demo").spawn().expect("outlive");
    let mut input = child.stdin.take().unwrap();
    input.write_all(INITIALIZE).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("\"serverInfo\""), "{line}");
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn headers_of_a_wrapped_address_reach_it_and_are_on_no_command_line() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let home = Home::new();
    let server =
        json!({"mcpServers": {"r": {"url": url, "headers": {"X-Key": "hunter2", "X-More": "b"}}}});
    home.write(".cursor/mcp.json", &server.to_string());
    assert_eq!(home.run(&["wrap", "cursor"]).code, 0);
    let mut child = started(&home, "r").spawn().expect("outlive");
    let mut input = child.stdin.take().unwrap();
    input.write_all(INITIALIZE).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(
        head.contains("x-key: hunter2\r\n") && head.contains("x-more: b\r\n"),
        "{head}"
    );
    let line = fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains("hunter2"));
    child.kill().unwrap();
    child.wait().unwrap();
}
