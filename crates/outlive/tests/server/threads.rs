//! Handlers that block, panic, or are many.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive::server::Server;
use serde_json::{Value, json};

use crate::rig::{Client, on_both_runtimes, soon, text};

/// A tool that blocks its thread until it is let go.
struct Gate {
    open: SyncSender<()>,
    blocked: Arc<AtomicUsize>,
    wait: Arc<Mutex<Receiver<()>>>,
}

impl Gate {
    fn new() -> Gate {
        let (open, wait) = mpsc::sync_channel(1000);
        Gate {
            open,
            blocked: Arc::default(),
            wait: Arc::new(Mutex::new(wait)),
        }
    }

    fn server(&self) -> outlive::server::Builder {
        let (blocked, wait) = (self.blocked.clone(), self.wait.clone());
        Server::builder("blocking", "1")
            .tool("block", "", move |_, (): ()| {
                let (blocked, wait) = (blocked.clone(), wait.clone());
                async move {
                    blocked.fetch_add(1, Ordering::SeqCst);
                    // In an async function, without a thought for whoever shares the thread.
                    while wait.lock().unwrap().try_recv().is_err() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    "blocked"
                }
            })
            .tool("ping", "", |_, (): ()| async { "pong" })
            .tool("sleep", "", |_, (): ()| async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                "slept"
            })
            .tool("spawn", "", |_, (): ()| async {
                tokio::spawn(async { "spawned" }).await
            })
    }

    async fn until_blocked(&self, client: &mut Client, count: usize) {
        while self.blocked.load(Ordering::SeqCst) < count {
            client.ping("wait").await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn let_go(&self, count: usize) {
        for _ in 0..count {
            self.open.send(()).unwrap();
        }
    }
}

/// FM-64. Far more handlers block than there are processors.
#[test]
fn fm_64_handlers_that_block_their_threads_stop_nobody() {
    const MANY: usize = 50;
    on_both_runtimes(|| async {
        let gate = Gate::new();
        let mut client = Client::legacy(&gate.server().build()).await;
        for id in 0..MANY {
            client.begin_call(id, "block", json!({})).await;
        }
        gate.until_blocked(&mut client, MANY).await;

        client.ping("ping").await;
        assert_eq!(text(&client.call("a", "ping", json!({})).await), "pong");
        assert_eq!(text(&client.call("b", "sleep", json!({})).await), "slept");
        assert_eq!(text(&client.call("c", "spawn", json!({})).await), "spawned");
        client.cancel(0, "enough").await;
        client.ping("after the cancel").await;
        assert_eq!(client.kept(), [] as [Value; 0]);

        gate.let_go(MANY);
        for id in 1..MANY {
            assert_eq!(text(&client.answer_to(id).await), "blocked");
        }
        client.ping("last").await;
        assert_eq!(
            client.kept(),
            [] as [Value; 0],
            "the cancelled one says nothing"
        );
        client.vanish().await;
    });
}

/// While handlers are quick, the thread that reads runs them itself. If one then blocks, another
/// thread goes on reading.
#[test]
fn fm_64_a_handler_that_blocks_the_thread_that_reads_stops_nobody() {
    on_both_runtimes(|| async {
        let gate = Gate::new();
        let here = |_, (): ()| async {
            let thread = std::thread::current();
            thread.name().unwrap_or_default().to_owned()
        };
        let server = gate.server().tool("here", "", here).build();
        let mut client = Client::legacy(&server).await;
        for round in 1..=5 {
            // Until it is the thread that reads.
            soon(async {
                while text(&client.call("h", "here", json!({})).await) != "outlive-server" {}
            })
            .await;
            client.begin_call(round, "block", json!({})).await;
            gate.until_blocked(&mut client, round).await;
            client.ping("ping").await;
            assert_eq!(text(&client.call("p", "ping", json!({})).await), "pong");
            gate.let_go(1);
            assert_eq!(text(&client.answer_to(round).await), "blocked");
        }
        client.vanish().await;
    });
}

/// An answer that waits for the next handler to end, so as to leave together, must not wait for one
/// that blocks.
#[test]
fn an_answer_does_not_wait_for_a_handler_that_blocks_after_it() {
    on_both_runtimes(|| async {
        let gate = Gate::new();
        let mut client = Client::legacy(&gate.server().build()).await;
        for round in 0..20 {
            // In one write, so that one thread may find them next to each other.
            let mut lines = Vec::new();
            for (id, tool) in [("p", "ping"), ("b", "block"), ("q", "ping"), ("c", "block")] {
                let params = json!({ "name": tool });
                let id = format!("{id}{round}");
                let call =
                    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                lines.push(call.to_string());
            }
            client.send_line(lines.join("\n").as_bytes()).await;
            for id in ["p", "q"] {
                assert_eq!(
                    text(&client.answer_to(format!("{id}{round}")).await),
                    "pong"
                );
            }
            gate.let_go(2);
            for id in ["b", "c"] {
                client.answer_to(format!("{id}{round}")).await;
            }
        }
        client.vanish().await;
    });
}

/// FM-63.
#[test]
fn fm_63_a_panicking_handler_is_answered_for_and_the_server_lives() {
    on_both_runtimes(|| async {
        #[derive(Default)]
        struct Thrower(Arc<AtomicUsize>);
        impl Drop for Thrower {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
                if !std::thread::panicking() {
                    panic!("while being dropped");
                }
            }
        }
        let (held, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = (held.clone(), dropped.clone());
        let server = Server::builder("panicking", "1")
            .tool("now", "", |_, (): ()| async {
                if true {
                    panic!("at once");
                }
            })
            .tool("before", "", |_, (): ()| {
                if true {
                    panic!("before there is a future");
                }
                async {}
            })
            .tool("later", "", |_, (): ()| async {
                tokio::time::sleep(Duration::from_millis(2)).await;
                if true {
                    std::panic::panic_any(7);
                }
            })
            .tool("drop", "", |_, (): ()| async {
                let _thrower = Thrower::default();
                tokio::task::yield_now().await;
            })
            .tool("held", "", move |_, (): ()| {
                let (held, dropped) = counted.clone();
                async move {
                    let _thrower = Thrower(dropped);
                    held.fetch_add(1, Ordering::SeqCst);
                    std::future::pending::<()>().await;
                }
            })
            .tool("ping", "", |_, (): ()| async { "pong" })
            .grace(Duration::from_millis(5))
            .build();
        let mut client = Client::legacy(&server).await;
        // Dropped by the server: nobody to answer to, and nothing to end.
        client.begin_call("held", "held", json!({})).await;
        soon(counted_to(&held, 1)).await;
        client.cancel("held", "drop it").await;
        for (id, tool) in ["now", "before", "later", "drop"].into_iter().enumerate() {
            let answer = client.call(id, tool, json!({})).await;
            assert_eq!(answer["error"]["code"], -32603, "{tool}");
            let said = answer["error"]["message"].as_str().unwrap();
            assert!(said.contains("panicked"), "{said}");
            assert_eq!(
                text(&client.call(format!("p{id}"), "ping", json!({})).await),
                "pong"
            );
        }
        soon(counted_to(&dropped, 1)).await;
        client.ping("last").await;
        assert_eq!(client.kept(), [] as [Value; 0]);
        client.vanish().await;
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    });
}

async fn counted_to(count: &AtomicUsize, n: usize) {
    while count.load(Ordering::SeqCst) < n {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn no_more_handlers_run_at_once_than_allowed_and_all_get_their_turn() {
    on_both_runtimes(|| async {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counted = (running.clone(), most.clone());
        let server = Server::builder("bounded", "1")
            .concurrency(7)
            .tool("count", "", move |_, (): ()| {
                let (running, most) = counted.clone();
                async move {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    "counted"
                }
            })
            .build();
        let mut client = Client::legacy(&server).await;
        for id in 0..200 {
            client.begin_call(id, "count", json!({})).await;
        }
        // Not behind the queue.
        client.ping("ping").await;
        for id in 0..200 {
            assert_eq!(text(&client.answer_to(id).await), "counted");
        }
        assert_eq!(most.load(Ordering::SeqCst), 7);
        client.vanish().await;
    });
}
