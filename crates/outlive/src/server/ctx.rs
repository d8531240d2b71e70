//! What a handler knows and may do besides its arguments.

use std::any::type_name;
use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use outlive_core::error::Outcome;
#[cfg(feature = "http-server")]
use outlive_core::principal::Principal;
use outlive_core::protocol::Era;
use outlive_core::server::{AskId, CancelReason, Input, Level, Peer};
use outlive_core::{Error, Id};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::oneshot;

use super::ask::AskError;
use super::call::Call;
use super::connection::{Asked, Connection, Question};
use super::handle::ServerHandle;
use super::schema;
use crate::model::{
    ElicitAction, ElicitRequest, ElicitResult, Implementation, LogLevel, Object, Root, RootsResult,
    SamplingRequest, SamplingResult,
};
use crate::model::{finite, reading};

const ELICIT: &str = "elicitation/create";

/// What a person did with a form. See [`Ctx::elicit_as`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elicited<T> {
    /// They filled it in.
    Accepted(T),
    /// They said no.
    Declined,
    /// They looked away, or their client did something this crate does not know.
    Cancelled,
}

impl<T> Elicited<T> {
    /// What was filled in, if it was.
    pub fn accepted(self) -> Option<T> {
        match self {
            Elicited::Accepted(form) => Some(form),
            Elicited::Declined | Elicited::Cancelled => None,
        }
    }
}

/// The request a handler works on: who asked, whether they still wait, and what they can be told
/// and asked meanwhile. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Ctx {
    call: Arc<Call>,
}

impl Ctx {
    pub(crate) fn new(call: Arc<Call>) -> Ctx {
        Ctx { call }
    }

    /// Waits until nobody waits for this request any more, and says why.
    ///
    /// A handler that ignores it is dropped after a grace ([`Builder::grace`]); whatever it
    /// answers is discarded.
    ///
    /// [`Builder::grace`]: super::Builder::grace
    pub async fn cancelled(&self) -> CancelReason {
        self.call.cancelled().await.clone()
    }

    /// Whether nobody waits for this request any more.
    pub fn is_cancelled(&self) -> bool {
        self.call.reason().is_some()
    }

    /// Why nobody waits for this request any more; `None` while somebody does.
    pub fn reason(&self) -> Option<CancelReason> {
        self.call.reason().cloned()
    }

    /// Tells the client how far the work has got, if it wants to know. Told only if it is more
    /// than before. A client that does not read may miss it.
    pub fn progress(&self, progress: f64, total: Option<f64>) {
        self.tell_progress(progress, total, None);
    }

    /// Tells the client how far the work has got, and in words what is being done.
    pub fn progress_message(&self, progress: f64, total: Option<f64>, message: impl Into<String>) {
        self.tell_progress(progress, total, Some(message.into()));
    }

    fn tell_progress(&self, progress: f64, total: Option<f64>, message: Option<String>) {
        self.call.connection.mention(Input::Progress {
            ticket: self.call.ticket,
            progress,
            total,
            message,
        });
    }

    /// Sends the client a log message, if it wants messages of this level. A client that does not
    /// read may miss it.
    pub fn log(&self, level: LogLevel, data: impl Serialize) {
        self.write_log(level, None, data);
    }

    /// Sends the client a log message under the name of a part of the server.
    pub fn log_as(
        &self,
        logger: impl Into<Cow<'static, str>>,
        level: LogLevel,
        data: impl Serialize,
    ) {
        self.write_log(level, Some(logger.into()), data);
    }

    fn write_log(&self, level: LogLevel, logger: Option<Cow<'static, str>>, data: impl Serialize) {
        self.call.connection.mention(Input::Log {
            within: Some(self.call.ticket),
            level: core_level(&level),
            logger,
            data: json_or_null(&data),
        });
    }

    /// Sends the client a notification that belongs to this request.
    ///
    /// A client that does not read may miss it: while more than 4 MiB wait for the client, it is
    /// left out. What must arrive belongs into the result.
    pub fn notify(&self, method: impl Into<Cow<'static, str>>, params: impl Serialize) {
        self.call.connection.mention(Input::Notify {
            within: Some(self.call.ticket),
            method: method.into(),
            params: json_or_null(&params),
        });
    }

