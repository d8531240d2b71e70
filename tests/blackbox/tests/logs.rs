//! `outlive logs`: what is kept of each session, for how long, and what never is.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Host, Setup, tree, until};
use crate::status::kept;

/// What `outlive logs` prints.
fn logs(setup: &Setup, args: &[&str]) -> String {
    let output = setup.outlive_says(&[&["logs"], args].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn events(setup: &Setup, args: &[&str]) -> Vec<Value> {
    let text = logs(setup, &[args, &["--json"]].concat());
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn what_happened_is_kept_with_times_and_causes_and_survives_the_end() {
    let mut host = Host::ready(Setup::new());
    tree::kill(host.server(1), Signal::KILL);
    host.ready_event(2);
    host.hang_up();
    host.exit();
    let setup = &host.setup;
    let names: Vec<Value> = events(setup, &["fake"])
        .iter()
        .map(|it| it["event"].clone())
        .collect();
    let lost = names
        .iter()
        .position(|name| name == "lost")
        .expect("the loss");
    assert_eq!(names.first(), Some(&json!("began")));
    assert_eq!(names.last(), Some(&json!("ended")));
    assert!(names[..lost].contains(&json!("connected")));
    let text = logs(setup, &["fak"]);
    let line = text
        .lines()
        .find(|line| line.contains("ended by signal 9"))
        .expect("the loss");
    let (time, rest) = line.split_once(' ').expect("a time");
    assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
    assert!(
        rest.starts_with(&format!("[{}] lost generation 1", host.pid())),
        "{line}"
    );
    assert_eq!(logs(setup, &["fake", "-n", "1"]).lines().count(), 1);
    assert!(logs(setup, &[]).starts_with("fake  last event "));
}

#[test]
fn a_log_can_be_followed() {
    let host = Host::ready(Setup::new());
    let mut command = Command::new(Setup::outlive());
    host.setup.dress(&mut command);
    command
        .args(["logs", "fake", "--follow", "-n", "1"])
        .stdin(Stdio::null());
    until("a log", || {
        host.setup
            .state()
            .join("logs/fake.jsonl")
            .exists()
            .then_some(())
    });
    let mut following = command.spawn().expect("outlive");
    let out = BufReader::new(following.stdout.take().expect("its output"));
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let lines = out.lines().map_while(Result::ok);
        lines.for_each(|line| drop(sender.send(line)));
    });
    let next = || until("a line", || lines.try_recv().ok());
    next();
    tree::kill(host.server(1), Signal::KILL);
    while !next().contains("ended by signal 9") {}
    following.kill().expect("ended");
    following.wait().expect("its end");
}

#[test]
fn nothing_is_kept_if_that_is_wanted() {
    let mut host = Host::ready(Setup::new().flags(&["--no-keep-logs"]));
    host.ping();
    host.hang_up();
    host.exit();
    assert!(!host.setup.state().join("logs").exists());
    assert_eq!(
        host.setup.outlive_says(&["logs", "fake"]).status.code(),
        Some(2)
    );
    let nothing = logs(&host.setup, &[]);
    assert!(nothing.starts_with("No logs are kept yet"), "{nothing}");
}

/// Neither command lines nor variables, headers, addresses or a server's last words give a secret away.
#[test]
fn secrets_are_in_no_status_no_log_and_no_file() {
    let script = "echo \"denied: $MY_TOKEN and $4\" >&2; exit 3";
    let words = [
        "sh",
        "-c",
        script,
        "sh",
        "-v",
        "--api-key",
        "argument-secret",
    ];
    let local = Setup::new()
        .env("MY_TOKEN", "variable-secret")
        .server(&[&words[..], &["--password=joined-secret"]].concat());
    let remote = Setup::new()
        .flags(&[
            "--header",
            "Authorization: Bearer header-secret",
            "--hold",
            "1ms",
        ])
        .server(&["http://me:password-secret@127.0.0.1:1/mcp?key=query-secret"]);
    for (setup, what) in [(local, "denied: ***"), (remote, "127.0.0.1:1/mcp?key=…")] {
        let mut host = setup.start();
        host.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
        host.event("a loss", |event| event["event"] == "lost");
        let mut told = Vec::new();
        for args in [&["status"][..], &["status", "--json"]] {
            let output = host.setup.outlive_says(args);
            told.push(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        told.extend(
            kept(&host.setup.state())
                .into_iter()
                .map(|(_, _, text)| text),
        );
        host.hang_up();
        host.exit();
        let name = host.setup.outlive_says(&["logs"]);
        let name = String::from_utf8_lossy(&name.stdout)
            .split("  ")
            .next()
            .map(str::to_owned);
        told.extend(
            kept(&host.setup.state())
                .into_iter()
                .map(|(path, _, text)| path + &text),
        );
        told.push(logs(&host.setup, &[&name.expect("a log")]));
        let told = told.join("\n");
        assert!(told.contains(what), "{told}");
        assert!(!told.contains("-secret"), "{told}");
    }
}

/// Old logs go when there are too many, a full one is put aside, and what is newest stays.
#[test]
fn the_disk_is_not_filled() {
    const FULL: usize = 512 << 10;
    let setup = Setup::new();
    let folder = setup.state().join("logs");
    for path in [setup.state(), folder.clone()] {
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700)
            .create(path)
            .expect("a folder");
    }
    let line = format!("{}\n", json!({ "event": "x", "text": "y".repeat(999) }));
    let long_ago = SystemTime::now() - Duration::from_secs(100_000);
    for n in 0..60 {
        let path = folder.join(format!("old-{n:02}.jsonl"));
        fs::write(&path, line.repeat(FULL / line.len())).expect("a log");
        let file = File::options().append(true).open(&path).expect("a log");
        file.set_modified(long_ago + Duration::from_secs(n))
            .expect("its time");
    }
    fs::write(folder.join("fake.jsonl"), line.repeat(FULL / line.len())).expect("a log");
    let mut host = Host::ready(setup);
    host.hang_up();
    host.exit();
    let found = kept(&folder);
    let bytes: usize = found.iter().map(|(_, _, text)| text.len()).sum();
    assert!(bytes <= 16 << 20, "{bytes} bytes");
    assert!(
        bytes >= 14 << 20,
        "{bytes} bytes: more has gone than had to"
    );
    let has = |name: &str| found.iter().any(|(path, ..)| path.ends_with(name));
    assert!(has("/fake.jsonl") && has("/fake.jsonl.old"));
    assert!(has("/old-59.jsonl") && !has("/old-00.jsonl"));
    assert_eq!(
        events(&host.setup, &["fake", "-n", "1"])[0]["event"],
        "ended"
    );
}
