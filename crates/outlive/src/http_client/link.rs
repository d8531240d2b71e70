//! A link over HTTP: one session on a server.
//!
//! Carries out what [`HttpUpstream`] says, and tells it what came back. Each HTTP request is run by a task.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use outlive_core::http_upstream::{Attempt, Config, HttpUpstream, Input, Output};
use outlive_core::{Frame, Generation, Id, LinkInput, LinkOrder, Message, Time};
use reqwest::header::HeaderValue;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Sleep;

use super::Transport;
use super::credentials::{Challenge, CredentialStore};
use super::request::{self, Piece, Pieces, Signal, Signals};
use super::session::{HttpSession, Prepared, fingerprint};
use crate::driver::upstream::{Link, Read};
use crate::io::spin::Look;

/// What is reported is passed on before more of it is taken in.
const TURN: usize = 64;

pub(crate) struct HttpLink {
    generation: Generation,
    session: Arc<HttpSession>,
    rules: HttpUpstream,
    /// HTTP requests under way.
    running: HashMap<Attempt, AbortHandle>,
    tasks: JoinSet<()>,
    signals: Signals,
    signalled: mpsc::UnboundedReceiver<Signal>,
    pieces: Pieces,
    inbox: mpsc::Receiver<Piece>,
    /// The name that the response being told gives the session.
    name: Option<HeaderValue>,
    ready: VecDeque<LinkInput>,
    /// Whoever reads has been woken for what is ready.
    announced: bool,
    warnings: Vec<String>,
    begun: Instant,
    alarm: Pin<Box<Sleep>>,
    /// When the alarm will ring.
    alarm_at: Option<Time>,
    ended: bool,
}

impl HttpLink {
    /// `handshake`: whether there may be one.
    pub(super) fn new(
        generation: Generation,
        session: HttpSession,
        transport: Option<Transport>,
        handshake: bool,
    ) -> HttpLink {
        let (pieces, inbox) = request::pieces();
        let (signals, signalled) = mpsc::unbounded_channel();
        let rules = HttpUpstream::new(Config {
            limit: session.limit,
            stall: session.stall(),
            transport,
            handshake,
            login: session.credential_store().is_some(),
            known: session.known.get(),
        });
        let begun = Instant::now();
        let mut link = HttpLink {
            generation,
            session: Arc::new(session),
            rules,
            running: HashMap::new(),
            tasks: JoinSet::new(),
            signals,
            signalled,
            pieces,
            inbox,
            name: None,
            ready: VecDeque::new(),
            announced: false,
            warnings: Vec::new(),
            begun,
            alarm: Box::pin(tokio::time::sleep_until(begun.into())),
            alarm_at: None,
            ended: false,
        };
        link.watch_login();
        link.carry_out();
        link
    }

    /// Tells the rules what happened, and does what they say.
    fn feed(&mut self, input: Input) {
        self.rules.handle(Time::after(self.begun.elapsed()), input);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.rules.poll() {
            if let Some(answer) = self.perform(output) {
                self.rules.handle(Time::after(self.begun.elapsed()), answer);
            }
        }
    }

