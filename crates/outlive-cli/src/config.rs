//! The settings file.
//!
//! Its keys are the names of the flags of the command it is given to, and `command`. What it says becomes the
//! default of the flag, so that flags and variables win over it by clap's own rules. Its tables `[servers.NAME]` and
//! `[views.NAME]` are about single servers (see [`crate::servers`]).

use std::error::Error as _;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use toml::{Table, Value};

use crate::servers::TABLES;

/// Keys of flags that make no sense in a file.
const NOT_IN_A_FILE: [&str; 2] = ["config", "help"];

/// The command with what the file at `path` says as its defaults.
pub fn apply(command: Command, path: &Path) -> Result<Command, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    apply_text(command, &text).map_err(|why| format!("{}: {why}", path.display()))
}

fn apply_text(mut command: Command, text: &str) -> Result<Command, String> {
    let table: Table = text
        .parse()
        .map_err(|error: toml::de::Error| located(text, &error))?;
    for (key, value) in &table {
        // What is said about single servers is not the default of a flag.
        if TABLES.contains(&key.as_str()) && (value.is_table() || key == "views") {
            continue;
        }
        let arg = command
            .get_arguments()
            .find(|arg| key_of(arg) == Some(key))
            .cloned();
        let arg = arg.ok_or_else(|| unknown(&command, key))?;
        let values = checked(&arg, key, value)?;
        command = command.mut_arg(arg.get_id(), |arg| arg.default_values(values));
    }
    Ok(command)
}

/// What is wrong with a file, and where. What stands there is not repeated: it may be a secret.
pub fn located(text: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    let Some(span) = error.span() else {
        return message.to_owned();
    };
    let before = &text[..text.floor_char_boundary(span.start)];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {line}, column {column}: {message}")
}

/// The key of an argument, if it may stand in a file.
fn key_of(arg: &Arg) -> Option<&str> {
    arg.get_long()
        .or_else(|| arg.is_positional().then(|| arg.get_id().as_str()))
        .filter(|key| !NOT_IN_A_FILE.contains(key))
}

fn unknown(command: &Command, key: &str) -> String {
    match nearest(command.get_arguments().filter_map(key_of), key) {
        Some(nearest) => format!("there is no setting \"{key}\"; did you mean \"{nearest}\"?"),
        None => format!("there is no setting \"{key}\""),
    }
}

/// The known name that is most like this one, if one is.
pub fn nearest<'a>(known: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    let nearest = known.min_by_key(|known| strsim::levenshtein(known, name))?;
    (strsim::levenshtein(nearest, name) <= name.len() / 2).then_some(nearest)
}

/// The value as the flag would take it, once the flag has taken it for a try.
pub fn checked(arg: &Arg, key: &str, value: &Value) -> Result<Vec<String>, String> {
    let values =
        spelled(arg, value).ok_or_else(|| format!("{key} = {value}: {}", expected(arg)))?;
    let line: Vec<String> = match arg.get_action() {
        ArgAction::SetTrue => return Ok(values),
        _ if arg.is_positional() => ["--".to_owned()]
            .into_iter()
            .chain(values.clone())
            .collect(),
        _ => values
            .iter()
            .map(|value| format!("--{key}={value}"))
            .collect(),
    };
    let attempt = Command::new("settings")
        .no_binary_name(true)
        .arg(arg.clone());
    match attempt.try_get_matches_from(line) {
        Ok(_) => Ok(values),
        Err(error) => Err(format!("{key} = {value}: {}", reason(&error))),
    }
}

/// The value as words on a command line, if it has a type that can be written there.
fn spelled(arg: &Arg, value: &Value) -> Option<Vec<String>> {
    match (value, arg.get_action()) {
        (Value::Boolean(yes), ArgAction::SetTrue) => Some(vec![yes.to_string()]),
        (_, ArgAction::SetTrue) => None,
        (Value::Array(words), _) if arg.is_positional() && !words.is_empty() => words
            .iter()
            .map(|word| word.as_str().map(Into::into))
            .collect(),
        (_, _) if arg.is_positional() => None,
        (Value::Array(lines), ArgAction::Append) => lines
            .iter()
            .map(|line| line.as_str().map(Into::into))
            .collect(),
        (Value::String(text), _) => Some(vec![text.clone()]),
        (Value::Integer(number), _) => Some(vec![number.to_string()]),
        _ => None,
    }
}

fn expected(arg: &Arg) -> &'static str {
    match arg.get_action() {
        ArgAction::SetTrue => "expected true or false",
        _ if arg.is_positional() => "expected a list of strings, the program first",
        _ => "expected a string or a whole number",
    }
}

