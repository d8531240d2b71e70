//! From an entry of a file to a server.

use std::ffi::OsString;
use std::path::Path;

use outlive::{Command, Remote, Transport};
use outlive_hosts::{Launch, Secret, Server, Setting, is_outlive};
use serde_json::json;
use toml::Value;

use super::general::{General, Override};
use super::{Filter, Note, ServerSpec, Source, here, read_file};
use crate::remote::RemoteSettings;

/// An outlive in an outlive in an outlive is no accident any more.
const DEEPEST: usize = 8;

/// A server of a file, with what is said about it elsewhere.
#[derive(Debug)]
pub struct Entry {
    pub name: String,
    /// Where its name stands, for sentences.
    pub place: String,
    pub enabled: bool,
    launch: Result<Launch, String>,
    /// The settings of its own, the weaker ones first: where they stand, key and value.
    pub settings: Vec<(String, String, serde_json::Value)>,
}

impl Entry {
    /// The servers of a host's file, and what a person should know about it.
    pub fn in_file(file: &Path, notes: &mut Vec<Note>) -> Result<Vec<Entry>, String> {
        let read = read_file(file)?;
        let shown = file.display();
        for (key, at) in &read.unknown {
            notes.push(Note {
                sentence: format!("{shown}:{at}: {key:?} means nothing to outlive and is ignored"),
                name: "unknown_key",
                data: json!({ "file": file, "key": key, "line": at.line, "column": at.column }),
            });
        }
        for skipped in read.skipped {
            let (name, why) = (skipped.name, skipped.why);
            notes.push(Note {
                sentence: format!("{shown}: {name:?} is left out: {why}"),
                name: "server_skipped",
                data: json!({ "server": name, "why": why }),
            });
        }
        let servers = read.servers.into_iter();
        Ok(servers.map(|server| Entry::of(server, file)).collect())
    }

    /// One of them.
    pub fn of(server: Server, file: &Path) -> Entry {
        let place = format!("{}:{}", file.display(), server.at);
        let settings = server.settings.into_iter();
        Entry {
            place,
            name: server.name,
            enabled: server.enabled,
            launch: server
                .launch
                .map_err(|error| error.in_file(file).to_string()),
            settings: settings
                .map(|Setting { key, value, at }| (format!("{}:{at}", file.display()), key, value))
                .collect(),
        }
    }

    /// The server, under this name in addresses; why not, if a setting of its own is wrong.
    pub fn spec(
        self,
        segment: String,
        general: &General,
        listen: Option<&str>,
    ) -> Result<ServerSpec, String> {
        let (launch, mut own) = match self.launch {
            Ok(launch) => unwrapped(launch, general),
            Err(why) => (Err(why), Vec::new()),
        };
        let (mut prefix, mut tools) = (None, Filter::default());
        let mut last = self.place.clone();
        let in_place = |place: &str, why: String| format!("{place}: {:?}: {why}", self.name);
        for (place, key, value) in &self.settings {
            let wrong = |why| in_place(place, why);
            let value = Value::try_from(value).map_err(|_| wrong(format!("{key} is null")))?;
            match (key.as_str(), &value) {
                ("outlive", _) => {
                    let why = format!("outlive = {value}: expected an object of settings");
                    return Err(wrong(why));
                }
                ("prefix", Value::String(text)) => prefix = Some(text.clone()),
                ("prefix", _) => return Err(wrong(format!("prefix = {value}: expected a string"))),
                ("tools", _) => tools = Filter::of(key, &value).map_err(wrong)?,
                _ => own.push(general.of_setting(key, &value).map_err(wrong)?),
            }
            last.clone_from(place);
        }
        let settings = general.settings(&own).map_err(|why| in_place(&last, why))?;
        let source = match launch {
            Err(why) => Source::Nowhere(why),
            Ok(launch) => {
                let remote = settings.run.remote.holding(settings.run.hold);
                source(launch, &remote, listen)
            }
        };
        Ok(ServerSpec {
            name: self.name,
            segment,
            source,
            settings,
            prefix,
            tools,
        })
    }
}

/// Where a server is that an entry describes.
pub fn source(launch: Launch, settings: &RemoteSettings, listen: Option<&str>) -> Source {
    match launch {
        Launch::Command {
            program,
            args,
            env,
            cwd,
        } => {
            let mut command = Command::new(program, args);
            for (name, value) in env {
                command = command.env(name, value.expose());
            }
            command.cwd = cwd;
            Source::Command(command)
        }
        Launch::Address { url, .. } if listen.is_some_and(|listen| here::is_here(&url, listen)) => {
            Source::Nowhere(here::WHY.into())
        }
        Launch::Address {
            url,
            headers,
            transport,
        } => match settings.remote(&url) {
            Some(Ok(remote)) => {
                // A variable in it has been replaced already.
                let line = |(name, value): &(String, Secret)| format!("{name}: {}", value.expose());
                let remote = headers.iter().map(line).fold(remote, Remote::header);
                let remote = match transport {
                    Some(outlive_hosts::Transport::Sse) => remote.transport(Transport::Sse),
                    _ => remote,
                };
                let checked = remote.check().map_err(|why| why.to_string());
                match checked.and_then(|()| settings.with_login(remote, &url)) {
                    Ok(remote) => Source::Remote(Box::new(remote)),
                    Err(why) => Source::Nowhere(why),
                }
            }
            Some(Err(why)) => Source::Nowhere(why),
            None => Source::Nowhere("its address begins with neither http:// nor https://".into()),
        },
    }
}

/// An entry that starts `outlive run` in front of a server is that server, with the settings of that outlive: no
/// outlive runs under another.
fn unwrapped(launch: Launch, general: &General) -> (Result<Launch, String>, Vec<Override>) {
    let (mut launch, mut own) = (launch, Vec::new());
    for _ in 0..DEEPEST {
        let Launch::Command {
            program,
            args,
            env,
            cwd,
        } = &launch
        else {
            return (Ok(launch), own);
        };
        if !is_outlive(program) || args.first().is_none_or(|first| first != "run") {
            return (Ok(launch), own);
        }
        let variable = |wanted: &str| {
            let found = env.iter().rev().find(|(name, _)| name == wanted);
            found.map(|(_, value)| OsString::from(value.expose()))
        };
        let Some((words, theirs)) = general.of_run(&args[1..], variable) else {
            let why = match args.iter().any(|arg| arg.starts_with("--servers")) {
                true => {
                    "it starts outlive for the servers of a file, which may be this one (cyclic): name a server"
                }
                false => "it starts outlive without a server: name the server itself",
            };
            return (Err(why.into()), own);
        };
        let mut words = words
            .into_iter()
            .map(|it| it.to_string_lossy().into_owned());
        let program = words.next().unwrap_or_default();
        let is_address = program.starts_with("http://") || program.starts_with("https://");
        // What the inner one says is nearer to the server.
        own.extend(theirs);
        launch = match is_address {
            true => Launch::Address {
                url: program,
                headers: Vec::new(),
                transport: None,
            },
            false => Launch::Command {
                program,
                args: words.collect(),
                // What was meant for that outlive is nothing for the server.
                env: env
                    .iter()
                    .filter(|(name, _)| !name.starts_with("OUTLIVE_"))
                    .cloned()
                    .collect(),
                cwd: cwd.clone(),
            },
        };
    }
    let why = "it starts outlive in outlive again and again: name the server itself".to_owned();
    (Err(why), own)
}
