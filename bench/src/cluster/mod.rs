//! Replicas of `outlive serve` on one Redis: what a store and a forward cost, what a death and a rolling restart do.
//!
//! All in one run, in turns: a process without a store, an owner with Redis, and a replica that has to forward every
//! call to that owner. The server behind each is the echo server of every other comparison here.
//!
//! | file | what happens there |
//! |---|---|
//! | `member` | a replica is started, killed, restarted |
//! | `callers` | callers with sessions go from replica to replica |

mod callers;
mod member;

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use callers::{Caller, Tally};
use member::{Member, Shared};
use redis_rig::Redis;

use crate::contender::Programs;
use crate::http::{self, Address, Era};
use crate::matrix::median;
use crate::process::Process;
use crate::report::{self, number, row, table};
use crate::target::{Bound, Target};
use crate::traffic::ECHO;

/// Bytes of the text of a call.
const TEXT: usize = 100;

/// Calls in flight, each on a connection of its own.
const FLIGHTS: [u64; 2] = [1, 64];

/// Calls before the first turn.
const WARM_UP: u64 = 500;

/// How long the server of the replica that is killed takes to start.
const START_DELAY: &str = "500ms";

/// Longer than an answer may take before a stream is promised.
const CALL_DELAY: &str = "300ms";

/// How much is measured.
pub struct Scope {
    pub rounds: usize,
    pub turn: Duration,
    /// Owners that are killed.
    pub deaths: usize,
    /// As `--lease` has it; the default if there is none.
    pub lease: Option<u64>,
    pub callers: usize,
    /// Between two restarts.
    pub calm: Duration,
}

/// Some two minutes.
pub const FULL: Scope = Scope {
    rounds: 9,
    turn: Duration::from_millis(500),
    deaths: 5,
    lease: None,
    callers: 64,
    calm: Duration::from_secs(3),
};

/// Half a minute.
pub const QUICK: Scope = Scope {
    rounds: 3,
    turn: Duration::from_millis(200),
    deaths: 2,
    lease: Some(3),
    callers: 16,
    calm: Duration::from_secs(1),
};

/// The default of `--lease`, in seconds.
const LEASE: u64 = 15;

/// What is promised.
pub struct Margin {
    /// Throughput of an owner with Redis over one without, at least.
    pub owner: f64,
    /// Throughput through a replica that forwards over one without a store, at least.
    pub forward: f64,
    /// How often the start of the server may be added to the lease.
    pub starts: f64,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Memory,
    Owner,
    Forward,
}

const WAYS: [Way; 3] = [Way::Memory, Way::Owner, Way::Forward];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Memory => "without a store",
            Way::Owner => "Redis, at the owner",
            Way::Forward => "Redis, through another replica",
        }
    }
}

/// What came of the turns of one way with one number of calls in flight.
#[derive(Clone, Debug, Default)]
struct Series {
    rates: Vec<f64>,
    p50s: Vec<f64>,
    calls: u64,
    /// Processor time of the process that was asked, and of the owner if that is another one.
    asked: Duration,
    owner: Duration,
}

/// Everything that was found.
pub struct Cluster {
    series: [[Series; FLIGHTS.len()]; WAYS.len()],
    /// Commands that Redis has got in all turns of the owner and of the forwards, and their calls.
    store_commands: (u64, u64),
    lease: Duration,
    /// The start of the server itself, and how long after the death of an owner the next call was answered.
    start: Duration,
    deaths: Vec<Duration>,
    callers: usize,
    rolled: Tally,
}

impl Cluster {
    pub fn measure(
        programs: &Programs,
        scope: &Scope,
        progress: impl Fn(&str),
    ) -> io::Result<Cluster> {
        let secret = programs.scratch.join("replica-secret");
        fs::write(&secret, "0123456789abcdef0123456789abcdef\n")?;
        let redis = Redis::start();
        let with_store = Shared {
            programs,
            store: Some(redis.url()),
            secret: &secret,
        };
        let without = Shared {
            store: None,
            ..with_store
        };
        let mut cluster = Cluster {
            series: Default::default(),
            store_commands: (0, 0),
            lease: Duration::from_secs(scope.lease.unwrap_or(LEASE)),
            start: own_start(programs)?,
            deaths: Vec::new(),
            callers: scope.callers,
            rolled: Tally::default(),
        };
        for round in 0..scope.rounds {
            progress(&format!("cluster, round {} of {}", round + 1, scope.rounds));
            cluster.round(round, scope, &redis, &with_store, &without)?;
        }
        progress("an owner is killed");
        cluster.deaths = deaths(scope, &with_store)?;
        progress("a rolling restart");
        cluster.rolled = rolling_restart(scope, &with_store)?;
        Ok(cluster)
    }

