//! The switch: several clients before one session.
//!
//! # Theory
//!
//! A [`Session`](crate::Session) has one host. Over HTTP there are many clients, and each speaks on
//! many channels. The switch is what makes them one host: it remembers for every request who sent it
//! and on which channel, and leads what the server says back to whom it belongs.
//!
//! ```text
//!  client ─┐ Frame, Left, Gone                 Call, Cancel, Answer, Notify
//!  client ─┼───────────────────► Switch ────────────────────────► Session
//!  client ─┘ ◄─────────────────         ◄────────────────────────
//!            Send, Done                       Said, SaidOf, Refused, Over, Lost
//! ```
//!
//! - **A request is in one table and leaves it once**, with its answer, with an error of ours, or
//!   because its client no longer waits. So it is answered once, on its own channel.
//! - **Ids are given anew where two clients could have chosen the same one** (FM-34), and progress tokens
//!   with them. A client that has a server to itself is passed through byte for byte.
//! - **What names its owner goes there**: answers by id, progress by token, subscriptions by their
//!   request (2026-07-28) or their URI (before). What is about the server goes to everybody.
//! - **A message without an owner goes to the one client that has a call in flight**; with several such
//!   clients it is dropped, and a question is refused rather than put to the wrong person: a pipe does
//!   not say which call it is about. A request nobody waits for any more counts as a call in flight
//!   too, until its answer comes or its server dies; what can only be about it goes to nobody.
//! - **A stream of its own names its owner.** Over HTTP the server says what is about a request on the stream of that
//!   request; the session passes on which one that was.
//! - **One handshake serves all.** The first client's reaches the server, which is told that clients can be asked
//!   everything; whoever comes later is given the same answer, and nobody is asked what it cannot do.
//! - **A modern request reaches a modern server only**: the server is asked `server/discover` before the
//!   first one (2026-07-28, versioning), because some legacy servers would execute it.
//!
//! The switch knows no time: bounds in time are the session's.
//!
//! | file | what happens there |
//! |---|---|
//! | `client` | a message from a client |
//! | `server` | a message from the server |
//! | `handshake` | one handshake for all; which era the server is of |
//! | `legacy_client` | what is known about a legacy client |
//! | `level` | one level of log messages for all |
//! | `candidate` | who can have caused what names no owner |
//! | `abandoned` | what the server may still be at work on although nobody waits for it |
//! | `table` | the requests that are waited for |

mod abandoned;
mod candidate;
mod client;
mod handshake;
mod legacy_client;
mod level;
mod server;
mod table;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::error::{Error, Outcome, Refusal as SessionRefusal};
use crate::frame::Frame;
use crate::link::Generation;
use crate::message::{Id, Message};
use crate::protocol::meta::of_subscription;
use crate::server::refusal::ServerRefusal;
use crate::server::{Channel, Level};
use crate::session::AbandonReason;

pub use client::{overloaded, overloaded_notification, shutting_down};

use abandoned::Abandoned;
use candidate::Spoken;
use handshake::{ServerEra, SharedHandshake};
use legacy_client::LegacyClient;
use table::{Call, Table, Token, What};

/// One of the clients. The driver chooses the number and never uses it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client(pub u64);

/// How clients share the server behind a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sharing {
    /// One client's session has the server to itself, and its ids pass as they are.
    Dedicated,
    /// Any number of clients' sessions share it.
    Shared,
    /// Requests without a session share it. Each channel is somebody else. Whoever passes such requests on is a
    /// [`Client`]: channels of two of them may have one number.
    Pooled,
}

