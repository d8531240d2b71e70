//! Who may come in.
//!
//! A page from anywhere can make a browser send requests to this machine, under its own origin,
//! or under a name that it has made resolve to 127.0.0.1 (DNS rebinding). So the origin of a page
//! must be one we know, and so must the name we are called by; an address is not a name, and cannot
//! be rebound. Refusals say what to add where, or people turn the check off (FM-72).

use std::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{
    AUTHORIZATION, AsHeaderName, HOST, HeaderMap, HeaderValue, ORIGIN, WWW_AUTHENTICATE,
};
use hyper::{StatusCode, Uri};

use std::sync::Arc;

use outlive_core::principal::Principal;

use super::bearer::{self, Authentication, TokenVerifier};
use super::reply::{self, Reply, SESSION_ID};
use super::token::{Identity, TOKEN_LABEL, Tokens};

/// The rules for whoever wants to come in.
#[derive(Clone, Default)]
pub(crate) struct AccessRules {
    /// Names we may be called by, besides `localhost` and addresses.
    pub(crate) hosts: Vec<String>,
    /// Pages that may call us, besides those of this machine and our own.
    pub(crate) origins: Vec<String>,
    /// What everybody has to show.
    pub(crate) tokens: Option<Tokens>,
    /// What other replicas sign with that forward requests to us.
    pub(crate) secret: Option<super::secret::ReplicaSecret>,
    /// Who vouches for those that show no token of those, if anybody does.
    pub(crate) verifier: Option<Arc<dyn TokenVerifier>>,
    /// A public address is served without a token.
    pub(crate) anyone: bool,
    /// Whether settings are flags of a program; else they are methods.
    pub(crate) flags: bool,
    /// How connections are encrypted.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<super::tls::Tls>,
}

impl AccessRules {
    /// Whether this address may be served under these rules; if not, a sentence.
    pub(crate) fn allows(&self, address: SocketAddr) -> Result<(), String> {
        if address.ip().is_loopback() || self.anyone || self.wants_token() {
            return Ok(());
        }
        let how = match self.flags {
            true => {
                "Set a token (--token-file FILE), listen on 127.0.0.1, or, if somebody else keeps \
                 strangers out, say --allow-anyone."
            }
            false => "Set a token, listen on 127.0.0.1, or allow anyone explicitly.",
        };
        Err(format!(
            "{address} can be reached from other machines, and everybody could use the server. {how}"
        ))
    }

    /// Whether everybody has to show a token.
    pub(crate) fn wants_token(&self) -> bool {
        self.tokens.is_some() || self.verifier.is_some()
    }

    /// Refuses a request that says twice what must be said once: whoever looked at it on the way may have taken
    /// the other one.
    pub(crate) fn check_single(headers: &HeaderMap, uri: &Uri) -> Result<(), Box<Reply>> {
        let has_repeated = headers.len() > headers.keys_len();
        if !has_repeated && uri.authority().is_none() {
            return Ok(());
        }
        let twice = [HOST, ORIGIN, AUTHORIZATION, SESSION_ID]
            .into_iter()
            .find(|name| headers.get_all(name).iter().count() > 1);
        let host = header(headers, HOST);
        let sentence = match (twice, uri.authority(), host) {
            (Some(name), ..) => format!("The request has more than one {name} header."),
            (None, Some(named), Some(host)) if !named.as_str().eq_ignore_ascii_case(host) => {
                "The request names one host in its first line and another in its Host header."
                    .into()
            }
            _ => return Ok(()),
        };
        Err(reply::refusal(StatusCode::BAD_REQUEST, sentence).into())
    }

