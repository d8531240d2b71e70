//! What `completion/complete` asks about: `params.ref`.

use std::borrow::Cow;

use super::id::text;
use super::scan::Span;
use super::{Kind, Message};

/// What a completion is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference<'a> {
    /// `ref/prompt`: the prompt of this name.
    Prompt(Cow<'a, str>),
    /// `ref/resource`: the resource or template of this URI.
    Resource(Cow<'a, str>),
}

impl Message {
    /// `params.ref`, if its type is known and it has the name or URI that belongs to it.
    pub fn reference(&self) -> Option<Reference<'_>> {
        if self.kind() == Kind::Response {
            return None;
        }
        match &*text(self.reference_span("type").of(self.bytes()))? {
            "ref/prompt" => {
                let name = text(self.reference_span("name").of(self.bytes()))?;
                Some(Reference::Prompt(name))
            }
            "ref/resource" => {
                let uri = text(self.reference_span("uri").of(self.bytes()))?;
                Some(Reference::Resource(uri))
            }
            _ => None,
        }
    }

    /// The same message with another `params.ref.name`; unchanged if it has none.
    pub fn with_reference_name(self, json: &[u8]) -> Message {
        let name = self.reference_span("name");
        self.with(name, json)
    }

    /// The same message with another `params.ref.uri`; unchanged if it has none.
    pub fn with_reference_uri(self, json: &[u8]) -> Message {
        let uri = self.reference_span("uri");
        self.with(uri, json)
    }

    fn reference_span(&self, name: &str) -> Span {
        self.member(self.param("ref"), name)
    }
}
