//! Clients that want a server of their own: how many there may be, who waits, who is refused.

use std::collections::VecDeque;

use crate::switch::{Client, Sharing};
use crate::time::Time;

use super::member::{Member, Stage};
use super::target::Target;
use super::{Gateway, NoServer, Opening, Server, ServerId, TargetId, Urgency, Used};

/// Whether a client may have a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes: it is to [join](Gateway::join) one, or to [leave](Gateway::leave).
    Admitted,
    /// A server is being stopped. Ask again when something has changed, at this moment at the latest.
    Wait(Time),
    /// No server will end by itself. If somebody gives way, ask again; else the client has to leave.
    GiveWay,
    /// No. The gateway does not know the client any more.
    Refused(NoServer),
}

/// Clients that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Queue(VecDeque<(Client, TargetId)>);

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn push(&mut self, client: Client, target: TargetId) {
        self.0.push_back((client, target));
    }

    pub(super) fn remove(&mut self, client: Client) {
        self.0.retain(|(known, _)| *known != client);
    }

    /// How many wait for the same target and came before.
    fn ahead(&self, client: Client, target: TargetId) -> usize {
        let same = self.0.iter().filter(|(_, it)| *it == target);
        same.take_while(|(known, _)| *known != client).count()
    }
}

impl<S: Used> Gateway<S> {
    /// A client comes to open a session with a target. It has not been seen before. Next it
    /// [asks](Gateway::admit) whether it may have a server. If one is on standby for clients that begin like this one,
    /// or would be before this client has one, it is this client's.
    pub fn arrive(
        &mut self,
        client: Client,
        target: TargetId,
        opening: Option<Opening>,
        now: Time,
    ) {
        let opening = opening.filter(Opening::is_short);
        let standby = opening.as_ref();
        let standby = standby.and_then(|opening| self.take_standby(target, opening));
        let member = Member {
            target,
            stage: Stage::Waiting(now),
            opening,
        };
        self.members.insert(client, member);
        match standby {
            Some(server) => self.enter(client, server, now),
            None => self.queue.push(client, target),
        }
    }

    /// Whether a client that has arrived may have a server. May stop one that is on standby.
    pub fn admit(&mut self, client: Client, now: Time) -> Admission {
        let Some(member) = self.members.get(&client) else {
            return Admission::Refused(NoServer::Gone);
        };
        let target = member.target;
        let Stage::Waiting(since) = member.stage else {
            return Admission::Admitted;
        };
        if self.is_shutting_down() {
            self.leave(client, now);
            return Admission::Refused(NoServer::ShuttingDown);
        }
        let Some(wait) = self.targets.get(&target).map(|it| it.limits.wait) else {
            self.leave(client, now);
            return Admission::Refused(NoServer::Removed);
        };
        let ahead = self.queue.ahead(client, target);
        let free = self.free(target);
        if ahead < free {
            self.queue.remove(client);
            if let Some(member) = self.members.get_mut(&client) {
                member.stage = Stage::Admitted;
            }
            return Admission::Admitted;
        }
        let until = since + wait;
        if now >= until {
            self.leave(client, now);
            return Admission::Refused(NoServer::Full);
        }
        // Nothing is stopped for a client that is refused in the end.
        let missing = (ahead + 1).saturating_sub(free + self.stopping(target));
        if missing > self.standby(target).count() {
            return Admission::GiveWay;
        }
        for _ in 0..missing {
            self.retire_standby(target, now);
        }
        Admission::Wait(until)
    }

    /// How many dedicated servers may be started.
    fn free(&self, target: TargetId) -> usize {
        let Some(Target { limits, .. }) = self.targets.get(&target) else {
            return 0;
        };
        if limits.share || limits.servers == usize::MAX {
            return usize::MAX;
        }
        let servers = self.dedicated(target).count();
        let admitted = self.members.values();
        let admitted = admitted.filter(|it| it.target == target && it.stage == Stage::Admitted);
        limits.servers.saturating_sub(servers + admitted.count())
    }

    /// How many dedicated servers are being stopped.
    fn stopping(&self, target: TargetId) -> usize {
        let servers = self.dedicated(target);
        servers.filter(|server| server.is_stopping()).count()
    }

    fn dedicated(&self, target: TargetId) -> impl Iterator<Item = &Server<S>> {
        let servers = self.servers.values();
        servers.filter(move |it| it.target == target && it.sharing == Sharing::Dedicated)
    }

    fn standby(&self, target: TargetId) -> impl Iterator<Item = (&ServerId, &Server<S>)> {
        let servers = self.servers.iter();
        servers.filter(move |(_, it)| it.target == target && it.is_standby())
    }

    /// Stops the server that has been on standby longest.
    fn retire_standby(&mut self, target: TargetId, now: Time) {
        let longest = self.standby(target).min_by_key(|(id, it)| (it.phase, **id));
        if let Some((id, _)) = longest {
            self.stop(*id, Urgency::Immediate, now);
        }
    }
}
