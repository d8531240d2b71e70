//! Redis as a store: alone, with sentinels, as a cluster, when it fails, and beside the rules.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outlive::store::{
    Claimed, MemoryStore, NewSession, Owner, Part, RedisStore, Store, StoreError, Tenure,
};
use redis_rig::{Cluster, Redis, Sentinels};
use rustix::process::Signal;

use crate::suite::{A, B, TTL, begin, bytes, claim, event, leases_suite, suite};

const LEASE: Duration = Duration::from_secs(15);

fn open(url: &str) -> RedisStore {
    RedisStore::open(url).expect("an address")
}

/// Asks again until the store answers.
async fn soon<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(why) => assert!(Instant::now() < until, "{what}: {why}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn redis_is_a_store() {
    let redis = Redis::start();
    suite(Arc::new(open(&redis.url()))).await;
    leases_suite(|length| open(&redis.url()).with_lease(length)).await;
    let mut ids: Vec<String> = redis.keys();
    ids.retain(|key| !key.starts_with("outlive:{") && !key.starts_with("outlive:lease:"));
    assert_eq!(ids, [""; 0], "all keys are ours");
    for key in redis.keys() {
        let left: i64 = redis.ask(&["PTTL", &key]).trim().parse().expect("a number");
        assert!(left > 0, "{key} runs out by itself: {left}");
    }
}

#[tokio::test]
async fn a_cluster_is_a_store() {
    let cluster = Cluster::start();
    suite(Arc::new(open(&cluster.url()))).await;
    leases_suite(|length| open(&cluster.url()).with_lease(length)).await;
    let used = cluster.nodes.iter().filter(|node| !node.keys().is_empty());
    assert!(used.count() > 1, "it was one");
}

#[tokio::test]
async fn a_password_is_told_to_redis_and_to_nobody_else() {
    let redis = Redis::with(&["--requirepass", "s3cret-word"]);
    let url = format!("redis://:s3cret-word@127.0.0.1:{}", redis.port);
    assert_eq!(open(&url).renew(A, "", true).await, Ok(true));
    let apart = open(&redis.url()).with_password("s3cret-word");
    assert_eq!(apart.renew(A, "", true).await, Ok(true));
    let none = open(&redis.url())
        .renew(A, "", true)
        .await
        .expect_err("refused");
    let wrong = open(&redis.url()).with_password("other-word");
    let shown = format!("{apart:?} {wrong:?} {:?}", open(&url));
    let wrong = wrong.renew(A, "", true).await.expect_err("refused");
    assert!(
        none.to_string().contains("password") && wrong.to_string().contains("password"),
        "{none} {wrong}"
    );
    let shown = format!("{shown} {none} {none:?} {wrong} {wrong:?}");
    assert!(
        !shown.contains("s3cret-word") && !shown.contains("other-word"),
        "{shown}"
    );
}

/// The store of this process, and of another one, do the same to whatever they are asked in whatever order.
#[tokio::test]
async fn redis_answers_as_the_rules_do() {
    let redis = Redis::start();
    let (redis, model) = (open(&redis.url()), MemoryStore::with_lease(LEASE));
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |n: u64| {
        // xorshift64
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % n
    };
    let owners = [A, B, Owner(u64::MAX)];
    let mut tenures: Vec<(String, Tenure)> = Vec::new();
    let mut begun = 0;
    for step in 0..3000 {
        let owner = owners[below(3) as usize];
        let some = |tenures: &[(String, Tenure)], n: u64| {
            (!tenures.is_empty()).then(|| tenures[n as usize % tenures.len()].clone())
        };
        let n = below(u64::MAX);
        // Mostly of the latest sessions, so that they are met more than once.
        let recent = tenures.len().saturating_sub(24);
        match (below(10), some(&tenures[recent..], n)) {
            (0, _) | (_, None) => {
                begun += 1;
                let id = format!("s{begun}");
                let parts = vec![(Part::Head, bytes("head"))];
                let session = NewSession::new(&*id, "ann", owner, parts, TTL);
                let both = (
                    redis.begin(session.clone()).await,
                    model.begin(session).await,
                );
                assert_eq!(both.0, both.1, "{step}");
                tenures.push((id, both.0.expect("begun")));
            }
            (1, _) => {
                let begins = below(2) == 0;
                let both = (
                    redis.renew(owner, "http://x", begins).await,
                    model.renew(owner, "http://x", begins).await,
                );
                assert_eq!(both.0, both.1, "{step}");
            }
            (2, _) if below(3) == 0 => {
                assert_eq!(redis.leave(owner).await, model.leave(owner).await);
            }
            (3, Some((id, tenure))) => {
                assert_eq!(
                    redis.release(&id, tenure).await,
                    model.release(&id, tenure).await
                );
            }
            (4, Some((id, tenure))) if below(4) == 0 => {
                assert_eq!(redis.end(&id, tenure).await, model.end(&id, tenure).await);
            }
            (5 | 6, Some((id, _))) => {
                let principal = if below(5) == 0 { "bob" } else { "ann" };
                let (left, right) = (
                    redis.claim(&id, principal, owner).await,
                    model.claim(&id, principal, owner).await,
                );
                let (left, right) = (sorted(left), sorted(right));
                assert_eq!(left, right, "{step}");
                if let Ok(Claimed::Granted(tenure, _)) = left {
                    tenures.push((id, tenure));
                }
            }
            (_, Some((id, tenure))) => {
                let part = event(below(3), below(3));
                let bytes = (below(2) == 0).then(|| bytes("x"));
                let (number, writes) = (1 + below(4), vec![(part, bytes)]);
                let both = (
                    redis.write(&id, tenure, number, writes.clone()).await,
                    model.write(&id, tenure, number, writes).await,
                );
                assert_eq!(both.0, both.1, "{step}");
            }
        }
    }
    assert!(
        begun > 100 && tenures.len() > begun + 50,
        "{begun} {}",
        tenures.len()
    );
}

