//! Refusals that concern one request only, or only sound like the end of a session. Beside each a call is running; the
//! tool counts how often it was executed.

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

/// FM-04: a tool with sessions of its own has lost one of those. It was executed: its error passes, and nothing is
/// repeated.
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

/// FM-04: a server that says in a 200 that it has forgotten the session, and says so to a ping too, has: one handshake,
/// and the next call works. The call that was answered so is not repeated, since nothing shows that it was not
/// executed.
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

/// Invariant 4: a host that repeats `initialize` in a session that lives is told what the server says, and nothing else
/// happens.
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

/// Invariant 4: `server/discover` is sent to a login page elsewhere while a call runs. That is its own affair, whether
/// the server has answered something before or not.
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

/// Invariant 3: a request that every session refuses is settled by the second, and the breaker is no part of it,
/// however often it is called.
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
    assert_eq!(refused.refused("rejected")["outcome"], "rejected");
    assert!(
        refused.message().contains("asks for other credentials"),
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

/// FM-52: a call that is put off for long is put off alone; one that would be put off for longer than it may be held
/// fails now.
#[test]
fn fm_52_a_long_retry_after_holds_up_nobody_else() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let web = Web::start(move |request| match request.tool() {
        "hour" => Some(response(503, &[("retry-after", "3600")], "")),
        "eternity" => Some(response(503, &[("retry-after", &"9".repeat(40))], "")),
        "year 9999" => {
            let date = "Fri, 31 Dec 9999 23:59:59 GMT";
            Some(response(503, &[("retry-after", date)], ""))
        }
        "later" if count.fetch_add(1, Ordering::SeqCst) == 0 => {
            Some(response(503, &[("retry-after", "8")], ""))
        }
        _ => None,
    });
    let mut host = host(&web.url());
    for tool in ["hour", "eternity", "year 9999"] {
        let refused = host.ask(tool, json!({}));
        assert_eq!(refused.refused("rejected")["outcome"], "rejected", "{tool}");
    }
    let later = host.call("later", json!({}));
    web.wait_for(1, "the call", |request| request.tool() == "later");
    host.ask("echo", json!({})).result();
    assert_eq!(host.answers(later), 0, "it still waits");
    host.answer(later).result();
    let tries = web.wait_for(2, "two tries", |request| request.tool() == "later");
    assert!(tries[1].at - tries[0].at >= Duration::from_secs(7));
    assert_eq!(web.asked("initialize").len(), 1);
}

