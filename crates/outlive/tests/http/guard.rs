//! Who is let in.

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
