//! Where the sessions of clients over HTTP are kept, so that they outlive the process that answers them.
//!
//! # Theory
//!
//! A listener keeps its sessions in memory. With a [`Store`] it also keeps, elsewhere, what a successor must know of
//! each ([`Part`]s of a record), and who may act for it ([`Tenure`]). The rules are those of
//! [`tenure`](outlive_core::tenure) and [`session_record`](outlive_core::session_record): a store only has to do each
//! of these things at once and to remember it before it answers.
//!
//! - [`MemoryStore`]: for tests, and for several listeners within one process.
//! - `FileStore` (feature `store`): an embedded database in a directory, for one process at a time. Sessions survive
//!   `SIGKILL`, a restart and an upgrade.
//! - `RedisStore` (feature `redis`): Redis or Valkey, for any number of processes, each of which takes over what
//!   another one leaves behind.
//!
//! ```no_run
//! use std::sync::Arc;
//! use outlive::store::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let server = outlive::Server::builder("demo", "1.0.0").build();
//! let store = Arc::new(MemoryStore::default());
//! server.http().store(store).bind("127.0.0.1:8000").await?.serve().await
//! # }
//! ```
//!
//! The tests of this crate (`tests/store`) have a suite for implementations.

#[cfg(feature = "store")]
mod file;
mod memory;
#[cfg(feature = "redis")]
mod redis;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;

#[cfg(feature = "store")]
pub use self::file::FileStore;
pub use self::memory::MemoryStore;
#[cfg(feature = "redis")]
pub use self::redis::RedisStore;
pub use outlive_core::session_record::{Part, Write};
pub use outlive_core::tenure::{Fence, Owner, Tenure};

/// What a store answers, when it does.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Where sessions are kept. What it has answered it does not forget, as far as it can help it. A call that is dropped
/// may have been carried out.
pub trait Store: Send + Sync + 'static {
    /// How long an owner that was not heard from keeps its sessions; `None` if no other process can use the store at
    /// the same time, so that whoever can knows that the owner before is gone.
    fn lease(&self) -> Option<Duration> {
        None
    }

    /// An owner begins, or is still there. Other owners reach it at this address, if it is not empty. False if its
    /// lease has run out.
    fn renew<'a>(&'a self, owner: Owner, address: &'a str, begins: bool) -> Answer<'a, bool>;

    /// An owner ends: its sessions may be claimed at once.
    fn leave(&self, owner: Owner) -> Answer<'_, ()>;

    /// Keeps a new session of this principal, which ends by itself when it was not [touched](Store::touch) for `ttl`.
    fn begin(&self, session: NewSession) -> Answer<'_, Tenure>;

    /// Takes a session over, if it is this principal's and its owner is gone, or this one.
    fn claim(&self, id: &str, principal: &str, by: Owner) -> Answer<'_, Claimed>;

    /// Changes parts of a session, all of them or none. Writes of a tenure are numbered from 1 and made one at a time;
    /// one whose number is not above the last is not carried out again. False if the tenure is not the newest, or the
    /// session has ended.
    fn write(&self, id: &str, tenure: Tenure, number: u64, writes: Vec<Write>) -> Answer<'_, bool>;

    /// These sessions are in use: they are kept for `ttl` from now on. Also forgets what has run out.
    fn touch(&self, sessions: Vec<(String, Tenure)>, ttl: Duration) -> Answer<'_, ()>;

    /// Gives a session back: the next owner need not wait.
    fn release(&self, id: &str, tenure: Tenure) -> Answer<'_, ()>;

    /// Forgets a session, unless it has another owner by now.
    fn end(&self, id: &str, tenure: Tenure) -> Answer<'_, ()>;
}

/// A session that begins.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NewSession {
    /// Its id, which nobody can guess.
    pub id: String,
    /// Whose it is: a word that is no secret and stays the same.
    pub principal: String,
    /// Who acts for it.
    pub owner: Owner,
    /// What is known of it.
    pub parts: Vec<(Part, Bytes)>,
    /// How long it is kept if nobody uses it.
    pub ttl: Duration,
}

impl NewSession {
    /// A session with these properties.
    pub fn new(
        id: impl Into<String>,
        principal: impl Into<String>,
        owner: Owner,
        parts: Vec<(Part, Bytes)>,
        ttl: Duration,
    ) -> NewSession {
        NewSession {
            id: id.into(),
            principal: principal.into(),
            owner,
            parts,
            ttl,
        }
    }
}

/// What becomes of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The session is the claimant's, with these parts.
    Granted(Tenure, Vec<(Part, Bytes)>),
    /// It is somebody else's, who lives.
    Held {
        /// Whose it is.
        owner: Owner,
        /// Where that owner is reached by others; empty if it has told no address.
        address: String,
    },
    /// There is no such session, or it is another principal's.
    Absent,
}

/// Why a store has not done what it was asked. It may work later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError(String);

impl StoreError {
    /// For this reason, which is told to whoever runs the listener.
    pub fn new(why: impl Into<String>) -> StoreError {
        StoreError(why.into())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}
