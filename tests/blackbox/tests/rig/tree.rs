//! Processes, found by a variable in their environment that only one test has.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The name of the variable.
pub const MARK: &str = "TEST_OF_OUTLIVE";

/// All live processes whose environment has the mark. A zombie has no environment left.
pub fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}").into_bytes();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|var| var == wanted))
        })
        .collect()
}

/// Sends a signal; a process that is gone is fine.
pub fn kill(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// What `/proc/PID/stat` says after the command's name: state, parent, group, session, …
pub fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Resident memory in bytes, if the process lives.
pub fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}
