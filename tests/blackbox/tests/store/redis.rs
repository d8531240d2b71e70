//! Several processes on one Redis: what becomes of sessions when one of them, or Redis, is killed or stands still.

use redis_rig::Redis;
use rustix::process::Signal;
use serde_json::json;

use crate::replica::Replica;
use crate::rig::{Setup, until};
use crate::wire::{self, Reply};

/// Short, so that tests need not wait long, and long enough for a busy machine.
const LEASE: [&str; 2] = ["--lease", "3s"];

fn replica(redis: &Redis, flags: &[&str]) -> Replica {
    Replica::on(Setup::new().flags(flags), &redis.url())
}

/// Calls until the session is answered for; until then the client is told to come back.
fn comes_back(replica: &Replica, session: &str, id: u64) {
    until("an answer", || {
        let reply = replica.call(session, id, "echo", json!({"text": "hi"}));
        match reply.status {
            200 => {
                assert_eq!(wire::text_of(&reply.answer()), "hi");
                Some(())
            }
            status => {
                assert_eq!(status, 503);
                assert!(reply.header("retry-after").is_some());
                None
            }
        }
    });
}

/// What is said to a client that wants to begin.
fn beginning(replica: &Replica) -> Reply {
    replica.post(&[], &wire::initialize())
}

fn log_of(replica: &Replica) -> String {
    std::fs::read_to_string(replica.setup.path("log.jsonl")).unwrap_or_default()
}

/// New sessions are refused, with a reason and when to come back.
fn refuses(replica: &Replica) {
    until("a refusal", || {
        let reply = beginning(replica);
        if reply.status == 200 {
            return None;
        }
        assert_eq!(reply.status, 503);
        assert!(reply.header("retry-after").is_some());
        let said = reply.text();
        assert!(
            said.contains("The store of sessions does not answer"),
            "{said}"
        );
        Some(())
    });
    until("not ready", || {
        let ready = replica.page("/ready");
        (ready.status == 503 && ready.text().contains("Redis at 127.0.0.1")).then_some(())
    });
}

#[test]
fn fm_53_another_process_takes_over_when_the_owner_is_killed() {
    let redis = Redis::start();
    let (mut first, second) = (replica(&redis, &LEASE), replica(&redis, &LEASE));
    let session = first.session();
    assert_eq!(first.echo(&session, 1), "hi");
    first.end(Signal::KILL);
    comes_back(&second, &session, 2);
    assert_eq!(second.echo(&session, 3), "hi");
    assert!(log_of(&second).contains("a session goes on that another process had begun"));
}

/// No SDK sends a request again that was refused with status 503: it is held, also where nobody knows of others.
#[test]
fn fm_53_a_call_is_held_until_the_lease_of_a_killed_owner_is_over() {
    let redis = Redis::start();
    let long = ["--lease", "10s"];
    let (mut first, second) = (replica(&redis, &long), replica(&redis, &long));
    let session = first.session();
    first.end(Signal::KILL);
    assert_eq!(second.echo(&session, 1), "hi", "one request is enough");
}

/// So is one that needs the store while that is started again.
#[test]
fn a_new_session_waits_for_redis_to_be_started_again() {
    let mut redis = Redis::with(&["--appendfsync", "always"]);
    let replica = replica(&redis, &["--lease", "5m"]);
    replica.session();
    // On a busy machine it may be started too late.
    until("a session", || {
        redis.kill();
        std::thread::scope(|scope| {
            let begins = scope.spawn(|| beginning(&replica).status);
            std::thread::sleep(std::time::Duration::from_millis(500));
            let has_waited = !begins.is_finished();
            redis.start_again();
            let status = begins.join().expect("a status");
            (has_waited && status == 200).then_some(())
        })
    });
}

#[test]
fn an_owner_that_leaves_need_not_be_waited_for() {
    let redis = Redis::start();
    let long = ["--lease", "10m"];
    let (mut first, second) = (replica(&redis, &long), replica(&redis, &long));
    let session = first.session();
    assert!(first.end(Signal::TERM).success());
    assert_eq!(second.echo(&session, 1), "hi");
}

