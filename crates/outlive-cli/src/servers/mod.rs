//! Several servers from a host's own file: `outlive serve --servers FILE` and `outlive run --servers FILE`.
//!
//! # Theory
//!
//! The file is read as hosts write it (`outlive_hosts`). What is wrong with the file as a whole keeps outlive from
//! starting; what is wrong with one server, such as a variable that is not set, keeps only that server from starting,
//! and whoever calls it is told the reason. Each server has settings of its own, which are the flags of `run` and
//! `serve` that make sense for one server; what it does not say holds as it does for all.
//!
//! ```text
//!  default < settings file < variable < flag < [servers.NAME] of the settings file < "outlive" in the entry
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `settings` | the flags |
//! | `general` | the settings of one server |
//! | `entry` | from an entry of a file to a server |
//! | `own` | what our own settings file says about servers |
//! | `views` | parts of all servers under names of their own |
//! | `gateway` | what they become |
//! | `filter` | which tools, prompts and resources are shown |
//! | `names` | the names in addresses |
//! | `here` | addresses that lead back to us |
//! | `reload` | the files are read again when they have changed |

mod entry;
mod filter;
mod gateway;
mod general;
mod here;
mod names;
mod own;
mod reload;
mod settings;
mod views;
mod within;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ArgMatches;
use outlive::gateway::Builder;
use outlive::{Command, Gateway, Remote, Secrets};
use outlive_hosts::{Format, Launch, Secret};
use serde_json::{Value, json};

use crate::config::nearest;
use crate::listen::ServeSettings;
use crate::remote::EraSetting;
use crate::settings::Settings;

pub use entry::source;
pub use filter::Filter;
pub use reload::{Look, Reload};
pub use settings::{Expose, Prefix, ServersSettings, Start};
pub use views::View;
pub use within::VARIABLE as WITHIN;

use entry::Entry;
use general::General;
use own::Own;

pub use own::TABLES;

/// Several servers, and how they are shown as one. This is everything that the file and the settings say; nothing of
/// it is started yet.
#[derive(Debug)]
pub struct Servers {
    /// Where they come from, for sentences.
    pub origin: String,
    /// The servers that are switched on, in the order of the file.
    pub servers: Vec<ServerSpec>,
    /// How names of tools are made.
    pub naming: Naming,
    /// How tools are shown.
    pub expose: Expose,
    /// How long a list waits for servers that were never seen before.
    pub list_wait: Duration,
    /// Where is kept what servers offer.
    pub catalogue: Catalogue,
    /// Parts of it under names of their own.
    pub views: Vec<View>,
    /// What a person should know about the file.
    pub notes: Vec<Note>,
    /// The files that they come from, before they were read.
    pub look: Look,
}

/// How the names of tools are made from those of their servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// Which names get a prefix.
    pub prefix: Prefix,
    /// What stands behind the prefix.
    pub separator: String,
}

/// Where is kept what servers offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Catalogue {
    /// In the user's cache.
    Cache,
    /// In this directory.
    Directory(PathBuf),
    /// Nowhere.
    Nowhere,
}

/// Something that a person should know, and the same as data with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// A sentence.
    pub sentence: String,
    /// The name of the event.
    pub name: &'static str,
    /// The data.
    pub data: Value,
}

/// One server.
#[derive(Debug)]
pub struct ServerSpec {
    /// Its name in the file.
    pub name: String,
    /// Its name in addresses.
    pub segment: String,
    /// Where it is.
    pub source: Source,
    /// Its settings: the general ones, but for those of its own.
    pub settings: ServeSettings,
    /// What stands in front of its tools' names instead of its own name.
    pub prefix: Option<String>,
    /// Which of its tools are shown.
    pub tools: Filter,
}

/// Where a server is.
#[derive(Debug)]
pub enum Source {
    /// A program.
    Command(Command),
    /// An address.
    Remote(Box<Remote>),
    /// Nowhere, for this reason.
    Nowhere(String),
}

