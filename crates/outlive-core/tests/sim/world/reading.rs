//! Servers that read on although the session takes them for dead.

use outlive_core::cause::{Cause, Exit, Reason};
use outlive_core::policy::Retry;
use outlive_core::{Generation, Input, LinkInput};

use super::{Broken, Server, World, lists};
use crate::schedule::Method;

impl World {
    /// A server whose output is closed reads what is still being written to it.
    pub(super) fn reads_on(&mut self) -> Result<(), Broken> {
        let mut all = self.server.iter_mut().chain(&mut self.old);
        let Some(server) = all.find(|s| reads(s)) else {
            return Ok(());
        };
        let (generation, from, to) = (server.generation, server.taken, server.frames);
        server.taken = to;
        let todo = server.todo.clone();
        self.note(|| format!("server {generation} reads on, frames {from} to {to}"));
        let read = todo.iter().filter(|t| (from..to).contains(&t.frame));
        for index in read.filter_map(|t| t.asked) {
            self.runs_late(index, generation)?;
        }
        Ok(())
    }

    /// Whether there is one.
    pub(super) fn can_read_on(&self) -> bool {
        self.server.iter().chain(&self.old).any(reads)
    }

    /// The process that was started exits; what it has started reads a few of the last frames before it is ended.
    pub(super) fn wrapper_exits(&mut self, lost: u8, read: u8) -> Result<(), Broken> {
        let Some(server) = self.server.as_mut().filter(|s| s.up && !s.dead) else {
            return Ok(());
        };
        let generation = server.generation;
        let frames = server.frames;
        let unread = frames.saturating_sub(lost.into()).max(server.taken);
        let end = (unread + u64::from(read)).min(frames);
        (server.dead, server.cut_off, server.orphaned) = (true, true, true);
        server.taken = end;
        for todo in server.todo.clone() {
            if let Some(index) = todo.asked
                && todo.frame < end
            {
                self.asked[index].unknown += 1;
            }
        }
        self.note(|| {
            format!("the wrapper of {generation} exits, {unread} frames taken, soon {end}")
        });
        self.feed(Input::Link(
            generation,
            LinkInput::Orphaned {
                exit: Exit::Code(0),
                sent: frames,
            },
        ))
    }

    /// The process of a server ends, and what it has started is still being ended: that may go on to read what was
    /// written. The session may have been told that the link is dead.
    pub(super) fn ends(&mut self, lost: u8, signal: bool) -> Result<(), Broken> {
        let exit = match signal {
            true => Exit::Signal(9),
            false => Exit::Code(1),
        };
        let Some(server) = self.server.as_mut().filter(|s| s.up && s.runs) else {
            return Ok(());
        };
        if server.orphaned || server.ended.is_some() || server.has_died_unseen() {
            return Ok(());
        }
        server.ended = Some(exit);
        let (generation, sent) = (server.generation, server.taken);
        match server.dead {
            false => self.die(lost, |sent| LinkInput::Ended { exit, sent }, false),
            true => self.feed(Input::Link(generation, LinkInput::Ended { exit, sent })),
        }
    }

    /// The cause of a loss names the exit where that was known.
    pub(super) fn check_cause(&self, generation: Generation, cause: &Cause) -> Result<(), Broken> {
        let known = self.server.iter().find(|s| s.generation == generation);
        match (known.and_then(|s| s.ended), &cause.reason) {
            (Some(exit), Reason::Eof | Reason::WriteFailed(_)) => Err(format!(
                "5: {generation} has ended with {exit:?}, and its loss is put down to {:?}",
                cause.reason
            )),
            _ => Ok(()),
        }
    }

    /// A server executes a request after it was taken for dead: nobody else may have been sent it, and the
    /// host may not have been told that nobody was.
    fn runs_late(&mut self, index: usize, generation: Generation) -> Result<(), Broken> {
        let lists = self.lists;
        let retry = self.policy.retry;
        let asked = &mut self.asked[index];
        asked.unknown += 1;
        let later = asked.sends.iter().map(|(on, _)| *on);
        let later: Vec<Generation> = later.filter(|on| *on > generation).collect();
        let declared = |on: &Generation| {
            retry == Retry::Safe && asked.method == Method::CallSafe && lists::declares(lists, *on)
        };
        let safe = asked.method.is_read_only() || retry == Retry::Always;
        if !safe && !later.iter().all(declared) {
            return Err(format!("4: {:?} was executed twice", asked.method));
        }
        match asked.denied && !asked.cancelled {
            true => Err(format!(
                "4: {} was said not to be sent and is executed",
                asked.id
            )),
            false => Ok(()),
        }
    }
}

/// Whether a server that is dead to the session reads what is being written to it.
fn reads(server: &Server) -> bool {
    server.up && server.dead && server.runs && !server.cut_off && server.taken < server.frames
}
