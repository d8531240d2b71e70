//! Tools that ask the client something: in a request of their own before 2026-07-28, and since then
//! by way of the answer. The handlers are the same.

use bytes::Bytes;
use outlive::server::{AskError, Builder, Ctx, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Prompt {
    /// What to ask the model.
    prompt: String,
}

#[derive(Deserialize, JsonSchema)]
struct Message {
    /// What to ask the person.
    message: String,
}

const ELICIT: &str = "elicitation/create";
const SAMPLE: &str = "sampling/createMessage";

fn form(message: &str, properties: Value) -> Value {
    let required: Vec<&String> = properties
        .as_object()
        .into_iter()
        .flat_map(|it| it.keys())
        .collect();
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    json!({ "message": message, "requestedSchema": schema })
}

fn name_form() -> Value {
    form(
        "What is your name?",
        json!({ "name": { "type": "string" } }),
    )
}

fn capital() -> Value {
    sampling("What is the capital of France?")
}

fn sampling(prompt: &str) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": prompt } });
    json!({ "messages": [message], "maxTokens": 100 })
}

fn told(answer: Result<Bytes, AskError>) -> Result<String, ToolError> {
    let answer = answer?;
    Ok(format!(
        "The client answered: {}",
        String::from_utf8_lossy(&answer)
    ))
}

pub fn add(server: Builder) -> Builder {
    rounds(asking(server))
}

/// Tools that ask once.
fn asking(server: Builder) -> Builder {
    server
        .tool("test_sampling", "Asks the model.", |ctx, of: Prompt| async move {
            told(ctx.request_json(SAMPLE, sampling(&of.prompt)).await)
        })
        .tool("test_elicitation", "Asks the person.", |ctx, of: Message| async move {
            let fields = json!({ "username": { "type": "string" }, "email": { "type": "string" } });
            told(ctx.request_json(ELICIT, form(&of.message, fields)).await)
        })
        .tool("test_elicitation_sep1034_defaults", "Asks with defaults.", |ctx, (): ()| async move {
            let fields = json!({
                "name": { "type": "string", "default": "John Doe" },
                "age": { "type": "integer", "default": 30 },
                "score": { "type": "number", "default": 95.5 },
                "status": {
                    "type": "string",
                    "enum": ["active", "inactive", "pending"],
                    "default": "active",
                },
                "verified": { "type": "boolean", "default": true },
            });
            told(ctx.request_json(ELICIT, form("Please confirm.", fields)).await)
        })
        .tool("test_elicitation_sep1330_enums", "Asks for a choice.", |ctx, (): ()| async move {
            let titled = json!([
                { "const": "value1", "title": "First Option" },
                { "const": "value2", "title": "Second Option" },
            ]);
            let plain = json!(["option1", "option2", "option3"]);
            let fields = json!({
                "untitledSingle": { "type": "string", "enum": plain },
                "titledSingle": { "type": "string", "oneOf": titled },
                "legacyEnum": {
                    "type": "string",
                    "enum": ["opt1", "opt2"],
                    "enumNames": ["Option One", "Option Two"],
                },
                "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
                "titledMulti": { "type": "array", "items": { "anyOf": titled } },
            });
            told(ctx.request_json(ELICIT, form("Please choose.", fields)).await)
        })
}

/// Tools for round trips.
fn rounds(server: Builder) -> Builder {
    server
        .tool(
            "test_input_required_result_elicitation",
            "Asks for a name.",
            |ctx, (): ()| async move { named(&ctx, "user_name").await },
        )
        .tool(
            "test_input_required_result_sampling",
            "Asks the model.",
            |ctx, (): ()| async move {
                told(
                    ctx.request_named("capital_question", SAMPLE, capital())
                        .await,
                )
            },
        )
        .tool(
            "test_input_required_result_list_roots",
            "Asks for the roots.",
            |ctx, (): ()| async move {
                told(
                    ctx.request_named("client_roots", "roots/list", json!({}))
                        .await,
                )
            },
        )
        .tool(
            "test_input_required_result_request_state",
            "Carries a state.",
            |ctx, (): ()| async move { named(&ctx, "confirm").await },
        )
        .tool(
            "test_input_required_result_tampered_state",
            "Guards its state.",
            |ctx, (): ()| async move { named(&ctx, "confirm").await },
        )
        .tool(
            "test_input_required_result_multi_round",
            "Asks twice.",
            |ctx, (): ()| async move {
                named(&ctx, "step1").await?;
                named(&ctx, "step2").await
            },
        )
        .tool(
            "test_input_required_result_multiple_inputs",
            "Asks for everything.",
            |ctx, (): ()| async move {
                let all = [
                    (ELICIT, name_form()),
                    (SAMPLE, capital()),
                    ("roots/list", json!({})),
                ];
                for answer in ctx.request_all(all).await {
                    told(answer)?;
                }
                Ok::<_, ToolError>("The client answered everything.")
            },
        )
        .tool(
            "test_input_required_result_capabilities",
            "Asks for what is possible.",
            |ctx, (): ()| async move {
                let both = [(ELICIT, name_form()), (SAMPLE, capital())];
                // One of them may be refused before it is sent.
                let answers = ctx.request_all(both).await;
                let given = answers.iter().filter(|answer| answer.is_ok()).count();
                format!("The client answered {given} of 2.")
            },
        )
        .prompt(
            "test_input_required_result_prompt",
            "Asks for the context.",
            |ctx, _: super::NoArguments| async move {
                let fields = json!({ "context": { "type": "string" } });
                let form = form("What is the context?", fields);
                let answer = ctx.request_named("user_context", ELICIT, form).await?;
                Ok::<_, AskError>(format!("The context: {}", String::from_utf8_lossy(&answer)))
            },
        )
}

async fn named(ctx: &Ctx, key: &'static str) -> Result<String, ToolError> {
    let answer = ctx.request_named(key, ELICIT, name_form()).await?;
    let answer: Value = serde_json::from_slice(&answer)?;
    let name = answer["content"]["name"].as_str().unwrap_or("you");
    Ok(format!("Hello, {name}!"))
}
