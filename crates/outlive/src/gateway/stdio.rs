//! One host on standard streams before all servers of a gateway: what `outlive run --servers` does.
//!
//! # Theory
//!
//! The host's side is that of [`run`](crate::run()): the same streams, the same framing, the same signals. Behind it is
//! a [router](super::router_session), whose client is the host: what it says is put in here, and what it is told comes
//! out of a replay buffer that this task reads.
//!
//! A host may speak either era on the same pipe, or both. Requests that speak for themselves have a router of their
//! own, which tells them apart by channels: here each has one, and cancelling it closes that.
//!
//! While messages come in quick succession, this task looks for the next one before it sleeps, and so does the
//! [driver](crate::driver) of a server that was asked something, in turns: see [`Spin`].
//!
//! Both directions push back. A host that does not read leaves the buffer full, and its servers wait for that; a host
//! that sends more than may be in flight is not read.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use outlive_core::message::Kind;
use outlive_core::replay_buffer::{Delivery, Lease};
use outlive_core::router::duplicate;
use outlive_core::server::Channel;
use outlive_core::session_table::Principal;
use outlive_core::{Frame, Framer, Id, Message, State};
use rustc_hash::FxHashMap;
use tokio::time::{Instant, Sleep};

use super::Gateway;
use super::layout::EVERYTHING;
use super::router_session::{RouterSession, Whose, Work};
use crate::driver::{LAST_WRITE_TIMEOUT, READS};
use crate::http_server::{Next, ReplayBuffer};
use crate::io::host::Host;
use crate::io::outbox::Outbox;
use crate::io::spin::{self, Look, Spin, Thread};
use crate::io::standard::Borrowed;
use crate::process::server;
use crate::process::signals::{Signal, Signals};
use crate::run::misconfigured;

/// How often it is looked whether everything has ended after the host was lost.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// With more bytes for the host than this, neither side is read.
const HIGH: usize = 1 << 20;

/// Serves all servers of a [gateway of several](Gateway::of) to the host on the standard streams of this process, until
/// the host leaves or a signal comes: `SIGTERM` and `SIGINT` end it gracefully, a second one at once; `SIGHUP` puts new
/// servers under all sessions. When the host closes its end, requests that it has sent may finish within the policies'
/// `drain`.
///
/// For a process that does nothing else: orphans that servers leave behind become children of this process (Linux)
/// and are ended.
///
/// # Errors
///
/// If the gateway was not built from several servers, its settings make no sense, or the standard streams cannot be
/// used.
pub async fn run_stdio(gateway: &Gateway) -> io::Result<()> {
    server::own_orphans();
    gateway.upstreams.own_thread();
    let mut host = StdioHost::new(gateway, Host::of_this_process()?)?;
    host.signals = Some(Signals::new()?);
    host.run().await;
    Ok(())
}

/// The same for a host that is read from and written to at these descriptors (on Windows: handles), in a process that
/// is not all ours: signals and orphans are left to it.
///
/// # Errors
///
/// As [`run_stdio`].
pub async fn run_streams(
    gateway: &Gateway,
    input: Borrowed<'_>,
    output: Borrowed<'_>,
) -> io::Result<()> {
    let host = StdioHost::new(gateway, Host::of(input, output)?)?;
    host.run().await;
    Ok(())
}

