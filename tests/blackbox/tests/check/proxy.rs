//! Scenarios for proxies.

use std::ffi::OsString;

use outlive_check::proxy::{ProxyOptions, ProxyUnderTest};
use outlive_check::{Cast, Era, Over, Scenario, Subject, Trial, select};

use crate::play::{
    PATIENCE, each_breaks_its_scenario, every_defect_is_used, everything_holds, outlive, peer,
    table_is_complete, trials,
};

/// Which defect breaks which scenario.
const DEFECTS: &[(&str, &str)] = &[
    ("answers-find-their-call", "answers-in-order"),
    ("big-messages-pass", "small-buffer"),
    ("bytes-pass", "rewrites-json"),
    ("calls-race-the-restart", "goes-silent-at-death"),
    ("cancel-races-answer", "answers-cancellations"),
    ("cancellation-passes", "drops-cancellations"),
    ("crash-loop", "restarts-at-once"),
    ("death-in-call", "goes-silent-at-death"),
    ("death-when-idle", "goes-silent-at-death"),
    ("errors-pass", "flattens-errors"),
    ("hanging-call", "drops-when-busy"),
    ("host-leaves", "leaves-server"),
    ("host-leaves-in-call", "leaves-server"),
    ("host-vanishes", "leaves-server"),
    ("ids-come-back", "turns-texts-into-numbers"),
    ("modern-results-pass", "knows-results"),
    ("no-blind-replay", "replays-blindly"),
    ("order-is-kept", "reorders"),
    ("progress-passes", "drops-progress"),
    ("questions-pass", "drops-questions"),
    ("restart-after-death", "no-restart"),
    ("start-fails", "goes-silent-at-death"),
    ("stderr-flood", "leaves-stderr"),
    ("stdout-junk", "passes-junk"),
    ("stdout-junk-survived", "silent-after-junk"),
    ("subscriptions-survive", "restarts-at-once"),
    ("unknown-members-pass", "drops-unknown-members"),
    ("unknown-methods-pass", "drops-unknown-methods"),
];

fn scenarios() -> Vec<&'static Scenario> {
    select(Subject::Proxy, Over::Stdio, &[])
}

async fn play(
    scenarios: Vec<&'static Scenario>,
    command: Vec<OsString>,
    url: Option<&str>,
) -> Result<Vec<Trial>, String> {
    play_in(None, scenarios, command, url).await
}

async fn play_in(
    era: Option<Era>,
    scenarios: Vec<&'static Scenario>,
    mut command: Vec<OsString>,
    url: Option<&str>,
) -> Result<Vec<Trial>, String> {
    command.extend(["--".into(), "{server}".into()]);
    let options = ProxyOptions {
        command,
        url: url.map(str::to_owned),
        puppet: vec![outlive().into(), "check-puppet".into()],
        timeout: PATIENCE,
        start_patience: 10 * PATIENCE,
        era,
    };
    let proxy = ProxyUnderTest::look(options).await?;
    Ok(trials(Cast::Proxy(proxy), scenarios).await)
}

#[test]
fn every_scenario_can_fail() {
    table_is_complete(scenarios().into_iter(), DEFECTS);
}

#[test]
fn a_good_proxy_passes_them_all() {
    everything_holds(play(scenarios(), peer("proxy", None), None));
}

#[test]
fn outlive_run_passes_them_all() {
    let command = vec![outlive().into(), "run".into()];
    everything_holds(play(scenarios(), command, None));
}

/// A script that writes the server it is given into a file of servers, of which it is the only one.
fn router(directory: &str) -> Vec<OsString> {
    let script = format!(
        "file=$(mktemp -p '{directory}' XXXXXXXX.json); entry='\"command\":\"'\"$1\"'\",\"args\":['; shift; \
         for word; do entry=\"$entry$comma\\\"$word\\\"\"; comma=,; done; \
         printf '%s' '{{\"mcpServers\":{{\"it\":{{'\"$entry\"']}}}}}}' > \"$file\"; \
         exec '{}' run --servers \"$file\" --prefix never --no-catalogue",
        outlive().display()
    );
    ["sh", "-c", &script].map(OsString::from).to_vec()
}

/// In the older era: a modern host is answered by the router, and the scripted server hears nothing of its handshake.
#[test]
fn the_router_before_one_server_passes_them_all() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let command = router(directory.path().to_str().expect("a path in UTF-8"));
    let mut older = scenarios();
    older.retain(|scenario| scenario.name != "modern-results-pass");
    everything_holds(play_in(Some(Era::Legacy), older, command, None));
}

const URL: &str = "http://127.0.0.1:{port}/mcp";

fn over_http() -> Vec<&'static Scenario> {
    select(Subject::Proxy, Over::Http, &[])
}

fn outlive_serve() -> Vec<OsString> {
    let mut command: Vec<OsString> = vec![outlive().into()];
    command.extend(["serve", "--listen", "127.0.0.1:{port}"].map(OsString::from));
    command
}

#[test]
fn outlive_serve_passes_them_all_over_http() {
    everything_holds(play(over_http(), outlive_serve(), Some(URL)));
}

/// What `outlive serve` makes up for: it has ids of its own, and lets no second answer pass.
const MENDED: &[&str] = &["ids-come-back", "cancel-races-answer"];

/// A proxy over HTTP with a defect is one on pipes with the defect, behind a gateway that has none.
#[test]
fn each_defect_breaks_its_scenario_over_http() {
    let mut there = over_http();
    there.retain(|scenario| !MENDED.contains(&scenario.name));
    let mut table = DEFECTS.to_vec();
    table.retain(|(name, _)| there.iter().any(|scenario| scenario.name == *name));
    each_breaks_its_scenario(&table, &there, |one, defect| {
        let mut command = outlive_serve();
        command.push("--".into());
        command.extend(peer("proxy", Some(defect)));
        play(one, command, Some(URL))
    });
}

#[test]
fn each_defect_breaks_its_scenario() {
    each_breaks_its_scenario(DEFECTS, &scenarios(), |one, defect| {
        play(one, peer("proxy", Some(defect)), None)
    });
}

#[test]
fn every_defect_breaks_something() {
    every_defect_is_used("proxy", DEFECTS);
}
