//! Messages among other text on one line.
//!
//! A tool that prints a dot without a line end puts it before the next answer (FM-11). The line is no message, but
//! it has one in it, and somebody waits for that.

use bytes::Bytes;

use super::scan::Cursor;
use super::{Defect, Message};

/// An object is looked for at so many places in vain, and no more: a line of nothing but braces costs a few times its
/// length.
const MOST_TRIES: usize = 8;

/// What a line that is no message has in it all the same.
#[derive(Debug, Default)]
pub struct Salvage {
    /// The whole messages, in order.
    pub messages: Vec<Message>,
    /// What was meant as a message and cannot be read; the first of them.
    pub broken: Option<Defect>,
}

/// Looks for messages in a line that is none itself. Objects that are no messages are stepped over, with all that is
/// in them.
pub fn salvage(line: &Bytes) -> Salvage {
    let mut salvage = Salvage::default();
    if !super::can_be_read(line.len()) {
        return salvage;
    }
    let (mut at, mut tries) = (0, 0);
    while tries < MOST_TRIES
        && let Some(start) = next_object(line, at)
    {
        let end = Cursor::inside(line, start, 0).value().ok();
        let end = end.map(|span| span.end as usize);
        tries += usize::from(end.is_none());
        match Message::read(line.slice(start..end.unwrap_or(line.len()))) {
            Ok(message) => salvage.messages.push(message),
            Err(defect) if defect.looks_like_rpc && defect.id.is_some() => {
                salvage.broken.get_or_insert(*defect);
            }
            Err(_) => {}
        }
        at = end.unwrap_or(start + 1);
    }
    salvage
}

/// Where the next object begins that has a member.
fn next_object(line: &[u8], from: usize) -> Option<usize> {
    let braces = line[from..].iter().enumerate();
    let mut braces = braces.filter(|(_, byte)| **byte == b'{');
    braces.find_map(|(at, _)| {
        let rest = line[from + at + 1..].trim_ascii_start();
        rest.starts_with(b"\"").then_some(from + at)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::arbitrary;
    use super::*;

    fn found(line: &[u8]) -> Vec<String> {
        let found = salvage(&Bytes::copy_from_slice(line)).messages;
        let text = |m: &Message| String::from_utf8_lossy(m.bytes()).into_owned();
        found.iter().map(text).collect()
    }

    const ONE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"a":[{"b":"}"}]}}"#;
    const TWO: &str = r#"{"result":{},"jsonrpc":"2.0","id":"2"}"#;

    #[test]
    fn a_message_behind_before_and_between_other_text_is_found() {
        for (before, after) in [
            (".", ""),
            ("", "."),
            ("{} {a} ", " {"),
            ("{\"x\": ", ""),
            ("\0\u{7}", "\0"),
        ] {
            assert_eq!(found(format!("{before}{ONE}{after}").as_bytes()), [ONE]);
        }
        assert_eq!(found(format!("{ONE}{TWO}").as_bytes()), [ONE, TWO]);
        assert_eq!(found(format!("..{ONE} and {TWO}!").as_bytes()), [ONE, TWO]);
        assert_eq!(found(&[b"\xff\xfe", ONE.as_bytes()].concat()), [ONE]);
    }

    #[test]
    fn what_is_in_an_object_of_its_own_is_not_taken_out_of_it() {
        assert_eq!(
            found(format!(r#"sent {{"was":{ONE}}}"#).as_bytes()),
            [""; 0]
        );
        assert_eq!(
            found(br#"say "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}""#),
            [""; 0]
        );
    }

    #[test]
    fn what_was_meant_as_a_message_is_told() {
        let cut = Bytes::from_static(br#"..{"jsonrpc":"2.0","id":7,"result":{"a"#);
        let broken = salvage(&cut).broken.expect("an answer that is cut off");
        assert_eq!(&broken.id_json[..], b"7");
    }

    #[test]
    fn a_line_of_braces_is_given_up() {
        let braces = br#"{"{ ""#.repeat(100_000);
        let line = [&braces[..], ONE.as_bytes()].concat();
        assert_eq!(found(&line), [""; 0]);
    }

    proptest! {
        /// Whatever stands before it, unless it begins an object itself.
        #[test]
        fn every_message_is_found_behind_other_text(junk in "[^{\\n]{1,40}", line in arbitrary::line()) {
            let bytes = Bytes::from(line.clone());
            let Ok(message) = Message::read(bytes) else { return Ok(()) };
            let mixed = [junk.as_bytes(), line.as_bytes()].concat();
            let found = found(&mixed);
            prop_assert_eq!(found, [String::from_utf8_lossy(message.bytes()).into_owned()]);
        }

        /// It finds nothing that is not there, and is at a loss about no line.
        #[test]
        fn what_is_found_is_a_message_in_the_line(line in prop::collection::vec(
            prop::sample::select(&b"{}[]\",:.\\ \xff1ijsonrpcd"[..]), 0..80)) {
            for message in found(&line) {
                prop_assert!(Message::read(message.clone().into()).is_ok());
                prop_assert!(String::from_utf8_lossy(&line).contains(&message));
            }
        }
    }
}
