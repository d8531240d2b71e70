//! Servers over HTTP.
//!
//! # Theory
//!
//! A link is one session on a server. Which HTTP request is made when, what each response means
//! and how long anything is waited for is decided by [`outlive_core::http_upstream`], and nowhere here: a link carries
//! out what that says, and tells it what came back. There is no timer here but the one that it names.
//!
//! | file | what it is |
//! |---|---|
//! | `remote` | a server, as the user describes it |
//! | `link` | one session, seen from the driver |
//! | `request` | one HTTP request, and what comes back |
//! | `response` | the head of a response, as the rules read it |
//! | `body` | what is posted, and when it was written |
//! | `session` | what all HTTP requests of a session share: connections, address, name |
//! | `known` | what is known of the server, from one session to the next |
//! | `mirror` | what a modern request says in its headers |
//! | `headers` | what the user wants on every request |
//! | `credentials` | what a program obtains when a server wants it |
//! | `tls` | whom we trust |
//!
//! Connections are made by [`reqwest`]. They are used again only for a few seconds, asked for signs of life while they
//! are silent, and thrown away, all of them, when one broke.

mod body;
mod credentials;
mod headers;
mod known;
mod link;
mod mirror;
mod remote;
mod request;
mod response;
mod session;
mod tls;

pub use credentials::{Challenge, Credentials};
pub use outlive_core::http_upstream::Transport;
pub(crate) use remote::Sessions;
#[cfg(feature = "oauth")]
pub(crate) use remote::is_local;
pub use remote::{Remote, RemoteError};
#[cfg(feature = "oauth")]
pub(crate) use response::challenges;
#[cfg(any(feature = "oauth", feature = "tls"))]
pub(crate) use tls::config as tls_config;
