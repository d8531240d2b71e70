//! A session between the standard streams of this process and a child process.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use outlive_core::Policy;

use crate::driver;
use crate::driver::stdio::Stdio;
use crate::driver::upstream::Upstream;
#[cfg(feature = "http")]
use crate::http_client::{Remote, Sessions};
use crate::observer::Observer;
use crate::process::children::Children;
use crate::process::command::Command;
use crate::process::orphan_reaper::OrphanReaper;
use crate::secrets::Secrets;

/// A session to run: [`Run::new`] makes one, and its fields change it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Run<O> {
    /// The server's command.
    pub command: Command,
    /// How the session behaves. Its label is taken from the command.
    pub policy: Policy,
    /// Who is told what happens.
    pub observer: O,
    /// End with [`Ended::Failed`] when the breaker opens.
    pub exit_on_failed: bool,
    /// Without one, what is behind a wrapper such as `sh -c` is left behind if this process is ended with
    /// `SIGKILL`.
    pub orphan_reaper: Option<OrphanReaper>,
    /// Decides all that is random in the session.
    pub seed: u64,
}

impl<O: Observer> Run<O> {
    /// A session with this command, for a process that does nothing else: orphans a server leaves
    /// behind become children of this process (Linux) and are ended.
    pub fn new(command: Command, policy: Policy, observer: O) -> Run<O> {
        Run {
            command,
            policy,
            observer,
            exit_on_failed: false,
            orphan_reaper: None,
            seed: seed(),
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
/// One task does everything: a runtime of one thread (tokio's `current_thread`) is the fastest for it.
///
/// # Errors
///
/// If the [policy](Policy::check) makes no sense, or the standard streams cannot be used.
pub async fn run<O: Observer>(run: Run<O>) -> io::Result<Ended> {
    run.policy.check().map_err(misconfigured)?;
    let secrets = Secrets::of(&run.command);
    let mut policy = run.policy;
    policy.label = run.command.label(&secrets).into();
    let limit = policy.limits.message;
    let host = Stdio::new(Arc::new(run.observer), run.exit_on_failed, limit)?;
    let servers = Children::beside_others(run.command, secrets, limit)?
        .alone()
        .guarded(run.orphan_reaper);
    Ok(with_children(host, servers, policy, run.seed).await)
}

/// Runs a session between the standard streams of this process and a server over HTTP. The label of the
/// policy is taken from the server.
///
/// # Errors
///
/// If the [policy](Policy::check) makes no sense, the address is none, or the standard streams cannot be used.
#[cfg(feature = "http")]
pub async fn run_remote<O: Observer>(
    server: Remote,
    mut policy: Policy,
    observer: O,
    exit_on_failed: bool,
) -> io::Result<Ended> {
    policy.check().map_err(misconfigured)?;
    server.check_words().map_err(misconfigured)?;
    policy.label = server.label().into();
    let limit = policy.limits.message;
    let host = Stdio::new(Arc::new(observer), exit_on_failed, limit)?;
    let servers = Sessions::new(server, limit);
    Ok(with_remote(host, servers, policy, seed()).await)
}

/// A setting makes no sense.
pub(crate) fn misconfigured<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    error: E,
) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// Scatters the pauses between attempts, so that not all come back at the same moment.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A session on its way. It is boxed once, so that it is compiled with this crate, as it wants to be, and not anew with
/// each program and its observer.
type Running = Pin<Box<dyn Future<Output = Ended> + Send>>;

#[inline(never)]
fn with_children(host: Stdio, servers: Children, policy: Policy, seed: u64) -> Running {
    Box::pin(between(host, servers, policy, seed))
}

#[cfg(feature = "http")]
#[inline(never)]
fn with_remote(host: Stdio, servers: Sessions, policy: Policy, seed: u64) -> Running {
    Box::pin(between(host, servers, policy, seed))
}

async fn between<U: Upstream>(host: Stdio, servers: U, policy: Policy, seed: u64) -> Ended {
    let host = driver::drive(host, servers, policy, seed).await;
    let ended = match host.failed {
        true => Ended::Failed,
        false => Ended::Closed,
    };
    host.finish();
    ended
}
