//! The few fields of a message that lifecycle rules depend on, found in one walk over the line.
//!
//! What every message is asked for is remembered as a span; the rest is looked up when somebody
//! asks. Keys come in any order (Python SDKs write `id` last) and may repeat: as in every JSON
//! library peers use, the last one wins, and with it everything below it.

use super::scan::{Broken, Cursor, Span};

#[derive(Clone, Debug, Default)]
pub(super) struct Envelope {
    /// Whether there is a `jsonrpc` key, whatever its value.
    pub jsonrpc: bool,
    pub id: Span,
    pub method: Span,
    pub params: Part,
    pub result: Part,
    pub error: Span,
}

/// `params` or `result`.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub whole: Span,
    pub task: Span,
    pub meta: Span,
}

impl Envelope {
    /// Reads the object at the cursor. If the text is broken, what was read before stays.
    pub fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        cursor.object(|cursor, key| {
            match &*key.name() {
                b"jsonrpc" => {
                    cursor.peek()?;
                    self.jsonrpc = true;
                    cursor.value()?;
                }
                b"id" => self.id = cursor.value()?,
                b"method" => self.method = cursor.value()?,
                b"params" => self.params = Part::read(cursor)?,
                b"result" => self.result = Part::read(cursor)?,
                b"error" => self.error = cursor.value()?,
                _ => drop(cursor.value()?),
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Moves every span for `old` having become `grown` bytes longer (or shorter).
    pub fn shift(&mut self, old: Span, grown: i64) {
        let moved = |at: u32| (i64::from(at) + grown) as u32;
        let Envelope { params, result, .. } = self;
        for span in [
            &mut self.id,
            &mut self.method,
            &mut self.error,
            &mut params.whole,
            &mut params.task,
            &mut params.meta,
            &mut result.whole,
            &mut result.task,
            &mut result.meta,
        ] {
            if span.start >= old.end {
                span.start = moved(span.start);
            }
            if span.end >= old.end {
                span.end = moved(span.end);
            }
        }
    }
}

impl Part {
    fn read(cursor: &mut Cursor<'_>) -> Result<Part, Broken> {
        let mut part = Part::default();
        if cursor.peek()? != b'{' {
            part.whole = cursor.value()?;
            return Ok(part);
        }
        part.whole = cursor.object(|cursor, key| {
            match &*key.name() {
                b"task" => part.task = cursor.value()?,
                // Walked over, so that it can be looked into.
                b"_meta" => part.meta = members(cursor, |_, _| ())?,
                _ => drop(cursor.value()?),
            }
            Ok(())
        })?;
        Ok(part)
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
fn members(cursor: &mut Cursor<'_>, mut found: impl FnMut(&[u8], Span)) -> Result<Span, Broken> {
    if cursor.peek()? != b'{' {
        return cursor.value();
    }
    cursor.object(|cursor, key| {
        let value = cursor.value()?;
        found(&key.name(), value);
        Ok(())
    })
}
