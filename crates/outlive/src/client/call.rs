//! One call.
//!
//! A [`Call`] is a call that has not been made; awaiting or polling it makes it. A [`Running`] is one that
//! has been made, and is the future of its result. Dropping it is the caller's cancellation: the server is
//! told so, once, in the background, and the connection is none the worse for it. Nothing else looks like
//! that, and no failure looks like a cancellation.

use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use outlive_core::Message;
use outlive_core::error::{Bound, Error, Outcome};
use outlive_core::policy::{Retry, Terms};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::oneshot;

use super::Client;
use super::broadcast::{Broadcast, Listen};
use super::cancel_state::CancelState;
use super::downstream::Pending;
use super::handler::Answering;
use super::mailbox::Command;
use super::wire::{self, Meta};
use crate::model::reading;
use crate::model::{InputRequired, Object, Progress, RpcError};

/// How much progress a caller may fall behind.
const PROGRESS: usize = 256;

/// How often a server may ask for something before it answers one call.
const ROUNDS: u32 = 16;

/// A call that has not been made. Await it, or [`start`](Call::start) it.
///
/// It is the future of its result, so it can be spawned and joined like any other:
///
/// ```no_run
/// # async fn example(client: outlive::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let call = tokio::spawn(client.call("build", serde_json::json!({})));
/// println!("{}", call.await??.text());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a call is made when it is awaited or started"]
pub struct Call<R>(Stage<R>);

/// How far a call is.
#[derive(Debug)]
enum Stage<R> {
    Planned(Plan<R>),
    Made(Running<R>),
    /// On its way from one to the other.
    Moving,
}

/// What is to be called, and on what terms.
#[derive(Debug)]
struct Plan<R> {
    client: Client,
    method: String,
    params: Result<Vec<u8>, String>,
    terms: Terms,
    progress: bool,
    meta: Option<Object>,
    result: PhantomData<fn() -> R>,
}

impl<R> Call<R> {
    fn plan(mut self, change: impl FnOnce(&mut Plan<R>)) -> Self {
        // One that was made has its terms already.
        if let Stage::Planned(plan) = &mut self.0 {
            change(plan);
        }
        self
    }
}

impl<R: DeserializeOwned> Call<R> {
    pub(super) fn new(client: Client, method: impl Into<String>, params: impl Serialize) -> Self {
        Call(Stage::Planned(Plan {
            client,
            method: method.into(),
            params: wire::params(params),
            terms: Terms::default(),
            progress: false,
            meta: None,
            result: PhantomData,
        }))
    }

    /// Asks the server to report progress, which starts the time of [`idle`](Call::idle) anew, and can
    /// be read while the call runs: see [`Running::progress`].
    pub fn progress(self) -> Self {
        self.plan(|plan| plan.progress = true)
    }

    /// Fails if the call takes longer than this, progress or not. Time in which a person answers a
    /// question of the server's is not counted.
    ///
    /// The clock is that of the connection, which runs where the client was [connected](super::Builder::connect): if
    /// that runtime does not run, neither does the clock.
    pub fn timeout(self, total: Duration) -> Self {
        self.plan(|plan| plan.terms.total = Some(total))
    }

    /// Fails if there is neither an answer nor progress for this long.
    pub fn idle(self, idle: Duration) -> Self {
        self.plan(|plan| plan.terms.idle = Some(idle))
    }

    /// Whether the call is sent again if the server dies and may have executed it.
    pub fn retry(self, retry: Retry) -> Self {
        self.plan(|plan| plan.terms.retry = Some(retry))
    }

    /// Adds a field to the metadata of the call.
    pub fn meta(self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.plan(|plan| {
            let meta = plan.meta.get_or_insert_default();
            meta.insert(name.into(), value.into());
        })
    }

    /// The result as it arrives, for those who only pass it on.
    pub fn raw(self) -> Call<Box<RawValue>> {
        Call(match self.0 {
            Stage::Planned(plan) => Stage::Planned(plan.into_type()),
            Stage::Made(running) => Stage::Made(running.into_type()),
            Stage::Moving => Stage::Moving,
        })
    }

    /// Makes the call.
    pub fn start(self) -> Running<R> {
        match self.0 {
            Stage::Planned(plan) => plan.start(),
            Stage::Made(running) => running,
            Stage::Moving => unreachable!("only while it is polled"),
        }
    }
}

