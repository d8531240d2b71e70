//! The comparison: every contender in every cell, round after round.
//!
//! A machine drifts: other work comes and goes, clocks change, a process may sit well or badly on the processors. So in
//! each round every contender is started afresh, and within a cell they take turns of a fraction of a second, forwards
//! in one round and backwards in the next. What is compared is then a ratio of neighbours in time, and what is reported
//! is the median over the rounds.

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::contender::{Contender, Role};
use crate::host::Host;
use crate::traffic::Batch;

/// A workload: how large the texts are, and how many calls are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Bytes of text in a call, and in its answer.
    pub text: usize,
    /// Calls in flight.
    pub in_flight: u64,
}

impl fmt::Display for Cell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text {
            text @ 1_000_000.. => write!(out, "{} MB, ", text / 1_000_000)?,
            text @ 1_000.. => write!(out, "{} KB, ", text / 1_000)?,
            text => write!(out, "{text} B, ")?,
        }
        match self.in_flight {
            1 => out.write_str("one at a time"),
            many => write!(out, "{many} in flight"),
        }
    }
}

/// Small, middling and large texts.
pub const TEXTS: [usize; 3] = [100, 10_000, 1_000_000];

/// Calls in flight.
pub const FLIGHTS: [u64; 4] = [1, 16, 64, 256];

/// Every text with every number of calls in flight.
pub fn all_cells() -> Vec<Cell> {
    TEXTS
        .into_iter()
        .flat_map(|text| FLIGHTS.map(|in_flight| Cell { text, in_flight }))
        .collect()
}

/// A turn of one contender in one cell.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Calls answered per second.
    pub rate: f64,
    /// Half of the calls took no longer, in microseconds. One call at a time only.
    pub p50: f64,
    /// 99 of 100 calls took no longer, in microseconds. One call at a time only.
    pub p99: f64,
    /// Processor time of what stands in the middle, in microseconds per call.
    pub processor: f64,
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds; each starts every contender afresh.
    pub rounds: usize,
    /// How long a turn lasts, at least.
    pub turn: Duration,
}

/// Calls before the first turn, so that caches and lazy starts are behind us.
const WARM_UP: u64 = 200;

/// A turn takes this many calls, however slow they are.
const LEAST_CALLS: u64 = 20;

/// A contender sits a cell out if filling its flight once would take longer than this.
const LONGEST_FLIGHT: Duration = Duration::from_secs(2);

/// What was measured.
pub struct Matrix {
    /// Who took part, in order.
    pub contenders: Vec<Contender>,
    /// In which cells.
    pub cells: Vec<Cell>,
    /// By contender, cell and round. No turn if the contender sat the cell out.
    turns: Vec<Vec<Vec<Option<Turn>>>>,
    /// By contender and round: resident memory of what stands in the middle, at rest, in bytes.
    resident: Vec<Vec<f64>>,
}

impl Matrix {
    /// Measures. `progress` is told before each round.
    pub fn measure(
        contenders: Vec<Contender>,
        cells: Vec<Cell>,
        effort: Effort,
        scratch: &Path,
        mut progress: impl FnMut(usize),
    ) -> io::Result<Matrix> {
        let mut matrix = Matrix {
            turns: vec![vec![Vec::new(); cells.len()]; contenders.len()],
            resident: vec![Vec::new(); contenders.len()],
            contenders,
            cells,
        };
        for round in 0..effort.rounds {
            progress(round);
            matrix.round(round, effort.turn, scratch)?;
        }
        Ok(matrix)
    }

