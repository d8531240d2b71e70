//! Takes `outlive run` away again.
//!
//! A backup says exactly what an entry was: if wrapping the backup's entry gives the entry that is there now, the
//! backup's own text takes its place, byte for byte. Where nothing matches, the words that `wrap` put in front are
//! taken out one by one.

use crate::edit::{Action, Edited, Editor};
use crate::entry::Form;
use crate::error::Error;
use crate::format::Format;
use crate::shape::{Entry, Shape};
use crate::tree::Node;
use crate::verify::{Draft, Part};
use crate::wrap::{Wrapping, is_ours, touched, wrap};

/// The file without outlive. `backups` are earlier texts of it, the latest first.
pub fn unwrap(
    text: &str,
    format: Format,
    shape: Shape,
    backups: &[String],
) -> Result<Edited, Error> {
    let root = format.parse(text)?;
    let entries = shape.entries(&root, text)?;
    let mut originals = Originals {
        shape,
        format,
        backups,
        known: Vec::new(),
    };
    let programs: Vec<Option<&str>> = entries.iter().map(|entry| program(entry, shape)).collect();
    let first = programs.iter().flatten().next();
    if let Some(whole) = first.and_then(|program| originals.whole(text, program)) {
        let action = |program: &Option<&str>| match program {
            Some(_) => Action::Unwrapped,
            None => Action::Unchanged,
        };
        let servers = entries.iter().zip(&programs);
        return Ok(Edited {
            servers: servers
                .map(|(entry, program)| touched(entry, action(program)))
                .collect(),
            text: whole,
        });
    }
    let mut parts = Vec::new();
    for (entry, program) in entries.into_iter().zip(programs) {
        let mut editor = Editor::new(text, format);
        let original = program.and_then(|program| originals.of(text, &entry, program));
        let action = match (program, original) {
            (None, _) => Action::Unchanged,
            (Some(_), Some(original)) => {
                editor.replace(entry.member.value.span.clone(), original);
                Action::Unwrapped
            }
            (Some(_), None) => unwrap_entry(&mut editor, shape, &entry)
                .map_or_else(Action::Left, |()| Action::Unwrapped),
        };
        parts.push(Part {
            entry,
            editor,
            action,
        });
    }
    let draft = Draft {
        text,
        format,
        shape,
        root: &root,
        parts,
    };
    draft.finish(|before, after| {
        let dashes = own_dashes(before.iter().skip(1).map(String::as_str)).map(|at| at + 1);
        let server = dashes.map(|dashes| &before[dashes + 1..]);
        server == Some(after)
            || (dashes != Some(2) && after.len() == 1 && before.last() == after.last())
    })
}

/// What starts outlive in front of this server, if it stands there.
fn program<'n>(entry: &Entry<'n>, shape: Shape) -> Option<&'n str> {
    let (program, first) = match Form::of(entry.member, shape) {
        Form::Split { command, args, .. } => {
            let args = args.and_then(|args| args.value.list()).unwrap_or_default();
            (command.value.text()?, args.first())
        }
        Form::Joined { words, .. } => (words[0].text()?, words.get(1)),
        _ => return None,
    };
    is_ours(program, first.and_then(Node::text)).then_some(program)
}

/// A backup that has been wrapped.
struct Known {
    backup: usize,
    program: String,
    addresses: bool,
    /// None if it cannot be.
    text: Option<String>,
}

/// What entries were, by the backups.
struct Originals<'a> {
    shape: Shape,
    format: Format,
    backups: &'a [String],
    known: Vec<Known>,
}

