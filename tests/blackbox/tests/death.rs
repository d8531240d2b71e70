//! A server dies: it is noticed, what was in flight is settled, the next call works.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::rig::hydra::Hydra;
use crate::rig::{Host, Setup, tree, until};

/// Longer than any test.
const FOR_EVER: u64 = 3_600_000;

/// FM-01: an idle server is killed. The loss is reported, and a new server is ready, before
/// anybody has called anything; the next call works on it.
#[test]
fn fm_01_idle_death_is_noticed_and_repaired_without_a_call() {
    let mut host = Host::ready(Setup::new());
    let first = host.ping();
    tree::kill(first, Signal::KILL);

    let lost = host.event("the loss of generation 1", |e| e["event"] == "lost");
    assert_eq!(lost["generation"], 1);
    assert_eq!(lost["cause"]["kind"], "exited");
    assert_eq!(lost["cause"]["signal"], 9);
    assert_eq!(lost["in_flight"], 0);
    host.ready_event(2);
    let states: Vec<_> = host
        .events()
        .iter()
        .filter(|e| e["event"] == "state")
        .cloned()
        .collect();
    let down = states
        .iter()
        .position(|e| e["state"] == "down")
        .expect("down was reported");
    let ready = states
        .iter()
        .rposition(|e| e["state"] == "ready")
        .expect("ready was reported");
    assert!(down < ready);

    assert_eq!(host.ping(), host.server(2));
    assert_eq!(host.tap().pids().len(), 2);
}

/// FM-02: a tool exits its server. The call gets one error; a tool the host knew before works
/// at once, in the same session, and the host hears of no change because nothing changed.
#[test]
fn fm_02_tools_survive_a_crash() {
    let mut host = Host::ready(Setup::new());
    let tools = host.list_tools();
    let first = host.ping();
    let crash = host.ask("crash", json!({ "code": 1 }));
    crash.refused("connection_lost");
    let second = host.ping();
    assert_ne!(first, second);
    assert_eq!(host.list_tools(), tools);

    // The new server was greeted with the host's own words, in order, before anything else.
    let greeted = host.tap().received(2);
    assert_eq!(greeted[0]["method"], "initialize");
    assert_eq!(greeted[0]["params"], host.tap().received(1)[0]["params"]);
    assert_eq!(greeted[1]["method"], "notifications/initialized");
    assert!(host.notified("notifications/tools/list_changed").is_empty());
}

/// FM-05: a call whose server dies under it is settled at once, with the cause and what is
/// known of the outcome, not by a timeout (there is none).
#[test]
fn fm_05_call_in_flight_is_settled_when_its_server_dies() {
    let mut host = Host::ready(Setup::new());
    let answer = host.ask("crash", json!({ "signal": 9, "say": "last words" }));
    let about = answer.refused("connection_lost");
    assert_eq!(about["cause"]["kind"], "exited");
    assert_eq!(about["cause"]["phase"], "service");
    assert_eq!(about["cause"]["signal"], 9);
    assert_eq!(about["cause"]["stderr_tail"], json!(["last words"]));
    assert_eq!(about["outcome"], "unknown");
    assert_eq!(about["generation"], 1);
    assert_eq!(about["retryable"], false);
    assert!(answer.message().contains("SIGKILL"), "{}", answer.message());
    assert!(answer.message().contains("crash"), "{}", answer.message());
    assert!(
        answer.message().contains("last words"),
        "{}",
        answer.message()
    );
}

/// FM-05: what a server wrote when it started is no last words of one that is killed later: a model might act on it.
#[test]
fn fm_05_a_banner_is_not_the_last_words_of_a_killed_server() {
    let banner = "Update available: pip install --upgrade server";
    let setup = Setup::new().script(&format!("echo '{banner}' >&2; exec FAKE"));
    let mut host = Host::ready(setup);
    let call = host.call("sleep", json!({ "ms": FOR_EVER }));
    until("the call", || {
        let received = host.tap().received(1);
        received.iter().any(|r| r["id"] == call).then_some(())
    });
    tree::kill(host.server(1), Signal::KILL);
    let answer = host.answer(call);
    let about = answer.refused("connection_lost");
    assert_eq!(about["cause"].get("stderr_tail"), None, "{about}");
    assert!(!answer.message().contains("pip"), "{}", answer.message());
    // What it wrote just before is quoted as its own.
    let answer = host.ask("crash", json!({ "code": 1, "say": "pip install it" }));
    assert!(
        answer
            .message()
            .ends_with("(quoted, not advice from outlive): \"pip install it\""),
        "{}",
        answer.message()
    );
}

