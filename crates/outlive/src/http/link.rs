//! A link over HTTP: one session on a server.
//!
//! Each message is a POST of its own, run by a task; the tasks report to the link, and the link to the
//! driver. It decides nothing but the order in which messages leave: `initialize` first, alone, since its
//! answer names the session; then `notifications/initialized`; then everything at once, but
//! notifications one after the other.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use outlive_core::cause::StartFailure;
use outlive_core::link::Fate;
use outlive_core::message::Kind;
use outlive_core::{Frame, Generation, Id, LinkInput, LinkOrder, Message};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::exchange::{Exchange, tell};
use super::report::{self, Report, Reports};
use super::session::Session;
use super::{Transport, channel, get_stream};
use crate::upstream::{Link, Read};

/// Reports taken in before they are passed on.
const TURN: usize = 64;
/// How long the exchange of a cancelled request is kept for a server that ends it in its own way.
const CANCELLED: Duration = Duration::from_secs(1);

/// The answer to a host that speaks only the era that is not wanted.
const MODERN_ONLY: &str = r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"This server is used in the modern era only, as was asked for; a host that needs a handshake cannot use it so.","data":{"supported":["2026-07-28"]}}}"#;

/// What may leave.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Gate {
    /// Anything.
    Open,
    /// Nothing before the stream of an HTTP+SSE server is open.
    Opening,
    /// Nothing before this `initialize` is answered.
    Shaking(Id),
    /// Nothing before `notifications/initialized` is taken.
    Greeting,
}

/// A request whose exchange is not over.
#[derive(Debug)]
struct Running {
    task: AbortHandle,
    modern: bool,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// What is queued leaves, then the session is ended.
    Asked,
    /// The server is being told.
    Leaving,
    Ended,
}

pub(crate) struct HttpLink {
    generation: Generation,
    session: Arc<Session>,
    /// There is no handshake to be had: the user wants the modern era.
    modern_only: bool,
    /// The transport the user wants; none: find out.
    wanted: Option<Transport>,
    /// The server answers on a stream beside (HTTP+SSE).
    aside: bool,
    /// With what status `initialize` was refused before that was tried.
    refused: Option<u16>,
    gate: Gate,
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
    /// Notifications that leave one after the other.
    lane: VecDeque<Message>,
    lane_busy: bool,
    running: HashMap<Id, Running>,
    tasks: JoinSet<()>,
    reports: Reports,
    inbox: mpsc::Receiver<Report>,
    ready: VecDeque<LinkInput>,
    warnings: Vec<String>,
    /// Frames taken from the driver.
    frames: u64,
    /// Nothing leaves any more: the link as a whole was refused.
    refused_all: bool,
    /// The server has denied the session, and has said nothing since: there is nothing to take leave of.
    denied: bool,
    ending: Ending,
}

impl HttpLink {
    pub(super) fn new(
        generation: Generation,
        session: Session,
        wanted: Option<Transport>,
    ) -> HttpLink {
        let (reports, inbox) = report::channel();
        let known = wanted.or(session.known.transport());
        let mut link = HttpLink {
            generation,
            session: Arc::new(session),
            modern_only: false,
            wanted,
            aside: false,
            refused: None,
            gate: Gate::Open,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            lane: VecDeque::new(),
            lane_busy: false,
            running: HashMap::new(),
            tasks: JoinSet::new(),
            reports,
            inbox,
            ready: VecDeque::new(),
            warnings: Vec::new(),
            frames: 0,
            refused_all: false,
            denied: false,
            ending: Ending::No,
        };
        if known == Some(Transport::Sse) {
            link.open_channel();
        }
        link
    }

    /// The same link, on which there is no handshake.
    pub(super) fn modern_only(mut self) -> HttpLink {
        self.modern_only = true;
        self
    }

    fn open_channel(&mut self) {
        self.gate = Gate::Opening;
        self.tasks
            .spawn(channel::open(self.session.clone(), self.reports.clone()));
    }

    fn note_transport(&self, transport: Option<Transport>) {
        self.session.known.set_transport(transport);
    }

    /// Lets go what may leave.
    fn pump(&mut self) {
        while self.gate == Gate::Open
            && !self.refused_all
            && let Some(message) = self.waiting.pop_front()
        {
            self.waiting_bytes -= message.bytes().len();
            self.start(message);
        }
    }

    fn start(&mut self, message: Message) {
        match message.kind() {
            Kind::Request => self.start_request(message),
            Kind::Response => {
                let telling = tell(self.session.clone(), message, self.reports.clone(), false);
                self.tasks.spawn(telling);
            }
            Kind::Notification => {
                if message.is("notifications/cancelled") && self.cancel(&message) {
                    return;
                }
                if message.is("notifications/initialized") {
                    self.gate = Gate::Greeting;
                }
                self.lane.push_back(message);
                self.next_in_lane();
            }
        }
    }

