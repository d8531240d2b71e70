//! What the host waits for when its session gets another owner.

use super::*;

#[test]
fn what_is_safe_is_sent_again_if_the_new_server_says_so() {
    for (tools, sent) in [(TOOLS, true), (r#"{"tools":[{"name":"safe"}]}"#, false)] {
        let mut p = Pair::with_tools();
        p.call(7, "safe");
        p.take_over();
        assert_eq!(p.at_host(), [""; 0]);
        shaken(&mut p);
        assert_eq!(p.at_link().last(), Some(&list_tools(2, 2)), "asked first");
        p.forget();
        p.own_result(2, tools);
        match sent {
            true => {
                assert_eq!(p.at_link(), [call(7, "safe")]);
                let again = |event: &Event| matches!(event, Event::Retried { id, .. } if id == "7");
                assert!(p.events().iter().any(again));
            }
            false => {
                assert_eq!(p.at_link(), [""; 0]);
                let all = p.at_host();
                let lost = failure(&all[0]);
                assert_eq!(
                    (lost.kind(), lost.outcome()),
                    ("connection_lost", "unknown")
                );
            }
        }
    }
}

#[test]
fn what_waits_is_sent_in_order_with_what_the_host_said_in_between() {
    let mut p = Pair::ready();
    p.die(Exit::Code(1));
    p.call(7, "risky");
    p.host(SAID);
    p.call(5, "risky");
    p.take_over();
    assert_eq!(p.at_host(), [""; 0]);
    p.call(6, "risky");
    shaken(&mut p);
    let sent = p.at_link();
    let after = [
        call(7, "risky"),
        SAID.into(),
        call(5, "risky"),
        call(6, "risky"),
    ];
    assert_eq!(sent[2..], after);
    assert!(
        !p.events()
            .iter()
            .any(|event| matches!(event, Event::Resent { .. } | Event::Retried { .. }))
    );
}

#[test]
fn what_was_in_flight_goes_before_what_waited() {
    let mut p = Pair::with_tools_and(|policy| policy.limits.in_flight = 1);
    p.request(7, "resources/read");
    p.request(8, "resources/read");
    p.take_over();
    shaken(&mut p);
    let sent = p.at_link();
    assert_eq!(
        sent[2..4],
        [request(7, "resources/read"), request(8, "resources/read")]
    );
}

#[test]
fn what_waits_has_the_time_that_was_left() {
    let mut p = Pair::ready();
    p.die(Exit::Code(1));
    p.call(7, "risky");
    p.host(SAID);
    p.advance(20_000);
    p.take_over();
    p.advance(9_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("unavailable", "not_sent")
    );
    assert!(
        failure.message.contains("(it was held for 30 s)"),
        "{}",
        failure.message
    );
    let dropped = p.drops();
    assert!(
        dropped
            .iter()
            .any(|(_, reason, _)| *reason == DropReason::NoServer),
        "{dropped:?}"
    );
}

#[test]
fn time_that_nobody_has_looked_at_is_not_counted() {
    let mut p = Pair::ready();
    p.die(Exit::Code(1));
    p.up();
    p.own_result(1, WELCOME);
    p.call(7, "risky");
    p.request(8, "resources/read");
    p.sleep(3_000);
    let first = p
        .session
        .snapshot(Time::after(seconds(3)))
        .expect("a snapshot");
    assert_eq!(first.encode(), p.snapshot());
    p.sleep(1);
    assert_ne!(
        first.encode(),
        p.snapshot(),
        "but a moment ago somebody has"
    );
}

#[test]
fn a_bound_of_all_the_time_a_call_takes_counts_on() {
    let mut p = Pair::with_tools();
    let terms = Terms {
        total: Some(seconds(10)),
        idle: Some(seconds(4)),
        retry: Some(Retry::Always),
    };
    p.feed(Input::Call(Frame::read(call(7, "risky").into()), terms));
    p.advance(3_000);
    p.take_over();
    assert_eq!(p.at_host(), [""; 0], "its caller wants it repeated");
    p.advance(2_000);
    shaken(&mut p);
    p.advance(3_999);
    p.forget();
    p.advance(1);
    assert_eq!(
        p.failure().about["after_ms"],
        4_000,
        "silent since it was sent again"
    );

    let mut p = Pair::with_tools();
    let terms = Terms {
        idle: None,
        ..terms
    };
    p.feed(Input::Call(Frame::read(call(7, "risky").into()), terms));
    p.advance(3_000);
    p.take_over();
    shaken(&mut p);
    p.advance(6_999);
    p.forget();
    p.advance(1);
    assert_eq!(
        p.failure().about["after_ms"],
        10_000,
        "three of them before"
    );
}

#[test]
fn time_that_a_person_took_to_answer_is_not_counted_by_the_successor_either() {
    let mut p = Pair::with_tools_and(|policy| policy.request_ceiling = Some(seconds(10)));
    p.request(7, "resources/read");
    p.advance(2_000);
    p.server(ASKED);
    p.advance(60_000);
    p.take_over_with(|policy| policy.request_ceiling = Some(seconds(10)));
    shaken(&mut p);
    p.forget();
    p.advance(7_999);
    assert_eq!(p.at_host(), [""; 0]);
    p.advance(1);
    assert_eq!(p.failure().kind(), "timeout");
}

#[test]
fn a_request_that_a_dying_server_has_not_read_is_sent_whatever_it_does() {
    let mut p = Pair::with_tools();
    p.call(7, "risky");
    p.call(8, "risky");
    p.link(LinkInput::Eof { sent: 4 });
    p.take_over();
    let failure = p.failure();
    assert_eq!(
        (&failure.id, failure.outcome()),
        (&7.into(), "unknown"),
        "that one may have run"
    );
    shaken(&mut p);
    assert_eq!(p.at_link()[2], call(8, "risky"));
    let unread = |event: &Event| matches!(event, Event::Resent { id, why, .. } if id == "8" && why.as_str() == "unread");
    assert!(p.events().iter().any(unread));
}

#[test]
fn a_call_in_flight_at_two_deaths_is_not_sent_a_third_time() {
    let mut p = Pair::with_tools();
    p.request(7, "resources/read");
    p.die(Exit::Code(1));
    p.forget();
    shaken(&mut p);
    assert_eq!(p.at_link()[2], request(7, "resources/read"));
    p.take_over();
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("connection_lost", "unknown")
    );
    assert_eq!(failure.about["cause"]["kind"], "owner_ended");
    assert_eq!(p.orders(), ["connect 3"]);
}

