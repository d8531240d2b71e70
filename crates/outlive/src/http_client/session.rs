//! One session on a server: what all its exchanges share.
//!
//! A session has connections of its own. They are thrown away with it, and also when one of them broke:
//! the others may be as dead without our knowing (FM-24).

use std::error::Error as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlive_core::Message;
use outlive_core::protocol::header;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use reqwest::{Client, Method, Request, Response, Url};
use tokio::time::{sleep_until, timeout};

pub(super) use super::body::Written;
use super::credentials::{Challenge, Keyring};
use super::known::Known;
use super::verdict::changes_nothing;

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
/// … and given up when what was sent is not acknowledged for this long.
const USER_TIMEOUT: Duration = Duration::from_secs(45);
/// After a connection broke, nothing is sent for this long. A server that died takes a moment to
/// close its port, and what it is sent meanwhile is lost; afterwards it is merely refused.
const QUIET: Duration = Duration::from_millis(100);
/// How many times in a row a server may say that its endpoint is elsewhere.
const MOST_REDIRECTS: usize = 5;
/// How many times in a row a server may want other credentials.
const MOST_CHALLENGES: usize = 3;
/// How long a server may take to hear that its session is not needed any more.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why there is no response.
#[derive(Debug)]
pub(super) enum Failure {
    /// No byte of the request left us.
    Unsent(String),
    /// The connection broke; the request may have arrived.
    Broken(String),
    /// The server did not execute it and names an address that we do not go to; with which status, and why not.
    Elsewhere(u16, String),
}

/// What is sent with a request.
#[derive(Clone)]
struct Body {
    bytes: bytes::Bytes,
    written: Written,
    /// It may reach a server twice.
    harmless: bool,
    /// A session begins with it.
    begins: bool,
}

