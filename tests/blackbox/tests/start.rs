//! A server that does not come up says why, each in its own words.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{Answer, Host, Setup, tree, until};

/// Gives up soon.
const SOON: [&str; 8] = [
    "--backoff-base",
    "1ms",
    "--breaker-failures",
    "2",
    "--start-soft",
    "2s",
    "--start-timeout",
    "4s",
];

/// Starts, says `initialize`, and returns the error it gets.
fn refused(setup: Setup) -> (Answer, Host) {
    let mut host = setup.flags(&SOON).start();
    let id = host.request(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "hopeful", "version": "0" },
        }),
    );
    (host.answer(id), host)
}

/// FM-14: a program that does not exist, a file that may not be executed, an exit with a message,
/// a clean exit at once, a refusal and a hang: each reads differently, and names the command.
#[test]
fn fm_14_start_failures_say_what_happened() {
    let (missing, _host) = refused(Setup::new().server(&["/nonexistent/mcp-server", "--flag"]));
    let about = missing.refused("unavailable");
    assert_eq!(about["cause"]["kind"], "spawn_failed");
    assert_eq!(about["cause"]["phase"], "spawn");
    assert!(
        missing.message().contains("no such file"),
        "{}",
        missing.message()
    );
    assert!(
        missing.message().contains("/nonexistent/mcp-server"),
        "{}",
        missing.message()
    );

    let setup = Setup::new();
    let script = setup.file("server.sh", "#!/bin/sh\n");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o644)).expect("its mode");
    let (forbidden, _host) = refused(setup.server(&[&script]));
    assert_eq!(
        forbidden.refused("unavailable")["cause"]["kind"],
        "spawn_failed"
    );
    assert!(
        forbidden.message().contains("not executable"),
        "{}",
        forbidden.message()
    );
    assert!(
        forbidden.message().contains("server.sh"),
        "{}",
        forbidden.message()
    );

    let knobs = ["--exit-at-start", "3", "--say", "DATABASE_URL is not set"];
    let (failed, _host) = refused(Setup::new().knobs(&knobs));
    let about = failed.refused("unavailable");
    assert_eq!(about["cause"]["exit_code"], 3);
    assert_eq!(about["cause"]["phase"], "handshake");
    assert_eq!(
        about["cause"]["stderr_tail"],
        json!(["DATABASE_URL is not set"])
    );
    assert!(failed.message().contains("code 3"), "{}", failed.message());
    assert!(
        failed.message().contains("DATABASE_URL is not set"),
        "{}",
        failed.message()
    );

    let knobs = ["--exit-at-start", "0", "--banner", "usage: server PORT"];
    let (ended, _host) = refused(Setup::new().knobs(&knobs));
    assert_eq!(ended.refused("unavailable")["cause"]["exit_code"], 0);
    assert!(ended.message().contains("code 0"), "{}", ended.message());
    assert!(ended.message().contains("handshake"), "{}", ended.message());

    let (hung, host) = refused(Setup::new().knobs(&["--hang-in-initialize"]));
    assert_eq!(
        hung.refused("unavailable")["cause"]["kind"],
        "start_timeout"
    );
    assert!(
        hung.message().contains("did not answer `initialize`"),
        "{}",
        hung.message()
    );
    drop(host);

    let all = [missing, forbidden, failed, ended, hung];
    for (n, one) in all.iter().enumerate() {
        for other in &all[..n] {
            assert_ne!(one.message(), other.message());
        }
    }
}

/// FM-14: what does not start is logged by its name, and once: the rest is a number.
#[test]
fn fm_14_failed_starts_are_logged_by_name_and_summed_up() {
    let program = ["no-such-mcp-server", "--flag"];
    let flags = ["--breaker-failures", "5", "--backoff-base", "1ms"];
    let mut host = Setup::new().no_log().server(&program).flags(&flags).start();
    let initialize = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "hopeful", "version": "0" },
    });
    let id = host.request("initialize", initialize);
    host.answer(id).refused("unavailable");
    until("the breaker is open", || {
        let log = String::from_utf8_lossy(&host.stderr()).into_owned();
        log.contains("outlive: failed: ").then_some(())
    });
    let log = host.last_stderr();
    let about: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("no such program"))
        .collect();
    assert_eq!(about.len(), 3, "{log}");
    let sentence = "no-such-mcp-server --flag could not be started: there is no such program";
    let begins = ["outlive: ", "outlive: 4 more times: ", "outlive: failed: "];
    for (line, begin) in about.iter().zip(begins) {
        assert!(line.starts_with(&format!("{begin}{sentence}")), "{line}");
    }
}

/// Somebody who types the command at a terminal is told what it waits for, and how to try it.
#[test]
fn a_person_at_a_terminal_is_told_what_it_waits_for() {
    use std::io::Read;
    use std::sync::{Arc, Mutex};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let setup = Setup::new();
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
    grantpt(&master).expect("grantpt");
    unlockpt(&master).expect("unlockpt");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let open = || {
        let both = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .to_owned();
        both.open(name.to_str().expect("a path"))
            .expect("the slave")
    };
    let mut command = setup.command();
    command.stdin(open()).stderr(open());
    let host = Host::spawn(setup, command);
    let mut terminal = std::fs::File::from(master);
    let seen = Arc::new(Mutex::new(String::new()));
    let kept = seen.clone();
    // A thread: what is not told would never be read.
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = terminal.read(&mut piece) {
            let text = String::from_utf8_lossy(&piece[..n]);
            kept.lock().expect("the text").push_str(&text);
        }
    });
    for words in [
        "waiting for an MCP host",
        "configuration",
        "outlive demo",
        "outlive check server",
    ] {
        until(words, || {
            let seen = seen.lock().expect("the text");
            seen.contains(words).then_some(())
        });
    }
    drop(host);
}

