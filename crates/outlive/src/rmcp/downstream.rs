//! An rmcp client as the host's side of a driver.
//!
//! The downstream knows for which request rmcp still waits in [`Transport::send`](rmcp::transport::Transport::send). An
//! answer lets it return; an error of ours is what it returns. Whether and when a request is sent,
//! repeated or given up is decided by the session alone.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use outlive_core::error::{Error, Outcome, Refusal};
use outlive_core::message::Kind;
use outlive_core::policy::Limits;
use outlive_core::request::Observer;
use outlive_core::{Event, Frame, Generation, Id, Input, Message, Time};
use rmcp::RoleClient;
use rmcp::service::RxJsonRpcMessage;
use tokio::sync::oneshot;

use super::codec;
use super::queue::Queue;
use crate::client::mailbox::{self, Mailbox, Rank, Ranked};
use crate::client::watch::{Reporter, Watch};
use crate::driver::downstream::Downstream;
use crate::io::spin::Look;

/// How `send` ends for a request.
pub(super) type Sent = Result<(), Error>;

/// What rmcp, or a handle, wants of the session.
#[derive(Debug)]
pub(super) enum Order {
    /// Send this request and settle it.
    Request {
        id: Id,
        frame: Bytes,
        /// Whether it is one that begins a conversation.
        greets: bool,
        reply: oneshot::Sender<Sent>,
    },
    /// Nobody waits for this request any more.
    Cancel { id: Id, frame: Bytes },
    /// Send this notification or answer.
    Send(Bytes),
    /// Put a new server under the session.
    Restart,
    /// rmcp has left: nobody waits for anything.
    Leave,
    /// End the session.
    Stop,
}

impl Ranked for Order {
    fn call(&self) -> Option<usize> {
        match self {
            Order::Request { frame, .. } => Some(frame.len()),
            _ => None,
        }
    }

    /// Only requests wait; all else keeps its order.
    fn rank(&self) -> Rank {
        match self {
            Order::Request { .. } => Rank::Call,
            _ => Rank::Urgent,
        }
    }
}

/// What the transport, its handles and the downstream share.
#[derive(Debug)]
pub(super) struct Shared {
    /// There is one as soon as the policy is settled.
    mailbox: OnceLock<Mailbox<Order>>,
    /// For rmcp.
    pub(super) mail: Queue<RxJsonRpcMessage<RoleClient>>,
    pub(super) watch: Watch,
}

impl Shared {
    pub(super) fn new() -> Shared {
        Shared {
            mailbox: OnceLock::new(),
            mail: Queue::new(),
            watch: Watch::new(),
        }
    }

    pub(super) fn open(&self, limits: &Limits) {
        self.mailbox.get_or_init(|| Mailbox::new(limits));
    }

    /// Takes an order in, or says why it cannot be.
    pub(super) fn order(&self, order: Order) -> Result<(), Error> {
        match self.mailbox.get() {
            Some(mailbox) => mailbox.push(order),
            None => Err(Error::ShuttingDown {
                outcome: Outcome::NotSent,
            }),
        }
    }
}

pub(super) struct RmcpDownstream {
    shared: Arc<Shared>,
    reporter: Reporter,
    /// Orders that were taken out of the mailbox and not yet seen to.
    orders: VecDeque<Order>,
    /// Requests that the session has; with them those who wait in `send`.
    pending: HashMap<Id, Option<oneshot::Sender<Sent>>>,
    /// The request of the handshake that is unanswered. It is never cancelled.
    greeting: Option<Id>,
    /// The handshake is over.
    greeted: bool,
    /// rmcp does not take what it is sent.
    blocked: bool,
}

impl RmcpDownstream {
    pub(super) fn new(shared: Arc<Shared>) -> RmcpDownstream {
        RmcpDownstream {
            shared,
            reporter: Reporter::new(),
            orders: VecDeque::new(),
            pending: HashMap::new(),
            greeting: None,
            greeted: false,
            blocked: false,
        }
    }

    fn next_order(&mut self, cx: &mut Context<'_>, open: bool) -> Option<Order> {
        loop {
            if let Some(order) = mailbox::next(&mut self.orders, open) {
                return Some(order);
            }
            if self
                .shared
                .mailbox
                .get()?
                .take(cx, &mut self.orders)
                .is_pending()
            {
                return None;
            }
        }
    }

    fn request(&mut self, id: Id, greets: bool, reply: oneshot::Sender<Sent>) {
        self.greeted |= !greets;
        if !self.greeted {
            self.greeting = Some(id.clone());
        }
        self.pending.insert(id, Some(reply));
    }

    fn cancel(&mut self, id: &Id, frame: Bytes) -> Option<Input> {
        let waits =
            |order: &Order| matches!(order, Order::Request { id: other, .. } if other == id);
        if let Some(at) = self.orders.iter().position(waits) {
            // It never reached the session.
            if let Some(Order::Request { reply, .. }) = self.orders.remove(at) {
                let _ = reply.send(Ok(()));
            }
            return None;
        }
        // rmcp tells its caller.
        settle(self.pending.remove(id)?, Ok(()));
        Some(Input::Host(Frame::read(frame)))
    }

    /// What nobody waits for any more is cancelled, then the session ends.
    fn leave(&mut self) {
        self.shared.mail.abandon();
        self.orders.retain(|order| order.call().is_none());
        let greeting = self.greeting.take();
        let ids = self
            .pending
            .keys()
            .filter(|id| Some(*id) != greeting.as_ref());
        let cancels = ids.map(|id| Order::Cancel {
            id: id.clone(),
            frame: cancelled(id),
        });
        self.orders.extend(cancels.collect::<Vec<_>>());
        self.orders.push_back(Order::Stop);
    }

