//! Definitions that were accepted, and servers that change theirs.

use std::collections::BTreeSet;
use std::sync::Arc;

use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::roster::{Entry, Offer, Pinned, accepting, first_use, pin};
use serde_json::Value;

use super::books::{Broken, broken};
use super::world::World;
use crate::random::Dice;

/// What was accepted of one server.
#[derive(Clone, Debug, Default)]
pub struct Pin {
    pub on: bool,
    accepted: Option<Offer>,
    /// The record is damaged: nothing counts as accepted.
    closed: bool,
    /// The keys of everything that was ever accepted.
    ever: BTreeSet<(u8, String)>,
}

impl Pin {
    pub fn draw(dice: &mut Dice) -> Pin {
        Pin {
            on: dice.below(3) == 0,
            closed: dice.below(8) == 0,
            ..Pin::default()
        }
    }

    /// What counts for a server that has the name of this one from now on: what it offers itself, when that is known,
    /// or nothing.
    pub fn succeeded(&self, is_open: bool) -> Pin {
        Pin {
            on: self.on,
            closed: self.closed || !is_open,
            ..Pin::default()
        }
    }

    /// Keeps what is shown of a server to what was accepted; what is seen for the first time is, unless another has
    /// told it.
    pub fn apply(&mut self, entry: &mut Entry, is_doubtful: bool) {
        if !self.on {
            return;
        }
        entry.pinned = Some(Arc::new(match &entry.offer {
            None => Pinned::unknown(),
            Some(live) if self.closed => Pinned::nothing(self.accepted.as_ref(), live),
            Some(_) if is_doubtful && self.accepted.is_none() => Pinned::unknown(),
            Some(live) if is_doubtful => pin(self.accepted.as_ref().expect("an offer"), live),
            Some(live) => {
                if let Some(first) = first_use(self.accepted.as_ref(), live) {
                    self.accept(first);
                }
                pin(self.accepted.as_ref().expect("an offer"), live)
            }
        }));
    }

    fn accept(&mut self, offer: Offer) {
        for list in List::ALL {
            let items = offer.list(list).into_iter().flat_map(|items| items.iter());
            self.ever
                .extend(items.map(|item| (list as u8, item.key().to_owned())));
        }
        self.accepted = Some(offer);
    }

    /// Whether this very entry was accepted.
    fn has(&self, list: List, shown: &Value) -> bool {
        let accepted = self.accepted.as_ref().filter(|_| !self.closed);
        let items = accepted.and_then(|offer| offer.list(list));
        let mut items = items.into_iter().flat_map(|items| items.iter());
        items.any(|item| {
            let known: Value = serde_json::from_slice(item.json()).expect("JSON");
            known["was"] == shown["was"] && known["v"] == shown["v"]
        })
    }

    fn had(&self, list: List, key: &str) -> bool {
        let direct = self.ever.contains(&(list as u8, key.to_owned()));
        let scheme = |text: &str| text.split("://").next().unwrap_or("").to_owned();
        let stands_for = |(of, template): &(u8, String)| {
            *of == List::Templates as u8 && scheme(template) == scheme(key)
        };
        direct || list == List::Resources && self.ever.iter().any(stands_for)
    }
}

impl World {
    /// Somebody accepts what a server offers now, or the record of that is damaged.
    pub fn accept(&mut self, server: usize, what: u8) -> Result<(), Broken> {
        let pin = &mut self.pins[server];
        let entry = self.entries.iter().find(|it| it.target == TargetId(server));
        let entry = entry.filter(|it| !self.doubtful.contains(&it.target));
        let live = entry.and_then(|entry| entry.offer.as_deref());
        match (what % 5, live) {
            (0, _) => pin.closed = true,
            (_, Some(live)) if pin.on => {
                let accepted = accepting(pin.accepted.as_ref(), live);
                pin.accept(accepted);
                pin.closed = false;
                self.seen.accepted += 1;
            }
            _ => {}
        }
        self.tell_roster()
    }

    /// A client is shown an entry.
    pub fn check_shown(&mut self, list: List, item: &Value) -> Result<(), Broken> {
        let of = item["of"].as_u64().unwrap_or(0) as usize;
        let pin = &self.pins[of];
        match !pin.on || pin.has(list, item) {
            true => Ok(()),
            false => broken(14, format!("{item} is shown, and was not accepted")),
        }
    }

    /// A server is asked for something in the name of a client.
    pub fn check_asked(&self, server: TargetId, method: &str, key: &str) -> Result<(), Broken> {
        let list = match method {
            "tools/call" => List::Tools,
            "prompts/get" | "completion/complete" => List::Prompts,
            "resources/read" | "resources/subscribe" => List::Resources,
            _ => return Ok(()),
        };
        let pin = &self.pins[server.0];
        match !pin.on || pin.had(list, key) {
            true => Ok(()),
            false => broken(
                14,
                format!("{key} of {server:?} was not accepted: {method}"),
            ),
        }
    }
}
