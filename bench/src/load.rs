//! What a crowd does to `outlive serve`: many sessions at once, many requests in flight, and clients that vanish.
//!
//! Nothing here is timed. What is asked is that every request of every client gets its own answer, what a client costs
//! in memory, and that nothing is left of clients that have gone: no process, no descriptor, no thread, no session.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::contender::Programs;
use crate::endurance::Holding;
use crate::http::{self, Address, Contender, Era, Fleet, Outcome, Running};
use crate::process::Process;
use crate::report::{grouped, number, row, table};
use crate::target::{Bound, Target};

/// How long what clients have left may take to be put away. Only a leak takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a session lasts in a storm …
const TTL: &str = "3s";

/// … and after how long it is forgotten for certain, unless the machine is very busy.
const FORGOTTEN: Duration = Duration::from_secs(6);

/// Sessions there may be in a storm: more than come before the first are forgotten.
const ROOM: &str = "20000";

/// Clients of a storm that come at the same moment.
const WAVE: usize = 50;

/// How many of everything.
pub struct Numbers {
    /// Sessions at once.
    pub sessions: usize,
    /// Modern requests in flight.
    pub in_flight: usize,
    /// Clients that connect and vanish.
    pub storm: usize,
}

/// What is promised.
pub const MANY: Numbers = Numbers {
    sessions: 1_000,
    in_flight: 10_000,
    storm: 10_000,
};

/// What a test has the time for.
pub const FEW: Numbers = Numbers {
    sessions: 200,
    in_flight: 2_000,
    storm: 1_000,
};

/// What was found.
pub struct Load {
    crowds: Vec<Crowd>,
    flight: Flight,
    storms: Vec<Storm>,
}

/// Many sessions at once.
struct Crowd {
    kind: &'static str,
    sessions: usize,
    /// Requests that were not answered as they should be.
    failed: usize,
    /// What a session that nobody uses costs outlive, in bytes. Its server is not counted.
    idle: f64,
    before: Holding,
    /// With all sessions there.
    during: Holding,
    /// After they were ended.
    after: Holding,
}

/// Many modern requests in flight.
struct Flight {
    requests: usize,
    /// So many had been sent and not been answered.
    most: usize,
    failed: usize,
    /// What a request in flight costs outlive, its connection included, in bytes.
    each: f64,
}

/// Clients that vanish.
struct Storm {
    kind: &'static str,
    clients: usize,
    failed: usize,
    /// Sessions that are still there.
    alive: usize,
    before: Holding,
    after: Holding,
}

impl Load {
    /// Measures. `progress` is told what comes next.
    pub fn measure(
        programs: &Programs,
        numbers: &Numbers,
        mut progress: impl FnMut(String),
    ) -> io::Result<Load> {
        raise_limit()?;
        let scratch = &programs.scratch;
        let kinds = [
            ("a server each", &["--max-servers", ROOM][..]),
            ("--share", &["--share"][..]),
        ];
        let mut crowds = Vec::new();
        for (kind, settings) in kinds {
            progress(format!("{} sessions, {kind}", numbers.sessions));
            let contender = http::outlive(programs, Era::Legacy, settings);
            crowds.push(crowd(kind, &contender, scratch, numbers.sessions)?);
        }
        progress(format!("{} requests in flight", numbers.in_flight));
        let mut slow = http::outlive(programs, Era::Modern, &[]);
        slow.command
            .extend(["--call-delay", "5000ms"].map(Into::into));
        let flight = flight(&slow, scratch, numbers.in_flight)?;
        let mut storms = Vec::new();
        for (kind, settings) in kinds {
            progress(format!("{} clients that vanish, {kind}", numbers.storm));
            let mut words = vec!["--session-ttl", TTL, "--max-sessions", ROOM];
            words.extend(settings);
            let contender = http::outlive(programs, Era::Legacy, &words);
            storms.push(storm(kind, &contender, scratch, numbers.storm)?);
        }
        Ok(Load {
            crowds,
            flight,
            storms,
        })
    }

    /// What has to hold.
    pub fn targets(&self) -> Vec<Target> {
        let none = |what: String, found: usize| Target::new(what, Bound::AtMost(0.0), found as f64);
        let mut targets = Vec::new();
        for it in &self.crowds {
            let name = format!("{} sessions, {}", it.sessions, it.kind);
            targets.push(none(format!("calls that failed: {name}"), it.failed));
            targets.push(none(
                format!("left behind: {name}"),
                left(&it.before, &it.after),
            ));
        }
        let Flight {
            requests,
            most,
            failed,
            ..
        } = self.flight;
        targets.push(none(
            format!("calls that failed: {requests} in flight"),
            failed,
        ));
        targets.push(Target::new(
            "modern requests in flight at once",
            Bound::AtLeast(requests as f64),
            most as f64,
        ));
        for it in &self.storms {
            let name = format!("{} that vanish, {}", it.clients, it.kind);
            targets.push(none(format!("calls that failed: {name}"), it.failed));
            targets.push(none(format!("sessions left: {name}"), it.alive));
            targets.push(none(
                format!("left behind: {name}"),
                left(&it.before, &it.after),
            ));
        }
        targets
    }

