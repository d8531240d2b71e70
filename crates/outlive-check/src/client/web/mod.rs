//! Scenarios for clients over HTTP.

mod answers;
mod headers;
mod listening;
mod sessions;
mod statuses;
mod streams;

use crate::scenario::{Over, Play, Scenario};
use crate::stage::Stage;

const SENDING: &str = "2025-11-25 basic/transports: Sending Messages to the Server";
const SESSIONS: &str = "2025-11-25 basic/transports: Session Management";

/// Every scenario for clients over HTTP.
pub(super) const SCENARIOS: &[&[Scenario]] = &[
    sessions::SCENARIOS,
    headers::SCENARIOS,
    streams::SCENARIOS,
    listening::SCENARIOS,
    statuses::SCENARIOS,
    answers::SCENARIOS,
];

/// A scenario for clients over HTTP.
const fn web(name: &'static str, run: for<'a> fn(&'a mut Stage) -> Play<'a>) -> Scenario {
    super::client(name, run).over(Over::Http)
}
