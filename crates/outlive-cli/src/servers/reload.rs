//! The file of servers is read again when it has changed.
//!
//! # Theory
//!
//! A thread looks at the files now and then: the file of servers, and the settings file if one is given. Editors
//! replace a file, write it in pieces, or take it away for a moment. So a file is read when it has been the same for
//! two looks, and one that cannot be used is given some time before anybody is told; then it is told once, and the
//! servers go on as they were. Whatever else the settings file says needs a new start.
//!
//! The command line is read as it was at the start, with the settings file as it is now, so there is one way from files
//! to servers. What has changed about them is found out by the [gateway](Gateway::update).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use outlive::Gateway;
use outlive::gateway::Changes;
use serde_json::json;

use super::{Note, Servers};
use crate::instance::Instance;
use crate::settings::Settings;
use crate::system;
use crate::watch::Watch;

/// How often it is looked whether a file has changed.
const LOOK: Duration = Duration::from_millis(500);

/// A file that changes all the time is read nevertheless after this time.
const LONGEST_CHANGE: Duration = Duration::from_secs(5);

/// A file that cannot be used may be whole again within this time, and then nobody needs to know.
const PATIENCE: Duration = Duration::from_secs(2);

/// What can be told of a file without reading it, if it is there: which it is, when it was written, its size, and when
/// its permissions or anything else of it last changed.
type Stamp = Option<((u64, u64), Option<SystemTime>, u64, (i64, i64))>;

/// Files, and how they were when they were last looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    files: Vec<(PathBuf, Stamp)>,
}

impl Look {
    /// Looks at the files that the servers come from.
    pub fn at(settings: &Settings) -> Look {
        let files = settings.several.servers.iter().chain(&settings.config);
        Look::of(files.cloned())
    }

    /// Where they are.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// What keeps them from being read without waiting for somebody, if something does: a pipe that nobody writes to
    /// would be waited for as long as we run, whatever is at its place later.
    fn check(&self) -> Result<(), String> {
        let is_other = |path: &&Path| fs::metadata(path).is_ok_and(|it| !it.is_file());
        match self.paths().find(is_other) {
            Some(path) => Err(format!("{} is not a file any more", path.display())),
            None => Ok(()),
        }
    }

    fn of(files: impl Iterator<Item = PathBuf>) -> Look {
        let stamp = |path: &PathBuf| {
            let data = fs::metadata(path).ok()?;
            let changed = system::changed(&data);
            Some((system::id(&data), data.modified().ok(), data.len(), changed))
        };
        let stamped = files.map(|path| {
            let stamp = stamp(&path);
            (path, stamp)
        });
        Look {
            files: stamped.collect(),
        }
    }

    /// Looks at them again.
    fn again(&self) -> Look {
        Look::of(self.files.iter().map(|(path, _)| path.clone()))
    }
}

/// What is to be done after a look at the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    /// They have changed, and have been the same for a while.
    Read,
}

/// When files are read, and when it is told that they cannot be used.
#[derive(Debug)]
struct Pace {
    /// The files as they were when it was last decided about them.
    decided: Look,
    /// The last look.
    last: Look,
    /// Since when they have not been as they were then.
    changed: Option<Instant>,
    /// Since when they cannot be used.
    broken: Option<Instant>,
}

impl Pace {
    fn new(decided: Look) -> Pace {
        Pace {
            last: decided.clone(),
            decided,
            changed: None,
            broken: None,
        }
    }

    fn look(&mut self, look: Look, now: Instant) -> Next {
        let is_same = look == self.last;
        self.last = look;
        if self.last == self.decided {
            (self.changed, self.broken) = (None, None);
            return Next::Nothing;
        }
        let since = *self.changed.get_or_insert(now);
        match is_same || now - since >= LONGEST_CHANGE {
            true => Next::Read,
            false => Next::Nothing,
        }
    }

    /// They could be used.
    fn used(&mut self) {
        self.decided = self.last.clone();
        (self.changed, self.broken) = (None, None);
    }

    /// They could not be used. Tells whether that has been so for long enough for somebody to be told.
    fn unusable(&mut self, now: Instant) -> bool {
        let since = *self.broken.get_or_insert(now);
        if now - since < PATIENCE {
            return false;
        }
        self.used();
        true
    }
}

