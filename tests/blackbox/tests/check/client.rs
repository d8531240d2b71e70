//! Scenarios for clients.

use std::ffi::OsString;

use outlive_check::client::ClientUnderTest;
use outlive_check::{Cast, Over, Scenario, Subject, Trial, select};

use crate::play::{
    driven, each_breaks_its_scenario, every_defect_is_used, everything_holds, our_client, peer,
    table_is_complete, trials,
};

/// Which defect breaks which scenario.
const DEFECTS: &[(&str, &str)] = &[
    ("answered-twice", "dies-on-unknown-id"),
    ("big-answer", "small-buffer"),
    ("blank-lines-and-crlf", "dies-on-blank-lines"),
    ("cancel-is-told", "cancels-silently"),
    ("modern-cancel-is-told", "cancels-silently"),
    ("cancel-leaves-messages-whole", "cuts-messages"),
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
    select(Subject::Client, Over::Stdio, &[])
}

async fn play(
    scenarios: Vec<&'static Scenario>,
    driver: Vec<OsString>,
) -> Result<Vec<Trial>, String> {
    let client = ClientUnderTest::look(driven(driver, Over::Stdio)).await?;
    Ok(trials(Cast::Client(client), scenarios).await)
}

#[test]
fn every_scenario_can_fail() {
    table_is_complete(scenarios().into_iter(), DEFECTS);
}

#[test]
fn a_good_client_passes_them_all() {
    everything_holds(play(scenarios(), peer("client", None)));
}

#[test]
fn our_own_client_passes_them_all() {
    everything_holds(play(scenarios(), our_client()));
}

#[test]
fn each_defect_breaks_its_scenario() {
    each_breaks_its_scenario(DEFECTS, &scenarios(), |one, defect| {
        play(one, peer("client", Some(defect)))
    });
}

#[test]
fn every_defect_breaks_something() {
    every_defect_is_used("client", DEFECTS);
}
