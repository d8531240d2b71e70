//! Three replicas on one Redis, clients that go to any of them, and what happens to fleets: a replica is killed, stands
//! still beyond its lease or is restarted in order, and Redis is restarted, all while everybody calls.
//!
//! Everything is recorded: of each call the answers that its client has seen, and how often a server has executed it.
//! The rules are checked over that history:
//!
//! 1. no call is answered twice;
//! 2. what is not safe to repeat is executed once at most, and a result means that it was executed;
//! 3. a call that was promised a stream is answered, with its result or one of our errors;
//! 4. status 503, or an error of the kind `unavailable`, means that nothing was done, so the client goes on with the
//!    same call elsewhere;
//! 5. no session is lost.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis_rig::Redis;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::replica::Replica;
use crate::rig::{PATIENCE, Setup, until};
use crate::wire::{self, Reply};

pub const REPLICAS: usize = 3;
pub const CLIENTS: usize = 6;
pub const ROLLING_CLIENTS: usize = 16;
pub const LEASE: Duration = Duration::from_secs(3);
/// Where no call may fail: only a machine that stands still misses it.
pub const LONG_LEASE: Duration = Duration::from_secs(10);
/// Between two accidents.
pub const CALM: Duration = Duration::from_secs(2);
/// Nobody can guess it.
pub const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// What a client has seen of a call.
#[derive(Debug)]
pub enum Seen {
    /// This answer.
    Answer(Value),
    /// The connection was lost, and no stream had been promised: nobody knows.
    Nothing,
}

/// One call of the history.
#[derive(Debug)]
pub struct Call {
    /// Its name, which its arguments have, too.
    tag: String,
    tool: &'static str,
    pub seen: Seen,
}

/// The kind of an error of ours.
fn kind_of(seen: &Seen) -> Option<&str> {
    match seen {
        Seen::Answer(answer) => answer["error"]["data"]["outlive"]["kind"].as_str(),
        Seen::Nothing => None,
    }
}

/// A client that keeps its session and has no favourite replica.
pub struct Client {
    name: usize,
    places: Vec<SocketAddr>,
    session: String,
    next: usize,
    calls: u64,
}

impl Client {
    fn place(&mut self) -> SocketAddr {
        self.next += 1;
        self.places[self.next % self.places.len()]
    }

