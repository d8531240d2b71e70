//! What a person may have done to a server, and who may ask for it.
//!
//! A browser sends what it knows along with requests of any page: the password it was given, and that it is on this
//! machine. So a request to do something must show that it comes from our own page, or from no page at all:
//!
//! - `Origin`, which browsers send with every `POST`, must name the host that is asked, if it is there. Pages that
//!   `--allow-origin` lets in may use servers; they may not restart them.
//! - `Sec-Fetch-Site`, where there is one, must say the same.
//! - `Outlive-Action` must repeat the action. A form cannot send it, and a script from elsewhere would have to ask
//!   before.
//!
//! With tokens, one must be shown, as a password or as a bearer's. Without, whoever asks must be on this machine: the
//! listener is reached from nowhere else, and the name that is asked for must be one of this machine (FM-72).

use hyper::StatusCode;
use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};
use percent_encoding::percent_decode_str;

use super::access::{AccessRules, header, is_local, without_port};
use super::refusal::Refused;
use super::reply;

const ACTION: HeaderName = HeaderName::from_static("outlive-action");
/// What is accepted: the digest of what was shown.
const DIGEST: HeaderName = HeaderName::from_static("outlive-digest");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What may be done to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Put a new process or connection under its sessions.
    Restart,
    /// Stop it until somebody needs it.
    Stop,
    /// Accept what is withheld of its definitions.
    Accept,
}

impl Action {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Action::Restart => "restart",
            Action::Stop => "stop",
            Action::Accept => "accept",
        }
    }
}

/// Why nothing was done to a server.
#[cfg_attr(
    not(feature = "gateway"),
    expect(dead_code, reason = "only gateways act on servers")
)]
pub(crate) enum ActionError {
    /// There is no server of that name, but there are these.
    NoSuchServer(Vec<String>),
    /// It is not as whoever asked believes, in a sentence.
    Conflict(String),
}

/// The server and the action that a path names: `/servers/NAME/restart`.
pub(super) fn named(path: &str) -> Option<(String, Action)> {
    let (name, verb) = path.strip_prefix("/servers/")?.rsplit_once('/')?;
    let actions = [Action::Restart, Action::Stop, Action::Accept];
    let action = actions.into_iter().find(|action| action.as_str() == verb)?;
    let name = percent_decode_str(name).decode_utf8().ok()?;
    Some((name.into_owned(), action))
}

/// The digest of what is to be accepted.
pub(super) fn digest(headers: &HeaderMap) -> &str {
    header(headers, DIGEST).unwrap_or_default()
}

impl AccessRules {
    /// Whether anybody at all may act here. Without tokens it has to be known that nobody comes from elsewhere.
    pub(super) fn may_act(&self, mounted: bool) -> bool {
        self.wants_token() || (!self.anyone && !mounted)
    }

