//! Lists are answered from the roster, and their changes told.
//!
//! A list is never empty or shorter because something is starting: as long as a server that was never seen before is
//! about to tell what it offers, the list waits, within a bound. So does a request for something that nobody is known
//! to have: it may be that server's. Whatever was answered without it is announced when it comes.

use std::sync::Arc;

use serde_json::json;

use crate::gateway::TargetId;
use crate::message::{Id, Message};
use crate::protocol::List;
use crate::roster::{Page, Roster};
use crate::server::Channel;
use crate::server::refusal::ServerRefusal;
use crate::time::Time;

use super::{Output, Router};

/// A request that waits for servers to tell what they offer.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) channel: Channel,
    pub(super) message: Message,
    until: Time,
}

/// What the client was given of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Told {
    /// It has not asked.
    #[default]
    Nothing,
    /// The list with this digest, or its first pages, or it was told that there is this one.
    Whole(u64),
    /// Pages of several: whatever there is now, it has another.
    Mixed,
}

/// What the client was told, and what it waits for.
#[derive(Debug, Default)]
pub(super) struct Listing {
    waiting: Vec<Waiting>,
    /// What the client was given of each list.
    told: [Told; 4],
    /// When the client is told of lists that have changed.
    announce_at: Option<Time>,
}

impl Listing {
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting)
    }

    /// Takes out the request that has this id.
    pub(super) fn take(&mut self, message: &Message) -> Option<Waiting> {
        let id = message.request_id()?;
        let at = self
            .waiting
            .iter()
            .position(|it| it.message.id() == Some(&id))?;
        Some(self.waiting.remove(at))
    }

    pub(super) fn has(&self, id: &Id) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|it| it.message.id() == Some(id))
    }
}

impl Router {
    /// When a request has waited long enough, or a change is told.
    pub(super) fn listing_deadline(&self) -> Option<Time> {
        let waiting = self.listing.waiting.iter().map(|it| it.until).min();
        let waiting = waiting.map(|until| {
            let awaited = self.awaited().filter_map(|it| self.awaited_until(it));
            awaited.max().unwrap_or(self.now).min(until)
        });
        waiting.into_iter().chain(self.listing.announce_at).min()
    }

