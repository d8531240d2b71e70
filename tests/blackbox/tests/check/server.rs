//! Scenarios for servers.

use outlive_check::{Cast, Over, Scenario, ServerUnderTest, Subject, Target, Trial, select};

use crate::play::{
    each_breaks_its_scenario, every_defect_is_used, everything_holds, options, peer,
    table_is_complete, trials,
};

/// Which defect breaks which scenario.
const DEFECTS: &[(&str, &str)] = &[
    ("blank-lines", "dies-on-blank-line"),
    ("byte-order-mark", "chokes-on-byte-order-mark"),
    ("calls-side-by-side", "serves-one-at-a-time"),
    ("cancel-after-answer", "dies-on-unknown-cancel"),
    ("cancel-before-request", "remembers-early-cancels"),
    ("cancel-during-call", "dies-on-cancel"),
    ("cancel-initialize", "dies-on-cancelled-initialize"),
    ("cancel-malformed", "dies-on-malformed-cancel"),
    ("cancel-races-answer", "answers-cancelled-twice"),
    ("cancel-twice", "dies-on-second-cancel"),
    ("cancel-unknown-id", "dies-on-unknown-cancel"),
    ("cancelled-is-not-answered", "answers-cancelled"),
    ("cancelled-work-ends", "dies-when-cancelled-work-ends"),
    ("crlf", "chokes-on-cr"),
    ("deep-nesting", "dies-on-nesting"),
    ("descriptors-stay", "leaks-descriptors"),
    ("discover-before-handshake", "dies-on-discover"),
    ("endless-line", "keeps-endless-lines"),
    ("eof-after-requests", "forgets-at-eof"),
    ("eof-before-handshake", "ignores-eof"),
    ("eof-mid-call", "crashes-on-eof-mid-call"),
    ("eof-mid-message", "ignores-eof"),
    ("eof-when-idle", "ignores-eof"),
    ("flood", "loses-requests"),
    ("garbage-lines", "dies-on-garbage"),
    ("glued-messages", "one-message-per-read"),
    ("host-stops-reading", "dies-when-unread"),
    ("host-vanishes", "survives-its-host"),
    ("huge-message", "dies-of-long-lines"),
    ("id-in-use", "dies-on-id-in-use"),
    ("id-used-again", "never-uses-an-id-again"),
    ("idle-without-computing", "spins"),
    ("ids-come-back", "turns-ids-into-numbers"),
    ("initialize-malformed", "dies-on-bad-initialize"),
    ("initialize-twice", "dies-on-second-initialize"),
    ("initialized-missing", "silent-before-initialized"),
    ("invalid-utf8", "dies-on-invalid-utf8"),
    ("last-line-unfinished", "drops-last-line"),
    ("nothing-left-behind", "leaves-a-child"),
    ("one-byte-at-a-time", "one-message-per-read"),
    ("only-messages-on-stdout", "prints-a-banner"),
    ("output-closed", "ignores-broken-pipe"),
    ("ping-during-call", "serves-one-at-a-time"),
    ("progress-ends-with-answer", "progress-after-answer"),
    ("question-answered-twice", "dies-on-second-answer"),
    ("question-at-the-end", "ignores-eof"),
    ("question-refused", "hangs-on-refusal"),
    ("question-unanswered", "waits-for-answers-alone"),
    ("request-before-handshake", "silent-before-handshake"),
    ("sigterm-under-load", "ignores-sigterm"),
    ("sigterm-when-idle", "ignores-sigterm"),
    ("stderr-unread", "logs-a-lot"),
    ("stray-messages", "dies-on-stray"),
    ("unknown-method", "answers-everything"),
    ("unknown-method", "ignores-unknown-methods"),
    ("unknown-tool", "ignores-unknown-tools"),
    ("unknown-version", "echoes-version"),
    ("unsupported-version", "accepts-any-version"),
    ("wrong-arguments", "dies-on-wrong-arguments"),
    ("wrong-shapes", "dies-on-wrong-shape"),
];

fn scenarios() -> Vec<&'static Scenario> {
    select(Subject::Server, Over::Stdio, &[])
}

async fn play(
    scenarios: Vec<&'static Scenario>,
    defect: Option<&'static str>,
) -> Result<Vec<Trial>, String> {
    let target = Target::Command(peer("server", defect));
    let server = ServerUnderTest::look(target, options()).await?;
    Ok(trials(Cast::Server(server), scenarios).await)
}

#[test]
fn every_scenario_can_fail() {
    table_is_complete(scenarios().into_iter(), DEFECTS);
}

#[test]
fn a_good_server_passes_them_all() {
    everything_holds(play(scenarios(), None));
}

#[test]
fn each_defect_breaks_its_scenario() {
    each_breaks_its_scenario(DEFECTS, &scenarios(), |one, defect| play(one, Some(defect)));
}

#[test]
fn every_defect_breaks_something() {
    every_defect_is_used("server", DEFECTS);
}
