//! The order in which messages leave for a server, where each has an exchange of its own (HTTP).
//!
//! Over a pipe, order is the pipe's. Over HTTP every message is a POST on some connection, and any two of them can
//! overtake each other. A [`Dispatch`] decides when each may leave; the transport posts it and tells what became of
//! it. A message is *taken* when the server certainly has it: a notification or a response when its POST was answered,
//! a request when it was written in full.
//!
//! - **The handshake is alone.** `initialize` leaves first, and nothing else before its answer; then
//!   `notifications/initialized`, and nothing else before that is taken.
//! - **Then the server is listened to.** Nothing leaves before the server has answered the GET for its stream, since
//!   some servers drop a question that nobody listens for, and the call it belongs to hangs. The same holds while a
//!   stream that broke is opened again. A server that does not answer the GET is waited for no longer than
//!   [`Timing::listen`].
//! - **What was acknowledged is not overtaken.** The host may have been told that a notification or a response was
//!   accepted; what it sent later leaves when that is taken. A server that does not answer it holds the others up no
//!   longer than [`Timing::order`], and from then on [`Timing::order_slow`]: it may be waiting for one of them.
//! - **Requests wait for no request.** Each takes as long as it takes.
//! - **A cancellation waits for nothing but its own request.** If that has not left, neither leaves.
//! - **Everything that has not been taken counts** in [`Dispatch::backlog`], by count and bytes, so that a host that
//!   sends faster than its server takes is slowed down.
//!
//! Driven as a session is: after every [`Dispatch::handle`], carry out what [`Dispatch::poll`] returns, in that order;
//! report [`Input::Tick`] at [`Dispatch::deadline`].

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::ledger::sooner;
use crate::message::{Id, Kind, Message};
use crate::time::Time;

/// What a message costs beside its bytes: with it, a bound in bytes is one by count.
pub const OVERHEAD: usize = 1 << 10;

/// How long things are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The server's answer to the GET for its stream.
    pub listen: Duration,
    /// How long a notification or a response may take to be accepted before others leave all the same.
    pub order: Duration,
    /// The same, once a server has let that time pass.
    pub order_slow: Duration,
    /// The server's own end of a request of legacy times that was cancelled.
    pub cancelled: Duration,
    /// A cancelled request over which nothing was heard for this long may have been sent on a dead connection.
    pub silence: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            listen: Duration::from_secs(2),
            order: Duration::from_secs(5),
            order_slow: Duration::from_millis(500),
            cancelled: Duration::from_secs(1),
            silence: Duration::from_secs(1),
        }
    }
}

/// What happened. Numbers are those of [`Output::Post`].
#[derive(Clone, Debug)]
pub enum Input {
    /// The session sends this message.
    Send(Message),
    /// The stream of an HTTP+SSE server is being opened: nothing leaves before it is.
    Opening,
    /// It is open; answers come on it, and there is no other to listen to.
    Opened,
    /// The server has this message, or never will.
    Taken(u64),
    /// The server does not have this request, which is kept to be sent again: if it is cancelled, neither it nor its
    /// cancellation leaves.
    Home(u64),
    /// A request that was kept has left again.
    Left(u64),
    /// The exchange of this request is over.
    Over(u64),
    /// The answer to the request of this id came on the stream of an HTTP+SSE server.
    Answered(Id),
    /// The server refused this request as one of HTTP+SSE does: it is posted again when its stream is open, before all
    /// others, under the same number.
    Again(u64, Message),
    /// The stream of the server broke and is being opened again.
    Listening,
    /// The server has answered the GET for its stream, in whichever way, or cannot be asked.
    Listened,
    /// Something was heard from the server.
    Heard,
    /// The link has ended: nothing leaves any more.
    End,
    /// The moment named by [`Dispatch::deadline`] has come.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Output {
    /// Post this message. Its number is its place among the session's messages on this link, from 0.
    Post(u64, Message),
    /// Open the stream on which the server speaks unasked.
    Listen,
    /// The server has not answered the GET in time.
    Unlistened,
    /// The server has taken `notifications/initialized`.
    Initialized,
    /// Give up the exchange of this request, if it is not over.
    Abort(u64),
    /// Use no connection again that was made before now.
    Renew,
    /// The request of this id never left.
    Unsent(Id),
}

