//! Scenarios for proxies: what hosts and servers do to what stands between them.

mod recovery;
mod stage;
mod subject;
mod survival;
mod transparency;

use crate::scenario::{Play, Scenario, Subject};
use crate::stage::Stage;

pub use subject::{ProxyOptions, ProxySurvey, ProxyUnderTest};

/// Every scenario for proxies.
pub fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    let all = [
        transparency::SCENARIOS,
        survival::SCENARIOS,
        recovery::SCENARIOS,
    ];
    all.into_iter().flatten()
}

/// A scenario for proxies.
const fn proxy(name: &'static str, run: for<'a> fn(&'a mut Stage) -> Play<'a>) -> Scenario {
    Scenario::new(Subject::Proxy, name, run).seconds(60)
}