    fn unknown(&self) -> impl Iterator<Item = TargetId> + '_ {
        self.roster.unknown().map(|(target, _)| target)
    }

    /// Servers of which nothing is known, and which may soon tell.
    pub(super) fn awaited(&self) -> impl Iterator<Item = TargetId> + '_ {
        self.unknown().filter(|target| self.is_awaited(*target))
    }

    /// Reaches out for the servers of which nothing is known, or no tools.
    pub(super) fn reach_unknown(&mut self) {
        let unknown: Vec<TargetId> = self.unknown().chain(self.roster.incomplete()).collect();
        for target in unknown {
            self.reach(target);
        }
    }

    /// Lets a request wait for the servers of which nothing is known. False if there are none that could change
    /// anything.
    pub(super) fn wait(&mut self, channel: Channel, message: &Message) -> bool {
        if self.awaited().next().is_none() {
            return false;
        }
        self.hold(channel);
        self.listing.waiting.push(Waiting {
            channel,
            message: message.clone(),
            until: self.now + self.policy.list_wait,
        });
        true
    }

    /// The client wants a list.
    pub(super) fn list(&mut self, channel: Channel, list: List, message: &Message) {
        self.reach_unknown();
        if !self.wait(channel, message) {
            self.answer_list(channel, list, message);
        }
    }

    fn answer_list(&mut self, channel: Channel, list: List, message: &Message) {
        let limits = self.policy.limits;
        let cursor = message.cursor_text();
        let page = self.roster.page(
            list,
            cursor.as_deref(),
            limits.page_items,
            limits.page_bytes,
        );
        match page {
            Ok(page) => {
                let result = list_result(list, &page);
                self.send(channel, Message::response(message.id_json(), &result));
                let digest = self.roster.digest(list);
                let told = &mut self.listing.told[list as usize];
                *told = match *told {
                    // A later page of another list than the one that the client has begun to read.
                    Told::Whole(begun) if cursor.is_some() && begun != digest => Told::Mixed,
                    Told::Mixed if cursor.is_some() => Told::Mixed,
                    _ => Told::Whole(digest),
                };
                self.announce_soon();
            }
            Err(bad) => {
                let refusal = ServerRefusal::invalid_params(bad.to_string());
                self.refuse(channel, message.id_json(), &refusal);
            }
        }
    }

    /// Goes on with what waits, if nobody is to be waited for any more.
    fn resume_waiting(&mut self) {
        if self.listing.waiting.is_empty() || self.awaited().next().is_some() {
            return;
        }
        // Lists first: what the others reach out for is not waited for any more.
        let is_list = |it: &Waiting| List::of_method(it.message.method()).is_some();
        let (lists, others): (Vec<Waiting>, Vec<Waiting>) =
            self.listing.take_waiting().into_iter().partition(is_list);
        for waiting in lists.iter().chain(&others) {
            self.resume(waiting);
        }
    }

    /// Goes on with a request without waiting for anybody.
    fn resume(&mut self, waiting: &Waiting) {
        let Waiting {
            channel, message, ..
        } = waiting;
        self.arriving = message.id().cloned();
        match List::of_method(message.method()) {
            Some(list) => self.answer_list(*channel, list, message),
            None => self.route(*channel, message.clone(), false),
        }
        self.release(*channel);
    }

    /// This is what servers offer from now on.
    pub(super) fn on_roster(&mut self, roster: Arc<Roster>) {
        let before = std::mem::replace(&mut self.roster, roster);
        let successors = self.roster.successors(&before);
        let wanted = self.hand_over(&successors);
        self.drop_foreign_legs(&before, &successors);
        if self.introduction.is_some() {
            self.reach_eager();
            wanted.into_iter().for_each(|target| self.reach(target));
            self.reach_added(&before);
        }
        self.announce_soon();
    }

    /// Reaches out for servers that have come, if the client has a list that may lack what they offer.
    fn reach_added(&mut self, before: &Roster) {
        if self.listing.told.iter().all(|told| *told == Told::Nothing) {
            return;
        }
        let unread = self.unknown().chain(self.roster.incomplete());
        let added: Vec<TargetId> = unread.filter(|it| !before.contains(*it)).collect();
        for target in added {
            self.reach(target);
        }
    }

    /// Lets the client be told of lists that have changed, with whatever else changes in a moment.
    fn announce_soon(&mut self) {
        let changed = List::ALL.into_iter().any(|list| self.is_outdated(list));
        if changed && self.listing.announce_at.is_none() {
            self.listing.announce_at = Some(self.now + self.policy.announce_after);
        }
    }

    /// Whether the client was given another list than there is now.
    fn is_outdated(&self, list: List) -> bool {
        match self.listing.told[list as usize] {
            Told::Nothing => false,
            Told::Whole(digest) => digest != self.roster.digest(list),
            Told::Mixed => true,
        }
    }

    /// Gives up waiting in time, and tells of changes.
    pub(super) fn tick_listing(&mut self) {
        let now = self.now;
        let due = |it: &mut Waiting| it.until <= now;
        let due: Vec<Waiting> = self.listing.waiting.extract_if(.., due).collect();
        for waiting in due {
            self.resume(&waiting);
        }
        self.resume_waiting();
        if self.listing.announce_at.is_some_and(|at| at <= now) {
            self.listing.announce_at = None;
            self.announce();
        }
    }

    fn announce(&mut self) {
        let mut told = Vec::new();
        for list in List::ALL {
            if self.is_outdated(list) {
                self.listing.told[list as usize] = Told::Whole(self.roster.digest(list));
                // Resources and their templates share one.
                if !told.contains(&list.changed_method()) {
                    told.push(list.changed_method());
                }
            }
        }
        for method in told {
            let message = Message::notification(method, b"");
            self.out
                .push_back(Output::Offer(self.newest_channel(), message));
        }
    }
}

/// The result of a list request.
fn list_result(list: List, page: &Page<'_>) -> Vec<u8> {
    let size: usize = page.items.iter().map(|item| item.len() + 1).sum();
    let mut json = Vec::with_capacity(size + 64);
    json.extend_from_slice(b"{\"");
    json.extend_from_slice(list.member().as_bytes());
    json.extend_from_slice(b"\":[");
    for (n, item) in page.items.iter().enumerate() {
        if n > 0 {
            json.push(b',');
        }
        json.extend_from_slice(item);
    }
    json.push(b']');
    if let Some(next) = &page.next {
        json.extend_from_slice(b",\"nextCursor\":");
        json.extend_from_slice(json!(next).to_string().as_bytes());
    }
    json.push(b'}');
    json
}
