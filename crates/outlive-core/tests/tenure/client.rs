//! What clients do: they begin, ask, read, are cut off, and come back to any replica.

use outlive_core::Message;
use outlive_core::message::Kind as MessageKind;
use outlive_core::replay_buffer::Next;
use outlive_core::server::Channel;
use outlive_core::session_record::{Part, Record};
use outlive_core::tenure::Forward;

use crate::replica::{Exchange, Handler};
use crate::schedule::Kind;
use crate::store::Ask;
use crate::world::{At, Broken, Place, Request, World, broken, pick};

const PRINCIPALS: [&str; 2] = ["ann", "bob"];

impl World {
    pub fn begin(&mut self, replica: usize) {
        let here = &self.replicas[replica];
        let ends = here.paused || here.leaving.is_some();
        if self.sessions.len() >= 3 || !self.may_act(replica) || ends {
            return;
        }
        let id = self.fresh() as u32;
        let principal = PRINCIPALS[self.sessions.len() % 2];
        let initialize = Message::request(b"0", "initialize", b"{}");
        let answer = Message::response(b"0", br#"{"protocolVersion":"2025-11-25"}"#);
        let head = Record::new("/mcp", initialize, &answer).encode();
        let by = self.replicas[replica].owner;
        self.ask(replica, Ask::Begin(id, principal, by, head));
    }

    /// A request reaches a replica. Its id.
    pub fn call(
        &mut self,
        session: u32,
        principal: &'static str,
        replica: usize,
        kind: Kind,
    ) -> Result<u64, Broken> {
        let id = self.fresh();
        let whose = self.sessions.iter().find(|it| it.0 == session);
        let request = Request {
            session,
            principal,
            kind,
            place: Place::Over,
            promised: false,
            channel: Channel(0),
            last: 0,
            executed: 0,
            answers: 0,
            refused: false,
            trespasses: whose.is_none_or(|it| it.1 != principal),
        };
        self.requests.insert(id, request);
        if self.replicas[replica].paused {
            // Nobody answers.
            return Ok(id);
        }
        self.enter(id, replica, false)?;
        Ok(id)
    }

    /// A request has reached a replica, which has its session or looks for it.
    fn enter(&mut self, id: u64, replica: usize, resumes: bool) -> Result<(), Broken> {
        let (session, principal) = (self.requests[&id].session, self.requests[&id].principal);
        let is_here =
            !self.requests[&id].trespasses && self.replicas[replica].lives.contains_key(&session);
        if is_here {
            return match resumes {
                true => self.resume_here(id, replica),
                false => self.hear(replica, id, None),
            };
        }
        let repeatable = resumes || self.requests[&id].kind == Kind::Read;
        let known = self.replicas[replica].known.get(&(session, principal));
        let now = self.local(replica);
        let exchange = Exchange {
            forward: Forward::new(now, self.forward, repeatable, known.copied()),
            resumes,
            leg: None,
            sends: 0,
            claims: false,
        };
        let at = self.at(replica);
        self.replicas[replica].exchanges.insert(id, exchange);
        self.request(id).place = Place::Edge(at);
        Ok(())
    }

    /// Somebody else tries a session: a call, or to read what others were sent.
    pub fn trespass(&mut self, n: u8, replica: usize, reads: bool) -> Result<(), Broken> {
        let Some((session, principal)) = pick(&self.sessions, n) else {
            return Ok(());
        };
        if self.replicas[replica].paused {
            return Ok(());
        }
        let other = if principal == "ann" { "bob" } else { "ann" };
        let streams = self.where_it(|it| it.session == session && it.promised);
        let stream = pick(&streams, n).filter(|_| reads);
        let channel = stream.map_or(Channel(0), |id| self.requests[&id].channel);
        self.seen.trespasses += 1;
        let id = self.call(session, other, replica, Kind::Unsafe)?;
        if stream.is_some() {
            // It guesses the stream, and comes back to it.
            self.request(id).channel = channel;
            if let Some(exchange) = self.replicas[replica].exchanges.get_mut(&id) {
                exchange.resumes = true;
            }
        }
        Ok(())
    }

    /// A client comes back to its stream.
    pub fn resume(&mut self, id: u64, replica: usize) -> Result<(), Broken> {
        match self.replicas[replica].paused {
            true => Ok(()),
            false => self.enter(id, replica, true),
        }
    }

    /// It has come to the replica that has its session.
    pub fn resume_here(&mut self, id: u64, replica: usize) -> Result<(), Broken> {
        let Request {
            session,
            channel,
            last,
            ..
        } = self.requests[&id];
        let (at, acts) = (self.at(replica), self.may_act(replica));
        let live = self.replicas[replica].lives.get_mut(&session);
        let Some(live) = live.filter(|_| acts) else {
            // It is told to come again.
            self.request(id).place = Place::Cut;
            return Ok(());
        };
        match live.buffer.resume(channel, last) {
            Ok(lease) => {
                let reading = live.reads(lease);
                self.seen.resumed += 1;
                self.request(id).place = Place::Streaming(at, reading, None);
                Ok(())
            }
            Err(_) => self.not_kept(id),
        }
    }

    /// What a client comes back for is not there.
    pub fn not_kept(&mut self, id: u64) -> Result<(), Broken> {
        let last = self.requests[&id].last;
        self.request(id).place = Place::Over;
        match self.is_forgetful {
            true => Ok(()),
            false => broken(
                2,
                format!("request {id}: what follows event {last} is not kept"),
            ),
        }
    }

    pub fn read(&mut self, id: u64) -> Result<(), Broken> {
        let Place::Streaming(At { replica, run }, reading, leg) = self.requests[&id].place else {
            return Ok(());
        };
        let (session, channel) = (self.requests[&id].session, reading.lease.channel);
        let here = &self.replicas[replica];
        if here.paused || here.run != run || leg.is_some_and(|leg| !self.carries(leg)) {
            return Ok(());
        }
        let acts = self.may_act(replica);
        let live = self.replicas[replica].lives.get_mut(&session);
        let Some(live) = live.filter(|live| acts && live.id == reading.live) else {
            self.disconnect(id);
            return Ok(());
        };
        let fence = live.tenure.fence;
        let next = live.buffer.read(reading.lease);
        let request = self.requests.get_mut(&id).expect("a request");
        match next {
            Next::Event(number, message) => {
                request.last = number;
                if message.kind() == MessageKind::Response {
                    request.answers += 1;
                    self.seen.lost += u64::from(message.is_error());
                }
                if message.kind() == MessageKind::Response
                    && message.id_json() != id.to_string().as_bytes()
                {
                    return broken(6, format!("request {id} got an answer of another"));
                }
                let kept = self.store.sessions.get(&session);
                let part = Part::Event(channel, number);
                if !self.is_forgetful && !kept.is_some_and(|it| it.parts.contains_key(&part)) {
                    return broken(7, format!("request {id}: event {number} is not kept"));
                }
                self.act(session, fence)
            }
            Next::Pending => Ok(()),
            Next::Complete => {
                request.place = Place::Over;
                Ok(())
            }
            Next::Cut | Next::CutShort => {
                self.disconnect(id);
                Ok(())
            }
        }
    }

    /// The connection of a client is lost.
    pub fn disconnect(&mut self, id: u64) {
        let request = self.request(id);
        let place = request.place;
        request.place = match request.promised {
            true => Place::Cut,
            false => Place::Over,
        };
        let session = request.session;
        match place {
            Place::Edge(at) => {
                let here = &mut self.replicas[at.replica];
                let exchange = here.exchanges.remove(&id);
                if let Some(leg) = exchange.and_then(|it| it.leg) {
                    self.close_leg(leg);
                }
            }
            Place::Waiting(at) => {
                let handlers = &mut self.replicas[at.replica].handlers;
                let is_it = |it: &mut Handler| it.request == id && it.leg.is_none();
                let gone = handlers.extract_if(.., is_it).next();
                if let Some(handler) = gone {
                    self.detach(at, session, handler.reading);
                }
            }
            Place::Streaming(at, reading, leg) => {
                self.detach(at, session, reading);
                if let Some(leg) = leg {
                    self.close_leg(leg);
                }
            }
            Place::Cut | Place::Over => {}
        }
    }
}
