//! The files in which MCP hosts keep their servers.
//!
//! Each host has its own file and its own spelling, and people edit those files by hand. This crate knows where
//! they are ([`Host`]), what they say ([`read`]) and how to put `outlive run` in front of a server and take it
//! away again ([`wrap`], [`unwrap`]).
//!
//! **Theory.** JSON, TOML and YAML are parsed into one tree whose nodes know where in the text they stand. Reading
//! looks at the nodes. Editing replaces the few spans that change and never prints a tree, so comments, order and
//! formatting stay. What the tree does not show clearly is left alone, with the reason.
//!
//! Nothing here runs a program or writes a file. Values of variables and headers may be secrets: they are in no error
//! and in no `Debug` output.
//!
//! ```
//! use outlive_hosts::{Format, Shape, Wrapping, read, wrap};
//!
//! let text = r#"{"mcpServers": {"time": {"command": "uvx", "args": ["server-time"]}}} // mine"#;
//! let file = read(text, Format::Json, |_| None)?;
//! assert_eq!(file.servers[0].name, "time");
//!
//! let wrapping = Wrapping { program: "outlive", addresses: false };
//! let edited = wrap(text, Format::Json, Shape::McpServers, wrapping)?;
//! assert_eq!(
//!     edited.text,
//!     r#"{"mcpServers": {"time": {"command": "outlive", "args": ["run", "--", "uvx", "server-time"]}}} // mine"#
//! );
//! # Ok::<(), outlive_hosts::Error>(())
//! ```

mod edit;
mod entry;
mod error;
mod format;
mod host;
mod mask;
mod read;
mod secret;
mod server;
mod shape;
mod tree;
mod unwrap;
mod variables;
mod verify;
mod wrap;

pub use edit::{Action, Edited, Touched};
pub use error::{Error, Position};
pub use format::{Format, MAX_BYTES, load};
pub use host::{Host, Platform};
pub use mask::masked;
pub use read::read;
pub use secret::Secret;
pub use server::{HostFile, Launch, Server, Setting, Skipped, Transport};
pub use shape::{MAX_SERVERS, Shape};
pub use unwrap::{SWITCHES, unwrap};
pub use wrap::{Wrapping, is_outlive, wrap};
