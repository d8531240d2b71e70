//! What the replica that has a session does: it hears requests, its server answers, and what a successor must know is
//! written. And how that ends.

use outlive_core::Message;
use outlive_core::replay_buffer::Beginning;
use outlive_core::server::Channel;
use outlive_core::tenure::{Fence, Owner};

use crate::replica::{Handler, Live, Reading, Replica, Wish};
use crate::schedule::Kind;
use crate::store::Ask;
use crate::world::{Broken, Call, Place, Response, World, broken, pick};

impl World {
    /// A request is handed to the session that is here.
    pub fn hear(&mut self, replica: usize, id: u64, leg: Option<u64>) -> Result<(), Broken> {
        let (message, session) = (self.message(id), self.requests[&id].session);
        let (at, acts) = (self.at(replica), self.may_act(replica));
        let channel = Channel(self.fresh());
        let live = self.replicas[replica].lives.get_mut(&session);
        let Some(live) = live.filter(|live| acts && !live.leaving) else {
            match leg {
                Some(leg) => self.reply(leg, Response::Elsewhere),
                None => self.refuse(id, false),
            }
            return Ok(());
        };
        let lease = live.buffer.open(channel);
        let reading = live.reads(lease);
        let mut wishes = Vec::new();
        live.hear(channel, message, &mut wishes);
        self.replicas[replica].handlers.push(Handler {
            request: id,
            session,
            reading,
            noted: None,
            leg,
        });
        if leg.is_none() {
            self.request(id).place = Place::Waiting(at);
        }
        self.carry_out(replica, session, wishes)
    }

    /// The handlers that have promised nothing.
    pub fn unpromised(&self) -> Vec<(usize, usize)> {
        let replicas = self.replicas.iter().enumerate();
        let handlers = replicas.flat_map(|(replica, it)| {
            let handlers = it.handlers.iter().enumerate();
            handlers.map(move |(at, it)| (replica, at, it.noted))
        });
        let unpromised = handlers.filter(|it| it.2.is_none());
        unpromised.map(|(replica, at, _)| (replica, at)).collect()
    }

    pub fn promise(&mut self, replica: usize, at: usize) {
        let here = &self.replicas[replica];
        let Handler {
            request,
            session,
            reading,
            ..
        } = here.handlers[at];
        if here.paused {
            return;
        }
        let message = self.message(request);
        let here = &mut self.replicas[replica];
        if let Some(live) = here.lives.get_mut(&session) {
            here.handlers[at].noted = Some(live.promise(reading, message));
        }
    }

    /// The server of the n-th session in service answers, or says something.
    pub fn answer(&mut self, n: u8, answers: bool) {
        let busy = |live: &Live| !live.server.is_empty();
        let mut all = Vec::new();
        for (at, replica) in self.replicas.iter().enumerate().filter(|it| !it.1.paused) {
            let lives = replica.lives.iter().filter(|(_, live)| busy(live));
            all.extend(lives.map(|(session, _)| (at, *session)));
        }
        let Some((at, session)) = pick(&all, n) else {
            return;
        };
        let live = self.replicas[at].lives.get_mut(&session);
        let live = live.expect("a session");
        if answers {
            let (channel, request) = live.server.remove(0);
            live.buffer
                .send(channel, Message::response(request.id_json(), b"{}"));
            live.buffer.done(channel);
        } else {
            let channel = live.server[0].0;
            let progress = Message::notification("notifications/progress", b"{}");
            live.buffer.send(channel, progress);
        }
        live.buffer.flush();
    }

