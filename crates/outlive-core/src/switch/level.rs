//! One level of log messages for all legacy clients.
//!
//! A server has one level. It is asked for what the most curious client wants, and each client is told what it has
//! asked for; so what one client chooses changes nothing for another. A client that has chosen none is given what most
//! servers send unasked ([`UNCHOSEN`]), as soon as somebody else has changed what this one does by itself.

use serde_json::Value;

use crate::message::Message;
use crate::server::{Channel, Level};

use super::table::{Call, Choice, What};
use super::{Client, Sharing, Switch};

/// What clients are given that have chosen no level, once the server was told one.
const UNCHOSEN: Level = Level::Info;

impl Switch {
    /// `logging/setLevel`.
    pub(super) fn set_level(&mut self, client: Client, channel: Channel, message: &Message) {
        let level = message.level().as_deref().and_then(Level::of);
        let chosen = self.table.next();
        let (Some(level), Some(legacy)) = (level, self.legacy_clients.get_mut(&client)) else {
            // The server says what is wrong with it.
            return self.forward(client, channel, message, What::Plain);
        };
        let before = (legacy.level.replace(level), legacy.chosen);
        legacy.chosen = chosen;
        let most = self.lowest_level();
        let alone = self.only_legacy_client() == Some(client);
        if !alone && self.level == Some(most) {
            return self.answer_plainly(client, channel, message);
        }
        self.level = Some(most);
        let what = What::Level(Choice { at: chosen, before });
        match most == level {
            true => self.forward(client, channel, message, what),
            false => {
                let quoted = format!("\"{}\"", most.as_str());
                let message = message.clone().with_level(quoted.as_bytes());
                self.forward(client, channel, &message, what);
            }
        }
    }

    /// The server, or the session, has refused the level this client chose.
    pub(super) fn level_refused(&mut self, call: &Call, choice: Choice) {
        self.choose_again(call, choice);
        // Which one the server has now is not known.
        self.level = None;
    }

    /// Nobody waits for the answer to a client's choice any more; the server has most likely taken it.
    pub(super) fn level_abandoned(&mut self, call: &Call, choice: Choice) {
        self.leveled = true;
        self.choose_again(call, choice);
        self.align_level();
    }

    /// A choice does not count: its client has what it had before, unless it has made another since. That one is not to
    /// lead back to this one.
    fn choose_again(&mut self, call: &Call, choice: Choice) {
        let (level, chosen) = choice.before;
        if let Some(legacy) = self.legacy_clients.get_mut(&call.client)
            && legacy.chosen == choice.at
        {
            (legacy.level, legacy.chosen) = (level, chosen);
        }
        for later in self.table.choices(call.client) {
            if later.before.1 == choice.at {
                later.before = choice.before;
            }
        }
    }

    /// Clients have come or gone: the server is asked for what the others want.
    pub(super) fn align_level(&mut self) {
        // Of a client that is alone the server has what it chose, unless somebody has used the server before.
        let own = self.sharing == Sharing::Dedicated && self.only_user().is_some();
        if own || self.legacy_clients.is_empty() {
            return;
        }
        let most = self.lowest_level();
        if self.level.is_some_and(|level| level != most) {
            self.level = Some(most);
            let params = serde_json::json!({ "level": most.as_str() });
            self.send_own("logging/setLevel", &Value::to_string(&params), What::Plain);
        }
    }

    /// What the most curious client wants.
    fn lowest_level(&self) -> Level {
        let wanted = self
            .legacy_clients
            .values()
            .map(|legacy| legacy.level.unwrap_or(UNCHOSEN));
        wanted.min().unwrap_or(UNCHOSEN)
    }

    /// Whether a client that has chosen this level wants a log message of that one.
    pub(super) fn is_wanted(&self, level: Option<Level>, chosen: Option<Level>) -> bool {
        let unchosen = (self.leveled && self.renames()).then_some(UNCHOSEN);
        match (level, chosen.or(unchosen)) {
            (Some(level), Some(floor)) => level >= floor,
            _ => true,
        }
    }
}
