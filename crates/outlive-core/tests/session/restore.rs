//! What the host is told it may have missed, once and only if there is something.

use outlive_core::cause::Exit;
use outlive_core::protocol::List;
use outlive_core::{Event, Input};

use crate::pair::*;

fn page(generation: u64, n: u64, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"outlive-{generation}-{n}","method":"{method}"}}"#)
}

#[test]
fn lists_the_host_has_read_are_compared_and_told_if_they_differ() {
    let mut p = Pair::with_tools();
    p.request(2, "prompts/list");
    p.result(2, r#"{"prompts":[{"name":"p"}]}"#);
    p.request(3, "resources/list");
    p.result(3, r#"{"resources":[{"uri":"a:"},{"uri":"b:"}]}"#);
    p.request(4, "resources/templates/list");
    p.result(4, r#"{"resourceTemplates":[{"uriTemplate":"t:{x}"}]}"#);
    p.forget();
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(
        p.at_link(),
        [
            INITIALIZED,
            &list_tools(2, 2),
            &page(2, 3, "prompts/list"),
            &page(2, 4, "resources/list"),
            &page(2, 5, "resources/templates/list"),
        ]
    );
    p.forget();
    p.own_result(2, TOOLS);
    p.own_result(3, r#"{"prompts":[{"name":"p"}]}"#);
    assert_eq!(p.all(), [""; 0], "the same as before");
    p.own_result(4, r#"{"resources":[{"uri":"a:","size":1},{"uri":"c:"}]}"#);
    assert_eq!(
        p.events(),
        [Event::ListChanged {
            list: List::Resources,
            added: vec!["c:".into()],
            removed: vec!["b:".into()],
            changed: vec!["a:".into()],
        }]
    );
    assert_eq!(
        p.at_host(),
        [r#"{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}"#]
    );
    p.own_result(5, r#"{"resourceTemplates":[]}"#);
    assert_eq!(p.at_host(), [""; 0], "it was told already");
    assert_eq!(p.events().len(), 1);
}

#[test]
fn each_kind_of_list_has_its_own_notification() {
    let mut p = Pair::with_tools();
    p.request(2, "prompts/list");
    p.result(2, r#"{"prompts":[{"name":"p"}]}"#);
    p.die(Exit::Signal(9));
    p.revive();
    p.own_result(2, r#"{"tools":[]}"#);
    p.own_result(3, r#"{"prompts":[]}"#);
    assert_eq!(
        p.at_host(),
        [
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#
        ]
    );
}

#[test]
fn lists_the_host_has_not_read_are_not_asked_for() {
    let mut p = Pair::ready();
    p.request(1, "tools/list");
    p.result(1, r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#);
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.at_link(), [INITIALIZED], "it had read one page only");
}

#[test]
fn pages_are_read_to_the_end() {
    let mut p = Pair::with_tools();
    p.die(Exit::Signal(9));
    p.revive();
    p.own_result(
        2,
        r#"{"tools":[{"name":"safe","annotations":{"idempotentHint":true}}],"nextCursor":"a\"b"}"#,
    );
    assert_eq!(
        p.at_link(),
        [
            r#"{"jsonrpc":"2.0","id":"outlive-2-3","method":"tools/list","params":{"cursor":"a\"b"}}"#
        ]
    );
    p.own_result(3, r#"{"tools":[{"name":"risky"}]}"#);
    assert_eq!(p.all(), [""; 0], "the same");
}

#[test]
fn a_list_without_end_is_given_up() {
    let mut p = Pair::with_tools();
    p.die(Exit::Signal(9));
    p.revive();
    let mut asked = 1;
    for n in 2.. {
        p.own_result(n, r#"{"tools":[{"name":"x"}],"nextCursor":"again"}"#);
        match p.at_link().len() {
            1 => asked += 1,
            _ => break,
        }
    }
    assert_eq!(asked, 1_001);
    assert_eq!(
        p.at_host(),
        [""; 0],
        "what was not read to its end is not compared"
    );
}

#[test]
fn a_host_that_asks_for_itself_is_not_asked_twice() {
    let mut p = Pair::with_tools();
    p.die(Exit::Signal(9));
    p.revive();
    p.own_result(2, r#"{"tools":[]}"#);
    p.request(5, "tools/list");
    p.result(5, r#"{"tools":[]}"#);
    p.die(Exit::Signal(9));
    p.advance(200);
    p.revive();
    p.own_result(2, r#"{"tools":[]}"#);
    assert_eq!(p.at_host(), [""; 0], "compared with what it saw last");
}

#[test]
fn the_first_link_has_nothing_to_catch_up_with() {
    let mut p = Pair::ready();
    p.request(1, "tools/list");
    p.result(1, TOOLS);
    p.request(2, "ping");
    p.forget();
    p.result(2, "{}");
    assert_eq!(p.at_link(), [""; 0]);
}

#[test]
fn a_subscription_is_told_once_per_restart_and_only_if_it_stands() {
    let mut p = Pair::ready();
    let subscribe =
        r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a\"b"}}"#;
    p.host(subscribe);
    p.result(1, "{}");
    let updated =
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a\"b"}}"#;
    for _ in 0..2 {
        p.die(Exit::Signal(9));
        p.advance(200);
        p.up();
        p.forget();
        p.own_result(1, WELCOME);
        assert_eq!(p.at_host(), [updated]);
    }
    p.host(r#"{"jsonrpc":"2.0","id":2,"method":"resources/unsubscribe","params":{"uri":"a\"b"}}"#);
    p.result(2, "{}");
    p.feed(Input::Restart);
    p.die(Exit::Code(0));
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.at_host(), [""; 0]);
    assert_eq!(p.at_link(), [INITIALIZED]);
}

#[test]
fn subscriptions_beyond_the_limit_are_not_remembered() {
    let mut p = Pair::ready_with(|policy| policy.limits.subscriptions = 1);
    for (id, uri) in [(1, "a:"), (2, "b:")] {
        p.host(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/subscribe","params":{{"uri":"{uri}"}}}}"#
        ));
        p.result(id, "{}");
    }
    assert_eq!(p.session.sizes().subscriptions, 1);
    assert_eq!(p.at_host().len(), 2, "they stand all the same");
}

#[test]
fn the_last_accepted_level_is_the_one() {
    let mut p = Pair::ready();
    let level = |id: u64, level: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"logging/setLevel","params":{{"level":"{level}"}}}}"#
        )
    };
    p.host(&level(1, "info"));
    p.result(1, "{}");
    p.host(&level(2, "debug"));
    p.result(2, "{}");
    p.host(&level(3, "nonsense"));
    p.server(r#"{"id":3,"error":{"code":-32602,"message":"no such level"}}"#);
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    let replayed = level(2, "debug").replacen(r#""id":2"#, r#""id":"outlive-2-2""#, 1);
    assert_eq!(p.at_link(), [INITIALIZED, &replayed]);
}

#[test]
fn the_new_servers_name_is_told() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.own_result(
        1,
        r#"{"protocolVersion":"2025-06-18","serverInfo":{"name":"s","version":"2"}}"#,
    );
    let generation = p.newest();
    assert!(p.events().contains(&Event::Connected {
        generation,
        server: Some(software("s", Some("2")))
    }));
}

#[test]
fn a_restart_lets_what_is_in_flight_finish_and_holds_what_is_new() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.feed(Input::Restart);
    p.call(8, "any");
    assert_eq!(p.all(), [""; 0]);
    p.result(7, "{}");
    assert_eq!(
        p.all(),
        [
            r#"host: {"jsonrpc":"2.0","id":7,"result":{}}"#,
            "lost",
            "close input 1",
            "state down"
        ]
    );
    p.die(Exit::Code(0));
    assert_eq!(p.all(), ["kill 1", "state connecting", "connect 2"]);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    assert_eq!(p.at_link(), [INITIALIZED, &call(8, "any")]);
}

#[test]
fn a_restart_does_not_wait_for_ever() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.feed(Input::Restart);
    p.advance(999);
    assert_eq!(p.at_host(), [""; 0]);
    p.forget();
    p.advance(1);
    let failure = p.failure();
    assert_eq!(failure.about["cause"]["kind"], "requested");
    assert!(
        failure
            .message
            .starts_with("The server was restarted on request while running tool \"any\".")
    );
    assert_eq!(p.orders(), ["close input 1"]);
    p.advance(1_999);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1);
    assert_eq!(p.orders(), ["terminate 1"]);
    p.advance(2_999);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1);
    assert_eq!(p.orders(), ["kill 1"]);
    p.advance(999);
    assert_eq!(p.orders(), [""; 0]);
    p.advance(1);
    assert_eq!(p.orders(), ["connect 2"]);
}

#[test]
fn a_restart_during_a_start_begins_it_anew() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.feed(Input::Restart);
    assert_eq!(p.orders(), ["close input 2"]);
    p.die(Exit::Code(0));
    assert_eq!(p.orders(), ["kill 2", "connect 3"]);
}

#[test]
fn a_list_that_cannot_be_read_is_not_compared() {
    let mut p = Pair::with_tools();
    p.die(Exit::Signal(9));
    p.revive();
    p.server(r#"{"jsonrpc":"2.0","id":"outlive-2-2"}"#);
    assert_eq!(p.all(), ["dropped"]);
    assert_eq!(p.session.sizes().own, 0);
}

#[test]
fn a_list_that_can_no_longer_be_had_is_not_what_the_host_saw() {
    let mut p = Pair::with_tools();
    p.die(Exit::Signal(9));
    p.revive();
    p.server(r#"{"id":"outlive-2-2","error":{"code":-32603,"message":"no"}}"#);
    assert_eq!(
        p.all(),
        [r#"host: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#]
    );
}

#[test]
fn a_host_that_never_shook_hands_is_served_by_the_next_server_as_by_the_first() {
    let mut p = Pair::new(Default::default());
    p.up();
    p.request(1, "tools/list");
    p.result(1, TOOLS);
    p.die(Exit::Signal(9));
    p.forget();
    p.up();
    assert_eq!(p.all(), [""; 0]);
    p.request(2, "tools/list");
    assert_eq!(p.at_link(), [request(2, "tools/list")]);
    p.forget();
    p.result(2, TOOLS);
    assert_eq!(p.states().len(), 1, "ready when it answers");
}

#[test]
fn a_second_restart_changes_nothing_while_the_first_waits() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.feed(Input::Restart);
    p.advance(400);
    p.forget();
    p.feed(Input::Restart);
    p.advance(599);
    assert_eq!(p.all(), [""; 0], "what runs may finish");
    p.advance(1);
    assert_eq!(p.failure().about["cause"]["kind"], "requested");
    assert_eq!(
        p.orders(),
        ["close input 1"],
        "no later than was said first"
    );
}

#[test]
fn lists_longer_than_anybody_reads_are_not_compared() {
    for (items, compared) in [(100_000, true), (100_001, false)] {
        let tools: Vec<_> = (0..items).map(|n| format!(r#"{{"name":"{n}"}}"#)).collect();
        let mut p = Pair::ready();
        p.request(1, "tools/list");
        p.result(1, &format!(r#"{{"tools":[{}]}}"#, tools.join(",")));
        p.die(Exit::Signal(9));
        p.up();
        p.forget();
        p.own_result(1, WELCOME);
        let asked = p.at_link().contains(&list_tools(2, 2));
        assert_eq!(asked, compared, "{items}");
    }
}

#[test]
fn a_subscription_longer_than_any_address_is_not_remembered() {
    for (len, remembered) in [(16 << 10, 1), ((16 << 10) + 1, 0)] {
        let line = |uri: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{{"uri":"{uri}"}}}}"#
            )
        };
        let line = line(&"x".repeat(len - line("").len()));
        assert_eq!(line.len(), len);
        let mut p = Pair::ready();
        p.host(&line);
        p.result(1, "{}");
        assert_eq!(p.session.sizes().subscriptions, remembered);
    }
}

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// The host has read the first page of the tools; its server is gone, and the next one is there.
fn between_two_pages() -> Pair {
    let mut p = Pair::ready();
    p.request(1, "tools/list");
    p.result(1, r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#);
    p.die(Exit::Signal(9));
    p.revive();
    p.host(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"2"}}"#);
    p.forget();
    p
}

#[test]
fn a_list_of_pages_of_two_servers_is_compared_when_the_host_has_it() {
    for (whole, told) in [
        (r#"{"tools":[{"name":"b"},{"name":"c"}]}"#, true),
        (r#"{"tools":[{"name":"c"},{"name":"a"}]}"#, false),
    ] {
        let mut p = between_two_pages();
        p.result(2, r#"{"tools":[{"name":"c"}]}"#);
        assert_eq!(p.at_host().len(), 1, "the page");
        assert_eq!(p.at_link(), [list_tools(2, 2)]);
        p.own_result(2, whole);
        let changed: &[&str] = if told { &[CHANGED] } else { &[] };
        assert_eq!(p.at_host(), changed, "{whole}");
    }
}

#[test]
fn a_host_that_was_told_and_read_on_is_told_again() {
    let mut p = Pair::with_tools();
    p.request(2, "tools/list");
    p.result(2, r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#);
    p.die(Exit::Signal(9));
    p.up();
    p.own_result(1, WELCOME);
    p.forget();
    p.own_result(2, r#"{"tools":[{"name":"b"}]}"#);
    assert_eq!(p.at_host(), [CHANGED]);
    p.host(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"2"}}"#);
    p.forget();
    p.result(3, r#"{"tools":[{"name":"b"}]}"#);
    assert_eq!(p.at_link(), [list_tools(2, 3)]);
    p.forget();
    p.own_result(3, r#"{"tools":[{"name":"b"}]}"#);
    assert_eq!(p.at_host(), [CHANGED], "it has a and b");
}

#[test]
fn a_page_that_the_new_server_does_not_have_is_no_mixture() {
    let mut p = between_two_pages();
    p.server(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"Invalid cursor"}}"#);
    assert_eq!(p.at_link(), [""; 0]);
    p.request(3, "tools/list");
    p.forget();
    p.result(3, TOOLS);
    assert_eq!(p.at_link(), [""; 0], "it has begun anew");
}

/// What it would be asked for next cannot reach it.
#[test]
fn the_last_words_of_a_dead_server_are_not_answered() {
    let mut p = Pair::with_tools();
    p.die(Exit::Signal(9));
    p.up();
    p.own_result(1, WELCOME);
    p.eof();
    p.forget();
    p.own_result(2, r#"{"tools":[],"nextCursor":"2"}"#);
    assert_eq!(p.all(), [""; 0]);
}

/// The host goes by what it asked for last, and so does the next server, in whatever order answers come.
#[test]
fn a_late_answer_to_an_earlier_wish_does_not_undo_a_later_one() {
    let wish = |id: u64, wish: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/{wish}","params":{{"uri":"a:"}}}}"#
        )
    };
    for (last, stands) in [("subscribe", true), ("unsubscribe", false)] {
        let first = if stands { "unsubscribe" } else { "subscribe" };
        for answered in [true, false] {
            let mut p = Pair::ready();
            p.host(&wish(1, "subscribe"));
            p.result(1, "{}");
            p.host(&wish(2, first));
            p.host(&wish(3, last));
            p.result(3, "{}");
            if answered {
                p.result(2, "{}");
            }
            p.forget();
            p.die(Exit::Signal(9));
            // It is not sent again, where it would undo the later one.
            let told = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
            assert_eq!(p.at_host(), if answered { vec![] } else { vec![told] });
            p.up();
            p.forget();
            p.own_result(1, WELCOME);
            let replayed = p
                .at_link()
                .iter()
                .filter(|it| it.contains("resources/"))
                .count();
            assert_eq!(replayed, usize::from(stands), "{last} last, {answered}");
        }
    }
}

#[test]
fn a_level_that_is_answered_late_is_not_the_last_one() {
    let level = |id: u64, level: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"logging/setLevel","params":{{"level":"{level}"}}}}"#
        )
    };
    let mut p = Pair::ready();
    p.host(&level(1, "debug"));
    p.host(&level(2, "error"));
    p.result(2, "{}");
    p.result(1, "{}");
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    let levels: Vec<String> = p
        .at_link()
        .into_iter()
        .filter(|it| it.contains("setLevel"))
        .collect();
    assert!(
        levels.len() == 1 && levels[0].contains("error"),
        "{levels:?}"
    );
}

/// A host may write what it wants behind its handshake without waiting for it, and a server may answer that first.
#[test]
fn what_was_asked_for_after_a_handshake_is_kept_when_it_is_answered_first() {
    let mut p = Pair::new(Default::default());
    p.host(INITIALIZE);
    p.host(r#"{"jsonrpc":"2.0","id":8,"method":"logging/setLevel","params":{"level":"debug"}}"#);
    p.host(r#"{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"a:"}}"#);
    p.up();
    p.result(8, "{}");
    p.result(9, "{}");
    p.result(0, WELCOME);
    p.die(Exit::Signal(9));
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    let replayed = p.at_link().join("\n");
    assert!(replayed.contains("setLevel"), "{replayed}");
    assert!(replayed.contains("resources/subscribe"), "{replayed}");
}

/// The host saw its notification taken before it answered.
#[test]
fn an_answer_to_a_server_that_is_replaced_does_not_overtake_a_notification() {
    let mut p = Pair::ready();
    p.request(1, "tools/call");
    p.server(r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#);
    p.feed(Input::Restart);
    p.forget();
    let note = r#"{"jsonrpc":"2.0","method":"notifications/custom"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}"#;
    p.host(note);
    p.host(answer);
    assert_eq!(p.at_link(), [note, answer]);
}

/// Whoever leads what the server says to several clients has to know what it is still at work on.
#[test]
fn it_is_told_when_the_server_is_done_with_what_nobody_waits_for() {
    let over = |p: &mut Pair| {
        p.take(|output| match output {
            outlive_core::Output::Over(id) => Some(id.to_string()),
            _ => None,
        })
    };
    let mut p = Pair::ready();
    p.request(1, "tools/call");
    p.host(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(over(&mut p), [""; 0], "it goes on with it");
    p.result(1, "{}");
    assert_eq!(over(&mut p), ["1"]);
    // One that was never sent is over at once.
    p.die(Exit::Signal(9));
    p.forget();
    p.request(2, "tools/call");
    p.host(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#);
    assert_eq!(over(&mut p), ["2"]);
}

#[test]
fn what_is_said_on_the_stream_of_a_request_is_passed_on_with_its_owner() {
    use outlive_core::{Frame, Id, LinkInput, Output};
    let custom = r#"{"jsonrpc":"2.0","method":"notifications/custom"}"#;
    let owners = |p: &mut Pair| {
        p.link(LinkInput::FrameOf(Id::Int(1), Frame::read(custom.into())));
        p.take(|output| match output {
            Output::ToHostOf(owner, line) if line.bytes() == custom => Some(owner.clone()),
            _ => None,
        })
    };
    let mut p = Pair::ready();
    p.request(1, "tools/call");
    p.forget();
    assert_eq!(owners(&mut p), [Some(Id::Int(1))]);
    p.host(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    p.forget();
    assert_eq!(owners(&mut p), [None], "nobody waits for it");
}

/// What a host hears of a server that was replaced.
const REPLACED: &str = "server_replaced";

fn set_level(p: &mut Pair, id: u64, level: &str) {
    p.host(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"logging/setLevel","params":{{"level":"{level}"}}}}"#
    ));
    p.result(id, "{}");
}

/// The server dies, and the next one comes into service: what the host hears of it.
fn replace(p: &mut Pair) -> Vec<String> {
    p.die(Exit::Signal(9));
    // However long the pause is.
    p.advance(1000);
    p.up();
    p.forget();
    p.own_result(1, WELCOME);
    let heard = p.at_host().into_iter().map(|it| it.to_string());
    heard.filter(|it| it.contains(REPLACED)).collect()
}

#[test]
fn fm_74_a_host_that_reads_logs_is_told_once_that_its_server_was_replaced() {
    let mut p = Pair::ready();
    set_level(&mut p, 1, "info");
    p.call(2, "any");
    p.result(2, "{}");
    let heard = replace(&mut p);
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].contains(r#""level":"warning""#), "{heard:?}");
    assert!(heard[0].contains(r#""logger":"outlive""#), "{heard:?}");
    assert!(heard[0].contains("in memory is gone"), "{heard:?}");
    let again = replace(&mut p);
    assert_eq!(
        again, [""; 0],
        "the next one was asked nothing: it knew nothing"
    );
}

#[test]
fn fm_74_a_call_that_was_lost_with_the_server_counts_as_one_that_it_was_asked() {
    let mut p = Pair::ready();
    set_level(&mut p, 1, "debug");
    p.call(2, "any");
    assert_eq!(replace(&mut p).len(), 1);
}

#[test]
fn fm_74_what_only_reads_leaves_nothing_in_memory() {
    let mut p = Pair::ready();
    set_level(&mut p, 1, "debug");
    p.request(2, "tools/list");
    p.result(2, r#"{"tools":[]}"#);
    p.request(3, "resources/read");
    p.result(3, "{}");
    assert_eq!(replace(&mut p), [""; 0]);
}

#[test]
fn fm_74_a_host_that_does_not_want_warnings_is_not_told() {
    let mut p = Pair::ready();
    p.call(2, "any");
    p.result(2, "{}");
    assert_eq!(replace(&mut p), [""; 0], "it has asked for no log messages");
    set_level(&mut p, 3, "info");
    assert_eq!(replace(&mut p), [""; 0], "that was before it asked");
    p.call(4, "any");
    p.result(4, "{}");
    set_level(&mut p, 5, "error");
    assert_eq!(replace(&mut p), [""; 0], "it wants errors only");
}