    /// Ends the connection over which the client waits for this request, but not the request: the
    /// client comes back for what is still to come. For work that takes longer than anybody on the
    /// way keeps a connection.
    ///
    /// That is possible over HTTP with a client of 2025-11-25; with any other nothing happens.
    pub fn hang_up(&self) {
        if self.era() == Era::Legacy && *self.peer().version == *"2025-11-25" {
            let channel = self.call.request.channel;
            self.call.connection.lock().sink.hang_up(channel);
        }
    }

    /// What all handlers share, as it was given to [`Builder::state`](super::Builder::state).
    ///
    /// # Panics
    ///
    /// If nothing of this type was given. The client is told of the panic, and the server lives; see
    /// [`try_state`](Ctx::try_state).
    pub fn state<T: Send + Sync + 'static>(&self) -> &T {
        self.try_state().unwrap_or_else(|| {
            let name = type_name::<T>();
            panic!("there is no state of the type {name}: give it to `Server::builder(…).state(…)`")
        })
    }

    /// What all handlers share, if something of this type was given to [`Builder::state`](super::Builder::state).
    pub fn try_state<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.call.connection.registry.states.get()
    }

    /// Lets the client ask its model.
    pub async fn sample(&self, request: &SamplingRequest) -> Result<SamplingResult, AskError> {
        self.request("sampling/createMessage", request).await
    }

    /// Lets the client ask the person.
    pub async fn elicit(&self, request: &ElicitRequest) -> Result<ElicitResult, AskError> {
        self.request(ELICIT, request).await
    }

    /// Lets the client ask the person to fill in a form, whose fields are those of `T`: text, numbers, truth values,
    /// and enums without data. The protocol allows no fields within fields.
    ///
    /// ```
    /// use outlive::Server;
    /// use outlive::server::{Ctx, Elicited, ToolError};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Address {
    ///     /// Where the parcel goes.
    ///     street: String,
    ///     zip: Option<String>,
    /// }
    ///
    /// let server = Server::builder("parcels", "1.0.0")
    ///     .tool("send", "Sends a parcel.", |ctx: Ctx, (): ()| async move {
    ///         match ctx.elicit_as::<Address>("Where does it go?").await? {
    ///             Elicited::Accepted(address) => Ok(format!("On its way to {}.", address.street)),
    ///             _ => Err(ToolError::new("Nobody said where to.")),
    ///         }
    ///     })
    ///     .build();
    /// # let _ = server;
    /// ```
    pub async fn elicit_as<T: DeserializeOwned + JsonSchema>(
        &self,
        message: impl Into<String>,
    ) -> Result<Elicited<T>, AskError> {
        let form = ElicitRequest::form(message, schema::of_form::<T>());
        let answer = self.elicit(&form).await?;
        match answer.action {
            ElicitAction::Accept => {
                let content = Value::Object(answer.content.unwrap_or_default());
                let read = serde_json::from_value(content.clone());
                let read = read.map_err(|error| {
                    let why = reading::of_value::<T>(content);
                    AskError::unusable(ELICIT, why.unwrap_or_else(|| error.to_string()))
                })?;
                Ok(Elicited::Accepted(read))
            }
            ElicitAction::Decline => Ok(Elicited::Declined),
            _ => Ok(Elicited::Cancelled),
        }
    }

    /// Asks the client for the places it lets us work in.
    pub async fn roots(&self) -> Result<Vec<Root>, AskError> {
        let result: RootsResult = self.request("roots/list", Object::new()).await?;
        Ok(result.roots)
    }

    /// Sends the client a request and waits for its answer.
    ///
    /// A client that has not declared the capability is not asked; if it leaves, this ends with an
    /// error. A client of 2026-07-28 is asked by way of the answer to its own request
    /// (`input_required`), which changes nothing here: the handler waits, and goes on when the
    /// client has come back. Dropping the future takes the request back.
    pub async fn request<T: DeserializeOwned>(
        &self,
        method: impl Into<Cow<'static, str>>,
        params: impl Serialize,
    ) -> Result<T, AskError> {
        let method = method.into();
        let json = self.ask_one(None, method.clone(), &params).await?;
        serde_json::from_slice(&json)
            .map_err(|error| AskError::unusable(&method, reading::why::<T>(&json, &error)))
    }

    /// Sends the client a request and waits for its result as JSON.
    pub async fn request_json(
        &self,
        method: impl Into<Cow<'static, str>>,
        params: impl Serialize,
    ) -> Result<Bytes, AskError> {
        self.ask_one(None, method.into(), &params).await
    }

    /// As [`request_json`](Ctx::request_json), under a name: a client of 2026-07-28 sees what it is
    /// asked under this key of `inputRequests`, and any other not at all.
    pub async fn request_named(
        &self,
        key: impl Into<Cow<'static, str>>,
        method: impl Into<Cow<'static, str>>,
        params: impl Serialize,
    ) -> Result<Bytes, AskError> {
        self.ask_one(Some(key.into()), method.into(), &params).await
    }

    async fn ask_one(
        &self,
        key: Option<Cow<'static, str>>,
        method: Cow<'static, str>,
        params: &impl Serialize,
    ) -> Result<Bytes, AskError> {
        let failed = |error| AskError::new(&method, error);
        let mut answers = self.ask([Question {
            key,
            method: method.clone(),
            params: json(params).map_err(failed)?,
        }]);
        let answer = match answers.pop() {
            Some(answer) => answer.wait().await,
            None => Err(gone()),
        };
        answer.map_err(failed)
    }

    /// Sends the client several requests at once and waits for all results.
    ///
    /// A client of 2026-07-28 gets them in one round trip, where one after the other would take
    /// one each.
    pub async fn request_all<M, P>(
        &self,
        requests: impl IntoIterator<Item = (M, P)>,
    ) -> Vec<Result<Bytes, AskError>>
    where
        M: Into<Cow<'static, str>>,
        P: Serialize,
    {
        let mut methods = Vec::new();
        let mut questions = Vec::new();
        for (method, params) in requests {
            let method = method.into();
            methods.push(method.clone());
            questions.push(Question {
                key: None,
                method,
                params: json_or_null(&params),
            });
        }
        let mut results = Vec::new();
        for (answer, method) in self.ask(questions).into_iter().zip(methods) {
            let answer = answer.wait().await;
            results.push(answer.map_err(|error| AskError::new(&method, error)));
        }
        results
    }

    fn ask(&self, questions: impl IntoIterator<Item = Question>) -> Vec<Answering> {
        let connection = &self.call.connection;
        let asked = connection.ask(Some(self.call.ticket), questions);
        asked
            .into_iter()
            .map(|(id, receiver)| Answering {
                connection: connection.clone(),
                id,
                receiver: Some(receiver),
            })
            .collect()
    }

    /// The name and version the client gave, if it did.
    pub fn client(&self) -> Option<Implementation> {
        serde_json::from_slice(self.peer().info.as_ref()?).ok()
    }

    /// Who the client is and what it is able to do, as it said.
    pub fn peer(&self) -> &Peer {
        &self.call.request.peer
    }

    /// Whether the request came with all it needs (2026-07-28) or within a session (before).
    pub fn era(&self) -> Era {
        self.call.request.era
    }

    /// The headers of the HTTP request that brought this request; `None` over a stream.
    ///
    /// All of them are here, the client's token among them (`{:?}` does not show it). Only what [`Http`](super::Http)
    /// checks has been checked.
    ///
    /// ```
    /// use outlive::Server;
    /// use outlive::server::Ctx;
    ///
    /// let server = Server::builder("traced", "1.0.0")
    ///     .tool("trace", "The trace this call belongs to.", |ctx: Ctx, (): ()| async move {
    ///         let header = ctx.headers().and_then(|headers| headers.get("traceparent"));
    ///         header.and_then(|it| it.to_str().ok()).unwrap_or("none").to_owned()
    ///     })
    ///     .build();
    /// # let _ = server;
    /// ```
    #[cfg(feature = "http-server")]
    pub fn headers(&self) -> Option<&hyper::HeaderMap> {
        let arrival = self.call.arrival.as_deref();
        arrival.map(|arrival| &arrival.parts.headers)
    }

    /// What a layer in front of the server has attached to the HTTP request that brought this request, such as the user
    /// that it found out. See [`Http::service`](super::Http::service).
    ///
    /// ```
    /// use outlive::Server;
    /// use outlive::server::{Ctx, ToolError};
    ///
    /// #[derive(Clone)]
    /// struct User(String);
    ///
    /// let server = Server::builder("known", "1.0.0")
    ///     .tool("whoami", "Says who calls.", |ctx: Ctx, (): ()| async move {
    ///         let user = ctx.extension::<User>().ok_or_else(|| ToolError::new("Log in first."))?;
    ///         Ok::<_, ToolError>(user.0.clone())
    ///     })
    ///     .build();
    /// # let _ = server;
    /// ```
    #[cfg(feature = "http-server")]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.call.arrival.as_deref()?.parts.extensions.get()
    }

    /// Who sent the HTTP request that brought this request, as far as credentials tell; `None` over a stream. Requests
    /// with the same token have the same principal, so what a server keeps for its callers can go by it.
    #[cfg(feature = "http-server")]
    pub fn principal(&self) -> Option<Principal> {
        let arrival = self.call.arrival.as_deref();
        arrival.map(|arrival| arrival.principal)
    }

    /// The method of the request.
    pub fn method(&self) -> &str {
        self.call.request.message.method()
    }

    /// The id the client gave the request.
    pub fn request_id(&self) -> Id {
        let id = self.call.request.message.id();
        id.cloned().unwrap_or(Id::Null)
    }

    /// The parameters of the request, as the client wrote them.
    pub fn params(&self) -> &[u8] {
        self.call.params()
    }

    /// The metadata of the request (`_meta`).
    pub fn meta(&self) -> Object {
        let meta = self.call.request.message.meta();
        meta.and_then(|json| serde_json::from_slice(json).ok())
            .unwrap_or_default()
    }

    /// The server, to change what it offers or to end it.
    pub fn server(&self) -> ServerHandle {
        ServerHandle::of(&self.call.connection.registry)
    }
}

