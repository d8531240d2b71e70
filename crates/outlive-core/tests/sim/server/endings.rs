//! The ways a schedule can end, and what must be true then.

use std::time::Duration;

use outlive_core::protocol::List;
use outlive_core::server::{CloseKind, Input};

use crate::world::Broken;

use super::world::World;

impl World {
    /// The client closes its side, and nobody answers any more.
    pub fn end_of_input(&mut self) -> Result<(), Broken> {
        self.close(false)?;
        self.over_within(self.policy.drain + self.policy.grace)
    }

    /// The connection breaks.
    pub fn end_broken(&mut self) -> Result<(), Broken> {
        self.close(true)?;
        self.over_within(self.policy.grace)
    }

    /// All handlers answer, then the client leaves.
    pub fn end_answered(&mut self) -> Result<(), Broken> {
        for _ in 0..100 {
            let waited_for = |(_, h): &(_, &super::world::Handler)| h.asked.is_some();
            let next = self
                .handlers
                .iter()
                .find(waited_for)
                .map(|(ticket, _)| *ticket);
            let left = self.handlers.keys().next().copied();
            // A handler nobody waits for may take the place of one that is waited for.
            match next.or(left) {
                Some(ticket) => self.answer(ticket, 5)?,
                None => break,
            }
        }
        let waits = |a: &&super::world::Asked| a.open && a.method.is_handled();
        if let Some(left) = self.asked.iter().find(waits).filter(|_| !self.is_mute()) {
            return Err(format!("3: all handlers have answered, and {left:?} waits"));
        }
        self.close(false)?;
        self.over_within(Duration::ZERO)
    }

    /// A shutdown that is asked for twice.
    pub fn end_at_once(&mut self) -> Result<(), Broken> {
        self.shutdown()?;
        self.shutdown()?;
        self.over_within(Duration::ZERO)
    }

    pub fn end_shutdown(&mut self) -> Result<(), Broken> {
        self.shutdown()?;
        self.over_within(self.policy.grace)
    }

    fn over_within(&mut self, bound: Duration) -> Result<(), Broken> {
        self.advance(bound)?;
        if !self.closed {
            return Err(format!(
                "10: not over after {bound:?}: {:?}",
                self.server.sizes()
            ));
        }
        // Whatever happens now, nothing comes of it.
        self.handle(Input::Closed(CloseKind::Reset))?;
        self.handle(Input::Shutdown)?;
        self.handle(Input::Changed(List::Tools))?;
        self.handle(Input::Tick)
    }
}
