//! How the targets of a gateway stand, as data: what the page for people is drawn from, and what programs read as
//! `/status.json`. A target is a *server* to them; what was started for it are its *instances*.

use std::sync::Arc;
use std::time::Duration;

use outlive_core::cause::Reason;
use outlive_core::gateway::{LOSS_SLOT, Loss, ServerId, Standing, TargetId, Unready};
use outlive_core::history::Calls;
use outlive_core::{Cause, State, Time};
use serde_json::{Value, json};

use super::pin_files::Withheld;
use super::recent::{CALL_SLOT, Tools};
use super::target::Target;
use super::upstreams::Upstreams;
use super::{Sharing, Upstream};
use crate::http_server::{ListenerStats, ServerUse, stays};

/// Instances of a server that are told one by one.
const MOST_INSTANCES: usize = 100;

/// How a server is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    /// All of its instances are in service.
    Running,
    /// It has none: the next call starts one.
    Idle,
    /// It is about to be in service for the first time.
    Starting,
    /// What there is of it is being stopped.
    Stopping,
    /// Some of its instances were lost and are not back; the others are in service.
    Degraded,
    /// It was lost and is not back, or could not be started.
    Down,
}

impl Health {
    pub(super) fn name(self) -> &'static str {
        match self {
            Health::Running => "running",
            Health::Idle => "idle",
            Health::Starting => "starting",
            Health::Stopping => "stopping",
            Health::Degraded => "degraded",
            Health::Down => "down",
        }
    }

    /// Whether nobody needs to look after it.
    pub(super) fn is_well(self) -> bool {
        !matches!(self, Health::Degraded | Health::Down)
    }
}

/// How a gateway stands.
pub(super) struct Report {
    pub(super) ready: bool,
    pub(super) shutting_down: bool,
    pub(super) uptime: Duration,
    pub(super) connections: usize,
    pub(super) sessions: usize,
    pub(super) streams: usize,
    pub(super) in_flight: u64,
    pub(super) held: u64,
    /// Whether whoever reads this may restart and stop servers.
    pub(super) may_act: bool,
    /// What is wrong with the settings, if they could not be read again.
    pub(super) problem: Option<String>,
    pub(super) servers: Vec<ServerReport>,
}

/// How one target stands.
pub(super) struct ServerReport {
    pub(super) name: String,
    /// The command or address, secrets masked.
    pub(super) label: String,
    /// Where clients find it.
    pub(super) path: String,
    /// What it says it is.
    pub(super) software: Option<String>,
    pub(super) health: Health,
    /// The same with the particulars.
    pub(super) sentence: String,
    pub(super) ready: bool,
    /// The newest generation in service.
    pub(super) generation: Option<u64>,
    pub(super) in_flight: usize,
    pub(super) restarts: u64,
    /// By the minute, oldest first.
    pub(super) restarts_lately: Vec<u32>,
    /// In slots, oldest first.
    pub(super) calls: Vec<Option<Calls>>,
    /// The sum of them.
    pub(super) all_calls: Calls,
    /// The latest first.
    pub(super) losses: Vec<LossReport>,
    pub(super) tools: Option<Tools>,
    /// What nobody has accepted of its definitions.
    pub(super) withheld: Option<Withheld>,
    pub(super) instances: Vec<Instance>,
    /// Instances that are not among them.
    pub(super) more_instances: usize,
}

/// A loss, as seen now.
pub(super) struct LossReport {
    pub(super) instance: u64,
    pub(super) ago: Duration,
    pub(super) cause: Cause,
    /// How often in a row.
    pub(super) times: u64,
}

/// One of a target's servers.
pub(super) struct Instance {
    pub(super) number: u64,
    pub(super) sharing: Sharing,
    pub(super) state: &'static str,
    pub(super) generation: Option<u64>,
    /// How long it has been in its state.
    pub(super) since: Duration,
    pub(super) clients: usize,
    /// What its one client calls itself, and where the client's token stands among those that are good.
    pub(super) client: Option<String>,
    pub(super) token: Option<usize>,
    /// What they are called for whom an identity provider has vouched.
    pub(super) user: Option<String>,
    pub(super) in_flight: usize,
    pub(super) restarts: u64,
    pub(super) unused: Duration,
    pub(super) ends: Ends,
}