/// A question the client has not answered; dropping it takes it back.
struct Answering {
    connection: Arc<Connection>,
    id: AskId,
    receiver: Option<oneshot::Receiver<Asked>>,
}

impl Answering {
    async fn wait(mut self) -> Asked {
        let Some(receiver) = &mut self.receiver else {
            return Err(gone());
        };
        let answer = receiver.await;
        self.receiver = None;
        answer.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if self.receiver.is_some() {
            self.connection.unask(self.id);
        }
    }
}

fn gone() -> Error {
    Error::ShuttingDown {
        outcome: Outcome::Unknown,
    }
}

fn json(value: &impl Serialize) -> Result<Bytes, Error> {
    let mut json = Vec::new();
    finite::write(&mut json, value).map_err(|error| Error::Protocol {
        what: format!("the parameters cannot be written as JSON: {error}"),
        unreadable: false,
        outcome: Outcome::NotSent,
    })?;
    Ok(json.into())
}

fn json_or_null(value: &impl Serialize) -> Bytes {
    json(value).unwrap_or(Bytes::from_static(b"null"))
}

pub(crate) fn core_level(level: &LogLevel) -> Level {
    match level {
        LogLevel::Debug => Level::Debug,
        LogLevel::Info => Level::Info,
        LogLevel::Notice => Level::Notice,
        LogLevel::Warning => Level::Warning,
        LogLevel::Error => Level::Error,
        LogLevel::Critical => Level::Critical,
        LogLevel::Alert => Level::Alert,
        LogLevel::Emergency => Level::Emergency,
        // Never hidden by a filter, like the model's order has it.
        _ => Level::Emergency,
    }
}
