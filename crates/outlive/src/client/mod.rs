//! A client that survives its servers.
//!
//! # Theory
//!
//! A [`Client`] is a host inside this process: the same session that stands
//! between a host and a server in `outlive run` stands between its calls and the server here. One
//! background task owns the connection; handles only put commands into its mailbox and wait for what
//! comes of them. So a handle can be cloned, sent anywhere, used on any runtime, and dropped at any
//! moment, and there is one place where it is decided what a death means: the state machine of
//! [`outlive_core`].
//!
//! When the server dies, calls that cannot have run, or that may run twice, are sent to the next one;
//! the others end in [`Error::ConnectionLost`], at once, with the reason. Calls made meanwhile wait
//! for the next server. Tools, subscriptions and the log level carry over.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use outlive::{Client, Command, Error};
//!
//! let client = Client::builder()
//!     .command(Command::new("python", ["server.py"]))
//!     .connect()
//!     .await?;
//! let tools = client.tools().await?;
//! match client.call("ping", serde_json::json!({})).await {
//!     Ok(result) => println!("{}", result.text()),
//!     Err(Error::ConnectionLost { cause, .. }) => println!("the server {}", cause.predicate()),
//!     Err(error) => println!("{error}"),
//! }
//! // However often the server has died since: the same handles work.
//! println!("{}", tools[0].call(serde_json::json!({})).await?.text());
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Files
//!
//! | file | what happens there |
//! |---|---|
//! | `builder` | how a client comes to be |
//! | `call`, `cancel_state` | one call, and how it is cancelled |
//! | `tool` | tools as handles |
//! | `mailbox` | the commands of handles for the task that owns the connection |
//! | `downstream` | that task's side of the driver: calls go in, answers come out |
//! | `wire` | messages as they go out |
//! | `handler` | the server asks something: a model, a person, a list of folders |
//! | `watch`, `event`, `broadcast` | the state, what happens, and how listeners are told |

mod broadcast;
mod builder;
mod call;
mod cancel_state;
mod downstream;
mod event;
mod handler;
pub(crate) mod mailbox;
mod resume;
mod tool;
pub(crate) mod watch;
mod wire;

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use outlive_core::Message;
use outlive_core::error::{Bound, Error, Outcome};
use outlive_core::policy::Policy;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Handle as Runtime;
use tokio::sync::oneshot;

pub use broadcast::Listen;
pub use builder::Builder;
pub use call::{Call, Canceller, Running};
pub use event::{Event, Notification, State};
pub use handler::{Elicitation, Roots, Sampling};
pub use outlive_core::Generation;
pub use outlive_core::event::DropReason;
pub use outlive_core::protocol::Era;
pub use tool::Tool;

use call::Task;
use downstream::Pending;
use handler::Handlers;
use mailbox::{Command, Mailbox};
use watch::Watch;

use crate::model::{
    CallResult, CompleteParams, CompleteResult, Completion, CompletionRef, GetPromptResult,
    Implementation, Listed, LogLevel, Object, Page, Prompt, ReadResult, Resource, ResourceTemplate,
    ServerCapabilities, SubscriptionFilter,
};

/// How often a list is read again because its server was replaced meanwhile.
const ATTEMPTS: usize = 4;

/// How many pages of a list are followed.
const PAGES: usize = 10_000;

/// What is known of the server from the handshake.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Peer {
    era: Era,
    version: String,
    info: Option<Implementation>,
    capabilities: ServerCapabilities,
    instructions: Option<String>,
}

/// A supervised connection to an MCP server. See the [module](self) for how it works.
///
/// Cheap to clone. The connection ends when the last clone is dropped, or with [`close`](Client::close).
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
}

/// What all clones share; the connection is ended when it is dropped.
struct Handle {
    shared: Arc<Shared>,
    handlers: Handlers,
    /// Where handlers run.
    runtime: Runtime,
    /// What a client that was resumed has been told before anybody could listen, for the first who does.
    events: Mutex<Option<Listen<Event>>>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("state", &self.shared.watch.state())
            .finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Closed already: then nothing is left to be done.
        let _ = self.shared.mailbox.push(Command::Stop);
    }
}

