//! A session goes from one listener to another.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_peer::{Reply, message};
use outlive::Server;
use outlive::bytes::Bytes;
use outlive::server::ServerHandle;
use outlive::store::{Answer, Claimed, MemoryStore, NewSession, Owner, Part, Store, Tenure, Write};
use serde_json::{Value, json};

/// A hang would miss it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server of the library that keeps its sessions in this store.
async fn serve(store: Arc<dyn Store>) -> (SocketAddr, ServerHandle) {
    let server = Server::builder("demo", "1.0.0")
        .tool("hi", "Says hi.", |_, (): ()| async { "hi" })
        .build();
    let handle = server.handle();
    let bound = server
        .http()
        .store(store)
        .bind("127.0.0.1:0")
        .await
        .expect("bound");
    let address = bound.local_addr();
    tokio::spawn(bound.serve());
    (address, handle)
}

/// Sends a message, in a session if there is one.
async fn post(to: SocketAddr, session: Option<&str>, body: Value) -> Reply {
    let session = session.map(str::to_owned);
    let sent = tokio::task::spawn_blocking(move || {
        let headers = session.as_deref().map(|id| ("Mcp-Session-Id", id));
        let headers: Vec<_> = headers.into_iter().collect();
        http_peer::send(to, "POST", "/mcp", &headers, &body.to_string()).expect("a response")
    });
    sent.await.expect("sent")
}

/// Opens a session, as soon as one can be.
async fn session(at: SocketAddr) -> String {
    let begun = Instant::now();
    loop {
        let reply = post(at, None, message::initialize()).await;
        if let Some(session) = reply.header("mcp-session-id").map(str::to_owned) {
            assert_eq!(
                post(at, Some(&session), message::initialized())
                    .await
                    .status,
                202
            );
            return session;
        }
        assert_eq!(reply.status, 503);
        assert!(reply.header("retry-after").is_some());
        assert!(begun.elapsed() < PATIENCE, "no session is opened");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The status and the text of a call.
async fn echo(at: SocketAddr, session: &str, id: u64) -> (u16, String) {
    let reply = post(at, Some(session), message::call(id, "hi", json!({}))).await;
    let status = reply.status;
    let answer = tokio::task::spawn_blocking(|| reply.answer())
        .await
        .expect("an answer");
    let text = answer["result"]["content"][0]["text"].as_str();
    let words = answer["error"]["message"].as_str();
    (status, text.or(words).unwrap_or_default().to_owned())
}

/// Calls until it works.
async fn echo_at_last(at: SocketAddr, session: &str) {
    let begun = Instant::now();
    for id in 100.. {
        let (status, text) = echo(at, session, id).await;
        if status == 200 {
            return assert_eq!(text, "hi");
        }
        assert_eq!(status, 503, "{text}");
        assert!(begun.elapsed() < PATIENCE, "{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_to_another_listener_when_its_owner_leaves() {
    let store = Arc::new(MemoryStore::with_lease(Duration::from_secs(3)));
    let (first, handle) = serve(store.clone()).await;
    let (second, _) = serve(store.clone()).await;
    let session = session(first).await;
    assert_eq!(echo(first, &session, 1).await, (200, "hi".into()));
    let (status, words) = echo(second, &session, 2).await;
    assert_eq!(status, 503, "{words}");
    assert!(words.contains("Another process answers"), "{words}");
    handle.shutdown();
    echo_at_last(second, &session).await;
}

/// A store that can be made to fail for one of its users.
struct Flaky {
    store: Arc<MemoryStore>,
    fails: Arc<std::sync::atomic::AtomicBool>,
}

impl Flaky {
    fn or<'a, T: Send + 'a>(&self, answer: Answer<'a, T>) -> Answer<'a, T> {
        match self.fails.load(std::sync::atomic::Ordering::SeqCst) {
            true => Box::pin(async { Err(outlive::store::StoreError::new("it is cut off")) }),
            false => answer,
        }
    }
}

impl Store for Flaky {
    fn lease(&self) -> Option<Duration> {
        self.store.lease()
    }
    fn renew<'a>(&'a self, owner: Owner, address: &'a str, begins: bool) -> Answer<'a, bool> {
        self.or(self.store.renew(owner, address, begins))
    }
    fn leave(&self, owner: Owner) -> Answer<'_, ()> {
        self.or(self.store.leave(owner))
    }
    fn begin(&self, session: NewSession) -> Answer<'_, Tenure> {
        self.or(self.store.begin(session))
    }
    fn claim(&self, id: &str, principal: &str, by: Owner) -> Answer<'_, Claimed> {
        self.or(self.store.claim(id, principal, by))
    }
    fn write(&self, id: &str, tenure: Tenure, n: u64, writes: Vec<Write>) -> Answer<'_, bool> {
        self.or(self.store.write(id, tenure, n, writes))
    }
    fn touch(&self, sessions: Vec<(String, Tenure)>, ttl: Duration) -> Answer<'_, ()> {
        self.or(self.store.touch(sessions, ttl))
    }
    fn release(&self, id: &str, tenure: Tenure) -> Answer<'_, ()> {
        self.or(self.store.release(id, tenure))
    }
    fn end(&self, id: &str, tenure: Tenure) -> Answer<'_, ()> {
        self.or(self.store.end(id, tenure))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_cut_off_goes_on_until_its_lease_is_over_and_then_acts_no_more() {
    let store = Arc::new(MemoryStore::with_lease(Duration::from_secs(3)));
    let fails = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flaky = Flaky {
        store: store.clone(),
        fails: fails.clone(),
    };
    let (first, _first) = serve(Arc::new(flaky)).await;
    let (second, _second) = serve(store.clone()).await;
    let session = session(first).await;
    fails.store(true, std::sync::atomic::Ordering::SeqCst);
    // What is running goes on; nothing new is begun.
    assert_eq!(echo(first, &session, 1).await, (200, "hi".into()));
    assert_eq!(post(first, None, message::initialize()).await.status, 503);
    echo_at_last(second, &session).await;
    let (status, words) = echo(first, &session, 2).await;
    assert_eq!(status, 503, "{words}");
    fails.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(echo(second, &session, 3).await, (200, "hi".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_later_version_is_refused_and_left_as_it_is() {
    let store = Arc::new(MemoryStore::default());
    let (first, handle) = serve(store.clone()).await;
    let session = session(first).await;
    handle.shutdown();
    let claimed = store
        .claim(&session, "anyone", Owner(7))
        .await
        .expect("an answer");
    let Claimed::Granted(tenure, parts) = claimed else {
        panic!("{claimed:?}");
    };
    let mut head = parts[0].1.to_vec();
    head["outlive-session".len()] = 9;
    let later = Bytes::from(head);
    let writes = vec![(Part::Head, Some(later.clone()))];
    assert_eq!(store.write(&session, tenure, 1, writes).await, Ok(true));
    let (second, _handle) = serve(store.clone()).await;
    let (status, words) = echo(second, &session, 1).await;
    assert_eq!(status, 503);
    assert!(words.contains("version 9"), "{words}");
    let claimed = store
        .claim(&session, "anyone", Owner(8))
        .await
        .expect("an answer");
    let Claimed::Granted(_, parts) = claimed else {
        panic!("{claimed:?}");
    };
    assert_eq!(parts, [(Part::Head, later)]);
}
