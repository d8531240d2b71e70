//! The head of a response, as the rules read it.

use std::time::{Duration, SystemTime};

use outlive_core::http_upstream::{Head, Location};
use reqwest::header::{CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
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
        retry_after,
        authenticate: text(WWW_AUTHENTICATE).map(str::to_string),
        location: text(LOCATION).and_then(|to| location(sent, to)),
        names_session,
        turn,
        mirrored,
    }
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

/// `Retry-After`: seconds, or a date.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
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
}
