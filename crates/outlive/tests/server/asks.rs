//! A handler talks to its client while it works.

use std::time::Duration;

use outlive::model::{ElicitRequest, LogLevel, Role, SamplingMessage, SamplingRequest};
use outlive::server::{AskError, CancelReason, Ctx, Server, ToolError};
use serde_json::{Value, json};

use crate::rig::{Client, on_both_runtimes, soon, text};

fn form() -> ElicitRequest {
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    ElicitRequest::form("Who are you?", schema)
}

async fn ask_all(ctx: Ctx, (): ()) -> Result<String, ToolError> {
    let failed = |error: AskError| ToolError::new(error.kind());
    let answer = ctx.elicit(&form()).await.map_err(failed)?;
    let name = answer.content.unwrap_or_default()["name"].clone();
    let question = SamplingMessage::new(Role::User, "Why?");
    let request = SamplingRequest::new(vec![question], 10);
    let sampled = ctx.sample(&request).await.map_err(failed)?;
    let roots = ctx.roots().await.map_err(failed)?;
    Ok(format!("{name} {} {}", sampled.model, roots[0].uri))
}

fn asking() -> Server {
    Server::builder("asking", "1")
        .tool("ask", "", ask_all)
        .tool("once", "", |ctx, (): ()| async move {
            match ctx.elicit(&form()).await {
                Ok(answer) => format!("{:?}", answer.action),
                Err(error) => error.kind().to_owned(),
            }
        })
        .tool("both", "", |ctx: Ctx, (): ()| async move {
            let asked = [
                ("elicitation/create", json!(form())),
                ("roots/list", json!({})),
            ];
            let answers = ctx.request_all(asked).await;
            format!("{}", answers.iter().filter(|answer| answer.is_ok()).count())
        })
        .tool("impatient", "", |ctx, (): ()| async move {
            let form = form();
            let asking = ctx.elicit(&form);
            match tokio::time::timeout(Duration::from_millis(10), asking).await {
                Ok(_) => "answered",
                Err(_) => "gave up",
            }
        })
        .tool("work", "", |ctx, (): ()| async move {
            ctx.progress(1.0, Some(3.0));
            ctx.progress(1.0, Some(3.0));
            ctx.progress_message(2.0, Some(3.0), "nearly");
            ctx.log(LogLevel::Debug, "small");
            ctx.log_as("engine", LogLevel::Error, json!({ "big": true }));
            ctx.notify("notifications/custom", json!({ "x": 1 }));
            "worked"
        })
        .build()
}

fn answer(request: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })
}

#[test]
fn a_handler_asks_the_person_the_model_and_the_client() {
    on_both_runtimes(|| async {
        let mut client = Client::legacy(&asking()).await;
        client.begin_call(1, "ask", json!({})).await;
        let asked = client.told("elicitation/create").await;
        assert_eq!(asked["params"]["message"], "Who are you?");
        let accepted = json!({ "action": "accept", "content": { "name": "Ada" } });
        client.send(&answer(&asked, accepted)).await;
        let asked = client.told("sampling/createMessage").await;
        assert_eq!(asked["params"]["maxTokens"], 10);
        let sampled = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "so" } });
        client.send(&answer(&asked, sampled)).await;
        let asked = client.told("roots/list").await;
        client
            .send(&answer(
                &asked,
                json!({ "roots": [{ "uri": "file:///w" }] }),
            ))
            .await;
        let done = client.answer_to(1).await;
        assert_eq!(text(&done), r#""Ada" m file:///w"#);
        client.vanish().await;
    });
}

#[test]
fn an_answer_that_is_an_error_or_nonsense_is_an_error_for_the_handler() {
    on_both_runtimes(|| async {
        let mut client = Client::legacy(&asking()).await;
        client.begin_call(1, "once", json!({})).await;
        let asked = client.told("elicitation/create").await;
        let error = json!({ "code": -1, "message": "no" });
        client
            .send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error }))
            .await;
        assert_eq!(text(&client.answer_to(1).await), "remote");
        client.begin_call(2, "once", json!({})).await;
        let asked = client.told("elicitation/create").await;
        client.send(&answer(&asked, json!({ "action": 7 }))).await;
        assert_eq!(text(&client.answer_to(2).await), "protocol");
        client.vanish().await;
    });
}

#[test]
fn a_client_without_the_capability_is_not_asked() {
    on_both_runtimes(|| async {
        let mut client = Client::connect(&asking());
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "poor", "version": "1" },
        });
        client.request("i", "initialize", params).await;
        let refused = client.call(1, "once", json!({})).await;
        assert_ne!(text(&refused), "Accept");
        assert_eq!(client.kept(), [] as [Value; 0], "nothing was asked");
        client.vanish().await;
    });
}

