//! A process under test, in a group of its own, gone when this is dropped.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use crate::journal::Leg;
use crate::measure;

/// Passes over the process table when a process and its family are killed.
const PASSES: usize = 100;

/// Set for all processes under test.
static ALSO: OnceLock<(OsString, OsString)> = OnceLock::new();

/// Sets a variable for all processes under test from now on; the first time counts. Whoever ends them should the check
/// be killed can know them by it.
pub fn also_set(name: impl Into<OsString>, value: impl Into<OsString>) {
    // It is set once.
    let _ = ALSO.set((name.into(), value.into()));
}

/// Unset for all processes under test.
static UNSET: OnceLock<&'static [&'static str]> = OnceLock::new();

/// Unsets variables for all processes under test from now on; the first time counts.
pub fn also_unset(names: &'static [&'static str]) {
    // It is set once.
    let _ = UNSET.set(names);
}

/// A running process and whatever it started.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    mark: String,
    exited: watch::Receiver<Option<ExitStatus>>,
}

/// The ends of its standard streams.
pub struct Streams {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
}

impl Process {
    /// Starts a command. Its end is written into the journal.
    pub fn spawn(
        command: &[OsString],
        extra: &[(OsString, OsString)],
        leg: &Leg,
    ) -> io::Result<(Process, Streams)> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}-{nth}", std::process::id());
        let (program, args) = command
            .split_first()
            .ok_or_else(|| io::Error::other("there is no command"))?;
        let mut command = Command::new(program);
        for name in UNSET.get().copied().unwrap_or_default() {
            command.env_remove(name);
        }
        let mut child = command
            .args(args)
            .envs(ALSO.get().map(|(name, value)| (name, value)))
            .envs(extra.iter().map(|(name, value)| (name, value)))
            .env(measure::MARK, &mark)
            // FM-66: signals meant for the check are not meant for the program under test.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let gone = || io::Error::other("it was gone at once");
        let pid = child.id().ok_or_else(gone)?;
        let streams = Streams {
            stdin: child.stdin.take().ok_or_else(gone)?,
            stdout: child.stdout.take().ok_or_else(gone)?,
            stderr: child.stderr.take().ok_or_else(gone)?,
        };
        let (tell, exited) = watch::channel(None);
        let leg = leg.clone();
        tokio::spawn(async move {
            if let Ok(status) = child.wait().await {
                leg.exited(format!("process {pid} {}", ending(status)));
                let _ = tell.send(Some(status));
            }
        });
        Ok((Process { pid, mark, exited }, streams))
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it did.
    pub fn status(&self) -> Option<ExitStatus> {
        *self.exited.borrow()
    }

    /// Waits for its end.
    pub async fn end(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let end = self.exited.wait_for(Option::is_some);
        match tokio::time::timeout(timeout, end).await {
            Ok(Ok(status)) => *status,
            _ => None,
        }
    }

    /// Everything that was started with it and still lives.
    pub fn family(&self) -> Vec<u32> {
        measure::family(&self.mark, self.pid)
    }

    /// Sends a signal to the process alone, as a supervisor does.
    pub fn signal(&self, signal: Signal) {
        if self.status().is_none()
            && let Some(pid) = raw(self.pid)
        {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Once it has been waited for, its number may be somebody else's; the mark never is.
        if self.status().is_none()
            && let Some(group) = raw(self.pid)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        // One that makes another while it is being killed is caught by the next pass.
        for _ in 0..PASSES {
            let family = self.family();
            if family.is_empty() {
                break;
            }
            for pid in family.into_iter().filter_map(raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// How a process ended, in words: `exited with status 1`, `was killed by signal 9`.
pub fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}
