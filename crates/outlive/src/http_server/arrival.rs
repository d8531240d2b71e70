//! The HTTP request that brought a message.

use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use outlive_core::principal::Principal;

/// The head of an HTTP request, and who it comes from. Handlers may look at it for as long as they run.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) parts: Parts,
    pub(crate) principal: Principal,
}

impl Arrival {
    pub(super) fn new(parts: Parts, principal: Principal) -> Arrival {
        Arrival { parts, principal }
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }
}
