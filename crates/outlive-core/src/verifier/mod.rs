//! The access tokens of an identity provider: which key checks one, when keys are read again, what is remembered.
//!
//! A *token* is signed, and then it can be checked with the provider's keys, or it is opaque, and then the provider is
//! asked about it (introspection). Both need the provider now and then, and a provider is down now and then. The rules:
//!
//! 1. **A token whose key is known is checked at once**, whatever the provider does. Keys that were read stay good
//!    until a later set does without them; a set without keys is no set.
//! 2. **A token whose key is not known makes us read the keys again**, once for all who wait, and no more often than
//!    [`VerifierPolicy::refresh`]: tokens that anybody makes up must not become requests to the provider. Whoever shows
//!    one before that waits until keys may be read: a new key costs nobody an error. Only so many wait.
//! 3. **No is only said on good grounds.** A key that is not in a set that was read after the token was shown is
//!    unknown, and the token refused. If the set could not be read, nobody knows: that is [`Verdict::Unavailable`], and
//!    the client comes again.
//! 4. **What a provider says of an opaque token is remembered for a short time**, never beyond the token's end, and for
//!    so many tokens only. One question for each token is on the way at a time.
//! 5. **A provider that fails is left alone for a moment** that doubles, and nobody waits for it meanwhile.
//!
//! The machine knows neither tokens nor signatures: keys are known by their place in the newest set, opaque tokens by a
//! digest. It is driven like all machines here: after each [`Verifier::handle`], [`Verifier::poll`] until there is
//! nothing more, then wait for the next input, but no longer than [`Verifier::deadline`]. What a token says about
//! itself is judged by [`Claims::check`] and [`Grants::decide`], which need no machine.

mod claims;
mod key;
mod lookup;
mod rule;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use crate::login::Moment;
use crate::time::Time;

pub use claims::{Claims, Expected, Subject};
pub use key::{Algorithm, Jwk, Material, TokenHead};
use lookup::Lookups;
pub use rule::{Access, Condition, Grants, Insufficient, ViewRule};

/// The longest access token that is looked at, in bytes.
pub const LONGEST_TOKEN: usize = 16 << 10;
/// A token without the name of a key is tried with so many keys.
const MOST_TRIES: usize = 8;

/// Names somebody whose token is being looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A digest of an opaque token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenId(pub [u8; 32]);

/// Numbers the sets of keys that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edition(pub u64);

/// What is asked about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Which keys may have signed it?
    Key {
        /// How it is signed.
        algorithm: Algorithm,
        /// The name of the key.
        kid: Option<Box<str>>,
        /// None of the keys of this set has.
        tried: Option<Edition>,
    },
    /// What does its issuer say of it?
    Opaque(TokenId),
}

/// What has happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Keys will be wanted.
    Start,
    /// Somebody has shown a token.
    Ask(Ticket, Question),
    /// Somebody does not wait any more.
    Forget(Ticket),
    /// The keys were read; none if they could not be.
    Fetched(Option<Vec<Jwk>>),
    /// What its issuer says of an opaque token; none if it says nothing that can be understood.
    Introspected(TokenId, Option<Introspection>),
    /// The moment has come that [`Verifier::deadline`] named.
    Tick,
}

/// What an issuer says of an opaque token.
#[derive(Clone, Debug, PartialEq)]
pub enum Introspection {
    /// It is good, and says this.
    Active(Arc<Claims>),
    /// It is not good.
    Inactive,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Read the keys.
    Fetch,
    /// Ask about this token.
    Introspect(TokenId),
    /// Whoever asked learns this.
    Answer(Ticket, Verdict),
}

/// What somebody learns about a token.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// One of these keys must have signed it: their places in the newest set, and which one that is.
    Try(Edition, Vec<usize>),
    /// Its issuer says this of it.
    Active(Arc<Claims>),
    /// It is not good.
    Refused(Refusal),
    /// Nobody knows yet: come again after this time.
    Unavailable(Duration),
}

