//! Logins at servers that want OAuth 2.1, as the specification of MCP has it.
//!
//! # Theory
//!
//! [`OAuth`] is a way to come by [credentials](crate::Credentials): a server refuses a request for want of a token, and
//! somebody is asked to log in. When that happens, who waits for it, when a token is refreshed and what two processes
//! with one login do is decided by [`outlive_core::login`], and nowhere here.
//!
//! | file | what it is |
//! |---|---|
//! | `keeper` | the login of this process; its `driver` carries out what the rules say: reads, locks, refreshes, asks |
//! | `flow` | one login, from the challenge to the tokens |
//! | `challenge` | what a server says that refuses |
//! | `discovery` | which authorization server it is, and what that offers |
//! | `client` | who we are there |
//! | `callback` | the page on this machine that a login ends at |
//! | `token` | the token endpoint |
//! | `store` | where logins are kept |
//! | `keyring`, `vault`, `seal` | the key they are sealed with: where it is, what is known of it, what is done with it |
//! | `resource_server` | the other side: whose tokens clients of ours show |
//! | `fetch`, `reach` | requests to authorization servers, and where they may lead |
//!
//! No secret is ever shown: not by `Debug`, not in errors, not in addresses.

mod callback;
mod challenge;
mod client;
mod discovery;
mod fetch;
mod flow;
mod keeper;
mod keyring;
mod reach;
#[cfg(feature = "http-server")]
mod resource_server;
mod seal;
mod store;
mod token;
mod vault;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::Url;

use crate::http_client::{Challenge, Credentials};
use client::Given;
use keeper::{Command, Commands, Keeper};
use outlive_core::login::LoginStatus;
#[cfg(feature = "http-server")]
pub use resource_server::{IdentityProvider, ProviderError};
pub use store::{StoredLogin, TokenStore};
use tokio::sync::watch;

/// So much is shown of what somebody else says.
const LONGEST_WORDS: usize = 500;

/// How a login is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// A person logs in with a browser.
    Browser,
    /// A person enters a code on another device (RFC 8628).
    Device,
    /// Nobody is asked: the client has credentials of its own (client credentials).
    Machine,
    /// Nobody is asked: what is kept is used and refreshed, and that is all.
    Never,
}

/// How logins are made and kept. No secret of it is shown.
#[derive(Clone)]
#[non_exhaustive]
pub struct OAuthOptions {
    /// How a login is made.
    pub way: Way,
    /// Where logins are kept.
    pub store: TokenStore,
    /// The client that was registered beforehand, or the address of its metadata document.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// Its private key in PEM (PKCS #8, P-256 or RSA), in place of a secret.
    pub client_key: Option<String>,
    /// Scopes to ask for, beside those that the server wants.
    pub scopes: Vec<String>,
    /// The port on this machine that logins end at; any without it.
    pub callback_port: Option<u16>,
    /// A person has this long.
    pub login_timeout: Duration,
    /// A call waits this long for a token. The first one of a process waits for the whole login.
    pub wait: Duration,
    /// A host whose client can show a person a link is told of logins (URL elicitation). Only for programs whose host
    /// belongs to the person who logs in.
    pub tell_host: bool,
    /// A server somewhere else may name an authorization server on this network or machine.
    pub allow_private: bool,
    /// Certificates to trust beside those of the system.
    pub ca_file: Option<PathBuf>,
}

impl Default for OAuthOptions {
    fn default() -> OAuthOptions {
        OAuthOptions {
            way: Way::Browser,
            store: TokenStore::Memory,
            client_id: None,
            client_secret: None,
            client_key: None,
            scopes: Vec::new(),
            callback_port: None,
            login_timeout: Duration::from_secs(300),
            wait: Duration::from_secs(30),
            tell_host: false,
            allow_private: false,
            ca_file: None,
        }
    }
}

impl OAuthOptions {
    fn given(&self) -> Given {
        Given {
            id: self.client_id.clone(),
            secret: self.client_secret.clone(),
            key: self.client_key.clone(),
        }
    }
}

/// Shows how, and never with what.
impl fmt::Debug for OAuthOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthOptions")
            .field("way", &self.way)
            .field("store", &self.store)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// What a login has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A person has to open this link, and, on another device, to enter this code.
    Open {
        /// The link.
        link: String,
        /// The code, if one is to be entered.
        code: Option<String>,
    },
    /// The login is done.
    LoggedIn,
    /// It has ended without a token, for this reason.
    Failed(String),
    /// Something does not work as it should, and it goes on.
    Warning(String),
}

