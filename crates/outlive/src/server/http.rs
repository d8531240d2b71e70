//! A server over HTTP.
//!
//! The machines are those of every other connection: one for each legacy session, and one that
//! answers all modern requests. They share the threads that run handlers. Connections are read by
//! threads of their own, which run nothing of the user's.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake};
use std::time::Duration;

use outlive_core::replay_buffer::Delivery;
use outlive_core::server::{Channel, CloseKind, Input, StateKeys};
use outlive_core::{Frame, Message, Time};
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::executor::{Executor, Reader as ThreadReader, TICK};
use super::registry::Registry;
use super::wire::Sink;
use super::{Inside, Server, key, policy};
#[cfg(feature = "gateway")]
use crate::gateway::Gateway;
use crate::http_server::{
    AccessRules, Arrival, Backend, Durability, Files, HandOver, HttpListener, Kind, ListenerLimits,
    Mirrored, ReplayBuffer, ReplicaSecret, ReplicaSettings, Replicas, Route, Tell, Tokens,
    mirrored,
};
use crate::store::Store;

/// What is added to the grace of handlers before the end does without a session.
const LEEWAY: Duration = Duration::from_millis(500);

impl Server {
    /// Serves clients over HTTP at this address, under `/mcp`, until the server is
    /// [shut down](super::ServerHandle::shutdown): Streamable HTTP of every revision, 2026-07-28 and
    /// those before it, and for clients of 2024-11-05 HTTP+SSE, under `/sse` and `/messages`.
    /// [`Server::http`] has the settings.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// outlive::Server::builder("demo", "1.0.0")
    ///     .tool("ping", "Returns pong.", |_, (): ()| async { "pong" })
    ///     .build()
    ///     .serve_http("127.0.0.1:8000")
    ///     .await
    /// # }
    /// ```
    pub async fn serve_http(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        self.http().bind(address).await?.serve().await
    }

    /// Settings for serving over HTTP.
    pub fn http(&self) -> Http {
        Http::of(Served::Server(self.clone()))
    }
}

/// What is served.
#[derive(Clone)]
enum Served {
    Server(Server),
    #[cfg(feature = "gateway")]
    Gateway(Gateway),
}

/// How a server is served over HTTP. See [`Server::http`], and `Gateway::http` for servers that are not made with
/// this crate.
///
/// Without settings it is for clients on this machine: [`bind`](Http::bind) refuses an address that
/// others can reach, and requests that a web page from elsewhere has caused are refused.
#[derive(Clone)]
pub struct Http {
    served: Served,
    pub(super) access: AccessRules,
    pub(super) limits: ListenerLimits,
    path: String,
    pub(super) tell: Tell,
    store: Option<Arc<dyn Store>>,
    pub(super) replicas: ReplicaSettings,
}

impl Http {
    fn of(served: Served) -> Http {
        Http {
            served,
            access: AccessRules::default(),
            limits: ListenerLimits::default(),
            path: "/mcp".into(),
            tell: Arc::new(|note| tracing::info!("{note}")),
            store: None,
            replicas: ReplicaSettings::default(),
        }
    }

    #[cfg(feature = "gateway")]
    pub(crate) fn of_gateway(gateway: Gateway) -> Http {
        Http::of(Served::Gateway(gateway))
    }

    /// The token every client has to show (`Authorization: Bearer …`).
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Http {
        self.access.tokens = Some(Tokens::word(token.into()));
        self
    }

    /// Another name clients may call us by (`Host`), besides `localhost` and plain addresses.
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Http {
        self.access.hosts.push(host.into());
        self
    }

