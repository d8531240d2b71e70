//! The resources that the client follows.
//!
//! They belong to the client and not to a leg: a server that comes later is asked to tell of them as well. It is asked
//! a few at a time, so that one that never answers costs no more than these.

use std::collections::BTreeSet;

use crate::gateway::TargetId;
use crate::message::Message;

use super::leg::Stage;
use super::table::What;
use super::{Output, Router};

/// Subscriptions that a server is told at a time.
const MOST_SETTINGS: usize = 32;

impl Router {
    /// Asks a server to tell of the resources that the client follows, and of no others; a few at a time.
    pub(super) fn align_follows(&mut self, target: TargetId) {
        let wanted = self.follows_of(target);
        let Some(leg) = self.legs.get_mut(&target) else {
            return;
        };
        if leg.stage != Stage::Ready || leg.settings >= MOST_SETTINGS {
            return;
        }
        let more = wanted.difference(&leg.told);
        let more = more.map(|uri| ("resources/subscribe", uri.clone()));
        let less = leg.told.difference(&wanted);
        let less = less.map(|uri| ("resources/unsubscribe", uri.clone()));
        let room = MOST_SETTINGS - leg.settings;
        let changes: Vec<(&str, Box<str>)> = less.chain(more).take(room).collect();
        leg.settings += changes.len();
        for (method, uri) in &changes {
            match *method == "resources/subscribe" {
                true => leg.told.insert(uri.clone()),
                false => leg.told.remove(uri),
            };
        }
        for (method, uri) in changes {
            let params = serde_json::json!({ "uri": uri }).to_string();
            let subscribed = (method == "resources/subscribe").then_some(uri);
            self.ask(target, method, params.as_bytes(), What::Setting(subscribed));
        }
    }

    /// The server has answered one of these. If it tells of a resource from now on, the client is told that the resource
    /// may have changed: nobody has told of that before.
    pub(super) fn on_set(&mut self, target: TargetId, followed: Option<&str>) {
        let exposed = followed.and_then(|uri| self.follows.get(&(target, uri.into())));
        if let Some(exposed) = exposed {
            let params = serde_json::json!({ "uri": exposed }).to_string();
            let method = "notifications/resources/updated";
            let message = Message::notification(method, params.as_bytes());
            let newest = self.newest_channel();
            self.out.push_back(Output::Offer(newest, message));
        }
        if let Some(leg) = self.legs.get_mut(&target) {
            leg.settings -= 1;
        }
        self.align_follows(target);
    }

    /// The server will tell the client of this resource.
    pub(super) fn on_subscribed(&mut self, target: TargetId, uri: &str, exposed: &str) {
        self.follows.insert((target, uri.into()), exposed.into());
        if let Some(leg) = self.legs.get_mut(&target) {
            leg.told.insert(uri.into());
        }
    }

    /// It will no longer.
    pub(super) fn on_unsubscribed(&mut self, target: TargetId, uri: &str) {
        self.follows.remove(&(target, uri.into()));
        if let Some(leg) = self.legs.get_mut(&target) {
            leg.told.remove(uri);
        }
    }

    /// Follows a resource for those that the router speaks for, now and with every server to come.
    pub(super) fn follow(&mut self, target: TargetId, uri: &str, exposed: &str) {
        self.follows.insert((target, uri.into()), exposed.into());
        self.reach(target);
        self.align_follows(target);
    }

    /// Whether a resource is followed.
    pub(super) fn follows(&self, target: TargetId, uri: &str) -> bool {
        self.follows.contains_key(&(target, uri.into()))
    }

    /// Follows it no longer.
    pub(super) fn unfollow(&mut self, target: TargetId, uri: &str) {
        self.follows.remove(&(target, uri.into()));
        self.align_follows(target);
    }

    pub(super) fn follows_of(&self, target: TargetId) -> BTreeSet<Box<str>> {
        let all = self.follows.range((target, Box::from(""))..);
        let its = all.take_while(|((at, _), _)| *at == target);
        its.map(|((_, uri), _)| uri.clone()).collect()
    }
}
