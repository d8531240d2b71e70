//! The comparison over HTTP: every contender in every cell, round after round, in turns as in [`crate::matrix`].

use std::io;
use std::path::Path;
use std::time::Duration;

use super::contender::{Contender, Kind, Running, Side};
use super::fleet::{Fleet, Flow};
use super::wire::Address;
use crate::matrix::{Cell, Effort, median};
use crate::process::Process;

/// Sizes of texts.
pub const TEXTS: [usize; 2] = [100, 10_000];

/// Calls in flight, each on a connection of its own.
pub const FLIGHTS: [u64; 3] = [1, 16, 64];

/// A turn takes this many calls, however slow they are.
const LEAST_CALLS: u64 = 20;

/// Calls before the first turn, so that caches and lazy starts are behind us.
const WARM_UP: u64 = 200;

/// Every text with every number of calls in flight.
pub fn all_cells() -> Vec<Cell> {
    TEXTS
        .into_iter()
        .flat_map(|text| FLIGHTS.map(|in_flight| Cell { text, in_flight }))
        .collect()
}

/// What came of one turn.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Calls answered per second.
    pub rate: f64,
    /// Microseconds.
    pub p50: f64,
    /// Microseconds.
    pub p99: f64,
}

impl From<Flow> for Turn {
    fn from(Flow { took, each }: Flow) -> Turn {
        let percentile = |percent: usize| {
            let place = each.len().saturating_sub(1) * percent / 100;
            each.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e6)
        };
        Turn {
            rate: each.len() as f64 / took.as_secs_f64(),
            p50: percentile(50),
            p99: percentile(99),
        }
    }
}

/// Resident memory of all processes but the echo server's, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// After the handshake.
    pub at_rest: f64,
    /// After the last turn of a round.
    pub at_work: f64,
}

/// What was measured.
pub struct Matrix {
    /// Who took part.
    pub contenders: Vec<Contender>,
    /// In which cells.
    pub cells: Vec<Cell>,
    /// By contender, cell and round.
    turns: Vec<Vec<Vec<Turn>>>,
    /// By contender and round.
    memory: Vec<Vec<Memory>>,
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
            memory: vec![Vec::new(); contenders.len()],
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
        let mut running = Vec::new();
        let mut at_rest = Vec::new();
        for contender in &self.contenders {
            let this = Running::start(contender, scratch)?;
            at_rest.push(memory(&this)?);
            turn(&this, TEXTS[0], 8, Duration::ZERO, WARM_UP)
                .map_err(|error| io::Error::other(format!("{}: {error}", contender.name)))?;
            running.push(this);
        }
        let mut order: Vec<usize> = (0..running.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (index, cell) in self.cells.iter().enumerate() {
            for &who in &order {
                let Cell { text, in_flight } = *cell;
                let least = in_flight.max(LEAST_CALLS);
                let turn = turn(&running[who], text, in_flight, time, least);
                let named = |error| {
                    let name = &self.contenders[who].name;
                    io::Error::other(format!("{name}, {cell}: {error}"))
                };
                self.turns[who][index].push(turn.map_err(named)?);
            }
        }
        for (who, (running, at_rest)) in running.iter().zip(at_rest).enumerate() {
            let at_work = memory(running)?;
            self.memory[who].push(Memory { at_rest, at_work });
        }
        Ok(())
    }

    /// The places of one kind, ours first.
    pub fn of(&self, kind: Kind) -> Vec<usize> {
        let all = 0..self.contenders.len();
        all.filter(|&who| self.contenders[who].kind == kind)
            .collect()
    }

    /// The places of one side.
    pub fn of_side(&self, side: Side) -> impl Iterator<Item = usize> {
        let all = 0..self.contenders.len();
        all.filter(move |&who| self.contenders[who].side == side)
    }

    fn series(&self, who: usize, cell: Cell, what: fn(&Turn) -> f64) -> Vec<f64> {
        let index = self.cells.iter().position(|other| *other == cell);
        index.map_or(Vec::new(), |index| {
            self.turns[who][index].iter().map(what).collect()
        })
    }

    /// The median over the rounds.
    pub fn median(&self, who: usize, cell: Cell, what: fn(&Turn) -> f64) -> Option<f64> {
        median(self.series(who, cell, what))
    }

    /// The median over the rounds of one over the other in the same round.
    pub fn ratio(
        &self,
        one: usize,
        other: usize,
        cell: Cell,
        what: fn(&Turn) -> f64,
    ) -> Option<f64> {
        let pairs = self.series(one, cell, what).into_iter();
        let pairs = pairs.zip(self.series(other, cell, what));
        median(pairs.map(|(one, other)| one / other).collect())
    }

    /// The median over the rounds, in bytes.
    pub fn memory(&self, who: usize, what: fn(&Memory) -> f64) -> Option<f64> {
        median(self.memory[who].iter().map(what).collect())
    }
}

/// Takes one turn, on connections of its own: some servers close those that were idle for a few seconds.
pub fn turn(
    running: &Running,
    text: usize,
    in_flight: u64,
    time: Duration,
    least: u64,
) -> io::Result<Turn> {
    Ok(turn_at(&running.address, text, in_flight, time, least)?.0)
}

/// The same wherever this leads; also how many calls it were.
pub fn turn_at(
    address: &Address,
    text: usize,
    in_flight: u64,
    time: Duration,
    least: u64,
) -> io::Result<(Turn, u64)> {
    let mut call = address.call(text);
    let mut fleet = Fleet::connect(address.port, in_flight as usize)?;
    let flow = fleet.stream(&mut call, time, least)?;
    let calls = flow.each.len() as u64;
    Ok((flow.into(), calls))
}

fn memory(running: &Running) -> io::Result<f64> {
    let all = running.processes()?.into_iter().map(Process::resident);
    let all: io::Result<Vec<u64>> = all.collect();
    Ok(all?.iter().sum::<u64>() as f64)
}
