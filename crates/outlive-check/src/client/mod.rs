//! Scenarios for clients: what servers do to them.

mod answers;
mod asks;
mod bytes;
mod close;
mod death;
mod driver;
mod stage;
mod start;
mod subject;
mod web;

use crate::scenario::{Play, Scenario, Subject};
use crate::stage::Stage;

pub use driver::{Driver, Errand, Outcome};
pub use subject::{ClientOptions, ClientSurvey, ClientUnderTest};
pub(crate) use subject::{filled, words};

/// Every scenario for clients.
pub fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    let all = [
        death::SCENARIOS,
        start::SCENARIOS,
        answers::SCENARIOS,
        asks::SCENARIOS,
        bytes::SCENARIOS,
        close::SCENARIOS,
    ];
    all.into_iter()
        .chain(web::SCENARIOS.iter().copied())
        .flatten()
}

/// A scenario for clients.
const fn client(name: &'static str, run: for<'a> fn(&'a mut Stage) -> Play<'a>) -> Scenario {
    Scenario::new(Subject::Client, name, run).seconds(40)
}
