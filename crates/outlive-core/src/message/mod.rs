//! Messages: the bytes a peer wrote, and what must be known about them to pass them on.
//!
//! # Theory
//!
//! A line is walked over once. What the lifecycle rules need (the kind, the id, the method and a
//! few fields of `params`) is remembered as positions; everything else is payload and leaves as it
//! came, byte for byte. A line that cannot be passed on becomes a [`Defect`], which keeps what is
//! needed to answer it all the same: a request whose id can be read is always answered.
//!
//! | file | what happens there |
//! |---|---|
//! | `envelope`, `part` | the fields that rules depend on, found in one walk |
//! | `head` | what is kept of them |
//! | `scan`, `block` | walking over JSON text, sixty-four bytes at a time |
//! | `id` | ids as values |
//! | `reference` | what a completion is asked for |
//! | `value` | parts of messages: their members, their canonical form |
//! | `compose`, `one_line` | messages of our own, each on one line |
//! | `salvage` | messages among other text on one line |
//! | `reads` | how often lines were read, for a test |

#[cfg(test)]
pub(crate) mod arbitrary;
mod arguments;
mod block;
mod compose;
mod envelope;
mod head;
mod id;
mod one_line;
mod part;
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod reads;
mod reference;
mod salvage;
mod scan;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use std::borrow::Cow;

use bytes::{Buf, Bytes, BytesMut};

pub use self::id::Id;
pub use self::reference::Reference;
pub use self::salvage::{Salvage, salvage};
pub use self::scan::MAX_DEPTH;

pub(crate) use self::one_line::{blank_line_ends, put_on_one_line};

use self::envelope::{Envelope, member};
use self::head::Head;
use self::id::{is_plain, text};
use self::part::Part;
use self::scan::{Broken, Cursor, Span};
use crate::protocol::meta::{PROTOCOL_VERSION, SUBSCRIPTION_ID};

/// Longest line that can be read: positions are kept in 32 bits, with room for a longer id.
const MAX_LEN: usize = (u32::MAX / 2) as usize;

/// What a message asks of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// It has a method and an id: exactly one response is owed.
    Request,
    /// It has a method and no id: nothing is owed.
    #[default]
    Notification,
    /// It has an id and either a result or an error.
    Response,
}

/// One JSON-RPC message: its bytes and its envelope. Cheap to clone. Two are equal if they are written alike.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Bytes,
    /// `Null` for notifications, and for errors that answer nothing in particular.
    id: Id,
    head: Head,
}

impl PartialEq for Message {
    fn eq(&self, other: &Message) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Message {}

impl Message {
    /// Reads a line. White space around the object (a stray CR too) is dropped.
    ///
    /// This walks over the whole line, so it is done once, where the line enters the process.
    pub fn read(line: Bytes) -> Result<Message, Box<Defect>> {
        #[cfg(debug_assertions)]
        reads::note();
        let mut bytes = line;
        if bytes.first().is_some_and(is_space) {
            bytes.advance(bytes.iter().take_while(|b| is_space(b)).count());
        }
        let mut draft = Draft::default();
        let verdict = draft.read(&bytes);
        // Only now: a space tells that a number before it was not cut off.
        let space = bytes.iter().rev().take_while(|b| is_space(b)).count();
        bytes.truncate(bytes.len() - space);
        match verdict {
            Ok(kind) => Ok(Message {
                head: Head::new(draft.envelope, kind, draft.unescaped_method),
                id: draft.id.unwrap_or(Id::Null),
                bytes,
            }),
            Err((what, detail)) => Err(Box::new(draft.defect(bytes, what, detail))),
        }
    }

    /// No message: what stands where one has been.
    pub(crate) fn nothing() -> Message {
        Message {
            bytes: Bytes::new(),
            id: Id::Null,
            head: Head::default(),
        }
    }

    /// The message as it was written, without white space around it.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What the message asks of its receiver.
    pub fn kind(&self) -> Kind {
        self.head.kind
    }

    /// The id of a request or response; `None` for notifications.
    ///
    /// An error response may have a null id or none: both are [`Id::Null`].
    pub fn id(&self) -> Option<&Id> {
        (self.head.kind != Kind::Notification).then_some(&self.id)
    }

    /// The id as it was written, `null` if there is none.
    pub fn id_json(&self) -> &[u8] {
        self.head.id.get(&self.bytes).unwrap_or(b"null")
    }

