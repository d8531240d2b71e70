//! Requests in quick succession over real pipes: the thread that reads looks for the next one before
//! it sleeps, and runs handlers itself.

use serde_json::json;

use crate::process::Server;
#[cfg(target_os = "linux")]
use crate::processor::assert_comes_to_rest;

/// Calls quickly enough for the server to expect the next one.
fn be_brisk(server: &mut Server) {
    for id in 0..300 {
        server.call(id, "ping", json!({}));
    }
}

/// FM-64.
#[test]
fn fm_64_a_handler_that_blocks_amid_quick_ones_stops_neither_pings_nor_cancellations() {
    for kind in ["--multi-thread", "--current-thread", "--no-runtime"] {
        let mut server = Server::ready(&[kind]);
        for round in 0..5 {
            be_brisk(&mut server);
            let (blocked, waits) = (format!("b{round}"), format!("w{round}"));
            server.begin_call(blocked.as_str(), "block", json!({ "ms": 600_000 }));
            server.ping("pinged");
            server.begin_call(waits.as_str(), "wait", json!({}));
            server.ping("waits");
            server.cancel(&waits, "enough");
            server.ping("cancelled");
        }
        let end = server.finish();
        assert_eq!((end.code, end.signal), (Some(0), None));
        // At the end the others are told that the client has left.
        assert_eq!(end.stderr.matches("enough").count(), 5, "{}", end.stderr);
    }
}

/// Looking costs processor time, which nobody should pay who has nothing to say.
#[test]
#[cfg(target_os = "linux")]
fn a_server_whose_client_falls_silent_takes_no_processor_time() {
    for kind in ["--multi-thread", "--current-thread"] {
        let mut server = Server::ready(&[kind]);
        be_brisk(&mut server);
        assert_comes_to_rest(server.id());
        server.finish().assert_quiet();
    }
}
