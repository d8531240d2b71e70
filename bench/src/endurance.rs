//! What time does to outlive: memory over many calls, leaks over many restarts, and how long a restart takes.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::contender::{Contender, Programs, Role};
use crate::host::Host;
use crate::matrix::{TEXTS, median};
use crate::process::Process;
use crate::traffic::Batch;

/// How long a restart may take before it counts as none. Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Deaths in quick succession are what the breaker and the backoff are for; here they would only be in the way.
const RESTLESS: [&str; 8] = [
    "--breaker-failures",
    "1000000",
    "--healthy-after",
    "0s",
    "--backoff-base",
    "1ms",
    "--backoff-cap",
    "1ms",
];

/// What outlive and its helpers hold at one moment. The server is not among them.
#[derive(Clone, Copy, Debug)]
pub struct Holding {
    /// Resident memory in bytes.
    pub resident: u64,
    /// Open files.
    pub files: usize,
    /// Threads.
    pub threads: usize,
    /// Child processes of outlive, the server and dead ones that were not waited for included.
    pub children: usize,
}

impl Holding {
    /// What `outlive` holds, and what stands beside it.
    pub fn of(outlive: Process) -> io::Result<Holding> {
        // What the last event left behind is put away first.
        thread::sleep(Duration::from_millis(200));
        let mut held = Holding {
            resident: 0,
            files: 0,
            threads: 0,
            children: outlive.children()?.len(),
        };
        for process in outlive.tree("echo")? {
            held.resident += process.resident()?;
            held.files += process.open_files()?;
            held.threads += process.threads()?;
        }
        Ok(held)
    }
}

/// What outlive held early on and at the end of a long run.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// After a tenth of the run, when caches and buffers have reached their size.
    pub early: Holding,
    /// At the end.
    pub late: Holding,
    /// The highest memory seen at any tenth of the run, in bytes.
    pub peak: u64,
}

impl Span {
    /// The highest memory in proportion to the early one.
    pub fn growth(&self) -> f64 {
        self.peak as f64 / self.early.resident as f64
    }

    /// Files, threads and children at the end that were not there early on.
    pub fn leaked(&self) -> usize {
        let more = |what: fn(&Holding) -> usize| what(&self.late).saturating_sub(what(&self.early));
        more(|held| held.files) + more(|held| held.threads) + more(|held| held.children)
    }
}

/// Runs ten tenths of something and looks at what outlive holds after each.
fn span(host: &mut Host, mut tenth: impl FnMut(&mut Host) -> io::Result<()>) -> io::Result<Span> {
    tenth(host)?;
    let early = Holding::of(host.process())?;
    let (mut late, mut peak) = (early, early.resident);
    for _ in 1..10 {
        tenth(host)?;
        late = Holding::of(host.process())?;
        peak = peak.max(late.resident);
    }
    Ok(Span { early, late, peak })
}

/// Resident memory with a server behind it and nothing to do, in bytes.
pub fn idle(programs: &Programs) -> io::Result<u64> {
    let host = Host::start(&programs.outlive(), &programs.scratch)?;
    Ok(Holding::of(host.process())?.resident)
}

/// Makes `count` calls, 64 at a time.
pub fn calls(programs: &Programs, count: u64) -> io::Result<Span> {
    let mut host = Host::start(&programs.outlive(), &programs.scratch)?;
    let mut batch = Batch::new(TEXTS[0]);
    span(&mut host, |host| {
        host.many_at_once(&mut batch, 64, Duration::ZERO, count / 10)
            .map(drop)
    })
}

/// Kills the server `count` times. After each death a `ping` has to be answered by the next server.
pub fn restarts(programs: &Programs, count: usize) -> io::Result<Span> {
    let restless = programs.outlive_with(&RESTLESS, vec![programs.echo.clone().into()]);
    let mut host = Host::start(&restless, &programs.scratch)?;
    span(&mut host, |host| {
        for _ in 0..count / 10 {
            server_of(host)?.kill()?;
            host.request("ping", "{}")?;
        }
        Ok(())
    })
}

/// The server behind outlive: its one child that is not outlive's orphan reaper.
fn server_of(host: &Host) -> io::Result<Process> {
    let own = host.process().name()?;
    let start = Instant::now();
    loop {
        let mut servers = host.process().children()?;
        // One that has gone in the meantime has no name.
        servers.retain(|child| child.name().is_ok_and(|name| !name.starts_with(&own)));
        match servers[..] {
            [server] => return Ok(server),
            _ if start.elapsed() > PATIENCE => {
                return Err(io::Error::other(format!(
                    "outlive has {} servers instead of one",
                    servers.len()
                )));
            }
            // The one before is being buried.
            _ => thread::yield_now(),
        }
    }
}

/// How long a server takes to start on its own, and to be back after its death.
pub struct Recovery {
    /// What kind of server.
    pub server: &'static str,
    /// From the start of the process to the answer to `initialize`, with nothing in the middle; milliseconds.
    pub alone: f64,
    /// From the death of the idle process to the next one being ready; milliseconds.
    pub back: f64,
    /// The median of `back` over `alone`, try by try.
    pub ratio: f64,
}

/// Kills an idle server `tries` times and compares with its own start, turn by turn. Every try has an outlive of its
/// own, so that what is measured is a first restart under default settings.
pub fn recovery(
    programs: &Programs,
    server: &'static str,
    command: Vec<OsString>,
    tries: usize,
) -> io::Result<Recovery> {
    let alone = Contender {
        command: command.clone(),
        ..programs.direct()
    };
    let wrapped = programs.outlive_with(&["--log-format", "json"], command);
    let mut times = Vec::new();
    for _ in 0..tries {
        times.push((start_alone(&alone)?, come_back(&wrapped)?));
    }
    let middle = |value: fn(&(f64, f64)) -> f64| {
        median(times.iter().map(value).collect()).unwrap_or(f64::INFINITY)
    };
    Ok(Recovery {
        server,
        alone: middle(|times| times.0 * 1e3),
        back: middle(|times| times.1 * 1e3),
        ratio: middle(|times| times.1 / times.0),
    })
}

fn start_alone(server: &Contender) -> io::Result<f64> {
    debug_assert_eq!(server.role, Role::Direct);
    let start = Instant::now();
    let mut host = Host::spawn(server, Stdio::null())?;
    host.initialize()?;
    Ok(start.elapsed().as_secs_f64())
}

fn come_back(wrapped: &Contender) -> io::Result<f64> {
    let mut host = Host::spawn(wrapped, Stdio::piped())?;
    let stderr = host
        .take_stderr()
        .ok_or_else(|| io::Error::other("no standard error"))?;
    let ready = watch_ready(BufReader::new(stderr));
    host.initialize()?;
    host.request("tools/list", "{}")?;
    next_ready(&ready)?;
    thread::sleep(Duration::from_millis(20));
    let server = server_of(&host)?;
    let start = Instant::now();
    server.kill()?;
    Ok((next_ready(&ready)? - start).as_secs_f64())
}

fn next_ready(ready: &Receiver<Instant>) -> io::Result<Instant> {
    ready
        .recv_timeout(PATIENCE)
        .map_err(|_| io::Error::other("outlive did not say that its server is ready"))
}

/// The moments at which the log says `ready`.
fn watch_ready(log: impl BufRead + Send + 'static) -> Receiver<Instant> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in log.lines().map_while(Result::ok) {
            let now = Instant::now();
            if line.contains("\"event\":\"state\"")
                && line.contains("\"state\":\"ready\"")
                && sender.send(now).is_err()
            {
                return;
            }
        }
    });
    receiver
}