    /// The same, sharing the bytes of the message.
    pub(crate) fn id_bytes(&self) -> Bytes {
        match self.head.id.is_some() {
            true => {
                let Span { start, end } = self.head.id;
                self.bytes.slice(start as usize..end as usize)
            }
            false => Bytes::from_static(b"null"),
        }
    }

    /// The method, empty for responses.
    pub fn method(&self) -> &str {
        match self.method_bytes() {
            // Nearly every request is one of these, and need not be looked at.
            b"tools/call" => "tools/call",
            method => std::str::from_utf8(method).unwrap_or_default(),
        }
    }

    /// The method, without a look at whether it is UTF-8. (It is.)
    pub(crate) fn method_bytes(&self) -> &[u8] {
        match &self.head.unescaped_method {
            Some(unescaped) => unescaped.as_bytes(),
            None => unquoted(self.head.method.of(&self.bytes)),
        }
    }

    /// The bytes of the message, when nothing else of it is needed any more.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Whether this is a request or notification of that method.
    pub fn is(&self, method: &str) -> bool {
        self.head.kind != Kind::Response && self.method_bytes() == method.as_bytes()
    }

    /// Whether this is a response with an `error`.
    pub fn is_error(&self) -> bool {
        self.head.is_error
    }

    /// `params.requestId`, if it is a string or a number.
    pub fn request_id(&self) -> Option<Id> {
        self.token(self.param("requestId"))
    }

    /// `params.progressToken`, if it is a string or a number.
    pub fn progress_token(&self) -> Option<Id> {
        self.token(self.param("progressToken"))
    }

    /// `params._meta.progressToken`, if it is a string or a number.
    pub fn meta_progress_token(&self) -> Option<Id> {
        self.token(self.member(self.params_meta(), "progressToken"))
    }

    /// `params.name`, if it is a string.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        text(self.params_part().name(&self.bytes).of(&self.bytes))
    }