    fn start_request(&mut self, message: Message) {
        let id = message.id().cloned().unwrap_or(Id::Null);
        let initialize = message.is("initialize");
        if initialize && self.modern_only {
            let refusal = MODERN_ONLY.replace("ID", &id.to_json());
            let refusal = LinkInput::Frame(Frame::Line(refusal.into()));
            // By way of the inbox, so that the driver is woken; there is room for the first report.
            let _ = self.reports.try_send(Report::Input(refusal));
            return;
        }
        // A session that has begun does not begin again: whatever becomes of another `initialize` is its own affair.
        let begins = initialize && !self.session.has_begun();
        if begins {
            self.gate = Gate::Shaking(id.clone());
        }
        let modern = message.is_modern();
        let exchange = Exchange {
            session: self.session.clone(),
            message,
            aside: self.aside,
            may_be_sse: begins && self.wanted.is_none() && !self.aside && self.running.is_empty(),
            reports: self.reports.clone(),
        };
        let task = self.tasks.spawn(exchange.run());
        if !self.aside {
            self.running.insert(id, Running { task, modern });
        }
    }

    fn next_in_lane(&mut self) {
        if !self.lane_busy
            && let Some(message) = self.lane.pop_front()
        {
            self.lane_busy = true;
            let telling = tell(self.session.clone(), message, self.reports.clone(), true);
            self.tasks.spawn(telling);
        }
    }

    /// A request is cancelled. In the modern era its stream is closed, which says it all (2026-07-28,
    /// Cancellation); before, the server is told, and its stream is given up a moment later, since not
    /// every server ends it. Whether that was all.
    fn cancel(&mut self, message: &Message) -> bool {
        let Some(running) = message.request_id().and_then(|id| self.running.remove(&id)) else {
            return false;
        };
        // It may have waited on a connection that is dead without our knowing; then so may the others be.
        self.session.renew();
        if running.modern {
            running.task.abort();
            return true;
        }
        self.tasks.spawn(async move {
            sleep(CANCELLED).await;
            running.task.abort();
        });
        false
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Input(input) => self.pass(input),
            Report::Warning(warning) => self.warnings.push(warning),
            Report::Over(id) => {
                self.running.remove(&id);
                if self.gate == Gate::Shaking(id) {
                    self.gate = Gate::Open;
                }
            }
            Report::Told => {
                self.lane_busy = false;
                if self.gate == Gate::Greeting {
                    self.gate = Gate::Open;
                    if !self.aside {
                        self.note_transport(Some(Transport::Streamable));
                        let stream = get_stream::run(self.session.clone(), self.reports.clone());
                        self.tasks.spawn(stream);
                    }
                }
                self.next_in_lane();
            }
            // While requests are under way, they tell what the matter is.
            Report::Absent(_) if !self.running.is_empty() => {}
            Report::Absent(words) => self.pass_absence(words),
            Report::Refused(message, status) => {
                self.running.clear();
                self.refused = Some(status);
                self.waiting_bytes += message.bytes().len();
                self.waiting.push_front(*message);
                self.open_channel();
            }
            Report::Opened(channel) => {
                self.aside = true;
                self.note_transport(Some(Transport::Sse));
                self.gate = Gate::Open;
                let (session, reports) = (self.session.clone(), self.reports.clone());
                self.tasks.spawn(channel.run(session, reports));
            }
            Report::Unopened(why, true) => self.pass_absence(why),
            Report::Unopened(why, false) => {
                self.note_transport(None);
                let words = match self.refused {
                    Some(status) => format!(
                        "it speaks neither Streamable HTTP (POST: status {status}) nor HTTP+SSE (GET: {why})"
                    ),
                    None => format!("its HTTP+SSE stream could not be opened: {why}"),
                };
                let (why, sent) = (StartFailure::Other(words), self.sent());
                self.pass(LinkInput::Refused { why, sent });
            }
            Report::Gone => self.ending = Ending::Ended,
        }
        self.pump();
        self.leave_if_idle();
    }

    /// Nobody was there, and no request in flight can tell.
    fn pass_absence(&mut self, words: String) {
        let waits = |message: &&Message| message.kind() == Kind::Request;
        let id = self.waiting.iter().find(waits).and_then(Message::id);
        self.pass(match id {
            Some(id) => LinkInput::Unanswered {
                id: id.clone(),
                fate: Fate::Unsent(words),
            },
            None => LinkInput::Disconnected {
                error: Some(words),
                sent: self.sent(),
            },
        });
    }

    /// Passes on what was reported, and sees what it means for what waits.
    fn pass(&mut self, mut input: LinkInput) {
        match &input {
            LinkInput::Expired { .. } => self.denied = true,
            LinkInput::Frame(_) => self.denied = false,
            _ => {}
        }
        match &mut input {
            LinkInput::Frame(frame) if self.aside => self.open_gate_for(frame),
            LinkInput::Disconnected { sent, .. } => *sent = (*sent).min(self.sent()),
            _ => {}
        }
        let ends = is_end(&input);
        self.ready.push_back(input);
        if !ends || std::mem::replace(&mut self.refused_all, true) {
            return;
        }
        // What has not left will not.
        self.waiting_bytes = 0;
        for message in self.waiting.drain(..) {
            if let (Kind::Request, Some(id)) = (message.kind(), message.id()) {
                self.ready.push_back(LinkInput::Unanswered {
                    id: id.clone(),
                    fate: Fate::Unsent("its session had ended".into()),
                });
            }
        }
    }

    /// On a stream beside, the answer to `initialize` comes like any other message.
    fn open_gate_for(&mut self, frame: &Frame) {
        if let Gate::Shaking(id) = &self.gate
            && let Frame::Line(line) = frame
            && let Ok(message) = Message::read(line.clone())
            && message.kind() == Kind::Response
            && message.id() == Some(id)
        {
            self.gate = Gate::Open;
        }
    }

    /// Once all has left that was to, the server is told that the session is over.
    fn leave_if_idle(&mut self) {
        if self.ending != Ending::Asked || self.lane_busy || !self.waiting.is_empty() {
            return;
        }
        self.tasks.abort_all();
        self.running.clear();
        if self.refused_all || self.denied || !self.session.is_named() {
            self.ending = Ending::Ended;
            return;
        }
        self.ending = Ending::Leaving;
        let (session, reports) = (self.session.clone(), self.reports.clone());
        self.tasks.spawn(async move {
            session.delete().await;
            let _ = reports.send(Report::Gone).await;
        });
    }

    /// Ends everything now. A session that may still exist is ended behind our back.
    fn drop_all(&mut self) {
        self.tasks.abort_all();
        self.running.clear();
        self.waiting.clear();
        self.lane.clear();
        if self.ending == Ending::No && !self.refused_all && !self.denied {
            let session = self.session.clone();
            tokio::spawn(async move { session.delete().await });
        }
        self.ending = Ending::Ended;
    }
}

