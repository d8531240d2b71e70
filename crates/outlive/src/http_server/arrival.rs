//! The HTTP request that brought a message.

use hyper::header::{AUTHORIZATION, COOKIE, HeaderMap, PROXY_AUTHORIZATION};
use hyper::http::request::Parts;
use outlive_core::principal::Principal;

use super::reply::SESSION_ID;

/// The head of an HTTP request, and who it comes from. Handlers may look at it for as long as they run.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) parts: Parts,
    pub(crate) principal: Principal,
}

impl Arrival {
    /// Marks what is a secret, so that it is not shown where headers are written for people (`{:?}`).
    pub(super) fn new(mut parts: Parts, principal: Principal) -> Arrival {
        for (name, value) in &mut parts.headers {
            if [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, SESSION_ID].contains(name) {
                value.set_sensitive(true);
            }
        }
        Arrival { parts, principal }
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }
}
