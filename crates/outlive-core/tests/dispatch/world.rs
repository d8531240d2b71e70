//! A host, a network on which posts overtake each other, and a server, around one dispatch, with books of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use outlive_core::dispatch::{Dispatch, Input, OVERHEAD, Output, Timing};
use outlive_core::{Message, Time};

use super::schedule::Step;

/// An invariant that does not hold.
#[derive(Debug)]
pub struct Broken {
    pub invariant: u8,
    pub how: String,
}

fn broken<T>(invariant: u8, how: impl Into<String>) -> Result<T, Broken> {
    let how = how.into();
    Err(Broken { invariant, how })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Initialize,
    Initialized,
    Call {
        modern: bool,
    },
    Notify,
    Respond,
    /// Of this message.
    Cancel(u64),
}

/// A message of the host, and how far it has come.
#[derive(Clone, Debug)]
struct Sent {
    what: What,
    bytes: usize,
    posted: Option<Time>,
    arrived: bool,
    /// Acknowledged or answered.
    done: bool,
    /// It will not leave, and is not to.
    void: bool,
    aborted: bool,
}

impl Sent {
    fn is_request(&self) -> bool {
        matches!(self.what, What::Initialize | What::Call { .. })
    }
}

/// What schedules came across.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    posted: usize,
    cancelled_before_leaving: usize,
    cancelled_on_the_way: usize,
    cancelled_at_work: usize,
    aborted: usize,
    renewed: usize,
    unlistened: usize,
    listened_again: usize,
    order_given_up: usize,
    unsent: usize,
}

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        self.posted += other.posted;
        self.cancelled_before_leaving += other.cancelled_before_leaving;
        self.cancelled_on_the_way += other.cancelled_on_the_way;
        self.cancelled_at_work += other.cancelled_at_work;
        self.aborted += other.aborted;
        self.renewed += other.renewed;
        self.unlistened += other.unlistened;
        self.listened_again += other.listened_again;
        self.order_given_up += other.order_given_up;
        self.unsent += other.unsent;
    }

    pub fn check(&self) {
        for (what, n) in [
            ("posted", self.posted),
            ("cancelled before leaving", self.cancelled_before_leaving),
            ("cancelled on the way", self.cancelled_on_the_way),
            ("cancelled at work", self.cancelled_at_work),
            ("aborted", self.aborted),
            ("renewed", self.renewed),
            ("unlistened", self.unlistened),
            ("listened again", self.listened_again),
            ("order given up", self.order_given_up),
            ("unsent", self.unsent),
        ] {
            assert!(n >= 5, "{what}: {n} in {self:?}");
        }
    }
}

pub struct World {
    dispatch: Dispatch,
    timing: Timing,
    aside: bool,
    now: Time,
    sent: BTreeMap<u64, Sent>,
    heard: Time,
    /// Since when the server's stream is being opened; none: it is open, or not wanted.
    get: Option<Time>,
    /// The server has let the time for an acknowledgement pass.
    slow: bool,
    ended: bool,
    renewed: bool,
    pub log: Vec<String>,
    pub seen: Seen,
}

impl World {
    pub fn new(aside: bool) -> World {
        let timing = Timing::default();
        let mut world = World {
            dispatch: Dispatch::new(timing),
            timing,
            aside,
            now: Time::ZERO,
            sent: BTreeMap::new(),
            heard: Time::ZERO,
            get: None,
            slow: false,
            ended: false,
            renewed: false,
            log: Vec::new(),
            seen: Seen::default(),
        };
        if aside {
            world.dispatch.handle(world.now, Input::Opening);
            world.dispatch.handle(world.now, Input::Opened);
        }
        world
    }

    fn say(&mut self, what: impl Into<String>) {
        let at = self.now.since_start().as_millis();
        self.log.push(format!("{at:>6} {}", what.into()));
    }

    pub fn step(&mut self, step: Step) -> Result<(), Broken> {
        match step {
            Step::Initialize => self.send(What::Initialize),
            Step::Initialized => self.send(What::Initialized),
            Step::Call(modern) => self.send(What::Call { modern }),
            Step::Notify => self.send(What::Notify),
            Step::Respond => self.send(What::Respond),
            Step::Cancel(n) => self.cancel(n),
            Step::Arrive(n) => self.arrive(n),
            Step::Answer(n) => self.answer(n),
            Step::AnswerGet => self.answer_get(),
            Step::Break if self.is_initialized() && self.get.is_none() && !self.aside => {
                self.say("the stream breaks");
                self.get = Some(self.now);
                self.seen.listened_again += 1;
                self.feed(Input::Listening)
            }
            Step::Break => Ok(()),
            Step::Wait(ms) => self.wait_until(self.now + Duration::from_millis(ms.into())),
            Step::Tick => match self.dispatch.deadline() {
                Some(at) => self.wait_until(at),
                None => Ok(()),
            },
            Step::End if !self.ended => {
                self.say("the link ends");
                self.ended = true;
                self.feed(Input::End)
            }
            Step::End => Ok(()),
        }
    }

