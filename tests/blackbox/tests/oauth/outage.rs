//! A provider that is down, and one that changes its keys.

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

#[test]
fn a_new_key_is_found_and_an_old_one_goes_without_a_storm_of_requests() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let fleet = gate(&place, &issuer, &[]);
    let old = issuer.token(json!({}));
    assert_eq!(hello(&fleet, &old).status, 200);
    let before = issuer.books().fetches;
    let stranger = Key::p256("nobody's");
    let made_up = stranger.token(&stranger.head(), &issuer.claims(json!({})));
    for _ in 0..50 {
        assert_ne!(hello(&fleet, &made_up).status, 200);
    }
    let after = issuer.books().fetches;
    assert!(after - before < 25, "{}", after - before);
    // Both are published: both are good. Then the old one is taken back.
    issuer.books().keys.push(Key::p256("k2"));
    let new = issuer.token(json!({}));
    until("the new key", || {
        (hello(&fleet, &new).status == 200).then_some(())
    });
    assert_eq!(hello(&fleet, &old).status, 200);
    issuer.books().keys.remove(0);
    until("the old key is gone", || {
        hello(&fleet, &made_up);
        (hello(&fleet, &old).status != 200).then_some(())
    });
    // Until the set may be read once more, the key might be newer than it: nobody else may ask now.
    until("that is certain", || {
        (hello(&fleet, &old).status == 401).then_some(())
    });
    assert_eq!(hello(&fleet, &new).status, 200);
}
