//! Random schedules of everything that can happen to a router, its client and its servers.
//!
//! `OUTLIVE_SCHEDULES` sets how many schedules are run (default 20,000). `OUTLIVE_SEED` runs the schedule of one seed
//! and prints what happened in it.

mod books;
mod checks;
mod client;
mod names;
mod outputs;
mod pins;
mod schedule;
mod servers;
mod world;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::random::{Dice, number, shrink};
use crate::seeds::check_all;
use books::{Broken, Seen};
use schedule::{Step, draw};
use world::World;

const STEPS: usize = 50;

/// The world of a seed, and what happens in it.
fn begin(seed: u64) -> (World, Vec<Step>) {
    let mut dice = Dice::new(seed);
    let world = World::new(&mut dice);
    (world, draw(&mut dice, STEPS))
}

fn run(world: &mut World, steps: &[Step]) -> Result<(), Broken> {
    if !world.shy {
        world.introduce()?;
    }
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
    let again = |steps: &[Step], log: bool| {
        let (mut world, _) = begin(seed);
        world.log = log.then(Vec::new);
        let result = run(&mut world, steps);
        (world, result)
    };
    let still = |steps: &[Step]| {
        again(steps, false)
            .1
            .is_err_and(|it| it.invariant == invariant)
    };
    let small = shrink(steps, still);
    let (world, result) = again(&small, true);
    let broken = result.expect_err("it still fails");
    let story = format!(
        "invariant {}: {}\nseed {seed}, {:?}: {small:?}\n{}",
        broken.invariant,
        broken.how,
        world.policy,
        world.log.unwrap_or_default().join("\n")
    );
    Err((broken.invariant, story))
}

/// Runs all schedules, once, whichever test comes first; tells what broke, by invariant.
fn broken() -> &'static BTreeMap<u8, String> {
    static BROKEN: OnceLock<BTreeMap<u8, String>> = OnceLock::new();
    BROKEN.get_or_init(|| check_all("the router", 5, check, drop))
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
fn invariant_01_each_request_is_answered_once_on_its_channel_unless_nobody_waits_for_it() {
    holds(1);
}

#[test]
fn invariant_02_nothing_comes_for_a_request_that_was_cancelled() {
    holds(2);
}

#[test]
fn invariant_03_a_channel_is_done_once_and_nothing_is_sent_on_it_afterwards() {
    holds(3);
}

#[test]
fn invariant_04_a_server_is_believed_only_about_what_it_was_sent() {
    holds(4);
}

#[test]
fn invariant_05_servers_hear_what_is_theirs_in_order_after_the_handshake_and_before_the_end() {
    holds(5);
}

#[test]
fn invariant_06_a_list_is_whole_and_waits_only_for_servers_that_may_soon_tell() {
    holds(6);
}

#[test]
fn invariant_07_a_list_that_has_changed_is_told_once_and_in_time() {
    holds(7);
}

#[test]
fn invariant_08_questions_are_answered_to_who_asked_and_only_asked_of_who_can() {
    holds(8);
}

#[test]
fn invariant_09_everything_is_bounded_and_nothing_is_left_of_a_client_that_is_gone() {
    holds(9);
}

#[test]
fn invariant_10_every_server_knows_the_level_and_what_is_followed() {
    holds(10);
}

#[test]
fn invariant_11_what_a_view_does_not_contain_is_not_reached() {
    holds(11);
}

#[test]
fn invariant_12_everything_settles_when_servers_answer() {
    holds(12);
}

#[test]
fn invariant_13_a_list_that_was_not_empty_is_not_believed_to_be_at_once() {
    holds(13);
}

#[test]
fn invariant_14_nothing_is_shown_or_called_that_was_not_accepted() {
    holds(14);
}

#[test]
fn invariant_15_what_was_not_removed_or_changed_is_not_touched() {
    holds(15);
}

#[test]
fn invariant_16_every_call_to_a_server_that_was_removed_is_told_so_with_its_name() {
    holds(16);
}

#[test]
fn invariant_17_what_a_server_offers_that_has_come_or_was_changed_is_asked_soon() {
    holds(17);
}

#[test]
fn invariant_18_a_leg_gives_way_only_if_nobody_uses_it() {
    holds(18);
}

/// Schedules that come across nothing show nothing.
#[test]
fn the_schedules_come_across_everything() {
    let mut seen = Seen::default();
    for seed in 0..4000 {
        let (mut world, steps) = begin(seed);
        run(&mut world, &steps).unwrap_or_else(|broken| panic!("{seed}: {broken:?}"));
        seen.add(&world.seen);
    }
    seen.check();
}
