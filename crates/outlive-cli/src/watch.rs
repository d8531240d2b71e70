//! What happens to the servers of a gateway is written down.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use outlive::{Gateway, Observer};
use outlive_core::request::{Request, Step};
use outlive_core::{Event, State, Time};
use serde_json::json;

use crate::log::Log;

/// Writes down what happens to the servers, and ends everything if one of them has failed and that was wanted.
pub struct Watch {
    pub log: Log,
    exit_on_failed: bool,
    failed: AtomicBool,
    gateway: OnceLock<Gateway>,
}

impl Watch {
    pub fn new(log: Log, exit_on_failed: bool) -> Arc<Watch> {
        Arc::new(Watch {
            log,
            exit_on_failed,
            failed: AtomicBool::new(false),
            gateway: OnceLock::new(),
        })
    }

    /// The gateway that is watched. There is one.
    pub fn set_gateway(&self, gateway: Gateway) {
        let _ = self.gateway.set(gateway);
    }

    /// Whether everything was ended because a server had failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}

/// The gateway's part of it.
pub struct Watching(pub Arc<Watch>);

impl Observer for Watching {
    fn began(&self, session: u64, target: Option<&str>) {
        self.0.log.began(session, target);
    }

    fn event(&self, session: Option<u64>, now: Time, event: &Event) {
        let watch = &self.0;
        watch.log.event(session, now, event);
        if watch.exit_on_failed
            && matches!(event, Event::State(State::Failed { .. }))
            && !watch.failed.swap(true, Ordering::AcqRel)
            && let Some(gateway) = watch.gateway.get()
        {
            gateway.shutdown();
        }
    }

    fn note(&self, sentence: &str) {
        self.0
            .log
            .note(sentence, "gateway", json!({ "note": sentence }));
    }

    fn watches_requests(&self) -> bool {
        self.0.log.watches_requests()
    }

    fn request(&self, session: Option<u64>, now: Time, request: Request<'_>, step: Step<'_>) {
        self.0.log.request(session, now, request, step);
    }

    fn stderr(&self, session: Option<u64>, line: &str) {
        self.0.log.stderr(session, line);
    }
}
