//! Schedules: what happens around a simulated server, step by step, drawn from a seed.

use crate::schedule::Dice;

/// Something that happens. The numbers choose among what is there at that moment, so a step keeps
/// its meaning, more or less, when others are taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The client sends a request: which kind, which id, whether it is a modern one.
    Request(Method, u8, bool),
    /// The client comes back with the n-th newest state it was given, under this id: with all
    /// that was asked for, or with nothing.
    Return(u8, u8, bool),
    /// The client comes back with a state nobody has given it.
    ReturnForged(u8),
    /// The client cancels the n-th newest of its requests, finished or not.
    Cancel(u8),
    /// The client cancels something that never was, or nothing.
    CancelUnknown,
    /// The client sends some other notification.
    Notification,
    /// The client answers the n-th newest request of ours, finished or not: with a result or an
    /// error.
    ClientAnswer(u8, bool),
    /// The client sends a line that is no message.
    Junk,
    /// The client sends a request of this id that cannot be read, or is too long.
    Unreadable(u8, bool),
    /// The client sends three requests at once, under ids from this one on.
    Batch(u8),
    /// The n-th handler ends: in one of four ways.
    Answer(u8, u8),
    /// A handler that was done before ends again.
    AnswerAgain(u8),
    /// The n-th handler asks the client for this many things.
    Ask(u8, u8),
    /// Somebody else asks the client for something.
    AskAlone,
    /// The n-th newest question is taken back, answered or not.
    Unask(u8),
    /// The n-th handler, perhaps one that is done, gets on, logs, and sends a notification.
    Notices(u8),
    /// Lists and resources change.
    Changes,
    /// The next timer fires.
    Tick,
    /// Time passes, in milliseconds.
    Wait(u16),
    /// The machine sleeps, in seconds.
    Sleep(u16),
    /// The connection ends: the client closes its side, or it breaks.
    Close(bool),
    Shutdown,
}

/// What a client's request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// A tool: has a handler that may ask back.
    Call,
    /// A list: has a handler that may not.
    List,
    Initialize,
    Discover,
    Ping,
    Listen,
    Subscribe,
    SetLevel,
    Unheard,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Call => "tools/call",
            Method::List => "tools/list",
            Method::Initialize => "initialize",
            Method::Discover => "server/discover",
            Method::Ping => "ping",
            Method::Listen => "subscriptions/listen",
            Method::Subscribe => "resources/subscribe",
            Method::SetLevel => "logging/setLevel",
            Method::Unheard => "unheard/of",
        }
    }

    /// Whether a handler answers it. Everything else is answered at once, or never (`Listen`).
    pub fn is_handled(self) -> bool {
        matches!(self, Method::Call | Method::List)
    }
}

/// How many different ids the client uses: few, so that it uses them again.
const IDS: u64 = 8;

/// Draws a schedule. Most begin with a handshake, because a legacy client needs one.
pub fn draw(dice: &mut Dice, steps: usize) -> Vec<Step> {
    let mut schedule = Vec::with_capacity(steps);
    if dice.below(8) > 0 {
        schedule.push(Step::Request(Method::Initialize, 0, false));
    }
    while schedule.len() < steps {
        schedule.push(draw_step(dice));
    }
    schedule
}

fn draw_step(dice: &mut Dice) -> Step {
    let n = dice.below(5) as u8;
    let id = dice.below(IDS) as u8;
    let coin = dice.below(2) == 0;
    match dice.below(100) {
        0..=27 => Step::Request(draw_method(dice), id, coin),
        28..=32 => Step::Return(n, id, dice.below(3) > 0),
        33 => Step::ReturnForged(id),
        34..=42 => Step::Cancel(n),
        43 => Step::CancelUnknown,
        44 => Step::Notification,
        45..=49 => Step::ClientAnswer(n, coin),
        50 => Step::Junk,
        51 => Step::Unreadable(id, coin),
        52 => Step::Batch(id),
        53..=66 => Step::Answer(n, dice.below(6) as u8),
        67..=68 => Step::AnswerAgain(n),
        69..=75 => Step::Ask(n, 1 + dice.below(2) as u8),
        76 => Step::AskAlone,
        77..=79 => Step::Unask(n),
        80..=82 => Step::Notices(n),
        83 => Step::Changes,
        84..=92 => Step::Tick,
        93..=96 => Step::Wait(dice.below(1500) as u16),
        97 => Step::Sleep(dice.below(100) as u16),
        98 if dice.below(4) == 0 => Step::Close(coin),
        99 if dice.below(4) == 0 => Step::Shutdown,
        _ => Step::Tick,
    }
}

fn draw_method(dice: &mut Dice) -> Method {
    match dice.below(20) {
        0 => Method::Initialize,
        1 => Method::Discover,
        2 => Method::Ping,
        3 => Method::Listen,
        4 => Method::Subscribe,
        5 => Method::SetLevel,
        6 => Method::Unheard,
        7 | 8 => Method::List,
        _ => Method::Call,
    }
}
