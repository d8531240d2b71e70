//! The driver: carries out what a session says, and reports what happened.
//!
//! No rule of a session's life is decided here. One task does everything: it reads what the host
//! and the server have written, hands each frame to the session, and writes what comes out, all in
//! one turn, without a channel or another task in between. A message costs three system calls on
//! its way through: waiting for it, reading it, writing it.
//!
//! Reading never waits for writing: what a peer does not take is queued. While a queue is long,
//! its source is not read, so that a slow peer slows down the other one rather than fill memory.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use outlive_core::{
    Event, Framer, Generation, Input, LinkInput, LinkOrder, Output, Session, State, Time,
};
use rustix::process::Pid;
use tokio::time::Sleep;

use crate::child::{ChildLink, Read};
use crate::host::Host;
use crate::outbox::Outbox;
use crate::process;
use crate::secrets::Secrets;
use crate::signals::{Signal, Signals};
use crate::warden::Warden;
use crate::{Ended, Observer, Run};

/// Above this many bytes for the host, the server is not read …
const HOST_HIGH: usize = 1 << 20;
/// … until no more than this are left.
const HOST_LOW: usize = HOST_HIGH / 2;

/// Reads of one source before the others have their turn.
const READS: usize = 8;

/// Rounds over all sources before the kernel is asked for news.
const ROUNDS: usize = 8;

/// How long a host that does not read may keep us from ending.
const FAREWELL: Duration = Duration::from_secs(1);

/// Runs a session until it is closed.
pub(crate) async fn drive<O: Observer>(run: Run<O>) -> io::Result<Ended> {
    let mut driver = Driver::new(run)?;
    driver.feed(Input::Start);
    // The budget tokio gives to tasks would only add wake-ups: there is one task.
    let ended = tokio::task::unconstrained(poll_fn(|cx| driver.poll(cx))).await;
    driver.host.finish(FAREWELL);
    Ok(ended)
}

struct Driver<O> {
    run: Run<O>,
    secrets: Secrets,
    session: Session,
    /// Inputs that arose while outputs were carried out.
    arisen: VecDeque<Input>,
    /// The session was told something since this was last cleared.
    fed: bool,

    host: Host,
    host_framer: Framer,
    host_outbox: Outbox,
    /// The host's input has ended.
    host_ended: bool,
    /// The host takes nothing any more.
    host_gone: bool,
    /// The host's outbox was too long and has not been short since.
    host_blocked: bool,

    /// The link in service, and those on their way out.
    links: Vec<ChildLink>,
    /// Started with the first link.
    warden: Option<Warden>,
    /// A link was made and may not have been polled yet.
    connected: bool,
    /// Bytes queued for a link above which the host is not read.
    link_high: usize,
    message_limit: usize,

    signals: Signals,
    begun: Instant,
    /// The time of this turn.
    now: Time,
    alarm: Pin<Box<Sleep>>,
    /// When the alarm will ring.
    alarm_at: Option<Time>,

    /// The breaker opened and the session was told to stop for it.
    failed: bool,
    /// When the session was closed.
    closed: Option<Time>,
}

impl<O: Observer> Driver<O> {
    fn new(run: Run<O>) -> io::Result<Driver<O>> {
        let secrets = Secrets::of(&run.command);
        let mut policy = run.policy.clone();
        policy.label = run.command.label(&secrets).into();
        let begun = Instant::now();
        Ok(Driver {
            secrets,
            host: Host::of_this_process()?,
            host_framer: Framer::new(policy.limits.message),
            host_outbox: Outbox::default(),
            host_ended: false,
            host_gone: false,
            host_blocked: false,
            links: Vec::new(),
            warden: None,
            connected: false,
            link_high: policy.limits.in_flight_bytes,
            message_limit: policy.limits.message,
            session: Session::new(policy, run.seed),
            arisen: VecDeque::new(),
            fed: false,
            signals: Signals::new()?,
            begun,
            now: Time::ZERO,
            alarm: Box::pin(tokio::time::sleep_until(begun.into())),
            alarm_at: None,
            failed: false,
            closed: None,
            run,
        })
    }

