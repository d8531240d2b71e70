//! Three replicas, a store, a network between them, and clients.

use std::collections::BTreeMap;
use std::time::Duration;

use outlive_core::server::Channel;
use outlive_core::tenure::{Fence, ForwardPolicy, LeaseOrder, LeasePolicy, Owner};
use outlive_core::{Message, Time};

use crate::random::Dice;
use crate::replica::{Reading, Replica};
use crate::schedule::{Kind, Step};
use crate::store::{Ask, Said, Store};

/// An invariant that does not hold.
#[derive(Debug)]
pub struct Broken {
    pub invariant: u8,
    pub how: String,
}

pub fn broken(invariant: u8, how: impl Into<String>) -> Result<(), Broken> {
    let how = how.into();
    Err(Broken { invariant, how })
}

macro_rules! seen {
    ($($what:ident),* $(,)?) => {
        /// What schedules have come across.
        #[derive(Debug, Default)]
        pub struct Seen {
            $(pub $what: u64,)*
        }

        impl Seen {
            pub fn add(&mut self, other: &Seen) {
                $(self.$what += other.$what;)*
            }

            pub fn check(&self) {
                $(assert!(self.$what > 0, "never {}: {self:?}", stringify!($what));)*
            }
        }
    };
}

seen! {
    takeovers,
    stand_downs,
    fenced,
    repeated,
    lost,
    resumed,
    plain,
    held,
    failovers,
    trespasses,
    // Of requests that reach a replica which does not have their session.
    forwarded,
    answered_elsewhere,
    streamed_elsewhere,
    resumed_elsewhere,
    misdirected,
    unreached,
    lost_on_the_way,
    sent_again,
    replayed,
    stale,
    settled_at_the_edge,
    served_after_waiting,
    refused,
    handed_over,
}

/// A question on its way to the store, or its answer on the way back.
pub struct Call {
    pub replica: usize,
    pub run: u32,
    pub ask: Ask,
    pub said: Option<Said>,
    /// Nobody waits for it any more.
    pub given_up: bool,
}

/// One run of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    pub replica: usize,
    pub run: u32,
}

/// Where a request of a client is.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// A replica looks for its session.
    Edge(At),
    /// The replica that has its session works at it.
    Waiting(At),
    /// It is read from a stream; on which connection the stream is forwarded, if it is.
    Streaming(At, Reading, Option<u64>),
    /// Its stream was lost.
    Cut,
    /// Its client knows how it ended, or cannot come back.
    Over,
}

impl Place {
    /// The replica that works at it, or looks for its session.
    pub fn replica(&self) -> Option<At> {
        match *self {
            Place::Edge(at) | Place::Waiting(at) | Place::Streaming(at, ..) => Some(at),
            Place::Cut | Place::Over => None,
        }
    }

    /// Whether it is a stream of this replica.
    pub fn is_read_from(&self, replica: At) -> bool {
        matches!(*self, Place::Streaming(at, ..) if at == replica)
    }
}

pub struct Request {
    pub session: u32,
    /// Who sends it.
    pub principal: &'static str,
    pub kind: Kind,
    pub place: Place,
    /// Its client was promised a stream, on this channel.
    pub promised: bool,
    pub channel: Channel,
    /// The last event its client has read.
    pub last: u64,
    pub executed: u32,
    pub answers: u32,
    /// Its client was told that nothing was done.
    pub refused: bool,
    /// The session is somebody else's.
    pub trespasses: bool,
}

/// A request that was forwarded, and the connection on which it was.
#[derive(Clone)]
pub struct Leg {
    pub request: u64,
    pub session: u32,
    pub principal: &'static str,
    /// Where its client wants to go on with its stream, if it does.
    pub resumes: Option<(Channel, u64)>,
    pub from: At,
    pub to: usize,
    pub owner: Owner,
    /// Who has forwarded it, as which of its requests, and when.
    pub sender: u64,
    pub number: u64,
    pub made: Duration,
    /// It is on its way.
    pub travels: bool,
    /// Nothing comes back on it.
    pub is_broken: bool,
    pub response: Option<Response>,
}

/// The head of a response on its way back.
#[derive(Clone, Copy, Debug)]
pub enum Response {
    /// An answer, also that it is not known what became of the request.
    Plain,
    Stream(At, Reading),
    /// The session is somebody else's.
    Elsewhere,
    /// Nothing was done.
    Refused,
    /// There is no such session.
    Absent,
    /// What followed the event is not kept.
    NotKept,
}

