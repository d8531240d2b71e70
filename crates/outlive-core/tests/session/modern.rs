//! Revision 2026-07-28: no handshake, `server/discover`, `subscriptions/listen`.

use std::time::Duration;

use outlive_core::cause::{Exit, StartFailure};
use outlive_core::event::{Direction, DropReason};
use outlive_core::policy::{Cancel, Policy};
use outlive_core::{Event, Input, State};
use serde_json::json;

use crate::pair::*;

fn listen(id: u64) -> String {
    modern_request(
        id,
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:"]},"#,
    )
}

fn acknowledged(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
    )
}

fn own(generation: u64, n: u64, method: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"outlive-{generation}-{n}","method":"{method}","params":{{"_meta":{}}}}}"#,
        sorted_meta()
    )
}

/// The host's identity as we write it: sorted by key.
fn sorted_meta() -> String {
    let meta: serde_json::Value = serde_json::from_str(META).expect("JSON");
    meta.to_string()
}

#[test]
fn a_server_that_dies_of_discover_is_a_legacy_one() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&modern_request(0, "server/discover", ""));
    p.forget();
    p.die(Exit::Code(1));
    let failure = p.failure();
    assert_eq!((failure.code, failure.kind()), (-32601, "unsupported"));
    assert_eq!(
        failure.message,
        "Method not found: server/discover. The server exited with code 1 during the handshake \
         when it was asked; use `initialize`."
    );
    assert_eq!(failure.outcome(), "rejected");
    assert!(
        !p.events().contains(&Event::LegacyOnly),
        "it may lack a key"
    );
    // Only if it starts and takes the handshake is that proven.
    p.up();
    p.host(&INITIALIZE.replace(r#""id":0"#, r#""id":1"#));
    p.forget();
    p.result(1, WELCOME);
    assert!(p.events().contains(&Event::LegacyOnly));
}

#[test]
fn a_server_that_cannot_start_has_not_died_of_discover() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&modern_request(0, "server/discover", ""));
    p.stderr("API_KEY is missing");
    p.die(Exit::Code(1));
    let failure = p.failure();
    assert_eq!(failure.kind(), "unsupported");
    assert!(
        failure
            .message
            .ends_with("outlive): \"API_KEY is missing\""),
        "{}",
        failure.message
    );
    // The host falls back, and that fails too.
    p.up();
    p.host(&INITIALIZE.replace(r#""id":0"#, r#""id":1"#));
    p.die(Exit::Code(1));
    p.advance(1_000);
    p.up();
    p.die(Exit::Code(1));
    assert_eq!(p.failure().kind(), "unavailable");
    // For a moment it is not asked again, in the same words …
    p.host(&modern_request(2, "server/discover", ""));
    assert!(p.failure().message.contains("API_KEY is missing"));
    p.advance(30_000);
    p.up();
    p.forget();
    // … then it is, and has its key.
    p.host(&modern_request(3, "server/discover", ""));
    assert_eq!(p.at_link(), [modern_request(3, "server/discover", "")]);
    p.result(3, DISCOVERED);
    assert_eq!(p.at_host().len(), 1);
    assert!(!p.events().contains(&Event::LegacyOnly));
}

#[test]
fn a_handshake_that_works_after_other_failures_proves_nothing() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&modern_request(0, "server/discover", ""));
    p.die(Exit::Code(1));
    p.up();
    p.die(Exit::Code(1));
    p.advance(1_000);
    p.up();
    p.host(&INITIALIZE.replace(r#""id":0"#, r#""id":1"#));
    p.forget();
    p.result(1, WELCOME);
    assert!(!p.events().contains(&Event::LegacyOnly));
}

#[test]
fn a_server_that_never_read_it_has_not_died_of_it() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&modern_request(0, "server/discover", ""));
    p.die_unread(Exit::Code(1), 1);
    assert_eq!(p.at_host(), [""; 0]);
    p.forget();
    p.up();
    assert_eq!(p.at_link(), [modern_request(0, "server/discover", "")]);
}

