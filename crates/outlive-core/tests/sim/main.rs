//! The ten invariants of the design, over random schedules of everything that can happen.
//!
//! `OUTLIVE_SCHEDULES` sets how many schedules are run (default 20,000; the project's test command
//! sets 200,000), `OUTLIVE_SEED` runs the schedule of one seed and prints what happened in it.

mod explore;
mod schedule;
mod world;

use schedule::{Dice, Step, draw, shrink};
use world::{Broken, World};

const STEPS: usize = 40;

/// The world, the schedule and the ending that a seed stands for.
fn prepare(seed: u64) -> (World, Vec<Step>, u64) {
    let mut dice = Dice::new(seed);
    let world = World::new(&mut dice);
    let schedule = draw(&mut dice, world.modern, STEPS);
    (world, schedule, dice.below(3))
}

fn run(world: &mut World, schedule: &[Step], ending: u64) -> Result<(), Broken> {
    world.start()?;
    for step in schedule {
        world.step(*step)?;
    }
    match ending {
        0 => world.end_dead()?,
        1 => world.end_well()?,
        _ => {}
    }
    world.end_stop()
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
        "invariant {broken}\nseed {seed} (OUTLIVE_SEED={seed}), ending {ending}, {} steps: {small:?}\n{}",
        small.len(),
        world.log.join("\n")
    ))
}

#[test]
fn random_schedules_keep_the_ten_invariants() {
    if let Ok(seed) = std::env::var("OUTLIVE_SEED") {
        let seed = seed.parse().expect("OUTLIVE_SEED is a number");
        let (mut world, schedule, ending) = prepare(seed);
        world.verbose = true;
        let result = run(&mut world, &schedule, ending);
        println!("{schedule:#?}\n{}\n{result:?}", world.log.join("\n"));
        return check(seed).unwrap_or_else(|broken| panic!("{broken}"));
    }
    let schedules: u64 = match std::env::var("OUTLIVE_SCHEDULES") {
        Ok(n) => n.parse().expect("OUTLIVE_SCHEDULES is a number"),
        Err(_) => 20_000,
    };
    let from: u64 = std::env::var("OUTLIVE_FIRST_SEED").map_or(0, |s| s.parse().expect("a number"));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    (from..from + schedules)
                        .filter(|seed| seed % threads == worker)
                        .find_map(|seed| check(seed).err())
                })
            })
            .collect();
        for worker in workers {
            if let Some(broken) = worker.join().expect("no panic") {
                panic!("{broken}");
            }
        }
    });
    println!("{schedules} schedules of {STEPS} steps and an ending, no invariant broken");
}