    /// `params.uri`, if it is a string.
    pub fn uri(&self) -> Option<Cow<'_, str>> {
        text(self.param("uri").of(&self.bytes))
    }

    /// `params.level`, if it is a string.
    pub fn level(&self) -> Option<Cow<'_, str>> {
        text(self.param("level").of(&self.bytes))
    }

    /// Whether `params.cursor` asks for a later page: it is there and not null.
    pub fn cursor(&self) -> bool {
        let cursor = self.param("cursor").get(&self.bytes);
        cursor.is_some_and(|json| json != b"null")
    }

    /// `params.cursor`, if it is a string.
    pub fn cursor_text(&self) -> Option<Cow<'_, str>> {
        text(self.param("cursor").of(&self.bytes))
    }

    /// `params.progress`, if it is a number.
    pub fn progress(&self) -> Option<f64> {
        let json = self.param("progress").get(&self.bytes)?;
        std::str::from_utf8(json).ok()?.parse().ok()
    }

    /// `params._meta` as written.
    pub fn meta(&self) -> Option<&[u8]> {
        self.params_meta().get(&self.bytes)
    }

    /// Whether `params._meta` names a protocol version, as every request of the 2026-07-28
    /// revision does and no earlier one.
    pub fn is_modern(&self) -> bool {
        self.member(self.params_meta(), PROTOCOL_VERSION).is_some()
    }

    fn params_part(&self) -> Part {
        match self.head.kind {
            Kind::Request | Kind::Notification => self.head.part,
            Kind::Response => Part::default(),
        }
    }

    fn result_part(&self) -> Part {
        match self.head.kind == Kind::Response && !self.head.is_error {
            true => self.head.part,
            false => Part::default(),
        }
    }

    fn params_meta(&self) -> Span {
        self.params_part().meta(&self.bytes)
    }

    /// The subscription a message belongs to: from `result._meta` in responses, else from
    /// `params._meta`.
    pub fn subscription_id(&self) -> Option<Id> {
        self.token(self.subscription_span())
    }

    fn subscription_span(&self) -> Span {
        let part = match self.head.kind {
            Kind::Response => self.result_part(),
            Kind::Request | Kind::Notification => self.head.part,
        };
        self.member(part.meta(&self.bytes), SUBSCRIPTION_ID)
    }

    /// Whether `params.task` asks for a task: it is an object.
    pub fn has_task(&self) -> bool {
        self.params_part().has_task(&self.bytes)
    }

    fn param(&self, name: &str) -> Span {
        self.member(self.params_part().whole, name)
    }

    /// Looks a member up in an object of the message.
    fn member(&self, object: Span, name: &str) -> Span {
        match object.get(&self.bytes) {
            Some(json) => member(json, name.as_bytes()).moved_by(object.start),
            None => object,
        }
    }

    /// `params` of a request or notification, as written.
    pub fn params(&self) -> Option<&[u8]> {
        self.params_part().whole.get(&self.bytes)
    }

    /// `result` of a response, as written.
    pub fn result(&self) -> Option<&[u8]> {
        self.result_part().whole.get(&self.bytes)
    }

    /// `error` of a response, as written.
    pub fn error(&self) -> Option<&[u8]> {
        self.head
            .part
            .whole
            .get(&self.bytes)
            .filter(|_| self.is_error())
    }

    /// The same message under another id. No other byte changes.
    ///
    /// A notification stays as it is, and so does every message if `id_json` is no id.
    pub fn with_id(mut self, id_json: &[u8]) -> Message {
        let Some(id) = Id::read(id_json).filter(|_| self.head.kind != Kind::Notification) else {
            return self;
        };
        if self.head.id.is_some() {
            self.replace(self.head.id, id_json);
        } else {
            // An error without an id. It has other members, so a comma is right.
            let member = [b"\"id\":", id_json, b","].concat();
            let brace = Span { start: 1, end: 1 };
            self.replace(brace, &member);
            self.head.id = Span {
                start: 6,
                end: 6 + id_json.len() as u32,
            };
        }
        self.id = id;
        self
    }

    /// The same message with another `params.requestId`; unchanged if it has none.
    pub fn with_request_id(self, id_json: &[u8]) -> Message {
        let id = self.param("requestId");
        self.with(id, id_json)
    }

    /// The same message with another `params.name`; unchanged if it has none.
    pub fn with_name(self, json: &[u8]) -> Message {
        let name = self.params_part().name(&self.bytes);
        self.with(name, json)
    }

    /// The same message with another `params.uri`; unchanged if it has none.
    pub fn with_uri(self, json: &[u8]) -> Message {
        let uri = self.param("uri");
        self.with(uri, json)
    }

    /// The same message with other `params.capabilities`; unchanged if it has none.
    pub fn with_capabilities(self, json: &[u8]) -> Message {
        let capabilities = self.param("capabilities");
        self.with(capabilities, json)
    }

    /// The same message with another `params.level`; unchanged if it has none.
    pub fn with_level(self, json: &[u8]) -> Message {
        let level = self.param("level");
        self.with(level, json)
    }

    /// The same message with another `params.progressToken`; unchanged if it has none.
    pub fn with_progress_token(self, token_json: &[u8]) -> Message {
        let token = self.param("progressToken");
        self.with(token, token_json)
    }

    /// The same message with another `params._meta.progressToken`; unchanged if it has none.
    pub fn with_meta_progress_token(self, token_json: &[u8]) -> Message {
        let token = self.member(self.params_meta(), "progressToken");
        self.with(token, token_json)
    }

    /// `params._meta.progressToken` as it was written, if it is a string or a number.
    pub fn meta_progress_token_json(&self) -> Option<&[u8]> {
        let token = self.member(self.params_meta(), "progressToken");
        self.token(token).map(|_| token.of(&self.bytes))
    }

    /// The same message with another `params._meta`, which is a JSON object; unchanged if it has none.
    pub fn with_meta(self, json: &[u8]) -> Message {
        let meta = self.params_meta();
        self.with(meta, json)
    }

    /// The same message with another subscription id; unchanged if it has none.
    pub fn with_subscription_id(self, id_json: &[u8]) -> Message {
        let id = self.subscription_span();
        self.with(id, id_json)
    }

    /// The same message with another result, which is JSON; unchanged if it has none.
    pub fn with_result(self, json: &[u8]) -> Message {
        let result = self.result_part().whole;
        let mut message = self.with(result, json);
        if result.is_some() {
            message.head.part = Part::unseen(message.head.part.whole);
        }
        message
    }

    fn with(mut self, old: Span, new: &[u8]) -> Message {
        if old.is_some() {
            self.replace(old, new);
        }
        self
    }

    fn token(&self, span: Span) -> Option<Id> {
        Id::read(span.of(&self.bytes)).filter(|id| *id != Id::Null)
    }

    /// Writes `new` where `old` stands. If nobody else holds the bytes and they do not become more, what stands before
    /// is moved, which is little where the id comes first, and the payload behind stays where it is.
    fn replace(&mut self, old: Span, new: &[u8]) {
        let (start, end) = (old.start as usize, old.end as usize);
        let spare = (end - start).checked_sub(new.len());
        self.bytes = match (std::mem::take(&mut self.bytes).try_into_mut(), spare) {
            (Ok(mut bytes), Some(spare)) => {
                bytes.copy_within(..start, spare);
                bytes[start + spare..end].copy_from_slice(new);
                bytes.advance(spare);
                bytes.freeze()
            }
            (held, _) => {
                let bytes = held.map_or_else(|shared| shared, BytesMut::freeze);
                [&bytes[..start], new, &bytes[end..]].concat().into()
            }
        };
        let grown = new.len() as i64 - i64::from(old.end - old.start);
        self.head.shift(old, grown);
    }
}

