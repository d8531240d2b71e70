//! What outlive promises, with what was measured beside it.

use std::fmt;

use crate::contender::Role;
use crate::endurance::{Recovery, Span};
use crate::matrix::{Cell, Matrix, Turn};

/// On which side of its bound a number has to be.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

/// A promise and what became of it.
pub struct Target {
    /// What is promised.
    pub what: String,
    /// The bound.
    pub bound: Bound,
    /// What was measured.
    pub measured: f64,
}

impl Target {
    /// A promise about a number.
    pub fn new(what: impl Into<String>, bound: Bound, measured: f64) -> Target {
        Target {
            what: what.into(),
            bound,
            measured,
        }
    }

    /// Whether it was kept. What could not be measured was not.
    pub fn met(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.measured <= most,
            Bound::AtLeast(least) => self.measured >= least,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtMost(most) => out.pad(&format!("≤ {most}")),
            Bound::AtLeast(least) => out.pad(&format!("≥ {least}")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.met() { "pass" } else { "FAIL" };
        let Target {
            what,
            bound,
            measured,
        } = self;
        write!(out, "{verdict}  {measured:7.2} {bound:8}  {what}")
    }
}

fn cell(text: usize, in_flight: u64) -> Cell {
    Cell { text, in_flight }
}

fn p50(turn: &Turn) -> f64 {
    turn.p50
}

fn rate(turn: &Turn) -> f64 {
    turn.rate
}

fn processor(turn: &Turn) -> f64 {
    turn.processor
}

/// The share of the relay's round trip and throughput that outlive may cost.
pub struct Margin {
    /// Round trip, outlive over relay, at most.
    pub round_trip: f64,
    /// Throughput of calls up to 10 KB, outlive over relay, at least.
    pub small: f64,
    /// Throughput of calls of 1 MB, outlive over relay, at least.
    pub large: f64,
    /// Processor time of calls of 1 MB, outlive over relay, at most.
    pub large_processor: f64,
}

/// outlive against the bare relay, in the cells that were measured.
pub fn against_relay(matrix: &Matrix, margin: &Margin) -> Vec<Target> {
    let mut targets = Vec::new();
    let (Some(outlive), Some(relay)) = (matrix.find(Role::Outlive), matrix.find(Role::Relay))
    else {
        return targets;
    };
    let mut compare = |cell, what: fn(&Turn) -> f64, name, bound| {
        let ratio = matrix.median_of_pairs([outlive, relay], cell, what, |a, b| a / b);
        if let Some(ratio) = ratio {
            let what = format!("{name}, outlive / bare relay: {}", cell);
            targets.push(Target::new(what, bound, ratio));
        }
    };
    for text in crate::matrix::TEXTS {
        let bound = Bound::AtMost(margin.round_trip);
        compare(cell(text, 1), p50, "round trip", bound);
    }
    for (cell, least) in [
        (cell(100, 64), margin.small),
        (cell(10_000, 64), margin.small),
        (cell(1_000_000, 16), margin.large),
        (cell(1_000_000, 64), margin.large),
    ] {
        compare(cell, rate, "throughput", Bound::AtLeast(least));
    }
    let bound = Bound::AtMost(margin.large_processor);
    compare(cell(1_000_000, 64), processor, "processor time", bound);
    targets
}

/// outlive against what it was before, in every cell that was measured: no figure worse by more than `slack`.
pub fn against_earlier(matrix: &Matrix, slack: f64) -> Vec<Target> {
    let mut targets = Vec::new();
    let (Some(outlive), Some(earlier)) = (matrix.find(Role::Outlive), matrix.find(Role::Earlier))
    else {
        return targets;
    };
    for &cell in &matrix.cells {
        let (what, name, bound): (fn(&Turn) -> f64, _, _) = match cell.in_flight {
            1 => (p50, "round trip", Bound::AtMost(1.0 + slack)),
            _ => (rate, "throughput", Bound::AtLeast(1.0 - slack)),
        };
        let ratio = matrix.median_of_pairs([outlive, earlier], cell, what, |a, b| a / b);
        let what = format!("{name}, outlive / earlier: {cell}");
        targets.extend(ratio.map(|ratio| Target::new(what, bound, ratio)));
    }
    targets
}

/// outlive against the peers that took part.
pub fn against_peers(matrix: &Matrix) -> Vec<Target> {
    let mut targets = Vec::new();
    let (Some(outlive), Some(direct)) = (matrix.find(Role::Outlive), matrix.find(Role::Direct))
    else {
        return targets;
    };
    for (who, peer) in matrix.contenders.iter().enumerate() {
        match peer.role {
            Role::Reader => {
                for cell in [cell(100, 1), cell(10_000, 1)] {
                    let added = |who| {
                        matrix
                            .median_of_pairs([who, direct], cell, p50, |a, b| a - b)
                            .unwrap_or(f64::NAN)
                    };
                    // This way round, because outlive may add less than nothing.
                    targets.push(Target::new(
                        format!("latency added, outlive / {}: {}", peer.name, cell),
                        Bound::AtMost(0.2),
                        added(outlive) / added(who),
                    ));
                }
            }
            Role::Carrier => {
                let compare = |cell, what| {
                    matrix
                        .median_of_pairs([outlive, who], cell, what, |a, b| a / b)
                        .unwrap_or(f64::NAN)
                };
                targets.push(Target::new(
                    format!("round trip, outlive / {}: {}", peer.name, cell(100, 1)),
                    Bound::AtMost(1.0),
                    compare(cell(100, 1), p50),
                ));
                targets.push(Target::new(
                    format!("throughput, outlive / {}: {}", peer.name, cell(100, 64)),
                    Bound::AtLeast(1.0),
                    compare(cell(100, 64), rate),
                ));
            }
            Role::Direct | Role::Relay | Role::Outlive | Role::Earlier => {}
        }
    }
    targets
}

/// Resident memory at rest.
pub fn idle(bytes: u64) -> Target {
    Target::new(
        "resident memory at rest, MB",
        Bound::AtMost(10.0),
        bytes as f64 / 1e6,
    )
}

/// Memory over many calls or restarts.
pub fn flat(over: &str, span: &Span) -> Target {
    Target::new(
        format!("memory over {over}, highest / early"),
        Bound::AtMost(1.1),
        span.growth(),
    )
}

/// Files, threads and processes over many restarts.
pub fn no_leak(over: &str, span: &Span) -> Target {
    Target::new(
        format!("files, threads and processes leaked over {over}"),
        Bound::AtMost(0.0),
        span.leaked() as f64,
    )
}

/// The time to be back after a death.
pub fn back(recovery: &Recovery) -> Target {
    Target::new(
        format!("death to ready / own start: {}", recovery.server),
        Bound::AtMost(1.2),
        recovery.ratio,
    )
}
