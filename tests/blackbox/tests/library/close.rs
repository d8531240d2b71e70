//! The end of a client: bounded, and nothing stays behind.

use std::collections::HashSet;
use std::time::Duration;

use outlive::client::{Event, State};
use outlive::error::Outcome;
use outlive::{Client, Command, Error};
use rustix::process::Signal;
use serde_json::json;

use crate::rig::{FOR_EVER, Over, Rig, event, ping, within};

const SHORT: Duration = Duration::from_millis(100);

/// The pipes of a process, by their numbers in the kernel.
fn pipes(pid: u32, wanted: impl Fn(&str) -> bool) -> HashSet<String> {
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
    fds.flatten()
        .filter(|fd| wanted(fd.file_name().to_str().unwrap_or_default()))
        .filter_map(|fd| {
            std::fs::read_link(fd.path())
                .ok()?
                .to_str()
                .map(String::from)
        })
        .filter(|target| target.starts_with("pipe:") || target.starts_with("socket:"))
        .collect()
}

#[tokio::test]
async fn close_leaves_no_process_and_no_descriptor_behind() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let theirs = pipes(ping(&client).await, |fd| matches!(fd, "0" | "1" | "2"));
    let ours = pipes(std::process::id(), |_| true);
    assert!(
        theirs.intersection(&ours).count() >= 3,
        "{theirs:?} {ours:?}"
    );
    within(client.close()).await;
    assert_eq!(rig.processes(), [0; 0], "gone when close() returns");
    let ours = pipes(std::process::id(), |_| true);
    assert_eq!(theirs.intersection(&ours).count(), 0);
    assert_eq!(rig.tap().notes("eof").len(), 1, "it was asked politely");
}

#[tokio::test]
async fn fm_67_close_is_bounded_whatever_the_server_does() {
    // Deaf to the end of its input and to SIGTERM.
    let rig = Rig::legacy().knobs(&["--ignore-eof"]).policy(|policy| {
        policy.stop_grace = SHORT;
        policy.term_grace = SHORT;
    });
    let fake = rig.command();
    let words = fake
        .args
        .iter()
        .map(|word| format!("'{}'", word.to_str().unwrap()));
    let words: Vec<String> = words.collect();
    let script = format!(
        "trap '' TERM; {} {}",
        fake.program.to_str().unwrap(),
        words.join(" ")
    );
    let mut command = Command::new("sh", ["-c", &script]);
    command.env = fake.env;
    let builder = Client::builder()
        .policy(rig.policy.clone())
        .command(command);
    let client = within(builder.connect()).await.unwrap();
    assert!(
        rig.processes().len() >= 2,
        "the shell and the server behind it"
    );
    within(client.close()).await;
    rig.deserted().await;

    // A descendant that holds its pipes and ignores SIGTERM.
    let rig = Rig::legacy();
    let client = rig.connect().await;
    within(client.call("orphan", json!({}))).await.unwrap();
    within(client.close()).await;
    rig.deserted().await;

    // Stopped by the operating system.
    let rig = Rig::legacy().policy(|policy| {
        policy.stop_grace = SHORT;
        policy.term_grace = SHORT;
    });
    let client = rig.connect().await;
    rig.signal(Signal::STOP);
    within(client.close()).await;
    rig.deserted().await;
}

#[tokio::test]
async fn fm_56_close_lets_running_calls_finish() {
    for over in [Over::Pipes, Over::Socket] {
        let rig = Rig::legacy()
            .over(over)
            .policy(|policy| policy.drain = Duration::from_secs(30));
        let client = rig.connect().await;
        let calls: Vec<_> = (0..3)
            .map(|_| client.call("sleep", json!({ "ms": 200 })).start())
            .collect();
        let closing = tokio::spawn({
            let client = client.clone();
            async move { client.close().await }
        });
        for call in calls {
            assert_eq!(within(call).await.unwrap().text(), "slept");
        }
        within(closing).await.unwrap();
        rig.deserted().await;
    }
}

#[tokio::test]
async fn fm_20_closing_settles_everything_that_runs() {
    for over in [Over::Pipes, Over::Socket] {
        let rig = Rig::legacy()
            .over(over)
            .policy(|policy| policy.drain = SHORT);
        let client = rig.connect().await;
        let calls: Vec<_> = (0..50)
            .map(|_| client.call("sleep", json!({ "ms": FOR_EVER })).start())
            .collect();
        rig.received("tools/call", 50).await;
        within(client.close()).await;
        for call in calls {
            let ended = within(call).await.unwrap_err();
            assert_eq!(
                ended,
                Error::ShuttingDown {
                    outcome: Outcome::Unknown
                }
            );
        }
        rig.deserted().await;
        assert_eq!(rig.tap().method("notifications/cancelled").len(), 50);
    }
}

#[tokio::test]
async fn dropping_the_last_handle_closes() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let mut events = client.events();
    let mut states = client.watch();
    let tool = within(client.tools()).await.unwrap().remove(0);
    let call = client.call("sleep", json!({ "ms": 50 })).start();
    drop(client);
    // A tool and a running call are handles too.
    within(tool.call(json!({}))).await.unwrap();
    drop(tool);
    within(call).await.unwrap();
    event(&mut events, |event| {
        matches!(event, Event::Closed).then_some(())
    })
    .await;
    assert!(events.next().await.is_none());
    let mut last = None;
    while let Some(state) = states.next().await {
        last = Some(state);
    }
    assert_eq!(last, Some(State::Closed));
    assert_eq!(rig.processes(), [0; 0]);
}

/// Whatever the client is doing when it is closed, it ends.
#[tokio::test]
async fn close_works_in_every_state() {
    // Between two servers, with a long wait ahead.
    let rig = Rig::legacy().policy(|policy| {
        policy.backoff.base = Duration::from_secs(3600);
        policy.backoff.cap = Duration::from_secs(3600);
    });
    let broken = rig.path("broken");
    let rig = rig.knobs(&["--exit-at-start", "3", "--only-while", &broken]);
    let client = rig.connect().await;
    rig.file("broken", "");
    let mut events = client.events();
    rig.signal(Signal::KILL);
    event(&mut events, |event| match event {
        Event::Retrying { attempt: 2, .. } => Some(()),
        _ => None,
    })
    .await;
    within(client.close()).await;
    assert_eq!(client.state(), State::Closed);

    // While a server that is stopped is to be replaced.
    let rig = Rig::legacy().policy(|policy| {
        policy.drain = SHORT;
        policy.stop_grace = SHORT;
        policy.term_grace = SHORT;
    });
    let client = rig.connect().await;
    rig.signal(Signal::STOP);
    let held = client.call("ping", json!({})).start();
    client.reconnect();
    let ended = within(async { tokio::join!(held, client.close()) }).await;
    assert!(ended.0.is_err(), "{:?}", ended.0);
    rig.deserted().await;

    // Twice, and by several at once.
    let rig = Rig::legacy();
    let client = rig.connect().await;
    within(async { tokio::join!(client.close(), client.close(), client.close()) }).await;
    within(client.close()).await;
    rig.deserted().await;
}
