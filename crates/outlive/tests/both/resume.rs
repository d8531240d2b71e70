//! A client goes on where another one was.

use std::fs;
use std::path::Path;

use outlive::client::{Builder, Event, Listen};
use outlive::model::LogLevel;
use outlive::{Client, Command, Error, Server, Snapshot};
use serde_json::{Value, json};

use super::{ERAS, in_time};

/// A server in a process of its own: writes down what it reads, and has the tools that a file says it has.
const SCRIPT: &str = r#"
cd "$0"
while read -r line; do
    printf '%s\n' "$line" >> log
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
    case $line in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{},"resources":{"subscribe":true}},"serverInfo":{"name":"script","version":"1"},"instructions":"Be kind."}' ;;
    *'"method":"tools/list"'*) result=$(cat tools) ;;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"done"}]}' ;;
    *) result='{}' ;;
    esac
    [ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

fn script(folder: &Path) -> Command {
    let folder = folder.to_str().expect("a plain path");
    Command::new("sh", ["-c", SCRIPT, folder])
}

/// What the server has read since it was last asked: methods, and what was subscribed to.
fn read(folder: &Path) -> Vec<String> {
    let log = fs::read_to_string(folder.join("log")).expect("a log");
    fs::write(folder.join("log"), "").expect("to write");
    let said = log.lines().map(|line| {
        let message: Value = serde_json::from_str(line).expect("JSON");
        let method = message["method"].as_str().expect("a method");
        match message["params"]["uri"].as_str() {
            Some(uri) => format!("{method} {uri}"),
            None => method.to_string(),
        }
    });
    said.collect()
}

async fn tools_changed(events: &mut Listen<Event>) -> (Vec<String>, Vec<String>) {
    loop {
        match in_time(events.next()).await.expect("an event") {
            Event::ToolsChanged { added, removed, .. } => return (added, removed),
            _ => continue,
        }
    }
}

#[tokio::test]
async fn a_worker_that_restarts_goes_on_with_the_session_it_had() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::write(
        folder.join("tools"),
        r#"{"tools":[{"name":"old","inputSchema":{}}]}"#,
    )
    .unwrap();
    let connected = in_time(Client::builder().command(script(folder)).connect()).await;
    let client = connected.expect("to connect");
    in_time(client.tools()).await.expect("tools");
    in_time(client.set_log_level(LogLevel::Warning))
        .await
        .expect("a level");
    in_time(client.subscribe("file:///a"))
        .await
        .expect("a subscription");
    let bytes = in_time(client.snapshot())
        .await
        .expect("a snapshot")
        .encode();
    assert!(bytes.len() < 2048, "{} bytes", bytes.len());
    in_time(client.close()).await;
    read(folder);

    fs::write(
        folder.join("tools"),
        r#"{"tools":[{"name":"new","inputSchema":{}}]}"#,
    )
    .unwrap();
    let snapshot = Snapshot::decode(&bytes).expect("a snapshot");
    let resumed = Client::builder().command(script(folder)).resume(snapshot);
    let client = in_time(resumed.connect()).await.expect("to connect");
    let mut events = client.events();
    let told = tools_changed(&mut events).await;
    assert_eq!(told, (vec!["new".into()], vec!["old".into()]));
    assert_eq!(
        read(folder),
        [
            "initialize",
            "notifications/initialized",
            "logging/setLevel",
            "resources/subscribe file:///a",
            "tools/list",
        ]
    );
    assert_eq!(
        client.server_info().map(|info| info.name.as_str()),
        Some("script")
    );
    assert_eq!(client.instructions(), Some("Be kind."));
    assert_eq!(client.protocol_version(), Some("2025-11-25"));
    let answer = in_time(client.call("new", json!({})))
        .await
        .expect("an answer");
    assert_eq!(answer.text(), "done");
    in_time(client.close()).await;
}

fn with_tool(name: &str) -> Server {
    let server = Server::builder("s", "1").tool(name, "", |_, (): ()| async { "done" });
    server
        .tool("stuck", "", |_, (): ()| std::future::pending::<&str>())
        .build()
}

#[tokio::test]
async fn calls_in_flight_end_with_their_callers_and_streams_go_on_in_both_eras() {
    for era in ERAS {
        let first = with_tool("old");
        let client = Client::builder().server(&first).era(era).connect();
        let client = in_time(client).await.expect("to connect");
        in_time(client.tools()).await.expect("tools");
        let stuck = tokio::spawn({
            let client = client.clone();
            async move { client.call("stuck", json!({})).await }
        });
        in_time(client.call("old", json!({})))
            .await
            .expect("an answer");
        let snapshot = in_time(client.snapshot()).await.expect("a snapshot");
        in_time(client.close()).await;
        assert!(in_time(stuck).await.expect("no panic").is_err());

        let next = with_tool("new");
        let resumed = Client::builder().server(&next).resume(snapshot);
        let client = in_time(resumed.connect()).await.expect("to connect");
        let told = tools_changed(&mut client.events()).await;
        assert_eq!(told, (vec!["new".into()], vec!["old".into()]), "{era:?}");
        // Its ids are new to the session.
        let answers = in_time(client.call("new", json!({}))).await;
        assert_eq!(answers.expect("an answer").text(), "done");
        in_time(client.close()).await;
    }
}

#[tokio::test]
async fn what_cannot_be_resumed_fails_at_once() {
    let server = with_tool("any");
    let client = Client::builder().server(&server).connect();
    let client = in_time(client).await.expect("to connect");
    let snapshot = in_time(client.snapshot()).await.expect("a snapshot");
    in_time(client.close()).await;
    let ended = in_time(client.snapshot()).await;
    assert!(
        matches!(ended, Err(Error::ShuttingDown { .. })),
        "{ended:?}"
    );

    let refused = |builder: Builder, snapshot: Snapshot| {
        let connect = builder.server(&server).resume(snapshot).connect();
        async move {
            match in_time(connect).await {
                Err(Error::Misconfigured { why }) => why,
                other => panic!("{other:?}"),
            }
        }
    };
    let nobodys = snapshot.clone().attach(&b"{}"[..]);
    let why = refused(Client::builder(), nobodys).await;
    assert!(why.contains("what its client knew"), "{why}");
    let mut policy = outlive::Policy::default();
    policy.limits.message = 1024;
    let long = snapshot.attachment().to_vec();
    let long = String::from_utf8(long)
        .expect("text")
        .replace("\"next_id\":", "\"next_id\":99999999999999999");
    let why = refused(
        Client::builder().policy(policy),
        snapshot.attach(long.into_bytes()),
    )
    .await;
    assert!(why.contains("the ids of its client"), "{why}");
}
