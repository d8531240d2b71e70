//! Who we are to an authorization server: registered beforehand, by a document of our own, or by asking (RFC 7591).

use std::time::Duration;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::discovery::Issuer;
use super::fetch::Fetcher;
use super::random_text;

/// What is encoded in an identifier or a secret.
const RESERVED: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// An assertion is good for this long.
const ASSERTION: Duration = Duration::from_secs(120);

/// Who an authorization server knows us as.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    /// Whom it is known to: nobody else is shown it.
    pub(super) issuer: String,
    pub(super) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<String>,
    /// How it shows that it is itself at the token endpoint.
    pub(super) method: String,
    /// Where its logins end, if that was settled when it was registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) redirect_uri: Option<String>,
}

/// What the user has registered, or wants to be known as.
#[derive(Clone, Default)]
pub(super) struct Given {
    pub(super) id: Option<String>,
    pub(super) secret: Option<String>,
    /// A private key in PEM (PKCS #8), in place of a secret.
    pub(super) key: Option<String>,
}

impl Given {
    /// The client that the user has given, if this authorization server takes it.
    pub(super) fn client(&self, issuer: &Issuer) -> Option<Client> {
        let id = self.id.clone()?;
        let document = id.starts_with("https://");
        if document
            && self.secret.is_none()
            && !issuer.says("client_id_metadata_document_supported")
        {
            return None;
        }
        let method = match (&self.secret, &self.key) {
            (_, Some(_)) => "private_key_jwt",
            (None, None) => "none",
            (Some(_), None) => {
                let listed = issuer.list("token_endpoint_auth_methods_supported");
                let basic = listed.is_none_or(|all| {
                    let has = |name: &str| all.iter().any(|it| it == name);
                    has("client_secret_basic") || !has("client_secret_post")
                });
                match basic {
                    true => "client_secret_basic",
                    false => "client_secret_post",
                }
            }
        };
        Some(Client {
            issuer: issuer.name.clone(),
            id,
            secret: self.secret.clone(),
            method: method.into(),
            redirect_uri: None,
        })
    }
}

/// Registers us; the redirect is where logins will end.
pub(super) async fn register(
    fetcher: &Fetcher,
    issuer: &Issuer,
    redirect_uri: &str,
) -> Result<Client, String> {
    let Some(endpoint) = issuer.endpoint("registration_endpoint") else {
        return Err(format!(
            "the authorization server {} registers nobody by itself: register outlive there, and give it \
             --client-id (and --client-secret)",
            issuer.name
        ));
    };
    let method = method_of(issuer);
    let about_us = json!({
        "client_name": "outlive",
        // Else OpenID servers take us for a page, which may not end at a loopback address.
        "application_type": "native",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
    });
    let (status, answer) = fetcher
        .json(endpoint, &about_us)
        .await
        .map_err(|it| it.why)?;
    let text = |name: &str| answer[name].as_str().map(str::to_owned);
    let Some(id) = text("client_id").filter(|_| matches!(status, 200 | 201)) else {
        let why = text("error_description")
            .or(text("error"))
            .unwrap_or_default();
        return Err(format!(
            "{} did not register us (status {status}): {why}",
            issuer.name
        ));
    };
    let secret = text("client_secret");
    let method = match &secret {
        None => "none".to_owned(),
        Some(_) => text("token_endpoint_auth_method").unwrap_or(method),
    };
    Ok(Client {
        issuer: issuer.name.clone(),
        id,
        secret,
        method,
        redirect_uri: Some(redirect_uri.to_owned()),
    })
}

/// How we would like to show who we are: not at all, as a program on somebody's machine can keep no secret.
fn method_of(issuer: &Issuer) -> String {
    let ours = ["none", "client_secret_basic", "client_secret_post"];
    let Some(listed) = issuer.list("token_endpoint_auth_methods_supported") else {
        return "client_secret_basic".into();
    };
    let known = ours
        .into_iter()
        .find(|it| listed.iter().any(|one| one == it));
    known.unwrap_or("none").into()
}