pub struct World {
    pub is_forgetful: bool,
    pub log: Vec<String>,
    pub seen: Seen,
    pub now: Time,
    pub policy: LeasePolicy,
    pub forward: ForwardPolicy,
    pub replicas: Vec<Replica>,
    pub store: Store,
    copy: Option<Store>,
    pub calls: Vec<Call>,
    pub sessions: Vec<(u32, &'static str)>,
    pub requests: BTreeMap<u64, Request>,
    pub legs: BTreeMap<u64, Leg>,
    /// What has arrived lately.
    pub captured: Vec<Leg>,
    /// Where owners are, or were.
    pub homes: BTreeMap<Owner, usize>,
    pub numbers: u64,
    /// The highest fence under which somebody has acted for a session.
    pub acted: BTreeMap<u32, Fence>,
}

impl World {
    pub fn new(dice: &mut Dice) -> World {
        let policy = LeasePolicy::default();
        let mut replica = |n: u64| Replica::new(n + 1, 910 + dice.below(180), policy);
        let replicas: Vec<Replica> = (0..3).map(&mut replica).collect();
        let homes = replicas.iter().enumerate().map(|(at, it)| (it.owner, at));
        World {
            is_forgetful: dice.below(5) == 0,
            log: Vec::new(),
            seen: Seen::default(),
            now: Time::after(Duration::from_secs(1)),
            policy,
            forward: ForwardPolicy::of(policy.length),
            homes: homes.collect(),
            replicas,
            store: Store::default(),
            copy: None,
            calls: Vec::new(),
            sessions: Vec::new(),
            requests: BTreeMap::new(),
            legs: BTreeMap::new(),
            captured: Vec::new(),
            numbers: 100,
            acted: BTreeMap::new(),
        }
    }

    /// The time that passes at a replica.
    pub fn local(&self, replica: usize) -> Time {
        let rate = self.replicas[replica].rate;
        let nanos = self.now.since_start().as_nanos() as u64;
        Time::after(Duration::from_nanos(nanos / 1000 * rate))
    }

    /// The date there.
    pub fn wall(&self, replica: usize) -> Duration {
        let ahead = 1_000_000_i64.saturating_add(self.replicas[replica].wall);
        self.now.since_start() + Duration::from_secs(ahead.unsigned_abs())
    }

    pub fn at(&self, replica: usize) -> At {
        let run = self.replicas[replica].run;
        At { replica, run }
    }

    pub fn may_act(&self, replica: usize) -> bool {
        let now = self.local(replica);
        self.replicas[replica].lease.may_act(now)
    }

