//! The process that owns the session ends, and another one goes on with it.
//!
//! A snapshot has no link in it: that ends with its owner. To the successor it is a link that has just died, so all that
//! follows is what follows any death: the host is told that the server's questions are void, what was in flight is
//! handed over or fails, the next link is ordered, and `restore` tells its server what the host believes to have.

use bytes::Bytes;

use crate::cause::{Cause, Phase, Reason};
use crate::ledger::{Entry, Ledger, Left, Place};
use crate::message::Id;
use crate::policy::Policy;
use crate::snapshot::{self, Habits, LastLink, ResumeError, Snapshot, SnapshotError};
use crate::time::{Clock, Time};

use super::host::LONGEST_ID;
use super::link::{Ask, Link, Stage};
use super::{Ending, Session, Waiting};

impl Session {
    /// What a successor must know to go on with this session, as it is at `now`. See [`Snapshot`] for what is in it and
    /// what is not.
    ///
    /// Nothing changes by it. What happens after it the successor does not know, so whoever takes it hands over and
    /// feeds this session nothing more.
    pub fn snapshot(&self, now: Time) -> Result<Snapshot, SnapshotError> {
        if self.ending != Ending::No {
            return Err(SnapshotError::Ending);
        }
        if !self.out.is_empty() {
            return Err(SnapshotError::Undrained);
        }
        let now = self.clock.clone().read(now, self.due_at());
        let entry = |id: &Id| self.ledger.get(id).cloned();
        let waits = |id: &Id, key| entry(id).filter(|e| e.key == key && e.is_held());
        let waiting = self.queue.iter().filter_map(|waiting| match waiting {
            Waiting::Request(id, key) => {
                let entry = waits(id, *key)?;
                Some(snapshot::Waiting::Request(entry.into()))
            }
            Waiting::Notification(message, due) => {
                Some(snapshot::Waiting::Notification(message.clone(), *due))
            }
        });
        let later = self.later.iter();
        let later = later.filter_map(|(at, id, key)| Some((*at, waits(id, *key)?)));
        Ok(Snapshot {
            now,
            generation: self.generation,
            link: self.link.as_ref().map(|link| self.last_link(now, link)),
            memory: self.memory.clone(),
            next_key: self.ledger.next_key(),
            waiting: waiting.collect(),
            later: later.collect(),
            habits: Habits {
                absorbing: self.absorbing,
                died_as_suspect: self.died_as_suspect,
                no_ping: self.no_ping,
                refuses_discover: self.policy.refuse_discover,
            },
            attachment: Bytes::new(),
        })
    }

    /// The link in service, as it will be known when it is gone.
    fn last_link(&self, now: Time, link: &Link) -> LastLink {
        let mut asks: Vec<Id> = link.asks.keys().cloned().collect();
        asks.sort_unstable();
        let left = |id: Id| {
            let mut entry = self.ledger.get(&id)?.clone();
            entry.run_on(now);
            let Place::InFlight { frame, .. } = entry.place else {
                return None;
            };
            let left = Left {
                taken: frame < link.taken,
                rejected: link.rejected.contains(&id),
                doubted: link.doubted.get(&id).copied(),
            };
            Some((entry, left))
        };
        let in_flight = self.ledger.in_order(|e| !e.is_held());
        LastLink {
            served: link.served.is_some(),
            asks,
            in_flight: in_flight.into_iter().filter_map(left).collect(),
        }
    }

