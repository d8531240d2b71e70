//! Puts `outlive run` in front of the servers of a file.

use crate::edit::{Action, Edited, Editor, Touched};
use crate::entry::{Form, scalar};
use crate::error::Error;
use crate::format::Format;
use crate::read::transport;
use crate::server::Transport;
use crate::shape::{Entry, Shape};
use crate::tree::{Kind, Member, Node};
use crate::verify::{Draft, Part};

/// How servers are wrapped.
#[derive(Clone, Copy, Debug)]
pub struct Wrapping<'a> {
    /// What starts outlive: a name or a path. Its file name is `outlive`, or nobody could tell later.
    pub program: &'a str,
    /// Wraps addresses without headers too, which the host may have to log in to.
    pub addresses: bool,
}

/// The file with `outlive run` in front of every server that it can be put in front of.
pub fn wrap(
    text: &str,
    format: Format,
    shape: Shape,
    wrapping: Wrapping<'_>,
) -> Result<Edited, Error> {
    let root = format.parse(text)?;
    let mut parts = Vec::new();
    for entry in shape.entries(&root, text)? {
        let mut editor = Editor::new(text, format);
        let action = wrap_entry(&mut editor, shape, &entry, wrapping)?;
        parts.push(Part {
            entry,
            editor,
            action,
        });
    }
    let draft = Draft {
        text,
        format,
        shape,
        root: &root,
        parts,
    };
    draft.finish(|before, after| match after {
        [program, run, dashes, server @ ..] if program == wrapping.program && run == "run" => {
            let is_address = before.len() == 1 && after.last() == before.last();
            (dashes == "--" && server == before) || (dashes != "--" && is_address)
        }
        _ => false,
    })
}

pub(crate) fn touched(entry: &Entry<'_>, action: Action) -> Touched {
    Touched {
        name: entry.member.key.clone(),
        project: entry.project.map(Into::into),
        action,
    }
}

/// Whether a program is recognised as outlive, by its file name.
pub fn is_outlive(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name.strip_suffix(".exe").unwrap_or(name) == "outlive"
}

/// Whether these words start outlive in front of a server.
pub(crate) fn is_ours(program: &str, first: Option<&str>) -> bool {
    is_outlive(program) && first == Some("run")
}

fn wrap_entry(
    editor: &mut Editor<'_>,
    shape: Shape,
    entry: &Entry<'_>,
    wrapping: Wrapping<'_>,
) -> Result<Action, Error> {
    let program = editor.spell(wrapping.program);
    let [run, dashes] = ["run", "--"].map(|word| editor.spell(word));
    let done = match Form::of(entry.member, shape) {
        Form::Foreign(why) => Err(why),
        Form::Broken(at, why) => return Err(Error::at(editor.text, at, why)),
        Form::Joined { words, .. }
            if is_ours(word(words, 0), words.get(1).and_then(Node::text)) =>
        {
            return Ok(Action::Unchanged);
        }
        Form::Joined { command, .. } => {
            editor.put_in_front(&command.value, &[program, run, dashes])
        }
        Form::Split {
            place,
            command,
            args,
        } => {
            let list = args.and_then(|args| args.value.list()).unwrap_or_default();
            if is_ours(
                command.value.text().unwrap_or_default(),
                list.first().and_then(Node::text),
            ) {
                return Ok(Action::Unchanged);
            }
            if is_a_line(command.value.text().unwrap_or_default()) {
                return Ok(Action::Left(
                    "its command is several words: write the program, and the rest as args".into(),
                ));
            }
            let words = [run, dashes, editor.moved(&command.value)];
            let done = match args {
                Some(args) if args.value.list().is_some() => {
                    editor.put_in_front(&args.value, &words)
                }
                Some(_) => Err("its args are null: write []".into()),
                None => {
                    let list = format!("[{}]", words.join(", "));
                    let pair = editor.pair("args", &list);
                    editor.add_behind(place, command, &pair)
                }
            };
            done.map(|()| editor.replace(command.value.span.clone(), program))
        }
        Form::Address { url, address } => {
            match Remote::of(entry.member, shape, address, wrapping, editor) {
                Ok(remote) => remote.wrap(editor, shape, entry.member, url, &program),
                Err(why) => Err(why),
            }
        }
    };
    Ok(done.map_or_else(Action::Left, |()| Action::Wrapped))
}

/// Whether a command is a line for a shell, which some hosts ask. A path with a space in it is none.
fn is_a_line(command: &str) -> bool {
    let mut words = command.split_whitespace();
    words
        .next()
        .is_some_and(|first| !first.contains(['/', '\\']))
        && words.next().is_some()
}

fn word(words: &[Node], place: usize) -> &str {
    words.get(place).and_then(Node::text).unwrap_or_default()
}

/// Keys of a server that its host logs in to.
const LOGIN: [&str; 7] = [
    "auth",
    "authProviderType",
    "env_http_headers",
    "headersHelper",
    "oauth",
    "oauth_resource",
    "scopes",
];

/// An address that `outlive run` can stand in front of.
struct Remote<'n> {
    /// The headers, one per line, as `OUTLIVE_HEADER` takes them. A command line is visible to everybody on the
    /// machine; the environment of a process is not.
    headers: Vec<String>,
    headers_member: Option<&'n Member>,
    /// Codex: the variable that holds the token.
    token_member: Option<&'n Member>,
    transport: Option<Transport>,
}

