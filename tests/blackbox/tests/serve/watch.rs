//! What is told to those who watch: `/health`, `/ready`, `/metrics` and the page for people.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::rig::{Setup, until};

/// The status of `/ready` and what it says.
fn ready(gateway: &Gateway, headers: &[(&str, &str)]) -> (u16, Value) {
    let reply = gateway.get("/ready", headers);
    (reply.status, reply.json())
}

/// A server that dies at its start for as long as there is a file.
fn breakable(flags: &[&str]) -> (Gateway, String) {
    let setup = Setup::new().flags(flags);
    let fault = setup.path("fault");
    let knobs = ["--only-while", &fault, "--exit-at-start", "3"];
    let gateway = Gateway::with(setup.knobs(&knobs));
    (gateway, fault)
}

/// FM-14: nobody has to call to learn that there is nothing to start.
#[test]
fn fm_14_a_program_that_is_not_there_is_told_at_once() {
    let setup = Setup::new();
    let program = setup.path("server");
    let gateway = Gateway::with(setup.server(&[&program, "--flag"]));
    let log = until("it is in the log", || {
        let log = std::fs::read_to_string(gateway.setup.path("log.jsonl")).ok()?;
        let mut events = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        events.find(|event: &Value| event["event"] == "unstartable")
    });
    assert_eq!(log["program"], program);
    assert_eq!(log["error"], "there is no such file");
    let page = gateway.get("/", &[]).text();
    assert!(
        page.contains("cannot be started: there is no such file"),
        "{page}"
    );
    assert!(page.contains("Not ready"), "{page}");
    let (status, told) = ready(&gateway, &[]);
    assert_eq!(
        (status, &told["cause"]["kind"]),
        (503, &json!("spawn_failed"))
    );

    // It is looked for anew whenever it is asked for.
    std::os::unix::fs::symlink(&gateway.setup.fake()[0], &program).expect("a link");
    assert_eq!(ready(&gateway, &[]).0, 200);
    let page = gateway.get("/", &[]).text();
    assert!(!page.contains("cannot be started"), "{page}");
}

