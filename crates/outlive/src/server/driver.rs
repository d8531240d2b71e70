//! The thread that reads a client, and keeps the time.
//!
//! It has a runtime of its own, so nothing of the user's can hold it up: pings, cancellations and
//! answers get through whatever the handlers do. While handlers are quick it runs them itself, but
//! never without leaving its slot first: should one block, another thread takes the slot and goes
//! on reading (see the pool), and this one ends with its handler.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use outlive_core::server::{Channel, CloseKind, Input};
use outlive_core::{Framer, Time};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::time::Sleep;

use super::connection::{After, Connection, close_kind};
use super::executor::{Reader, TICK};
use super::wire::Reading;
use crate::io::spin::{Next, Spin, Thread};

/// Reads of the client before it is written to.
const READS: usize = 8;

/// Rounds before the kernel is asked for new readiness.
const ROUNDS: usize = 8;

/// How long a client that does not read may keep us from ending.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the end waits for handlers to be dropped.
const LAST_DROPS: Duration = Duration::from_millis(200);

/// Makes both directions of a connection, on the thread that is to read it.
pub(crate) type Open = Box<dyn FnOnce() -> io::Result<(Box<dyn Reading>, Arc<Connection>)> + Send>;

/// Starts the thread of a connection. `opened` is told when there is one, `ended` when it is over.
pub(crate) fn start(
    open: Open,
    opened: oneshot::Sender<io::Result<Arc<Connection>>>,
    ended: oneshot::Sender<()>,
) -> io::Result<()> {
    spawn(move || match ReaderSlot::make(open, ended) {
        Ok(slot) => {
            let connection = &slot.connection;
            if opened.send(Ok(connection.clone())).is_err() {
                // Whoever wanted it served has already gone.
                connection.registry.leave(connection);
                connection.feed(Input::Shutdown);
            }
            slot.run_reader();
        }
        Err(error) => {
            let _ = opened.send(Err(error));
        }
    })
}

fn spawn(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("outlive-server".into());
    thread.spawn(run).map(drop)
}

/// The place of the thread that reads. Whoever takes the driver out of it is that thread.
struct ReaderSlot {
    runtime: Runtime,
    driver: Mutex<Option<Driver>>,
    connection: Arc<Connection>,
    ended: Mutex<Option<oneshot::Sender<()>>>,
}

impl ReaderSlot {
    fn make(open: Open, ended: oneshot::Sender<()>) -> io::Result<Arc<ReaderSlot>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let inside = runtime.enter();
        let (reader, connection) = open()?;
        let driver = Driver::new(reader, connection.clone());
        drop(inside);
        Ok(Arc::new_cyclic(|slot| ReaderSlot {
            runtime,
            driver: Mutex::new(Some(Driver {
                slot: slot.clone(),
                ..driver
            })),
            connection,
            ended: Mutex::new(Some(ended)),
        }))
    }

    fn take(&self) -> Option<Driver> {
        let driver = self.driver.lock();
        driver.unwrap_or_else(PoisonError::into_inner).take()
    }

    fn leave(&self, driver: Driver) {
        let slot = self.driver.lock();
        *slot.unwrap_or_else(PoisonError::into_inner) = Some(driver);
    }

    /// Reads until the connection is over, or until another thread does.
    fn run_reader(&self) {
        while let Some(mut driver) = self.take() {
            // The budget tokio gives to tasks would only add wake-ups: there is one task.
            let turn = tokio::task::unconstrained(poll_fn(|cx| driver.poll(cx)));
            match self.runtime.block_on(turn) {
                Turn::Help => {
                    self.leave(driver);
                    self.connection.executor.help();
                    self.connection.flush();
                }
                Turn::End => return self.end(),
            }
        }
    }

    fn end(&self) {
        self.connection.lock().end_output(LAST_WRITE_TIMEOUT);
        self.connection.executor.close();
        wait_for_drops(&self.connection);
        let ended = self.ended.lock();
        if let Some(ended) = ended.unwrap_or_else(PoisonError::into_inner).take() {
            let _ = ended.send(());
        }
    }
}

/// What the thread that reads does next.
enum Turn {
    /// Runs handlers.
    Help,
    /// Nothing.
    End,
}

/// Gives handlers that were dropped at the end the time to be.
fn wait_for_drops(connection: &Connection) {
    let begun = Instant::now();
    while !connection.executor.is_idle() && begun.elapsed() < LAST_DROPS {
        thread::sleep(Duration::from_millis(1));
    }
}

struct Driver {
    reader: Box<dyn Reading>,
    framer: Framer,
    connection: Arc<Connection>,
    slot: Weak<ReaderSlot>,
    spin: Spin,
    /// The pool has been told who looks after it.
    attended: bool,
    /// There are handlers to be run before anything else is read.
    helps: bool,
    /// The client sends nothing any more …
    ended: bool,
    /// … and the machine knows.
    told: bool,
    alarm: Pin<Box<Sleep>>,
    alarm_at: Option<Time>,
    /// When the pool is looked after next.
    tick: Option<Time>,
    /// When the connection was settled.
    closed: Option<Time>,
}

impl Driver {
    fn new(reader: Box<dyn Reading>, connection: Arc<Connection>) -> Driver {
        let alarm = tokio::time::sleep_until(connection.instant(Time::ZERO).into());
        Driver {
            reader,
            framer: Framer::new(connection.message_limit),
            spin: Spin::new(Instant::now()),
            slot: Weak::new(),
            attended: false,
            helps: false,
            ended: false,
            told: false,
            alarm: Box::pin(alarm),
            alarm_at: None,
            tick: None,
            closed: None,
            connection,
        }
    }

