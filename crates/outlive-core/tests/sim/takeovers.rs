//! The process that owns the session ends, and another one resumes it: put among the steps of a schedule.
//!
//! They are drawn by dice of their own and put in beside other steps, in every third schedule.

use crate::schedule::{Dice, Step};

/// Sets these dice apart from those of the schedule.
const SALT: u64 = 0x7a4e_0f32_5e55_0001;

/// Puts takeovers into the schedule of this seed; now and then one follows another at once.
pub fn strew(seed: u64, schedule: &mut Vec<Step>) {
    let mut dice = Dice::new(seed ^ SALT);
    if dice.below(3) > 0 {
        return;
    }
    for _ in 0..1 + dice.below(3) {
        let at = dice.below(schedule.len() as u64 + 1) as usize;
        let times = 1 + usize::from(dice.below(8) == 0);
        schedule.splice(at..at, std::iter::repeat_n(Step::TakeOver, times));
    }
}
