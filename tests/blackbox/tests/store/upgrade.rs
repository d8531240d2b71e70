//! Two versions of the program in one fleet.

use std::path::PathBuf;
use std::thread;

use redis_rig::Redis;
use rustix::process::Signal;
use serde_json::json;

use crate::fleet::{
    CALM, CLIENTS, LONG_LEASE, REPLICAS, assert_none_failed, assert_sessions_live, check,
    executions, free_address, places, setup_at, under_load,
};
use crate::replica::Replica;
use crate::rig::Setup;
use crate::wire;

/// The program of an earlier version, if one is to take part.
fn earlier() -> Option<PathBuf> {
    std::env::var_os("OUTLIVE_EARLIER").map(PathBuf::from)
}

/// A fleet of the earlier version becomes one of this version, and one replica goes back, while everybody calls.
#[test]
fn fm_53_an_upgrade_and_a_way_back_cost_no_session_and_no_call() {
    let Some(earlier) = earlier() else {
        println!("not asked for: OUTLIVE_EARLIER names no program of an earlier version");
        return;
    };
    let redis = Redis::start();
    let old = |_| {
        let address = free_address();
        let setup = setup_at(LONG_LEASE, address, &format!("http://{address}"));
        Replica::of(Some(earlier.clone()), setup, &redis.url())
    };
    let mut fleet: Vec<Replica> = (0..REPLICAS).map(old).collect();
    let places = places(&fleet);
    let (clients, history) = under_load(CLIENTS, &mut fleet, &places, |fleet| {
        for replica in &mut *fleet {
            replica.replace(None);
            // Sessions of either version are answered by both.
            thread::sleep(CALM);
        }
        fleet[0].replace(Some(earlier.clone()));
        thread::sleep(CALM);
    });
    check(&history, &executions(&fleet));
    assert_none_failed(&history);
    assert_sessions_live(clients);
}

/// What a newer version has written is refused with the reason, and left for a replica that can read it.
#[test]
fn a_session_of_a_newer_version_is_refused_with_the_reason_and_not_lost() {
    let redis = Redis::start();
    let replica = |_| Replica::on(Setup::new().flags(&["--lease", "3s"]), &redis.url());
    let mut both: Vec<Replica> = (0..2).map(replica).collect();
    let session = both[0].session();
    assert!(both[0].end(Signal::TERM).success());
    // The version is the byte behind the word that the record begins with.
    let version = |from: u8, to: u8| {
        let script = "local head = redis.call('HGET', KEYS[1], 'head')
            local at = #'outlive-session' + 1
            assert(string.byte(head, at) == tonumber(ARGV[1]))
            head = string.sub(head, 1, at - 1) .. string.char(ARGV[2]) .. string.sub(head, at + 1)
            return redis.call('HSET', KEYS[1], 'head', head)";
        let key = format!("outlive:{{{session}}}");
        let (from, to) = (from.to_string(), to.to_string());
        let said = redis.ask(&["EVAL", script, "1", &key, &from, &to]);
        assert_eq!(said.trim(), "0", "{said}");
    };
    version(1, 9);
    for id in 1..3 {
        let reply = both[1].call(&session, id, "echo", json!({"text": "hi"}));
        assert_eq!(reply.status, 503);
        assert!(reply.header("retry-after").is_some());
        let said = reply.text();
        assert!(said.contains("version 9"), "{said}");
        assert!(said.contains("a newer process may"), "{said}");
    }
    assert_eq!(both[1].page("/ready").status, 200, "it serves all others");
    let answer = both[1].post(&[], &wire::initialize());
    assert_eq!(answer.status, 200);
    // Whoever can read it finds it as it was.
    version(9, 1);
    assert_eq!(both[1].echo(&session, 3), "hi");
}
