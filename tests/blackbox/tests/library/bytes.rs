//! What a server writes, however it writes it.

use outlive::Error;
use outlive::client::{DropReason, Event};
use outlive::error::Outcome;
use serde_json::json;

use crate::rig::{Over, Rig, event, ping, within};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fm_57_trickled_answers_arrive_whole() {
    for over in [Over::Pipes, Over::Socket] {
        let rig = Rig::legacy().knobs(&["--trickle"]).over(over);
        let client = rig.connect().await;
        let calls: Vec<_> = (0..50)
            .map(|n| {
                let text = format!("{n}-{}", "é".repeat(1000 + 37 * n));
                (client.call("echo", json!({ "text": text })).start(), text)
            })
            .collect();
        for (call, text) in calls {
            assert_eq!(within(call).await.unwrap().text(), text);
        }
    }
}

#[tokio::test]
async fn fm_58_bytes_that_are_not_utf_8_end_nothing() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let server = ping(&client).await;
    let mut events = client.events();
    let junk = [
        &b"\xff\xfe"[..],
        b"\xc3\x28",
        b"a\0b",
        b"{\"x\":\"\xf0\x9f\"}",
        b"Listening\x1b[0m",
    ];
    let lines: Vec<String> = junk.iter().map(|bytes| hex(bytes)).collect();
    within(client.call("junk", json!({ "hex": lines })))
        .await
        .unwrap();
    for _ in &junk {
        event(&mut events, |event| match event {
            Event::Dropped {
                reason: DropReason::NotAMessage,
                ..
            } => Some(()),
            _ => None,
        })
        .await;
    }
    // An answer that cannot be read settles its call: there will be no other.
    let call = client.call("answer_as", json!({ "as": "bad-utf8" }));
    let unreadable = within(call).await.unwrap_err();
    assert!(
        matches!(
            unreadable,
            Error::Protocol {
                unreadable: true,
                outcome: Outcome::Done,
                ..
            }
        ),
        "{unreadable:?}"
    );
    assert_eq!(ping(&client).await, server);
}

#[tokio::test]
async fn fm_60_huge_messages_harm_nobody() {
    let limit = 1 << 20;
    let rig = Rig::legacy().policy(|policy| policy.limits.message = limit);
    let client = rig.connect().await;
    let server = ping(&client).await;
    let meanwhile = client.call("sleep", json!({ "ms": 100 })).start();
    let huge = |bytes: usize| client.call("huge", json!({ "bytes": bytes }));
    assert_eq!(
        within(huge(limit - 1000)).await.unwrap().text().len(),
        limit - 1000
    );
    let answer = within(huge(limit + 1)).await.unwrap_err();
    assert_eq!(
        answer,
        Error::TooLarge {
            limit,
            answer: true
        }
    );
    let request = client.call("echo", json!({ "text": "x".repeat(limit) }));
    let request = within(request).await.unwrap_err();
    assert_eq!(
        request,
        Error::TooLarge {
            limit,
            answer: false
        }
    );
    assert_eq!(within(meanwhile).await.unwrap().text(), "slept");
    assert_eq!(ping(&client).await, server);

    // Five megabytes pass by default.
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let huge = client.call("huge", json!({ "bytes": 5_000_000 }));
    assert_eq!(within(huge).await.unwrap().text().len(), 5_000_000);
}

#[tokio::test]
async fn fm_61_answers_are_matched_or_dropped_and_nothing_hangs() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let server = ping(&client).await;
    let answer_as = |how: &str| client.call("answer_as", json!({ "as": how }));
    // The right id in the wrong type.
    assert_eq!(within(answer_as("string")).await.unwrap().text(), "string");
    // An error that names nobody is for the only one there is.
    let error = within(answer_as("null")).await.unwrap_err();
    assert!(
        matches!(error, Error::Remote { code: -32700, .. }),
        "{error:?}"
    );
    // A result and an error at once is neither.
    let both = within(answer_as("both")).await.unwrap_err();
    assert!(
        matches!(
            both,
            Error::Protocol {
                outcome: Outcome::Done,
                ..
            }
        ),
        "{both:?}"
    );
    // One answer per call, whatever the server sends.
    let first = within(client.call("twice", json!({}))).await.unwrap();
    assert_eq!(first.structured_content, Some(json!({ "n": 1 })));
    // An answer to nothing that was asked is dropped; the call is not settled by it.
    let mut events = client.events();
    let call = answer_as("nobody-asked").start();
    event(&mut events, |event| match event {
        Event::Dropped {
            reason: DropReason::UnknownAnswer,
            ..
        } => Some(()),
        _ => None,
    })
    .await;
    drop(call);
    assert_eq!(ping(&client).await, server);
}

/// A tool's own child writes to the output it has inherited (FM-65).
#[tokio::test]
async fn fm_65_words_of_a_tools_child_are_not_the_protocol() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let server = ping(&client).await;
    let mut events = client.events();
    let orphan = json!({ "say": "npm notice: a new version is out", "ms": 10 });
    within(client.call("orphan", orphan)).await.unwrap();
    let (detail, _) = event(&mut events, |event| match event {
        Event::Dropped {
            reason: DropReason::NotAMessage,
            detail,
        } => Some(detail.clone()),
        _ => None,
    })
    .await;
    assert!(detail.contains("npm notice"), "{detail}");
    assert_eq!(ping(&client).await, server);
    within(client.close()).await;
    rig.deserted().await;
}
