//! What a gateway tells about itself, and what it is told to do to its servers.
//!
//! Ready means that a call would be answered. There may be no server yet: it is started with the first
//! call that needs it; but if the last one could not even be started, that tells about the next, for a
//! while. There may be several: those of one kind stand in for each other, so a kind is
//! not ready when all of its servers are in trouble, that is, were lost and are not back.

use std::sync::Arc;

use outlive_core::cause::{Phase, Reason};
use outlive_core::gateway::{ServerId, Standing, TargetId, Unready};
use outlive_core::{Cause, Time};
use serde_json::{Value, json};

use super::upstreams::Upstreams;
use super::{Upstream, metrics, page};
use crate::http_server::{Action, ActionError, Asset, ListenerStats, Pages, Readiness};

impl Pages for Arc<Upstreams> {
    fn ready(&self, full: bool) -> Readiness {
        let (now, upstreams) = (self.now(), self.all());
        let each = |upstream: &Upstream| {
            let mut data = json!({
                "upstream": upstream.number,
                "for": upstream.sharing.name(),
                "state": upstream.state.name(),
            });
            if self.by_name() && full {
                data["target"] = json!(upstream.target);
            }
            let standing = self.standing(upstream);
            if let Some((cause, since)) = standing.and_then(|standing| standing.trouble) {
                data["cause"] = shown(&cause, full);
                data["seconds"] = json!((now - since).as_secs_f64());
            }
            data
        };
        let readiness = self.readiness(now);
        let ready = readiness.iter().any(Result::is_ok);
        let mut data = json!({
            "ready": ready,
            "upstreams": upstreams.iter().map(each).collect::<Vec<_>>(),
        });
        let mut targets = Vec::new();
        for ((id, target), readiness) in self.layout().targets.iter().zip(readiness) {
            let is_unused = upstreams.iter().all(|it| it.target != target.name);
            let mut about = json!({ "ready": readiness.is_ok() });
            if full {
                about["name"] = json!(target.name);
            }
            let place = match self.by_name() {
                true => &mut about,
                false => &mut data,
            };
            if let Some((cause, since)) = self.lock().given_up(*id, now) {
                let seconds = (now - since).as_secs_f64();
                place["last"] = json!({ "cause": shown(cause, full), "seconds": seconds });
            } else if is_unused && let Some(why) = target.obstacle() {
                let label = target.policy.server_label();
                let cause = Cause::new(Reason::Unmade(why), Phase::Spawn, label);
                place["cause"] = shown(&cause, full);
            }
            targets.push(about);
            if let Err(unready) = readiness.as_ref()
                && !ready
            {
                data["reason"] = json!(unready.name());
            }
        }
        if self.by_name() {
            data["targets"] = json!(targets);
        }
        if self.is_shutting_down() {
            data["shutting_down"] = json!(true);
        }
        Readiness { ready, data }
    }

    fn metrics(&self, stats: &ListenerStats) -> String {
        metrics::page(
            self,
            stats,
            self.is_ready() && stats.store_trouble().is_none(),
        )
    }

    fn status(&self, stats: &ListenerStats) -> String {
        page::document(&self.report(stats), &self.meter)
    }

    fn status_data(&self, stats: &ListenerStats) -> Value {
        self.report(stats).to_json()
    }

    fn asset(&self, path: &str) -> Option<Asset> {
        page::asset(path)
    }

    fn act(&self, name: &str, action: Action, digest: &str) -> Result<Value, ActionError> {
        let layout = self.layout();
        let found = layout.targets.iter().find(|(_, it)| it.name == name);
        let Some((id, _)) = found else {
            let names = layout.targets.iter().map(|(_, it)| it.name.clone());
            return Err(ActionError::NoSuchServer(names.collect()));
        };
        let instances = match action {
            Action::Restart => self.restart_target(*id),
            Action::Stop => self.stop_target(*id),
            Action::Accept => return self.accept(*id, name, digest),
        };
        let sentence = match (action, instances) {
            (_, 0) => "It was not running. The next call starts it.",
            (Action::Restart, _) => "It is being restarted. Calls wait for it.",
            (Action::Stop | Action::Accept, _) => {
                "It is being stopped. The next call starts it again."
            }
        };
        Ok(json!({
            "server": name,
            "action": action.as_str(),
            "instances": instances,
            "sentence": sentence,
        }))
    }
}

impl Upstreams {
    /// Accepts what is withheld of a target, if it is what was shown.
    fn accept(&self, target: TargetId, name: &str, digest: &str) -> Result<Value, ActionError> {
        let catalogue = self.catalogue.as_ref();
        let accepted = match catalogue {
            Some(catalogue) => catalogue.accept(target, digest),
            None => Err("Its definitions are not pinned; nothing was done.".into()),
        };
        let sentence = accepted.map_err(ActionError::Conflict)?;
        Ok(json!({
            "server": name,
            "action": Action::Accept.as_str(),
            "digest": digest,
            "sentence": sentence,
        }))
    }

    /// Why each target is not ready, if it is not.
    pub(super) fn readiness(&self, now: Time) -> Vec<Result<(), Unready>> {
        let layout = self.layout();
        let targets = layout.targets.iter();
        let startable: Vec<(TargetId, bool)> = targets
            .map(|(id, it)| (*id, it.obstacle().is_none()))
            .collect();
        let machine = self.lock();
        let each = |(id, startable)| machine.readiness(id, startable, now);
        startable.into_iter().map(each).collect()
    }

    /// Whether any of its targets is ready: one that is not must not take the others out of service.
    fn is_ready(&self) -> bool {
        self.readiness(self.now()).iter().any(Result::is_ok)
    }

    fn standing(&self, upstream: &Upstream) -> Option<Standing> {
        let machine = self.lock();
        let server = machine.server(ServerId(upstream.number))?;
        Some(server.standing().clone())
    }
}

/// A cause as data; without what may be a secret, unless that may be seen.
fn shown(cause: &Cause, full: bool) -> Value {
    const OPEN: [&str; 5] = ["kind", "phase", "exit_code", "signal", "status"];
    let mut data = cause.to_json();
    if let Some(data) = data.as_object_mut().filter(|_| !full) {
        data.retain(|key, _| OPEN.contains(&key.as_str()));
    }
    data
}
