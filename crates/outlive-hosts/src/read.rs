//! Reads the servers of a file.

use std::path::PathBuf;

use crate::entry::{Form, scalar};
use crate::error::{Error, Position};
use crate::format::Format;
use crate::secret::Secret;
use crate::server::{HostFile, Launch, Server, Setting, Skipped, Transport};
use crate::shape::{Entry, Shape};
use crate::tree::{Kind, Member, Node};
use crate::variables::expand;

/// Keys that have a meaning here.
const KNOWN: [&str; 24] = [
    "args",
    "bearer_token_env_var",
    "cmd",
    "command",
    "cwd",
    "description",
    "disabled",
    "enabled",
    "env",
    "env_http_headers",
    "environment",
    "envs",
    "headers",
    "http_headers",
    "httpUrl",
    "name",
    "outlive",
    "serverUrl",
    "source",
    "transport",
    "type",
    "uri",
    "url",
    "bundled",
];

/// Reads a file. `value` says what a variable is; it is asked for those that the file names.
///
/// Servers that Claude Code keeps for single projects are not among them: they belong to their directories.
pub fn read(
    text: &str,
    format: Format,
    value: impl Fn(&str) -> Option<String>,
) -> Result<HostFile, Error> {
    let root = format.parse(text)?;
    let shape = Shape::of_tree(&root, text, format)?;
    let entries = shape.entries(&root, text)?;
    let entries: Vec<&Entry<'_>> = entries
        .iter()
        .filter(|entry| entry.project.is_none())
        .collect();
    let mut file = HostFile {
        shape,
        servers: Vec::new(),
        skipped: Vec::new(),
        unknown: Vec::new(),
    };
    let reader = Reader {
        text,
        shape,
        value: &value,
    };
    for entry in entries {
        reader.unknown(entry.member, &mut file.unknown);
        match Form::of(entry.member, shape) {
            Form::Foreign(why) => file.skipped.push(Skipped {
                name: entry.member.key.clone(),
                why,
            }),
            form => file.servers.push(reader.server(entry.member, form)),
        }
    }
    Ok(file)
}

struct Reader<'a> {
    text: &'a str,
    shape: Shape,
    value: &'a dyn Fn(&str) -> Option<String>,
}

