//! Asks an identity provider what the rules want to know.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use outlive_core::Time;
use outlive_core::verifier::{
    Claims, Edition, Expected, Input, Introspection, Jwk, Moment, Output, Question, Refusal,
    Ticket, TokenId, Verdict, Verifier, VerifierPolicy,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, oneshot};
use tokio::task::AbortHandle;
use tokio::time::sleep_until;

use super::IdentityProvider;
use super::signature::PublicKey;
use super::token::{Shown, Signed};
use crate::http_client::{is_local, tls_config};
use crate::http_server::{
    Resource, Tell, TokenVerifier, Unverified, User, Users, Verifying, WELL_KNOWN,
};
use crate::oauth::discovery::{self, Issuer};
use crate::oauth::fetch::Fetcher;
use crate::oauth::reach::Guard;
use crate::oauth::wall;

/// What an introspection endpoint says of a token is no longer than this.
const LONGEST_ANSWER: usize = 64 << 10;

/// An identity provider.
pub(super) struct Provider(Arc<Inner>);

struct Inner {
    settings: IdentityProvider,
    policy: VerifierPolicy,
    state: Mutex<State>,
    begun: Instant,
    tickets: AtomicU64,
    users: Users,
    fetcher: OnceCell<Fetcher>,
    /// What the provider said of itself last.
    issuer: Mutex<Option<Arc<Issuer>>>,
    /// What is before the paths of endpoints in the addresses that clients know, and the path of the first one.
    base: OnceLock<(String, String)>,
    tell: OnceLock<Tell>,
    /// It was told that the provider does not answer.
    told_down: AtomicBool,
}

struct State {
    verifier: Verifier,
    /// The newest keys; where one cannot be used, there is none.
    keys: Arc<Vec<Option<PublicKey>>>,
    waiting: HashMap<Ticket, oneshot::Sender<Answer>>,
    /// The opaque tokens that the provider is asked about, or is to be.
    tokens: HashMap<TokenId, Arc<str>>,
    /// When the rules want to be called again, and who does that then.
    timer: Option<(Time, AbortHandle)>,
}

/// What is known about a token.
enum Answer {
    /// One of these keys must have signed it.
    Try(Edition, Vec<usize>, Arc<Vec<Option<PublicKey>>>),
    Active(Arc<Claims>),
    Not(Unverified),
}

impl Answer {
    fn of(verdict: Verdict, keys: &Arc<Vec<Option<PublicKey>>>) -> Answer {
        match verdict {
            Verdict::Try(edition, places) => Answer::Try(edition, places, keys.clone()),
            Verdict::Active(claims) => Answer::Active(claims),
            Verdict::Refused(why) => Answer::Not(Unverified::Refused(why)),
            Verdict::Unavailable(after) => Answer::Not(Unverified::Unavailable(after)),
        }
    }
}

/// What is asked about a signed token.
fn question(signed: &Signed, tried: Option<Edition>) -> Question {
    Question::Key {
        algorithm: signed.head.algorithm,
        kid: signed.head.kid.clone(),
        tried,
    }
}

impl Provider {
    pub(super) fn new(settings: IdentityProvider) -> Provider {
        let policy = VerifierPolicy::default();
        Provider(Arc::new(Inner {
            settings,
            policy,
            state: Mutex::new(State {
                verifier: Verifier::new(policy),
                keys: Arc::default(),
                waiting: HashMap::new(),
                tokens: HashMap::new(),
                timer: None,
            }),
            begun: Instant::now(),
            tickets: AtomicU64::new(0),
            users: Users::default(),
            fetcher: OnceCell::new(),
            issuer: Mutex::default(),
            base: OnceLock::new(),
            tell: OnceLock::new(),
            told_down: AtomicBool::new(false),
        }))
    }
}

impl TokenVerifier for Provider {
    fn start(&self, path: &str, tell: Tell) {
        let audience = self.0.settings.audiences[0].trim_end_matches('/');
        // If clients know us under a path that is not ours, what they know is all of this.
        let base = audience.strip_suffix(path).unwrap_or_default();
        let _ = self.0.base.set((base.to_owned(), path.to_owned()));
        let _ = self.0.tell.set(tell);
        self.0.turn(Input::Start, None);
    }

