//! How many servers there may be, and who gives way.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::gateway::Gateway;
use crate::rig::{Setup, tree, until};
use crate::wire;

/// The servers that are alive.
fn servers(gateway: &Gateway) -> usize {
    let marked = tree::marked(&gateway.setup.mark);
    marked.iter().filter(|pid| **pid != gateway.pid()).count()
}

#[test]
fn fm_32_there_is_a_bound_to_servers() {
    let gateway = Gateway::new(&["--max-servers", "2"]);
    let (first, _second) = (gateway.session(), gateway.session());
    let refused = gateway.post(&[], &wire::initialize());
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    let words = refused.json()["error"]["message"].to_string();
    assert!(words.contains("--max-servers"), "{words}");
    assert_eq!(gateway.get("/sse", &[]).status, 503);
    assert_eq!(servers(&gateway), 2);
    // Whoever runs it is told, once for many.
    let log = std::fs::read_to_string(gateway.setup.path("log.jsonl")).expect("a log");
    assert_eq!(log.matches("a client was refused").count(), 1, "{log}");
    // Requests without a session have servers of their own.
    let request = wire::modern_call(1, "echo", json!({"text": "hi"}));
    let headers = wire::modern_headers(&request);
    let headers = wire::as_strs(&headers);
    assert_eq!(gateway.post(&headers, &request).status, 200);
    let leaving = [("Mcp-Session-Id", &*first)];
    assert_eq!(
        wire::send(gateway.address, "DELETE", &leaving, "").status,
        200
    );
    // Its server may not have ended yet: that is waited for.
    let third = gateway.session();
    assert_eq!(servers(&gateway), 3);
    let answer = gateway
        .call(&third, 1, "echo", json!({"text": "hi"}))
        .answer();
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
}

#[test]
fn fm_32_a_server_that_ends_slowly_is_waited_for() {
    let setup = Setup::new().knobs(&["--ignore-eof"]);
    let flags = ["--max-servers", "1", "--stop-grace", "700ms"];
    let gateway = Gateway::with(setup.flags(&flags));
    for _ in 0..3 {
        let session = gateway.session();
        assert_eq!(servers(&gateway), 1);
        let leaving = [("Mcp-Session-Id", &*session)];
        assert_eq!(
            wire::send(gateway.address, "DELETE", &leaving, "").status,
            200
        );
    }
}

/// A client that shakes hands, or tries to, and is gone.
fn vanish(to: SocketAddr, n: usize) {
    let mut hello = wire::initialize();
    hello["params"]["clientInfo"]["name"] = json!(format!("client {n}"));
    wire::send_briefly(to, &hello.to_string(), Duration::from_millis(50));
}

#[test]
fn fm_32_clients_that_vanish_leave_no_more_servers_than_there_may_be() {
    let setup = Setup::new().knobs(&["--start-delay", "1000"]);
    let gateway = Gateway::with(setup.flags(&["--max-sessions", "3"]));
    let (most, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                most.fetch_max(servers(&gateway), Ordering::AcqRel);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let clients: Vec<_> = (0..30)
            .map(|n| {
                let address = gateway.address;
                std::thread::sleep(Duration::from_millis(30));
                scope.spawn(move || vanish(address, n))
            })
            .collect();
        for client in clients {
            client.join().expect("gone");
        }
        std::thread::sleep(Duration::from_millis(300));
        done.store(true, Ordering::Release);
    });
    let most = most.into_inner();
    assert!((1..=3).contains(&most), "{most} servers at once");
}

#[test]
fn fm_39_a_client_that_never_used_its_session_is_soon_forgotten() {
    let gateway = Gateway::new(&["--read-timeout", "1s"]);
    let known = gateway.session();
    for _ in 0..3 {
        assert_eq!(gateway.post(&[], &wire::initialize()).status, 200);
    }
    assert_eq!(servers(&gateway), 4);
    until("the others are gone", || {
        (servers(&gateway) == 1).then_some(())
    });
    let answer = gateway
        .call(&known, 1, "echo", json!({"text": "hi"}))
        .answer();
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
}

#[test]
fn the_page_says_whose_a_server_is_and_when_it_ends() {
    let setup = Setup::new();
    let file = setup.file("tokens", "alpha\nbeta\n");
    let gateway = Gateway::with(setup.flags(&["--token-file", &file, "--session-ttl", "90s"]));
    let token = ("Authorization", "Bearer beta");
    let mut hello = wire::initialize();
    hello["params"]["clientInfo"] = json!({"name": "<Some> host", "version": "4.2"});
    let reply = gateway.post(&[token], &hello);
    let session = reply
        .header("mcp-session-id")
        .expect("a session")
        .to_owned();
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let headers = [token, ("Mcp-Session-Id", &*session)];
    assert_eq!(gateway.post(&headers, &told).status, 202);
    let page = gateway.get("/", &[token]).text();
    let row = page.lines().find(|line| line.contains("one session"));
    let row = row.unwrap_or_else(|| panic!("{page}"));
    for words in ["&lt;Some&gt; host 4.2", "token 2", "s ago", "in 8"] {
        assert!(row.contains(words), "{words}: {row}");
    }
    assert!(!page.contains(&session) && !page.contains("beta"), "{page}");
    let _stream = wire::send(gateway.address, "GET", &headers, "");
    let page = gateway.get("/", &[token]).text();
    assert!(page.contains("in use"), "{page}");
}

#[test]
fn fm_32_a_session_whose_client_has_left_gives_way() {
    let setup = Setup::new();
    let file = setup.file("outlive.toml", "max-servers = 1\n");
    let gateway = Gateway::with(setup.flags(&["--config", &file]));
    let first = gateway.session();
    let stream = gateway.get("/mcp", &[("Mcp-Session-Id", &first)]);
    assert_eq!(gateway.post(&[], &wire::initialize()).status, 503);
    drop(stream);
    let second = until("it gives way", || {
        let reply = gateway.post(&[], &wire::initialize());
        assert!(servers(&gateway) <= 1);
        reply.header("mcp-session-id").map(str::to_owned)
    });
    let call = |session| {
        gateway
            .call(session, 1, "echo", json!({"text": "hi"}))
            .status
    };
    assert_eq!((call(&*first), call(&*second)), (404, 200));
}

#[test]
fn fm_12_a_server_that_is_kept_for_its_client_has_one_place() {
    let setup = Setup::new().knobs(&["--start-delay", "3000"]);
    let gateway = Gateway::with(setup.env("OUTLIVE_MAX_SERVERS", "1"));
    let body = wire::initialize().to_string();
    // The end of the last attempt may not have been noticed yet.
    let is_answer = |reply: &wire::Reply| reply.status != 503;
    let hasty = (0..4).find_map(|_| {
        assert!(servers(&gateway) <= 1);
        let reply = wire::send_briefly(gateway.address, &body, Duration::from_millis(200));
        reply.filter(is_answer)
    });
    // Not in a hurry: an answer that meets a client on its way out is another story.
    let answered = hasty.unwrap_or_else(|| {
        until("it is ready", || {
            assert!(servers(&gateway) <= 1);
            Some(gateway.post(&[], &wire::initialize())).filter(is_answer)
        })
    });
    assert_eq!(answered.status, 200);
    assert_eq!(gateway.setup.tap().pids().len(), 1, "it was started once");
}
