//! The order in which messages leave for a server over HTTP: random schedules of everything that can happen to
//! exchanges, and the rules one by one.
//!
//! `OUTLIVE_SCHEDULES` sets how many schedules are run (default 20,000). `OUTLIVE_SEED` runs the schedule of one seed
//! and prints what happened in it.

#[path = "../support/random.rs"]
mod random;
mod rules;
mod schedule;
#[path = "../support/seeds.rs"]
mod seeds;
mod world;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use random::{Dice, number, shrink};
use schedule::{Step, draw};
use seeds::check_all;
use world::{Broken, World};

const STEPS: usize = 60;

fn run(world: &mut World, steps: &[Step], mute: bool) -> Result<(), Broken> {
    for step in steps {
        world.step(*step)?;
    }
    match mute {
        true => world.end_mute(),
        false => world.end_well(),
    }
}

/// Runs the schedule of a seed; when an invariant breaks, shrinks it and tells the whole story.
fn check(seed: u64) -> Result<(), (u8, String)> {
    let mut dice = Dice::new(seed);
    let aside = dice.below(5) == 0;
    let mute = dice.below(3) == 0;
    let steps = draw(&mut dice, STEPS);
    let again = |steps: &[Step]| {
        let mut world = World::new(aside);
        let result = run(&mut world, steps, mute);
        (world, result)
    };
    let Err(_) = again(&steps).1 else {
        return Ok(());
    };
    let small = shrink(steps, |steps| again(steps).1.is_err());
    let (world, result) = again(&small);
    let broken = result.expect_err("it still fails");
    let story = format!(
        "invariant {}: {}\nseed {seed}, HTTP+SSE {aside}, mute {mute}: {small:?}\n{}",
        broken.invariant,
        broken.how,
        world.log.join("\n")
    );
    Err((broken.invariant, story))
}

/// Runs all schedules, once, whichever test comes first; tells what broke, by invariant.
fn broken() -> &'static BTreeMap<u8, String> {
    static BROKEN: OnceLock<BTreeMap<u8, String>> = OnceLock::new();
    BROKEN.get_or_init(|| check_all("the dispatch", 1, check, drop))
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
fn invariant_03_everything_leaves_in_the_end_whatever_the_server_does() {
    holds(3);
}

#[test]
fn invariant_07_what_is_not_taken_is_counted_to_the_byte() {
    holds(7);
}

#[test]
fn invariant_08_what_was_acknowledged_is_not_overtaken() {
    holds(8);
}

#[test]
fn invariant_03_no_question_is_lost_for_want_of_a_listener() {
    holds(17);
}

#[test]
fn invariant_02_a_cancellation_waits_for_its_own_request_and_for_nothing_else() {
    holds(2);
}

#[test]
fn invariant_04_what_has_not_left_is_known() {
    holds(4);
}

#[test]
fn fm_24_connections_are_given_up_after_a_silence_and_not_for_a_cancellation() {
    holds(24);
}

/// Seeds that failed under the rules before: notifications one after the other and everything else past them, the gate
/// open as soon as `notifications/initialized` was taken, cancellations behind the notifications, half of it uncounted.
#[test]
fn seeds_that_failed_before() {
    for seed in [
        0, 1, 3, 10, 1000, 1001, 1004, 50_000, 50_001, 50_003, 50_014,
    ] {
        check(seed).unwrap_or_else(|(_, story)| panic!("{story}"));
    }
}

/// Schedules that come across nothing show nothing.
#[test]
fn the_schedules_come_across_everything() {
    let mut seen = world::Seen::default();
    for seed in 0..500 {
        let mut dice = Dice::new(seed);
        let aside = dice.below(5) == 0;
        let mute = dice.below(3) == 0;
        let steps = draw(&mut dice, STEPS);
        let mut world = World::new(aside);
        run(&mut world, &steps, mute).unwrap_or_else(|broken| panic!("{broken:?}"));
        seen.add(&world.seen);
    }
    seen.check();
}
