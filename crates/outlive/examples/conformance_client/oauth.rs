//! Logs in with OAuth 2.1 as the specification wants it (authorization code, PKCE), at a server that lets everybody in
//! without asking: what a browser would do is one request.
//!
//! This is the program's half of the work. When it is needed, and what is sent again with what it
//! brings, is the crate's: [`Remote::credentials`](outlive::Remote::credentials).

use outlive::{Challenge, Credentials};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Method, Request, Url};
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::Result;

const REDIRECT: &str = "http://localhost:3000/callback";
/// A document that says who we are, for servers that look it up.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Whoever the authorization server knows us as.
#[derive(Clone)]
struct Known {
    id: String,
    secret: Option<String>,
    /// How the secret is shown.
    method: String,
}

/// What is kept from one login to the next.
#[derive(Default)]
struct State {
    /// The authorization server, and who we are there.
    at: Option<(String, Known)>,
    scopes: Vec<String>,
}

/// Logs in at the authorization server of one MCP server.
pub struct Login {
    server: Url,
    /// Whom the user has registered beforehand.
    registered: Option<Known>,
    http: reqwest::Client,
    state: Mutex<State>,
}

/// What an authorization server says of itself.
struct Issuer {
    name: String,
    metadata: Value,
}

impl Issuer {
    fn endpoint(&self, name: &str) -> Result<Url> {
        let endpoint = self.metadata[name]
            .as_str()
            .ok_or("an endpoint is missing")?;
        Ok(endpoint.parse()?)
    }

    fn lists(&self, what: &str, item: &str) -> bool {
        let items = self.metadata[what].as_array();
        items.is_some_and(|items| items.iter().any(|one| one == item))
    }

    /// How it wants to be shown a secret.
    fn method(&self) -> String {
        let methods = self.metadata["token_endpoint_auth_methods_supported"].as_array();
        let first = methods.and_then(|methods| methods.first()?.as_str());
        first.unwrap_or("client_secret_basic").to_string()
    }
}

impl Credentials for Login {
    async fn obtain(&self, challenge: Challenge) -> Option<String> {
        match self
            .log_in(&challenge.authenticate.unwrap_or_default())
            .await
        {
            Ok(token) => Some(format!("Bearer {token}")),
            Err(error) => {
                eprintln!("no login: {error}");
                None
            }
        }
    }
}

impl Login {
    pub fn new(server: &str, context: &Value) -> Result<Login> {
        // Already installed: then all is well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let text = |name: &str| context[name].as_str().map(str::to_string);
        Ok(Login {
            server: server.parse()?,
            registered: text("client_id").map(|id| Known {
                id,
                secret: text("client_secret"),
                method: "client_secret_basic".into(),
            }),
            http: reqwest::Client::builder()
                .redirect(Policy::none())
                .no_proxy()
                .build()?,
            state: Mutex::default(),
        })
    }

    async fn log_in(&self, challenge: &str) -> Result<String> {
        let resource = self
            .resource(parameter(challenge, "resource_metadata"))
            .await?;
        let issuer = self.issuer(resource.as_ref()).await?;
        let mut state = self.state.lock().await;
        let known = match state.at.take() {
            // What another one gave us is shown to nobody else.
            Some((name, known)) if name == issuer.name => known,
            _ => self.introduce(&issuer).await?,
        };
        state.at = Some((issuer.name.clone(), known.clone()));
        for scope in scopes(challenge, resource.as_ref(), &issuer) {
            if !state.scopes.contains(&scope) {
                state.scopes.push(scope);
            }
        }
        let resource = resource.and_then(|it| it["resource"].as_str().map(str::to_string));
        let resource = resource.unwrap_or_else(|| self.server.to_string());
        self.token(&issuer, &known, &state.scopes, &resource).await
    }

