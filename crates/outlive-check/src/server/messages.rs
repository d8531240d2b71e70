//! Messages that make no sense, and the ids of those that do (FM-34, FM-61 to FM-63).

use serde_json::{Value, json};

use crate::host::Id;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::{RESPONSES, server};

pub(super) const SCENARIOS: &[Scenario] = &[
    server("unknown-method", |stage| Box::pin(unknown_method(stage)))
        .says("A method the server does not know is answered with an error.")
        .must(RESPONSES)
        .fm(&[63]),
    server("unknown-tool", |stage| Box::pin(unknown_tool(stage)))
        .says("A call of a tool that does not exist is answered.")
        .must(RESPONSES)
        .fm(&[63]),
    server("wrong-arguments", |stage| Box::pin(wrong_arguments(stage)))
        .says("Calls with arguments of the wrong kind are answered, and the server serves on.")
        .must(RESPONSES)
        .fm(&[63]),
    server("wrong-shapes", |stage| Box::pin(wrong_shapes(stage)))
        .says("JSON that is no message does not end the server.")
        .over(Over::Stdio)
        .fm(&[63]),
    server("stray-messages", |stage| Box::pin(stray(stage)))
        .says("Answers to nothing, progress of nothing and unknown notifications are ignored.")
        .fm(&[61, 62]),
    server("ids-come-back", |stage| Box::pin(ids_come_back(stage)))
        .says("An answer has the id of its request, of the same type and to the letter.")
        .must(RESPONSES)
        .fm(&[61]),
    server("id-in-use", |stage| Box::pin(id_in_use(stage)))
        .says("A second request under an id in use harms nobody: no more than an answer to each.")
        .fm(&[34]),
    server("id-used-again", |stage| Box::pin(id_used_again(stage)))
        .says("An id may be used again once it was answered.")
        .fm(&[34]),
];

async fn unknown_method(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let answer = host
        .ask("no/such/method", json!({}), "an unknown method")
        .await?;
    if answer.get("error").is_none() {
        return Finding::broken(format!("An unknown method was answered with {answer}"));
    }
    host.serves("after an unknown method").await
}

async fn unknown_tool(stage: &mut Stage) -> Held {
    stage.quick()?;
    let mut host = stage.ready().await?;
    let params = json!({ "name": "no such tool", "arguments": {} });
    let answer = host
        .ask("tools/call", params, "a call of an unknown tool")
        .await?;
    if answer.get("error").is_none() && answer["result"]["isError"] != true {
        return Finding::broken(format!("A call of an unknown tool succeeded: {answer}"));
    }
    host.serves("after a call of an unknown tool").await
}

async fn wrong_arguments(stage: &mut Stage) -> Held {
    let name = stage.quick()?.name;
    let mut host = stage.ready().await?;
    for params in [
        json!({ "name": name, "arguments": "text" }),
        json!({ "name": name, "arguments": [1, 2] }),
        json!({ "name": name, "arguments": { "no such argument": { "a": [null] } } }),
        json!({ "name": 7 }),
        json!({}),
    ] {
        let what = format!("tools/call with {params}");
        host.ask("tools/call", params, &what).await?;
    }
    host.serves("after calls with wrong arguments").await
}

async fn wrong_shapes(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    for line in [
        "[]",
        "{}",
        "null",
        "17",
        "\"text\"",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"1.0","method":"notifications/x"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":"shape","method":5}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/x","params":"text"}"#,
        r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#,
    ] {
        let _ = host.raw(format!("{line}\n")).await;
    }
    host.serves("after JSON that is no message").await
}

async fn stray(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let progress = json!({ "progressToken": "no such token", "progress": 1 });
    host.notify("notifications/progress", progress).await;
    host.notify("notifications/no/such/thing", json!({ "a": 1 }))
        .await;
    if stage.era() == crate::Era::Legacy {
        let error = json!({ "code": -32603, "message": "no" });
        for id in [json!(123_456), json!("no such request")] {
            host.send(&json!({ "jsonrpc": "2.0", "id": id, "result": {} }))
                .await;
            host.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
                .await;
        }
    }
    host.serves("after answers to nothing").await
}

async fn ids_come_back(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let long = "x".repeat(1_000);
    let ids = [
        json!(0),
        json!(-1),
        json!(9_007_199_254_740_991_i64),
        json!("0"),
        json!("7"),
        json!(""),
        json!("größer, 大きい, \"quoted\" \\ and\ttabbed"),
        json!(long),
    ];
    for id in ids.map(Id) {
        let message = host.message(&id, host.cheapest(), json!({}));
        host.send(&message).await;
        let what = format!("a request with the id {}", shown(&id.0));
        let known = host.look(|letters| letters.response_count());
        let found = host.answer(&id, &what).await;
        // The answer may have come under another id, which says more than that none came.
        let others: Vec<String> = host.look(|letters| {
            let news = letters.response_count() > known;
            let odd = |key: &&str| *key == id.0.to_string().trim_matches('"');
            letters
                .answered()
                .filter(odd)
                .filter(|_| news)
                .map(str::to_owned)
                .collect()
        });
        match (found, others.first()) {
            (Ok(_), _) => {}
            (Err(_), Some(other)) => {
                return Finding::broken(format!("{what} was answered under {other}."));
            }
            (Err(finding), None) => return Err(finding),
        }
    }
    Ok(())
}

fn shown(id: &Value) -> String {
    let text = id.to_string();
    match text.chars().count() > 60 {
        true => format!("{}…", text.chars().take(60).collect::<String>()),
        false => text,
    }
}

async fn id_in_use(stage: &mut Stage) -> Held {
    let busy = stage.busy()?;
    let mut host = stage.ready().await?;
    let id = host.call(&busy).await;
    let message = host.message(&id, host.cheapest(), json!({}));
    host.send(&message).await;
    host.answer(&id, "an id that was used twice").await?;
    host.serves("after an id was used twice").await?;
    host.linger(std::time::Duration::from_millis(300)).await;
    match host.responses(&id) {
        1 | 2 => Ok(()),
        n => Finding::broken(format!("Two requests had {n} answers.")),
    }
}

async fn id_used_again(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let id = host.next_id();
    for nth in 1..=3 {
        let message = host.message(&id, host.cheapest(), json!({}));
        host.send(&message).await;
        let what = format!("request {nth} under the id {id}");
        let timeout = host.timeout();
        let came = host.wait(&what, timeout, |letters| {
            (letters.responses(&id.0).len() >= nth)
                .then_some(true)
                .or(letters.ended.then_some(false))
        });
        if came.await != Some(true) {
            return Finding::broken(format!("{what} was not answered."));
        }
    }
    host.serves("after an id was used again").await
}
