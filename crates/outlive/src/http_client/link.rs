//! A link over HTTP: one session on a server.
//!
//! Each message is a POST of its own, run by a task; the tasks report to the link, and the link to the
//! driver. When a message leaves is not decided here: see [`outlive_core::dispatch`].

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use outlive_core::cause::StartFailure;
use outlive_core::dispatch::{self, Dispatch, Timing};
use outlive_core::link::RequestFailure;
use outlive_core::message::Kind;
use outlive_core::{Frame, Generation, LinkInput, LinkOrder, Message, Time};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Sleep;

use super::exchange::{Exchange, tell};
use super::report::{self, Mark, Marks, Report, Reports};
use super::session::HttpSession;
use super::{Transport, channel, get_stream};
use crate::driver::upstream::{Link, Read};

/// Reports taken in before they are passed on.
const TURN: usize = 64;
/// How long a server is waited for that has left the GET for its stream unanswered before.
const LISTEN_AGAIN: Duration = Duration::from_millis(250);

/// The answer to a host that speaks only the era that is not wanted.
const MODERN_ONLY: &str = r#"{"code":-32022,"message":"This server is used in the modern era only, as was asked for; a host that needs a handshake cannot use it so.","data":{"supported":["2026-07-28"]}}"#;

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
    session: Arc<HttpSession>,
    /// There is no handshake to be had: the user wants the modern era.
    modern_only: bool,
    /// The transport the user wants; none: find out.
    wanted: Option<Transport>,
    /// The server answers on a stream beside (HTTP+SSE).
    aside: bool,
    /// With what status `initialize` was refused before that was tried.
    refused: Option<u16>,
    /// When what leaves.
    dispatch: Dispatch,
    /// The exchanges of requests, by their numbers.
    running: HashMap<u64, AbortHandle>,
    tasks: JoinSet<()>,
    reports: Reports,
    mailbox: mpsc::Receiver<Report>,
    marks: Marks,
    marked: mpsc::UnboundedReceiver<Mark>,
    ready: VecDeque<LinkInput>,
    warnings: Vec<String>,
    begun: Instant,
    alarm: Pin<Box<Sleep>>,
    /// When the alarm will ring.
    alarm_at: Option<Time>,
    /// Nothing leaves any more: the link as a whole was refused.
    refused_all: bool,
    /// The server has denied the session, and has said nothing since: there is nothing to take leave of.
    denied: bool,
    ending: Ending,
}

