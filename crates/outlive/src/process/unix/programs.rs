//! How a program is found, and why it is not.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use outlive_core::cause::StartFailure;
use rustix::io::Errno;

use crate::process::command::Command;

/// Whether two variables have the same name.
pub(crate) fn is_same_variable(one: &OsStr, other: &OsStr) -> bool {
    one == other
}

/// Whether a program is given as a path, and not as a name to be found in `PATH`.
pub(crate) fn is_path(program: &OsStr) -> bool {
    program.as_encoded_bytes().contains(&b'/')
}

/// Whether blanks in a program that is not there are nothing to wonder about. Here they are.
pub(crate) fn may_have_blanks(_program: &OsStr) -> bool {
    false
}

/// The file that runs when this path is started.
pub(crate) fn executable(path: PathBuf) -> Option<PathBuf> {
    Some(path).filter(|path| path.is_file())
}

/// Why a command could not be started, as far as that can be told without starting it.
#[cfg(any(feature = "gateway", test))]
pub(crate) fn obstacle(command: &Command) -> Option<StartFailure> {
    use std::os::unix::fs::PermissionsExt;

    let Some(file) = command.file() else {
        return Some(command.missing());
    };
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    (mode & 0o111 == 0).then_some(StartFailure::NotExecutable)
}

/// What the refusal to start a program means. `ENOENT` alone does not say which file was missing.
pub(super) fn start_failure(command: &Command, error: &io::Error) -> StartFailure {
    if let Some(cwd) = command.cwd.as_deref().filter(|cwd| !Path::is_dir(cwd)) {
        return StartFailure::Other(format!("there is no directory {}", cwd.display()));
    }
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) if command.file().is_some() => StartFailure::Other(
            "the file exists, but the interpreter its #! line names does not".into(),
        ),
        Some(Errno::NOENT) => command.missing(),
        Some(Errno::ACCESS) => StartFailure::NotExecutable,
        Some(Errno::NOEXEC) => StartFailure::Other(
            "the file is not a program this system can run (is its #! line missing?)".into(),
        ),
        _ => StartFailure::Other(error.to_string()),
    }
}
