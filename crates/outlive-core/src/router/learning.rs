//! What a server offers is read: all of it when a leg is ready, and a list when the server says that it has changed.

use crate::gateway::TargetId;
use crate::message::Message;
use crate::protocol::List;
use crate::roster::{self, Item, Offer};

use super::table::What;
use super::{Output, Router};

/// Pages of one list. A server that has more has no end.
const MOST_PAGES: usize = 1000;

/// One list, page by page.
#[derive(Debug, Default)]
struct Draft {
    items: Vec<Item>,
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
}

impl Reading {
    /// What the answer to `initialize` tells, if it tells anything.
    pub(super) fn of_handshake(result: &[u8]) -> Option<Reading> {
        Some(Reading {
            offer: Offer::of_handshake(result)?,
            drafts: Default::default(),
        })
    }

    /// Whether it sends log messages that the client may choose from.
    pub(super) fn logs(&self) -> bool {
        self.offer.logging()
    }

    pub(super) fn is_underway(&self) -> bool {
        self.drafts.iter().any(|draft| draft.underway)
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
        self.ask(target, list.method(), b"", What::Page(list));
    }

    /// A server has answered with a page of a list.
    pub(super) fn on_page(&mut self, target: TargetId, list: List, answer: &Message) {
        let known = self.roster.offer(target).cloned();
        let Some(reading) = self.reading(target) else {
            return;
        };
        let draft = &mut reading.drafts[list as usize];
        let page = answer
            .result()
            .and_then(|result| roster::read_page(list, result));
        draft.pages += 1;
        let next = match page {
            Some((items, next)) => {
                draft.items.extend(items);
                next.filter(|_| draft.pages < MOST_PAGES)
            }
            None => {
                // What was known of the list before stays.
                draft.underway = false;
                if let Some(known) = known.and_then(|offer| offer.list(list).cloned()) {
                    reading.offer.set_list(list, known.to_vec());
                }
                return self.learned(target);
            }
        };
        if let Some(next) = next {
            let params = serde_json::json!({ "cursor": next }).to_string();
            return self.ask(target, list.method(), params.as_bytes(), What::Page(list));
        }
        let whole = std::mem::take(draft);
        reading.offer.set_list(list, whole.items);
        if whole.again {
            return self.read(target, list);
        }
        self.learned(target);
    }

    /// Tells what a server offers, once all of it is known.
    fn learned(&mut self, target: TargetId) {
        let Some(reading) = self.reading(target) else {
            return;
        };
        if !reading.is_underway() {
            let offer = Box::new(reading.offer.clone());
            self.out.push_back(Output::Learned(target, offer));
        }
    }
}
