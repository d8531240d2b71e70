//! Refusals that concern one request only, or only sound like the end of a session. Beside each a call is running; the tool
//! counts how often it was executed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::{Host, Setup};
use crate::web::{Reply, Request, Web, message, response, result};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// A tool, `slow`, that runs until it is told to finish.
#[derive(Clone, Default)]
struct Slow {
    runs: Arc<AtomicUsize>,
    finish: Arc<AtomicBool>,
}

impl Slow {
    fn reply(&self, request: &Request) -> Option<Reply> {
        if request.tool() != "slow" {
            return None;
        }
        self.runs.fetch_add(1, Ordering::SeqCst);
        let since = Instant::now();
        while !self.finish.load(Ordering::SeqCst) && since.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(message(&result(request, "slow and done")))
    }

    /// Calls it, and waits until it runs.
    fn call(&self, host: &mut Host) -> i64 {
        let before = self.runs.load(Ordering::SeqCst);
        let id = host.call("slow", json!({}));
        self.wait_for(before + 1);
        id
    }

    fn wait_for(&self, runs: usize) {
        crate::rig::until("the tool runs", || {
            (self.runs.load(Ordering::SeqCst) >= runs).then_some(())
        });
    }

    /// It finishes, was executed once, and the host has its result, once.
    #[track_caller]
    fn finishes(&self, host: &mut Host, id: i64) {
        self.finish.store(true, Ordering::SeqCst);
        assert_eq!(host.answer(id).text(), "slow and done");
        assert_eq!(host.answers(id), 1);
        assert_eq!(self.runs.load(Ordering::SeqCst), 1, "executed once");
    }
}

/// A server with that tool, and what the script says.
fn start(slow: &Slow, script: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static) -> Web {
    let slow = slow.clone();
    Web::start(move |request| slow.reply(request).or_else(|| script(request)))
}

fn host(url: &str) -> Host {
    Host::ready(Setup::new().server(&[url]))
}

fn error(request: &Request, code: i64, words: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": request.body["id"], "error": {"code": code, "message": words}})
}

#[track_caller]
fn never_down(host: &Host) {
    host.logged(0, "lost", |_| true);
    let failed = |e: &Value| e["state"] == "failed" || e["state"] == "down";
    assert!(!host.events().iter().any(failed), "{:?}", host.events());
}

/// FM-04: a tool with sessions of its own has lost one of those. It was executed: its error passes, and nothing is repeated.
#[test]
fn fm_04_words_in_an_answer_prove_nothing() {
    for words in [
        "Invalid session: browser session 7 does not exist",
        "Session not found",
        "session expired",
    ] {
        let slow = Slow::default();
        let runs = Arc::new(AtomicUsize::new(0));
        let count = runs.clone();
        let web = start(&slow, move |request| {
            (request.tool() == "browse").then(|| {
                count.fetch_add(1, Ordering::SeqCst);
                message(&error(request, -32602, words))
            })
        });
        let mut host = host(&web.url());
        let beside = slow.call(&mut host);
        let answer = host.ask("browse", json!({}));
        assert_eq!(answer.error()["code"], -32602, "{words}");
        assert_eq!(answer.message(), words);
        assert_eq!(runs.load(Ordering::SeqCst), 1, "executed once");
        // The session was asked, and lives.
        web.wait_for(1, "a ping", |request| request.rpc() == "ping");
        slow.finishes(&mut host, beside);
        assert_eq!(
            host.ask("echo", json!({})).text().split(' ').next(),
            Some("echo")
        );
        assert_eq!(runs.load(Ordering::SeqCst), 1, "and not again");
        assert_eq!(web.asked("initialize").len(), 1);
        never_down(&host);
    }
}