    /// Whether a request comes from where it may; if not, the response to it.
    pub(crate) fn check_names(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Box<Reply>> {
        let host = header(headers, HOST).or_else(|| uri.authority().map(|it| it.as_str()));
        let Some(host) = host else {
            let sentence = "The request has no Host header.";
            return Err(reply::refusal(StatusCode::BAD_REQUEST, sentence).into());
        };
        if !self.knows_host(host) {
            return Err(self.forbidden("Host", host));
        }
        if let Some(origin) = headers.get(ORIGIN) {
            let origin = origin.to_str().unwrap_or("?");
            if !self.knows_origin(origin, host) {
                return Err(self.forbidden("Origin", origin));
            }
        }
        Ok(())
    }

    fn knows_host(&self, host: &str) -> bool {
        let name = without_port(host);
        let verifier = self.verifier.as_deref();
        is_local(name)
            || address(name).is_some()
            || verifier
                .and_then(TokenVerifier::host)
                .is_some_and(|known| known.eq_ignore_ascii_case(name))
            || self
                .hosts
                .iter()
                .any(|known| matches(known, host) || matches(known, name))
    }

    fn knows_origin(&self, origin: &str, host: &str) -> bool {
        if self.origins.iter().any(|known| matches(known, origin)) {
            return true;
        }
        match origin.split_once("://") {
            // A page of our own has our own name, which was checked before.
            Some(("http" | "https", from)) => {
                is_local(without_port(from)) || from.eq_ignore_ascii_case(host)
            }
            _ => false,
        }
    }

    /// Who sends a request to this path; if it shows no good token where one is needed, the response to it.
    pub(crate) fn authenticate(&self, headers: &HeaderMap, path: &str) -> Authentication {
        if !self.wants_token() {
            return Authentication::Known(Ok(Identity::default()));
        }
        let Some(shown) = header(headers, AUTHORIZATION) else {
            let reply = match self.verifier.as_deref() {
                Some(verifier) => bearer::missing(verifier, path),
                None => reply::unauthorized("A token is needed: send `Authorization: Bearer …`."),
            };
            return Authentication::Known(Err(reply.into()));
        };
        let shown = shown
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        self.admit(shown.map_or("", |(_, shown)| shown.trim()), path)
    }

    /// Whose token this is. One of the file is compared as a whole, so it is looked for first.
    fn admit(&self, shown: &str, path: &str) -> Authentication {
        let tokens = self.tokens.as_ref();
        match (tokens.and_then(|it| it.admit(shown)), &self.verifier) {
            (Some(credential), _) => Authentication::Known(Ok(credential.into())),
            (None, Some(verifier)) if !shown.is_empty() => {
                bearer::authenticate(verifier, shown, path)
            }
            (None, Some(verifier)) => {
                Authentication::Known(Err(bearer::missing(&**verifier, path).into()))
            }
            (None, None) => {
                let reply = reply::unauthorized("The token is not the right one.");
                Authentication::Known(Err(reply.into()))
            }
        }
    }

    /// Who sends a request that another replica has let in under this label.
    pub(crate) fn vouched(&self, label: &str) -> Option<Identity> {
        match (&self.tokens, label.strip_prefix("caller-")) {
            (Some(tokens), None) if label.starts_with(TOKEN_LABEL) => {
                tokens.of_label(label).map(Identity::from)
            }
            (_, Some(number)) => {
                let caller = Principal::Caller(number.parse().ok()?);
                Some(Identity::default().or(Some(caller)))
            }
            (None, None) if !self.wants_token() && label == Principal::Anyone.to_string() => {
                Some(Identity::default())
            }
            _ => None,
        }
    }

    /// The same for a page a person looks at: browsers can show a token only as a password.
    pub(crate) async fn authenticate_browser(&self, headers: &HeaderMap) -> Result<(), Box<Reply>> {
        if !self.wants_token() {
            return Ok(());
        }
        // The page is about all that is served.
        let path = "/";
        let password = || {
            let (scheme, coded) = header(headers, AUTHORIZATION)?.split_once(' ')?;
            let pair = BASE64_STANDARD.decode(coded.trim()).ok();
            let pair = pair.filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
            let (_, password) = std::str::from_utf8(&pair).ok()?.split_once(':')?;
            Some(password.to_owned())
        };
        let authentication = match password() {
            Some(password) => self.admit(&password, path),
            None => self.authenticate(headers, path),
        };
        let identity = authentication.settled().await.map_err(|mut reply| {
            if reply.status() == StatusCode::UNAUTHORIZED {
                let how = HeaderValue::from_static(
                    "Basic realm=\"outlive: any name, the token as password\"",
                );
                reply.headers_mut().insert(WWW_AUTHENTICATE, how);
            }
            reply
        })?;
        if identity.is_operator() {
            return Ok(());
        }
        let sentence = match (identity.user(), identity.view()) {
            (None, Some(view)) => format!("This token is good for the view {view:?} only."),
            (_, _) => {
                let how = match self.flags {
                    true => "--oauth-operator",
                    false => "`operator`",
                };
                format!(
                    "This is for operators, and {} is none. Whoever runs this server can change that: {how}.",
                    identity.user().map_or("this token", |user| user.name())
                )
            }
        };
        Err(reply::refusal(StatusCode::FORBIDDEN, sentence).into())
    }

    /// The views that tokens are good for, as far as their file was read.
    pub(crate) fn token_views(&self) -> Vec<Box<str>> {
        let verifier = self.verifier.as_deref();
        let mut views = self.tokens.as_ref().map(Tokens::views).unwrap_or_default();
        views.extend(verifier.into_iter().flat_map(TokenVerifier::views));
        views
    }

    /// Whether this request may be told everything that there is to know about the servers.
    pub(crate) fn may_see_all(&self, headers: &HeaderMap) -> bool {
        let identity = self.authenticate(headers, "/").at_once();
        identity.is_some_and(|identity| identity.is_operator())
    }

    fn forbidden(&self, what: &str, value: &str) -> Box<Reply> {
        let value: String = value.chars().take(200).collect();
        let name = what.to_ascii_lowercase();
        let setting = match self.flags {
            true => format!("`--allow-{name} {value}`"),
            false => format!("`allow_{name}({value:?})`"),
        };
        let sentence = format!(
            "The {what} {value:?} is not allowed here. If it should be, whoever runs this server can add it: {setting}."
        );
        reply::refusal(StatusCode::FORBIDDEN, sentence).into()
    }
}

/// Whether an entry of a list means this. `*` means everything, and `*.example.com` every name
/// that ends so.
fn matches(entry: &str, value: &str) -> bool {
    match entry.strip_prefix('*') {
        Some("") => true,
        Some(end) if end.starts_with('.') => {
            let at = value.len().checked_sub(end.len());
            let tail = at.filter(|at| *at > 0).and_then(|at| value.get(at..));
            tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end))
        }
        _ => entry.eq_ignore_ascii_case(value),
    }
}

