//! What a server offers is read: all of it when a leg is ready, and a list when the server says that it has changed.

use std::time::Duration;

use crate::gateway::TargetId;
use crate::message::Message;
use crate::protocol::{List, code, version};
use crate::roster::{self, Item, Offer};
use crate::time::Time;

use super::table::What;
use super::{Output, Router};

/// Pages of one list. A server that has more has no end.
const MOST_PAGES: usize = 1000;

/// A list that was not empty and now is gets read once more after this time: some servers list nothing while they
/// start.
const DOUBT: Duration = Duration::from_secs(2);

/// A list that could not be read is tried again after this time, then twice as long each time,
const RETRY: Duration = Duration::from_secs(2);
/// this often. What is still not known then is asked for with the next leg.
const MOST_RETRIES: u32 = 6;

/// A list that has changed while it was read is read once more after this time, then twice as long each time: a server
/// may say so with each of its answers.
const PAUSE: Duration = Duration::from_millis(100);
/// No longer than this many times doubled.
const MOST_PAUSES: u32 = 8;

/// One list, page by page.
#[derive(Debug, Default)]
struct Draft {
    items: Vec<Item>,
    bytes: usize,
    pages: usize,
    underway: bool,
    /// It has changed since the reading began: it is read once more.
    again: bool,
}

/// What is being read of a server.
#[derive(Debug)]
pub(super) struct Reading {
    offer: Offer,
    drafts: [Draft; 4],
    /// Since when a list is said to be empty that was not: what was known of it stays until it is read again.
    doubts: [Option<Time>; 4],
    /// When a list is read once more, for another reason.
    again: [Option<Time>; 4],
    /// How often in a row a list could not be read.
    failures: [u32; 4],
    /// How often in a row a list has changed while it was read.
    changes: [u32; 4],
    /// A first list of tools that was empty has been doubted.
    is_doubted: bool,
}

impl Reading {
    /// What the answer to `initialize` tells, if it tells anything.
    pub(super) fn of_handshake(result: &[u8]) -> Option<Reading> {
        Some(Reading {
            offer: Offer::of_handshake(result)?,
            drafts: Default::default(),
            doubts: [None; 4],
            again: [None; 4],
            failures: [0; 4],
            changes: [0; 4],
            is_doubted: false,
        })
    }

    /// What the answer to `server/discover` tells. A server that also knows a handshake is described by its answer to
    /// that, if that is known: what it offers does not change with who asks.
    pub(super) fn of_discovery(result: &[u8], known: Option<&Offer>) -> Option<Reading> {
        let told = Offer::of_handshake(result)?;
        let (version, about) = match known.filter(|it| !it.is_modern()) {
            Some(known) => (known.protocol_version(), known),
            None => (version::MODERN, &told),
        };
        let offer = Offer::new(
            version,
            about.server_info(),
            about.capabilities(),
            about.instructions(),
        );
        Some(Reading {
            offer,
            ..Reading::of_handshake(result)?
        })
    }

    pub(super) fn offers(&self, list: List) -> bool {
        self.offer.offers(list)
    }

    /// Whether it sends log messages that the client may choose from.
    pub(super) fn logs(&self) -> bool {
        self.offer.logging()
    }

    pub(super) fn is_underway(&self) -> bool {
        self.drafts.iter().any(|draft| draft.underway)
    }

    /// Whether a list will be read once more.
    pub(super) fn doubts(&self) -> bool {
        self.doubts.iter().chain(&self.again).any(Option::is_some)
    }

    /// When a list is read once more. What is being read is not waited for.
    pub(super) fn deadline(&self) -> Option<Time> {
        let waiting = (0..self.drafts.len()).filter(|at| !self.drafts[*at].underway);
        waiting.filter_map(|at| self.due(at)).min()
    }

    /// When this list is read once more.
    fn due(&self, at: usize) -> Option<Time> {
        let doubt = self.doubts[at].map(|since| since + DOUBT);
        doubt.into_iter().chain(self.again[at]).min()
    }
}

impl Router {
    fn reading(&mut self, target: TargetId) -> Option<&mut Reading> {
        self.legs.get_mut(&target)?.reading.as_mut()
    }

    /// Reads everything that a server offers.
    pub(super) fn read_all(&mut self, target: TargetId) {
        for list in List::ALL {
            let reading = self.legs.get(&target).and_then(|leg| leg.reading.as_ref());
            if reading.is_some_and(|reading| reading.offer.offers(list)) {
                self.read(target, list);
            }
        }
        self.learned(target);
    }

