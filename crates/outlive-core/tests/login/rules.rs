//! The rules of a login, one by one.

use std::time::Duration;

use outlive_core::Time;
use outlive_core::login::{
    Grant, GrantId, Input, Login, LoginPolicy, Moment, NoToken, Output, Refreshed, Ticket, Want,
};

const WALL: Duration = Duration::from_secs(1_800_000_000);

/// A process, its store and its clocks.
struct Rig {
    login: Login,
    now: Moment,
    store: Option<Grant>,
    /// The store cannot be written.
    full: bool,
}

impl Rig {
    fn new(store: Option<Grant>) -> Rig {
        Rig {
            login: Login::new(LoginPolicy::default(), 7),
            now: Moment {
                time: Time::ZERO,
                wall: WALL,
            },
            store,
            full: false,
        }
    }

    /// Feeds an input; reads, locks and writes as they are ordered; the other orders, as words.
    fn feed(&mut self, input: Input) -> Vec<Output> {
        let mut orders = Vec::new();
        self.login.handle(self.now, input);
        while let Some(output) = self.login.poll() {
            match output {
                Output::Load => self
                    .login
                    .handle(self.now, Input::Loaded(self.store.clone())),
                Output::Lock => self.login.handle(self.now, Input::Locked),
                Output::Save(_) if self.full => self.login.handle(self.now, Input::Unsaved),
                Output::Save(grant) => {
                    self.store = Some(grant);
                    self.login.handle(self.now, Input::Saved);
                }
                Output::Unlock => {}
                other => orders.push(other),
            }
        }
        orders
    }

    fn want(&mut self, ticket: u64, refused: Option<u64>) -> Vec<Output> {
        self.feed(Input::Want(Ticket(ticket), want(refused)))
    }

    /// Time passes on both clocks; those who want to be woken are.
    fn pass(&mut self, by: Duration) -> Vec<Output> {
        let end = self.now.time + by;
        let mut orders = Vec::new();
        while let Some(at) = self.login.deadline().filter(|at| *at <= end) {
            self.now.wall += at - self.now.time;
            self.now.time = at.max(self.now.time);
            orders.extend(self.feed(Input::Tick));
        }
        self.now.wall += end - self.now.time;
        self.now.time = end;
        orders
    }
}

fn want(refused: Option<u64>) -> Want {
    Want {
        refused: refused.map(GrantId),
        scopes: Vec::new(),
        step_up: false,
        patience: Duration::from_secs(30),
    }
}

/// A grant that was issued `age` seconds ago, and is good for an hour in all.
fn grant(id: u64, age: u64) -> Grant {
    let issued = WALL - Duration::from_secs(age);
    Grant {
        id: GrantId(id),
        issued,
        expires: Some(issued + Duration::from_secs(3600)),
        renewable: true,
        in_doubt: false,
        by_login: false,
        scopes: Vec::new(),
    }
}

fn got(ticket: u64, id: u64) -> Output {
    Output::Answer(Ticket(ticket), Ok(GrantId(id)))
}

fn lacks(ticket: u64, why: NoToken) -> Output {
    Output::Answer(Ticket(ticket), Err(why))
}

#[test]
fn what_the_store_has_is_taken_without_a_word() {
    let mut rig = Rig::new(Some(grant(1, 100)));
    assert_eq!(rig.want(1, None), [got(1, 1)]);
}

#[test]
fn what_another_process_got_is_taken() {
    let mut rig = Rig::new(Some(grant(2, 100)));
    assert_eq!(rig.want(1, Some(1)), [got(1, 2)]);
}

#[test]
fn a_refused_token_is_refreshed_once_for_all_who_wait() {
    let mut rig = Rig::new(Some(grant(1, 100)));
    assert_eq!(rig.want(1, Some(1)), [Output::Refresh(GrantId(1))]);
    assert!(
        rig.store.as_ref().unwrap().in_doubt,
        "marked before it is sent"
    );
    assert_eq!(rig.want(2, Some(1)), []);
    let granted = Refreshed::Granted(grant(2, 0));
    assert_eq!(rig.feed(Input::Refreshed(granted)), [got(1, 2), got(2, 2)]);
    assert_eq!(rig.store.as_ref().unwrap().id, GrantId(2));
}