    /// One turn: everything that can be done without waiting.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        self.now = Time::after(self.begun.elapsed());
        for _ in 0..ROUNDS {
            self.poll_signals(cx);
            let mut again = self.poll_host(cx);
            let read_host = self.reads_host();
            for index in 0..self.links.len() {
                again |= self.poll_link(cx, index);
            }
            again |= self.flush(cx);
            again |= self.poll_alarm(cx);
            // What was not read because a queue was long, or too much in flight, is read now.
            again |= !read_host && self.reads_host();
            again |= std::mem::take(&mut self.connected);
            if let Some(ended) = self.ended() {
                return Poll::Ready(ended);
            }
            if !again {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_signals(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(signal) = self.signals.poll_next(cx) {
            match signal {
                Signal::Stop => self.feed(Input::Stop),
                Signal::Restart => self.feed(Input::Restart),
                Signal::Child => self.collect(),
            }
        }
    }

    /// Reads the host. True if there may be more to do.
    fn poll_host(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..READS {
            if !self.reads_host() {
                return false;
            }
            match self.host.input.poll_read(cx, self.host_framer.spare()) {
                Poll::Pending => return false,
                Poll::Ready(Ok(1..)) => {
                    while let Some(frame) = self.host_framer.next_frame() {
                        self.feed(Input::Host(frame));
                    }
                }
                Poll::Ready(_) => {
                    self.host_ended = true;
                    while let Some(frame) = self.host_framer.finish() {
                        self.feed(Input::Host(frame));
                    }
                    self.feed(Input::HostClosed);
                }
            }
        }
        true
    }

    fn reads_host(&self) -> bool {
        // What the host is told without the server's doing must not pile up either.
        !self.host_ended
            && self.session.wants_host()
            && self.host_outbox.len() < self.link_high
            && self
                .links
                .iter()
                .all(|link| link.outbox.len() < self.link_high)
    }

    /// Reads a server. True if there may be more to do.
    fn poll_link(&mut self, cx: &mut Context<'_>, index: usize) -> bool {
        let generation = self.links[index].generation;
        let mut again = false;
        // Standard error first: the last words should be known before the end is.
        for turn in 1..=READS {
            let Poll::Ready(read) = self.links[index].poll_stderr(cx) else {
                break;
            };
            self.report_lines(index);
            if read == Read::End {
                break;
            }
            again = turn == READS;
        }
        for turn in 1..=READS {
            if self.host_blocked || self.links[index].outbox.len() >= 2 * self.link_high {
                break;
            }
            let Poll::Ready(read) = self.links[index].poll_stdout(cx) else {
                break;
            };
            self.report_frames(index);
            if read == Read::End {
                let sent = self.links[index].sent();
                self.feed(Input::Link(generation, LinkInput::Eof { sent }));
                break;
            }
            again |= turn == READS;
        }
        again
    }

    fn report_frames(&mut self, index: usize) {
        let generation = self.links[index].generation;
        while let Some(frame) = self.links[index].next_frame() {
            self.feed(Input::Link(generation, LinkInput::Frame(frame)));
        }
    }

    fn report_lines(&mut self, index: usize) {
        let generation = self.links[index].generation;
        for line in self.links[index].take_lines() {
            let line = self.secrets.mask(&line);
            self.run.observer.stderr(&line);
            self.feed(Input::Link(generation, LinkInput::Stderr(line)));
        }
    }

    /// Writes what is queued. True if there is more to do because of it.
    fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        self.fed = false;
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if let Err(error) = link.flush(cx) {
                let (generation, sent) = (link.generation, link.sent());
                let error = error.to_string();
                self.feed(Input::Link(
                    generation,
                    LinkInput::WriteFailed { error, sent },
                ));
            }
        }
        self.flush_host(cx);
        // What the session said to that may be more to write.
        self.fed
    }

    fn flush_host(&mut self, cx: &mut Context<'_>) {
        if self.host_gone {
            return;
        }
        if self.host.output.poll_gone(cx).is_ready()
            || self.host.output.flush(cx, &mut self.host_outbox).is_err()
        {
            // FM-10: nobody will ever read what we write, so nobody is there to be served.
            self.host_gone = true;
            self.host_outbox.clear();
            if !self.host_ended {
                self.host_ended = true;
                self.feed(Input::HostClosed);
            }
        }
        let blocked = match self.host_outbox.len() {
            len if len > HOST_HIGH => true,
            len if len <= HOST_LOW => false,
            _ => self.host_blocked,
        };
        if blocked != self.host_blocked {
            self.host_blocked = blocked;
            self.feed(Input::HostBlocked(blocked));
        }
    }

