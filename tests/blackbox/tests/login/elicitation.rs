//! Hosts whose client can show a link to a person (URL elicitation, 2025-11-25).

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::person::{Link, asked, link_of, logged_in, setup};
use crate::provider::Provider;
use crate::rig::Host;

/// A host that has greeted with these capabilities, a login that was withdrawn, and a call that wants one.
fn waiting(provider: &Provider, store: &str, capabilities: &Value, flags: &[&str]) -> (Host, i64) {
    let mut host = setup(provider, store).flags(flags).start();
    let id = host.request(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "host", "version": "1"},
        }),
    );
    host.answer(id).result();
    host.notify("notifications/initialized", json!({}));
    host.ask("echo", json!({})).result();
    provider.withdraw_all();
    let call = host.call("echo", json!({}));
    (host, call)
}

fn able() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}})
}

fn provider() -> Provider {
    Provider::start(Duration::from_secs(3600))
}

/// What the host is asked.
fn question(host: &Host) -> Value {
    let question = host.wait_for("a question", |it| it["method"] == "elicitation/create");
    assert_eq!(question["params"]["mode"], "url");
    question
}

fn reply(host: &mut Host, question: &Value, result: Value) {
    host.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
}

/// The person opens the link that the host shows: the call that waited is answered, and the host is told of the end.
#[test]
fn a_person_who_accepts_logs_in_by_the_link_of_the_host() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let (mut host, call) = waiting(&provider, &store, &able(), &[]);
    let question = question(&host);
    let link = Link::read(question["params"]["url"].as_str().unwrap());
    reply(&mut host, &question, json!({"action": "accept"}));
    link.log_in(&provider);
    host.answer(call).result();
    let end = host.wait_for("the end of it", |it| {
        it["method"] == "notifications/elicitation/complete"
    });
    assert_eq!(
        end["params"]["elicitationId"],
        question["params"]["elicitationId"]
    );
    assert_eq!(host.notified("notifications/cancelled").len(), 0);
    assert_eq!((asked(&host), provider.books().logins), (1, 2));
    let seen = provider.web.seen();
    let told = |it: &&crate::web::Request| it.text().contains("\"action\"");
    assert_eq!(
        seen.iter().filter(told).count(),
        0,
        "the server hears nothing of it"
    );
    provider.check();
    provider.check_hidden(&fs::read_to_string(host.setup.path("log.jsonl")).unwrap());
    let all: Vec<u8> = host.lines().concat();
    provider.check_hidden(&String::from_utf8_lossy(&all));
}

/// A person who declines is waited for by nobody: all calls fail at once and say what to do, and there is no second
/// question. A login made elsewhere is taken up.
#[test]
fn a_person_who_declines_ends_the_waiting() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let (mut host, call) = waiting(&provider, &store, &able(), &["--hold", "10m"]);
    let question = question(&host);
    let other = host.call("echo", json!({}));
    reply(&mut host, &question, json!({"action": "decline"}));
    for id in [call, other] {
        let answer = host.answer(id);
        let words = format!("declined: run `outlive login {}`", provider.url());
        assert!(answer.message().contains(&words), "{}", answer.message());
        assert!(answer.message().contains("It was not executed."));
    }
    let again = host.ask("echo", json!({}));
    assert!(again.message().contains("declined"), "{}", again.message());
    assert_eq!((asked(&host), provider.books().logins), (1, 1), "no storm");
    let login = crate::person::Login::start(&provider, &store, &[]);
    login.link().log_in(&provider);
    assert!(login.end().0.success());
    host.ask("echo", json!({})).result();
    provider.check();
}

/// A dismissed question, an error and no answer at all are no answer of a person: the login goes on, whoever finishes
/// it.
#[test]
fn what_is_no_answer_of_a_person_ends_nothing() {
    for action in ["cancel", "error", "none"] {
        let provider = provider();
        let (_folder, store) = logged_in(&provider);
        let (mut host, call) = waiting(&provider, &store, &able(), &[]);
        let question = question(&host);
        match action {
            "cancel" => reply(&mut host, &question, json!({"action": "cancel"})),
            "error" => host.send(&json!({
                "jsonrpc": "2.0", "id": question["id"], "error": {"code": -32603, "message": "no screen"},
            })),
            _ => {}
        }
        link_of(&host, 1).log_in(&provider);
        host.answer(call).result();
        host.wait_for("the end of it", |it| {
            it["method"] == "notifications/elicitation/complete"
        });
        let taken_back = host.notified("notifications/cancelled");
        assert_eq!(taken_back.len(), usize::from(action == "none"), "{action}");
        assert_eq!((asked(&host), provider.books().logins), (1, 2), "{action}");
        provider.check();
    }
}

/// A client that never answers does not keep its calls waiting: they say where to log in. Then the login itself runs
/// out, and the question is taken back.
#[test]
fn a_client_that_never_answers_is_not_waited_for() {
    let provider = provider();
    let (_folder, store) = logged_in(&provider);
    let flags = ["--hold", "1s", "--login-timeout", "3s"];
    let (host, call) = waiting(&provider, &store, &able(), &flags);
    let question = question(&host);
    let answer = host.answer(call);
    assert!(
        answer.message().contains("/authorize?"),
        "{}",
        answer.message()
    );
    let taken_back = host.wait_for("the end of it", |it| {
        it["method"] == "notifications/cancelled"
    });
    assert_eq!(taken_back["params"]["requestId"], question["id"]);
    assert_eq!(host.notified("notifications/elicitation/complete").len(), 0);
}

/// A client that has not declared it is not asked.
#[test]
fn a_client_without_links_is_not_asked() {
    for capabilities in [json!({}), json!({"elicitation": {}})] {
        let provider = provider();
        let (_folder, store) = logged_in(&provider);
        let (host, call) = waiting(&provider, &store, &capabilities, &[]);
        link_of(&host, 1).log_in(&provider);
        host.answer(call).result();
        let told = host.received();
        let elicits = |it: &&Value| {
            it["method"]
                .as_str()
                .is_some_and(|it| it.contains("elicitation"))
        };
        assert_eq!(told.iter().find(elicits), None);
        provider.check();
    }
}
