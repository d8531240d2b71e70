//! Several targets behind one HTTP listener.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outlive_core::policy::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::{Builder, Gateway, LONGEST_NAME, Sharing};
use crate::process::command::Command;
use crate::server::Server;

/// A server that answers every request as if it were an `initialize` with the id 1.
fn builder(name: &str) -> Builder {
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-06-18","capabilities":{{}},"serverInfo":{{"name":"{name}","version":"0"}}}}}}"#
    );
    let script = format!("while read -r line; do echo '{answer}'; done");
    Gateway::command(Command::new("sh", ["-c", &script]))
}

/// Posts a request of 2026-07-28; the whole response.
async fn modern(to: SocketAddr, path: &str, method: &str) -> String {
    let about = [
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#,
        r#""io.modelcontextprotocol/clientInfo":{"name":"c","version":"0"}"#,
        r#""io.modelcontextprotocol/clientCapabilities":{}"#,
    ]
    .join(",");
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"_meta":{{{about}}}}}}}"#
    );
    let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n");
    post(to, path, &headers, &body).await
}

/// Posts `initialize`, in this session if there is one; the whole response.
async fn initialize(to: SocketAddr, path: &str, session: Option<&str>) -> String {
    let method = if session.is_some() {
        "ping"
    } else {
        "initialize"
    };
    let params = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"0"}}"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
    let session = session.map_or(String::new(), |id| format!("Mcp-Session-Id: {id}\r\n"));
    post(to, path, &session, &body).await
}

