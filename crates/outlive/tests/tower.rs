//! A server that is mounted in a stack of `axum`.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use outlive::client::Era;
use outlive::server::{Ctx, Server};
use outlive::{Client, Error};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Long enough that only a hang exceeds it.
const HANG: Duration = Duration::from_secs(30);

/// A server whose tool reports progress and says what it knows of the request and of its runtime.
fn server() -> Server {
    let about = |ctx: Ctx, (): ()| async move {
        ctx.progress(1.0, Some(2.0));
        tokio::time::sleep(Duration::from_millis(300)).await;
        let host = ctx.headers().and_then(|headers| headers.get("host"));
        let flavor = tokio::runtime::Handle::current().runtime_flavor();
        format!("{} {flavor:?}", host.is_some())
    };
    Server::builder("mounted", "1.0.0")
        .tool("about", "Says where it runs.", about)
        .build()
}

/// Serves an application with a page of its own and the server beside it.
async fn served(server: &Server) -> SocketAddr {
    let service = server.http().service().expect("a service");
    let app = Router::new()
        .route("/", get(|| async { "a page" }))
        .route_service("/mcp", service);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// What the application answers to a bare request.
async fn answered(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an answer");
    text
}

#[tokio::test]
async fn clients_of_both_eras_are_answered_on_the_runtime_of_the_application() {
    let server = server();
    let address = served(&server).await;
    for era in [Era::Legacy, Era::Modern] {
        let client = Client::builder()
            .url(format!("http://{address}/mcp"))
            .era(era)
            .connect();
        let client = tokio::time::timeout(HANG, client).await.expect("it hangs");
        let client = client.expect("to connect");
        // It takes longer than a plain response is waited for: this one is a stream.
        let result = client.call("about", json!({})).timeout(HANG).await;
        assert_eq!(result.expect("a result").text(), "true CurrentThread");
        client.close().await;
    }
    let close = "Host: localhost\r\nConnection: close\r\n\r\n";
    let page = answered(address, &format!("GET / HTTP/1.1\r\n{close}")).await;
    assert!(page.ends_with("a page"), "{page}");
}

#[tokio::test]
async fn what_guards_a_server_guards_it_here() {
    let server = server();
    let address = served(&server).await;
    let rest = "Host: evil.example.com\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let refused = answered(address, &format!("POST /mcp HTTP/1.1\r\n{rest}")).await;
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
}

#[tokio::test]
async fn a_server_that_is_shut_down_says_so_and_the_application_goes_on() {
    let server = server();
    let address = served(&server).await;
    let client = Client::builder()
        .url(format!("http://{address}/mcp"))
        .connect();
    let client = tokio::time::timeout(HANG, client).await.expect("it hangs");
    let client = client.expect("to connect");
    let call = client.call("about", json!({})).timeout(HANG);
    let call = tokio::spawn(call.into_future());
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.handle().shutdown();
    // Its handler is within its grace.
    let ended = call.await.expect("no panic");
    assert!(
        matches!(&ended, Ok(_) | Err(Error::ShuttingDown { .. })),
        "{ended:?}"
    );
    let close = "Host: localhost\r\nConnection: close\r\n\r\n";
    let page = answered(address, &format!("GET / HTTP/1.1\r\n{close}")).await;
    assert!(page.ends_with("a page"), "{page}");
}
