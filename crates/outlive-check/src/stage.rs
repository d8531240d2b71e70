//! Where a scenario is played.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::Era;
use crate::cast::Cast;
use crate::host::{Host, Line};
use crate::inbox::Inbox;
use crate::journal::{Journal, Leg};
use crate::pipes::Pipes;
use crate::process::Process;
use crate::random::Random;
use crate::survey::{ServerUnderTest, Target};
use crate::tool::ToolCall;
use crate::verdict::Finding;
use crate::web::{Address, Web};

/// How a program is tested.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long an answer may take. Only a hang should miss it.
    pub timeout: Duration,
    /// How long the first start may take.
    pub start_patience: Duration,
    /// The era to play in, if the program speaks both.
    pub era: Option<Era>,
    /// The tool to call, and its arguments.
    pub call: Option<(String, Option<Value>)>,
    /// A tool that takes a while, and its arguments.
    pub slow: Option<(String, Option<Value>)>,
    /// A tool that asks the host something, and its arguments.
    pub asking: Option<(String, Option<Value>)>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            timeout: Duration::from_secs(10),
            start_patience: Duration::from_secs(60),
            era: None,
            call: None,
            slow: None,
            asking: None,
        }
    }
}

/// Where one scenario is played. Whatever was started on it is gone when it is dropped.
#[derive(Debug)]
pub struct Stage {
    /// Random moments: the same for the same seed.
    pub random: Random,
    /// What happened.
    pub journal: Journal,
    cast: Cast,
    era: Option<Era>,
    hosts: usize,
}

impl Stage {
    pub(crate) fn new(cast: Cast, era: Option<Era>, random: Random) -> Stage {
        Stage {
            random,
            journal: Journal::default(),
            cast,
            era,
            hosts: 0,
        }
    }

    /// The server under test.
    pub fn server(&self) -> Arc<ServerUnderTest> {
        match &self.cast {
            Cast::Server(server) => server.clone(),
            other => unreachable!(
                "a scenario for servers, played with a {}",
                other.subject().word()
            ),
        }
    }

    /// Who is under test.
    pub(crate) fn cast(&self) -> &Cast {
        &self.cast
    }

    /// The era this scenario is played in.
    pub fn era(&self) -> Era {
        self.era.unwrap_or_else(|| self.cast.era())
    }

    /// A host with a server, which has heard nothing yet.
    pub async fn start(&mut self) -> Result<Host, Finding> {
        self.host(true).await
    }

    /// A host that does not read what its server writes to standard error.
    pub async fn start_with_stderr_unread(&mut self) -> Result<Host, Finding> {
        self.host(false).await
    }

    /// A host with a server that is ready to be asked.
    pub async fn ready(&mut self) -> Result<Host, Finding> {
        let mut host = self.start().await?;
        host.handshake().await?;
        Ok(host)
    }

    /// A call that is answered at once.
    pub fn quick(&self) -> Result<ToolCall, Finding> {
        let why = "the server has no tool that can be called without knowing it; name one with --call and --args";
        let quick = self.server().survey.quick.clone();
        quick.ok_or_else(|| Finding::NotApplicable(why.into()))
    }

    /// A call that surely takes a while.
    pub fn slow(&self) -> Result<ToolCall, Finding> {
        let why =
            "a tool that takes a few seconds is needed; name one with --slow-tool and --slow-args";
        let slow = self.server().survey.slow.clone();
        slow.ok_or_else(|| Finding::NotApplicable(why.into()))
    }

    /// A call on which the server asks its host something.
    pub fn asking(&self) -> Result<ToolCall, Finding> {
        let why = "a tool that asks the host something is needed; name one with --asking-tool and --asking-args";
        let asking = self.server().survey.asking.clone();
        asking.ok_or_else(|| Finding::NotApplicable(why.into()))
    }

    /// A call that is in flight for a while, or as long as there is one to be had.
    pub fn busy(&self) -> Result<ToolCall, Finding> {
        self.slow().or_else(|_| self.quick())
    }

    async fn host(&mut self, drain: bool) -> Result<Host, Finding> {
        self.hosts += 1;
        let leg = match self.hosts {
            1 => Cow::Borrowed("host"),
            n => format!("host {n}").into(),
        };
        let server = self.server();
        let quick = server.survey.quick.clone();
        let (target, options) = (&server.target, &server.options);
        start(
            target,
            options,
            drain,
            self.era(),
            quick,
            self.journal.leg(leg),
        )
        .await
    }
}

/// Starts or reaches the server.
pub(crate) async fn start(
    target: &Target,
    options: &Options,
    drain: bool,
    era: Era,
    quick: Option<ToolCall>,
    leg: Leg,
) -> Result<Host, Finding> {
    let inbox = Arc::new(Inbox::default());
    let line = match target {
        Target::Command(command) => Line::Pipes(Box::new(spawn(command, drain, &inbox, &leg)?)),
        Target::Url(url) => {
            let address = Address::parse(url).map_err(Finding::Broken)?;
            let web = Web::new(address, era, options.timeout, inbox.clone(), leg.clone());
            Line::Web(Box::new(web))
        }
    };
    Ok(Host::new(line, inbox, leg, era, options.timeout, quick))
}

fn spawn(
    command: &[OsString],
    drain: bool,
    inbox: &Arc<Inbox>,
    leg: &Leg,
) -> Result<Pipes, Finding> {
    let (process, streams) = Process::spawn(command, &[], leg).map_err(|error| {
        let program = command.first().map(|word| word.to_string_lossy());
        let program = program.unwrap_or_default();
        let why = unstarted(&program, &error);
        Finding::Broken(format!("{program} cannot be started: {why}."))
    })?;
    leg.note(format!("process {} was started", process.pid()));
    Ok(Pipes::new(process, streams, drain, inbox.clone(), leg))
}

/// Why a program was not started: what the operating system says of a missing one names no reason.
pub(crate) fn unstarted(program: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if program.contains("://") => {
            "an address begins with http://".into()
        }
        io::ErrorKind::NotFound if program.contains(char::is_whitespace) => {
            "there is no such program; give the program and each argument as a word of its own"
                .into()
        }
        io::ErrorKind::NotFound if program.contains('/') => "there is no such file".into(),
        io::ErrorKind::NotFound => "there is no such program in the PATH".into(),
        _ => error.to_string(),
    }
}
