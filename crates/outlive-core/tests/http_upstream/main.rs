//! A session over HTTP: random schedules of everything that can happen to the HTTP requests of its links, and the rules
//! one by one.
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
use world::{Broken, Seen, World};

const STEPS: usize = 60;

fn play(seed: u64, steps: Option<&[Step]>) -> (World, Vec<Step>, Result<(), Broken>) {
    let mut dice = Dice::new(seed);
    let mut world = World::new(&mut dice);
    let mute = dice.below(3) == 0;
    let drawn = draw(&mut dice, STEPS);
    let steps = steps.unwrap_or(&drawn);
    let run = |world: &mut World| {
        world.start()?;
        for step in steps {
            world.step(*step)?;
        }
        match mute {
            true => world.end_mute(),
            false => world.end_well(),
        }
    };
    let result = run(&mut world);
    (world, steps.to_vec(), result)
}

/// Runs the schedule of a seed; when an invariant breaks, shrinks it and tells the whole story.
fn check(seed: u64) -> Result<Seen, (u8, String)> {
    let (world, steps, result) = play(seed, None);
    let Err(first) = result else {
        return Ok(world.seen);
    };
    let same = |steps: &[Step]| {
        play(seed, Some(steps))
            .2
            .is_err_and(|it| it.invariant == first.invariant)
    };
    let small = shrink(steps, same);
    let (world, _, result) = play(seed, Some(&small));
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
        let mut all = Seen::default();
        let broken = check_all("links over HTTP", 1, check, |seen| all.add(&seen));
        println!("{all:?}");
        (broken, all)
    })
}

/// 123185: over HTTP+SSE a request was taken for accepted once it was written, so that a cancellation after a 401 did
/// not keep it from being sent again. 136932: a link that ended let go what had waited for the server's stream.
#[test]
fn schedules_that_once_broke_an_invariant() {
    for seed in [123_185, 136_932] {
        if let Err((_, story)) = check(seed) {
            panic!("{story}");
        }
    }
}

fn holds(invariant: u8) {
    if let Some(story) = broken().0.get(&invariant) {
        panic!("{story}");
    }
}

#[test]
fn one_seed_tells_its_story() {
    let seed = number("OUTLIVE_SEED").unwrap_or(1);
    let told = number("OUTLIVE_SEED").is_some();
    if told {
        println!("{}", play(seed, None).0.log.join("\n"));
    }
    check(seed).unwrap_or_else(|(_, story)| panic!("{story}"));
}

#[test]
fn invariant_01_each_call_is_answered_once() {
    holds(1);
}

#[test]
fn invariant_02_a_cancellation_leaves_once_and_only_after_its_request() {
    holds(2);
}

#[test]
fn invariant_03_nothing_hangs_whatever_the_server_does() {
    holds(3);
}

#[test]
fn invariant_04_no_call_is_executed_twice_and_nothing_is_sent_again_that_the_ledger_does_not_see() {
    holds(4);
}

#[test]
fn invariant_05_each_exchange_ends_in_one_report() {
    holds(5);
}

#[test]
fn invariant_06_nothing_is_sent_after_the_end_and_nothing_heard_of_what_was_given_up() {
    holds(6);
}

#[test]
fn invariant_07_what_is_under_way_is_counted() {
    holds(7);
}

#[test]
fn invariant_08_nothing_is_sent_into_a_break() {
    holds(8);
}

#[test]
fn invariant_09_one_asks_for_credentials_and_the_others_wait() {
    holds(9);
}

#[test]
fn invariant_10_the_end_is_bounded() {
    holds(10);
}

/// Schedules that come across nothing show nothing.
#[test]
fn the_schedules_come_across_everything() {
    let mut seen = Seen::default();
    for seed in 0..1_000 {
        seen.add(&check(seed).unwrap_or_else(|(_, story)| panic!("{story}")));
    }
    for (what, n) in seen.all() {
        assert!(*n >= 5, "{what}: {n}");
    }
}
