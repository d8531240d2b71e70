//! A client goes on where another one was, perhaps in an earlier process.
//!
//! The session knows what the server has to be told. What the handles know besides (what the server is, which ids were
//! used, which streams are open for what) is attached to its snapshot.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlive_core::error::{Error, Outcome};
use outlive_core::snapshot::{ResumeError, Snapshot};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::builder::too_late;
use super::mailbox::Command;
use super::{Client, Peer, Shared, lock};

/// What the handles of the former client knew.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Former {
    peer: Peer,
    next_id: u64,
    /// What every request has in its `_meta`.
    modern: Option<String>,
    log_level: Option<String>,
    /// Streams of notifications: what for, and under which id.
    listens: Vec<(Option<String>, u64)>,
}

impl Former {
    fn of(shared: &Shared) -> Option<Former> {
        let listens = lock(&shared.listens);
        Some(Former {
            peer: shared.peer.get()?.clone(),
            next_id: shared.next_id.load(Ordering::Relaxed),
            modern: shared.modern.get().cloned(),
            log_level: lock(&shared.era).log_level.clone(),
            listens: listens
                .iter()
                .map(|(what, id)| (what.clone(), *id))
                .collect(),
        })
    }

    /// What is attached to a snapshot of a client.
    pub(super) fn read(snapshot: &Snapshot) -> Result<Former, ResumeError> {
        let malformed = |_| ResumeError::Malformed("what its client knew");
        let former: Former = serde_json::from_slice(snapshot.attachment()).map_err(malformed)?;
        // Ids are numbers that every peer can read.
        match former.next_id < 1 << 52 {
            true => Ok(former),
            false => Err(ResumeError::Malformed("the ids of its client")),
        }
    }

    fn tell(self, client: &Client) {
        let shared = &client.handle.shared;
        shared.next_id.store(self.next_id, Ordering::Relaxed);
        if let Some(modern) = self.modern {
            shared.speak_modern(modern);
        }
        if self.peer.era != super::Era::Modern {
            shared.speak_legacy();
        }
        lock(&shared.era).log_level = self.log_level;
        lock(&shared.listens).extend(self.listens);
        client.greeted(self.peer);
    }
}

impl Client {
    /// What another client, perhaps of a later process, needs to go on where this one is
    /// ([`Builder::resume`](super::Builder::resume)): the handshake, subscriptions, the log level, and what this one has
    /// seen of the server's lists. A few KB, unless the lists are long; [`encode`](Snapshot::encode) makes bytes of it.
    ///
    /// Calls are not part of it: whoever waits for them is in this process, and to repeat them for nobody would do
    /// harm. What happens to this client afterwards is not part of it either, so it is taken last, before
    /// [`close`](Client::close). It may contain what the server has said about itself and the URIs of subscriptions, but
    /// no arguments and no results.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        let ended = || Error::ShuttingDown {
            outcome: Outcome::NotSent,
        };
        let (wanted, taken) = oneshot::channel();
        let shared = &self.handle.shared;
        shared.mailbox.push(Command::Snapshot(wanted))?;
        let taken = taken.await.map_err(|_| ended())?;
        let snapshot = taken.map_err(|_| ended())?.without_callers();
        // After the session was looked at: every id in it is older.
        let former = Former::of(shared).ok_or_else(ended)?;
        let former = serde_json::to_vec(&former).map_err(|_| ended())?;
        Ok(snapshot.attach(former))
    }

    /// Waits for the server that takes over from that of the former client.
    pub(super) async fn go_on(
        self,
        former: Former,
        within: Option<Duration>,
        label: Arc<str>,
    ) -> Result<Client, Error> {
        former.tell(&self);
        match within {
            None => self.ready().await?,
            Some(after) => {
                let client = self.clone();
                let ready = async move { client.ready().await };
                let ready = self.until(after, ready).await;
                ready.unwrap_or_else(|| Err(too_late(&self, label, after)))?;
            }
        }
        Ok(self)
    }
}