    /// What the server says of itself; none if it says nothing (before 2025-06-18).
    async fn resource(&self, named: Option<String>) -> Result<Option<Value>> {
        let well_known = "/.well-known/oauth-protected-resource";
        let path = self.server.path().trim_end_matches('/');
        let places = match named {
            Some(place) => vec![place],
            None => vec![format!("{well_known}{path}"), well_known.to_string()],
        };
        for place in places {
            let Some(resource) = self.json(self.server.join(&place)?).await? else {
                continue;
            };
            let name: Url = resource["resource"].as_str().unwrap_or_default().parse()?;
            let within = path.starts_with(name.path().trim_end_matches('/'));
            if name.origin() != self.server.origin() || !within {
                return Err("it names another resource than the one we want".into());
            }
            return Ok(Some(resource));
        }
        Ok(None)
    }

    async fn issuer(&self, resource: Option<&Value>) -> Result<Issuer> {
        let origin = self.server.origin().ascii_serialization();
        let name = resource.and_then(|resource| resource["authorization_servers"][0].as_str());
        let at: Url = name.unwrap_or(&origin).parse()?;
        let path = at.path().trim_end_matches('/');
        let mut places = vec![
            format!("/.well-known/oauth-authorization-server{path}"),
            format!("/.well-known/openid-configuration{path}"),
        ];
        if !path.is_empty() {
            places.push(format!("{path}/.well-known/openid-configuration"));
        }
        for place in places {
            let Some(metadata) = self.json(at.join(&place)?).await? else {
                continue;
            };
            if name.is_some_and(|name| metadata["issuer"] != name) {
                return Err("it says it is another authorization server".into());
            }
            let name = name.unwrap_or(&origin).to_string();
            return Ok(Issuer { name, metadata });
        }
        if name.is_some() {
            return Err("the authorization server says nothing of itself".into());
        }
        // Before 2025-06-18 the places were fixed.
        let metadata = json!({
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"),
            "registration_endpoint": format!("{origin}/register"),
        });
        Ok(Issuer {
            name: origin,
            metadata,
        })
    }

    /// Makes us known to an authorization server.
    async fn introduce(&self, issuer: &Issuer) -> Result<Known> {
        if let Some(registered) = &self.registered {
            return Ok(registered.clone());
        }
        let public = |id: &str| Known {
            id: id.into(),
            secret: None,
            method: "none".into(),
        };
        if issuer.metadata["client_id_metadata_document_supported"] == true {
            return Ok(public(CLIENT_DOCUMENT));
        }
        let method = issuer.method();
        let about_us = json!({
            "client_name": "outlive-conformance",
            "application_type": "native",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        });
        let mut request = Request::new(Method::POST, issuer.endpoint("registration_endpoint")?);
        request
            .headers_mut()
            .insert(CONTENT_TYPE, "application/json".parse()?);
        *request.body_mut() = Some(about_us.to_string().into());
        let answer = self.http.execute(request).await?.bytes().await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let text = |name: &str| answer[name].as_str().map(str::to_string);
        let id = text("client_id").ok_or("we were not registered")?;
        Ok(match text("client_secret") {
            None => public(&id),
            secret => Known {
                id,
                secret,
                method: text("token_endpoint_auth_method").unwrap_or(method),
            },
        })
    }

