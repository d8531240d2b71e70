//! Messages as they go out: built once, from parts that are JSON already.

use std::io::Write;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinError;

use crate::model::finite;
use crate::model::{Object, RpcError, meta};

/// What goes into `_meta` of a request.
#[derive(Debug, Default)]
pub(super) struct Meta<'a> {
    /// The members a modern request has, as JSON without the braces; empty in the legacy era.
    pub(super) modern: &'a str,
    /// The level from which on log messages are wanted (modern era).
    pub(super) log_level: Option<&'a str>,
    /// Progress is wanted, under the id of the request.
    pub(super) progress: bool,
    /// What the caller adds.
    pub(super) own: Option<&'a Object>,
}

impl Meta<'_> {
    /// The members as JSON without the braces.
    fn members(&self, id: u64) -> String {
        let mut members = self.modern.to_string();
        let mut add = |name: &str, value: &dyn std::fmt::Display| {
            if !members.is_empty() {
                members.push(',');
            }
            members += &format!("{}:{value}", Value::from(name));
        };
        if let Some(level) = self.log_level {
            add(meta::LOG_LEVEL, &Value::from(level));
        }
        if self.progress {
            add(meta::PROGRESS_TOKEN, &id);
        }
        for (name, value) in self.own.into_iter().flatten() {
            add(name, value);
        }
        members
    }
}

/// Most parameters are shorter than this, in bytes.
const ORDINARY: usize = 256;

/// Parameters as JSON on one line; nothing for what serialises to nothing.
pub(super) fn params(params: impl Serialize) -> Result<Vec<u8>, String> {
    let mut json = Vec::with_capacity(ORDINARY);
    finite::write(&mut json, &params).map_err(|error| error.to_string())?;
    match json.first() {
        Some(b'{') => {}
        _ if json == b"null" => json.clear(),
        _ => return Err("the parameters of a request must be an object".into()),
    }
    // Raw JSON may have line breaks, which can only stand between its parts.
    let mut at = 0;
    while let Some(next) = memchr::memchr2(b'\n', b'\r', &json[at..]) {
        at += next;
        json[at] = b' ';
    }
    Ok(json)
}

/// A request. `params` is empty or an object.
pub(super) fn request(id: u64, method: &str, params: &[u8], meta: &Meta<'_>) -> Bytes {
    let members = meta.members(id);
    let mut line = Vec::with_capacity(params.len() + members.len() + method.len() + 80);
    // Writing to memory cannot fail.
    let _ = write!(line, r#"{{"jsonrpc":"2.0","id":{id},"method":"#);
    let _ = serde_json::to_writer(&mut line, method);
    put_params(&mut line, params, &members);
    line.push(b'}');
    line.into()
}

/// A notification. `params` is empty or an object.
pub(super) fn notification(method: &str, params: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(params.len() + method.len() + 60);
    line.extend_from_slice(br#"{"jsonrpc":"2.0","method":"#);
    // Writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut line, method);
    put_params(&mut line, params, "");
    line.push(b'}');
    line.into()
}

fn put_params(line: &mut Vec<u8>, params: &[u8], members: &str) {
    if params.is_empty() && members.is_empty() {
        return;
    }
    line.extend_from_slice(b",\"params\":");
    if members.is_empty() {
        line.extend_from_slice(params);
        return;
    }
    let inside = params.get(1..).unwrap_or(b"}");
    let is_empty = inside.trim_ascii_start().first() == Some(&b'}');
    if memchr::memmem::find(inside, b"\"_meta\"").is_some()
        && let Some(merged) = with_meta(params, members)
    {
        line.extend_from_slice(&merged);
        return;
    }
    line.extend_from_slice(b"{\"_meta\":{");
    line.extend_from_slice(members.as_bytes());
    line.extend_from_slice(if is_empty { b"}" } else { b"}," });
    line.extend_from_slice(inside);
}

/// Parameters that may bring a `_meta` of their own; theirs goes first. `None` if they bring none.
fn with_meta(params: &[u8], members: &str) -> Option<Vec<u8>> {
    let mut params: Object = serde_json::from_slice(params).ok()?;
    let ours: Object = serde_json::from_str(&format!("{{{members}}}")).ok()?;
    let meta = params.get_mut("_meta")?;
    if !meta.is_object() {
        *meta = Value::Object(Object::new());
    }
    for (name, value) in ours {
        meta.as_object_mut()?.entry(name).or_insert(value);
    }
    serde_json::to_vec(&params).ok()
}

/// Nobody waits for this request any more.
pub(super) fn cancelled(id: u64, reason: Option<String>) -> Bytes {
    let reason = Value::from(reason.unwrap_or_else(|| "the caller gave up".into()));
    notification(
        "notifications/cancelled",
        format!(r#"{{"requestId":{id},"reason":{reason}}}"#).as_bytes(),
    )
}

/// The answer to a request of the server's. A handler that panicked or was dropped has one too.
pub(super) fn answer(
    id_json: &[u8],
    answer: Result<Result<Vec<u8>, RpcError>, JoinError>,
) -> Bytes {
    let failed = |error: JoinError| match error.is_panic() {
        true => RpcError::internal("The client's handler panicked."),
        false => RpcError::internal("The client's handler was dropped."),
    };
    let (name, value) = match answer.map_err(failed).and_then(|answer| answer) {
        Ok(result) => ("result", result),
        Err(error) => ("error", serde_json::to_vec(&error).unwrap_or_default()),
    };
    let mut line = Vec::with_capacity(value.len() + id_json.len() + 40);
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    line.extend_from_slice(id_json);
    let _ = write!(line, ",\"{name}\":");
    line.extend_from_slice(&value);
    line.push(b'}');
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use serde_json::value::RawValue;

    fn text(line: Bytes) -> String {
        String::from_utf8(line.into()).unwrap()
    }

    #[test]
    fn meta_is_put_where_it_belongs_whatever_the_parameters_are() {
        let meta = Meta {
            modern: r#""v":"1""#,
            progress: true,
            ..Meta::default()
        };
        let made = |params: Value| {
            let line = text(request(7, "m", &super::params(params).unwrap(), &meta));
            serde_json::from_str::<Value>(&line).unwrap()["params"].clone()
        };
        let both = json!({"v": "1", "progressToken": 7});
        assert_eq!(made(Value::Null), json!({"_meta": both}));
        assert_eq!(made(json!({})), json!({"_meta": both}));
        assert_eq!(made(json!({"a": 1})), json!({"a": 1, "_meta": both}));
        assert_eq!(
            made(json!({"a": 1, "_meta": {"v": "2"}})),
            json!({"a": 1, "_meta": {"v": "2", "progressToken": 7}})
        );
        let inner = json!({"a": {"_meta": 1}});
        assert_eq!(made(inner), json!({"a": {"_meta": 1}, "_meta": both}));
    }

    #[test]
    fn nothing_is_added_that_is_not_wanted() {
        let none = Meta::default();
        assert_eq!(
            text(request(1, "ping", b"", &none)),
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#
        );
        assert_eq!(
            text(request(1, "x", br#"{"a":1}"#, &none)),
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1}}"#
        );
    }

    #[test]
    fn raw_parameters_stay_on_one_line() {
        let raw: Box<RawValue> = serde_json::from_str("{\n  \"a\": \"b\\nc\"\r\n}").unwrap();
        let params = params(raw).unwrap();
        assert_eq!(params, b"{   \"a\": \"b\\nc\"  }");
        assert!(super::params([1]).is_err());
    }
}
