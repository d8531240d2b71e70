//! One process that answers for sessions: the machines of the core, driven as a listener drives them.

use std::collections::BTreeMap;

use outlive_core::Message;
use outlive_core::message::Kind;
use outlive_core::policy::Retry;
use outlive_core::replay_buffer::{Beginning, Lease as BufferLease, ReplayBuffer, ReplayLimits};
use outlive_core::revival::{Output, Revival};
use outlive_core::server::Channel;
use outlive_core::session_record::{self, KeptSession, OpenRequests, Part, Write};
use outlive_core::tenure::{Forward, Lease, LeasePolicy, Nonces, Owner, Tenure};

/// Channels from here on are known to no client.
const OWN: u64 = 1 << 40;

/// A replica.
pub struct Replica {
    pub owner: Owner,
    /// How often it was started.
    pub run: u32,
    pub lease: Lease,
    /// Thousandths: how fast its clock runs.
    pub rate: u64,
    /// Seconds that its wall clock is ahead or behind.
    pub wall: i64,
    pub paused: bool,
    /// It does not reach the store, or the other replicas.
    pub partitioned: bool,
    pub isolated: bool,
    /// It is to end; whether it still waits for what is in flight.
    pub leaving: Option<bool>,
    pub lives: BTreeMap<u32, Live>,
    /// Requests that it works at: the heads of their responses are not sent.
    pub handlers: Vec<Handler>,
    /// Requests whose sessions it looks for.
    pub exchanges: BTreeMap<u64, Exchange>,
    /// Requests that were forwarded to it, and wait for a session to be claimed.
    pub arrivals: Vec<(u32, u64)>,
    /// Whose sessions are, as far as it knows.
    pub known: BTreeMap<(u32, &'static str), Owner>,
    pub nonces: Nonces,
    /// How many requests it has forwarded.
    pub forwarded: u64,
}

/// A reader of a session. The session may have left the replica and come back meanwhile, with readers of its own.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Which [`Live`] it reads from.
    pub live: u64,
    pub lease: BufferLease,
}

/// A request that a replica works at.
#[derive(Clone, Copy)]
pub struct Handler {
    pub request: u64,
    pub session: u32,
    pub reading: Reading,
    /// A stream is promised when this is written.
    pub noted: Option<u64>,
    /// On which connection it was forwarded, if it was.
    pub leg: Option<u64>,
}

/// A request whose session is not here.
pub struct Exchange {
    pub forward: Forward,
    /// It is a client that comes back to its stream.
    pub resumes: bool,
    /// The connection on which it was forwarded last, and how often it was.
    pub leg: Option<u64>,
    pub sends: u32,
    /// It waits for the store.
    pub claims: bool,
}

impl Replica {
    pub fn new(owner: u64, rate: u64, policy: LeasePolicy) -> Replica {
        Replica {
            owner: Owner(owner),
            run: 0,
            lease: Lease::new(policy),
            rate,
            wall: 0,
            paused: false,
            partitioned: false,
            isolated: false,
            leaving: None,
            lives: BTreeMap::new(),
            handlers: Vec::new(),
            exchanges: BTreeMap::new(),
            arrivals: Vec::new(),
            known: BTreeMap::new(),
            nonces: Nonces::default(),
            forwarded: 0,
        }
    }

    /// Whether a session that is here is waited for.
    pub fn is_busy(&self, session: u32) -> bool {
        let waits = self.handlers.iter().any(|it| it.session == session);
        let live = self.lives.get(&session);
        waits || live.is_some_and(|it| !it.server.is_empty() || it.revival.is_some())
    }
}

/// A session that a replica answers for.
pub struct Live {
    /// No other has the same.
    pub id: u64,
    pub tenure: Tenure,
    pub buffer: ReplayBuffer<Message>,
    writes: Vec<Write>,
    noted: u64,
    pub written: u64,
    number: u64,
    /// What is being written: its number, itself, and up to where it reaches.
    in_flight: Option<(u64, Vec<Write>, u64, u64)>,
    /// What its server works at.
    pub server: Vec<(Channel, Message)>,
    revival: Option<Revival>,
    /// The revival waits for the answer on this channel, or for this to be written.
    asked: Option<BufferLease>,
    awaits: Option<u64>,
    waiting: Vec<(Channel, Message)>,
    own: u64,
    /// It is being left to another process: nothing begins in it any more.
    pub leaving: bool,
}

/// What a live session wants of the world.
pub enum Wish {
    /// Its server is given this request of a client.
    Execute(Message),
}

impl Live {
    /// A session that begins.
    pub fn begun(id: u64, tenure: Tenure) -> Live {
        let limits = ReplayLimits::default();
        let mut buffer =
            ReplayBuffer::new(outlive_core::replay_buffer::Delivery::Resumable, limits);
        buffer.record_all();
        Live::over(id, tenure, buffer, None)
    }