/// FM-28 between processes: who wakes up after its lease neither answers nor leaves servers behind.
#[test]
fn fm_28_an_owner_that_slept_through_its_lease_acts_no_more() {
    let redis = Redis::start();
    let (first, second) = (replica(&redis, &LEASE), replica(&redis, &LEASE));
    let session = first.session();
    assert_eq!(first.echo(&session, 1), "hi");
    let mut stream = first.call(&session, 2, "sleep", json!({"ms": 5000}));
    assert!(stream.is_stream());
    first.signal(Signal::STOP);
    comes_back(&second, &session, 3);
    // Its server has answered meanwhile, and the answer waits to be read.
    std::thread::sleep(std::time::Duration::from_secs(5));
    first.signal(Signal::CONT);
    until("no server", || first.servers().is_empty().then_some(()));
    while let Ok(Some(message)) = stream.next_message() {
        let settled = message.get("result").or(message.get("error"));
        assert!(settled.is_none(), "it has answered: {message}");
    }
    assert_eq!(second.echo(&session, 4), "hi");
    until("its words", || {
        log_of(&first)
            .contains("the lease of this process has run out")
            .then_some(())
    });
    // It has begun anew, and answers for others.
    until("a new session", || {
        (beginning(&first).status == 200).then_some(())
    });
    assert_eq!(second.echo(&session, 5), "hi");
}

#[test]
fn redis_that_is_killed_and_started_again_costs_no_session() {
    let mut redis = Redis::with(&["--appendfsync", "always"]);
    let replica = replica(&redis, &["--lease", "5m"]);
    let session = replica.session();
    redis.kill();
    assert_eq!(replica.echo(&session, 1), "hi", "what is running goes on");
    refuses(&replica);
    assert_eq!(replica.echo(&session, 2), "hi");
    let said = replica.page("/").text();
    assert!(
        said.contains("The store of sessions does not work"),
        "{said}"
    );
    let metrics = || replica.page("/metrics").text();
    assert!(metrics().contains("\noutlive_store_up 0\n"));
    redis.start_again();
    until("a new session", || {
        (beginning(&replica).status == 200).then_some(())
    });
    until("ready", || {
        (replica.page("/ready").status == 200).then_some(())
    });
    assert_eq!(replica.echo(&session, 3), "hi");
    assert!(metrics().contains("\noutlive_store_up 1\n"));
    assert!(metrics().contains("\noutlive_store_lease_held 1\n"));
    // What has to be written goes on as well.
    let level = json!({"jsonrpc": "2.0", "id": 4, "method": "logging/setLevel", "params": {"level": "info"}});
    assert_eq!(replica.ask(&session, &level).status, 200);
    let log = log_of(&replica);
    assert!(log.contains("the store of sessions does not work"), "{log}");
    assert!(log.contains("the store of sessions works again"), "{log}");
}

/// Sessions that Redis has forgotten are over, and their clients are told so: they begin anew.
#[test]
fn redis_that_has_lost_its_data_ends_the_sessions() {
    let mut redis = Redis::start();
    let replica = replica(&redis, &LEASE);
    let session = replica.session();
    redis.kill();
    redis.forget();
    redis.start_again();
    until("the end of the session", || {
        let status = replica
            .call(&session, 1, "echo", json!({"text": "hi"}))
            .status;
        (status == 404).then_some(())
    });
    until("its words", || {
        log_of(&replica)
            .contains("the lease of this process has run out")
            .then_some(())
    });
    until("a new session", || {
        (beginning(&replica).status == 200).then_some(())
    });
    let session = replica.session();
    assert_eq!(replica.echo(&session, 2), "hi");
}

#[test]
fn redis_that_is_not_there_at_the_start_keeps_nobody_from_starting() {
    let mut redis = Redis::start();
    redis.kill();
    let replica = replica(&redis, &LEASE);
    refuses(&replica);
    redis.start_again();
    until("a new session", || {
        (beginning(&replica).status == 200).then_some(())
    });
}

#[test]
fn a_session_is_its_tokens_in_every_process() {
    let redis = Redis::start();
    let with_tokens = || {
        let setup = Setup::new();
        let tokens = setup.file("tokens", "one\ntwo\n");
        Replica::on(
            setup.flags(&["--token-file", &tokens]).flags(&LEASE),
            &redis.url(),
        )
    };
    let (mut first, second) = (with_tokens(), with_tokens());
    let session = first.session_with(&[("Authorization", "Bearer one")]);
    let call = |replica: &Replica, token: &str| {
        let headers = [("Authorization", token), ("Mcp-Session-Id", &*session)];
        replica
            .post(&headers, &wire::call(1, "echo", json!({"text": "hi"})))
            .status
    };
    assert_eq!(call(&first, "Bearer one"), 200);
    assert_eq!(
        [call(&first, "Bearer two"), call(&second, "Bearer two")],
        [404, 404]
    );
    first.end(Signal::KILL);
    assert_eq!(call(&second, "Bearer two"), 404);
    until("a successor", || {
        (call(&second, "Bearer one") == 200).then_some(())
    });
    assert_eq!(call(&second, "Bearer two"), 404);
    let stored = String::from_utf8_lossy(&redis.stored()).into_owned();
    assert!(stored.contains("protocolVersion") && !stored.contains("Bearer"));
}

