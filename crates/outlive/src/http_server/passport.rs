//! What a forwarded request carries to show where it comes from, and for whom.
//!
//! One header, [`FORWARD`]: the version, when it was signed, who forwards it and the how-manieth of its requests it is,
//! for which owner it is meant, who the client is, and a signature over all of that, the method, the path and the
//! session. Each can be used once ([`Nonces`](outlive_core::tenure::Nonces)), at one owner, for half a minute. The body
//! is not signed: who can change it on the way can also read it, and encryption (`https://` in `--advertise`) keeps out
//! both.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use outlive_core::tenure::{FRESH, Owner};

use super::secret::ReplicaSecret;

/// The header of forwarded requests, and of the responses to them.
pub(crate) const FORWARD: HeaderName = HeaderName::from_static(NAME);
pub(super) const NAME: &str = "outlive-forward";

const VERSION: &str = "1";

/// Most of what is signed is shorter.
const ROOM: usize = 384;

/// What is signed besides what the header itself says.
pub(super) struct Request<'a> {
    pub(super) method: &'a Method,
    /// With its query.
    pub(super) path: &'a str,
    pub(super) session: &'a str,
}

/// A passport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passport {
    /// When it was made, since 1970.
    pub(super) made: Duration,
    /// Who forwards the request.
    pub(super) sender: u64,
    /// Its number among those of the sender.
    pub(super) number: u64,
    /// For whom it is.
    pub(super) owner: Owner,
    /// A word for who the client is.
    pub(super) principal: String,
}

/// Why a passport is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    /// It cannot be read, or nobody who knows the secret has made it for this request.
    Forged,
    /// It is too old, or from the future: by so much.
    Stale(Duration),
}