    /// A session that is taken over.
    pub fn taken_over(id: u64, tenure: Tenure, kept: &KeptSession) -> Live {
        let buffer = ReplayBuffer::restored(ReplayLimits::default(), kept.channels.clone());
        let revival = Revival::new(kept, Retry::Safe, "server");
        Live::over(id, tenure, buffer, Some(revival))
    }

    fn over(
        id: u64,
        tenure: Tenure,
        buffer: ReplayBuffer<Message>,
        revival: Option<Revival>,
    ) -> Live {
        Live {
            id,
            tenure,
            buffer,
            writes: Vec::new(),
            noted: 0,
            written: 0,
            number: 0,
            in_flight: None,
            server: Vec::new(),
            revival,
            asked: None,
            awaits: None,
            waiting: Vec::new(),
            own: OWN,
            leaving: false,
        }
    }

    /// A reader of this buffer.
    pub fn reads(&self, lease: BufferLease) -> Reading {
        let live = self.id;
        Reading { live, lease }
    }

    /// A client sends a request.
    pub fn hear(&mut self, channel: Channel, request: Message, wishes: &mut Vec<Wish>) {
        match self.revival.is_some() {
            true => self.waiting.push((channel, request)),
            false => self.handle(channel, request, wishes),
        }
    }

    /// The server gets something.
    fn handle(&mut self, channel: Channel, message: Message, wishes: &mut Vec<Wish>) {
        if message.kind() != Kind::Request {
            return self.buffer.done(channel);
        }
        let result: &[u8] = match message.method() {
            "tools/call" | "resources/read" => {
                wishes.push(Wish::Execute(message.clone()));
                return self.server.push((channel, message));
            }
            "tools/list" => {
                br#"{"tools":[{"name":"safe","annotations":{"readOnlyHint":true}},{"name":"unsafe"}]}"#
            }
            _ => br#"{"protocolVersion":"2025-11-25"}"#,
        };
        let answer = Message::response(message.id_json(), result);
        self.buffer.send(channel, answer);
        self.buffer.done(channel);
    }

    /// Promises a stream: the number that is to be written first.
    pub fn promise(&mut self, reading: Reading, request: Message) -> u64 {
        let open = OpenRequests {
            requests: vec![request],
            deaths: 0,
        };
        let noted = self.put(vec![(
            Part::Open(reading.lease.channel),
            Some(open.encode()),
        )]);
        self.buffer.promise(reading.lease);
        noted
    }

    fn put(&mut self, writes: Vec<Write>) -> u64 {
        self.writes.extend(writes);
        self.noted += 1;
        self.noted
    }

    /// Whether everything is written.
    pub fn is_settled(&self) -> bool {
        self.in_flight.is_none() && self.writes.is_empty() && !self.buffer.has_changes()
    }

    /// What is to be written next, if nothing is on its way.
    pub fn next_write(&mut self) -> Option<(u64, Vec<Write>)> {
        if let Some((number, writes, ..)) = &self.in_flight {
            return Some((*number, writes.clone()));
        }
        let (changes, upto) = self.buffer.take_changes();
        let mut writes = std::mem::take(&mut self.writes);
        for change in changes {
            session_record::writes(change, &mut writes);
        }
        if writes.is_empty() {
            self.written = self.noted;
            return None;
        }
        self.number += 1;
        self.in_flight = Some((self.number, writes.clone(), upto, self.noted));
        Some((self.number, writes))
    }

    /// The store has it.
    pub fn stored(&mut self, number: u64) {
        if let Some((_, _, upto, noted)) = self.in_flight.take_if(|it| it.0 == number) {
            self.buffer.written(upto);
            self.written = noted;
        }
    }

    /// Goes on with its revival as far as it can.
    pub fn revive(&mut self, wishes: &mut Vec<Wish>) {
        loop {
            if self.awaits.is_some_and(|noted| self.written < noted) {
                return;
            }
            self.awaits = None;
            if let Some(reading) = self.asked {
                let Some(Beginning::Answer(answer)) = self.buffer.beginning(reading) else {
                    return;
                };
                self.asked = None;
                if let Some(revival) = &mut self.revival {
                    revival.answered(Some(&answer));
                }
            }
            let Some(output) = self.revival.as_mut().and_then(Revival::poll) else {
                return;
            };
            match output {
                Output::Ask(message) => {
                    self.own += 1;
                    let channel = Channel(self.own);
                    self.asked = Some(self.buffer.open(channel));
                    self.handle(channel, message, wishes);
                }
                Output::Say(message) => {
                    self.own += 1;
                    self.handle(Channel(self.own), message, wishes);
                }
                Output::Write(writes) => self.awaits = Some(self.put(writes)),
                Output::Hear(channel, message) => self.handle(channel, message, wishes),
                Output::Send(channel, message) => self.buffer.send(channel, message),
                Output::Done(channel) => self.buffer.done(channel),
                Output::Failed(error) => panic!("{}", String::from_utf8_lossy(&error)),
                Output::Ready => {
                    self.revival = None;
                    for (channel, request) in std::mem::take(&mut self.waiting) {
                        self.handle(channel, request, wishes);
                    }
                }
            }
        }
    }
}
