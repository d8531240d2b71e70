//! A server that offers one of everything, and tools that misbehave in every way a tool can.
//!
//! ```console
//! $ cargo run -p outlive --example everything
//! ```
//!
//! With `--current-thread` it runs on a runtime of that kind, with `--no-runtime` on none; with
//! `--message-limit BYTES` it takes no longer messages.

use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use outlive::model::{ElicitRequest, LogLevel, Tool};
use outlive::server::{Builder, Ctx, Json, Server, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// What to say.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct Sum {
    numbers: Vec<f64>,
}

#[derive(Serialize, JsonSchema)]
struct Total {
    total: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Wait {
    /// How long, in milliseconds.
    ms: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Topic {
    /// What it is about.
    topic: String,
}

fn server() -> Builder {
    let server = Server::builder("everything", "1.0.0")
        .instructions("Offers one of everything.")
        .tool("ping", "Returns pong.", |_, (): ()| async { "pong" })
        .tool("echo", "Says it again.", |_, echo: Echo| async {
            echo.text
        })
        .tool("sum", "Adds numbers up.", |_, sum: Sum| async move {
            if sum.numbers.is_empty() {
                return Err(ToolError::new("There is nothing to add up."));
            }
            Ok(Json(Total {
                total: sum.numbers.iter().sum(),
            }))
        });
    let server = resources(server)
        .prompt(
            "explain",
            "Explains something.",
            |_, of: Topic| async move { format!("Explain {} to me.", of.topic) },
        )
        .completion(|_, typed| async move {
            let known = ["cancellation", "capabilities", "progress"];
            let proposed = known
                .into_iter()
                .filter(|word| word.starts_with(&typed.argument.value));
            proposed.map(str::to_owned).collect::<Vec<_>>()
        });
    misbehaving(talking(server))
}

fn resources(server: Builder) -> Builder {
    server
        .resource("demo://greeting", "greeting", |_, _| async { "Hello." })
        .resource_template("demo://square/{n}", "square", |_, uri| async move {
            let n: i64 = uri.get("n").parse().ok()?;
            Some((n * n).to_string())
        })
}

/// Tools that talk to the client while they work.
fn talking(server: Builder) -> Builder {
    server
        .tool("steps", "Works and says how far it is.", steps)
        .tool("ask", "Asks the person.", ask)
        .tool("grow", "Adds a tool.", |ctx, (): ()| async move {
            let grown = |_: Ctx, (): ()| async { "I was added." };
            ctx.server().add_tool("grown", "Was added.", grown);
        })
}

async fn steps(ctx: Ctx, (): ()) -> &'static str {
    for step in 1..=3 {
        ctx.progress_message(f64::from(step), Some(3.0), format!("step {step}"));
        ctx.log(LogLevel::Info, json!({ "step": step }));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    "done"
}

async fn ask(ctx: Ctx, (): ()) -> Result<String, ToolError> {
    let form = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let answer = ctx
        .elicit(&ElicitRequest::form("What is your name?", form))
        .await;
    match answer {
        Ok(answer) => Ok(format!("{:?}", answer.action)),
        Err(error) => Err(error.into()),
    }
}

/// Tools that no server should have.
fn misbehaving(server: Builder) -> Builder {
    let mut careless = Tool::new("drops");
    careless.description = Some("Forgets to answer.".into());
    server
        .tool(
            "sleep",
            "Sleeps and lets others work.",
            |ctx, wait: Wait| async move {
                for slept in (0..wait.ms).step_by(100) {
                    ctx.progress(slept as f64, Some(wait.ms as f64));
                    let step = (wait.ms - slept).min(100);
                    tokio::time::sleep(Duration::from_millis(step)).await;
                }
                "slept"
            },
        )
        .tool("block", "Blocks its thread.", |_, wait: Wait| async move {
            std::thread::sleep(Duration::from_millis(wait.ms));
            "blocked"
        })
        .tool("panic", "Panics.", |_, (): ()| async {
            if true {
                panic!("this tool panics");
            }
        })
        .tool_responding(careless, |_, responder| async { drop(responder) })
        .tool("print", "Prints to standard output.", |_, (): ()| async {
            println!("not a message");
            println!(r#"{{"jsonrpc":"2.0","id":1,"result":{{}}}}"#);
            std::io::stdout().flush().map_err(ToolError::from)
        })
        .tool("spawn", "Runs a child that inherits the streams.", spawn)
        .tool("descriptors", "Lists what a child inherits.", descriptors)
        .tool(
            "wait",
            "Waits until nobody waits for it.",
            |ctx, (): ()| async move {
                let reason = ctx.cancelled().await;
                eprintln!("told: {reason}");
                reason.to_string()
            },
        )
}

async fn spawn(_: Ctx, (): ()) -> Result<String, ToolError> {
    let read = Command::new("cat").status()?;
    let written = Command::new("echo").arg("from a child").status()?;
    Ok(format!("{read}, {written}"))
}

async fn descriptors(_: Ctx, (): ()) -> Result<String, ToolError> {
    let mut child = Command::new("sleep").arg("60").spawn()?;
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{}/fd", child.id()))? {
        let entry = entry?;
        // What the child opened for itself may be closed already.
        let Ok(behind) = std::fs::read_link(entry.path()) else {
            continue;
        };
        lines.push(format!(
            "{} {}",
            entry.file_name().display(),
            behind.display()
        ));
    }
    child.kill()?;
    child.wait()?;
    lines.sort();
    Ok(lines.join("\n"))
}

fn main() -> std::io::Result<()> {
    let mut server = server();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--multi-thread" => {}
            "--current-thread" => runtime = tokio::runtime::Builder::new_current_thread(),
            "--no-runtime" => return server.build().run_stdio(),
            "--message-limit" => {
                let limit = arguments.next().and_then(|limit| limit.parse().ok());
                server = server.message_limit(limit.expect("a number"));
            }
            _ => panic!("unknown: {argument}"),
        }
    }
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(server.build().serve_stdio())
}
