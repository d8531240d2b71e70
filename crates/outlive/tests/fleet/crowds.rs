//! Many clients at once, and everything that can happen meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlive::Gateway;
use outlive::client::Era;
use serde_json::json;

use crate::rig::{Fleet, in_time, named, named_server, said, tools, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_clients_call_many_servers_at_once() {
    let shared = named("b").share(true);
    let fleet = Fleet::of([("a", named("a")), ("b", shared), ("c", named("c"))]).await;
    let fleet = Arc::new(fleet);
    let clients: Vec<_> = (0..12)
        .map(|number| {
            let fleet = fleet.clone();
            tokio::spawn(async move {
                let era = if number % 3 == 0 {
                    Era::Modern
                } else {
                    Era::Legacy
                };
                let client = fleet.client_of(era).await;
                assert_eq!(tools(&client).await.len(), 6);
                let calls = (0..30).map(|n| {
                    let (client, name) = (client.clone(), ["a", "b", "c"][n % 3]);
                    tokio::spawn(async move {
                        assert_eq!(said(&client, &format!("{name}__who")).await, name);
                    })
                });
                let calls: Vec<_> = calls.collect();
                for call in calls {
                    in_time(call).await.expect("its own answer");
                }
                in_time(client.close()).await;
            })
        })
        .collect();
    for client in clients {
        in_time(client).await.expect("no assertion failed");
    }
    let left = || fleet.gateway.upstreams().into_iter();
    let dedicated = |it: &outlive::gateway::Upstream| it.sharing.name() == "one_session";
    // The bridge to servers of the other era may have one of each.
    until("clients' own have ended", async || {
        left().filter(dedicated).count() <= 3
    })
    .await;
    let fleet = Arc::into_inner(fleet).expect("nobody else");
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_hangs_whatever_happens_at_once() {
    let server = named_server("a").build();
    let handle = server.handle();
    let fleet = Fleet::of([
        ("a", Gateway::server(&server)),
        ("b", named("b").share(true)),
        (
            "c",
            named("c").idle_stop(Duration::from_millis(20)).share(true),
        ),
    ])
    .await;
    let fleet = Arc::new(fleet);
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for number in 0..8 {
        let (fleet, over) = (fleet.clone(), over.clone());
        tasks.push(tokio::spawn(async move {
            let mut rounds = 0;
            while !over.load(Ordering::Relaxed) || rounds == 0 {
                rounds += 1;
                let era = if number % 4 == 0 {
                    Era::Modern
                } else {
                    Era::Legacy
                };
                let client = fleet.client_of(era).await;
                let _ = in_time(client.tools()).await;
                let calls: Vec<_> = (0..12)
                    .map(|n| {
                        let name = ["a", "b", "c"][n % 3];
                        client.call(&format!("{name}__who"), json!({})).start()
                    })
                    .collect();
                for (n, call) in calls.into_iter().enumerate() {
                    if n % 5 == 4 {
                        drop(call);
                    } else {
                        // A result or an error: never neither.
                        let _ = in_time(call).await;
                    }
                }
                if number % 2 == 0 {
                    in_time(client.close()).await;
                }
            }
        }));
    }
    for round in 0..15 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        handle.add_tool(format!("t{round}"), "", |_, (): ()| async { "t" });
        if round % 5 == 3 {
            fleet.gateway.restart();
        }
        if round % 3 == 2 {
            handle.remove_tool(&format!("t{}", round - 1));
        }
    }
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        in_time(task).await.expect("no panic");
    }
    let fleet = Arc::into_inner(fleet).expect("nobody else");
    fleet.end().await;
}
