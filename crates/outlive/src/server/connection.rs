//! One client: the machine, what is queued for the client, and the handlers at work for it.
//!
//! The machine sits behind a lock, and whoever has something to tell it does so: the thread that
//! reads, a handler that is done, anybody who holds a handle. They also write what comes of it,
//! if the client takes it at once; only what it does not take is left to the thread that reads.
//! So an answer is on its way without any other thread being woken.
//!
//! Nothing of the user's runs under the lock. What the machine orders beyond sending (start, tell,
//! drop, report) is collected in [`After`] and done when the lock is free.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use bytes::Bytes;
#[cfg(feature = "http-server")]
use outlive_core::Frame;
use outlive_core::server::{
    Answer, Ask, AskId, CancelReason, Channel, CloseKind, Input, Output, Server as Machine,
    ServerEvent, ServerPolicy, Ticket,
};
use outlive_core::{Error, Message, Time};
use tokio::sync::oneshot;

use super::call::Call;
use super::dispatch;
use super::executor::Executor;
use super::pending_changes::{Change, PendingChanges};
use super::registry::Registry;
use super::task::Task;
use super::wire::Sink;

/// Above this many bytes for the client it is not read, and what it need not be told (progress,
/// log messages) is left out, and what it need not be told twice (changes) is put off.
pub(crate) const HIGH: usize = 4 << 20;

/// Something to ask the client.
pub(crate) struct Question {
    pub(crate) key: Option<Cow<'static, str>>,
    pub(crate) method: Cow<'static, str>,
    pub(crate) params: Bytes,
}

/// What the client answered, or why it did not.
pub(crate) type Asked = Result<Bytes, Error>;

/// The HTTP request that brought a message.
#[cfg(feature = "http-server")]
pub(crate) use crate::http_server::Arrival;

/// Without HTTP there is none.
#[cfg(not(feature = "http-server"))]
pub(crate) enum Arrival {}

/// A client and everything that is done for it.
pub(crate) struct Connection {
    engine: Mutex<Engine>,
    pub(crate) executor: Executor,
    pub(crate) registry: Arc<Registry>,
    /// The longest line the client may send.
    pub(crate) message_limit: usize,
    begun: Instant,
    next_ask: AtomicU64,
}

/// What the lock protects.
pub(crate) struct Engine {
    pub(crate) machine: Machine,
    pub(crate) sink: Box<dyn Sink>,
    pending: PendingChanges,
    /// The client does not take more; the thread that reads waits for it to.
    stalled: bool,
    /// Nothing can be written any more.
    broken: bool,
    calls: HashMap<Ticket, Running, BuildHasherDefault<Plain>>,
    asks: HashMap<AskId, oneshot::Sender<Asked>>,
    /// The HTTP requests whose channels are not done.
    arrivals: HashMap<Channel, Arc<Arrival>, BuildHasherDefault<Plain>>,
    /// Wakes the thread that reads.
    waker: Waker,
    /// When that thread wakes by itself.
    pub(crate) armed: Option<Time>,
    /// That thread has left frames unread.
    pub(crate) paused: bool,
    /// All is settled.
    pub(crate) closed: bool,
}

/// A handler at work.
struct Running {
    call: Arc<Call>,
    task: Arc<Task>,
    answered: bool,
    finished: bool,
}

/// What is to be done when the lock is free.
#[derive(Default)]
pub(crate) struct After {
    start: Vec<Arc<Task>>,
    tell: Vec<(Arc<Call>, CancelReason)>,
    drop: Vec<Arc<Task>>,
    asked: Vec<(oneshot::Sender<Asked>, Asked)>,
    notified: Vec<Message>,
    events: Vec<ServerEvent>,
}

