//! Scenarios for servers.

use std::sync::Arc;

use outlive_check::{
    Cast, Over, Plan, Scenario, ServerUnderTest, Subject, Target, Trial, Verdict, select,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::play::{JOBS, block_on, options, peer, story, table_is_complete};

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

async fn play(scenarios: Vec<&'static Scenario>, defect: Option<&str>) -> Vec<Trial> {
    let target = Target::Command(peer("server", defect));
    let server = ServerUnderTest::look(target, options())
        .await
        .expect("a server");
    let plan = Plan {
        cast: Cast::Server(server),
        scenarios,
        seed: 1,
        jobs: JOBS,
    };
    outlive_check::run(plan, |_| {}).await.trials
}

#[test]
fn every_scenario_can_fail() {
    table_is_complete(scenarios().into_iter(), DEFECTS);
}

#[test]
fn a_good_server_passes_them_all() {
    let trials = block_on(play(scenarios(), None));
    let broken = trials.iter().filter(|trial| trial.verdict != Verdict::Held);
    let stories: String = broken.map(story).collect();
    assert!(stories.is_empty(), "{stories}");
}

#[test]
fn each_defect_breaks_its_scenario() {
    block_on(async {
        let places = Arc::new(Semaphore::new(JOBS));
        let mut plays = JoinSet::new();
        for (name, defect) in DEFECTS {
            let places = places.clone();
            plays.spawn(async move {
                let _place = places.acquire_owned().await;
                let all = scenarios().into_iter();
                let one = all.filter(|scenario| scenario.name == *name).collect();
                (defect, play(one, Some(defect)).await)
            });
        }
        let mut missed = String::new();
        while let Some(played) = plays.join_next().await {
            let (defect, trials) = played.expect("a trial");
            for trial in trials.iter().filter(|trial| !trial.verdict.is_broken()) {
                missed.push_str(&format!("{defect} was not noticed: {}", story(trial)));
            }
        }
        assert!(missed.is_empty(), "{missed}");
    });
}

#[test]
fn every_defect_breaks_something() {
    for defect in crate::play::known_defects("server") {
        let used = DEFECTS.iter().any(|(_, used)| *used == defect);
        assert!(used, "no scenario is said to notice {defect}");
    }
}
