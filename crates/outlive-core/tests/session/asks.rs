//! Requests of the server to the host.

use outlive_core::cause::Exit;
use outlive_core::event::{Direction, DropReason};
use outlive_core::{Input, LinkInput};
use serde_json::{Value, json};

use crate::pair::*;

fn ask(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"sampling/createMessage","params":{{"_meta":{{"progressToken":"p"}}}}}}"#
    )
}

fn reply(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"role":"user"}}}}"#)
}

fn unknown_answer(id: &str) -> (Direction, DropReason, String) {
    (
        Direction::ToServer,
        DropReason::UnknownAnswer,
        format!("id {id}"),
    )
}

#[test]
fn the_first_servers_requests_pass_as_they_are() {
    let mut p = Pair::ready();
    p.server(&ask("1"));
    assert_eq!(p.at_host(), [ask("1")]);
    p.host(&reply("1"));
    assert_eq!(p.at_link(), [reply("1")]);
    p.host(&reply("1"));
    assert_eq!(p.drops(), [unknown_answer("1")], "once");
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn a_request_may_have_the_id_of_one_of_the_hosts() {
    let mut p = Pair::ready();
    p.call(1, "any");
    p.server(&ask("1"));
    p.forget();
    p.host(&reply("1"));
    assert_eq!(p.at_link(), [reply("1")]);
    p.result(1, "{}");
    assert_eq!(p.at_host(), [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]);
}

#[test]
fn a_later_servers_requests_get_ids_of_their_own_and_their_own_back() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.revive();
    p.server(&ask("1.0"));
    assert_eq!(p.at_host(), [ask(r#""outlive-2-2""#)]);
    p.host(&reply("1.0"));
    assert_eq!(p.drops(), [unknown_answer("1")], "that one was not asked");
    p.host(&reply(r#""outlive-2-2""#));
    assert_eq!(p.at_link(), [reply("1.0")], "as the server wrote it");
}

#[test]
fn a_host_that_changes_the_type_of_an_id_is_understood() {
    let mut p = Pair::ready();
    p.server(&ask("1"));
    p.forget();
    p.host(&reply(r#""1""#));
    assert_eq!(p.at_link(), [reply("1")]);
}

#[test]
fn an_id_that_is_used_twice_is_told_apart() {
    let mut p = Pair::ready();
    p.server(&ask("1"));
    p.server(&ask("1"));
    assert_eq!(p.at_host(), [ask("1"), ask(r#""outlive-1-1""#)]);
    p.host(&reply(r#""outlive-1-1""#));
    p.host(&reply("1"));
    assert_eq!(p.at_link(), [reply("1"), reply("1")]);
}

#[test]
fn a_name_that_an_open_request_of_the_server_has_is_passed_over() {
    let mut p = Pair::ready();
    p.server(&ask(r#""outlive-1-1""#));
    p.server(&ask(r#""outlive-1-1""#));
    assert_eq!(
        p.at_host(),
        [ask(r#""outlive-1-1""#), ask(r#""outlive-1-2""#)]
    );
}

#[test]
fn what_a_dead_server_asked_is_taken_back() {
    let mut p = Pair::ready();
    p.server(&ask("1"));
    p.forget();
    p.die(Exit::Code(1));
    assert_eq!(
        p.at_host(),
        [
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"The server exited with code 1."}}"#
        ]
    );
    p.revive();
    p.host(&reply("1"));
    assert_eq!(p.drops(), [unknown_answer("1")]);
    assert_eq!(p.at_link(), [""; 0], "never to another generation");
}

#[test]
fn an_answer_is_of_no_use_to_a_dying_server() {
    let mut p = Pair::ready();
    p.server(&ask("1"));
    p.eof();
    p.forget();
    p.host(&reply("1"));
    assert_eq!(p.drops(), [unknown_answer("1")]);
    p.server(&ask("2"));
    assert_eq!(p.all(), [""; 0]);
}

#[test]
fn a_server_takes_back_what_it_asked() {
    let mut p = Pair::ready();
    p.server(&ask("1"));
    p.forget();
    p.server(&cancelled(1));
    assert_eq!(p.at_host(), [cancelled(1)]);
    p.host(&reply("1"));
    assert_eq!(p.drops(), [unknown_answer("1")]);
    p.server(&cancelled(1));
    assert_eq!(
        p.drops(),
        [(
            Direction::ToHost,
            DropReason::UselessCancel,
            "no such request".into()
        )]
    );
    assert_eq!(p.at_host(), [""; 0]);
    // Under the name the host knows it by.
    p.die(Exit::Signal(9));
    p.revive();
    p.server(&ask("1"));
    p.forget();
    p.server(&cancelled(1));
    assert_eq!(
        p.at_host(),
        [cancelled(1).replace(r#""requestId":1"#, r#""requestId":"outlive-2-2""#)]
    );
}

#[test]
fn a_server_cannot_cancel_what_the_host_asked() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.server(&cancelled(7));
    assert_eq!(p.drops().len(), 1);
    assert_eq!(p.at_host(), [""; 0]);
    p.result(7, "{}");
    assert_eq!(p.at_host().len(), 1);
}

#[test]
fn unanswered_requests_are_limited() {
    let mut p = Pair::ready_with(|policy| policy.limits.asks = 2);
    p.server(&ask("1"));
    p.server(&ask("2"));
    p.forget();
    p.server(&ask("3"));
    assert_eq!(p.at_host(), [""; 0]);
    let answer = failure(&p.at_link()[0]);
    assert_eq!(
        (answer.id.clone(), answer.kind()),
        (json!(3), "unavailable")
    );
    assert_eq!(p.session.sizes().asks, 2);
    p.host(&reply("1"));
    p.forget();
    p.server(&ask("3"));
    assert_eq!(p.at_host(), [ask("3")]);
}

#[test]
fn the_hosts_progress_goes_to_the_server_that_asked() {
    let progress = |token: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
        )
    };
    let late = (
        Direction::ToServer,
        DropReason::LateProgress,
        "the host's progress".to_string(),
    );
    let mut p = Pair::ready();
    p.server(&ask("1"));
    p.server(r#"{"jsonrpc":"2.0","id":2,"method":"roots/list"}"#);
    p.forget();
    p.host(&progress(r#""p""#));
    assert_eq!(p.at_link(), [progress(r#""p""#)]);
    p.host(&progress(r#""q""#));
    assert_eq!(p.drops(), std::slice::from_ref(&late));
    p.host(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}"#);
    assert_eq!(p.drops(), std::slice::from_ref(&late));
    p.die(Exit::Signal(9));
    p.revive();
    p.host(&progress(r#""p""#));
    assert_eq!(p.drops(), [late]);
    assert_eq!(p.at_link(), [""; 0]);
}

#[test]
fn a_server_may_ask_while_it_is_being_restored_or_retired() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.feed(Input::Restart);
    p.forget();
    p.server(&ask("1"));
    assert_eq!(p.at_host(), [ask("1")]);
    p.host(&reply("1"));
    assert_eq!(p.at_link(), [reply("1")]);
    p.result(7, "{}");
    p.die(Exit::Code(0));
    p.up();
    p.forget();
    p.server(&ask("1"));
    assert_eq!(p.at_host(), [ask(r#""outlive-2-2""#)]);
}

#[test]
fn nobody_is_left_to_answer_when_the_host_has_gone() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.server(&ask("1"));
    p.forget();
    p.feed(Input::HostClosed);
    let answer = failure(&p.at_link()[0]);
    assert_eq!(
        (answer.id, answer.about["kind"].clone()),
        (json!(1), json!("shutting_down"))
    );
    p.server(&ask("2"));
    let answer = failure(&p.at_link()[0]);
    assert_eq!(answer.id, 2);
    assert_eq!(answer.kind(), "shutting_down");
    assert_eq!(p.at_host(), [""; 0]);
}

#[test]
fn what_was_asked_is_taken_back_when_the_session_ends() {
    let mut p = Pair::ready();
    p.server(&ask("1"));
    p.forget();
    p.feed(Input::Stop);
    let told: Value = serde_json::from_str(&p.at_host()[0]).expect("JSON");
    assert_eq!(told["params"]["requestId"], 1);
    assert_eq!(told["params"]["reason"], "The server was stopped.");
}

#[test]
fn a_request_of_a_link_that_was_replaced_goes_nowhere() {
    let mut p = Pair::ready();
    p.die(Exit::Signal(9));
    p.revive();
    p.old_link(
        1,
        LinkInput::Frame(outlive_core::Frame::read(ask("1").into())),
    );
    assert_eq!(p.at_host(), [""; 0]);
    assert_eq!(p.session.sizes().asks, 0);
}