impl Connection {
    pub(crate) fn new(
        policy: ServerPolicy,
        key: [u8; 16],
        registry: Arc<Registry>,
        sink: Box<dyn Sink>,
        executor: Executor,
    ) -> Arc<Connection> {
        Arc::new(Connection {
            message_limit: policy.message,
            engine: Mutex::new(Engine {
                machine: Machine::new(policy, key),
                sink,
                pending: PendingChanges::default(),
                stalled: false,
                broken: false,
                calls: HashMap::default(),
                asks: HashMap::new(),
                arrivals: HashMap::default(),
                waker: Waker::noop().clone(),
                armed: None,
                paused: false,
                closed: false,
            }),
            executor,
            registry,
            begun: Instant::now(),
            next_ask: AtomicU64::new(0),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Time {
        Time::after(self.begun.elapsed())
    }

    /// The moment at which the clock showed this time.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.begun + time.since_start()
    }

    /// Names the thread that reads.
    pub(crate) fn read_by(&self, waker: Waker) {
        self.lock().waker = waker;
    }

    /// Tells the machine something, and the client what comes of it.
    pub(crate) fn feed(self: &Arc<Connection>, input: Input) {
        self.feed_and_look(self.lock(), input, || ());
    }

    /// Tells the machine of a frame that came over HTTP, and looks at what has come of it before any handler is
    /// started.
    #[cfg(feature = "http-server")]
    pub(crate) fn hear<T>(
        self: &Arc<Connection>,
        channel: Channel,
        frame: Frame,
        arrival: Arc<Arrival>,
        look: impl FnOnce() -> T,
    ) -> T {
        let mut engine = self.lock();
        // A machine that has ended says of no channel that it is done.
        if !engine.closed {
            engine.machine.hear_from(arrival.principal);
            engine.arrivals.insert(channel, arrival);
        }
        self.feed_and_look(engine, Input::Frame(channel, frame), look)
    }

    fn feed_and_look<T>(
        self: &Arc<Connection>,
        mut engine: MutexGuard<'_, Engine>,
        input: Input,
        look: impl FnOnce() -> T,
    ) -> T {
        let mut after = After::default();
        engine.take(self, input, &mut after);
        engine.write_what_goes(self, &mut after);
        engine.poke();
        let seen = look();
        drop(engine);
        after.run(self);
        seen
    }

    /// The handler of `ticket` is done. What it answered is written when its thread has no other
    /// handler to run.
    pub(crate) fn conclude(self: &Arc<Connection>, ticket: Ticket, answer: Answer) {
        let mut after = After::default();
        let mut engine = self.lock();
        engine.calls.remove(&ticket);
        engine.take(self, Input::Answer(ticket, answer), &mut after);
        engine.poke();
        drop(engine);
        after.run(self);
    }

    /// The request of `ticket` is answered; its handler may go on.
    pub(crate) fn answer(self: &Arc<Connection>, ticket: Ticket, answer: Answer) {
        self.lock().mark(ticket, |running| running.answered = true);
        self.feed(Input::Answer(ticket, answer));
    }

    /// The handler of `ticket` has ended; somebody else may still hold its responder.
    pub(crate) fn finish(&self, ticket: Ticket) {
        self.lock().mark(ticket, |running| running.finished = true);
    }

    /// Writes what is queued, as far as the client takes it.
    pub(crate) fn flush(self: &Arc<Connection>) {
        let mut after = After::default();
        let mut engine = self.lock();
        engine.write_what_goes(self, &mut after);
        engine.poke();
        drop(engine);
        after.run(self);
    }

    /// Sends something the client can do without, unless too much is queued already.
    pub(crate) fn mention(self: &Arc<Connection>, input: Input) {
        if self.lock().sink.backlog() < HIGH {
            self.feed(input);
        } else {
            tracing::debug!("the client does not read; a notification was dropped");
        }
    }

    /// Tells the client what has changed; if too much is queued already, when it is not.
    pub(crate) fn inform(self: &Arc<Connection>, change: Change) {
        let mut engine = self.lock();
        if engine.sink.backlog() < HIGH {
            drop(engine);
            self.feed(change.into());
        } else if !engine.pending.keep(change) {
            tracing::debug!("the client does not read; a change was not kept for it");
        }
    }

    /// Asks the client; one receiver for each question.
    pub(crate) fn ask(
        self: &Arc<Connection>,
        within: Option<Ticket>,
        questions: impl IntoIterator<Item = Question>,
    ) -> Vec<(AskId, oneshot::Receiver<Asked>)> {
        let mut asks = Vec::new();
        let mut receivers = Vec::new();
        let mut engine = self.lock();
        for Question {
            key,
            method,
            params,
        } in questions
        {
            let id = AskId(self.next_ask.fetch_add(1, Ordering::Relaxed));
            let (sender, receiver) = oneshot::channel();
            // After the end nobody would answer: the receiver learns it from the lost sender.
            if !engine.closed {
                engine.asks.insert(id, sender);
            }
            receivers.push((id, receiver));
            asks.push(Ask {
                id,
                method,
                params,
                key,
            });
        }
        drop(engine);
        self.feed(Input::Ask { within, asks });
        receivers
    }

    /// Nobody waits for this answer any more.
    pub(crate) fn unask(self: &Arc<Connection>, id: AskId) {
        if self.lock().asks.remove(&id).is_some() {
            self.feed(Input::Unask(id));
        }
    }
}

impl Engine {
    /// Hands an input to the machine and does what can be done under the lock.
    pub(crate) fn take(&mut self, connection: &Arc<Connection>, input: Input, after: &mut After) {
        self.take_at(connection.now(), connection, input, after);
    }

    /// The same for what happened at this time, which is not before the last.
    pub(crate) fn take_at(
        &mut self,
        now: Time,
        connection: &Arc<Connection>,
        input: Input,
        after: &mut After,
    ) {
        self.machine.handle(now, input);
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Send(channel, message) if !self.broken => self.sink.send(channel, message),
                Output::Send(..) => {}
                Output::Done(channel) => {
                    self.arrivals.remove(&channel);
                    self.sink.done(channel);
                }
                Output::Start(ticket, request) => {
                    let arrival = self.arrivals.get(&request.channel).cloned();
                    let call = Call::new(connection, ticket, request, arrival);
                    let work = dispatch::work(&connection.registry, &call);
                    let task = Task::new(work, connection.executor.clone());
                    after.start.push(task.clone());
                    let running = Running {
                        call,
                        task,
                        answered: false,
                        finished: false,
                    };
                    self.calls.insert(ticket, running);
                }
                Output::Cancel(ticket, reason) => {
                    if let Some(running) = self.calls.get(&ticket) {
                        after.tell.push((running.call.clone(), reason));
                    }
                }
                Output::Drop(ticket) => {
                    if let Some(running) = self.calls.remove(&ticket) {
                        running.call.abandon();
                        after.drop.push(running.task);
                    }
                }
                Output::Asked(id, answer) => {
                    if let Some(asker) = self.asks.remove(&id) {
                        after.asked.push((asker, answer));
                    }
                }
                Output::Notified(message) => after.notified.push(message),
                Output::Event(event) => after.events.push(event),
                Output::Closed => self.close(after),
            }
        }
    }

