//! The HTTP request that brought a message.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use hyper::{Method, Request, Uri};
use outlive_core::principal::Principal;

use super::body::{Source, Unread};
use super::head::Head;

/// The head of an HTTP request, and who it comes from. Handlers may look at it for as long as they run.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) parts: Parts,
    pub(crate) principal: Principal,
}

impl Arrival {
    pub(super) fn method(&self) -> &Method {
        &self.parts.method
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.parts.uri
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }
}

/// A request that nobody has looked at but for its headers. Its head is put where it stays at once: it is large, and
/// would be moved from one future into the next.
pub(crate) struct Arrived {
    pub(super) arrival: Arc<Arrival>,
    pub(super) head: Head,
    pub(super) body: Unread,
}

impl Arrived {
    /// `body_time`: how long the body may take.
    pub(crate) fn new(request: Request<Source>, body_time: Duration) -> Arrived {
        let (mut parts, body) = request.into_parts();
        let head = Head::read(&mut parts.headers);
        let arrival = Arrival {
            parts,
            // Nobody knows yet.
            principal: Principal::Anyone,
        };
        Arrived {
            arrival: Arc::new(arrival),
            head,
            body: Unread::new(body, head.waits, body_time),
        }
    }
}
