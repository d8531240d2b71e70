//! The status page as a program sees it, and what may be done from it.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::rig::{tree, until};
use crate::wire::{self, Reply};

/// How the only server stands.
fn server(gateway: &Gateway) -> Value {
    let reply = gateway.get("/status.json", &[]);
    assert_eq!(reply.status, 200);
    reply.json()["servers"][0].clone()
}

/// Asks for an action as the page does, with these headers beside.
fn act(gateway: &Gateway, action: &str, headers: &[(&str, &str)]) -> Reply {
    let path = format!("/servers/server/{action}");
    let mut all = vec![("Outlive-Action", action)];
    all.extend(headers);
    wire::send_to(gateway.address, &path, "POST", &all, "")
}

/// The process id of the newest of so many servers, once it has started.
fn newest(gateway: &Gateway, count: usize) -> u32 {
    until("the server starts", || {
        let pids = gateway.setup.tap().pids();
        (pids.len() == count).then(|| pids[count - 1])
    })
}

fn is_running(pid: u32) -> bool {
    tree::stat(pid).is_some()
}

#[test]
fn programs_read_how_a_server_stands() {
    let gateway = Gateway::new(&[]);
    let idle = server(&gateway);
    assert_eq!(
        (&idle["name"], &idle["state"], &idle["tools"]),
        (&json!("server"), &json!("idle"), &Value::Null)
    );
    assert_eq!(
        (&idle["path"], &idle["ready"]),
        (&json!("/mcp"), &json!(true))
    );

    let session = gateway.session();
    for id in 1..=3 {
        gateway
            .call(&session, id, "sleep", json!({"ms": 20}))
            .answer();
    }
    let lists = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/list"});
    gateway
        .post(&[("Mcp-Session-Id", &session)], &lists)
        .answer();
    let running = server(&gateway);
    assert_eq!(
        (
            &running["state"],
            &running["generation"],
            &running["in_flight"]
        ),
        (&json!("running"), &json!(1), &json!(0))
    );
    let calls = &running["calls"];
    // The handshake is one of them.
    assert_eq!(
        (&calls["total"]["ended"], &calls["total"]["errors"]),
        (&json!(5), &json!(0))
    );
    let p99 = calls["total"]["p99_ms"].as_f64().expect("a number");
    assert!(p99 > 15.0, "{p99}");
    assert_eq!(calls["slots"].as_array().map(Vec::len), Some(60));
    let tools = running["tools"]["names"].as_array().expect("names");
    assert!(tools.contains(&json!("echo")), "{tools:?}");
    assert!(
        running["software"]
            .as_str()
            .is_some_and(|it| it.contains("fake")),
        "{running}"
    );

    let crash = json!({"say": "out of paper", "code": 7});
    gateway.call(&session, 5, "crash", crash).answer();
    let back = until("it is back", || {
        let now = server(&gateway);
        (now["state"] == "running" && now["generation"] == 2).then_some(now)
    });
    assert_eq!(back["restarts"]["total"], 1);
    let lately = back["restarts"]["slots"].as_array().expect("slots");
    let sum: u64 = lately.iter().filter_map(Value::as_u64).sum();
    assert_eq!((lately.len(), sum), (60, 1));
    let loss = &back["losses"][0];
    assert_eq!(loss["sentence"], "The server exited with code 7.");
    assert_eq!(loss["cause"]["stderr_tail"], json!(["out of paper"]));
    assert_eq!(back["calls"]["total"]["errors"], 1);
    assert_eq!(back["instances"][0]["restarts"], 1);
}

#[test]
fn what_is_in_flight_is_shown() {
    let gateway = Gateway::new(&[]);
    let session = gateway.session();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| gateway.call(&session, 1, "sleep", json!({"ms": 600_000})));
        until("it is in flight", || {
            (server(&gateway)["in_flight"] == 1).then_some(())
        });
        let page = gateway.get("/", &[]).text();
        assert!(page.contains("1 in flight"), "{page}");
        gateway.signal(Signal::TERM);
        gateway.signal(Signal::INT);
        call.join().expect("an answer");
    });
}

#[test]
fn a_restart_puts_another_process_under_the_session() {
    let gateway = Gateway::new(&[]);
    let session = gateway.session();
    let first = newest(&gateway, 1);
    let done = act(&gateway, "restart", &[]);
    assert_eq!(done.status, 200);
    let done = done.json();
    assert_eq!(
        (&done["action"], &done["instances"]),
        (&json!("restart"), &json!(1))
    );
    assert_ne!(newest(&gateway, 2), first);
    let answer = gateway
        .call(&session, 1, "echo", json!({"text": "hi"}))
        .answer();
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    until("the old one ends", || (!is_running(first)).then_some(()));
    let now = server(&gateway);
    assert_eq!(
        now["losses"][0]["sentence"],
        "The server was restarted on request."
    );
}

