//! Measures what standing between a host and its server costs.
//!
//! ```text
//! bench [--quick] [--check] [--peers DIR] [--docs DIR]
//! bench library [--quick] [--check] [--docs DIR]
//! bench http [--quick] [--check] [--peers DIR] [--docs DIR]
//! bench load [--quick] [--check] [--docs DIR]
//! bench servers [--quick] [--check] [--peers DIR] [--docs DIR]
//! bench cluster [--quick] [--check] [--docs DIR]
//! bench start [--check]
//! bench gate
//! bench drive BYTES IN_FLIGHT SECONDS COMMAND...
//! bench post legacy|modern BYTES IN_FLIGHT SECONDS COMMAND...
//! ```
//!
//! The first compares the server alone, a bare relay, outlive and the peers installed in `DIR`, then lets outlive
//! endure a million calls and a thousand restarts, and compares the library with rmcp. It prints what it found; with
//! `--docs` it writes it into `benchmarks.md` there, and two pictures beside it. `--quick` takes fewer rounds and
//! shorter runs; `--check` fails if a target is missed. The second does only the last part of it.
//!
//! If `OUTLIVE_EARLIER` names the program of an earlier version, that takes part in the same run.
//!
//! The third compares over HTTP; see [`http`]. The fourth sends crowds; see [`load`]. The fifth puts many servers
//! behind one address; see [`servers`]. The sixth puts replicas on one Redis; see [`cluster`]. The seventh starts the
//! program again and again; see [`mod@start`]. The eighth is the short gate of the test suite; see [`gate`]. The last
//! two keep one command busy, for a profiler to look at; a command that serves HTTP has the word `PORT` in place of its
//! port.

#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cluster::Cluster;
use contender::{Contender, Programs};
use host::Host;
use http::Era;
use library::Library;
use load::Load;
use matrix::{Cell, Effort, Matrix};
use report::Endurance;
use servers::Servers;
use target::{Margin, Target};
use traffic::Batch;

mod cluster;
mod contender;
mod endurance;
mod gate;
mod host;
mod http;
mod library;
mod load;
mod matrix;
mod picture;
mod process;
mod report;
mod servers;
mod start;
mod target;
mod traffic;

const USAGE: &str = "usage: bench [library|http|load|servers|cluster] [--quick] [--check] [--peers DIR] [--docs DIR]\n       \
    bench start [--check]\n       bench gate";

/// What outlive promises against the bare relay.
const PROMISE: Margin = Margin {
    round_trip: 1.15,
    small: 0.85,
    large: 0.95,
    large_processor: 1.2,
};

/// What the library promises against rmcp.
const LIBRARY_PROMISE: library::Margin = library::Margin {
    round_trip: 0.6,
    small: 3.0,
    large: 1.0,
};

/// By how much a figure may be worse than that of an earlier outlive in the same run.
const SLACK: f64 = 0.03;

/// The share of the bare relay's throughput over HTTP that `outlive serve` promises.
const MARK_PROMISE: f64 = 0.75;

/// How many times the throughput of an earlier `outlive serve` is wanted at 64 calls in flight.
const EARLIER_PROMISE: f64 = 1.25;

/// How many times the throughput of any other bridge `outlive serve` promises.
const BRIDGE_PROMISE: f64 = 3.0;

/// How many times the throughput of any other server over HTTP ours promises.
const SERVER_PROMISE: f64 = 1.0;

/// What a router promises: beside outlive before one server, and beside peers before as many.
const ROUTER_PROMISE: servers::Margin = servers::Margin {
    start: 3.0,
    start_of_peers: 0.05,
    call: 1.15,
    idle_server: 50.0,
    growth: 1.1,
};

/// What replicas on one Redis promise.
const CLUSTER_PROMISE: cluster::Margin = cluster::Margin {
    owner: 0.95,
    forward: 0.45,
    starts: 1.5,
};

