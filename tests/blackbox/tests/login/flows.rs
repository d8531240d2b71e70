//! Logins as they should be, and what is kept of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::person::{Login, asked, link_of, logged_in, setup, store};
use crate::provider::Provider;
use crate::rig::{Host, Setup};

const HOUR: Duration = Duration::from_secs(3600);

/// The host's first request waits while somebody logs in; then everything works, and the next process needs no login.
#[test]
fn a_login_begins_by_itself_and_the_first_request_waits_for_it() {
    let provider = Provider::start(HOUR);
    let (_folder, store) = store();
    let mut host = setup(&provider, &store).start();
    let id = host.request(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    let link = link_of(&host, 1);
    assert_eq!(host.answers(id), 0, "it waits");
    link.log_in(&provider);
    host.answer(id).result();
    host.notify("notifications/initialized", json!({}));
    host.ask("echo", json!({})).result();
    provider.check();
    assert_eq!(asked(&host), 1);
    let log = fs::read_to_string(host.setup.path("log.jsonl")).unwrap();
    provider.check_hidden(&log);

    let mut second = Host::ready(setup(&provider, &store));
    second.ask("echo", json!({})).result();
    assert_eq!((asked(&second), provider.books().logins), (0, 1));
    let refused =
        |it: &crate::web::Request| it.rpc() == "initialize" && it.header("authorization").is_none();
    assert_eq!(
        provider.web.seen().iter().filter(|it| refused(it)).count(),
        1,
        "only the first was refused"
    );
}

/// What is kept is for this user alone; it is listed without its secrets, and forgotten on both sides.
#[test]
fn logins_are_listed_and_forgotten() {
    let provider = Provider::start(HOUR);
    let (_folder, store) = logged_in(&provider);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(store.as_ref()), 0o700);
    for file in fs::read_dir(&store).unwrap() {
        assert_eq!(mode(&file.unwrap().path()), 0o600);
    }
    let outlive = |words: &[&str]| {
        let output = Setup::new().outlive_says(words);
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8(said).unwrap()
    };
    let listed = outlive(&["logins", "--json", "--token-store", &store]);
    provider.check_hidden(&listed);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        (&listed["server"], &listed["renewable"]),
        (&json!(provider.url()), &json!(true))
    );
    let shown = outlive(&["logins", "--token-store", &store]);
    assert!(shown.contains("renewed by itself"), "{shown}");
    let out = outlive(&["logout", "--token-store", &store, &provider.url()]);
    assert!(out.contains("logged out"), "{out}");
    assert_eq!(outlive(&["logins", "--json", "--token-store", &store]), "");
    assert_eq!(
        provider
            .web
            .wait_for(1, "the revocation", |it| it.path == "/revoke")
            .len(),
        1
    );
    let again = outlive(&["logout", "--token-store", &store, &provider.url()]);
    assert!(again.contains("no login"), "{again}");
}

/// A store that cannot be read costs a login, and nothing else.
#[test]
fn a_corrupted_login_is_no_login() {
    let provider = Provider::start(HOUR);
    let (_folder, store) = logged_in(&provider);
    for file in fs::read_dir(&store).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|it| it == "login") {
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, &text[..text.len() / 2]).unwrap();
        }
    }
    let mut host = setup(&provider, &store).start();
    let id = host.request(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    link_of(&host, 1).log_in(&provider);
    host.answer(id).result();
    provider.check();
}

/// No browser here: the link is opened anywhere, and the address that it ends at is pasted.
#[test]
fn an_address_can_be_pasted() {
    let provider = Provider::start(HOUR);
    let (_folder, store) = store();
    let mut login = Login::start(&provider, &store, &[]);
    let link = login.link();
    login.paste("not an address");
    let code = provider.approve(&link.asked);
    let (state, end) = (&link.asked["state"], &link.asked["redirect_uri"]);
    login.paste(&format!(
        "{end}?code={code}&state={state}&iss={}",
        provider.origin()
    ));
    let (status, said) = login.end();
    assert!(
        status.success() && said.contains("paste the whole of it"),
        "{said}"
    );
    provider.check();
}

/// More rights are asked for when a tool wants them, beside those there were, and the call is sent again.
#[test]
fn missing_rights_are_asked_for_once() {
    let provider = Provider::start(HOUR);
    provider.books().resource = json!({"scopes_supported": ["read"]});
    provider.books().scope = Some("write".into());
    let (_folder, store) = logged_in(&provider);
    let mut host = Host::ready(setup(&provider, &store));
    host.ask("read", json!({})).result();
    let id = host.call("write", json!({}));
    let link = link_of(&host, 1);
    assert_eq!(link.asked["scope"], "read write");
    link.log_in(&provider);
    host.answer(id).result();
    host.ask("write", json!({})).result();
    assert_eq!(asked(&host), 1);
    provider.check();
}

/// A machine logs in with its own secret, and again when its token has expired; nobody is asked.
#[test]
fn a_machine_needs_no_person() {
    let provider = Provider::start(Duration::from_secs(2));
    let (_folder, store) = store();
    let flags = [
        "--login",
        "machine",
        "--client-id",
        "robot",
        "--token-store",
        &store,
    ];
    let setup = Setup::new()
        .flags(&flags)
        .env("OUTLIVE_CLIENT_SECRET", "s3cret-robot")
        .server(&[&provider.url()]);
    let mut host = Host::ready(setup);
    for _ in 0..10 {
        host.ask("echo", json!({})).result();
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(provider.books().logins > 1);
    assert_eq!(asked(&host), 0);
    let log = fs::read_to_string(host.setup.path("log.jsonl")).unwrap();
    assert!(!log.contains("s3cret-robot"));
    provider.check();
}

/// A code is entered on another device.
#[test]
fn another_device_can_be_used() {
    let provider = Provider::start(HOUR);
    let (_folder, store) = store();
    let login = Login::start(&provider, &store, &["--login", "device"]);
    let (status, said) = login.end();
    assert!(
        status.success() && said.contains("enter ABCD-EFGH"),
        "{said}"
    );
    provider.check_hidden(&said);
    provider.check();
}

/// `--login never` asks nobody, and says what to do.
#[test]
fn nobody_is_asked_who_does_not_want_to_be() {
    let provider = Provider::start(HOUR);
    let (_folder, store) = store();
    let setup = Setup::new()
        .flags(&["--login", "never", "--token-store", &store])
        .server(&[&provider.url()]);
    let mut host = setup.start();
    let id = host.request(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    let answer = host.answer(id);
    assert!(
        answer.message().contains("outlive login http://"),
        "{}",
        answer.message()
    );
    assert_eq!(asked(&host), 0);
}
