//! The settings of the identity provider whose tokens clients of `outlive serve` show.

use std::path::PathBuf;

use clap::Args;
use clap::builder::BoolishValueParser;
use outlive::oauth::IdentityProvider;

// No doc comment: it would become that of the command.
#[allow(missing_docs)]
#[derive(Args, Clone, Debug, Default)]
pub struct ProviderSettings {
    /// Accept access tokens of this identity provider: its issuer identifier, as its metadata and its tokens have it.
    /// Tokens of --token-file are accepted beside them.
    #[arg(
        long,
        env = "OUTLIVE_OAUTH_ISSUER",
        value_name = "URL",
        help_heading = "Identity provider"
    )]
    pub oauth_issuer: Option<String>,

    /// Accept tokens for this audience only: the address of this server, as clients know it. Further ones may be any
    /// identifier that the provider puts into `aud`. May be given more than once.
    #[arg(
        long,
        env = "OUTLIVE_AUDIENCE",
        value_name = "URL",
        value_delimiter = ',',
        help_heading = "Identity provider"
    )]
    pub audience: Vec<String>,

    /// Require this scope of every token. May be given more than once.
    #[arg(
        long,
        env = "OUTLIVE_OAUTH_SCOPE",
        value_name = "SCOPE",
        value_delimiter = ',',
        help_heading = "Identity provider"
    )]
    pub oauth_scope: Vec<String>,

    /// Show this view to whoever has this scope, or, with `claim NAME=VALUE=VIEW`, this claim; the view `*` is
    /// everything. The first rule that holds decides, and whoever fulfils none is refused. May be given more than once.
    #[arg(
        long,
        env = "OUTLIVE_OAUTH_VIEW",
        value_name = "SCOPE=VIEW",
        value_delimiter = ',',
        help_heading = "Identity provider"
    )]
    pub oauth_view: Vec<String>,

    /// Let whoever has this scope, or, with `claim NAME=VALUE`, this claim, see the status page and the metrics, and
    /// restart servers. May be given more than once.
    #[arg(
        long,
        env = "OUTLIVE_OAUTH_OPERATOR",
        value_name = "SCOPE",
        value_delimiter = ',',
        help_heading = "Identity provider"
    )]
    pub oauth_operator: Vec<String>,

    /// Accept opaque tokens, too, and ask the provider about them (RFC 7662) as this client.
    #[arg(
        long,
        env = "OUTLIVE_INTROSPECTION_CLIENT_ID",
        value_name = "ID",
        help_heading = "Identity provider"
    )]
    pub introspection_client_id: Option<String>,

    /// Secret of that client. Other users of this machine can read a flag: prefer the variable or
    /// --introspection-secret-file.
    #[arg(
        long,
        env = "OUTLIVE_INTROSPECTION_SECRET",
        value_name = "SECRET",
        hide_env_values = true,
        help_heading = "Identity provider"
    )]
    pub introspection_secret: Option<String>,

    /// File with the secret of that client.
    #[arg(
        long,
        env = "OUTLIVE_INTROSPECTION_SECRET_FILE",
        value_name = "FILE",
        help_heading = "Identity provider"
    )]
    pub introspection_secret_file: Option<PathBuf>,

    /// Trust the certificates in this PEM file, beside those of the system, when the provider is asked.
    #[arg(
        long,
        env = "OUTLIVE_OAUTH_CA_FILE",
        value_name = "FILE",
        help_heading = "Identity provider"
    )]
    pub oauth_ca_file: Option<PathBuf>,

    /// Let a provider elsewhere name addresses of this network or machine for its keys and introspection.
    #[arg(long, env = "OUTLIVE_OAUTH_ALLOW_PRIVATE", value_parser = BoolishValueParser::new(), help_heading = "Identity provider")]
    pub oauth_allow_private: bool,
}

