//! Servers beside each other: none costs another.

use std::net::{Ipv4Addr, TcpListener};

use serde_json::json;

use crate::fleet::{Fleet, fake, hasty};
use crate::rig::{Setup, until};

#[test]
fn a_server_that_cannot_start_takes_no_other_down_and_says_why() {
    let fleet = Fleet::of(json!({
        "good": fake(),
        "asks": hasty(json!({ "command": "x", "args": ["${input:key}"] })),
        "missing": hasty(json!({ "command": "no-such-program-anywhere" })),
        "broken": hasty(json!({ "args": ["x"] })),
        "unset": hasty(json!({ "url": "https://example.com/${NO_SUCH_VARIABLE}" })),
    }));
    for (server, words) in [
        (
            "asks",
            "${input:key} is a question that only the editor can ask",
        ),
        ("missing", "there is no such program"),
        ("broken", "mcp.json:1:"),
        ("unset", "NO_SUCH_VARIABLE is not set"),
    ] {
        let answer = fleet.initialize(server);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        let subject = format!("The server \"{server}\" could not be started: ");
        assert!(
            message.starts_with(&subject) && message.contains(words),
            "{answer}"
        );
    }
    let good = fleet.initialize("good");
    assert!(good["result"].is_object(), "{good}");
    let ready = fleet.get("/ready");
    assert_eq!(ready.status, 200);
    let ready = ready.json();
    for target in ready["targets"].as_array().expect("targets") {
        assert_eq!(target["ready"], target["name"] == "good", "{ready}");
    }
    assert_eq!(ready["targets"].as_array().map(Vec::len), Some(5));
    let metrics = fleet.get("/metrics").text();
    for sample in ["{target=\"good\"} 1", "{target=\"asks\"} 0"] {
        let sample = format!("outlive_target_ready{sample}");
        assert!(metrics.contains(&sample), "{metrics}");
    }
}

#[test]
fn the_error_of_a_server_that_dies_names_it() {
    let fleet = Fleet::of(json!({ "one": fake(), "two": fake() }));
    let (one, two) = (fleet.session("one"), fleet.session("two"));
    let answer = fleet.call("one", &one, "crash", json!({}));
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("The server \"one\" "), "{answer}");
    let cause = &answer["error"]["data"]["outlive"]["cause"];
    assert_eq!(cause["server"], "one", "{answer}");
    let answer = fleet.call("two", &two, "echo", json!({ "text": "here" }));
    assert!(answer["result"].is_object(), "{answer}");
    let lost = fleet.event("lost");
    assert_eq!(lost["server_name"], "one", "{lost}");
}

#[test]
fn what_is_off_is_absent_and_what_means_nothing_is_named_once() {
    let fleet = Fleet::of(json!({
        "on": { "command": env!("CARGO_BIN_EXE_fake"), "alwaysAllow": ["x"] },
        "too": { "command": env!("CARGO_BIN_EXE_fake"), "alwaysAllow": [], "enabled": true },
        "off": { "command": "x", "disabled": true },
        "not on": { "command": "x", "enabled": false },
    }));
    assert_eq!(fleet.names(), ["on", "too"]);
    assert_eq!(fleet.post("off", &[], &json!({})).status, 404);
    let log = fleet.log();
    let unknown = log.iter().filter(|it| it["event"] == "unknown_key");
    let unknown: Vec<_> = unknown.map(|it| it["key"].clone()).collect();
    assert_eq!(unknown, ["alwaysAllow"]);
    assert_eq!(
        fleet.event("servers_off")["servers"],
        json!(["not on", "off"])
    );
}

