//! An rmcp handler as the server's side of a driver.
//!
//! Every link is a new run of rmcp's service loop over the same handler. That loop ends when its
//! handshake goes wrong; the session then makes the next link, and the client does not notice.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use outlive_core::cause::{Exit, StartFailure};
use outlive_core::error::Outcome;
use outlive_core::{Error, Frame, Generation, LinkInput, LinkOrder, Message};
use rmcp::model::{JsonRpcMessage, ProtocolVersion};
use rmcp::service::{
    NotificationContext, RequestContext, RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage,
};
use rmcp::transport::Transport;
use rmcp::{ErrorData, RoleServer, Service};
use tokio::task::AbortHandle;

use super::codec;
use super::queue::Queue;
use crate::driver::upstream::{Link, Read, Upstream};
use crate::io::spin::Look;

/// Makes links to a handler.
pub(super) struct Handlers<S> {
    service: Arc<S>,
}

impl<S> Handlers<S> {
    pub(super) fn new(service: S) -> Handlers<S> {
        Handlers {
            service: Arc::new(service),
        }
    }
}

/// The two directions between a link and its run of rmcp.
struct Wire {
    to_handler: Queue<RxJsonRpcMessage<RoleServer>>,
    to_session: Queue<Frame>,
}

impl<S: Service<RoleServer>> Upstream for Handlers<S> {
    type Link = HandlerLink;

    fn connect(&mut self, generation: Generation) -> Result<HandlerLink, StartFailure> {
        let wire = Arc::new(Wire {
            to_handler: Queue::new(),
            to_session: Queue::new(),
        });
        let service = Caught(self.service.clone());
        let transport = Inside(wire.clone());
        let task = tokio::spawn(async move {
            match rmcp::serve_server(service, transport).await {
                Ok(running) => drop(running.waiting().await),
                Err(error) => tracing::debug!("rmcp has ended the handshake: {error}"),
            }
        });
        Ok(HandlerLink {
            generation,
            wire,
            task: task.abort_handle(),
            frames: VecDeque::new(),
            queued: 0,
            sent: None,
            ended: false,
        })
    }

    /// A run of rmcp has no end but that of its transport, which is read.
    fn poll_ended(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn end(&mut self, link: HandlerLink, _others: &[HandlerLink]) -> (Exit, u64) {
        (Exit::Unknown, link.sent())
    }

    fn mask(&self, text: &str) -> String {
        text.to_string()
    }
}

/// A link to a handler.
pub(super) struct HandlerLink {
    generation: Generation,
    wire: Arc<Wire>,
    task: AbortHandle,
    /// From the handler, for the session.
    frames: VecDeque<Frame>,
    /// Frames for the handler so far.
    queued: u64,
    /// How many of them it took, once it takes no more.
    sent: Option<u64>,
    ended: bool,
}

impl HandlerLink {
    /// Takes back what the handler has not taken, and counts the rest. In one step: it runs on other threads.
    fn stop_writing(&mut self) {
        let left = self.wire.to_handler.abandon() as u64;
        self.sent.get_or_insert(self.queued.saturating_sub(left));
    }

    fn leave(&mut self) {
        self.stop_writing();
        self.wire.to_session.abandon();
        self.task.abort();
        self.ended = true;
    }
}

impl Link for HandlerLink {
    fn generation(&self) -> Generation {
        self.generation
    }

