//! The session: what the host holds, whatever happens to the servers under it.

use bytes::Bytes;

use crate::event::{Event, State};
use crate::framer::Frame;
use crate::link::{Generation, LinkInput, LinkOrder};
use crate::policy::Policy;
use crate::time::Time;

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The session begins: the first link is ordered.
    Start,
    /// The host sent a frame.
    Host(Frame),
    /// The host closed its side.
    HostClosed,
    /// The host does (not) take what it is sent; while it does not, the driver does not read
    /// the server, so the server's silence means nothing.
    HostBlocked(bool),
    /// Something happened on a link.
    Link(Generation, LinkInput),
    /// The moment named by [`Session::deadline`] has come.
    Tick,
    /// The user wants a new server under the same session.
    Restart,
    /// The user wants the session to end: first time gracefully, second time at once.
    Stop,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this message to the host (without line end).
    ToHost(Bytes),
    /// Send this message on that link (without line end). Frames are counted per link from 0.
    ToLink(Generation, Bytes),
    /// Make a link of this generation.
    Connect(Generation),
    /// Do this with that link.
    Link(Generation, LinkOrder),
    /// Tell whoever watches.
    Event(Event),
    /// All is settled and no link is left: the driver may end.
    Closed,
}

/// A session. See the [crate page](crate) for how to drive it.
#[derive(Debug)]
pub struct Session {
    policy: Policy,
    state: State,
    seed: u64,
}

impl Session {
    /// A session that has not begun. `seed` decides all that is random in it.
    pub fn new(policy: Policy, seed: u64) -> Session {
        Session { policy, state: State::Connecting { attempt: 1 }, seed }
    }

    /// Takes note of what happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input) {
        let _ = (now, input, &self.policy, self.seed);
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        None
    }

    /// When [`Input::Tick`] is due, if at all.
    pub fn deadline(&self) -> Option<Time> {
        None
    }

    /// Where the session stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Whether the host may be read: false while as much is in flight as is allowed.
    pub fn wants_host(&self) -> bool {
        true
    }
}
