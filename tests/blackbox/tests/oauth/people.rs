//! Whose a session is, what is told about people, and what is not told to servers.

use http_peer::message;
use serde_json::{Value, json};

use crate::client::{gate, gate_to, hello, ping, send, session, tools};
use crate::issuer::{Issuer, Key, now};
use crate::place::Place;
use crate::web::Web;

#[test]
fn a_session_belongs_to_its_person_and_not_to_a_token() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let tokens = place.write("tokens", "operator-token\n");
    let fleet = gate(&place, &issuer, &["--token-file", &tokens]);
    let ann = json!({ "preferred_username": "ann@example.test" });
    let (first, second) = (issuer.token(ann.clone()), issuer.token(ann));
    assert_ne!(first, second);
    let id = session(&fleet, "/mcp", &first);
    assert_eq!(ping(&fleet, &second, &id), 200, "a refreshed token");
    let bob = issuer.token(json!({ "sub": "bob" }));
    assert_eq!(ping(&fleet, &bob, &id), 404, "somebody else");
    assert_eq!(
        ping(&fleet, "operator-token", &id),
        404,
        "a token of the file"
    );
    let expired = issuer.token(json!({ "exp": now() - 100 }));
    assert_eq!(ping(&fleet, &expired, &id), 401);
    assert_eq!(ping(&fleet, &first, &id), 200);
    // One server of their own, so that the page has whose it is.
    let own = session(&fleet, "/one/mcp", &first);
    let told = message::initialized().to_string();
    assert_eq!(
        send(&fleet, "POST", "/one/mcp", &first, &own, &told).status,
        202
    );
    tools(&fleet, "/one/mcp", &first, &own);
    // A token of the file is good beside them, and changes of the file concern nobody else.
    let page = send(&fleet, "GET", "/", "operator-token", "", "").text();
    assert!(page.contains("ann@example.test"), "{page}");
    let metrics = send(&fleet, "GET", "/metrics", "operator-token", "", "").text();
    assert!(metrics.contains("principal=\"users\""), "{metrics}");
    assert!(!metrics.contains("ann@example.test"), "{metrics}");
    let data = send(&fleet, "GET", "/status.json", "operator-token", "", "").text();
    let log = std::fs::read_to_string(fleet.setup.path("log.jsonl")).expect("a log");
    assert!(log.contains("ann@example.test was let in"), "{log}");
    for (what, text) in [
        ("page", &page),
        ("metrics", &metrics),
        ("data", &data),
        ("log", &log),
    ] {
        for token in [&first, &second, &bob, &expired] {
            let signature = token.rsplit('.').next().expect("a signature");
            assert!(!text.contains(signature), "a token is in the {what}");
        }
    }
    place.write("tokens", "another-token\n");
    crate::rig::until("the file is read again", || {
        (hello(&fleet, "another-token").status == 200).then_some(())
    });
    assert_eq!(hello(&fleet, "operator-token").status, 401);
    assert_eq!(
        ping(&fleet, &first, &id),
        200,
        "not withdrawn with tokens of the file"
    );
}

#[test]
fn a_server_never_sees_the_token_of_a_client() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let upstream = Web::start(|_| None);
    let servers = json!({ "far": { "url": upstream.url() } });
    let fleet = gate_to(&place, &servers, &issuer, &[]);
    let token = issuer.token(json!({}));
    for path in ["/mcp", "/far/mcp"] {
        let id = session(&fleet, path, &token);
        let told = message::initialized().to_string();
        assert_eq!(send(&fleet, "POST", path, &token, &id, &told).status, 202);
        tools(&fleet, path, &token, &id);
    }
    let modern = message::modern(5, "tools/list", json!({}));
    let bearer = format!("Bearer {token}");
    let mut headers = message::modern_headers(&modern);
    headers.push(("Authorization".into(), bearer));
    let headers = message::as_strs(&headers);
    let body = modern.to_string();
    let reply =
        http_peer::send(fleet.address, "POST", "/mcp", &headers, &body).expect("a response");
    let status = reply.status;
    assert_eq!(status, 200);
    let seen = upstream.seen();
    assert!(
        seen.iter().any(|it| it.rpc() == "initialize"),
        "nothing came"
    );
    for request in seen {
        assert_eq!(request.header("authorization"), None);
        assert!(!format!("{request:?}").contains(&token), "{request:?}");
    }
}

