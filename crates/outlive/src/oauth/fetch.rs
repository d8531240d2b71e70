//! Requests to authorization servers: bounded in size and time, and led nowhere else.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Request, Response, Url};
use serde_json::Value;

use super::reach::{Guard, Resolver};
use crate::http_client::challenges;

/// Metadata and tokens are small; what is larger is not read.
const LARGEST: usize = 256 << 10;
/// A whole exchange takes no longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Metadata may be moved so many times, within its origin.
const MOST_REDIRECTS: usize = 3;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");

/// Why there was no answer.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// It was certainly not read.
    pub(super) unsent: bool,
    pub(super) why: String,
}

/// Makes requests to authorization servers.
#[derive(Clone)]
pub(super) struct Fetcher {
    client: Client,
    guard: Arc<Guard>,
}

impl Fetcher {
    pub(super) fn new(
        tls: rustls::ClientConfig,
        guard: Guard,
        local: bool,
    ) -> Result<Fetcher, String> {
        let guard = Arc::new(guard);
        let mut client = Client::builder()
            .user_agent(concat!("outlive/", env!("CARGO_PKG_VERSION")))
            .timeout(PATIENCE)
            .connect_timeout(Duration::from_secs(10))
            .dns_resolver(Arc::new(Resolver(guard.clone())))
            .tls_backend_preconfigured(tls)
            // Nothing is sent twice, and nothing is sent elsewhere, unless it is said here.
            .redirect(Policy::none())
            .retry(reqwest::retry::never());
        if local {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| error.to_string())?;
        Ok(Fetcher { client, guard })
    }

    /// Why a person or we are not sent to this address, if we are not.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        self.guard.check(url)
    }

    /// The document at an address; none if there is none.
    pub(super) async fn document(&self, mut url: Url) -> Result<Option<Value>, String> {
        for _ in 0..=MOST_REDIRECTS {
            let mut request = Request::new(Method::GET, url.clone());
            request.headers_mut().insert(ACCEPT, JSON);
            let response = self.send(request).await.map_err(|it| it.why)?;
            let status = response.status();
            if status.is_redirection()
                && let Some(to) = response
                    .headers()
                    .get(LOCATION)
                    .and_then(|it| it.to_str().ok())
            {
                let to = url.join(to).map_err(|error| error.to_string())?;
                if to.origin() != url.origin() {
                    return Err(format!(
                        "{} leads to another origin",
                        url.origin().ascii_serialization()
                    ));
                }
                url = to;
                continue;
            }
            if status.is_server_error() {
                return Err(format!("{url} answered with status {}", status.as_u16()));
            }
            if !status.is_success() {
                return Ok(None);
            }
            let body = body(response).await.map_err(|it| it.why)?;
            // Some servers answer with a page where others answer 404.
            return Ok(serde_json::from_slice(&body).ok().filter(Value::is_object));
        }
        Err(format!(
            "{} leads from one address to the next",
            url.origin().ascii_serialization()
        ))
    }

    /// Asks the server itself for something, without a token: the status, and what it wants.
    pub(super) async fn challenge(&self, server: Url) -> Result<(u16, Option<String>), String> {
        let mut request = Request::new(Method::POST, server);
        let both = HeaderValue::from_static("application/json, text/event-stream");
        request.headers_mut().insert(ACCEPT, both);
        request.headers_mut().insert(CONTENT_TYPE, JSON);
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        *request.body_mut() = Some(ping.into());
        let response = self.send(request).await.map_err(|it| it.why)?;
        let challenges = challenges(response.headers());
        Ok((response.status().as_u16(), challenges))
    }

    /// Posts a form; the status and what was answered.
    pub(super) async fn form(
        &self,
        url: Url,
        headers: HeaderMap,
        form: &[(&str, &str)],
    ) -> Result<(u16, Value), Failure> {
        // A form is written like the query of an address.
        let mut encoded = Url::parse("http://form/").expect("an address");
        encoded.query_pairs_mut().extend_pairs(form);
        let body = encoded.query().unwrap_or_default().to_owned();
        self.post(url, headers, FORM, body).await
    }

    /// Posts a document; the status and what was answered.
    pub(super) async fn json(&self, url: Url, value: &Value) -> Result<(u16, Value), Failure> {
        self.post(url, HeaderMap::new(), JSON, value.to_string())
            .await
    }

    async fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        kind: HeaderValue,
        text: String,
    ) -> Result<(u16, Value), Failure> {
        let mut request = Request::new(Method::POST, url);
        *request.headers_mut() = headers;
        request.headers_mut().insert(ACCEPT, JSON);
        request.headers_mut().insert(CONTENT_TYPE, kind);
        *request.body_mut() = Some(text.into());
        let response = self.send(request).await?;
        let status = response.status().as_u16();
        let body = body(response).await?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    async fn send(&self, request: Request) -> Result<Response, Failure> {
        let origin = request.url().origin().ascii_serialization();
        let checked = self.guard.check_name(request.url()).await;
        checked.map_err(|why| Failure { unsent: true, why })?;
        self.client.execute(request).await.map_err(|error| Failure {
            unsent: error.is_connect(),
            why: format!("{origin} cannot be asked: {}", deepest(&error)),
        })
    }
}

async fn body(mut response: Response) -> Result<Vec<u8>, Failure> {
    let origin = response.url().origin().ascii_serialization();
    let broken = |why: String| Failure { unsent: false, why };
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > LARGEST => {
                return Err(broken(format!(
                    "{origin} answers with more than {LARGEST} bytes"
                )));
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => return Err(broken(format!("{origin}: {}", deepest(&error)))),
        }
    }
}

/// What went wrong, without the address: that may hold secrets.
fn deepest(error: &reqwest::Error) -> String {
    let mut found: &dyn std::error::Error = error;
    while let Some(source) = found.source() {
        found = source;
    }
    match found.to_string() {
        _ if error.is_timeout() => "no answer in time".into(),
        words => words,
    }
}
