//! `outlive logs`: what happened to a session lately, read from what is [kept](crate::kept_log).

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use crate::config::nearest;
use crate::kept_log::Found;
use crate::paint::{Paint, Tone};
use crate::places;
use crate::system;
use crate::terminal::{age, brief, plain, print};

/// How often `--follow` looks for more.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// Lines of a server's last words that are shown.
const LAST_WORDS: usize = 8;

/// What is shown of whose log.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Name of the session as `outlive status` shows it, or a part of it that no other has; without it, all names are
    /// listed.
    name: Option<String>,

    /// Show the last N events.
    #[arg(short = 'n', long = "lines", value_name = "N", default_value = "50")]
    lines: usize,

    /// Go on with what happens from now on, until Ctrl-C.
    #[arg(short, long)]
    follow: bool,

    /// One JSON object per line, with all that is known of each event.
    #[arg(long)]
    json: bool,
}

/// Shows the log; why it cannot be shown.
pub fn run(args: &Args) -> Result<ExitCode, String> {
    let (folders, refused) = places::readable(places::log_folders());
    refused.iter().for_each(|why| eprintln!("outlive: {why}"));
    let logs = Found::all(&folders);
    let Some(name) = &args.name else {
        return Ok(list(&logs));
    };
    let found = find(&logs, name)?;
    let (text, seen) = found
        .read()
        .map_err(|error| format!("{}: {error}", found.name))?;
    let lines: Vec<&str> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(args.lines)..];
    let paint = Paint::when(io::stdout().is_terminal());
    let out: String = shown.iter().map(|line| args.line(line, paint)).collect();
    if print(&out) && args.follow {
        args.follow(found, seen, paint);
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn line(&self, line: &str, paint: Paint) -> String {
        match self.json {
            true => format!("{line}\n"),
            false => sentence(line, paint),
        }
    }

    /// Shows what is added after so many bytes, until nobody reads it.
    fn follow(&self, found: &Found, mut from: u64, paint: Paint) {
        let path = found.current();
        let mut file = File::open(&path).ok();
        let length = file.as_ref().and_then(|file| file.metadata().ok());
        if length.is_some_and(|found| found.len() < from) {
            // It is a new one already.
            from = 0;
        }
        let mut rest = String::new();
        loop {
            std::thread::sleep(FOLLOW_INTERVAL);
            let mut text = Vec::new();
            if let Some(file) = &mut file
                && file.seek(SeekFrom::Start(from)).is_ok()
            {
                from += file.read_to_end(&mut text).unwrap_or(0) as u64;
            }
            rest.push_str(&String::from_utf8_lossy(&text));
            let whole = rest.rfind('\n').map_or(0, |end| end + 1);
            let out: String = rest[..whole]
                .lines()
                .map(|line| self.line(line, paint))
                .collect();
            rest.drain(..whole);
            if !out.is_empty() && !print(&out) {
                return;
            }
            // A full file was put aside: what was added to it has been read, the rest is in a new one.
            let number = |found: fs::Metadata| system::id(&found);
            let ours = file
                .as_ref()
                .and_then(|file| file.metadata().ok())
                .map(number);
            if text.is_empty() && ours != fs::metadata(&path).ok().map(number) {
                (file, from) = (File::open(&path).ok(), 0);
            }
        }
    }
}

/// The log of this name, or of the only one whose name has this part.
fn find<'a>(logs: &'a [Found], name: &str) -> Result<&'a Found, String> {
    if let Some(found) = logs.iter().find(|found| found.name == name) {
        return Ok(found);
    }
    let alike: Vec<&Found> = logs
        .iter()
        .filter(|found| found.name.contains(name))
        .collect();
    match alike[..] {
        [found] => Ok(found),
        [] => Err(
            match nearest(logs.iter().map(|found| found.name.as_str()), name) {
                Some(nearest) => format!("there is no log of {name}; did you mean {nearest}?"),
                None => format!("there is no log of {name}; `outlive logs` lists those there are"),
            },
        ),
        _ => {
            let names: Vec<&str> = alike.iter().map(|found| found.name.as_str()).collect();
            Err(format!("which one: {}?", names.join(", ")))
        }
    }
}

fn list(logs: &[Found]) -> ExitCode {
    if logs.is_empty() {
        print(
            "No logs are kept yet: each `outlive run` and `outlive serve` keeps one, under a name that\n\
               `outlive status` shows.\n",
        );
        return ExitCode::SUCCESS;
    }
    let width = logs.iter().map(|found| found.name.len()).max().unwrap_or(0);
    let lines = logs.iter().map(|found| {
        let ago = found.written.elapsed().unwrap_or_default();
        format!("{:width$}  last event {} ago\n", found.name, brief(ago))
    });
    print(&lines.collect::<String>());
    ExitCode::SUCCESS
}

/// An event for a person: when, which process, what; and what the server last wrote if it was lost.
fn sentence(line: &str, paint: Paint) -> String {
    let Ok(event) = serde_json::from_str::<Value>(line) else {
        return format!("{}\n", plain(line));
    };
    let word = |key: &str| event[key].as_str().unwrap_or_default();
    let colour = match (word("event"), word("state")) {
        ("lost", _) | ("state", "failed") => Tone::Bad,
        ("connected", _) | ("state", "ready") => Tone::Good,
        _ => Tone::Plain,
    };
    let text = paint.tone(colour, &plain(word("text")));
    let when = paint.tone(Tone::Quiet, &format!("{} [{}]", word("time"), event["pid"]));
    let mut out = format!("{when} {text}\n");
    let words = event["cause"]["stderr_tail"].as_array();
    let words: Vec<&str> = words
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    // The last of them is in the sentence.
    if word("event") == "lost" && words.len() > 1 {
        for words in &words[words.len().saturating_sub(LAST_WORDS)..] {
            out += &paint.tone(Tone::Quiet, &format!("    | {}", plain(words)));
            out.push('\n');
        }
    }
    out
}

/// How an instance ended, from the end of its log.
pub fn ending(found: &Found) -> Option<(Duration, String)> {
    let (text, _) = found.read().ok()?;
    let last: Value = serde_json::from_str(text.lines().last()?).ok()?;
    let ago = age(last["time"].as_str()?)?;
    match last["event"] == crate::instance::ENDED {
        true => Some((ago, plain(last["how"].as_str()?))),
        false => {
            let text = plain(last["text"].as_str().unwrap_or_default());
            Some((
                ago,
                format!("outlive itself was killed; before that: {text}"),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        sentence(line, Paint::when(false))
    }

    #[test]
    fn an_event_is_a_line_and_a_loss_has_its_last_words() {
        let line = r#"{"time":"T","event":"lost","pid":7,"text":"lost it","cause":{"stderr_tail":["a","b\u001b"]}}"#;
        assert_eq!(shown(line), "T [7] lost it\n    | a\n    | b\\u{1b}\n");
        assert_eq!(
            shown(r#"{"time":"T","event":"x","pid":7,"text":"a\nb"}"#),
            "T [7] a\\nb\n"
        );
        assert_eq!(shown("2 lines lost"), "2 lines lost\n");
    }
}
