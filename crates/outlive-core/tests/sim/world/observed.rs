//! The steps of requests, as an observer is told them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive_core::request::{Observer, Request, Step};
use outlive_core::{Session, Time};

use super::Broken;

/// What an observer of a session was told. A copy of a session tells nobody, and a copy of this was told nothing.
pub struct Observed(Option<Arc<Steps>>);

impl Clone for Observed {
    fn clone(&self) -> Observed {
        Observed(None)
    }
}

#[derive(Debug, Default)]
struct Steps(Mutex<Books>);

#[derive(Debug, Default)]
struct Books {
    /// Requests that are accepted and not settled: since when.
    open: BTreeMap<u64, Time>,
    now: Time,
    newest: Option<u64>,
    broken: Option<Broken>,
}

impl Observed {
    pub fn of(session: &mut Session) -> Observed {
        let steps = Arc::new(Steps::default());
        session.observe(steps.clone());
        Observed(Some(steps))
    }

    /// The session has another owner, whom the same observer watches.
    pub fn follow(&self, session: &mut Session) {
        if let Some(steps) = &self.0 {
            session.observe(steps.clone());
        }
    }

    /// Whether what was told makes sense, and agrees with the size of the ledger.
    pub fn check(&self, ledger: usize) -> Result<(), Broken> {
        let Some(steps) = &self.0 else { return Ok(()) };
        let mut books = steps.0.lock().expect("the books");
        if let Some(broken) = books.broken.take() {
            return Err(broken);
        }
        match books.open.len() {
            open if open == ledger => Ok(()),
            open => Err(format!(
                "1: an observer knows of {open} open requests, the ledger has {ledger}"
            )),
        }
    }
}

impl Observer for Steps {
    fn request(&self, now: Time, request: Request<'_>, step: Step<'_>) {
        let mut books = self.0.lock().expect("the books");
        if let Err(broken) = books.note(now, request.number, step) {
            books.broken.get_or_insert(broken);
        }
    }
}

impl Books {
    fn note(&mut self, now: Time, number: Option<u64>, step: Step<'_>) -> Result<(), Broken> {
        if now < self.now {
            return Err(format!("8: {step:?} is told for a moment before the last"));
        }
        self.now = now;
        let open = number.and_then(|number| self.open.get(&number).copied());
        match (step, number, open) {
            (Step::Accepted, Some(number), None) if Some(number) > self.newest => {
                self.newest = Some(number);
                self.open.insert(number, now);
                Ok(())
            }
            (Step::Sent { .. }, _, Some(_)) => Ok(()),
            (Step::Settled { took, .. }, Some(number), Some(since)) if took == now - since => {
                self.open.remove(&number);
                Ok(())
            }
            // Never accepted.
            (Step::Settled { took, .. }, None, None) if took == Duration::ZERO => Ok(()),
            (step, number, open) => Err(format!(
                "1: an observer was told {step:?} of request {number:?}, open since {open:?}"
            )),
        }
    }
}
