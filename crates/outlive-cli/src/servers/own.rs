//! What our own settings file says about servers: `[servers.NAME]` and `[views.NAME]`.

use std::path::{Path, PathBuf};

use outlive_hosts::{Format, Server};
use toml::{Table, Value};

use super::entry::Entry;
use super::{View, suggestion};
use crate::config::located;

/// Keys of the settings file that are tables of their own.
pub const TABLES: [&str; 2] = ["servers", "views"];

/// Keys that make an entry a whole server, rather than settings for one.
const WHOLE: [&str; 6] = ["cmd", "command", "httpUrl", "serverUrl", "uri", "url"];

/// What a settings file says about servers.
#[derive(Debug, Default)]
pub struct Own {
    file: PathBuf,
    /// Each with whether it is a whole server.
    servers: Vec<(Server, bool)>,
    views: Table,
    /// Its text, for the place of what is wrong.
    lines: Vec<String>,
}

impl Own {
    /// Reads the file, which has been found to be well-formed.
    pub fn read(path: &Path) -> Result<Own, String> {
        let text = outlive_hosts::load(path).map_err(|error| error.to_string())?;
        let in_file = |why: &str| format!("{}: {why}", path.display());
        let table: Table = text
            .parse()
            .map_err(|error: toml::de::Error| in_file(&located(&text, &error)))?;
        let mut own = Own {
            file: path.to_owned(),
            ..Own::default()
        };
        if let Some(Value::Table(entries)) = table.get("servers") {
            let value = |name: &str| std::env::var(name).ok();
            let read = outlive_hosts::read(&text, Format::Toml, value);
            let read = read.map_err(|error| error.in_file(path).to_string())?;
            let is_whole = |server: &Server| {
                let entry = entries.get(&server.name).and_then(Value::as_table);
                entry.is_some_and(|entry| WHOLE.iter().any(|key| entry.contains_key(*key)))
            };
            let servers = read.servers.into_iter();
            own.servers = servers
                .map(|server| {
                    let is_whole = is_whole(&server);
                    (server, is_whole)
                })
                .collect();
        }
        own.lines = text.lines().map(str::to_owned).collect();
        match table.get("views") {
            Some(Value::Table(views)) => own.views.clone_from(views),
            Some(_) => return Err(in_file("views: expected tables [views.NAME]")),
            None => {}
        }
        Ok(own)
    }

    /// Whether it says nothing about several servers.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.views.is_empty()
    }

    /// Adds its servers to those of a host's file, and its settings to them. `origin` is that file.
    pub fn join(&mut self, entries: &mut Vec<Entry>, origin: &str) -> Result<(), String> {
        for (server, is_whole) in std::mem::take(&mut self.servers) {
            let own = Entry::of(server, &self.file);
            let Entry { place, name, .. } = &own;
            let known = entries.iter().position(|entry| entry.name == *name);
            match (known, is_whole) {
                (None, true) => entries.push(own),
                // What stands in the host's own file is nearer to the server.
                (Some(known), false) => {
                    entries[known].enabled &= own.enabled;
                    entries[known].settings.splice(0..0, own.settings);
                }
                (Some(_), true) => {
                    return Err(format!(
                        "{place}: the server {name:?} is also in {origin}: take it out of one of them"
                    ));
                }
                (None, false) => {
                    let names = entries.iter().map(|entry| entry.name.as_str());
                    let suggestion = suggestion(names, name);
                    return Err(format!(
                        "{place}: there is no server {name:?} in {origin}{suggestion}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Where a view stands, if it has a heading of its own.
    fn place(&self, view: &str) -> String {
        let heading = format!("[views.{view}");
        let at = self
            .lines
            .iter()
            .position(|line| line.trim_start().starts_with(&heading));
        at.map_or(String::new(), |at| {
            let indent = self.lines[at].len() - self.lines[at].trim_start().len();
            format!(":{}:{}", at + 1, indent + 1)
        })
    }

    /// Its views of these servers.
    pub fn views(&self, entries: &[Entry]) -> Result<Vec<View>, String> {
        let known: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let each = self.views.iter();
        each.map(|(name, value)| {
            let view = View::of(name, value, &known);
            view.map_err(|why| format!("{}{}: {why}", self.file.display(), self.place(name)))
        })
        .collect()
    }
}
