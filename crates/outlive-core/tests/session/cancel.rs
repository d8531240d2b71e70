//! Cancellations, and the suspicion they leave behind.

use outlive_core::cause::Exit;
use outlive_core::event::{Direction, DropReason};
use outlive_core::policy::Cancel;
use outlive_core::{Event, LinkInput};

use crate::pair::*;

fn drop_of(reason: DropReason, detail: &str) -> (Direction, DropReason, String) {
    let direction = match reason {
        DropReason::LateAnswer | DropReason::UnknownAnswer => Direction::ToHost,
        _ => Direction::ToServer,
    };
    (direction, reason, detail.into())
}

fn absorbs(p: &mut Pair) -> bool {
    let events = p.events();
    events
        .iter()
        .any(|event| matches!(event, Event::AbsorbingCancels { .. }))
}

#[test]
fn a_cancellation_passes_as_it_is_and_a_ping_follows_it() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.forget();
    p.cancel(7);
    assert_eq!(
        p.all(),
        [
            format!("link: {}", cancelled(7)),
            format!("link: {}", ping(1, 1))
        ]
    );
    p.own_result(1, "{}");
    assert_eq!(p.all(), [""; 0], "the answer to our ping is ours");
    p.result(7, "{}");
    assert_eq!(p.drops(), [drop_of(DropReason::LateAnswer, "id 7")]);
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn cancellations_of_nothing_do_not_reach_the_server() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.call(8, "fast");
    p.result(8, "{}");
    p.cancel(7);
    p.forget();
    for (line, detail) in [
        (cancelled(7), "request 7"),
        (cancelled(8), "request 8"),
        (cancelled(99), "request 99"),
        (
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#.into(),
            "no requestId",
        ),
    ] {
        p.host(&line);
        assert_eq!(p.drops(), [drop_of(DropReason::UselessCancel, detail)]);
    }
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn a_held_request_is_cancelled_without_anybody_being_told() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.call(7, "slow");
    p.call(8, "slow");
    p.forget();
    p.cancel(7);
    assert_eq!(p.all(), [""; 0]);
    assert_eq!(p.session.sizes().queue, 1);
    assert_eq!(p.session.sizes().held, (1, call(8, "slow").len()));
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.at_link(), [INITIALIZED, &call(8, "slow")]);
}

