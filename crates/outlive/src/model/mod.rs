//! The words of MCP as Rust types.
//!
//! One set of types serves every version of the protocol, from 2024-11-05 to 2026-07-28. They are
//! lenient readers and faithful writers:
//!
//! - A field we do not know is kept in `extra` and written back. So is a kind of content
//!   ([`Content::Other`]) and a word of an enumeration ([`LogLevel::Other`]).
//! - A field that is absent where only some versions ask for it is `None` or empty; `null` means
//!   absent, except where the protocol allows any value ([`CallResult::structured_content`],
//!   [`RpcError::data`]).
//! - An integer may arrive as `1.0`, as some languages write it, and leaves as `1`.
//! - What a peer cannot do without stays required: a tool has a name, a resource a URI.
//!
//! Fields of a known kind are read straight into place. Only what is unknown is buffered, and
//! content whose `type` does not come first; see `tagged`.
//!
//! What is written back is the same JSON, not the same text: the fields of an object of unknown shape
//! are sorted, unless the program turns on the feature `preserve_order` of `serde_json`.
//!
//! Structs are `non_exhaustive`, since the protocol grows: take `new` or `default()` and set fields.

mod annotations;
mod capabilities;
mod completion;
mod content;
mod elicitation;
mod error;
pub(crate) mod finite;
mod handshake;
mod implementation;
mod input;
mod lenient;
mod logging;
pub mod meta;
mod page;
mod progress;
mod prompt;
pub(crate) mod reading;
mod resource;
mod root;
mod sampling;
mod subscription;
mod tagged;
#[cfg(test)]
mod tests;
mod tool;

pub use annotations::{Annotations, Role};
pub use capabilities::{
    ClientCapabilities, ElicitationCapability, ListCapability, ResourcesCapability,
    SamplingCapability, ServerCapabilities,
};
pub use completion::{
    CompleteParams, CompleteResult, Completion, CompletionArgument, CompletionContext,
    CompletionRef, PromptRef, ResourceRef,
};
pub use content::{
    Content, EmbeddedResource, MediaContent, TextContent, ToolResultContent, ToolUseContent,
};
pub use elicitation::{ElicitAction, ElicitMode, ElicitRequest, ElicitResult};
pub use error::RpcError;
pub use handshake::{DiscoverResult, InitializeParams, InitializeResult};
pub use implementation::{Icon, Implementation};
pub use input::{Answer, Deferrable, InputRequest, InputRequired};
pub use logging::{LogLevel, LogMessage, SetLevelParams};
pub use page::{CacheScope, Listed, Page, PageParams};
pub use progress::{Progress, ProgressToken};
pub use prompt::{GetPromptParams, GetPromptResult, Prompt, PromptArgument, PromptMessage};
pub use resource::{ReadResult, Resource, ResourceContents, ResourceParams, ResourceTemplate};
pub use root::{Root, RootsResult};
pub use sampling::{
    Contents, IncludeContext, ModelHint, ModelPreferences, SamplingMessage, SamplingRequest,
    SamplingResult, ToolChoice,
};
pub use subscription::{ListenParams, SubscriptionFilter};
pub use tool::{CallParams, CallResult, StructuredError, Tool, ToolAnnotations};

/// A JSON object whose fields are not ours to name: metadata, arguments, unknown fields.
pub type Object = serde_json::Map<String, serde_json::Value>;
