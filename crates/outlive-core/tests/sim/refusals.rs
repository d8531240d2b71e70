//! Refusals among the steps of a schedule: words that lie, links refused late, requests refused by every session,
//! refusals that are one request's own.
//!
//! They are drawn by dice of their own and put in place of other steps, in every second schedule, so that a seed
//! goes on to mean what it meant before they were there.

use crate::schedule::{Dice, Step};

/// Sets these dice apart from those of the schedule.
const SALT: u64 = 0x0fa1_5e5e_5510_0001;
/// How many steps of a schedule are replaced.
const SOME: u64 = 5;
/// The steps of the handshake, which most schedules begin with, are left alone.
const BEGINNING: usize = 4;

/// The way of [`Step::Unanswered`] in which a proxy is too busy and names no time.
pub const PERHAPS_EXECUTED: u8 = 13;

/// Puts refusals among the steps of the schedule of this seed.
pub fn strew(seed: u64, schedule: &mut [Step]) {
    let mut dice = Dice::new(seed ^ SALT);
    if dice.below(2) == 0 || schedule.len() <= BEGINNING {
        return;
    }
    for _ in 0..1 + dice.below(SOME) {
        let at = BEGINNING + dice.below((schedule.len() - BEGINNING) as u64) as usize;
        schedule[at] = draw(&mut dice);
    }
    // Drawn last: the seeds above keep their meaning.
    if dice.below(3) == 0 {
        let at = BEGINNING + dice.below((schedule.len() - BEGINNING) as u64) as usize;
        schedule[at] = Step::Unanswered(dice.below(6) as u8, PERHAPS_EXECUTED);
    }
    // And so was this, later.
    for _ in 0..dice.below(4) {
        let at = BEGINNING + dice.below((schedule.len() - BEGINNING) as u64) as usize;
        schedule[at] = Step::Unexecuted(dice.below(6) as u8);
    }
}

fn draw(dice: &mut Dice) -> Step {
    let n = dice.below(6) as u8;
    match dice.below(12) {
        0..=1 => Step::LyingWords(n),
        2..=3 => Step::LinkRefused(n),
        4..=6 => Step::RefusedEverywhere(n),
        7..=8 => Step::Forgets(n),
        9 => Step::NotificationRefused,
        _ => Step::Unanswered(n, 8 + dice.below(5) as u8),
    }
}
