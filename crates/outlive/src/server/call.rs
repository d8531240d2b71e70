//! One request being handled.
//!
//! A handler is wrapped so that its request is answered in every case: with what it returns, with
//! an error if it panics, with an error if its future is dropped half-way. The wrapper holds the
//! only right to answer and uses it up.

use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use bytes::Bytes;
use outlive_core::server::{Answer, CancelReason, Request, RpcError as WireError, Ticket};
use tokio::sync::Notify;

use super::connection::{Arrival, Connection};
use super::task::Work;
use crate::model::RpcError;

/// A request, its connection, and whether anybody still waits for it.
pub(crate) struct Call {
    pub(crate) connection: Arc<Connection>,
    pub(crate) ticket: Ticket,
    pub(crate) request: Box<Request>,
    /// The HTTP request that brought it.
    #[cfg_attr(not(feature = "http-server"), expect(dead_code))]
    pub(crate) arrival: Option<Arc<Arrival>>,
    /// Why nobody waits any more.
    reason: OnceLock<CancelReason>,
    told: Notify,
    /// The machine has forgotten it: there is nothing to answer.
    abandoned: AtomicBool,
}

impl Call {
    pub(crate) fn new(
        connection: &Arc<Connection>,
        ticket: Ticket,
        request: Box<Request>,
        arrival: Option<Arc<Arrival>>,
    ) -> Arc<Call> {
        Arc::new(Call {
            connection: connection.clone(),
            ticket,
            request,
            arrival,
            reason: OnceLock::new(),
            told: Notify::new(),
            abandoned: AtomicBool::new(false),
        })
    }

    /// Tells the handler that nobody waits, and why.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        // The first reason counts.
        if self.reason.set(reason).is_ok() {
            self.told.notify_waiters();
        }
    }

    pub(crate) fn reason(&self) -> Option<&CancelReason> {
        self.reason.get()
    }

    pub(crate) async fn cancelled(&self) -> &CancelReason {
        loop {
            // In this order: what is told between the two is not missed.
            let told = self.told.notified();
            if let Some(reason) = self.reason.get() {
                return reason;
            }
            told.await;
        }
    }

    /// Takes note that an answer has no one to go to.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// `params` as the client wrote them.
    pub(crate) fn params(&self) -> &[u8] {
        self.request.message.params().unwrap_or(b"{}")
    }

    /// A handler at work: its answer is this call's.
    pub(crate) fn work(
        self: &Arc<Call>,
        body: impl Future<Output = Outcome> + Send + 'static,
    ) -> Work {
        let concluding = Concluding(Some(self.clone()));
        Box::pin(async move {
            let answer = match caught(body).await {
                Ok(Ok(result)) => Answer::Result(result),
                Ok(Err(error)) => Answer::Error(to_wire(error)),
                Err(words) => Answer::Panicked(words),
            };
            concluding.conclude(answer);
        })
    }

    /// A handler that answers through a responder, now or later, itself or somebody else.
    pub(crate) fn loose_work(
        self: &Arc<Call>,
        body: impl Future<Output = ()> + Send + 'static,
    ) -> Work {
        let call = self.clone();
        Box::pin(async move {
            // If it panicked, its responder, dropped on the way, has said so.
            let _ = caught(body).await;
            call.connection.finish(call.ticket);
        })
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.request.message.method())
            .field("reason", &self.reason.get())
            .finish_non_exhaustive()
    }
}

/// What comes of a request: a JSON object, or an error.
pub(crate) type Outcome = Result<Bytes, RpcError>;

/// The right to answer, once, as the handler ends.
struct Concluding(Option<Arc<Call>>);

impl Concluding {
    fn conclude(mut self, answer: Answer) {
        if let Some(call) = self.0.take() {
            call.connection.conclude(call.ticket, answer);
        }
    }
}

impl Drop for Concluding {
    fn drop(&mut self) {
        if let Some(call) = self.0.take()
            && !call.is_abandoned()
        {
            call.connection.conclude(call.ticket, Answer::Dropped);
        }
    }
}

/// Runs a future; a panic becomes its words.
async fn caught<T>(body: impl Future<Output = T>) -> Result<T, String> {
    let mut body = pin!(body);
    poll_fn(|cx| {
        // A future that panicked is not polled again, only dropped.
        match catch_unwind(AssertUnwindSafe(|| body.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(payload) => Poll::Ready(Err(words_of(payload))),
        }
    })
    .await
}

fn words_of(payload: Box<dyn Any + Send>) -> String {
    let words = payload
        .downcast_ref::<&str>()
        .map(|words| (*words).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    // What was thrown may panic again when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(move || drop(payload)));
    words.unwrap_or_else(|| "it panicked".to_owned())
}

/// An error as the machine takes it.
pub(crate) fn to_wire(error: RpcError) -> WireError {
    let mut wire = WireError::new(error.code, error.message);
    wire.data = error.data.map(|data| data.to_string().into());
    wire
}
