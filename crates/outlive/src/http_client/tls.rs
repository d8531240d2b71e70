//! Whom we trust: the authorities the system trusts, and those the user names.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// The settings for connections to a server. The certificates of the system are read only if they are
/// needed.
pub(crate) fn config(encrypted: bool, authorities: Option<&Path>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    if !encrypted {
        return Ok(config
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth());
    }
    // Windows makes an engine of its own for further authorities, and none that is empty.
    let verifier = match authorities {
        Some(file) => Verifier::new_with_extra_roots(read(file)?, provider),
        None => Verifier::new(provider),
    };
    let verifier = verifier
        .map_err(|error| format!("the certificates of the system cannot be used: {error}"))?;
    Ok(config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file).and_then(|found| found.collect());
    match found {
        Ok(found) if Vec::is_empty(&found) => {
            Err(format!("there is no certificate in {}", file.display()))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(format!(
            "the certificates in {} cannot be read: {error}",
            file.display()
        )),
    }
}
