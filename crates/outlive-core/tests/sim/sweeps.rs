//! Processes that end before what they have started does: put among the steps of a schedule.
//!
//! They are drawn by dice of their own and put in beside other steps, in every third schedule.

use crate::schedule::{Dice, Step};

/// Sets these dice apart from those of the schedule.
const SALT: u64 = 0x53e3_9e55_0a11_0001;

/// Puts such ends into the schedule of this seed, half of them where the server closes its output.
pub fn strew(seed: u64, schedule: &mut Vec<Step>) {
    let mut dice = Dice::new(seed ^ SALT);
    if dice.below(3) > 0 {
        return;
    }
    for _ in 0..1 + dice.below(3) {
        let ends = Step::Ends(dice.below(6) as u8, dice.below(2) == 0);
        let closed = schedule
            .iter()
            .position(|step| matches!(step, Step::Eof(_) | Step::WriteFails(_)));
        let at = match closed {
            Some(at) if dice.below(2) == 0 => at + 1,
            _ => dice.below(schedule.len() as u64 + 1) as usize,
        };
        schedule.insert(at, ends);
    }
}
