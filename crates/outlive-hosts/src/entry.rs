//! The forms that one server's entry can have.

use crate::shape::Shape;
use crate::tree::{Kind, Member, Node};

/// Keys for a server's address.
const ADDRESSES: [&str; 4] = ["url", "serverUrl", "httpUrl", "uri"];

/// Kinds of Goose's extensions that Goose runs itself.
const BUILT_IN: [&str; 4] = ["builtin", "platform", "frontend", "inline_python"];

/// How an entry names its server.
pub enum Form<'n> {
    /// A program and, under another key, its arguments.
    Split {
        /// The table that holds both: the entry, or in old files of Zed a table in it.
        place: &'n Node,
        command: &'n Member,
        args: Option<&'n Member>,
    },
    /// Program and arguments in one list.
    Joined {
        command: &'n Member,
        words: &'n [Node],
    },
    /// An address.
    Address { url: &'n Member, address: &'n str },
    /// Nothing that can be started from the file; why.
    Foreign(String),
    /// An entry that makes no sense: where, and why.
    Broken(usize, String),
}

impl<'n> Form<'n> {
    pub fn of(member: &'n Member, shape: Shape) -> Form<'n> {
        let entry = &member.value;
        let name = &member.key;
        if entry.members().is_none() {
            let why = format!(
                "the server {name:?} is {}, where an object is wanted",
                entry.noun()
            );
            return Form::Broken(entry.span.start, why);
        }
        if let Some(second) = entry.twice() {
            let why = format!(
                "the server {name:?} has a second {:?}: remove one of them",
                second.key
            );
            return Form::Broken(second.key_span.start, why);
        }
        if entry.member("<<").is_some() {
            return Form::Foreign("it takes keys from elsewhere (<<)".into());
        }
        let kind = entry.get("type").and_then(Node::text);
        if kind.is_some_and(|kind| shape == Shape::Extensions && BUILT_IN.contains(&kind)) {
            return Form::Foreign("it is built into the host".into());
        }
        let command = entry.member("command").or_else(|| entry.member("cmd"));
        let mut addresses = ADDRESSES.iter().filter_map(|key| entry.member(key));
        match (command, addresses.next()) {
            (Some(command), Some(_)) => {
                let why =
                    format!("the server {name:?} has a command and an address: remove one of them");
                Form::Broken(command.key_span.start, why)
            }
            (Some(command), None) => started(entry, name, command),
            (None, Some(url)) => match (url.value.text(), addresses.next()) {
                (_, Some(second)) => {
                    let why =
                        format!("the server {name:?} has a second address: remove one of them");
                    Form::Broken(second.key_span.start, why)
                }
                (Some(address), None) => Form::Address { url, address },
                (None, None) => wrong_type(name, url, "a string"),
            },
            // Zed and OpenCode keep settings of servers there that come from elsewhere.
            (None, None) if matches!(shape, Shape::ContextServers | Shape::Mcp) => Form::Foreign(
                "it has neither a command nor an address, so the host knows it from elsewhere"
                    .into(),
            ),
            (None, None) => {
                let why = format!(
                    "the server {name:?} has neither a command nor an address: add one of them"
                );
                Form::Broken(member.key_span.start, why)
            }
        }
    }
}

fn started<'n>(entry: &'n Node, name: &str, command: &'n Member) -> Form<'n> {
    match &command.value.kind {
        Kind::Text(_) => split(entry, name, command),
        Kind::Table(_) => match command.value.member("path") {
            Some(path) if path.value.text().is_some() => split(&command.value, name, path),
            _ => wrong_type(name, command, "a string"),
        },
        Kind::List(words) if !words.is_empty() => {
            match words.iter().find(|word| word.text().is_none()) {
                Some(word) => {
                    let why = format!("{} in the command of {name:?}: write a string", word.noun());
                    Form::Broken(word.span.start, why)
                }
                None => Form::Joined { command, words },
            }
        }
        _ => wrong_type(name, command, "a string"),
    }
}

fn split<'n>(place: &'n Node, name: &str, command: &'n Member) -> Form<'n> {
    let args = place.member("args");
    match args.map(|args| (args, &args.value.kind)) {
        None | Some((_, Kind::Null)) => {}
        Some((_, Kind::List(words))) => {
            if let Some(word) = words.iter().find(|word| scalar(word).is_none()) {
                let why = format!("{} in the args of {name:?}: write a string", word.noun());
                return Form::Broken(word.span.start, why);
            }
        }
        Some((args, _)) => return wrong_type(name, args, "a list of strings"),
    }
    Form::Split {
        place,
        command,
        args,
    }
}

fn wrong_type<'n>(name: &str, member: &'n Member, wanted: &str) -> Form<'n> {
    let why = format!(
        "{} of {name:?} is {}, where {wanted} is wanted",
        member.key,
        member.value.noun()
    );
    Form::Broken(member.value.span.start, why)
}

/// A word on a command line, or the value of a variable: YAML is often written without quotes.
pub fn scalar(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Text(text) | Kind::Number(text) => Some(text.clone()),
        Kind::Bool(yes) => Some(yes.to_string()),
        _ => None,
    }
}