/// A server whose tool, `tool`, counts its runs and then says this.
fn counting(
    tool: &'static str,
    says: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> (Web, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let web = Web::start(move |request| {
        (request.tool() == tool).then(|| {
            count.fetch_add(1, Ordering::SeqCst);
            says(request)
        })
    });
    (web, runs)
}

/// FM-04: a tool's own error, with the id of its call, is that call's answer, whatever status it comes with.
#[test]
fn fm_04_an_error_with_the_id_of_its_call_is_its_answer() {
    for (status, words) in [
        (404, "There is no document of that name"),
        (404, "Session not found"),
        (400, "Invalid session: browser session 7 does not exist"),
        (410, "session expired"),
    ] {
        let (web, runs) = counting("find", move |request| {
            response(status, &JSON, &error(request, -32001, words).to_string())
        });
        let mut host = host(&web.url());
        let answer = host.ask("find", json!({}));
        assert_eq!(answer.message(), words, "{status}");
        assert_eq!(answer.error()["code"], -32001);
        // The session was asked, and lives.
        web.wait_for(1, "a ping", |request| request.rpc() == "ping");
        host.ask("echo", json!({})).result();
        assert_eq!(
            runs.load(Ordering::SeqCst),
            1,
            "{status} {words}: executed once"
        );
        assert_eq!(web.asked("initialize").len(), 1);
        never_down(&host);
    }
}

/// FM-04: a server that has forgotten the session and says so with the id of each request is found out: the call is
/// answered with that, once, and the next one works. A list, which does nothing, is simply asked for again.
#[test]
fn fm_04_a_session_denied_by_id_is_opened_anew() {
    for method in ["tools/call", "tools/list"] {
        let forgotten = Arc::new(AtomicBool::new(false));
        let forget = forgotten.clone();
        let web = Web::start(move |request| {
            if request.rpc() == "initialize" {
                forget.store(false, Ordering::SeqCst);
            }
            let denied = forget.load(Ordering::SeqCst) && request.body["id"] != Value::Null;
            let says = error(request, -32001, "Session not found").to_string();
            denied.then(|| response(404, &JSON, &says))
        });
        let mut host = host(&web.url());
        forgotten.store(true, Ordering::SeqCst);
        match method {
            "tools/call" => {
                assert_eq!(host.ask("echo", json!({})).message(), "Session not found");
            }
            _ => {
                let id = host.request("tools/list", json!({}));
                host.answer(id).result();
            }
        }
        host.ready_event(2);
        host.ask("echo", json!({})).result();
        assert_eq!(web.asked("initialize").len(), 2, "{method}");
    }
}

/// FM-52: a proxy that is too busy and names no time may have passed the call on, and so may one that waited for too
/// long.
#[test]
fn fm_52_a_call_that_a_proxy_may_have_passed_on_is_not_repeated() {
    for (status, headers) in [
        (503, &[][..]),
        (503, &[("retry-after", "soon")]),
        (408, &[]),
    ] {
        for retry in ["safe", "never"] {
            let (web, runs) = counting("deploy", move |_| response(status, headers, "<html>"));
            let setup = Setup::new().flags(&["--retry", retry]);
            let mut host = Host::ready(setup.server(&[&web.url()]));
            let lost = host.ask("deploy", json!({}));
            assert_eq!(lost.refused("connection_lost")["outcome"], "unknown");
            host.ask("echo", json!({})).result();
            assert_eq!(runs.load(Ordering::SeqCst), 1, "{status} {retry}");
            never_down(&host);
        }
    }
}

/// A page where an answer should be, and one that is compressed, are told of as what they are.
#[test]
fn a_response_that_can_be_no_answer_is_named() {
    let page = ("content-type", "text/html; charset=utf-8");
    let gzip = ("content-encoding", "gzip");
    for (header, says, advice) in [
        (page, "is text/html and not JSON", "check the address"),
        (gzip, "is compressed (gzip)", "turn that off"),
    ] {
        let (web, runs) = counting("deploy", move |_| response(200, &[header], "<html>"));
        let mut host = host(&web.url());
        let lost = host.ask("deploy", json!({}));
        assert_eq!(lost.refused("connection_lost")["outcome"], "unknown");
        let words = lost.message();
        assert!(words.contains(says) && words.contains(advice), "{words}");
        host.ask("echo", json!({})).result();
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        never_down(&host);
    }
}

/// FM-52: with `--retry never` a call is not sent a second time, even if the server says when.
#[test]
fn fm_52_nothing_is_sent_twice_if_nothing_is_to_be() {
    for status in [429, 503] {
        let (web, runs) = counting("deploy", move |_| {
            response(status, &[("retry-after", "0")], "")
        });
        let setup = Setup::new().flags(&["--retry", "never"]);
        let mut host = Host::ready(setup.server(&[&web.url()]));
        let refused = host.ask("deploy", json!({}));
        assert_eq!(refused.refused("rejected")["outcome"], "rejected");
        assert_eq!(refused.refused("rejected")["retryable"], true);
        host.ask("echo", json!({})).result();
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{status}");
    }
}

/// FM-04: with `--retry never` a call that a forgotten session refused is not sent in the next one; that is opened all
/// the same.
#[test]
fn fm_04_a_call_of_a_forgotten_session_is_not_repeated_if_nothing_is_to_be() {
    let (web, runs) = counting("deploy", |_| response(404, &[], ""));
    let denies = Web::start({
        let forgotten = AtomicBool::new(false);
        move |request| {
            if request.tool() == "forget" {
                forgotten.store(true, Ordering::SeqCst);
            }
            if request.rpc() == "initialize" {
                forgotten.store(false, Ordering::SeqCst);
            }
            forgotten
                .load(Ordering::SeqCst)
                .then(|| response(404, &[], ""))
        }
    });
    let never = || Setup::new().flags(&["--retry", "never"]);
    // The tool's own: the session lives.
    let mut host = Host::ready(never().server(&[&web.url()]));
    host.ask("deploy", json!({})).refused("rejected");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    never_down(&host);
    // The session's.
    let mut host = Host::ready(never().server(&[&denies.url()]));
    host.ask("forget", json!({})).refused("session_expired");
    host.ask("echo", json!({})).result();
    assert_eq!(denies.asked("initialize").len(), 2);
    let sent = denies.wait_for(1, "the call", |request| request.tool() == "forget");
    assert_eq!(sent.len(), 1);
}

/// FM-52: a call that is redirected with 301 or 302 may have been executed, as one with 303. With 307 and 308 it was
/// not.
#[test]
fn fm_52_a_redirected_call_is_sent_again_only_if_it_was_not_executed() {
    for status in [301, 302, 307, 308] {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = runs.clone();
        let web = Web::start(move |request| {
            if request.tool() == "deploy" {
                count.fetch_add(1, Ordering::SeqCst);
                if request.path == "/mcp" {
                    return Some(response(status, &[("location", "/mcp/")], ""));
                }
            }
            None
        });
        let mut host = host(&web.url());
        let answer = host.ask("deploy", json!({}));
        match status {
            301 | 302 => {
                assert_eq!(answer.refused("connection_lost")["outcome"], "unknown");
                assert_eq!(runs.load(Ordering::SeqCst), 1, "{status}");
            }
            _ => {
                answer.result();
                assert_eq!(
                    runs.load(Ordering::SeqCst),
                    2,
                    "{status}: asked at both addresses"
                );
            }
        }
        never_down(&host);
    }
}

/// A server that has moved within its origin says so to `initialize`, and the session stays where it was led to; one
/// whose addresses lead in a circle is told of in words.
#[test]
fn a_session_that_is_led_elsewhere_stays_there() {
    for status in [301, 302, 308] {
        let web = Web::start(move |request| {
            (request.path == "/mcp").then(|| response(status, &[("location", "/mcp/")], ""))
        });
        let mut host = host(&web.url());
        host.ask("echo", json!({})).result();
        let calls = web.asked("tools/call");
        assert!(
            calls.iter().all(|request| request.path == "/mcp/"),
            "{status}"
        );
    }
    let web = Web::start(|_| Some(response(307, &[("location", "/mcp")], "")));
    let mut host = Setup::new().server(&[&web.url()]).start();
    let id = host.request("initialize", json!({}));
    let answer = host.answer(id);
    answer.refused("unavailable");
    assert!(
        answer
            .message()
            .contains("from one of its addresses to the next"),
        "{}",
        answer.message()
    );
}

/// FM-27: a tool that wants a login of its own (401) costs nobody else anything, with nothing running or with
/// something.
#[test]
fn fm_27_a_tool_that_wants_a_login_costs_no_session() {
    let slow = Slow::default();
    let web = start(&slow, |request| {
        (request.tool() == "private").then(|| response(401, &[], ""))
    });
    let mut host = host(&web.url());
    let refused = host.ask("private", json!({}));
    assert_eq!(refused.refused("rejected")["outcome"], "rejected");
    assert_eq!(refused.refused("rejected")["status"], 401);
    web.wait_for(1, "a ping", |request| request.rpc() == "ping");
    let beside = slow.call(&mut host);
    host.ask("private", json!({})).refused("rejected");
    slow.finishes(&mut host, beside);
    host.ask("echo", json!({})).result();
    assert_eq!(web.asked("initialize").len(), 1);
    never_down(&host);
}

/// Invariant 1: an answer with the id of another call is neither's, and so is an error that is none of JSON-RPC.
#[test]
fn invariant_01_an_answer_to_another_call_is_nobodys() {
    let slow = Slow::default();
    let beside = Arc::new(std::sync::Mutex::new(Value::Null));
    let other = beside.clone();
    let web = start(&slow, move |request| match request.tool() {
        "mixed" => {
            let mut answer = result(request, "not mine");
            answer["id"] = other.lock().unwrap().clone();
            Some(message(&answer))
        }
        "gateway" => Some(message(&json!({"error": "invalid_request"}))),
        "odd" => Some(message(
            &json!({"jsonrpc": "2.0", "id": request.body["id"], "error": "boom"}),
        )),
        _ => None,
    });
    let mut host = host(&web.url());
    let running = slow.call(&mut host);
    let calls = web.wait_for(1, "the call", |request| request.tool() == "slow");
    *beside.lock().unwrap() = calls[0].body["id"].clone();
    for tool in ["mixed", "gateway", "odd"] {
        let lost = host.ask(tool, json!({}));
        assert_eq!(
            lost.refused("connection_lost")["outcome"],
            "unknown",
            "{tool}"
        );
    }
    assert_eq!(host.answers(running), 0, "it still runs");
    slow.finishes(&mut host, running);
    assert_eq!(web.asked("initialize").len(), 1);
}
