//! What goes in on one side comes out on the other, as it was (FM-34, FM-45).

use std::time::Duration;

use serde_json::{Value, json};

use crate::Era;
use crate::host::Id;
use crate::puppet;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::proxy;

const RESPONSE: &str = "JSON-RPC 2.0: Response object";

pub(super) const SCENARIOS: &[Scenario] = &[
    proxy("ids-come-back", |stage| Box::pin(ids(stage)))
        .says("An answer has the id of its request, a number or a text, as the host wrote it.")
        .fm(&[34, 61])
        .must(RESPONSE),
    proxy("answers-find-their-call", |stage| {
        Box::pin(find_their_call(stage))
    })
    .says("Calls that are answered in another order than they were made get each its own answer.")
    .fm(&[34])
    .must(RESPONSE),
    proxy("unknown-members-pass", |stage| {
        Box::pin(unknown_members(stage))
    })
    .says("Members of requests and results that the proxy cannot know pass through it.")
    .fm(&[45]),
    proxy("bytes-pass", |stage| Box::pin(bytes(stage)))
        .says("Parameters and results pass as they are spelt: order of keys, numbers, escapes.")
        .over(Over::Stdio)
        .fm(&[45]),
    proxy("unknown-methods-pass", |stage| {
        Box::pin(unknown_methods(stage))
    })
    .says("Requests and notifications the proxy cannot know pass through it, both ways.")
    .over(Over::Stdio)
    .fm(&[45]),
    proxy("errors-pass", |stage| Box::pin(errors(stage)))
        .says("An error the server answers with keeps its code, its message and its data.")
        .fm(&[45]),
    proxy("progress-passes", |stage| Box::pin(progress(stage)))
        .says("Progress of a call arrives under the host's token, in order and before the answer.")
        .fm(&[13, 45]),
    proxy("order-is-kept", |stage| Box::pin(order(stage)))
        .says("What the server sends arrives in the order in which it was sent.")
        .over(Over::Stdio)
        .fm(&[45]),
    proxy("questions-pass", |stage| Box::pin(questions(stage)))
        .says("A question of the server's reaches the host, and the host's answer the server.")
        .over(Over::Stdio)
        .era(Era::Legacy)
        .fm(&[45, 51]),
    proxy("cancellation-passes", |stage| Box::pin(cancellation(stage)))
        .says("A cancellation reaches the server, for the request that the server knows.")
        .fm(&[48]),
    proxy("big-messages-pass", |stage| Box::pin(big(stage)))
        .says("Messages of several megabytes pass, both ways.")
        .fm(&[60]),
    proxy("modern-results-pass", |stage| Box::pin(modern(stage)))
        .says("A result of the 2026-07-28 revision that asks for input passes as it is.")
        .era(Era::Modern)
        .fm(&[45]),
];

async fn ids(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    for id in [
        json!(0),
        json!(-7),
        json!(9_007_199_254_740_991_i64),
        json!("text"),
        json!("7"),
        json!("\u{fc}n\u{ef} \"quoted\""),
    ] {
        let message = all.host.message(&Id(id.clone()), "tools/call", echo("x"));
        all.host.send(&message).await;
        let what = format!("A call with the id {id}");
        all.host.answer(&Id(id), &what).await?;
    }
    Ok(())
}

async fn find_their_call(stage: &mut Stage) -> Held {
    const CALLS: usize = 8;
    let mut all = stage.between().await?;
    let mut ids = Vec::new();
    for nth in 0..CALLS {
        let params = json!({ "name": "slow", "arguments": { "text": nth.to_string() } });
        ids.push(all.host.request("tools/call", params).await);
    }
    let mut requests = Vec::new();
    for nth in 1..=CALLS {
        requests.push(all.server.called_times("slow", nth).await?);
    }
    for request in requests.iter().rev() {
        let text = request["params"]["arguments"]["text"]
            .as_str()
            .unwrap_or_default();
        all.server.answer(request, text);
    }
    for (nth, id) in ids.iter().enumerate() {
        let answer = all.host.answer(id, "One of several calls").await?;
        let text = &answer["result"]["content"][0]["text"];
        if text.as_str() != Some(&*nth.to_string()) {
            return Finding::broken(format!(
                "Call {nth} got the answer that was meant for call {text}."
            ));
        }
    }
    Ok(())
}

