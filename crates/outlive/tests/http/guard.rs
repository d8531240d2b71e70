//! Who is let in.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::offer::Offer;
use crate::rig::*;

fn status(rig: &Rig, headers: &[(&str, &str)]) -> u16 {
    rig.send("POST", headers, &initialize().to_string()).status
}

#[test]
fn fm_72_strangers_are_told_which_setting_would_let_them_in() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    let evil = [("Host", "evil.example.com")];
    let reply = rig.send("POST", &evil, &initialize().to_string());
    assert_eq!(reply.status, 403);
    let words = reply.json()["error"]["message"].to_string();
    assert!(
        words.contains(r#"allow_host(\"evil.example.com\")"#),
        "{words}"
    );
    let evil = [("Origin", "http://evil.example.com")];
    let reply = rig.send("POST", &evil, &initialize().to_string());
    assert_eq!(reply.status, 403);
    let words = reply.json()["error"]["message"].to_string();
    assert!(
        words.contains(r#"allow_origin(\"http://evil.example.com\")"#),
        "{words}"
    );
    assert_eq!(status(&rig, &[("Origin", "http://localhost:1234")]), 200);

    let rig = Rig::with(&offer.server, |http| {
        http.allow_host("mcp.example.com")
            .allow_origin("https://app.example.com")
    });
    assert_eq!(status(&rig, &[("Host", "mcp.example.com:443")]), 200);
    assert_eq!(status(&rig, &[("Origin", "https://app.example.com")]), 200);
    assert_eq!(status(&rig, &[("Origin", "https://evil.example.com")]), 403);
}

#[test]
fn a_token_is_needed_for_everything() {
    let offer = Offer::new();
    let rig = Rig::with(&offer.server, |http| http.token("open sesame"));
    assert_eq!(status(&rig, &[]), 401);
    assert_eq!(status(&rig, &[("Authorization", "Bearer open")]), 401);
    assert_eq!(
        status(&rig, &[("Authorization", "Bearer open sesame")]),
        200
    );
    for method in ["GET", "DELETE"] {
        let reply = rig.send(method, &[("Mcp-Session-Id", "x")], "");
        assert_eq!(
            (reply.status, reply.header("www-authenticate")),
            (401, Some("Bearer"))
        );
    }
}

#[test]
fn a_public_address_is_not_served_by_accident() {
    let offer = Offer::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let refused = offer.server.http().bind("0.0.0.0:0").await;
        let error = refused.expect_err("a refusal");
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("token"), "{error}");
        assert!(
            offer
                .server
                .http()
                .token("t")
                .bind("0.0.0.0:0")
                .await
                .is_ok()
        );
        assert!(
            offer
                .server
                .http()
                .allow_anyone()
                .bind("0.0.0.0:0")
                .await
                .is_ok()
        );
    });
}

#[test]
fn what_is_not_asked_for_properly_is_refused() {
    let offer = Offer::new();
    let rig = Rig::new(&offer.server);
    assert_eq!(status(&rig, &[("Content-Type", "text/plain")]), 415);
    assert_eq!(
        status(&rig, &[("Content-Type", "application/json; charset=utf-8")]),
        200
    );
    assert_eq!(status(&rig, &[("Accept", "text/html")]), 406);
    assert_eq!(status(&rig, &[("Accept", "*/*")]), 200);
    assert_eq!(
        status(&rig, &[("Accept", "application/*, text/*;q=0.5")]),
        200
    );
    let elsewhere = {
        use std::io::Write as _;
        let mut stream = rig.connect();
        let request = "POST /other HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        Reply::read(stream).expect("a response")
    };
    assert_eq!(elsewhere.status, 404);
    let client = rig.client();
    let answer = client.call(1, "echo", json!({"text": "hi"})).answer();
    assert_eq!(text_of(&answer), "hi");
}

