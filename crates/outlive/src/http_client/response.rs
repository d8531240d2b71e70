//! The head of a response, as the rules read it.

use std::time::{Duration, SystemTime};

use outlive_core::http_upstream::{Foreign, Head, Location};
use reqwest::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{Response, Url};

/// What the head of this response says; `sent` is where the request went, `turn` and `mirrored` what it had.
pub(super) fn head(
    response: &Response,
    sent: &Url,
    turn: u64,
    mirrored: u64,
    names_session: bool,
) -> Head {
    let text = |name: HeaderName| response.headers().get(name)?.to_str().ok();
    let retry_after = text(RETRY_AFTER).and_then(|later| retry_after(later, SystemTime::now()));
    Head {
        status: response.status().as_u16(),
        stream: text(CONTENT_TYPE).is_some_and(is_stream),
        foreign: foreign(text(CONTENT_TYPE), text(CONTENT_ENCODING)),
        retry_after,
        authenticate: challenges(response.headers()),
        location: text(LOCATION).and_then(|to| location(sent, to)),
        names_session,
        turn,
        mirrored,
    }
}

/// All that a server asks for, in however many headers it says so (RFC 9110, 11.6.1).
pub(crate) fn challenges(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(WWW_AUTHENTICATE).into_iter();
    let all: Vec<&str> = all.filter_map(|it| it.to_str().ok()).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Whether this is the type of a stream of events.
fn is_stream(kind: &str) -> bool {
    let kind = kind.trim_start().to_ascii_lowercase();
    kind.starts_with("text/event-stream")
}

/// The address that is meant by `to`, as seen from where a request was sent.
fn location(sent: &Url, to: &str) -> Option<Location> {
    let to = sent.join(to).ok()?;
    let other = to.origin() != sent.origin();
    Some(Location {
        other_origin: other.then(|| to.origin().ascii_serialization()),
        to: to.into(),
    })
}

/// What a body of this type and encoding is, if it can be no message.
fn foreign(kind: Option<&str>, encoding: Option<&str>) -> Option<Foreign> {
    /// Letters that are shown.
    const MOST: usize = 60;
    let shown = |text: &str| text.chars().take(MOST).collect::<String>();
    let encoding = encoding.map(|it| it.trim().to_ascii_lowercase());
    if let Some(encoding) = encoding.filter(|it| !matches!(&**it, "" | "identity")) {
        return Some(Foreign::Encoding(shown(&encoding)));
    }
    let kind = kind?.split(';').next()?.trim().to_ascii_lowercase();
    let is_json = kind == "application/json" || kind.ends_with("+json") || kind.is_empty();
    (!is_json && !is_stream(&kind)).then(|| Foreign::Type(shown(&kind)))
}

/// `Retry-After`: seconds, or a date. A number too large is for ever, one below zero is now; what is neither a number
/// nor a date says nothing.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let digits = value.strip_prefix('-').unwrap_or(value);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(match digits == value {
            true => value.parse().map_or(Duration::MAX, Duration::from_secs),
            false => Duration::ZERO,
        });
    }
    let at = httpdate::parse_http_date(value).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_seen_from_where_the_request_was_sent() {
        let sent = Url::parse("https://example.com/a/mcp").unwrap();
        for (to, whole, other) in [
            ("/mcp/", "https://example.com/mcp/", None),
            ("b", "https://example.com/a/b", None),
            (
                "http://example.com/a",
                "http://example.com/a",
                Some("http://example.com"),
            ),
            (
                "//evil.example/",
                "https://evil.example/",
                Some("https://evil.example"),
            ),
        ] {
            let location = location(&sent, to).unwrap();
            assert_eq!(location.to, whole);
            assert_eq!(location.other_origin.as_deref(), other, "{to}");
        }
        assert_eq!(location(&sent, "http://"), None);
    }

    #[test]
    fn a_stream_is_known_by_its_type() {
        for kind in ["text/event-stream", " Text/Event-Stream; charset=utf-8"] {
            assert!(is_stream(kind), "{kind}");
        }
        assert!(!is_stream("application/json"));
    }

    #[test]
    fn retry_after_is_a_number_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(retry_after(" 3 ", now), Some(Duration::from_secs(3)));
        let date = "Sun, 06 Nov 1994 08:49:47 GMT";
        assert_eq!(retry_after(date, now), Some(Duration::from_secs(10)));
        let past = "Sun, 06 Nov 1994 08:49:27 GMT";
        assert_eq!(retry_after(past, now), Some(Duration::ZERO));
        assert_eq!(retry_after("soon", now), None);
    }

    #[test]
    fn an_absurd_retry_after_is_for_ever_or_now_or_nothing() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let endless = "9".repeat(40);
        assert_eq!(retry_after(&endless, now), Some(Duration::MAX));
        let years = retry_after("Fri, 31 Dec 9999 23:59:59 GMT", now);
        assert!(years > Some(Duration::from_secs(7000 * 365 * 86_400)));
        for value in ["-1", "-99999999999999999999999999", "0"] {
            assert_eq!(retry_after(value, now), Some(Duration::ZERO), "{value}");
        }
        for value in [
            "",
            "-",
            "1.5",
            "+3",
            "0x10",
            "1e9",
            "\u{663}",
            "Fri, 99 Foo 9999",
        ] {
            assert_eq!(retry_after(value, now), None, "{value}");
        }
    }

    #[test]
    fn a_body_that_can_be_no_message_is_named() {
        let kind = |kind: &str| foreign(Some(kind), None);
        for json in [
            "application/json",
            " Application/JSON ; charset=utf-8",
            "a/b+json",
            "",
        ] {
            assert_eq!(kind(json), None, "{json}");
        }
        assert_eq!(kind("text/event-stream"), None);
        assert_eq!(foreign(None, Some("identity")), None);
        assert_eq!(
            kind("text/HTML; charset=utf-8"),
            Some(Foreign::Type("text/html".into()))
        );
        assert_eq!(
            foreign(Some("application/json"), Some("gzip")),
            Some(Foreign::Encoding("gzip".into()))
        );
    }
}
