//! What the built `outlive` has to do on every system. Nothing here knows of signals, of `/proc` or of jobs: what is
//! killed is killed as the system does it, and what is left is asked for by its number.

mod host;
mod logins;
#[cfg(windows)]
mod node;
mod processes;
mod runs;
mod serves;
mod tools;
#[cfg(windows)]
mod wrappers;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Long enough that only a hang exceeds it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test: beside this one, or where `OUTLIVE_BIN` says.
fn outlive() -> Command {
    let named = std::env::var_os("OUTLIVE_BIN").map(PathBuf::from);
    let beside = || {
        let this = std::env::current_exe().expect("its own name");
        let folder = this.ancestors().nth(2).expect("a target folder");
        folder.join(format!("outlive{}", std::env::consts::EXE_SUFFIX))
    };
    let mut command = Command::new(named.unwrap_or_else(beside));
    command.env("OUTLIVE_STATE_DIR", state());
    command.env("OUTLIVE_CACHE_DIR", state());
    command
}

/// Where the instances of this program keep their status and their logs.
fn state() -> PathBuf {
    std::env::temp_dir().join(format!("outlive-portable-{}", std::process::id()))
}

/// The server under it.
fn server() -> &'static str {
    env!("CARGO_BIN_EXE_portable-server")
}

/// Waits until it holds.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
