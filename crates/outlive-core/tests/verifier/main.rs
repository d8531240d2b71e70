//! The tokens of an identity provider: random schedules of everything that can happen to one, and the rules one by one.
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

fn run(steps: &[Step]) -> (World, Result<(), Broken>) {
    let mut world = World::new();
    let result = steps
        .iter()
        .try_for_each(|step| world.step(*step))
        .and_then(|()| world.end());
    (world, result)
}

/// Runs the schedule of a seed; when an invariant breaks, shrinks it and tells the whole story.
fn check(seed: u64) -> Result<Seen, (u8, String)> {
    let steps = draw(&mut Dice::new(seed), STEPS);
    let (world, result) = run(&steps);
    let Err(Broken { invariant, .. }) = result else {
        return Ok(world.seen);
    };
    let still = |steps: &[Step]| run(steps).1.is_err_and(|it| it.invariant == invariant);
    let small = shrink(steps, still);
    let (world, result) = run(&small);
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
        let broken = check_all("the verifier", 1, check, |it| {
            seen.lock().unwrap().extend(it);
        });
        (broken, seen.into_inner().unwrap())
    })
}

fn holds(invariant: u8) {
    if let Some(story) = broken().0.get(&invariant) {
        panic!("{story}");
    }
}

#[test]
fn invariant_1_keys_are_read_once_at_a_time_and_not_too_often() {
    holds(1);
}

#[test]
fn invariant_2_a_token_whose_key_is_known_is_checked_at_once() {
    holds(2);
}

#[test]
fn invariant_3_a_key_is_unknown_only_after_the_provider_has_said_so() {
    holds(3);
}

#[test]
fn invariant_4_everybody_is_answered_once_and_nobody_waits_for_ever() {
    holds(4);
}

#[test]
fn invariant_5_nobody_is_told_to_come_again_without_need() {
    holds(5);
}

#[test]
fn invariant_6_what_is_remembered_is_bounded_and_never_outlives_its_token() {
    holds(6);
}

#[test]
fn invariant_7_one_question_for_each_token_and_only_so_many_at_once() {
    holds(7);
}

#[test]
fn schedules_come_across_everything() {
    if number("OUTLIVE_SCHEDULES").is_none_or(|n| n >= 2000) {
        for what in world::EVERYTHING {
            assert!(broken().1.contains(what), "never seen: {what}");
        }
    }
}

/// Runs the schedule of `OUTLIVE_SEED`, and prints what happened.
#[test]
fn one_seed() {
    let Some(seed) = number("OUTLIVE_SEED") else {
        return;
    };
    let (world, result) = run(&draw(&mut Dice::new(seed), STEPS));
    println!("{}", world.log.join("\n"));
    assert!(result.is_ok(), "{result:?}");
}
