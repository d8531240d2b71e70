//! The log that is kept of each instance without being asked for, and bounded.
//!
//! A file `NAME.jsonl` in a folder that is the user's alone, one JSON object in a line. When it is full it becomes
//! `NAME.jsonl.old`, and the one before that is gone. All files together are bounded too: the oldest go first. A file
//! is opened for each batch of lines, so that one that was put away is simply begun again. Lines are written by the
//! thread of a [`LogWriter`](crate::log_writer::LogWriter): a slow disk holds nobody up.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::places;
use crate::system;

/// A file is full with so many bytes.
const FILE: u64 = 512 << 10;

/// All files have together at most so many bytes …
const TOTAL: u64 = 16 << 20;
/// … and there are at most so many.
const FILES: usize = 200;

/// After so many bytes it is looked again whether all are within their bounds.
const SWEEP_AFTER: u64 = 64 << 10;

/// The ending of a file that is written to.
const CURRENT: &str = ".jsonl";
/// The ending of a full one.
const OLD: &str = ".jsonl.old";

/// Where the lines of one instance go.
#[derive(Debug)]
pub struct KeptLog {
    /// Where it may be, the best first. With the first line all but the one that can be used are given up.
    folders: Vec<PathBuf>,
    name: String,
    /// Bytes since all files were last looked at; none before the first line.
    unswept: Option<u64>,
}

impl KeptLog {
    /// The log of this name in the first of these folders that can be used. Nothing is touched before the first line.
    pub fn new(folders: Vec<PathBuf>, name: &str) -> KeptLog {
        KeptLog {
            folders,
            name: name.into(),
            unswept: None,
        }
    }

    /// The folder, made if it has to be.
    fn folder(&mut self) -> io::Result<PathBuf> {
        if self.unswept.is_none() {
            let mut folders = self.folders.iter();
            let usable = folders.find(|folder| places::make_private(folder).is_ok());
            let none = || io::Error::other("there is no folder for logs");
            self.folders = vec![usable.cloned().ok_or_else(none)?];
        }
        Ok(self.folders[0].clone())
    }
}

/// Adds lines to a file, or to a new one if it is full.
fn append(folder: &Path, name: &str, lines: &[u8]) -> io::Result<()> {
    let (current, old) = (path(folder, name, CURRENT), path(folder, name, OLD));
    let mut file = open(&current)?;
    let length = file.metadata()?.len();
    if length > 0 && length + lines.len() as u64 > FILE {
        fs::rename(&current, old)?;
        file = open(&current)?;
    }
    file.write_all(lines)
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    system::private_file(options.create(true).append(true)).open(path)
}