async fn unknown_members(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    let extra = json!({ "deep": [1, { "er": null }], "text": "\u{e9}" });
    let mut params = json!({ "name": "slow", "arguments": {}, "x-unknown": extra });
    params["_meta"] = json!({ "com.example/unknown": extra });
    let id = all.host.request("tools/call", params).await;
    let request = all.server.called("slow").await?;
    for (place, found) in [
        ("params", &request["params"]["x-unknown"]),
        ("_meta", &request["params"]["_meta"]["com.example/unknown"]),
    ] {
        if *found != extra {
            return Finding::broken(format!(
                "The host put {extra} into {place}; the server got {found}."
            ));
        }
    }
    let mut answer = puppet::answer(&request, "done");
    answer["result"]["x-unknown"] = extra.clone();
    answer["result"]["content"][0]["x-unknown"] = extra.clone();
    all.server.send(&answer);
    let got = all.host.answer(&id, "A call with unknown members").await?;
    match got["result"]["x-unknown"] == extra && got["result"]["content"][0]["x-unknown"] == extra {
        true => Ok(()),
        false => Finding::broken(format!(
            "The server put {extra} into its result; the host got {got}."
        )),
    }
}

async fn bytes(stage: &mut Stage) -> Held {
    /// In no order, with numbers no float can hold, escapes that need not be, and space.
    const SPELLING: &str = concat!(
        r#"{"zulu":1.0,"alpha":[1e2, 12345678901234567890123456789,-0],"#,
        r#""mike":"\u00e9\/ \ud83e\udd80","Alpha":{"b":1,"a":2}}"#
    );
    let mut all = stage.between().await?;
    let id = all.host.next_id();
    let plain = all.host.message(
        &id,
        "tools/call",
        json!({ "name": "slow", "arguments": "SPELLING" }),
    );
    let line = plain.to_string().replace("\"SPELLING\"", SPELLING);
    let _ = all.host.raw(format!("{line}\n")).await;
    let request = all.server.called("slow").await?;
    if !all.server.look(|letters| letters.spelt(SPELLING)) {
        return Finding::broken("Parameters arrived spelt differently.");
    }
    let answer = puppet::answer(&request, "SPELLING");
    all.server
        .raw(answer.to_string().replace("\"SPELLING\"", SPELLING) + "\n");
    all.host
        .answer(&id, "A call with a peculiar spelling")
        .await?;
    match all.host.look(|letters| letters.spelt(SPELLING)) {
        true => Ok(()),
        false => Finding::broken("A result arrived spelt differently."),
    }
}

async fn unknown_methods(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    let id = all
        .host
        .request("outlive/no-such-method", json!({ "a": 1 }))
        .await;
    all.server.asked("outlive/no-such-method").await?;
    let answer = all
        .host
        .answer(&id, "A request the proxy cannot know")
        .await?;
    if answer["error"]["code"] != -32601 {
        return Finding::broken(format!("The server's refusal became {answer}."));
    }
    all.host
        .notify("notifications/outlive/here", json!({ "a": 1 }))
        .await;
    let here = |method: &'static str| {
        move |letters: &crate::inbox::Letters| {
            letters
                .notifications
                .iter()
                .any(|n| n["method"] == method)
                .then_some(())
        }
    };
    all.server
        .wait_for(
            "A notification of the host's",
            here("notifications/outlive/here"),
        )
        .await?;
    all.server
        .notify("notifications/outlive/there", json!({ "a": 1 }));
    let timeout = all.host.timeout();
    let what = "A notification of the server's";
    match all
        .host
        .wait(what, timeout, here("notifications/outlive/there"))
        .await
    {
        Some(()) => Ok(()),
        None => Finding::broken(format!("{what} did not come within {timeout:?}.")),
    }
}

async fn errors(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    let id = all
        .host
        .request("tools/call", json!({ "name": "slow", "arguments": {} }))
        .await;
    let request = all.server.called("slow").await?;
    let error =
        json!({ "code": -31999, "message": "Out of cheese", "data": { "redo": ["from", 0] } });
    all.server
        .send(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }));
    let answer = all.host.answer(&id, "A call the server refuses").await?;
    match answer["error"] == error {
        true => Ok(()),
        false => Finding::broken(format!(
            "The server answered with {error}; the host got {answer}."
        )),
    }
}

async fn progress(stage: &mut Stage) -> Held {
    const STEPS: u64 = 5;
    let mut all = stage.between().await?;
    let token = json!("a token of the host's");
    let params = json!({ "name": "slow", "arguments": {}, "_meta": { "progressToken": token } });
    let id = all.host.request("tools/call", params).await;
    let request = all.server.called("slow").await?;
    let theirs = &request["params"]["_meta"]["progressToken"];
    if theirs.is_null() {
        return Finding::broken("The progress token did not reach the server.");
    }
    for step in 1..=STEPS {
        let params = json!({ "progressToken": theirs, "progress": step });
        all.server.notify("notifications/progress", params);
    }
    all.server.answer(&request, "done");
    all.host.answer(&id, "A call with progress").await?;
    let steps: Vec<Value> = all.host.look(|letters| {
        let all = letters.notifications.iter();
        let of_this = all.filter(|n| n["params"]["progressToken"] == token);
        of_this.map(|n| n["params"]["progress"].clone()).collect()
    });
    match steps
        .iter()
        .filter_map(Value::as_f64)
        .eq((1..=STEPS).map(|n| n as f64))
    {
        true => Ok(()),
        false => Finding::broken(format!(
            "The server told of {STEPS} steps; when the answer came, the host had seen {}.",
            json!(steps)
        )),
    }
}

