//! JSON as people write it: with comments and trailing commas.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use crate::error::Error;
use crate::tree::{Kind, Member, Node, Span};

pub fn parse(text: &str) -> Result<Node, Error> {
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    let offset = text.len() - bare.len();
    // Comments and trailing commas are what hosts accept. The rest of JSON5 they do not, nor do we.
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(bare, &CollectOptions::default(), &options).map_err(|error| {
        let why = format!("{}: this is no JSON", lowercase(&error.kind().to_string()));
        Error::at(text, error.range().start + offset, why)
    })?;
    match parsed.value {
        Some(value) => Ok(node(&value, offset)),
        None => Err(Error::at(
            text,
            text.len(),
            "the file is empty: write {} at least",
        )),
    }
}

fn lowercase(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

fn node(value: &Value<'_>, offset: usize) -> Node {
    let span = |it: &dyn Ranged| -> Span { it.start() + offset..it.end() + offset };
    let kind = match value {
        Value::StringLit(it) => Kind::Text(it.value.to_string()),
        Value::NumberLit(it) => Kind::Number(it.value.to_owned()),
        Value::BooleanLit(it) => Kind::Bool(it.value),
        Value::NullKeyword(_) => Kind::Null,
        Value::Array(it) => Kind::List(it.elements.iter().map(|it| node(it, offset)).collect()),
        Value::Object(it) => Kind::Table(
            it.properties
                .iter()
                .map(|property| Member {
                    key: property.name.as_str().to_owned(),
                    key_span: span(&property.name),
                    value: node(&property.value, offset),
                })
                .collect(),
        ),
    };
    Node {
        span: span(value),
        kind,
    }
}
