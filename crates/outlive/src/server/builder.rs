//! How a server is put together.

use std::any::type_name;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use outlive_core::server::ServerPolicy;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::ctx::Ctx;
use super::layer::{Layers, Next};
use super::prompt::{self, IntoCompletion, IntoPromptResult};
use super::registry::{Declared, Registry, States, Tables};
use super::resource::{self, IntoReadResult, ResourceUri};
use super::responder::Responder;
use super::tool::{self, IntoToolResult};
use super::tools::Tools;
use super::{Server, definition};
use crate::model::{CompleteParams, Implementation, Prompt, Resource, ResourceTemplate, Tool};

/// A server in the making. See the [module page](super).
pub struct Builder {
    info: Implementation,
    instructions: Option<String>,
    tables: Tables,
    states: States,
    layers: Layers,
    policy: ServerPolicy,
    declared: Declared,
    page: usize,
    spins: bool,
    /// What was wrong first.
    wrong: Option<BuildError>,
}

/// Why a server cannot be put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError(String);

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BuildError {}

impl BuildError {
    pub(crate) fn bad_template(template: &str, why: impl fmt::Display) -> BuildError {
        BuildError(format!(
            "the URI template {template:?} cannot be matched: {why}"
        ))
    }
}

impl Builder {
    pub(crate) fn new(name: String, version: String) -> Builder {
        Builder {
            info: Implementation::new(name, version),
            instructions: None,
            tables: Tables::default(),
            states: States::default(),
            layers: Layers::default(),
            policy: ServerPolicy::default(),
            declared: Declared::default(),
            page: 0,
            spins: true,
            wrong: None,
        }
    }

    /// How the server introduces itself, where name and version are not enough.
    #[must_use]
    pub fn info(mut self, info: Implementation) -> Builder {
        self.info = info;
        self
    }

