//! What happens to a gateway, step by step, drawn from a seed.

use crate::random::Dice;

/// Something that happens. The numbers choose among what is there at that moment.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A client comes to the n-th target, as one of a few people, and may show how it begins.
    Arrive(u8, u8, bool),
    /// The n-th client that waits asks again; if somebody has to give way, somebody does, or the client leaves.
    Ask(u8, bool),
    /// The n-th client that was admitted sends its first message.
    Join(u8),
    /// The n-th client leaves, and may not have been told how its handshake ended.
    Leave(u8, bool),
    /// A request without a session comes to the n-th target.
    Request(u8),
    /// A request without a session comes to the n-th target, along one of a few ways.
    RequestAlong(u8, u8),
    /// The n-th client with a server sends a request.
    Call(u8),
    /// A server answers a request.
    Answer(u8),
    /// A server finishes a handshake.
    Shake(u8),
    /// A server comes into service.
    Ready(u8),
    /// A server is lost.
    Down(u8),
    /// A server of a pool turns out to speak legacy revisions only.
    Legacy(u8),
    /// A session is over by itself.
    Close(u8),
    /// A server that is being stopped ends.
    End(u8),
    /// A server ends that nobody has told to.
    Die(u8),
    /// Servers of the n-th target cannot be started any more, or can again.
    Obstruct(u8),
    Restart,
    /// New processes for the n-th target.
    RestartTarget(u8),
    /// The servers of the n-th target are stopped.
    StopTarget(u8),
    /// A target comes, as one of a few kinds.
    AddTarget(u8),
    /// The n-th target goes.
    RemoveTarget(u8),
    Shutdown,
    /// Time passes, in milliseconds.
    Wait(u32),
    /// The next timer fires.
    Tick,
}

pub fn draw(dice: &mut Dice, steps: usize) -> Vec<Step> {
    let mut schedule = Vec::new();
    // Some gateways are for clients that leave early, some for requests, some for whatever comes.
    let (impatient, requests) = (dice.below(3) == 0, dice.below(3) == 0);
    while schedule.len() < steps {
        let n = dice.below(4) as u8;
        let flag = dice.below(3) > 0;
        schedule.push(match dice.below(100) {
            0..=11 => Step::Arrive(n, dice.below(3) as u8, flag),
            12..=23 => Step::Ask(n, flag),
            24..=33 => Step::Join(n),
            34..=38 => Step::Leave(n, !flag),
            39..=43 if impatient => Step::Leave(n, !flag),
            40 | 48 if requests => Step::RequestAlong(n, dice.below(3) as u8),
            39..=43 | 48..=50 if requests => Step::Request(n),
            39..=43 => Step::Request(n),
            44..=50 => Step::Call(n),
            51..=59 => Step::Answer(n),
            60..=63 => Step::Shake(n),
            64..=67 => Step::Ready(n),
            68..=71 => Step::Down(n),
            72..=73 => Step::Legacy(n),
            74 => Step::Close(n),
            75..=82 => Step::End(n),
            83 => Step::Die(n),
            84 => Step::Obstruct(n),
            85 => Step::Restart,
            86 if dice.below(6) == 0 => Step::Shutdown,
            87..=91 => Step::Wait(dice.below(3000) as u32),
            92..=93 => Step::Wait(dice.below(200_000) as u32),
            94..=97 => Step::Tick,
            98 if flag => Step::StopTarget(n),
            98 => Step::RestartTarget(n),
            _ if flag => Step::Ask(0, flag),
            _ if n.is_multiple_of(2) => Step::AddTarget(dice.below(256) as u8),
            _ => Step::RemoveTarget(n),
        });
    }
    schedule
}
