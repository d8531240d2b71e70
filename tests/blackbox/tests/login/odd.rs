//! Servers that are right in their own way, and crowds.

use std::sync::Barrier;
use std::thread::{self, sleep};
use std::time::Duration;

use serde_json::json;

use crate::person::{Login, asked, link_of, logged_in, setup, store};
use crate::provider::Provider;
use crate::rig::Host;
use crate::web::response;

fn provider() -> Provider {
    Provider::start(Duration::from_secs(3600))
}

/// Other ways to log in stand before ours, each in a header of its own.
#[test]
fn of_several_challenges_ours_is_found() {
    let provider = provider();
    let others = [
        "Negotiate",
        "Basic realm=\"a, Bearer scope=\\\"evil\\\"\"",
        "Digest qop=\"auth,auth-int\", nonce=\"x==\"",
    ];
    provider.books().challenges = others.map(String::from).to_vec();
    // It is found by the challenge, or not at all.
    provider.books().place = Some("/about/mcp".into());
    let (_folder, store) = logged_in(&provider);
    let seen = provider.web.seen();
    assert!(seen.iter().any(|it| it.path == "/about/mcp"), "{seen:?}");
    let mut host = Host::ready(setup(&provider, &store));
    provider.withdraw_access();
    host.ask("echo", json!({})).result();
    assert_eq!((asked(&host), provider.books().logins), (0, 1));
    provider.check();
}

/// What an authorization server says is one line, whatever it says.
#[test]
fn words_of_others_move_no_cursor() {
    let provider = provider();
    let why = format!("\u{1b}[2J\u{7}evil\r\nwords\u{202e}{}", "x".repeat(100_000));
    let body = json!({"error": "invalid_grant", "error_description": why}).to_string();
    let refusal = response(400, &[("content-type", "application/json")], &body);
    provider.books().pages.insert("/token".into(), refusal);
    let (_folder, store) = store();
    let login = Login::start(&provider, &store, &[]);
    login.link().log_in(&provider);
    let (status, said) = login.end();
    assert!(!status.success() && said.contains("evilwords"), "{said}");
    let moves = |it: char| it.is_control() && it != '\n' || it == '\u{202e}';
    assert!(!said.contains(moves) && said.len() < 20_000, "{said:?}");
}

/// An authorization server chooses what we are called, and so how long the link is.
#[test]
fn a_link_that_no_browser_opens_is_not_shown() {
    let provider = provider();
    let client = json!({"client_id": "y".repeat(100_000)}).to_string();
    let registered = response(201, &[("content-type", "application/json")], &client);
    provider
        .books()
        .pages
        .insert("/register".into(), registered);
    let (_folder, store) = store();
    let login = Login::start(&provider, &store, &[]);
    let (status, said) = login.end();
    assert!(
        !status.success() && said.contains("longer than a browser opens"),
        "{said}"
    );
    assert_eq!(
        said.matches("longer than").count(),
        1,
        "it is said once: {said}"
    );
}

/// A refresh that brings no refresh token leaves the one there is.
#[test]
fn refresh_tokens_that_last_are_kept() {
    let provider = provider();
    provider.books().lasting = true;
    let (_folder, store) = logged_in(&provider);
    let mut host = Host::ready(setup(&provider, &store));
    for n in 1..=3 {
        provider.withdraw_access();
        host.ask("echo", json!({})).result();
        assert_eq!((asked(&host), provider.books().refreshes), (0, n));
    }
    assert_eq!(provider.books().logins, 1);
}

/// Lives of tokens that make no sense cost neither a login nor a storm of refreshes.
#[test]
fn odd_lives_cost_nothing() {
    for odd in [
        json!(-5),
        json!("3600"),
        json!(1e300),
        json!(0),
        json!("soon"),
        json!([]),
    ] {
        let provider = provider();
        provider.books().expires_in = odd.clone();
        let (_folder, store) = logged_in(&provider);
        let mut host = Host::ready(setup(&provider, &store));
        for _ in 0..5 {
            host.ask("echo", json!({})).result();
        }
        assert_eq!((asked(&host), provider.books().refreshes), (0, 0), "{odd}");
    }
}

/// Eight processes start at once, and the token that all of them find has expired: one refresh.
#[test]
fn fm_28_a_crowd_that_starts_with_an_expired_token_refreshes_once() {
    let provider = provider();
    provider.books().expires_in = json!(1);
    let (_folder, store) = logged_in(&provider);
    provider.books().expires_in = json!(null);
    provider.withdraw_access();
    sleep(Duration::from_secs(2));
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                let mut host = Host::ready(setup(&provider, &store));
                host.ask("echo", json!({})).result();
                assert_eq!(asked(&host), 0);
            });
        }
    });
    provider.check();
    let books = provider.books();
    assert_eq!((books.logins, books.refreshes), (1, 1));
}

/// Somebody logs in by hand while another process asks: they are told why nothing happens, and it goes on after that.
#[test]
fn a_login_waits_for_another_and_says_so() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let mut host = Host::ready(setup(&provider, &store));
    provider.withdraw_all();
    let id = host.call("echo", json!({}));
    let first = link_of(&host, 1);
    thread::scope(|scope| {
        let by_hand = scope.spawn(|| Login::start(&provider, &store, &[]));
        sleep(Duration::from_secs(4));
        first.log_in(&provider);
        host.answer(id).result();
        let by_hand = by_hand.join().expect("a login");
        by_hand.link().log_in(&provider);
        let (status, said) = by_hand.end();
        assert!(
            status.success() && said.contains("another process"),
            "{said}"
        );
    });
    host.ask("echo", json!({})).result();
    provider.check();
}
