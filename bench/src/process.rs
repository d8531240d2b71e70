//! What the kernel knows about a process: its relatives, its processor time, its memory, its open files.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::time::Duration;

/// A clock tick in `/proc/PID/stat`. Linux has shown 100 of them per second to user space on every platform for ever.
const TICK: Duration = Duration::from_millis(10);

/// A process by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(pub u32);

/// The fields of `/proc/PID/stat` that we read.
struct Stat {
    name: String,
    parent: u32,
    ticks: u64,
}

impl Process {
    fn path(self, of: &str) -> String {
        format!("/proc/{}/{of}", self.0)
    }

    fn stat(self) -> io::Result<Stat> {
        let text = fs::read_to_string(self.path("stat"))?;
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "a broken /proc/PID/stat");
        // The name stands in brackets and may itself hold brackets and blanks.
        let (before, after) = text.rsplit_once(')').ok_or_else(broken)?;
        let (_, name) = before.split_once('(').ok_or_else(broken)?;
        let fields: Vec<u64> = after
            .split_ascii_whitespace()
            .map(|field| field.parse().unwrap_or(0))
            .collect();
        // After the name come the state, the parent and, as 14th and 15th field of the line, the two times.
        match fields[..] {
            [_, parent, _, _, _, _, _, _, _, _, _, user, system, ..] => Ok(Stat {
                name: name.to_owned(),
                parent: parent as u32,
                ticks: user + system,
            }),
            _ => Err(broken()),
        }
    }

    /// What the kernel calls it: the file it runs, up to 15 letters.
    pub fn name(self) -> io::Result<String> {
        Ok(self.stat()?.name)
    }

    /// All processes there are. One that leaves in the meantime is left out.
    fn all() -> io::Result<Vec<(Process, Stat)>> {
        let mut all = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(process) = name
                .to_str()
                .and_then(|name| name.parse().ok().map(Process))
            else {
                continue;
            };
            if let Ok(stat) = process.stat() {
                all.push((process, stat));
            }
        }
        Ok(all)
    }

    /// The processes that this one started and has not buried yet.
    pub fn children(self) -> io::Result<Vec<Process>> {
        let all = Process::all()?.into_iter();
        let children = all.filter(|(_, stat)| stat.parent == self.0);
        Ok(children.map(|(process, _)| process).collect())
    }

    /// This process and all below it, but for those named `except`.
    pub fn tree(self, except: &str) -> io::Result<Vec<Process>> {
        let mut by_parent: HashMap<u32, Vec<Process>> = HashMap::new();
        let mut excepted = HashSet::new();
        for (process, stat) in Process::all()? {
            by_parent.entry(stat.parent).or_default().push(process);
            if stat.name == except {
                excepted.insert(process.0);
            }
        }
        let mut found = Vec::new();
        let mut open = vec![self];
        while let Some(process) = open.pop() {
            open.extend(by_parent.remove(&process.0).unwrap_or_default());
            if !excepted.contains(&process.0) {
                found.push(process);
            }
        }
        Ok(found)
    }

    /// The processor time used so far, its own and the kernel's on its behalf.
    pub fn time(self) -> io::Result<Duration> {
        Ok(TICK * u32::try_from(self.stat()?.ticks).unwrap_or(u32::MAX))
    }

    /// Resident memory in bytes.
    pub fn resident(self) -> io::Result<u64> {
        let status = fs::read_to_string(self.path("status"))?;
        let kilobytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB"))
            .and_then(|number| number.parse::<u64>().ok());
        kilobytes
            .map(|kilobytes| kilobytes * 1024)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no VmRSS"))
    }

    /// How many files it holds open.
    pub fn open_files(self) -> io::Result<usize> {
        Ok(fs::read_dir(self.path("fd"))?.count())
    }

    /// How many threads it has, without those that start servers: they are a pool, bounded and kept for good, because a
    /// server dies with the thread that started it.
    pub fn threads(self) -> io::Result<usize> {
        let starts = |task: &fs::DirEntry| {
            let name = fs::read_to_string(task.path().join("comm"));
            name.is_ok_and(|name| name.trim_end() == "outlive-starter")
        };
        let tasks = fs::read_dir(self.path("task"))?.flatten();
        Ok(tasks.filter(|task| !starts(task)).count())
    }

    /// Kills it as a crash would: without a word.
    pub fn kill(self) -> io::Result<()> {
        let pid = rustix::process::Pid::from_raw(self.0 as i32)
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(rustix::process::kill_process(
            pid,
            rustix::process::Signal::KILL,
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_child_is_found_measured_and_killed() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let this = Process(std::process::id());
        let that = Process(child.id());
        assert!(this.children().unwrap().contains(&that));
        assert!(that.resident().unwrap() > 0);
        assert!(that.open_files().unwrap() >= 3);
        assert_eq!(that.threads().unwrap(), 1);
        that.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(!this.children().unwrap().contains(&that));
    }
}
