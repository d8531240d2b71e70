//! What belongs to whom: sessions to tokens, and what was opened with a token that is withdrawn.

use std::io::{ErrorKind, Read, Write};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::rig::{Setup, tree, until};
use crate::wire::{self, Reply};

/// Two clients with a token each.
fn two() -> (Gateway, String) {
    let setup = Setup::new();
    let file = setup.file("tokens", "alpha\nbeta\n");
    (Gateway::with(setup.flags(&["--token-file", &file])), file)
}

/// A client that shows a token.
struct Client<'a> {
    gateway: &'a Gateway,
    bearer: String,
    session: String,
}

impl<'a> Client<'a> {
    fn new(gateway: &'a Gateway, token: &str) -> Client<'a> {
        let bearer = format!("Bearer {token}");
        let reply = gateway.post(&[("Authorization", &bearer)], &wire::initialize());
        assert_eq!(reply.status, 200);
        let session = reply.header("mcp-session-id").expect("a session");
        let client = Client {
            gateway,
            session: session.to_owned(),
            bearer,
        };
        let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.send("POST", &told).status, 202);
        client
    }

    fn send(&self, method: &str, message: &Value) -> Reply {
        let headers = [
            ("Authorization", &*self.bearer),
            ("Mcp-Session-Id", &self.session),
        ];
        let body = match method {
            "POST" => message.to_string(),
            _ => String::new(),
        };
        wire::send(self.gateway.address, method, &headers, &body)
    }

    fn call(&self, id: u64, tool: &str, arguments: Value) -> Reply {
        self.send("POST", &wire::call(id, tool, arguments))
    }
}

#[test]
fn invariant_a_session_belongs_to_the_token_that_opened_it() {
    let (gateway, _) = two();
    let owner = Client::new(&gateway, "alpha");
    let thief = Client {
        gateway: &gateway,
        bearer: "Bearer beta".into(),
        session: owner.session.clone(),
    };
    for method in ["POST", "GET", "DELETE"] {
        let reply = thief.send(method, &wire::call(1, "echo", json!({"text": "hi"})));
        assert_eq!(reply.status, 404, "{method}");
        // The words are those for a session that never was.
        assert_eq!(reply.json()["error"]["code"], -31006, "{method}");
    }
    let answer = owner.call(2, "echo", json!({"text": "hi"})).answer();
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    assert_eq!(owner.send("DELETE", &json!({})).status, 200);
}

#[test]
fn invariant_a_stream_of_http_sse_belongs_to_its_token_too() {
    let (gateway, _) = two();
    let mut stream = gateway.get("/sse", &[("Authorization", "Bearer alpha")]);
    let address = stream.event().expect("an address").data;
    let post = |token: &str| {
        let bearer = format!("Bearer {token}");
        let body = wire::initialize().to_string();
        let headers = [("Authorization", &*bearer)];
        wire::send_to(gateway.address, &address, "POST", &headers, &body).status
    };
    assert_eq!((post("beta"), post("alpha")), (404, 202));
    assert!(stream.message()["result"]["serverInfo"].is_object());
}

/// Waits for the end of a stream; it may be cut.
fn ends(mut stream: Reply) {
    loop {
        match stream.next_message() {
            Ok(Some(_)) => {}
            Ok(None) => return,
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::WouldBlock, "it goes on");
                return;
            }
        }
    }
}

#[test]
fn invariant_what_was_opened_with_a_withdrawn_token_ends() {
    let (gateway, file) = two();
    let (gone, stays) = (
        Client::new(&gateway, "alpha"),
        Client::new(&gateway, "beta"),
    );
    let streams = [
        gone.send("GET", &json!({})),
        gone.call(1, "sleep", json!({"ms": 600_000})),
        gateway.get("/sse", &[("Authorization", "Bearer alpha")]),
        {
            let wanted = json!({"notifications": {"toolsListChanged": true}});
            let request = wire::modern(1, "subscriptions/listen", wanted);
            let headers = wire::modern_headers(&request);
            let mut headers = wire::as_strs(&headers);
            headers.push(("Authorization", "Bearer alpha"));
            let mut stream = gateway.post(&headers, &request);
            stream.message();
            stream
        },
    ];
    let mut kept = stays.send("GET", &json!({}));
    std::fs::write(&file, "beta\ngamma\n").expect("written");
    gateway.signal(Signal::HUP);
    for stream in streams {
        assert_eq!(stream.status, 200);
        ends(stream);
    }
    assert_eq!(gone.call(2, "echo", json!({"text": "hi"})).status, 401);
    // The token in the place of the old one has nothing of its.
    let next = Client {
        bearer: "Bearer gamma".into(),
        ..gone
    };
    assert_eq!(next.call(2, "echo", json!({"text": "hi"})).status, 404);
    let answer = stays.call(2, "echo", json!({"text": "hi"})).answer();
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    assert_eq!(stays.call(3, "notify", json!({})).status, 200);
    drop(stays.send("DELETE", &json!({})));
    while kept.next_message().expect("a clean end").is_some() {}
    until("their servers are gone", || {
        // Outlive, and the one of modern requests.
        (tree::marked(&gateway.setup.mark).len() <= 2).then_some(())
    });
}