/// Why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It is longer than [`LONGEST_TOKEN`].
    TooLong,
    /// It is not what it looks like.
    Malformed,
    /// It is not signed with a private key in a way that is known.
    Algorithm,
    /// It wants something to be understood that is not (`crit`).
    Critical,
    /// It is signed, but is something else than an access token.
    NoAccessToken,
    /// Somebody else has issued it.
    Issuer,
    /// It is for somebody else.
    Audience,
    /// It has expired.
    Expired,
    /// It never expires.
    NoExpiry,
    /// It is not good yet.
    NotYet,
    /// It does not say whom it is about.
    NoSubject,
    /// Its issuer has no such key.
    UnknownKey,
    /// Its signature is not right.
    Signature,
    /// Its issuer says that it is not good.
    Inactive,
    /// It is opaque, and nobody is asked about those.
    Opaque,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::TooLong => "the token is too long",
            Refusal::Malformed => "the token cannot be read",
            Refusal::Algorithm => "the token is not signed by an algorithm that is accepted here",
            Refusal::Critical => "the token wants an extension that is not known here",
            Refusal::NoAccessToken => "the token is not an access token",
            Refusal::Issuer => "the token was issued by somebody else",
            Refusal::Audience => "the token is for another server",
            Refusal::Expired => "the token has expired",
            Refusal::NoExpiry => "the token has no expiry",
            Refusal::NotYet => "the token is not valid yet",
            Refusal::NoSubject => "the token does not say who it is about",
            Refusal::UnknownKey => {
                "the token is signed with a key that its issuer does not publish"
            }
            Refusal::Signature => "the signature of the token is wrong",
            Refusal::Inactive => "the token was revoked or has expired",
            Refusal::Opaque => {
                "the token is not a signed one (JWT), and no other kind is accepted here"
            }
        })
    }
}

/// Bounds and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifierPolicy {
    /// Keys are read no more often than this.
    pub refresh: Duration,
    /// Keys that were read this long ago are read again when they are next used, while they are used.
    pub stale: Duration,
    /// The first pause after the provider has failed; each further one doubles it, …
    pub backoff: Duration,
    /// … up to this.
    pub backoff_cap: Duration,
    /// A request waits this long for the provider.
    pub patience: Duration,
    /// So many wait at once.
    pub waiting: usize,
    /// The provider is asked about so many opaque tokens at once.
    pub lookups: usize,
    /// What it has said is remembered of so many …
    pub remembered: usize,
    /// … for this long if they are good, and …
    pub active: Duration,
    /// … for this long if they are not.
    pub inactive: Duration,
    /// How far clocks may be apart.
    pub leeway: Duration,
}

impl Default for VerifierPolicy {
    fn default() -> VerifierPolicy {
        VerifierPolicy {
            refresh: Duration::from_secs(5),
            stale: Duration::from_secs(600),
            backoff: Duration::from_secs(1),
            backoff_cap: Duration::from_secs(30),
            patience: Duration::from_secs(10),
            waiting: 1024,
            lookups: 32,
            remembered: 4096,
            active: Duration::from_secs(30),
            inactive: Duration::from_secs(10),
            leeway: Duration::from_secs(60),
        }
    }
}

/// How the provider has fared when it was asked for one thing.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// Failures in a row.
    failures: u32,
    /// It is not asked before this moment.
    not_before: Time,
}

impl Standing {
    fn failed(&mut self, policy: &VerifierPolicy, now: Time) {
        let doubled = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        self.not_before = now
            + policy
                .backoff
                .saturating_mul(doubled)
                .min(policy.backoff_cap);
    }

    fn answered(&mut self, next: Time) {
        *self = Standing {
            failures: 0,
            not_before: next,
        };
    }

    fn is_due(&self, now: Time) -> bool {
        now >= self.not_before
    }
}

/// Somebody who waits.
#[derive(Clone, Debug)]
struct Waiting {
    question: Question,
    since: Time,
}

