//! A server that is mounted in a stack of `axum`.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::routing::get;
use outlive::client::Era;
use outlive::server::{Ctx, HttpService, Principal, Server};
use outlive::{Client, Error, Remote};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service;

/// Long enough that only a hang exceeds it.
const HANG: Duration = Duration::from_secs(30);

/// Whom a layer has found out.
#[derive(Clone)]
struct User(String);

/// A server whose tools report progress and say what they know of the request and of their runtime.
fn server() -> Server {
    let about = |ctx: Ctx, (): ()| async move {
        ctx.progress(1.0, Some(2.0));
        tokio::time::sleep(Duration::from_millis(300)).await;
        let host = ctx.headers().and_then(|headers| headers.get("host"));
        let flavor = tokio::runtime::Handle::current().runtime_flavor();
        format!("{} {flavor:?}", host.is_some())
    };
    let whoami = |ctx: Ctx, (): ()| async move {
        let user = ctx.extension::<User>().map(|user| user.0.clone());
        let principal = ctx.principal().map(|it| it.to_string());
        format!("{user:?} {principal:?}")
    };
    Server::builder("mounted", "1.0.0")
        .message_limit(1 << 20)
        .tool("about", "Says where it runs.", about)
        .tool("whoami", "Says who called.", whoami)
        .build()
}

