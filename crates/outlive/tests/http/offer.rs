//! What the servers of these tests offer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outlive::model::ElicitRequest;
use outlive::server::{Builder, Ctx, Server, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::rig::HANG;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

/// A server with tools that do what a test wants, when it wants.
pub struct Offer {
    pub server: Server,
    /// What `gate` waits for.
    gate: Arc<Semaphore>,
    /// Calls of `gate` that have begun.
    begun: Arc<AtomicUsize>,
    /// Why calls of `gate` and `flood` were given up.
    told: Arc<Mutex<Vec<String>>>,
}

impl Offer {
    pub fn new() -> Offer {
        Offer::with(|builder| builder)
    }

    pub fn with(change: impl FnOnce(Builder) -> Builder) -> Offer {
        let gate = Arc::new(Semaphore::new(0));
        let told = Arc::new(Mutex::default());
        let begun = Arc::new(AtomicUsize::new(0));
        let (inside, telling, counting) = (gate.clone(), told.clone(), begun.clone());
        let flooded = telling.clone();
        let builder = Server::builder("test", "1.0.0")
            .tool("echo", "Says it again.", |_, echo: Echo| async {
                echo.text
            })
            .tool("ask", "Asks the person.", ask)
            .tool("flood", "Says much.", move |ctx: Ctx, (): ()| {
                let told = flooded.clone();
                async move { flood(ctx, &told).await }
            })
            .tool("gate", "Waits.", move |ctx: Ctx, (): ()| {
                let (gate, told) = (inside.clone(), telling.clone());
                counting.fetch_add(1, Ordering::AcqRel);
                async move { pass(ctx, &gate, &told).await }
            });
        Offer {
            server: change(builder).build(),
            gate,
            begun,
            told,
        }
    }

    /// Lets one more call of `gate` through each of its two doors.
    pub fn open(&self) {
        self.gate.add_permits(1);
    }

    /// Waits until this many calls of `gate` have begun.
    pub fn begun(&self, count: usize) {
        let since = Instant::now();
        while self.begun.load(Ordering::Acquire) < count {
            assert!(since.elapsed() < HANG);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Why calls were given up, once this many were.
    pub fn told(&self, count: usize) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let told = self.told.lock().expect("the reasons").clone();
            if told.len() >= count {
                return told;
            }
            assert!(begun.elapsed() < HANG, "{told:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Says that it has begun, waits, says that it goes on, waits, ends.
async fn pass(ctx: Ctx, gate: &Semaphore, told: &Mutex<Vec<String>>) -> &'static str {
    for step in 1..=2 {
        ctx.progress(f64::from(step), None);
        tokio::select! {
            permit = gate.acquire() => permit.expect("a gate").forget(),
            reason = ctx.cancelled() => {
                told.lock().expect("the reasons").push(reason.as_str().to_owned());
                return "given up";
            }
        }
    }
    "through"
}

async fn ask(ctx: Ctx, (): ()) -> Result<String, ToolError> {
    let form = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let answer = ctx
        .elicit(&ElicitRequest::form("Who are you?", form))
        .await?;
    Ok(format!("{:?}", answer.action))
}

/// Sends notifications until it is told to stop.
async fn flood(ctx: Ctx, told: &Mutex<Vec<String>>) {
    let piece = "x".repeat(64 << 10);
    loop {
        if let Some(reason) = ctx.reason() {
            return told
                .lock()
                .expect("the reasons")
                .push(reason.as_str().to_owned());
        }
        ctx.notify("test/flood", json!({ "piece": piece }));
        tokio::task::yield_now().await;
    }
}
