//! Servers: slow, silent, mortal, and liars.

use std::time::Duration;

use outlive_core::Message;
use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::router::{Input, YIELD_AFTER};
use outlive_core::server::{Channel, RpcError};
use serde_json::{Value, json};

use super::books::{Broken, Got, Leg, Question, broken};
use super::names;
use super::world::{Cause, World, draw_list};
use crate::random::Dice;

/// How long an empty list is not believed.
const DOUBT: Duration = Duration::from_secs(2);

impl World {
    /// A server says this, whether it has a leg or not.
    fn says(&mut self, server: usize, channel: Channel, message: &Value) -> Result<(), Broken> {
        let message = Message::read(message.to_string().into()).expect("a message");
        self.speaker = Some(TargetId(server));
        let cause = match message.is_error() {
            true => Cause::Lost(TargetId(server)),
            false => Cause::Other,
        };
        let result = self.feed(cause, Input::Server(TargetId(server), channel, message));
        self.speaker = None;
        result
    }

    /// The same, and nothing comes of it.
    fn lies(&mut self, server: usize, channel: Channel, message: &Value) -> Result<(), Broken> {
        self.seen.lies += 1;
        self.lying = true;
        let result = self.says(server, channel, message);
        self.lying = false;
        result
    }

    pub fn serve_all(&mut self, server: usize) -> Result<(), Broken> {
        for _ in 0..self.servers[server].pending.len() {
            self.serve(server, 0)?;
        }
        Ok(())
    }

    pub fn serve(&mut self, server: usize, m: usize) -> Result<(), Broken> {
        let Some(got) = self.take(server, m) else {
            return Ok(());
        };
        let (now, it) = (self.now, &mut self.servers[server]);
        let mut result = match (got.method.as_str(), List::of_method(&got.method)) {
            ("initialize", _) => {
                it.leg = Leg::Ready;
                it.failed = false;
                names::hello(it.lacks)
            }
            ("logging/setLevel", _) => {
                it.level = got.params["level"].as_str().map(str::to_owned);
                json!({})
            }
            ("resources/subscribe", _) => {
                it.follows
                    .insert(got.params["uri"].as_str().unwrap_or("").into());
                json!({})
            }
            ("resources/unsubscribe", _) => {
                it.follows.remove(got.params["uri"].as_str().unwrap_or(""));
                json!({})
            }
            (_, Some(list)) => {
                let places = &it.lists[list as usize];
                let at = list as usize;
                if got.params["cursor"].is_null() {
                    let known = self
                        .roster
                        .offer(TargetId(server))
                        .and_then(|it| it.list(list));
                    let declared = !names::capabilities(it.lacks)[list.capability()].is_null();
                    let emptied =
                        declared && places.is_empty() && known.is_some_and(|it| !it.is_empty());
                    let first = it.empty[at].is_none() || it.doubtful[at];
                    it.empty[at] = places.is_empty().then(|| it.empty[at].unwrap_or(now));
                    it.doubtful[at] =
                        emptied && first && it.empty[at].is_some_and(|since| now < since + DOUBT);
                    self.seen.emptied += usize::from(emptied);
                }
                let items = names::items(server, it.version, list, places);
                page(list, items, it.paged, &got.params["cursor"])
            }
            ("tools/call", _) if !got.params["task"].is_null() => {
                json!({"task": {"taskId": format!("t{}", got.id.as_u64().unwrap_or(0) % 3)}})
            }
            _ => json!({"content": []}),
        };
        if let Some(secret) = got.secret() {
            result["secret"] = json!(secret);
            result["by"] = json!(server);
        }
        let answer = json!({"jsonrpc": "2.0", "id": got.id, "result": result});
        self.says(server, got.channel, &answer)
    }

    /// Takes a request that a server is to answer.
    fn take(&mut self, server: usize, m: usize) -> Option<Got> {
        let it = &mut self.servers[server];
        let at = m.checked_rem(it.pending.len())?;
        let got = it.pending.remove(at);
        it.past.push(got.clone());
        it.trim();
        Some(got)
    }

