//! Connections to other replicas.
//!
//! Each carries one exchange at a time and is used again when that has ended. What was not written to a connection is
//! known not to have arrived, so it may be sent over another one; whatever else goes wrong, it may have.
//!
//! Whoever stands in front of a replica (a mesh, a relay) may take connections for it long after it has gone, and each
//! request would be lost there. So a replica that has left a request unanswered is asked something without consequence
//! before it gets the next one.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::Uri;
use hyper::header::HeaderValue;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::peer_connection::{Connection, Outgoing, ResponseHead, Stream};
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

/// How many replicas are known.
const REPLICAS: usize = 256;

/// Where a replica is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    encrypted: bool,
    host: String,
    port: u16,
    /// As a `Host` header has it.
    pub(super) authority: HeaderValue,
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
        let Ok(written) = HeaderValue::from_str(authority.as_str()) else {
            return wrong("names no host");
        };
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
            authority: written,
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

/// Why there is no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoResponse {
    /// The request was not sent.
    Unreached,
    /// It may have arrived.
    Lost,
}

/// Another replica.
pub(super) struct Peer {
    pub(super) place: Place,
    spare: Mutex<Spare>,
    /// It has left a request unanswered, and was not heard since.
    is_suspect: AtomicBool,
    /// How long it may take nothing.
    unread: Duration,
}

/// Connections that are not used at the moment, and since when.
#[derive(Default)]
struct Spare {
    all: VecDeque<(Connection, Instant)>,
    /// Those that are too old are being dropped.
    is_swept: bool,
}

impl Spare {
    fn drop_old(&mut self) {
        let is_old = |(_, since): &(Connection, Instant)| since.elapsed() >= IDLE;
        while self.all.front().is_some_and(is_old) {
            self.all.pop_front();
        }
    }
}

impl Peer {
    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request. The connection is given [back](Peer::give_back) when the response was read.
    pub(super) async fn send(
        &self,
        request: &Outgoing,
    ) -> Result<(ResponseHead, Connection), NoResponse> {
        let mut connection = loop {
            let Some(mut connection) = self.take() else {
                let mut connection = self.connect().await.ok_or(NoResponse::Unreached)?;
                connection.write(request).await?;
                break connection;
            };
            match connection.write(request).await {
                Ok(()) => break connection,
                Err(NoResponse::Unreached) => {}
                Err(NoResponse::Lost) => return Err(NoResponse::Lost),
            }
        };
        let head = connection.head().await.map_err(|_| NoResponse::Lost)?;
        Ok((head, connection))
    }

    /// It has left a request unanswered.
    pub(super) fn suspect(&self) {
        self.is_suspect.store(true, Ordering::Relaxed);
    }

    /// Whether it has, and was not heard since.
    pub(super) fn is_suspect(&self) -> bool {
        self.is_suspect.load(Ordering::Relaxed)
    }

    /// Whether it answers, whatever it answers to this.
    pub(super) async fn answers(&self, question: &Outgoing) -> bool {
        let answer = timeout(CONNECT, self.send(question)).await;
        let is_there = matches!(answer, Ok(Ok((head, _))) if head.said.is_some());
        if is_there {
            self.is_suspect.store(false, Ordering::Relaxed);
        }
        is_there
    }

    async fn connect(&self) -> Option<Connection> {
        let connecting = self.place.connect(self.unread);
        let stream = timeout(CONNECT, connecting).await.ok()??;
        Some(Connection::new(stream))
    }

    fn take(&self) -> Option<Connection> {
        let mut spare = self.spare();
        // The last one was used last: if that was too long ago, all are of no use.
        while let Some((mut connection, since)) = spare.all.pop_back() {
            if since.elapsed() < IDLE && connection.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    /// A connection may be used again, if its response was read to the end.
    pub(super) fn give_back(self: &Arc<Peer>, connection: Connection) {
        let mut spare = self.spare();
        spare.drop_old();
        if spare.all.len() < SPARE && connection.is_reusable() {
            spare.all.push_back((connection, Instant::now()));
            if !std::mem::replace(&mut spare.is_swept, true) {
                tokio::spawn(self.clone().sweep());
            }
        }
    }

    /// Drops connections that are not used again, until there are none.
    async fn sweep(self: Arc<Peer>) {
        loop {
            sleep(IDLE).await;
            let mut spare = self.spare();
            spare.drop_old();
            if spare.all.is_empty() {
                spare.is_swept = false;
                return;
            }
        }
    }
}

/// The other replicas, by their addresses.
pub(super) struct Peers {
    all: Mutex<HashMap<String, Arc<Peer>>>,
    /// How long one may take nothing.
    unread: Duration,
}

impl Peers {
    pub(super) fn new(unread: Duration) -> Peers {
        Peers {
            all: Mutex::default(),
            unread,
        }
    }

    /// The one at this address, if it is one.
    pub(super) fn at(&self, address: &str) -> Option<Arc<Peer>> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = all.get(address) {
            return Some(peer.clone());
        }
        let peer = Arc::new(Peer {
            place: Place::read(address).ok()?,
            spare: Mutex::default(),
            is_suspect: AtomicBool::new(false),
            unread: self.unread,
        });
        if all.len() >= REPLICAS {
            all.clear();
        }
        all.insert(address.to_owned(), peer.clone());
        Some(peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_or_refused_with_a_reason() {
        let place = Place::read("http://10.0.0.5:8620").expect("a place");
        assert_eq!((&*place.host, place.port), ("10.0.0.5", 8620));
        assert_eq!(place.authority, "10.0.0.5:8620");
        assert_eq!(place.base, "");
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
