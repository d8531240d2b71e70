//! The settings of each server: those of the command line, unless the server's own say otherwise.
//!
//! As with the [settings file](crate::config), there is one definition of each setting: what holds in general becomes
//! the default of the flag, and what a server says takes its place. So a value is read by the same parser, and a key
//! that does not exist gets the same answer.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use toml::Value;

use crate::config;
use crate::listen::ServeSettings;

/// Headings of settings that each server can have for itself.
const HEADINGS: [&str; 6] = [
    "Calls",
    "Starting",
    "Restarts",
    "Liveness",
    "Servers over HTTP",
    "Stopping",
];

/// Such settings under other headings.
const OTHERS: [&str; 9] = [
    "idle-stop",
    "max-in-flight",
    "max-in-flight-bytes",
    "max-servers",
    "message-limit",
    "pin",
    "pool",
    "share",
    "start",
];

/// What concerns the process and not a server, though it stands among them.
const NOT_OF_ONE: &str = "exit-on-failed";

/// What is meant for one server: it is sent to no other.
const OF_ONE_ALONE: [&str; 6] = [
    "client-id",
    "client-key",
    "client-secret",
    "header",
    "header-file",
    "scope",
];

/// Settings of a server that no flag has: see [`crate::servers`].
pub const BESIDE: [&str; 2] = ["prefix", "tools"];

/// A setting that a server has for itself.
#[derive(Clone, Debug)]
pub struct Override {
    id: String,
    values: Vec<OsString>,
}

/// The settings that hold for every server, unless its own say otherwise.
pub struct General {
    command: Command,
    /// `outlive run` as it is, for entries that start one.
    run: Command,
}

impl General {
    /// Those of this command line, its variables and its settings file.
    pub fn of(given: &ArgMatches) -> General {
        let defined = |name: &str| {
            let cli = crate::cli();
            let command = cli.find_subcommand(name).cloned().unwrap_or(cli);
            command
                .no_binary_name(true)
                .mut_args(|arg| arg.env(None::<&str>))
        };
        let command = defined("serve").mut_args(|arg| {
            let is_for_all = arg
                .get_long()
                .is_some_and(|long| !OF_ONE_ALONE.contains(&long));
            let values = given.try_get_raw(arg.get_id().as_str()).ok().flatten();
            match values {
                Some(values) if is_for_all => {
                    let values: Vec<OsString> = values.map(Into::into).collect();
                    arg.default_values(values)
                }
                _ => arg,
            }
        });
        General {
            command,
            run: defined("run"),
        }
    }

    /// The settings of one server. Later ones win.
    pub fn settings(&self, own: &[Override]) -> Result<ServeSettings, String> {
        let mut command = self.command.clone();
        for Override { id, values } in own {
            command = command.mut_arg(id, |arg| arg.default_values(values.clone()));
        }
        let matches = command.try_get_matches_from([""; 0]);
        let settings = matches.and_then(|it| ServeSettings::from_arg_matches(&it));
        let settings = settings.map_err(|error| error.to_string())?;
        settings.run.policy()?;
        settings.check()?;
        Ok(settings)
    }

    /// What a server says about itself, if it may.
    pub fn of_setting(&self, key: &str, value: &Value) -> Result<Override, String> {
        let known = || {
            self.command
                .get_arguments()
                .filter(|arg| is_per_server(arg))
        };
        let arg = known().find(|arg| arg.get_long() == Some(key));
        let arg = arg.ok_or_else(|| {
            let keys = known().filter_map(Arg::get_long).chain(BESIDE);
            let is_general = self
                .command
                .get_arguments()
                .any(|arg| arg.get_long() == Some(key));
            match config::nearest(keys, key) {
                _ if is_general => {
                    format!("\"{key}\" is no setting of one server: it holds for all of them")
                }
                Some(nearest) => {
                    format!("there is no setting \"{key}\"; did you mean \"{nearest}\"?")
                }
                None => format!("there is no setting \"{key}\""),
            }
        })?;
        let values = config::checked(arg, key, value)?;
        Ok(Override {
            id: arg.get_id().to_string(),
            values: values.into_iter().map(Into::into).collect(),
        })
    }

