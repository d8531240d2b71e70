//! Requests without a session that come through other gateways.
//!
//! A gateway says in the headers of its requests which gateways a client has come through, and refuses what has come
//! through itself. The handshake with a server is made once and says it, too: if all requests shared it, two gateways
//! that have each other for a server would each wait for the handshake of the other. So requests that have come another
//! way have servers of their own.

use crate::switch::Sharing;
use crate::time::Time;

use super::{Gateway, NoServer, ServerId, TargetId, Urgency, Used};

/// Ways with a server of their own at once, for each target.
pub const MOST_LANES: usize = 16;

/// The gateways that a request has come through, as a number. Requests with the same one may share a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u64);

impl<S: Used> Gateway<S> {
    /// The server that a request without a session is handed to, which has come through other gateways. Starts one if
    /// there is none for this way. With [`MOST_LANES`] of them the one that was unused longest is stopped for it; if
    /// all are in use, there is [none](NoServer::Full).
    pub fn request_along(
        &mut self,
        target: TargetId,
        lane: Lane,
        now: Time,
    ) -> Result<ServerId, NoServer> {
        let known = self.open_target(target)?;
        let own = known.lanes.iter().find(|(it, _)| *it == lane);
        let server = match own {
            Some((_, server)) => *server,
            None => {
                if known.lanes.len() >= MOST_LANES {
                    let unused = self.unused_lane(target, now).ok_or(NoServer::Full)?;
                    self.stop(unused, Urgency::Graceful, now);
                }
                self.start_along(target, lane, now)
            }
        };
        if let Some(server) = self.servers.get_mut(&server) {
            server.used = now;
        }
        Ok(server)
    }

    /// The server of a lane that was unused longest, if one is not in use.
    fn unused_lane(&self, target: TargetId, now: Time) -> Option<ServerId> {
        let lanes = self.targets.get(&target)?.lanes.iter();
        let unused = lanes.filter_map(|(_, id)| {
            let server = self.servers.get(id)?;
            let usage = server.usage();
            (usage.in_flight == 0).then(|| (server.last_use(&usage, now), *id))
        });
        unused.min().map(|(_, id)| id)
    }

    fn start_along(&mut self, target: TargetId, lane: Lane, now: Time) -> ServerId {
        let id = self.start(target, Sharing::Pooled, Some(lane), now);
        if let Some(target) = self.targets.get_mut(&target) {
            target.lanes.push((lane, id));
        }
        id
    }
}
