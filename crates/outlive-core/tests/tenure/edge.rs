//! Requests that reach a replica which does not have their session, and the connections on which they are forwarded.

use outlive_core::tenure::{FRESH, ForwardOrder, Found, NotForwarded, Owner, Sent};

use crate::replica::Reading;
use crate::schedule::Kind;
use crate::world::{At, Broken, Leg, Place, Response, World, broken, pick};

/// How many of those that have arrived somebody remembers.
const CAPTURED: usize = 8;

impl World {
    /// Does what the rules say about the requests whose sessions are not here.
    pub fn look_elsewhere(&mut self, replica: usize) -> Result<(), Broken> {
        let all: Vec<u64> = self.replicas[replica].exchanges.keys().copied().collect();
        for id in all {
            let now = self.local(replica);
            while let Some(exchange) = self.replicas[replica].exchanges.get_mut(&id)
                && let Some(order) = exchange.forward.poll(now)
            {
                self.obey(replica, id, order)?;
            }
        }
        Ok(())
    }

    fn obey(&mut self, replica: usize, id: u64, order: ForwardOrder) -> Result<(), Broken> {
        match order {
            ForwardOrder::Claim => self.look(replica, id),
            ForwardOrder::Send(owner) => return self.forward_to(replica, id, owner),
            ForwardOrder::Serve => {
                let exchange = self.end_exchange(replica, id);
                self.seen.served_after_waiting += u64::from(exchange.is_some_and(|it| it.1));
                let request = &self.requests[&id];
                if request.trespasses {
                    return broken(6, format!("request {id} of a stranger is served"));
                }
                return match exchange {
                    Some((true, _)) => self.resume_here(id, replica),
                    _ => self.hear(replica, id, None),
                };
            }
            ForwardOrder::Settle => {
                let resumes = self.end_exchange(replica, id).is_some_and(|it| it.0);
                self.seen.settled_at_the_edge += 1;
                let request = self.request(id);
                match resumes {
                    true => request.place = Place::Cut,
                    false => {
                        request.answers += 1;
                        request.place = Place::Over;
                    }
                }
            }
            ForwardOrder::Refuse(why) => {
                let resumes = self.end_exchange(replica, id).is_some_and(|it| it.0);
                let is_lost = why == NotForwarded::Absent && !self.requests[&id].trespasses;
                if is_lost && !self.is_forgetful {
                    let session = self.requests[&id].session;
                    return broken(4, format!("session {session} is not there any more"));
                }
                self.refuse(id, resumes);
            }
        }
        Ok(())
    }

    /// A client is told that nothing was done.
    pub fn refuse(&mut self, id: u64, resumes: bool) {
        self.seen.refused += 1;
        let request = self.request(id);
        request.place = match resumes && !request.trespasses {
            true => Place::Cut,
            false => Place::Over,
        };
        request.refused |= !resumes;
    }

    /// A request is answered. Whether it was a client that came back, and whether an owner was asked before.
    fn end_exchange(&mut self, replica: usize, id: u64) -> Option<(bool, bool)> {
        let exchange = self.replicas[replica].exchanges.remove(&id)?;
        if let Some(leg) = exchange.leg {
            self.close_leg(leg);
        }
        Some((exchange.resumes, exchange.leg.is_some()))
    }

    /// Asks for the session of a request, unless it is here by now.
    fn look(&mut self, replica: usize, id: u64) {
        let (session, trespasses) = (self.requests[&id].session, self.requests[&id].trespasses);
        let principal = self.requests[&id].principal;
        let here = &self.replicas[replica];
        let found = match here.lives.contains_key(&session) {
            true if trespasses => Some(Found::Absent),
            true => Some(Found::Granted),
            false if here.leaving.is_some() || !self.may_act(replica) => Some(Found::Failed),
            false => None,
        };
        let now = self.local(replica);
        let Some(exchange) = self.replicas[replica].exchanges.get_mut(&id) else {
            return;
        };
        match found {
            Some(found) => exchange.forward.found(now, found),
            None => {
                exchange.claims = true;
                self.claim(session, principal, replica);
            }
        }
    }

