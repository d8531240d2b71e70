//! Who is measured over HTTP: bridges before the same server on standard input and output, and servers themselves.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::fleet::{Fleet, PATIENCE};
use super::wire::{Address, Era};
use crate::contender::Programs;
use crate::process::Process;
use crate::traffic::ECHO;

/// What a contender is to the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Stands before the echo server.
    Bridge,
    /// Has the echo tool itself.
    Server,
}

/// Whose a contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What is being judged.
    Ours,
    /// Ours, as it was before.
    Earlier,
    /// The least that can stand there.
    Mark,
    /// Somebody else's.
    Theirs,
}

/// A command that serves the echo tool over HTTP.
#[derive(Clone, Debug)]
pub struct Contender {
    /// How it is called in tables.
    pub name: String,
    /// What it is to the comparison.
    pub kind: Kind,
    /// Whose it is.
    pub side: Side,
    /// Whether its clients shake hands.
    pub era: Era,
    /// How the echo tool is called there.
    pub tool: &'static str,
    /// The command and its arguments; `PORT` stands for the port.
    pub command: Vec<OsString>,
}

/// How often it is looked whether somebody listens.
const LOOK_AGAIN: Duration = Duration::from_micros(500);

/// What a command has in place of its port.
const PORT: &str = "PORT";

/// The contenders of both kinds, ours first. Peers are those that `bench/setup` installed in `peers`.
pub fn all(programs: &Programs, peers: &Path) -> io::Result<Vec<Contender>> {
    let peers = peers.canonicalize()?;
    let version = |name: &str| {
        let stamp = fs::read_to_string(peers.join(name).with_extension("version"));
        let missing = |_| io::Error::other(format!("{name} is missing; run bench/setup"));
        stamp
            .map(|version| version.trim().to_owned())
            .map_err(missing)
    };
    let echo = programs.echo.as_path();
    let fastmcp = |words: &[&str]| {
        let mut command: Vec<OsString> = vec![peers.join("fastmcp/bin/python").into()];
        command.push(peers.join("../fastmcp_http.py").into());
        command.extend(words.iter().map(OsString::from));
        command
    };
    let theirs = |name: &str, version: String, kind, command| Contender {
        name: format!("{name} {version}"),
        kind,
        side: Side::Theirs,
        era: Era::Legacy,
        tool: ECHO,
        command,
    };
    let with_echo = |mut command: Vec<OsString>| {
        command.push(echo.into());
        command
    };
    let mut all = own(programs);
    all.push(theirs(
        "supergateway",
        version("supergateway")?,
        Kind::Bridge,
        // Without sessions it starts a server for every request.
        with_echo(words(
            &peers.join("supergateway/node_modules/.bin/supergateway"),
            &[
                "--outputTransport",
                "streamableHttp",
                "--stateful",
                "--logLevel",
                "none",
                "--port",
                PORT,
                "--stdio",
            ],
        )),
    ));
    all.push(theirs(
        "mcp-proxy",
        version("mcp-proxy")?,
        Kind::Bridge,
        with_echo(words(
            &peers.join("mcp-proxy/bin/mcp-proxy"),
            &["--log-level", "WARNING", "--port", PORT, "--"],
        )),
    ));
    let fastmcp_version = version("fastmcp")?;
    all.push(theirs(
        "FastMCP proxy",
        fastmcp_version.clone(),
        Kind::Bridge,
        with_echo(fastmcp(&["stateless", PORT, "proxy"])),
    ));
    all.extend(servers());
    all.push(theirs(
        "FastMCP",
        fastmcp_version,
        Kind::Server,
        fastmcp(&["stateless", PORT, "server"]),
    ));
    Ok(all)
}

/// `outlive serve` for both eras, the earlier one if there is one, and the bare relay they are measured against.
pub fn own(programs: &Programs) -> Vec<Contender> {
    let eras = [Era::Legacy, Era::Modern];
    let mut all: Vec<_> = eras.map(|era| outlive(programs, era, &[])).into();
    if let Some(earlier) = &programs.earlier {
        all.extend(eras.map(|era| {
            let now = outlive(programs, era, &[]);
            let mut command = now.command;
            command[0] = earlier.into();
            Contender {
                name: format!("{}, earlier", now.name),
                side: Side::Earlier,
                command,
                ..now
            }
        }));
    }
    let mut command = words(&programs.http_relay, &["127.0.0.1:PORT"]);
    command.push(programs.echo.clone().into());
    all.push(Contender {
        name: "bare HTTP relay".into(),
        kind: Kind::Bridge,
        side: Side::Mark,
        era: Era::Legacy,
        tool: ECHO,
        command,
    });
    all
}