    /// Reads one list; if that is being done, does it once more afterwards.
    pub(super) fn read(&mut self, target: TargetId, list: List) {
        let Some(reading) = self.reading(target) else {
            return;
        };
        let draft = &mut reading.drafts[list as usize];
        if draft.underway {
            draft.again = true;
            return;
        }
        *draft = Draft {
            underway: true,
            ..Draft::default()
        };
        reading.again[list as usize] = None;
        self.ask(target, list.method(), b"", What::Page(list));
    }

    /// Reads lists once more whose time has come.
    pub(super) fn read_doubted(&mut self, target: TargetId) {
        let now = self.now;
        for list in List::ALL {
            let Some(reading) = self.reading(target) else {
                return;
            };
            let at = list as usize;
            if reading.due(at).is_some_and(|due| due <= now) && !reading.drafts[at].underway {
                self.read(target, list);
            }
        }
    }

    /// A server has answered with a page of a list.
    pub(super) fn on_page(&mut self, target: TargetId, list: List, answer: &Message) {
        let (now, at) = (self.now, list as usize);
        let known = self
            .roster
            .offer(target)
            .and_then(|it| it.list(list))
            .cloned();
        let Some(reading) = self.reading(target) else {
            return;
        };
        let draft = &mut reading.drafts[at];
        let page = answer
            .result()
            .and_then(|result| roster::read_page(list, result));
        let Some((items, next)) = page else {
            // What was known of the list before stays.
            let draft = std::mem::take(draft);
            reading.doubts[at] = None;
            reading.failures[at] += 1;
            let failures = reading.failures[at];
            if draft.again || failures <= MOST_RETRIES && !is_unknown_method(answer) {
                let wait = RETRY * (1 << (failures - 1).min(MOST_RETRIES));
                reading.again[at] = Some(now + wait);
            }
            return self.learned(target);
        };
        draft.pages += 1;
        draft.bytes += items.iter().map(|it| it.json().len()).sum::<usize>();
        draft.items.extend(items);
        let more = draft.pages < MOST_PAGES && draft.bytes < roster::MOST_BYTES;
        if let Some(next) = next.filter(|_| more) {
            let params = serde_json::json!({ "cursor": next }).to_string();
            return self.ask(target, list.method(), params.as_bytes(), What::Page(list));
        }
        let whole = std::mem::take(draft);
        reading.failures[at] = 0;
        let known = reading.offer.list(list).or(known.as_ref());
        let emptied = whole.items.is_empty() && known.is_some_and(|known| !known.is_empty());
        let is_first = list == List::Tools && known.is_none() && !reading.is_doubted;
        if is_first && whole.items.is_empty() {
            reading.is_doubted = true;
            reading.again[at] = Some(now + DOUBT);
        }
        let since = reading.doubts[at].unwrap_or(now);
        match emptied && now < since + DOUBT {
            true => reading.doubts[at] = Some(since),
            false => {
                reading.doubts[at] = None;
                reading.offer.set_list(list, whole.items);
            }
        }
        reading.changes[at] = match whole.again {
            true => (reading.changes[at] + 1).min(MOST_PAUSES),
            false => 0,
        };
        if whole.again {
            reading.again[at] = Some(now + PAUSE * (1 << (reading.changes[at] - 1)));
        }
        self.learned(target);
    }

    /// Tells what a server offers, once all of it is known. Of a list that could not be read, what was known stays.
    fn learned(&mut self, target: TargetId) {
        let known = self.roster.offer(target).cloned();
        let Some(reading) = self.reading(target).filter(|it| !it.is_underway()) else {
            return;
        };
        let mut offer = Box::new(reading.offer.clone());
        for list in List::ALL {
            let before = known.as_ref().and_then(|known| known.list(list));
            if let Some(before) =
                before.filter(|_| offer.offers(list) && offer.list(list).is_none())
            {
                offer.set_list(list, before.to_vec());
            }
        }
        self.out.push_back(Output::Learned(target, offer));
    }
}

/// Whether a server says that it does not know the method.
fn is_unknown_method(answer: &Message) -> bool {
    #[derive(serde::Deserialize)]
    struct Coded {
        code: i64,
    }
    let error = answer.error().unwrap_or_default();
    serde_json::from_slice::<Coded>(error).is_ok_and(|error| error.code == code::METHOD_NOT_FOUND)
}