    /// The session of which this is a snapshot, for another owner; `now` is on the clock of that owner, and `seed` is as
    /// in [`Session::new`].
    ///
    /// It is driven as any other and begins with [`Input::Start`](super::Input::Start): then the link of the former
    /// owner is lost, with [`Reason::OwnerEnded`], and the next one is ordered, whose generation is above all there
    /// have been.
    pub fn resume(
        policy: Policy,
        seed: u64,
        snapshot: Snapshot,
        now: Time,
    ) -> Result<Session, ResumeError> {
        check_room(&policy, &snapshot)?;
        let mut session = Session::new(policy, seed);
        let habits = snapshot.habits;
        session.policy.refuse_discover |= habits.refuses_discover;
        session.absorbing = habits.absorbing;
        session.died_as_suspect = habits.died_as_suspect;
        session.no_ping = habits.no_ping;
        session.clock = Clock::going_on(snapshot.now, now);
        session.memory = snapshot.memory;
        session.memory.catalog.link_lost();
        session.ledger = Ledger::going_on(snapshot.next_key);
        session.generation = snapshot.generation;
        let label = session.policy.server_label();
        let ended = || Cause::new(Reason::OwnerEnded, Phase::Service, label);
        session.last_cause = snapshot.generation.map(|_| ended());
        if let (Some(link), Some(generation)) = (snapshot.link, snapshot.generation) {
            let mut lost = Link::new(generation, snapshot.now, &session.policy.limits);
            lost.stage = Stage::Dying {
                reason: Reason::OwnerEnded,
                until: snapshot.now,
            };
            lost.served = link.served.then_some(snapshot.now);
            let asks = link.asks.into_iter().map(|id| (id.clone(), Ask::void(id)));
            lost.asks = asks.collect();
            for (entry, left) in link.in_flight {
                session.leave_in_flight(&mut lost, entry, left);
            }
            session.link = Some(lost);
        }
        for waiting in snapshot.waiting {
            let waiting = match waiting {
                snapshot::Waiting::Request(entry) => {
                    let key = entry.key;
                    Waiting::Request(session.ledger.reinstate(entry), key)
                }
                snapshot::Waiting::Notification(message, due) => {
                    session.note_bytes += message.bytes().len();
                    Waiting::Notification(message, due)
                }
            };
            session.queue.push_back(waiting);
        }
        for (at, entry) in snapshot.later {
            let key = entry.key;
            let id = session.ledger.reinstate(entry.into());
            session.later.push((at, id, key));
        }
        Ok(session)
    }

    /// Puts a request where it was: in flight on a link that is gone. Of what that was sent nothing is known but whether
    /// this was among it, so it has taken one frame of two.
    fn leave_in_flight(&mut self, lost: &mut Link, mut entry: Entry, left: Left) {
        (lost.taken, lost.frames) = (1, 2);
        entry.place = Place::InFlight {
            generation: lost.generation,
            frame: u64::from(!left.taken),
            alias: None,
        };
        let id = self.ledger.reinstate(entry.into());
        if let Some(status) = left.doubted {
            lost.doubted.insert(id.clone(), status);
        }
        if left.rejected {
            lost.rejected.insert(id);
        }
    }
}

/// Whether a snapshot is within the bounds of the policy, as a session always is.
fn check_room(policy: &Policy, snapshot: &Snapshot) -> Result<(), ResumeError> {
    let limits = &policy.limits;
    let notes = snapshot.waiting.iter().filter_map(|waiting| match waiting {
        snapshot::Waiting::Notification(message, _) => Some(message.as_ref()),
        snapshot::Waiting::Request(_) => None,
    });
    let requests = || snapshot.requests().map(|entry| &entry.message);
    let held: Vec<_> = requests().chain(notes).collect();
    let remembered = snapshot.memory.messages();
    let longest = held.iter().copied().chain(remembered);
    let longest = longest.map(|message| message.bytes().len()).max();
    let longest_id = requests().map(|message| message.id_json().len()).max();
    let bytes: usize = held.iter().map(|message| message.bytes().len()).sum();
    let asks = snapshot.link.as_ref().map_or(0, |link| link.asks.len());
    // What was in flight comes back to what is held, of which there is twice as much while a link is open; and what
    // waits is counted together with the notifications.
    let most_bytes = limits.in_flight_bytes.saturating_add(limits.message);
    let most_held = limits.held_bytes.max(limits.message).saturating_mul(3);
    let bounds = [
        (
            held.len(),
            limits
                .in_flight
                .saturating_add(limits.held.saturating_mul(3)),
            "requests",
        ),
        (
            bytes,
            most_bytes.saturating_add(most_held),
            "bytes of requests",
        ),
        (longest.unwrap_or(0), limits.message, "bytes in one message"),
        (longest_id.unwrap_or(0), LONGEST_ID, "bytes in one id"),
        (
            snapshot.memory.subscriptions.len(),
            limits.subscriptions,
            "subscriptions",
        ),
        (asks, limits.asks, "questions of the server"),
    ];
    match bounds.into_iter().find(|(size, most, _)| size > most) {
        Some((.., what)) => Err(ResumeError::TooLarge(what)),
        None => Ok(()),
    }
}
