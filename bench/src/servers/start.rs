//! From the start of a process to the whole list of tools at its client.
//!
//! Everybody stands before the same twenty servers with fifty tools each, and is started, asked and ended in turns. A
//! peer that answers before it knows all of its servers is asked again until it does.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use super::event_stream::EventStream;
use super::server_file::{FIRST_TOOL, ServerFile, count_tools};
use super::{Margin, at_most};
use crate::contender::{Contender, Programs, Role};
use crate::host::Host;
use crate::http::{self, Fleet, Running};
use crate::matrix::median;
use crate::target::Target;

/// How many servers there are.
pub const SERVERS: usize = 20;

/// How many tools each of them has.
pub const TOOLS: usize = 50;

/// A peer that does not know all servers yet is asked again after this time.
const ASK_AGAIN: Duration = Duration::from_millis(2);

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How somebody is spoken to.
enum Way {
    /// On standard streams.
    Stdio(Contender),
    /// Over Streamable HTTP.
    Http(http::Contender),
    /// Over HTTP with a stream of events.
    Events(http::Contender),
}

/// Somebody who stands before servers.
struct Starter {
    name: String,
    way: Way,
    /// How many tools it lists beside those of its servers.
    own_tools: usize,
}

/// What was measured.
pub struct Starts {
    names: Vec<String>,
    /// By starter and round, in seconds.
    took: Vec<Vec<f64>>,
}

/// The places of ours among the starters; peers come behind them.
const HTTP: usize = 0;
const STDIO: usize = 1;
const ONE_SERVER: usize = 2;
const OURS: usize = 3;

impl Starts {
    /// Measures so many rounds.
    pub fn measure(programs: &Programs, peers: Option<&Path>, rounds: usize) -> io::Result<Starts> {
        let file = ServerFile::new(programs, SERVERS, TOOLS)?;
        let mut starters = ours(programs, &file);
        if let Some(folder) = peers {
            starters.extend(theirs(&file, folder)?);
        }
        let mut took = vec![Vec::new(); starters.len()];
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..starters.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for who in order {
                let starter = &starters[who];
                let named = |error| io::Error::other(format!("{}: {error}", starter.name));
                let tools = file.all_tools() + starter.own_tools;
                let time = starter.start(&programs.scratch, tools).map_err(named)?;
                took[who].push(time.as_secs_f64());
            }
        }
        let names = starters.into_iter().map(|starter| starter.name).collect();
        Ok(Starts { names, took })
    }

    /// The median over the rounds of one over the other in the same round.
    fn ratio(&self, one: usize, other: usize) -> Option<f64> {
        let pairs = self.took[one].iter().zip(&self.took[other]);
        median(pairs.map(|(one, other)| one / other).collect())
    }

    pub fn targets(&self, margin: &Margin) -> Vec<Target> {
        let what =
            |who: usize, other: &str| format!("start to list, {} / {other}", self.names[who]);
        let mut targets = vec![at_most(
            what(HTTP, &self.names[ONE_SERVER]),
            margin.start,
            self.ratio(HTTP, ONE_SERVER),
        )];
        for peer in OURS..self.names.len() {
            // Most of them are spoken to on standard streams.
            targets.push(at_most(
                what(STDIO, &self.names[peer]),
                margin.start_of_peers,
                self.ratio(STDIO, peer),
            ));
        }
        targets
    }

    /// Everybody: the name, the median in milliseconds, and how many times that of the first.
    pub fn rows(&self) -> impl Iterator<Item = (&str, Option<f64>, Option<f64>)> {
        self.names.iter().enumerate().map(|(who, name)| {
            let took = median(self.took[who].clone()).map(|seconds| seconds * 1e3);
            (name.as_str(), took, self.ratio(who, HTTP))
        })
    }
}

fn ours(programs: &Programs, file: &ServerFile) -> Vec<Starter> {
    let router = router(programs, file);
    let mut alone = http::outlive(programs, http::Era::Legacy, &[]);
    alone
        .command
        .extend(["--tools".into(), file.all_tools().to_string().into()]);
    let starter = |name: &str, way| Starter {
        name: name.into(),
        way,
        own_tools: 0,
    };
    vec![
        starter("outlive serve --servers", Way::Http(router)),
        starter("outlive run --servers", Way::Stdio(file.run(programs))),
        starter("outlive serve, one server with all tools", Way::Http(alone)),
    ]
}

