//! What is told about a server to those who watch it.
//!
//! `/health` and `/ready` are asked by machines that have no token and know us by whatever address
//! they like; so they are open, and say nothing that is a secret: the kind of a cause, but no command
//! line and no output of the server. Under a name that we do not know, or for a page from elsewhere, they say
//! yes or no and nothing else: such a request may come from a page that has rebound its name to us (FM-72).
//! `/metrics` and the page for people need the token, if there is one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hyper::{Method, Request, StatusCode};
use outlive_core::principal::Principal;
use serde_json::{Value, json};

use super::body::Unread;
use super::endpoint::Refused;
use super::listener::HttpListener;
use super::reply::{self, Reply};

/// The version of the format that `/metrics` is written in.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Who can tell about a server.
pub(crate) trait Pages: Send + Sync {
    /// Whether calls would be answered. With `full`, the data may hold what only those may see who may
    /// also use the server.
    fn ready(&self, full: bool) -> Readiness;

    /// All numbers, as Prometheus reads them.
    fn metrics(&self, stats: &ListenerStats) -> String;

    /// A page for people.
    fn status(&self, stats: &ListenerStats) -> String;
}

/// Whether calls would be answered, and why not.
pub(crate) struct Readiness {
    pub(crate) ready: bool,
    pub(crate) data: Value,
}

/// Whose a server is that one session has to itself.
#[derive(Clone)]
#[cfg_attr(
    not(feature = "gateway"),
    expect(dead_code, reason = "only a gateway shows it")
)]
pub(crate) struct ServerUse {
    /// Where the token that opened the session stands among those that are good.
    pub(crate) token: Option<usize>,
    /// How long ago it was last used.
    pub(crate) unused: Duration,
    /// When it ends if it is not used; `None` while it is.
    pub(crate) ends: Option<Duration>,
}

/// Who is here.
#[cfg_attr(
    not(feature = "gateway"),
    expect(dead_code, reason = "only a gateway shows it")
)]
pub(crate) struct ListenerStats {
    pub(crate) connections: usize,
    pub(crate) sessions: usize,
    /// Of these, how many each principal has opened that has any.
    pub(crate) sessions_of: BTreeMap<Principal, usize>,
    pub(crate) streams: usize,
    /// By the numbers of their servers.
    pub(crate) server_uses: HashMap<u64, ServerUse>,
}

impl HttpListener {
    fn stats(&self) -> ListenerStats {
        let limits = &self.limits;
        ListenerStats {
            connections: limits.connections - self.places.available_permits(),
            sessions: self.sessions.count(),
            sessions_of: self.sessions.count_by_principal(),
            streams: limits.streams - self.streams.available_permits(),
            server_uses: self.sessions.server_uses(self.access.tokens.as_ref()),
        }
    }

    /// The answer to a machine that asks how we are, if this is such a request.
    pub(super) fn probe(self: &Arc<HttpListener>, request: &Request<Unread>) -> Option<Reply> {
        let pages = self.backend.pages()?;
        let asked = request.uri().path();
        if !matches!(asked, "/health" | "/ready") || self.endpoint_at(asked).is_some() {
            return None;
        }
        if !is_look(request) {
            return Some(reply::only("GET"));
        }
        let json = "application/json";
        Some(match asked {
            "/health" => reply::page(StatusCode::OK, json, "{\"live\":true}\n".into()),
            _ => {
                let (headers, uri) = (request.headers(), request.uri());
                let known = self.access.check_names(headers, uri).is_ok();
                let may_see_all = known && self.access.may_see_all(headers);
                let Readiness { ready, mut data } = pages.ready(may_see_all);
                if !known {
                    data = json!({ "ready": ready });
                }
                let status = match ready {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                reply::page(status, json, format!("{data}\n"))
            }
        })
    }

    /// The page that is asked for, if it is one of ours.
    pub(super) fn page(
        self: &Arc<HttpListener>,
        request: &Request<Unread>,
    ) -> Option<Refused<Reply>> {
        let pages = self.backend.pages()?;
        let asked = request.uri().path();
        if !matches!(asked, "/" | "/metrics") || self.endpoint_at(asked).is_some() {
            return None;
        }
        if !is_look(request) {
            return Some(Ok(reply::only("GET")));
        }
        if let Err(refusal) = self.access.authenticate_browser(request.headers()) {
            return Some(Err(refusal));
        }
        let stats = self.stats();
        let (kind, body) = match asked {
            "/metrics" => (PROMETHEUS, pages.metrics(&stats)),
            _ => ("text/html; charset=utf-8", pages.status(&stats)),
        };
        Some(Ok(reply::page(StatusCode::OK, kind, body)))
    }
}

fn is_look(request: &Request<Unread>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}