#[test]
fn a_token_is_refreshed_before_it_expires() {
    let mut rig = Rig::new(Some(grant(1, 0)));
    rig.want(1, None);
    assert_eq!(rig.pass(Duration::from_secs(3299)), []);
    let orders = rig.pass(Duration::from_secs(1));
    assert_eq!(orders, [Output::Refresh(GrantId(1))]);
}

#[test]
fn a_refused_refresh_begins_one_login_and_is_not_tried_again() {
    let mut rig = Rig::new(Some(grant(1, 4000)));
    assert_eq!(rig.want(1, None), [Output::Refresh(GrantId(1))]);
    let orders = rig.feed(Input::Refreshed(Refreshed::Refused));
    assert_eq!(orders, [Output::LogIn(Vec::new())]);
    assert!(!rig.store.as_ref().unwrap().renewable);
    assert_eq!(rig.want(2, None), []);
    let new = grant(2, 0);
    let orders = rig.feed(Input::LoggedIn(Some(new)));
    assert_eq!(orders, [got(1, 2), got(2, 2)]);
}

/// Nobody is asked to log in because of a refresh for which nobody waits.
#[test]
fn an_early_refresh_that_is_refused_asks_nobody() {
    let mut rig = Rig::new(Some(grant(1, 0)));
    rig.want(1, None);
    let orders = rig.pass(Duration::from_secs(3300));
    assert_eq!(orders, [Output::Refresh(GrantId(1))]);
    assert_eq!(rig.feed(Input::Refreshed(Refreshed::Refused)), []);
    assert_eq!(rig.want(2, None), [got(2, 1)], "it is still good");
    rig.pass(Duration::from_secs(300));
    assert_eq!(rig.want(3, None), [Output::LogIn(Vec::new())]);
}

#[test]
fn a_refresh_that_failed_for_a_moment_is_tried_again() {
    for failure in [Refreshed::Unsent, Refreshed::Unknown] {
        let mut rig = Rig::new(Some(grant(1, 4000)));
        assert_eq!(rig.want(1, None), [Output::Refresh(GrantId(1))]);
        assert_eq!(rig.feed(Input::Refreshed(failure.clone())), []);
        let in_doubt = rig.store.as_ref().unwrap().in_doubt;
        assert_eq!(in_doubt, failure == Refreshed::Unknown);
        let orders = rig.pass(Duration::from_secs(1));
        assert_eq!(orders, [Output::Refresh(GrantId(1))]);
        let granted = Refreshed::Granted(grant(2, 0));
        assert_eq!(rig.feed(Input::Refreshed(granted)), [got(1, 2)]);
    }
}

/// Who has waited long enough learns that the authorization server is to blame, and nobody logs in.
#[test]
fn an_authorization_server_that_is_down_costs_no_login() {
    let mut rig = Rig::new(Some(grant(1, 4000)));
    rig.want(1, None);
    let mut all = Vec::new();
    for _ in 0..60 {
        all.extend(rig.feed(Input::Refreshed(Refreshed::Unknown)));
        all.extend(rig.pass(Duration::from_secs(1)));
    }
    let answers: Vec<_> = all
        .iter()
        .filter(|it| !matches!(it, Output::Refresh(_)))
        .collect();
    assert_eq!(answers, [&lacks(1, NoToken::Unavailable)]);
    let refreshes = all.len() - answers.len();
    assert!((4..=9).contains(&refreshes), "{refreshes} in half a minute");
}

