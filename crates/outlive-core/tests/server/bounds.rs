//! Everything has a bound, and what exceeds it gets a clear error or is not read yet (FM-64).

use std::time::Duration;

use outlive_core::protocol::List;
use outlive_core::server::{CloseKind, Input, Ticket};

use crate::pair::*;

/// One handler at a time, and two requests that wait.
fn small() -> Pair {
    Pair::ready_with(|policy| {
        policy.concurrency = 1;
        policy.queue = 2;
    })
}

#[test]
fn as_many_handlers_run_as_may_and_the_rest_wait_in_order() {
    let mut p = Pair::ready_with(|policy| policy.concurrency = 2);
    let tickets: Vec<Ticket> = (1..=2).map(|id| p.call(id, "a")).collect();
    for id in 3..=5 {
        p.client(&call(id, "a"));
    }
    assert_eq!(p.orders(), ["start 0", "start 1"]);
    p.answer(tickets[1], "{}");
    p.answer(tickets[0], "{}");
    assert_eq!(p.orders(), ["start 2", "start 3"]);
    assert_eq!(p.server.sizes().busy, 2);
    assert_eq!(p.server.sizes().queued.0, 1);
}

#[test]
fn a_full_server_is_not_read_and_beyond_that_refuses() {
    let mut p = small();
    for id in 1..=2 {
        p.client(&call(id, "a"));
        assert!(p.server.wants_input());
    }
    p.client(&call(3, "a"));
    assert!(!p.server.wants_input());
    p.forget();
    p.client(&call(4, "a"));
    let failure = p.failure();
    assert_eq!(
        (failure.code, failure.kind(), failure.outcome()),
        (-31002, "unavailable", "rejected")
    );
    assert_eq!(failure.data["outlive"]["retryable"], true);
    assert_eq!(
        failure.message,
        "Too many requests are already waiting for a handler (the limit is 2: `server::Builder::queue`), so tools/call \
         was not accepted. It was not executed; call again later."
    );
    p.forget();
    p.cancel(3);
    assert!(p.server.wants_input(), "there is room again");
}

/// Pings, cancellations and answers are never stuck behind the queue.
#[test]
fn a_full_server_still_answers_pings_and_takes_cancellations() {
    let mut p = small();
    for id in 1..=3 {
        p.client(&call(id, "a"));
    }
    p.forget();
    p.client(&request(9, "ping"));
    assert_eq!(p.sent(), [result(9, "{}")]);
    p.cancel(1);
    assert_eq!(p.orders(), ["cancel 0 client"]);
}

/// If no handler gets done, only a cancellation may help: the client is read again.
#[test]
fn a_stalled_server_listens_again() {
    let mut p = small();
    for id in 1..=3 {
        p.client(&call(id, "a"));
    }
    p.advance(999);
    assert!(!p.server.wants_input());
    assert!(p.server.deadline().is_some());
    p.advance(1);
    assert!(p.server.wants_input());
    assert_eq!(p.server.deadline(), None);
    let ticket = p.newest();
    p.answer(ticket, "{}");
    p.client(&call(4, "a"));
    assert!(!p.server.wants_input(), "it gets on: slowed down again");
}