/// The login of this process at one server. Clones share it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use outlive::oauth::{Notice, OAuth, OAuthOptions};
/// use outlive::{Client, Remote};
///
/// let login = OAuth::new("https://example.com/mcp", OAuthOptions::default(), |notice| {
///     if let Notice::Open { link, .. } = notice {
///         println!("log in: {link}");
///     }
/// })?;
/// let remote = Remote::new("https://example.com/mcp").credentials(login);
/// let client = Client::builder().url(remote).connect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OAuth {
    keeper: Arc<Keeper>,
    commands: Arc<Commands>,
}

/// Shows where; never with what.
impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OAuth")
    }
}

impl OAuth {
    /// The login at the server with this address; whatever a person has to know is told to `tell`.
    pub fn new(
        server: &str,
        options: OAuthOptions,
        tell: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<OAuth, String> {
        let server = Url::parse(server).map_err(|error| format!("that is no address: {error}"))?;
        let keeper = Arc::new(Keeper::new(server, options, Arc::new(tell)));
        let commands = Arc::default();
        Ok(OAuth { keeper, commands })
    }

    /// Logs in now, whatever is kept: asks the server what it wants, and a person to log in.
    pub async fn log_in(&self) -> Result<(), String> {
        self.keeper.log_in().await
    }

    /// Forgets the login, and tells the authorization server so if it can be told. Whether there was one.
    pub async fn log_out(&self) -> Result<bool, String> {
        self.keeper.log_out().await
    }

    /// The address that a browser on another machine ended at, pasted by a person.
    pub fn paste(&self, address: &str) {
        self.keeper.paste(address);
    }

    /// Ends the login of this process; for a program that is about to end. From now on nothing is exchanged, and
    /// nobody is asked. Waits until what was exchanged is kept, for a few seconds at most: a refresh token that is good
    /// once would otherwise be lost, and a person would have to log in again.
    ///
    /// Dropping the last clone does the same, and does not wait.
    pub async fn finish(&self) {
        self.ending().finish().await;
    }

    /// The end of this login, for whoever ends it later and does not keep it alive until then.
    pub fn ending(&self) -> Ending {
        Ending {
            commands: Arc::downgrade(&self.commands),
            runs: self.commands.runs(),
        }
    }
}

/// Ends a login, also one that nobody uses any more: see [`OAuth::finish`].
pub struct Ending {
    commands: Weak<Commands>,
    /// Whether its task is there.
    runs: watch::Receiver<bool>,
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ending")
    }
}

impl Ending {
    /// Ends the login, and waits as [`OAuth::finish`] does.
    pub async fn finish(mut self) {
        if let Some(commands) = self.commands.upgrade() {
            commands.leave();
        }
        // An error: whoever would tell is gone.
        let _ = self.runs.wait_for(|runs| !runs).await;
    }

    /// Whether there is nothing to wait for any more: nobody uses the login, and what was exchanged is kept.
    pub fn is_over(&self) -> bool {
        self.commands.strong_count() == 0 && !*self.runs.borrow()
    }
}

impl Credentials for OAuth {
    async fn obtain(&self, challenge: Challenge) -> Option<String> {
        self.keeper.clone().obtain(&self.commands, challenge).await
    }

    fn current(&self) -> Option<String> {
        self.keeper.current()
    }

    fn obstacle(&self) -> Option<String> {
        self.keeper.obstacle()
    }

    fn accepted(&self) {
        self.keeper.accepted(&self.commands);
    }

    fn login(&self) -> Option<watch::Receiver<LoginStatus>> {
        self.keeper.login()
    }

    fn decline(&self) {
        self.commands.tell(Command::Decline);
    }
}

/// The time since 1970.
fn wall() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

/// What somebody else says, as a person may be shown it: one line, in which nothing moves a cursor or hides, and not
/// more than can be read.
fn plain(text: &str) -> String {
    let hides = |it: char| matches!(it, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    let shown = text.chars().filter(|it| !it.is_control() && !hides(*it));
    shown.take(LONGEST_WORDS).collect()
}

/// What nobody can guess, as text.
fn random_text() -> Result<String, String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| format!("there is no randomness: {error}"))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// A number that nobody else draws. It is a name and no secret.
fn random_number() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => wall().as_nanos() as u64,
    }
}