    /// What was found, for the page.
    pub fn markdown(&self, targets: &[Target]) -> String {
        let mut page = table(&["", "failed", "memory each", "files", "threads", "children"]);
        let span = |of: fn(&Holding) -> usize, all: &[&Holding]| {
            let all: Vec<_> = all.iter().map(|it| grouped(of(it) as f64)).collect();
            all.join(" → ")
        };
        let mut line = |name: String, failed: usize, each: Option<f64>, all: &[&Holding]| {
            row(
                &mut page,
                &[
                    name,
                    failed.to_string(),
                    each.map_or("–".into(), |bytes| {
                        format!("{} KB", number(Some(bytes / 1e3)))
                    }),
                    span(|it| it.files, all),
                    span(|it| it.threads, all),
                    span(|it| it.children, all),
                ],
            );
        };
        for it in &self.crowds {
            let name = format!("{} sessions, {}", grouped(it.sessions as f64), it.kind);
            let all = [&it.before, &it.during, &it.after];
            line(name, it.failed, Some(it.idle), &all);
        }
        let it = &self.flight;
        let name = format!("{} modern requests in flight", grouped(it.requests as f64));
        line(name, it.failed, Some(it.each), &[]);
        for it in &self.storms {
            let name = format!("{} that vanish, {}", grouped(it.clients as f64), it.kind);
            line(name, it.failed, None, &[&it.before, &it.after]);
        }
        page.push('\n');
        page += &crate::report::judged(targets);
        page.push('\n');
        page
    }
}

/// Files, threads and children that were not there before.
fn left(before: &Holding, after: &Holding) -> usize {
    let more = |of: fn(&Holding) -> usize| of(after).saturating_sub(of(before));
    more(|it| it.files) + more(|it| it.threads) + more(|it| it.children)
}

fn crowd(
    kind: &'static str,
    contender: &Contender,
    scratch: &Path,
    sessions: usize,
) -> io::Result<Crowd> {
    let running = Running::start(contender, scratch)?;
    let process = running.process();
    // One comes and goes first: what outlive keeps from its first server on is not left behind by anybody.
    let mut first = Guests::default();
    let alone = Holding::of(process)?.children;
    first.come(&running.address, 1)?;
    first.talk("before the others")?;
    first.ask(Address::delete)?;
    first.hang_up();
    let before = once(process, |now| now.children <= alone)?;

    let mut guests = Guests::default();
    guests.come(&running.address, sessions)?;
    let mut failed = guests.talk("first")?;
    guests.hang_up();
    let during = Holding::of(process)?;
    // They are still who they were.
    failed += guests.talk("second")?;
    let ended = guests.ask(Address::delete)?;
    failed += ended
        .iter()
        .filter(|it| !matches!(it.status, 200..=204))
        .count();
    guests.hang_up();
    let after = once(process, |now| left(&before, now) == 0)?;
    let grown = during.resident.saturating_sub(before.resident);
    Ok(Crowd {
        kind,
        sessions,
        failed,
        idle: grown as f64 / sessions as f64,
        before,
        during,
        after,
    })
}

fn flight(contender: &Contender, scratch: &Path, requests: usize) -> io::Result<Flight> {
    let running = Running::start(contender, scratch)?;
    let process = running.process();
    let before = Holding::of(process)?;
    let mut fleet = Fleet::connect(running.address.port, requests)?;
    let texts: Vec<String> = (0..requests).map(|n| format!("request {n}.")).collect();
    let (peak, asked) = peak(process, || fleet.ask(|n| running.address.say(7, &texts[n])));
    let (outcomes, most) = asked?;
    let failed = outcomes.iter().zip(&texts);
    let failed = failed
        .filter(|(outcome, text)| !answers(outcome, text))
        .count();
    Ok(Flight {
        requests,
        most,
        failed,
        each: peak?.saturating_sub(before.resident) as f64 / requests as f64,
    })
}

fn storm(
    kind: &'static str,
    contender: &Contender,
    scratch: &Path,
    clients: usize,
) -> io::Result<Storm> {
    let running = Running::start(contender, scratch)?;
    let process = running.process();
    // The session that everybody begins with is the first to be forgotten.
    thread::sleep(FORGOTTEN);
    let before = Holding::of(process)?;

    let mut gone = Vec::new();
    let mut failed = 0;
    for wave in 0..clients / WAVE {
        let mut guests = Guests::default();
        guests.come(&running.address, WAVE)?;
        match wave % 3 {
            // Before a call, with a call in flight, after a call.
            0 => {}
            1 => guests.tell("and off")?,
            _ => failed += guests.talk("thank you")?,
        }
        gone.extend(guests.addresses.pop());
        guests.hang_up();
    }
    let alive = forgotten(&gone)?;
    let after = once(process, |now| left(&before, now) == 0)?;
    Ok(Storm {
        kind,
        clients,
        failed,
        alive,
        before,
        after,
    })
}

