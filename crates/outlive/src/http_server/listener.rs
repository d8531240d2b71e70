//! Connections come, and at the end go.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use outlive_core::principal::Principal;
use outlive_core::replay_buffer::Delivery;
use outlive_core::server::Channel;
use outlive_core::session_table::TableLimits;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::body::{Bodies, Source};
use super::deadline::DeadlineTimer;
use super::files::Files;
use super::replay_buffer::ReplayBuffer;
use super::session::Sessions;
use super::socket::WriteTimeout;
use super::{AccessRules, Backend, Kind, ListenerLimits, Route};

/// How long accepting rests after an error such as a lack of descriptors.
const REST: Duration = Duration::from_millis(50);

/// How long connections may take to say their last words.
const CONNECTION_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How often the end looks whether it has come.
const SHUTDOWN_POLL: Duration = Duration::from_millis(10);

/// How often it is told that there is no room.
const TELL_FULL: Duration = Duration::from_secs(60);

/// Everything between connections and routes.
pub(crate) struct HttpListener {
    pub(super) backend: Box<dyn Backend>,
    pub(super) access: AccessRules,
    pub(super) limits: ListenerLimits,
    /// One for each path, at least one. A backend ends as a whole, so the first tells whether it has.
    pub(super) endpoints: Vec<Endpoint>,
    /// Somebody else has the connections and decides which paths lead here: what is before them is not known.
    pub(super) mounted: bool,
    pub(super) sessions: Sessions,
    /// Rings when a client that waits for a session may ask again.
    pub(super) room_bell: Arc<Notify>,
    /// Bodies that have not come whole.
    pub(super) bodies: Arc<Bodies>,
    /// Places for connections.
    pub(super) places: Arc<Semaphore>,
    /// Places for clients that only listen.
    pub(super) streams: Arc<Semaphore>,
    channels: AtomicU64,
    pub(super) tell: Tell,
    /// When it was last told that there is no room.
    full_told: Mutex<Option<Instant>>,
}

/// A path, and what answers modern requests there.
pub(super) struct Endpoint {
    pub(super) number: usize,
    pub(super) path: String,
    pub(super) route: Arc<dyn Route>,
    pub(super) replay: Arc<ReplayBuffer>,
}

impl Endpoint {
    fn new(number: usize, path: String, backend: &dyn Backend) -> Endpoint {
        let replay = Arc::new(ReplayBuffer::new(Delivery::Once));
        Endpoint {
            number,
            path,
            route: backend.open(number, replay.clone(), Kind::Shared),
            replay,
        }
    }
}

/// Who is told in sentences what changes in front.
pub(crate) type Tell = Arc<dyn Fn(&str) + Send + Sync>;

impl HttpListener {
    /// To be called inside the runtime that is to serve it.
    pub(crate) fn new(
        backend: Box<dyn Backend>,
        access: AccessRules,
        limits: ListenerLimits,
        path: String,
        mounted: bool,
        tell: Tell,
    ) -> Arc<HttpListener> {
        let paths = backend.paths(&path).into_iter().enumerate();
        let endpoints = paths.map(|(number, path)| Endpoint::new(number, path, &*backend));
        let bodies = Bodies::new(limits.bodies.max(backend.message_limit()));
        Arc::new(HttpListener {
            endpoints: endpoints.collect(),
            mounted,
            sessions: Sessions::new(table_limits(&limits)),
            room_bell: backend.room_bell(),
            bodies,
            backend,
            access,
            limits,
            places: Arc::new(Semaphore::new(limits.connections)),
            streams: Arc::new(Semaphore::new(limits.streams)),
            channels: AtomicU64::new(1),
            tell,
            full_told: Mutex::default(),
        })
    }