    fn close(&mut self, after: &mut After) {
        self.closed = true;
        self.asks.clear();
        // Handlers that have answered and gone on: the machine has forgotten them.
        for (_, running) in self.calls.drain() {
            running.call.abandon();
            after
                .tell
                .push((running.call, CancelReason::TransportClosed));
            after.drop.push(running.task);
        }
    }

    fn mark(&mut self, ticket: Ticket, mark: impl FnOnce(&mut Running)) {
        if let Some(running) = self.calls.get_mut(&ticket) {
            mark(running);
            if running.answered && running.finished {
                self.calls.remove(&ticket);
            }
        }
    }

    /// Writes without waiting, from any thread.
    fn write_what_goes(&mut self, connection: &Arc<Connection>, after: &mut After) {
        if !self.stalled && self.sink.backlog() > 0 {
            let mut nobody = Context::from_waker(Waker::noop());
            if !self.write(connection, &mut nobody, after) {
                // The waker of the thread that reads has been replaced by none.
                self.waker.wake_by_ref();
            }
        }
    }

    /// Writes what is queued; false if some is left, for `cx` to be woken when there is room.
    pub(crate) fn write(
        &mut self,
        connection: &Arc<Connection>,
        cx: &mut Context<'_>,
        after: &mut After,
    ) -> bool {
        while !self.broken {
            match self.sink.flush(cx) {
                Ok(done) => {
                    self.stalled = !done;
                    let more = self.catch_up(connection, after);
                    if !done || !more {
                        return done;
                    }
                }
                Err(error) => self.break_off(connection, close_kind(&error), after),
            }
        }
        true
    }

