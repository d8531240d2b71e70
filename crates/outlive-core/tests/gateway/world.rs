//! Clients and requests around one gateway, with books of their own.

use std::collections::BTreeSet;
use std::time::Duration;

use outlive_core::Time;
use outlive_core::gateway::{
    Admission, Gateway, Lane, NoServer, Opening, ServerId, TargetId, TargetLimits,
};
use outlive_core::session_table::Principal;
use outlive_core::switch::{Client, Sharing};

use super::books::{Books, Broken, ClientBook, Seen, ServerBook, Session, Stage, broken};
use super::schedule::Step;
use crate::random::Dice;

/// What the gateway is asked, when it gives orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    Ask,
    Join(Client),
    Leave,
    Request(TargetId),
    RequestAlong(TargetId, Lane),
    Tick,
    Restart,
    StopTarget(TargetId),
    RemoveTarget(TargetId),
    Shutdown,
    Other,
}

pub struct World {
    pub(super) gateway: Gateway<Session>,
    /// Of all targets there have been.
    pub limits: Vec<TargetLimits>,
    pub(super) removed: BTreeSet<TargetId>,
    pub(super) now: Time,
    pub(super) books: Books,
    pub(super) clients: u64,
    /// Servers that were started.
    pub(super) started: u64,
    pub(super) startable: Vec<bool>,
    pub(super) shutdowns: u32,
    pub(super) over: bool,
    pub log: Vec<String>,
    pub seen: Seen,
}

impl World {
    pub fn new(dice: &mut Dice) -> World {
        let targets = 1 + dice.below(2) as usize;
        let limits: Vec<TargetLimits> = (0..targets).map(|_| limits(dice)).collect();
        World {
            gateway: Gateway::new(limits.clone()),
            startable: vec![true; targets],
            limits,
            removed: BTreeSet::new(),
            now: Time::ZERO,
            books: Books::default(),
            clients: 0,
            started: 0,
            shutdowns: 0,
            over: false,
            log: Vec::new(),
            seen: Seen::default(),
        }
    }

    pub(super) fn say(&mut self, what: impl Into<String>) {
        let at = self.now.since_start().as_millis();
        self.log.push(format!("{at:>7} {}", what.into()));
    }

    pub fn step(&mut self, step: Step) -> Result<(), Broken> {
        match step {
            Step::Arrive(n, who, shown) => self.arrive(self.target(n), who, shown)?,
            Step::Ask(n, yields) => self.ask(n, yields)?,
            Step::Join(n) => self.join(n)?,
            Step::Leave(n, unanswered) => {
                let client = nth(self.books.clients.keys(), n);
                client.map_or(Ok(()), |client| self.leave(client, unanswered))?;
            }
            Step::Request(n) => self.request(self.target(n))?,
            Step::RequestAlong(n, lane) => {
                self.request_along(self.target(n), Lane(u64::from(lane)))?;
            }
            Step::Call(n) => self.call(n),
            Step::Answer(n) => self.answer(n),
            Step::Shake(n) => self.shake(n),
            Step::Ready(n) => self.ready(n)?,
            Step::Down(n) => self.down(n)?,
            Step::Legacy(n) => self.turn_legacy(n),
            Step::Close(n) => self.close(n)?,
            Step::End(n) => {
                let stopping = self.books.servers.iter().filter(|(_, it)| it.is_stopping());
                let server = nth(stopping.map(|(id, _)| id), n);
                server.map_or(Ok(()), |server| self.end_server(server))?;
            }
            Step::Die(n) => {
                if let Some(server) = nth(self.books.servers.keys(), n) {
                    self.seen.died += 1;
                    self.end_server(server)?;
                }
            }
            Step::Obstruct(n) => {
                let TargetId(n) = self.target(n);
                self.startable[n] = !self.startable[n];
            }
            Step::Restart => {
                self.gateway.restart();
                self.carry_out(Doing::Restart)?;
            }
            Step::RestartTarget(n) => {
                self.gateway.restart_target(self.target(n));
                self.carry_out(Doing::Restart)?;
            }
            Step::StopTarget(n) => {
                let target = self.target(n);
                let told = self.gateway.stop_target(target, self.now);
                self.seen.stopped_targets += usize::from(told > 0);
                self.carry_out(Doing::StopTarget(target))?;
            }
            Step::AddTarget(n) => self.add_target(n)?,
            Step::RemoveTarget(n) => self.remove_target(self.target(n))?,
            Step::Shutdown => self.shutdown()?,
            Step::Wait(ms) => self.wait_until(self.now + Duration::from_millis(ms.into()))?,
            Step::Tick => {
                if let Some(at) = self.gateway.deadline() {
                    self.wait_until(at)?;
                }
            }
        }
        self.check()
    }