/// `outlive serve` before the echo server.
pub fn outlive(programs: &Programs, era: Era, settings: &[&str]) -> Contender {
    let mut command = words(&programs.outlive, &["serve", "--listen", "127.0.0.1:PORT"]);
    command.extend(settings.iter().map(OsString::from));
    command.push("--".into());
    command.push(programs.echo.clone().into());
    if era == Era::Modern {
        command.push("--modern".into());
    }
    Contender {
        name: match era {
            Era::Legacy => "outlive serve".into(),
            Era::Modern => "outlive serve, modern".into(),
        },
        kind: Kind::Bridge,
        side: Side::Ours,
        era,
        tool: ECHO,
        command,
    }
}

/// Our server and rmcp's, which were built beside this program.
pub fn servers() -> Vec<Contender> {
    let beside = |program: &str| env::current_exe().map(|own| own.with_file_name(program));
    let server = |name: &str, side, era, program: &str, rest: &[&str]| {
        let program = beside(program).unwrap_or_else(|_| PathBuf::from(program));
        let mut command = words(&program, &["listen", "127.0.0.1:PORT"]);
        command.extend(rest.iter().map(OsString::from));
        Contender {
            name: name.to_owned(),
            kind: Kind::Server,
            side,
            era,
            tool: ECHO,
            command,
        }
    };
    let (legacy, modern) = (Era::Legacy, Era::Modern);
    let (ours, theirs) = (Side::Ours, Side::Theirs);
    vec![
        server("outlive", ours, legacy, "sdk-outlive", &[]),
        server("outlive, modern", ours, modern, "sdk-outlive", &[]),
        server("rmcp, sessions", theirs, legacy, "sdk-rmcp", &["sessions"]),
        server(
            "rmcp, stateless",
            theirs,
            legacy,
            "sdk-rmcp",
            &["stateless"],
        ),
        server("rmcp, modern", theirs, modern, "sdk-rmcp", &["stateless"]),
    ]
}

fn words(program: &Path, rest: &[&str]) -> Vec<OsString> {
    let rest = rest.iter().map(OsString::from);
    std::iter::once(program.into()).chain(rest).collect()
}

/// A contender that runs.
pub struct Running {
    child: Child,
    /// Where it listens, and the session there is with it.
    pub address: Address,
}

impl Running {
    /// Starts it at a port that is free, and waits until it listens. Its standard error goes to a file in `scratch`.
    pub fn start(contender: &Contender, scratch: &Path) -> io::Result<Running> {
        let name = contender.name.replace([' ', ','], "-");
        let errors = scratch.join(format!("http-{name}.stderr"));
        let mut running = Running::spawn(contender, File::create(&errors)?)?;
        let outcome = running.wait_for_port().and_then(|()| running.shake_hands());
        match outcome {
            Ok(()) => Ok(running),
            Err(error) => {
                let said = fs::read_to_string(&errors).unwrap_or_default();
                let name = &contender.name;
                Err(io::Error::other(format!(
                    "{name} did not start: {error}\n{said}"
                )))
            }
        }
    }

    /// Starts it and waits for nothing.
    pub fn spawn(contender: &Contender, errors: File) -> io::Result<Running> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let mut command = contender.command.iter().map(|word| {
            let word = word.to_string_lossy();
            word.replace(PORT, &port.to_string())
        });
        let program = command.next().ok_or(io::ErrorKind::InvalidInput)?;
        let child = Command::new(program)
            .args(command)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()?;
        let address = Address {
            port,
            path: "/mcp",
            era: contender.era,
            tool: contender.tool,
            session: None,
        };
        Ok(Running { child, address })
    }

    /// Waits until somebody listens.
    pub fn wait_for_port(&mut self) -> io::Result<()> {
        let start = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.address.port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("it left: {status}")));
            }
            if start.elapsed() > PATIENCE {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// What a client says before its first call, if it says anything.
    pub fn shake_hands(&mut self) -> io::Result<()> {
        shake_hands(&mut self.address)
    }

    /// Its process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// All its processes but the echo server's.
    pub fn processes(&self) -> io::Result<Vec<Process>> {
        self.process().tree("echo")
    }
}

impl Drop for Running {
    /// The echo server behind it leaves when its input ends, and that happens here.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a client says before its first call, if it says anything.
pub fn shake_hands(address: &mut Address) -> io::Result<()> {
    if address.era == Era::Modern {
        return Ok(());
    }
    let mut fleet = Fleet::connect(address.port, 1)?;
    let request = address.initialize();
    let outcome = fleet.ask(|_| request.clone())?.0.remove(0);
    if outcome.status != 200 || !outcome.body.contains("\"result\"") {
        return Err(io::Error::other(format!("no handshake: {outcome:?}")));
    }
    address.session = outcome.session;
    let request = address.initialized();
    let outcome = fleet.ask(|_| request.clone())?.0.remove(0);
    match outcome.status {
        202 => Ok(()),
        _ => Err(io::Error::other(format!("no handshake: {outcome:?}"))),
    }
}
