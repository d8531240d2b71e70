//! What happens to a replay buffer, step by step, drawn from a seed.

use crate::random::Dice;

/// Something that happens. The first number chooses among what is there at that moment.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// An exchange opens a channel and reads it.
    Open,
    /// The n-th newest reader asks how its channel begins, or reads what is there, up to so many events.
    Read(u8, u8),
    /// The n-th newest reader is told an id before there is an event.
    Prime(u8),
    /// The n-th newest reader goes.
    Detach(u8),
    /// A reader of the main channel comes.
    Listen,
    /// The client of the n-th newest channel resumes behind the last event it was told of, or one that many earlier.
    Resume(u8, u8),
    /// Somebody resumes where nobody was told to.
    Guess(u8, u8),
    /// A message of this size is sent on the n-th newest channel, or on the main one.
    Send(u8, u8),
    Done(u8),
    EndEarly(u8),
    Flush,
    HangUp(u8),
    /// The token of the n-th newest channel's client is withdrawn.
    Withdraw(u8),
    /// The token of all clients is.
    WithdrawAll,
    /// The route asks which channels are lost.
    TakeLost,
    Seal,
    /// So much time passes, in quarters of what a reader may hold its sender back for.
    Wait(u8),
}

pub fn draw(dice: &mut Dice, steps: usize) -> Vec<Step> {
    let mut schedule = Vec::new();
    // Some have many channels at a time, some few; some send large messages.
    let channels = 1 + dice.below(5);
    let sizes = [8, 20, 60][dice.below(3) as usize];
    while schedule.len() < steps {
        let n = dice.below(channels) as u8;
        let m = dice.below(4) as u8;
        schedule.push(match dice.below(100) {
            0..=8 => Step::Open,
            9..=30 => Step::Read(n, 1 + m * 2),
            31..=35 => Step::Prime(n),
            36..=42 => Step::Detach(n),
            43..=45 => Step::Listen,
            46..=53 => Step::Resume(n, m.saturating_sub(1)),
            54 => Step::Guess(n, m),
            55..=80 => Step::Send(n, 1 + dice.below(sizes) as u8),
            81..=85 => Step::Done(n),
            86 if dice.below(3) == 0 => Step::EndEarly(n),
            87..=92 => Step::Flush,
            93..=94 => Step::HangUp(n),
            95 => Step::Withdraw(n),
            96 if dice.below(4) == 0 => Step::WithdrawAll,
            97 => Step::TakeLost,
            98 if dice.below(6) == 0 => Step::Seal,
            99 => Step::Wait(1 + m * 2),
            _ => Step::Send(n, 1),
        });
    }
    schedule
}
