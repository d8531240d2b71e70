//! Credentials that a program obtains when they are wanted, or that change under it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use outlive::client::State;
use outlive::{Challenge, Client, Remote};
use serde_json::json;

use crate::web::{Reply, Request, Web, response};

/// A server that lets in whoever shows this.
struct Gateway {
    valid: Arc<Mutex<&'static str>>,
    web: Web,
}

impl Gateway {
    fn start(valid: &'static str) -> Gateway {
        Gateway::start_with(valid, |_| None)
    }

    /// The same, but the script comes first.
    fn start_with(
        valid: &'static str,
        script: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Gateway {
        let valid = Arc::new(Mutex::new(valid));
        let wanted = valid.clone();
        let web = Web::start(move |request| {
            let known = request.header("authorization") == Some(*wanted.lock().unwrap());
            let challenge = [("www-authenticate", "Bearer realm=\"here\"")];
            script(request).or_else(|| (!known).then(|| response(401, &challenge, "")))
        });
        Gateway { valid, web }
    }

    fn change(&self, valid: &'static str) {
        *self.valid.lock().unwrap() = valid;
    }
}

/// Gives out one after the other of these, and counts how often it was asked.
fn tokens(
    tokens: &'static [&'static str],
    asked: &Arc<AtomicUsize>,
) -> impl Fn(Challenge) -> std::future::Ready<Option<String>> + Send + Sync + use<> {
    let asked = asked.clone();
    move |challenge| {
        assert_eq!(
            challenge.authenticate.as_deref(),
            Some("Bearer realm=\"here\"")
        );
        let n = asked.fetch_add(1, Ordering::SeqCst);
        std::future::ready(tokens.get(n).map(|token| format!("Bearer {token}")))
    }
}

/// A server that wants credentials is given them, at the beginning and whenever it wants others; nothing is lost, and
/// of many calls that are refused together one asks.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_obtained_when_they_are_wanted() {
    let gateway = Gateway::start("Bearer first-token");
    let asked = Arc::default();
    let obtain = tokens(&["first-token", "second-token"], &asked);
    let remote = Remote::new(gateway.web.url()).credentials(obtain);
    let client = Client::builder().url(remote).connect().await.unwrap();
    client.call("echo", json!({})).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    gateway.change("Bearer second-token");
    let calls: Vec<_> = (0..8)
        .map(|_| client.call("echo", json!({})).start())
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(
        gateway.web.asked("initialize").len(),
        1,
        "it is the same session"
    );
    client.close().await;
    assert_eq!(
        gateway.web.open_sessions(),
        0,
        "it said goodbye with them, too"
    );
}

/// Where there are no others, or none that help, that is a state one can act on; and nobody is asked for ever.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_do_not_help_are_not_asked_for_again_and_again() {
    for (given, times) in [(&[][..], 1), (&["bad-1", "bad-2", "bad-3", "bad-4"], 3)] {
        let gateway = Gateway::start("Bearer good");
        let asked = Arc::default();
        let remote = Remote::new(gateway.web.url()).credentials(tokens(given, &asked));
        let error = Client::builder().url(remote).connect().await.unwrap_err();
        assert!(error.to_string().contains("credentials"), "{error}");
        assert_eq!(asked.load(Ordering::SeqCst), times);
    }
}

/// Who is merely forbidden something is not asked to log in; who leaves is not, either.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_in_vain() {
    let gateway = Gateway::start_with("Bearer good", |request| {
        let forbidden = request.tool() == "secret" || request.method == "DELETE";
        let status = if request.method == "DELETE" { 401 } else { 403 };
        forbidden.then(|| response(status, &[], ""))
    });
    let asked = Arc::default();
    let remote = Remote::new(gateway.web.url()).credentials(tokens(&["good"], &asked));
    let client = Client::builder().url(remote).connect().await.unwrap();
    client.call("secret", json!({})).await.unwrap_err();
    client.close().await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

/// The same settings as on the command line: credentials from a file are read again when the server refuses those we
/// have.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_in_a_file_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("headers");
    std::fs::write(&file, "Authorization: Bearer one\n").unwrap();
    let valid = Arc::new(Mutex::new("Bearer one"));
    let wanted = valid.clone();
    let web = Web::start(move |request| {
        let valid = request.header("authorization") == Some(*wanted.lock().unwrap());
        (!valid).then(|| response(401, &[], ""))
    });
    let remote = Remote::new(web.url()).header_file(&file);
    let client = Client::builder().url(remote).connect().await.unwrap();
    client.call("echo", json!({})).await.unwrap();
    *valid.lock().unwrap() = "Bearer two";
    let refused = client.call("echo", json!({})).await.unwrap_err();
    assert_eq!(refused.kind(), "rejected");
    // Not only that call is refused.
    let mut states = client.watch();
    while !matches!(client.state(), State::Failed { .. }) {
        states.next().await.expect("the session goes on");
    }
    std::fs::write(&file, "Authorization: Bearer two\n").unwrap();
    client.reconnect();
    client.call("echo", json!({})).await.unwrap();
    client.close().await;
}
