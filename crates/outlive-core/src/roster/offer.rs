//! What one server offers, as it was learnt from it.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::IgnoredAny;

use crate::catalog::MOST_ITEMS;
use crate::fingerprint::fingerprint;
use crate::message::{blank_line_ends, value};
use crate::protocol::{Era, List, version};

/// An offer is kept up to this many bytes; what comes after is cut.
pub const MOST_BYTES: usize = 32 << 20;

/// A version is kept up to this many bytes.
pub(super) const LONGEST_VERSION: usize = 64;

/// The text of `instructions` is kept up to this many bytes. Nobody is shown as much.
const LONGEST_INSTRUCTIONS: usize = 64 << 10;

/// Entries nested deeper than this are not shown. Parsers take 128 levels at least, and an entry has a few around it.
const DEEPEST: usize = 100;

/// `serverInfo` and `capabilities` longer than this are taken for empty.
const LONGEST_OBJECT: usize = 256 << 10;

/// An entry of a list: a tool, a prompt, a resource or a template.
#[derive(Clone, PartialEq, Eq)]
pub struct Item {
    key: Box<str>,
    json: Bytes,
    at: Range<usize>,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Item").field(&self.key).finish()
    }
}

impl Item {
    /// Reads an entry; `None` if it has no key, or is not JSON to the letter.
    ///
    /// Payloads are not judged elsewhere. Entries are, because those of many servers go out in one message: a `NaN` in
    /// one of them, or more nesting than a parser takes, would cost the client the tools of all servers.
    pub fn read(list: List, json: Bytes) -> Option<Item> {
        let json = on_one_line(json);
        simdutf8::basic::from_utf8(&json).ok()?;
        serde_json::from_slice::<IgnoredAny>(&json).ok()?;
        if depth(&json) > DEEPEST {
            return None;
        }
        let at = value::member(&json, list.key())?;
        let key = value::text(&json[at.clone()])?.into();
        Some(Item { key, json, at })
    }

    /// The `name` of a tool or prompt, the `uri` of a resource, the `uriTemplate` of a template, without escapes.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The entry as it was sent, on one line.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// Where in [`json`](Item::json) the value of the key stands, quotes included.
    pub fn key_span(&self) -> Range<usize> {
        self.at.clone()
    }

    /// The value of the key as it was sent, quotes included.
    pub fn key_json(&self) -> &[u8] {
        &self.json[self.at.clone()]
    }

    /// The entry under another key; no other byte changes.
    pub fn json_with_key(&self, key: &str) -> Bytes {
        if *key == *self.key {
            return self.json.clone();
        }
        let quoted = value::quoted(key);
        let (before, after) = (&self.json[..self.at.start], &self.json[self.at.end..]);
        [before, quoted.as_bytes(), after].concat().into()
    }

    fn size(&self) -> usize {
        self.json.len() + self.key.len()
    }
}

/// Reads the result of a list request: its entries, and the cursor of the next page. `None` if it is no such result.
///
/// Entries that [cannot be read](Item::read) are left out.
pub fn read_page(list: List, result: &[u8]) -> Option<(Vec<Item>, Option<String>)> {
    let entries = value::member(result, list.member())?;
    // One copy for all entries: they are kept together and go together.
    let entries = Bytes::copy_from_slice(&result[entries]);
    let spans = value::elements(&entries)?;
    let items = spans
        .into_iter()
        .filter_map(|span| Item::read(list, entries.slice(span)))
        .collect();
    let next = value::member(result, "nextCursor")
        .and_then(|span| value::text(&result[span]))
        .filter(|cursor| !cursor.is_empty());
    Some((items, next.map(|cursor| cursor.into_owned())))
}

/// What one server offers. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub(super) protocol_version: Box<str>,
    pub(super) server_info: Bytes,
    pub(super) capabilities: Bytes,
    pub(super) instructions: Option<Box<str>>,
    pub(super) lists: [Option<Arc<[Item]>>; 4],
    pub(super) cut: bool,
}

impl Offer {
    /// An offer whose lists are not known yet. `server_info` and `capabilities` are JSON objects; what is none, or not
    /// JSON to the letter, is taken for an empty one.
    pub fn new(
        protocol_version: &str,
        server_info: &[u8],
        capabilities: &[u8],
        instructions: Option<&str>,
    ) -> Offer {
        let instructions = instructions.filter(|text| !text.is_empty());
        let kept = instructions.map(|text| &text[..text.floor_char_boundary(LONGEST_INSTRUCTIONS)]);
        Offer {
            protocol_version: protocol_version
                [..protocol_version.floor_char_boundary(LONGEST_VERSION)]
                .into(),
            server_info: object(server_info),
            capabilities: object(capabilities),
            cut: kept.map(str::len) < instructions.map(str::len),
            instructions: kept.map(Box::from),
            lists: [const { None }; 4],
        }
    }

    /// The offer in the result of `initialize` or `server/discover`, without its lists; `None` if it is neither.
    ///
    /// A modern server does not choose a version: `protocol_version` is the first one it supports.
    pub fn of_handshake(result: &[u8]) -> Option<Offer> {
        let part = |json: &[u8], name: &str| {
            let span = value::member(json, name)?;
            Some(Bytes::copy_from_slice(&json[span]))
        };
        let text = |json: &Bytes| value::text(json).map(|text| text.into_owned());
        let capabilities = part(result, "capabilities")?;
        let version = match part(result, "protocolVersion") {
            Some(version) => text(&version),
            None => part(result, "supportedVersions").and_then(|versions| {
                let first = value::elements(&versions)?.into_iter().next()?;
                text(&versions.slice(first))
            }),
        };
        let info = part(result, "serverInfo").or_else(|| {
            let meta = part(result, "_meta")?;
            part(&meta, crate::protocol::meta::SERVER_INFO)
        });
        let instructions = part(result, "instructions").and_then(|json| text(&json));
        Some(Offer::new(
            &version?,
            &info.unwrap_or_default(),
            &capabilities,
            instructions.as_deref(),
        ))
    }

