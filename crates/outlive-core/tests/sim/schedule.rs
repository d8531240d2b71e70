//! Schedules: what happens in a simulated world, step by step, drawn from a seed.

pub use crate::random::{Dice, shrink};

/// Something that happens. The numbers choose among what is there at that moment, so a step keeps
/// its meaning, more or less, when others are taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The host sends a request: which kind, which id.
    Request(Method, u8),
    /// The host cancels the n-th newest of its requests, finished or not.
    Cancel(u8),
    /// The host cancels something that never was.
    CancelUnknown,
    /// The host sends `notifications/initialized`.
    Initialized,
    /// The host sends some other notification.
    HostNotification,
    /// The host answers the n-th of the server's requests it knows of, perhaps too late.
    HostAnswer(u8),
    /// The host sends a line that is no message.
    HostJunk,
    /// The host sends a request too long to keep.
    HostTooLong,
    /// The link that was ordered comes up.
    Up,
    /// The link that was ordered cannot be made.
    Unmade,
    /// The server answers the n-th of what it was sent, with a result or an error.
    Answer(u8, bool),
    /// The server answers something it has answered before.
    AnswerAgain(u8),
    /// The server answers all that it was sent.
    AnswerAll,
    /// The server asks the host something.
    Ask(u8),
    /// The server takes back what it asked.
    TakeBack(u8),
    /// The server reports progress on the n-th newest of all requests there ever were.
    Progress(u8),
    /// The server says again what it has said about the n-th newest, as a stream does that is resumed too early.
    ProgressAgain(u8),
    /// The server sends a notification, a line of junk, or something on standard error.
    ServerNotification,
    ServerJunk,
    Stderr,
    Alive,
    /// The server closes its output, and its input stays open; this many of the last frames had not been written.
    Eof(u8),
    /// A server that is dead to the session reads on: what is still being written to it, it executes.
    ReadsOn,
    /// Writing to the server fails.
    WriteFails(u8),
    /// The server leaves the n-th of what it was sent without an answer, in one of several ways.
    Unanswered(u8, u8),
    /// The server has not executed the n-th newest request, and would take it in another way.
    Unexecuted(u8),
    /// The server answers the n-th of what it was sent with an error of the tool's own that sounds like a lost
    /// session, in a response that says all is well.
    LyingWords(u8),
    /// The link is refused as a whole after it was made; this many of the last frames had not left.
    LinkRefused(u8),
    /// The server refuses the n-th of what it was sent as if it had forgotten the session, which it has not; and so
    /// will every other server.
    RefusedEverywhere(u8),
    /// The server forgets the session, and says so to the n-th of what it was sent, and to all that comes later.
    Forgets(u8),
    /// The server refuses a notification as if it had forgotten the session, which may or may not be true.
    NotificationRefused,
    /// The connection is over.
    Disconnected(u8),
    /// The server's process ends: code or signal.
    Exit(u8, bool),
    /// The same, but what it has started is still being ended.
    Ends(u8, bool),
    /// Cancelled work ends, and a server of the kind that dies of it is dead and looks alive.
    WorkEnds,
    /// The process of such a server, which has read one more line, ends.
    FragileExits,
    /// The process that was started exits, and one that it has started goes on to read. This many of the last
    /// frames were unread at that moment; it reads as many of them as the second number says before it is ended.
    WrapperExits(u8, u8),
    /// A process that was told to end does so.
    OldExit,
    /// The last server, which is being stopped, answers the n-th of what it was sent before it ends.
    LastAnswer(u8),
    /// A replaced link still says something.
    OldFrame,
    /// The server is found stopped, or not.
    Inspected(bool),
    /// The next timer fires.
    Tick,
    /// Time passes, in milliseconds.
    Wait(u16),
    /// The machine sleeps, in seconds.
    Sleep(u16),
    HostBlocked(bool),
    Restart,
    /// The process that owns the session ends, and another one goes on with it.
    TakeOver,
    Stop,
    HostCloses,
}

/// What a host's request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Initialize,
    Discover,
    Listen,
    /// The first page of the tools, and the page after the last one the host was given.
    ToolsList,
    ToolsMore,
    Read,
    SetLevel,
    Subscribe,
    Unsubscribe,
    /// A tool that some servers say is idempotent, some do not, and some say both of.
    CallSafe,
    /// A tool that says nothing.
    CallUnsafe,
    /// A method nobody has heard of.
    Unheard,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Initialize => "initialize",
            Method::Discover => "server/discover",
            Method::Listen => "subscriptions/listen",
            Method::ToolsList | Method::ToolsMore => "tools/list",
            Method::Read => "resources/read",
            Method::SetLevel => "logging/setLevel",
            Method::Subscribe => "resources/subscribe",
            Method::Unsubscribe => "resources/unsubscribe",
            Method::CallSafe | Method::CallUnsafe => "tools/call",
            Method::Unheard => "unheard/of",
        }
    }

    /// Whether the method itself, whatever the server says, may be repeated.
    pub fn is_read_only(self) -> bool {
        !matches!(
            self,
            Method::CallSafe | Method::CallUnsafe | Method::Unheard
        )
    }
}

/// How many different ids the host uses: few, so that it uses them again.
const IDS: u64 = 10;

