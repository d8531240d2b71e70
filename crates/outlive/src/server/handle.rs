//! A running server, from outside.

use std::fmt;
use std::sync::Arc;

use outlive_core::protocol::List;
use outlive_core::server::Input;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::builder::BuildError;
use super::ctx::{Ctx, core_level};
use super::pending_changes::Change;
use super::prompt::{self, IntoPromptResult};
use super::registry::Registry;
use super::resource::{self, IntoReadResult, ResourceUri};
use super::tool::{self, IntoToolResult};
use crate::model::{LogLevel, Prompt, Resource, ResourceTemplate, Tool};

/// Changes what a running server offers, tells its clients things, ends it.
///
/// Cheap to clone, usable from any task or thread. What is added replaces what had the same name.
/// Every client that may hear it is told that the list has changed: one that does not read, once,
/// when it reads again.
#[derive(Clone)]
pub struct ServerHandle {
    registry: Arc<Registry>,
}

impl ServerHandle {
    pub(crate) fn of(registry: &Arc<Registry>) -> ServerHandle {
        ServerHandle {
            registry: registry.clone(),
        }
    }

    /// Offers a tool from now on.
    pub fn add_tool<F, A, Fut, R>(
        &self,
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) where
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + JsonSchema + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoToolResult + 'static,
    {
        self.add_tool_with(Tool::described(name, description), function);
    }

    /// Offers a tool from now on, with a title, annotations, or schemas of its own.
    pub fn add_tool_with<F, A, Fut, R>(&self, tool: Tool, function: F)
    where
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + JsonSchema + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoToolResult + 'static,
    {
        let item = tool::item(tool, function);
        self.registry.change(List::Tools, |tables| {
            tables.tools.put(item);
            true
        });
    }

    /// No longer offers a tool; false if it was not offered. Calls that run go on.
    pub fn remove_tool(&self, name: &str) -> bool {
        let remove = |tables: &mut super::registry::Tables| tables.tools.remove(name);
        self.registry.change(List::Tools, remove)
    }

    /// Offers a resource from now on.
    pub fn add_resource<F, Fut, R>(&self, resource: Resource, function: F)
    where
        F: Fn(Ctx, ResourceUri) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoReadResult + 'static,
    {
        let item = resource::item(resource, function);
        self.registry.change(List::Resources, |tables| {
            tables.resources.put(item);
            true
        });
    }

    /// No longer offers a resource; false if it was not offered.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let remove = |tables: &mut super::registry::Tables| tables.resources.remove(uri);
        self.registry.change(List::Resources, remove)
    }

    /// Offers a family of resources from now on.
    pub fn add_resource_template<F, Fut, R>(
        &self,
        template: ResourceTemplate,
        function: F,
    ) -> Result<(), BuildError>
    where
        F: Fn(Ctx, ResourceUri) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoReadResult + 'static,
    {
        let uri = template.uri_template.clone();
        let family = resource::family(template, function)
            .map_err(|why| BuildError::bad_template(&uri, why))?;
        self.registry.change(List::Resources, |tables| {
            tables.templates.put(family);
            true
        });
        Ok(())
    }

    /// No longer offers a family of resources; false if it was not offered.
    pub fn remove_resource_template(&self, uri_template: &str) -> bool {
        let remove = |tables: &mut super::registry::Tables| tables.templates.remove(uri_template);
        self.registry.change(List::Resources, remove)
    }

    /// Offers a prompt from now on.
    pub fn add_prompt<F, A, Fut, R>(&self, prompt: Prompt, function: F)
    where
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        A: DeserializeOwned + JsonSchema + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: IntoPromptResult + 'static,
    {
        let item = prompt::item(prompt, function);
        self.registry.change(List::Prompts, |tables| {
            tables.prompts.put(item);
            true
        });
    }

    /// No longer offers a prompt; false if it was not offered.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let remove = |tables: &mut super::registry::Tables| tables.prompts.remove(name);
        self.registry.change(List::Prompts, remove)
    }

    /// Tells every client that has subscribed to this resource that it has changed.
    ///
    /// A client that does not read is told of it once, when it reads again, however often the
    /// resource has changed meanwhile. Beyond 4096 resources it may miss some.
    pub fn resource_updated(&self, uri: impl Into<String>) {
        self.registry.spread(&Change::Resource(uri.into()));
    }

    /// Sends a log message to every client that wants messages of this level. A client that does
    /// not read may miss it.
    pub fn log(&self, level: LogLevel, data: impl Serialize) {
        let data = super::definition(&data);
        let level = core_level(&level);
        for connection in self.registry.connections() {
            connection.mention(Input::Log {
                within: None,
                level,
                logger: None,
                data: data.clone(),
            });
        }
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        self.registry.connections().len()
    }

    /// Ends every connection: nothing new is accepted, handlers are told
    /// [`CancelReason::Shutdown`](super::CancelReason::Shutdown) and dropped after their grace. A
    /// second time: at once.
    ///
    /// It is for good, and may come early: a server that is served afterwards turns its client away and
    /// [`serve`](super::Server::serve) returns.
    pub fn shutdown(&self) {
        self.registry.shut_down();
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle")
            .field("clients", &self.clients())
            .finish_non_exhaustive()
    }
}