#[test]
fn a_full_server_listens_for_what_a_handler_asked() {
    let mut p = small();
    let ticket = p.call(1, "a");
    p.client(&call(2, "a"));
    p.client(&call(3, "a"));
    p.ask(Some(ticket), 1);
    assert!(p.server.wants_input());
    p.client(r#"{"jsonrpc":"2.0","id":"outlive-ask-1","result":{}}"#);
    assert!(!p.server.wants_input());
}

#[test]
fn the_queue_is_bounded_by_bytes_too() {
    let mut p = Pair::ready_with(|policy| {
        policy.concurrency = 1;
        policy.queue_bytes = 150;
    });
    let size = call(1, "a").len();
    assert!(size < 150 && 2 * size > 150);
    p.client(&call(1, "a"));
    p.client(&call(2, "a"));
    assert!(p.server.wants_input());
    p.client(&call(3, "a"));
    assert!(!p.server.wants_input());
    assert_eq!(p.server.sizes().queued, (2, 2 * size));
    p.forget();
    p.client(&call(4, "a"));
    assert_eq!(p.failure().code, -31002);
}

#[test]
fn running_requests_are_bounded_by_bytes_but_one_may_always_run() {
    let mut p = Pair::ready_with(|policy| policy.running_bytes = 100);
    let a = p.call(1, "a");
    p.client(&call(2, "b"));
    assert_eq!(p.orders(), ["start 0"]);
    assert_eq!(p.server.sizes().bytes, call(1, "a").len());
    p.answer(a, "{}");
    assert_eq!(p.orders(), ["start 1"]);
    let both = 2 * call(1, "a").len();
    for (bytes, started) in [(both - 1, 1), (both, 2)] {
        let mut p = Pair::ready_with(|policy| policy.running_bytes = bytes);
        p.client(&call(1, "a"));
        p.client(&call(2, "a"));
        assert_eq!(p.started().len(), started);
    }
    let mut p = Pair::ready_with(|policy| policy.running_bytes = 0);
    p.call(1, "a");
    assert_eq!(p.orders(), ["start 0"]);
}

#[test]
fn a_bound_of_nought_is_one_of_one() {
    let mut p = Pair::ready_with(|policy| policy.concurrency = 0);
    p.call(1, "a");
    assert_eq!(p.orders(), ["start 0"]);
    let mut p = Pair::ready_with(|policy| (policy.concurrency, policy.queue) = (1, 0));
    p.call(1, "a");
    assert_eq!(p.orders(), ["start 0"]);
    p.client(&call(2, "a"));
    assert!(!p.server.wants_input(), "and no place to wait is one");
}

#[test]
fn a_deadline_frees_a_stuck_server() {
    let mut p = Pair::ready_with(|policy| {
        policy.concurrency = 1;
        policy.deadline = Some(Duration::from_millis(50));
        policy.grace = Duration::from_millis(10);
    });
    for id in 1..=3 {
        p.client(&call(id, "a"));
    }
    p.advance(500);
    assert_eq!(
        p.orders(),
        [
            "start 0",
            "cancel 0 deadline",
            "drop 0",
            "start 1",
            "cancel 1 deadline",
            "drop 1",
            "start 2",
            "cancel 2 deadline",
            "drop 2"
        ]
    );
    assert_eq!(p.server.sizes().timers, 0);
}

#[test]
fn what_runs_and_what_waits_is_weighed() {
    let mut p = Pair::ready_with(|policy| {
        policy.concurrency = 2;
        policy.deadline = Some(Duration::from_secs(1));
    });
    let size = call(1, "a").len();
    let first = p.call(1, "a");
    for id in 2..=5 {
        p.client(&call(id, "a"));
    }
    let weighed = |p: &Pair| {
        let sizes = p.server.sizes();
        (sizes.bytes / size, sizes.bytes % size, sizes.queued)
    };
    assert_eq!(weighed(&p), (2, 0, (3, 3 * size)));
    assert_eq!(p.server.sizes().timers, 2, "one for each that runs");
    p.cancel(4);
    assert_eq!(weighed(&p), (2, 0, (2, 2 * size)));
    p.answer(first, "{}");
    assert_eq!(weighed(&p), (2, 0, (1, size)));
    p.close(CloseKind::BrokenPipe);
    assert_eq!(weighed(&p), (2, 0, (0, 0)));
    let newest = p.newest();
    p.answer(newest, "{}");
    assert_eq!(weighed(&p), (1, 0, (0, 0)));
}

#[test]
fn settled_requests_leave_nothing_behind() {
    let mut p = Pair::ready();
    for n in 0..50 {
        let ticket = p.call(n, "a");
        match n % 3 {
            0 => p.answer(ticket, "{}"),
            1 => p.cancel(n),
            _ => {
                p.ask(Some(ticket), n);
                p.answer(ticket, "{}");
            }
        }
    }
    p.advance(2000);
    p.feed(Input::Changed(List::Tools));
    let sizes = p.server.sizes();
    assert_eq!((sizes.busy, sizes.bytes, sizes.queued), (0, 0, (0, 0)));
    assert_eq!((sizes.asks, sizes.timers), ((0, 0), 0));
    assert_eq!(sizes.tombstones, 16);
}
