//! Signatures.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use outlive_core::verifier::{Algorithm, Jwk, Material};
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};

/// A public key, ready for use.
pub(super) enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublicKey {
    /// The key, if it is one.
    pub(super) fn of(jwk: &Jwk) -> Option<PublicKey> {
        Some(match &jwk.material {
            Material::Rsa { n, e } => PublicKey::Rsa {
                n: number(n)?,
                e: number(e)?,
            },
            Material::P256 { x, y } => PublicKey::P256(point(x, y, 32)?),
            Material::P384 { x, y } => PublicKey::P384(point(x, y, 48)?),
            Material::Ed25519 { x } => PublicKey::Ed25519(bytes(x)?),
        })
    }

    /// Whether this is its signature of the message.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let plain = |kind: &'static dyn signature::VerificationAlgorithm, key: &[u8]| {
            let key = UnparsedPublicKey::new(kind, key);
            key.verify(message, signature).is_ok()
        };
        match (self, algorithm) {
            (PublicKey::Rsa { n, e }, _) => rsa(algorithm).is_some_and(|parameters| {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, message, signature).is_ok()
            }),
            (PublicKey::P256(key), Algorithm::Es256) => {
                plain(&signature::ECDSA_P256_SHA256_FIXED, key)
            }
            (PublicKey::P384(key), Algorithm::Es384) => {
                plain(&signature::ECDSA_P384_SHA384_FIXED, key)
            }
            (PublicKey::Ed25519(key), Algorithm::EdDsa) => plain(&signature::ED25519, key),
            _ => false,
        }
    }
}

/// What is meant by an algorithm for RSA: no key of less than 2048 bits.
fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return None,
    })
}

pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD
        .decode(text.trim_end_matches('='))
        .ok()
}

/// A number without zeros before it.
fn number(text: &str) -> Option<Vec<u8>> {
    let bytes = bytes(text)?;
    let from = bytes.iter().position(|byte| *byte != 0)?;
    Some(bytes[from..].to_vec())
}

/// A point that is not compressed.
fn point(x: &str, y: &str, length: usize) -> Option<Vec<u8>> {
    let mut point = vec![4];
    for part in [x, y] {
        let part = bytes(part)?;
        // Some leave out zeros at the front.
        let missing = length.checked_sub(part.len())?;
        point.resize(point.len() + missing, 0);
        point.extend(part);
    }
    Some(point)
}
