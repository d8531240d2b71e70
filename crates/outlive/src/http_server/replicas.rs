//! Other processes that answer for sessions of the same store: how this one shows itself to them, and who owns what.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::HeaderValue;
use hyper::{Method, Uri};
use outlive_core::Time;
use outlive_core::meter::Latency;
use outlive_core::tenure::{Nonces, Owner};

use super::passport::{Invalid, Passport, Request, wall_clock};
use super::peers::{Peer, Peers, Place};
use super::secret::ReplicaSecret;

/// How many sessions we know the owner of.
const KNOWN: usize = 1 << 14;

/// What a forwarded request was answered with, as the replica that has sent it is told.
pub(super) const ANSWERED: HeaderValue = HeaderValue::from_static("answered");
pub(super) const ELSEWHERE: HeaderValue = HeaderValue::from_static("elsewhere");
pub(super) const REFUSED: HeaderValue = HeaderValue::from_static("refused");

/// How this process takes part in a group of replicas.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaSettings {
    /// Where the others find it.
    pub(crate) advertise: Option<String>,
    pub(crate) secret: Option<ReplicaSecret>,
    /// Why the secret cannot be used, if it cannot.
    pub(crate) wrong: Option<String>,
}

impl ReplicaSettings {
    /// Whether they make sense; if not, a sentence.
    pub(crate) fn check(&self, has_leases: bool) -> Result<(), String> {
        if let Some(why) = &self.wrong {
            return Err(why.clone());
        }
        let Some(address) = &self.advertise else {
            return Ok(());
        };
        Place::read(address)?;
        match (&self.secret, has_leases) {
            (None, _) => Err(
                "other replicas are told where to find this one, but nobody could tell their requests from those of \
                 strangers: a replica secret is needed, too"
                    .into(),
            ),
            (_, false) => Err(
                "other replicas are told where to find this one, but there are none: the store is one process's alone"
                    .into(),
            ),
            (Some(_), true) => Ok(()),
        }
    }
}

/// The other replicas, as seen from this one.
pub(crate) struct Replicas {
    pub(super) secret: ReplicaSecret,
    peers: Peers,
    /// How long a stream may be silent.
    pub(super) silence: Duration,
    pub(crate) stats: ReplicaStats,
    sender: u64,
    numbers: AtomicU64,
    nonces: Mutex<Nonces>,
    /// When there were none.
    begun: Instant,
    known: Mutex<HashMap<String, Known>>,
}

/// Who owns a session.
struct Known {
    /// Whose session it is.
    principal: String,
    owner: Owner,
    peer: Arc<Peer>,
}

/// What was counted.
#[derive(Default)]
pub(crate) struct ReplicaStats {
    /// Requests that were forwarded, by how that ended.
    pub(crate) answered: AtomicU64,
    pub(crate) elsewhere: AtomicU64,
    pub(crate) unreached: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Requests that others have forwarded to us.
    pub(crate) received: AtomicU64,
    /// Requests that claimed to be forwarded and were refused.
    pub(crate) strangers: AtomicU64,
    /// How long it took until the answers began.
    pub(crate) latency: Latency,
}

impl Replicas {
    /// `keep_alive`: how often a stream that is silent carries something all the same.
    pub(crate) fn new(
        secret: ReplicaSecret,
        lease: Duration,
        keep_alive: Duration,
        unread: Duration,
    ) -> Replicas {
        Replicas {
            secret,
            peers: Peers::new(unread),
            silence: keep_alive.max(lease) * 2,
            stats: ReplicaStats::default(),
            sender: crate::run::seed(),
            numbers: AtomicU64::new(0),
            nonces: Mutex::default(),
            begun: Instant::now(),
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose a session of this principal is, as far as we know.
    pub(super) fn owner_of(&self, session: &str, principal: &str) -> Option<(Owner, Arc<Peer>)> {
        let known = self.known();
        let known = known.get(session)?;
        (known.principal == principal).then(|| (known.owner, known.peer.clone()))
    }

    /// Whose it is by now; who is found at that address, if it is one.
    pub(super) fn learn(
        &self,
        session: &str,
        principal: &str,
        owner: Owner,
        address: &str,
    ) -> Option<Arc<Peer>> {
        let peer = self.peers.at(address)?;
        let mut known = self.known();
        if known.len() >= KNOWN && !known.contains_key(session) {
            known.clear();
        }
        let whose = Known {
            principal: principal.to_owned(),
            owner,
            peer: peer.clone(),
        };
        known.insert(session.to_owned(), whose);
        Some(peer)
    }

    /// It is not that owner's any more.
    pub(super) fn forget(&self, session: &str, owner: Owner) {
        let mut known = self.known();
        if known.get(session).is_some_and(|it| it.owner == owner) {
            known.remove(session);
        }
    }

    /// The passport of a request that is forwarded.
    pub(super) fn sign(
        &self,
        request: &Request<'_>,
        owner: Owner,
        principal: &str,
    ) -> Option<HeaderValue> {
        let passport = Passport {
            made: wall_clock(),
            sender: self.sender,
            number: self.numbers.fetch_add(1, Ordering::Relaxed) + 1,
            owner,
            principal: principal.to_owned(),
        };
        passport.sign(request, &self.secret)
    }

    /// Whose request this is, and for which owner, if another replica has forwarded it; else a sentence.
    pub(super) fn admit(
        &self,
        passport: &HeaderValue,
        method: &Method,
        uri: &Uri,
        session: &str,
    ) -> Result<Passport, String> {
        let path = uri.path_and_query().map_or("", |it| it.as_str());
        let request = Request {
            method,
            path,
            session,
        };
        let now = wall_clock();
        let signed = Passport::read_signed(passport, &request, &self.secret);
        let passport = signed.map_err(sentence)?;
        let nonces = self.nonces.lock();
        let mut nonces = nonces.unwrap_or_else(PoisonError::into_inner);
        let since = Time::after(self.begun.elapsed());
        // In this order: one that is stale counts as heard, too. It looks fresh once more when a clock is set.
        let is_new = nonces.admit(passport.sender, passport.number, passport.made, since);
        passport.is_fresh(now).map_err(sentence)?;
        match is_new {
            true => Ok(passport),
            false => Err("The request was forwarded before. Nothing was done again.".into()),
        }
    }
}

/// What is said to whoever has forwarded a request that is not accepted.
fn sentence(why: Invalid) -> String {
    match why {
        Invalid::Forged => {
            "The request claims to be forwarded by another replica, and none has signed it that knows the secret of \
             this one."
                .into()
        }
        Invalid::Stale(age) => format!(
            "The request was forwarded {} s ago, or the clocks of two replicas differ by that. Nothing was done.",
            age.as_secs()
        ),
    }
}
