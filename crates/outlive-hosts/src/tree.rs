//! A parsed file: values that know where in the text they stand, whatever the format.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::{Value, json};

/// Where something stands in the text, in bytes.
pub type Span = Range<usize>;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Node {
    pub span: Span,
    pub kind: Kind,
}

/// What a value is.
#[derive(Clone, Debug)]
pub enum Kind {
    Null,
    Bool(bool),
    /// As it is written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Table(Vec<Member>),
    /// Something that cannot be read without more knowledge, and what it is: a YAML alias, a tag.
    Opaque(&'static str),
}

/// A key of a table with its value.
#[derive(Clone, Debug)]
pub struct Member {
    pub key: String,
    pub key_span: Span,
    pub value: Node,
}

impl Node {
    pub fn members(&self) -> Option<&[Member]> {
        match &self.kind {
            Kind::Table(members) => Some(members),
            _ => None,
        }
    }

    /// The member of this name. Where a name stands twice the last one counts, as in the hosts' own parsers.
    pub fn member(&self, key: &str) -> Option<&Member> {
        self.members()?
            .iter()
            .rev()
            .find(|member| member.key == key)
    }

    /// The first key that stands twice, where it stands the second time.
    pub fn twice(&self) -> Option<&Member> {
        let mut keys = HashSet::new();
        let mut members = self.members()?.iter();
        members.find(|member| !keys.insert(&member.key))
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.member(key).map(|member| &member.value)
    }

    pub fn list(&self) -> Option<&[Node]> {
        match &self.kind {
            Kind::List(nodes) => Some(nodes),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What it is, for a sentence.
    pub fn noun(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "true or false",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a string",
            Kind::List(_) => "a list",
            Kind::Table(_) => "an object",
            Kind::Opaque(what) => what,
        }
    }

    /// The value as JSON.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null | Kind::Opaque(_) => Value::Null,
            Kind::Bool(yes) => json!(yes),
            Kind::Number(number) => serde_json::from_str(number).unwrap_or_else(|_| json!(number)),
            Kind::Text(text) => json!(text),
            Kind::List(nodes) => nodes.iter().map(Node::to_value).collect(),
            Kind::Table(members) => members
                .iter()
                .map(|member| (member.key.clone(), member.value.to_value()))
                .collect(),
        }
    }
}