    /// The request `id` is answered, or refused.
    fn answered(&mut self, id: &Id) -> Option<oneshot::Sender<Sent>> {
        if self.greeting.as_ref() == Some(id) {
            self.greeting = None;
        }
        self.pending.remove(id)?
    }

    fn deliver(&mut self, message: Message) {
        let size = message.bytes().len();
        let message = match codec::read::<RoleClient>(message) {
            Ok(message) => message,
            Err(unreadable) => return self.unreadable(*unreadable),
        };
        let reply = match &message {
            RxJsonRpcMessage::<RoleClient>::Response(response) => {
                self.answer_for(&codec::id(&response.id))
            }
            RxJsonRpcMessage::<RoleClient>::Error(error) => match &error.id {
                Some(id) => self.answer_for(&codec::id(id)),
                None => Answer::Wanted(None),
            },
            _ => {
                // During the handshake rmcp takes nothing in while it waits in `send`, and this may
                // be a `ping` that the server wants answered first. From now on it waits in `receive`.
                let greeting = self.greeting.as_ref();
                let greeting = greeting.and_then(|id| self.pending.get_mut(id)?.take());
                Answer::Wanted(greeting)
            }
        };
        let Answer::Wanted(reply) = reply else {
            return;
        };
        // First, so that it is there when `send` returns.
        self.shared.mail.push(message, size);
        settle(reply, Ok(()));
    }

    fn answer_for(&mut self, id: &Id) -> Answer {
        match self.answered(id) {
            // rmcp gave the request up without a word, as it does with a slow `server/discover`.
            Some(reply) if reply.is_closed() => Answer::Unwanted,
            reply => Answer::Wanted(reply),
        }
    }

    fn unreadable(&mut self, unreadable: codec::Unreadable) {
        if let Some(answer) = unreadable.answer(Generation::FIRST) {
            // Closed meanwhile: then the server does not wait for it either.
            let _ = self.shared.order(Order::Send(answer.into_bytes()));
        }
        if unreadable.message.kind() != Kind::Response {
            return;
        }
        let id = unreadable.message.id().cloned();
        match id.and_then(|id| self.answered(&id)) {
            Some(reply) => settle(Some(reply), Err(unreadable.error)),
            None => {
                if let Some(message) = unreadable.for_rmcp::<RoleClient>() {
                    self.shared.mail.push(message, 0);
                }
            }
        }
    }
}

/// Whether rmcp is given an answer.
enum Answer {
    Wanted(Option<oneshot::Sender<Sent>>),
    Unwanted,
}

fn settle(reply: Option<oneshot::Sender<Sent>>, sent: Sent) {
    if let Some(reply) = reply {
        // rmcp may have left.
        let _ = reply.send(sent);
    }
}

fn cancelled(id: &Id) -> Bytes {
    let id = id.to_json();
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
    .into()
}

impl Downstream for RmcpDownstream {
    fn observer(&self) -> Option<Arc<dyn Observer>> {
        crate::trace::requests()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, open: bool, _look: Look) -> Poll<Option<Input>> {
        while let Some(order) = self.next_order(cx, open) {
            let input = match order {
                Order::Request {
                    id,
                    frame,
                    greets,
                    reply,
                } => {
                    self.request(id, greets, reply);
                    Some(Input::Host(Frame::read(frame)))
                }
                Order::Cancel { id, frame } => self.cancel(&id, frame),
                Order::Send(frame) => Some(Input::Host(Frame::read(frame))),
                Order::Restart => Some(Input::Restart),
                Order::Leave => {
                    self.leave();
                    None
                }
                Order::Stop => Some(Input::Stop),
            };
            if input.is_some() {
                return Poll::Ready(input);
            }
        }
        Poll::Pending
    }

    fn send(&mut self, message: Message) {
        self.deliver(message);
    }

    fn refuse(&mut self, refusal: Refusal) {
        // What shows that the server is a legacy one has to look like an answer of the server's.
        let falls_back = matches!(refusal.error, Error::Unsupported { .. });
        let waits = |id: &Id| !falls_back && matches!(self.pending.get(id), Some(Some(_)));
        match Id::read(&refusal.id_json).filter(waits) {
            Some(id) => settle(self.answered(&id), Err(refusal.error)),
            None => self.deliver(refusal.to_response()),
        }
    }

    fn event(&mut self, now: Time, event: &Event) -> Option<Input> {
        self.reporter.report(&self.shared.watch, now, event);
        None
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> Option<Input> {
        let blocked = self.shared.mail.poll_room(cx).is_pending();
        let changed = blocked != self.blocked;
        self.blocked = blocked;
        changed.then_some(Input::HostBlocked(blocked))
    }

    fn backlog(&self) -> usize {
        self.shared.mail.bytes()
    }

    fn is_blocked(&self) -> bool {
        self.blocked
    }

    fn is_told(&self) -> bool {
        self.shared.mail.len() == 0
    }
}

/// However the task that owned the session ended: nobody is left waiting.
impl Drop for RmcpDownstream {
    fn drop(&mut self) {
        let unread = self.shared.mailbox.get().map(Mailbox::close);
        self.shared.watch.close();
        for order in self.orders.drain(..).chain(unread.into_iter().flatten()) {
            if let Order::Request { reply, .. } = order {
                let outcome = Outcome::NotSent;
                let _ = reply.send(Err(Error::ShuttingDown { outcome }));
            }
        }
        self.shared.mail.close();
    }
}
