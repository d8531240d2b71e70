//! Hosts that do not answer what the server asks them (FM-51).

use std::time::Duration;

use serde_json::{Value, json};

use crate::Era;
use crate::host::{Host, Id};
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::server;

pub(super) const SCENARIOS: &[Scenario] = &[
    server("question-unanswered", |stage| Box::pin(unanswered(stage)))
        .says("A question the host does not answer stalls nothing but the call that asked it.")
        .over(Over::Stdio)
        .era(Era::Legacy)
        .fm(&[51, 64]),
    server("question-refused", |stage| Box::pin(refused(stage)))
        .says(
            "A question the host answers with an error does not leave the call without an answer.",
        )
        .over(Over::Stdio)
        .era(Era::Legacy)
        .fm(&[51]),
    server("question-answered-twice", |stage| {
        Box::pin(answered_twice(stage))
    })
    .says("A question that is answered twice does no harm.")
    .over(Over::Stdio)
    .era(Era::Legacy)
    .fm(&[51, 61]),
    server("question-at-the-end", |stage| Box::pin(at_the_end(stage)))
        .says("A server whose host leaves without an answer exits all the same.")
        .over(Over::Stdio)
        .era(Era::Legacy)
        .fm(&[20, 51]),
];

/// Calls the tool that asks; returns the call and the id of the question.
async fn asked(stage: &mut Stage) -> Result<(Host, Id, Value), Finding> {
    let asking = stage.asking()?;
    let mut host = stage.ready().await?;
    host.obliging = false;
    let call = host.call(&asking).await;
    let timeout = host.timeout();
    let question = host.wait("the server's question", timeout, |letters| {
        letters.requests.first().cloned()
    });
    match question.await {
        Some(question) => Ok((host, call, question["id"].clone())),
        None => Finding::not_applicable(format!("the tool {:?} asked nothing", asking.name)),
    }
}

async fn unanswered(stage: &mut Stage) -> Held {
    let (mut host, ..) = asked(stage).await?;
    host.serves("while a question is unanswered").await
}

async fn refused(stage: &mut Stage) -> Held {
    let (mut host, call, question) = asked(stage).await?;
    let error = json!({ "code": -32603, "message": "nobody is there" });
    host.send(&json!({ "jsonrpc": "2.0", "id": question, "error": error }))
        .await;
    host.answer(&call, "the call that asked").await?;
    host.serves("after a question was refused").await
}

async fn answered_twice(stage: &mut Stage) -> Held {
    let (mut host, call, question) = asked(stage).await?;
    let answer = json!({ "jsonrpc": "2.0", "id": question, "result": { "action": "decline" } });
    host.send(&answer).await;
    host.send(&answer).await;
    host.answer(&call, "the call that asked").await?;
    host.send(&answer).await;
    host.linger(Duration::from_millis(100)).await;
    host.serves("after a question was answered three times")
        .await
}

async fn at_the_end(stage: &mut Stage) -> Held {
    let (mut host, ..) = asked(stage).await?;
    host.close_input();
    let timeout = host.timeout();
    host.end("the server's end with a question unanswered", timeout)
        .await?;
    Ok(())
}
