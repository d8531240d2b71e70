//! The rules, one by one.

use std::time::Duration;

use outlive_core::Time;
use outlive_core::verifier::{
    Access, Algorithm, Claims, Condition, Expected, Grants, Input, Insufficient, Jwk, Moment,
    Output, Question, Refusal, Ticket, TokenHead, Verdict, Verifier, VerifierPolicy, ViewRule,
};
use serde_json::{Value, json};

fn claims(value: &Value) -> Claims {
    Claims::read(value.to_string().as_bytes()).expect("claims")
}

#[test]
fn the_head_of_a_token_chooses_nothing() {
    let read = |value: Value| TokenHead::read(value.to_string().as_bytes());
    let head = read(json!({ "alg": "RS256", "kid": "a", "jku": "http://x", "typ": "at+JWT" }));
    let head = head.expect("a head");
    assert_eq!(head.algorithm, Algorithm::Rs256);
    assert!(head.is_access_token);
    for (head, why) in [
        (json!({ "alg": "none" }), Refusal::Algorithm),
        (json!({ "alg": "HS256" }), Refusal::Algorithm),
        (json!({ "alg": "rs256" }), Refusal::Algorithm),
        (json!({ "alg": "RS256", "crit": [] }), Refusal::Critical),
        (
            json!({ "alg": "RS256", "typ": "dpop+jwt" }),
            Refusal::NoAccessToken,
        ),
        (json!({ "alg": "RS256", "kid": 7 }), Refusal::Malformed),
        (
            json!({ "alg": "RS256", "kid": "k".repeat(300) }),
            Refusal::UnknownKey,
        ),
        (json!({ "kid": "a" }), Refusal::Malformed),
        (json!([]), Refusal::Malformed),
    ] {
        assert_eq!(read(head.clone()), Err(why), "{head}");
    }
    let twice = br#"{"alg":"RS256","alg":"none"}"#;
    assert_eq!(TokenHead::read(twice), Err(Refusal::Malformed));
}

#[test]
fn a_key_is_used_as_its_kind_and_its_set_say() {
    let set = json!({ "keys": [
        { "kty": "RSA", "kid": "rsa", "n": "AQ", "e": "AQAB", "alg": "PS256" },
        { "kty": "EC", "crv": "P-256", "kid": "ec", "x": "AQ", "y": "AQ" },
        { "kty": "oct", "kid": "secret", "k": "AQ" },
        { "kty": "RSA", "kid": "cipher", "n": "AQ", "e": "AQAB", "use": "enc" },
        { "kty": "RSA", "kid": "hmac", "n": "AQ", "e": "AQAB", "alg": "HS256" },
        { "kty": "EC", "crv": "P-521", "kid": "large", "x": "AQ", "y": "AQ" },
        "nonsense",
    ] });
    let keys = Jwk::read_set(&set);
    let names: Vec<_> = keys.iter().map(|key| key.kid.as_deref()).collect();
    assert_eq!(names, [Some("rsa"), Some("ec")]);
    let (rsa, ec) = (&keys[0], &keys[1]);
    assert!(rsa.may_have_signed(Algorithm::Ps256, Some("rsa")));
    assert!(!rsa.may_have_signed(Algorithm::Rs256, Some("rsa")));
    assert!(ec.may_have_signed(Algorithm::Es256, None));
    assert!(!ec.may_have_signed(Algorithm::Es384, None));
    assert!(!ec.may_have_signed(Algorithm::Es256, Some("rsa")));
}

