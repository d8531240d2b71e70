//! Drives the rules of a login: reads and writes the store, waits for its lock, asks authorization servers and people.
//!
//! One task does all of it, and begins when somebody first wants a token. Whatever takes time (the lock, a refresh, a
//! login) is a task of its own, and tells the first one how it ended.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlive_core::Time;
use outlive_core::login::{
    Grant, GrantId, Input, Login, LoginPolicy, LoginStatus, Moment, NoToken, Output, Refreshed,
    Ticket, Want,
};
use reqwest::Url;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, spawn};
use tokio::time::{sleep_until, timeout};

use super::challenge::Bearer;
use super::discovery::{Issuer, Resource, canonical};
use super::fetch::Fetcher;
use super::flow::{Flow, NOT_OFFERED};
use super::reach::Guard;
use super::store::{Kept, KeptGrant, Place};
use super::token::{NoTokens, Tokens, ask};
use super::{Notice, OAuthOptions, Way, random_number, wall};
use crate::http_client::{Challenge, is_local, tls_config};

/// An authorization server that is told of a logout is not waited for longer.
const FAREWELL: Duration = Duration::from_secs(5);

type Tell = Arc<dyn Fn(Notice) + Send + Sync>;

/// The login of this process at one server.
pub(super) struct Keeper {
    server: Url,
    options: OAuthOptions,
    tell: Tell,
    place: Option<Place>,
    state: Mutex<State>,
    status: watch::Sender<LoginStatus>,
}

#[derive(Default)]
struct State {
    /// The login as it was last read or written; what is used.
    kept: Option<Kept>,
    /// The store was read once.
    read: bool,
    /// The last grant whose token a server has accepted.
    accepted: Option<GrantId>,
    /// Where the last challenge said that the server's metadata is.
    metadata: Option<String>,
    /// The link that somebody has to open.
    link: Option<String>,
    /// What went wrong last, in the words of whoever noticed.
    problem: Option<String>,
    obstacle: Option<String>,
    pasted: Option<mpsc::UnboundedSender<String>>,
}

/// The way to the task that drives the rules, once it has begun. It ends when nobody has this any more.
pub(super) type Commands = Mutex<Option<mpsc::UnboundedSender<Command>>>;

pub(super) enum Command {
    Want(Want, oneshot::Sender<Result<GrantId, NoToken>>),
    Accepted(GrantId),
    Decline,
}

/// How something ended that took time.
enum Event {
    Locked(u64, io::Result<File>),
    Refreshed(Result<Tokens, NoTokens>),
    LoggedIn(Result<Box<Kept>, String>),
}

impl State {
    /// Which grant is in use.
    fn grant_id(&self) -> Option<GrantId> {
        let grant = self.kept.as_ref()?.grant.as_ref()?;
        Some(GrantId(grant.id))
    }
}

