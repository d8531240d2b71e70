//! Notifications to the client that nobody subscribes to: progress, log messages, and any other
//! a handler wants to send.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::event::DropReason;
use crate::message::Message;
use crate::protocol::Era;

use super::channel::Channel;
use super::request::Ticket;
use super::table::Entry;
use super::{Level, Server};

/// What a legacy client is told that has not said what it wants to hear.
const USUAL: Level = Level::Info;

impl Server {
    /// The request this is about, if the client still waits for it.
    fn live(&self, ticket: Ticket) -> Option<&Entry> {
        self.table.get(ticket).filter(|entry| entry.is_live())
    }

    pub(super) fn notify(&mut self, within: Option<Ticket>, method: &str, params: &Bytes) {
        let heard = match within {
            Some(ticket) => self.live(ticket).map(|entry| entry.channel),
            None => self.peer.as_ref().map(|_| Channel::MAIN),
        };
        match heard {
            Some(channel) => self.send(channel, Message::notification(method, params)),
            None => self.dropped(DropReason::LateProgress, method.to_string()),
        }
    }

    /// Progress: only with the client's own token, only while it waits, and only upwards (FM-62).
    pub(super) fn progress(
        &mut self,
        ticket: Ticket,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) {
        let live = self.table.get_mut(ticket).filter(|entry| entry.is_live());
        let Some(entry) = live else {
            return self.dropped(DropReason::LateProgress, format!("ticket {ticket}"));
        };
        let Some(token) = entry.message.meta_progress_token() else {
            return;
        };
        if !progress.is_finite() || entry.progress.is_some_and(|told| progress <= told) {
            return;
        }
        entry.progress = Some(progress);
        let channel = entry.channel;
        let mut params = json!({ "progress": number(progress) });
        if let Some(total) = total.filter(|total| total.is_finite()) {
            params["total"] = number(total);
        }
        if let Some(message) = message {
            params["message"] = json!(message);
        }
        let members = params.to_string();
        let params = format!(
            r#"{{"progressToken":{},{}"#,
            token.to_json(),
            members.strip_prefix('{').unwrap_or("}")
        );
        let line = Message::notification("notifications/progress", params.as_bytes());
        self.send(channel, line);
    }

    /// A log message, if the client wants to hear it: 2026-07-28 allows none that its request has
    /// not asked for.
    pub(super) fn log(
        &mut self,
        within: Option<Ticket>,
        level: Level,
        logger: Option<Cow<'static, str>>,
        data: &Bytes,
    ) {
        let usual = Some(self.level.unwrap_or(USUAL));
        let (channel, lowest) = match within {
            Some(ticket) => match self.live(ticket) {
                Some(entry) if entry.era == Era::Modern => (entry.channel, entry.log_level),
                Some(entry) => (entry.channel, usual),
                None => (Channel::MAIN, None),
            },
            None if self.peer.is_some() => (Channel::MAIN, usual),
            None => (Channel::MAIN, None),
        };
        if !self.features.logging || lowest.is_none_or(|lowest| level < lowest) {
            return;
        }
        let logger = logger.map_or_else(String::new, |it| format!(r#""logger":{},"#, json!(it)));
        let params = format!(
            r#"{{"level":"{}",{logger}"data":{}}}"#,
            level.as_str(),
            String::from_utf8_lossy(data)
        );
        let line = Message::notification("notifications/message", params.as_bytes());
        self.send(channel, line);
    }
}

/// A number as people write it: 50 and not 50.0.
fn number(value: f64) -> Value {
    const EXACT: f64 = (1u64 << 53) as f64;
    match value.fract() == 0.0 && value.abs() <= EXACT {
        true => json!(value as i64),
        false => json!(value),
    }
}
