//! Tokens that expire while calls are made.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::person::{asked, link_of, logged_in, setup};
use crate::provider::{Fault, Provider};
use crate::rig::Host;

/// FM-27: tokens live for two seconds, and no call notices. When the refresh token is withdrawn there is one login, the
/// call that waits for it says where, and after it everything works again.
#[test]
fn fm_27_an_expiring_token_is_refreshed_and_no_call_notices() {
    let provider = Provider::start(Duration::from_secs(2));
    let (_folder, store) = logged_in(&provider);
    let mut host = Host::ready(setup(&provider, &store));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(9) {
        host.ask("echo", json!({})).result();
        sleep(Duration::from_millis(100));
    }
    assert!(provider.books().refreshes >= 3);
    assert_eq!(
        provider.web.asked("initialize").len(),
        1,
        "it is one session"
    );
    provider.check();

    provider.withdraw_all();
    let calls: Vec<i64> = (0..5).map(|_| host.call("echo", json!({}))).collect();
    let link = link_of(&host, 1);
    link.log_in(&provider);
    for id in calls {
        host.answer(id).result();
    }
    assert_eq!((asked(&host), provider.books().logins), (1, 2));
    provider.check();
    let log = fs::read_to_string(host.setup.path("log.jsonl")).unwrap();
    provider.check_hidden(&log);
}

/// A refresh that fails for a moment costs nobody a login.
#[test]
fn a_refresh_that_fails_for_a_moment_is_tried_again() {
    for fault in [Fault::Status(500), Fault::Status(429), Fault::Reset] {
        let provider = Provider::start(Duration::from_secs(3600));
        let (_folder, store) = logged_in(&provider);
        let mut host = Host::ready(setup(&provider, &store));
        provider.withdraw_access();
        provider.books().faults.extend([fault, fault]);
        host.ask("echo", json!({})).result();
        assert_eq!(
            (asked(&host), provider.books().refreshes),
            (0, 3),
            "{fault:?}"
        );
        provider.check();
    }
}

/// A token that the server refuses although a login has just brought it: one login, not a storm, and a word about it.
#[test]
fn a_login_that_does_not_help_is_not_repeated() {
    let provider = Provider::start(Duration::from_secs(3600));
    let (_folder, store) = logged_in(&provider);
    let mut host = Host::ready(setup(&provider, &store));
    provider.withdraw_all();
    let id = host.call("echo", json!({}));
    let link = link_of(&host, 1);
    // What it gets is withdrawn before it is used.
    provider.books().pages.insert(
        "/mcp".into(),
        crate::web::response(
            401,
            &[("www-authenticate", "Bearer error=\"invalid_token\"")],
            "",
        ),
    );
    link.log_in(&provider);
    let answer = host.answer(id);
    assert!(
        answer.message().contains("another login would not help"),
        "{}",
        answer.message()
    );
    assert_eq!(asked(&host), 1);
}

/// A call does not wait for a person for ever: it says where to log in. The login goes on, and after it calls work.
#[test]
fn a_call_that_has_waited_long_enough_says_where_to_log_in() {
    let provider = Provider::start(Duration::from_secs(3600));
    let (_folder, store) = logged_in(&provider);
    let mut host = Host::ready(setup(&provider, &store).flags(&["--hold", "1s"]));
    provider.withdraw_all();
    let id = host.call("echo", json!({}));
    let answer = host.answer(id);
    let link = format!("open {}/authorize?", provider.origin());
    assert!(answer.message().contains(&link), "{}", answer.message());
    assert!(answer.message().contains("It was not executed."));
    link_of(&host, 1).log_in(&provider);
    host.logged(1, "logged_in", |_| true);
    host.ask("echo", json!({})).result();
    assert_eq!(asked(&host), 1);
    provider.check();
}
