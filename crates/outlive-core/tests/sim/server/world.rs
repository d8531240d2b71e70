//! A world around one server: a client, handlers, a driver and a clock. The world keeps its own
//! books, independent of the server's, and checks the invariants after every step.

use std::collections::BTreeMap;
use std::time::Duration;

use outlive_core::Frame;
use outlive_core::Time;
use outlive_core::server::{Channel, Input, Output, Server, ServerPolicy, Ticket};

use crate::known;
use crate::schedule::Dice;
use crate::world::Broken;

use super::schedule::Method;

/// A request the client has made.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) id: u64,
    pub(super) method: Method,
    /// Its progress token, which no other request has.
    pub(super) token: u64,
    /// The client waits for it.
    pub(super) open: bool,
    pub(super) cancelled: bool,
}

/// A handler that was started and is neither done nor dropped.
#[derive(Clone, Debug)]
pub(super) struct Handler {
    /// The request it will answer; `None` while nobody waits.
    pub(super) asked: Option<usize>,
    pub(super) modern: bool,
    pub(super) started: Time,
    /// When it was told that nobody waits.
    pub(super) told: Option<Time>,
    /// When its request was answered with a question.
    pub(super) parked: Option<Time>,
    /// It has asked something, so its clock may have stood still.
    pub(super) has_asked: bool,
}

/// A question of ours.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) within: Option<Ticket>,
    pub(super) open: bool,
    pub(super) taken_back: bool,
    /// When it was sent as a request.
    pub(super) sent: Option<Time>,
    /// How often the client was told that nobody waits for it.
    pub(super) withdrawn: u32,
}

/// How the end has come, as far as it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    No,
    /// The client has closed its side, and may still read.
    Input,
    /// A shutdown was asked for.
    Shutdown,
    /// Nobody reads.
    Broken,
}

#[derive(Clone)]
pub struct World {
    pub(super) server: Server,
    pub(super) policy: ServerPolicy,
    pub(super) now: Time,
    pub(super) asked: Vec<Asked>,
    pub(super) handlers: BTreeMap<Ticket, Handler>,
    /// Tickets that are over.
    pub(super) done: Vec<Ticket>,
    pub(super) questions: BTreeMap<u64, Question>,
    pub(super) next_question: u64,
    /// States the client was given, and what to call for again.
    pub(super) states: Vec<(String, Ticket)>,
    /// The error that is owed at once, for an id that is taken or a line that cannot be read.
    pub(super) owed: Vec<u64>,
    pub(super) progress: BTreeMap<u64, f64>,
    /// The handler whose end is being reported.
    pub(super) leaving: Option<Ticket>,
    /// The client sends no more.
    pub(super) deaf: bool,
    pub(super) over: Over,
    /// When the client closed its side.
    pub(super) input_ended: Time,
    pub(super) shutdowns: u32,
    pub(super) slept: bool,
    pub(super) closed: bool,
    /// The frame being handled came when no more requests could wait.
    pub(super) crowded: bool,
    /// What was seen, and how often.
    pub seen: BTreeMap<&'static str, u64>,
    pub log: Vec<String>,
    pub verbose: bool,
}

/// What schedules must come across to mean anything.
pub const SIGHTS: &[&str] = &[
    "answered",
    "cancelled while running",
    "cancelled while waiting",
    "late answer",
    "timeout",
    "dropped",
    "parked",
    "resumed",
    "asked again",
    "given up while parked",
    "question sent",
    "question answered",
    "question timed out",
    "question withdrawn",
    "refused: overloaded",
    "refused: duplicate",
    "refused: shutting down",
    "refused: unknown state",
    "stream opened",
    "stream cancelled",
    "stream ended",
    "drained",
    "not read",
];

pub(super) const TOO_LONG: u64 = 1 << 30;

impl World {
    pub fn new(dice: &mut Dice) -> World {
        let ms = Duration::from_millis;
        let policy = ServerPolicy {
            concurrency: 1 + dice.below(3) as usize,
            queue: 1 + dice.below(3) as usize,
            queue_bytes: [400, 64 << 10][dice.below(2) as usize],
            running_bytes: [600, 64 << 10][dice.below(2) as usize],
            asks: 1 + dice.below(3) as usize,
            subscriptions: 2,
            tombstones: 2,
            parked: 1 + dice.below(2) as usize,
            parked_for: ms(900),
            grace: ms(300),
            drain: ms(700),
            deadline: (dice.below(2) == 0).then(|| ms(800)),
            ask_timeout: (dice.below(2) == 0).then(|| ms(500)),
            ..World::policy()
        };
        World::with(policy)
    }

