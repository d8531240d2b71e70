//! A gateway as a process of its own: where it listens, and what signals mean to it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;

use super::Gateway;
use crate::process::server;
use crate::process::signals::{Signal, Signals};
use crate::server::Http;

/// Serves a gateway at this address until a signal stops it: `SIGTERM` and `SIGINT` end it gracefully, a
/// second one at once; `SIGHUP` puts new servers under all sessions, and reads tokens and certificates
/// again. `listening` is told where it listens.
///
/// For a process that does nothing else: orphans that servers leave behind become children of this process (Linux)
/// and are ended.
pub async fn run(
    gateway: &Gateway,
    http: Http,
    address: &str,
    listening: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    server::own_orphans();
    let mut signals = Signals::new()?;
    let server = http.bind(address).await?;
    listening(server.local_addr());
    let reread = server.rereader();
    let hand_over = server.hand_over();
    let gateway = gateway.clone();
    tokio::spawn(async move {
        loop {
            match poll_fn(|cx| signals.poll_next(cx)).await {
                Signal::Stop => match &hand_over {
                    // Sessions that are kept elsewhere go on there.
                    Some(hand_over) if hand_over.begin() => {}
                    Some(_) => {
                        gateway.shutdown();
                        gateway.shutdown();
                    }
                    None => gateway.shutdown(),
                },
                Signal::Restart => {
                    reread();
                    gateway.restart();
                }
            }
        }
    });
    server.serve().await
}