#[test]
fn an_id_that_was_cancelled_is_another_one_on_the_same_link() {
    let mut p = Pair::ready_with(|policy| policy.cancel = Cancel::Absorb);
    p.call(7, "slow");
    p.cancel(7);
    p.forget();
    p.call(7, "again");
    let renamed = call(7, "again").replacen(r#""id":7"#, r#""id":"outlive-1-1""#, 1);
    assert_eq!(p.at_link(), [renamed]);
    p.result(7, r#"{"old":true}"#);
    assert_eq!(p.drops(), [drop_of(DropReason::LateAnswer, "id 7")]);
    p.own_result(1, r#"{"new":true}"#);
    assert_eq!(
        p.at_host(),
        [r#"{"jsonrpc":"2.0","id":7,"result":{"new":true}}"#]
    );
    p.own_result(1, r#"{"new":true}"#);
    assert_eq!(
        p.drops(),
        [drop_of(DropReason::UnknownAnswer, "id \"outlive-1-1\"")],
        "the alias is gone with its request"
    );
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn the_cancellation_of_a_renamed_request_names_it_as_the_server_knows_it() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.own_result(1, "{}");
    p.call(7, "again");
    p.own_result(2, "{}");
    let renamed = call(7, "again").replacen(r#""id":7"#, r#""id":"outlive-1-3""#, 1);
    assert_eq!(p.at_link().last(), Some(&renamed));
    p.cancel(7);
    let told = cancelled(7).replace(r#""requestId":7"#, r#""requestId":"outlive-1-3""#);
    assert_eq!(p.at_link()[0], told);
    p.forget();
    p.own_result(3, "{}");
    assert_eq!(
        p.drops(),
        [drop_of(DropReason::LateAnswer, "id \"outlive-1-3\"")]
    );
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn a_link_that_has_forgotten_ids_gets_new_ones_for_everything() {
    let mut p = Pair::ready_with(|policy| {
        policy.cancel = Cancel::Absorb;
        policy.limits.tombstones = 1;
    });
    p.call(7, "slow");
    p.cancel(7);
    p.forget();
    p.call(8, "slow");
    assert_eq!(p.at_link(), [call(8, "slow")], "nothing is forgotten yet");
    p.cancel(8);
    p.call(9, "slow");
    assert!(p.at_link()[0].contains(r#""id":"outlive-1-1""#));
    p.own_result(1, "{}");
    assert_eq!(p.at_host(), [r#"{"jsonrpc":"2.0","id":9,"result":{}}"#]);
    assert_eq!(p.session.sizes().tombstones, 1);
}

#[test]
fn a_name_of_ours_that_the_host_uses_itself_is_passed_over() {
    let mut p = Pair::ready();
    p.host(r#"{"jsonrpc":"2.0","id":"outlive-1-1","method":"tools/list"}"#);
    p.call(7, "slow");
    p.forget();
    p.cancel(7);
    assert_eq!(p.at_link(), [cancelled(7), ping(1, 2)]);
    // And what the host calls as we have called our ping gets another name.
    p.host(r#"{"jsonrpc":"2.0","id":"outlive-1-2","method":"prompts/list"}"#);
    p.own_result(2, "{}");
    p.forget();
    p.host(r#"{"jsonrpc":"2.0","id":"outlive-1-3","method":"prompts/list"}"#);
    assert_eq!(p.at_link(), [ping(1, 4)]);
}

#[test]
fn absorbed_cancellations_are_kept_from_the_server() {
    let mut p = Pair::ready_with(|policy| policy.cancel = Cancel::Absorb);
    p.call(7, "slow");
    p.forget();
    p.cancel(7);
    assert_eq!(
        p.drops(),
        [drop_of(DropReason::AbsorbedCancel, "request 7")]
    );
    assert_eq!(p.all(), [""; 0]);
    p.result(7, "{}");
    assert_eq!(p.drops(), [drop_of(DropReason::LateAnswer, "id 7")]);
}

#[test]
fn a_server_that_died_of_a_cancellation_is_spared_the_next() {
    for (exit, blamed) in [
        (Exit::Code(0), true),
        (Exit::Code(1), true),
        (Exit::Signal(11), true),
        (Exit::Unknown, true),
        (Exit::Signal(1), false),
        (Exit::Signal(2), false),
        (Exit::Signal(9), false),
        (Exit::Signal(15), false),
    ] {
        let mut p = Pair::ready();
        p.call(7, "slow");
        p.cancel(7);
        p.forget();
        p.die(exit);
        let generation_1 = outlive_core::Generation::FIRST;
        let told = p.events().contains(&Event::AbsorbingCancels {
            generation: generation_1,
        });
        assert_eq!(told, blamed, "{exit:?}");
        p.revive();
        p.call(8, "slow");
        p.forget();
        p.cancel(8);
        assert_eq!(p.at_link().is_empty(), blamed, "{exit:?}");
    }
}

#[test]
fn the_end_of_output_and_a_failed_write_are_blamed_on_it_too() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.eof();
    p.advance(100);
    assert!(absorbs(&mut p));
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.link(LinkInput::WriteFailed {
        error: "EPIPE".into(),
        sent: 9,
    });
    p.advance(100);
    assert!(absorbs(&mut p));
}

#[test]
fn it_is_told_once_and_only_in_auto() {
    let mut p = Pair::ready_with(|policy| policy.cancel = Cancel::Forward);
    p.call(7, "slow");
    p.cancel(7);
    p.die(Exit::Code(1));
    assert!(!absorbs(&mut p));
    p.revive();
    p.call(8, "slow");
    p.forget();
    p.cancel(8);
    assert_eq!(p.at_link(), [cancelled(8), ping(2, 2)]);
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.die(Exit::Code(1));
    assert!(!absorbs(&mut p), "there was no cancellation");
}

#[test]
fn a_server_that_lived_for_half_a_minute_did_not_die_of_it() {
    for (after, blamed) in [(29_999, true), (30_000, false)] {
        let mut p = Pair::ready();
        p.call(7, "slow");
        p.cancel(7);
        p.advance(after);
        p.die(Exit::Code(1));
        assert_eq!(absorbs(&mut p), blamed, "{after}");
    }
}

#[test]
fn a_suspect_is_asked_twice_a_second() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.forget();
    p.advance(100);
    p.own_result(1, "{}");
    p.advance(399);
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [ping(1, 2)]);
    p.advance(499);
    assert_eq!(p.at_link(), [""; 0]);
    p.own_result(2, "{}");
    p.advance(1);
    assert_eq!(p.at_link(), [ping(1, 3)]);
}

/// It may have died with the ping it has read: only another line lets its process end.
#[test]
fn a_suspect_that_leaves_a_ping_unanswered_gets_another_after_ever_longer_pauses() {
    let mut p = Pair::ready();
    p.call(6, "beside");
    p.call(7, "slow");
    p.cancel(7);
    p.forget();
    let mut n = 1;
    for pause in [500, 500, 1_000, 2_000, 4_000, 8_000] {
        p.advance(pause - 1);
        assert_eq!(p.at_link(), [""; 0]);
        p.advance(1);
        n += 1;
        assert_eq!(p.at_link(), [ping(1, n)]);
    }
    // An answer to any of them is a sign of life.
    p.own_result(2, "{}");
    p.advance(500);
    assert_eq!(p.at_link(), [ping(1, n + 1)]);
}

#[test]
fn a_dead_suspect_takes_a_second_ping_with_it_and_no_call() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    // It reads the ping, and dies with the end of the cancelled work; the next line lets its process end.
    p.call(8, "next");
    p.forget();
    p.advance(500);
    assert_eq!(p.at_link(), [ping(1, 2)], "the line that finds it out");
    p.die(Exit::Code(1));
    assert_eq!(p.at_host(), [""; 0]);
    assert!(absorbs(&mut p));
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.at_link(), [INITIALIZED, &call(8, "next")]);
}

#[test]
fn requests_wait_a_second_for_a_suspect_that_has_never_answered() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.forget();
    p.call(8, "next");
    p.advance(999);
    assert_eq!(p.at_link(), [ping(1, 2)]);
    p.advance(1);
    assert_eq!(
        p.at_link(),
        [ping(1, 3)],
        "if it is dead, this line finds it out"
    );
    p.advance(99);
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [call(8, "next")]);
    p.call(9, "next");
    assert_eq!(p.at_link(), [ping(1, 4)], "it is deaf: a moment is enough");
    p.advance(99);
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [call(9, "next")]);
    // A sign of life, and they wait again, for longer.
    for n in 1..=4 {
        p.own_result(n, "{}");
    }
    p.advance(400);
    assert_eq!(p.at_link(), [ping(1, 5)]);
    p.call(10, "next");
    p.advance(9_999);
    let pings: Vec<String> = (6..=10).map(|n| ping(1, n)).collect();
    assert_eq!(p.at_link(), pings);
    p.advance(1);
    assert_eq!(p.at_link(), [ping(1, 11)]);
    p.advance(100);
    assert_eq!(p.at_link(), [call(10, "next")]);
}

#[test]
fn a_suspect_that_answers_no_ping_does_not_collect_them() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.call(8, "next");
    p.advance(1_100);
    p.forget();
    for id in 100..150 {
        p.call(id, "next");
        p.advance(200);
        p.result(id, "{}");
    }
    assert_eq!(p.at_host().len(), 50);
    assert!(p.session.sizes().own <= 9, "{:?}", p.session.sizes());
}

#[test]
fn a_sign_of_life_opens_the_gate() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.forget();
    p.call(8, "next");
    p.call(9, "next");
    p.own_result(1, "{}");
    assert_eq!(p.at_link(), [call(8, "next"), call(9, "next")]);
    p.call(10, "next");
    assert_eq!(p.at_link(), [ping(1, 2)], "each time anew");
    p.server(r#"{"id":"outlive-1-2","error":{"code":-32601,"message":"no ping"}}"#);
    assert_eq!(
        p.at_link(),
        [call(10, "next")],
        "an error is a sign of life"
    );
}

#[test]
fn a_suspect_that_dies_takes_nothing_but_our_ping_with_it() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.call(8, "next");
    p.forget();
    p.die(Exit::Code(1));
    assert_eq!(p.at_host(), [""; 0]);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.at_link(), [INITIALIZED, &call(8, "next")]);
}

#[test]
fn suspicion_ends_after_half_a_minute_and_what_waits_goes_out() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.call(6, "slow");
    p.cancel(7);
    for n in 1..=59 {
        p.own_result(n, "{}");
        p.advance(500);
        assert_eq!(p.at_link().last(), Some(&ping(1, n + 1)));
    }
    p.advance(499);
    p.call(8, "next");
    assert_eq!(p.at_link(), [""; 0]);
    p.advance(1);
    assert_eq!(p.at_link(), [call(8, "next")]);
    p.call(9, "next");
    assert_eq!(p.at_link(), [call(9, "next")]);
    p.own_result(60, "{}");
    p.advance(5_000);
    assert_eq!(p.at_link(), [""; 0], "no more pings");
}

#[test]
fn another_cancellation_prolongs_the_watch_and_sends_no_second_ping() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.call(8, "slow");
    p.cancel(7);
    p.advance(20_000);
    p.forget();
    p.cancel(8);
    assert_eq!(p.at_link(), [cancelled(8)], "a ping is out already");
    p.advance(29_999);
    p.die(Exit::Code(1));
    assert!(absorbs(&mut p));
}

#[test]
fn a_server_that_answers_the_cancelled_is_watched_for_ten_minutes() {
    for (late, blamed) in [(600_000 - 1, true), (600_000, false)] {
        let mut p = Pair::ready();
        p.call(6, "busy");
        p.call(7, "slow");
        p.cancel(7);
        p.advance(1_000);
        p.result(7, "{}");
        p.advance(late);
        p.forget();
        p.die(Exit::Code(1));
        assert_eq!(absorbs(&mut p), blamed, "{late}");
    }
}

#[test]
fn an_answer_to_the_cancelled_makes_no_suspect_of_one_that_is_none() {
    let mut p = Pair::ready_with(|policy| policy.cancel = Cancel::Absorb);
    p.call(7, "slow");
    p.cancel(7);
    p.result(7, "{}");
    p.forget();
    p.call(8, "next");
    assert_eq!(p.at_link(), [call(8, "next")]);
}

#[test]
fn an_idle_suspect_that_answers_nothing_is_replaced_in_a_minute() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.forget();
    p.advance(29_999);
    let pings: Vec<String> = (2..=7).map(|n| ping(1, n)).collect();
    assert_eq!(p.at_link(), pings);
    p.advance(1);
    assert_eq!(p.at_link(), [list_tools(1, 8)], "perhaps it has no ping");
    p.advance(29_999);
    p.forget();
    p.advance(1);
    assert_eq!(p.orders(), ["terminate 1"]);
    assert!(!absorbs(&mut p), "it did not end by itself");
}

#[test]
fn a_link_that_is_retiring_is_still_told() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.call(8, "slow");
    p.feed(outlive_core::Input::Restart);
    p.forget();
    p.cancel(7);
    assert_eq!(p.at_link(), [cancelled(7), ping(1, 1)]);
    p.own_result(1, "{}");
    p.advance(999);
    assert_eq!(p.at_link(), [""; 0], "but its life is over anyway");
}