/// FM-04: a server that says in a 200 that it has forgotten the session, and says so to a ping too, has: one handshake, and the next
/// call works. The call that was answered so is not repeated, since nothing shows that it was not executed.
#[test]
fn fm_04_a_session_that_is_denied_in_every_answer_is_opened_anew() {
    let forgotten = Arc::new(AtomicBool::new(false));
    let forget = forgotten.clone();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let web = Web::start(move |request| {
        if request.rpc() == "initialize" {
            forget.store(false, Ordering::SeqCst);
        }
        if request.rpc() == "tools/call" {
            count.fetch_add(1, Ordering::SeqCst);
        }
        let denied = forget.load(Ordering::SeqCst) && request.body["id"] != Value::Null;
        denied.then(|| message(&error(request, -32600, "Session not found")))
    });
    let mut host = host(&web.url());
    forgotten.store(true, Ordering::SeqCst);
    assert_eq!(host.ask("echo", json!({})).message(), "Session not found");
    host.ready_event(2);
    host.ask("echo", json!({})).result();
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(web.asked("initialize").len(), 2);
}

/// FM-04: early servers of rmcp say it with 401.
#[test]
fn fm_04_a_session_is_lost_in_a_401_too() {
    let calls = AtomicUsize::new(0);
    let web = Web::start(move |request| {
        let first = request.rpc() == "tools/call" && calls.fetch_add(1, Ordering::SeqCst) == 0;
        first.then(|| response(401, &[], "Unauthorized: Session not found"))
    });
    let mut host = host(&web.url());
    host.ask("echo", json!({})).result();
    assert_eq!(web.asked("initialize").len(), 2);
    assert_eq!(web.asked("tools/call").len(), 2);
}

/// Invariant 4: a host that repeats `initialize` in a session that lives is told what the server says, and nothing else happens.
#[test]
fn invariant_04_a_repeated_initialize_repeats_nothing_else() {
    for status in [400, 404, 405, 409] {
        let slow = Slow::default();
        let web = start(&slow, move |request| {
            let again = request.rpc() == "initialize" && request.header("mcp-session-id").is_some();
            again.then(|| response(status, &[], "Invalid Request: Server already initialized"))
        });
        let mut host = host(&web.url());
        let beside = slow.call(&mut host);
        let id = host.request(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
        );
        let refused = host.answer(id);
        assert_eq!(
            refused.refused("rejected")["outcome"],
            "rejected",
            "{status}"
        );
        host.ask("echo", json!({})).result();
        slow.finishes(&mut host, beside);
        host.ask("echo", json!({})).result();
        assert_eq!(web.asked("initialize").len(), 2, "{status}: the host's");
        assert_eq!(web.open_sessions(), 1, "{status}");
        never_down(&host);
    }
}

const META: &str = "io.modelcontextprotocol/protocolVersion";

