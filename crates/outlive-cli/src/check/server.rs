//! What is asked of a server, and how it is named.

use std::ffi::OsString;

use outlive_check::{Cast, Options, Over, ServerUnderTest, Target};
use serde_json::Value;

use super::{Common, Spoken};

/// Options of `outlive check server`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "outlive check server [OPTIONS] -- COMMAND [ARGS]...\n       outlive check server [OPTIONS] URL",
    after_long_help = EXAMPLES
)]
pub struct Args {
    /// The server: a program and its arguments, started anew for each scenario, or an address
    #[arg(trailing_var_arg = true, value_name = "COMMAND", num_args = 1.., required_unless_present = "list")]
    command: Vec<OsString>,

    #[command(flatten)]
    pub(super) common: Common,

    /// Tool to call [default: a tool that is read-only by its annotations or name, with the fewest arguments]
    #[arg(long, value_name = "TOOL")]
    call: Option<String>,

    /// Arguments of that tool [default: made up from its schema]
    #[arg(long, value_name = "JSON", requires = "call", value_parser = json)]
    args: Option<Value>,

    /// Tool that takes a few seconds, to test calls in flight
    #[arg(long, value_name = "TOOL")]
    slow_tool: Option<String>,

    /// Arguments of the slow tool
    #[arg(long, value_name = "JSON", requires = "slow_tool", value_parser = json)]
    slow_args: Option<Value>,

    /// Tool that asks the host something (elicitation, sampling, roots)
    #[arg(long, value_name = "TOOL")]
    asking_tool: Option<String>,

    /// Arguments of the asking tool
    #[arg(long, value_name = "JSON", requires = "asking_tool", value_parser = json)]
    asking_args: Option<Value>,

    /// Protocol era for scenarios that fit both [default: the older one that the server speaks]
    #[arg(long, value_enum)]
    era: Option<Spoken>,
}

const EXAMPLES: &str = "\
Examples:
  outlive check server -- python server.py
  outlive check server --slow-tool sleep --slow-args '{\"seconds\": 3}' -- ./server
  outlive check server --only 'cancel-*' --seed 7 -- npx -y @modelcontextprotocol/server-everything
  outlive check server http://127.0.0.1:8000/mcp

It calls tools, and kills the server in many ways: give it one that may break.

Exit codes:
  0   everything the specification demands held
  1   something the specification demands was broken
  2   the usage was wrong, or the server cannot be tested";

impl Args {
    /// The transport; either, as long as no server is given.
    pub fn over(&self) -> Over {
        match self.command.is_empty() {
            true => Over::Both,
            false => self.target().over(),
        }
    }

    /// Looks at the server.
    pub async fn cast(&self) -> Result<Cast, String> {
        let tool = |name: &Option<String>, arguments: &Option<Value>| {
            name.clone().map(|name| (name, arguments.clone()))
        };
        let options = Options {
            timeout: self.common.patience(),
            start_patience: self.common.start_patience(),
            era: self.era.map(Spoken::era),
            call: tool(&self.call, &self.args),
            slow: tool(&self.slow_tool, &self.slow_args),
            asking: tool(&self.asking_tool, &self.asking_args),
        };
        ServerUnderTest::look(self.target(), options)
            .await
            .map(Cast::Server)
    }

    fn target(&self) -> Target {
        let first = self.command.first().map(|word| word.to_string_lossy());
        let first = first.unwrap_or_default();
        let is_address = first.starts_with("http://") || first.starts_with("https://");
        match is_address {
            true => Target::Url(first.into_owned()),
            false => Target::Command(self.command.clone()),
        }
    }
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}
