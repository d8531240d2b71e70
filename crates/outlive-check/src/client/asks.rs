//! What servers ask and tell by themselves (FM-15, FM-22, FM-63).

use std::time::Duration;

use serde_json::json;

use crate::Era;
use crate::counted;
use crate::puppet::Habits;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::client;

pub(super) const SCENARIOS: &[Scenario] = &[
    client("ping-is-answered", |stage| Box::pin(ping(stage)))
        .says("A ping of the server is answered, also while a call is in flight.")
        .over(Over::Stdio)
        .era(Era::Legacy)
        .fm(&[22, 64])
        .must("2025-11-25 basic/utilities/ping: Behavior Requirements"),
    client("unknown-request", |stage| Box::pin(unknown_request(stage)))
        .says("A request whose method the client does not know is answered with an error.")
        .over(Over::Stdio)
        .era(Era::Legacy)
        .fm(&[63])
        .must("JSON-RPC 2.0: Response object"),
    client("unknown-notification", |stage| {
        Box::pin(unknown_notification(stage))
    })
    .says("Notifications the client does not know are ignored.")
    .over(Over::Stdio)
    .fm(&[63])
    .must("2025-11-25 basic: Notifications"),
    client("list-changed", |stage| Box::pin(list_changed(stage)))
        .says("After the server has said that its tools changed, the client lists the new ones.")
        .over(Over::Stdio)
        .era(Era::Legacy)
        .fm(&[15]),
];

async fn ping(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    driver.call("slow", "").await;
    puppet.called("slow").await?;
    puppet.request("a ping", "ping", json!({}));
    let id = json!("a ping");
    let answer = puppet
        .wait_for("The answer to a ping", |letters| {
            letters.responses(&id).first().cloned()
        })
        .await?;
    match answer.get("result") {
        Some(_) => Ok(()),
        None => Finding::broken(format!("A ping was answered with {answer}.")),
    }
}

async fn unknown_request(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    puppet.request("a question", "outlive/no-such-method", json!({}));
    let id = json!("a question");
    let what = "The answer to a request nobody knows";
    let answer = puppet
        .wait_for(what, |letters| letters.responses(&id).first().cloned())
        .await?;
    if answer.get("error").is_none() {
        return Finding::broken(format!(
            "A request nobody knows was answered with {answer}."
        ));
    }
    driver.works("after a request nobody knows").await
}

async fn unknown_notification(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    puppet.notify("notifications/outlive/no-such-thing", json!({ "a": 1 }));
    puppet.notify("outlive/no-such-thing", json!({}));
    driver.works("after notifications nobody knows").await?;
    let answers = puppet.look(|letters| letters.response_count() + letters.nameless.len());
    match answers {
        0 => Ok(()),
        n => Finding::broken(format!(
            "Notifications were answered, {}.",
            counted(n, "time")
        )),
    }
}

async fn list_changed(stage: &mut Stage) -> Held {
    let habits = |_| Habits {
        leaves: &["tools/list"],
        ..Habits::default()
    };
    let (mut driver, mut puppets) = stage.driver(habits).await?;
    let connect = driver
        .tell("connect", super::subject::to_command(&puppets.command()))
        .await;
    let mut puppet = puppets.next().await?;
    // A client may ask once or often, before or after the change: what it hears depends on when.
    let serve = async {
        let mut served = 0;
        let mut changed = false;
        loop {
            let next = puppet.wait("tools/list", Duration::from_millis(200), |letters| {
                let all = letters.requests.iter();
                let mut lists = all.filter(|r| r["method"] == "tools/list");
                lists.nth(served).cloned()
            });
            let Some(request) = next.await else {
                // Some start a server only to look which era it speaks; the next one is theirs.
                if let Some(next) = puppets.next_within(Duration::ZERO).await {
                    (puppet, served) = (next, 0);
                }
                continue;
            };
            served += 1;
            let names: &[&str] = if changed { &["echo", "new"] } else { &["echo"] };
            let schema = json!({ "type": "object" });
            let tools: Vec<_> = names
                .iter()
                .map(|name| json!({ "name": name, "inputSchema": schema }))
                .collect();
            puppet.send(
                &json!({ "jsonrpc": "2.0", "id": request["id"], "result": { "tools": tools } }),
            );
            if !changed {
                changed = true;
                tokio::time::sleep(Duration::from_millis(300)).await;
                puppet.notify("notifications/tools/list_changed", json!({}));
            }
        }
    };
    let check = async {
        driver.succeeds(connect, "connect").await?;
        driver.tools("at first").await?;
        let deadline = tokio::time::Instant::now() + driver.timeout();
        while tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if driver
                .tools("after the change")
                .await?
                .iter()
                .any(|name| name == "new")
            {
                return Ok(());
            }
        }
        Finding::broken("The client still lists the tools from before the change.")
    };
    tokio::select! {
        never = serve => never,
        held = check => held,
    }
}
