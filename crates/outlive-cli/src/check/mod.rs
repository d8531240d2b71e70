//! `outlive check`: shows a server, a client or a proxy its lifecycle failures.
//!
//! The scenarios are in the crate `outlive-check`; here is what a person gives and gets.
//!
//! - `client`: what is asked of a client, and how its driver is named.
//! - `proxy`: what is asked of a proxy, and how it is started.
//! - `server`: what is asked of a server, and how it is named.
//! - `list`: the scenarios, for `--list`.
//! - `progress`: what is seen while they run.
//! - `page`: what is read afterwards.
//! - `files`: what is kept, for people and for build servers.
//! - `compare`: reports side by side.

mod client;
mod compare;
mod files;
mod list;
mod page;
mod progress;
mod proxy;
mod server;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use outlive::{OrphanReaper, Secrets};
use outlive_check::sheet::Sheet;
use outlive_check::{Cast, Era, Moment, Over, Plan, Report, Subject, select};

use crate::paint::Paint;
use crate::system;
use progress::Progress;

/// What the specification demands was found to be broken.
const BROKEN: u8 = 1;
/// How long an answer may take, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a first start may take, unless told otherwise: package managers download.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// The exit code of a program that was stopped by a signal, less the signal's number.
const SIGNALLED: u8 = 128;

/// Options of `outlive check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    subject: Under,
}

#[derive(Debug, clap::Subcommand)]
enum Under {
    /// Test a server against hostile and unlucky hosts
    Server(Box<server::Args>),

    /// Test a client against dying, hanging and lying servers
    Client(Box<client::Args>),

    /// Test a proxy between a host and a server that fail in turn
    Proxy(Box<proxy::Args>),

    /// Compare reports: of several programs, versions or days
    Compare(compare::Args),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Spoken {
    /// With a handshake (up to 2025-11-25)
    Legacy,
    /// Every request for itself (2026-07-28)
    Modern,
}

impl Spoken {
    fn era(self) -> Era {
        match self {
            Spoken::Legacy => Era::Legacy,
            Spoken::Modern => Era::Modern,
        }
    }
}

/// The hidden command that is a scripted server.
pub const PUPPET: &str = "check-puppet";

/// What starts a scripted server, up to the address it is told.
fn puppet() -> Result<Vec<OsString>, String> {
    let this = std::env::current_exe();
    let this = this.map_err(|error| format!("this program does not know its own name: {error}"))?;
    Ok(vec![this.into(), PUPPET.into()])
}

/// What is the same for every subject.
#[derive(Debug, clap::Args)]
struct Common {
    /// List the scenarios instead of running them
    #[arg(long)]
    list: bool,

    /// Run only scenarios whose name contains PATTERN, or matches it if it has a `*`; may be given more than once
    #[arg(long, value_name = "PATTERN")]
    only: Vec<String>,

    /// Seed for random moments: the same seed gives the same moments
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    /// Run this many scenarios at a time
    #[arg(long, value_name = "N", default_value = "2")]
    jobs: usize,

    /// Count an answer that takes longer than this as a hang [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = crate::units::duration)]
    patience: Option<Duration>,

    /// Wait this long for the first start, which may have to download packages [default: --patience if given, else
    /// 60s]
    #[arg(long, value_name = "DURATION", value_parser = crate::units::duration)]
    start_patience: Option<Duration>,

    /// Print one JSON document instead of the page
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    files: files::Files,
}

impl Common {
    /// How long an answer may take.
    fn patience(&self) -> Duration {
        self.patience.unwrap_or(PATIENCE)
    }

    /// How long the first start may take. Who gives a patience means it.
    fn start_patience(&self) -> Duration {
        self.start_patience
            .or(self.patience)
            .unwrap_or(START_PATIENCE)
    }
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    for variable in crate::variables::unknown(crate::cli) {
        eprintln!("outlive check: {}", variable.sentence());
    }
    match args.subject {
        Under::Server(args) => play(&args.common, Subject::Server, args.over(), args.cast()),
        Under::Client(args) => play(&args.common, Subject::Client, args.over(), args.cast()),
        Under::Proxy(args) => play(&args.common, Subject::Proxy, args.over(), args.cast()),
        Under::Compare(args) => match args.compare() {
            Ok(text) => done(print(&text), false),
            Err(why) => refuse(&why),
        },
    }
}

fn play(
    common: &Common,
    subject: Subject,
    over: Over,
    cast: impl Future<Output = Result<Cast, String>>,
) -> ExitCode {
    if common.list {
        let scenarios = select(subject, over, &common.only);
        return done(print(&list::list(&scenarios, common.json)), false);
    }
    let drafts = match common.files.try_all() {
        Ok(drafts) => drafts,
        Err(why) => return refuse(&why),
    };
    // Without one we go on as well as we can: it is only needed if we are killed.
    let orphan_reaper = OrphanReaper::start().ok();
    if let Some(orphan_reaper) = &orphan_reaper {
        let (name, value) = orphan_reaper.variable();
        outlive_check::also_set(name, value);
    }
    outlive_check::also_unset(&Secrets::VARIABLES);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&format!("no threads can be had: {error}")),
    };
    let played = runtime.block_on(async {
        tokio::select! {
            played = check(common, subject, over, cast) => Ok(played),
            signal = system::stopped() => Err(signal),
        }
    });
    // Whatever still runs is dropped with it, and the programs under test with that.
    drop(runtime);
    match played {
        Ok(Ok(report)) => {
            drafts.keep();
            match common.files.write(&Sheet::from(&report)) {
                Ok(()) => done(show(common, &report), report.breaks_a_must()),
                Err(why) => refuse(&why),
            }
        }
        Ok(Err(why)) => refuse(&why),
        Err(signal) => ExitCode::from(SIGNALLED + signal),
    }
}

async fn check(
    common: &Common,
    subject: Subject,
    over: Over,
    cast: impl Future<Output = Result<Cast, String>>,
) -> Result<Report, String> {
    let scenarios = select(subject, over, &common.only);
    if scenarios.is_empty() {
        return Err("no scenario has such a name; see --list".into());
    }
    let mut progress = Progress::new(common.json, scenarios.len());
    progress.look();
    let looked = cast.await;
    progress.clear();
    let plan = Plan {
        cast: looked?,
        scenarios,
        seed: common.seed,
        jobs: common.jobs,
    };
    progress.introduce(&plan);
    let report = outlive_check::run(plan, |moment| match moment {
        Moment::Begun(scenario) => progress.begun(scenario),
        Moment::Ended(trial) => progress.ended(trial),
    });
    let report = report.await;
    progress.clear();
    Ok(report)
}

fn show(common: &Common, report: &Report) -> io::Result<()> {
    if common.json {
        let document = serde_json::to_string_pretty(report).map_err(io::Error::other)?;
        return writeln!(io::stdout(), "{document}");
    }
    let paint = Paint::when(io::stdout().is_terminal());
    print(&page::page(report, paint))
}

fn print(text: &str) -> io::Result<()> {
    io::stdout().write_all(text.as_bytes())
}

/// Whoever reads no further has read enough; that changes nothing about what was found.
fn done(printed: io::Result<()>, broken: bool) -> ExitCode {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            refuse(&format!("the result cannot be written: {error}"))
        }
        _ if broken => ExitCode::from(BROKEN),
        _ => ExitCode::SUCCESS,
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("outlive check: {why}");
    ExitCode::from(crate::USAGE)
}