#[test]
fn the_hosts_own_words_are_passed_on() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.forget();
    let words = cancelled(7).replace(r#""requestId":7"#, r#""requestId":7.0"#);
    p.host(&words);
    assert_eq!(p.at_link()[0], words);
}

#[test]
fn a_name_that_is_taken_on_the_link_is_not_given_twice() {
    let named = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
    // By a ping of ours that is out.
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.host(&named(r#""outlive-1-1""#));
    p.forget();
    p.advance(1_100);
    assert_eq!(
        p.at_link(),
        [ping(1, 2), ping(1, 3), named(r#""outlive-1-4""#)]
    );
    // By a request of the host that has it here.
    let mut p = Pair::ready_with(|policy| policy.cancel = Cancel::Absorb);
    p.call(7, "slow");
    p.call(8, "slow");
    p.cancel(7);
    p.cancel(8);
    p.call(7, "again");
    p.forget();
    p.call(9, "new");
    assert_eq!(p.at_link(), [call(9, "new")], "others are not concerned");
    p.host(&named(r#""outlive-1-1""#));
    assert_eq!(p.at_link(), [named(r#""outlive-1-2""#)]);
    p.call(8, "again");
    assert!(p.at_link()[0].contains(r#""id":"outlive-1-3""#));
}

#[test]
fn at_the_moment_suspicion_ends_nothing_is_asked_any_more() {
    let mut p = Pair::ready();
    p.call(6, "busy");
    p.call(7, "slow");
    p.cancel(7);
    for n in 1..=59 {
        p.own_result(n, "{}");
        p.advance(500);
    }
    p.advance(499);
    p.own_result(60, "{}");
    p.forget();
    p.sleep(1);
    p.call(8, "next");
    assert_eq!(p.at_link(), [call(8, "next")]);
}

#[test]
fn a_server_that_dies_of_the_next_request_did_not_die_of_the_cancellation() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.own_result(1, "{}");
    p.call(8, "crash");
    p.own_result(2, "{}");
    assert_eq!(p.at_link().last(), Some(&call(8, "crash")));
    p.die(Exit::Code(1));
    assert!(!absorbs(&mut p));
    // But if it has shown in between that it lives, it was the cancellation after all.
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.own_result(1, "{}");
    p.call(8, "next");
    p.own_result(2, "{}");
    p.advance(500);
    p.own_result(3, "{}");
    p.die(Exit::Code(1));
    assert!(absorbs(&mut p));
}

#[test]
fn a_server_that_answers_what_was_cancelled_died_of_it_whatever_it_was_doing() {
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.server(r#"{"id":7,"error":{"code":0,"message":"Request cancelled"}}"#);
    p.own_result(1, "{}");
    p.call(8, "beside");
    p.own_result(2, "{}");
    assert_eq!(p.at_link().last(), Some(&call(8, "beside")));
    p.die(Exit::Code(1));
    assert!(absorbs(&mut p));
    // A result may have been on its way when the cancellation came.
    let mut p = Pair::ready();
    p.call(7, "slow");
    p.cancel(7);
    p.result(7, "{}");
    p.own_result(1, "{}");
    p.call(8, "crash");
    p.own_result(2, "{}");
    p.die(Exit::Code(1));
    assert!(!absorbs(&mut p));
}

#[test]
fn a_second_death_soon_after_a_cancellation_is_no_coincidence() {
    let mut p = Pair::ready();
    for (generation, blamed) in [(1, false), (2, true)] {
        let first = if generation == 1 { 1 } else { 2 };
        p.call(7, "slow");
        p.cancel(7);
        p.own_result(first, "{}");
        p.call(8, "crash");
        p.own_result(first + 1, "{}");
        p.forget();
        p.die(Exit::Code(1));
        assert_eq!(absorbs(&mut p), blamed, "generation {generation}");
        p.revive();
    }
}
