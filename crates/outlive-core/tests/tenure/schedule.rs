//! What happens, step by step, drawn from a seed.

use crate::random::Dice;

/// How a request may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call of a tool that changes something.
    Unsafe,
    /// A call of a tool that its server says is read-only.
    Safe,
    /// A request that changes nothing by its method.
    Read,
}

/// Something that happens. The numbers choose among what is there at that moment.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A client begins a session at a replica.
    Begin(u8),
    /// The n-th session is used at a replica.
    Call(u8, u8, Kind),
    /// Somebody else tries the n-th session at a replica: a call, or to read what others were sent.
    Trespass(u8, u8, bool),
    /// The n-th client that has lost its stream comes back to a replica.
    Resume(u8, u8),
    /// The n-th open stream is read.
    Read(u8),
    /// The connection of the n-th client is lost.
    Disconnect(u8),
    /// The n-th exchange that waits is promised a stream.
    Promise(u8),
    /// The server of the n-th session in service answers its oldest request, or tells how far it is.
    Answer(u8),
    Notify(u8),
    /// The store gets the n-th question.
    Apply(u8),
    /// A replica gets the n-th answer of the store.
    Deliver(u8),
    /// The n-th question or answer is lost, and whoever waits for it gives up.
    Lose(u8),
    /// Whoever waits for the n-th question gives up, and it arrives all the same.
    GiveUp(u8),
    /// The n-th request that was forwarded arrives.
    Arrive(u8),
    /// The replica that has forwarded it gets the n-th response.
    Respond(u8),
    /// The n-th connection between replicas breaks. What was sent on it may arrive all the same, unless whoever sent it
    /// knows that it has not.
    Break(u8, bool),
    /// Somebody sends once more what has arrived as the n-th before.
    Replay(u8),
    /// Whatever is on its way arrives, where it can: for a moment everything is quick.
    Flow,
    /// A replica is killed, and started again.
    Kill(u8),
    /// A replica is told to end, or, if it was, not to wait any more for what is in flight.
    Leave(u8),
    /// A replica stands still, or goes on.
    Pause(u8),
    /// A replica cannot reach the store, or can again.
    Partition(u8),
    /// A replica cannot reach the others, or can again.
    Isolate(u8),
    /// The wall clock of a replica is set, to this many seconds before or after the time.
    SetClock(u8, i8),
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
        schedule.push(match dice.below(148) {
            0..=3 => Step::Begin(replica),
            4..=7 => Step::Call(n, replica, Kind::Unsafe),
            8..=11 => Step::Call(n, replica, Kind::Safe),
            12..=14 => Step::Call(n, replica, Kind::Read),
            15 => Step::Trespass(n, replica, flag),
            16..=21 => Step::Resume(n, replica),
            22..=29 => Step::Read(n),
            30..=32 => Step::Disconnect(n),
            33..=38 => Step::Promise(n),
            39..=44 => Step::Answer(n),
            45..=47 => Step::Notify(n),
            48..=64 => Step::Apply(n),
            65..=81 => Step::Deliver(n),
            82..=83 => Step::Lose(n),
            84..=85 => Step::GiveUp(n),
            86..=96 => Step::Arrive(n),
            97..=106 => Step::Respond(n),
            107..=109 => Step::Break(n, flag),
            110 => Step::Replay(n),
            111..=112 => Step::Kill(replica),
            113..=114 => Step::Leave(replica),
            115..=116 => Step::Pause(replica),
            117 => Step::Partition(replica),
            118 => Step::Isolate(replica),
            119 => Step::SetClock(replica, dice.below(81) as i8 - 40),
            120 if forgetful => Step::Copy,
            121 if forgetful => Step::Failover,
            120..=129 => Step::Wait(dice.below(3000) as u32),
            130..=131 => Step::Wait(dice.below(20_000) as u32),
            _ => Step::Flow,
        });
    }
    schedule
}
