//! What the headers of a request say, found in one pass.
//!
//! Each lookup in a header map hashes a name. A listener would ask for a dozen of them, most of which are not there,
//! and nearly every client writes the others as the specification does. So all of them are looked at once, as they
//! come; whoever finds something unusual here looks closer.

use hyper::header::{HeaderMap, HeaderValue};
use outlive_core::protocol::{Era, header, version};

/// The header by which a gateway knows its own requests again, should the address of one of its servers lead back to
/// it.
pub(crate) const VIA: &str = "outlive-via";

/// What the headers of one request say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    /// It calls us `localhost` or `127.0.0.1`, and says so once.
    pub(super) is_called_local: bool,
    /// It names the origin of a page.
    pub(super) has_origin: bool,
    /// Some gateway has sent it.
    pub(super) has_via: bool,
    /// Another replica claims to have sent it.
    pub(super) has_passport: bool,
    /// Its client waits to be told whether to send the body.
    pub(super) waits: bool,
    /// Its body is JSON, in the usual words.
    pub(super) is_json: bool,
    /// The client takes JSON and streams, in the usual words.
    pub(super) accepts_both: bool,
    /// The revision of the protocol that it names, if that is text.
    pub(super) revision: Option<Revision>,
}

/// A revision of the protocol, as far as the listener tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Revision {
    /// One with sessions.
    Legacy,
    /// One with sessions, whose clients know events without a message.
    Primed,
    /// The modern one, or one that we do not know.
    Other,
}

impl Head {
    /// Reads the headers, and marks what is a secret, so that it is not shown where headers are written for people
    /// (`{:?}`).
    pub(super) fn read(headers: &mut HeaderMap) -> Head {
        let mut head = Head::default();
        // Of what is said twice the first counts.
        let (mut has_host, mut has_type, mut has_version) = (false, false, false);
        for (name, value) in headers {
            match name.as_str() {
                "content-type" if !has_type => {
                    has_type = true;
                    head.is_json = value.as_bytes() == b"application/json";
                }
                // As the specification has it, and nearly every client.
                "accept" => {
                    let usual = b"application/json, text/event-stream";
                    head.accepts_both |= value.as_bytes() == usual;
                }
                header::PROTOCOL_VERSION if !has_version => {
                    has_version = true;
                    head.revision = Revision::of(value);
                }
                "host" => {
                    head.is_called_local = !has_host && is_local(value.as_bytes());
                    has_host = true;
                }
                "origin" => head.has_origin = true,
                VIA => head.has_via = true,
                super::passport::NAME => head.has_passport = true,
                "expect" => {
                    head.waits |= value.as_bytes().eq_ignore_ascii_case(b"100-continue");
                }
                header::SESSION_ID | "authorization" | "proxy-authorization" | "cookie" => {
                    value.set_sensitive(true);
                }
                _ => {}
            }
        }
        head
    }
}

/// Whether this is a usual name of this machine, with a port or without.
fn is_local(host: &[u8]) -> bool {
    let port = host.strip_prefix(b"127.0.0.1");
    match port.or_else(|| host.strip_prefix(b"localhost")) {
        Some([b':', port @ ..]) => port.iter().all(u8::is_ascii_digit),
        port => port.is_some_and(<[u8]>::is_empty),
    }
}

impl Revision {
    fn of(value: &HeaderValue) -> Option<Revision> {
        let named = value.to_str().ok()?.trim();
        Some(match version::era(named) {
            Some(Era::Legacy) if named == version::PRIMED => Revision::Primed,
            Some(Era::Legacy) => Revision::Legacy,
            Some(Era::Modern) | None => Revision::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(headers: &[(&'static str, &'static str)]) -> Head {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        Head::read(&mut map)
    }

    #[test]
    fn the_usual_words_are_known() {
        let usual = head(&[
            ("host", "localhost"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-06-18"),
        ]);
        let expected = Head {
            is_called_local: true,
            is_json: true,
            accepts_both: true,
            revision: Some(Revision::Legacy),
            ..Head::default()
        };
        assert_eq!(usual, expected);
        assert_eq!(head(&[("user-agent", "a")]), Head::default());
    }

    #[test]
    fn usual_names_of_this_machine_are_known() {
        let is_local = |name| head(&[("host", name)]).is_called_local;
        for name in ["localhost", "localhost:80", "127.0.0.1", "127.0.0.1:8080"] {
            assert!(is_local(name), "{name}");
        }
        for name in [
            "",
            ":80",
            "localhost.example.com",
            "127.0.0.1.example.com:80",
            "127.0.0.11",
            "localhost:80@example.com",
            "localhost:8o",
            "[::1]:80",
        ] {
            assert!(!is_local(name), "{name}");
        }
        let twice = head(&[("host", "localhost"), ("host", "localhost")]);
        assert!(!twice.is_called_local);
    }

    #[test]
    fn what_is_unusual_is_left_to_those_who_look_closer() {
        let unusual = head(&[
            ("content-type", "application/json; charset=utf-8"),
            ("accept", "*/*"),
        ]);
        assert_eq!(unusual, Head::default());
        let twice = head(&[
            ("content-type", "text/plain"),
            ("content-type", "application/json"),
        ]);
        assert_eq!(twice, Head::default());
    }

    #[test]
    fn revisions_are_told_apart() {
        let revision = |text| head(&[("mcp-protocol-version", text)]).revision;
        assert_eq!(revision("2025-11-25 "), Some(Revision::Primed));
        assert_eq!(revision("2024-11-05"), Some(Revision::Legacy));
        assert_eq!(revision("2026-07-28"), Some(Revision::Other));
        assert_eq!(revision("tomorrow"), Some(Revision::Other));
        let twice = head(&[
            ("mcp-protocol-version", "2025-06-18"),
            ("mcp-protocol-version", "2026-07-28"),
        ]);
        assert_eq!(twice.revision, Some(Revision::Legacy));
    }

    #[test]
    fn secrets_are_marked() {
        let mut map = HeaderMap::new();
        for name in [
            "authorization",
            "proxy-authorization",
            "cookie",
            "mcp-session-id",
        ] {
            map.append(name, HeaderValue::from_static("secret"));
        }
        map.append("host", HeaderValue::from_static("localhost"));
        map.append("cookie", HeaderValue::from_static("secret"));
        Head::read(&mut map);
        let shown = format!("{map:?}");
        assert!(
            !shown.contains("secret") && shown.contains("localhost"),
            "{shown}"
        );
    }
}