/// FM-08: calls that were in the pipe of a server that died without reading them cannot have run: they are sent to
/// the next server, whatever the tool says about itself, and the log has a line for each.
#[test]
fn fm_08_calls_a_dead_server_never_read_are_sent_again_and_logged() {
    let setup = Setup::new();
    let effects = setup.path("effects");
    let mut host = Host::ready(setup);
    host.ask("deaf", json!({})).result();
    // It reads no more than a line, and what comes with it in eight KiB.
    let call = json!({ "file": effects, "pad": "x".repeat(4 << 10) });
    let calls: Vec<i64> = (0..8).map(|_| host.call("append", call.clone())).collect();
    thread::sleep(Duration::from_millis(300));
    tree::kill(host.server(1), Signal::KILL);
    let answers: Vec<_> = calls.iter().map(|id| (*id, host.answer(*id))).collect();
    let lost = answers.iter().filter(|(_, answer)| answer.kind().is_some());
    assert!(lost.count() <= 3, "it cannot have read more");
    let done: Vec<i64> = answers
        .iter()
        .filter(|(_, answer)| answer.kind().is_none())
        .map(|(id, _)| *id)
        .collect();
    let executed = std::fs::read_to_string(&effects).expect("effects");
    assert_eq!(executed.lines().count(), done.len());
    let told = host.logged(done.len(), "resent", |e| e["why"] == "unread");
    let id = |e: &serde_json::Value| e["id"].as_str()?.parse().ok();
    let ids: Vec<i64> = told.iter().filter_map(id).collect();
    assert_eq!(ids, done);
    let as_told = |e: &serde_json::Value| e["method"] == "tools/call" && e["generation"] == 2;
    assert!(told.iter().all(as_told), "{told:?}");
}

/// FM-05: death is also noticed when a descendant of the dead server keeps its output open, so
/// that there is no end of file.
#[test]
fn fm_05_death_is_noticed_though_a_grandchild_holds_the_pipe() {
    let mut host = Host::ready(Setup::new());
    let pending = host.call("sleep", json!({ "ms": FOR_EVER }));
    let orphan = host.call("orphan", json!({ "code": 7 }));
    assert_eq!(
        host.answer(pending).refused("connection_lost")["cause"]["exit_code"],
        7
    );
    assert_eq!(
        host.answer(orphan).refused("connection_lost")["cause"]["exit_code"],
        7
    );
    assert_eq!(host.ping(), host.server(2));
}

/// FM-05: a server that closes its output and lives on is as good as dead: it is replaced, and
/// its process does not stay.
#[test]
fn fm_05_closed_output_is_a_death() {
    let mut host = Host::ready(Setup::new().knobs(&["--ignore-eof"]));
    let first = host.ping();
    let pending = host.call("sleep", json!({ "ms": FOR_EVER }));
    let closing = host.call("close_stdout", json!({}));
    assert_eq!(
        host.answer(pending).refused("connection_lost")["cause"]["kind"],
        "eof"
    );
    assert_eq!(
        host.answer(closing).refused("connection_lost")["cause"]["kind"],
        "eof"
    );
    assert_eq!(host.ping(), host.server(2));
    host.wait_for_end_of(first);
}

