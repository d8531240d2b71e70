//! The session: what the host holds, whatever happens to the servers under it.
//!
//! # Theory
//!
//! A session has at most one link in service, and at most one process left over from the link before;
//! the next link is ordered only when that is gone. A
//! request of the host enters the ledger, waits in the queue until a link is open, and is then
//! in flight on that link. It leaves the ledger once. When a link is known to be dead, each request
//! in flight on it is settled by its outcome: sent again if it was not sent or is safe to repeat,
//! otherwise failed. What the host believes to have is remembered and is told to the next
//! server before anything else.
//!
//! | file | what happens there |
//! |---|---|
//! | `host` | a message from the host |
//! | `server` | a message from the server |
//! | `link` | what is known about the link in service |
//! | `link_lifecycle` | links come and go |
//! | `start` | a link is ordered, and has so much time |
//! | `death` | a link dies, and its process is seen to |
//! | `handover` | what was in flight on it goes to the next, or fails |
//! | `request_failure` | a request is refused, or breaks off, by itself |
//! | `expiry` | has the server forgotten the session? |
//! | `credentials` | the server wants others |
//! | `resend` | a server would take a request in another way |
//! | `restore` | a new server learns what the old one knew |
//! | `liveness` | is the server alive? |
//! | `login` | somebody has to log in, and the host is told |
//! | `login_round` | the same, for a host that can only be answered (2026-07-28) |
//! | `pause` | a person thinks, and the clocks wait |
//! | `close` | the end |
//! | `snapshot` | another process goes on with the session |

mod close;
mod credentials;
mod death;
mod expiry;
mod handover;
mod host;
mod link;
mod link_lifecycle;
mod liveness;
mod login;
mod login_round;
mod pause;
mod request_failure;
mod resend;
mod restore;
mod server;
mod snapshot;
mod start;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::bounded::escape;
use crate::cause::Cause;
use crate::error::{Error, Refusal};
use crate::event::{Direction, DropReason, Event, State};
use crate::frame::Frame;
use crate::ledger::{Entry, Ledger, RequestKey, sooner};
use crate::link::{Generation, LinkInput, LinkOrder};
use crate::memory::Memory;
use crate::message::{Id, Message};
use crate::meter::{Meter, Tally};
use crate::policy::{Policy, Terms};
use crate::request::{Observer, Request, Settled, Step};
use crate::supervisor::Supervisor;
use crate::time::{Clock, Time};

pub(crate) use handover::POISON;
pub(crate) use host::LONGEST_ID;
use link::{Link, StoppingProcess};

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The session begins, or goes on with another owner: a link is ordered.
    Start,
    /// The host sent a frame.
    Host(Frame),
    /// The host no longer waits for a request, for this reason; the message is its cancellation.
    Abandon(Message, AbandonReason),
    /// The host sent a request with its own [`Terms`].
    Call(Frame, Terms),
    /// The host closed its side; it may still read.
    HostClosed,
    /// The host is gone: nothing it is sent will be read.
    HostGone,
    /// The host does (not) take what it is sent; while it does not, the driver does not read
    /// the server, so the server's silence means nothing.
    HostBlocked(bool),
    /// Clients behind the host read so slowly that so many streams to them were cut off, with so many bytes unread.
    StreamsCut {
        /// How many.
        streams: usize,
        /// What was unread on them.
        unread_bytes: usize,
    },
    /// Something happened on a link.
    Link(Generation, LinkInput),
    /// The moment named by [`Session::deadline`] has come.
    Tick,
    /// The user wants a new server under the same session.
    Restart,
    /// The user wants the session to end: first time gracefully, second time at once.
    Stop,
}

/// Why a host no longer waits for a request. It is counted as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbandonReason {
    /// Its client cancelled it.
    Cancelled,
    /// Its client has left.
    ClientLeft,
    /// The token of its client was withdrawn, and the client was told so.
    TokenWithdrawn,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this message to the host (without line end).
    ToHost(Message),
    /// Send this message to the host; the server said it on the stream of that request, or, if there is none, of one
    /// that the host does not wait for.
    ToHostOf(Option<Id>, Message),
    /// The server is done with a request that the host no longer waits for, or never got it.
    Over(Id),
    /// Answer this request of the host with an error.
    Refuse(Box<Refusal>),
    /// Send this message on that link (without line end). Frames are counted per link from 0.
    ToLink(Generation, Message),
    /// Make a link of this generation.
    Connect(Generation),
    /// Do this with that link.
    Link(Generation, LinkOrder),
    /// Send this request, by its id on that link, again as the server would take it, or give it up: the answer to
    /// [`LinkInput::Unexecuted`].
    Resend {
        /// The link that asks.
        generation: Generation,
        /// The request.
        id: Id,
        /// Whether it is sent again.
        granted: bool,
    },
    /// The server has taken the host's `notifications/initialized`, or the session has taken over to tell it to the
    /// next one. Only for hosts who wait for that.
    Initialized,
    /// Tell whoever watches.
    Event(Event),
    /// All is settled and no link is left: the driver may end. Nothing follows.
    Closed,
}

