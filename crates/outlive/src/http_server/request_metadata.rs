//! The headers of a modern request against its body (2026-07-28, server validation).
//!
//! Whoever routes by headers must not be told something else than we are. A request without
//! metadata, and one of another version, are not compared: what is wrong with them is said by the
//! machine.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use hyper::header::HeaderMap;
use outlive_core::Message;
use outlive_core::protocol::header::{METHOD, NAME, PROTOCOL_VERSION};
use outlive_core::protocol::{method, version};
use serde::Deserialize;
use serde_json::Value;

use super::Mirrored;
use super::access::header;

/// What is wrong with the headers of this request, if anything is.
pub(crate) fn mismatch(
    headers: &HeaderMap,
    message: &Message,
    mirrored: impl FnOnce() -> Vec<Mirrored>,
) -> Option<String> {
    compare(headers, message, mirrored).err()
}

fn compare(
    headers: &HeaderMap,
    message: &Message,
    mirrored: impl FnOnce() -> Vec<Mirrored>,
) -> Result<(), String> {
    let version = version_of(message);
    plain(headers, PROTOCOL_VERSION, version.as_deref())?;
    if version.as_deref() != Some(version::MODERN) {
        return Ok(());
    }
    plain(headers, METHOD, Some(message.method()))?;
    // Without a name in the body the handler says what is wrong.
    if let Some(name) = method::subject(message) {
        let shown = decoded(headers, NAME)?;
        equal(NAME, &shown, &name)?;
    }
    if message.is("tools/call") {
        arguments(headers, message, mirrored())?;
    }
    Ok(())
}

/// The version in the metadata of a request.
fn version_of(message: &Message) -> Option<String> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
        version: String,
    }
    let meta: Meta = serde_json::from_slice(message.meta()?).ok()?;
    Some(meta.version)
}

fn plain(headers: &HeaderMap, name: &str, expected: Option<&str>) -> Result<(), String> {
    let shown = value(headers, name)?;
    match expected {
        Some(expected) => equal(name, shown, expected),
        None => Ok(()),
    }
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, String> {
    let wrong = |words| Err(format!("Header mismatch: the header {name} {words}"));
    match headers.get_all(name).iter().count() {
        0 => wrong("is missing"),
        1 => match header(headers, name) {
            Some(value) => Ok(value.trim()),
            None => wrong("is not plain text"),
        },
        // Whoever routes by it may have taken the other one.
        _ => wrong("is there twice"),
    }
}

fn decoded(headers: &HeaderMap, name: &str) -> Result<String, String> {
    let shown = value(headers, name)?;
    let coded = shown
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match coded {
        None => Ok(shown.to_owned()),
        Some(coded) => (BASE64.decode(coded).ok())
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .ok_or_else(|| format!("Header mismatch: the header {name} is not base64 of text")),
    }
}

fn equal(name: &str, shown: &str, expected: &str) -> Result<(), String> {
    let short = |text: &str| text.chars().take(100).collect::<String>();
    match shown == expected {
        true => Ok(()),
        false => Err(format!(
            "Header mismatch: the header {name} says {:?}, the body {:?}",
            short(shown),
            short(expected)
        )),
    }
}

fn arguments(headers: &HeaderMap, message: &Message, all: Vec<Mirrored>) -> Result<(), String> {
    if all.is_empty() {
        return Ok(());
    }
    let params: Value =
        serde_json::from_slice(message.params().unwrap_or(b"{}")).unwrap_or_default();
    for Mirrored { header: name, path } in all {
        let found = path
            .iter()
            .try_fold(&params["arguments"], |value, key| value.get(key));
        let expected = match found {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(Value::Number(number)) => {
                let shown = decoded(headers, &name)?;
                let same = shown.parse::<f64>().ok() == number.as_f64();
                match same {
                    true => continue,
                    false => number.to_string(),
                }
            }
            // Nothing else may be mirrored, so nobody can have done it.
            Some(_) => continue,
        };
        equal(&name, &decoded(headers, &name)?, &expected)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_strictly() {
        let read = |text| {
            BASE64
                .decode(text)
                .ok()
                .map(|bytes| String::from_utf8(bytes).expect("text"))
        };
        for (text, expected) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYmFy", "foobar"),
            ("SGVsbG8sIOS4lueVjA==", "Hello, 世界"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected));
        }
        for wrong in [
            "SGVsbG8",
            "SGVs!!!bG8=",
            "Zg=",
            "=",
            "====",
            "Z===",
            "Zm9v\n",
        ] {
            assert_eq!(BASE64.decode(wrong).ok(), None, "{wrong}");
        }
    }

    fn request(method: &str, params: &str) -> Message {
        let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}{meta}}}}}"#
        );
        Message::read(line.into()).expect("a message")
    }

    fn compared(message: &Message, headers: &[(&'static str, &'static str)]) -> Result<(), String> {
        let mut map = HeaderMap::new();
        map.insert(PROTOCOL_VERSION, "2026-07-28".parse().expect("a value"));
        for (name, value) in headers {
            map.insert(*name, value.parse().expect("a value"));
        }
        let mirrored = || {
            vec![Mirrored {
                header: "mcp-param-region".into(),
                path: vec!["where".into(), "region".into()],
            }]
        };
        compare(&map, message, mirrored)
    }

    #[test]
    fn names_are_compared() {
        let list = request("tools/list", "");
        assert_eq!(compared(&list, &[(METHOD, "tools/list")]), Ok(()));
        assert!(compared(&list, &[]).is_err());
        assert!(compared(&list, &[(METHOD, "TOOLS/LIST")]).is_err());
        let read = request("resources/read", r#""uri":"a://b","#);
        let of = |name| compared(&read, &[(METHOD, "resources/read"), (NAME, name)]);
        assert_eq!(of("a://b"), Ok(()));
        assert_eq!(of("=?base64?YTovL2I=?="), Ok(()));
        assert!(of("a://c").is_err());
        assert!(of("=?base64?YTovL2I?=").is_err());
    }

    #[test]
    fn arguments_are_compared_as_values() {
        let with = |arguments: &str, header: Option<&'static str>| {
            let params = format!(r#""name":"t","arguments":{arguments},"#);
            let mut headers = vec![(METHOD, "tools/call"), (NAME, "t")];
            headers.extend(header.map(|value| ("mcp-param-region", value)));
            compared(&request("tools/call", &params), &headers)
        };
        assert_eq!(with(r#"{"where":{"region":"eu"}}"#, Some("eu")), Ok(()));
        assert!(with(r#"{"where":{"region":"eu"}}"#, Some("us")).is_err());
        assert!(with(r#"{"where":{"region":"eu"}}"#, None).is_err());
        assert_eq!(with(r#"{"where":{"region":42}}"#, Some("42.0")), Ok(()));
        assert!(with(r#"{"where":{"region":42}}"#, Some("43")).is_err());
        assert_eq!(with(r#"{"where":{"region":true}}"#, Some("true")), Ok(()));
        for absent in ["{}", r#"{"where":{"region":null}}"#, r#"{"where":1}"#] {
            assert_eq!(with(absent, None), Ok(()), "{absent}");
        }
    }
}
