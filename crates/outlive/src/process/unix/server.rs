//! A server process, and all that it has started.

use std::io;
use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::task::{Context, Poll};

use outlive_core::cause::{Exit, StartFailure};
use rustix::process::Pid;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedSender;

use super::cleanup;
pub(crate) use super::cleanup::{Sweep, own_orphans, tidy};
use super::os;
use super::tree::Tree;
use crate::io::standard::unblocked;
use crate::io::stream::{Kind, Sink, Source};
use crate::process::command::Command;
use crate::process::orphan_reaper::OrphanReaper;

/// What comes of a start.
pub(crate) type Started = Result<(Server, Pipes), StartFailure>;

/// A server that was started. It and what it has started are ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    /// It leads its group, and is not collected before [`Server::collect`].
    pid: Pid,
    tree: Tree,
    orphan_reaper: Option<OrphanReaper>,
    collected: bool,
}

/// Starts a command as the root of a tree; an orphan reaper guards it.
pub(crate) fn launch(command: &Command, orphan_reaper: Option<OrphanReaper>) -> Started {
    let tree = Tree::new();
    cleanup::ensure_thread().map_err(|error| StartFailure::Other(error.to_string()))?;
    cleanup::begin_start();
    let spawned = os::spawn(command, &tree);
    let pid = spawned.as_ref().ok().map(Pid::from_child);
    cleanup::end_start(pid.map(|pid| (pid, &tree)));
    let mut child = spawned?;
    let pid = Pid::from_child(&child);
    if let Some(orphan_reaper) = &orphan_reaper {
        orphan_reaper.guard(pid);
    }
    let server = Server {
        pid,
        tree,
        orphan_reaper,
        collected: false,
    };
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(StartFailure::Other("its pipes could not be made".into()));
    };
    let pipes = Pipes {
        stdin,
        stdout,
        stderr,
    };
    Ok((server, pipes))
}

impl Server {
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// `done` is told when it ends. Here [`Exits`] tells that.
    pub(crate) fn watch(&mut self, _done: &UnboundedSender<()>) -> io::Result<()> {
        Ok(())
    }

    /// Whether it has ended. It is not collected.
    pub(crate) fn has_ended(&self) -> bool {
        os::has_ended(self.pid)
    }

    /// How it has ended, if it has.
    pub(crate) fn exit(&self) -> Exit {
        os::exit_of(self.pid)
    }

    /// Asks it and its group to end.
    pub(crate) fn terminate(&self) {
        os::terminate(self.pid);
    }

    /// Whether the system shows it as stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        os::is_stopped(self.pid)
    }

    /// Ends it with all that belongs to it. `done` is told when that is done.
    pub(crate) fn end(&self, done: UnboundedSender<()>) -> Sweep {
        cleanup::end(self.pid, &self.tree, done)
    }

    /// Ends it with all that belongs to it, and waits until that is done, for a bounded time.
    pub(crate) fn end_now(&self) {
        cleanup::end_now(self.pid, &self.tree);
    }

    /// Collects it, once it has ended with all that belongs to it, and tells how.
    pub(crate) fn collect(mut self) -> Exit {
        self.collected = true;
        // In this order: once it is collected, its number may become somebody else's.
        if let Some(orphan_reaper) = &self.orphan_reaper {
            orphan_reaper.release(self.pid);
        }
        cleanup::collect(self.pid)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.collected {
            cleanup::abandon(self.pid, &self.tree, self.orphan_reaper.take());
        }
    }
}

/// The three streams of a server.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl Pipes {
    /// Its input, output and standard error. To be called inside the runtime that is to use them.
    pub(crate) fn open(self) -> io::Result<(Sink, Source, Source)> {
        Ok((
            Sink::new(unblocked(self.stdin.into())?, Kind::Pipe)?,
            Source::new(unblocked(self.stdout.into())?, Kind::Pipe)?,
            Source::new(unblocked(self.stderr.into())?, Kind::Pipe)?,
        ))
    }
}

/// Tells that a child may have ended: `SIGCHLD`.
#[derive(Debug)]
pub(crate) struct Exits(Signal);

impl Exits {
    pub(crate) fn new() -> io::Result<Exits> {
        Ok(Exits(signal(SignalKind::child())?))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_recv(cx).map(|_| ())
    }
}
