//! Where a server is found.

use std::future::Future;

use outlive_core::Policy;

use crate::driver;
use crate::driver::connector::{Connections, Connector};
use crate::driver::downstream::Downstream;
#[cfg(feature = "http")]
use crate::http_client::{Remote, Sessions};
use crate::process::children::Children;
use crate::process::command::Command;
use crate::process::orphan_reaper::OrphanReaper;
use crate::secrets::Secrets;

/// Where a server is found: a [`Command`] that starts it, a [`Guarded`] one, a [`Connect`], or a `Remote`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no server to connect to",
    label = "nobody has said where the server is",
    note = "before `.connect()` write `.command(Command::new(…))`, `.url(…)` (feature `http`), `.server(&server)` or \
            `.connector(…)`"
)]
pub trait Address: sealed::Address {}

impl<S: sealed::Address> Address for S {}

/// A server that is reached with a [`Connector`].
#[derive(Clone, Debug)]
pub struct Connect<C>(C);

impl<C: Connector> Connect<C> {
    /// The server that `connector` connects to.
    pub fn new(connector: C) -> Connect<C> {
        Connect(connector)
    }
}

/// A command whose server ends with this process, however that ends: with all that the server has started.
#[derive(Clone, Debug)]
pub struct Guarded {
    command: Command,
    orphan_reaper: OrphanReaper,
}

impl Guarded {
    /// This command, guarded by `orphan_reaper`.
    pub fn new(command: impl Into<Command>, orphan_reaper: OrphanReaper) -> Guarded {
        Guarded {
            command: command.into(),
            orphan_reaper,
        }
    }
}

/// Runs a session with a command until the host leaves.
async fn run<D: Downstream + Send>(
    command: Command,
    orphan_reaper: Option<OrphanReaper>,
    host: D,
    policy: Policy,
    seed: u64,
) {
    let secrets = Secrets::of(&command);
    // If not even that can be had, the host is dropped, and knows what that means.
    if let Ok(servers) = Children::beside_others(command, secrets, policy.limits.message) {
        driver::drive(host, servers.guarded(orphan_reaper), policy, seed).await;
    }
}

pub(crate) mod sealed {
    use super::*;

    pub trait Address: Send + 'static {
        /// What the server is called in errors.
        fn label(&self) -> String;

        /// What is wrong with it, as far as that can be told without connecting.
        fn check(&self) -> Result<(), String> {
            Ok(())
        }

        /// Runs a session with it until the host leaves.
        fn run<D: Downstream + Send>(
            self,
            host: D,
            policy: Policy,
            seed: u64,
        ) -> impl Future<Output = ()> + Send;
    }

    impl Address for Command {
        fn label(&self) -> String {
            Command::label(self, &Secrets::of(self))
        }

        async fn run<D: Downstream + Send>(self, host: D, policy: Policy, seed: u64) {
            run(self, None, host, policy, seed).await;
        }
    }

    impl Address for Guarded {
        fn label(&self) -> String {
            self.command.label(&Secrets::of(&self.command))
        }

        async fn run<D: Downstream + Send>(self, host: D, policy: Policy, seed: u64) {
            run(self.command, Some(self.orphan_reaper), host, policy, seed).await;
        }
    }

    #[cfg(feature = "http")]
    impl Address for Remote {
        fn label(&self) -> String {
            Remote::label(self)
        }

        fn check(&self) -> Result<(), String> {
            self.check_words()
        }

        async fn run<D: Downstream + Send>(self, host: D, policy: Policy, seed: u64) {
            let servers = Sessions::new(self, policy.limits.message);
            driver::drive(host, servers, policy, seed).await;
        }
    }

    impl<C: Connector> Address for Connect<C> {
        fn label(&self) -> String {
            "the server".into()
        }

        async fn run<D: Downstream + Send>(self, host: D, policy: Policy, seed: u64) {
            let servers = Connections::new(self.0, policy.limits.message);
            driver::drive(host, servers, policy, seed).await;
        }
    }
}
