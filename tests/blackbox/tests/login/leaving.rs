//! Processes that leave while they refresh.

use std::thread::sleep;
use std::time::{Duration, Instant};

use http_peer::message;
use rustix::process::Signal;
use serde_json::json;

use crate::fleet::Fleet;
use crate::person::{asked, logged_in, setup};
use crate::provider::{Fault, Provider};
use crate::rig::{Host, Setup, tree, until};

/// Tokens of this life are refreshed before anybody notices.
const LIFE: Duration = Duration::from_secs(5);
/// An answer that takes this long comes when the process has nothing else to do any more.
const SLOW: Duration = Duration::from_secs(1);

/// Nobody waits as long as an exchange may take, which is half a minute.
const BOUND: Duration = Duration::from_secs(20);

/// The process refreshes by itself, and nobody waits for that.
fn early_refresh(provider: &Provider) {
    until("an early refresh", || {
        (provider.books().refreshes == 1).then_some(())
    });
}

/// The next process goes on with what the one before has kept: every access token has expired by then.
fn next_process(provider: &Provider, store: &str) {
    sleep(LIFE);
    let mut next = Host::ready(setup(provider, store));
    next.ask("echo", json!({})).result();
    assert_eq!((asked(&next), provider.books().logins), (0, 1));
    provider.check();
}

/// FM-28: the host leaves, or stops us, in the middle of an early refresh: what comes of it is kept.
#[test]
fn fm_28_a_process_that_leaves_in_its_refresh_costs_no_login() {
    for signal in [None, Some(Signal::TERM)] {
        let provider = Provider::start(LIFE);
        let (_folder, store) = logged_in(&provider);
        let mut host = Host::ready(setup(&provider, &store));
        provider.books().faults.push_back(Fault::Slow(SLOW));
        early_refresh(&provider);
        match signal {
            Some(signal) => host.signal(signal),
            None => host.hang_up(),
        }
        assert!(host.exit().success());
        next_process(&provider, &store);
    }
}

/// The same of `outlive serve`.
#[test]
fn fm_28_a_gateway_that_leaves_in_its_refresh_costs_no_login() {
    let provider = Provider::start(LIFE);
    let (_folder, store) = logged_in(&provider);
    let flags = ["--login", "link", "--token-store", &store, &provider.url()];
    let mut gateway = Fleet::start(Setup::new(), &flags);
    let hello = message::initialize().to_string();
    let reply = http_peer::send(gateway.address, "POST", "/mcp", &[], &hello);
    assert_eq!(reply.expect("a response").status, 200);
    provider.books().faults.push_back(Fault::Slow(SLOW));
    early_refresh(&provider);
    tree::kill(gateway.pid(), Signal::TERM);
    until("the end of the gateway", || {
        (!gateway.is_running()).then_some(())
    });
    next_process(&provider, &store);
}

/// An authorization server that does not answer keeps nobody here, and a process that leaves asks for nothing more.
#[test]
fn a_process_that_leaves_does_not_wait_for_ever() {
    let provider = Provider::start(LIFE);
    let (_folder, store) = logged_in(&provider);
    let mut host = Host::ready(setup(&provider, &store));
    provider.books().faults.push_back(Fault::HangBefore);
    early_refresh(&provider);
    host.hang_up();
    let begun = Instant::now();
    assert!(host.exit().success());
    assert!(begun.elapsed() < BOUND, "{:?}", begun.elapsed());
    assert_eq!(provider.books().refreshes, 1);
    next_process(&provider, &store);
}
