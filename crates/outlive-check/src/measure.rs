//! What a process and its descendants take, as the system tells it.
//!
//! Everything here reads `/proc`; where there is none the answers are empty, and scenarios that need
//! them say that they do not apply.

use std::fs;
use std::time::Duration;

use crate::system;

/// The variable by which processes that were started by a start of the program are known.
pub const MARK: &str = "OUTLIVE_CHECK_MARK";

/// Whether this system tells what processes take.
pub fn is_possible() -> bool {
    fs::read_to_string("/proc/self/stat").is_ok()
}

/// All live processes that have the mark in their environment or belong to the group.
pub fn family(mark: &str, group: u32) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}").into_bytes();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            stat(*pid).is_some_and(|stat| {
                stat.state != 'Z'
                    && (stat.group == group
                        || fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
                            environ.split(|byte| *byte == 0).any(|var| var == wanted)
                        }))
            })
        })
        .collect()
}

/// What a process is called.
pub fn name(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).chars().take(60).collect())
        .collect();
    match words.is_empty() {
        true => format!("process {pid}"),
        false => format!("{} (process {pid})", words.join(" ")),
    }
}

/// The time a process has computed.
pub fn computed(pid: u32) -> Option<Duration> {
    stat(pid).map(|stat| stat.computed)
}

/// How many descriptors a process has open.
pub fn descriptors(pid: u32) -> Option<usize> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// Resident memory in bytes.
pub fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

struct Stat {
    state: char,
    group: u32,
    computed: Duration,
}

/// `/proc/PID/stat`, after the command's name, which may contain anything.
fn stat(pid: u32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let per_second = system::ticks_per_second().max(1);
    Some(Stat {
        state: fields.first()?.chars().next()?,
        group: fields.get(2)?.parse().ok()?,
        computed: Duration::from_secs_f64((ticks(11)? + ticks(12)?) as f64 / per_second as f64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_measured() {
        if !is_possible() {
            return;
        }
        let pid = std::process::id();
        assert!(descriptors(pid).is_some_and(|n| n >= 3));
        assert!(resident(pid).is_some_and(|bytes| bytes > 100_000));
        assert!(computed(pid).is_some());
        assert!(name(pid).contains(&pid.to_string()));
    }
}
