//! `params`, `result` or `error` of a message: where it stands, and where in it what rules ask for.

use super::envelope::{member, members};
use super::scan::{Broken, Cursor, Span};

/// One of them; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Part {
    pub whole: Span,
    meta: Span,
    /// What a call is for; what comes with it may be long.
    name: Span,
    /// Whether it has a `task` that is an object.
    task: bool,
    /// Whether it was looked into. What was written by ourselves was not.
    seen: bool,
}

impl Part {
    /// One that was not looked into.
    pub fn unseen(whole: Span) -> Part {
        Part {
            whole,
            ..Part::default()
        }
    }

    /// Where its `_meta` stands in the message.
    pub fn meta(&self, message: &[u8]) -> Span {
        match self.seen {
            true => self.meta,
            false => self.look_up(message, b"_meta"),
        }
    }

    /// Where its `name` stands in the message.
    pub fn name(&self, message: &[u8]) -> Span {
        match self.seen {
            true => self.name,
            false => self.look_up(message, b"name"),
        }
    }

    /// Whether it has a `task` that is an object.
    pub fn has_task(&self, message: &[u8]) -> bool {
        match self.seen {
            true => self.task,
            false => self.look_up(message, b"task").of(message).starts_with(b"{"),
        }
    }

    fn look_up(&self, message: &[u8], name: &[u8]) -> Span {
        member(self.whole.of(message), name).moved_by(self.whole.start)
    }

    /// Where all of it stands.
    pub fn spans(&mut self) -> [&mut Span; 3] {
        [&mut self.whole, &mut self.meta, &mut self.name]
    }

    /// Reads the value at the cursor.
    pub fn read(cursor: &mut Cursor<'_>) -> Result<Part, Broken> {
        enum Field {
            Task,
            Meta,
            Name,
            Other,
        }
        let mut part = Part {
            seen: true,
            ..Part::default()
        };
        if cursor.peek()? != b'{' {
            part.whole = cursor.value()?;
            return Ok(part);
        }
        part.whole = cursor.object(|cursor, key| {
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
                    part.task = task;
                }
                // Walked over, so that it can be looked into.
                Field::Meta => part.meta = members(cursor, |_, _| ())?,
                Field::Name => part.name = cursor.value()?,
                Field::Other => drop(cursor.value()?),
            }
            Ok(())
        })?;
        Ok(part)
    }
}
