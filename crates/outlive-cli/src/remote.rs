//! The settings of `outlive run URL` that concern the address.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use outlive::client;
use outlive::{Remote, Transport};

use crate::login::LoginSettings;
use crate::units::duration;

/// How a server over HTTP is reached.
#[derive(Args, Clone, Debug)]
pub struct RemoteSettings {
    /// Send this header with every request; `${NAME}` stands for a variable. May be given more than
    /// once (in a variable: one per line).
    #[arg(
        long,
        env = "OUTLIVE_HEADER",
        value_name = "NAME: VALUE",
        value_delimiter = '\n',
        hide_env_values = true,
        help_heading = "Servers over HTTP"
    )]
    pub header: Vec<String>,

    /// Send the headers in this file too, one per line; it is read again for every connection.
    #[arg(
        long,
        env = "OUTLIVE_HEADER_FILE",
        value_name = "FILE",
        help_heading = "Servers over HTTP"
    )]
    pub header_file: Option<PathBuf>,

    /// Trust the certificates in this PEM file too.
    #[arg(
        long,
        env = "OUTLIVE_CA_FILE",
        value_name = "FILE",
        help_heading = "Servers over HTTP"
    )]
    pub ca_file: Option<PathBuf>,

    /// HTTP transport to use.
    #[arg(
        long,
        env = "OUTLIVE_TRANSPORT",
        value_enum,
        default_value = "auto",
        help_heading = "Servers over HTTP"
    )]
    pub transport: Way,

    /// Give up an answer that has stopped in the middle for this long.
    #[arg(
        long,
        env = "OUTLIVE_STALL_TIMEOUT",
        value_name = "DURATION",
        default_value = "60s",
        value_parser = duration,
        help_heading = "Servers over HTTP"
    )]
    pub stall_timeout: Duration,

    /// Protocol era to speak with the server.
    #[arg(
        long,
        env = "OUTLIVE_ERA",
        value_enum,
        default_value = "auto",
        help_heading = "Servers over HTTP"
    )]
    pub era: EraSetting,

    #[command(flatten)]
    pub login: LoginSettings,
}

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Streamable HTTP, or HTTP+SSE if the server has only that
    Auto,
    /// Streamable HTTP: one address for everything (2025-03-26 and later)
    Http,
    /// HTTP+SSE: a stream to read and an address to write to (2024-11-05)
    Sse,
}

/// Which era of the protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EraSetting {
    /// The era of the host
    Auto,
    /// With a handshake (up to 2025-11-25)
    Legacy,
    /// Without a handshake (2026-07-28)
    Modern,
}

impl RemoteSettings {
    /// The server at `url`; none if that is no address, or why it cannot be used.
    pub fn remote(&self, url: &str) -> Option<Result<Remote, String>> {
        let is_url = url.starts_with("http://") || url.starts_with("https://");
        is_url.then(|| {
            let mut remote = self.header.iter().fold(Remote::new(url), Remote::header);
            if let Some(file) = &self.header_file {
                remote = remote.header_file(file);
            }
            if let Some(file) = &self.ca_file {
                remote = remote.ca_file(file);
            }
            remote = remote.stall_timeout(self.stall_timeout);
            remote = match self.transport {
                Way::Auto => remote,
                Way::Http => remote.transport(Transport::Streamable),
                Way::Sse => remote.transport(Transport::Sse),
            };
            remote = match self.era {
                EraSetting::Auto => remote,
                EraSetting::Legacy => remote.era(client::Era::Legacy),
                EraSetting::Modern => remote.era(client::Era::Modern),
            };
            remote.check().map_err(|error| error.to_string())?;
            Ok(remote)
        })
    }
}
