//! The table of requests the host is waiting for.
//!
//! An entry enters when a request is accepted and leaves exactly once: with the answer, with an
//! error of ours, or with the host's cancellation. That *is* the exactly-once guarantee: there is
//! no other way to answer than to take the entry out.

mod encoding;

use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::error::Outcome;
use crate::event::Unexecuted;
use crate::link::Generation;
use crate::message::{Id, Message};
use crate::policy::Terms;
use crate::request::Request;
use crate::time::Time;

pub(crate) use encoding::Left;

/// The order in which requests were accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestKey(u64);

/// Where a request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Waiting for a server, since then.
    Held { since: Time },
    /// Sent on a link as its `frame`-th frame, under the host's id or, where the server could
    /// have taken that for another request's, under a name of ours.
    InFlight {
        generation: Generation,
        frame: u64,
        alias: Option<Id>,
    },
}

/// A request the host is waiting for.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) message: Message,
    pub(crate) key: RequestKey,
    pub(crate) place: Place,
    pub(crate) accepted: Time,
    /// Since when it has been where it is.
    pub(crate) placed: Time,
    /// Since when it has waited for a server, attempts that found nobody included; none: it never had to.
    pub(crate) waited: Option<Time>,
    pub(crate) terms: Terms,
    /// Deaths of links in a row that it was in flight at.
    pub(crate) deaths: u32,
    /// A server had it, and refused it unexecuted with this status.
    pub(crate) refused: Option<u16>,
    /// How often in a row it was refused because the server was too busy.
    pub(crate) refusals: u32,
    /// How often it was sent again on its link, because the server would take it in another way.
    pub(crate) resends: u32,
    /// Its link has it, refused unexecuted, until there are other credentials.
    pub(crate) challenged: bool,
    /// A session has refused it as if that session were forgotten.
    pub(crate) disowned: bool,
    /// It was sent before and certainly not executed, for this reason.
    pub(crate) unexecuted: Option<Unexecuted>,
    /// It may be repeated only if the new server's list still says so.
    pub(crate) verify: bool,
    /// A `subscriptions/listen` whose acknowledgement the host has.
    pub(crate) acknowledged: bool,
    /// The highest progress the host was told of.
    pub(crate) progress: Option<f64>,
    /// What that was when it was sent, if it was not for the first time: a server that begins anew
    /// has to get there first.
    pub(crate) progress_before: Option<f64>,
    /// A later request about the same thing was answered first, so this one changes nothing any more.
    pub(crate) superseded: bool,
    /// When it fails if nothing happens.
    pub(crate) due: Option<Time>,
    /// Its clock stands still: since when, and what was left on it.
    pub(crate) frozen: Option<(Time, Duration)>,
    /// How long its clock has stood still in all.
    pub(crate) stood: Duration,
}

impl Entry {
    /// What is known of its execution while no server that may have executed it has it.
    pub(crate) fn outcome(&self) -> Outcome {
        match self.refused {
            Some(_) => Outcome::Rejected,
            None => Outcome::NotSent,
        }
    }

    /// A `subscriptions/listen`: it stays open by design, so it is not waited for.
    pub(crate) fn is_listen(&self) -> bool {
        self.message.is("subscriptions/listen")
    }

    /// Its id on its link, if that is not the host's.
    pub(crate) fn wire_id(&self) -> Option<&Id> {
        match &self.place {
            Place::InFlight { alias, .. } => alias.as_ref(),
            Place::Held { .. } => None,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        matches!(self.place, Place::Held { .. })
    }

    /// Whether it changes what the server has for the host, and the next server is told: a subscription, or the level
    /// of log messages.
    pub(crate) fn is_state(&self) -> bool {
        is_subscription(&self.message) || self.message.is("logging/setLevel")
    }

    /// Whether it is about the same thing as another of these.
    fn is_about_the_same(&self, other: &Entry) -> bool {
        match is_subscription(&self.message) {
            true => is_subscription(&other.message) && self.message.uri() == other.message.uri(),
            false => self.message.method() == other.message.method(),
        }
    }

    /// Lets its clock run on, if it stands.
    pub(crate) fn run_on(&mut self, now: Time) {
        if let Some((since, left)) = self.frozen.take() {
            self.stood += now - since;
            self.due = Some(now + left);
        }
    }

    /// The request, as its observers see it.
    pub(crate) fn observed(&self) -> Request<'_> {
        Request::new(Some(self.key.0), &self.message)
    }