    /// Another origin of web pages that may call us, such as `https://app.example.com`.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Http {
        self.access.origins.push(origin.into());
        self
    }

    /// Serves an address that others can reach although there is no token: somebody else keeps
    /// strangers out.
    #[must_use]
    pub fn allow_anyone(mut self) -> Http {
        self.access.anyone = true;
        self
    }

    /// The path of the endpoint (`/mcp`).
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Http {
        self.path = path.into();
        self
    }

    /// How long a legacy session lasts that nobody uses (30 minutes). Work in flight and open
    /// streams are a use.
    #[must_use]
    pub fn session_ttl(mut self, ttl: Duration) -> Http {
        self.limits.session_ttl = ttl;
        self
    }

    /// Keeps the sessions of legacy clients in this store, too, so that they outlive this process (only in memory).
    /// Those of HTTP+SSE end with it.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Http {
        self.store = Some(store);
        self
    }

    /// Legacy sessions at once (4096).
    #[must_use]
    pub fn max_sessions(mut self, most: usize) -> Http {
        self.limits.sessions = most.max(1);
        self
    }

    /// Connections at once (16384). More wait to be accepted.
    #[must_use]
    pub fn max_connections(mut self, most: usize) -> Http {
        self.limits.connections = most.clamp(1, 1 << 20);
        self
    }

    /// How often something is sent on a stream that is silent (15 s), so that nobody on the way
    /// takes it for dead.
    #[must_use]
    pub fn keep_alive(mut self, interval: Duration) -> Http {
        self.limits.keep_alive = interval;
        self
    }

    /// The time a client has to send the head of a request, then its body, and after the handshake its next
    /// request (60 s each).
    #[must_use]
    pub fn read_timeout(mut self, timeout: Duration) -> Http {
        (self.limits.head_time, self.limits.body_time) = (timeout, timeout);
        self
    }

    /// Reads its token file and its certificate, and says what is wrong with them. [`bind`](Http::bind) does so too,
    /// but there the fault may as well be the address's.
    pub fn check_files(&self) -> Result<(), FilesError> {
        Files::of(&self.access).read().map_err(FilesError)
    }

    /// Reads its files and looks at the settings of what is served.
    pub(super) fn check(&self) -> io::Result<()> {
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        self.check_files().map_err(wrong)?;
        let has_leases = self.store.as_ref().is_some_and(|it| it.lease().is_some());
        let sensible = self.replicas.check(has_leases);
        sensible.map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let has_view = |name: &str| match (&self.served, name) {
            (Served::Server(_), _) => false,
            #[cfg(feature = "gateway")]
            (Served::Gateway(gateway), name) => gateway.has_view(name),
        };
        let views = self.access.token_views();
        if let Some(view) = views.iter().find(|view| !has_view(view)) {
            let sentence = format!("a token is good for the view {view:?}, which there is not");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        // The same holds for a file that changes later.
        if let Some(tokens) = &self.access.tokens {
            match &self.served {
                Served::Server(_) => tokens.check_views(|_| false),
                #[cfg(feature = "gateway")]
                Served::Gateway(gateway) => {
                    let gateway = gateway.clone();
                    tokens.check_views(move |name| gateway.has_view(name));
                }
            }
        }
        match &self.served {
            Served::Server(_) => Ok(()),
            #[cfg(feature = "gateway")]
            Served::Gateway(gateway) => gateway.check(),
        }
    }

    /// Listens at this address. Clients can connect from now on, and are answered once it is
    /// [served](HttpServer::serve). A token file or certificate that cannot be used is an error, and so is a gateway
    /// with an address that is none or a policy that makes no sense.
    pub async fn bind(self, address: impl ToSocketAddrs) -> io::Result<HttpServer> {
        self.check()?;
        let listener = TcpListener::bind(address).await?;
        let local = listener.local_addr()?;
        if let Err(sentence) = self.access.allows(local) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, sentence));
        }
        let drain = match &self.served {
            Served::Server(_) => Duration::ZERO,
            #[cfg(feature = "gateway")]
            Served::Gateway(gateway) => gateway.drain(),
        };
        let hand_over = Arc::new(HandOver::new(drain));
        Ok(HttpServer {
            hand_over,
            listener: listener.into_std()?,
            local,
            settings: self,
        })
    }
}

/// Why a token file or a certificate cannot be used. See [`Http::check_files`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilesError(Vec<String>);

impl fmt::Display for FilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for FilesError {}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("path", &self.path)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct HttpServer {
    listener: StdListener,
    local: SocketAddr,
    pub(super) settings: Http,
    hand_over: Arc<HandOver>,
}

impl HttpServer {
    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Has its sessions handed over to others, if they are kept where others find them; then it ends.
    #[cfg(feature = "gateway")]
    pub(crate) fn hand_over(&self) -> Option<Arc<HandOver>> {
        self.settings.store.as_ref()?;
        Some(self.hand_over.clone())
    }

