//! A server says that the headers of a call are wrong: its tools are listed again.
//!
//! Which arguments are mirrored stands in the list of tools, and that may have changed since anybody asked for it; or
//! the host knows its tools from elsewhere and has never asked. So the client is to look, and to send the call again
//! with the headers it should have had (2026-07-28, Client Behavior).
//!
//! Tools are listed for one call at a time: whoever waited may find that another has looked already. A call is sent
//! again for this reason once.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};

use super::exchange::{Exchange, State};
use super::{HttpUpstream, Output, Slot};
use crate::link::Resend;
use crate::message::Message;
use crate::time::Time;

/// Longer than a list takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// No list has more pages.
const PAGES: u32 = 100;
/// The metadata that belongs to the call, not to us.
const PROGRESS: &str = "progressToken";

/// Calls whose headers were wrong.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Those that wait for their turn.
    waiting: VecDeque<u64>,
    current: Option<Current>,
}

/// The call for which tools are listed.
#[derive(Debug)]
struct Current {
    number: u64,
    /// The name of its tool.
    wanted: String,
    params: Value,
    /// How many pages have been asked for.
    pages: u32,
    until: Time,
    /// All has been listed that will be.
    done: bool,
}

impl Listing {
    /// This call does not wait any more: it was cancelled.
    pub(super) fn forget(&mut self, slot: Slot) {
        self.waiting.retain(|number| Slot::Message(*number) != slot);
    }
}

impl HttpUpstream {
    /// The headers of this call are wrong.
    pub(super) fn list_for(&mut self, now: Time, number: u64) {
        self.listing.waiting.push_back(number);
        self.list_next(now);
    }

    fn list_next(&mut self, now: Time) {
        while self.listing.current.is_none()
            && let Some(number) = self.listing.waiting.pop_front()
        {
            let Some(it) = self.exchanges.get(&Slot::Message(number)) else {
                continue;
            };
            let (call, had) = (it.message.clone(), it.mirrored);
            self.listing.current = Some(Current {
                number,
                wanted: call.name().unwrap_or_default().into_owned(),
                params: params(&call).unwrap_or_default(),
                pages: 0,
                until: now + PATIENCE,
                done: false,
            });
            self.out.push_back(Output::Compare { number, call, had });
        }
    }

    /// Whether the headers of a call would be others now.
    pub(super) fn compared(&mut self, now: Time, number: u64, better: bool) {
        let Some(current) = &self.listing.current else {
            return;
        };
        if current.number != number {
            return;
        }
        if !better && !current.done {
            return self.ask_for_page(now);
        }
        self.listing.current = None;
        let slot = Slot::Message(number);
        if let Some(it) = self.take(slot) {
            match (&it.state, better) {
                (State::Mismatched(refused), true) => {
                    let otherwise = it.rejected(refused.head.status);
                    self.ask(now, slot, it, Resend::Headers, otherwise);
                }
                (State::Mismatched(refused), false) => {
                    let refusal = it.refusal(refused);
                    self.keep_refused(now, slot, &it, refusal);
                }
                _ => self.keep(slot, it, None),
            }
        }
        self.list_next(now);
    }

    fn ask_for_page(&mut self, now: Time) {
        let Some(current) = &mut self.listing.current else {
            return;
        };
        let cancelled = !self.exchanges.contains_key(&Slot::Message(current.number));
        if current.pages == PAGES || now >= current.until || cancelled || current.params.is_null() {
            return self.list_done(now);
        }
        current.pages += 1;
        let id = format!("outlive-tools-{}", current.pages);
        let (id, params) = (json!(id).to_string(), current.params.to_string());
        let request = Message::request(id.as_bytes(), "tools/list", params.as_bytes());
        let mut page = Box::new(Exchange::new(request));
        page.bound = Some(current.until);
        self.post(now, Slot::Listing, page);
    }

    /// A page of the list, or none.
    pub(super) fn page_read(&mut self, now: Time, page: Option<&Message>) {
        let Some(page) = page else {
            return self.list_done(now);
        };
        self.out.push_back(Output::Learn(page.clone()));
        let Some(current) = &mut self.listing.current else {
            return;
        };
        let result: Value =
            serde_json::from_slice(page.result().unwrap_or_default()).unwrap_or_default();
        let tools = result["tools"].as_array();
        let found =
            tools.is_none_or(|tools| tools.iter().any(|tool| tool["name"] == *current.wanted));
        match result.get("nextCursor").filter(|_| !found) {
            Some(cursor) => {
                current.params["cursor"] = cursor.clone();
                self.ask_for_page(now);
            }
            None => self.list_done(now),
        }
    }

    /// Whatever has been learnt until now helps.
    fn list_done(&mut self, now: Time) {
        let Some(current) = &mut self.listing.current else {
            return;
        };
        current.done = true;
        let number = current.number;
        match self.exchanges.get(&Slot::Message(number)) {
            Some(it) => {
                let (call, had) = (it.message.clone(), it.mirrored);
                self.out.push_back(Output::Compare { number, call, had });
            }
            // It was cancelled meanwhile.
            None => {
                self.listing.current = None;
                self.list_next(now);
            }
        }
    }
}

/// What a list of tools is asked for with: what the call says about its client.
fn params(call: &Message) -> Option<Value> {
    let mut meta: Value = serde_json::from_slice(call.meta()?).ok()?;
    meta.as_object_mut()?.remove(PROGRESS);
    Some(json!({ "_meta": meta }))
}
