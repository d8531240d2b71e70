//! Those who want our code, our token, or our requests.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::person::{Login, logged_in, store};
use crate::provider::Provider;
use crate::rig::{Setup, until};
use crate::web::response;

fn provider() -> Provider {
    Provider::start(Duration::from_secs(3600))
}

/// How a login ends that should not begin, or not succeed; nothing was sent to the token endpoint.
#[track_caller]
fn refused(provider: &Provider, login: Login, words: &str) {
    let (status, said) = login.end();
    assert!(!status.success() && said.contains(words), "{said}");
    let seen = provider.web.seen();
    assert!(!seen.iter().any(|it| it.path == "/token"), "{words}");
    provider.check_hidden(&said);
}

/// Mix-up (RFC 9207): the answer comes from another authorization server, or does not say from which; the code goes to
/// nobody, and the error that came with it is not shown.
#[test]
fn an_answer_of_another_server_is_not_believed() {
    for iss in ["&iss=https://evil.example", "", "&iss=ORIGIN/"] {
        let provider = provider();
        let (_folder, store) = store();
        let login = Login::start(&provider, &store, &[]);
        let link = login.link();
        let code = provider.approve(&link.asked);
        let iss = iss.replace("ORIGIN", &provider.origin());
        link.visit(&format!(
            "code={code}&error_description=evil-words&state={}{iss}",
            link.asked["state"]
        ));
        let (status, said) = login.end();
        assert!(!status.success() && !said.contains("evil-words"), "{said}");
        assert!(
            !provider.web.seen().iter().any(|it| it.path == "/token"),
            "{iss}"
        );
    }
}

/// Whoever guesses the port cannot end a login: the state is wrong, or said twice. The real answer still counts, once.
#[test]
fn a_state_cannot_be_guessed_or_replayed() {
    let provider = provider();
    let (_folder, store) = store();
    let login = Login::start(&provider, &store, &[]);
    let link = login.link();
    let state = link.asked["state"].clone();
    for query in [
        "code=stolen".to_owned(),
        "code=stolen&state=guessed".to_owned(),
        format!("code=stolen&state=guessed&state={state}"),
    ] {
        assert_eq!(link.visit(&query), 400, "{query}");
    }
    let elsewhere = http_peer::send(link.end(), "GET", "/?next=https://evil.example", &[], "");
    let elsewhere = elsewhere.unwrap();
    assert_eq!(
        (elsewhere.status, elsewhere.header("location")),
        (404, None)
    );
    link.log_in(&provider);
    let end = link.end();
    let (status, said) = login.end();
    assert!(status.success(), "{said}");
    let again = http_peer::send(
        end,
        "GET",
        &format!("/callback?code=x&state={state}"),
        &[],
        "",
    );
    assert!(again.is_err(), "nobody listens any more");
    let next = Login::start(&provider, &store, &[]);
    assert_ne!(next.link().asked["state"], state);
    assert_eq!(next.link().visit(&format!("code=x&state={state}")), 400);
    provider.check();
}

