//! The books: what the host and the servers are sent is written down and held against the invariants.

use outlive_core::message::Kind;
use outlive_core::policy::Retry;
use outlive_core::{Generation, Id, Message, State};

use super::lists::{self, page_of};
use super::{Broken, Server, Todo, World};
use crate::known;
use crate::schedule::Method;

impl World {
    pub(super) fn host_gets(&mut self, message: Message) -> Result<(), Broken> {
        let text = String::from_utf8_lossy(message.bytes()).into_owned();
        self.note(|| format!("host   < {text}"));
        known::check(&message)?;
        match message.kind() {
            Kind::Response => self.host_is_answered(&message, &text),
            Kind::Request => {
                let id = String::from_utf8_lossy(message.id_json()).into_owned();
                let server = self.server.as_ref().filter(|s| !s.dead);
                let Some(server) = server else {
                    return Err("6: a request of a dead server".into());
                };
                if self
                    .shown
                    .iter()
                    .any(|(known, generation, _)| *known == id && *generation != server.generation)
                {
                    return Err(format!("6: id {id} was the id of another link's request"));
                }
                // Which of its own ids this is, the answer will show.
                self.shown.push((id, server.generation, String::new()));
                Ok(())
            }
            Kind::Notification => self.host_is_told(&message),
        }
    }

