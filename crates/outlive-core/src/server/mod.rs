//! The server: a session seen from the other side.
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
//! comes. Ask [`Server::wants_input`] before each frame that is reported.

mod answer;
mod ask;
mod event;
mod level;
mod policy;
mod request;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::error::Error;
use crate::event::{DropReason, List};
use crate::framer::Frame;
use crate::message::{Kind, Message};
use crate::time::Time;

pub use self::answer::{Answer, RpcError};
pub use self::ask::{Ask, AskId};
pub use self::event::{CloseKind, ServerEvent};
pub use self::level::Level;
pub use self::policy::ServerPolicy;
pub use self::request::{CancelReason, Era, Peer, Request, Ticket};

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The client sent a frame.
    Frame(Frame),
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
    /// Send this message to the client (without line end).
    Send(Bytes),
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
    /// All is settled and no handler is left that was not dropped. Nothing follows.
    Closed,
}

/// A server. See the [module page](self) for how to drive it.
#[derive(Clone, Debug)]
pub struct Server {
    policy: ServerPolicy,
    out: VecDeque<Output>,
    running: BTreeMap<Ticket, Message>,
    next_ticket: u64,
    closed: bool,
}

impl Server {
    /// A server without a client. `key` is a secret: whoever knows it can guess the states that
    /// modern clients carry for us between round trips.
    pub fn new(policy: ServerPolicy, key: [u8; 16]) -> Server {
        let _ = key;
        Server {
            policy,
            out: VecDeque::new(),
            running: BTreeMap::new(),
            next_ticket: 0,
            closed: false,
        }
    }

    /// Takes note of what happened at `now`.
    pub fn handle(&mut self, _now: Time, input: Input) {
        if self.closed {
            return;
        }
        match input {
            Input::Frame(Frame::Line(line)) => {
                if let Ok(message) = Message::read(line) {
                    self.on_message(message);
                }
            }
            Input::Answer(ticket, answer) => self.on_answer(ticket, answer),
            Input::Closed(_) | Input::Shutdown => {
                for ticket in std::mem::take(&mut self.running).into_keys() {
                    self.out.push_back(Output::Drop(ticket));
                }
                self.closed = true;
                self.out.push_back(Output::Closed);
            }
            Input::Ask { asks, .. } => {
                for ask in asks {
                    let why = "This client cannot be asked.".into();
                    let refused = Err(Error::Unsupported { why });
                    self.out.push_back(Output::Asked(ask.id, refused));
                }
            }
            _ => {}
        }
    }

    fn on_message(&mut self, message: Message) {
        match message.kind() {
            Kind::Request if self.policy.methods.contains(message.method()) => {
                let ticket = Ticket(self.next_ticket);
                self.next_ticket += 1;
                self.running.insert(ticket, message.clone());
                let request = Request {
                    era: match message.is_modern() {
                        true => Era::Modern,
                        false => Era::Legacy,
                    },
                    peer: Arc::new(Peer {
                        version: "2025-11-25".into(),
                        info: None,
                        capabilities: Bytes::from_static(b"{}"),
                    }),
                    log_level: None,
                    message,
                };
                self.out.push_back(Output::Start(ticket, request.into()));
            }
            Kind::Request => {
                let error = RpcError::new(
                    RpcError::METHOD_NOT_FOUND,
                    format!("Method not found: {}", message.method()),
                );
                self.reply(message.id_json(), "error", &error.to_json());
            }
            Kind::Notification => self.out.push_back(Output::Notified(message)),
            Kind::Response => self.out.push_back(Output::Event(ServerEvent::Dropped {
                reason: DropReason::UnknownAnswer,
                detail: String::from_utf8_lossy(message.id_json()).into_owned(),
            })),
        }
    }

    fn on_answer(&mut self, ticket: Ticket, answer: Answer) {
        let Some(message) = self.running.remove(&ticket) else {
            return;
        };
        let internal = |words: &str| RpcError::new(RpcError::INTERNAL, words.to_string()).to_json();
        let (key, json) = match answer {
            Answer::Result(json) => ("result", String::from_utf8_lossy(&json).into_owned()),
            Answer::Error(error) => ("error", error.to_json()),
            Answer::Dropped => ("error", internal("The handler did not answer.")),
            Answer::Panicked(_) => ("error", internal("The handler failed.")),
        };
        self.reply(message.id_json(), key, &json);
    }

    fn reply(&mut self, id_json: &[u8], key: &str, json: &str) {
        let id = String::from_utf8_lossy(id_json);
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"{key}":{json}}}"#);
        self.out.push_back(Output::Send(line.into()));
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Input::Tick`] is due, if at all.
    pub fn deadline(&self) -> Option<Time> {
        None
    }

    /// Whether the client should be read. It should not while as many requests are running *and*
    /// waiting as are allowed: a client that sends faster than its server works is slowed down.
    pub fn wants_input(&self) -> bool {
        true
    }

    /// The lowest level of log messages the client has asked for with `logging/setLevel`.
    pub fn log_level(&self) -> Option<Level> {
        None
    }
}
