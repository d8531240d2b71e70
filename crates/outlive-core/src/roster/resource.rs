//! Whose a resource is.
//!
//! URIs are shown as the servers write them. Where that does not tell the server, the explicit form does:
//! `outlive:SERVER:URI`, with every character of the server's name but letters, digits, `.`, `_` and `-`
//! percent-encoded. A URI that a server itself writes in this form is always shown in the explicit form, so that no
//! server can pass for another.

use std::borrow::Cow;
use std::fmt;

use super::{Found, Roster, Server, spelling, template};
use crate::gateway::TargetId;
use crate::protocol::List;

/// How the explicit form begins.
pub(super) const SCHEME: &str = "outlive:";

/// Templates of one server that a URI is compared with. Nobody has as many, and a server that has could make every
/// read slow.
const MOST_TEMPLATES: usize = 1_000;

/// Servers that an error names.
const MOST_NAMED: usize = 8;

/// Letters of a URI that an error repeats.
const MOST_LETTERS: usize = 200;

/// Why there is no server to read a resource from. Its text says what to do, to a person or a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceError {
    /// The resource that was asked for.
    pub uri: Box<str>,
    /// The servers that may have it: those that offer resources, in their order.
    pub servers: Vec<Box<str>>,
    /// Those of which nothing is known yet. When it is, the resource may be found.
    pub unknown: Vec<Box<str>>,
    /// The server that may have it, but of which it was not accepted.
    pub withheld: Option<Box<str>>,
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Cow<'_, str> = match self.uri.char_indices().nth(MOST_LETTERS) {
            Some((at, _)) => format!("{}…", &self.uri[..at]).into(),
            None => (*self.uri).into(),
        };
        if let Some(server) = &self.withheld {
            return write!(
                f,
                "The resource {shown:?} was not asked for: the definitions of the server {server:?} are pinned, and this is \
                 not among those that were accepted. Whoever runs outlive can see what has changed, and accept it, \
                 with `outlive accept {server}`."
            );
        }
        if self.servers.is_empty() && self.unknown.is_empty() {
            return write!(
                f,
                "there is no resource {shown:?}: no server here offers resources"
            );
        }
        write!(f, "no server lists the resource {shown:?}")?;
        if !self.servers.is_empty() {
            write!(f, "; these offer resources: {}", named(&self.servers))?;
        }
        if !self.unknown.is_empty() {
            write!(
                f,
                "; these have not been reached yet: {}",
                named(&self.unknown)
            )?;
        }
        let example = self.servers.first().or(self.unknown.first());
        match example.filter(|_| !self.uri.starts_with(SCHEME)) {
            Some(server) => write!(
                f,
                ". To say which server is meant, write it before the URI, as in {}",
                explicit(server, &shown)
            ),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ResourceError {}

fn named(servers: &[Box<str>]) -> String {
    let mut text = servers[..servers.len().min(MOST_NAMED)].join(", ");
    if servers.len() > MOST_NAMED {
        text += &format!(" and {} more", servers.len() - MOST_NAMED);
    }
    text
}

/// The explicit form of a URI.
pub(super) fn explicit(server: &str, uri: &str) -> String {
    let mut text = String::with_capacity(SCHEME.len() + server.len() + 1 + uri.len());
    text.push_str(SCHEME);
    for byte in server.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => text.push(byte.into()),
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text.push(':');
    text.push_str(uri);
    text
}

impl Roster {
    /// The server a resource is read from, and the URI it has there. In this order: the server that the explicit form
    /// names; the one that lists the URI; the one with the template that fits best; the only one that offers resources.
    pub fn resource<'a>(&self, uri: &'a str) -> Result<(TargetId, &'a str), ResourceError> {
        let owner = self.owner(uri);
        let found = owner.filter(|(server, original)| self.is_in_view(*server, original));
        match found {
            Some((server, original)) if self.is_accepted(server, original) => {
                Ok((self.servers[server].target, original))
            }
            Some((server, _)) if self.servers[server].offer.is_some() => Err(ResourceError {
                withheld: Some(self.servers[server].name.clone()),
                ..self.no_resource(uri)
            }),
            _ => Err(self.no_resource(uri)),
        }
    }

    /// Whether the view contains what this server has under this URI. Lists have nothing else; what they do not have is
    /// judged by what it may lead to.
    fn is_in_view(&self, server: usize, original: &str) -> bool {
        let listed = &self.lists[List::Resources as usize];
        listed.exposed_of(&self.servers, server, original).is_some()
            || spelling::admits(&self.view.resources, &self.servers[server].name, original)
    }

    /// Whether a resource may be asked for. Where definitions are pinned, it is listed, or a template stands for it; it
    /// is not enough that the server would know it.
    fn is_accepted(&self, server: usize, original: &str) -> bool {
        let it = &self.servers[server];
        let listed = &self.lists[List::Resources as usize];
        let mut templates = it.items(List::Templates).iter().take(MOST_TEMPLATES);
        !it.is_pinned
            || listed.exposed_of(&self.servers, server, original).is_some()
            || templates.any(|item| template::matches(item.key(), original))
    }

    /// The template that clients see under this text, for a completion. The explicit form is understood, too.
    pub fn template(&self, uri_template: &str) -> Option<Found<'_>> {
        let templates = &self.lists[List::Templates as usize];
        if let Some(found) = templates.find(&self.servers, uri_template) {
            return Some(self.found(found));
        }
        let (server, original) = self.read_explicit(uri_template)?;
        let exposed = templates.exposed_of(&self.servers, server, original)?;
        let found = templates.find(&self.servers, exposed)?;
        Some(self.found(found))
    }

    /// The URI under which clients find what this server has under that URI: the same, unless it would lead elsewhere.
    pub fn exposed_uri<'a>(&self, target: TargetId, original: &'a str) -> Cow<'a, str> {
        let Some(at) = self.place(target) else {
            return original.into();
        };
        match self.owner(original) {
            Some((server, uri)) if server == at && uri == original => original.into(),
            _ => explicit(&self.servers[at].name, original).into(),
        }
    }

    /// The URI that leads to this server whatever others list; `None` if the server is not in the view.
    pub fn explicit_uri(&self, target: TargetId, original: &str) -> Option<String> {
        Some(explicit(self.name(target)?, original))
    }

    /// Whether the view contains what this server has under that URI, and nobody needs to accept it first.
    pub fn shows_resource(&self, target: TargetId, original: &str) -> bool {
        let place = self.place(target);
        place.is_some_and(|it| self.is_in_view(it, original) && self.is_accepted(it, original))
    }

    /// Whose a resource is, whether it is in the view or not.
    fn owner<'a>(&self, uri: &'a str) -> Option<(usize, &'a str)> {
        if uri.starts_with(SCHEME) {
            return self.read_explicit(uri);
        }
        let listed = &self.lists[List::Resources as usize];
        if let Some((server, _)) = listed.find(&self.servers, uri) {
            return Some((server, uri));
        }
        let server = self.best_template(uri).or_else(|| self.only_candidate())?;
        Some((server, uri))
    }

    /// The server and the URI that the explicit form tells.
    fn read_explicit<'a>(&self, uri: &'a str) -> Option<(usize, &'a str)> {
        let (name, _) = uri.strip_prefix(SCHEME)?.split_once(':')?;
        let begin = &uri[..SCHEME.len() + name.len() + 1];
        let is_it = |server: &Server| explicit(&server.name, "") == begin;
        let server = self.servers.iter().position(is_it)?;
        Some((server, &uri[begin.len()..]))
    }

    /// The server whose template fits and has the most literal text; of several the first.
    fn best_template(&self, uri: &str) -> Option<usize> {
        let mut best: Option<(usize, usize)> = None;
        let (mut last, mut compared) = (0, 0);
        for (server, item) in self.lists[List::Templates as usize].all(&self.servers) {
            compared = if server == last { compared + 1 } else { 1 };
            last = server;
            if compared > MOST_TEMPLATES || !template::matches(item.key(), uri) {
                continue;
            }
            let literal = template::literal_len(item.key());
            if best.is_none_or(|(most, _)| literal > most) {
                best = Some((literal, server));
            }
        }
        best.map(|(_, server)| server)
    }

    /// The only server that can have a resource that nobody lists.
    fn only_candidate(&self) -> Option<usize> {
        let mut candidates =
            (0..self.servers.len()).filter(|at| self.servers[*at].may_offer(List::Resources));
        candidates.next().filter(|_| candidates.next().is_none())
    }

    fn no_resource(&self, uri: &str) -> ResourceError {
        let names = |known: bool| {
            let servers = self.servers.iter().filter(|server| {
                server.offer.is_some() == known && server.may_offer(List::Resources)
            });
            servers.map(|server| server.name.clone()).collect()
        };
        ResourceError {
            uri: uri.into(),
            servers: names(true),
            unknown: names(false),
            withheld: None,
        }
    }
}
