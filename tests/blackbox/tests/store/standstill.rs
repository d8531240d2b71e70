//! An owner that stands still with a request in its hands, or is started again in its place.

use std::net::TcpListener;
use std::thread;

use redis_rig::Redis;
use rustix::process::Signal;
use serde_json::json;

use crate::replica::Replica;
use crate::rig::{Setup, until};
use crate::wire;

/// Nobody can guess it.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A replica that others reach, also after a restart.
fn replica(redis: &Redis) -> Replica {
    let setup = Setup::new();
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = port.local_addr().expect("an address").to_string();
    drop(port);
    let (secret, url) = (setup.file("secret", SECRET), format!("http://{address}"));
    let setup = setup.flags(&["--lease", "3s", "--listen", &address]);
    let setup = setup.flags(&["--advertise", &url, "--replica-secret-file", &secret]);
    Replica::on(setup, &redis.url())
}

/// How often a server of this replica was asked for something with this word in it.
fn executed(replica: &Replica, word: &str) -> usize {
    let tap = std::fs::read_to_string(replica.setup.path("tap.jsonl")).unwrap_or_default();
    let calls = tap.lines().filter(|it| it.contains("tools/call"));
    calls.filter(|it| it.contains(word)).count()
}

/// The lease of the process before lasts: its sessions are waited for, by whoever is asked, and not refused.
#[test]
fn fm_53_an_owner_that_is_killed_and_started_again_in_its_place_costs_a_wait_and_no_call() {
    let redis = Redis::start();
    let (mut first, second) = (replica(&redis), replica(&redis));
    let sessions = [first.session(), first.session()];
    for session in &sessions {
        assert_eq!(second.echo(session, 1), "hi");
    }
    first.restart(Signal::KILL);
    let (one, other) = (&sessions[0], &sessions[1]);
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(second.echo(one, 2), "hi"));
        // It has a lease of its own before it takes anything over.
        until("a lease", || {
            (first.post(&[], &wire::initialize()).status == 200).then_some(())
        });
        assert_eq!(first.echo(other, 2), "hi");
    });
}

/// The request waits in a process that stands still. When its lease is over, nobody knows what becomes of it, and the
/// client is told so; when it wakes up, nothing becomes of it.
#[test]
fn fm_28_an_owner_that_stands_still_with_a_request_in_its_hands_does_not_carry_it_out_later() {
    let redis = Redis::start();
    let (first, second) = (replica(&redis), replica(&redis));
    let session = first.session();
    assert_eq!(second.echo(&session, 1), "hi");
    first.signal(Signal::STOP);
    let lost = second.call(&session, 2, "echo", json!({"text": "in-its-hands"}));
    let lost = lost.answer();
    let about = &lost["error"]["data"]["outlive"];
    assert_eq!(about["kind"], "connection_lost", "{lost}");
    assert_eq!(about["outcome"], "unknown", "{lost}");
    assert_eq!(second.echo(&session, 3), "hi");
    first.signal(Signal::CONT);
    until("no server", || first.servers().is_empty().then_some(()));
    until("a new session", || {
        (first.post(&[], &wire::initialize()).status == 200).then_some(())
    });
    assert_eq!(first.echo(&session, 4), "hi");
    assert_eq!(executed(&first, "in-its-hands"), 0);
    assert_eq!(executed(&second, "in-its-hands"), 0);
}