/// `outlive serve` before these servers.
pub fn router(programs: &Programs, file: &ServerFile) -> http::Contender {
    let mut router = http::outlive(programs, http::Era::Legacy, &[]);
    let server = router.command.iter().position(|word| word == "--");
    router.command.truncate(server.unwrap_or_default());
    router.command.extend(file.settings());
    http::Contender {
        name: format!("outlive serve --servers, {}", file.servers),
        tool: FIRST_TOOL,
        ..router
    }
}

/// The peers that `bench/setup` installed in `folder`.
fn theirs(file: &ServerFile, folder: &Path) -> io::Result<Vec<Starter>> {
    let folder = folder.canonicalize()?;
    let named = |name: &str, file: &str| {
        let version = fs::read_to_string(folder.join(file).with_extension("version"));
        let missing = |_| io::Error::other(format!("{name} is missing; run bench/setup"));
        version
            .map(|version| format!("{name} {}", version.trim()))
            .map_err(missing)
    };
    let stdio = |name: String, command: Vec<OsString>| Starter {
        way: Way::Stdio(Contender {
            name: name.clone(),
            role: Role::Reader,
            command,
            tool: FIRST_TOOL,
            // mcp-hub writes a log line per call by default, which is not what we compare.
            variables: vec![("RUST_LOG", "warn")],
        }),
        name,
        own_tools: 0,
    };
    let fastmcp = stdio(
        named("FastMCP proxy", "fastmcp")?,
        vec![
            folder.join("fastmcp/bin/python").into(),
            folder.join("../fastmcp_servers.py").into(),
            file.json().into(),
        ],
    );
    let hub = stdio(
        named("mcp-hub (crates.io)", "mcp-hub")?,
        vec![
            folder.join("mcp-hub/bin/mcp-hub").into(),
            file.toml().into(),
        ],
    );
    let name = named("mcp-hub (npm)", "mcp-hub-npm")?;
    let mut command: Vec<OsString> =
        vec![folder.join("mcp-hub-npm/node_modules/.bin/mcp-hub").into()];
    command.extend(["--port", "PORT", "--config"].map(OsString::from));
    command.push(file.json().into());
    let node = Starter {
        way: Way::Events(http::Contender {
            name: name.clone(),
            kind: http::Kind::Bridge,
            side: http::Side::Theirs,
            era: http::Era::Legacy,
            tool: FIRST_TOOL,
            command,
        }),
        name,
        own_tools: 0,
    };
    let gateway = Starter {
        own_tools: 1,
        ..stdio(
            named("mcp-gateway", "mcp-gateway")?,
            vec![
                folder.join("mcp-gateway/bin/mcp-gateway").into(),
                "--mcp-json-path".into(),
                file.nested().into(),
            ],
        )
    };
    Ok(vec![fastmcp, hub, node, gateway])
}

impl Starter {
    /// Starts it, asks for all tools, and ends it.
    fn start(&self, scratch: &Path, tools: usize) -> io::Result<Duration> {
        let begun = Instant::now();
        let until_all = |list: &mut dyn FnMut() -> io::Result<String>| {
            loop {
                let known = count_tools(&list()?);
                if known == tools {
                    return Ok(begun.elapsed());
                }
                if known > tools || begun.elapsed() > PATIENCE {
                    return Err(io::Error::other(format!("{known} tools of {tools}")));
                }
                thread::sleep(ASK_AGAIN);
            }
        };
        match &self.way {
            Way::Stdio(contender) => {
                let mut host = Host::spawn(contender, Stdio::null())?;
                host.initialize()?;
                until_all(&mut || host.request("tools/list", "{}"))
            }
            Way::Http(contender) => {
                let mut running = Running::spawn(contender, errors(scratch)?)?;
                running.wait_for_port()?;
                running.shake_hands()?;
                let mut fleet = Fleet::connect(running.address.port, 1)?;
                let request = running.address.list_tools();
                until_all(&mut || Ok(fleet.ask(|_| request.clone())?.0.remove(0).body))
            }
            Way::Events(contender) => {
                let mut running = Running::spawn(contender, errors(scratch)?)?;
                running.wait_for_port()?;
                let mut stream = EventStream::open(running.address.port, "/mcp")?;
                stream.initialize()?;
                until_all(&mut || stream.request("tools/list", "{}"))
            }
        }
    }
}

fn errors(scratch: &Path) -> io::Result<File> {
    File::create(scratch.join("servers.stderr"))
}
