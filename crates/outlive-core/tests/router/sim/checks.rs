//! What holds after every step, and in the end.

use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::router::Input;
use serde_json::{Value, json};

use super::books::{Broken, Follow, Given, Leg, Owed, broken};
use super::names;
use super::world::{Cause, World};

impl World {
    /// Whether a server of which nothing is known may soon tell what it offers.
    fn is_awaited(&self, target: TargetId) -> bool {
        let server = &self.servers[target.0];
        let soon = |since| self.now < since + self.policy.list_wait;
        let open = matches!(server.leg, Leg::Shaking | Leg::Ready);
        open && !server.failed && server.reached.is_some_and(soon)
    }

    /// The client is given a list.
    pub fn on_listed(&mut self, list: List, owed: &Owed, it: &Value) -> Result<(), Broken> {
        let at = list as usize;
        let cursor = owed.params["cursor"].as_str();
        let Some(result) = it.get("result") else {
            self.seen.refused += 1;
            return Ok(());
        };
        let awaited = self.roster.unknown().find(|it| self.is_awaited(it.0));
        if let Some((target, name)) =
            awaited.filter(|_| self.now < owed.since + self.policy.list_wait)
        {
            return broken(
                6,
                format!("{list:?} is answered without {target:?} ({name})"),
            );
        }
        self.seen.lists += 1;
        self.seen.waited += usize::from(owed.since < self.now);
        let items = result[list.member()]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let limits = self.policy.limits;
        let page = self
            .roster
            .page(list, cursor, limits.page_items, limits.page_bytes);
        let Ok(page) = page else {
            return broken(6, format!("{it} is a page of nothing"));
        };
        let raw: Vec<Value> = page
            .items
            .iter()
            .map(|it| serde_json::from_slice(it).expect("JSON"))
            .collect();
        if raw != items {
            return broken(6, format!("{it} is not what there is"));
        }
        for item in &items {
            self.check_shown(list, item)?;
        }
        let whole = cursor.is_none() && result.get("nextCursor").is_none();
        if whole {
            let told: Vec<(Value, Value)> = items
                .iter()
                .map(|it| (it["of"].clone(), it["was"].clone()))
                .collect();
            let all = self.everything(list);
            if told != all {
                return broken(6, format!("{told:?} is told, {all:?} is there"));
            }
        }
        self.seen.pages += usize::from(!whole);
        self.cursors[at] = result["nextCursor"].as_str().map(str::to_owned);
        let digest = self.roster.digest(list);
        self.given[at] = match (cursor, self.given[at]) {
            (None, _) | (Some(_), Given::Nothing) => Given::Whole(digest),
            (Some(_), Given::Whole(other)) if other == digest => Given::Whole(digest),
            (Some(_), _) => {
                self.seen.mixed += 1;
                Given::Mixed
            }
        };
        self.note_outdated(list);
        Ok(())
    }

    /// All entries of all servers that are known and in the view, by the books of the catalogue.
    fn everything(&self, list: List) -> Vec<(Value, Value)> {
        let mut all = Vec::new();
        for entry in &self.entries {
            let hidden = self
                .view
                .servers
                .deny
                .iter()
                .any(|name| **name == *entry.name);
            let Some(live) = entry.offer.as_deref().filter(|_| !hidden) else {
                continue;
            };
            let offer = entry.pinned.as_ref().map_or(live, |it| &it.offer);
            for item in offer.list(list).into_iter().flat_map(|items| items.iter()) {
                let denied = list == List::Tools && !self.view.tools.deny.is_empty();
                if !(denied && item.key() == names::HIDDEN) {
                    all.push((json!(entry.target.0), json!(item.key())));
                }
            }
        }
        all
    }