/// What handles and the task that owns the connection share.
#[derive(Debug)]
struct Shared {
    mailbox: Mailbox,
    watch: Watch,
    next_id: AtomicU64,
    message_limit: usize,
    /// How long a server may take to say that a stream of notifications stands.
    handshake: Duration,
    /// How long a person may take to answer before the clock of a call runs on.
    elicitation: Duration,
    /// The bounds of a call that has none of its own: of its silence, and of all.
    bounds: (Option<Duration>, Option<Duration>),
    /// What every request has in its `_meta` in the modern era; empty in the legacy one.
    modern: OnceLock<String>,
    era: Mutex<EraInUse>,
    peer: OnceLock<Peer>,
    /// Streams of notifications that are open, by what they are for (modern era).
    listens: Mutex<HashMap<Option<String>, u64>>,
}

/// How requests are written now.
#[derive(Debug, Default)]
struct EraInUse {
    modern: bool,
    log_level: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is locked here is ever left half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn new(policy: &Policy) -> Shared {
        Shared {
            mailbox: Mailbox::new(&policy.limits),
            watch: Watch::new(),
            next_id: AtomicU64::new(1),
            message_limit: policy.limits.message,
            handshake: policy.handshake,
            elicitation: policy.elicitation,
            bounds: (policy.request_timeout, policy.request_ceiling),
            modern: OnceLock::new(),
            era: Mutex::default(),
            peer: OnceLock::new(),
            listens: Mutex::default(),
        }
    }

    fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn speak_modern(&self, meta: String) {
        self.modern.get_or_init(|| meta);
        lock(&self.era).modern = true;
    }

    fn speak_legacy(&self) {
        lock(&self.era).modern = false;
    }

    /// What goes into the `_meta` of a request that is sent now.
    fn request_meta(&self) -> (&str, Option<String>) {
        let in_use = lock(&self.era);
        match (in_use.modern, self.modern.get()) {
            (true, Some(modern)) => (modern, in_use.log_level.clone()),
            _ => ("", None),
        }
    }
}

fn unsendable(what: String) -> Error {
    Error::Protocol {
        what,
        unreadable: false,
        outcome: Outcome::NotSent,
    }
}

/// Whether the server agreed to tell of this resource: it leaves out what it does not support
/// (2026-07-28, subscriptions).
fn agreed(said: &[u8], uri: &str) -> Result<(), Error> {
    let said: Value = serde_json::from_slice(said).unwrap_or_default();
    let uris = said["notifications"]["resourceSubscriptions"].as_array();
    match uris.is_some_and(|uris| uris.iter().any(|one| one == uri)) {
        true => Ok(()),
        false => Err(Error::Protocol {
            what: format!("it does not tell of changes of {uri}"),
            unreadable: false,
            outcome: Outcome::Done,
        }),
    }
}

/// A stream of notifications that is being opened: stands once the server says so.
struct Opening {
    stands: oneshot::Receiver<Bytes>,
    /// Answered when the server refuses or ends it.
    ended: oneshot::Receiver<Result<Message, Error>>,
}

impl Future for Opening {
    /// What the server says when it stands.
    type Output = Result<Bytes, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(Ok(said)) = Pin::new(&mut self.stands).poll(cx) {
            return Poll::Ready(Ok(said));
        }
        Pin::new(&mut self.ended).poll(cx).map(|ended| match ended {
            Ok(Ok(_)) => Err(Error::CancelledByPeer { reason: None }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::ShuttingDown {
                outcome: Outcome::Unknown,
            }),
        })
    }
}

impl Client {
    /// A client to be.
    pub fn builder() -> Builder {
        Builder::new()
    }

    fn greeted(&self, peer: Peer) {
        // Once per client: a server that comes back otherwise is told of by events.
        let _ = self.handle.shared.peer.set(peer);
    }

    fn peer(&self) -> Option<&Peer> {
        self.handle.shared.peer.get()
    }

    // What it is connected to.

    /// What the server said it is when the client connected.
    pub fn server_info(&self) -> Option<&Implementation> {
        self.peer()?.info.as_ref()
    }

    /// What the server said it can do.
    pub fn capabilities(&self) -> Option<&ServerCapabilities> {
        self.peer().map(|peer| &peer.capabilities)
    }

    /// How the server wants to be used, for the model.
    pub fn instructions(&self) -> Option<&str> {
        self.peer()?.instructions.as_deref()
    }

    /// The version of the protocol that is spoken.
    pub fn protocol_version(&self) -> Option<&str> {
        self.peer().map(|peer| &*peer.version)
    }

    fn is_modern(&self) -> bool {
        self.peer().is_some_and(|peer| peer.era == Era::Modern)
    }

    // How it stands.

