//! What the tasks of a link tell it.

use outlive_core::{LinkInput, Message};
use tokio::sync::mpsc;

use super::channel::Channel;
use outlive_core::sse::Event;

/// How many reports may wait to be heard. While it is full, the server is not read.
const ROOM: usize = 256;

/// What a task tells its link.
#[derive(Debug)]
pub(super) enum Report {
    /// To be passed on.
    Input(LinkInput),
    /// Something a person should know.
    Warning(String),
    /// The exchange of the request of this number is over.
    Over(u64),
    /// Something else than a request found nobody there.
    Absent(String),
    /// The server refuses `initialize`, which has this number, as one would that speaks HTTP+SSE, with this status.
    Refused(u64, Box<Message>, u16),
    /// There is an HTTP+SSE server, and this is its stream.
    Opened(Box<Channel>),
    /// There is none, for this reason; whether nobody was there at all.
    Unopened(String, bool),
    /// The session on the server was ended.
    Gone,
}

/// What a task tells its link about the order of sending. These are heard even while the server is not read, and there
/// is no more than one for each message and each attempt to listen.
#[derive(Debug)]
pub(super) enum Mark {
    /// The server has the message of this number, or never will.
    Taken(u64),
    /// The stream of the server broke and is being opened again.
    Listening,
    /// The server has answered the GET for its stream, in whichever way, or cannot be asked.
    Listened,
}

/// Where marks go.
pub(super) type Marks = mpsc::UnboundedSender<Mark>;

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
