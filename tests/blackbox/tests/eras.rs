//! Two protocol eras under one session.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Host, Setup, tree, until};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What a modern host says with every request.
fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "modern", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn call(host: &mut Host, tool: &str, arguments: Value) -> i64 {
    host.request(
        "tools/call",
        json!({ "name": tool, "arguments": arguments, "_meta": meta() }),
    )
}

fn discover(host: &mut Host) -> i64 {
    host.request("server/discover", json!({ "_meta": meta() }))
}

/// FM-42: a server that exits on `server/discover` costs the probing host nothing: the probe is
/// answered with an error, which means "legacy", and `initialize` works. Two spawns in all; the
/// next session with the same server needs one.
#[test]
fn fm_42_server_that_dies_of_the_probe() {
    let setup = Setup::new().knobs(&["--exit-on-discover", "--legacy"]);
    let command = setup.command();
    let mut host = Host::spawn(setup, command);
    let probe = discover(&mut host);
    assert_eq!(host.answer(probe).error()["code"], -32601);
    host.initialize();
    assert_eq!(host.ping(), host.server(2));
    assert_eq!(host.tap().pids().len(), 2);
    host.event("the lesson", |e| e["event"] == "legacy_only");
    host.hang_up();
    host.exit();

    let command = host.setup.command();
    let second = Setup::new();
    let mut next = Host::spawn(second, command);
    let probe = discover(&mut next);
    assert_eq!(next.answer(probe).error()["code"], -32601);
    next.initialize();
    next.ping();
    assert_eq!(
        host.tap().pids().len(),
        3,
        "the second session needed one server"
    );
    next.hang_up();
    next.exit();
}

/// FM-42: a server that ends over the probe because it lacks a key says so in the error, and is asked again when
/// it has one: nothing was proven, so nothing is remembered.
#[test]
fn fm_42_server_that_lacks_a_key_is_asked_again() {
    let setup = Setup::new();
    let key = setup.path("key");
    let script = format!(
        "[ -e {key} ] || {{ read line; echo 'API_KEY is missing' >&2; exit 1; }}; exec FAKE"
    );
    let setup = setup.script(&script);
    let command = setup.command();
    let mut host = Host::spawn(setup, command);
    let probe = discover(&mut host);
    let answer = host.answer(probe);
    assert_eq!(answer.error()["code"], -32601);
    assert!(
        answer.message().contains("API_KEY is missing"),
        "{}",
        answer.message()
    );
    host.hang_up();
    host.exit();

    std::fs::write(&key, "").expect("the key");
    let command = host.setup.command();
    let mut next = Host::spawn(Setup::new(), command);
    let probe = discover(&mut next);
    let answer = next.answer(probe);
    assert_eq!(answer.result()["supportedVersions"], json!(["2026-07-28"]));
    next.hang_up();
    next.exit();
}

/// FM-42: asked again in the same session, before or after the handshake, the server is spared.
#[test]
fn fm_42_server_is_not_asked_again() {
    let mut host = Setup::new()
        .knobs(&["--exit-on-discover", "--legacy"])
        .start();
    for _ in 0..2 {
        let probe = discover(&mut host);
        assert_eq!(host.answer(probe).error()["code"], -32601);
    }
    host.initialize();
    let probe = discover(&mut host);
    assert_eq!(host.answer(probe).error()["code"], -32601);
    assert_eq!(host.ping(), host.server(2));
    assert_eq!(host.tap().pids().len(), 2);
}

/// FM-43: a server that leaves the probe unanswered is legacy after the bound; its answer, when
/// it comes at last, disturbs nobody.
#[test]
fn fm_43_server_that_ignores_the_probe() {
    let setup = Setup::new()
        .flags(&["--discover-timeout", "500ms"])
        .knobs(&["--late-discover"]);
    let mut host = setup.start();
    let probe = discover(&mut host);
    assert_eq!(host.answer(probe).error()["code"], -32601);
    host.initialize();
    // The fake answers the probe with its first call.
    host.ping();
    host.event("the late answer", |e| e["event"] == "dropped");
    host.ping();
    assert_eq!(host.answers(probe), 1);
    assert_eq!(host.tap().pids().len(), 1);
}

/// FM-43: a server that answers the probe, one way or the other, answers for itself.
#[test]
fn fm_43_answered_probe_passes() {
    let mut host = Setup::new().start();
    let probe = discover(&mut host);
    assert_eq!(
        host.answer(probe).result()["supportedVersions"],
        json!(["2026-07-28"])
    );
    let mut host = Setup::new().knobs(&["--legacy"]).start();
    let probe = discover(&mut host);
    let answer = host.answer(probe);
    assert!(
        answer.message().contains("Method not found"),
        "{}",
        answer.message()
    );
    assert_eq!(answer.kind(), None, "the server's own words");
    host.initialize();
    host.ping();
}