    /// What a model should know about this server.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Builder {
        self.instructions = Some(instructions.into());
        self
    }

    /// Shares a value with all handlers, which have it from [`Ctx::state`]: one of each type.
    ///
    /// A handler runs many times, so it cannot own what it captures, and a clone for each closure and each call is
    /// tedious. What is shared here needs none:
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use outlive::Server;
    /// use outlive::server::Ctx;
    ///
    /// #[derive(Default)]
    /// struct Counter(AtomicU64);
    ///
    /// async fn count(ctx: Ctx, (): ()) -> String {
    ///     let counter: &Counter = ctx.state();
    ///     (counter.0.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    /// }
    ///
    /// let server = Server::builder("counter", "1.0.0")
    ///     .state(Counter::default())
    ///     .tool("count", "Counts.", count)
    ///     .tool("look", "Looks at the count.", |ctx: Ctx, (): ()| async move {
    ///         ctx.state::<Counter>().0.load(Ordering::Relaxed).to_string()
    ///     })
    ///     .build();
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(mut self, state: T) -> Builder {
        if !self.states.put(state) {
            let words = format!("there are two states of the type {}", type_name::<T>());
            self.wrong.get_or_insert(BuildError(words));
        }
        self
    }

    /// Does something around every call of a tool: before it, after it, or in its place. The layer that was added
    /// first is the outermost.
    ///
    /// ```
    /// use std::time::Instant;
    ///
    /// use outlive::Server;
    /// use outlive::server::{Ctx, Next, ToolResult};
    ///
    /// let server = Server::builder("safe", "1.0.0")
    ///     .layer(|_: Ctx, next: Next| async move {
    ///         let (tool, begun) = (next.tool().to_owned(), Instant::now());
    ///         let result = next.run().await;
    ///         eprintln!("{tool} took {:?}", begun.elapsed());
    ///         result
    ///     })
    ///     .layer(|_: Ctx, next: Next| async move {
    ///         match next.tool() {
    ///             "open" => Ok(ToolResult::failure("Nobody may open it.")),
    ///             _ => next.run().await,
    ///         }
    ///     })
    ///     .tool("open", "Opens the safe.", |_, (): ()| async { "It is open." })
    ///     .build();
    /// # let _ = server;
    /// ```
    ///
    /// Every tool is within, also those that are added later and those that answer through a [`Responder`], which are
    /// then at work until they are answered. A call of a tool that does not exist is refused before. A layer that
    /// panics is treated as a handler that does.
    #[must_use]
    pub fn layer<F, Fut, R>(mut self, layer: F) -> Builder
    where
        F: Fn(Ctx, Next) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoToolResult + 'static,
    {
        self.layers.push(layer);
        self
    }

    /// Offers a tool. The schema of its arguments is that of the type `A`.
    #[must_use]
    pub fn tool<F, A, Fut, R>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> Builder
    where
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + JsonSchema + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoToolResult + 'static,
    {
        self.tool_with(Tool::described(name, description), function)
    }

    /// Offers a tool with a title, annotations, or schemas of its own. Schemas it does not have
    /// are taken from the function's type.
    ///
    /// A client repeats a call that a dying server may have run only if the tool says that it does
    /// no harm:
    ///
    /// ```
    /// use outlive::model::Tool;
    /// use outlive::server::Server;
    ///
    /// let time = Tool::described("time", "The time of the day.").read_only();
    /// let server = Server::builder("clock", "1.0.0")
    ///     .tool_with(time, |_, (): ()| async { "noon" })
    ///     .build();
    /// ```
    #[must_use]
    pub fn tool_with<F, A, Fut, R>(mut self, tool: Tool, function: F) -> Builder
    where
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + JsonSchema + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoToolResult + 'static,
    {
        self.check_new(
            "tool",
            &tool.name,
            self.tables.tools.get(&tool.name).is_some(),
        );
        self.tables.tools.put(tool::item(tool, function));
        self
    }

    /// Offers tools that share a value: the functions of an `impl` block under `#[outlive::tools]` (feature
    /// `macros`), or whatever [`Tools`] adds.
    #[must_use]
    pub fn tools(self, tools: impl Tools) -> Builder {
        Arc::new(tools).add_to(self)
    }

    /// Offers a tool that answers through a [`Responder`]: from another task, after its handler
    /// has ended, or with JSON it has already. Its arguments are in [`Ctx::params`].
    #[must_use]
    pub fn tool_responding<F, Fut>(mut self, tool: Tool, function: F) -> Builder
    where
        F: Fn(Ctx, Responder) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.check_new(
            "tool",
            &tool.name,
            self.tables.tools.get(&tool.name).is_some(),
        );
        self.tables.tools.put(tool::loose_item(tool, function));
        self
    }

    /// Offers a resource.
    #[must_use]
    pub fn resource<F, Fut, R>(
        self,
        uri: impl Into<String>,
        name: impl Into<String>,
        function: F,
    ) -> Builder
    where
        F: Fn(Ctx, ResourceUri) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoReadResult + 'static,
    {
        self.resource_with(Resource::new(uri, name), function)
    }

    /// Offers a resource with a title, a type, or anything else to be said about it.
    #[must_use]
    pub fn resource_with<F, Fut, R>(mut self, resource: Resource, function: F) -> Builder
    where
        F: Fn(Ctx, ResourceUri) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoReadResult + 'static,
    {
        let known = self.tables.resources.get(&resource.uri).is_some();
        self.check_new("resource", &resource.uri, known);
        self.tables
            .resources
            .put(resource::item(resource, function));
        self
    }

    /// Offers a family of resources: `note://{name}`. A variable stands for anything without a
    /// `/`, or with it if written `{+name}`.
    #[must_use]
    pub fn resource_template<F, Fut, R>(
        self,
        uri_template: impl Into<String>,
        name: impl Into<String>,
        function: F,
    ) -> Builder
    where
        F: Fn(Ctx, ResourceUri) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoReadResult + 'static,
    {
        self.resource_template_with(ResourceTemplate::new(uri_template, name), function)
    }

    /// Offers a family of resources with a title, a type, or anything else to be said about it.
    #[must_use]
    pub fn resource_template_with<F, Fut, R>(
        mut self,
        template: ResourceTemplate,
        function: F,
    ) -> Builder
    where
        F: Fn(Ctx, ResourceUri) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoReadResult + 'static,
    {
        let uri = template.uri_template.clone();
        self.check_new("template", &uri, self.tables.templates.get(&uri).is_some());
        match resource::family(template, function) {
            Ok(family) => self.tables.templates.put(family),
            Err(why) => {
                self.wrong
                    .get_or_insert(BuildError::bad_template(&uri, why));
            }
        }
        self
    }

    /// Offers a prompt. What can be filled in are the fields of the type `A`; they arrive as
    /// strings.
    #[must_use]
    pub fn prompt<F, A, Fut, R>(
        self,
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> Builder
    where
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + JsonSchema + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoPromptResult + 'static,
    {
        let mut prompt = Prompt::new(name);
        prompt.description = Some(description.into());
        self.prompt_with(prompt, function)
    }

    /// Offers a prompt with a title, or with arguments that its type does not show.
    #[must_use]
    pub fn prompt_with<F, A, Fut, R>(mut self, prompt: Prompt, function: F) -> Builder
    where
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + JsonSchema + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoPromptResult + 'static,
    {
        let known = self.tables.prompts.get(&prompt.name).is_some();
        self.check_new("prompt", &prompt.name, known);
        self.tables.prompts.put(prompt::item(prompt, function));
        self
    }

    /// Completes what a person types into the arguments of prompts and resource templates.
    #[must_use]
    pub fn completion<F, Fut, R>(mut self, function: F) -> Builder
    where
        F: Fn(Ctx, CompleteParams) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoCompletion + 'static,
    {
        self.tables.completion = Some(prompt::completion(function));
        self
    }

    /// Answers a method outside the protocol.
    #[must_use]
    pub fn method<F, Fut>(mut self, method: impl Into<String>, function: F) -> Builder
    where
        F: Fn(Ctx, Responder) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.tables
            .methods
            .insert(method.into(), tool::loose(function));
        self
    }

    /// Declares tools, although they are only added later, by a
    /// [`ServerHandle`](super::ServerHandle).
    #[must_use]
    pub fn tools_later(mut self) -> Builder {
        self.declared.tools = true;
        self
    }

    /// Declares resources, although they are only added later.
    #[must_use]
    pub fn resources_later(mut self) -> Builder {
        self.declared.resources = true;
        self
    }

    /// Declares prompts, although they are only added later.
    #[must_use]
    pub fn prompts_later(mut self) -> Builder {
        self.declared.prompts = true;
        self
    }

    /// Handlers running at once for one client (256). More requests wait their turn.
    #[must_use]
    pub fn concurrency(mut self, most: usize) -> Builder {
        self.policy.concurrency = most.max(1);
        self
    }

    /// Requests of one client that may wait for a handler (4096), and their bytes (64 MiB).
    #[must_use]
    pub fn queue(mut self, most: usize, bytes: usize) -> Builder {
        (self.policy.queue, self.policy.queue_bytes) = (most, bytes);
        self
    }

    /// The longest message a client may send (64 MiB). A longer one is answered with an error.
    #[must_use]
    pub fn message_limit(mut self, bytes: usize) -> Builder {
        self.policy.message = bytes;
        self
    }

    /// Items on a page of a list. Without it a list is one page: not every client turns them.
    #[must_use]
    pub fn page_size(mut self, most: usize) -> Builder {
        self.page = most;
        self
    }

    /// Whether the client's next message is looked for before the thread that reads it sleeps (it
    /// is, on standard input). While requests come in quick succession this spares the time it takes
    /// to wake a thread, which may be most of a small call, and costs up to 50 µs of processor time
    /// for each. Where it does not pay, it is hardly ever done; at rest it is never done.
    #[must_use]
    pub fn spin(mut self, spins: bool) -> Builder {
        self.spins = spins;
        self
    }

    /// The time between telling a handler that nobody waits for it and dropping it (1 s).
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Builder {
        self.policy.grace = grace;
        self
    }

    /// How long accepted requests may take once the client has closed its side (1 s): it may
    /// still read, as in `server < requests > answers`.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Builder {
        self.policy.drain = drain;
        self
    }

    /// The longest a handler may take, not counting the time it waits for the client. Without it,
    /// as long as it likes.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.policy.deadline = Some(deadline);
        self
    }

    /// The longest a client may take to answer a request of ours. Without it, as long as it
    /// likes: there may be a person behind it.
    ///
    /// A client of 2026-07-28 is not sent requests; how long it may take is
    /// [`parked_for`](Builder::parked_for).
    #[must_use]
    pub fn ask_timeout(mut self, timeout: Duration) -> Builder {
        self.policy.ask_timeout = Some(timeout);
        self
    }

    /// Questions that one client has not answered (1024). A handler that asks more gets an error.
    #[must_use]
    pub fn max_questions(mut self, most: usize) -> Builder {
        self.policy.asks = most;
        self
    }

    /// Handlers that wait for a client of 2026-07-28 to come back (256). One more that asks gets an error.
    #[must_use]
    pub fn max_parked(mut self, most: usize) -> Builder {
        self.policy.parked = most;
        self
    }

    /// How long a handler waits for a client of 2026-07-28 to come back with what it was asked for
    /// (10 min). Nothing tells the server that it never will, so there is no waiting for ever.
    #[must_use]
    pub fn parked_for(mut self, most: Duration) -> Builder {
        self.policy.parked_for = most;
        self
    }

    /// The server.
    ///
    /// # Panics
    ///
    /// If two things of a kind have the same name, two states the same type, or a URI template cannot be matched; see
    /// [`try_build`](Builder::try_build).
    pub fn build(self) -> Server {
        match self.try_build() {
            Ok(server) => server,
            Err(error) => panic!("{error}"),
        }
    }

    /// The server, or what is wrong with it.
    pub fn try_build(mut self) -> Result<Server, BuildError> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        self.policy.info = definition(&self.info);
        self.policy.instructions = self.instructions.as_ref().map(definition);
        let mut registry = Registry::new(self.tables, self.policy, self.declared, self.page);
        registry.spins = self.spins;
        registry.states = self.states;
        registry.layers = self.layers;
        Ok(Server {
            registry: Arc::new(registry),
        })
    }

    fn check_new(&mut self, what: &str, key: &str, known: bool) {
        if known {
            let words = format!("there are two of the {what} {key:?}");
            self.wrong.get_or_insert(BuildError(words));
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("info", &self.info)
            .finish_non_exhaustive()
    }
}
