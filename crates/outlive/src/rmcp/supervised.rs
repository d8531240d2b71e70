//! A session as a transport of rmcp.

use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use outlive_core::error::{Error, Outcome};
use outlive_core::policy::Policy;
use rmcp::RoleClient;
use rmcp::model::{ClientNotification, ClientRequest, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::oneshot;

use super::codec;
use super::downstream::{Order, RmcpDownstream, Sent, Shared};
use crate::client::{Event, Listen, State};
use crate::driver::address::{Address, Connect};
use crate::driver::connector::Connector;
use crate::process::command::Command;

/// Runs a session with a server.
type Run =
    Box<dyn FnOnce(RmcpDownstream, Policy, u64) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A transport for an rmcp client whose server may die. See the [module](super).
///
/// The server is started when rmcp sends the first message, on the runtime rmcp runs on.
#[must_use = "nothing happens before an rmcp client is served with it"]
pub struct Supervised {
    /// `None` once it runs.
    run: Option<Run>,
    policy: Policy,
    shared: Arc<Shared>,
}

impl Supervised {
    /// The server is a child process. It is started again when it dies, and leaves with the client.
    pub fn command(command: impl Into<Command>) -> Supervised {
        Supervised::new(command.into())
    }

    /// The server is reached over streams of bytes that `connector` makes.
    pub fn connector<C: Connector>(connector: C) -> Supervised {
        Supervised::new(Connect::new(connector))
    }

    /// The server is found at this address.
    pub fn new<S: Address>(server: S) -> Supervised {
        let mut policy = Policy::default();
        policy.label = server.label().into();
        Supervised {
            run: Some(Box::new(|downstream, policy, seed| {
                Box::pin(server.run(downstream, policy, seed))
            })),
            policy,
            shared: Arc::new(Shared::new()),
        }
    }

    /// When the server is restarted, calls are repeated, and all the rest. The label stays.
    pub fn policy(mut self, policy: Policy) -> Supervised {
        let label = self.policy.label.clone();
        self.policy = policy;
        self.policy.label = label;
        self
    }

    /// What the server is called in errors; by default its command.
    pub fn label(mut self, label: impl Into<String>) -> Supervised {
        self.policy.label = label.into().into();
        self
    }

    /// A handle to see how the connection stands, to be taken before rmcp takes the transport.
    pub fn handle(&self) -> Handle {
        Handle {
            shared: self.shared.clone(),
        }
    }

    fn start(&mut self) {
        if let Some(run) = self.run.take() {
            self.shared.open(&self.policy.limits);
            let seed = crate::run::seed();
            let downstream = RmcpDownstream::new(self.shared.clone());
            tokio::spawn(run(downstream, self.policy.clone(), seed));
        }
    }

    /// Hands a message to the session, in the order rmcp sends them. A request is waited for.
    fn post(
        &self,
        message: &TxJsonRpcMessage<RoleClient>,
    ) -> Result<Option<oneshot::Receiver<Sent>>, Error> {
        let frame = codec::write::<RoleClient>(message)?;
        let limit = self.policy.limits.message;
        if frame.len() > limit {
            let answer = false;
            return Err(Error::TooLarge { limit, answer });
        }
        let (order, sent) = match message {
            JsonRpcMessage::Request(request) => {
                let (reply, sent) = oneshot::channel();
                let greets = matches!(
                    request.request,
                    ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_)
                );
                let id = codec::id(&request.id);
                let order = Order::Request {
                    id,
                    frame,
                    greets,
                    reply,
                };
                (order, Some(sent))
            }
            JsonRpcMessage::Notification(notification) => match &notification.notification {
                ClientNotification::CancelledNotification(cancelled) => {
                    match &cancelled.params.request_id {
                        Some(id) => {
                            let id = codec::id(id);
                            (Order::Cancel { id, frame }, None)
                        }
                        // It cancels nothing.
                        None => return Ok(None),
                    }
                }
                _ => (Order::Send(frame), None),
            },
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => (Order::Send(frame), None),
        };
        self.shared.order(order)?;
        Ok(sent)
    }
}

impl Transport<RoleClient> for Supervised {
    type Error = Error;

    fn name() -> Cow<'static, str> {
        "outlive".into()
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        self.start();
        // Now, not when the future is polled: rmcp polls it on a task of its own, and a request
        // could be overtaken by its cancellation.
        let posted = self.post(&message);
        async move {
            match posted? {
                None => Ok(()),
                Some(sent) => sent.await.unwrap_or(Err(Error::ShuttingDown {
                    outcome: Outcome::Unknown,
                })),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.start();
        poll_fn(|cx| self.shared.mail.poll_next(cx)).await
    }

    async fn close(&mut self) -> Result<(), Error> {
        if self.run.is_none() && self.shared.order(Order::Leave).is_ok() {
            self.shared.watch.closed().await;
        }
        Ok(())
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        match self.run {
            Some(_) => self.shared.watch.close(),
            // Closed already: then nothing is left to be done.
            None => drop(self.shared.order(Order::Leave)),
        }
    }
}

impl fmt::Debug for Supervised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervised")
            .field("server", &self.policy.label)
            .field("state", &self.shared.watch.state())
            .finish_non_exhaustive()
    }
}

/// How a [`Supervised`] connection stands. Cheap to clone; it does not keep the connection alive.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    /// Where it stands now.
    pub fn state(&self) -> State {
        self.shared.watch.state()
    }

    /// Where it stands, now and whenever that changes.
    pub fn watch(&self) -> Listen<State> {
        self.shared.watch.watch()
    }

    /// What happens from now on. What the server notifies is not among it: that goes to rmcp.
    pub fn events(&self) -> Listen<Event> {
        self.shared.watch.events()
    }

    /// Waits until calls go through. Fails if that will not be for a while, or never.
    pub async fn ready(&self) -> Result<(), Error> {
        self.shared.watch.ready().await
    }

    /// Puts a new server under the client; calls in flight may finish first.
    pub fn reconnect(&self) {
        // If it does not run, there is nothing to be replaced.
        let _ = self.shared.order(Order::Restart);
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("state", &self.state())
            .finish()
    }
}