fn sorted(claimed: Result<Claimed, StoreError>) -> Result<Claimed, StoreError> {
    match claimed {
        Ok(Claimed::Granted(tenure, mut parts)) => {
            parts.sort();
            Ok(Claimed::Granted(tenure, parts))
        }
        // What an owner that has left had told is of no use to anybody.
        other => other,
    }
}

/// Many want the session of an owner that is gone, at the same moment.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_claimants_one_gets_the_session() {
    let redis = Redis::start();
    let stores: Vec<RedisStore> = (0..16).map(|_| open(&redis.url())).collect();
    for (n, store) in stores.iter().enumerate() {
        let lives = store.renew(Owner(n as u64 + 10), "http://it", true);
        assert_eq!(lives.await, Ok(true));
    }
    for round in 0..40 {
        let id = format!("s{round}");
        begin(&stores[0], &id, "ann", TTL).await;
        let claims = stores.iter().enumerate().map(|(n, store)| {
            let (store, id) = (store.clone(), id.clone());
            tokio::spawn(async move { store.claim(&id, "ann", Owner(n as u64 + 10)).await })
        });
        let claims: Vec<_> = claims.collect();
        let mut granted = 0;
        for claim in claims {
            match claim.await.expect("no panic").expect("an answer") {
                Claimed::Granted(tenure, _) => {
                    granted += 1;
                    assert_eq!(tenure.fence.0, 2);
                }
                Claimed::Held { address, .. } => assert_eq!(address, "http://it"),
                Claimed::Absent => panic!("it is there"),
            }
        }
        assert_eq!(granted, 1);
    }
}

#[tokio::test]
async fn what_arrives_twice_counts_once() {
    let redis = Redis::start();
    let store = open(&redis.url());
    let session = NewSession::new("s", "ann", A, vec![(Part::Head, bytes("head"))], TTL);
    let tenure = store.begin(session.clone()).await.expect("begun");
    let later = vec![(Part::Head, Some(bytes("later")))];
    assert_eq!(store.write("s", tenure, 1, later).await, Ok(true));
    assert_eq!(
        store.begin(session.clone()).await,
        Ok(tenure),
        "its answer was lost"
    );
    let (second, parts) = claim(&store, "s", B).await.expect("granted");
    assert_eq!(parts, [(Part::Head, bytes("later"))]);
    let (third, _) = claim(&store, "s", B).await.expect("its answer was lost");
    assert!(third.fence > second.fence);
    store
        .begin(session)
        .await
        .expect_err("it has another owner");
}

