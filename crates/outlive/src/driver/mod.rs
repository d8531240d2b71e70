//! The driver: carries out what a session says, and reports what happened.
//!
//! # Theory
//!
//! No rule of a session's life is decided here. One task does everything: it takes what the host
//! and the server have said, hands each frame to the session, and passes on what comes out, all in
//! one turn, without a channel or another task in between. Between two pipes a message costs three
//! system calls on its way through: waiting for it, reading it, writing it.
//!
//! When much comes at once, the first of it is written before the last is looked at ([`ENOUGH`]): the peer
//! is woken and at work meanwhile. Otherwise host, driver and server would wait for each other in turn.
//!
//! While messages come in quick succession, the driver looks for the next one for a moment before
//! it sleeps, unless somebody waits for its thread: see [`Spin`].
//!
//! Reading never waits for writing: what a peer does not take is queued. While a queue is long,
//! its source is not read, so that a slow peer slows down the other one rather than fill memory.
//!
//! The driver does not know what its two sides are made of: see [`Downstream`] and [`Upstream`].
//!
//! | file | what it is |
//! |---|---|
//! | `downstream`, `stdio` | the host's side, and standard streams as one |
//! | `upstream`, `connector` | the server's side, and byte streams as one |
//! | `address` | where a server is found |

pub(crate) mod address;
pub(crate) mod connector;
pub(crate) mod downstream;
pub(crate) mod stdio;
pub(crate) mod upstream;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use outlive_core::{Event, Generation, Input, LinkInput, LinkOrder, Output, Policy, Session, Time};
use tokio::time::Sleep;

use crate::driver::downstream::Downstream;
use crate::driver::upstream::{Link, Read, Upstream};
use crate::io::spin::{Look, Next, Spin};

/// Reads of one source before the others have their turn.
pub(crate) const READS: usize = 8;

/// Rounds over all sources before the kernel is asked for new readiness.
const ROUNDS: usize = 32;

/// Inputs from one source before the others have their turn and the kernel is asked for new readiness. What is read is
/// bounded above, but not how much is in it: a server that prints `y` for ever fits millions of lines in there (FM-11,
/// FM-67).
const INPUTS: usize = 1024;

/// So much is written before the rest of a turn is dealt with. Measured: with much less, system calls cost more
/// than is gained.
const ENOUGH: usize = 32 << 10;

/// Dealing with a frame takes as long as passing on this many bytes.
const FRAME: usize = 1 << 10;

/// How long a host that does not read may keep us from ending.
pub(crate) const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a session until it is closed. Gives back the host's side.
pub(crate) async fn drive<D: Downstream, U: Upstream>(
    down: D,
    up: U,
    policy: Policy,
    seed: u64,
) -> D {
    let mut driver = Driver::new(down, up, policy, seed);
    if let Some(meter) = driver.down.meter() {
        driver.session.count_into(meter);
    }
    if let Some(observer) = driver.down.observer() {
        driver.session.observe(observer);
    }
    driver.feed(Input::Start);
    // The budget tokio gives to tasks would only add wake-ups: this one bounds its turns itself.
    tokio::task::unconstrained(poll_fn(|cx| driver.poll(cx))).await;
    driver.links.drain(..).for_each(Link::let_go);
    driver.down
}

struct Driver<D, U: Upstream> {
    session: Session,
    /// Inputs that arose while outputs were carried out.
    arisen: VecDeque<Input>,
    /// The session was told something since this was last cleared.
    fed: bool,
    /// How many inputs it may still be handed from one source.
    left: usize,
    /// A source has had its share of this turn.
    spent: bool,
    /// What was queued for either side since the last attempt to write it: bytes, and [`FRAME`] for each frame.
    unwritten: usize,
    spin: Spin,
    /// How the host and the links are asked for news in this round.
    look: Look,

    /// The link in service, and those on their way out.
    links: Vec<U::Link>,
    up: U,
    /// Dropped after the links: who is told of the end is told when it has come.
    down: D,
    /// A link was made and may not have been polled yet.
    connected: bool,
    /// A link has ended and is to be put away.
    ended: bool,
    /// Bytes queued for a link above which the host is not read.
    link_high: usize,

