//! Several tools that share a value.

use std::sync::Arc;

use super::Builder;

/// Tools that share a value. `#[outlive::tools]` (feature `macros`) implements it for the type of an `impl` block.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use outlive::Server;
/// use outlive::server::{Builder, Tools};
///
/// #[derive(Default)]
/// struct Counter(AtomicU64);
///
/// impl Tools for Counter {
///     fn add_to(self: Arc<Self>, server: Builder) -> Builder {
///         server.tool("count", "Counts.", move |_, (): ()| {
///             let n = self.0.fetch_add(1, Ordering::Relaxed) + 1;
///             async move { n.to_string() }
///         })
///     }
/// }
///
/// let server = Server::builder("counter", "1.0.0").tools(Counter::default()).build();
/// # let _ = server;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no tools",
    label = "no tools",
    note = "write `#[outlive::tools]` above its `impl` block, and `#[outlive::tool]` above each function that is a tool"
)]
pub trait Tools: Send + Sync + 'static {
    /// Adds the tools to a server that is being put together.
    fn add_to(self: Arc<Self>, server: Builder) -> Builder;
}

/// The program goes on using the value.
impl<T: Tools> Tools for Arc<T> {
    fn add_to(self: Arc<Self>, server: Builder) -> Builder {
        T::add_to(Arc::clone(&self), server)
    }
}