impl Waiting {
    fn is_for_keys(&self) -> bool {
        matches!(self.question, Question::Key { .. })
    }
}

/// The keys of a provider.
#[derive(Clone, Debug)]
struct Keys {
    edition: Edition,
    all: Vec<Jwk>,
    /// Which of them the set before did not have.
    new: Vec<bool>,
    read: Time,
}

/// The rules for the tokens of one identity provider.
#[derive(Debug)]
pub struct Verifier {
    policy: VerifierPolicy,
    now: Moment,
    keys: Option<Keys>,
    /// Since when keys are being read.
    fetching: Option<Time>,
    standing: Standing,
    lookups: Lookups,
    waiting: BTreeMap<Ticket, Waiting>,
    out: VecDeque<Output>,
}

impl Verifier {
    /// Nothing is known yet.
    pub fn new(policy: VerifierPolicy) -> Verifier {
        Verifier {
            policy,
            now: Moment::default(),
            keys: None,
            fetching: None,
            standing: Standing::default(),
            lookups: Lookups::default(),
            waiting: BTreeMap::new(),
            out: VecDeque::new(),
        }
    }

    /// Takes in what has happened, and when.
    pub fn handle(&mut self, input: Input, now: Moment) {
        self.now = now;
        match input {
            Input::Start => {
                if self.keys.is_none() {
                    self.fetch();
                }
            }
            Input::Ask(ticket, question) => self.ask(ticket, question),
            Input::Forget(ticket) => {
                if let Some(waiting) = self.waiting.remove(&ticket) {
                    self.forgotten(&waiting.question);
                }
            }
            Input::Fetched(keys) => self.fetched(keys),
            Input::Introspected(token, said) => self.introspected(token, said),
            Input::Tick => {}
        }
        self.expire();
        if self.waits_for_keys() {
            self.fetch();
        }
    }

    /// What is to be done next, if anything.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When it wants to be called again at the latest.
    pub fn deadline(&self) -> Option<Time> {
        let first = self.waiting.values().map(|it| it.since).min()?;
        let patience = first + self.policy.patience;
        Some(match self.fetching.is_none() && self.waits_for_keys() {
            true => patience.min(self.standing.not_before),
            false => patience,
        })
    }

    /// Whether somebody waits for keys to be read.
    fn waits_for_keys(&self) -> bool {
        self.waiting.values().any(Waiting::is_for_keys)
    }

    /// The newest set of keys.
    pub fn edition(&self) -> Option<Edition> {
        self.keys.as_ref().map(|keys| keys.edition)
    }

    /// How many are waiting.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Of how many opaque tokens something is remembered.
    pub fn remembered(&self) -> usize {
        self.lookups.remembered()
    }

    /// Whether the provider is being asked about this token, or is to be.
    pub fn is_asking(&self, token: &TokenId) -> bool {
        self.lookups.is_asking(token)
    }

    fn ask(&mut self, ticket: Ticket, question: Question) {
        match question {
            Question::Key { .. } => self.ask_key(ticket, question),
            Question::Opaque(token) => self.ask_opaque(ticket, token),
        }
    }

    fn ask_key(&mut self, ticket: Ticket, question: Question) {
        let now = self.now.time;
        if let Some(verdict) = self.try_keys(&question) {
            self.answer(ticket, verdict);
            let read = self.keys.as_ref().map(|keys| keys.read);
            if read.is_some_and(|read| now - read >= self.policy.stale) {
                self.fetch();
            }
            return;
        }
        self.fetch();
        // A provider that has failed is left alone. One that was just asked will be again: the key may be newer.
        match self.fetching.is_none() && self.standing.failures > 0 {
            true => {
                let after = self.standing.not_before - now;
                self.answer(ticket, Verdict::Unavailable(after));
            }
            false => self.wait(ticket, question),
        }
    }