impl Sharing {
    /// The word for it in what machines read.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Dedicated => "one_session",
            Sharing::Shared => "all_sessions",
            Sharing::Pooled => "modern_requests",
        }
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A client sent a frame on a channel that was not used before, or on the main one.
    Frame(Client, Channel, Frame),
    /// A client closed a channel. Modern requests on it are cancelled by that (2026-07-28), legacy
    /// ones are not (2025-11-25).
    Left(Client, Channel),
    /// A client is gone for good.
    Gone(Client),
    /// The token was withdrawn that this channel of a client was opened with. A legacy client is gone with it; all that
    /// was running is answered with an error that says so, and nothing else is said.
    Withdrawn(Client, Channel),
    /// The session says this to its host.
    Said(Message),
    /// The session says this to its host, and the server said it on the stream of this request; `None` if nobody
    /// waits for that request any more.
    SaidOf(Option<Id>, Message),
    /// The server is done with a request that was cancelled, or never got it.
    Over(Id),
    /// The server under the session is gone; what is waited for may be sent to the next.
    Lost(Generation),
    /// The session refuses a request.
    Refused(Box<SessionRefusal>),
    /// The server has taken `notifications/initialized`, or the session sees to it.
    Initialized,
    /// There is no session any more.
    Ended,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The session's host sends this request, which has this id.
    Call(Id, Message),
    /// The session's host cancels that request with this message, for this reason.
    Cancel(Id, Message, AbandonReason),
    /// The session's host answers a request of the server's.
    Answer(Message),
    /// The session's host sends this notification, which came from a client on this channel. If there is no room for
    /// it, the client is to be [told](overloaded_notification) there.
    Notify(Client, Channel, Message),
    /// Send this message to a client on this channel.
    Send(Client, Channel, Message),
    /// Send this message to a client on its main channel if somebody reads that, else on this one.
    Offer(Client, Channel, Message),
    /// Nothing more will be sent on this channel.
    Done(Client, Channel),
}

/// Bounds by count and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchLimits {
    /// Requests that are waited for.
    pub calls: usize,
    /// Their bytes. One request always fits.
    pub bytes: usize,
    /// Of these, what one legacy client may have.
    pub calls_each: usize,
    /// Resource subscriptions.
    pub subscriptions: usize,
    /// Requests nobody waits for that the server may still be at work on. With more of them, whatever does not name
    /// its owner goes to nobody until the server is replaced.
    pub abandoned: usize,
}

impl Default for SwitchLimits {
    fn default() -> SwitchLimits {
        SwitchLimits {
            calls: 32_768,
            bytes: 256 << 20,
            calls_each: 8192,
            subscriptions: 4096,
            abandoned: 32_768,
        }
    }
}

/// What stands between clients and a session. See the [module](self).
#[derive(Debug)]
pub struct Switch {
    sharing: Sharing,
    limits: SwitchLimits,
    out: VecDeque<Output>,
    table: Table,
    /// How many hold each channel: it is done when the last lets go.
    held: FxHashMap<(Client, Channel), usize>,
    legacy_clients: BTreeMap<Client, LegacyClient>,
    /// The server's requests that are not answered.
    asks: FxHashMap<Id, Ask>,
    /// Progress tokens of requests that became tasks, as far as they are known.
    tasks: VecDeque<(Client, Token)>,
    abandoned: Abandoned,
    /// Who has used the server there is.
    spoken: Spoken,
    /// The last server that is gone.
    lost: Option<Generation>,
    /// The resources that the server tells of, as far as it has said so. Each is followed by somebody.
    standing: BTreeSet<Box<str>>,
    shared_handshake: SharedHandshake,
    /// The server has been told `notifications/initialized`.
    initialized: bool,
    /// The session says when the server has taken it ([`Input::Initialized`]).
    confirms: bool,
    /// Clients whose `notifications/initialized` is confirmed only then, and the channels it came on.
    unconfirmed: Vec<(Client, Channel)>,
    /// The level of log messages the server was asked for.
    level: Option<Level>,
    /// A client's choice of a level has reached the server.
    leveled: bool,
    server_era: ServerEra,
    ended: bool,
}

/// What the server's side tells about whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Owner {
    /// Nothing.
    Unnamed,
    /// It is about this request, by the id the session knows it by.
    Request(Id),
    /// It is about one that nobody waits for any more.
    Gone,
}

/// A request of the server's.
#[derive(Clone, Debug)]
struct Ask {
    client: Client,
    channel: Channel,
    token: Option<Id>,
}

impl Switch {
    /// A switch without clients.
    pub fn new(sharing: Sharing, limits: SwitchLimits) -> Switch {
        Switch {
            sharing,
            limits,
            out: VecDeque::new(),
            table: Table::new(),
            held: FxHashMap::default(),
            legacy_clients: BTreeMap::new(),
            asks: FxHashMap::default(),
            tasks: VecDeque::new(),
            abandoned: Abandoned::new(limits.abandoned),
            spoken: Spoken::Nobody,
            lost: None,
            standing: BTreeSet::new(),
            shared_handshake: SharedHandshake::None,
            initialized: false,
            confirms: false,
            unconfirmed: Vec::new(),
            level: None,
            leveled: false,
            server_era: ServerEra::Open,
            ended: false,
        }
    }

