//! Several targets behind one HTTP listener.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::gateway::TargetLimits;
use outlive_core::policy::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::target::{Source, Target};
use super::{Gateway, Sharing};
use crate::process::command::Command;
use crate::secrets::Secrets;

/// A server that answers every request as if it were an `initialize` with the id 1.
fn target(name: &str) -> Target {
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-06-18","capabilities":{{}},"serverInfo":{{"name":"{name}","version":"0"}}}}}}"#
    );
    let script = format!("while read -r line; do echo '{answer}'; done");
    let command = Command::new("sh", ["-c", &script]);
    let source = Source::Command(command, Secrets::default());
    Target::new(
        name.into(),
        source,
        Policy::default(),
        TargetLimits::default(),
    )
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
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(to).await.expect("a connection");
    let request = head + &body;
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
    let gateway = Gateway::over(vec![target("a"), target("b")], None, Arc::new(()));
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
