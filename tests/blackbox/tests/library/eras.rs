//! Which era is spoken, and how that is found out.

use outlive::Error;
use outlive::client::{Era, State};
use outlive::error::Outcome;
use rustix::process::Signal;
use serde_json::json;

use crate::rig::{Rig, ping, ready, within};

const MODERN: &str = "2026-07-28";

#[tokio::test]
async fn a_modern_server_is_greeted_with_discover_alone() {
    for rig in [Rig::both(), Rig::modern()] {
        let client = rig.connect().await;
        assert_eq!(client.protocol_version(), Some(MODERN));
        assert!(matches!(client.state(), State::Ready { .. }));
        ping(&client).await;
        assert!(rig.tap().method("initialize").is_empty());
        let calls = rig.tap().method("tools/call");
        let meta = &calls[0]["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], MODERN);
        assert_eq!(
            meta["io.modelcontextprotocol/clientInfo"]["name"],
            "outlive"
        );
        assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());

        rig.signal(Signal::KILL);
        ready(&client, 2).await;
        ping(&client).await;
        assert!(rig.tap().method("initialize").is_empty());
    }
}

#[tokio::test]
async fn a_legacy_server_is_found_out_and_gets_its_handshake() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    assert_eq!(client.protocol_version(), Some("2025-11-25"));
    assert_eq!(rig.tap().pids().len(), 1, "without another process");
    ping(&client).await;
    let calls = rig.tap().method("tools/call");
    let meta = &calls[0]["params"]["_meta"];
    assert!(meta["io.modelcontextprotocol/protocolVersion"].is_null());
}

#[tokio::test]
async fn a_server_that_dies_of_discover_or_ignores_it_is_spoken_to_in_the_old_way() {
    for knob in ["--exit-on-discover", "--ignore-discover"] {
        let rig = Rig::both().knobs(&[knob]).policy(|policy| {
            policy.discover = std::time::Duration::from_millis(200);
        });
        let client = rig.connect().await;
        assert_eq!(client.protocol_version(), Some("2025-11-25"), "{knob}");
        ping(&client).await;
        assert_eq!(rig.tap().method("server/discover").len(), 1, "{knob}");
        // Nor is its successor asked.
        rig.signal(Signal::KILL);
        let generation = match client.state() {
            State::Ready { generation } => generation.number(),
            other => panic!("{other:?}"),
        };
        ready(&client, generation + 1).await;
        ping(&client).await;
        assert_eq!(rig.tap().method("server/discover").len(), 1, "{knob}");
    }
}

#[tokio::test]
async fn an_era_can_be_asked_for() {
    let rig = Rig::both().era(Era::Legacy);
    let client = rig.connect().await;
    assert_eq!(client.protocol_version(), Some("2025-11-25"));
    assert!(rig.tap().method("server/discover").is_empty());

    let rig = Rig::legacy().era(Era::Modern);
    let error = rig.try_connect().await.map(drop).unwrap_err();
    let Error::Protocol {
        what,
        outcome: Outcome::Done,
        ..
    } = &error
    else {
        panic!("{error:?}");
    };
    assert!(what.contains(MODERN), "{what}");
    rig.deserted().await;
}

/// A server that comes back with another version than the client holds is not lied about.
#[tokio::test]
async fn a_version_that_changes_with_the_restart_is_told() {
    let rig = Rig::legacy().knobs(&["--version-after-restart", "2024-11-05"]);
    let client = rig.connect().await;
    rig.signal(Signal::KILL);
    let refused = within(async {
        loop {
            match client.call("ping", json!({})).await {
                // Sent before the first server was known to be dead.
                Ok(_) | Err(Error::ConnectionLost { .. }) => {}
                Err(error) => return error,
            }
        }
    })
    .await;
    assert!(refused.to_string().contains("2024-11-05"), "{refused}");
    assert!(matches!(client.state(), State::Failed { .. }));
}
