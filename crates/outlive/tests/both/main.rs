//! Our client and our server, on a pair in memory: what holds in one era holds in the other.
#![cfg(feature = "server")]

mod blame;
mod connect;
mod layers;
#[cfg(feature = "macros")]
mod macros;
mod numbers;
mod resume;
mod shutdown;
mod state;
mod traits;
mod typed;

use std::future::IntoFuture;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outlive::client::Era;
use outlive::model::{ElicitRequest, ElicitResult, Object, RpcError};
use outlive::policy::Policy;
use outlive::server::Ctx;
use outlive::{Client, Connector, Error, Server, memory};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// Long enough that only a hang exceeds it.
const PATIENCE: Duration = Duration::from_secs(30);

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

async fn in_time<T>(what: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what.into_future())
        .await
        .expect("it hangs")
}

/// A server whose tool works for a while, asks the person, and so on.
fn asking(pause: Duration, rounds: u32) -> Server {
    Server::builder("asking", "1")
        .tool("ask", "", move |ctx: Ctx, (): ()| async move {
            for _ in 0..rounds {
                tokio::time::sleep(pause).await;
                let form = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
                let _: Result<Value, _> = ctx.request("elicitation/create", form).await;
            }
            "done"
        })
        .build()
}

fn served_by(server: Server) -> impl Connector {
    move || {
        let server = server.clone();
        async move {
            let (ours, theirs) = memory::pair();
            tokio::spawn(async move { server.serve(theirs).await });
            Ok::<_, io::Error>(ours)
        }
    }
}

async fn accept(_: ElicitRequest) -> Result<ElicitResult, RpcError> {
    Ok(ElicitResult::accept(Object::new()))
}

#[tokio::test]
async fn fm_50_a_person_who_never_answers_does_not_stop_the_clock_for_ever() {
    for era in ERAS {
        let policy = Policy::builder().elicitation(Duration::from_millis(200));
        let policy = policy.build().unwrap();
        let client = Client::builder()
            .connector(served_by(asking(Duration::ZERO, 1)))
            .policy(policy)
            .era(era)
            .elicitation(|_: ElicitRequest| std::future::pending())
            .connect();
        let client = in_time(client).await.unwrap();
        let call = client.call("ask", json!({}));
        let ended = in_time(call.timeout(Duration::from_millis(300))).await;
        assert!(
            matches!(ended, Err(Error::Timeout { .. })),
            "{era:?}: {ended:?}"
        );
    }
}

#[tokio::test]
async fn the_time_a_call_may_take_is_for_all_its_rounds() {
    for era in ERAS {
        let client = Client::builder()
            .connector(served_by(asking(Duration::from_millis(600), 8)))
            .era(era)
            .elicitation(accept)
            .connect();
        let client = in_time(client).await.unwrap();
        // Longer than any round, much shorter than all of them.
        let call = client.call("ask", json!({}));
        let ended = in_time(call.timeout(Duration::from_millis(1500))).await;
        assert!(
            matches!(ended, Err(Error::Timeout { .. })),
            "{era:?}: {ended:?}"
        );
        let call = client.call("ask", json!({}));
        let result = in_time(call.timeout(PATIENCE)).await.unwrap();
        assert_eq!(result.text(), "done");
    }
}

#[tokio::test]
async fn a_subscription_that_cannot_be_had_is_an_error() {
    for era in ERAS {
        let client = Client::builder()
            .connector(served_by(asking(Duration::ZERO, 1)))
            .era(era)
            .connect();
        let client = in_time(client).await.unwrap();
        // This server has no resources.
        let refused = in_time(client.subscribe("file:///x")).await;
        assert!(refused.is_err(), "{era:?}");
        in_time(client.close()).await;
        let closed = in_time(client.subscribe("file:///x")).await;
        assert!(
            matches!(closed, Err(Error::ShuttingDown { .. })),
            "{era:?}: {closed:?}"
        );
    }
}

/// Answers each request with what `answer` makes of it, until that says no.
async fn scripted(
    mut answer: impl FnMut(&Value) -> (Value, bool) + Send + 'static,
    stream: memory::Endpoint,
) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(request) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        if request["id"].is_null() {
            continue;
        }
        let (result, goes_on) = answer(&request);
        let line = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        let written = writer.write_all(format!("{line}\n").as_bytes()).await;
        if written.is_err() || !goes_on {
            return;
        }
    }
}

fn welcome() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "My Server", "version": "1.0 beta" },
    })
}

