//! Encryption.
//!
//! The certificate and its key are PEM files. They are read again when they have changed, for the
//! connections that come after; a pair that does not fit changes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, InconsistentKeys, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// What a client that does not encrypt is told.
pub(super) const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\
    Connection: close\r\n\r\nThis address is encrypted: use https://.\n";

/// A certificate and its key. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: Arc<RwLock<Option<Arc<ServerConfig>>>>,
}

impl Tls {
    /// A pair that is good once it has been [read](Tls::read).
    pub(crate) fn new(certificate: PathBuf, key: PathBuf) -> Tls {
        Tls {
            certificate,
            key,
            config: Arc::default(),
        }
    }

    pub(crate) fn paths(&self) -> [&Path; 2] {
        [&self.certificate, &self.key]
    }

    /// Reads the pair; a sentence if it cannot be used.
    pub(crate) fn read(&self) -> Result<(), String> {
        let config = self.load()?;
        let mut current = self.config.write().unwrap_or_else(PoisonError::into_inner);
        *current = Some(Arc::new(config));
        Ok(())
    }

    /// What makes the next connection an encrypted one.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        config.clone().map(TlsAcceptor::from)
    }

    fn load(&self) -> Result<ServerConfig, String> {
        let chain = self.chain()?;
        let key = self.private_key()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| self.misfit(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let path = self.certificate.display();
        let text = read("certificate", &self.certificate)?;
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let chain =
            chain.map_err(|error| format!("the certificate in {path} is broken: {error}"))?;
        match chain.is_empty() {
            true => Err(format!(
                "there is no certificate in {path}: a PEM file is expected (-----BEGIN CERTIFICATE-----)"
            )),
            false => Ok(chain),
        }
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, String> {
        let path = self.key.display();
        let text = read("key", &self.key)?;
        PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
            pem::Error::NoItemsFound if memchr::memmem::find(&text, b"ENCRYPTED").is_some() => {
                format!("the key in {path} is encrypted: decrypt it first, for example with `openssl pkey`")
            }
            pem::Error::NoItemsFound => format!(
                "there is no private key in {path}: a PEM file is expected (-----BEGIN PRIVATE KEY-----)"
            ),
            error => format!("the key in {path} is broken: {error}"),
        })
    }

    fn misfit(&self, error: &Error) -> String {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                format!("the key in {key} is not the one of the certificate in {certificate}")
            }
            error => format!(
                "the certificate in {certificate} and the key in {key} cannot be used: {error}"
            ),
        }
    }
}

fn read(what: &str, path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read the {what} {}: {error}", path.display()))
}
