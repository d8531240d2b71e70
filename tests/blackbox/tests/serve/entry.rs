//! Who is let in.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::gateway::{self, Gateway};
use crate::rig::{Host, PATIENCE, Setup, until};
use crate::wire;

/// The program does not start: its exit code, and what it says.
fn refused(setup: &Setup) -> (Option<i32>, String) {
    let ended = gateway::command(setup).output().expect("outlive");
    let words = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code(), words)
}

#[test]
fn a_public_address_is_not_served_by_accident() {
    let public = ["--listen", "0.0.0.0:0"];
    let (code, words) = refused(&Setup::new().flags(&public));
    assert_eq!(code, Some(2));
    for flag in ["--token-file", "--allow-anyone"] {
        assert!(words.contains(flag), "{words}");
    }
    drop(Gateway::new(&[&public[..], &["--allow-anyone"]].concat()));
    drop(Gateway::new(&[&public[..], &["--token", "t"]].concat()));
}

#[test]
fn files_and_settings_that_cannot_be_used_are_named() {
    let setup = Setup::new();
    let (empty, gone) = (setup.file("empty", "\n"), setup.path("gone"));
    for (flags, words) in [
        (vec!["--token-file", &gone], "cannot read the tokens"),
        (vec!["--token-file", &empty], "there is no token"),
        (
            vec!["--tls-cert", &gone, "--tls-key", &gone],
            "cannot read the certificate",
        ),
        (
            vec!["--tls-cert", &empty, "--tls-key", &empty],
            "there is no certificate",
        ),
        (vec!["--tls-cert", &empty], "belong together"),
        (vec!["--token", "t", "--token-file", &empty], "both given"),
        (vec!["--path", "/metrics"], "something else"),
        (vec!["--listen", "256.0.0.1:1"], "256.0.0.1:1"),
        (vec!["--pool", "0"], "pool is 0"),
    ] {
        let (code, said) = refused(&Setup::new().flags(&flags));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(words), "{flags:?}: {said}");
    }
}

#[test]
fn what_is_wrong_is_blamed_and_nothing_else() {
    let gone = Setup::new().path("gone");
    for (flags, words, innocent) in [
        (["--listen", "127.0.0.1"], "the port is missing", "socket"),
        (["--listen", "localhost"], "the port is missing", "socket"),
        (["--listen", "::1"], "[::1]:8620", "lookup"),
        (["--token-file", &gone], "cannot read the tokens", "listen"),
        (
            ["--listen", "192.0.2.1:80"],
            "cannot listen at 192.0.2.1:80",
            "tokens",
        ),
    ] {
        let (code, said) = refused(&Setup::new().flags(&flags));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(words), "{flags:?}: {said}");
        assert!(!said.contains(innocent), "{flags:?}: {said}");
    }
}

#[test]
fn settings_come_from_a_file_and_from_variables_too() {
    let setup = Setup::new();
    let file = setup.file(
        "outlive.toml",
        "path = \"/elsewhere\"\nshare = true\ntoken = \"t\"",
    );
    let setup = setup.flags(&["--config", &file]).env(
        "OUTLIVE_ALLOW_ORIGIN",
        "https://a.example,https://b.example",
    );
    let gateway = Gateway::with(setup);
    assert_eq!(gateway.get("/elsewhere", &[]).status, 401);
    let headers = [
        ("Authorization", "Bearer t"),
        ("Origin", "https://b.example"),
    ];
    assert_eq!(gateway.get("/elsewhere", &headers).status, 400);
    assert_eq!(gateway.get("/mcp", &headers).status, 404);
}

#[test]
fn fm_72_a_refusal_names_the_flag() {
    let gateway = Gateway::new(&["--allow-origin", "https://app.example.com"]);
    let from = |origin: &str| gateway.post(&[("Origin", origin)], &wire::initialize());
    assert_eq!(from("https://app.example.com").status, 200);
    let reply = from("https://evil.example.com");
    assert_eq!(reply.status, 403);
    let words = reply.json()["error"]["message"].to_string();
    assert!(
        words.contains("--allow-origin https://evil.example.com"),
        "{words}"
    );
}

#[test]
fn tokens_can_be_replaced_while_it_runs() {
    let setup = Setup::new();
    let file = setup.file("tokens", "old\n");
    let gateway = Gateway::with(setup.flags(&["--token-file", &file]));
    let shown = |token: &str| {
        let header = format!("Bearer {token}");
        gateway
            .post(&[("Authorization", &header)], &json!({}))
            .status
    };
    assert_eq!((shown("old"), shown("new")), (400, 401));
    std::fs::write(&file, "new\n").expect("written");
    gateway.signal(rustix::process::Signal::HUP);
    until("the new token is good", || {
        (shown("new") == 400).then_some(())
    });
    assert_eq!(shown("old"), 401);
}

#[test]
fn connections_are_encrypted_and_a_client_of_ours_trusts_them() {
    let setup = Setup::new();
    let certificate = setup.file("server.pem", include_str!("../http/tls/server.pem"));
    let key = setup.file("server.key", include_str!("../http/tls/server.key"));
    let flags = [
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
        "--token",
        "t",
    ];
    let gateway = Gateway::with(setup.flags(&flags));
    // Without keys nothing is said but that they are needed.
    assert_eq!(gateway.get("/health", &[]).status, 400);

    let there = Setup::new();
    let authority = there.file("ca.pem", include_str!("../http/tls/ca.pem"));
    let url = format!("https://{}/mcp", gateway.address);
    let flags = [
        "--ca-file",
        &authority,
        "--header",
        "Authorization: Bearer t",
    ];
    let mut host = Host::ready(there.flags(&flags).server(&[&url]));
    assert_eq!(host.ask("echo", json!({"text": "hi"})).text(), "hi");
}

#[test]
fn slow_clients_are_given_up_and_others_served() {
    let gateway = Gateway::new(&["--read-timeout", "1s"]);
    let open = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(gateway.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(bytes).expect("sent");
        stream
    };
    let mut slow: Vec<TcpStream> = (0..50)
        .map(|n| match n % 3 {
            0 => open(b""),
            1 => open(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-"),
            _ => open(
                b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                  Content-Length: 100\r\n\r\n{",
            ),
        })
        .collect();
    let session = gateway.session();
    let answer = gateway
        .call(&session, 1, "echo", json!({"text": "hi"}))
        .answer();
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    for stream in &mut slow {
        match stream.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}

#[test]
fn fm_39_there_is_a_bound_to_everything() {
    let flags = [
        "--max-sessions",
        "1",
        "--max-streams",
        "1",
        "--message-limit",
        "10KB",
    ];
    let gateway = Gateway::new(&flags);
    let session = gateway.session();
    let refused = gateway.post(&[], &wire::initialize());
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    let listen = || gateway.get("/mcp", &[("Mcp-Session-Id", &session)]);
    let first = listen();
    assert_eq!((first.status, listen().status), (200, 503));
    let long = json!({"text": "x".repeat(20_000)});
    assert_eq!(gateway.call(&session, 1, "echo", long).status, 413);
    let padding = "x".repeat(300_000);
    let reply = http_peer::send(gateway.address, "GET", "/mcp", &[("X-Long", &padding)], "");
    assert!(reply.is_err() || reply.is_ok_and(|reply| reply.status == 431));
    let answer = gateway
        .call(&session, 2, "echo", json!({"text": "hi"}))
        .answer();
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
}
