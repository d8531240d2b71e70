//! Results for the client, written once.

use bytes::{BufMut, BytesMut};
use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::message::{Message, put_on_one_line};
use crate::protocol::List;
use crate::protocol::meta::SERVER_INFO;

/// Room for all marks but what they say about the server.
const MARKS: usize = 128;

/// What a modern result must say about itself (2026-07-28, responses and caching), where it does
/// not do so already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    kind: bool,
    ttl: bool,
    scope: bool,
    info: bool,
}

impl Marks {
    /// The marks that the result of such a request lacks.
    pub(crate) fn missing(method: &str, result: &[u8]) -> Marks {
        #[derive(Deserialize)]
        struct Top<'a> {
            #[serde(borrow, rename = "resultType")]
            kind: Option<&'a RawValue>,
            #[serde(rename = "ttlMs")]
            ttl: Option<IgnoredAny>,
            #[serde(rename = "cacheScope")]
            scope: Option<IgnoredAny>,
            #[serde(rename = "_meta")]
            meta: Option<IgnoredAny>,
        }
        let cacheable = List::of_method(method).is_some() || method == "resources/read";
        let all = Marks {
            kind: true,
            ttl: cacheable,
            scope: cacheable,
            info: true,
        };
        // Nobody writes these with escapes, so a result without them anywhere need not be read.
        let words: [&[u8]; 4] = [b"resultType", b"ttlMs", b"cacheScope", b"_meta"];
        if words
            .iter()
            .all(|word| memmem::find(result, word).is_none())
        {
            return all;
        }
        match serde_json::from_slice::<Top<'_>>(result) {
            Ok(top) => {
                // An interim result is not cacheable.
                let complete = top.kind.is_none_or(|kind| kind.get() == r#""complete""#);
                Marks {
                    kind: top.kind.is_none(),
                    ttl: cacheable && complete && top.ttl.is_none(),
                    scope: cacheable && complete && top.scope.is_none(),
                    info: top.meta.is_none(),
                }
            }
            Err(_) => Marks::default(),
        }
    }
}

/// The response with this result, and its marks if it is a modern one.
pub(crate) fn response(id_json: &[u8], result: &[u8], marks: Marks, info: &[u8]) -> Message {
    let room = result.len() + info.len() + MARKS;
    Message::response_with(id_json, room, |line| put_result(line, result, marks, info))
}

fn put_result(line: &mut BytesMut, result: &[u8], marks: Marks, info: &[u8]) {
    line.put_u8(b'{');
    let start = line.len();
    let mut mark = |parts: &[&[u8]]| {
        if line.len() > start {
            line.put_u8(b',');
        }
        for part in parts {
            line.put_slice(part);
        }
    };
    if marks.kind {
        mark(&[br#""resultType":"complete""#]);
    }
    if marks.ttl {
        mark(&[br#""ttlMs":0"#]);
    }
    if marks.scope {
        mark(&[br#""cacheScope":"private""#]);
    }
    if marks.info {
        let name = SERVER_INFO.as_bytes();
        mark(&[br#""_meta":{""#, name, br#"":"#, info, b"}"]);
    }
    // What is left of the object: its members and the closing brace.
    let rest = result.get(1..).unwrap_or(b"}").trim_ascii_start();
    if line.len() > start && !rest.starts_with(b"}") {
        line.put_u8(b',');
    }
    put_on_one_line(line, rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modern(method: &str, result: &str) -> String {
        let marks = Marks::missing(method, result.as_bytes());
        let answer = response(b"7", result.as_bytes(), marks, b"{}");
        String::from_utf8(answer.bytes().to_vec()).expect("UTF-8")
    }

    const INFO: &str = r#""_meta":{"io.modelcontextprotocol/serverInfo":{}}"#;

    #[test]
    fn a_modern_result_is_marked_where_it_is_not() {
        let of = |members: String| format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{{members}}}}}"#);
        assert_eq!(
            modern("tools/call", "{}"),
            of(format!(r#""resultType":"complete",{INFO}"#))
        );
        assert_eq!(
            modern("tools/call", r#"{ "content":[]}"#),
            of(format!(r#""resultType":"complete",{INFO},"content":[]"#))
        );
        assert_eq!(
            modern("tools/list", r#"{"tools":[]}"#),
            of(format!(
                r#""resultType":"complete","ttlMs":0,"cacheScope":"private",{INFO},"tools":[]"#
            ))
        );
        let hinted = r#""ttlMs":5,"cacheScope":"public""#;
        assert_eq!(
            modern("resources/read", &format!("{{{hinted}}}")),
            of(format!(r#""resultType":"complete",{INFO},{hinted}"#))
        );
        for (one, other) in [
            (r#""ttlMs":5"#, r#""cacheScope":"private""#),
            (r#""cacheScope":"public""#, r#""ttlMs":0"#),
        ] {
            assert_eq!(
                modern("tools/list", &format!("{{{one}}}")),
                of(format!(r#""resultType":"complete",{other},{INFO},{one}"#))
            );
        }
        let complete = r#""resultType":"complete""#;
        assert_eq!(
            modern("prompts/list", &format!("{{{complete}}}")),
            of(format!(
                r#""ttlMs":0,"cacheScope":"private",{INFO},{complete}"#
            ))
        );
        let asking = r#""resultType":"input_required","_meta":{}"#;
        assert_eq!(
            modern("resources/read", &format!("{{{asking}}}")),
            of(asking.into()),
            "an interim result is not cacheable"
        );
        assert_eq!(
            modern("tools/call", r#"{"content":[{"_meta":{},"ttlMs":1}]}"#),
            of(format!(
                r#""resultType":"complete",{INFO},"content":[{{"_meta":{{}},"ttlMs":1}}]"#
            )),
            "deeper members are none of its own"
        );
    }

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(
            response(b"1", b"{\n\"a\":\n1\n}", Marks::default(), b"").bytes(),
            r#"{"jsonrpc":"2.0","id":1,"result":{"a": 1 }}"#
        );
    }
}
