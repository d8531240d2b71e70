//! The server: a session seen from the other side.
//!
//! # Theory
//!
//! A request of the client becomes a [`Ticket`], and a handler is started for it, now or when
//! another one is done. The ticket leaves the table once: with the handler's answer, with an error
//! of ours, or with the client's cancellation. There is no other way to answer than to take it
//! out, so no answer can meet a cancellation half-way, and one that comes too late finds nothing.
//!
//! # The one contract
//!
//! As with a [`Session`](crate::Session): after every [`Server::handle`], call [`Server::poll`]
//! until it returns `None` and carry out each [`Output`] in that order; then wait for the next
//! input, but no longer than [`Server::deadline`], and report [`Input::Tick`] when that moment
//! comes. Ask [`Server::wants_input`] before each frame that is reported; one that is reported all
//! the same may be refused for want of room.
//!
//! | file | what happens there |
//! |---|---|
//! | `client` | a message from the client |
//! | `channel` | where it came from, and where the answer goes |
//! | `handshake` | who the client is |
//! | `table`, `timers` | the tickets, and what is due when |
//! | `handler` | handlers are started, answer, are cancelled |
//! | `request`, `answer` | what a handler is given, and what it gives back |
//! | `result`, `refusal` | results and errors as the client reads them |
//! | `ask`, `round` | handlers ask the client something: as a request, or in round trips |
//! | `state` | what clients carry between them, and who can open it |
//! | `subscriptions`, `notice`, `level` | the client is told things: changes, progress, log messages from a level on |
//! | `close` | the end |
//! | `policy`, `event` | the settings; what people who watch the server are told |

mod answer;
mod ask;
mod channel;
mod client;
mod close;
mod event;
mod handler;
pub(crate) mod handshake;
mod level;
mod notice;
mod policy;
pub(crate) mod refusal;
mod request;
pub(crate) mod result;
mod round;
mod state;
mod subscriptions;
mod table;
mod timers;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::Error;
use crate::event::DropReason;
use crate::frame::Frame;
use crate::ledger::sooner;
use crate::message::Message;
use crate::principal::Principal;
use crate::protocol::List;
use crate::time::{Clock, Time};

pub use self::answer::{Answer, RpcError};
pub use self::ask::{Ask, AskId};
pub use self::channel::Channel;
pub use self::event::{CloseKind, ServerEvent};
pub use self::level::Level;
pub use self::policy::ServerPolicy;
pub use self::request::{CancelReason, Peer, Request, Ticket};
pub use self::state::StateKeys;

use self::ask::Asks;
use self::close::Ending;
use self::handshake::{Features, Introduction};
use self::refusal::ServerRefusal;
use self::state::States;
use self::subscriptions::Subscriptions;
use self::table::Table;
use self::timers::{Due, Timers};

/// A full server in which no handler has made room for this long listens all the same: what it
/// hears may be the cancellation that makes room.
const STALL: Duration = Duration::from_secs(1);

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The client sent a frame on this channel.
    Frame(Channel, Frame),
    /// The client closed a channel. That cancels the modern requests and subscriptions on it
    /// (2026-07-28, cancellation); to legacy ones it means nothing (2025-11-25, transports).
    Left(Channel),
    /// The connection is over. After [`CloseKind::Eof`] the client may still read: what was
    /// accepted is answered until it has drained. After anything else nothing is sent.
    Closed(CloseKind),
    /// A handler is done. If nobody waits for it any more, this is ignored and counted.
    Answer(Ticket, Answer),
    /// Somebody wants to know something of the client. What is asked for together is asked in one
    /// round trip, where the client's era has round trips.
    Ask {
        /// The handler that asks, if it is one.
        within: Option<Ticket>,
        /// What it asks for.
        asks: Vec<Ask>,
    },
    /// The asker no longer waits. There will be no [`Output::Asked`], unless it is on its way.
    Unask(AskId),
    /// Send a notification; if it belongs to a request, only while the client waits for that.
    Notify {
        /// The handler that sends it, if it is one.
        within: Option<Ticket>,
        /// Its method.
        method: Cow<'static, str>,
        /// Its parameters, a JSON object.
        params: Bytes,
    },
    /// A handler has got on. Told to the client if it asked for that and still waits, and only if
    /// it is more than was told before (2025-11-25, progress: it must increase).
    Progress {
        /// The handler.
        ticket: Ticket,
        /// How far it has got.
        progress: f64,
        /// Out of how much, if that is known.
        total: Option<f64>,
        /// What it is doing.
        message: Option<String>,
    },
    /// A log message for the client. Told if it is as severe as the client wants it: set by
    /// `logging/setLevel` (legacy), or in the request it is about (modern).
    Log {
        /// The handler that writes it, if it is one.
        within: Option<Ticket>,
        /// How severe it is.
        level: Level,
        /// Who writes it.
        logger: Option<Cow<'static, str>>,
        /// What it says, as JSON.
        data: Bytes,
    },
    /// A list has changed: told to whoever may hear it.
    Changed(List),
    /// A resource has changed: told to whoever has subscribed to it.
    Updated {
        /// Its URI.
        uri: String,
    },
    /// The server is to end: first time gracefully, second time at once.
    Shutdown,
    /// The moment named by [`Server::deadline`] has come.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send this message to the client on this channel (without line end).
    Send(Channel, Message),
    /// All that came on this channel is settled: nothing more is sent on it. Exactly one for each
    /// channel but [`Channel::MAIN`] on which a frame came.
    Done(Channel),
    /// Run the handler for this request.
    Start(Ticket, Box<Request>),
    /// Nobody waits for this handler any more: tell it why. Its answer is still to be reported.
    Cancel(Ticket, CancelReason),
    /// The grace of a cancelled handler is over: drop it. Nothing need be reported.
    Drop(Ticket),
    /// The client has answered, or will not. Exactly one for each [`Ask`], unless it was taken
    /// back.
    Asked(AskId, Result<Bytes, Error>),
    /// Another notification of the client: `notifications/initialized`,
    /// `notifications/roots/list_changed`, …
    Notified(Message),
    /// Tell whoever watches.
    Event(ServerEvent),
    /// All is settled and no handler is left that was not dropped. Nothing follows, not even the
    /// end of what is asked from now on.
    Closed,
}

