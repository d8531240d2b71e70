//! A link over HTTP: which HTTP request is made when, and what each response means.
//!
//! Over a pipe a server is a process and a link is its life. Over HTTP a server is an address, and a link is one
//! session there: with a legacy server what `initialize` opened and `Mcp-Session-Id` names, with a modern one, which
//! keeps nothing between requests, merely the time we have used it for. Each message has an exchange of its own, and
//! each exchange an end of its own, so what a link reports beside messages is what became of requests: refused, never
//! sent, lost. What is to be done about them the [session](crate::Session) decides, once for all transports.
//!
//! An [`HttpUpstream`] is driven as a session is: after every [`HttpUpstream::handle`], carry out what
//! [`HttpUpstream::poll`] returns, in that order; report [`Input::Tick`] at [`HttpUpstream::deadline`]. The driver
//! makes HTTP requests and tells what came back, byte for byte; it waits for nothing on its own and sends nothing
//! twice.
//!
//! - **Order** is the [`dispatch`]'s: a message becomes an exchange when that lets it leave.
//! - **An exchange ends once**: with an answer, or with one report why there will be none.
//! - **Nothing is sent again behind the ledger's back.** Where a server has not executed a request and would take it in
//!   another way (another address, other credentials, other headers, the older transport), the session is asked
//!   ([`LinkInput::Unexecuted`]), and the request leaves again only if it says so ([`Input::Resend`]). Meanwhile the
//!   request is with us: if it is cancelled, neither it nor its cancellation leaves.
//! - **After a break nothing is sent for a moment** ([`QUIET`]). A server that died takes a moment to close its port,
//!   and what it is sent meanwhile is lost; afterwards it is merely refused. The connections are renewed: the others
//!   may be as dead without our knowing (FM-24).
//! - **After the end nothing is sent**, and a session that the server has denied is not taken leave of.
//!
//! | file | what happens there |
//! |---|---|
//! | `exchange` | one message: its POSTs, and the stream it is answered on |
//! | `resend` | whether a request may be sent again |
//! | `resume` | the rest of a stream that broke |
//! | `answer` | what a server says in an exchange, and whether that is the answer |
//! | `refusal` | what a response without an answer means |
//! | `redirect` | redirects and challenges |
//! | `credentials` | one asks for other credentials, and the others wait |
//! | `listing` | tools listed again, for the sake of a call's headers |
//! | `server_stream` | the stream on which a legacy server speaks unasked |
//! | `channel` | the stream of an HTTP+SSE server |
//! | `heartbeat` | how long a stream may be silent |
//! | `era` | what is said where a host and a server are of different eras |
//! | `known` | what outlives a link |
//! | `ending` | how a link ends |

mod answer;
mod channel;
mod credentials;
mod ending;
mod era;
mod exchange;
mod heartbeat;
mod known;
mod listing;
mod redirect;
mod refusal;
mod resend;
mod resume;
mod server_stream;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use crate::dispatch::{self, Dispatch, Timing};
use crate::ledger::sooner;
use crate::link::{LinkInput, RequestFailure};
use crate::message::{Id, Message};
use crate::time::Time;

pub use ending::DELETE_TIMEOUT;
pub use known::{Known, Transport};
pub use redirect::{MOST_CHALLENGES, MOST_REDIRECTS};

use channel::Channel;
use credentials::Login;
use ending::Ending;
use exchange::Exchange;
use listing::Listing;
use server_stream::ServerStream;

/// After a connection broke, nothing is sent for this long.
pub const QUIET: Duration = Duration::from_millis(100);
/// How long a server is waited for that has left the GET for its stream unanswered before.
const LISTEN_AGAIN: Duration = Duration::from_millis(250);

/// Why a request never left whose link had ended before.
const SESSION_ENDED: &str = "its session had ended";

