//! A tool handle that outlives its server.

use std::ops::Deref;

use serde::Serialize;

use super::{Call, Client};
use crate::model::{self, CallResult};

/// A tool of a server. It is called by its name, so a handle that was obtained before the server died
/// works with the next one.
#[derive(Clone, Debug)]
pub struct Tool {
    client: Client,
    definition: model::Tool,
}

impl Tool {
    pub(super) fn new(client: Client, definition: model::Tool) -> Tool {
        Tool { client, definition }
    }

    /// Calls it.
    pub fn call(&self, arguments: impl Serialize) -> Call<CallResult> {
        self.client.call(&self.definition.name, arguments)
    }

    /// What the server said of it when it was listed.
    pub fn definition(&self) -> &model::Tool {
        &self.definition
    }
}

impl Deref for Tool {
    type Target = model::Tool;

    fn deref(&self) -> &model::Tool {
        &self.definition
    }
}
