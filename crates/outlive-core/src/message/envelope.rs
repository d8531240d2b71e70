//! The few fields of a message that lifecycle rules depend on, found in one walk over the line.
//!
//! Every field is remembered as a span and decoded when asked for. Keys come in any order (Python
//! SDKs write `id` last) and may repeat: as in every JSON library peers use, the last one wins, and
//! with it everything below it.

use super::id::text;
use super::scan::{Broken, Cursor, Quoted, Span};

const PROTOCOL_VERSION: &[u8] = b"io.modelcontextprotocol/protocolVersion";
const SUBSCRIPTION_ID: &[u8] = b"io.modelcontextprotocol/subscriptionId";

#[derive(Clone, Debug, Default)]
pub(super) struct Envelope {
    /// Whether there is a `jsonrpc` key, whatever its value.
    pub jsonrpc: bool,
    pub id: Span,
    pub method: Span,
    pub params: Params,
    pub result: Outcome,
    pub error: Span,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Params {
    pub whole: Span,
    pub request_id: Span,
    pub progress_token: Span,
    pub name: Span,
    pub uri: Span,
    pub level: Span,
    pub cursor: Span,
    pub task: Span,
    pub meta: Meta,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub whole: Span,
    pub meta: Meta,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Meta {
    pub whole: Span,
    pub progress_token: Span,
    pub subscription_id: Span,
    pub protocol_version: Span,
}

impl Envelope {
    /// Reads the object at the cursor. If the text is broken, what was read before stays.
    pub fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Broken> {
        cursor.object(|cursor, key| {
            named(key, |key| {
                match key {
                    b"jsonrpc" => {
                        self.jsonrpc = true;
                        cursor.value()?;
                    }
                    b"id" => self.id = cursor.value()?,
                    b"method" => self.method = cursor.value()?,
                    b"params" => self.params = Params::read(cursor)?,
                    b"result" => self.result = Outcome::read(cursor)?,
                    b"error" => self.error = cursor.value()?,
                    _ => drop(cursor.value()?),
                }
                Ok(())
            })
        })?;
        Ok(())
    }

    /// Moves every span for `old` having become `grown` bytes longer (or shorter).
    pub fn shift(&mut self, old: Span, grown: i64) {
        let moved = |at: u32| (i64::from(at) + grown) as u32;
        for span in self.spans() {
            if span.start >= old.end {
                span.start = moved(span.start);
            }
            if span.end >= old.end {
                span.end = moved(span.end);
            }
        }
    }

    fn spans(&mut self) -> impl Iterator<Item = &mut Span> {
        let Params {
            whole,
            request_id,
            progress_token,
            name,
            uri,
            level,
            cursor,
            task,
            meta,
        } = &mut self.params;
        [
            &mut self.id,
            &mut self.method,
            &mut self.error,
            &mut self.result.whole,
            whole,
            request_id,
            progress_token,
            name,
            uri,
            level,
            cursor,
            task,
        ]
        .into_iter()
        .chain(meta.spans())
        .chain(self.result.meta.spans())
    }
}

impl Params {
    fn read(cursor: &mut Cursor<'_>) -> Result<Params, Broken> {
        let mut params = Params::default();
        if cursor.peek()? != b'{' {
            params.whole = cursor.value()?;
            return Ok(params);
        }
        params.whole = cursor.object(|cursor, key| {
            named(key, |key| {
                match key {
                    b"requestId" => params.request_id = cursor.value()?,
                    b"progressToken" => params.progress_token = cursor.value()?,
                    b"name" => params.name = cursor.value()?,
                    b"uri" => params.uri = cursor.value()?,
                    b"level" => params.level = cursor.value()?,
                    b"cursor" => params.cursor = cursor.value()?,
                    b"task" => params.task = cursor.value()?,
                    b"_meta" => params.meta = Meta::read(cursor)?,
                    _ => drop(cursor.value()?),
                }
                Ok(())
            })
        })?;
        Ok(params)
    }
}

impl Outcome {
    fn read(cursor: &mut Cursor<'_>) -> Result<Outcome, Broken> {
        let mut outcome = Outcome::default();
        if cursor.peek()? != b'{' {
            outcome.whole = cursor.value()?;
            return Ok(outcome);
        }
        outcome.whole = cursor.object(|cursor, key| {
            named(key, |key| {
                match key {
                    b"_meta" => outcome.meta = Meta::read(cursor)?,
                    _ => drop(cursor.value()?),
                }
                Ok(())
            })
        })?;
        Ok(outcome)
    }
}

impl Meta {
    fn read(cursor: &mut Cursor<'_>) -> Result<Meta, Broken> {
        let mut meta = Meta::default();
        if cursor.peek()? != b'{' {
            meta.whole = cursor.value()?;
            return Ok(meta);
        }
        meta.whole = cursor.object(|cursor, key| {
            named(key, |key| {
                match key {
                    b"progressToken" => meta.progress_token = cursor.value()?,
                    SUBSCRIPTION_ID => meta.subscription_id = cursor.value()?,
                    PROTOCOL_VERSION => meta.protocol_version = cursor.value()?,
                    _ => drop(cursor.value()?),
                }
                Ok(())
            })
        })?;
        Ok(meta)
    }

    fn spans(&mut self) -> [&mut Span; 4] {
        [
            &mut self.whole,
            &mut self.progress_token,
            &mut self.subscription_id,
            &mut self.protocol_version,
        ]
    }
}

/// Calls `found` with the name a key stands for. A key that stands for nothing (a bad escape) is
/// none of ours and goes by an empty name.
fn named<T>(key: Quoted<'_>, found: impl FnOnce(&[u8]) -> T) -> T {
    if key.escaped {
        let name = text(key.json).unwrap_or_default();
        return found(name.as_bytes());
    }
    found(&key.json[1..key.json.len() - 1])
}
