//! An ending: the server's address is there, and nobody is at it.

use std::time::Duration;

use outlive_core::link::RequestFailure;
use outlive_core::{Id, Input, LinkInput, Time};

use super::{Broken, World};
use crate::schedule::Method;

/// When the host's `initialize` has to be answered.
const GREETING: Duration = Duration::from_secs(5);
/// What a look for the server may take on top of a bound.
const SLACK: Duration = Duration::from_secs(2);

impl World {
    /// From now on whoever is sent to the server finds nobody: not even a connection is made. The host begins anew, and
    /// is told soon; whatever it waits for is settled within the hold.
    pub fn end_absent(&mut self) -> Result<(), Broken> {
        self.die(
            0,
            |sent| LinkInput::Disconnected { error: None, sent },
            true,
        )?;
        let begun = self.now;
        self.request(Method::Initialize, 200)?;
        self.request(Method::CallUnsafe, 201)?;
        let greeting = self.open.get("\"200\"").or(self.open.get("200")).copied();
        let hold = self.policy.hold + SLACK;
        while !self.closed && self.now - begun < hold {
            self.refuse_all()?;
            self.remains_end()?;
            // The next one may have waited for that.
            self.refuse_all()?;
            if self.is_late(begun, GREETING, |index| Some(index) == greeting) {
                return Err("3: nobody is there, and `initialize` is not told".into());
            }
            let before = self.now;
            self.tick()?;
            if self.now == before && self.session.deadline().is_none() {
                break;
            }
        }
        let awaited = |world: &World, index: usize| world.asked[index].method != Method::Listen;
        match (0..self.asked.len()).find(|&index| self.asked[index].open && awaited(self, index)) {
            Some(index) if !self.closed => Err(format!(
                "3: nobody is there, and {:?} waits for longer than the hold",
                self.asked[index].method
            )),
            _ => Ok(()),
        }
    }

    fn is_late(&self, begun: Time, bound: Duration, which: impl Fn(usize) -> bool) -> bool {
        let open = |(index, asked): (usize, &super::Asked)| asked.open && which(index);
        self.now - begun > bound && self.asked.iter().enumerate().any(open)
    }

    /// Every link comes up, as over HTTP, and what is sent on it finds nobody.
    fn refuse_all(&mut self) -> Result<(), Broken> {
        self.up()?;
        while let Some(server) = self.live() {
            let generation = server.generation;
            let Some(todo) = server.todo.pop() else {
                return Ok(());
            };
            if let Some(index) = todo.asked {
                let asked = &mut self.asked[index];
                asked.sends.retain(|(on, _)| *on != generation);
                asked.again = true;
            }
            let id = Id::read(todo.id.as_bytes()).expect("an id");
            let failure = RequestFailure::Unsent("connection refused".into());
            self.feed(Input::Link(
                generation,
                LinkInput::Unanswered { id, failure },
            ))?;
        }
        Ok(())
    }

    fn remains_end(&mut self) -> Result<(), Broken> {
        // What was told to end before it was up ends as well.
        for server in self.old.iter_mut().filter(|server| !server.up) {
            (server.up, server.runs) = (true, true);
        }
        while self.old.iter().any(|server| server.runs) {
            self.old_exit()?;
        }
        Ok(())
    }
}
