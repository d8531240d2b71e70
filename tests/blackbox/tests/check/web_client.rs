//! Scenarios for clients over HTTP.

use std::ffi::OsString;

use outlive_check::client::ClientUnderTest;
use outlive_check::{Cast, Over, Scenario, Subject, Trial, select};

use crate::play::{
    driven, each_breaks_its_scenario, every_defect_is_used, everything_holds, our_client, peer,
    table_is_complete, trials,
};

/// Which defect breaks which scenario.
const DEFECTS: &[(&str, &str)] = &[
    ("answer-for-another", "takes-any-answer"),
    ("answer-is-none", "hangs-on-junk"),
    ("answered-either-way", "reads-no-streams"),
    ("cancel-closes-stream", "cancels-silently"),
    ("cancel-is-posted", "cancels-silently"),
    ("close-unanswered", "waits-for-farewell"),
    ("close-with-open-call", "forgets-calls-at-close"),
    ("connection-reset-ends-call", "hangs-on-reset"),
    ("cut-call-is-not-sent-again", "replays-calls"),
    ("cut-is-no-cancellation", "says-cancelled-at-death"),
    ("gateway-statuses", "dies-on-status"),
    ("get-refused", "needs-get"),
    ("get-refused-oddly", "needs-get"),
    ("get-stream-asks", "ignores-questions"),
    ("get-stream-ends", "hammers"),
    ("late-answer-on-stream", "dies-on-unknown-id"),
    ("mirrored-headers", "omits-name-header"),
    ("redeploy", "gives-up"),
    ("retry-after", "ignores-retry-after"),
    ("retry-is-respected", "ignores-retry"),
    ("session-ended-at-close", "leaves-session"),
    ("session-expired", "keeps-stale-session"),
    ("session-expired", "names-stale-session"),
    ("session-expired-for-all", "initializes-for-each"),
    ("session-expired-in-call", "forgets-old-streams"),
    ("session-expired-unnoticed", "fails-expired-call"),
    ("session-header", "omits-session-header"),
    ("silent-call", "one-at-a-time"),
    ("slow-answer-to-handshake", "impatient"),
    ("start-refused", "hides-failures"),
    ("status-is-told", "hides-failures"),
    ("stream-asks", "ignores-questions"),
    ("stream-cut-again", "forgets-cursor"),
    ("stream-cut-ends-call", "hangs-on-cut"),
    ("stream-cut-is-resumed", "never-resumes"),
    ("stream-odd-shapes", "one-line-events"),
    ("unauthorized", "hides-failures"),
    ("version-header", "omits-version-header"),
];

fn scenarios() -> Vec<&'static Scenario> {
    select(Subject::Client, Over::Http, &[])
}

async fn play(
    scenarios: Vec<&'static Scenario>,
    driver: Vec<OsString>,
) -> Result<Vec<Trial>, String> {
    let client = ClientUnderTest::look(driven(driver, Over::Http)).await?;
    Ok(trials(Cast::Client(client), scenarios).await)
}

#[test]
fn every_scenario_over_http_can_fail() {
    table_is_complete(scenarios().into_iter(), DEFECTS);
}

#[test]
fn a_good_client_over_http_passes_them_all() {
    everything_holds(play(scenarios(), peer("web-client", None)));
}

#[test]
fn our_own_client_over_http_passes_them_all() {
    everything_holds(play(scenarios(), our_client()));
}

#[test]
fn each_defect_over_http_breaks_its_scenario() {
    each_breaks_its_scenario(DEFECTS, &scenarios(), |one, defect| {
        play(one, peer("web-client", Some(defect)))
    });
}

#[test]
fn every_defect_over_http_breaks_something() {
    every_defect_is_used("web-client", DEFECTS);
}