/// FM-16: five crashes, and each time somebody who holds the output of the dead server writes to it when the new one is
/// up. State and answers always belong to the newest generation, and the stale line never reaches the host.
#[test]
fn fm_16_only_the_newest_generation_is_heard() {
    let setup = Setup::new().flags(&["--backoff-base", "1ms", "--breaker-failures", "50"]);
    let mut host = Host::ready(setup);
    let tools = host.list_tools();
    let stale = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"stale":true}}"#;
    for generation in 1..=5 {
        // Held by the test, which nobody ends.
        let output = format!("/proc/{}/fd/1", host.server(generation));
        let output = std::fs::File::options().write(true).open(output);
        let mut output = output.expect("the server's output");
        let crash = host.ask("crash", json!({ "code": 1 }));
        assert_eq!(crash.refused("connection_lost")["generation"], generation);
        host.ready_event(generation as u64 + 1);
        // It may be that nobody can read it any more.
        let _ = writeln!(output, "{stale}");
        assert_eq!(host.ping(), host.server(generation + 1));
        let last = host
            .events()
            .into_iter()
            .rfind(|e| e["event"] == "state")
            .expect("a state");
        assert_eq!(
            (&last["state"], &last["generation"]),
            (&json!("ready"), &json!(generation + 1))
        );
        assert_eq!(host.list_tools(), tools);
    }
    host.ping();
    assert!(host.notified("notifications/message").is_empty());
    assert_eq!(host.tap().pids().len(), 6);
}

/// FM-05, FM-16: what a server has started takes long to end. The call that was running is told how the server ended,
/// and what somebody else writes to its output meanwhile is not heard.
#[test]
fn fm_05_a_tree_that_is_slow_to_end_hides_no_exit_status() {
    let mut host = Host::ready(Setup::new().flags(&["--backoff-base", "1ms"]));
    let server = host.ping();
    let output = std::fs::File::options()
        .write(true)
        .open(format!("/proc/{server}/fd/1"));
    let mut output = output.expect("the server's output");
    let hydra = Hydra::of(server);
    let call = host.call("crash", json!({ "code": 3 }));
    // It is told at once; if it is not, we do not wait for it.
    let begun = Instant::now();
    let down = |e: &serde_json::Value| e["event"] == "state" && e["state"] == "down";
    while !host.events().iter().any(down) && begun.elapsed() < Duration::from_millis(300) {
        thread::sleep(Duration::from_millis(5));
    }
    let stale = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"stale":true}}"#;
    let _ = writeln!(output, "{stale}");
    drop(output);
    let cause = host.answer(call).refused("connection_lost")["cause"].clone();
    drop(hydra);
    assert_eq!(cause["exit_code"], 3, "{cause}");
    assert_eq!(host.ping(), host.server(2));
    assert!(host.notified("notifications/message").is_empty());
}

/// FM-16: a death in the middle of a handshake replay, of a list comparison, of anything: the
/// session comes through with every request answered once. Deaths at many moments, by an outside kill.
#[test]
fn fm_16_kills_at_any_moment_settle_everything_once() {
    let setup = Setup::new().flags(&["--backoff-base", "1ms", "--breaker-failures", "1000"]);
    let mut host = Host::ready(setup);
    let mut ids = Vec::new();
    for round in 0..40u64 {
        ids.push(host.call("ping", json!({})));
        ids.push(host.call("sleep_read", json!({ "ms": 1 })));
        ids.push(host.request("tools/list", json!({})));
        // 0 to 20 ms after the start of the newest server: before, in and after its handshake.
        thread::sleep(Duration::from_micros(round % 20 * 1000));
        if let Some(pid) = host.tap().pids().last() {
            tree::kill(*pid, Signal::KILL);
        }
    }
    for id in &ids {
        host.answer(*id);
    }
    host.ping();
    for id in &ids {
        assert_eq!(host.answers(*id), 1, "answers to {id}");
    }
    let newest = *host.tap().pids().last().expect("a server");
    assert_eq!(host.ping(), newest);
}

