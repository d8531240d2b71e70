//! The login of this process at one server: what is sent, what a person is told, and how one logs in and out. When
//! something is done about it, the rules say, which a task carries out (`driver`).

mod driver;

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive_core::login::{GrantId, LoginStatus, NoToken, Want};
use reqwest::Url;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn;
use tokio::time::timeout;

use super::challenge::Bearer;
use super::discovery::{Issuer, Resource, canonical};
use super::fetch::Fetcher;
use super::flow::{Flow, NOT_OFFERED};
use super::keyring::Trouble;
use super::reach::Guard;
use super::store::{Kept, Place};
use super::{Notice, OAuthOptions, Way, plain, random_number, wall};
use crate::http_client::{Challenge, is_local, tls_config};
use driver::Driver;

/// An authorization server that is told of a logout is not waited for longer.
const FAREWELL: Duration = Duration::from_secs(5);

/// Whoever has the lock for longer does not only read and write.
const SOON: Duration = Duration::from_secs(2);

const OUT_OF_REACH: &str = "the login that is kept cannot be read: it is sealed with a key in the system's keyring, \
                            which --token-store file does not ask; --token-store auto reads it, and a login without \
                            it takes its place";

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
    /// A person was told that the login is out of reach.
    told_out_of_reach: bool,
}

/// The way to the task that drives the rules. That leaves when nobody has this any more, or when it is told to.
#[derive(Default)]
pub(super) struct Commands {
    task: Mutex<Task>,
    /// Whether the task is there.
    runs: watch::Sender<bool>,
}

#[derive(Default)]
enum Task {
    /// Nothing was to be done so far.
    #[default]
    NotBegun,
    Begun(mpsc::UnboundedSender<Command>),
    /// It leaves, or has left: nothing begins any more.
    Left,
}

/// The task is there while this is; also one that ends with its runtime is gone then.
struct Running(watch::Sender<bool>);