    /// Where it stands now.
    pub fn state(&self) -> State {
        self.handle.shared.watch.state()
    }

    /// Where it stands, now and whenever that changes.
    pub fn watch(&self) -> Listen<State> {
        self.handle.shared.watch.watch()
    }

    /// What happens from now on.
    pub fn events(&self) -> Listen<Event> {
        let first = lock(&self.handle.events).take();
        first.unwrap_or_else(|| self.handle.shared.watch.events())
    }

    /// Waits until calls go through. Fails if that will not be for a while, or never.
    pub async fn ready(&self) -> Result<(), Error> {
        self.handle.shared.watch.ready().await
    }

    /// Puts a new server under the client; calls in flight may finish first.
    pub fn reconnect(&self) {
        let _ = self.handle.shared.mailbox.push(Command::Restart);
    }

    /// Ends the connection: calls that are running may finish within a short time, then everything is
    /// settled and the server is stopped. It takes no longer than the policy allows, and leaves nothing
    /// behind. It can be called from anywhere, also twice.
    pub async fn close(&self) {
        let _ = self.handle.shared.mailbox.push(Command::Stop);
        self.handle.shared.watch.closed().await;
    }

    // Anything.

    /// A request with any method and parameters. With `Box<RawValue>` as its result nothing is parsed.
    pub fn request<R: DeserializeOwned>(
        &self,
        method: impl Into<String>,
        params: impl Serialize,
    ) -> Call<R> {
        Call::new(self.clone(), method, params)
    }

    /// A notification with any method and parameters.
    pub fn notify(&self, method: &str, params: impl Serialize) -> Result<(), Error> {
        let params = wire::params(params).map_err(unsendable)?;
        self.send(wire::notification(method, &params))
    }

    fn send(&self, frame: Bytes) -> Result<(), Error> {
        self.handle.shared.mailbox.push(Command::Notify(frame))
    }

    /// Asks the server for a sign of life.
    pub async fn ping(&self) -> Result<(), Error> {
        // The modern era has no `ping`; this every server has to answer.
        let method = match self.is_modern() {
            true => "server/discover",
            false => "ping",
        };
        self.request::<Object>(method, Value::Null).await?;
        Ok(())
    }

