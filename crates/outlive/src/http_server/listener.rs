//! Connections come, and at the end go.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::Poll;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use outlive_core::replay_buffer::Delivery;
use outlive_core::server::Channel;
use outlive_core::session_table::TableLimits;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::body::{Bodies, Source};
use super::deadline::{DeadlineTimer, HeadTimer};
use super::durable::Durability;
use super::files::Files;
use super::peers::LINGER;
use super::replay_buffer::ReplayBuffer;
use super::session::Sessions;
use super::socket::WriteTimeout;
use super::{AccessRules, Backend, Kind, ListenerLimits, Route};
use crate::io::peer;

/// How long accepting rests after an error such as a lack of descriptors.
const REST: Duration = Duration::from_millis(50);

/// How long connections may take to say their last words.
const CONNECTION_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long it may take to give sessions back to the store. Without it, a successor waits for the lease.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the end looks whether it has come.
const SHUTDOWN_POLL: Duration = Duration::from_millis(10);

/// How long connections are accepted that were made before the end.
const BACKLOG: Duration = Duration::from_millis(100);

/// How often it is told that there is no room.
const TELL_FULL: Duration = Duration::from_secs(60);

/// Everything between connections and routes.
pub(crate) struct HttpListener {
    pub(super) backend: Box<dyn Backend>,
    pub(super) access: AccessRules,
    pub(super) limits: ListenerLimits,
    /// The endpoint that is always there. A backend ends as a whole, so this one tells whether it has.
    pub(super) first: Arc<Endpoint>,
    endpoints: RwLock<Arc<Endpoints>>,
    /// Somebody else has the connections and decides which paths lead here: what is before them is not known.
    pub(super) mounted: bool,
    pub(super) sessions: Sessions,
    /// Rings when a client that waits for a session may ask again.
    pub(super) room_bell: Arc<Notify>,
    /// The longest message a client may send, as of these endpoints.
    pub(super) message_limit: AtomicUsize,
    /// Bodies that have not come whole.
    pub(super) bodies: Arc<Bodies>,
    /// Places for connections.
    pub(super) places: Arc<Semaphore>,
    /// Places for clients that only listen.
    pub(super) streams: Arc<Semaphore>,
    channels: Arc<AtomicU64>,
    pub(super) tell: Tell,
    /// Where sessions are kept, if not only here.
    pub(super) durability: Option<Arc<Durability>>,
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

/// All endpoints that there are at a time, the first one first.
pub(super) struct Endpoints {
    /// How often the backend had changed them by then.
    edition: u64,
    pub(super) all: Vec<Arc<Endpoint>>,
}

impl Endpoints {
    pub(super) fn at(&self, path: &str) -> Option<&Arc<Endpoint>> {
        self.all.iter().find(|endpoint| endpoint.path == path)
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
        durability: Option<Arc<Durability>>,
    ) -> Arc<HttpListener> {
        let edition = backend.edition();
        let endpoints = backend.endpoints(&path).into_iter();
        let all: Vec<Arc<Endpoint>> = endpoints
            .map(|(number, path)| Arc::new(Endpoint::new(number, path, &*backend)))
            .collect();
        if let Some(verifier) = &access.verifier {
            verifier.start(&path, tell.clone());
        }
        let message_limit = backend.message_limit();
        let bodies = Bodies::new(limits.bodies.max(message_limit));
        Arc::new(HttpListener {
            first: all[0].clone(),
            endpoints: RwLock::new(Arc::new(Endpoints { edition, all })),
            mounted,
            sessions: Sessions::new(table_limits(&limits)),
            room_bell: backend.room_bell(),
            message_limit: AtomicUsize::new(message_limit),
            bodies,
            backend,
            access,
            limits,
            places: Arc::new(Semaphore::new(limits.connections)),
            streams: Arc::new(Semaphore::new(limits.streams)),
            channels: Arc::new(AtomicU64::new(1)),
            tell,
            durability,
            full_told: Mutex::default(),
        })
    }