    /// A client was refused for want of room. Whoever runs this is told, now and then.
    pub(super) fn tell_full(&self, principal: Principal, sentence: &str) {
        let told = self.full_told.lock();
        let mut told = told.unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|at| at.elapsed() >= TELL_FULL) {
            *told = Some(Instant::now());
            drop(told);
            (self.tell)(&format!("a client was refused ({principal}): {sentence}"));
        }
    }

    pub(super) fn fresh_channel(&self) -> Channel {
        Channel(self.channels.fetch_add(1, Ordering::Relaxed))
    }

    /// Serves whoever comes, until the route that answers modern requests has ended. Sessions then
    /// have until `grace` to do so.
    pub(crate) async fn serve(self: Arc<HttpListener>, listener: TcpListener, grace: Duration) {
        let (stop, stopping) = watch::channel(false);
        let places = self.places.clone();
        let sweeping = tokio::spawn(sweep(self.clone()));
        let tell = self.tell.clone();
        let watching = tokio::spawn(Files::of(&self.access).watch(move |note| tell(note)));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let accepting = async {
                let place = places.clone().acquire_owned().await.ok();
                match listener.accept().await {
                    Ok((stream, _)) => Some((stream, place)),
                    Err(_) => {
                        sleep(REST).await;
                        None
                    }
                }
            };
            let Some(accepted) = unless(self.endpoints[0].replay.sealed(), accepting).await else {
                break;
            };
            if let Some((stream, place)) = accepted {
                let (http_listener, stopping) = (self.clone(), stopping.clone());
                connections.spawn(async move {
                    http_listener.connection(stream, stopping).await;
                    drop(place);
                });
            }
        }
        drop(listener);
        self.end_sessions(grace).await;
        sweeping.abort();
        watching.abort();
        let _ = stop.send(true);
        let all = u32::try_from(self.limits.connections).unwrap_or(u32::MAX);
        let _ = timeout(CONNECTION_CLOSE_TIMEOUT, places.acquire_many(all)).await;
        // What is left of them is ended now.
        drop(connections);
    }

    /// Does what there is to do beside answering, for whoever has connections of their own, until the route that
    /// answers modern requests has ended and sessions have had until `grace` to do so.
    #[cfg(feature = "tower")]
    pub(crate) async fn look_after(self: Arc<HttpListener>, grace: Duration) {
        let sweeping = tokio::spawn(sweep(self.clone()));
        let tell = self.tell.clone();
        let watching = tokio::spawn(Files::of(&self.access).watch(move |note| tell(note)));
        self.endpoints[0].replay.sealed().await;
        self.end_sessions(grace).await;
        sweeping.abort();
        watching.abort();
    }

    /// Ends every route.
    pub(crate) fn shutdown(&self) {
        self.endpoints[0].route.shutdown();
        for session in self.sessions.all() {
            session.route.shutdown();
        }
    }

    async fn end_sessions(&self, grace: Duration) {
        let until = Instant::now() + grace;
        let left = || {
            let mut all = self.sessions.all();
            all.retain(|session| !session.replay.is_sealed());
            all
        };
        while !left().is_empty() && Instant::now() < until {
            sleep(SHUTDOWN_POLL).await;
        }
        for session in left() {
            session.route.end();
            session.replay.seal();
        }
    }

    async fn connection(
        self: Arc<HttpListener>,
        stream: TcpStream,
        stopping: watch::Receiver<bool>,
    ) {
        watch_peer(&stream, self.limits.unread);
        let stream = WriteTimeout::new(stream, self.limits.unread);
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.access.tls {
            let Some(acceptor) = tls.acceptor() else {
                return;
            };
            let agreed = timeout(self.limits.head_time, encrypted(acceptor, stream)).await;
            if let Ok(Some(stream)) = agreed {
                self.talk(stream, stopping).await;
            }
            return;
        }
        self.talk(stream, stopping).await;
    }

    async fn talk<S>(self: Arc<HttpListener>, stream: S, mut stopping: watch::Receiver<bool>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_time)
            .max_buf_size(self.limits.head);
        let deadline = Arc::new(DeadlineTimer::default());
        let service = service_fn(move |request| {
            let (http_listener, deadline) = (self.clone(), deadline.clone());
            async move {
                let request = request.map(Source::Connection);
                Ok::<_, Infallible>(http_listener.answer(request, &deadline).await)
            }
        });
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let stop = async {
            let _ = stopping.wait_for(|stop| *stop).await;
        };
        if unless(stop, connection.as_mut()).await.is_none() {
            // What is being answered is answered to the end.
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Agrees on keys. A client that does not encrypt is told so in its own language.
#[cfg(feature = "tls")]
async fn encrypted(
    acceptor: tokio_rustls::TlsAcceptor,
    stream: WriteTimeout<TcpStream>,
) -> Option<tokio_rustls::server::TlsStream<WriteTimeout<TcpStream>>> {
    let mut first = [0];
    let peeked = stream.inner().peek(&mut first).await.ok()?;
    if peeked == 1 && first[0].is_ascii_uppercase() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
        let mut stream = stream;
        let _ = stream.write_all(super::tls::PLAIN.as_bytes()).await;
        let _ = stream.shutdown().await;
        // What is left unread when a connection is closed would take the answer with it.
        let _ = copy(&mut stream.take(64 << 10), &mut sink()).await;
        return None;
    }
    acceptor.accept(stream).await.ok()
}

/// The bounds on sessions.
fn table_limits(limits: &ListenerLimits) -> TableLimits {
    TableLimits {
        sessions: limits.sessions,
        ttl: limits.session_ttl,
        confirm: limits.head_time,
        ..TableLimits::default()
    }
}

/// Ends the sessions nobody uses, now and then, and at once those whose token is withdrawn.
async fn sweep(http_listener: Arc<HttpListener>) {
    loop {
        let rest = sleep(http_listener.sessions.sweep_interval());
        match &http_listener.access.tokens {
            Some(tokens) => {
                let _ = unless(tokens.withdrawn(), rest).await;
                http_listener.sessions.withdraw(tokens);
            }
            None => rest.await,
        }
        http_listener.sessions.sweep();
    }
}

/// Has the system find out when a client is gone, or does not read (FM-24).
fn watch_peer(stream: &TcpStream, unread: Duration) {
    use rustix::net::sockopt;
    // Each may fail: the connection works without it.
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    #[cfg(target_os = "linux")]
    {
        let _ = sockopt::set_tcp_keepidle(stream, unread / 2);
        let _ = sockopt::set_tcp_keepintvl(stream, unread / 8);
        let millis = u32::try_from(unread.as_millis()).unwrap_or(u32::MAX);
        let _ = sockopt::set_tcp_user_timeout(stream, millis);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = unread;
}

/// Does some work; `None` if it has to stop first.
pub(super) async fn unless<T>(
    stop: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    poll_fn(|cx| match stop.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(cx).map(Some),
    })
    .await
}