/// The host, and what is on its way from and to it.
struct StdioHost {
    gateway: Gateway,
    router: Arc<RouterSession>,
    modern: Option<ModernHost>,
    replay: Arc<ReplayBuffer>,
    lease: Lease,
    host: Host,
    framer: Framer,
    outbox: Outbox,
    in_flight: InFlight,
    spin: Spin,
    /// How the host is asked for news next.
    look: Look,
    signals: Option<Signals>,
    /// Its input has ended.
    ended: bool,
    /// It takes nothing any more.
    gone: bool,
    /// The gateway was told to end.
    stopped: bool,
    /// Everything has been said.
    over: bool,
    /// Rings when what was sent has had its time, and then when the last words have.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl StdioHost {
    fn new(gateway: &Gateway, host: Host) -> io::Result<StdioHost> {
        gateway.check()?;
        let upstreams = &gateway.upstreams;
        let catalogue = upstreams.catalogue.as_ref();
        let catalogue = catalogue.ok_or_else(|| {
            misconfigured(
                "a gateway of one server has no router: build it with `Gateway::of`, or use `run`",
            )
        })?;
        let replay = Arc::new(ReplayBuffer::new(Delivery::OneStream));
        // Before anything is said: nothing is kept for nobody.
        let lease = replay.listen();
        upstreams.keep_time();
        let whose = Whose::Session(Principal::Anyone);
        let router = RouterSession::new(upstreams, catalogue, EVERYTHING, whose, replay.clone());
        let layout = upstreams.layout();
        let limits = layout.targets.iter().map(|(_, it)| it.policy.limits);
        let message = limits.clone().map(|it| it.message).max();
        let bytes = limits.map(|it| it.in_flight_bytes).min();
        Ok(StdioHost {
            gateway: gateway.clone(),
            router,
            modern: None,
            replay,
            lease,
            host,
            framer: Framer::new(message.unwrap_or_default()),
            outbox: Outbox::default(),
            in_flight: InFlight {
                most: upstreams.router_policy.limits.calls,
                most_bytes: bytes.unwrap_or_default(),
                sizes: FxHashMap::default(),
                bytes: 0,
            },
            spin: Spin::new(std::time::Instant::now()),
            look: Look::Usual,
            signals: None,
            ended: false,
            gone: false,
            stopped: false,
            over: false,
            alarm: None,
        })
    }

    async fn run(mut self) {
        // It bounds its turns itself.
        tokio::task::unconstrained(poll_fn(|cx| self.poll(cx))).await;
        self.replay.detach(self.lease);
        self.host.finish(LAST_WRITE_TIMEOUT);
    }

