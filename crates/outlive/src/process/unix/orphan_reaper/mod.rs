//! A small process that outlives us by a moment.
//!
//! When this process is ended with `SIGKILL`, nobody is left to end what a server started: the kernel ends the server
//! itself (`PR_SET_PDEATHSIG`, Linux only), but not the program behind an `sh -c` or `npx`. The orphan reaper is told
//! which groups there are. It learns of our end by the end of its [`line`] to us (macOS also tells it directly), ends
//! the groups and whatever else shows that it is of a server of ours (see [`tree`]), and leaves.
//!
//! It is a fork that never becomes another program: it has nothing to load, so that it takes a
//! tenth of the memory, and nothing to find, so that it works where the program's own file is gone.
//! What it costs is care: other threads may hold any lock at the moment of the fork, so that the
//! child makes system calls and touches memory it has been given, and does nothing else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use super::cleanup;
use super::mark;
#[cfg(target_os = "linux")]
use super::native;
use super::tree;

mod line;
#[cfg(target_os = "linux")]
mod remains;
#[cfg(not(target_os = "linux"))]
#[path = "no_remains.rs"]
mod remains;

use line::Line;
use remains::Remains;

/// Groups that can be guarded at once. One that finds no room is not guarded.
const ROOM: usize = 1 << 16;

/// What it says when it is ready.
const READY: [u8; 1] = *b"!";

/// What `ps` shows.
#[cfg(target_os = "linux")]
const TITLE: &std::ffi::CStr = c"outlive-reaper";

/// Ends what servers have started if this process is killed. Clones stand for the same one; it ends with
/// the last of them.
#[derive(Clone, Debug)]
pub struct OrphanReaper {
    hold: Arc<Hold>,
}

#[derive(Debug)]
struct Hold {
    process: Pid,
    line: UnixStream,
}

impl OrphanReaper {
    /// Starts one. The earlier, the smaller: it is a copy of this process as it is now.
    pub fn start() -> io::Result<OrphanReaper> {
        let (line, theirs) = UnixStream::pair()?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let groups = Vec::with_capacity(ROOM);
        let remains = Remains::of(tree::instance(), mark::ours());
        let label = Label::find();
        let parent = rustix::process::getpid();
        // SAFETY: the child makes system calls and writes to memory that was allocated before, and does
        // nothing else: see `watch`, which does not return.
        #[expect(unsafe_code)]
        let process = match unsafe { libc::fork() } {
            0 => watch(parent, &theirs, &null, groups, remains, label),
            pid @ 1.. => Pid::from_raw(pid),
            _ => None,
        };
        let process = process.ok_or_else(io::Error::last_os_error)?;
        cleanup::spare(process, true);
        drop(theirs);
        let hold = Hold { process, line };
        (&hold.line).read_exact(&mut { READY })?;
        // It is told a few bytes per server; should it not read them, we do not wait for it.
        hold.line.set_nonblocking(true)?;
        Ok(OrphanReaper {
            hold: Arc::new(hold),
        })
    }

    /// The variable that makes a process end with this one if it is found in its environment, and its value. Servers
    /// have it from the start; it is for other processes that must not stay behind.
    pub fn variable(&self) -> (&'static str, std::ffi::OsString) {
        (tree::VARIABLE, tree::own_value())
    }

    #[cfg(test)]
    fn pid(&self) -> Pid {
        self.hold.process
    }

    /// From now on the group of `leader` ends with us.
    pub(crate) fn guard(&self, leader: Pid) {
        self.tell(leader.as_raw_nonzero().get());
    }

    /// The group of `leader` is gone; its number may become somebody else's.
    pub(crate) fn release(&self, leader: Pid) {
        self.tell(-leader.as_raw_nonzero().get());
    }

    fn tell(&self, order: i32) {
        let _ = (&self.hold.line).write_all(&order.to_ne_bytes());
    }
}

/// We end in good order: there is nothing left to guard.
impl Drop for Hold {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.process, Signal::KILL);
        let wait = || rustix::process::waitpid(Some(self.process), WaitOptions::empty());
        while let Err(Errno::INTR) = wait() {}
        cleanup::spare(self.process, false);
    }
}

/// What the orphan reaper does, from the fork to its end. Nothing here may allocate, lock or panic.
fn watch(
    parent: Pid,
    line: &UnixStream,
    null: &File,
    mut groups: Vec<i32>,
    mut remains: Remains,
    label: Option<Label>,
) -> ! {
    // A host that ends our whole group must not end the orphan reaper with it.
    let _ = rustix::process::setpgid(None, None);
    let _ = rustix::process::chdir(c"/");
    let _ = rustix::stdio::dup2_stdin(line);
    let _ = rustix::stdio::dup2_stdout(null);
    let _ = rustix::stdio::dup2_stderr(null);
    // Among them our end of the line, whose end is what we wait for, and the host's streams.
    close_from(3);
    if let Some(label) = label {
        label.replace();
    }
    let line = rustix::stdio::stdin();
    let _ = rustix::io::write(line, &READY);
    let line = Line::to(parent, line);
    // A whole number of orders: none is ever split.
    let mut orders = [0; 1024];
    while let Some(read) = line.read(&mut orders) {
        let (orders, _) = orders.as_chunks();
        for order in orders.iter().take(read / size_of::<i32>()) {
            obey(i32::from_ne_bytes(*order), &mut groups);
        }
    }
    for group in groups.iter().copied().filter_map(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    remains.end();
    // SAFETY: it ends the process, without running what the program has registered for its end.
    #[expect(unsafe_code)]
    unsafe {
        libc::_exit(0)
    }
}

/// A group is guarded (`order` is its number), or no longer (it is negative).
fn obey(order: i32, groups: &mut Vec<i32>) {
    let group = order.saturating_abs();
    if let Some(known) = groups.iter().position(|known| *known == group) {
        groups.swap_remove(known);
    }
    // Room that was not there at the fork must not be asked for.
    if order > 0 && groups.len() < groups.capacity() {
        groups.push(group);
    }
}

/// Closes every descriptor from `first` on.
fn close_from(first: libc::c_uint) {
    // SAFETY: the child uses no descriptor from `first` on, and drops nothing that would.
    #[expect(unsafe_code)]
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0 {
            return;
        }
        for fd in first.cast_signed()..ROOM as i32 {
            libc::close(fd);
        }
    }
}