    /// The endpoints that there are now. To be called inside the runtime.
    pub(super) fn endpoints(&self) -> Arc<Endpoints> {
        let known = self.endpoints.read();
        let known = known.unwrap_or_else(PoisonError::into_inner).clone();
        match known.edition == self.backend.edition() {
            true => known,
            false => self.refresh(),
        }
    }

    /// Asks the backend which endpoints there are. Those that it still has stay what they are; sessions at the others
    /// end.
    fn refresh(&self) -> Arc<Endpoints> {
        let endpoints = self.endpoints.write();
        let mut endpoints = endpoints.unwrap_or_else(PoisonError::into_inner);
        // In this order: a change between the two is seen the next time.
        let edition = self.backend.edition();
        if endpoints.edition == edition {
            return endpoints.clone();
        }
        let before = endpoints.clone();
        let now = self.backend.endpoints(&self.first.path).into_iter();
        let all = now.map(|(number, path)| {
            let mut known = before.all.iter();
            let same = known.find(|it| it.number == number && it.path == path);
            same.cloned()
                .unwrap_or_else(|| Arc::new(Endpoint::new(number, path, &*self.backend)))
        });
        let all = all.collect();
        let message_limit = self.backend.message_limit();
        self.message_limit.store(message_limit, Ordering::Relaxed);
        *endpoints = Arc::new(Endpoints { edition, all });
        let now = endpoints.clone();
        drop(endpoints);
        let is_there = |it: &Arc<Endpoint>| now.all.iter().any(|other| Arc::ptr_eq(it, other));
        for gone in before.all.iter().filter(|it| !is_there(it)) {
            gone.route.retire();
        }
        self.sessions
            .retire(|number| now.all.iter().any(|it| it.number == number));
        now
    }

    /// A client was refused for want of room. Whoever runs this is told, now and then.
    pub(super) fn tell_full(&self, who: &str, sentence: &str) {
        let told = self.full_told.lock();
        let mut told = told.unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|at| at.elapsed() >= TELL_FULL) {
            *told = Some(Instant::now());
            drop(told);
            (self.tell)(&format!("a client was refused ({who}): {sentence}"));
        }
    }

    pub(super) fn fresh_channel(&self) -> Channel {
        Channel(self.channels.fetch_add(1, Ordering::Relaxed))
    }

    /// Channels for somebody who has no listener.
    pub(super) fn fresh_channels(&self) -> impl FnMut() -> Channel + Send + use<> {
        let channels = self.channels.clone();
        move || Channel(channels.fetch_add(1, Ordering::Relaxed))
    }

    /// Channels up to this one are known to clients of another process.
    pub(super) fn skip_channels(&self, highest: u64) {
        let next = highest.saturating_add(1);
        self.channels.fetch_max(next, Ordering::Relaxed);
    }

