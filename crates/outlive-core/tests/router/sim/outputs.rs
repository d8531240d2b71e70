//! What the router does, one thing at a time: is it allowed to?

use outlive_core::Message;
use outlive_core::gateway::TargetId;
use outlive_core::message::Kind;
use outlive_core::protocol::List;
use outlive_core::router::Output;
use outlive_core::server::Channel;
use serde_json::{Value, json};

use super::books::{Broken, Follow, Given, Got, Leg, Owed, broken};
use super::world::{Cause, World};
use crate::known;

impl World {
    pub fn on_output(&mut self, output: Output) -> Result<(), Broken> {
        if self.lying {
            return broken(4, format!("a lie was believed: {output:?}"));
        }
        if self.gone && !matches!(output, Output::Close(_)) {
            return broken(9, format!("nobody is there any more: {output:?}"));
        }
        match output {
            Output::Open(target) => self.on_open(target),
            Output::Close(target) => self.on_close(target),
            Output::Hear(target, channel, message) => self.on_hear(target, channel, &message),
            Output::Request(..) | Output::Leave(..) => {
                broken(5, format!("no server here is a modern one: {output:?}"))
            }
            Output::Send(channel, message) => self.on_send(channel, &message, true),
            Output::Offer(channel, message) => self.on_send(channel, &message, false),
            Output::Done(channel) => self.on_done(channel),
            Output::Learned(target, offer) => {
                self.check_doubt(target, &offer)?;
                self.learned.push((target, *offer));
                Ok(())
            }
        }
    }

    fn on_open(&mut self, target: TargetId) -> Result<(), Broken> {
        let server = &mut self.servers[target.0];
        if server.leg != Leg::None {
            return broken(5, format!("{target:?} is opened twice"));
        }
        server.leg = Leg::Open;
        match self.roster.contains(target) {
            true => Ok(()),
            false => broken(11, format!("{target:?} is not in the view, and is opened")),
        }
    }

    fn on_close(&mut self, target: TargetId) -> Result<(), Broken> {
        let server = &mut self.servers[target.0];
        if server.leg == Leg::None {
            return broken(5, format!("{target:?} is closed twice"));
        }
        if server.questions.iter().any(|it| it.asked.is_some())
            && !self.gone
            && self.cause != Cause::Withdrawn
        {
            return broken(8, format!("{target:?} is closed, and its questions stay"));
        }
        if self.cause == Cause::Roster && self.roster.contains(target) {
            return broken(
                15,
                format!("{target:?} is closed, and nothing about it has changed"),
            );
        }
        if let Cause::GiveWay(wanted) = self.cause {
            let owes = |owed: &Owed| owed.sent == Some(target);
            // Where nobody can say whether it is followed, either is right.
            let follows = self.follows.iter().any(|(key, follow)| {
                key.0 == target && *follow == Follow::Yes && !self.murky.contains(key)
            });
            if wanted != target || self.owed.iter().any(owes) || follows {
                return broken(18, format!("{target:?} gives way, and is in use"));
            }
            self.seen.gave_way += 1;
        }
        let server = &mut self.servers[target.0];
        let failed = server.failed;
        server.lose();
        server.failed &= self.roster.contains(target);
        let is_idle_stop = matches!(self.cause, Cause::Other | Cause::GiveWay(_));
        if is_idle_stop && !self.gone {
            self.seen.idle_stops += usize::from(self.cause == Cause::Other);
            server.failed = failed;
            let sent = |owed: &&Owed| owed.sent == Some(target);
            if let Some(owed) = self.owed.iter().find(sent) {
                return broken(1, format!("{target:?} is closed, and has {owed:?}"));
            }
        }
        Ok(())
    }

