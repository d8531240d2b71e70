//! A server on `outlive` with one of everything, for the clients of other SDKs.
//!
//! Its tools are those of `tests/peers/servers/tools.py`, and `sample` and `ask`, which ask the
//! client's model and the person.

use std::path::Path;
use std::time::Duration;

use outlive::Server;
use outlive::model::{Content, ElicitRequest, LogLevel, Role, SamplingMessage, SamplingRequest};
use outlive::server::{Ctx, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct Echo {
    value: Value,
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    to: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Linger {
    /// A file that is made when the tool runs; beside it, one that is made when it is cancelled.
    started: String,
}

#[derive(Deserialize, JsonSchema)]
struct Review {
    code: String,
}

fn main() -> std::io::Result<()> {
    let server = Server::builder("outlive-server", "0.0.0")
        .instructions("One of everything.")
        .tool("ping", "Answers.", |_, (): ()| async { "pong" })
        .tool("pid", "Says which process answers.", |_, (): ()| async {
            std::process::id().to_string()
        })
        .tool(
            "echo",
            "Returns its argument.",
            |_, echo: Echo| async move { echo.value.to_string() },
        )
        .tool("fail", "Fails.", |_, (): ()| async {
            Err::<String, _>(ToolError::new("this tool always fails"))
        })
        .tool("count", "Counts and says how far it is.", count)
        .tool("linger", "Works until nobody wants it.", linger)
        .tool("roots", "Asks for the client's roots.", roots)
        .tool("sample", "Asks the client's model.", sample)
        .tool("ask", "Asks the person.", ask)
        .resource("memo://greeting", "greeting", |_, _| async {
            "hello, wörld \u{2028} \u{1f980}"
        })
        .resource_template("memo://of/{name}", "memo", |_, uri| async move {
            format!("memo of {}", uri.get("name"))
        })
        .prompt(
            "review",
            "A prompt with one argument.",
            |_, review: Review| async move { format!("Please review:\n{}", review.code) },
        )
        .completion(|_, typed| async move {
            let known = ["fn main() {}", "fn test() {}", "struct Unit;"];
            let fitting = known
                .into_iter()
                .filter(|word| word.starts_with(&typed.argument.value));
            fitting.collect::<Vec<_>>()
        });
    server.build().run_stdio()
}

async fn count(ctx: Ctx, count: Count) -> String {
    for step in 1..=count.to {
        let total = Some(f64::from(count.to));
        ctx.progress_message(f64::from(step), total, format!("step {step}"));
        // The TypeScript SDK loses progress that it reads at once with the answer.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ctx.log(LogLevel::Info, "counted");
    format!("counted to {}", count.to)
}

async fn linger(ctx: Ctx, linger: Linger) -> Result<String, ToolError> {
    let started = Path::new(&linger.started);
    std::fs::write(started, "")?;
    let reason = ctx.cancelled().await;
    std::fs::write(started.with_added_extension("cancelled"), "")?;
    Ok(reason.to_string())
}

async fn roots(ctx: Ctx, (): ()) -> Result<String, ToolError> {
    let roots = ctx.roots().await?;
    let uris: Vec<_> = roots.iter().map(|root| &*root.uri).collect();
    Ok(uris.join(", "))
}

async fn sample(ctx: Ctx, (): ()) -> Result<String, ToolError> {
    let question = SamplingMessage::new(Role::User, Content::text("Say it."));
    let request = SamplingRequest::new(vec![question], 10);
    let answer = ctx.sample(&request).await?;
    let words = answer.content.pieces().iter().filter_map(Content::as_text);
    Ok(words.collect())
}

async fn ask(ctx: Ctx, (): ()) -> Result<String, ToolError> {
    let form = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let form = ElicitRequest::form("What is your name?", form);
    let answer = ctx.elicit(&form).await?;
    let content = Value::from(answer.content.unwrap_or_default());
    Ok(format!(
        "{}: {}",
        json!(answer.action).as_str().unwrap_or_default(),
        content["name"]
    ))
}
