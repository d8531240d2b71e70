//! JSON values that are parts of messages, looked into by the same walk as the messages themselves.

use std::borrow::Cow;
use std::ops::Range;

use super::envelope;
use super::id;
use super::scan::{Broken, Cursor};

/// Where the value of the last member of that name stands, if `json` is an object and has one.
pub(crate) fn member(json: &[u8], name: &str) -> Option<Range<usize>> {
    let span = envelope::member(json, name.as_bytes());
    span.is_some()
        .then_some(span.start as usize..span.end as usize)
}

/// Where the elements of an array stand; `None` if this is none.
pub(crate) fn elements(json: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let mut cursor = Cursor::new(json);
    cursor
        .array(|cursor| {
            let span = cursor.value()?;
            found.push(span.start as usize..span.end as usize);
            Ok(())
        })
        .ok()?;
    cursor.end().ok()?;
    Some(found)
}

/// The members of an object in their order, names unescaped; `None` if this is none.
pub(crate) fn members(json: &[u8]) -> Option<Vec<(String, Range<usize>)>> {
    let mut found = Vec::new();
    let mut cursor = Cursor::new(json);
    cursor.peek().ok().filter(|first| *first == b'{')?;
    envelope::members(&mut cursor, |name, value| {
        let name = String::from_utf8_lossy(name).into_owned();
        found.push((name, value.start as usize..value.end as usize));
    })
    .ok()?;
    cursor.end().ok()?;
    Some(found)
}

/// What a JSON string stands for; `None` if this is no string.
pub(crate) fn text(json: &[u8]) -> Option<Cow<'_, str>> {
    id::text(json)
}

/// The value in one spelling: no white space, members sorted by name (those of one name in their order), strings with
/// as few escapes as they need. Numbers stay as they are written.
///
/// `None` if it is not JSON, is nested too deep, or has a member without a name: that is how a name is read whose
/// escapes stand for nothing.
pub(crate) fn canonical(json: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(json.len());
    let mut cursor = Cursor::new(json);
    // What is nested too deep must not be found out by recursion.
    cursor.value().ok()?;
    cursor.end().ok()?;
    if cursor.too_deep {
        return None;
    }
    write(&mut Cursor::new(json), json, &mut out).ok()?;
    Some(out)
}

fn write(cursor: &mut Cursor<'_>, json: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
    match cursor.peek()? {
        b'{' => {
            let mut members = Vec::new();
            cursor.object(|cursor, key| {
                let name = key.told_by(|name| String::from_utf8_lossy(name).into_owned());
                if name.is_empty() {
                    return cursor.unexpected();
                }
                let mut value = Vec::new();
                write(cursor, json, &mut value)?;
                members.push((name, value));
                Ok(())
            })?;
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            out.push(b'{');
            for (at, (name, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                out.extend(quoted(name).bytes());
                out.push(b':');
                out.extend(value);
            }
            out.push(b'}');
        }
        b'[' => {
            out.push(b'[');
            let mut first = true;
            cursor.array(|cursor| {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                write(cursor, json, out)
            })?;
            out.push(b']');
        }
        _ => {
            let scalar = cursor.value()?.of(json);
            match text(scalar) {
                Some(text) => out.extend(quoted(&text).bytes()),
                None => out.extend(scalar),
            }
        }
    }
    Ok(())
}

/// The text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) -> bool {
        let canonical = |json: &str| canonical(json.as_bytes()).expect(json);
        canonical(one) == canonical(other)
    }

    #[test]
    fn only_spelling_and_the_order_of_members_do_not_matter() {
        assert!(same(
            r#"{"a":[1,{"b":"\u0041","c":null}],"d":{}}"#,
            "{ \"d\" : {} ,\n\"a\":[ 1 , {\"c\":null,\"b\":\"A\"}]}"
        ));
        for (one, other) in [
            ("[1,2]", "[2,1]"),
            ("[1]", "[1.0]"),
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#),
            (r#"{"a":"x "}"#, r#"{"a":"x"}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
            (r#"{"a":2}"#, r#"{"a":1,"a":2}"#),
            ("[\"1\"]", "[1]"),
        ] {
            assert!(!same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn what_is_no_json_or_too_deep_has_no_canonical_form() {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        for json in [r#"{"\ud800":1}"#, "", "{", "[1", "{}x", "{\"a\"}", &deep] {
            assert_eq!(canonical(json.as_bytes()), None);
        }
    }
}
