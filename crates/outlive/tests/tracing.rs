//! What a client tells whoever watches its program.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive::{Client, Server, memory};
use tokio::task::AbortHandle;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Only a hang takes as long.
const HANG: Duration = Duration::from_secs(30);

/// An event: its level, and its fields as they are shown.
type Seen = (Level, HashMap<&'static str, String>);

/// Keeps every event of sessions and their requests.
#[derive(Clone, Default)]
struct Watcher(Arc<Mutex<Vec<Seen>>>);

impl Watcher {
    /// Waits for an event with this field, and returns it.
    async fn wait_for(&self, level: Level, field: &'static str, value: &str) -> Seen {
        let is_it = |fields: &HashMap<_, String>| fields.get(field).is_some_and(|it| it == value);
        self.wait_until(level, is_it).await
    }

    /// Waits for an event with such fields, and returns it.
    async fn wait_until(
        &self,
        level: Level,
        are_they: impl Fn(&HashMap<&'static str, String>) -> bool,
    ) -> Seen {
        let looking = async {
            loop {
                let all = self.0.lock().expect("no panic").clone();
                let is_it = |(seen, fields): &Seen| *seen == level && are_they(fields);
                if let Some(seen) = all.into_iter().find(is_it) {
                    return seen;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let seen = tokio::time::timeout(HANG, looking).await;
        seen.unwrap_or_else(|_| panic!("none at {level}: {:?}", self.0))
    }
}

struct Fields(HashMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Watcher {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ["outlive::session", "outlive::request"].contains(&metadata.target())
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(HashMap::new());
        event.record(&mut fields);
        let seen = (*event.metadata().level(), fields.0);
        self.0.lock().expect("no panic").push(seen);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The only test here, since there is one subscriber for the process.
#[tokio::test]
async fn a_loss_is_a_warning_with_its_cause_and_what_follows_is_told() {
    let watcher = Watcher::default();
    tracing::subscriber::set_global_default(watcher.clone()).expect("nobody else sets one");
    let serving: Arc<Mutex<Option<AbortHandle>>> = Arc::default();
    let latest = serving.clone();
    let connector = move || {
        let latest = latest.clone();
        async move {
            let server = Server::builder("mortal", "1").build();
            let (ours, theirs) = memory::pair();
            let task = tokio::spawn(async move { server.serve(theirs).await });
            *latest.lock().expect("no panic") = Some(task.abort_handle());
            Ok::<_, io::Error>(ours)
        }
    };
    let client = Client::builder().connector(connector).connect();
    let client = tokio::time::timeout(HANG, client).await.expect("it hangs");
    let client = client.expect("to connect");
    let (_, first) = watcher.wait_for(Level::INFO, "event", "connected").await;
    assert_eq!(first.get("generation").map(String::as_str), Some("1"));

    let pinged = tokio::time::timeout(HANG, client.ping()).await;
    pinged.expect("it hangs").expect("an answer");
    // The handshake was the first; a modern server is pinged with what it has in place of it.
    let is_ping = |fields: &HashMap<_, String>| fields.get("number").is_some_and(|it| it == "1");
    let (_, ended) = watcher.wait_until(Level::DEBUG, is_ping).await;
    assert_eq!(
        ended.get("method").map(String::as_str),
        Some("server/discover")
    );
    assert_eq!(ended.get("step").map(String::as_str), Some("settled"));
    assert_eq!(ended.get("ending").map(String::as_str), Some("ok"));
    assert!(ended.contains_key("took_us"), "{ended:?}");
    let (_, sent) = watcher.wait_for(Level::TRACE, "step", "sent").await;
    assert_eq!(sent.get("generation").map(String::as_str), Some("1"));

    let server = serving.lock().expect("no panic").take();
    server.expect("a server").abort();
    let (_, lost) = watcher.wait_for(Level::WARN, "event", "lost").await;
    assert_eq!(lost.get("generation").map(String::as_str), Some("1"));
    assert!(lost.contains_key("cause"), "{lost:?}");
    assert!(lost.contains_key("message"), "{lost:?}");
    watcher.wait_for(Level::DEBUG, "event", "state").await;
    watcher.wait_for(Level::INFO, "generation", "2").await;
    drop(client);
}
