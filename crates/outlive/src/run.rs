//! A session between the standard streams of this process and a child process.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

use outlive_core::{Event, Policy, Time};

use crate::children::Children;
use crate::command::Command;
use crate::driver;
use crate::secrets::Secrets;
use crate::stdio::Stdio;

/// Whoever watches a session.
pub trait Observer {
    /// The session did or noticed something.
    fn event(&mut self, now: Time, event: &Event);

    /// The server wrote a line to its standard error; secrets are masked.
    fn stderr(&mut self, line: &str);
}

/// A session to run.
#[derive(Debug)]
pub struct Run<O> {
    /// The server's command.
    pub command: Command,
    /// How the session behaves. Its label is taken from the command.
    pub policy: Policy,
    /// Who is told what happens.
    pub observer: O,
    /// End with [`Ended::Failed`] when the breaker opens.
    pub exit_on_failed: bool,
    /// A command that calls [`warden::main`](crate::warden::main); without it, what is behind a wrapper such as `sh -c`
    /// is left behind if this process is ended with `SIGKILL`.
    pub warden: Option<Command>,
    /// Decides all that is random in the session.
    pub seed: u64,
}

impl<O: Observer> Run<O> {
    /// A session with this command, for a process that does nothing else: orphans a server leaves
    /// behind become children of this process (Linux) and are ended.
    pub fn new(command: Command, policy: Policy, observer: O) -> Run<O> {
        let seed = RandomState::new().build_hasher().finish();
        Run {
            command,
            policy,
            observer,
            exit_on_failed: false,
            warden: None,
            seed,
        }
    }
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The host left, or the user stopped it.
    Closed,
    /// The server kept failing, and [`Run::exit_on_failed`] was set.
    Failed,
}

/// Runs a session between the standard streams of this process and a child process.
///
/// To be called on the main thread: on Linux a server dies with the thread that started it, which
/// is what makes it die with us.
pub fn run<O: Observer>(run: Run<O>) -> io::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let secrets = Secrets::of(&run.command);
        let mut policy = run.policy;
        policy.label = run.command.label(&secrets).into();
        let limit = policy.limits.message;
        let host = Stdio::new(run.observer, run.exit_on_failed, limit)?;
        let servers = Children::beside_others(run.command, secrets, limit)?.alone(run.warden);
        let host = driver::drive(host, servers, policy, run.seed).await;
        let ended = match host.failed {
            true => Ended::Failed,
            false => Ended::Closed,
        };
        host.finish();
        Ok(ended)
    })
}