    pub(super) fn target(&self, n: u8) -> TargetId {
        TargetId(usize::from(n) % self.limits.len())
    }

    pub(super) fn limits_of(&self, target: TargetId) -> TargetLimits {
        self.limits[target.0]
    }

    fn add_target(&mut self, n: u8) -> Result<(), Broken> {
        let limits = limits(&mut Dice::new(u64::from(n)));
        let expected = TargetId(self.limits.len());
        let added = self.gateway.add_target(limits);
        self.say(format!("{added:?} comes"));
        self.limits.push(limits);
        self.startable.push(true);
        self.seen.targets_added += 1;
        if added != expected {
            return broken(11, format!("{added:?} comes, {expected:?} is next"));
        }
        self.carry_out(Doing::Other)
    }

    fn remove_target(&mut self, target: TargetId) -> Result<(), Broken> {
        if !self.removed.insert(target) {
            return Ok(());
        }
        self.say(format!("{target:?} goes"));
        self.seen.targets_removed += 1;
        self.seen.servers_removed += self.gateway.remove_target(target, self.now);
        self.carry_out(Doing::RemoveTarget(target))?;
        self.books.given_up.remove(&target);
        let left = |it: &&ServerBook| it.target == target && !it.is_stopping();
        match self.books.servers.values().find(left) {
            Some(it) => broken(11, format!("{it:?} goes on, and its target was removed")),
            None => Ok(()),
        }
    }

    /// How many dedicated servers may be started.
    pub(super) fn free(&self, target: TargetId) -> usize {
        let limits = self.limits_of(target);
        match limits.share {
            _ if self.removed.contains(&target) => 0,
            true => usize::MAX,
            false => {
                let taken = self.books.dedicated(target) + self.books.admitted(target);
                limits.servers.saturating_sub(taken)
            }
        }
    }

