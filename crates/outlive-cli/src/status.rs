//! `outlive status`: every outlive that this user has running.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::instance::claim;
use crate::kept_log::Found;
use crate::logs;
use crate::paint::{Paint, Tone};
use crate::places;
use crate::system;
use crate::terminal::{WIDTH, age, brief, clear, cut, plain, print, well};

/// An instance that has not answered for so long is shown as one that does not.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// No answer is longer.
const LONGEST: u64 = 4 << 20;

/// An instance that is just beginning has no socket yet.
const BEGINNING: Duration = Duration::from_secs(2);

/// Instances that ended no longer ago than this are shown …
const RECENT: Duration = Duration::from_secs(3600);
/// … but no more than these.
const MOST_ENDED: usize = 5;

/// Servers of one gateway that are listed.
const MOST_SERVERS: usize = 20;

/// How often `--watch` looks.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The state of an instance that lives and does not answer.
const NO_ANSWER: &str = "no answer";

/// What follows the help.
pub const EXIT_CODES: &str = "\
Exit codes:
  0   all are in service, or none is running
  1   one is down, failed or does not answer
  2   the usage was wrong";

/// How it is shown.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// As JSON: `running`, with all that is known of each, and `ended`.
    #[arg(long)]
    json: bool,

    /// Show it again every second, until Ctrl-C.
    #[arg(long)]
    watch: bool,
}

