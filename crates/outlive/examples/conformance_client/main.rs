//! The client that the official conformance suite drives, over HTTP.
//!
//! ```console
//! $ conformance client --command target/debug/examples/conformance_client --scenario tools_call
//! ```
//!
//! It finds out which era the server speaks, and logs in where that is asked for, without a person: module `oauth`.
//! With `CONFORMANCE_THROUGH=outlive` it is a host of `outlive run URL` instead, which logs in by itself: module
//! `through`.
//!
//! The suite names what it wants to see in `MCP_CONFORMANCE_SCENARIO`, the version of the specification in
//! `MCP_CONFORMANCE_PROTOCOL_VERSION`, and gives the address as the last argument. What comes of it is in
//! `docs/conformance.md`.

use std::env;

mod oauth;
mod through;

use outlive::model::{ElicitRequest, ElicitResult, Object, RpcError};
use outlive::{Client, Error, Remote};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = env::args().next_back().ok_or("no address is given")?;
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO")?;
    let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default();
    let context: Value = serde_json::from_str(&context).unwrap_or_default();
    let builder = Client::builder()
        .info("outlive-conformance", env!("CARGO_PKG_VERSION"))
        .elicitation(|request| async move { filled_in(&request) })
        .sampling(|_| async { Err(RpcError::internal("there is no model here")) })
        .roots(|| async { Ok(Vec::new()) });
    let client = match through::command(&url, &scenario, &context)? {
        Some(command) => builder.command(command).connect().await?,
        None => {
            let remote = Remote::new(&url).credentials(oauth::Login::new(&url, &context)?);
            builder.url(remote).connect().await?
        }
    };
    let done = act(&client, &scenario, &context).await;
    client.close().await;
    through::clean_up();
    done
}

/// Does what a scenario wants to see.
async fn act(client: &Client, scenario: &str, context: &Value) -> Result<()> {
    let tools = client.tools().await?;
    match scenario {
        "initialize" | "json-schema-ref-no-deref" => {}
        "tools_call" => {
            client.call("add_numbers", json!({"a": 5, "b": 3})).await?;
        }
        "elicitation-sep1034-client-defaults" => {
            client
                .call("test_client_elicitation_defaults", json!({}))
                .await?;
        }
        "sse-retry" => {
            client.call("test_reconnection", json!({})).await?;
        }
        "request-metadata" => client.ping().await?,
        "sep-2322-client-request-state" => {
            for tool in [
                "test_mrtr_echo_state",
                "test_mrtr_unrelated",
                "test_mrtr_no_state",
                "test_mrtr_no_result_type",
            ] {
                client.call(tool, json!({})).await?;
            }
        }
        "http-standard-headers" => everything(client).await?,
        "http-custom-headers" => {
            for call in context["toolCalls"].as_array().into_iter().flatten() {
                let tool = call["name"].as_str().ok_or("a call without a tool")?;
                client.call(tool, &call["arguments"]).await?;
            }
        }
        "http-invalid-tool-headers" => {
            for tool in &tools {
                tool.call(json!({"region": "us-west1"})).await?;
            }
        }
        "json-schema-2020-12-preservation" => {
            let mut tools = tools.iter();
            let tool = tools.find(|tool| tool.name == "json_schema_2020_12_tool");
            let tool = tool.ok_or("the tool is missing")?;
            let echo = json!({ "schema": tool.input_schema });
            client.call("json_schema_echo", echo).await?;
        }
        auth if auth.starts_with("auth/") => {
            client.call("test-tool", json!({})).await?;
        }
        other => return Err(format!("an unknown scenario: {other}").into()),
    }
    Ok(())
}

/// One request of every kind that is named in its headers.
async fn everything(client: &Client) -> std::result::Result<(), Error> {
    client.call("test_headers", json!({})).await?;
    for resource in client.resources().await? {
        client.read_resource(&resource.uri).await?;
    }
    for prompt in client.prompts().await? {
        client.prompt(&prompt.name, json!({})).await?;
    }
    Ok(())
}

/// A form as a person would leave it who says yes to everything: with the values it suggests.
fn filled_in(request: &ElicitRequest) -> std::result::Result<ElicitResult, RpcError> {
    let form = request.requested_schema.as_ref();
    let fields = form.and_then(|form| form["properties"].as_object());
    let value = |field: &Value| match (&field["default"], field["type"].as_str()) {
        (Value::Null, Some("boolean")) => Some(json!(true)),
        (Value::Null, _) => None,
        (suggested, _) => Some(suggested.clone()),
    };
    let fields = fields.into_iter().flatten();
    let content: Object = fields
        .filter_map(|(name, field)| Some((name.clone(), value(field)?)))
        .collect();
    Ok(ElicitResult::accept(content))
}
