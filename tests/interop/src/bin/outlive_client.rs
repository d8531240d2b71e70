//! A client on `outlive` with a server of any other SDK: what the server offers, how calls end, and a
//! server killed in the middle of one.
//!
//! usage: `outlive-client SCRATCH_FOLDER COMMAND ARG…`; prints one JSON object with what it saw,
//! which the peer tests judge. The server has the tools of `tests/peers/servers/tools.py`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use outlive::client::{Running, State};
use outlive::model::{CallResult, CompletionRef, Root, RpcError};
use outlive::{Client, Command, Error};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};

type Seen = Map<String, Value>;
type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args_os().skip(1);
    let (Some(scratch), Some(command)) = (args.next(), args.next()) else {
        return Err("usage: outlive-client SCRATCH_FOLDER COMMAND ARG…".into());
    };
    let client = Client::builder()
        .command(Command::new(command, args))
        .roots(|| async { Ok::<_, RpcError>(vec![Root::new("file:///one")]) })
        .connect()
        .await?;
    let mut seen = Seen::new();
    seen.insert("protocol".into(), client.protocol_version().into());
    let tools = client.tools().await?;
    let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    calls(&client, &mut seen, &names).await?;
    if client
        .capabilities()
        .is_some_and(|able| able.prompts.is_some())
    {
        reads(&client, &mut seen).await?;
    }
    cancelled(&client, &mut seen, Path::new(&scratch)).await?;
    killed(&client, &mut seen, Path::new(&scratch)).await?;
    client.close().await;
    seen.insert("closed".into(), (client.state() == State::Closed).into());
    println!("{}", Value::from(seen));
    Ok(())
}

async fn calls(client: &Client, seen: &mut Seen, tools: &[&str]) -> Result<(), Failure> {
    client.ping().await?;
    seen.insert("ping".into(), text(client, "ping").await?.into());
    let echoed = client
        .call("echo", json!({ "value": "h\u{e9} \u{2028}" }))
        .await?;
    seen.insert("echo".into(), echoed.text().into());
    seen.insert("fail".into(), end_of(client.call("fail", json!({})).await));
    let unknown = client.call("no such tool", json!({})).await;
    seen.insert("unknown".into(), end_of(unknown));

    let mut call = client.call("count", json!({ "to": 5 })).progress().start();
    let mut steps = Vec::new();
    if let Some(mut progress) = call.progress() {
        while let Some(step) = progress.next().await {
            steps.push(step.progress);
        }
    }
    seen.insert("progress".into(), steps.into());
    seen.insert("count".into(), call.await?.text().into());
    if tools.contains(&"roots") {
        seen.insert(
            "roots".into(),
            end_of(client.call("roots", json!({})).await),
        );
    }
    Ok(())
}

async fn reads(client: &Client, seen: &mut Seen) -> Result<(), Failure> {
    let resources = client.resources().await?;
    let uris: Vec<_> = resources.iter().map(|resource| &*resource.uri).collect();
    seen.insert("resources".into(), uris.into());
    let templates = client.resource_templates().await?;
    let templates: Vec<_> = templates.iter().map(|of| &*of.uri_template).collect();
    seen.insert("templates".into(), templates.into());
    let read = client.read_resource("memo://greeting").await?;
    seen.insert("read".into(), json!(read)["contents"][0]["text"].clone());
    let prompt = client.prompt("review", json!({ "code": "1" })).await?;
    seen.insert(
        "prompt".into(),
        json!(prompt)["messages"][0]["content"]["text"].clone(),
    );
    if client
        .capabilities()
        .is_some_and(|able| able.completions.is_some())
    {
        let known = client
            .complete(CompletionRef::prompt("review"), "code", "fn")
            .await?;
        seen.insert("completion".into(), known.values.into());
    }
    Ok(())
}

async fn cancelled(client: &Client, seen: &mut Seen, scratch: &Path) -> Result<(), Failure> {
    let started = scratch.join("cancelled");
    let before = text(client, "pid").await?;
    let call = begun(client, &started).await;
    call.canceller().cancel("the user changed their mind");
    seen.insert("cancelled".into(), end_of(call.await));
    appearance(&started.with_added_extension("cancelled")).await;
    seen.insert(
        "after the cancel".into(),
        text(client, "ping").await?.into(),
    );
    let same = text(client, "pid").await? == before;
    seen.insert("same process".into(), same.into());
    Ok(())
}

async fn killed(client: &Client, seen: &mut Seen, scratch: &Path) -> Result<(), Failure> {
    let before = text(client, "pid").await?;
    let call = begun(client, &scratch.join("killed")).await;
    let victim = Pid::from_raw(before.parse()?).ok_or("no process id")?;
    kill_process(victim, Signal::KILL)?;
    seen.insert("killed".into(), end_of(call.await));
    seen.insert("after the kill".into(), text(client, "ping").await?.into());
    let another = text(client, "pid").await? != before;
    seen.insert("another process".into(), another.into());
    Ok(())
}

/// A call that the server has begun to work on.
async fn begun(client: &Client, started: &Path) -> Running<CallResult> {
    let arguments = json!({ "seconds": 300, "started": started });
    let call = client.call("linger", arguments).start();
    appearance(started).await;
    call
}

/// Waits for the file by which a tool says how far it is. The tests end a run in which it does not come.
async fn appearance(file: &Path) {
    let file = PathBuf::from(file);
    while !file.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn text(client: &Client, tool: &str) -> Result<String, Error> {
    Ok(client.call(tool, json!({})).await?.text())
}

fn end_of(call: Result<CallResult, Error>) -> Value {
    match call {
        Ok(result) => json!({
            "is error": result.is_error.unwrap_or(false),
            "text": result.text(),
        }),
        Err(Error::Remote { code, message, .. }) => json!({ "code": code, "message": message }),
        Err(error) => {
            let cause = match &error {
                Error::ConnectionLost { cause, .. } => cause.to_json(),
                _ => Value::Null,
            };
            json!({ "kind": error.kind(), "outcome": error.outcome().as_str(), "cause": cause })
        }
    }
}
