//! `outlive accept`: what a server offers that nobody has accepted, and the consent to it.
//!
//! A gateway with `--pin` writes down what it withholds. This command reads that, shows it, and writes down that it is
//! accepted: exactly what was shown, also if the server has changed once more meanwhile. So it works whether or not a
//! gateway is running; one that is takes it up by itself.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::FromArgMatches as _;
use outlive::gateway::{Change, Pins, Reason, Withheld};
use serde_json::{Value, json};

use crate::config::nearest;
use crate::listen::ServeSettings;
use crate::paint::{Paint, Tone};
use crate::places;
use crate::servers::Servers;
use crate::terminal::print;

/// Something is still withheld.
const WITHHELD: u8 = 1;

/// Options of `outlive accept`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The server, by its name in addresses; without it, show what is withheld of all servers and accept nothing
    name: Option<String>,

    /// Take the server of this name in this file, where servers of several files have the same name
    #[arg(long, value_name = "FILE", requires = "name")]
    servers: Option<PathBuf>,

    /// Show the difference and accept nothing
    #[arg(long)]
    dry_run: bool,

    /// Accept only what has this digest, as `--dry-run` and the status page show it
    #[arg(long, requires = "name")]
    digest: Option<String>,

    /// Do not ask on a terminal
    #[arg(long, short)]
    yes: bool,

    /// Print one JSON document, with the whole definitions
    #[arg(long)]
    json: bool,
}

/// What follows the help of `outlive accept`.
pub const EXAMPLES: &str = "\
Examples:
  outlive accept                      # what is withheld, of all servers
  outlive accept github --dry-run     # the difference
  outlive accept github               # the difference, and accept it

Exit codes:
  0   nothing is withheld any more
  1   something still is: of a dry run, or because you said no
  2   the usage was wrong, there is no such server, or a record cannot be read or written";

/// Shows what is withheld, and accepts it.
pub fn run(args: &Args) -> Result<ExitCode, String> {
    let (folders, refused) = places::readable(places::pin_folders());
    if let Some(why) = refused.into_iter().next() {
        return Err(format!("what was accepted cannot be read: {why}"));
    }
    let (name, origin) = match (&args.name, &args.servers) {
        (Some(name), Some(file)) => {
            let (name, origin) = in_file(name, file)?;
            (Some(name), Some(origin))
        }
        (name, _) => (name.clone(), None),
    };
    let mut found: Vec<(Pins, Withheld)> = Vec::new();
    let mut is_known = false;
    for pins in folders.into_iter().map(Pins::new) {
        for withheld in pins.withheld(name.as_deref())? {
            if origin.as_ref().is_none_or(|it| *it == withheld.origin) {
                found.push((pins.clone(), withheld));
            }
        }
        is_known |= name.as_deref().is_some_and(|name| pins.knows(name));
    }
    let Some(name) = name else {
        show(args, &found, None);
        return Ok(still(!found.is_empty()));
    };
    match &found[..] {
        [] if !is_known => Err(format!(
            "nothing is known of a server {name:?}: no gateway with --pin has seen one of this name"
        )),
        [] => {
            show(args, &found, Some(false));
            Ok(ExitCode::SUCCESS)
        }
        [(pins, withheld)] => decide(args, pins, withheld),
        several => Err(format!(
            "{} servers are called {name:?}: say which one is meant with --servers FILE",
            several.len()
        )),
    }
}

/// Accepts it, unless somebody does not want that.
fn decide(args: &Args, pins: &Pins, withheld: &Withheld) -> Result<ExitCode, String> {
    if let Some(digest) = args.digest.as_ref().filter(|it| **it != withheld.digest) {
        return Err(format!(
            "the server offers something else by now, with the digest {}, and not {digest}: nothing was accepted",
            withheld.digest
        ));
    }
    let found = [(pins.clone(), withheld.clone())];
    let asks = !args.yes && !args.json && !args.dry_run && io::stdin().is_terminal();
    if asks {
        show(args, &found, None);
    }
    let accepts = !args.dry_run && (!asks || consent()?);
    if accepts {
        let accepted = pins.accept(withheld);
        accepted.map_err(|why| format!("nothing was accepted: {why}"))?;
    }
    match asks {
        true => drop(print(&format!("{}\n", verdict(&withheld.name, accepts)))),
        false => show(args, &found, Some(accepts)),
    }
    Ok(still(!accepts))
}

