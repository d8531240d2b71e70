//! A request reaches a listener that does not own its session, and is forwarded to the one that does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_peer::{Reply, message};
use outlive::Server;
use outlive::server::ServerHandle;
use outlive::store::MemoryStore;
use serde_json::{Value, json};
use tokio::task::block_in_place;

/// A hang would miss it.
const PATIENCE: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(3);
const SECRET: &str = "a secret of all replicas";

/// What lies between two listeners: it counts connections, keeps what was said, and can be told to spoil it.
#[derive(Clone)]
struct Relay {
    address: SocketAddr,
    mode: Arc<AtomicU64>,
    heard: Arc<Mutex<Vec<u8>>>,
    connections: Arc<AtomicUsize>,
}

const PASS: u64 = 0;
/// What is said reaches the other side, and the next answer does not come back.
const SWALLOW: u64 = 1;

impl Relay {
    /// To an address that is told later.
    fn new() -> (Relay, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let relay = Relay {
            address: listener.local_addr().expect("an address"),
            mode: Arc::default(),
            heard: Arc::default(),
            connections: Arc::default(),
        };
        (relay, listener)
    }

    fn start(&self, listener: TcpListener, to: SocketAddr) {
        let relay = self.clone();
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                relay.connections.fetch_add(1, Ordering::SeqCst);
                let Ok(onward) = TcpStream::connect(to) else {
                    continue;
                };
                let (back, there) = (from.try_clone(), onward.try_clone());
                let (Ok(back), Ok(there)) = (back, there) else {
                    continue;
                };
                let (one, other) = (relay.clone(), relay.clone());
                std::thread::spawn(move || one.carry(from, there, true));
                std::thread::spawn(move || other.carry(onward, back, false));
            }
        });
    }

    fn carry(&self, mut from: TcpStream, mut to: TcpStream, asks: bool) {
        let mut bytes = [0; 16 << 10];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            if asks {
                self.heard
                    .lock()
                    .expect("a list")
                    .extend_from_slice(&bytes[..length]);
            }
            match self.mode.load(Ordering::SeqCst) {
                SWALLOW if !asks => {
                    self.set(PASS);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                    return;
                }
                _ if to.write_all(&bytes[..length]).is_err() => return,
                _ => {}
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    }

    fn set(&self, mode: u64) {
        self.mode.store(mode, Ordering::SeqCst);
    }
}

/// A replica, and the way on which others reach it.
struct Replica {
    address: SocketAddr,
    relay: Relay,
    handle: ServerHandle,
    calls: Arc<AtomicUsize>,
}

async fn replica(store: &Arc<MemoryStore>, secret: &str, tokens: Option<&str>) -> Replica {
    let (replica, listener) = unreachable_replica(store, secret, tokens).await;
    replica.relay.start(listener, replica.address);
    replica
}

/// One that others do not reach before its relay is started.
async fn unreachable_replica(
    store: &Arc<MemoryStore>,
    secret: &str,
    tokens: Option<&str>,
) -> (Replica, TcpListener) {
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, slow) = (calls.clone(), calls.clone());
    let server = Server::builder("demo", "1.0.0")
        .tool("hi", "Says hi.", |_, (): ()| async { "hi" })
        .tool("count", "Counts.", move |_, (): ()| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { "counted" }
        })
        .tool("slow", "Takes a second.", move |_, (): ()| {
            slow.fetch_add(1, Ordering::SeqCst);
            async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                "slept"
            }
        })
        .build();
    let handle = server.handle();
    let (relay, listener) = Relay::new();
    let mut http = server
        .http()
        .store(store.clone())
        .keep_alive(Duration::from_secs(1))
        .advertise(format!("http://{}", relay.address))
        .replica_secret(secret);
    if let Some(file) = tokens {
        http = http.token_file(file);
    }
    let bound = http.bind("127.0.0.1:0").await.expect("bound");
    let address = bound.local_addr();
    tokio::spawn(bound.serve());
    let replica = Replica {
        address,
        relay,
        handle,
        calls,
    };
    (replica, listener)
}

type Headers<'a> = &'a [(&'a str, &'a str)];