    /// Serves whoever comes, until the server is [shut down](super::ServerHandle::shutdown), or the gateway is.
    /// Dropping the future shuts it down.
    ///
    /// Connections are read on the runtime this is called in; handlers run on threads of their own.
    pub async fn serve(self) -> io::Result<()> {
        let Running {
            http_listener,
            grace,
            inside,
            ..
        } = self.settings.run(&Handle::current(), false)?;
        let listener = TcpListener::from_std(self.listener)?;
        let serving = Serving(http_listener.clone());
        // A task of its own: if nobody waits for it any more, it still ends in order.
        let served = tokio::spawn(served(http_listener, listener, grace, self.hand_over));
        let ended = served.await;
        drop(serving);
        drop(inside);
        ended.map_err(io::Error::other)
    }
}

/// What serves connections, boxed once: so it is compiled with this crate, as it wants to be, and not anew with each
/// program.
#[inline(never)]
fn served(
    http_listener: Arc<HttpListener>,
    listener: TcpListener,
    grace: Duration,
    hand_over: Arc<HandOver>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move { http_listener.serve(listener, grace, hand_over).await })
}

/// An HTTP listener, and what it needs while it is used.
pub(super) struct Running {
    pub(super) http_listener: Arc<HttpListener>,
    /// How long sessions may take to end.
    pub(super) grace: Duration,
    /// What looks after the threads that run handlers.
    #[cfg_attr(not(feature = "tower"), expect(dead_code))]
    pub(super) tending: Option<AbortHandle>,
    /// The runtime that handlers are in.
    pub(super) inside: Option<Inside>,
}

impl Http {
    /// Puts an HTTP listener together that runs on this runtime. Handlers are in the caller's.
    pub(super) fn run(self, runtime: &Handle, mounted: bool) -> io::Result<Running> {
        let Http {
            served,
            access,
            limits,
            path,
            tell,
            store,
            replicas,
        } = self;
        let (backend, grace, inside, tending): (Box<dyn Backend>, _, _, _) = match served {
            Served::Server(Server { registry, .. }) => {
                let inside = Inside::new()?;
                let executor = Executor::new(inside.handle(), registry.policy.concurrency * 2);
                let tending = runtime.spawn(grow_threads(executor.clone())).abort_handle();
                let grace = registry.policy.grace + LEEWAY;
                let states = replicas.secret.as_ref().map(ReplicaSecret::state_keys);
                let offered = Offered {
                    registry,
                    executor,
                    states,
                };
                (Box::new(offered), grace, Some(inside), Some(tending))
            }
            #[cfg(feature = "gateway")]
            Served::Gateway(gateway) => {
                let (backend, grace) = gateway.backend(limits.sessions);
                (backend, grace, None, None)
            }
        };
        let _inside = runtime.enter();
        let durability = store.map(|store| {
            let others = replicas.secret.zip(store.lease()).map(|(secret, lease)| {
                let (keep_alive, unread) = (limits.keep_alive, limits.unread);
                Arc::new(Replicas::new(secret, lease, keep_alive, unread))
            });
            let (ttl, address) = (limits.session_ttl, replicas.advertise.unwrap_or_default());
            Arc::new(Durability::new(store, ttl, tell.clone(), address, others))
        });
        let http_listener =
            HttpListener::new(backend, access, limits, path, mounted, tell, durability);
        Ok(Running {
            http_listener,
            grace,
            tending,
            inside,
        })
    }
}

