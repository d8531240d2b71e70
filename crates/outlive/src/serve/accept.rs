//! Connections come, and at the end go.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use outlive_core::server::Channel;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

use super::mouth::Mouth;
use super::patience::Patience;
use super::session::Sessions;
use super::{Backend, Guard, Kind, Limits, Party};

/// How long accepting rests after an error such as a lack of descriptors.
const REST: Duration = Duration::from_millis(50);

/// How long connections may take to say their last words.
const FAREWELL: Duration = Duration::from_secs(1);

/// How often the end looks whether it has come.
const GLANCE: Duration = Duration::from_millis(10);

/// Everything between connections and parties.
pub(crate) struct Front {
    pub(super) backend: Box<dyn Backend>,
    pub(super) guard: Guard,
    pub(super) limits: Limits,
    pub(super) path: String,
    pub(super) sessions: Sessions,
    /// What answers modern requests.
    pub(super) party: Arc<dyn Party>,
    pub(super) mouth: Arc<Mouth>,
    channels: AtomicU64,
}

impl Front {
    /// To be called inside the runtime that is to serve it.
    pub(crate) fn new(
        backend: Box<dyn Backend>,
        guard: Guard,
        limits: Limits,
        path: String,
    ) -> Arc<Front> {
        let mouth = Arc::new(Mouth::new(false));
        Arc::new(Front {
            party: backend.open(mouth.clone(), Kind::Shared),
            mouth,
            backend,
            guard,
            limits,
            path,
            sessions: Sessions::new(limits.sessions, limits.session_ttl),
            channels: AtomicU64::new(1),
        })
    }

    pub(super) fn fresh_channel(&self) -> Channel {
        Channel(self.channels.fetch_add(1, Ordering::Relaxed))
    }

    /// Serves whoever comes, until the party that answers modern requests has ended. Sessions then
    /// have until `grace` to do so.
    pub(crate) async fn serve(self: Arc<Front>, listener: TcpListener, grace: Duration) {
        let (stop, stopping) = watch::channel(false);
        let places = Arc::new(Semaphore::new(self.limits.connections));
        let sweeping = tokio::spawn(sweep(self.clone()));
        loop {
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
            let Some(accepted) = unless(self.mouth.sealed(), accepting).await else {
                break;
            };
            if let Some((stream, place)) = accepted {
                let (front, stopping) = (self.clone(), stopping.clone());
                tokio::spawn(async move {
                    front.connection(stream, stopping).await;
                    drop(place);
                });
            }
        }
        drop(listener);
        self.end_sessions(grace).await;
        sweeping.abort();
        let _ = stop.send(true);
        let all = u32::try_from(self.limits.connections).unwrap_or(u32::MAX);
        let _ = timeout(FAREWELL, places.acquire_many(all)).await;
    }

    /// Ends every party.
    pub(crate) fn shutdown(&self) {
        self.party.shutdown();
        for session in self.sessions.all() {
            session.party.shutdown();
        }
    }

    async fn end_sessions(&self, grace: Duration) {
        let until = Instant::now() + grace;
        let left = || {
            let mut all = self.sessions.all();
            all.retain(|session| !session.mouth.is_sealed());
            all
        };
        while !left().is_empty() && Instant::now() < until {
            sleep(GLANCE).await;
        }
        for session in left() {
            session.party.end();
            session.mouth.seal();
        }
    }

    async fn connection(self: Arc<Front>, stream: TcpStream, mut stopping: watch::Receiver<bool>) {
        watch_peer(&stream, self.limits.unread);
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_time)
            .max_buf_size(self.limits.head);
        let patience = Arc::new(Patience::default());
        let service = service_fn(move |request| {
            let (front, patience) = (self.clone(), patience.clone());
            async move { Ok::<_, Infallible>(front.answer(request, &patience).await) }
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

/// Ends the sessions nobody uses, now and then.
async fn sweep(front: Arc<Front>) {
    loop {
        sleep(front.sessions.sweep_interval()).await;
        front.sessions.sweep();
    }
}

/// Has the system find out when a client is gone, or does not read (FM-24).
fn watch_peer(stream: &TcpStream, unread: Duration) {
    use rustix::net::sockopt;
    // Each is a wish: without it the connection works all the same.
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
async fn unless<T>(stop: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    poll_fn(|cx| match stop.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => work.as_mut().poll(cx).map(Some),
    })
    .await
}
