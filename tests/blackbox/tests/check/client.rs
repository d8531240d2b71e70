//! Scenarios for clients.

use std::ffi::OsString;

use outlive_check::client::{ClientOptions, ClientUnderTest};
use outlive_check::{Cast, Over, Plan, Scenario, Subject, Trial, Verdict, select};

use crate::play::{
    JOBS, PATIENCE, block_on, each_breaks_its_scenario, outlive, peer, story, table_is_complete,
};

/// Which defect breaks which scenario.
const DEFECTS: &[(&str, &str)] = &[
    ("answered-twice", "dies-on-unknown-id"),
    ("big-answer", "small-buffer"),
    ("blank-lines-and-crlf", "dies-on-blank-lines"),
    ("cancel-is-told", "cancels-silently"),
    ("modern-cancel-is-told", "cancels-silently"),
    ("cancelled-call-ends", "waits-for-cancelled"),
    ("close-ends-input-first", "kills-at-once"),
    ("close-ends-input-first", "leaves-server"),
    ("close-ends-stubborn-server", "waits-for-ever"),
    ("close-in-call", "forgets-calls-at-close"),
    ("close-when-unread", "waits-for-ever"),
    ("crash-loop", "restarts-at-once"),
    ("death-in-call", "forgets-calls-at-death"),
    ("death-is-no-cancellation", "says-cancelled-at-death"),
    ("death-shows-in-state", "stays-connected"),
    ("death-when-idle", "hangs-after-death"),
    ("initialize-is-not-cancelled", "impatient"),
    ("invalid-utf8", "dies-on-bad-utf8"),
    ("late-answer", "dies-on-unknown-id"),
    ("list-changed", "caches-list"),
    ("ping-is-answered", "ignores-questions"),
    ("restart-after-death", "no-restart"),
    ("slow-start", "impatient"),
    ("split-and-glued", "needs-whole-writes"),
    ("start-fails", "hangs-on-failed-start"),
    ("start-failure-explained", "hides-failures"),
    ("stderr-flood", "leaves-stderr"),
    ("stdout-junk", "dies-on-junk"),
    ("unknown-id", "dies-on-unknown-id"),
    ("unknown-notification", "dies-on-unknown-notification"),
    ("unknown-progress", "dies-on-progress"),
    ("unknown-request", "ignores-questions"),
];

fn scenarios() -> Vec<&'static Scenario> {
    select(Subject::Client, Over::Both, &[])
}

async fn play(
    scenarios: Vec<&'static Scenario>,
    driver: Vec<OsString>,
) -> Result<Vec<Trial>, String> {
    let options = ClientOptions {
        driver,
        puppet: vec![outlive().into(), "check-puppet".into()],
        patience: PATIENCE,
        start_patience: 10 * PATIENCE,
        era: None,
    };
    let plan = Plan {
        cast: Cast::Client(ClientUnderTest::look(options).await?),
        scenarios,
        seed: 1,
        jobs: JOBS,
    };
    Ok(outlive_check::run(plan, |_| {}).await.trials)
}

#[test]
fn every_scenario_can_fail() {
    table_is_complete(scenarios().into_iter(), DEFECTS);
}

#[test]
fn a_good_client_passes_them_all() {
    passes_them_all(peer("client", None));
}

#[test]
fn our_own_client_passes_them_all() {
    let driver = outlive().with_file_name("drive-outlive");
    let missing = "build it first: cargo build -p outlive-check-drivers";
    assert!(driver.exists(), "{missing}");
    passes_them_all(vec![driver.into()]);
}

fn passes_them_all(driver: Vec<OsString>) {
    let trials = block_on(play(scenarios(), driver));
    let trials = trials.expect("a client");
    let broken = trials.iter().filter(|trial| trial.verdict != Verdict::Held);
    let stories: String = broken.map(story).collect();
    assert!(stories.is_empty(), "{stories}");
}

#[test]
fn each_defect_breaks_its_scenario() {
    each_breaks_its_scenario(DEFECTS, &scenarios(), |one, defect| {
        play(one, peer("client", Some(defect)))
    });
}

#[test]
fn every_defect_breaks_something() {
    for defect in crate::play::known_defects("client") {
        let used = DEFECTS.iter().any(|(_, used)| *used == defect);
        assert!(used, "no scenario is said to notice {defect}");
    }
}
