//! What happens between a session and a server over HTTP, step by step, drawn from a seed.

use crate::random::Dice;

/// What a server does with a POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It executes it and answers.
    Answer,
    /// It executes it and begins a stream; whether its events have ids.
    Stream(bool),
    /// It executes it and says something that is no answer.
    Junk,
    /// It refuses it with this status.
    Refuse(u16),
    /// It has, or has not, executed it and refuses it with this status.
    Perhaps(u16, bool),
    /// It names another address of the same origin, with this status. 302 is said of what was executed.
    Move(u16),
    /// It names an address of another origin.
    Elsewhere,
    /// It refuses its headers.
    Mismatch,
    /// It refuses it and never ends its words.
    Mumble(u16),
    /// It executes it, or not, and the connection breaks.
    Break(bool),
    /// Nobody is there.
    Absent,
}

/// What happens on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// The answer, and the end.
    Answer,
    /// The answer, and no end.
    AnswerAndStay,
    /// A notification.
    Notify,
    Comment,
    End,
    Break,
}

/// Something that happens. The numbers choose among what is there at that moment.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The host calls a tool; whether that is safe to repeat.
    Call(bool),
    Notify,
    Ping,
    Cancel(u8),
    /// The n-th POST is written to its connection.
    Write(u8),
    Reply(u8, Reply),
    /// The n-th GET is answered: with a stream, or this status.
    Get(u8, Option<u16>),
    Talk(u8, Talk),
    /// Whoever was asked for credentials has others, or none.
    Login(bool),
    /// The server wants other credentials from now on.
    Expire,
    /// The server's tools want other headers from now on.
    Relist,
    /// The server forgets its sessions.
    Forget,
    /// Something comes from a request that was given up.
    Stale(u8),
    Wait(u16),
    Tick,
    Restart,
}

fn draw_reply(dice: &mut Dice) -> Reply {
    match dice.below(30) {
        0..=9 => Reply::Answer,
        10..=13 => Reply::Stream(dice.below(2) == 0),
        14 => Reply::Junk,
        15 => Reply::Refuse([429, 400, 403, 413, 501][dice.below(5) as usize]),
        16..=18 => Reply::Refuse(401),
        19 => Reply::Refuse(404),
        20 => Reply::Perhaps(
            [500, 502, 503, 504][dice.below(4) as usize],
            dice.below(2) == 0,
        ),
        21..=23 => Reply::Move([307, 308, 302][dice.below(3) as usize]),
        24 => Reply::Elsewhere,
        25 => Reply::Mismatch,
        26 => Reply::Mumble([401, 400, 500][dice.below(3) as usize]),
        27..=28 => Reply::Break(dice.below(2) == 0),
        _ => Reply::Absent,
    }
}

fn draw_talk(dice: &mut Dice) -> Talk {
    match dice.below(12) {
        0..=3 => Talk::Answer,
        4 => Talk::AnswerAndStay,
        5 => Talk::Notify,
        6..=8 => Talk::Comment,
        9..=10 => Talk::End,
        _ => Talk::Break,
    }
}

pub fn draw(dice: &mut Dice, steps: usize) -> Vec<Step> {
    let mut schedule = Vec::new();
    // Most begin well.
    let well = dice.below(8) > 0;
    for _ in 0..if well { 3 } else { 0 } {
        schedule.extend([Step::Write(0), Step::Reply(0, Reply::Answer)]);
    }
    if well && dice.below(3) > 0 {
        schedule.push(Step::Get(0, None));
    }
    while schedule.len() < steps {
        let n = dice.below(5) as u8;
        schedule.push(match dice.below(100) {
            0..=16 => Step::Call(dice.below(2) == 0),
            17..=20 => Step::Notify,
            21 => Step::Ping,
            22..=29 => Step::Cancel(n),
            30..=37 => Step::Write(n),
            38..=61 => Step::Reply(n, draw_reply(dice)),
            62..=67 => {
                let status = [405, 404, 503, 401, 307, 409][dice.below(6) as usize];
                Step::Get(n, Some(status).filter(|_| dice.below(3) == 0))
            }
            68..=77 => Step::Talk(n, draw_talk(dice)),
            78..=81 => Step::Login(dice.below(4) > 0),
            82 => Step::Expire,
            83 => Step::Relist,
            84 if dice.below(2) == 0 => Step::Forget,
            85..=86 => Step::Stale(n),
            87..=92 => Step::Wait(dice.below(1500) as u16),
            93 => Step::Wait(6000),
            94 => Step::Wait(31_000),
            95 if dice.below(4) == 0 => Step::Restart,
            _ => Step::Tick,
        });
    }
    schedule
}