    fn is_initialized(&self) -> bool {
        let taken = |it: &Sent| it.what == What::Initialized && it.done;
        self.sent.values().any(taken)
    }

    /// The host sends a message. It goes by the protocol: one handshake, `initialized` after its answer.
    fn send(&mut self, what: What) -> Result<(), Broken> {
        let has = |what: What| self.sent.values().any(|it| it.what == what);
        let shaken = |it: &Sent| it.what == What::Initialize && it.done;
        let out_of_place = match what {
            What::Initialize => has(What::Initialize),
            What::Initialized => has(What::Initialized) || !self.sent.values().any(shaken),
            _ => false,
        };
        if out_of_place {
            return Ok(());
        }
        let number = self.sent.len() as u64;
        let line = match what {
            What::Initialize => {
                format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"initialize","params":{{}}}}"#)
            }
            What::Initialized => r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into(),
            What::Call { modern: false } => {
                format!(
                    r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"t"}}}}"#
                )
            }
            What::Call { modern: true } => format!(
                r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"t","_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}}}}"#
            ),
            What::Notify => {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"n":{number}}}}}"#
                )
            }
            What::Respond => format!(r#"{{"jsonrpc":"2.0","id":"s{number}","result":{{}}}}"#),
            What::Cancel(of) => format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{of}}}}}"#
            ),
        };
        self.say(format!("host sends {number}: {what:?}"));
        let sent = Sent {
            what,
            bytes: line.len(),
            posted: None,
            arrived: false,
            done: false,
            void: self.ended,
            aborted: false,
        };
        self.sent.insert(number, sent);
        let message = Message::read(line.into()).expect("a message");
        self.feed(Input::Send(message))
    }

    fn cancel(&mut self, n: u8) -> Result<(), Broken> {
        let cancelled: Vec<u64> = (self.sent.values())
            .filter_map(|it| match it.what {
                What::Cancel(of) => Some(of),
                _ => None,
            })
            .collect();
        // The session passes on one cancellation of a request that is not finished.
        let fits = |(number, it): &(&u64, &Sent)| {
            matches!(it.what, What::Call { .. }) && !it.done && !cancelled.contains(number)
        };
        let Some((&of, request)) = self.sent.iter().filter(fits).nth_back(n.into()) else {
            return Ok(());
        };
        let request = request.clone();
        let own = self.sent.len() as u64;
        let modern = request.what == What::Call { modern: true };
        let suspicious = request.posted.is_some_and(|left| {
            self.heard <= left
                && self.now - left >= self.timing.silence
                && !self.is_with_server(&request)
        });
        if request.posted.is_none() {
            self.sent.get_mut(&of).expect("it").void = true;
            self.seen.cancelled_before_leaving += 1;
        }
        self.renewed = false;
        let ended = self.ended;
        self.send(What::Cancel(of))?;
        if ended {
            return Ok(());
        }
        let it = self.sent[&own].clone();
        match request.posted {
            None => self.sent.get_mut(&own).expect("it").void = true,
            Some(_) if modern && !self.is_with_server(&request) => {
                self.sent.get_mut(&own).expect("it").void = true;
                if !self.sent[&of].aborted {
                    return broken(2, format!("{of} is modern, was cancelled and goes on"));
                }
            }
            Some(_) if request.arrived && it.posted.is_none() => {
                return broken(
                    2,
                    format!("the server has {of}, and its cancellation {own} waits"),
                );
            }
            Some(_) if request.arrived => self.seen.cancelled_at_work += 1,
            Some(_) => self.seen.cancelled_on_the_way += 1,
        }
        if self.renewed != suspicious {
            return broken(
                24,
                format!(
                    "connections renewed: {}, suspicious: {suspicious}",
                    self.renewed
                ),
            );
        }
        Ok(())
    }

    /// Its answer is not its exchange's, and it is the server's.
    fn is_with_server(&self, request: &Sent) -> bool {
        self.aside && request.arrived
    }

    /// A post arrives: which is a matter of luck.
    fn arrive(&mut self, n: u8) -> Result<(), Broken> {
        let under_way = |(_, it): &(&u64, &Sent)| it.posted.is_some() && !it.arrived && !it.aborted;
        let Some((&number, it)) = self.sent.iter().filter(under_way).nth(n.into()) else {
            return Ok(());
        };
        let it = it.clone();
        self.say(format!("{number} arrives"));
        if !matches!(it.what, What::Cancel(_)) {
            for (earlier, other) in self.sent.range(..number) {
                if other.is_request() || other.arrived || other.void {
                    continue;
                }
                let Some(left) = other.posted else {
                    // A cancellation that waits for its own request holds nobody up.
                    if matches!(other.what, What::Cancel(_)) {
                        continue;
                    }
                    return broken(
                        8,
                        format!("{number} overtakes {earlier}, which has not left"),
                    );
                };
                let patience = match self.slow {
                    true => self.timing.order_slow,
                    false => self.timing.order,
                };
                let posted = it.posted.unwrap_or_default();
                if posted - left < patience
                    && left <= posted
                    && !matches!(other.what, What::Cancel(_))
                {
                    return broken(8, format!("{number} overtakes {earlier}"));
                }
                self.seen.order_given_up += 1;
            }
        }
        if let What::Cancel(of) = it.what {
            let request = &self.sent[&of];
            let left = request.posted.unwrap_or_default();
            if !request.arrived
                && !request.done
                && it.posted.unwrap_or_default() - left < self.timing.order
            {
                return broken(
                    2,
                    format!("the cancellation {number} overtakes its request {of}"),
                );
            }
        }
        self.sent.get_mut(&number).expect("it").arrived = true;
        match it.is_request() {
            true => self.feed(Input::Taken(number)),
            false => Ok(()),
        }
    }

    fn answer(&mut self, n: u8) -> Result<(), Broken> {
        let here = |(_, it): &(&u64, &Sent)| it.arrived && !it.done;
        let Some((&number, it)) = self.sent.iter().filter(here).nth(n.into()) else {
            return Ok(());
        };
        let it = it.clone();
        self.say(format!("{number} is answered"));
        self.heard = self.now;
        self.sent.get_mut(&number).expect("it").done = true;
        if it.what == What::Initialized && !self.aside {
            self.get = Some(self.now);
        }
        self.dispatch.handle(self.now, Input::Heard);
        match (it.is_request(), self.aside) {
            (false, _) => self.feed(Input::Taken(number)),
            (true, false) => self.feed(Input::Over(number)),
            (true, true) => self.feed(Input::Answered(outlive_core::Id::Int(number as i64))),
        }
    }

    fn answer_get(&mut self) -> Result<(), Broken> {
        if self.get.take().is_none() {
            return Ok(());
        }
        self.say("the GET is answered");
        self.feed(Input::Listened)
    }

    fn wait_until(&mut self, to: Time) -> Result<(), Broken> {
        while let Some(at) = self.dispatch.deadline().filter(|at| *at <= to) {
            if at < self.now {
                return broken(3, "a deadline in the past");
            }
            self.now = at;
            self.note_slow();
            self.feed(Input::Tick)?;
            if self.dispatch.deadline() == Some(at) {
                return broken(3, "a deadline that stays");
            }
        }
        self.now = self.now.max(to);
        self.note_slow();
        self.feed(Input::Tick)
    }

    fn note_slow(&mut self) {
        let order = self.timing.order;
        let late = |it: &Sent| {
            !it.is_request() && !it.done && it.posted.is_some_and(|left| self.now - left >= order)
        };
        self.slow |= self.sent.values().any(late);
    }

    fn feed(&mut self, input: Input) -> Result<(), Broken> {
        self.dispatch.handle(self.now, input);
        while let Some(output) = self.dispatch.poll() {
            self.carry_out(output)?;
        }
        self.count()
    }

    fn carry_out(&mut self, output: Output) -> Result<(), Broken> {
        match output {
            Output::Post(number, _) => self.post(number),
            Output::Listen | Output::Initialized => Ok(()),
            Output::Unlistened => {
                self.seen.unlistened += 1;
                match self
                    .get
                    .is_some_and(|since| self.now - since >= self.timing.listen)
                {
                    true => Ok(()),
                    false => broken(3, "given up listening before its time"),
                }
            }
            Output::Abort(number) => {
                self.say(format!("{number} is aborted"));
                self.seen.aborted += 1;
                let cancelled = |it: &Sent| it.what == What::Cancel(number);
                if !self.sent.values().any(cancelled) {
                    return broken(2, format!("{number} was aborted and not cancelled"));
                }
                let it = self.sent.get_mut(&number).expect("it was sent");
                it.aborted = true;
                it.done = true;
                Ok(())
            }
            Output::Renew => {
                self.seen.renewed += 1;
                self.renewed = true;
                Ok(())
            }
            Output::Unsent(id) => {
                self.seen.unsent += 1;
                let outlive_core::Id::Int(number) = id else {
                    return broken(4, "an id nobody used");
                };
                let it = self.sent.get_mut(&(number as u64)).expect("it was sent");
                it.void = true;
                match it.posted {
                    None => Ok(()),
                    Some(_) => broken(4, format!("{number} has left and is called unsent")),
                }
            }
        }
    }

    fn post(&mut self, number: u64) -> Result<(), Broken> {
        self.say(format!("{number} leaves"));
        self.seen.posted += 1;
        let it = self.sent[&number].clone();
        if it.posted.is_some() || it.void || self.ended {
            return broken(4, format!("{number} leaves although it must not: {it:?}"));
        }
        let waits_for = |what: What| {
            self.sent
                .values()
                .any(|it| it.what == what && it.posted.is_some() && !it.done)
        };
        if !matches!(it.what, What::Cancel(_)) {
            if waits_for(What::Initialize) || waits_for(What::Initialized) {
                return broken(8, format!("{number} leaves in the middle of the handshake"));
            }
            if let Some(since) = self.get
                && self.now - since < self.timing.listen
            {
                return broken(17, format!("{number} leaves and nobody listens"));
            }
        }
        self.sent.get_mut(&number).expect("it").posted = Some(self.now);
        Ok(())
    }

    /// The books against what the dispatch counts.
    fn count(&mut self) -> Result<(), Broken> {
        if self.ended {
            // What will not leave is not counted; a message that is void is not either.
            for it in self.sent.values_mut().filter(|it| it.posted.is_none()) {
                it.void = true;
            }
        }
        let open = |it: &&Sent| !it.void && (it.posted.is_none() || !it.is_request() && !it.done);
        let held = self.sent.values().filter(open);
        let least: usize = held.map(|it| it.bytes + OVERHEAD).sum();
        let backlog = self.dispatch.backlog();
        // A cancellation for a request that is over, or was never to leave, is forgotten.
        let forgotten: usize = (self.sent.values())
            .filter(|it| matches!(it.what, What::Cancel(of) if it.posted.is_none() && (self.sent[&of].done || self.sent[&of].void)))
            .filter(|it| !it.void)
            .map(|it| it.bytes + OVERHEAD)
            .sum();
        if backlog + forgotten < least || backlog > least {
            let how = format!("{backlog} counted, there are {least} (of these {forgotten} moot)");
            return broken(7, how);
        }
        let sent = self.dispatch.sent();
        for (number, it) in self.sent.iter().filter(|(_, it)| it.is_request()) {
            match it.posted {
                Some(_) if *number >= sent => {
                    return broken(4, format!("{number} has left, and {sent} are said to have"));
                }
                None if *number < sent && !it.void => {
                    return broken(
                        4,
                        format!("{number} has not left, and {sent} are said to have"),
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The server answers everything: all leaves, and nothing is left to count.
    pub fn end_well(&mut self) -> Result<(), Broken> {
        for _ in 0..4 * self.sent.len() + 8 {
            self.answer_get()?;
            self.arrive(0)?;
            self.answer(0)?;
            if let Some(at) = self.dispatch.deadline() {
                self.wait_until(at)?;
            }
        }
        self.all_has_left()?;
        match self.dispatch.backlog() {
            0 => Ok(()),
            n => broken(7, format!("{n} bytes are left of nothing")),
        }
    }

    /// The server answers nothing any more: all leaves all the same, but for what waits for the handshake.
    pub fn end_mute(&mut self) -> Result<(), Broken> {
        for _ in 0..4 * self.sent.len() + 8 {
            let Some(at) = self.dispatch.deadline() else {
                break;
            };
            self.wait_until(at)?;
        }
        let begun = |it: &Sent| {
            matches!(it.what, What::Initialize | What::Initialized)
                && it.posted.is_some()
                && !it.done
        };
        if self.sent.values().any(begun) {
            return Ok(());
        }
        self.all_has_left()
    }

    fn all_has_left(&self) -> Result<(), Broken> {
        for (number, it) in &self.sent {
            let moot =
                matches!(it.what, What::Cancel(of) if self.sent[&of].done || self.sent[&of].void);
            if it.posted.is_none() && !it.void && !moot {
                return broken(3, format!("{number} never leaves: {it:?}"));
            }
        }
        Ok(())
    }
}
