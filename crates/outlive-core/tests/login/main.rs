//! The login of several processes at one server: random schedules of everything that can happen to them, and the rules
//! one by one.
//!
//! `OUTLIVE_SCHEDULES` sets how many schedules are run (default 20,000). `OUTLIVE_SEED` runs the schedule of one seed
//! and prints what happened in it.

#[path = "../support/random.rs"]
mod random;
mod rules;
#[path = "../support/seeds.rs"]
mod seeds;
mod world;

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

use random::{Dice, number, shrink};
use seeds::check_all;
use world::{Broken, Seen, Step, World, draw};

const STEPS: usize = 150;

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

/// Runs all schedules, once, whichever test comes first; tells what broke, by invariant.
fn broken() -> &'static (BTreeMap<u8, String>, Seen) {
    static BROKEN: OnceLock<(BTreeMap<u8, String>, Seen)> = OnceLock::new();
    BROKEN.get_or_init(|| {
        let seen = Mutex::new(Seen::default());
        let broken = check_all("the login", 1, check, |it| seen.lock().unwrap().add(&it));
        (broken, seen.into_inner().unwrap())
    })
}

fn holds(invariant: u8) {
    if let Some(story) = broken().0.get(&invariant) {
        panic!("{story}");
    }
}

#[test]
fn invariant_1_a_refresh_token_is_never_used_twice() {
    holds(1);
}

#[test]
fn invariant_2_there_is_one_exchange_at_a_time() {
    holds(2);
}

#[test]
fn invariant_3_nobody_waits_for_ever() {
    holds(3);
}

#[test]
fn invariant_4_nobody_is_asked_to_log_in_without_need() {
    holds(4);
}

#[test]
fn invariant_5_nothing_is_kept_without_the_lock() {
    holds(5);
}

#[test]
fn invariant_6_an_answer_is_a_token_that_was_not_refused() {
    holds(6);
}

#[test]
fn invariant_7_the_lock_is_given_back() {
    holds(7);
}

#[test]
fn invariant_8_everybody_is_answered_once() {
    holds(8);
}

#[test]
fn invariant_9_a_machine_that_waits_is_not_woken_without_end() {
    holds(9);
}

#[test]
fn invariant_10_a_process_that_leaves_begins_nothing_and_loses_nothing() {
    holds(10);
}

#[test]
fn schedules_come_across_everything() {
    if number("OUTLIVE_SCHEDULES").is_none_or(|n| n >= 2000) {
        broken().1.check();
    }
}

/// Runs the schedule of `OUTLIVE_SEED`, and prints what happened.
#[test]
fn one_seed() {
    let Some(seed) = number("OUTLIVE_SEED") else {
        return;
    };
    let (mut world, steps) = begin(seed);
    let result = run(&mut world, &steps);
    println!("{}", world.log.join("\n"));
    assert!(result.is_ok(), "{result:?}");
}
