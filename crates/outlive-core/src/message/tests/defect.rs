//! Lines that are no messages, and what is known of them all the same.

use super::*;

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
    ] {
        let d = refuse(line);
        assert_eq!(d.what, DefectKind::NotAMessage, "{line}");
        assert!(d.looks_like_rpc && d.id.is_none());
        assert_eq!(
            d.detail,
            "a response whose id is neither a string nor a number"
        );
    }
    let d = refuse(r#"{"jsonrpc":"2.0"}"#);
    assert_eq!(d.what, DefectKind::NotAMessage);
    assert!(d.looks_like_rpc && d.id.is_none());
    assert_eq!(d.detail, "JSON, but no JSON-RPC message");
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
    for line in ["Content-Type: 97", "Content-Length"] {
        assert_eq!(refuse(line).detail, "not a JSON object", "{line}");
    }
}

#[test]
fn a_line_may_be_as_long_as_positions_are_kept() {
    assert!(can_be_read(MAX_LEN));
    assert!(!can_be_read(MAX_LEN + 1));
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
        r#"{"id":1,"result":1]"#,
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
fn a_byte_that_is_not_utf8_is_found_behind_anything() {
    // A scalar is stepped over without a look at it, however long it is.
    for x in (0..400).map(|len| "x".repeat(len)) {
        let before = format!(r#"{{"id":1,"result":0,"a":"{x}","b":{x}"#);
        let d = refuse([before.as_bytes(), b"\xff}"].concat());
        assert_eq!(
            (d.what, d.id),
            (DefectKind::NotUtf8, Some(Id::Int(1))),
            "{x}"
        );
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