    fn round(&mut self, round: usize, time: Duration, scratch: &Path) -> io::Result<()> {
        let mut hosts = Vec::new();
        for (contender, resident) in self.contenders.iter().zip(&mut self.resident) {
            let mut host = Host::start(contender, scratch)?;
            let at_rest = memory(&host, contender.role)?;
            if contender.role != Role::Direct {
                resident.push(at_rest);
            }
            host.many_at_once(
                &mut Batch::of(contender.tool, TEXTS[0]),
                8,
                Duration::ZERO,
                WARM_UP,
            )?;
            hosts.push(host);
        }
        let mut order: Vec<usize> = (0..hosts.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (index, cell) in self.cells.iter().enumerate() {
            for &who in &order {
                let contender = &self.contenders[who];
                let mut batch = Batch::of(contender.tool, cell.text);
                let turn = match self.sits_out(who, *cell) {
                    true => None,
                    false => Some(
                        turn(&mut hosts[who], contender.role, &mut batch, *cell, time).map_err(
                            |error| {
                                io::Error::other(format!("{}, {cell}: {error}", contender.name))
                            },
                        )?,
                    ),
                };
                self.turns[who][index].push(turn);
            }
        }
        Ok(())
    }

    /// One megabyte 256 times at once through a slow peer would take minutes and show nothing new.
    fn sits_out(&self, who: usize, cell: Cell) -> bool {
        let alone = Cell {
            in_flight: 1,
            ..cell
        };
        // The fastest turn so far: a slow one may have been the machine's fault.
        let fastest = self
            .series(who, alone, |turn| turn.p50)
            .flatten()
            .min_by(f64::total_cmp);
        cell.in_flight > 1
            && fastest.is_some_and(|p50| {
                Duration::from_secs_f64(p50 / 1e6) * cell.in_flight as u32 > LONGEST_FLIGHT
            })
    }

    /// The place of a role among the contenders.
    pub fn find(&self, role: Role) -> Option<usize> {
        self.contenders
            .iter()
            .position(|contender| contender.role == role)
    }

    /// The median over the rounds of something measured; `None` if the contender sat the cell out.
    pub fn median(&self, who: usize, cell: Cell, what: fn(&Turn) -> f64) -> Option<f64> {
        median(self.series(who, cell, what).flatten().collect())
    }

    /// The median over the rounds of something made of two contenders' turns in the same round.
    pub fn median_of_pairs(
        &self,
        [one, other]: [usize; 2],
        cell: Cell,
        what: fn(&Turn) -> f64,
        made: fn(f64, f64) -> f64,
    ) -> Option<f64> {
        let pairs = self
            .series(one, cell, what)
            .zip(self.series(other, cell, what));
        median(
            pairs
                .filter_map(|(one, other)| Some(made(one?, other?)))
                .collect(),
        )
    }

    /// Something measured, round by round.
    fn series(
        &self,
        who: usize,
        cell: Cell,
        what: fn(&Turn) -> f64,
    ) -> impl Iterator<Item = Option<f64>> {
        let index = self.cells.iter().position(|&other| other == cell);
        let turns = index.map_or(&[][..], |index| &self.turns[who][index]);
        turns.iter().map(move |turn| turn.as_ref().map(what))
    }

    /// Resident memory at rest, in bytes.
    pub fn resident(&self, who: usize) -> Option<f64> {
        median(self.resident[who].clone())
    }
}

/// Takes one turn.
pub fn turn(
    host: &mut Host,
    role: Role,
    batch: &mut Batch,
    Cell { in_flight, .. }: Cell,
    time: Duration,
) -> io::Result<Turn> {
    let before = processor_time(host, role)?;
    let (calls, took, mut each) = match in_flight {
        1 => {
            let each = host.one_by_one(batch, time, LEAST_CALLS)?;
            (each.len() as u64, each.iter().sum::<Duration>(), each)
        }
        _ => {
            let flow = host.many_at_once(batch, in_flight, time, in_flight.max(LEAST_CALLS))?;
            (flow.calls, flow.took, Vec::new())
        }
    };
    let used = processor_time(host, role)?.saturating_sub(before);
    each.sort_unstable();
    Ok(Turn {
        rate: calls as f64 / took.as_secs_f64(),
        p50: percentile(&each, 50),
        p99: percentile(&each, 99),
        processor: used.as_secs_f64() * 1e6 / calls as f64,
    })
}

fn processor_time(host: &Host, role: Role) -> io::Result<Duration> {
    host.middle(role)?
        .into_iter()
        .map(|process| process.time())
        .sum()
}

/// Resident memory of what stands in the middle, in bytes.
pub fn memory(host: &Host, role: Role) -> io::Result<f64> {
    let all: io::Result<Vec<u64>> = host
        .middle(role)?
        .into_iter()
        .map(|process| process.resident())
        .collect();
    Ok(all?.iter().sum::<u64>() as f64)
}

/// In microseconds; zero if nothing was timed.
fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let place = last * percent / 100;
    sorted
        .get(place)
        .map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

/// The middle value; `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn percentiles_are_times_that_were_seen() {
        let times: Vec<_> = (1..=101).map(Duration::from_micros).collect();
        assert_eq!(percentile(&times, 50).round(), 51.0);
        assert_eq!(percentile(&times, 99).round(), 100.0);
        assert_eq!(percentile(&[], 50), 0.0);
    }
}
