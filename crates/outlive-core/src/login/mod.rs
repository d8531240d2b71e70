//! The login of one process at one server: who waits for a token, when it is refreshed, when a person is asked.
//!
//! A *grant* is what an authorization server gave: an access token, most often with a refresh token that is good for
//! one exchange. All processes of a user share a *store* that holds the newest grant of each server, and a lock that
//! the kernel gives back when its owner dies. This machine is one process's half of the agreement:
//!
//! 1. **Reading needs no lock.** Whoever wants a token reads the store first: another process may have a newer one.
//! 2. **Nothing is exchanged without the lock**, and what is exchanged was read under it. So there is one refresh and
//!    one login at a time, over all processes, and whoever waited finds what the other one got.
//! 3. **A grant is marked before its refresh token is sent.** If the process dies before it has kept the answer, the
//!    next one knows that the token may be spent. A marked grant is used for as long as its access token is good; only
//!    then its refresh token is tried once more, because there is nothing left to lose.
//! 4. **A refresh that was refused is not tried again**, by anybody: the grant is kept without its refresh token, and a
//!    login begins if somebody waits for it. One that failed for a moment is tried again, after a pause that doubles.
//! 5. **What cannot be kept is not risked.** A grant of the store that cannot be marked is not exchanged: other processes
//!    would not know that its token is spent. One that was given and could not be kept is this process's alone, until
//!    the store can be written again, or holds another.
//! 6. **A login that did not help is not repeated at once.** A token that is refused right after its login means that
//!    another login would not help either. Nor would it if a refresh brings another token and that is refused as well:
//!    each login that began for such a token doubles the pause before the next one.
//! 7. **A process that leaves begins nothing, and brings to its end what it has sent.** An exchange whose answer nobody
//!    keeps costs a login, so its answer is waited for and kept. That is bounded: then the grant stays marked, as if
//!    the process had been killed.
//!
//! The machine holds no secret: a grant is known by its [`GrantId`]. It is driven like all machines here: after each
//! [`Login::handle`], [`Login::poll`] until there is nothing more, then wait for the next input, but no longer than
//! [`Login::deadline`]. Expiry goes by the clock on the wall, which processes share and which may jump; pauses and
//! bounds go by a clock that only goes forward.

mod grant;
mod status;
mod step;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::rng::Rng;
use crate::time::Time;

pub use grant::{Grant, GrantId};
pub use status::LoginStatus;
use step::Step;

/// A moment on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// On the clock that only goes forward.
    pub time: Time,
    /// On the wall: the time since 1970, as this machine believes.
    pub wall: Duration,
}

/// Names somebody who waits for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Who wants a token, and why the one there is will not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The server has refused the token of this grant.
    pub refused: Option<GrantId>,
    /// Scopes that the server asks for.
    pub scopes: Vec<String>,
    /// The token is good, but not for this: the scopes are missing (`insufficient_scope`).
    pub step_up: bool,
    /// How long it is waited for.
    pub patience: Duration,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Somebody wants a token.
    Want(Ticket, Want),
    /// Somebody does not wait any more.
    Forget(Ticket),
    /// A server has accepted the token of this grant.
    Accepted(GrantId),
    /// The store was read; none if there is no grant in it.
    Loaded(Option<Grant>),
    /// The lock is ours.
    Locked,
    /// What was to be kept is in the store.
    Saved,
    /// What was to be kept could not be.
    Unsaved,
    /// How the refresh ended.
    Refreshed(Refreshed),
    /// How the login ended: with a grant, or without one.
    LoggedIn(Option<Grant>),
    /// Somebody who was asked to log in does not want to.
    Declined,
    /// The process is leaving.
    Leave,
    /// The moment has come that [`Login::deadline`] named.
    Tick,
}

