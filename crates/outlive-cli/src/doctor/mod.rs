//! `outlive doctor`: starts each server once, shakes hands, lists its tools, and says what to do.
//!
//! - `patient`: what is known of a server before it is started.
//! - `diagnosis`: what was found, and what to do about it.
//! - `table`: what is printed.

mod diagnosis;
mod patient;
mod table;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use outlive::OrphanReaper;
use outlive::gateway::Pins;
use tokio::task::JoinSet;

use crate::login::finished;
use crate::places;
use crate::remote::RemoteSettings;
use crate::runtime::runtime;
use diagnosis::Diagnosis;
use patient::Patient;

/// Not every server is well.
const UNWELL: u8 = 1;

/// Options of `outlive doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The server: a program and its arguments, or an address
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "servers"
    )]
    command: Vec<OsString>,

    /// Examine every server in this file of a host instead
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    servers: Option<PathBuf>,

    /// Give up a server that has not answered after this long; the first start may have to download packages
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = crate::units::duration)]
    timeout: Duration,

    /// Examine this many servers at a time
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,

    /// Print one JSON document instead of the table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    remote: RemoteSettings,
}

/// The usage of `outlive doctor`.
pub const USAGE: &str = "outlive doctor [OPTIONS] -- COMMAND [ARGS]...\n       outlive doctor [OPTIONS] URL\n       \
                         outlive doctor [OPTIONS] --servers FILE";

/// What follows the help of `outlive doctor`.
pub const EXAMPLES: &str = "\
Examples:
  outlive doctor -- npx -y @modelcontextprotocol/server-everything
  outlive doctor --header 'Authorization: Bearer ${TOKEN}' https://example.com/mcp
  outlive doctor --servers ~/.cursor/mcp.json
  outlive doctor --servers .vscode/mcp.json --json

Exit codes:
  0   every server that is switched on works
  1   one does not
  2   a setting or the usage was wrong, or the file cannot be read";

/// Runs the command; the reason if it could not even begin.
pub fn run(args: &Args) -> Result<ExitCode, String> {
    let patients = match &args.servers {
        Some(file) => Patient::in_file(file, &args.remote)?,
        None => vec![Patient::given(&args.command, &args.remote)?],
    };
    // Without one we go on as well as we can: it is only needed if we are killed.
    let orphan_reaper = OrphanReaper::start().ok();
    let runtime = runtime().map_err(|error| format!("no runtime can be had: {error}"))?;
    let mut diagnoses = runtime.block_on(finished(examine(patients, args, orphan_reaper)));
    if args.servers.is_some() {
        diagnoses.iter_mut().for_each(advise_to_accept);
    }
    let printed = match args.json {
        true => table::json(&diagnoses),
        false => table::text(&diagnoses),
    };
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the result cannot be written: {error}"))
        }
        _ if diagnoses.iter().all(Diagnosis::is_well) => Ok(ExitCode::SUCCESS),
        _ => Ok(ExitCode::from(UNWELL)),
    }
}

/// Says of a server that works whether a gateway withholds something of it.
fn advise_to_accept(diagnosis: &mut Diagnosis) {
    let (folders, _) = places::readable(places::pin_folders());
    let pins = folders.into_iter().map(Pins::new);
    let mut withheld = pins.filter_map(|pins| pins.withheld(Some(&diagnosis.name)).ok());
    if diagnosis.advice.is_none() && withheld.any(|it| !it.is_empty()) {
        diagnosis.advice = Some(format!(
            "definitions of it are withheld: see and accept them with `outlive accept {}`",
            diagnosis.name
        ));
    }
}

/// Examines some at a time; what is found is in their order.
async fn examine(
    patients: Vec<Patient>,
    args: &Args,
    orphan_reaper: Option<OrphanReaper>,
) -> Vec<Diagnosis> {
    let total = patients.len();
    let watched = !args.json && io::stderr().is_terminal();
    let mut waiting = patients.into_iter().enumerate();
    let mut running = JoinSet::new();
    let mut found: Vec<(usize, Diagnosis)> = Vec::with_capacity(total);
    loop {
        while running.len() < usize::from(args.jobs)
            && let Some((place, patient)) = waiting.next()
        {
            let (timeout, orphan_reaper) = (args.timeout, orphan_reaper.clone());
            running.spawn(async move { (place, patient.examine(timeout, orphan_reaper).await) });
        }
        if watched {
            eprint!("\r\x1b[Kexamining: {} of {total} done", found.len());
            let _ = io::stderr().flush();
        }
        match running.join_next().await {
            Some(Ok(diagnosis)) => found.push(diagnosis),
            // A task that panicked has said so; its server is none the better for that.
            Some(Err(_)) => {}
            None => break,
        }
    }
    if watched {
        eprint!("\r\x1b[K");
    }
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, diagnosis)| diagnosis).collect()
}
