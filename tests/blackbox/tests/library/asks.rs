//! What a server asks of its client: a model, a person, a list of folders.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outlive::Error;
use outlive::client::{Builder, Era};
use outlive::model::{
    Content, ElicitRequest, ElicitResult, Object, Root, RpcError, SamplingRequest, SamplingResult,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::rig::{Rig, ping, ready, until, within};

type Asked<T> = Result<T, RpcError>;

async fn sample(request: SamplingRequest) -> Asked<SamplingResult> {
    assert_eq!(request.max_tokens, 7);
    Ok(SamplingResult::new("a-model", Content::text("words")))
}

async fn accept(request: ElicitRequest) -> Asked<ElicitResult> {
    let mut content = Object::new();
    content.insert("to".into(), request.message.into());
    Ok(ElicitResult::accept(content))
}

async fn roots() -> Asked<Vec<Root>> {
    Ok(vec![Root::new("file:///home")])
}

fn ask(method: &str) -> Value {
    let params = match method {
        "sampling/createMessage" => json!({ "messages": [], "maxTokens": 7 }),
        "elicitation/create" => json!({ "message": "Go on?", "requestedSchema": {} }),
        _ => json!({}),
    };
    json!({ "method": method, "params": params })
}

/// What the tool `ask` was told: an answer in the legacy era, or what came with the second round.
fn answer(text: &str, era: Era) -> Value {
    let told: Value = serde_json::from_str(text).expect("JSON");
    match era {
        Era::Legacy => told["result"].clone(),
        Era::Modern => {
            assert_eq!(told["state"], "where I was");
            told["responses"]["it"].clone()
        }
    }
}

async fn connect<S>(builder: Builder<S>) -> outlive::Client
where
    S: outlive::Address,
{
    within(builder.connect()).await.expect("it connects")
}

#[tokio::test]
async fn a_model_a_person_and_folders_can_be_asked_for_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let rig = Rig::both().era(era);
        let builder = rig
            .client()
            .sampling(sample)
            .elicitation(accept)
            .roots(roots);
        let client = connect(builder).await;
        let asked = |method: &'static str| {
            let call = client.call("ask", ask(method));
            async move { answer(&within(call).await.unwrap().text(), era) }
        };
        let sampled = asked("sampling/createMessage").await;
        assert_eq!(sampled["model"], "a-model");
        assert_eq!(sampled["content"]["text"], "words");
        let accepted = asked("elicitation/create").await;
        assert_eq!(
            accepted,
            json!({ "action": "accept", "content": { "to": "Go on?" } })
        );
        assert_eq!(asked("roots/list").await["roots"][0]["uri"], "file:///home");

        let told = match era {
            Era::Legacy => rig.tap().method("initialize")[0]["params"]["capabilities"].clone(),
            Era::Modern => rig.tap().method("tools/call")[0]["params"]["_meta"]
                ["io.modelcontextprotocol/clientCapabilities"]
                .clone(),
        };
        for capability in ["sampling", "elicitation", "roots"] {
            assert!(told[capability].is_object(), "{era:?}: {told}");
        }
    }
}

#[tokio::test]
async fn what_the_client_cannot_do_is_refused_at_once() {
    let rig = Rig::legacy();
    let client = rig.connect().await;
    let asked = within(client.call("ask", ask("elicitation/create")))
        .await
        .unwrap();
    assert!(asked.text().contains("-32601"), "{}", asked.text());
    let pinged = within(client.call("ask", ask("ping"))).await.unwrap();
    assert!(
        pinged.text().contains(r#""result":{}"#),
        "{}",
        pinged.text()
    );

    let rig = Rig::modern();
    let client = rig.connect().await;
    let refused = within(client.call("ask", ask("elicitation/create")))
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("elicitation/create"),
        "{refused}"
    );
    ping(&client).await;
}

#[tokio::test]
async fn fm_63_a_handler_that_panics_harms_nobody() {
    async fn panics(request: ElicitRequest) -> Asked<ElicitResult> {
        panic!("asked {:?}", request.message)
    }
    for era in [Era::Legacy, Era::Modern] {
        let rig = Rig::both().era(era);
        let client = connect(rig.client().elicitation(panics).roots(roots)).await;
        let server = ping(&client).await;
        let asked = within(client.call("ask", ask("elicitation/create"))).await;
        match era {
            Era::Legacy => {
                let told: Value = serde_json::from_str(&asked.unwrap().text()).unwrap();
                assert_eq!(told["error"]["code"], -32603);
            }
            Era::Modern => {
                let error = asked.unwrap_err();
                assert!(error.to_string().contains("panicked"), "{error}");
            }
        }
        within(client.call("ask", ask("roots/list"))).await.unwrap();
        assert_eq!(ping(&client).await, server);
    }
}

