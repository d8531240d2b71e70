//! What the tasks of a link tell it.

use outlive_core::{Id, LinkInput, Message};
use tokio::sync::mpsc;

use super::channel::Channel;
use super::sse::Event;

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

/// Passes on what the server says on a stream that answers no request of its own.
pub(super) async fn pass_on(reports: &Reports, event: Event) {
    let input = match event {
        Event::Message(frame) => LinkInput::Frame(frame),
        Event::Comment => LinkInput::Alive,
        Event::Endpoint(_) => return,
    };
    // Without a link there is nobody to tell.
    let _ = reports.send(Report::Input(input)).await;
}

pub(super) fn channel() -> (Reports, mpsc::Receiver<Report>) {
    mpsc::channel(ROOM)
}
