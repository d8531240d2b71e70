//! An MCP server and its authorization server, at one address.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use base64url::encode;
use ring::digest;
use serde_json::{Value, json};

use crate::web::{Act, Reply, Request, Web, response};

/// What happens to the next refresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is answered with this status, and nothing was done.
    Status(u16),
    /// The connection is reset, and nothing was done.
    Reset,
    /// It hangs, and nothing was done.
    HangBefore,
    /// It hangs, and the token was exchanged.
    HangAfter,
    /// The token was exchanged, and the answer takes this long.
    Slow(Duration),
}

/// What the authorization server has written down.
#[derive(Default)]
pub struct Books {
    clients: usize,
    codes: HashMap<String, Value>,
    /// Refresh tokens that are good.
    refresh: HashMap<String, Value>,
    /// Refresh tokens that were exchanged.
    spent: Vec<String>,
    access: HashMap<String, (Instant, String)>,
    /// Every token and secret there ever was.
    pub secrets: Vec<String>,
    pub logins: usize,
    pub refreshes: usize,
    /// A token that was exchanged came again.
    pub reused: usize,
    /// Refreshes that hang.
    pub hanging: usize,
    pub faults: VecDeque<Fault>,
    /// What should not have happened.
    pub wrong: Vec<String>,
    /// The scope that the server wants, beside being logged in.
    pub scope: Option<String>,
    /// Fields of the authorization server's metadata that are otherwise.
    pub metadata: Value,
    /// The same of the server's.
    pub resource: Value,
    /// What the server asks for beside, in headers of their own, before what it wants.
    pub challenges: Vec<String>,
    /// Where the server's metadata is, if it is not where it is by convention.
    pub place: Option<String>,
    /// Refresh tokens stay good, and are given once.
    pub lasting: bool,
    /// What tokens say in `expires_in`, if it is not what is true.
    pub expires_in: Value,
    /// The whole answer to these paths.
    pub pages: HashMap<String, Reply>,
    number: usize,
}

/// An MCP server and its authorization server, at one address.
pub struct Provider {
    pub web: Web,
    books: Arc<Mutex<Books>>,
}

mod base64url {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

    pub fn encode(bytes: &[u8]) -> String {
        let letter = |chunk: &[u8], n: usize| {
            let byte = |n: usize| u32::from(chunk.get(n).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            char::from(ALPHABET[(bits >> (18 - 6 * n) & 63) as usize])
        };
        let chunks = bytes.chunks(3);
        chunks
            .flat_map(|chunk| (0..=chunk.len()).map(move |n| letter(chunk, n)))
            .collect()
    }
}

impl Provider {
    /// Tokens live for this long.
    pub fn start(life: Duration) -> Provider {
        let books: Arc<Mutex<Books>> = Arc::default();
        let kept = books.clone();
        let web = Web::start(move |request| kept.lock().unwrap().reply(request, life));
        Provider { web, books }
    }

    pub fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    pub fn url(&self) -> String {
        self.web.url()
    }

    pub fn origin(&self) -> String {
        format!("http://{}", self.web.address())
    }

    /// A person says yes: the code for what the link asks.
    pub fn approve(&self, asked: &HashMap<String, String>) -> String {
        let mut books = self.books();
        let code = books.new_secret("code");
        let grant = json!({
            "challenge": asked["code_challenge"],
            "redirect": asked["redirect_uri"],
            "scope": asked.get("scope").cloned().unwrap_or_default(),
            "client": asked["client_id"],
        });
        let right = asked["code_challenge_method"] == "S256"
            && asked["resource"] == self.url()
            && asked["response_type"] == "code";
        if !right {
            books.wrong.push(format!("a wrong link: {asked:?}"));
        }
        books.codes.insert(code.clone(), grant);
        code
    }

    /// Withdraws every token there is.
    pub fn withdraw_all(&self) {
        let mut books = self.books();
        books.access.clear();
        books.refresh.clear();
    }

    /// Withdraws the access tokens only.
    pub fn withdraw_access(&self) {
        self.books().access.clear();
    }

    /// Nothing has happened that should not.
    #[track_caller]
    pub fn check(&self) {
        let books = self.books();
        assert_eq!(books.wrong, [""; 0]);
        assert_eq!(books.reused, 0, "a refresh token was used twice");
    }

    /// None of the secrets is in here.
    #[track_caller]
    pub fn check_hidden(&self, text: &str) {
        for secret in &self.books().secrets {
            assert!(!text.contains(secret.as_str()), "{secret} is shown: {text}");
        }
    }
}

impl Books {
    fn new_secret(&mut self, kind: &str) -> String {
        self.number += 1;
        let secret = format!("{kind}-hunter-{:06}", self.number);
        self.secrets.push(secret.clone());
        secret
    }

