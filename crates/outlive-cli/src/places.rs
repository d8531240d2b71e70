//! Where this user's instances are found, and where their logs are kept.
//!
//! Hosts pass hardly any environment on to their servers, while a terminal has all of it. So a place must be found
//! without variables too: whoever writes takes the first place that can be used, whoever reads looks into all of them.
//! Where that is on each system is in [`system`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::system;

/// The variable that names one folder for both, and for nothing else: no other place is looked at then.
pub const STATE_DIR: &str = "OUTLIVE_STATE_DIR";

/// The folders that running instances may be registered in, the best first. They are emptied when the machine or the
/// user's last session ends, so nothing is kept there.
pub fn runtime_folders() -> Vec<PathBuf> {
    if let Some(folder) = variable(STATE_DIR) {
        return vec![folder.join("run")];
    }
    let mut folders = system::runtime_folders();
    folders.dedup();
    folders
}

/// The folders that logs may be kept in, the best first.
pub fn log_folders() -> Vec<PathBuf> {
    state_folders("logs")
}

/// The folders in which it may be kept what was accepted of servers, the best first.
pub fn pin_folders() -> Vec<PathBuf> {
    state_folders("pins")
}

fn state_folders(name: &str) -> Vec<PathBuf> {
    if let Some(folder) = variable(STATE_DIR) {
        return vec![folder.join(name)];
    }
    let folders = system::state_folders().into_iter();
    let mut folders: Vec<PathBuf> = folders.map(|folder| folder.join(name)).collect();
    folders.dedup();
    folders
}

/// The folder in which it is kept what servers offer: it can be made anew, so it is among what the system may clear.
pub fn catalogue_folder() -> Option<PathBuf> {
    if let Some(folder) = variable(STATE_DIR) {
        return Some(folder.join("catalogue"));
    }
    Some(system::cache_folder()?.join("catalogue"))
}

/// The folder for what is remembered of earlier runs.
pub fn cache_folder() -> Option<PathBuf> {
    variable("OUTLIVE_CACHE_DIR").or_else(system::cache_folder)
}

/// The folder in which logins are kept.
pub fn login_folder() -> Option<PathBuf> {
    if let Some(folder) = variable(STATE_DIR) {
        return Some(folder.join("logins"));
    }
    if cfg!(windows) {
        let folders = system::state_folders();
        return folders.first().map(|folder| folder.join("logins"));
    }
    let bases = [
        variable("XDG_STATE_HOME"),
        variable("HOME").map(|home| home.join(".local").join("state")),
    ];
    let mut bases = bases.into_iter().flatten();
    let base = bases.find(|base| base.is_absolute())?;
    Some(base.join("outlive").join("logins"))
}

/// Makes a folder that nobody but this user can use, or makes sure that it is one.
pub fn make_private(folder: &Path) -> Result<(), String> {
    match system::private_folders().create(folder) {
        Ok(()) => check_private(folder),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_private(folder),
        Err(error) => Err(format!("cannot make {}: {error}", folder.display())),
    }
}

/// Why a folder cannot be trusted, if it cannot: somebody else may have put it there, or may write to it.
pub fn check_private(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    let found = fs::symlink_metadata(folder).map_err(|error| format!("{shown}: {error}"))?;
    if found.is_symlink() {
        return Err(format!("{shown} is a symbolic link: it is not followed"));
    }
    if !found.is_dir() {
        return Err(format!("{shown} is not a folder"));
    }
    match system::owner_problem(&found) {
        Some(problem) => Err(format!("{shown} {problem}")),
        None => Ok(()),
    }
}

/// The folders among these that can be read, and why others cannot. One that is not there is no mistake.
pub fn readable(folders: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<String>) {
    let (mut good, mut refused) = (Vec::new(), Vec::new());
    for folder in folders
        .into_iter()
        .filter(|it| fs::symlink_metadata(it).is_ok())
    {
        match check_private(&folder) {
            Ok(()) => good.push(folder),
            Err(why) => refused.push(why),
        }
    }
    (good, refused)
}

fn variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder(name: &str) -> PathBuf {
        let name = format!("outlive-places-{}-{name}", std::process::id());
        std::env::temp_dir().join(name)
    }

    #[test]
    fn a_folder_is_made_for_this_user_alone() {
        let base = folder("made");
        let made = base.join("a").join("b");
        make_private(&made).unwrap();
        make_private(&made).unwrap();
        for each in [&base, &base.join("a"), &made] {
            let mode = fs::metadata(each).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn what_others_may_have_made_is_refused() {
        let base = folder("refused");
        make_private(&base).unwrap();
        let (open, link, file) = (base.join("open"), base.join("link"), base.join("file"));
        make_private(&open).unwrap();
        std::os::unix::fs::symlink(&open, &link).unwrap();
        fs::write(&file, "").unwrap();
        assert!(make_private(&link).unwrap_err().contains("symbolic link"));
        assert!(make_private(&file).is_err());
        fs::set_permissions(&open, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(make_private(&open).unwrap_err().contains("mode is 750"));
        fs::remove_dir_all(base).unwrap();
    }
}