/// Something that waits for a link to open, in the order it came.
#[derive(Clone, Debug)]
enum Waiting {
    Request(Id, RequestKey),
    Notification(Box<Message>, Time),
}

/// Why a server is not asked `server/discover` for a while.
#[derive(Clone, Debug)]
struct Doubt {
    until: Time,
    /// The link that ended over it, if one did.
    ended: Option<Generation>,
    why: String,
}

/// How the session is ending, if it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// What was accepted may still finish until then.
    Draining {
        until: Time,
    },
    /// All is settled; the last server is being stopped.
    Stopping,
    Closed,
}

/// A session. See the [crate page](crate) for how to drive it.
#[derive(Clone, Debug)]
pub struct Session {
    policy: Policy,
    out: VecDeque<Output>,
    state: State,
    clock: Clock,
    ledger: Ledger,
    queue: VecDeque<Waiting>,
    /// Bytes of notifications in the queue.
    note_bytes: usize,
    /// Requests put aside until a moment of their own: streams of notifications to be opened again, and what a
    /// server wants to be asked much later.
    later: Vec<(Time, Id, RequestKey)>,
    memory: Memory,
    supervisor: Supervisor,
    link: Option<Link>,
    stopping: Option<StoppingProcess>,
    /// The newest generation that was ordered.
    generation: Option<Generation>,
    /// When the next link is to be ordered.
    retry_at: Option<Time>,
    /// Why the last link ended.
    last_cause: Option<Cause>,
    /// Since when a person has been thinking while the clocks stand still.
    pause: Option<Time>,
    /// The person has been waited for long enough: the clocks run.
    pause_spent: bool,
    /// This server has died of a cancellation.
    absorbing: bool,
    discover_doubt: Option<Doubt>,
    /// The last login that a call was answered with; the call may come back.
    login_told: Option<u64>,
    /// It has died by itself soon after a cancellation, perhaps of something else.
    died_as_suspect: bool,
    /// This server does not answer `ping`.
    no_ping: bool,
    /// A server is gone that was asked something that may have changed its state, and the host does not know.
    state_lost: bool,
    /// What the server is saying came on the stream of this request, by its id on the link.
    about: Option<Id>,
    host_blocked: bool,
    host_gone: bool,
    /// The user has asked for the end.
    stop_asked: bool,
    ending: Ending,
    /// The host's `notifications/initialized` is not known to have been taken.
    unconfirmed: bool,
    tally: Tally,
}

impl Session {
    /// A session that has not begun. `seed` decides all that is random in it.
    pub fn new(mut policy: Policy, seed: u64) -> Session {
        policy.label = escape(&policy.label).into();
        policy.name = policy.name.map(|name| escape(&name).into());
        let supervisor = Supervisor::new(policy.backoff, policy.breaker, seed);
        Session {
            policy,
            out: VecDeque::new(),
            state: State::Connecting { attempt: 1 },
            clock: Clock::default(),
            ledger: Ledger::default(),
            queue: VecDeque::new(),
            note_bytes: 0,
            later: Vec::new(),
            memory: Memory::default(),
            supervisor,
            link: None,
            stopping: None,
            generation: None,
            retry_at: None,
            last_cause: None,
            pause: None,
            pause_spent: false,
            absorbing: false,
            discover_doubt: None,
            login_told: None,
            died_as_suspect: false,
            no_ping: false,
            state_lost: false,
            about: None,
            host_blocked: false,
            host_gone: false,
            stop_asked: false,
            ending: Ending::No,
            unconfirmed: false,
            tally: Tally::default(),
        }
    }

    /// Counts into this meter from now on.
    pub fn count_into(&mut self, meter: Arc<Meter>) {
        self.tally.count_into(meter, &self.state);
    }

    /// Tells this observer of every step of every request from now on.
    pub fn observe(&mut self, observer: Arc<dyn Observer>) {
        self.tally.observe(observer);
    }