/// A server. See the [module page](self) for how to drive it.
#[derive(Clone, Debug)]
pub struct Server {
    policy: ServerPolicy,
    features: Features,
    out: VecDeque<Output>,
    /// The channel of the frame that is being read.
    current: Channel,
    clock: Clock,
    timers: Timers,
    table: Table,
    asks: Asks,
    states: States,
    subscriptions: Subscriptions,
    /// The legacy client, once it has shaken hands.
    peer: Option<Arc<Peer>>,
    /// What the last modern request said about its client.
    known: Option<Introduction>,
    /// What the legacy client has set.
    level: Option<Level>,
    /// If nothing makes room until then, a full server listens again.
    stalls_at: Time,
    /// The client has not closed its side.
    hearing: bool,
    /// A shutdown has been asked for.
    stop_asked: bool,
    ending: Ending,
}

impl Server {
    /// A server without a client. `key` is a secret: whoever knows it can guess the states that
    /// modern clients carry for us between round trips.
    pub fn new(policy: ServerPolicy, key: [u8; 16]) -> Server {
        Server {
            features: Features::read(&policy.capabilities),
            out: VecDeque::new(),
            current: Channel::MAIN,
            clock: Clock::default(),
            timers: Timers::default(),
            table: Table::default(),
            asks: Asks::new(policy.tombstones),
            states: States::new(key),
            subscriptions: Subscriptions::default(),
            peer: None,
            known: None,
            level: None,
            stalls_at: Time::ZERO,
            hearing: true,
            stop_asked: false,
            ending: Ending::No,
            policy,
        }
    }

    /// Has states sealed with keys that several processes have in common, in the name of this one, which no other has.
    pub fn share_states(&mut self, keys: StateKeys, process: u64) {
        self.states.share(keys, process);
    }

    /// Says who sends the next frames. A state is good only for the principal that it was given to.
    pub fn hear_from(&mut self, caller: Principal) {
        self.table.caller = Some(caller);
    }

