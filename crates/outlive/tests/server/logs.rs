//! What the server tells whoever watches its program.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive::server::Server;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::rig::{Client, soon};

/// Keeps every event of ours.
#[derive(Clone, Default)]
struct Watcher(Arc<Mutex<Vec<(Level, String)>>>);

impl Watcher {
    fn saw(&self, level: Level, words: &str) -> bool {
        let events = self.0.lock().unwrap();
        events
            .iter()
            .any(|(seen, said)| *seen == level && said.contains(words))
    }

    async fn wait_for(&self, level: Level, words: &str) {
        soon(async {
            while !self.saw(level, words) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
}

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{value:?} ");
    }
}

impl Subscriber for Watcher {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("outlive")
    }

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        let level = *event.metadata().level();
        self.0.lock().unwrap().push((level, words.0));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The only test that looks at the log, since there is one subscriber for the process.
#[tokio::test]
async fn late_answers_are_logged_at_debug_and_faults_at_warn() {
    let watcher = Watcher::default();
    tracing::subscriber::set_global_default(watcher.clone()).expect("nobody else sets one");
    let server = Server::builder("logged", "1")
        .tool("late", "", |ctx, (): ()| async move {
            ctx.cancelled().await;
            "late"
        })
        .tool("panic", "", |_, (): ()| async {
            if true {
                panic!("words for the log");
            }
        })
        .build();
    let mut client = Client::legacy(&server).await;
    client.begin_call(1, "late", json!({})).await;
    client.cancel(1, "enough").await;
    watcher.wait_for(Level::DEBUG, "late_answer").await;
    client.call(2, "panic", json!({})).await;
    watcher.wait_for(Level::WARN, "words for the log").await;
    client.send_line(b"not a message").await;
    watcher.wait_for(Level::WARN, "not_a_message").await;
    client.vanish().await;
    watcher.wait_for(Level::DEBUG, "closing").await;
    assert!(!watcher.saw(Level::ERROR, ""));
}
