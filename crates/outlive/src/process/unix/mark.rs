//! A number that a server hands down to whatever it starts: the limit on file locks.
//!
//! A process can clear its environment, leave its group and lose its parents; then nothing of that tells where it
//! comes from. Its resource limits it keeps, and the kernel shows them. One of them has no effect: `RLIMIT_LOCKS` has
//! not been enforced since Linux 2.4, and nobody sets it. So each server is started with a number of its own there, too
//! large to be anybody's limit.
//!
//! The hard limit can only be lowered. An outlive within an outlive finds it taken and sets the soft limit alone: so
//! the soft limit names the innermost server and the hard one the outermost.

use std::io;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::native;

/// The marks of one process are this many in a row.
const MARKS: u64 = 1 << 20;

/// From here on, and as many: the marks of a process whose own hard limit is infinite.
const OUTER: u64 = 1 << 62;

/// From here on, and as many: those of a process that has a mark itself.
const INNER: u64 = 1 << 61;

/// The mark of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    /// The next one of this process; none where the limit is in use.
    pub(crate) fn next() -> Option<Mark> {
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        let nth = TAKEN.fetch_add(1, Ordering::Relaxed) % MARKS;
        let ours = ours();
        (!ours.is_empty()).then_some(Mark(ours.start + nth))
    }

    /// Marks this process and what it will start. Only system calls are made.
    pub(crate) fn put(self) -> io::Result<()> {
        let now = getrlimit(Resource::Locks);
        let marked = Rlimit {
            current: Some(self.0),
            maximum: now.maximum.or(Some(self.0)),
        };
        Ok(setrlimit(Resource::Locks, marked)?)
    }

    /// Whether it is on a process.
    pub(crate) fn is_on(self, limits: Rlimits) -> bool {
        limits.contains(&self.0)
    }
}

/// The soft and the hard limit of a process.
pub(crate) type Rlimits = [u64; 2];

/// The marks that servers of this process have; none where the limit is in use.
pub(crate) fn ours() -> Range<u64> {
    static OURS: OnceLock<Option<Range<u64>>> = OnceLock::new();
    let choose = || {
        if !native::is_linux() {
            return None;
        }
        let first = match getrlimit(Resource::Locks).maximum {
            None => OUTER,
            Some(OUTER..) => INNER,
            Some(_) => return None,
        };
        let mut random = [0; size_of::<u64>()];
        getrandom::fill(&mut random).ok()?;
        // Both ranges are powers of two: what is left of the number is a multiple of a row and in the range.
        let start = first + (u64::from_ne_bytes(random) & (first - MARKS));
        Some(start..start + MARKS)
    };
    OURS.get_or_init(choose).clone().unwrap_or_default()
}

/// The limits of a process, if we may see them. Only a system call is made.
pub(crate) fn of(pid: i32) -> Option<Rlimits> {
    let mut limits: Rlimits = [0; 2];
    // SAFETY: the kernel writes two numbers of 64 bits to where it is told, and reads nothing.
    #[expect(unsafe_code)]
    let failed = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            pid,
            libc::RLIMIT_LOCKS,
            std::ptr::null::<Rlimits>(),
            &raw mut limits,
        )
    };
    (failed == 0).then_some(limits)
}

/// Whether a process has one of these marks. Only a system call is made.
pub(crate) fn is_one_of(pid: i32, marks: &Range<u64>) -> bool {
    of(pid).is_some_and(|limits| limits.iter().any(|limit| marks.contains(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_own() {
        let (one, other) = (Mark::next().unwrap(), Mark::next().unwrap());
        assert_ne!(one, other);
        let ours = ours();
        assert!(ours.contains(&one.0) && ours.contains(&other.0));
        assert!(one.is_on([one.0, u64::MAX]) && one.is_on([other.0, one.0]));
        assert!(!one.is_on([other.0; 2]));
    }

    #[test]
    fn what_is_started_inherits_it() {
        use std::os::unix::process::CommandExt;

        let (outer, inner) = (Mark(OUTER + 7), Mark(INNER + 7));
        let mut sleeper = std::process::Command::new("env");
        sleeper.args(["-i", "setsid", "sleep", "1000"]);
        // SAFETY: only system calls are made between fork and exec.
        #[expect(unsafe_code)]
        unsafe {
            sleeper.pre_exec(move || outer.put().and_then(|()| inner.put()))
        };
        let mut sleeper = sleeper.spawn().unwrap();
        let limits = of(sleeper.id().cast_signed()).unwrap();
        assert_eq!(limits, [inner.0, outer.0]);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
