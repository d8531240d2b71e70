//! Tokens that nobody has issued, or that are for something else.

use ring::hmac;
use serde_json::json;

use crate::client::{gate, hello};
use crate::issuer::{Issuer, Key, encode, message, now};
use crate::place::Place;
use crate::rig::until;

#[test]
fn tokens_that_are_not_right_are_refused_with_the_reason() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let fleet = gate(&place, &issuer, &[]);
    let books = issuer.books();
    let key = &books.keys[0];
    let (head, claims) = (key.head(), issuer.claims(json!({})));
    let with_head = |name: &str, value: serde_json::Value| {
        let mut head = head.clone();
        head[name] = value;
        key.token(&head, &claims)
    };
    let with_claims = |with| key.token(&head, &issuer.claims(with));
    let none = format!(
        "{}.",
        message(&json!({ "alg": "none", "kid": "k1" }), &claims)
    );
    // The public key as a secret that both sides know.
    let confused = message(&json!({ "alg": "HS256", "kid": "k1" }), &claims);
    let secret = hmac::Key::new(hmac::HMAC_SHA256, &key.public());
    let confused = format!(
        "{confused}.{}",
        encode(hmac::sign(&secret, confused.as_bytes()).as_ref())
    );
    let stranger = Key::p256("k1");
    // Where the key is to be found is not the token's to say.
    let brought = json!({ "alg": "ES256", "kid": "k1", "jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/",
        "jwk": { "kty": "EC", "crv": "P-256", "x": encode(&stranger.public()[1..33]), "y": encode(&stranger.public()[33..]) } });
    let good = key.token(&head, &claims);
    let (signed, signature) = good.rsplit_once('.').expect("a signature");
    let other = message(&head, &issuer.claims(json!({ "sub": "root" })));
    let id_token = json!({ "nonce": "n", "at_hash": "x" });
    let cases = [
        (none, "not signed by an algorithm"),
        (confused, "not signed by an algorithm"),
        (stranger.token(&head, &claims), "signature"),
        (stranger.token(&brought, &claims), "signature"),
        (format!("{other}.{signature}"), "signature"),
        (format!("{signed}."), "signature"),
        (with_head("crit", json!(["exp"])), "extension"),
        (with_head("alg", json!("EdDSA")), "does not publish"),
        (with_head("alg", json!("RS256")), "does not publish"),
        (
            with_head("kid", json!("../../../dev/null")),
            "does not publish",
        ),
        (with_head("kid", json!("x' OR '1'='1")), "does not publish"),
        (with_head("typ", json!("logout+jwt")), "not an access token"),
        (
            key.token(
                &json!({ "alg": "ES256", "kid": "k1", "typ": "JWT" }),
                &issuer.claims(id_token),
            ),
            "not an access token",
        ),
        (
            with_claims(json!({ "iss": "https://evil.example" })),
            "somebody else",
        ),
        (with_claims(json!({ "iss": null })), "somebody else"),
        (
            with_claims(json!({ "aud": "https://other.example/mcp" })),
            "another server",
        ),
        (with_claims(json!({ "aud": null })), "another server"),
        (
            with_claims(json!({ "aud": ["https://mcp.example.test/mcp2"] })),
            "another server",
        ),
        (with_claims(json!({ "exp": now() - 120 })), "expired"),
        (with_claims(json!({ "exp": null })), "no expiry"),
        (with_claims(json!({ "exp": "never" })), "cannot be read"),
        (with_claims(json!({ "nbf": now() + 300 })), "not valid yet"),
        (
            with_claims(json!({ "sub": null, "client_id": null })),
            "who it is about",
        ),
        (
            with_claims(json!({ "long": "x".repeat(20 << 10) })),
            "too long",
        ),
        ("not-a-token".into(), "not a signed one"),
        ("a.b.c".into(), "not a signed one"),
    ];
    drop(books);
    for (token, words) in cases {
        // What cannot be known at once is to be asked again.
        let reply = until("it is known", || {
            let reply = hello(&fleet, &token);
            (reply.status != 503).then_some(reply)
        });
        let challenge = reply
            .header("www-authenticate")
            .unwrap_or_default()
            .to_owned();
        let status = reply.status;
        let text = reply.text();
        assert_eq!(status, 401, "{words}: {text}");
        assert!(text.contains(words), "{words}: {text}");
        assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
        assert!(!text.contains(&token), "{text}");
    }
    assert_eq!(hello(&fleet, &good).status, 200);
}

#[test]
fn clocks_may_be_a_minute_apart() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::ed25519("k1")));
    let fleet = gate(&place, &issuer, &[]);
    for with in [json!({ "exp": now() - 20 }), json!({ "nbf": now() + 30 })] {
        assert_eq!(
            hello(&fleet, &issuer.token(with.clone())).status,
            200,
            "{with}"
        );
    }
}

#[test]
fn keys_of_every_kind_are_good_also_without_a_name() {
    for key in [
        Key::rsa("r"),
        Key::p256("p"),
        Key::ed25519("e"),
        Key::p256("p").unnamed(),
    ] {
        let (place, issuer) = (Place::new(), Issuer::start(key));
        issuer.books().openid = true;
        let fleet = gate(&place, &issuer, &[]);
        let token = issuer.token(json!({ "aud": ["other", crate::issuer::AUDIENCE] }));
        assert_eq!(hello(&fleet, &token).status, 200);
    }
}