    /// The request in words, for error messages.
    pub(crate) fn what(&self) -> String {
        in_words(&self.message)
    }
}

fn is_subscription(request: &Message) -> bool {
    request.is("resources/subscribe") || request.is("resources/unsubscribe")
}

/// A request in words, for error messages.
pub(crate) fn in_words(request: &Message) -> String {
    match request.name() {
        Some(name) if request.is("tools/call") => format!("tool {name:?}"),
        Some(name) if request.is("prompts/get") => format!("prompt {name:?}"),
        _ => request.method().to_string(),
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// By id. They are large, and moved when they enter and leave.
    // The one who chooses the ids can slow down nobody but themselves: a plain hash will do.
    entries: FxHashMap<Id, Box<Entry>>,
    /// Progress tokens of requests in the table.
    tokens: FxHashMap<Id, Id>,
    bytes: usize,
    listens: usize,
    held: usize,
    held_bytes: usize,
    next_key: u64,
    /// Entries that were settled, to be used again: with many requests in flight, asking the allocator for each costs
    /// more than all that is done to it here.
    spare: Spare,
    /// No entry is due earlier. (Some may have left since; then it is early, which is harmless.)
    earliest: Option<Time>,
}

/// Entries without a request.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "it is the boxes that are kept")]
struct Spare(Vec<Box<Entry>>);

impl Spare {
    /// How many there are at most.
    const MOST: usize = 64;
}

impl Clone for Spare {
    fn clone(&self) -> Spare {
        Spare::default()
    }
}

impl Ledger {
    /// An empty one, in which the next request that is accepted has this number.
    pub(crate) fn going_on(next_key: u64) -> Ledger {
        Ledger {
            next_key,
            ..Ledger::default()
        }
    }

    /// The number of the next request.
    pub(crate) fn next_key(&self) -> u64 {
        self.next_key
    }

    pub(crate) fn contains(&self, id: &Id) -> bool {
        self.entries.contains_key(id)
    }

    pub(crate) fn get(&self, id: &Id) -> Option<&Entry> {
        self.entries.get(id).map(Box::as_ref)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Id, &Entry)> {
        self.entries.iter().map(|(id, entry)| (id, &**entry))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Requests that were sent and not answered: their number and bytes.
    pub(crate) fn sent(&self) -> (usize, usize) {
        (self.entries.len() - self.held, self.bytes - self.held_bytes)
    }

    /// Requests that are waiting for a server: their number and bytes.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.held, self.held_bytes)
    }

    /// Whether the host waits for an answer to something that was sent.
    #[inline]
    pub(crate) fn is_awaiting(&self) -> bool {
        self.in_flight() > 0
    }

    /// How many requests were sent and are waited for.
    #[inline]
    pub(crate) fn in_flight(&self) -> usize {
        let held_listens = match self.held > 0 && self.listens > 0 {
            true => self.held_listens(),
            false => 0,
        };
        (self.entries.len() - self.held) - (self.listens - held_listens)
    }

    /// They are few and rare: counting them is not worth a field.
    #[cold]
    fn held_listens(&self) -> usize {
        let all = self.iter();
        all.filter(|(_, e)| e.is_listen() && e.is_held()).count()
    }

    /// How many requests are waited for at all.
    pub(crate) fn awaited(&self) -> usize {
        self.entries.len() - self.listens
    }

    /// Accepts a request. Its id must not be in the table.
    pub(crate) fn accept(&mut self, message: Message, terms: Terms, now: Time) -> Id {
        let key = RequestKey(self.next_key);
        self.next_key += 1;
        let entry = Entry {
            message,
            key,
            place: Place::Held { since: now },
            accepted: now,
            placed: now,
            waited: None,
            terms,
            deaths: 0,
            refusals: 0,
            resends: 0,
            refused: None,
            challenged: false,
            disowned: false,
            unexecuted: None,
            verify: false,
            acknowledged: false,
            progress: None,
            progress_before: None,
            superseded: false,
            due: None,
            frozen: None,
            stood: Duration::ZERO,
        };
        let entry = match self.spare.0.pop() {
            Some(mut spare) => {
                *spare = entry;
                spare
            }
            None => Box::new(entry),
        };
        self.reinstate(entry)
    }

    /// Nobody needs an entry any more that was settled.
    pub(crate) fn reuse(&mut self, mut entry: Box<Entry>) {
        if self.spare.0.len() < Spare::MOST {
            entry.message = Message::nothing();
            self.spare.0.push(entry);
        }
    }

    /// Takes in a request that was accepted before, by us or by a predecessor. Its id must not be in the table.
    pub(crate) fn reinstate(&mut self, entry: Box<Entry>) -> Id {
        let id = entry.message.id().cloned().unwrap_or(Id::Null);
        let size = entry.message.bytes().len();
        self.bytes += size;
        if entry.is_held() {
            self.held += 1;
            self.held_bytes += size;
        }
        if let Some(token) = entry.message.meta_progress_token() {
            self.tokens.insert(token, id.clone());
        }
        self.listens += usize::from(entry.is_listen());
        self.earliest = sooner(self.earliest, entry.due);
        let before = self.entries.insert(id.clone(), entry);
        debug_assert!(before.is_none(), "an id was in the ledger already");
        id
    }

    /// Takes a request out: the one way in which it is settled.
    #[inline]
    pub(crate) fn settle(&mut self, id: &Id) -> Option<Box<Entry>> {
        let entry = self.entries.remove(id)?;
        let size = entry.message.bytes().len();
        self.bytes -= size;
        if entry.is_held() {
            self.held -= 1;
            self.held_bytes -= size;
        }
        self.listens -= usize::from(entry.is_listen());
        if !self.tokens.is_empty()
            && let Some(token) = entry.message.meta_progress_token()
            && self.tokens.get(&token) == Some(id)
        {
            self.tokens.remove(&token);
        }
        Some(entry)
    }

    /// Notes where a request is now and when it is due.
    pub(crate) fn place(&mut self, id: &Id, place: Place, due: Option<Time>, now: Time) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let size = entry.message.bytes().len();
        let was_held = entry.is_held();
        if let Place::Held { since } = place {
            entry.waited = Some(since);
        }
        entry.place = place;
        entry.challenged = false;
        entry.placed = now;
        entry.due = due;
        match (was_held, entry.is_held()) {
            (true, false) => {
                entry.progress_before = entry.progress;
                self.held -= 1;
                self.held_bytes -= size;
            }
            (false, true) => {
                self.held += 1;
                self.held_bytes += size;
            }
            _ => {}
        }
        self.earliest = sooner(self.earliest, due);
    }

    /// Notes that a request was in flight when its link died.
    pub(crate) fn died(&mut self, id: &Id, deaths: u32, verify: bool) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.deaths = deaths;
            entry.verify = verify;
        }
    }

    /// Notes that this request has been done, and with it those before it that are about the same thing.
    pub(crate) fn supersede(&mut self, by: &Entry) {
        for entry in self.entries.values_mut() {
            entry.superseded |=
                entry.is_state() && entry.key < by.key && entry.is_about_the_same(by);
        }
    }

    /// Notes that a server has refused a request unexecuted, with this status.
    pub(crate) fn refused(&mut self, id: &Id, status: u16) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.refused = Some(status);
            entry.unexecuted = Some(Unexecuted::Refused);
        }
    }

    /// Notes that a server was too busy for a request, so often in a row.
    pub(crate) fn put_off(&mut self, id: &Id, status: u16, times: u32) {
        self.refused(id, status);
        if let Some(entry) = self.entries.get_mut(id) {
            entry.refusals = times;
        }
    }

    /// Notes that a request is sent again on its link, as the server would take it.
    pub(crate) fn resent(&mut self, id: &Id) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.resends += 1;
            entry.challenged = false;
        }
    }

    /// Notes that a link has a request that waits for other credentials: the server has not executed it.
    pub(crate) fn challenge(&mut self, id: &Id) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.challenged = true;
        }
    }

    /// Notes that a request was on a link that ended, and was not read there.
    pub(crate) fn unread(&mut self, id: &Id) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.unexecuted = Some(Unexecuted::Unread);
        }
    }

    /// Notes that a session has refused a request as if that session were forgotten.
    pub(crate) fn disown(&mut self, id: &Id, status: u16) {
        self.refused(id, status);
        if let Some(entry) = self.entries.get_mut(id) {
            entry.disowned = true;
        }
    }

    /// Notes that the host has the acknowledgement of a listen request.
    pub(crate) fn acknowledge(&mut self, id: &Id) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.acknowledged = true;
        }
    }

    /// Moves the moment a request is due.
    pub(crate) fn rearm(&mut self, id: &Id, due: Option<Time>) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.due = due;
        }
        self.earliest = sooner(self.earliest, due);
    }

    /// Stops the clock of a request.
    pub(crate) fn freeze(&mut self, id: &Id, now: Time) {
        if let Some(entry) = self.entries.get_mut(id)
            && let Some(due) = entry.due.take()
        {
            entry.frozen = Some((now, due - now));
        }
    }

    /// Lets the clock of a request run on.
    pub(crate) fn thaw(&mut self, id: &Id, now: Time) {
        if let Some(entry) = self.entries.get_mut(id)
            && entry.frozen.is_some()
        {
            entry.run_on(now);
            self.earliest = sooner(self.earliest, entry.due);
        }
    }

    /// Takes note of how far a request is. False if the host must not be told, because it was told of more, or of as
    /// much by an earlier attempt: progress must increase. A stream that is resumed too early repeats itself.
    pub(crate) fn progresses(&mut self, id: &Id, progress: Option<f64>) -> bool {
        let (Some(entry), Some(progress)) = (self.entries.get_mut(id), progress) else {
            return true;
        };
        let repeats = entry.progress_before.is_some_and(|told| progress <= told);
        if repeats || entry.progress.is_some_and(|told| progress < told) {
            return false;
        }
        entry.progress = Some(entry.progress.map_or(progress, |told| told.max(progress)));
        true
    }

    /// The request a progress token belongs to.
    pub(crate) fn by_token(&self, token: &Id) -> Option<&Id> {
        self.tokens.get(token)
    }

    /// The ids of all requests for which `which` holds, in the order they were accepted.
    pub(crate) fn in_order(&self, which: impl Fn(&Entry) -> bool) -> Vec<Id> {
        let all = self.iter();
        let mut found: Vec<_> = all
            .filter(|(_, e)| which(e))
            .map(|(id, e)| (e.key, id))
            .collect();
        found.sort_unstable_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, id)| id.clone()).collect()
    }

    /// The requests that are due by `now`, in order.
    pub(crate) fn due(&mut self, now: Time) -> Vec<Id> {
        if self.earliest.is_none_or(|t| t > now) {
            return Vec::new();
        }
        let due = self.in_order(|e| e.due.is_some_and(|t| t <= now));
        let later = self.entries.values().filter_map(|e| e.due);
        self.earliest = later.filter(|t| *t > now).min();
        due
    }

    /// No request is due before this moment.
    pub(crate) fn earliest(&self) -> Option<Time> {
        self.earliest
    }
}

/// The sooner of two moments, of which either may be never.
#[inline]
pub(crate) fn sooner(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
