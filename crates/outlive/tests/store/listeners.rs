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
use tokio::sync::watch;

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

/// Nobody can go on with it, now or later: its client is told to begin anew, and no other session suffers.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_record_is_damaged_has_ended() {
    let changes: [fn(&Bytes) -> Vec<Write>; 4] = [
        |head| {
            let mut head = head.to_vec();
            let last = head.len() - 1;
            head[last] ^= 1;
            vec![(Part::Head, Some(head.into()))]
        },
        |head| vec![(Part::Head, Some(head.slice(..head.len() / 2)))],
        |_| vec![(Part::Head, None)],
        |_| {
            let event = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"x"}"#);
            let part = Part::read(&format!("event/{0}/{0}", u64::MAX));
            vec![(part.expect("a part"), Some(event))]
        },
    ];
    let store = Arc::new(MemoryStore::default());
    let (second, _second) = serve(store.clone()).await;
    let other = session(second).await;
    for change in changes {
        let (first, handle) = serve(store.clone()).await;
        let session = session(first).await;
        handle.shutdown();
        let claimed = store.claim(&session, "anyone", Owner(7)).await;
        let Ok(Claimed::Granted(tenure, parts)) = claimed else {
            panic!("{claimed:?}");
        };
        let writes = change(&parts[0].1);
        assert_eq!(store.write(&session, tenure, 1, writes).await, Ok(true));
        let (status, words) = echo(second, &session, 1).await;
        assert_eq!(status, 404, "{words}");
        assert_eq!(echo(second, &other, 2).await, (200, "hi".into()));
    }
}

/// An id that no process can have made is nobody's session; the store need not be asked, and is not, whatever it holds.
#[tokio::test(flavor = "multi_thread")]
async fn ids_that_no_process_can_have_made_are_not_looked_for() {
    let store = Arc::new(MemoryStore::default());
    let (at, _handle) = serve(store.clone()).await;
    let real = session(at).await;
    let claimed = store.claim(&real, "anyone", Owner(7)).await;
    let Ok(Claimed::Granted(_, parts)) = claimed else {
        panic!("{claimed:?}");
    };
    let hours = Duration::from_secs(3600);
    for id in [
        "x",
        "../../etc/passwd",
        "*",
        "lease:0000000000000001",
        "a}b{c",
        &real.to_uppercase(),
        &real[1..],
        &format!("{real}0"),
        &"0".repeat(4000),
    ] {
        let kept = NewSession::new(id, "anyone", Owner(7), parts.clone(), hours);
        store.begin(kept).await.expect("begun");
        let (status, words) = echo(at, id, 1).await;
        let is_real = id == real;
        assert_eq!(status == 404, !is_real, "{id}: {words}");
    }
}

/// A store whose claims are granted late, and which one of its users does not reach meanwhile.
struct Late {
    store: Arc<MemoryStore>,
    /// Leases are renewed.
    renews: watch::Receiver<bool>,
    /// What was claimed is told.
    tells: watch::Receiver<bool>,
}

impl Store for Late {
    fn lease(&self) -> Option<Duration> {
        self.store.lease()
    }
    fn renew<'a>(&'a self, owner: Owner, address: &'a str, begins: bool) -> Answer<'a, bool> {
        match *self.renews.borrow() {
            true => self.store.renew(owner, address, begins),
            false => Box::pin(async { Err(outlive::store::StoreError::new("it is cut off")) }),
        }
    }
    fn leave(&self, owner: Owner) -> Answer<'_, ()> {
        self.store.leave(owner)
    }
    fn begin(&self, session: NewSession) -> Answer<'_, Tenure> {
        self.store.begin(session)
    }
    fn claim(&self, id: &str, principal: &str, by: Owner) -> Answer<'_, Claimed> {
        let (claimed, mut tells) = (self.store.claim(id, principal, by), self.tells.clone());
        Box::pin(async move {
            let claimed = claimed.await;
            let _ = tells.wait_for(|tells| *tells).await;
            claimed
        })
    }
    fn write(&self, id: &str, tenure: Tenure, n: u64, writes: Vec<Write>) -> Answer<'_, bool> {
        self.store.write(id, tenure, n, writes)
    }
    fn touch(&self, sessions: Vec<(String, Tenure)>, ttl: Duration) -> Answer<'_, ()> {
        self.store.touch(sessions, ttl)
    }
    fn release(&self, id: &str, tenure: Tenure) -> Answer<'_, ()> {
        self.store.release(id, tenure)
    }
    fn end(&self, id: &str, tenure: Tenure) -> Answer<'_, ()> {
        self.store.end(id, tenure)
    }
}

/// What was granted to a name whose lease is over is nothing to whoever had that name, also when it has a lease again:
/// somebody else may have the session by then, and a prompt call asks no store.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_session_that_is_granted_after_the_lease_was_over_is_not_acted_for() {
    let store = Arc::new(MemoryStore::with_lease(Duration::from_millis(1500)));
    let (first, handle) = serve(store.clone()).await;
    let session = session(first).await;
    handle.shutdown();
    let begun = Instant::now();
    loop {
        // Until it is nobody's.
        let claimed = store.claim(&session, "anyone", Owner(7)).await;
        if let Ok(Claimed::Granted(tenure, _)) = claimed {
            break store.release(&session, tenure).await.expect("released");
        }
        assert!(begun.elapsed() < PATIENCE, "{claimed:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ((renew, renews), (tell, tells)) = (watch::channel(true), watch::channel(false));
    let late = Late {
        store: store.clone(),
        renews,
        tells,
    };
    let (second, _second) = serve(Arc::new(late)).await;
    let (third, _third) = serve(store.clone()).await;
    let has_lease = async |at| {
        let begun = Instant::now();
        while post(at, None, message::initialize()).await.status != 200 {
            assert!(begun.elapsed() < PATIENCE, "no session is opened");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    has_lease(second).await;
    let asked = {
        let session = session.clone();
        tokio::spawn(async move { echo(second, &session, 1).await })
    };
    tokio::time::sleep(Duration::from_millis(300)).await;
    renew.send_replace(false);
    echo_at_last(third, &session).await;
    renew.send_replace(true);
    has_lease(second).await;
    tell.send_replace(true);
    let (status, words) = asked.await.expect("an answer");
    assert_eq!(status, 503, "{words}");
    assert_eq!(echo(third, &session, 2).await, (200, "hi".into()));
}
