//! The runtime of the program, and what its allocator keeps.
//!
//! Messages of many sizes come and go, and with glibc's settings a burst of them is given back to the system and asked
//! for again page by page: measured, with 64 messages of 10 KB on their way, that was a fifth of all time. So more is
//! kept while messages come, and given back when nothing has happened for a while. Other allocators are left to
//! themselves.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

/// The time in which [`FEW`] is counted.
const WHILE: Duration = Duration::from_secs(2);
/// Clocks alone do not make a thread go to sleep more often than this in that time.
const FEW: u32 = 16;

/// How often a thread has gone to sleep lately.
struct Sleeps {
    since: Instant,
    count: u32,
}

/// Threads of a gateway, at most.
const THREADS: usize = 4;

/// A runtime of one thread, for one client.
pub fn runtime() -> io::Result<Runtime> {
    build(Builder::new_current_thread())
}

/// A runtime for many clients. On two processors or fewer one thread does as much as several, for less: the other one
/// is busy with the server, and nobody has to be woken.
pub fn gateway_runtime() -> io::Result<Runtime> {
    // It may be long before the first client comes.
    forget_start();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    if processors <= 2 {
        return runtime();
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(processors.min(THREADS));
    build(builder)
}

fn build(mut builder: Builder) -> io::Result<Runtime> {
    keep();
    let sleeps = Mutex::new(Sleeps {
        since: Instant::now(),
        count: 0,
    });
    builder
        .enable_all()
        .on_thread_park(move || give_back(&sleeps))
        .build()
}

/// A thread is going to sleep. If it has been little more than asleep for a while, nobody needs what is kept.
fn give_back(sleeps: &Mutex<Sleeps>) {
    let mut sleeps = sleeps.lock().unwrap_or_else(PoisonError::into_inner);
    sleeps.count += 1;
    let now = Instant::now();
    if now - sleeps.since > WHILE {
        if sleeps.count <= FEW {
            trim();
        }
        *sleeps = Sleeps {
            since: now,
            count: 0,
        };
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep() {
    /// Larger pieces are asked for one by one.
    const SINGLE: libc::c_int = 4 << 20;
    /// So much is kept at most.
    const KEPT: libc::c_int = 8 << 20;
    // SAFETY: it sets two numbers of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, SINGLE);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
    }
}

/// What the start took has been given back.
static SETTLED: Once = Once::new();
/// It is to be given back at the next turn.
static DUE: AtomicBool = AtomicBool::new(false);

/// The first server is in service: all that was only needed to get there is given back.
pub fn settled() {
    SETTLED.call_once(forget_start);
}

/// The same, while a host still waits for its first answer: so that it does not wait for this, too, it is left to the
/// [next turn](turned).
pub fn settled_but_for_the_answer() {
    if !SETTLED.is_completed() {
        DUE.store(true, Ordering::Relaxed);
    }
}

/// The session has done all there was to do, and said it.
pub fn turned() {
    if DUE.load(Ordering::Relaxed) {
        DUE.store(false, Ordering::Relaxed);
        settled();
    }
}

/// Gives back what code takes so far, the program's own and that of its libraries, and the program's constants: to be
/// loaded and to read flags takes more of them than a session ever will. What is needed again comes back from the files.
#[cfg(target_os = "linux")]
fn forget_start() {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    // The first one is the program's own file.
    let own = maps
        .lines()
        .next()
        .and_then(|line| line.split_whitespace().nth(4));
    let mut range = None;
    for line in maps.lines() {
        // What is said of a range begins with a capital. It is nearly all there is to read, and one word of it counts:
        // whether somebody has put something else in its place.
        if line.starts_with(|first: char| first.is_ascii_uppercase()) {
            let anonymous = line.strip_prefix("Anonymous:").map(str::trim_start);
            if anonymous.is_some_and(|size| size.starts_with("0 ")) {
                forget(range.take());
            }
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [ends, rights, offset, _, inode, ..] = words[..] {
            // Its code, and the constants at its beginning. Other pages that cannot be written to now may have been
            // before.
            let is_constant =
                rights == "r--p" && offset.bytes().all(|digit| digit == b'0') && Some(inode) == own;
            range = (inode != "0" && (rights == "r-xp" || is_constant)).then_some(ends);
        }
    }
}

/// Gives back the pages between two addresses.
#[cfg(target_os = "linux")]
fn forget(range: Option<&str>) {
    let ends = range.and_then(|range| range.split_once('-'));
    let ends = ends.and_then(|(start, end)| {
        let start = usize::from_str_radix(start, 16).ok()?;
        Some((start, usize::from_str_radix(end, 16).ok()?))
    });
    if let Some((start, end)) = ends {
        // SAFETY: these pages are of a file, and nobody has written to them: what is read next is what was there.
        unsafe {
            libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED);
        }
    }
}

/// Other systems do not count what a program shares with its file as its own, or take it back by themselves.
#[cfg(not(target_os = "linux"))]
fn forget_start() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim() {
    // SAFETY: it gives back what nobody uses.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn keep() {}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