    fn carry_out(&mut self, replica: usize, session: u32, wishes: Vec<Wish>) -> Result<(), Broken> {
        let live = self.replicas[replica].lives.get(&session);
        let Some(tenure) = live.map(|live| live.tenure) else {
            return Ok(());
        };
        for Wish::Execute(message) in wishes {
            if !self.may_act(replica) || tenure.owner != self.replicas[replica].owner {
                return broken(1, format!("session {session}: executed without a lease"));
            }
            self.act(session, tenure.fence)?;
            let id = String::from_utf8_lossy(message.id_json())
                .parse()
                .expect("a number");
            let request = self.requests.get_mut(&id).expect("a request");
            request.executed += 1;
            self.seen.repeated += u64::from(request.executed > 1);
            let most = match request.kind {
                Kind::Unsafe => 1,
                Kind::Safe => 2,
                // By whoever forwards it, and by the successors of those who got it.
                Kind::Read => 4,
            };
            // A store that forgets may forget how often something was tried.
            let counts = request.kind == Kind::Unsafe || !self.is_forgetful;
            if request.executed > most && counts {
                let times = request.executed;
                return broken(3, format!("request {id} was executed {times} times"));
            }
            // One that only reads may have been sent twice, and refused the second time, as by a clock that was set.
            if request.refused && request.kind != Kind::Read {
                return broken(3, format!("request {id} was refused, and executed"));
            }
            if request.session != session || request.trespasses {
                return broken(6, format!("request {id} was executed in another session"));
            }
        }
        Ok(())
    }

    /// Somebody acts for a session under this fence.
    pub fn act(&mut self, session: u32, fence: Fence) -> Result<(), Broken> {
        let acted = self.acted.entry(session).or_default();
        if fence < *acted && !self.is_forgetful {
            let how = format!("session {session}: owner {fence:?} acts after {acted:?}");
            return broken(1, how);
        }
        *acted = fence.max(*acted);
        Ok(())
    }

    /// All sessions that are here go on.
    pub fn serve(&mut self, replica: usize) -> Result<(), Broken> {
        let all: Vec<u32> = self.replicas[replica].lives.keys().copied().collect();
        for session in all {
            let mut wishes = Vec::new();
            if let Some(live) = self.replicas[replica].lives.get_mut(&session) {
                live.revive(&mut wishes);
            }
            self.carry_out(replica, session, wishes)?;
            self.begin_responses(replica, session)?;
            self.write(replica, session);
        }
        Ok(())
    }

    /// Gives exchanges their heads, or their answers.
    fn begin_responses(&mut self, replica: usize, session: u32) -> Result<(), Broken> {
        let mut at = 0;
        while at < self.replicas[replica].handlers.len() {
            let here = &mut self.replicas[replica];
            let Handler {
                request,
                session: of,
                reading,
                noted,
                leg,
            } = here.handlers[at];
            let live = here.lives.get_mut(&session).filter(|_| of == session);
            let Some(live) = live else {
                at += 1;
                continue;
            };
            let fence = live.tenure.fence;
            match noted {
                Some(noted) if live.written >= noted => {
                    // Its client is told where to come back to.
                    live.buffer.prime(reading.lease);
                    here.handlers.remove(at);
                    self.act(session, fence)?;
                    self.begin_stream(replica, request, reading, leg);
                    continue;
                }
                Some(_) => {}
                None => match live.buffer.beginning(reading.lease) {
                    Some(Beginning::Answer(_)) => {
                        live.buffer.detach(reading.lease);
                        here.handlers.remove(at);
                        self.seen.plain += 1;
                        self.act(session, fence)?;
                        self.answer_plainly(request, leg);
                        continue;
                    }
                    Some(_) => self.promise(replica, at),
                    None => {}
                },
            }
            at += 1;
        }
        Ok(())
    }

    fn begin_stream(&mut self, replica: usize, id: u64, reading: Reading, leg: Option<u64>) {
        let at = self.at(replica);
        match leg {
            Some(leg) => self.reply(leg, Response::Stream(at, reading)),
            None => {
                let request = self.request(id);
                request.promised = true;
                request.channel = reading.lease.channel;
                request.place = Place::Streaming(at, reading, None);
            }
        }
    }

    fn answer_plainly(&mut self, id: u64, leg: Option<u64>) {
        match leg {
            Some(leg) => self.reply(leg, Response::Plain),
            None => {
                let request = self.request(id);
                request.answers += 1;
                request.place = Place::Over;
            }
        }
    }

