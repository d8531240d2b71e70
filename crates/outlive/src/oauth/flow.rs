//! A login, from the challenge to the tokens: the authorization code with PKCE, a code for another device (RFC 8628),
//! or, for a machine, its own credentials.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use reqwest::Url;
use ring::digest;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::callback::{Answer, Callback};
use super::client::{Client, register};
use super::discovery::{Issuer, Resource, canonical};
use super::fetch::Fetcher;
use super::store::Kept;
use super::token::{NoTokens, Tokens, ask};
use super::{Notice, OAuthOptions, Way, plain, random_text};

/// Why there is no login at a server that merely refuses: there is no authorization server.
pub(super) const NOT_OFFERED: &str = "the server offers no login";

/// A link that is longer is opened by no browser; authorization servers choose much of it.
const LONGEST_LINK: usize = 16 << 10;

/// A login that begins now.
pub(super) struct Flow<'a> {
    pub(super) fetcher: &'a Fetcher,
    pub(super) server: &'a Url,
    pub(super) options: &'a OAuthOptions,
    /// Where the challenge says that the server's metadata is.
    pub(super) metadata: Option<String>,
    /// The login before this one.
    pub(super) before: Option<Kept>,
    pub(super) tell: &'a (dyn Fn(Notice) + Send + Sync),
    /// Addresses that a person pastes.
    pub(super) pasted: mpsc::UnboundedReceiver<String>,
}

