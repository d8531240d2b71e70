//! Lines that are several messages.

use super::*;

#[test]
fn batches_are_split() {
    let line = Bytes::from_static(
        br#" [ {"jsonrpc":"2.0","id":1,"method":"a"} ,{"jsonrpc":"2.0","method":"b"},7, {"jsonrpc":"2.0","id":2},[{}]] "#,
    );
    assert_eq!(refuse(&line).what, DefectKind::Batch);
    let batch = read_batch(&line).expect("a batch");
    assert_eq!(batch.len(), 5);
    let first = batch[0].as_ref().expect("a request");
    assert_eq!((first.id(), first.method()), (Some(&Id::Int(1)), "a"));
    assert_eq!(
        &first.bytes()[..],
        br#"{"jsonrpc":"2.0","id":1,"method":"a"}"#
    );
    assert_eq!(batch[1].as_ref().map(Message::kind), Ok(Kind::Notification));
    let what = |i: usize| batch[i].as_ref().map(Message::kind).map_err(|d| d.what);
    assert_eq!(what(2), Err(DefectKind::NotAMessage));
    assert_eq!(what(3), Err(DefectKind::Ambiguous));
    assert_eq!(what(4), Err(DefectKind::Batch));

    for line in ["[true]", "[ false]", "[null,\"a\",1.5]"] {
        assert_eq!(refuse(line).what, DefectKind::Batch, "{line}");
    }
}

#[test]
fn what_is_no_batch() {
    for line in [
        "", "[", "[]", "[ ]", "{}", "[1", "[1,]", "[,1]", "[1 2]", "[1]x", "[1}", "[x]", "[{]",
    ] {
        assert!(
            read_batch(&Bytes::from_static(line.as_bytes())).is_none(),
            "{line}"
        );
        if line.starts_with('[') {
            assert_eq!(refuse(line).what, DefectKind::NotAMessage, "{line}");
        }
    }
    let deep = format!("[{}{}]", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
    assert_eq!(refuse(&deep).what, DefectKind::TooDeep);
    assert!(read_batch(&deep.into()).is_none());
}
