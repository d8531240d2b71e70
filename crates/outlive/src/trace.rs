//! What happens to sessions and their requests, for the subscriber of the program.
//!
//! Without a subscriber an event costs one look at a number, and a request nothing.

use std::sync::Arc;

use outlive_core::Time;
use outlive_core::event::{Event, State};
use outlive_core::request::{Observer, Request, Step};
use tracing::level_filters::LevelFilter;

/// Tells the subscriber what has happened to a session: what goes wrong at `warn`, what a person would want to see at
/// `info`, the rest at `debug`. The fields have the words of logs and metrics.
pub(crate) fn event(event: &Event) {
    if LevelFilter::current() == LevelFilter::OFF {
        return;
    }
    let name = event.name();
    let (cause, generation) = match event {
        Event::Lost {
            cause, generation, ..
        } => (Some(cause), Some(generation)),
        Event::HandshakeFailed { cause } => (Some(cause), None),
        Event::State(State::Down { cause, .. } | State::Failed { cause, .. }) => {
            (Some(cause), None)
        }
        Event::State(State::Ready { generation }) => (None, Some(generation)),
        Event::Connected { generation, .. }
        | Event::Retried { generation, .. }
        | Event::Resent { generation, .. } => (None, Some(generation)),
        _ => (None, None),
    };
    let cause = cause.map(|cause| cause.kind());
    let generation = generation.map(|it| it.number());
    let (method, kind) = match event {
        Event::Refused { method, kind, .. } => (Some(&**method), Some(*kind)),
        Event::Retried { method, .. } | Event::Resent { method, .. } => (Some(&**method), None),
        _ => (None, None),
    };
    let fails = cause.is_some() || kind.is_some();
    match event.is_notable() {
        true if fails => {
            tracing::warn!(target: "outlive::session", event = name, generation, cause, kind, method, "{event}");
        }
        true => {
            tracing::info!(target: "outlive::session", event = name, generation, method, "{event}")
        }
        false => {
            tracing::debug!(target: "outlive::session", event = name, generation, cause, "{event}")
        }
    }
}

/// Who tells the subscriber of the steps of requests. Nobody, unless it wants `debug` or more when the session begins:
/// sessions that nobody watches are spared all of it.
pub(crate) fn requests() -> Option<Arc<dyn Observer>> {
    match LevelFilter::current() >= LevelFilter::DEBUG {
        true => Some(Arc::new(Requests)),
        false => None,
    }
}

/// Tells the subscriber how a request ended at `debug`, and what came before that at `trace`.
#[derive(Debug)]
struct Requests;

impl Observer for Requests {
    fn request(&self, _: Time, request: Request<'_>, step: Step<'_>) {
        let Request { number, method, .. } = request;
        match step {
            Step::Accepted => {
                tracing::trace!(target: "outlive::request", step = "accepted", number, method);
            }
            Step::Sent { generation, again } => {
                let (generation, again) = (generation.number(), again.is_some());
                tracing::trace!(target: "outlive::request", step = "sent", number, method, generation, again);
            }
            Step::Settled { how, took } => {
                let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                let ending = how.ending().as_str();
                tracing::debug!(target: "outlive::request", step = "settled", number, method, ending, took_us);
            }
            _ => {}
        }
    }
}
