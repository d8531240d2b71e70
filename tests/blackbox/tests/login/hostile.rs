//! Authorization servers that answer wrongly, stores that cannot be written, and whoever else is in the way of a login.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use crate::person::{Login, asked, link_of, logged_in, setup, store};
use crate::provider::Provider;
use crate::rig::{Host, Setup, until};
use crate::web::{Act, Reply, response};

fn provider() -> Provider {
    Provider::start(Duration::from_secs(3600))
}

/// The file of the one login in a store.
fn file(store: &str) -> PathBuf {
    let files = fs::read_dir(store).expect("a folder");
    let mut files = files.map(|it| it.expect("a file").path());
    let is_it = |it: &PathBuf| it.extension().is_some_and(|it| it == "login");
    files.find(is_it).expect("a login")
}

/// Calls until one is answered: a refresh that failed is tried again after a pause.
fn works_again(host: &mut Host) {
    until("an answer", || {
        let answer = host.ask("echo", json!({}));
        answer.kind().is_none().then_some(())
    });
}

/// Fifty calls at once after an expiry: one refresh.
#[test]
fn a_crowd_of_calls_refreshes_once() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let mut host = Host::ready(setup(&provider, &store));
    host.ask("echo", json!({})).result();
    provider.withdraw_access();
    let calls: Vec<i64> = (0..50).map(|_| host.call("echo", json!({}))).collect();
    for id in calls {
        host.answer(id).result();
    }
    assert_eq!((asked(&host), provider.books().refreshes), (0, 1));
    provider.check();
}

/// Answers of the token endpoint that say nothing cost no login, and what was sent goes nowhere else.
#[test]
fn a_token_endpoint_that_answers_nonsense_costs_no_login() {
    let other = provider();
    let elsewhere = format!("{}/token", other.origin());
    let json = [("content-type", "application/json")];
    let nonsense: [Reply; 8] = [
        response(
            200,
            &[("content-type", "text/html")],
            "<h1>Maintenance</h1>",
        ),
        response(200, &json, r#"{"access_token": "a", "#),
        response(200, &json, "{}"),
        response(200, &json, r#"{"access_token": 5}"#),
        response(
            200,
            &json,
            &format!(r#"{{"access_token": "{}"}}"#, "x".repeat(1 << 20)),
        ),
        response(307, &[("location", &elsewhere)], ""),
        response(302, &[("location", &elsewhere)], ""),
        vec![Act::Reset],
    ];
    for reply in nonsense {
        let provider = provider();
        let (_folder, store) = logged_in(&provider);
        let mut host = Host::ready(setup(&provider, &store).flags(&["--hold", "1s"]));
        host.ask("echo", json!({})).result();
        provider.withdraw_access();
        provider.books().pages.insert("/token".into(), reply);
        let answer = host.ask("echo", json!({}));
        assert!(
            answer.message().contains("gave no new token"),
            "{}",
            answer.message()
        );
        assert!(answer.message().contains("It was not executed."));
        provider.books().pages.clear();
        works_again(&mut host);
        assert_eq!((asked(&host), provider.books().logins), (0, 1));
        provider.check();
    }
    assert_eq!(other.web.seen().len(), 0, "a token went elsewhere");
}

/// Some answer 200 to everything: a refusal is one all the same, and begins one login.
#[test]
fn a_refusal_with_status_200_is_one() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let mut host = Host::ready(setup(&provider, &store));
    host.ask("echo", json!({})).result();
    provider.withdraw_access();
    let refusal = response(
        200,
        &[("content-type", "application/json")],
        r#"{"error": "invalid_grant"}"#,
    );
    provider.books().pages.insert("/token".into(), refusal);
    let id = host.call("echo", json!({}));
    let link = link_of(&host, 1);
    provider.books().pages.clear();
    link.log_in(&provider);
    host.answer(id).result();
    assert_eq!((asked(&host), provider.books().logins), (1, 2));
}

/// Metadata that leads in a circle.
#[test]
fn metadata_that_leads_in_a_circle_is_left() {
    let provider = provider();
    let at = "/.well-known/oauth-authorization-server";
    let circle = response(302, &[("location", at)], "");
    provider.books().pages.insert(at.into(), circle);
    let (_folder, store) = store();
    let login = Login::start(&provider, &store, &[]);
    assert!(!login.has_link());
    let (status, said) = login.end();
    assert!(
        !status.success() && said.contains("from one address to the next"),
        "{said}"
    );
}

/// A client that was registered with one authorization server, and a server that has moved to another: the secret is
/// shown to nobody but the first.
#[test]
fn a_secret_is_for_one_authorization_server() {
    let (provider, other) = (provider(), provider());
    let methods = json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    provider.books().metadata = methods;
    let (_folder, store) = store();
    let client = ["--client-id", "me", "--client-secret", "s3cret-of-mine"];
    let login = Login::start(&provider, &store, &client);
    login.link().log_in(&provider);
    assert!(login.end().0.success());
    provider.books().resource = json!({"authorization_servers": [other.origin()]});
    let login = Login::start(&provider, &store, &client);
    assert!(!login.has_link());
    let (status, said) = login.end();
    assert!(!status.success() && said.contains("has moved"), "{said}");
    assert!(!said.contains("s3cret-of-mine"), "{said}");
    for request in other.web.seen() {
        assert_eq!(request.header("authorization"), None);
        assert!(
            request.path.starts_with("/.well-known/"),
            "{}",
            request.path
        );
    }
}

/// Whoever connects to the page and says nothing, or something else, keeps nobody from logging in.
#[test]
fn a_port_scanner_ends_no_login() {
    let provider = provider();
    let (_folder, store) = store();
    let login = Login::start(&provider, &store, &[]);
    let link = login.link();
    let silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(link.end()).expect("it listens"))
        .collect();
    for (method, path) in [
        ("POST", "/callback"),
        ("GET", "/../callback"),
        ("OPTIONS", "*"),
    ] {
        let _ = http_peer::send(link.end(), method, path, &[], "");
    }
    link.log_in(&provider);
    let (status, said) = login.end();
    assert!(status.success(), "{said}");
    drop(silent);
    provider.check();
}

/// The port that was asked for is another's.
#[test]
fn a_port_that_is_taken_is_named() {
    let provider = provider();
    let (_folder, store) = store();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let login = Login::start(&provider, &store, &["--callback-port", &port]);
    assert!(!login.has_link());
    let (status, said) = login.end();
    assert!(
        !status.success() && said.contains(&format!("port {port}")),
        "{said}"
    );
    assert_eq!(provider.books().logins, 0);
}

/// The host leaves while somebody is asked: outlive ends, and the next process can ask at once.
#[test]
fn a_host_that_leaves_in_a_login_keeps_nobody_waiting() {
    let provider = provider();
    let (_folder, store) = store();
    let mut host = setup(&provider, &store).start();
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    });
    host.request("initialize", params);
    let link = link_of(&host, 1);
    host.hang_up();
    host.exit();
    assert!(
        TcpStream::connect(link.end()).is_err(),
        "nobody listens any more"
    );
    let login = Login::start(&provider, &store, &[]);
    login.link().log_in(&provider);
    assert!(login.end().0.success());
    provider.check();
}

