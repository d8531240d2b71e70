//! What is registered is what is offered: schemas, capabilities, results.

use outlive::model::{CompletionRef, Content, Prompt, Resource, RpcError, Tool, ToolAnnotations};
use outlive::server::{Json, Server, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::rig::{Client, on_both_runtimes, text};

#[derive(Deserialize, JsonSchema)]
struct Sum {
    /// What to add up.
    numbers: Vec<f64>,
    #[serde(default)]
    label: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Total {
    total: f64,
}

fn calculator() -> Server {
    let mut careful = Tool::new("careful");
    careful.annotations = Some({
        let mut hints = ToolAnnotations::default();
        hints.read_only_hint = Some(true);
        hints
    });
    Server::builder("calculator", "1.2.3")
        .instructions("Adds.")
        .tool("ping", "Returns pong.", |_, (): ()| async { "pong" })
        .tool("sum", "Adds numbers up.", |_, sum: Sum| async move {
            if let Some(label) = sum.label {
                return Err(ToolError::new(format!("no labels here, {label}")));
            }
            let total = sum.numbers.iter().sum();
            Ok(Json(Total { total }))
        })
        .tool("refuse", "Refuses.", |_, (): ()| async {
            Err::<(), _>(RpcError::new(-32050, "not today").with_data(json!({ "when": 1 })))
        })
        .tool("picture", "Shows.", |_, (): ()| async {
            vec![Content::text("look"), Content::image("AA==", "image/png")]
        })
        .tool_with(careful, |_, any: Value| async move { any.to_string() })
        .build()
}

#[test]
fn a_tool_is_listed_with_the_schemas_of_its_types() {
    on_both_runtimes(|| async {
        let mut client = Client::legacy(&calculator()).await;
        let list = client.request(1, "tools/list", json!({})).await;
        let tools = &list["result"]["tools"];
        let names: Vec<_> = tools
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| &tool["name"])
            .collect();
        assert_eq!(names, ["ping", "sum", "refuse", "picture", "careful"]);
        let schema = &tools[1]["inputSchema"];
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["required"], json!(["numbers"]));
        assert_eq!(
            schema["properties"]["numbers"]["description"],
            "What to add up."
        );
        assert_eq!(tools[1]["outputSchema"]["required"], json!(["total"]));
        assert_eq!(
            tools[0]["inputSchema"],
            json!({ "type": "object", "properties": {} })
        );
        assert_eq!(tools[4]["annotations"], json!({ "readOnlyHint": true }));
        client.vanish().await;
    });
}