impl Client {
    /// Adds to a form for the token endpoint, or its headers, who sends it.
    pub(super) fn sign(
        &self,
        key: Option<&str>,
        now: Duration,
        form: &mut Vec<(&'static str, String)>,
    ) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        match (self.method.as_str(), &self.secret, key) {
            ("private_key_jwt", _, Some(key)) => {
                let assertion = assertion(key, &self.id, &self.issuer, now)?;
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                form.push(("client_id", self.id.clone()));
                form.push(("client_assertion_type", kind.into()));
                form.push(("client_assertion", assertion));
            }
            ("client_secret_basic", Some(secret), _) => {
                // RFC 6749, 2.3.1: both are encoded first, so that a colon stays what it is.
                let part = |text: &str| utf8_percent_encode(text, &RESERVED).to_string();
                let pair = BASE64_STANDARD.encode(format!("{}:{}", part(&self.id), part(secret)));
                let mut value = HeaderValue::try_from(format!("Basic {pair}"))
                    .map_err(|error| error.to_string())?;
                value.set_sensitive(true);
                headers.insert(AUTHORIZATION, value);
            }
            (_, Some(secret), _) => {
                form.push(("client_id", self.id.clone()));
                form.push(("client_secret", secret.clone()));
            }
            (_, None, _) => form.push(("client_id", self.id.clone())),
        }
        Ok(headers)
    }
}

/// Says who we are, signed with the user's key (RFC 7523).
fn assertion(pem: &str, client: &str, issuer: &str, now: Duration) -> Result<String, String> {
    let inside: String = pem
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .collect();
    let der = BASE64_STANDARD
        .decode(inside.trim())
        .map_err(|_| "the client key is not in PEM")?;
    let encode = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = encode(json!({
        "iss": client,
        "sub": client,
        "aud": issuer,
        "jti": random_text()?,
        "iat": now.as_secs(),
        "exp": (now + ASSERTION).as_secs(),
    }));
    let random = SystemRandom::new();
    let unusable = "the client key is neither a P-256 nor an RSA key in PKCS #8";
    let (text, signature) =
        match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random) {
            Ok(pair) => {
                let text = format!("{}.{claims}", encode(json!({"alg": "ES256", "typ": "JWT"})));
                let signature = pair.sign(&random, text.as_bytes()).map_err(|_| unusable)?;
                (text, signature.as_ref().to_vec())
            }
            Err(_) => {
                let pair = RsaKeyPair::from_pkcs8(&der).map_err(|_| unusable)?;
                let text = format!("{}.{claims}", encode(json!({"alg": "RS256", "typ": "JWT"})));
                let mut signature = vec![0; pair.public().modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature);
                signed.map_err(|_| unusable)?;
                (text, signature)
            }
        };
    Ok(format!(
        "{text}.{}",
        BASE64_URL_SAFE_NO_PAD.encode(signature)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(method: &str, secret: Option<&str>) -> Client {
        Client {
            issuer: "https://as.example".into(),
            id: "me:1".into(),
            secret: secret.map(Into::into),
            method: method.into(),
            redirect_uri: None,
        }
    }

    #[test]
    fn a_client_shows_who_it_is_in_the_way_it_was_registered() {
        let sign = |client: Client| {
            let mut form = Vec::new();
            let headers = client.sign(None, Duration::ZERO, &mut form).unwrap();
            let header = headers
                .get(AUTHORIZATION)
                .map(|it| it.to_str().unwrap().to_owned());
            (header, form)
        };
        let id = ("client_id", "me:1".to_string());
        assert_eq!(sign(client("none", None)), (None, vec![id.clone()]));
        let secret = ("client_secret", "s c".to_string());
        assert_eq!(
            sign(client("client_secret_post", Some("s c"))),
            (None, vec![id, secret])
        );
        let basic = format!("Basic {}", BASE64_STANDARD.encode("me%3A1:s%20c"));
        assert_eq!(
            sign(client("client_secret_basic", Some("s c"))),
            (Some(basic), vec![])
        );
    }

    #[test]
    fn an_assertion_is_signed() {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let text = BASE64_STANDARD.encode(key.as_ref());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
        let assertion =
            assertion(&pem, "me", "https://as.example", Duration::from_secs(5)).unwrap();
        let parts: Vec<&str> = assertion.split('.').collect();
        let claims = BASE64_URL_SAFE_NO_PAD.decode(parts[1]).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(
            (&claims["aud"], &claims["exp"]),
            (&json!("https://as.example"), &json!(125))
        );
        assert_eq!(BASE64_URL_SAFE_NO_PAD.decode(parts[2]).unwrap().len(), 64);
        for wrong in ["", "-----BEGIN X-----\n!!\n-----END X-----", "QUJD"] {
            assert!(super::assertion(wrong, "me", "as", Duration::ZERO).is_err());
        }
    }
}
