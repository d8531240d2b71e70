//! What a token says, and whether it is good here and now.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Refusal;

/// The longest name that is shown of somebody.
const LONGEST_NAME: usize = 80;
/// The longest subject.
const LONGEST_SUBJECT: usize = 512;

/// Whom a token is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Somebody, by `sub`.
    Person(Box<str>),
    /// A program, by `client_id`, where a token has no `sub`.
    Client(Box<str>),
}

impl Subject {
    /// The identifier itself.
    pub fn as_str(&self) -> &str {
        match self {
            Subject::Person(id) | Subject::Client(id) => id,
        }
    }
}

/// What a token is measured by.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Who must have issued it, letter by letter.
    pub issuer: &'a str,
    /// Whom it may be for: one of these must be named.
    pub audiences: &'a [&'a str],
    /// How far clocks may be apart.
    pub leeway: Duration,
}

/// What a token says.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    issuer: Option<Box<str>>,
    audiences: Vec<Box<str>>,
    subject: Option<Subject>,
    expires: Option<Duration>,
    not_before: Option<Duration>,
    scopes: Vec<Box<str>>,
    all: Map<String, Value>,
}

impl Claims {
    /// Reads what a token says, or what an introspection endpoint says of it.
    pub fn read(json: &[u8]) -> Result<Claims, Refusal> {
        let all: Map<String, Value> =
            serde_json::from_slice(json).map_err(|_| Refusal::Malformed)?;
        Claims::of(all)
    }

    /// The same, already read.
    pub fn of(all: Map<String, Value>) -> Result<Claims, Refusal> {
        let text = |name: &str| all.get(name).and_then(Value::as_str);
        let moment = |name: &str| match all.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let seconds = value.as_f64().ok_or(Refusal::Malformed)?;
                let moment = Duration::try_from_secs_f64(seconds.max(0.0));
                // What is later than that is never.
                Ok(Some(moment.unwrap_or(Duration::MAX)))
            }
        };
        let fits = |id: &&str| !id.is_empty() && id.len() <= LONGEST_SUBJECT;
        let person = text("sub").filter(fits);
        let client = text("client_id").or(text("azp")).filter(fits);
        let subject = match (person, client) {
            (Some(id), _) => Some(Subject::Person(id.into())),
            (None, Some(id)) if !all.contains_key("sub") => Some(Subject::Client(id.into())),
            _ => None,
        };
        Ok(Claims {
            issuer: text("iss").map(Into::into),
            audiences: words(all.get("aud"), false),
            subject,
            expires: moment("exp")?,
            not_before: moment("nbf")?,
            scopes: words(all.get("scope").or(all.get("scp")), true),
            all,
        })
    }

    /// Whether a signed token that says this is good at this time on the wall, if its signature is.
    pub fn check(&self, expected: &Expected<'_>, wall: Duration) -> Result<(), Refusal> {
        if self.issuer.as_deref() != Some(expected.issuer) {
            return Err(Refusal::Issuer);
        }
        if self.expires.is_none() {
            return Err(Refusal::NoExpiry);
        }
        self.check_use(expected, wall)
    }

    /// Whether a token of which its issuer says this is good: it is asked over a connection that shows who it is.
    pub fn check_introspected(
        &self,
        expected: &Expected<'_>,
        wall: Duration,
    ) -> Result<(), Refusal> {
        let issuer = self.issuer.as_deref();
        if issuer.is_some_and(|it| it != expected.issuer) {
            return Err(Refusal::Issuer);
        }
        self.check_use(expected, wall)
    }

    fn check_use(&self, expected: &Expected<'_>, wall: Duration) -> Result<(), Refusal> {
        let is_expected = |named: &str| expected.audiences.iter().any(|it| same(it, named));
        if !self.audiences.iter().any(|it| is_expected(it)) {
            return Err(Refusal::Audience);
        }
        if !self.is_alive(wall, expected.leeway) {
            return Err(Refusal::Expired);
        }
        let latest = wall.saturating_add(expected.leeway);
        if self.not_before.is_some_and(|it| it > latest) {
            return Err(Refusal::NotYet);
        }
        if self.subject.is_none() {
            return Err(Refusal::NoSubject);
        }
        Ok(())
    }

    /// Whether it has not expired at this time on the wall.
    pub fn is_alive(&self, wall: Duration, leeway: Duration) -> bool {
        let end = self.expires.map(|it| it.saturating_add(leeway));
        end.is_none_or(|end| wall < end)
    }

    /// Whether it has what only an ID token has (OpenID Connect Core, 2): that tells a client who somebody is, and lets
    /// nobody in.
    pub fn is_id_token(&self) -> bool {
        let marks = ["nonce", "at_hash", "c_hash"];
        let typ = self.all.get("typ").and_then(Value::as_str);
        typ == Some("ID") || marks.iter().any(|mark| self.all.contains_key(*mark))
    }

    /// Whom it is about.
    pub fn subject(&self) -> Option<&Subject> {
        self.subject.as_ref()
    }

    /// When it ends, on the wall.
    pub fn expires(&self) -> Option<Duration> {
        self.expires
    }

    /// What it was granted for.
    pub fn scopes(&self) -> &[Box<str>] {
        &self.scopes
    }

    /// A claim of this name, or, where there is none, the one at this path: `realm_access.roles`.
    pub fn claim(&self, name: &str) -> Option<&Value> {
        self.all.get(name).or_else(|| {
            let mut parts = name.split('.');
            let first = self.all.get(parts.next()?)?;
            parts.try_fold(first, |value, part| value.get(part))
        })
    }

    /// What somebody is called in logs and on pages: one line, not too long. It is not who they are.
    pub fn name(&self) -> String {
        let named = ["preferred_username", "email", "name"];
        let named = named
            .iter()
            .find_map(|it| self.all.get(*it).and_then(Value::as_str));
        let named = named.filter(|it| !it.trim().is_empty());
        let id = self.subject.as_ref().map(Subject::as_str);
        let name = named.or(id).unwrap_or_default().chars();
        name.filter(|it| !it.is_control() && !is_invisible(*it))
            .take(LONGEST_NAME)
            .collect()
    }
}

/// Characters that change how what follows is shown.
fn is_invisible(it: char) -> bool {
    matches!(it, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The words of a claim that is a list, or a text. Scopes are separated by spaces there.
fn words(value: Option<&Value>, split: bool) -> Vec<Box<str>> {
    match value {
        Some(Value::String(text)) if split => {
            text.split_ascii_whitespace().map(Into::into).collect()
        }
        Some(Value::String(text)) => vec![text.as_str().into()],
        Some(Value::Array(all)) => all
            .iter()
            .filter_map(Value::as_str)
            .map(Into::into)
            .collect(),
        _ => Vec::new(),
    }
}

/// Whether two identifiers of a resource are the same: a slash at the end says nothing.
fn same(a: &str, b: &str) -> bool {
    let bare = |it: &str| it.strip_suffix('/').map_or(it.len(), str::len);
    !a.is_empty() && a[..bare(a)] == b[..bare(b)]
}
