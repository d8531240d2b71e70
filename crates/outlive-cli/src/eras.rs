//! What is known of servers from earlier runs (FM-42).
//!
//! A server that ends when it is asked `server/discover`, and then takes `initialize`, is not asked again for an hour.
//! The memory is a small text file; if it cannot be read or written, the server is simply asked.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use outlive::Command;

use crate::places;

/// How long a server is remembered, in seconds: it may be updated.
const LAPSE: u64 = 3600;

/// The memory of one server.
#[derive(Clone, Debug)]
pub struct Eras {
    /// `None`: there is no place to keep it.
    file: Option<PathBuf>,
    server: String,
}

impl Eras {
    /// The memory of the server that `command` starts from this directory.
    pub fn of(command: &Command) -> Eras {
        Eras::in_directory(places::cache_folder(), command)
    }

    fn in_directory(directory: Option<PathBuf>, command: &Command) -> Eras {
        let mut hasher = DefaultHasher::new();
        (command, std::env::current_dir().ok()).hash(&mut hasher);
        Eras {
            file: directory.map(|directory| directory.join("eras")),
            server: format!("{:016x}", hasher.finish()),
        }
    }

    /// Whether this server is known not to take `server/discover`.
    pub fn is_legacy_only(&self) -> bool {
        self.entries()
            .iter()
            .any(|(server, _)| *server == self.server)
    }

    /// Remembers that this server does not take `server/discover`.
    pub fn remember(&self) {
        let Some(file) = &self.file else { return };
        let mut entries = self.entries();
        entries.retain(|(server, _)| *server != self.server);
        entries.push((self.server.clone(), now()));
        let text: String = entries
            .iter()
            .map(|(server, at)| format!("{server} {at}\n"))
            .collect();
        // Renamed into place, so that another run never reads half of it.
        let draft = file.with_extension(std::process::id().to_string());
        let _ = file.parent().map(fs::create_dir_all);
        let _ = fs::write(&draft, text).and_then(|()| fs::rename(&draft, file));
    }

    /// What was remembered within that time.
    fn entries(&self) -> Vec<(String, u64)> {
        let text = self
            .file
            .as_ref()
            .and_then(|file| fs::read_to_string(file).ok());
        let parse = |line: &str| {
            let (server, at) = line.split_once(' ')?;
            Some((server.to_owned(), at.parse().ok()?))
        };
        let fresh = |(_, at): &(String, u64)| now().saturating_sub(*at) < LAPSE;
        text.unwrap_or_default()
            .lines()
            .filter_map(parse)
            .filter(fresh)
            .collect()
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_remembered_for_an_hour_and_others_are_not() {
        let directory = std::env::temp_dir().join(format!("outlive-eras-{}", std::process::id()));
        let eras = |program: &str| {
            Eras::in_directory(Some(directory.clone()), &Command::new(program, ["-x"]))
        };
        assert!(!eras("one").is_legacy_only());
        eras("one").remember();
        eras("one").remember();
        assert!(eras("one").is_legacy_only());
        assert!(!eras("two").is_legacy_only());
        eras("two").remember();
        assert!(eras("one").is_legacy_only() && eras("two").is_legacy_only());

        let file = directory.join("eras");
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 2);
        let old = format!("{} {}\n", eras("one").server, now() - LAPSE);
        fs::write(&file, old + "not an entry\n").unwrap();
        assert!(!eras("one").is_legacy_only());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn without_a_place_to_keep_it_nothing_is_remembered() {
        let eras = Eras::in_directory(None, &Command::new("one", [""]));
        eras.remember();
        assert!(!eras.is_legacy_only());
    }
}
