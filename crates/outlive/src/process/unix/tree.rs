//! The processes below a server, and how they are known.
//!
//! Each server is started with a variable in its environment that no other has, [`VARIABLE`]. Whatever it starts
//! inherits it, also what forks twice, calls `setsid` or is adopted by somebody else when its parent dies. On Linux
//! `/proc` shows it, so that everything a server has started can be found without being its parent: by the crate's
//! `Client`, which must not adopt what else there is in its program, and by the orphan reaper, when we are gone.
//!
//! A variable can be cleared. So each server also has a [mark] that cannot; the children of children are found, too, as
//! long as the parents live; and a process of our own (`outlive run`, `outlive serve`) adopts the orphans: see
//! [`cleanup`](super::cleanup).
//!
//! The value is a list: a server that starts servers with outlive itself adds one entry to what it was given, so that
//! those above it still know what is theirs. An entry names this process and the server: the orphan reaper looks for
//! the former, which never changes.
//!
//! No stranger is hit: a process is held on to by a descriptor (`pidfd`), looked at again, and only then killed.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Read;
use std::sync::{Arc, OnceLock};

use rustix::process::{Pid, Signal};

use super::mark::{self, Mark};
use super::native;

/// The variable that names the trees a process belongs to, the outermost first.
pub(crate) const VARIABLE: &str = "OUTLIVE_TREE";

/// How many outlives may run in each other before the outermost loses sight of the innermost.
const LEVELS: usize = 32;

/// How long the name of a process, or of a server within it, is: 128 bits in hexadecimal.
pub(crate) const NAME: usize = 32;

/// Between the entries of the list.
const COMMA: char = ':';

/// The name of this process among those that run servers.
pub(crate) fn instance() -> &'static [u8; NAME] {
    static INSTANCE: OnceLock<[u8; NAME]> = OnceLock::new();
    INSTANCE.get_or_init(name)
}

/// A name that nobody else has.
fn name() -> [u8; NAME] {
    let mut random = [0; NAME / 2];
    if getrandom::fill(&mut random).is_err() {
        // It need not be hard to guess: whoever wants to be killed with a server can be.
        for half in random.chunks_mut(size_of::<u64>()) {
            half.copy_from_slice(&RandomState::new().build_hasher().finish().to_ne_bytes());
        }
    }
    let digit =
        |nth: usize| b"0123456789abcdef"[usize::from(random[nth / 2] >> (4 * (nth % 2)) & 15)];
    std::array::from_fn(digit)
}

/// The tree of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    name: Arc<str>,
    /// None where none can be had.
    mark: Option<Mark>,
}

impl Tree {
    /// The tree of a server that is about to be started.
    pub(crate) fn new() -> Tree {
        let words = [&instance()[..], b"-", &name()].concat();
        Tree {
            name: String::from_utf8_lossy(&words).into(),
            mark: Mark::next(),
        }
    }

    /// What [`VARIABLE`] is in it.
    pub(crate) fn value(&self) -> OsString {
        nested(env::var_os(VARIABLE).as_ref(), &self.name)
    }

    /// Marks this process, which is about to become its server. Only system calls are made; where that fails, the
    /// variable is left.
    pub(crate) fn mark(&self) {
        if let Some(mark) = self.mark {
            let _ = mark.put();
        }
    }
}

/// What [`VARIABLE`] is in a process that belongs to this one and to no server of it.
pub(crate) fn own_value() -> OsString {
    nested(
        env::var_os(VARIABLE).as_ref(),
        &String::from_utf8_lossy(instance()),
    )
}

/// One more entry in the list of those above.
fn nested(above: Option<&OsString>, entry: &str) -> OsString {
    let above = above.map(|value| value.to_string_lossy());
    let mut entries: Vec<&str> = above.iter().flat_map(|list| list.split(COMMA)).collect();
    entries.retain(|entry| entry.len() >= NAME && entry.len() <= 2 * NAME + 1);
    let most = entries.len().saturating_sub(LEVELS - 1);
    entries.drain(..most);
    entries.push(entry);
    entries.join(":").into()
}