    /// One turn: everything that can be done without waiting.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        if !std::mem::replace(&mut self.attended, true) {
            self.set_reader(cx.waker());
        }
        for _ in 0..ROUNDS {
            let mut again = self.read(cx);
            if std::mem::take(&mut self.helps) {
                return Poll::Ready(Turn::Help);
            }
            again |= self.write(cx);
            if self.has_ended() {
                return Poll::Ready(Turn::End);
            }
            again |= self.watch_clock(cx);
            if !again && !self.spins() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// All has been done: looks for what the client says next before sleeping. True if it has said
    /// something.
    fn spins(&mut self) -> bool {
        let reads = !self.ended && !self.connection.lock().paused;
        let visible = self.connection.registry.spins && self.reader.is_visible();
        let thread = (reads && visible).then_some(Thread::Own);
        while self.spin.next(thread) == Next::Look {
            if self.reader.read_now(self.framer.spare()) > 0 {
                self.spin.hear();
                return true;
            }
        }
        false
    }

    /// Introduces this thread, and those that may take its place: all have the same waker.
    fn set_reader(&self, waker: &Waker) {
        self.connection.read_by(waker.clone());
        let connection = Arc::downgrade(&self.connection);
        let slot = self.slot.clone();
        self.connection.executor.set_reader(Reader {
            waker: waker.clone(),
            relieve: Box::new(move || match slot.upgrade() {
                Some(slot) => spawn(move || slot.run_reader()).is_ok(),
                None => true,
            }),
            settle: Box::new(move || {
                if let Some(connection) = connection.upgrade() {
                    connection.flush();
                }
            }),
        });
    }

    /// Reads the client. True if there may be more.
    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..READS {
            if !self.take_frames() || self.told || self.helps {
                return false;
            }
            if self.ended {
                self.tell_end(CloseKind::Eof);
                return true;
            }
            match self.reader.poll_read(cx, self.framer.spare()) {
                Poll::Pending => return false,
                Poll::Ready(Ok(0)) => self.ended = true,
                Poll::Ready(Ok(_)) => {
                    self.spin.hear();
                }
                Poll::Ready(Err(error)) => {
                    self.tell_end(close_kind(&error));
                    return true;
                }
            }
        }
        true
    }

    fn tell_end(&mut self, kind: CloseKind) {
        (self.ended, self.told) = (true, true);
        self.connection.feed(Input::Closed(kind));
    }

    /// Hands on what has been read; false if there is more than may be now.
    fn take_frames(&mut self) -> bool {
        let mut after = After::default();
        let mut engine = self.connection.lock();
        let now = self.connection.now();
        engine.paused = false;
        loop {
            if !engine.wants_input() {
                engine.paused = true;
                break;
            }
            let frame = match self.ended {
                false => self.framer.next_frame(),
                true => self.framer.finish(),
            };
            let Some(frame) = frame else { break };
            engine.take_at(
                now,
                &self.connection,
                Input::Frame(Channel::MAIN, frame),
                &mut after,
            );
        }
        let paused = engine.paused;
        drop(engine);
        self.helps |= after.run_reading(&self.connection);
        !paused
    }

    /// Writes what is queued and finds out whether the client is gone. True if it may be read
    /// again because of it.
    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        let mut after = After::default();
        let mut engine = self.connection.lock();
        engine.look_for_client(&self.connection, cx, &mut after);
        engine.write(&self.connection, cx, &mut after);
        let again = engine.paused && engine.wants_input();
        drop(engine);
        after.run(&self.connection);
        again
    }

    /// Does what is due and sets the alarm for what is next. True if something was due.
    fn watch_clock(&mut self, cx: &mut Context<'_>) -> bool {
        let now = self.connection.now();
        let tended = match self.tick {
            None => self.connection.executor.wants_growth(),
            Some(tick) if tick <= now => self.connection.executor.grow_threads(),
            Some(_) => true,
        };
        self.tick = match self.tick {
            Some(tick) if tick > now => Some(tick),
            _ => tended.then(|| now + TICK),
        };
        let mut engine = self.connection.lock();
        let due = match self.closed {
            Some(at) => Some(at + LAST_WRITE_TIMEOUT),
            None => engine.machine.deadline(),
        };
        if self.closed.is_none() && due.is_some_and(|due| due <= now) {
            drop(engine);
            self.connection.feed(Input::Tick);
            return true;
        }
        let next = [due, self.tick].into_iter().flatten().min();
        if let Some(at) = next
            && self.alarm_at.is_none_or(|set| at < set)
        {
            let at_instant = self.connection.instant(at);
            self.alarm.as_mut().reset(at_instant.into());
            self.alarm_at = Some(at);
        }
        engine.armed = self.alarm_at;
        drop(engine);
        if self.alarm_at.is_some() && self.alarm.as_mut().poll(cx).is_ready() {
            self.alarm_at = None;
            return true;
        }
        false
    }

    /// Whether all is settled and said.
    fn has_ended(&mut self) -> bool {
        let now = self.connection.now();
        let engine = self.connection.lock();
        if !engine.closed {
            return false;
        }
        let closed = *self.closed.get_or_insert(now);
        engine.has_said_all() || now >= closed + LAST_WRITE_TIMEOUT
    }
}
