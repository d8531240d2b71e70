//! The router: one client before many servers.
//!
//! # Theory
//!
//! A client opens one session and sees one server. Behind it are many *targets*, each with a session, a policy and a
//! supervisor of its own. The router is that one server: it answers what is about all of them from the
//! [roster](crate::roster), and passes the rest to the one it is about.
//!
//! ```text
//!           Client, Gone, Withdrawn                  Open, Close, Hear
//!  client ─────────────────────────► Router ───────────────────────────► leg ──► session with a server
//!         ◄─────────────────────────        ◄─────────────────────────── leg
//!           Send, Offer, Done                        Server, LegEnded
//!                                       │  ▲
//!                               Learned ▼  │ Roster
//!                                     catalogue
//! ```
//!
//! A *leg* is this client's way to one target. It is opened with the first message that needs it, and begins with the
//! client's own handshake, so that a server knows what this client can do.
//!
//! - **`initialize` and lists wait for nobody**: they are answered from the roster, which knows what each server
//!   offered when it was last seen, also if it is dead, slow or not started. Only a server that was never seen is
//!   waited for, and only for [`RouterPolicy::list_wait`].
//! - **One server costs its own calls and nothing else.** A leg has its own queue and its own bounds. What a server
//!   says counts only for requests that it was sent: answers, progress and withdrawals of anything else are dropped.
//! - **A request is in one table and leaves it once**, with its answer, with an error of ours, or because the client no
//!   longer waits for it.
//! - **A leg that nobody uses gives way** to the leg of another client for which there is no server
//!   ([`Input::GiveWay`], [`gives_way`]). Its client notices nothing: the next message opens another.
//! - **Ids and progress tokens of the client pass as they are**: there is one client, so they are unique. What servers
//!   ask is given an id of ours, because two of them may have chosen the same.
//! - **What a server offers is read when a leg is ready, and when the server says that it has changed.** The client is
//!   told once that a list is other than the one it was given, however many servers have changed.
//! - **Nothing but names is changed** in what passes: the name of a tool or prompt, the URI of a resource.
//!
//! The router is told the time with each input. After every [`Router::handle`] call [`Router::poll`] until it returns
//! `None` and carry out each [`Output`] in that order; send [`Input::Tick`] no later than [`Router::deadline`].
//!
//! | file | what happens there |
//! |---|---|
//! | `client` | a message from the client |
//! | `resolve` | whose a request is, and under which name |
//! | `search` | calls of the two tools that stand for all |
//! | `server` | a message from a server |
//! | `leg` | a leg is opened, used and closed |
//! | `following` | the resources that the client follows |
//! | [`modern`] | the same for clients without sessions |
//! | `uplift` | a leg to a server that speaks 2026-07-28 only |
//! | `listing` | lists are answered, and changes told |
//! | `learning` | what a server offers is read |
//! | `table` | the requests that are waited for |

mod client;
mod following;
mod learning;
mod leg;
mod listing;
pub mod modern;
mod resolve;
#[cfg(feature = "search")]
mod search;
mod server;
mod table;
mod uplift;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use crate::error::Outcome;
use crate::frame::Frame;
use crate::gateway::TargetId;
use crate::message::{Id, Kind, Message};
use crate::roster::{Offer, Roster};
use crate::server::refusal::ServerRefusal;
use crate::server::{Channel, RpcError};
use crate::time::Time;

use leg::Leg;
use listing::{Listing, Waiting};
use table::{Call, Table};
use uplift::Uplift;

/// How a router behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterPolicy {
    /// A server that was never seen before is waited for by lists for this long after it was first spoken to (5 s): a
    /// client that reads four lists, one after the other, waits once for a server that hangs.
    pub list_wait: Duration,
    /// Changes of lists that come within this time are told together (100 ms).
    pub announce_after: Duration,
    /// A leg that was not used for this long is closed (never).
    pub idle_stop: Option<Duration>,
    /// A server that could not be reached is tried again after this time, then twice as long each time (15 s): if it
    /// was never seen, or the client follows a resource of it. Others are tried again with the next message for them.
    pub retry: Duration,
    /// No longer than this (5 min).
    pub longest_retry: Duration,
    /// A request of a legacy client to a server of 2026-07-28 waits this long for the client to answer what the server
    /// has asked (10 min).
    pub answer_wait: Duration,
    /// Bounds by count and bytes.
    pub limits: RouterLimits,
}

