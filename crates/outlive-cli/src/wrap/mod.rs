//! `outlive wrap` and `outlive unwrap`: outlive in front of the servers in a host's file.
//!
//! What a file says and how it is edited is in the crate `outlive-hosts`; here is what a person gives and gets.
//!
//! - `target`: which file is meant, and what is written in front of its servers.
//! - `replacement`: the backup beside a file, and the file written whole or not at all.
//! - `report`: what is printed.
//! - `difference`: what a dry run prints of a file.

mod difference;
mod replacement;
mod report;
mod target;

use std::path::PathBuf;
use std::process::ExitCode;

use outlive_hosts::{Action, Edited, Error, Host, Touched, Wrapping};

use replacement::Backups;
use report::Outcome;
use target::Target;

/// A file could not be edited; the others were.
const FAILED: u8 = 1;

/// Options of `outlive wrap`.
#[derive(Debug, clap::Args)]
pub struct WrapArgs {
    #[command(flatten)]
    common: Common,

    /// Wrap addresses without headers too; the host can then no longer log in to them (OAuth)
    #[arg(long)]
    addresses: bool,

    /// What starts outlive there [default: the full path of this program]
    #[arg(long, value_name = "OUTLIVE", value_parser = target::program)]
    program: Option<String>,
}

/// Options of `outlive unwrap`.
#[derive(Debug, clap::Args)]
pub struct UnwrapArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// The hosts whose own files to edit
    #[arg(value_name = "HOST", required_unless_present = "file", value_parser = target::hosts())]
    hosts: Vec<Host>,

    /// Edit this file instead; its keys say what it is if no host is named
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,

    /// Print the difference and change nothing; secrets are shown as `…`
    #[arg(long)]
    dry_run: bool,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,
}

/// What follows the help of `outlive wrap`.
pub const WRAP_EXAMPLES: &str = "\
Every server of the file gets `outlive run --` in front of its command. Comments, order and formatting stay, and a \
backup is kept beside the file. Headers of an address move into a variable, never onto the command line. What cannot \
be wrapped safely is left as it is, with the reason.

The full path of this program is written, because desktop applications rarely have the PATH of a shell: the path that \
the PATH has for it, if there is one, so that an upgrade changes nothing.

Examples:
  outlive wrap cursor claude-code --dry-run
  outlive wrap codex
  outlive wrap --file .vscode/mcp.json --program outlive

Exit codes:
  0   every file is as it should be
  1   a file could not be read or edited; it has not been touched
  2   a setting or the usage was wrong";

/// What follows the help of `outlive unwrap`.
pub const UNWRAP_EXAMPLES: &str = "\
A server that has not changed since it was wrapped is restored byte for byte from the backup beside the file. If \
nothing else has changed either, the backup is removed.

Examples:
  outlive unwrap cursor
  outlive unwrap cursor claude-code --dry-run
  outlive unwrap --file .vscode/mcp.json

Exit codes:
  0   every file is as it should be
  1   a file could not be read or edited, and has not been touched; or a server is left behind outlive
  2   a setting or the usage was wrong";

/// Runs `outlive wrap`.
pub fn wrap(args: &WrapArgs) -> ExitCode {
    let program = match args.program.clone().map_or_else(target::this_program, Ok) {
        Ok(program) => program,
        Err(why) => return refuse(&why),
    };
    let wrapping = Wrapping {
        program: &program,
        addresses: args.addresses,
    };
    // What cannot be wrapped stays as it was, and that is as it should be.
    run(
        &args.common,
        |_| false,
        |target, _| outlive_hosts::wrap(&target.text, target.format, target.shape, wrapping),
    )
}

/// Runs `outlive unwrap`.
pub fn unwrap(args: &UnwrapArgs) -> ExitCode {
    let is_left = |touched: &Touched| matches!(touched.action, Action::Left(_));
    run(&args.common, is_left, |target, backups| {
        outlive_hosts::unwrap(&target.text, target.format, target.shape, backups)
    })
}

/// Edits each file in turn. One that fails costs no other. `is_wrong` says of a server whether it is not as it should
/// be.
fn run(
    common: &Common,
    is_wrong: impl Fn(&Touched) -> bool,
    edit: impl Fn(&Target, &[String]) -> Result<Edited, Error>,
) -> ExitCode {
    if common.file.is_some() && common.hosts.len() > 1 {
        return refuse("--file names one file: name one host, or none");
    }
    let hosts: Vec<Option<Host>> = match common.hosts.is_empty() {
        true => vec![None],
        false => common.hosts.iter().copied().map(Some).collect(),
    };
    let outcomes: Vec<(Option<Host>, Result<Outcome, String>)> = hosts
        .into_iter()
        .map(|host| (host, one(host, common, &edit)))
        .collect();
    let failed = outcomes.iter().any(|(_, outcome)| match outcome {
        Ok(outcome) => outcome.servers.iter().any(&is_wrong),
        Err(_) => true,
    });
    let printed = match common.json {
        true => report::json(&outcomes),
        false => report::text(&outcomes),
    };
    match printed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            refuse(&format!("the result cannot be written: {error}"))
        }
        _ if failed => ExitCode::from(FAILED),
        _ => ExitCode::SUCCESS,
    }
}

fn one(
    host: Option<Host>,
    common: &Common,
    edit: &impl Fn(&Target, &[String]) -> Result<Edited, Error>,
) -> Result<Outcome, String> {
    let target = Target::find(host, common.file.as_deref())?;
    let backups = Backups::beside(&target.path);
    let told = |error: Error| error.in_file(&target.path).to_string();
    let edited = edit(&target, &backups.texts()).map_err(told)?;
    let diff = match common.dry_run {
        true => Some(report::diff(&target, &edited.text).map_err(told)?),
        false => None,
    };
    let backup = match edited.text == target.text || common.dry_run {
        true => None,
        false => replacement::replace(&target, &edited, &backups)?,
    };
    Ok(Outcome {
        file: target.path,
        changed: edited.text != target.text,
        servers: edited.servers,
        backup,
        diff,
    })
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("outlive: {why}");
    ExitCode::from(crate::USAGE)
}

#[cfg(test)]
mod tests {
    use clap::{ArgAction, CommandFactory as _};
    use outlive_hosts::SWITCHES;

    #[test]
    fn the_flags_without_a_value_are_known() {
        let outlive = crate::Cli::command();
        let run = outlive.find_subcommand("run").expect("the command");
        let mut switches: Vec<String> = run
            .get_arguments()
            .filter(|arg| matches!(arg.get_action(), ArgAction::SetTrue))
            .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
            .collect();
        switches.sort();
        assert_eq!(switches, SWITCHES);
    }
}
