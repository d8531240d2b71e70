//! Where a client stands, and what it tells of it.

use std::time::Duration;

use outlive::cause::{Exit, Reason};
use outlive::client::{Event, State};
use outlive::error::Outcome;
use outlive::{Client, Error};
use rustix::process::Signal;
use serde_json::json;

use crate::rig::{FOR_EVER, Over, Rig, event, ping, ready, until, within};

fn connected(event: &Event) -> Option<u64> {
    match event {
        Event::Connected { generation, .. } => Some(generation.number()),
        _ => None,
    }
}

fn generation(client: &Client) -> Option<u64> {
    match client.state() {
        State::Ready { generation } => Some(generation.number()),
        _ => None,
    }
}

#[tokio::test]
async fn fm_01_idle_death_is_noticed_and_repaired_without_a_call() {
    for over in [Over::Pipes, Over::Socket] {
        let rig = Rig::legacy().over(over);
        let client = rig.connect().await;
        client.tools().await.unwrap();
        let mut states = client.watch();
        let mut events = client.events();
        assert!(matches!(states.next().await, Some(State::Ready { .. })));
        let first = rig.pid();
        rig.signal(Signal::KILL);

        let (cause, _) = event(&mut events, |event| match event {
            Event::Lost {
                cause,
                in_flight: 0,
                ..
            } => Some(cause.clone()),
            _ => None,
        })
        .await;
        match over {
            Over::Pipes => assert_eq!(cause.reason, Reason::Exited(Exit::Signal(9))),
            Over::Socket => assert!(matches!(cause.reason, Reason::Disconnected(Some(_)))),
        }
        assert_ne!(
            generation(&client),
            Some(1),
            "the state does not deny the event"
        );
        assert_eq!(event(&mut events, connected).await.0, 2);
        // Whoever watches has seen it go down and come up.
        assert!(matches!(
            within(states.next()).await,
            Some(State::Down { .. })
        ));
        ready(&client, 2).await;
        assert_ne!(ping(&client).await, first);
        assert_eq!(
            rig.tap().method("tools/call").len(),
            1,
            "nobody had to call"
        );
    }
}

#[tokio::test]
async fn fm_02_tools_of_before_the_crash_work_after_it() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let tools = client.tools().await.unwrap();
    let tool = |name: &str| {
        tools
            .iter()
            .find(|tool| tool.name == name)
            .expect("a tool")
            .clone()
    };
    let (crash, ping) = (tool("crash"), tool("ping"));
    drop(client);
    let before = within(ping.call(json!({}))).await.unwrap();
    let lost = within(crash.call(json!({ "code": 1 }))).await.unwrap_err();
    assert!(matches!(lost, Error::ConnectionLost { .. }));
    let after = within(ping.call(json!({}))).await.unwrap();
    assert_eq!(after.text(), "pong");
    assert_ne!(before.structured_content, after.structured_content);
}

#[tokio::test]
async fn fm_15_events_over_a_crash_come_in_order_and_tell_what_changed() {
    for rig in [Rig::legacy(), Rig::modern()] {
        let set = rig.file("tools", "v1");
        let rig = rig.knobs(&["--tools", &set]);
        let client = rig.connect().await;
        client.tools().await.unwrap();
        let mut events = client.events();
        rig.file("tools", "v2");
        let lost = within(client.call("crash", json!({ "code": 3 })))
            .await
            .unwrap_err();
        assert!(matches!(lost, Error::ConnectionLost { .. }));

        let (names, before) = event(&mut events, |event| match event {
            Event::ToolsChanged {
                added,
                removed,
                changed,
            } => Some([added, removed, changed].map(|names| names.join(" "))),
            _ => None,
        })
        .await;
        assert_eq!(names, ["added", "removed", "changing"]);
        assert!(
            matches!(
                &before[..],
                [
                    Event::Lost { generation: g1, cause, in_flight: 1.. },
                    Event::Retrying { attempt: 1, .. },
                    Event::Connected { generation: g2, server_info: Some(info) },
                    ..
                ] if g1.number() == 1 && g2.number() == 2 && info.name == "fake"
                    && cause.reason == Reason::Exited(Exit::Code(3))
            ),
            "{before:?}"
        );
        let tools = client.tools().await.unwrap();
        assert!(tools.iter().any(|tool| tool.name == "added"));
        let unknown = within(client.call("removed", json!({}))).await.unwrap_err();
        assert!(
            matches!(&unknown, Error::Remote { message, .. } if message == "Unknown tool: removed")
        );

        // The same tools again: nothing to tell.
        rig.signal(Signal::KILL);
        event(&mut events, |event| connected(event).filter(|g| *g == 3)).await;
        client.tools().await.unwrap();
        within(client.close()).await;
        let (_, rest) = event(&mut events, |event| {
            matches!(event, Event::Closed).then_some(())
        })
        .await;
        assert!(
            !rest
                .iter()
                .any(|event| matches!(event, Event::ToolsChanged { .. })),
            "{rest:?}"
        );
        assert!(events.next().await.is_none(), "nothing follows");
    }
}