    fn verify(&self, shown: &str, path: &str) -> Verifying {
        let inner = &self.0;
        let refused = |why| Verifying::Known(Err(Unverified::Refused(why)));
        let measure = inner.measure(path);
        match Shown::read(shown) {
            Err(why) => refused(why),
            Ok(Shown::Signed(signed)) => {
                // What the token says of itself is only used to refuse it, until its signature was checked.
                if !signed.head.is_access_token && signed.claims.is_id_token() {
                    return refused(Refusal::NoAccessToken);
                }
                match measure.check(|expected| signed.claims.check(expected, wall())) {
                    Err(why) => refused(why),
                    Ok(()) => inner.check_signature(signed),
                }
            }
            Ok(Shown::Opaque(_)) if inner.settings.introspection.is_none() => {
                refused(Refusal::Opaque)
            }
            Ok(Shown::Opaque(token)) => match inner.ask(Question::Opaque(token), Some(shown)) {
                Asked::Answered(answer) => Verifying::Known(inner.admit_opaque(answer, &measure)),
                Asked::Waits(wait) => {
                    let inner = inner.clone();
                    Verifying::Asked(Box::pin(async move {
                        let answer = wait.answer().await;
                        inner.admit_opaque(answer, &measure)
                    }))
                }
            },
        }
    }

    fn resource(&self, path: &str) -> Resource {
        let name = self.0.resource(path);
        let metadata = match Url::parse(&name) {
            Ok(url) => {
                let origin = url.origin().ascii_serialization();
                format!("{origin}{WELL_KNOWN}{}", url.path().trim_end_matches('/'))
            }
            Err(_) => String::new(),
        };
        Resource { name, metadata }
    }

    fn metadata(&self, path: &str) -> Value {
        let settings = &self.0.settings;
        let mut metadata = json!({
            "resource": self.resource(path).name,
            "authorization_servers": [&*settings.issuer_name],
            "bearer_methods_supported": ["header"],
        });
        let scopes = settings.grants.scopes();
        if !scopes.is_empty() {
            metadata["scopes_supported"] = json!(scopes);
        }
        metadata
    }

    fn scopes(&self) -> &[Box<str>] {
        &self.0.settings.grants.required
    }

    fn views(&self) -> Vec<Box<str>> {
        self.0.settings.grants.views().map(Into::into).collect()
    }

    fn host(&self) -> Option<&str> {
        self.0.settings.audience.host_str()
    }
}

/// What a token is measured by.
struct Measure {
    issuer: Arc<str>,
    audiences: Vec<String>,
    leeway: Duration,
}

