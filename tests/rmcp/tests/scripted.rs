//! An rmcp client and a server that says what no decent server says.

use outlive::Error;
use outlive::error::Outcome;
use outlive::memory;
use outlive::rmcp::{ErrorExt, Supervised};
use rmcp::ServiceExt;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::rig::{self, within};

/// What the server says to a message.
type Script = fn(&Value) -> Vec<Value>;

/// A server that follows a script, whenever it is connected to.
fn scripted(script: Script) -> Supervised {
    Supervised::connector(move || async move {
        let (ours, theirs) = memory::pair();
        tokio::spawn(async move {
            let (reader, mut writer) = tokio::io::split(theirs);
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message = serde_json::from_str(&line).expect("JSON");
                for said in script(&message) {
                    if writer
                        .write_all(format!("{said}\n").as_bytes())
                        .await
                        .is_err()
                    {
                        return;
                    }
                }
            }
        });
        Ok(ours)
    })
}

fn initialized(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": {
        "protocolVersion": "2025-11-25",
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "scripted", "version": "1" },
    } })
}

/// rmcp answers a `ping` during the handshake if it gets to see it.
#[tokio::test]
async fn a_server_may_ask_for_a_sign_of_life_before_it_answers_initialize() {
    within(async {
        let transport = scripted(|message| match message["method"].as_str() {
            Some("initialize") => {
                vec![json!({ "jsonrpc": "2.0", "id": "first", "method": "ping" })]
            }
            None if message["id"] == "first" => vec![initialized(&json!(0))],
            _ => vec![],
        });
        let client = ().serve(transport).await.expect("it connects");
        let name = client.peer_info().expect("known").server_info.clone();
        assert_eq!(name.expect("named").name, "scripted");
    })
    .await;
}

/// An error whose code is no number: rmcp alone drops it and leaves its caller waiting for ever.
#[tokio::test]
async fn an_answer_that_rmcp_cannot_read_is_a_typed_error() {
    within(async {
        let transport = scripted(|message| match message["method"].as_str() {
            Some("initialize") => vec![initialized(&message["id"])],
            Some("tools/call") => {
                let error = json!({ "code": "E_BROKEN", "message": 7 });
                vec![json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })]
            }
            _ => vec![],
        });
        let client = ().serve(transport).await.expect("it connects");
        let error = rig::text(&client, "ping").await.expect_err("unreadable");
        let Some(Error::Protocol { outcome, .. }) = error.outlive() else {
            panic!("{error:?}");
        };
        assert_eq!(*outcome, Outcome::Done);
    })
    .await;
}

/// rmcp tries `server/discover` and falls back, over the same transport.
#[tokio::test]
async fn a_legacy_server_is_fallen_back_to() {
    use rmcp::model::ProtocolVersion;
    use rmcp::service::{ClientLifecycleMode, serve_client_with_lifecycle};

    within(async {
        let transport = scripted(|message| match message["method"].as_str() {
            Some("initialize") => vec![initialized(&message["id"])],
            Some("server/discover") => {
                let error = json!({ "code": -32601, "message": "Method not found" });
                vec![json!({ "jsonrpc": "2.0", "id": message["id"], "error": error })]
            }
            Some("tools/call") => {
                let result = json!({ "content": [{ "type": "text", "text": "pong" }] });
                vec![json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })]
            }
            _ => vec![],
        });
        let auto = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: None,
        };
        let client = serve_client_with_lifecycle((), transport, auto).await;
        let client = client.expect("it connects");
        assert_eq!(rig::text(&client, "ping").await.expect("a pong"), "pong");
    })
    .await;
}
