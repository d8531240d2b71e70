//! The servers behind a gateway: random schedules of everything that can happen to them and their clients, and the
//! rules one by one.
//!
//! `OUTLIVE_SCHEDULES` sets how many schedules are run (default 20,000). `OUTLIVE_SEED` runs the schedule of one seed
//! and prints what happened in it.

mod books;
mod checks;
mod departure;
#[path = "../support/random.rs"]
mod random;
mod rules;
mod schedule;
#[path = "../support/seeds.rs"]
mod seeds;
mod servers;
mod world;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use books::{Broken, Seen};
use random::{Dice, number, shrink};
use schedule::{Step, draw};
use seeds::check_all;
use world::World;

const STEPS: usize = 80;

/// The world of a seed, and what happens in it.
fn begin(seed: u64) -> (World, Vec<Step>) {
    let mut dice = Dice::new(seed);
    let world = World::new(&mut dice);
    (world, draw(&mut dice, STEPS))
}

fn run(world: &mut World, steps: &[Step]) -> Result<(), Broken> {
    for step in steps {
        world.step(*step)?;
    }
    world.end()
}

/// Runs the schedule of a seed; when an invariant breaks, shrinks it and tells the whole story.
fn check(seed: u64) -> Result<(), (u8, String)> {
    let (mut world, steps) = begin(seed);
    let Err(Broken { invariant, .. }) = run(&mut world, &steps) else {
        return Ok(());
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
        "invariant {}: {}\nseed {seed}, {:?}: {small:?}\n{}",
        broken.invariant,
        broken.how,
        world.limits,
        world.log.join("\n")
    );
    Err((broken.invariant, story))
}

/// Runs all schedules, once, whichever test comes first; tells what broke, by invariant.
fn broken() -> &'static BTreeMap<u8, String> {
    static BROKEN: OnceLock<BTreeMap<u8, String>> = OnceLock::new();
    BROKEN.get_or_init(|| check_all("the gateway", 1, check, drop))
}

fn holds(invariant: u8) {
    if let Some(story) = broken().get(&invariant) {
        panic!("{story}");
    }
}

#[test]
fn one_seed_tells_its_story() {
    let seed = number("OUTLIVE_SEED").unwrap_or(1);
    check(seed).unwrap_or_else(|(_, story)| panic!("{story}"));
}

#[test]
fn invariant_01_there_are_never_more_servers_than_allowed() {
    holds(1);
}

#[test]
fn invariant_02_nobody_is_handed_to_a_server_that_is_stopping() {
    holds(2);
}

#[test]
fn invariant_03_each_client_that_waits_is_admitted_or_refused_or_leaves_once_in_turn_and_in_time() {
    holds(3);
}

#[test]
fn invariant_04_an_idle_server_is_stopped_in_time_and_one_in_use_is_not() {
    holds(4);
}

#[test]
fn invariant_05_a_server_on_standby_is_for_the_same_words_of_the_same_principal_and_nobody_else() {
    holds(5);
}

#[test]
fn invariant_06_a_target_is_ready_only_if_a_request_could_be_answered_or_a_server_started() {
    holds(6);
}

#[test]
fn invariant_07_after_a_shutdown_nothing_is_started_and_everything_ends() {
    holds(7);
}

#[test]
fn invariant_08_nothing_is_kept_of_what_has_gone() {
    holds(8);
}

#[test]
fn invariant_09_a_server_is_started_for_whoever_needs_it_and_for_nobody_else() {
    holds(9);
}

#[test]
fn invariant_10_a_request_goes_where_it_waits_least() {
    holds(10);
}

#[test]
fn invariant_11_nothing_is_started_for_a_target_that_was_removed_and_whoever_asks_is_told() {
    holds(11);
}

#[test]
fn invariant_12_when_a_target_is_removed_the_servers_of_others_are_not_touched() {
    holds(12);
}

/// Schedules that come across nothing show nothing.
#[test]
fn the_schedules_come_across_everything() {
    let mut seen = Seen::default();
    for seed in 0..4000 {
        let (mut world, steps) = begin(seed);
        run(&mut world, &steps).unwrap_or_else(|broken| panic!("{broken:?}"));
        seen.add(&world.seen);
    }
    seen.check();
}