    pub fn fail(&mut self, server: usize, m: usize) -> Result<(), Broken> {
        let Some(got) = self.take(server, m) else {
            return Ok(());
        };
        let it = &mut self.servers[server];
        let mut data = json!({"secret": got.secret(), "by": server});
        match (got.method.as_str(), List::of_method(&got.method)) {
            // Whoever says no has been told.
            ("logging/setLevel", _) => it.level = got.params["level"].as_str().map(str::to_owned),
            ("resources/subscribe", _) if got.secret().is_none() => {
                it.follows
                    .insert(got.params["uri"].as_str().unwrap_or("").into());
            }
            (_, Some(list)) => it.doubtful[list as usize] = false,
            _ => {}
        }
        if got.method == "initialize" {
            let asked = it.questions.iter().filter_map(|it| it.asked.clone());
            self.withdrawals = asked.collect();
            it.lose();
            it.leg = Leg::Open;
            self.seen.unshaken += 1;
            data = json!({"outlive": {"kind": "unavailable"}});
        }
        let error = json!({"code": -31002, "message": "no", "data": data});
        // A page that is not one is an error as well.
        let answer = match List::of_method(&got.method).is_some() && m.is_multiple_of(2) {
            true => {
                json!({"jsonrpc": "2.0", "id": got.id, "result": {"secret": got.secret(), "by": server}})
            }
            false => json!({"jsonrpc": "2.0", "id": got.id, "error": error}),
        };
        self.says(server, got.channel, &answer)?;
        self.all_withdrawn()
    }

    /// The client was told of every question that nobody waits for any more.
    fn all_withdrawn(&mut self) -> Result<(), Broken> {
        match std::mem::take(&mut self.withdrawals).first() {
            Some(id) if !self.gone => broken(8, format!("{id} is asked for nobody")),
            _ => Ok(()),
        }
    }

