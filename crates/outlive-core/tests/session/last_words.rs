//! What a server wrote shortly before its end.

use outlive_core::cause::Exit;
use outlive_core::{Event, Policy};
use serde_json::json;

use crate::pair::*;

#[test]
fn last_words_are_kept_as_they_were_but_for_what_moves_a_cursor() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.forget();
    p.stderr("naïve \"x\" \\ y\u{1b}[0m\tend");
    p.die(Exit::Code(1));
    let message = p.failure().message;
    let (_, words) = message.split_once("from outlive): ").expect("its words");
    assert_eq!(words, "\"naïve \"x\" \\ y\\u{1b}[0m end\"");
}

/// What the host is told that the server wrote, after `script` and this end.
fn last_words(exit: Exit, script: impl FnOnce(&mut Pair)) -> Vec<String> {
    let mut p = Pair::ready();
    p.call(7, "any");
    script(&mut p);
    p.forget();
    p.die(exit);
    let failure = p.failure();
    let tail = failure.about["cause"]["stderr_tail"].as_array().cloned();
    let tail = tail.unwrap_or_default();
    let tail: Vec<String> = tail
        .iter()
        .map(|line| line.as_str().expect("text").into())
        .collect();
    assert_eq!(
        failure.message.contains("not advice from outlive"),
        !tail.is_empty()
    );
    tail
}

#[test]
fn only_what_was_written_shortly_before_the_end_counts_as_last_words() {
    for (before, told) in [(5_000, true), (5_001, false)] {
        let words = last_words(Exit::Code(1), |p| {
            p.stderr("pip install --upgrade server");
            p.advance(before);
        });
        assert_eq!(!words.is_empty(), told, "{before}");
    }
    let words = last_words(Exit::Code(1), |p| {
        p.stderr("banner");
        p.advance(60_000);
        p.stderr("  Traceback");
    });
    assert_eq!(words, ["  Traceback"]);
}

#[test]
fn a_server_that_somebody_ended_has_last_words_only_if_it_was_just_speaking() {
    for (before, told) in [(2_000, true), (2_001, false)] {
        for signal in [1, 2, 9, 15] {
            let words = last_words(Exit::Signal(signal), |p| {
                p.stderr("something");
                p.advance(before);
            });
            assert_eq!(!words.is_empty(), told, "{before}");
        }
    }
    // What it wrote while it started has nothing to do with it, however short its life.
    let mut p = Pair::new(Policy::default());
    p.up();
    p.stderr("Update available: pip install --upgrade server");
    p.advance(10);
    p.host(INITIALIZE);
    p.result(0, WELCOME);
    p.call(7, "any");
    p.forget();
    p.die(Exit::Signal(9));
    assert_eq!(p.failure().about["cause"].get("stderr_tail"), None);
}

#[test]
fn a_server_that_somebody_ended_in_its_handshake_has_no_last_words() {
    for (exit, told) in [
        (Exit::Signal(9), false),
        (Exit::Signal(15), false),
        (Exit::Signal(11), true),
    ] {
        let mut p = Pair::new(Policy::default());
        p.up();
        p.host(INITIALIZE);
        p.stderr("Update available: pip install --upgrade server");
        p.forget();
        p.die(exit);
        let lost = p.events().into_iter().find_map(|event| match event {
            Event::Lost { cause, .. } => Some(cause),
            _ => None,
        });
        let words = lost.expect("it is lost").stderr_tail;
        assert_eq!(!words.is_empty(), told, "{exit:?}");
    }
}

#[test]
fn a_banner_is_left_out_where_there_are_later_words() {
    for later in [&[][..], &["Traceback"]] {
        let mut p = Pair::new(Policy::default());
        p.up();
        p.stderr("banner");
        p.advance(10);
        p.host(INITIALIZE);
        p.result(0, WELCOME);
        p.call(7, "any");
        for line in later {
            p.stderr(line);
        }
        p.forget();
        p.die(Exit::Code(1));
        let told = if later.is_empty() {
            &["banner"][..]
        } else {
            later
        };
        assert_eq!(p.failure().about["cause"]["stderr_tail"], json!(told));
    }
}

#[test]
fn a_server_that_hangs_has_for_last_words_what_it_wrote_before_it_fell_silent() {
    for (later, told) in [(5_000, true), (5_001, false)] {
        let mut p = Pair::ready();
        p.stderr("deadlock");
        p.advance(later);
        p.server(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
        p.forget();
        p.advance(90_000);
        let lost = p.events().into_iter().find_map(|event| match event {
            Event::Lost { cause, .. } => Some(cause),
            _ => None,
        });
        let lost = lost.expect("it is given up");
        assert_eq!(lost.kind(), "unresponsive");
        assert_eq!(!lost.stderr_tail.is_empty(), told, "{later}");
    }
}

#[test]
fn the_words_of_a_server_that_we_end_are_nobodys_business() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.stderr("working");
    p.forget();
    p.feed(outlive_core::Input::Restart);
    p.advance(1_000);
    assert_eq!(p.failure().about["cause"].get("stderr_tail"), None);
}

#[test]
fn long_lines_of_a_server_are_cut_in_the_sentence() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.stderr(&format!("   {}", "é".repeat(150)));
    p.forget();
    p.die(Exit::Code(1));
    let failure = p.failure();
    let end = format!("from outlive): \"{}…\"", "é".repeat(100));
    assert!(failure.message.ends_with(&end), "{}", failure.message);
    assert_eq!(
        failure.about["cause"]["stderr_tail"][0]
            .as_str()
            .map(str::len),
        Some(303)
    );
}
