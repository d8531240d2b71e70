//! Scenarios for servers: what hosts do to them.

mod bytes;
mod cancel;
mod endings;
mod remains;

use std::time::Duration;

use crate::measure;
use crate::scenario::Scenario;
use crate::verdict::{Finding, Held};

/// Every scenario for servers.
pub fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    let all = [
        bytes::SCENARIOS,
        cancel::SCENARIOS,
        endings::SCENARIOS,
        remains::SCENARIOS,
    ];
    all.into_iter().flatten()
}

/// A bound.
const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Whether what processes take can be known here.
fn measurable() -> Held {
    match measure::is_possible() {
        true => Ok(()),
        false => {
            Finding::not_applicable("this system does not tell what processes take (no /proc)")
        }
    }
}