/// The process before us was killed after it had sent the refresh token: it is not risked while the access token works.
#[test]
fn a_grant_in_doubt_is_used_up_first() {
    let doubtful = Grant {
        in_doubt: true,
        ..grant(1, 3400)
    };
    let mut rig = Rig::new(Some(doubtful));
    assert_eq!(rig.want(1, None), [got(1, 1)]);
    assert_eq!(rig.pass(Duration::from_secs(199)), []);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.want(2, None), [Output::Refresh(GrantId(1))]);
    // Unsent: the doubt remains.
    rig.feed(Input::Refreshed(Refreshed::Unsent));
    assert!(rig.store.as_ref().unwrap().in_doubt);
}

#[test]
fn a_login_is_bounded_and_those_who_wait_are_told_before() {
    let mut rig = Rig::new(None);
    assert_eq!(rig.want(1, None), [Output::LogIn(Vec::new())]);
    let orders = rig.pass(Duration::from_secs(30));
    assert_eq!(orders, [lacks(1, NoToken::LoginPending)]);
    assert!(rig.login.is_asking(), "the person still types");
    assert_eq!(rig.want(2, None), []);
    let orders = rig.pass(Duration::from_secs(270));
    assert_eq!(orders, [lacks(2, NoToken::LoginPending), Output::StopLogin]);
    assert_eq!(rig.want(3, None), [lacks(3, NoToken::LoginFailed)]);
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.want(4, None), [Output::LogIn(Vec::new())]);
}

#[test]
fn a_login_that_is_declined_is_waited_for_by_nobody() {
    let mut rig = Rig::new(None);
    assert_eq!(rig.feed(Input::Declined), [], "nobody was asked");
    rig.want(1, None);
    assert_eq!(rig.want(2, None), []);
    let told = [
        Output::StopLogin,
        lacks(1, NoToken::Declined),
        lacks(2, NoToken::Declined),
    ];
    assert_eq!(rig.feed(Input::Declined), told);
    assert_eq!(rig.want(3, None), [lacks(3, NoToken::Declined)], "no storm");
    assert_eq!(rig.feed(Input::LoggedIn(None)), [], "it comes too late");
    rig.pass(Duration::from_secs(60));
    assert_eq!(rig.want(4, None), [Output::LogIn(Vec::new())]);
}

#[test]
fn a_login_that_does_not_help_is_not_repeated() {
    let mut rig = Rig::new(None);
    rig.want(1, None);
    let mut new = grant(2, 0);
    new.by_login = true;
    assert_eq!(rig.feed(Input::LoggedIn(Some(new))), [got(1, 2)]);
    assert_eq!(rig.want(2, Some(2)), [lacks(2, NoToken::StillRefused)]);
    // One that has worked may be refused later.
    rig.feed(Input::Accepted(GrantId(2)));
    assert_eq!(rig.want(3, Some(2)), [Output::Refresh(GrantId(2))]);
}

#[test]
fn a_refresh_that_does_not_help_is_followed_by_a_login() {
    let mut rig = Rig::new(Some(grant(2, 0)));
    assert_eq!(rig.want(1, Some(2)), [Output::LogIn(Vec::new())]);
}

#[test]
fn scopes_are_added_and_asked_for_once() {
    let scopes = |words: &[&str]| words.iter().map(|it| it.to_string()).collect::<Vec<_>>();
    let mut old = grant(1, 100);
    old.scopes = scopes(&["read"]);
    let mut rig = Rig::new(Some(old));
    let more = |refused| Want {
        scopes: scopes(&["write"]),
        step_up: true,
        ..want(Some(refused))
    };
    let orders = rig.feed(Input::Want(Ticket(1), more(1)));
    assert_eq!(orders, [Output::LogIn(scopes(&["read", "write"]))]);
    let mut new = grant(2, 0);
    new.scopes = scopes(&["read", "write"]);
    assert_eq!(rig.feed(Input::LoggedIn(Some(new))), [got(1, 2)]);
    let orders = rig.feed(Input::Want(Ticket(2), more(2)));
    assert_eq!(orders, [lacks(2, NoToken::ScopeRefused)]);
    let orders = rig.feed(Input::Want(Ticket(3), more(1)));
    assert_eq!(orders, [got(3, 2)]);
}