impl Measure {
    fn check(
        &self,
        check: impl FnOnce(&Expected<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let audiences: Vec<&str> = self.audiences.iter().map(String::as_str).collect();
        check(&Expected {
            issuer: &self.issuer,
            audiences: &audiences,
            leeway: self.leeway,
        })
    }
}

/// What comes of a question.
enum Asked {
    Answered(Answer),
    Waits(Wait),
}

/// Somebody who waits for an answer. Dropped, they do not any more.
struct Wait {
    inner: Arc<Inner>,
    ticket: Ticket,
    answer: oneshot::Receiver<Answer>,
}

impl Wait {
    async fn answer(mut self) -> Answer {
        let patience = self.inner.policy.patience;
        let answer = (&mut self.answer).await;
        answer.unwrap_or(Answer::Not(Unverified::Unavailable(patience)))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.inner.turn(Input::Forget(self.ticket), None);
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Moment {
        Moment {
            time: Time::after(self.begun.elapsed()),
            wall: wall(),
        }
    }

    fn tell(&self, sentence: &str) {
        if let Some(tell) = self.tell.get() {
            tell(sentence);
        }
    }

    /// What a token is measured by that is shown at this path. One for one endpoint is not good at another, unless it
    /// names an audience that all of them have.
    fn measure(&self, path: &str) -> Measure {
        let mut audiences = self.settings.audiences.clone();
        let here = self.resource(path);
        if !audiences.contains(&here) {
            audiences.push(here);
        }
        Measure {
            issuer: self.settings.issuer_name.clone(),
            audiences,
            leeway: self.policy.leeway,
        }
    }

    /// The resource at a path, as clients know it.
    fn resource(&self, path: &str) -> String {
        let audience = &self.settings.audiences[0];
        match self.base.get() {
            Some((base, first)) if !base.is_empty() => match path {
                _ if path == first || path == "/" => audience.clone(),
                "/messages" => format!("{base}/sse"),
                _ => format!("{base}{path}"),
            },
            _ => audience.clone(),
        }
    }

    /// Whether a signed token is signed by whom it says.
    fn check_signature(self: &Arc<Inner>, signed: Signed) -> Verifying {
        let answer = match self.ask(question(&signed, None), None) {
            Asked::Answered(answer) => answer,
            Asked::Waits(wait) => {
                let inner = self.clone();
                return Verifying::Asked(Box::pin(async move {
                    let answer = wait.answer().await;
                    inner.check_further(signed, answer).await
                }));
            }
        };
        match self.try_keys(&signed, &answer) {
            Some(tried) => Verifying::Known(tried.and_then(|()| self.admit(signed.claims.into()))),
            None => {
                let inner = self.clone();
                Verifying::Asked(Box::pin(inner.check_further(signed, answer)))
            }
        }
    }

    /// Tries keys until one has signed the token, or there are no others. Keys are asked for no more than a few times:
    /// a set that was tried is not handed out again.
    async fn check_further(
        self: Arc<Inner>,
        signed: Signed,
        mut answer: Answer,
    ) -> Result<User, Unverified> {
        for _ in 0..3 {
            if let Some(tried) = self.try_keys(&signed, &answer) {
                return tried.and_then(|()| self.admit(signed.claims.into()));
            }
            let Answer::Try(edition, ..) = answer else {
                break;
            };
            answer = match self.ask(question(&signed, Some(edition)), None) {
                Asked::Answered(answer) => answer,
                Asked::Waits(wait) => wait.answer().await,
            };
        }
        Err(Unverified::Refused(Refusal::Signature))
    }

    /// Whether one of these keys has signed a token; none if others may have.
    fn try_keys(&self, signed: &Signed, answer: &Answer) -> Option<Result<(), Unverified>> {
        let Signed {
            head,
            message,
            signature,
            ..
        } = signed;
        match answer {
            Answer::Try(_, places, keys) => {
                let mut keys = places.iter().filter_map(|at| keys.get(*at)?.as_ref());
                let message = message.as_bytes();
                match keys.any(|key| key.verifies(head.algorithm, message, signature)) {
                    true => Some(Ok(())),
                    // Another may have, also under the same name: the provider has the word.
                    false => None,
                }
            }
            Answer::Active(_) => Some(Err(Unverified::Refused(Refusal::Malformed))),
            Answer::Not(Unverified::Unavailable(after)) => {
                Some(Err(Unverified::Unavailable(*after)))
            }
            Answer::Not(Unverified::Refused(why)) => Some(Err(Unverified::Refused(*why))),
            Answer::Not(Unverified::Insufficient(_)) => None,
        }
    }

    /// Lets somebody in of whom their provider says that.
    fn admit_opaque(&self, answer: Answer, measure: &Measure) -> Result<User, Unverified> {
        match answer {
            Answer::Active(claims) => {
                let check = |expected: &Expected<'_>| claims.check_introspected(expected, wall());
                measure.check(check).map_err(Unverified::Refused)?;
                self.admit(claims)
            }
            Answer::Not(why) => Err(why),
            Answer::Try(..) => Err(Unverified::Refused(Refusal::Malformed)),
        }
    }

    /// Lets somebody in whose token is good.
    fn admit(&self, claims: Arc<Claims>) -> Result<User, Unverified> {
        let grants = &self.settings.grants;
        let access = grants.decide(&claims).map_err(Unverified::Insufficient)?;
        let issuer = &self.settings.issuer_name;
        let known = self.users.person(issuer, &claims);
        let (person, is_new) = known.ok_or(Unverified::Refused(Refusal::NoSubject))?;
        let user = User::new(person, issuer.clone(), claims, access);
        if is_new {
            let (name, principal) = (user.name(), user.person.principal);
            let view = match &user.access().view {
                Some(view) => format!("the view {view:?}"),
                None => "everything".into(),
            };
            self.tell(&format!(
                "{name} was let in as {principal} and sees {view} (subject {:?} of {issuer})",
                user.subject()
            ));
        }
        Ok(user)
    }

    fn ask(self: &Arc<Inner>, question: Question, shown: Option<&str>) -> Asked {
        let ticket = Ticket(self.tickets.fetch_add(1, Ordering::Relaxed));
        let token = match question {
            Question::Opaque(token) => shown.map(|shown| (token, shown)),
            Question::Key { .. } => None,
        };
        let (answer, waits) = oneshot::channel();
        self.lock().waiting.insert(ticket, answer);
        self.turn(Input::Ask(ticket, question), token);
        let mut wait = Wait {
            inner: self.clone(),
            ticket,
            answer: waits,
        };
        match wait.answer.try_recv() {
            Ok(answer) => Asked::Answered(answer),
            Err(_) => Asked::Waits(wait),
        }
    }

    /// Tells the rules what has happened, and does what they say.
    fn turn(self: &Arc<Inner>, input: Input, token: Option<(TokenId, &str)>) {
        let mut state = self.lock();
        if let Input::Forget(ticket) = &input
            && state.waiting.remove(ticket).is_none()
        {
            // It was answered.
            return;
        }
        // Together: the rules hand out places in the newest set.
        if let Input::Fetched(Some(keys)) = &input {
            state.keys = Arc::new(keys.iter().map(PublicKey::of).collect());
        }
        if let Some((id, token)) = token {
            state.tokens.entry(id).or_insert_with(|| token.into());
        }
        state.verifier.handle(input, self.now());
        let mut begun = Vec::new();
        while let Some(output) = state.verifier.poll() {
            match output {
                Output::Answer(ticket, verdict) => {
                    if let Some(waiting) = state.waiting.remove(&ticket) {
                        let _ = waiting.send(Answer::of(verdict, &state.keys));
                    }
                }
                Output::Fetch => begun.push(Begun::Fetch),
                Output::Introspect(id) => {
                    let token = state.tokens.get(&id).cloned();
                    begun.push(Begun::Introspect(id, token.unwrap_or_default()));
                }
            }
        }
        let State {
            verifier, tokens, ..
        } = &mut *state;
        tokens.retain(|id, _| verifier.is_asking(id));
        self.set_timer(&mut state);
        drop(state);
        for begun in begun {
            let inner = self.clone();
            tokio::spawn(async move {
                match begun {
                    Begun::Fetch => inner.fetch().await,
                    Begun::Introspect(id, token) => inner.introspect(id, &token).await,
                }
            });
        }
    }

    /// Has the rules called when they want to be.
    fn set_timer(self: &Arc<Inner>, state: &mut State) {
        let deadline = state.verifier.deadline();
        if deadline == state.timer.as_ref().map(|(at, _)| *at) {
            return;
        }
        if let Some((_, timer)) = state.timer.take() {
            timer.abort();
        }
        // Whoever does not wait any more may say so when the runtime is gone.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        state.timer = deadline.map(|at| {
            let inner = self.clone();
            let timer = runtime.spawn(async move {
                sleep_until((inner.begun + at.since_start()).into()).await;
                // It is not the one that the next turn stops.
                inner.lock().timer.take_if(|(of, _)| *of == at);
                inner.turn(Input::Tick, None);
            });
            (at, timer.abort_handle())
        });
    }