/// The one value of a header, if it is text.
pub(crate) fn header(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

pub(super) fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => {
            name
        }
        _ => authority,
    }
}

fn address(name: &str) -> Option<IpAddr> {
    let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    bare.unwrap_or(name).parse().ok()
}

pub(super) fn is_local(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || address(name).is_some_and(|ip| ip.is_loopback())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn checked(access: &AccessRules, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header value"));
        }
        let checked = access
            .check_names(&map, &Uri::from_static("/mcp"))
            .and_then(|()| match access.authenticate(&map, "/mcp") {
                Authentication::Known(known) => known.map(drop),
                Authentication::Asked(_) => unreachable!("nobody can be asked"),
            });
        match checked {
            Ok(()) => 200,
            Err(reply) => reply.status().as_u16(),
        }
    }

    #[test]
    fn fm_72_names_and_pages_from_elsewhere_stay_out() {
        let access = AccessRules::default();
        let cases = [
            ("localhost", None, 200),
            ("LOCALHOST:80", None, 200),
            ("127.0.0.1:3001", Some("http://127.0.0.1:3001"), 200),
            ("127.0.0.1:3001", Some("http://localhost:5173"), 200),
            ("[::1]:80", Some("http://[::1]:80"), 200),
            ("192.168.1.2:80", None, 200),
            ("192.168.1.2:80", Some("http://192.168.1.2:80"), 200),
            ("192.168.1.2:80", Some("http://192.168.1.3:80"), 403),
            ("evil.example.com", None, 403),
            ("localhost.evil.example.com", None, 403),
            ("127.0.0.1.evil.example.com:80", None, 403),
            ("localhost", Some("http://evil.example.com"), 403),
            ("localhost", Some("http://localhost.evil.example.com"), 403),
            ("localhost", Some("null"), 403),
            ("localhost", Some("file://localhost"), 403),
        ];
        for (host, origin, expected) in cases {
            let mut headers = vec![("host", host)];
            headers.extend(origin.map(|origin| ("origin", origin)));
            assert_eq!(checked(&access, &headers), expected, "{headers:?}");
        }
        assert_eq!(checked(&access, &[]), 400);
    }

    #[test]
    fn fm_72_what_is_said_twice_is_refused() {
        let checked = |headers: &[(&'static str, &'static str)], uri: &'static str| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, HeaderValue::from_static(value));
            }
            AccessRules::check_single(&map, &Uri::from_static(uri)).is_ok()
        };
        assert!(checked(&[("host", "a"), ("origin", "http://b")], "/mcp"));
        assert!(checked(&[("host", "a")], "http://A/mcp"));
        assert!(checked(&[], "http://a/mcp"));
        assert!(!checked(&[("host", "a")], "http://b/mcp"));
        for name in ["host", "origin", "authorization", "mcp-session-id"] {
            assert!(!checked(&[(name, "a"), (name, "a")], "/mcp"), "{name}");
        }
    }

    #[test]
    fn fm_72_what_was_allowed_comes_in() {
        let access = AccessRules {
            hosts: vec!["mcp.example.com".into()],
            origins: vec!["https://app.example.com".into()],
            ..AccessRules::default()
        };
        for host in ["mcp.example.com", "mcp.example.com:8443"] {
            assert_eq!(checked(&access, &[("host", host)]), 200);
        }
        let from = |origin| checked(&access, &[("host", "mcp.example.com"), ("origin", origin)]);
        assert_eq!(from("https://app.example.com"), 200);
        assert_eq!(from("https://mcp.example.com"), 200);
        assert_eq!(from("https://other.example.com"), 403);
    }

    #[test]
    fn fm_72_a_star_stands_for_many() {
        let access = AccessRules {
            hosts: vec!["*.example.com".into()],
            origins: vec!["*".into()],
            ..AccessRules::default()
        };
        for (host, expected) in [
            ("a.example.com", 200),
            ("a.b.EXAMPLE.com:8080", 200),
            ("example.com", 403),
            (".example.com", 403),
            ("example.com.evil.org", 403),
            ("a.example.com.evil.org", 403),
            ("aexample.com", 403),
        ] {
            let headers = [("host", host), ("origin", "https://anything")];
            assert_eq!(checked(&access, &headers), expected, "{host}");
        }
    }

    #[test]
    fn a_token_is_a_bearers() {
        let access = AccessRules {
            tokens: Some(Tokens::word("secret".into())),
            ..AccessRules::default()
        };
        let shown = |value| checked(&access, &[("host", "localhost"), ("authorization", value)]);
        assert_eq!(shown("Bearer secret"), 200);
        assert_eq!(shown("bearer  secret "), 200);
        for wrong in [
            "Bearer secre",
            "Bearer secret2",
            "Bearer ",
            "Basic secret",
            "secret",
        ] {
            assert_eq!(shown(wrong), 401, "{wrong}");
        }
        assert_eq!(checked(&access, &[("host", "localhost")]), 401);
    }

    /// What comes of something that nobody else has to be asked about.
    pub(in super::super) fn at_once<T>(answer: impl Future<Output = T>) -> T {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(answer).poll(&mut context) {
            Poll::Ready(it) => it,
            Poll::Pending => panic!("it is not known yet"),
        }
    }

    #[test]
    fn a_person_shows_the_token_as_a_password() {
        let access = AccessRules {
            tokens: Some(Tokens::word("secret".into())),
            ..AccessRules::default()
        };
        let shown = |value: &'static str| {
            let mut map = HeaderMap::new();
            map.insert("authorization", HeaderValue::from_static(value));
            let basic = at_once(access.authenticate_browser(&map)).is_ok();
            let bearer = access.authenticate(&map, "/mcp").at_once();
            (basic, bearer.is_some())
        };
        assert_eq!(shown("Bearer secret"), (true, true));
        // me:secret, me:wrong, secret
        assert_eq!(shown("Basic bWU6c2VjcmV0"), (true, false));
        assert_eq!(shown("Basic bWU6d3Jvbmc="), (false, false));
        assert_eq!(shown("Basic c2VjcmV0"), (false, false));
        assert_eq!(shown("Basic ???"), (false, false));
    }

    #[test]
    fn a_public_address_needs_a_token_or_a_word() {
        let public: SocketAddr = "0.0.0.0:80".parse().expect("an address");
        let local: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        let mut access = AccessRules::default();
        assert!(access.allows(local).is_ok());
        assert!(access.allows(public).unwrap_err().contains("token"));
        access.anyone = true;
        assert!(access.allows(public).is_ok());
        access = AccessRules {
            tokens: Some(Tokens::word("t".into())),
            ..AccessRules::default()
        };
        assert!(access.allows(public).is_ok());
    }
}
