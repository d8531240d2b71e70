//! An rmcp server behind standard streams that nothing else can touch.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::policy::{Cancel, Policy};
use outlive_core::{Event, Time};
use rmcp::{RoleServer, Service};

use super::handler::Handlers;
use crate::driver;
use crate::driver::stdio::Stdio;
use crate::observer::Observer;
use crate::server::stdio::Guarded;

/// Serves the client at the other end of this process's standard streams with an rmcp handler, until
/// the client leaves. See the [module](super#a-server) for what that is good for.
///
/// Both streams are moved aside first, for good: `print!` goes to standard error from now on, and
/// child processes cannot touch the protocol. However the client ends the connection, this returns
/// `Ok`; an error means that the streams could not be taken. It can be called once in a process, and
/// needs a tokio runtime with I/O and time enabled. Dropping the future ends the connection.
pub async fn serve_stdio<S: Service<RoleServer>>(service: S) -> io::Result<()> {
    let policy = policy();
    let host = Guarded::take()?.host()?;
    let host = Stdio::of(host, Arc::new(Log), policy.limits.message);
    let seed = crate::run::seed();
    let host = driver::drive(host, Handlers::new(service), policy, seed).await;
    host.finish();
    Ok(())
}

/// The server is a part of this process: it cannot hang without us, so it is not asked for signs of
/// life, not even after a cancellation.
fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.label = "the handler".into();
    policy.cancel = Cancel::Forward;
    policy.liveness.interval = None;
    policy.liveness.cancel_watch = Duration::ZERO;
    policy
}

/// Writes what happens to where the rest of the program writes.
struct Log;

impl Observer for Log {
    fn watches_requests(&self) -> bool {
        false
    }

    fn event(&self, _session: Option<u64>, _now: Time, event: &Event) {
        tracing::debug!("{event}");
    }
}