/// The servers of files that may change.
pub struct Reload {
    pub gateway: Gateway,
    pub watch: Arc<Watch>,
    pub instance: Arc<Instance>,
    /// What people were told about the files.
    pub notes: Vec<Note>,
}

impl Reload {
    /// Watches files from now on that were last read when they were looked at like this.
    pub fn start(self, look: Look) {
        let thread = thread::Builder::new().name("reload".into());
        let tell = self.watch.clone();
        if let Err(error) = thread.spawn(move || self.run(look)) {
            let sentence = format!("changes of the file of servers are not noticed: {error}");
            let data = json!({ "error": error.to_string() });
            tell.log.note(&sentence, "servers_unwatched", data);
        }
    }

    fn run(mut self, look: Look) {
        let mut pace = Pace::new(look);
        let mut told = None;
        while !self.gateway.is_shutting_down() {
            thread::sleep(LOOK);
            let look = pace.last.again();
            if pace.look(look, Instant::now()) == Next::Nothing {
                continue;
            }
            match pace.last.check().and_then(|()| self.read()) {
                Ok((changes, files)) => {
                    pace.used();
                    // Another file may be named from now on; it has been read just now.
                    if !same_files(&pace.decided, &files) {
                        pace = Pace::new(files);
                    }
                    self.tell(&changes, told.take().is_some());
                }
                Err(why) if pace.unusable(Instant::now()) => {
                    let why = self.instance.masks.mask(&one_line(&why));
                    if told.as_ref() != Some(&why) {
                        self.tell_unusable(&why);
                        told = Some(why);
                    }
                }
                Err(_) => {}
            }
        }
    }

    /// Reads the files and has the gateway serve what they say; the files that were read. Nothing has changed if that
    /// cannot be done.
    fn read(&mut self) -> Result<(Changes, Look), String> {
        let (cli, matches) = crate::parse().map_err(|error| error.to_string())?;
        let given = matches.subcommand().map_or(&matches, |(_, given)| given);
        let (settings, listen) = match &cli.command {
            crate::Command::Run(settings) => (&**settings, None),
            crate::Command::Serve(settings) => (&settings.run, Some(settings.address()?)),
            _ => return Err("this is no command that serves servers".into()),
        };
        // Before anything can be said about them.
        self.instance.masks.learn(super::secrets_in(settings));
        let servers = Servers::given(settings, given, listen.as_deref())?;
        let servers = servers.ok_or("no servers are named any more")?;
        self.instance.masks.learn(servers.secrets());
        let updated = self.gateway.update(servers.several(None)?);
        let changes = updated.map_err(|error| error.to_string())?;
        let label = servers.label();
        self.instance.set_serves(self.instance.masks.mask(&label));
        for note in &servers.notes {
            if !self.notes.contains(note) {
                let log = &self.watch.log;
                log.note(&note.sentence, note.name, note.data.clone());
            }
        }
        self.notes = servers.notes;
        Ok((changes, servers.look))
    }

    fn tell(&self, changes: &Changes, was_broken: bool) {
        self.gateway.set_problem(None);
        self.instance.set_problem(None);
        let log = &self.watch.log;
        let parts = [
            ("added", &changes.added),
            ("changed", &changes.changed),
            ("removed", &changes.removed),
        ];
        let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<String> = parts
            .map(|(what, names)| format!("{what} {}", names.join(", ")))
            .collect();
        let again = if was_broken {
            "can be used again and "
        } else {
            ""
        };
        let sentence = match parts.is_empty() {
            true => format!("the file of servers {again}was read: it has the same servers"),
            false => format!("the file of servers {again}was read: {}", parts.join("; ")),
        };
        let data = json!({
            "added": changes.added,
            "changed": changes.changed,
            "removed": changes.removed,
            "was_unusable": was_broken,
        });
        log.note(&sentence, "servers_read", data);
        for (name, why) in self.gateway.obstacles() {
            if changes.added.contains(&name) || changes.changed.contains(&name) {
                crate::serve::doubt(log, &name, &why);
            }
        }
    }

    fn tell_unusable(&self, why: &str) {
        let sentence = format!(
            "The file of servers has changed and cannot be used: {why}. The servers go on as they were."
        );
        self.gateway.set_problem(Some(sentence.clone()));
        self.instance.set_problem(Some(sentence.clone()));
        let data = json!({ "error": why });
        self.watch.log.note(&sentence, "servers_unusable", data);
    }
}