/// Why a line is not a message that may be passed on, and what could still be told about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// What is wrong, for deciding.
    pub what: DefectKind,
    /// The last top-level `id` read before anything broke, if it is a string or a number.
    pub id: Option<Id>,
    /// That id as it was written; empty if there is none.
    pub id_json: Bytes,
    /// Whether a top-level `method` was read: it was meant as a request or notification.
    pub has_method: bool,
    /// Whether a top-level `jsonrpc` was read: it was meant as a message, and is no log line.
    pub looks_like_rpc: bool,
    /// What is wrong, for people.
    pub detail: String,
    /// The line itself, without white space around it.
    pub line: Bytes,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DefectKind {
    /// No JSON object, a broken one, or one that is no JSON-RPC message.
    NotAMessage,
    /// Bytes that are not UTF-8 (FM-58).
    NotUtf8,
    /// Either of these, at the end of a stream and without a line end: whoever wrote it did not finish it.
    CutOff,
    /// Nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// A JSON-RPC message of no definite kind: a response with both a result and an error or
    /// neither, or a request whose id or method cannot be one.
    Ambiguous,
    /// A JSON array of messages, as the 2025-03-26 revision allows; see [`read_batch`].
    Batch,
}

/// Splits a JSON array into its elements, each read as a message of its own, in order.
///
/// `None` if the line is not a whole, non-empty array.
pub fn read_batch(line: &Bytes) -> Option<Vec<Result<Message, Box<Defect>>>> {
    if !can_be_read(line.len()) {
        return None;
    }
    let mut spans = Vec::new();
    let mut cursor = Cursor::new(line);
    elements(&mut cursor, line, |span| spans.push(span)).ok()?;
    if spans.is_empty() || cursor.too_deep {
        return None;
    }
    let element = |span: Span| Message::read(line.slice(span.start as usize..span.end as usize));
    Some(spans.into_iter().map(element).collect())
}

/// Walks over an array that is the whole text. Its scalars must be JSON, or `[INFO]` would do.
fn elements(
    cursor: &mut Cursor<'_>,
    text: &[u8],
    mut found: impl FnMut(Span),
) -> Result<(), Broken> {
    cursor.array(|cursor| {
        let span = cursor.value()?;
        let json = span.of(text);
        let whole = match json.first() {
            Some(b'{' | b'[') => true,
            _ => Id::read(json).is_some() || json == b"true" || json == b"false",
        };
        if !whole {
            return Err(Broken::Unexpected(span.start as usize));
        }
        found(span);
        Ok(())
    })?;
    cursor.end()
}

/// A message being read: what is known so far, kept when the reading fails.
#[derive(Debug, Default, PartialEq)]
struct Draft {
    envelope: Envelope,
    id: Option<Id>,
    unescaped_method: Option<String>,
}

type Classified = Result<Kind, (DefectKind, String)>;

impl Draft {
    fn read(&mut self, line: &[u8]) -> Classified {
        if !can_be_read(line.len()) {
            return refuse(DefectKind::NotAMessage, "longer than 2 GiB");
        }
        let head = self.envelope.read_head(line);
        self.read_from(line, head)
    }

