//! Whether a process takes processor time.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// A process at rest is not run for this long, not even once.
const REST: Duration = Duration::from_millis(500);

/// So often it is looked at; whoever has something to do first has time for it.
const LOOKS: usize = 60;

/// How often the threads of a process have been run and how long, but for the thread that asks: a thread that waits again
/// adds a switch, one that does not adds hundredths of a second.
fn ran(process: u32) -> (u64, u64) {
    // `PROCESS/task/THREAD`.
    let own = fs::read_link("/proc/thread-self").expect("a thread");
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("a process");
    let others = threads
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| !path.ends_with(&own));
    // A thread that has ended meanwhile takes nothing.
    let read = |path: &Path, file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
    others.fold((0, 0), |(switches, ticks), path| {
        let (status, stat) = (read(&path, "status"), read(&path, "stat"));
        let counts = status
            .lines()
            .filter(|line| line.contains("ctxt_switches:"));
        // After the name, which may contain anything: the times as user and as system.
        let times = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(11)
            .take(2);
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let counted: u64 = counts
            .filter_map(|line| line.split_whitespace().nth(1))
            .map(number)
            .sum();
        (switches + counted, ticks + times.map(number).sum::<u64>())
    })
}

/// Waits until a process comes to rest: until none of its threads is run at all for a while. Whoever looks whether
/// there is something to do, however seldom and however briefly, never comes to rest.
#[track_caller]
pub fn assert_comes_to_rest(process: u32) {
    let mut before = ran(process);
    let mut taken = Vec::new();
    for _ in 0..LOOKS {
        std::thread::sleep(REST);
        let now = ran(process);
        if now == before {
            return;
        }
        taken.push((
            now.0.saturating_sub(before.0),
            now.1.saturating_sub(before.1),
        ));
        before = now;
    }
    panic!("it never comes to rest; switches and ticks in each {REST:?}: {taken:?}");
}
