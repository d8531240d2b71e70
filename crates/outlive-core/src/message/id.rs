//! Request ids as values.
//!
//! Two peers may write one id in two ways (`1`, `1.0`, `"\u0061"`, `"a"`). An answer belongs to a
//! request when the values agree, so ids are compared as values; what is sent is always the text
//! the peer wrote.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use memchr::memchr;

/// A JSON-RPC id. Equal means: the same type and the same value, so `1` and `1.0` are equal and
/// `1` and `"1"` are not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Id {
    /// `null`: the id of an error that answers nothing in particular.
    Null,
    /// A whole number that fits, which is nearly every number seen.
    Int(i64),
    /// Any other number, as normalised text: `1.50` is `1.5`.
    Number(Box<str>),
    /// A string, without its quotes and escapes.
    Text(Box<str>),
}

impl Id {
    /// The id that is this string.
    pub fn text(s: impl Into<Box<str>>) -> Id {
        Id::Text(s.into())
    }

    /// Reads one JSON scalar. `None` if it is malformed or cannot be an id (`true`, `{}`, `[]`).
    pub fn read(json: &[u8]) -> Option<Id> {
        match json.first()? {
            b'"' => Some(Id::Text(text(json)?.into())),
            b'n' => (json == b"null").then_some(Id::Null),
            _ => number(json),
        }
    }

    /// The id as JSON text.
    pub fn to_json(&self) -> String {
        self.to_string()
    }

    /// The id a careless peer may have turned this one into: `7` for `"7"` and `"7"` for `7`
    /// (FM-61). `None` if there is none.
    pub fn other_type(&self) -> Option<Id> {
        match self {
            Id::Null => None,
            Id::Int(n) => Some(Id::text(n.to_string())),
            Id::Number(n) => Some(Id::Text(n.clone())),
            // Only the spelling we would write ourselves: then the two are each other's other.
            Id::Text(s) => number(s.as_bytes()).filter(|id| *id.to_json() == **s),
        }
    }
}

/// Without the type: an id is hashed for each message, and few sessions have ids of two types.
impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Id::Null => {}
            Id::Int(n) => n.hash(state),
            Id::Number(s) | Id::Text(s) => s.hash(state),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Null => f.write_str("null"),
            Id::Int(n) => write!(f, "{n}"),
            Id::Number(n) => f.write_str(n),
            Id::Text(s) => f.write_str(&serde_json::to_string(s).map_err(|_| fmt::Error)?),
        }
    }
}

/// Whether this is a string that means what it says: ASCII, nothing escaped. Most are.
pub(super) fn is_plain(json: &[u8]) -> bool {
    match json {
        // Nearly every request is one of these.
        br#""tools/call""# => true,
        [b'"', inner @ .., b'"'] => inner
            .iter()
            .all(|&b| matches!(b, b' '..=b'~') && b != b'"' && b != b'\\'),
        _ => false,
    }
}

/// The value of a JSON string, quotes included in `json`; borrowed if it has no escapes.
///
/// `None` if it is no valid JSON string. Text that is only passed on is never judged so strictly;
/// text that is acted on must mean one thing.
pub(super) fn text(json: &[u8]) -> Option<Cow<'_, str>> {
    let inner = json.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr(b'\\', inner).is_some() {
        return serde_json::from_slice(json).ok().map(Cow::Owned);
    }
    if inner.iter().any(|&b| b < 0x20 || b == b'"') {
        return None;
    }
    std::str::from_utf8(inner).ok().map(Cow::Borrowed)
}

/// Longest run of digits that always fits an `i64`.
const SURE_DIGITS: usize = 18;

/// Zeros we are willing to write out in a normalised number before using an exponent.
const PLAIN_ZEROS: i64 = 20;

fn number(json: &[u8]) -> Option<Id> {
    if let Some(n) = short_number(json) {
        return Some(Id::Int(n));
    }
    let (negative, rest) = match json.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, json),
    };
    let (whole, rest) = digits(rest);
    if whole.is_empty() || (whole.len() > 1 && whole[0] == b'0') {
        return None;
    }
    let (fraction, rest) = match rest.strip_prefix(b".") {
        Some(rest) => digits(rest),
        None => (&[][..], rest),
    };
    if fraction.is_empty() && json.contains(&b'.') {
        return None;
    }
    let exponent = exponent(rest)?;

    // The value is `significant * 10^scale`, with no zero at either end of `significant`.
    let all = [whole, fraction].concat();
    let Some(first) = all.iter().position(|&d| d != b'0') else {
        return Some(Id::Int(0));
    };
    let last = all.iter().rposition(|&d| d != b'0').unwrap_or(first);
    let significant = std::str::from_utf8(&all[first..=last]).ok()?;
    let trailing = (all.len() - 1 - last) as i64;
    let scale = exponent.and_then(|e| e.checked_add(trailing - fraction.len() as i64));
    let sign = if negative { "-" } else { "" };
    let text = match scale {
        Some(scale) => format!("{sign}{}", plain(significant, scale)),
        None => std::str::from_utf8(json).ok()?.to_owned(),
    };
    Some(match text.parse() {
        Ok(n) => Id::Int(n),
        Err(_) => Id::Number(text.into()),
    })
}