    /// Takes note of what happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input) {
        if self.ending == Ending::Closed {
            return;
        }
        // Most of the time there is nothing to look up.
        let due = match self.clock.may_jump(now) {
            true => self.due_at(),
            false => None,
        };
        let now = self.clock.read(now, due);
        match input {
            Input::Start => self.retry_at = Some(now),
            Input::Host(frame) => self.on_host(now, frame, Terms::default()),
            Input::Abandon(message, reason) => self.on_abandon(now, message, reason),
            Input::Call(frame, terms) => self.on_host(now, frame, terms),
            Input::HostClosed => self.host_left(now),
            Input::HostGone => self.host_vanished(now),
            Input::HostBlocked(blocked) => {
                self.host_blocked = blocked;
                if let Some(link) = &mut self.link {
                    link.liveness.heard = now;
                }
            }
            Input::StreamsCut {
                streams,
                unread_bytes,
            } => self.emit(Event::StreamsCut {
                streams,
                unread_bytes,
            }),
            Input::Link(generation, input) => self.on_link(now, generation, input),
            Input::Tick => {}
            Input::Restart => self.restart(now),
            Input::Stop => self.stop(now),
        }
        self.pause_or_resume(now);
        if !self.is_steady() || self.due_at().is_some_and(|at| at <= now) {
            self.on_time(now);
        }
        let ledger = &self.ledger;
        self.tally.level(|| (ledger.in_flight(), ledger.held().0));
    }

    /// Whether messages just pass: nothing is coming, going or waiting that an input could set off.
    fn is_steady(&self) -> bool {
        let open = |link: &Link| link.is_open() && link.served.is_some();
        self.ending == Ending::No && self.queue.is_empty() && self.link.as_ref().is_some_and(open)
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
        let mut next = self.ledger.earliest();
        next = sooner(next, self.stopping.as_ref().map(|stopping| stopping.until));
        next = sooner(next, self.link_deadline());
        if self.link.is_none() && self.stopping.is_none() && self.may_connect() {
            next = sooner(next, self.retry_at);
        }
        if let Ending::Draining { until } = self.ending {
            next = sooner(next, Some(until));
        }
        next = sooner(next, self.pause_until());
        for (at, ..) in &self.later {
            next = sooner(next, Some(*at));
        }
        for waiting in &self.queue {
            if let Waiting::Notification(_, due) = waiting {
                next = sooner(next, Some(*due));
            }
        }
        next
    }

    /// How much there is to do.
    pub fn load(&self) -> Load {
        Load {
            in_flight: self.ledger.in_flight(),
            held: self.ledger.held().0,
            ended: self.ledger.next_key() - self.ledger.len() as u64,
        }
    }

    /// Where the session stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether the host should be read. It should not while as much is in flight *and* waiting as
    /// is allowed: a host that sends faster than its server works is slowed down. But what the
    /// server is waiting to hear from it must come through.
    pub fn wants_host(&self) -> bool {
        let limits = &self.policy.limits;
        let (held, bytes) = self.ledger.held();
        let open = |link: &Link| link.is_open() && link.asks.is_empty();
        let crowded = held >= limits.held || bytes + self.note_bytes >= limits.held_bytes;
        !(crowded && self.is_full() && self.link.as_ref().is_some_and(open))
    }

    /// Whether as much is in flight as is allowed. One request always is.
    fn is_full(&self) -> bool {
        let (sent, bytes) = self.ledger.sent();
        let limits = &self.policy.limits;
        sent >= limits.in_flight || (sent > 0 && bytes >= limits.in_flight_bytes)
    }

    /// All that is due at `now`, or follows from what has just happened.
    fn on_time(&mut self, now: Time) {
        self.pause_or_resume(now);
        for id in self.ledger.due(now) {
            self.expire(now, &id);
        }
        self.expire_notifications(now);
        if !self.later.is_empty() {
            self.wake_later(now);
        }
        if let Some(link) = &mut self.link
            && link.busy_until.is_some_and(|until| until <= now)
        {
            link.busy_until = None;
        }
        if !self.queue.is_empty() {
            self.flush(now);
        }
        self.link_on_time(now);
        self.stopping_on_time(now);
        self.ending_on_time(now);
        if self.link.is_none()
            && self.stopping.is_none()
            && self.may_connect()
            && self.retry_at.is_some_and(|at| at <= now)
        {
            self.connect(now);
        }
    }

    fn emit(&mut self, event: Event) {
        self.tally.event(&event);
        self.out.push_back(Output::Event(event));
    }

    /// Tells of one step of a request.
    #[inline]
    fn observed(&self, request: Request<'_>, step: Step<'_>) {
        let now = self.clock.now();
        self.tally.request(now, request, step);
    }

    /// Tells of one step of a request of the ledger.
    #[inline]
    fn observed_step(&self, entry: &Entry, step: Step<'_>) {
        if self.tally.watches_requests() {
            self.observed(entry.observed(), step);
        }
    }

    /// Tells that a request of the ledger has ended.
    #[inline]
    fn observed_end(&self, entry: &Entry, how: Settled<'_>) {
        let took = self.clock.now() - entry.accepted;
        self.observed_step(entry, Step::Settled { how, took });
    }

    fn set_state(&mut self, state: State) {
        if self.state != state {
            self.state = state.clone();
            self.emit(Event::State(state));
        }
    }

    fn tell_host(&mut self, message: Message) {
        let len = message.bytes().len();
        self.tally.passed(Direction::ToHost, len);
        self.out.push_back(Output::ToHost(message));
    }

    /// Passes on what the server says by itself, with what is known about whom it is for.
    fn pass_on(&mut self, message: Message) {
        let Some(id) = &self.about else {
            return self.tell_host(message);
        };
        let len = message.bytes().len();
        self.tally.passed(Direction::ToHost, len);
        let owner = self.request_on_link(id);
        self.out.push_back(Output::ToHostOf(owner, message));
    }

    /// Sends a frame on the link in service.
    fn tell_link(&mut self, now: Time, message: Message) {
        if let Some(link) = &mut self.link {
            link.frames += 1;
            link.liveness.spoken = now;
            let len = message.bytes().len();
            self.tally.passed(Direction::ToServer, len);
            self.out.push_back(Output::ToLink(link.generation, message));
        }
    }

    /// The server has the host's `notifications/initialized`, or it is ours to repeat.
    fn confirm_initialized(&mut self) {
        if std::mem::take(&mut self.unconfirmed) {
            self.out.push_back(Output::Initialized);
        }
    }

    fn dropped(&mut self, direction: Direction, reason: DropReason, detail: impl Into<String>) {
        self.emit(Event::Dropped {
            direction,
            reason,
            detail: detail.into(),
        });
    }

    /// The generation to name in an error: the link in service, or the last one.
    fn current_generation(&self) -> Generation {
        self.generation.unwrap_or(Generation::FIRST)
    }

    /// Answers a request that has been taken out of the ledger with an error.
    fn refuse(&mut self, entry: &Entry, error: &Error) {
        let died = matches!(
            error,
            Error::ConnectionLost { .. } | Error::Unavailable { .. }
        );
        if died && entry.message.is("resources/unsubscribe") && !entry.superseded {
            // The server that told of it is gone: it is enough not to tell the next.
            let uri = entry.message.uri().unwrap_or_default();
            self.memory.subscriptions.remove(&*uri);
        }
        let (request, what) = (entry.observed(), entry.what());
        let took = self.clock.now() - entry.accepted;
        self.refuse_request(request, took, what, error.clone());
    }

    /// Answers a request that never was in the ledger with an error.
    fn refuse_at_once(&mut self, request: Request<'_>, what: String, error: Error) {
        self.refuse_request(request, Duration::ZERO, what, error);
    }

    fn refuse_request(&mut self, request: Request<'_>, took: Duration, what: String, error: Error) {
        let how = Settled::Failed(&error);
        self.observed(request, Step::Settled { how, took });
        self.emit(Event::Refused {
            id: String::from_utf8_lossy(request.id).into_owned(),
            method: request.method.to_string(),
            kind: error.kind(),
        });
        self.out.push_back(Output::Refuse(Box::new(Refusal {
            id_json: Bytes::copy_from_slice(request.id),
            what,
            error,
            generation: self.current_generation(),
        })));
    }
}

