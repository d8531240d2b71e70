//! Unix.

use std::io;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, ChildStderr, Command};
use tokio::signal::unix::{SignalKind, signal};

/// A process group.
#[derive(Debug)]
pub struct Group(Option<Pid>);

impl Group {
    /// FM-66: signals meant for the check are not meant for the program under test.
    pub fn prepare(command: &mut Command) {
        command.process_group(0);
    }

    /// The group of a process that was just started.
    pub fn of(child: &Child) -> io::Result<Group> {
        Ok(Group(child.id().and_then(raw)))
    }

    /// Ends it. Its leader must not have been waited for.
    pub fn kill(&self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Asks its leader alone to end, as a supervisor does, if the system has a way. The leader must not have been
    /// waited for.
    pub fn terminate(&self) -> Result<(), &'static str> {
        if let Some(leader) = self.0 {
            let _ = kill_process(leader, Signal::TERM);
        }
        Ok(())
    }
}

/// Ends a process.
pub fn kill(pid: u32) {
    if let Some(pid) = raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
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

/// As small as it gets: a host that reads nothing need not be left for hours. Only Linux takes such a wish.
pub fn shrink(pipe: &ChildStderr) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, 4096);
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}

/// A signal that is caught does not kill.
#[derive(Debug, Default)]
pub struct Deafness(Vec<tokio::signal::unix::Signal>);

impl Deafness {
    /// From now on.
    pub fn begin(&mut self) -> io::Result<()> {
        self.0.push(signal(SignalKind::terminate())?);
        Ok(())
    }
}

/// How the system counts time that was computed.
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}
