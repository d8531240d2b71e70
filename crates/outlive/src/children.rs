//! Child processes as the server's side of a driver.

use std::io;
use std::sync::{OnceLock, mpsc};
use std::task::{Context, Poll};
use std::thread;

use outlive_core::Generation;
use outlive_core::cause::{Exit, StartFailure};
use rustix::process::Pid;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::child::ChildLink;
use crate::command::Command;
use crate::process;
use crate::secrets::Secrets;
use crate::upstream::Upstream;
use crate::warden::Warden;

/// Starts the same command again and again.
#[derive(Debug)]
pub(crate) struct Children {
    command: Command,
    secrets: Secrets,
    message_limit: usize,
    /// This process has no other children: orphans among them are ours to end.
    owns_all: bool,
    /// Who ends them if we are killed.
    warden: Option<Warden>,
    /// `SIGCHLD`.
    ended: Signal,
}

impl Children {
    /// Beside other children of this process.
    pub(crate) fn beside_others(
        command: Command,
        secrets: Secrets,
        message_limit: usize,
    ) -> io::Result<Children> {
        Ok(Children {
            command,
            secrets,
            message_limit,
            owns_all: false,
            warden: None,
            ended: signal(SignalKind::child())?,
        })
    }

    /// As the only children of this process but for a warden.
    pub(crate) fn alone(self) -> Children {
        process::adopt_orphans();
        Children {
            owns_all: true,
            ..self
        }
    }

    /// With somebody who ends them if we are killed.
    pub(crate) fn guarded(self, warden: Option<Warden>) -> Children {
        Children { warden, ..self }
    }

    /// The children of this process that are not orphans.
    fn known(&self, links: &[ChildLink]) -> Vec<Pid> {
        let servers = links.iter().map(ChildLink::pid);
        servers
            .chain(self.warden.as_ref().map(Warden::pid))
            .collect()
    }
}

impl Upstream for Children {
    type Link = ChildLink;

    fn connect(&mut self, generation: Generation) -> Result<ChildLink, StartFailure> {
        let child = match self.owns_all {
            true => process::spawn(&self.command)?,
            false => spawn_for_good(&self.command)?,
        };
        let link = ChildLink::new(child, generation, self.message_limit)?;
        if let Some(warden) = &self.warden {
            warden.guard(link.pid());
        }
        Ok(link)
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.ended.poll_recv(cx).map(|_| ())
    }

    fn end(&mut self, link: ChildLink, others: &[ChildLink]) -> (Exit, u64) {
        let pid = link.pid();
        let end = link.end();
        if let Some(warden) = &self.warden {
            warden.release(pid);
        }
        // While another server lives, the orphans may be its own.
        if self.owns_all && others.is_empty() {
            process::kill_orphans(&self.known(others));
        }
        end
    }

    fn tidy(&mut self, links: &[ChildLink]) {
        if self.owns_all {
            process::collect_orphans(&self.known(links));
        }
    }

    fn mask(&self, text: &str) -> String {
        self.secrets.mask(text)
    }
}

type Started = Result<std::process::Child, StartFailure>;

/// Starts a command on a thread that never ends. On Linux a server dies with the thread that
/// started it, and threads of a runtime come and go.
fn spawn_for_good(command: &Command) -> Started {
    static STARTER: OnceLock<mpsc::Sender<(Command, mpsc::Sender<Started>)>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (starter, orders) = mpsc::channel::<(Command, mpsc::Sender<Started>)>();
        let start = move || {
            for (command, reply) in orders {
                // Whoever ordered it waits for the reply.
                let _ = reply.send(process::spawn(&command));
            }
        };
        // Without a thread the channel is closed, and the order below fails.
        let _ = thread::Builder::new()
            .name("outlive-starter".into())
            .spawn(start);
        starter
    });
    let lost = || StartFailure::Other("there is no thread to start it on".into());
    let (reply, started) = mpsc::channel();
    starter.send((command.clone(), reply)).map_err(|_| lost())?;
    started.recv().map_err(|_| lost())?
}
