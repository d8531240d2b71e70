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
use crate::http_server::{Content, DeadlineTimer, Front, Source};

impl Http {
    /// The server as a service of `tower`, to be mounted in `axum` or any other stack over `hyper`. It runs on the
    /// runtime this is called in, and is shut down when its last clone is dropped.
    ///
    /// It answers at its [path](Http::path) and, for clients of 2024-11-05, at `/sse` and `/messages`. It still checks
    /// `Host`, `Origin` and tokens; how requests are read, encrypted and how many connections there may be is up to the
    /// stack.
    ///
    /// ```
    /// use axum::Router;
    /// use outlive::Server;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// let server = Server::builder("demo", "1.0.0")
    ///     .tool("ping", "Returns pong.", |_, (): ()| async { "pong" })
    ///     .build();
    /// let app: Router = Router::new()
    ///     .route("/", axum::routing::get(|| async { "a page" }))
    ///     .route_service("/mcp", server.http().service()?);
    /// # let _ = app;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no runtime, or a token file cannot be used.
    pub fn service(self) -> io::Result<HttpService> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        self.check_files().map_err(wrong)?;
        let Running {
            front,
            grace,
            tending,
            inside,
        } = self.run(&runtime)?;
        runtime.spawn(front.clone().look_after(grace));
        Ok(HttpService(Arc::new(Mounted {
            front,
            tending,
            _inside: inside,
        })))
    }
}

/// A server over HTTP, mounted in a stack of services. See [`Http::service`]. Cheap to clone.
#[derive(Clone)]
pub struct HttpService(Arc<Mounted>);

/// A front that answers; dropped, it is shut down.
struct Mounted {
    front: Arc<Front>,
    tending: Option<AbortHandle>,
    _inside: Option<super::Inside>,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.front.shutdown();
        if let Some(tending) = &self.tending {
            tending.abort();
        }
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
        let front = self.0.front.clone();
        Box::pin(async move {
            let deadline = DeadlineTimer::default();
            let reply = front.answer(request.map(Source::any), &deadline).await;
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