/// How a refresh ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// There is a new grant.
    Granted(Grant),
    /// The refresh token is no longer good.
    Refused,
    /// The authorization server has certainly not read the token: it could not be reached.
    Unsent,
    /// Nobody knows whether the token was exchanged: no answer, or one that says nothing (5xx).
    Unknown,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Read the store.
    Load,
    /// Wait for the lock.
    Lock,
    /// Give the lock back, or stop waiting for it.
    Unlock,
    /// Keep this grant in the store, whole or not at all. Ours is the lock.
    Save(Grant),
    /// Exchange the refresh token of this grant.
    Refresh(GrantId),
    /// Ask a person to log in, for these scopes at least: all that were asked for before, and all that are wanted now.
    LogIn(Vec<String>),
    /// Nobody is asked any more.
    StopLogin,
    /// Whoever waited gets the token of this grant, or learns why there is none.
    Answer(Ticket, Result<GrantId, NoToken>),
}

/// Why there is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoToken {
    /// A login is under way in this process, and has taken too long to wait for.
    LoginPending,
    /// The lock is another process's: most likely a person is asked there.
    OtherProcess,
    /// The authorization server does not answer.
    Unavailable,
    /// A login has ended without a grant, not long ago.
    LoginFailed,
    /// Somebody was asked to log in and did not want to, not long ago.
    Declined,
    /// The server refuses what a login has just brought.
    StillRefused,
    /// The server wants scopes that were asked for and not granted.
    ScopeRefused,
    /// The process is leaving.
    Leaving,
}

/// How long things take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginPolicy {
    /// A person has this long for a login.
    pub login: Duration,
    /// After a login that brought nothing, another one begins no sooner; each further one doubles it, up to an hour.
    pub pause: Duration,
    /// The first pause after a refresh that failed for a moment; each further one doubles it, …
    pub backoff: Duration,
    /// … up to this.
    pub backoff_cap: Duration,
    /// A process that leaves waits this long for an exchange that it has sent.
    pub farewell: Duration,
}

impl Default for LoginPolicy {
    fn default() -> LoginPolicy {
        LoginPolicy {
            login: Duration::from_secs(300),
            pause: Duration::from_secs(60),
            backoff: Duration::from_millis(500),
            backoff_cap: Duration::from_secs(30),
            farewell: Duration::from_secs(5),
        }
    }
}

/// The longest pause after a login that brought nothing.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// A clock on the wall is looked at this often: it may have jumped.
const LONGEST_SLEEP: Duration = Duration::from_secs(300);

/// Somebody who waits.
#[derive(Clone, Debug)]
struct Waiting {
    want: Want,
    until: Time,
}

/// The login of one process at one server.
#[derive(Debug)]
pub struct Login {
    policy: LoginPolicy,
    rng: Rng,
    now: Moment,
    step: Step,
    /// The grant that is used: what the store held when it was last read or written, or what could not be kept.
    known: Option<Grant>,
    /// Which grant the store holds.
    stored: Option<GrantId>,
    /// A grant that could not be kept, and which one the store held then.
    unkept: Option<(Grant, Option<GrantId>)>,
    /// A server has accepted it.
    accepted: Option<GrantId>,
    waiting: BTreeMap<Ticket, Waiting>,
    /// The last of those who waited when the store was read.
    looked_for: Option<Ticket>,
    /// The lock is ours, or asked for.
    locked: bool,
    /// Refreshes that failed for a moment, in a row.
    failures: u32,
    /// No refresh before this moment.
    retry_at: Time,
    /// Logins that brought nothing, in a row.
    failed_logins: u32,
    /// Why the last of them did.
    failure: NoToken,
    /// No login before this moment.
    paused_until: Time,
    /// Logins in a row that began because a token was refused that a refresh had just brought.
    fruitless: u32,
    /// No further one of them before this moment.
    fruitless_until: Time,
    /// The process leaves, and will have left at this moment.
    leaving: Option<Time>,
    out: VecDeque<Output>,
}

/// Whether a server that answers with this status has accepted the token of the request. Any refusal may have come
/// before the token was looked at.
pub fn is_accepted(status: u16) -> bool {
    (200..300).contains(&status)
}

impl Login {
    /// The login of a process that has read nothing yet.
    pub fn new(policy: LoginPolicy, seed: u64) -> Login {
        Login {
            policy,
            rng: Rng::new(seed),
            now: Moment::default(),
            step: Step::Idle,
            known: None,
            stored: None,
            unkept: None,
            accepted: None,
            waiting: BTreeMap::new(),
            looked_for: None,
            locked: false,
            failures: 0,
            retry_at: Time::ZERO,
            failed_logins: 0,
            failure: NoToken::LoginFailed,
            paused_until: Time::ZERO,
            fruitless: 0,
            fruitless_until: Time::ZERO,
            leaving: None,
            out: VecDeque::new(),
        }
    }

