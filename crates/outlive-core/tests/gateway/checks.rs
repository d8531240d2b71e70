//! What must hold after every step, and at the end.

use std::time::Duration;

use outlive_core::gateway::{
    GIVEN_UP, LEGACY_MEMORY, LOSSES, STANDBY, ServerId, TargetId, Unready,
};
use outlive_core::switch::{Client, Sharing};

use super::books::{Broken, ServerBook, Stage, broken};
use super::world::{World, nth};

/// The shortest time after which an idle server is stopped.
pub const SHORTEST_IDLE: Duration = Duration::from_millis(20);

impl World {
    /// What must hold after every step.
    pub(super) fn check(&mut self) -> Result<(), Broken> {
        for n in 0..self.limits.len() {
            if !self.removed.contains(&TargetId(n)) {
                self.check_bounds(TargetId(n))?;
                self.check_readiness(TargetId(n))?;
            }
        }
        for (id, it) in &self.books.servers {
            self.check_use(*id, it)?;
        }
        self.check_sizes()
    }

    pub(super) fn check_bounds(&self, target: TargetId) -> Result<(), Broken> {
        let limits = self.limits_of(target);
        let taken = self.books.dedicated(target);
        let admitted = match limits.share {
            true => 0,
            false => self.books.admitted(target),
        };
        let serving = |sharing| {
            let servers = self.books.of(target, sharing);
            servers
                .filter(|(_, it)| it.is_serving() && it.lane.is_none())
                .count()
        };
        if taken + admitted > limits.servers || limits.share && taken > 0 {
            return broken(
                1,
                format!("{taken} servers, {admitted} to come at {target:?}"),
            );
        }
        match (serving(Sharing::Shared), serving(Sharing::Pooled)) {
            (0..=1, pooled) if pooled <= limits.pool => Ok(()),
            those => broken(
                1,
                format!("{those:?} shared and pooled servers at {target:?}"),
            ),
        }
    }

    pub(super) fn check_readiness(&mut self, target: TargetId) -> Result<(), Broken> {
        let startable = self.startable[target.0];
        let servers = self.books.servers.values();
        let those: Vec<_> = servers
            .filter(|it| it.target == target && !it.is_stopping())
            // One that is there only to tell requests that it knows no such requests answers nobody.
            .filter(|it| it.sharing != Sharing::Pooled || !it.session.0.get().legacy_only)
            // One for those who come through other gateways says nothing of the rest.
            .filter(|it| it.lane.is_none())
            .collect();
        let given_up = self.books.given_up.get(&target);
        let given_up = given_up.is_some_and(|since| self.now - *since < GIVEN_UP);
        let in_trouble = |sharing: Sharing| {
            let mut kind = those.iter().filter(|it| it.sharing == sharing).peekable();
            kind.peek().is_some() && kind.all(|it| it.trouble)
        };
        let can_answer = those.iter().any(|it| !it.trouble);
        let can_start = startable && !given_up && self.shutdowns == 0;
        let empty = those.is_empty();
        let fits = match self.gateway.readiness(target, startable, self.now) {
            Ok(()) => {
                self.seen.ready += 1;
                let kinds = [Sharing::Dedicated, Sharing::Shared, Sharing::Pooled];
                (can_answer || empty && can_start)
                    && self.shutdowns == 0
                    && !kinds.into_iter().any(in_trouble)
            }
            Err(Unready::ShuttingDown) => self.shutdowns > 0,
            Err(Unready::InTrouble(sharing)) => {
                self.seen.in_trouble += 1;
                in_trouble(sharing)
            }
            Err(Unready::GivenUp(..)) => {
                self.seen.given_up += 1;
                empty && given_up
            }
            Err(Unready::Unstartable) => {
                self.seen.unstartable += 1;
                empty && !startable
            }
        };
        match fits {
            true => Ok(()),
            false => {
                let said = self.gateway.readiness(target, startable, self.now);
                broken(
                    6,
                    format!(
                        "{said:?}; startable {startable}, given up {given_up}, servers {those:?}"
                    ),
                )
            }
        }
    }

    /// A server that nobody has a use for is being stopped.
    pub(super) fn check_use(&self, id: ServerId, it: &ServerBook) -> Result<(), Broken> {
        if it.is_stopping() {
            return Ok(());
        }
        if it.standby.is_some()
            && let Some(client) = self.books.heir(id)
        {
            return broken(
                5,
                format!("{id:?} is on standby, and {client:?} goes without"),
            );
        }
        let second = Duration::from_secs(1);
        if let Some(since) = it.standby
            && !it.session.0.get().handshaking
            && self.now > (since + STANDBY).max(it.shaken) + second
        {
            return broken(4, format!("{id:?} is on standby for too long"));
        }
        match it.sharing {
            Sharing::Dedicated => match self.books.users(id) {
                0 if it.standby.is_none() => broken(4, format!("{id:?} is nobody's and goes on")),
                0 | 1 => Ok(()),
                n => broken(5, format!("{id:?} has {n} clients")),
            },
            _ if self.books.is_in_use(id) => Ok(()),
            _ => {
                let idle = self.now - it.used;
                let after = self.limits_of(it.target).idle_stop;
                let spent = after.is_some_and(|after| idle >= after.max(SHORTEST_IDLE));
                let is_brief = it.session.0.get().legacy_only || it.lane.is_some();
                match spent || is_brief && idle >= LEGACY_MEMORY {
                    true => broken(4, format!("{id:?} has been idle for {idle:?} and goes on")),
                    false => Ok(()),
                }
            }
        }
    }

    pub(super) fn check_sizes(&self) -> Result<(), Broken> {
        let sizes = self.gateway.sizes();
        let clients = self.books.clients.values();
        let waiting = clients
            .filter(|it| matches!(it.stage, Stage::Waiting(_)))
            .count();
        let servers = || self.books.servers.values();
        let standby = servers().filter(|it| it.standby.is_some() && !it.is_stopping());
        let assigned = servers().filter(|it| it.sharing != Sharing::Dedicated && it.is_serving());
        let known = (self.books.servers.len(), self.books.clients.len(), waiting);
        if (sizes.servers, sizes.members, sizes.waiting) != known
            || sizes.standby != standby.count()
            || sizes.assigned != assigned.count()
            || sizes.losses > LOSSES * self.limits.len()
            || sizes.orders > 0
        {
            return broken(8, format!("{sizes:?}, there are {known:?}"));
        }
        Ok(())
    }

    /// Everybody leaves, and everything ends.
    pub fn end(&mut self) -> Result<(), Broken> {
        let clients: Vec<Client> = self.books.clients.keys().copied().collect();
        for client in clients {
            self.leave(client, false)?;
        }
        while self.books.servers.values().any(|it| it.in_flight() > 0) {
            self.answer(0);
        }
        self.wait_until(self.now + 2 * STANDBY)?;
        self.check()?;
        if self.shutdowns == 0 {
            self.shutdown()?;
        }
        while let Some(server) = nth(self.books.servers.keys(), 0) {
            self.end_server(server)?;
        }
        self.check()?;
        if !self.over || !self.gateway.is_over() {
            return broken(7, "it is not over");
        }
        self.arrive(TargetId(0), 0, true)?;
        self.ask(0, true)?;
        self.request(TargetId(0))?;
        self.shutdown()?;
        self.wait_until(self.now + STANDBY)?;
        self.check()
    }
}