    /// The server says when it has taken `notifications/initialized`: a client's own is done with then, and not before.
    /// Whatever the client sends next, it sends to a server that is ready for it.
    pub fn confirming(mut self) -> Switch {
        self.confirms = true;
        self
    }

    /// Takes note of what happened. Then call [`Switch::poll`] until it returns `None` and carry out
    /// each [`Output`] in that order.
    pub fn handle(&mut self, input: Input) {
        match input {
            Input::Frame(client, channel, frame) => self.on_frame(client, channel, frame),
            Input::Left(client, channel) => self.on_left(client, channel),
            Input::Gone(client) => self.on_gone(client, AbandonReason::ClientLeft),
            Input::Withdrawn(client, channel) => self.on_withdrawn(client, channel),
            Input::Said(_) | Input::SaidOf(..) if self.ended => {}
            Input::Said(message) => self.on_said(message, Owner::Unnamed),
            Input::SaidOf(id, message) => {
                self.on_said(message, id.map_or(Owner::Gone, Owner::Request));
            }
            Input::Over(id) => self.abandoned.over(&id),
            Input::Lost(generation) => self.on_lost(generation),
            Input::Refused(refusal) => self.on_refused(*refusal),
            Input::Initialized => self.confirm(),
            Input::Ended => self.on_ended(),
        }
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Requests that are waited for.
    pub fn in_flight(&self) -> usize {
        self.table.len()
    }

    /// Requests that this legacy client waits for.
    pub fn in_flight_of(&self, client: Client) -> usize {
        self.legacy_clients
            .get(&client)
            .map_or(0, |legacy| legacy.calls)
    }

    /// Legacy clients there are.
    pub fn clients(&self) -> usize {
        self.legacy_clients.len()
    }

    /// The server turned out to speak legacy revisions only, as far as can be said: modern requests are refused.
    pub fn is_legacy_only(&self) -> bool {
        matches!(self.server_era, ServerEra::Legacy(_) | ServerEra::Doubted)
    }

    /// The handshake of a client that has left is still under way, so the next one can have its answer.
    pub fn is_shaking_hands(&self) -> bool {
        matches!(self.shared_handshake, SharedHandshake::Underway { .. })
    }

    fn renames(&self) -> bool {
        self.sharing != Sharing::Dedicated
    }

    fn send(&mut self, client: Client, channel: Channel, message: Message) {
        self.out.push_back(Output::Send(client, channel, message));
    }

    fn answer(&mut self, message: Message) {
        self.out.push_back(Output::Answer(message));
    }

    fn hold(&mut self, client: Client, channel: Channel) {
        if channel != Channel::MAIN {
            *self.held.entry((client, channel)).or_default() += 1;
        }
    }

    fn release(&mut self, client: Client, channel: Channel) {
        if let Some(count) = self.held.get_mut(&(client, channel)) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&(client, channel));
                self.out.push_back(Output::Done(client, channel));
            }
        }
    }

    /// Puts a request into the table.
    fn enter(&mut self, id: Id, call: Call) {
        self.hold(call.client, call.channel);
        if let Some(legacy) = self.legacy_clients.get_mut(&call.client) {
            legacy.calls += 1;
        }
        self.table.insert(id, call);
    }

    /// Takes a request out of the table. Its channel is still held.
    fn take(&mut self, id: &Id) -> Option<Call> {
        let call = self.table.remove(id)?;
        let legacy = self.legacy_clients.get_mut(&call.client);
        if let Some(legacy) = legacy.filter(|_| !call.orphan) {
            legacy.calls -= 1;
        }
        Some(call)
    }

    /// Sends the answer to a request that was taken out of the table.
    fn settle(&mut self, call: &Call, answer: Message) {
        if !call.orphan {
            self.send(call.client, call.channel, answer);
        }
        self.release(call.client, call.channel);
    }

    /// Answers a request that was taken out of the table with an error.
    fn fail(&mut self, call: &Call, refusal: &ServerRefusal) {
        let error = refusal.error.to_json();
        self.settle(call, Message::failure(&call.id_json, error.as_bytes()));
    }

    /// A client has sent `notifications/initialized`: its channel is held until the server has it.
    fn await_confirmation(&mut self, client: Client, channel: Channel) {
        if self.confirms && channel != Channel::MAIN {
            self.hold(client, channel);
            self.unconfirmed.push((client, channel));
        }
    }

    /// The server has it: whoever sent it is told, and nobody waits for it any more.
    fn confirm(&mut self) {
        if self.initialized {
            self.confirms = false;
        }
        for (client, channel) in std::mem::take(&mut self.unconfirmed) {
            self.release(client, channel);
        }
    }

    /// There is no session: everything is settled.
    fn on_ended(&mut self) {
        self.ended = true;
        self.confirm();
        for id in self.table.ids() {
            let Some(call) = self.take(&id) else { continue };
            match call.what {
                What::Listen => self.end_stream(&call),
                _ => self.fail(&call, &ServerRefusal::shutting_down("the request", true)),
            }
        }
        self.end_probing();
        self.asks.clear();
        self.abandoned.clear();
    }

    /// The server is gone: it goes on with nothing.
    fn on_lost(&mut self, generation: Generation) {
        self.lost = Some(generation);
        self.abandoned.clear();
        // What is waited for may be sent again.
        self.spoken = Spoken::Nobody;
        let waiting: Vec<Client> = self
            .legacy_clients
            .iter()
            .filter(|it| it.1.calls > 0)
            .map(|it| *it.0)
            .collect();
        for client in waiting {
            self.spoken.note(client);
        }
    }

    /// A stream of notifications ends from our side, gracefully (2026-07-28, subscriptions).
    fn end_stream(&mut self, call: &Call) {
        let id = String::from_utf8_lossy(&call.id_json);
        let result = format!(r#"{{"resultType":"complete",{}}}"#, of_subscription(id));
        self.settle(call, Message::response(&call.id_json, result.as_bytes()));
    }

    /// The session has refused a request.
    fn on_refused(&mut self, mut refusal: SessionRefusal) {
        let id = Id::read(&refusal.id_json);
        let runs = self.may_run_on(&refusal);
        let Some((id, call)) = id.and_then(|id| {
            // It may have been abandoned while this was on its way.
            if !runs {
                self.abandoned.over(&id);
            }
            Some((id.clone(), self.take(&id)?))
        }) else {
            return;
        };
        if runs && !call.orphan {
            self.leave_running(&id, &call);
        }
        let ending = matches!(refusal.error, Error::ShuttingDown { .. });
        match &call.what {
            What::Probe => return self.probe_refused(&refusal),
            What::Initialize => self.handshake_failed(&id),
            What::Subscribe(uri) => self.subscribed(&call, uri, false),
            What::Level(choice) => self.level_refused(&call, *choice),
            What::Listen if ending => return self.end_stream(&call),
            _ => {}
        }
        if let Error::ShuttingDown { outcome } = refusal.error
            && self.sharing == Sharing::Pooled
        {
            // Its client knows of no session.
            let started = outcome == Outcome::Unknown;
            return self.fail(&call, &ServerRefusal::shutting_down(&refusal.what, started));
        }
        refusal.id_json = call.id_json.clone();
        self.settle(&call, refusal.to_response());
    }
}

