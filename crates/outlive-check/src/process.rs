//! A process under test, in a group of its own, gone when this is dropped.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;

use crate::journal::Leg;
use crate::measure;
use crate::system::{self, Group};

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
    group: Group,
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
        Group::prepare(&mut command);
        let mut child = command
            .args(args)
            .envs(ALSO.get().map(|(name, value)| (name, value)))
            .envs(extra.iter().map(|(name, value)| (name, value)))
            .env(measure::MARK, &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let gone = || io::Error::other("it was gone at once");
        let pid = child.id().ok_or_else(gone)?;
        let group = Group::of(&child)?;
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
        let process = Process {
            pid,
            group,
            mark,
            exited,
        };
        Ok((process, streams))
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

    /// Asks the process alone to end, as a supervisor does; why that cannot be done, if it cannot.
    pub fn terminate(&self) -> Result<(), &'static str> {
        match self.status() {
            None => self.group.terminate(),
            Some(_) => Ok(()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Once it has been waited for, its number may be somebody else's; the mark never is.
        if self.status().is_none() {
            self.group.kill();
        }
        // One that makes another while it is being killed is caught by the next pass.
        for _ in 0..PASSES {
            let family = self.family();
            if family.is_empty() {
                break;
            }
            family.into_iter().for_each(system::kill);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

pub use system::ending;