impl Servers {
    /// Those that the settings name, if they name several: with `--servers`, or in the settings file. `given` is the
    /// command line; `listen` is where clients will connect, if they do.
    pub fn given(
        settings: &Settings,
        given: &ArgMatches,
        listen: Option<&str>,
    ) -> Result<Option<Servers>, String> {
        let look = Look::at(settings);
        let own = match &settings.config {
            Some(path) => Own::read(path)?,
            None => Own::default(),
        };
        let file = settings.several.servers.as_deref();
        if file.is_none() && own.is_empty() {
            // Whoever wants it must not believe to have it.
            return match settings.several.pin {
                true => Err(
                    "definitions are pinned for servers in a file only: give --servers FILE, or leave out --pin"
                        .into(),
                ),
                false => Ok(None),
            };
        }
        if !settings.command.is_empty() {
            return Err(match file {
                Some(_) => "a file of servers and a command or an address are given: give one of them",
                None => "the settings file has [servers] and a command or an address is given: give one of them",
            }
            .into());
        }
        let reader = Reader {
            settings,
            general: &General::of(given),
            listen,
            look,
        };
        reader.read(file, own).map(Some)
    }

    /// The secrets of all of them.
    pub fn secrets(&self) -> Secrets {
        let each = self.servers.iter().map(|server| match &server.source {
            Source::Command(command) => Secrets::of(command),
            Source::Remote(remote) => remote.secrets(),
            Source::Nowhere(_) => Secrets::default(),
        });
        each.fold(Secrets::default(), Secrets::and)
    }

    /// What is served, for a person.
    pub fn label(&self) -> String {
        let names: Vec<&str> = self.servers.iter().map(|it| it.name.as_str()).collect();
        format!("{} ({})", self.origin, names.join(", "))
    }

    /// The targets of a gateway, by their names in addresses.
    pub fn targets(&self) -> Result<Vec<(String, Builder)>, String> {
        let within = self.within();
        let each = self.servers.iter();
        each.map(|server| Ok((server.segment.clone(), server.target(within.as_deref())?)))
            .collect()
    }
}

impl ServerSpec {
    /// The target of a gateway that it becomes. `within` names the files that are served around it.
    fn target(&self, within: Option<&OsStr>) -> Result<Builder, String> {
        let mut policy = self.settings.run.policy()?;
        policy.name = Some(self.name.as_str().into());
        let builder = match &self.source {
            Source::Command(command) => Gateway::command(match within {
                Some(within) => command.clone().env(within::VARIABLE, within),
                None => command.clone(),
            }),
            Source::Remote(remote) => {
                policy.refuse_discover = self.settings.run.remote.era == EraSetting::Legacy;
                Gateway::remote((**remote).clone())
            }
            Source::Nowhere(why) => Gateway::unstartable(why),
        };
        let mut builder = self.settings.share(builder.policy(policy));
        builder = builder
            .tools(self.tools.rule())
            .pin(self.settings.run.several.pin)
            .eager(self.settings.run.several.start == Start::Eager);
        Ok(match &self.prefix {
            Some(prefix) => builder.prefix(prefix.as_str()),
            None => builder,
        })
    }
}

/// Reads files of servers.
struct Reader<'a> {
    settings: &'a Settings,
    general: &'a General,
    listen: Option<&'a str>,
    look: Look,
}

