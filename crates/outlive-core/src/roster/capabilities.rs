//! What many servers are able to do, declared as one.

use bytes::Bytes;
use serde::de::IgnoredAny;

use super::offer::Offer;
use crate::message::value;
use crate::protocol::List;

/// Capabilities beyond those of the specification that are declared.
const MOST_OTHERS: usize = 64;
/// The bytes of all of them.
const MOST_BYTES: usize = 64 << 10;

/// What all servers are able to do together. One that nothing is known of yet may be able to do anything: what is not
/// declared at the start of a session cannot be offered later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// There are tools.
    pub tools: bool,
    /// There are prompts.
    pub prompts: bool,
    /// There are resources.
    pub resources: bool,
    /// Resources can be subscribed to.
    pub subscribe: bool,
    /// Log messages can be had.
    pub logging: bool,
    /// Arguments can be completed.
    pub completions: bool,
    /// Other capabilities by name, as JSON, such as extensions. Of servers that declare the same one the first counts.
    pub others: Vec<(Box<str>, Bytes)>,
    /// The members of `experimental`, likewise.
    pub experimental: Vec<(Box<str>, Bytes)>,
    /// The members of `extensions`, likewise.
    pub extensions: Vec<(Box<str>, Bytes)>,
}

impl Capabilities {
    /// The capabilities of these servers.
    pub(super) fn of<'a>(offers: impl Iterator<Item = Option<&'a Offer>>) -> Capabilities {
        let mut all = Capabilities::default();
        let mut room = (MOST_OTHERS, MOST_BYTES);
        for offer in offers {
            all.tools |= offer.is_none_or(|it| it.offers(List::Tools));
            all.prompts |= offer.is_none_or(|it| it.offers(List::Prompts));
            all.resources |= offer.is_none_or(|it| it.offers(List::Resources));
            all.subscribe |= offer.is_none_or(Offer::can_subscribe);
            all.logging |= offer.is_none_or(Offer::logging);
            all.completions |= offer.is_none_or(Offer::completions);
            let declared = offer.map(|it| it.capabilities());
            for (name, json) in declared.into_iter().flat_map(members) {
                match &*name {
                    "tools" | "prompts" | "resources" | "logging" | "completions" => {}
                    "experimental" => add(&mut all.experimental, members(&json), &mut room),
                    "extensions" => add(&mut all.extensions, members(&json), &mut room),
                    _ => add(&mut all.others, vec![(name, json)], &mut room),
                }
            }
        }
        all
    }

    /// The capabilities as a JSON object. Lists are always declared to change: servers come and go.
    pub fn to_json(&self) -> Bytes {
        let mut out: Vec<String> = Vec::new();
        let mut declare = |declared: bool, member: &str| {
            if declared {
                out.push(member.into());
            }
        };
        declare(self.tools, r#""tools":{"listChanged":true}"#);
        declare(self.prompts, r#""prompts":{"listChanged":true}"#);
        match self.subscribe {
            true => declare(
                self.resources,
                r#""resources":{"subscribe":true,"listChanged":true}"#,
            ),
            false => declare(self.resources, r#""resources":{"listChanged":true}"#),
        }
        declare(self.logging, r#""logging":{}"#);
        declare(self.completions, r#""completions":{}"#);
        for (name, members) in [
            ("experimental", &self.experimental),
            ("extensions", &self.extensions),
        ] {
            let inner: Vec<String> = members.iter().map(member).collect();
            declare(
                !inner.is_empty(),
                &format!(r#""{name}":{{{}}}"#, inner.join(",")),
            );
        }
        for other in &self.others {
            declare(true, &member(other));
        }
        format!("{{{}}}", out.join(",")).into()
    }
}

fn member((name, json): &(Box<str>, Bytes)) -> String {
    format!("{}:{}", value::quoted(name), String::from_utf8_lossy(json))
}

/// The members of an object, if this is one.
fn members(object: &Bytes) -> Vec<(Box<str>, Bytes)> {
    let members = value::members(object).unwrap_or_default();
    let member = |(name, span): (String, std::ops::Range<usize>)| (name.into(), object.slice(span));
    members.into_iter().map(member).collect()
}

/// Adds those whose names are not there yet, for as long as there is room.
fn add(
    known: &mut Vec<(Box<str>, Bytes)>,
    members: Vec<(Box<str>, Bytes)>,
    (count, bytes): &mut (usize, usize),
) {
    for (name, json) in members {
        let size = name.len() + json.len();
        let fits = *count > 0 && size <= *bytes;
        let sound = serde_json::from_slice::<IgnoredAny>(&json).is_ok();
        if fits && sound && known.iter().all(|(other, _)| *other != name) {
            *count -= 1;
            *bytes -= size;
            known.push((name, json));
        }
    }
}