    async fn fetch(self: Arc<Inner>) {
        let read = self.read_keys().await;
        self.tell_standing(&read, "the keys of");
        self.turn(Input::Fetched(read.ok()), None);
    }

    async fn read_keys(&self) -> Result<Vec<Jwk>, String> {
        let fetcher = self.fetcher().await?;
        let issuer = self.discover(fetcher).await?;
        let place = issuer.needed("jwks_uri")?;
        let set = fetcher.document(place).await?;
        let keys = set.map(|set| Jwk::read_set(&set)).unwrap_or_default();
        match keys.is_empty() {
            true => Err("it publishes no key that signatures can be checked with".into()),
            false => Ok(keys),
        }
    }

    async fn fetcher(&self) -> Result<&Fetcher, String> {
        let settings = &self.settings;
        let make = || async {
            let guard = Guard::of(&settings.issuer, settings.allow_private).await;
            let tls = tls_config(true, settings.ca_file.as_deref())?;
            Fetcher::new(tls, guard, is_local(&settings.issuer))
        };
        self.fetcher.get_or_try_init(make).await
    }

    /// What the provider says of itself; what it said last if it does not say anything now.
    async fn discover(&self, fetcher: &Fetcher) -> Result<Arc<Issuer>, String> {
        let settings = &self.settings;
        let resource = discovery::Resource {
            name: String::new(),
            issuer: Some(settings.issuer_name.to_string()),
            scopes: Vec::new(),
        };
        let found = Issuer::find(fetcher, &settings.issuer, &resource).await;
        let mut known = self.issuer.lock().unwrap_or_else(PoisonError::into_inner);
        match (found, &*known) {
            (Ok(found), _) => {
                let found = Arc::new(found);
                *known = Some(found.clone());
                Ok(found)
            }
            (Err(_), Some(known)) => Ok(known.clone()),
            (Err(why), None) => Err(why),
        }
    }