    fn reply(&mut self, request: &Request, life: Duration) -> Option<Reply> {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        if self.secrets.iter().any(|it| query.contains(it.as_str())) {
            self.wrong
                .push(format!("a secret in an address: {}", request.path));
        }
        // As a proxy is asked.
        let path = match path.strip_prefix("http://") {
            Some(whole) => whole.find('/').map_or("/", |at| &whole[at..]),
            None => path,
        };
        if let Some(page) = self.pages.get(path) {
            return Some(page.clone());
        }
        let origin = format!("http://{}", request.header("host").unwrap_or_default());
        match path {
            "/mcp" => self.admit(request, &origin),
            _ if path == self.place() => Some(document(
                json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]}),
                &self.resource,
            )),
            "/.well-known/oauth-authorization-server" => Some(document(
                json!({
                    "issuer": origin,
                    "authorization_endpoint": format!("{origin}/authorize"),
                    "token_endpoint": format!("{origin}/token"),
                    "registration_endpoint": format!("{origin}/register"),
                    "device_authorization_endpoint": format!("{origin}/device"),
                    "revocation_endpoint": format!("{origin}/revoke"),
                    "code_challenge_methods_supported": ["S256"],
                    "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
                    "authorization_response_iss_parameter_supported": true,
                }),
                &self.metadata,
            )),
            "/register" => {
                self.clients += 1;
                let client = format!("client-{}", self.clients);
                Some(answer(
                    201,
                    &json!({"client_id": client, "redirect_uris": request.body["redirect_uris"]}),
                ))
            }
            "/device" => {
                let code = self.new_secret("device");
                let scope = form(&request.text()).remove("scope").unwrap_or_default();
                self.codes.insert(code.clone(), json!({"scope": scope}));
                Some(answer(
                    200,
                    &json!({
                        "device_code": code,
                        "user_code": "ABCD-EFGH",
                        "verification_uri": format!("{origin}/enter"),
                        "expires_in": 60,
                        "interval": 1,
                    }),
                ))
            }
            "/revoke" => {
                let token = form(&request.text()).remove("token").unwrap_or_default();
                self.refresh.remove(&token);
                Some(response(200, &[], ""))
            }
            "/token" => Some(self.token(request, life)),
            _ => Some(response(404, &[], "")),
        }
    }

    /// Where the server's metadata is.
    fn place(&self) -> &str {
        let usual = "/.well-known/oauth-protected-resource/mcp";
        self.place.as_deref().unwrap_or(usual)
    }

    /// Whether a request to the MCP server comes in.
    fn admit(&mut self, request: &Request, origin: &str) -> Option<Reply> {
        let bearer = request
            .header("authorization")
            .and_then(|it| it.strip_prefix("Bearer "));
        let metadata = format!("resource_metadata=\"{origin}{}\"", self.place());
        let Some((until, scope)) = bearer.and_then(|token| self.access.get(token)) else {
            let challenge = format!("Bearer {metadata}");
            let all = self.challenges.iter().chain([&challenge]);
            let all: Vec<(&str, &str)> = all.map(|it| ("www-authenticate", it.as_str())).collect();
            return Some(response(401, &all, ""));
        };
        if *until <= Instant::now() {
            let challenge = format!("Bearer error=\"invalid_token\", {metadata}");
            return Some(response(401, &[("www-authenticate", &challenge)], ""));
        }
        let wanted = self.scope.clone().filter(|_| request.tool() == "write");
        match wanted {
            Some(wanted) if !scope.split(' ').any(|it| it == wanted) => {
                let challenge =
                    format!("Bearer error=\"insufficient_scope\", scope=\"{wanted}\", {metadata}");
                Some(response(403, &[("www-authenticate", &challenge)], ""))
            }
            _ if is_modern(request) => {
                let result = json!({"resultType": "complete", "content": []});
                let id = &request.body["id"];
                Some(answer(
                    200,
                    &json!({"jsonrpc": "2.0", "id": id, "result": result}),
                ))
            }
            _ => None,
        }
    }

    fn token(&mut self, request: &Request, life: Duration) -> Reply {
        let form = form(&request.text());
        let field = |name: &str| form.get(name).cloned().unwrap_or_default();
        if field("resource").is_empty() {
            self.wrong.push("a token request without a resource".into());
        }
        match field("grant_type").as_str() {
            "authorization_code" => {
                let Some(grant) = self.codes.remove(&field("code")) else {
                    return refusal("invalid_grant");
                };
                let hash = digest::digest(&digest::SHA256, field("code_verifier").as_bytes());
                let right = grant["challenge"] == encode(hash.as_ref())
                    && grant["redirect"] == field("redirect_uri")
                    && grant["client"] == field("client_id");
                if !right {
                    self.wrong.push(format!("a wrong exchange: {form:?}"));
                    return refusal("invalid_grant");
                }
                self.logins += 1;
                self.grant(&grant, life)
            }
            "refresh_token" => self.exchange(&field("refresh_token"), life),
            "client_credentials" => {
                let header = request
                    .header("authorization")
                    .unwrap_or_default()
                    .to_owned();
                // `robot:s3cret-robot`
                if header != "Basic cm9ib3Q6czNjcmV0LXJvYm90" {
                    return refusal("invalid_client");
                }
                self.logins += 1;
                let mut reply = self.access_token(&json!({"scope": field("scope")}), life);
                reply["refresh_token"].take();
                answer(200, &reply)
            }
            "urn:ietf:params:oauth:grant-type:device_code" => {
                let code = field("device_code");
                let Some(mut grant) = self.codes.remove(&code) else {
                    return refusal("expired_token");
                };
                if grant["polled"].is_null() {
                    grant["polled"] = json!(true);
                    self.codes.insert(code, grant);
                    return refusal("authorization_pending");
                }
                self.logins += 1;
                self.grant(&grant, life)
            }
            _ => refusal("unsupported_grant_type"),
        }
    }

    fn exchange(&mut self, token: &str, life: Duration) -> Reply {
        self.refreshes += 1;
        let fault = self.faults.pop_front();
        match fault {
            Some(Fault::Status(status)) => return response(status, &[], ""),
            Some(Fault::Reset) => return vec![Act::Reset],
            Some(Fault::HangBefore) => {
                self.hanging += 1;
                return vec![Act::Hang];
            }
            Some(Fault::HangAfter) => {
                if let Some(grant) = self.refresh.remove(token) {
                    self.grant(&grant, life);
                }
                self.hanging += 1;
                return vec![Act::Hang];
            }
            Some(Fault::Slow(_)) | None => {}
        }
        if self.spent.iter().any(|it| it == token) {
            // Somebody has stolen it: all of its family is withdrawn.
            self.reused += 1;
            self.refresh.clear();
            self.access.clear();
            return refusal("invalid_grant");
        }
        if let Some(grant) = self.refresh.get(token).filter(|_| self.lasting).cloned() {
            let mut reply = self.access_token(&grant, life);
            reply["refresh_token"].take();
            return answer(200, &reply);
        }
        match self.refresh.remove(token) {
            Some(grant) => {
                self.spent.push(token.to_owned());
                let mut reply = self.grant(&grant, life);
                if let Some(Fault::Slow(pause)) = fault {
                    reply.insert(0, Act::Wait(pause));
                }
                reply
            }
            None => refusal("invalid_grant"),
        }
    }

    fn grant(&mut self, grant: &Value, life: Duration) -> Reply {
        let reply = self.access_token(grant, life);
        answer(200, &reply)
    }

    fn access_token(&mut self, grant: &Value, life: Duration) -> Value {
        let (access, refresh) = (self.new_secret("access"), self.new_secret("refresh"));
        let scope = grant["scope"].as_str().unwrap_or_default().to_owned();
        self.access
            .insert(access.clone(), (Instant::now() + life, scope));
        self.refresh.insert(refresh.clone(), grant.clone());
        let expires_in = match &self.expires_in {
            Value::Null => json!(life.as_secs()),
            other => other.clone(),
        };
        json!({
            "access_token": access,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "expires_in": expires_in,
        })
    }
}

/// Whether a request is one of 2026-07-28, which needs no session.
fn is_modern(request: &Request) -> bool {
    request.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
}

fn answer(status: u16, body: &Value) -> Reply {
    response(
        status,
        &[("content-type", "application/json")],
        &body.to_string(),
    )
}

fn refusal(error: &str) -> Reply {
    answer(400, &json!({ "error": error }))
}

fn document(mut usual: Value, otherwise: &Value) -> Reply {
    for (name, value) in otherwise.as_object().into_iter().flatten() {
        usual[name] = value.clone();
    }
    answer(200, &usual)
}

/// The fields of a form, or of a query.
pub fn form(text: &str) -> HashMap<String, String> {
    let decoded = |text: &str| {
        let (mut bytes, mut rest) = (Vec::new(), text.bytes());
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                    let digits = String::from_utf8_lossy(&digits).into_owned();
                    u8::from_str_radix(&digits, 16).unwrap_or(b'?')
                }
                other => other,
            });
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}