    fn round(
        &mut self,
        round: usize,
        scope: &Scope,
        redis: &Redis,
        with_store: &Shared<'_>,
        without: &Shared<'_>,
    ) -> io::Result<()> {
        let memory = Member::start(without, &[], &[])?;
        let owner = Member::start(with_store, &[], &[])?;
        let edge = Member::start(with_store, &[], &[])?;
        let (alone, kept) = (session(&memory)?, session(&owner)?);
        let forwarded = Address {
            port: edge.address().port(),
            ..kept.clone()
        };
        let at = |way| match way {
            Way::Memory => (&alone, memory.process(), None),
            Way::Owner => (&kept, owner.process(), None),
            Way::Forward => (&forwarded, edge.process(), Some(owner.process())),
        };
        let mut order = WAYS;
        if round % 2 == 1 {
            order.reverse();
        }
        for way in order {
            http::turn_at(at(way).0, TEXT, 8, Duration::ZERO, WARM_UP)?;
        }
        for (index, in_flight) in FLIGHTS.into_iter().enumerate() {
            for way in order {
                let (address, asked, behind) = at(way);
                let time = |it: Option<Process>| it.map_or(Ok(Duration::ZERO), Process::time);
                let before = (
                    asked.time()?,
                    time(behind)?,
                    redis.info("total_commands_processed"),
                );
                let (turn, calls) = http::turn_at(address, TEXT, in_flight, scope.turn, in_flight)?;
                let series = &mut self.series[way as usize][index];
                series.rates.push(turn.rate);
                series.p50s.push(turn.p50);
                series.calls += calls;
                series.asked += asked.time()? - before.0;
                series.owner += time(behind)? - before.1;
                if way != Way::Memory {
                    self.store_commands.0 += redis.info("total_commands_processed") - before.2;
                    self.store_commands.1 += calls;
                }
            }
        }
        Ok(())
    }

    fn of(&self, way: Way, index: usize) -> &Series {
        &self.series[way as usize][index]
    }

    /// The median over the rounds of the throughput of one way over that without a store.
    fn share(&self, way: Way, index: usize) -> Option<f64> {
        let pairs = self.of(way, index).rates.iter();
        let pairs = pairs.zip(&self.of(Way::Memory, index).rates);
        median(pairs.map(|(one, other)| one / other).collect())
    }

    /// Microseconds of processor time per call at the process that is asked and at the owner behind it, with the most
    /// calls in flight.
    fn costs(&self, way: Way) -> (f64, f64) {
        let Series {
            asked,
            owner,
            calls,
            ..
        } = self.of(way, FLIGHTS.len() - 1);
        let each = |time: &Duration| time.as_secs_f64() * 1e6 / (*calls).max(1) as f64;
        (each(asked), each(owner))
    }

    /// How many times the calls of one replica `count` of them can answer, each on a processor of its own, if a load
    /// balancer sends calls to any of them: by the processor time that calls cost.
    fn growth(&self, count: f64) -> f64 {
        let (owner, _) = self.costs(Way::Owner);
        let (edge, behind) = self.costs(Way::Forward);
        let each = owner / count + (edge + behind) * (count - 1.0) / count;
        count * owner / each
    }

    pub fn targets(&self, margin: &Margin) -> Vec<Target> {
        let mut targets = Vec::new();
        for (way, least) in [(Way::Owner, margin.owner), (Way::Forward, margin.forward)] {
            for (index, in_flight) in FLIGHTS.into_iter().enumerate() {
                let what = format!(
                    "throughput, {} / without a store; {in_flight} in flight",
                    way.name()
                );
                let share = self.share(way, index).unwrap_or(f64::NAN);
                targets.push(Target::new(what, Bound::AtLeast(least), share));
            }
        }
        let (commands, calls) = self.store_commands;
        targets.push(Target::new(
            "commands to Redis per prompt call (leases and our own looks at it are in it)",
            Bound::AtMost(0.01),
            commands as f64 / calls.max(1) as f64,
        ));
        let most = self.lease.as_secs_f64() + margin.starts * self.start.as_secs_f64();
        targets.push(Target::new(
            format!(
                "SIGKILL of the owner until the next call is answered, longest of {}: seconds; a lease is {} s, the \
                 server itself starts in {:.2} s",
                self.deaths.len(),
                self.lease.as_secs(),
                self.start.as_secs_f64()
            ),
            Bound::AtMost((most * 100.0).round() / 100.0),
            self.deaths
                .iter()
                .max()
                .map_or(f64::NAN, Duration::as_secs_f64),
        ));
        let Tally {
            calls,
            failed,
            begun_anew,
        } = self.rolled;
        let rolled = format!(
            "rolling restart of three under {} callers, {calls} calls",
            self.callers
        );
        for (what, count) in [("failed", failed), ("sessions begun anew", begun_anew)] {
            let what = format!("{rolled}: {what}");
            targets.push(Target::new(what, Bound::AtMost(0.0), count as f64));
        }
        targets
    }

