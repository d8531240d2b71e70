//! What happens to a router, step by step, drawn from a seed.

use crate::random::Dice;

/// Something that happens. The numbers choose among what is there at that moment.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The client sends a request of this kind, about the n-th thing, with this id and this token.
    Request(u8, u8, u8, u8),
    /// The client wants a list, from the beginning or from where the last page ended.
    List(u8, bool),
    /// The client sends several requests at once.
    Batch(u8, u8),
    /// The client no longer waits for the n-th request, or for one that is over.
    Cancel(u8, bool),
    /// The client answers the n-th question: rightly, twice, or one that nobody asked.
    Reply(u8, u8),
    /// The client tells how far it is with the n-th question.
    ReplyProgress(u8),
    /// The client sends junk, a notification, or answers out of the blue.
    Junk(u8),
    /// The client leaves, or loses its token.
    Leave(bool),
    /// The n-th server answers its m-th request.
    Serve(u8, u8),
    /// The n-th server answers everything.
    ServeAll(u8),
    /// The n-th server answers with an error, also the handshake.
    Fail(u8, u8),
    /// The n-th server is wrong about something, in the m-th way.
    Lie(u8, u8, u8),
    /// The n-th server asks something, with one of few ids.
    Ask(u8, u8, u8),
    /// The n-th server takes a question back.
    Unask(u8, u8),
    /// The n-th server tells how far it is with its m-th request.
    Progress(u8, u8),
    /// The n-th server logs, or tells of a resource.
    Say(u8, u8),
    /// The n-th server offers something else, and says so, or not.
    Change(u8, u8, bool),
    /// The leg of the n-th server ends.
    End(u8),
    /// Another client wants the leg of the n-th server.
    GiveWay(u8),
    /// The leg of the n-th server cannot be opened.
    Refuse(u8),
    /// The catalogue tells what it has learnt.
    Publish,
    /// The catalogue changes: servers, views, offers.
    Catalogue(u8, u8),
    /// Somebody accepts what the n-th server offers, or the record of that is damaged.
    Accept(u8, u8),
    /// The file is read again: the n-th server is changed, in one of several ways, or another comes.
    Reload(u8, u8),
    /// Time passes, in milliseconds; deadlines are kept, or missed.
    Wait(u32, bool),
}

pub fn draw(dice: &mut Dice, steps: usize) -> Vec<Step> {
    let mut schedule = Vec::new();
    // Some clients leave early, some catalogues never rest, some servers only lie.
    let (restless, liars) = (dice.below(3) == 0, dice.below(3) == 0);
    while schedule.len() < steps {
        let mut n = || dice.below(256) as u8;
        let (a, b, c, d) = (n(), n(), n(), n());
        schedule.push(match dice.below(100) {
            0..=17 => Step::Request(a, b, c, d),
            18..=25 => Step::List(a, b % 3 > 0),
            26..=27 => Step::Batch(a, b),
            28..=32 => Step::Cancel(a, b % 4 > 0),
            33..=36 => Step::Reply(a, b),
            37 => Step::ReplyProgress(a),
            38 => Step::Junk(a),
            39 if a % 8 == 0 => Step::Leave(b % 2 == 0),
            39..=52 => Step::Serve(a, b),
            53..=57 => Step::ServeAll(a),
            58..=60 => Step::Fail(a, b),
            61..=65 => Step::Lie(a, b, c),
            66..=69 => Step::Ask(a, b, c),
            70 => Step::Unask(a, b),
            71..=73 => Step::Progress(a, b),
            74..=76 => Step::Say(a, b),
            77..=80 => Step::Change(a, b, c % 4 > 0),
            81 => Step::End(a),
            82 => Step::GiveWay(a),
            83 => Step::Refuse(a),
            84..=86 => Step::Publish,
            87 => Step::Accept(a, b),
            88 => Step::Catalogue(a, b),
            89 => Step::Reload(a, b),
            90 if restless && c % 2 == 0 => Step::Catalogue(a, b),
            90 if restless => Step::Reload(a, b),
            91..=92 if liars => Step::Lie(a, b, c),
            90..=96 => Step::Wait(dice.below(400) as u32, b % 2 == 0),
            97..=98 => Step::Wait(dice.below(7_000) as u32, b % 2 == 0),
            _ => Step::Wait(dice.below(100_000) as u32, b % 2 == 0),
        });
    }
    schedule
}