/// What a user wants of a link, and what is known of its server.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The longest message.
    pub limit: usize,
    /// An answer that stops for longer will not go on.
    pub stall: Duration,
    /// The transport that is wanted; none: find out.
    pub transport: Option<Transport>,
    /// Whether there may be a handshake. There is none to be had where the modern era alone is wanted.
    pub handshake: bool,
    /// Whether somebody can be asked for other credentials.
    pub login: bool,
    /// What is known of the server.
    pub known: Known,
}

/// One HTTP request of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(u64);

/// A body that cannot be a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// It has this media type.
    Type(String),
    /// It is encoded in this way, which we have not asked for.
    Encoding(String),
}

impl Foreign {
    /// What is wrong with it, and what can be done.
    fn why(&self) -> String {
        match self {
            Foreign::Type(kind) => format!(
                "its response is {kind} and not JSON, as from a login page or a proxy; \
                 check the address and the credentials"
            ),
            Foreign::Encoding(encoding) => format!(
                "its response is compressed ({encoding}), which was not asked for and is not read; \
                 turn that off where the server is served"
            ),
        }
    }
}

/// The beginning of a response.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// Whether a stream of events follows.
    pub stream: bool,
    /// What its body is instead of a message, if its headers say that it is none.
    pub foreign: Option<Foreign>,
    /// When the server wants to be asked again, if it says so.
    pub retry_after: Option<Duration>,
    /// Its challenge, if it wants other credentials.
    pub authenticate: Option<String>,
    /// Where it says its endpoint is.
    pub location: Option<Location>,
    /// Whether it names a session.
    pub names_session: bool,
    /// Which credentials the request had.
    pub turn: u64,
    /// Which mirrored headers it had.
    pub mirrored: u64,
}

impl Head {
    fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    fn is_stream(&self) -> bool {
        self.is_success() && self.stream
    }

    fn is_server_error(&self) -> bool {
        (500..600).contains(&self.status)
    }
}

/// An address that a server names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The whole address.
    pub to: String,
    /// Its origin, if that is not ours.
    pub other_origin: Option<String>,
}

/// Why there is no response, or no more of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No byte of the request left us.
    Unsent(String),
    /// The connection broke; the request may have arrived.
    Broken(String),
}

