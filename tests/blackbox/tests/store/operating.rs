//! What docs/operating.md says: the metrics it names, how the secret is replaced, and what shows nowhere.

use std::thread;
use std::time::Duration;

use http_peer::message;
use redis_rig::Redis;
use serde_json::json;

use crate::fleet::{
    CALM, CLIENTS, LONG_LEASE, SECRET, assert_none_failed, assert_sessions_live, check, executions,
    fleet, places, under_load,
};
use crate::replica::Replica;
use crate::rig::{Setup, until};

const PAGE: &str = include_str!("../../../../docs/operating.md");
const NEXT_SECRET: &str = "fedcba9876543210fedcba9876543210";

/// The value of a metric; the sum over all that begin like this.
fn metric(replica: &Replica, name: &str) -> Option<f64> {
    let all = replica.page("/metrics").text();
    let values = all.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.rsplit(' ').next()?.parse::<f64>().ok()
    });
    values.reduce(|sum, it| sum + it)
}

#[test]
fn the_metrics_that_operators_are_told_to_watch_exist() {
    let redis = Redis::start();
    let fleet = fleet(&redis, LONG_LEASE);
    let session = fleet[0].session();
    assert_eq!(fleet[1].echo(&session, 1), "hi", "forwarded");
    let table = PAGE.split("## What to watch").nth(1).expect("the table");
    let table = table.split("\n## ").next().expect("the table");
    let words = table.split('`').skip(1).step_by(2);
    let names: Vec<&str> = words.filter(|it| it.starts_with("outlive_")).collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        let counted = match name.ends_with("_seconds") {
            true => format!("{name}_count"),
            false => name.to_owned(),
        };
        for replica in &fleet {
            assert!(metric(replica, &counted).is_some(), "there is no {counted}");
        }
    }
    let forwarded = metric(&fleet[1], "outlive_forwards_total{result=\"answered\"}");
    assert_eq!(forwarded, Some(1.0));
    assert_eq!(metric(&fleet[0], "outlive_store_up"), Some(1.0));
}

/// In three steps, each at every replica before the next, as docs/operating.md has it. Files are read within a second.
#[test]
fn the_secret_is_replaced_under_load() {
    let redis = Redis::start();
    let mut fleet = fleet(&redis, LONG_LEASE);
    let places = places(&fleet);
    let (clients, history) = under_load(CLIENTS, &mut fleet, &places, |fleet| {
        for lines in [
            format!("{SECRET}\n{NEXT_SECRET}\n"),
            format!("{NEXT_SECRET}\n{SECRET}\n"),
            format!("{NEXT_SECRET}\n"),
        ] {
            // Not at the same moment: between two of them replicas differ.
            for replica in &*fleet {
                replica.setup.file("secret", &lines);
                thread::sleep(CALM / 4);
            }
            thread::sleep(CALM);
        }
    });
    check(&history, &executions(&fleet));
    assert_none_failed(&history);
    assert_sessions_live(clients);
    let refused = |it: &Replica| {
        let sent = metric(it, "outlive_forwards_total{result=\"refused\"}");
        let received = metric(it, "outlive_forwards_received_total{result=\"refused\"}");
        sent.zip(received).map(|(sent, received)| sent + received)
    };
    for replica in &fleet {
        assert_eq!(refused(replica), Some(0.0));
    }
    // The old one is good for nothing by now: a replica that has only that one is not believed.
    let session = fleet[0].session();
    fleet[1].setup.file("secret", &format!("{SECRET}\n"));
    until("a refusal", || {
        let reply = fleet[1].call(&session, 1, "echo", json!({"text": "hi"}));
        (reply.status == 503 && reply.text().contains("does not accept")).then_some(())
    });
    assert!(refused(&fleet[0]) > Some(0.0));
    assert_eq!(
        fleet[2].echo(&session, 2),
        "hi",
        "the others understand each other"
    );
    assert_no_secret(&fleet);
}

/// The table of docs/operating.md for a Redis that is lost for good: nothing silently becomes local, what needs no
/// session goes on, and an empty Redis in its place ends the sessions.
#[test]
fn a_redis_that_is_lost_for_good_costs_sessions_and_nothing_else() {
    let mut redis = Redis::start();
    let setup = Setup::new().flags(&["--lease", "3s"]);
    let replica = Replica::on(setup, &redis.url());
    let session = replica.session();
    let call = |id| replica.call(&session, id, "echo", json!({"text": "hi"}));
    redis.kill();
    assert_eq!(call(1).status, 200, "it goes on while its lease lasts");
    until("the end of the lease", || {
        (metric(&replica, "outlive_store_lease_held") == Some(0.0)).then_some(())
    });
    let refused = call(2);
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    let said = refused.json();
    let words = said["error"]["message"].as_str().unwrap_or_default();
    assert!(
        words.contains("store of sessions does not answer"),
        "{said}"
    );
    assert_eq!(said["id"], 2, "some clients hear of nothing else");
    let modern = message::modern_call(3, "echo", json!({"text": "hi"}));
    let headers = message::modern_headers(&modern);
    let answer = replica.post(&message::as_strs(&headers), &modern).answer();
    assert_eq!(message::text_of(&answer), "hi");
    redis.forget();
    redis.start_again();
    until("the end of the session", || {
        (call(4).status == 404).then_some(())
    });
    until("another session", || {
        let reply = replica.post(&[], &message::initialize());
        (reply.status == 200).then_some(())
    });
    let session = replica.session();
    assert_eq!(replica.echo(&session, 5), "hi");
}

/// Neither secret is told to anybody.
fn assert_no_secret(fleet: &[Replica]) {
    thread::sleep(Duration::from_millis(100));
    for replica in fleet {
        let mut told = std::fs::read_to_string(replica.setup.path("log.jsonl")).expect("a log");
        for path in ["/", "/ready", "/metrics", "/status.json"] {
            told += &replica.page(path).text();
        }
        let status = replica.setup.outlive_says(&["status", "--json"]);
        told += &String::from_utf8_lossy(&status.stdout);
        assert!(told.contains("listening"), "{told}");
        for secret in [SECRET, NEXT_SECRET] {
            assert!(!told.contains(secret), "{told}");
        }
    }
}