#[tokio::test]
async fn another_version_is_refused_and_left_as_it_is() {
    let redis = Redis::start();
    let store = open(&redis.url());
    let tenure = begin(&store, "s", "ann", TTL).await;
    let later = "2 0000000000000001 1 and more";
    redis.ask(&["HSET", "outlive:{s}", "t", later]);
    let why = store
        .claim("s", "ann", B)
        .await
        .expect_err("refused")
        .to_string();
    assert!(
        why.contains("a format that this program does not know"),
        "{why}"
    );
    let writes = vec![(Part::Head, Some(bytes("x")))];
    assert_eq!(store.write("s", tenure, 1, writes).await, Ok(false));
    assert_eq!(store.end("s", tenure).await, Ok(()));
    assert_eq!(store.release("s", tenure).await, Ok(()));
    assert_eq!(redis.ask(&["HGET", "outlive:{s}", "t"]).trim(), later);
    redis.ask(&["DEL", "outlive:{s}"]);
    redis.ask(&["SET", "outlive:{s}", "something else"]);
    store.claim("s", "ann", B).await.expect_err("refused");
    assert_eq!(redis.ask(&["GET", "outlive:{s}"]).trim(), "something else");
}

#[tokio::test]
async fn redis_that_is_killed_and_started_again_goes_on() {
    let mut redis = Redis::with(&["--appendfsync", "always"]);
    let store = open(&redis.url());
    assert_eq!(store.renew(A, "", true).await, Ok(true));
    let tenure = begin(&store, "s", "ann", TTL).await;
    redis.kill();
    let why = store
        .renew(A, "", false)
        .await
        .expect_err("nobody is there");
    assert!(
        why.to_string()
            .contains(&format!("127.0.0.1:{}", redis.port)),
        "{why}"
    );
    redis.start_again();
    let renewed = soon("a lease", async || store.renew(A, "", false).await).await;
    assert!(renewed, "it had not run out");
    let writes = vec![(Part::Head, Some(bytes("later")))];
    assert_eq!(store.write("s", tenure, 1, writes).await, Ok(true));
    store.release("s", tenure).await.expect("released");
    let (_, parts) = claim(&store, "s", B).await.expect("granted");
    assert_eq!(parts, [(Part::Head, bytes("later"))]);
    redis.kill();
    redis.forget();
    redis.start_again();
    let renewed = soon("an answer", async || store.renew(A, "", false).await).await;
    assert!(!renewed, "it was forgotten");
    assert_eq!(store.claim("s", "ann", B).await, Ok(Claimed::Absent));
}

#[tokio::test]
async fn redis_that_stands_still_is_an_error_in_time() {
    let redis = Redis::start();
    let store = open(&redis.url()).with_lease(Duration::from_secs(3));
    assert_eq!(store.renew(A, "", true).await, Ok(true));
    redis.signal(Signal::STOP);
    let waited = tokio::time::timeout(Duration::from_secs(60), store.renew(A, "", false));
    let why = waited.await.expect("no hang").expect_err("no answer");
    assert!(why.to_string().contains("does not answer"), "{why}");
    redis.signal(Signal::CONT);
    soon("an answer", async || store.renew(B, "", true).await).await;
}

#[tokio::test]
async fn a_replica_is_an_error_of_the_moment() {
    let redis = Redis::start();
    let store = open(&redis.url());
    begin(&store, "s", "ann", TTL).await;
    redis.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    let why = store
        .renew(A, "", true)
        .await
        .expect_err("refused")
        .to_string();
    assert!(why.contains("it is a replica now"), "{why}");
    let writing = store
        .begin(NewSession::new("t", "ann", A, Vec::new(), TTL))
        .await;
    writing.expect_err("refused");
    redis.ask(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(store.renew(A, "", true).await, Ok(true));
}

#[tokio::test]
async fn sentinels_lead_to_the_next_master() {
    let mut sentinels = Sentinels::start();
    let store = open(&sentinels.url());
    suite(Arc::new(store.clone())).await;
    let tenure = begin(&store, "goes on", "ann", TTL).await;
    // Redis copies after it has answered; what is lost with a master that dies before that is lost.
    assert_eq!(sentinels.master.ask(&["WAIT", "1", "10000"]).trim(), "1");
    let until = Instant::now() + Duration::from_secs(60);
    while sentinels
        .replica
        .ask(&["EXISTS", "outlive:{goes on}"])
        .trim()
        != "1"
    {
        assert!(Instant::now() < until, "it is not copied");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    sentinels.master.kill();
    store.renew(A, "", true).await.expect_err("nobody is there");
    sentinels.wait_for_failover();
    soon("the next master", async || store.renew(A, "", true).await).await;
    let writes = vec![(Part::Head, Some(bytes("later")))];
    assert_eq!(store.write("goes on", tenure, 1, writes).await, Ok(true));
    assert!(!sentinels.replica.keys().is_empty());
}
