//! Three replicas, a store, a network between them, and clients.

use std::collections::BTreeMap;
use std::time::Duration;

use outlive_core::message::Kind;
use outlive_core::replay_buffer::{Beginning, Lease as Reading, Next};
use outlive_core::server::Channel;
use outlive_core::session_record::{KeptSession, Part, Record};
use outlive_core::tenure::{Fence, LeaseOrder, LeasePolicy, Renewal};
use outlive_core::{Message, Time};

use crate::random::Dice;
use crate::replica::{Live, Replica, Wish};
use crate::schedule::Step;
use crate::store::{Ask, Said, Store};

/// An invariant that does not hold.
#[derive(Debug)]
pub struct Broken {
    pub invariant: u8,
    pub how: String,
}

fn broken(invariant: u8, how: impl Into<String>) -> Result<(), Broken> {
    let how = how.into();
    Err(Broken { invariant, how })
}

/// What schedules have come across.
#[derive(Debug, Default)]
pub struct Seen {
    takeovers: u64,
    stand_downs: u64,
    fenced: u64,
    repeated: u64,
    lost: u64,
    resumed: u64,
    plain: u64,
    held: u64,
    failovers: u64,
}

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        self.takeovers += other.takeovers;
        self.stand_downs += other.stand_downs;
        self.fenced += other.fenced;
        self.repeated += other.repeated;
        self.lost += other.lost;
        self.resumed += other.resumed;
        self.plain += other.plain;
        self.held += other.held;
        self.failovers += other.failovers;
    }

    pub fn check(&self) {
        let all = [
            self.takeovers,
            self.stand_downs,
            self.fenced,
            self.repeated,
            self.lost,
            self.resumed,
            self.plain,
            self.held,
            self.failovers,
        ];
        assert!(all.iter().all(|times| *times > 0), "{self:?}");
    }
}

/// A question on its way to the store, or its answer on the way back.
struct Call {
    replica: usize,
    run: u32,
    ask: Ask,
    said: Option<Said>,
    /// Nobody waits for it any more.
    given_up: bool,
}

/// Where a request of a client is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// It waits for a session to be claimed.
    Arriving,
    /// It waits for the head of a response; a stream is promised when this is written.
    Waiting(usize, u32, Reading, Option<u64>),
    /// It is read from a stream.
    Streaming(usize, u32, Reading),
    /// Its stream was lost.
    Cut,
    /// Its client knows how it ended, or cannot come back.
    Over,
}

struct Request {
    session: u32,
    safe: bool,
    channel: Channel,
    place: Place,
    promised: bool,
    /// The last event its client has read.
    last: u64,
    executed: u32,
    answers: u32,
}

pub struct World {
    pub is_forgetful: bool,
    pub log: Vec<String>,
    pub seen: Seen,
    now: Time,
    policy: LeasePolicy,
    replicas: Vec<Replica>,
    store: Store,
    copy: Option<Store>,
    calls: Vec<Call>,
    sessions: Vec<(u32, &'static str)>,
    requests: BTreeMap<u64, Request>,
    numbers: u64,
    /// The highest fence under which somebody has acted for a session.
    acted: BTreeMap<u32, Fence>,
}

const PRINCIPALS: [&str; 2] = ["ann", "bob"];

impl World {
    pub fn new(dice: &mut Dice) -> World {
        let policy = LeasePolicy::default();
        let mut replica = |n: u64| Replica::new(n + 1, 910 + dice.below(180), policy);
        let replicas = (0..3).map(&mut replica).collect();
        World {
            is_forgetful: dice.below(5) == 0,
            log: Vec::new(),
            seen: Seen::default(),
            now: Time::after(Duration::from_secs(1)),
            policy,
            replicas,
            store: Store::default(),
            copy: None,
            calls: Vec::new(),
            sessions: Vec::new(),
            requests: BTreeMap::new(),
            numbers: 100,
            acted: BTreeMap::new(),
        }
    }

    fn local(&self, replica: usize) -> Time {
        let rate = self.replicas[replica].rate;
        let nanos = self.now.since_start().as_nanos() as u64;
        Time::after(Duration::from_nanos(nanos / 1000 * rate))
    }