    /// Takes note of what happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input) {
        if self.ending == Ending::Closed {
            return;
        }
        let now = self.clock.read(now, self.due_at());
        match input {
            Input::Frame(channel, frame) => {
                self.current = channel;
                self.table.channels.hold(channel);
                self.on_frame(now, frame);
                self.table.channels.release(channel);
                self.current = Channel::MAIN;
            }
            Input::Left(channel) => self.on_left(now, channel),
            Input::Closed(kind) => self.on_closed(now, &kind),
            Input::Answer(ticket, answer) => self.on_answer(now, ticket, answer),
            Input::Ask { within, asks } => self.on_ask(now, within, asks),
            Input::Unask(id) => self.unask(now, id),
            Input::Notify {
                within,
                method,
                params,
            } => self.notify(within, &method, &params),
            Input::Progress {
                ticket,
                progress,
                total,
                message,
            } => self.progress(ticket, progress, total, message.as_deref()),
            Input::Log {
                within,
                level,
                logger,
                data,
            } => self.log(within, level, logger, &data),
            Input::Changed(list) => self.changed(list),
            Input::Updated { uri } => self.updated(&uri),
            Input::Shutdown => self.shutdown(now),
            Input::Tick => {}
        }
        while let Some(due) = self.timers.due(now) {
            match due {
                Due::Ticket(ticket) => self.ticket_due(now, ticket),
                Due::Ask(id) => self.ask_due(now, id),
            }
        }
        self.drain_on_time(now);
        while let Some(channel) = self.table.channels.next_done() {
            self.out.push_back(Output::Done(channel));
        }
        self.close_on_time();
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Input::Tick`] is due, if at all.
    pub fn deadline(&self) -> Option<Time> {
        self.due_at().map(|at| self.clock.outside(at))
    }

    /// When something is due, on our own clock.
    fn due_at(&self) -> Option<Time> {
        if self.ending == Ending::Closed {
            return None;
        }
        let due = sooner(self.timers.earliest(), self.ending_due());
        match self.hearing && self.is_stopping_input() {
            true => sooner(due, Some(self.stalls_at)),
            false => due,
        }
    }

    /// Whether the client should be read. It should not while as many requests are running *and*
    /// waiting as are allowed: a client that sends faster than its server works is slowed down.
    /// But what a handler waits to hear from it must come through, and so must a cancellation if
    /// no handler gets done without one.
    pub fn wants_input(&self) -> bool {
        self.hearing && !self.is_stopping_input()
    }

    fn is_stopping_input(&self) -> bool {
        self.is_crowded() && !self.asks.any_sent() && self.clock.now() < self.stalls_at
    }

    /// Requests the client waits for.
    pub fn in_flight(&self) -> usize {
        self.table.in_flight()
    }

    /// The lowest level of log messages the client has asked for with `logging/setLevel`.
    pub fn log_level(&self) -> Option<Level> {
        self.level
    }

    /// Sends a message, if anybody may still be there to read it.
    fn send(&mut self, channel: Channel, message: Message) {
        if !self.is_mute() {
            self.out.push_back(Output::Send(channel, message));
        }
    }

    fn is_mute(&self) -> bool {
        matches!(self.ending, Ending::Gone | Ending::Closed)
    }

    /// Answers the request being read, which the machine itself deals with.
    fn answer_plainly(&mut self, message: &Message, result: &str) {
        let answer = Message::response(message.id_json(), result.as_bytes());
        self.send(self.current, answer);
    }

    /// Answers the request being read with an error of ours.
    fn refuse(&mut self, message: &Message, refusal: &ServerRefusal) {
        self.refuse_on(self.current, message, refusal);
    }

    /// Answers a request that came on this channel with an error of ours.
    fn refuse_on(&mut self, channel: Channel, message: &Message, refusal: &ServerRefusal) {
        self.refuse_id(channel, message.id_json(), message.method(), refusal);
    }

    fn refuse_id(
        &mut self,
        channel: Channel,
        id_json: &[u8],
        method: &str,
        refusal: &ServerRefusal,
    ) {
        if self.is_mute() {
            return;
        }
        self.emit(ServerEvent::Refused {
            id: String::from_utf8_lossy(id_json).into_owned(),
            method: method.to_string(),
            kind: refusal.kind,
        });
        self.send(
            channel,
            Message::failure(id_json, refusal.error.to_json().as_bytes()),
        );
    }

    fn emit(&mut self, event: ServerEvent) {
        self.out.push_back(Output::Event(event));
    }

    fn dropped(&mut self, reason: DropReason, detail: impl Into<String>) {
        self.emit(ServerEvent::Dropped {
            reason,
            detail: detail.into(),
        });
    }
}

/// The sizes of everything that could grow, for tests of the bounds (invariant 7).
#[doc(hidden)]
#[derive(Debug)]
pub struct Sizes {
    /// Handlers that take a place.
    pub busy: usize,
    /// Bytes of requests that have a handler.
    pub bytes: usize,
    /// Requests waiting for a handler, and their bytes.
    pub queued: (usize, usize),
    /// Handlers waiting for a modern client to come back.
    pub parked: usize,
    /// Requests of ours, and the bytes kept to ask again.
    pub asks: (usize, usize),
    /// Requests of ours remembered after their end.
    pub tombstones: usize,
    /// Subscriptions, and their bytes.
    pub subscriptions: (usize, usize),
    /// Things that have a time.
    pub timers: usize,
    /// Channels that are not done.
    pub channels: usize,
}

impl Server {
    /// The sizes of everything that could grow.
    #[doc(hidden)]
    pub fn sizes(&self) -> Sizes {
        Sizes {
            busy: self.table.busy(),
            bytes: self.table.bytes(),
            queued: self.table.queued(),
            parked: self.table.parked(),
            asks: (self.asks.len(), self.asks.bytes()),
            tombstones: self.asks.remembered(),
            subscriptions: (self.subscriptions.len(), self.subscriptions.bytes()),
            timers: self.timers.len(),
            channels: self.table.channels.len(),
        }
    }
}
