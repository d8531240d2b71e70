//! The echo server and its client on outlive.
//!
//! usage: `sdk-outlive many|one legacy|modern`: the kind of runtime, and the era of the protocol
//! or: `sdk-outlive listen ADDRESS`: only the server, over HTTP

use outlive::client::Era;
use outlive::model::Content;
use outlive::policy::Policy;
use outlive::{Client, Command, Server};
use outlive_bench_sdk::{Counting, Echo, Failure, allocations, obey, runtime, server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Serialize)]
struct Said<'a> {
    text: &'a str,
}

#[derive(Deserialize, JsonSchema)]
struct Heard {
    text: String,
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", kind] => Ok(runtime(kind)?.block_on(echo_server().serve_stdio())?),
        ["listen", address] => Ok(runtime("many")?.block_on(echo_server().serve_http(address))?),
        [kind, era] => runtime(kind)?.block_on(drive(kind, era)),
        _ => Err("usage: sdk-outlive many|one legacy|modern, or listen ADDRESS".into()),
    }
}

fn echo_server() -> Server {
    Server::builder("echo", "1.0.0")
        .tool("echo", "Says it again.", |_, heard: Heard| async move {
            heard.text
        })
        .tool("allocations", "How many there were.", |_, (): ()| async {
            allocations().to_string()
        })
        .build()
}

async fn drive(kind: &str, era: &str) -> Result<(), Failure> {
    let server = server(&[kind])?;
    let command = Command::new(server.get_program(), server.get_args());
    let era = match era {
        "modern" => Era::Modern,
        _ => Era::Legacy,
    };
    let mut policy = Policy::default();
    // 64 calls of 1 MB at once are more than a client takes in by default.
    policy.limits.held_bytes = 256 << 20;
    let client = Client::builder()
        .command(command)
        .policy(policy)
        .era(era)
        .connect()
        .await?;
    obey(Outlive(client)).await
}

struct Outlive(Client);

impl Echo for Outlive {
    async fn echo(&self, text: &str) -> Result<usize, Failure> {
        let result = self.0.call("echo", Said { text }).await?;
        Ok(result
            .content
            .first()
            .and_then(Content::as_text)
            .map_or(0, str::len))
    }

    async fn allocations(&self) -> Result<u64, Failure> {
        let none = serde_json::Map::new();
        Ok(self.0.call("allocations", none).await?.text().parse()?)
    }
}