/// When an instance ends if nobody uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// It is in use, or stays.
    Never,
    /// It is being stopped, or its client has left.
    Soon,
    In(Duration),
}

impl Upstreams {
    pub(super) fn report(&self, stats: &ListenerStats) -> Report {
        let (now, seen) = (self.now(), self.seen());
        let readiness = self.readiness(now);
        let withheld = self.catalogue.as_ref().map(|it| it.withheld());
        let mut withheld = withheld.unwrap_or_default();
        let layout = self.layout();
        let server = |((id, target), unready): (&(TargetId, Arc<Target>), &Result<(), Unready>)| {
            let own = seen.iter().filter(|it| it.upstream.target == target.name);
            let report = self.server_report(*id, target, unready, &own.collect::<Vec<_>>(), stats);
            let held = withheld.iter().position(|it| it.name == target.name);
            ServerReport {
                withheld: held.map(|at| withheld.remove(at)),
                ..report
            }
        };
        let store = stats.store_trouble();
        Report {
            ready: readiness.iter().any(Result::is_ok) && store.is_none(),
            shutting_down: self.is_shutting_down(),
            uptime: now.since_start(),
            connections: stats.connections,
            sessions: stats.sessions,
            streams: stats.streams,
            in_flight: self.meter.in_flight(),
            held: self.meter.held(),
            may_act: stats.may_act,
            problem: self.problem().or_else(|| stats.token_trouble.as_deref().map(stays)).or_else(|| {
                let why = store?;
                Some(format!(
                    "The store of sessions does not work: {why}. Sessions in use go on; no other is begun or taken over."
                ))
            }),
            servers: layout.targets.iter().zip(&readiness).map(server).collect(),
        }
    }

    fn server_report(
        &self,
        id: TargetId,
        target: &Target,
        readiness: &Result<(), Unready>,
        seen: &[&Seen],
        stats: &ListenerStats,
    ) -> ServerReport {
        let now = self.now();
        let machine = self.lock();
        let failure = machine.last_failure(id);
        let failure = failure.map(|(cause, since)| (cause.clone(), since));
        let losses: Vec<Loss> = machine.losses(id).cloned().collect();
        let lost = machine.lost(id).map(|(restarts, lately)| {
            let lately = lately.read(now).map(|count| count.copied().unwrap_or(0));
            (restarts, lately.collect::<Vec<u32>>())
        });
        drop(machine);
        let (health, sentence) = health(target, readiness, seen, failure, now);
        let (restarts, restarts_lately) = lost.unwrap_or_default();
        let calls = target.recent.calls();
        let mut all_calls = Calls::default();
        calls.iter().flatten().for_each(|slot| all_calls.add(slot));
        let instances = seen.iter().take(MOST_INSTANCES).map(|it| {
            let server_use = stats.server_uses.get(&it.upstream.number);
            instance(target, it, server_use, now)
        });
        ServerReport {
            name: target.name.clone(),
            label: target.policy.label.to_string(),
            path: match self.by_name() {
                true => format!("/{}{}", target.name, stats.path),
                false => stats.path.clone(),
            },
            software: target.recent.software(),
            health,
            sentence,
            ready: readiness.is_ok(),
            generation: seen.iter().filter_map(|it| generation(&it.upstream)).max(),
            in_flight: seen.iter().map(|it| it.upstream.in_flight).sum(),
            restarts,
            restarts_lately,
            calls,
            all_calls,
            losses: losses
                .into_iter()
                .map(|loss| LossReport {
                    instance: loss.server.0,
                    ago: now - loss.at,
                    cause: loss.cause,
                    times: loss.times,
                })
                .collect(),
            tools: target.recent.tools(),
            withheld: None,
            instances: instances.collect(),
            more_instances: seen.len().saturating_sub(MOST_INSTANCES),
        }
    }

    /// All servers there are, and what the machine knows of them.
    fn seen(&self) -> Vec<Seen> {
        let upstreams = self.all();
        let machine = self.lock();
        let seen = upstreams.into_iter().filter_map(|upstream| {
            let server = machine.server(ServerId(upstream.number))?;
            Some(Seen {
                standing: server.standing().clone(),
                is_stopping: server.is_stopping(),
                upstream,
            })
        });
        seen.collect()
    }
}

/// A server, and what the machine knows of it.
struct Seen {
    upstream: Upstream,
    standing: Standing,
    is_stopping: bool,
}

