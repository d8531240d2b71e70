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
    ("cancel-during-call", "dies-on-cancel"),
    ("cancel-races-answer", "answers-cancelled-twice"),
    ("cancel-twice", "dies-on-second-cancel"),
    ("cancel-unknown-id", "dies-on-unknown-cancel"),
    ("descriptors-stay", "leaks-descriptors"),
    ("endless-line", "keeps-endless-lines"),
    ("eof-when-idle", "ignores-eof"),
    ("idle-without-computing", "spins"),
    ("nothing-left-behind", "leaves-a-child"),
    ("stderr-unread", "logs-a-lot"),
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
    for trial in block_on(play(scenarios(), None)) {
        assert_eq!(trial.verdict, Verdict::Held, "{}", story(&trial));
    }
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
        while let Some(played) = plays.join_next().await {
            let (defect, trials) = played.expect("a trial");
            for trial in trials {
                assert!(
                    trial.verdict.is_broken(),
                    "{defect} was not noticed: {}",
                    story(&trial)
                );
            }
        }
    });
}
