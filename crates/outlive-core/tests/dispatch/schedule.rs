//! What happens to the exchanges of a link, step by step, drawn from a seed.

use crate::random::Dice;

/// Something that happens. The numbers choose among what is there at that moment.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Initialize,
    Initialized,
    /// A request, modern or not.
    Call(bool),
    Notify,
    /// The host answers a request of the server.
    Respond,
    /// The host cancels the n-th newest of its requests, finished or not.
    Cancel(u8),
    /// The n-th of what was posted arrives at the server: posts overtake each other.
    Arrive(u8),
    /// The server acknowledges the n-th notification or response that has arrived, or answers the request.
    Answer(u8),
    /// The server answers the GET for its stream.
    AnswerGet,
    /// The stream breaks, and is opened again.
    Break,
    /// Time passes, in milliseconds.
    Wait(u16),
    /// The next timer fires.
    Tick,
    /// The link ends.
    End,
}

pub fn draw(dice: &mut Dice, steps: usize) -> Vec<Step> {
    let mut schedule = Vec::new();
    if dice.below(10) > 0 {
        schedule.extend([
            Step::Initialize,
            Step::Arrive(0),
            Step::Answer(0),
            Step::Initialized,
        ]);
        if dice.below(3) > 0 {
            schedule.extend([Step::Arrive(0), Step::Answer(0)]);
        }
        if dice.below(3) > 0 {
            schedule.push(Step::AnswerGet);
        }
    }
    while schedule.len() < steps {
        let n = dice.below(5) as u8;
        schedule.push(match dice.below(100) {
            0..=15 => Step::Call(dice.below(3) == 0),
            16..=25 => Step::Notify,
            26..=33 => Step::Respond,
            34..=43 => Step::Cancel(n),
            44..=61 => Step::Arrive(n),
            62..=81 => Step::Answer(n),
            82..=84 => Step::AnswerGet,
            85 => Step::Break,
            86..=91 => Step::Wait(dice.below(1500) as u16),
            92..=93 => Step::Tick,
            94 => Step::Wait(5000),
            95 => Step::Initialized,
            96 if dice.below(8) == 0 => Step::End,
            _ => Step::Call(false),
        });
    }
    schedule
}
