//! Invariants 1, 2, 3, 7 and 10 from the server's side, over random schedules of what clients,
//! handlers and drivers do.

mod books;
mod endings;
mod explore;
mod schedule;
mod steps;
mod world;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::schedule::{Dice, shrink};
use crate::world::Broken;
use crate::{STEPS, hunt, number};

use schedule::{Step, draw};
use world::World;

/// The world, the schedule and the ending that a seed stands for.
fn prepare(seed: u64) -> (World, Vec<Step>, u64) {
    let mut dice = Dice::new(seed);
    let world = World::new(&mut dice);
    let schedule = draw(&mut dice, STEPS);
    (world, schedule, dice.below(5))
}

fn run(world: &mut World, schedule: &[Step], ending: u64) -> Result<(), Broken> {
    for step in schedule {
        world.step(*step)?;
    }
    match ending {
        0 => world.end_of_input(),
        1 => world.end_broken(),
        2 => world.end_answered(),
        3 => world.end_at_once(),
        _ => world.end_shutdown(),
    }
}

/// Runs the schedule of a seed; when an invariant breaks, shrinks it and tells the whole story.
fn check(seed: u64) -> Result<(), String> {
    let (mut world, schedule, ending) = prepare(seed);
    let Err(first) = run(&mut world, &schedule, ending) else {
        return Ok(());
    };
    let again = |steps: &[Step]| {
        let (mut world, ..) = prepare(seed);
        run(&mut world, steps, ending)
    };
    let small = shrink(schedule, |steps| again(steps).is_err());
    let (mut world, ..) = prepare(seed);
    world.verbose = true;
    let broken = run(&mut world, &small, ending).err().unwrap_or(first);
    Err(format!(
        "invariant {broken}\nserver, seed {seed} (OUTLIVE_SEED={seed}), ending {ending}, {} steps: {small:?}\n{}",
        small.len(),
        world.log.join("\n")
    ))
}

fn holds(invariant: u8) {
    static BROKEN: OnceLock<BTreeMap<u8, String>> = OnceLock::new();
    let broken = BROKEN.get_or_init(|| {
        let schedules = number("OUTLIVE_SCHEDULES").map_or(50_000, |n| n / 4);
        hunt("the server", schedules, check)
    });
    if let Some(story) = broken.get(&invariant) {
        panic!("{story}");
    }
}

/// `OUTLIVE_SEED=n`: tells all that happens in the schedule of that seed.
#[test]
fn one_seed_of_the_server_tells_its_story() {
    let seed = number("OUTLIVE_SEED").unwrap_or(1);
    let (mut world, schedule, ending) = prepare(seed);
    world.verbose = true;
    let result = run(&mut world, &schedule, ending);
    println!("{schedule:#?}\n{}\n{result:?}", world.log.join("\n"));
    assert!(!world.log.is_empty());
    check(seed).unwrap_or_else(|story| panic!("{story}"));
}

/// A simulation in which little happens proves little: over some schedules, all of it does.
#[test]
fn the_schedules_of_the_server_reach_everything() {
    let mut seen = BTreeMap::new();
    for seed in 0..2000 {
        let (mut world, schedule, ending) = prepare(seed);
        run(&mut world, &schedule, ending).unwrap_or_else(|story| panic!("{story}"));
        for (what, times) in world.seen {
            *seen.entry(what).or_insert(0u64) += times;
        }
    }
    for what in world::SIGHTS {
        let times = seen.get(what).copied().unwrap_or_default();
        assert!(times > 20, "{what}: {times} of 2000 schedules; {seen:#?}");
    }
}

#[test]
fn server_invariant_01_every_request_gets_exactly_one_answer() {
    holds(1);
}

#[test]
fn server_invariant_02_nothing_follows_a_cancellation() {
    holds(2);
}

#[test]
fn server_invariant_03_nothing_hangs() {
    holds(3);
}

#[test]
fn server_invariant_07_everything_is_bounded() {
    holds(7);
}

#[test]
fn server_invariant_10_the_end_settles_everything() {
    holds(10);
}