/// FM-41, modern: an open `subscriptions/listen` is re-issued to the new server under its own id;
/// its second acknowledgement is swallowed; what may have been missed is announced on the
/// subscription; and later notifications arrive on it.
#[test]
fn fm_41_modern_subscription_is_reissued() {
    let setup = Setup::new();
    let tools = setup.file("tools", "v1");
    let mut host = setup.knobs(&["--tools", &tools]).start();
    let probe = discover(&mut host);
    host.answer(probe).result();
    let list = host.request("tools/list", json!({ "_meta": meta() }));
    host.answer(list).result();
    let listen = host.request(
        "subscriptions/listen",
        json!({ "_meta": meta(), "notifications": { "toolsListChanged": true } }),
    );
    let acknowledged = |m: &Value| m["method"] == "notifications/subscriptions/acknowledged";
    host.wait_for("the acknowledgement", acknowledged);

    std::fs::write(&tools, "v2").expect("the tools");
    tree::kill(host.server(1), Signal::KILL);
    let changed = host.wait_for("list_changed", |m| {
        m["method"] == "notifications/tools/list_changed"
    });
    assert_eq!(changed["params"]["_meta"][SUBSCRIPTION], listen);
    let reissued = until("the listen request", || {
        let mut received = host.tap().received(2);
        received.retain(|record| record["method"] == "subscriptions/listen");
        received.pop()
    });
    assert_eq!(reissued["id"], listen);
    assert_eq!(
        reissued["params"]["notifications"],
        json!({ "toolsListChanged": true })
    );
    assert!(
        host.tap().method("initialize").is_empty(),
        "a modern server has no handshake"
    );

    let notify = call(&mut host, "notify_listeners", json!({}));
    host.answer(notify).result();
    let notified = host.notified("notifications/tools/list_changed");
    assert_eq!(
        notified.len(),
        2,
        "one synthesised, one from the server: {notified:?}"
    );
    let acks = host.received().iter().filter(|m| acknowledged(m)).count();
    assert_eq!(acks, 1, "the second acknowledgement was swallowed");
    assert_eq!(host.answers(listen), 0, "the subscription is still open");
}

/// A cancelled subscription is not re-issued.
#[test]
fn cancelled_modern_subscription_is_forgotten() {
    let mut host = Setup::new().start();
    let listen = host.request(
        "subscriptions/listen",
        json!({ "_meta": meta(), "notifications": { "toolsListChanged": true } }),
    );
    host.wait_for("the acknowledgement", |m| {
        m["method"] == "notifications/subscriptions/acknowledged"
    });
    host.cancel(listen);
    let memory = call(&mut host, "memory", json!({}));
    host.answer(memory).result();
    tree::kill(host.server(1), Signal::KILL);
    host.event("the loss", |e| e["event"] == "lost");
    let memory = call(&mut host, "memory", json!({}));
    let memory = host.answer(memory);
    assert_eq!(memory.result()["structuredContent"]["listeners"], json!([]));
}

/// FM-02, FM-05 and FM-08 hold for a modern host as well: the call in flight fails with its
/// cause, the next one works, and what is safe is repeated; no handshake is invented.
#[test]
fn modern_host_survives_a_crash() {
    let setup = Setup::new();
    let effects = setup.path("effects");
    let mut host = setup.start();
    let list = host.request("tools/list", json!({ "_meta": meta() }));
    host.answer(list).result();
    let crash = call(&mut host, "crash", json!({ "signal": 9 }));
    assert_eq!(
        host.answer(crash).refused("connection_lost")["cause"]["signal"],
        9
    );
    let ping = call(&mut host, "ping", json!({}));
    assert_eq!(host.answer(ping).result()["resultType"], "complete");
    let idem = call(
        &mut host,
        "append_idem",
        json!({ "file": effects, "die_until": 1 }),
    );
    assert_eq!(host.answer(idem).text(), "2");
    assert!(host.tap().method("initialize").is_empty());
    assert!(
        host.tap().method("ping").is_empty(),
        "there is no ping in this era"
    );
}

/// After a restart the server negotiates another protocol version than the host holds. That is a
/// failure with a sentence, not silence, and not a session in the wrong language.
#[test]
fn changed_protocol_version_is_a_failure_with_a_sentence() {
    let setup = Setup::new().knobs(&["--version-after-restart", "2025-03-26"]);
    let mut host = Host::ready(setup);
    tree::kill(host.server(1), Signal::KILL);
    let failed = host.event("the failure", |e| {
        e["event"] == "state" && e["state"] == "failed"
    });
    assert_eq!(failed["cause"]["kind"], "version_changed");
    assert_eq!(failed["cause"]["held"], "2025-11-25");
    assert_eq!(failed["cause"]["offered"], "2025-03-26");
    let answer = host.ask("ping", json!({}));
    answer.refused("unavailable");
    for version in ["2025-11-25", "2025-03-26"] {
        assert!(answer.message().contains(version), "{}", answer.message());
    }
}

/// The error says when a call tries the server again, and a call that comes then does.
#[test]
fn fm_70_failed_server_is_tried_again_when_the_error_says() {
    let setup = Setup::new().knobs(&["--version-after-restart", "2025-03-26"]);
    let mut host = Host::ready(setup);
    tree::kill(host.server(1), Signal::KILL);
    host.event("the failure", |e| {
        e["event"] == "state" && e["state"] == "failed"
    });
    for _ in 0..3 {
        let tried = host.tap().pids().len();
        let answer = host.ask("ping", json!({}));
        let about = answer.refused("unavailable");
        let wait = about["retry_after_ms"].as_u64().expect("a time");
        std::thread::sleep(std::time::Duration::from_millis(wait));
        host.ask("ping", json!({})).refused("unavailable");
        assert!(host.tap().pids().len() > tried, "{}", answer.message());
    }
}
