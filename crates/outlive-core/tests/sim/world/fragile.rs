//! A server that dies of cancellations as mcp 1.x does: it answers what was cancelled with an error at once, and
//! when the cancelled *work* ends it is dead and does not show it. It reads one more piece of its input, which is
//! lost, and only then does its process end. Calls beside the cancelled one are in flight all the while.
//!
//! What a server was already running when it died is lost; nobody can know whether it ran. The rule (11) is that
//! nothing else is: the line that finds it out is the session's own, and there is no second such death.

use std::time::Duration;

use outlive_core::cause::Exit;
use outlive_core::message::Kind;
use outlive_core::policy::Cancel;
use outlive_core::{LinkInput, Message, Time};

use super::{Broken, Server, Todo, World};

/// So long after a cancellation the session surely still suspects the server.
const WATCH: Duration = Duration::from_secs(20);

/// How a server of this kind stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Fragile {
    /// When it was last sent a cancellation.
    cancelled_at: Option<Time>,
    /// When it was last sent a ping.
    pinged_at: Option<Time>,
    /// What was cancelled and is still worked on.
    work: u32,
    /// It has died of it: how much of its input is gone with it.
    dead: Option<Swallowed>,
}

/// The session sends a ping, waits so long, and then what follows: one that dies in between takes that with it.
const WINDOW: Duration = Duration::from_millis(100);
/// A session that has so many pings unanswered sends no more.
const MOST_PINGS: usize = 8;

#[derive(Clone, Debug)]
struct Swallowed {
    /// When it died.
    at: Time,
    taken: u64,
    /// When the line came that lets its process end.
    line_at: Option<Time>,
}

impl Fragile {
    pub(super) fn is_dead(&self) -> bool {
        self.dead.is_some()
    }

    pub(super) fn is_found_out(&self) -> bool {
        self.dead
            .as_ref()
            .is_some_and(|dead| dead.line_at.is_some())
    }

    fn is_watched(&self, now: Time) -> bool {
        self.cancelled_at.is_some_and(|at| now - at < WATCH)
    }
}

impl World {
    /// The session sends something to a server of this kind.
    pub(super) fn fragile_gets(&mut self, message: &Message, frame: u64) -> Result<(), Broken> {
        let now = self.now;
        let excused = self.pings_ignored || self.blocked;
        let Some(server) = self.server.as_mut().filter(|s| s.fragile.is_some()) else {
            return Ok(());
        };
        let Some(fragile) = &mut server.fragile else {
            return Ok(());
        };
        if message.is("notifications/cancelled") {
            // Before the handshake nobody knows what a server understands, and it is not asked.
            fragile.cancelled_at = server.greeted.then_some(now);
            let id = message.request_id().map(|id| id.to_json());
            let listens =
                |t: &Todo| Some(&t.id) == id.as_ref() && t.method == "subscriptions/listen";
            if self.died_of_cancel
                && self.policy.cancel == Cancel::Auto
                && !server.todo.iter().any(listens)
            {
                return Err("11: a cancellation reached a server that dies of them".into());
            }
        }
        let watched = fragile.is_watched(now) && !excused;
        let since_ping = |at: Time| fragile.pinged_at.map(|ping| at - ping);
        let in_between =
            |dead: &Swallowed| since_ping(dead.at).is_some_and(|after| after <= WINDOW);
        let in_between = fragile.dead.as_ref().is_some_and(in_between);
        if message.is("ping") {
            fragile.pinged_at = Some(now);
        }
        let pings = server.todo.iter().filter(|t| t.method == "ping").count();
        let Some(dead) = &mut fragile.dead else {
            return Ok(());
        };
        let ours = message.id_json().starts_with(b"\"outlive-") || message.kind() != Kind::Request;
        match dead.line_at {
            None if watched && !ours && pings < MOST_PINGS && !in_between => {
                return Err(
                    "11: a request was spent on a server that died of a cancellation".into(),
                );
            }
            None => dead.line_at = Some(now),
            // Whatever comes in the same moment may be read in one piece.
            Some(at) if at == now => {}
            Some(_) => return Ok(()),
        }
        dead.taken = frame + 1;
        Ok(())
    }

    /// What was cancelled is answered with an error at once, before anything else.
    pub(super) fn answer_cancelled(&mut self) -> Result<(), Broken> {
        loop {
            let Some(server) = self.live().filter(|s| s.fragile.is_some()) else {
                return Ok(());
            };
            let cancelled = |t: &Todo| server.cancelled.contains(&t.id);
            let Some(at) = server.todo.iter().position(cancelled) else {
                return Ok(());
            };
            let todo = server.todo.remove(at);
            server.taken = server.taken.max(todo.frame + 1);
            if let Some(fragile) = &mut server.fragile {
                fragile.work += 1;
            }
            let id = todo.id.clone();
            server.done.push(todo);
            self.server_line(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":0,"message":"Request cancelled"}}}}"#
            ))?;
        }
    }

    /// Cancelled work ends, and the server with it. Nobody notices yet.
    pub(super) fn work_ends(&mut self) -> Result<(), Broken> {
        self.answer_cancelled()?;
        let now = self.now;
        let Some(server) = self.live() else {
            return Ok(());
        };
        let (frames, generation) = (server.frames, server.generation);
        let Some(fragile) = server
            .fragile
            .as_mut()
            .filter(|f| f.work > 0 && !f.is_dead())
        else {
            return Ok(());
        };
        fragile.dead = Some(Swallowed {
            at: now,
            taken: frames,
            line_at: None,
        });
        self.note(|| format!("server {generation} dies of a cancellation and looks alive"));
        Ok(())
    }

    /// The process of a server that died of a cancellation and has read one more line ends.
    pub(super) fn fragile_exits(&mut self) -> Result<(), Broken> {
        let (now, unblocked) = (self.now, !self.blocked);
        let Some(server) = self.live() else {
            return Ok(());
        };
        let Some(fragile) = server.fragile.as_ref().filter(|f| f.is_found_out()) else {
            return Ok(());
        };
        let watched = fragile.is_watched(now) && unblocked && !self.pings_ignored;
        self.die(
            0,
            |sent| LinkInput::Exited {
                exit: Exit::Code(1),
                sent,
            },
            true,
        )?;
        self.died_of_cancel |= watched;
        Ok(())
    }

    /// Whether a server has died of a cancellation so long ago that the session need not look for it.
    pub(super) fn is_undetected(&self) -> bool {
        let fragile = self.server.as_ref().and_then(|s| s.fragile.as_ref());
        let expected = |f: &Fragile| f.is_watched(self.now) && !self.pings_ignored;
        fragile.is_some_and(|f| f.is_dead() && !f.is_found_out() && !expected(f))
    }
}

impl Server {
    /// Whether it has died of a cancellation and its process still runs.
    pub(super) fn has_died_unseen(&self) -> bool {
        self.fragile.as_ref().is_some_and(Fragile::is_dead)
    }

    /// Frames that are gone with it.
    pub(super) fn swallowed(&self) -> u64 {
        let dead = self.fragile.as_ref().and_then(|f| f.dead.as_ref());
        dead.map_or(self.frames, |dead| dead.taken)
    }
}
