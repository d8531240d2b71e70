//! The spellings of hosts: which key holds the servers, and what the keys of a server are called.

use crate::error::Error;
use crate::format::Format;
use crate::tree::{Kind, Member, Node};

/// A file with more servers than this is refused: each one costs a process.
pub const MAX_SERVERS: usize = 1000;

/// Which key holds the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `mcpServers`: Claude Desktop, Claude Code, Cursor, Windsurf, Gemini CLI, and most others.
    McpServers,
    /// `servers`: VS Code.
    Servers,
    /// `context_servers`: Zed.
    ContextServers,
    /// `mcp_servers`: Codex.
    Codex,
    /// `extensions`: Goose.
    Extensions,
    /// `mcp`, with a command that is a list: OpenCode.
    Mcp,
    /// `servers` in TOML: a file of our own, where our settings stand beside a server's keys.
    Ours,
}

/// A server's table in a file.
pub(crate) struct Entry<'n> {
    /// For which project it is, where a file holds several.
    pub project: Option<&'n str>,
    pub member: &'n Member,
}

impl Shape {
    const ALL: [Shape; 7] = [
        Shape::McpServers,
        Shape::ContextServers,
        Shape::Codex,
        Shape::Ours,
        Shape::Servers,
        Shape::Extensions,
        Shape::Mcp,
    ];

    /// The key that holds the servers.
    pub fn key(self) -> &'static str {
        match self {
            Shape::McpServers => "mcpServers",
            Shape::Servers | Shape::Ours => "servers",
            Shape::ContextServers => "context_servers",
            Shape::Codex => "mcp_servers",
            Shape::Extensions => "extensions",
            Shape::Mcp => "mcp",
        }
    }

    fn is_possible_in(self, format: Format) -> bool {
        match self {
            Shape::Codex | Shape::Ours => format == Format::Toml,
            Shape::Extensions => format == Format::Yaml,
            _ => format == Format::Json,
        }
    }

    /// The shape of a file, by the keys it has.
    pub fn of(text: &str, format: Format) -> Result<Shape, Error> {
        Shape::of_tree(&format.parse(text)?, text, format)
    }

    pub(crate) fn of_tree(root: &Node, text: &str, format: Format) -> Result<Shape, Error> {
        let possible = || {
            Shape::ALL
                .into_iter()
                .filter(|shape| shape.is_possible_in(format))
        };
        let found = possible().find(|shape| {
            let is_there = root.get(shape.key()).is_some();
            is_there || (*shape == Shape::McpServers && projects(root).next().is_some())
        });
        found.ok_or_else(|| {
            let keys: Vec<&str> = possible().map(Shape::key).collect();
            let why = format!(
                "the file has no servers: one of these keys is wanted: {}",
                keys.join(", ")
            );
            Error::at(text, root.span.start, why)
        })
    }

    /// The servers of a file, those of projects last; an error if what should be a table of servers is none.
    pub(crate) fn entries<'n>(self, root: &'n Node, text: &str) -> Result<Vec<Entry<'n>>, Error> {
        if root.members().is_none() && !matches!(root.kind, Kind::Null) {
            let why = format!("the file is {}, where an object is wanted", root.noun());
            return Err(Error::at(text, root.span.start, why));
        }
        only_one(root, self.key(), text)?;
        let mut entries = Vec::new();
        if let Some(member) = root.member(self.key()) {
            entries.extend(in_table(
                self.within(&member.value),
                self.key(),
                None,
                text,
            )?);
        }
        if self == Shape::McpServers {
            only_one(root, "projects", text)?;
            for project in root
                .get("projects")
                .and_then(Node::members)
                .into_iter()
                .flatten()
            {
                only_one(&project.value, self.key(), text)?;
            }
            for (project, table) in projects(root) {
                entries.extend(in_table(table, self.key(), Some(project), text)?);
            }
        }
        if entries.len() > MAX_SERVERS {
            let why = format!(
                "there are {} servers, and at most {MAX_SERVERS} may be",
                entries.len()
            );
            return Err(Error::new(why));
        }
        Ok(entries)
    }

    /// The table of servers itself: settings of VS Code have it one level deeper.
    fn within(self, node: &Node) -> &Node {
        match node.get("servers") {
            Some(servers)
                if self == Shape::Mcp && node.members().is_some_and(|all| all.len() <= 2) =>
            {
                servers
            }
            _ => node,
        }
    }

    /// What a program is called in an entry that we write.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Shape::Extensions => "cmd",
            _ => "command",
        }
    }

    /// What the variables are called in an entry that we write.
    pub(crate) fn env(self) -> &'static str {
        match self {
            Shape::Extensions => "envs",
            Shape::Mcp => "environment",
            _ => "env",
        }
    }

    /// The `type` of a server that is started by a command.
    pub(crate) fn stdio(self) -> &'static str {
        match self {
            Shape::Mcp => "local",
            _ => "stdio",
        }
    }

    /// Whether the host replaces variables in a server's environment as it does in its headers.
    pub(crate) fn expands(self) -> bool {
        matches!(self, Shape::McpServers | Shape::Servers | Shape::Mcp)
    }
}

/// Claude Code keeps the servers of each project in one file with the user's own.
fn projects(root: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let projects = root
        .get("projects")
        .and_then(Node::members)
        .unwrap_or_default();
    projects.iter().filter_map(|project| {
        let servers = project.value.get("mcpServers")?;
        Some((project.key.as_str(), servers))
    })
}

/// An error if a table has two of a key that holds servers: a host would see those of one of them, and nobody would
/// say so.
fn only_one(node: &Node, key: &str, text: &str) -> Result<(), Error> {
    let members = node.members().unwrap_or_default();
    let mut all = members.iter().filter(|member| member.key == key);
    match all.nth(1) {
        Some(second) => {
            let why = format!("there is a second {key}: put what is in both into one of them");
            Err(Error::at(text, second.key_span.start, why))
        }
        None => Ok(()),
    }
}

fn in_table<'n>(
    table: &'n Node,
    key: &str,
    project: Option<&'n str>,
    text: &str,
) -> Result<Vec<Entry<'n>>, Error> {
    if matches!(table.kind, Kind::Null) {
        return Ok(Vec::new());
    }
    let Some(members) = table.members() else {
        let why = format!(
            "{key} is {}, where an object of servers is wanted",
            table.noun()
        );
        return Err(Error::at(text, table.span.start, why));
    };
    if let Some(second) = table.twice() {
        let why = format!(
            "a second server is called {:?}: rename one of them",
            second.key
        );
        return Err(Error::at(text, second.key_span.start, why));
    }
    Ok(members
        .iter()
        .map(|member| Entry { project, member })
        .collect())
}
