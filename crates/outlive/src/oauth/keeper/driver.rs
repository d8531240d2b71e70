//! Drives the rules of a login: reads and writes the store, waits for its lock, asks authorization servers and people.
//!
//! One task does all of it, and begins when a token is first wanted or accepted. Whatever takes time (the lock, the
//! keyring, a refresh, a login) is a task of its own, and tells the first one how it ended. When nobody gives it orders
//! any more, it leaves: the rules say what it still waits for.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use outlive_core::Time;
use outlive_core::login::{
    Grant, GrantId, Input, Login, LoginPolicy, Moment, NoToken, Output, Refreshed, Ticket,
};
use reqwest::Url;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, spawn};
use tokio::time::sleep_until;

use super::super::store::{Kept, KeptGrant};
use super::super::token::{NoTokens, Tokens, ask};
use super::super::{Notice, Way, plain, random_number, wall};
use super::{Command, Keeper};

/// How something ended that took time.
enum Event {
    Locked(u64, io::Result<File>),
    Refreshed(Result<Tokens, NoTokens>),
    LoggedIn(Result<Box<Kept>, String>),
    /// The keyring was asked for the key of what is kept.
    Unlocked,
}

/// The task that drives the rules.
pub(super) struct Driver {
    keeper: Arc<Keeper>,
    login: Login,
    begun: Instant,
    /// The login as it was last read or written.
    kept: Option<Kept>,
    /// A login or a refresh has brought this, and it is not kept yet.
    fresh: Option<Kept>,
    /// This could not be kept; it may be used all the same.
    unkept: Option<Kept>,
    lock: Option<File>,
    /// Counts locks, so that one that comes too late is known.
    locks: u64,
    locking: Option<AbortHandle>,
    asking: Option<AbortHandle>,
    /// Somebody does not want to log in.
    declined: bool,
    leaving: bool,
    /// The authorization server does not know our registration any more.
    unknown_client: bool,
    next_ticket: u64,
    waiting: HashMap<Ticket, oneshot::Sender<Result<GrantId, NoToken>>>,
    events: mpsc::UnboundedSender<Event>,
    happened: mpsc::UnboundedReceiver<Event>,
}