/// Shows what is running.
pub fn run(args: &Args) -> Result<ExitCode, String> {
    let paint = Paint::when(io::stdout().is_terminal());
    loop {
        let found = Overview::find();
        let well_all = found.running.iter().all(|instance| !in_trouble(instance));
        let text = match args.json {
            true => format!("{}\n", found.to_json()),
            false => found.table(paint),
        };
        let screen = match args.watch && !args.json {
            true => clear(),
            false => "",
        };
        if !print(&format!("{screen}{text}")) || !args.watch {
            return Ok(well(well_all));
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// What is running, and what has ended lately.
struct Overview {
    running: Vec<Value>,
    ended: Vec<(String, Duration, String)>,
    /// Folders that were not looked at, and why.
    refused: Vec<String>,
}

impl Overview {
    fn find() -> Overview {
        let (folders, mut refused) = places::readable(places::runtime_folders());
        let running = running(&folders);
        let (folders, more) = places::readable(places::log_folders());
        refused.extend(more);
        let is_running = |name: &str| running.iter().any(|instance| instance["name"] == name);
        let recent = |found: &Found| found.written.elapsed().unwrap_or_default() < RECENT;
        let ended = Found::all(&folders).into_iter();
        let ended = ended
            .filter(|found| recent(found) && !is_running(&found.name))
            .filter_map(|found| {
                let (ago, how) = logs::ending(&found)?;
                Some((found.name, ago, how))
            });
        Overview {
            ended: ended.take(MOST_ENDED).collect(),
            running,
            refused,
        }
    }

    fn to_json(&self) -> Value {
        let ended = self.ended.iter().map(
            |(name, ago, how)| json!({ "name": name, "seconds_ago": ago.as_secs(), "how": how }),
        );
        json!({
            "running": self.running,
            "ended": ended.collect::<Vec<_>>(),
            "refused": self.refused,
        })
    }

    fn table(&self, paint: Paint) -> String {
        let mut out = String::new();
        for why in &self.refused {
            out += &format!(
                "{}\n",
                paint.tone(Tone::Doubtful, &format!("Not looked at: {why}."))
            );
        }
        if self.running.is_empty() {
            out += "No outlive is running. A host starts one when its configuration says `outlive run -- COMMAND`;\n\
                    `outlive serve -- COMMAND` starts one for many clients.\n";
        } else {
            let names = self
                .running
                .iter()
                .map(|it| it["name"].as_str().map_or(0, str::len));
            let width = names.max().unwrap_or(0).clamp(4, 30);
            let head = row(
                width,
                ["NAME", "STATE", "UP", "RESTARTS", "IN FLIGHT", "FOR"].map(str::to_owned),
            );
            out += &format!("{}\n", paint.tone(Tone::Quiet, &head));
            for instance in &self.running {
                out += &described(instance, width, paint);
            }
        }
        if !self.ended.is_empty() {
            out += "\nEnded in the last hour:\n";
            for (name, ago, how) in &self.ended {
                let line = format!("  {name}, {} ago: {how}", brief(*ago));
                out += &format!("{}\n", cut(&line, WIDTH));
            }
        }
        if !self.running.is_empty() || !self.ended.is_empty() {
            out += &paint.tone(Tone::Quiet, "`outlive logs NAME` shows what happened.");
            out.push('\n');
        }
        out
    }
}

/// The instances in these folders, by name. What dead ones left there is put away.
fn running(folders: &[PathBuf]) -> Vec<Value> {
    let mut names: Vec<(&Path, String)> = Vec::new();
    for folder in folders {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries {
            let file = entry.file_name();
            let name = file.to_str().and_then(|it| it.strip_suffix(".lock"));
            names.extend(name.map(|name| (folder.as_path(), name.to_owned())));
        }
    }
    // All are asked at once: one that does not answer holds up none of the others.
    let mut running: Vec<Value> = std::thread::scope(|scope| {
        let asked = names
            .iter()
            .map(|(folder, name)| scope.spawn(|| ask(folder, name)));
        let asked: Vec<_> = asked.collect();
        let answers = asked.into_iter().filter_map(|answer| answer.join().ok()?);
        answers.collect()
    });
    running.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    running
}

/// What an instance says of itself; nothing if it is dead.
fn ask(folder: &Path, name: &str) -> Option<Value> {
    if let Ok(report) = answer(&claim::socket(folder, name)) {
        return Some(report);
    }
    let lock = folder.join(format!("{name}.{}", claim::LOCK));
    let text = fs::read_to_string(&lock).ok()?;
    let made = fs::metadata(&lock)
        .and_then(|found| found.modified())
        .ok()?;
    if text.is_empty() && made.elapsed().unwrap_or_default() < BEGINNING {
        return None;
    }
    if claim::clear(folder, name) {
        return None;
    }
    let mut known: Value = serde_json::from_str(&text).ok()?;
    known["state"] = json!(NO_ANSWER);
    Some(known)
}

/// The report that the socket gives to whoever connects.
fn answer(socket: &Path) -> io::Result<Value> {
    let (sender, receiver) = mpsc::channel();
    let path = socket.to_owned();
    // To connect may take for ever as well, where the other side does not accept.
    std::thread::spawn(move || {
        let read = || -> io::Result<String> {
            let stream = system::ask(&path, ANSWER_TIMEOUT)?;
            let mut text = String::new();
            stream.take(LONGEST).read_to_string(&mut text)?;
            Ok(text)
        };
        let _ = sender.send(read());
    });
    let text = receiver
        .recv_timeout(ANSWER_TIMEOUT)
        .map_err(io::Error::other)??;
    serde_json::from_str(&text).map_err(io::Error::other)
}

/// Whether somebody should look at it.
fn in_trouble(instance: &Value) -> bool {
    let bad = |state: &Value| {
        ["down", "failed", NO_ANSWER]
            .map(Value::from)
            .contains(state)
    };
    let servers = instance["servers"].as_array().into_iter().flatten();
    bad(&instance["state"]) || servers.into_iter().any(|server| bad(&server["state"]))
}

/// The columns of an instance, one below the other.
fn row(width: usize, [name, state, up, restarts, in_flight, host]: [String; 6]) -> String {
    let name = cut(&name, width);
    let line = format!("{name:width$}  {state:14}  {up:>8}  {restarts:>8}  {in_flight:>9}  {host}");
    cut(line.trim_end(), WIDTH)
}

/// An instance in a few lines: how it stands, what it serves, its last loss.
fn described(instance: &Value, width: usize, paint: Paint) -> String {
    let word = |key: &str| plain(instance[key].as_str().unwrap_or_default());
    let number = |key: &str| {
        instance[key]
            .as_u64()
            .map_or("-".into(), |it| it.to_string())
    };
    let (state, colour) = standing(instance);
    let up = age(instance["started"].as_str().unwrap_or_default()).map(brief);
    let columns = [
        word("name"),
        state.clone(),
        up.unwrap_or_default(),
        number("restarts"),
        number("in_flight"),
        for_whom(instance),
    ];
    let row = row(width, columns);
    // The name may have the same word in it.
    let end = row
        .char_indices()
        .nth(width)
        .map_or(row.len(), |(at, _)| at);
    let (name, rest) = row.split_at(end);
    let rest = rest.replacen(&state, &paint.tone(colour, &state), 1);
    let mut out = format!("{name}{rest}\n");
    let mut add = |text: String, colour: Tone| {
        let line = cut(&format!("  {text}"), WIDTH);
        out += &format!("{}\n", paint.tone(colour, &line));
    };
    match word("address").as_str() {
        "" => add(word("serves"), Tone::Quiet),
        address => add(format!("{} at {address}", word("serves")), Tone::Quiet),
    }
    if let Some(loss) = instance.get("last_loss").filter(|loss| loss.is_object()) {
        let ago = age(loss["time"].as_str().unwrap_or_default()).unwrap_or_default();
        let text = plain(loss["text"].as_str().unwrap_or_default());
        let colour = if in_trouble(instance) {
            Tone::Bad
        } else {
            Tone::Doubtful
        };
        add(format!("{} ago: {text}", brief(ago)), colour);
    }
    for withheld in instance["withheld"].as_array().into_iter().flatten() {
        let name = plain(withheld["server"].as_str().unwrap_or_default());
        let line =
            format!("{name}: definitions are withheld; see and accept them: outlive accept {name}");
        add(line, Tone::Doubtful);
    }
    let problem = instance["problem"].as_str().map(plain);
    let servers: Vec<&Value> = instance["servers"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    for server in servers.iter().take(MOST_SERVERS) {
        let whose = server["client"].as_str().or(server["for"].as_str());
        let state = server["state"].as_str().unwrap_or_default();
        let restarts = server["restarts"].as_u64().unwrap_or(0);
        let name = server["name"].as_str();
        let name = name.map_or(String::new(), |name| format!(" {}", plain(name)));
        let line = format!(
            "[{}{name}] {state}, for {}, {restarts} restarts, {} in flight",
            server["upstream"],
            plain(whose.unwrap_or("nobody")),
            server["in_flight"],
        );
        add(line, colour_of(state));
    }
    if servers.len() > MOST_SERVERS {
        add(
            format!("and {} more", servers.len() - MOST_SERVERS),
            Tone::Quiet,
        );
    }
    if let Some(problem) = problem {
        // Whoever has to mend it needs all of it.
        let line = format!("  {problem}");
        out += &format!("{}\n", paint.tone(Tone::Bad, &line));
    }
    out
}

/// The state of an instance in a word or two; of a gateway, that of its servers.
fn standing(instance: &Value) -> (String, Tone) {
    if let Some(servers) = instance["servers"].as_array() {
        let is = |state: &str| servers.iter().filter(|it| it["state"] == state).count();
        let ready = is("ready");
        return match servers.len() {
            0 => ("idle".into(), Tone::Quiet),
            all if all == ready => (format!("{all} ready"), Tone::Good),
            all => {
                let colour = if in_trouble(instance) {
                    Tone::Bad
                } else {
                    Tone::Doubtful
                };
                (format!("{ready} of {all} ready"), colour)
            }
        };
    }
    let state = instance["state"].as_str().unwrap_or("beginning");
    (plain(state), colour_of(state))
}

fn colour_of(state: &str) -> Tone {
    match state {
        "ready" => Tone::Good,
        "down" | "failed" | NO_ANSWER => Tone::Bad,
        _ => Tone::Doubtful,
    }
}

/// The process that started it, and where.
fn for_whom(instance: &Value) -> String {
    let host = &instance["for"];
    let process = host["process"].as_str().map(plain);
    let process = process.or_else(|| host["pid"].as_u64().map(|pid| format!("pid {pid}")));
    let folder = instance["directory"]
        .as_str()
        .map(|folder| plain(&shortened(folder)));
    match (process, folder) {
        (Some(process), Some(folder)) => format!("{process} in {folder}"),
        (one, other) => one.or(other).unwrap_or_default(),
    }
}

/// The folder as people write it.
fn shortened(folder: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    match folder.strip_prefix(&home) {
        Some("") if !home.is_empty() => "~".into(),
        Some(rest) if rest.starts_with('/') && !home.is_empty() => format!("~{rest}"),
        _ => folder.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overview(running: Vec<Value>) -> Overview {
        Overview {
            running,
            ended: vec![("git".into(), Duration::from_secs(65), "x".repeat(200))],
            refused: Vec::new(),
        }
    }

    #[test]
    fn no_line_is_longer_than_a_terminal() {
        let long = "ö\u{1b}[2J".repeat(50);
        let loss = json!({ "time": "2026-01-01T00:00:00Z", "text": long });
        let server = json!({ "upstream": 1, "state": "down", "client": long, "in_flight": 3 });
        let table = overview(vec![json!({
            "name": long, "state": long, "serves": long, "for": { "process": long }, "directory": long,
            "last_loss": loss, "withheld": [{ "server": long }], "servers": vec![server; 30], "restarts": 3, "in_flight": 1, "address": long,
        })])
        .table(Paint::when(false));
        assert!(
            table.lines().all(|line| line.chars().count() <= WIDTH),
            "{table}"
        );
        assert!(!table.contains('\u{1b}'));
        assert!(table.contains("and 10 more"));
    }

    #[test]
    fn who_should_be_looked_at_is_known() {
        for (state, trouble) in [
            ("ready", false),
            ("connecting", false),
            ("down", true),
            (NO_ANSWER, true),
        ] {
            assert_eq!(in_trouble(&json!({ "state": state })), trouble, "{state}");
            assert_eq!(
                in_trouble(&json!({ "servers": [{ "state": state }] })),
                trouble,
                "{state}"
            );
        }
    }

    #[test]
    fn when_nothing_runs_it_says_what_would() {
        let table = overview(Vec::new()).table(Paint::when(false));
        assert!(table.starts_with("No outlive is running."));
        assert!(table.contains("Ended in the last hour:\n  git, 65 s ago: x"));
    }
}