    /// Writes what there is to be written, unless something is on its way.
    fn write(&mut self, replica: usize, session: u32) {
        let run = self.replicas[replica].run;
        let Some(live) = self.replicas[replica].lives.get_mut(&session) else {
            return;
        };
        let tenure = live.tenure;
        let is_it = |it: &Call| {
            let same = matches!(it.ask, Ask::Write(id, of, ..) if id == session && of == tenure);
            it.replica == replica && it.run == run && !it.given_up && same
        };
        if self.calls.iter().any(is_it) {
            return;
        }
        if let Some((number, writes)) = live.next_write() {
            self.ask(replica, Ask::Write(session, tenure, number, writes));
        }
    }

    // ---- the end of it

    /// A replica does not answer for a session any more. What was handed on is settled; streams end.
    pub fn drop_session(&mut self, replica: usize, session: u32) {
        let at = self.at(replica);
        let handlers = &mut self.replicas[replica].handlers;
        let gone: Vec<Handler> = handlers
            .extract_if(.., |it| it.session == session)
            .collect();
        for handler in gone {
            self.answer_plainly(handler.request, handler.leg);
        }
        let reads = |place: &Place| place.is_read_from(at);
        for id in self.where_it(|it| it.session == session && reads(&it.place)) {
            self.disconnect(id);
        }
        // The heads of streams that are on their way: nothing follows them.
        self.replicas[replica].lives.remove(&session);
    }

    /// Its lease is over: it is somebody else from now on.
    pub fn stand_down(&mut self, replica: usize) {
        let all: Vec<u32> = self.replicas[replica].lives.keys().copied().collect();
        for session in all {
            self.drop_session(replica, session);
        }
        for (_, leg) in std::mem::take(&mut self.replicas[replica].arrivals) {
            self.reply(leg, Response::Refused);
        }
        self.rename(replica);
    }

    fn rename(&mut self, replica: usize) {
        let owner = Owner(self.fresh());
        self.homes.insert(owner, replica);
        let here = &mut self.replicas[replica];
        here.owner = owner;
        here.lease = outlive_core::tenure::Lease::new(self.policy);
    }

    /// A replica ends, whatever it was doing, and is started again.
    pub fn kill(&mut self, replica: usize) {
        let at = self.at(replica);
        let is_here = |place: &Place| place.replica() == Some(at);
        for id in self.where_it(|it| is_here(&it.place)) {
            self.disconnect(id);
        }
        for leg in self.legs_where(|it| it.from == at) {
            // Its client was connected to a replica that is no more.
            self.break_leg(leg, false);
        }
        for leg in self.legs_where(|it| it.to == replica) {
            if let Some(leg) = self.legs.get_mut(&leg) {
                leg.travels = false;
            }
            self.replicas[replica].arrivals.clear();
            self.break_leg(leg, false);
            self.legs.remove(&leg);
        }
        let here = &self.replicas[replica];
        let (rate, wall, run) = (here.rate, here.wall, here.run + 1);
        let (partitioned, isolated) = (here.partitioned, here.isolated);
        self.replicas[replica] = Replica {
            wall,
            run,
            partitioned,
            isolated,
            ..Replica::new(0, rate, self.policy)
        };
        self.rename(replica);
    }

    /// A replica that was told to end leaves its sessions to others, and ends when it has none.
    pub fn hand_over(&mut self, replica: usize) {
        let hurries = self.replicas[replica].leaving == Some(true);
        let all: Vec<u32> = self.replicas[replica].lives.keys().copied().collect();
        for session in all {
            let at = self.at(replica);
            let reads = |place: &Place| place.is_read_from(at);
            let is_read = self.where_it(|it| it.session == session && reads(&it.place));
            let is_busy = self.replicas[replica].is_busy(session) || !is_read.is_empty();
            let live = self.replicas[replica].lives.get_mut(&session);
            let live = live.expect("a session");
            live.leaving |= hurries || !is_busy;
            if live.leaving && (hurries || live.is_settled()) {
                let tenure = live.tenure;
                self.seen.handed_over += 1;
                self.ask(replica, Ask::Release(session, tenure));
                self.drop_session(replica, session);
            }
        }
        let here = &self.replicas[replica];
        let is_done = here.lives.is_empty() && here.arrivals.is_empty();
        if is_done && (hurries || here.exchanges.is_empty()) {
            let owner = here.owner;
            self.ask(replica, Ask::Leave(owner));
            self.kill(replica);
        }
    }
}
