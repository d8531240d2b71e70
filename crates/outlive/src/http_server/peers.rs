//! Connections to other replicas.
//!
//! Each carries one exchange at a time and is used again when that has ended. What was not written to a connection is
//! known not to have arrived, so it may be sent over another one; whatever else goes wrong, it may have.
//!
//! Whoever stands in front of a replica (a mesh, a relay) may take connections for it long after it has gone, and each
//! request would be lost there. So a replica that has left a request unanswered is asked something without consequence
//! before it gets the next one.

use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::passport::FORWARD;
use super::reply::Content;
use crate::io::peer;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(3);

/// An unused connection is not used again after this time. Shorter than a replica that ends [waits](LINGER): else a
/// request could meet the end of its connection, and nobody would know whether it has arrived.
const IDLE: Duration = Duration::from_millis(500);

/// How long a replica that has nothing left still says so to those that have not heard of it.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// How many unused connections to one replica are kept.
const SPARE: usize = 64;

/// How many replicas connections are kept to.
const REPLICAS: usize = 256;

/// How long after its last exchange a connection may take to be ready.
const READY: Duration = Duration::from_millis(100);

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Where a replica is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    encrypted: bool,
    host: String,
    port: u16,
    /// As a `Host` header has it.
    pub(super) authority: String,
    /// What stands before the paths of endpoints.
    pub(super) base: String,
}

impl Place {
    /// Reads an address, or says what is wrong with it.
    pub(super) fn read(url: &str) -> Result<Place, String> {
        let wrong = |why: &str| {
            Err(format!(
                "the address {url:?}, where other replicas are to find this one, {why}; an example is \
                 http://10.0.0.5:8620"
            ))
        };
        let Ok(uri) = url.trim().parse::<Uri>() else {
            return wrong("cannot be read");
        };
        let encrypted = match uri.scheme_str() {
            Some("http") => false,
            Some("https") if cfg!(all(feature = "tls", feature = "http")) => true,
            Some("https") => return wrong("is encrypted, which this program was built without"),
            _ => return wrong("has to begin with http:// or https://"),
        };
        let Some(authority) = uri.authority().filter(|it| !it.as_str().contains('@')) else {
            return wrong("names no host");
        };
        if uri.query().is_some() {
            return wrong("has a query");
        }
        let port = match encrypted {
            true => 443,
            false => 80,
        };
        Ok(Place {
            encrypted,
            host: authority
                .host()
                .trim_matches(['[', ']'])
                .to_ascii_lowercase(),
            port: authority.port_u16().unwrap_or(port),
            authority: authority.to_string(),
            base: uri.path().trim_end_matches('/').to_owned(),
        })
    }

    async fn connect(&self, unread: Duration) -> Option<Pin<Box<dyn Stream>>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port));
        let stream = stream.await.ok()?;
        peer::watch(&stream, unread);
        match self.encrypted {
            false => Some(Box::pin(stream)),
            #[cfg(all(feature = "tls", feature = "http"))]
            true => {
                static CONFIG: std::sync::OnceLock<std::sync::Arc<rustls::ClientConfig>> =
                    std::sync::OnceLock::new();
                let config = match CONFIG.get() {
                    Some(config) => config.clone(),
                    None => {
                        let config = crate::http_client::tls_config(true, None).ok()?;
                        CONFIG.get_or_init(|| config.into()).clone()
                    }
                };
                let name = rustls::pki_types::ServerName::try_from(self.host.clone()).ok()?;
                let connector = tokio_rustls::TlsConnector::from(config);
                Some(Box::pin(connector.connect(name, stream).await.ok()?))
            }
            #[cfg(not(all(feature = "tls", feature = "http")))]
            true => None,
        }
    }
}

/// A connection.
pub(super) type Sender = SendRequest<Content>;

/// Why there is no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoResponse {
    /// The request was not sent.
    Unreached,
    /// It may have arrived.
    Lost,
}

/// Connections to one replica, and since when they are not used.
type Spare = VecDeque<(Sender, Instant)>;

/// Connections that are not used at the moment.
pub(super) struct Peers {
    spare: Mutex<HashMap<String, Spare>>,
    /// Where a request was left unanswered last.
    suspects: Mutex<HashSet<String>>,
    /// How long a peer may take nothing.
    unread: Duration,
}

