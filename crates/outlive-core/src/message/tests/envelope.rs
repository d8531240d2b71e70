//! Lines that are messages, and what is found in them.

use super::*;

#[test]
fn a_request() {
    let m = read(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}"#);
    assert_eq!(m.kind(), Kind::Request);
    assert_eq!(m.id(), Some(&Id::Int(7)));
    assert_eq!(m.id_json(), b"7");
    assert_eq!(m.method(), "tools/call");
    assert!(m.is("tools/call"));
    assert!(!m.is("tools/cal"));
    assert_eq!(m.params(), Some(&br#"{"name":"add"}"#[..]));
    assert_eq!(m.name().as_deref(), Some("add"));
    assert_eq!((m.result(), m.error(), m.is_error()), (None, None, false));
    assert_eq!(&m.clone().into_bytes(), m.bytes());
}

#[test]
fn a_notification() {
    let m = read(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(m.kind(), Kind::Notification);
    assert_eq!(m.id(), None);
    assert_eq!(m.id_json(), b"null");
    assert!(m.is("notifications/initialized"));
    assert_eq!(m.params(), None);
}

#[test]
fn responses() {
    let m = read(r#"{"jsonrpc":"2.0","id":"a","result":{"x":1}}"#);
    assert_eq!(m.kind(), Kind::Response);
    assert_eq!(m.id(), Some(&Id::text("a")));
    assert_eq!(m.id_json(), br#""a""#);
    assert_eq!(m.method(), "");
    assert!(!m.is(""));
    assert!(!m.is_error());
    assert_eq!(m.result(), Some(&br#"{"x":1}"#[..]));

    let m = read(r#"{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}}"#);
    assert_eq!(m.kind(), Kind::Response);
    assert_eq!(m.id(), Some(&Id::Int(0)));
    assert!(m.is_error());
    assert_eq!(m.error(), Some(&br#"{"code":1,"message":"no"}"#[..]));

    // Only responses are errors.
    assert!(!read(r#"{"id":1,"method":"m","error":{}}"#).is_error());
    // A result may be anything, even null.
    assert_eq!(
        read(r#"{"id":1,"result":null}"#).result(),
        Some(&b"null"[..])
    );
}

#[test]
fn an_error_may_answer_nothing_in_particular() {
    for line in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700}}"#,
    ] {
        let m = read(line);
        assert_eq!(m.kind(), Kind::Response);
        assert_eq!(m.id(), Some(&Id::Null));
        assert_eq!(m.id_json(), b"null");
    }
}

#[test]
fn the_order_of_keys_does_not_matter() {
    let m = read(r#"{"params":{"name":"x"},"method":"tools/call","jsonrpc":"2.0","id":3}"#);
    assert_eq!(m.kind(), Kind::Request);
    assert_eq!(m.id(), Some(&Id::Int(3)));
    assert_eq!(m.name().as_deref(), Some("x"));
}

#[test]
fn look_alikes_inside_the_payload_are_payload() {
    let m = read(
        r#"{"id":1,"result":{"id":2,"method":"x","error":{},"s":"\",\"id\":3,\"method\":\"y\"","t":["id",{"id":4}]}}"#,
    );
    assert_eq!(m.kind(), Kind::Response);
    assert_eq!(m.id(), Some(&Id::Int(1)));
    assert!(!m.is_error());

    let m = read(
        r#"{"id":1,"method":"m","params":{"arguments":{"name":"no","_meta":{"progressToken":1},"requestId":1},"list":[{"uri":"no"}]}}"#,
    );
    assert_eq!(m.name(), None);
    assert_eq!(m.uri(), None);
    assert_eq!(m.meta(), None);
    assert_eq!(m.meta_progress_token(), None);
    assert_eq!(m.request_id(), None);
}

#[test]
fn a_string_may_end_in_backslashes() {
    let m = read(r#"{"id":1,"x":"\\","method":"a","y":"\\\"","params":{"name":"\\\\"}}"#);
    assert_eq!(m.method(), "a");
    assert_eq!(m.name().as_deref(), Some(r"\\"));
}

#[test]
fn keys_and_methods_may_be_written_with_escapes() {
    let m =
        read(r#"{"\u0069d":5,"\u006dethod":"tools\/call","p\u0061rams":{"n\u0061me":"\u0061"}}"#);
    assert_eq!(m.id(), Some(&Id::Int(5)));
    assert_eq!(m.method(), "tools/call");
    assert!(m.is("tools/call"));
    assert_eq!(m.name().as_deref(), Some("a"));
    // A key with a broken escape is nobody's.
    assert_eq!(
        read(r#"{"\ud800":1,"id":5,"result":1}"#).id(),
        Some(&Id::Int(5))
    );
}

#[test]
fn the_last_of_a_repeated_key_wins_with_all_below_it() {
    let m = read(
        r#"{"id":1,"method":"a","params":{"name":"x","uri":"u","_meta":{"progressToken":1}},"id":2,"method":"b","params":{"name":"y"}}"#,
    );
    assert_eq!(m.id(), Some(&Id::Int(2)));
    assert_eq!(m.method(), "b");
    assert_eq!(m.name().as_deref(), Some("y"));
    assert_eq!(m.uri(), None);
    assert_eq!(m.meta(), None);
    assert_eq!(m.meta_progress_token(), None);

    let m = read(r#"{"id":1,"method":"a","params":{"_meta":{"progressToken":1},"_meta":{}}}"#);
    assert_eq!(m.meta(), Some(&b"{}"[..]));
    assert_eq!(m.meta_progress_token(), None);

    let m = read(r#"{"id":1,"method":"a","params":{"name":"x"},"params":[]}"#);
    assert_eq!(m.params(), Some(&b"[]"[..]));
    assert_eq!(m.name(), None);

    assert_eq!(refuse(r#"{"id":1,"method":"a","id":{}}"#).id, None);
}

#[test]
fn the_fields_of_params() {
    let m = read(concat!(
        r#"{"jsonrpc":"2.0","method":"x","params":{"requestId":"r","progressToken":1.5,"name":"n","uri":"a:\/b","#,
        r#""level":"info","cursor":"c","task":{"ttl":1},"_meta":{"progressToken":"t","#,
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/subscriptionId":9}}}"#
    ));
    assert_eq!(m.request_id(), Some(Id::text("r")));
    assert_eq!(m.progress_token(), Some(Id::Number("1.5".into())));
    assert_eq!(m.name().as_deref(), Some("n"));
    assert_eq!(m.uri().as_deref(), Some("a:/b"));
    assert_eq!(m.level().as_deref(), Some("info"));
    assert!(m.cursor() && m.has_task() && m.is_modern());
    assert_eq!(m.meta_progress_token(), Some(Id::text("t")));
    assert_eq!(m.subscription_id(), Some(Id::Int(9)));
}

#[test]
fn fields_of_the_wrong_type_are_not_there() {
    let m = read(
        r#"{"id":1,"method":"x","params":{"requestId":null,"progressToken":{},"name":1,"uri":null,"level":[],"cursor":null,"task":true,"_meta":7}}"#,
    );
    assert_eq!(m.request_id(), None);
    assert_eq!(m.progress_token(), None);
    assert_eq!((m.name(), m.uri(), m.level()), (None, None, None));
    assert!(!m.cursor() && !m.has_task() && !m.is_modern());
    assert_eq!(m.meta(), Some(&b"7"[..]));

    let m = read(r#"{"id":1,"method":"x","params":{"_meta":{"progressToken":null}}}"#);
    assert_eq!(m.meta_progress_token(), None);
    let m = read(r#"{"id":1,"method":"x"}"#);
    assert!(m.name().is_none() && m.request_id().is_none() && m.meta().is_none());
}

#[test]
fn the_subscription_of_a_response_is_in_its_result() {
    let line =
        r#"{"id":1,"result":{"a":[],"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}"#;
    assert_eq!(read(line).subscription_id(), Some(Id::text("s")));
    let line =
        r#"{"id":1,"result":[],"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}"#;
    assert_eq!(read(line).subscription_id(), None);
    let line = r#"{"id":1,"method":"m","result":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s"}}}"#;
    assert_eq!(read(line).subscription_id(), None);
}

#[test]
fn white_space_is_dropped_around_and_kept_within() {
    let m = read("\t {\r \"id\" :\t1 , \"method\" : \"x\" , \"params\" : { } }\r\r");
    assert_eq!(
        &m.bytes()[..],
        b"{\r \"id\" :\t1 , \"method\" : \"x\" , \"params\" : { } }"
    );
    assert_eq!(m.id_json(), b"1");
    assert_eq!(m.params(), Some(&b"{ }"[..]));
}

#[test]
fn payloads_are_not_judged() {
    // Python writes NaN; control characters and odd escapes are the receiver's business.
    let m = read("{\"id\":1,\"result\":{\"x\":NaN,\"y\":[Infinity,,],\"z\":\"\t\\q\"}}");
    assert_eq!(
        m.result(),
        Some(&b"{\"x\":NaN,\"y\":[Infinity,,],\"z\":\"\t\\q\"}"[..])
    );
}