/// Serves an application.
async fn served(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// An application with a page of its own and the server beside it.
fn beside_a_page(service: HttpService) -> Router {
    Router::new()
        .route("/", get(|| async { "a page" }))
        .route_service("/mcp", service)
}

async fn connected(remote: Remote, era: Era) -> Client {
    let client = Client::builder().url(remote).era(era).connect();
    let client = tokio::time::timeout(HANG, client).await.expect("it hangs");
    client.expect("to connect")
}

/// The server at this path.
fn at(address: SocketAddr, path: &str) -> Remote {
    Remote::new(format!("http://{address}{path}"))
}

/// What the application answers to a bare request.
async fn answered(address: SocketAddr, request: &str) -> String {
    let answering = async {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an answer");
        text
    };
    tokio::time::timeout(HANG, answering)
        .await
        .expect("it hangs")
}

async fn has_its_page(address: SocketAddr) {
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let page = answered(address, request).await;
    assert!(page.ends_with("a page"), "{page}");
}

/// A request to the endpoint.
fn post(headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {length}\r\n\
         {headers}\r\n{body}"
    )
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

#[tokio::test]
async fn clients_of_both_eras_are_answered_on_the_runtime_of_the_application() {
    let server = server();
    let service = server.http().service().expect("a service");
    let address = served(beside_a_page(service)).await;
    for era in [Era::Legacy, Era::Modern] {
        let client = connected(at(address, "/mcp"), era).await;
        // It takes longer than a plain response is waited for: this one is a stream.
        let result = client.call("about", json!({})).timeout(HANG).await;
        assert_eq!(result.expect("a result").text(), "true CurrentThread");
        client.close().await;
    }
    has_its_page(address).await;
}

#[tokio::test]
async fn a_router_may_take_off_the_path_that_leads_to_it() {
    let server = server();
    let service = server.http().service().expect("a service");
    let app = Router::new()
        .nest_service("/tools", service.clone())
        .nest_service("/deeper/still", service);
    let address = served(app).await;
    for path in ["/tools", "/tools/", "/tools/mcp", "/deeper/still"] {
        for era in [Era::Legacy, Era::Modern] {
            let client = connected(at(address, path), era).await;
            let result = client.call("whoami", json!({})).timeout(HANG).await;
            assert_eq!(result.expect("a result").text(), r#"None Some("anyone")"#);
            client.close().await;
        }
    }
    // HTTP+SSE, whose first event says where to post.
    let client = connected(at(address, "/deeper/still/sse"), Era::Legacy).await;
    let result = client.call("whoami", json!({})).timeout(HANG).await;
    assert_eq!(result.expect("a result").text(), r#"None Some("anyone")"#);
    client.close().await;
}

#[tokio::test]
async fn what_guards_a_server_guards_it_here() {
    let server = server();
    let service = server.http().token("secret").service().expect("a service");
    let address = served(beside_a_page(service)).await;
    let rest = "Host: evil.example.com\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let refused = answered(address, &format!("POST /mcp HTTP/1.1\r\n{rest}")).await;
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let refused = answered(address, &post("", INITIALIZE)).await;
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    let admitted = post("Authorization: Bearer secret\r\n", INITIALIZE);
    let admitted = answered(address, &admitted).await;
    assert!(admitted.starts_with("HTTP/1.1 200 "), "{admitted}");
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused() {
    let server = server();
    let service = server.http().service().expect("a service");
    let address = served(beside_a_page(service)).await;
    let long = format!("\"{}\"", "x".repeat(2 << 20));
    let refused = answered(address, &post("", &long)).await;
    assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
    has_its_page(address).await;
}

#[tokio::test]
async fn a_layer_in_front_says_who_calls_and_sessions_are_theirs() {
    let known = |mut request: Request, next: Next| async move {
        let user = request.headers().get("x-user");
        let user = user
            .and_then(|it| it.to_str().ok())
            .unwrap_or("0")
            .to_owned();
        let number = user.parse().expect("a number");
        request.extensions_mut().insert(User(user));
        request.extensions_mut().insert(Principal::Caller(number));
        next.run(request).await
    };
    let server = server();
    let service = server.http().service().expect("a service");
    let app = beside_a_page(service).layer(middleware::from_fn(known));
    let address = served(app).await;
    for (era, user) in [(Era::Legacy, "7"), (Era::Modern, "8")] {
        let remote = at(address, "/mcp").header(format!("X-User: {user}"));
        let client = connected(remote, era).await;
        let result = client.call("whoami", json!({})).timeout(HANG).await;
        let expected = format!("Some({user:?}) Some(\"caller-{user}\")");
        assert_eq!(result.expect("a result").text(), expected);
        client.close().await;
    }

    let begun = answered(address, &post("X-User: 7\r\n", INITIALIZE)).await;
    let session = begun.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("mcp-session-id")
            .then(|| value.to_owned())
    });
    let session = session.unwrap_or_else(|| panic!("no session: {begun}"));
    for (user, expected) in [("7", "202"), ("8", "404"), ("0", "404")] {
        let headers = format!("X-User: {user}\r\nMcp-Session-Id: {session}\r\n");
        let told = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let reply = answered(address, &post(&headers, told)).await;
        let start = format!("HTTP/1.1 {expected} ");
        assert!(reply.starts_with(&start), "user {user}: {reply}");
    }
}

#[tokio::test]
async fn a_server_that_is_shut_down_says_so_and_the_application_goes_on() {
    let server = server();
    let service = server.http().service().expect("a service");
    let address = served(beside_a_page(service)).await;
    let client = connected(at(address, "/mcp"), Era::Legacy).await;
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
    has_its_page(address).await;
    let refused = answered(address, &post("", INITIALIZE)).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
}

#[tokio::test]
async fn an_application_ends_gracefully_although_clients_listen() {
    let server = server();
    let service = server.http().service().expect("a service");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let handle = server.handle();
    let serving =
        axum::serve(listener, beside_a_page(service)).with_graceful_shutdown(async move {
            let _ = stopped.await;
            handle.shutdown();
        });
    let serving = tokio::spawn(serving.into_future());
    // A legacy client keeps a stream open to hear what its server has to say.
    let client = connected(at(address, "/mcp"), Era::Legacy).await;
    let result = client.call("whoami", json!({})).timeout(HANG).await;
    result.expect("a result");
    stop.send(()).expect("it waits");
    let ended = tokio::time::timeout(HANG, serving).await;
    ended.expect("it hangs").expect("no panic").expect("served");
    drop(client);
}

#[tokio::test]
async fn a_service_ends_with_its_last_clone() {
    let server = server();
    let mut service = server.http().service().expect("a service");
    let begin = || {
        let begin = Request::post("/mcp")
            .header("Host", "localhost")
            .header("Accept", "text/event-stream, application/json")
            .header("Content-Type", "application/json")
            .body(Body::from(INITIALIZE));
        begin.expect("a request")
    };
    let Ok(begun) = service.call(begin()).await;
    let session = begun.headers().get("mcp-session-id").expect("a session");
    let listen = Request::get("/mcp")
        .header("Host", "localhost")
        .header("Accept", "text/event-stream")
        .header("Mcp-Session-Id", session)
        .body(Body::empty());
    let Ok(stream) = service.call(listen.expect("a request")).await;
    assert_eq!(stream.status(), 200);
    let mut another = service.clone();
    drop(service);
    let Ok(begun) = another.call(begin()).await;
    assert_eq!(begun.status(), 200);
    drop((another, begun));
    let rest = to_bytes(Body::new(stream.into_body()), 1 << 20);
    let rest = tokio::time::timeout(HANG, rest).await;
    rest.expect("the stream does not end").expect("a body");
}

#[test]
fn a_service_needs_a_runtime() {
    assert!(server().http().service().is_err());
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_service_does_not_pretend_to_encrypt() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/tls/");
    let (certificate, key) = (format!("{folder}first.pem"), format!("{folder}first.key"));
    let service = server().http().tls(certificate, key).service();
    let error = service.expect_err("nobody would encrypt");
    assert!(error.to_string().contains("stack"), "{error}");
}
