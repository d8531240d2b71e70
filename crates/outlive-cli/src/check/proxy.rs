//! What is asked of a proxy, and how it is started.

use std::ffi::OsString;

use outlive_check::proxy::{ProxyOptions, ProxyUnderTest};
use outlive_check::{Cast, Over};

use super::{Common, Spoken};

/// Options of `outlive check proxy`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "outlive check proxy [OPTIONS] -- PROXY [ARGS]... {server}", after_long_help = EXAMPLES)]
pub struct Args {
    /// The proxy: a program and its arguments, started anew for each scenario. `{server}` stands for the
    /// command of the server, `{port}` for a port to listen on
    #[arg(trailing_var_arg = true, value_name = "PROXY", num_args = 1.., required_unless_present = "list")]
    command: Vec<OsString>,

    #[command(flatten)]
    pub(super) common: Common,

    /// Where the proxy listens, if it serves HTTP, with `{port}` in it; else it is spoken to on standard
    /// input and output
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// Protocol era for scenarios that fit both [default: the older one that passes the proxy]
    #[arg(long, value_enum)]
    era: Option<Spoken>,
}

const EXAMPLES: &str = "\
Examples:
  outlive check proxy -- outlive run -- {server}
  outlive check proxy --url http://127.0.0.1:{port}/mcp -- mcp-proxy --port {port} -- {server}
  outlive check proxy --url http://127.0.0.1:{port}/mcp -- \\
    npx supergateway --outputTransport streamableHttp --port {port} --stdio '{server}'

Where {server} is an argument of its own it becomes several, else one text as for a shell.

Exit codes:
  0   everything the specification demands held
  1   something the specification demands was broken
  2   the usage was wrong, or the proxy cannot be tested";

impl Args {
    /// The transport on the host's side; either, as long as no proxy is given.
    pub fn over(&self) -> Over {
        match (&self.url, self.command.is_empty()) {
            (Some(_), _) => Over::Http,
            (None, false) => Over::Stdio,
            (None, true) => Over::Both,
        }
    }

    /// Looks at the proxy.
    pub async fn cast(&self) -> Result<Cast, String> {
        let options = ProxyOptions {
            command: self.command.clone(),
            url: self.url.clone(),
            puppet: super::puppet()?,
            timeout: self.common.patience(),
            start_patience: self.common.start_patience(),
            era: self.era.map(Spoken::era),
        };
        ProxyUnderTest::look(options).await.map(Cast::Proxy)
    }
}