    /// Does as told. Tells what was asked.
    fn perform(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Post {
                attempt,
                message,
                to,
            } => {
                let post = self.session.post(attempt, &message, to, &self.signals);
                self.run(attempt, post);
            }
            Output::Get {
                attempt,
                cursor,
                to,
            } => {
                let get = self.session.get(attempt, cursor.as_deref(), to);
                self.run(attempt, get);
            }
            Output::Delete { attempt, to } => {
                let delete = self.session.delete(attempt, to);
                self.run(attempt, delete);
            }
            Output::Leave { to } => {
                let session = self.session.clone();
                tokio::spawn(async move { session.leave(to).await });
            }
            Output::Abort(attempt) => {
                if let Some(task) = self.running.remove(&attempt) {
                    task.abort();
                }
            }
            Output::Renew => self.session.renew(),
            Output::Authenticate {
                turn,
                status,
                authenticate,
            } => self.authenticate(
                turn,
                Challenge {
                    status,
                    authenticate,
                },
            ),
            Output::Compare { number, call, had } => {
                let better = fingerprint(&self.session.mirrored(&call)) != had;
                return Some(Input::Compared(number, better));
            }
            Output::Learn(list) => drop(self.session.known.mirror().learn(&list)),
            Output::PassList(list) => self.pass_list(list),
            Output::Locate(address) => return Some(Input::Located(self.session.locate(&address))),
            Output::Settle(address) => self.session.settle(&address),
            Output::Named => {
                if let Some(name) = self.name.take() {
                    self.session.set_name(name);
                }
            }
            Output::Version(version) => self.session.set_version(&version),
            Output::Know(known) => self.session.known.set(known),
            Output::Link(input) => self.pass(input),
            Output::Ended => {
                self.tasks.abort_all();
                self.running.clear();
                self.ended = true;
                self.announced = false;
            }
        }
        None
    }

    fn run(&mut self, attempt: Attempt, prepared: Prepared) {
        let running = prepared.run(self.signals.clone(), self.pieces.clone());
        let task = self.tasks.spawn(running);
        self.running.insert(attempt, task);
    }

    /// Passes on whether somebody has to log in, for as long as there is the link.
    fn watch_login(&mut self) {
        let credential_store = self.session.credential_store();
        let Some(mut login) = credential_store.and_then(CredentialStore::login) else {
            return;
        };
        let signals = self.signals.clone();
        self.tasks.spawn(async move {
            loop {
                let status = login.borrow_and_update().clone();
                if signals.send(Signal::Login(status)).is_err() || login.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    fn authenticate(&mut self, turn: u64, challenge: Challenge) {
        let Some(credential_store) = self.session.credential_store().cloned() else {
            return;
        };
        let signals = self.signals.clone();
        self.tasks.spawn(async move {
            let renewed = credential_store.renew(turn, challenge).await;
            let _ = signals.send(Signal::Authenticated(renewed));
        });
    }

    /// A list of tools, without those whose headers would be invalid.
    fn pass_list(&mut self, list: Message) {
        let learnt = self.session.known.mirror().learn(&list);
        let list = match learnt {
            None => list,
            Some((result, refused)) => {
                let left_out = |why| format!("outlive: left out of the list: {why}");
                self.warnings.extend(refused.into_iter().map(left_out));
                list.with_result(result.as_bytes())
            }
        };
        self.pass(LinkInput::Frame(Frame::Message(list)));
    }

    fn pass(&mut self, input: LinkInput) {
        self.ready.push_back(input);
        self.announced = false;
    }

    /// Takes in what needs no room: signals, and the time.
    fn poll_signals(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(signal)) = self.signalled.poll_recv(cx) {
            self.take_signal(signal);
        }
        while let Some(at) = self.rules.deadline() {
            if self.alarm_at != Some(at) {
                self.alarm_at = Some(at);
                let at = self.begun + at.since_start();
                self.alarm.as_mut().reset(at.into());
            }
            if self.alarm.as_mut().poll(cx).is_pending() {
                break;
            }
            self.alarm_at = None;
            self.feed(Input::Tick);
        }
    }

    fn take_signal(&mut self, signal: Signal) {
        match signal {
            Signal::Written(attempt) => self.feed(Input::Written(attempt)),
            Signal::Response(attempt, head, name) => {
                self.name = name;
                self.feed(Input::Response(attempt, *head));
            }
            Signal::Failed(attempt, failure) => {
                self.running.remove(&attempt);
                self.feed(Input::Failed(attempt, failure));
            }
            Signal::Login(status) => self.pass(LinkInput::Login(status)),
            Signal::Authenticated(renewed) => self.feed(match renewed {
                Err(Some(why)) => Input::Unauthenticated(why),
                renewed => Input::Authenticated(renewed.is_ok()),
            }),
        }
    }

    fn take_piece(&mut self, piece: Piece) {
        match piece {
            Piece::Chunk(attempt, bytes) => self.feed(Input::Chunk(attempt, bytes)),
            Piece::End(attempt, failure) => {
                self.running.remove(&attempt);
                self.feed(match failure {
                    None => Input::End(attempt),
                    Some(failure) => Input::Failed(attempt, failure),
                });
            }
        }
    }
}

impl Link for HttpLink {
    fn generation(&self) -> Generation {
        self.generation
    }

    fn send(&mut self, message: Message) {
        self.feed(Input::Send(message));
    }

    /// While much waits here, the server is not read, but what it has taken is noted.
    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.poll_signals(cx);
        let news = !self.ready.is_empty() || self.ended;
        if news && !std::mem::replace(&mut self.announced, true) {
            cx.waker().wake_by_ref();
        }
        Ok(())
    }

    fn backlog(&self) -> usize {
        self.rules.backlog()
    }

    fn sent(&self) -> u64 {
        self.rules.sent()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, _look: Look) -> Poll<Read> {
        while let Poll::Ready(Some(ended)) = self.tasks.poll_join_next(cx) {
            // Whatever it was about has nobody else to settle it.
            if ended.is_err_and(|error| error.is_panic()) {
                self.feed(Input::Fault);
            }
        }
        while self.ready.len() < TURN
            && let Poll::Ready(Some(piece)) = self.inbox.poll_recv(cx)
        {
            // That the response has begun was signalled before.
            while let Ok(signal) = self.signalled.try_recv() {
                self.take_signal(signal);
            }
            self.take_piece(piece);
        }
        self.poll_signals(cx);
        match (self.ready.is_empty(), self.ended) {
            (_, true) => Poll::Ready(Read::End),
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
            LinkOrder::CloseInput => self.feed(Input::Close),
            // Each request has an exchange of its own, with an end of its own.
            LinkOrder::StopWriting | LinkOrder::Release => {}
            LinkOrder::Terminate | LinkOrder::Kill => self.feed(Input::Kill),
            LinkOrder::DeclineLogin => {
                if let Some(credential_store) = self.session.credential_store() {
                    credential_store.decline();
                }
            }
            LinkOrder::Inspect => return Some(LinkInput::Inspected { stopped: false }),
        }
        None
    }

    fn resend(&mut self, id: Id, granted: bool) {
        self.feed(Input::Resend(id, granted));
    }

    fn has_ended(&mut self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests;
