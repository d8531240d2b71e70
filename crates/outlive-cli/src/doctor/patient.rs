//! What is known of a server before it is started.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use outlive::client::Builder;
use outlive::{Address, Client, Command, Error, OrphanReaper, Remote};
use outlive_hosts::Server;

use super::diagnosis::{Diagnosis, Finding, Seen};
use crate::login::LoginWay;
use crate::remote::RemoteSettings;
use crate::servers::{self, Source};

/// A server that is to be examined.
pub struct Patient {
    name: String,
    at: Place,
}

/// How it is reached, or why it is not.
enum Place {
    Command(Command),
    Remote(Box<Remote>),
    /// The host would not start it.
    Off,
    /// The entry makes no sense.
    Unclear(String),
}

impl Patient {
    /// The one on the command line.
    pub fn given(words: &[OsString], settings: &RemoteSettings) -> Result<Patient, String> {
        let (program, args) = words.split_first().ok_or("no server is given")?;
        let settings = &asking_nobody(settings);
        let name = program.to_string_lossy().into_owned();
        Ok(match settings.remote(&name).transpose()? {
            Some(_) if !args.is_empty() => {
                return Err("an address stands alone: nothing may follow it".into());
            }
            Some(remote) => Patient {
                name: remote.label(),
                at: Place::Remote(Box::new(settings.with_login(remote, &name)?)),
            },
            None => Patient {
                name,
                at: Place::Command(Command::new(program, args)),
            },
        })
    }

    /// Those in a host's file. They get the headers that stand there, and none that were meant for another server.
    pub fn in_file(file: &Path, settings: &RemoteSettings) -> Result<Vec<Patient>, String> {
        let settings = &RemoteSettings {
            header: Vec::new(),
            header_file: None,
            ..asking_nobody(settings)
        };
        let read = servers::read_file(file)?;
        Ok(read
            .servers
            .into_iter()
            .map(|server| Patient::in_entry(server, file, settings))
            .collect())
    }

    fn in_entry(server: Server, file: &Path, settings: &RemoteSettings) -> Patient {
        let source = match server.launch {
            Err(error) => Source::Nowhere(error.in_file(file).to_string()),
            Ok(launch) => servers::source(launch, settings, None),
        };
        let at = match source {
            _ if !server.enabled => Place::Off,
            Source::Command(command) => Place::Command(command),
            Source::Remote(remote) => Place::Remote(remote),
            Source::Nowhere(why) => Place::Unclear(why),
        };
        Patient {
            name: server.name,
            at,
        }
    }

    /// Starts it, shakes hands, lists its tools, and stops it.
    pub async fn examine(
        self,
        timeout: Duration,
        orphan_reaper: Option<OrphanReaper>,
    ) -> Diagnosis {
        let builder = Client::builder()
            .connect_timeout(timeout)
            .timeout(timeout)
            .spin(false);
        let (is_command, (finding, time)) = match (self.at, orphan_reaper) {
            (Place::Off, _) => return Diagnosis::off(self.name),
            (Place::Unclear(why), _) => return Diagnosis::unclear(self.name, why),
            (Place::Command(command), Some(reaper)) => (
                true,
                look(builder.command(command).orphan_reaper(reaper)).await,
            ),
            (Place::Command(command), None) => (true, look(builder.command(command)).await),
            (Place::Remote(remote), _) => (false, look(builder.url(*remote)).await),
        };
        Diagnosis::of(self.name, is_command, finding, time)
    }
}

/// The settings for an examination: logins that are kept are used, and nobody is asked for another.
fn asking_nobody(settings: &RemoteSettings) -> RemoteSettings {
    let mut settings = settings.clone();
    settings.login.login = LoginWay::Never;
    settings
}

/// What is found, and how long that took; to stop a server takes its own time.
async fn look<S: Address>(builder: Builder<S>) -> (Finding, Duration) {
    let begun = Instant::now();
    let client = match builder.connect().await {
        Ok(client) => client,
        Err(error) => return (Finding::Unmet(error), begun.elapsed()),
    };
    let seen = Seen {
        version: client.protocol_version().unwrap_or_default().to_owned(),
        tools: match client.capabilities().is_none_or(|can| can.tools.is_some()) {
            true => client.tools().await.map(|tools| tools.len()),
            false => Ok::<usize, Error>(0),
        },
    };
    let time = begun.elapsed();
    client.close().await;
    (Finding::Met(seen), time)
}
