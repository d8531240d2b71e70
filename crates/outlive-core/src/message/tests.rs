use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;

use super::arbitrary::{id_json, line};
use super::*;

fn read(line: &str) -> Message {
    Message::read(Bytes::copy_from_slice(line.as_bytes()))
        .unwrap_or_else(|d| panic!("{line}: {d:?}"))
}

fn refuse(line: impl AsRef<[u8]>) -> Defect {
    match Message::read(Bytes::copy_from_slice(line.as_ref())) {
        Ok(message) => panic!("accepted: {message:?}"),
        Err(defect) => defect,
    }
}

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

#[test]
fn requests_that_cannot_be_answered_are_ambiguous() {
    for id in ["null", "{}", "[1]", "true", "01", r#""\ud800""#] {
        let d = refuse(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"x"}}"#));
        assert_eq!(d.what, DefectKind::Ambiguous, "{id}");
        assert!(d.has_method && d.looks_like_rpc);
        assert_eq!((d.id, &d.id_json[..]), (None, &b""[..]));
    }
    for method in ["null", "1", "{}", r#""\ud800""#] {
        let d = refuse(format!(r#"{{"jsonrpc":"2.0","id":1,"method":{method}}}"#));
        assert_eq!(d.what, DefectKind::Ambiguous, "{method}");
        assert!(d.has_method);
        assert_eq!((d.id, &d.id_json[..]), (Some(Id::Int(1)), &b"1"[..]));
    }
}

#[test]
fn responses_must_have_a_result_or_an_error() {
    for line in [
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"id":1,"result":{},"error":null}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
    ] {
        let d = refuse(line);
        assert_eq!(d.what, DefectKind::Ambiguous, "{line}");
        assert_eq!((d.id, &d.id_json[..]), (Some(Id::Int(1)), &b"1"[..]));
        assert!(!d.has_method);
    }
    for line in [
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","result":1,"error":{}}"#,
        r#"{"jsonrpc":"2.0"}"#,
    ] {
        let d = refuse(line);
        assert_eq!(d.what, DefectKind::NotAMessage, "{line}");
        assert!(d.looks_like_rpc && d.id.is_none());
    }
}

#[test]
fn log_records_are_no_messages() {
    for line in [
        r#"{"level":"info","id":5,"msg":"hello"}"#,
        r#"{"method":"GET","path":"/","status":200}"#,
        "{}",
        r#""jsonrpc""#,
        "7",
        "null",
        "Listening on port 3000",
        "[INFO] ready",
        "[INFO]",
        "[12:30:01]",
        "[]",
        "",
        "   ",
        "\0\0",
    ] {
        let d = refuse(line);
        assert_eq!(d.what, DefectKind::NotAMessage, "{line}");
        assert!(!d.looks_like_rpc);
    }
}

#[test]
fn the_framing_of_language_servers_is_named() {
    for line in ["Content-Length: 97", "content-length:97\r"] {
        let d = refuse(line);
        assert_eq!(d.what, DefectKind::NotAMessage);
        assert_eq!(
            d.detail,
            "LSP-style Content-Length framing; MCP over stdio is one JSON message per line"
        );
    }
}