impl Keeper {
    pub(super) fn new(server: Url, options: OAuthOptions, tell: Tell) -> Keeper {
        Keeper {
            place: options.store.place(&server),
            server,
            options,
            tell,
            state: Mutex::default(),
            status: watch::Sender::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be sent now. The store is read the first time, so that a login that is kept costs no refusal.
    pub(super) fn current(&self) -> Option<String> {
        let mut state = self.state();
        if !std::mem::replace(&mut state.read, true) {
            state.kept = self.place.as_ref().and_then(Place::load);
        }
        let grant = state.kept.as_ref()?.grant.as_ref()?;
        Some(format!("Bearer {}", grant.access_token))
    }

    pub(super) fn obstacle(&self) -> Option<String> {
        self.state().obstacle.clone()
    }

    /// Whether somebody has to log in, for a host that is told.
    pub(super) fn login(&self) -> Option<watch::Receiver<LoginStatus>> {
        self.options.tell_host.then(|| self.status.subscribe())
    }

    pub(super) fn accepted(&self) {
        let mut state = self.state();
        state.accepted = state.grant_id();
    }

    pub(super) fn paste(&self, address: &str) {
        if let Some(pasted) = &self.state().pasted {
            let _ = pasted.send(address.to_owned());
        }
    }

    /// Obtains a token, since the server refused the one there is.
    pub(super) async fn obtain(
        self: Arc<Self>,
        commands: &Commands,
        challenge: Challenge,
    ) -> Option<String> {
        let bearer = Bearer::read(challenge.authenticate.as_deref().unwrap_or_default());
        let step_up = bearer.error.as_deref() == Some("insufficient_scope");
        if challenge.status != 401 && !step_up {
            self.state().obstacle = None;
            return None;
        }
        let (want, accepted) = {
            let mut state = self.state();
            state.obstacle = None;
            if bearer.resource_metadata.is_some() {
                state.metadata = bearer.resource_metadata;
            }
            let want = Want {
                refused: state.grant_id(),
                scopes: bearer.scopes,
                step_up,
                patience: match state.accepted.is_some() || self.options.way == Way::Never {
                    true => self.options.wait,
                    false => self.options.login_timeout.max(self.options.wait),
                },
            };
            (want, state.accepted)
        };
        let (answer, answered) = oneshot::channel();
        {
            let mut commands = commands.lock().unwrap_or_else(PoisonError::into_inner);
            let commands = commands.get_or_insert_with(|| {
                let (sender, commands) = mpsc::unbounded_channel();
                spawn(Driver::new(self.clone()).run(commands));
                sender
            });
            let _ = accepted.map(|id| commands.send(Command::Accepted(id)));
            let _ = commands.send(Command::Want(want, answer));
        }
        match answered.await.unwrap_or(Err(NoToken::Unavailable)) {
            Ok(_) => self.current(),
            Err(why) => {
                let words = self.words(why);
                self.state().obstacle = words;
                None
            }
        }
    }

    /// Why there is no token, and what to do about it; none if it is the server's own affair.
    fn words(&self, why: NoToken) -> Option<String> {
        let state = self.state();
        let known = state.metadata.is_some() || state.kept.is_some();
        if state.problem.as_deref() == Some(NOT_OFFERED) || self.options.way == Way::Never && !known
        {
            return None;
        }
        let server = canonical(&self.server);
        let problem = match &state.problem {
            Some(problem) => format!(" ({problem})"),
            None => String::new(),
        };
        Some(match (why, &state.link) {
            (NoToken::LoginPending, Some(link)) => {
                format!("it wants a login, which is not finished yet: open {link} in a browser, then call again")
            }
            (NoToken::LoginPending, None) => "it wants a login, which is not finished yet; call again later".into(),
            (NoToken::OtherProcess, _) => {
                "it wants a login, and another process of outlive is asking for it: finish it there, then call again"
                    .into()
            }
            (NoToken::Unavailable, _) => format!(
                "its authorization server gave no new token{problem}; nobody has to log in, call again later"
            ),
            (NoToken::LoginFailed, _) if self.options.way == Way::Never => {
                format!("it wants a login: run `outlive login {server}`, then call again")
            }
            (NoToken::LoginFailed, _) => {
                format!("it wants a login, and the last one did not succeed{problem}: run `outlive login {server}`")
            }
            (NoToken::Declined, _) => {
                format!("it wants a login, which was declined: run `outlive login {server}`, then call again")
            }
            (NoToken::StillRefused, _) => {
                "it refuses the token that a login has just brought, so another login would not help".into()
            }
            (NoToken::ScopeRefused, _) => {
                "it wants more rights than its authorization server has granted; a person with these rights can log \
                 in"
                    .into()
            }
        })
    }

    async fn fetcher(&self) -> Result<Fetcher, String> {
        let guard = Guard::of(&self.server, self.options.allow_private).await;
        let tls = tls_config(true, self.options.ca_file.as_deref())?;
        Fetcher::new(tls, guard, is_local(&self.server))
    }

    /// Asks a person, for these scopes at least. `before`: the login before this one.
    async fn ask(&self, scopes: Vec<String>, before: Option<Kept>) -> Result<Kept, String> {
        if self.options.way == Way::Never {
            return Err("nobody is asked".into());
        }
        let fetcher = self.fetcher().await?;
        let (sender, pasted) = mpsc::unbounded_channel();
        let metadata = {
            let mut state = self.state();
            state.pasted = Some(sender);
            state.metadata.clone()
        };
        let tell = |notice: Notice| {
            if let Notice::Open { link, code } = &notice {
                self.state().link = Some(link.clone());
                self.status.send_replace(LoginStatus::Wanted {
                    number: random_number(),
                    link: link.clone(),
                    code: code.clone(),
                });
            }
            (self.tell)(notice);
        };
        let flow = Flow {
            fetcher: &fetcher,
            server: &self.server,
            options: &self.options,
            metadata,
            before,
            tell: &tell,
            pasted,
        };
        flow.run(scopes).await
    }

    /// The login is over: nobody needs its link any more.
    fn asked(&self, problem: Option<String>) {
        {
            let mut state = self.state();
            state.link = None;
            state.pasted = None;
            state.problem = problem.clone();
        }
        self.status.send_replace(match problem {
            None => LoginStatus::Granted,
            Some(_) => LoginStatus::Failed,
        });
        match problem {
            None => (self.tell)(Notice::LoggedIn),
            Some(why) if self.options.way == Way::Never || why == NOT_OFFERED => {}
            Some(why) => (self.tell)(Notice::Failed(why)),
        }
    }

    pub(super) async fn log_in(&self) -> Result<(), String> {
        let fetcher = self.fetcher().await?;
        let (status, header) = fetcher.challenge(self.server.clone()).await?;
        let bearer = Bearer::read(&header.unwrap_or_default());
        if (200..300).contains(&status) {
            return Err("the server lets us in without a login".into());
        }
        self.state().metadata = bearer.resource_metadata;
        let _lock = match &self.place {
            Some(place) => Some(place.lock().await.map_err(|error| error.to_string())?),
            None => None,
        };
        let before = self.place.as_ref().and_then(Place::load);
        let asked = timeout(self.options.login_timeout, self.ask(bearer.scopes, before)).await;
        let asked = asked.unwrap_or_else(|_| Err("nobody has logged in in time".into()));
        let kept = match asked {
            Ok(kept) => kept,
            Err(why) => {
                self.asked(Some(why.clone()));
                return Err(why);
            }
        };
        if let Some(place) = &self.place {
            let saved = place.save(&kept);
            saved.map_err(|error| format!("the login cannot be kept: {error}"))?;
        }
        self.state().kept = Some(kept);
        self.asked(None);
        Ok(())
    }

    pub(super) async fn log_out(&self) -> Result<bool, String> {
        let Some(place) = &self.place else {
            return Ok(self.state().kept.take().is_some());
        };
        let _lock = place.lock().await.map_err(|error| error.to_string())?;
        let kept = place.load();
        let there = place.remove().map_err(|error| error.to_string())?;
        if let Some(kept) = kept {
            // It is forgotten here, whatever comes of this.
            let _ = timeout(FAREWELL, self.revoke(kept)).await;
        }
        Ok(there)
    }

    async fn revoke(&self, kept: Kept) -> Option<()> {
        let fetcher = self.fetcher().await.ok()?;
        let resource = Resource {
            name: kept.resource,
            issuer: Some(kept.client.issuer.clone()),
            scopes: Vec::new(),
        };
        let issuer = Issuer::find(&fetcher, &self.server, &resource).await.ok()?;
        let endpoint = issuer.endpoint("revocation_endpoint")?;
        let grant = kept.grant?;
        let mut form = vec![("token", grant.refresh_token.unwrap_or(grant.access_token))];
        let key = self.options.client_key.as_deref();
        let headers = kept.client.sign(key, wall(), &mut form).ok()?;
        let form: Vec<(&str, &str)> = form
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        fetcher.form(endpoint, headers, &form).await.ok().map(drop)
    }
}

/// The task that drives the rules.
struct Driver {
    keeper: Arc<Keeper>,
    login: Login,
    begun: Instant,
    /// The login as it was last read or written.
    kept: Option<Kept>,
    /// A login or a refresh has brought this, and it is not kept yet.
    fresh: Option<Kept>,
    lock: Option<File>,
    /// Counts locks, so that one that comes too late is known.
    locks: u64,
    locking: Option<AbortHandle>,
    asking: Option<AbortHandle>,
    /// Somebody does not want to log in.
    declined: bool,
    /// The authorization server does not know our registration any more.
    unknown_client: bool,
    next_ticket: u64,
    waiting: HashMap<Ticket, oneshot::Sender<Result<GrantId, NoToken>>>,
    events: mpsc::UnboundedSender<Event>,
    happened: mpsc::UnboundedReceiver<Event>,
}

impl Driver {
    fn new(keeper: Arc<Keeper>) -> Driver {
        let policy = LoginPolicy {
            login: keeper.options.login_timeout,
            ..LoginPolicy::default()
        };
        let (events, happened) = mpsc::unbounded_channel();
        Driver {
            keeper,
            login: Login::new(policy, random_number()),
            begun: Instant::now(),
            kept: None,
            fresh: None,
            lock: None,
            locks: 0,
            locking: None,
            asking: None,
            declined: false,
            unknown_client: false,
            next_ticket: 0,
            waiting: HashMap::new(),
            events,
            happened,
        }
    }

    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            let deadline = self
                .login
                .deadline()
                .map(|at| self.begun + at.since_start());
            let tick = async {
                match deadline {
                    Some(at) => sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let input = tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => return,
                },
                Some(event) = self.happened.recv() => self.event(event),
                () = tick => Some(Input::Tick),
            };
            if let Some(input) = input {
                self.feed(input);
            }
        }
    }

