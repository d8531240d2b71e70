//! A gateway of several servers on a real socket, and clients of it.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::time::Duration;

use outlive::client::{Builder as ClientBuilder, Era};
use outlive::gateway::{Builder, Several};
use outlive::{Client, Gateway, Remote, Server};
use serde_json::json;
use tokio::task::JoinHandle;

/// Only a hang takes as long.
pub const HANG: Duration = Duration::from_secs(60);

pub async fn in_time<T>(what: impl IntoFuture<Output = T>) -> T {
    let done = tokio::time::timeout(HANG, what.into_future()).await;
    done.expect("it hangs")
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < HANG, "it is never so: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A gateway that is being served.
pub struct Fleet {
    pub gateway: Gateway,
    pub address: SocketAddr,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Fleet {
    pub async fn of<const N: usize>(targets: [(&str, Builder); N]) -> Fleet {
        Fleet::new(Gateway::of(targets)).await
    }

    pub async fn new(several: Several) -> Fleet {
        let gateway = several.build().expect("a gateway");
        let listening = gateway.http().bind("127.0.0.1:0").await.expect("a port");
        let address = listening.local_addr();
        let serving = tokio::spawn(listening.serve());
        Fleet {
            gateway,
            address,
            serving,
        }
    }

    /// Where something is served.
    pub fn url(&self, path: &str) -> Remote {
        Remote::new(format!("http://{}{path}", self.address))
    }

    /// A legacy client of all servers, not yet connected.
    pub fn client_builder(&self) -> ClientBuilder<Remote> {
        Client::builder().url(self.url("/mcp")).era(Era::Legacy)
    }

    pub async fn client_of(&self, era: Era) -> Client {
        let builder = self.client_builder().era(era);
        in_time(builder.connect()).await.expect("a client")
    }

    pub async fn client(&self) -> Client {
        in_time(self.client_builder().connect())
            .await
            .expect("a client")
    }

    /// Ends it, gracefully, and waits for that.
    pub async fn end(self) {
        self.gateway.shutdown();
        in_time(self.serving)
            .await
            .expect("no panic")
            .expect("served");
        assert!(self.gateway.upstreams().is_empty());
    }

    /// The names of the targets that have servers.
    pub fn running(&self) -> BTreeSet<String> {
        let upstreams = self.gateway.upstreams().into_iter();
        upstreams.map(|upstream| upstream.target).collect()
    }
}

/// A server in this process with a tool that says its name, and one that it shares with others.
pub fn named(name: &'static str) -> Builder {
    Gateway::server(&named_server(name).build())
}

pub fn named_server(name: &'static str) -> outlive::server::Builder {
    Server::builder(name, "1")
        .tool(
            "who",
            "Says who it is.",
            move |_, (): ()| async move { name },
        )
        .tool(name, "Is here only.", move |_, (): ()| async move { name })
}

/// The names of all tools that a client sees.
pub async fn tools(client: &Client) -> Vec<String> {
    let tools = in_time(client.tools()).await.expect("a list");
    tools.into_iter().map(|tool| tool.name.clone()).collect()
}

/// What a tool without arguments says.
pub async fn said(client: &Client, tool: &str) -> String {
    let result = in_time(client.call(tool, json!({}))).await;
    result.expect("a result").text()
}
