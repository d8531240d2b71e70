//! Every interleaving of a small configuration: two requests, one of each era, a question and its
//! answer, a cancellation, an answer of each handler, an end. Nothing is drawn here: all orders of
//! all that can happen are tried, and every state reached is also ended in each way there is.

use crate::world::Broken;

use super::schedule::{Method, Step};
use super::world::World;

/// What may happen, each group as often as its number says.
const EVENTS: [(&[Step], u8); 8] = [
    (&[Step::Request(Method::Call, 1, false)], 1),
    (&[Step::Request(Method::Call, 2, true)], 1),
    (&[Step::Cancel(0), Step::Cancel(1)], 1),
    (&[Step::Answer(0, 5), Step::Answer(1, 5)], 2),
    (&[Step::Ask(0, 1), Step::Ask(1, 1)], 1),
    (
        &[
            Step::ClientAnswer(0, true),
            Step::Return(0, 3, true),
            Step::Return(0, 3, false),
        ],
        1,
    ),
    (&[Step::Close(false), Step::Close(true), Step::Shutdown], 1),
    (&[Step::Tick], 1),
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
    world.clone().end_of_input()?;
    world.clone().end_broken()?;
    world.clone().end_answered()?;
    world.clone().end_at_once()?;
    world.clone().end_shutdown()?;
    tally.endings += u64::from(last);
    Ok(())
}

#[test]
fn every_interleaving_of_two_requests_a_question_a_cancel_and_an_end() {
    let mut policy = World::policy();
    // The second request waits for the first: more can come between.
    policy.concurrency = 1;
    let mut world = World::with(policy);
    world
        .step(Step::Request(Method::Initialize, 0, false))
        .expect("a handshake");
    let mut left = EVENTS.map(|(_, times)| times);
    let (mut path, mut tally) = (Vec::new(), Tally::default());
    if let Err(broken) = explore(&world, &mut left, &mut path, &mut tally) {
        panic!("invariant {broken}\nafter {path:?}");
    }
    println!(
        "the server: {} states visited, {} ways to the end",
        tally.states, tally.endings
    );
    assert!(
        tally.endings > 1000,
        "the configuration is too small to mean anything"
    );
}