    /// Sets a list. Entries beyond 100,000, or beyond [`MOST_BYTES`] of the whole offer, are cut; see
    /// [`is_cut`](Offer::is_cut).
    ///
    /// Of entries with one key the first stays. A server can only be asked for a key, so the later ones could not be
    /// reached, and most clients refuse a list that has a name twice.
    pub fn set_list(&mut self, list: List, items: Vec<Item>) {
        self.lists[list as usize] = None;
        let mut room = MOST_BYTES.saturating_sub(self.size());
        let mut kept: Vec<Item> = Vec::with_capacity(items.len().min(MOST_ITEMS));
        let mut seen = HashSet::with_capacity(kept.capacity());
        for item in items {
            if seen.contains(&item.key) {
                continue;
            }
            if kept.len() == MOST_ITEMS || item.size() > room {
                self.cut = true;
                break;
            }
            room -= item.size();
            seen.insert(item.key.clone());
            kept.push(item);
        }
        self.lists[list as usize] = Some(kept.into());
    }

    /// The same with this list.
    #[must_use]
    pub fn with_list(mut self, list: List, items: Vec<Item>) -> Offer {
        self.set_list(list, items);
        self
    }

    /// The version the server speaks.
    pub fn protocol_version(&self) -> &str {
        &self.protocol_version
    }

    /// Whether the server speaks 2026-07-28 and knows no handshake, as far as was learnt.
    pub fn is_modern(&self) -> bool {
        version::era(&self.protocol_version) == Some(Era::Modern)
    }

    /// `serverInfo`, a JSON object on one line.
    pub fn server_info(&self) -> &Bytes {
        &self.server_info
    }

    /// The capabilities, a JSON object on one line.
    pub fn capabilities(&self) -> &Bytes {
        &self.capabilities
    }

    /// What the server says about how it is used.
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// A list; `None` if the server does not offer it, or it was not learnt.
    pub fn list(&self, list: List) -> Option<&Arc<[Item]>> {
        self.lists[list as usize].as_ref()
    }

    /// Whether there was more than is kept.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether the server has declared this list. Templates come with resources.
    pub fn offers(&self, list: List) -> bool {
        self.has(list.capability())
    }

    /// Whether the server has declared `resources.subscribe`.
    pub fn can_subscribe(&self) -> bool {
        let resources = value::member(&self.capabilities, List::Resources.capability());
        let resources = resources.map(|span| &self.capabilities[span]);
        resources.is_some_and(|json| {
            value::member(json, "subscribe").is_some_and(|span| &json[span] == b"true")
        })
    }

    /// Whether the server has declared `logging`.
    pub fn logging(&self) -> bool {
        self.has("logging")
    }

    /// Whether the server has declared `completions`.
    pub fn completions(&self) -> bool {
        self.has("completions")
    }

    /// Whether the server has declared this capability.
    pub fn has(&self, capability: &str) -> bool {
        let declared = value::member(&self.capabilities, capability);
        declared.is_some_and(|span| !matches!(&self.capabilities[span], b"null" | b"false"))
    }

    /// A number that stands for a list as it was sent; `None` if it is not known. It is the same in every build.
    pub fn fingerprint(&self, list: List) -> Option<u64> {
        let items = self.list(list)?;
        let prints = items.iter().map(|item| fingerprint(&item.json));
        Some(digest(prints))
    }

    /// How many bytes it takes, about.
    pub fn size(&self) -> usize {
        let items = self.lists.iter().flatten().flat_map(|list| list.iter());
        self.server_info.len()
            + self.capabilities.len()
            + self.instructions.as_ref().map_or(0, |text| text.len())
            + items.map(Item::size).sum::<usize>()
    }
}

/// One number for many, in their order.
pub(super) fn digest(prints: impl Iterator<Item = u64>) -> u64 {
    prints.fold(fingerprint(b""), |sum, print| {
        let both = [sum.to_le_bytes(), print.to_le_bytes()].concat();
        fingerprint(&both)
    })
}

/// A JSON object on one line.
pub(super) fn object(json: &[u8]) -> Bytes {
    let is_one = json.len() <= LONGEST_OBJECT
        && json.trim_ascii().starts_with(b"{")
        && simdutf8::basic::from_utf8(json).is_ok()
        && serde_json::from_slice::<IgnoredAny>(json).is_ok()
        && depth(json) <= DEEPEST;
    match is_one {
        true => on_one_line(Bytes::copy_from_slice(json)),
        false => Bytes::from_static(b"{}"),
    }
}

/// How deep this JSON is nested.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in json {
        match (quoted, byte) {
            _ if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => quoted = !quoted,
            (false, b'{' | b'[') => depth += 1,
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn on_one_line(json: Bytes) -> Bytes {
    if memchr::memchr2(b'\r', b'\n', &json).is_none() {
        return json;
    }
    let mut line = json.to_vec();
    blank_line_ends(&mut line);
    line.into()
}