/// A clock that jumps back makes an old token look good; the server knows better. One that jumps ahead costs a refresh.
#[test]
fn clocks_that_jump_cost_no_login() {
    let mut rig = Rig::new(Some(grant(1, 0)));
    rig.want(1, None);
    rig.now.wall -= Duration::from_secs(1_000_000);
    assert_eq!(rig.want(2, None), [got(2, 1)]);
    assert_eq!(rig.want(3, Some(1)), [Output::Refresh(GrantId(1))]);
    let mut ahead = Rig::new(Some(grant(1, 0)));
    ahead.now.wall += Duration::from_secs(1_000_000);
    assert_eq!(ahead.want(1, None), [Output::Refresh(GrantId(1))]);
}

/// A token of the store that cannot be marked is not sent: another process would send it again.
#[test]
fn what_cannot_be_marked_is_not_exchanged() {
    let mut rig = Rig::new(Some(grant(1, 4000)));
    rig.full = true;
    assert_eq!(rig.want(1, None), []);
    assert_eq!(
        rig.pass(Duration::from_secs(31)),
        [lacks(1, NoToken::Unavailable)]
    );
    rig.full = false;
    rig.want(2, None);
    let orders = rig.pass(Duration::from_secs(30));
    assert_eq!(orders[0], Output::Refresh(GrantId(1)));
}

/// A login that cannot be kept is used by this process all the same, refreshed, and kept as soon as that is possible;
/// unless somebody else has put another one there.
#[test]
fn what_cannot_be_kept_is_used_by_this_process() {
    for another in [false, true] {
        let mut rig = Rig::new(None);
        rig.full = true;
        assert_eq!(rig.want(1, None), [Output::LogIn(Vec::new())]);
        assert_eq!(rig.feed(Input::LoggedIn(Some(grant(1, 0)))), [got(1, 1)]);
        assert_eq!(rig.want(2, None), [got(2, 1)]);
        rig.login.handle(rig.now, Input::Accepted(GrantId(1)));
        assert_eq!(rig.want(3, Some(1)), [Output::Refresh(GrantId(1))]);
        let granted = Refreshed::Granted(grant(2, 0));
        assert_eq!(rig.feed(Input::Refreshed(granted)), [got(3, 2)]);
        assert_eq!(rig.store, None);
        rig.full = false;
        if another {
            rig.store = Some(grant(7, 0));
            assert_eq!(rig.want(4, None), [got(4, 7)]);
        } else {
            rig.login.handle(rig.now, Input::Accepted(GrantId(2)));
            assert_eq!(rig.want(4, Some(2)), [Output::Refresh(GrantId(2))]);
            let granted = Refreshed::Granted(grant(3, 0));
            assert_eq!(rig.feed(Input::Refreshed(granted)), [got(4, 3)]);
            assert_eq!(rig.store.as_ref().unwrap().id, GrantId(3));
        }
    }
}

/// A process that has a good token from the start is never refused one: its token is renewed in time all the same.
#[test]
fn a_token_that_was_never_asked_for_is_renewed_too() {
    let mut rig = Rig::new(Some(grant(1, 0)));
    assert_eq!(rig.feed(Input::Accepted(GrantId(1))), []);
    assert_eq!(rig.pass(Duration::from_secs(3299)), []);
    let orders = rig.pass(Duration::from_secs(1));
    assert_eq!(orders, [Output::Refresh(GrantId(1))]);
}