/// An HTTP listener that is served; dropped early, it is shut down.
struct Serving(Arc<HttpListener>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

/// What a server offers, as what stands behind an HTTP listener.
struct Offered {
    registry: Arc<Registry>,
    executor: Executor,
    /// The keys of states that all replicas have in common, if there are several.
    states: Option<StateKeys>,
}

impl Drop for Offered {
    fn drop(&mut self) {
        self.executor.close();
    }
}

impl Backend for Offered {
    fn open(&self, _: usize, replay: Arc<ReplayBuffer>, kind: Kind<'_>) -> Arc<dyn Route> {
        let mut policy = policy(&self.registry);
        policy.handshake = matches!(kind, Kind::Session(..));
        let sink = Box::new(Spoken(replay.clone()));
        let connection = Connection::new(
            policy,
            key(),
            self.registry.clone(),
            sink,
            self.executor.clone(),
        );
        if let Some(states) = &self.states {
            let mut engine = connection.lock();
            engine
                .machine
                .share_states(states.clone(), crate::run::seed());
        }
        self.registry.join(&connection);
        tokio::spawn(keep_time(connection.clone(), replay.clone()));
        Arc::new(Machine { connection, replay })
    }

    fn message_limit(&self) -> usize {
        self.registry.policy.message
    }
}

/// A machine as a route.
struct Machine {
    connection: Arc<Connection>,
    replay: Arc<ReplayBuffer>,
}

impl Route for Machine {
    fn hear(&self, channel: Channel, frame: Frame, arrival: &Arc<Arrival>) -> bool {
        let Machine { connection, replay } = self;
        connection.hear(channel, frame, arrival.clone(), || replay.is_done(channel))
    }

    fn left(&self, channel: Channel) {
        self.connection.feed(Input::Left(channel));
    }

    fn withdraw(&self, channel: Channel) {
        let Machine { replay, .. } = self;
        if replay.delivery != Delivery::Once {
            replay.withdraw(None);
            self.end();
            return replay.seal();
        }
        replay.withdraw(Some(channel));
        self.left(channel);
        replay.end_early(channel);
    }

    fn mirrored(&self, call: &Message) -> Vec<Mirrored> {
        let tables = self.connection.registry.tables();
        let tool = call
            .name()
            .and_then(|name| tables.tools.get(&name).cloned());
        tool.map_or(Vec::new(), |tool| mirrored(&tool.definition))
    }

    fn is_busy(&self) -> bool {
        self.connection.lock().machine.in_flight() > 0
    }

    fn end(&self) {
        self.connection.feed(Input::Closed(CloseKind::Reset));
    }

    fn shutdown(&self) {
        self.connection.feed(Input::Shutdown);
    }
}

/// A replay buffer as what a connection writes to.
struct Spoken(Arc<ReplayBuffer>);

impl Sink for Spoken {
    fn send(&mut self, channel: Channel, message: Message) {
        self.0.send(channel, message);
    }

    fn done(&mut self, channel: Channel) {
        self.0.done(channel);
    }

    fn flush(&mut self, _: &mut Context<'_>) -> io::Result<bool> {
        self.0.flush();
        Ok(true)
    }

    fn backlog(&self) -> usize {
        // Readers that are behind are cut off one by one; here it only matters whether anybody
        // is to be woken.
        usize::from(self.0.is_dirty())
    }

    fn clear(&mut self) {}

    fn hang_up(&mut self, channel: Channel) {
        self.0.hang_up(channel);
    }
}

/// Wakes a task.
struct Alarm(Notify);

impl Wake for Alarm {
    fn wake(self: Arc<Alarm>) {
        self.0.notify_one();
    }
}

/// Has a replay buffer looked after.
impl Wake for ReplayBuffer {
    fn wake(self: Arc<ReplayBuffer>) {
        self.bell.notify_one();
    }
}

/// Tells a machine the time, and which clients it has lost, until it has ended.
async fn keep_time(connection: Arc<Connection>, replay: Arc<ReplayBuffer>) {
    connection.read_by(replay.clone().into());
    loop {
        for channel in replay.take_lost() {
            connection.feed(Input::Left(channel));
        }
        let due: Option<Time> = {
            let mut engine = connection.lock();
            if engine.closed {
                break;
            }
            engine.armed = engine.machine.deadline();
            engine.armed
        };
        match due {
            None => replay.bell.notified().await,
            Some(due) if due <= connection.now() => connection.feed(Input::Tick),
            Some(due) => {
                let left = due - connection.now();
                let _ = timeout(left, replay.bell.notified()).await;
            }
        }
    }
    connection.registry.leave(&connection);
    replay.seal();
}

/// Looks after the threads that run handlers.
async fn grow_threads(executor: Executor) {
    let alarm = Arc::new(Alarm(Notify::new()));
    // No thread that reads runs handlers, and answers are passed on as they are given: there is
    // nobody to relieve and nothing to settle.
    executor.set_reader(ThreadReader {
        waker: alarm.clone().into(),
        relieve: Box::new(|| false),
        settle: Box::new(|| ()),
    });
    loop {
        alarm.0.notified().await;
        loop {
            sleep(TICK).await;
            if !executor.grow_threads() {
                break;
            }
        }
    }
}
