//! A server somewhere else.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use outlive_core::Generation;
use outlive_core::cause::{Exit, StartFailure};
use percent_encoding::percent_decode_str;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderValue};

use super::credentials::{CredentialStore, Credentials};
use super::headers::Headers;
use super::known::SharedKnown;
use super::link::HttpLink;
use super::session::{HttpSession, Wiring};
use super::{Transport, tls};
use crate::client::Era;
use crate::driver::upstream::{Link, Upstream};
use crate::secrets::Secrets;

/// Longer than any network stops that still goes on.
const STALL: Duration = Duration::from_secs(60);

/// A server that is reached over HTTP, by its address.
///
/// What is wrong with it is told by [`check`](Remote::check), or else when it is connected to. Parsing it from text
/// fails at once:
///
/// ```
/// let error = "example.com/mcp".parse::<outlive::Remote>().unwrap_err();
/// assert_eq!(error.to_string(), "that is no address: relative URL without a base");
/// ```
#[derive(Clone, Debug)]
pub struct Remote {
    url: Result<Url, String>,
    headers: Headers,
    header_problem: Option<String>,
    ca_file: Option<PathBuf>,
    transport: Option<Transport>,
    era: Option<Era>,
    stall: Duration,
    credential_store: Option<CredentialStore>,
}

impl Remote {
    /// The server at this address, `http://…` or `https://…`.
    pub fn new(url: impl AsRef<str>) -> Remote {
        Remote {
            url: parse(url.as_ref()),
            headers: Headers::default(),
            header_problem: None,
            ca_file: None,
            transport: None,
            era: None,
            stall: STALL,
            credential_store: None,
        }
    }

    /// Whether the other is reached in the same way, with the same words.
    #[cfg(feature = "gateway")]
    pub(crate) fn is_like(&self, other: &Remote) -> bool {
        let same_credentials = match (&self.credential_store, &other.credential_store) {
            (None, None) => true,
            (Some(one), Some(other)) => one.is_same(other),
            _ => false,
        };
        same_credentials
            && (&self.url, &self.headers) == (&other.url, &other.headers)
            && (&self.header_problem, &self.ca_file) == (&other.header_problem, &other.ca_file)
            && (self.transport, self.era) == (other.transport, other.era)
            && self.stall == other.stall
    }

    /// Sends this header, written `Name: value`, with every request. `${NAME}` in it stands for a
    /// variable of the environment.
    pub fn header(mut self, line: impl AsRef<str>) -> Remote {
        if let Err(why) = self.headers.add(line.as_ref()) {
            self.header_problem.get_or_insert(why);
        }
        self
    }

    /// Sends the headers in this file, one per line, too. It is read again for every connection, so that
    /// credentials can be exchanged while the session lives.
    pub fn header_file(mut self, file: impl Into<PathBuf>) -> Remote {
        self.headers.set_file(&file.into());
        self
    }