/// What may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gate {
    /// Anything.
    Open,
    /// Nothing before the stream of an HTTP+SSE server is open.
    Opening,
    /// Nothing before this `initialize` is answered.
    Handshake(u64, Id),
    /// Nothing before this `notifications/initialized` is taken.
    Initialized(u64),
}

/// A request that has left.
#[derive(Debug)]
struct Request {
    id: Id,
    modern: bool,
    left: Time,
    taken: bool,
    /// It has left and come back, and the server does not have it.
    home: bool,
    /// A cancellation that came before the server had the request; it leaves then, or at this moment.
    cancel: Option<(u64, Message, Time)>,
}

/// A notification or a response that has left and is not taken.
#[derive(Clone, Copy, Debug)]
struct Untaken {
    bytes: usize,
    /// The others wait for it until then.
    until: Time,
}

/// Decides when messages leave. See the [module](self).
#[derive(Debug)]
pub struct Dispatch {
    timing: Timing,
    out: VecDeque<Output>,
    gate: Gate,
    /// The server's stream is being opened; it is waited for until then.
    listening: Option<Time>,
    /// Answers come on the stream of an HTTP+SSE server.
    aside: bool,
    /// What has not left, in order.
    queue: VecDeque<(u64, Message)>,
    requests: BTreeMap<u64, Request>,
    by_id: FxHashMap<Id, u64>,
    untaken: BTreeMap<u64, Untaken>,
    /// Cancelled requests whose exchanges are given up at these moments.
    cancelled: BTreeMap<u64, Time>,
    /// Bytes of all that has not been taken.
    bytes: usize,
    /// Cancellations that wait for their requests.
    attached: usize,
    /// Messages of the session so far.
    frames: u64,
    heard: Time,
    /// `notifications/initialized` has left: what begins is not begun again.
    initialized: bool,
    /// The server has let [`Timing::order`] pass.
    slow: bool,
    /// Nothing leaves any more; what had left by then.
    ended: Option<u64>,
}

impl Dispatch {
    /// A dispatch that has sent nothing.
    pub fn new(timing: Timing) -> Dispatch {
        Dispatch {
            timing,
            out: VecDeque::new(),
            gate: Gate::Open,
            listening: None,
            aside: false,
            queue: VecDeque::new(),
            requests: BTreeMap::new(),
            by_id: FxHashMap::default(),
            untaken: BTreeMap::new(),
            cancelled: BTreeMap::new(),
            bytes: 0,
            attached: 0,
            frames: 0,
            heard: Time::ZERO,
            initialized: false,
            slow: false,
            ended: None,
        }
    }

