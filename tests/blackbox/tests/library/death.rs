//! A server dies with calls in flight.

use std::time::Duration;

use outlive::cause::{Exit, Phase, Reason};
use outlive::client::{Era, Event};
use outlive::error::Outcome;
use outlive::policy::Retry;
use outlive::{Client, Error};
use rustix::process::Signal;
use serde_json::json;

use crate::rig::{FOR_EVER, Rig, event, ping, within};

#[tokio::test]
async fn fm_05_a_call_in_flight_fails_at_once_with_the_last_words() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let call = client.call("crash", json!({ "signal": 9, "say": "out of cheese" }));
    let Err(Error::ConnectionLost {
        cause,
        outcome,
        poison: false,
    }) = within(call).await
    else {
        panic!("a lost connection");
    };
    assert_eq!(cause.reason, Reason::Exited(Exit::Signal(9)));
    assert_eq!(cause.phase, Phase::Service);
    assert_eq!(cause.stderr_tail[..], ["out of cheese"]);
    assert!(cause.label.contains("fake"));
    assert_eq!(outcome, Outcome::Unknown);

    // Also if a descendant holds the pipe: there is no end of file then.
    let orphan = client.call("orphan", json!({ "code": 4 }));
    let Err(Error::ConnectionLost { cause, .. }) = within(orphan).await else {
        panic!("a lost connection");
    };
    assert_eq!(cause.reason, Reason::Exited(Exit::Code(4)));
    ping(&client).await;
    within(client.close()).await;
    rig.deserted().await;
}

/// Calls a tool that appends a line to a file and then dies; the lines, and how the call ended.
async fn append(client: &Client, rig: &Rig, tool: &str, retry: Option<Retry>) -> (usize, bool) {
    let name = format!("{tool}-{retry:?}");
    let call = client.call(tool, json!({ "file": rig.path(&name), "die_until": 1 }));
    let call = match retry {
        Some(retry) => call.retry(retry),
        None => call,
    };
    let ended = within(call).await;
    if let Err(error) = &ended {
        assert!(
            matches!(
                error,
                Error::ConnectionLost {
                    outcome: Outcome::Unknown,
                    ..
                }
            ),
            "{error:?}"
        );
        assert!(!error.is_retryable());
    }
    let content = std::fs::read_to_string(rig.path(&name)).unwrap();
    (content.lines().count(), ended.is_ok())
}

#[tokio::test]
async fn fm_08_only_what_is_safe_or_asked_for_is_repeated() {
    for rig in [Rig::legacy(), Rig::modern()] {
        let rig = rig.policy(|policy| {
            policy.backoff.base = Duration::from_millis(1);
            policy.breaker.failures = 100;
        });
        let client = rig.connect().await;
        let mut events = client.events();
        client.tools().await.unwrap();
        assert_eq!(append(&client, &rig, "append", None).await, (1, false));
        assert_eq!(append(&client, &rig, "append_idem", None).await, (2, true));
        let (on, _) = event(&mut events, |event| match event {
            Event::Retried { method, generation } if method == "tools/call" => Some(*generation),
            _ => None,
        })
        .await;
        assert_eq!(on.number(), 3);
        assert_eq!(append(&client, &rig, "append_read", None).await, (2, true));
        let never = Some(Retry::Never);
        assert_eq!(
            append(&client, &rig, "append_idem", never).await,
            (1, false)
        );
        let always = Some(Retry::Always);
        assert_eq!(append(&client, &rig, "append", always).await, (2, true));
    }
}