impl Passport {
    /// As a header, signed; `None` if there is no secret.
    pub(super) fn sign(
        &self,
        request: &Request<'_>,
        secret: &ReplicaSecret,
    ) -> Option<HeaderValue> {
        let mut text = self.fields();
        let length = text.len();
        sign_also(&mut text, request);
        let tag = secret.sign(text.as_bytes())?;
        text.truncate(length);
        text.push(' ');
        BASE64_URL_SAFE_NO_PAD.encode_string(tag, &mut text);
        let mut value = HeaderValue::try_from(text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Reads a header, and checks that it was made for this request by somebody who knows the secret.
    pub(super) fn read_signed(
        header: &HeaderValue,
        request: &Request<'_>,
        secret: &ReplicaSecret,
    ) -> Result<Passport, Invalid> {
        let text = header.to_str().map_err(|_| Invalid::Forged)?;
        let (fields, tag) = text.rsplit_once(' ').ok_or(Invalid::Forged)?;
        let tag = BASE64_URL_SAFE_NO_PAD
            .decode(tag)
            .map_err(|_| Invalid::Forged)?;
        // Before anything is made of it.
        let mut signed = String::with_capacity(ROOM);
        signed.push_str(fields);
        sign_also(&mut signed, request);
        if !secret.has_signed(signed.as_bytes(), &tag) {
            return Err(Invalid::Forged);
        }
        Passport::read(fields).ok_or(Invalid::Forged)
    }

    /// Whether it is good at this time.
    pub(super) fn is_fresh(&self, now: Duration) -> Result<(), Invalid> {
        let age = now.abs_diff(self.made);
        match age <= FRESH {
            true => Ok(()),
            false => Err(Invalid::Stale(age)),
        }
    }

    fn fields(&self) -> String {
        let (made, owner) = (self.made.as_millis(), self.owner);
        let (sender, number) = (self.sender, self.number);
        let mut fields = String::with_capacity(ROOM);
        let _ = write!(fields, "{VERSION} {made} {sender:016x} {number} {owner} ");
        BASE64_URL_SAFE_NO_PAD.encode_string(&self.principal, &mut fields);
        fields
    }

    fn read(fields: &str) -> Option<Passport> {
        let mut fields = fields.split(' ');
        let mut next = || fields.next();
        if next()? != VERSION {
            return None;
        }
        let made = Duration::from_millis(next()?.parse().ok()?);
        let sender = u64::from_str_radix(next()?, 16).ok()?;
        let number = next()?.parse().ok()?;
        let owner = Owner(u64::from_str_radix(next()?, 16).ok()?);
        let principal = BASE64_URL_SAFE_NO_PAD.decode(next()?).ok()?;
        let passport = Passport {
            made,
            sender,
            number,
            owner,
            principal: String::from_utf8(principal).ok()?,
        };
        next().is_none().then_some(passport)
    }
}

/// Adds what is signed besides the fields. No part can be taken for another: none has a line break.
fn sign_also(fields: &mut String, request: &Request<'_>) {
    for part in [request.method.as_str(), request.path, request.session] {
        fields.push('\n');
        fields.push_str(part);
    }
}

/// The time since 1970.
pub(super) fn wall_clock() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn check(
        header: &HeaderValue,
        request: &Request<'_>,
        secret: &ReplicaSecret,
        now: Duration,
    ) -> Result<Passport, Invalid> {
        let passport = Passport::read_signed(header, request, secret)?;
        passport.is_fresh(now).map(|()| passport)
    }

    fn secret(word: &str) -> ReplicaSecret {
        ReplicaSecret::word(&word.repeat(20)).expect("a secret")
    }

    fn passport() -> Passport {
        Passport {
            made: NOW,
            sender: 7,
            number: 1,
            owner: Owner(9),
            principal: "token:abc".into(),
        }
    }

    fn request<'a>(method: &'a Method, path: &'a str, session: &'a str) -> Request<'a> {
        Request {
            method,
            path,
            session,
        }
    }

    #[test]
    fn a_passport_is_good_for_its_request_and_half_a_minute() {
        let (post, secret) = (Method::POST, secret("a"));
        let asked = request(&post, "/mcp", "s");
        let header = passport().sign(&asked, &secret).expect("signed");
        let good = |request: &Request<'_>, now| check(&header, request, &secret, now);
        assert_eq!(good(&asked, NOW), Ok(passport()));
        assert_eq!(good(&asked, NOW + FRESH), Ok(passport()));
        assert_eq!(good(&asked, NOW - FRESH), Ok(passport()));
        let late = FRESH + Duration::from_secs(1);
        assert_eq!(good(&asked, NOW + late), Err(Invalid::Stale(late)));
        assert_eq!(good(&asked, NOW - late), Err(Invalid::Stale(late)));
        for other in [
            request(&Method::DELETE, "/mcp", "s"),
            request(&post, "/other", "s"),
            request(&post, "/mcp", "t"),
        ] {
            assert_eq!(good(&other, NOW), Err(Invalid::Forged));
        }
    }

    #[test]
    fn a_passport_that_was_changed_or_made_by_others_is_forged() {
        let (post, ours) = (Method::POST, secret("a"));
        let asked = request(&post, "/mcp", "s");
        let header = passport().sign(&asked, &ours).expect("signed");
        let theirs = check(&header, &asked, &secret("b"), NOW);
        assert_eq!(theirs, Err(Invalid::Forged));
        let text = header.to_str().expect("text");
        // Whatever letter of it is another one.
        for at in 0..text.len() {
            let mut changed = text.as_bytes().to_vec();
            changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
            let changed = HeaderValue::from_bytes(&changed).expect("a header");
            let checked = check(&changed, &asked, &ours, NOW);
            assert_eq!(checked, Err(Invalid::Forged), "{changed:?}");
        }
        for junk in ["", "1", "1 2 3 4 5 6 7", "elsewhere"] {
            let junk = HeaderValue::from_static(junk);
            let checked = check(&junk, &asked, &ours, NOW);
            assert_eq!(checked, Err(Invalid::Forged));
        }
    }
}
