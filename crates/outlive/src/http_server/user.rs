//! Whom an identity provider has vouched for.
//!
//! Somebody is known by their issuer and subject, and not by their token: a token that was refreshed is another one,
//! and its owner the same. Who is here has a number, which sessions and servers go by; it lasts for as long as somebody
//! uses it, and a while beyond that.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outlive_core::principal::Principal;
use outlive_core::verifier::{Access, Claims, Subject};
use serde_json::Value;

/// So many are known; of those that nobody uses, half are forgotten then.
const MOST_KNOWN: usize = 16 << 10;

/// What the label of somebody begins with whom an identity provider has vouched for.
pub(super) const USER_LABEL: &str = "user:";

/// Somebody, wherever they come from.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) principal: Principal,
    /// What they are called where people look.
    pub(crate) name: Box<str>,
    /// What another process calls them, too. There is nothing to be read in it.
    pub(crate) label: Box<str>,
}

/// Who sent a request, as an identity provider has it. A handler of a [`Server`](crate::Server) finds it by
/// [`Ctx::extension`](crate::server::Ctx::extension).
#[derive(Clone)]
pub struct User {
    pub(crate) person: Arc<Person>,
    issuer: Arc<str>,
    claims: Arc<Claims>,
    access: Access,
}

impl User {
    #[cfg_attr(
        not(feature = "oauth"),
        expect(dead_code, reason = "only identity providers vouch for somebody")
    )]
    pub(crate) fn new(
        person: Arc<Person>,
        issuer: Arc<str>,
        claims: Arc<Claims>,
        access: Access,
    ) -> User {
        User {
            person,
            issuer,
            claims,
            access,
        }
    }

    /// The identity provider.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Who that is there (`sub`; `client_id` of a program without one). With the issuer it is unique and lasts.
    pub fn subject(&self) -> &str {
        self.claims.subject().map_or("", Subject::as_str)
    }

    /// What they are called. Two may have the same name.
    pub fn name(&self) -> &str {
        &self.person.name
    }

    /// What their token was granted for.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.claims.scopes().iter().map(|scope| &**scope)
    }

    /// Anything else that the provider says of them, by its name or, with dots, its path.
    pub fn claim(&self, name: &str) -> Option<&Value> {
        self.claims.claim(name)
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// When their token ends: the time since 1970.
    pub(crate) fn expires(&self) -> Option<Duration> {
        self.claims.expires()
    }
}

/// Shows who, and nothing else that is said of them.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("issuer", &self.issuer)
            .field("subject", &self.subject())
            .finish_non_exhaustive()
    }
}

/// Everybody who is known.
#[derive(Default)]
pub(crate) struct Users(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_subject: HashMap<Subject, Arc<Person>>,
    /// How many there have been.
    count: u64,
}

#[cfg_attr(
    not(feature = "oauth"),
    expect(dead_code, reason = "only identity providers vouch for somebody")
)]
impl Users {
    /// Whom this subject of this issuer is, and whether nobody knew them until now.
    pub(crate) fn person(&self, issuer: &str, claims: &Claims) -> Option<(Arc<Person>, bool)> {
        let subject = claims.subject()?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.by_subject.len() >= MOST_KNOWN && !known.by_subject.contains_key(subject) {
            known.forget();
        }
        let number = known.count + 1;
        match known.by_subject.entry(subject.clone()) {
            Entry::Occupied(found) => Some((found.get().clone(), false)),
            Entry::Vacant(place) => {
                let person = Arc::new(Person {
                    principal: Principal::User(number),
                    name: claims.name().into(),
                    label: label(issuer, subject),
                });
                place.insert(person.clone());
                known.count = number;
                Some((person, true))
            }
        }
    }
}

impl Known {
    /// Forgets those who have nothing here, the longest known first, until half of the places are free.
    fn forget(&mut self) {
        let idle = self.by_subject.iter();
        let idle = idle.filter(|(_, person)| Arc::strong_count(person) == 1);
        let mut idle: Vec<_> = idle
            .map(|(subject, person)| (person.principal, subject.clone()))
            .collect();
        idle.sort_unstable();
        for (_, subject) in idle.into_iter().take(MOST_KNOWN / 2) {
            self.by_subject.remove(&subject);
        }
    }
}

/// What somebody is called where nobody needs to read who it is.
fn label(issuer: &str, subject: &Subject) -> Box<str> {
    let kind = match subject {
        Subject::Person(_) => "sub",
        Subject::Client(_) => "client_id",
    };
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    for part in ["outlive user", issuer, kind, subject.as_str()] {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    }
    let digest = digest.finish();
    let hex: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{USER_LABEL}{hex}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(json: &str) -> Claims {
        Claims::read(json.as_bytes()).expect("claims")
    }

    #[test]
    fn somebody_is_the_same_whatever_their_token_says_beside() {
        let users = Users::default();
        let one = claims(r#"{"sub":"1","name":"Ann","exp":1}"#);
        let (ann, is_new) = users.person("https://a", &one).expect("somebody");
        assert!(is_new);
        assert_eq!(&*ann.name, "Ann");
        let later = claims(r#"{"sub":"1","name":"Anna","exp":2,"jti":"x"}"#);
        let (again, is_new) = users.person("https://a", &later).expect("somebody");
        assert!(!is_new && Arc::ptr_eq(&ann, &again));
        // A program of that id is somebody else.
        let program = claims(r#"{"client_id":"1"}"#);
        let (program, is_new) = users.person("https://a", &program).expect("somebody");
        assert!(is_new && program.principal != ann.principal && program.label != ann.label);
        assert!(!ann.label.contains("https"));
    }

    #[test]
    fn only_so_many_are_known_and_those_who_are_here_stay() {
        let users = Users::default();
        let of = |n: usize| claims(&format!(r#"{{"sub":"{n}"}}"#));
        let (first, _) = users.person("i", &of(0)).expect("somebody");
        for n in 1..MOST_KNOWN * 2 {
            users.person("i", &of(n)).expect("somebody");
        }
        assert!(users.0.lock().expect("known").by_subject.len() <= MOST_KNOWN);
        let (still, is_new) = users.person("i", &of(0)).expect("somebody");
        assert!(!is_new && Arc::ptr_eq(&first, &still));
        let (_, is_new) = users.person("i", &of(1)).expect("somebody");
        assert!(is_new);
    }
}
