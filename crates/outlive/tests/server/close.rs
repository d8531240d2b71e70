//! The client leaves: politely, rudely, in the middle.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use outlive::server::{CancelReason, Server};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::rig::{Client, on_both_runtimes, soon, text};

/// What the handlers of a test saw, and how many there are.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>);

impl Seen {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn start(&self) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until that many handlers are at work.
    async fn started(&self, count: usize) {
        soon(async {
            while self.1.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// All that was seen, once it is as much as expected.
    async fn all(&self, expected: &[&str]) {
        soon(async {
            while self.0.lock().unwrap().len() < expected.len() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        let mut all = self.0.lock().unwrap().clone();
        all.sort();
        assert_eq!(all, expected);
    }
}

struct Leaves(Seen, &'static str);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

/// A server with handlers that listen, that do not, that ask, and that finish.
fn server(seen: &Seen) -> Server {
    let [waits, stubborn, asks, finish] = [(); 4].map(|()| seen.clone());
    Server::builder("leaving", "1")
        .grace(Duration::from_millis(400))
        .drain(Duration::from_secs(2))
        .tool("wait", "", move |ctx, (): ()| {
            let seen = waits.clone();
            async move {
                seen.start();
                let reason = ctx.cancelled().await;
                seen.note(format!("told {}", reason.as_str()));
                "too late"
            }
        })
        .tool("stubborn", "", move |_, (): ()| {
            let leaves = Leaves(stubborn.clone(), "stubborn dropped");
            async move {
                leaves.0.start();
                let _leaves = leaves;
                std::future::pending::<()>().await;
            }
        })
        .tool("ask", "", move |ctx, (): ()| {
            let seen = asks.clone();
            async move {
                seen.start();
                let error = ctx.roots().await.expect_err("nobody answers");
                seen.note(format!("ask {}", error.kind()));
            }
        })
        .tool("finish", "", move |_, (): ()| {
            let seen = finish.clone();
            async move {
                seen.start();
                tokio::time::sleep(Duration::from_millis(10)).await;
                "finished"
            }
        })
        .build()
}

const ALL: [&str; 3] = [
    "ask shutting_down",
    "stubborn dropped",
    "told transport_closed",
];

async fn with_handlers(seen: &Seen) -> Client {
    let mut client = Client::legacy(&server(seen)).await;
    for (id, tool) in ["wait", "stubborn", "ask"].into_iter().enumerate() {
        client.begin_call(id, tool, json!({})).await;
    }
    client.told("roots/list").await;
    seen.started(3).await;
    client
}

/// FM-20, FM-51: both directions are gone at once.
#[test]
fn fm_20_a_client_that_vanishes_ends_its_handlers_and_nothing_else() {
    on_both_runtimes(|| async {
        let seen = Seen::default();
        let client = with_handlers(&seen).await;
        client.vanish().await;
        seen.all(&ALL).await;
    });
}

/// FM-56: the client sends no more but reads: what can finish is answered, what cannot is ended.
#[test]
fn fm_56_a_client_that_closes_its_side_gets_the_answers_it_is_owed() {
    on_both_runtimes(|| async {
        let seen = Seen::default();
        let mut client = with_handlers(&seen).await;
        client.begin_call("f", "finish", json!({})).await;
        client.begin_call("g", "finish", json!({})).await;
        let said = client.finish().await;
        let mut answered: Vec<_> = said
            .iter()
            .map(|message| message["id"].to_string())
            .collect();
        answered.sort();
        // The one that asked was told that nobody will answer it, and finished too.
        assert_eq!(answered, ["\"f\"", "\"g\"", "2"]);
        for message in &said {
            assert!(message["result"].is_object(), "{message}");
        }
        seen.all(&ALL).await;
    });
}

#[test]
fn fm_51_a_request_to_a_client_that_left_ends_with_an_error() {
    on_both_runtimes(|| async {
        let seen = Seen::default();
        let mut client = Client::legacy(&server(&seen)).await;
        client.begin_call(1, "ask", json!({})).await;
        client.told("roots/list").await;
        client.vanish().await;
        seen.all(&["ask shutting_down"]).await;
    });
}

#[test]
fn a_shutdown_tells_handlers_and_answers_for_those_that_do_not_finish() {
    on_both_runtimes(|| async {
        let seen = Seen::default();
        let server = server(&seen);
        let mut client = Client::legacy(&server).await;
        client.begin_call("w", "wait", json!({})).await;
        client.begin_call("s", "stubborn", json!({})).await;
        client.begin_call("f", "finish", json!({})).await;
        seen.started(3).await;
        server.handle().shutdown();
        assert_eq!(
            text(&client.answer_to("w").await),
            "too late",
            "but not for an answer"
        );
        assert_eq!(text(&client.answer_to("f").await), "finished");
        let refused = client.answer_to("s").await;
        assert_eq!(refused["error"]["data"]["outlive"]["kind"], "shutting_down");
        assert_eq!(client.finish().await, [] as [Value; 0]);
        seen.all(&["stubborn dropped", "told shutdown"]).await;
    });
}

#[test]
fn dropping_the_future_shuts_the_server_down() {
    on_both_runtimes(|| async {
        let seen = Seen::default();
        let server = server(&seen);
        let (ours, theirs) = outlive::memory::pair();
        {
            let serving = server.serve(theirs);
            let mut serving = std::pin::pin!(serving);
            let started = tokio::time::timeout(Duration::from_millis(20), &mut serving).await;
            assert!(started.is_err(), "it serves");
        }
        assert_eq!(server.handle().clients(), 0);
        soon(async {
            let (mut reader, _writer) = tokio::io::split(ours);
            let mut rest = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut reader, &mut rest)
                .await
                .unwrap();
        })
        .await;
    });
}

#[test]
fn one_client_that_leaves_takes_nothing_from_another() {
    on_both_runtimes(|| async {
        let seen = Seen::default();
        let server = server(&seen);
        let mut stays = Client::legacy(&server).await;
        let mut leaves = Client::legacy(&server).await;
        stays.begin_call(1, "finish", json!({})).await;
        leaves.begin_call(1, "stubborn", json!({})).await;
        leaves.ping("running").await;
        leaves.vanish().await;
        assert_eq!(text(&stays.answer_to(1).await), "finished");
        assert_eq!(text(&stays.call(2, "finish", json!({})).await), "finished");
        stays.vanish().await;
    });
}

/// A stream that fails in a way of the test's choosing once it has said its lines.
struct Failing {
    lines: Vec<u8>,
    how: Arc<Mutex<How>>,
}

enum How {
    NotYet(Option<Waker>),
    Reading(io::ErrorKind),
    Writing(io::ErrorKind),
}

impl Failing {
    fn new(how: &Arc<Mutex<How>>) -> Failing {
        let lines = [
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "failing", "version": "1" } } }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "wait" } }),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "stubborn" } }),
            json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": "finish" } }),
        ];
        Failing {
            lines: lines.map(|line| format!("{line}\n")).concat().into_bytes(),
            how: how.clone(),
        }
    }
}

