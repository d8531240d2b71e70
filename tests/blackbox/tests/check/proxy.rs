//! Scenarios for proxies.

use std::ffi::OsString;

use outlive_check::proxy::{ProxyOptions, ProxyUnderTest};
use outlive_check::{Cast, Over, Plan, Scenario, Subject, Trial, Verdict, select};

use crate::play::{
    JOBS, PATIENCE, block_on, each_breaks_its_scenario, outlive, peer, story, table_is_complete,
};

/// Which defect breaks which scenario.
const DEFECTS: &[(&str, &str)] = &[
    ("answers-find-their-call", "answers-in-order"),
    ("big-messages-pass", "small-buffer"),
    ("bytes-pass", "rewrites-json"),
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
    ("order-is-kept", "reorders"),
    ("progress-passes", "drops-progress"),
    ("questions-pass", "drops-questions"),
    ("restart-after-death", "no-restart"),
    ("start-fails", "goes-silent-at-death"),
    ("stderr-flood", "leaves-stderr"),
    ("stdout-junk", "passes-junk"),
    ("stdout-junk-survived", "dies-on-junk"),
    ("unknown-members-pass", "drops-unknown-members"),
    ("unknown-methods-pass", "drops-unknown-methods"),
];

fn scenarios() -> Vec<&'static Scenario> {
    select(Subject::Proxy, Over::Stdio, &[])
}

async fn play(
    scenarios: Vec<&'static Scenario>,
    mut command: Vec<OsString>,
    url: Option<&str>,
) -> Result<Vec<Trial>, String> {
    command.extend(["--".into(), "{server}".into()]);
    let options = ProxyOptions {
        command,
        url: url.map(str::to_owned),
        puppet: vec![outlive().into(), "check-puppet".into()],
        patience: PATIENCE,
        start_patience: 10 * PATIENCE,
        era: None,
    };
    let plan = Plan {
        cast: Cast::Proxy(ProxyUnderTest::look(options).await?),
        scenarios,
        seed: 1,
        jobs: JOBS,
    };
    Ok(outlive_check::run(plan, |_| {}).await.trials)
}

fn passes_them_all(scenarios: Vec<&'static Scenario>, command: Vec<OsString>, url: Option<&str>) {
    let trials = block_on(play(scenarios, command, url)).expect("a proxy");
    let broken = trials.iter().filter(|trial| trial.verdict != Verdict::Held);
    let stories: String = broken.map(story).collect();
    assert!(stories.is_empty(), "{stories}");
}

#[test]
fn every_scenario_can_fail() {
    table_is_complete(scenarios().into_iter(), DEFECTS);
}

#[test]
fn a_good_proxy_passes_them_all() {
    passes_them_all(scenarios(), peer("proxy", None), None);
}

#[test]
fn outlive_run_passes_them_all() {
    passes_them_all(scenarios(), vec![outlive().into(), "run".into()], None);
}

#[test]
fn outlive_serve_passes_them_all_over_http() {
    let mut command: Vec<OsString> = vec![outlive().into()];
    command.extend(["serve", "--listen", "127.0.0.1:{port}"].map(OsString::from));
    let over_http = select(Subject::Proxy, Over::Http, &[]);
    passes_them_all(over_http, command, Some("http://127.0.0.1:{port}/mcp"));
}

#[test]
fn each_defect_breaks_its_scenario() {
    each_breaks_its_scenario(DEFECTS, &scenarios(), |one, defect| {
        play(one, peer("proxy", Some(defect)), None)
    });
}

#[test]
fn every_defect_breaks_something() {
    for defect in crate::play::known_defects("proxy") {
        let used = DEFECTS.iter().any(|(_, used)| *used == defect);
        assert!(used, "no scenario is said to notice {defect}");
    }
}