    /// All pages of a list, of one server: if it was replaced meanwhile, they are read again.
    async fn list<T: Listed + DeserializeOwned>(&self, method: &str) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        for _ in 0..ATTEMPTS {
            let before = self.state();
            items = self.list_once(method).await?;
            if before.is_ready() && before == self.state() {
                break;
            }
        }
        Ok(items)
    }

    async fn list_once<T: Listed + DeserializeOwned>(&self, method: &str) -> Result<Vec<T>, Error> {
        let mut items = Vec::new();
        let mut params = None;
        let mut seen = HashSet::new();
        for _ in 0..PAGES {
            let page: Page<T> = self.request(method, params).await?;
            items.extend(page.items);
            // A server that gives a cursor again would go on for ever.
            let Some(cursor) = page.next_cursor.filter(|cursor| !seen.contains(cursor)) else {
                break;
            };
            params = Some(json!({ "cursor": cursor }));
            seen.insert(cursor);
        }
        Ok(items)
    }

    // Tools.

    /// All tools of the server.
    pub async fn tools(&self) -> Result<Vec<Tool>, Error> {
        let tools = self.list("tools/list").await?;
        let handle = |tool| Tool::new(self.clone(), tool);
        Ok(tools.into_iter().map(handle).collect())
    }

    /// Calls a tool.
    pub fn call(&self, tool: &str, arguments: impl Serialize) -> Call<CallResult> {
        #[derive(Serialize)]
        struct Params<'a, A> {
            name: &'a str,
            arguments: A,
        }
        let params = Params {
            name: tool,
            arguments,
        };
        self.request("tools/call", params)
    }

    // Resources.

    /// All resources of the server.
    pub async fn resources(&self) -> Result<Vec<Resource>, Error> {
        self.list("resources/list").await
    }

    /// All templates of resources of the server.
    pub async fn resource_templates(&self) -> Result<Vec<ResourceTemplate>, Error> {
        self.list("resources/templates/list").await
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: &str) -> Call<ReadResult> {
        self.request("resources/read", json!({ "uri": uri }))
    }

    /// Tells of changes of a resource with [`Event::ResourceUpdated`], also after the server was
    /// replaced.
    pub async fn subscribe(&self, uri: &str) -> Result<(), Error> {
        if self.is_modern() {
            let notifications = SubscriptionFilter {
                resource_subscriptions: Some(vec![uri.to_string()]),
                ..SubscriptionFilter::default()
            };
            let what = Some(uri.to_string());
            let opening = self.keep_listening(what.clone(), notifications)?;
            let opened = self.within(self.handle.shared.handshake, opening).await;
            let opened = opened.and_then(|said| agreed(&said, uri));
            if opened.is_err()
                && let Some(id) = lock(&self.handle.shared.listens).remove(&what)
            {
                let _ = self
                    .handle
                    .shared
                    .mailbox
                    .push(Command::Cancel { id, reason: None });
            }
            return opened;
        }
        self.request::<Object>("resources/subscribe", json!({ "uri": uri }))
            .await?;
        Ok(())
    }

    /// Waits for something of ours, but no longer than this.
    async fn within<T: Send + 'static>(
        &self,
        after: Duration,
        what: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let bound = Bound::Total;
        let ended = self.until(after, what).await;
        ended.unwrap_or(Err(Error::Timeout { after, bound }))
    }

    /// The same; `None` if it took longer.
    async fn until<T: Send + 'static>(
        &self,
        after: Duration,
        what: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Option<Result<T, Error>> {
        // On the connection's runtime: whoever waits may have no clock.
        let waiting = async move { tokio::time::timeout(after, what).await.ok() };
        let mut task = Task(self.handle.runtime.spawn(waiting));
        let ended = (&mut task.0).await;
        ended.unwrap_or(Some(Err(Error::ShuttingDown {
            outcome: Outcome::Unknown,
        })))
    }

    /// Tells no longer of changes of a resource.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), Error> {
        if self.is_modern() {
            let listen = lock(&self.handle.shared.listens).remove(&Some(uri.to_string()));
            return match listen {
                Some(id) => self
                    .handle
                    .shared
                    .mailbox
                    .push(Command::Cancel { id, reason: None }),
                None => Ok(()),
            };
        }
        self.request::<Object>("resources/unsubscribe", json!({ "uri": uri }))
            .await?;
        Ok(())
    }

    /// Opens a stream of notifications (2026-07-28) that the session keeps open across servers, in
    /// place of the one there is for the same.
    fn keep_listening(
        &self,
        what: Option<String>,
        notifications: SubscriptionFilter,
    ) -> Result<Opening, Error> {
        let shared = &self.handle.shared;
        let params = wire::params(json!({ "notifications": notifications })).map_err(unsendable)?;
        let id = shared.next_id();
        let (modern, _) = shared.request_meta();
        let meta = wire::Meta {
            modern,
            ..wire::Meta::default()
        };
        let frame = wire::request(id, "subscriptions/listen", &params, &meta);
        let (reply, ended) = oneshot::channel();
        let (standing, stands) = oneshot::channel();
        shared.mailbox.push(Command::Call {
            id,
            frame,
            terms: Default::default(),
            pending: Pending::of_stream(reply, standing),
        })?;
        if let Some(before) = lock(&shared.listens).insert(what, id) {
            let _ = shared.mailbox.push(Command::Cancel {
                id: before,
                reason: None,
            });
        }
        Ok(Opening { stands, ended })
    }

    // Prompts.

    /// All prompts of the server.
    pub async fn prompts(&self) -> Result<Vec<Prompt>, Error> {
        self.list("prompts/list").await
    }

    /// A prompt, filled in.
    pub fn prompt(&self, name: &str, arguments: impl Serialize) -> Call<GetPromptResult> {
        #[derive(Serialize)]
        struct Params<'a, A> {
            name: &'a str,
            arguments: A,
        }
        self.request("prompts/get", Params { name, arguments })
    }

    /// What the argument of a prompt or a template could become.
    pub async fn complete(
        &self,
        what: CompletionRef,
        argument: &str,
        value: &str,
    ) -> Result<Completion, Error> {
        let params = CompleteParams::new(what, argument, value);
        let result: CompleteResult = self.request("completion/complete", params).await?;
        Ok(result.completion)
    }

    /// From which level on the server's log is told as [`Event::Log`].
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), Error> {
        if self.is_modern() {
            let level = serde_json::to_value(&level).unwrap_or_default();
            lock(&self.handle.shared.era).log_level = level.as_str().map(str::to_string);
            return Ok(());
        }
        self.request::<Object>("logging/setLevel", json!({ "level": level }))
            .await?;
        Ok(())
    }
}