/// How a target is, in a word and in a sentence.
fn health(
    target: &Target,
    readiness: &Result<(), Unready>,
    seen: &[&Seen],
    failure: Option<(Cause, Time)>,
    now: Time,
) -> (Health, String) {
    let failure = failure.filter(|(cause, _)| cause.reason != Reason::Requested);
    let serving = || seen.iter().filter(|it| !it.is_stopping);
    let trouble = serving().find_map(|it| it.standing.trouble.as_ref());
    match (readiness, trouble) {
        (Err(Unready::ShuttingDown), _) => (Health::Stopping, "outlive is shutting down.".into()),
        (Err(Unready::InTrouble(_)), Some((cause, _))) if cause.reason == Reason::Requested => {
            let sentence = "It is being restarted on request; calls wait for it.";
            (Health::Starting, sentence.into())
        }
        (Err(Unready::InTrouble(_)), trouble) => {
            let is_failed = |it: &&Seen| matches!(it.upstream.state, State::Failed { .. });
            let unanswered =
                trouble.is_some_and(|(cause, _)| matches!(cause.reason, Reason::Unanswered(_)));
            let next = match serving().copied().any(|it| is_failed(&it)) {
                true => "It keeps failing: it is tried again now and then, and with every call.",
                // Its link lives, and the next client shakes hands over it.
                false if unanswered => "The next handshake tries again.",
                false => "It is being started again; calls wait for it.",
            };
            let what = trouble.map(|(cause, since)| lost(cause, now - *since));
            (Health::Down, format!("{} {next}", what.unwrap_or_default()))
        }
        (Err(Unready::GivenUp(cause, since)), _) => {
            let what = lost(cause, now - *since);
            (Health::Down, format!("{what} The next call tries again."))
        }
        (Err(Unready::Unstartable), _) => {
            let why = target.obstacle().map(|why| format!(": {why}"));
            let why = why.unwrap_or_default();
            (Health::Down, format!("It cannot be started{why}."))
        }
        (Ok(()), Some((cause, since))) => {
            let all = serving().count();
            let well = serving().filter(|it| it.standing.trouble.is_none()).count();
            let what = lost(cause, now - *since);
            (
                Health::Degraded,
                format!("{what} {well} of {all} instances can be used."),
            )
        }
        (Ok(()), None) => match failure.filter(|_| seen.is_empty()) {
            // It would be tried again, so it is ready; but nobody has seen it work since.
            Some((cause, since)) => {
                let what = lost(&cause, now - since);
                (Health::Down, format!("{what} The next call tries again."))
            }
            None => well(seen, now),
        },
    }
}

/// The same for a target without trouble.
fn well(seen: &[&Seen], now: Time) -> (Health, String) {
    if seen.is_empty() {
        return (Health::Idle, "Not running. The next call starts it.".into());
    }
    let serving: Vec<&&Seen> = seen.iter().filter(|it| !it.is_stopping).collect();
    if serving.is_empty() {
        let sentence = "Being stopped. The next call starts it again.";
        return (Health::Stopping, sentence.into());
    }
    let ready = serving
        .iter()
        .filter(|it| matches!(it.upstream.state, State::Ready { .. }));
    let times: Vec<Duration> = ready.map(|it| now - it.standing.since).collect();
    let Some(longest) = times.iter().max().copied().map(brief) else {
        return (Health::Starting, "Starting.".into());
    };
    let sentence = match (times.len(), serving.len()) {
        (_, 1) => format!("Running for {longest}."),
        (ready, all) => {
            format!("{ready} of {all} instances in service, the longest for {longest}.")
        }
    };
    (Health::Running, sentence)
}

fn lost(cause: &Cause, ago: Duration) -> String {
    format!("The server {}, {} ago.", cause.predicate(), brief(ago))
}

fn generation(upstream: &Upstream) -> Option<u64> {
    match upstream.state {
        State::Ready { generation } => Some(generation.number()),
        _ => None,
    }
}

fn instance(target: &Target, seen: &Seen, server_use: Option<&ServerUse>, now: Time) -> Instance {
    let Seen {
        upstream, standing, ..
    } = seen;
    Instance {
        number: upstream.number,
        sharing: upstream.sharing,
        state: upstream.state.name(),
        generation: generation(upstream),
        since: now - standing.since,
        clients: upstream.clients,
        client: upstream.client.clone(),
        token: server_use.and_then(|server_use| server_use.token),
        user: server_use.and_then(|server_use| server_use.user.clone()),
        in_flight: upstream.in_flight,
        restarts: standing.losses,
        unused: server_use.map_or(upstream.unused, |server_use| server_use.unused),
        ends: ends(target, upstream, server_use),
    }
}

