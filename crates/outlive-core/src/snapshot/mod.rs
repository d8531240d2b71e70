//! What a successor must know to go on with a session, as a value and as bytes.
//!
//! The process that owns a session may end: it is upgraded, killed, or its machine goes. Whoever has a [`Snapshot`]
//! resumes the session where it was ([`Session::resume`](crate::Session::resume)): the host keeps its handshake, its
//! subscriptions and its log level, is told which lists have changed, and every request it waits for is still settled
//! once. A predecessor's death is to a session what a server's death is, and is dealt with by the same rules.
//!
//! # What is in it
//!
//! | part | what for |
//! |---|---|
//! | memory | handshake, `notifications/initialized`, version, log level, subscriptions, who a modern host says it is, tokens of tasks: what the next server is told |
//! | catalogue | what the host has seen of each list (names and fingerprints) and which tools may be called twice: what the next server's lists are compared with |
//! | requests | what the host waits for: those that wait for a server, in order; those put aside for later; those in flight, and of each whether a server may have it. With their bytes, their terms, the time they have left, and what is known of earlier attempts |
//! | notifications | what the host has said that no server was sent yet |
//! | the last link | its generation, so that the next one is above it; the questions that the server has asked, which the host is told are void |
//! | the server's habits | it dies of cancellations, answers no `ping`, ends when asked `server/discover`: each has cost a death to learn |
//! | the session's clock | which goes on where it stood; what passes between the two owners is counted for nobody |
//! | an attachment | what the owner itself wants to find again, as bytes |
//!
//! # What is left out, and why
//!
//! - **The link**, its names for requests and its liveness, and **the process** of the link before: they are the
//!   predecessor's, and end with it. Its answers must not reach the host, and the host's must not reach the next server.
//! - **Outputs** that were not carried out. They are part of what has happened already (an answer has left the ledger),
//!   so a snapshot between [`handle`](crate::Session::handle) and the last [`poll`](crate::Session::poll) would lose
//!   them: there is none ([`SnapshotError::Undrained`]).
//! - **How the session ends.** Nobody takes over what is ending ([`SnapshotError::Ending`]).
//! - **The supervisor**: failures, delays, an open breaker. They tell of servers as the predecessor started them, with
//!   its environment on its machine. A successor tries at once in any case, and counts for itself; while it does, calls
//!   are held instead of refused. What is true of the server wherever it runs is among its habits.
//! - **Causes.** What is held for a link that died earlier fails, if it does, with the newest cause, which is the
//!   predecessor's end.
//! - **Our own reading of lists, pauses, doubts about `server/discover`** and whether the host has been told that its
//!   `notifications/initialized` was taken: they are about one link, or one moment.
//! - **Settings.** They come with the [`Policy`](crate::Policy) of the successor.
//!
//! # The encoding
//!
//! `outlive`, a byte for the version (1), the length of the rest (4 bytes), the rest, and a fingerprint of all that (8
//! bytes). Messages are in it by their bytes. A version that is not known is refused rather than guessed at. The
//! fingerprint finds damage, and is no signature: who can write a snapshot can write whatever they like.

pub(crate) mod codec;

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;

use crate::ledger::{Entry, Left};
use crate::link::Generation;
use crate::memory::Memory;
use crate::message::{Id, Kind, Message};
use crate::time::Time;
use codec::{Read, Reader, Writer};

const MAGIC: &[u8] = b"outlive";
const VERSION: u8 = 1;

/// What is counted up for one request (deaths, refusals) is told apart up to this.
pub(crate) const MANY: u32 = 1 << 20;

/// A session as its successor has to know it. See the [module](self).
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The session's own time.
    pub(crate) now: Time,
    /// The newest generation that was ordered.
    pub(crate) generation: Option<Generation>,
    pub(crate) link: Option<LastLink>,
    pub(crate) memory: Memory,
    pub(crate) next_key: u64,
    pub(crate) waiting: Vec<Waiting>,
    /// Requests put aside, and until when.
    pub(crate) later: Vec<(Time, Entry)>,
    pub(crate) habits: Habits,
    pub(crate) attachment: Bytes,
}

