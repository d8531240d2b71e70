//! A call through the router, beside the same call through outlive before one server.

use std::io;

use super::one_processor::OneProcessor;
use super::server_file::ServerFile;
use super::start::{SERVERS, TOOLS, router};
use super::{Margin, at_most};
use crate::contender::Programs;
use crate::http;
use crate::matrix::{Cell, Effort, Matrix};
use crate::target::Target;

/// What was measured.
pub struct Calls {
    cells: Vec<Cell>,
    http: http::Matrix,
    stdio: Matrix,
}

/// The places among the contenders.
const ROUTER: usize = 0;
const ALONE: usize = 1;

impl Calls {
    /// Measures.
    pub fn measure(programs: &Programs, cells: &[Cell], effort: Effort) -> io::Result<Calls> {
        let file = ServerFile::new(programs, SERVERS, TOOLS)?;
        let alone = http::outlive(programs, http::Era::Legacy, &[]);
        let contenders = vec![router(programs, &file), alone];
        let scratch = &programs.scratch;
        let pinned = OneProcessor::pin()?;
        let http = http::Matrix::measure(contenders, cells.to_vec(), effort, scratch, |_| {})?;
        drop(pinned);
        let contenders = vec![file.run(programs), programs.outlive()];
        let stdio = Matrix::measure(contenders, cells.to_vec(), effort, scratch, |_| {})?;
        Ok(Calls {
            cells: cells.to_vec(),
            http,
            stdio,
        })
    }

    /// How many times longer a call takes over HTTP and over standard streams: one at a time that of the middle, with
    /// more in flight that of the average.
    pub fn ratios(&self, cell: Cell) -> [Option<f64>; 2] {
        let inverse = |rate: f64| 1.0 / rate;
        match cell.in_flight {
            1 => [
                self.http.ratio(ROUTER, ALONE, cell, |turn| turn.p50),
                self.stdio.median_of_pairs(
                    [ROUTER, ALONE],
                    cell,
                    |turn| turn.p50,
                    |one, other| one / other,
                ),
            ],
            _ => [
                self.http
                    .ratio(ROUTER, ALONE, cell, |turn| turn.rate)
                    .map(inverse),
                self.stdio.median_of_pairs(
                    [ROUTER, ALONE],
                    cell,
                    |turn| turn.rate,
                    |one, other| other / one,
                ),
            ],
        }
    }

    /// What is promised of calls over HTTP. Over standard streams nothing is: one task between a host and its server
    /// is the shortest way there is.
    pub fn targets(&self, margin: &Margin) -> Vec<Target> {
        let each = self.cells.iter().map(|cell| {
            let [http, _] = self.ratios(*cell);
            let what = format!("time of a call, router / one server, HTTP: {cell}");
            at_most(what, margin.call, http)
        });
        each.collect()
    }

    /// In which cells.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }
}
