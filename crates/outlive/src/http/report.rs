//! What the tasks of a link tell it.

use outlive_core::{Id, LinkInput, Message};
use tokio::sync::mpsc;

use super::channel::Channel;

/// How many reports may wait to be heard. While it is full, the server is not read.
const ROOM: usize = 256;

/// What a task tells its link.
#[derive(Debug)]
pub(super) enum Report {
    /// To be passed on.
    Input(LinkInput),
    /// Something a person should know.
    Warning(String),
    /// The exchange of this request is over.
    Over(Id),
    /// A notification was taken, or will not be.
    Told,
    /// Something else than a request found nobody there.
    Absent(String),
    /// The server refuses `initialize` as one would that speaks HTTP+SSE, with this status.
    Refused(Box<Message>, u16),
    /// There is an HTTP+SSE server, and this is its stream.
    Opened(Box<Channel>),
    /// There is none, for this reason; whether nobody was there at all.
    Unopened(String, bool),
    /// The session on the server was ended.
    Gone,
}

/// Where reports go.
pub(super) type Reports = mpsc::Sender<Report>;

pub(super) fn channel() -> (Reports, mpsc::Receiver<Report>) {
    mpsc::channel(ROOM)
}
