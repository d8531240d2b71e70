//! The check ends with all that it has started, and keeps no more than it needs of what a subject says.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::escape::{self, Escaped, WAYS};
use crate::play::outlive;
use crate::tree;

/// Only a hang takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A check of a server; it is killed when this is dropped.
struct Check(Child);

impl Check {
    fn of(server: &[&str]) -> Check {
        let mut check = Command::new(outlive());
        check
            .args(["check", "server", "--patience", "600s", "--"])
            .args(server)
            .env("OUTLIVE_TOKEN", "hunter22")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Check(check.spawn().expect("outlive is built"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// FM-10: whatever ends the check, its subject ends with it, and what that has started.
#[test]
fn fm_10_the_check_leaves_no_subject_behind() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::KILL] {
        for (name, way) in WAYS {
            let dir = TempDir::new().expect("a directory");
            let path = |name: &str| dir.path().join(name).display().to_string();
            let (server, escaped) = (path("server"), path("escaped"));
            // The one gets away, the other is mute.
            let script = format!(
                "({}); trap '' TERM; echo $$ > {server}; exec sleep 9999",
                escape::script(way, &escaped).replace("exec", "")
            );
            let script = match name {
                "a session of its own" => script.replacen("); trap", " &); trap", 1),
                _ => script,
            };
            let mut check = Check::of(&["sh", "-c", &script]);
            let processes =
                [server, escaped].map(|file| until("the subject", || Escaped::find(&file)));
            tree::kill(check.pid(), signal);
            let status = until("its end", || check.0.try_wait().expect("its status"));
            if signal != Signal::KILL {
                assert_eq!(status.code(), Some(128 + signal.as_raw()), "{signal:?}");
            }
            for process in processes {
                let begun = Instant::now();
                while !process.is_gone() && begun.elapsed() < PATIENCE / 3 {
                    std::thread::sleep(Duration::from_millis(10));
                }
                let gone = process.is_gone();
                process.kill();
                assert!(gone, "left behind by {signal:?}: {name}");
            }
        }
    }
}

/// What a process has written so far.
fn written(pid: u32) -> Option<u64> {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let line = io.lines().find_map(|line| line.strip_prefix("wchar:"))?;
    line.trim().parse().ok()
}

/// The most memory that a process has had.
fn most_resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.expect("a line").trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().expect("a number") * 1024
}

/// FM-67: a subject that babbles does not fill the memory of the check: a line without end, lines without end, on
/// either stream, and messages that are larger than they look.
#[test]
fn fm_67_a_subject_that_babbles_is_not_kept() {
    const MIB: u64 = 1 << 20;
    let values = "0,".repeat(2_000);
    let message = format!(r#"{{"jsonrpc":"2.0","method":"x","params":[{values}0]}}"#);
    // How much it may keep is stated in docs/check.md; this is less than what came, or than it would take.
    for (most, much, subject) in [
        (256 * MIB, 1024 * MIB, "exec cat /dev/zero"),
        (256 * MIB, 1024 * MIB, "exec cat /dev/zero 3>&1 >&2"),
        (256 * MIB, 8 * MIB, "exec yes"),
        (512 * MIB, 64 * MIB, &format!("exec yes '{message}'")),
    ] {
        let dir = TempDir::new().expect("a directory");
        let file = dir.path().join("server").display().to_string();
        let check = Check::of(&["sh", "-c", &format!("echo $$ > {file}; {subject}")]);
        let pid = until("the subject", || {
            std::fs::read_to_string(&file).ok()?.trim().parse().ok()
        });
        let environment = std::fs::read(format!("/proc/{pid}/environ")).expect("its environment");
        let environment = String::from_utf8_lossy(&environment).into_owned();
        assert!(!environment.contains("hunter22"), "{environment}");
        until(&format!("{much} bytes of {subject:.40}"), || {
            (written(pid)? >= much).then_some(())
        });
        let taken = most_resident(check.pid());
        assert!(taken < most, "{subject:.40}: {} MiB", taken / MIB);
    }
}
