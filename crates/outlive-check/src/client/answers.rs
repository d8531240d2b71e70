//! Answers nobody waits for, and news about nothing (FM-18, FM-61, FM-62).

use serde_json::{Value, json};

use crate::Era;
use crate::inbox::Letters;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::client;

const CANCELLATION: &str = "2025-11-25 basic/utilities/cancellation: Behavior Requirements 6";
const TIMING: &str = "2025-11-25 basic/utilities/cancellation: Timing Considerations";

pub(super) const SCENARIOS: &[Scenario] = &[
    client("cancel-is-told", |stage| Box::pin(told(stage)))
        .says("A call that is cancelled is cancelled with the server, once and by its id.")
        .over(Over::Stdio)
        .fm(&[48]),
    client("modern-cancel-is-told", |stage| Box::pin(told(stage)))
        .says("In the 2026-07-28 revision a call is cancelled by telling the server, once and by its id.")
        .over(Over::Stdio)
        .era(Era::Modern)
        .fm(&[48])
        .must("2026-07-28 basic/transports/stdio: Cancellation"),
    client("late-answer", |stage| Box::pin(late(stage)))
        .says("The answer to a call that was cancelled, coming late and even twice, does no harm.")
        .over(Over::Stdio)
        .fm(&[18])
        .must(TIMING),
    client("cancelled-call-ends", |stage| Box::pin(ends(stage)))
        .says("A call that was cancelled ends for its caller without an answer.")
        .over(Over::Stdio)
        .fm(&[18, 48])
        .should(CANCELLATION),
    client("cancel-leaves-messages-whole", |stage| Box::pin(whole(stage)))
        .says("Calls that are cancelled while they are written leave no half of a message behind, \
               and the server where it is.")
        .over(Over::Stdio)
        .fm(&[49]),
    client("unknown-id", |stage| Box::pin(unknown_id(stage)))
        .says("Answers to requests that never were are ignored.")
        .over(Over::Stdio)
        .fm(&[61]),
    client("answered-twice", |stage| Box::pin(twice(stage)))
        .says("Of two answers to one call the first counts, and the second does no harm.")
        .over(Over::Stdio)
        .fm(&[61]),
    client("unknown-progress", |stage| {
        Box::pin(unknown_progress(stage))
    })
    .says("Progress for tokens that never were, or are no more, is ignored.")
    .over(Over::Stdio)
    .fm(&[62]),
];

async fn told(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    let call = driver.call("slow", "").await;
    let request = puppet.called("slow").await?;
    let cancel = driver.cancel(call).await;
    driver.outcome(cancel, "cancel").await?;
    let cancellations = |letters: &Letters| -> Vec<Value> {
        let all = letters.notifications.iter();
        let cancels = all.filter(|n| n["method"] == "notifications/cancelled");
        cancels.map(|n| n["params"]["requestId"].clone()).collect()
    };
    let came = |letters: &Letters| (!cancellations(letters).is_empty()).then_some(());
    puppet.wait_for("The cancellation", came).await?;
    driver.works("after a cancellation").await?;
    match puppet.look(cancellations).as_slice() {
        [id] if *id == request["id"] => Ok(()),
        ids => Finding::broken(format!(
            "Request {} was to be cancelled; cancelled were {}.",
            request["id"],
            json!(ids)
        )),
    }
}

async fn late(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    let call = driver.call("slow", "").await;
    let request = puppet.called("slow").await?;
    let cancel = driver.cancel(call).await;
    driver.outcome(cancel, "cancel").await?;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    puppet.answer(&request, "too late");
    let error = json!({ "code": 0, "message": "Request cancelled" });
    puppet.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }));
    driver.works("after a late answer").await
}

async fn ends(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    let call = driver.call("slow", "").await;
    puppet.called("slow").await?;
    let cancel = driver.cancel(call).await;
    driver.outcome(cancel, "cancel").await?;
    driver.outcome(call, "The call that was cancelled").await?;
    Ok(())
}

async fn whole(stage: &mut Stage) -> Held {
    let (mut driver, mut puppet, _puppets) = stage.connected().await?;
    // More than a pipe holds: it cannot be written at once.
    let text = "x".repeat(1 << 20);
    for _ in 0..10 {
        let call = driver.call("slow", &text).await;
        let cancel = driver.cancel(call).await;
        driver.outcome(cancel, "cancel").await?;
    }
    driver
        .works("after calls were cancelled while they were written")
        .await?;
    if puppet.gone(std::time::Duration::ZERO).await {
        return Finding::broken("The cancellations ended the server.");
    }
    match puppet.look(|letters| letters.junk.first().cloned()) {
        None => Ok(()),
        Some(line) => {
            let begin: String = line.chars().take(80).collect();
            Finding::broken(format!(
                "The server got a line that is no message: {begin}…"
            ))
        }
    }
}

async fn unknown_id(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    driver.works("at first").await?;
    let result = json!({ "content": [], "resultType": "complete" });
    for id in [json!(987_654_321), json!("nobody asked"), json!(-1)] {
        puppet.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }
    let error = json!({ "code": -32700, "message": "Parse error" });
    puppet.send(&json!({ "jsonrpc": "2.0", "id": null, "error": error }));
    // An error without an id may be taken for the answer to the only call in flight: none is yet.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    driver.works("after answers to nothing").await
}

async fn twice(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    let call = driver.call("slow", "").await;
    let request = puppet.called("slow").await?;
    puppet.answer(&request, "first");
    puppet.answer(&request, "second");
    let said = driver
        .succeeds(call, "A call that was answered twice")
        .await?;
    if said != "first" {
        return Finding::broken(format!(
            "The call ended with {said}, not with the first answer."
        ));
    }
    driver.works("after a second answer").await
}

async fn unknown_progress(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    let call = driver.call("slow", "").await;
    let request = puppet.called("slow").await?;
    for token in [json!(987_654_321), json!("nobody asked")] {
        let params = json!({ "progressToken": token, "progress": 1 });
        puppet.notify("notifications/progress", params);
    }
    puppet.answer(&request, "done");
    let token = &request["params"]["_meta"]["progressToken"];
    let token = if token.is_null() {
        &request["id"]
    } else {
        token
    };
    puppet.notify(
        "notifications/progress",
        json!({ "progressToken": token, "progress": 2 }),
    );
    driver
        .succeeds(call, "A call amid progress of others")
        .await?;
    driver.works("after progress for nothing").await
}
