//! The client's side of a driver: where calls come in and answers go out.
//!
//! The downstream belongs to the one task that owns the connection. It knows who waits for what; whether
//! and when a call is sent, repeated or given up is decided by the session alone.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use outlive_core::error::{Error, Outcome, Refusal};
use outlive_core::message::Kind;
use outlive_core::protocol::List;
use outlive_core::snapshot::{Snapshot, SnapshotError};
use outlive_core::{Event as CoreEvent, Frame, Id, Input, Message, Session, Time};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::Shared;
use super::broadcast::Broadcast;
use super::event::{Event, Notification, list_changed};
use super::handler::Handlers;
use super::mailbox::{self, Command};
use super::watch::Reporter;
use super::wire;
use crate::driver::downstream::Downstream;
use crate::io::spin::{Look, Thread};
use crate::model::Progress;

/// Who waits for the answer to a call.
#[derive(Debug)]
pub(crate) struct Pending {
    reply: oneshot::Sender<Result<Message, Error>>,
    progress: Option<Steps>,
    /// Told what the server says when a stream of notifications stands.
    standing: Option<oneshot::Sender<Bytes>>,
}

impl Pending {
    pub(super) fn new(
        reply: oneshot::Sender<Result<Message, Error>>,
        progress: Option<Arc<Broadcast<Progress>>>,
    ) -> Pending {
        Pending {
            reply,
            progress: progress.map(Steps),
            standing: None,
        }
    }

    /// For a request that opens a stream of notifications.
    pub(super) fn of_stream(
        reply: oneshot::Sender<Result<Message, Error>>,
        standing: oneshot::Sender<Bytes>,
    ) -> Pending {
        Pending {
            standing: Some(standing),
            ..Pending::new(reply, None)
        }
    }

    /// The call is over. Whoever dropped it does not hear how it ended.
    fn settle(self, answer: Result<Message, Error>) {
        drop(self.progress);
        let _ = self.reply.send(answer);
    }
}

/// The progress of a call. It ends with the call, however that ends.
#[derive(Debug)]
struct Steps(Arc<Broadcast<Progress>>);

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.close();
    }
}

pub(crate) struct ClientDownstream {
    shared: Arc<Shared>,
    handlers: Handlers,
    /// Where handlers run.
    runtime: Handle,
    /// Commands that were taken out of the mailbox and not yet carried out.
    commands: VecDeque<Command>,
    pending: HashMap<u64, Pending>,
    /// The server's requests that are being answered.
    asks: HashMap<Id, AbortHandle>,
    reporter: Reporter,
    /// Whose thread this is, if it may be kept busy to look for answers.
    thread: Option<Thread>,
    /// The session of another process, to go on with.
    resumed: Option<Session>,
    /// Who wants a snapshot of the session.
    snapshots: Vec<oneshot::Sender<Result<Snapshot, SnapshotError>>>,
}

impl ClientDownstream {
    pub(super) fn new(
        shared: Arc<Shared>,
        handlers: Handlers,
        runtime: Handle,
        spins: bool,
        resumed: Option<Session>,
    ) -> ClientDownstream {
        let thread = match runtime.runtime_flavor() {
            RuntimeFlavor::CurrentThread => Thread::Only,
            _ => Thread::Worker,
        };
        ClientDownstream {
            shared,
            handlers,
            runtime,
            commands: VecDeque::new(),
            pending: HashMap::new(),
            asks: HashMap::new(),
            reporter: Reporter::new(),
            thread: spins.then_some(thread),
            resumed,
            snapshots: Vec::new(),
        }
    }

    fn cancel(&mut self, id: u64, reason: Option<String>) -> Option<Input> {
        let waiting =
            |command: &Command| matches!(command, Command::Call { id: call, .. } if *call == id);
        if let Some(at) = self.commands.iter().position(waiting) {
            // It never reached the session.
            if let Some(Command::Call { pending, .. }) = self.commands.remove(at) {
                pending.settle(Err(Error::CancelledByCaller));
            }
            return None;
        }
        let pending = self.pending.remove(&id)?;
        pending.settle(Err(Error::CancelledByCaller));
        Some(Input::Host(Frame::read(wire::cancelled(id, reason))))
    }

    fn answered(&mut self, message: Message) {
        let Some(Id::Int(id)) = message.id() else {
            return;
        };
        let Some(pending) = u64::try_from(*id)
            .ok()
            .and_then(|id| self.pending.remove(&id))
        else {
            return;
        };
        pending.settle(match message.error() {
            Some(error) => Err(Error::remote(error)),
            None => Ok(message),
        });
    }

    /// `told`: the list whose change has just been told.
    fn notified(&mut self, message: Message, told: Option<List>) {
        let list = match message.method() {
            "notifications/progress" => return self.progressed(&message),
            "notifications/cancelled" => return self.taken_back(&message),
            "notifications/tools/list_changed" => Some(List::Tools),
            "notifications/prompts/list_changed" => Some(List::Prompts),
            "notifications/resources/list_changed" => Some(List::Resources),
            "notifications/subscriptions/acknowledged" => return self.stands(&message),
            _ => None,
        };
        if let Some(list) = list {
            if told != Some(list) {
                self.tell(list_changed(list, [&[], &[], &[]]));
            }
            return;
        }
        let params = message.params().unwrap_or_default();
        let event = match message.method() {
            "notifications/resources/updated" => message.uri().map(|uri| Event::ResourceUpdated {
                uri: uri.into_owned(),
            }),
            "notifications/message" => serde_json::from_slice(params).ok().map(Event::Log),
            _ => None,
        };
        self.tell(event.unwrap_or_else(|| {
            Event::Unsolicited(Notification {
                method: message.method().to_string(),
                params: message.bytes().slice_ref(params),
            })
        }));
    }

