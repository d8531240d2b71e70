//! The library beside rmcp: the same echo tool, each with its own client and its own server.
//!
//! A contender is a program of `bench/sdk` that has a server of its own and makes calls when told to;
//! see there. They take turns as in the [matrix](crate::matrix), and what is compared are neighbours in
//! time.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::matrix::{Cell, Effort, TEXTS, median};
use crate::picture::{Bar, Panel, Side};
use crate::report::{self, number, ratio, row, table};
use crate::target::{Bound, Target};

/// Calls in flight.
const FLIGHTS: [u64; 3] = [1, 16, 64];

/// Calls before the first turn, in milliseconds of them.
const WARM_UP: &str = "100 8 50\n";

/// The kind of runtime a contender runs on, client and server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runtime {
    /// That of `#[tokio::main]`.
    Threads,
    /// One thread.
    One,
}

/// A contender.
pub struct Sdk {
    name: &'static str,
    side: Side,
    runtime: Runtime,
    program: &'static str,
    words: &'static [&'static str],
}

/// The first two suffice for a gate. rmcp has two transports for a server's standard streams; that of its
/// examples is the slower one.
static SDKS: [Sdk; 5] = [
    Sdk {
        name: "outlive",
        side: Side::Ours,
        runtime: Runtime::Threads,
        program: "sdk-outlive",
        words: &["many", "legacy"],
    },
    Sdk {
        name: "rmcp, stdio_pipes()",
        side: Side::Theirs,
        runtime: Runtime::Threads,
        program: "sdk-rmcp",
        words: &["many", "legacy", "pipes"],
    },
    Sdk {
        name: "rmcp, stdio()",
        side: Side::Theirs,
        runtime: Runtime::Threads,
        program: "sdk-rmcp",
        words: &["many", "legacy", "stdio"],
    },
    Sdk {
        name: "outlive, one thread",
        side: Side::Ours,
        runtime: Runtime::One,
        program: "sdk-outlive",
        words: &["one", "legacy"],
    },
    Sdk {
        name: "rmcp, one thread",
        side: Side::Theirs,
        runtime: Runtime::One,
        program: "sdk-rmcp",
        words: &["one", "legacy", "pipes"],
    },
];

/// A contender at work.
struct Running {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What came of one turn.
#[derive(Clone, Copy)]
struct Turn {
    /// Calls per second.
    rate: f64,
    /// Microseconds.
    p50: f64,
    /// Microseconds.
    p99: f64,
    /// Allocations per call, on the client's and on the server's side.
    client: f64,
    server: f64,
}

impl Running {
    fn start(sdk: &Sdk) -> io::Result<Running> {
        let own = env::current_exe()?;
        let program: PathBuf = own.with_file_name(sdk.program);
        let mut child = Command::new(&program)
            .args(sdk.words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| io::Error::other(format!("{}: {error}", program.display())))?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a program without pipes"));
        };
        let mut running = Running {
            child,
            orders,
            answers: BufReader::new(answers),
        };
        running.order(WARM_UP)?;
        Ok(running)
    }

    fn order(&mut self, order: &str) -> io::Result<Vec<f64>> {
        self.orders.write_all(order.as_bytes())?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let numbers: Result<Vec<f64>, _> = line.split_whitespace().map(str::parse).collect();
        numbers.map_err(|_| io::Error::other(format!("no numbers: {line:?}")))
    }

    fn turn(&mut self, cell: Cell, time: Duration) -> io::Result<Turn> {
        let order = format!("{} {} {}\n", cell.text, cell.in_flight, time.as_millis());
        match self.order(&order)?[..] {
            [calls, nanoseconds, p50, p99, client, server] => Ok(Turn {
                rate: calls / nanoseconds * 1e9,
                p50: p50 / 1e3,
                p99: p99 / 1e3,
                client: client / calls,
                server: server / calls,
            }),
            _ => Err(io::Error::other("the program has gone")),
        }
    }

    /// It leaves when there are no more orders.
    fn end(mut self) -> io::Result<()> {
        drop(self.orders);
        self.child.wait().map(drop)
    }
}