fn send(to: SocketAddr, method: &str, headers: Headers<'_>, body: &Value) -> Reply {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    block_in_place(|| http_peer::send(to, method, "/mcp", headers, &body)).expect("a response")
}

fn post(to: SocketAddr, session: &str, body: &Value) -> Reply {
    let headers = [
        ("Mcp-Session-Id", session),
        ("MCP-Protocol-Version", "2025-11-25"),
    ];
    send(to, "POST", &headers, body)
}

fn call(to: SocketAddr, session: &str, id: u64, tool: &str) -> Value {
    let reply = post(to, session, &message::call(id, tool, json!({})));
    block_in_place(|| reply.answer())
}

fn session_with(at: SocketAddr, headers: Headers<'_>) -> String {
    let begun = Instant::now();
    loop {
        let reply = send(at, "POST", headers, &message::initialize());
        if let Some(session) = reply.header("mcp-session-id").map(str::to_owned) {
            let headers = [headers, &[("Mcp-Session-Id", &session)]].concat();
            let told = send(at, "POST", &headers, &message::initialized());
            assert_eq!(told.status, 202);
            return session;
        }
        assert_eq!(reply.status, 503);
        assert!(begun.elapsed() < PATIENCE, "no session is opened");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(answer: &Value) -> &str {
    message::text_of(answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn any_replica_takes_any_request() {
    let store = Arc::new(MemoryStore::with_lease(LEASE));
    let owner = replica(&store, SECRET, None).await;
    let edge = replica(&store, SECRET, None).await;
    let third = replica(&store, SECRET, None).await;
    let session = session_with(owner.address, &[]);
    for (id, at) in [&owner, &edge, &third, &edge].into_iter().enumerate() {
        let answer = call(at.address, &session, id as u64, "count");
        assert_eq!(text(&answer), "counted", "{answer}");
    }
    let executed = |replica: &Replica| replica.calls.load(Ordering::SeqCst);
    assert_eq!((executed(&owner), executed(&edge)), (4, 0));
    assert_eq!(executed(&third), 0);
    // One connection carries one exchange after the other, unless it was idle for a while.
    let before = owner.relay.connections.load(Ordering::SeqCst);
    for id in 10..30 {
        assert_eq!(text(&call(edge.address, &session, id, "hi")), "hi");
    }
    let made = owner.relay.connections.load(Ordering::SeqCst) - before;
    assert!(made < 10, "{made} connections for 20 exchanges");

    // A stream comes through, and is taken up again at the third.
    let mut stream = post(
        edge.address,
        &session,
        &message::call(10, "slow", json!({})),
    );
    assert!(stream.is_stream());
    let first = block_in_place(|| stream.event()).expect("an event");
    let last = first.id.expect("an id");
    drop(stream);
    let headers = [
        ("Mcp-Session-Id", session.as_str()),
        ("Last-Event-ID", last.as_str()),
    ];
    let rest = send(third.address, "GET", &headers, &Value::Null);
    assert!(rest.is_stream());
    let rest = block_in_place(|| rest.messages());
    assert_eq!(text(rest.last().expect("an answer")), "slept", "{rest:?}");

    // What is no request is accepted, and what makes no sense is refused, as the owner does.
    let told = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    assert_eq!(post(edge.address, &session, &told).status, 202);

    // It ends for all of them.
    let headers = [("Mcp-Session-Id", session.as_str())];
    let gone = send(third.address, "DELETE", &headers, &Value::Null);
    assert_eq!(gone.status, 200);
    for at in [&owner, &edge, &third] {
        let reply = post(at.address, &session, &message::call(11, "hi", json!({})));
        assert_eq!(reply.status, 404);
    }
    for replica in [owner, edge, third] {
        replica.handle.shutdown();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_is_its_principals_at_every_replica() {
    let store = Arc::new(MemoryStore::with_lease(LEASE));
    let directory = tempfile::tempdir().expect("a directory");
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "one\ntwo\n").expect("written");
    let tokens = tokens.to_str();
    let owner = replica(&store, SECRET, tokens).await;
    let edge = replica(&store, SECRET, tokens).await;
    let session = session_with(owner.address, &[("Authorization", "Bearer one")]);
    for at in [&edge, &owner, &edge] {
        for (token, status) in [("Bearer one", 200), ("Bearer two", 404), ("Bearer no", 401)] {
            let headers = [("Authorization", token), ("Mcp-Session-Id", &*session)];
            let body = message::call(1, "hi", json!({}));
            let reply = send(at.address, "POST", &headers, &body);
            assert_eq!(reply.status, status, "{token}");
        }
    }
    let heard = owner.relay.heard.lock().expect("a list").clone();
    let heard = String::from_utf8_lossy(&heard).to_lowercase();
    assert!(
        heard.contains("outlive-forward: 1 "),
        "something was forwarded"
    );
    assert!(
        !heard.contains("bearer"),
        "a token is nobody else's business"
    );
}

/// The head of the last request that was forwarded, and its body.
fn forwarded(relay: &Relay) -> String {
    let heard = relay.heard.lock().expect("a list").clone();
    let heard = String::from_utf8(heard).expect("text");
    let at = heard.rfind("POST /mcp").expect("a request");
    heard[at..].to_owned()
}

/// What a request is answered with that says so literally.
fn raw(to: SocketAddr, request: &str) -> Reply {
    block_in_place(|| {
        let mut stream = http_peer::connect(to).expect("connected");
        stream.write_all(request.as_bytes()).expect("sent");
        Reply::read(stream).expect("a response")
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_no_replica_has_forwarded_is_refused() {
    let store = Arc::new(MemoryStore::with_lease(LEASE));
    let owner = replica(&store, SECRET, None).await;
    let edge = replica(&store, SECRET, None).await;
    let session = session_with(owner.address, &[]);
    assert_eq!(text(&call(edge.address, &session, 1, "count")), "counted");
    let request = forwarded(&owner.relay);
    assert!(request.contains("\"count\""), "{request}");
    // The same once more; with another signature; for another session; with another method.
    let signature = request.find("outlive-forward: ").expect("a passport");
    let end = signature + request[signature..].find("\r\n").expect("a line");
    let mut forged = request.clone();
    let other = if &request[end - 2..end - 1] == "A" {
        "B"
    } else {
        "A"
    };
    forged.replace_range(end - 2..end - 1, other);
    let foreign = session_with(owner.address, &[]);
    for (what, request, word) in [
        ("replayed", request.clone(), "forwarded before"),
        ("forged", forged, "none has signed it"),
        (
            "foreign",
            request.replace(&session, &foreign),
            "none has signed it",
        ),
        (
            "another method",
            request.replace("POST /mcp", "DELETE /mcp"),
            "none has signed it",
        ),
    ] {
        let reply = raw(owner.address, &request);
        assert_eq!(reply.status, 403, "{what}");
        let answer = block_in_place(|| reply.json());
        let sentence = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(sentence.contains(word), "{what}: {sentence}");
    }
    // A client's own header of that name gets nobody in.
    let headers = [
        ("Mcp-Session-Id", session.as_str()),
        ("Outlive-Forward", "1"),
    ];
    let reply = send(
        edge.address,
        "POST",
        &headers,
        &message::call(2, "count", json!({})),
    );
    assert_eq!(reply.status, 403);
    // It was meant for this owner, and no other.
    let reply = raw(edge.address, &request);
    assert_eq!(reply.status, 421);
    assert_eq!(owner.calls.load(Ordering::SeqCst), 1);
    // One that does not know the secret is told so, and its client is.
    let stranger = replica(&store, "another secret of nobody", None).await;
    let begun = Instant::now();
    let reply = loop {
        let reply = post(
            stranger.address,
            &session,
            &message::call(3, "count", json!({})),
        );
        // Without a lease it does not even ask.
        let sentence = block_in_place(|| reply.json())["error"]["message"].to_string();
        if sentence.contains("does not accept") {
            break sentence;
        }
        assert!(begun.elapsed() < PATIENCE, "{sentence}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(reply.contains("none has signed it"), "{reply}");
    assert_eq!(owner.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_may_have_reached_its_owner_is_not_sent_again_unless_it_is_safe() {
    let store = Arc::new(MemoryStore::with_lease(LEASE));
    let owner = replica(&store, SECRET, None).await;
    let edge = replica(&store, SECRET, None).await;
    let session = session_with(owner.address, &[]);
    assert_eq!(text(&call(edge.address, &session, 1, "count")), "counted");
    owner.relay.set(SWALLOW);
    let lost = call(edge.address, &session, 2, "count");
    let about = &lost["error"]["data"]["outlive"];
    assert_eq!(about["kind"], "connection_lost", "{lost}");
    assert_eq!(about["outcome"], "unknown", "{lost}");
    assert_eq!(lost["id"], 2);
    assert_eq!(
        owner.calls.load(Ordering::SeqCst),
        2,
        "it ran, and ran once"
    );
    // What is safe is sent once more.
    owner.relay.set(SWALLOW);
    let list = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"});
    let listed = block_in_place(|| post(edge.address, &session, &list).answer());
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    assert_eq!(text(&call(edge.address, &session, 4, "hi")), "hi");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_owner_that_cannot_be_reached_is_waited_for_and_a_refusal_says_that_nothing_was_done() {
    let store = Arc::new(MemoryStore::with_lease(LEASE));
    let (owner, listener) = unreachable_replica(&store, SECRET, None).await;
    // Nobody listens there for now.
    drop(listener);
    let edge = replica(&store, SECRET, None).await;
    let session = session_with(owner.address, &[]);
    // One that lives and is never reached is not waited for for ever.
    let reply = post(
        edge.address,
        &session,
        &message::call(1, "count", json!({})),
    );
    assert_eq!(reply.status, 503);
    assert!(reply.header("retry-after").is_some());
    let sentence = block_in_place(|| reply.json())["error"]["message"].to_string();
    assert!(sentence.contains("Nothing was done"), "{sentence}");
    let (relay, to) = (owner.relay.clone(), owner.address);
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        let again = TcpListener::bind(relay.address).expect("the port");
        relay.start(again, to);
    });
    assert_eq!(text(&call(edge.address, &session, 2, "count")), "counted");
    assert_eq!(owner.calls.load(Ordering::SeqCst), 1);
    // When it leaves, the session goes on at the other one.
    owner.handle.shutdown();
    let begun = Instant::now();
    for id in 3.. {
        let reply = post(edge.address, &session, &message::call(id, "hi", json!({})));
        if reply.status == 200 {
            let answer = block_in_place(|| reply.answer());
            let kind = &answer["error"]["data"]["outlive"]["kind"];
            if kind != "connection_lost" {
                assert_eq!(text(&answer), "hi", "{answer}");
                break;
            }
        }
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn modern_requests_need_no_owner() {
    let store = Arc::new(MemoryStore::with_lease(LEASE));
    let one = replica(&store, SECRET, None).await;
    let other = replica(&store, SECRET, None).await;
    for at in [&one, &other] {
        let request = message::modern_call(1, "count", json!({}));
        let headers = message::modern_headers(&request);
        let reply = send(at.address, "POST", &message::as_strs(&headers), &request);
        let answer = block_in_place(|| reply.answer());
        assert_eq!(text(&answer), "counted", "{answer}");
        assert_eq!(at.calls.load(Ordering::SeqCst), 1);
        assert_eq!(at.relay.connections.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused() {
    let http = |url: &str, secret: &str| {
        let server = Server::builder("demo", "1.0.0").build();
        let store = Arc::new(MemoryStore::with_lease(LEASE));
        let http = server.http().store(store).advertise(url);
        match secret {
            "" => http,
            secret => http.replica_secret(secret),
        }
    };
    for (http, word) in [
        (http("http://a", ""), "a replica secret is needed"),
        (http("http://a", "short"), "shorter than 16"),
        (http("a:80", SECRET), "begin with http"),
        (
            http("http://a", SECRET).store(Arc::new(MemoryStore::default())),
            "one process's alone",
        ),
    ] {
        let why = http.bind("127.0.0.1:0").await.expect_err("refused");
        assert!(why.to_string().contains(word), "{why}");
    }
}
