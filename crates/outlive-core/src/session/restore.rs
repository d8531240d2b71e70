//! A new server learns what the old one knew; the host learns what it may have missed.

use std::time::Duration;

use serde_json::json;

use crate::catalog::{Page, Seen};
use crate::cause::Reason;
use crate::error::{Error, Outcome};
use crate::ledger::Entry;
use crate::link::Generation;
use crate::memory::{Filter, Welcome};
use crate::message::{Id, Message};
use crate::protocol::meta::of_subscription;
use crate::protocol::{Era, List};
use crate::replacement::{server_replaced, wants_warnings};
use crate::time::Time;

use super::Session;
use super::link::{Link, Own, Stage};

/// How long requests to be repeated wait for the new tool list that allows it.
const RESTORE_PATIENCE: Duration = Duration::from_secs(5);
/// A server that has more pages than this to a list is not asked for the rest.
const MOST_PAGES: u32 = 1000;

impl Session {
    /// The link is made.
    pub(super) fn link_up(&mut self, now: Time) {
        let Some(link) = self
            .link
            .as_mut()
            .filter(|link| link.stage == Stage::Making)
        else {
            return;
        };
        link.liveness.heard = now;
        link.stage = Stage::Handshaking;
        if let Some(initialize) = self.memory.initialize.clone() {
            self.send_own(now, Own::Handshake, |_, id| {
                initialize.with_id(id.to_json().as_bytes())
            });
        } else if self.memory.era == Some(Era::Modern) {
            // There is no handshake in this era, but `Ready` shall mean that somebody is there.
            self.send_own(now, Own::Handshake, |session, id| {
                session.memory.request(id, "server/discover", None)
            });
        } else {
            // The host's own handshake is still to come: until then no list can be asked for.
            self.restored(now);
        }
    }

    /// A request of our own was answered.
    pub(super) fn own_answer(&mut self, now: Time, id: &Id, own: Own, answer: Message) {
        match own {
            Own::Handshake => self.handshaken(now, &answer),
            Own::Replay => {}
            Own::List { list, cursor } => self.listed(now, list, cursor.as_deref(), &answer),
            Own::Probe => self.probe_answered(now, id),
            Own::SessionCheck => self.session_lives(now),
        }
    }

    /// A request of our own was answered, but the answer cannot be read: there will be no other.
    pub(super) fn own_answer_is_lost(&mut self, now: Time, id: &Id, why: &str) {
        let own = self.link.as_mut().and_then(|link| link.own.remove(id));
        match own {
            Some(Own::Handshake) => self.lose(now, Reason::HandshakeRefused(why.into())),
            Some(Own::Probe) => self.probe_answered(now, id),
            Some(Own::SessionCheck) => self.session_lives(now),
            Some(Own::List { .. }) if self.is_restoring() => self.restored(now),
            _ => {}
        }
    }

    fn is_restoring(&self) -> bool {
        let stage = self.link.as_ref().map(|link| &link.stage);
        matches!(stage, Some(Stage::Restoring { .. }))
    }

    fn handshaken(&mut self, now: Time, answer: &Message) {
        // A link may be known dead before its last words have all been read.
        let waits = |link: &Link| link.stage == Stage::Handshaking;
        if !self.link.as_ref().is_some_and(waits) {
            return;
        }
        if let Some(changed) = self.version_change(answer) {
            return self.lose(now, changed);
        }
        if self.memory.initialize.is_some() {
            let Some(result) = answer.result() else {
                let words = answer.error().unwrap_or_default();
                let words = String::from_utf8_lossy(&words[..words.len().min(300)]).into_owned();
                return self.lose(now, Reason::HandshakeRefused(words));
            };
            self.memory.server = Welcome::read(result).server;
            if let Some(initialized) = self.memory.initialized.clone() {
                self.tell_link(now, initialized);
            }
            let level = self.memory.level.iter();
            let replay: Vec<Message> = level
                .chain(self.memory.subscriptions.values())
                .map(|asked| asked.request.clone())
                .collect();
            for message in replay {
                self.send_own(now, Own::Replay, |_, id| {
                    message.with_id(id.to_json().as_bytes())
                });
            }
        }
        // Also what is put aside for later.
        let depends = |(_, e): (&Id, &Entry)| e.verify && e.is_held();
        if self.ledger.iter().any(depends) {
            if let Some(link) = &mut self.link {
                link.stage = Stage::Restoring {
                    until: now + RESTORE_PATIENCE,
                };
            }
            self.ask_list(now, List::Tools, None);
        } else {
            self.open(now);
        }
    }

    /// Whether the new server speaks another version than the host holds.
    fn version_change(&self, answer: &Message) -> Option<Reason> {
        let welcome = Welcome::read(answer.result()?);
        let (held, offered) = match self.memory.era {
            Some(Era::Modern) => {
                let held = self.memory.modern_version()?;
                let supported = welcome.supported?;
                if supported.contains(&held) {
                    return None;
                }
                (held, supported.join(", "))
            }
            _ => (self.memory.version.clone()?, welcome.version?),
        };
        (held != offered).then(|| Reason::VersionChanged {
            held: held.into(),
            offered: offered.into(),
        })
    }

