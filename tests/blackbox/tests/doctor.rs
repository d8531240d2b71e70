//! `outlive doctor`: servers that work, and each way not to.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

/// The binary under test: `OUTLIVE_BIN`, or the one built beside this test.
fn outlive() -> PathBuf {
    match std::env::var_os("OUTLIVE_BIN") {
        Some(path) => path.into(),
        None => Path::new(env!("CARGO_BIN_EXE_fake")).with_file_name("outlive"),
    }
}

fn doctor(args: &[&str]) -> Output {
    Command::new(outlive())
        .arg("doctor")
        .args(args)
        .output()
        .expect("outlive")
}

fn told(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON and nothing else")
}

#[test]
fn a_server_that_works_is_well() {
    let program = outlive();
    let program = program.to_str().unwrap();
    let output = doctor(&["--json", "--", program, "demo-server"]);
    assert_eq!(output.status.code(), Some(0));
    let server = &told(&output)["servers"][0];
    for step in ["well", "found", "starts", "handshake"] {
        assert_eq!(server[step], true, "{server}");
    }
    assert!(server["tools"].as_u64().unwrap() > 0, "{server}");
    assert!(
        server["era"] == "legacy" || server["era"] == "modern",
        "{server}"
    );
    assert_eq!(server["error"], Value::Null);

    let page = doctor(&["--", program, "demo-server"]);
    let page = String::from_utf8(page.stdout).expect("text");
    assert!(
        page.contains("handshake") && page.contains('✓') && !page.contains('✗'),
        "{page}"
    );
    assert!(!page.contains('\x1b'), "colours are for terminals: {page}");
}

#[test]
fn each_server_of_a_file_has_its_own_diagnosis_and_none_costs_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("mcp.json");
    let servers = json!({"mcpServers": {
        "good": {"command": outlive(), "args": ["demo-server"], "env": {"KEY": "hunter2"}},
        "missing": {"command": "no-such-program-anywhere"},
        "dies": {"command": "sh", "args": ["-c", "echo the key is missing >&2; exit 3"]},
        "hangs": {"command": "sleep", "args": ["1000"]},
        "off": {"command": "no-such-program-anywhere", "disabled": true},
        "asks": {"command": "sh", "env": {"KEY": "${input:key}"}},
        "nobody": {"url": "http://127.0.0.1:9/mcp"},
    }});
    std::fs::write(&file, servers.to_string()).expect("written");
    let file = file.to_str().unwrap();
    let output = doctor(&["--json", "--timeout", "4s", "--servers", file]);
    assert_eq!(output.status.code(), Some(1));
    let told = told(&output);
    assert_eq!(told["well"], false);
    assert!(!told.to_string().contains("hunter2"));
    let of = |name: &str| {
        let servers = told["servers"].as_array().unwrap();
        servers
            .iter()
            .find(|server| server["name"] == name)
            .unwrap_or_else(|| panic!("{name}"))
            .clone()
    };
    assert_eq!(of("good")["well"], true, "{told:#}");
    assert_eq!(
        (&of("missing")["found"], &of("missing")["starts"]),
        (&json!(false), &json!(false)),
        "{told:#}"
    );
    assert!(
        of("missing")["advice"]
            .as_str()
            .unwrap()
            .contains("install the program"),
        "{told:#}"
    );
    assert_eq!(
        (&of("dies")["starts"], &of("dies")["handshake"]),
        (&json!(true), &json!(false)),
        "{told:#}"
    );
    assert_eq!(
        of("dies")["last_words"],
        json!(["the key is missing"]),
        "{told:#}"
    );
    assert_eq!(of("hangs")["handshake"], false, "{told:#}");
    assert!(
        of("hangs")["advice"]
            .as_str()
            .unwrap()
            .contains("--timeout"),
        "{told:#}"
    );
    assert_eq!(
        (&of("off")["enabled"], &of("off")["well"]),
        (&json!(false), &json!(true))
    );
    assert!(
        of("asks")["error"]
            .as_str()
            .unwrap()
            .contains("mcp.json:1:"),
        "{told:#}"
    );
    assert_eq!(of("nobody")["found"], false, "{told:#}");
    assert!(
        of("nobody")["advice"]
            .as_str()
            .unwrap()
            .contains("start the server"),
        "{told:#}"
    );
}

#[test]
fn what_cannot_be_examined_is_exit_code_2() {
    for args in [
        &[][..],
        &["--servers", "/no/such/file.json"],
        &["http://127.0.0.1:9/mcp", "more"],
        &["--jobs", "0", "--", "cat"],
    ] {
        let output = doctor(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{args:?}"
        );
    }
}

/// The first bytes that each of these connections brings; nobody is answered.
fn heard(listener: TcpListener) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut all = String::new();
        for stream in listener.incoming() {
            let mut bytes = [0; 4096];
            let read = stream.and_then(|mut stream| stream.read(&mut bytes));
            let text = String::from_utf8_lossy(&bytes[..read.unwrap_or(0)]).into_owned();
            if text.starts_with("END") {
                return all;
            }
            all += &text;
        }
        all
    })
}

#[test]
fn a_server_of_a_file_gets_the_headers_of_its_entry_and_no_others() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let heard = heard(listener);
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("mcp.json");
    let servers = json!({"mcpServers": {
        "a": {"url": format!("http://{address}/mcp"), "headers": {"X-Own": "its-own"}},
    }});
    std::fs::write(&file, servers.to_string()).expect("written");
    let output = Command::new(outlive())
        .args(["doctor", "--json", "--timeout", "3s", "--servers"])
        .arg(&file)
        .env("OUTLIVE_HEADER", "Authorization: Bearer of-another")
        .output()
        .expect("outlive");
    assert_eq!(output.status.code(), Some(1));
    let mut last = TcpStream::connect(address).expect("a connection");
    last.write_all(b"END").expect("written");
    let heard = heard.join().expect("a listener");
    assert!(heard.contains("its-own"), "{heard}");
    assert!(!heard.contains("of-another"), "{heard}");
}

#[test]
fn the_credentials_of_an_address_are_not_shown() {
    let output = doctor(&[
        "--timeout",
        "2s",
        "http://user:hunter2@127.0.0.1:9/mcp?token=hunter3",
    ]);
    let shown = [&output.stdout[..], &output.stderr[..]].concat();
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("127.0.0.1:9"), "{shown}");
    assert!(!shown.contains("hunter"), "{shown}");
}
