//! Servers over HTTP.
//!
//! Theory of operation. Over a pipe a server is a process and a link is its life. Over HTTP a server is an
//! address, and a link is one session there: with a legacy server what `initialize` opened and
//! `Mcp-Session-Id` names, with a modern one, which keeps nothing between requests, merely the time we have
//! used it for. Each request has an exchange of its own, and each exchange an end of its own, so what
//! the link reports beside messages are the *failures* of requests: refused, never sent, lost. What is
//! to be done about them is decided elsewhere ([`outlive_core`]), once for all transports.
//!
//! | file | what it is |
//! |---|---|
//! | `remote` | a server, as the user describes it |
//! | `link` | one session, seen from the driver |
//! | `session` | what all exchanges of a session share |
//! | `exchange` | one message, one POST |
//! | `body` | what is posted, and when it was written |
//! | `known` | what is known of the server, from one session to the next |
//! | `era` | what is said where a host and a server are of different eras |
//! | `listing` | tools listed again, for the sake of a call's headers |
//! | `verdict` | what a response without an answer means |
//! | `get_stream` | the stream on which a legacy server speaks unasked |
//! | `channel` | the stream of an HTTP+SSE server |
//! | `heartbeat` | how long a stream may be silent |
//! | `mirror` | what a modern request says in its headers |
//! | `headers` | what the user wants on every request |
//! | `credentials` | what a program obtains when a server wants it |
//! | `tls` | whom we trust |
//!
//! Connections are made by [`reqwest`]. They are used again only for a few seconds, asked for signs of life
//! while they are silent, and thrown away, all of them, when one broke.

mod body;
mod channel;
mod credentials;
mod era;
mod exchange;
mod get_stream;
mod headers;
mod heartbeat;
mod known;
mod link;
mod listing;
mod mirror;
mod remote;
mod report;
mod session;
mod tls;
mod verdict;

pub use credentials::{Challenge, Credentials};
pub(crate) use remote::Sessions;
pub use remote::{Remote, RemoteError, Transport};