#[test]
fn fm_21_a_call_whose_token_is_withdrawn_is_told_so() {
    let (gateway, file) = two();
    let gone = Client::new(&gateway, "alpha");
    let mut streams = vec![gone.call(7, "sleep", json!({"ms": 600_000}))];
    let modern = wire::modern_call(7, "sleep", json!({"ms": 600_000}));
    let headers = wire::modern_headers(&modern);
    let mut headers = wire::as_strs(&headers);
    headers.push(("Authorization", "Bearer alpha"));
    streams.push(gateway.post(&headers, &modern));
    // One whose answer has waited for a moment only, if the token is withdrawn soon enough.
    let young = std::thread::scope(|scope| {
        let young = scope.spawn(|| gone.call(9, "sleep", json!({"ms": 600_000})));
        until("it is there", || {
            (gateway.setup.tap().method("tools/call").len() == 3).then_some(())
        });
        std::fs::write(&file, "beta\n").expect("written");
        gateway.signal(Signal::HUP);
        young.join().expect("an answer")
    });
    streams.push(young);
    for (stream, id) in streams.into_iter().zip([7, 7, 9]) {
        assert_eq!(stream.status, 200);
        let said = stream.messages();
        let answer = said.last().expect("an answer");
        assert_eq!((said.len(), &answer["id"]), (1, &json!(id)), "{said:?}");
        let told = &answer["error"]["data"]["outlive"];
        assert_eq!(told["kind"], "token_withdrawn", "{answer}");
        assert_eq!(told["outcome"], "unknown", "{answer}");
    }
    assert_eq!(gone.call(8, "echo", json!({"text": "hi"})).status, 401);
    until("the servers are told", || {
        (gateway.setup.tap().method("notifications/cancelled").len() == 3).then_some(())
    });
    let good = [("Authorization", "Bearer beta")];
    let page = wire::send_to(gateway.address, "/metrics", "GET", &good, "").text();
    let counted: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("outlive_requests_total") && line.contains("tools/call"))
        .collect();
    assert_eq!(counted.len(), 1, "{counted:?}");
    assert!(
        counted[0].contains("token_withdrawn") && counted[0].ends_with(" 3"),
        "{counted:?}"
    );
}

#[test]
fn a_token_file_may_begin_with_a_byte_order_mark() {
    let setup = Setup::new();
    let file = setup.file("tokens", "\u{feff}alpha\r\nbeta\r\n");
    let gateway = Gateway::with(setup.flags(&["--token-file", &file]));
    Client::new(&gateway, "alpha");
    Client::new(&gateway, "beta");
}

#[test]
fn fm_72_of_two_hosts_or_origins_neither_counts() {
    let gateway = Gateway::new(&[]);
    for second in ["evil.example.com", "localhost"] {
        let hosts = [("Host", "localhost"), ("Host", second)];
        let reply = gateway.post(&hosts, &wire::initialize());
        assert_eq!(reply.status, 400, "{second}");
        let reply = gateway.get("/ready", &hosts);
        assert_eq!(reply.status, 400, "{second}");
    }
    let origins = [
        ("Origin", "http://localhost"),
        ("Origin", "http://evil.example.com"),
    ];
    assert_eq!(gateway.post(&origins, &wire::initialize()).status, 400);
    let tokens = [("Authorization", "Bearer a"), ("Authorization", "Bearer b")];
    assert_eq!(gateway.post(&tokens, &wire::initialize()).status, 400);
    assert_eq!(gateway.post(&[], &wire::initialize()).status, 200);
}

#[test]
fn fm_72_a_rebound_page_is_told_no_secrets() {
    let setup = Setup::new()
        .script("echo secret-words >&2; exit 3")
        .flags(&["--hold", "300ms", "--breaker-failures", "1"]);
    let gateway = Gateway::with(setup);
    let answer = gateway.post(&[], &wire::initialize()).answer();
    assert!(answer["error"].is_object(), "{answer}");
    let told = |headers: &[(&str, &str)]| {
        let headers = [headers, &[("Connection", "close")]].concat();
        let mut stream = http_peer::connect(gateway.address).expect("a connection");
        let request = http_peer::head("GET", "/ready", &headers, 0);
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        (
            response.contains("secret-words"),
            response.contains("HTTP/1.1 503"),
        )
    };
    until("it is not ready", || {
        told(&[("Host", "localhost")]).1.then_some(())
    });
    assert_eq!(told(&[("Host", "localhost")]), (true, true));
    // Whoever asks under another name learns whether it is ready, as load balancers have to.
    assert_eq!(told(&[("Host", "evil.example.com")]), (false, true));
    let page = [("Host", "localhost"), ("Origin", "http://evil.example.com")];
    assert_eq!(told(&page), (false, true));
}

#[test]
fn invariant_a_call_that_a_delete_ends_may_have_run_and_says_so() {
    let gateway = Gateway::new(&[]);
    for _ in 0..5 {
        let session = gateway.session();
        let reply = std::thread::scope(|scope| {
            let call = scope.spawn(|| gateway.call(&session, 7, "sleep", json!({"ms": 600_000})));
            until("it is in flight", || {
                (gateway.metric("outlive_requests_in_flight")[0].1 == 1.0).then_some(())
            });
            let leaving = [("Mcp-Session-Id", &*session)];
            let left = wire::send(gateway.address, "DELETE", &leaving, "");
            assert_eq!(left.status, 200);
            call.join().expect("a reply")
        });
        assert_eq!((reply.status, reply.header("retry-after")), (200, None));
        let answer = reply.answer();
        assert_eq!(answer["id"], 7, "{answer}");
        let told = &answer["error"]["data"]["outlive"];
        assert_eq!(told["kind"], "shutting_down", "{answer}");
        assert_eq!(told["outcome"], "unknown", "{answer}");
    }
}
