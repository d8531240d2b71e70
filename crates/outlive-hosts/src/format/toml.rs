//! TOML.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Error;
use crate::tree::{Kind, Member, Node};

pub fn parse(text: &str) -> Result<Node, Error> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let why = format!("{}: this is no TOML", error.message().replace('\n', ", "));
        Error::at(text, at, why)
    })?;
    Ok(Node {
        span: table.span(),
        kind: members(table.get_ref()),
    })
}

fn members(table: &DeTable<'_>) -> Kind {
    let mut members: Vec<Member> = table
        .iter()
        .map(|(key, value)| Member {
            key: key.get_ref().to_string(),
            key_span: key.span(),
            value: node(value),
        })
        .collect();
    // The parser sorts them by name; a person reads them as they stand.
    members.sort_by_key(|member| member.key_span.start);
    Kind::Table(members)
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let kind = match value.get_ref() {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(number) => Kind::Number(number.to_string()),
        DeValue::Float(number) => Kind::Number(number.to_string()),
        DeValue::Boolean(yes) => Kind::Bool(*yes),
        DeValue::Datetime(_) => Kind::Opaque("a date"),
        DeValue::Array(nodes) => Kind::List(nodes.iter().map(node).collect()),
        DeValue::Table(table) => members(table),
    };
    Node {
        span: value.span(),
        kind,
    }
}