    /// What `outlive run` with these words would run, and the settings it would have, by variables and by flags; none
    /// if it would run nothing.
    pub fn of_run(
        &self,
        words: &[String],
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Option<(Vec<OsString>, Vec<Override>)> {
        let given = self.run.clone().try_get_matches_from(words).ok()?;
        let command = given.try_get_raw("command").ok()??;
        let command: Vec<OsString> = command.map(Into::into).collect();
        let mut own = Vec::new();
        for arg in self.run.get_arguments().filter(|arg| is_per_server(arg)) {
            let id = arg.get_id().as_str();
            let by_flag = given.value_source(id) == Some(ValueSource::CommandLine);
            let values: Option<Vec<OsString>> = match by_flag {
                true => given.get_raw(id).map(|raw| raw.map(Into::into).collect()),
                false => variable(&variable_of(arg)?).map(|value| split(arg, value)),
            };
            own.extend(values.map(|values| Override {
                id: id.into(),
                values,
            }));
        }
        Some((command, own))
    }
}

/// The variable that a flag is also read from.
fn variable_of(arg: &Arg) -> Option<String> {
    let long = arg.get_long()?;
    Some(format!("OUTLIVE_{}", long.to_uppercase().replace('-', "_")))
}

/// The values of a variable: a list has one per line.
fn split(arg: &Arg, value: OsString) -> Vec<OsString> {
    match (arg.get_value_delimiter(), value.to_str()) {
        (Some(delimiter), Some(text)) => text.split(delimiter).map(Into::into).collect(),
        _ => vec![value],
    }
}

fn is_per_server(arg: &Arg) -> bool {
    let heading = arg.get_help_heading().unwrap_or_default();
    arg.get_long().is_some_and(|long| {
        OTHERS.contains(&long) || (HEADINGS.contains(&heading) && long != NOT_OF_ONE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn general(args: &[&str]) -> General {
        let matches = crate::cli().get_matches_from([&["outlive", "serve"], args].concat());
        General::of(matches.subcommand_matches("serve").expect("serve"))
    }

    fn settings(general: &General, own: &[(&str, Value)]) -> Result<ServeSettings, String> {
        let own: Result<Vec<Override>, String> = own
            .iter()
            .map(|(key, value)| general.of_setting(key, value))
            .collect();
        general.settings(&own?)
    }

    #[test]
    fn what_a_server_says_wins_over_what_holds_in_general() {
        let args = [
            "--hold=7s",
            "--retry=never",
            "--share",
            "--idle-stop=1m",
            "--header=A: 1",
        ];
        let general = general(&args);
        let plain = settings(&general, &[]).unwrap();
        assert_eq!(plain.run.hold, Duration::from_secs(7));
        assert!(plain.share);
        assert_eq!(plain.run.remote.header, [""; 0]);
        assert_eq!(plain.run.drain, Duration::from_secs(10));
        let own = [
            ("hold", Value::from("2s")),
            ("share", Value::from(false)),
            ("idle-stop", Value::from("off")),
            ("header", Value::from(vec!["B: 2"])),
        ];
        let own = settings(&general, &own).unwrap();
        assert_eq!(own.run.hold, Duration::from_secs(2));
        assert!(!own.share);
        assert_eq!(own.idle_stop.0, None);
        assert_eq!(own.run.remote.header, ["B: 2"]);
        assert_eq!(own.run.retry, plain.run.retry);
    }

    #[test]
    fn what_is_wrong_is_named_as_in_the_settings_file() {
        let general = general(&[]);
        for (key, value, words) in [
            (
                "holt",
                "5s",
                "there is no setting \"holt\"; did you mean \"hold\"?",
            ),
            ("tolls", "x", "did you mean \"tools\"?"),
            ("hold", "5", "hold = \"5\": a duration needs a unit"),
            ("listen", "x", "it holds for all of them"),
            ("exit-on-failed", "x", "it holds for all of them"),
            ("idle-stop", "0s", "idle-stop is 0: use \"off\""),
            (
                "request-timeout",
                "0s",
                "request-timeout is 0: use \"off\" for no limit",
            ),
        ] {
            let why = settings(&general, &[(key, value.into())]).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn an_outlive_in_an_entry_gives_its_server_and_its_settings() {
        let general = general(&["--hold=7s"]);
        let words = ["run", "--request-timeout", "9s", "--", "npx", "--", "-y"];
        let words = words[1..].iter().map(|word| word.to_string());
        let words: Vec<String> = words.collect();
        let variable = |name: &str| match name {
            "OUTLIVE_DRAIN" => Some("3s".into()),
            "OUTLIVE_HEADER" => Some("A: 1\nB: 2".into()),
            _ => None,
        };
        let (command, own) = general.of_run(&words, variable).unwrap();
        assert_eq!(command, ["npx", "--", "-y"]);
        let settings = general.settings(&own).unwrap();
        assert_eq!(settings.run.request_timeout.0, Some(Duration::from_secs(9)));
        assert_eq!(settings.run.drain, Duration::from_secs(3));
        assert_eq!(settings.run.hold, Duration::from_secs(7));
        assert_eq!(settings.run.remote.header, ["A: 1", "B: 2"]);
        assert!(general.of_run(&["--hold".into()], |_| None).is_none());
        assert!(general.of_run(&[], |_| None).is_none());
    }
}