impl<'n> Remote<'n> {
    fn of(
        member: &'n Member,
        shape: Shape,
        address: &str,
        wrapping: Wrapping<'_>,
        editor: &Editor<'_>,
    ) -> Result<Remote<'n>, String> {
        let entry = &member.value;
        if let Some(key) = LOGIN.iter().find(|key| entry.get(key).is_some()) {
            return Err(format!(
                "the host logs in to this address ({key}), which it cannot do through outlive"
            ));
        }
        if !address.starts_with("http://") && !address.starts_with("https://") {
            return Err("its address begins with neither http:// nor https://".into());
        }
        if may_hold_secret(address) {
            return Err("its address may hold a secret, and everybody on the machine can read command lines".into());
        }
        let taken = ["args", "env", "envs", "environment", "env_vars"];
        if let Some(key) = taken.iter().find(|key| entry.get(key).is_some()) {
            return Err(format!("it has an address and {key}: remove one of them"));
        }
        let headers_member = entry
            .member("headers")
            .or_else(|| entry.member("http_headers"));
        let token_member = entry.member("bearer_token_env_var");
        let mut headers = match headers_member {
            Some(headers) => lines(&headers.value, shape)?,
            None => Vec::new(),
        };
        if headers_member
            .is_some_and(|it| editor.format == Format::Toml && !editor.is_inline(&it.value))
        {
            return Err(
                "its headers are a table of their own: write them as http_headers = { … }".into(),
            );
        }
        if let Some(token) = token_member {
            let is_name = |name: &&str| {
                !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
            };
            let name = token.value.text().filter(is_name);
            let name = name.ok_or("its bearer_token_env_var is no name of a variable")?;
            headers.push(format!("Authorization: Bearer ${{{name}}}"));
            if headers_member.is_some() {
                return Err("it has headers and a token from a variable".into());
            }
        }
        if headers.is_empty() && !wrapping.addresses && !is_loopback(address) {
            return Err(
                "it has no headers, so the host may have to log in to it, which it cannot do through outlive; \
                 --addresses wraps it all the same"
                    .into(),
            );
        }
        Ok(Remote {
            headers,
            headers_member,
            token_member,
            transport: transport(entry),
        })
    }

    fn wrap(
        self,
        editor: &mut Editor<'_>,
        shape: Shape,
        member: &Member,
        url: &Member,
        program: &str,
    ) -> Result<(), String> {
        let entry = &member.value;
        let joint = editor.joint(entry, url)?;
        let mut words = vec![editor.spell("run")];
        if self.transport == Some(Transport::Sse) {
            words.extend(["--transport", "sse"].map(|word| editor.spell(word)));
        }
        words.push(editor.moved(&url.value));
        let words = words.join(", ");
        let command = match shape {
            Shape::Mcp => editor.pair("command", &format!("[{program}, {words}]")),
            _ => [
                editor.pair(shape.command(), program),
                editor.pair("args", &format!("[{words}]")),
            ]
            .join(&joint),
        };
        let header = editor.pair("OUTLIVE_HEADER", &editor.spell(&self.headers.join("\n")));
        let env = editor.pair(shape.env(), &format!("{{ {header} }}"));
        if let Some(headers) = self.headers_member {
            let env = match self.headers.is_empty() {
                true => editor.pair(shape.env(), "{}"),
                false => env,
            };
            editor.replace(Editor::pair_span(headers), env);
        } else if let Some(token) = self.token_member {
            // Codex hands a server only the variables it is told to.
            let handed = editor.pair("env_vars", &format!("[{}]", editor.moved(&token.value)));
            let joint = editor.joint(entry, token)?;
            editor.replace(Editor::pair_span(token), format!("{handed}{joint}{env}"));
        }
        for key in ["type", "transport"] {
            if let Some(kind) = entry.get(key) {
                editor.replace(kind.span.clone(), editor.spell(shape.stdio()));
            }
        }
        editor.replace(Editor::pair_span(url), command);
        Ok(())
    }
}

/// Headers as lines.
fn lines(headers: &Node, shape: Shape) -> Result<Vec<String>, String> {
    let members = match &headers.kind {
        Kind::Null => return Ok(Vec::new()),
        Kind::Table(members) => members,
        _ => return Err("its headers are no object".into()),
    };
    members
        .iter()
        .map(|member| {
            let name = &member.key;
            let value =
                scalar(&member.value).ok_or_else(|| format!("its header {name} is no string"))?;
            if name.contains(['\n', ':']) || value.contains('\n') {
                return Err(format!(
                    "its header {name} has a line break or a colon in its name"
                ));
            }
            if value.contains('$') && !shape.expands() {
                return Err(format!(
                    "its header {name} has a $, which outlive would take for a variable"
                ));
            }
            Ok(format!("{name}: {value}"))
        })
        .collect()
}

/// Whether an address may carry a credential: in its user, its query, a variable, or a part that looks random.
fn may_hold_secret(address: &str) -> bool {
    let looks_random = |part: &str| part.len() >= 20 && part.contains(|c: char| c.is_ascii_digit());
    let path = address.splitn(4, '/').nth(3).unwrap_or_default();
    address.contains(['@', '?', '$', '{']) || path.split('/').any(looks_random)
}

fn is_loopback(address: &str) -> bool {
    let host = address.split("://").nth(1).unwrap_or_default();
    let host = host.split('/').next().unwrap_or_default();
    ["127.0.0.1", "localhost", "[::1]"].iter().any(|known| {
        let port = host.strip_prefix(known);
        port.is_some_and(|port| port.is_empty() || port.starts_with(':'))
    })
}
