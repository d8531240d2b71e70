//! The same for those who use the crate: `Client::builder().url(…)`.

use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outlive::client::Era;
use outlive::{Client, Error, Remote};
use rustix::net::sockopt;
use serde_json::{Value, json};

use crate::web::{Act, Reply, Request, Web, message, response, stream};

/// The client finds out the era, calls, survives a death, and ends its session.
#[tokio::test]
async fn a_client_over_http() {
    let script =
        |request: &crate::web::Request| (request.tool() == "hang").then(|| vec![Act::Hang]);
    let web = Web::start(script);
    let client = Client::builder().url(web.url()).connect().await.unwrap();
    assert_eq!(client.tools().await.unwrap().len(), 2);
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call("hang", json!({})).await }
    });
    let (web, address) = tokio::task::spawn_blocking(move || {
        web.wait_for(1, "the call", |request| request.tool() == "hang");
        let address = web.kill();
        (Web::start_at(address, script), address)
    })
    .await
    .unwrap();
    assert_eq!(web.address(), address);
    match call.await.unwrap() {
        Err(Error::ConnectionLost { .. }) => {}
        other => panic!("{other:?}"),
    }
    let result = client.call("echo", json!({})).await.unwrap();
    assert!(result.text().starts_with("echo by session-"));
    assert_eq!(web.open_sessions(), 1);
    client.close().await;
    assert_eq!(web.open_sessions(), 0);
}

/// What cannot be reached as it is described is said by `connect`.
#[tokio::test]
async fn what_is_wrong_with_an_address_is_said() {
    let refused = |error: Error, kind, words| {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    let error = Client::builder().url("example.com").connect().await;
    refused(error.unwrap_err(), "misconfigured", "no address");
    // A variable may be set, and a file written, by the time of the next attempt.
    let remote = Remote::new("http://127.0.0.1:1/").header("X: ${NO_SUCH_VARIABLE}");
    let error = Client::builder().url(remote).connect().await;
    refused(error.unwrap_err(), "unavailable", "NO_SUCH_VARIABLE");
    let web = Web::start(|_| Some(response(401, &[], "")));
    let error = Client::builder().url(web.url()).connect().await;
    refused(error.unwrap_err(), "unavailable", "credentials");
}

/// A client that is to speak one era only says so of a server of the other.
#[tokio::test]
async fn the_other_era_is_refused_with_a_sentence() {
    let legacy = Web::start(|_| None);
    let error = Client::builder()
        .url(legacy.url())
        .era(Era::Modern)
        .connect()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("2026-07-28"), "{error}");
    assert!(legacy.asked("initialize").is_empty());

    let modern = Web::start(|request| {
        let error = json!({"jsonrpc": "2.0", "id": request.body["id"], "error": {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}});
        let kind = [("content-type", "application/json")];
        Some(response(400, &kind, &error.to_string()))
    });
    let error = Client::builder()
        .url(modern.url())
        .era(Era::Legacy)
        .connect()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no handshake"), "{error}");
}

/// What a server says to `server/discover`.
fn discovered(status: u16, kind: &str, body: &Value) -> impl Fn(&Request) -> Option<Reply> + use<> {
    let (kind, body) = (kind.to_string(), body.clone());
    move |request| {
        let mut answer = body.clone();
        if answer.is_object() {
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = request.body["id"].clone();
        }
        let text = match (&*kind, answer.as_str()) {
            (_, Some(text)) => text.to_string(),
            ("text/event-stream", None) => format!("data: {answer}\n\n"),
            (_, None) => answer.to_string(),
        };
        (request.rpc() == "server/discover")
            .then(|| response(status, &[("content-type", &kind)], &text))
    }
}