/// What was measured.
pub struct Library {
    sdks: &'static [Sdk],
    cells: Vec<Cell>,
    /// By contender, cell and round.
    turns: Vec<Vec<Vec<Turn>>>,
}

impl Library {
    /// Every size with every number of calls in flight.
    pub fn all_cells() -> Vec<Cell> {
        TEXTS
            .into_iter()
            .flat_map(|text| FLIGHTS.map(|in_flight| Cell { text, in_flight }))
            .collect()
    }

    /// Everybody.
    pub fn all_sdks() -> &'static [Sdk] {
        &SDKS
    }

    /// Ours and the fastest of theirs, on the runtime of `#[tokio::main]`.
    pub fn rivals() -> &'static [Sdk] {
        &SDKS[..2]
    }

    /// Measures. `progress` is told before each round.
    pub fn measure(
        sdks: &'static [Sdk],
        cells: Vec<Cell>,
        effort: Effort,
        mut progress: impl FnMut(usize),
    ) -> io::Result<Library> {
        let mut turns = vec![vec![Vec::new(); cells.len()]; sdks.len()];
        for round in 0..effort.rounds {
            progress(round);
            let mut running = sdks
                .iter()
                .map(Running::start)
                .collect::<Result<Vec<_>, _>>()?;
            let mut order: Vec<usize> = (0..sdks.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for (index, cell) in cells.iter().enumerate() {
                for &who in &order {
                    let turn = running[who].turn(*cell, effort.turn).map_err(|error| {
                        io::Error::other(format!("{}, {cell}: {error}", sdks[who].name))
                    })?;
                    turns[who][index].push(turn);
                }
            }
            for running in running {
                running.end()?;
            }
        }
        Ok(Library { sdks, cells, turns })
    }

    fn series(&self, who: usize, cell: Cell, what: fn(&Turn) -> f64) -> Vec<f64> {
        let index = self.cells.iter().position(|other| *other == cell);
        index.map_or(Vec::new(), |index| {
            self.turns[who][index].iter().map(what).collect()
        })
    }

    fn median(&self, who: usize, cell: Cell, what: fn(&Turn) -> f64) -> Option<f64> {
        median(self.series(who, cell, what))
    }

    /// The median over the rounds of ours over theirs.
    fn ratio(&self, ours: usize, theirs: usize, cell: Cell, what: fn(&Turn) -> f64) -> Option<f64> {
        let pairs = self.series(ours, cell, what).into_iter();
        let pairs = pairs.zip(self.series(theirs, cell, what));
        median(pairs.map(|(ours, theirs)| ours / theirs).collect())
    }

    /// Ours and the fastest of theirs, which comes next, on the same kind of runtime.
    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        let is_ours = |who: &usize| matches!(self.sdks[*who].side, Side::Ours);
        let ours = (0..self.sdks.len() - 1).filter(is_ours);
        ours.map(|ours| (ours, ours + 1))
    }

    /// Ours against the fastest of theirs on the same kind of runtime.
    pub fn targets(&self, margin: &Margin) -> Vec<Target> {
        let mut targets = Vec::new();
        for (ours, theirs) in self.pairs() {
            let names = format!("{} / {}", self.sdks[ours].name, self.sdks[theirs].name);
            let mut add = |cell, what, name, bound| {
                if let Some(ratio) = self.ratio(ours, theirs, cell, what) {
                    targets.push(Target::new(
                        format!("{name}, {names}: {cell}"),
                        bound,
                        ratio,
                    ));
                }
            };
            let cell = |text, in_flight| Cell { text, in_flight };
            let at_most = Bound::AtMost(margin.round_trip);
            add(cell(TEXTS[0], 1), |turn| turn.p50, "round trip", at_most);
            let at_least = Bound::AtLeast(margin.small);
            add(cell(TEXTS[0], 64), |turn| turn.rate, "throughput", at_least);
            for in_flight in FLIGHTS {
                let at_least = Bound::AtLeast(margin.large);
                add(
                    cell(TEXTS[2], in_flight),
                    |turn| turn.rate,
                    "throughput",
                    at_least,
                );
            }
        }
        targets
    }

    /// What was found, for the page.
    pub fn markdown(&self, targets: &[Target]) -> String {
        let mut page = report::machine();
        page += "\n### Round trip, one at a time: p50 (p99), µs\n\n";
        page += &self.by_sdk(
            &TEXTS.map(|text| Cell { text, in_flight: 1 }),
            |who, cell| {
                let p50 = number(self.median(who, cell, |turn| turn.p50));
                format!(
                    "{p50} ({})",
                    number(self.median(who, cell, |turn| turn.p99))
                )
            },
        );
        page += "\n### Throughput of both, calls per second (× outlive on the same runtime)\n\n";
        let many: Vec<Cell> = self
            .cells
            .iter()
            .copied()
            .filter(|cell| cell.in_flight > 1)
            .collect();
        page += &self.by_sdk(&many, |who, cell| {
            let rate = number(self.median(who, cell, |turn| turn.rate));
            let ours = self.sdks.iter().position(|sdk| {
                matches!(sdk.side, Side::Ours) && sdk.runtime == self.sdks[who].runtime
            });
            match ours {
                Some(ours) if ours != who => {
                    let share = self.ratio(who, ours, cell, |turn| turn.rate);
                    format!("{rate} ({})", ratio(share))
                }
                _ => rate,
            }
        });
        page += "\n### Allocations per call, client + server\n\n";
        page += &self.by_sdk(
            &TEXTS.map(|text| Cell { text, in_flight: 1 }),
            |who, cell| {
                let side = |what| self.median(who, cell, what).map_or(f64::NAN, f64::round);
                format!(
                    "{} + {}",
                    side(|turn| turn.client),
                    side(|turn| turn.server)
                )
            },
        );
        page += "\n### Promised\n\n";
        page += &report::judged(targets);
        page.push('\n');
        page
    }

    fn by_sdk(&self, cells: &[Cell], value: impl Fn(usize, Cell) -> String) -> String {
        let names: Vec<String> = cells.iter().map(Cell::to_string).collect();
        let heads: Vec<&str> = std::iter::once("")
            .chain(names.iter().map(String::as_str))
            .collect();
        let mut rows = table(&heads);
        for (who, sdk) in self.sdks.iter().enumerate() {
            let mut fields = vec![sdk.name.to_owned()];
            fields.extend(cells.iter().map(|cell| value(who, *cell)));
            row(&mut rows, &fields);
        }
        rows
    }

    /// What was found, for the picture.
    pub fn panels(&self) -> Vec<Panel> {
        let panel = |title, note, unit, text, in_flight, what: fn(&Turn) -> f64| Panel {
            title,
            note,
            unit,
            bars: self
                .sdks
                .iter()
                .enumerate()
                .map(|(who, sdk)| Bar {
                    name: sdk.name.to_owned(),
                    side: sdk.side,
                    value: self.median(who, Cell { text, in_flight }, what),
                })
                .collect(),
        };
        let rate: fn(&Turn) -> f64 = |turn| turn.rate;
        vec![
            panel(
                "Round trip of a small call",
                "100 B, one at a time, median; shorter is better",
                "µs",
                TEXTS[0],
                1,
                |turn| turn.p50,
            ),
            panel(
                "Throughput of small calls",
                "100 B, 64 in flight; longer is better",
                "calls/s",
                TEXTS[0],
                64,
                rate,
            ),
            panel(
                "Throughput of large calls",
                "1 MB there and 1 MB back, 16 in flight; longer is better",
                "calls/s",
                TEXTS[2],
                16,
                rate,
            ),
            panel(
                "Allocations for a small call",
                "100 B, client and server together; shorter is better",
                "",
                TEXTS[0],
                1,
                |turn| turn.client + turn.server,
            ),
        ]
    }
}

/// How the library is to do beside rmcp.
pub struct Margin {
    /// Round trip of a small call, ours over theirs, at most.
    pub round_trip: f64,
    /// Throughput of small calls, ours over theirs, at least.
    pub small: f64,
    /// Throughput of calls of 1 MB, ours over theirs, at least.
    pub large: f64,
}