/// FM-37: fifty calls in flight and twenty made while the server is away. One new server, one
/// handshake; the fifty fail once each, the twenty are held and succeed.
#[test]
fn fm_37_concurrent_calls_share_one_restart() {
    let mut host = Host::ready(Setup::new().knobs(&["--start-delay", "300"]));
    let first = host.server(1);
    let pending: Vec<i64> = (0..50)
        .map(|_| host.call("sleep", json!({ "ms": FOR_EVER })))
        .collect();
    until("fifty calls at the server", || {
        (host.tap().method("tools/call").len() == 50).then_some(())
    });
    tree::kill(first, Signal::KILL);
    host.event("the loss", |e| e["event"] == "lost");
    let held: Vec<i64> = (0..20).map(|_| host.call("ping", json!({}))).collect();
    for id in &pending {
        host.answer(*id).refused("connection_lost");
    }
    for id in &held {
        host.answer(*id).result();
    }
    host.ping();
    for id in pending.iter().chain(&held) {
        assert_eq!(host.answers(*id), 1, "answers to {id}");
    }
    assert_eq!(host.tap().pids().len(), 2);
    assert_eq!(host.tap().method("initialize").len(), 2);
}

/// FM-38: recovery settles everything that was in flight: what is safe to repeat is repeated
/// and succeeds, the rest fails.
#[test]
fn fm_38_recovery_leaves_no_request_behind() {
    let mut host = Host::ready(Setup::new());
    let unsafe_calls: Vec<i64> = (0..5)
        .map(|_| host.call("sleep", json!({ "ms": FOR_EVER })))
        .collect();
    let safe_calls: Vec<i64> = (0..5)
        .map(|_| host.call("sleep_read", json!({ "ms": 1000 })))
        .collect();
    let crash = host.call("crash", json!({ "code": 1 }));
    for id in unsafe_calls.iter().chain([&crash]) {
        host.answer(*id).refused("connection_lost");
    }
    for id in &safe_calls {
        assert_eq!(host.answer(*id).text(), "slept");
    }
    host.ping();
    for id in unsafe_calls.iter().chain(&safe_calls).chain([&crash]) {
        assert_eq!(host.answers(*id), 1, "answers to {id}");
    }
}

/// The session dies of nothing the server does: nine deaths in nine ways, each followed by a call
/// that works.
#[test]
fn any_exit_is_survived() {
    let setup = Setup::new().flags(&["--backoff-base", "1ms", "--breaker-failures", "50"]);
    let mut host = Host::ready(setup);
    for args in [
        json!({ "code": 0 }),
        json!({ "code": 1 }),
        json!({ "code": 255 }),
        json!({ "signal": 1 }),
        json!({ "signal": 2 }),
        json!({ "signal": 6 }),
        json!({ "signal": 4 }),
        json!({ "signal": 15 }),
        json!({ "signal": 9 }),
    ] {
        let answer = host.ask("crash", args.clone());
        let cause = &answer.refused("connection_lost")["cause"];
        assert_eq!(cause["exit_code"], args["code"], "{cause}");
        assert_eq!(cause["signal"], args["signal"], "{cause}");
        host.ping();
    }
}

/// How often each of these calls was executed, by the lines it has left, and how it was answered. None is executed
/// twice, none is executed that was said not to be sent, and each has one answer. Returns how many have a result.
#[track_caller]
fn each_ran_once(host: &mut Host, file: &str, calls: &[i64]) -> usize {
    let answers: Vec<_> = calls.iter().map(|id| host.answer(*id)).collect();
    host.ping();
    let effects = std::fs::read_to_string(file).unwrap_or_default();
    let mut results = 0;
    for (id, answer) in calls.iter().zip(&answers) {
        let line = id.to_string();
        let runs = effects.lines().filter(|effect| **effect == line).count();
        assert_eq!(host.answers(*id), 1, "answers to {id}");
        assert!(
            runs <= 1,
            "call {id} was executed {runs} times: {}",
            answer.0
        );
        match answer.kind() {
            None => {
                answer.result();
                results += 1;
                assert_eq!(runs, 1, "call {id}");
            }
            Some(_) => {
                let outcome = &answer.refused("connection_lost")["outcome"];
                assert_eq!(outcome, "unknown", "call {id}");
            }
        }
    }
    results
}

