//! One server to a hundred: what a call, a list and a server that does not run cost.

use std::io;
use std::time::{Duration, Instant};

use super::one_processor::OneProcessor;
use super::server_file::{ServerFile, count_tools};
use super::start::router;
use super::{Margin, at_most};
use crate::contender::Programs;
use crate::http::{self, Fleet, Running};
use crate::matrix::{Effort, median};
use crate::target::Target;

/// How many servers there are.
const COUNTS: [usize; 3] = [1, 10, 100];

/// How many tools each of them has.
const TOOLS: usize = 10;

/// Lists asked for in a turn.
const LISTS: u32 = 20;

/// A turn takes this many calls, however slow they are.
const LEAST_CALLS: u64 = 50;

/// What was measured with one number of servers.
pub struct Step {
    /// How it is called in tables.
    pub name: String,
    /// By round, in microseconds: one call of the first server's, and a list by tool.
    call: Vec<f64>,
    list: Vec<f64>,
}

/// What was measured.
pub struct Growth {
    steps: Vec<Step>,
    /// What a server costs that does not run, in bytes.
    idle_server: f64,
}

impl Growth {
    /// Measures.
    pub fn measure(programs: &Programs, effort: Effort) -> io::Result<Growth> {
        let _pinned = OneProcessor::pin()?;
        let mut running = Vec::new();
        let mut steps = Vec::new();
        for count in COUNTS {
            let file = ServerFile::new(programs, count, TOOLS)?;
            let plural = if count == 1 { "" } else { "s" };
            let start = |name: String| -> io::Result<(Running, Step, usize)> {
                let running = Running::start(&router(programs, &file), &programs.scratch)?;
                let step = Step {
                    name,
                    call: Vec::new(),
                    list: Vec::new(),
                };
                Ok((running, step, file.all_tools()))
            };
            running.push(start(format!("{count} server{plural}"))?);
            if count == COUNTS[COUNTS.len() - 1] {
                let all = start(format!("{count} servers, all in use"))?;
                use_all(&all.0, count)?;
                running.push(all);
            }
        }
        for round in 0..effort.rounds {
            let mut order: Vec<usize> = (0..running.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for who in order {
                let (running, step, tools) = &mut running[who];
                let turn = http::turn(running, 100, 1, effort.turn, LEAST_CALLS)?;
                step.call.push(turn.p50);
                step.list
                    .push(list(running, *tools)?.as_secs_f64() * 1e6 / *tools as f64);
            }
        }
        steps.extend(running.into_iter().map(|(_, step, _)| step));
        Ok(Growth {
            steps,
            idle_server: idle_server_bytes(programs)?,
        })
    }

    /// The steps: the name, a call in microseconds and over that with one server, a list in microseconds per tool.
    pub fn rows(&self) -> impl Iterator<Item = (&str, [Option<f64>; 3])> {
        self.steps.iter().map(|step| {
            let call = median(step.call.clone());
            let list = median(step.list.clone());
            (step.name.as_str(), [call, self.over_first(step), list])
        })
    }

    fn over_first(&self, step: &Step) -> Option<f64> {
        let pairs = step.call.iter().zip(&self.steps.first()?.call);
        median(pairs.map(|(one, other)| one / other).collect())
    }

    pub fn targets(&self, margin: &Margin) -> Vec<Target> {
        let mut targets: Vec<Target> = self
            .steps
            .iter()
            .skip(1)
            .map(|step| {
                let what = format!("time of a call, {} / 1 server", step.name);
                at_most(what, margin.growth, self.over_first(step))
            })
            .collect();
        targets.push(idle_server(self.idle_server, margin));
        targets
    }
}

/// The promise about a server that does not run.
pub fn idle_server(bytes: f64, margin: &Margin) -> Target {
    at_most(
        format!("KB of memory for a server with {TOOLS} tools that does not run"),
        margin.idle_server,
        Some(bytes / 1e3),
    )
}

/// What outlive has resident with a hundred servers that do not run more than with one, by server, after a client has
/// asked for the list.
pub fn idle_server_bytes(programs: &Programs) -> io::Result<f64> {
    let resident = |count: usize| -> io::Result<f64> {
        let file = ServerFile::new(programs, count, TOOLS)?;
        let running = Running::start(&router(programs, &file), &programs.scratch)?;
        list(&running, file.all_tools())?;
        Ok(running.process().resident()? as f64)
    };
    let [least, .., most] = COUNTS;
    Ok((resident(most)? - resident(least)?) / (most - least) as f64)
}

/// How long a list takes.
fn list(running: &Running, tools: usize) -> io::Result<Duration> {
    let mut fleet = Fleet::connect(running.address.port, 1)?;
    let request = running.address.list_tools();
    let mut took = Duration::ZERO;
    for _ in 0..LISTS {
        let begun = Instant::now();
        let outcome = fleet.ask(|_| request.clone())?.0.remove(0);
        took += begun.elapsed();
        if count_tools(&outcome.body) != tools {
            return Err(io::Error::other(format!("not {tools} tools")));
        }
    }
    Ok(took / LISTS)
}

/// Calls every server once, so that all of them run.
fn use_all(running: &Running, count: usize) -> io::Result<()> {
    let mut fleet = Fleet::connect(running.address.port, 1)?;
    for number in 0..count {
        let name = format!("s{number:03}__echo");
        let request = running.address.say_to(&name, 1, "here");
        let outcome = fleet.ask(|_| request.clone())?.0.remove(0);
        if !outcome.body.contains("here") {
            return Err(io::Error::other(format!(
                "{name} does not answer: {outcome:?}"
            )));
        }
    }
    Ok(())
}
