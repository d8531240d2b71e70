//! Settings and logs.

use serde_json::{Value, json};

use crate::rig::{Host, Setup, until};

/// The message limit in force, as an error tells it.
fn limit(setup: Setup) -> Value {
    let mut host = Host::ready(setup);
    let answer = host.ask("echo", json!({ "text": "x".repeat(100_000) }));
    answer.refused("too_large")["limit"].clone()
}

/// A flag beats a variable, a variable beats the file, the file beats the default.
#[test]
fn flag_beats_variable_beats_file() {
    let with_file = || {
        let setup = Setup::new();
        let file = setup.file("outlive.toml", "message-limit = \"30KiB\"\n");
        setup.flags(&["--config", &file])
    };
    let variable = ("OUTLIVE_MESSAGE_LIMIT", "20KiB");
    assert_eq!(limit(with_file()), 30 << 10);
    assert_eq!(limit(with_file().env(variable.0, variable.1)), 20 << 10);
    let flag = ["--message-limit", "10KiB"];
    assert_eq!(
        limit(with_file().env(variable.0, variable.1).flags(&flag)),
        10 << 10
    );
}

/// The configuration file can be named by a variable too.
#[test]
fn config_file_by_variable() {
    let setup = Setup::new();
    let file = setup.file(
        "outlive.toml",
        "message-limit = \"40KiB\"\nretry = \"never\"\n",
    );
    assert_eq!(limit(setup.env("OUTLIVE_CONFIG", &file)), 40 << 10);
}

/// A bad value is refused before anything is started, with the setting, the value and the reason;
/// the exit code is 2.
#[test]
fn bad_values_are_refused_with_the_reason() {
    let refused = |setup: Setup, words: &[&str]| {
        let mut host = setup.no_log().start();
        assert_eq!(host.exit().code(), Some(2), "{words:?}");
        let stderr = host.last_stderr();
        for word in words {
            assert!(stderr.contains(word), "no {word:?} in: {stderr}");
        }
        assert!(host.tap().pids().is_empty(), "a server was started");
    };
    refused(Setup::new().flags(&["--hold", "soon"]), &["hold", "soon"]);
    refused(
        Setup::new().flags(&["--parent-pid", "0"]),
        &["parent-pid", "zero"],
    );
    refused(
        Setup::new().flags(&["--retry", "maybe"]),
        &["retry", "maybe", "never", "safe", "always"],
    );
    refused(
        Setup::new().flags(&["--message-limit", "12 parsecs"]),
        &["message-limit", "parsecs"],
    );
    refused(Setup::new().flags(&["--max-held=-3"]), &["max-held", "-3"]);
    refused(
        Setup::new().flags(&["--breaker-failures", "0"]),
        &["breaker-failures"],
    );
    refused(
        Setup::new().flags(&["--no-such-flag", "1"]),
        &["no-such-flag"],
    );
    refused(Setup::new().flags(&["--hold"]).server(&[]), &["hold"]);
    refused(Setup::new().env("OUTLIVE_HOLD", "soon"), &["hold", "soon"]);
    refused(
        Setup::new().flags(&["--config", "/nonexistent.toml"]),
        &["/nonexistent.toml"],
    );
    for (content, words) in [
        ("hold = \"soon\"\n", ["hold", "soon"]),
        ("no-such-key = 1\n", ["no-such-key", "outlive.toml"]),
        (
            "hold = [\n",
            ["outlive.toml: line 1, column 9", "unclosed array"],
        ),
    ] {
        let setup = Setup::new();
        let file = setup.file("outlive.toml", content);
        refused(setup.flags(&["--config", &file]), &words);
    }
}

/// A variable that looks like a setting and is none is named, with the one that was meant; the session goes on. Those
/// that `outlive` itself sets for what it starts are known.
#[test]
fn variables_that_are_no_settings_are_named() {
    let setup = Setup::new()
        .no_log()
        .env("OUTLIVE_REQUEST_TIMOUT", "3s")
        .env("OUTLIVE_TREE", "1")
        .env("OUTLIVE_CHECK_MARK", "1")
        .env("OUTLIVE_LISTEN", "127.0.0.1:1");
    let mut host = Host::ready(setup);
    host.ping();
    let stderr = host.last_stderr();
    let told: Vec<&str> = stderr
        .lines()
        .filter(|line| line.contains("OUTLIVE_"))
        .collect();
    assert_eq!(told.len(), 1, "{stderr}");
    for word in [
        "OUTLIVE_REQUEST_TIMOUT",
        "ignored",
        "OUTLIVE_REQUEST_TIMEOUT?",
    ] {
        assert!(told[0].contains(word), "{stderr}");
    }

    let mut host = Host::ready(Setup::new().env("OUTLIVE_XYZZY", "3s"));
    host.ping();
    let told = host.logged(1, "unknown_variable", |_| true);
    assert_eq!(told[0]["variable"], "OUTLIVE_XYZZY");
}

/// One `outlive` under another complains of nothing.
#[test]
fn nested_sessions_know_each_others_variables() {
    let setup = Setup::new().no_log();
    let outlive = Setup::outlive().display().to_string();
    let fake = setup.fake();
    let mut inner = vec![outlive.as_str(), "run", "--"];
    inner.extend(fake.iter().map(String::as_str));
    let mut host = Host::ready(setup.server(&inner));
    host.ping();
    let stderr = host.last_stderr();
    assert!(!stderr.contains("OUTLIVE_"), "{stderr}");
}