    /// Reads a line whose first `head` bytes have been taken: all members before the one that begins there.
    fn read_from(&mut self, line: &[u8], head: usize) -> Classified {
        let mut cursor = Cursor::inside(line, head, usize::from(head > 0));
        let walked = match line.first() {
            Some(b'[') => elements(&mut cursor, line, |_| ()),
            Some(b'{') => {
                let walked = self.envelope.read(&mut cursor);
                walked.and_then(|()| cursor.end())
            }
            // Nothing else is told of at byte 0, so this is known again below.
            _ => Err(Broken::Unexpected(0)),
        };
        self.id = Id::read(self.envelope.id.of(line)).filter(|id| *id != Id::Null);

        let ascii = walked.is_ok() && cursor.is_ascii();
        if !ascii && let Err(error) = simdutf8::compat::from_utf8(line) {
            let at = error.valid_up_to();
            return refuse(DefectKind::NotUtf8, format!("not UTF-8 at byte {at}"));
        }
        match walked {
            Err(Broken::Unexpected(0)) => refuse(DefectKind::NotAMessage, foreign(line)),
            Err(Broken::Unexpected(at)) => refuse(
                DefectKind::NotAMessage,
                format!("not JSON: unexpected byte at {at}"),
            ),
            Err(Broken::Cut) => refuse(DefectKind::NotAMessage, "not JSON: cut off"),
            Ok(()) if cursor.too_deep => refuse(
                DefectKind::TooDeep,
                format!("nested deeper than {MAX_DEPTH}"),
            ),
            Ok(()) if line.starts_with(b"[") => batch(line),
            Ok(()) => self.classify(line),
        }
    }

    fn classify(&mut self, line: &[u8]) -> Classified {
        let Envelope {
            jsonrpc,
            id,
            method,
            result,
            error,
            ..
        } = &self.envelope;
        let has_id = self.id.is_some();
        if method.is_some() {
            if !is_plain(method.of(line)) {
                match text(method.of(line)) {
                    Some(Cow::Owned(method)) => self.unescaped_method = Some(method),
                    Some(Cow::Borrowed(_)) => {}
                    None => return refuse(DefectKind::Ambiguous, "the method is not a string"),
                }
            }
            return match (has_id, id.is_some()) {
                (true, _) => Ok(Kind::Request),
                (_, true) => refuse(
                    DefectKind::Ambiguous,
                    "a request whose id is neither a string nor a number",
                ),
                // A log record of some HTTP server has a method too.
                _ if !jsonrpc => refuse(
                    DefectKind::NotAMessage,
                    "a method, but neither jsonrpc nor id",
                ),
                _ => Ok(Kind::Notification),
            };
        }
        let nobodys = !id.is_some() || id.of(line) == b"null";
        match (has_id, result.whole.is_some(), error.is_some()) {
            (true, true, false) | (true, false, true) => Ok(Kind::Response),
            (true, true, true) => refuse(
                DefectKind::Ambiguous,
                "a response with both a result and an error",
            ),
            // Without `jsonrpc` this is some program's log record that has an id of its own.
            (true, false, false) if *jsonrpc => refuse(
                DefectKind::Ambiguous,
                "neither a method nor a result nor an error",
            ),
            (false, false, true) if nobodys => Ok(Kind::Response),
            (false, true, _) | (false, _, true) => refuse(
                DefectKind::NotAMessage,
                "a response whose id is neither a string nor a number",
            ),
            _ => refuse(DefectKind::NotAMessage, "JSON, but no JSON-RPC message"),
        }
    }

    fn defect(self, line: Bytes, what: DefectKind, detail: String) -> Defect {
        let span = self.envelope.id;
        let id_json = match self.id {
            // Copied, so that a log entry does not keep a whole line.
            Some(_) => Bytes::copy_from_slice(span.of(&line)),
            None => Bytes::new(),
        };
        Defect {
            what,
            id: self.id,
            id_json,
            has_method: self.envelope.method.is_some(),
            looks_like_rpc: self.envelope.jsonrpc,
            detail,
            line,
        }
    }
}

/// Whether a line of this length can be read.
fn can_be_read(len: usize) -> bool {
    len <= MAX_LEN
}

fn refuse<T>(what: DefectKind, detail: impl Into<String>) -> Result<T, (DefectKind, String)> {
    Err((what, detail.into()))
}

fn batch(line: &[u8]) -> Classified {
    let inner = line[1..].trim_ascii_start();
    if inner.starts_with(b"]") {
        return refuse(DefectKind::NotAMessage, "an empty batch");
    }
    refuse(DefectKind::Batch, "a batch of messages")
}

/// What a line is that does not even begin as JSON-RPC.
fn foreign(line: &[u8]) -> &'static str {
    const HEADER: &[u8] = b"Content-Length:";
    match line.get(..HEADER.len()) {
        Some(start) if start.eq_ignore_ascii_case(HEADER) => {
            "LSP-style Content-Length framing; MCP over stdio is one JSON message per line"
        }
        _ => "not a JSON object",
    }
}

/// What stands between the first and the last byte.
fn unquoted(json: &[u8]) -> &[u8] {
    json.get(1..json.len().saturating_sub(1))
        .unwrap_or_default()
}

fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}
