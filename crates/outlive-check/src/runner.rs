//! Plays scenarios, several at a time, and always comes to an end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc};

use crate::cast::Cast;
use crate::journal::Journal;
use crate::random::Random;
use crate::report::{Report, Trial};
use crate::scenario::Scenario;
use crate::stage::Stage;
use crate::verdict::Verdict;

/// The patience that the bounds of scenarios are made for.
const USUAL_PATIENCE: Duration = Duration::from_secs(10);

/// What is to be played.
#[derive(Debug)]
pub struct Plan {
    /// Who is under test.
    pub cast: Cast,
    /// What is played, in this order.
    pub scenarios: Vec<&'static Scenario>,
    /// Where random moments come from.
    pub seed: u64,
    /// How many are played at a time.
    pub jobs: usize,
}

/// What is to be told while scenarios are played.
#[derive(Debug)]
pub enum Moment<'a> {
    /// One begins.
    Begun(&'static Scenario),
    /// One has ended.
    Ended(&'a Trial),
}

/// Plays the plan and tells about it.
pub async fn run(plan: Plan, mut tell: impl FnMut(Moment<'_>)) -> Report {
    let begun = Instant::now();
    let places = Arc::new(Semaphore::new(plan.jobs.max(1)));
    let (news, mut inbox) = mpsc::unbounded_channel();
    for (nth, scenario) in plan.scenarios.iter().copied().enumerate() {
        let (cast, places, news) = (plan.cast.clone(), places.clone(), news.clone());
        let random = Random::new(plan.seed, scenario.name);
        tokio::spawn(async move {
            // Never closed, so there is always a place in the end.
            let _place = places.acquire_owned().await;
            let _ = news.send((nth, scenario, None));
            let trial = play(scenario, cast, random).await;
            let _ = news.send((nth, scenario, Some(trial)));
        });
    }
    drop(news);
    let mut trials: Vec<Option<Trial>> = plan.scenarios.iter().map(|_| None).collect();
    while let Some((nth, scenario, trial)) = inbox.recv().await {
        match trial {
            None => tell(Moment::Begun(scenario)),
            Some(trial) => {
                tell(Moment::Ended(&trial));
                trials[nth] = Some(trial);
            }
        }
    }
    Report::new(
        &plan.cast,
        plan.seed,
        begun.elapsed(),
        trials.into_iter().flatten().collect(),
    )
}

async fn play(scenario: &'static Scenario, cast: Cast, random: Random) -> Trial {
    let begun = Instant::now();
    if scenario.era.is_some_and(|era| !cast.speaks(era)) {
        let why = "this era of the protocol is not spoken".into();
        let verdict = Verdict::NotApplicable { why };
        return Trial::new(scenario, verdict, &Journal::default(), begun.elapsed());
    }
    // Who is more patient than usual waits longer for the whole, too. Starts are not counted: a few
    // of them, at the pace of the first.
    let timeout = cast.timeout().as_secs_f64() / USUAL_PATIENCE.as_secs_f64();
    let bound = scenario.bound.mul_f64(timeout.max(1.0)) + 4 * cast.started_in();
    let mut stage = Stage::new(cast.clone(), scenario.era, random);
    let journal = stage.journal.clone();
    let verdict = match tokio::time::timeout(bound, (scenario.run)(&mut stage)).await {
        Ok(held) => held.into(),
        Err(_) => {
            let waiting = journal.waiting();
            Verdict::Broken {
                seen: format!(
                    "It did not come to an end within {bound:.1?}, waiting for {waiting}."
                ),
            }
        }
    };
    Trial::new(scenario, verdict, &journal, begun.elapsed())
}
