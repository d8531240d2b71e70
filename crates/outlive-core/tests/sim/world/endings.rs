//! The ways a schedule can end, and what must be true then.

use std::time::Duration;

use outlive_core::LinkInput;
use outlive_core::cause::Exit;

use super::{Broken, World, lists};
use crate::schedule::{Method, Step};

fn exits(sent: u64) -> LinkInput {
    LinkInput::Exited {
        exit: Exit::Code(1),
        sent,
    }
}

impl World {
    /// No server will ever come again: everything must be settled within its bound all the same.
    pub fn end_dead(&mut self) -> Result<(), Broken> {
        self.die(
            0,
            |sent| LinkInput::Exited {
                exit: Exit::Code(1),
                sent,
            },
            true,
        )?;
        let from = self.now;
        for _ in 0..400 {
            self.unmade()?;
            self.old_exit()?;
            if self
                .asked
                .iter()
                .all(|a| !a.open || a.method == Method::Listen)
            {
                return Ok(());
            }
            self.tick()?;
        }
        let left = self
            .asked
            .iter()
            .find(|a| a.open && a.method != Method::Listen);
        Err(format!(
            "3: {left:?} still waits after {:?}",
            self.now - from
        ))
    }

    /// A healthy server answers all: everything must be answered, and what changed be told.
    pub fn end_well(&mut self) -> Result<(), Broken> {
        self.step(Step::HostBlocked(false))?;
        if self.is_undetected() {
            // Nobody has to look for a death that nobody expects any more.
            self.die(0, exits, true)?;
        }
        for _ in 0..400 {
            self.up()?;
            self.old_exit()?;
            self.fragile_exits()?;
            // Answers lead to more requests: of a list there is one for each page.
            for _ in 0..5 {
                self.step(Step::AnswerAll)?;
            }
            let idle = self
                .live()
                .is_some_and(|s| s.todo.iter().all(|t| t.method == "subscriptions/listen"));
            let settled = self
                .asked
                .iter()
                .all(|a| !a.open || a.method == Method::Listen);
            if settled && (idle || self.closed) {
                break;
            }
            if self.live().is_some_and(|s| s.dead) {
                self.die(
                    0,
                    |sent| LinkInput::Exited {
                        exit: Exit::Code(1),
                        sent,
                    },
                    true,
                )?;
            }
            self.tick()?;
        }
        if let Some(left) = self
            .asked
            .iter()
            .find(|a| a.open && a.method != Method::Listen)
        {
            return Err(format!("3: {left:?} still waits for a healthy server"));
        }
        let Some(server) = self.server.as_ref().filter(|s| s.up && !s.dead) else {
            return Ok(());
        };
        let tools = lists::all(self.lists, server.generation);
        if self.greeted
            && !self.modern
            && server.greeted
            && !server.unlisted
            && self.seen_tools.as_ref().is_some_and(|seen| *seen != tools)
            && !self.told_changed
        {
            return Err("9: the tools changed and the host was not told".into());
        }
        Ok(())
    }

    /// The session is stopped: everything is settled within a bound and nothing is left behind.
    pub fn end_stop(&mut self) -> Result<(), Broken> {
        self.step(Step::Stop)?;
        let from = self.now;
        for _ in 0..60 {
            if self.closed {
                break;
            }
            self.tick()?;
        }
        if !self.closed {
            return Err("10: stop does not end".into());
        }
        let policy = &self.policy;
        let bound = policy.drain + policy.stop_grace + policy.term_grace + Duration::from_secs(3);
        if self.now - from > bound {
            return Err(format!("10: stop took {:?}", self.now - from));
        }
        match self.asked.iter().find(|a| a.open) {
            Some(left) => Err(format!("10: {left:?} was never settled")),
            None => Ok(()),
        }
    }

    /// The host closes its side and reads on. Its last server answers what it can before it ends.
    pub fn end_left(&mut self) -> Result<(), Broken> {
        if !self.host_closed {
            self.step(Step::HostCloses)?;
        }
        let from = self.now;
        for _ in 0..200 {
            if self.closed {
                break;
            }
            self.step(Step::LastAnswer(0))?;
            self.tick()?;
        }
        let policy = &self.policy;
        let drain = policy.drain.max(policy.hold);
        let bound = drain + policy.stop_grace + policy.term_grace + Duration::from_secs(3);
        match self.closed {
            false => Err("10: a session whose host has left does not end".into()),
            true if self.now - from > bound => {
                Err(format!("10: the end took {:?}", self.now - from))
            }
            true => Ok(()),
        }
    }
}
