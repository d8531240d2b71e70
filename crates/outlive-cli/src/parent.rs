//! `--parent-pid`: this program ends with the process that started it.
//!
//! # Theory
//!
//! A host that leaves closes our input, and that is how we learn of it. A launcher is not the host: the one of the npm
//! package runs in a process of its own, between the two, and hands its streams down. Whoever ends only the launcher
//! leaves our input open, and us with nobody who will ever end us. So a launcher tells its process id, and when that
//! process is gone we do what we do at `SIGTERM`; on Windows, which has no such signal, we end at once.
//!
//! The process is watched by a thread that sleeps, so that no command has to know of it.

use std::io;
use std::num::NonZeroU32;
use std::thread;

/// The variable of the flag. What we start does not inherit it: the launcher is ours, not theirs.
pub const VARIABLE: &str = "OUTLIVE_PARENT_PID";

/// The thread's stack: it makes two system calls.
const STACK: usize = 64 << 10;

/// From now on this process is told to stop when `parent` has ended.
pub fn end_with(parent: NonZeroU32) -> io::Result<()> {
    // SAFETY: called before any other thread exists, so nobody reads the environment meanwhile.
    unsafe {
        std::env::remove_var(VARIABLE);
    }
    let thread = thread::Builder::new()
        .name("parent".into())
        .stack_size(STACK);
    thread.spawn(move || system::watch(parent)).map(drop)
}

#[cfg(unix)]
mod system {
    use std::num::NonZeroU32;
    use std::thread;
    use std::time::Duration;

    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, getpid, getppid, kill_process, test_kill_process};

    /// How often a process is asked after that cannot be waited for.
    const INTERVAL: Duration = Duration::from_millis(500);

    /// Sends us the signal to stop when the process has ended.
    pub fn watch(parent: NonZeroU32) {
        // What is no process id on this system is nobody's.
        let pid = i32::try_from(parent.get()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            wait_for_end(pid);
        }
        let _ = kill_process(getpid(), Signal::TERM);
    }

    /// Returns when this process has ended, or is not there.
    pub fn wait_for_end(process: Pid) {
        if !wait_on_descriptor(process) {
            wait_by_asking(process);
        }
    }

    /// Waits on a descriptor of the process. False if there is none to be had: another system, or a Linux before 5.3.
    #[cfg(target_os = "linux")]
    fn wait_on_descriptor(process: Pid) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        use rustix::process::{PidfdFlags, pidfd_open};
        let descriptor = match pidfd_open(process, PidfdFlags::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::SRCH) => return true,
            Err(_) => return false,
        };
        loop {
            match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None) {
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn wait_on_descriptor(_process: Pid) -> bool {
        false
    }

    /// Asks again and again. A parent that has ended and that nobody has waited for still counts as a process, but is
    /// not our parent any more.
    pub fn wait_by_asking(process: Pid) {
        let is_parent = || getppid() == Some(process);
        let was_parent = is_parent();
        while test_kill_process(process) != Err(Errno::SRCH) && (is_parent() || !was_parent) {
            thread::sleep(INTERVAL);
        }
    }
}

#[cfg(windows)]
mod system {
    use std::num::NonZeroU32;

    use crate::system::Process;

    /// What this program exits with then.
    const ENDED: i32 = 1;

    /// Ends this process when that one has ended. There is no signal to stop that one could send oneself; the kernel
    /// ends the servers with us.
    pub fn watch(parent: NonZeroU32) {
        if Process::of(parent.get().into()).is_none_or(Process::wait) {
            std::process::exit(ENDED);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::system::{wait_by_asking, wait_for_end};
    use super::*;
    use rustix::process::Pid;
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc;
    use std::time::Duration;

    /// Either way to wait returns when the process has ended, and not before.
    #[test]
    fn the_end_of_a_process_is_noticed() {
        for wait in [wait_for_end, wait_by_asking] {
            let mut process: Child = Command::new("cat")
                .stdin(Stdio::piped())
                .spawn()
                .expect("cat starts");
            let pid = Pid::from_child(&process);
            let (tell, told) = mpsc::channel();
            thread::spawn(move || {
                wait(pid);
                let _ = tell.send(());
            });
            assert!(told.recv_timeout(Duration::from_millis(100)).is_err());
            drop(process.stdin.take());
            process.wait().expect("cat ends");
            told.recv_timeout(Duration::from_secs(30))
                .expect("its end is noticed");
            // A process that is gone has ended.
            wait(pid);
        }
    }
}
