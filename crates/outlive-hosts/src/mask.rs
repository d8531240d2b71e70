//! A file as it may be shown.

use crate::edit::Editor;
use crate::error::Error;
use crate::format::Format;
use crate::shape::Shape;
use crate::tree::{Kind, Node};

/// Tables of a server whose values may be secrets.
const SECRET: [&str; 5] = ["env", "environment", "envs", "headers", "http_headers"];

/// The file with `…` for everything that may be a secret: values of variables and headers, and all strings that
/// belong to no server. Hosts keep more than servers in their files.
pub fn masked(text: &str, format: Format, shape: Shape) -> Result<String, Error> {
    let root = format.parse(text)?;
    let servers: Vec<&Node> = shape
        .entries(&root, text)?
        .iter()
        .map(|entry| &entry.member.value)
        .collect();
    let mut editor = Editor::new(text, format);
    mask(&mut editor, &root, &servers, true);
    Ok(editor.finish())
}

fn mask(editor: &mut Editor<'_>, node: &Node, servers: &[&Node], is_secret: bool) {
    let is_server = servers.iter().any(|server| std::ptr::eq(*server, node));
    let is_secret = is_secret && !is_server;
    match &node.kind {
        Kind::Text(_) | Kind::Number(_) | Kind::Opaque(_) if is_secret => {
            let hidden = editor.spell("…");
            editor.replace(node.span.clone(), hidden);
        }
        Kind::List(nodes) => {
            for node in nodes {
                mask(editor, node, servers, is_secret);
            }
        }
        Kind::Table(members) => {
            for member in members {
                let is_secret = is_secret || SECRET.contains(&member.key.as_str());
                mask(editor, &member.value, servers, is_secret);
            }
        }
        _ => {}
    }
}