impl Default for RouterPolicy {
    fn default() -> RouterPolicy {
        RouterPolicy {
            list_wait: Duration::from_secs(5),
            announce_after: Duration::from_millis(100),
            idle_stop: None,
            retry: Duration::from_secs(15),
            longest_retry: Duration::from_secs(300),
            answer_wait: Duration::from_secs(600),
            limits: RouterLimits::default(),
        }
    }
}

/// Bounds of a router by count and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterLimits {
    /// Requests that are waited for.
    pub calls: usize,
    /// Their bytes, as far as they wait here for a leg. One request always fits.
    pub queued_bytes: usize,
    /// Questions of one server that are not answered.
    pub asks: usize,
    /// Resource subscriptions.
    pub subscriptions: usize,
    /// Tasks whose server is remembered.
    pub tasks: usize,
    /// Entries of a page of a list.
    pub page_items: usize,
    /// Bytes of a page of a list. One entry always fits.
    pub page_bytes: usize,
}

impl Default for RouterLimits {
    fn default() -> RouterLimits {
        RouterLimits {
            calls: 8192,
            queued_bytes: 64 << 20,
            asks: 1024,
            subscriptions: 4096,
            tasks: 4096,
            // Some hosts read the first page only.
            page_items: 10_000,
            page_bytes: 16 << 20,
        }
    }
}

/// A leg that was used more recently than this gives way to nobody: its client may be about to go on.
pub const YIELD_AFTER: Duration = Duration::from_secs(2);

/// Whose leg gives way, if any does: of those that are [spare](Router::spare), the one that was used least recently.
pub fn gives_way<K>(now: Time, legs: impl IntoIterator<Item = (K, Option<Time>)>) -> Option<K> {
    let spare = legs
        .into_iter()
        .filter_map(|(whose, used)| Some((whose, used?)));
    let spare = spare.filter(|(_, used)| now - *used >= YIELD_AFTER);
    spare.min_by_key(|(_, used)| *used).map(|(whose, _)| whose)
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The client sent a frame on a channel that was not used before, or on the main one.
    Client(Channel, Frame),
    /// The client is gone for good.
    Gone,
    /// The token was withdrawn that the client has: what was running is answered with an error that says so, and the
    /// client is gone.
    Withdrawn,
    /// A server said this. The channel is the one that the request was [sent](Output::Hear) on that it belongs to, or
    /// the main one.
    Server(TargetId, Channel, Message),
    /// A server for modern requests said this on a channel of [`Output::Request`].
    Modern(TargetId, Channel, Message),
    /// A leg cannot be opened, for this reason.
    Refused(TargetId, RpcError),
    /// A leg is no more: nothing is heard of it again. After [`Output::Close`] this is not told.
    LegEnded(TargetId),
    /// Another client has no server of this target, and there may be no more: the leg is closed if it is
    /// [spare](Router::spare).
    GiveWay(TargetId),
    /// This is what servers offer from now on.
    Roster(Arc<Roster>),
    /// The moment named by [`Router::deadline`] has come.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Output {
    /// Open a leg to this target. What it is to hear follows.
    Open(TargetId),
    /// Close the leg: nobody needs it any more.
    Close(TargetId),
    /// The server of this leg is to hear this message on this channel, which is the client's own or one of ours.
    Hear(TargetId, Channel, Message),
    /// A server for modern requests is to be handed this message on this channel, which is one of ours.
    Request(TargetId, Channel, Message),
    /// Nobody waits any more for what was handed to a server for modern requests on this channel.
    Leave(TargetId, Channel),
    /// Send this message to the client on this channel.
    Send(Channel, Message),
    /// Send this message to the client on its main channel if somebody reads that, else on this one.
    Offer(Channel, Message),
    /// Nothing more will be sent on this channel.
    Done(Channel),
    /// A server turned out to offer this.
    Learned(TargetId, Box<Offer>),
}

/// What the client has told about itself.
#[derive(Clone, Debug)]
struct Introduction {
    /// The parameters of its `initialize`, with which each leg begins.
    params: Bytes,
    /// What it says it can do, a JSON object.
    capabilities: Bytes,
    /// What it says it is, a JSON object.
    info: Bytes,
}

/// A question of a server that the client has not answered.
#[derive(Clone, Debug)]
struct Ask {
    target: TargetId,
    /// The id as the server wrote it.
    id_json: Bytes,
    id: Id,
    /// The progress token as the server wrote it. The client sees the id of the question instead.
    token_json: Option<Bytes>,
}