#[test]
fn what_is_given_up_is_taken_back_once() {
    on_both_runtimes(|| async {
        let mut client = Client::legacy(&asking()).await;
        client.begin_call(1, "impatient", json!({})).await;
        let asked = client.told("elicitation/create").await;
        assert_eq!(text(&client.answer_to(1).await), "gave up");
        let cancelled = client.told("notifications/cancelled").await;
        assert_eq!(cancelled["params"]["requestId"], asked["id"]);
        // Too late, and harmless.
        client
            .send(&answer(&asked, json!({ "action": "decline" })))
            .await;
        client.ping("last").await;
        assert_eq!(client.kept(), [] as [Value; 0]);
        client.vanish().await;
    });
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "rig", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": { "form": {} }, "roots": {} },
    })
}

#[test]
fn a_modern_client_is_asked_by_way_of_its_answer() {
    on_both_runtimes(|| async {
        let mut client = Client::connect(&asking());
        let params = json!({ "_meta": meta(), "name": "both" });
        let first = client.request(1, "tools/call", params).await;
        assert_eq!(first["result"]["resultType"], "input_required");
        let requests = first["result"]["inputRequests"].as_object().unwrap();
        assert_eq!(requests.len(), 2, "both in one round trip");
        let mut responses = serde_json::Map::new();
        for (key, request) in requests {
            let result = match request["method"].as_str() {
                Some("elicitation/create") => json!({ "action": "decline" }),
                Some("roots/list") => json!({ "roots": [] }),
                method => panic!("{method:?}"),
            };
            responses.insert(key.clone(), result);
        }
        let params = json!({
            "_meta": meta(), "name": "both",
            "inputResponses": responses, "requestState": first["result"]["requestState"],
        });
        let second = client.request(2, "tools/call", params.clone()).await;
        assert_eq!(second["result"]["resultType"], "complete");
        assert_eq!(text(&second), "2");
        // The state is used up.
        let again = client.request(3, "tools/call", params).await;
        assert!(again.get("error").is_some(), "{again}");
        client.vanish().await;
    });
}

#[test]
fn a_modern_client_that_does_not_come_back_is_waited_for_no_longer_than_told() {
    on_both_runtimes(|| async {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let server = Server::builder("asking", "1")
            .tool("once", "", move |ctx: Ctx, (): ()| {
                let tell = tell.clone();
                async move {
                    let form = form();
                    let asking = ctx.elicit(&form);
                    // Whichever is seen first: the question ends with the request.
                    tokio::select! {
                        _ = ctx.cancelled() => {}
                        _ = asking => {}
                    }
                    // Nobody listens only if the test has failed.
                    let _ = tell.send(ctx.reason());
                }
            })
            .parked_for(Duration::from_millis(10))
            .build();
        let mut client = Client::connect(&server);
        let params = json!({ "_meta": meta(), "name": "once" });
        let asked = client.request(1, "tools/call", params).await;
        assert_eq!(asked["result"]["resultType"], "input_required");
        let reason = soon(told.recv()).await.expect("a handler");
        assert_eq!(reason, Some(CancelReason::Deadline));
        client.vanish().await;
    });
}

#[test]
fn progress_and_log_messages_reach_only_who_wants_them() {
    on_both_runtimes(|| async {
        let mut client = Client::legacy(&asking()).await;
        client
            .request("level", "logging/setLevel", json!({ "level": "warning" }))
            .await;
        let params = json!({ "name": "work", "_meta": { "progressToken": "t" } });
        let done = client.request(1, "tools/call", params).await;
        assert_eq!(text(&done), "worked");
        let params: Vec<_> = client
            .kept()
            .iter()
            .map(|message| message["params"].clone())
            .collect();
        let expected = [
            json!({ "progressToken": "t", "progress": 1, "total": 3 }),
            json!({ "progressToken": "t", "progress": 2, "total": 3, "message": "nearly" }),
            json!({ "level": "error", "logger": "engine", "data": { "big": true } }),
            json!({ "x": 1 }),
        ];
        assert_eq!(params, expected);

        // Without a token there is no progress.
        let mut silent = Client::legacy(&asking()).await;
        silent
            .request("level", "logging/setLevel", json!({ "level": "emergency" }))
            .await;
        silent.call(1, "work", json!({})).await;
        let methods: Vec<_> = silent
            .kept()
            .iter()
            .map(|message| message["method"].clone())
            .collect();
        assert_eq!(methods, ["notifications/custom"]);
        client.vanish().await;
        silent.vanish().await;
    });
}