impl<R> Plan<R> {
    fn into_type<T>(self) -> Plan<T> {
        Plan {
            client: self.client,
            method: self.method,
            params: self.params,
            terms: self.terms,
            progress: self.progress,
            meta: self.meta,
            result: PhantomData,
        }
    }

    fn start(self) -> Running<R> {
        let progress = self.progress.then(|| Arc::new(Broadcast::new(PROGRESS)));
        let mut running = Running {
            progress_listen: progress
                .as_ref()
                .map(|broadcast| Listen::new(broadcast.listen([]), |_| None)),
            progress,
            cancel_state: Arc::default(),
            call: self,
            round: 0,
            sent: Instant::now(),
            spent: Duration::ZERO,
            state: Waiting::Over,
        };
        running.send(None);
        running
    }
}

impl<R: DeserializeOwned> Future for Call<R> {
    type Output = Result<R, Error>;

    /// Makes the call when it is polled first.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Stage::Planned(_) = self.0
            && let Stage::Planned(plan) = mem::replace(&mut self.0, Stage::Moving)
        {
            self.0 = Stage::Made(plan.start());
        }
        match &mut self.0 {
            Stage::Made(running) => Pin::new(running).poll(cx),
            Stage::Planned(_) | Stage::Moving => Poll::Pending,
        }
    }
}

/// A call that has been made: the future of its result.
#[derive(Debug)]
#[must_use = "dropping a call cancels it"]
pub struct Running<R> {
    call: Plan<R>,
    cancel_state: Arc<CancelState>,
    progress: Option<Arc<Broadcast<Progress>>>,
    progress_listen: Option<Listen<Progress>>,
    round: u32,
    /// When the request that is out was sent.
    sent: Instant,
    /// Time the server has had for earlier requests of this call.
    spent: Duration,
    state: Waiting,
}

/// What a call waits for.
enum Waiting {
    /// It could not even be sent.
    Failed(Box<Error>),
    /// The server.
    Answer(oneshot::Receiver<Result<Message, Error>>),
    /// Our own handlers, which find out what the server needs (2026-07-28).
    Input(Pin<Box<dyn Future<Output = Result<Given, Error>> + Send>>),
    /// Nothing.
    Over,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Waiting::Failed(_) => "failed",
            Waiting::Answer(_) => "waiting for the server",
            Waiting::Input(_) => "finding out what the server needs",
            Waiting::Over => "over",
        })
    }
}

/// What the server needed, and what it wants to be given back.
struct Given {
    responses: BTreeMap<String, Box<RawValue>>,
    state: Option<String>,
}

impl<R> Running<R> {
    fn into_type<T>(mut self) -> Running<T> {
        // What is dropped here is over already, and cancels nothing.
        Running {
            call: Plan {
                client: self.call.client.clone(),
                method: mem::take(&mut self.call.method),
                params: mem::replace(&mut self.call.params, Ok(Vec::new())),
                terms: self.call.terms,
                progress: self.call.progress,
                meta: self.call.meta.take(),
                result: PhantomData,
            },
            cancel_state: self.cancel_state.clone(),
            progress: self.progress.take(),
            progress_listen: self.progress_listen.take(),
            round: self.round,
            sent: self.sent,
            spent: self.spent,
            state: mem::replace(&mut self.state, Waiting::Over),
        }
    }

    /// The progress the server reports. Empty unless it was asked for with [`Call::progress`]; ends
    /// with the call, or when a server of the modern era first asks for something: it goes on only
    /// when the call is awaited. It can be taken once.
    ///
    /// ```no_run
    /// # async fn example(client: outlive::Client) -> Result<(), outlive::Error> {
    /// let mut call = client.call("build", serde_json::json!({})).progress().start();
    /// if let Some(mut progress) = call.progress() {
    ///     while let Some(step) = progress.next().await {
    ///         println!("{} of {:?}", step.progress, step.total);
    ///     }
    /// }
    /// println!("{}", call.await?.text());
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress(&mut self) -> Option<Listen<Progress>> {
        self.progress_listen.take()
    }

    /// Cancels the call from elsewhere.
    pub fn canceller(&self) -> Canceller {
        Canceller {
            client: self.call.client.clone(),
            cancel_state: self.cancel_state.clone(),
        }
    }

    fn send(&mut self, given: Option<Given>) {
        self.state = match self.try_send(given) {
            Ok(answer) => Waiting::Answer(answer),
            Err(error) => {
                if let Some(progress) = &self.progress {
                    progress.close();
                }
                Waiting::Failed(Box::new(error))
            }
        };
    }

