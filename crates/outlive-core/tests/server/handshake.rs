//! `initialize`: once, with a version both speak (FM-47).

use outlive_core::server::ServerEvent;
use serde_json::json;

use crate::pair::*;

fn agreed(version: &str) -> String {
    let mut p = Pair::new(policy());
    p.client(&initialize(0, version));
    p.reply()["result"]["protocolVersion"]
        .as_str()
        .expect("a version")
        .to_string()
}

#[test]
fn the_clients_version_is_taken_if_we_speak_it_and_our_newest_otherwise() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        assert_eq!(agreed(version), version);
    }
    for version in ["2026-07-28", "1900-01-01", "", "2025-11-26"] {
        assert_eq!(agreed(version), "2025-11-25");
    }
}

#[test]
fn the_server_introduces_itself() {
    let mut p = Pair::new(policy());
    p.client(&initialize(0, "2025-06-18"));
    assert_eq!(
        p.sent(),
        [result(
            0,
            &format!(
                r#"{{"protocolVersion":"2025-06-18","capabilities":{CAPABILITIES},"serverInfo":{INFO}}}"#
            )
        )]
    );
    assert_eq!(
        p.events(),
        [ServerEvent::Connected {
            client: Some("c 1".into()),
            version: "2025-06-18".into()
        }]
    );
    let mut told = policy();
    told.instructions = Some(r#""be \"kind\"""#.into());
    let mut p = Pair::new(told);
    p.client(&initialize(0, "2025-06-18"));
    assert_eq!(p.reply()["result"]["instructions"], "be \"kind\"");
}

#[test]
fn a_client_that_tells_little_is_served() {
    for params in [
        "",
        r#","params":{}"#,
        r#","params":[]"#,
        r#","params":{"protocolVersion":7}"#,
    ] {
        let mut p = Pair::new(policy());
        p.client(&format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize"{params}}}"#
        ));
        assert_eq!(p.reply()["result"]["protocolVersion"], "2025-11-25");
        assert_eq!(
            p.events(),
            [ServerEvent::Connected {
                client: None,
                version: "2025-11-25".into()
            }]
        );
        p.call(1, "a");
        let (_, request) = p.started().remove(0);
        assert_eq!(request.peer.capabilities, "{}");
        assert_eq!(request.peer.info, None);
    }
}

#[test]
fn requests_are_taken_without_the_initialized_notification() {
    let mut p = Pair::new(policy());
    p.client(&initialize(0, "2025-11-25"));
    p.forget();
    p.call(1, "a");
    assert_eq!(p.orders(), ["start 0"]);
}

#[test]
fn a_request_before_the_handshake_is_refused_and_a_ping_is_answered() {
    let mut p = Pair::new(policy());
    p.client(&request(1, "ping"));
    assert_eq!(p.sent(), [result(1, "{}")]);
    for method in [
        "tools/call",
        "unheard/of",
        "server/discover",
        "logging/setLevel",
    ] {
        p.client(&request(2, method));
        let failure = p.failure();
        assert_eq!((failure.id, failure.code), (2.into(), -32602));
        assert_eq!(
            failure.message,
            format!(
                "{method} was not executed: the connection is not initialized. Send `initialize` first, or name a \
                 protocol version and the client's capabilities in `params._meta` of each request (2026-07-28)."
            )
        );
    }
    p.forget();
    p.client(&initialize(3, "2025-11-25"));
    assert_eq!(p.reply()["id"], 3, "nothing is lost");
}

#[test]
fn a_second_initialize_is_refused_and_the_connection_goes_on() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.forget();
    p.client(&initialize(2, "2024-11-05"));
    let failure = p.failure();
    assert_eq!((failure.code, failure.kind()), (-32600, "protocol"));
    assert_eq!(
        failure.message,
        "The request was not executed: this connection is initialized already, and goes on as it is."
    );
    p.forget();
    p.answer(ticket, "{}");
    p.client(&call(3, "b"));
    assert_eq!(p.started()[0].1.peer.version, "2025-11-25".into());
}

#[test]
fn notifications_of_the_client_are_passed_on() {
    let mut p = Pair::new(policy());
    p.client(INITIALIZED);
    p.client(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    p.client(r#"{"jsonrpc":"2.0","method":"notifications/unheard"}"#);
    assert_eq!(
        p.all(),
        [
            "notified notifications/initialized",
            "notified notifications/roots/list_changed",
            "notified notifications/unheard"
        ]
    );
}

#[test]
fn what_has_no_capability_has_no_method() {
    let mut p = Pair::ready_with(|policy| policy.capabilities = r#"{"tools":{}}"#.into());
    for method in [
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    ] {
        p.client(&request(1, method));
        assert_eq!(p.failure().code, -32601, "{method}");
    }
}

#[test]
fn the_log_level_is_set_and_told_to_handlers() {
    let mut p = Pair::ready();
    assert_eq!(p.server.log_level(), None);
    let set = |level: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{{"level":{level}}}}}"#
        )
    };
    p.client(&set(r#""warning""#));
    assert_eq!(p.sent(), [result(1, "{}")]);
    assert_eq!(
        p.server.log_level(),
        Some(outlive_core::server::Level::Warning)
    );
    for level in [r#""loud""#, "null", "7"] {
        p.client(&set(level));
        let failure = p.failure();
        assert_eq!(failure.code, -32602);
        assert_eq!(
            failure.message,
            "`level` must be one of debug, info, notice, warning, error, critical, alert, emergency."
        );
        assert_eq!(failure.data, json!(null));
    }
    p.call(2, "a");
    assert_eq!(
        p.started()[0].1.log_level,
        Some(outlive_core::server::Level::Warning)
    );
}