    /// Takes note of what happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Send(message) => self.send(now, message),
            Input::Opening => self.gate = Gate::Opening,
            Input::Opened => {
                self.aside = true;
                self.gate = Gate::Open;
            }
            Input::Taken(number) => self.taken(now, number),
            Input::Home(number) => self.home(number),
            Input::Left(number) => {
                if let Some(request) = self.requests.get_mut(&number) {
                    request.home = false;
                    request.left = now;
                }
            }
            Input::Over(number) => self.over(number),
            Input::Answered(id) => {
                if matches!(&self.gate, Gate::Handshake(_, awaited) if *awaited == id) {
                    self.gate = Gate::Open;
                }
            }
            Input::Again(number, message) => {
                self.gate = Gate::Opening;
                self.over(number);
                self.bytes += message.bytes().len();
                self.queue.push_front((number, message));
            }
            Input::Listening if self.gate == Gate::Open && !self.aside => {
                self.listening = Some(now + self.timing.listen);
            }
            Input::Listening => {}
            Input::Listened => self.listening = None,
            Input::Heard => self.heard = now,
            Input::End => self.end(),
            Input::Tick => {}
        }
        self.on_time(now);
        self.pump(now);
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When [`Input::Tick`] is due, if at all.
    pub fn deadline(&self) -> Option<Time> {
        let mut next = self.listening;
        if !self.queue.is_empty() {
            // Only those that hold something up; those that did have passed.
            let waited = self.untaken.values().filter(|it| it.until > Time::ZERO);
            next = sooner(next, waited.map(|it| it.until).min());
        }
        next = sooner(next, self.cancelled.values().min().copied());
        if self.attached > 0 {
            let waiting = self.requests.values().filter_map(|it| it.cancel.as_ref());
            next = sooner(next, waiting.map(|(.., until)| *until).min());
        }
        next
    }

    /// What has not been taken, notifications and responses on their way included: bytes, and [`OVERHEAD`] for each.
    /// Requests that have left are the session's to bound.
    pub fn backlog(&self) -> usize {
        let count = self.queue.len() + self.untaken.len() + self.attached;
        self.bytes + count * OVERHEAD
    }

    /// How many of the session's messages have left: all requests among them, and no request behind them.
    pub fn sent(&self) -> u64 {
        let first = self.queue.front().map(|(number, _)| *number);
        first.unwrap_or(self.ended.unwrap_or(self.frames))
    }

    /// Whether all that was to leave has left and is taken. Requests may still be unanswered.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.untaken.is_empty() && self.attached == 0
    }

    /// Whether requests have left and are not over.
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// The first request that has not left.
    pub fn waiting(&self) -> Option<&Id> {
        let mut waiting = self.queue.iter().map(|(_, message)| message);
        waiting.find(|it| it.kind() == Kind::Request)?.id()
    }

    /// The `initialize` whose answer everything waits for.
    pub fn handshake(&self) -> Option<&Id> {
        match &self.gate {
            Gate::Handshake(_, id) => Some(id),
            _ => None,
        }
    }

    fn send(&mut self, now: Time, message: Message) {
        let number = self.frames;
        self.frames += 1;
        if self.ended.is_some() {
            if let (Kind::Request, Some(id)) = (message.kind(), message.id()) {
                self.out.push_back(Output::Unsent(id.clone()));
            }
            return;
        }
        if message.is("notifications/cancelled") {
            return self.cancel(now, number, message);
        }
        self.enqueue(number, message);
    }

    fn enqueue(&mut self, number: u64, message: Message) {
        self.bytes += message.bytes().len();
        self.queue.push_back((number, message));
    }

    /// A request is cancelled. In the modern era its stream is closed, which says it all (2026-07-28, cancellation);
    /// before, the server is told, and the exchange is given up a moment later, since not every server ends it.
    fn cancel(&mut self, now: Time, number: u64, message: Message) {
        let id = message.request_id();
        let waits = |(_, it): &(u64, Message)| it.kind() == Kind::Request && it.id() == id.as_ref();
        if let Some(at) = self.queue.iter().position(waits) {
            if let Some((_, request)) = self.queue.remove(at) {
                self.bytes -= request.bytes().len();
            }
            return;
        }
        let Some(request) = id.and_then(|id| self.by_id.get(&id).copied()) else {
            return match self.gate {
                // Its request is with a server that answers on another stream, or it has none.
                Gate::Open => self.tell(now, number, message),
                _ => self.enqueue(number, message),
            };
        };
        let Some(running) = self.requests.get_mut(&request) else {
            return;
        };
        if running.home {
            self.forget(request);
            return self.out.push_back(Output::Abort(request));
        }
        // It may have left on a connection that is dead without our knowing; then so may the others be (FM-24).
        if self.heard <= running.left && now - running.left >= self.timing.silence {
            // Before the cancellation leaves, which is to arrive.
            self.out.push_back(Output::Renew);
        }
        if running.modern {
            self.forget(request);
            self.out.push_back(Output::Abort(request));
        } else if running.taken {
            self.cancel_now(now, request, number, message);
        } else if running.cancel.is_none() {
            self.bytes += message.bytes().len();
            self.attached += 1;
            running.cancel = Some((number, message, now + self.timing.order));
        }
    }

    fn cancel_now(&mut self, now: Time, request: u64, number: u64, message: Message) {
        self.forget(request);
        self.cancelled.insert(request, now + self.timing.cancelled);
        self.tell(now, number, message);
    }

    fn forget(&mut self, number: u64) -> Option<Request> {
        let request = self.requests.remove(&number)?;
        if self.by_id.get(&request.id) == Some(&number) {
            self.by_id.remove(&request.id);
        }
        if let Some((_, message, _)) = &request.cancel {
            self.bytes -= message.bytes().len();
            self.attached -= 1;
        }
        Some(request)
    }

    fn taken(&mut self, now: Time, number: u64) {
        if let Some(it) = self.untaken.remove(&number) {
            self.bytes -= it.bytes;
        }
        if self.gate == Gate::Initialized(number) {
            self.gate = Gate::Open;
            self.out.push_back(Output::Initialized);
            if !self.aside {
                self.listening = Some(now + self.timing.listen);
                self.out.push_back(Output::Listen);
            }
        }
        let Some(request) = self.requests.get_mut(&number) else {
            return;
        };
        request.taken = true;
        let cancel = request.cancel.clone();
        if let Some((own, message, _)) = cancel {
            self.cancel_now(now, number, own, message);
        } else if self.aside {
            // Its answer is not this exchange's.
            self.forget(number);
        }
    }

    fn home(&mut self, number: u64) {
        let Some(request) = self.requests.get_mut(&number) else {
            return;
        };
        request.home = true;
        request.taken = false;
        if request.cancel.is_some() {
            self.forget(number);
            self.out.push_back(Output::Abort(number));
        }
    }

    fn over(&mut self, number: u64) {
        // A cancellation that has not left by now has nothing to cancel.
        self.forget(number);
        self.cancelled.remove(&number);
        if matches!(self.gate, Gate::Handshake(awaited, _) if awaited == number) {
            self.gate = Gate::Open;
        }
    }

    fn end(&mut self) {
        self.ended = Some(self.sent());
        self.listening = None;
        for request in self.requests.values_mut() {
            if let Some((_, message, _)) = request.cancel.take() {
                self.bytes -= message.bytes().len();
                self.attached -= 1;
            }
        }
        for (_, message) in std::mem::take(&mut self.queue) {
            self.bytes -= message.bytes().len();
            if let (Kind::Request, Some(id)) = (message.kind(), message.id()) {
                self.out.push_back(Output::Unsent(id.clone()));
            }
        }
    }

    fn on_time(&mut self, now: Time) {
        if self.listening.is_some_and(|until| until <= now) {
            self.listening = None;
            self.out.push_back(Output::Unlistened);
        }
        let due = |it: &mut Untaken| it.until > Time::ZERO && it.until <= now;
        for it in self.untaken.values_mut() {
            if due(it) {
                it.until = Time::ZERO;
                self.slow = true;
            }
        }
        let over = self.cancelled.extract_if(.., |_, at| *at <= now);
        self.out
            .extend(over.map(|(number, _)| Output::Abort(number)));
        if self.attached == 0 {
            return;
        }
        let due = |request: &Request| {
            let (own, message, until) = request.cancel.as_ref()?;
            (*until <= now).then(|| (*own, message.clone()))
        };
        let due: Vec<_> = (self.requests.iter())
            .filter_map(|(number, request)| Some((*number, due(request)?)))
            .collect();
        for (number, (own, message)) in due {
            self.cancel_now(now, number, own, message);
        }
    }

    /// Lets go what may leave.
    fn pump(&mut self, now: Time) {
        while self.gate == Gate::Open
            && self.listening.is_none()
            && !self.untaken.values().any(|it| it.until > now)
            && let Some((number, message)) = self.queue.pop_front()
        {
            self.bytes -= message.bytes().len();
            match message.kind() {
                Kind::Request => self.request(now, number, message),
                Kind::Response | Kind::Notification => self.tell(now, number, message),
            }
        }
    }

    fn request(&mut self, now: Time, number: u64, message: Message) {
        let id = message.id().cloned().unwrap_or(Id::Null);
        if message.is("initialize") && !self.initialized {
            self.gate = Gate::Handshake(number, id.clone());
        }
        let request = Request {
            id: id.clone(),
            modern: message.is_modern(),
            left: now,
            taken: false,
            home: false,
            cancel: None,
        };
        self.requests.insert(number, request);
        self.by_id.insert(id, number);
        self.out.push_back(Output::Post(number, message));
    }

    /// Lets a notification or a response go.
    fn tell(&mut self, now: Time, number: u64, message: Message) {
        if self.ended.is_some() {
            return;
        }
        if message.is("notifications/initialized")
            && !std::mem::replace(&mut self.initialized, true)
        {
            self.gate = Gate::Initialized(number);
        }
        let bytes = message.bytes().len();
        let patience = match self.slow {
            false => self.timing.order,
            true => self.timing.order_slow,
        };
        self.bytes += bytes;
        let until = now + patience;
        self.untaken.insert(number, Untaken { bytes, until });
        self.out.push_back(Output::Post(number, message));
    }
}