impl HttpLink {
    pub(super) fn new(
        generation: Generation,
        session: HttpSession,
        wanted: Option<Transport>,
    ) -> HttpLink {
        let (reports, mailbox) = report::channel();
        let (marks, marked) = mpsc::unbounded_channel();
        let known = wanted.or(session.known.transport());
        let mut timing = Timing::default();
        if session.known.leaves_stream_unanswered() {
            timing.listen = LISTEN_AGAIN;
        }
        let begun = Instant::now();
        let mut link = HttpLink {
            generation,
            session: Arc::new(session),
            modern_only: false,
            wanted,
            aside: false,
            refused: None,
            dispatch: Dispatch::new(timing),
            running: HashMap::new(),
            tasks: JoinSet::new(),
            reports,
            mailbox,
            marks,
            marked,
            ready: VecDeque::new(),
            warnings: Vec::new(),
            begun,
            alarm: Box::pin(tokio::time::sleep_until(begun.into())),
            alarm_at: None,
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
        self.dispatch(dispatch::Input::Opening);
        self.tasks
            .spawn(channel::open(self.session.clone(), self.reports.clone()));
    }

    fn note_transport(&self, transport: Option<Transport>) {
        self.session.known.set_transport(transport);
    }

    /// Tells the dispatch what happened, and does what it says.
    fn dispatch(&mut self, input: dispatch::Input) {
        let now = Time::after(self.begun.elapsed());
        self.dispatch.handle(now, input);
        while let Some(output) = self.dispatch.poll() {
            match output {
                dispatch::Output::Post(number, message) => self.post(number, message),
                dispatch::Output::Listen => self.listen(),
                dispatch::Output::Unlistened => self.session.known.note_stream_unanswered(),
                dispatch::Output::Initialized => self.ready.push_back(LinkInput::Initialized),
                dispatch::Output::Abort(number) => {
                    if let Some(task) = self.running.remove(&number) {
                        task.abort();
                    }
                }
                dispatch::Output::Renew => self.session.renew(),
                dispatch::Output::Unsent(id) => self.ready.push_back(LinkInput::Unanswered {
                    id,
                    failure: RequestFailure::Unsent("its session had ended".into()),
                }),
            }
        }
    }

    fn post(&mut self, number: u64, message: Message) {
        if message.kind() != Kind::Request {
            let (session, marks) = (self.session.clone(), self.marks.clone());
            let telling = tell(session, number, message, self.reports.clone(), marks);
            self.tasks.spawn(telling);
            return;
        }
        let initialize = message.is("initialize");
        if initialize && self.modern_only {
            let refusal = Message::failure(message.id_json(), MODERN_ONLY.as_bytes());
            let refusal = LinkInput::Frame(Frame::Message(refusal));
            // By way of the mailbox, so that the driver is woken; there is room for the first reports.
            let _ = self.reports.try_send(Report::Input(refusal));
            let _ = self.reports.try_send(Report::Over(number));
            return;
        }
        // A session that has begun does not begin again: whatever becomes of another `initialize` is its own affair.
        let begins = initialize && !self.session.has_begun();
        let exchange = Exchange {
            session: self.session.clone(),
            number,
            message,
            aside: self.aside,
            may_be_sse: begins && self.wanted.is_none() && !self.aside && self.running.is_empty(),
            reports: self.reports.clone(),
            marks: self.marks.clone(),
        };
        let task = self.tasks.spawn(exchange.run());
        if !self.aside {
            self.running.insert(number, task);
        }
    }

    /// `notifications/initialized` was taken: the server is listened to.
    fn listen(&mut self) {
        self.note_transport(Some(Transport::Streamable));
        let (session, reports) = (self.session.clone(), self.reports.clone());
        self.tasks
            .spawn(get_stream::run(session, reports, self.marks.clone()));
    }

    /// Takes in what needs no room: what was taken, and the time.
    fn poll_dispatch(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(mark)) = self.marked.poll_recv(cx) {
            self.dispatch(match mark {
                Mark::Taken(number) => dispatch::Input::Taken(number),
                Mark::Listening => dispatch::Input::Listening,
                Mark::Listened => dispatch::Input::Listened,
            });
        }
        while let Some(at) = self.dispatch.deadline() {
            if self.alarm_at != Some(at) {
                self.alarm_at = Some(at);
                let at = self.begun + at.since_start();
                self.alarm.as_mut().reset(at.into());
            }
            if self.alarm.as_mut().poll(cx).is_pending() {
                break;
            }
            self.alarm_at = None;
            self.dispatch(dispatch::Input::Tick);
        }
        self.leave_if_idle();
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Input(input) => {
                self.dispatch(dispatch::Input::Heard);
                self.pass(input);
            }
            Report::Warning(warning) => self.warnings.push(warning),
            Report::Over(number) => {
                self.running.remove(&number);
                self.dispatch(dispatch::Input::Over(number));
            }
            // While requests are under way, they tell what the matter is.
            Report::Absent(_) if self.dispatch.has_requests() => {}
            Report::Absent(words) => self.pass_absence(words),
            Report::Refused(number, message, status) => {
                self.running.remove(&number);
                self.refused = Some(status);
                self.dispatch(dispatch::Input::Again(number, *message));
                self.open_channel();
            }
            Report::Opened(channel) => {
                self.aside = true;
                self.note_transport(Some(Transport::Sse));
                let (session, reports) = (self.session.clone(), self.reports.clone());
                self.tasks.spawn(channel.run(session, reports));
                self.dispatch(dispatch::Input::Opened);
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
        self.leave_if_idle();
    }

    /// Nobody was there, and no request in flight can tell.
    fn pass_absence(&mut self, words: String) {
        self.pass(match self.dispatch.waiting() {
            Some(id) => LinkInput::Unanswered {
                id: id.clone(),
                failure: RequestFailure::Unsent(words),
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
            LinkInput::Frame(Frame::Message(message)) if self.aside => self.note_answer(message),
            LinkInput::Disconnected { sent, .. } => *sent = (*sent).min(self.sent()),
            _ => {}
        }
        let ends = is_end(&input);
        self.ready.push_back(input);
        if ends && !std::mem::replace(&mut self.refused_all, true) {
            // What has not left will not.
            self.dispatch(dispatch::Input::End);
        }
    }

    /// On a stream beside, the answer to `initialize` comes like any other message.
    fn note_answer(&mut self, message: &Message) {
        if let Some(awaited) = self.dispatch.handshake()
            && message.kind() == Kind::Response
            && message.id() == Some(awaited)
        {
            let answered = dispatch::Input::Answered(awaited.clone());
            self.dispatch(answered);
        }
    }

    /// Once all has left that was to, the server is told that the session is over.
    fn leave_if_idle(&mut self) {
        if self.ending != Ending::Asked || !self.dispatch.is_idle() {
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
        self.dispatch(dispatch::Input::End);
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
        LinkInput::Unanswered { failure, .. } => matches!(failure, RequestFailure::Unsent(_)),
        _ => false,
    }
}

impl Link for HttpLink {
    fn generation(&self) -> Generation {
        self.generation
    }

    fn send(&mut self, message: Message) {
        if self.ending == Ending::No {
            self.dispatch(dispatch::Input::Send(message));
        }
    }

    /// While much waits here, the server is not read, but what it has taken is noted.
    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let before = self.ready.len();
        self.poll_dispatch(cx);
        if self.ready.len() > before || self.ending == Ending::Ended {
            cx.waker().wake_by_ref();
        }
        Ok(())
    }

    fn backlog(&self) -> usize {
        self.dispatch.backlog()
    }

    fn sent(&self) -> u64 {
        self.dispatch.sent()
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
            && let Poll::Ready(Some(report)) = self.mailbox.poll_recv(cx)
        {
            self.take(report);
        }
        self.poll_dispatch(cx);
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
            // Each request has an exchange of its own, with an end of its own.
            LinkOrder::StopWriting | LinkOrder::Release => {}
            LinkOrder::Terminate | LinkOrder::Kill => self.drop_all(),
            LinkOrder::Inspect => return Some(LinkInput::Inspected { stopped: false }),
        }
        None
    }

    fn has_ended(&mut self) -> bool {
        self.ending == Ending::Ended
    }
}