    pub fn markdown(&self, targets: &[Target]) -> String {
        let mut page = report::machine();
        page +=
            "\nCalls of 100 bytes per second, their share of the first line's, and p50 in µs:\n\n";
        let heads: Vec<String> = FLIGHTS.map(|it| format!("{it} in flight")).into();
        let mut rows = table(&["", &heads[0], &heads[1]]);
        for way in WAYS {
            let mut fields = vec![way.name().to_owned()];
            for index in 0..FLIGHTS.len() {
                let series = self.of(way, index);
                fields.push(format!(
                    "{} ({}); {}",
                    number(median(series.rates.clone())),
                    report::ratio(self.share(way, index)),
                    number(median(series.p50s.clone()))
                ));
            }
            row(&mut rows, &fields);
        }
        page += &rows;
        page += "\nProcessor time per call with 64 in flight, in µs:\n\n";
        let mut rows = table(&["", "where the call comes in", "at the owner behind it"]);
        for way in WAYS {
            let (asked, owner) = self.costs(way);
            let behind = match way {
                Way::Forward => number(Some(owner)),
                _ => "–".into(),
            };
            row(&mut rows, &[way.name().into(), number(Some(asked)), behind]);
        }
        page += &rows;
        let _ = write!(
            page,
            "\nGrowth from one replica to three, each on a processor of its own, with calls spread over all of them: \
             {:.2} times, by these costs. Two of three calls are forwarded then, which is the limit; with affinity it \
             is 3. This machine has fewer processors than that, so it is not measured.\n\n",
            self.growth(3.0)
        );
        page += &report::judged(targets);
        page.push('\n');
        page
    }
}

/// A session at this replica.
fn session(member: &Member) -> io::Result<Address> {
    let mut address = Address {
        port: member.address().port(),
        path: "/mcp",
        era: Era::Legacy,
        tool: ECHO,
        session: None,
    };
    http::shake_hands(&mut address)?;
    Ok(address)
}

/// How long the server that is late to start takes until it answers.
fn own_start(programs: &Programs) -> io::Result<Duration> {
    let mut all = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let mut server = Command::new(&programs.echo)
            .args(["--start-delay", START_DELAY])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(mut input), Some(output)) = (server.stdin.take(), server.stdout.take()) else {
            return Err(io::Error::other("no pipes"));
        };
        writeln!(input, "{}", http_peer::message::initialize())?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        all.push(begun.elapsed().as_secs_f64());
        drop(input);
        server.wait()?;
    }
    Ok(Duration::from_secs_f64(median(all).unwrap_or_default()))
}

/// How long after the death of its owner the next call of a session was answered, each with replicas of its own.
fn deaths(scope: &Scope, shared: &Shared<'_>) -> io::Result<Vec<Duration>> {
    let lease = scope.lease.map(|it| format!("{it}s"));
    let settings: Vec<&str> = match &lease {
        Some(lease) => vec!["--lease", lease],
        None => Vec::new(),
    };
    let one = |nth: usize| -> io::Result<Duration> {
        let server = ["--start-delay", START_DELAY];
        let mut owner = Member::start(shared, &settings, &server)?;
        let edge = Member::start(shared, &settings, &server)?;
        let mut caller = Caller::begin(&[owner.address()], 0)?;
        answered(&mut caller)?;
        caller.go_to(&[edge.address()]);
        answered(&mut caller)?;
        // Not all at the same distance from the last renewal.
        thread::sleep(Duration::from_millis(700 * nth as u64));
        owner.kill()?;
        let killed = Instant::now();
        answered(&mut caller)?;
        Ok(killed.elapsed())
    };
    thread::scope(|scope_| {
        let one = &one;
        let all: Vec<_> = (0..scope.deaths)
            .map(|nth| scope_.spawn(move || one(nth)))
            .collect();
        all.into_iter()
            .map(|it| it.join().map_err(|_| io::Error::other("it broke"))?)
            .collect()
    })
}

/// Calls, and has to be answered with a result.
fn answered(caller: &mut Caller) -> io::Result<()> {
    match caller.call()? {
        Ok(answer) if answer.get("result").is_some() => Ok(()),
        other => Err(io::Error::other(format!("no result: {other:?}"))),
    }
}

/// Restarts three replicas in order, one after the other, while everybody calls.
fn rolling_restart(scope: &Scope, shared: &Shared<'_>) -> io::Result<Tally> {
    let server = ["--call-delay", CALL_DELAY];
    let all: io::Result<Vec<Member>> = (0..3)
        .map(|_| Member::start(shared, &["--drain", "30s"], &server))
        .collect();
    let mut all = all?;
    let places: Vec<_> = all.iter().map(Member::address).collect();
    callers::while_calling(scope.callers, &places, || {
        thread::sleep(scope.calm);
        for member in &mut all {
            member.restart()?;
            thread::sleep(scope.calm);
        }
        Ok(())
    })
}