    /// Serves whoever comes, until the route that answers modern requests has ended. Sessions then
    /// have until `grace` to do so.
    pub(crate) async fn serve(
        self: Arc<HttpListener>,
        listener: TcpListener,
        grace: Duration,
        hand_over: Arc<HandOver>,
    ) {
        let closing = Arc::new(Closing::default());
        let places = self.places.clone();
        let sweeping = tokio::spawn(sweep(self.clone()));
        let refreshing = tokio::spawn(refresh(self.clone()));
        let tell = self.tell.clone();
        let watching = tokio::spawn(Files::of(&self.access).watch(move |note| tell(note)));
        let leasing = tokio::spawn(keep_lease(self.clone()));
        let mut connections = JoinSet::new();
        let talk = |stream: TcpStream, place: Option<OwnedSemaphorePermit>| {
            let (http_listener, closing) = (self.clone(), closing.clone());
            async move {
                http_listener.connection(stream, &closing).await;
                drop(place);
            }
        };
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
            let over = async {
                unless(hand_over.begun(), self.first.replay.sealed()).await;
            };
            let Some(accepted) = unless(over, accepting).await else {
                break;
            };
            if let Some((stream, place)) = accepted {
                connections.spawn(talk(stream, place));
            }
        }
        // Who is connected already may have sent a request; if nobody read it, nobody would know what became of it.
        let until = Instant::now() + BACKLOG;
        while hand_over.has_begun()
            && Instant::now() < until
            && let Ok(Ok((stream, _))) = timeout(SHUTDOWN_POLL, listener.accept()).await
            && let Ok(place) = places.clone().try_acquire_owned()
        {
            connections.spawn(talk(stream, Some(place)));
        }
        drop(listener);
        if hand_over.has_begun() {
            self.hand_over(hand_over.drain).await;
        }
        self.end_sessions(grace).await;
        sweeping.abort();
        refreshing.abort();
        watching.abort();
        leasing.abort();
        closing.begin();
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
        let refreshing = tokio::spawn(refresh(self.clone()));
        let tell = self.tell.clone();
        let watching = tokio::spawn(Files::of(&self.access).watch(move |note| tell(note)));
        let leasing = tokio::spawn(keep_lease(self.clone()));
        self.first.replay.sealed().await;
        self.end_sessions(grace).await;
        sweeping.abort();
        refreshing.abort();
        watching.abort();
        leasing.abort();
    }

    /// Ends every route.
    pub(crate) fn shutdown(&self) {
        self.first.route.shutdown();
        for session in self.sessions.all() {
            session.route.shutdown();
        }
    }

    /// Whether the sessions that are kept are being left to others.
    pub(super) fn is_leaving(&self) -> bool {
        let durability = self.durability.as_ref();
        durability.is_some_and(|it| it.hands_over())
    }

    /// Leaves the sessions that are kept to others: those that nobody waits for at once, the others when what is in
    /// flight is answered, or its time is over. Then everything ends.
    async fn hand_over(&self, drain: Duration) {
        if let Some(durability) = &self.durability {
            durability.hands_over.store(true, Ordering::Release);
        }
        // Others may still send what was ours, on connections that they have; and what was being taken over when this
        // began is here only later.
        let linger = match self.replicas() {
            Some(_) => LINGER,
            None => Duration::ZERO,
        };
        let (until, mut idle_since) = (Instant::now() + drain, None::<Instant>);
        loop {
            let is_time = until <= Instant::now();
            let mut waited_for = self.endpoints().all.iter().any(|it| it.route.is_busy());
            for session in self.sessions.all() {
                match session.durable().filter(|it| !it.is_lost()) {
                    Some(durable) if session.leave(is_time) => {
                        durable.hand_over().await;
                        session.route.end();
                    }
                    Some(_) => waited_for = true,
                    None => waited_for |= !session.replay.is_sealed() && session.has_calls(),
                }
            }
            match is_time || !waited_for {
                true if idle_since.get_or_insert_with(Instant::now).elapsed() >= linger => break,
                true => {}
                false => idle_since = None,
            }
            sleep(SHUTDOWN_POLL).await;
        }
        self.shutdown();
        // What has had its time gets no more of it.
        self.shutdown();
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
        let _ = timeout(RELEASE_TIMEOUT, self.release_sessions()).await;
    }

    /// Gives the sessions that are kept back to the store: this process ends.
    async fn release_sessions(&self) {
        for session in self.sessions.all() {
            if let Some(durable) = session.durable() {
                durable.release().await;
            }
        }
        if let Some(durability) = &self.durability {
            let left = durability.store().leave(durability.owner());
            let _ = durability.ask(left).await;
        }
    }

    /// Tells the store that the sessions that are here are in use.
    async fn touch_sessions(&self) {
        let Some(durability) = &self.durability else {
            return;
        };
        let all = self.sessions.all();
        let kept = all.iter().filter_map(|session| {
            let durable = session.durable().filter(|it| !it.is_lost())?;
            Some((session.id.clone(), durable.tenure()))
        });
        let touched = durability.store().touch(kept.collect(), durability.ttl());
        let _ = durability.ask(touched).await;
    }

    async fn connection(self: Arc<HttpListener>, stream: TcpStream, closing: &Closing) {
        peer::watch(&stream, self.limits.unread);
        let stream = WriteTimeout::new(stream, self.limits.unread);
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.access.tls {
            let Some(acceptor) = tls.acceptor() else {
                return;
            };
            let agreed = timeout(self.limits.head_time, encrypted(acceptor, stream)).await;
            if let Ok(Some(stream)) = agreed {
                self.talk(stream, closing).await;
            }
            return;
        }
        self.talk(stream, closing).await;
    }

    async fn talk<S>(self: Arc<HttpListener>, stream: S, closing: &Closing)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let deadline = Arc::new(DeadlineTimer::default());
        let mut builder = http1::Builder::new();
        builder
            .timer(HeadTimer(deadline.clone()))
            .header_read_timeout(self.limits.head_time)
            .max_buf_size(self.limits.head);
        let service = service_fn(move |request: Request<Incoming>| {
            let (http_listener, deadline) = (self.clone(), deadline.clone());
            let arrived = self.arrived(request.map(Source::Connection));
            async move {
                let mut reply = http_listener.answer(arrived, &deadline).await;
                if http_listener.is_leaving() {
                    let close = HeaderValue::from_static("close");
                    reply.headers_mut().insert(CONNECTION, close);
                }
                Ok::<_, Infallible>(reply)
            }
        });
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        if closing.unless(connection.as_mut()).await.is_none() {
            // What is being answered is answered to the end.
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

/// Has a listener leave its sessions to others, and end.
#[derive(Debug, Default)]
pub(crate) struct HandOver {
    has_begun: AtomicBool,
    bell: Notify,
    /// How long what is in flight may take.
    drain: Duration,
}

impl HandOver {
    pub(crate) fn new(drain: Duration) -> HandOver {
        HandOver {
            drain,
            ..HandOver::default()
        }
    }

    /// False if it has begun before.
    #[cfg_attr(not(feature = "gateway"), expect(dead_code))]
    pub(crate) fn begin(&self) -> bool {
        let is_first = !self.has_begun.swap(true, Ordering::SeqCst);
        self.bell.notify_waiters();
        is_first
    }

    fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::SeqCst)
    }

    async fn begun(&self) {
        loop {
            // In this order: a beginning between the two is not missed.
            let bell = self.bell.notified();
            if self.has_begun() {
                return;
            }
            bell.await;
        }
    }
}