/// A server that says by itself that its tools changed is believed, every time.
#[tokio::test]
async fn changes_the_server_tells_are_events() {
    for rig in [Rig::legacy(), Rig::modern()] {
        let client = rig.connect().await;
        let mut events = client.events();
        let tool = match client.protocol_version() {
            Some("2026-07-28") => ("notify_listeners", json!({})),
            _ => (
                "notify",
                json!({ "method": "notifications/tools/list_changed" }),
            ),
        };
        for _ in 0..2 {
            within(client.call(tool.0, &tool.1)).await.unwrap();
            event(&mut events, |event| match event {
                Event::ToolsChanged { added, .. } if added.is_empty() => Some(()),
                _ => None,
            })
            .await;
        }
        let odd = json!({ "method": "notifications/odd", "params": { "a": 1 } });
        within(client.call("notify", odd)).await.unwrap();
        let (note, _) = event(&mut events, |event| match event {
            Event::Unsolicited(note) => Some(note.clone()),
            _ => None,
        })
        .await;
        assert_eq!(note.method, "notifications/odd");
        assert_eq!(
            note.params::<serde_json::Value>().unwrap(),
            json!({ "a": 1 })
        );
    }
}

#[tokio::test]
async fn fm_16_state_and_tools_are_those_of_the_newest_generation() {
    let rig = Rig::legacy().policy(|policy| policy.backoff.base = Duration::from_millis(1));
    let set = rig.file("tools", "v1");
    let rig = rig.knobs(&["--tools", &set]);
    let client = rig.connect().await;
    let mut events = client.events();
    client.tools().await.unwrap();
    for round in 1..=5_u64 {
        rig.file("tools", if round % 2 == 1 { "v2" } else { "v1" });
        // What it leaves behind speaks after its successor has come, in its name.
        let say = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let orphan = json!({ "code": 1, "say": say, "ms": 50 });
        within(client.call("orphan", orphan)).await.unwrap_err();
        let (newest, _) = event(&mut events, connected).await;
        assert_eq!(newest, round + 1);
        assert_eq!(generation(&client), Some(newest));
        let names: Vec<String> = client
            .tools()
            .await
            .unwrap()
            .iter()
            .map(|t| t.name.clone())
            .collect();
        assert_eq!(names.contains(&"added".into()), round % 2 == 1);
        assert_eq!(names.contains(&"removed".into()), round % 2 == 0);
        assert_eq!(ping(&client).await, rig.pid());
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    within(client.close()).await;
    let (_, rest) = event(&mut events, |event| {
        matches!(event, Event::Closed).then_some(())
    })
    .await;
    let unnamed = |event: &&Event| matches!(event, Event::ToolsChanged { added, removed, .. } if added.len() + removed.len() == 0);
    assert_eq!(rest.iter().filter(unnamed).count(), 0, "{rest:?}");
    rig.deserted().await;
}

/// In the very task that learns of the death by its call, the state says so already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_state_flips_before_a_call_can_see_the_death() {
    let rig = Rig::legacy().policy(|policy| {
        policy.backoff.base = Duration::from_millis(1);
        policy.breaker.failures = 100;
    });
    let client = rig.connect().await;
    for round in 1..=10_u64 {
        ready(&client, round).await;
        let begun = rig.tap().method("tools/call").len();
        let calls: Vec<_> = (0..8)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    let ended = client.call("sleep", json!({ "ms": FOR_EVER })).await;
                    (ended, generation(&client))
                })
            })
            .collect();
        rig.received("tools/call", begun + 8).await;
        rig.signal(Signal::KILL);
        for call in calls {
            let (ended, seen) = within(call).await.unwrap();
            assert!(matches!(ended, Err(Error::ConnectionLost { .. })));
            assert_ne!(seen, Some(round), "the state of a dead link is not Ready");
        }
    }
}

