//! What happens, step by step, drawn from a seed.

use crate::random::Dice;

/// Something that happens. The numbers choose among what is there at that moment.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A client begins a session at a replica.
    Begin(u8),
    /// The n-th session is used at a replica: a call that is safe to repeat, or one that is not.
    Call(u8, u8, bool),
    /// Somebody else tries the n-th session at a replica.
    Trespass(u8, u8),
    /// The n-th client that has lost its stream comes back to a replica.
    Resume(u8, u8),
    /// The n-th open stream is read.
    Read(u8),
    /// The connection of the n-th open stream is lost.
    Disconnect(u8),
    /// The n-th exchange that waits is promised a stream.
    Promise(u8),
    /// The server of the n-th session in service answers its oldest request, or asks, or tells how far it is.
    Answer(u8),
    Notify(u8),
    /// The store gets the n-th question.
    Apply(u8),
    /// A replica gets the n-th answer.
    Deliver(u8),
    /// The n-th question or answer is lost, and whoever waits for it gives up.
    Lose(u8),
    /// Whoever waits for the n-th question gives up, and it arrives all the same.
    GiveUp(u8),
    /// A replica is killed, and started again.
    Kill(u8),
    /// A replica stands still, or goes on.
    Pause(u8),
    /// A replica cannot reach the store, or can again.
    Partition(u8),
    /// A copy of the store is made.
    Copy,
    /// The store becomes that copy.
    Failover,
    /// Time passes, in milliseconds.
    Wait(u32),
}

pub fn draw(dice: &mut Dice, steps: usize, forgetful: bool) -> Vec<Step> {
    let mut schedule = vec![Step::Begin(0)];
    while schedule.len() < steps {
        let (n, replica) = (dice.below(4) as u8, dice.below(3) as u8);
        let flag = dice.below(2) == 0;
        schedule.push(match dice.below(100) {
            0..=3 => Step::Begin(replica),
            4..=13 => Step::Call(n, replica, flag),
            14 => Step::Trespass(n, replica),
            15..=20 => Step::Resume(n, replica),
            21..=28 => Step::Read(n),
            29..=31 => Step::Disconnect(n),
            32..=37 => Step::Promise(n),
            38..=43 => Step::Answer(n),
            44..=46 => Step::Notify(n),
            47..=63 => Step::Apply(n),
            64..=80 => Step::Deliver(n),
            81..=82 => Step::Lose(n),
            83..=84 => Step::GiveUp(n),
            85..=86 => Step::Kill(replica),
            87..=88 => Step::Pause(replica),
            89 => Step::Partition(replica),
            90 if forgetful => Step::Copy,
            91 if forgetful => Step::Failover,
            90..=97 => Step::Wait(dice.below(3000) as u32),
            _ => Step::Wait(dice.below(20_000) as u32),
        });
    }
    schedule
}
