//! What happens to a request whose server died: decided by the outcome, never by a guess.

use outlive_core::cause::Exit;
use outlive_core::event::{DropReason, Unexecuted};
use outlive_core::policy::Retry;
use outlive_core::{Event, Id, LinkInput};
use serde_json::json;

use crate::pair::*;

#[test]
fn a_tool_that_does_not_say_it_is_safe_fails_at_once_and_is_not_repeated() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.forget();
    p.die(Exit::Signal(9));
    let failure = p.failure();
    assert_eq!((failure.code, failure.id.clone()), (-31001, json!(7)));
    assert_eq!(
        failure.message,
        "The server was ended by signal 9 (SIGKILL) while running tool \"risky\". The server is \
         being restarted; the call may have taken effect, so it was not repeated. Calling again is \
         safe only if doing it twice is."
    );
    assert_eq!(
        failure.about,
        json!({
            "kind": "connection_lost",
            "outcome": "unknown",
            "generation": 1,
            "retryable": false,
            "cause": {
                "kind": "exited",
                "phase": "service",
                "command": "the server",
                "signal": 9,
            },
        })
    );
    p.revive();
    assert_eq!(p.at_link(), [""; 0]);
}

#[test]
fn a_safe_tool_waits_for_the_new_list_and_is_sent_again_once() {
    let mut p = Pair::with_tools();
    p.call(7, "safe");
    p.die(Exit::Code(1));
    assert_eq!(p.at_host(), [""; 0]);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(
        p.all(),
        [
            format!("link: {INITIALIZED}"),
            format!("link: {}", list_tools(2, 2))
        ],
        "not ready before that is decided"
    );
    p.own_result(2, TOOLS);
    assert_eq!(
        p.all(),
        [
            "state ready".to_string(),
            "connected".into(),
            "retried".into(),
            format!("link: {}", call(7, "safe")),
        ],
        "the list is not asked for again"
    );
    p.result(7, "{}");
    assert_eq!(p.at_host(), [r#"{"jsonrpc":"2.0","id":7,"result":{}}"#]);
}

#[test]
fn what_is_sent_again_is_told() {
    let mut p = Pair::ready();
    p.host(r#"{"jsonrpc":"2.0","id":"x","method":"resources/read","params":{"uri":"a:"}}"#);
    p.die(Exit::Code(1));
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    let retried = Event::Retried {
        id: "\"x\"".into(),
        method: "resources/read".into(),
        generation: p.newest(),
    };
    assert!(p.events().contains(&retried));
}

#[test]
fn a_tool_that_is_no_longer_safe_is_not_repeated() {
    let mut p = Pair::with_tools();
    p.call(7, "safe");
    p.die(Exit::Code(1));
    p.up();
    p.own_result(1, WELCOME);
    p.forget();
    p.own_result(2, r#"{"tools":[{"name":"safe"},{"name":"risky"}]}"#);
    let out = p.all();
    assert_eq!(out[0], "refused");
    let failure = failure(out[1].strip_prefix("host: ").expect("to the host"));
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("connection_lost", "unknown")
    );
    assert_eq!(failure.about["cause"]["exit_code"], 1);
    assert_eq!(failure.about["retryable"], false);
    assert!(failure.message.contains("was not repeated"), "{failure:?}");
    assert_eq!(
        out[2..],
        [
            "state ready",
            "connected",
            "list_changed",
            r#"host: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
        ]
    );
}

#[test]
fn a_new_server_that_will_not_list_its_tools_allows_nothing() {
    let mut p = Pair::with_tools();
    p.call(7, "safe");
    p.request(8, "ping");
    p.die(Exit::Code(1));
    p.up();
    p.own_result(1, WELCOME);
    p.forget();
    p.server(r#"{"id":"outlive-2-2","error":{"code":-32603,"message":"no"}}"#);
    let told: Vec<_> = p
        .at_host()
        .into_iter()
        .filter(|line| !line.contains("list_changed"))
        .collect();
    assert_eq!(told.len(), 1);
    assert_eq!(failure(&told[0]).kind(), "connection_lost");
    assert_eq!(
        p.at_link(),
        [request(8, "ping"), list_tools(2, 3)],
        "the rest goes on"
    );
}

#[test]
fn the_new_list_is_waited_for_five_seconds() {
    let mut p = Pair::with_tools();
    p.call(7, "safe");
    p.die(Exit::Code(1));
    p.up();
    p.own_result(1, WELCOME);
    p.forget();
    p.call(8, "risky");
    p.advance(4_999);
    assert_eq!(p.at_host(), [""; 0]);
    assert_eq!(p.at_link(), [""; 0], "what came later waits too");
    p.advance(1);
    assert_eq!(p.failure().kind(), "connection_lost");
    assert_eq!(p.at_link(), [call(8, "risky"), list_tools(2, 3)]);
    // The answer comes after all. It is compared, and changes nothing.
    p.forget();
    p.own_result(2, TOOLS);
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn the_new_list_is_read_to_its_end_before_it_allows_anything() {
    let mut p = Pair::with_tools();
    p.call(7, "safe");
    p.die(Exit::Code(1));
    p.up();
    p.own_result(1, WELCOME);
    p.forget();
    p.own_result(2, r#"{"tools":[{"name":"risky"}],"nextCursor":"more"}"#);
    assert_eq!(
        p.all(),
        [
            r#"link: {"jsonrpc":"2.0","id":"outlive-2-3","method":"tools/list","params":{"cursor":"more"}}"#
        ]
    );
    p.own_result(
        3,
        r#"{"tools":[{"name":"safe","annotations":{"idempotentHint":true}}]}"#,
    );
    assert_eq!(p.at_link(), [call(7, "safe")]);
}

#[test]
fn a_call_made_while_the_list_is_read_waits_and_does_not_need_it() {
    let mut p = Pair::with_tools();
    p.call(7, "safe");
    p.die(Exit::Code(1));
    p.up();
    p.own_result(1, WELCOME);
    p.call(8, "risky");
    p.forget();
    p.own_result(2, TOOLS);
    assert_eq!(p.at_link(), [call(7, "safe"), call(8, "risky")]);
}

#[test]
fn never_means_never_unless_it_was_not_sent() {
    let mut p = Pair::with_tools_and(|policy| policy.retry = Retry::Never);
    p.call(7, "safe");
    p.request(8, "ping");
    p.request(9, "tools/list");
    p.die_unread(Exit::Code(1), 1);
    let failed: Vec<_> = p.failures().iter().map(|f| f.id.clone()).collect();
    assert_eq!(failed, [json!(7), json!(8)]);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(
        p.at_link(),
        [INITIALIZED, &request(9, "tools/list"), &list_tools(2, 2)]
    );
    assert!(!p.events().iter().any(|e| e.name() == "retried"));
}

#[test]
fn always_means_whatever_the_server_says() {
    let mut p = Pair::with_tools_and(|policy| policy.retry = Retry::Always);
    p.call(7, "risky");
    p.request(8, "unheard/of");
    p.die(Exit::Code(1));
    assert_eq!(p.at_host(), [""; 0]);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(
        p.at_link(),
        [
            INITIALIZED,
            &call(7, "risky"),
            &request(8, "unheard/of"),
            &list_tools(2, 2)
        ],
        "without waiting for the list"
    );
}

#[test]
fn methods_that_change_nothing_are_sent_again_and_no_others() {
    let read_only = [
        "ping",
        "server/discover",
        "tools/list",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "logging/setLevel",
        "completion/complete",
        "tasks/get",
        "tasks/list",
        "tasks/result",
    ];
    for method in read_only {
        let mut p = Pair::ready();
        p.request(7, method);
        p.die(Exit::Code(1));
        assert_eq!(p.at_host(), [""; 0], "{method}");
        p.up();
        p.forget();
        p.own_result(1, WELCOME);
        assert_eq!(p.at_link(), [INITIALIZED, &request(7, method)]);
    }
    for method in ["tasks/cancel", "unheard/of", "tools/call"] {
        let mut p = Pair::with_tools();
        p.request(7, method);
        p.forget();
        p.die(Exit::Code(1));
        let failure = p.failure();
        assert_eq!(failure.kind(), "connection_lost", "{method}");
        assert!(failure.message.contains(&format!("running {method}.")));
    }
}

#[test]
fn what_the_dead_server_never_took_is_sent_again_whatever_it_is() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.call(8, "risky");
    p.die_unread(Exit::Signal(9), 1);
    let failure = p.failure();
    assert_eq!(failure.id, 7);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(
        p.at_link(),
        [INITIALIZED, &call(8, "risky"), &list_tools(2, 2)]
    );
    assert!(
        !p.events().iter().any(|e| e.name() == "retried"),
        "the first time it is sent"
    );
}

#[test]
fn a_request_in_flight_at_two_deaths_is_not_sent_a_third_time() {
    let mut p = Pair::ready();
    p.request(7, "resources/list");
    p.die(Exit::Code(1));
    p.revive();
    p.die(Exit::Code(1));
    let failure = p.failure();
    assert_eq!(
        failure.message,
        "The server exited with code 1 while running resources/list. It was in flight at two such \
         ends in a row, so it was not sent again."
    );
    assert_eq!(
        (failure.outcome(), &failure.about["retryable"]),
        ("unknown", &json!(false))
    );
}

#[test]
fn only_deaths_it_was_sent_to_count() {
    let mut p = Pair::ready();
    p.request(7, "resources/list");
    p.die_unread(Exit::Code(1), 1);
    p.revive();
    p.die(Exit::Code(1));
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(200);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.at_link(), [INITIALIZED, &request(7, "resources/list")]);
}

#[test]
fn what_is_sent_again_keeps_its_place_before_what_came_later() {
    let mut p = Pair::ready();
    p.request(5, "ping");
    p.request(3, "ping");
    p.request(4, "ping");
    p.die(Exit::Code(1));
    p.request(1, "ping");
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(
        p.at_link(),
        [
            INITIALIZED,
            &request(5, "ping"),
            &request(3, "ping"),
            &request(4, "ping"),
            &request(1, "ping"),
        ]
    );
}

#[test]
fn a_link_that_says_nothing_about_its_writing_took_all() {
    // A verdict of our own comes without a count: whatever was sent may have arrived.
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.forget();
    for _ in 0..3 {
        p.advance(1_000);
        p.link(LinkInput::Inspected { stopped: true });
    }
    p.advance(100);
    let failure = p.failure();
    assert_eq!(failure.outcome(), "unknown");
    assert_eq!(failure.about["cause"]["kind"], "stopped");
}

#[test]
fn a_request_to_be_repeated_that_finds_no_server_may_have_been_done() {
    let mut p = Pair::ready();
    p.request(7, "resources/list");
    p.die(Exit::Code(1));
    p.forget();
    p.advance(29_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("connection_lost", "unknown")
    );
}

#[test]
fn prompts_and_tools_are_called_by_name_in_the_sentence() {
    let mut p = Pair::ready_with(|policy| policy.retry = Retry::Never);
    p.host(r#"{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"hello"}}"#);
    p.host(r#"{"jsonrpc":"2.0","id":8,"method":"resources/read","params":{"name":"x"}}"#);
    p.die(Exit::Code(1));
    let failures = p.failures();
    assert!(
        failures[0]
            .message
            .contains("while running prompt \"hello\".")
    );
    assert!(
        failures[1]
            .message
            .contains("while running resources/read.")
    );
}

#[test]
fn the_end_of_the_output_waits_a_moment_for_the_reason() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.forget();
    p.eof();
    assert_eq!(p.all(), ["state down", "stop writing 1"]);
    p.advance(99);
    assert_eq!(p.all(), [""; 0]);
    p.die(Exit::Code(4));
    assert_eq!(p.failure().about["cause"]["exit_code"], 4);
    // And if there is no reason to be had:
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.forget();
    p.eof();
    p.forget();
    p.advance(99);
    assert_eq!(p.all(), [""; 0]);
    p.advance(1);
    let failure = p.failure();
    assert_eq!(failure.about["cause"]["kind"], "eof");
    assert!(failure.message.starts_with(
        "The server closed its output (its process had not exited) while running tool"
    ));
    assert_eq!(p.orders(), ["terminate 1"]);
    p.advance(499);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1);
    assert_eq!(p.orders(), ["kill 1"]);
    p.advance(999);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1);
    assert_eq!(p.orders(), ["connect 2"], "not even that ended it");
}

#[test]
fn a_write_that_fails_is_a_death_and_the_first_sign_of_it_counts() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.call(8, "risky");
    p.forget();
    p.link(LinkInput::WriteFailed {
        error: "broken pipe".into(),
        sent: 4,
    });
    assert_eq!(p.all(), ["state down", "stop writing 1"]);
    p.link(LinkInput::Eof { sent: 4 });
    p.advance(100);
    let failure = p.failures().remove(0);
    assert_eq!(failure.about["cause"]["kind"], "write_error");
    assert_eq!(failure.about["cause"]["error"], "broken pipe");
    assert!(
        failure
            .message
            .starts_with("The server stopped taking input (broken pipe) while running tool")
    );
}

#[test]
fn nothing_is_sent_on_a_dying_link() {
    let mut p = Pair::ready();
    p.call(6, "any");
    p.eof();
    p.forget();
    p.request(7, "ping");
    p.cancel(7);
    p.cancel(6);
    assert_eq!(p.at_link(), [""; 0]);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn a_new_list_that_cannot_be_read_allows_nothing() {
    let mut p = Pair::with_tools();
    p.call(7, "safe");
    p.die(Exit::Code(1));
    p.up();
    p.own_result(1, WELCOME);
    p.forget();
    p.server(r#"{"jsonrpc":"2.0","id":"outlive-2-2"}"#);
    assert_eq!(p.failure().kind(), "connection_lost");
}

#[test]
fn what_one_page_says_of_a_tool_is_not_forgotten_with_the_next_or_another_list() {
    let mut p = Pair::ready();
    p.request(1, "tools/list");
    p.result(
        1,
        r#"{"tools":[{"name":"safe","annotations":{"readOnlyHint":true}}],"nextCursor":"2"}"#,
    );
    p.host(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"2"}}"#);
    p.result(2, r#"{"tools":[{"name":"risky"}]}"#);
    p.request(3, "prompts/list");
    p.result(3, r#"{"prompts":[]}"#);
    p.call(7, "safe");
    p.forget();
    p.die(Exit::Code(1));
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn a_call_that_the_dead_server_never_read_is_sent_again_and_told() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.call(8, "risky");
    p.die_unread(Exit::Signal(9), 1);
    assert_eq!(
        p.failure().id,
        json!(7),
        "only what it may have read is lost"
    );
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    let resent = |event: &Event| match event {
        Event::Resent {
            id,
            method,
            generation,
            why,
        } => Some((id.clone(), method.clone(), generation.number(), *why)),
        _ => None,
    };
    let told: Vec<_> = p.events().iter().filter_map(resent).collect();
    let call = (
        "8".to_string(),
        "tools/call".to_string(),
        2,
        Unexecuted::Unread,
    );
    assert_eq!(told, [call]);
    p.result(8, "{}");
    assert_eq!(p.at_host().len(), 1);
}

#[test]
fn a_call_that_was_refused_is_sent_again_and_told() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    let id = Id::read(b"7").expect("an id");
    p.link(LinkInput::Expired {
        id: Some(id),
        status: 404,
    });
    p.advance(2_000);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    let why = p.events().iter().find_map(|event| match event {
        Event::Resent { why, .. } => Some(*why),
        _ => None,
    });
    assert_eq!(why, Some(Unexecuted::Refused));
}

/// Until it is further than the server before was, the host hears nothing of its progress.
#[test]
fn progress_of_a_repeated_call_goes_on_from_where_it_was() {
    let mut p = Pair::with_tools();
    p.host(
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"safe","_meta":{"progressToken":"t"}}}"#,
    );
    let tell = |p: &mut Pair, value: &str| {
        p.server(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"t","progress":{value}}}}}"#
        ));
    };
    let values = |told: Vec<String>| -> Vec<String> {
        told.iter()
            .filter_map(|line| line.split_once(r#""progress":"#))
            .map(|(_, rest)| rest.trim_end_matches('}').to_string())
            .collect()
    };
    p.forget();
    // A stream that is resumed too early repeats itself. Who says the same twice has perhaps other words for it.
    for value in ["1", "0.5", "2.5", "2.5", "NaN", "2"] {
        tell(&mut p, value);
    }
    assert_eq!(values(p.at_host()), ["1", "2.5", "2.5", "NaN"]);
    assert_eq!(p.drops().len(), 2);
    p.die(Exit::Code(1));
    p.revive();
    p.own_result(2, TOOLS);
    p.forget();
    for value in ["1", "2.5", "null", "2.51", "2"] {
        tell(&mut p, value);
    }
    assert_eq!(values(p.at_host()), ["null", "2.51"]);
    let reasons: Vec<_> = p.drops().into_iter().map(|(_, reason, _)| reason).collect();
    assert_eq!(reasons, [DropReason::LateProgress; 3]);
}