impl Write for KeptLog {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let folder = self.folder()?;
        // What comes at once may be more than a file takes.
        let most = &text[..text.len().min(FILE as usize)];
        let whole = most.iter().rposition(|byte| *byte == b'\n');
        let lines = &most[..whole.map_or(most.len(), |end| end + 1)];
        append(&folder, &self.name, lines)?;
        let unswept = self.unswept.unwrap_or(SWEEP_AFTER) + lines.len() as u64;
        self.unswept = Some(unswept);
        if unswept > SWEEP_AFTER {
            self.unswept = Some(0);
            sweep(&folder, TOTAL, FILES);
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A log that can be read.
#[derive(Clone, Debug)]
pub struct Found {
    /// Whose it is.
    pub name: String,
    /// When something was last written to it.
    pub written: SystemTime,
    folder: PathBuf,
}

impl Found {
    /// The logs in these folders, the newest first; of two with one name, the newer.
    pub fn all(folders: &[PathBuf]) -> Vec<Found> {
        let mut all: Vec<Found> = Vec::new();
        for folder in folders {
            for (path, written, _) in files(folder) {
                let name = path.file_name().and_then(|name| name.to_str());
                let name = name.and_then(|name| name.strip_suffix(CURRENT));
                if let Some(name) = name {
                    all.push(Found {
                        name: name.into(),
                        written,
                        folder: folder.clone(),
                    });
                }
            }
        }
        all.sort_by_key(|found| std::cmp::Reverse(found.written));
        let mut seen = std::collections::HashSet::new();
        all.retain(|found| seen.insert(found.name.clone()));
        all
    }

    /// Everything that is kept, the oldest first, and how much of it is in the file that is written to.
    pub fn read(&self) -> io::Result<(String, u64)> {
        let old = fs::read(path(&self.folder, &self.name, OLD)).unwrap_or_default();
        let current = fs::read(self.current())?;
        let mut text = String::from_utf8_lossy(&old).into_owned();
        text.push_str(&String::from_utf8_lossy(&current));
        Ok((text, current.len() as u64))
    }

    /// The file that is written to.
    pub fn current(&self) -> PathBuf {
        path(&self.folder, &self.name, CURRENT)
    }
}

/// Removes the oldest files until there are few enough.
fn sweep(folder: &Path, total: u64, most: usize) {
    let mut files = files(folder);
    files.sort_by_key(|(_, written, _)| *written);
    let mut bytes: u64 = files.iter().map(|(.., bytes)| bytes).sum();
    let mut count = files.len();
    // The newest is what was written just now.
    files.pop();
    for (path, _, length) in files {
        if bytes <= total && count <= most {
            break;
        }
        if fs::remove_file(path).is_ok() {
            (bytes, count) = (bytes - length, count - 1);
        }
    }
}

/// The files of logs in a folder: when each was last written to, and how long it is.
fn files(folder: &Path) -> Vec<(PathBuf, SystemTime, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| {
        let name = entry.file_name();
        let is_log = name
            .to_str()
            .is_some_and(|it| it.ends_with(CURRENT) || it.ends_with(OLD));
        let found = entry.metadata().ok().filter(|it| it.is_file() && is_log)?;
        Some((entry.path(), found.modified().ok()?, found.len()))
    });
    files.collect()
}

fn path(folder: &Path, name: &str, ending: &str) -> PathBuf {
    folder.join(format!("{name}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    fn folder(name: &str) -> PathBuf {
        let name = format!("outlive-kept-{}-{name}", std::process::id());
        std::env::temp_dir().join(name)
    }

    fn bytes(folder: &Path) -> u64 {
        files(folder).iter().map(|(.., bytes)| bytes).sum()
    }

    #[test]
    fn a_log_has_two_files_at_most_and_keeps_what_is_newest() {
        let folder = folder("two");
        let mut log = KeptLog::new(vec![folder.clone()], "time");
        for n in 0..40_000 {
            writeln!(log, "{{\"n\":{n},\"text\":\"{}\"}}", "x".repeat(40)).unwrap();
        }
        // More at once than a file takes is cut between lines.
        log.write_all(&b"{\"text\":\"y\"}\n".repeat(100_000))
            .unwrap();
        assert_eq!(files(&folder).len(), 2);
        assert!(bytes(&folder) <= 2 * FILE);
        let found = Found::all(std::slice::from_ref(&folder));
        assert_eq!(found.len(), 1);
        let (text, _) = found[0].read().unwrap();
        assert!(
            text.lines()
                .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
        );
        assert!(text.lines().count() > 30_000);
        let mode = fs::metadata(found[0].current())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn all_logs_together_are_bounded_and_the_oldest_go_first() {
        let folder = folder("all");
        let begun = SystemTime::now() - Duration::from_secs(1000);
        for n in 0..20_u64 {
            let mut log = KeptLog::new(vec![folder.clone()], &format!("n{n}"));
            log.write_all(&[b'x'; 100]).unwrap();
            let file = open(&path(&folder, &format!("n{n}"), CURRENT)).unwrap();
            file.set_modified(begun + Duration::from_secs(n)).unwrap();
        }
        let names = || -> Vec<String> {
            let all = Found::all(std::slice::from_ref(&folder));
            all.into_iter().map(|found| found.name).collect()
        };
        sweep(&folder, 1000, 15);
        assert_eq!(
            names(),
            (10..20).rev().map(|n| format!("n{n}")).collect::<Vec<_>>()
        );
        sweep(&folder, 1000, 3);
        assert_eq!(names(), ["n19", "n18", "n17"]);
        sweep(&folder, 0, 0);
        assert_eq!(names(), ["n19"], "what was written just now stays");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_log_that_was_put_away_is_begun_again() {
        let folder = folder("again");
        let mut log = KeptLog::new(vec![folder.clone()], "time");
        log.write_all(b"one\n").unwrap();
        fs::remove_file(path(&folder, "time", CURRENT)).unwrap();
        log.write_all(b"two\n").unwrap();
        let found = Found::all(std::slice::from_ref(&folder));
        assert_eq!(found[0].read().unwrap(), ("two\n".into(), 4));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_in_place_of_the_file_is_not_followed() {
        let folder = folder("link");
        places::make_private(&folder).unwrap();
        let target = folder.join("target");
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, path(&folder, "time", CURRENT)).unwrap();
        let mut log = KeptLog::new(vec![folder.clone()], "time");
        assert!(log.write_all(b"one\n").is_err());
        assert_eq!(fs::read(&target).unwrap(), b"");
        fs::remove_dir_all(folder).unwrap();
    }
}