/// A process that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: Pid,
    parent: i32,
    /// When it began, in the kernel's ticks. A number that is given again goes with another time.
    pub(crate) born: u64,
    /// It has ended and is not collected.
    pub(crate) ended: bool,
}

impl Seen {
    /// Looks at a process.
    pub(crate) fn look(pid: Pid) -> Option<Seen> {
        if !native::is_linux() {
            return None;
        }
        let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name before it is in parentheses and may contain anything, also `)`.
        let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = String::from_utf8_lossy(&stat[name_ends + 1..]);
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        // The state is the third field of the file, this the twenty-second.
        let born = fields.nth(22 - 5)?.parse().ok()?;
        let ended = matches!(state, "Z" | "X");
        Some(Seen {
            pid,
            parent,
            born,
            ended,
        })
    }

    /// Kills it, if it is still there. Whether it was.
    pub(crate) fn kill(&self) -> bool {
        let same = || Seen::look(self.pid).is_some_and(|now| now.born == self.born && !now.ended);
        #[cfg(target_os = "linux")]
        match rustix::process::pidfd_open(self.pid, rustix::process::PidfdFlags::empty()) {
            Ok(process) => {
                return same() && rustix::process::pidfd_send_signal(process, Signal::KILL).is_ok();
            }
            Err(rustix::io::Errno::SRCH) => return false,
            // The kernel is old, or a filter keeps it from us.
            Err(_) => {}
        }
        same() && rustix::process::kill_process(self.pid, Signal::KILL).is_ok()
    }
}

/// The children of a process, also those that have ended; none where the system does not tell.
pub(crate) fn children(parent: Pid) -> Vec<Seen> {
    if !native::is_linux() {
        return Vec::new();
    }
    let raw = parent.as_raw_nonzero().get();
    let tasks = fs::read_dir(format!("/proc/{raw}/task"));
    let lists = tasks.into_iter().flatten().flatten().filter_map(|task| {
        // A list for each thread: children belong to the thread that made them.
        fs::read_to_string(task.path().join("children")).ok()
    });
    let parse = |list: String| -> Vec<Seen> {
        list.split_ascii_whitespace()
            .filter_map(|pid| Seen::look(Pid::from_raw(pid.parse().ok()?)?))
            // The list may be older than what the number stands for.
            .filter(|seen| seen.parent == raw)
            .collect()
    };
    lists.flat_map(parse).collect()
}

/// Adds what descends from `root` and lives to what is `found`, parents first.
pub(crate) fn add_descendants(root: Pid, found: &mut Vec<Seen>) {
    let mut next = found.len();
    add_new(children(root), found);
    while next < found.len() {
        add_new(children(found[next].pid), found);
        next += 1;
    }
}

fn add_new(more: Vec<Seen>, found: &mut Vec<Seen>) {
    for seen in more {
        if !seen.ended && !found.iter().any(|known| known.pid == seen.pid) {
            found.push(seen);
        }
    }
}

/// The living processes that belong to one of these trees, each with the number of its tree.
pub(crate) fn members(trees: &[Tree]) -> Vec<(usize, Seen)> {
    if !native::is_linux() {
        return Vec::new();
    }
    let mut environ = Vec::new();
    let mut found = Vec::new();
    for pid in processes() {
        if belongs(pid, trees, &mut environ).is_none() {
            continue;
        }
        // Between two looks at its environment: so it is of the same process.
        if let Some(seen) = Seen::look(pid)
            && let Some(nth) = belongs(pid, trees, &mut environ)
        {
            found.push((nth, seen));
        }
    }
    found
}

/// All processes there are, but for this one.
fn processes() -> impl Iterator<Item = Pid> {
    let this = rustix::process::getpid();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .filter(move |pid| *pid != this)
}