    fn may_act(&self, replica: usize) -> bool {
        let now = self.local(replica);
        self.replicas[replica].lease.may_act(now)
    }

    fn fresh(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn ask(&mut self, replica: usize, ask: Ask) {
        let run = self.replicas[replica].run;
        self.calls.push(Call {
            replica,
            run,
            ask,
            said: None,
            given_up: false,
        });
    }

    pub fn step(&mut self, step: Step) -> Result<(), Broken> {
        self.log
            .push(format!("{:?} {step:?}", self.now.since_start()));
        match step {
            Step::Begin(replica) => self.begin(replica.into()),
            Step::Call(n, replica, safe) => {
                if let Some((session, _)) = pick(&self.sessions, n) {
                    self.call(session, replica.into(), safe)?;
                }
            }
            Step::Trespass(n, replica) => {
                if let Some((session, principal)) = pick(&self.sessions, n) {
                    let other = if principal == "ann" { "bob" } else { "ann" };
                    let by = self.replicas[usize::from(replica)].owner;
                    self.ask(replica.into(), Ask::Claim(session, other, by));
                }
            }
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
                let open = self
                    .where_it(|it| matches!(it.place, Place::Streaming(..) | Place::Waiting(..)));
                if let Some(id) = pick(&open, n) {
                    self.disconnect(id);
                }
            }
            Step::Promise(n) => {
                let waiting = self.where_it(|it| matches!(it.place, Place::Waiting(.., None)));
                if let Some(id) = pick(&waiting, n) {
                    self.promise(id);
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
            Step::Kill(replica) => self.kill(replica.into()),
            Step::Pause(replica) => {
                let paused = &mut self.replicas[usize::from(replica)].paused;
                *paused = !*paused;
            }
            Step::Partition(replica) => {
                let partitioned = &mut self.replicas[usize::from(replica)].partitioned;
                *partitioned = !*partitioned;
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

    fn where_it(&self, is_it: impl Fn(&Request) -> bool) -> Vec<u64> {
        let those = self.requests.iter().filter(|(_, it)| is_it(it));
        those.map(|(id, _)| *id).collect()
    }

    fn calls_where(&self, is_it: impl Fn(&Call) -> bool) -> Vec<usize> {
        let those = self.calls.iter().enumerate().filter(|(_, it)| is_it(it));
        those.map(|(at, _)| at).collect()
    }

    // ---- clients

    fn begin(&mut self, replica: usize) {
        if self.sessions.len() >= 3 || !self.may_act(replica) || self.replicas[replica].paused {
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

    fn call(&mut self, session: u32, replica: usize, safe: bool) -> Result<(), Broken> {
        if self.replicas[replica].paused || !self.may_act(replica) {
            // Nobody answers, or a 503: nothing has happened.
            return Ok(());
        }
        let id = self.fresh();
        let request = Request {
            session,
            safe,
            channel: Channel(id),
            place: Place::Arriving,
            promised: false,
            last: 0,
            executed: 0,
            answers: 0,
        };
        self.requests.insert(id, request);
        match self.replicas[replica].lives.contains_key(&session) {
            true => self.hear(replica, id),
            false => {
                self.replicas[replica].arrivals.push((session, id));
                self.claim(session, replica);
                Ok(())
            }
        }
    }

    fn claim(&mut self, session: u32, replica: usize) {
        let by = self.replicas[replica].owner;
        let run = self.replicas[replica].run;
        let known = self.sessions.iter().find(|it| it.0 == session);
        let Some((_, principal)) = known.copied() else {
            return;
        };
        // One at a time.
        let is_it = |it: &Call| {
            let same =
                matches!(it.ask, Ask::Claim(id, who, _) if id == session && who == principal);
            it.replica == replica && it.run == run && !it.given_up && same
        };
        if !self.calls.iter().any(is_it) {
            self.ask(replica, Ask::Claim(session, principal, by));
        }
    }

    /// A request of a client is handed to the session that is here.
    fn hear(&mut self, replica: usize, id: u64) -> Result<(), Broken> {
        let message = self.message(id);
        let (session, channel) = (self.requests[&id].session, self.requests[&id].channel);
        let run = self.replicas[replica].run;
        let Some(live) = self.replicas[replica].lives.get_mut(&session) else {
            return Ok(());
        };
        let reading = live.buffer.open(channel);
        let mut wishes = Vec::new();
        live.hear(channel, message, &mut wishes);
        if let Some(request) = self.requests.get_mut(&id) {
            request.place = Place::Waiting(replica, run, reading, None);
        }
        self.carry_out(replica, session, wishes)
    }

    fn message(&self, id: u64) -> Message {
        let tool = if self.requests[&id].safe {
            "safe"
        } else {
            "unsafe"
        };
        let params = format!(r#"{{"name":"{tool}"}}"#);
        Message::request(id.to_string().as_bytes(), "tools/call", params.as_bytes())
    }

    fn resume(&mut self, id: u64, replica: usize) -> Result<(), Broken> {
        if self.replicas[replica].paused || !self.may_act(replica) {
            return Ok(());
        }
        let session = self.requests[&id].session;
        let run = self.replicas[replica].run;
        let (channel, last) = (self.requests[&id].channel, self.requests[&id].last);
        let Some(live) = self.replicas[replica].lives.get_mut(&session) else {
            self.replicas[replica].returns.push((session, id));
            self.claim(session, replica);
            return Ok(());
        };
        match live.buffer.resume(channel, last) {
            Ok(reading) => {
                self.seen.resumed += 1;
                let request = self.requests.get_mut(&id).expect("a request");
                request.place = Place::Streaming(replica, run, reading);
                Ok(())
            }
            Err(_) if self.is_forgetful => {
                self.requests.get_mut(&id).expect("a request").place = Place::Over;
                Ok(())
            }
            Err(_) => broken(
                2,
                format!("request {id}: what follows event {last} is not kept"),
            ),
        }
    }

    fn read(&mut self, id: u64) -> Result<(), Broken> {
        let Place::Streaming(replica, run, reading) = self.requests[&id].place else {
            return Ok(());
        };
        let (session, channel) = (self.requests[&id].session, self.requests[&id].channel);
        if self.replicas[replica].paused || self.replicas[replica].run != run {
            return Ok(());
        }
        let acts = self.may_act(replica);
        let Some(live) = self.replicas[replica]
            .lives
            .get_mut(&session)
            .filter(|_| acts)
        else {
            self.disconnect(id);
            return Ok(());
        };
        let fence = live.tenure.fence;
        let next = live.buffer.read(reading);
        let request = self.requests.get_mut(&id).expect("a request");
        match next {
            Next::Event(number, message) => {
                request.last = number;
                if message.kind() == Kind::Response {
                    request.answers += 1;
                    self.seen.lost += u64::from(message.is_error());
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
    fn disconnect(&mut self, id: u64) {
        let request = self.requests.get_mut(&id).expect("a request");
        let (replica, run, reading) = match request.place {
            Place::Waiting(replica, run, reading, _) | Place::Streaming(replica, run, reading) => {
                (replica, run, reading)
            }
            _ => return,
        };
        request.place = match request.promised {
            true => Place::Cut,
            false => Place::Over,
        };
        let session = request.session;
        let replica = &mut self.replicas[replica];
        if let Some(live) = replica
            .lives
            .get_mut(&session)
            .filter(|_| replica.run == run)
        {
            live.buffer.detach(reading);
        }
    }

    fn promise(&mut self, id: u64) {
        let Place::Waiting(replica, run, reading, None) = self.requests[&id].place else {
            return;
        };
        let (session, message) = (self.requests[&id].session, self.message(id));
        if self.replicas[replica].run != run || self.replicas[replica].paused {
            return;
        }
        let Some(live) = self.replicas[replica].lives.get_mut(&session) else {
            return;
        };
        let noted = live.promise(reading, message);
        let request = self.requests.get_mut(&id).expect("a request");
        request.place = Place::Waiting(replica, run, reading, Some(noted));
    }

    // ---- servers

    /// The server of the n-th session in service answers, or says something.
    fn answer(&mut self, n: u8, answers: bool) {
        let busy = |live: &Live| !live.server.is_empty();
        let mut all = Vec::new();
        for (at, replica) in self.replicas.iter().enumerate().filter(|it| !it.1.paused) {
            let lives = replica.lives.iter().filter(|(_, live)| busy(live));
            all.extend(lives.map(|(session, _)| (at, *session)));
        }
        let Some((at, session)) = pick(&all, n) else {
            return;
        };
        let live = self.replicas[at]
            .lives
            .get_mut(&session)
            .expect("a session");
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
        let Some(fence) = live.map(|live| live.tenure.fence) else {
            return Ok(());
        };
        for Wish::Execute(message) in wishes {
            if !self.may_act(replica) {
                return broken(1, format!("session {session}: executed without a lease"));
            }
            self.act(session, fence)?;
            let id = String::from_utf8_lossy(message.id_json())
                .parse()
                .expect("a number");
            let request = self.requests.get_mut(&id).expect("a request");
            request.executed += 1;
            let most = if request.safe { 2 } else { 1 };
            self.seen.repeated += u64::from(request.executed > 1);
            if request.executed > most {
                let times = request.executed;
                return broken(3, format!("request {id} was executed {times} times"));
            }
            if request.session != session {
                return broken(6, format!("request {id} was executed in another session"));
            }
        }
        Ok(())
    }

    /// Somebody acts for a session under this fence.
    fn act(&mut self, session: u32, fence: Fence) -> Result<(), Broken> {
        let acted = self.acted.entry(session).or_default();
        if fence < *acted && !self.is_forgetful {
            let how = format!("session {session}: owner {fence:?} acts after {acted:?}");
            return broken(1, how);
        }
        *acted = fence.max(*acted);
        Ok(())
    }

    // ---- the store

    fn apply(&mut self, at: usize) {
        if self.replicas[self.calls[at].replica].partitioned {
            return;
        }
        let ask = self.calls[at].ask.clone();
        let said = self.store.hear(ask, self.policy.length, self.now);
        match self.calls[at].given_up {
            true => drop(self.calls.remove(at)),
            false => self.calls[at].said = Some(said),
        }
    }

    /// Whoever waits for a call learns that there is no answer.
    fn fail(&mut self, at: usize) {
        let Call {
            replica, run, ask, ..
        } = &self.calls[at];
        let (replica, run, ask) = (*replica, *run, ask.clone());
        if self.replicas[replica].run != run {
            return;
        }
        let now = self.local(replica);
        match ask {
            Ask::Renew(owner, _) if owner == self.replicas[replica].owner => {
                self.replicas[replica].lease.answered(now, Renewal::Failed);
            }
            Ask::Claim(session, ..) => self.turn_away(replica, session),
            // A write is made again, under its number.
            _ => {}
        }
    }

    /// Whoever waits for a session at a replica is told to come again.
    fn turn_away(&mut self, replica: usize, session: u32) {
        let replica = &mut self.replicas[replica];
        for (_, id) in replica.arrivals.extract_if(.., |it| it.0 == session) {
            if let Some(request) = self.requests.get_mut(&id) {
                request.place = Place::Over;
            }
        }
        replica.returns.retain(|it| it.0 != session);
    }

    fn deliver(&mut self, at: usize) -> Result<(), Broken> {
        let call = self.calls.remove(at);
        let (replica, Some(said)) = (call.replica, call.said) else {
            return Ok(());
        };
        if self.replicas[replica].run != call.run {
            return Ok(());
        }
        let now = self.local(replica);
        match (call.ask, said) {
            (Ask::Renew(owner, _), Said::Renewed(granted)) => {
                let replica = &mut self.replicas[replica];
                let renewal = match granted {
                    true => Renewal::Granted,
                    false => Renewal::Refused,
                };
                if owner == replica.owner {
                    replica.lease.answered(now, renewal);
                }
            }
            (Ask::Begin(id, principal, by, _), Said::Begun(tenure)) => {
                // The client knows its session from now on.
                self.sessions.push((id, principal));
                if by == self.replicas[replica].owner && self.may_act(replica) {
                    self.replicas[replica].lives.insert(id, Live::begun(tenure));
                }
            }
            (Ask::Claim(session, principal, by), said) => {
                self.claimed(replica, session, principal, by.0, said)?;
            }
            (Ask::Write(session, tenure, number, _), Said::Written(stored)) => {
                let lives = &mut self.replicas[replica].lives;
                let live = lives.get_mut(&session).filter(|it| it.tenure == tenure);
                match (live, stored) {
                    (Some(live), true) => live.stored(number),
                    (Some(_), false) => {
                        self.seen.fenced += 1;
                        self.drop_session(replica, session);
                    }
                    (None, _) => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn claimed(
        &mut self,
        replica: usize,
        session: u32,
        principal: &str,
        by: u64,
        said: Said,
    ) -> Result<(), Broken> {
        let owner = self.sessions.iter().find(|it| it.0 == session);
        let is_own = owner.is_some_and(|it| it.1 == principal);
        match said {
            Said::Granted(..) if !is_own => {
                broken(6, format!("session {session} was given to {principal}"))
            }
            Said::Granted(tenure, parts)
                if by == self.replicas[replica].owner.0 && self.may_act(replica) =>
            {
                let kept = KeptSession::read(parts).expect("a session");
                self.seen.takeovers += 1;
                self.drop_session(replica, session);
                let live = Live::taken_over(tenure, &kept);
                self.replicas[replica].lives.insert(session, live);
                let here = &mut self.replicas[replica];
                let arrivals: Vec<_> = here.arrivals.extract_if(.., |it| it.0 == session).collect();
                let returns: Vec<_> = here.returns.extract_if(.., |it| it.0 == session).collect();
                for (_, id) in returns {
                    if matches!(self.requests[&id].place, Place::Cut) {
                        self.resume(id, replica)?;
                    }
                }
                for (_, id) in arrivals {
                    self.hear(replica, id)?;
                }
                Ok(())
            }
            Said::Absent if is_own && !self.is_forgetful => {
                broken(4, format!("session {session} is not there any more"))
            }
            said => {
                self.seen.held += u64::from(matches!(said, Said::Held));
                if is_own {
                    self.turn_away(replica, session);
                }
                Ok(())
            }
        }
    }

    // ---- replicas

    /// A replica does not answer for a session any more.
    fn drop_session(&mut self, replica: usize, session: u32) {
        let run = self.replicas[replica].run;
        let here = self.where_it(|it| {
            it.session == session
                && matches!(it.place, Place::Waiting(at, r, ..) | Place::Streaming(at, r, _) if at == replica && r == run)
        });
        for id in here {
            self.disconnect(id);
        }
        self.replicas[replica].lives.remove(&session);
    }

    fn drop_all(&mut self, replica: usize) {
        let all: Vec<u32> = self.replicas[replica].lives.keys().copied().collect();
        for session in all {
            self.drop_session(replica, session);
        }
        let arrivals = std::mem::take(&mut self.replicas[replica].arrivals);
        for (session, id) in arrivals {
            self.replicas[replica].arrivals.push((session, id));
            self.turn_away(replica, session);
        }
        self.replicas[replica].returns.clear();
    }

    fn kill(&mut self, replica: usize) {
        self.drop_all(replica);
        self.replicas[replica].run += 1;
        self.replicas[replica].paused = false;
        self.rename(replica);
    }

    fn rename(&mut self, replica: usize) {
        let owner = self.fresh();
        let replica = &mut self.replicas[replica];
        let (run, rate) = (replica.run, replica.rate);
        let partitioned = replica.partitioned;
        *replica = Replica::new(owner, rate, self.policy);
        (replica.run, replica.partitioned) = (run, partitioned);
    }

    /// Has a replica do what it can.
    fn pump(&mut self, replica: usize) -> Result<(), Broken> {
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
                    self.drop_all(replica);
                    self.rename(replica);
                }
            }
        }
        if !self.may_act(replica) {
            return Ok(());
        }
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
        let run = self.replicas[replica].run;
        let waiting = self.where_it(|it| {
            it.session == session
                && matches!(it.place, Place::Waiting(at, r, ..) if at == replica && r == run)
        });
        for id in waiting {
            let Place::Waiting(_, _, reading, promise) = self.requests[&id].place else {
                continue;
            };
            let Some(live) = self.replicas[replica].lives.get_mut(&session) else {
                return Ok(());
            };
            let fence = live.tenure.fence;
            match promise {
                Some(noted) if live.written >= noted => {
                    // Its client is told where to come back to.
                    live.buffer.prime(reading);
                    let request = self.requests.get_mut(&id).expect("a request");
                    request.promised = true;
                    request.place = Place::Streaming(replica, run, reading);
                    self.act(session, fence)?;
                }
                Some(_) => {}
                None => match live.buffer.beginning(reading) {
                    Some(Beginning::Answer(_)) => {
                        live.buffer.detach(reading);
                        self.seen.plain += 1;
                        let request = self.requests.get_mut(&id).expect("a request");
                        request.answers += 1;
                        request.place = Place::Over;
                        self.act(session, fence)?;
                    }
                    Some(_) => self.promise(id),
                    None => {}
                },
            }
        }
        Ok(())
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

    // ---- the end

    /// Everything works again; what was promised is kept, and in time.
    pub fn end(&mut self) -> Result<(), Broken> {
        for replica in &mut self.replicas {
            (replica.paused, replica.partitioned) = (false, false);
        }
        let healed = self.now;
        let (step, length) = (Duration::from_millis(500), self.policy.length);
        // A claim may have been answered in vain just before its owner ended, so a second lease may have to run out.
        let bound = length * 3 + step * 20;
        let open = |world: &World| {
            world.where_it(|it| {
                it.promised && it.answers == 0 && !matches!(it.place, Place::Over)
                    || matches!(
                        it.place,
                        Place::Waiting(..) | Place::Arriving | Place::Streaming(..)
                    )
            })
        };
        let mut turn = 0;
        while !open(self).is_empty() {
            self.settle(step)?;
            for id in self.where_it(|it| matches!(it.place, Place::Cut)) {
                turn += 1;
                self.resume(id, turn % 3)?;
            }
            for n in 0..8 {
                self.answer(n, true);
            }
            for id in self.where_it(|it| matches!(it.place, Place::Streaming(..))) {
                for _ in 0..8 {
                    self.read(id)?;
                }
            }
            if self.now - healed > bound {
                let left = open(self);
                if self.is_forgetful {
                    break;
                }
                return broken(5, format!("{left:?} wait for longer than {bound:?}"));
            }
        }
        for (id, request) in &self.requests {
            let Request {
                promised, answers, ..
            } = request;
            if *answers > 1 && !self.is_forgetful
                || *promised && *answers == 0 && !self.is_forgetful
            {
                return broken(2, format!("request {id} was answered {answers} times"));
            }
        }
        match self.is_forgetful {
            true => Ok(()),
            false => self.everybody_is_answered(),
        }
    }

    /// Each session can be used at each replica, sooner or later.
    fn everybody_is_answered(&mut self) -> Result<(), Broken> {
        let step = Duration::from_millis(500);
        let sessions = self.sessions.clone();
        for (session, _) in sessions {
            let begun = self.now;
            'session: loop {
                for replica in 0..3 {
                    self.call(session, replica, false)?;
                    let id = self.numbers;
                    for _ in 0..4 {
                        self.settle(step)?;
                        for n in 0..8 {
                            self.answer(n, true);
                        }
                    }
                    self.settle(step)?;
                    if self.requests.get(&id).is_some_and(|it| it.answers == 1) {
                        break 'session;
                    }
                }
                if self.now - begun > self.policy.length * 3 {
                    return broken(5, format!("session {session} is not answered"));
                }
            }
        }
        Ok(())
    }

    /// Time passes, and whatever is on its way arrives.
    fn settle(&mut self, step: Duration) -> Result<(), Broken> {
        self.now = self.now + step;
        for _ in 0..6 {
            for replica in 0..self.replicas.len() {
                self.pump(replica)?;
            }
            while let Some(at) = self.calls_where(|it| it.said.is_none()).first() {
                self.apply(*at);
            }
            while let Some(at) = self.calls_where(|it| it.said.is_some()).first() {
                self.deliver(*at)?;
            }
        }
        Ok(())
    }
}

fn pick<T: Copy>(among: &[T], n: u8) -> Option<T> {
    let len = among.len();
    (len > 0).then(|| among[usize::from(n) % len])
}