#[test]
fn a_stream_that_only_listens_ends_with_its_token_and_the_session_goes_on() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let fleet = gate(&place, &issuer, &[]);
    // It has expired, and is good for a few seconds yet.
    let token = issuer.token(json!({ "exp": now() - 55 }));
    let id = session(&fleet, "/mcp", &token);
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Mcp-Session-Id", &id),
        ("Accept", "text/event-stream"),
    ];
    let mut stream = http_peer::send(fleet.address, "GET", "/mcp", &headers, "").expect("a stream");
    assert_eq!(stream.status, 200);
    while stream.line().expect("an end in order").is_some() {}
    assert_eq!(ping(&fleet, &token, &id), 401);
    assert_eq!(ping(&fleet, &issuer.token(json!({})), &id), 200);
}

#[test]
fn a_session_that_is_kept_goes_on_for_its_person_in_the_next_process() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let store = format!("file:{}", place.path("store"));
    let first = gate(&place, &issuer, &["--store", &store]);
    let id = session(&first, "/mcp", &issuer.token(json!({})));
    drop(first);
    let next = gate(&place, &issuer, &["--store", &store]);
    assert_eq!(
        ping(&next, &issuer.token(json!({ "sub": "bob" })), &id),
        404
    );
    assert_eq!(ping(&next, &issuer.token(json!({})), &id), 200);
}

#[test]
fn whoever_shows_nothing_is_told_where_tokens_come_from() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let fleet = gate(&place, &issuer, &["--oauth-scope", "mcp"]);
    let body = message::initialize().to_string();
    for (path, resource) in [("/mcp", "/mcp"), ("/one/mcp", "/one/mcp"), ("/sse", "/sse")] {
        let method = if path == "/sse" { "GET" } else { "POST" };
        let reply = http_peer::send(fleet.address, method, path, &[], &body).expect("a response");
        assert_eq!(reply.status, 401, "{path}");
        let told = reply.header("www-authenticate").expect("a challenge");
        let origin = "https://mcp.example.test";
        let place = format!("/.well-known/oauth-protected-resource{resource}");
        let wanted = format!("Bearer scope=\"mcp\", resource_metadata=\"{origin}{place}\"");
        assert_eq!(told, wanted);
        let document: Value = fleet.get(&place).json();
        assert_eq!(document["resource"], format!("{origin}{resource}"));
        assert_eq!(document["authorization_servers"], json!([issuer.name()]));
        assert_eq!(document["scopes_supported"], json!(["mcp"]));
        // A token for one endpoint is good there; one for all of them, too.
        let token = issuer.token(json!({ "aud": format!("{origin}{resource}"), "scope": "a mcp" }));
        if method == "POST" {
            session(&fleet, path, &token);
        }
    }
    let first: Value = fleet.get("/.well-known/oauth-protected-resource").json();
    assert_eq!(first["resource"], "https://mcp.example.test/mcp");
    assert_ne!(
        fleet
            .get("/.well-known/oauth-protected-resource/nothing")
            .status,
        200
    );
    // A token for another endpoint is not good here.
    let token = issuer.token(json!({ "aud": "https://mcp.example.test/one/mcp", "scope": "mcp" }));
    assert_eq!(hello(&fleet, &token).status, 401);
    // Under the name that clients know, without a flag for that.
    let headers = [("Host", "mcp.example.test")];
    let reply =
        http_peer::send(fleet.address, "POST", "/mcp", &headers, &body).expect("a response");
    assert_eq!(reply.status, 401);
    let reply = hello(&fleet, &issuer.token(json!({ "scope": "other" })));
    assert_eq!(reply.status, 403);
    let told = reply
        .header("www-authenticate")
        .expect("a challenge")
        .to_owned();
    assert!(told.contains("error=\"insufficient_scope\""), "{told}");
    assert!(told.contains("scope=\"mcp\""), "{told}");
}