/// Tells all connections to close. Each asks with every poll, so that is one look at a flag.
#[derive(Default)]
struct Closing {
    has_begun: AtomicBool,
    bell: Notify,
}

impl Closing {
    fn begin(&self) {
        self.has_begun.store(true, Ordering::SeqCst);
        self.bell.notify_waiters();
    }

    /// Does some work; `None` if connections are to close first. To be awaited on one task.
    async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut bell, mut work) = (pin!(self.bell.notified()), pin!(work));
        let mut listens = false;
        poll_fn(|cx| {
            // Once is enough: a task is woken by the same waker all its life. In this order: a beginning between the
            // two is not missed.
            if !std::mem::replace(&mut listens, true) {
                let _ = bell.as_mut().poll(cx);
            }
            match self.has_begun.load(Ordering::SeqCst) {
                true => Poll::Ready(None),
                false => work.as_mut().poll(cx).map(Some),
            }
        })
        .await
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

/// Keeps the lease at the store, if there is one, and ends what is done without it.
async fn keep_lease(http_listener: Arc<HttpListener>) {
    if let Some(durability) = http_listener.durability.clone() {
        let stand_down = || http_listener.sessions.stand_down();
        durability.keep_lease(stand_down).await;
    }
}

/// Ends the sessions nobody uses, now and then, and at once those whose token is withdrawn.
async fn sweep(http_listener: Arc<HttpListener>) {
    let mut touched = Instant::now();
    http_listener.touch_sessions().await;
    loop {
        if touched.elapsed() >= http_listener.limits.session_ttl / 4 {
            touched = Instant::now();
            http_listener.touch_sessions().await;
        }
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

/// Ends the sessions at endpoints that are no more, as soon as they are.
async fn refresh(http_listener: Arc<HttpListener>) {
    let bell = http_listener.backend.endpoints_bell();
    loop {
        let mut rung = pin!(bell.notified());
        // In this order: a change between the two is not missed.
        rung.as_mut().enable();
        http_listener.endpoints();
        rung.await;
    }
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