#[test]
fn everything_told_is_true_through_a_crash() {
    let (gateway, fault) = breakable(&["--backoff-cap", "300ms"]);
    // Nobody has needed a server yet, and one would be started.
    assert_eq!(
        ready(&gateway, &[]),
        (200, json!({"ready": true, "upstreams": []}))
    );
    let session = gateway.session();
    let page = gateway.get("/", &[]).text();
    assert!(
        page.contains(" 1 session, 0 streams; 0 requests in flight"),
        "{page}"
    );
    let (status, told) = ready(&gateway, &[]);
    assert_eq!(
        (status, &told["upstreams"][0]["state"]),
        (200, &json!("ready"))
    );
    assert_eq!(gateway.sum("outlive_upstreams", "ready"), 1.0);

    std::fs::write(&fault, "").expect("a file");
    let answer = gateway
        .call(&session, 1, "crash", json!({"code": 7}))
        .answer();
    assert_eq!(
        answer["error"]["data"]["outlive"]["kind"],
        "connection_lost"
    );
    let (status, told) = ready(&gateway, &[]);
    assert_eq!((status, &told["ready"]), (503, &json!(false)));
    // A process that has closed its output may take a moment to end, and until then nobody knows how.
    let told = until("its exit is told", || {
        let (status, told) = ready(&gateway, &[]);
        assert_eq!(status, 503, "{told}");
        (told["upstreams"][0]["cause"]["kind"] == "exited").then_some(told)
    });
    assert!(told["upstreams"][0]["seconds"].is_number(), "{told}");
    assert_eq!(gateway.metric("outlive_ready")[0].1, 0.0);
    assert_eq!(gateway.get("/health", &[]).status, 200);

    std::thread::scope(|scope| {
        let held = scope.spawn(|| {
            gateway
                .call(&session, 2, "echo", json!({"text": "hi"}))
                .answer()
        });
        until("the call is held", || {
            (gateway.metric("outlive_requests_held")[0].1 == 1.0).then_some(())
        });
        std::fs::remove_file(&fault).expect("removed");
        let answer = held.join().expect("an answer");
        assert_eq!(answer["result"]["content"][0]["text"], "hi");
    });
    assert_eq!(ready(&gateway, &[]).0, 200);
    assert_eq!(gateway.sum("outlive_upstreams", "ready"), 1.0);
    assert_eq!(gateway.metric("outlive_requests_held")[0].1, 0.0);
    assert!(gateway.sum("outlive_restarts_total", "exited") >= 2.0);
    let calls = |result: &str| {
        let labels = format!("method=\"tools/call\",result=\"{result}\"");
        gateway.sum("outlive_requests_total", &labels)
    };
    assert_eq!((calls("connection_lost"), calls("ok")), (1.0, 1.0));
    let answered = gateway.sum("outlive_request_duration_seconds_count", "tools/call");
    assert_eq!(answered, 1.0);
    assert!(gateway.sum("outlive_message_bytes_total", "to_server") > 0.0);
    assert!(gateway.sum("outlive_message_bytes_total", "to_host") > 0.0);

    // A new server at our own wish is told as what it is.
    gateway.signal(Signal::HUP);
    until("the restart is counted", || {
        (gateway.sum("outlive_restarts_total", "requested") == 1.0).then_some(())
    });
    // What was counted stays when the session goes; what is there goes with it.
    assert_eq!(gateway.metric("outlive_sessions")[0].1, 1.0);
    let whose = [(r#"{principal="anyone"}"#.to_owned(), 1.0)];
    assert_eq!(gateway.metric("outlive_principal_sessions"), whose);
    let left = crate::wire::send(
        gateway.address,
        "DELETE",
        &[("Mcp-Session-Id", &session)],
        "",
    );
    assert_eq!(left.status, 200);
    until("the session is gone", || {
        let states = gateway.metric("outlive_upstreams");
        states.iter().all(|(_, count)| *count == 0.0).then_some(())
    });
    assert_eq!(gateway.metric("outlive_sessions")[0].1, 0.0);
    assert_eq!(gateway.metric("outlive_principal_sessions"), []);
    assert_eq!(calls("ok"), 1.0);
}

#[test]
fn strangers_learn_that_it_is_down_but_nothing_secret() {
    let (gateway, fault) = breakable(&["--token", "open sesame"]);
    std::fs::write(&fault, "").expect("a file");
    let token = ("Authorization", "Bearer open sesame");
    let answer = gateway.post(&[token], &crate::wire::initialize()).json();
    assert_eq!(answer["error"]["data"]["outlive"]["kind"], "unavailable");
    // It was given up with its client; the next one would fare no better.
    let told = until("it is gone", || {
        let (status, told) = ready(&gateway, &[]);
        assert_eq!(status, 503, "{told}");
        told["upstreams"].as_array()?.is_empty().then_some(told)
    });
    let cause = told["last"]["cause"].as_object().expect("a cause");
    assert_eq!(
        (&cause["kind"], &cause["exit_code"]),
        (&json!("exited"), &json!(3))
    );
    assert!(!cause.contains_key("command") && !cause.contains_key("stderr_tail"));
    let (status, told) = ready(&gateway, &[token]);
    assert_eq!(status, 503);
    assert!(told["last"]["cause"]["command"].is_string(), "{told}");
    std::fs::remove_file(&fault).expect("removed");
    let reply = gateway.post(&[token], &crate::wire::initialize());
    assert!(reply.header("mcp-session-id").is_some());
    assert_eq!(ready(&gateway, &[]).0, 200);
    for path in ["/", "/metrics", "/mcp", "/sse"] {
        assert_eq!(gateway.get(path, &[]).status, 401, "{path}");
    }
    assert_eq!(gateway.get("/metrics", &[token]).status, 200);
    // A browser shows it as a password: `me:open sesame`.
    let password = ("Authorization", "Basic bWU6b3BlbiBzZXNhbWU=");
    let page = gateway.get("/", &[password]);
    assert_eq!(page.status, 200);
    let asked = gateway.get("/", &[]);
    let how = asked.header("www-authenticate").expect("a header");
    assert!(how.starts_with("Basic"), "{how}");
    // That is for looking only: a page from elsewhere could make the browser send it.
    assert_eq!(
        gateway.post(&[password], &crate::wire::initialize()).status,
        401
    );
    // Machines that ask how we are call us by any name.
    let elsewhere = [("Origin", "http://elsewhere.example.com")];
    assert_eq!(gateway.get("/health", &elsewhere).status, 200);
    assert_eq!(gateway.get("/", &elsewhere).status, 403);
}

#[test]
fn the_page_shows_what_servers_say_as_text() {
    let gateway = Gateway::new(&[]);
    let session = gateway.session();
    let words = "<script>alert(\"it's & done\")</script>";
    let crash = json!({"say": words, "code": 1});
    let answer = gateway.call(&session, 1, "crash", crash).answer();
    assert_eq!(
        answer["error"]["data"]["outlive"]["kind"],
        "connection_lost"
    );
    let page = gateway.get("/", &[]);
    assert_eq!(page.status, 200);
    let kind = page.header("content-type").expect("a type");
    assert!(kind.starts_with("text/html"), "{kind}");
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.contains("default-src 'none'"), "{policy}");
    let page = page.text();
    assert!(
        page.contains("&lt;script&gt;alert(&quot;it&#39;s &amp; done&quot;)"),
        "{page}"
    );
    assert_eq!(page.matches("<script").count(), 1, "{page}");
    assert!(
        page.contains("<script src=page.js defer></script>"),
        "{page}"
    );
    assert!(page.contains("connection_lost"), "{page}");
    assert!(page.contains("http-equiv=refresh"), "{page}");
}

#[test]
fn numbers_are_written_as_prometheus_reads_them() {
    let gateway = Gateway::new(&[]);
    let session = gateway.session();
    for id in 1..=3 {
        gateway
            .call(&session, id, "sleep", json!({"ms": 20}))
            .answer();
    }
    let reply = gateway.get("/metrics", &[]);
    let kind = reply.header("content-type").expect("a type");
    assert!(kind.contains("version=0.0.4"), "{kind}");
    let page = reply.text();
    assert!(page.ends_with('\n'));
    let mut family = String::new();
    let mut seen = std::collections::BTreeSet::new();
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split(' ').next().expect("a name").into();
            assert!(seen.insert(family.clone()), "{family} twice");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert_eq!(name, family);
            assert!(["counter", "gauge", "histogram"].contains(&kind));
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').expect("a value");
        assert!(sample.starts_with(&family), "{line} under {family}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        if let Some((_, labels)) = sample.split_once('{') {
            let labels = labels.strip_suffix('}').expect("an end");
            for label in labels.split(',') {
                let (name, text) = label.split_once('=').expect("a label");
                assert!(name.bytes().all(|b| b.is_ascii_lowercase()), "{line}");
                assert!(text.starts_with('"') && text.ends_with('"'), "{line}");
            }
        }
    }
    let buckets = gateway.metric("outlive_request_duration_seconds_bucket");
    let calls: Vec<f64> = buckets
        .iter()
        .filter(|(labels, _)| labels.contains("tools/call"))
        .map(|(_, count)| *count)
        .collect();
    assert!(calls.is_sorted(), "{calls:?}");
    assert_eq!((calls.first(), calls.last()), (Some(&0.0), Some(&3.0)));
    let took = gateway.sum("outlive_request_duration_seconds_sum", "tools/call");
    assert!(took >= 0.06, "{took}");
}
