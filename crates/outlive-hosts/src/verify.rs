//! Reads an edited text again, before anybody writes it.
//!
//! Edits are made in the text, and YAML above all has more ways to write a thing than an editor can know. So the new text
//! is parsed: each edited server has to start what it should, and everything else has to be what it was. An entry that
//! fails this is left alone.

use std::collections::HashSet;

use serde_json::Value;

use crate::edit::{Action, Edited, Editor};
use crate::entry::{Form, scalar};
use crate::error::Error;
use crate::format::Format;
use crate::shape::{Entry, Shape};
use crate::tree::{Kind, Member, Node};
use crate::wrap::touched;

/// Keys of an entry that an edit may change.
const EDITED: [&str; 16] = [
    "args",
    "bearer_token_env_var",
    "cmd",
    "command",
    "env",
    "env_vars",
    "environment",
    "envs",
    "headers",
    "http_headers",
    "httpUrl",
    "serverUrl",
    "transport",
    "type",
    "uri",
    "url",
];

/// The edits of a file, entry by entry.
pub struct Draft<'a, 'n> {
    pub text: &'a str,
    pub format: Format,
    pub shape: Shape,
    pub root: &'n Node,
    pub parts: Vec<Part<'a, 'n>>,
}

/// What is to be done to an entry, and how.
pub struct Part<'a, 'n> {
    pub entry: Entry<'n>,
    pub editor: Editor<'a>,
    pub action: Action,
}

impl Part<'_, '_> {
    fn is_edited(&self) -> bool {
        matches!(self.action, Action::Wrapped | Action::Unwrapped)
    }
}

impl<'a> Draft<'a, '_> {
    /// The edited file. `is_right` tells whether a server that started these words may now start those.
    pub fn finish(
        mut self,
        is_right: impl Fn(&[String], &[String]) -> bool,
    ) -> Result<Edited, Error> {
        let all: Vec<usize> = (0..self.parts.len())
            .filter(|part| self.parts[*part].is_edited())
            .collect();
        let mut text = self.with(&all);
        if !self.holds(&text, &all, &is_right) {
            let (good, bad): (Vec<usize>, Vec<usize>) = all
                .into_iter()
                .partition(|part| self.holds(&self.with(&[*part]), &[*part], &is_right));
            for part in bad {
                self.parts[part].action =
                    Action::Left("it is written in a way that outlive does not know".into());
            }
            text = self.with(&good);
            if !self.holds(&text, &good, &is_right) {
                return Err(Error::new(
                    "the file is written in a way that outlive does not know",
                ));
            }
        }
        let servers = self
            .parts
            .iter()
            .map(|part| touched(&part.entry, part.action.clone()));
        Ok(Edited {
            servers: servers.collect(),
            text,
        })
    }

    /// The text with the edits of these entries.
    fn with(&self, parts: &[usize]) -> String {
        let mut editor = Editor::new(self.text, self.format);
        for part in parts {
            editor.absorb(&self.parts[*part].editor);
        }
        editor.finish()
    }

    /// Whether the new text says what it should.
    fn holds(
        &self,
        text: &str,
        edited: &[usize],
        is_right: &impl Fn(&[String], &[String]) -> bool,
    ) -> bool {
        let Ok(root) = self.format.parse(text) else {
            return false;
        };
        let Ok(entries) = self.shape.entries(&root, text) else {
            return false;
        };
        if entries.len() != self.parts.len() {
            return false;
        }
        let pairs = || {
            edited
                .iter()
                .map(|part| (self.parts[*part].entry.member, entries[*part].member))
        };
        let starts_right =
            pairs().all(
                |(old, new)| match (words(old, self.shape), words(new, self.shape)) {
                    (Some(before), Some(after)) => is_right(&before, &after),
                    _ => false,
                },
            );
        let old: HashSet<*const Node> = pairs().map(|(old, _)| &raw const old.value).collect();
        let new: HashSet<*const Node> = pairs().map(|(_, new)| &raw const new.value).collect();
        starts_right && rest(self.root, &old) == rest(&root, &new)
    }
}

/// The words that an entry starts its server with, or its address.
pub fn words(member: &Member, shape: Shape) -> Option<Vec<String>> {
    match Form::of(member, shape) {
        Form::Split { command, args, .. } => {
            let args = args.and_then(|args| args.value.list()).unwrap_or_default();
            [&command.value]
                .into_iter()
                .chain(args)
                .map(scalar)
                .collect()
        }
        Form::Joined { words, .. } => words.iter().map(scalar).collect(),
        Form::Address { address, .. } => Some(vec![address.to_owned()]),
        Form::Foreign(_) | Form::Broken(..) => None,
    }
}

/// A tree as a value, without what an edit may change in these entries.
fn rest(node: &Node, entries: &HashSet<*const Node>) -> Value {
    let is_entry = entries.contains(&(&raw const *node));
    match &node.kind {
        Kind::Table(members) => members
            .iter()
            .filter(|member| !(is_entry && EDITED.contains(&member.key.as_str())))
            .map(|member| (member.key.clone(), rest(&member.value, entries)))
            .collect(),
        Kind::List(nodes) => nodes.iter().map(|node| rest(node, entries)).collect(),
        _ => node.to_value(),
    }
}