    /// The store has said something about a session that requests wait for.
    pub fn found(&mut self, replica: usize, session: u32, principal: &str, found: Found) {
        let now = self.local(replica);
        let requests = &self.requests;
        for (id, exchange) in &mut self.replicas[replica].exchanges {
            let request = &requests[id];
            if exchange.claims && (request.session, request.principal) == (session, principal) {
                exchange.claims = false;
                exchange.forward.found(now, found);
            }
        }
    }

    fn forward_to(&mut self, replica: usize, id: u64, owner: Owner) -> Result<(), Broken> {
        let (from, made) = (self.at(replica), self.wall(replica));
        let request = &self.requests[&id];
        if request.trespasses {
            return broken(6, format!("request {id} of a stranger is forwarded"));
        }
        let (session, principal, kind) = (request.session, request.principal, request.kind);
        let (channel, last) = (request.channel, request.last);
        let number = self.fresh();
        let here = &mut self.replicas[replica];
        here.forwarded += 1;
        let Some(exchange) = here.exchanges.get_mut(&id) else {
            return Ok(());
        };
        exchange.leg = Some(number);
        exchange.sends += 1;
        let again = exchange.sends > 1;
        let leg = Leg {
            request: id,
            session,
            principal,
            resumes: exchange.resumes.then_some((channel, last)),
            from,
            to: self.homes[&owner],
            owner,
            sender: (from.replica as u64) << 32 | u64::from(from.run),
            number: here.forwarded,
            made,
            travels: true,
            is_broken: false,
            response: None,
        };
        self.seen.forwarded += 1;
        let executed = again && self.requests[&id].executed > 0 && leg.resumes.is_none();
        self.seen.sent_again += u64::from(executed);
        if executed && kind != Kind::Read {
            return broken(3, format!("request {id} is forwarded although it was done"));
        }
        self.legs.insert(number, leg);
        Ok(())
    }

    /// Whether two replicas reach each other on a connection.
    pub fn carries(&self, leg: u64) -> bool {
        let Some(leg) = self.legs.get(&leg) else {
            return false;
        };
        let (from, to) = (&self.replicas[leg.from.replica], &self.replicas[leg.to]);
        !from.isolated && !to.isolated && !from.paused && !leg.is_broken
    }

    /// A request that was forwarded arrives, if it can.
    pub fn arrive(&mut self, id: u64) -> Result<(), Broken> {
        let Some(leg) = self.legs.get_mut(&id) else {
            return Ok(());
        };
        let (from, to) = (&self.replicas[leg.from.replica], &self.replicas[leg.to]);
        // What has left may arrive although the connection is broken by now, or whoever sent it stands still.
        if to.paused || from.isolated || to.isolated {
            return Ok(());
        }
        leg.travels = false;
        let leg = leg.clone();
        if self.captured.len() >= CAPTURED {
            self.captured.remove(0);
        }
        self.captured.push(leg.clone());
        self.admit(id, &leg)
    }

    /// Somebody sends once more what has arrived.
    pub fn replay(&mut self, n: u8) -> Result<(), Broken> {
        let all: Vec<usize> = (0..self.captured.len()).collect();
        let Some(at) = pick(&all, n) else {
            return Ok(());
        };
        let mut leg = self.captured[at].clone();
        if self.replicas[leg.to].paused {
            return Ok(());
        }
        leg.is_broken = true;
        let id = self.fresh();
        self.legs.insert(id, leg.clone());
        self.seen.replayed += 1;
        self.admit(id, &leg)
    }

