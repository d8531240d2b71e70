//! Typed calls: what a server has, and what can be asked of it.

use std::time::Duration;

use outlive::client::{Era, Event};
use outlive::error::Outcome;
use outlive::model::{CompletionRef, Content, LogLevel, Object};
use outlive::{Client, Error};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::rig::{FOR_EVER, Rig, event, ping, within};

/// One client for each era.
async fn both_eras() -> [(Rig, Client); 2] {
    let (legacy, modern) = (Rig::both().era(Era::Legacy), Rig::both().era(Era::Modern));
    let clients = (legacy.connect().await, modern.connect().await);
    [(legacy, clients.0), (modern, clients.1)]
}

#[tokio::test]
async fn everything_a_server_has_can_be_asked_for_in_both_eras() {
    for (rig, client) in both_eras().await {
        assert_eq!(client.server_info().expect("a name").name, "fake");
        assert!(client.capabilities().expect("capabilities").tools.is_some());
        within(client.ping()).await.unwrap();

        let tools = within(client.tools()).await.unwrap();
        let hinted = tools.iter().find(|tool| tool.name == "append_read");
        let annotations = hinted.expect("a tool").annotations.as_ref();
        assert_eq!(annotations.expect("annotations").read_only_hint, Some(true));

        let resources = within(client.resources()).await.unwrap();
        assert_eq!(resources[0].uri, "mem://a");
        let templates = within(client.resource_templates()).await.unwrap();
        assert_eq!(templates[0].uri_template, "mem://{name}");
        let read = within(client.read_resource("mem://a")).await.unwrap();
        assert_eq!(read.contents[0].text.as_deref(), Some("content"));

        let prompts = within(client.prompts()).await.unwrap();
        assert_eq!(prompts[0].name, "greet");
        let prompt = within(client.prompt("greet", json!({ "words": "hello" })))
            .await
            .unwrap();
        assert_eq!(prompt.messages[0].content.as_text(), Some("hello"));
        let completion = within(client.complete(CompletionRef::prompt("greet"), "words", "Hel"));
        assert_eq!(completion.await.unwrap().values, ["Helland", "Helwig"]);

        let result = within(client.call("echo", json!({ "text": "x" })))
            .await
            .unwrap();
        assert!(matches!(&result.content[..], [Content::Text(text)] if text.text == "x"));

        within(client.set_log_level(LogLevel::Info)).await.unwrap();
        let mut events = client.events();
        within(client.call("flood", json!({ "count": 1 })))
            .await
            .unwrap();
        let (log, _) = event(&mut events, |event| match event {
            Event::Log(message) => Some(message.clone()),
            _ => None,
        })
        .await;
        assert_eq!((log.level, &log.data["n"]), (LogLevel::Info, &json!(0)));

        let raw: Object = within(client.request("prompts/list", Value::Null))
            .await
            .unwrap();
        assert!(raw.contains_key("prompts"));
        client
            .notify("notifications/odd", json!({ "a": 1 }))
            .unwrap();
        ping(&client).await;
        assert_eq!(rig.tap().method("notifications/odd")[0]["params"]["a"], 1);
        let call = client
            .call("ping", json!({}))
            .meta("com.example/trace", "t-1");
        within(call).await.unwrap();
        let calls = rig.tap().method("tools/call");
        let meta = &calls.last().unwrap()["params"]["_meta"];
        assert_eq!(meta["com.example/trace"], "t-1");
        within(client.close()).await;
    }
}

#[tokio::test]
async fn subscriptions_are_told_in_both_eras() {
    for (rig, client) in both_eras().await {
        let mut events = client.events();
        within(client.subscribe("mem://a")).await.unwrap();
        within(client.subscribe("mem://b")).await.unwrap();
        for uri in ["mem://b", "mem://a"] {
            within(client.call("touch", json!({ "uri": uri })))
                .await
                .unwrap();
            let (told, _) = event(&mut events, |event| match event {
                Event::ResourceUpdated { uri } => Some(uri.clone()),
                _ => None,
            })
            .await;
            assert_eq!(told, uri);
        }
        within(client.unsubscribe("mem://b")).await.unwrap();
        within(client.unsubscribe("mem://unknown")).await.unwrap();
        within(client.call("touch", json!({ "uri": "mem://b" })))
            .await
            .unwrap();
        within(client.close()).await;
        let (_, rest) = event(&mut events, |event| {
            matches!(event, Event::Closed).then_some(())
        })
        .await;
        assert!(
            !rest
                .iter()
                .any(|event| matches!(event, Event::ResourceUpdated { .. })),
            "{rest:?}"
        );
        drop(rig);
    }
}