    /// Tells the session when its moment has come and sets the alarm for the next.
    /// True if there is more to do because of it.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> bool {
        let due = match self.closed {
            Some(at) => Some(at + FAREWELL),
            None => self.session.deadline(),
        };
        if self.closed.is_none() && due.is_some_and(|at| at <= self.now) {
            self.feed(Input::Tick);
            return true;
        }
        // An alarm that rings too early is set again then; one that would ring too late, now.
        if let Some(at) = due
            && self.alarm_at.is_none_or(|set| at < set)
        {
            self.alarm
                .as_mut()
                .reset((self.begun + at.since_start()).into());
            self.alarm_at = Some(at);
        }
        if self.alarm_at.is_some() && self.alarm.as_mut().poll(cx).is_ready() {
            self.alarm_at = None;
            self.now = Time::after(self.begun.elapsed());
            return true;
        }
        false
    }

    /// Hands an input to the session and does what it says.
    fn feed(&mut self, input: Input) {
        self.fed = true;
        self.session.handle(self.now, input);
        self.carry_out();
        while let Some(input) = self.arisen.pop_front() {
            self.session.handle(self.now, input);
            self.carry_out();
        }
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.session.poll() {
            match output {
                Output::ToHost(frame) if !self.host_gone => self.host_outbox.push(frame),
                Output::Refuse(refusal) if !self.host_gone => {
                    self.host_outbox.push(refusal.to_response());
                }
                Output::ToHost(_) | Output::Refuse(_) => {}
                Output::ToLink(generation, frame) => {
                    if let Some(link) = self.link(generation) {
                        link.send(frame);
                    }
                }
                Output::Connect(generation) => self.connect(generation),
                Output::Link(generation, order) => self.order(generation, order),
                Output::Event(event) => self.tell(event),
                Output::Closed => self.closed = Some(self.now),
            }
        }
    }

    fn link(&mut self, generation: Generation) -> Option<&mut ChildLink> {
        self.links
            .iter_mut()
            .find(|link| link.generation == generation)
    }

    fn connect(&mut self, generation: Generation) {
        let input = match ChildLink::spawn(&self.run.command, generation, self.message_limit) {
            Ok(link) => {
                self.guard(link.pid());
                self.links.push(link);
                self.connected = true;
                LinkInput::Up
            }
            Err(why) => LinkInput::Unmade(why),
        };
        self.arisen.push_back(Input::Link(generation, input));
    }

    fn guard(&mut self, server: Pid) {
        if self.warden.is_none()
            && let Some(command) = self.run.warden.take()
        {
            // Without one we go on as well as we can: it is only needed if we are killed.
            self.warden = Warden::start(&command).ok();
        }
        if let Some(warden) = &mut self.warden {
            warden.guard(server);
        }
    }

    fn order(&mut self, generation: Generation, order: LinkOrder) {
        let Some(link) = self.link(generation) else {
            return;
        };
        match order {
            LinkOrder::CloseInput => link.close_input(),
            LinkOrder::Terminate => link.terminate(),
            LinkOrder::Kill => link.kill(),
            LinkOrder::Inspect => {
                let stopped = link.is_stopped();
                let answer = LinkInput::Inspected { stopped };
                self.arisen.push_back(Input::Link(generation, answer));
            }
        }
    }

    fn tell(&mut self, mut event: Event) {
        if let Event::Dropped { detail, .. } = &mut event {
            // Before anybody cuts it: a part of a secret is not recognised.
            *detail = self.secrets.mask(detail);
        }
        self.run.observer.event(self.now, &event);
        if self.run.exit_on_failed
            && !self.failed
            && matches!(event, Event::State(State::Failed { .. }))
        {
            self.failed = true;
            self.arisen.push_back(Input::Stop);
        }
    }

    /// A child has ended: finds out which, reports its last words and its end.
    fn collect(&mut self) {
        while let Some(index) = self.links.iter().position(ChildLink::has_ended) {
            self.links[index].read_rest();
            self.report_lines(index);
            self.report_frames(index);
            let link = self.links.swap_remove(index);
            let (generation, pid) = (link.generation, link.pid());
            let (exit, sent) = link.end();
            if let Some(warden) = &mut self.warden {
                warden.release(pid);
            }
            // While another server lives, the orphans may be its own.
            if self.run.owns_children && self.links.is_empty() {
                process::kill_orphans(&self.known());
            }
            self.feed(Input::Link(generation, LinkInput::Exited { exit, sent }));
        }
        if self.run.owns_children {
            process::collect_orphans(&self.known());
        }
    }

    /// The children of this process that are not orphans.
    fn known(&self) -> Vec<Pid> {
        let servers = self.links.iter().map(ChildLink::pid);
        servers
            .chain(self.warden.as_ref().map(Warden::pid))
            .collect()
    }

    fn ended(&self) -> Option<Ended> {
        let closed = self.closed?;
        let said = self.host_gone || self.host_outbox.is_empty();
        (said || self.now >= closed + FAREWELL).then_some(match self.failed {
            true => Ended::Failed,
            false => Ended::Closed,
        })
    }
}
