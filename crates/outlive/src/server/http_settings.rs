//! More settings of [`Http`]: token and certificate files, limits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::http::{Http, HttpServer};
use crate::http_server::{Files, ReplicaSecret, Tokens, stays};

impl Http {
    /// The tokens in this file, one in a line: every client has to show one of them. The file is read
    /// again when it changes.
    #[must_use]
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Http {
        self.access.tokens = Some(Tokens::file(path.into()));
        self
    }

    /// Where other processes that use the same store reach this one, such as `http://10.0.0.5:8620`: they forward
    /// requests of its sessions there. Needs a [secret](Http::replica_secret_file), too.
    #[must_use]
    pub fn advertise(mut self, url: impl Into<String>) -> Http {
        self.replicas.advertise = Some(url.into());
        self
    }

    /// What only processes know that use the same store, of 16 characters at least: they sign with it what they forward
    /// to each other. One without it forwards nothing.
    #[must_use]
    pub fn replica_secret(mut self, secret: impl AsRef<str>) -> Http {
        match ReplicaSecret::word(secret.as_ref()) {
            Ok(secret) => {
                self.access.secret = Some(secret.clone());
                self.replicas.secret = Some(secret);
            }
            Err(why) => self.replicas.wrong = Some(why),
        }
        self
    }

    /// The same from a file, with one secret in a line: the first one signs, all are accepted, so that it can be
    /// replaced. The file is read again when it changes.
    #[must_use]
    pub fn replica_secret_file(mut self, path: impl Into<PathBuf>) -> Http {
        let secret = ReplicaSecret::file(path.into());
        self.access.secret = Some(secret.clone());
        self.replicas.secret = Some(secret);
        self
    }

    /// Lets in whom this identity provider vouches for: every client has to show one of its access tokens, or one of
    /// the [file](Http::token_file), if there is one.
    #[cfg(feature = "oauth")]
    #[must_use]
    pub fn identity_provider(mut self, provider: crate::oauth::IdentityProvider) -> Http {
        self.access.verifier = Some(provider.verifier());
        self
    }

    /// Encrypts connections with this certificate (and those that vouch for it) and its key, both
    /// PEM files. They are read again when they change.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Http {
        self.access.tls = Some(crate::http_server::Tls::new(certificate.into(), key.into()));
        self
    }

    /// Streams of clients that only listen, at once (8192); those that a request has opened are not
    /// among them. Each takes a connection, so this keeps some free for requests.
    #[must_use]
    pub fn max_streams(mut self, most: usize) -> Http {
        self.limits.streams = most.min(1 << 20);
        self
    }

    /// The longest head of a request, in bytes (64 KiB, and no less than 8 KiB).
    #[must_use]
    pub fn head_limit(mut self, bytes: usize) -> Http {
        self.limits.head = bytes.max(8 << 10);
        self
    }

    /// Bytes of messages that have not been received completely, over all clients (256 MiB; at least the longest
    /// message). Beyond this size a client that has sent nothing for 5 s gives way, or the message is refused with
    /// status 503.
    #[must_use]
    pub fn max_body_bytes(mut self, bytes: usize) -> Http {
        self.limits.bodies = bytes;
        self
    }

    /// Closes a connection whose client has read nothing for this long (60 s).
    #[must_use]
    pub fn write_timeout(mut self, timeout: Duration) -> Http {
        self.limits.unread = timeout;
        self
    }

    /// Who is told in a sentence when a file was read again, or could not be. Otherwise it is logged.
    #[must_use]
    pub fn notices(mut self, tell: impl Fn(&str) + Send + Sync + 'static) -> Http {
        self.tell = Arc::new(tell);
        self
    }

    /// Refusals name flags of a program rather than methods of this type.
    #[doc(hidden)]
    #[must_use]
    pub fn set_by_flags(mut self) -> Http {
        self.access.flags = true;
        self
    }
}

impl HttpServer {
    /// Reads the token file and the certificate again when it is called. They are read when they change,
    /// too; this is for those who cannot wait a second. What cannot be used stays as it was, and is
    /// [told](Http::notices).
    pub fn rereader(&self) -> impl Fn() + Clone + Send + Sync + use<> {
        let files = Files::of(&self.settings.access);
        let tell = self.settings.tell.clone();
        move || {
            if let Err(wrong) = files.read() {
                wrong.iter().for_each(|why| tell(&stays(why)));
            }
        }
    }
}