    /// Everything that can be done without waiting.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.spin.resume();
        for _ in 0..READS {
            self.poll_signals(cx);
            let told = self.tell(cx);
            let heard = self.hear(cx);
            if told || heard {
                self.spin.hear();
            }
            if heard {
                // Sessions have this thread first.
                self.spin.tell();
            }
            self.poll_end(cx);
            if self.over && (self.gone || self.outbox.is_empty()) {
                return Poll::Ready(());
            }
            if self.over && self.alarm.is_none() {
                // The alarm for the last words has rung.
                return Poll::Ready(());
            }
            if !told && !heard {
                self.rest(cx);
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// All has been done: looks for news once more, or sleeps.
    fn rest(&mut self, cx: &mut Context<'_>) {
        let listens = !self.ended && self.is_open();
        let own = self.signals.as_ref().filter(|_| listens);
        if self.spin.next(own.map(|_| Thread::Shared)) != spin::Next::Sleep {
            self.look = Look::Closely;
            cx.waker().wake_by_ref();
        }
    }

    fn poll_signals(&mut self, cx: &mut Context<'_>) {
        while let Some(signals) = &mut self.signals
            && let Poll::Ready(signal) = signals.poll_next(cx)
        {
            match signal {
                Signal::Stop => self.stop(),
                Signal::Restart => self.gateway.restart(),
            }
        }
    }

    /// Ends everything: the first time gracefully, the second time at once.
    fn stop(&mut self) {
        (self.stopped, self.ended, self.alarm) = (true, true, None);
        self.gateway.shutdown();
    }

    /// Passes on what the host takes. True if there may be more.
    fn tell(&mut self, cx: &mut Context<'_>) -> bool {
        let mut more = false;
        while !self.over && self.outbox.len() <= HIGH {
            match self.replay.next(self.lease, cx.waker()) {
                Next::Event(_, message) => {
                    self.in_flight.answered(&message);
                    if let Some(modern) = &mut self.modern {
                        modern.answered(&message);
                    }
                    if !self.gone {
                        self.outbox.push(message.into_bytes());
                    }
                    more = true;
                }
                Next::Pending => break,
                Next::Complete | Next::CutShort => self.finish(),
                // More than can be kept is waiting for it: it will not read again.
                Next::Cut => {
                    self.lose();
                    break;
                }
            }
        }
        if self.gone {
            return more;
        }
        let output = &mut self.host.output;
        if output.poll_gone(cx).is_ready() || output.flush(cx, &mut self.outbox).is_err() {
            // FM-10: nobody will ever read what we write, so nobody is there to be served.
            self.lose();
        }
        more && self.outbox.len() <= HIGH
    }

    /// The host reads nothing any more.
    fn lose(&mut self) {
        self.gone = true;
        self.outbox.clear();
        if !self.stopped {
            self.stop();
        }
    }

    /// Nothing more will be said.
    fn finish(&mut self) {
        self.over = true;
        self.ended = true;
        self.alarm = Some(Box::pin(tokio::time::sleep(LAST_WRITE_TIMEOUT)));
    }

    /// Takes in what the host says. True if there may be more.
    fn hear(&mut self, cx: &mut Context<'_>) -> bool {
        if self.ended || !self.is_open() {
            return false;
        }
        let spare = self.framer.spare();
        let look = std::mem::replace(&mut self.look, Look::Usual);
        match self.host.input.poll_read(cx, spare, look) {
            Poll::Pending => return false,
            Poll::Ready(Ok(1..)) => {}
            Poll::Ready(_) => self.ended = true,
        }
        while let Some(frame) = self.framer.next_frame() {
            self.take(frame);
        }
        if self.ended {
            if let Some(frame) = self.framer.finish() {
                self.take(frame);
            }
            self.drain();
        }
        true
    }

    /// Whether the host may say more.
    fn is_open(&self) -> bool {
        self.outbox.len() <= HIGH && self.in_flight.has_room()
    }

    fn take(&mut self, frame: Frame) {
        // Legacy and modern requests have a router each, and share the ids of the pipe.
        let message = frame.message();
        let known = message
            .and_then(Message::id)
            .filter(|id| self.in_flight.has(id));
        if let Some(refused) = message.filter(|_| known.is_some()).and_then(duplicate) {
            self.outbox.push(refused.into_bytes());
            return;
        }
        self.in_flight.sent(&frame);
        if let Some(message) = frame.message() {
            if message.is_modern() {
                return self.take_modern(frame);
            }
            let modern = self.modern.as_mut();
            if modern.is_some_and(|modern| modern.cancelled(message)) {
                return;
            }
        }
        self.router.put(Work::Client(Channel::MAIN, frame));
    }

    /// The host says something that speaks for itself.
    fn take_modern(&mut self, frame: Frame) {
        let upstreams = &self.gateway.upstreams;
        let Some(catalogue) = &upstreams.catalogue else {
            return;
        };
        let modern = self.modern.get_or_insert_with(|| {
            let (whose, replay) = (Whose::Requests, self.replay.clone());
            ModernHost {
                router: RouterSession::new(upstreams, catalogue, EVERYTHING, whose, replay),
                channels: FxHashMap::default(),
                last: 0,
            }
        });
        modern.take(frame);
    }

    /// Requests that the host waits for.
    fn unanswered(&self) -> usize {
        let modern = self.modern.as_ref();
        self.router.in_flight() + modern.map_or(0, |modern| modern.router.in_flight())
    }

    /// The host has said everything: what it has sent may finish, if that does not take too long. One that waits for a
    /// server to start has longer, as with [`run`](crate::run()).
    fn drain(&mut self) {
        let is_ready = |state: &State| matches!(state, State::Ready { .. });
        let ready = self
            .gateway
            .upstreams()
            .iter()
            .all(|it| is_ready(&it.state));
        let layout = self.gateway.upstreams.layout();
        let policies = layout.targets.iter().map(|(_, it)| &it.policy);
        let longest = policies.map(|policy| match ready {
            true => policy.drain,
            false => policy.drain.max(policy.hold),
        });
        let until = Instant::now() + longest.max().unwrap_or(Duration::ZERO);
        self.alarm = Some(Box::pin(tokio::time::sleep_until(until)));
    }

    /// Has this task polled again soon.
    fn look_again(&mut self, cx: &mut Context<'_>) {
        let alarm = self
            .alarm
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(LOOK_AGAIN)));
        if alarm.as_mut().poll(cx).is_ready() {
            self.alarm = None;
            cx.waker().wake_by_ref();
        }
    }