/// Like `initialize`: a host that begins with the probe is told at once what it can do nothing about,
/// and after a second attempt what may have been bad luck.
#[test]
fn a_host_that_begins_with_discover_learns_why_no_server_starts() {
    let mut p = Pair::new(Policy::default());
    p.host(&modern_request(0, "server/discover", ""));
    p.forget();
    p.unmade(StartFailure::NotFound);
    let failure = p.failure();
    assert_eq!(failure.kind(), "unavailable");
    assert_eq!(failure.about["cause"]["kind"], "spawn_failed");

    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&modern_request(0, "server/discover", ""));
    p.die_unread(Exit::Code(3), 1);
    p.up();
    p.forget();
    p.die_unread(Exit::Code(3), 1);
    let failure = p.failure();
    assert_eq!(failure.kind(), "unavailable");
    assert_eq!(failure.outcome(), "not_sent");
    assert_eq!(failure.about["cause"]["exit_code"], 3);
}

#[test]
fn a_server_that_ignores_discover_is_taken_for_a_legacy_one() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&modern_request(0, "server/discover", ""));
    p.advance(29_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.forget();
    p.advance(1);
    let failure = p.failure();
    assert_eq!(
        failure.message,
        "Method not found: server/discover. The server did not answer it within 30 s; use \
         `initialize`."
    );
    assert!(
        !p.events().contains(&Event::LegacyOnly),
        "it may have been slow to start"
    );
    p.host(&INITIALIZE.replace(r#""id":0"#, r#""id":1"#));
    p.forget();
    p.result(1, WELCOME);
    assert!(matches!(p.states()[..], [State::Ready { .. }]));
}

#[test]
fn a_server_known_to_die_of_discover_is_not_asked() {
    let mut policy = Policy::default();
    policy.refuse_discover = true;
    let mut p = Pair::new(policy);
    p.up();
    p.host(&modern_request(0, "server/discover", ""));
    let failure = p.failure();
    assert_eq!(
        failure.message,
        "Method not found: server/discover. This server is known not to take it; use `initialize`."
    );
    assert_eq!(p.at_link(), [""; 0]);
    p.host(&modern_request(1, "tools/list", ""));
    p.result(1, TOOLS);
    p.forget();
    p.host(&modern_request(2, "server/discover", ""));
    assert_eq!(p.at_link().len(), 1, "it has shown that it is modern");
}

#[test]
fn discover_has_no_bound_of_its_own_once_an_era_is_known() {
    let mut p = Pair::modern();
    p.host(&modern_request(1, "server/discover", ""));
    p.forget();
    p.advance(60_000);
    assert_eq!(p.at_host(), [""; 0]);
    p.die(Exit::Code(1));
    assert_eq!(p.at_host(), [""; 0], "it is sent again");
}

#[test]
fn discover_promises_list_changed_and_makes_the_link_ready() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&modern_request(0, "server/discover", ""));
    p.forget();
    p.result(0, r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m"}}}"#);
    let generation = p.newest();
    assert_eq!(
        p.events(),
        [
            Event::State(State::Ready { generation }),
            Event::Connected {
                generation,
                server: Some(software("m", None))
            }
        ]
    );
    assert!(p.at_host()[0].contains(r#""tools":{"listChanged":true}"#));
}

#[test]
fn the_next_server_is_asked_who_it_is_in_the_hosts_name() {
    let mut p = Pair::modern();
    p.call(7, "any");
    p.die(Exit::Signal(9));
    p.forget();
    p.up();
    assert_eq!(p.at_link(), [own(2, 1, "server/discover")]);
    p.call(8, "any");
    p.forget();
    p.own_result(1, DISCOVERED);
    assert_eq!(
        p.all(),
        [
            "state ready".to_string(),
            "connected".into(),
            format!("link: {}", call(8, "any"))
        ]
    );
}

#[test]
fn a_server_that_refuses_discover_is_there_all_the_same() {
    let mut p = Pair::modern();
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.server(r#"{"id":"outlive-2-1","error":{"code":-32601,"message":"no"}}"#);
    assert!(matches!(p.states()[..], [State::Ready { .. }]));
}

#[test]
fn a_server_that_no_longer_speaks_the_hosts_version_has_failed() {
    let mut p = Pair::modern();
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.own_result(1, r#"{"supportedVersions":["2027-01-01","2027-06-01"]}"#);
    let states = p.states();
    let [State::Failed { cause, .. }] = &states[..] else {
        panic!("{states:?}")
    };
    assert_eq!(
        cause.predicate(),
        "came back speaking protocol version 2027-01-01, 2027-06-01, but this session was opened \
         with 2026-07-28"
    );
    let mut p = Pair::modern();
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.own_result(1, r#"{"supportedVersions":["2027-01-01","2026-07-28"]}"#);
    assert!(matches!(p.states()[..], [State::Ready { .. }]));
}

#[test]
fn an_idle_modern_server_is_asked_by_discover_and_then_by_another_method() {
    let mut p = Pair::modern();
    p.advance(30_000);
    assert_eq!(p.at_link(), [own(1, 1, "server/discover")]);
    p.advance(30_000);
    assert_eq!(p.at_link(), [own(1, 2, "tools/list")]);
    p.forget();
    p.advance(30_000);
    assert_eq!(p.orders().last().map(String::as_str), Some("terminate 1"));
}

#[test]
fn a_cancellation_makes_no_suspect_of_a_modern_server() {
    let mut p = Pair::modern();
    p.call(7, "slow");
    p.forget();
    p.cancel(7);
    assert_eq!(p.at_link(), [cancelled(7)]);
    p.call(8, "next");
    assert_eq!(p.at_link(), [call(8, "next")]);
}

#[test]
fn a_subscription_is_opened_again_and_acknowledged_once() {
    let mut p = Pair::modern();
    p.host(&listen(5));
    p.forget();
    p.server(&acknowledged("5"));
    assert_eq!(p.at_host(), [acknowledged("5")]);
    for generation in 2..=4 {
        p.die(Exit::Signal(9));
        assert_eq!(p.at_host(), [""; 0], "it is not in flight, it is open");
        p.advance(1_000);
        p.up();
        p.forget();
        p.own_result(1, DISCOVERED);
        assert_eq!(p.at_link(), [listen(5)], "generation {generation}");
        assert_eq!(
            p.at_host(),
            [
                r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":5},"uri":"a:"}}"#
            ]
        );
        assert!(p.events().iter().any(|event| event.name() == "retried"));
        p.forget();
        p.server(&acknowledged("5"));
        assert_eq!(
            p.drops(),
            [(
                Direction::ToHost,
                DropReason::ReplayedAcknowledgement,
                "notifications/subscriptions/acknowledged".into()
            )]
        );
        assert_eq!(p.at_host(), [""; 0]);
        p.server(&acknowledged("5"));
        assert_eq!(p.at_host(), [acknowledged("5")], "a second one is news");
    }
}

#[test]
fn a_subscription_that_was_not_acknowledged_yet_is_later() {
    let mut p = Pair::modern();
    p.host(&listen(5));
    p.die(Exit::Signal(9));
    p.revive();
    p.server(&acknowledged("5"));
    assert_eq!(p.at_host(), [acknowledged("5")]);
}

#[test]
fn a_subscription_waits_for_a_server_as_long_as_it_takes() {
    let mut p = Pair::modern_with(|policy| {
        policy.request_timeout = Some(Duration::from_secs(1));
        policy.breaker.failures = 1;
    });
    p.host(&listen(5));
    p.forget();
    p.advance(5_000);
    assert_eq!(p.at_host(), [""; 0], "no bound while it is open");
    p.die(Exit::Signal(9));
    assert_eq!(p.at_host(), [""; 0], "nor when the breaker opens");
    p.advance(29_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    p.up();
    p.forget();
    p.own_result(1, DISCOVERED);
    assert_eq!(p.at_link(), [listen(5)]);
}

#[test]
fn an_open_subscription_is_no_reason_to_wait() {
    let mut p = Pair::modern();
    p.host(&listen(5));
    p.forget();
    p.advance(30_000);
    assert_eq!(p.at_link().len(), 1, "the server is idle and is probed");
    p.own_result(1, DISCOVERED);
    p.feed(Input::Restart);
    assert_eq!(p.orders().last().map(String::as_str), Some("close input 1"));
    p.die(Exit::Code(0));
    p.revive();
    p.feed(Input::Stop);
    assert_eq!(p.events()[0], Event::Draining { in_flight: 0 });
    let failure = p.failure();
    assert_eq!(
        (failure.id.clone(), failure.kind()),
        (json!(5), "shutting_down")
    );
}

#[test]
fn a_held_subscription_is_not_in_flight_either() {
    let mut p = Pair::modern();
    p.host(&listen(5));
    p.call(7, "long");
    p.feed(Input::Restart);
    p.host(&listen(6));
    p.forget();
    p.advance(999);
    assert_eq!(p.orders(), [""; 0], "the call is");
    p.result(7, "{}");
    assert_eq!(p.orders(), ["close input 1"]);
}

#[test]
fn the_cancellation_of_a_subscription_is_never_absorbed() {
    for cancel in [Cancel::Absorb, Cancel::Auto, Cancel::Forward] {
        let mut p = Pair::modern_with(|policy| policy.cancel = cancel);
        p.host(&listen(5));
        p.forget();
        p.cancel(5);
        assert_eq!(p.at_link(), [cancelled(5)]);
    }
}

#[test]
fn a_server_may_end_a_subscription() {
    let mut p = Pair::modern();
    p.host(&listen(5));
    p.forget();
    p.server(&cancelled(5));
    assert_eq!(p.at_host(), [cancelled(5)]);
    assert_eq!(p.session.sizes().ledger.0, 0, "it is over");
    p.server(&cancelled(5));
    assert_eq!(p.at_host(), [""; 0]);
    // Under whatever name it has on the link.
    let mut p = Pair::modern();
    p.host(&listen(5));
    p.cancel(5);
    p.host(&listen(5));
    p.forget();
    p.server(&cancelled(5).replace(r#""requestId":5"#, r#""requestId":"outlive-1-1""#));
    assert_eq!(p.at_host(), [cancelled(5)]);
}

#[test]
fn a_server_that_somebody_ended_has_not_died_of_discover() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&modern_request(0, "server/discover", ""));
    p.die(Exit::Signal(15));
    assert_eq!(p.at_host(), [""; 0]);
    p.forget();
    p.up();
    assert_eq!(p.at_link(), [modern_request(0, "server/discover", "")]);
}

#[test]
fn a_subscription_under_another_name_is_known_to_the_host_by_its_own() {
    let mut p = Pair::modern();
    p.host(&listen(5));
    p.cancel(5);
    p.forget();
    p.host(&listen(5));
    assert_eq!(
        p.at_link(),
        [listen(5).replacen(r#""id":5"#, r#""id":"outlive-1-1""#, 1)]
    );
    p.server(&acknowledged(r#""outlive-1-1""#));
    assert_eq!(p.at_host(), [acknowledged("5")]);
    p.server(&acknowledged(r#""other""#));
    assert_eq!(p.at_host(), [acknowledged(r#""other""#)]);
    // It is remembered as acknowledged under the host's id.
    p.die(Exit::Signal(9));
    p.revive();
    p.server(&acknowledged("5"));
    assert_eq!(p.drops().len(), 1);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn a_subscription_that_is_answered_is_over() {
    let mut p = Pair::modern();
    p.host(&listen(5));
    p.server(&acknowledged("5"));
    p.die(Exit::Signal(9));
    p.revive();
    p.result(5, r#"{"resultType":"complete"}"#);
    assert_eq!(p.at_host().len(), 1);
    assert_eq!(p.session.sizes().ledger.0, 0);
    p.host(&listen(5));
    p.forget();
    p.server(&acknowledged("5"));
    assert_eq!(p.at_host(), [acknowledged("5")], "another one");
}

#[test]
fn a_cancelled_subscription_leaves_nothing_behind() {
    let mut p = Pair::modern();
    p.host(&listen(5));
    p.server(&acknowledged("5"));
    p.die(Exit::Signal(9));
    p.revive();
    p.cancel(5);
    p.forget();
    p.server(&acknowledged("5"));
    assert_eq!(p.drops(), [], "its acknowledgement is not awaited any more");
}

#[test]
fn a_changed_list_is_told_to_the_subscriptions_that_want_it() {
    let mut p = Pair::modern();
    p.host(&modern_request(1, "tools/list", ""));
    p.result(1, TOOLS);
    p.host(&listen(5));
    p.host(&modern_request(
        6,
        "subscriptions/listen",
        r#""notifications":{"promptsListChanged":true},"#,
    ));
    p.host(&listen(4));
    p.die(Exit::Signal(9));
    p.revive();
    assert_eq!(p.session.sizes().own, 1, "the tools are asked for");
    p.own_result(2, r#"{"tools":[]}"#);
    let changed = |id: u64| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
        )
    };
    assert_eq!(p.at_host(), [changed(5), changed(4)]);
}

#[test]
fn lists_are_asked_for_in_the_hosts_name_page_by_page() {
    let mut p = Pair::modern();
    p.host(&modern_request(1, "tools/list", ""));
    p.result(1, TOOLS);
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.own_result(1, DISCOVERED);
    assert_eq!(p.at_link(), [own(2, 2, "tools/list")]);
    p.own_result(2, r#"{"tools":[],"nextCursor":"c"}"#);
    assert_eq!(
        p.at_link(),
        [format!(
            r#"{{"jsonrpc":"2.0","id":"outlive-2-3","method":"tools/list","params":{{"_meta":{},"cursor":"c"}}}}"#,
            sorted_meta()
        )]
    );
}

#[test]
fn only_who_the_host_is_goes_into_requests_of_our_own() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(r#"{"jsonrpc":"2.0","id":9,"method":"ping","params":{"_meta":{"progressToken":1}}}"#);
    let line = modern_request(0, "server/discover", "").replace(
        r#""_meta":{"#,
        r#""_meta":{"progressToken":"t","traceparent":"00-1",  "#,
    );
    p.host(&line);
    p.result(9, "{}");
    p.result(0, DISCOVERED);
    // Who it says it is first, it is.
    p.host(&modern_request(1, "ping", "").replace(r#""name":"h""#, r#""name":"other""#));
    p.result(1, "{}");
    p.forget();
    p.advance(30_000);
    assert_eq!(p.at_link(), [own(1, 1, "server/discover")]);
}

#[test]
fn a_modern_host_that_does_not_discover_is_known_by_its_requests() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&modern_request(1, "tools/list", ""));
    p.result(1, TOOLS);
    p.forget();
    p.die(Exit::Signal(9));
    p.up();
    assert_eq!(p.at_link(), [own(2, 1, "server/discover")]);
}

#[test]
fn a_legacy_session_is_not_made_modern_by_a_later_discover() {
    let mut p = Pair::ready();
    p.host(&modern_request(1, "server/discover", ""));
    p.result(1, DISCOVERED);
    p.host(&modern_request(2, "tools/list", ""));
    p.result(2, TOOLS);
    p.forget();
    p.advance(30_000);
    assert_eq!(p.at_link(), [ping(1, 1)]);
    p.die(Exit::Signal(9));
    p.forget();
    p.up();
    assert!(p.at_link()[0].contains(r#""method":"initialize""#));
}

#[test]
fn a_server_that_has_shown_to_be_a_legacy_one_is_not_asked_again() {
    let mut p = Pair::new(Policy::default());
    p.up();
    p.host(&modern_request(0, "server/discover", ""));
    p.die(Exit::Code(1));
    p.up();
    p.forget();
    p.host(&modern_request(1, "server/discover", ""));
    assert_eq!(p.failure().kind(), "unsupported");
    assert_eq!(p.at_link(), [""; 0]);
    // Nor in a legacy session.
    let mut p = Pair::ready_with(|policy| policy.refuse_discover = true);
    p.host(&modern_request(1, "server/discover", ""));
    assert_eq!(p.failure().kind(), "unsupported");
}