impl Flow<'_> {
    /// Logs in, for these scopes at least.
    pub(super) async fn run(mut self, wanted: Vec<String>) -> Result<Kept, String> {
        let resource = Resource::find(self.fetcher, self.server, self.metadata.as_deref()).await?;
        let issuer = Issuer::find(self.fetcher, self.server, &resource).await?;
        let endpoint = issuer.needed("token_endpoint")?;
        let scopes = self.scopes(wanted, &resource, &issuer);
        let (client, tokens) = match self.options.way {
            Way::Machine => {
                self.as_machine(&issuer, &endpoint, &resource, &scopes)
                    .await?
            }
            Way::Device => {
                self.on_another_device(&issuer, &endpoint, &resource, &scopes)
                    .await?
            }
            _ => {
                self.in_a_browser(&issuer, &endpoint, &resource, &scopes)
                    .await?
            }
        };
        Ok(Kept {
            server: canonical(self.server),
            client,
            token_endpoint: endpoint.into(),
            resource: resource.name,
            grant: Some(tokens.kept(None, scopes)),
        })
    }

    /// What to ask for: what is wanted, else all that the server knows, else nothing in particular; and, where that is
    /// a scope, tokens that last.
    fn scopes(&self, wanted: Vec<String>, resource: &Resource, issuer: &Issuer) -> Vec<String> {
        let mut scopes = match wanted.is_empty() {
            true => resource.scopes.clone(),
            false => wanted,
        };
        for scope in &self.options.scopes {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        let lasting = "offline_access".to_owned();
        let offered = issuer.lists("scopes_supported", &lasting);
        scopes.retain(|scope| *scope != lasting);
        if offered && self.options.way != Way::Machine {
            scopes.push(lasting);
        }
        scopes
    }

    fn given(&self, issuer: &Issuer) -> Result<Option<Client>, String> {
        let given = self.options.given().client(issuer);
        let before = self.before.as_ref().map(|it| &it.client);
        // What was registered with one authorization server is shown to no other.
        match (&given, before) {
            (Some(client), Some(before))
                if before.id == client.id
                    && before.issuer != client.issuer
                    && client.secret.is_some() =>
            {
                Err(format!(
                    "the server has moved from the authorization server {} to {}: register there, log out, and log \
                     in with what you get",
                    before.issuer, client.issuer
                ))
            }
            _ => Ok(given),
        }
    }

    async fn in_a_browser(
        &mut self,
        issuer: &Issuer,
        endpoint: &Url,
        resource: &Resource,
        scopes: &[String],
    ) -> Result<(Client, Tokens), String> {
        if !issuer.lists("code_challenge_methods_supported", "S256") {
            return Err(format!(
                "the authorization server {} does not say that it knows PKCE (S256): without it a code could be \
                 stolen on its way",
                issuer.name
            ));
        }
        let before = self.before.as_ref().map(|it| it.client.clone());
        let before = before.filter(|it| it.issuer == issuer.name && it.redirect_uri.is_some());
        let usual = before
            .as_ref()
            .and_then(|it| Callback::port_of(it.redirect_uri.as_deref()?));
        let callback = match self.options.callback_port {
            Some(port) => Callback::listen(Some(port))
                .await
                .map_err(|error| format!("cannot listen on port {port}: {error}"))?,
            None => match Callback::listen(usual).await {
                Ok(callback) => callback,
                Err(_) => Callback::listen(None)
                    .await
                    .map_err(|error| format!("cannot listen on this machine: {error}"))?,
            },
        };
        let uri = callback.uri();
        let client = match (self.given(issuer)?, before) {
            (Some(client), _) => client,
            (None, Some(client)) if client.redirect_uri.as_deref() == Some(&uri) => client,
            // Where nothing says that there is a login, this is how one finds out (before 2025-06-18).
            _ => match register(self.fetcher, issuer, &uri).await {
                Err(_) if !issuer.documented => return Err(NOT_OFFERED.into()),
                registered => registered?,
            },
        };
        let (state, verifier) = (random_text()?, random_text()?);
        let hash = digest::digest(&digest::SHA256, verifier.as_bytes());
        let mut page = issuer.needed("authorization_endpoint")?;
        self.fetcher.check(&page)?;
        page.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", &uri)
            .append_pair("state", &state)
            .append_pair("code_challenge", &BASE64_URL_SAFE_NO_PAD.encode(hash))
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &resource.name);
        if !scopes.is_empty() {
            page.query_pairs_mut()
                .append_pair("scope", &scopes.join(" "));
        }
        if scopes.iter().any(|it| it == "openid") {
            // Some want one wherever there is an id token. We read none, so there is none that could be replayed.
            page.query_pairs_mut().append_pair("nonce", &random_text()?);
        }
        if scopes.iter().any(|it| it == "offline_access") {
            // OpenID Connect, 11: without it the scope is ignored.
            page.query_pairs_mut().append_pair("prompt", "consent");
        }
        if page.as_str().len() > LONGEST_LINK {
            return Err(format!(
                "the link to {} would be longer than a browser opens",
                issuer.name
            ));
        }
        (self.tell)(Notice::Open {
            link: page.into(),
            code: None,
        });
        let end = callback.answer(&state);
        tokio::pin!(end);
        let answer = loop {
            tokio::select! {
                answer = &mut end => break answer,
                Some(text) = self.pasted.recv() => {
                    let answer = Url::parse(text.trim()).map(|url| Answer::read(&url));
                    match answer {
                        Ok(answer) if answer.state.as_deref() == Some(&state) => break answer,
                        _ => (self.tell)(Notice::Warning(
                            "that is not the address that this login ends at; paste the whole of it".into(),
                        )),
                    }
                }
            }
        };
        let code = check(answer, issuer)?;
        let form = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code),
            ("code_verifier", verifier),
            ("redirect_uri", uri),
            ("resource", resource.name.clone()),
        ];
        let key = self.options.client_key.as_deref();
        let tokens = ask(self.fetcher, endpoint.clone(), &client, key, form).await;
        Ok((client, tokens.map_err(NoTokens::words)?))
    }

    async fn on_another_device(
        &mut self,
        issuer: &Issuer,
        endpoint: &Url,
        resource: &Resource,
        scopes: &[String],
    ) -> Result<(Client, Tokens), String> {
        let device = issuer.needed("device_authorization_endpoint")?;
        let client = match self.given(issuer)? {
            Some(client) => client,
            None => register(self.fetcher, issuer, "http://127.0.0.1/callback").await?,
        };
        let key = self.options.client_key.as_deref();
        let mut form = vec![("resource", resource.name.clone())];
        if !scopes.is_empty() {
            form.push(("scope", scopes.join(" ")));
        }
        let headers = client.sign(key, super::wall(), &mut form)?;
        let form: Vec<(&str, &str)> = form
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let (status, answer) = self
            .fetcher
            .form(device, headers, &form)
            .await
            .map_err(|it| it.why)?;
        let text = |name: &str| answer[name].as_str().map(str::to_owned);
        let (Some(code), Some(page)) = (text("device_code"), text("verification_uri")) else {
            let why = text("error_description")
                .or(text("error"))
                .unwrap_or_default();
            return Err(format!(
                "{} gave no code (status {status}): {why}",
                issuer.name
            ));
        };
        let link = text("verification_uri_complete").unwrap_or(page);
        let link = Url::parse(&link).map_err(|error| error.to_string())?;
        self.fetcher.check(&link)?;
        (self.tell)(Notice::Open {
            link: link.into(),
            code: text("user_code").map(|it| plain(&it)),
        });
        let mut pause = Duration::from_secs(answer["interval"].as_u64().unwrap_or(5).clamp(1, 60));
        loop {
            sleep(pause).await;
            let form = vec![
                (
                    "grant_type",
                    "urn:ietf:params:oauth:grant-type:device_code".to_owned(),
                ),
                ("device_code", code.clone()),
                ("resource", resource.name.clone()),
            ];
            match ask(self.fetcher, endpoint.clone(), &client, key, form).await {
                Ok(tokens) => return Ok((client, tokens)),
                Err(NoTokens::Refused { error, .. }) if error == "authorization_pending" => {}
                // Also `slow_down`, and a network that fails for a moment (RFC 8628, 3.5).
                Err(NoTokens::Unsent(_) | NoTokens::Unknown(_)) => pause += Duration::from_secs(5),
                Err(refused) => return Err(refused.words()),
            }
        }
    }

    async fn as_machine(
        &self,
        issuer: &Issuer,
        endpoint: &Url,
        resource: &Resource,
        scopes: &[String],
    ) -> Result<(Client, Tokens), String> {
        let client = self.given(issuer)?.filter(|it| it.method != "none");
        let client = client.ok_or(
            "a login without a person needs --client-id, and --client-secret or --client-key",
        )?;
        let mut form = vec![
            ("grant_type", "client_credentials".to_owned()),
            ("resource", resource.name.clone()),
        ];
        if !scopes.is_empty() {
            form.push(("scope", scopes.join(" ")));
        }
        let key = self.options.client_key.as_deref();
        let tokens = ask(self.fetcher, endpoint.clone(), &client, key, form).await;
        Ok((client, tokens.map_err(NoTokens::words)?))
    }
}

/// The code of an answer, if it is the answer of this authorization server (RFC 9207): letter by letter, and before
/// anything else in it is believed.
fn check(answer: Answer, issuer: &Issuer) -> Result<String, String> {
    let promised = issuer.says("authorization_response_iss_parameter_supported");
    match &answer.iss {
        Some(name) if *name != issuer.name => {
            return Err("the login was answered by another authorization server than the one that was asked".into());
        }
        None if promised => {
            return Err("the answer to the login does not say who has answered".into());
        }
        _ => {}
    }
    match (answer.code, answer.error) {
        (Some(code), None) => Ok(code),
        (_, error) => {
            let error = error.unwrap_or_else(|| "there was no code in the answer".into());
            let why = answer
                .description
                .map(|it| format!(" ({it})"))
                .unwrap_or_default();
            Err(format!("the login was refused: {error}{why}"))
        }
    }
}