impl Driver {
    pub(super) fn new(keeper: Arc<Keeper>) -> Driver {
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
            unkept: None,
            lock: None,
            locks: 0,
            locking: None,
            asking: None,
            declined: false,
            leaving: false,
            unknown_client: false,
            next_ticket: 0,
            waiting: HashMap::new(),
            events,
            happened,
        }
    }

    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        while !self.login.has_left() {
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
                command = commands.recv(), if !self.leaving => match command {
                    Some(command) => self.command(command),
                    None => {
                        self.leaving = true;
                        Some(Input::Leave)
                    }
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
            Event::Unlocked => Some(self.load()),
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
                let Some(mut kept) = self.in_use().cloned() else {
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
        self.keeper.state().problem = problem.map(|it| plain(&it));
        how
    }

    fn feed(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let now = Moment {
                time: Time::after(self.begun.elapsed()),
                wall: wall(),
            };
            let was_read = matches!(input, Input::Loaded(_));
            self.login.handle(now, input);
            self.publish(was_read);
            while let Some(output) = self.login.poll() {
                inputs.extend(self.carry_out(output));
            }
        }
    }

    /// Does what the rules say; what there is to tell them at once.
    fn carry_out(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Load => {
                let place = self.keeper.place.as_ref();
                if !place.is_some_and(|it| it.is_locked() || it.is_out_of_reach()) {
                    return Some(self.load());
                }
                let (keeper, events) = (self.keeper.clone(), self.events.clone());
                spawn(async move {
                    keeper.unlock().await;
                    let _ = events.send(Event::Unlocked);
                });
            }
            Output::Lock => {
                self.locks += 1;
                let Some(place) = self.keeper.place.clone() else {
                    return Some(Input::Locked);
                };
                let (number, events) = (self.locks, self.events.clone());
                let keeper = self.keeper.clone();
                let locking = spawn(async move {
                    let lock = place.lock().await;
                    keeper.prepare_sealing().await;
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
            Output::Save(grant) => return Some(self.save(&grant)),
            Output::Refresh(_) => self.refresh(),
            Output::LogIn(scopes) => {
                let (keeper, events) = (self.keeper.clone(), self.events.clone());
                let before = self.in_use().cloned().filter(|_| !self.unknown_client);
                let asking = spawn(async move {
                    // The key is ready when there is a token: what was given is kept without waiting for anybody.
                    let (asked, _) = tokio::join!(keeper.ask(scopes, before), async {
                        if keeper.options.way != Way::Never {
                            let _ = keeper.prepare_key().await;
                        }
                    });
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
                    false if self.leaving => "outlive was stopped before",
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

    fn load(&mut self) -> Input {
        if let Some(place) = &self.keeper.place {
            self.kept = place.load();
        }
        let grant = self.kept.as_ref().and_then(|it| it.grant.as_ref());
        Input::Loaded(grant.map(KeptGrant::grant))
    }

    /// The login with this grant, of those there are.
    fn with(&self, id: GrantId) -> Option<&Kept> {
        let all = [&self.fresh, &self.unkept, &self.kept];
        all.into_iter().flatten().find(|it| is_of(it, id))
    }

    /// The login that is used.
    fn in_use(&self) -> Option<&Kept> {
        self.with(self.login.grant()?)
    }

    fn refresh(&mut self) {
        let (keeper, events) = (self.keeper.clone(), self.events.clone());
        let kept = self.in_use().cloned();
        spawn(async move {
            let how = match kept {
                Some(kept) => refresh(&keeper, &kept).await,
                None => Err(NoTokens::Unsent("there is nothing to refresh".into())),
            };
            let _ = events.send(Event::Refreshed(how));
        });
    }

    /// Keeps a grant: the fresh one, or the one there is with what has changed.
    fn save(&mut self, grant: &Grant) -> Input {
        let fresh = self.fresh.take_if(|it| is_of(it, grant.id));
        let by_login = fresh.is_some() && grant.by_login;
        let Some(mut kept) = fresh.or_else(|| self.with(grant.id).cloned()) else {
            return Input::Saved;
        };
        self.fresh = None;
        if let Some(inner) = &mut kept.grant {
            inner.in_doubt = grant.in_doubt;
            if !grant.renewable {
                inner.refresh_token = None;
            }
        }
        let place = self.keeper.place.as_ref();
        match place.map_or(Ok(()), |place| place.save(&kept, by_login)) {
            Ok(()) => {
                self.kept = Some(kept);
                self.unkept = None;
                Input::Saved
            }
            Err(error) => {
                let why = format!("the login cannot be kept: {error}");
                self.warn(why.clone());
                self.keeper.state().problem = Some(why);
                if !self.kept.as_ref().is_some_and(|it| is_of(it, grant.id)) {
                    self.unkept = Some(kept);
                }
                Input::Unsaved
            }
        }
    }

    /// What is used is what is sent; nothing, if there is nothing in the store any more.
    fn publish(&mut self, was_read: bool) {
        let in_use = self.in_use();
        let mut state = self.keeper.state();
        let used = in_use.and_then(|it| it.grant.as_ref()).map(|it| it.id);
        let news = used != state.grant_id().map(|it| it.0);
        if news && (used.is_some() || was_read) {
            state.kept = in_use.cloned();
        }
        state.read |= used.is_some();
    }

    fn warn(&self, words: String) {
        (self.keeper.tell)(Notice::Warning(words));
    }
}

/// Whoever drives the rules is gone: nobody is asked any more, and nothing is waited for.
impl Drop for Driver {
    fn drop(&mut self) {
        for task in [self.asking.take(), self.locking.take()] {
            task.inspect(AbortHandle::abort);
        }
    }
}

fn is_of(kept: &Kept, id: GrantId) -> bool {
    kept.grant.as_ref().is_some_and(|it| it.id == id.0)
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