#[tokio::test]
async fn a_list_is_of_one_server() {
    let made = Arc::new(AtomicU32::new(0));
    let connector = move || {
        let nth = made.fetch_add(1, Ordering::SeqCst) + 1;
        let answer = move |request: &Value| {
            let first = request["params"]["cursor"].is_null();
            let page = |name: &str| json!([{ "name": format!("{name}{nth}"), "inputSchema": {} }]);
            match request["method"].as_str() {
                Some("initialize") => (welcome(), true),
                // The first server dies between two pages.
                Some("tools/list") if first => {
                    (json!({ "tools": page("a"), "nextCursor": "1" }), nth > 1)
                }
                Some("tools/list") => (json!({ "tools": page("b") }), true),
                _ => (json!({}), true),
            }
        };
        let (ours, theirs) = memory::pair();
        tokio::spawn(scripted(answer, theirs));
        async move { Ok::<_, io::Error>(ours) }
    };
    let client = Client::builder().era(Era::Legacy).connector(connector);
    let client = in_time(client.connect()).await.unwrap();
    let tools = in_time(client.tools()).await.unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a2", "b2"]);
}

#[tokio::test]
async fn what_the_server_says_it_is_is_told_as_it_says_it() {
    let connector = || {
        let (ours, theirs) = memory::pair();
        tokio::spawn(scripted(|_| (welcome(), true), theirs));
        async move { Ok::<_, io::Error>(ours) }
    };
    let client = Client::builder().era(Era::Legacy).connector(connector);
    let client = in_time(client.connect()).await.unwrap();
    let mut events = client.events();
    client.reconnect();
    let info = loop {
        match in_time(events.next()).await {
            Some(outlive::client::Event::Connected { server_info, .. }) => break server_info,
            Some(_) => {}
            None => panic!("no connection"),
        }
    };
    let info = info.unwrap();
    assert_eq!((&*info.name, &*info.version), ("My Server", "1.0 beta"));
}

#[tokio::test]
async fn notifications_to_a_server_that_does_not_read_are_bounded() {
    let connector = || {
        let (ours, theirs) = memory::pair();
        tokio::spawn(greeting_only(theirs));
        async move { Ok::<_, io::Error>(ours) }
    };
    let client = Client::builder().era(Era::Legacy).connector(connector);
    let client = in_time(client.connect()).await.unwrap();
    let megabyte = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    let megabyte = RawValue::from_string(megabyte).unwrap();
    let mut taken = 0;
    while taken < 1000 && client.notify("notifications/x", &megabyte).is_ok() {
        taken += 1;
        tokio::task::yield_now().await;
    }
    assert!(taken < 400, "{taken} MB were taken in");
}

/// Answers the handshake, then keeps the stream open and reads no more.
async fn greeting_only(stream: memory::Endpoint) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    if let Ok(Some(line)) = lines.next_line().await
        && let Ok(request) = serde_json::from_str::<Value>(&line)
    {
        let line = json!({ "jsonrpc": "2.0", "id": request["id"], "result": welcome() });
        let _ = writer.write_all(format!("{line}\n").as_bytes()).await;
    }
    std::future::pending::<()>().await;
    drop((lines, writer));
}

/// On a runtime of one thread answers are handed out in helpings. Those that were read before the
/// server was gone are answers all the same.
#[tokio::test(flavor = "current_thread")]
async fn answers_that_come_with_the_end_of_the_server_all_count() {
    const MANY: usize = 100;
    let connector = move || async move {
        let (ours, theirs) = memory::pair();
        tokio::spawn(async move {
            let (reader, mut writer) = tokio::io::split(theirs);
            let mut lines = BufReader::new(reader).lines();
            let mut calls = Vec::new();
            while calls.len() < MANY
                && let Ok(Some(line)) = lines.next_line().await
            {
                let request: Value = serde_json::from_str(&line).expect("a message");
                let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": welcome() });
                match request["method"].as_str() {
                    Some("initialize") => {
                        let answer = format!("{answer}\n");
                        writer.write_all(answer.as_bytes()).await.expect("a reader");
                    }
                    Some("tools/call") => calls.push(answer.to_string() + "\n"),
                    _ => {}
                }
            }
            // All at once, and away.
            let _ = writer.write_all(calls.concat().as_bytes()).await;
        });
        Ok::<_, io::Error>(ours)
    };
    let client = Client::builder().connector(connector).era(Era::Legacy);
    let client = in_time(client.connect()).await.expect("to connect");
    let calls: Vec<_> = (0..MANY)
        .map(|_| client.request::<Value>("tools/call", json!({ "name": "x" })))
        .map(|call| tokio::spawn(call.into_future()))
        .collect();
    for call in calls {
        let answer = in_time(call).await.expect("no panic");
        assert_eq!(answer.expect("an answer"), welcome());
    }
}
