//! Standard input and output belong to the protocol.

use serde_json::{Value, json};

use crate::process::Server;

/// FM-11, FM-65.
#[test]
fn fm_65_what_a_tool_prints_or_its_children_do_is_not_in_the_protocol() {
    let mut server = Server::ready(&[]);
    for round in 0..5 {
        // The rig refuses every line that is no message.
        let printed = server.call(format!("print {round}"), "print", json!({}));
        assert!(printed["result"].is_object(), "{printed}");
        // `cat` would eat the requests that follow, or wait for them for ever.
        server.begin_call(format!("spawn {round}"), "spawn", json!({}));
        server.begin_call(format!("ping {round}"), "ping", json!({}));
        let spawned = server.answer_to(format!("spawn {round}"));
        let said = spawned["result"]["content"][0]["text"].as_str();
        assert_eq!(said, Some("exit status: 0, exit status: 0"));
        server.answer_to(format!("ping {round}"));
    }
    assert_eq!(server.kept(), [] as [Value; 0]);
    let end = server.finish();
    assert_eq!(end.code, Some(0));
    assert_eq!(end.stderr.matches("not a message\n").count(), 5);
    assert_eq!(end.stderr.matches("from a child\n").count(), 5);
    assert_eq!(end.said, [] as [Value; 0]);
}

/// No descriptor of the protocol is inherited by a child, whatever its number.
#[cfg(target_os = "linux")]
#[test]
fn a_child_inherits_nothing_of_the_protocol() {
    let mut server = Server::ready(&[]);
    let listed = server.call(1, "descriptors", json!({}));
    let text = listed["result"]["content"][0]["text"]
        .as_str()
        .expect("text");
    let behind = |number: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs.find(|(n, _)| *n == number).map(|(_, file)| file)
    };
    assert_eq!(behind("0"), Some("/dev/null"), "{text}");
    assert_eq!(behind("1"), behind("2"), "standard error: {text}");
    for pipe in &server.pipes {
        assert!(pipe.starts_with("pipe:"), "{pipe}");
        assert!(!text.contains(pipe.as_str()), "{pipe} is among\n{text}");
    }
    server.finish().assert_quiet();
}

/// Standard error may be closed: what is printed goes nowhere then, and least of all into a file
/// that happens to get its number.
#[test]
fn a_closed_standard_error_is_no_harm() {
    let mut server = Server::with_closed_stderr();
    server.shake_hands();
    for round in 0..3 {
        let printed = server.call(round, "print", json!({}));
        assert!(printed["result"].is_object(), "{printed}");
    }
    let end = server.finish();
    assert_eq!((end.code, end.said), (Some(0), Vec::new()));
}