#[test]
fn tokens_in_a_file_can_be_replaced_without_a_pause() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens");
    let offer = Offer::new();
    std::fs::write(&path, "old\n").expect("written");
    let rig = Rig::with(&offer.server, |http| http.token_file(&path));
    let shown = |token: &str| status(&rig, &[("Authorization", &format!("Bearer {token}"))]);
    assert_eq!((shown("old"), shown("new")), (200, 401));
    let until_good = |token| {
        let begun = Instant::now();
        while shown(token) != 200 {
            assert!(begun.elapsed() < HANG);
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    std::fs::write(&path, "old\nnew\n").expect("written");
    until_good("new");
    assert_eq!(shown("old"), 200);
    // Written anew and moved into place, as most tools do it.
    let draft = folder.path().join("draft");
    std::fs::write(&draft, "newest\n").expect("written");
    std::fs::rename(&draft, &path).expect("renamed");
    until_good("newest");
    assert_eq!((shown("old"), shown("new")), (401, 401));
    // A file that is gone opens nothing and closes nothing.
    std::fs::remove_file(&path).expect("removed");
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!((shown("newest"), shown("")), (200, 401));
}

#[test]
fn invariant_a_session_belongs_to_the_token_that_opened_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tokens");
    std::fs::write(&path, "one\ntwo\n").expect("written");
    let offer = Offer::new();
    let rig = Rig::with(&offer.server, |http| http.token_file(&path));
    let one = ("Authorization", "Bearer one");
    let two = ("Authorization", "Bearer two");
    let reply = rig.send("POST", &[one], &initialize().to_string());
    let session = reply
        .header("mcp-session-id")
        .expect("a session")
        .to_owned();
    let call = call(1, "echo", json!({"text": "hi"})).to_string();
    for (method, body) in [("POST", &*call), ("GET", ""), ("DELETE", "")] {
        let reply = rig.send(method, &[two, ("Mcp-Session-Id", &session)], body);
        assert_eq!(reply.status, 404, "{method}");
    }
    let mut stream = rig.send("GET", &[one, ("Mcp-Session-Id", &session)], "");
    assert_eq!(stream.status, 200);
    // Where it stands in the file does not matter, whether it stands there does.
    std::fs::write(&path, "three\ntwo\none\n").expect("written");
    let begun = Instant::now();
    while status(&rig, &[("Authorization", "Bearer three")]) != 200 {
        assert!(begun.elapsed() < HANG);
        std::thread::sleep(Duration::from_millis(20));
    }
    let reply = rig.send("POST", &[one, ("Mcp-Session-Id", &session)], &call);
    assert_eq!(reply.status, 200);
    std::fs::write(&path, "three\ntwo\n").expect("written");
    while let Ok(Some(_)) = stream.line() {}
    let reply = rig.send("POST", &[one, ("Mcp-Session-Id", &session)], &call);
    assert_eq!(reply.status, 401);
}

#[test]
fn fm_72_a_page_that_was_let_in_can_really_use_the_server() {
    let offer = Offer::new();
    let rig = Rig::with(&offer.server, |http| {
        http.token("t").allow_origin("https://app.example.com")
    });
    let question = |origin: &str| {
        let asked = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
            (
                "Access-Control-Request-Headers",
                "authorization,content-type",
            ),
        ];
        rig.send("OPTIONS", &asked, "")
    };
    let page = "https://app.example.com";
    // A browser asks without the token.
    let reply = question(page);
    assert_eq!(reply.status, 204);
    assert_eq!(reply.header("access-control-allow-origin"), Some(page));
    let allowed = reply.header("access-control-allow-headers");
    assert_eq!(allowed, Some("authorization,content-type"));
    let headers = [("Origin", page), ("Authorization", "Bearer t")];
    let reply = rig.send("POST", &headers, &initialize().to_string());
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("access-control-allow-origin"), Some(page));
    let shown = reply.header("access-control-expose-headers");
    assert!(shown.is_some_and(|it| it.contains("Mcp-Session-Id")));

    let reply = question("https://evil.example.com");
    assert_eq!(reply.status, 403);
    assert_eq!(reply.header("access-control-allow-origin"), None);
    // Who asks for something else is no browser that asks first.
    assert_eq!(rig.send("OPTIONS", &[], "").status, 401);
}
