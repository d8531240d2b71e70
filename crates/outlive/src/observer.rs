//! Who watches sessions: a log, a test, traces.

use std::fmt;
use std::sync::Arc;

use outlive_core::request::{self, Request, Step};
use outlive_core::session::Load;
use outlive_core::{Event, Time};

/// Whoever watches the sessions of [`run`](crate::run()), [`run_remote`](crate::run_remote) or a
/// [`Gateway`](crate::Gateway). A gateway has several and tells them apart by number; elsewhere there is one, without
/// a number. It is called from the threads that do the work, and waited for.
pub trait Observer: Send + Sync + 'static {
    /// A session of a [`Gateway`](crate::Gateway) begins. `target` is the name of what it is a session with, where the
    /// gateway has several.
    fn began(&self, _session: u64, _target: Option<&str>) {}

    /// A session did or noticed something. Its last event is that its state is
    /// [closed](outlive_core::State::Closed).
    fn event(&self, session: Option<u64>, now: Time, event: &Event);

    /// Whether it is told of [requests](Observer::request), which costs each of them some time. Asked once, when a
    /// session begins.
    fn watches_requests(&self) -> bool {
        true
    }

    /// A request has come one step further.
    fn request(&self, _session: Option<u64>, _now: Time, _request: Request<'_>, _step: Step<'_>) {}

    /// How much the session of [`run`](crate::run()) or [`run_remote`](crate::run_remote) has to do, and how many
    /// requests failed so far. Told after each turn, in which many messages may have passed. A
    /// [`Gateway`](crate::Gateway) has a [meter](crate::Gateway::meter) instead.
    fn load(&self, _load: Load, _failed: u64) {}

    /// Something is to be said to whoever runs a [`Gateway`](crate::Gateway), in a sentence.
    fn note(&self, _sentence: &str) {}

    /// The server wrote a line to its standard error; secrets are masked.
    fn stderr(&self, _session: Option<u64>, _line: &str) {}
}

/// Nobody.
impl Observer for () {
    fn watches_requests(&self) -> bool {
        false
    }

    fn event(&self, _session: Option<u64>, _now: Time, _event: &Event) {}
}

/// An observer as a session has it: it knows which session it is.
pub(crate) struct Numbered<O: ?Sized> {
    pub(crate) session: Option<u64>,
    pub(crate) observer: Arc<O>,
}

impl<O: Observer + ?Sized> request::Observer for Numbered<O> {
    fn request(&self, now: Time, request: Request<'_>, step: Step<'_>) {
        self.observer.request(self.session, now, request, step);
    }
}

impl<O: ?Sized> fmt::Debug for Numbered<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbered")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}