    fn on_hear(
        &mut self,
        target: TargetId,
        channel: Channel,
        message: &Message,
    ) -> Result<(), Broken> {
        known::check(message).or_else(|how| broken(4, how))?;
        let it: Value = serde_json::from_slice(message.bytes()).expect("JSON");
        let leg = self.servers[target.0].leg;
        if leg == Leg::None {
            return broken(5, format!("{target:?} has no leg, and is told {it}"));
        }
        match message.kind() {
            Kind::Response => self.on_reply(target, &it),
            _ if message.is("initialize") => {
                if leg != Leg::Open {
                    return broken(5, format!("{target:?} shakes hands twice"));
                }
                if it["params"]["capabilities"] != self.declared {
                    return broken(8, "a server hears of capabilities that the client has not");
                }
                let now = self.now;
                let server = &mut self.servers[target.0];
                server.leg = Leg::Shaking;
                server.reached = Some(server.reached.unwrap_or(now));
                self.on_request(target, channel, it)
            }
            // A server may ask before it is in service.
            _ if message.is("notifications/progress") => self.on_notification(target, &it),
            _ if leg != Leg::Ready => broken(5, format!("{target:?} is not ready for {it}")),
            _ if message.is("notifications/initialized") => {
                let told = std::mem::replace(&mut self.servers[target.0].told, true);
                match told {
                    true => broken(
                        5,
                        format!("{target:?} is told twice that the handshake is over"),
                    ),
                    false => Ok(()),
                }
            }
            _ if !self.servers[target.0].told => broken(
                5,
                format!("{target:?} is told {it} before the handshake is over"),
            ),
            Kind::Request => self.on_request(target, channel, it),
            Kind::Notification => self.on_notification(target, &it),
        }
    }

    /// A server hears an answer to what it has asked.
    fn on_reply(&mut self, target: TargetId, it: &Value) -> Result<(), Broken> {
        let server = &mut self.servers[target.0];
        if !matches!(server.leg, Leg::Ready | Leg::Shaking) {
            return broken(5, format!("{target:?} is not there for {it}"));
        }
        if let Some(at) = server.pings.iter().position(|id| *id == it["id"]) {
            server.pings.remove(at);
            return Ok(());
        }
        let Some(at) = server
            .questions
            .iter()
            .position(|question| question.id == it["id"])
        else {
            return broken(8, format!("{target:?} has not asked {it}"));
        };
        let question = server.questions.remove(at);
        let refused = it["error"]["code"] == -32601;
        match (question.replied, question.asked.is_some()) {
            (true, _) if it["result"]["for"] == question.secret => Ok(()),
            (false, false) if refused => {
                self.seen.undeclared += 1;
                Ok(())
            }
            _ => broken(8, format!("{question:?} is answered with {it}")),
        }
    }

    fn on_notification(&mut self, target: TargetId, it: &Value) -> Result<(), Broken> {
        match it["method"].as_str() {
            Some("notifications/cancelled") => {
                let server = &mut self.servers[target.0];
                let was_sent =
                    |got: &Got| got.id == it["params"]["requestId"] && got.secret().is_some();
                if !server.pending.iter().chain(&server.past).any(was_sent) {
                    return broken(
                        4,
                        format!("{target:?} was not sent what is cancelled by {it}"),
                    );
                }
                let owed = |owed: &Owed| owed.id == it["params"]["requestId"];
                match self.owed.iter().any(owed) {
                    true => broken(1, format!("{it} is not cancelled")),
                    false => Ok(()),
                }
            }
            Some("notifications/progress") => {
                let its = |it: &&super::books::Question, secret: &Value| *secret == it.secret;
                let questions = &self.servers[target.0].questions;
                let question = questions
                    .iter()
                    .find(|question| its(question, &it["params"]["for"]));
                match question {
                    Some(question) if question.token == it["params"]["progressToken"] => Ok(()),
                    _ => broken(
                        8,
                        format!("{target:?} is told of a question of another's: {it}"),
                    ),
                }
            }
            _ => Ok(()),
        }
    }