/// How connections are made.
#[derive(Clone, Debug)]
pub(super) struct Wiring {
    pub(super) tls: rustls::ClientConfig,
    /// The server is on this machine: no proxy is asked.
    pub(super) local: bool,
    /// An answer that stops for longer will not go on.
    pub(super) stall: Duration,
    /// Where credentials come from that are not among the headers.
    pub(super) keyring: Option<Keyring>,
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
            // Followed by `HttpSession::send`, which knows the method and the origin.
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
    /// When a connection last broke.
    broke: Option<Instant>,
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
    pub(super) known: Arc<Known>,
    /// Held while its tools are listed again.
    pub(super) listing: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

impl HttpSession {
    pub(super) fn new(
        url: Url,
        headers: HeaderMap,
        wiring: Wiring,
        known: Arc<Known>,
        limit: usize,
    ) -> Result<HttpSession, String> {
        let client = wiring.client().map_err(|error| words(&error))?;
        let state = State {
            client,
            url,
            id: None,
            version: None,
            broke: None,
        };
        Ok(HttpSession {
            wiring,
            headers,
            limit,
            known,
            listing: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn url(&self) -> Url {
        self.state().url.clone()
    }

    /// How long an answer may stop in the middle.
    pub(super) fn stall(&self) -> Duration {
        self.wiring.stall
    }

    /// From now on messages go there (HTTP+SSE).
    pub(super) fn set_url(&self, url: Url) {
        self.state().url = url;
    }

    /// Whether the server knows the session by a name.
    pub(super) fn is_named(&self) -> bool {
        self.state().id.is_some()
    }

    /// Takes note of the name the server gives the session with its answer to `initialize`.
    pub(super) fn note_name(&self, response: &Response) {
        // An `initialize` within a session need not name it again.
        if let Some(mut id) = response.headers().get(&SESSION).cloned() {
            id.set_sensitive(true);
            self.state().id = Some(id);
        }
    }

    /// Whether an `initialize` was answered.
    pub(super) fn has_begun(&self) -> bool {
        let state = self.state();
        state.id.is_some() || state.version.is_some()
    }

    /// Takes note of the version that was agreed on.
    pub(super) fn note_version(&self, version: &str) {
        self.state().version = HeaderValue::from_str(version).ok();
    }

    /// Connections made before now are not used again.
    pub(super) fn renew(&self) {
        if let Ok(client) = self.wiring.client() {
            self.state().client = client;
        }
    }

    /// A connection broke.
    pub(super) fn note_break(&self) {
        self.renew();
        self.state().broke = Some(Instant::now());
    }

    /// Waits until it is clear what a break meant.
    async fn quiet(&self) {
        let broke = self.state().broke;
        if let Some(broke) = broke {
            sleep_until((broke + QUIET).into()).await;
        }
    }

    /// A POST with this message.
    pub(super) async fn post(
        &self,
        message: &Message,
        own: HeaderMap,
        written: Written,
    ) -> Result<Response, Failure> {
        let mut headers = self.common();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        headers.extend(own);
        let body = Body {
            bytes: message.bytes().clone(),
            written,
            harmless: changes_nothing(message),
            begins: message.is("initialize"),
        };
        self.send(Method::POST, headers, Some(body)).await
    }

    /// A GET for a stream of events, behind `cursor` if it is to go on.
    pub(super) async fn get(&self, cursor: Option<&str>) -> Result<Response, Failure> {
        let mut headers = self.common();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(cursor) = cursor.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(LAST_EVENT, cursor);
        }
        self.send(Method::GET, headers, None).await
    }

    /// Tells the server that the session is not needed any more. Whether it cares is its business.
    pub(super) async fn delete(&self) {
        if self.is_named() {
            let mut headers = self.common();
            // Nobody is asked for credentials only to leave.
            if let Some((_, Some(value))) = self.wiring.keyring.as_ref().map(Keyring::now) {
                headers.insert(AUTHORIZATION, value);
            }
            let _ = timeout(FAREWELL, self.send_once(Method::DELETE, headers, None)).await;
        }
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

    /// Sends a request, and again with other credentials if the server wants them.
    async fn send(
        &self,
        method: Method,
        mut headers: HeaderMap,
        body: Option<Body>,
    ) -> Result<Response, Failure> {
        let Some(keyring) = &self.wiring.keyring else {
            return self.send_once(method, headers, body).await;
        };
        let mut tries = 0;
        loop {
            let (turn, value) = keyring.now();
            if let Some(value) = value {
                headers.insert(AUTHORIZATION, value);
            }
            let sent = self.send_once(method.clone(), headers.clone(), body.clone());
            let response = sent.await?;
            let Some(challenge) = Challenge::of(&response).filter(|_| tries < MOST_CHALLENGES)
            else {
                return Ok(response);
            };
            tries += 1;
            if !keyring.renew(turn, challenge).await {
                return Ok(response);
            }
        }
    }

    /// Sends a request, and again where the server says its endpoint has moved, as long as that is the
    /// same origin: nobody else gets our credentials.
    ///
    /// 307 and 308 mean that nothing was done here. 301 and 302 are also said of what was done (as 303 is, always), so
    /// they are followed only by what does no harm twice. A session that begins so stays at the address it was led to.
    async fn send_once(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Option<Body>,
    ) -> Result<Response, Failure> {
        self.quiet().await;
        let mut url = self.url();
        let harmless = body.as_ref().is_none_or(|body| body.harmless);
        let begins = body.as_ref().is_some_and(|body| body.begins);
        let mut last = 0;
        for _ in 0..=MOST_REDIRECTS {
            let mut request = Request::new(method.clone(), url.clone());
            *request.headers_mut() = headers.clone();
            *request.body_mut() = body.clone().map(|body| body.written.body(body.bytes));
            let client = self.state().client.clone();
            let response = match client.execute(request).await {
                Ok(response) => response,
                Err(error) if error.is_connect() => return Err(Failure::Unsent(words(&error))),
                Err(error) => {
                    self.note_break();
                    return Err(Failure::Broken(words(&error)));
                }
            };
            let status = response.status().as_u16();
            let moved = matches!(status, 307 | 308) || matches!(status, 301 | 302) && harmless;
            let location = response.headers().get(LOCATION).filter(|_| moved);
            let location = location.and_then(|to| to.to_str().ok());
            let Some(to) = location.and_then(|to| url.join(to).ok()) else {
                if begins && last != 0 && last != 307 && response.status().is_success() {
                    self.set_url(url);
                }
                return Ok(response);
            };
            if to.origin() != url.origin() {
                let origin = to.origin().ascii_serialization();
                return Err(Failure::Elsewhere(
                    status,
                    format!(
                        "it redirects to {origin}, which is another origin and is not given our credentials; \
                         if that is right, use that address"
                    ),
                ));
            }
            url = to;
            last = status;
        }
        Err(Failure::Elsewhere(
            last,
            format!(
                "it redirects from one of its addresses to the next, more than {MOST_REDIRECTS} times in a row"
            ),
        ))
    }

    /// The next piece of a response; an error in words.
    pub(super) async fn chunk(
        &self,
        response: &mut Response,
    ) -> Result<Option<bytes::Bytes>, String> {
        response.chunk().await.map_err(|error| {
            self.note_break();
            words(&error)
        })
    }
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
