//! What users of other gateways reported about several servers behind one address, a test each, named after the report.
//!
//! docs/failures.md lists all of these reports. Those that are not here are answered by tests that were there before.

use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use http_peer::{Request, response};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::fleet::{Fleet, fake};
use crate::place::{Place, has, names, pid};
use crate::rig::{Setup, tree, until};

/// The program behind HTTP, with the servers of a place.
fn serve(place: &Place, servers: &Value, flags: &[&str]) -> Fleet {
    let named = place.flags(servers);
    let named = named.iter().map(String::as_str);
    let all: Vec<&str> = named.chain(flags.iter().copied()).collect();
    Fleet::start(Setup::new(), &all)
}

/// An address of this machine that no other test listens at.
fn address(last: u8) -> String {
    let pid = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, 78 + last, pid[2], pid[3]);
    let free = TcpListener::bind((host, 0)).and_then(|it| it.local_addr());
    free.expect("a port").to_string()
}

/// A fake over HTTP, at this address.
fn remote(address: &str) -> Fleet {
    let setup = Setup::new().env("OUTLIVE_LISTEN", address);
    setup.file(
        "mcp.json",
        &json!({ "mcpServers": { "far": fake() } }).to_string(),
    );
    Fleet::start(setup, &["--servers", "mcp.json"])
}

fn works(answer: &Value) -> bool {
    answer["result"].is_object()
}

#[test]
fn toolhive_5861_every_client_shakes_hands_and_lists_while_a_server_takes_its_time() {
    let place = Place::new();
    place.write("late.wait", "");
    let servers = json!({ "late": place.late("late"), "one": place.fake("one", &[]) });
    let fleet = serve(&place, &servers, &["--list-wait", "500ms"]);
    // For as long as the clients are at it, it does not start at all.
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let session = fleet.all();
                let all = until("the tools of the other", || {
                    Some(fleet.tools(&session)).filter(|all| has(all, "one"))
                });
                assert!(!has(&all, "late"), "{all:?}");
                assert!(works(&fleet.call_all(&session, "one__ping", json!({}))));
            });
        }
    });
    assert_eq!(place.spawns("late"), 0);
    place.remove("late.wait");
    let session = fleet.all();
    until("the tools of all", || {
        has(&fleet.tools(&session), "late").then_some(())
    });
    assert!(works(&fleet.call_all(&session, "late__ping", json!({}))));
}

#[test]
fn toolhive_5890_a_server_is_looked_after_without_a_second_handshake() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let flags = ["--probe-interval", "50ms", "--list-wait", "45s", "--share"];
    let fleet = serve(&place, &servers, &flags);
    let session = fleet.all();
    fleet.tools(&session);
    for server in ["one", "two"] {
        assert!(works(&fleet.call_all(
            &session,
            &format!("{server}__ping"),
            json!({})
        )));
    }
    until("it is probed again and again", || {
        for path in ["/ready", "/health", "/metrics", "/"] {
            assert_eq!(fleet.get(path).status, 200);
        }
        let probed = |server: &str| place.heard(server, "ping") >= 10;
        (probed("one") && probed("two")).then_some(())
    });
    for server in ["one", "two"] {
        let counts = (place.spawns(server), place.heard(server, "initialize"));
        assert_eq!(counts, (1, 1), "{server}");
    }
}

#[test]
fn docker_mcp_gateway_318_any_number_of_calls_need_one_process_of_a_server() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    place.learn(&servers);
    let known = (place.spawns("one"), place.spawns("two"));
    let mut host = place.open(&servers, &[]);
    // All of them before the first has been answered, and so before its server runs.
    let calls: Vec<_> = (0..200)
        .map(|_| host.call("one__ping", json!({})))
        .collect();
    for call in calls {
        host.answer(call).result();
    }
    let now = (place.spawns("one"), place.spawns("two"));
    assert_eq!(now, (known.0 + 1, known.1));
}

#[test]
fn mcphub_970_a_server_that_is_not_there_at_the_start_is_found_when_it_is() {
    let place = Place::new();
    let address = address(0);
    let far = json!({ "url": format!("http://{address}/far/mcp"), "outlive": { "hold": "100ms" } });
    let servers = json!({ "far": far, "one": place.fake("one", &[]) });
    let mut host = place.open(&servers, &["--list-wait", "500ms"]);
    until("the tools of the other", || {
        has(&names(&host.list_tools()), "one").then_some(())
    });
    let change = "notifications/tools/list_changed";
    let told = host.notified(change).len();
    let _remote = remote(&address);
    // Nobody asks for it.
    until("the change", || {
        (host.notified(change).len() > told).then_some(())
    });
    let all = names(&host.list_tools());
    assert!(has(&all, "far"), "{all:?}");
    pid(&mut host, "far__ping");
}