impl ProviderSettings {
    /// The provider, if there is one, or why the settings make no sense.
    pub fn read(&self) -> Result<Option<IdentityProvider>, String> {
        let (issuer, audience) = match (&self.oauth_issuer, &self.audience[..]) {
            (Some(issuer), [audience, ..]) => (issuer, audience),
            (Some(_), []) => {
                let why = "a token for another server could be used here";
                return Err(format!("oauth-issuer is given without audience: {why}"));
            }
            (None, _) => return self.unused().map_or(Ok(None), Err),
        };
        let wrong = |error: outlive::oauth::ProviderError| error.to_string();
        let mut provider = IdentityProvider::new(issuer, audience).map_err(wrong)?;
        for audience in &self.audience[1..] {
            provider = provider.accept_audience(audience);
        }
        for scope in &self.oauth_scope {
            provider = provider.require_scope(scope);
        }
        for rule in &self.oauth_view {
            let with = provider.view(rule);
            provider = with.map_err(|error| format!("oauth-view is {error}"))?;
        }
        for condition in &self.oauth_operator {
            let with = provider.operator(condition);
            provider = with.map_err(|error| format!("oauth-operator is {error}"))?;
        }
        if let Some(file) = &self.oauth_ca_file {
            provider = provider.ca_file(file);
        }
        provider = provider.allow_private(self.oauth_allow_private);
        match (&self.introspection_client_id, self.secret()?) {
            (Some(id), Some(secret)) => Ok(Some(provider.introspection(id, secret))),
            (None, None) => Ok(Some(provider)),
            (Some(_), None) => Err(
                "introspection-client-id is given without a secret: give introspection-secret-file, or the variable \
                 OUTLIVE_INTROSPECTION_SECRET"
                    .into(),
            ),
            (None, Some(_)) => {
                Err("an introspection secret is given without introspection-client-id".into())
            }
        }
    }

    fn secret(&self) -> Result<Option<String>, String> {
        match (&self.introspection_secret, &self.introspection_secret_file) {
            (Some(_), Some(_)) => Err(
                "introspection-secret and introspection-secret-file are both given: one of them is enough".into(),
            ),
            (Some(secret), None) => Ok(Some(secret.clone())),
            (None, Some(file)) => {
                let text = std::fs::read_to_string(file)
                    .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
                Ok(Some(text.trim().to_owned()))
            }
            (None, None) => Ok(None),
        }
    }

    /// What is wrong with settings of a provider that there is not.
    fn unused(&self) -> Option<String> {
        let given = [
            ("audience", !self.audience.is_empty()),
            ("oauth-scope", !self.oauth_scope.is_empty()),
            ("oauth-view", !self.oauth_view.is_empty()),
            ("oauth-operator", !self.oauth_operator.is_empty()),
            (
                "introspection-client-id",
                self.introspection_client_id.is_some(),
            ),
        ];
        let (name, _) = given.into_iter().find(|(_, given)| *given)?;
        Some(format!(
            "{name} is given without oauth-issuer: it would have no effect"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(change: impl FnOnce(&mut ProviderSettings)) -> ProviderSettings {
        let mut settings = ProviderSettings {
            oauth_issuer: Some("https://login.example.com".into()),
            audience: vec!["https://mcp.example.com/mcp".into()],
            ..ProviderSettings::default()
        };
        change(&mut settings);
        settings
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        type Change = fn(&mut ProviderSettings);
        let cases: [(Change, &str); 9] = [
            (|it| it.audience.clear(), "without audience"),
            (
                |it| it.oauth_issuer = None,
                "audience is given without oauth-issuer",
            ),
            (
                |it| it.oauth_issuer = Some("login".into()),
                "the issuer is \"login\"",
            ),
            (
                |it| it.audience = vec!["api://mcp".into()],
                "begins with https://",
            ),
            (
                |it| it.oauth_view = vec!["admin".into()],
                "expected SCOPE=VIEW",
            ),
            (
                |it| it.oauth_view = vec!["claim a=dev".into()],
                "claim NAME=VALUE",
            ),
            (
                |it| it.oauth_operator = vec!["a b".into()],
                "oauth-operator is \"a b\"",
            ),
            (
                |it| it.introspection_client_id = Some("x".into()),
                "without a secret",
            ),
            (
                |it| it.introspection_secret = Some("x".into()),
                "without introspection-client-id",
            ),
        ];
        for (change, words) in cases {
            let why = settings(change).read().expect_err(words);
            assert!(why.contains(words), "{why}");
        }
        assert!(settings(|_| ()).read().expect("good").is_some());
        assert!(ProviderSettings::default().read().expect("good").is_none());
    }

    #[test]
    fn a_secret_in_the_settings_is_not_shown() {
        let with = settings(|it| {
            it.introspection_client_id = Some("gateway".into());
            it.introspection_secret = Some("hunter22".into());
        });
        let provider = with.read().expect("good").expect("a provider");
        assert!(!format!("{provider:?}").contains("hunter22"));
    }
}
