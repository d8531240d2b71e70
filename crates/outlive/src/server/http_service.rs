//! A server over HTTP whose connections are somebody else's: a service of `tower`.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::{Request, Response};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tower_service::Service;

use super::http::{Http, Running};
use crate::http_server::{Content, DeadlineTimer, HttpListener, Source};

impl Http {
    /// The server as a service of `tower`, to be mounted in `axum` or any other stack over `hyper`. It runs on the
    /// runtime this is called in.
    ///
    /// ```no_run
    /// use axum::Router;
    /// use axum::routing::get;
    /// use outlive::Server;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = Server::builder("demo", "1.0.0")
    ///     .tool("ping", "Returns pong.", |_, (): ()| async { "pong" })
    ///     .build();
    /// let app = Router::new()
    ///     .route("/", get(|| async { "a page" }))
    ///     .nest_service("/mcp", server.http().service()?);
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:8000").await?;
    /// axum::serve(listener, app)
    ///     .with_graceful_shutdown(async move {
    ///         let _ = tokio::signal::ctrl_c().await;
    ///         // Streams stay open for as long as the server does.
    ///         server.handle().shutdown();
    ///     })
    ///     .await
    /// # }
    /// ```
    ///
    /// - **Paths**: it answers at its [path](Http::path), and at `/` for routers that take off what leads to it, as
    ///   `nest_service` does. Clients of 2024-11-05 find `/sse` and `/messages` beside its path.
    /// - **The stack** accepts connections, bounds how many there are, encrypts them and reads heads; so what
    ///   [`Http`] has settings for there ([`max_connections`](Http::max_connections), [`head_limit`](Http::head_limit),
    ///   [`write_timeout`](Http::write_timeout)) has no effect, and it is the stack that is reachable from elsewhere or
    ///   not. The service still checks `Host` and `Origin` ([`allow_host`](Http::allow_host)) and tokens, and bounds
    ///   bodies, sessions and streams.
    /// - **Who calls**: handlers see the headers ([`Ctx::headers`]) and what layers in front have attached to the request
    ///   ([`Ctx::extension`]). A layer that authenticates should also attach a [`Principal::Caller`]: a session then
    ///   belongs to its caller, and does not exist for others.
    /// - **The end**: it is shut down when its last clone is dropped, or with the server
    ///   ([`ServerHandle::shutdown`]). From then on it answers with 503.
    ///
    /// [`Ctx::headers`]: super::Ctx::headers
    /// [`Ctx::extension`]: super::Ctx::extension
    /// [`Principal::Caller`]: super::Principal::Caller
    /// [`ServerHandle::shutdown`]: super::ServerHandle::shutdown
    ///
    /// # Errors
    ///
    /// If there is no runtime, if a token file cannot be used, or if connections were to be encrypted here.
    pub fn service(self) -> io::Result<HttpService> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        self.check()?;
        #[cfg(feature = "tls")]
        if self.access.tls.is_some() {
            let sentence = "a service has no connections that it could encrypt: that is up to the stack it is mounted in";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        let Running {
            http_listener,
            grace,
            tending,
            inside,
        } = self.run(&runtime, true)?;
        let looking = http_listener.clone().look_after(grace);
        runtime.spawn(async move {
            looking.await;
            // Handlers have until then to end.
            tending.inspect(AbortHandle::abort);
            drop(inside);
        });
        Ok(HttpService(Arc::new(Mounted(http_listener))))
    }
}

/// A server over HTTP, mounted in a stack of services. See [`Http::service`]. Cheap to clone.
#[derive(Clone)]
pub struct HttpService(Arc<Mounted>);

/// An HTTP listener that answers; dropped, it is shut down.
struct Mounted(Arc<HttpListener>);

impl Drop for Mounted {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

impl<B> Service<Request<B>> for HttpService
where
    B: Body + Send + 'static,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<HttpBody>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mounted = self.0.clone();
        Box::pin(async move {
            let deadline = DeadlineTimer::default();
            let arrived = mounted.0.arrived(request.map(Source::any));
            let reply = mounted.0.answer(arrived, &deadline).await;
            Ok(reply.map(HttpBody))
        })
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").finish_non_exhaustive()
    }
}

/// The body of a response: one message, or a stream of events.
pub struct HttpBody(Content);

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.0).poll_frame(cx);
        frame.map(|frame| frame.map(|it| it.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

impl fmt::Debug for HttpBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBody").finish_non_exhaustive()
    }
}