impl Reader<'_> {
    fn server(&self, member: &Member, form: Form<'_>) -> Server {
        Server {
            name: member.key.clone(),
            at: Position::of(self.text, member.key_span.start),
            enabled: enabled(&member.value),
            launch: self
                .switches(member)
                .and_then(|()| self.launch(member, form)),
            settings: self.settings(&member.value),
        }
    }

    /// A switch that is neither on nor off is not guessed at: somebody meant something by it.
    fn switches(&self, member: &Member) -> Result<(), Error> {
        for key in ["disabled", "enabled"] {
            if let Some(node) = member.value.get(key)
                && !matches!(node.kind, Kind::Bool(_) | Kind::Null)
            {
                let (name, noun) = (&member.key, node.noun());
                let why = format!("{key} of {name:?} is {noun}, where true or false is wanted");
                return Err(Error::at(self.text, node.span.start, why));
            }
        }
        Ok(())
    }

    fn launch(&self, member: &Member, form: Form<'_>) -> Result<Launch, Error> {
        let entry = &member.value;
        match form {
            Form::Split {
                place,
                command,
                args,
            } => {
                let args = args.and_then(|args| args.value.list()).unwrap_or_default();
                let of_place = self.pairs(place, &["env", "environment", "envs"])?;
                Ok(Launch::Command {
                    program: self.expanded(&command.value)?,
                    args: args
                        .iter()
                        .map(|word| self.expanded(word))
                        .collect::<Result<_, _>>()?,
                    env: match of_place.is_empty() {
                        true => self.pairs(entry, &["env", "environment", "envs"])?,
                        false => of_place,
                    },
                    cwd: self.cwd(entry)?,
                })
            }
            Form::Joined { words, .. } => {
                let words: Vec<String> = words
                    .iter()
                    .map(|word| self.expanded(word))
                    .collect::<Result<_, _>>()?;
                Ok(Launch::Command {
                    program: words[0].clone(),
                    args: words[1..].to_vec(),
                    env: self.pairs(entry, &["env", "environment", "envs"])?,
                    cwd: self.cwd(entry)?,
                })
            }
            Form::Address { url, .. } => {
                let address = self.expanded(&url.value)?;
                if !address.starts_with("http://") && !address.starts_with("https://") {
                    let why = format!(
                        "the address of {:?} begins with neither http:// nor https://",
                        member.key
                    );
                    return Err(Error::at(self.text, url.value.span.start, why));
                }
                Ok(Launch::Address {
                    url: address,
                    headers: self.headers(entry)?,
                    transport: transport(entry),
                })
            }
            Form::Broken(at, why) => Err(Error::at(self.text, at, why)),
            Form::Foreign(why) => Err(Error::at(self.text, member.key_span.start, why)),
        }
    }

    fn cwd(&self, entry: &Node) -> Result<Option<PathBuf>, Error> {
        match entry.get("cwd") {
            None => Ok(None),
            Some(node) if matches!(node.kind, Kind::Null) => Ok(None),
            Some(node) if node.text().is_some() => Ok(Some(self.expanded(node)?.into())),
            Some(node) => {
                let why = format!("cwd is {}, where a string is wanted", node.noun());
                Err(Error::at(self.text, node.span.start, why))
            }
        }
    }

    fn headers(&self, entry: &Node) -> Result<Vec<(String, Secret)>, Error> {
        let mut headers = self.pairs(entry, &["headers", "http_headers"])?;
        let variable = |name: &str, node: &Node| {
            (self.value)(name).ok_or_else(|| {
                let why = format!("the environment variable {name} is not set: set it");
                Error::at(self.text, node.span.start, why)
            })
        };
        for (name, node) in pairs_of(entry.get("env_http_headers")) {
            if let Some(variable_name) = node.text() {
                headers.push((name.to_owned(), Secret::new(variable(variable_name, node)?)));
            }
        }
        if let Some(node) = entry.get("bearer_token_env_var")
            && let Some(name) = node.text()
        {
            let token = Secret::new(format!("Bearer {}", variable(name, node)?));
            headers.push(("Authorization".to_owned(), token));
        }
        Ok(headers)
    }

    /// The strings of the first of these tables that is there.
    fn pairs(&self, entry: &Node, keys: &[&str]) -> Result<Vec<(String, Secret)>, Error> {
        let Some(table) = keys.iter().find_map(|key| entry.member(key)) else {
            return Ok(Vec::new());
        };
        let wrong = |node: &Node, what: &str, wanted: &str| {
            let why = format!("{what} is {}, where {wanted} is wanted", node.noun());
            Error::at(self.text, node.span.start, why)
        };
        match &table.value.kind {
            Kind::Null => Ok(Vec::new()),
            Kind::Table(members) => members
                .iter()
                .map(|member| match scalar(&member.value) {
                    Some(_) => Ok((
                        member.key.clone(),
                        Secret::new(self.expanded(&member.value)?),
                    )),
                    None => Err(wrong(&member.value, &member.key, "a string")),
                })
                .collect(),
            _ => Err(wrong(&table.value, &table.key, "an object of strings")),
        }
    }

    fn expanded(&self, node: &Node) -> Result<String, Error> {
        let text = scalar(node).unwrap_or_default();
        expand(&text, self.shape, self.value)
            .map_err(|why| Error::at(self.text, node.span.start, why))
    }

    fn settings(&self, entry: &Node) -> Vec<Setting> {
        let ours = entry.member("outlive");
        let members = ours.and_then(|ours| ours.value.members());
        // What is no table of settings is handed on as it stands, so that somebody can say so.
        let members = match (ours, members) {
            (_, Some(members)) => members,
            (Some(ours), None) => std::slice::from_ref(ours),
            (None, None) => &[],
        };
        let beside =
            entry.members().unwrap_or_default().iter().filter(|member| {
                self.shape == Shape::Ours && !KNOWN.contains(&member.key.as_str())
            });
        members
            .iter()
            .chain(beside)
            .map(|member| Setting {
                key: member.key.clone(),
                value: member.value.to_value(),
                at: Position::of(self.text, member.key_span.start),
            })
            .collect()
    }

    /// Notes keys that have no meaning here, each once in a file.
    fn unknown(&self, member: &Member, unknown: &mut Vec<(String, Position)>) {
        if self.shape == Shape::Ours {
            return;
        }
        for member in member.value.members().unwrap_or_default() {
            let is_new = unknown.iter().all(|(key, _)| *key != member.key);
            if is_new && !KNOWN.contains(&member.key.as_str()) {
                unknown.push((
                    member.key.clone(),
                    Position::of(self.text, member.key_span.start),
                ));
            }
        }
    }
}

fn pairs_of(table: Option<&Node>) -> impl Iterator<Item = (&str, &Node)> {
    let members = table.and_then(Node::members).unwrap_or_default();
    members
        .iter()
        .map(|member| (member.key.as_str(), &member.value))
}

fn enabled(entry: &Node) -> bool {
    let says = |key: &str, yes: bool| matches!(entry.get(key), Some(Node { kind: Kind::Bool(it), .. }) if *it == yes);
    !says("disabled", true) && !says("enabled", false)
}

/// The transport that an entry names, if it names one that is known.
pub fn transport(entry: &Node) -> Option<Transport> {
    let named = entry
        .get("type")
        .or_else(|| entry.get("transport"))?
        .text()?;
    match named.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "sse" => Some(Transport::Sse),
        "http" | "streamablehttp" => Some(Transport::Streamable),
        _ => None,
    }
}
