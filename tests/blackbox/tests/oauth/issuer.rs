//! An identity provider: its keys, what it publishes, and how it fails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};

use crate::web::{Act, Reply, Request, Web, response};

/// What tokens are for.
pub const AUDIENCE: &str = "https://mcp.example.test/mcp";
/// As whom it is asked about opaque tokens, and the secret.
pub const CLIENT: (&str, &str) = ("gate", "introspection-secret:1");

pub enum Pair {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
}

/// A key of the provider.
pub struct Key {
    pub kid: Option<String>,
    pub pair: Pair,
}

impl Key {
    pub fn ed25519(kid: &str) -> Key {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).expect("a key");
        Key {
            kid: Some(kid.into()),
            pair: Pair::Ed25519(pair),
        }
    }

    pub fn p256(kid: &str) -> Key {
        let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
        let pair = EcdsaKeyPair::from_pkcs8(kind, pkcs8.as_ref(), &random).expect("a key");
        Key {
            kid: Some(kid.into()),
            pair: Pair::P256(pair),
        }
    }

    /// Always the same one: it takes long to make.
    pub fn rsa(kid: &str) -> Key {
        let pair = RsaKeyPair::from_pkcs8(include_bytes!("rsa.pk8")).expect("a key");
        Key {
            kid: Some(kid.into()),
            pair: Pair::Rsa(Box::new(pair)),
        }
    }

    pub fn unnamed(mut self) -> Key {
        self.kid = None;
        self
    }

    pub fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ed25519(_) => "EdDSA",
            Pair::P256(_) => "ES256",
            Pair::Rsa(_) => "RS256",
        }
    }

    /// The public key, as bytes.
    pub fn public(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Ed25519(pair) => pair.public_key().as_ref().to_vec(),
            Pair::P256(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    fn published(&self) -> Value {
        let mut key = match &self.pair {
            Pair::Ed25519(_) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encode(&self.public()) })
            }
            Pair::P256(_) => {
                let point = self.public();
                json!({ "kty": "EC", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..]) })
            }
            Pair::Rsa(pair) => {
                let RsaPublicKeyComponents::<Vec<u8>> { n, e } = pair.public().into();
                let (n, e) = (n.as_slice(), e.as_slice());
                json!({ "kty": "RSA", "n": encode(n), "e": encode(e), "alg": "RS256" })
            }
        };
        key["use"] = "sig".into();
        if let Some(kid) = &self.kid {
            key["kid"] = kid.as_str().into();
        }
        key
    }

    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Pair::P256(pair) => pair
                .sign(&random, message)
                .expect("signed")
                .as_ref()
                .to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .expect("signed");
                signature
            }
        }
    }

    /// A token with this head and these claims.
    pub fn token(&self, head: &Value, claims: &Value) -> String {
        let message = message(head, claims);
        let signature = encode(&self.sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    pub fn head(&self) -> Value {
        let mut head = json!({ "alg": self.algorithm(), "typ": "at+jwt" });
        if let Some(kid) = &self.kid {
            head["kid"] = kid.as_str().into();
        }
        head
    }
}

pub fn message(head: &Value, claims: &Value) -> String {
    let part = |it: &Value| encode(it.to_string().as_bytes());
    format!("{}.{}", part(head), part(claims))
}

/// How the provider is.
pub struct Books {
    pub keys: Vec<Key>,
    /// It answers.
    pub up: bool,
    /// What it says of opaque tokens.
    pub opaque: HashMap<String, Value>,
    /// How often its keys were read.
    pub fetches: usize,
    /// How often it was asked about a token.
    pub asked: usize,
    /// Only OpenID's place for metadata is there.
    pub openid: bool,
}

pub struct Issuer {
    pub web: Web,
    books: Arc<Mutex<Books>>,
}

impl Issuer {
    pub fn start(key: Key) -> Issuer {
        let books = Arc::new(Mutex::new(Books {
            keys: vec![key],
            up: true,
            opaque: HashMap::new(),
            fetches: 0,
            asked: 0,
            openid: false,
        }));
        let kept = books.clone();
        let web = Web::start(move |request| Some(kept.lock().unwrap().reply(request)));
        Issuer { web, books }
    }

    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    pub fn name(&self) -> String {
        format!("http://{}", self.web.address())
    }

    /// What a token says that is good for a few minutes, changed where `with` says something else.
    pub fn claims(&self, with: Value) -> Value {
        let mut claims = json!({
            "iss": self.name(), "aud": AUDIENCE, "sub": "ann", "exp": now() + 300, "iat": now(), "client_id": "app",
            // So that no two are the same.
            "jti": format!("{:?}", SystemTime::now()),
        });
        for (name, value) in with.as_object().expect("claims") {
            claims[name] = value.clone();
            if value.is_null() {
                claims.as_object_mut().expect("claims").remove(name);
            }
        }
        claims
    }

    /// A token, signed with the newest key.
    pub fn token(&self, with: Value) -> String {
        let claims = self.claims(with);
        let books = self.books();
        let key = books.keys.last().expect("a key");
        key.token(&key.head(), &claims)
    }
}

impl Books {
    fn reply(&mut self, request: &Request) -> Reply {
        if !self.up {
            return vec![Act::Reset];
        }
        let json = |value: &Value| {
            let kind = [("content-type", "application/json")];
            response(200, &kind, &value.to_string())
        };
        let origin = format!("http://{}", request.header("host").unwrap_or_default());
        match request.path.as_str() {
            "/.well-known/oauth-authorization-server" if self.openid => response(404, &[], ""),
            "/.well-known/oauth-authorization-server" | "/.well-known/openid-configuration" => {
                json(&json!({
                    "issuer": origin,
                    "jwks_uri": format!("{origin}/keys"),
                    "introspection_endpoint": format!("{origin}/introspect"),
                }))
            }
            "/keys" => {
                self.fetches += 1;
                let keys: Vec<Value> = self.keys.iter().map(Key::published).collect();
                json(&json!({ "keys": keys }))
            }
            "/introspect" => {
                self.asked += 1;
                // gate:introspection-secret:1, both parts written as in a form.
                let wanted = "Basic Z2F0ZTppbnRyb3NwZWN0aW9uJTJEc2VjcmV0JTNBMQ==";
                if request.header("authorization") != Some(wanted) {
                    return response(401, &[], "{}");
                }
                let form = request.text();
                let token = form.split('&').find_map(|it| it.strip_prefix("token="));
                let said = token.and_then(|token| self.opaque.get(token));
                json(said.unwrap_or(&json!({ "active": false })))
            }
            _ => response(404, &[], ""),
        }
    }
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.expect("after 1970").as_secs()).expect("before the end")
}

pub fn encode(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let letter = |chunk: &[u8], n: usize| {
        let byte = |n: usize| u32::from(chunk.get(n).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        char::from(ALPHABET[(bits >> (18 - 6 * n) & 63) as usize])
    };
    let chunks = bytes.chunks(3);
    chunks
        .flat_map(|chunk| (0..=chunk.len()).map(move |n| letter(chunk, n)))
        .collect()
}
