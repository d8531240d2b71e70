//! Scenarios for servers: what hosts do to them.
//!
//! - `bytes`: what is no message, or a message in an unusual wrapping.
//! - `messages`: messages that make no sense, and ids.
//! - `handshake`: too early, twice, not at all, in the other era.
//! - `cancel`: cancellations at every moment.
//! - `load`: too much, too fast, unread.
//! - `questions`: hosts that do not answer.
//! - `endings`: hosts that leave.
//! - `remains`: what a server takes, and what it leaves behind.
//! - `http`: clients over HTTP that vanish, dawdle, or come from elsewhere.
//! - `sessions`: sessions over HTTP, and streams that are cut.

mod bytes;
mod cancel;
mod endings;
mod handshake;
mod http;
mod load;
mod messages;
mod questions;
mod remains;
mod sessions;

use crate::measure;
use crate::scenario::{Play, Scenario, Subject};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

/// Every scenario for servers.
pub fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    let all = [
        bytes::SCENARIOS,
        messages::SCENARIOS,
        handshake::SCENARIOS,
        cancel::SCENARIOS,
        load::SCENARIOS,
        questions::SCENARIOS,
        endings::SCENARIOS,
        remains::SCENARIOS,
        http::SCENARIOS,
        sessions::SCENARIOS,
    ];
    all.into_iter().flatten()
}

const RESPONSES: &str = "2025-11-25 basic: Responses";

const fn server(name: &'static str, run: for<'a> fn(&'a mut Stage) -> Play<'a>) -> Scenario {
    Scenario::new(Subject::Server, name, run)
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
