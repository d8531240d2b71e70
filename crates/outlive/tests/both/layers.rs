//! What is done around calls of tools.

use std::sync::{Arc, Mutex};

use outlive::model::{RpcError, Tool};
use outlive::server::{Ctx, Json, Next, Responder, ToolResult};
use outlive::{Client, Error, Server};
use serde_json::json;

use super::in_time;

/// What happened, in order.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().expect("no panic").push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

/// Two layers: the outer one writes down what it sees, the inner one answers in the place of some tools.
fn guarded(journal: &Journal) -> Server {
    let (noted, opened) = (journal.clone(), journal.clone());
    Server::builder("safe", "1")
        .layer(move |_: Ctx, next: Next| {
            let noted = noted.clone();
            async move {
                let tool = next.tool().to_owned();
                let result = next.run().await;
                noted.note(match &result {
                    Ok(result) if result.is_error() => format!("{tool} failed"),
                    Ok(_) => format!("{tool} done"),
                    Err(refusal) => format!("{tool} refused: {}", refusal.message),
                });
                result
            }
        })
        .layer(|ctx: Ctx, next: Next| async move {
            assert_eq!(ctx.method(), "tools/call");
            match next.tool() {
                "open" | "open_later" => Ok(ToolResult::failure("Nobody may.")),
                "secret" => Err(RpcError::invalid_params("What secret?")),
                "bomb" => panic!("of a layer"),
                _ => next.run().await,
            }
        })
        .tool("open", "", move |_, (): ()| {
            opened.note("it is open");
            async { "open" }
        })
        .tool("secret", "", |_, (): ()| async { "secret" })
        .tool("bomb", "", |_, (): ()| async { "bomb" })
        .tool("count", "", |_, (): ()| async { Json(7) })
        .tool("fail", "", |_, (): ()| async { Err::<(), _>("no") })
        .tool_responding(Tool::new("open_later"), {
            let opened = journal.clone();
            move |_: Ctx, responder: Responder| {
                opened.note("it is open");
                async move { responder.respond(&json!({ "content": [] })) }
            }
        })
        .tool_responding(Tool::new("later"), |_, responder: Responder| async move {
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                responder.respond(
                    &json!({ "content": [{ "type": "text", "text": "late" }], "isError": true }),
                );
            });
        })
        .tool_responding(Tool::new("never"), |_, responder: Responder| async move {
            drop(responder);
        })
        .build()
}

#[tokio::test]
async fn layers_see_every_call_and_its_result_and_may_answer_in_its_place() {
    let journal = Journal::default();
    let server = guarded(&journal);
    let client = in_time(Client::builder().server(&server).connect()).await;
    let client = client.expect("to connect");
    let call = async |tool: &str| in_time(client.call(tool, json!({}))).await;
    let text = async |tool: &str| call(tool).await.expect("a result").text();

    assert_eq!(text("open").await, "Nobody may.");
    assert_eq!(text("open_later").await, "Nobody may.");
    assert_eq!(journal.take(), ["open failed", "open_later failed"]);

    let refused = call("secret").await.expect_err("a refusal");
    assert!(
        matches!(&refused, Error::Remote { message, .. } if message == "What secret?"),
        "{refused:?}"
    );
    assert_eq!(journal.take(), ["secret refused: What secret?"]);

    // What passes is what it would be without layers.
    let seven = call("count").await.expect("a result");
    assert_eq!(seven.structured_content, Some(json!({ "result": 7 })));
    assert_eq!(text("fail").await, "no");
    assert_eq!(journal.take(), ["count done", "fail failed"]);

    let late = call("later").await.expect("a result");
    assert!(late.is_error() && late.text() == "late");
    assert!(call("never").await.is_err());
    let seen = journal.take();
    assert_eq!(seen[0], "later failed");
    assert!(seen[1].starts_with("never refused"), "{seen:?}");

    // Tools that come later are within, too; what is none is refused before.
    server
        .handle()
        .add_tool("open", "", |_, (): ()| async { "open" });
    assert_eq!(text("open").await, "Nobody may.");
    assert!(call("nothing").await.is_err());
    assert_eq!(journal.take(), ["open failed"]);

    // A layer that panics costs its call and nothing else.
    assert!(call("bomb").await.is_err());
    assert_eq!(text("fail").await, "no");
}