    /// The login itself, and what it is worth.
    async fn token(
        &self,
        issuer: &Issuer,
        known: &Known,
        scopes: &[String],
        resource: &str,
    ) -> Result<String> {
        let (state, verifier) = (random()?, random()?);
        let challenge = base64url(digest::digest(&digest::SHA256, verifier.as_bytes()).as_ref());
        let mut page = issuer.endpoint("authorization_endpoint")?;
        page.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &known.id)
            .append_pair("redirect_uri", REDIRECT)
            .append_pair("state", &state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", resource);
        if !scopes.is_empty() {
            page.query_pairs_mut()
                .append_pair("scope", &scopes.join(" "));
        }
        let answer = self.http.execute(Request::new(Method::GET, page)).await?;
        let back = answer
            .headers()
            .get(LOCATION)
            .ok_or("the login led nowhere")?;
        let back: Url = back.to_str()?.parse()?;
        let told = |name: &str| {
            let mut pairs = back.query_pairs();
            pairs
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.into_owned())
        };
        if told("state").as_ref() != Some(&state) {
            return Err("that is the answer to another login".into());
        }
        let promised = &issuer.metadata["authorization_response_iss_parameter_supported"];
        match told("iss") {
            Some(name) if name != issuer.name => return Err("another server has answered".into()),
            None if *promised == true => return Err("the answer names no server".into()),
            _ => {}
        }
        let code = told("code").ok_or("the login was refused")?;
        let mut form: Vec<(&str, &str)> = vec![
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("code_verifier", &verifier),
            ("redirect_uri", REDIRECT),
            ("resource", resource),
        ];
        let mut request = Request::new(Method::POST, issuer.endpoint("token_endpoint")?);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, "application/x-www-form-urlencoded".parse()?);
        headers.insert(ACCEPT, "application/json".parse()?);
        match (&known.secret, known.method.as_str()) {
            (Some(secret), "client_secret_basic") => {
                let pair = base64(format!("{}:{secret}", known.id).as_bytes());
                headers.insert(AUTHORIZATION, format!("Basic {pair}").parse()?);
            }
            (Some(secret), "client_secret_post") => {
                form.extend([("client_id", known.id.as_str()), ("client_secret", secret)]);
            }
            _ => form.push(("client_id", &known.id)),
        }
        // A form is written like the query of an address.
        let form = Url::parse_with_params("http://form/", form)?;
        *request.body_mut() = Some(form.query().unwrap_or_default().to_string().into());
        let answer = self.http.execute(request).await?.bytes().await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let token = answer["access_token"].as_str().ok_or("there is no token")?;
        Ok(token.to_string())
    }

    /// The document at an address; none if there is none.
    async fn json(&self, url: Url) -> Result<Option<Value>> {
        let answer = self.http.execute(Request::new(Method::GET, url)).await?;
        match answer.status().is_success() {
            true => Ok(Some(serde_json::from_slice(&answer.bytes().await?)?)),
            false => Ok(None),
        }
    }
}

/// What to ask for: what the challenge names, else all that the resource knows, else nothing in particular.
fn scopes(challenge: &str, resource: Option<&Value>, issuer: &Issuer) -> Vec<String> {
    let named = parameter(challenge, "scope");
    let known = resource.and_then(|resource| resource["scopes_supported"].as_array());
    let scopes: Vec<String> = match (named, known) {
        (Some(named), _) => named.split_whitespace().map(str::to_string).collect(),
        (None, Some(known)) => {
            let known = known.iter().filter_map(Value::as_str);
            known.map(str::to_string).collect()
        }
        (None, None) => Vec::new(),
    };
    let offered = |scope: &String| {
        scope != "offline_access" || issuer.lists("scopes_supported", "offline_access")
    };
    scopes.into_iter().filter(offered).collect()
}

/// A parameter of a challenge, `name="value"`.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    while let Some(at) = rest.find(name) {
        let before = rest[..at].chars().next_back();
        rest = &rest[at + name.len()..];
        if before.is_none_or(|c| c == ' ' || c == ',')
            && let Some(value) = rest.strip_prefix("=\"")
        {
            return Some(value.split('"').next()?.to_string());
        }
    }
    None
}

fn random() -> Result<String> {
    let mut bytes = [0; 32];
    let random = SystemRandom::new();
    random
        .fill(&mut bytes)
        .map_err(|_| "there is no randomness")?;
    Ok(base64url(&bytes))
}

fn base64url(bytes: &[u8]) -> String {
    let letter = |chunk: &[u8], n: usize| {
        let byte = |n: usize| u32::from(chunk.get(n).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        char::from(ALPHABET[(bits >> (18 - 6 * n) & 63) as usize])
    };
    bytes
        .chunks(3)
        .flat_map(|chunk| (0..=chunk.len()).map(move |n| letter(chunk, n)))
        .collect()
}

fn base64(bytes: &[u8]) -> String {
    let mut text = base64url(bytes).replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}