#[tokio::test]
async fn lists_are_followed_page_by_page_also_when_their_cursors_go_in_a_circle() {
    let whole = Rig::legacy();
    let all: Vec<String> = names(&whole.connect().await).await;
    for knobs in [
        &["--page", "7"][..],
        &["--page", "7", "--repeat-cursor"][..],
    ] {
        let rig = Rig::legacy().knobs(knobs);
        let client = rig.connect().await;
        let found = names(&client).await;
        assert_eq!(found[..all.len()], all[..], "{knobs:?}");
        let pages = all.len().div_ceil(7);
        // A circle is noticed when its first page comes again.
        let most = pages + usize::from(knobs.len() > 2) * pages;
        assert!(rig.tap().method("tools/list").len() <= most);
    }
}

async fn names(client: &Client) -> Vec<String> {
    let tools = within(client.tools()).await.unwrap();
    tools.iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn a_raw_result_has_the_bytes_the_server_sent() {
    let oddly =
        "{ \"z\" : 1.50e+2,\t\"content\":[ ],\"a\":\"\\u0041\\/\", \"z2\":12345678901234567890 }";
    for (_rig, client) in both_eras().await {
        let call = client.call("answer_as", json!({ "as": "spelt" }));
        let raw: Box<RawValue> = within(call.raw()).await.unwrap();
        assert_eq!(raw.get(), oddly);
        let params = json!({ "name": "answer_as", "arguments": { "as": "spelt" } });
        let raw: Box<RawValue> = within(client.request("tools/call", params)).await.unwrap();
        assert_eq!(raw.get(), oddly);
    }
}

/// What cannot be sent fails before it is; what cannot be read fails with what it was.
#[tokio::test]
async fn unusable_parameters_and_results_are_told_apart() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let unsendable = within(client.request::<Value>("tools/list", json!([1])))
        .await
        .unwrap_err();
    assert!(matches!(
        unsendable,
        Error::Protocol {
            outcome: Outcome::NotSent,
            ..
        }
    ));
    let unusable = within(client.request::<Vec<u8>>("prompts/list", Value::Null))
        .await
        .unwrap_err();
    assert!(matches!(
        unusable,
        Error::Protocol {
            outcome: Outcome::Done,
            ..
        }
    ));
    let unknown = within(client.request::<Value>("no/such", Value::Null))
        .await
        .unwrap_err();
    assert!(matches!(unknown, Error::Remote { code: -32601, .. }));
    ping(&client).await;
}

#[tokio::test]
async fn progress_is_a_stream_that_ends_with_the_call() {
    for (rig, client) in both_eras().await {
        let tick = client.call("tick", json!({ "ticks": 3, "ms": 1 }));
        let mut call = tick.progress().start();
        let mut progress = call.progress().expect("a stream");
        assert!(call.progress().is_none(), "it can be taken once");
        let mut steps = Vec::new();
        while let Some(step) = within(progress.next()).await {
            steps.push(step.progress);
        }
        assert_eq!(steps, [1.0, 2.0, 3.0]);
        assert_eq!(within(call).await.unwrap().text(), "ticked");
        assert!(client.call("ping", json!({})).start().progress().is_none());

        // However the call ends: cancelled, dropped, timed out, its server gone, closed.
        let tick = || {
            let tick = client.call("tick", json!({ "ticks": FOR_EVER, "ms": 5 }));
            let mut call = tick.progress().timeout(Duration::from_secs(3600)).start();
            let progress = call.progress().expect("a stream");
            (call, progress)
        };
        let drained = |mut progress: outlive::client::Listen<outlive::model::Progress>| async move {
            within(async { while progress.next().await.is_some() {} }).await;
        };
        let (call, mut progress) = tick();
        within(progress.next()).await.expect("a step");
        call.canceller().cancel("enough");
        drained(progress).await;
        assert_eq!(within(call).await.unwrap_err(), Error::CancelledByCaller);

        let (call, mut progress) = tick();
        within(progress.next()).await.expect("a step");
        drop(call);
        drained(progress).await;

        let (call, mut progress) = tick();
        within(progress.next()).await.expect("a step");
        rig.signal(rustix::process::Signal::KILL);
        drained(progress).await;
        assert!(matches!(
            within(call).await,
            Err(Error::ConnectionLost { .. })
        ));

        let (call, mut progress) = tick();
        within(progress.next()).await.expect("a step");
        within(client.close()).await;
        drained(progress).await;
        assert!(matches!(
            within(call).await,
            Err(Error::ShuttingDown { .. })
        ));

        let (call, progress) = tick();
        drained(progress).await;
        let not_sent = Error::ShuttingDown {
            outcome: Outcome::NotSent,
        };
        assert_eq!(within(call).await.unwrap_err(), not_sent);
    }
}

#[tokio::test]
async fn fm_62_stray_progress_is_dropped() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let server = ping(&client).await;
    let mut call = client.call("progress", json!({})).progress().start();
    let mut progress = call.progress().expect("a stream");
    let mut steps = Vec::new();
    while let Some(step) = within(progress.next()).await {
        steps.push(step.progress);
    }
    assert_eq!(steps, [1.0, 2.0], "neither the invented nor the late ones");
    assert_eq!(within(call).await.unwrap().text(), "progressed");
    assert_eq!(ping(&client).await, server);
}