#[test]
fn nothing_is_left_in_redis() {
    let redis = Redis::start();
    let mut replica = replica(&redis, &["--session-ttl", "2m"]);
    let (ended, left) = (replica.session(), replica.session());
    let mut stream = replica.call(&ended, 1, "sleep", json!({"ms": 1000}));
    while let Ok(Some(_)) = stream.next_message() {}
    let keys = redis.keys();
    assert_eq!(keys.len(), 3, "two sessions and a lease: {keys:?}");
    for key in &keys {
        let left: i64 = redis.ask(&["PTTL", key]).trim().parse().expect("a number");
        assert!((1..=120_000).contains(&left), "{key}: {left}");
    }
    wire::send(replica.address, "DELETE", &[("Mcp-Session-Id", &ended)], "");
    until("its end", || (redis.keys().len() == 2).then_some(()));
    assert!(replica.end(Signal::TERM).success());
    // The lease is given back. The session waits for its client, and runs out by itself.
    assert_eq!(redis.keys(), [format!("outlive:{{{left}}}")]);
}

#[test]
fn a_password_is_in_no_log_and_on_no_page() {
    let redis = Redis::with(&["--requirepass", "s3cret-word"]);
    let setup = Setup::new();
    let file = setup.file("password", "s3cret-word\n");
    let url = |user: &str| format!("redis://{user}127.0.0.1:{}", redis.port);
    let replicas = [
        Replica::on(Setup::new(), &url(":s3cret-word@")),
        Replica::on(setup.flags(&["--store-password-file", &file]), &url("")),
        Replica::on(
            Setup::new().env("OUTLIVE_STORE_PASSWORD", "s3cret-word"),
            &url(""),
        ),
        Replica::on(Setup::new(), &url("nobody:s3cret-word@")),
        Replica::on(Setup::new(), &url("")),
    ];
    for (n, replica) in replicas.iter().enumerate() {
        match n {
            0..3 => until("a session", || {
                (beginning(replica).status == 200).then_some(())
            }),
            _ => refuses(replica),
        }
        let mut told = log_of(replica);
        for path in ["/", "/ready", "/metrics"] {
            told += &replica.page(path).text();
        }
        let status = replica.setup.outlive_says(&["status", "--json"]);
        told += &String::from_utf8_lossy(&status.stdout);
        assert!(
            told.contains("listening") && !told.contains("s3cret-word"),
            "{n}: {told}"
        );
    }
}

/// With the certificates of the system, or those that `SSL_CERT_FILE` names; nobody else is trusted.
#[test]
fn redis_over_tls() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/tls");
    let file = |name: &str| format!("{folder}/{name}");
    let (ca, certificate, key) = (file("ca.pem"), file("server.pem"), file("server.key"));
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("its address").port().to_string()
    };
    let redis = Redis::with(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &certificate,
        "--tls-key-file",
        &key,
        "--tls-ca-cert-file",
        &ca,
        "--tls-auth-clients",
        "no",
    ]);
    let url = format!("rediss://127.0.0.1:{port}");
    let trusting = Replica::on(Setup::new().env("SSL_CERT_FILE", &ca), &url);
    until("a session", || {
        (beginning(&trusting).status == 200).then_some(())
    });
    assert_eq!(redis.keys().len(), 2, "a lease and a session");
    let other = Replica::on(Setup::new(), &url);
    let ready = until("a refusal", || {
        let ready = other.page("/ready");
        (ready.status == 503).then(|| ready.text())
    });
    assert!(ready.contains("certificate"), "{ready}");
    assert_eq!(beginning(&other).status, 503);
}

#[test]
fn an_address_that_makes_no_sense_is_an_error_that_does_not_tell_it() {
    for store in [
        "redis://:s3cret-word/x@h",
        "rediss+other://:s3cret-word@h",
        "redsi://:s3cret-word@h",
    ] {
        let setup = Setup::new().flags(&["--store", store]);
        let mut refused = crate::replica::command(&setup);
        let ended = refused
            .stderr(std::process::Stdio::piped())
            .output()
            .expect("outlive");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(
            said.contains("redis://HOST") && !said.contains("s3cret-word"),
            "{said}"
        );
    }
}