    /// Trusts the certificates in this PEM file beside those of the system.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Remote {
        self.ca_file = Some(file.into());
        self
    }

    /// Uses this transport rather than finding out which one the server speaks.
    pub fn transport(mut self, transport: Transport) -> Remote {
        self.transport = Some(transport);
        self
    }

    /// Speaks only this era of the protocol with it.
    pub fn era(mut self, era: Era) -> Remote {
        self.era = Some(era);
        self
    }

    /// Gives up an answer that stops in the middle for this long (a minute). A stream of events may be
    /// silent for as long as it likes.
    pub fn stall_timeout(mut self, stall: Duration) -> Remote {
        self.stall = stall;
        self
    }

    /// Obtains the `Authorization` of all requests in this way, whenever the server wants another (401, or 403 with a
    /// challenge). What was refused for want of it is sent again, up to three times.
    ///
    /// ```no_run
    /// # async fn log_in(challenge: Option<String>) -> Option<String> { None }
    /// # async fn example() -> Result<(), outlive::Error> {
    /// use outlive::{Challenge, Client, Remote};
    ///
    /// let remote = Remote::new("https://example.com/mcp").credentials(|challenge: Challenge| async {
    ///     let token = log_in(challenge.authenticate).await?;
    ///     Some(format!("Bearer {token}"))
    /// });
    /// let client = Client::builder().url(remote).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn credentials(mut self, credentials: impl Credentials) -> Remote {
        self.credential_store = Some(CredentialStore::new(credentials));
        self
    }

    /// What is wrong with it, as far as that can be told without connecting.
    pub fn check(&self) -> Result<(), RemoteError> {
        if let Some(why) = &self.header_problem {
            return Err(RemoteError(why.clone()));
        }
        let session = self.session(Arc::default(), 1);
        session.map(drop).map_err(RemoteError)
    }

    /// What is wrong with what was written: nothing outside is looked at, which may be mended meanwhile.
    pub(crate) fn check_words(&self) -> Result<(), String> {
        self.url.as_ref().map_err(String::clone)?;
        self.header_problem.clone().map_or(Ok(()), Err)
    }

    /// The address as it may be shown: without credentials and without the values of its query.
    pub fn label(&self) -> String {
        match &self.url {
            Ok(url) => shown(url),
            Err(_) => "the server".into(),
        }
    }

    /// Whether it is sent credentials that the user has written down.
    pub fn has_authorization(&self) -> bool {
        let in_address = |url: &Url| !url.username().is_empty() || url.password().is_some();
        let headers = self.headers.pairs().unwrap_or_default();
        self.url.as_ref().is_ok_and(in_address)
            || headers.iter().any(|(name, _)| name == AUTHORIZATION)
    }

    /// What must not be shown of it.
    pub fn secrets(&self) -> Secrets {
        let mut secrets = Secrets::of_environment();
        if let Ok(url) = &self.url {
            let password = url.password().unwrap_or_default();
            secrets.reveal_nothing_of(password);
            secrets.reveal_nothing_of(&percent_decode_str(password).decode_utf8_lossy());
            for (_, value) in url.query_pairs() {
                secrets.reveal_nothing_of(&value);
            }
        }
        for (name, value) in self.headers.pairs().unwrap_or_default() {
            secrets.add_header(name.as_str(), &value);
        }
        secrets
    }

    /// A session to be opened with it.
    fn session(&self, known: Arc<SharedKnown>, limit: usize) -> Result<HttpSession, String> {
        let mut url = self.url.clone()?;
        let mut headers = self.headers.read()?;
        if let Some(credentials) = take_credentials(&mut url) {
            headers.entry(AUTHORIZATION).or_insert(credentials);
        }
        let wiring = Wiring {
            tls: tls::config(url.scheme() == "https", self.ca_file.as_deref())?,
            local: is_local(&url),
            stall: self.stall,
            credential_store: self.credential_store.clone(),
        };
        HttpSession::new(url, headers, wiring, known, limit)
    }
}

/// Why a server cannot be reached the way it was told: its address, a header or a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteError(String);

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RemoteError {}

impl FromStr for Remote {
    type Err = RemoteError;

    fn from_str(url: &str) -> Result<Remote, RemoteError> {
        let remote = Remote::new(url);
        match &remote.url {
            Ok(_) => Ok(remote),
            Err(why) => Err(RemoteError(why.clone())),
        }
    }
}

impl<S: AsRef<str>> From<S> for Remote {
    fn from(url: S) -> Remote {
        Remote::new(url)
    }
}

fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("that is no address: {error}"))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        other => Err(format!(
            "an address begins with http:// or https://, not with {other}:"
        )),
    }
}

/// Takes the credentials out of an address, as the header they are sent in.
fn take_credentials(url: &mut Url) -> Option<HeaderValue> {
    let pair = match (url.username(), url.password()) {
        ("", None) => return None,
        (name, password) => {
            let password = password.unwrap_or_default();
            let decoded = |text| percent_decode_str(text).collect::<Vec<u8>>();
            [decoded(name), b":".to_vec(), decoded(password)].concat()
        }
    };
    // Neither can fail for an address with a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let mut header =
        HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(&pair))).ok()?;
    header.set_sensitive(true);
    Some(header)
}

fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    // Neither can fail for an address with a host.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    let names: Vec<String> = url
        .query_pairs()
        .map(|(name, _)| format!("{name}=…"))
        .collect();
    shown.set_query(None);
    shown.set_fragment(None);
    match names.is_empty() {
        true => shown.to_string(),
        false => format!("{shown}?{}", names.join("&")),
    }
}

/// Whether an address is on this machine, where no proxy leads to.
pub(crate) fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|ip| ip.is_loopback())
}

/// Opens sessions with the same server again and again.
pub(crate) struct Sessions {
    remote: Remote,
    secrets: Secrets,
    message_limit: usize,
    known: Arc<SharedKnown>,
}

impl Sessions {
    pub(crate) fn new(remote: Remote, message_limit: usize) -> Sessions {
        Sessions {
            secrets: remote.secrets(),
            remote,
            message_limit,
            known: Arc::default(),
        }
    }
}

impl Upstream for Sessions {
    type Link = HttpLink;

    fn connect(&mut self, generation: Generation) -> Result<HttpLink, StartFailure> {
        let remote = &self.remote;
        // Credentials may have been exchanged since the last time.
        self.secrets = remote.secrets();
        let failed = |error: RemoteError| StartFailure::Other(error.0);
        remote.check().map_err(failed)?;
        let session = remote.session(self.known.clone(), self.message_limit);
        let session = session.map_err(StartFailure::Other)?;
        let handshake = remote.era != Some(Era::Modern);
        Ok(HttpLink::new(
            generation,
            session,
            remote.transport,
            handshake,
        ))
    }

    /// A link has no end but that of its session, which is read.
    fn poll_ended(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn end(&mut self, link: HttpLink, _others: &[HttpLink]) -> (Exit, u64) {
        (Exit::Unknown, link.sent())
    }

    fn mask(&self, text: &str) -> String {
        let masked = self.secrets.mask(text);
        match &self.remote.credential_store {
            Some(credential_store) => credential_store.mask(masked),
            None => masked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_holds_no_secret() {
        let remote = Remote::new("https://me:hunter22@example.com/mcp?key=s3cret-key&b=1")
            .header("X-Anything: hunter33");
        assert_eq!(remote.label(), "https://example.com/mcp?key=…&b=…");
        let masked = remote.secrets().mask("hunter22 s3cret-key hunter33");
        assert_eq!(masked, "*** *** ***");
        let shown = format!("{remote:?}");
        assert!(!shown.contains("hunter33"), "{shown}");
    }

    #[test]
    fn credentials_in_an_address_are_a_header() {
        for (url, header) in [
            ("http://a@b/", Some("Basic YTo=")),
            ("http://user:p%40ss%2@b/", Some("Basic dXNlcjpwQHNzJTI=")),
            ("http://b/", None),
        ] {
            let mut url = Url::parse(url).unwrap();
            let found = take_credentials(&mut url);
            assert_eq!(
                found.as_ref().map(HeaderValue::as_bytes),
                header.map(str::as_bytes)
            );
            assert_eq!(url.as_str(), "http://b/");
        }
    }

    #[test]
    fn what_is_no_address_is_said() {
        for (url, word) in [
            ("ftp://example.com", "http://"),
            ("example.com/mcp", "no address"),
            ("http:///x y", "no address"),
        ] {
            let why = Remote::new(url).check().unwrap_err().to_string();
            assert!(why.contains(word), "{url}: {why}");
        }
        let nameless = Remote::new("http://localhost/").header("no header");
        assert!(nameless.check().is_err());
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        let local = |url| is_local(&Url::parse(url).unwrap());
        for url in [
            "http://localhost:1/",
            "http://127.0.0.2/",
            "http://[::1]:8/",
        ] {
            assert!(local(url), "{url}");
        }
        assert!(!local("http://example.com/"));
        assert!(!local("http://localhost.example.com/"));
    }
}