    /// Ends when what the host has sent is finished, or has had its time.
    fn poll_end(&mut self, cx: &mut Context<'_>) {
        let rung = match &mut self.alarm {
            Some(alarm) => alarm.as_mut().poll(cx).is_ready(),
            None => false,
        };
        if rung {
            self.alarm = None;
        }
        if self.ended && !self.stopped && (rung || self.unanswered() == 0) {
            self.stop();
        }
        if self.gone && !self.over {
            // The buffer may not say so any more.
            match self.gateway.upstreams.is_over() {
                true => self.finish(),
                false => self.look_again(cx),
            }
        }
    }
}

/// The host, as far as its requests speak for themselves.
struct ModernHost {
    router: Arc<RouterSession>,
    /// Those of requests that are not answered.
    channels: FxHashMap<Id, Channel>,
    /// The last one.
    last: u64,
}

impl ModernHost {
    fn take(&mut self, frame: Frame) {
        self.last += 1;
        let channel = Channel(self.last);
        if let Some(message) = frame.message()
            && let (Kind::Request, Some(id)) = (message.kind(), message.id())
        {
            self.channels.insert(id.clone(), channel);
        }
        self.router.put(Work::Client(channel, frame));
    }

    /// Whether this cancels one of its requests, which is then done.
    fn cancelled(&mut self, message: &Message) -> bool {
        let id = message
            .is("notifications/cancelled")
            .then(|| message.request_id());
        let channel = id.flatten().and_then(|id| self.channels.remove(&id));
        if let Some(channel) = channel {
            self.router.put(Work::Left(channel));
        }
        channel.is_some()
    }

    fn answered(&mut self, message: &Message) {
        if let (Kind::Response, Some(id)) = (message.kind(), message.id()) {
            self.channels.remove(id);
        }
    }
}

/// The requests of the host that are not answered.
struct InFlight {
    most: usize,
    most_bytes: usize,
    sizes: FxHashMap<Id, usize>,
    bytes: usize,
}

impl InFlight {
    fn has_room(&self) -> bool {
        self.sizes.len() < self.most && self.bytes < self.most_bytes
    }

    fn has(&self, id: &Id) -> bool {
        self.sizes.contains_key(id)
    }

    fn sent(&mut self, frame: &Frame) {
        match frame {
            Frame::Message(message) => self.sent_one(message),
            Frame::Batch(all) => {
                let read = all.iter().filter_map(|it| it.as_ref().ok());
                read.for_each(|message| self.sent_one(message));
            }
            Frame::Defect(_) | Frame::TooLong(_) => {}
        }
    }

    fn sent_one(&mut self, message: &Message) {
        let size = message.bytes().len();
        match (message.kind(), message.id()) {
            (Kind::Request, Some(id)) => {
                // One that is in flight already is refused, and counts as before.
                let before = self.sizes.insert(id.clone(), size);
                self.bytes = self.bytes + size - before.unwrap_or(0);
            }
            (Kind::Notification, _) if message.is("notifications/cancelled") => {
                if let Some(id) = message.request_id() {
                    self.forget(&id);
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, message: &Message) {
        if let (Kind::Response, Some(id)) = (message.kind(), message.id()) {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: &Id) {
        if let Some(size) = self.sizes.remove(id) {
            self.bytes = self.bytes.saturating_sub(size);
        }
    }
}