    /// The replica that gets a forwarded request decides what becomes of it.
    fn admit(&mut self, id: u64, leg: &Leg) -> Result<(), Broken> {
        let (to, now) = (leg.to, self.wall(leg.to));
        let since = self.local(to);
        // Also one that is stale counts as heard: it may look fresh when the clock is set.
        let nonces = &mut self.replicas[to].nonces;
        let is_new = nonces.admit(leg.sender, leg.number, leg.made, since);
        let is_stale = now.abs_diff(leg.made) > FRESH;
        self.seen.stale += u64::from(is_stale);
        if !is_new || is_stale {
            self.reply(id, Response::Refused);
            return Ok(());
        }
        if leg.owner != self.replicas[to].owner || !self.may_act(to) {
            self.reply(id, Response::Elsewhere);
            return Ok(());
        }
        let leaving = self.replicas[to].leaving.is_some();
        match self.replicas[to].lives.get(&leg.session) {
            Some(live) if live.leaving && leg.resumes.is_none() => {
                self.reply(id, Response::Elsewhere);
            }
            Some(_) => return self.take_in(to, id),
            None if leaving => self.reply(id, Response::Elsewhere),
            None => {
                self.replicas[to].arrivals.push((leg.session, id));
                self.claim(leg.session, leg.principal, to);
            }
        }
        Ok(())
    }

    /// The session of a forwarded request is here.
    pub fn take_in(&mut self, replica: usize, id: u64) -> Result<(), Broken> {
        let Some(leg) = self.legs.get(&id) else {
            return Ok(());
        };
        let (request, session, resumes) = (leg.request, leg.session, leg.resumes);
        let whose = self.sessions.iter().find(|it| it.0 == session);
        if whose.is_some_and(|it| it.1 != leg.principal) {
            self.reply(id, Response::Absent);
            return Ok(());
        }
        let Some((channel, last)) = resumes else {
            return self.hear(replica, request, Some(id));
        };
        let at = self.at(replica);
        let live = self.replicas[replica].lives.get_mut(&session);
        let reading = live.map(|live| {
            let resumed = live.buffer.resume(channel, last);
            resumed.map(|lease| live.reads(lease))
        });
        self.reply(
            id,
            match reading {
                Some(Ok(reading)) => Response::Stream(at, reading),
                Some(Err(_)) => Response::NotKept,
                None => Response::Elsewhere,
            },
        );
        Ok(())
    }

    /// A response begins, and is lost at once if the connection is.
    pub fn reply(&mut self, id: u64, response: Response) {
        let Some(leg) = self.legs.get_mut(&id) else {
            return;
        };
        if !leg.is_broken {
            leg.response = Some(response);
            return;
        }
        let session = leg.session;
        if let Response::Stream(at, reading) = response {
            self.detach(at, session, reading);
        }
        self.legs.remove(&id);
    }

    /// The replica that has forwarded a request gets the response, if it can.
    pub fn respond(&mut self, id: u64) -> Result<(), Broken> {
        if !self.carries(id) {
            return Ok(());
        }
        let Some(leg) = self.legs.get_mut(&id) else {
            return Ok(());
        };
        let Some(response) = leg.response.take() else {
            return Ok(());
        };
        let (request, session, at) = (leg.request, leg.session, leg.from);
        let (owner, principal) = (leg.owner, leg.principal);
        let now = self.local(at.replica);
        let exchange = self.replicas[at.replica].exchanges.get_mut(&request);
        let Some(exchange) = exchange.filter(|it| it.leg == Some(id)) else {
            self.reply_to_nobody(id, response);
            return Ok(());
        };
        let resumes = exchange.resumes;
        if let Response::Elsewhere = response {
            self.seen.misdirected += 1;
            exchange.leg = None;
            exchange.forward.sent(now, Sent::Elsewhere);
            self.forget(at.replica, session, principal, owner);
            self.legs.remove(&id);
            return Ok(());
        }
        exchange.forward.sent(now, Sent::Answered);
        self.replicas[at.replica].exchanges.remove(&request);
        match response {
            Response::Stream(owner, reading) => {
                let it = self.request(request);
                it.place = Place::Streaming(owner, reading, Some(id));
                it.channel = reading.lease.channel;
                it.promised = true;
                match resumes {
                    true => self.seen.resumed_elsewhere += 1,
                    false => self.seen.streamed_elsewhere += 1,
                }
                return Ok(());
            }
            Response::Plain => {
                self.seen.answered_elsewhere += 1;
                let it = self.request(request);
                it.answers += 1;
                it.place = Place::Over;
            }
            Response::Refused => self.refuse(request, resumes),
            Response::NotKept => self.not_kept(request)?,
            Response::Absent if !self.is_forgetful => {
                return broken(4, format!("session {session} is not there any more"));
            }
            Response::Absent | Response::Elsewhere => self.refuse(request, resumes),
        }
        self.legs.remove(&id);
        Ok(())
    }

