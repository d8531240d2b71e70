//! Arbitrary bytes as a line, as a batch and as a stream.
//!
//! The reader must not panic, must agree with `serde_json` about every line that is JSON, and must
//! change no byte but those of the id it is told to replace. The framer must not care how the
//! stream was cut into reads, and what it skims off a line too long must be what the reader finds.

use bytes::Bytes;
use outlive_core::framer::{Framer, Line, TooLong};
use outlive_core::message::{DefectKind, Id, Kind, Message, read_batch};
use serde_json::{Map, Value};

pub fn run(data: &[u8]) {
    framing(data);
    for line in data.split(|&b| b == b'\n') {
        reading(line);
    }
}

fn reading(line: &[u8]) {
    let bytes = Bytes::copy_from_slice(line);
    let read = Message::read(bytes.clone());
    let batch = read_batch(&bytes);
    let value = serde_json::from_slice(line);

    if let Ok(message) = &read {
        rewriting(message);
    }
    match (&value, &batch) {
        (Ok(Value::Array(items)), Some(batch)) => {
            assert_eq!(items.len(), batch.len());
            for (item, read) in items.iter().zip(batch) {
                if let Some(item) = item.as_object() {
                    agreement(item, read);
                }
            }
        }
        (Ok(Value::Array(items)), None) => assert!(items.is_empty()),
        (Ok(_), Some(_)) => panic!("a batch that is no array"),
        _ => {}
    }
    match &value {
        Ok(Value::Object(object)) => {
            agreement(object, &read);
            skimming(line, &read);
        }
        Ok(Value::Array(items)) if !items.is_empty() => {
            assert_eq!(
                read.map(|m| m.kind()).map_err(|d| d.what),
                Err(DefectKind::Batch)
            );
        }
        Ok(_) => assert!(read.is_err()),
        Err(_) => {}
    }
}

/// The envelope of an object is what a parser finds in it.
fn agreement(
    object: &Map<String, Value>,
    read: &Result<Message, Box<outlive_core::message::Defect>>,
) {
    let id = object.get("id");
    let kind = read.as_ref().map(Message::kind).map_err(|d| d.what);
    assert_eq!(kind, expected(object));
    match read {
        Ok(m) => {
            match m.id() {
                Some(Id::Null) => assert!(id.is_none_or(Value::is_null)),
                found => assert!(same_id(found, id), "{found:?} for {id:?}"),
            }
            let method = object.get("method").and_then(Value::as_str);
            assert_eq!(m.method(), method.unwrap_or_default());
            // A response has no `params`, and nothing else has a result, whatever was written.
            let response = m.kind() == Kind::Response;
            let of = |is_its: bool, key| object.get(key).filter(|_| is_its);
            assert!(same_json(m.params(), of(!response, "params")));
            assert!(same_json(m.result(), of(response, "result")));
            assert!(same_json(m.error(), of(response, "error")));
            let params = |key| of(!response, "params").and_then(|p| p.as_object()?.get(key));
            let meta = |key| params("_meta").and_then(|m| m.as_object()?.get(key));
            assert!(same_id(m.request_id().as_ref(), params("requestId")));
            assert!(same_id(
                m.progress_token().as_ref(),
                params("progressToken")
            ));
            assert!(same_id(
                m.meta_progress_token().as_ref(),
                meta("progressToken")
            ));
            assert_eq!(m.name().as_deref(), params("name").and_then(Value::as_str));
            assert_eq!(m.uri().as_deref(), params("uri").and_then(Value::as_str));
            assert_eq!(
                m.level().as_deref(),
                params("level").and_then(Value::as_str)
            );
            assert_eq!(m.cursor(), params("cursor").is_some_and(|c| !c.is_null()));
            assert_eq!(m.has_task(), params("task").is_some_and(Value::is_object));
        }
        Err(d) => {
            assert!(same_id(d.id.as_ref(), id));
            assert_eq!(d.has_method, object.contains_key("method"));
            assert_eq!(d.looks_like_rpc, object.contains_key("jsonrpc"));
        }
    }
}

