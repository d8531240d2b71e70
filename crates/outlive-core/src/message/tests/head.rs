//! The usual beginning of a line, which is compared instead of read.

use proptest::prelude::*;

use super::super::arbitrary::line;
use super::*;

/// Whether it makes a difference that the beginning of the line was compared instead of read.
fn head_shows(line: &[u8]) -> Result<(), TestCaseError> {
    let (mut quick, mut walked) = (Draft::default(), Draft::default());
    let verdicts = (quick.read(line), walked.read_from(line, 0));
    let line = String::from_utf8_lossy(line);
    prop_assert_eq!(&verdicts.0, &verdicts.1, "{}", &line);
    prop_assert_eq!(quick, walked, "{}", &line);
    Ok(())
}

#[test]
fn the_usual_beginning_is_taken_at_once() {
    for (line, head) in [
        (
            r#"{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{}}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":12,\"method\":\"tools/call\",",
        ),
        (
            r#"{"jsonrpc":"2.0","id":12,"result":{}}"#,
            "{\"jsonrpc\":\"2.0\",\"id\":12,",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"tools/call","id":1}"#,
            "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",",
        ),
        (
            r#"{"jsonrpc":"2.0","id":"12","result":{}}"#,
            "{\"jsonrpc\":\"2.0\",",
        ),
        (r#"{"jsonrpc":"2.0","id":12}"#, "{\"jsonrpc\":\"2.0\","),
        (
            r#"{"jsonrpc":"2.0","id":,"result":{}}"#,
            "{\"jsonrpc\":\"2.0\",",
        ),
        (r#"{"id":12,"jsonrpc":"2.0","result":{}}"#, ""),
    ] {
        assert_eq!(
            Draft::default().envelope.read_head(line.as_bytes()),
            head.len(),
            "{line}"
        );
        for end in 0..=line.len() {
            head_shows(&line.as_bytes()[..end]).expect("no difference");
        }
    }
}

proptest! {
    #[test]
    fn nothing_depends_on_how_the_beginning_is_read(
        head in prop::sample::subsequence(
            vec!["\"id\":7,", "\"id\":07,", "\"method\":\"tools/call\",", "\"id\":", "\"method\":"], 0..4),
        rest in prop_oneof![line(), Just("}".to_owned()), any::<String>()],
        cut in 0..4usize,
    ) {
        // A line is an object: without its brace its members go on from the head.
        let rest = rest.get(1..).unwrap_or_default();
        let mut line = format!("{{\"jsonrpc\":\"2.0\",{}{rest}", head.concat()).into_bytes();
        line.truncate(line.len() - cut.min(line.len()));
        head_shows(&line)?;
    }
}
