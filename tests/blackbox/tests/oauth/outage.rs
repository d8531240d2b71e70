//! A provider that is down, and one that changes its keys.

use std::thread;
use std::time::Instant;

use http_peer::Reply;
use serde_json::json;

use crate::client::{gate, hello, ping, session};
use crate::issuer::{Issuer, Key, now};
use crate::place::Place;
use crate::rig::until;

/// Nobody knows whether the token is good, and the client is told so.
#[track_caller]
fn is_told_to_come_again(reply: Reply) {
    assert_eq!(reply.status, 503);
    let after = reply.header("retry-after").expect("when to come again");
    assert!(after.parse::<u64>().expect("seconds") >= 1);
    assert!(reply.header("www-authenticate").is_none());
    let text = reply.text();
    assert!(text.contains("identity provider does not answer"), "{text}");
}

#[test]
fn a_provider_that_is_down_locks_nobody_out_whose_token_can_be_checked() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let fleet = gate(&place, &issuer, &[]);
    let first = issuer.token(json!({}));
    let session = session(&fleet, "/mcp", &first);
    issuer.books().up = false;
    // Also a token that was issued since, and one of somebody who was never here.
    for token in [first, issuer.token(json!({}))] {
        assert_eq!(ping(&fleet, &token, &session), 200);
    }
    assert_eq!(
        hello(&fleet, &issuer.token(json!({ "sub": "bob" }))).status,
        200
    );
    let expired = issuer.token(json!({ "exp": now() - 100 }));
    assert_eq!(hello(&fleet, &expired).status, 401);
    // The provider has another key by now: nobody here can know.
    issuer.books().keys.push(Key::p256("k2"));
    let token = issuer.token(json!({}));
    is_told_to_come_again(hello(&fleet, &token));
    issuer.books().up = true;
    until("the provider answers again", || {
        (hello(&fleet, &token).status == 200).then_some(())
    });
}

#[test]
fn a_provider_that_is_down_at_the_start_is_waited_for() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    issuer.books().up = false;
    let fleet = gate(&place, &issuer, &[]);
    let token = issuer.token(json!({}));
    is_told_to_come_again(hello(&fleet, &token));
    assert_eq!(
        hello(&fleet, &issuer.token(json!({ "aud": "x" }))).status,
        401
    );
    until("the log", || {
        let told = |it: &serde_json::Value| it.to_string().contains("does not answer");
        fleet.log().iter().any(told).then_some(())
    });
    issuer.books().up = true;
    until("the provider answers", || {
        (hello(&fleet, &token).status == 200).then_some(())
    });
    until("the log", || {
        let told = |it: &serde_json::Value| it.to_string().contains("answers again");
        fleet.log().iter().any(told).then_some(())
    });
}

/// A key that the provider has had for a moment, and one that it has only since we last looked: whoever shows a token
/// of it waits, and gets no error.
#[test]
fn a_new_key_costs_nobody_an_error() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let fleet = gate(&place, &issuer, &[]);
    let old = issuer.token(json!({}));
    assert_eq!(hello(&fleet, &old).status, 200);
    for kid in ["k2", "k3"] {
        issuer.books().keys.push(Key::p256(kid));
        assert_eq!(hello(&fleet, &issuer.token(json!({}))).status, 200);
    }
    assert_eq!(hello(&fleet, &old).status, 200);
    // A provider that was set up anew, and calls its key as it did before.
    issuer.books().keys = vec![Key::p256("k1")];
    assert_eq!(hello(&fleet, &issuer.token(json!({}))).status, 200);
    assert_eq!(hello(&fleet, &old).status, 401);
}

/// How many show tokens that they have made up, at once.
const CROWD: usize = 60;

#[test]
fn a_new_key_is_found_and_an_old_one_goes_without_a_storm_of_requests() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let fleet = gate(&place, &issuer, &[]);
    let old = issuer.token(json!({}));
    assert_eq!(hello(&fleet, &old).status, 200);
    let stranger = Key::p256("nobody's");
    let made_up = || stranger.token(&stranger.head(), &issuer.claims(json!({})));
    issuer.books().keys.push(Key::p256("k2"));
    let (new, begun, before) = (
        issuer.token(json!({})),
        Instant::now(),
        issuer.books().fetches,
    );
    thread::scope(|scope| {
        for _ in 0..CROWD {
            scope.spawn(|| assert_eq!(hello(&fleet, &made_up()).status, 401));
        }
        // Nobody who is known waits for them, and nobody is refused because of them.
        assert_eq!(hello(&fleet, &old).status, 200);
        assert_eq!(hello(&fleet, &new).status, 200);
    });
    let (fetches, seconds) = (issuer.books().fetches - before, begun.elapsed().as_secs());
    assert!(
        fetches as u64 <= 2 + seconds / 5,
        "{fetches} in {seconds} s"
    );
    // Both were published, and both were good. Now the old one is taken back, and somebody has the keys read.
    issuer.books().keys.remove(0);
    assert_eq!(hello(&fleet, &made_up()).status, 401);
    assert_eq!(hello(&fleet, &old).status, 401);
    assert_eq!(hello(&fleet, &new).status, 200);
}