    fn on_request(&mut self, target: TargetId, channel: Channel, it: Value) -> Result<(), Broken> {
        let got = Got {
            channel,
            id: it["id"].clone(),
            method: it["method"].as_str().unwrap_or("").to_owned(),
            params: it["params"].clone(),
        };
        if let Some(secret) = got.secret() {
            let Some(at) = self.owed.iter().position(|owed| owed.secret == secret) else {
                return broken(
                    2,
                    format!("{target:?} is sent {it}, which nobody waits for"),
                );
            };
            let may = self.meaning(self.owed[at].method, &self.owed[at].params);
            let owed = &mut self.owed[at];
            owed.may.extend(may);
            let key = match owed.method {
                "completion/complete" => &it["params"]["ref"]["name"],
                "tools/call" | "prompts/get" => &it["params"]["name"],
                "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                    &it["params"]["uri"]
                }
                _ => &json!(""),
            };
            let about = (target, key.as_str().unwrap_or("?").to_owned());
            if !owed.may.contains(&about) {
                return broken(11, format!("{about:?} is not what {owed:?} is about"));
            }
            let method = owed.method;
            self.check_asked(target, method, &about.1)?;
            let owed = &mut self.owed[at];
            if owed.sent.replace(target).is_some() || owed.id != got.id || owed.channel != channel {
                return broken(5, format!("{owed:?} is sent as {it} on {channel:?}"));
            }
            let server = &mut self.servers[target.0];
            if !owed.waits && owed.order < server.last {
                return broken(5, format!("{owed:?} is overtaken"));
            }
            if !owed.waits {
                server.last = owed.order;
            }
            self.seen.passed += 1;
        } else if !channel.0.leading_zeros() == 0 || channel == Channel::MAIN {
            return broken(4, format!("{it} is ours, and goes on {channel:?}"));
        }
        let ours = |other: &Got| other.id == got.id;
        if self.servers[target.0].pending.iter().any(ours) {
            return broken(5, format!("{target:?} is sent {} twice", got.id));
        }
        self.servers[target.0].pending.push(got);
        Ok(())
    }

    fn on_send(&mut self, channel: Channel, message: &Message, exact: bool) -> Result<(), Broken> {
        known::check(message).or_else(|how| broken(4, how))?;
        if channel != Channel::MAIN && self.channels.get(&channel) != Some(&false) {
            return broken(3, format!("{channel:?} is not open for {message:?}"));
        }
        let it: Value = serde_json::from_slice(message.bytes()).expect("JSON");
        match message.kind() {
            Kind::Response => self.on_answer(channel, &it),
            Kind::Request => self.on_question(it),
            Kind::Notification => self.on_told(channel, &it, exact),
        }
    }

    fn on_answer(&mut self, channel: Channel, it: &Value) -> Result<(), Broken> {
        let is_it = |owed: &Owed| owed.channel == channel && owed.id == it["id"];
        // Of two with one id the later was refused.
        let at = match it["error"].is_null() {
            true => self.owed.iter().position(is_it),
            false => self.owed.iter().rposition(is_it),
        };
        let Some(at) = at else {
            return broken(1, format!("nobody waits for {it} on {channel:?}"));
        };
        let owed = self.owed.remove(at);
        self.finish(owed.id.clone());
        if let Some(list) = owed.list() {
            return self.on_listed(list, &owed, it);
        }
        let own = matches!(owed.method, "initialize" | "ping" | "logging/setLevel");
        let about = owed
            .sent
            .map(|target| (target, owed.may.iter().find(|it| it.0 == target).cloned()));
        let told = match it.get("result") {
            Some(result) if own => result,
            Some(result) => result,
            None => &it["error"]["data"],
        };
        if told["secret"].is_string() || !own && it.get("result").is_some() {
            let by = owed.sent.map(|target| target.0);
            if told["secret"] != owed.secret || told["by"] != json!(by) {
                return broken(4, format!("{owed:?} is answered with {it}"));
            }
            self.seen.answered += 1;
        }
        match it.get("result") {
            Some(result) => {
                match owed.method {
                    "initialize" => self.introduced = true,
                    "logging/setLevel" => {
                        self.level = owed.params["level"].as_str().map(str::to_owned);
                        self.seen.levels += 1;
                    }
                    "resources/subscribe" | "resources/unsubscribe" => {
                        let about = about.and_then(|it| it.1);
                        self.note_followed(about, owed.method == "resources/subscribe");
                    }
                    _ => {}
                }
                if let Some((task, target)) = result["task"]["taskId"].as_str().zip(owed.sent) {
                    self.tasks
                        .push((task.to_owned(), target, owed.token.clone()));
                    self.seen.tasks += 1;
                    for at in 0..self.owed.len() {
                        let may = self.meaning(self.owed[at].method, &self.owed[at].params);
                        self.owed[at].may.extend(may);
                    }
                }
                Ok(())
            }
            None if told["secret"].is_string() => {
                self.seen.failed += 1;
                Ok(())
            }
            None => {
                self.seen.refused += 1;
                self.seen.withheld += usize::from(told["outlive"]["kind"] == "withheld");
                // An error of ours needs a reason once the request was sent.
                let reason = match self.cause {
                    Cause::Lost(target) => owed.sent.is_none_or(|sent| sent == target),
                    Cause::Withdrawn => true,
                    Cause::Roster => owed.sent.is_none_or(|sent| !self.roster.contains(sent)),
                    Cause::Client | Cause::GiveWay(_) | Cause::Other => owed.sent.is_none(),
                };
                let removed = owed.sent.filter(|_| self.cause == Cause::Roster);
                if let Some(target) = removed {
                    self.seen.removed_in_flight += 1;
                    let words = it["error"]["message"].as_str().unwrap_or("");
                    let named = words.contains(&format!("{:?}", self.names[target.0]));
                    if !named || told["outlive"]["kind"] != "removed" {
                        return broken(16, format!("{owed:?} is not told what happened: {it}"));
                    }
                }
                match reason {
                    true => Ok(()),
                    false => broken(1, format!("{owed:?} is refused without a reason: {it}")),
                }
            }
        }
    }

    /// A server has done what the client wanted; it counts if nothing else is on its way.
    fn note_followed(&mut self, about: Option<(TargetId, String)>, follows: bool) {
        let Some(about) = about.filter(|about| !self.murky.contains(about)) else {
            return;
        };
        let wish = |owed: &Owed| {
            let method = matches!(owed.method, "resources/subscribe" | "resources/unsubscribe");
            method && owed.may.contains(&about)
        };
        match (self.owed.iter().any(wish), follows) {
            (true, _) => drop(self.follows.insert(about, Follow::Unclear)),
            (false, true) => {
                self.seen.followed += 1;
                self.follows.insert(about, Follow::Yes);
            }
            (false, false) => drop(self.follows.remove(&about)),
        }
    }

    fn on_question(&mut self, it: Value) -> Result<(), Broken> {
        let Some(target) = self.speaker else {
            return broken(8, format!("nobody has asked {it}"));
        };
        let method = it["method"].as_str().unwrap_or("");
        let capability = match method {
            "sampling/createMessage" => "sampling",
            "elicitation/create" => "elicitation",
            "roots/list" => "roots",
            _ => "",
        };
        if !capability.is_empty() && self.declared[capability].is_null() {
            return broken(8, format!("the client cannot be asked {it}"));
        }
        let mut all = self.servers.iter().flat_map(|it| &it.questions);
        if all.any(|question| question.asked.as_ref() == Some(&it["id"])) {
            return broken(8, format!("another question has the id of {it}"));
        }
        let mut its = self.servers[target.0].questions.iter_mut();
        let Some(question) = its.find(|question| it["params"]["secret"] == question.secret) else {
            return broken(8, format!("{target:?} has not asked {it}"));
        };
        if question.asked.replace(it["id"].clone()).is_some() || question.method != method {
            return broken(8, format!("{question:?} is asked twice: {it}"));
        }
        question.asked_token = it["params"]["_meta"]["progressToken"].clone();
        self.seen.asked += 1;
        Ok(())
    }

    fn on_told(&mut self, channel: Channel, it: &Value, exact: bool) -> Result<(), Broken> {
        let method = it["method"].as_str().unwrap_or("");
        let params = &it["params"];
        if let Some(list) = List::ALL
            .into_iter()
            .find(|list| list.changed_method() == method)
        {
            return self.on_changed(list);
        }
        if method == "notifications/cancelled" {
            let at = self
                .withdrawals
                .iter()
                .position(|id| *id == params["requestId"]);
            if let Some(at) = at {
                self.withdrawals.remove(at);
                return Ok(());
            }
            for server in 0..self.servers.len() {
                let gone = !self.roster.contains(TargetId(server));
                let questions = &mut self.servers[server].questions;
                let is_it =
                    |it: &super::books::Question| it.asked.as_ref() == Some(&params["requestId"]);
                if let Some(at) = questions.iter().position(is_it).filter(|_| gone) {
                    questions.remove(at);
                    return Ok(());
                }
            }
            return broken(8, format!("nobody has taken back {it}"));
        }
        let Some(speaker) = self.speaker else {
            return broken(4, format!("nobody has said {it}"));
        };
        if method == "notifications/progress" {
            let is_it = |owed: &&Owed| {
                let token = owed.token.as_ref() == Some(&params["progressToken"]);
                token && owed.sent == Some(speaker) && owed.channel == channel
            };
            self.seen.progress += 1;
            self.expected = None;
            let task = self.tasks.iter().any(|(_, owner, token)| {
                *owner == speaker && token.as_ref() == Some(&params["progressToken"])
            });
            return match self.owed.iter().any(|owed| is_it(&owed)) || task && !exact {
                true => Ok(()),
                false => broken(4, format!("{it} is progress of another's")),
            };
        }
        self.expected = None;
        if method == "notifications/resources/updated" && params.get("by").is_none() {
            // The server tells of it from now on, and nobody has before.
            let uri = params["uri"].as_str().unwrap_or_default();
            let is_it = |(target, known): &(TargetId, String)| {
                *target == speaker && uri.ends_with(known.as_str())
            };
            return match self.follows.keys().any(is_it) {
                true => Ok(()),
                false => broken(4, format!("{it} is followed by nobody")),
            };
        }
        if params["by"] != json!(speaker.0) {
            return broken(4, format!("{it} was said by another"));
        }
        if method == "notifications/resources/updated" {
            self.seen.updated += 1;
        }
        let its = |owed: &Owed| owed.channel == channel && owed.sent == Some(speaker);
        match channel == Channel::MAIN || self.owed.iter().any(its) {
            true => Ok(()),
            false => broken(
                4,
                format!("{it} is said on {channel:?}, which is another's"),
            ),
        }
    }

    fn on_changed(&mut self, list: List) -> Result<(), Broken> {
        let method = list.changed_method();
        let same = List::ALL
            .into_iter()
            .filter(|list| list.changed_method() == method);
        let outdated: Vec<List> = same
            .filter(|list| self.outdated[*list as usize].is_some())
            .collect();
        if outdated.is_empty() {
            return broken(7, format!("{method} is told, and nothing has changed"));
        }
        for list in outdated {
            self.given[list as usize] = Given::Whole(self.roster.digest(list));
            self.note_outdated(list);
        }
        self.seen.told += 1;
        Ok(())
    }

    fn on_done(&mut self, channel: Channel) -> Result<(), Broken> {
        if self.channels.insert(channel, true) != Some(false) {
            return broken(3, format!("{channel:?} was not open"));
        }
        match self.owed.iter().find(|owed| owed.channel == channel) {
            Some(owed) => broken(
                1,
                format!("{owed:?} is not answered, and its channel is done"),
            ),
            None => Ok(()),
        }
    }

    /// A server that lists nothing is not believed at once.
    fn check_doubt(
        &mut self,
        target: TargetId,
        offer: &outlive_core::roster::Offer,
    ) -> Result<(), Broken> {
        for list in List::ALL {
            let known = self.roster.offer(target).and_then(|offer| offer.list(list));
            let known = known.is_some_and(|items| !items.is_empty());
            let empty = known && offer.list(list).is_none_or(|items| items.is_empty());
            match (self.servers[target.0].doubtful[list as usize], empty) {
                (true, true) => {
                    return broken(
                        13,
                        format!("{target:?} is believed to have no {list:?} at once"),
                    );
                }
                (true, false) => self.seen.doubted += 1,
                (false, _) => {}
            }
        }
        Ok(())
    }
}
