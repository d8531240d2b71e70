//! Several processes with one login.

use std::sync::Barrier;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::person::{asked, link_of, logged_in, setup};
use crate::provider::{Fault, Provider};
use crate::rig::{Host, until};

/// FM-28: eight processes share a login whose refresh token is good once, over many expiries: nobody uses one twice,
/// nobody logs in again, and no call fails.
#[test]
fn fm_28_many_processes_share_a_rotating_token() {
    let provider = Provider::start(Duration::from_secs(2));
    let (_folder, store) = logged_in(&provider);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut host = Host::ready(setup(&provider, &store));
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_secs(12) {
                    host.ask("echo", json!({})).result();
                    sleep(Duration::from_millis(150));
                }
                assert_eq!(asked(&host), 0);
            });
        }
    });
    provider.check();
    let books = provider.books();
    assert_eq!(books.logins, 1);
    assert!(
        (4..=16).contains(&books.refreshes),
        "{} refreshes",
        books.refreshes
    );
}

/// The refreshing process is killed before its refresh is read: the next one refreshes, and nobody logs in.
#[test]
fn a_process_killed_before_its_refresh_costs_nothing() {
    let provider = Provider::start(Duration::from_secs(3600));
    let (_folder, store) = logged_in(&provider);
    let mut first = Host::ready(setup(&provider, &store));
    let mut second = Host::ready(setup(&provider, &store));
    provider.withdraw_access();
    provider.books().faults.push_back(Fault::HangBefore);
    first.call("echo", json!({}));
    until("the refresh", || {
        (provider.books().hanging == 1).then_some(())
    });
    let id = second.call("echo", json!({}));
    first.signal(Signal::KILL);
    second.answer(id).result();
    assert_eq!((asked(&second), provider.books().logins), (0, 1));
    provider.check();
}

/// It is killed after the exchange, before it has read the answer: that token is gone for everybody. What is left of
/// the access token is used up, and then there is one login.
#[test]
fn a_process_killed_after_its_refresh_costs_one_login() {
    let provider = Provider::start(Duration::from_secs(3600));
    let (_folder, store) = logged_in(&provider);
    let mut first = Host::ready(setup(&provider, &store));
    let mut second = Host::ready(setup(&provider, &store));
    provider.withdraw_access();
    provider.books().faults.push_back(Fault::HangAfter);
    first.call("echo", json!({}));
    until("the refresh", || {
        (provider.books().hanging == 1).then_some(())
    });
    let calls: Vec<i64> = (0..3).map(|_| second.call("echo", json!({}))).collect();
    first.signal(Signal::KILL);
    link_of(&second, 1).log_in(&provider);
    for id in calls {
        second.answer(id).result();
    }
    assert_eq!((asked(&second), provider.books().logins), (1, 2));
    provider.check();
}

/// Two processes want a login: one asks, and both go on with what it gets. If the one that asks is killed, the other
/// asks.
#[test]
fn of_several_processes_one_asks() {
    for killed in [false, true] {
        let provider = Provider::start(Duration::from_secs(3600));
        let (_folder, store) = logged_in(&provider);
        let mut first = Host::ready(setup(&provider, &store));
        let mut second = Host::ready(setup(&provider, &store));
        provider.withdraw_all();
        let one = first.call("echo", json!({}));
        let link = link_of(&first, 1);
        let other = second.call("echo", json!({}));
        sleep(Duration::from_millis(500));
        assert_eq!(asked(&second), 0, "the first one asks");
        match killed {
            false => {
                link.log_in(&provider);
                first.answer(one).result();
            }
            true => {
                first.signal(Signal::KILL);
                link_of(&second, 1).log_in(&provider);
            }
        }
        second.answer(other).result();
        assert_eq!(
            (asked(&second), provider.books().logins),
            (usize::from(killed), 2)
        );
        provider.check();
    }
}

/// How often the token expires in the tests that count.
const EXPIRIES: usize = 1000;

/// So many processes call at once, each time after all their tokens have been refused: one refresh each time, no login,
/// no failed call, no token used twice.
fn expire_a_thousand_times(processes: usize) {
    let provider = Provider::start(Duration::from_secs(3600));
    let (_folder, store) = logged_in(&provider);
    let barrier = Barrier::new(processes);
    thread::scope(|scope| {
        for n in 0..processes {
            let (provider, store, barrier) = (&provider, &store, &barrier);
            scope.spawn(move || {
                let mut host = Host::ready(setup(provider, store));
                host.ask("echo", json!({})).result();
                for _ in 0..EXPIRIES {
                    // All have used the token there is.
                    barrier.wait();
                    if n == 0 {
                        provider.withdraw_access();
                    }
                    barrier.wait();
                    host.ask("echo", json!({})).result();
                }
                assert_eq!(asked(&host), 0);
            });
        }
    });
    provider.check();
    let books = provider.books();
    assert_eq!((books.logins, books.refreshes), (1, EXPIRIES));
}

/// FM-28: a thousand expiries, two processes.
#[test]
fn fm_28_two_processes_refresh_once_for_each_of_a_thousand_expiries() {
    expire_a_thousand_times(2);
}

/// FM-28: a thousand expiries, eight processes.
#[test]
fn fm_28_eight_processes_refresh_once_for_each_of_a_thousand_expiries() {
    expire_a_thousand_times(8);
}

/// How often the refreshing process is killed, each time a little later than before.
const KILLS: u32 = 40;

/// The refreshing process is killed at whatever it does: before it asks, while it waits, while it writes down what it
/// got. Whoever comes next is answered, at the price of one login at most, and only if the token was exchanged and
/// nobody had written down the new one.
#[test]
fn fm_28_a_process_killed_at_any_step_of_its_refresh_costs_one_login_at_most() {
    let provider = Provider::start(Duration::from_secs(3600));
    let (_folder, store) = logged_in(&provider);
    let mut second = Host::ready(setup(&provider, &store));
    for n in 0..KILLS {
        let mut first = Host::ready(setup(&provider, &store));
        first.ask("echo", json!({})).result();
        let (logins, refreshes) = {
            let books = provider.books();
            (books.logins, books.refreshes)
        };
        provider.withdraw_access();
        first.call("echo", json!({}));
        sleep(Duration::from_micros(u64::from(n) * 250));
        first.signal(Signal::KILL);
        let links = asked(&second);
        let id = second.call("echo", json!({}));
        until("an answer, or a link", || {
            let is_asked = asked(&second) > links;
            (is_asked || second.answers(id) > 0).then_some(())
        });
        if second.answers(id) == 0 {
            link_of(&second, links + 1).log_in(&provider);
        }
        second.answer(id).result();
        let books = provider.books();
        let (asked, exchanged) = (books.logins - logins, books.refreshes - refreshes);
        assert!(asked <= 1, "{asked} logins after kill {n}");
        assert!(
            asked == 0 || exchanged > 0,
            "kill {n}: a login, and no token was exchanged"
        );
    }
}