fn expected(object: &Map<String, Value>) -> Result<Kind, DefectKind> {
    let has = |key| object.contains_key(key);
    let id = object.get("id");
    let usable = id.is_some_and(|id| id.is_string() || id.is_number());
    match object.get("method") {
        Some(Value::String(_)) if usable => Ok(Kind::Request),
        Some(Value::String(_)) if id.is_none() && has("jsonrpc") => Ok(Kind::Notification),
        Some(Value::String(_)) if id.is_none() => Err(DefectKind::NotAMessage),
        Some(_) => Err(DefectKind::Ambiguous),
        None => match (has("result"), has("error")) {
            (true, true) if usable => Err(DefectKind::Ambiguous),
            (false, false) if usable && has("jsonrpc") => Err(DefectKind::Ambiguous),
            (true, false) | (false, true) if usable => Ok(Kind::Response),
            (false, true) if id.is_none_or(Value::is_null) => Ok(Kind::Response),
            _ => Err(DefectKind::NotAMessage),
        },
    }
}

fn same_id(id: Option<&Id>, value: Option<&Value>) -> bool {
    match (id, value) {
        (Some(Id::Int(n)), Some(Value::Number(v))) => match v.as_i64() {
            Some(v) => v == *n,
            None => v.as_f64() == Some(*n as f64),
        },
        (Some(Id::Number(n)), Some(Value::Number(v))) => {
            let (ours, theirs) = (
                n.parse().unwrap_or(f64::NAN),
                v.as_f64().unwrap_or(f64::NAN),
            );
            // `serde_json` without `float_roundtrip` may be off by a bit.
            ours == theirs || (ours - theirs).abs() <= f64::EPSILON * ours.abs()
        }
        (Some(Id::Text(s)), Some(Value::String(v))) => **s == **v,
        (None, Some(v)) => !v.is_number() && !v.is_string(),
        (None, None) => true,
        _ => false,
    }
}

fn same_json(raw: Option<&[u8]>, value: Option<&Value>) -> bool {
    match raw {
        Some(raw) => serde_json::from_slice::<Value>(raw).ok().as_ref() == value,
        None => value.is_none(),
    }
}

/// Replacing an id and putting it back gives the same bytes; in between it is a message that says
/// the same under another id.
fn rewriting(message: &Message) {
    const NEW: &[u8] = b"\"outlive-2-1\"";
    let renamed = message.clone().with_id(NEW);
    let again = Message::read(renamed.bytes().clone()).expect("still a message");
    assert_eq!(format!("{renamed:?}"), format!("{again:?}"));
    if message.kind() == Kind::Notification {
        assert_eq!(renamed.bytes(), message.bytes());
        return;
    }
    assert_eq!(renamed.id_json(), NEW);
    if message.id() != Some(&Id::Null) {
        assert_eq!(
            renamed.clone().with_id(message.id_json()).bytes(),
            message.bytes()
        );
    }
    let redirected = message.clone().with_request_id(b"7");
    let again = Message::read(redirected.bytes().clone()).expect("still a message");
    assert_eq!(format!("{redirected:?}"), format!("{again:?}"));
}

/// A line too long to keep tells its id and whether it has a method.
fn skimming(line: &[u8], read: &Result<Message, Box<outlive_core::message::Defect>>) {
    let (id, id_json, has_method) = match read {
        Ok(m) if m.id() == Some(&Id::Null) => (None, Bytes::new(), false),
        Ok(m) => {
            let json = m.id().map_or(&b""[..], |_| m.id_json());
            let json = Bytes::copy_from_slice(json);
            (m.id().cloned(), json, m.kind() != Kind::Response)
        }
        Err(d) => (d.id.clone(), d.id_json.clone(), d.has_method),
    };
    let len = line.len() as u64;
    let long = TooLong {
        id,
        id_json,
        has_method,
        len,
    };
    if long.id_json.len() < 1024 {
        assert_eq!(frames(0, [line]), [Line::TooLong(long)]);
    }
}

/// The first two bytes say how long a line may be and how the stream is cut.
fn framing(data: &[u8]) {
    let [limit, size, stream @ ..] = data else {
        return;
    };
    let limit = usize::from(*limit) * 4;
    let size = usize::from(*size) % 70 + 1;
    let whole = frames(limit, [stream]);
    assert_eq!(frames(limit, stream.chunks(size)), whole);
    for frame in whole {
        match frame {
            Line::Whole(line) => {
                assert!(!line.is_empty() && line.len() <= limit);
                assert!(!line.contains(&b'\n'));
            }
            Line::TooLong(long) => assert!(long.len > limit as u64),
        }
    }
}

fn frames<'a>(limit: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Line> {
    let mut framer = Framer::new(limit);
    let mut frames = Vec::new();
    for chunk in chunks {
        framer.extend(chunk);
        frames.extend(std::iter::from_fn(|| framer.next_line()));
        assert!(framer.buffered() <= limit);
    }
    frames.extend(std::iter::from_fn(|| framer.last_line()));
    frames
}