/// FM-44: whatever a server says that is no discovery and none of the errors that only a modern server gives, it is a
/// legacy one, and is used as such.
#[tokio::test(flavor = "multi_thread")]
async fn fm_44_a_legacy_server_is_known_by_anything_it_says() {
    let (json, stream, page) = ("application/json", "text/event-stream", "text/html");
    let error = |code: i64| json!({"error": {"code": code, "message": "no"}});
    for (status, kind, body) in [
        (400, page, json!("")),
        (400, json, error(-32600)),
        (400, json, error(-32601)),
        (400, json, error(-32602)),
        (400, json, error(-32000)),
        (404, page, json!("<html>")),
        (404, json, error(-32601)),
        (405, page, json!("")),
        (406, json, error(-32600)),
        (415, page, json!("")),
        (422, json, json!({"detail": "no"})),
        (500, page, json!("")),
        (501, page, json!("")),
        (200, json, error(-32601)),
        (200, json, error(-32602)),
        (200, json, error(-32002)),
        (200, json, json!({"result": {}})),
        (200, json, json!({"result": {"supportedVersions": []}})),
        (
            200,
            json,
            json!({"result": {"supportedVersions": ["2025-06-18"], "capabilities": {}}}),
        ),
        (200, stream, error(-32601)),
        (200, stream, json!({"result": {}})),
        (200, stream, json!("")),
        (200, page, json!("<html>")),
        (202, page, json!("")),
        (
            400,
            json,
            json!({"error": {"code": -32022, "message": "no", "data": {"supported": ["2025-06-18"]}}}),
        ),
    ] {
        let web = Web::start(discovered(status, kind, &body));
        let client = Client::builder().url(web.url()).connect().await;
        let client = client.unwrap_or_else(|error| panic!("{status} {kind} {body}: {error}"));
        assert_eq!(
            client.protocol_version(),
            Some("2025-11-25"),
            "{status} {kind} {body}"
        );
        client.close().await;
    }
}

/// FM-44: a modern server that refuses something is not taken for a legacy one.
#[tokio::test(flavor = "multi_thread")]
async fn fm_44_a_modern_server_is_known_by_its_errors() {
    let supported = json!({"supported": ["2027-01-01"]});
    for (status, code, data) in [
        (400, -32020, json!(null)),
        (400, -32021, json!(null)),
        (200, -32020, json!(null)),
        (400, -32022, supported.clone()),
        (200, -32022, supported),
    ] {
        let error = json!({"error": {"code": code, "message": "no", "data": data}});
        let web = Web::start(discovered(status, "application/json", &error));
        let refused = Client::builder()
            .url(web.url())
            .connect()
            .await
            .unwrap_err();
        assert!(
            matches!(refused, Error::Remote { code: said, .. } if said == code),
            "{refused}"
        );
        assert!(web.asked("initialize").is_empty());
    }
}

/// A server that refuses the version it supports is asked in it once more, and not for ever.
#[tokio::test]
async fn a_version_is_used_when_the_server_asks_for_it() {
    for refusals in [1, usize::MAX] {
        let asked = AtomicUsize::new(0);
        let web = Web::start(move |request| {
            let id = &request.body["id"];
            let refused = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}});
            let found = json!({"jsonrpc": "2.0", "id": id, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {}}});
            let kind = [("content-type", "application/json")];
            Some(match asked.fetch_add(1, Ordering::SeqCst) < refusals {
                true => response(400, &kind, &refused.to_string()),
                false => message(&found),
            })
        });
        let client = Client::builder().url(web.url()).connect().await;
        assert_eq!(client.is_ok(), refusals == 1, "{client:?}");
        assert_eq!(web.asked("server/discover").len(), 2);
    }
}

/// FM-24: whoever is silent is asked for a sign of life by the operating system, and given up if there is none. (A
/// relay cannot show this: its own system answers for it.)
#[tokio::test(flavor = "multi_thread")]
async fn fm_24_the_system_watches_silent_connections() {
    let web = Web::start(|request| (request.method == "GET").then(|| vec![stream(), Act::Hang]));
    let client = Client::builder().url(web.url()).connect().await.unwrap();
    web.wait_for(1, "the stream", |request| request.method == "GET");
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let ours: Vec<TcpStream> = numbers
        .filter_map(|number| {
            // SAFETY: it is borrowed to be duplicated, which fails if it is not open any more.
            let fd = unsafe { BorrowedFd::borrow_raw(number) };
            let stream = TcpStream::from(fd.try_clone_to_owned().ok()?);
            (stream.peer_addr().ok()? == web.address()).then_some(stream)
        })
        .collect();
    assert!(!ours.is_empty());
    for stream in ours {
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        let idle = sockopt::tcp_keepidle(&stream).unwrap();
        let asked =
            sockopt::tcp_keepintvl(&stream).unwrap() * sockopt::tcp_keepcnt(&stream).unwrap();
        assert!(
            idle + asked <= Duration::from_secs(60),
            "{idle:?} {asked:?}"
        );
        let timeout = sockopt::tcp_user_timeout(&stream).unwrap();
        assert!((1..=60_000).contains(&timeout), "{timeout}");
    }
    client.close().await;
}