/// Which of these trees a process belongs to.
fn belongs(pid: Pid, trees: &[Tree], environ: &mut Vec<u8>) -> Option<usize> {
    let limits = mark::of(pid.as_raw_nonzero().get()).unwrap_or_default();
    let marked = |tree: &Tree| tree.mark.is_some_and(|mark| mark.is_on(limits));
    if let Some(nth) = trees.iter().position(marked) {
        return Some(nth);
    }
    let list = list_of(pid, environ)?;
    entries(list).find_map(|entry| trees.iter().position(|tree| tree.name.as_bytes() == entry))
}

/// Whether a process belongs to one of these trees.
pub(crate) fn is_of(pid: Pid, trees: &[Tree]) -> bool {
    belongs(pid, trees, &mut Vec::new()).is_some()
}

/// Whether a process belongs to a server of this process, as far as it shows that.
pub(crate) fn is_of_ours(pid: Pid) -> bool {
    if mark::is_one_of(pid.as_raw_nonzero().get(), &mark::ours()) {
        return true;
    }
    let mut environ = Vec::new();
    list_of(pid, &mut environ).is_some_and(|list| {
        entries(list).any(|entry| entry.starts_with(instance()) && entry.len() > NAME)
    })
}

fn entries(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == COMMA as u8)
}

/// The list in the environment of a process. One that has ended has none, nor has another user's.
fn list_of(pid: Pid, environ: &mut Vec<u8>) -> Option<&[u8]> {
    environ.clear();
    let mut file = File::open(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
    file.read_to_end(environ).ok()?;
    let variables = environ.split(|byte| *byte == 0);
    let named = |variable: &'_ [u8]| variable.strip_prefix(VARIABLE.as_bytes()).is_some();
    let list = variables.into_iter().find(|variable| named(variable))?;
    list[VARIABLE.len()..].strip_prefix(b"=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_grows_by_one_entry_and_is_bounded() {
        let tree = Tree::new();
        assert_ne!(tree, Tree::new());
        assert_eq!(nested(None, &tree.name), OsString::from(&*tree.name));
        let mut list = OsString::from("junk::");
        for _ in 0..100 {
            list = nested(Some(&list), &Tree::new().name);
        }
        list = nested(Some(&list), &tree.name);
        let list = list.into_string().unwrap();
        assert_eq!(list.split(COMMA).count(), LEVELS);
        assert!(list.ends_with(&*tree.name), "{list}");
        assert!(!list.contains("junk"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn members_are_found_by_their_environment_and_nobody_else_is() {
        let trees = [Tree::new(), Tree::new()];
        let mut sleepers: Vec<_> = [Some(&trees[0]), Some(&trees[1]), None]
            .into_iter()
            .map(|tree| {
                let mut sleeper = std::process::Command::new("sleep");
                let value = tree.map(Tree::value);
                sleeper
                    .arg("1000")
                    .envs(value.map(|value| (VARIABLE, value)));
                sleeper.spawn().unwrap()
            })
            .collect();
        let pids: Vec<Pid> = sleepers.iter().map(Pid::from_child).collect();
        // It is spawned when it has become another program.
        let found = members(&trees);
        let found: Vec<(usize, Pid)> = found.iter().map(|(nth, seen)| (*nth, seen.pid)).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.contains(&(0, pids[0])) && found.contains(&(1, pids[1])));
        assert!(is_of_ours(pids[1]) && is_of(pids[1], &trees[1..]));
        assert!(!is_of(pids[1], &trees[..1]));
        assert!(!is_of_ours(pids[2]));
        for (sleeper, pid) in sleepers.iter_mut().zip(pids) {
            let seen = Seen::look(pid).unwrap();
            let other = Seen {
                born: seen.born + 1,
                ..seen
            };
            assert!(!other.kill(), "the number is somebody else's now");
            assert!(sleeper.try_wait().unwrap().is_none());
            assert!(seen.kill());
            sleeper.wait().unwrap();
            assert!(!seen.kill());
        }
    }
}
