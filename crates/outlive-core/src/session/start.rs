//! A link is ordered, has so much time to come into service, and is replaced on request.

use std::time::Duration;

use crate::cause::Reason;
use crate::event::State;
use crate::ledger::sooner;
use crate::link::Generation;
use crate::time::Time;

use super::link::{Link, Stage};
use super::{Ending, Output, Session};

impl Session {
    /// Whether another link is wanted.
    pub(super) fn may_connect(&self) -> bool {
        match self.ending {
            Ending::No => true,
            Ending::Draining { .. } => self.ledger.awaited() > 0,
            Ending::Stopping | Ending::Closed => false,
        }
    }

    pub(super) fn connect(&mut self, now: Time) {
        let generation = self.generation.map_or(Generation::FIRST, Generation::next);
        self.generation = Some(generation);
        self.retry_at = None;
        let attempt = self.supervisor.attempt(now);
        self.set_state(State::Connecting { attempt });
        self.link = Some(Link::new(generation, now, &self.policy.limits));
        self.out.push_back(Output::Connect(generation));
    }

    /// When a slow start is reported, and when it is given up.
    pub(super) fn start_deadline(&self) -> Option<Time> {
        let told = self.link.as_ref()?.slow_start_told;
        let since = self.starting_since()?;
        let soft = (!told).then(|| since + self.policy.start_soft);
        sooner(soft, Some(since + self.start_bound()))
    }

    pub(super) fn start_bound(&self) -> Duration {
        match self.memory.initialize {
            Some(_) => self.policy.handshake,
            None => self.policy.start_hard,
        }
    }

    /// Since when somebody waits for the link to come into service, if anybody does: since it was
    /// ordered, or since the host has asked it for its handshake.
    pub(super) fn starting_since(&self) -> Option<Time> {
        let link = self.link.as_ref()?;
        match link.stage {
            Stage::Making | Stage::Handshaking => Some(link.ordered),
            Stage::Open if link.served.is_none() => {
                let asked = self.ledger.iter().map(|(_, e)| e);
                let asked = asked.filter(|e| e.message.is("initialize"));
                asked.map(|e| e.accepted.max(link.ordered)).min()
            }
            _ => None,
        }
    }

    /// The user wants a new server under the same session. While one is about to be replaced, saying so again changes
    /// nothing.
    pub(super) fn restart(&mut self, now: Time) {
        if self.ending != Ending::No {
            return;
        }
        match &mut self.link {
            Some(link) if link.is_open() => {
                link.stage = Stage::Retiring {
                    until: now + self.policy.drain,
                };
            }
            Some(link) if link.is_retiring() => {}
            // It is replaced in any case, and at once.
            Some(link) if matches!(link.stage, Stage::Dying { .. }) => self.supervisor.reset(),
            Some(_) => self.lose(now, Reason::Requested),
            None => {
                self.supervisor.reset();
                self.retry_at = Some(now);
            }
        }
    }
}