impl Reader<'_> {
    fn read(self, file: Option<&Path>, mut own: Own) -> Result<Servers, String> {
        // What is wrong in general is no fault of a server.
        self.general.settings(&[])?;
        let mut entries = Vec::new();
        let mut notes = Vec::new();
        if let Some(file) = file {
            entries = Entry::in_file(file, &mut notes)?;
        }
        let origin = file.or(self.settings.config.as_deref());
        let origin = origin.map_or(String::new(), |path| path.display().to_string());
        own.join(&mut entries, &origin)?;
        let views = own.views(&entries)?;
        let (on, off): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| entry.enabled);
        let off: Vec<String> = off.into_iter().map(|entry| entry.name).collect();
        if !off.is_empty() {
            notes.push(Note {
                sentence: format!("switched off in {origin}: {}", off.join(", ")),
                name: "servers_off",
                data: json!({ "servers": off }),
            });
        }
        if on.is_empty() {
            return Err(format!("{origin} has no server that is switched on"));
        }
        let segments = names::segments(&on, &views)?;
        let specs = on.into_iter().zip(segments);
        let specs: Result<Vec<ServerSpec>, String> = specs
            .map(|(entry, segment)| entry.spec(segment, self.general, self.listen))
            .collect();
        let several = &self.settings.several;
        let servers = Servers {
            origin,
            servers: specs?,
            naming: Naming {
                prefix: several.prefix,
                separator: several.separator.clone(),
            },
            expose: several.expose,
            list_wait: several.list_wait,
            catalogue: match (&several.catalogue, several.no_catalogue) {
                (Some(_), true) => {
                    return Err(
                        "catalogue and no-catalogue are both given: give one of them".into(),
                    );
                }
                (Some(directory), false) => Catalogue::Directory(directory.clone()),
                (None, true) => Catalogue::Nowhere,
                (None, false) => Catalogue::Cache,
            },
            views,
            notes,
            look: self.look,
        };
        names::check_prefixes(&servers.servers)?;
        Ok(servers)
    }
}

/// The secrets in the files that servers come from, also if these cannot be used: what is said about them must not show
/// any.
fn secrets_in(settings: &Settings) -> Secrets {
    let files = settings.several.servers.iter().chain(&settings.config);
    let read = files.filter_map(|file| read_file(file).ok());
    let secrets = read.flat_map(|file| file.servers).map(|server| {
        let command = match server.launch {
            Ok(Launch::Command {
                program, args, env, ..
            }) => {
                let command = Command::new(program, args);
                let set = |command: Command, (name, value): (String, Secret)| {
                    command.env(name, value.expose())
                };
                env.into_iter().fold(command, set)
            }
            Ok(Launch::Address { url, headers, .. }) => {
                let lines = headers.iter();
                let lines = lines.map(|(name, value)| format!("{name}: {}", value.expose()));
                Command::new("", std::iter::once(url).chain(lines))
            }
            Err(_) => Command::new("", [""; 0]),
        };
        let values = server.settings.iter();
        let values = values.flat_map(|it| texts(&it.key, &it.value));
        Secrets::of(&values.fold(command, Command::arg))
    });
    secrets.fold(Secrets::default(), Secrets::and)
}

/// All texts in a setting, as arguments by which it can be told whether they are secrets: by their names, and all that
/// is said about headers.
fn texts(key: &str, value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => {
            let header = (key == "header").then(|| format!("secret={text}"));
            let named = format!("{key}={text}");
            header.into_iter().chain([named]).collect()
        }
        Value::Array(values) => values.iter().flat_map(|it| texts(key, it)).collect(),
        Value::Object(members) => {
            let each = members.iter();
            each.flat_map(|(name, it)| {
                let mut all = texts(key, it);
                all.extend(texts(name, it));
                all
            })
            .collect()
        }
        _ => Vec::new(),
    }
}

/// The servers of a host's file as they stand; the file's name is in the error.
pub fn read_file(file: &Path) -> Result<outlive_hosts::HostFile, String> {
    let text = outlive_hosts::load(file).map_err(|error| error.to_string())?;
    let value = |name: &str| std::env::var(name).ok();
    let read = outlive_hosts::read(&text, Format::of(file), value);
    read.map_err(|error| error.in_file(file).to_string())
}

/// "; did you mean …?" where one of these names is like the one that is not known.
fn suggestion<'n>(known: impl Iterator<Item = &'n str>, name: &str) -> String {
    nearest(known, name).map_or(String::new(), |nearest| {
        format!("; did you mean {nearest:?}?")
    })
}
