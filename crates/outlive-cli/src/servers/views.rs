//! Views: parts of all servers, each under a name of its own.

use std::path::PathBuf;

use outlive::gateway;
use toml::{Table, Value};

use super::filter::{matches, strings};
use super::{Filter, ServerSpec, suggestion};

/// The keys of a view.
const KEYS: [&str; 5] = ["servers", "tools", "prompts", "resources", "token-file"];

/// A part of all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Its name, which is also its name in addresses.
    pub name: String,
    /// Patterns of the names of its servers; none: all of them.
    pub servers: Option<Vec<String>>,
    /// Which tools it shows.
    pub tools: Filter,
    /// Which prompts it shows.
    pub prompts: Filter,
    /// Which resources it shows.
    pub resources: Filter,
    /// The tokens that open it.
    pub token_file: Option<PathBuf>,
}

impl View {
    /// The view that is written under `[views.NAME]`, or why it is none. `known` are the names of all servers.
    pub fn of(name: &str, value: &Value, known: &[&str]) -> Result<View, String> {
        View::of_table(name, value, known).map_err(|why| format!("[views.{name}]: {why}"))
    }

    fn of_table(name: &str, value: &Value, known: &[&str]) -> Result<View, String> {
        let table: &Table = value.as_table().ok_or("expected a table")?;
        let mut view = View {
            name: name.into(),
            ..View::default()
        };
        for (key, value) in table {
            match key.as_str() {
                "servers" => {
                    let names = strings(value)
                        .ok_or_else(|| format!("servers = {value}: expected a list of strings"))?;
                    names.iter().try_for_each(|name| check(name, known))?;
                    view.servers = Some(names);
                }
                "tools" => view.tools = Filter::of(key, value)?,
                "prompts" => view.prompts = Filter::of(key, value)?,
                "resources" => view.resources = Filter::of(key, value)?,
                "token-file" => {
                    let file = value.as_str();
                    let file =
                        file.ok_or_else(|| format!("token-file = {value}: expected a string"))?;
                    view.token_file = Some(file.into());
                }
                _ => {
                    let suggestion = suggestion(KEYS.into_iter(), key);
                    return Err(format!("a view has no {key:?}{suggestion}"));
                }
            }
        }
        Ok(view)
    }
}

impl View {
    pub(super) fn for_gateway(&self, servers: &[ServerSpec]) -> Result<gateway::View, String> {
        if self.token_file.is_some() {
            return Err(format!("[views.{}]: token-file: not yet", self.name));
        }
        // Servers are named as in the file here, and in a gateway as in addresses.
        let is_in = |server: &&ServerSpec| match &self.servers {
            Some(patterns) => patterns.iter().any(|it| matches(it, &server.name)),
            None => true,
        };
        let segments = servers.iter().filter(is_in).map(|it| it.segment.clone());
        let servers = Filter {
            allow: Some(segments.collect()),
            deny: Vec::new(),
        };
        Ok(gateway::View {
            servers: servers.for_gateway(),
            tools: self.tools.for_gateway(),
            prompts: self.prompts.for_gateway(),
            resources: self.resources.for_gateway(),
        })
    }
}

/// What is wrong with a pattern of servers, if it means none.
fn check(pattern: &str, known: &[&str]) -> Result<(), String> {
    if known.iter().any(|name| matches(pattern, name)) {
        return Ok(());
    }
    let suggestion = suggestion(known.iter().copied(), pattern);
    Err(format!("there is no server {pattern:?}{suggestion}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(text: &str) -> Result<View, String> {
        let table: Table = text.parse().unwrap();
        View::of("v", &table["v"], &["github", "gitlab", "time"])
    }

    #[test]
    fn a_view_names_servers_and_what_they_show() {
        let text = "[v]\nservers = ['git*', 'time']\ntools = { deny = ['x'] }\ntoken-file = 't'";
        let view = view(text).unwrap();
        assert_eq!(view.servers.unwrap(), ["git*", "time"]);
        assert_eq!(view.tools.deny, ["x"]);
        assert_eq!(view.token_file, Some("t".into()));
        assert_eq!(view.prompts, Filter::default());
    }

    #[test]
    fn what_is_wrong_with_a_view_is_named() {
        for (text, words) in [
            (
                "[v]\nservers = ['githb']",
                "[views.v]: there is no server \"githb\"; did you mean \"github\"?",
            ),
            ("[v]\nservers = ['x*']", "there is no server \"x*\""),
            ("[v]\nservers = 'github'", "expected a list of strings"),
            ("[v]\ntool = {}", "did you mean \"tools\"?"),
            ("[v]\ntools = { a = [] }", "tools has no \"a\""),
            ("v = 1", "expected a table"),
            ("[v]\ntoken-file = 1", "expected a string"),
        ] {
            let why = view(text).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
