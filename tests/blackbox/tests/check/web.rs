//! Scenarios for servers over HTTP.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use outlive_check::{
    Cast, Over, Plan, Scenario, ServerUnderTest, Subject, Target, Trial, Verdict, select,
};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::play::{JOBS, block_on, known_defects, options, peer, story, table_is_complete};

/// Which defect breaks which scenario. Those that make sense over pipes too are broken there.
const DEFECTS: &[(&str, &str)] = &[
    ("answers-unread", "one-connection-at-a-time"),
    ("body-cut-off", "dies-on-cut-off-body"),
    ("body-malformed", "accepts-anything"),
    ("body-slow", "impatient-reader"),
    ("client-vanishes-mid-call", "dies-when-a-client-vanishes"),
    ("get-is-a-stream-or-405", "get-is-404"),
    ("header-contradicts-body", "ignores-contradictions"),
    ("headers-odd", "fails-on-odd-methods"),
    ("heads-unfinished", "one-connection-at-a-time"),
    ("notification-accepted", "answers-notifications"),
    ("origin-foreign", "trusts-every-origin"),
    ("session-deleted", "keeps-deleted-sessions"),
    ("session-missing", "missing-session-is-404"),
    ("session-stale-at-initialize", "refuses-stale-initialize"),
    ("session-unknown", "unknown-session-is-400"),
    ("sessions-side-by-side", "crosses-answers"),
    ("stream-cut-and-resumed", "forgets-cut-streams"),
    ("stream-unbuffered", "buffers-streams"),
    ("unknown-method-is-404", "unknown-method-is-200"),
    ("version-header-unknown", "ignores-version-header"),
];

/// A peer over HTTP, gone when it is dropped.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn with(defect: Option<&str>) -> Served {
        let words = peer("web", defect);
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the peer");
        let mut url = String::new();
        let stdout = child.stdout.take().expect("its output");
        BufReader::new(stdout)
            .read_line(&mut url)
            .expect("its address");
        Served {
            child,
            url: url.trim().to_owned(),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn scenarios() -> Vec<&'static Scenario> {
    select(Subject::Server, Over::Http, &[])
}

async fn play(scenarios: Vec<&'static Scenario>, defect: Option<&str>) -> Vec<Trial> {
    let served = Served::with(defect);
    let target = Target::Url(served.url.clone());
    let server = ServerUnderTest::look(target, options()).await;
    let cast = Cast::Server(server.expect("a server"));
    let plan = Plan {
        cast,
        scenarios,
        seed: 1,
        jobs: JOBS,
    };
    outlive_check::run(plan, |_| {}).await.trials
}

#[test]
fn every_scenario_over_http_can_fail() {
    let only_http = |scenario: &&Scenario| scenario.over == Over::Http;
    table_is_complete(scenarios().into_iter().filter(only_http), DEFECTS);
}

#[test]
fn every_defect_over_http_breaks_something() {
    for defect in known_defects("web") {
        let used = DEFECTS.iter().any(|(_, used)| *used == defect);
        assert!(used, "no scenario is said to notice {defect}");
    }
}

#[test]
fn a_good_server_over_http_passes_them_all() {
    let trials = block_on(play(scenarios(), None));
    let broken = trials.iter().filter(|trial| trial.verdict != Verdict::Held);
    let stories: String = broken.map(story).collect();
    assert!(stories.is_empty(), "{stories}");
}

#[test]
fn each_defect_over_http_breaks_its_scenario() {
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
