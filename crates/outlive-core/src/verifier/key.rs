//! The head of a signed token, the keys of an issuer, and which of them may have signed it.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::Refusal;

/// The most keys of a set that are looked at.
const MOST_KEYS: usize = 64;
/// The longest name of a key.
const LONGEST_KID: usize = 256;

/// How a token is signed: with a private key, always. A secret that both sides know (`HS256`), or no signature at all
/// (`none`), is no algorithm here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    /// The algorithm of this name (RFC 7518, RFC 8037, RFC 9864).
    pub fn named(name: &str) -> Option<Algorithm> {
        Some(match name {
            "RS256" => Algorithm::Rs256,
            "RS384" => Algorithm::Rs384,
            "RS512" => Algorithm::Rs512,
            "PS256" => Algorithm::Ps256,
            "PS384" => Algorithm::Ps384,
            "PS512" => Algorithm::Ps512,
            "ES256" => Algorithm::Es256,
            "ES384" => Algorithm::Es384,
            "EdDSA" | "Ed25519" => Algorithm::EdDsa,
            _ => return None,
        })
    }
}

/// What the head of a signed token says. Whatever else stands there is not read: a token that brings its own key
/// (`jwk`, `x5c`), or the address of one (`jku`, `x5u`), is checked with the keys of its issuer like all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenHead {
    /// How it is signed.
    pub algorithm: Algorithm,
    /// The name of the key it is signed with.
    pub kid: Option<Box<str>>,
    /// It says that it is an access token (RFC 9068).
    pub is_access_token: bool,
}

impl TokenHead {
    /// Reads the head of a token, or says why the token is refused.
    pub fn read(json: &[u8]) -> Result<TokenHead, Refusal> {
        #[derive(Deserialize)]
        struct Head {
            alg: String,
            kid: Option<String>,
            typ: Option<String>,
            crit: Option<IgnoredAny>,
        }
        let head: Head = serde_json::from_slice(json).map_err(|_| Refusal::Malformed)?;
        if head.crit.is_some() {
            return Err(Refusal::Critical);
        }
        let algorithm = Algorithm::named(&head.alg).ok_or(Refusal::Algorithm)?;
        if head.kid.as_ref().is_some_and(|it| it.len() > LONGEST_KID) {
            return Err(Refusal::UnknownKey);
        }
        let typ = head.typ.unwrap_or_default().to_ascii_lowercase();
        let typ = typ.strip_prefix("application/").unwrap_or(&typ);
        let is_access_token = typ == "at+jwt";
        // A logout token, a proof of possession or a response is signed with the same keys.
        if !is_access_token && !matches!(typ, "" | "jwt") {
            return Err(Refusal::NoAccessToken);
        }
        Ok(TokenHead {
            algorithm,
            kid: head.kid.map(Into::into),
            is_access_token,
        })
    }
}

/// A public key in base64url, as its set has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Material {
    Rsa { n: Box<str>, e: Box<str> },
    P256 { x: Box<str>, y: Box<str> },
    P384 { x: Box<str>, y: Box<str> },
    Ed25519 { x: Box<str> },
}

/// A public key of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwk {
    /// Its name.
    pub kid: Option<Box<str>>,
    /// The only algorithm it is good for, if it says so.
    pub algorithm: Option<Algorithm>,
    /// The key itself.
    pub material: Material,
}

impl Jwk {
    /// The keys of a set (RFC 7517) that signatures can be checked with; the others are left out.
    pub fn read_set(set: &Value) -> Vec<Jwk> {
        let keys = set["keys"].as_array().into_iter().flatten();
        keys.filter_map(Jwk::read).take(MOST_KEYS).collect()
    }

    fn read(key: &Value) -> Option<Jwk> {
        let text = |name: &str| key[name].as_str().map(Box::<str>::from);
        let is_for_signing = key["use"].as_str().is_none_or(|it| it == "sig");
        let operations = key["key_ops"].as_array();
        let may_verify = operations.is_none_or(|all| all.iter().any(|it| it == "verify"));
        if !is_for_signing || !may_verify {
            return None;
        }
        let material = match (key["kty"].as_str()?, key["crv"].as_str()) {
            ("RSA", _) => Material::Rsa {
                n: text("n")?,
                e: text("e")?,
            },
            ("EC", Some("P-256")) => Material::P256 {
                x: text("x")?,
                y: text("y")?,
            },
            ("EC", Some("P-384")) => Material::P384 {
                x: text("x")?,
                y: text("y")?,
            },
            ("OKP", Some("Ed25519")) => Material::Ed25519 { x: text("x")? },
            _ => return None,
        };
        let algorithm = match key["alg"].as_str() {
            // One that we do not know is one that we do not check.
            Some(name) => Some(Algorithm::named(name)?),
            None => None,
        };
        Some(Jwk {
            kid: text("kid"),
            algorithm,
            material,
        })
    }

    /// Whether this key may have signed a token with this head: the algorithm must be one for keys of its kind, and the
    /// one that it names, if it does. So nobody chooses for us how a key is used.
    pub fn may_have_signed(&self, algorithm: Algorithm, kid: Option<&str>) -> bool {
        use Algorithm::{EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};
        let fits = match self.material {
            Material::Rsa { .. } => {
                matches!(algorithm, Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512)
            }
            Material::P256 { .. } => algorithm == Es256,
            Material::P384 { .. } => algorithm == Es384,
            Material::Ed25519 { .. } => algorithm == EdDsa,
        };
        let named = kid.is_none() || kid == self.kid.as_deref();
        fits && named && self.algorithm.is_none_or(|it| it == algorithm)
    }
}