/// A task that a server runs for the client.
#[derive(Clone, Debug)]
struct Task {
    id: Box<str>,
    target: TargetId,
    /// Progress goes on under the token of the request.
    token: Option<Id>,
}

/// One client before many servers. See the [module](self).
#[derive(Debug)]
pub struct Router {
    policy: RouterPolicy,
    now: Time,
    roster: Arc<Roster>,
    out: VecDeque<Output>,
    introduction: Option<Introduction>,
    legs: BTreeMap<TargetId, Leg>,
    /// Servers that are to be spoken to in modern requests although they know a handshake.
    modern: BTreeSet<TargetId>,
    /// What modern servers have said, as legacy ones would have, and nobody has heard yet.
    lowered: VecDeque<(TargetId, Channel, Message)>,
    table: Table,
    /// How many hold each channel: it is done when the last lets go.
    held: FxHashMap<Channel, usize>,
    asks: FxHashMap<Id, Ask>,
    /// The level of log messages that the client wants, as JSON.
    level: Option<Bytes>,
    listing: Listing,
    /// What the client follows, by server and the URI it has there: the URI of the client. It outlives legs.
    follows: BTreeMap<(TargetId, Box<str>), Box<str>>,
    /// Tasks, oldest first.
    tasks: VecDeque<Task>,
    /// The id of the request that is being looked at, and is not in any table yet.
    arriving: Option<Id>,
    /// The last number that was given to something of ours.
    numbers: u64,
    gone: bool,
}

impl Router {
    /// A router for a client that has not said anything yet.
    pub fn new(policy: RouterPolicy, roster: Arc<Roster>) -> Router {
        Router {
            policy,
            now: Time::ZERO,
            roster,
            out: VecDeque::new(),
            introduction: None,
            legs: BTreeMap::new(),
            modern: BTreeSet::new(),
            lowered: VecDeque::new(),
            table: Table::default(),
            held: FxHashMap::default(),
            asks: FxHashMap::default(),
            level: None,
            listing: Listing::default(),
            follows: BTreeMap::new(),
            tasks: VecDeque::new(),
            arriving: None,
            numbers: 0,
            gone: false,
        }
    }