#[test]
fn toolhive_4459_a_remote_server_that_answers_500_is_told_of_and_used_again() {
    let place = Place::new();
    let address = address(1);
    let listener = TcpListener::bind(&address).expect("an address");
    let over = Arc::new(AtomicBool::new(false));
    let failing = thread::spawn({
        let over = over.clone();
        move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let _ = Request::read(&mut BufReader::new(&stream));
                let _ = (&stream).write_all(response(500, &[], "out of order").as_bytes());
            }
        }
    });
    let far = json!({ "url": format!("http://{address}/far/mcp"), "outlive": { "hold": "100ms" } });
    let servers = json!({ "far": far, "one": place.fake("one", &[]) });
    let fleet = serve(&place, &servers, &["--list-wait", "500ms"]);
    let session = fleet.all();
    until("the tools of the other", || {
        has(&fleet.tools(&session), "one").then_some(())
    });
    let refused = fleet.call_all(&session, "far__ping", json!({})).to_string();
    assert!(
        refused.contains("far, which could not be reached"),
        "{refused}"
    );
    assert!(works(&fleet.call_all(&session, "one__ping", json!({}))));
    // It is not called ready, the other is, and so is the gateway.
    let standing = |ready: bool| {
        let page = fleet.get("/ready");
        assert_eq!(page.status, 200);
        let targets = page.json()["targets"].as_array().cloned();
        let targets = targets.expect("targets");
        let is = |name: &str| targets.iter().find(|it| it["name"] == name).cloned();
        assert_eq!(is("one").expect("one")["ready"], true);
        let far = is("far").expect("far");
        (far["ready"] == ready).then_some(far)
    };
    let far = until("the truth about it", || standing(false));
    assert_eq!(far["last"]["cause"]["error"], "status 500", "{far}");
    over.store(true, Ordering::SeqCst);
    drop(std::net::TcpStream::connect(&address));
    failing.join().expect("it has ended");
    let _remote = remote(&address);
    until("its return", || {
        works(&fleet.call_all(&session, "far__ping", json!({}))).then_some(())
    });
    until("its return", || standing(true));
}

#[test]
fn toolhive_3221_a_remote_server_that_cannot_be_reached_is_not_called_ready() {
    let place = Place::new();
    let address = address(2);
    let far = json!({ "url": format!("http://{address}/mcp"), "outlive": { "hold": "100ms" } });
    let servers = json!({ "far": far, "one": place.fake("one", &[]) });
    let fleet = serve(&place, &servers, &["--list-wait", "500ms"]);
    let session = fleet.all();
    let refused = fleet.call_all(&session, "far__ping", json!({}));
    assert!(refused["error"].is_object(), "{refused}");
    until("the truth about it", || {
        let page = fleet.get("/ready");
        assert_eq!(page.status, 200);
        let page = page.json();
        let targets = page["targets"].as_array().expect("targets");
        let states = targets.iter().map(|it| (&it["name"], &it["ready"]));
        let told: Vec<String> = states
            .map(|(name, ready)| format!("{name}: {ready}"))
            .collect();
        (told == ["\"far\": false", "\"one\": true"]).then_some(())
    });
}

/// Processes of this test, but for the gateway itself and what guards its servers.
fn servers_of(fleet: &Fleet, place: &Place) -> usize {
    let recorded = ["one", "two"].map(|name| place.tap(name));
    let mut pids: Vec<u64> = recorded
        .iter()
        .flatten()
        .filter_map(|it| it["pid"].as_u64())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    let alive = tree::marked(&fleet.setup.mark);
    alive
        .iter()
        .filter(|pid| pids.contains(&u64::from(**pid)))
        .count()
}

/// Children of the gateway, zombies included.
fn children_of(fleet: &Fleet) -> usize {
    let own = fleet.pid().to_string();
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    all.filter(|pid| tree::stat(*pid).is_some_and(|stat| stat[1] == own))
        .count()
}

#[test]
fn metamcp_162_sessions_that_came_and_went_leave_no_process_behind() {
    let place = Place::new();
    // One of them does not end with its input, as containers and wrappers do not.
    let servers =
        json!({ "one": place.fake("one", &["--ignore-eof"]), "two": place.fake("two", &[]) });
    let fleet = serve(&place, &servers, &["--list-wait", "45s"]);
    let before = children_of(&fleet);
    for round in 0..5 {
        thread::scope(|scope| {
            for client in 0..6 {
                let fleet = &fleet;
                scope.spawn(move || {
                    let session = fleet.all();
                    let tool = ["one__ping", "two__ping"][client % 2];
                    assert!(
                        works(&fleet.call_all(&session, tool, json!({}))),
                        "round {round}"
                    );
                    let headers = [("Mcp-Session-Id", session.as_str())];
                    let ended = http_peer::send(fleet.address, "DELETE", "/mcp", &headers, "");
                    assert!(ended.expect("a response").status < 300);
                });
            }
        });
    }
    until("all of them have ended", || {
        (servers_of(&fleet, &place) == 0).then_some(())
    });
    until("all of them were collected", || {
        (children_of(&fleet) <= before).then_some(())
    });
    let started = place.spawns("one") + place.spawns("two");
    assert!(started >= 30, "{started}");
    let session = fleet.all();
    assert!(works(&fleet.call_all(&session, "one__ping", json!({}))));
}