#[test]
fn results_and_failures_of_tools_reach_the_client() {
    on_both_runtimes(|| async {
        let mut client = Client::legacy(&calculator()).await;
        assert_eq!(text(&client.call(1, "ping", json!({})).await), "pong");
        let sum = client.call(2, "sum", json!({ "numbers": [1, 2.5] })).await;
        assert_eq!(sum["result"]["structuredContent"], json!({ "total": 3.5 }));
        assert_eq!(text(&sum), r#"{"total":3.5}"#);
        let failed = client
            .call(3, "sum", json!({ "numbers": [], "label": "x" }))
            .await;
        assert_eq!(failed["result"]["isError"], true);
        assert_eq!(text(&failed), "no labels here, x");
        // For the model to mend: not an error of the protocol.
        let wrong = client.call(4, "sum", json!({ "numbers": "three" })).await;
        assert_eq!(wrong["result"]["isError"], true);
        assert!(text(&wrong).contains("expected a sequence"), "{wrong}");
        let refused = client.call(5, "refuse", json!({})).await;
        let expected = json!({ "code": -32050, "message": "not today", "data": { "when": 1 } });
        assert_eq!(refused["error"], expected);
        let picture = client.call(6, "picture", json!({})).await;
        assert_eq!(picture["result"]["content"][1]["mimeType"], "image/png");
        let unknown = client.call(7, "nothing", json!({})).await;
        assert_eq!(unknown["error"]["code"], -32602);
        let any = client.call(8, "careful", json!({ "a": [1] })).await;
        assert_eq!(text(&any), r#"{"a":[1]}"#);
        client.vanish().await;
    });
}

#[test]
fn capabilities_are_what_is_registered() {
    on_both_runtimes(|| async {
        let mut client = Client::connect(&calculator());
        let about = client.shake_hands().await;
        let expected = json!({ "tools": { "listChanged": true }, "logging": {} });
        assert_eq!(about["capabilities"], expected);
        assert_eq!(about["serverInfo"]["name"], "calculator");
        assert_eq!(about["instructions"], "Adds.");
        for method in ["prompts/list", "resources/list", "completion/complete"] {
            let answer = client.request(method, method, json!({})).await;
            assert_eq!(answer["error"]["code"], -32601, "{method}");
        }
        client.vanish().await;

        let later = Server::builder("later", "1")
            .tools_later()
            .resources_later();
        let mut client = Client::connect(&later.build());
        let about = client.shake_hands().await;
        let resources = json!({ "subscribe": true, "listChanged": true });
        assert_eq!(about["capabilities"]["resources"], resources);
        let list = client.request(1, "tools/list", json!({})).await;
        assert_eq!(list["result"], json!({ "tools": [] }));
        client.vanish().await;
    });
}

#[derive(Deserialize, JsonSchema)]
struct Topic {
    /// What it is about.
    topic: String,
    tone: Option<String>,
}

fn library() -> Server {
    let mut note = Resource::new("note://today", "today");
    note.mime_type = Some("text/plain".into());
    let mut titled = Prompt::new("plain");
    titled.title = Some("Plain".into());
    Server::builder("library", "1")
        .resource_with(note, |_, uri| async move { format!("at {}", uri.as_str()) })
        .resource("note://bytes", "bytes", |_, _| async { vec![0_u8, 255] })
        .resource("note://gone", "gone", |_, _| async { None::<String> })
        .resource("note://broken", "broken", |_, _| async {
            Err::<String, _>("the disk is full")
        })
        .resource_template("file:///{+path}", "files", |_, uri| async move {
            uri.get("path").to_owned()
        })
        .prompt("explain", "Explains.", |_, of: Topic| async move {
            format!("{} {}", of.topic, of.tone.unwrap_or_default())
        })
        .prompt_with(titled, |_, (): ()| async { "plain" })
        .completion(|_, typed| async move {
            let CompletionRef::Prompt(prompt) = typed.reference else {
                return Err(RpcError::invalid_params("only prompts"));
            };
            Ok((0..200)
                .map(|n| format!("{}{}{n}", prompt.name, typed.argument.value))
                .collect::<Vec<_>>())
        })
        .build()
}

#[test]
fn resources_and_templates_are_read() {
    on_both_runtimes(|| async {
        let mut client = Client::legacy(&library()).await;
        let mut next = 0;
        let mut read = async |client: &mut Client, uri: &str| {
            next += 1;
            client
                .request(next, "resources/read", json!({ "uri": uri }))
                .await
        };
        let today = read(&mut client, "note://today").await;
        let expected =
            json!([{ "uri": "note://today", "mimeType": "text/plain", "text": "at note://today" }]);
        assert_eq!(today["result"]["contents"], expected);
        let bytes = read(&mut client, "note://bytes").await;
        assert_eq!(bytes["result"]["contents"][0]["blob"], "AP8=");
        let file = read(&mut client, "file:///a/b%20c").await;
        assert_eq!(file["result"]["contents"][0]["text"], "a/b c");
        for missing in ["note://gone", "note://never"] {
            let answer = read(&mut client, missing).await;
            assert_eq!(answer["error"]["code"], -32002, "{missing}");
            assert_eq!(answer["error"]["data"]["uri"], missing);
        }
        let broken = read(&mut client, "note://broken").await;
        assert_eq!(broken["error"]["code"], -32603);
        assert_eq!(broken["error"]["message"], "the disk is full");
        let list = client
            .request("l", "resources/templates/list", json!({}))
            .await;
        assert_eq!(
            list["result"]["resourceTemplates"][0]["uriTemplate"],
            "file:///{+path}"
        );
        client.vanish().await;
    });
}

#[test]
fn prompts_are_filled_in_and_completed() {
    on_both_runtimes(|| async {
        let mut client = Client::legacy(&library()).await;
        let list = client.request(1, "prompts/list", json!({})).await;
        let expected = json!([
            { "name": "tone", "required": false },
            { "name": "topic", "description": "What it is about.", "required": true },
        ]);
        assert_eq!(list["result"]["prompts"][0]["arguments"], expected);
        assert_eq!(
            list["result"]["prompts"][1],
            json!({ "name": "plain", "title": "Plain" })
        );
        let params = json!({ "name": "explain", "arguments": { "topic": "rust" } });
        let got = client.request(2, "prompts/get", params).await;
        assert_eq!(got["result"]["description"], "Explains.");
        let message = &got["result"]["messages"][0];
        assert_eq!(
            (&message["role"], &message["content"]["text"]),
            (&json!("user"), &json!("rust "))
        );
        let params = json!({ "name": "explain", "arguments": {} });
        let wrong = client.request(3, "prompts/get", params).await;
        assert_eq!(wrong["error"]["code"], -32602);
        let params = json!({
            "ref": { "type": "ref/prompt", "name": "explain" },
            "argument": { "name": "topic", "value": "r" },
        });
        let completed = client.request(4, "completion/complete", params).await;
        let completion = &completed["result"]["completion"];
        assert_eq!(completion["values"].as_array().unwrap().len(), 100);
        assert_eq!(
            (&completion["total"], &completion["hasMore"]),
            (&json!(200), &json!(true))
        );
        assert_eq!(completion["values"][3], "explainr3");
        client.vanish().await;
    });
}

#[test]
fn what_makes_no_sense_is_not_built() {
    let ping = |_, (): ()| async { "pong" };
    let twice = Server::builder("x", "1")
        .tool("a", "", ping)
        .tool("a", "", ping);
    let error = twice.try_build().unwrap_err();
    assert_eq!(error.to_string(), r#"there are two of the tool "a""#);
    let wrong = Server::builder("x", "1").resource_template("x://{a", "a", |_, _| async { "" });
    assert!(
        wrong
            .try_build()
            .unwrap_err()
            .to_string()
            .contains("is not closed")
    );
}