    pub fn lie(&mut self, server: usize, how: u8, m: usize) -> Result<(), Broken> {
        let others = || (0..self.servers.len()).filter(|it| *it != server);
        let theirs: Vec<&Got> = others().flat_map(|it| &self.servers[it].pending).collect();
        let theirs = m.checked_rem(theirs.len()).map(|at| theirs[at].clone());
        let it = &self.servers[server];
        // Ids like ours may be in use again.
        let free = |got: &&Got| it.pending.iter().all(|other| other.id != got.id);
        let own: Vec<&Got> = it.past.iter().filter(free).collect();
        let own = m.checked_rem(own.len()).map(|at| own[at].clone());
        let result = json!({"secret": "lie", "by": server});
        let answer = |id: &Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"by": server, "data": 1}});
        if self.servers[server].leg == Leg::None {
            // It speaks without a leg, or after its end.
            self.seen.late += 1;
            let id = own.map_or(json!(1), |got| got.id);
            let ask = json!({"jsonrpc": "2.0", "id": 7, "method": "roots/list", "params": {"secret": "lie"}});
            return self.lies(server, Channel::MAIN, [&answer(&id), &log, &ask][m % 3]);
        }
        match (how % 8, theirs, own) {
            (0, Some(theirs), _) => self.lies(server, theirs.channel, &answer(&theirs.id)),
            (1, Some(theirs), _) => {
                let error = json!({"code": 1, "message": "lie"});
                let answer = json!({"jsonrpc": "2.0", "id": theirs.id, "error": error});
                self.lies(server, Channel::MAIN, &answer)
            }
            (2, _, Some(own)) => self.lies(server, own.channel, &answer(&own.id)),
            (3, Some(theirs), _) => {
                let token = theirs.params["_meta"]["progressToken"].clone();
                let used = |it: &Got| it.params["_meta"]["progressToken"] == token;
                let it = &self.servers[server];
                if token.is_null() || it.pending.iter().chain(&it.past).any(used) {
                    return Ok(());
                }
                let params = json!({"progressToken": token, "progress": 1, "secret": "lie"});
                let progress =
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
                self.lies(server, theirs.channel, &progress)
            }
            (4, ..) => {
                let mine: Vec<Value> = self.servers[server]
                    .questions
                    .iter()
                    .map(|it| it.id.clone())
                    .collect();
                let theirs = others().flat_map(|it| &self.servers[it].questions);
                let mut theirs = theirs
                    .flat_map(|it| [Some(it.id.clone()), it.asked.clone()])
                    .flatten();
                let Some(id) = theirs.rfind(|id| !mine.contains(id)) else {
                    return Ok(());
                };
                let params = json!({"requestId": id, "reason": "lie"});
                let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
                self.lies(server, Channel::MAIN, &cancel)
            }
            (5, Some(theirs), _) if self.servers[server].leg == Leg::Ready => {
                self.says(server, theirs.channel, &log)
            }
            (6, ..) => self.lies(server, Channel(m as u64), &answer(&json!("unknown"))),
            (7, ..) => {
                let target = TargetId(server);
                let task = self.tasks.iter().find(|(task, at, _)| {
                    let mut all = self.tasks.iter();
                    *at != target && !all.any(|it| it.0 == *task && it.1 == target)
                });
                let Some((task, ..)) = task.cloned() else {
                    return Ok(());
                };
                // Only of the tasks that are remembered is it known whose they are.
                if self.tasks.len() > self.policy.limits.tasks {
                    return Ok(());
                }
                let params = json!({"taskId": task, "status": "failed"});
                let status = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params});
                self.lies(server, Channel::MAIN, &status)
            }
            _ => Ok(()),
        }
    }

    pub fn ask(&mut self, server: usize, what: u8, id: u8) -> Result<(), Broken> {
        let ids = [
            json!(7),
            json!("7"),
            json!(1),
            json!(2),
            json!(3),
            json!("outlive-router-1"),
        ];
        let id = ids[id as usize % 6].clone();
        let it = &self.servers[server];
        let taken = it.questions.iter().any(|it| it.id == id) || it.pings.contains(&id);
        if taken || !matches!(it.leg, Leg::Shaking | Leg::Ready) || self.gone {
            return Ok(());
        }
        let kinds = [
            "sampling/createMessage",
            "elicitation/create",
            "roots/list",
            "ping",
            "x/ask",
        ];
        let method = kinds[what as usize % 5];
        let secret = self.secret("q");
        let params = json!({"secret": secret, "by": server, "_meta": {"progressToken": "t"}});
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let channel = self.servers[server]
            .pending
            .first()
            .map_or(Channel::MAIN, |got| got.channel);
        if method == "ping" {
            self.servers[server].pings.push(id.clone());
            self.says(server, channel, &message)?;
            return match self.servers[server].pings.contains(&id) {
                true => broken(8, format!("the ping {id} of {server} is not answered")),
                false => Ok(()),
            };
        }
        self.servers[server].questions.push(Question {
            id,
            method,
            token: json!("t"),
            secret: secret.clone(),
            asked: None,
            asked_token: Value::Null,
            replied: false,
        });
        self.says(server, channel, &message)?;
        // It was passed on, or refused at once.
        match self.servers[server]
            .questions
            .iter()
            .find(|it| it.secret == secret)
        {
            Some(question) if question.asked.is_none() => broken(8, format!("{secret} is lost")),
            _ => Ok(()),
        }
    }

    pub fn unask(&mut self, server: usize, m: usize) -> Result<(), Broken> {
        let it = &mut self.servers[server].questions;
        let Some(at) = m.checked_rem(it.len()) else {
            return Ok(());
        };
        let question = it.remove(at);
        let params = json!({"requestId": question.id, "was": question.asked});
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        self.seen.withdrawn += usize::from(question.asked.is_some());
        self.withdrawals = question.asked.into_iter().collect();
        self.says(server, Channel::MAIN, &cancel)?;
        self.all_withdrawn()
    }

    pub fn progress(&mut self, server: usize, m: usize) -> Result<(), Broken> {
        let it = &self.servers[server];
        let Some(at) = m.checked_rem(it.pending.len()) else {
            return self.task_progress(server);
        };
        let got = it.pending[at].clone();
        let token = &got.params["_meta"]["progressToken"];
        if token.is_null() || self.gone {
            return Ok(());
        }
        let params = json!({"progressToken": token, "progress": 1, "secret": got.secret()});
        let progress =
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        let owed = |it: &super::books::Owed| {
            Some(&*it.secret) == got.secret() && !self.worn.contains(token)
        };
        self.expected = self.owed.iter().any(owed).then_some("progress");
        self.says(server, got.channel, &progress)
    }

    /// A task goes on after its request was answered.
    fn task_progress(&mut self, server: usize) -> Result<(), Broken> {
        let tasks = self.tasks.iter().filter(|it| it.1 == TargetId(server));
        let token = tasks.filter_map(|it| it.2.clone()).next_back();
        let there = matches!(self.servers[server].leg, Leg::Shaking | Leg::Ready);
        let (Some(token), true, false) = (token, there, self.gone) else {
            return Ok(());
        };
        // Only of the tasks that are remembered is it known whose they are.
        if self.tasks.len() > self.policy.limits.tasks {
            return Ok(());
        }
        let params = json!({"progressToken": token, "progress": 1});
        let progress =
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        self.expected = Some("progress of a task");
        self.says(server, Channel::MAIN, &progress)
    }

    pub fn say(&mut self, server: usize, what: u8) -> Result<(), Broken> {
        let it = &self.servers[server];
        if !matches!(it.leg, Leg::Shaking | Leg::Ready) || self.gone {
            return Ok(());
        }
        let channel = it.pending.last().map_or(Channel::MAIN, |got| got.channel);
        let mut is_shown = true;
        let message = match what % 3 {
            0 => {
                let uri = it.follows.iter().next().cloned();
                let uri = uri.unwrap_or_else(|| ["x://1", "x://9"][what as usize / 3 % 2].into());
                is_shown = self.roster.shows_resource(TargetId(server), &uri);
                json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri, "by": server}})
            }
            1 => {
                json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"by": server, "data": 1}})
            }
            _ => json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"by": server}}),
        };
        self.expected = is_shown.then_some("what a server said");
        self.says(server, channel, &message)
    }

    pub fn change(&mut self, server: usize, what: u8, tell: bool) -> Result<(), Broken> {
        let mut dice = Dice::new(u64::from(what));
        let list = List::ALL[dice.below(4) as usize];
        let it = &mut self.servers[server];
        it.lists[list as usize] = match what % 4 {
            0 => Vec::new(),
            _ => draw_list(&mut dice, list),
        };
        it.paged = dice.below(4) == 0;
        it.version += usize::from(dice.below(3) == 0);
        if it.leg == Leg::None {
            it.lacks = dice.roll() as u8;
        }
        match tell && it.leg != Leg::None {
            true => {
                let changed = json!({"jsonrpc": "2.0", "method": list.changed_method()});
                self.says(server, Channel::MAIN, &changed)
            }
            false => Ok(()),
        }
    }

    pub fn end_leg(&mut self, server: usize) -> Result<(), Broken> {
        self.lost(server, Input::LegEnded(TargetId(server)))
    }

    pub fn give_way(&mut self, server: usize) -> Result<(), Broken> {
        let target = TargetId(server);
        // Often after a while in which nobody uses it.
        self.serve_all(server)?;
        self.wait(YIELD_AFTER, true)?;
        self.feed(Cause::GiveWay(target), Input::GiveWay(target))
    }

    pub fn refuse(&mut self, server: usize) -> Result<(), Broken> {
        let why = RpcError::new(-31002, "There are too many.");
        self.lost(server, Input::Refused(TargetId(server), why))
    }

    fn lost(&mut self, server: usize, input: Input) -> Result<(), Broken> {
        let it = &mut self.servers[server];
        if it.leg == Leg::None {
            self.lying = true;
            let result = self.feed(Cause::Other, input);
            self.lying = false;
            return result;
        }
        let asked: Vec<Value> = it
            .questions
            .iter()
            .filter_map(|it| it.asked.clone())
            .collect();
        match input {
            Input::LegEnded(_) => self.seen.ended += 1,
            _ => self.seen.unopened += 1,
        }
        self.withdrawals = asked;
        self.servers[server].lose();
        self.feed(Cause::Lost(TargetId(server)), input)?;
        self.all_withdrawn()
    }
}

fn page(list: List, items: Vec<Value>, paged: bool, cursor: &Value) -> Value {
    if !paged {
        return json!({list.member(): items});
    }
    let at: usize = cursor.as_str().and_then(|it| it.parse().ok()).unwrap_or(0);
    let more = at + 1 < items.len();
    let items: Vec<Value> = items.into_iter().skip(at).take(1).collect();
    match more {
        true => json!({list.member(): items, "nextCursor": (at + 1).to_string()}),
        false => json!({list.member(): items}),
    }
}
