//! Server-sent events, as MCP uses them: the stream of an HTTP response, as bytes.
//!
//! | file | what happens there |
//! |---|---|
//! | `decode` | bytes that came become events |
//! | `encode` | messages become events that are written |
//! | `event_id` | the id under which a client comes back for the rest of a stream |

mod decode;
mod encode;
mod event_id;

pub use decode::{Event, Events};
pub use encode::{comment, endpoint, message, primer};
pub use event_id::EventId;
