//! `outlive run`: a stdio MCP server that is the given command, made immortal.

use std::process::ExitCode;

use outlive::{Command, Ended, Run, Secrets};

use crate::eras::Eras;
use crate::log::Log;
use crate::settings::Settings;

/// The breaker opened, and `--exit-on-failed` was given.
const FAILED: u8 = 3;

/// The command of this program that is not for people: see [`outlive::warden`].
pub const WARDEN: &str = "__warden";

/// Runs until the host leaves; the reason if it could not even begin.
pub fn run(settings: &Settings) -> Result<ExitCode, String> {
    let command = command(settings)?;
    let mut policy = settings.policy()?;
    let eras = Eras::of(&command);
    policy.refuse_discover = eras.is_legacy_only();
    let log = Log::open(settings, Secrets::of(&command), eras)?;
    let mut run = Run::new(command, policy, log);
    run.exit_on_failed = settings.exit_on_failed;
    run.warden = std::env::current_exe()
        .ok()
        .map(|exe| Command::new(exe, [WARDEN]));
    match outlive::run(run) {
        Ok(Ended::Closed) => Ok(ExitCode::SUCCESS),
        Ok(Ended::Failed) => Ok(ExitCode::from(FAILED)),
        Err(error) => Err(format!("standard input and output cannot be used: {error}")),
    }
}

fn command(settings: &Settings) -> Result<Command, String> {
    let (program, args) = settings
        .command
        .split_first()
        .ok_or("no server is given; for example: outlive run -- python server.py")?;
    let name = program.to_string_lossy();
    if name.starts_with("http://") || name.starts_with("https://") {
        return Err(format!(
            "{name} is an address, and this version only runs commands: servers over HTTP are not supported yet"
        ));
    }
    Ok(Command::new(program, args))
}
