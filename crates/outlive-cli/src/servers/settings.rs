//! The settings for several servers at one address, and what they are turned into.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};

use crate::units::duration;

/// Where several servers come from, and how they are shown as one.
#[derive(Args, Clone, Debug)]
pub struct ServersSettings {
    /// Serve every server in this file instead of one command or address: the file of any host (`mcpServers`,
    /// `servers`, Codex's TOML, …), or one of your own.
    #[arg(
        long,
        env = "OUTLIVE_SERVERS",
        value_name = "FILE",
        help_heading = "Several servers"
    )]
    pub servers: Option<PathBuf>,

    /// Put the name of a server in front of the names of its tools and prompts.
    #[arg(
        long,
        env = "OUTLIVE_PREFIX",
        value_enum,
        default_value = "always",
        help_heading = "Several servers"
    )]
    pub prefix: Prefix,

    /// What stands between the name of a server and the name of its tool.
    #[arg(
        long,
        env = "OUTLIVE_SEPARATOR",
        value_name = "TEXT",
        default_value = "__",
        value_parser = separator,
        help_heading = "Several servers"
    )]
    pub separator: String,

    /// How clients see the tools of all servers.
    #[arg(
        long,
        env = "OUTLIVE_EXPOSE",
        value_enum,
        default_value = "auto",
        help_heading = "Several servers"
    )]
    pub expose: Expose,

    /// Let a list wait this long for servers whose tools were never seen before.
    #[arg(
        long,
        env = "OUTLIVE_LIST_WAIT",
        value_name = "DURATION",
        default_value = "5s",
        value_parser = duration,
        help_heading = "Several servers"
    )]
    pub list_wait: Duration,

    /// When to start a server.
    #[arg(
        long,
        env = "OUTLIVE_START",
        value_enum,
        default_value = "lazy",
        help_heading = "Several servers"
    )]
    pub start: Start,

    /// Show clients only definitions of tools, prompts and resources that were accepted: those that a server offers
    /// first, and what you accept later with `outlive accept`. Withhold what is new or changed.
    #[arg(long, env = "OUTLIVE_PIN", value_parser = BoolishValueParser::new(), help_heading = "Several servers")]
    pub pin: bool,

    /// Keep what servers offer in this directory, so that lists need no server; without it, in the user's cache.
    #[arg(
        long,
        env = "OUTLIVE_CATALOGUE",
        value_name = "DIR",
        help_heading = "Several servers"
    )]
    pub catalogue: Option<PathBuf>,

    /// Keep nothing of what servers offer.
    #[arg(long, env = "OUTLIVE_NO_CATALOGUE", value_parser = BoolishValueParser::new(), help_heading = "Several servers")]
    pub no_catalogue: bool,
}

/// Which names get the name of their server in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Prefix {
    /// All
    Always,
    /// Those that two servers have
    Conflict,
    /// None; of two servers with the same name, the first in the file has it
    Never,
}

/// How tools are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Expose {
    /// All of them, in one list
    List,
    /// As tools that find and call others
    Search,
    /// As a list, or as a search where the list would be long
    Auto,
}

/// When a server is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Start {
    /// With the first call that needs it
    Lazy,
    /// At once
    Eager,
}

/// Names of tools consist of letters, digits, `_` and `-`: so does what stands between their parts.
fn separator(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match text {
        "" => Err("names could not be told apart without one".into()),
        _ if text.len() > 8 => Err("at most 8 characters may stand there".into()),
        _ if !text.chars().all(plain) => {
            Err("names of tools consist of letters, digits, _ and -".into())
        }
        _ => Ok(text.into()),
    }
}
