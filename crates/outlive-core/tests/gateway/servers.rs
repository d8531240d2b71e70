//! What happens to servers, what the gateway orders, and time.

use outlive_core::cause::{Phase, Reason};
use outlive_core::gateway::{LEGACY_MEMORY, Order, STANDBY, ServerId, TargetId, Urgency};
use outlive_core::switch::Sharing;
use outlive_core::{Cause, Event, Generation, State, Time};

use super::books::{Broken, ServerBook, Session, Stage, broken};
use super::checks::SHORTEST_IDLE;
use super::world::{Doing, World, nth};

impl World {
    pub(super) fn shake(&mut self, n: u8) {
        let shaking = self
            .books
            .servers
            .iter()
            .filter(|(_, it)| it.session.0.get().handshaking);
        if let Some(server) = nth(shaking.map(|(id, _)| id), n) {
            self.say(format!("{server:?} has shaken hands"));
            let it = self.books.servers.get_mut(&server).expect("a server");
            it.session.change(|usage| usage.handshaking = false);
            it.shaken = self.now;
        }
    }

    pub(super) fn alive(&self, n: u8) -> Option<ServerId> {
        let open = self.books.servers.iter().filter(|(_, it)| !it.closed);
        nth(open.map(|(id, _)| id), n)
    }

    pub(super) fn ready(&mut self, n: u8) -> Result<(), Broken> {
        let Some(server) = self.alive(n) else {
            return Ok(());
        };
        self.say(format!("{server:?} is ready"));
        let it = self.books.servers.get_mut(&server).expect("a server");
        it.trouble = false;
        self.books.given_up.remove(&it.target);
        let generation = Generation::FIRST;
        self.observe(server, &Event::State(State::Ready { generation }))
    }

    pub(super) fn down(&mut self, n: u8) -> Result<(), Broken> {
        let Some(server) = self.alive(n) else {
            return Ok(());
        };
        let it = self.books.servers.get_mut(&server).expect("a server");
        it.trouble = true;
        if n == 3 {
            // Nobody at its address has an answer to a handshake; its link lives.
            self.say(format!("{server:?} cannot be shaken hands with"));
            self.seen.handshakes_failed += 1;
            return self.observe(server, &Event::HandshakeFailed { cause: cause() });
        }
        self.say(format!("{server:?} is lost"));
        let generation = Generation::FIRST;
        let lost = Event::Lost {
            generation,
            cause: cause(),
            in_flight: 0,
        };
        self.observe(server, &lost)?;
        let retry_at = self.now;
        let state = match n % 2 {
            0 => State::Down {
                cause: cause(),
                retry_at,
            },
            _ => State::Failed {
                cause: cause(),
                retry_at,
            },
        };
        self.observe(server, &Event::State(state))
    }

    pub(super) fn close(&mut self, n: u8) -> Result<(), Broken> {
        let Some(server) = self.alive(n) else {
            return Ok(());
        };
        self.say(format!("the session with {server:?} is over"));
        let it = self.books.servers.get_mut(&server).expect("a server");
        self.seen.closed_by_itself += usize::from(!it.is_stopping());
        let stopping = it.is_stopping();
        it.closed = true;
        self.note_given_up(server);
        if stopping {
            // Its session says first that it has let it go.
            let down = State::Down {
                cause: Cause::new(Reason::Closing, Phase::Service, "server"),
                retry_at: self.now,
            };
            self.observe(server, &Event::State(down))?;
        }
        self.observe(server, &Event::State(State::Closed))
    }

    pub(super) fn observe(&mut self, server: ServerId, event: &Event) -> Result<(), Broken> {
        self.gateway.observe(server, event, self.now);
        self.carry_out(Doing::Other)
    }

    /// A server is not waited for any more.
    pub(super) fn note_given_up(&mut self, server: ServerId) {
        let it = &self.books.servers[&server];
        if it.trouble && it.lane.is_none() && !self.removed.contains(&it.target) {
            self.books.given_up.insert(it.target, self.now);
        }
    }

    pub(super) fn turn_legacy(&mut self, n: u8) {
        let pooled = |it: &ServerBook| it.sharing == Sharing::Pooled && it.in_flight() > 0;
        let busy = self.books.servers.iter().filter(|(_, it)| pooled(it));
        if let Some(server) = nth(busy.map(|(id, _)| id), n) {
            self.say(format!("{server:?} speaks legacy revisions only"));
            let it = &self.books.servers[&server];
            it.session.change(|usage| usage.legacy_only = true);
        }
    }

    pub(super) fn end_server(&mut self, server: ServerId) -> Result<(), Broken> {
        self.say(format!("{server:?} has ended"));
        self.note_given_up(server);
        self.books.servers.remove(&server);
        for client in self.books.clients.values_mut() {
            if client.stage == Stage::Joined(server) {
                client.calls = 0;
            }
        }
        self.gateway.ended(server, self.now);
        self.carry_out(Doing::Other)
    }

    pub(super) fn shutdown(&mut self) -> Result<(), Broken> {
        self.say("shutdown");
        self.seen.shutdowns += 1;
        self.shutdowns += 1;
        self.gateway.shutdown(self.now);
        self.carry_out(Doing::Shutdown)?;
        let urgency = match self.shutdowns {
            1 => Urgency::Graceful,
            _ => Urgency::Immediate,
        };
        let unaware = |it: &&ServerBook| it.stop < Some(urgency) && !it.closed;
        match self.books.servers.values().find(unaware) {
            Some(it) => broken(7, format!("{it:?} was not told to stop")),
            None => Ok(()),
        }
    }