    pub(super) fn host_is_answered(&mut self, message: &Message, text: &str) -> Result<(), Broken> {
        let id = String::from_utf8_lossy(message.id_json()).into_owned();
        if self.duplicate.as_ref() == Some(&id) && message.is_error() {
            self.duplicate = None;
            return Ok(());
        }
        if text.contains(r#""again":true"#) || text.contains(r#""stale":true"#) {
            return Err(format!(
                "1: a second or stale answer reached the host: {text}"
            ));
        }
        let Some(index) = self.open.remove(&id) else {
            return Err(format!("1/2: an answer nobody waits for: {text}"));
        };
        let asked = &mut self.asked[index];
        asked.open = false;
        let asked = asked.clone();
        self.check_refusals(&asked, text)?;
        if text.contains("connection_lost")
            && let State::Ready { generation } = &self.state
            && asked.sends.iter().any(|(sent, _)| sent == generation)
        {
            return Err("5: connection_lost while Ready is published for that link".into());
        }
        // Of a greeting, or of a stream, nobody asks whether it was executed.
        use Method::{Discover, Initialize, Listen};
        let counts = !matches!(asked.method, Initialize | Discover | Listen);
        let denied = counts && text.contains(r#""outcome":"not_sent""#);
        self.asked[index].denied = denied;
        if denied && asked.unknown > 0 {
            return Err(format!("4: {id} may have run and was said not to be sent"));
        }
        let uri = format!("u{}", asked.seq % 3);
        let about = match asked.method {
            Method::Subscribe | Method::Unsubscribe => Some(uri.clone()),
            Method::SetLevel => Some("the level".into()),
            _ => None,
        };
        if let Some(about) = about.filter(|_| !message.is_error()) {
            // The host goes by what it asked for last, in whatever order it is answered.
            let newest = self.wished.entry(about).or_default();
            if *newest > index {
                return Ok(());
            }
            *newest = index;
        }
        if message.is_error() {
            if asked.method == Method::Unsubscribe {
                // It may have been done.
                self.subscribed.remove(&uri);
            }
            return Ok(());
        }
        match asked.method {
            Method::Initialize => {
                // Whatever it had before its handshake is void.
                self.seen_tools = None;
                self.cursor = None;
                self.greeted = true;
                self.level = false;
                self.subscribed.clear();
                if !text.contains(r#""tools":{"listChanged":true}"#) {
                    return Err("9: listChanged is not promised".into());
                }
            }
            Method::SetLevel => self.level = true,
            Method::Subscribe if self.subscribed.len() < self.policy.limits.subscriptions => {
                self.subscribed.insert(uri);
            }
            Method::Unsubscribe => {
                self.subscribed.remove(&uri);
            }
            Method::ToolsList | Method::ToolsMore => {
                let cursor = asked.cursor;
                self.host_reads_page(cursor, text);
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn host_is_told(&mut self, message: &Message) -> Result<(), Broken> {
        match message.method() {
            "notifications/progress" => {
                let index = match message.progress_token() {
                    Some(Id::Int(index)) => index as usize,
                    other => return Err(format!("progress for {other:?}")),
                };
                let asked = &mut self.asked[index];
                if !asked.open {
                    return Err("2: progress for a request that is over".into());
                }
                let progress = progress_of(message);
                // Who says the same twice within one attempt is passed on.
                let same = progress == asked.progress && asked.told_at == asked.attempts;
                if progress <= asked.progress && !same {
                    return Err(format!("8: the progress of {} went backwards", asked.id));
                }
                asked.progress = progress;
                asked.told_at = asked.attempts;
                Ok(())
            }
            "notifications/tools/list_changed" => {
                self.told_changed = true;
                Ok(())
            }
            "notifications/resources/updated" => {
                if let Some(uri) = message.uri() {
                    self.updated.remove(&*uri);
                }
                Ok(())
            }
            "notifications/message" if is_about_a_new_server(message) => self.host_hears_of_it(),
            "notifications/subscriptions/acknowledged" => {
                let id = message
                    .subscription_id()
                    .map(|id| id.to_json())
                    .unwrap_or_default();
                let Some(&index) = self.open.get(&id) else {
                    return Ok(());
                };
                self.asked[index].acknowledged += 1;
                // A server that acknowledges twice is its own affair; a replay must not show.
                Ok(())
            }
            "notifications/cancelled" => {
                let id = message
                    .request_id()
                    .map(|id| id.to_json())
                    .unwrap_or_default();
                match self.shown.iter().any(|(known, ..)| *known == id) {
                    true => Ok(()),
                    false => Err(format!(
                        "6: the host is told that {id} is cancelled, unknown to it"
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    /// The host is told that its server was replaced: only if it reads log messages, and if something that the old one
    /// was asked may have changed it.
    fn host_hears_of_it(&mut self) -> Result<(), Broken> {
        if !self.asked.iter().any(|it| it.method == Method::SetLevel) {
            return Err("9: a host that wants no log messages got one of ours".into());
        }
        let Some(now) = self.server.as_ref().map(|it| it.generation) else {
            return Err("9: a server was replaced, and there is none".into());
        };
        let since = self.replaced.replace(now).unwrap_or(Generation::FIRST);
        match self.worked.range(since..now).next().is_some() {
            true => Ok(()),
            false => Err(format!(
                "9: the host was told that {now} has replaced a server that knew nothing"
            )),
        }
    }

    pub(super) fn server_gets(
        &mut self,
        generation: Generation,
        message: Message,
    ) -> Result<(), Broken> {
        self.note(|| format!("server < {}", String::from_utf8_lossy(message.bytes())));
        known::check(&message)?;
        let Some(server) = self.server.as_mut().filter(|s| s.generation == generation) else {
            return Err(format!(
                "6: a message for {generation}, which is not in service"
            ));
        };
        if !server.up || server.dead {
            return Err(format!("6: a message for {generation}, which is not alive"));
        }
        let frame = server.frames;
        server.frames += 1;
        let ready = matches!(&self.state, State::Ready { generation: on } if *on == generation);
        self.fragile_gets(&message, frame)?;
        let Some(server) = self.server.as_mut() else {
            return Ok(());
        };
        match message.kind() {
            Kind::Request => self.server_is_asked(message, frame),
            Kind::Response => {
                let id = String::from_utf8_lossy(message.id_json()).into_owned();
                if message.is_error() || !ready {
                    // Our own words, or before the handshake.
                } else if let Some((seq, _)) = self.notes.iter().find(|(_, on)| *on == generation) {
                    return Err(format!(
                        "8: the host's answer to {id} overtook its notification {seq}"
                    ));
                }
                // The session answers by itself what is over its bound.
                match server.asks.remove(&id) {
                    true => Ok(()),
                    false => Err(format!(
                        "6: an answer to {id}, which {generation} did not ask"
                    )),
                }
            }
            Kind::Notification => {
                if message.is("notifications/cancelled") {
                    let id = message
                        .request_id()
                        .map(|id| id.to_json())
                        .unwrap_or_default();
                    let todo = server.todo.iter().find(|t| t.id == id);
                    match todo {
                        None => {
                            return Err(format!("2: a useless cancel of {id} reached the server"));
                        }
                        Some(t) if t.method == "initialize" => {
                            return Err("2: initialize was cancelled".into());
                        }
                        Some(_) => {}
                    }
                    if !server.cancelled.insert(id.clone()) {
                        return Err(format!("2: {id} was cancelled twice"));
                    }
                } else if message.is("notifications/initialized") {
                    server.initialized = true;
                } else {
                    self.note_passed(&message);
                }
                Ok(())
            }
        }
    }

    pub(super) fn server_is_asked(&mut self, message: Message, frame: u64) -> Result<(), Broken> {
        let Some(server) = self.server.as_mut() else {
            return Ok(());
        };
        let id = String::from_utf8_lossy(message.id_json()).into_owned();
        if server.todo.iter().any(|t| t.id == id) {
            return Err(format!("6: two requests {id} in flight on one link"));
        }
        let ours = id.starts_with("\"outlive-");
        let index = String::from_utf8_lossy(message.params().unwrap_or_default())
            .split_once(r#""asked":"#)
            .and_then(|(_, rest)| rest.split(',').next()?.parse::<usize>().ok());
        let page = page_of(&message);
        let replayed = ours && index.is_some_and(|i| !self.asked[i].open);
        let asked = index.filter(|_| !replayed);
        match message.method() {
            "logging/setLevel" => server.level = true,
            "resources/subscribe" => {
                if let Some(uri) = message.uri() {
                    server.subscribed.insert(uri.into_owned());
                }
            }
            _ => {}
        }
        server.cancelled.remove(&id);
        server.todo.push(Todo {
            id,
            method: message.method().to_string(),
            asked,
            frame,
            page,
        });
        match asked {
            Some(index) => self.host_request_is_sent(index, frame),
            None => Ok(()),
        }
    }

    pub(super) fn host_request_is_sent(&mut self, index: usize, frame: u64) -> Result<(), Broken> {
        let Some(server) = self.server.as_mut() else {
            return Ok(());
        };
        let asked = &mut self.asked[index];
        if !asked.open {
            return Err(format!("2: {} was sent after it was settled", asked.id));
        }
        if server.last_seq.is_some_and(|last| last >= asked.seq) && !asked.again {
            return Err(format!("8: {} was overtaken", asked.id));
        }
        server.last_seq = server.last_seq.max(Some(asked.seq));
        if asked
            .sends
            .iter()
            .any(|(generation, _)| *generation == server.generation)
        {
            return Err(format!("1: {} was sent twice on one link", asked.id));
        }
        asked.sends.push((server.generation, frame));
        if matches!(
            asked.method,
            Method::CallSafe | Method::CallUnsafe | Method::Unheard
        ) {
            self.worked.insert(server.generation);
        }
        asked.attempts += 1;
        if asked.refused_by >= 2 {
            return Err(format!(
                "4: {} was sent again after two sessions refused it",
                asked.id
            ));
        }
        use Method::{Discover, Initialize, Listen};
        let counts = !matches!(asked.method, Initialize | Discover | Listen);
        if asked.refused && counts && self.policy.retry == Retry::Never {
            return Err(format!("4: {} was refused and sent again", asked.id));
        }
        if asked.unknown > 0 && asked.method != Method::Listen {
            if asked.unknown >= 2 {
                return Err(format!("4: {} was sent again after two deaths", asked.id));
            }
            // After a death the session has to ask; on the same link it may go by what the host was told.
            let listed = server.listed || asked.again && server.told;
            let declared = lists::declares(self.lists, server.generation) && listed;
            let safe = match self.policy.retry {
                Retry::Always => true,
                Retry::Never => false,
                Retry::Safe => {
                    asked.method.is_read_only() || (asked.method == Method::CallSafe && declared)
                }
            };
            if !safe && asked.method != Method::Initialize {
                return Err(format!("4: {:?} was repeated", asked.method));
            }
        }
        // What the host believes to have, the server has been told first.
        if self.greeted && asked.method != Method::Initialize {
            let told = server.greeted
                && (server.initialized || !self.initialized)
                && (server.level || !self.level)
                && self.subscribed.is_subset(&server.subscribed);
            if !told && server.generation != Generation::FIRST {
                return Err(format!(
                    "9: {} was sent before the session was restored",
                    asked.id
                ));
            }
        }
        Ok(())
    }

    /// What must hold after every step.
    pub(super) fn check(&mut self) -> Result<(), Broken> {
        if self.session.state() != &self.state {
            return Err(format!("5: {:?} is not published", self.session.state()));
        }
        if let State::Ready { generation } = self.session.state() {
            let live = |s: &Server| s.generation == *generation && s.up && !s.dead;
            if !self.server.as_ref().is_some_and(live) {
                return Err(format!("5: Ready for {generation}, which is dead"));
            }
        }
        if let Some(deadline) = self.session.deadline()
            && deadline <= self.now
        {
            return Err(format!(
                "3: a timer of {deadline:?} is overdue at {:?}",
                self.now
            ));
        }
        if let Some((uri, _)) = self.updated.first_key_value()
            && !self.closed
        {
            return Err(format!("9: no update of {uri} after a restart"));
        }
        let (sizes, limits) = (self.session.sizes(), &self.policy.limits);
        let listens = self
            .asked
            .iter()
            .filter(|a| a.open && a.method == Method::Listen)
            .count();
        let bounds = [
            ("ledger", sizes.ledger.0, limits.in_flight + 2 * limits.held),
            ("queue", sizes.queue, limits.in_flight + 3 * limits.held),
            ("tombstones", sizes.tombstones, limits.tombstones),
            ("asks", sizes.asks, limits.asks),
            ("own", sizes.own, 8 + limits.subscriptions),
            ("subscriptions", sizes.subscriptions, limits.subscriptions),
            (
                "held bytes",
                sizes.held.1 + sizes.note_bytes,
                (limits.in_flight + 3 * limits.held) * limits.message,
            ),
            // What was in flight may come back to what is held, but new requests may not.
            (
                "held",
                sizes.held.0,
                limits.in_flight + 2 * limits.held + listens,
            ),
        ];
        for (what, size, limit) in bounds {
            if size > limit {
                return Err(format!("7: {what}: {size} > {limit}"));
            }
        }
        // A host that has left is owed nothing once the time to finish is over.
        let awaited = self
            .asked
            .iter()
            .any(|a| a.open && a.method != Method::Listen);
        let over = !awaited || self.stop_asked || self.now - self.left >= self.policy.drain;
        if self.host_closed && over && sizes.ledger.0 == 0 && !self.is_last_running() {
            self.open.clear();
            self.asked.iter_mut().for_each(|a| a.open = false);
        }
        let open = self.asked.iter().filter(|a| a.open).count();
        if sizes.ledger.0 != open {
            return Err(format!(
                "1: the ledger has {} requests, the host waits for {open}",
                sizes.ledger.0
            ));
        }
        self.observed.check(open)
    }
}

/// How far a request is, as a notification says.
fn progress_of(message: &Message) -> u64 {
    let params = String::from_utf8_lossy(message.params().unwrap_or_default()).into_owned();
    let value = params.split_once(r#""progress":"#).map(|(_, rest)| rest);
    let digits = |rest: &str| rest.trim_end_matches('}').parse().ok();
    value.and_then(digits).unwrap_or_default()
}

/// Whether this is our log message that a server was replaced.
fn is_about_a_new_server(message: &Message) -> bool {
    String::from_utf8_lossy(message.bytes()).contains("server_replaced")
}