/// Nothing but digits, and few of them: nearly every number seen.
#[inline]
fn short_number(json: &[u8]) -> Option<i64> {
    if json.is_empty() || json.len() > SURE_DIGITS || (json[0] == b'0' && json.len() > 1) {
        return None;
    }
    json.iter().try_fold(0, |n, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| n * 10 + i64::from(digit))
    })
}

fn digits(json: &[u8]) -> (&[u8], &[u8]) {
    let end = json.iter().position(|b| !b.is_ascii_digit());
    json.split_at(end.unwrap_or(json.len()))
}

/// The exponent at the end of a number. The outer `None`: malformed; the inner: beyond all reason.
fn exponent(json: &[u8]) -> Option<Option<i64>> {
    let Some((b'e' | b'E', rest)) = json.split_first() else {
        return json.is_empty().then_some(Some(0));
    };
    let digits = match rest {
        [b'+' | b'-', digits @ ..] => digits,
        digits => digits,
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(std::str::from_utf8(rest).ok()?.parse().ok())
}

fn plain(significant: &str, scale: i64) -> String {
    let len = significant.len() as i64;
    let point = len.saturating_add(scale);
    match scale {
        0..=PLAIN_ZEROS => format!("{significant}{}", "0".repeat(scale as usize)),
        ..0 if point > 0 => {
            let (whole, fraction) = significant.split_at(point as usize);
            format!("{whole}.{fraction}")
        }
        ..0 if point >= -PLAIN_ZEROS => {
            format!("0.{}{significant}", "0".repeat(-point as usize))
        }
        _ => format!("{significant}e{scale}"),
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use proptest::prelude::*;
    use rustc_hash::FxBuildHasher;

    use super::*;

    fn read(json: &str) -> Option<Id> {
        Id::read(json.as_bytes())
    }

    fn number(json: &str) -> Id {
        Id::Number(json.into())
    }

    #[test]
    fn one_value_in_many_spellings_is_one_id() {
        for json in [
            "1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "0.001e3", "1.000",
        ] {
            assert_eq!(read(json), Some(Id::Int(1)), "{json}");
        }
        for json in ["0", "-0", "0.0", "-0e7", "0e99999999999999999999"] {
            assert_eq!(read(json), Some(Id::Int(0)), "{json}");
        }
        for json in ["1.5", "15e-1", "1.50", "0.15e1", "150E-2"] {
            assert_eq!(read(json), Some(number("1.5")), "{json}");
        }
        for json in ["0.5", "5e-1", "0.50", "0.05e1"] {
            assert_eq!(read(json), Some(number("0.5")), "{json}");
        }
        assert_eq!(read("-12.5e1"), Some(Id::Int(-125)));
        assert_eq!(read(r#""\u0061\/""#), Some(Id::text("a/")));
        assert_eq!(read(r#""\ud83d\ude00""#), Some(Id::text("😀")));
    }

    #[test]
    fn the_type_is_part_of_the_value() {
        assert_ne!(read("1"), read(r#""1""#));
        assert_ne!(read("null"), read(r#""null""#));
        assert_ne!(read("1.5"), read(r#""1.5""#));
    }

    #[test]
    fn numbers_of_any_size_are_told_apart() {
        assert_eq!(read("9223372036854775807"), Some(Id::Int(i64::MAX)));
        assert_eq!(read("-9223372036854775808"), Some(Id::Int(i64::MIN)));
        assert_eq!(
            read("9223372036854775808"),
            Some(number("9223372036854775808"))
        );
        assert_ne!(
            read("123456789012345678901234567890"),
            read("123456789012345678901234567891")
        );
        assert_eq!(
            read("999999999999999999"),
            Some(Id::Int(999999999999999999))
        );
        assert_eq!(read("1e20"), Some(number("100000000000000000000")));
        assert_eq!(read("1e21"), Some(number("1e21")));
        assert_eq!(read("10e20"), Some(number("1e21")));
        assert_eq!(read("0.00001"), Some(number("0.00001")));
        assert_eq!(read("1e-21"), Some(number("0.000000000000000000001")));
        assert_eq!(read("1e-22"), Some(number("1e-22")));
        let absurd = "1e99999999999999999999";
        assert_eq!(read(absurd), Some(number(absurd)));
        let absurd = format!("1e{}", i64::MIN);
        assert_eq!(read(&absurd), Some(number(&absurd)));
    }

    #[test]
    fn the_usual_number_is_read_in_one_go() {
        assert_eq!(short_number(b"0"), Some(0));
        assert_eq!(short_number(b"7"), Some(7));
        assert_eq!(short_number(&[b'9'; SURE_DIGITS]), Some(10_i64.pow(18) - 1));
        for json in ["", "01", "-1", "1.0", ":", "1000000000000000000"] {
            assert_eq!(short_number(json.as_bytes()), None, "{json}");
        }
    }

    #[test]
    fn the_usual_string_is_taken_as_it_stands() {
        for json in [r#""""#, r#""a b""#, r#""tools/call""#, r#"" ~""#] {
            assert!(is_plain(json.as_bytes()), "{json}");
        }
        for json in [
            "",
            "\"",
            "a",
            "\"a",
            "a\"",
            "\"a\\n\"",
            "\"a\"b\"",
            "\"\u{1f}\"",
            "\"\u{7f}\"",
            "\"é\"",
        ] {
            assert!(!is_plain(json.as_bytes()), "{json}");
        }
    }

    #[test]
    fn ids_are_hashed_by_their_values() {
        let hash = |json| FxBuildHasher.hash_one(read(json));
        let spellings = ["1", "2", "1.5", r#""a""#, r#""b""#].map(hash);
        for (i, one) in spellings.iter().enumerate() {
            assert!(!spellings[..i].contains(one), "{i}");
        }
        assert_eq!(hash("1"), hash("1.0"));
        assert_eq!(hash(r#""a""#), hash(r#""\u0061""#));
    }

    #[test]
    fn what_is_no_id() {
        for json in [
            "",
            " ",
            "true",
            "false",
            "{}",
            "[]",
            "nul",
            "nulls",
            "01",
            "-",
            "+1",
            "1.",
            ".5",
            "1e",
            "1e+",
            "1.e1",
            "0x1",
            "1 ",
            " 1",
            "1a",
            "NaN",
            "Infinity",
            "--1",
            "\"",
            "\"a",
            "a\"",
            "\"a\"b",
            "\"a\"b\"",
            r#""\x""#,
            r#""\ud800""#,
            "\"a\tb\"",
            r#""a\""#,
            "1.5.2",
            "1e5e5",
            "-a",
            "1-",
            ":",
            "1:",
            "\"a\u{1f}b\"",
        ] {
            assert_eq!(read(json), None, "{json}");
        }
        assert_eq!(Id::read(b"\"\xff\""), None);
        assert_eq!(Id::read(b"\"\\n\xff\""), None);
    }

    #[test]
    fn people_and_peers_read_the_same_text() {
        for json in [
            "null",
            "7",
            "-7",
            "1.5",
            "1e300",
            r#""""#,
            r#""a\"\\\n""#,
            r#""7""#,
            r#""a b""#,
        ] {
            let id = read(json).expect(json);
            assert_eq!(id.to_json(), json);
            assert_eq!(id.to_string(), json);
        }
    }

    #[test]
    fn the_other_type_is_mutual_or_not_there() {
        let seven = Id::Int(7);
        assert_eq!(seven.other_type(), Some(Id::text("7")));
        assert_eq!(Id::text("7").other_type(), Some(seven));
        assert_eq!(Id::text("-1.5").other_type(), Some(number("-1.5")));
        assert_eq!(number("-1.5").other_type(), Some(Id::text("-1.5")));
        for id in ["", "abc", "007", "7.0", " 7", "7 ", "null", "1e2", "-0"] {
            assert_eq!(Id::text(id).other_type(), None, "{id}");
        }
        assert_eq!(Id::Null.other_type(), None);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_the_same(n in any::<i64>(), s in any::<String>(), f in any::<f64>()) {
            prop_assert_eq!(read(&n.to_string()), Some(Id::Int(n)));
            let text = Id::text(s);
            prop_assert_eq!(read(&text.to_json()), Some(text));
            if f.is_finite() {
                let plain = read(&format!("{f}")).expect("a number");
                let scientific = read(&format!("{f:e}")).expect("a number");
                prop_assert_eq!(&plain, &scientific);
                prop_assert_eq!(plain.to_json().parse::<f64>().ok(), Some(f));
            }
        }

        #[test]
        fn numbers_are_accepted_as_json_accepts_them(s in "-?[0-9]{0,3}\\.?[0-9]{0,3}[eE]?[-+]?[0-9]{0,2}") {
            let valid = serde_json::from_str::<serde_json::Value>(&s).is_ok();
            prop_assert_eq!(read(&s).is_some(), valid, "{}", s);
        }

        #[test]
        fn the_other_of_the_other_is_the_same(s in "[-0-9.e]{1,6}") {
            let id = Id::text(s);
            if let Some(other) = id.other_type() {
                prop_assert_eq!(other.other_type(), Some(id));
            }
        }
    }
}
