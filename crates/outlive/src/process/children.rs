//! Child processes as the server's side of a driver.

use std::io;
use std::task::{Context, Poll};

use outlive_core::Generation;
use outlive_core::cause::{Exit, StartFailure};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::driver::upstream::Upstream;
use crate::process::child::ChildLink;
use crate::process::command::Command;
use crate::process::orphan_reaper::OrphanReaper;
use crate::process::server::{self, Exits};
use crate::process::starter;
use crate::secrets::Secrets;

/// Starts the same command again and again.
#[derive(Debug)]
pub(crate) struct Children {
    command: Command,
    secrets: Secrets,
    message_limit: usize,
    /// Who ends them if we are killed.
    orphan_reaper: Option<OrphanReaper>,
    ended: Exits,
    /// Something of a link has come to its end that is no process of ours; handed out to links.
    done: UnboundedSender<()>,
    dones: UnboundedReceiver<()>,
}

impl Children {
    /// Beside other children of this process.
    pub(crate) fn beside_others(
        command: Command,
        secrets: Secrets,
        message_limit: usize,
    ) -> io::Result<Children> {
        let (done, dones) = unbounded_channel();
        Ok(Children {
            command,
            secrets,
            message_limit,
            orphan_reaper: None,
            ended: Exits::new()?,
            done,
            dones,
        })
    }

    /// As the only children of this process but for an orphan reaper.
    pub(crate) fn alone(self) -> Children {
        server::own_orphans();
        self
    }

    /// With somebody who ends them if we are killed.
    pub(crate) fn guarded(self, orphan_reaper: Option<OrphanReaper>) -> Children {
        Children {
            orphan_reaper,
            ..self
        }
    }
}

impl Upstream for Children {
    type Link = ChildLink;

    fn connect(&mut self, generation: Generation) -> Result<ChildLink, StartFailure> {
        let starting = starter::start(&self.command, self.orphan_reaper.as_ref());
        let done = self.done.clone();
        Ok(ChildLink::new(
            starting,
            done,
            generation,
            self.message_limit,
        ))
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Each is asked, so that each wakes us.
        let ended = self.ended.poll(cx).is_ready();
        match ended | self.dones.poll_recv(cx).is_ready() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn end(&mut self, link: ChildLink, _others: &[ChildLink]) -> (Exit, u64) {
        link.end()
    }

    fn tidy(&mut self, _links: &[ChildLink]) {
        server::tidy();
    }

    fn mask(&self, text: &str) -> String {
        self.secrets.mask(text)
    }
}