impl Originals<'_> {
    /// The backup that was wrapped into exactly this text.
    fn whole(&mut self, text: &str, program: &str) -> Option<String> {
        let backup = (0..self.backups.len()).find(|backup| {
            let mut is_this = |addresses| self.wrapped(*backup, program, addresses) == Some(text);
            is_this(false) || is_this(true)
        })?;
        let original = &self.backups[backup];
        let root = self.format.parse(original).ok()?;
        let entries = self.shape.entries(&root, original).ok()?;
        let is_bare = entries
            .iter()
            .all(|entry| self::program(entry, self.shape).is_none());
        is_bare.then(|| original.clone())
    }

    /// What this entry was before it was wrapped into what it is.
    fn of(&mut self, text: &str, entry: &Entry<'_>, program: &str) -> Option<String> {
        let now = &text[entry.member.value.span.clone()];
        // A table of TOML that has lines of its own does not stand in one place.
        if self.format == Format::Toml && !now.starts_with('{') {
            return None;
        }
        for backup in 0..self.backups.len() {
            let Some(wrapped) = self.wrapped(backup, program, true).map(str::to_owned) else {
                continue;
            };
            let original = self.entry_text(&self.backups[backup], entry);
            if self.entry_text(&wrapped, entry).as_deref() == Some(now)
                && original.as_deref() != Some(now)
            {
                return original;
            }
        }
        None
    }

    fn wrapped(&mut self, backup: usize, program: &str, addresses: bool) -> Option<&str> {
        let is_it = |known: &Known| {
            known.backup == backup && known.program == program && known.addresses == addresses
        };
        let place = self.known.iter().position(is_it);
        let place = place.unwrap_or_else(|| {
            let wrapping = Wrapping { program, addresses };
            let edited = wrap(&self.backups[backup], self.format, self.shape, wrapping);
            self.known.push(Known {
                backup,
                program: program.to_owned(),
                addresses,
                text: edited.ok().map(|edited| edited.text),
            });
            self.known.len() - 1
        });
        self.known[place].text.as_deref()
    }

    fn entry_text(&self, text: &str, wanted: &Entry<'_>) -> Option<String> {
        let root = self.format.parse(text).ok()?;
        let entries = self.shape.entries(&root, text).ok()?;
        let found = entries.iter().find(|entry| {
            entry.project == wanted.project && entry.member.key == wanted.member.key
        })?;
        Some(text[found.member.value.span.clone()].to_owned())
    }
}

fn unwrap_entry(editor: &mut Editor<'_>, shape: Shape, entry: &Entry<'_>) -> Result<(), String> {
    match Form::of(entry.member, shape) {
        Form::Split {
            command,
            args: Some(args),
            ..
        } => {
            let words = args.value.list().unwrap_or_default();
            let server = behind_dashes(words)?;
            let program = editor.moved(&words[server]);
            editor.take_from_front(&args.value, server + 1)?;
            editor.replace(command.value.span.clone(), program);
            Ok(())
        }
        Form::Joined { command, words } => {
            editor.take_from_front(&command.value, behind_dashes(&words[1..])? + 1)
        }
        _ => Err("it is no command".into()),
    }
}

/// Flags of `outlive run` that have no value.
pub const SWITCHES: [&str; 5] = [
    "--allow-private-login",
    "--exit-on-failed",
    "--no-catalogue",
    "--no-keep-logs",
    "--pin",
];

/// The place of the server's own program among the words behind `outlive`.
fn behind_dashes(words: &[Node]) -> Result<usize, String> {
    let dashes = own_dashes(words.iter().map(|word| word.text().unwrap_or_default()));
    match dashes.map(|dashes| dashes + 1) {
        Some(server) if server < words.len() => Ok(server),
        _ => Err("no backup shows what it was, and there is no -- behind outlive run: write the entry anew".into()),
    }
}

/// The place of the `--` that belongs to `outlive run`: only its flags and their values stand before it. A server may
/// be named without one, and have a `--` of its own.
fn own_dashes<'w>(words: impl Iterator<Item = &'w str>) -> Option<usize> {
    let mut wants_value = false;
    for (at, word) in words.enumerate() {
        match word {
            "run" if at == 0 => {}
            _ if at == 0 => return None,
            "--" => return Some(at),
            flag if flag.starts_with("--") => {
                wants_value = !flag.contains('=') && !SWITCHES.contains(&flag);
            }
            _ if wants_value => wants_value = false,
            _ => return None,
        }
    }
    None
}