    fn command(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::Want(want, answer) => {
                self.next_ticket += 1;
                let ticket = Ticket(self.next_ticket);
                self.waiting.insert(ticket, answer);
                Some(Input::Want(ticket, want))
            }
            Command::Accepted(id) => Some(Input::Accepted(id)),
            Command::Decline => {
                self.declined = self.login.is_asking();
                Some(Input::Declined)
            }
        }
    }

    fn event(&mut self, event: Event) -> Option<Input> {
        match event {
            Event::Locked(number, _) if number != self.locks => None,
            Event::Locked(_, lock) => {
                self.locking = None;
                match lock {
                    Ok(lock) => self.lock = Some(lock),
                    // Better without other processes than not at all.
                    Err(error) => self.warn(format!("logins cannot be locked: {error}")),
                }
                Some(Input::Locked)
            }
            Event::Refreshed(how) => Some(Input::Refreshed(self.refreshed(how))),
            Event::LoggedIn(how) => {
                self.asking = None;
                let grant = match how {
                    Ok(kept) => {
                        self.unknown_client = false;
                        self.keeper.asked(None);
                        let grant = kept.grant.as_ref().map(KeptGrant::grant);
                        self.fresh = Some(*kept);
                        grant
                    }
                    Err(why) => {
                        self.keeper.asked(Some(why));
                        None
                    }
                };
                Some(Input::LoggedIn(grant))
            }
        }
    }

    fn refreshed(&mut self, how: Result<Tokens, NoTokens>) -> Refreshed {
        let (problem, how) = match how {
            Ok(tokens) => {
                let Some(mut kept) = self.kept.clone() else {
                    return Refreshed::Unknown;
                };
                let before = kept.grant.take();
                let scopes = before.iter().flat_map(|it| it.scopes.clone()).collect();
                let grant = tokens.kept(before.as_ref(), scopes);
                let granted = Refreshed::Granted(grant.grant());
                kept.grant = Some(grant);
                self.fresh = Some(kept);
                (None, granted)
            }
            Err(NoTokens::Refused { error, why }) => {
                self.unknown_client |=
                    matches!(error.as_str(), "invalid_client" | "unauthorized_client");
                (
                    Some(NoTokens::Refused { error, why }.words()),
                    Refreshed::Refused,
                )
            }
            Err(NoTokens::Unsent(why)) => (Some(why), Refreshed::Unsent),
            Err(NoTokens::Unknown(why)) => (Some(why), Refreshed::Unknown),
        };
        self.keeper.state().problem = problem;
        how
    }

    fn feed(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let now = Moment {
                time: Time::after(self.begun.elapsed()),
                wall: wall(),
            };
            self.login.handle(now, input);
            while let Some(output) = self.login.poll() {
                inputs.extend(self.carry_out(output));
            }
        }
    }

    /// Does what the rules say; what there is to tell them at once.
    fn carry_out(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Load => {
                if let Some(place) = &self.keeper.place {
                    self.publish(place.load());
                }
                let grant = self.kept.as_ref().and_then(|it| it.grant.as_ref());
                return Some(Input::Loaded(grant.map(KeptGrant::grant)));
            }
            Output::Lock => {
                self.locks += 1;
                let Some(place) = self.keeper.place.clone() else {
                    return Some(Input::Locked);
                };
                let (number, events) = (self.locks, self.events.clone());
                let locking = spawn(async move {
                    let lock = place.lock().await;
                    let _ = events.send(Event::Locked(number, lock));
                });
                self.locking = Some(locking.abort_handle());
            }
            Output::Unlock => {
                self.locks += 1;
                self.lock = None;
                if let Some(locking) = self.locking.take() {
                    locking.abort();
                }
            }
            Output::Save(grant) => {
                self.save(&grant);
                return Some(Input::Saved);
            }
            Output::Refresh(_) => self.refresh(),
            Output::LogIn(scopes) => {
                let (keeper, events) = (self.keeper.clone(), self.events.clone());
                let before = self.kept.clone().filter(|_| !self.unknown_client);
                let asking = spawn(async move {
                    let asked = keeper.ask(scopes, before).await;
                    let _ = events.send(Event::LoggedIn(asked.map(Box::new)));
                });
                self.asking = Some(asking.abort_handle());
            }
            Output::StopLogin => {
                if let Some(asking) = self.asking.take() {
                    asking.abort();
                }
                let why = match std::mem::take(&mut self.declined) {
                    true => "it was declined",
                    false => "nobody has logged in in time",
                };
                self.keeper.asked(Some(why.into()));
            }
            Output::Answer(ticket, how) => {
                if let Some(answer) = self.waiting.remove(&ticket) {
                    // Whoever does not wait any more has dropped the other end.
                    let _ = answer.send(how);
                }
            }
        }
        None
    }

    fn refresh(&mut self) {
        let (keeper, events, kept) = (self.keeper.clone(), self.events.clone(), self.kept.clone());
        spawn(async move {
            let how = match kept {
                Some(kept) => refresh(&keeper, &kept).await,
                None => Err(NoTokens::Unsent("there is nothing to refresh".into())),
            };
            let _ = events.send(Event::Refreshed(how));
        });
    }

    /// Keeps a grant: the fresh one, or the one there is with what has changed.
    fn save(&mut self, grant: &Grant) {
        let is_fresh = |kept: &Kept| kept.grant.as_ref().is_some_and(|it| it.id == grant.id.0);
        let kept = match self.fresh.take() {
            Some(fresh) if is_fresh(&fresh) => Some(fresh),
            _ => self.kept.clone(),
        };
        let Some(mut kept) = kept else { return };
        if let Some(inner) = &mut kept.grant {
            inner.in_doubt = grant.in_doubt;
            if !grant.renewable {
                inner.refresh_token = None;
            }
        }
        if let Some(place) = &self.keeper.place
            && let Err(error) = place.save(&kept)
        {
            self.warn(format!(
                "the login cannot be kept, and ends with this process: {error}"
            ));
        }
        self.publish(Some(kept));
    }

    fn publish(&mut self, kept: Option<Kept>) {
        self.kept.clone_from(&kept);
        self.keeper.state().kept = kept;
    }

    fn warn(&self, words: String) {
        (self.keeper.tell)(Notice::Warning(words));
    }
}

/// Exchanges the refresh token.
async fn refresh(keeper: &Keeper, kept: &Kept) -> Result<Tokens, NoTokens> {
    let token = kept.grant.as_ref().and_then(|it| it.refresh_token.clone());
    let token = token.ok_or_else(|| NoTokens::Unsent("there is no refresh token".into()))?;
    let endpoint = Url::parse(&kept.token_endpoint);
    let endpoint = endpoint.map_err(|error| NoTokens::Unsent(error.to_string()))?;
    let fetcher = keeper.fetcher().await.map_err(NoTokens::Unsent)?;
    let form = vec![
        ("grant_type", "refresh_token".to_owned()),
        ("refresh_token", token),
        ("resource", kept.resource.clone()),
    ];
    let key = keeper.options.client_key.as_deref();
    ask(&fetcher, endpoint, &kept.client, key, form).await
}
