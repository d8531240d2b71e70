//! One session on a server: what all its HTTP requests share.
//!
//! A session has connections of its own. They are thrown away with it, and when it is told so.

use std::error::Error as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive_core::Message;
use outlive_core::http_upstream::{Attempt, DELETE_TIMEOUT, Failure};
use outlive_core::protocol::header;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Request, Url};
use tokio::time::timeout;

use super::body::marked;
use super::credentials::CredentialStore;
use super::known::SharedKnown;
use super::request::{Pieces, Signal, Signals, read};
use super::response::head;

const SESSION: HeaderName = HeaderName::from_static(header::SESSION_ID);
const VERSION: HeaderName = HeaderName::from_static(header::PROTOCOL_VERSION);
const LAST_EVENT: HeaderName = HeaderName::from_static(header::LAST_EVENT_ID);

/// Longer than a good network ever takes to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// An unused connection is not used again after this time: common servers close theirs after five
/// seconds, and a request that meets the closing half-way is lost.
const POOL_IDLE: Duration = Duration::from_secs(4);
/// A silent connection is asked for a sign of life this often, …
const KEEPALIVE: Duration = Duration::from_secs(15);
/// … and given up when what was sent is not acknowledged for this long. Only Linux has such a limit; elsewhere the
/// signs of life have to do.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(45);

/// How connections are made.
#[derive(Clone, Debug)]
pub(super) struct Wiring {
    pub(super) tls: rustls::ClientConfig,
    /// The server is on this machine: no proxy is asked.
    pub(super) local: bool,
    /// An answer that stops for longer will not go on.
    pub(super) stall: Duration,
    /// Where credentials come from that are not among the headers.
    pub(super) credential_store: Option<CredentialStore>,
}