async fn order(stage: &mut Stage) -> Held {
    const MESSAGES: usize = 100;
    let mut all = stage.between().await?;
    for nth in 0..MESSAGES {
        let params = json!({ "level": "info", "data": nth });
        all.server.notify("notifications/message", params);
    }
    let told = |letters: &crate::inbox::Letters| -> Vec<u64> {
        let all = letters.notifications.iter();
        let messages = all.filter(|n| n["method"] == "notifications/message");
        messages
            .filter_map(|n| n["params"]["data"].as_u64())
            .collect()
    };
    let timeout = all.host.timeout();
    let all_there =
        |letters: &crate::inbox::Letters| (told(letters).len() >= MESSAGES).then_some(());
    all.host
        .wait("the server's notifications", timeout, all_there)
        .await;
    let got = all.host.look(told);
    match got.iter().copied().eq(0..MESSAGES as u64) {
        true => Ok(()),
        false => Finding::broken(format!(
            "{MESSAGES} notifications were sent in order; what came was {}.",
            json!(got)
        )),
    }
}

async fn questions(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    let id = json!("a question of the server's");
    all.server.request(id.clone(), "roots/list", json!({}));
    // The host obliges while it waits.
    let timeout = all.host.timeout();
    let asked = |letters: &crate::inbox::Letters| (!letters.requests.is_empty()).then_some(());
    if all
        .host
        .wait("the server's question", timeout, asked)
        .await
        .is_none()
    {
        return Finding::broken(format!("The question did not come within {timeout:?}."));
    }
    all.host.linger(Duration::from_millis(300)).await;
    let answer = all
        .server
        .wait_for("The host's answer", |letters| {
            letters.responses(&id).first().cloned()
        })
        .await?;
    match answer["result"]["roots"].is_array() {
        true => Ok(()),
        false => Finding::broken(format!("The host's answer became {answer}.")),
    }
}

async fn cancellation(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    let id = all
        .host
        .request("tools/call", json!({ "name": "slow", "arguments": {} }))
        .await;
    let request = all.server.called("slow").await?;
    all.host.cancel(&id).await;
    let cancelled = |letters: &crate::inbox::Letters| {
        let all = letters.notifications.iter();
        let mut cancels = all.filter(|n| n["method"] == "notifications/cancelled");
        cancels.next().map(|n| n["params"]["requestId"].clone())
    };
    let theirs = all.server.wait_for("The cancellation", cancelled).await?;
    match theirs == request["id"] {
        true => all.host.serves("after a cancellation").await,
        false => Finding::broken(format!(
            "The server knows the request as {}; {theirs} was cancelled.",
            request["id"]
        )),
    }
}

async fn big(stage: &mut Stage) -> Held {
    const SIZE: usize = 4 << 20;
    let mut all = stage.between().await?;
    let text = "x".repeat(SIZE);
    let answer = all
        .host
        .ask("tools/call", echo(&text), "A call of 4 MiB")
        .await?;
    match answer["result"]["content"][0]["text"]
        .as_str()
        .map(str::len)
    {
        Some(SIZE) => Ok(()),
        _ => {
            let start: String = answer.to_string().chars().take(200).collect();
            Finding::broken(format!("4 MiB did not come back whole, but as {start}"))
        }
    }
}

async fn modern(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    let id = all
        .host
        .request("tools/call", json!({ "name": "slow", "arguments": {} }))
        .await;
    let request = all.server.called("slow").await?;
    let schema = json!({ "type": "object", "properties": {} });
    let asks = json!({ "method": "elicitation/create", "params": { "message": "Well?", "requestedSchema": schema } });
    let result = json!({
        "resultType": "input_required",
        "inputRequests": { "q": asks },
        "requestState": "opaque \u{e9}",
        "_meta": { "com.example/x": [1] },
    });
    all.server
        .send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
    let answer = all.host.answer(&id, "A call that asks for input").await?;
    match answer["result"] == result {
        true => Ok(()),
        false => Finding::broken(format!(
            "The server answered {result}; the host got {answer}."
        )),
    }
}

fn echo(text: &str) -> Value {
    json!({ "name": "echo", "arguments": { "text": text } })
}
