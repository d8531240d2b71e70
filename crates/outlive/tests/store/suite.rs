//! What every store does. An implementation is tested by calling [`suite`] with a way to make an empty one.

use std::sync::Arc;
use std::time::Duration;

use outlive::bytes::Bytes;
use outlive::store::{
    Claimed, Fence, FileStore, MemoryStore, NewSession, Owner, Part, Store, Tenure,
};
use outlive_core::server::Channel;

pub const TTL: Duration = Duration::from_secs(60);
pub const A: Owner = Owner(1);
pub const B: Owner = Owner(2);

pub fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

pub fn event(channel: u64, number: u64) -> Part {
    Part::Event(Channel(channel), number)
}

pub async fn begin(store: &dyn Store, id: &str, principal: &str, ttl: Duration) -> Tenure {
    let parts = vec![(Part::Head, bytes("head"))];
    let session = NewSession::new(id, principal, A, parts, ttl);
    store.begin(session).await.expect("begun")
}

/// Claims a session; its tenure and its parts, in order.
pub async fn claim(store: &dyn Store, id: &str, by: Owner) -> Option<(Tenure, Vec<(Part, Bytes)>)> {
    match store.claim(id, "ann", by).await.expect("an answer") {
        Claimed::Granted(tenure, mut parts) => {
            parts.sort();
            Some((tenure, parts))
        }
        Claimed::Held { .. } | Claimed::Absent => None,
    }
}

/// Everything that a store has to do, whoever may use it.
pub async fn suite(store: Arc<dyn Store>) {
    let store = &*store;
    assert!(store.renew(A, "http://a", true).await.expect("an answer"));
    what_is_written_is_kept(store).await;
    a_session_is_its_principals(store).await;
    writes_are_fenced_and_numbered(store).await;
    a_session_ends_and_runs_out(store).await;
}

async fn what_is_written_is_kept(store: &dyn Store) {
    let tenure = begin(store, "kept", "ann", TTL).await;
    assert_eq!(tenure.fence, Fence(1));
    let long = Bytes::from(vec![b'x'; 200_000]);
    let writes = vec![
        (event(7, 1), Some(bytes("one"))),
        (event(7, 2), Some(long.clone())),
        (event(71, 1), Some(bytes("other"))),
        (Part::Open(Channel(7)), Some(bytes("open"))),
    ];
    assert!(
        store
            .write("kept", tenure, 1, writes)
            .await
            .expect("an answer")
    );
    let writes = vec![
        (event(7, 1), None),
        (Part::Open(Channel(7)), None),
        (Part::End(Channel(7)), Some(Bytes::new())),
        (Part::Head, Some(bytes("later"))),
    ];
    assert!(
        store
            .write("kept", tenure, 2, writes)
            .await
            .expect("an answer")
    );
    begin(store, "kept2", "ann", TTL).await;
    store.release("kept", tenure).await.expect("released");
    let (next, parts) = claim(store, "kept", B).await.expect("granted");
    assert_eq!((next.owner, next.fence), (B, Fence(2)));
    let mut expected = vec![
        (Part::Head, bytes("later")),
        (event(7, 2), long),
        (event(71, 1), bytes("other")),
        (Part::End(Channel(7)), Bytes::new()),
    ];
    expected.sort();
    assert!(parts == expected);
}

async fn a_session_is_its_principals(store: &dyn Store) {
    let tenure = begin(store, "anns", "ann", TTL).await;
    store.release("anns", tenure).await.expect("released");
    let stranger = store.claim("anns", "bob", B).await.expect("an answer");
    assert_eq!(stranger, Claimed::Absent);
    let nobodys = store.claim("nobodys", "ann", B).await.expect("an answer");
    assert_eq!(nobodys, Claimed::Absent);
    assert!(claim(store, "anns", B).await.is_some());
}

async fn writes_are_fenced_and_numbered(store: &dyn Store) {
    let first = begin(store, "fenced", "ann", TTL).await;
    let write = |tenure, number, text| {
        let writes = vec![(Part::Head, Some(bytes(text)))];
        store.write("fenced", tenure, number, writes)
    };
    assert!(write(first, 1, "one").await.expect("an answer"));
    assert!(write(first, 2, "two").await.expect("an answer"));
    assert!(
        write(first, 1, "late").await.expect("an answer"),
        "it was carried out"
    );
    store.release("fenced", first).await.expect("released");
    let (second, parts) = claim(store, "fenced", B).await.expect("granted");
    assert_eq!(parts, [(Part::Head, bytes("two"))]);
    assert!(!write(first, 3, "former").await.expect("an answer"));
    store.end("fenced", first).await.expect("an answer");
    store.release("fenced", first).await.expect("an answer");
    assert!(write(second, 1, "mine").await.expect("an answer"));
    let (third, parts) = claim(store, "fenced", B).await.expect("its own");
    assert_eq!(parts, [(Part::Head, bytes("mine"))]);
    assert!(third.fence > second.fence);
    assert!(!write(second, 2, "former").await.expect("an answer"));
}

