//! What a proxy does for its host after the server's death, and had better not do (FM-08, FM-37, FM-38, FM-41).

use std::time::Duration;

use serde_json::json;

use crate::Era;
use crate::host::Id;
use crate::inbox::Letters;
use crate::puppet::Habits;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::proxy;
use super::stage::Between;

/// Calls at once.
const CROWD: usize = 10;

/// How long something that must not happen is waited for.
const WATCH: Duration = Duration::from_secs(1);

pub(super) const SCENARIOS: &[Scenario] = &[
    proxy("no-blind-replay", |stage| Box::pin(no_replay(stage)))
        .says("A call that was running when the server died, and may not run twice, is not sent to the next one.")
        .fm(&[8]),
    proxy("calls-race-the-restart", |stage| Box::pin(racing(stage)))
        .says("Each of many calls in flight at the server's death is answered once, \
               and one server is started, not one for each.")
        .fm(&[37, 38]),
    proxy("subscriptions-survive", |stage| Box::pin(subscriptions(stage)))
        .says("What the host subscribed to is subscribed to again at the next server.")
        .over(Over::Stdio)
        .era(Era::Legacy)
        .fm(&[41]),
];

async fn no_replay(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    let id = slow(&mut all).await;
    all.server.called("slow").await?;
    all.server.die();
    // Whether it is answered is another scenario's question.
    all.host.timeout = all.host.timeout.min(Duration::from_secs(5));
    let _ = all.host.answer(&id, "The call").await;
    // Some start the next server only when it is needed.
    let call = json!({ "name": "echo", "arguments": { "text": "after" } });
    let _ = all.host.ask("tools/call", call, "The next call").await;
    while let Some(next) = all.puppets.next_within(WATCH).await {
        let again = next.wait("the call again", WATCH, |letters| {
            asked(letters, "tools/call", "name", "slow")
        });
        if again.await.is_some() {
            return Finding::broken(
                "A call that nothing is known about was sent to the next server as well.",
            );
        }
    }
    Ok(())
}

async fn racing(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    let mut calls = Vec::new();
    for _ in 0..CROWD {
        calls.push(slow(&mut all).await);
    }
    all.server.called_times("slow", CROWD).await?;
    all.server.die();
    for id in &calls {
        all.host
            .answer(id, "Each call in flight when the server was killed")
            .await?;
    }
    let mut more = Vec::new();
    for n in 0..CROWD {
        let call = json!({ "name": "echo", "arguments": { "text": n.to_string() } });
        more.push(all.host.request("tools/call", call).await);
    }
    for id in &more {
        all.host
            .answer(id, "Each call at once after the server's death")
            .await?;
    }
    all.host.linger(WATCH).await;
    if let Some(id) = calls
        .iter()
        .chain(&more)
        .find(|id| all.host.responses(id) > 1)
    {
        return Finding::broken(format!("The call {} was answered twice.", id.0));
    }
    let mut started = 0;
    while all.puppets.next_within(Duration::ZERO).await.is_some() {
        started += 1;
    }
    match started {
        0 | 1 => Ok(()),
        many => Finding::broken(format!("{many} servers were started in place of one.")),
    }
}

async fn subscriptions(stage: &mut Stage) -> Held {
    const URI: &str = "check://document";
    let habits = |_| Habits {
        resources: true,
        ..Habits::default()
    };
    let mut all = stage.opened(habits).await?.shake_hands().await?;
    let params = json!({ "uri": URI });
    let answer = all
        .host
        .ask("resources/subscribe", params, "resources/subscribe")
        .await?;
    if answer.get("error").is_some() {
        return Finding::not_applicable("the proxy passes no subscriptions");
    }
    all.server.die();
    let timeout = all.host.timeout();
    all.server.gone(timeout).await;
    let call = json!({ "name": "echo", "arguments": { "text": "after" } });
    all.host.ask("tools/call", call, "The next call").await?;
    let Some(next) = all.puppets.next_within(WATCH).await else {
        return Finding::not_applicable("the proxy starts no second server");
    };
    let again = next.wait("the subscription again", timeout, |letters| {
        asked(letters, "resources/subscribe", "uri", URI)
    });
    match again.await {
        Some(()) => Ok(()),
        None => Finding::broken("The next server was never asked for the host's subscription."),
    }
}

async fn slow(all: &mut Between) -> Id {
    all.host
        .request("tools/call", json!({ "name": "slow", "arguments": {} }))
        .await
}

fn asked(letters: &Letters, method: &str, member: &str, value: &str) -> Option<()> {
    let mut requests = letters.requests.iter();
    requests
        .any(|r| r["method"] == method && r["params"][member] == value)
        .then_some(())
}
