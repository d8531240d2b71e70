//! Numbers, as Prometheus reads them (text format 0.0.4).

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering;
use std::time::UNIX_EPOCH;

use outlive_core::cause::CauseKind;
use outlive_core::event::StateKind;
use outlive_core::meter::{BUCKETS, Meter};
use outlive_core::principal::Principal;

use super::upstreams::Upstreams;
use crate::http_server::{Durability, ListenerStats};

/// A page in the making.
#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (n, (label, text)) in labels.iter().enumerate() {
            let begin = if n == 0 { '{' } else { ',' };
            // All texts are words of ours: there is nothing to escape.
            let _ = write!(self.0, "{begin}{label}=\"{text}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }
}

/// All numbers of a gateway.
pub(super) fn page(upstreams: &Upstreams, stats: &ListenerStats, is_ready: bool) -> String {
    let mut page = Page::default();
    let name = "outlive_build_info";
    page.family(name, "gauge", "The version.");
    page.sample(name, &[("version", env!("CARGO_PKG_VERSION"))], 1);
    let begun = upstreams.begun.duration_since(UNIX_EPOCH);
    let help = "When the gateway was started, in seconds since 1970.";
    let begun = begun.unwrap_or_default().as_secs_f64();
    page.gauge("outlive_start_time_seconds", help, begun);
    let help = "Whether calls would be answered (as /ready has it).";
    page.gauge("outlive_ready", help, u8::from(is_ready));
    if upstreams.by_name() {
        let name = "outlive_target_ready";
        page.family(
            name,
            "gauge",
            "Whether calls to this server would be answered.",
        );
        let layout = upstreams.layout();
        let targets = layout.targets.iter();
        for ((_, target), readiness) in targets.zip(upstreams.readiness(upstreams.now())) {
            // The names of targets are such that there is nothing to escape.
            let labels = [("target", target.name.as_str())];
            page.sample(name, &labels, u8::from(readiness.is_ok()));
        }
    }
    if let Some(catalogue) = &upstreams.catalogue {
        let name = "outlive_withheld_definitions";
        let help = "Definitions of this server that differ from what was accepted (with --pin).";
        page.family(name, "gauge", help);
        for withheld in catalogue.withheld() {
            let labels = [("target", withheld.name.as_str())];
            page.sample(name, &labels, withheld.differences.len().max(1));
        }
    }
    let help = "Connections of clients.";
    page.gauge("outlive_connections", help, stats.connections);
    let help = "Sessions of clients that have shaken hands.";
    page.gauge("outlive_sessions", help, stats.sessions);
    let name = "outlive_principal_sessions";
    page.family(name, "gauge", "Sessions by who has opened them.");
    let is_user = |principal: &Principal| matches!(principal, Principal::User(_));
    let all = stats.sessions_of.iter();
    for (principal, count) in all.filter(|(principal, _)| !is_user(principal)) {
        page.sample(name, &[("principal", &principal.to_string())], count);
    }
    // As many as an identity provider has: they would be too many series.
    let all = stats.sessions_of.iter();
    let of_users = all.filter(|(principal, _)| is_user(principal));
    let of_users: usize = of_users.map(|(_, count)| count).sum();
    if of_users > 0 {
        page.sample(name, &[("principal", "users")], of_users);
    }
    let help = "Streams of clients that listen.";
    page.gauge("outlive_streams", help, stats.streams);
    let name = "outlive_streams_cut_total";
    let help = "Streams that were cut off because their clients read too slowly.";
    page.family(name, "counter", help);
    page.sample(name, &[], upstreams.meter.cut());
    if let Some(durability) = &stats.durability {
        replicas(&mut page, durability);
    }
    servers(&mut page, &upstreams.meter);
    requests(&mut page, &upstreams.meter);
    page.0
}

