//! Too much, too fast, unread (FM-30, FM-34, FM-57, FM-62, FM-64).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::Era;
use crate::counted;
use crate::host::Id;
use crate::inbox::Letters;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::{RESPONSES, server};

const PROMPTLY: &str = "2025-11-25 basic/utilities/ping: Behavior Requirements";
const PROGRESS: &str = "2025-11-25 basic/utilities/progress: Behavior Requirements";

pub(super) const SCENARIOS: &[Scenario] = &[
    server("flood", |stage| Box::pin(flood(stage)))
        .says("A flood of requests is answered: each once, and with its own answer.")
        .must(RESPONSES)
        .fm(&[34, 57])
        .seconds(60),
    server("host-stops-reading", |stage| Box::pin(unread(stage)))
        .says("A host that does not read for a while gets all its answers when it does.")
        .over(Over::Stdio)
        .fm(&[30])
        .seconds(60),
    server("ping-during-call", |stage| {
        Box::pin(ping_during_call(stage))
    })
    .says("A ping is answered while a call runs.")
    .must(PROMPTLY)
    .era(Era::Legacy)
    .fm(&[22, 64]),
    server("calls-side-by-side", |stage| Box::pin(side_by_side(stage)))
        .says("A quick call is answered while a slow one runs.")
        .fm(&[64]),
    server("progress-ends-with-answer", |stage| {
        Box::pin(progress(stage))
    })
    .says("Progress names the token it was asked for under, and ends with the answer.")
    .must(PROGRESS)
    .fm(&[62]),
];

async fn flood(stage: &mut Stage) -> Held {
    const REQUESTS: usize = 1_000;
    let mut host = stage.ready().await?;
    let quick = stage.quick().ok();
    let mut ids = Vec::new();
    for nth in 0..REQUESTS {
        let id = match &quick {
            Some(call) if nth % 3 == 0 => host.call(call).await,
            _ => host.request(host.cheapest(), json!({})).await,
        };
        ids.push(id);
    }
    each_once(&mut host, &ids).await?;
    host.serves(&format!("after a flood of {REQUESTS} requests"))
        .await
}

/// Every id is answered once. As long as answers come the patience begins anew.
async fn each_once(host: &mut crate::Host, ids: &[Id]) -> Held {
    let timeout = host.timeout();
    for (nth, id) in ids.iter().enumerate() {
        let what = format!("request {} of {}", nth + 1, ids.len());
        let mut counted = host.look(|letters| letters.response_count());
        loop {
            let came = host.wait(&what, timeout, |letters| {
                let here = !letters.responses(&id.0).is_empty();
                let more = letters.response_count() > counted;
                (here || more || letters.ended).then_some((
                    here,
                    letters.response_count(),
                    letters.ended,
                ))
            });
            match came.await {
                Some((true, ..)) => break,
                Some((false, count, false)) => counted = count,
                _ => drop(host.answer(id, &what).await?),
            }
        }
    }
    match ids.iter().find(|id| host.responses(id) != 1) {
        Some(id) => Finding::broken(format!(
            "Request {id} was answered {}.",
            counted(host.responses(id), "time")
        )),
        None => Ok(()),
    }
}

async fn unread(stage: &mut Stage) -> Held {
    const REQUESTS: usize = 3_000;
    let mut host = stage.ready().await?;
    let method = host.cheapest();
    let ids: Vec<Id> = (0..REQUESTS).map(|_| host.next_id()).collect();
    let lines = ids
        .iter()
        .map(|id| format!("{}\n", host.message(id, method, json!({}))));
    let piece: String = lines.collect();
    host.stop_reading();
    // Both pipes are full by then; whoever reads again finds out whether the server waited.
    let resume = host.pipes().reading();
    let (written, ()) = tokio::join!(host.raw(piece), async {
        sleep(Duration::from_secs(2)).await;
        resume.read_on();
    });
    if written.is_err() {
        return Finding::broken(
            "The server stopped reading, and did not begin again when its output was read.",
        );
    }
    each_once(&mut host, &ids).await?;
    host.serves("after its output was left unread").await
}

async fn ping_during_call(stage: &mut Stage) -> Held {
    answered_meanwhile(stage, "ping", json!({})).await
}

async fn side_by_side(stage: &mut Stage) -> Held {
    let quick = stage.quick()?;
    answered_meanwhile(stage, "tools/call", quick.params()).await
}

async fn answered_meanwhile(stage: &mut Stage, method: &str, params: Value) -> Held {
    let slow = stage.slow()?;
    let mut host = stage.ready().await?;
    let call = host.call(&slow).await;
    host.linger(Duration::from_millis(200)).await;
    if host.responses(&call) > 0 {
        return Finding::not_applicable("the slow tool is done too soon");
    }
    let what = format!("{method} while {:?} runs", slow.name);
    host.ask(method, params, &what).await?;
    match host.responses(&call) {
        0 => Ok(()),
        _ => Finding::broken(format!("{what} was answered only when that was done.")),
    }
}

async fn progress(stage: &mut Stage) -> Held {
    const TOKEN: &str = "outlive check: a token";
    let slow = stage.slow()?;
    let mut host = stage.ready().await?;
    let mut params = slow.params();
    params["_meta"] = json!({ "progressToken": TOKEN });
    let id = host.request("tools/call", params).await;
    let timeout = host.timeout();
    let answered = |letters: &Letters| (!letters.responses(&id.0).is_empty()).then_some(());
    if host.wait("a slow call", timeout, answered).await.is_none() {
        return Finding::not_applicable("the slow tool does not come to an end");
    }
    host.linger(Duration::from_secs(1)).await;
    let progress = |notes: &[Value]| -> Vec<Value> {
        let of_progress = |note: &&Value| note["method"] == "notifications/progress";
        notes.iter().filter(of_progress).cloned().collect()
    };
    let told = host.look(|letters| progress(&letters.notifications));
    let late = host.look(|letters| progress(letters.notifications_after(&id.0)));
    if told.is_empty() {
        return Finding::not_applicable("the slow tool tells no progress");
    }
    if let Some(odd) = told
        .iter()
        .find(|note| note["params"]["progressToken"] != TOKEN)
    {
        return Finding::broken(format!("There was progress for a token nobody gave: {odd}"));
    }
    match late.first() {
        Some(late) => Finding::broken(format!("There was progress after the answer: {late}")),
        None => Ok(()),
    }
}
