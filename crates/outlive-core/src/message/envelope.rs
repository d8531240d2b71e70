//! The few fields of a message that lifecycle rules depend on, found in one walk over the line.
//!
//! What every message is asked for is remembered as a span; the rest is looked up when somebody
//! asks. Keys come in any order (Python SDKs write `id` last) and may repeat: as in every JSON
//! library peers use, the last one wins, and with it everything below it.
//!
//! Nearly all messages begin alike. What they begin with is compared, not walked over; the walk then
//! starts at a later member, with the same in hand as if it had come from the first one.

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

/// `params` or `result`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Part {
    pub whole: Span,
    /// What is in it; `None` if it was not read but written by ourselves, and is to be looked into.
    inside: Option<Inside>,
}

/// What is in `params` or `result`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Inside {
    meta: Span,
    /// What a call is for; what comes with it may be long.
    name: Span,
    /// Whether it has a `task` that is an object.
    task: bool,
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

    /// Moves every span for `old` having become `grown` bytes longer (or shorter).
    pub fn shift(&mut self, old: Span, grown: i64) {
        let moved = |at: u32| (i64::from(at) + grown) as u32;
        let Envelope {
            id,
            method,
            params,
            result,
            error,
            ..
        } = self;
        for span in [id, method, error, &mut params.whole, &mut result.whole]
            .into_iter()
            .chain(params.inside.iter_mut().flat_map(Inside::spans))
            .chain(result.inside.iter_mut().flat_map(Inside::spans))
        {
            if span.start >= old.end {
                span.start = moved(span.start);
            }
            if span.end >= old.end {
                span.end = moved(span.end);
            }
        }
    }
}

impl Inside {
    fn spans(&mut self) -> [&mut Span; 2] {
        [&mut self.meta, &mut self.name]
    }
}

impl Part {
    /// One that was written by ourselves.
    pub fn unseen(whole: Span) -> Part {
        let inside = None;
        Part { whole, inside }
    }

    /// Where its `_meta` stands in the message.
    pub fn meta(&self, message: &[u8]) -> Span {
        match &self.inside {
            Some(inside) => inside.meta,
            None => self.look_up(message, b"_meta"),
        }
    }

    /// Where its `name` stands in the message.
    pub fn name(&self, message: &[u8]) -> Span {
        match &self.inside {
            Some(inside) => inside.name,
            None => self.look_up(message, b"name"),
        }
    }

    /// Whether it has a `task` that is an object.
    pub fn has_task(&self, message: &[u8]) -> bool {
        match &self.inside {
            Some(inside) => inside.task,
            None => self.look_up(message, b"task").of(message).starts_with(b"{"),
        }
    }

    fn look_up(&self, message: &[u8], name: &[u8]) -> Span {
        member(self.whole.of(message), name).moved_by(self.whole.start)
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Part, Broken> {
        enum Field {
            Task,
            Meta,
            Name,
            Other,
        }
        let mut inside = Inside::default();
        if cursor.peek()? != b'{' {
            return Ok(Part {
                whole: cursor.value()?,
                inside: Some(inside),
            });
        }
        let whole = cursor.object(|cursor, key| {
            let field = key.told_by(|name| match name {
                b"task" => Field::Task,
                b"_meta" => Field::Meta,
                b"name" => Field::Name,
                _ => Field::Other,
            });
            match field {
                Field::Task => {
                    let task = cursor.peek()? == b'{';
                    cursor.value()?;
                    inside.task = task;
                }
                // Walked over, so that it can be looked into.
                Field::Meta => inside.meta = members(cursor, |_, _| ())?,
                Field::Name => inside.name = cursor.value()?,
                Field::Other => drop(cursor.value()?),
            }
            Ok(())
        })?;
        let inside = Some(inside);
        Ok(Part { whole, inside })
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
        key.told_by(|name| found(name, value));
        Ok(())
    })
}
