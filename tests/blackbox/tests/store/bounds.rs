//! What a store costs, and what is said when it cannot be used.

use rustix::process::Signal;
use serde_json::json;

use crate::replica::{Replica, command};
use crate::rig::{Setup, until};
use crate::wire;

#[test]
fn a_prompt_call_writes_nothing() {
    let replica = Replica::new(&[]);
    let session = replica.session();
    assert_eq!(replica.echo(&session, 1), "hi");
    let before = replica.stored();
    for id in 2..60 {
        let reply = replica.call(&session, id, "echo", json!({"text": "hi"}));
        assert!(!reply.is_stream());
        assert_eq!(reply.answer()["result"]["content"][0]["text"], "hi");
    }
    assert!(before == replica.stored(), "the store has changed");
}

#[test]
fn a_store_is_one_processs_alone_and_is_waited_for() {
    let mut replica = Replica::new(&["--drain", "3s"]);
    let session = replica.session();
    // An upgrade starts the next process while the first still drains.
    let slow = replica.call(&session, 1, "sleep", json!({"ms": 1500}));
    assert!(slow.is_stream());
    let next = command(&replica.setup).spawn().expect("outlive");
    std::thread::sleep(std::time::Duration::from_millis(300));
    replica.end(Signal::TERM);
    assert_eq!(slow.answer()["result"]["content"][0]["text"], "slept");
    replica.adopt(next);
    assert_eq!(replica.echo(&session, 2), "hi");
}

/// What is running goes on, nothing new is begun, and whoever looks is told why.
#[test]
fn a_full_disk_costs_no_session() {
    let replica = Replica::on_a_small_disk(&["--share"], 3000);
    let session = replica.session();
    let mut initialize = wire::initialize();
    initialize["params"]["clientInfo"]["name"] = "x".repeat(20 << 10).into();
    let refused = (0..1000).find_map(|_| {
        let reply = replica.post(&[], &initialize);
        (reply.status != 200).then_some(reply)
    });
    let refused = refused.expect("it is never full");
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    let words = refused.json()["error"]["message"].to_string();
    assert!(words.contains("Try again later"), "{words}");
    assert_eq!(replica.echo(&session, 1), "hi");
    until("the reason", || {
        let log = std::fs::read_to_string(replica.setup.path("log.jsonl")).ok()?;
        log.contains("File too large").then_some(())
    });
}

#[test]
fn a_store_that_makes_no_sense_is_named() {
    let kept = Setup::new();
    let plain = kept.file("plain", "no directory");
    let junk = kept.path("junk");
    std::fs::create_dir(&junk).expect("a directory");
    kept.file("junk/sessions.redb", "garbage");
    for (store, words) in [
        ("redis:", "has no scheme"),
        ("file:", "`memory`, `file:DIR`"),
        (&*format!("file:{plain}"), "exists"),
        (&*format!("file:{plain}"), "has to be a directory"),
        (&*format!("file:{junk}"), "Not a redb database"),
    ] {
        let setup = Setup::new().flags(&["--store", store]);
        let mut refused = command(&setup);
        let ended = refused
            .stderr(std::process::Stdio::piped())
            .output()
            .expect("outlive");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{store}: {said}");
    }
}