fn main() -> ExitCode {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    let outcome = match words.split_first() {
        Some((first, rest)) if first == "drive" => drive(rest),
        Some((first, rest)) if first == "post" => post(rest),
        Some((first, rest)) if first == "start" => start(rest),
        _ => Order::read(words.into_iter()).and_then(Order::carry_out),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// What the command line asks for.
#[derive(Default)]
struct Order {
    gate: bool,
    library: bool,
    http: bool,
    load: bool,
    servers: bool,
    cluster: bool,
    quick: bool,
    check: bool,
    peers: Option<PathBuf>,
    docs: Option<PathBuf>,
}

impl Order {
    fn read(mut words: impl Iterator<Item = OsString>) -> Result<Order, Box<dyn Error>> {
        let mut order = Order::default();
        while let Some(word) = words.next() {
            let mut folder = || words.next().map(PathBuf::from).ok_or(USAGE);
            match word.to_str() {
                Some("gate") => order.gate = true,
                Some("library") => order.library = true,
                Some("http") => order.http = true,
                Some("load") => order.load = true,
                Some("servers") => order.servers = true,
                Some("cluster") => order.cluster = true,
                Some("--quick") => order.quick = true,
                Some("--check") => order.check = true,
                Some("--peers") => order.peers = Some(folder()?),
                Some("--docs") => order.docs = Some(folder()?),
                _ => return Err(USAGE.into()),
            }
        }
        Ok(order)
    }

    /// Whether all that was to be checked holds.
    fn carry_out(self) -> Result<bool, Box<dyn Error>> {
        if self.gate {
            return Ok(judge(&gate::run(&Programs::locate()?)?));
        }
        if self.http {
            return Ok(self.over_http()? || !self.check);
        }
        if self.load {
            return Ok(self.crowds()? || !self.check);
        }
        if self.servers {
            return Ok(self.many_servers()? || !self.check);
        }
        if self.cluster {
            return Ok(self.replicas()? || !self.check);
        }
        let library = self.beside_rmcp()?;
        if self.library {
            return Ok(library || !self.check);
        }
        let programs = Programs::locate()?;
        let endurance = self.endure(&programs)?;
        let matrix = self.compare(&programs)?;
        let targets = targets(&matrix, &endurance, endurance::idle(&programs)?);
        let measured = report::markdown(&matrix, &endurance, &targets);
        println!("{measured}");
        if let Some(docs) = &self.docs {
            report::write_into(&docs.join("benchmarks.md"), "measured", &measured)?;
            let panels = picture::of_matrix(&matrix);
            let svg = picture::svg(
                "outlive compared with a bare relay and with other proxies",
                &panels,
            );
            fs::write(docs.join("benchmarks.svg"), svg)?;
        }
        Ok((judge(&targets) && library) || !self.check)
    }

    /// Compares the library with rmcp. True if it does as well as it promises.
    fn beside_rmcp(&self) -> Result<bool, Box<dyn Error>> {
        let effort = match self.quick {
            true => Effort {
                rounds: 3,
                turn: Duration::from_millis(100),
            },
            false => Effort {
                rounds: 7,
                turn: Duration::from_millis(120),
            },
        };
        let progress = |round| eprintln!("library, round {} of {}", round + 1, effort.rounds);
        let library =
            Library::measure(Library::all_sdks(), Library::all_cells(), effort, progress)?;
        let targets = library.targets(&LIBRARY_PROMISE);
        let measured = library.markdown(&targets);
        println!("{measured}");
        if let Some(docs) = &self.docs {
            report::write_into(&docs.join("benchmarks.md"), "library", &measured)?;
            let svg = picture::svg("the library compared with rmcp", &library.panels());
            fs::write(docs.join("benchmarks-library.svg"), svg)?;
        }
        Ok(judge(&targets))
    }

    /// Compares over HTTP. True if all is as promised.
    fn over_http(&self) -> Result<bool, Box<dyn Error>> {
        let programs = Programs::locate()?;
        let mut contenders = http::own(&programs);
        match &self.peers {
            Some(folder) => contenders = http::all(&programs, folder)?,
            None => contenders.extend(http::servers()),
        }
        let effort = match self.quick {
            true => Effort {
                rounds: 3,
                turn: Duration::from_millis(100),
            },
            false => Effort {
                rounds: 7,
                turn: Duration::from_millis(250),
            },
        };
        let progress = |round| eprintln!("HTTP, round {} of {}", round + 1, effort.rounds);
        let cells = http::all_cells();
        let matrix = http::Matrix::measure(contenders, cells, effort, &programs.scratch, progress)?;
        let mut bridges = http::against_mark(&matrix, MARK_PROMISE);
        bridges.extend(http::against_earlier(&matrix, 1.0 - SLACK, EARLIER_PROMISE));
        bridges.extend(http::against(&matrix, http::Kind::Bridge, BRIDGE_PROMISE));
        let servers = http::against(&matrix, http::Kind::Server, SERVER_PROMISE);
        let measured = http::markdown(&matrix, &bridges, &servers);
        println!("{measured}");
        if let Some(docs) = &self.docs {
            report::write_into(&docs.join("benchmarks-http.md"), "http", &measured)?;
            let svg = picture::svg("bridges and servers over HTTP", &http::panels(&matrix));
            fs::write(docs.join("benchmarks-http.svg"), svg)?;
        }
        Ok(judge(&bridges) && judge(&servers))
    }

    /// Lets crowds come. True if all were served and nothing is left of them.
    fn crowds(&self) -> Result<bool, Box<dyn Error>> {
        let numbers = match self.quick {
            true => load::FEW,
            false => load::MANY,
        };
        let programs = Programs::locate()?;
        let load = Load::measure(&programs, &numbers, |what| eprintln!("{what}"))?;
        let targets = load.targets();
        let measured = load.markdown(&targets);
        println!("{measured}");
        if let Some(docs) = &self.docs {
            report::write_into(&docs.join("benchmarks-http.md"), "load", &measured)?;
        }
        Ok(judge(&targets))
    }

    /// Puts many servers behind one address. True if all is as promised.
    fn many_servers(&self) -> Result<bool, Box<dyn Error>> {
        let scope = match self.quick {
            true => servers::QUICK,
            false => servers::FULL,
        };
        let programs = Programs::locate()?;
        let peers = self.peers.as_deref();
        let servers = Servers::measure(&programs, peers, scope, |what| eprintln!("{what}"))?;
        let targets = servers.targets(&ROUTER_PROMISE);
        let measured = servers.markdown(&targets);
        println!("{measured}");
        if let Some(docs) = &self.docs {
            report::write_into(&docs.join("benchmarks-servers.md"), "servers", &measured)?;
        }
        Ok(judge(&targets))
    }

    /// Puts replicas on one Redis. True if all is as promised.
    fn replicas(&self) -> Result<bool, Box<dyn Error>> {
        let scope = match self.quick {
            true => cluster::QUICK,
            false => cluster::FULL,
        };
        let programs = Programs::locate()?;
        let cluster = Cluster::measure(&programs, &scope, |what| eprintln!("{what}"))?;
        let targets = cluster.targets(&CLUSTER_PROMISE);
        let measured = cluster.markdown(&targets);
        println!("{measured}");
        if let Some(docs) = &self.docs {
            report::write_into(&docs.join("benchmarks-cluster.md"), "cluster", &measured)?;
        }
        Ok(judge(&targets))
    }

    fn compare(&self, programs: &Programs) -> Result<Matrix, Box<dyn Error>> {
        let mut contenders = vec![programs.direct(), programs.relay(), programs.outlive()];
        contenders.extend(programs.earlier());
        if let Some(folder) = &self.peers {
            contenders.extend(programs.peers(folder)?);
        }
        let effort = match self.quick {
            true => Effort {
                rounds: 5,
                turn: Duration::from_millis(100),
            },
            false => Effort {
                rounds: 11,
                turn: Duration::from_millis(250),
            },
        };
        let progress = |round| eprintln!("round {} of {}", round + 1, effort.rounds);
        let cells = matrix::all_cells();
        let matrix = Matrix::measure(contenders, cells, effort, &programs.scratch, progress)?;
        Ok(matrix)
    }

    fn endure(&self, programs: &Programs) -> Result<Endurance, Box<dyn Error>> {
        let (calls, restarts, tries) = match self.quick {
            true => (100_000, 100, 3),
            false => (1_000_000, 1_000, 15),
        };
        eprintln!("{calls} calls");
        let over_calls = endurance::calls(programs, calls)?;
        eprintln!("{restarts} restarts");
        let over_restarts = endurance::restarts(programs, restarts)?;
        eprintln!("deaths at rest");
        let echo: OsString = programs.echo.clone().into();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/server.py");
        let servers: [(_, Vec<OsString>); 2] = [
            (
                "echo, 200 ms late",
                vec![echo, "--start-delay".into(), "200ms".into()],
            ),
            ("a Python script", vec!["python3".into(), script.into()]),
        ];
        let mut recoveries = Vec::new();
        for (name, command) in servers {
            recoveries.push(endurance::recovery(programs, name, command, tries)?);
        }
        Ok(Endurance {
            calls: (calls, over_calls),
            restarts: (restarts, over_restarts),
            recoveries,
        })
    }
}

fn targets(matrix: &Matrix, endurance: &Endurance, idle: u64) -> Vec<Target> {
    let mut targets = target::against_relay(matrix, &PROMISE);
    targets.extend(target::against_earlier(matrix, SLACK));
    targets.extend(target::against_peers(matrix));
    targets.push(target::idle(idle));
    let (calls, over_calls) = &endurance.calls;
    let (restarts, over_restarts) = &endurance.restarts;
    targets.push(target::flat(&format!("{calls} calls"), over_calls));
    targets.push(target::flat(&format!("{restarts} restarts"), over_restarts));
    targets.push(target::no_leak(
        &format!("{restarts} restarts"),
        over_restarts,
    ));
    targets.extend(endurance.recoveries.iter().map(target::back));
    targets
}

/// Starts the program again and again; false if a promise was to be kept and is not.
fn start(words: &[OsString]) -> Result<bool, Box<dyn Error>> {
    let check = match words {
        [] => false,
        [word] if word == "--check" => true,
        _ => return Err(USAGE.into()),
    };
    let targets = start::measure(&Programs::locate()?)?;
    targets.iter().for_each(|target| println!("{target}"));
    Ok(!check || targets.iter().all(Target::met))
}

/// Keeps one command busy and prints how fast it was.
fn drive(words: &[OsString]) -> Result<bool, Box<dyn Error>> {
    let [bytes, in_flight, seconds, command @ ..] = words else {
        return Err(USAGE.into());
    };
    if command.is_empty() {
        return Err(USAGE.into());
    }
    let number = |word: &OsString| word.to_string_lossy().parse::<u64>();
    let programs = Programs::locate()?;
    let contender = Contender {
        command: command.to_vec(),
        ..programs.relay()
    };
    let mut host = Host::start(&contender, &programs.scratch)?;
    let cell = Cell {
        text: number(bytes)? as usize,
        in_flight: number(in_flight)?,
    };
    let time = Duration::from_secs(number(seconds)?);
    let turn = matrix::turn(
        &mut host,
        contender.role,
        &mut Batch::new(cell.text),
        cell,
        time,
    )?;
    println!("{turn:.2?}");
    Ok(true)
}

/// Keeps one command busy over HTTP and prints how fast it was.
fn post(words: &[OsString]) -> Result<bool, Box<dyn Error>> {
    let [era, bytes, in_flight, seconds, command @ ..] = words else {
        return Err(USAGE.into());
    };
    if command.is_empty() {
        return Err(USAGE.into());
    }
    let number = |word: &OsString| word.to_string_lossy().parse::<u64>();
    let contender = http::Contender {
        name: "posted".into(),
        kind: http::Kind::Server,
        side: http::Side::Theirs,
        era: match era == "modern" {
            true => Era::Modern,
            false => Era::Legacy,
        },
        tool: traffic::ECHO,
        command: command.to_vec(),
    };
    let running = http::Running::start(&contender, &Programs::locate()?.scratch)?;
    let time = Duration::from_secs_f64(seconds.to_string_lossy().parse()?);
    let text = number(bytes)? as usize;
    println!(
        "{:.2?}",
        http::turn(&running, text, number(in_flight)?, time, 1)?
    );
    Ok(true)
}

/// Prints the verdicts; true if all are good.
fn judge(targets: &[Target]) -> bool {
    for target in targets {
        println!("{target}");
    }
    targets.iter().all(Target::met)
}
