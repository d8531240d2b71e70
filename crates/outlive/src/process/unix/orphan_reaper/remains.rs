//! What is left of servers when we are gone, found by their environment or their mark, and ended.
//!
//! The same as [`tree`](super::super::tree) and [`cleanup`](super::super::cleanup) do, for a process that may make
//! system calls and touch memory it has been given, and do nothing else. Nothing here may allocate, lock or panic.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::super::mark;
use super::super::native;
use super::super::tree::NAME;

/// So many are ended in one pass.
const ROOM: usize = 1 << 14;

/// Passes over the process table. What does not end in this time cannot be ended.
const PASSES: usize = 400;

/// Between two passes: so long takes the end of what was killed.
const PAUSE: Duration = Duration::from_millis(5);

/// Read of an environment at a time.
const CHUNK: usize = 8 << 10;

/// Those who have our name in their environment or a mark of ours, and what descends from them.
pub(super) struct Remains {
    name: [u8; NAME],
    marks: Range<u64>,
    members: Vec<Member>,
    /// Without it nobody is found.
    is_linux: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Member {
    pid: i32,
    parent: i32,
    /// When it began: a number that is given again goes with another time.
    born: u64,
}

impl Remains {
    pub(super) fn of(name: &[u8; NAME], marks: Range<u64>) -> Remains {
        Remains {
            name: *name,
            marks,
            members: Vec::with_capacity(ROOM),
            is_linux: native::is_linux(),
        }
    }

    /// Ends all of them. Without `/proc` nobody is found.
    pub(super) fn end(&mut self) {
        if !self.is_linux {
            return;
        }
        for _ in 0..PASSES {
            self.find();
            if self.members.is_empty() {
                return;
            }
            for member in &self.members {
                member.kill();
            }
            pause();
        }
    }

    fn find(&mut self) {
        self.members.clear();
        let (name, marks, members) = (&self.name, &self.marks, &mut self.members);
        let is_ours = |pid| mark::is_one_of(pid, marks) || has_name(pid, name);
        each_process(|pid| {
            // Between two looks at it: so it is the same process.
            if is_ours(pid)
                && let Some(member) = Member::look(pid)
                && is_ours(pid)
            {
                add(members, member);
            }
        });
        // One that shows nothing is known by its parent, while that lives.
        loop {
            let known = members.len();
            if known == 0 {
                return;
            }
            each_process(|pid| {
                if let Some(child) = Member::look(pid)
                    && members.iter().any(|member| member.pid == child.parent)
                {
                    add(members, child);
                }
            });
            if members.len() == known {
                return;
            }
        }
    }
}

/// Room that was not there at the fork must not be asked for.
fn add(members: &mut Vec<Member>, member: Member) {
    if members.len() < members.capacity() && !members.iter().any(|known| known.pid == member.pid) {
        members.push(member);
    }
}

impl Member {
    /// Looks at a process; one that has ended does not count.
    fn look(pid: i32) -> Option<Member> {
        let file = open(pid, b"/stat")?;
        let mut stat = [0; 1024];
        let read = rustix::io::read(&file, &mut stat).ok()?;
        let stat = stat.get(..read)?;
        // The name before it is in parentheses and may contain anything, also `)`.
        let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
        let mut fields = stat
            .get(name_ends + 1..)?
            .split(|byte| *byte == b' ')
            .filter(|field| !field.is_empty());
        let state = fields.next()?;
        let parent = i32::try_from(number(fields.next()?)?).ok()?;
        // The state is the third field of the file, this the twenty-second.
        let born = number(fields.nth(22 - 5)?)?;
        (state != b"Z" && state != b"X").then_some(Member { pid, parent, born })
    }

    /// Kills it, if it is still there.
    fn kill(&self) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        let same = || Member::look(self.pid).is_some_and(|now| now.born == self.born);
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) if same() => {
                let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
            }
            Ok(_) | Err(Errno::SRCH) => {}
            // The kernel is old, or a filter keeps it from us.
            Err(_) if same() => {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            Err(_) => {}
        }
    }
}