/// What is kept elsewhere, and what goes to other replicas.
fn replicas(page: &mut Page, durability: &Durability) {
    let help = "Whether this process may answer for sessions that are kept (its lease).";
    page.gauge("outlive_lease", help, u8::from(durability.may_act()));
    let name = "outlive_leases_lost_total";
    page.family(name, "counter", "Leases that have run out.");
    page.sample(name, &[], durability.stood_down.load(Ordering::Relaxed));
    let name = "outlive_takeovers_total";
    let help = "Sessions that were taken over from another process.";
    page.family(name, "counter", help);
    page.sample(name, &[], durability.taken_over.load(Ordering::Relaxed));
    let Some(replicas) = &durability.replicas else {
        return;
    };
    let stats = &replicas.stats;
    let name = "outlive_forwards_total";
    let help = "Requests that were sent to the owner of their session, by what came of it.";
    page.family(name, "counter", help);
    for (result, count) in [
        ("answered", &stats.answered),
        ("elsewhere", &stats.elsewhere),
        ("unreached", &stats.unreached),
        ("lost", &stats.lost),
        ("refused", &stats.refused),
    ] {
        page.sample(name, &[("result", result)], count.load(Ordering::Relaxed));
    }
    let name = "outlive_forwards_received_total";
    let help = "Requests that other replicas have sent here, and those that only claimed to be.";
    page.family(name, "counter", help);
    for (result, count) in [("admitted", &stats.received), ("refused", &stats.strangers)] {
        page.sample(name, &[("result", result)], count.load(Ordering::Relaxed));
    }
    let name = "outlive_forward_duration_seconds";
    let help = "Time until the answer to a forwarded request has begun.";
    page.family(name, "histogram", help);
    let latency = stats.latency.read();
    let bounds = BUCKETS.iter().map(|bound| bound.as_secs_f64().to_string());
    for (bound, count) in bounds.chain(["+Inf".into()]).zip(latency.up_to) {
        let labels = [("le", bound.as_str())];
        page.sample("outlive_forward_duration_seconds_bucket", &labels, count);
    }
    let total = latency.total.as_secs_f64();
    page.sample("outlive_forward_duration_seconds_sum", &[], total);
    let count = latency.up_to[BUCKETS.len()];
    page.sample("outlive_forward_duration_seconds_count", &[], count);
}

fn servers(page: &mut Page, meter: &Meter) {
    let name = "outlive_upstreams";
    page.family(name, "gauge", "Sessions with servers, by state.");
    for (state, count) in meter
        .states()
        .filter(|(state, _)| *state != StateKind::Closed)
    {
        page.sample(name, &[("state", state.as_str())], count);
    }
    let name = "outlive_connects_total";
    page.family(name, "counter", "Servers that have come into service.");
    page.sample(name, &[], meter.connected());
    let name = "outlive_restarts_total";
    let help = "Servers that were lost and replaced under their session, by cause.";
    page.family(name, "counter", help);
    for (cause, count) in meter
        .lost()
        .filter(|(cause, _)| *cause != CauseKind::Closing)
    {
        page.sample(name, &[("cause", cause.as_str())], count);
    }
}

fn requests(page: &mut Page, meter: &Meter) {
    let name = "outlive_requests_total";
    let help = "Requests that have ended, by method and how: ok, error (the server's), or an error kind of ours.";
    page.family(name, "counter", help);
    for (method, ending, count) in meter.requests() {
        let labels = [("method", method.as_str()), ("result", ending.as_str())];
        page.sample(name, &labels, count);
    }
    let help = "Requests that were sent to a server and not answered.";
    page.gauge("outlive_requests_in_flight", help, meter.in_flight());
    let help = "Requests that wait for a server.";
    page.gauge("outlive_requests_held", help, meter.held());
    let name = "outlive_requests_retried_total";
    page.family(
        name,
        "counter",
        "Requests that may have been executed and were sent again to another server, which was safe.",
    );
    page.sample(name, &[], meter.retried());
    let name = "outlive_requests_resent_total";
    page.family(
        name,
        "counter",
        "Requests that were sent again because they had not been executed, and how that was known.",
    );
    for (why, count) in meter.resent() {
        page.sample(name, &[("why", why.as_str())], count);
    }
    latency(page, meter);
    let name = "outlive_messages_dropped_total";
    page.family(
        name,
        "counter",
        "Messages that were not passed on, and why.",
    );
    for (direction, reason, count) in meter.dropped() {
        page.sample(
            name,
            &[
                ("direction", direction.as_str()),
                ("reason", reason.as_str()),
            ],
            count,
        );
    }
    let name = "outlive_message_bytes_total";
    page.family(name, "counter", "Bytes of messages that were passed on.");
    for (direction, count) in meter.bytes() {
        page.sample(name, &[("direction", direction.as_str())], count);
    }
}

fn latency(page: &mut Page, meter: &Meter) {
    let name = "outlive_request_duration_seconds";
    let help =
        "From taking a request to passing on the server's answer, waiting for a server included.";
    page.family(name, "histogram", help);
    for (method, latency) in meter.latency() {
        let bounds = BUCKETS.iter().map(|bound| bound.as_secs_f64().to_string());
        for (bound, count) in bounds.chain(["+Inf".into()]).zip(latency.up_to) {
            let labels = [("method", method.as_str()), ("le", bound.as_str())];
            page.sample("outlive_request_duration_seconds_bucket", &labels, count);
        }
        let labels = [("method", method.as_str())];
        let total = latency.total.as_secs_f64();
        page.sample("outlive_request_duration_seconds_sum", &labels, total);
        let count = latency.up_to[BUCKETS.len()];
        page.sample("outlive_request_duration_seconds_count", &labels, count);
    }
}
