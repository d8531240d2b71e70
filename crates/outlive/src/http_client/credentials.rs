//! Credentials that a program obtains when a server wants others.
//!
//! How one comes by a token (a browser and a person, a vault, a file) is the program's business. When it is needed, and
//! what is sent again with it, is decided by [`outlive_core::http_upstream`]. All links to a server share what was
//! obtained; of several links that want others one asks, and the others wait for what it gets.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive_core::login::{self, LoginStatus};
use reqwest::header::HeaderValue;
use tokio::sync::watch;

/// Obtains credentials for a server. A closure that returns a future is one.
pub trait Credentials: Send + Sync + 'static {
    /// The value of `Authorization` from now on, as in `Bearer …`; `None` if there are no others to be had.
    fn obtain(&self, challenge: Challenge) -> impl Future<Output = Option<String>> + Send;

    /// The value of `Authorization` as it is now, if it also changes without being asked for. It is looked at before
    /// every request.
    fn current(&self) -> Option<String> {
        None
    }

    /// Why there were none to be had, the last time: a sentence for whoever waits for the request that was refused,
    /// which follows "The server refused it: ".
    fn obstacle(&self) -> Option<String> {
        None
    }

    /// A server has accepted the credentials that are in use.
    fn accepted(&self) {}

    /// Whether somebody has to log in for them, as it changes. A host whose client can show a link to a person is told;
    /// none if it is not to be told.
    fn login(&self) -> Option<watch::Receiver<LoginStatus>> {
        None
    }

    /// The person who was shown the link does not want to log in.
    fn decline(&self) {}
}

impl<F, Obtained> Credentials for F
where
    F: Fn(Challenge) -> Obtained + Send + Sync + 'static,
    Obtained: Future<Output = Option<String>> + Send,
{
    fn obtain(&self, challenge: Challenge) -> impl Future<Output = Option<String>> + Send {
        self(challenge)
    }
}

/// What a server says that wants other credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// 401, or 403 if the credentials are known but not enough.
    pub status: u16,
    /// Its `WWW-Authenticate` header, if it sent one.
    pub authenticate: Option<String>,
}

type Obtained<'a> = Pin<Box<dyn Future<Output = Option<String>> + Send + 'a>>;

/// [`Credentials`] of any kind.
trait AnyCredentials: Send + Sync {
    fn obtain(&self, challenge: Challenge) -> Obtained<'_>;
    fn current(&self) -> Option<String>;
    fn obstacle(&self) -> Option<String>;
    fn accepted(&self);
    fn login(&self) -> Option<watch::Receiver<LoginStatus>>;
    fn decline(&self);
}

impl<C: Credentials> AnyCredentials for C {
    fn obtain(&self, challenge: Challenge) -> Obtained<'_> {
        Box::pin(Credentials::obtain(self, challenge))
    }

    fn current(&self) -> Option<String> {
        Credentials::current(self)
    }

    fn obstacle(&self) -> Option<String> {
        Credentials::obstacle(self)
    }

    fn accepted(&self) {
        Credentials::accepted(self);
    }

    fn login(&self) -> Option<watch::Receiver<LoginStatus>> {
        Credentials::login(self)
    }

    fn decline(&self) {
        Credentials::decline(self);
    }
}

/// The credentials of a server that were obtained last; all links share them.
#[derive(Clone)]
pub(super) struct CredentialStore {
    credentials: Arc<dyn AnyCredentials>,
    /// Held by whoever asks.
    asking: Arc<tokio::sync::Mutex<()>>,
    held: Arc<Mutex<Held>>,
}

#[derive(Clone, Default)]
struct Held {
    /// How often there were others.
    turn: u64,
    value: Option<HeaderValue>,
    /// Those of this turn were accepted.
    accepted: Option<u64>,
}

impl Held {
    /// Whether this can be sent; then it is from now on.
    fn replace(&mut self, value: String) -> bool {
        let Ok(mut value) = HeaderValue::try_from(value) else {
            return false;
        };
        value.set_sensitive(true);
        self.turn += 1;
        self.value = Some(value);
        true
    }

    /// Whether it is news that those of this turn were accepted.
    fn accept(&mut self, turn: u64) -> bool {
        let news = turn == self.turn && self.value.is_some() && self.accepted != Some(turn);
        if news {
            self.accepted = Some(turn);
        }
        news
    }
}

/// Shows that there is one; never what it holds.
impl fmt::Debug for CredentialStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialStore")
    }
}

impl CredentialStore {
    /// Whether what one of them obtains is the other's, too.
    #[cfg(feature = "gateway")]
    pub(super) fn is_same(&self, other: &CredentialStore) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }

    pub(super) fn new(credentials: impl Credentials) -> CredentialStore {
        CredentialStore {
            credentials: Arc::new(credentials),
            asking: Arc::default(),
            held: Arc::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The credentials as they are now, and which ones they are.
    pub(super) fn now(&self) -> (u64, Option<HeaderValue>) {
        let current = self.credentials.current();
        let mut held = self.held();
        if let Some(current) = current
            && held.value.as_ref().map(HeaderValue::as_bytes) != Some(current.as_bytes())
        {
            held.replace(current);
        }
        (held.turn, held.value.clone())
    }

    /// Obtains others than those of this turn, unless somebody else has; or why there are none.
    pub(super) async fn renew(
        &self,
        turn: u64,
        challenge: Challenge,
    ) -> Result<(), Option<String>> {
        let _alone = self.asking.lock().await;
        if self.now().0 != turn {
            return Ok(());
        }
        let obtained = self.credentials.obtain(challenge).await;
        match obtained.is_some_and(|value| self.held().replace(value)) {
            true => Ok(()),
            false => Err(self.credentials.obstacle()),
        }
    }

    /// A server has answered a request that had the credentials of this turn.
    pub(super) fn answered(&self, turn: u64, status: u16) {
        if login::is_accepted(status) && self.held().accept(turn) {
            self.credentials.accepted();
        }
    }

    /// Whether somebody has to log in, as it changes.
    pub(super) fn login(&self) -> Option<watch::Receiver<LoginStatus>> {
        self.credentials.login()
    }

    /// Somebody does not want to log in.
    pub(super) fn decline(&self) {
        self.credentials.decline();
    }

    /// A text without the credentials.
    pub(super) fn mask(&self, text: String) -> String {
        let held = self.held();
        let value = held.value.as_ref().and_then(|value| value.to_str().ok());
        match value.and_then(|value| value.split_whitespace().last()) {
            Some(secret) if text.contains(secret) => text.replace(secret, "***"),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_held_is_not_shown() {
        let credential_store =
            CredentialStore::new(|_| async { Some("Bearer hunter55".to_string()) });
        let challenge = Challenge {
            status: 401,
            authenticate: None,
        };
        assert_eq!(credential_store.mask("hunter55".into()), "hunter55");
        assert_eq!(credential_store.renew(0, challenge).await, Ok(()));
        assert_eq!(credential_store.mask("a hunter55 b".into()), "a *** b");
        assert!(!format!("{credential_store:?} {:?}", credential_store.now()).contains("hunter55"));
    }
}