/// Where the kernel finds the arguments and the environment of a process, for `ps` and others.
///
/// A copy of us that is called like us would be taken for us (`pkill -f`), and our environment may
/// hold secrets that nobody needs twice.
struct Label {
    #[cfg(target_os = "linux")]
    args: std::ops::Range<usize>,
    #[cfg(target_os = "linux")]
    env: std::ops::Range<usize>,
}

#[cfg(target_os = "linux")]
impl Label {
    fn find() -> Option<Label> {
        if !native::is_linux() {
            return None;
        }
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name before it is in parentheses and may contain anything; the state is the third field.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut edges = fields.split_whitespace().skip(48 - 3);
        let mut edge = || edges.next()?.parse::<usize>().ok().filter(|edge| *edge > 0);
        let (args, env) = (edge()?..edge()?, edge()?..edge()?);
        Some(Label { args, env })
    }

    fn replace(&self) {
        let title = TITLE.to_bytes();
        let shown = title.len().min(self.args.len().saturating_sub(1));
        let (args, env) = (
            std::ptr::with_exposed_provenance_mut::<u8>(self.args.start),
            std::ptr::with_exposed_provenance_mut::<u8>(self.env.start),
        );
        // SAFETY: the kernel has put both on the first stack, where no object of Rust's is; they are
        // written to by the only thread of a process that never reads them.
        #[expect(unsafe_code)]
        unsafe {
            libc::prctl(libc::PR_SET_NAME, TITLE.as_ptr());
            args.write_bytes(0, self.args.len());
            args.copy_from_nonoverlapping(title.as_ptr(), shown);
            env.write_bytes(0, self.env.len());
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Label {
    fn find() -> Option<Label> {
        None
    }

    fn replace(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    /// Long enough that only a hang exceeds it.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn sleeper() -> Child {
        let mut sleeper = Command::new("sleep");
        sleeper.arg("1000").process_group(0).spawn().unwrap()
    }

    #[test]
    fn what_is_not_released_ends_with_us() {
        let orphan_reaper = OrphanReaper::start().unwrap();
        let (mut guarded, mut released) = (sleeper(), sleeper());
        orphan_reaper.guard(Pid::from_child(&guarded));
        orphan_reaper.guard(Pid::from_child(&released));
        orphan_reaper.release(Pid::from_child(&released));
        // As if we were gone.
        orphan_reaper
            .hold
            .line
            .shutdown(std::net::Shutdown::Both)
            .unwrap();
        let begun = Instant::now();
        while guarded.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "it is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
        // The orphan reaper has seen to the one; it has nothing more to do with the other.
        while !super::super::os::has_ended(orphan_reaper.pid()) {
            assert!(
                begun.elapsed() < PATIENCE,
                "the orphan_reaper is still there"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(released.try_wait().unwrap().is_none());
        released.kill().unwrap();
        released.wait().unwrap();
    }

    #[test]
    fn what_ends_in_good_order_is_left_alone() {
        let orphan_reaper = OrphanReaper::start().unwrap();
        let mut sleeper = sleeper();
        orphan_reaper.guard(Pid::from_child(&sleeper));
        let process = orphan_reaper.pid();
        drop(orphan_reaper.clone());
        assert!(!super::super::os::has_ended(process), "a clone is left");
        drop(orphan_reaper);
        assert!(sleeper.try_wait().unwrap().is_none());
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }

    #[test]
    fn a_number_is_kept_once_and_only_where_there_is_room() {
        let mut groups = Vec::with_capacity(2);
        let room = groups.capacity() as i32;
        for order in (1..=room + 1).chain([1, -2, i32::MIN, 0]) {
            obey(order, &mut groups);
        }
        groups.sort_unstable();
        let mut expected: Vec<i32> = (1..=room).collect();
        expected.retain(|group| *group != 2);
        assert_eq!(groups, expected);
        assert_eq!(groups.capacity() as i32, room);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn it_has_another_name_no_environment_and_no_descriptor_of_ours() {
        let orphan_reaper = OrphanReaper::start().unwrap();
        let file = |name: &str| {
            let path = format!("/proc/{}/{name}", orphan_reaper.pid().as_raw_nonzero());
            std::fs::read_to_string(path).unwrap()
        };
        let shown = file("cmdline");
        assert_eq!(shown.trim_end_matches('\0'), TITLE.to_str().unwrap());
        assert_eq!(file("comm").trim(), TITLE.to_str().unwrap());
        assert_eq!(file("environ").trim_end_matches('\0'), "");
        let open = format!("/proc/{}/fd", orphan_reaper.pid().as_raw_nonzero());
        assert_eq!(std::fs::read_dir(open).unwrap().count(), 3);
    }
}
