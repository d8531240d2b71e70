//! Nothing is left behind: not by a stop, not by a kill, not by a server that dies.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{Host, Setup, quoted, tree, until};

/// Short graces, so that stubborn servers do not make the tests long.
const BRISK: [&str; 6] = [
    "--stop-grace",
    "200ms",
    "--term-grace",
    "200ms",
    "--drain",
    "200ms",
];

/// A shell that stays between `outlive` and the server, with a helper that nobody waits for.
const BEHIND_SHELL: &str = "sleep 9999 & FAKE; true";

/// Three levels, each of which ignores `SIGTERM`; so does the server, and the end of its input.
/// (An ignored signal stays ignored in what a shell starts.)
const NPX_LIKE: &str =
    r#"trap '' TERM; sh -c "sh -c \"sleep 9999 & FAKE --ignore-eof; true\"; true"; true"#;

/// The server behind a shell, and a chain that ignores every polite word.
fn trees() -> [(&'static str, Setup); 2] {
    [BEHIND_SHELL, NPX_LIKE].map(|script| {
        let setup = Setup::new().flags(&BRISK);
        // The quoting of the paths must survive two more shells; they contain no blanks.
        let fake = setup.fake().join(" ");
        (script, setup.script(&script.replace("FAKE", &fake)))
    })
}

/// FM-09: `SIGTERM` and `SIGINT` to `outlive`, and the end of its input, end every descendant:
/// the server, the wrappers above it and the helpers beside it.
#[test]
fn fm_09_a_stop_reaches_grandchildren() {
    for ending in [Some(Signal::TERM), Some(Signal::INT), None] {
        for (script, setup) in trees() {
            let mut host = Host::ready(setup);
            until("the whole tree", || (host.tree().len() >= 3).then_some(()));
            match ending {
                Some(signal) => host.signal(signal),
                None => host.hang_up(),
            }
            assert_eq!(host.exit().code(), Some(0), "{ending:?}, {script}");
            host.wait_for_empty_tree();
        }
    }
}

/// FM-09: a server that dies leaves its helpers behind; they are ended, though its successor
/// lives.
#[test]
fn fm_09_leftovers_of_a_dead_generation_are_ended() {
    let mut host = Host::ready(Setup::new());
    host.ask("orphan", json!({})).result();
    let orphan = host.tap().notes("orphan")[0]["data"]
        .as_u64()
        .expect("a pid") as u32;
    until("the orphan", || host.tree().contains(&orphan).then_some(()));
    host.ask("crash", json!({ "code": 1 }))
        .refused("connection_lost");
    assert_eq!(host.ping(), host.server(2));
    host.wait_for_end_of(orphan);
}

/// FM-09: a start that failed leaves nothing behind either.
#[test]
fn fm_09_a_failed_start_leaves_nothing() {
    let setup = Setup::new()
        .flags(&BRISK)
        .flags(&[
            "--start-soft",
            "1s",
            "--start-timeout",
            "1s",
            "--breaker-failures",
            "1",
        ])
        .knobs(&["--hang-in-initialize"]);
    let mut host = setup.script("sleep 9999 & FAKE").start();
    let id = host.request("initialize", json!({ "protocolVersion": "2025-11-25" }));
    host.answer(id).error();
    host.wait_for_empty_tree();
}

/// FM-10: when `outlive` itself is killed with `SIGKILL`, its server dies too, even one that
/// ignores the end of its input.
#[test]
fn fm_10_sigkill_of_outlive_ends_the_server() {
    let mut host = Host::ready(Setup::new().knobs(&["--ignore-eof"]));
    host.ping();
    host.signal(Signal::KILL);
    host.exit();
    host.wait_for_empty_tree();
}

/// FM-10: the same with wrappers and helpers between and beside, none of which listens.
#[test]
fn fm_10_sigkill_of_outlive_ends_grandchildren() {
    for (script, setup) in trees() {
        let mut host = Host::ready(setup);
        host.signal(Signal::KILL);
        host.exit();
        until(&format!("the end of {script}"), || {
            host.tree().is_empty().then_some(())
        });
    }
}

/// FM-10: `outlive` and its server end when the host is killed, directly above `outlive` or
/// with a wrapper between, without burning the processor until they do.
#[test]
fn fm_10_outlive_ends_when_its_host_is_killed() {
    for wrapper in ["exec OUTLIVE", "OUTLIVE; true"] {
        let setup = Setup::new().flags(&BRISK).knobs(&["--ignore-eof"]);
        let line: Vec<String> = setup
            .command_line()
            .iter()
            .map(|word| quoted(word))
            .collect();
        // The middle process is the host: it holds the other end of the pipe, and is killed.
        let script = wrapper.replace("OUTLIVE", &line.join(" "));
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("sleep 9999 | ({script}) & wait"));
        setup.dress(&mut command);
        let mut host = Host::spawn(setup, command);
        host.server(1);
        let sleeper = until("the host", || {
            host.tree().into_iter().find(|pid| {
                std::fs::read_to_string(format!("/proc/{pid}/comm"))
                    .is_ok_and(|comm| comm.trim() == "sleep")
            })
        });
        tree::kill(sleeper, Signal::KILL);
        host.wait_for_empty_tree();
        host.exit();
    }
}

