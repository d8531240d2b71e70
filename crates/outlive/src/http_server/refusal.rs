//! What is refused, and with which words.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use outlive_core::Error;
use outlive_core::message::Defect;
use outlive_core::protocol::{code, version};

use super::access::header;
use super::listener::Endpoint;
use super::reply::{self, Reply, SESSION_ID, VERSION};

/// A refusal on the way.
pub(super) type Refused<T> = Result<T, Box<Reply>>;

/// The answer to a client of a session that there is not.
pub(super) fn session_not_found() -> Box<Reply> {
    let sentence = "Session not found: it has ended. Send `initialize` to begin another.";
    reply::error(
        StatusCode::NOT_FOUND,
        b"",
        Error::SessionExpired.code(),
        sentence.into(),
    )
    .into()
}

/// The answer to a client of a session that another process answers for by now.
pub(super) fn lost() -> Reply {
    reply::busy("Another process answers for this session by now. Send the request again.")
}

pub(super) fn shutting_down() -> Box<Reply> {
    reply::busy("The server is shutting down.").into()
}

pub(super) fn malformed(defect: &Defect) -> Reply {
    let sentence = format!("The body is not a message: {}.", defect.detail);
    reply::error(
        StatusCode::BAD_REQUEST,
        &defect.id_json,
        code::PARSE_ERROR,
        sentence,
    )
}

/// Modern clients know neither sessions nor standalone streams, and so neither GET nor DELETE (2026-07-28, earlier
/// Streamable HTTP revisions). One that names a session is told what is wrong with that instead.
pub(super) fn must_not_be_modern(headers: &HeaderMap) -> Refused<()> {
    let modern = header(headers, VERSION).is_some_and(|it| it.trim() == version::MODERN);
    match modern && !headers.contains_key(SESSION_ID) {
        true => Err(reply::only("POST").into()),
        false => Ok(()),
    }
}

/// Refuses a request of a session that names a revision which no session has.
pub(super) fn must_be_of_a_session(headers: &HeaderMap) -> Refused<()> {
    match header(headers, VERSION) {
        Some(version) if !version::LEGACY.contains(&version.trim()) => {
            Err(unknown_version(headers, b"").into())
        }
        _ => Ok(()),
    }
}

/// A request of a session names a revision that no session has (2025-11-25, transports: status 400).
pub(super) fn unknown_version(headers: &HeaderMap, id_json: &[u8]) -> Reply {
    let version = header(headers, VERSION).unwrap_or_default();
    let shown: String = version.chars().take(40).collect();
    let sentence = format!(
        "Unsupported protocol version: MCP-Protocol-Version is {shown:?}, which is no revision of a session. \
         Nothing was executed. Send the revision that `initialize` agreed on, one of {}.",
        version::LEGACY.join(", ")
    );
    reply::error(
        StatusCode::BAD_REQUEST,
        id_json,
        code::INVALID_REQUEST,
        sentence,
    )
}

/// Where the endpoints are, as far as they fit into a sentence.
pub(super) fn places(endpoints: &[Arc<Endpoint>]) -> String {
    const MOST: usize = 20;
    let paths = endpoints.iter().take(MOST).map(|it| it.path.as_str());
    let paths = paths.collect::<Vec<_>>().join(", ");
    match endpoints.len().checked_sub(MOST) {
        None | Some(0) => format!("The servers are at {paths}"),
        Some(more) => format!("The servers are at {paths}, and {more} more"),
    }
}

/// Refuses a body of another kind: no form of a web page may send one (FM-72).
pub(super) fn must_be_json(headers: &HeaderMap) -> Refused<()> {
    let kind = header(headers, CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            let sentence = "The body must be JSON: Content-Type: application/json.";
            Err(reply::refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, sentence).into())
        }
    }
}

/// Whether the client takes what a call may be answered with.
pub(super) fn accepts_both(headers: &HeaderMap) -> bool {
    accepts(headers, "application/json") && accepts(headers, "text/event-stream")
}

/// Whether the client takes this type. One that does not say what it takes takes everything.
pub(super) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let mut all = headers.get_all(ACCEPT).iter().peekable();
    if all.peek().is_none() {
        return true;
    }
    let (family, _) = kind.split_once('/').unwrap_or((kind, ""));
    all.filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim())
        .any(|range| {
            range == "*/*"
                || range.eq_ignore_ascii_case(kind)
                || range
                    .strip_suffix("/*")
                    .is_some_and(|it| it.eq_ignore_ascii_case(family))
        })
}
