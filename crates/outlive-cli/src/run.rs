//! `outlive run`: a stdio MCP server that is the given command or address, made immortal.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use clap::ArgMatches;
use outlive::gateway;
use outlive::{Command, Ended, OrphanReaper, Remote, Run, Secrets};
use outlive_core::Policy;

use crate::eras::Eras;
use crate::instance::Instance;
use crate::log::Log;
use crate::login;
use crate::remote::EraSetting;
use crate::runtime::runtime;
use crate::servers::{Reload, Servers};
use crate::settings::{LogLevel, Settings};
use crate::variables;
use crate::watch::{Watch, Watching};

/// The breaker opened, and `--exit-on-failed` was given.
pub const FAILED: u8 = 3;

/// Runs until the host leaves; the reason if it could not even begin.
pub fn run(settings: &Settings, given: &ArgMatches) -> Result<ExitCode, String> {
    if let Some(servers) = Servers::given(settings, given, None)? {
        return run_servers(settings, &servers);
    }
    let command = command(settings, "run")?;
    let mut policy = settings.policy()?;
    let eras = Eras::of(&command);
    policy.refuse_discover = eras.is_legacy_only();
    let mut told = settings.clone();
    told.remote.login.tell_host = true;
    if let Some(remote) = remote(&told, &command)? {
        return run_remote(settings, remote, policy, eras);
    }
    greet(settings);
    let secrets = Secrets::of(&command);
    let instance = Instance::begin(settings, "run", command.label(&secrets), secrets);
    let run = || {
        let log = Log::open(settings, Some(eras), instance.clone())?;
        tell_unknown_variables(&log);
        let mut run = Run::new(command, policy, log);
        run.exit_on_failed = settings.exit_on_failed;
        // Without one we go on as well as we can: it is only needed if we are killed.
        run.orphan_reaper = OrphanReaper::start().ok();
        driven(&instance, outlive::run(run))
    };
    instance.ended(run())
}

/// Runs all servers of a file as one.
fn run_servers(settings: &Settings, servers: &Servers) -> Result<ExitCode, String> {
    let several = servers.gateway(None)?;
    greet(settings);
    let mut named = settings.clone();
    named.name.get_or_insert_with(|| "servers".into());
    let secrets = servers.secrets();
    let serves = secrets.mask(&servers.label());
    let instance = Instance::begin(&named, "run", serves, secrets);
    let run = || {
        let log = Log::open(settings, None, instance.clone())?;
        login::tell_in(log.notes());
        tell_unknown_variables(&log);
        for note in &servers.notes {
            log.note(&note.sentence, note.name, note.data.clone());
        }
        let watch = Watch::new(log, settings.exit_on_failed);
        let gateway = several.observer(Watching(watch.clone())).build();
        let gateway = gateway.map_err(|error| error.to_string())?;
        watch.set_gateway(gateway.clone());
        instance.set_gateway(gateway.clone());
        let reload = Reload {
            gateway: gateway.clone(),
            watch: watch.clone(),
            instance: instance.clone(),
            notes: servers.notes.clone(),
        };
        reload.start(servers.look.clone());
        let running = async {
            gateway::run_stdio(&gateway).await?;
            Ok(match watch.has_failed() {
                true => Ended::Failed,
                false => Ended::Closed,
            })
        };
        let ended = driven(&instance, running);
        watch.log.finish();
        ended
    };
    instance.ended(run())
}

fn run_remote(
    settings: &Settings,
    remote: Remote,
    mut policy: Policy,
    eras: Eras,
) -> Result<ExitCode, String> {
    policy.refuse_discover |= settings.remote.era == EraSetting::Legacy;
    greet(settings);
    let secrets = remote.secrets();
    let instance = Instance::begin(settings, "run", remote.label(), secrets);
    let run = || {
        let log = Log::open(settings, Some(eras), instance.clone())?;
        login::tell_in(log.notes());
        tell_unknown_variables(&log);
        let exit_on_failed = settings.exit_on_failed;
        driven(
            &instance,
            outlive::run_remote(remote, policy, log, exit_on_failed),
        )
    };
    instance.ended(run())
}

/// Runs a session on this thread, and tells whoever asks how it stands. How it ended.
fn driven(
    instance: &Arc<Instance>,
    session: impl Future<Output = io::Result<Ended>>,
) -> Result<(&'static str, ExitCode), String> {
    let session = login::finished(session);
    match runtime().and_then(|runtime| runtime.block_on(instance.answering(session))) {
        Ok(Ended::Closed) => Ok(("the host left, or it was stopped", ExitCode::SUCCESS)),
        Ok(Ended::Failed) => Ok(("the server kept failing", ExitCode::from(FAILED))),
        Err(error) => Err(format!("standard input and output cannot be used: {error}")),
    }
}

/// Names the variables that look like settings and are none.
pub fn tell_unknown_variables(log: &Log) {
    for variable in variables::unknown(crate::cli) {
        log.note(&variable.sentence(), "unknown_variable", variable.data());
    }
}

/// Tells a person at a terminal what this waits for: nobody types JSON-RPC.
fn greet(settings: &Settings) {
    let watched = io::stdin().is_terminal() && io::stderr().is_terminal();
    if watched && settings.log_level != LogLevel::Quiet {
        eprintln!(
            "outlive: waiting for an MCP host on standard input (Ctrl-C stops).\n  \
             A host starts this command by itself: put it into the host's configuration.\n  \
             To try it here: `outlive demo` kills a server and shows what a host sees,\n  \
             `outlive check server -- COMMAND` tests yours."
        );
    }
}

/// The command that is given, or the address.
pub fn command(settings: &Settings, name: &str) -> Result<Command, String> {
    let (program, args) = settings.command.split_first().ok_or_else(|| {
        format!(
            "no server is given; for example: outlive {name} -- python server.py, \
             or outlive {name} https://example.com/mcp, or outlive {name} --servers mcp.json"
        )
    })?;
    Ok(Command::new(program, args))
}

/// The server at the address that is given, if it is one.
pub fn remote(settings: &Settings, command: &Command) -> Result<Option<Remote>, String> {
    let address = command.program.to_string_lossy();
    let Some(remote) = settings.remote.remote(&address).transpose()? else {
        return Ok(None);
    };
    let remote = settings
        .remote
        .holding(settings.hold)
        .with_login(remote, &address)?;
    match command.args.is_empty() {
        true => Ok(Some(remote)),
        false => Err("an address stands alone: nothing may follow it".into()),
    }
}