    pub(super) fn wait_until(&mut self, to: Time) -> Result<(), Broken> {
        while let Some(at) = self.gateway.deadline().filter(|at| *at <= to) {
            if at < self.now {
                return broken(4, "a deadline in the past");
            }
            self.now = at;
            self.gateway.tick(at);
            self.carry_out(Doing::Tick)?;
            if self.gateway.deadline() == Some(at) {
                return broken(4, "a deadline that stays");
            }
        }
        self.now = self.now.max(to);
        Ok(())
    }

    pub(super) fn carry_out(&mut self, doing: Doing) -> Result<(), Broken> {
        while let Some(order) = self.gateway.poll() {
            self.say(format!("  {order:?}"));
            if self.over {
                return broken(7, format!("{order:?} after the end"));
            }
            match order {
                Order::Start(server, target, sharing) => {
                    self.start(server, target, sharing, doing)?
                }
                Order::Stop(server, urgency) => self.stop(server, urgency, doing)?,
                Order::Restart(server) => {
                    self.seen.restarted += 1;
                    let known = self.books.servers.get(&server);
                    if doing != Doing::Restart || known.is_none_or(ServerBook::is_stopping) {
                        return broken(2, format!("{server:?} is restarted"));
                    }
                }
                Order::Over => {
                    self.seen.over += 1;
                    self.over = true;
                    if self.shutdowns == 0 || !self.books.servers.is_empty() {
                        return broken(7, "it is over too soon");
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn start(
        &mut self,
        server: ServerId,
        target: TargetId,
        sharing: Sharing,
        doing: Doing,
    ) -> Result<(), Broken> {
        if self.removed.contains(&target) {
            return broken(
                11,
                format!("{server:?} is started, and {target:?} was removed"),
            );
        }
        if self.shutdowns > 0 {
            return broken(7, format!("{server:?} is started after the end"));
        }
        self.started += 1;
        if server != ServerId(self.started) {
            return broken(9, format!("{server:?} is the {}-th", self.started));
        }
        let needed = match doing {
            Doing::Request(at) | Doing::RequestAlong(at, _) => (at, Sharing::Pooled),
            Doing::Join(client) => {
                let at = self.books.clients[&client].target;
                let share = self.limits_of(at).share;
                (
                    at,
                    if share {
                        Sharing::Shared
                    } else {
                        Sharing::Dedicated
                    },
                )
            }
            _ => return broken(9, format!("{server:?} is started for nobody: {doing:?}")),
        };
        if needed != (target, sharing) {
            return broken(
                9,
                format!("{needed:?} is needed, {target:?} {sharing:?} started"),
            );
        }
        let session = Session::default();
        session.change(|usage| usage.last = self.now);
        self.gateway.attach(server, session.clone());
        let book = ServerBook {
            target,
            sharing,
            lane: match doing {
                Doing::RequestAlong(_, lane) => Some(lane),
                _ => None,
            },
            session,
            stop: None,
            closed: false,
            opening: None,
            standby: None,
            shaken: self.now,
            trouble: false,
            used: self.now,
        };
        self.books.servers.insert(server, book);
        Ok(())
    }

    pub(super) fn stop(
        &mut self,
        server: ServerId,
        urgency: Urgency,
        doing: Doing,
    ) -> Result<(), Broken> {
        let Some(it) = self.books.servers.get(&server).cloned() else {
            return broken(8, format!("{server:?} is stopped and has ended"));
        };
        if it.stop >= Some(urgency) {
            return broken(7, format!("{server:?} is told again to stop"));
        }
        let idle = self.now - it.used;
        let limits = self.limits_of(it.target);
        let fits = match doing {
            Doing::Shutdown => true,
            Doing::StopTarget(target) => it.target == target,
            Doing::RemoveTarget(target) if it.target != target => {
                return broken(
                    12,
                    format!("{server:?} is stopped, and {target:?} was removed"),
                );
            }
            Doing::RemoveTarget(_) => urgency == Urgency::Graceful,
            _ if self.books.is_in_use(server) => false,
            Doing::Leave => it.sharing == Sharing::Dedicated && it.standby.is_none(),
            Doing::Ask => {
                let longest = self
                    .standby(it.target)
                    .filter_map(|(_, it)| it.standby)
                    .min();
                self.seen.standby_retired += 1;
                it.standby.is_some() && it.standby == longest
            }
            Doing::Tick => match it.standby {
                Some(since) => {
                    self.seen.standby_expired += 1;
                    self.now - since >= STANDBY && !it.session.0.get().handshaking
                }
                None => {
                    let spent = limits
                        .idle_stop
                        .is_some_and(|after| idle >= after.max(SHORTEST_IDLE));
                    let is_brief = it.session.0.get().legacy_only || it.lane.is_some();
                    let legacy = is_brief && idle >= LEGACY_MEMORY;
                    self.seen.lanes_stopped += usize::from(it.lane.is_some());
                    self.seen.idle_stops += usize::from(spent);
                    self.seen.legacy_stops += usize::from(legacy && !spent);
                    it.sharing != Sharing::Dedicated && (spent || legacy)
                }
            },
            _ => false,
        };
        if !fits {
            return broken(4, format!("{server:?} is stopped, {doing:?}: {it:?}"));
        }
        self.note_given_up(server);
        self.books.servers.get_mut(&server).expect("a server").stop = Some(urgency);
        Ok(())
    }
}

fn cause() -> Cause {
    Cause::new(Reason::Eof, Phase::Service, "server")
}
