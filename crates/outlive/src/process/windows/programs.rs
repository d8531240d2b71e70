//! How a program is found, and why it is not.
//!
//! A name without an ending is that of a program with one of the endings in `PATHEXT`, as in every shell: `npx` is
//! `npx.cmd`. (The file `npx` beside it is a script for others.)

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use outlive_core::cause::StartFailure;
use windows_sys::Win32::Foundation::{
    ERROR_BAD_EXE_FORMAT, ERROR_ELEVATION_REQUIRED, ERROR_EXE_MACHINE_TYPE_MISMATCH,
};

use crate::process::command::Command;

/// What can be started without asking the user's preferences.
const ENDINGS: [&str; 4] = ["com", "exe", "bat", "cmd"];

/// Whether two variables have the same name.
pub(crate) fn is_same_variable(one: &OsStr, other: &OsStr) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// Whether a program is given as a path, and not as a name to be found in `PATH`.
pub(crate) fn is_path(program: &OsStr) -> bool {
    let path = Path::new(program);
    path.components().count() > 1
        || matches!(path.components().next(), Some(Component::Prefix(_)))
        || matches!(path.components().next(), Some(Component::CurDir))
}

/// Whether blanks in a program that is not there are nothing to wonder about: `C:\Program Files` has one.
pub(crate) fn may_have_blanks(program: &OsStr) -> bool {
    is_path(program)
}

/// The file that runs when this path is started.
pub(crate) fn executable(path: PathBuf) -> Option<PathBuf> {
    let is_complete = path.extension().is_some_and(is_ending);
    if is_complete && path.is_file() {
        return Some(path);
    }
    let with = |ending: OsString| {
        let mut whole = path.clone().into_os_string();
        whole.push(".");
        whole.push(ending);
        PathBuf::from(whole)
    };
    let mut candidates = endings().into_iter().map(with);
    let found = candidates.find(|path| path.is_file());
    // A program may have any other ending, but not none.
    found.or_else(|| (path.extension().is_some() && path.is_file()).then_some(path))
}

fn is_ending(ending: &OsStr) -> bool {
    ENDINGS
        .iter()
        .any(|known| ending.eq_ignore_ascii_case(known))
}

/// The endings to try, in the user's order.
fn endings() -> Vec<OsString> {
    let listed = env::var_os("PATHEXT").unwrap_or_default();
    let listed = listed.to_string_lossy().to_ascii_lowercase();
    let listed = listed
        .split(';')
        .map(|ending| ending.trim_start_matches('.'));
    let usable: Vec<OsString> = listed
        .filter(|ending| ENDINGS.contains(ending))
        .map(OsString::from)
        .collect();
    match usable.is_empty() {
        true => ENDINGS.map(OsString::from).into(),
        false => usable,
    }
}

/// Why a command could not be started, as far as that can be told without starting it.
#[cfg(any(feature = "gateway", test))]
pub(crate) fn obstacle(command: &Command) -> Option<StartFailure> {
    command.file().is_none().then(|| command.missing())
}

/// What the refusal to start a program means.
pub(super) fn start_failure(command: &Command, error: &io::Error) -> StartFailure {
    if let Some(cwd) = command.cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
        return StartFailure::Other(format!("there is no directory {}", cwd.display()));
    }
    let words = match error.raw_os_error().map(i32::cast_unsigned) {
        Some(ERROR_BAD_EXE_FORMAT | ERROR_EXE_MACHINE_TYPE_MISMATCH) => {
            "the file is not a program that this Windows can run".into()
        }
        Some(ERROR_ELEVATION_REQUIRED) => {
            "the program asks to be run as an administrator, which a server cannot be".into()
        }
        _ => match error.kind() {
            io::ErrorKind::NotFound => return command.missing(),
            io::ErrorKind::PermissionDenied => return StartFailure::NotExecutable,
            io::ErrorKind::InvalidInput => format!(
                "an argument cannot be given to a batch file safely ({error}); start the program behind it instead"
            ),
            _ => error.to_string(),
        },
    };
    StartFailure::Other(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_shells_find_them() {
        let dir = env::temp_dir().join(format!("outlive-programs-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for name in ["npx", "npx.cmd", "tool.exe", "tool.cmd", "data.txt"] {
            std::fs::write(dir.join(name), "").unwrap();
        }
        let found = |name: &str| {
            let command = Command::from(name).env("Path", &dir);
            command
                .file()
                .map(|file| file.file_name().unwrap().to_owned())
        };
        assert_eq!(found("npx"), Some("npx.cmd".into()));
        assert_eq!(found("tool"), Some("tool.exe".into()));
        assert_eq!(found("tool.cmd"), Some("tool.cmd".into()));
        assert_eq!(found("data"), None);
        assert_eq!(found("none"), None);
        let whole = dir.join("npx");
        assert!(is_path(whole.as_os_str()) && !is_path(OsStr::new("npx")));
        assert_eq!(executable(whole), Some(dir.join("npx.cmd")));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
