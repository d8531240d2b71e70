//! What is done around calls of tools.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::call::Call;
use super::ctx::Ctx;
use super::registry::Handler;
use super::task::Work;
use super::tool::{IntoToolResult, ToolResult};
use crate::model::RpcError;

/// What comes of a call, for those around it.
pub(crate) type Result = std::result::Result<ToolResult, RpcError>;

/// A result to come.
pub(crate) type Coming = Pin<Box<dyn Future<Output = Result> + Send>>;

/// A tool: a handler whose result others may look at before it is sent.
pub(crate) trait Callable: Handler {
    /// The tool at work, within layers.
    fn call(&self, call: &Arc<Call>) -> Coming;
}

/// Something around calls.
type Layer = dyn Fn(Ctx, Next) -> Coming + Send + Sync;

/// The layers of a server, outermost first.
#[derive(Clone, Default)]
pub(crate) struct Layers(Arc<Vec<Arc<Layer>>>);

impl Layers {
    /// Adds one further in.
    pub(crate) fn push<F, Fut, R>(&mut self, layer: F)
    where
        F: Fn(Ctx, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoToolResult + 'static,
    {
        let layer = Arc::new(layer);
        let boxed = move |ctx: Ctx, next: Next| -> Coming {
            let layer = layer.clone();
            Box::pin(async move { layer(ctx, next).await.into_tool_result() })
        };
        Arc::make_mut(&mut self.0).push(Arc::new(boxed));
    }

    /// A tool at work within all of them. Nothing of the user's has run when this returns.
    pub(crate) fn around(&self, tool: &Arc<dyn Callable>, call: &Arc<Call>) -> Work {
        if self.0.is_empty() {
            return tool.work(call, ());
        }
        // It was found by its name.
        let name = call.request.message.name().unwrap_or_default();
        let next = Next {
            name: Arc::from(&*name),
            layers: self.clone(),
            depth: 0,
            tool: tool.clone(),
            call: call.clone(),
        };
        call.work(async move { next.run().await?.write() })
    }
}

/// The rest of a call of a tool, as a [layer](super::Builder::layer) sees it: the layers further in, then the tool.
///
/// Dropped without being run, the tool is not called; the layer answers in its place.
pub struct Next {
    name: Arc<str>,
    layers: Layers,
    /// How many layers the call has passed.
    depth: usize,
    tool: Arc<dyn Callable>,
    call: Arc<Call>,
}

impl Next {
    /// The name of the tool.
    pub fn tool(&self) -> &str {
        &self.name
    }

    /// Runs the rest of the call. An `Err` refuses the request; a tool that has failed is an `Ok` that
    /// [is an error](ToolResult::is_error).
    pub async fn run(mut self) -> std::result::Result<ToolResult, RpcError> {
        match self.layers.0.get(self.depth).cloned() {
            Some(layer) => {
                self.depth += 1;
                layer(Ctx::new(self.call.clone()), self).await
            }
            None => self.tool.call(&self.call).await,
        }
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next")
            .field("tool", &self.tool())
            .finish_non_exhaustive()
    }
}