/// Metadata that is about somebody else, lacks PKCE, is too large, or leads elsewhere.
#[test]
fn metadata_is_not_believed_blindly() {
    let too_large = format!("{{\"issuer\": \"{}\"}}", "x".repeat(1 << 20));
    let at_as = "/.well-known/oauth-authorization-server";
    let at_server = "/.well-known/oauth-protected-resource/mcp";
    for (metadata, resource, page, words) in [
        (
            json!({"issuer": "https://honest.example"}),
            json!({}),
            None,
            "says that it is https://honest.example",
        ),
        (
            json!({"code_challenge_methods_supported": ["plain"]}),
            json!({}),
            None,
            "PKCE",
        ),
        (
            json!({"code_challenge_methods_supported": null}),
            json!({}),
            None,
            "PKCE",
        ),
        (
            json!({}),
            json!({"resource": "https://other.example/mcp"}),
            None,
            "about another one",
        ),
        (
            json!({}),
            json!({"authorization_servers": ["http://169.254.169.254"]}),
            None,
            "not asked",
        ),
        (
            json!({}),
            json!({"authorization_servers": ["https://169.254.169.254/latest"]}),
            None,
            "not asked",
        ),
        (
            json!({"authorization_endpoint": "file:///etc/passwd"}),
            json!({}),
            None,
            "not asked",
        ),
        (
            json!({"authorization_endpoint": "https://[fe80::1]/x"}),
            json!({}),
            None,
            "not asked",
        ),
        (
            json!({}),
            json!({}),
            Some((at_as, response(200, &[], &too_large))),
            "more than",
        ),
        (
            json!({}),
            json!({}),
            Some((
                at_server,
                response(302, &[("location", "https://evil.example/")], ""),
            )),
            "another origin",
        ),
    ] {
        let provider = provider();
        {
            let mut books = provider.books();
            books.metadata = metadata;
            books.resource = resource;
            books
                .pages
                .extend(page.map(|(path, reply)| (path.to_owned(), reply)));
        }
        let (_folder, store) = store();
        let login = Login::start(&provider, &store, &[]);
        assert!(!login.has_link(), "{words}: nobody is led anywhere");
        refused(&provider, login, words);
    }
}

/// A server that has moved to another authorization server gets neither our token nor our registration from the first.
#[test]
fn what_one_authorization_server_gave_is_shown_to_no_other() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let other = Provider::start(Duration::from_secs(3600));
    provider.books().resource = json!({"authorization_servers": [other.origin()]});
    let login = Login::start(&provider, &store, &[]);
    let _link = login.link();
    let registered = other
        .web
        .wait_for(1, "a registration", |it| it.path == "/register");
    assert_eq!(registered.len(), 1, "it registers anew");
    let secrets = provider.books().secrets.clone();
    for request in other.web.seen() {
        let all = format!("{} {}", request.path, request.text());
        assert!(!secrets.iter().any(|it| all.contains(it.as_str())), "{all}");
        assert_eq!(request.header("authorization"), None);
    }
}

/// `outlive serve` with a login: no page, metric or line of the log shows a token, also after a refresh, and neither
/// does what `outlive status` and `outlive logins` say.
#[test]
fn no_page_shows_a_token() {
    let provider = Provider::start(Duration::from_secs(3600));
    let (_folder, store) = logged_in(&provider);
    let setup = Setup::new();
    let log = setup.path("log.jsonl");
    let mut command = Command::new(Setup::outlive());
    setup.dress(&mut command);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--token-store", &store])
        .args(["--login", "link", "--log-format", "json"])
        .args(["--log-level", "debug", "--log-file", &log, &provider.url()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut serve = command.spawn().expect("outlive is built");
    let address = until("it listens", || {
        let text = fs::read_to_string(&log).ok()?;
        let mut events = text
            .lines()
            .filter_map(|it| serde_json::from_str::<Value>(it).ok());
        let event = events.find(|it| it["event"] == "listening")?;
        let url = event["url"].as_str()?.strip_prefix("http://")?.to_owned();
        url.split('/').next()?.parse().ok()
    });
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "client", "version": "1"},
        },
    });
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    for _ in 0..2 {
        let reply = http_peer::send(address, "POST", "/mcp", &headers, &initialize.to_string());
        assert_eq!(reply.expect("an answer").status, 200);
        provider.withdraw_access();
    }
    assert!(provider.books().refreshes >= 1);
    let mut said = fs::read_to_string(&log).unwrap();
    for path in ["/", "/metrics", "/health", "/ready", "/status"] {
        let reply = http_peer::send(address, "GET", path, &[("accept", "*/*")], "");
        said.push_str(&reply.expect("a page").text());
    }
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["logins", "--json", "--token-store", &store],
    ] {
        let output = setup.outlive_says(args);
        said.push_str(&String::from_utf8_lossy(&output.stdout));
        said.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    let _ = serve.kill();
    let _ = serve.wait();
    assert!(
        said.contains(&provider.url()) && said.len() > 1000,
        "{said}"
    );
    provider.check_hidden(&said);
    provider.check();
}
