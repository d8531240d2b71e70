//! What scenarios for proxies are played with: a host on one side, a server on the other.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::process::ChildStdin;
use tokio::time::Instant;

use crate::Era;
use crate::cast::Cast;
use crate::client::filled;
use crate::host::Host;
use crate::journal::{Journal, Leg};
use crate::process::{Process, ending};
use crate::puppet::{Habits, Puppet, Puppets};
use crate::stage::{Options, Stage, start, unstarted};
use crate::survey::Target;
use crate::tool::ToolCall;
use crate::verdict::Finding;

use super::subject::{ProxyOptions, ProxyUnderTest};

/// How often the system is asked for another port.
const PORT_TRIES: usize = 100;

/// A host that can speak to a proxy, and what the proxy will start, which may be nothing yet.
pub struct Opened {
    /// The host.
    pub host: Host,
    /// The servers.
    pub puppets: Puppets,
    /// The proxy, if the host's pipes are not it.
    listener: Option<Listener>,
}

/// A host and a server with a proxy between them.
pub struct Between {
    /// The host.
    pub host: Host,
    /// The server that was started last.
    pub server: Puppet,
    /// Those that are started after it.
    pub puppets: Puppets,
    _listener: Option<Listener>,
}

/// A proxy that listens.
struct Listener {
    _process: Process,
    /// Some leave when their input ends, as if it were a host's.
    _input: ChildStdin,
}

impl Opened {
    /// The handshake goes through to the server.
    pub async fn shake_hands(self) -> Result<Between, Finding> {
        let Opened {
            mut host,
            mut puppets,
            listener,
        } = self;
        host.handshake().await?;
        if host.era == Era::Modern {
            // Nothing has been sent yet, and a proxy may wait for that.
            host.ask("server/discover", json!({}), "server/discover")
                .await?;
        }
        let first = puppets.next().await?;
        let server = puppets.kept(first).await?;
        Ok(Between {
            host,
            server,
            puppets,
            _listener: listener,
        })
    }
}

impl Stage {
    /// The proxy under test.
    pub fn proxy(&self) -> Arc<ProxyUnderTest> {
        match self.cast() {
            Cast::Proxy(proxy) => proxy.clone(),
            other => unreachable!(
                "a scenario for proxies, played with a {}",
                other.subject().word()
            ),
        }
    }

    /// A host that has said nothing yet.
    pub(super) async fn opened(
        &mut self,
        habits: impl Fn(usize) -> Habits + Send + 'static,
    ) -> Result<Opened, Finding> {
        between(&self.proxy().options, self.era(), &self.journal, habits).await
    }

    /// A host and a good server, hands shaken.
    pub(super) async fn between(&mut self) -> Result<Between, Finding> {
        self.opened(|_| Habits::default())
            .await?
            .shake_hands()
            .await
    }
}

/// Starts a proxy for a host and servers of one era.
pub(super) async fn between(
    options: &ProxyOptions,
    era: Era,
    journal: &Journal,
    habits: impl Fn(usize) -> Habits + Send + 'static,
) -> Result<Opened, Finding> {
    let habits = move |nth| Habits {
        era: Some(era),
        ..habits(nth)
    };
    let puppets = Puppets::open(&options.puppet, journal, options.timeout, habits).await?;
    let command = filled(&options.command, "{server}", &puppets.command());
    let leg = journal.leg("host");
    let (target, listener) = match &options.url {
        None => (Target::Command(command), None),
        Some(url) => {
            let port = free_port()?;
            let command = filled(&command, "{port}", &[port.to_string().into()]);
            let url = url.replace("{port}", &port.to_string());
            let listener = listen(&command, port, options.start_patience, &leg).await?;
            (Target::Url(url), Some(listener))
        }
    };
    let quick = Some(ToolCall {
        name: "echo".into(),
        arguments: json!({ "text": "echo" }),
    });
    let with = Options {
        timeout: options.timeout,
        ..Options::default()
    };
    let host = start(&target, &with, true, era, quick, leg).await?;
    Ok(Opened {
        host,
        puppets,
        listener,
    })
}

/// A port that was free a moment ago, and that no other scenario of this run has been given: scenarios run side by
/// side, and the system may offer a port again before the proxy it was meant for listens there.
fn free_port() -> Result<u16, Finding> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..PORT_TRIES {
        let found = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        match found {
            Ok(address) if given.insert(address.port()) => return Ok(address.port()),
            Ok(_) => {}
            Err(error) => {
                return Finding::not_applicable(format!("no port can be had: {error}"));
            }
        }
    }
    Finding::not_applicable("no port can be had that was not used before")
}

/// Starts a proxy and waits until it listens.
async fn listen(
    command: &[std::ffi::OsString],
    port: u16,
    timeout: Duration,
    leg: &Leg,
) -> Result<Listener, Finding> {
    let (mut process, streams) = Process::spawn(command, &[], leg).map_err(|error| {
        let program = command.first().map(|word| word.to_string_lossy());
        let program = program.unwrap_or_default();
        let why = unstarted(&program, &error);
        Finding::Broken(format!("{program} cannot be started: {why}."))
    })?;
    // Neither of them may fill up.
    for (mut stream, leg) in [
        (
            Box::new(streams.stdout) as Box<dyn tokio::io::AsyncRead + Send + Unpin>,
            leg.clone(),
        ),
        (Box::new(streams.stderr), leg.clone()),
    ] {
        tokio::spawn(async move {
            let mut buffer = vec![0; 16 << 10];
            while let Ok(n @ 1..) = stream.read(&mut buffer).await {
                for line in buffer[..n]
                    .split(|byte| *byte == b'\n')
                    .filter(|line| !line.is_empty())
                {
                    leg.stderr(line);
                }
            }
        });
    }
    leg.waits_for("the proxy to listen");
    let deadline = Instant::now() + timeout;
    while Instant::now() < deadline {
        if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return Ok(Listener {
                _process: process,
                _input: streams.stdin,
            });
        }
        if let Some(status) = process.end(Duration::from_millis(50)).await {
            return Finding::broken(format!("The proxy {} before it listened.", ending(status)));
        }
    }
    Finding::broken(format!(
        "The proxy did not listen on port {port} within {timeout:?}."
    ))
}
