//! Any line at all, read as `serde_json` reads it.

use proptest::prelude::*;
use serde_json::Value;

use super::super::arbitrary::{id_json, line};
use super::*;

fn same_id(id: Option<&Id>, value: Option<&Value>) -> bool {
    match (id, value) {
        (Some(Id::Int(n)), Some(Value::Number(v))) => match v.as_i64() {
            Some(v) => v == *n,
            None => v.as_f64() == Some(*n as f64),
        },
        (Some(Id::Number(n)), Some(Value::Number(v))) => v.as_f64() == n.parse().ok(),
        (Some(Id::Text(s)), Some(Value::String(v))) => **s == **v,
        (None, Some(v)) => !v.is_number() && !v.is_string(),
        (None, None) => true,
        _ => false,
    }
}

fn same_json(raw: Option<&[u8]>, value: Option<&Value>) -> bool {
    raw.map(|raw| serde_json::from_slice::<Value>(raw).expect("a value"))
        .as_ref()
        == value
}

/// What the rules say, told from a parsed value.
fn expected(line: &Value) -> Result<Kind, DefectKind> {
    let usable = |id: &Value| id.is_number() || id.is_string();
    let (id, method) = (line.get("id"), line.get("method"));
    match (method, id) {
        (Some(Value::String(_)), Some(id)) if usable(id) => Ok(Kind::Request),
        (Some(Value::String(_)), None) if line.get("jsonrpc").is_some() => Ok(Kind::Notification),
        (Some(Value::String(_)), None) => Err(DefectKind::NotAMessage),
        (Some(_), _) => Err(DefectKind::Ambiguous),
        (None, id) => match (id, line.get("result"), line.get("error")) {
            (Some(id), Some(_), None) | (Some(id), None, Some(_)) if usable(id) => {
                Ok(Kind::Response)
            }
            (None | Some(Value::Null), None, Some(_)) => Ok(Kind::Response),
            (Some(id), Some(_), Some(_)) if usable(id) => Err(DefectKind::Ambiguous),
            (Some(id), None, None) if usable(id) && line.get("jsonrpc").is_some() => {
                Err(DefectKind::Ambiguous)
            }
            _ => Err(DefectKind::NotAMessage),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_envelope_is_what_a_parser_says(
        text in line(),
    ) {
        let value: Value = serde_json::from_str(&text).expect("the writer writes JSON");
        let read = Message::read(Bytes::from(text.clone()));
        prop_assert_eq!(
            read.as_ref().map(Message::kind).map_err(|d| d.what),
            expected(&value).as_ref().copied().map_err(|d| *d),
            "{}", text
        );
        match read {
            Ok(m) => {
                prop_assert_eq!(m.bytes(), text.trim_matches([' ', '\t', '\r']));
                if m.id() != Some(&Id::Null) {
                    prop_assert!(same_id(m.id(), value.get("id")));
                    prop_assert!(m.id().is_none() || same_json(Some(m.id_json()), value.get("id")));
                }
                let method = value.get("method").and_then(Value::as_str).unwrap_or("");
                prop_assert_eq!(m.method(), method);
                // A response has no `params`, and nothing else has a result, whatever was written.
                let response = m.kind() == Kind::Response;
                let of = |is_its: bool, key: &str| value.get(key).filter(|_| is_its);
                prop_assert!(same_json(m.params(), of(!response, "params")));
                prop_assert!(same_json(m.result(), of(response, "result")));
                prop_assert!(same_json(m.error(), of(response, "error")));
                let params = of(!response, "params").and_then(Value::as_object);
                let field = |key: &str| params.and_then(|p| p.get(key));
                prop_assert!(same_id(m.request_id().as_ref(), field("requestId")));
                prop_assert!(same_id(m.progress_token().as_ref(), field("progressToken")));
                for (text, key) in [(m.name(), "name"), (m.uri(), "uri"), (m.level(), "level")] {
                    prop_assert_eq!(text.as_deref(), field(key).and_then(Value::as_str));
                }
                prop_assert_eq!(m.cursor(), field("cursor").is_some_and(|c| !c.is_null()));
                prop_assert_eq!(m.has_task(), field("task").is_some_and(Value::is_object));
                prop_assert!(same_json(m.meta(), field("_meta")));
                let meta = |key: &str| field("_meta").and_then(|m| m.get(key));
                prop_assert!(same_id(m.meta_progress_token().as_ref(), meta("progressToken")));
                let version = meta("io.modelcontextprotocol/protocolVersion");
                prop_assert_eq!(m.is_modern(), version.is_some());
                let part = if m.kind() == Kind::Response { "result" } else { "params" };
                let subscription = value.get(part).and_then(|p| p.get("_meta"))
                    .and_then(|m| m.get("io.modelcontextprotocol/subscriptionId"));
                prop_assert!(same_id(m.subscription_id().as_ref(), subscription));
            }
            Err(defect) => {
                prop_assert!(same_id(defect.id.as_ref(), value.get("id")));
                prop_assert_eq!(defect.has_method, value.get("method").is_some());
                prop_assert_eq!(defect.looks_like_rpc, value.get("jsonrpc").is_some());
                prop_assert_eq!(defect.id.is_some(), !defect.id_json.is_empty());
            }
        }
    }

    #[test]
    fn a_new_id_is_as_if_it_had_been_written(
        text in line(),
        id in id_json(),
    ) {
        let Ok(m) = Message::read(text.into()) else {
            return Ok(());
        };
        for n in [m.clone().with_id(id.as_bytes()), m.clone().with_request_id(id.as_bytes())] {
            // A request must not have a null id, and a response only if it is an error.
            let Ok(again) = Message::read(n.bytes().clone()) else {
                prop_assert_eq!(n.id(), Some(&Id::Null));
                continue;
            };
            prop_assert_eq!(format!("{again:?}"), format!("{n:?}"));
        }
        // There and back again: every other byte is where it was.
        if m.head.id.is_some() {
            let back = m.clone().with_id(id.as_bytes()).with_id(m.id_json());
            prop_assert_eq!(back.bytes(), m.bytes());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(
        prop_oneof![prop::sample::select(&b"{}[]\",:\\ 1idx\xff"[..]), any::<u8>()], 0..60)
    ) {
        let line = Bytes::from(bytes);
        let _ = read_batch(&line);
        if let Ok(m) = Message::read(line) {
            let _ = (m.clone().with_id(b"1"), m.clone().with_request_id(b"1"), m.subscription_id());
        }
    }
}
