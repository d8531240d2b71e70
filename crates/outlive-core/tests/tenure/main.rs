//! Sessions that several processes may answer for: random schedules of everything that can happen to them, to the store
//! between them and to their clocks, and the rules one by one.
//!
//! `OUTLIVE_SCHEDULES` sets how many schedules are run (default 20,000). `OUTLIVE_SEED` runs the schedule of one seed
//! and prints what happened in it.

mod client;
mod edge;
mod forwards;
mod healing;
mod questions;
#[path = "../support/random.rs"]
mod random;
mod replica;
mod revivals;
mod rules;
mod schedule;
#[path = "../support/seeds.rs"]
mod seeds;
mod service;
mod store;
mod world;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use random::{Dice, number, shrink};
use schedule::{Step, draw};
use seeds::check_all;
use world::{Broken, Seen, World};

const STEPS: usize = 150;

/// The world of a seed, and what happens in it.
fn begin(seed: u64) -> (World, Vec<Step>) {
    let mut dice = Dice::new(seed);
    let world = World::new(&mut dice);
    let steps = draw(&mut dice, STEPS, world.is_forgetful);
    (world, steps)
}

fn run(world: &mut World, steps: &[Step]) -> Result<(), Broken> {
    for step in steps {
        world.step(*step)?;
    }
    world.end()
}

/// Runs the schedule of a seed; when an invariant breaks, shrinks it and tells the whole story.
fn check(seed: u64) -> Result<Seen, (u8, String)> {
    let (mut world, steps) = begin(seed);
    let Err(Broken { invariant, .. }) = run(&mut world, &steps) else {
        return Ok(world.seen);
    };
    let again = |steps: &[Step]| {
        let (mut world, _) = begin(seed);
        let result = run(&mut world, steps);
        (world, result)
    };
    let still = |steps: &[Step]| again(steps).1.is_err_and(|it| it.invariant == invariant);
    let small = shrink(steps, still);
    let (world, result) = again(&small);
    let broken = result.expect_err("it still fails");
    let story = format!(
        "invariant {}: {}\nseed {seed}: {small:?}\n{}",
        broken.invariant,
        broken.how,
        world.log.join("\n")
    );
    Err((broken.invariant, story))
}

/// Runs all schedules, once, whichever test comes first; tells what broke, by invariant, and what they came across.
fn outcome() -> &'static (BTreeMap<u8, String>, Seen) {
    static OUTCOME: OnceLock<(BTreeMap<u8, String>, Seen)> = OnceLock::new();
    OUTCOME.get_or_init(|| {
        let mut seen = Seen::default();
        let broken = check_all("replicas", 1, check, |it| seen.add(&it));
        (broken, seen)
    })
}

fn holds(invariant: u8) {
    if let Some(story) = outcome().0.get(&invariant) {
        panic!("{story}");
    }
}

#[test]
fn one_seed_tells_its_story() {
    let seed = number("OUTLIVE_SEED").unwrap_or(1);
    check(seed).unwrap_or_else(|(_, story)| panic!("{story}"));
}

#[test]
fn invariant_01_nobody_acts_for_a_session_after_a_later_owner_has() {
    holds(1);
}

#[test]
fn invariant_02_a_request_is_answered_at_most_once_and_once_where_a_stream_was_promised() {
    holds(2);
}

#[test]
fn invariant_03_nothing_that_is_not_safe_is_sent_twice_and_nothing_three_times() {
    holds(3);
}

#[test]
fn invariant_04_no_session_is_lost_while_the_store_lives() {
    holds(4);
}

#[test]
fn invariant_05_a_takeover_takes_no_longer_than_a_lease_and_the_answers_of_the_store() {
    holds(5);
}

#[test]
fn invariant_06_nothing_crosses_principals() {
    holds(6);
}

#[test]
fn invariant_07_nothing_is_read_that_a_successor_could_not_show_again() {
    holds(7);
}

/// Schedules that come across nothing show nothing.
#[test]
fn the_schedules_come_across_everything() {
    outcome().1.check();
}
