//! Environment variables that look like settings and are none.
//!
//! They are told, not refused: variables are inherited by everything that a person or a host starts, and one that is
//! meant for another version of this program must not keep a server from starting.

use clap::Command;
use serde_json::{Value, json};

use crate::config::nearest;
use crate::parent;
use crate::places;
use crate::servers;

/// What the variables of this program begin with.
const PREFIX: &str = "OUTLIVE_";

/// Where the memory of earlier runs is kept, and where status and logs are: they have no flag.
const FOLDERS: [&str; 2] = ["OUTLIVE_CACHE_DIR", places::STATE_DIR];

/// Has Linux do without what only Linux has, so that tests go the way of other Unixes.
const PORTABLE: &str = "OUTLIVE_PORTABLE";

/// Variables that this program gives to those it starts. It may find them in its own environment, where one
/// `outlive` runs under another.
const GIVEN: [&str; 5] = [
    "OUTLIVE_CHECK_COMMAND",
    "OUTLIVE_CHECK_MARK",
    "OUTLIVE_CHECK_URL",
    "OUTLIVE_TREE",
    servers::WITHIN,
];

/// A variable that is set and has no meaning.
#[derive(Debug, PartialEq, Eq)]
pub struct Unknown {
    name: String,
    /// The known one that is most like it, if one is.
    nearest: Option<String>,
}

impl Unknown {
    /// For a person.
    pub fn sentence(&self) -> String {
        let name = &self.name;
        match &self.nearest {
            Some(nearest) => format!(
                "the environment variable {name} is ignored: there is no such setting; did you mean {nearest}?"
            ),
            None => {
                format!("the environment variable {name} is ignored: there is no such setting")
            }
        }
    }

    /// For a program.
    pub fn data(&self) -> Value {
        json!({ "variable": self.name, "nearest": self.nearest })
    }
}

/// The variables in our environment that no command has as a setting. The definition of the command line is only asked
/// for if there is one that may be a setting: to put it together is a good part of what a start takes.
pub fn unknown(cli: impl FnOnce() -> Command) -> Vec<Unknown> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let names: Vec<String> = names.filter(|name| may_be_setting(name)).collect();
    match names.is_empty() {
        true => Vec::new(),
        false => among(&cli(), names.into_iter()),
    }
}

fn may_be_setting(name: &str) -> bool {
    let others = [PORTABLE, parent::VARIABLE];
    let no_setting = FOLDERS.contains(&name) || GIVEN.contains(&name) || others.contains(&name);
    name.starts_with(PREFIX) && !no_setting
}

fn among(cli: &Command, names: impl Iterator<Item = String>) -> Vec<Unknown> {
    // A variable of another command is no mistake: one environment serves them all.
    let mut known: Vec<String> = cli
        .get_subcommands()
        .flat_map(Command::get_arguments)
        .filter_map(|arg| Some(arg.get_env()?.to_string_lossy().into_owned()))
        .collect();
    known.extend(FOLDERS.map(String::from));
    known.push(parent::VARIABLE.into());
    let mut unknown: Vec<Unknown> = names
        .filter(|name| may_be_setting(name) && !known.contains(name))
        .map(|name| Unknown {
            nearest: nearest_of(&known, &name),
            name,
        })
        .collect();
    unknown.sort_by(|one, other| one.name.cmp(&other.name));
    unknown
}

/// What all have in common says nothing about how alike two are.
fn nearest_of(known: &[String], name: &str) -> Option<String> {
    let rests = known.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let found = nearest(rests, name.strip_prefix(PREFIX)?)?;
    Some(format!("{PREFIX}{found}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(names: &[&str]) -> Vec<String> {
        let names = names.iter().map(|name| name.to_string());
        let unknown = among(&crate::cli(), names);
        unknown.iter().map(Unknown::sentence).collect()
    }

    #[test]
    fn a_typo_is_told_with_the_nearest_name() {
        let words = told(&["OUTLIVE_REQUST_TIMEOUT", "OUTLIVE_HOLT"]);
        assert_eq!(words.len(), 2, "{words:?}");
        assert!(words[0].contains("OUTLIVE_HOLT is ignored"), "{words:?}");
        assert!(words[0].ends_with("did you mean OUTLIVE_HOLD?"));
        assert!(words[1].ends_with("did you mean OUTLIVE_REQUEST_TIMEOUT?"));
    }

    #[test]
    fn what_resembles_nothing_is_told_alone() {
        let words = told(&["OUTLIVE_XYZZY_PLUGH_QUUX"]);
        assert!(words[0].ends_with("there is no such setting"), "{words:?}");
    }

    #[test]
    fn settings_of_any_command_and_what_outlive_itself_sets_are_known() {
        let known = [
            "OUTLIVE_HOLD",
            "OUTLIVE_LISTEN",
            "OUTLIVE_PARENT_PID",
            "PATH",
        ];
        assert_eq!(told(&known), [""; 0]);
        assert_eq!(told(&FOLDERS), [""; 0]);
        assert_eq!(told(&GIVEN), [""; 0]);
    }
}
