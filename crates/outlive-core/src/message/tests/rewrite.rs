//! Messages with one field replaced.

use super::*;

#[test]
fn another_id_changes_nothing_else() {
    let m = read(
        r#"{"params":{"requestId":4,"name":"n","_meta":{"progressToken":5}}, "id" : 1 ,"method":"x"}"#,
    );
    let n = m.clone().with_id(br#""outlive-2-1""#);
    assert_eq!(
        &n.bytes()[..],
        br#"{"params":{"requestId":4,"name":"n","_meta":{"progressToken":5}}, "id" : "outlive-2-1" ,"method":"x"}"#
    );
    assert_eq!(n.id(), Some(&Id::text("outlive-2-1")));
    assert_eq!(n.id_json(), br#""outlive-2-1""#);
    assert_eq!((n.method(), n.kind()), ("x", Kind::Request));
    assert_eq!(&n.with_id(b"1").bytes()[..], &m.bytes()[..]);

    let n = m.clone().with_request_id(br#""abc""#);
    assert_eq!(n.request_id(), Some(Id::text("abc")));
    assert_eq!(n.id_json(), b"1");
    assert_eq!(n.name().as_deref(), Some("n"));
    assert_eq!(n.meta_progress_token(), Some(Id::Int(5)));
    assert_eq!(
        n.params(),
        Some(&br#"{"requestId":"abc","name":"n","_meta":{"progressToken":5}}"#[..])
    );
    assert_eq!(n.method(), "x");
}

#[test]
fn another_subscription_changes_nothing_else() {
    let meta = r#""_meta":{"io.modelcontextprotocol/subscriptionId":7,"progressToken":5}"#;
    for line in [
        format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{{meta},"name":"n"}}}}"#),
        format!(r#"{{"result":{{{meta}}},"id":7}}"#),
    ] {
        let m = read(&line).with_subscription_id(br#""abc""#);
        let expected = line.replace(r#"Id":7"#, r#"Id":"abc""#);
        assert_eq!(m.bytes(), &expected);
        assert_eq!(m.subscription_id(), Some(Id::text("abc")));
        assert_eq!(format!("{m:?}"), format!("{:?}", read(&expected)));
    }
}

#[test]
fn another_name_or_uri_changes_nothing_else() {
    let line = concat!(
        r#"{"params":{"name":"early","arguments":{"name":"inner","uri":"x:i"} , "uri" : "x:\u0061","name": "n\"1","#,
        r#""_meta":{"progressToken":5,"name":"meta"}},"id":1,"method":"tools/call"}"#
    );
    let m = read(line);
    for (message, old, new) in [
        (m.clone().with_name(b"\"\""), r#""n\"1""#, "\"\""),
        (
            m.clone().with_name(br#""a longer one""#),
            r#""n\"1""#,
            r#""a longer one""#,
        ),
        (m.clone().with_uri(br#""y:b""#), r#""x:\u0061""#, r#""y:b""#),
    ] {
        let expected = line.replace(old, new);
        assert_eq!(message.bytes(), &expected);
        assert_eq!(format!("{message:?}"), format!("{:?}", read(&expected)));
        assert_eq!(message.meta_progress_token(), Some(Id::Int(5)));
    }
    let ours = Message::request(b"1", "tools/call", br#"{"name":"n"}"#).with_name(br#""longer""#);
    assert_eq!(ours.name().as_deref(), Some("longer"));
    for without in [
        r#"{"id":1,"method":"m"}"#,
        r#"{"id":1,"method":"m","params":[]}"#,
        r#"{"id":1,"result":{"name":"n"}}"#,
    ] {
        let m = read(without).with_name(b"1").with_uri(b"1");
        assert_eq!(m.bytes(), without);
    }
}

#[test]
fn another_reference_changes_nothing_else() {
    let prompt = concat!(
        r#"{"id":1,"method":"completion/complete","params":{"argument":{"name":"a"},"#,
        r#""ref":{"name" : "p" ,"type":"ref/prompt"},"name":"n"}}"#
    );
    let m = read(prompt);
    assert_eq!(m.reference(), Some(Reference::Prompt("p".into())));
    let other = m.clone().with_reference_name(br#""other""#);
    let expected = prompt.replace(r#""p""#, r#""other""#);
    assert_eq!(other.bytes(), &expected);
    assert_eq!(format!("{other:?}"), format!("{:?}", read(&expected)));
    assert_eq!(m.clone().with_reference_uri(b"1"), m, "it has no URI");

    let resource = concat!(
        r#"{"id":1,"method":"completion/complete","#,
        r#""params":{"ref":{"type":"ref/\u0072esource","uri":"x:{a}","name":"q"}}}"#
    );
    let m = read(resource);
    assert_eq!(m.reference(), Some(Reference::Resource("x:{a}".into())));
    let other = m.with_reference_uri(br#""y:{b}""#);
    assert_eq!(other.bytes(), &resource.replace("x:{a}", "y:{b}"));
    assert_eq!(other.reference(), Some(Reference::Resource("y:{b}".into())));
}

#[test]
fn what_is_no_reference() {
    for params in [
        r#"{}"#,
        r#"{"ref":"ref/prompt"}"#,
        r#"{"ref":{"type":"ref/prompt"}}"#,
        r#"{"ref":{"type":"ref/prompt","name":1}}"#,
        r#"{"ref":{"type":"ref/prompt","uri":"u"}}"#,
        r#"{"ref":{"type":"ref/resource","name":"u"}}"#,
        r#"{"ref":{"type":"ref/other","name":"u","uri":"u"}}"#,
        r#"{"ref":{"name":"u"}}"#,
    ] {
        let m = read(&format!(
            r#"{{"id":1,"method":"completion/complete","params":{params}}}"#
        ));
        assert_eq!(m.reference(), None, "{params}");
    }
    let answer = read(r#"{"id":1,"result":{"ref":{"type":"ref/prompt","name":"p"}}}"#);
    assert_eq!(answer.reference(), None);
}

#[test]
fn other_tokens_and_capabilities_change_nothing_else() {
    let line = concat!(
        r#"{"params":{"progressToken":"a","capabilities":{"x":1},"#,
        r#""_meta":{"progressToken" : "\u0062"},"name":"n"},"id":1,"method":"m"}"#
    );
    let m = read(line);
    assert_eq!(m.meta_progress_token_json(), Some(&br#""\u0062""#[..]));
    for (message, old, new) in [
        (m.clone().with_progress_token(b"77"), r#":"a""#, ":77"),
        (m.clone().with_capabilities(b"{}"), r#"{"x":1}"#, "{}"),
        (
            m.clone().with_meta_progress_token(b"77"),
            r#""\u0062""#,
            "77",
        ),
    ] {
        let expected = line.replace(old, new);
        assert_eq!(message.bytes(), &expected);
        assert_eq!(format!("{message:?}"), format!("{:?}", read(&expected)));
    }
}

#[test]
fn an_id_is_given_to_an_error_that_had_none() {
    let m = read(r#"{"jsonrpc":"2.0","error":{"code":1}}"#).with_id(b"12");
    assert_eq!(
        &m.bytes()[..],
        br#"{"id":12,"jsonrpc":"2.0","error":{"code":1}}"#
    );
    assert_eq!((m.id(), m.id_json()), (Some(&Id::Int(12)), &b"12"[..]));
    assert_eq!(m.error(), Some(&br#"{"code":1}"#[..]));
    let m = read(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#).with_id(b"12");
    assert_eq!(&m.bytes()[..], br#"{"jsonrpc":"2.0","id":12,"error":{}}"#);
}

#[test]
fn messages_without_the_field_stay_as_they_are() {
    let line = r#"{"jsonrpc":"2.0","method":"x"}"#;
    assert_eq!(read(line).with_id(b"1").bytes(), line);
    assert_eq!(read(line).with_request_id(b"1").bytes(), line);
    assert_eq!(read(line).with_subscription_id(b"1").bytes(), line);
    assert_eq!(read(line).with_progress_token(b"1").bytes(), line);
    assert_eq!(read(line).with_meta_progress_token(b"1").bytes(), line);
    assert_eq!(read(line).with_capabilities(b"{}").bytes(), line);
    assert_eq!(read(line).meta_progress_token_json(), None);
    let line = r#"{"id":1,"result":1}"#;
    assert_eq!(read(line).with_id(b"true").bytes(), line);
    assert_eq!(read(line).with_id(b"").bytes(), line);
}

#[test]
fn a_message_that_nobody_else_holds_is_renamed_where_it_lies() {
    let payload = "x".repeat(1 << 20);
    let line = format!(r#"{{"jsonrpc":"2.0","id":12345,"result":{{"text":"{payload}"}}}}"#);
    let end = |m: &Message| m.bytes().as_ptr_range().end;
    let m = Message::read(line.clone().into()).expect("a message");
    let lies = end(&m);
    for id in ["12345", "\"ab\"", "7", "8"] {
        let m = Message::read(line.clone().into()).expect("a message");
        let expected = line.replace("12345", id);
        let lies = end(&m);
        let m = m.with_id(id.as_bytes());
        assert!(m.bytes() == &expected && end(&m) == lies, "{id}");
        assert!(format!("{m:?}") == format!("{:?}", read(&expected)), "{id}");
    }
    // Somebody else holds it, or it grows.
    let copied = m.clone().with_id(b"7");
    assert_ne!(end(&copied), lies);
    assert_eq!(
        (m.bytes(), copied.id_json()),
        (&Bytes::from(line), &b"7"[..])
    );
    assert_eq!(m.with_id(b"123456").id_json(), b"123456");
}