    fn send(&mut self, message: Message) {
        let size = message.bytes().len();
        self.queued += 1;
        let message = match codec::read::<RoleServer>(message) {
            Ok(message) => Some(message),
            Err(unreadable) => {
                tracing::debug!("{}", unreadable.error);
                if let Some(answer) = unreadable.answer(self.generation) {
                    self.wire.to_session.push(Frame::Message(answer), 0);
                }
                unreadable.for_rmcp::<RoleServer>()
            }
        };
        if let Some(message) = message {
            self.wire.to_handler.push(message, size);
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        // Only to be woken when the handler has caught up.
        let _ = self.wire.to_handler.poll_room(cx);
        Ok(())
    }

    fn backlog(&self) -> usize {
        self.wire.to_handler.bytes()
    }

    fn sent(&self) -> u64 {
        let waiting = || self.wire.to_handler.len() as u64;
        self.sent
            .unwrap_or_else(|| self.queued.saturating_sub(waiting()))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, _look: Look) -> Poll<Read> {
        if self.ended {
            return Poll::Pending;
        }
        Poll::Ready(match ready!(self.wire.to_session.poll_next(cx)) {
            Some(frame) => {
                self.frames.push_back(frame);
                Read::Some
            }
            None => {
                // It may still take what is there for it: its count is final only then.
                self.stop_writing();
                self.ended = true;
                Read::End
            }
        })
    }

    fn next_frame(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }

    fn ending(&self) -> LinkInput {
        LinkInput::Disconnected {
            error: None,
            sent: self.sent(),
        }
    }

    fn order(&mut self, order: LinkOrder) -> Option<LinkInput> {
        match order {
            LinkOrder::CloseInput => self.wire.to_handler.close(),
            LinkOrder::StopWriting => self.stop_writing(),
            LinkOrder::Release | LinkOrder::DeclineLogin => {}
            LinkOrder::Terminate | LinkOrder::Kill => self.leave(),
            LinkOrder::Inspect => return Some(LinkInput::Inspected { stopped: false }),
        }
        None
    }

    fn has_ended(&mut self) -> bool {
        self.ended
    }
}

impl Drop for HandlerLink {
    fn drop(&mut self) {
        self.leave();
    }
}

/// rmcp's end of a link.
struct Inside(Arc<Wire>);

impl Transport<RoleServer> for Inside {
    type Error = Error;

    fn name() -> Cow<'static, str> {
        "outlive".into()
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let wire = self.0.clone();
        // Now, not when the future is polled, so that progress comes before its answer.
        let posted = codec::write::<RoleServer>(&message).map(|line| {
            let size = line.len();
            wire.to_session.push(Frame::read(line), size)
        });
        let is_request = matches!(message, JsonRpcMessage::Request(_));
        async move {
            if posted? {
                // A client that does not read slows its handlers down.
                poll_fn(|cx| wire.to_session.poll_room(cx)).await;
            } else if is_request {
                let outcome = Outcome::NotSent;
                return Err(Error::ShuttingDown { outcome });
            } else {
                tracing::debug!("the client is gone; what a handler still said was dropped");
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        poll_fn(|cx| self.0.to_handler.poll_next(cx)).await
    }

    async fn close(&mut self) -> Result<(), Error> {
        self.0.to_session.close();
        Ok(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.to_session.close();
    }
}

/// A service whose panics are answered (−32603): rmcp would leave the caller waiting for ever.
struct Caught<S>(Arc<S>);

impl<S: Service<RoleServer>> Service<RoleServer> for Caught<S> {
    async fn handle_request(
        &self,
        request: <RoleServer as ServiceRole>::PeerReq,
        context: RequestContext<RoleServer>,
    ) -> Result<<RoleServer as ServiceRole>::Resp, ErrorData> {
        caught(|| self.0.handle_request(request, context)).await
    }

    async fn handle_notification(
        &self,
        notification: <RoleServer as ServiceRole>::PeerNot,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        caught(|| self.0.handle_notification(notification, context)).await
    }

    fn get_info(&self) -> <RoleServer as ServiceRole>::Info {
        self.0.get_info()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }
}

/// Runs a handler. Its state is not looked at after a panic, except by other calls of the same
/// handler, as it would be had the panic ended a task of rmcp's.
async fn caught<T, F>(begin: impl FnOnce() -> F) -> Result<T, ErrorData>
where
    F: Future<Output = Result<T, ErrorData>>,
{
    let panicked = || {
        let words =
            "The handler panicked. It may have taken effect; other calls are not concerned.";
        ErrorData::internal_error(words, None)
    };
    let mut handling = pin!(async { begin().await });
    poll_fn(|cx| {
        catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(cx)))
            .unwrap_or_else(|_| Poll::Ready(Err(panicked())))
    })
    .await
}