async fn post(to: SocketAddr, path: &str, headers: &str, body: &str) -> String {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(to).await.expect("a connection");
    let request = head + body;
    stream
        .write_all(request.as_bytes())
        .await
        .expect("it is sent");
    let mut response = String::new();
    stream
        .read_to_string(&mut response)
        .await
        .expect("a response");
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn each_target_has_a_path_servers_and_sessions_of_its_own() {
    let gateway = Gateway::of([("a", builder("a")), ("b", builder("b"))]);
    let gateway = gateway.build().expect("a gateway");
    let server = gateway.http().bind("127.0.0.1:0").await.expect("a port");
    let to = server.local_addr();
    let serving = tokio::spawn(server.serve());
    let a = initialize(to, "/a/mcp", None).await;
    assert!(a.contains(r#""name":"a""#), "{a}");
    let upstreams = gateway.upstreams();
    assert_eq!((upstreams.len(), &*upstreams[0].target), (1, "a"));
    assert_eq!(upstreams[0].sharing, Sharing::Dedicated);
    let b = initialize(to, "/b/mcp", None).await;
    assert!(b.contains(r#""name":"b""#), "{b}");
    let upstreams = gateway.upstreams();
    assert_eq!((upstreams.len(), &*upstreams[1].target), (2, "b"));
    let id = b.lines().find_map(|line| {
        line.to_lowercase()
            .strip_prefix("mcp-session-id: ")
            .map(str::to_owned)
    });
    let id = id.expect("a session");
    for (path, status) in [("/a/mcp", "404"), ("/mcp", "404"), ("/b/mcp", "200")] {
        let response = initialize(to, path, Some(&id)).await;
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status}")),
            "{path}: {response}"
        );
    }
    gateway.shutdown();
    serving.await.expect("no panic").expect("it ends");
    assert!(gateway.upstreams().is_empty());
}

#[tokio::test]
async fn settings_that_make_no_sense_fail_before_anything_is_served() {
    let nowhere = Gateway::remote("ftp://example.com".into()).build();
    let mut policy = Policy::default();
    policy.handshake = Duration::ZERO;
    let hasty = Gateway::command(Command::new("true", [""; 0])).policy(policy);
    for (gateway, named) in [(nowhere, "ftp"), (hasty.build(), "Policy::handshake")] {
        let error = gateway.http().bind("127.0.0.1:0").await;
        let error = error.expect_err("it cannot be served");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_targets_of_every_kind_are_served_and_one_that_cannot_start_takes_none_with_it() {
    let own = Server::builder("own", "1").build();
    let quick = || {
        let mut policy = Policy::default();
        policy.hold = Duration::from_millis(10);
        policy
    };
    let gateway = Gateway::of([
        ("a", builder("a")),
        ("own", Gateway::server(&own)),
        (
            "broken",
            Gateway::unstartable("the entry makes no sense").policy(quick()),
        ),
        (
            "none",
            Gateway::command(Command::new("/no/such/program", [""; 0])).policy(quick()),
        ),
    ]);
    let gateway = gateway.build().expect("a gateway");
    assert_eq!(
        gateway.names().collect::<Vec<_>>(),
        ["a", "own", "broken", "none"]
    );
    let obstacles: Vec<String> = gateway.obstacles().into_iter().map(|it| it.0).collect();
    assert_eq!(obstacles, ["broken", "none"]);
    let server = gateway.http().bind("127.0.0.1:0").await.expect("a port");
    let to = server.local_addr();
    let serving = tokio::spawn(server.serve());
    let a = initialize(to, "/a/mcp", None).await;
    assert!(a.contains(r#""name":"a""#), "{a}");
    let own = initialize(to, "/own/mcp", None).await;
    assert!(own.contains(r#""name":"own""#), "{own}");
    let broken = initialize(to, "/broken/mcp", None).await;
    let words = r#"The server \"broken\" could not be started: the entry makes no sense, so"#;
    assert!(broken.contains(words), "{broken}");
    let none = initialize(to, "/none/mcp", None).await;
    let words = r#"The server \"none\" could not be started: there is no such file"#;
    assert!(none.contains(words), "{none}");
    gateway.shutdown();
    serving.await.expect("no panic").expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_back_over_a_longer_way_is_refused() {
    let relay = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let around = relay.local_addr().expect("an address");
    let mut policy = Policy::default();
    policy.hold = Duration::from_millis(10);
    let remote = Gateway::remote(format!("http://{around}/a/mcp").as_str().into());
    let targets = [("a", builder("a")), ("loop", remote.policy(policy))];
    let gateway = Gateway::of(targets).build().expect("a gateway");
    let server = gateway.http().bind("127.0.0.1:0").await.expect("a port");
    let to = server.local_addr();
    let serving = tokio::spawn(server.serve());
    let relaying = tokio::spawn(async move {
        while let Ok((mut from, _)) = relay.accept().await {
            let mut onward = TcpStream::connect(to).await.expect("a connection");
            tokio::spawn(async move { copy_bidirectional(&mut from, &mut onward).await });
        }
    });
    let refused = initialize(to, "/loop/mcp", None).await;
    assert!(refused.contains("(cyclic)"), "{refused}");
    for method in ["server/discover", "tools/list", "tools/call"] {
        let refused = modern(to, "/loop/mcp", method).await;
        assert!(refused.contains("(cyclic)"), "{refused}");
    }
    let a = initialize(to, "/a/mcp", None).await;
    assert!(a.contains(r#""name":"a""#), "{a}");
    gateway.shutdown();
    serving.await.expect("no panic").expect("it ends");
    relaying.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_that_have_each_other_for_a_server_open_no_sessions_without_end() {
    let relay = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let around = relay.local_addr().expect("an address");
    let mut policy = Policy::default();
    policy.hold = Duration::from_millis(10);
    let remote = |url: String| Gateway::remote(url.as_str().into()).policy(policy.clone());
    let targets = [
        ("a", remote(format!("http://{around}/b/mcp"))),
        ("one", builder("one")),
    ];
    let second = Gateway::of(targets).build().expect("a gateway");
    let server = second.http().bind("127.0.0.1:0").await.expect("a port");
    let second_at = server.local_addr();
    let serving_second = tokio::spawn(server.serve());
    let targets = [("b", remote(format!("http://{second_at}/a/mcp")))];
    let first = Gateway::of(targets).build().expect("a gateway");
    let server = first.http().bind("127.0.0.1:0").await.expect("a port");
    let first_at = server.local_addr();
    let serving_first = tokio::spawn(server.serve());
    let times = Arc::new(AtomicUsize::new(0));
    let counted = times.clone();
    let relaying = tokio::spawn(async move {
        while let Ok((mut from, _)) = relay.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut onward = TcpStream::connect(first_at).await.expect("a connection");
            tokio::spawn(async move { copy_bidirectional(&mut from, &mut onward).await });
        }
    });
    let refused = initialize(first_at, "/b/mcp", None).await;
    assert!(refused.contains("(cyclic)"), "{refused}");
    assert!(times.load(Ordering::SeqCst) < 8, "{times:?} times around");
    // At both ends at once: each then waits for a handshake of the other, which must not be the same one.
    let (one, other) = tokio::join!(
        modern(first_at, "/b/mcp", "tools/list"),
        modern(second_at, "/a/mcp", "tools/list")
    );
    let again = modern(first_at, "/b/mcp", "server/discover").await;
    for refused in [one, other, again] {
        let code = r#""error":{"code":-31011,"#;
        let is_told = refused.contains("(cyclic)") && refused.contains(code);
        assert!(is_told, "{refused}");
    }
    assert!(times.load(Ordering::SeqCst) < 24, "{times:?} times around");
    let one = initialize(second_at, "/one/mcp", None).await;
    assert!(one.contains(r#""name":"one""#), "{one}");
    for (gateway, serving) in [(first, serving_first), (second, serving_second)] {
        gateway.shutdown();
        serving.await.expect("no panic").expect("it ends");
    }
    relaying.abort();
}

#[test]
fn names_are_segments_of_a_path_and_differ() {
    let long = "x".repeat(LONGEST_NAME + 1);
    for (names, words) in [
        (&["a", "b", "a"][..], "two servers are called \"a\""),
        (&["a", ""], "an empty name"),
        (&["a b"], "because of ' '"),
        (&["a/b"], "because of '/'"),
        (&["\u{e4}"], "because of '\u{e4}'"),
        (&[".."], "can be called"),
        (&[long.as_str()], "longer than 128"),
        (&[], "there are no servers"),
    ] {
        let targets = names.iter().map(|name| (*name, builder("x")));
        let error = Gateway::of(targets).build().expect_err("a wrong name");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn all_of_several_are_at_the_path_itself_and_each_at_its_own() {
    let alone = Gateway::of([("a", builder("a"))]).build().expect("one");
    let paths = |gateway: Gateway| -> Vec<String> {
        let endpoints = gateway.backend(1).0.endpoints("/mcp").into_iter();
        endpoints.map(|(_, path)| path).collect()
    };
    assert_eq!(paths(alone), ["/mcp", "/a/mcp"]);
    assert_eq!(paths(builder("a").build()), ["/mcp"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_changes_what_is_different_and_a_wrong_one_changes_nothing() {
    let all = |names: &[&str], script: &str| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Gateway::of(names.into_iter().map(|name| (name, builder(script))))
    };
    let gateway = all(&["a", "b"], "x").build().expect("a gateway");
    let server = gateway.http().bind("127.0.0.1:0").await.expect("a port");
    let to = server.local_addr();
    let serving = tokio::spawn(server.serve());
    let a = initialize(to, "/a/mcp", None).await;
    assert!(a.contains(r#""name":"x""#), "{a}");

    let same = gateway
        .update(all(&["b", "a"], "x"))
        .expect("nothing wrong");
    assert_eq!(
        same,
        super::Changes::default(),
        "the order only changes what is shown"
    );
    assert_eq!(gateway.names().collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(gateway.upstreams().len(), 1);
    for wrong in [&["a", "a"][..], &["a", "x/y"], &[]] {
        gateway.update(all(wrong, "x")).expect_err("wrong names");
    }
    let mut policy = Policy::default();
    policy.handshake = Duration::ZERO;
    let hasty = Gateway::of([("a", builder("x").policy(policy))]);
    gateway.update(hasty).expect_err("a wrong policy");
    assert_eq!(gateway.names().collect::<Vec<_>>(), ["b", "a"]);

    let changes = gateway
        .update(all(&["b", "c"], "x"))
        .expect("nothing wrong");
    assert_eq!(
        (changes.added, changes.removed),
        (vec!["c".to_owned()], vec!["a".to_owned()])
    );
    assert!(
        initialize(to, "/a/mcp", None)
            .await
            .starts_with("HTTP/1.1 404")
    );
    let c = initialize(to, "/c/mcp", None).await;
    assert!(c.contains(r#""name":"x""#), "{c}");
    let changes = gateway
        .update(all(&["b", "c"], "y"))
        .expect("nothing wrong");
    assert_eq!(changes.changed, ["b", "c"]);
    let c = initialize(to, "/c/mcp", None).await;
    assert!(c.contains(r#""name":"y""#), "{c}");
    gateway.shutdown();
    serving.await.expect("no panic").expect("it ends");
    assert!(gateway.upstreams().is_empty());

    let one = builder("x").build();
    one.update(all(&["a"], "x"))
        .expect_err("it is of one server");
}
