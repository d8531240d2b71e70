//! Opaque tokens: the provider is asked about them.

use serde_json::{Value, json};

use crate::client::{gate, hello, ping, session};
use crate::issuer::{AUDIENCE, CLIENT, Issuer, Key, now};
use crate::place::Place;
use crate::rig::until;

fn active(with: Value) -> Value {
    let mut said = json!({ "active": true, "sub": "ann", "aud": AUDIENCE, "exp": now() + 300, "username": "ann" });
    for (name, value) in with.as_object().expect("claims") {
        said[name] = value.clone();
    }
    said
}

#[test]
fn an_opaque_token_is_asked_about_once_for_a_while() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let secret = place.write("secret", &format!("{}\n", CLIENT.1));
    let flags = [
        "--introspection-client-id",
        CLIENT.0,
        "--introspection-secret-file",
        &secret,
    ];
    for (token, said) in [
        ("good", active(json!({}))),
        ("again", active(json!({}))),
        (
            "elsewhere",
            active(json!({ "aud": "https://other.example" })),
        ),
        ("strange", active(json!({ "iss": "https://evil.example" }))),
        ("late", active(json!({ "exp": now() - 100 }))),
    ] {
        issuer.books().opaque.insert(token.into(), said);
    }
    let fleet = gate(&place, &issuer, &flags);
    let id = session(&fleet, "/mcp", "good");
    for _ in 0..10 {
        assert_eq!(ping(&fleet, "good", &id), 200);
    }
    assert_eq!(issuer.books().asked, 1);
    // The same person with another token.
    assert_eq!(ping(&fleet, "again", &id), 200);
    for (token, words) in [
        ("unknown", "revoked or has expired"),
        ("elsewhere", "another server"),
        ("strange", "somebody else"),
        ("late", "expired"),
    ] {
        let reply = hello(&fleet, token);
        assert_eq!(reply.status, 401, "{token}");
        let text = reply.text();
        assert!(text.contains(words), "{token}: {text}");
    }
    let log = std::fs::read_to_string(fleet.setup.path("log.jsonl")).expect("a log");
    assert!(!log.contains(CLIENT.1), "the secret is in the log");
    // Signed ones are good beside them, and nobody is asked.
    let asked = issuer.books().asked;
    assert_eq!(ping(&fleet, &issuer.token(json!({})), &id), 200);
    assert_eq!(issuer.books().asked, asked);
    issuer.books().up = false;
    let reply = hello(&fleet, "never-seen");
    assert_eq!(reply.status, 503);
    assert!(reply.header("retry-after").is_some());
    issuer.books().up = true;
    until("the provider answers again", || {
        (hello(&fleet, "never-seen").status == 401).then_some(())
    });
}

#[test]
fn a_wrong_secret_is_told_and_is_not_the_clients_fault() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let secret = place.write("secret", "another");
    let flags = [
        "--introspection-client-id",
        CLIENT.0,
        "--introspection-secret-file",
        &secret,
    ];
    let fleet = gate(&place, &issuer, &flags);
    assert_eq!(hello(&fleet, "good").status, 503);
    until("the log", || {
        let told = |it: &Value| it.to_string().contains("refuses the client");
        fleet.log().iter().any(told).then_some(())
    });
}
