//! Messages of our own.

use proptest::prelude::*;

use super::super::arbitrary::line;
use super::*;

/// What is known of a message.
fn known(it: &Message) -> impl PartialEq + std::fmt::Debug + '_ {
    let tokens = (
        it.meta_progress_token(),
        it.progress_token(),
        it.request_id(),
    );
    let parts = (it.params(), it.result(), it.error(), it.meta());
    let ids = (it.id(), it.id_json(), it.subscription_id());
    (
        it.kind(),
        ids,
        it.method(),
        it.name(),
        parts,
        tokens,
        it.has_task(),
    )
}

fn as_read(message: &Message, line: &str) {
    assert_eq!(message.bytes(), line);
    let read = read(line);
    assert_eq!(known(message), known(&read));
    for id in ["1", "\"a longer id\""] {
        let renamed = message.clone().with_id(id.as_bytes());
        let read = read.clone().with_id(id.as_bytes());
        assert_eq!(known(&renamed), known(&read));
    }
}

#[test]
fn what_we_write_is_known_as_if_it_were_read() {
    let meta = r#""_meta":{"progressToken":"t","io.modelcontextprotocol/subscriptionId":7}"#;
    let params = format!(r#"{{"task":{{}},"requestId":4,{meta},"progressToken":"p"}}"#);
    as_read(
        &Message::request(b"12", "tools/call", params.as_bytes()),
        &format!(r#"{{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{params}}}"#),
    );
    as_read(
        &Message::request(b"\"x\"", "m", b""),
        r#"{"jsonrpc":"2.0","id":"x","method":"m"}"#,
    );
    as_read(
        &Message::notification("a\"b", params.as_bytes()),
        &format!(r#"{{"jsonrpc":"2.0","method":"a\"b","params":{params}}}"#),
    );
    as_read(
        &Message::response(b"1", params.as_bytes()),
        &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{params}}}"#),
    );
    as_read(
        &Message::failure(b"null", br#"{"code":1}"#),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#,
    );
    as_read(
        &Message::failure(b"", br#"{"code":1}"#),
        r#"{"jsonrpc":"2.0","error":{"code":1}}"#,
    );
}

#[test]
fn it_is_one_line() {
    assert_eq!(
        Message::notification("m", b"{\n}").bytes(),
        r#"{"jsonrpc":"2.0","method":"m","params":{ }}"#
    );
    assert_eq!(
        Message::response(b"1", b"{\n\"a\":\n1\n}").bytes(),
        r#"{"jsonrpc":"2.0","id":1,"result":{ "a": 1 }}"#
    );
    assert_eq!(
        Message::failure(b"1", b"{\n}").bytes(),
        r#"{"jsonrpc":"2.0","id":1,"error":{ }}"#
    );
}

#[test]
fn another_result_changes_nothing_else() {
    let meta = r#""_meta":{"io.modelcontextprotocol/subscriptionId":7}"#;
    let line = |result: &str| format!(r#"{{"result":{result}, "id" : 1,"jsonrpc":"2.0"}}"#);
    let old = read(&line(&format!(r#"{{"a":[1,2,3],{meta}}}"#)));
    for result in [
        format!("{{{meta}}}"),
        "{}".into(),
        format!(r#"{{"b":"longer than before",{meta},"c":1}}"#),
    ] {
        as_read(&old.clone().with_result(result.as_bytes()), &line(&result));
    }
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
    as_read(&read(request).with_result(b"{}"), request);
}

proptest! {
    #[test]
    fn whatever_we_write_is_known_as_if_it_were_read(line in line()) {
        let Ok(m) = Message::read(line.into()) else { return Ok(()) };
        let id: Vec<u8> = match m.id() {
            Some(Id::Null) | None => Vec::new(),
            Some(_) => m.id_json().to_vec(),
        };
        let ours = match (m.kind(), m.error()) {
            (Kind::Request, _) => Message::request(&id, m.method(), m.params().unwrap_or_default()),
            (Kind::Notification, _) => Message::notification(m.method(), m.params().unwrap_or_default()),
            (Kind::Response, Some(error)) => Message::failure(&id, error),
            (Kind::Response, None) => Message::response(&id, m.result().unwrap_or_default()),
        };
        let read = Message::read(ours.bytes().clone()).expect("a message");
        prop_assert_eq!(known(&ours), known(&read));
        prop_assert_eq!(ours.method(), m.method());
        let renamed = ours.clone().with_id(b"\"another\"").with_meta_progress_token(b"77");
        let read = Message::read(renamed.bytes().clone()).expect("a message");
        prop_assert_eq!(known(&renamed), known(&read));
    }
}