    async fn introspect(self: Arc<Inner>, id: TokenId, token: &str) {
        let asked = self.ask_about(token).await;
        self.tell_standing(&asked, "opaque tokens of");
        self.turn(Input::Introspected(id, asked.ok()), None);
    }

    async fn ask_about(&self, token: &str) -> Result<Introspection, String> {
        let fetcher = self.fetcher().await?;
        let known = self
            .issuer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let issuer = match known {
            Some(issuer) => issuer,
            None => self.discover(fetcher).await?,
        };
        let place = issuer.needed("introspection_endpoint")?;
        let (id, secret) = self
            .settings
            .introspection
            .as_ref()
            .ok_or("nobody is asked")?;
        let mut headers = HeaderMap::new();
        // RFC 6749, 2.3.1.
        let coded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let pair = BASE64_STANDARD.encode(format!("{}:{}", coded(id), coded(secret)));
        let mut basic =
            HeaderValue::from_str(&format!("Basic {pair}")).map_err(|it| it.to_string())?;
        basic.set_sensitive(true);
        headers.insert(AUTHORIZATION, basic);
        let form = [("token", token), ("token_type_hint", "access_token")];
        let asked = fetcher.form(place, headers, &form).await;
        let (status, said) = asked.map_err(|failure| failure.why)?;
        let Value::Object(said) = said else {
            return Err(format!(
                "the introspection endpoint answers with status {status}"
            ));
        };
        match (status, said.get("active").and_then(Value::as_bool)) {
            (200, Some(true)) if Value::Object(said.clone()).to_string().len() > LONGEST_ANSWER => {
                Err("the introspection endpoint says too much about a token".into())
            }
            (200, Some(true)) => match Claims::of(said) {
                Ok(claims) => Ok(Introspection::Active(Arc::new(claims))),
                Err(_) => Err("the introspection endpoint says what cannot be understood".into()),
            },
            (200, Some(false)) => Ok(Introspection::Inactive),
            (401 | 403, _) => Err(format!(
                "the introspection endpoint refuses the client {id:?} and its secret (status {status})"
            )),
            _ => Err(format!(
                "the introspection endpoint answers with status {status}"
            )),
        }
    }

    /// Tells when the provider does not answer, and when it does again; each once.
    fn tell_standing<T>(&self, result: &Result<T, String>, what: &str) {
        let issuer = &self.settings.issuer_name;
        match result {
            Err(why) if !self.told_down.swap(true, Ordering::AcqRel) => self.tell(&format!(
                "the identity provider does not answer: {what} {issuer} cannot be checked ({why}). Clients whose tokens \
                 can be checked without it are let in; others are told to come again (503)"
            )),
            Ok(_) if self.told_down.swap(false, Ordering::AcqRel) => {
                self.tell(&format!("the identity provider {issuer} answers again"));
            }
            _ => {}
        }
    }
}

/// What was begun.
enum Begun {
    Fetch,
    Introspect(TokenId, Arc<str>),
}
