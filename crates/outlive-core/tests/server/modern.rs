//! The revision without a handshake: every request says who sends it.

use outlive_core::protocol::Era;
use outlive_core::server::Level;
use serde_json::{Value, json};

use crate::pair::*;

fn with_meta(id: u64, method: &str, meta: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"name":"a","_meta":{meta}}}}}"#
    )
}

const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
const NOTHING: &str = r#""io.modelcontextprotocol/clientCapabilities":{}"#;

#[test]
fn a_server_is_discovered() {
    let mut p = Pair::modern_with(|policy| policy.instructions = Some(r#""hi""#.into()));
    p.client(&modern_request(0, "server/discover", ""));
    let capabilities: Value = serde_json::from_str(CAPABILITIES).expect("JSON");
    assert_eq!(
        p.reply(),
        json!({"jsonrpc": "2.0", "id": 0, "result": {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "instructions": "hi",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
        }})
    );
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn a_request_is_served_without_a_handshake() {
    let mut p = Pair::modern();
    p.client(&modern_request(1, "tools/call", r#""name":"a","#));
    let (ticket, request) = p.started().remove(0);
    assert_eq!(request.era, Era::Modern);
    assert_eq!(&*request.peer.version, "2026-07-28");
    assert_eq!(
        request.peer.info.as_deref(),
        Some(br#"{"name":"c","version":"1"}"#.as_slice())
    );
    assert_eq!(
        request.peer.capabilities,
        r#"{"elicitation":{},"roots":{},"sampling":{}}"#
    );
    assert_eq!(request.log_level, None);
    p.answer(ticket, r#"{"content":[]}"#);
    assert_eq!(
        p.sent(),
        [result(
            1,
            &format!(
                r#"{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/serverInfo":{INFO}}},"content":[]}}"#
            )
        )]
    );
}

#[test]
fn lists_carry_caching_hints() {
    let mut p = Pair::modern();
    p.client(&modern_request(1, "tools/list", ""));
    let ticket = p.started()[0].0;
    p.answer(ticket, r#"{"tools":[]}"#);
    let result = &p.reply()["result"];
    assert_eq!(
        (&result["ttlMs"], &result["cacheScope"]),
        (&json!(0), &json!("private"))
    );
}

#[test]
fn both_eras_share_a_connection() {
    let mut p = Pair::ready();
    let legacy = p.call(1, "a");
    let modern = p.modern_call(2, "a");
    let eras: Vec<_> = p.started().iter().map(|(_, r)| r.era).collect();
    assert_eq!(eras, [Era::Legacy, Era::Modern]);
    p.answer(legacy, "{}");
    assert_eq!(
        p.sent(),
        [result(1, "{}")],
        "a legacy answer is left as it is"
    );
    p.answer(modern, "{}");
    assert_eq!(p.reply()["result"]["resultType"], "complete");
}

#[test]
fn a_version_we_do_not_speak_is_refused_with_those_we_do() {
    let mut p = Pair::modern();
    for method in ["tools/call", "server/discover", "unheard/of"] {
        p.client(&with_meta(
            1,
            method,
            r#"{"io.modelcontextprotocol/protocolVersion":"v999.0.0"}"#,
        ));
        let failure = p.failure();
        assert_eq!(failure.code, -32022);
        assert_eq!(failure.message, "Unsupported protocol version");
        assert_eq!(
            failure.data,
            json!({"supported": ["2026-07-28"], "requested": "v999.0.0"})
        );
    }
}

#[test]
fn metadata_that_lacks_something_is_refused() {
    let mut p = Pair::modern();
    let capabilities = "its `_meta` lacks the object `io.modelcontextprotocol/clientCapabilities`";
    let level = "the log level in its `_meta` is none";
    for (meta, words) in [
        (format!("{{{VERSION}}}"), capabilities),
        (
            format!(r#"{{{VERSION},"io.modelcontextprotocol/clientCapabilities":[]}}"#),
            capabilities,
        ),
        (
            r#"{"io.modelcontextprotocol/protocolVersion":7}"#.to_string(),
            "the protocol version in its `_meta` is not a string",
        ),
        (
            format!(r#"{{{VERSION},{NOTHING},"io.modelcontextprotocol/logLevel":"loud"}}"#),
            level,
        ),
        (
            format!(r#"{{{VERSION},{NOTHING},"io.modelcontextprotocol/logLevel":7}}"#),
            level,
        ),
        (
            format!(r#"{{{VERSION},{VERSION},{NOTHING}}}"#),
            "its `_meta` cannot be read",
        ),
    ] {
        p.client(&with_meta(1, "tools/call", &meta));
        let failure = p.failure();
        assert_eq!(failure.code, -32602, "{meta}");
        assert_eq!(
            failure.message,
            format!("The request was not executed: {words}.")
        );
    }
    p.client(&with_meta(
        1,
        "tools/call",
        &format!("{{{VERSION},{NOTHING}}}"),
    ));
    let (_, request) = p.started().remove(0);
    assert_eq!(request.peer.info, None, "a client need not name itself");
}

#[test]
fn every_request_speaks_for_itself() {
    let mut p = Pair::modern();
    let level = r#""io.modelcontextprotocol/logLevel":"debug""#;
    let metas = [
        format!("{{{VERSION},{NOTHING},{level}}}"),
        format!("{{{VERSION},{NOTHING}}}"),
        format!("{{{VERSION},{NOTHING}}}"),
        format!(r#"{{{VERSION},"io.modelcontextprotocol/clientCapabilities":{{"roots":{{}}}}}}"#),
    ];
    for (id, meta) in metas.iter().enumerate() {
        p.client(&with_meta(id as u64, "tools/call", meta));
    }
    let said: Vec<_> = p
        .started()
        .into_iter()
        .map(|(_, r)| (r.log_level, r.peer.capabilities.clone()))
        .collect();
    assert_eq!(
        said,
        [
            (Some(Level::Debug), "{}".into()),
            (None, "{}".into()),
            (None, "{}".into()),
            (None, r#"{"roots":{}}"#.into())
        ]
    );
}

#[test]
fn what_the_revision_has_done_away_with_does_not_exist() {
    let mut p = Pair::ready();
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "unheard/of",
    ] {
        p.client(&modern_request(1, method, r#""uri":"u","level":"info","#));
        assert_eq!(p.failure().code, -32601, "{method}");
    }
    assert_eq!(p.server.log_level(), None);
    let mut p = Pair::ready_with(|policy| {
        policy.capabilities = "{}".into();
        policy.methods.insert("logging/setLevel".into());
    });
    p.client(&request(1, "logging/setLevel"));
    assert_eq!(p.started().len(), 1, "an earlier revision has it");
    p.client(&modern_request(2, "logging/setLevel", ""));
    assert_eq!(p.failure().code, -32601);
}

#[test]
fn modern_methods_without_metadata_are_refused() {
    let mut p = Pair::ready();
    for method in ["server/discover", "subscriptions/listen"] {
        p.client(&request(1, method));
        assert_eq!(p.failure().code, -32602, "{method}");
    }
}
