//! Web pages of other origins.
//!
//! A browser asks before a page of another origin may send JSON or a token, and shows it the answer
//! only if that is allowed. What the [access rules](super::access) let in is allowed; so a page that was
//! admitted by a setting can really use the server.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use hyper::{Method, StatusCode};

use super::reply::{self, Reply};

/// Whether a browser only asks what would be allowed.
pub(super) fn is_question(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Everything is allowed to whoever was let in.
pub(super) fn answer(asked: &HeaderMap) -> Reply {
    let mut reply = reply::bare(StatusCode::NO_CONTENT);
    let headers = reply.headers_mut();
    let methods = HeaderValue::from_static("GET, POST, DELETE");
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if let Some(wanted) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    reply
}

/// Lets the page of this origin read the reply.
pub(super) fn show(reply: &mut Reply, origin: HeaderValue) {
    let headers = reply.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(VARY, HeaderValue::from_static("Origin"));
    let ours = HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate, Retry-After");
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, ours);
}