/// FM-10: a launcher between host and `outlive` is killed alone, so that the input stays open. `outlive` ends with the
/// process it was told of, and so does everything below it, which is not told.
#[test]
fn fm_10_outlive_ends_with_its_launcher_though_its_input_stays_open() {
    let setup = Setup::new().flags(&BRISK).knobs(&["--ignore-eof"]);
    let line: Vec<String> = setup
        .command_line()
        .iter()
        .map(|word| quoted(word))
        .collect();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!(
        "export OUTLIVE_PARENT_PID=$$; {}; true",
        line.join(" ")
    ));
    setup.dress(&mut command);
    let mut host = Host::spawn(setup, command);
    host.initialize();
    host.ping();
    let server = host.server(1);
    let environment = std::fs::read(format!("/proc/{server}/environ")).expect("its environment");
    assert!(!String::from_utf8_lossy(&environment).contains("OUTLIVE_PARENT_PID"));
    host.signal(Signal::KILL);
    host.wait_for_empty_tree();
    host.exit();
}

/// FM-10: a host that is gone, both ways, is not waited for though it has asked for something and there is no server to
/// do it. (One that only has no more to say is: `outlive run < requests` wants its answers.)
#[test]
fn fm_10_nobody_is_waited_for_by_nobody() {
    let setup = Setup::new()
        .flags(&BRISK)
        .flags(&["--hold", "1h"])
        .knobs(&["--hang-in-initialize"]);
    let mut command = setup.command();
    setup.dress(&mut command);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut outlive = command.spawn().expect("outlive is built");
    let ask = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
    let mut input = outlive.stdin.take().expect("a pipe");
    input
        .write_all(&[&ask[..], b"\n"].concat())
        .expect("it reads");
    until("the server is asked", || {
        (!setup.tap().method("initialize").is_empty()).then_some(())
    });
    drop((input, outlive.stdout.take()));
    let ended = until("it ends", || outlive.try_wait().expect("its status"));
    assert_eq!(ended.code(), Some(0));
}

/// FM-10: with nothing to read at all, `outlive` exits 0 and takes its server with it.
#[test]
fn fm_10_empty_input_ends_it() {
    let setup = Setup::new().flags(&BRISK).knobs(&["--ignore-eof"]);
    let mut command = setup.command();
    command.stdin(Stdio::null());
    let mut host = Host::spawn(setup, command);
    assert_eq!(host.exit().code(), Some(0));
    host.wait_for_empty_tree();
}

/// FM-10: an idle session costs next to no processor time.
#[test]
fn fm_10_idle_is_idle() {
    let mut host = Host::ready(Setup::new());
    host.ping();
    let ticks = |pid: u32| {
        let stat = tree::stat(pid).expect("its stat");
        stat[11].parse::<u64>().expect("utime") + stat[12].parse::<u64>().expect("stime")
    };
    let before = ticks(host.pid());
    thread::sleep(Duration::from_secs(2));
    // A spinning process takes some 200 ticks in this time.
    let spent = ticks(host.pid()) - before;
    assert!(spent < 20, "{spent} ticks of processor time while idle");
}

/// FM-66: Ctrl-C in the terminal. The server is in a session of its own, so the signal is not
/// sent to it: it finishes the call it is busy with, and leaves when `outlive` says so.
#[test]
fn fm_66_ctrl_c_does_not_reach_the_server() {
    use std::io::{Read, Write};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let setup = Setup::new().flags(&["--drain", "30s"]);
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
    grantpt(&master).expect("grantpt");
    unlockpt(&master).expect("unlockpt");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let slave = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(name.to_str().expect("a path"))
        .expect("the slave");

    // `setsid --ctty` makes the pty the controlling terminal of what it starts.
    let mut command = Command::new("setsid");
    command
        .args(["--ctty", "--wait"])
        .args(setup.command_line());
    setup.dress(&mut command);
    command.stdin(slave);
    let mut terminal = std::fs::File::from(master);
    let mut host = Host::spawn(setup, command);
    // The terminal echoes what is typed; somebody has to read it.
    let mut echo = terminal.try_clone().expect("the terminal");
    thread::spawn(move || {
        let mut sink = [0; 4096];
        while let Ok(1..) = echo.read(&mut sink) {}
    });
    let mut say = |message: serde_json::Value| {
        terminal
            .write_all(format!("{message}\n").as_bytes())
            .expect("the terminal")
    };
    say(json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "tty", "version": "0" },
        },
    }));
    host.answer(1).result();
    say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    say(json!({
        "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "sleep", "arguments": { "ms": 2500 } },
    }));
    until("the call at the server", || {
        host.tap().method("tools/call").pop()
    });
    let server = host.server(1);
    let session = |pid: u32| tree::stat(pid).expect("its stat")[3].clone();
    let group = |pid: u32| tree::stat(pid).expect("its stat")[2].clone();
    let outlive: u32 = tree::stat(server).expect("its stat")[1]
        .parse()
        .expect("a pid");
    assert_ne!(
        group(server),
        group(outlive),
        "the server shares outlive's process group"
    );
    assert_ne!(
        session(server),
        session(outlive),
        "the server shares outlive's session"
    );

    terminal.write_all(b"\x03").expect("the terminal");
    host.event("the stop", |e| e["event"] == "draining");
    assert_eq!(host.answer(2).text(), "slept");
    host.wait_for_end();
    assert_eq!(host.exit().code(), Some(0));
    host.wait_for_empty_tree();
    assert_eq!(
        host.tap().notes("eof").len(),
        1,
        "the server left because its input ended"
    );
}

