//! The client: what it sends, at its worst.

use outlive_core::Frame;
use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::router::Input;
use outlive_core::server::Channel;
use serde_json::{Value, json};

use super::books::{Broken, Follow, Given, Leg, Owed, broken};
use super::world::{Cause, World};

/// Names that somebody may have, or nobody.
const WRONG: [&str; 4] = ["a__x", "b__x", "nothing", "y"];

const LEVELS: [&str; 3] = ["debug", "info", "error"];

impl World {
    pub fn secret(&mut self, kind: &str) -> String {
        self.secrets += 1;
        format!("{kind}{}", self.secrets)
    }

    /// A channel for the next frame.
    fn channel(&mut self) -> Channel {
        if !self.http {
            return Channel::MAIN;
        }
        self.next += 1;
        self.channels.insert(Channel(self.next), false);
        Channel(self.next)
    }

    /// The client sends this, if it is there.
    fn send(&mut self, channel: Channel, message: &Value) -> Result<(), Broken> {
        let frame = Frame::read(message.to_string().into());
        self.feed(Cause::Client, Input::Client(channel, frame))
    }

    fn notify(&mut self, message: &Value) -> Result<(), Broken> {
        if self.gone {
            return Ok(());
        }
        let channel = self.channel();
        self.send(channel, message)
    }

    /// Ids that are taken, free again, like ours, or of another kind.
    fn id(&mut self, how: u8) -> Value {
        self.secrets += 1;
        let fresh = self.secrets;
        match how % 16 {
            0 => match self.owed.first() {
                Some(owed) => owed.id.clone(),
                None => json!(fresh),
            },
            1 => self.spare.pop().unwrap_or(json!(fresh)),
            2 => {
                // Each once: what servers have seen is not used again.
                let id = json!(format!("outlive-router-{}", fresh / 2));
                match self.over.contains(&id) {
                    true => json!(fresh),
                    false => id,
                }
            }
            3..=6 => json!(fresh.to_string()),
            7 => json!(-(fresh as i64)),
            _ => json!(fresh),
        }
    }