/// A token that was not sent after all, and whose mark could not be taken back: if another process has sent it since,
/// that counts.
#[test]
fn what_another_process_has_marked_stays_marked() {
    let mut rig = Rig::new(Some(grant(1, 3400)));
    assert_eq!(rig.want(1, Some(1)), [Output::Refresh(GrantId(1))]);
    rig.full = true;
    assert_eq!(rig.feed(Input::Refreshed(Refreshed::Unsent)), []);
    assert!(rig.store.as_ref().unwrap().in_doubt);
    assert_eq!(rig.feed(Input::Forget(Ticket(1))), []);
    rig.full = false;
    assert_eq!(rig.pass(Duration::from_secs(100)), [], "nobody needs it");
}

/// A process that leaves in its own early refresh keeps what comes of it, and begins no other.
#[test]
fn a_process_that_leaves_keeps_what_it_has_asked_for() {
    let mut rig = Rig::new(Some(grant(1, 3400)));
    assert_eq!(rig.want(1, None), [got(1, 1), Output::Refresh(GrantId(1))]);
    assert_eq!(rig.feed(Input::Leave), []);
    assert!(!rig.login.has_left(), "the answer is on its way");
    assert_eq!(rig.want(2, None), [lacks(2, NoToken::Leaving)]);
    assert_eq!(rig.pass(Duration::from_secs(4)), []);
    // It has expired when it comes: that is for the next process.
    let granted = Refreshed::Granted(grant(2, 3400));
    assert_eq!(rig.feed(Input::Refreshed(granted)), []);
    assert!(rig.login.has_left());
    assert_eq!(rig.store.as_ref().unwrap().id, GrantId(2));
    assert_eq!(rig.pass(Duration::from_secs(1000)), []);
}

/// It does not wait for ever: then the grant is in doubt, as after a kill.
#[test]
fn a_process_that_leaves_waits_for_a_while() {
    let mut rig = Rig::new(Some(grant(1, 4000)));
    assert_eq!(rig.want(1, None), [Output::Refresh(GrantId(1))]);
    let told = [lacks(1, NoToken::Leaving)];
    assert_eq!(rig.feed(Input::Leave), told, "nobody else waits");
    assert_eq!(rig.pass(Duration::from_secs(4)), []);
    assert!(!rig.login.has_left());
    assert_eq!(rig.pass(Duration::from_secs(1)), []);
    assert!(rig.login.has_left() && rig.store.as_ref().unwrap().in_doubt);
}

#[test]
fn a_process_that_leaves_asks_nobody() {
    let mut rig = Rig::new(None);
    assert_eq!(rig.want(1, None), [Output::LogIn(Vec::new())]);
    let told = [Output::StopLogin, lacks(1, NoToken::Leaving)];
    assert_eq!(rig.feed(Input::Leave), told);
    assert!(rig.login.has_left());
    let mut quiet = Rig::new(Some(grant(1, 0)));
    assert_eq!(quiet.feed(Input::Accepted(GrantId(1))), []);
    assert_eq!(quiet.feed(Input::Leave), []);
    assert!(quiet.login.has_left() && quiet.login.deadline().is_none());
}

/// A server that refuses every token, for whatever reason, has a person asked ever more seldom.
#[test]
fn a_server_that_refuses_every_token_asks_ever_more_seldom() {
    let mut rig = Rig::new(Some(grant(1, 4000)));
    let (mut logins, mut next) = (0, 1);
    for ticket in 0..720 {
        let has = rig.store.as_ref().map(|it| it.id.0);
        let mut orders = rig.want(ticket, has);
        while let Some(order) = orders.pop() {
            next += 1;
            let new = Grant {
                issued: rig.now.wall,
                expires: Some(rig.now.wall + Duration::from_secs(3600)),
                by_login: matches!(order, Output::LogIn(_)),
                ..grant(next, 0)
            };
            let done = match order {
                Output::LogIn(_) => {
                    logins += 1;
                    Input::LoggedIn(Some(new))
                }
                Output::Refresh(_) => Input::Refreshed(Refreshed::Granted(new)),
                _ => continue,
            };
            orders.extend(rig.feed(done));
        }
        rig.pass(Duration::from_secs(10));
    }
    assert!((2..=8).contains(&logins), "{logins} logins in two hours");
}