#[test]
fn a_token_is_good_for_one_audience_and_for_a_time() {
    let expected = Expected {
        issuer: "https://i",
        audiences: &["https://a/mcp"],
        leeway: Duration::from_secs(60),
    };
    let good = json!({ "iss": "https://i", "aud": ["x", "https://a/mcp/"], "sub": "s", "exp": 1000, "nbf": 900 });
    let check = |name: &str, value: Value, wall: u64| {
        let mut all = good.clone();
        all[name] = value;
        claims(&all).check(&expected, Duration::from_secs(wall))
    };
    for (name, value, wall, why) in [
        ("x", json!(1), 1059, Ok(())),
        ("x", json!(1), 1060, Err(Refusal::Expired)),
        ("x", json!(1), 840, Ok(())),
        ("x", json!(1), 839, Err(Refusal::NotYet)),
        ("exp", json!(1e300), 1 << 40, Ok(())),
        ("exp", json!(-1), 1000, Err(Refusal::Expired)),
        ("exp", Value::Null, 1000, Err(Refusal::NoExpiry)),
        ("iss", json!("https://i/"), 1000, Err(Refusal::Issuer)),
        ("aud", json!("https://a/mcp2"), 1000, Err(Refusal::Audience)),
        ("aud", json!("https://a"), 1000, Err(Refusal::Audience)),
        ("aud", json!(""), 1000, Err(Refusal::Audience)),
        ("sub", json!(""), 1000, Err(Refusal::NoSubject)),
        ("sub", json!(5), 1000, Err(Refusal::NoSubject)),
    ] {
        assert_eq!(
            check(name, value.clone(), wall),
            why,
            "{name} {value} {wall}"
        );
    }
}

#[test]
fn a_name_is_one_line_and_an_id_token_is_known() {
    let name = |value: Value| claims(&value).name();
    assert_eq!(name(json!({ "sub": "1", "name": "A\u{202e}n\nn" })), "Ann");
    assert_eq!(name(json!({ "sub": "1", "email": " " })), "1");
    assert_eq!(name(json!({ "sub": "x".repeat(200) })).len(), 80);
    assert!(claims(&json!({ "nonce": "n" })).is_id_token());
    assert!(claims(&json!({ "typ": "ID" })).is_id_token());
    assert!(!claims(&json!({ "typ": "Bearer", "sub": "1" })).is_id_token());
}

#[test]
fn the_first_rule_that_holds_decides() {
    let rule = |text| ViewRule::read(text).expect("a rule");
    let grants = Grants {
        required: vec!["mcp".into()],
        rules: vec![
            rule("mcp:all=*"),
            rule("claim a.b=x=y=dev"),
            rule("mcp:ro=ro"),
        ],
        operators: vec![Condition::read("claim ops=true").expect("a condition")],
    };
    let decide = |value: Value| grants.decide(&claims(&value));
    let sees = |view: Option<&str>, operator| {
        Ok(Access {
            view: view.map(Into::into),
            operator,
        })
    };
    let needs = |scopes: &[&str]| {
        Err(Insufficient {
            scopes: scopes.iter().map(|it| (*it).into()).collect(),
        })
    };
    assert_eq!(
        decide(json!({ "scope": "mcp mcp:all", "ops": true })),
        sees(None, true)
    );
    assert_eq!(
        decide(json!({ "scope": "mcp", "a": { "b": ["x=y"] } })),
        sees(Some("dev"), false)
    );
    assert_eq!(
        decide(json!({ "scp": ["mcp", "mcp:ro"] })),
        sees(Some("ro"), false)
    );
    assert_eq!(decide(json!({ "scope": "mcp" })), needs(&["mcp", "mcp:ro"]));
    assert_eq!(decide(json!({ "scope": "mcp:all" })), needs(&["mcp"]));
    assert_eq!(grants.scopes(), ["mcp", "mcp:all", "mcp:ro"]);
    for wrong in ["", "a", "=x", "a b=v", "claim x=v", "a="] {
        assert!(ViewRule::read(wrong).is_err(), "{wrong}");
    }
}

