//! The arguments of a call: `params.arguments`.

use std::borrow::Cow;

use super::Message;
use super::id::text;

impl Message {
    /// `params.arguments`, as written.
    pub fn arguments(&self) -> Option<&[u8]> {
        self.param("arguments").get(self.bytes())
    }

    /// The same message with other `params.arguments`; unchanged if it has none.
    pub fn with_arguments(self, json: &[u8]) -> Message {
        let arguments = self.param("arguments");
        self.with(arguments, json)
    }

    /// An argument, as written.
    pub fn argument(&self, name: &str) -> Option<&[u8]> {
        let argument = self.member(self.param("arguments"), name);
        argument.get(self.bytes())
    }

    /// An argument, if it is a string.
    pub fn argument_text(&self, name: &str) -> Option<Cow<'_, str>> {
        text(self.argument(name)?)
    }
}
