//! YAML: one document, without the parts of the language that need more than a look at the place.

use saphyr_parser::{Event, Parser, ScalarStyle, Span as Marks};

use super::MAX_DEPTH;
use crate::error::Error;
use crate::tree::{Kind, Member, Node, Span};

pub fn parse(text: &str) -> Result<Node, Error> {
    let bytes: Vec<usize> = text
        .char_indices()
        .map(|(byte, _)| byte)
        .chain([text.len()])
        .collect();
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, marks) = event.map_err(|error| {
            let why = format!("{}: this is no YAML", error.info());
            Error::at(text, byte(&bytes, error.marker().index()), why)
        })?;
        let span = span(&bytes, marks);
        builder
            .take(event, span.clone())
            .map_err(|why| Error::at(text, span.start, why))?;
    }
    let empty = || Error::at(text, text.len(), "the file is empty: it has no servers");
    builder.root.ok_or_else(empty)
}

/// The parser counts characters.
fn byte(bytes: &[usize], character: usize) -> usize {
    bytes[character.min(bytes.len() - 1)]
}

fn span(bytes: &[usize], marks: Marks) -> Span {
    let start = byte(bytes, marks.start.index());
    start..byte(bytes, marks.end.index()).max(start)
}

/// A collection that is being read.
struct Open {
    span: Span,
    /// Only of a mapping.
    members: Vec<Member>,
    /// Only of a sequence.
    nodes: Vec<Node>,
    is_mapping: bool,
    key: Option<(String, Span)>,
    opaque: Option<&'static str>,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), &'static str> {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                match self.documents {
                    1 => Ok(()),
                    _ => Err("a second document begins here: keep one document in the file"),
                }
            }
            Event::Alias(_) => self.put(Node {
                span,
                kind: Kind::Opaque("an alias"),
            }),
            Event::Scalar(text, style, anchor, tag) => {
                let kind = match (anchor, tag) {
                    (0, None) => scalar(&text, style),
                    (0, Some(_)) => Kind::Opaque("a value with a tag"),
                    _ => Kind::Opaque("a value with an anchor"),
                };
                self.put(Node { span, kind })
            }
            Event::SequenceStart(anchor, tag) => self.begin(span, false, anchor, tag.is_some()),
            Event::MappingStart(anchor, tag) => self.begin(span, true, anchor, tag.is_some()),
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        span: Span,
        is_mapping: bool,
        anchor: usize,
        tag: bool,
    ) -> Result<(), &'static str> {
        if self.open.len() >= MAX_DEPTH {
            return Err("values are nested too deep here");
        }
        let opaque = (anchor != 0 || tag).then_some("a value with an anchor or a tag");
        self.open.push(Open {
            span,
            members: Vec::new(),
            nodes: Vec::new(),
            is_mapping,
            key: None,
            opaque,
        });
        Ok(())
    }

    fn end(&mut self, span: Span) -> Result<(), &'static str> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let last = match open.is_mapping {
            true => open
                .members
                .last()
                .map(|member| member.value.span.end.max(member.key_span.end)),
            false => open.nodes.last().map(|node| node.span.end),
        };
        // A collection in brackets ends with them; one in lines ends with its last value, where the parser would
        // count the comments behind it.
        let in_brackets = span.end > span.start;
        let end = match last {
            Some(last) if !in_brackets => last,
            _ => span.end,
        };
        let kind = match (open.opaque, open.is_mapping) {
            (Some(what), _) => Kind::Opaque(what),
            (None, true) => Kind::Table(open.members),
            (None, false) => Kind::List(open.nodes),
        };
        self.put(Node {
            span: open.span.start..end.max(open.span.start),
            kind,
        })
    }

    /// Puts a finished value where it belongs.
    fn put(&mut self, node: Node) -> Result<(), &'static str> {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        if !open.is_mapping {
            open.nodes.push(node);
            return Ok(());
        }
        match open.key.take() {
            Some((key, key_span)) => open.members.push(Member {
                key,
                key_span,
                value: node,
            }),
            None => {
                let key = match node.kind {
                    Kind::Text(text) | Kind::Number(text) => text,
                    Kind::Bool(yes) => yes.to_string(),
                    Kind::Null => "null".into(),
                    _ => return Err("a key that is no string: write the key out"),
                };
                open.key = Some((key, node.span));
            }
        }
        Ok(())
    }
}

/// The core schema of YAML 1.2, for what is written without quotes.
fn scalar(text: &str, style: ScalarStyle) -> Kind {
    if style != ScalarStyle::Plain {
        return Kind::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        _ if text.parse::<f64>().is_ok()
            && text.starts_with(|c: char| c.is_ascii_digit() || c == '-') =>
        {
            Kind::Number(text.to_owned())
        }
        _ => Kind::Text(text.to_owned()),
    }
}
