//! Clients that do not read what they asked for.

use std::time::Duration;

use http_peer::{Reply, message};
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::place::Place;
use crate::rig::Setup;

/// Far longer than a few calls take, and far shorter than they take if each waits for a client to be given up.
const LONG: Duration = Duration::from_secs(40);

fn modern(fleet: &Fleet, id: u64, tool: &str, arguments: Value) -> Reply {
    let mut call = message::modern_call(id, tool, arguments);
    call["params"]["_meta"]["progressToken"] = id.into();
    let headers = message::modern_headers(&call);
    let headers = message::as_strs(&headers);
    let reply = http_peer::send(fleet.address, "POST", "/mcp", &headers, &call.to_string());
    reply.expect("a response")
}

#[test]
fn a_modern_client_that_does_not_read_delays_no_other_client_of_the_same_server() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &["--legacy"]) });
    let flags = place.flags(&servers);
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(["--list-wait", "45s"]);
    let fleet = Fleet::start(Setup::new(), &flags);
    let first = modern(&fleet, 1, "one__ping", json!({})).answer();
    assert!(first["result"].is_object(), "{first}");
    let begun = std::time::Instant::now();
    let mut unread = Vec::new();
    for round in 0..16 {
        // More than is kept for anybody, here and in the system: 60 MB. Nothing depends on how long is waited for it.
        let ticks = json!({ "ticks": 30_000, "bytes": 2_000 });
        unread.push(modern(&fleet, 2, "one__tick", ticks));
        std::thread::sleep(Duration::from_millis(300));
        let answer = modern(&fleet, 3, "one__ping", json!({})).answer();
        assert!(answer["result"].is_object(), "round {round}: {answer}");
    }
    let took = begun.elapsed();
    assert!(took < LONG, "{took:?}");
}