/// Waits until these sessions are forgotten. How many are not when patience ends.
fn forgotten(sessions: &[Address]) -> io::Result<usize> {
    let start = Instant::now();
    loop {
        // To ask is to use: it is not done before what was used last can have been forgotten.
        thread::sleep(FORGOTTEN);
        let alive = alive(sessions)?;
        if alive == 0 || start.elapsed() > PATIENCE {
            return Ok(alive);
        }
    }
}

/// How many of these sessions a call still finds. Those that are gone are answered with 404.
fn alive(sessions: &[Address]) -> io::Result<usize> {
    let Some(first) = sessions.first() else {
        return Ok(0);
    };
    let mut fleet = Fleet::connect(first.port, sessions.len())?;
    let (outcomes, _) = fleet.ask(|n| sessions[n].say(1, "anybody?"))?;
    Ok(outcomes
        .iter()
        .filter(|outcome| outcome.status != 404)
        .count())
}

/// Legacy clients, each with a session and a connection of its own.
#[derive(Default)]
struct Guests {
    addresses: Vec<Address>,
    fleet: Option<Fleet>,
}

impl Guests {
    /// All shake hands at the same time.
    fn come(&mut self, address: &Address, count: usize) -> io::Result<()> {
        self.addresses = vec![
            Address {
                session: None,
                ..address.clone()
            };
            count
        ];
        self.hang_up();
        let outcomes = self.ask(Address::initialize)?;
        for (address, outcome) in self.addresses.iter_mut().zip(outcomes) {
            if outcome.session.is_none() || !outcome.body.contains("\"result\"") {
                return Err(io::Error::other(format!("no session: {outcome:?}")));
            }
            address.session = outcome.session;
        }
        let outcomes = self.ask(Address::initialized)?;
        match outcomes.iter().find(|outcome| outcome.status != 202) {
            Some(outcome) => Err(io::Error::other(format!("no session: {outcome:?}"))),
            None => Ok(()),
        }
    }

    fn fleet(&mut self) -> io::Result<&mut Fleet> {
        let connected = match self.fleet.take() {
            Some(fleet) => fleet,
            None => Fleet::connect(self.addresses[0].port, self.addresses.len())?,
        };
        Ok(self.fleet.insert(connected))
    }

    fn ask(&mut self, request: impl Fn(&Address) -> Vec<u8>) -> io::Result<Vec<Outcome>> {
        let addresses = self.addresses.clone();
        Ok(self.fleet()?.ask(|n| request(&addresses[n]))?.0)
    }

    /// All call at the same time, under the same id and each with a text of its own. How many did not get it back.
    fn talk(&mut self, word: &str) -> io::Result<usize> {
        let addresses = self.addresses.clone();
        let text = |n: usize| format!("{word} of guest {n}.");
        let (outcomes, _) = self.fleet()?.ask(|n| addresses[n].say(7, &text(n)))?;
        let wrong = outcomes.iter().enumerate();
        let wrong = wrong.filter(|(n, outcome)| !answers(outcome, &text(*n)));
        Ok(wrong.count())
    }

    /// All call, and nobody waits.
    fn tell(&mut self, word: &str) -> io::Result<()> {
        let addresses = self.addresses.clone();
        self.fleet()?.tell(|n| addresses[n].say(8, word))
    }

    /// All connections are closed. The sessions stay.
    fn hang_up(&mut self) {
        self.fleet = None;
    }
}

/// Whether a call got its text back. The first that did not is shown.
fn answers(outcome: &Outcome, text: &str) -> bool {
    static SHOWN: AtomicBool = AtomicBool::new(false);
    let right = outcome.status == 200
        && outcome.body.contains("\"result\"")
        && outcome.body.contains(&format!("\"{text}\""));
    if !right && !SHOWN.swap(true, Ordering::Relaxed) {
        eprintln!("instead of {text:?}: {outcome:?}");
    }
    right
}

/// What is held once it is as it should be, or what is still held when patience ends.
fn once(process: Process, should_be: impl Fn(&Holding) -> bool) -> io::Result<Holding> {
    let start = Instant::now();
    loop {
        let now = Holding::of(process)?;
        if should_be(&now) || start.elapsed() > PATIENCE {
            return Ok(now);
        }
    }
}

/// The highest memory of outlive while something happens, in bytes.
fn peak<R>(process: Process, happens: impl FnOnce() -> R) -> (io::Result<u64>, R) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut highest = process.resident()?;
            while !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(50));
                highest = highest.max(process.resident()?);
            }
            Ok(highest)
        });
        let result = happens();
        done.store(true, Ordering::Relaxed);
        let highest = watching.join();
        let highest = highest.unwrap_or_else(|_| Err(io::Error::other("nobody watched")));
        (highest, result)
    })
}

/// As many descriptors as the system allows, for us and for what we start.
fn raise_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )?;
    Ok(())
}