#[test]
fn tbxark_80_a_server_that_writes_to_stderr_is_neither_blocked_nor_a_burden() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let mut host = place.open(&servers, &["--list-wait", "45s"]);
    host.list_tools();
    let before = pid(&mut host, "one__ping");
    for _ in 0..4 {
        host.ask("one__stderr", json!({ "bytes": 1_000_000 }))
            .result();
        pid(&mut host, "two__ping");
    }
    assert_eq!(pid(&mut host, "one__ping"), before);
}

#[test]
fn mcpproxy_go_1317_a_probe_ends_no_server_that_is_busy() {
    let place = Place::new();
    // It reads nothing while it works: no probe can be answered meanwhile.
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let flags = [
        "--probe-interval",
        "50ms",
        "--probe-patience",
        "100ms",
        "--list-wait",
        "45s",
    ];
    let mut host = place.open(&servers, &flags);
    host.list_tools();
    let before = pid(&mut host, "one__ping");
    let busy = host.call("one__block", json!({ "ms": 3_000 }));
    until("the call", || {
        (place.heard("one", "tools/call") == 2).then_some(())
    });
    until("the other one is probed and called meanwhile", || {
        pid(&mut host, "two__ping");
        (host.answers(busy) == 1).then_some(())
    });
    host.answer(busy).result();
    assert_eq!(pid(&mut host, "one__ping"), before);
    assert_eq!((place.spawns("one"), place.spawns("two")), (1, 1));
}

#[test]
fn copilot_cli_2901_thirteen_servers_are_there_at_once() {
    let place = Place::new();
    let all: Vec<String> = (1..=13).map(|n| format!("server{n}")).collect();
    let entry = |name: &String| (name.clone(), place.fake(name, &["--start-delay", "1000"]));
    let servers: serde_json::Map<String, Value> = all.iter().map(entry).collect();
    let servers = Value::Object(servers);
    // With none of them known: they start beside each other, and one list has them all.
    let mut host = place.open(&servers, &["--list-wait", "45s", "--expose", "list"]);
    let listed = names(&host.list_tools());
    assert!(all.iter().all(|server| has(&listed, server)), "{listed:?}");
    let calls: Vec<_> = all
        .iter()
        .map(|it| host.call(&format!("{it}__ping"), json!({})))
        .collect();
    for call in calls {
        host.answer(call).result();
    }
    host.hang_up();
    host.exit();
    // Known: nobody waits for any, and what fills a model's context is two tools.
    let mut host = place.open(&servers, &["--expose", "search"]);
    assert_eq!(names(&host.list_tools()).len(), 2);
    assert_eq!(all.iter().map(|it| place.spawns(it)).sum::<usize>(), 13);
    let call = json!({ "name": "server7__ping", "arguments": {} });
    host.ask("call_tool", call).result();
    assert_eq!(all.iter().map(|it| place.spawns(it)).sum::<usize>(), 14);
}

#[test]
fn supergateway_139_a_call_does_not_hang_when_its_server_dies_and_no_other_is_touched() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let fleet = serve(&place, &servers, &["--list-wait", "45s"]);
    let session = fleet.all();
    fleet.tools(&session);
    let of = |server: &str| {
        let answer = fleet.call_all(&session, &format!("{server}__ping"), json!({}));
        answer["result"]["structuredContent"]["pid"]
            .as_u64()
            .expect("a pid")
    };
    let (one, two) = (of("one"), of("two"));
    let lost = thread::scope(|scope| {
        let call = || fleet.call_all(&session, "one__sleep", json!({ "ms": 3_600_000 }));
        let lost = scope.spawn(call);
        until("the call", || {
            (place.heard("one", "tools/call") == 2).then_some(())
        });
        tree::kill(one as u32, Signal::KILL);
        lost.join().expect("an answer")
    });
    assert_eq!(
        lost["error"]["data"]["outlive"]["kind"], "connection_lost",
        "{lost}"
    );
    assert_eq!(of("two"), two);
    assert_ne!(of("one"), one);
}