    /// Checks what holds after every step.
    pub fn check(&mut self) -> Result<(), Broken> {
        if self.gone {
            return Ok(());
        }
        let wait = self.policy.list_wait;
        let awaited = self.roster.unknown().any(|it| self.is_awaited(it.0));
        let deadline = self.router.deadline();
        for owed in &self.owed {
            if owed.sent.is_some() {
                continue;
            }
            let queued = |target: &TargetId| self.servers[target.0].leg == Leg::Shaking;
            if owed.list().is_none() && owed.may.iter().any(|it| queued(&it.0)) {
                continue;
            }
            if self.now >= owed.since + wait || !awaited {
                return broken(6, format!("{owed:?} waits for nobody"));
            }
            if deadline.is_none_or(|at| at > owed.since + wait) {
                return broken(6, format!("{owed:?} is not woken"));
            }
        }
        for list in List::ALL {
            let at = self.outdated[list as usize].map(|since| since + self.policy.announce_after);
            if at.is_some_and(|at| self.now >= at || deadline.is_none_or(|it| it > at)) {
                return broken(7, format!("nobody is told that {list:?} has changed"));
            }
        }
        let open = self.channels.iter().filter(|(_, done)| !**done);
        for (channel, _) in open {
            if self.owed.iter().all(|owed| owed.channel != *channel) {
                return broken(3, format!("{channel:?} is not done"));
            }
        }
        self.check_sizes()
    }

    fn check_sizes(&self) -> Result<(), Broken> {
        let (sizes, limits) = (self.router.sizes(), self.policy.limits);
        let open = self.servers.iter().filter(|it| it.leg != Leg::None).count();
        let asked = self.servers.iter().flat_map(|it| &it.questions);
        let asked = asked.filter(|it| it.asked.is_some()).count();
        let own = self.servers.len() * 40;
        let queued = limits.queued_bytes.max(600);
        let bounded = sizes.calls <= limits.calls + own
            && sizes.queued_bytes <= queued
            && sizes.tasks <= limits.tasks
            && sizes.subscriptions <= limits.subscriptions
            && sizes.waiting <= limits.calls;
        if !bounded || self.owed.len() > limits.calls {
            return broken(9, format!("{sizes:?} is more than {limits:?}"));
        }
        let exact =
            self.router.in_flight() == self.owed.len() && sizes.legs == open && sizes.asks == asked;
        match exact {
            true => Ok(()),
            false => broken(
                9,
                format!(
                    "{sizes:?}, {} owed, {open} legs, {asked} asked",
                    self.owed.len()
                ),
            ),
        }
    }

    /// Servers have answered everything, and time has passed: nothing is owed, and all know what they should.
    pub fn check_settled(&mut self) -> Result<(), Broken> {
        if let Some(owed) = self.owed.first() {
            return broken(12, format!("{owed:?} is never answered"));
        }
        if !self.introduced {
            return Ok(());
        }
        self.seen.settled += 1;
        for (at, server) in self
            .servers
            .iter()
            .enumerate()
            .filter(|(_, it)| it.leg == Leg::Ready)
        {
            let has = names::capabilities(server.lacks);
            if !has["logging"].is_null() && self.level.is_some() && server.level != self.level {
                return broken(
                    10,
                    format!(
                        "server {at} has the level {:?}, not {:?}",
                        server.level, self.level
                    ),
                );
            }
            for ((_, uri), follow) in self.follows.iter().filter(|it| it.0.0 == TargetId(at)) {
                let sure =
                    *follow == Follow::Yes && !self.murky.contains(&(TargetId(at), uri.clone()));
                if sure && !server.follows.contains(uri) {
                    return broken(
                        10,
                        format!("server {at} does not know that {uri} is followed"),
                    );
                }
            }
        }
        for list in List::ALL {
            self.list([0, 3, 4, 5][list as usize], false)?;
        }
        self.end_wait()
    }

    fn end_wait(&mut self) -> Result<(), Broken> {
        self.wait(self.policy.list_wait, true)?;
        match self.owed.first() {
            Some(owed) => broken(12, format!("{owed:?} is never answered")),
            None => Ok(()),
        }
    }

    /// The client is gone: nothing is left, and nothing comes any more.
    pub fn check_gone(&mut self) -> Result<(), Broken> {
        self.feed(Cause::Other, Input::Tick)?;
        let sizes = self.router.sizes();
        let left = [
            sizes.calls,
            sizes.queued_bytes,
            sizes.held,
            sizes.asks,
            sizes.legs,
            sizes.waiting,
            sizes.tasks,
            sizes.subscriptions,
        ];
        if left.iter().any(|left| *left > 0) || self.router.deadline().is_some() {
            return broken(9, format!("{sizes:?} is left of a client that is gone"));
        }
        match self.servers.iter().position(|it| it.leg != Leg::None) {
            Some(server) => broken(
                9,
                format!("the leg to {server} is left of a client that is gone"),
            ),
            None => Ok(()),
        }
    }
}
