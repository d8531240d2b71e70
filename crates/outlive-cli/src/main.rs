//! The `outlive` command.
//!
//! One file per command; the settings of `run` are in [`settings`], what `serve` has beside them in
//! [`listen`]. This crate is the only place that prints.

mod accept;
mod check;
mod completions;
mod config;
mod demo;
mod doctor;
mod eras;
mod instance;
mod kept_log;
mod listen;
mod log;
mod log_writer;
mod login;
mod logs;
mod man;
mod masks;
mod paint;
mod parent;
mod places;
mod provider;
mod rate_limit;
mod remote;
mod run;
mod runtime;
mod serve;
mod servers;
mod settings;
mod status;
mod store;
mod system;
mod terminal;
mod units;
mod variables;
mod watch;
mod wrap;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use listen::ServeSettings;
use settings::Settings;

/// The usage or a setting was wrong, or the work could not even begin: the same for every command, as with clap.
const USAGE: u8 = 2;

/// MCP sessions that outlive their servers.
#[derive(Debug, Parser)]
#[command(name = "outlive", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    launched: Launched,
}

// No doc comment: it would become that of the program.
#[allow(missing_docs)]
#[derive(Args, Debug)]
struct Launched {
    /// Stop, as at SIGTERM, when the process with this id has ended. Launchers set it: whoever ends only the launcher
    /// leaves the input open.
    #[arg(
        long,
        global = true,
        env = parent::VARIABLE,
        value_name = "PID",
        hide_short_help = true,
        help_heading = "Stopping"
    )]
    parent_pid: Option<NonZeroU32>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an MCP server so that its session outlives it: stdio in, stdio out
    #[command(override_usage = settings::USAGE, after_long_help = settings::EXAMPLES)]
    Run(Box<Settings>),

    /// Serve an MCP server to many clients over HTTP, restart it when it dies, and show its health
    #[command(override_usage = listen::USAGE, after_long_help = listen::EXAMPLES)]
    Serve(Box<ServeSettings>),

    /// Put outlive in front of the servers in a host's file
    #[command(after_long_help = wrap::WRAP_EXAMPLES)]
    Wrap(wrap::WrapArgs),

    /// Take outlive away again from the servers in a host's file
    #[command(after_long_help = wrap::UNWRAP_EXAMPLES)]
    Unwrap(wrap::UnwrapArgs),

    /// Show every outlive that this user has running: what it serves, for whom, its state, restarts, the last loss
    #[command(after_long_help = status::EXIT_CODES)]
    Status(status::Args),

    /// Show what happened to a session lately, also if it has ended
    Logs(logs::Args),

    /// Log in at a server over HTTP, and keep that for `run` and `serve`
    #[command(after_long_help = login::EXAMPLES)]
    Login(Box<login::LoginArgs>),

    /// Forget the login at a server, here and, if it can be told, at its authorization server
    Logout(Box<login::LogoutArgs>),

    /// Show the logins that are kept: at which servers, who let us in, how long they last
    Logins(login::LoginsArgs),

    /// Start servers once and show what works, how long it takes and what to do
    #[command(override_usage = doctor::USAGE, after_long_help = doctor::EXAMPLES)]
    Doctor(Box<doctor::Args>),

    /// Show what servers offer that is not accepted yet (with --pin), and accept it
    #[command(after_long_help = accept::EXAMPLES)]
    Accept(accept::Args),

    /// Watch a session survive its server: killed idle, killed in a call, junk, a hang
    Demo(demo::Args),

    /// Test how a server, a client or a proxy takes deaths, hangs, junk, cancellations and lost connections
    Check(check::Args),

    /// Print the script with which a shell completes commands and flags
    #[command(after_long_help = completions::EXAMPLES)]
    Completions(completions::Args),

    /// Write the manual pages of all commands to a folder
    Man(man::Args),

    /// The server of the demo
    #[command(hide = true)]
    DemoServer,

    /// The server of `check client` and `check proxy`
    #[command(hide = true, name = check::PUPPET)]
    CheckPuppet { address: String },
}

fn main() -> ExitCode {
    if is_version_asked() {
        // Whoever does not read it has not asked.
        let _ = io::stdout().write_all(version().as_bytes());
        return ExitCode::SUCCESS;
    }
    let (cli, matches) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error),
    };
    if let Some(parent) = cli.launched.parent_pid
        && let Err(error) = parent::end_with(parent)
    {
        return begun(Err(format!("cannot watch process {parent}: {error}")));
    }
    let given = matches.subcommand().map_or(&matches, |(_, given)| given);
    match cli.command {
        Command::Run(settings) => begun(run::run(&settings, given)),
        Command::Serve(settings) => begun(serve::run(&settings, given)),
        Command::Wrap(args) => wrap::wrap(&args),
        Command::Unwrap(args) => wrap::unwrap(&args),
        Command::Status(args) => begun(status::run(&args)),
        Command::Logs(args) => begun(logs::run(&args)),
        Command::Login(args) => begun(login::log_in(&args)),
        Command::Logout(args) => begun(login::log_out(&args)),
        Command::Logins(args) => begun(login::list(&args)),
        Command::Doctor(args) => begun(doctor::run(&args)),
        Command::Accept(args) => begun(accept::run(&args)),
        Command::Demo(args) => demo::run(args),
        Command::Check(args) => check::run(args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => begun(man::run(&args)),
        Command::DemoServer => demo::server::main(),
        Command::CheckPuppet { address } => outlive_check::puppet::main(&address),
    }
}