    /// The new tool list is known, or will not come: decide on what depends on it.
    pub(super) fn restored(&mut self, now: Time) {
        let known = self
            .link
            .as_ref()
            .is_some_and(|link| link.told.contains("tools/list"));
        for id in self.ledger.in_order(|e| e.verify && e.is_held()) {
            let safe = |e: &Entry| known && self.is_safe(e);
            if self.ledger.get(&id).is_some_and(safe) {
                continue;
            }
            let Some(entry) = self.ledger.settle(&id) else {
                continue;
            };
            self.unqueue(&entry);
            if let Some(cause) = self.last_cause.clone() {
                let outcome = Outcome::Unknown;
                self.refuse(
                    &entry,
                    &Error::ConnectionLost {
                        cause,
                        outcome,
                        poison: false,
                    },
                );
            }
        }
        self.open(now);
    }

    /// Messages pass from now on.
    fn open(&mut self, now: Time) {
        let Some(link) = &mut self.link else { return };
        let replayed = self.memory.initialize.is_some() || self.memory.era == Some(Era::Modern);
        link.stage = Stage::Open;
        if replayed {
            self.in_service(now);
        }
        self.flush(now);
        if replayed
            && self
                .link
                .as_ref()
                .is_some_and(|l| l.generation != Generation::FIRST)
        {
            self.catch_up(now);
        }
    }

    /// What the host may have missed while there was no server (FM-15, FM-41).
    fn catch_up(&mut self, now: Time) {
        let uris: Vec<String> = self.memory.subscriptions.keys().cloned().collect();
        for uri in uris {
            let uri = json!(uri);
            self.tell_host(updated(&format!(r#"{{"uri":{uri}}}"#)));
        }
        for (id, filter) in self.listens() {
            for uri in filter.resources {
                let uri = json!(uri);
                let meta = of_subscription(&id);
                self.tell_host(updated(&format!(r#"{{{meta},"uri":{uri}}}"#)));
            }
        }
        let lists: Vec<List> = self.memory.catalog.seen().collect();
        for list in lists {
            let done = self
                .link
                .as_ref()
                .is_some_and(|l| l.told.contains(list.method()));
            if !done {
                self.ask_list(now, list, None);
            }
        }
        // FM-74. Whoever asks for log messages later is not told of what was before.
        let lost = std::mem::take(&mut self.state_lost);
        let level = self.memory.level.as_ref();
        if lost && level.is_some_and(|it| wants_warnings(&it.request)) {
            let label = self.policy.server_label();
            self.tell_host(server_replaced(label.name().unwrap_or(&label)));
        }
    }

    /// The host's open `subscriptions/listen` requests: id as written, and what they ask for.
    fn listens(&self) -> Vec<(String, Filter)> {
        self.ledger
            .in_order(Entry::is_listen)
            .iter()
            .filter_map(|id| self.ledger.get(id))
            .map(|e| {
                let id = String::from_utf8_lossy(e.message.id_json()).into_owned();
                (id, Filter::read(e.message.params().unwrap_or_default()))
            })
            .collect()
    }

    fn ask_list(&mut self, now: Time, list: List, cursor: Option<String>) {
        let own = Own::List {
            list,
            cursor: cursor.clone(),
        };
        self.send_own(now, own, |session, id| {
            session.memory.request(id, list.method(), cursor.as_deref())
        });
    }

    /// A page of a list we asked for.
    fn listed(&mut self, now: Time, list: List, cursor: Option<&str>, answer: &Message) {
        let page = answer.result().and_then(|result| Page::read(list, result));
        let Some(page) = page else {
            // A list that can no longer be had is not what the host saw.
            if self.memory.catalog.seen().any(|seen| seen == list) {
                self.tell_changed(list);
            }
            if list == List::Tools && self.is_restoring() {
                self.restored(now);
            }
            return;
        };
        let seen = self.memory.catalog.we_saw(list, cursor, page);
        let Some(link) = &mut self.link else { return };
        let changed = match seen {
            Seen::Nothing => return,
            Seen::More(next) if link.pages < MOST_PAGES => {
                link.pages += 1;
                return self.ask_list(now, list, Some(next));
            }
            // What the rest of it says is not known.
            Seen::More(_) => None,
            Seen::All(changed) => {
                link.told.insert(list.method());
                changed
            }
        };
        if list == List::Tools && self.is_restoring() {
            self.restored(now);
        }
        if let Some(event) = changed {
            self.emit(event);
            self.tell_changed(list);
        }
    }

    /// The host has put a list together from pages of more than one server: it is compared with what the one
    /// in service has.
    pub(super) fn compare_again(&mut self, now: Time, list: List) {
        if let Some(link) = &mut self.link {
            // Whatever it was told before, it has read on since.
            link.told.remove(list.changed_method());
        }
        self.ask_list(now, list, None);
    }

    /// Tells the host that a list is not what it last saw.
    fn tell_changed(&mut self, list: List) {
        let method = list.changed_method();
        if !self
            .link
            .as_mut()
            .is_some_and(|link| link.told.insert(method))
        {
            return;
        }
        if self.memory.era == Some(Era::Modern) {
            for (id, filter) in self.listens() {
                if filter.wants(list) {
                    let params = format!("{{{}}}", of_subscription(id));
                    self.tell_host(Message::notification(method, params.as_bytes()));
                }
            }
        } else {
            self.tell_host(Message::notification(method, b""));
        }
    }
}

/// Tells that a resource has changed.
fn updated(params: &str) -> Message {
    Message::notification("notifications/resources/updated", params.as_bytes())
}
