//! A small process that outlives us by a moment.
//!
//! When this process is ended with `SIGKILL`, nobody is left to end what a server started: the
//! kernel ends the server itself (`PR_SET_PDEATHSIG`, Linux only), but not the program behind an
//! `sh -c` or `npx`. The warden is told which groups there are. It learns of our end by the end of
//! its input, ends the groups, and leaves.

use std::io::{self, BufRead, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};

use rustix::process::{Pid, Signal};

use crate::command::Command;
use crate::host::unblocked;

/// Our hold on the warden.
#[derive(Debug)]
pub(crate) struct Warden {
    process: Child,
    input: ChildStdin,
}

impl Warden {
    /// Starts `command`, which has to call [`main`].
    pub(crate) fn start(command: &Command) -> io::Result<Warden> {
        let mut warden = std::process::Command::new(&command.program);
        warden
            .args(&command.args)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A host that ends our whole group must not end the warden with it.
        warden.process_group(0);
        let mut process = warden.spawn()?;
        let input = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        // It is told a few bytes per server; should it not read them, we do not wait for it.
        let input = unblocked(OwnedFd::from(input))?.into();
        Ok(Warden { process, input })
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// From now on the group of `leader` ends with us.
    pub(crate) fn guard(&mut self, leader: Pid) {
        let _ = writeln!(self.input, "+{}", leader.as_raw_nonzero());
    }

    /// The group of `leader` is gone; its number may become somebody else's.
    pub(crate) fn release(&mut self, leader: Pid) {
        let _ = writeln!(self.input, "-{}", leader.as_raw_nonzero());
    }
}

/// We end in good order: there is nothing left to guard.
impl Drop for Warden {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the warden does.
pub fn main() {
    for leader in guarded(io::stdin().lock()) {
        let _ = rustix::process::kill_process_group(leader, Signal::KILL);
    }
}

/// The groups that are still guarded when the input ends.
fn guarded(input: impl BufRead) -> Vec<Pid> {
    let mut groups = Vec::new();
    for line in input.lines().map_while(Result::ok) {
        let (sign, number) = line.split_at(line.len().min(1));
        let Some(leader) = number.parse().ok().and_then(Pid::from_raw) else {
            continue;
        };
        groups.retain(|group| *group != leader);
        if sign == "+" {
            groups.push(leader);
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_released_is_guarded() {
        let guarded = guarded(&b"+12\n+34\n-12\n+0\nnonsense\n\n+56\n-77\n+34\n"[..]);
        let numbers: Vec<_> = guarded
            .iter()
            .map(|pid| pid.as_raw_nonzero().get())
            .collect();
        assert_eq!(numbers, [56, 34]);
    }
}