/// `--log-format json`: one object per line, each with a time and an event; on standard error
/// when no file is named.
#[test]
fn json_log_is_one_object_per_line() {
    let setup = Setup::new()
        .no_log()
        .flags(&["--log-format", "json", "--stderr", "capture"]);
    let mut host = Host::ready(setup);
    host.ask("crash", json!({ "code": 4 }))
        .refused("connection_lost");
    host.ping();
    let lines = until("the log", || {
        let text = String::from_utf8_lossy(&host.stderr()).into_owned();
        text.contains("\"generation\":2").then_some(text)
    });
    let events: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    for event in &events {
        let time = event["time"].as_str().expect("a time");
        assert!(time.ends_with('Z') && time.contains('T'), "{time}");
        assert!(event["event"].is_string(), "{event}");
    }
    let lost = events
        .iter()
        .find(|event| event["event"] == "lost")
        .expect("the loss");
    assert_eq!(lost["cause"]["exit_code"], 4);
    assert_eq!(lost["in_flight"], 1);
}

/// `--log-format text`: sentences.
#[test]
fn text_log_is_for_people() {
    let mut host = Host::ready(Setup::new().no_log());
    host.ask("crash", json!({ "code": 4 }))
        .refused("connection_lost");
    host.ping();
    until("the log", || {
        let text = String::from_utf8_lossy(&host.stderr()).into_owned();
        (text.contains("exited with code 4") && text.contains("generation 2")).then_some(())
    });
}

/// `--log-file`: the log goes there, and appends; standard error stays the server's.
#[test]
fn log_file_takes_the_log() {
    let setup = Setup::new().no_log();
    let log = setup.file("out.log", "earlier\n");
    let mut host = Host::ready(setup.flags(&["--log-file", &log]));
    host.ask("crash", json!({ "code": 4, "say": "farewell" }))
        .refused("connection_lost");
    host.ping();
    assert_eq!(host.last_stderr(), "farewell\n");
    let logged = std::fs::read_to_string(&log).expect("the log");
    assert!(logged.starts_with("earlier\n"), "the file was overwritten");
    assert!(logged.contains("exited with code 4"), "{logged}");
}

/// `--log-level quiet`: nothing but the server's own standard error.
#[test]
fn quiet_is_quiet() {
    let mut host = Host::ready(Setup::new().no_log().flags(&["--log-level", "quiet"]));
    host.ask("crash", json!({ "code": 4, "say": "farewell" }))
        .refused("connection_lost");
    host.ping();
    assert_eq!(host.last_stderr(), "farewell\n");
}

/// `--log-level debug`: every step of every request, with how it ended and how long it took.
#[test]
fn debug_tells_each_step_of_a_request() {
    // The rig's log is at this level.
    let mut host = Host::ready(Setup::new());
    let crash = host.call("crash", json!({ "code": 4 }));
    host.answer(crash).refused("connection_lost");
    let steps = |id: i64| -> Vec<(Value, Value)> {
        let id = id.to_string();
        let of_it = |e: &&Value| e["event"] == "request" && e["id"] == id.as_str();
        let events = host.events();
        let steps = events.iter().filter(of_it);
        steps
            .map(|e| (e["step"].clone(), e["ending"].clone()))
            .collect()
    };
    let told = until("the last step", || {
        Some(steps(crash)).filter(|steps| steps.len() == 3)
    });
    let expected = [
        (json!("accepted"), Value::Null),
        (json!("sent"), Value::Null),
        (json!("settled"), json!("connection_lost")),
    ];
    assert_eq!(told, expected);
}

/// `--stderr FILE`: the server's standard error goes there, from all generations, and the last
/// words are kept all the same.
#[test]
fn stderr_to_a_file() {
    let setup = Setup::new();
    let file = setup.path("server.err");
    let mut host = Host::ready(setup.flags(&["--stderr", &file]));
    for words in ["first", "second"] {
        let answer = host.ask("crash", json!({ "code": 1, "say": words }));
        assert_eq!(
            answer.refused("connection_lost")["cause"]["stderr_tail"],
            json!([words])
        );
    }
    host.ping();
    assert_eq!(host.last_stderr(), "");
    let kept = std::fs::read_to_string(&file).expect("the file");
    assert_eq!(kept, "first\nsecond\n");
}

/// `--stderr inherit` passes bytes on as they are; `capture` passes nothing on.
#[test]
fn stderr_inherit_and_capture() {
    for (mode, passed_on) in [("inherit", "farewell\n"), ("capture", "")] {
        let mut host = Host::ready(Setup::new().flags(&["--stderr", mode]));
        let answer = host.ask("crash", json!({ "code": 1, "say": "farewell" }));
        assert!(
            answer.message().contains("farewell"),
            "{mode}: {}",
            answer.message()
        );
        host.ping();
        assert_eq!(host.last_stderr(), passed_on, "{mode}");
    }
}

/// Payloads pass through byte for byte: key order, spacing, escapes, big numbers, unknown fields.
#[test]
fn payloads_pass_byte_for_byte() {
    let mut host = Host::ready(Setup::new());
    let line = concat!(
        r#"{"params": {"zeta":1,  "alpha":[1.50,1e3,-0,12345678901234567890123],"u":"\u00e9\/"}, "#,
        r#""method":"unknown/method","x-extra":{"id":9},"id":"keep"  ,"jsonrpc":"2.0"}"#
    );
    let heard = host.tap().received(1).len();
    host.send_raw(format!("{line}\n"));
    assert!(host.answer("keep").message().contains("unknown/method"));
    let record = host.tap().received(1).swap_remove(heard);
    assert_eq!(record["len"], line.len(), "the line was written anew");
}