    /// Whether whoever sends this request may have an action done; if not, the response to it.
    pub(super) async fn check_action(
        &self,
        headers: &HeaderMap,
        action: Action,
        mounted: bool,
    ) -> Refused<()> {
        self.authenticate_browser(headers).await?;
        let forbidden = |sentence: &str| reply::refusal(StatusCode::FORBIDDEN, sentence).into();
        let host = header(headers, HOST).unwrap_or_default();
        let is_ours = self.may_act(mounted);
        if !is_ours || (!self.wants_token() && !is_local(without_port(host))) {
            let how = match self.flags {
                true => "--token-file FILE",
                false => "a token",
            };
            let sentence = format!(
                "Without a token, servers are restarted and stopped, and definitions accepted, from this machine only, \
                 under the name localhost or its address. Whoever runs this gateway can set one: {how}."
            );
            return Err(forbidden(&sentence));
        }
        let is_own = |origin: &str| {
            let from = origin.split_once("://").map(|(_, from)| from);
            from.is_some_and(|from| from.eq_ignore_ascii_case(host))
        };
        let origin = headers.get(ORIGIN).map(|it| it.to_str().unwrap_or("?"));
        let site = header(headers, SEC_FETCH_SITE);
        if origin.is_some_and(|origin| !is_own(origin))
            || site.is_some_and(|it| it != "same-origin")
        {
            return Err(forbidden(
                "A page of another origin may not do anything to servers. Nothing was done.",
            ));
        }
        if header(headers, ACTION) != Some(action.as_str()) {
            let sentence = format!(
                "Nothing was done: the request must have the header `Outlive-Action: {0}`, which shows that it was \
                 meant.",
                action.as_str()
            );
            return Err(forbidden(&sentence));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_server::Tokens;
    use crate::http_server::access::tests::at_once;

    fn checked(access: &AccessRules, headers: &[(&'static str, &'static str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a header value"));
        }
        match at_once(access.check_action(&map, Action::Stop, false)) {
            Ok(()) => 200,
            Err(reply) => reply.status().as_u16(),
        }
    }

    #[test]
    fn paths_name_a_server_and_an_action() {
        let of = |path| named(path).map(|(name, action)| (name, action.as_str()));
        assert_eq!(of("/servers/a/restart"), Some(("a".into(), "restart")));
        assert_eq!(
            of("/servers/a%20b%2Fc/stop"),
            Some(("a b/c".into(), "stop"))
        );
        for path in [
            "/servers/a",
            "/servers/a/kill",
            "/servers/a/accept/b",
            "/servers/%ff/stop",
            "/stop",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn fm_72_only_our_own_page_or_no_page_at_all_may_act() {
        let access = AccessRules {
            origins: vec!["*".into()],
            ..AccessRules::default()
        };
        let (host, meant) = (("host", "localhost:8620"), ("outlive-action", "stop"));
        assert_eq!(checked(&access, &[host, meant]), 200);
        assert_eq!(checked(&access, &[host]), 403);
        assert_eq!(
            checked(&access, &[host, ("outlive-action", "restart")]),
            403
        );
        for (origin, expected) in [
            ("http://localhost:8620", 200),
            ("https://LOCALHOST:8620", 200),
            ("http://localhost:5173", 403),
            ("http://localhost", 403),
            ("http://127.0.0.1:8620", 403),
            ("https://elsewhere.example.com", 403),
            ("null", 403),
        ] {
            let headers = [host, meant, ("origin", origin)];
            assert_eq!(checked(&access, &headers), expected, "{origin}");
        }
        for (site, expected) in [
            ("same-origin", 200),
            ("same-site", 403),
            ("cross-site", 403),
        ] {
            let headers = [host, meant, ("sec-fetch-site", site)];
            assert_eq!(checked(&access, &headers), expected, "{site}");
        }
    }

    #[test]
    fn without_a_token_one_has_to_be_here() {
        let mut access = AccessRules::default();
        let meant = ("outlive-action", "stop");
        for (host, expected) in [
            ("127.0.0.1:8620", 200),
            ("[::1]:8620", 200),
            ("192.168.1.2:8620", 403),
            ("mcp.example.com", 403),
        ] {
            assert_eq!(
                checked(&access, &[("host", host), meant]),
                expected,
                "{host}"
            );
        }
        let here = [("host", "localhost:8620"), meant];
        access.anyone = true;
        assert_eq!(checked(&access, &here), 403);
        access.tokens = Some(Tokens::word("secret".into()));
        assert_eq!(checked(&access, &here), 401);
        let elsewhere = [("host", "mcp.example.com"), meant];
        assert_eq!(checked(&access, &elsewhere), 401);
        for shown in ["Bearer secret", "Basic bWU6c2VjcmV0"] {
            let shown = ("authorization", shown);
            assert_eq!(checked(&access, &[elsewhere[0], meant, shown]), 200);
            assert_eq!(checked(&access, &[elsewhere[0], shown]), 403);
        }
    }
}