/// Whether that is all that is asked. Launchers and package managers do, time and again: so it is answered before all
/// flags of all commands are put together.
fn is_version_asked() -> bool {
    let mut words = std::env::args_os().skip(1);
    let asked = words
        .next()
        .is_some_and(|it| it == "--version" || it == "-V");
    asked && words.next().is_none()
}

/// The line that clap would print.
fn version() -> String {
    format!("outlive {}\n", env!("CARGO_PKG_VERSION"))
}

/// How it ended, or that it could not even begin.
fn begun(ended: Result<ExitCode, String>) -> ExitCode {
    ended.unwrap_or_else(|why| {
        eprintln!("outlive: {why}");
        ExitCode::from(USAGE)
    })
}

/// The command line as it is defined, before any file has its say.
fn cli() -> clap::Command {
    // A host that has left waits for nothing; clients behind HTTP still wait when we are told to stop.
    let drain = |command: clap::Command| command.mut_arg("drain", |it| it.default_value("10s"));
    Cli::command().mut_subcommand("serve", drain)
}

/// The command line with no other command than `run`. To put the flags of all commands together takes a good part of
/// the time before a server is started. It reads the same, but has no help and no words for errors.
fn cli_of_run() -> clap::Command {
    let run = Settings::augment_args(clap::Command::new("run"));
    Launched::augment_args(clap::Command::new("outlive")).subcommand(run)
}

/// What these words say, if they are those of a `run` that all is well with.
fn parse_run(words: &[OsString]) -> Option<ArgMatches> {
    if words.get(1)? != "run" {
        return None;
    }
    let matches = cli_of_run().try_get_matches_from(words).ok()?;
    let (_, given) = matches.subcommand()?;
    (!given.contains_id("config")).then_some(matches)
}

/// Reads the command line, and what it says about a settings file.
fn parse() -> Result<(Cli, ArgMatches), clap::Error> {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(matches) = parse_run(&words) {
        return Ok((Cli::from_arg_matches(&matches)?, matches));
    }
    let matches = cli().try_get_matches()?;
    let file = matches.subcommand().and_then(|(name, given)| {
        let path = given.try_get_one::<PathBuf>("config").ok()??;
        Some((name, path))
    });
    let matches = match file {
        Some((name, path)) => configured(name, path)?.try_get_matches()?,
        None => matches,
    };
    Ok((Cli::from_arg_matches(&matches)?, matches))
}

fn configured(command: &str, path: &Path) -> Result<clap::Command, clap::Error> {
    let mut why = None;
    let cli = cli().mut_subcommand(command, |command| {
        config::apply(command.clone(), path).unwrap_or_else(|error| {
            why = Some(error);
            command
        })
    });
    match why {
        Some(why) => Err(clap::Error::raw(
            clap::error::ErrorKind::ValueValidation,
            why + "\n",
        )),
        None => Ok(cli),
    }
}

/// Help and version are what was asked for; everything else is wrong usage.
fn refuse(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if let Some(name) = variable_behind(error) {
        eprintln!("The value comes from the environment variable {name}.");
    }
    match error.use_stderr() {
        true => ExitCode::from(USAGE),
        false => ExitCode::SUCCESS,
    }
}

/// The environment variable that a refused value comes from, if it comes from one.
fn variable_behind(error: &clap::Error) -> Option<String> {
    let (Some(ContextValue::String(flag)), Some(ContextValue::String(value))) = (
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::InvalidValue),
    ) else {
        return None;
    };
    let flag = flag.split_whitespace().next()?;
    let name = format!(
        "OUTLIVE_{}",
        flag.strip_prefix("--")?.to_uppercase().replace('-', "_")
    );
    let given = |arg: String| arg == flag || arg.starts_with(&format!("{flag}="));
    let on_the_line = std::env::args().any(given);
    (!on_the_line && std::env::var(&name).is_ok_and(|set| set == *value)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_what_the_command_line_says() {
        assert_eq!(version(), cli().render_version());
    }

    fn read_at_once(words: &[&str]) -> Option<String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let matches = parse_run(&words)?;
        let cli = Cli::from_arg_matches(&matches).expect("the matches of run");
        Some(format!("{cli:?} {:?}", matches.subcommand()))
    }

    #[test]
    fn run_alone_reads_what_all_commands_together_read() {
        for words in [
            &["outlive", "run", "--", "server", "--flag"][..],
            &["outlive", "run", "server", "--hold", "5s"],
            &[
                "outlive",
                "run",
                "--hold",
                "5s",
                "--parent-pid",
                "7",
                "server",
            ],
            &[
                "outlive",
                "run",
                "--parent-pid=7",
                "https://example.com/mcp",
            ],
            &["outlive", "run", "--servers", "servers.json"],
        ] {
            let matches = cli().try_get_matches_from(words).expect("it is right");
            let read = Cli::from_arg_matches(&matches).expect("the matches of run");
            let all = format!("{read:?} {:?}", matches.subcommand());
            assert_eq!(read_at_once(words), Some(all), "{words:?}");
        }
    }

    #[test]
    fn what_run_alone_cannot_say_is_left_to_all_commands_together() {
        for words in [
            &["outlive"][..],
            &["outlive", "serve", "server"],
            &["outlive", "--parent-pid", "7", "run", "server"],
            &["outlive", "run", "--help"],
            &["outlive", "run", "--hold", "soon", "server"],
            &["outlive", "run", "--no-such-flag", "server"],
            &["outlive", "run", "--config", "outlive.toml"],
        ] {
            assert_eq!(read_at_once(words), None, "{words:?}");
        }
    }
}