impl Failure {
    fn into_words(self) -> String {
        match self {
            Failure::Unsent(words) | Failure::Broken(words) => words,
        }
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The session sends this message.
    Send(Message),
    /// The session lets this request be sent again, or does not: the answer to [`LinkInput::Unexecuted`].
    Resend(Id, bool),
    /// The body of this request was written in full: what is sent from now on cannot overtake it but on the server's
    /// side.
    Written(Attempt),
    /// The server responds.
    Response(Attempt, Head),
    /// A piece of a response.
    Chunk(Attempt, Bytes),
    /// A response is complete.
    End(Attempt),
    /// There is no response, or no more of it.
    Failed(Attempt, Failure),
    /// The answer to [`Output::Authenticate`]: whether there are other credentials now.
    Authenticated(bool),
    /// There are no other credentials to be had, for this reason, which whoever waits is told.
    Unauthenticated(String),
    /// The answer to [`Output::Compare`]: whether the headers of this message would be others now.
    Compared(u64, bool),
    /// The answer to [`Output::Locate`]: messages go there now, or why not.
    Located(Result<(), String>),
    /// The link is to be ended when all has left.
    Close,
    /// The link is to be ended now.
    Kill,
    /// The driver failed at something it cannot name.
    Fault,
    /// The moment named by [`HttpUpstream::deadline`] has come.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Output {
    /// POST this message, to this address if one is named, with the credentials and mirrored headers there are now.
    Post {
        /// What its response is told by.
        attempt: Attempt,
        /// The message.
        message: Message,
        /// Where to, if not to the address of the session.
        to: Option<String>,
    },
    /// GET a stream of events.
    Get {
        /// What its response is told by.
        attempt: Attempt,
        /// The event it is to go on behind.
        cursor: Option<String>,
        /// Where from, if not from the address of the session.
        to: Option<String>,
    },
    /// DELETE the session.
    Delete {
        /// What its response is told by.
        attempt: Attempt,
        /// Where, if not at the address of the session.
        to: Option<String>,
    },
    /// DELETE the session, without us: nothing is told of it, and it takes no longer than [`DELETE_TIMEOUT`].
    Leave {
        /// Where, if not at the address of the session.
        to: Option<String>,
    },
    /// Give this request up, whatever has become of it.
    Abort(Attempt),
    /// Use no connection again that was made before now.
    Renew,
    /// Obtain others than the credentials of this turn, unless somebody has.
    Authenticate {
        /// The credentials that will not do.
        turn: u64,
        /// 401, or 403 if the credentials are known but not enough.
        status: u16,
        /// The challenge of the server.
        authenticate: Option<String>,
    },
    /// Tell whether the mirrored headers of this call would be others now.
    Compare {
        /// What the answer is told by.
        number: u64,
        /// The call.
        call: Message,
        /// The mirrored headers it had.
        had: u64,
    },
    /// Learn from this list of tools what is mirrored.
    Learn(Message),
    /// Learn from this list of tools what is mirrored, and pass on what is left of it.
    PassList(Message),
    /// From now on, messages go to this address, which an HTTP+SSE server names, if it is one of the same origin.
    Locate(String),
    /// From now on, messages go to this address.
    Settle(String),
    /// The session has the name that the last response gave it.
    Named,
    /// This version was agreed on.
    Version(String),
    /// Remember this of the server.
    Know(Known),
    /// Tell the session.
    Link(LinkInput),
    /// Nothing is left of the link.
    Ended,
}

/// What an HTTP request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Slot {
    /// The message of this number.
    Message(u64),
    /// A page of the list of tools.
    Listing,
    /// The stream on which a legacy server speaks unasked.
    ServerStream,
    /// The stream of an HTTP+SSE server.
    Channel,
    /// The end of the session.
    Delete,
}

/// A link over HTTP. See the [module](self).
#[derive(Debug)]
pub struct HttpUpstream {
    config: Config,
    known: Known,
    out: VecDeque<Output>,
    dispatch: Dispatch,
    exchanges: FxHashMap<Slot, Box<Exchange>>,
    /// Requests whose exchanges wait for the session's word, by their ids.
    undecided: FxHashMap<Id, u64>,
    server_stream: Option<ServerStream>,
    channel: Option<Channel>,
    listing: Listing,
    login: Login,
    /// What each HTTP request under way is for.
    attempts: FxHashMap<Attempt, Slot>,
    next_attempt: u64,
    /// When something is due, and where.
    due: BTreeSet<(Time, Slot)>,
    quiet_until: Time,
    /// The server knows the session by a name.
    named: bool,
    /// A version was agreed on.
    agreed: bool,
    /// Where the session began, if that was not where it was looked for.
    begun_at: Option<String>,
    /// The server answers on a stream beside (HTTP+SSE).
    aside: bool,
    /// The status `initialize` was refused with before HTTP+SSE was tried.
    refused: Option<u16>,
    /// The end of the link was reported.
    over: bool,
    /// It was reported as the end of this request, which had not left.
    absence_of: Option<Id>,
    /// The server has denied the session, and has said nothing since: there is nothing to take leave of.
    denied: bool,
    ending: Ending,
}

impl HttpUpstream {
    /// A link that has sent nothing.
    pub fn new(config: Config) -> HttpUpstream {
        let mut timing = Timing::default();
        if config.known.stream_unanswered {
            timing.listen = LISTEN_AGAIN;
        }
        let mut link = HttpUpstream {
            config,
            known: config.known,
            out: VecDeque::new(),
            dispatch: Dispatch::new(timing),
            exchanges: FxHashMap::default(),
            undecided: FxHashMap::default(),
            server_stream: None,
            channel: None,
            listing: Listing::default(),
            login: Login::default(),
            attempts: FxHashMap::default(),
            next_attempt: 0,
            due: BTreeSet::new(),
            quiet_until: Time::ZERO,
            named: false,
            agreed: false,
            begun_at: None,
            aside: false,
            refused: None,
            over: false,
            absence_of: None,
            denied: false,
            ending: Ending::No,
        };
        if config.transport.or(config.known.transport) == Some(Transport::Sse) {
            link.open_channel(Time::ZERO);
        }
        link
    }