impl AsyncRead for Failing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.lines.is_empty() {
            buf.put_slice(&std::mem::take(&mut self.lines));
            return Poll::Ready(Ok(()));
        }
        match &mut *self.how.lock().unwrap() {
            How::Reading(kind) => Poll::Ready(Err((*kind).into())),
            How::NotYet(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            How::Writing(_) => Poll::Pending,
        }
    }
}

impl AsyncWrite for Failing {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match *self.how.lock().unwrap() {
            How::Writing(kind) => Poll::Ready(Err(kind.into())),
            _ => Poll::Ready(Ok(buf.len())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// FM-20: however a stream breaks, handlers are told, dropped after their grace, and the server
/// returns without an error.
#[test]
fn fm_20_a_stream_that_breaks_is_the_end_of_its_connection_only() {
    on_both_runtimes(|| async {
        for broken in [
            How::Reading(io::ErrorKind::ConnectionReset),
            How::Reading(io::ErrorKind::Other),
            How::Writing(io::ErrorKind::BrokenPipe),
            How::Writing(io::ErrorKind::ConnectionReset),
            How::Writing(io::ErrorKind::WriteZero),
        ] {
            let seen = Seen::default();
            let server = server(&seen);
            let how = Arc::new(Mutex::new(How::NotYet(None)));
            let stream = Failing::new(&how);
            let serving = tokio::spawn(async move { server.serve(stream).await });
            let waker = loop {
                tokio::time::sleep(Duration::from_millis(1)).await;
                if let How::NotYet(waker @ Some(_)) = &mut *how.lock().unwrap() {
                    break waker.take();
                }
            };
            seen.started(3).await;
            *how.lock().unwrap() = broken;
            waker.unwrap().wake();
            soon(serving).await.expect("no panic").expect("no error");
            seen.all(&["stubborn dropped", "told transport_closed"])
                .await;
        }
    });
}

#[test]
fn reasons_have_names() {
    let reasons = [
        (CancelReason::Client(None), "client"),
        (CancelReason::TransportClosed, "transport_closed"),
        (CancelReason::Deadline, "deadline"),
        (CancelReason::Shutdown, "shutdown"),
    ];
    for (reason, name) in reasons {
        assert_eq!(reason.as_str(), name);
    }
}