#[test]
fn a_call_that_may_have_run_before_is_not_said_to_be_unsent() {
    let mut p = Pair::with_tools();
    p.call(7, "safe");
    p.die(Exit::Code(1));
    p.take_over();
    p.advance(30_000);
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("connection_lost", "unknown")
    );
    assert_eq!(failure.about["cause"]["kind"], "owner_ended");
}

#[test]
fn a_call_that_the_next_server_had_to_allow_has_to_be_allowed_by_the_one_after() {
    let mut p = Pair::with_tools();
    p.call(7, "safe");
    p.die(Exit::Code(1));
    p.take_over();
    shaken(&mut p);
    assert_eq!(p.at_link().last(), Some(&list_tools(3, 2)));
    p.forget();
    p.own_result(2, r#"{"tools":[]}"#);
    let all = p.at_host();
    let lost = failure(&all[0]);
    assert_eq!(
        (lost.kind(), lost.outcome()),
        ("connection_lost", "unknown")
    );
    assert_eq!(lost.about["cause"]["kind"], "owner_ended");
}

#[test]
fn what_was_refused_stays_refused() {
    // A busy server wants to be asked later; what else is put aside is sent at its moment.
    let mut p = Pair::ready();
    p.call(7, "risky");
    unanswered(&mut p, 7, rejected(503, Some(12)));
    p.take_over();
    shaken(&mut p);
    assert!(!p.at_link().contains(&call(7, "risky")), "not yet");
    p.advance(11_999);
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [call(7, "risky")]);
    p.die(Exit::Code(1));
    assert_eq!(p.failure().outcome(), "unknown");

    // One that waits for a server that refused it was not merely not sent.
    let mut p = Pair::ready();
    p.call(7, "risky");
    unanswered(&mut p, 7, rejected(429, Some(1)));
    p.take_over();
    p.advance(30_000);
    let failure = p.failure();
    assert_eq!(
        (failure.kind(), failure.outcome()),
        ("unavailable", "rejected")
    );
}

#[test]
fn refusals_are_counted_on() {
    let mut p = Pair::ready();
    p.call(7, "risky");
    let mut refusals = 0;
    loop {
        unanswered(&mut p, 7, rejected(429, Some(1)));
        refusals += 1;
        if !p.at_host().is_empty() {
            break;
        }
        p.advance(1_000);
    }
    let mut p = Pair::ready();
    p.call(7, "risky");
    for _ in 1..refusals {
        unanswered(&mut p, 7, rejected(429, Some(1)));
        p.take_over();
        shaken(&mut p);
        p.advance(1_000);
        p.forget();
    }
    unanswered(&mut p, 7, rejected(429, Some(1)));
    assert_eq!(p.failure().kind(), "rejected");
}

#[test]
fn what_a_link_was_refusing_when_its_owner_ended_was_not_executed() {
    for retry in [Retry::Safe, Retry::Never] {
        let mut p = Pair::ready_with(|policy| policy.retry = retry);
        p.call(7, "risky");
        p.call(8, "risky");
        // The session is gone, as far as one request tells; the other is being asked about.
        p.link(LinkInput::Expired {
            id: Some(Id::Int(7)),
            status: 404,
        });
        p.take_over_with(|policy| policy.retry = retry);
        let failures = p.failures();
        let told = |id: u64| failures.iter().find(|failure| failure.id == id);
        assert_eq!(told(8).map(Failure::outcome), Some("unknown"));
        match retry {
            Retry::Never => assert_eq!(told(7).map(Failure::outcome), Some("rejected")),
            _ => {
                assert!(told(7).is_none());
                shaken(&mut p);
                assert_eq!(p.at_link()[2], call(7, "risky"));
            }
        }
    }
}