    /// Sends this to one replica after the other until one takes it. An error if the connection is lost afterwards.
    fn send(&mut self, method: &str, body: &str, after: Option<&str>) -> io::Result<Reply> {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE * 2, "no replica takes a request");
            let mut headers = vec![("MCP-Protocol-Version", "2025-11-25")];
            if !self.session.is_empty() {
                headers.push(("Mcp-Session-Id", &self.session));
            }
            headers.extend(after.map(|id| ("Last-Event-ID", id)));
            let head = http_peer::head(method, "/mcp", &headers, body.len());
            let to = self.place();
            // A load balancer goes on to the next one if nobody listens, or if nothing was done.
            let Ok(mut stream) = http_peer::connect(to) else {
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            stream.write_all((head + body).as_bytes())?;
            let reply = Reply::read(stream)?;
            match reply.status {
                // A load balancer that has lost a connection.
                502 => return Err(io::ErrorKind::ConnectionReset.into()),
                503 => assert!(reply.header("retry-after").is_some(), "{}", reply.text()),
                _ => return Ok(reply),
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Opens a session.
    fn shake_hands(&mut self) {
        let reply = self.send("POST", &wire::initialize().to_string(), None);
        let reply = reply.expect("a response");
        self.session = reply.header("mcp-session-id").expect("a session").into();
        let reply = self.send("POST", &wire::initialized().to_string(), None);
        assert_eq!(reply.expect("a response").status, 202);
    }

    fn call(&mut self, tool: &'static str, mut arguments: Value) -> Call {
        self.calls += 1;
        let tag = format!("client-{}-{}-call-{}-", self.session, self.name, self.calls);
        arguments["text"] = tag.as_str().into();
        let message = wire::call(self.calls, tool, arguments).to_string();
        let begun = Instant::now();
        let mut seen = self.outcome(&message);
        // As status 503: the load balancer says so in the words of the protocol.
        while kind_of(&seen) == Some("unavailable") {
            assert!(begun.elapsed() < PATIENCE * 2, "no replica takes a call");
            thread::sleep(Duration::from_millis(100));
            seen = self.outcome(&message);
        }
        Call { tag, tool, seen }
    }

    /// What comes of a call: its stream is followed wherever it goes on.
    fn outcome(&mut self, message: &str) -> Seen {
        let Ok(mut reply) = self.send("POST", message, None) else {
            return Seen::Nothing;
        };
        assert!(reply.status == 200, "{}", reply.text());
        if !reply.is_stream() {
            let text = reply.try_text();
            return text.map_or(Seen::Nothing, |text| {
                Seen::Answer(serde_json::from_str(&text).expect("a message"))
            });
        }
        let begun = Instant::now();
        let mut last: Option<String> = None;
        loop {
            while let Ok(Some(event)) = reply.try_event() {
                last = event.id.clone().or(last);
                let message = match event.data.is_empty() {
                    true => Value::Null,
                    false => event.json(),
                };
                if message["id"] == self.calls && message.get("method").is_none() {
                    self.assert_ends(reply);
                    return Seen::Answer(message);
                }
            }
            assert!(begun.elapsed() < PATIENCE * 2, "a stream goes on nowhere");
            // Without an event id nothing was promised that could be asked for.
            let Some(after) = &last else {
                return Seen::Nothing;
            };
            let after = after.clone();
            match self.send("GET", "", Some(&after)) {
                Ok(next) => {
                    assert!(next.status == 200, "{}", next.text());
                    reply = next;
                }
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Nothing follows an answer on its stream.
    fn assert_ends(&self, mut reply: Reply) {
        while let Ok(Some(message)) = reply.next_message() {
            assert_ne!(message["id"], self.calls, "a second answer: {message}");
        }
    }

    /// Calls until it is told to stop.
    fn work(mut self, over: &AtomicBool) -> (Client, Vec<Call>) {
        let mut history = Vec::new();
        while !over.load(Ordering::Relaxed) {
            history.push(self.call("echo", json!({})));
            // Longer than an answer may take before a stream is promised.
            history.push(self.call("sleep", json!({"ms": 400})));
            history.push(self.call("sleep_read", json!({"ms": 400})));
        }
        (self, history)
    }
}

/// An address that nobody listens at.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

/// Three of them.
pub fn fleet(redis: &Redis, lease: Duration) -> Vec<Replica> {
    (0..REPLICAS).map(|_| replica(redis, lease)).collect()
}

fn replica(redis: &Redis, lease: Duration) -> Replica {
    let address = free_address();
    replica_at(&redis.url(), lease, address, &format!("http://{address}"))
}

/// A replica that listens at this address, and is found by others at that one.
pub fn replica_at(store: &str, lease: Duration, address: SocketAddr, found_at: &str) -> Replica {
    Replica::on(setup_at(lease, address, found_at), store)
}

/// How it is set up.
pub fn setup_at(lease: Duration, address: SocketAddr, found_at: &str) -> Setup {
    let setup = Setup::new();
    let secret = setup.file("secret", SECRET);
    let (address, lease) = (address.to_string(), format!("{}s", lease.as_secs()));
    let setup = setup.flags(&["--listen", &address, "--lease", &lease, "--drain", "30s"]);
    setup.flags(&["--advertise", found_at, "--replica-secret-file", &secret])
}

/// How often each call was executed, by what the servers of all replicas have recorded.
pub fn executions(fleet: &[Replica]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for replica in fleet {
        let tap = std::fs::read_to_string(replica.setup.path("tap.jsonl")).unwrap_or_default();
        for line in tap.lines().filter(|line| line.contains("tools/call")) {
            let Some(from) = line.find("client-") else {
                continue;
            };
            let is_outside = |it: char| !(it.is_ascii_alphanumeric() || it == '-');
            let tag = &line[from..];
            let tag = &tag[..tag.find(is_outside).unwrap_or(tag.len())];
            *counts.entry(tag.to_owned()).or_insert(0) += 1;
        }
    }
    counts
}

pub fn check(history: &[Call], executed: &HashMap<String, usize>) {
    for call in history {
        let times = executed.get(&call.tag).copied().unwrap_or(0);
        if call.tool != "sleep_read" {
            assert!(times <= 1, "executed {times} times: {call:?}");
        }
        let Seen::Answer(answer) = &call.seen else {
            continue;
        };
        if answer.get("result").is_some() {
            assert!(times >= 1, "answered by nobody: {call:?}");
            continue;
        }
        assert_eq!(kind_of(&call.seen), Some("connection_lost"), "{call:?}");
    }
    let answered =
        |call: &&Call| matches!(&call.seen, Seen::Answer(it) if it.get("result").is_some());
    let answered = history.iter().filter(answered).count();
    // Most calls meet nothing at all.
    assert!(
        answered * 2 > history.len(),
        "{answered} of {}",
        history.len()
    );
}

/// Lets clients call at a fleet while something happens to it. What is left of them, and what they have seen.
pub fn under_load(
    count: usize,
    fleet: &mut [Replica],
    places: &[SocketAddr],
    happens: impl FnOnce(&mut [Replica]),
) -> (Vec<Client>, Vec<Call>) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let work = |name: usize| {
            let (places, over) = (places.to_vec(), &over);
            scope.spawn(move || {
                let mut client = Client {
                    name,
                    places,
                    session: String::new(),
                    next: name,
                    calls: 0,
                };
                client.shake_hands();
                client.work(over)
            })
        };
        let working: Vec<_> = (0..count).map(work).collect();
        thread::sleep(CALM);
        happens(fleet);
        over.store(true, Ordering::Relaxed);
        let ended = working.into_iter().map(|it| it.join().expect("a client"));
        let (clients, histories): (Vec<Client>, Vec<Vec<Call>>) = ended.unzip();
        (clients, histories.into_iter().flatten().collect())
    })
}

/// Every session is good at every replica.
pub fn assert_sessions_live(clients: Vec<Client>) {
    for mut client in clients {
        for _ in 0..REPLICAS {
            let call = client.call("echo", json!({}));
            let Seen::Answer(answer) = &call.seen else {
                panic!("{call:?}");
            };
            assert_eq!(wire::text_of(answer), call.tag, "{answer}");
        }
    }
}

/// Where clients find the replicas.
pub fn places(fleet: &[Replica]) -> Vec<SocketAddr> {
    fleet.iter().map(|it| it.address).collect()
}

/// A rolling restart.
pub fn roll(fleet: &mut [Replica]) {
    for replica in fleet {
        replica.restart(Signal::TERM);
        thread::sleep(CALM);
    }
}

pub fn assert_none_failed(history: &[Call]) {
    let failed =
        |call: &&Call| !matches!(&call.seen, Seen::Answer(it) if it.get("result").is_some());
    let failed: Vec<&Call> = history.iter().filter(failed).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn fm_53_a_fleet_under_load_loses_no_session_and_repeats_nothing_unsafe() {
    let mut redis = Redis::start();
    let mut fleet = fleet(&redis, LEASE);
    let places = places(&fleet);
    let (clients, history) = under_load(CLIENTS, &mut fleet, &places, |fleet| {
        fleet[0].end(Signal::KILL);
        thread::sleep(CALM);
        fleet[0].start();
        thread::sleep(CALM);
        fleet[1].signal(Signal::STOP);
        thread::sleep(LEASE * 2);
        fleet[1].signal(Signal::CONT);
        thread::sleep(CALM);
        redis.kill();
        redis.start_again();
        thread::sleep(CALM);
        fleet[2].restart(Signal::TERM);
        thread::sleep(CALM);
    });
    check(&history, &executions(&fleet));
    assert_sessions_live(clients);
    let logs = fleet.iter().map(|it| it.setup.path("log.jsonl"));
    let logs: String = logs
        .map(|it| std::fs::read_to_string(it).unwrap_or_default())
        .collect();
    assert!(logs.contains("a session goes on that another process had begun"));
}

#[test]
fn fm_53_a_rolling_restart_costs_no_session_and_no_call() {
    let redis = Redis::start();
    let mut fleet = fleet(&redis, LONG_LEASE);
    let places = places(&fleet);
    let (clients, history) = under_load(ROLLING_CLIENTS, &mut fleet, &places, roll);
    check(&history, &executions(&fleet));
    assert_none_failed(&history);
    assert_sessions_live(clients);
}

/// HAProxy, as we tell people to set it up, before these replicas.
struct Balancer {
    child: Child,
    address: SocketAddr,
}

impl Balancer {
    fn start(fleet: &[Replica]) -> Balancer {
        let ours = include_str!("../../../../packaging/fleet/haproxy.cfg");
        let address = free_address().to_string();
        let mut config = ours.replace("bind :8080", &format!("bind {address}"));
        for (example, replica) in ["10.0.0.5", "10.0.0.6", "10.0.0.7"].iter().zip(fleet) {
            let example = format!("{example}:8620");
            assert!(config.contains(&example), "{example} is not in {config}");
            config = config.replace(&example, &replica.address.to_string());
        }
        let file = fleet[0].setup.file("haproxy.cfg", &config);
        // The kernel ends it with this thread.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "haproxy", "-db", "-f", &file]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let balancer = Balancer {
            child: child.expect("haproxy: tests/redis/setup installs it"),
            address: address.parse().expect("an address"),
        };
        until("haproxy", || {
            let reply = http_peer::send(balancer.address, "GET", "/ready", &[], "");
            reply.is_ok_and(|it| it.status == 200).then_some(())
        });
        balancer
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn fm_53_a_fleet_behind_haproxy_without_affinity() {
    let redis = Redis::start();
    let mut fleet = fleet(&redis, LONG_LEASE);
    let balancer = Balancer::start(&fleet);
    let place = [balancer.address];
    let (clients, mut history) = under_load(ROLLING_CLIENTS, &mut fleet, &place, roll);
    assert_none_failed(&history);
    assert_sessions_live(clients);
    let (clients, more) = under_load(CLIENTS, &mut fleet, &place, |fleet| {
        fleet[0].end(Signal::KILL);
        thread::sleep(LONG_LEASE + CALM);
        fleet[0].start();
        thread::sleep(CALM);
    });
    history.extend(more);
    check(&history, &executions(&fleet));
    assert_sessions_live(clients);
}