    /// Takes note of what happened at this moment.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.now = self.now.max(now);
        if self.gone {
            return;
        }
        match input {
            Input::Client(channel, frame) => self.on_frame(channel, frame),
            Input::Gone => self.on_gone(),
            Input::Withdrawn => self.on_withdrawn(),
            Input::Server(target, channel, message) => self.on_server(target, channel, message),
            Input::Modern(target, channel, message) => self.on_modern(target, channel, message),
            Input::Refused(target, why) => self.on_refused(target, &why),
            Input::LegEnded(target) => self.on_leg_ended(target),
            Input::GiveWay(target) => self.on_give_way(target),
            Input::Roster(roster) => self.on_roster(roster),
            Input::Tick => {}
        }
        self.hear_lowered();
        self.keep_time();
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Input::Tick`] is due at the latest.
    pub fn deadline(&self) -> Option<Time> {
        if self.gone {
            return None;
        }
        let legs = self.legs.values().filter_map(|leg| self.leg_deadline(leg));
        self.listing_deadline().into_iter().chain(legs).min()
    }

    /// Requests that the client waits for.
    pub fn in_flight(&self) -> usize {
        self.table.of_client() + self.listing.waiting()
    }

    /// The sizes of everything that could grow.
    #[doc(hidden)]
    pub fn sizes(&self) -> Sizes {
        Sizes {
            calls: self.table.len(),
            queued_bytes: self.legs.values().map(|leg| leg.queued_bytes).sum(),
            held: self.held.len(),
            asks: self.asks.len(),
            legs: self.legs.values().filter(|leg| leg.is_open()).count(),
            waiting: self.listing.waiting(),
            tasks: self.tasks.len(),
            lifted: self
                .legs
                .values()
                .filter_map(|leg| leg.uplift.as_ref())
                .map(Uplift::size)
                .sum(),
            subscriptions: self.follows.len(),
        }
    }

    fn keep_time(&mut self) {
        if self.gone {
            return;
        }
        self.tick_legs();
        self.hear_lowered();
        self.tick_listing();
        self.hear_lowered();
    }

    fn send(&mut self, channel: Channel, message: Message) {
        self.out.push_back(Output::Send(channel, message));
    }

    fn hear(&mut self, target: TargetId, channel: Channel, message: Message) {
        match self
            .legs
            .get(&target)
            .is_some_and(|leg| leg.uplift.is_some())
        {
            true => self.lift(target, channel, message),
            false => self.out.push_back(Output::Hear(target, channel, message)),
        }
    }

    fn hold(&mut self, channel: Channel) {
        if channel != Channel::MAIN {
            *self.held.entry(channel).or_default() += 1;
        }
    }

    fn release(&mut self, channel: Channel) {
        if let Some(count) = self.held.get_mut(&channel) {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&channel);
                self.out.push_back(Output::Done(channel));
            }
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// A channel of ours, which no client can have.
    fn own_channel(&mut self) -> Channel {
        Channel(OWN_CHANNEL | self.number())
    }

    /// An id that no request has, also none that waits or has just come.
    fn own_id(&mut self) -> Id {
        loop {
            let id = Id::text(format!("outlive-router-{}", self.number()));
            let taken = self.table.get(&id).is_some() || self.arriving.as_ref() == Some(&id);
            if !taken && !self.listing.has(&id) {
                return id;
            }
        }
    }

    fn refuse(&mut self, channel: Channel, id_json: &[u8], refusal: &ServerRefusal) {
        self.fail(channel, id_json, &refusal.error);
    }

    fn fail(&mut self, channel: Channel, id_json: &[u8], error: &RpcError) {
        let error = error.to_json();
        self.send(channel, Message::failure(id_json, error.as_bytes()));
    }

    /// Answers a request of the client's that was taken out of the table.
    fn settle(&mut self, call: &Call, answer: Message) {
        if call.is_of_client() {
            self.send(call.channel, answer);
            self.release(call.channel);
        }
    }

    /// The same with an error of ours.
    fn settle_refused(&mut self, call: &Call, refusal: &ServerRefusal) {
        let error = refusal.error.to_json();
        self.settle(call, Message::failure(&call.id_json, error.as_bytes()));
    }

    /// The client is gone: nothing is sent any more, and no leg is needed.
    fn on_gone(&mut self) {
        self.gone = true;
        let targets: Vec<TargetId> = self.legs.keys().copied().collect();
        for target in targets {
            self.hang_up(target);
        }
        self.legs.clear();
        self.lowered.clear();
        self.table = Table::default();
        self.held.clear();
        self.asks.clear();
        self.listing = Listing::default();
        self.follows.clear();
        self.tasks.clear();
    }

    fn on_withdrawn(&mut self) {
        for call in self.table.take_all() {
            let outcome = match call.sent {
                true => Outcome::Unknown,
                false => Outcome::NotSent,
            };
            let refusal = ServerRefusal::token_withdrawn(&call.method, outcome);
            self.settle_refused(&call, &refusal);
        }
        for Waiting {
            channel, message, ..
        } in self.listing.take_waiting()
        {
            let refusal = ServerRefusal::token_withdrawn(message.method(), Outcome::NotSent);
            self.refuse(channel, message.id_json(), &refusal);
            self.release(channel);
        }
        self.on_gone();
    }
}

/// The answer to a request whose id another one has that is still in flight; `None` for all else. For drivers whose
/// client may have several routers on one pipe.
pub fn duplicate(message: &Message) -> Option<Message> {
    let error = ServerRefusal::duplicate_id().error.to_json();
    let is_request = message.kind() == Kind::Request;
    is_request.then(|| Message::failure(message.id_json(), error.as_bytes()))
}

/// The error for a request to a server that was removed before the request was sent; `None` if it is no request.
pub fn removed(message: &Message, server: &str) -> Option<Message> {
    let refusal = ServerRefusal::removed(message.method(), server, false, false);
    let error = refusal.error.to_json();
    (message.kind() == Kind::Request).then(|| Message::failure(message.id_json(), error.as_bytes()))
}

/// Channels of ours have this bit; a driver's are counted from 1 and never get there.
const OWN_CHANNEL: u64 = 1 << 63;

/// Whether a channel is one of ours.
fn is_own(channel: Channel) -> bool {
    channel.0 & OWN_CHANNEL != 0
}

/// The sizes of everything that could grow, for tests of the bounds.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub calls: usize,
    pub queued_bytes: usize,
    pub held: usize,
    pub asks: usize,
    pub legs: usize,
    pub waiting: usize,
    pub tasks: usize,
    pub lifted: usize,
    pub subscriptions: usize,
}
