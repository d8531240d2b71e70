//! A name that is this process's as long as it lives.
//!
//! In the runtime folder each instance has `NAME.lock`, locked for as long as the process lives and with what is known
//! of it from the start, and `NAME.sock`, which answers how it stands. The kernel gives a lock back whatever ends the
//! process, so what a killed one leaves behind can be told from a living one, and is put away by the next who looks.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::system::{self, Listener};

/// The ending of the locked file.
pub const LOCK: &str = "lock";
/// The ending of the socket.
const SOCKET: &str = "sock";

/// As many instances may have the same name, with a number behind it.
const MOST: u32 = 999;

/// A name in a folder, and a socket beside it. Given back when it is dropped.
#[derive(Debug)]
pub struct Claim {
    /// The name, made unique.
    pub name: String,
    folder: PathBuf,
    lock: File,
    /// Taken by who answers.
    pub listener: Option<Listener>,
}

impl Claim {
    /// Claims the name, or the name with the first number behind it that nobody has.
    pub fn take(folder: &Path, name: &str) -> io::Result<Claim> {
        for number in 1..=MOST {
            let name = match number {
                1 => name.to_owned(),
                _ => format!("{name}-{number}"),
            };
            if let Some(lock) = system::lock(&file(folder, &name, LOCK), true)? {
                let socket = file(folder, &name, SOCKET);
                // It is of one that has ended: the lock is ours.
                let _ = fs::remove_file(&socket);
                let listener = Listener::bind(&socket);
                let mut claim = Claim {
                    name,
                    folder: folder.into(),
                    lock,
                    listener: None,
                };
                // Without it (dropped here) the name is given back.
                claim.listener = Some(listener?);
                return Ok(claim);
            }
        }
        Err(io::Error::other(format!(
            "{MOST} instances are called {name}"
        )))
    }

    /// Writes down what is known from the start, for those whom the socket does not answer.
    pub fn describe(&self, text: &str) -> io::Result<()> {
        self.lock.set_len(0)?;
        (&self.lock).write_all(text.as_bytes())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        for ending in [SOCKET, LOCK] {
            let _ = fs::remove_file(file(&self.folder, &self.name, ending));
        }
    }
}

/// The socket of this name.
pub fn socket(folder: &Path, name: &str) -> PathBuf {
    file(folder, name, SOCKET)
}

/// Puts away what an instance has left behind. False if it lives.
pub fn clear(folder: &Path, name: &str) -> bool {
    let lock = file(folder, name, LOCK);
    let Ok(Some(_lock)) = system::lock(&lock, false) else {
        return !lock.exists();
    };
    for ending in [SOCKET, LOCK] {
        let _ = fs::remove_file(file(folder, name, ending));
    }
    true
}

fn file(folder: &Path, name: &str, ending: &str) -> PathBuf {
    folder.join(format!("{name}.{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    fn folder(name: &str) -> PathBuf {
        let name = format!("outlive-claim-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        places::make_private(&folder).unwrap();
        folder
    }

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn names_are_unique_while_they_are_claimed() {
        let folder = folder("unique");
        let one = Claim::take(&folder, "time").unwrap();
        let two = Claim::take(&folder, "time").unwrap();
        assert_eq!((one.name.as_str(), two.name.as_str()), ("time", "time-2"));
        assert!(!clear(&folder, "time"), "it is in use");
        drop(one);
        assert_eq!(Claim::take(&folder, "time").unwrap().name, "time");
        drop(two);
        assert_eq!(files(&folder), 0);
        fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn leftovers_are_put_away_and_their_names_used_again() {
        let folder = folder("left");
        for ending in [LOCK, SOCKET] {
            fs::write(file(&folder, "time", ending), "left").unwrap();
            fs::write(file(&folder, "git", ending), "left").unwrap();
        }
        assert!(clear(&folder, "git"));
        assert!(clear(&folder, "git"), "it is gone");
        let claim = Claim::take(&folder, "time").unwrap();
        assert_eq!(claim.name, "time");
        claim.describe("{}").unwrap();
        assert_eq!(fs::read(file(&folder, "time", LOCK)).unwrap(), b"{}");
        drop(claim);
        assert_eq!(files(&folder), 0);
        fs::remove_dir(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_too_deep_for_a_socket_leaves_nothing() {
        let base = folder("deep");
        let deep = base.join("x".repeat(120));
        places::make_private(&deep).unwrap();
        assert!(Claim::take(&deep, "time").is_err());
        assert_eq!(files(&deep), 0);
        fs::remove_dir_all(base).unwrap();
    }
}