/// Calls of a tool that nobody says is safe; each leaves a line with its id in the file.
fn append_calls(host: &mut Host, file: &str, calls: usize, bytes: usize) -> Vec<i64> {
    let pad = "x".repeat(bytes);
    (0..calls)
        .map(|_| {
            let line = host.next_id();
            host.call("append", json!({ "file": file, "line": line, "pad": pad }))
        })
        .collect()
}

/// Stops a server and waits until it is: until then it may read.
fn stop(pid: u32) {
    tree::kill(pid, Signal::STOP);
    until("a stopped server", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(") T ").then_some(())
    });
}

/// How many bytes there are in the pipe that is a server's input.
fn unread_by(pid: u32) -> u64 {
    let input = std::fs::File::open(format!("/proc/{pid}/fd/0")).expect("the server's input");
    rustix::io::ioctl_fionread(&input).expect("how much is unread")
}

/// FM-05: a server closes its output and reads on. What had been written to it may have been executed; what was
/// still queued is sent to the next one, and to nobody else.
#[test]
fn fm_05_what_is_queued_for_a_server_that_closed_its_output_runs_once() {
    let setup = Setup::new().knobs(&["--ignore-eof"]);
    let file = setup.path("effects");
    // It has until it is killed to read.
    let mut host = Host::ready(setup.script("trap '' TERM; exec FAKE"));
    let first = host.ping();
    let closing = host.call("close_stdout", json!({ "deaf_ms": 500 }));
    until("a server that does not read", || {
        host.tap().notes("deaf").pop()
    });
    // More than any pipe holds.
    let calls = append_calls(&mut host, &file, 100, 40_000);
    host.answer(closing).refused("connection_lost");
    for id in &calls {
        host.answer(*id);
    }
    host.wait_for_end_of(first);
    let results = each_ran_once(&mut host, &file, &calls);
    assert!(results > 0, "what was never written was sent again");
}

/// FM-05: a wrapper exits while the server it has started, in a session of its own, reads on. What that had read
/// when it was ended may have been executed; what it left in the pipe is sent to the next one.
#[test]
fn fm_05_what_a_server_reads_after_its_wrapper_has_exited_runs_once() {
    let setup = Setup::new().flags(&["--backoff-base", "1ms", "--breaker-failures", "1000"]);
    let file = setup.path("effects");
    let setup = setup.knobs(&["--swift", &file, "--unwrap-at", "50"]);
    let script = "exec 3<&0; setsid FAKE <&3 3<&- & exec sleep 9999 3<&-";
    let mut host = Host::ready(setup.script(script));
    // All of them fit into the pipe, and all are there before the first is read.
    let server = host.ping();
    stop(server);
    let calls: Vec<i64> = (0..400)
        .map(|_| {
            let id = host.next_id();
            host.call("swift", json!({ "swift": id }))
        })
        .collect();
    until("the calls in the pipe", || {
        (unread_by(server) > 400 * 90).then_some(())
    });
    tree::kill(server, Signal::CONT);
    let results = each_ran_once(&mut host, &file, &calls);
    assert!(
        results > 50,
        "what was never read was sent again: {results}"
    );
}

/// FM-05: the same where the server cannot be found: it has given its input to somebody who was there before.
/// Then all that was written counts as read, and nobody waits for ever.
#[test]
fn fm_05_what_somebody_else_may_read_is_not_sent_again() {
    let setup = Setup::new().flags(&["--backoff-base", "1ms"]);
    let file = setup.path("effects");
    let mut host = Host::ready(setup);
    let first = host.ping();
    // The test itself holds the reading end.
    let input = std::fs::File::open(format!("/proc/{first}/fd/0")).expect("the server's input");
    stop(first);
    let calls = append_calls(&mut host, &file, 10, 2000);
    // All of them: nine are shorter.
    until("the calls in the pipe", || {
        (unread_by(first) > 10 * 2000).then_some(())
    });
    tree::kill(first, Signal::KILL);
    for id in &calls {
        let outcome = host.answer(*id).refused("connection_lost")["outcome"].clone();
        assert_eq!(outcome, "unknown");
    }
    drop(input);
    assert_eq!(each_ran_once(&mut host, &file, &calls), 0);
}
