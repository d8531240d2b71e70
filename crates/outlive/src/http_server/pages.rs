//! What is told about a server to those who watch it.
//!
//! `/health` and `/ready` are asked by machines that have no token and know us by whatever address
//! they like; so they are open, and say nothing that is a secret: the kind of a cause, but no command
//! line and no output of the server. Under a name that we do not know, or for a page from elsewhere, they say
//! yes or no and nothing else: such a request may come from a page that has rebound its name to us (FM-72).
//! `/metrics`, `/status.json` and the page for people need the token, if there is one; what is done from that page has
//! rules of its own ([`action`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use hyper::{HeaderMap, Method, StatusCode};
use outlive_core::principal::Principal;
use serde_json::{Value, json};

use super::action::{self, Action, ActionError};
use super::arrival::Arrival;
use super::durable::StoreStats;
use super::listener::HttpListener;
use super::refusal::Refused;
use super::reply::{self, Reply};
use super::token::Tokens;

/// The version of the format that `/metrics` is written in.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

const JSON: &str = "application/json";

/// Who can tell about a server.
pub(crate) trait Pages: Send + Sync {
    /// Whether calls would be answered. With `full`, the data may hold what only those may see who may
    /// also use the server.
    fn ready(&self, full: bool) -> Readiness;

    /// All numbers, as Prometheus reads them.
    fn metrics(&self, stats: &ListenerStats) -> String;

    /// A page for people.
    fn status(&self, stats: &ListenerStats) -> String;

    /// The same for programs.
    fn status_data(&self, stats: &ListenerStats) -> Value;

    /// What the page loads from this path, if it does.
    fn asset(&self, path: &str) -> Option<Asset>;

    /// Does something to the server of this name; the digest is that of what is accepted. Tells what was done.
    fn act(&self, name: &str, action: Action, digest: &str) -> Result<Value, ActionError>;
}

/// A part of a page.
pub(crate) struct Asset {
    /// Its media type.
    pub(crate) kind: &'static str,
    pub(crate) text: &'static str,
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
    /// What they are called for whom an identity provider has vouched.
    pub(crate) user: Option<String>,
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
    /// Where sessions are kept, if not only here.
    pub(crate) durability: Option<std::sync::Arc<super::Durability>>,
    /// The path of the first endpoint.
    pub(crate) path: String,
    /// Whether servers may be restarted and stopped over HTTP.
    pub(crate) may_act: bool,
    /// The store of sessions, if there is one.
    pub(crate) store: Option<StoreStats>,
    /// Why the file of tokens could not be read again, if it could not.
    pub(crate) token_trouble: Option<String>,
}

impl ListenerStats {
    /// Why sessions cannot be kept at the moment, if they cannot.
    #[cfg(feature = "gateway")]
    pub(crate) fn store_trouble(&self) -> Option<&str> {
        self.store.as_ref()?.trouble.as_deref()
    }
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
            durability: self.durability.clone(),
            path: self.first.path.clone(),
            may_act: self.access.may_act(self.mounted),
            store: self.durability.as_ref().map(|it| it.stats()),
            token_trouble: self.access.tokens.as_ref().and_then(Tokens::problem),
        }
    }

    /// The answer to a machine that asks how we are, if this is such a request.
    pub(super) fn probe(self: &Arc<HttpListener>, request: &Arrival) -> Option<Reply> {
        let pages = self.backend.pages()?;
        let asked = request.uri().path();
        if !matches!(asked, "/health" | "/ready") || self.endpoint_at(asked).is_some() {
            return None;
        }
        if !is_look(request.method()) {
            return Some(reply::only("GET"));
        }
        Some(match asked {
            "/health" => reply::page(StatusCode::OK, JSON, "{\"live\":true}\n".into()),
            _ => {
                let (headers, uri) = (request.headers(), request.uri());
                let known = self.access.check_names(headers, uri).is_ok();
                let may_see_all = known && self.access.may_see_all(headers);
                let Readiness { ready, mut data } = pages.ready(may_see_all);
                let trouble = self.durability.as_ref().and_then(|it| it.trouble());
                let ready = ready && trouble.is_none();
                if let Some(trouble) = trouble {
                    data["ready"] = false.into();
                    data["store"] = match may_see_all {
                        true => trouble.into(),
                        false => "it does not work".into(),
                    };
                }
                if !known {
                    data = json!({ "ready": ready });
                }
                let status = match ready {
                    true => StatusCode::OK,
                    false => StatusCode::SERVICE_UNAVAILABLE,
                };
                reply::page(status, JSON, format!("{data}\n"))
            }
        })
    }

    /// The page that is asked for at a path without an endpoint, if it is one of ours; or what came of an action.
    pub(super) async fn page(
        self: &Arc<HttpListener>,
        method: &Method,
        asked: &str,
        headers: &HeaderMap,
    ) -> Option<Refused<Reply>> {
        let pages = self.backend.pages()?;
        if let Some((name, action)) = action::named(asked) {
            let acted = self.act(pages, method, headers, &name, action);
            return Some(acted.await);
        }
        let asset = pages.asset(asked);
        if asset.is_none() && !matches!(asked, "/" | "/status.json" | "/metrics") {
            return None;
        }
        if !is_look(method) {
            return Some(Ok(reply::only("GET")));
        }
        if let Err(refusal) = self.access.authenticate_browser(headers).await {
            return Some(Err(refusal));
        }
        let (kind, body) = match (asked, asset) {
            (_, Some(asset)) => (asset.kind, asset.text.to_owned()),
            ("/metrics", _) => (PROMETHEUS, pages.metrics(&self.stats())),
            ("/status.json", _) => (JSON, format!("{}\n", pages.status_data(&self.stats()))),
            (_, _) => ("text/html; charset=utf-8", pages.status(&self.stats())),
        };
        Some(Ok(reply::page(StatusCode::OK, kind, body)))
    }

    /// Does something to a server, for whoever may have that done.
    async fn act(
        &self,
        pages: &dyn Pages,
        method: &Method,
        headers: &HeaderMap,
        name: &str,
        action: Action,
    ) -> Refused<Reply> {
        if *method != Method::POST {
            return Ok(reply::only("POST"));
        }
        self.access
            .check_action(headers, action, self.mounted)
            .await?;
        match pages.act(name, action, action::digest(headers)) {
            Ok(done) => {
                let verb = action.as_str();
                (self.tell)(&format!("{verb} of {name} was asked for over HTTP"));
                Ok(reply::page(StatusCode::OK, JSON, format!("{done}\n")))
            }
            Err(ActionError::Conflict(sentence)) => {
                Ok(reply::refusal(StatusCode::CONFLICT, sentence))
            }
            Err(ActionError::NoSuchServer(names)) => {
                let name: String = name.chars().take(100).collect();
                let sentence = format!(
                    "There is no server {name:?}; nothing was done. There is: {}.",
                    names.join(", ")
                );
                Ok(reply::refusal(StatusCode::NOT_FOUND, sentence))
            }
        }
    }
}

fn is_look(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
