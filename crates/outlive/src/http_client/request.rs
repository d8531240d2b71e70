//! One HTTP request, and what comes back.
//!
//! A task makes it and tells its link what happens, until the link has heard enough and drops it. That a request was
//! written and that a response begins is told even while the server is not read, because what waits to be sent may wait
//! for it; there are two such signals for each request. What a response consists of waits until the link has room.

use bytes::Bytes;
use outlive_core::http_upstream::{Attempt, Failure, Head};
use outlive_core::login::LoginStatus;
use reqwest::Response;
use reqwest::header::HeaderValue;
use tokio::sync::mpsc;

use super::session::words;

/// How many pieces of responses may wait to be heard. While it is full, the server is not read.
const ROOM: usize = 256;

/// What is told at once.
#[derive(Debug)]
pub(super) enum Signal {
    /// The body of this request was written in full.
    Written(Attempt),
    /// A response begins. If it names a session, so.
    Response(Attempt, Box<Head>, Option<HeaderValue>),
    /// There is no response.
    Failed(Attempt, Failure),
    /// Whether somebody has to log in.
    Login(LoginStatus),
    /// Whether other credentials were obtained.
    Authenticated(Result<(), Option<String>>),
}

/// What is told when there is room for it.
#[derive(Debug)]
pub(super) enum Piece {
    /// A piece of a response.
    Chunk(Attempt, Bytes),
    /// A response is complete, or broke off for this reason.
    End(Attempt, Option<Failure>),
}

pub(super) type Signals = mpsc::UnboundedSender<Signal>;
pub(super) type Pieces = mpsc::Sender<Piece>;

pub(super) fn pieces() -> (Pieces, mpsc::Receiver<Piece>) {
    mpsc::channel(ROOM)
}

/// Reads a response to its end. Without a link there is nobody to tell.
pub(super) async fn read(attempt: Attempt, mut response: Response, pieces: Pieces) {
    let failure = loop {
        match response.chunk().await {
            Ok(Some(bytes)) => {
                if pieces.send(Piece::Chunk(attempt, bytes)).await.is_err() {
                    return;
                }
            }
            Ok(None) => break None,
            Err(error) => break Some(Failure::Broken(words(&error))),
        }
    };
    let _ = pieces.send(Piece::End(attempt, failure)).await;
}
