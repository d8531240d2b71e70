//! Clients join servers and leave them; requests without a session are assigned to one.

use bytes::Bytes;

use crate::session_table::Principal;
use crate::switch::{Client, Sharing};
use crate::time::Time;

use super::server::Phase;
use super::target::Target;
use super::{Gateway, ServerId, TargetId, Urgency, Used};

/// Servers on standby at once, over all targets.
pub const MOST_STANDBY: usize = 64;

/// Longer openings are not remembered: a server that was begun with one is not kept for anybody.
const LONGEST_OPENING: usize = 64 << 10;

/// How a client begins the handshake: who it is, and the parameters of its `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The credentials it has shown.
    pub principal: Principal,
    /// A JSON object.
    pub params: Bytes,
}

impl Opening {
    pub(super) fn is_short(&self) -> bool {
        self.params.len() <= LONGEST_OPENING
    }
}

/// Why somebody gets no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoServer {
    /// There are as many servers as there may be, and none of them ends soon.
    Full,
    /// The gateway is shutting down.
    ShuttingDown,
    /// The target was removed.
    Removed,
    /// The client has left, or was never there.
    Gone,
}

/// A client with a session, or one that wants to open one.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) target: TargetId,
    pub(super) stage: Stage,
    /// How it begins, as far as it has shown that, until it has a server.
    pub(super) opening: Option<Opening>,
}

/// How far a client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It has waited for a server since this moment.
    Waiting(Time),
    /// It may start one.
    Admitted,
    /// It uses this one.
    Joined(ServerId),
}

impl<S: Used> Gateway<S> {
    /// The server that a client uses from now on, who was [admitted](super::Admission::Admitted) and sends its first
    /// message: this is how it begins the handshake, if it does. Starts one if there is none for it.
    pub fn join(
        &mut self,
        client: Client,
        opening: Option<Opening>,
        now: Time,
    ) -> Result<ServerId, NoServer> {
        let Some(member) = self.members.get(&client) else {
            return Err(NoServer::Gone);
        };
        let target = member.target;
        let server = match member.stage {
            Stage::Joined(server) => server,
            Stage::Waiting(_) => return Err(NoServer::Full),
            Stage::Admitted if self.is_shutting_down() => {
                self.leave(client, now);
                return Err(NoServer::ShuttingDown);
            }
            Stage::Admitted if !self.has_target(target) => {
                self.leave(client, now);
                return Err(NoServer::Removed);
            }
            Stage::Admitted => {
                let server = self.server_for(target, opening.as_ref(), now);
                self.enter(client, server, now);
                server
            }
        };
        if let Some(joined) = self.servers.get_mut(&server)
            && joined.sharing == Sharing::Dedicated
        {
            joined.opening = opening.filter(Opening::is_short);
        }
        Ok(server)
    }

    /// A client has left for good, however far it had come. Its session has left the server before.
    pub fn leave(&mut self, client: Client, now: Time) {
        self.depart(client, false, now);
    }

    /// The same, of a client that has left before it was told how its handshake ended. Nobody knows its session, so its
    /// server is kept also if the handshake is over by now.
    pub fn leave_unanswered(&mut self, client: Client, now: Time) {
        self.depart(client, true, now);
    }

    fn depart(&mut self, client: Client, unanswered: bool, now: Time) {
        self.queue.remove(client);
        let Some(member) = self.members.remove(&client) else {
            return;
        };
        let Stage::Joined(id) = member.stage else {
            return;
        };
        let Some(server) = self.servers.get_mut(&id) else {
            return;
        };
        server.clients.remove(&client);
        server.used = now;
        if server.sharing != Sharing::Dedicated || server.is_stopping() {
            return;
        }
        let handshaking = server.usage().handshaking;
        if (handshaking || unanswered) && !self.is_shutting_down() && self.keep(id, now) {
            return;
        }
        // Nobody waits for the answer to a handshake, so there is nothing to finish.
        let urgency = match handshaking {
            true => Urgency::Immediate,
            false => Urgency::Graceful,
        };
        self.stop(id, urgency, now);
    }

    /// The server that a request without a session is handed to. Starts one if that is better than a busy one.
    pub fn request(&mut self, target: TargetId, now: Time) -> Result<ServerId, NoServer> {
        let known = self.open_target(target)?;
        let is_full = known.pool.len() >= known.limits.pool;
        let server = match known.pool[..] {
            [only] if is_full => only,
            _ => {
                let load = |id: &&ServerId| {
                    let server = self.servers.get(id);
                    server.map_or(0, |server| server.usage().in_flight)
                };
                let least = known.pool.iter().min_by_key(load);
                match least.filter(|id| is_full || load(id) == 0) {
                    Some(id) => *id,
                    None => self.start(target, Sharing::Pooled, None, now),
                }
            }
        };
        if let Some(server) = self.servers.get_mut(&server) {
            server.used = now;
        }
        Ok(server)
    }

    /// A target that servers may be started of.
    pub(super) fn open_target(&self, target: TargetId) -> Result<&Target, NoServer> {
        if self.is_shutting_down() {
            return Err(NoServer::ShuttingDown);
        }
        self.targets
            .get(&target)
            .ok_or(match target.0 < self.target_numbers {
                true => NoServer::Removed,
                false => NoServer::Gone,
            })
    }

    /// Keeps a server that its client has left during the handshake, for the next attempt of the same client. That one
    /// may be here already: a client is often back before it was noticed that it had gone. False if it is not known how
    /// the client began, or there are as many on standby as there may be.
    fn keep(&mut self, id: ServerId, now: Time) -> bool {
        let Some(server) = self.servers.get(&id) else {
            return false;
        };
        let Some(opening) = &server.opening else {
            return false;
        };
        let begins_alike =
            |it: &Member| it.target == server.target && it.opening.as_ref() == Some(opening);
        let mut members = self.members.iter();
        if let Some((next, _)) = members.find(|(_, it)| begins_alike(it)) {
            let next = *next;
            self.queue.remove(next);
            self.enter(next, id, now);
            return true;
        }
        if self.servers.values().filter(|it| it.is_standby()).count() >= MOST_STANDBY {
            return false;
        }
        if let Some(server) = self.servers.get_mut(&id) {
            server.phase = Phase::Standby(now);
        }
        self.arm(id, now);
        true
    }

    /// A server for a client that was admitted.
    fn server_for(&mut self, target: TargetId, opening: Option<&Opening>, now: Time) -> ServerId {
        let known = self.targets.get(&target);
        if let Some(known) = known.filter(|it| it.limits.share) {
            let shared = known.shared;
            return shared.unwrap_or_else(|| self.start(target, Sharing::Shared, None, now));
        }
        let standby = opening.and_then(|opening| self.take_standby(target, opening));
        standby.unwrap_or_else(|| self.start(target, Sharing::Dedicated, None, now))
    }

    /// A client that has come uses this server from now on.
    pub(super) fn enter(&mut self, client: Client, id: ServerId, now: Time) {
        if let Some(member) = self.members.get_mut(&client) {
            member.stage = Stage::Joined(id);
            member.opening = None;
        }
        if let Some(server) = self.servers.get_mut(&id) {
            server.clients.insert(client);
            server.used = now;
        }
    }

    /// A server on standby for clients that begin like this; it is not on standby any more.
    pub(super) fn take_standby(&mut self, target: TargetId, opening: &Opening) -> Option<ServerId> {
        let mut servers = self.servers.iter_mut();
        let (id, server) = servers.find(|(_, it)| {
            it.target == target && it.is_standby() && it.opening.as_ref() == Some(opening)
        })?;
        server.phase = Phase::Serving;
        Some(*id)
    }
}