impl Running {
    fn begin(runs: &watch::Sender<bool>) -> Running {
        runs.send_replace(true);
        Running(runs.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl Commands {
    fn task(&self) -> MutexGuard<'_, Task> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task leaves.
    pub(super) fn leave(&self) {
        *self.task() = Task::Left;
    }

    /// Whether the task is there, as it changes.
    pub(super) fn runs(&self) -> watch::Receiver<bool> {
        self.runs.subscribe()
    }

    /// Tells the task, if there is one.
    pub(super) fn tell(&self, command: Command) {
        if let Task::Begun(commands) = &*self.task() {
            let _ = commands.send(command);
        }
    }
}

pub(super) enum Command {
    Want(Want, oneshot::Sender<Result<GrantId, NoToken>>),
    Accepted(GrantId),
    Decline,
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
        let place = options.store.place(&server);
        if let Some(place) = place.as_ref().filter(|it| it.is_locked())
            && let Some(vault) = place.vault()
        {
            vault.look_ahead();
        }
        Keeper {
            place,
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
        if !state.read {
            state.kept = self.place.as_ref().and_then(Place::load);
            // The key may be on its way.
            state.read = state.kept.is_some() || !self.place.as_ref().is_some_and(Place::is_locked);
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

    /// A server has accepted the token in use. From now on that is renewed before it expires.
    pub(super) fn accepted(self: &Arc<Self>, commands: &Commands) {
        let accepted = {
            let mut state = self.state();
            state.accepted = state.grant_id();
            state.accepted
        };
        if let Some(id) = accepted.filter(|_| Handle::try_current().is_ok()) {
            self.order(commands, [Command::Accepted(id)]);
        }
    }

    /// Tells the task that drives the rules, which begins with the first order.
    fn order(self: &Arc<Self>, commands: &Commands, all: impl IntoIterator<Item = Command>) {
        let mut task = commands.task();
        if matches!(*task, Task::NotBegun) {
            let (sender, orders) = mpsc::unbounded_channel();
            let runs = Running::begin(&commands.runs);
            let driver = Driver::new(self.clone());
            spawn(async move {
                driver.run(orders).await;
                drop(runs);
            });
            *task = Task::Begun(sender);
        }
        if let Task::Begun(sender) = &*task {
            for command in all {
                // It does not end before we do.
                let _ = sender.send(command);
            }
        }
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
        let accepted = accepted.map(Command::Accepted);
        self.order(
            commands,
            accepted.into_iter().chain([Command::Want(want, answer)]),
        );
        match answered.await.unwrap_or(Err(NoToken::Leaving)) {
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
            (NoToken::Leaving, _) => "it wants another token, and this process is ending".into(),
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
        flow.run(scopes).await.map_err(|why| plain(&why))
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

    /// Has the key ready that a login is sealed with, if it is to be; or why it cannot be kept.
    async fn prepare_key(&self) -> Result<(), String> {
        let Some(place) = &self.place else {
            return Ok(());
        };
        let Some(vault) = place.vault() else {
            return Ok(());
        };
        let trouble = match vault.may_be_filled() {
            true => vault.make().await,
            false => vault.trouble(),
        };
        if trouble.is_some() && vault.is_open() {
            // Whoever can read the login that is kept can read one that is sealed in the same way.
            if place.is_sealed() && !place.is_locked() {
                return Ok(());
            }
            vault.close();
        }
        match trouble {
            None => Ok(()),
            Some(trouble) if !vault.or_plain() => Err(trouble.to_string()),
            // Nobody misses what is not there.
            Some(Trouble::Absent(_)) => Ok(()),
            Some(trouble) => {
                (self.tell)(Notice::Warning(format!(
                    "{trouble}: the login is kept in a file that only you can read"
                )));
                Ok(())
            }
        }
    }

    /// Has the key ready that a login is sealed with when it is refreshed, where nothing is kept without one and what
    /// is kept was not sealed so far: nobody had to ask for it to read that. Ours is the lock.
    async fn prepare_sealing(&self) {
        let Some(place) = &self.place else {
            return;
        };
        let Some(vault) = place.vault() else {
            return;
        };
        let plain = !place.is_sealed() && (self.state().kept.is_some() || place.load().is_some());
        if plain && !vault.or_plain() && !vault.is_open() && vault.may_be_asked() {
            // What is wrong with it is told when the login cannot be kept.
            let _ = vault.make().await;
        }
    }

    /// Asks the keyring for the key of the login that is kept, if that is sealed; whether it can be read now.
    async fn unlock(&self) -> bool {
        if self.place.as_ref().is_some_and(Place::is_out_of_reach) {
            if !std::mem::replace(&mut self.state().told_out_of_reach, true) {
                (self.tell)(Notice::Warning(OUT_OF_REACH.into()));
            }
            return false;
        }
        let Some(place) = self.place.as_ref().filter(|it| it.is_locked()) else {
            return true;
        };
        let trouble = match place.vault() {
            Some(vault) => vault.find().await,
            None => None,
        };
        if let Some(trouble) = trouble {
            (self.tell)(Notice::Warning(format!(
                "the login that is kept cannot be read: {trouble}"
            )));
        }
        !place.is_locked()
    }

    /// Waits for the lock, and says so if that takes long: somebody else may be asked to log in, and think.
    async fn lock(&self, place: &Place) -> Result<File, String> {
        let lock = place.lock();
        tokio::pin!(lock);
        let locked = match timeout(SOON, &mut lock).await {
            Ok(locked) => locked,
            Err(_) => {
                (self.tell)(Notice::Warning(
                    "another process of outlive is logging in at this server: waiting for it; finish the login there, \
                     or stop it"
                        .into(),
                ));
                let locked = timeout(self.options.login_timeout, lock).await;
                locked.map_err(|_| "another process of outlive did not finish its login in time")?
            }
        };
        locked.map_err(|error| format!("logins cannot be locked: {error}"))
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
            Some(place) => Some(self.lock(place).await?),
            None => None,
        };
        self.unlock().await;
        let before = self.place.as_ref().and_then(Place::load);
        let kept = self.prepare_key().await;
        kept.map_err(|why| format!("the login could not be kept: {why}"))?;
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
            let saved = place.save(&kept, true);
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
        let _lock = self.lock(place).await?;
        let sealed = place.is_sealed();
        if !self.unlock().await {
            let key = match place.is_out_of_reach() {
                true => ", and its key stays in the keyring",
                false => "",
            };
            (self.tell)(Notice::Warning(format!(
                "it is forgotten here, but its authorization server could not be told{key}"
            )));
        }
        let kept = place.load();
        let there = place.remove().map_err(|error| error.to_string())?;
        if let Some(vault) = place.vault().filter(|_| sealed) {
            vault.forget().await;
        }
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