    /// Tells what was put off, if there is room for it now. True if something was.
    fn catch_up(&mut self, connection: &Arc<Connection>, after: &mut After) -> bool {
        let mut told = false;
        while self.sink.backlog() < HIGH
            && let Some(change) = self.pending.next()
        {
            self.take(connection, change.into(), after);
            told = true;
        }
        told
    }

    /// Finds out whether the client is gone.
    pub(crate) fn look_for_client(
        &mut self,
        connection: &Arc<Connection>,
        cx: &mut Context<'_>,
        after: &mut After,
    ) {
        if !self.broken && self.sink.poll_gone(cx).is_ready() {
            self.break_off(connection, CloseKind::BrokenPipe, after);
        }
    }

    fn break_off(&mut self, connection: &Arc<Connection>, kind: CloseKind, after: &mut After) {
        self.broken = true;
        self.stalled = false;
        self.sink.clear();
        self.take(connection, Input::Closed(kind), after);
    }

    /// Whether the client may be read.
    pub(crate) fn wants_input(&self) -> bool {
        !self.closed && self.machine.wants_input() && self.sink.backlog() < HIGH
    }

    /// Wakes the thread that reads if it would otherwise be late.
    fn poke(&self) {
        let due = self.machine.deadline();
        let early = due.is_some_and(|due| self.armed.is_none_or(|armed| due < armed));
        if early || self.closed || (self.paused && self.wants_input()) {
            self.waker.wake_by_ref();
        }
    }

    /// Whether all that was to be said has been said, or never can be.
    pub(crate) fn has_said_all(&self) -> bool {
        self.broken || (self.sink.backlog() == 0 && !self.stalled)
    }

    /// Waits for what is on its way, but not for long.
    pub(crate) fn end_output(&mut self, patience: std::time::Duration) {
        self.broken = true;
        self.sink.clear();
        self.sink.finish(patience);
    }
}

impl After {
    /// Does what is to be done, without the lock.
    pub(crate) fn run(mut self, connection: &Arc<Connection>) {
        let start = std::mem::take(&mut self.start);
        if !start.is_empty() {
            connection.executor.push_all(start);
        }
        self.run_rest(connection);
    }

    /// The same, on the thread that reads. True if it is to run the handlers itself.
    pub(crate) fn run_reading(mut self, connection: &Arc<Connection>) -> bool {
        let start = std::mem::take(&mut self.start);
        let helps = !start.is_empty() && connection.executor.offer(start);
        self.run_rest(connection);
        helps
    }

    fn run_rest(self, connection: &Arc<Connection>) {
        for (call, reason) in self.tell {
            call.cancel(reason);
        }
        for task in self.drop {
            task.give_up();
        }
        for (asker, answer) in self.asked {
            // Whoever asked may be gone.
            let _ = asker.send(answer);
        }
        for message in self.notified {
            dispatch::notified(connection, message);
        }
        for event in self.events {
            report(&event);
        }
    }
}

fn report(event: &ServerEvent) {
    match event.is_notable() {
        true => tracing::warn!("{event}"),
        false => tracing::debug!("{event}"),
    }
}

/// What an error of the stream says about the connection.
pub(crate) fn close_kind(error: &io::Error) -> CloseKind {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::WriteZero => CloseKind::BrokenPipe,
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => CloseKind::Reset,
        _ => CloseKind::Failed(error.to_string()),
    }
}

/// Tickets and channels are numbers of our own, each used once: no hash can be better than the number.
#[derive(Default)]
pub(crate) struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 << 8) | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The table looks at the highest bits, too.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