    fn reply_to_nobody(&mut self, id: u64, response: Response) {
        let leg = self.legs.remove(&id);
        if let (Some(leg), Response::Stream(at, reading)) = (leg, response) {
            self.detach(at, leg.session, reading);
        }
    }

    pub fn forget(&mut self, replica: usize, session: u32, principal: &'static str, owner: Owner) {
        let known = &mut self.replicas[replica].known;
        if known.get(&(session, principal)) == Some(&owner) {
            known.remove(&(session, principal));
        }
    }

    /// A connection between replicas breaks, and both sides notice.
    pub fn break_leg(&mut self, id: u64, knows: bool) {
        let Some(leg) = self.legs.get_mut(&id) else {
            return;
        };
        let (request, session, from) = (leg.request, leg.session, leg.from);
        let (owner, principal) = (leg.owner, leg.principal);
        let unreached = leg.travels && knows;
        leg.travels &= !unreached;
        // Its client reads on that connection, or waits for an answer.
        let reads = |place: &Place| matches!(place, Place::Streaming(.., Some(leg)) if *leg == id);
        if self
            .requests
            .get(&request)
            .is_some_and(|it| reads(&it.place))
        {
            return self.disconnect(request);
        }
        self.close_leg(id);
        let now = self.local(from.replica);
        let here = &mut self.replicas[from.replica];
        let exchange = here.exchanges.get_mut(&request);
        if let Some(exchange) = exchange.filter(|it| here.run == from.run && it.leg == Some(id)) {
            exchange.leg = None;
            match unreached {
                true => self.seen.unreached += 1,
                false => self.seen.lost_on_the_way += 1,
            }
            let sent = match unreached {
                true => Sent::Unreached,
                false => Sent::Lost,
            };
            exchange.forward.sent(now, sent);
            self.forget(from.replica, session, principal, owner);
        }
    }

    /// Nobody listens on a connection any more. What was sent on it may still arrive.
    pub fn close_leg(&mut self, id: u64) {
        let Some(leg) = self.legs.get_mut(&id) else {
            return;
        };
        leg.is_broken = true;
        let (to, session, travels) = (leg.to, leg.session, leg.travels);
        let response = leg.response.take();
        if let Some(Response::Stream(at, reading)) = response {
            self.detach(at, session, reading);
        }
        let handlers = &mut self.replicas[to].handlers;
        let gone = handlers.extract_if(.., |it| it.leg == Some(id)).next();
        if let Some(handler) = gone {
            let at = self.at(to);
            self.detach(at, session, handler.reading);
        }
        let waits = self.replicas[to].arrivals.iter().any(|it| it.1 == id);
        if !travels && !waits {
            self.legs.remove(&id);
        }
    }

    /// A reader goes.
    pub fn detach(&mut self, at: At, session: u32, reading: Reading) {
        let replica = &mut self.replicas[at.replica];
        let live = replica.lives.get_mut(&session);
        if let Some(live) = live.filter(|it| replica.run == at.run && it.id == reading.live) {
            live.buffer.detach(reading.lease);
        }
    }
}
