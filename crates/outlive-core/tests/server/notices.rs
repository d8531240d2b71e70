//! Progress, log messages and other notifications: only while somebody wants them (FM-62).

use outlive_core::server::{Input, Level, Ticket};
use serde_json::json;

use crate::pair::*;

fn progress(
    p: &mut Pair,
    ticket: Ticket,
    progress: f64,
    total: Option<f64>,
    message: Option<&str>,
) {
    p.feed(Input::Progress {
        ticket,
        progress,
        total,
        message: message.map(Into::into),
    });
}

fn call_with_token(p: &mut Pair, token: &str) -> Ticket {
    p.client(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a","_meta":{{"progressToken":{token}}}}}}}"#
    ));
    p.forget();
    p.newest()
}

#[test]
fn progress_is_told_under_the_clients_token_and_only_upwards() {
    let mut p = Pair::ready();
    let ticket = call_with_token(&mut p, r#""t\n""#);
    let told = |params: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"t\n",{params}}}}}"#
        )
    };
    progress(&mut p, ticket, 0.0, None, None);
    progress(&mut p, ticket, 0.5, Some(100.0), Some("half \"way\""));
    assert_eq!(
        p.sent(),
        [
            told(r#""progress":0"#),
            told(r#""message":"half \"way\"","progress":0.5,"total":100"#)
        ]
    );
    progress(&mut p, ticket, 0.5, None, None);
    progress(&mut p, ticket, 0.25, None, None);
    progress(&mut p, ticket, f64::NAN, None, None);
    progress(&mut p, ticket, f64::INFINITY, None, None);
    assert_eq!(p.all(), [""; 0]);
    progress(&mut p, ticket, 1.0, Some(f64::NAN), None);
    progress(&mut p, ticket, 1e300, Some(-2.0), None);
    assert_eq!(
        p.sent(),
        [
            told(r#""progress":1"#),
            told(r#""progress":1e+300,"total":-2"#)
        ]
    );
}

#[test]
fn progress_nobody_asked_for_or_waits_for_is_not_told() {
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    p.forget();
    progress(&mut p, ticket, 1.0, None, None);
    assert_eq!(p.all(), [""; 0]);
    p.answer(ticket, "{}");
    p.forget();
    progress(&mut p, ticket, 2.0, None, None);
    assert_eq!(p.all(), ["dropped late_progress"]);
    let ticket = call_with_token(&mut p, "7");
    p.cancel(1);
    p.forget();
    progress(&mut p, ticket, 1.0, None, None);
    assert_eq!(p.all(), ["dropped late_progress"]);
}

fn log(p: &mut Pair, within: Option<Ticket>, level: Level) -> usize {
    p.forget();
    p.feed(Input::Log {
        within,
        level,
        logger: Some("l".into()),
        data: "{\"a\":\n1}".into(),
    });
    p.sent().len()
}

#[test]
fn a_log_message_has_a_level_a_logger_and_data() {
    let mut p = Pair::ready();
    log(&mut p, None, Level::Error);
    p.feed(Input::Log {
        within: None,
        level: Level::Emergency,
        logger: None,
        data: r#""x""#.into(),
    });
    assert_eq!(
        p.reply(),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "emergency", "data": "x"}})
    );
    p.feed(Input::Log {
        within: None,
        level: Level::Error,
        logger: Some("l\"".into()),
        data: "{\"a\":\n1}".into(),
    });
    assert_eq!(
        p.sent(),
        [
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","logger":"l\"","data":{"a": 1}}}"#
        ]
    );
}

#[test]
fn a_legacy_client_hears_what_is_severe_enough() {
    let mut p = Pair::ready();
    let heard = |p: &mut Pair| Level::ALL.map(|level| log(p, None, level));
    assert_eq!(
        heard(&mut p),
        [0, 1, 1, 1, 1, 1, 1, 1],
        "from info up, unless told"
    );
    for (n, level) in Level::ALL.into_iter().enumerate() {
        p.client(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{{"level":"{}"}}}}"#,
            level.as_str()
        ));
        let mut expected = [1; 8];
        expected[..n].fill(0);
        assert_eq!(heard(&mut p), expected, "{level:?}");
    }
}

#[test]
fn log_messages_need_a_client_the_capability_and_a_request_that_is_waited_for() {
    let mut p = Pair::new(policy());
    assert_eq!(log(&mut p, None, Level::Emergency), 0);
    let mut p = Pair::ready_with(|policy| policy.capabilities = "{}".into());
    assert_eq!(log(&mut p, None, Level::Emergency), 0);
    let mut p = Pair::ready();
    let ticket = p.call(1, "a");
    assert_eq!(log(&mut p, Some(ticket), Level::Info), 1);
    p.answer(ticket, "{}");
    assert_eq!(log(&mut p, Some(ticket), Level::Info), 0);
}

/// 2026-07-28: none for a request that has not asked for it, and none out of the blue.
#[test]
fn a_modern_client_hears_what_its_request_asked_for() {
    let mut p = Pair::modern();
    let plain = p.modern_call(1, "a");
    assert_eq!(log(&mut p, Some(plain), Level::Emergency), 0);
    assert_eq!(log(&mut p, None, Level::Emergency), 0);
    let loud = modern_request(2, "tools/call", r#""name":"a","#).replace(
        r#""_meta":{"#,
        r#""_meta":{"io.modelcontextprotocol/logLevel":"warning","#,
    );
    p.client(&loud);
    let ticket = p.newest();
    assert_eq!(log(&mut p, Some(ticket), Level::Notice), 0);
    assert_eq!(log(&mut p, Some(ticket), Level::Warning), 1);
    p.cancel(2);
    assert_eq!(log(&mut p, Some(ticket), Level::Warning), 0);
}

#[test]
fn other_notifications_are_sent_while_somebody_hears_them() {
    let mut p = Pair::modern();
    let notify = |p: &mut Pair, within| {
        p.forget();
        p.feed(Input::Notify {
            within,
            method: "notifications/x".into(),
            params: r#"{"a":1}"#.into(),
        });
        p.sent()
    };
    assert_eq!(notify(&mut p, None), [""; 0]);
    let line = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}"#;
    let ticket = p.modern_call(1, "a");
    assert_eq!(notify(&mut p, Some(ticket)), [line]);
    p.answer(ticket, "{}");
    assert_eq!(notify(&mut p, Some(ticket)), [""; 0]);
    assert_eq!(p.all(), ["dropped late_progress"]);
    let mut p = Pair::ready();
    assert_eq!(notify(&mut p, None), [line]);
}
