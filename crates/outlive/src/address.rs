//! Where a server is found.

use std::future::Future;

use outlive_core::Policy;

use crate::children::Children;
use crate::command::Command;
use crate::connector::{Connections, Connector};
use crate::downstream::Downstream;
use crate::driver;
#[cfg(feature = "http")]
use crate::http::{Remote, Sessions};
use crate::secrets::Secrets;

/// Where a server is found: a [`Command`] that starts it, a [`Connect`], or a `Remote`.
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

pub(crate) mod sealed {
    use super::*;

    pub trait Address: Send + 'static {
        /// What the server is called in errors.
        fn label(&self) -> String;

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
            let secrets = Secrets::of(&self);
            // If not even that can be had, the host is dropped, and knows what that means.
            if let Ok(servers) = Children::beside_others(self, secrets, policy.limits.message) {
                driver::drive(host, servers, policy, seed).await;
            }
        }
    }

    #[cfg(feature = "http")]
    impl Address for Remote {
        fn label(&self) -> String {
            Remote::label(self)
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
