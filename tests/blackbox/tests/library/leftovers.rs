//! Nothing is left behind by a client, though it adopts nobody: its program may have children of its own.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use outlive::{Error, OrphanReaper};
use rustix::process::Signal;
use serde_json::json;

use crate::rig::escape::{self, BARE, Escaped, WAYS};
use crate::rig::{PATIENCE, Rig, ping, until, within};

/// What ends the server.
#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    Drop,
    Crash,
    Runtime,
}

fn rig() -> Rig {
    let short = Duration::from_millis(100);
    Rig::legacy().policy(|policy| {
        policy.stop_grace = short;
        policy.term_grace = short;
        policy.drain = short;
    })
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// Lets one escape and ends its server; whether it is gone then.
fn goes(end: End, way: &str) -> bool {
    let rig = rig();
    let file = rig.path("escaped");
    let home = runtime();
    let escaped = home.block_on(async {
        let client = rig.connect().await;
        let script = json!({ "script": escape::script(way, &file) });
        within(client.call("orphan", script)).await.unwrap();
        let escaped = until("the escape", || Escaped::find(&file)).await;
        match end {
            End::Close => within(client.close()).await,
            End::Drop => drop(client),
            End::Crash => {
                let lost = within(client.call("crash", json!({}))).await;
                assert!(matches!(lost, Err(Error::ConnectionLost { .. })));
                ping(&client).await;
                assert!(escaped.is_gone(), "before the next server was there");
            }
            // It is still there when the runtime goes.
            End::Runtime => std::mem::forget(client),
        }
        escaped
    });
    if !matches!(end, End::Drop) {
        drop(home);
    }
    let begun = std::time::Instant::now();
    while !escaped.is_gone() && begun.elapsed() < PATIENCE / 3 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let gone = escaped.is_gone();
    escaped.kill();
    gone
}

/// FM-10: a grandchild that calls `setsid`, forks twice, does both, is started with `nohup`, or does all that and
/// clears its environment is gone after a client is closed or dropped, its server has crashed, or its runtime is shut
/// down: 20 combinations.
#[test]
fn fm_10_no_grandchild_gets_away() {
    let mut left = Vec::new();
    for end in [End::Close, End::Drop, End::Crash, End::Runtime] {
        for (name, way) in WAYS.into_iter().chain([BARE]) {
            if !goes(end, way) {
                left.push(format!("{end:?}: {name}"));
            }
        }
    }
    assert!(left.is_empty(), "left behind: {left:#?}");
}

const PROGRAM: &str = "OUTLIVE_TEST_PROGRAM";
const KILLED: &str = "OUTLIVE_TEST_KILLED";

/// A program that ends with a client open; a test only by name.
#[test]
fn a_program() {
    let Ok(file) = std::env::var(PROGRAM) else {
        return;
    };
    let rig = rig();
    let home = runtime();
    let way = WAYS[2].1;
    home.block_on(async {
        let client = rig.connect().await;
        let script = json!({ "script": escape::script(way, &file) });
        within(client.call("orphan", script)).await.unwrap();
        until("the escape", || Escaped::find(&file)).await;
        std::mem::forget(client);
    });
    drop(home);
    std::process::exit(0);
}

/// One that has an orphan reaper and is killed; a test only by name.
#[test]
fn a_program_that_is_killed() {
    let Ok(file) = std::env::var(KILLED) else {
        return;
    };
    let orphan_reaper = OrphanReaper::start().unwrap();
    let rig = rig();
    runtime().block_on(async {
        let client = within(rig.client().orphan_reaper(orphan_reaper).connect())
            .await
            .unwrap();
        for (nth, (_, way)) in WAYS.into_iter().chain([BARE]).enumerate() {
            let file = format!("{file}{nth}");
            let script = json!({ "script": escape::script(way, &file) });
            within(client.call("orphan", script)).await.unwrap();
            until("the escape", || Escaped::find(&file)).await;
        }
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
    });
}

/// This program again, as the test of this name.
fn program(name: &str, variable: &str, file: &str) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(variable, file)
        .status()
        .unwrap()
}

/// FM-10: a program that ends right after it has dropped what holds its servers waits for what they have started to be
/// ended. It has nobody who could see to that afterwards.
#[test]
fn fm_10_a_program_that_ends_leaves_nothing() {
    let rig = rig();
    let file = rig.path("escaped");
    assert!(program("leftovers::a_program", PROGRAM, &file).success());
    let left = Escaped::find(&file);
    if let Some(left) = &left {
        left.kill();
    }
    assert!(std::fs::exists(&file).unwrap(), "there was one");
    assert_eq!(left, None);
}

/// FM-10: a program that has an orphan reaper and is killed with `SIGKILL` leaves nothing either, whatever a grandchild
/// has done to get away.
#[test]
fn fm_10_a_program_that_is_killed_leaves_nothing() {
    let rig = rig();
    let file = rig.path("escaped");
    let status = program("leftovers::a_program_that_is_killed", KILLED, &file);
    assert_eq!(status.signal(), Some(9));
    let begun = std::time::Instant::now();
    let mut left = Vec::new();
    for (nth, (name, _)) in WAYS.into_iter().chain([BARE]).enumerate() {
        let file = format!("{file}{nth}");
        assert!(std::fs::exists(&file).unwrap(), "there was one");
        while Escaped::find(&file).is_some() && begun.elapsed() < PATIENCE / 3 {
            std::thread::sleep(Duration::from_millis(10));
        }
        if let Some(escaped) = Escaped::find(&file) {
            escaped.kill();
            left.push(name);
        }
    }
    assert!(left.is_empty(), "left behind: {left:#?}");
}