fn still(withheld: bool) -> ExitCode {
    match withheld {
        true => ExitCode::from(WITHHELD),
        false => ExitCode::SUCCESS,
    }
}

fn consent() -> Result<bool, String> {
    print("Accept it? [y/N] ");
    let _ = io::stdout().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| format!("no answer can be read: {error}"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn verdict(name: &str, accepted: bool) -> String {
    match accepted {
        true => format!(
            "Accepted. A gateway that is running shows it to its clients within seconds: {name}"
        ),
        false => format!("Not accepted. To accept it: outlive accept {name}"),
    }
}

/// The name in addresses of a server in a file, and what starts it.
fn in_file(name: &str, file: &Path) -> Result<(String, String), String> {
    let words = ["outlive".into(), "serve".into(), "--servers".into()];
    let words = words.into_iter().chain([file.as_os_str().to_owned()]);
    let matches = crate::cli().try_get_matches_from(words);
    let matches = matches.map_err(|error| error.to_string())?;
    let given = matches.subcommand_matches("serve").unwrap_or(&matches);
    let settings = ServeSettings::from_arg_matches(given).map_err(|error| error.to_string())?;
    let servers = Servers::given(&settings.run, given, None)?.ok_or("there are no servers")?;
    let names = servers.servers.iter().map(|it| it.name.as_str());
    let at = servers
        .servers
        .iter()
        .position(|it| it.name == name || it.segment == name);
    let Some(at) = at else {
        let like =
            nearest(names, name).map_or(String::new(), |it| format!("; did you mean {it:?}?"));
        return Err(format!("{} has no server {name:?}{like}", file.display()));
    };
    let (segment, target) = servers.targets()?.swap_remove(at);
    Ok((segment, target.origin()))
}

/// Prints what is withheld; and what came of it, if it was about one.
fn show(args: &Args, found: &[(Pins, Withheld)], accepted: Option<bool>) {
    let withheld = found.iter().map(|(_, withheld)| withheld);
    let text = match args.json {
        true => {
            let all: Vec<Value> = withheld.map(Withheld::to_json).collect();
            let document = json!({ "withheld": all, "accepted": accepted.unwrap_or(false) });
            format!("{}\n", in_ascii(&document.to_string()))
        }
        false => {
            let paint = Paint::when(io::stdout().is_terminal());
            let mut text: String = withheld.map(|it| described(it, paint)).collect();
            match (found.first(), accepted) {
                (None, _) => text += "Nothing is withheld.\n",
                (Some((_, it)), Some(accepted)) => {
                    text += &format!("{}\n", verdict(&it.name, accepted))
                }
                (Some(_), None) => {}
            }
            text
        }
    };
    print(&text);
}

/// What is withheld of one server. The texts are the server's, and may be hostile: what does not show is escaped.
fn described(withheld: &Withheld, paint: Paint) -> String {
    let Withheld { name, reason, .. } = withheld;
    let mut text = format!("{name}: {reason}.\n");
    if *reason != Reason::Changed {
        text +=
            "All that it offers is withheld; this is what differs from what was last accepted:\n";
    }
    for difference in &withheld.differences {
        let what = difference.list.map_or("its", |list| list.noun());
        let kind = match difference.kind {
            Change::New => "is new",
            Change::Changed => "has changed",
            Change::Removed => "is no longer there",
        };
        text += &format!("\n{what} {:?} {kind}\n", difference.key);
        for line in difference.lines() {
            let tone = match line.as_bytes().first() {
                Some(b'+') => Tone::Good,
                Some(b'-') => Tone::Bad,
                _ => Tone::Quiet,
            };
            text += &format!("  {}\n", paint.tone(tone, &line));
        }
    }
    if withheld.differences.is_empty() {
        text += "Nothing: its definitions are the same.\n";
    }
    format!("{text}\ndigest {}\n", withheld.digest)
}

/// The same JSON with nothing in it that a terminal could show as something else.
fn in_ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c.is_ascii() && c != '\u{7f}' {
            true => out.push(c),
            false => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_the_same_without_its_letters() {
        let data = json!({ "é\u{202e}": "😀\u{7f}\u{1b} plain \\ \"" });
        let ascii = in_ascii(&data.to_string());
        assert!(ascii.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        assert_eq!(serde_json::from_str::<Value>(&ascii).unwrap(), data);
    }
}