/// FM-14: a server's own refusal of the handshake reaches the host in the server's words.
#[test]
fn fm_14_refused_handshake_keeps_the_servers_words() {
    let (answer, _host) = refused(Setup::new().knobs(&["--refuse-initialize", "licence expired"]));
    assert!(
        answer.message().contains("licence expired"),
        "{}",
        answer.message()
    );
}

/// FM-14: control characters in a server's last words are escaped.
#[test]
fn fm_14_last_words_are_made_harmless() {
    let script = r"printf '\033[31mred\007\n' >&2; exit 3";
    let (answer, _host) = refused(Setup::new().server(&["sh", "-c", script]));
    let raw = answer.refused("unavailable")["cause"]["stderr_tail"][0]
        .as_str()
        .expect("a line");
    assert!(raw.contains("red"), "{raw:?}");
    assert!(!raw.chars().any(char::is_control), "{raw:?}");
    assert!(
        !answer.message().chars().any(char::is_control),
        "{:?}",
        answer.message()
    );
}

/// A server that starts slowly is waited for: one spawn, and the handshake and a call sent
/// behind it at once are answered.
#[test]
fn slow_start_is_waited_for() {
    let setup = Setup::new()
        .flags(&["--start-soft", "200ms"])
        .knobs(&["--start-delay", "1500"]);
    let mut host = setup.start();
    host.initialize();
    host.ping();
    assert_eq!(host.tap().pids().len(), 1);
    host.event("the report", |e| e["event"] == "slow_start");
}

/// A first start that fails once costs the host nothing but time.
#[test]
fn first_start_is_tried_again() {
    let setup = Setup::new();
    let once = setup.file("once", "");
    let script = format!("[ -e {once} ] && rm {once} && exit 1; exec FAKE");
    let mut host = setup.script(&script).start();
    host.initialize();
    host.ping();
    host.ready_event(2);
}

/// `initialize` cannot be cancelled, though it waits for a slow start; nor does the attempt reach
/// the server.
#[test]
fn initialize_cannot_be_cancelled() {
    let mut host = Setup::new().knobs(&["--start-delay", "700"]).start();
    let id = host.request(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "impatient", "version": "0" },
        }),
    );
    host.cancel(id);
    host.answer(id).result();
    host.notify("notifications/initialized", json!({}));
    host.ping();
    assert!(host.tap().method("notifications/cancelled").is_empty());
    host.dropped(1, "useless_cancel");
}

/// A server that is broken when the host says `initialize` and mended later: the host can say it
/// again on the same session.
#[test]
fn initialize_can_be_tried_again() {
    let setup = Setup::new();
    let broken = setup.file("broken", "");
    let (answer, mut host) =
        refused(setup.knobs(&["--exit-at-start", "3", "--only-while", &broken]));
    answer.refused("unavailable");
    std::fs::remove_file(&broken).expect("the fault");
    let pause = answer.refused("unavailable")["retry_after_ms"].as_u64();
    std::thread::sleep(std::time::Duration::from_millis(
        pause.expect("a pause").min(2000),
    ));
    host.initialize();
    host.ping();
}

/// Values of variables that look like secrets appear in no log and no error, though the server
/// prints them and though they stand on its command line.
#[test]
fn secrets_appear_nowhere() {
    const SECRET: &str = "sk-live-4f1e0c9d2b7a";
    for format in ["json", "text"] {
        let setup = Setup::new().no_log();
        let log = setup.path("log.jsonl");
        let setup = setup
            .env("EXAMPLE_API_KEY", SECRET)
            .flags(&[
                "--log-format",
                format,
                "--log-file",
                &log,
                "--log-level",
                "debug",
            ])
            .flags(&["--stderr", "capture", "--backoff-base", "1ms"])
            .knobs(&["--token", SECRET]);
        let mut host = Host::ready(setup);
        let answer = host.ask("leak", json!({ "name": "EXAMPLE_API_KEY" }));
        answer.refused("connection_lost");
        assert!(
            answer.message().contains("cannot log in with"),
            "{}",
            answer.message()
        );
        assert!(!answer.0.to_string().contains(SECRET), "{}", answer.0);
        host.ping();
        let junk: String = SECRET.bytes().map(|byte| format!("{byte:02x}")).collect();
        host.ask("junk", json!({ "hex": [junk] })).result();
        host.ping();
        assert!(!host.last_stderr().contains(SECRET));
        let logged = std::fs::read_to_string(&log).expect("the log");
        assert!(
            logged.contains("cannot log in with"),
            "the last words are in the log"
        );
        assert!(!logged.contains(SECRET), "{logged}");
    }
}

/// FM-14: somebody kills a server in its handshake. What it printed when it started is not why.
#[test]
fn fm_14_a_banner_is_not_why_a_server_was_killed_in_its_handshake() {
    let banner = "Update available: pip install --upgrade server";
    let setup = Setup::new().knobs(&["--say", banner, "--hang-in-initialize"]);
    let command = setup.command();
    let mut host = Host::spawn(setup, command);
    host.request(
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": {} }),
    );
    until("the handshake", || host.tap().method("initialize").pop());
    tree::kill(host.server(1), Signal::KILL);
    let lost = host.event("the loss", |e| e["event"] == "lost");
    assert_eq!(lost["cause"]["signal"], 9);
    assert_eq!(lost["cause"].get("stderr_tail"), None, "{lost}");
}