impl Peers {
    pub(super) fn new(unread: Duration) -> Peers {
        Peers {
            spare: Mutex::default(),
            suspects: Mutex::default(),
            unread,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Spare>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to the replica at this address. The connection is given [back](Peers::give_back) when the
    /// response was read.
    pub(super) async fn send(
        &self,
        address: &str,
        mut request: Request<Content>,
    ) -> Result<(Response<Incoming>, Sender), NoResponse> {
        while let Some(mut sender) = self.take(address) {
            let ready = timeout(READY, sender.ready()).await;
            if !matches!(ready, Ok(Ok(()))) {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(NoResponse::Lost),
                },
            }
        }
        let mut sender = self.connect(address).await.ok_or(NoResponse::Unreached)?;
        match sender.try_send_request(request).await {
            Ok(response) => Ok((response, sender)),
            Err(mut error) => Err(match error.take_message() {
                Some(_) => NoResponse::Unreached,
                None => NoResponse::Lost,
            }),
        }
    }

    fn suspects(&self) -> MutexGuard<'_, HashSet<String>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The replica at this address has left a request unanswered.
    pub(super) fn suspect(&self, address: &str) {
        let mut suspects = self.suspects();
        if suspects.len() >= REPLICAS {
            suspects.clear();
        }
        suspects.insert(address.to_owned());
    }

    /// Whether it has, and has not been heard since.
    pub(super) fn is_suspect(&self, address: &str) -> bool {
        let suspects = self.suspects();
        !suspects.is_empty() && suspects.contains(address)
    }

    /// Whether a replica answers at this address, whatever it answers to this.
    pub(super) async fn answers(&self, address: &str, question: Request<Content>) -> bool {
        let answer = timeout(CONNECT, self.send(address, question)).await;
        let is_there =
            matches!(answer, Ok(Ok((answer, _))) if answer.headers().contains_key(FORWARD));
        if is_there {
            self.suspects().remove(address);
        }
        is_there
    }

    async fn connect(&self, address: &str) -> Option<Sender> {
        let place = Place::read(address).ok()?;
        let connecting = async {
            let stream = place.connect(self.unread).await?;
            http1::handshake(TokioIo::new(stream)).await.ok()
        };
        let (sender, connection) = timeout(CONNECT, connecting).await.ok()??;
        tokio::spawn(connection);
        Some(sender)
    }

    fn take(&self, address: &str) -> Option<Sender> {
        let mut spare = self.lock();
        let those = spare.get_mut(address)?;
        // The last one was used last: if that was too long ago, all are of no use.
        while let Some((sender, since)) = those.pop_back() {
            if !sender.is_closed() && since.elapsed() < IDLE {
                return Some(sender);
            }
        }
        None
    }

    /// A connection may be used again.
    pub(super) fn give_back(&self, address: &str, sender: Sender) {
        let mut spare = self.lock();
        if spare.len() >= REPLICAS && !spare.contains_key(address) {
            spare.clear();
        }
        let now = Instant::now();
        let those = match spare.get_mut(address) {
            Some(those) => those,
            None => spare.entry(address.to_owned()).or_default(),
        };
        while those
            .front()
            .is_some_and(|(_, since)| now.duration_since(*since) >= IDLE)
        {
            those.pop_front();
        }
        if those.len() < SPARE && !sender.is_closed() {
            those.push_back((sender, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_or_refused_with_a_reason() {
        let place = Place::read("http://10.0.0.5:8620").expect("a place");
        assert_eq!((&*place.host, place.port), ("10.0.0.5", 8620));
        assert_eq!((&*place.authority, &*place.base), ("10.0.0.5:8620", ""));
        let place = Place::read("http://[::1]:80/behind/").expect("a place");
        assert_eq!((&*place.host, &*place.base), ("::1", "/behind"));
        for (wrong, word) in [
            ("10.0.0.5:8620", "begin with"),
            ("ftp://a", "begin with"),
            ("http://", "read"),
            ("http://a?b", "query"),
            ("http://me:pw@a", "host"),
            ("", "read"),
        ] {
            let why = Place::read(wrong).expect_err(wrong);
            assert!(why.contains(word), "{wrong}: {why}");
        }
    }
}