impl Wiring {
    fn client(&self) -> reqwest::Result<Client> {
        let mut client = Client::builder()
            .user_agent(concat!("outlive/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .pool_idle_timeout(POOL_IDLE)
            .tcp_nodelay(true)
            .tcp_keepalive(KEEPALIVE)
            .tcp_keepalive_interval(KEEPALIVE)
            .tcp_keepalive_retries(2)
            .tls_backend_preconfigured(self.tls.clone())
            // Both are decided elsewhere: nothing is sent twice here.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never());
        #[cfg(target_os = "linux")]
        {
            client = client.tcp_user_timeout(USER_TIMEOUT);
        }
        if self.local {
            client = client.no_proxy();
        }
        client.build()
    }
}

/// What changes in a session's life.
#[derive(Debug)]
struct State {
    client: Client,
    /// Where messages go.
    url: Url,
    /// The name the server has given the session.
    id: Option<HeaderValue>,
    /// The version that was agreed on.
    version: Option<HeaderValue>,
}

/// One session on a server.
#[derive(Debug)]
pub(super) struct HttpSession {
    wiring: Wiring,
    /// What the user wants on every request.
    headers: HeaderMap,
    /// The longest message.
    pub(super) limit: usize,
    /// What is known of the server.
    pub(super) known: Arc<SharedKnown>,
    state: Mutex<State>,
}

/// An HTTP request that is to be made.
pub(super) struct Prepared {
    attempt: Attempt,
    request: Request,
    client: Client,
    credential_store: Option<CredentialStore>,
    /// Which credentials it has.
    turn: u64,
    /// Which mirrored headers it has.
    mirrored: u64,
}

impl HttpSession {
    pub(super) fn new(
        url: Url,
        headers: HeaderMap,
        wiring: Wiring,
        known: Arc<SharedKnown>,
        limit: usize,
    ) -> Result<HttpSession, String> {
        let client = wiring.client().map_err(|error| words(&error))?;
        let state = State {
            client,
            url,
            id: None,
            version: None,
        };
        Ok(HttpSession {
            wiring,
            headers,
            limit,
            known,
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long an answer may stop in the middle.
    pub(super) fn stall(&self) -> Duration {
        self.wiring.stall
    }

    pub(super) fn credential_store(&self) -> Option<&CredentialStore> {
        self.wiring.credential_store.as_ref()
    }

    /// From now on messages go to this address, which an HTTP+SSE server names.
    pub(super) fn locate(&self, address: &str) -> Result<(), String> {
        let mut state = self.state();
        let endpoint = state.url.join(address).map_err(|error| error.to_string())?;
        // Whoever names another origin may only want our credentials.
        if endpoint.origin() != state.url.origin() {
            return Err("the `endpoint` is at another origin".into());
        }
        state.url = endpoint;
        Ok(())
    }

    /// From now on messages go to this address.
    pub(super) fn settle(&self, address: &str) {
        if let Ok(url) = Url::parse(address) {
            self.state().url = url;
        }
    }

    /// The server knows the session by this name.
    pub(super) fn set_name(&self, mut name: HeaderValue) {
        name.set_sensitive(true);
        self.state().id = Some(name);
    }

    /// This version was agreed on.
    pub(super) fn set_version(&self, version: &str) {
        self.state().version = HeaderValue::from_str(version).ok();
    }

    /// Connections made before now are not used again.
    pub(super) fn renew(&self) {
        if let Ok(client) = self.wiring.client() {
            self.state().client = client;
        }
    }

    /// What a modern message says in its headers.
    pub(super) fn mirrored(&self, message: &Message) -> HeaderMap {
        match message.is_modern() {
            true => self.known.mirror().headers(message),
            false => HeaderMap::new(),
        }
    }

    /// A POST with this message.
    pub(super) fn post(
        &self,
        attempt: Attempt,
        message: &Message,
        to: Option<String>,
        signals: &Signals,
    ) -> Prepared {
        let mut headers = self.common();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        let own = self.mirrored(message);
        let mirrored = fingerprint(&own);
        headers.extend(own);
        let (mut request, turn) = self.request(Method::POST, headers, to);
        let body = marked(message.bytes().clone(), attempt, signals);
        *request.body_mut() = Some(body);
        Prepared {
            mirrored,
            ..self.prepared(attempt, request, turn)
        }
    }

    /// A GET for a stream of events, behind `cursor` if it is to go on.
    pub(super) fn get(
        &self,
        attempt: Attempt,
        cursor: Option<&str>,
        to: Option<String>,
    ) -> Prepared {
        let mut headers = self.common();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(cursor) = cursor.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(LAST_EVENT, cursor);
        }
        let (request, turn) = self.request(Method::GET, headers, to);
        self.prepared(attempt, request, turn)
    }

    /// A DELETE of the session.
    pub(super) fn delete(&self, attempt: Attempt, to: Option<String>) -> Prepared {
        let (request, turn) = self.request(Method::DELETE, self.common(), to);
        self.prepared(attempt, request, turn)
    }

    /// Tells the server that the session is not needed any more. Whether it cares is its business.
    pub(super) async fn leave(&self, to: Option<String>) {
        let (request, _) = self.request(Method::DELETE, self.common(), to);
        let client = self.state().client.clone();
        let _ = timeout(DELETE_TIMEOUT, client.execute(request)).await;
    }

    fn common(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        let state = self.state();
        if let Some(id) = &state.id {
            headers.insert(SESSION, id.clone());
        }
        if let Some(version) = &state.version {
            headers.insert(VERSION, version.clone());
        }
        headers
    }

    /// A request to this address, or that of the session, with the credentials there are; and which these are.
    fn request(&self, method: Method, headers: HeaderMap, to: Option<String>) -> (Request, u64) {
        let to = to.and_then(|to| Url::parse(&to).ok());
        let url = to.unwrap_or_else(|| self.state().url.clone());
        let mut request = Request::new(method, url);
        *request.headers_mut() = headers;
        let Some(credential_store) = self.credential_store() else {
            return (request, 0);
        };
        let (turn, value) = credential_store.now();
        if let Some(value) = value {
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        (request, turn)
    }

    fn prepared(&self, attempt: Attempt, request: Request, turn: u64) -> Prepared {
        Prepared {
            attempt,
            request,
            client: self.state().client.clone(),
            credential_store: self.credential_store().cloned(),
            turn,
            mirrored: 0,
        }
    }
}

impl Prepared {
    /// Makes the request and tells what comes back.
    pub(super) async fn run(self, signals: Signals, pieces: Pieces) {
        let attempt = self.attempt;
        let sent = self.request.url().clone();
        match self.client.execute(self.request).await {
            Ok(response) => {
                if let Some(credential_store) = &self.credential_store {
                    credential_store.answered(self.turn, response.status().as_u16());
                }
                let name = response.headers().get(&SESSION).cloned();
                let head = head(&response, &sent, self.turn, self.mirrored, name.is_some());
                // Without a link there is nobody to tell.
                let _ = signals.send(Signal::Response(attempt, Box::new(head), name));
                read(attempt, response, pieces).await;
            }
            Err(error) => {
                let failure = match error.is_connect() {
                    true => Failure::Unsent(words(&error)),
                    false => Failure::Broken(words(&error)),
                };
                let _ = signals.send(Signal::Failed(attempt, failure));
            }
        }
    }
}

/// Tells mirrored headers from others.
pub(super) fn fingerprint(headers: &HeaderMap) -> u64 {
    let mut pairs: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    pairs.sort_unstable();
    let mut hasher = DefaultHasher::new();
    pairs.hash(&mut hasher);
    hasher.finish()
}

/// What went wrong, in the words of whoever noticed it, without the address: that may hold secrets.
pub(super) fn words(error: &reqwest::Error) -> String {
    if error.is_timeout() && error.is_connect() {
        return format!("connecting took longer than {} s", CONNECT.as_secs());
    }
    let mut deepest = error.source();
    while let Some(source) = deepest.and_then(|error| error.source()) {
        deepest = Some(source);
    }
    match deepest {
        Some(error) => error.to_string(),
        None => "the request failed".into(),
    }
}