/// Invariant 4: `server/discover` is sent to a login page elsewhere while a call runs. That is its own affair, whether the server has
/// answered something before or not.
#[test]
fn invariant_04_a_redirected_discover_repeats_no_call() {
    for answered_before in [false, true] {
        let other = Web::start(|_| None);
        let login = other.url();
        let slow = Slow::default();
        let away = Arc::new(AtomicBool::new(!answered_before));
        let redirects = away.clone();
        let web = start(&slow, move |request| match request.rpc() {
            "server/discover" if redirects.load(Ordering::SeqCst) => {
                Some(response(302, &[("location", &login)], ""))
            }
            "server/discover" => Some(message(
                &json!({"jsonrpc": "2.0", "id": request.body["id"], "result": {
                "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "new", "version": "1"}}}),
            )),
            "tools/call" => Some(message(&result(request, "quick"))),
            _ => None,
        });
        let mut host = Setup::new().server(&[&web.url()]).start();
        let meta = json!({META: "2026-07-28"});
        if answered_before {
            let id = host.request("server/discover", json!({"_meta": meta}));
            host.answer(id).result();
            away.store(true, Ordering::SeqCst);
        }
        let beside = host.request(
            "tools/call",
            json!({"name": "slow", "arguments": {}, "_meta": meta}),
        );
        slow.wait_for(1);
        let id = host.request("server/discover", json!({"_meta": meta}));
        let kind = if answered_before {
            "rejected"
        } else {
            "unavailable"
        };
        let refused = host.answer(id);
        refused.refused(kind);
        if !answered_before {
            assert!(
                refused.message().contains("another origin"),
                "{}",
                refused.message()
            );
        }
        slow.finishes(&mut host, beside);
        let id = host.request(
            "tools/call",
            json!({"name": "echo", "arguments": {}, "_meta": meta}),
        );
        assert_eq!(host.answer(id).text(), "quick");
        assert_eq!(other.seen().len(), 0);
        never_down(&host);
    }
}

/// What a server says that refuses one tool in every session as if it knew none.
const DENIALS: [(u16, &str); 4] = [
    (404, ""),
    (410, "session expired"),
    (400, "Bad Request: Server not initialized"),
    (
        400,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}"#,
    ),
];

/// Invariant 3: a request that every session refuses is settled by the second, and the breaker is no part of it, however often it is
/// called.
#[test]
fn invariant_03_a_request_refused_by_every_session_is_settled_by_the_second() {
    for (status, words) in DENIALS {
        let web = Web::start(move |request| {
            (request.tool() == "denied").then(|| response(status, &JSON, words))
        });
        let mut host = host(&web.url());
        for round in 1..=10 {
            let denied = host.ask("denied", json!({}));
            denied.refused("rejected");
            assert!(
                denied.message().contains(&status.to_string()),
                "{}",
                denied.message()
            );
            let sent = web
                .wait_for(0, "", |request| request.tool() == "denied")
                .len();
            assert_eq!(sent, 2 * round, "{status} {words}");
            assert!(
                web.asked("initialize").len() <= 1 + round,
                "{status} {words}"
            );
            host.ask("echo", json!({})).result();
        }
        let failed = |e: &Value| e["state"] == "failed";
        assert!(!host.events().iter().any(failed), "{:?}", host.events());
    }
}

/// Invariant 1: nobody else's call is lost for it.
#[test]
fn invariant_01_a_request_refused_by_every_session_costs_no_other_call() {
    for (status, words) in DENIALS {
        let slow = Slow::default();
        let web = start(&slow, move |request| {
            (request.tool() == "denied").then(|| response(status, &JSON, words))
        });
        let mut host = host(&web.url());
        let beside = slow.call(&mut host);
        for _ in 0..3 {
            host.ask("denied", json!({})).refused("rejected");
            host.ask("echo", json!({})).result();
        }
        slow.finishes(&mut host, beside);
        assert_eq!(web.asked("initialize").len(), 1, "{status} {words}");
        never_down(&host);
    }
}

/// The same for a notification.
#[test]
fn invariant_01_a_refused_notification_costs_no_call() {
    let slow = Slow::default();
    let web = start(&slow, |request| {
        (request.rpc() == "notifications/odd").then(|| response(404, &[], ""))
    });
    let mut host = host(&web.url());
    let beside = slow.call(&mut host);
    host.notify("notifications/odd", json!({}));
    web.wait_for(1, "a ping", |request| request.rpc() == "ping");
    host.ask("echo", json!({})).result();
    slow.finishes(&mut host, beside);
    assert_eq!(web.asked("initialize").len(), 1);
    never_down(&host);
}

/// FM-27: a tool that the credentials do not cover is that call's own affair.
#[test]
fn fm_27_a_forbidden_tool_costs_no_other_call() {
    let slow = Slow::default();
    let web = start(&slow, |request| {
        let challenge = [(
            "www-authenticate",
            "Bearer error=\"insufficient_scope\", scope=\"files:write\"",
        )];
        (request.tool() == "write").then(|| response(403, &challenge, ""))
    });
    let mut host = host(&web.url());
    // With nothing beside it, …
    let forbidden = host.ask("write", json!({}));
    assert_eq!(forbidden.refused("rejected")["outcome"], "rejected");
    assert!(
        forbidden.message().contains("403"),
        "{}",
        forbidden.message()
    );
    // … and with a call.
    let beside = slow.call(&mut host);
    for _ in 0..10 {
        host.ask("write", json!({})).refused("rejected");
    }
    host.ask("echo", json!({})).result();
    slow.finishes(&mut host, beside);
    assert_eq!(web.asked("initialize").len(), 1);
    never_down(&host);
}

/// FM-27: where everything is forbidden, the headers are read again, as after a 401.
#[test]
fn fm_27_credentials_that_are_good_for_nothing_are_read_again() {
    let setup = Setup::new();
    let file = setup.file("headers", "Authorization: Bearer one\n");
    let valid = Arc::new(std::sync::Mutex::new("Bearer one"));
    let wanted = valid.clone();
    let web = Web::start(move |request| {
        let valid = request.header("authorization") == Some(*wanted.lock().unwrap());
        (!valid).then(|| response(403, &[], ""))
    });
    let setup = setup.flags(&["--header-file", &file, "--breaker-retry", "1s"]);
    let mut host = Host::ready(setup.server(&[&web.url()]));
    *valid.lock().unwrap() = "Bearer two";
    host.ask("echo", json!({})).refused("rejected");
    host.event("the loss", |e| {
        e["event"] == "lost" && e["cause"]["kind"] == "unauthorized"
    });
    std::fs::write(&file, "Authorization: Bearer two\n").unwrap();
    host.event("ready again", |e| {
        e["state"] == "ready" && e["generation"] != 1
    });
    host.ask("echo", json!({})).result();
}

/// FM-27: a token that expires while a call runs that it let in does not cost that call.
#[test]
fn fm_27_a_token_that_expires_costs_no_call_in_flight() {
    let slow = Slow::default();
    let denied = Arc::new(AtomicBool::new(false));
    let deny = denied.clone();
    let web = start(&slow, move |_| {
        deny.load(Ordering::SeqCst).then(|| response(401, &[], ""))
    });
    let setup = Setup::new().flags(&["--breaker-retry", "1s"]);
    let mut host = Host::ready(setup.server(&[&web.url()]));
    let beside = slow.call(&mut host);
    denied.store(true, Ordering::SeqCst);
    let refused = host.ask("echo", json!({}));
    assert_eq!(
        refused.refused("unavailable")["cause"]["kind"],
        "unauthorized"
    );
    assert!(
        refused.message().contains("Give it valid credentials"),
        "{}",
        refused.message()
    );
    slow.finishes(&mut host, beside);
    // Now nothing is lost by a new attempt.
    host.event("the loss", |e| {
        e["event"] == "lost" && e["cause"]["kind"] == "unauthorized"
    });
    denied.store(false, Ordering::SeqCst);
    host.event("ready again", |e| {
        e["state"] == "ready" && e["generation"] != 1
    });
    host.ask("echo", json!({})).result();
}

/// FM-52: "see other" is said of what was done.
#[test]
fn fm_52_a_303_may_have_been_executed() {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let web = Web::start(move |request| {
        (request.tool() == "done").then(|| {
            count.fetch_add(1, Ordering::SeqCst);
            response(303, &[("location", "/result/7")], "")
        })
    });
    let mut host = host(&web.url());
    let lost = host.ask("done", json!({}));
    assert_eq!(lost.refused("connection_lost")["outcome"], "unknown");
    host.ask("echo", json!({})).result();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(web.asked("initialize").len(), 1);
}

/// FM-52: a call that is put off for long is put off alone; one that would be put off for longer than it may be held fails now.
#[test]
fn fm_52_a_long_retry_after_holds_up_nobody_else() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let web = Web::start(move |request| match request.tool() {
        "hour" => Some(response(503, &[("retry-after", "3600")], "")),
        "later" if count.fetch_add(1, Ordering::SeqCst) == 0 => {
            Some(response(503, &[("retry-after", "8")], ""))
        }
        _ => None,
    });
    let mut host = host(&web.url());
    let hour = host.ask("hour", json!({}));
    assert_eq!(hour.refused("rejected")["outcome"], "rejected");
    let later = host.call("later", json!({}));
    web.wait_for(1, "the call", |request| request.tool() == "later");
    host.ask("echo", json!({})).result();
    assert_eq!(host.answers(later), 0, "it still waits");
    host.answer(later).result();
    let tries = web.wait_for(2, "two tries", |request| request.tool() == "later");
    assert!(tries[1].at - tries[0].at >= Duration::from_secs(7));
    assert_eq!(web.asked("initialize").len(), 1);
}
