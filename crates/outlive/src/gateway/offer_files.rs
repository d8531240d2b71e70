//! What servers offer, on disk: one file for each, by what starts the server.
//!
//! A file is written whole or not at all, and only its user can read it. What cannot be read is ignored: the server
//! tells it again when it runs. The name of a file is a hash of the command and the like, so that nothing secret that
//! stands there is written down.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use outlive_core::roster::{MOST_BYTES, Offer};

use crate::io::files;

/// Files in the directory. The ones that were written longest ago give way.
const MOST_FILES: usize = 512;

/// A longer file is none of ours.
const LONGEST: u64 = 2 * MOST_BYTES as u64;

/// How the names of files end.
const SUFFIX: &str = "offer";

/// The files of the targets of a gateway.
pub(super) struct OfferFiles {
    directory: PathBuf,
    /// For each target, by its number.
    keys: Mutex<BTreeMap<usize, String>>,
    /// One writes at a time, so that the newest is written last.
    writing: Mutex<()>,
}

impl OfferFiles {
    pub(super) fn new(directory: PathBuf) -> OfferFiles {
        OfferFiles {
            directory,
            keys: Mutex::default(),
            writing: Mutex::default(),
        }
    }

    /// These are the targets from now on, by their numbers.
    pub(super) fn set_keys(&self, keys: impl IntoIterator<Item = (usize, String)>) {
        let mut known = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        *known = keys.into_iter().collect();
    }

    fn path(&self, target: usize) -> Option<PathBuf> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let key = keys.get(&target)?;
        Some(self.directory.join(format!("{key}.{SUFFIX}")))
    }

    /// What is kept of a target, or why it cannot be read.
    pub(super) fn read(&self, target: usize) -> Result<Option<Offer>, String> {
        let Some(path) = self.path(target) else {
            return Ok(None);
        };
        let ignored = |why: &dyn std::fmt::Display| {
            let path = path.display();
            format!(
                "{path} is ignored: {why}. The server is asked again what it offers when it runs."
            )
        };
        // To open anything else may take for ever.
        match fs::metadata(&path) {
            Ok(about) if !about.is_file() => return Err(ignored(&"it is no file")),
            _ => {}
        }
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ignored(&error)),
        };
        let mut bytes = Vec::new();
        let read = file.take(LONGEST).read_to_end(&mut bytes);
        read.map_err(|error| ignored(&error))?;
        let offer = Offer::decode(&bytes).map_err(|error| ignored(&error))?;
        Ok(Some(offer))
    }

    /// Writes down what is known of a target by then, or says why that cannot be done.
    pub(super) fn write(
        &self,
        target: usize,
        offer: impl FnOnce() -> Option<Arc<Offer>>,
    ) -> Result<(), String> {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((path, offer)) = self.path(target).zip(offer()) else {
            return Ok(());
        };
        self.replace(&path, &offer.encode()).map_err(|error| {
            let directory = self.directory.display();
            format!(
                "What a server offers cannot be kept in {directory}: {error}. It is asked again after the next start."
            )
        })
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        make_directory(&self.directory)?;
        self.make_room(path);
        replace(&self.directory, path, bytes)
    }

    /// Removes the oldest files if there are too many, and drafts that nobody is about to finish.
    fn make_room(&self, beside: &Path) {
        let Ok(listed) = fs::read_dir(&self.directory) else {
            return;
        };
        let ours = |path: &Path| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.ends_with(SUFFIX) || name.ends_with(".draft"))
        };
        let age = |path: &Path| {
            let written = path.metadata().and_then(|it| it.modified());
            written.unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let paths = listed.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<(SystemTime, PathBuf)> = paths
            .filter(|path| ours(path) && path != beside)
            .map(|path| (age(&path), path))
            .collect();
        files.sort();
        let spare = (files.len() + 1).saturating_sub(MOST_FILES);
        for (_, path) in files.into_iter().take(spare) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Makes a directory that only its user can look into.
pub(super) fn make_directory(directory: &Path) -> io::Result<()> {
    files::private_directories().create(directory)
}

/// Writes a file of a directory, whole or not at all.
pub(super) fn replace(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Another gateway may be about to write the same file.
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let written = write_out(&draft, bytes).and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written?;
    // The name is to survive, too.
    files::sync_directory(directory)
}

fn write_out(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = files::private_files();
    let options = options.write(true).create(true).truncate(true);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A name for some parts that tells them apart from others, and from which they cannot be read.
pub(super) fn key<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    // FNV-1a, 128 bits: the same in every build, since another process reads it.
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hashed = |sum: u128, byte: u8| (sum ^ u128::from(byte)).wrapping_mul(PRIME);
    let mut sum = BASIS;
    for part in parts {
        let length = (part.len() as u64).to_le_bytes();
        sum = length.into_iter().fold(sum, hashed);
        sum = part.iter().copied().fold(sum, hashed);
    }
    format!("{sum:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_has_another_name() {
        let keys = [
            key([&b"a"[..], b"b"]),
            key([&b"ab"[..]]),
            key([&b"ab"[..], b""]),
            key([&b""[..], b"ab"]),
            key([]),
        ];
        for (n, one) in keys.iter().enumerate() {
            assert_eq!(one.len(), 32);
            assert!(!keys[n + 1..].contains(one), "{keys:?}");
        }
    }
}
