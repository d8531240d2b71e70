//! The end of a server, as its own program and its clients see it.

use std::time::Duration;

use outlive::error::Outcome;
use outlive::server::Ctx;
use outlive::{Client, Error, Server, memory};
use serde_json::json;

use super::{ERAS, in_time, served_by};

/// A server whose tool never ends by itself, one call at a time.
fn endless() -> Server {
    Server::builder("endless", "1")
        .concurrency(1)
        .grace(Duration::from_millis(50))
        .tool("wait", "", |_: Ctx, (): ()| {
            std::future::pending::<String>()
        })
        .build()
}

#[tokio::test]
async fn a_shutdown_before_the_server_is_served_is_not_lost() {
    let server = endless();
    server.handle().shutdown();
    let (_client, end) = memory::pair();
    in_time(server.serve(end)).await.expect("an end");
}

#[cfg(feature = "http-server")]
#[tokio::test]
async fn a_shutdown_before_the_server_is_served_over_http_is_not_lost() {
    let server = endless();
    let listening = server.http().bind("127.0.0.1:0").await.expect("an address");
    server.handle().shutdown();
    in_time(listening.serve()).await.expect("an end");
}

#[tokio::test]
async fn a_client_is_told_that_the_server_shut_down() {
    for era in ERAS {
        let server = endless();
        let client = Client::builder().connector(served_by(server.clone()));
        let client = in_time(client.era(era).connect())
            .await
            .expect("to connect");
        let running = client.call("wait", json!({})).start();
        let queued = client.call("wait", json!({})).start();
        // With its answer, the calls before it have been read.
        in_time(client.ping()).await.expect("an answer");
        server.handle().shutdown();
        let expected = [(running, Outcome::Unknown), (queued, Outcome::Rejected)];
        for (call, outcome) in expected {
            let ended = in_time(call).await.expect_err("it cannot be answered");
            assert_eq!(ended, Error::ShuttingDown { outcome }, "{era:?}");
        }
    }
}