    /// Takes in what has happened.
    pub fn handle(&mut self, now: Moment, input: Input) {
        self.now = now;
        match input {
            Input::Want(ticket, want) => {
                let until = now.time + want.patience;
                self.waiting.insert(ticket, Waiting { want, until });
            }
            Input::Forget(ticket) => drop(self.waiting.remove(&ticket)),
            Input::Accepted(id) => {
                self.accepted = Some(id);
                self.look_after();
            }
            Input::Loaded(grant) => self.loaded(grant),
            Input::Locked => self.lock_is_ours(),
            Input::Saved => self.saved(),
            Input::Unsaved => self.unsaved(),
            Input::Refreshed(how) => self.refreshed(how),
            Input::LoggedIn(grant) => self.logged_in(grant),
            Input::Declined => self.declined(),
            Input::Leave => self.leave(),
            Input::Tick => {}
        }
        self.expire();
        match self.leaving {
            Some(_) => self.dismiss(),
            None => self.go_on(),
        }
    }

    /// The next thing to be done.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// When it wants to be called, if nothing happens before.
    pub fn deadline(&self) -> Option<Time> {
        let tickets = self.waiting.values().map(|it| it.until).min();
        let step = match &self.step {
            Step::Idle if self.leaving.is_some() => None,
            _ if self.leaving.is_some() => self.leaving,
            Step::LoggingIn { until } => Some(*until),
            Step::Idle => {
                let renew = self.renew_at().map(|at| at.max(self.retry_at));
                let retry = (!self.waiting.is_empty()).then_some(self.retry_at);
                [renew, retry].into_iter().flatten().min()
            }
            _ => None,
        };
        [tickets, step].into_iter().flatten().min()
    }

    /// Whether nothing is under way and nobody waits.
    pub fn is_idle(&self) -> bool {
        self.step == Step::Idle && self.waiting.is_empty() && self.out.is_empty()
    }

    /// Whether the process may end: it was told to leave, and nothing is under way any more.
    pub fn has_left(&self) -> bool {
        self.leaving.is_some() && self.is_idle()
    }

    /// The grant that is used.
    pub fn grant(&self) -> Option<GrantId> {
        self.known.as_ref().map(|it| it.id)
    }

    /// Whether a person is asked right now.
    pub fn is_asking(&self) -> bool {
        matches!(self.step, Step::LoggingIn { .. })
    }

    /// When the grant there is should be renewed, for whoever comes next.
    fn renew_at(&self) -> Option<Time> {
        let grant = self.known.as_ref().filter(|it| it.may_be_renewed_early())?;
        let wait = grant.renew_at()?.saturating_sub(self.now.wall);
        Some(self.now.time + wait.min(LONGEST_SLEEP))
    }

    fn is_renewal_due(&self) -> bool {
        let Some(grant) = &self.known else {
            return false;
        };
        grant.may_be_renewed_early()
            && grant.renew_at().is_some_and(|at| at <= self.now.wall)
            && self.retry_at <= self.now.time
    }

    /// Tells those whose time is up why there is no token, and ends what takes too long: a login, a farewell.
    fn expire(&mut self) {
        let why = match &self.step {
            Step::LoggingIn { .. } => NoToken::LoginPending,
            Step::Locking => NoToken::OtherProcess,
            _ => NoToken::Unavailable,
        };
        let now = self.now.time;
        let late: Vec<Ticket> = self
            .waiting
            .iter()
            .filter(|(_, it)| it.until <= now)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in late {
            self.answer(ticket, Err(why));
        }
        if let Step::LoggingIn { until } = &self.step
            && *until <= now
        {
            self.out.push_back(Output::StopLogin);
            self.login_failed(NoToken::LoginFailed);
        }
        if self.leaving.is_some_and(|until| until <= now) {
            self.unlock();
        }
    }

    fn answer(&mut self, ticket: Ticket, how: Result<GrantId, NoToken>) {
        self.waiting.remove(&ticket);
        self.out.push_back(Output::Answer(ticket, how));
    }
}