    fn try_send(
        &mut self,
        given: Option<Given>,
    ) -> Result<oneshot::Receiver<Result<Message, Error>>, Error> {
        let params = self
            .call
            .params
            .as_ref()
            .map_err(|why| unsendable(why.clone()))?;
        let again;
        let params = match given {
            None => params,
            Some(given) => {
                again = with_given(params, given)?;
                &again
            }
        };
        let shared = &self.call.client.handle.shared;
        let id = shared.next_id();
        let (modern, level) = shared.request_meta();
        let meta = Meta {
            modern,
            log_level: level.as_deref(),
            progress: self.call.progress,
            own: self.call.meta.as_ref(),
        };
        let frame = wire::request(id, &self.call.method, params, &meta);
        let limit = shared.message_limit;
        if frame.len() > limit {
            return Err(Error::TooLarge {
                limit,
                answer: false,
            });
        }
        let (reply, answer) = oneshot::channel();
        let call = Command::Call {
            id,
            frame,
            terms: Terms {
                // What earlier rounds have left of it.
                total: self.total_left(),
                ..self.call.terms
            },
            pending: Pending::new(reply, self.progress.clone()),
        };
        self.cancel_state.send(&shared.mailbox, id, call)?;
        self.sent = Instant::now();
        Ok(answer)
    }

    /// What is left of the time the call may take in all. One that has none left fails at once.
    fn total_left(&self) -> Option<Duration> {
        let total = self.call.terms.total;
        let total = total.or(self.call.client.handle.shared.bounds.1)?;
        Some(
            total
                .saturating_sub(self.spent)
                .max(Duration::from_millis(1)),
        )
    }

    /// How long our own handlers may take: a person's time does not count up to a ceiling, then the
    /// clocks of the call run on. For ever, if it has none.
    fn input_limit(&self) -> Option<(Duration, Bound)> {
        let shared = &self.call.client.handle.shared;
        let idle = self.call.terms.idle.or(shared.bounds.0);
        let idle = idle.map(|idle| (idle, Bound::Idle));
        let total = self.total_left().map(|total| (total, Bound::Total));
        idle.into_iter()
            .chain(total)
            .min_by_key(|(after, _)| *after)
    }

    /// The server needs something before it can answer: finds it out.
    fn ask_around(&mut self, asked: InputRequired) -> Result<(), Error> {
        self.round += 1;
        if self.round > ROUNDS {
            return Err(unusable(format!("it asked for something {ROUNDS} times")));
        }
        let handle = &self.call.client.handle;
        let answers: Vec<(String, String, Answering)> = asked
            .input_requests
            .unwrap_or_default()
            .into_iter()
            .map(|(name, request)| {
                let params = request.params.map(|params| params.to_string());
                let params = params.unwrap_or_else(|| "{}".into());
                let answer = handle.handlers.answer(&request.method, params.as_bytes());
                (name, request.method, answer)
            })
            .collect();
        let runtime = handle.runtime.clone();
        let state = asked.request_state;
        let limit = self.input_limit();
        let ceiling = handle.shared.elicitation;
        let find_out = async move {
            let mut responses = BTreeMap::new();
            // All at once, each as a task of its own: one that panics harms nobody.
            let tasks: Vec<_> = answers
                .into_iter()
                .map(|(name, method, answer)| (name, method, Task(tokio::spawn(answer))))
                .collect();
            for (name, method, mut task) in tasks {
                let failed = |why: String| Error::HandlerFailed {
                    method: method.clone(),
                    why,
                };
                let result = (&mut task.0)
                    .await
                    .map_err(|_| failed("this client's handler panicked".into()))?;
                let json = result.map_err(|error| match error.code {
                    RpcError::METHOD_NOT_FOUND => {
                        failed("this client has no handler for it".into())
                    }
                    _ => failed(format!("this client's handler refused: {error}")),
                })?;
                let raw = String::from_utf8(json)
                    .ok()
                    .and_then(|json| RawValue::from_string(json).ok())
                    .ok_or_else(|| failed("this client's handler answered no JSON".into()))?;
                responses.insert(name, raw);
            }
            Ok(Given { responses, state })
        };
        // On the connection's runtime: whoever waits for the call may have no clock.
        let mut task = Task(runtime.spawn(async move {
            let Some((after, bound)) = limit else {
                return find_out.await;
            };
            match tokio::time::timeout(ceiling + after, find_out).await {
                Ok(found) => found,
                Err(_) => Err(Error::Timeout { after, bound }),
            }
        }));
        self.state = Waiting::Input(Box::pin(async move {
            let lost = |_| Error::ShuttingDown {
                outcome: Outcome::Done,
            };
            (&mut task.0).await.map_err(lost)?
        }));
        Ok(())
    }
}

