//! Plays scenarios against `check-peer`.

use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use outlive_check::client::ClientOptions;
use outlive_check::{Cast, Options, Over, Plan, Scenario, Trial, Verdict};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Only a hang misses it, and peers that hang are waited for.
pub const PATIENCE: Duration = Duration::from_secs(4);

/// How many scenarios run at a time.
const JOBS: usize = 4;

/// The command line of a peer.
pub fn peer(role: &str, defect: Option<&str>) -> Vec<OsString> {
    let mut words = vec![env!("CARGO_BIN_EXE_check-peer"), role];
    words.extend(defect.into_iter().flat_map(|defect| ["--defect", defect]));
    words.into_iter().map(OsString::from).collect()
}

/// The defects that the peer can have in a role.
fn known_defects(role: &str) -> Vec<String> {
    let peer = env!("CARGO_BIN_EXE_check-peer");
    let output = std::process::Command::new(peer)
        .args(["defects", role])
        .output();
    let list = String::from_utf8(output.expect("the peer").stdout).expect("names");
    list.lines().map(str::to_owned).collect()
}

/// The binary that `cargo build -p outlive-cli` leaves beside the test programs.
pub fn outlive() -> PathBuf {
    let outlive = Path::new(env!("CARGO_BIN_EXE_check-peer")).with_file_name("outlive");
    assert!(
        outlive.exists(),
        "build it first: cargo build -p outlive-cli"
    );
    outlive
}

/// How the peer is tested.
pub fn options() -> Options {
    Options {
        timeout: PATIENCE,
        slow: Some(("slow".into(), Some(json!({ "ms": 2000 })))),
        asking: Some(("ask".into(), Some(json!({})))),
        ..Options::default()
    }
}

/// How a client is tested, in the hands of this driver.
pub fn driven(driver: Vec<OsString>, over: Over) -> ClientOptions {
    ClientOptions {
        driver,
        over,
        puppet: vec![outlive().into(), "check-puppet".into()],
        timeout: PATIENCE,
        start_patience: 10 * PATIENCE,
        era: None,
    }
}

/// The driver of our own client.
pub fn our_client() -> Vec<OsString> {
    let driver = outlive().with_file_name("drive-outlive");
    let missing = "build it first: cargo build -p outlive-check-drivers";
    assert!(driver.exists(), "{missing}");
    vec![driver.into()]
}

/// Runs a future to its end.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// What a failed expectation shows.
fn story(trial: &Trial) -> String {
    let mut text = format!("{}: {:?}\n", trial.scenario.name, trial.verdict);
    for entry in &trial.evidence.transcript {
        text.push_str(&format!(
            "  {:>8.1} {} {:?} {}\n",
            entry.at_ms, entry.leg, entry.direction, entry.text
        ));
    }
    for line in &trial.evidence.stderr_tail {
        text.push_str(&format!("  stderr: {line}\n"));
    }
    text
}

/// Plays scenarios with whoever is under test.
pub async fn trials(cast: Cast, scenarios: Vec<&'static Scenario>) -> Vec<Trial> {
    let plan = Plan {
        cast,
        scenarios,
        seed: 1,
        jobs: JOBS,
    };
    outlive_check::run(plan, |_| {}).await.trials
}

/// Plays to the end, and everything has to hold.
pub fn everything_holds(play: impl Future<Output = Result<Vec<Trial>, String>>) {
    let trials = block_on(play).expect("a program that can be tested");
    let broken = trials.iter().filter(|trial| trial.verdict != Verdict::Held);
    let stories: String = broken.map(story).collect();
    assert!(stories.is_empty(), "{stories}");
}

/// Every defect that the peer can have in a role is in the table.
pub fn every_defect_is_used(role: &str, table: &[(&str, &str)]) {
    for defect in known_defects(role) {
        let used = table.iter().any(|(_, used)| *used == defect);
        assert!(used, "no scenario is said to notice {defect}");
    }
}

/// Plays each scenario of a table with a peer that has the defect which breaks it.
pub fn each_breaks_its_scenario<P>(
    table: &[(&'static str, &'static str)],
    scenarios: &[&'static Scenario],
    play: impl Fn(Vec<&'static Scenario>, &'static str) -> P,
) where
    P: Future<Output = Result<Vec<Trial>, String>> + Send + 'static,
{
    block_on(async {
        let places = Arc::new(Semaphore::new(JOBS));
        let mut plays = JoinSet::new();
        for &(name, defect) in table {
            let all = scenarios.iter().copied();
            let one = all.filter(|scenario| scenario.name == name).collect();
            let (places, played) = (places.clone(), play(one, defect));
            plays.spawn(async move {
                let _place = places.acquire_owned().await;
                (defect, played.await)
            });
        }
        let mut missed = String::new();
        while let Some(played) = plays.join_next().await {
            match played.expect("a trial") {
                (defect, Err(why)) => missed.push_str(&format!("{defect}: {why}\n")),
                (defect, Ok(trials)) => {
                    for trial in trials.iter().filter(|trial| !trial.verdict.is_broken()) {
                        missed.push_str(&format!("{defect} was not noticed: {}", story(trial)));
                    }
                }
            }
        }
        assert!(missed.is_empty(), "{missed}");
    });
}

/// Every scenario has a defect, and every line of the table a scenario.
pub fn table_is_complete<'a>(
    scenarios: impl Iterator<Item = &'a Scenario>,
    table: &[(&str, &str)],
) {
    let names: Vec<&str> = scenarios.map(|scenario| scenario.name).collect();
    for name in &names {
        let broken = table.iter().any(|(scenario, _)| scenario == name);
        assert!(
            broken,
            "no defect breaks {name}: a scenario that cannot fail is worth nothing"
        );
    }
    for (scenario, _) in table {
        assert!(names.contains(scenario), "there is no scenario {scenario}");
    }
}
