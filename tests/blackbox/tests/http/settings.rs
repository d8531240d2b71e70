//! Headers, redirects, secrets.

use serde_json::json;

use crate::rig::{Host, Setup};
use crate::web::{Web, response};

/// Headers come from flags, variables and files, with variables in them; none is ever shown.
#[test]
fn headers_are_sent_and_not_shown() {
    let web = Web::start(|request| {
        (request.tool() == "echo").then(|| response(500, &[], "hunter22-token"))
    });
    let setup = Setup::new().env("RIG_VALUE", "hunter22-token").flags(&[
        "--header",
        "Authorization: Bearer ${RIG_VALUE}",
        "--header",
        "X-Two: hunter33-value",
    ]);
    let mut host = Host::ready(setup.server(&[&web.url()]));
    let lost = host.ask("echo", json!({}));
    for request in web.seen() {
        assert_eq!(
            request.header("authorization"),
            Some("Bearer hunter22-token")
        );
        assert_eq!(request.header("x-two"), Some("hunter33-value"));
    }
    let log = std::fs::read_to_string(host.setup.path("log.jsonl")).unwrap();
    let shown = format!("{log}{}{}", lost.0, host.last_stderr());
    assert!(!shown.contains("hunter"), "{shown}");
}

/// The same from a variable, one per line, and from the settings file.
#[test]
fn headers_come_from_a_variable_or_the_settings_file() {
    let web = Web::start(|_| None);
    let setup = Setup::new().env("OUTLIVE_HEADER", "X-One: first\nX-Two: second: half");
    drop(Host::ready(setup.server(&[&web.url()])));
    let variable = web.seen();
    let setup = Setup::new();
    let file = setup.file(
        "outlive.toml",
        "header = [\"X-One: first\", \"X-Two: second: half\"]\n",
    );
    let setup = setup.flags(&["--config", &file]);
    drop(Host::ready(setup.server(&[&web.url()])));
    assert!(web.seen().len() > variable.len());
    for request in web.seen() {
        assert_eq!(request.header("x-one"), Some("first"));
        assert_eq!(request.header("x-two"), Some("second: half"));
    }
}

/// What cannot be used is refused before anything starts, in a sentence without secrets.
#[test]
fn what_cannot_be_used_is_refused_at_once() {
    for (flags, url, words) in [
        (
            &["--header", "Authorization: Bearer ${RIG_MISSING}"][..],
            "http://127.0.0.1:1/",
            "RIG_MISSING",
        ),
        (
            &["--header", "hunter22"],
            "http://127.0.0.1:1/",
            "Name: value",
        ),
        (
            &["--header-file", "no-such-file"],
            "http://127.0.0.1:1/",
            "no-such-file",
        ),
        (
            &["--ca-file", "no-such-file"],
            "https://127.0.0.1:1/",
            "no-such-file",
        ),
        (&[], "http://", "no address"),
    ] {
        let mut host = Setup::new().flags(flags).server(&[url]).start();
        assert_eq!(host.exit().code(), Some(2), "{url}");
        let said = host.last_stderr();
        assert!(said.contains(words), "{said}");
        assert!(!said.contains("hunter22"), "{said}");
    }
    let mut host = Setup::new()
        .server(&["http://127.0.0.1:1/", "more"])
        .start();
    assert_eq!(host.exit().code(), Some(2));
}

/// A server that has moved within its origin is followed with everything; one that sends us to another is not.
#[test]
fn redirects_carry_credentials_to_nobody_else() {
    let web = Web::start(|request| {
        (request.path == "/mcp").then(|| response(307, &[("location", "/mcp/")], ""))
    });
    let flags = ["--header", "Authorization: Bearer hunter22"];
    let mut host = Host::ready(Setup::new().flags(&flags).server(&[&web.url()]));
    host.ask("echo", json!({})).result();
    let moved = web.seen();
    assert!(moved.iter().any(|request| request.path == "/mcp/"));
    assert!(
        moved
            .iter()
            .all(|request| request.header("authorization") == Some("Bearer hunter22"))
    );

    let other = Web::start(|_| None);
    let to = other.url();
    let web = Web::start(move |_| Some(response(307, &[("location", &to)], "")));
    let mut host = Setup::new().flags(&flags).server(&[&web.url()]).start();
    let id = host.request("initialize", json!({}));
    let answer = host.answer(id);
    answer.refused("unavailable");
    assert!(
        answer.message().contains("another origin"),
        "{}",
        answer.message()
    );
    assert!(other.seen().is_empty());
}

/// A server that sends a request elsewhere in the middle of a session is not followed either, whatever the request is.
#[test]
fn redirects_within_a_session_lead_nowhere() {
    let other = Web::start(|_| None);
    let to = other.url();
    let web = Web::start(move |request| {
        let away = request.tool() == "echo" || request.method != "POST";
        away.then(|| response(307, &[("location", &to)], ""))
    });
    let flags = ["--header", "Authorization: Bearer hunter22"];
    let mut host = Host::ready(Setup::new().flags(&flags).server(&[&web.url()]));
    let refused = host.ask("echo", json!({}));
    assert_eq!(refused.refused("rejected")["status"], 307);
    let words = refused.message();
    assert!(
        words.contains("another origin") && words.contains("use that address"),
        "{words}"
    );
    host.ask("look", json!({})).result();
    host.hang_up();
    assert_eq!(host.exit().code(), Some(0));
    assert!(web.seen().iter().any(|request| request.method == "GET"));
    assert!(web.seen().iter().any(|request| request.method == "DELETE"));
    assert!(other.seen().is_empty());
}

/// Credentials in an address are sent as such and never shown, nor are the values of its query.
#[test]
fn an_address_keeps_its_secrets() {
    let web = Web::start(|request| {
        (request.tool() == "echo").then(|| response(500, &[], "hunter22 hunter33"))
    });
    let url = format!("http://me:hunter22@{}/mcp?key=hunter33", web.address());
    let mut host = Host::ready(Setup::new().server(&[&url]));
    let lost = host.ask("echo", json!({}));
    lost.refused("connection_lost");
    for request in web.seen() {
        assert_eq!(
            request.header("authorization"),
            Some("Basic bWU6aHVudGVyMjI=")
        );
        assert_eq!(request.path, "/mcp?key=hunter33");
    }
    let log = std::fs::read_to_string(host.setup.path("log.jsonl")).unwrap();
    let shown = format!("{log}{}{}", lost.0, host.last_stderr());
    assert!(!shown.contains("hunter"), "{shown}");
}

/// A proxy is taken from the environment, but not for what is on this machine.
#[test]
fn proxies_are_taken_from_the_environment() {
    let proxy = Web::start(|_| None);
    let setup = Setup::new()
        .env("http_proxy", &format!("http://{}", proxy.address()))
        .env("no_proxy", "");
    let mut host = Host::ready(setup.server(&["http://server.invalid/mcp"]));
    host.ask("echo", json!({})).result();
    for request in proxy.seen() {
        assert_eq!(request.path, "http://server.invalid/mcp");
    }

    let before = proxy.seen().len();
    let web = Web::start(|_| None);
    let setup = Setup::new()
        .env("http_proxy", &format!("http://{}", proxy.address()))
        .env("no_proxy", "");
    let mut host = Host::ready(setup.server(&[&web.url()]));
    host.ask("echo", json!({})).result();
    assert_eq!(web.asked("tools/call").len(), 1);
    // The first host may still be about to leave through it; nobody else is.
    assert!(
        proxy.seen()[before..]
            .iter()
            .all(|request| request.method == "DELETE")
    );
}