fn same_files(one: &Look, other: &Look) -> bool {
    let paths = |look: &Look| -> Vec<PathBuf> {
        let files = look.files.iter();
        files.map(|(path, _)| path.clone()).collect()
    };
    paths(one) == paths(other)
}

/// What clap says, without what it says to somebody at a terminal.
fn one_line(why: &str) -> String {
    let why = why.strip_prefix("error: ").unwrap_or(why);
    let lines: Vec<&str> = why.lines().map(str::trim).collect();
    let text = lines.join(" ");
    text.trim().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(size: u64) -> Look {
        Look {
            files: vec![("f".into(), Some(((0, 0), None, size, (0, 0))))],
        }
    }

    fn at(begin: Instant, ms: u64) -> Instant {
        begin + Duration::from_millis(ms)
    }

    #[test]
    fn a_file_is_read_when_it_has_been_the_same_for_two_looks() {
        let begin = Instant::now();
        let mut pace = Pace::new(look(1));
        assert_eq!(pace.look(look(1), at(begin, 0)), Next::Nothing);
        assert_eq!(pace.look(look(2), at(begin, 500)), Next::Nothing);
        assert_eq!(pace.look(look(3), at(begin, 1000)), Next::Nothing);
        assert_eq!(pace.look(look(3), at(begin, 1500)), Next::Read);
        pace.used();
        assert_eq!(pace.look(look(3), at(begin, 2000)), Next::Nothing);
        // One that never rests is read at last.
        for n in 0..10 {
            assert_eq!(
                pace.look(look(4 + n), at(begin, 2500 + 500 * n)),
                Next::Nothing
            );
        }
        assert_eq!(pace.look(look(99), at(begin, 7500)), Next::Read);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_told_once_and_not_if_it_is_whole_soon() {
        let begin = Instant::now();
        let mut pace = Pace::new(look(1));
        pace.look(look(2), at(begin, 0));
        assert_eq!(pace.look(look(2), at(begin, 500)), Next::Read);
        assert!(!pace.unusable(at(begin, 500)));
        assert_eq!(
            pace.look(look(2), at(begin, 2000)),
            Next::Read,
            "it is tried again"
        );
        assert!(!pace.unusable(at(begin, 2000)));
        assert_eq!(pace.look(look(2), at(begin, 2500)), Next::Read);
        assert!(pace.unusable(at(begin, 2500)));
        assert_eq!(pace.look(look(2), at(begin, 3000)), Next::Nothing, "once");
        // It is taken away for a moment, and is what it was.
        let gone = Look {
            files: vec![("f".into(), None)],
        };
        pace.look(gone.clone(), at(begin, 3500));
        assert_eq!(pace.look(gone, at(begin, 4000)), Next::Read);
        assert!(!pace.unusable(at(begin, 4000)));
        assert_eq!(pace.look(look(2), at(begin, 4500)), Next::Nothing);
        pace.look(look(3), at(begin, 5000));
        assert_eq!(pace.look(look(3), at(begin, 5500)), Next::Read);
        assert!(!pace.unusable(at(begin, 6500)), "the time begins anew");
    }

    /// One that may not be read is told and let be; it has to be read when it may be.
    #[cfg(unix)]
    #[test]
    fn a_change_of_permissions_is_a_change() {
        use std::os::unix::fs::PermissionsExt as _;
        let file = tempfile::NamedTempFile::new().expect("a file");
        let before = Look::of(std::iter::once(file.path().to_owned()));
        assert_eq!(before.again(), before);
        // What the clock of a file system does not tell apart is no change.
        let until = Instant::now() + Duration::from_secs(10);
        for mode in [0o600, 0o644].into_iter().cycle() {
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(file.path(), permissions).expect("permissions");
            if before.again() != before || Instant::now() > until {
                break;
            }
        }
        assert_ne!(before.again(), before);
    }

    #[test]
    fn what_is_said_to_a_terminal_becomes_one_line() {
        assert_eq!(one_line("error: f.toml: no\n\n"), "f.toml: no");
        assert_eq!(one_line("a:\n  b.\n"), "a: b");
    }
}