/// Why clap refused a value.
fn reason(error: &clap::Error) -> String {
    if let Some(reason) = error.source() {
        return reason.to_string();
    }
    match (error.kind(), error.get(ContextKind::ValidValue)) {
        (ErrorKind::InvalidValue, Some(ContextValue::Strings(valid))) => {
            format!("expected one of {}", valid.join(", "))
        }
        (kind, _) => kind.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;
    use crate::listen::ServeSettings;
    use crate::settings::{LogFormat, Settings};
    use clap::{Args, FromArgMatches};

    fn settings(toml: &str, args: &[&str]) -> Result<Settings, String> {
        let command = Settings::augment_args(Command::new("run"));
        let matches = apply_text(command, toml)?
            .try_get_matches_from([&["run"], args].concat())
            .map_err(|error| error.to_string())?;
        Settings::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let toml = "hold = \"5s\"\nmax-held = 7\nexit-on-failed = true\nlog-format = \"json\"";
        let settings = settings(toml, &["--max-held", "8", "cat"]).unwrap();
        assert_eq!(settings.hold.as_secs(), 5);
        assert_eq!(settings.max_held, 8);
        assert!(settings.exit_on_failed);
        assert_eq!(settings.log_format, LogFormat::Json);
        assert_eq!(settings.max_in_flight, 4096);
    }

    #[test]
    fn the_command_may_stand_in_the_file() {
        let toml = r#"command = ["python", "-u", "--", "server.py"]"#;
        assert_eq!(
            settings(toml, &[]).unwrap().command,
            ["python", "-u", "--", "server.py"]
        );
        assert_eq!(
            settings(toml, &["--", "cat", "-u"]).unwrap().command,
            ["cat", "-u"]
        );
    }

    #[test]
    fn what_may_be_given_more_than_once_is_a_list() {
        let toml = r#"header = ["A: 1", "B: 2"]"#;
        let given = |toml, args: &[&str]| settings(toml, args).unwrap().remote.header;
        assert_eq!(given(toml, &["cat"]), ["A: 1", "B: 2"]);
        assert_eq!(given(r#"header = "A: 1""#, &["cat"]), ["A: 1"]);
        let flags = ["--header", "C: 3", "--header=D: 4", "cat"];
        assert_eq!(given(toml, &flags), ["C: 3", "D: 4"]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refusal = |toml| settings(toml, &["cat"]).unwrap_err();
        assert_eq!(
            refusal("holt = \"5s\""),
            "there is no setting \"holt\"; did you mean \"hold\"?"
        );
        assert_eq!(refusal("zzzzzzzz = 1"), "there is no setting \"zzzzzzzz\"");
        assert_eq!(refusal("config = \"x\""), "there is no setting \"config\"");
        assert!(refusal("hold = 5").starts_with("hold = 5: a duration needs a unit"));
        assert_eq!(
            refusal("retry = \"yes\""),
            "retry = \"yes\": expected one of never, safe, always"
        );
        assert_eq!(
            refusal("exit-on-failed = 1"),
            "exit-on-failed = 1: expected true or false"
        );
        assert!(refusal("max-held = -1").contains("max-held = -1: invalid digit"));
        assert!(refusal("command = \"cat\"").contains("expected a list of strings"));
        assert!(refusal("hold = [\"5s\"]").contains("expected a string"));
        assert!(refusal("hold 5").contains("line 1"));
    }

    #[test]
    fn every_setting_has_a_variable_of_its_name() {
        let command = ServeSettings::augment_args(Command::new("serve"));
        for arg in command.get_arguments().filter(|arg| !arg.is_positional()) {
            let long = arg.get_long().unwrap();
            let expected = format!("OUTLIVE_{}", long.to_uppercase().replace('-', "_"));
            assert_eq!(arg.get_env().unwrap().to_str(), Some(expected.as_str()));
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_core() {
        let settings = settings("", &["cat"]).unwrap();
        assert_eq!(settings.policy().unwrap(), outlive_core::Policy::default());
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        for (flags, word) in [
            (["--backoff-base=2s", "--backoff-cap=1s"], "backoff-cap"),
            (["--message-limit=1000", "--hold=1s"], "message-limit"),
            (["--max-in-flight=0", "--hold=1s"], "max-in-flight"),
            (
                ["--request-timeout=2s", "--request-ceiling=1s"],
                "request-ceiling",
            ),
        ] {
            let refusal = settings("", &[&flags[..], &["cat"]].concat())
                .unwrap()
                .policy()
                .unwrap_err();
            assert!(refusal.contains(word), "{refusal}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        cli().debug_assert();
    }
}
