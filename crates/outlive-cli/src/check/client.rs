//! What is asked of a client, and how its driver is named.

use std::ffi::OsString;

use outlive_check::client::{ClientOptions, ClientUnderTest};
use outlive_check::{Cast, Over};

use super::{Common, Spoken};

/// Options of `outlive check client`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "outlive check client [OPTIONS] -- DRIVER [ARGS]...", after_long_help = EXAMPLES)]
pub struct Args {
    /// The driver: a program that does with the client what it is told, started anew for each scenario.
    /// `{command}` in its arguments stands for the server's, `{url}` for its address
    #[arg(trailing_var_arg = true, value_name = "DRIVER", num_args = 1.., required_unless_present = "list")]
    driver: Vec<OsString>,

    #[command(flatten)]
    pub(super) common: Common,

    /// How the client reaches its servers
    #[arg(long, value_enum, default_value = "stdio")]
    over: Way,

    /// Protocol era for scenarios that fit both [default: the older one that the client speaks]
    #[arg(long, value_enum)]
    era: Option<Spoken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    /// The client starts them, and speaks to them on standard input and output
    Stdio,
    /// They run already, at an address
    Http,
}

const EXAMPLES: &str = "\
Examples:
  outlive check client -- python check/drivers/python_sdk.py
  outlive check client --only 'death-*' -- node check/drivers/typescript_sdk.mjs
  outlive check client --over http -- python check/drivers/python_sdk.py

A driver reads what to do from standard input and writes what came of it to standard output, a JSON
object a line: docs/check.md has the contract, check/drivers has drivers for several SDKs.

Exit codes:
  0   everything the specification demands held
  1   something the specification demands was broken
  2   the usage was wrong, or the client cannot be tested";

impl Args {
    /// The transport; either, as long as no driver is given and there is nothing but a list.
    pub fn over(&self) -> Over {
        match (self.over, self.driver.is_empty()) {
            (Way::Http, _) => Over::Http,
            (Way::Stdio, false) => Over::Stdio,
            (Way::Stdio, true) => Over::Both,
        }
    }

    /// Looks at the client.
    pub async fn cast(&self) -> Result<Cast, String> {
        let options = ClientOptions {
            driver: self.driver.clone(),
            over: self.over(),
            puppet: super::puppet()?,
            timeout: self.common.patience(),
            start_patience: self.common.start_patience(),
            era: self.era.map(Spoken::era),
        };
        ClientUnderTest::look(options).await.map(Cast::Client)
    }
}