/// FM-67: a server that ignores the end of its input and `SIGTERM` does not keep `outlive`
/// from leaving.
#[test]
fn fm_67_stubborn_server_does_not_hold_up_the_exit() {
    let setup = Setup::new()
        .flags(&BRISK)
        .knobs(&["--ignore-eof"])
        .script("trap '' TERM; exec FAKE");
    let mut host = Host::ready(setup);
    host.hang_up();
    assert_eq!(host.exit().code(), Some(0));
    host.wait_for_empty_tree();
}

/// FM-67: nor does a descendant of a dead server that holds its output open, even one that
/// escaped to a session of its own.
#[test]
fn fm_67_inherited_pipe_does_not_hold_up_the_exit() {
    for own_session in [false, true] {
        let mut host = Host::ready(Setup::new().flags(&BRISK));
        host.ask("orphan", json!({ "own_session": own_session }))
            .result();
        host.hang_up();
        assert_eq!(host.exit().code(), Some(0), "own session: {own_session}");
        host.wait_for_end();
    }
}

/// FM-67: a second signal ends it at once, whatever the graces are.
#[test]
fn fm_67_second_signal_ends_it_at_once() {
    let setup = Setup::new()
        .flags(&[
            "--drain",
            "600s",
            "--stop-grace",
            "600s",
            "--term-grace",
            "600s",
        ])
        .knobs(&["--ignore-eof"]);
    let mut host = Host::ready(setup.script("trap '' TERM; exec FAKE"));
    let id = host.call("sleep", json!({ "ms": 3_600_000 }));
    until("the call at the server", || {
        host.tap().method("tools/call").pop()
    });
    host.signal(Signal::TERM);
    host.event("the stop", |e| e["event"] == "draining");
    host.signal(Signal::TERM);
    host.answer(id).refused("shutting_down");
    host.exit();
    host.wait_for_empty_tree();
}

/// `SIGHUP` puts a new server under the same session: the call in flight is settled, the next
/// one works, and the cause is named.
#[test]
fn sighup_restarts_the_server() {
    let mut host = Host::ready(Setup::new());
    let first = host.ping();
    host.signal(Signal::HUP);
    let lost = host.event("the restart", |e| e["event"] == "lost");
    assert_eq!(lost["cause"]["kind"], "requested");
    host.ready_event(2);
    assert_eq!(host.ping(), host.server(2));
    host.wait_for_end_of(first);

    let pending = host.call("sleep", json!({ "ms": 3_600_000 }));
    let safe = host.call("sleep_read", json!({ "ms": 300 }));
    until("the calls at the server", || {
        let calls = host.tap().method("tools/call");
        calls.iter().any(|call| call["id"] == safe).then_some(())
    });
    host.signal(Signal::HUP);
    host.answer(pending).refused("connection_lost");
    assert_eq!(host.answer(safe).text(), "slept");
    assert_eq!(host.ping(), host.server(3));
}

/// `SIGHUP` twice: the call that the first one lets finish is not ended by the second.
#[test]
fn a_second_sighup_ends_no_call() {
    let mut host = Host::ready(Setup::new().flags(&["--drain", "60s"]));
    let pending = host.call("sleep", json!({ "ms": 1500 }));
    until("the call at the server", || {
        host.tap().method("tools/call").pop()
    });
    for _ in 0..3 {
        host.signal(Signal::HUP);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(host.answer(pending).text(), "slept");
    host.ready_event(2);
    assert_eq!(host.ping(), host.server(2));
    assert_eq!(
        host.tap().method("tools/call").len(),
        2,
        "nothing ran twice"
    );
}