    /// Whose a request is by now, and what that server calls it.
    pub fn meaning(&self, method: &str, params: &Value) -> Vec<(TargetId, String)> {
        let named = |list: List, name: &Value| {
            let found = self.roster.find(list, name.as_str().unwrap_or(""));
            let found = found.map(|it| (it.target, it.item.key().to_owned()));
            found.into_iter().collect()
        };
        let at = |uri: &Value| -> Vec<(TargetId, String)> {
            let found = self.roster.resource(uri.as_str().unwrap_or("")).ok();
            let found = found.map(|(target, uri)| (target, uri.to_owned()));
            found.into_iter().collect()
        };
        let only = || -> Vec<(TargetId, String)> {
            let mut all = self.roster.servers().map(|it| (it.0, String::new()));
            all.next()
                .filter(|_| self.roster.servers().count() == 1 && !self.roster.is_partial())
                .into_iter()
                .collect()
        };
        match method {
            "tools/call" => named(List::Tools, &params["name"]),
            "prompts/get" => named(List::Prompts, &params["name"]),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                at(&params["uri"])
            }
            "completion/complete" => named(List::Prompts, &params["ref"]["name"]),
            "x/y" => only(),
            "tasks/get" => {
                let id = params["taskId"].as_str().unwrap_or("");
                let owners = self.tasks.iter().filter(|(task, ..)| task == id);
                let owners = owners.map(|(_, target, _)| (*target, String::new()));
                owners.chain(only()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A request, written down.
    fn enter(
        &mut self,
        channel: Channel,
        how: u8,
        method: &'static str,
        mut params: Value,
        token: u8,
    ) -> Value {
        let id = self.id(how);
        let secret = self.secret("c");
        params["secret"] = json!(secret);
        let token = match token % 8 {
            0..=3 => None,
            // One that is in use.
            4 => self.owed.iter().find_map(|owed| owed.token.clone()),
            5 => Some(json!(self.secrets)),
            _ => Some(json!(format!("t{}", self.secrets))),
        };
        if let Some(token) = &token {
            let used = |owed: &Owed| owed.token.as_ref() == Some(token);
            if self.owed.iter().any(used) {
                self.worn.push(token.clone());
            }
            params["_meta"] = json!({"progressToken": token});
        }
        let may: std::collections::BTreeSet<_> =
            self.meaning(method, &params).into_iter().collect();
        let waits = may.is_empty();
        self.seen.duplicates += usize::from(self.owed.iter().any(|owed| owed.id == id));
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.owed.push(Owed {
            channel,
            id,
            method,
            params,
            secret,
            token,
            order: self.secrets,
            since: self.now,
            may,
            waits,
            sent: None,
        });
        message
    }

    fn pick(&self, list: List, n: u8) -> String {
        let items = self.roster.items(list);
        let item = items.get(n as usize % items.len().max(1));
        let item: Value = item.map_or(json!({}), |item| {
            serde_json::from_slice(item).expect("JSON")
        });
        item[list.key()].as_str().unwrap_or("nothing").to_owned()
    }

    /// Something to ask for.
    fn subject(&self, kind: u8, n: u8) -> (&'static str, Value) {
        let uri = || match n % 4 {
            0 => "x://7".to_owned(),
            1 => format!(
                "outlive:{}:x://1",
                super::names::SERVERS[n as usize / 4 % 2]
            ),
            _ => self.pick(List::Resources, n / 4),
        };
        match kind % 24 {
            0..=7 => ("tools/call", json!({"name": self.pick(List::Tools, n)})),
            8 => ("tools/call", json!({"name": WRONG[n as usize % 4]})),
            9..=10 => (
                "tools/call",
                json!({"name": self.pick(List::Tools, n), "task": {"ttl": 1}}),
            ),
            11..=12 => ("prompts/get", json!({"name": self.pick(List::Prompts, n)})),
            13 => ("resources/read", json!({"uri": uri()})),
            14..=16 => ("resources/subscribe", json!({"uri": uri()})),
            17 => ("resources/unsubscribe", json!({"uri": uri()})),
            18 => {
                let prompt = json!({"type": "ref/prompt", "name": self.pick(List::Prompts, n)});
                ("completion/complete", json!({"ref": prompt}))
            }
            19 => ("x/y", json!({})),
            20 => ("tasks/get", json!({"taskId": format!("t{}", n % 3)})),
            21 => ("ping", json!({})),
            22 => ("logging/setLevel", json!({"level": LEVELS[n as usize % 3]})),
            _ => ("initialize", self.hello()),
        }
    }

    fn hello(&self) -> Value {
        json!({"protocolVersion": "2025-11-25", "capabilities": self.declared,
            "clientInfo": {"name": "host", "version": "1"}})
    }

    pub fn introduce(&mut self) -> Result<(), Broken> {
        let channel = self.channel();
        let message = self.enter(channel, 255, "initialize", self.hello(), 0);
        self.send(channel, &message)?;
        self.notify(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    }

    pub fn request(&mut self, kind: u8, about: u8, id: u8, token: u8) -> Result<(), Broken> {
        if self.gone {
            return Ok(());
        }
        let channel = self.channel();
        let (method, params) = self.subject(kind, about);
        let message = self.enter(channel, id, method, params, token);
        self.note_wish(self.owed.len() - 1);
        self.send(channel, &message)
    }

    /// What becomes of a subscription is unclear until this is answered.
    fn note_wish(&mut self, at: usize) {
        let owed = &self.owed[at];
        if matches!(owed.method, "resources/subscribe" | "resources/unsubscribe") {
            for about in owed.may.clone() {
                self.follows.insert(about, Follow::Unclear);
            }
        }
    }

    pub fn list(&mut self, list: u8, more: bool) -> Result<(), Broken> {
        if self.gone {
            return Ok(());
        }
        let list = List::ALL[[0, 0, 0, 1, 2, 3][list as usize % 6]];
        let cursor = self.cursors[list as usize].clone().filter(|_| more);
        let params = match cursor {
            Some(cursor) => json!({"cursor": cursor}),
            None => json!({}),
        };
        let channel = self.channel();
        let message = self.enter(channel, 255, list.method(), params, 0);
        self.send(channel, &message)
    }

    pub fn batch(&mut self, a: u8, b: u8) -> Result<(), Broken> {
        if self.gone {
            return Ok(());
        }
        let channel = self.channel();
        let mut messages = Vec::new();
        for n in [a, b, a ^ b] {
            let (method, params) = self.subject(n, b);
            messages.push(self.enter(channel, 255, method, params, a));
            self.note_wish(self.owed.len() - 1);
        }
        self.send(channel, &Value::Array(messages))
    }

    pub fn cancel(&mut self, n: u8, live: bool) -> Result<(), Broken> {
        let id = match live {
            true if self.owed.is_empty() => return Ok(()),
            true => self.owed[n as usize % self.owed.len()].id.clone(),
            false if self.over.is_empty() => json!("nobody"),
            false => self.over[n as usize % self.over.len()].clone(),
        };
        if let Some(at) = self.owed.iter().position(|owed| owed.id == id) {
            let owed = self.owed.remove(at);
            self.seen.cancelled += 1;
            self.seen.cancelled_unsent += usize::from(owed.sent.is_none());
            if matches!(owed.method, "resources/subscribe" | "resources/unsubscribe") {
                self.murky.extend(owed.may);
            }
            self.finish(owed.id);
        }
        self.notify(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
    }

    /// An id is over. It is not used again.
    pub fn finish(&mut self, id: Value) {
        if self.over.len() > 16 {
            self.over.pop_front();
        }
        self.over.push_back(id);
    }

    /// The question that the client has been asked and has not answered.
    fn asked(&self, n: u8) -> Option<(usize, usize)> {
        let mut all = Vec::new();
        for (server, it) in self.servers.iter().enumerate() {
            let asked = it
                .questions
                .iter()
                .enumerate()
                .filter(|(_, it)| it.asked.is_some());
            all.extend(asked.map(|(at, _)| (server, at)));
        }
        all.get(n as usize % all.len().max(1)).copied()
    }

    pub fn reply(&mut self, n: u8, how: u8) -> Result<(), Broken> {
        let Some((server, at)) = self.asked(n).filter(|_| !how.is_multiple_of(4)) else {
            return self.notify(&json!({"jsonrpc": "2.0", "id": "nobody", "result": {}}));
        };
        if self.gone {
            return Ok(());
        }
        let question = &mut self.servers[server].questions[at];
        let id = question.asked.take();
        question.replied = true;
        let (secret, ready) = (
            question.secret.clone(),
            self.servers[server].leg != Leg::Open,
        );
        let reply = json!({"jsonrpc": "2.0", "id": id, "result": {"for": secret}});
        self.notify(&reply)?;
        self.seen.replied += 1;
        let heard = |it: &super::books::Question| it.secret == secret;
        if ready && self.servers[server].questions.iter().any(heard) {
            return broken(8, format!("the answer to {secret} was not heard"));
        }
        match how % 4 {
            1 => self.notify(&reply),
            _ => Ok(()),
        }
    }

    pub fn reply_progress(&mut self, n: u8) -> Result<(), Broken> {
        let Some((server, at)) = self.asked(n) else {
            return Ok(());
        };
        let question = &self.servers[server].questions[at];
        let params =
            json!({"progressToken": question.asked_token, "progress": 1, "for": question.secret});
        self.notify(
            &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
        )
    }

    pub fn junk(&mut self, n: u8) -> Result<(), Broken> {
        if self.gone {
            return Ok(());
        }
        let line = match n % 6 {
            0 => "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}",
            1 => {
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":{\"secret\":\"n\"}}"
            }
            2 => "junk",
            3 => "[]",
            4 => "[1,{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}]",
            _ => {
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1}}"
            }
        };
        let channel = self.channel();
        let frame = Frame::read(line.to_owned().into());
        self.feed(Cause::Client, Input::Client(channel, frame))
    }

    pub fn leave(&mut self, withdrawn: bool) -> Result<(), Broken> {
        if self.gone {
            return Ok(());
        }
        match withdrawn {
            true => {
                self.seen.token_withdrawn += 1;
                self.outdated = [None; 4];
                self.feed(Cause::Withdrawn, Input::Withdrawn)?;
                if let Some(owed) = self.owed.first() {
                    return broken(
                        1,
                        format!("{owed:?} was not told that its token was withdrawn"),
                    );
                }
            }
            false => {
                self.gone = true;
                self.owed.clear();
                self.feed(Cause::Other, Input::Gone)?;
            }
        }
        self.seen.gone += 1;
        self.gone = true;
        self.owed.clear();
        self.given = [Given::Nothing; 4];
        self.outdated = [None; 4];
        Ok(())
    }
}