/// Draws a schedule. Most begin with a handshake, because little happens without one.
pub fn draw(dice: &mut Dice, modern: bool, steps: usize) -> Vec<Step> {
    let mut schedule = Vec::with_capacity(steps + 6);
    if dice.below(8) > 0 {
        schedule.push(Step::Up);
        if modern {
            schedule.extend([Step::Request(Method::Discover, 0), Step::AnswerAll]);
        } else {
            schedule.extend([Step::Request(Method::Initialize, 0), Step::AnswerAll]);
            schedule.push(Step::Initialized);
        }
        if dice.below(2) == 0 {
            schedule.extend([Step::Request(Method::ToolsList, 1), Step::AnswerAll]);
        }
    }
    while schedule.len() < steps {
        let step = draw_step(dice, modern);
        schedule.push(step);
    }
    schedule
}

fn draw_step(dice: &mut Dice, modern: bool) -> Step {
    let n = dice.below(6) as u8;
    match dice.below(100) {
        0..=23 => Step::Request(draw_method(dice, modern), dice.below(IDS) as u8),
        24..=31 => Step::Cancel(n),
        32 => Step::CancelUnknown,
        33 => Step::Initialized,
        34 => Step::HostNotification,
        35..=36 => Step::HostAnswer(n),
        37 => Step::HostJunk,
        38 => Step::HostTooLong,
        39..=46 => Step::Up,
        47 => Step::Unmade,
        48..=57 => Step::Answer(n, dice.below(4) > 0),
        58 => Step::AnswerAgain(n),
        59..=64 => Step::AnswerAll,
        65..=66 => Step::Ask(n),
        67 => Step::TakeBack(n),
        68..=69 => Step::Progress(n),
        70 => Step::ServerNotification,
        71 if dice.below(2) == 0 => Step::ServerJunk,
        71 => Step::Disconnected(n),
        72 if dice.below(3) == 0 => Step::Stderr,
        72 if dice.below(6) == 0 => Step::Alive,
        72 => Step::Unanswered(n, dice.below(8) as u8),
        73 if dice.below(4) == 0 => Step::WrapperExits(n, dice.below(4) as u8),
        73 => Step::Eof(n),
        74 => Step::WriteFails(n),
        75..=79 => Step::Exit(n, dice.below(2) == 0),
        80..=82 => Step::OldExit,
        83 => Step::ReadsOn,
        84 => Step::OldFrame,
        85 => Step::Inspected(dice.below(2) == 0),
        86..=91 => Step::Tick,
        92..=94 => Step::Wait(dice.below(3000) as u16),
        95 => Step::Sleep(dice.below(40_000) as u16),
        96 => Step::HostBlocked(dice.below(2) == 0),
        97 => Step::Restart,
        98 if dice.below(3) == 0 => Step::Stop,
        99 if dice.below(3) == 0 => Step::HostCloses,
        _ => Step::Tick,
    }
}

fn draw_method(dice: &mut Dice, modern: bool) -> Method {
    match dice.below(20) {
        0 if !modern => Method::Initialize,
        0 | 1 if modern => Method::Discover,
        2 | 3 if modern => Method::Listen,
        1 => Method::Unheard,
        2 => Method::SetLevel,
        3 => Method::Subscribe,
        4 => Method::Unsubscribe,
        5..=6 => Method::ToolsList,
        7..=8 => Method::ToolsMore,
        9..=10 => Method::Read,
        11..=14 => Method::CallSafe,
        _ => Method::CallUnsafe,
    }
}

/// Puts what only happens to servers that die of cancellations into a schedule: calls beside cancelled ones, the end of
/// the cancelled work, and of the process. Drawn apart, so that other schedules stay what they are.
pub fn add_fragile(dice: &mut Dice, schedule: &mut Vec<Step>) {
    let beside = |dice: &mut Dice| match dice.below(8) {
        0..=1 => Step::WorkEnds,
        2 => Step::FragileExits,
        3 => Step::Cancel(dice.below(3) as u8),
        4..=5 => Step::Request(Method::CallUnsafe, dice.below(IDS) as u8),
        6 => Step::Tick,
        _ => Step::Wait(dice.below(1500) as u16),
    };
    for _ in 0..16 {
        let at = dice.below(schedule.len() as u64 + 1) as usize;
        let step = beside(dice);
        schedule.insert(at, step);
    }
}

/// Puts into a schedule what was added to the world later, each now and then: what is said twice, a second request to
/// restart, a host that leaves, and what its last server still answers. Drawn apart, as above.
pub fn add_late(dice: &mut Dice, schedule: &mut Vec<Step>) {
    for _ in 0..dice.below(6) {
        let at = dice.below(schedule.len() as u64 + 1) as usize;
        let n = dice.below(4) as u8;
        let steps = match dice.below(8) {
            0..=2 => vec![Step::Progress(n), Step::ProgressAgain(n)],
            3..=4 => vec![
                Step::Restart,
                Step::Wait(dice.below(900) as u16),
                Step::Restart,
            ],
            5 => vec![Step::HostCloses],
            _ => vec![Step::LastAnswer(n)],
        };
        schedule.splice(at..at, steps);
    }
}
