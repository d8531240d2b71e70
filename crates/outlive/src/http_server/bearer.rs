//! Access tokens of an identity provider: what a client is told that shows none, or one that will not do.
//!
//! Whether a token is good is decided by [`outlive_core::verifier`]; who asks the provider is a [`TokenVerifier`]. Here
//! is what the specification of MCP wants a resource server to say: where its metadata is (RFC 9728), which scopes are
//! needed, and whether another token would help at all.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use outlive_core::verifier::{Insufficient, Refusal};
use serde_json::Value;

use super::listener::Tell;
use super::refusal::Refused;
use super::reply::{self, Reply};
use super::token::Identity;
use super::user::User;

/// Where the metadata of a protected resource is, before the path of the resource (RFC 9728, 3).
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Who can tell whose access token a client shows.
pub(crate) trait TokenVerifier: Send + Sync {
    /// It will be asked, about requests to what is at this path. To be called inside the runtime.
    fn start(&self, path: &str, tell: Tell);

    /// Whose token this is, shown at this path.
    fn verify(&self, shown: &str, path: &str) -> Verifying;

    /// The resource at a path, as clients know it.
    fn resource(&self, path: &str) -> Resource;

    /// What is said about the resource at this path to whoever asks.
    fn metadata(&self, path: &str) -> Value;

    /// The scopes that every token needs.
    fn scopes(&self) -> &[Box<str>];

    /// The views that tokens may lead to.
    fn views(&self) -> Vec<Box<str>>;

    /// The host that clients know us by.
    fn host(&self) -> Option<&str>;
}

/// A resource, as clients know it.
#[cfg_attr(
    not(feature = "oauth"),
    expect(dead_code, reason = "only identity providers need it")
)]
pub(crate) struct Resource {
    /// Its identifier.
    pub(crate) name: String,
    /// The address of its metadata.
    pub(crate) metadata: String,
}

/// What comes of a token.
#[cfg_attr(
    not(feature = "oauth"),
    expect(dead_code, reason = "only identity providers need it")
)]
pub(crate) enum Verifying {
    /// It is known.
    Known(Result<User, Unverified>),
    /// The provider is being asked.
    Asked(Pin<Box<dyn Future<Output = Result<User, Unverified>> + Send>>),
}

/// Why somebody does not come in.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "oauth"),
    expect(dead_code, reason = "only identity providers need it")
)]
pub(crate) enum Unverified {
    /// The token is not good.
    Refused(Refusal),
    /// It is good, and not for this.
    Insufficient(Insufficient),
    /// Nobody knows yet whether it is.
    Unavailable(Duration),
}

/// What comes of a request's credentials.
pub(crate) enum Authentication {
    /// It is known.
    Known(Refused<Identity>),
    /// The provider is being asked.
    Asked(Pin<Box<dyn Future<Output = Refused<Identity>> + Send>>),
}

impl Authentication {
    /// When it is known.
    pub(super) async fn settled(self) -> Refused<Identity> {
        match self {
            Authentication::Known(known) => known,
            Authentication::Asked(asked) => asked.await,
        }
    }

    /// If it is known already.
    pub(super) fn at_once(self) -> Option<Identity> {
        match self {
            Authentication::Known(known) => known.ok(),
            Authentication::Asked(_) => None,
        }
    }
}

/// What comes of a token that a client shows at this path.
pub(super) fn authenticate(
    verifier: &Arc<dyn TokenVerifier>,
    shown: &str,
    path: &str,
) -> Authentication {
    match verifier.verify(shown, path) {
        Verifying::Known(Ok(user)) => Authentication::Known(Ok(user.into())),
        Verifying::Known(Err(why)) => {
            Authentication::Known(Err(refused(&**verifier, &why, path).into()))
        }
        Verifying::Asked(asked) => {
            let (verifier, path) = (verifier.clone(), path.to_owned());
            Authentication::Asked(Box::pin(async move {
                let refused = |why| refused(&*verifier, &why, &path).into();
                asked.await.map(Identity::from).map_err(refused)
            }))
        }
    }
}

/// The answer to a client that shows no token at all.
pub(super) fn missing(verifier: &dyn TokenVerifier, path: &str) -> Reply {
    let sentence = "A token is needed: send `Authorization: Bearer …`. The metadata that WWW-Authenticate names says \
                    where tokens come from.";
    let mut reply = reply::refusal(StatusCode::UNAUTHORIZED, sentence);
    // RFC 6750, 3.1: a request without credentials is told no error.
    challenge(&mut reply, verifier, path, None, verifier.scopes());
    reply
}

fn refused(verifier: &dyn TokenVerifier, why: &Unverified, path: &str) -> Reply {
    match why {
        Unverified::Refused(why) => {
            let sentence = format!("The access token is refused: {why}.");
            let mut reply = reply::refusal(StatusCode::UNAUTHORIZED, sentence);
            let error = ("invalid_token", why.to_string());
            challenge(&mut reply, verifier, path, Some(error), verifier.scopes());
            reply
        }
        Unverified::Insufficient(Insufficient { scopes }) => {
            let how = match scopes.is_empty() {
                true => "Nothing that it says about you leads to anything here. Ask whoever runs this server.".into(),
                false => format!("It needs the scope {}.", spaced(scopes)),
            };
            let sentence = format!("The access token is valid, but not sufficient. {how}");
            let mut reply = reply::refusal(StatusCode::FORBIDDEN, sentence);
            if !scopes.is_empty() {
                let why = "the token lacks a scope".into();
                let error = ("insufficient_scope", why);
                challenge(&mut reply, verifier, path, Some(error), scopes);
            }
            reply
        }
        Unverified::Unavailable(after) => {
            let sentence = "The access token cannot be checked at the moment: the identity provider does not answer. \
                            Nothing is known against the token; send the request again later.";
            let mut reply = reply::refusal(StatusCode::SERVICE_UNAVAILABLE, sentence);
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            let seconds = HeaderValue::from(seconds.max(1));
            reply.headers_mut().insert(RETRY_AFTER, seconds);
            reply
        }
    }
}

/// Says what a client needs (RFC 9728, 5.1; RFC 6750, 3).
fn challenge(
    reply: &mut Reply,
    verifier: &dyn TokenVerifier,
    path: &str,
    error: Option<(&str, String)>,
    scopes: &[Box<str>],
) {
    let mut parts = Vec::new();
    if let Some((error, why)) = error {
        parts.push(format!("error={}", quoted(error)));
        parts.push(format!("error_description={}", quoted(&why)));
    }
    if !scopes.is_empty() {
        parts.push(format!("scope={}", quoted(&spaced(scopes))));
    }
    let metadata = verifier.resource(path).metadata;
    parts.push(format!("resource_metadata={}", quoted(&metadata)));
    let value = HeaderValue::from_str(&format!("Bearer {}", parts.join(", ")));
    let value = value.unwrap_or(HeaderValue::from_static("Bearer"));
    reply.headers_mut().insert(WWW_AUTHENTICATE, value);
}

fn spaced(scopes: &[Box<str>]) -> String {
    scopes.join(" ")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What is said about a resource.
pub(super) fn metadata(document: &Value) -> Reply {
    let mut reply = reply::json(StatusCode::OK, format!("{document}\n").into());
    // Any client may read it: it is what a client needs before it has anything.
    let any = HeaderValue::from_static("*");
    reply.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, any);
    reply
}
