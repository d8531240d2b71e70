//! What a gateway tells about itself: whether it is ready, and a page for people.
//!
//! Ready means that a call would be answered. There may be no server yet: it is started with the first
//! call that needs it; but if the last one could not even be started, that tells about the next, for a
//! while. There may be several: those of one kind stand in for each other, so a kind is
//! not ready when all of its servers are in trouble, that is, were lost and are not back.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use outlive_core::cause::CauseKind;
use outlive_core::cause::{Phase, Reason};
use outlive_core::gateway::{Loss, ServerId, Standing, TargetId, Unready};
use outlive_core::{Cause, State, Time};
use serde_json::{Value, json};

use super::target::Target;
use super::upstreams::Upstreams;
use super::{Sharing, Upstream, metrics};
use crate::http_server::{ListenerStats, Pages, Readiness, ServerUse};

impl Pages for Upstreams {
    fn ready(&self, full: bool) -> Readiness {
        let (now, upstreams) = (self.now(), self.all());
        let each = |upstream: &Upstream| {
            let mut data = json!({
                "upstream": upstream.number,
                "for": upstream.sharing.name(),
                "state": upstream.state.name(),
            });
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
        for ((id, target), readiness) in self.target_ids().zip(readiness) {
            if let Some((cause, since)) = self.lock().given_up(id, now) {
                let seconds = (now - since).as_secs_f64();
                data["last"] = json!({ "cause": shown(cause, full), "seconds": seconds });
            } else if upstreams.is_empty()
                && let Some(why) = target.obstacle()
            {
                let label = target.policy.label.clone();
                let cause = Cause::new(Reason::Unmade(why), Phase::Spawn, label);
                data["cause"] = shown(&cause, full);
            }
            if let Err(unready) = readiness.as_ref()
                && !ready
            {
                data["reason"] = json!(unready.name());
            }
        }
        if self.is_shutting_down() {
            data["shutting_down"] = json!(true);
        }
        Readiness { ready, data }
    }

    fn metrics(&self, stats: &ListenerStats) -> String {
        metrics::page(self, stats, self.is_ready())
    }

    fn status(&self, stats: &ListenerStats) -> String {
        let upstreams = self.all();
        let ready = match self.is_ready() {
            true => "<b class=ready>ready</b>",
            false => "<b class=failed>not ready</b>",
        };
        let labels = self.targets.iter();
        let labels = labels.map(|target| format!("<code>{}</code>", escaped(&target.policy.label)));
        let labels = labels.collect::<Vec<_>>().join(", ");
        let uptime = brief(self.now().since_start());
        let ListenerStats {
            connections,
            sessions,
            streams,
            server_uses,
            ..
        } = stats;
        let mut page = String::from(HEAD);
        let _ = write!(
            page,
            "<h1>outlive</h1>\n<p>{labels}<p>{ready}, up for {uptime}; {}, {}, {}; {} in flight, {} held.",
            counted(*connections as u64, "connection"),
            counted(*sessions as u64, "session"),
            counted(*streams as u64, "stream"),
            counted(self.meter.in_flight(), "request"),
            self.meter.held(),
        );
        self.write_upstreams(&mut page, &upstreams, server_uses);
        self.write_losses(&mut page);
        self.write_requests(&mut page);
        page
    }
}

impl Upstreams {
    /// Why each target is not ready, if it is not.
    fn readiness(&self, now: Time) -> Vec<Result<(), Unready>> {
        let startable: Vec<bool> = self
            .targets
            .iter()
            .map(|it| it.obstacle().is_none())
            .collect();
        let machine = self.lock();
        let targets = startable.into_iter().enumerate();
        let each = |(n, startable)| machine.readiness(TargetId(n), startable, now);
        targets.map(each).collect()
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

    fn write_upstreams(
        &self,
        page: &mut String,
        upstreams: &[Upstream],
        server_uses: &HashMap<u64, ServerUse>,
    ) {
        page.push_str("<h2>Servers</h2>\n");
        if upstreams.is_empty() {
            page.push_str("<p>None: one is started with the first call that needs it.");
            for why in self.targets.iter().filter_map(Target::obstacle) {
                let why = escaped(&why.to_string());
                let _ = write!(page, " <b class=failed>It cannot be started: {why}.</b>");
            }
            return;
        }
        page.push_str(
            "<table><tr><th>#<th>for<th>whose<th>last used<th>ends<th>state<th>since<th>clients<th>in flight<th>lost\
             <th>why\n",
        );
        let now = self.now();
        for upstream in upstreams.iter().take(MOST) {
            let standing = self.standing(upstream);
            let server_use = server_uses.get(&upstream.number);
            let since = standing.as_ref().map(|it| brief(now - it.since));
            let losses = standing.as_ref().map_or(0, |it| it.losses);
            let trouble = standing.and_then(|it| it.trouble);
            let why = trouble.map(|(cause, _)| escaped(&cause.predicate()));
            let state = upstream.state.name();
            let generation = match &upstream.state {
                State::Ready { generation } => format!(" (generation {generation})"),
                _ => String::new(),
            };
            let _ = writeln!(
                page,
                "<tr><td>{}<td>{}<td>{}<td>{} ago<td>{}<td class={state}>{state}{generation}\
                 <td>{}<td>{}<td>{}<td>{losses}<td>{}",
                upstream.number,
                upstream.sharing.name().replace('_', " "),
                whose(upstream, server_use),
                brief(server_use.map_or(upstream.unused, |server_use| server_use.unused)),
                self.ends(upstream, server_use),
                since.unwrap_or_default(),
                upstream.clients,
                upstream.in_flight,
                why.unwrap_or_default(),
            );
        }
        page.push_str("</table>");
        if let Some(more) = upstreams.len().checked_sub(MOST + 1) {
            let _ = write!(page, "<p>And {} more.", more + 1);
        }
    }

    /// When a server ends if nobody uses it.
    fn ends(&self, upstream: &Upstream, server_use: Option<&ServerUse>) -> String {
        let left = match (upstream.sharing, server_use) {
            (Sharing::Dedicated, Some(ServerUse { ends: None, .. })) => {
                return "not while in use".into();
            }
            (Sharing::Dedicated, Some(ServerUse { ends, .. })) => *ends,
            // It is being stopped, or waits for a client that gave up the handshake.
            (Sharing::Dedicated, None) => return "soon: its client has left".into(),
            (_, _) if upstream.in_flight > 0 => return "not while in use".into(),
            (Sharing::Shared, _) if upstream.clients > 0 => return "not while in use".into(),
            (_, _) => {
                let target = self.targets.iter().find(|it| it.name == upstream.target);
                let after = target.and_then(|target| target.limits.idle_stop);
                after.map(|after| after.saturating_sub(upstream.unused))
            }
        };
        left.map_or(String::new(), |left| format!("in {}", brief(left)))
    }

    fn write_losses(&self, page: &mut String) {
        page.push_str("<h2>Last losses</h2>\n");
        let now = self.now();
        let machine = self.lock();
        let losses = self.target_ids().flat_map(|(id, _)| machine.losses(id));
        let losses: Vec<Loss> = losses.cloned().collect();
        drop(machine);
        if losses.is_empty() {
            page.push_str("<p>None.");
            return;
        }
        page.push_str("<table><tr><th>ago<th>#<th>the server<th>what it last wrote to stderr\n");
        for loss in losses {
            let words = loss.cause.stderr_tail.last();
            let _ = writeln!(
                page,
                "<tr><td>{}<td>{}<td>{}<td>{}",
                brief(now - loss.at),
                loss.server.0,
                escaped(&loss.cause.predicate()),
                words.map_or(String::new(), |words| escaped(words)),
            );
        }
        page.push_str("</table>");
    }

    fn write_requests(&self, page: &mut String) {
        page.push_str("<h2>Requests</h2>\n<table><tr><th>method<th>ended<th>how often\n");
        for (method, result, count) in self.meter.requests() {
            let _ = writeln!(page, "<tr><td>{method}<td>{result}<td>{count}");
        }
        page.push_str("</table>");
        let _ = write!(page, "<p>Sent again: {}.", self.meter.retried());
        let lost = self.meter.lost();
        for (cause, count) in lost.filter(|(cause, _)| *cause != CauseKind::Closing) {
            let _ = write!(page, " Lost, {cause}: {count}.");
        }
        for (_, reason, count) in self.meter.dropped() {
            let _ = write!(page, " Dropped, {reason}: {count}.");
        }
        page.push('\n');
    }
}

/// Servers that are listed.
const MOST: usize = 100;

const HEAD: &str = "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=3>\
<meta name=viewport content='width=device-width'><title>outlive</title><style>\
body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color-scheme:light dark}\
table{border-collapse:collapse}td,th{text-align:left;padding:.2em 1em .2em 0;vertical-align:top}\
th{font-weight:500;opacity:.6}.ready{color:#2a8a3e}.down,.connecting{color:#b07a00}.failed{color:#c22}\
</style>\n";

/// Whose a server is.
fn whose(upstream: &Upstream, server_use: Option<&ServerUse>) -> String {
    let name = upstream.client.as_deref().map(escaped).unwrap_or_default();
    match server_use.and_then(|server_use| server_use.token) {
        Some(token) => format!("{name} (token {token})"),
        None => name,
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

/// Text that is nothing but text in a page.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

/// "1 session", "2 sessions".
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

fn brief(time: Duration) -> String {
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
    fn text_stays_text() {
        assert_eq!(
            escaped("<a href=\"x\" b='y'>&amp;"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;"
        );
    }

    #[test]
    fn times_are_brief() {
        let briefs = [0, 119, 120, 7199, 7200, 172_800].map(|s| brief(Duration::from_secs(s)));
        assert_eq!(
            briefs,
            ["0 s", "119 s", "2 min", "119 min", "2 h", "2 days"]
        );
    }
}
