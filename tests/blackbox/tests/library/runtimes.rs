//! Who owns a connection, and who may use it: nobody's task, and everybody.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use outlive::client::State;
use outlive::error::Outcome;
use outlive::{Client, Error};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::rig::{FOR_EVER, Over, PATIENCE, Rig, ping, within};

/// As simple as an executor can be.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let start = Instant::now();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "it happens before patience runs out"
        );
        thread::park_timeout(PATIENCE);
    }
}

fn current_thread() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Waits until no process of the test is left.
fn deserted(rig: &Rig) {
    current_thread().block_on(rig.deserted());
}

#[test]
fn a_client_needs_no_runtime() {
    async fn roots() -> Result<Vec<outlive::model::Root>, outlive::model::RpcError> {
        Ok(vec![outlive::model::Root::new("file:///home")])
    }
    let rig = Rig::legacy();
    let client = block_on(rig.client().roots(roots).connect()).expect("it connects");
    let pong = block_on(client.call("ping", json!({})).into_future()).unwrap();
    assert_eq!(pong.text(), "pong");
    let ask = json!({ "method": "roots/list", "params": {} });
    let asked = block_on(client.call("ask", ask).into_future()).unwrap();
    assert!(asked.text().contains("file:///home"));
    let crash = client.call("crash", json!({ "code": 1 }));
    assert!(matches!(
        block_on(crash.into_future()),
        Err(Error::ConnectionLost { .. })
    ));
    block_on(client.ready()).unwrap();
    block_on(client.call("ping", json!({})).into_future()).unwrap();
    drop(client.call("sleep", json!({ "ms": FOR_EVER })).start());
    block_on(client.close());
    assert_eq!(client.state(), State::Closed);
    deserted(&rig);

    // Nor does one that is just dropped.
    let rig = Rig::legacy();
    let client = block_on(rig.client().connect()).expect("it connects");
    let mut events = client.events();
    drop(client);
    block_on(async { while events.next().await.is_some() {} });
    deserted(&rig);
}

#[test]
fn fm_69_connections_are_closed_from_anywhere_in_any_order() {
    let home = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let rigs = [Over::Pipes, Over::Socket, Over::Pipes].map(|over| Rig::legacy().over(over));
    // The task that opened them is cancelled as soon as it has.
    let (send, receive) = std::sync::mpsc::channel::<Client>();
    let clients: Vec<Client> = home.block_on(async {
        let mut clients = Vec::new();
        for rig in &rigs {
            clients.push(rig.connect().await);
        }
        let passed: Vec<Client> = clients.clone();
        let opener = tokio::spawn(async move {
            for client in passed {
                send.send(client).expect("somebody takes it");
            }
            std::future::pending::<()>().await
        });
        let taken = (0..3).map(|_| receive.recv().expect("a client")).collect();
        opener.abort();
        assert!(opener.await.unwrap_err().is_cancelled());
        taken
    });
    let [first, second, third] = <[Client; 3]>::try_from(clients).expect("three");

    // Used and closed out of order: from another runtime, from a thread without one, from a task.
    let other = thread::spawn(move || {
        current_thread().block_on(async {
            ping(&third).await;
            within(third.close()).await;
            third.state()
        })
    });
    assert_eq!(other.join().expect("no panic"), State::Closed);
    let bare = thread::spawn(move || {
        let pong = block_on(first.call("ping", json!({})).into_future());
        assert_eq!(pong.expect("pong").text(), "pong");
        block_on(first.close());
        first.state()
    });
    assert_eq!(bare.join().expect("no panic"), State::Closed);
    home.block_on(async {
        ping(&second).await;
        within(tokio::spawn(async move { second.close().await }))
            .await
            .expect("no panic");
    });
    for rig in &rigs {
        deserted(rig);
    }
}

#[test]
fn when_the_runtime_goes_the_client_says_so() {
    for runtime in [
        current_thread(),
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime"),
    ] {
        let rig = Rig::legacy();
        let (client, running) = runtime.block_on(async {
            let client = rig.connect().await;
            let running = client
                .call("sleep", json!({ "ms": FOR_EVER }))
                .progress()
                .start();
            rig.received("tools/call", 1).await;
            (client, running)
        });
        let mut events = client.events();
        let mut running = running;
        let mut progress = running.progress().expect("a stream");
        assert!(client.state().is_ready());
        drop(runtime);
        assert_eq!(client.state(), State::Closed);
        assert_eq!(rig.processes(), [0; 0], "nothing outlives what it says");
        assert!(block_on(progress.next()).is_none());
        let ended = block_on(running).unwrap_err();
        assert_eq!(
            ended,
            Error::ShuttingDown {
                outcome: Outcome::Unknown
            }
        );
        let after = block_on(client.call("ping", json!({})).into_future()).unwrap_err();
        assert_eq!(
            after,
            Error::ShuttingDown {
                outcome: Outcome::NotSent
            }
        );
        block_on(client.close());
        block_on(async { while events.next().await.is_some() {} });
        assert!(block_on(client.ready()).is_err());
    }
}

/// A server lives as long as its client, not as long as the thread that happened to start it.
#[test]
fn a_server_outlives_the_thread_it_was_connected_from() {
    let home = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let rig = Rig::legacy();
    let client = thread::scope(|scope| {
        let opening = scope.spawn(|| home.block_on(rig.connect()));
        opening.join().expect("no panic")
    });
    let first = rig.pid();
    assert_eq!(home.block_on(ping(&client)), first);
    home.block_on(within(client.close()));
}
