//! Replicas that do not reach each other, or Redis, while everybody calls. The rules are those of
//! [`fleet`](super::fleet).

use std::thread;

use redis_rig::Redis;
use rustix::process::Signal;

use crate::fleet::{
    CALM, CLIENTS, Call, LEASE, REPLICAS, Seen, assert_sessions_live, check, executions, places,
    replica_at, under_load,
};
use crate::link::Link;
use crate::replica::Replica;

/// The ways to a replica and from it.
struct Ways {
    to_store: Link,
    from_others: Link,
}

/// Replicas, each of which has ways of its own to the store and for the others.
fn fleet_with_ways(redis: &Redis) -> (Vec<Replica>, Vec<Ways>) {
    let store = ([127, 0, 0, 1], redis.port).into();
    let one = |_| {
        let address = crate::fleet::free_address();
        let ways = Ways {
            to_store: Link::to(store),
            from_others: Link::to(address),
        };
        let store = format!("redis://{}", ways.to_store.address());
        let found_at = format!("http://{}", ways.from_others.address());
        (replica_at(&store, LEASE, address, &found_at), ways)
    };
    (0..REPLICAS).map(one).unzip()
}

#[test]
fn fm_53_partitions_cost_no_session_and_repeat_nothing_unsafe() {
    let redis = Redis::start();
    let (mut fleet, ways) = fleet_with_ways(&redis);
    let places = places(&fleet);
    let (clients, history) = under_load(CLIENTS, &mut fleet, &places, |_| {
        // An owner hears nothing of the store: its lease ends, and others have its sessions.
        ways[0].to_store.silence();
        thread::sleep(LEASE * 2);
        ways[0].to_store.mend();
        thread::sleep(CALM);
        // It lives, and nobody reaches it.
        ways[1].from_others.refuse();
        thread::sleep(LEASE);
        ways[1].from_others.silence();
        thread::sleep(LEASE);
        ways[1].from_others.mend();
        thread::sleep(CALM);
        // Both; its clients reach it all the same.
        ways[2].to_store.refuse();
        ways[2].from_others.silence();
        thread::sleep(LEASE * 2);
        ways[2].from_others.mend();
        ways[2].to_store.mend();
        thread::sleep(CALM);
    });
    check(&history, &executions(&fleet));
    assert_sessions_live(clients);
    // It did happen.
    let said = |replica: &Replica, metric: &str| {
        let all = replica.page("/metrics").text();
        let value = all.lines().find_map(|line| line.strip_prefix(metric));
        value.map_or(0.0, |it| it.trim().parse::<f64>().expect("a number"))
    };
    let lost = |replica: &Replica| said(replica, "outlive_leases_lost_total");
    assert!(lost(&fleet[0]) > 0.0 && lost(&fleet[2]) > 0.0);
    assert_eq!(lost(&fleet[1]), 0.0, "who has the store keeps its lease");
    let unreached = |it: &Replica| said(it, "outlive_forwards_total{result=\"unreached\"}");
    assert!(fleet.iter().map(unreached).sum::<f64>() > 0.0);
}

/// Whoever stands before a replica may take connections in its place long after it has gone. What was on its way is
/// lost; what comes after that waits for the end of the lease.
#[test]
fn fm_53_a_dead_owner_behind_a_relay_costs_no_more_than_what_was_on_its_way() {
    let redis = Redis::start();
    let (mut fleet, _ways) = fleet_with_ways(&redis);
    let places = places(&fleet);
    let (clients, history) = under_load(CLIENTS, &mut fleet, &places, |fleet| {
        fleet[0].end(Signal::KILL);
        thread::sleep(LEASE + CALM);
        fleet[0].start();
    });
    check(&history, &executions(&fleet));
    assert_sessions_live(clients);
    let failed =
        |call: &&Call| !matches!(&call.seen, Seen::Answer(it) if it.get("result").is_some());
    let failed = history.iter().filter(failed).count();
    // One call of each client was on its way, and one more may have been before that was noticed.
    assert!(
        failed <= CLIENTS * 2,
        "{failed} of {} failed",
        history.len()
    );
}