#[test]
fn a_server_has_its_variables_and_its_directory_and_its_secrets_are_shown_to_nobody() {
    let setup = Setup::new();
    std::fs::create_dir(setup.path("there")).expect("a directory");
    let fake = env!("CARGO_BIN_EXE_fake");
    let script =
        format!("printf %s \"$PWD $API_KEY\" > seen; echo \"key $API_KEY\" >&2; exec '{fake}'");
    let file = json!({ "mcpServers": { "it": {
        "command": "sh",
        "args": ["-c", script],
        "cwd": setup.path("there"),
        "env": { "API_KEY": "hunter2hunter2" },
    }}});
    setup.file("mcp.json", &file.to_string());
    let stderr = setup.path("stderr");
    let fleet = Fleet::start(setup, &["--servers", "mcp.json", "--stderr", &stderr]);
    let session = fleet.session("it");
    let seen = std::fs::read_to_string(fleet.setup.path("there/seen")).expect("it has run");
    assert!(seen.ends_with("/there hunter2hunter2"), "{seen}");
    let answer = fleet.call("it", &session, "crash", json!({}));
    assert!(answer["error"].is_object(), "{answer}");
    fleet.event("lost");
    let status = fleet.setup.outlive_says(&["status", "--json"]);
    let status = String::from_utf8(status.stdout).expect("text");
    assert!(status.contains("\"name\":\"it\""), "{status}");
    let stderr = until("what the server wrote", || {
        let text = std::fs::read_to_string(&stderr).unwrap_or_default();
        text.contains("[it] key ").then_some(text)
    });
    let log = json!(fleet.log()).to_string();
    for text in [
        answer.to_string(),
        status,
        stderr,
        log,
        fleet.get("/").text(),
    ] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn an_address_that_leads_back_to_the_gateway_is_refused_for_that_server_alone() {
    // An address of this machine that no other test listens at.
    let pid = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, 77, pid[2], pid[3]);
    let port = TcpListener::bind((host, 0)).and_then(|it| it.local_addr());
    let listen = port.expect("a port").to_string();
    let setup = Setup::new();
    let file = json!({ "mcpServers": {
        "good": fake(),
        "self": hasty(json!({ "url": format!("http://{listen}/good/mcp") })),
        "again": hasty(json!({ "command": Setup::outlive(), "args": ["run", "--servers", "mcp.json"] })),
    }});
    setup.file("mcp.json", &file.to_string());
    let setup = setup.env("OUTLIVE_LISTEN", &listen);
    let fleet = Fleet::start(setup, &["--servers", "mcp.json"]);
    for server in ["self", "again"] {
        let answer = fleet.initialize(server);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("(cyclic)"), "{answer}");
    }
    let good = fleet.initialize("good");
    assert!(good["result"].is_object(), "{good}");
}

#[test]
fn a_server_that_its_client_does_not_use_is_given_up_for_another_client() {
    let setup = Setup::new();
    let one = json!({ "command": env!("CARGO_BIN_EXE_fake") });
    setup.file(
        "mcp.json",
        &json!({ "mcpServers": { "one": one } }).to_string(),
    );
    let flags = [
        "--servers",
        "mcp.json",
        "--list-wait",
        "45s",
        "--max-servers",
        "1",
    ];
    let fleet = Fleet::start(setup, &flags);
    let (first, second) = (fleet.all(), fleet.all());
    let pid = |session: &str| {
        let answer = fleet.call_all(session, "one__ping", json!({}));
        answer["result"]["structuredContent"]["pid"].as_u64()
    };
    fleet.tools(&first);
    let before = until("the first", || pid(&first));
    // There may be one server, and the first client has it. It does nothing with it.
    let other = until("the second", || pid(&second));
    assert_ne!(other, before);
    // It gets another one when it needs it.
    assert!(until("the first again", || pid(&first)) != other);
    // One that is at work gives way to nobody.
    let strings = fleet.setup.path("strings");
    std::thread::scope(|scope| {
        let call = || fleet.call_all(&first, "one__puppet", json!({ "strings": strings }));
        let busy = scope.spawn(call);
        let refused = until("a refusal", || {
            let answer = fleet.call_all(&second, "one__ping", json!({}));
            answer["error"]["message"].as_str().map(str::to_owned)
        });
        assert!(refused.contains("as many as there may be"), "{refused}");
        fleet.setup.file("strings", "answer");
        let answer = busy.join().expect("an answer");
        assert!(answer["result"].is_object(), "{answer}");
    });
}