    /// The keys that may have signed a token, if there are any that were not tried.
    fn try_keys(&self, question: &Question) -> Option<Verdict> {
        let Question::Key {
            algorithm,
            kid,
            tried,
        } = question
        else {
            return None;
        };
        let keys = self.keys.as_ref()?;
        if *tried == Some(keys.edition) {
            return None;
        }
        // Those that were in the set before were tried with it.
        let again = tried.is_some_and(|it| it.0 + 1 == keys.edition.0);
        let all = keys.all.iter().enumerate();
        let all = all.filter(|(at, _)| !again || keys.new[*at]);
        let fitting = all.filter(|(_, key)| key.may_have_signed(*algorithm, kid.as_deref()));
        let fitting: Vec<usize> = fitting.map(|(at, _)| at).take(MOST_TRIES).collect();
        (!fitting.is_empty()).then_some(Verdict::Try(keys.edition, fitting))
    }

    /// Reads the keys, unless that is being done, or was done or has failed just now.
    fn fetch(&mut self) {
        if self.fetching.is_none() && self.standing.is_due(self.now.time) {
            self.fetching = Some(self.now.time);
            self.out.push_back(Output::Fetch);
        }
    }

    fn fetched(&mut self, keys: Option<Vec<Jwk>>) {
        let now = self.now.time;
        let Some(began) = self.fetching.take() else {
            return;
        };
        let keys = keys.filter(|keys| !keys.is_empty());
        match keys {
            None => self.standing.failed(&self.policy, now),
            Some(all) => {
                let edition = self.edition().map_or(Edition(1), |it| Edition(it.0 + 1));
                let before = self.keys.take().map(|keys| keys.all);
                let before = before.unwrap_or_default();
                let new = all.iter().map(|key| !before.contains(key)).collect();
                self.keys = Some(Keys {
                    edition,
                    all,
                    new,
                    read: now,
                });
                self.standing.answered(began + self.policy.refresh);
            }
        }
        for (ticket, waiting) in self.take_waiting(Waiting::is_for_keys) {
            let verdict = match self.try_keys(&waiting.question) {
                Some(verdict) => verdict,
                None if self.standing.failures > 0 => {
                    Verdict::Unavailable(self.standing.not_before - now)
                }
                // The set may be older than the key: the next one is not.
                None if waiting.since > began => {
                    self.waiting.insert(ticket, waiting);
                    continue;
                }
                None => Verdict::Refused(no_key(&waiting.question)),
            };
            self.answer(ticket, verdict);
        }
    }

    fn wait(&mut self, ticket: Ticket, question: Question) {
        if self.waiting.len() >= self.policy.waiting {
            return self.answer(ticket, Verdict::Unavailable(self.policy.backoff));
        }
        let since = self.now.time;
        self.waiting.insert(ticket, Waiting { question, since });
    }

    fn take_waiting(&mut self, which: impl Fn(&Waiting) -> bool) -> Vec<(Ticket, Waiting)> {
        let taken = self.waiting.iter().filter(|(_, waiting)| which(waiting));
        let taken: Vec<Ticket> = taken.map(|(ticket, _)| *ticket).collect();
        let mut all = Vec::with_capacity(taken.len());
        for ticket in taken {
            all.extend(self.waiting.remove(&ticket).map(|it| (ticket, it)));
        }
        all
    }

    fn answer(&mut self, ticket: Ticket, verdict: Verdict) {
        self.out.push_back(Output::Answer(ticket, verdict));
    }

    /// Whoever has waited too long comes again later.
    fn expire(&mut self) {
        let (now, patience) = (self.now.time, self.policy.patience);
        for (ticket, waiting) in self.take_waiting(|it| it.since + patience <= now) {
            self.forgotten(&waiting.question);
            self.answer(ticket, Verdict::Unavailable(self.policy.backoff));
        }
    }
}

/// What is wrong with a token that no key fits.
fn no_key(question: &Question) -> Refusal {
    match question {
        Question::Key { tried: Some(_), .. } => Refusal::Signature,
        _ => Refusal::UnknownKey,
    }
}