    /// The server says that a stream of notifications stands.
    fn stands(&mut self, message: &Message) {
        if let Some(Id::Int(id)) = message.subscription_id()
            && let Ok(id) = u64::try_from(id)
            && let Some(pending) = self.pending.get_mut(&id)
            && let Some(standing) = pending.standing.take()
        {
            let params = message.params().unwrap_or_default();
            let _ = standing.send(message.bytes().slice_ref(params));
        }
    }

    fn progressed(&mut self, message: &Message) {
        if let Some(Id::Int(token)) = message.progress_token()
            && let Ok(id) = u64::try_from(token)
            && let Some(pending) = self.pending.get(&id)
            && let Some(Steps(broadcast)) = &pending.progress
            && let Ok(progress) = serde_json::from_slice(message.params().unwrap_or_default())
        {
            broadcast.tell(&progress);
        }
    }

    /// The server takes back what it asked, or its link has died; or it ends a subscription.
    fn taken_back(&mut self, message: &Message) {
        let Some(id) = message.request_id() else {
            return;
        };
        if let Some(task) = self.asks.remove(&id) {
            task.abort();
        }
    }

    /// The server asks something.
    fn asked(&mut self, message: Message) {
        let Some(id) = message.id().cloned() else {
            return;
        };
        self.asks.retain(|_, task| !task.is_finished());
        let params = message.params().unwrap_or(b"{}");
        let answering = self.handlers.answer(message.method(), params);
        let shared = self.shared.clone();
        let task = self.runtime.spawn(async move {
            // Another task, so that a panic in the handler can be told to the server.
            let answering = tokio::spawn(answering);
            let _guard = AbortOnDrop(answering.abort_handle());
            let answer = answering.await;
            let frame = wire::answer(message.id_json(), answer);
            // If the client has been closed meanwhile, nobody waits for it.
            let _ = shared.mailbox.push(Command::Answer(frame));
        });
        self.asks.insert(id, task.abort_handle());
    }

    fn tell(&self, event: Event) {
        self.shared.watch.tell(event);
    }
}

/// Aborts the handler when nobody waits for its answer any more.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Downstream for ClientDownstream {
    #[cfg(feature = "tracing")]
    fn observer(&self) -> Option<Arc<dyn outlive_core::request::Observer>> {
        crate::trace::requests()
    }

    /// News is looked for while calls are out.
    fn thread(&self) -> Option<Thread> {
        self.thread.filter(|_| !self.pending.is_empty())
    }

    fn session(&mut self) -> Option<Session> {
        self.resumed.take()
    }

    fn look_at(&mut self, session: &Session, now: Time) {
        for wanted in self.snapshots.drain(..) {
            // Who no longer waits for it does not need it.
            let _ = wanted.send(session.snapshot(now));
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, open: bool, _look: Look) -> Poll<Option<Input>> {
        loop {
            let command = match mailbox::next(&mut self.commands, open) {
                Some(command) => command,
                None => match self.shared.mailbox.take(cx, &mut self.commands) {
                    Poll::Ready(()) => continue,
                    Poll::Pending => return Poll::Pending,
                },
            };
            let input = match command {
                Command::Call {
                    id,
                    frame,
                    terms,
                    pending,
                } => {
                    self.pending.insert(id, pending);
                    Some(Input::Call(Frame::read(frame), terms))
                }
                Command::Cancel { id, reason } => self.cancel(id, reason),
                Command::Notify(frame) | Command::Answer(frame) => {
                    Some(Input::Host(Frame::read(frame)))
                }
                Command::Snapshot(wanted) => {
                    self.snapshots.push(wanted);
                    None
                }
                Command::Restart => Some(Input::Restart),
                Command::Stop => Some(Input::Stop),
            };
            if input.is_some() {
                return Poll::Ready(input);
            }
        }
    }

    fn send(&mut self, message: Message) {
        let told = self.reporter.catch_up(&self.shared.watch);
        match message.kind() {
            Kind::Response => self.answered(message),
            Kind::Notification => self.notified(message, told),
            Kind::Request => self.asked(message),
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.reporter.catch_up(&self.shared.watch);
        let id = std::str::from_utf8(&refusal.id_json).unwrap_or_default();
        if let Some(pending) = id.parse().ok().and_then(|id: u64| self.pending.remove(&id)) {
            pending.settle(Err(refusal.error));
        }
    }

    fn event(&mut self, now: Time, event: &CoreEvent) -> Option<Input> {
        self.reporter.report(&self.shared.watch, now, event);
        None
    }

    fn flush(&mut self, _cx: &mut Context<'_>) -> Option<Input> {
        None
    }

    fn backlog(&self) -> usize {
        0
    }

    fn is_blocked(&self) -> bool {
        false
    }

    fn is_told(&self) -> bool {
        true
    }
}

/// However the task that owned the connection ended: nobody is left waiting, and the state says so.
impl Drop for ClientDownstream {
    fn drop(&mut self) {
        self.commands.append(&mut self.shared.mailbox.close());
        for (_, task) in self.asks.drain() {
            task.abort();
        }
        self.shared.watch.close();
        for command in self.commands.drain(..) {
            if let Command::Call { pending, .. } = command {
                let outcome = Outcome::NotSent;
                pending.settle(Err(Error::ShuttingDown { outcome }));
            }
        }
        for (_, pending) in self.pending.drain() {
            let outcome = Outcome::Unknown;
            pending.settle(Err(Error::ShuttingDown { outcome }));
        }
    }
}