/// A refresh token that cannot be marked as sent is not sent: it may be another process's next one. As soon as the
/// store can be written, calls work again, and nobody has logged in.
#[test]
fn a_store_that_cannot_be_written_spends_no_token() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let mut host = Host::ready(setup(&provider, &store).flags(&["--hold", "1s"]));
    host.ask("echo", json!({})).result();
    // In the place of the file that is written beside.
    let obstacle = file(&store).with_extension(format!("new-{}", host.pid()));
    fs::create_dir(&obstacle).expect("a folder");
    provider.withdraw_access();
    let answer = host.ask("echo", json!({}));
    assert!(
        answer.message().contains("cannot be kept"),
        "{}",
        answer.message()
    );
    assert_eq!(provider.books().refreshes, 0, "it was not marked");
    fs::remove_dir(&obstacle).expect("a folder");
    works_again(&mut host);
    assert_eq!((asked(&host), provider.books().logins), (0, 1));
    provider.check();
}

/// A login that cannot be kept is used by its process, refreshes included, and is asked for once.
#[test]
fn a_login_that_cannot_be_kept_lasts_as_long_as_its_process() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let path = file(&store);
    fs::remove_file(&path).expect("a file");
    fs::create_dir_all(path.join("in the way")).expect("a folder");
    let mut host = setup(&provider, &store).start();
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    });
    let id = host.request("initialize", params);
    link_of(&host, 1).log_in(&provider);
    host.answer(id).result();
    host.notify("notifications/initialized", json!({}));
    host.logged(1, "login_warning", |_| true);
    for refreshes in 1..4 {
        host.ask("echo", json!({})).result();
        provider.withdraw_access();
        host.ask("echo", json!({})).result();
        assert_eq!(provider.books().refreshes, refreshes);
    }
    assert_eq!((asked(&host), provider.books().logins), (1, 2));
    provider.check();
}

/// A folder that somebody else could read or replace is not used.
#[test]
fn a_folder_that_is_not_private_is_refused() {
    let provider = provider();
    let (folder, store) = logged_in(&provider);
    let link = folder.path().join("link");
    symlink(&store, &link).expect("a link");
    let open = folder.path().join("open");
    fs::create_dir(&open).expect("a folder");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("ours");
    for bad in [link, open] {
        let bad = bad.to_str().expect("UTF-8");
        let output = Setup::new().outlive_says(&["login", "--token-store", bad, &provider.url()]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let listed = Setup::new().outlive_says(&["logins", "--token-store", bad]);
        assert!(!listed.status.success(), "{listed:?}");
    }
    assert_eq!(provider.books().logins, 1);
}

/// The address of a server that only the proxy knows.
const BEYOND: &str = "http://mcp.example.test/mcp";

/// The user's proxy has a name that stands for this machine, or this network: a login goes through it all the same. What
/// a server leads to is judged as ever.
#[test]
fn a_proxy_may_be_near_and_what_a_server_leads_to_may_not() {
    let provider = Provider::start(Duration::from_secs(3600));
    let proxy = format!("http://localhost:{}", provider.web.address().port());
    let through = || {
        Setup::new()
            .env("HTTP_PROXY", &proxy)
            .env("HTTPS_PROXY", &proxy)
    };
    let (_folder, store) = store();
    let login = Login::start_at(through(), BEYOND, &store, &[]);
    let link = login.link();
    let code = provider.approve(&link.asked);
    let query = format!(
        "code={code}&state={}&iss=http://mcp.example.test",
        link.asked["state"]
    );
    assert_eq!(link.visit(&query), 200);
    let (status, said) = login.end();
    assert!(status.success(), "{said}");
    let flags = ["--login", "link", "--token-store", &store];
    let mut host = Host::ready(through().flags(&flags).server(&[BEYOND]));
    host.ask("echo", json!({})).result();
    for there in ["https://localhost", "https://127.0.0.1", "https://10.0.0.1"] {
        provider.books().resource = json!({"authorization_servers": [there]});
        let login = Login::start_at(through(), BEYOND, &store, &[]);
        let (status, said) = login.end();
        assert!(
            !status.success() && said.contains("--allow-private-login"),
            "{said}"
        );
    }
}
