//! The few fields of a message that lifecycle rules depend on, found in one walk over the line.
//!
//! What every message is asked for is remembered as a span; the rest is looked up when somebody
//! asks. Keys come in any order (Python SDKs write `id` last) and may repeat: as in every JSON
//! library peers use, the last one wins, and with it everything below it.
//!
//! Nearly all messages begin alike. What they begin with is compared, not walked over; the walk then
//! starts at a later member, with the same in hand as if it had come from the first one.

use super::part::Part;
use super::scan::{Broken, Cursor, Span};

/// How nearly all messages begin.
const VERSION: &[u8] = br#"{"jsonrpc":"2.0","#;
const ID: &[u8] = br#""id":"#;
/// How nearly all requests go on.
const CALL: &[u8] = br#""method":"tools/call","#;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Envelope {
    pub id: Span,
    pub method: Span,
    pub params: Part,
    pub result: Part,
    pub error: Span,
    /// Whether there is a `jsonrpc` key, whatever its value.
    pub jsonrpc: bool,
}

/// A member that means something to us.
enum Field {
    JsonRpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl Field {
    #[inline]
    fn of(name: &[u8]) -> Field {
        match name {
            b"jsonrpc" => Field::JsonRpc,
            b"id" => Field::Id,
            b"method" => Field::Method,
            b"params" => Field::Params,
            b"result" => Field::Result,
            b"error" => Field::Error,
            _ => Field::Other,
        }
    }
}

impl Envelope {
    /// Takes the first members of an object if they are written as usual. Tells where the next
    /// member begins; 0 if none was taken.
    pub fn read_head(&mut self, text: &[u8]) -> usize {
        if !text.starts_with(VERSION) {
            return 0;
        }
        self.jsonrpc = true;
        let mut at = VERSION.len();
        if let Some(value) = text[at..].strip_prefix(ID) {
            let len = value.iter().take_while(|b| b.is_ascii_digit()).count();
            if len > 0 && value.get(len) == Some(&b',') {
                self.id = Span::new(at + ID.len(), len);
                at += ID.len() + len + 1;
            }
        }
        if text[at..].starts_with(CALL) {
            let key = br#""method":"#.len();
            self.method = Span::new(at + key, CALL.len() - key - 1);
            at += CALL.len();
        }
        at
    }

    /// Reads the object at the cursor, or the rest of the one it is in. If the text is broken, what
    /// was read before stays.
    pub fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        if cursor.depth() == 0 && !cursor.open(b'{')? {
            return Ok(());
        }
        cursor.members(|cursor, key| {
            match key.told_by(Field::of) {
                Field::JsonRpc => {
                    cursor.peek()?;
                    self.jsonrpc = true;
                    cursor.value()?;
                }
                Field::Id => self.id = cursor.value()?,
                Field::Method => self.method = cursor.value()?,
                Field::Params => self.params = Part::read(cursor)?,
                Field::Result => self.result = Part::read(cursor)?,
                Field::Error => self.error = cursor.value()?,
                Field::Other => drop(cursor.value()?),
            }
            Ok(())
        })
    }
}

/// The value of the last member of that name, if `json` is an object and has one.
pub(super) fn member(json: &[u8], name: &[u8]) -> Span {
    let mut found = Span::default();
    let walked = members(&mut Cursor::new(json), |key, value| {
        if key == name {
            found = value;
        }
    });
    walked.map_or(Span::default(), |_| found)
}

/// Steps over a value; if it is an object, `found` is told each of its members.
pub(super) fn members(
    cursor: &mut Cursor<'_>,
    mut found: impl FnMut(&[u8], Span),
) -> Result<Span, Broken> {
    if cursor.peek()? != b'{' {
        return cursor.value();
    }
    cursor.object(|cursor, key| {
        let value = cursor.value()?;
        key.told_by(|name| found(name, value));
        Ok(())
    })
}
