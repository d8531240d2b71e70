//! Edits of a text: spans and what takes their place.

use crate::format::Format;
use crate::tree::{Member, Node, Span};

/// A file after `wrap` or `unwrap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The new text; the old one, if there was nothing to do.
    pub text: String,
    /// What happened to each server, in the order of the file.
    pub servers: Vec<Touched>,
}

/// What happened to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Its name.
    pub name: String,
    /// The project it is for, where a file holds those of several.
    pub project: Option<String>,
    /// What was done.
    pub action: Action,
}

/// What was done to a server's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// outlive has been put in front of it.
    Wrapped,
    /// outlive has been taken away again.
    Unwrapped,
    /// It already was as it should be.
    Unchanged,
    /// It was not touched, for this reason.
    Left(String),
}

/// A text with the edits to be made in it.
pub struct Editor<'a> {
    pub text: &'a str,
    pub format: Format,
    edits: Vec<(Span, String)>,
}

impl<'a> Editor<'a> {
    pub fn new(text: &'a str, format: Format) -> Editor<'a> {
        Editor {
            text,
            format,
            edits: Vec::new(),
        }
    }

    /// The text with its edits made.
    pub fn finish(mut self) -> String {
        self.edits.sort_by_key(|(span, _)| span.start);
        let mut edited = String::with_capacity(self.text.len() + 64 * self.edits.len());
        let mut done = 0;
        for (span, new) in &self.edits {
            edited.push_str(&self.text[done..span.start]);
            edited.push_str(new);
            done = span.end;
        }
        edited.push_str(&self.text[done..]);
        edited
    }

    /// Takes over the edits of another one of the same text.
    pub fn absorb(&mut self, other: &Editor<'_>) {
        self.edits.extend_from_slice(&other.edits);
    }

    pub fn replace(&mut self, span: Span, new: impl Into<String>) {
        self.edits.push((span, new.into()));
    }

    /// How a node is written.
    pub fn raw(&self, node: &Node) -> &'a str {
        &self.text[node.span.clone()]
    }