/// The sizes of everything that could grow, for tests of the bounds (invariant 7).
#[doc(hidden)]
#[derive(Debug)]
pub struct Sizes {
    /// Requests in the ledger, and their bytes.
    pub ledger: (usize, usize),
    /// Requests held, and their bytes.
    pub held: (usize, usize),
    /// Things in the queue.
    pub queue: usize,
    /// Bytes of notifications in the queue.
    pub note_bytes: usize,
    /// Tombstones of the link.
    pub tombstones: usize,
    /// Requests of the server that are not answered.
    pub asks: usize,
    /// Requests of our own.
    pub own: usize,
    /// Remembered subscriptions.
    pub subscriptions: usize,
}

/// How much a session has to do, and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// Requests of the host that were sent and are waited for.
    pub in_flight: usize,
    /// Requests of the host that wait for a server.
    pub held: usize,
    /// Requests of the host that nobody waits for any more, those of an earlier owner included.
    pub ended: u64,
}

impl Session {
    /// The sizes of everything that could grow.
    #[doc(hidden)]
    pub fn sizes(&self) -> Sizes {
        Sizes {
            ledger: (self.ledger.len(), self.ledger.bytes()),
            held: self.ledger.held(),
            queue: self.queue.len(),
            note_bytes: self.note_bytes,
            tombstones: self.link.as_ref().map_or(0, |link| link.tombstones.len()),
            asks: self.link.as_ref().map_or(0, |link| link.asks.len()),
            own: self.link.as_ref().map_or(0, |link| link.own.len()),
            subscriptions: self.memory.subscriptions.len(),
        }
    }
}