async fn a_session_ends_and_runs_out(store: &dyn Store) {
    let tenure = begin(store, "ended", "ann", TTL).await;
    store.end("ended", tenure).await.expect("ended");
    assert!(claim(store, "ended", A).await.is_none());
    let writes = vec![(Part::Head, Some(bytes("x")))];
    assert!(
        !store
            .write("ended", tenure, 1, writes)
            .await
            .expect("an answer")
    );
    let brief = Duration::from_secs(1);
    let (unused, used) = (
        begin(store, "unused", "ann", brief).await,
        begin(store, "used", "ann", brief).await,
    );
    store
        .touch(vec![("used".into(), used)], TTL)
        .await
        .expect("touched");
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert!(claim(store, "unused", A).await.is_none());
    assert!(claim(store, "used", A).await.is_some());
    store.touch(Vec::new(), TTL).await.expect("touched");
    let writes = vec![(Part::Head, Some(bytes("x")))];
    assert!(
        !store
            .write("unused", unused, 1, writes)
            .await
            .expect("an answer")
    );
}

#[tokio::test]
async fn memory_is_a_store() {
    suite(Arc::new(MemoryStore::default())).await;
    suite(Arc::new(MemoryStore::with_lease(Duration::from_secs(15)))).await;
}

#[tokio::test]
async fn a_directory_is_a_store() {
    let directory = tempfile::tempdir().expect("a directory");
    suite(Arc::new(
        FileStore::open(directory.path().join("a/b")).expect("a store"),
    ))
    .await;
}

/// Everything that a store has to do that several processes use, with leases of the length it is made with.
pub async fn leases_suite<S: Store>(make: impl Fn(Duration) -> S) {
    let store = make(Duration::from_secs(2));
    let (id, address) = ("leased", "http://a");
    assert!(store.renew(A, address, true).await.expect("an answer"));
    let tenure = begin(&store, id, "ann", TTL).await;
    let held = Claimed::Held {
        owner: A,
        address: address.into(),
    };
    assert_eq!(store.claim(id, "ann", B).await, Ok(held.clone()));
    assert_eq!(store.claim(id, "bob", B).await, Ok(Claimed::Absent));
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(store.renew(A, address, false).await, Ok(true));
    }
    assert_eq!(store.claim(id, "ann", B).await, Ok(held));
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(store.renew(A, address, false).await, Ok(false));
    let (next, _) = claim(&store, id, B).await.expect("granted");
    let writes = vec![(Part::Head, Some(bytes("x")))];
    assert_eq!(store.write(id, tenure, 1, writes.clone()).await, Ok(false));
    assert_eq!(store.write(id, next, 1, writes).await, Ok(true));
    let store = make(Duration::from_secs(60));
    assert!(store.renew(A, "", true).await.expect("an answer"));
    let tenure = begin(&store, "left", "ann", TTL).await;
    let held = Claimed::Held {
        owner: A,
        address: String::new(),
    };
    assert_eq!(store.claim("left", "ann", B).await, Ok(held));
    store.leave(A).await.expect("left");
    let (next, _) = claim(&store, "left", B).await.expect("granted");
    assert!(next.fence > tenure.fence);
    assert_eq!(store.renew(A, "", false).await, Ok(false));
}

#[tokio::test]
async fn an_owner_that_lives_keeps_its_sessions_and_one_that_is_silent_loses_them() {
    leases_suite(MemoryStore::with_lease).await;
}

#[tokio::test]
async fn a_directory_is_one_processs_alone_and_keeps_what_it_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = FileStore::open(directory.path()).expect("a store");
    begin(&store, "s", "ann", TTL).await;
    let second = FileStore::open(directory.path()).expect_err("it is in use");
    assert_eq!(second.kind(), std::io::ErrorKind::WouldBlock);
    assert!(second.to_string().contains("another process"), "{second}");
    drop(store);
    // Also while the database itself is closed, as after it has failed to write.
    let lock = std::fs::File::open(directory.path().join("sessions.lock")).expect("a lock");
    lock.lock().expect("locked");
    let second = FileStore::open(directory.path()).expect_err("it is in use");
    assert_eq!(second.kind(), std::io::ErrorKind::WouldBlock);
    drop(lock);
    let store = loop {
        // The thread that has it open ends by itself.
        match FileStore::open(directory.path()) {
            Ok(store) => break store,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let (tenure, parts) = claim(&store, "s", B).await.expect("granted");
    assert_eq!(
        (tenure.fence, parts),
        (Fence(2), vec![(Part::Head, bytes("head"))])
    );
}