    /// Takes note of what happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input) {
        if self.ending == Ending::Ended {
            return;
        }
        // What was due before this happened comes before it.
        if self.deadline().is_some_and(|at| at <= now) {
            self.on_time(now);
        }
        match input {
            Input::Send(message) if self.ending == Ending::No => {
                self.dispatch(now, dispatch::Input::Send(message));
            }
            Input::Send(_) => {}
            Input::Resend(id, granted) => self.decided(now, &id, granted),
            Input::Written(attempt) => self.written(now, attempt),
            Input::Response(attempt, head) => self.responded(now, attempt, head),
            Input::Chunk(attempt, bytes) => self.chunk(now, attempt, &bytes),
            Input::End(attempt) => self.response_ended(now, attempt, Ok(())),
            Input::Failed(attempt, failure) => self.response_ended(now, attempt, Err(failure)),
            Input::Authenticated(renewed) => self.authenticated(now, renewed),
            Input::Unauthenticated(why) => self.unauthenticated(now, why),
            Input::Compared(number, better) => self.compared(now, number, better),
            Input::Located(located) => self.located(now, located),
            Input::Close => self.close(now),
            Input::Kill => self.kill(now),
            Input::Fault => self.disconnected(now, Some("a fault of our own".into())),
            Input::Tick => {}
        }
        if self.deadline().is_some_and(|at| at <= now) {
            self.on_time(now);
        }
        self.leave_if_idle(now);
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Input::Tick`] is due, if at all.
    pub fn deadline(&self) -> Option<Time> {
        if self.ending == Ending::Ended {
            return None;
        }
        let own = self.due.first().map(|(at, _)| *at);
        sooner(own, self.dispatch.deadline())
    }

    /// What the server has not taken, by count and bytes: see [`Dispatch::backlog`].
    pub fn backlog(&self) -> usize {
        self.dispatch.backlog()
    }

    /// How many of the session's messages have left: see [`Dispatch::sent`].
    pub fn sent(&self) -> u64 {
        self.dispatch.sent()
    }

    /// How many HTTP requests are under way, for tests of the bounds.
    #[doc(hidden)]
    pub fn under_way(&self) -> usize {
        self.attempts.len()
    }

    /// Tells the dispatch what happened, and does what it says.
    fn dispatch(&mut self, now: Time, input: dispatch::Input) {
        self.dispatch.handle(now, input);
        while let Some(output) = self.dispatch.poll() {
            match output {
                dispatch::Output::Post(number, message) => self.begin(now, number, message),
                dispatch::Output::Listen => self.listen(now),
                dispatch::Output::Unlistened => self.know(|known| known.stream_unanswered = true),
                dispatch::Output::Initialized => self.tell(LinkInput::Initialized),
                dispatch::Output::Abort(number) => self.drop_exchange(Slot::Message(number)),
                dispatch::Output::Renew => self.out.push_back(Output::Renew),
                // The one for which it was found out that nobody is there has been told so.
                dispatch::Output::Unsent(id)
                    if self.absence_of.take_if(|it| *it == id).is_some() => {}
                dispatch::Output::Unsent(id) => self.tell(LinkInput::Unanswered {
                    id,
                    failure: RequestFailure::Unsent(SESSION_ENDED.into()),
                }),
            }
        }
    }

    fn tell(&mut self, input: LinkInput) {
        self.out.push_back(Output::Link(input));
    }

    fn know(&mut self, learn: impl FnOnce(&mut Known)) {
        let before = self.known;
        learn(&mut self.known);
        if self.known != before {
            self.out.push_back(Output::Know(self.known));
        }
    }

    /// A new HTTP request for this.
    fn attempt(&mut self, slot: Slot) -> Attempt {
        let attempt = Attempt(self.next_attempt);
        self.next_attempt += 1;
        self.attempts.insert(attempt, slot);
        attempt
    }

    /// An HTTP request is of no use any more.
    fn abort(&mut self, attempt: Option<Attempt>) {
        if let Some(attempt) = attempt
            && self.attempts.remove(&attempt).is_some()
        {
            self.out.push_back(Output::Abort(attempt));
        }
    }

    /// Sets, moves or clears the timer of a slot.
    fn set_due(&mut self, slot: Slot, due: &mut Option<Time>, at: Option<Time>) {
        if *due == at {
            return;
        }
        if let Some(before) = std::mem::replace(due, at) {
            self.due.remove(&(before, slot));
        }
        if let Some(at) = at {
            self.due.insert((at, slot));
        }
    }

    /// A connection broke.
    fn note_break(&mut self, now: Time) {
        self.out.push_back(Output::Renew);
        self.quiet_until = now + QUIET;
    }

    fn responded(&mut self, now: Time, attempt: Attempt, head: Head) {
        let Some(slot) = self.attempts.get(&attempt).copied() else {
            return;
        };
        match slot {
            Slot::Message(_) | Slot::Listing => self.exchange_responded(now, slot, head),
            Slot::ServerStream => self.server_stream_responded(now, head),
            Slot::Channel => self.channel_responded(now, head),
            Slot::Delete => self.deleted(),
        }
    }

    fn chunk(&mut self, now: Time, attempt: Attempt, bytes: &Bytes) {
        let Some(slot) = self.attempts.get(&attempt).copied() else {
            return;
        };
        match slot {
            Slot::Message(_) | Slot::Listing => self.exchange_chunk(now, slot, bytes),
            Slot::ServerStream => self.server_stream_chunk(now, bytes),
            Slot::Channel => self.channel_chunk(now, bytes),
            Slot::Delete => {}
        }
    }

    fn response_ended(&mut self, now: Time, attempt: Attempt, end: Result<(), Failure>) {
        let Some(slot) = self.attempts.remove(&attempt) else {
            return;
        };
        match slot {
            Slot::Message(_) | Slot::Listing => self.exchange_ended(now, slot, end),
            Slot::ServerStream => self.server_stream_ended(now, end),
            Slot::Channel => self.channel_ended(now, end),
            Slot::Delete => self.deleted(),
        }
    }

    fn on_time(&mut self, now: Time) {
        while let Some((at, slot)) = self.due.first().copied()
            && at <= now
        {
            self.due.remove(&(at, slot));
            match slot {
                Slot::Message(_) | Slot::Listing => self.exchange_due(now, slot),
                Slot::ServerStream => self.server_stream_due(now),
                Slot::Channel => self.channel_due(now),
                Slot::Delete => self.deleted(),
            }
        }
        self.dispatch(now, dispatch::Input::Tick);
    }

    /// Passes on what was said or found out, and sees what it means for what waits.
    fn pass(&mut self, now: Time, input: LinkInput) {
        self.dispatch(now, dispatch::Input::Heard);
        match &input {
            LinkInput::Expired { .. } => self.denied = true,
            LinkInput::Frame(_) => self.denied = false,
            _ => {}
        }
        let ends = match &input {
            LinkInput::Disconnected { .. } | LinkInput::Refused { .. } => true,
            LinkInput::Unanswered { failure, .. } => matches!(failure, RequestFailure::Unsent(_)),
            _ => false,
        };
        self.tell(input);
        if ends && !std::mem::replace(&mut self.over, true) {
            // What has not left will not, and nobody is listened to: in this order, since what waits for the server's
            // stream would leave without it.
            self.dispatch(now, dispatch::Input::End);
            self.drop_server_stream(now);
        }
    }
}