/// When a server ends if nobody uses it.
fn ends(target: &Target, upstream: &Upstream, server_use: Option<&ServerUse>) -> Ends {
    let left = match (upstream.sharing, server_use) {
        (Sharing::Dedicated, Some(server_use)) => server_use.ends,
        // It is being stopped, or waits for a client that gave up the handshake.
        (Sharing::Dedicated, None) => return Ends::Soon,
        (_, _) if upstream.in_flight > 0 => None,
        (Sharing::Shared, _) if upstream.clients > 0 => None,
        (_, _) => {
            let after = target.limits.idle_stop;
            after.map(|after| after.saturating_sub(upstream.unused))
        }
    };
    left.map_or(Ends::Never, Ends::In)
}

impl Report {
    /// What programs read.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "ready": self.ready,
            "shutting_down": self.shutting_down,
            "problem": self.problem,
            "uptime_seconds": self.uptime.as_secs_f64(),
            "connections": self.connections,
            "sessions": self.sessions,
            "streams": self.streams,
            "requests_in_flight": self.in_flight,
            "requests_held": self.held,
            "servers": self.servers.iter().map(ServerReport::to_json).collect::<Vec<_>>(),
        })
    }
}

impl ServerReport {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "command": self.label,
            "path": self.path,
            "software": self.software,
            "state": self.health.name(),
            "sentence": self.sentence,
            "ready": self.ready,
            "generation": self.generation,
            "in_flight": self.in_flight,
            "restarts": {
                "total": self.restarts,
                "slot_seconds": LOSS_SLOT.as_secs(),
                "slots": self.restarts_lately,
            },
            "calls": {
                "total": calls_json(&self.all_calls),
                "slot_seconds": CALL_SLOT.as_secs(),
                "slots": self.calls.iter().map(|slot| slot.as_ref().map(calls_json)).collect::<Vec<_>>(),
            },
            "losses": self.losses.iter().map(LossReport::to_json).collect::<Vec<_>>(),
            "tools": self.tools.as_ref().map(|it| json!({ "names": it.names, "more": it.more })),
            "withheld": self.withheld.as_ref().map(Withheld::to_json),
            "instances": self.instances.iter().map(Instance::to_json).collect::<Vec<_>>(),
            "more_instances": self.more_instances,
        })
    }
}

impl LossReport {
    fn to_json(&self) -> Value {
        json!({
            "instance": self.instance,
            "seconds_ago": self.ago.as_secs_f64(),
            "sentence": self.sentence(),
            "cause": self.cause.to_json(),
            "times": self.times,
        })
    }

    pub(super) fn sentence(&self) -> String {
        format!("The server {}.", self.cause.predicate())
    }
}

impl Instance {
    fn to_json(&self) -> Value {
        json!({
            "number": self.number,
            "for": self.sharing.name(),
            "state": self.state,
            "generation": self.generation,
            "seconds": self.since.as_secs_f64(),
            "clients": self.clients,
            "client": self.client,
            "user": self.user,
            "in_flight": self.in_flight,
            "restarts": self.restarts,
            "unused_seconds": self.unused.as_secs_f64(),
            "ends_in_seconds": match self.ends {
                Ends::Never => None,
                Ends::Soon => Some(0.0),
                Ends::In(left) => Some(left.as_secs_f64()),
            },
        })
    }
}

fn calls_json(calls: &Calls) -> Value {
    let ms = |part| {
        calls
            .latency
            .quantile(part)
            .map(|it| it.as_secs_f64() * 1e3)
    };
    json!({ "ended": calls.ended, "errors": calls.errors, "p50_ms": ms(0.5), "p99_ms": ms(0.99) })
}

/// A time for people: "3 s", "20 min".
pub(super) fn brief(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_brief() {
        let briefs = [0, 119, 120, 7199, 7200, 172_800].map(|s| brief(Duration::from_secs(s)));
        assert_eq!(
            briefs,
            ["0 s", "119 s", "2 min", "119 min", "2 h", "2 days"]
        );
    }
}
