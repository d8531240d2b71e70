//! What `wrap` and `unwrap` print.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use outlive::{Command, Remote, Secrets};
use outlive_hosts::{Action, Error, Host, Launch, Touched, masked};
use serde_json::{Value, json};

use super::difference::unified;
use super::target::Target;
use crate::paint::{Paint, Tone};

/// A line of a difference is cut after so many characters: some hosts write a file in one line.
const WIDTH: usize = 2000;

/// What was done to a file.
#[derive(Debug)]
pub struct Outcome {
    pub file: PathBuf,
    pub changed: bool,
    pub servers: Vec<Touched>,
    pub backup: Option<PathBuf>,
    /// Only of a dry run.
    pub diff: Option<String>,
}

type Outcomes = [(Option<Host>, Result<Outcome, String>)];

/// The difference, with everything hidden that may be a secret: what the file keeps where secrets are kept, and on
/// command lines and in addresses what is masked while servers run.
pub fn diff(target: &Target, new: &str) -> Result<String, Error> {
    let secrets = secrets(target);
    let shown = |text: &str| {
        let text = masked(text, target.format, target.shape)?;
        Ok(secrets.iter().fold(text, |text, it| it.mask(&text)))
    };
    let (old, new) = (shown(&target.text)?, shown(new)?);
    let name = target.path.display().to_string();
    Ok(unified(&name, &old, &new))
}

/// What must not be shown of the servers' command lines and addresses.
fn secrets(target: &Target) -> Vec<Secrets> {
    let value = |name: &str| std::env::var(name).ok();
    let read = outlive_hosts::read(&target.text, target.format, value);
    let servers = read.map(|file| file.servers).unwrap_or_default();
    let launches = servers.into_iter().filter_map(|server| server.launch.ok());
    let secrets = launches.map(|launch| match launch {
        Launch::Command { program, args, .. } => Secrets::of(&Command::new(program, args)),
        Launch::Address { url, .. } => Remote::new(url).secrets(),
    });
    secrets.collect()
}

/// Prints for a person: differences to standard output, refusals to standard error.
pub fn text(outcomes: &Outcomes) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let paint = Paint::when(io::stdout().is_terminal());
    for (host, outcome) in outcomes {
        match outcome {
            Err(why) => eprintln!("outlive: {why}"),
            Ok(outcome) => match &outcome.diff {
                // Whoever pipes a difference wants nothing else on standard output.
                Some(diff) => {
                    for line in diff.lines() {
                        writeln!(out, "{}", paint.tone(tone(line), &cut(&visible(line))))?;
                    }
                    eprint!(
                        "{}",
                        summary(*host, outcome, Paint::when(io::stderr().is_terminal()))
                    );
                }
                None => write!(out, "{}", summary(*host, outcome, paint))?,
            },
        }
    }
    out.flush()
}

/// Prints for a program.
pub fn json(outcomes: &Outcomes) -> io::Result<()> {
    let files: Vec<Value> = outcomes
        .iter()
        .map(|(host, outcome)| {
            let host = host.map(Host::name);
            match outcome {
                Err(why) => json!({ "host": host, "error": why }),
                Ok(outcome) => json!({
                    "host": host,
                    "file": outcome.file,
                    "changed": outcome.changed,
                    "written": outcome.changed && outcome.diff.is_none(),
                    "backup": outcome.backup,
                    "diff": outcome.diff,
                    "servers": outcome.servers.iter().map(server).collect::<Vec<_>>(),
                }),
            }
        })
        .collect();
    let document = serde_json::to_string_pretty(&json!({ "files": files }))?;
    writeln!(io::stdout(), "{document}")
}

fn server(touched: &Touched) -> Value {
    let (action, why) = words(&touched.action);
    json!({ "name": touched.name, "project": touched.project, "action": action, "why": why })
}

fn words(action: &Action) -> (&'static str, Option<&str>) {
    match action {
        Action::Wrapped => ("wrapped", None),
        Action::Unwrapped => ("unwrapped", None),
        Action::Unchanged => ("unchanged", None),
        Action::Left(why) => ("left", Some(why)),
    }
}

fn summary(host: Option<Host>, outcome: &Outcome, paint: Paint) -> String {
    let file = outcome.file.display().to_string();
    let title = match host {
        Some(host) => format!("{}: {file}", host.name()),
        None => file,
    };
    let mut text = format!("{}\n", paint.tone(Tone::Title, &visible(&title)));
    let mut line = |label: &str, words: &str| {
        text.push_str(&format!("  {label:<9}  {}\n", visible(words)));
    };
    for label in ["wrapped", "unwrapped", "unchanged"] {
        let alike = outcome
            .servers
            .iter()
            .filter(|it| words(&it.action).0 == label);
        let names: Vec<&str> = alike.map(|it| it.name.as_str()).collect();
        if !names.is_empty() {
            line(label, &names.join(", "));
        }
    }
    for touched in &outcome.servers {
        if let Action::Left(why) = &touched.action {
            line("left", &format!("{}: {why}", touched.name));
        }
    }
    if outcome.servers.is_empty() {
        line("nothing", "the file has no servers");
    }
    if outcome.diff.is_some() {
        line("dry run", "nothing has been written");
    }
    if let Some(backup) = &outcome.backup {
        line("backup", &backup.display().to_string());
    }
    text
}

fn tone(line: &str) -> Tone {
    match line.chars().next() {
        _ if line.starts_with("---") || line.starts_with("+++") => Tone::Title,
        Some('+') => Tone::Good,
        Some('-') => Tone::Bad,
        Some('@') => Tone::Quiet,
        _ => Tone::Plain,
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Text from a file, without what a terminal would obey.
fn visible(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() && c != '\t' {
            '\u{fffd}'
        } else {
            c
        }
    };
    text.trim_end_matches('\r').chars().map(shown).collect()
}
