//! Search instead of listing: two tools stand for all.

use std::sync::Arc;

use outlive_core::roster::{Expose, Roster};
use outlive_core::router::Input;
use serde_json::{Value, json};

use crate::rig::{Rig, names};

fn searchable() -> Rig {
    let mut rig = Rig::known(&[("git", &["commit", "push"]), ("clock", &["now"])]);
    let roster = Roster::new(&rig.entries, &rig.naming, &rig.view);
    rig.feed(Input::Roster(Arc::new(Expose::Search.apply(roster))));
    rig.initialize();
    rig
}

#[test]
fn two_tools_are_listed_and_find_the_others() {
    let mut rig = searchable();
    assert_eq!(rig.tools(1), ["find_tools", "call_tool"]);
    rig.request(
        2,
        "tools/call",
        json!({"name": "find_tools", "arguments": {"query": "commit", "limit": 1}}),
    );
    let found = rig.answer(2)["result"]["structuredContent"].clone();
    assert_eq!(names(&json!({ "result": found })), ["git__commit"]);
    assert_eq!(rig.orders, [], "nothing was started");
}

#[test]
fn a_call_of_what_was_found_reaches_its_server_with_its_arguments() {
    let mut rig = searchable();
    let arguments = json!({"arguments": {"message": "a \"b\""}, "name": "git__commit"});
    rig.request(
        1,
        "tools/call",
        json!({"name": "call_tool", "arguments": arguments}),
    );
    let heard = rig.shake(0, &["commit", "push"]);
    let call = heard.iter().find(|it| it.1["id"] == 1).expect("the call");
    assert_eq!(
        call.1["params"],
        json!({"name": "commit", "arguments": {"message": "a \"b\""}})
    );
    // By its own name it can be called as well.
    rig.call(2, "clock__now");
    rig.serve(1, &["now"]);
    rig.answer(2);
}

#[test]
fn bad_calls_of_the_two_tools_say_what_is_wrong() {
    let mut rig = searchable();
    for (id, arguments) in [(1, json!({})), (2, json!({"query": 7})), (3, json!([]))] {
        rig.request(
            id,
            "tools/call",
            json!({"name": "find_tools", "arguments": arguments}),
        );
        assert_eq!(rig.answer(id)["result"]["isError"], true);
    }
    let nothing = "Nothing was called: ";
    let wrong: [(Value, &str); 6] = [
        (json!({}), nothing),
        (json!({"name": 7}), nothing),
        (json!({"name": "git__commit", "arguments": "{}"}), nothing),
        (json!({"name": "git__commit", "arguments": []}), nothing),
        (
            json!({"name": "git__nothing"}),
            "Unknown tool: \"git__nothing\"",
        ),
        (json!({"name": "call_tool"}), "Unknown tool: \"call_tool\""),
    ];
    for (id, (arguments, words)) in (4..).zip(wrong) {
        rig.request(
            id,
            "tools/call",
            json!({"name": "call_tool", "arguments": arguments}),
        );
        let error = rig.answer(id)["error"].clone();
        assert_eq!(error["code"], -32602, "{arguments}");
        let said = error["message"].as_str().expect("a sentence");
        assert!(said.starts_with(words), "{arguments}: {said}");
    }
}

#[test]
fn a_list_becomes_a_search_by_itself_when_it_is_long() {
    let few: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
    let few: Vec<&str> = few.iter().map(String::as_str).collect();
    let rig = Rig::known(&[("a", &few)]);
    let roster = |rig: &Rig| Roster::new(&rig.entries, &rig.naming, &rig.view);
    assert!(!Expose::Auto.apply(roster(&rig)).is_searchable());
    let rig = Rig::known(&[("a", &few), ("b", &["one"])]);
    assert!(Expose::Auto.apply(roster(&rig)).is_searchable());
    assert!(!Expose::List.apply(roster(&rig)).is_searchable());
}

#[test]
fn a_search_waits_for_servers_that_were_never_seen_and_names_those_that_do_not_come() {
    let mut rig = Rig::new(&["git", "late"]);
    let roster = Roster::new(&rig.entries, &rig.naming, &rig.view);
    rig.feed(Input::Roster(Arc::new(Expose::Search.apply(roster))));
    rig.initialize();
    rig.request(
        1,
        "tools/call",
        json!({"name": "find_tools", "arguments": {"query": "commit"}}),
    );
    assert!(rig.answers(1).is_empty());
    rig.pass(std::time::Duration::from_secs(6));
    let answer = rig.answer(1);
    let words = answer["result"]["content"][0]["text"]
        .as_str()
        .expect("words");
    assert!(words.contains("git, late"), "{words}");
}