    pub fn fresh(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub fn request(&mut self, id: u64) -> &mut Request {
        self.requests.get_mut(&id).expect("a request")
    }

    pub fn step(&mut self, step: Step) -> Result<(), Broken> {
        self.log
            .push(format!("{:?} {step:?}", self.now.since_start()));
        match step {
            Step::Begin(replica) => self.begin(replica.into()),
            Step::Call(n, replica, kind) => {
                if let Some((session, principal)) = pick(&self.sessions, n) {
                    self.call(session, principal, replica.into(), kind)?;
                }
            }
            Step::Trespass(n, replica, reads) => self.trespass(n, replica.into(), reads)?,
            Step::Resume(n, replica) => {
                let cut = self.where_it(|it| matches!(it.place, Place::Cut));
                if let Some(id) = pick(&cut, n) {
                    self.resume(id, replica.into())?;
                }
            }
            Step::Read(n) => {
                let open = self.where_it(|it| matches!(it.place, Place::Streaming(..)));
                if let Some(id) = pick(&open, n) {
                    self.read(id)?;
                }
            }
            Step::Disconnect(n) => {
                let open = self.where_it(|it| !matches!(it.place, Place::Cut | Place::Over));
                if let Some(id) = pick(&open, n) {
                    self.disconnect(id);
                }
            }
            Step::Promise(n) => {
                let waiting: Vec<(usize, usize)> = self.unpromised();
                if let Some((replica, at)) = pick(&waiting, n) {
                    self.promise(replica, at);
                }
            }
            Step::Answer(n) => self.answer(n, true),
            Step::Notify(n) => self.answer(n, false),
            Step::Apply(n) => {
                let asked = self.calls_where(|it| it.said.is_none());
                if let Some(at) = pick(&asked, n) {
                    self.apply(at);
                }
            }
            Step::Deliver(n) => {
                let said = self.calls_where(|it| it.said.is_some() && !it.given_up);
                if let Some(at) = pick(&said, n)
                    && !self.replicas[self.calls[at].replica].paused
                {
                    self.deliver(at)?;
                }
            }
            Step::Lose(n) => {
                let waited = self.calls_where(|it| !it.given_up);
                if let Some(at) = pick(&waited, n) {
                    self.fail(at);
                    self.calls.remove(at);
                }
            }
            Step::GiveUp(n) => {
                let waited = self.calls_where(|it| !it.given_up);
                if let Some(at) = pick(&waited, n) {
                    self.fail(at);
                    // An answer that nobody waits for is not looked at.
                    match self.calls[at].said {
                        Some(_) => drop(self.calls.remove(at)),
                        None => self.calls[at].given_up = true,
                    }
                }
            }
            Step::Arrive(n) => {
                let travelling = self.legs_where(|it| it.travels);
                if let Some(leg) = pick(&travelling, n) {
                    self.arrive(leg)?;
                }
            }
            Step::Respond(n) => {
                let responded = self.legs_where(|it| it.response.is_some());
                if let Some(leg) = pick(&responded, n) {
                    self.respond(leg)?;
                }
            }
            Step::Break(n, knows) => {
                let whole = self.legs_where(|it| !it.is_broken);
                if let Some(leg) = pick(&whole, n) {
                    self.break_leg(leg, knows);
                }
            }
            Step::Replay(n) => self.replay(n)?,
            Step::Flow => self.flow()?,
            Step::Kill(replica) => self.kill(replica.into()),
            Step::Leave(replica) => {
                let leaving = &mut self.replicas[usize::from(replica)].leaving;
                *leaving = Some(leaving.is_some());
            }
            Step::Pause(replica) => toggle(&mut self.replicas[usize::from(replica)].paused),
            Step::Partition(replica) => {
                toggle(&mut self.replicas[usize::from(replica)].partitioned);
            }
            Step::Isolate(replica) => toggle(&mut self.replicas[usize::from(replica)].isolated),
            Step::SetClock(replica, ahead) => {
                self.replicas[usize::from(replica)].wall = ahead.into();
            }
            Step::Copy => self.copy = Some(self.store.clone()),
            Step::Failover => {
                if let Some(copy) = self.copy.take() {
                    self.seen.failovers += 1;
                    self.store = copy;
                }
            }
            Step::Wait(millis) => self.now = self.now + Duration::from_millis(millis.into()),
        }
        for replica in 0..self.replicas.len() {
            self.pump(replica)?;
        }
        Ok(())
    }

    pub fn where_it(&self, is_it: impl Fn(&Request) -> bool) -> Vec<u64> {
        let those = self.requests.iter().filter(|(_, it)| is_it(it));
        those.map(|(id, _)| *id).collect()
    }

    pub fn calls_where(&self, is_it: impl Fn(&Call) -> bool) -> Vec<usize> {
        let those = self.calls.iter().enumerate().filter(|(_, it)| is_it(it));
        those.map(|(at, _)| at).collect()
    }

    pub fn legs_where(&self, is_it: impl Fn(&Leg) -> bool) -> Vec<u64> {
        let those = self.legs.iter().filter(|(_, it)| is_it(it));
        those.map(|(id, _)| *id).collect()
    }

    /// The message that a request is.
    pub fn message(&self, id: u64) -> Message {
        let (method, params) = match self.requests[&id].kind {
            Kind::Unsafe => ("tools/call", &br#"{"name":"unsafe"}"#[..]),
            Kind::Safe => ("tools/call", &br#"{"name":"safe"}"#[..]),
            Kind::Read => ("resources/read", &br#"{"uri":"x://a"}"#[..]),
        };
        Message::request(id.to_string().as_bytes(), method, params)
    }

    /// Has a replica do what it can.
    pub fn pump(&mut self, replica: usize) -> Result<(), Broken> {
        if self.replicas[replica].paused {
            return Ok(());
        }
        let now = self.local(replica);
        while let Some(order) = self.replicas[replica].lease.poll(now) {
            match order {
                LeaseOrder::Ask { begins } => {
                    let owner = self.replicas[replica].owner;
                    self.ask(replica, Ask::Renew(owner, begins));
                }
                LeaseOrder::StandDown => {
                    self.seen.stand_downs += 1;
                    self.stand_down(replica);
                }
            }
        }
        self.look_elsewhere(replica)?;
        if self.may_act(replica) {
            self.serve(replica)?;
        }
        if self.replicas[replica].leaving.is_some() {
            self.hand_over(replica);
        }
        Ok(())
    }
}

fn toggle(it: &mut bool) {
    *it = !*it;
}

pub fn pick<T: Copy>(among: &[T], n: u8) -> Option<T> {
    let len = among.len();
    (len > 0).then(|| among[usize::from(n) % len])
}
