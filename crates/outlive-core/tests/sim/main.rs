//! The ten invariants of the design, over random schedules of everything that can happen; and those
//! of them that a server has to keep, from its side (`server`).
//!
//! `OUTLIVE_SCHEDULES` sets how many schedules are run (default 20,000; the project's test command
//! sets 200,000), of the server a quarter of that (default 50,000). `OUTLIVE_SEED` runs the schedule
//! of one seed and prints what happened in it.

mod explore;
mod found;
#[path = "../support/known.rs"]
mod known;
#[path = "../support/random.rs"]
mod random;
mod refusals;
mod schedule;
mod server;
mod sweeps;
mod takeovers;
mod world;

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::thread;

use random::number;
use schedule::{Dice, Step, add_fragile, add_late, draw, shrink};
use world::{Broken, World};

const STEPS: usize = 40;

/// The world, the schedule and the ending that a seed stands for.
fn prepare(seed: u64) -> (World, Vec<Step>, u64) {
    let mut dice = Dice::new(seed);
    let mut world = World::new(&mut dice);
    let mut schedule = draw(&mut dice, world.modern, STEPS);
    let ending = dice.below(3);
    let mut apart = Dice::new(seed ^ 0xf1a6_11e0);
    world.fragile = !world.modern && apart.below(4) == 0;
    // What dies of cancellations is at the end of a pipe; what forgets sessions is elsewhere.
    match world.fragile {
        true => add_fragile(&mut apart, &mut schedule),
        false => refusals::strew(seed, &mut schedule),
    }
    sweeps::strew(seed, &mut schedule);
    takeovers::strew(seed, &mut schedule);
    let mut apart = Dice::new(seed ^ 0x1a7e_0001);
    if apart.below(2) == 0 {
        add_late(&mut apart, &mut schedule);
    }
    // The last ending is two: the session is stopped, or its host leaves.
    let ending = match ending {
        2 => 2 + apart.below(2),
        ending => ending,
    };
    (world, schedule, ending)
}

fn run(world: &mut World, schedule: &[Step], ending: u64) -> Result<(), Broken> {
    world.start()?;
    for step in schedule {
        world.step(*step)?;
    }
    match ending {
        0 => world.end_dead()?,
        1 => world.end_well()?,
        3 => return world.end_left(),
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

/// Runs all schedules, once, whichever test comes first; tells what broke, by invariant.
fn broken() -> &'static BTreeMap<u8, String> {
    static BROKEN: OnceLock<BTreeMap<u8, String>> = OnceLock::new();
    BROKEN.get_or_init(|| {
        let schedules = number("OUTLIVE_SCHEDULES").unwrap_or(20_000);
        hunt("the session", schedules, check)
    })
}

/// Checks the schedules of many seeds on all processors; the stories of those that broke an
/// invariant, by its number.
fn hunt(
    whom: &str,
    schedules: u64,
    check: impl Fn(u64) -> Result<(), String> + Sync,
) -> BTreeMap<u8, String> {
    let from = number("OUTLIVE_FIRST_SEED").unwrap_or(0);
    let threads = thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let check = &check;
    let broken = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let mine = (from..from + schedules).filter(move |seed| seed % threads == worker);
                scope.spawn(move || mine.filter_map(|seed| check(seed).err()).take(3).collect())
            })
            .collect();
        let found =
            |worker: thread::ScopedJoinHandle<'_, Vec<String>>| worker.join().expect("no panic");
        workers.into_iter().flat_map(found).collect::<Vec<_>>()
    });
    println!(
        "{whom}: {schedules} schedules of {STEPS} steps and an ending, {} broken",
        broken.len()
    );
    broken
        .into_iter()
        .map(|story| (invariant(&story), story))
        .collect()
}

/// The number of the invariant a story is about; whatever has none breaks the first.
fn invariant(story: &str) -> u8 {
    let digits: String = story
        .trim_start_matches("invariant ")
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap_or(1)
}

fn holds(invariant: u8) {
    if let Some(story) = broken().get(&invariant) {
        panic!("{story}");
    }
}

/// `OUTLIVE_SEED=n`: tells all that happens in the schedule of that seed.
#[test]
fn one_seed_tells_its_story() {
    let seed = number("OUTLIVE_SEED").unwrap_or(1);
    let (mut world, schedule, ending) = prepare(seed);
    world.verbose = true;
    let result = run(&mut world, &schedule, ending);
    println!("{schedule:#?}\n{}\n{result:?}", world.log.join("\n"));
    assert!(!world.log.is_empty());
    check(seed).unwrap_or_else(|story| panic!("{story}"));
}

/// After any schedule: nobody is at the server's address any more, the host begins anew, and is told.
#[test]
fn invariant_03_nobody_waits_for_an_address_where_nobody_is() {
    let schedules = number("OUTLIVE_SCHEDULES").unwrap_or(20_000) / 4;
    let check = |seed: u64| {
        let (_, schedule, _) = prepare(seed);
        let again = |steps: &[Step]| {
            let (mut world, ..) = prepare(seed);
            world.verbose = true;
            let steps = steps
                .iter()
                .filter(|step| !matches!(step, Step::Stop | Step::HostCloses));
            let result = world.start().and_then(|()| {
                steps.copied().try_for_each(|step| world.step(step))?;
                world.end_absent()
            });
            (world, result)
        };
        let Err(_) = again(&schedule).1 else {
            return Ok(());
        };
        let small = shrink(schedule, |steps| again(steps).1.is_err());
        let (world, result) = again(&small);
        let broken = result.err().unwrap_or_default();
        Err(format!(
            "invariant {broken}\nseed {seed}: {small:?}\n{}",
            world.log.join("\n")
        ))
    };
    let broken = hunt("a session without a server", schedules, check);
    if let Some(story) = broken.into_values().next() {
        panic!("{story}");
    }
}

#[test]
fn invariant_01_every_request_gets_exactly_one_answer() {
    holds(1);
}

#[test]
fn invariant_02_nothing_follows_a_cancellation() {
    holds(2);
}

#[test]
fn invariant_03_nothing_hangs() {
    holds(3);
}

#[test]
fn invariant_04_only_what_is_safe_is_repeated() {
    holds(4);
}

#[test]
fn invariant_05_ready_is_never_said_of_a_dead_link() {
    holds(5);
}

#[test]
fn invariant_06_no_message_crosses_generations() {
    holds(6);
}

#[test]
fn invariant_07_everything_is_bounded() {
    holds(7);
}

#[test]
fn invariant_08_order_is_kept() {
    holds(8);
}

#[test]
fn invariant_09_the_next_server_knows_what_the_host_believes() {
    holds(9);
}

/// No invariant of the design, but a promise of ours: see `world::fragile`.
#[test]
fn a_server_that_dies_of_a_cancellation_costs_only_what_it_was_running() {
    holds(11);
}

#[test]
fn invariant_10_the_end_settles_everything() {
    holds(10);
}