fn pause() {
    let pause = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: PAUSE.subsec_nanos().into(),
    };
    let _ = rustix::thread::nanosleep(&pause);
}

/// Does it with the number of each process there is.
fn each_process(mut look: impl FnMut(i32)) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(all) = rustix::fs::open(c"/proc", flags, Mode::empty()) else {
        return;
    };
    let mut room = [MaybeUninit::uninit(); CHUNK];
    let mut entries = RawDir::new(all, &mut room);
    while let Some(Ok(entry)) = entries.next() {
        let pid = number(entry.file_name().to_bytes());
        if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()) {
            look(pid);
        }
    }
}

/// Whether the environment of a process has this in it.
fn has_name(pid: i32, name: &[u8; NAME]) -> bool {
    let Some(file) = open(pid, b"/environ") else {
        return false;
    };
    let mut bytes = [0; CHUNK];
    // What was read last may end with the beginning of it.
    let mut kept = 0;
    loop {
        let read = match rustix::io::read(&file, bytes.get_mut(kept..).unwrap_or_default()) {
            Ok(0) => return false,
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(_) => return false,
        };
        let filled = (kept + read).min(bytes.len());
        let seen = bytes.get(..filled).unwrap_or_default();
        if seen.windows(NAME).any(|part| part == name) {
            return true;
        }
        kept = filled.min(NAME - 1);
        bytes.copy_within(filled - kept..filled, 0);
    }
}

/// Opens `/proc/PID` with something behind it.
fn open(pid: i32, file: &[u8]) -> Option<OwnedFd> {
    let mut path = [0; 32];
    let mut digits = [0; 10];
    let mut left = u32::try_from(pid).ok()?;
    let mut first = digits.len();
    loop {
        first = first.checked_sub(1)?;
        *digits.get_mut(first)? = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    let parts = [b"/proc/", digits.get(first..)?, file];
    for (to, from) in path.iter_mut().zip(parts.into_iter().flatten()) {
        *to = *from;
    }
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn number(digits: &[u8]) -> Option<u64> {
    let more = |number: u64, digit: &u8| {
        let digit = u64::from(char::from(*digit).to_digit(10)?);
        number.checked_mul(10)?.checked_add(digit)
    };
    (!digits.is_empty()).then_some(0)?;
    digits.iter().try_fold(0, more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn sleeper(name: &str) -> Child {
        // A long environment before it: it is found across the edges of what is read at a time.
        let mut sleeper = Command::new("sleep");
        sleeper.arg("1000").env_clear().stdin(Stdio::null());
        for nth in 0..300 {
            sleeper.env(format!("A{nth}"), "x".repeat(nth));
        }
        sleeper.env("Z", name).spawn().unwrap()
    }

    #[test]
    fn those_with_our_name_are_ended_and_nobody_else() {
        let name: [u8; NAME] = std::array::from_fn(|nth| b'a' + (nth % 26) as u8);
        let text = std::str::from_utf8(&name).unwrap();
        let mut ours: Vec<Child> = (0..50)
            .map(|nth| sleeper(&(".".repeat(nth) + text)))
            .collect();
        let mut other = sleeper(&text.to_uppercase());
        let mut remains = Remains::of(&name, 0..0);
        remains.find();
        assert_eq!(remains.members.len(), ours.len());
        let mut stranger = *remains.members.first().unwrap();
        stranger.born += 1;
        stranger.kill();
        assert!(
            ours.iter_mut()
                .all(|child| child.try_wait().unwrap().is_none())
        );
        remains.end();
        for child in &mut ours {
            // It was killed; if not, this would wait for long.
            assert!(!child.wait().unwrap().success());
        }
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn numbers_are_digits_only() {
        assert_eq!(number(b"4194304"), Some(4_194_304));
        for odd in [&b""[..], b"self", b"1x", b"99999999999999999999"] {
            assert_eq!(number(odd), None);
        }
    }
}