#[tokio::test]
async fn what_was_in_flight_at_two_deaths_is_not_sent_a_third_time() {
    let rig = Rig::legacy().policy(|policy| policy.backoff.base = Duration::from_millis(1));
    let client = rig.connect().await;
    let call = client.call(
        "append",
        json!({ "file": rig.path("lines"), "die_until": 9 }),
    );
    let Err(Error::ConnectionLost { poison: true, .. }) = within(call.retry(Retry::Always)).await
    else {
        panic!("a poisonous call");
    };
    assert_eq!(
        std::fs::read_to_string(rig.path("lines"))
            .unwrap()
            .lines()
            .count(),
        2
    );
    ping(&client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fm_37_concurrent_calls_share_one_restart() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let first = ping(&client).await;
    rig.signal(Signal::KILL);
    let calls: Vec<_> = (0..50)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.call("echo", json!({ "text": n.to_string() })).await })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        match within(call).await.unwrap() {
            Ok(echo) => assert_eq!(echo.text(), n.to_string()),
            Err(Error::ConnectionLost { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_ne!(ping(&client).await, first);
    assert_eq!(
        rig.tap().method("initialize").len(),
        2,
        "one handshake for all"
    );
    assert_eq!(rig.tap().pids().len(), 2);
}

#[tokio::test]
async fn fm_38_recovery_leaves_no_call_behind() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    client.tools().await.unwrap();
    let sleep = |tool: &str, ms: u64| client.call(tool, json!({ "ms": ms })).start();
    let risky: Vec<_> = (0..5).map(|_| sleep("sleep", FOR_EVER)).collect();
    let safe: Vec<_> = (0..5).map(|_| sleep("sleep_read", 200)).collect();
    rig.received("tools/call", 10).await;
    let crash = client.call("crash", json!({ "code": 1 }));
    assert!(within(crash).await.is_err());
    for call in risky {
        let lost = within(call).await.unwrap_err();
        assert!(matches!(
            lost,
            Error::ConnectionLost {
                outcome: Outcome::Unknown,
                ..
            }
        ));
    }
    for call in safe {
        assert_eq!(within(call).await.unwrap().text(), "slept");
    }
}

#[tokio::test]
async fn fm_41_subscriptions_and_the_log_level_carry_over() {
    for era in [Era::Legacy, Era::Modern] {
        let rig = Rig::both().era(era);
        let client = rig.connect().await;
        within(client.subscribe("mem://a")).await.unwrap();
        within(client.subscribe("mem://b")).await.unwrap();
        within(client.unsubscribe("mem://b")).await.unwrap();
        within(client.set_log_level(outlive::model::LogLevel::Warning))
            .await
            .unwrap();
        let updated = |event: &Event| match event {
            Event::ResourceUpdated { uri } => Some(uri.clone()),
            _ => None,
        };
        let mut events = client.events();
        within(client.call("touch", json!({ "uri": "mem://b" })))
            .await
            .unwrap();
        within(client.call("touch", json!({ "uri": "mem://a" })))
            .await
            .unwrap();
        assert_eq!(event(&mut events, updated).await.0, "mem://a");

        rig.signal(Signal::KILL);
        // One for what may have been missed, and then what the new server tells.
        event(&mut events, |event| {
            matches!(event, Event::Connected { .. }).then_some(())
        })
        .await;
        assert_eq!(event(&mut events, updated).await.0, "mem://a");
        within(client.call("touch", json!({ "uri": "mem://a" })))
            .await
            .unwrap();
        assert_eq!(event(&mut events, updated).await.0, "mem://a");
        within(client.call("touch", json!({ "uri": "mem://b" })))
            .await
            .unwrap();
        within(client.close()).await;
        let (_, rest) = event(&mut events, |event| {
            matches!(event, Event::Closed).then_some(())
        })
        .await;
        assert!(
            !rest.iter().any(|event| updated(event).is_some()),
            "{rest:?}"
        );

        let second: Vec<_> = rig.tap().received(2);
        let sent = |method: &str| second.iter().filter(|m| m["method"] == method).count();
        match era {
            Era::Legacy => {
                assert_eq!(sent("resources/subscribe"), 1);
                assert_eq!(sent("logging/setLevel"), 1);
            }
            Era::Modern => {
                assert_eq!(
                    sent("subscriptions/listen"),
                    2,
                    "the lists, and the resource"
                );
                let level = "io.modelcontextprotocol/logLevel";
                let calls = second.iter().filter(|m| m["method"] == "tools/call");
                assert!(calls.clone().count() > 0);
                assert!(
                    calls
                        .clone()
                        .all(|m| m["params"]["_meta"][level] == "warning")
                );
            }
        }
    }
}

/// The host outlives its server, at whatever moment it goes (FM-63).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fm_63_the_client_survives_a_death_at_any_moment() {
    let rig = Rig::legacy().policy(|policy| {
        policy.backoff.base = Duration::from_millis(1);
        policy.backoff.cap = Duration::from_millis(5);
        policy.breaker.failures = 100;
    });
    let client = rig.connect().await;
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let (mut answered, mut lost) = (0, 0);
                while client.state() != outlive::client::State::Closed {
                    match client.call("echo", json!({ "text": "hello" })).await {
                        Ok(echo) => {
                            assert_eq!(echo.text(), "hello");
                            answered += 1;
                        }
                        Err(Error::ConnectionLost { .. }) => lost += 1,
                        Err(Error::ShuttingDown { .. }) => break,
                        Err(other) => panic!("{other:?}"),
                    }
                }
                (answered, lost)
            })
        })
        .collect();
    for n in 0..10 {
        tokio::time::sleep(Duration::from_millis(7 * n)).await;
        rig.signal(Signal::KILL);
    }
    within(async { while client.call("ping", json!({})).await.is_err() {} }).await;
    within(client.close()).await;
    for caller in callers {
        let (answered, _) = within(caller).await.expect("nobody panics");
        assert!(answered > 0);
    }
    rig.deserted().await;
}
