//! Which servers, tools, prompts and resources there are for a client.

use super::glob;

/// Patterns for names. A pattern has `*` (any characters) and `?` (one character).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// What is there. Empty: everything.
    pub allow: Vec<Box<str>>,
    /// What is not there, whether it is allowed or not.
    pub deny: Vec<Box<str>>,
}

/// The tools of one server, by the names it has for them.
///
/// A tool that is left out here does not exist for naming either: it makes no conflict.
pub type ToolFilter = Filter;

impl Filter {
    /// A filter of these patterns.
    pub fn new<'a>(
        allow: impl IntoIterator<Item = &'a str>,
        deny: impl IntoIterator<Item = &'a str>,
    ) -> Filter {
        Filter {
            allow: allow.into_iter().map(Box::from).collect(),
            deny: deny.into_iter().map(Box::from).collect(),
        }
    }

    /// Whether what has this name is there.
    pub fn admits(&self, name: &str) -> bool {
        self.admits_any(&[name])
    }

    /// Whether what has these names is there: one of them is allowed, and none is denied.
    pub fn admits_any(&self, names: &[&str]) -> bool {
        let found = |patterns: &[Box<str>]| {
            let one = |pattern: &str| names.iter().any(|name| glob::matches(pattern, name));
            patterns.iter().any(|pattern| one(pattern))
        };
        !found(&self.deny) && (self.allow.is_empty() || found(&self.allow))
    }
}

/// What there is for a client. What a view does not contain cannot be found in its roster. The default contains
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Servers by name.
    pub servers: Filter,
    /// Tools by the name the server has for them and by the name clients see.
    pub tools: Filter,
    /// Prompts, likewise.
    pub prompts: Filter,
    /// Resources by URI, templates by URI template; each also by its explicit form, `outlive:SERVER:URI`.
    ///
    /// What a server lists is compared as it is written. A URI that it does not list may be another spelling of one
    /// that the view leaves out (`a/../b`, `%62` or `B` for `b`), and is judged by its plain spelling, too. What else a
    /// server takes for the same, a link in its file system say, cannot be known here.
    pub resources: Filter,
}
