//! A home that is gone with the test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A home directory of a test's own.
pub struct Home(TempDir);

/// How a run ended.
pub struct Told {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Home {
    pub fn new() -> Home {
        Home(tempfile::tempdir().expect("a directory"))
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    pub fn write(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).expect("read")
    }

    /// The names of all files in the folder of this one.
    pub fn beside(&self, file: &str) -> Vec<String> {
        let path = self.path(file);
        let entries = fs::read_dir(path.parent().expect("a folder")).expect("a folder");
        let files = entries
            .map(|entry| entry.expect("an entry"))
            .filter(|entry| entry.path().is_file());
        let mut names: Vec<String> = files
            .map(|entry| entry.file_name().into_string().expect("text"))
            .collect();
        names.sort();
        names
    }

    /// Runs outlive with nothing of this machine's in its environment.
    pub fn run(&self, args: &[&str]) -> Told {
        let output = Command::new(outlive())
            .args(args)
            .env_clear()
            .env("HOME", self.0.path())
            .output()
            .expect("outlive");
        Told {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

/// The binary under test: `OUTLIVE_BIN`, or the one built beside this test.
pub fn outlive() -> PathBuf {
    match std::env::var_os("OUTLIVE_BIN") {
        Some(path) => path.into(),
        None => Path::new(env!("CARGO_BIN_EXE_fake")).with_file_name("outlive"),
    }
}
