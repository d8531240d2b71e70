//! Tokens that are good for a view only.

use http_peer::{Reply, message};
use serde_json::{Value, json};

use crate::fleet::{Fleet, refused};
use crate::place::{Place, names};
use crate::rig::{Setup, until};

const VIEW: &str = "[views.work]\nservers = ['one']\n";

fn send(fleet: &Fleet, method: &str, path: &str, token: &str, session: &str, body: &str) -> Reply {
    let token = format!("Bearer {token}");
    let mut headers = vec![("Authorization", token.as_str())];
    if !session.is_empty() {
        headers.push(("Mcp-Session-Id", session));
    }
    http_peer::send(fleet.address, method, path, &headers, body).expect("a response")
}

/// The tools that a client with this token finds at a path, and its session.
fn tools(fleet: &Fleet, path: &str, token: &str) -> (Vec<String>, String) {
    let hello = message::initialize().to_string();
    let reply = send(fleet, "POST", path, token, "", &hello);
    let session = reply
        .header("mcp-session-id")
        .expect("a session")
        .to_owned();
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }).to_string();
    let answer: Value = send(fleet, "POST", path, token, &session, &list).answer();
    let listed = names(answer["result"]["tools"].as_array().expect("tools"));
    (listed, session)
}

#[test]
fn a_token_of_a_view_finds_that_view_and_nothing_else() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]), "two": place.fake("two", &[]) });
    let flags = place.flags(&servers);
    let config = place.write("outlive.toml", VIEW);
    let tokens = place.write("tokens", "everything\nworker view=work\n");
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(["--config", &config, "--token-file", &tokens]);
    let fleet = Fleet::start(Setup::new(), &flags);

    let (all, sees_all) = tools(&fleet, "/mcp", "everything");
    assert!(all.iter().any(|it| it.starts_with("two__")), "{all:?}");
    for path in ["/mcp", "/view/work/mcp"] {
        let (some, _) = tools(&fleet, path, "worker");
        assert!(some.contains(&"one__ping".into()), "{path}: {some:?}");
        assert!(
            some.iter().all(|it| it.starts_with("one__")),
            "{path}: {some:?}"
        );
    }
    let hello = message::initialize().to_string();
    for server in ["one", "two", "nothing"] {
        let path = format!("/{server}/mcp");
        assert_eq!(
            send(&fleet, "POST", &path, "worker", "", &hello).status,
            404,
            "{path}"
        );
    }
    // A session of somebody else is none of its own.
    let ping = json!({ "jsonrpc": "2.0", "id": 3, "method": "ping" }).to_string();
    assert_eq!(
        send(&fleet, "POST", "/mcp", "worker", &sees_all, &ping).status,
        404
    );
    for path in ["/", "/metrics", "/status.json"] {
        assert_eq!(
            send(&fleet, "GET", path, "worker", "", "").status,
            403,
            "{path}"
        );
        assert_eq!(
            send(&fleet, "GET", path, "everything", "", "").status,
            200,
            "{path}"
        );
    }
    let restart = send(&fleet, "POST", "/servers/one/restart", "worker", "", "");
    assert!(matches!(restart.status, 403 | 404), "{}", restart.status);
    let ready = send(&fleet, "GET", "/ready", "worker", "", "").text();
    assert!(!ready.contains("two"), "{ready}");
}

#[test]
fn a_token_of_a_view_that_there_is_not_is_refused_at_the_start() {
    let place = Place::new();
    let flags = place.flags(&json!({ "one": place.fake("one", &[]) }));
    let tokens = place.write("tokens", "worker view=wrok\n");
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(["--token-file", &tokens]);
    let told = refused(&Setup::new(), &flags);
    assert!(
        told.contains("the view \"wrok\", which there is not"),
        "{told}"
    );
}

#[test]
fn a_file_that_comes_to_name_an_unknown_view_changes_nothing() {
    let place = Place::new();
    let servers = json!({ "one": place.fake("one", &[]) });
    let flags = place.flags(&servers);
    let config = place.write("outlive.toml", VIEW);
    let tokens = place.write("tokens", "worker view=work\nboss\n");
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend(["--config", &config, "--token-file", &tokens]);
    let fleet = Fleet::start(Setup::new(), &flags);
    place.write("tokens", "worker view=wrok\nother\nboss\n");
    let told = |it: &Value| {
        let line = it.to_string();
        line.contains("wrok") && line.contains("what was read before stays good")
    };
    until("the log", || {
        fleet.log().iter().find(|it| told(it)).cloned()
    });
    for path in ["/", "/status.json"] {
        let page = send(&fleet, "GET", path, "boss", "", "").text();
        assert!(
            page.contains("wrok") && page.contains("stays good"),
            "{page}"
        );
    }
    assert!(!tools(&fleet, "/mcp", "worker").0.is_empty());
    let hello = message::initialize().to_string();
    let other = send(&fleet, "POST", "/mcp", "other", "", &hello);
    assert_eq!(other.status, 401);
    // The view comes, and the file of tokens is right as it is.
    let view = format!("{VIEW}[views.wrok]\nservers = ['one']\n");
    place.write("outlive.toml", &view);
    until("the other token", || {
        let reply = send(&fleet, "POST", "/mcp", "other", "", &hello);
        (reply.status == 200).then_some(())
    });
    let page = send(&fleet, "GET", "/", "boss", "", "").text();
    assert!(!page.contains("stays good"), "{page}");
    assert!(!tools(&fleet, "/view/wrok/mcp", "worker").0.is_empty());
}
