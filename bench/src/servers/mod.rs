//! Many servers behind one address or one entry: `outlive serve --servers` and `outlive run --servers`.
//!
//! # Theory
//!
//! Three things are asked of a router. What it costs a client that comes, when none of the servers is running: the time
//! from the start of the process to the whole list of tools, beside one server with as many tools, and beside peers
//! that stand before many servers. What it costs a call, beside the same call without a router. And whether either
//! grows with the number of servers.
//!
//! Every server is the [echo server](../../src/bin/echo.rs), so that nobody waits for a slow one. outlive knows what
//! the servers offer from an earlier run, which is how it is started every time but the first.
//!
//! | file | what happens there |
//! |---|---|
//! | `server_file` | files that name servers are written, and what these offer becomes known |
//! | `start` | processes are started, and asked for all tools |
//! | `event_stream` | a client of the transport that was before Streamable HTTP, for a peer that has no other |
//! | `calls` | calls with and without a router |
//! | `growth` | the same with more and more servers, and what these cost while they do not run |
//! | `page` | what was found is written down |

mod calls;
mod event_stream;
mod growth;
mod one_processor;
mod page;
mod server_file;
mod start;

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::contender::Programs;
use crate::matrix::{Cell, Effort};
use crate::target::{Bound, Target};

use self::calls::Calls;
use self::growth::Growth;
use self::start::Starts;

/// What is promised of a router.
#[derive(Clone, Copy, Debug)]
pub struct Margin {
    /// Time to the whole list, over that of one server with as many tools.
    pub start: f64,
    /// The same over that of any peer.
    pub start_of_peers: f64,
    /// Time of a call over HTTP, over that without a router.
    pub call: f64,
    /// Kilobytes that a server costs that does not run.
    pub idle_server: f64,
    /// Time of a call with a hundred servers, over that with one.
    pub growth: f64,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// How often everybody is started.
    pub starts: usize,
    /// Rounds and turns of calls.
    pub calls: Effort,
    /// In which cells.
    pub cells: &'static [Cell],
    /// Rounds and turns of calls with more and more servers.
    pub growth: Effort,
}

const fn cell(text: usize, in_flight: u64) -> Cell {
    Cell { text, in_flight }
}

/// For the page.
pub const FULL: Scope = Scope {
    starts: 11,
    calls: Effort {
        rounds: 11,
        turn: Duration::from_millis(250),
    },
    cells: &[
        cell(100, 1),
        cell(100, 64),
        cell(10_000, 1),
        cell(10_000, 64),
    ],
    growth: Effort {
        rounds: 7,
        turn: Duration::from_millis(200),
    },
};

/// For a first look.
pub const QUICK: Scope = Scope {
    starts: 3,
    calls: Effort {
        rounds: 3,
        turn: Duration::from_millis(100),
    },
    growth: Effort {
        rounds: 3,
        turn: Duration::from_millis(100),
    },
    ..FULL
};

/// What was found.
pub struct Servers {
    starts: Starts,
    calls: Calls,
    growth: Growth,
}

impl Servers {
    /// Measures. `progress` is told what comes next.
    pub fn measure(
        programs: &Programs,
        peers: Option<&Path>,
        scope: Scope,
        progress: impl Fn(&str),
    ) -> io::Result<Servers> {
        progress("starts");
        let starts = Starts::measure(programs, peers, scope.starts)?;
        progress("calls");
        let calls = Calls::measure(programs, scope.cells, scope.calls)?;
        progress("one server to a hundred");
        let growth = Growth::measure(programs, scope.growth)?;
        Ok(Servers {
            starts,
            calls,
            growth,
        })
    }

    /// What was asked, and what was found.
    pub fn targets(&self, margin: &Margin) -> Vec<Target> {
        let mut targets = self.starts.targets(margin);
        targets.extend(self.calls.targets(margin));
        targets.extend(self.growth.targets(margin));
        targets
    }

    /// The part of the page that is measured.
    pub fn markdown(&self, targets: &[Target]) -> String {
        page::markdown(self, targets)
    }
}

/// What is robust on a busy machine: calls with and without a router, and what a server costs that does not run.
pub fn gate(programs: &Programs, margin: &Margin, effort: Effort) -> io::Result<Vec<Target>> {
    let calls = Calls::measure(programs, &[cell(100, 64)], effort)?;
    let mut targets = calls.targets(margin);
    targets.push(growth::idle_server(
        growth::idle_server_bytes(programs)?,
        margin,
    ));
    Ok(targets)
}

/// A bound from above on a ratio that may be missing, which is a miss.
fn at_most(what: String, bound: f64, measured: Option<f64>) -> Target {
    Target::new(what, Bound::AtMost(bound), measured.unwrap_or(f64::NAN))
}