/// The link that was in service.
#[derive(Clone, Debug)]
pub(crate) struct LastLink {
    /// It has been in service.
    pub(crate) served: bool,
    /// What its server has asked and the host not answered, by the ids the host knows.
    pub(crate) asks: Vec<Id>,
    pub(crate) in_flight: Vec<(Entry, Left)>,
}

/// What waits for a link.
#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    Request(Box<Entry>),
    /// And when it is too late for it.
    Notification(Box<Message>, Time),
}

/// What was learnt about a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Habits {
    pub(crate) absorbing: bool,
    pub(crate) died_as_suspect: bool,
    pub(crate) no_ping: bool,
    pub(crate) refuses_discover: bool,
}

impl Snapshot {
    /// The snapshot as bytes, for a file or a store.
    pub fn encode(&self) -> Vec<u8> {
        codec::seal(MAGIC, VERSION, self.now, |out| self.write(out))
    }

    /// Reads what [`encode`](Snapshot::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Snapshot, ResumeError> {
        codec::unseal(MAGIC, VERSION, bytes, Snapshot::read)
    }

    fn write(&self, out: &mut Writer) {
        out.duration(self.now.since_start());
        out.maybe(self.generation, |out, generation| {
            out.number(generation.number());
        });
        self.memory.write(out);
        out.number(self.next_key);
        out.maybe(self.link.as_ref(), |out, link| {
            out.flag(link.served);
            out.all(link.asks.iter(), |out, id| out.id(id));
            out.all(link.in_flight.iter(), |out, (entry, left)| {
                entry.write(out);
                left.write(out);
            });
        });
        out.all(self.waiting.iter(), |out, waiting| match waiting {
            Waiting::Request(entry) => {
                out.flag(true);
                entry.write(out);
            }
            Waiting::Notification(message, due) => {
                out.flag(false);
                out.message(message);
                out.coming(*due);
            }
        });
        out.all(self.later.iter(), |out, (at, entry)| {
            out.coming(*at);
            entry.write(out);
        });
        let habits = &self.habits;
        for habit in [
            habits.absorbing,
            habits.died_as_suspect,
            habits.no_ping,
            habits.refuses_discover,
        ] {
            out.flag(habit);
        }
        out.bytes(&self.attachment);
    }

    fn read(from: &mut Reader) -> Read<Snapshot> {
        let now = Time::after(from.duration("its time")?);
        from.now = now;
        let generation = from.maybe("its generation", |from| {
            let number = from.number("its generation")?;
            Generation::of(number).ok_or(ResumeError::Malformed("its generation"))
        })?;
        let memory = Memory::read(from)?;
        let next_key = from.number("its count of requests")?;
        let link = from.maybe("its link", |from| {
            Ok(LastLink {
                served: from.flag("its link")?,
                asks: from.all("a question", |from| from.id("a question"))?,
                in_flight: from.all("a request in flight", |from| {
                    Ok((Entry::read(from)?, Left::read(from)?))
                })?,
            })
        })?;
        let waiting = from.all("what waits", |from| match from.flag("what waits")? {
            true => Ok(Waiting::Request(Entry::read(from)?.into())),
            false => Ok(Waiting::Notification(
                from.message(Kind::Notification, "a notification")?.into(),
                from.coming("a notification")?,
            )),
        })?;
        let later = from.all("what waits for later", |from| {
            Ok((from.coming("what waits for later")?, Entry::read(from)?))
        })?;
        let mut habit = || from.flag("the habits of its server");
        let habits = Habits {
            absorbing: habit()?,
            died_as_suspect: habit()?,
            no_ping: habit()?,
            refuses_discover: habit()?,
        };
        let snapshot = Snapshot {
            now,
            generation,
            link,
            memory,
            next_key,
            waiting,
            later,
            habits,
            attachment: from.bytes("its attachment")?,
        };
        snapshot.check()?;
        Ok(snapshot)
    }

    /// Whether its parts agree with each other.
    fn check(&self) -> Result<(), ResumeError> {
        if self.link.is_some() && self.generation.is_none() {
            return Err(ResumeError::Malformed("a link without a generation"));
        }
        let (mut ids, mut tickets) = (HashSet::new(), HashSet::new());
        for entry in self.requests() {
            let number = entry.key.number();
            if !ids.insert(entry.message.id()) || !tickets.insert(number) {
                return Err(ResumeError::Malformed("a request that is there twice"));
            }
            if number >= self.next_key {
                return Err(ResumeError::Malformed("its count of requests"));
            }
        }
        Ok(())
    }

    /// The requests the host waits for.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &Entry> {
        let in_flight = self.link.iter().flat_map(|link| &link.in_flight);
        let waiting = self.waiting.iter().filter_map(|waiting| match waiting {
            Waiting::Request(entry) => Some(&**entry),
            Waiting::Notification(..) => None,
        });
        let later = self.later.iter().map(|(_, entry)| entry);
        in_flight
            .map(|(entry, _)| entry)
            .chain(waiting)
            .chain(later)
    }

    /// The same with something that the owner of the session wants to find again, in place of what there was.
    #[must_use]
    pub fn attach(mut self, attachment: impl Into<Bytes>) -> Snapshot {
        self.attachment = attachment.into();
        self
    }

    /// What was [attached](Snapshot::attach); empty if nothing was.
    pub fn attachment(&self) -> &[u8] {
        &self.attachment
    }

    /// The same for a host whose callers are gone with the process they were in: of its requests only the streams of
    /// notifications are kept, which are the session's to keep open. What nobody waits for is neither repeated nor
    /// sent, and nobody is told what became of it. A subscription that was being taken back is taken back.
    #[must_use]
    pub fn without_callers(mut self) -> Snapshot {
        let taken_back = |entry: &&Entry| entry.message.is("resources/unsubscribe");
        let taken_back: Vec<String> = self
            .requests()
            .filter(taken_back)
            .filter(|entry| !entry.superseded)
            .filter_map(|entry| Some(entry.message.uri()?.into_owned()))
            .collect();
        for uri in taken_back {
            self.memory.subscriptions.remove(&uri);
        }
        if let Some(link) = &mut self.link {
            link.asks.clear();
            link.in_flight.retain(|(entry, _)| entry.is_listen());
        }
        self.waiting.retain(|waiting| match waiting {
            Waiting::Request(entry) => entry.is_listen(),
            Waiting::Notification(..) => true,
        });
        self.later.retain(|(_, entry)| entry.is_listen());
        self
    }
}