#[test]
fn broken_text_keeps_what_was_read_before() {
    let whole = r#"{"jsonrpc":"2.0","id":17,"method":"x","params":{"a":[1,{"b":"c"}]}}"#;
    for cut in 1..whole.len() {
        let d = refuse(&whole[..cut]);
        assert_eq!(d.what, DefectKind::NotAMessage, "{}", &whole[..cut]);
        assert_eq!(d.looks_like_rpc, cut > r#"{"jsonrpc":"#.len());
        // Not before its comma: `17` may be the start of `170`.
        assert_eq!(
            d.id.is_some(),
            cut >= r#"{"jsonrpc":"2.0","id":17,"#.len(),
            "{cut}"
        );
        assert_eq!(d.id.is_some(), !d.id_json.is_empty());
        assert_eq!(
            d.has_method,
            cut >= r#"{"jsonrpc":"2.0","id":17,"method":"x""#.len()
        );
    }
    assert_eq!(refuse(r#"{"id":17 "#).id, Some(Id::Int(17)));
    for tail in ["}", "]", ",", "x", " {}", "\0"] {
        let d = refuse(format!("{whole}{tail}"));
        assert_eq!(d.what, DefectKind::NotAMessage);
        assert_eq!(d.id, Some(Id::Int(17)));
    }
}

#[test]
fn structure_is_checked() {
    for line in [
        r#"{"id":1,"result":[}"#,
        r#"{"id":1,"result":[{]}}"#,
        r#"{"id":1,"result":{"a":[}]}"#,
        r#"{"id":1,"result":{]}"#,
        r#"{"id":1 "result":1}"#,
        r#"{"id":1,,"result":1}"#,
        r#"{"id":1,"result":1,}"#,
        r#"{,"id":1,"result":1}"#,
        r#"{"id":,"result":1}"#,
        r#"{"id","result":1}"#,
        r#"{"id":1,"result"}"#,
        r#"{"id":1,result:1}"#,
        r#"{"id":1:2,"result":1}"#,
        r#"{"id":1"a","result":1}"#,
        r#"{"id":1]"#,
        r#"{"id":1,"result":[\]}"#,
        r#"{"id":1,"result":["]}"#,
        r#"{"id":1,"method":"x","params":{"a"}}"#,
        r#"{"id":1,"method":"x","params":{"_meta":{"a":}}}"#,
    ] {
        assert_eq!(refuse(line).what, DefectKind::NotAMessage, "{line}");
    }
}

#[test]
fn text_that_is_not_utf8_keeps_its_id() {
    let d = refuse(b"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":\"\xff\",\"id\":\"a\"}");
    assert_eq!(d.what, DefectKind::NotUtf8);
    assert_eq!((d.id, &d.id_json[..]), (Some(Id::text("a")), &b"\"a\""[..]));
    assert!(d.has_method && d.looks_like_rpc);
    assert_eq!(d.detail, "not UTF-8 at byte 40");

    let d = refuse(b"{\"id\":\"\xff\",\"result\":1}");
    assert_eq!((d.what, d.id), (DefectKind::NotUtf8, None));
    assert_eq!(refuse(b"\xff\xfe").what, DefectKind::NotUtf8);
    // Overlong forms, a surrogate, a character cut short.
    for bytes in [&b"\xc0\xaf"[..], b"\xed\xa0\x80", b"\xe2\x82"] {
        let line = [b"{\"id\":1,\"result\":\"", bytes, b"\"}"].concat();
        let d = refuse(line);
        assert_eq!((d.what, d.id), (DefectKind::NotUtf8, Some(Id::Int(1))));
    }
}

#[test]
fn nesting_has_a_limit_and_the_id_is_found_behind_it() {
    let nested = |open: &str, close: &str, depth: usize| {
        let (open, close) = (open.repeat(depth), close.repeat(depth));
        format!(r#"{{"jsonrpc":"2.0","method":"x","params":{open}1{close},"id":1}}"#)
    };
    // The message itself is one level.
    read(&nested("[", "]", MAX_DEPTH - 1));
    read(&nested("{\"a\":", "}", MAX_DEPTH - 1));
    for line in [
        nested("[", "]", MAX_DEPTH),
        nested("{\"a\":", "}", MAX_DEPTH),
        nested("[{\"a\":", "}]", 100_000),
    ] {
        let d = refuse(line);
        assert_eq!(d.what, DefectKind::TooDeep);
        assert_eq!((d.id, d.has_method), (Some(Id::Int(1)), true));
    }
    // Objects that were entered and left do not count.
    let deep = ["[", "]"].map(|bracket| bracket.repeat(MAX_DEPTH - 1));
    read(&format!(
        r#"{{"id":1,"method":"x","params":{{"_meta":{{}}}},"result":{{}},"y":{}{}}}"#,
        deep[0], deep[1]
    ));
    // Brackets are matched again once the depth is bearable.
    let d = refuse(nested("[", "]", MAX_DEPTH + 9).replacen("],\"id\"", "},\"id\"", 1));
    assert_eq!(d.what, DefectKind::NotAMessage);
}

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
}

#[test]
fn what_is_no_batch() {
    for line in [
        "", "[", "[]", "[ ]", "{}", "[1", "[1,]", "[,1]", "[1 2]", "[1]x", "[x]", "[{]",
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

#[test]
fn another_id_changes_nothing_else() {
    let m = read(
        r#"{"params":{"requestId":4,"name":"n","_meta":{"progressToken":5}}, "id" : 1 ,"method":"x"}"#,
    );
    let n = m.with_id(br#""outlive-2-1""#);
    assert_eq!(
        &n.bytes()[..],
        br#"{"params":{"requestId":4,"name":"n","_meta":{"progressToken":5}}, "id" : "outlive-2-1" ,"method":"x"}"#
    );
    assert_eq!(n.id(), Some(&Id::text("outlive-2-1")));
    assert_eq!(n.id_json(), br#""outlive-2-1""#);
    assert_eq!((n.method(), n.kind()), ("x", Kind::Request));
    assert_eq!(&n.with_id(b"1").bytes()[..], &m.bytes()[..]);

    let n = m.with_request_id(br#""abc""#);
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
    let line = r#"{"id":1,"result":1}"#;
    assert_eq!(read(line).with_id(b"true").bytes(), line);
    assert_eq!(read(line).with_id(b"").bytes(), line);
}

fn same_id(id: Option<&Id>, value: Option<&Value>) -> bool {
    match (id, value) {
        (Some(Id::Int(n)), Some(Value::Number(v))) => match v.as_i64() {
            Some(v) => v == *n,
            None => v.as_f64() == Some(*n as f64),
        },
        (Some(Id::Number(n)), Some(Value::Number(v))) => v.as_f64() == n.parse().ok(),
        (Some(Id::Text(s)), Some(Value::String(v))) => **s == **v,
        (None, Some(v)) => !v.is_number() && !v.is_string(),
        (None, None) => true,
        _ => false,
    }
}

fn same_json(raw: Option<&[u8]>, value: Option<&Value>) -> bool {
    raw.map(|raw| serde_json::from_slice::<Value>(raw).expect("a value"))
        .as_ref()
        == value
}

/// What the rules say, told from a parsed value.
fn expected(line: &Value) -> Result<Kind, DefectKind> {
    let usable = |id: &Value| id.is_number() || id.is_string();
    let (id, method) = (line.get("id"), line.get("method"));
    match (method, id) {
        (Some(Value::String(_)), Some(id)) if usable(id) => Ok(Kind::Request),
        (Some(Value::String(_)), None) if line.get("jsonrpc").is_some() => Ok(Kind::Notification),
        (Some(Value::String(_)), None) => Err(DefectKind::NotAMessage),
        (Some(_), _) => Err(DefectKind::Ambiguous),
        (None, id) => match (id, line.get("result"), line.get("error")) {
            (Some(id), Some(_), None) | (Some(id), None, Some(_)) if usable(id) => {
                Ok(Kind::Response)
            }
            (None | Some(Value::Null), None, Some(_)) => Ok(Kind::Response),
            (Some(id), Some(_), Some(_)) if usable(id) => Err(DefectKind::Ambiguous),
            (Some(id), None, None) if usable(id) && line.get("jsonrpc").is_some() => {
                Err(DefectKind::Ambiguous)
            }
            _ => Err(DefectKind::NotAMessage),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_envelope_is_what_a_parser_says(
        text in line(),
    ) {
        let value: Value = serde_json::from_str(&text).expect("the writer writes JSON");
        let read = Message::read(Bytes::from(text.clone()));
        prop_assert_eq!(
            read.as_ref().map(Message::kind).map_err(|d| d.what),
            expected(&value).as_ref().copied().map_err(|d| *d),
            "{}", text
        );
        match read {
            Ok(m) => {
                prop_assert_eq!(m.bytes(), text.trim_matches([' ', '\t', '\r']));
                if m.id() != Some(&Id::Null) {
                    prop_assert!(same_id(m.id(), value.get("id")));
                    prop_assert!(m.id().is_none() || same_json(Some(m.id_json()), value.get("id")));
                }
                let method = value.get("method").and_then(Value::as_str).unwrap_or("");
                prop_assert_eq!(m.method(), method);
                prop_assert!(same_json(m.params(), value.get("params")));
                prop_assert!(same_json(m.result(), value.get("result")));
                prop_assert!(same_json(m.error(), value.get("error")));
                let params = value.get("params").and_then(Value::as_object);
                let field = |key: &str| params.and_then(|p| p.get(key));
                prop_assert!(same_id(m.request_id().as_ref(), field("requestId")));
                prop_assert!(same_id(m.progress_token().as_ref(), field("progressToken")));
                for (text, key) in [(m.name(), "name"), (m.uri(), "uri"), (m.level(), "level")] {
                    prop_assert_eq!(text.as_deref(), field(key).and_then(Value::as_str));
                }
                prop_assert_eq!(m.cursor(), field("cursor").is_some_and(|c| !c.is_null()));
                prop_assert_eq!(m.has_task(), field("task").is_some_and(Value::is_object));
                prop_assert!(same_json(m.meta(), field("_meta")));
                let meta = |key: &str| field("_meta").and_then(|m| m.get(key));
                prop_assert!(same_id(m.meta_progress_token().as_ref(), meta("progressToken")));
                let version = meta("io.modelcontextprotocol/protocolVersion");
                prop_assert_eq!(m.is_modern(), version.is_some());
                let part = if m.kind() == Kind::Response { "result" } else { "params" };
                let subscription = value.get(part).and_then(|p| p.get("_meta"))
                    .and_then(|m| m.get("io.modelcontextprotocol/subscriptionId"));
                prop_assert!(same_id(m.subscription_id().as_ref(), subscription));
            }
            Err(defect) => {
                prop_assert!(same_id(defect.id.as_ref(), value.get("id")));
                prop_assert_eq!(defect.has_method, value.get("method").is_some());
                prop_assert_eq!(defect.looks_like_rpc, value.get("jsonrpc").is_some());
                prop_assert_eq!(defect.id.is_some(), !defect.id_json.is_empty());
            }
        }
    }

    #[test]
    fn a_new_id_is_as_if_it_had_been_written(
        text in line(),
        id in id_json(),
    ) {
        let Ok(m) = Message::read(text.into()) else {
            return Ok(());
        };
        for n in [m.with_id(id.as_bytes()), m.with_request_id(id.as_bytes())] {
            // A request must not have a null id, and a response only if it is an error.
            let Ok(again) = Message::read(n.bytes().clone()) else {
                prop_assert_eq!(n.id(), Some(&Id::Null));
                continue;
            };
            prop_assert_eq!(format!("{again:?}"), format!("{n:?}"));
        }
        // There and back again: every other byte is where it was.
        if m.envelope.id.is_some() {
            let back = m.with_id(id.as_bytes()).with_id(m.id_json());
            prop_assert_eq!(back.bytes(), m.bytes());
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(
        prop_oneof![prop::sample::select(&b"{}[]\",:\\ 1idx\xff"[..]), any::<u8>()], 0..60)
    ) {
        let line = Bytes::from(bytes);
        let _ = read_batch(&line);
        if let Ok(m) = Message::read(line) {
            let _ = (m.with_id(b"1"), m.with_request_id(b"1"), m.subscription_id());
        }
    }
}

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
