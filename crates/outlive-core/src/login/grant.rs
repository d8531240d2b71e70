//! What an authorization server gave, without its secrets.

use std::time::Duration;

/// A refresh this long before the expiry is early enough, however long a token lasts.
const EARLY: Duration = Duration::from_secs(300);
/// A token that is refused so soon after it was issued was never good.
const FRESH: Duration = Duration::from_secs(60);

/// Names a grant; every new one has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantId(pub u64);

/// What an authorization server gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Which one it is.
    pub id: GrantId,
    /// When it was issued, by the clock on the wall.
    pub issued: Duration,
    /// When its access token expires, if that was told.
    pub expires: Option<Duration>,
    /// It has a refresh token, which was not refused.
    pub renewable: bool,
    /// Its refresh token was sent, and nobody knows what came of it.
    pub in_doubt: bool,
    /// A person has given it, rather than a refresh.
    pub by_login: bool,
    /// The scopes that were asked for.
    pub scopes: Vec<String>,
}

impl Grant {
    /// Whether its access token has expired.
    pub fn is_expired(&self, wall: Duration) -> bool {
        self.expires.is_some_and(|at| at <= wall)
    }

    /// When it should be renewed: a fifth of its life before the end, at most five minutes.
    pub fn renew_at(&self) -> Option<Duration> {
        let expires = self.expires?;
        let early = (expires.saturating_sub(self.issued) / 5).min(EARLY);
        Some(expires.saturating_sub(early))
    }

    /// Whether a refresh can do no harm while the access token is still good.
    pub(super) fn may_be_renewed_early(&self) -> bool {
        self.renewable && !self.in_doubt
    }

    /// Whether it was issued so lately that a refusal says that it was never good.
    pub(super) fn is_fresh(&self, wall: Duration) -> bool {
        self.issued <= wall && wall - self.issued < FRESH
    }

    /// Whether all these scopes were asked for with it.
    pub(super) fn covers(&self, scopes: &[String]) -> bool {
        scopes.iter().all(|scope| self.scopes.contains(scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_renewed_before_its_end() {
        for (life, early) in [(5, 1), (60, 12), (3600, 300), (86_400, 300), (0, 0)] {
            let issued = Duration::from_secs(1_000_000);
            let expires = issued + Duration::from_secs(life);
            let grant = Grant {
                id: GrantId(1),
                issued,
                expires: Some(expires),
                renewable: true,
                in_doubt: false,
                by_login: true,
                scopes: Vec::new(),
            };
            assert_eq!(grant.renew_at(), Some(expires - Duration::from_secs(early)));
            assert!(grant.is_expired(expires) && (life == 0 || !grant.is_expired(issued)));
        }
    }
}
