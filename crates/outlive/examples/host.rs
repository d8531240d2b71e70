//! A host with three servers, one of which dies now and then.
//!
//! It does what an agent does: it lists the tools of all servers, calls them, and shows how each
//! server stands. The servers are processes of their own (`host --serve NAME`); `dice` falls over at
//! every third throw, and at every `cheat`. Throwing again does no harm (the tool says that it only
//! reads), so the host never sees a throw fail. A `cheat` may have had its effect, so it is not
//! repeated: the host is told, and the server is back for the next call.

use std::sync::atomic::{AtomicU32, Ordering};

use outlive::client::{State, Tool};
use outlive::model;
use outlive::server::Ctx;
use outlive::{Client, Command, Error, Server};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize, JsonSchema)]
struct City {
    city: String,
}

#[derive(Deserialize, JsonSchema)]
struct Numbers {
    numbers: Vec<f64>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (Some("--serve"), Some(name)) => Ok(server(&name).run_stdio()?),
        _ => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(agent())
        }
    }
}

fn server(name: &str) -> Server {
    let server = Server::builder(name, "1.0.0");
    match name {
        "weather" => server.tool("forecast", "The weather there.", |_, of: City| async move {
            format!("It will rain in {}.", of.city)
        }),
        "sums" => server.tool("add", "Adds up.", |_, sum: Numbers| async move {
            sum.numbers.iter().sum::<f64>().to_string()
        }),
        _ => server
            .tool_with(
                model::Tool::described("throw", "Throws the dice.").read_only(),
                throw,
            )
            .tool("cheat", "Does not go well.", cheat),
    }
    .build()
}

async fn throw(_: Ctx, (): ()) -> String {
    static THROWS: AtomicU32 = AtomicU32::new(0);
    let throw = THROWS.fetch_add(1, Ordering::Relaxed) + 1;
    if throw == 3 {
        std::process::abort();
    }
    throw.to_string()
}

async fn cheat(_: Ctx, (): ()) -> String {
    std::process::exit(7)
}

async fn agent() -> Result<(), Box<dyn std::error::Error>> {
    let mut servers = Vec::new();
    for name in ["weather", "sums", "dice"] {
        let command = Command::new(std::env::current_exe()?, ["--serve", name]);
        let client = Client::builder()
            .command(command)
            .label(name)
            .connect()
            .await?;
        servers.push((name, client));
    }
    let mut tools = Vec::new();
    for (name, client) in &servers {
        let offered = client.tools().await?;
        let names: Vec<_> = offered.iter().map(|tool| &*tool.name).collect();
        println!("{name} offers {}", names.join(", "));
        tools.extend(offered);
    }

    let plan = [
        ("forecast", json!({ "city": "Ulm" })),
        ("throw", json!({})),
        ("throw", json!({})),
        ("throw", json!({})),
        ("add", json!({ "numbers": [1, 2.5] })),
        ("cheat", json!({})),
        ("throw", json!({})),
        ("forecast", json!({})),
    ];
    println!("{}", status(&servers));
    for (name, arguments) in plan {
        println!("{name} -> {}", call(&tools, name, arguments).await);
        println!("  {}", status(&servers));
    }
    for (_, client) in &servers {
        client.close().await;
    }
    println!("{}", status(&servers));
    Ok(())
}

/// Calls a tool, whoever offers it; what a model would be shown.
async fn call(tools: &[Tool], name: &str, arguments: Value) -> String {
    let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
        return format!("there is no tool {name}");
    };
    match tool.call(arguments).await {
        Ok(result) if result.is_error == Some(true) => format!("failed: {}", result.text()),
        Ok(result) => result.text(),
        Err(Error::Remote { message, .. }) => format!("refused: {message}"),
        Err(error) => error.sentence(&format!("tool {name:?}")),
    }
}

/// How each server stands, in one line.
fn status(servers: &[(&str, Client)]) -> String {
    let each = servers.iter().map(|(name, client)| {
        let state = match client.state() {
            State::Ready { generation } => format!("ready (process {generation})"),
            State::Connecting { attempt } => format!("starting (attempt {attempt})"),
            State::Down { .. } => "down".into(),
            State::Failed { cause, .. } => format!("keeps failing: it {}", cause.predicate()),
            State::Closed => "closed".into(),
            other => format!("{other:?}"),
        };
        format!("{name}: {state}")
    });
    each.collect::<Vec<_>>().join(", ")
}