/// Why there is no snapshot of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// There are outputs to be carried out first: they would be lost.
    Undrained,
    /// The session is ending.
    Ending,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SnapshotError::Undrained => "the session's outputs have not all been carried out",
            SnapshotError::Ending => "the session is ending",
        })
    }
}

impl std::error::Error for SnapshotError {}

/// Why a session cannot be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResumeError {
    /// These bytes are something else.
    NotASnapshot,
    /// It was written in a later version of the format.
    UnknownVersion(u8),
    /// Its end is missing.
    Truncated,
    /// Its bytes are not those that were written.
    Damaged,
    /// It is whole, and says something that no session does: about what.
    Malformed(&'static str),
    /// It has more of something than the policy allows: of what.
    TooLarge(&'static str),
}

impl fmt::Display for ResumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResumeError::NotASnapshot => f.write_str("this is no snapshot of a session"),
            ResumeError::UnknownVersion(version) => write!(
                f,
                "the snapshot has version {version} of the format, and this program knows version {VERSION}"
            ),
            ResumeError::Truncated => f.write_str("the end of the snapshot is missing"),
            ResumeError::Damaged => f.write_str("the snapshot is damaged"),
            ResumeError::Malformed(what) => {
                write!(f, "the snapshot makes no sense: {what} cannot be read")
            }
            ResumeError::TooLarge(what) => {
                write!(f, "the snapshot has more {what} than the policy allows")
            }
        }
    }
}

impl std::error::Error for ResumeError {}
