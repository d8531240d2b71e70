//! The rig: a client of the crate, the fake server under it, and a view of both.
//!
//! Nothing is timed. A test waits for what must happen with a patience that only a hang can
//! exhaust, and shows that something did *not* happen by making something later happen: order is
//! kept, so once a call made afterwards is answered, whatever was to come before it has come. The
//! server's side is seen through the [`tap`], the processes through [`tree`].

#[path = "../../rig/escape.rs"]
pub mod escape;
#[path = "../../rig/hydra.rs"]
pub mod hydra;
mod inetd;
#[path = "../../rig/tap.rs"]
mod tap;
#[path = "../../rig/tree.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of the binary, which use more of it"
)]
pub mod tree;

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outlive::client::{Builder, Era, Event, Listen, State};
use outlive::policy::Policy;
use outlive::{Client, Command, Error};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;

pub use tap::Tap;

/// Only a hang takes longer.
pub const PATIENCE: Duration = Duration::from_secs(45);
/// Longer than any test.
pub const FOR_EVER: u64 = 3_600_000;

/// What the server is reached over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The pipes of a child process.
    Pipes,
    /// A TCP connection.
    Socket,
}

/// A test's own directory, its mark, and how its server behaves.
pub struct Rig {
    dir: TempDir,
    mark: String,
    knobs: Vec<String>,
    pub policy: Policy,
    era: Option<Era>,
    inetd: Option<SocketAddr>,
}

impl Rig {
    /// A fake without faults that speaks only the legacy era.
    pub fn legacy() -> Rig {
        Rig::both().knobs(&["--legacy"])
    }

    /// A fake without faults that speaks both eras, and a client that speaks the modern one.
    pub fn modern() -> Rig {
        Rig::both().era(Era::Modern)
    }

    /// A fake without faults that speaks both eras, and a client that finds out.
    pub fn both() -> Rig {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        Rig {
            dir: TempDir::new().expect("a temporary directory"),
            mark: format!("library-{}-{count}", std::process::id()),
            knobs: Vec::new(),
            policy: Policy::default(),
            era: None,
            inetd: None,
        }
    }

    /// Adds knobs to the fake.
    pub fn knobs(mut self, knobs: &[&str]) -> Rig {
        self.knobs.extend(knobs.iter().map(|knob| knob.to_string()));
        self
    }

    /// Changes the client's policy.
    pub fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Rig {
        change(&mut self.policy);
        self
    }

    pub fn era(mut self, era: Era) -> Rig {
        self.era = Some(era);
        self
    }

    /// Reaches the server over this.
    pub fn over(mut self, over: Over) -> Rig {
        self.inetd = match over {
            Over::Pipes => None,
            Over::Socket => Some(inetd::start(&self.command())),
        };
        self
    }

    /// The fake's command.
    pub fn command(&self) -> Command {
        let state = self.path("tap.jsonl");
        let words = ["--state", &state].map(String::from);
        let words = words.into_iter().chain(self.knobs.iter().cloned());
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake"), words);
        command
            .env
            .push((tree::MARK.into(), self.mark.clone().into()));
        command
    }

    /// A client of the fake, still to be connected.
    pub fn client(&self) -> Builder<Command> {
        let builder = Client::builder()
            .policy(self.policy.clone())
            .command(self.command());
        match self.era {
            Some(era) => builder.era(era),
            None => builder,
        }
    }

    pub async fn try_connect(&self) -> Result<Client, Error> {
        let Some(addr) = self.inetd else {
            return within(self.client().connect()).await;
        };
        let builder = Client::builder().policy(self.policy.clone());
        let builder = builder.connector(move || TcpStream::connect(addr));
        let builder = match self.era {
            Some(era) => builder.era(era),
            None => builder,
        };
        within(builder.connect()).await
    }

    pub async fn connect(&self) -> Client {
        self.try_connect().await.expect("it connects")
    }

    /// A path in the test's directory, as text.
    pub fn path(&self, name: &str) -> String {
        let path = self.dir.path().join(name);
        path.to_str().expect("a path in UTF-8").into()
    }

    /// Writes a file in the test's directory and returns its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file in the temporary directory");
        path
    }

    /// What the servers record.
    pub fn tap(&self) -> Tap {
        Tap {
            path: self.dir.path().join("tap.jsonl"),
        }
    }

    /// Waits until servers have been sent `count` messages of this method in all.
    pub async fn received(&self, method: &str, count: usize) -> Vec<Value> {
        until(method, || {
            let found = self.tap().method(method);
            (found.len() >= count).then_some(found)
        })
        .await
    }

    /// Waits until servers have made `count` notes of this name in all.
    pub async fn noted(&self, note: &str, count: usize) -> Vec<Value> {
        until(note, || {
            let found = self.tap().notes(note);
            (found.len() >= count).then_some(found)
        })
        .await
    }

    /// The process id of the newest server.
    pub fn pid(&self) -> u32 {
        *self.tap().pids().last().expect("a server")
    }

    /// Sends a signal to the newest server.
    pub fn signal(&self, signal: Signal) {
        tree::kill(self.pid(), signal);
    }

    /// All processes that the test started and that still live.
    pub fn processes(&self) -> Vec<u32> {
        tree::marked(&self.mark)
    }

    /// Waits until none of them does.
    pub async fn deserted(&self) {
        until("the end of all processes", || {
            self.processes().is_empty().then_some(())
        })
        .await
    }
}

/// Waits no longer than only a hang takes.
pub async fn within<T>(what: impl IntoFuture<Output = T>) -> T {
    let timeout = tokio::time::timeout(PATIENCE, what);
    timeout.await.expect("it happens before patience runs out")
}

/// Asks again and again until there is something.
pub async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The next event that `wanted` takes, and those before it.
pub async fn event<T>(
    events: &mut Listen<Event>,
    mut wanted: impl FnMut(&Event) -> Option<T>,
) -> (T, Vec<Event>) {
    within(async {
        let mut before = Vec::new();
        loop {
            let event = events.next().await.expect("an event before the end");
            if let Some(found) = wanted(&event) {
                return (found, before);
            }
            before.push(event);
        }
    })
    .await
}

/// Waits until a server of at least this generation is in service.
pub async fn ready(client: &Client, generation: u64) {
    let mut states = client.watch();
    within(async {
        while let Some(state) = states.next().await {
            if matches!(state, State::Ready { generation: g } if g.number() >= generation) {
                return;
            }
        }
        panic!("closed before generation {generation}");
    })
    .await;
}

/// Calls `ping`; the process id of the server that answers.
pub async fn ping(client: &Client) -> u32 {
    let pong = within(client.call("ping", json!({}))).await.expect("pong");
    assert_eq!(pong.text(), "pong");
    let pid = &pong.structured_content.expect("structured content")["pid"];
    pid.as_u64().expect("a process id") as u32
}
