//! Tools, resources and prompts that return every kind of content.

use outlive::model::{
    CallResult, Content, Prompt, PromptMessage, Resource, ResourceContents, Tool,
};
use outlive::server::Builder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// One red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// No sound at all.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

#[derive(Deserialize, JsonSchema)]
struct TwoArguments {
    /// The first.
    arg1: String,
    /// The second.
    arg2: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Embedded {
    /// The resource to embed.
    resource_uri: String,
}

pub fn add(server: Builder) -> Builder {
    prompts(resources(tools(server)))
}

fn embedded(uri: &str) -> Content {
    let mut contents = ResourceContents::text(uri, "This is an embedded resource.");
    contents.mime_type = Some("text/plain".into());
    Content::resource(contents)
}

fn tools(server: Builder) -> Builder {
    let mut schema = Tool::new("json_schema_2020_12_tool");
    schema.description = Some("Has a schema with keywords of 2020-12.".into());
    schema.input_schema = json_schema();
    server
        .tool(
            "test_image_content",
            "Returns an image.",
            |_, (): ()| async { Content::image(PNG, "image/png") },
        )
        .tool(
            "test_audio_content",
            "Returns a sound.",
            |_, (): ()| async { Content::audio(WAV, "audio/wav") },
        )
        .tool(
            "test_embedded_resource",
            "Returns a resource.",
            |_, (): ()| async { embedded("test://embedded-resource") },
        )
        .tool(
            "test_multiple_content_types",
            "Returns several things.",
            |_, (): ()| async {
                vec![
                    Content::text("Several things:"),
                    Content::image(PNG, "image/png"),
                    embedded("test://mixed-content-resource"),
                ]
            },
        )
        .tool("test_error_handling", "Always fails.", |_, (): ()| async {
            CallResult::error("This tool intentionally returns an error for testing")
        })
        .tool_with(schema, |_, _: serde_json::Map<String, Value>| async {
            "valid"
        })
}

fn resources(server: Builder) -> Builder {
    let mut text = Resource::new("test://static-text", "Static text");
    text.mime_type = Some("text/plain".into());
    let mut binary = Resource::new("test://static-binary", "Static binary");
    binary.mime_type = Some("image/png".into());
    let watched = Resource::new("test://watched-resource", "Watched resource");
    server
        .resource_with(text, |_, uri| async move {
            let words = "This is the content of the static text resource.";
            let mut contents = ResourceContents::text(uri.as_str(), words);
            contents.mime_type = Some("text/plain".into());
            contents
        })
        .resource_with(binary, |_, uri| async move {
            let mut contents = ResourceContents::blob(uri.as_str(), PNG);
            contents.mime_type = Some("image/png".into());
            contents
        })
        .resource_with(watched, |_, _| async { "Nothing has changed." })
        .resource_template(
            "test://template/{id}/data",
            "Template",
            |_, uri| async move {
                let data = json!({ "id": uri.get("id"), "templateTest": true });
                let mut contents = ResourceContents::text(uri.as_str(), data.to_string());
                contents.mime_type = Some("application/json".into());
                contents
            },
        )
}

fn prompts(server: Builder) -> Builder {
    let mut image = Prompt::new("test_prompt_with_image");
    image.description = Some("Shows an image.".into());
    server
        .prompt(
            "test_simple_prompt",
            "Has no arguments.",
            |_, _: super::NoArguments| async { "This is a simple prompt for testing." },
        )
        .prompt(
            "test_prompt_with_arguments",
            "Has two arguments.",
            |_, of: TwoArguments| async move {
                format!(
                    "Prompt with arguments: arg1='{}', arg2='{}'",
                    of.arg1, of.arg2
                )
            },
        )
        .prompt(
            "test_prompt_with_embedded_resource",
            "Embeds a resource.",
            |_, of: Embedded| async move {
                vec![
                    PromptMessage::user(embedded(&of.resource_uri)),
                    PromptMessage::user(Content::text(
                        "Please process the embedded resource above.",
                    )),
                ]
            },
        )
        .prompt_with(image, |_, _: super::NoArguments| async {
            vec![PromptMessage::user(Content::image(PNG, "image/png"))]
        })
        .completion(|_, _| async { Vec::<String>::new() })
}

fn json_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": {
            "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"],
        },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
