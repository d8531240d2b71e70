//! The replay buffer: random schedules of routes that send, readers that come, go and fall behind, and clients that
//! resume; and the rules one by one.
//!
//! `OUTLIVE_SCHEDULES` sets how many schedules are run (default 20,000), `OUTLIVE_FIRST_SEED` where they begin.
//! `OUTLIVE_SEED` runs the schedule of one seed and prints what happened in it.

#[path = "../support/random.rs"]
mod random;
mod recorded;
mod rules;
mod schedule;
#[path = "../support/seeds.rs"]
mod seeds;
mod world;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use outlive_core::replay_buffer::Delivery;

use random::{Dice, number, shrink};
use schedule::{Step, draw};
use seeds::check_all;
use world::{Broken, Seen, World};

const STEPS: usize = 80;

fn run(world: &mut World, steps: &[Step]) -> Result<(), Broken> {
    for step in steps {
        world.step(*step)?;
    }
    world.end()
}

/// How events reach their readers, whether slow ones hold the sender back, and what happens.
fn drawn(seed: u64) -> (Delivery, bool, Vec<Step>) {
    let mut dice = Dice::new(seed);
    let (delivery, paced) = match dice.below(9) {
        0 => (Delivery::OneStream, false),
        1 => (Delivery::OneStream, true),
        2 => (Delivery::Once, false),
        3..=5 => (Delivery::Resumable, false),
        _ => (Delivery::Resumable, true),
    };
    let steps = draw(&mut dice, STEPS);
    (delivery, paced, steps)
}

/// Runs the schedule of a seed; when an invariant breaks, shrinks it and tells the whole story.
fn check(seed: u64) -> Result<Seen, (u8, String)> {
    let (delivery, paced, steps) = drawn(seed);
    let again = |steps: &[Step]| {
        let mut world = World::new(delivery, paced);
        let result = run(&mut world, steps);
        (world, result)
    };
    let (world, result) = again(&steps);
    if result.is_ok() {
        return Ok(world.seen);
    }
    let small = shrink(steps, |steps| again(steps).1.is_err());
    let (world, result) = again(&small);
    let broken = result.expect_err("it still fails");
    let story = format!(
        "invariant {}: {}\nseed {seed}, {delivery:?}, paced: {paced}: {small:?}\n{}",
        broken.invariant,
        broken.how,
        world.log.join("\n")
    );
    Err((broken.invariant, story))
}

/// Runs all schedules, once, whichever test comes first; tells what broke, by invariant.
fn broken() -> &'static BTreeMap<u8, String> {
    static BROKEN: OnceLock<BTreeMap<u8, String>> = OnceLock::new();
    BROKEN.get_or_init(|| check_all("the replay buffer", 1, check, drop))
}

fn holds(invariant: u8) {
    if let Some(story) = broken().get(&invariant) {
        panic!("{story}");
    }
}

#[test]
fn one_seed_tells_its_story() {
    let seed = number("OUTLIVE_SEED").unwrap_or(1);
    let (delivery, paced, steps) = drawn(seed);
    let mut world = World::new(delivery, paced);
    let result = run(&mut world, &steps);
    println!(
        "seed {seed}, {delivery:?}, paced: {paced}\n{}",
        world.log.join("\n")
    );
    result.unwrap_or_else(|broken| panic!("invariant {}: {}", broken.invariant, broken.how));
}

#[test]
fn invariant_01_a_reader_reads_every_event_behind_the_last_it_read_once_and_in_order() {
    holds(1);
}

#[test]
fn invariant_02_only_the_newest_reader_reads_a_channel() {
    holds(2);
}

#[test]
fn invariant_03_whoever_waits_is_woken_when_there_is_something() {
    holds(3);
}

#[test]
fn invariant_04_nothing_is_forgotten_without_need_and_what_is_forgotten_is_said() {
    holds(4);
}

#[test]
fn invariant_05_a_reader_too_far_behind_is_cut_off_and_its_channel_lost_once() {
    holds(5);
}

#[test]
fn invariant_06_a_done_channel_ends_and_takes_nothing_more() {
    holds(6);
}

#[test]
fn invariant_07_everything_is_bounded_and_counted_to_the_byte() {
    holds(7);
}

#[test]
fn invariant_08_nothing_is_kept_for_a_channel_nobody_can_resume() {
    holds(8);
}

#[test]
fn invariant_09_a_sealed_buffer_takes_nothing_and_ends_every_reader() {
    holds(9);
}

#[test]
fn invariant_10_nothing_is_read_that_was_withdrawn() {
    holds(10);
}

#[test]
fn invariant_11_an_id_names_one_event() {
    holds(11);
}

#[test]
fn invariant_12_a_reader_that_its_sender_waits_for_loses_nothing() {
    holds(12);
}

#[test]
fn invariant_13_a_sender_is_held_back_while_much_is_unread_and_told_when_it_may_go_on() {
    holds(13);
}

#[test]
fn invariant_14_no_exchange_waits_for_ever_behind_a_reader_that_does_not_read() {
    holds(14);
}

/// Schedules that come across nothing show nothing.
#[test]
fn the_schedules_come_across_everything() {
    let mut all = Seen::new();
    for seed in 0..1000 {
        let seen = check(seed).unwrap_or_else(|(_, story)| panic!("{story}"));
        for (what, times) in seen {
            *all.entry(what).or_default() += times;
        }
    }
    for what in world::EVERYTHING {
        let times = all.get(what).copied().unwrap_or_default();
        assert!(times >= 10, "{what}: {times} times in {all:?}");
    }
}