/// Breaks the server for as long as a file is there, and waits until the breaker is open.
async fn broken(rig: Rig) -> (Rig, Client) {
    let broken = rig.path("broken");
    let rig = rig.knobs(&["--exit-at-start", "3", "--only-while", &broken]);
    let client = rig.connect().await;
    let mut events = client.events();
    rig.file("broken", "");
    rig.signal(Signal::KILL);
    let (cause, before) = event(&mut events, |event| match event {
        Event::Failed { cause } => Some(cause.clone()),
        _ => None,
    })
    .await;
    assert_eq!(cause.reason, Reason::Exited(Exit::Code(3)));
    let lost = before
        .iter()
        .filter(|event| matches!(event, Event::Lost { .. }));
    let retrying: Vec<u32> = before
        .iter()
        .filter_map(|event| match event {
            Event::Retrying { attempt, .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert_eq!(
        (lost.count(), &retrying[..]),
        (3, &[1, 2][..]),
        "{before:?}"
    );
    assert!(matches!(client.state(), State::Failed { .. }));
    (rig, client)
}

fn brittle(retry: Duration) -> Rig {
    Rig::legacy().policy(|policy| {
        policy.backoff.base = Duration::from_millis(1);
        policy.breaker.failures = 3;
        policy.breaker.retry = retry;
    })
}

#[tokio::test]
async fn fm_70_an_open_breaker_tells_why_and_a_call_closes_it() {
    let (rig, client) = broken(brittle(Duration::from_secs(3600))).await;
    let why = within(client.ready()).await.unwrap_err();
    assert!(matches!(
        &why,
        Error::Unavailable { cause: Some(cause), retry_after: Some(_), .. }
            if cause.reason == Reason::Exited(Exit::Code(3))
    ));
    // Calls are not held for a server that may never come.
    let refused = within(client.call("ping", json!({}))).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    assert!(refused.is_retryable());

    std::fs::remove_file(rig.path("broken")).unwrap();
    let mut events = client.events();
    within(async {
        // A call tries the server again, but not more often than it does any good.
        while client.call("ping", json!({})).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    event(&mut events, connected).await;
    within(client.ready()).await.unwrap();
}

#[tokio::test]
async fn fm_70_an_open_breaker_closes_by_itself_and_when_told_to() {
    let (rig, client) = broken(brittle(Duration::from_millis(200))).await;
    std::fs::remove_file(rig.path("broken")).unwrap();
    ready(&client, 4).await;
    ping(&client).await;

    let (rig, client) = broken(brittle(Duration::from_secs(3600))).await;
    std::fs::remove_file(rig.path("broken")).unwrap();
    client.reconnect();
    ready(&client, 4).await;
    ping(&client).await;
}

#[tokio::test]
async fn reconnect_puts_a_new_server_under_the_client() {
    for over in [Over::Pipes, Over::Socket] {
        let rig = Rig::legacy().over(over);
        let client = rig.connect().await;
        let first = ping(&client).await;
        let running = client.call("sleep", json!({ "ms": 100 })).start();
        client.reconnect();
        assert_eq!(within(running).await.unwrap().text(), "slept");
        ready(&client, 2).await;
        assert_ne!(ping(&client).await, first);
        until("the end of the first", || {
            (!rig.processes().contains(&first)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_slow_listener_misses_events_and_holds_up_nobody() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let mut slow = client.events();
    let mut quick = client.events();
    let counting = tokio::spawn(async move {
        let mut logs = 0;
        while let Some(event) = quick.next().await {
            logs += usize::from(matches!(event, Event::Log(_)));
            assert!(!matches!(event, Event::Missed(_)));
        }
        logs
    });
    for _ in 0..5 {
        within(client.call("flood", json!({ "count": 600 })))
            .await
            .unwrap();
        ping(&client).await;
    }
    within(client.close()).await;
    assert_eq!(within(counting).await.unwrap(), 3000);
    let Some(Event::Missed(missed)) = slow.next().await else {
        panic!("it missed some");
    };
    let mut rest = 0;
    while let Some(event) = slow.next().await {
        assert!(!matches!(event, Event::Missed(_)));
        rest += 1;
    }
    assert!(
        missed >= 1000 && rest >= 1000,
        "{missed} missed, {rest} kept"
    );
}

#[tokio::test]
async fn a_closed_client_says_so_everywhere() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let mut states = client.watch();
    let other = client.clone();
    within(client.close()).await;
    assert_eq!(other.state(), State::Closed);
    let not_sent = |error: Error| {
        assert_eq!(
            error,
            Error::ShuttingDown {
                outcome: Outcome::NotSent
            }
        );
    };
    not_sent(within(other.ready()).await.unwrap_err());
    not_sent(within(other.call("ping", json!({}))).await.unwrap_err());
    not_sent(other.notify("notifications/odd", json!({})).unwrap_err());
    not_sent(within(other.tools()).await.unwrap_err());
    within(other.close()).await;
    let mut seen = Vec::new();
    while let Some(state) = states.next().await {
        seen.push(state);
    }
    assert!(seen.first().is_some_and(State::is_ready));
    assert_eq!(seen.last(), Some(&State::Closed));
    assert!(other.events().next().await.is_none());
}
