//! What happens to sessions, for the subscriber of the program.

use outlive_core::event::{Event, State};
use tracing::level_filters::LevelFilter;

/// Tells the subscriber what has happened to a session: what goes wrong at `warn`, what a person would want to see at
/// `info`, the rest at `debug`. The fields have the words of logs and metrics. Without a subscriber it costs one look at
/// a number.
pub(super) fn event(event: &Event) {
    if LevelFilter::current() == LevelFilter::OFF {
        return;
    }
    let name = event.name();
    let (cause, generation) = match event {
        Event::Lost {
            cause, generation, ..
        } => (Some(cause), Some(generation)),
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