    pub fn policy() -> ServerPolicy {
        ServerPolicy {
            info: r#"{"name":"s","version":"1"}"#.into(),
            capabilities:
                r#"{"logging":{},"resources":{"subscribe":true},"tools":{"listChanged":true}}"#
                    .into(),
            methods: ["tools/call", "tools/list"].map(Into::into).into(),
            ..ServerPolicy::default()
        }
    }

    pub fn with(policy: ServerPolicy) -> World {
        World {
            server: Server::new(policy.clone(), [3; 16]),
            policy,
            now: Time::ZERO,
            asked: Vec::new(),
            handlers: BTreeMap::new(),
            done: Vec::new(),
            questions: BTreeMap::new(),
            next_question: 0,
            states: Vec::new(),
            owed: Vec::new(),
            progress: BTreeMap::new(),
            leaving: None,
            deaf: false,
            over: Over::No,
            input_ended: Time::ZERO,
            shutdowns: 0,
            slept: false,
            closed: false,
            crowded: false,
            seen: BTreeMap::new(),
            log: Vec::new(),
            verbose: false,
        }
    }

    pub(super) fn see(&mut self, what: &'static str) {
        debug_assert!(SIGHTS.contains(&what), "{what}");
        *self.seen.entry(what).or_default() += 1;
    }

    pub(super) fn note(&mut self, words: impl FnOnce() -> String) {
        if self.verbose {
            let at = self.now.since_start().as_millis();
            self.log.push(format!("{at:>7} {}", words()));
        }
    }

    /// The request the client waits for under this id.
    pub(super) fn open(&self, id: u64) -> Option<usize> {
        self.asked.iter().rposition(|a| a.open && a.id == id)
    }

    pub(super) fn client(&mut self, line: String) -> Result<(), Broken> {
        self.frame(Frame::read(line.into()))
    }

    /// The driver reads a frame, if the server wants one.
    pub(super) fn frame(&mut self, frame: Frame) -> Result<(), Broken> {
        let queued = self.server.sizes().queued;
        // The last of a batch may find the queue full that the first found empty.
        let batch = matches!(&frame, Frame::Batch(_));
        self.crowded =
            batch || queued.0 >= self.policy.queue || queued.1 >= self.policy.queue_bytes;
        self.handle(Input::Frame(Channel::MAIN, frame))?;
        self.crowded = false;
        match self.owed.first() {
            Some(id) => Err(format!("1: the second request {id} got no answer")),
            None => Ok(()),
        }
    }

    /// Something happens; what comes of it is checked piece by piece and as a whole.
    pub(super) fn handle(&mut self, input: Input) -> Result<(), Broken> {
        self.note(|| format!("> {input:?}"));
        self.server.handle(self.now, input);
        while let Some(output) = self.server.poll() {
            self.note(|| format!("  < {output:?}"));
            if self.closed {
                return Err(format!("10: after the end: {output:?}"));
            }
            match output {
                Output::Send(_, message) => {
                    known::check(&message)?;
                    self.sent(message.bytes())?;
                }
                Output::Start(ticket, request) => self.started(ticket, &request)?,
                Output::Cancel(ticket, reason) => self.told(ticket, &reason)?,
                Output::Drop(ticket) => self.dropped(ticket)?,
                Output::Asked(id, answer) => self.question_ends(id.0, &answer)?,
                Output::Closed => self.ended()?,
                Output::Notified(_) | Output::Event(_) | Output::Done(_) => {}
            }
        }
        if let Some(ticket) = self.leaving.take()
            && self.handlers.remove(&ticket).is_some()
        {
            self.done.push(ticket);
        }
        self.check()
    }

    /// Whether nobody can be told anything any more.
    pub(super) fn is_mute(&self) -> bool {
        self.over == Over::Broken || self.closed
    }

    /// Lets the next timer fire, if it is due by then. It must not be due again at once for ever.
    pub(super) fn tick_until(&mut self, limit: Option<Time>) -> Result<bool, Broken> {
        for _ in 0..50 {
            match self.server.deadline() {
                Some(due) if limit.is_none_or(|limit| due <= limit) => {
                    let late = due <= self.now;
                    self.now = self.now.max(due);
                    self.handle(Input::Tick)?;
                    if !late {
                        return Ok(true);
                    }
                }
                _ => return Ok(false),
            }
        }
        Err("3: a timer that is due for ever".into())
    }

    /// Time passes, and every timer on the way is served when it is due.
    pub(super) fn advance(&mut self, by: Duration) -> Result<(), Broken> {
        let target = self.now + by;
        while self.tick_until(Some(target))? {}
        self.now = target;
        Ok(())
    }
}