    begun: Instant,
    /// The time of this turn.
    now: Time,
    alarm: Pin<Box<Sleep>>,
    /// When the alarm will ring.
    alarm_at: Option<Time>,

    /// When the session was closed.
    closed: Option<Time>,
}

impl<D: Downstream, U: Upstream> Driver<D, U> {
    fn new(mut down: D, up: U, policy: Policy, seed: u64) -> Driver<D, U> {
        let begun = Instant::now();
        Driver {
            link_high: policy.limits.in_flight_bytes,
            session: down.session().unwrap_or_else(|| Session::new(policy, seed)),
            arisen: VecDeque::new(),
            fed: false,
            left: INPUTS,
            spent: false,
            unwritten: 0,
            spin: Spin::new(begun),
            look: Look::Usual,
            down,
            up,
            links: Vec::new(),
            connected: false,
            ended: false,
            begun,
            now: Time::ZERO,
            alarm: Box::pin(tokio::time::sleep_until(begun.into())),
            alarm_at: None,
            closed: None,
        }
    }

    /// One turn: everything that can be done without waiting.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.now = Time::after(self.begun.elapsed());
        self.spin.resume();
        self.spent = false;
        let mut rounds = 0;
        while rounds < ROUNDS {
            while self.up.poll_ended(cx).is_ready() || mem::take(&mut self.ended) {
                self.collect();
            }
            let mut again = self.poll_host(cx);
            self.down.look_at(&self.session, self.now);
            let read_host = self.reads_host();
            for index in 0..self.links.len() {
                again |= self.poll_link(cx, index);
            }
            self.look = Look::Usual;
            again |= self.flush(cx);
            again |= self.poll_alarm(cx);
            // What was not read because a queue was long, or too much in flight, is read now.
            again |= !read_host && self.reads_host();
            again |= self.ended | mem::take(&mut self.connected);
            if self.is_over() {
                return Poll::Ready(());
            }
            if self.spent || self.is_sated() {
                break;
            }
            if again || self.spin.has_heard() {
                rounds += 1;
            }
            if again {
                continue;
            }
            match self.next() {
                Next::Look => {}
                Next::Yield => break,
                Next::Sleep => {
                    self.down.look_at(&self.session, self.now);
                    return Poll::Pending;
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// All has been done: whether to look for news once more before sleeping.
    fn next(&mut self) -> Next {
        let visible = self.links.iter().any(Link::is_visible);
        let next = self.spin.next(self.down.thread().filter(|_| visible));
        if next != Next::Sleep {
            self.look = Look::Closely;
        }
        next
    }

    /// Whether those who were told something should have this thread first.
    fn is_sated(&self) -> bool {
        self.spin.is_sated(self.down.thread())
    }

    /// Takes note that a peer is heard.
    fn hear(&mut self) {
        if let Some(now) = self.spin.hear() {
            self.now = Time::after(now - self.begun);
        }
    }

    /// Hears the host. True if there may be more to do.
    fn poll_host(&mut self, cx: &mut Context<'_>) -> bool {
        let mut look = self.look;
        self.left = INPUTS;
        while self.left > 0 {
            let open = self.reads_host();
            match self
                .down
                .poll_next(cx, open, mem::replace(&mut look, Look::Usual))
            {
                Poll::Ready(Some(input)) => {
                    self.hear();
                    self.feed(input);
                    if self.unwritten >= ENOUGH {
                        self.flush_links(cx);
                    }
                }
                Poll::Ready(None) => return true,
                Poll::Pending => return false,
            }
        }
        true
    }

    fn reads_host(&self) -> bool {
        // What the host is told without the server's doing must not pile up either.
        self.session.wants_host()
            && self.down.backlog() < self.link_high
            && self
                .links
                .iter()
                .all(|link| link.backlog() < self.link_high)
    }

    /// Reads a server. True if there may be more to do.
    fn poll_link(&mut self, cx: &mut Context<'_>, index: usize) -> bool {
        let generation = self.links[index].generation();
        if let Poll::Ready(made) = self.links[index].poll_made(cx) {
            let input = match made {
                Ok(()) => LinkInput::Up,
                Err(why) => LinkInput::Unmade(why),
            };
            self.feed(Input::Link(generation, input));
            // One that could not be made is put away.
            self.ended |= self.links[index].has_ended();
        }
        self.ended |= self.links[index].poll_unread(cx).is_ready();
        let mut again = false;
        let mut look = self.look;
        self.left = INPUTS;
        // Standard error first: the last words should be known before the end is.
        for turn in 1..=READS {
            let Poll::Ready(read) = self.links[index].poll_stderr(cx) else {
                break;
            };
            self.report_lines(index);
            if read == Read::End {
                break;
            }
            again = turn == READS || self.left == 0;
            if again {
                break;
            }
        }
        self.left = INPUTS;
        // What was read in the last turn and not handed on.
        self.report(cx, index, false);
        for turn in 1..=READS {
            if self.left == 0
                || self.is_sated()
                || self.down.is_blocked()
                || self.links[index].backlog() >= 2 * self.link_high
            {
                break;
            }
            let Poll::Ready(read) =
                self.links[index].poll_read(cx, mem::replace(&mut look, Look::Usual))
            else {
                break;
            };
            self.hear();
            self.report(cx, index, read == Read::End);
            if read == Read::End {
                let ending = self.links[index].ending();
                self.feed(Input::Link(generation, ending));
                self.ended |= self.links[index].has_ended();
                break;
            }
            again |= turn == READS;
        }
        again
    }

    /// Hands on what was read, as far as there is to be more in this turn; `whole`: all of it.
    fn report(&mut self, cx: &mut Context<'_>, index: usize, whole: bool) {
        let generation = self.links[index].generation();
        while (whole || (self.left > 0 && !self.is_sated()))
            && let Some(input) = self.links[index].next_input()
        {
            self.feed(Input::Link(generation, input));
            if self.unwritten >= ENOUGH {
                self.flush_host(cx);
            }
        }
    }

    fn report_lines(&mut self, index: usize) {
        let generation = self.links[index].generation();
        for line in self.links[index].take_lines() {
            let line = self.up.mask(&line);
            self.down.stderr(&line);
            self.feed(Input::Link(generation, LinkInput::Stderr(line)));
        }
    }

    /// Writes what is queued. True if there is more to do because of it.
    fn flush(&mut self, cx: &mut Context<'_>) -> bool {
        self.fed = false;
        self.flush_links(cx);
        self.flush_host(cx);
        // What the session said to that may be more to write.
        self.fed
    }

    fn flush_links(&mut self, cx: &mut Context<'_>) {
        self.unwritten = 0;
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if let Err(error) = link.flush(cx) {
                let (generation, sent) = (link.generation(), link.sent());
                let error = error.to_string();
                self.feed(Input::Link(
                    generation,
                    LinkInput::WriteFailed { error, sent },
                ));
            }
        }
    }

    fn flush_host(&mut self, cx: &mut Context<'_>) {
        self.unwritten = 0;
        while let Some(input) = self.down.flush(cx) {
            self.feed(input);
        }
    }

    /// Tells the session when its moment has come and sets the alarm for the next.
    /// True if there is more to do because of it.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> bool {
        let due = match self.closed {
            Some(at) => Some(at + LAST_WRITE_TIMEOUT),
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
        self.left = self.left.saturating_sub(1);
        self.spent |= self.left == 0;
        self.session.handle(self.now, input);
        self.carry_out();
        while let Some(input) = self.arisen.pop_front() {
            self.session.handle(self.now, input);
            self.carry_out();
        }
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.session.poll() {
            if is_told(&output) {
                self.spin.tell();
            }
            match output {
                Output::ToHost(message) => {
                    self.unwritten += FRAME + message.bytes().len();
                    self.down.send(message);
                }
                Output::ToHostOf(owner, message) => {
                    self.unwritten += FRAME + message.bytes().len();
                    self.down.send_of(owner, message);
                }
                Output::Over(id) => self.down.over(&id),
                Output::Refuse(refusal) => self.down.refuse(*refusal),
                Output::ToLink(generation, message) => {
                    self.unwritten += FRAME + message.bytes().len();
                    if let Some(link) = self.link(generation) {
                        link.send(message);
                    }
                }
                Output::Connect(generation) => self.connect(generation),
                Output::Link(generation, order) => self.order(generation, order),
                Output::Resend {
                    generation,
                    id,
                    granted,
                } => {
                    if let Some(link) = self.link(generation) {
                        link.resend(id, granted);
                    }
                }
                Output::Initialized => self.down.initialized(),
                Output::Event(event) => self.tell(event),
                Output::Closed => self.closed = Some(self.now),
            }
        }
    }

    fn link(&mut self, generation: Generation) -> Option<&mut U::Link> {
        self.links
            .iter_mut()
            .find(|link| link.generation() == generation)
    }

    fn connect(&mut self, generation: Generation) {
        match self.up.connect(generation) {
            Ok(link) => {
                if link.is_made() {
                    self.arisen
                        .push_back(Input::Link(generation, LinkInput::Up));
                }
                self.links.push(link);
                self.connected = true;
            }
            Err(why) => self
                .arisen
                .push_back(Input::Link(generation, LinkInput::Unmade(why))),
        }
    }

    fn order(&mut self, generation: Generation, order: LinkOrder) {
        let Some(link) = self.link(generation) else {
            return;
        };
        let answer = link.order(order);
        let ended = link.has_ended();
        self.ended |= ended;
        if let Some(answer) = answer {
            self.arisen.push_back(Input::Link(generation, answer));
        }
    }

    fn tell(&mut self, mut event: Event) {
        if let Event::Dropped { detail, .. } = &mut event {
            // Before anybody cuts it: a part of a secret is not recognised.
            *detail = self.up.mask(detail);
        }
        #[cfg(feature = "tracing")]
        crate::trace::event(&event);
        if let Some(input) = self.down.event(self.now, &event) {
            self.arisen.push_back(input);
        }
    }

    /// A link may have ended: finds out which, reports its last words and its end.
    fn collect(&mut self) {
        for index in 0..self.links.len() {
            if let Some(exit) = self.links[index].exit() {
                let generation = self.report_rest(index);
                let sent = self.links[index].sent();
                self.feed(Input::Link(generation, LinkInput::Ended { exit, sent }));
            }
        }
        while let Some(index) = self.links.iter_mut().position(Link::has_ended) {
            let generation = self.report_rest(index);
            if let Some((exit, sent)) = self.links[index].orphan() {
                self.feed(Input::Link(generation, LinkInput::Orphaned { exit, sent }));
                continue;
            }
            let link = self.links.swap_remove(index);
            let (exit, sent) = self.up.end(link, &self.links);
            self.feed(Input::Link(generation, LinkInput::Exited { exit, sent }));
        }
        self.up.tidy(&self.links);
    }

    /// Hands on all that a server has said and can have said.
    fn report_rest(&mut self, index: usize) -> Generation {
        self.links[index].read_rest();
        self.report_lines(index);
        let generation = self.links[index].generation();
        while let Some(input) = self.links[index].next_input() {
            self.feed(Input::Link(generation, input));
        }
        generation
    }

    /// Whether the session is closed and the host has heard everything, or will not.
    fn is_over(&self) -> bool {
        self.closed
            .is_some_and(|closed| self.down.is_told() || self.now >= closed + LAST_WRITE_TIMEOUT)
    }
}

/// Whether somebody on the host's side may have to do something about it.
fn is_told(output: &Output) -> bool {
    matches!(
        output,
        Output::ToHost(_) | Output::ToHostOf(..) | Output::Refuse(_) | Output::Event(_)
    )
}
