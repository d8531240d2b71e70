//! The gateways that a client has come through.
//!
//! Each gateway has a name that it sends along to servers over HTTP ([`VIA`]), with the names of those that its client
//! has come through. A request that comes back to a gateway on any way around is refused there, before it opens the
//! next one: otherwise two gateways that have each other for a server would open sessions without end.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use hyper::HeaderMap;
use outlive_core::gateway::Lane;

use crate::http_server::VIA;

/// The most gateways in a row. Who has come through more of them has gone in a circle, whatever they are called.
const MOST: usize = 16;

/// How long the name of a gateway is: 64 bits in hexadecimal.
const NAME: usize = 16;

/// The gateways that a client has come through, one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way(Box<str>);

impl Way {
    /// What the headers of a client say. What is no name of a gateway is left out.
    pub(super) fn of(headers: &HeaderMap) -> Option<Way> {
        let names: Vec<&str> = names(headers).take(MOST).collect();
        (!names.is_empty()).then(|| Way(names.join(", ").into()))
    }

    /// Whether the headers lead in a circle, as this gateway sees it.
    pub(super) fn is_circle(headers: &HeaderMap, own: &str) -> bool {
        names(headers).any(|name| name == own) || names(headers).count() > MOST
    }

    /// Whose requests may share a server: those that have come this way.
    pub(super) fn lane(&self) -> Lane {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        Lane(hasher.finish())
    }

    /// The way of what this gateway sends for that client.
    pub(super) fn through(&self, own: &str) -> String {
        format!("{}, {own}", self.0)
    }
}

fn names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let given = headers.get_all(VIA).iter();
    let words = given.filter_map(|it| it.to_str().ok());
    let names = words.flat_map(|it| it.split(',')).map(str::trim);
    names.filter(|it| it.len() == NAME && it.bytes().all(|c| c.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(VIA, value.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn a_way_grows_by_each_gateway_and_is_a_circle_when_one_comes_twice() {
        let (a, b) = ("00000000000000aa", "00000000000000bb");
        assert_eq!(Way::of(&headers(&[])), None);
        let way = Way::of(&headers(&[a])).expect("a way");
        let onward = way.through(b);
        assert_eq!(onward, format!("{a}, {b}"));
        let onward = headers(&[&onward]);
        assert!(Way::is_circle(&onward, a) && Way::is_circle(&onward, b));
        assert!(!Way::is_circle(&onward, "00000000000000cc"));
        assert!(Way::is_circle(&headers(&[a, b]), b));
    }

    #[test]
    fn what_strangers_send_is_bounded_and_nothing_else_is_passed_on() {
        for junk in [
            "",
            "x",
            "00000000000000aa0",
            "0000000000000zaa",
            ",,,",
            "a, b",
        ] {
            assert_eq!(Way::of(&headers(&[junk])), None, "{junk}");
            assert!(!Way::is_circle(&headers(&[junk]), "00000000000000aa"));
        }
        let many: Vec<String> = (0..17).map(|n| format!("{n:016x}")).collect();
        assert!(!Way::is_circle(
            &headers(&[&many[..16].join(",")]),
            "ffffffffffffffff"
        ));
        assert!(Way::is_circle(
            &headers(&[&many.join(",")]),
            "ffffffffffffffff"
        ));
        let way = Way::of(&headers(&[&many.join(",")])).expect("a way");
        assert_eq!(way.0.split(", ").count(), 16);
    }
}