    /// What stands before this byte on its line.
    fn lead(&self, byte: usize) -> &'a str {
        let start = self.text[..byte].rfind('\n').map_or(0, |at| at + 1);
        &self.text[start..byte]
    }

    fn begins_its_line(&self, byte: usize) -> bool {
        self.lead(byte).chars().all(|c| c == ' ' || c == '\t')
    }

    /// How lines end here.
    fn newline(&self) -> &'static str {
        match self.text.contains("\r\n") {
            true => "\r\n",
            false => "\n",
        }
    }

    /// Whether a table or a list is written in brackets, rather than in lines of its own.
    pub fn is_inline(&self, node: &Node) -> bool {
        match (self.format, node.list()) {
            (Format::Json, _) | (Format::Toml, Some(_)) => true,
            (_, Some(_)) => self.raw(node).starts_with('['),
            (_, None) => self.raw(node).starts_with('{'),
        }
    }

    /// A string as this format writes it.
    pub fn spell(&self, word: &str) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./".contains(c);
        let begins_plain = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        let means_something = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
        if self.format == Format::Yaml
            && begins_plain
            && word.chars().all(|c| is_plain(c) || c == '-')
            && !means_something.contains(&word.to_ascii_lowercase().as_str())
        {
            return word.to_owned();
        }
        // A string of JSON is one of TOML and YAML too, but for one character.
        serde_json::Value::from(word)
            .to_string()
            .replace('\u{7f}', "\\u007f")
    }

    /// A key and its value as this format writes them.
    pub fn pair(&self, key: &str, value: &str) -> String {
        match self.format {
            Format::Json => format!("\"{key}\": {value}"),
            Format::Toml => format!("{key} = {value}"),
            Format::Yaml => format!("{key}: {value}"),
        }
    }

    /// A value that stands elsewhere in the file, as it can stand in a list or a table.
    pub fn moved(&self, node: &Node) -> String {
        let raw = self.raw(node);
        let is_safe = match self.format {
            Format::Json | Format::Toml => true,
            Format::Yaml => {
                !raw.contains(['\n', ',', '[', ']', '{', '}']) && !raw.starts_with(['|', '>'])
            }
        };
        match (is_safe, node.text()) {
            (false, Some(text)) => self.spell(text),
            _ => raw.to_owned(),
        }
    }

    /// Puts words in front of a list, each on a line of its own where the others are.
    pub fn put_in_front(&mut self, list: &Node, words: &[String]) -> Result<(), String> {
        let Some(first) = list.list().and_then(<[Node]>::first) else {
            if !self.is_inline(list) {
                return Err("its args are written in a way that outlive does not know".into());
            }
            let after_bracket = list.span.start + 1;
            self.replace(after_bracket..after_bracket, words.join(", "));
            return Ok(());
        };
        if self.is_inline(list) {
            let at = first.span.start;
            let joint = match self.begins_its_line(at) {
                true => format!(",{}{}", self.newline(), self.lead(at)),
                false => ", ".to_owned(),
            };
            let front: String = words
                .iter()
                .flat_map(|word| [word.as_str(), &joint])
                .collect();
            self.replace(at..at, front);
            return Ok(());
        }
        let dash = self.dash(first)?;
        let (indent, newline) = (self.lead(dash), self.newline());
        let gap = &self.text[dash + 1..first.span.start];
        let front: String = words
            .iter()
            .flat_map(|word| ["-", gap, word.as_str(), newline, indent])
            .collect();
        self.replace(dash..dash, front);
        Ok(())
    }

    /// Takes the first words out of a list.
    pub fn take_from_front(&mut self, list: &Node, count: usize) -> Result<(), String> {
        let nodes = list.list().unwrap_or_default();
        match (nodes.get(count), self.is_inline(list)) {
            (None, _) => self.replace(list.span.clone(), "[]"),
            (Some(next), true) => self.replace(nodes[0].span.start..next.span.start, ""),
            (Some(next), false) => {
                let (first, next) = (self.dash(&nodes[0])?, self.dash(next)?);
                self.replace(first..next, "");
            }
        }
        Ok(())
    }

    /// Where the dash stands before an element of a YAML list that begins a line.
    fn dash(&self, element: &Node) -> Result<usize, String> {
        let lead = self.lead(element.span.start);
        let dash = lead.trim_end_matches([' ', '\t']);
        match dash.strip_suffix('-') {
            Some(indent) if indent.chars().all(|c| c == ' ') && dash.len() < lead.len() => {
                Ok(element.span.start - lead.len() + indent.len())
            }
            _ => Err("its args are written in a way that outlive does not know".into()),
        }
    }

    /// What stands between two pairs of a table, behind this one.
    pub fn joint(&self, table: &Node, member: &Member) -> Result<String, String> {
        let lead = self.lead(member.key_span.start);
        let begins = self.begins_its_line(member.key_span.start);
        match (self.is_inline(table), begins) {
            (true, true) => Ok(format!(",{}{lead}", self.newline())),
            (true, false) => Ok(", ".to_owned()),
            // `mcp_servers.x.command = …`: the next line begins with the same words.
            (false, _) if begins || self.format == Format::Toml => {
                Ok(format!("{}{lead}", self.newline()))
            }
            (false, _) => Err("it is written in a way that outlive does not know".into()),
        }
    }

    /// Adds a pair behind another one; behind its comment, where lines end pairs.
    pub fn add_behind(&mut self, table: &Node, member: &Member, pair: &str) -> Result<(), String> {
        let joint = self.joint(table, member)?;
        let end = member.value.span.end;
        let at = match self.is_inline(table) {
            true => end,
            false => {
                let line = self.text[end..]
                    .find('\n')
                    .map_or(self.text.len(), |at| end + at);
                line - usize::from(self.text[..line].ends_with('\r'))
            }
        };
        self.replace(at..at, format!("{joint}{pair}"));
        Ok(())
    }

    /// Where a pair stands.
    pub fn pair_span(member: &Member) -> Span {
        member.key_span.start..member.value.span.end
    }
}