/// A token without the name of a key is tried with each set once; then the provider has the word.
#[test]
fn keys_that_were_tried_are_not_handed_out_again() {
    let mut verifier = Verifier::new(VerifierPolicy::default());
    let at = |seconds| Moment {
        time: Time::after(Duration::from_secs(seconds)),
        wall: Duration::ZERO,
    };
    let set: Value = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "x": "AQ" }] });
    let question = |tried| Question::Key {
        algorithm: Algorithm::EdDsa,
        kid: None,
        tried,
    };
    verifier.handle(Input::Start, at(0));
    assert_eq!(verifier.poll(), Some(Output::Fetch));
    verifier.handle(Input::Fetched(Some(Jwk::read_set(&set))), at(0));
    verifier.handle(Input::Ask(Ticket(1), question(None)), at(6));
    let Some(Output::Answer(_, Verdict::Try(edition, places))) = verifier.poll() else {
        panic!("no key");
    };
    assert_eq!(places, [0]);
    verifier.handle(Input::Ask(Ticket(2), question(Some(edition))), at(6));
    assert_eq!(verifier.poll(), Some(Output::Fetch));
    assert_eq!(verifier.poll(), None);
    // The provider has no other keys than those: that is the last word.
    verifier.handle(Input::Fetched(Some(Jwk::read_set(&set))), at(6));
    let refused = Verdict::Refused(Refusal::Signature);
    assert_eq!(verifier.poll(), Some(Output::Answer(Ticket(2), refused)));
    // It has another one by now, and that is all that is tried.
    verifier.handle(Input::Ask(Ticket(3), question(None)), at(20));
    let Some(Output::Answer(_, Verdict::Try(edition, _))) = verifier.poll() else {
        panic!("no key");
    };
    verifier.handle(Input::Ask(Ticket(4), question(Some(edition))), at(20));
    assert_eq!(verifier.poll(), Some(Output::Fetch));
    let mut set = set;
    let keys = set["keys"].as_array_mut().expect("keys");
    keys.push(json!({ "kty": "OKP", "crv": "Ed25519", "x": "Ag" }));
    verifier.handle(Input::Fetched(Some(Jwk::read_set(&set))), at(20));
    let told = verifier.poll();
    let new = |it: &Option<Output>| matches!(it, Some(Output::Answer(_, Verdict::Try(_, places))) if *places == [1]);
    assert!(new(&told), "{told:?}");
}

/// A token whose key is newer than the set that was just read waits until the keys may be read again, with all others
/// like it, and the provider is asked once.
#[test]
fn a_key_that_is_newer_than_the_set_is_waited_for() {
    let policy = VerifierPolicy {
        waiting: 3,
        ..VerifierPolicy::default()
    };
    let mut verifier = Verifier::new(policy);
    let at = |seconds| Moment {
        time: Time::after(Duration::from_secs(seconds)),
        wall: Duration::ZERO,
    };
    let question = |kid: &str| Question::Key {
        algorithm: Algorithm::EdDsa,
        kid: Some(kid.into()),
        tried: None,
    };
    let key = |kid: &str| json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": "AQ" });
    let mut set = json!({ "keys": [key("old")] });
    verifier.handle(Input::Start, at(0));
    assert_eq!(verifier.poll(), Some(Output::Fetch));
    verifier.handle(Input::Fetched(Some(Jwk::read_set(&set))), at(0));
    verifier.handle(Input::Ask(Ticket(1), question("new")), at(1));
    verifier.handle(Input::Ask(Ticket(2), question("made up")), at(2));
    verifier.handle(Input::Ask(Ticket(3), question("new")), at(2));
    assert_eq!(verifier.poll(), None, "they wait");
    verifier.handle(Input::Ask(Ticket(4), question("made up")), at(2));
    let crowded = verifier.poll();
    let told = |it: &Option<Output>| matches!(it, Some(Output::Answer(Ticket(4), Verdict::Unavailable(after))) if *after > Duration::ZERO);
    assert!(told(&crowded), "{crowded:?}");
    assert_eq!(verifier.deadline(), Some(at(5).time));
    verifier.handle(Input::Tick, at(5));
    assert_eq!(verifier.poll(), Some(Output::Fetch));
    set["keys"].as_array_mut().expect("keys").push(key("new"));
    verifier.handle(Input::Fetched(Some(Jwk::read_set(&set))), at(5));
    let mut answers = Vec::new();
    while let Some(output) = verifier.poll() {
        answers.push(output);
    }
    let is_new = |ticket, output: &Output| matches!(output, Output::Answer(it, Verdict::Try(_, places)) if *it == ticket && *places == [1]);
    assert!(is_new(Ticket(1), &answers[0]) && is_new(Ticket(3), &answers[2]));
    let refused = Verdict::Refused(Refusal::UnknownKey);
    assert_eq!(answers[1], Output::Answer(Ticket(2), refused));
    assert_eq!((answers.len(), verifier.deadline()), (3, None));
}