#[test]
fn a_server_that_was_stopped_starts_again_with_the_next_call() {
    let gateway = Gateway::new(&[]);
    let modern = wire::modern_call(1, "echo", json!({"text": "hi"}));
    let headers = wire::modern_headers(&modern);
    let headers = wire::as_strs(&headers);
    let pooled = |count| {
        let answer = gateway.post(&headers, &modern).answer();
        assert_eq!(answer["result"]["content"][0]["text"], "hi");
        newest(&gateway, count)
    };
    let first = pooled(1);
    let session = gateway.session();
    let second = newest(&gateway, 2);
    let done = act(&gateway, "stop", &[]).json();
    assert_eq!(
        (&done["action"], &done["instances"]),
        (&json!("stop"), &json!(2))
    );
    until("both end", || {
        (!is_running(first) && !is_running(second)).then_some(())
    });
    until("it is idle", || {
        (server(&gateway)["state"] == "idle").then_some(())
    });
    let sentence = act(&gateway, "restart", &[]).json()["sentence"].clone();
    assert_eq!(sentence, "It was not running. The next call starts it.");
    // It was told to end, so this was no loss.
    assert_eq!(server(&gateway)["restarts"]["total"], 0);
    pooled(3);
    // A client with a session is told to begin anew.
    assert_eq!(gateway.call(&session, 1, "ping", json!({})).status, 404);
    let again = gateway.session();
    assert_eq!(gateway.call(&again, 1, "ping", json!({})).status, 200);
}

#[test]
fn fm_72_a_forged_request_does_nothing() {
    let gateway = Gateway::new(&["--allow-origin", "https://app.example.com"]);
    let session = gateway.session();
    let first = newest(&gateway, 1);
    let host = gateway.address.to_string();
    let (host, own) = (("Host", &*host), format!("http://{host}"));
    let path = "/servers/server/stop";
    let forged = |headers: &[(&str, &str)]| {
        let reply = wire::send_to(gateway.address, path, "POST", headers, "");
        assert_eq!(reply.status, 403, "{headers:?}");
        let sentence = reply.json()["error"]["message"].to_string();
        assert!(!sentence.is_empty());
    };
    let meant = ("Outlive-Action", "stop");
    // As a form of another page sends it, and as a script does that could ask before.
    forged(&[("Origin", "http://elsewhere.example.com")]);
    forged(&[("Origin", "https://app.example.com"), meant]);
    forged(&[("Origin", "http://localhost:5173"), meant]);
    forged(&[("Origin", "null"), meant]);
    forged(&[("Sec-Fetch-Site", "cross-site"), meant]);
    // Not meant, or not this.
    forged(&[host, ("Origin", &own)]);
    forged(&[host, ("Origin", &own), ("Outlive-Action", "restart")]);
    // A name that was rebound to us.
    forged(&[("Host", "evil.example.com"), meant]);
    forged(&[("Host", "192.168.1.2:8620"), meant]);
    assert_eq!(gateway.get(path, &[]).status, 405);
    assert!(is_running(first));
    assert_eq!(gateway.call(&session, 1, "ping", json!({})).status, 200);
    let meant = act(&gateway, "stop", &[host, ("Origin", &own)]);
    assert_eq!(meant.status, 200);
}

#[test]
fn a_name_that_is_not_there_is_told_which_are() {
    let gateway = Gateway::new(&[]);
    let headers = [("Outlive-Action", "restart")];
    let path = "/servers/server%20two/restart";
    let reply = wire::send_to(gateway.address, path, "POST", &headers, "");
    assert_eq!(reply.status, 404);
    assert_eq!(
        reply.json()["error"]["message"],
        "There is no server \"server two\"; nothing was done. There is: server."
    );
}

#[test]
fn a_stranger_sees_nothing_and_does_nothing() {
    let gateway = Gateway::new(&["--token", "open sesame"]);
    for path in ["/", "/status.json", "/page.js", "/page.css"] {
        let reply = gateway.get(path, &[]);
        assert_eq!(reply.status, 401, "{path}");
        let text = reply.text();
        assert!(!text.contains("fake"), "{text}");
    }
    let wrong = ("Authorization", "Bearer open barley");
    for headers in [&[][..], &[wrong]] {
        assert_eq!(act(&gateway, "restart", headers).status, 401);
    }
    for shown in ["Bearer open sesame", "Basic bWU6b3BlbiBzZXNhbWU="] {
        let shown = ("Authorization", shown);
        assert_eq!(act(&gateway, "restart", &[shown]).status, 200);
        assert_eq!(gateway.get("/status.json", &[shown]).status, 200);
        let elsewhere = ("Origin", "http://localhost:1");
        assert_eq!(act(&gateway, "restart", &[shown, elsewhere]).status, 403);
    }
}

#[test]
fn nobody_acts_without_a_token_where_anyone_may_come() {
    let gateway = Gateway::new(&["--allow-anyone"]);
    assert_eq!(act(&gateway, "stop", &[]).status, 403);
    let page = gateway.get("/", &[]).text();
    assert!(!page.contains("data-action"), "{page}");
}

#[test]
fn the_page_loads_nothing_from_elsewhere_and_may_not() {
    let gateway = Gateway::new(&[]);
    let page = gateway.get("/", &[]);
    let policy = page
        .header("content-security-policy")
        .expect("a policy")
        .to_owned();
    for words in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.contains(words), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let page = page.text();
    assert!(page.contains("data-action=restart"), "{page}");
    let namespace = "http://www.w3.org/2000/svg";
    assert!(!page.replace(namespace, "").contains("://"), "{page}");
    assert!(
        !page.contains("style=") && !page.contains("onclick"),
        "{page}"
    );
    for (path, kind) in [("/page.css", "text/css"), ("/page.js", "text/javascript")] {
        let asset = gateway.get(path, &[]);
        let found = asset.header("content-type").expect("a type").to_owned();
        assert!(found.starts_with(kind), "{found}");
        let text = asset.text();
        assert!(!text.contains("://") && !text.contains("@import"), "{path}");
    }
}
