//! Lists are merged, and calls reach the server they are for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use outlive::client::{Era, Event};
use outlive::gateway::{Filter, View};
use outlive::model::{
    ElicitRequest, ElicitResult, LogLevel, Object, Role, SamplingMessage, SamplingRequest,
    SamplingResult,
};
use outlive::server::{Ctx, ToolError};
use outlive::{Client, Error, Gateway, Server};
use serde_json::json;
use tokio::sync::Notify;

use crate::rig::{Fleet, in_time, named, named_server, said, tools, until};

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

#[tokio::test(flavor = "multi_thread")]
async fn all_servers_are_one_and_each_call_reaches_its_own() {
    for era in ERAS {
        let fleet = Fleet::of([("a", named("a")), ("b", named("b"))]).await;
        let client = fleet.client_of(era).await;
        let expected = ["a__who", "a__a", "b__who", "b__b"];
        assert_eq!(tools(&client).await, expected, "{era:?}");
        for (tool, by) in [
            ("a__who", "a"),
            ("b__who", "b"),
            ("a__a", "a"),
            ("b__b", "b"),
        ] {
            assert_eq!(said(&client, tool).await, by, "{era:?}");
        }
        let nobody = in_time(client.call("c__who", json!({}))).await;
        assert!(nobody.is_err(), "{era:?}: {nobody:?}");
        drop(client);
        fleet.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_server_is_at_its_own_path_and_each_view_shows_its_part() {
    let several = Gateway::of([("a", named("a")), ("b", named("b"))]);
    let view = View {
        servers: Filter::new(["b"], []),
        tools: Filter::new(["who"], []),
        ..View::default()
    };
    let fleet = Fleet::new(several.view("few", view)).await;
    for (path, expected) in [
        ("/a/mcp", &["who", "a"][..]),
        ("/b/mcp", &["who", "b"]),
        ("/view/few/mcp", &["b__who"]),
        ("/mcp", &["a__who", "a__a", "b__who", "b__b"]),
    ] {
        let builder = Client::builder().url(fleet.url(path)).era(Era::Legacy);
        let client = in_time(builder.connect()).await.expect("a client");
        assert_eq!(tools(&client).await, expected, "{path}");
    }
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_hides_is_hidden_at_its_own_path_too() {
    for era in ERAS {
        let a = named("a").tools(Filter::new(["who"], []));
        let fleet = Fleet::of([("a", a), ("b", named("b"))]).await;
        for (path, expected, hidden) in [
            ("/mcp", &["a__who", "b__who", "b__b"][..], "a__a"),
            ("/a/mcp", &["who"], "a"),
        ] {
            let builder = Client::builder().url(fleet.url(path)).era(era);
            let client = in_time(builder.connect()).await.expect("a client");
            assert_eq!(tools(&client).await, expected, "{era:?} {path}");
            assert_eq!(said(&client, expected[0]).await, "a", "{era:?} {path}");
            let refused = in_time(client.call(hidden, json!({}))).await;
            assert!(refused.is_err(), "{era:?} {path}: {refused:?}");
        }
        fleet.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_resources_and_completions_reach_their_servers() {
    for era in ERAS {
        let with = |name: &'static str| {
            let uri = format!("{name}://x");
            let server = Server::builder(name, "1")
                .prompt("say", "", move |_, (): ()| async move { name })
                .resource(uri, "x", move |_, _| async move { name });
            Gateway::server(&server.build())
        };
        let fleet = Fleet::of([("a", with("a")), ("b", with("b"))]).await;
        let client = fleet.client_of(era).await;
        let prompts = in_time(client.prompts()).await.expect("prompts");
        let names: Vec<&str> = prompts.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["a__say", "b__say"], "{era:?}");
        let prompt = in_time(client.prompt("b__say", json!({})))
            .await
            .expect("it");
        assert!(
            format!("{prompt:?}").contains("\"b\""),
            "{era:?}: {prompt:?}"
        );
        let resources = in_time(client.resources()).await.expect("resources");
        assert_eq!(resources.len(), 2, "{era:?}");
        for name in ["a", "b"] {
            let read = in_time(client.read_resource(&format!("{name}://x"))).await;
            let read = format!("{:?}", read.expect("a resource"));
            assert!(read.contains(&format!("{name:?}")), "{era:?}: {read}");
        }
        fleet.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_log_messages_of_a_call_reach_its_caller() {
    let talking = |name: &'static str| {
        let server =
            Server::builder(name, "1").tool("work", "", move |ctx: Ctx, (): ()| async move {
                ctx.log(LogLevel::Debug, "small");
                ctx.log(LogLevel::Error, format!("from {name}"));
                for step in 1..=3 {
                    ctx.progress(f64::from(step), Some(3.0));
                }
                name
            });
        Gateway::server(&server.build())
    };
    let fleet = Fleet::of([("a", talking("a")), ("b", talking("b"))]).await;
    let client = fleet.client().await;
    assert_eq!(tools(&client).await.len(), 2);
    in_time(client.set_log_level(LogLevel::Error))
        .await
        .expect("a level");
    let mut events = client.events();
    for tool in ["a__work", "b__work"] {
        let mut running = client.call(tool, json!({})).progress().start();
        let mut progress = running.progress().expect("progress");
        let mut seen = Vec::new();
        while seen.len() < 3 {
            let step = in_time(progress.next()).await.expect("a step");
            seen.push(step.progress);
        }
        assert_eq!(seen, [1.0, 2.0, 3.0]);
        in_time(running).await.expect("a result");
        let log = loop {
            if let Event::Log(log) = in_time(events.next()).await.expect("an event") {
                break format!("{log:?}");
            }
        };
        assert!(log.contains(&format!("from {}", &tool[..1])), "{log}");
    }
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_is_cancelled_at_its_server_and_nowhere_else() {
    for era in ERAS {
        let cancelled = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::new(Notify::new());
        let (counts, begun) = (cancelled.clone(), waiting.clone());
        let server = Server::builder("a", "1").tool("wait", "", move |ctx: Ctx, (): ()| {
            let (counts, begun) = (counts.clone(), begun.clone());
            async move {
                begun.notify_one();
                ctx.cancelled().await;
                counts.fetch_add(1, Ordering::SeqCst);
                "never heard"
            }
        });
        let a = Gateway::server(&server.build());
        let fleet = Fleet::of([("a", a), ("b", named("b"))]).await;
        let client = fleet.client_of(era).await;
        tools(&client).await;
        let running = client.call("a__wait", json!({})).start();
        in_time(waiting.notified()).await;
        drop(running);
        until("it is cancelled", async || {
            cancelled.load(Ordering::SeqCst) == 1
        })
        .await;
        assert_eq!(said(&client, "b__who").await, "b", "{era:?}");
        fleet.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_ask_the_person_and_the_model_through_the_router() {
    let asking = |name: &'static str| {
        let server =
            Server::builder(name, "1").tool("ask", "", move |ctx: Ctx, (): ()| async move {
                let failed = |error| ToolError::new(format!("{error:?}"));
                let schema =
                    json!({ "type": "object", "properties": { "x": { "type": "string" } } });
                let form = ElicitRequest::form(name, schema);
                let answer = ctx.elicit(&form).await.map_err(failed)?;
                let question = SamplingMessage::new(Role::User, name);
                let request = SamplingRequest::new(vec![question], 10);
                let sampled = ctx.sample(&request).await.map_err(failed)?;
                Ok::<_, ToolError>(format!("{:?} {}", answer.action, sampled.model))
            });
        Gateway::server(&server.build())
    };
    let fleet = Fleet::of([("a", asking("a")), ("b", asking("b"))]).await;
    let elicit = |asked: ElicitRequest| async move {
        assert!(["a", "b"].contains(&&*asked.message), "{asked:?}");
        Ok(ElicitResult::accept(Object::new()))
    };
    let sample = |_: SamplingRequest| async { Ok(SamplingResult::new("the model", "so")) };
    let builder = fleet.client_builder().elicitation(elicit).sampling(sample);
    let client = in_time(builder.connect()).await.expect("a client");
    assert_eq!(tools(&client).await, ["a__ask", "b__ask"]);
    // Both at once: their questions have the same ids.
    let both = async { tokio::join!(said(&client, "a__ask"), said(&client, "b__ask")) };
    let (a, b) = in_time(both).await;
    assert_eq!((&*a, &*b), ("Accept the model", "Accept the model"));
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_is_followed_at_its_server() {
    for era in ERAS {
        let server = named_server("a")
            .resource("a://x", "x", |_, _| async { "x" })
            .build();
        let handle = server.handle();
        let fleet = Fleet::of([("a", Gateway::server(&server)), ("b", named("b"))]).await;
        let client = fleet.client_of(era).await;
        tools(&client).await;
        let mut events = client.events();
        in_time(client.subscribe("a://x")).await.expect("followed");
        handle.resource_updated("a://x");
        let uri = loop {
            if let Event::ResourceUpdated { uri, .. } = in_time(events.next()).await.expect("more")
            {
                break uri;
            }
        };
        assert_eq!(&*uri, "a://x", "{era:?}");
        in_time(client.unsubscribe("a://x"))
            .await
            .expect("not any more");
        fleet.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_session_is_told_what_is_wrong_with_a_name() {
    let fleet = Fleet::of([("a", named("a"))]).await;
    let client = fleet.client_of(Era::Modern).await;
    let wrong = in_time(client.call("a__nothing", json!({}))).await;
    assert!(matches!(wrong, Err(Error::Remote { .. })), "{wrong:?}");
    fleet.end().await;
}
