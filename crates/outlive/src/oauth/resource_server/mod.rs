//! Clients whose tokens come from somebody's identity provider: the side of the resource server.
//!
//! Which key checks a token, when the provider is asked and what is remembered is decided by
//! [`outlive_core::verifier`]; `provider` carries it out, `signature` checks, `token` takes apart. What clients are
//! told is in `http_server/bearer`.

mod provider;
mod signature;
mod token;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use outlive_core::verifier::{Condition, Grants, ViewRule};
use reqwest::Url;

use crate::http_server::TokenVerifier;
use provider::Provider;

/// The identity provider whose access tokens clients show ([`Http::identity_provider`](crate::server::Http)).
///
/// A token must be issued by it, be meant for this server (its audience), be valid now, and be signed with one of the
/// keys that the provider publishes; with [`introspection`](IdentityProvider::introspection), opaque tokens are
/// accepted that the provider says are good. Clients find the provider by the metadata that is served for them (RFC
/// 9728).
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use outlive::Server;
/// use outlive::oauth::IdentityProvider;
/// use outlive::server::{Ctx, User};
///
/// let provider = IdentityProvider::new("https://login.example.com", "https://mcp.example.com/mcp")?;
/// Server::builder("demo", "1.0.0")
///     .tool("whoami", "Says who calls.", |ctx: Ctx, (): ()| async move {
///         ctx.extension::<User>().map(|user| user.name().to_owned()).unwrap_or_default()
///     })
///     .build()
///     .http()
///     .identity_provider(provider.require_scope("mcp"))
///     .bind("127.0.0.1:8000")
///     .await?
///     .serve()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct IdentityProvider {
    issuer: Url,
    /// As it was given: letter by letter is how it is compared.
    issuer_name: Arc<str>,
    audience: Url,
    audiences: Vec<String>,
    grants: Grants,
    introspection: Option<(String, String)>,
    ca_file: Option<PathBuf>,
    allow_private: bool,
}

/// Why the settings of an identity provider make no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderError(String);

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProviderError {}

impl IdentityProvider {
    /// The provider with this issuer identifier, and the address of this server that clients know and tokens name.
    pub fn new(issuer: &str, audience: &str) -> Result<IdentityProvider, ProviderError> {
        let url = |what: &str, text: &str| {
            let wrong = |why: String| ProviderError(format!("{what} is {text:?}: {why}"));
            let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
            let is_web = matches!(url.scheme(), "http" | "https") && url.host_str().is_some();
            let has_secret = !url.username().is_empty() || url.password().is_some();
            match () {
                () if !is_web => Err(wrong(
                    "expected an address that begins with https://".into(),
                )),
                () if has_secret => Err(ProviderError(format!(
                    "{what} has credentials in it, which clients would see"
                ))),
                () if url.fragment().is_some() || url.query().is_some() => {
                    Err(wrong("expected an address without ? and #".into()))
                }
                () => Ok(url),
            }
        };
        Ok(IdentityProvider {
            issuer: url("the issuer", issuer)?,
            issuer_name: issuer.into(),
            audience: url("the audience", audience)?,
            audiences: vec![audience.to_owned()],
            grants: Grants::default(),
            introspection: None,
            ca_file: None,
            allow_private: false,
        })
    }

    /// Accepts tokens that name this audience as well: an identifier that the provider has given to this server.
    #[must_use]
    pub fn accept_audience(mut self, audience: impl Into<String>) -> IdentityProvider {
        self.audiences.push(audience.into());
        self
    }

    /// Every token must have this scope.
    #[must_use]
    pub fn require_scope(mut self, scope: impl Into<String>) -> IdentityProvider {
        self.grants.required.push(scope.into().into());
        self
    }

    /// Whose token fulfils this sees that view: `SCOPE=VIEW` or `claim NAME=VALUE=VIEW`, where the view `*` is
    /// everything. The first rule that holds decides. With rules, whoever fulfils none is refused; without, everybody
    /// sees everything.
    pub fn view(mut self, rule: &str) -> Result<IdentityProvider, ProviderError> {
        let rule = ViewRule::read(rule).map_err(ProviderError)?;
        self.grants.rules.push(rule);
        Ok(self)
    }

    /// Whose token fulfils this may look at the page and the metrics and act on servers: `SCOPE` or `claim NAME=VALUE`.
    /// Without, nobody may whom the provider vouches for.
    pub fn operator(mut self, condition: &str) -> Result<IdentityProvider, ProviderError> {
        let condition = Condition::read(condition).map_err(ProviderError)?;
        self.grants.operators.push(condition);
        Ok(self)
    }

    /// Accepts opaque tokens, too, and asks the provider about them (RFC 7662) as this client with this secret.
    #[must_use]
    pub fn introspection(
        mut self,
        client_id: impl Into<String>,
        client_secret: impl Into<String>,
    ) -> IdentityProvider {
        self.introspection = Some((client_id.into(), client_secret.into()));
        self
    }

    /// Trusts these certificates beside those of the system when the provider is asked.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> IdentityProvider {
        self.ca_file = Some(path.into());
        self
    }

    /// The provider may name addresses of this network or machine although it is somewhere else.
    #[must_use]
    pub fn allow_private(mut self, allowed: bool) -> IdentityProvider {
        self.allow_private = allowed;
        self
    }

    pub(crate) fn verifier(self) -> Arc<dyn TokenVerifier> {
        Arc::new(Provider::new(self))
    }
}

/// Shows whose tokens are accepted, and no secret.
impl fmt::Debug for IdentityProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentityProvider")
            .field("issuer", &self.issuer_name)
            .field("audiences", &self.audiences)
            .field("grants", &self.grants)
            .finish_non_exhaustive()
    }
}