    pub(super) fn arrive(&mut self, target: TargetId, who: u8, shown: bool) -> Result<(), Broken> {
        self.clients += 1;
        let client = Client(self.clients);
        let opening = Opening {
            principal: Principal::Token(u64::from(who / 2)),
            params: format!(r#"{{"who":{}}}"#, who % 2).into(),
        };
        self.say(format!(
            "{client:?} arrives at {target:?}, {opening:?}, shown {shown}"
        ));
        let standby = self.books.standby_for(target, &opening).filter(|_| shown);
        let stage = match standby {
            Some(server) => {
                self.seen.standby_taken_at_arrival += 1;
                self.take_standby(server);
                Stage::Joined(server)
            }
            None => Stage::Waiting(self.now),
        };
        let said = shown.then(|| opening.clone());
        self.gateway.arrive(client, target, said, self.now);
        let book = ClientBook {
            target,
            opening,
            shown,
            stage,
            spoken: false,
            calls: 0,
        };
        self.books.clients.insert(client, book);
        self.carry_out(Doing::Other)
    }

    pub(super) fn take_standby(&mut self, server: ServerId) {
        let book = self.books.servers.get_mut(&server).expect("a server");
        book.standby = None;
        book.used = self.now;
    }

    pub(super) fn ask(&mut self, n: u8, yields: bool) -> Result<(), Broken> {
        let clients = self.books.clients.iter();
        let waiting = clients.filter(|(_, it)| matches!(it.stage, Stage::Waiting(_)));
        let Some(client) = nth(waiting.map(|(client, _)| client), n) else {
            return Ok(());
        };
        let ClientBook { target, stage, .. } = self.books.clients[&client];
        let Stage::Waiting(since) = stage else {
            return Ok(());
        };
        let until = since + self.limits_of(target).wait;
        loop {
            let (ahead, free) = (self.books.ahead(client), self.free(target));
            let admission = self.gateway.admit(client, self.now);
            self.say(format!("{client:?} asks: {admission:?}"));
            self.carry_out(Doing::Ask)?;
            let fits = ahead < free;
            match admission {
                Admission::Refused(NoServer::ShuttingDown) if self.shutdowns > 0 => {
                    self.seen.refused_by_shutdown += 1;
                    self.books.clients.remove(&client);
                    return Ok(());
                }
                _ if self.shutdowns > 0 => {
                    return broken(7, format!("{client:?} is let in after the end"));
                }
                Admission::Refused(NoServer::Removed) if self.removed.contains(&target) => {
                    self.seen.refused_removed += 1;
                    self.books.clients.remove(&client);
                    return Ok(());
                }
                _ if self.removed.contains(&target) => {
                    return broken(11, format!("{client:?} waits for what was removed"));
                }
                Admission::Admitted if fits => {
                    self.seen.admitted += 1;
                    self.seen.admitted_after_waiting += usize::from(self.now > since);
                    self.books.clients.get_mut(&client).expect("a client").stage = Stage::Admitted;
                    return Ok(());
                }
                Admission::Admitted => {
                    return broken(3, format!("{client:?} overtakes {ahead}, with {free} free"));
                }
                _ if fits => {
                    return broken(3, format!("{client:?} is not let in, with {free} free"));
                }
                Admission::Refused(NoServer::Full) if self.now >= until => {
                    self.seen.refused_full += 1;
                    self.books.clients.remove(&client);
                    return Ok(());
                }
                _ if self.now >= until => return broken(3, format!("{client:?} waits too long")),
                Admission::Wait(at) => {
                    let to_come = free + self.books.stopping(target);
                    if at != until || ahead >= to_come {
                        let how = format!(
                            "{client:?} waits until {at:?}, {ahead} ahead, {to_come} to come"
                        );
                        return broken(3, how);
                    }
                    self.seen.waited += 1;
                    return Ok(());
                }
                Admission::GiveWay => {
                    let to_come = free + self.books.stopping(target) + self.standby(target).count();
                    if ahead < to_come {
                        return broken(
                            3,
                            format!("somebody must leave for {client:?}, {to_come} to come"),
                        );
                    }
                    match self.idle_client(target).filter(|_| yields) {
                        Some(idle) => {
                            self.seen.gave_way += 1;
                            self.leave(idle, false)?;
                            if let Stage::Joined(_) = self.books.clients[&client].stage {
                                // It was given the server of the one that left.
                                return Ok(());
                            }
                        }
                        None => return self.leave(client, false),
                    }
                }
                Admission::Refused(why) => {
                    return broken(3, format!("{client:?} is refused: {why:?}"));
                }
            }
        }
    }

    /// The servers of a target that are on standby.
    pub(super) fn standby(
        &self,
        target: TargetId,
    ) -> impl Iterator<Item = (&ServerId, &ServerBook)> {
        let dedicated = self.books.of(target, Sharing::Dedicated);
        dedicated.filter(|(_, it)| it.standby.is_some() && !it.is_stopping())
    }

    /// A client with a server of its own that waits for nothing.
    pub(super) fn idle_client(&self, target: TargetId) -> Option<Client> {
        let mut clients = self.books.clients.iter();
        let idle = clients.find(|(_, it)| {
            it.target == target && it.calls == 0 && !matches!(it.stage, Stage::Waiting(_))
        });
        idle.map(|(client, _)| *client)
    }

    pub(super) fn join(&mut self, n: u8) -> Result<(), Broken> {
        let silent = |it: &ClientBook| !it.spoken && !matches!(it.stage, Stage::Waiting(_));
        let clients = self.books.clients.iter().filter(|(_, it)| silent(it));
        let Some(client) = nth(clients.map(|(client, _)| client), n) else {
            return Ok(());
        };
        let book = self.books.clients[&client].clone();
        // Some clients begin with something else than a handshake.
        let opening = (client.0 % 5 > 0).then_some(book.opening);
        let share = self.limits_of(book.target).share;
        let standby = opening.as_ref().filter(|_| !share);
        let standby = standby.and_then(|it| self.books.standby_for(book.target, it));
        let before = self.started;
        let joined = self.gateway.join(client, opening.clone(), self.now);
        self.say(format!("{client:?} joins: {joined:?}"));
        self.carry_out(Doing::Join(client))?;
        let server = match (joined, book.stage) {
            (Err(NoServer::ShuttingDown), Stage::Admitted) if self.shutdowns > 0 => {
                self.books.clients.remove(&client);
                return Ok(());
            }
            (Err(NoServer::Removed), Stage::Admitted) if self.removed.contains(&book.target) => {
                self.seen.joins_removed += 1;
                self.books.clients.remove(&client);
                return Ok(());
            }
            (Err(why), _) => {
                return broken(
                    3,
                    format!("{client:?} was admitted and is refused: {why:?}"),
                );
            }
            (Ok(server), Stage::Joined(own)) if server == own => server,
            (Ok(server), Stage::Joined(own)) => {
                return broken(
                    5,
                    format!("{client:?} was given {own:?} and then {server:?}"),
                );
            }
            (Ok(server), _) => {
                self.may_be_handed(server)?;
                match standby {
                    Some(own) if own != server => {
                        return broken(5, format!("{own:?} is on standby in vain"));
                    }
                    Some(own) => {
                        self.seen.standby_taken_at_join += 1;
                        self.take_standby(own);
                    }
                    None if !share && self.started == before => {
                        return broken(
                            5,
                            format!("{client:?} is given {server:?}, which is another's"),
                        );
                    }
                    None => {}
                }
                server
            }
        };
        let users = self.books.users(server);
        let Some(it) = self.books.servers.get_mut(&server) else {
            // It has ended since the client was given it.
            return Ok(());
        };
        it.used = self.now;
        if it.sharing == Sharing::Shared && users > 0 {
            self.seen.shared_by_several += 1;
        }
        if it.sharing == Sharing::Dedicated {
            if self.started > before && opening.is_some() {
                it.session.change(|usage| usage.handshaking = true);
            }
            it.opening = opening;
        }
        let book = self.books.clients.get_mut(&client).expect("a client");
        book.stage = Stage::Joined(server);
        book.spoken = true;
        Ok(())
    }

    pub(super) fn may_be_handed(&self, server: ServerId) -> Result<(), Broken> {
        match self.books.servers.get(&server) {
            Some(it) if !it.is_stopping() => Ok(()),
            it => broken(2, format!("{server:?} is handed out: {it:?}")),
        }
    }

    pub(super) fn request(&mut self, target: TargetId) -> Result<(), Broken> {
        let serving = self
            .books
            .of(target, Sharing::Pooled)
            .filter(|(_, it)| it.is_serving() && it.lane.is_none());
        let loads: Vec<usize> = serving.map(|(_, it)| it.in_flight()).collect();
        let before = self.started;
        let chosen = self.gateway.request(target, self.now);
        self.say(format!("a request at {target:?}: {chosen:?}"));
        self.carry_out(Doing::Request(target))?;
        let server = match chosen {
            Err(NoServer::ShuttingDown) if self.shutdowns > 0 => return Ok(()),
            Err(NoServer::Removed) if self.removed.contains(&target) => {
                self.seen.requests_removed += 1;
                return Ok(());
            }
            Err(why) => return broken(10, format!("a request is refused: {why:?}")),
            Ok(server) => server,
        };
        if self.removed.contains(&target) {
            return broken(11, format!("{server:?} of {target:?} is handed out"));
        }
        self.may_be_handed(server)?;
        let fresh = self.started > before;
        let it = &self.books.servers[&server];
        if it.target != target || it.sharing != Sharing::Pooled || it.lane.is_some() {
            return broken(10, format!("a request at {target:?} is handed to {it:?}"));
        }
        let least = loads.iter().copied().min();
        let grows = least != Some(0) && loads.len() < self.limits_of(target).pool;
        if fresh != grows || (!fresh && least != Some(it.in_flight())) {
            let how = format!(
                "{server:?} has {} in flight, the others {loads:?}, fresh {fresh}",
                it.in_flight()
            );
            return broken(10, how);
        }
        self.seen.pool_grown += usize::from(fresh && !loads.is_empty());
        self.seen.pool_busy += usize::from(!fresh && least > Some(0));
        self.hand(server);
        Ok(())
    }

    /// A request that has come through other gateways has a server for its way, and no other.
    fn request_along(&mut self, target: TargetId, lane: Lane) -> Result<(), Broken> {
        let is_own = |it: &ServerBook| it.is_serving() && it.lane == Some(lane);
        let pooled = self.books.of(target, Sharing::Pooled);
        let own = pooled
            .filter(|(_, it)| is_own(it))
            .map(|(id, _)| *id)
            .next();
        let chosen = self.gateway.request_along(target, lane, self.now);
        self.say(format!(
            "a request at {target:?} along {lane:?}: {chosen:?}"
        ));
        self.carry_out(Doing::RequestAlong(target, lane))?;
        let server = match chosen {
            Err(NoServer::ShuttingDown) if self.shutdowns > 0 => return Ok(()),
            Err(NoServer::Removed) if self.removed.contains(&target) => return Ok(()),
            Err(why) => return broken(10, format!("a request is refused: {why:?}")),
            Ok(server) => server,
        };
        self.may_be_handed(server)?;
        let it = &self.books.servers[&server];
        if (it.target, it.lane) != (target, Some(lane)) || own.is_some_and(|own| own != server) {
            return broken(
                10,
                format!("a request along {lane:?} is handed to {it:?}, not {own:?}"),
            );
        }
        self.seen.lanes += usize::from(own.is_none());
        self.seen.lanes_shared += usize::from(own.is_some());
        self.hand(server);
        Ok(())
    }

    /// A request is with a server.
    pub(super) fn hand(&mut self, server: ServerId) {
        let now = self.now;
        if let Some(it) = self.books.servers.get_mut(&server) {
            it.used = now;
            it.session.change(|usage| {
                usage.in_flight += 1;
                usage.last = now;
            });
        }
    }

    pub(super) fn call(&mut self, n: u8) {
        let spoken = self.books.clients.iter().filter(|(_, it)| it.spoken);
        let Some(client) = nth(spoken.map(|(client, _)| client), n) else {
            return;
        };
        let book = self.books.clients.get_mut(&client).expect("a client");
        if let Stage::Joined(server) = book.stage
            && self.books.servers.contains_key(&server)
        {
            book.calls += 1;
            self.hand(server);
        }
    }

    pub(super) fn answer(&mut self, n: u8) {
        let busy = self
            .books
            .servers
            .iter()
            .filter(|(_, it)| it.in_flight() > 0);
        let Some(server) = nth(busy.map(|(id, _)| id), n) else {
            return;
        };
        let (now, it) = (
            self.now,
            self.books.servers.get_mut(&server).expect("a server"),
        );
        it.used = now;
        it.session.change(|usage| {
            usage.in_flight -= 1;
            usage.last = now;
        });
        let mut clients = self.books.clients.values_mut();
        if let Some(client) = clients.find(|it| it.stage == Stage::Joined(server) && it.calls > 0) {
            client.calls -= 1;
        }
        self.say(format!("{server:?} answers"));
    }
}

fn limits(dice: &mut Dice) -> TargetLimits {
    let idle = [None, Some(0), Some(500), Some(5000), Some(90_000)];
    TargetLimits {
        share: dice.below(3) == 0,
        servers: 1 + dice.below(3) as usize,
        wait: Duration::from_secs(5),
        pool: 1 + dice.below(3) as usize,
        idle_stop: idle[dice.below(5) as usize].map(Duration::from_millis),
    }
}

/// The n-th of what is there, or the last.
pub(super) fn nth<'a, T: Copy + 'a>(those: impl Iterator<Item = &'a T>, n: u8) -> Option<T> {
    let mut last = None;
    for (at, it) in those.enumerate() {
        last = Some(*it);
        if at == usize::from(n) {
            break;
        }
    }
    last
}