impl Switch {
    /// Whether the server may still be at work on a request that was refused: it took too long, or its exchange broke
    /// off while the server lives.
    fn may_run_on(&self, refusal: &SessionRefusal) -> bool {
        match &refusal.error {
            Error::Timeout { .. } => true,
            Error::ConnectionLost { outcome, .. } => {
                *outcome == Outcome::Unknown && self.lost < Some(refusal.generation)
            }
            _ => false,
        }
    }
}

/// The sizes of everything that could grow, for tests of the bounds.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Requests in the table, and their bytes.
    pub table: (usize, usize),
    /// Channels that are not done.
    pub channels: usize,
    /// Requests of the server that are not answered.
    pub asks: usize,
    /// Resource subscriptions.
    pub subscriptions: usize,
    /// Remembered tokens of tasks.
    pub tasks: usize,
    /// Requests nobody waits for that the server may still be at work on.
    pub abandoned: usize,
}

impl Switch {
    /// The sizes of everything that could grow.
    #[doc(hidden)]
    pub fn sizes(&self) -> Sizes {
        Sizes {
            table: (self.table.len(), self.table.bytes()),
            channels: self.held.len(),
            asks: self.asks.len(),
            subscriptions: self.subscriptions(),
            tasks: self.tasks.len(),
            abandoned: self.abandoned.len(),
        }
    }
}