/// A task that is ended when nobody waits for it.
pub(super) struct Task<T>(pub(super) tokio::task::JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn with_given(params: &[u8], given: Given) -> Result<Vec<u8>, Error> {
    let wrong = |error: serde_json::Error| unsendable(error.to_string());
    let mut params: BTreeMap<String, Box<RawValue>> = match params.is_empty() {
        true => BTreeMap::new(),
        false => serde_json::from_slice(params).map_err(wrong)?,
    };
    if !given.responses.is_empty() {
        params.insert(
            "inputResponses".into(),
            to_raw_value(&given.responses).map_err(wrong)?,
        );
    }
    if let Some(state) = given.state {
        params.insert("requestState".into(), to_raw_value(&state).map_err(wrong)?);
    }
    serde_json::to_vec(&params).map_err(wrong)
}

fn unsendable(what: String) -> Error {
    Error::Protocol {
        what,
        unreadable: false,
        outcome: Outcome::NotSent,
    }
}

fn unusable(what: String) -> Error {
    Error::Protocol {
        what,
        unreadable: false,
        outcome: Outcome::Done,
    }
}

/// What a server asks for in place of a result.
fn input_required(result: &[u8]) -> Option<InputRequired> {
    // Few results have the word in them at all, and they are not read twice.
    memchr::memmem::find(result, b"\"input_required\"")?;
    #[derive(serde::Deserialize)]
    struct Kind {
        #[serde(rename = "resultType")]
        result_type: Option<String>,
    }
    let kind: Kind = serde_json::from_slice(result).ok()?;
    match kind.result_type.as_deref() {
        Some(InputRequired::RESULT_TYPE) => serde_json::from_slice(result).ok(),
        _ => None,
    }
}

impl<R: DeserializeOwned> Future for Running<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let ended = match &mut this.state {
                Waiting::Failed(error) => Err((**error).clone()),
                Waiting::Answer(answer) => match ready!(Pin::new(answer).poll(cx)) {
                    Ok(Ok(message)) => Ok(message),
                    Ok(Err(error)) => Err(error),
                    // Whoever would have answered is gone: the client is closed.
                    Err(_) => Err(Error::ShuttingDown {
                        outcome: Outcome::Unknown,
                    }),
                },
                Waiting::Input(_) if this.cancel_state.poll_cancelled(cx).is_ready() => {
                    Err(Error::CancelledByCaller)
                }
                Waiting::Input(input) => match ready!(input.as_mut().poll(cx)) {
                    Ok(given) => {
                        this.send(Some(given));
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Waiting::Over => return Poll::Pending,
            };
            this.state = Waiting::Over;
            let message = match ended {
                Ok(message) => message,
                Err(error) => return Poll::Ready(Err(error)),
            };
            let result = message.result().unwrap_or(b"null");
            if let Some(asked) = input_required(result) {
                this.spent += this.sent.elapsed();
                match this.ask_around(asked) {
                    Ok(()) => continue,
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            let read = serde_json::from_slice(result);
            return Poll::Ready(read.map_err(|error| unusable(reading::why::<R>(result, &error))));
        }
    }
}

impl<R> Drop for Running<R> {
    fn drop(&mut self) {
        if let Waiting::Answer(answer) = &mut self.state
            && let Err(oneshot::error::TryRecvError::Empty) = answer.try_recv()
        {
            let mailbox = &self.call.client.handle.shared.mailbox;
            self.cancel_state.cancel(mailbox, None);
        }
    }
}

/// Cancels a call from another place than the one that waits for it, which then gets
/// [`Error::CancelledByCaller`].
#[derive(Clone, Debug)]
pub struct Canceller {
    client: Client,
    cancel_state: Arc<CancelState>,
}

impl Canceller {
    /// Cancels the call, if it is not over. The server is told the reason.
    pub fn cancel(&self, reason: impl Into<String>) {
        let mailbox = &self.client.handle.shared.mailbox;
        self.cancel_state.cancel(mailbox, Some(reason.into()));
    }
}
