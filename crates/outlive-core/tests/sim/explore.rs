//! Every interleaving of a small configuration: two requests, one cancellation, one death, one
//! reconnect. Nothing is drawn here: all orders of all that can happen are tried, and at every
//! state reached the session is also stopped, to see that it ends as it must.

use outlive_core::policy::Policy;

use crate::schedule::{Method, Step};
use crate::world::{Broken, World};

/// What may happen, each group as often as its number says.
const EVENTS: [(&[Step], u8); 7] = [
    (&[Step::Request(Method::CallSafe, 1)], 1),
    (&[Step::Request(Method::CallUnsafe, 3)], 1),
    (&[Step::Cancel(0), Step::Cancel(1)], 1),
    (
        &[
            Step::Exit(0, true),
            Step::Exit(1, false),
            Step::Eof(1),
            Step::WriteFails(1),
            Step::WrapperExits(1, 0),
            Step::TakeOver,
        ],
        1,
    ),
    (&[Step::Up], 1),
    (&[Step::Answer(0, true), Step::Answer(1, true)], 3),
    (&[Step::Tick, Step::OldExit, Step::ReadsOn], 2),
];

#[derive(Default)]
struct Tally {
    states: u64,
    endings: u64,
}

fn explore(
    world: &World,
    left: &mut [u8; EVENTS.len()],
    path: &mut Vec<Step>,
    tally: &mut Tally,
) -> Result<(), Broken> {
    tally.states += 1;
    world.clone().end_stop()?;
    let mut last = true;
    for (group, (steps, _)) in EVENTS.iter().enumerate() {
        if left[group] == 0 {
            continue;
        }
        for step in *steps {
            if !world.applies(*step) {
                continue;
            }
            last = false;
            let mut next = world.clone();
            path.push(*step);
            next.step(*step)?;
            left[group] -= 1;
            explore(&next, left, path, tally)?;
            left[group] += 1;
            path.pop();
        }
    }
    if last {
        tally.endings += 1;
        world.clone().end_well()?;
        world.clone().end_dead()?;
    }
    Ok(())
}

#[test]
fn every_interleaving_of_two_requests_a_cancel_a_death_and_a_reconnect() {
    let mut world = World::with(Policy::default(), false, 7);
    let prologue = [
        Step::Up,
        Step::Request(Method::Initialize, 0),
        Step::AnswerAll,
        Step::Initialized,
        Step::Request(Method::ToolsList, 1),
        Step::AnswerAll,
    ];
    world.start().expect("a start");
    for step in prologue {
        world.step(step).expect("a quiet beginning");
    }
    let mut left = EVENTS.map(|(_, times)| times);
    let (mut path, mut tally) = (Vec::new(), Tally::default());
    if let Err(broken) = explore(&world, &mut left, &mut path, &mut tally) {
        panic!("invariant {broken}\nafter {path:?}");
    }
    println!(
        "{} states visited, {} ways to the end",
        tally.states, tally.endings
    );
    assert!(
        tally.endings > 10_000,
        "the configuration is too small to mean anything"
    );
}