/// Counts how many are running; one that is dropped is not.
struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(count: &Arc<AtomicUsize>) -> Running {
        count.fetch_add(1, Ordering::SeqCst);
        Running(count.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A handler that takes for ever, and how many of it are running.
fn slow(count: &Arc<AtomicUsize>) -> impl Fn(ElicitRequest) -> Slow + Send + Sync + 'static {
    let count = count.clone();
    move |_| {
        let running = Running::new(&count);
        Box::pin(async move {
            let _running = running;
            std::future::pending().await
        })
    }
}

type Slow = std::pin::Pin<Box<dyn Future<Output = Asked<ElicitResult>> + Send>>;

async fn running(count: &AtomicUsize, n: usize) {
    until("handlers to run", || {
        (count.load(Ordering::SeqCst) == n).then_some(())
    })
    .await;
}

/// How many questions of the `n`th server were answered with a result.
fn answers(rig: &Rig, n: usize) -> usize {
    let sent = rig.tap().received(n);
    sent.iter().filter(|m| !m["result"].is_null()).count()
}

#[tokio::test]
async fn fm_51_a_slow_handler_harms_nobody_and_is_dropped_with_its_link() {
    let rig = Rig::legacy();
    let count = Arc::new(AtomicUsize::new(0));
    let client = connect(rig.client().elicitation(slow(&count)).roots(roots)).await;
    let call = client.call("ask", ask("elicitation/create")).start();
    running(&count, 1).await;
    // Meanwhile everybody else is served, in both directions.
    ping(&client).await;
    within(client.call("ask", ask("roots/list"))).await.unwrap();

    rig.signal(Signal::KILL);
    assert!(matches!(
        within(call).await,
        Err(Error::ConnectionLost { .. })
    ));
    running(&count, 0).await;
    ready(&client, 2).await;

    // One of the next server's is dropped when the client is closed, which waits for nobody.
    let call = client.call("ask", ask("elicitation/create")).start();
    running(&count, 1).await;
    let closing = within(async { tokio::join!(call, client.close()) }).await;
    assert!(matches!(closing.0, Err(Error::ShuttingDown { .. })));
    running(&count, 0).await;
    rig.deserted().await;
    // The folders, to the first server that asked for them, and nothing else to anybody.
    assert_eq!((answers(&rig, 1), answers(&rig, 2)), (1, 0));
}

/// The answer to a dead server's question reaches no other server.
#[tokio::test]
async fn fm_51_an_answer_goes_to_the_server_that_asked_or_nowhere() {
    let gate = Arc::new(Notify::new());
    let late = {
        let gate = gate.clone();
        move |request: ElicitRequest| {
            let gate = gate.clone();
            async move {
                // As a thread would: it cannot be stopped from outside.
                let _ = tokio::spawn(async move { gate.notified().await }).await;
                accept(request).await
            }
        }
    };
    let rig = Rig::legacy();
    let client = connect(rig.client().elicitation(late)).await;
    let call = client.call("elicit", json!({})).start();
    rig.received("tools/call", 1).await;
    ping(&client).await;
    rig.signal(Signal::KILL);
    assert!(within(call).await.is_err());
    ready(&client, 2).await;
    let call = client.call("elicit", json!({})).start();
    rig.received("tools/call", 3).await;
    ping(&client).await;
    gate.notify_waiters();
    gate.notify_one();
    assert!(within(call).await.unwrap().text().contains("accept"));
    assert_eq!((answers(&rig, 1), answers(&rig, 2)), (0, 1));
}

/// A call that waits for a person in the modern era is no request; it can be cancelled all the same.
#[tokio::test]
async fn a_call_can_be_cancelled_while_its_input_is_found_out() {
    let rig = Rig::modern();
    let count = Arc::new(AtomicUsize::new(0));
    let client = connect(rig.client().elicitation(slow(&count))).await;
    let call = client.call("ask", ask("elicitation/create")).start();
    let canceller = call.canceller();
    let call = tokio::spawn(async move { call.await.map(drop) });
    running(&count, 1).await;
    canceller.cancel("enough");
    assert_eq!(within(call).await.unwrap(), Err(Error::CancelledByCaller));
    running(&count, 0).await;

    let call = client.call("ask", ask("elicitation/create"));
    let call = tokio::spawn(async move { call.await.map(drop) });
    running(&count, 1).await;
    call.abort();
    running(&count, 0).await;
    ping(&client).await;
    assert_eq!(
        rig.tap().method("tools/call").len(),
        3,
        "nothing was sent again"
    );
    assert!(
        rig.tap().method("notifications/cancelled").is_empty(),
        "nothing was in flight"
    );
}

/// In the legacy era the call is in flight all the time that a person takes, and its clocks have
/// to be stopped for it. In the modern era it is between two requests meanwhile.
#[tokio::test]
async fn fm_50_the_clock_stops_while_a_person_answers() {
    // Only a process that stands still for so long can be taken for one that is silent.
    let bound = Duration::from_millis(1500);
    let slowly = move |request: ElicitRequest| async move {
        tokio::time::sleep(2 * bound).await;
        accept(request).await
    };
    for era in [Era::Legacy, Era::Modern] {
        let rig = Rig::both().era(era);
        let client = connect(rig.client().elicitation(slowly)).await;
        let call = client.call("ask", ask("elicitation/create"));
        within(call.timeout(bound).idle(bound))
            .await
            .expect("twice its bound");
        // A server that is merely silent has no such excuse.
        let silent = client.call("sleep", json!({ "ms": 3_600_000 })).idle(bound);
        assert!(matches!(within(silent).await, Err(Error::Timeout { .. })));
    }

    // A person who never answers stops it for no longer than the policy says.
    let rig = Rig::legacy().policy(|policy| policy.elicitation = Duration::from_millis(200));
    let count = Arc::new(AtomicUsize::new(0));
    let client = connect(rig.client().elicitation(slow(&count))).await;
    let call = client.call("ask", ask("elicitation/create")).timeout(bound);
    assert!(matches!(within(call).await, Err(Error::Timeout { .. })));
}
