//! How a client comes to its server.

use std::io;
use std::time::Duration;

use outlive::cause::Reason;
use outlive::{Client, Command, Error, Policy, Run, Server, memory};
use serde_json::json;

use super::{ERAS, in_time};

fn greeter() -> Server {
    Server::builder("greeter", "1")
        .tool("greet", "", |_, (): ()| async { "Hello!" })
        .build()
}

#[tokio::test]
async fn a_server_in_this_process_is_reached_by_reference() {
    let server = greeter();
    for era in ERAS {
        let client = Client::builder().server(&server).era(era);
        let client = in_time(client.connect()).await.expect("to connect");
        let greeting = in_time(client.call("greet", json!({}))).await;
        assert_eq!(greeting.expect("an answer").text(), "Hello!");
        // The next link is to the same server.
        client.reconnect();
        let greeting = in_time(client.call("greet", json!({}))).await;
        assert_eq!(greeting.expect("an answer").text(), "Hello!");
        in_time(client.close()).await;
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_in_time() {
    for era in ERAS {
        let connector = || {
            let (ours, theirs) = memory::pair();
            tokio::spawn(async move {
                std::future::pending::<()>().await;
                drop(theirs);
            });
            async { Ok::<_, io::Error>(ours) }
        };
        let after = Duration::from_millis(50);
        let client = Client::builder().connector(connector).era(era);
        let ended = in_time(client.connect_timeout(after).connect()).await;
        let error = ended.expect_err("nobody answers");
        let Error::Unavailable { cause, .. } = &error else {
            panic!("{error:?}");
        };
        let reason = cause.as_ref().map(|cause| &cause.reason);
        assert_eq!(reason, Some(&Reason::SlowHandshake(after)));
        assert!(!error.to_string().contains("--"), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_come_up_is_given_up_in_time_and_says_why() {
    let connector = || async { Err::<memory::Endpoint, _>(io::Error::other("closed today")) };
    let client = Client::builder().connector(connector);
    let ended = in_time(client.connect_timeout(Duration::from_millis(300)).connect()).await;
    let words = ended.expect_err("nobody is there").to_string();
    assert!(words.contains("closed today"), "{words}");
}

#[cfg(feature = "http")]
#[tokio::test]
async fn an_address_that_is_none_fails_at_once() {
    for (url, word) in [
        ("example.com/mcp", "no address"),
        ("ftp://example.com/", "http://"),
    ] {
        let ended = in_time(Client::builder().url(url).connect()).await;
        let error = ended.expect_err("no address");
        assert!(matches!(error, Error::Misconfigured { .. }), "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
        assert!(url.parse::<outlive::Remote>().is_err());
    }
}

#[tokio::test]
async fn a_policy_that_makes_no_sense_fails_at_once() {
    let mut policy = Policy::default();
    policy.breaker.failures = 0;
    let client = Client::builder().server(&greeter()).policy(policy);
    let error = in_time(client.connect()).await.expect_err("no sense");
    assert!(matches!(error, Error::Misconfigured { .. }), "{error:?}");
    assert!(error.to_string().contains("Breaker::failures"), "{error}");
}

/// Before anything is done to the standard streams, which are the test's.
#[tokio::test]
async fn a_session_that_makes_no_sense_does_not_begin() {
    let mut policy = Policy::default();
    policy.breaker.failures = 0;
    let run = Run::new(Command::new("true", [""; 0]), policy, ());
    let error = outlive::run(run).await.expect_err("no sense");
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("Breaker::failures"), "{error}");
    #[cfg(feature = "http")]
    {
        let run = outlive::run_remote("ftp://a.b/".into(), Policy::default(), (), false);
        let error = run.await.expect_err("no address");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

#[tokio::test]
async fn a_call_can_be_spawned_as_it_is() {
    let server = greeter();
    let client = in_time(Client::builder().server(&server).connect()).await;
    let client = client.expect("to connect");
    let call = tokio::spawn(client.call("greet", json!({})));
    let result = in_time(call).await.expect("no panic").expect("an answer");
    assert_eq!(result.text(), "Hello!");
}