/// Whether this is the end of the whole session.
fn is_end(input: &LinkInput) -> bool {
    match input {
        LinkInput::Disconnected { .. } | LinkInput::Refused { .. } => true,
        LinkInput::Unanswered { fate, .. } => matches!(fate, Fate::Unsent(_)),
        _ => false,
    }
}

impl Link for HttpLink {
    fn generation(&self) -> Generation {
        self.generation
    }

    fn send(&mut self, frame: Bytes) {
        if self.ending != Ending::No {
            return;
        }
        self.frames += 1;
        // The session sends nothing but messages.
        let Ok(message) = Message::read(frame) else {
            return;
        };
        self.waiting_bytes += message.bytes().len();
        self.waiting.push_back(message);
        self.pump();
    }

    fn flush(&mut self, _cx: &mut Context<'_>) -> io::Result<()> {
        Ok(())
    }

    fn backlog(&self) -> usize {
        self.waiting_bytes
    }

    fn sent(&self) -> u64 {
        self.frames - self.waiting.len() as u64
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Read> {
        while let Poll::Ready(Some(ended)) = self.tasks.poll_join_next(cx) {
            // Whatever it was about has nobody else to settle it.
            if ended.is_err_and(|error| error.is_panic()) {
                let error = Some("a fault of our own".into());
                let sent = self.sent();
                self.pass(LinkInput::Disconnected { error, sent });
            }
        }
        while self.ready.len() < TURN
            && let Poll::Ready(Some(report)) = self.inbox.poll_recv(cx)
        {
            self.take(report);
        }
        match (self.ready.is_empty(), self.ending) {
            (_, Ending::Ended) => Poll::Ready(Read::End),
            (false, _) => Poll::Ready(Read::Some),
            (true, _) => Poll::Pending,
        }
    }

    fn next_frame(&mut self) -> Option<Frame> {
        None
    }

    fn next_input(&mut self) -> Option<LinkInput> {
        self.ready.pop_front()
    }

    fn ending(&self) -> LinkInput {
        LinkInput::Disconnected {
            error: None,
            sent: self.sent(),
        }
    }

    fn poll_stderr(&mut self, _cx: &mut Context<'_>) -> Poll<Read> {
        match self.warnings.is_empty() {
            true => Poll::Pending,
            false => Poll::Ready(Read::Some),
        }
    }

    fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn order(&mut self, order: LinkOrder) -> Option<LinkInput> {
        match order {
            LinkOrder::CloseInput => {
                if self.ending == Ending::No {
                    self.ending = Ending::Asked;
                    self.leave_if_idle();
                }
            }
            LinkOrder::Terminate | LinkOrder::Kill => self.drop_all(),
            LinkOrder::Inspect => return Some(LinkInput::Inspected { stopped: false }),
        }
        None
    }

    fn has_ended(&mut self) -> bool {
        self.ending == Ending::Ended
    }
}
