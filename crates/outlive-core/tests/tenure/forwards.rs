//! Requests on their way to owners that live, die, stand still or never get them: the rules one by one, and random
//! schedules of all that can happen to one request.

use std::time::Duration;

use outlive_core::Time;
use outlive_core::tenure::{
    FRESH, Forward, ForwardOrder, ForwardPolicy, Found, Nonces, NotForwarded, Owner, Sent, WINDOW,
};

use crate::random::{Dice, number};

const A: Owner = Owner(1);
const B: Owner = Owner(2);
/// A time since 1970.
const WALL: Duration = Duration::from_secs(1_700_000_000);

fn at(millis: u64) -> Time {
    Time::after(Duration::from_millis(millis))
}

fn policy() -> ForwardPolicy {
    ForwardPolicy::of(Duration::from_secs(15))
}

/// A request that the store was asked for, and that A has.
fn sent(repeatable: bool) -> Forward {
    let mut forward = Forward::new(at(0), policy(), repeatable, None);
    assert_eq!(forward.poll(at(0)), Some(ForwardOrder::Claim));
    assert_eq!(forward.poll(at(0)), None, "it is asked once");
    forward.found(at(1), Found::Held(A, true));
    assert_eq!(forward.poll(at(1)), Some(ForwardOrder::Send(A)));
    assert!(forward.is_sent());
    forward
}

#[test]
fn an_owner_that_is_known_is_asked_without_the_store() {
    let mut forward = Forward::new(at(0), policy(), false, Some(A));
    assert_eq!(forward.poll(at(0)), Some(ForwardOrder::Send(A)));
    forward.sent(at(1), Sent::Answered);
    assert_eq!((forward.poll(at(1)), forward.deadline()), (None, None));
}

#[test]
fn a_session_that_nobody_owns_is_served_here() {
    let mut forward = Forward::new(at(0), policy(), false, None);
    assert_eq!(forward.poll(at(0)), Some(ForwardOrder::Claim));
    forward.found(at(1), Found::Granted);
    assert_eq!(forward.poll(at(1)), Some(ForwardOrder::Serve));
    assert_eq!(forward.poll(at(1)), None);
}

#[test]
fn what_may_have_been_done_is_settled_unless_it_is_safe() {
    let mut forward = sent(false);
    forward.sent(at(2), Sent::Lost);
    assert_eq!(forward.poll(at(2)), Some(ForwardOrder::Settle));
    let mut forward = sent(true);
    forward.sent(at(2), Sent::Lost);
    let again = forward.deadline().expect("a deadline");
    assert_eq!(forward.poll(again), Some(ForwardOrder::Claim));
    forward.found(again, Found::Held(B, true));
    assert_eq!(forward.poll(again), Some(ForwardOrder::Send(B)));
    forward.sent(again, Sent::Lost);
    assert_eq!(forward.poll(again), Some(ForwardOrder::Settle), "once more");
}

#[test]
fn an_owner_that_does_not_have_the_session_says_so_and_the_store_is_asked_again() {
    let mut forward = sent(false);
    let mut now = at(2);
    for detour in 0..=policy().detours {
        forward.sent(now, Sent::Elsewhere);
        let next = forward.deadline().expect("a deadline").max(now);
        // At once the first time, then not so fast.
        let soon = detour == 0 || detour == policy().detours;
        assert_eq!(next == now, soon, "{detour}");
        now = next;
        let order = forward.poll(now);
        if detour == policy().detours {
            let refused = ForwardOrder::Refuse(NotForwarded::Held);
            return assert_eq!(order, Some(refused));
        }
        assert_eq!(order, Some(ForwardOrder::Claim));
        let next = if detour % 2 == 0 { B } else { A };
        forward.found(now, Found::Held(next, true));
        assert_eq!(forward.poll(now), Some(ForwardOrder::Send(next)));
    }
}

/// As after a restart in the same place: the lease of the one before is not over.
#[test]
fn an_owner_that_is_no_more_is_waited_for_until_its_lease_is_over() {
    let mut forward = sent(false);
    let (mut now, mut looks) = (at(2), 0);
    while now < at(15_000) {
        forward.sent(now, Sent::Elsewhere);
        now = forward.deadline().expect("a deadline").max(now);
        assert_eq!(forward.poll(now), Some(ForwardOrder::Claim));
        forward.found(now, Found::Held(A, true));
        assert_eq!(forward.poll(now), Some(ForwardOrder::Send(A)));
        looks += 1;
    }
    assert!(looks > policy().detours && looks < 100, "{looks}");
    forward.sent(now, Sent::Elsewhere);
    now = forward.deadline().expect("a deadline").max(now);
    assert_eq!(forward.poll(now), Some(ForwardOrder::Claim));
    forward.found(now, Found::Granted);
    assert_eq!(forward.poll(now), Some(ForwardOrder::Serve));
}

#[test]
fn a_silent_owner_is_waited_for_until_its_lease_is_over() {
    for (repeatable, order) in [(false, ForwardOrder::Settle), (true, ForwardOrder::Serve)] {
        let mut forward = sent(repeatable);
        let look = forward.deadline().expect("a deadline");
        assert_eq!(look, at(1) + policy().silence);
        assert_eq!(forward.poll(look), Some(ForwardOrder::Claim));
        forward.found(look, Found::Held(A, true));
        let look = forward.deadline().expect("a deadline");
        assert_eq!(forward.poll(look), Some(ForwardOrder::Claim));
        forward.found(look, Found::Granted);
        assert_eq!(forward.poll(look), Some(order));
    }
}

#[test]
fn a_silent_owner_that_has_lost_the_session_is_not_waited_for() {
    let mut forward = sent(false);
    let look = forward.deadline().expect("a deadline");
    assert_eq!(forward.poll(look), Some(ForwardOrder::Claim));
    forward.found(look, Found::Held(B, true));
    assert_eq!(forward.poll(look), Some(ForwardOrder::Settle));
}

#[test]
fn a_silent_owner_whose_session_has_ended_may_have_done_it() {
    let mut forward = sent(false);
    let look = forward.deadline().expect("a deadline");
    assert_eq!(forward.poll(look), Some(ForwardOrder::Claim));
    forward.found(look, Found::Absent);
    assert_eq!(forward.poll(look), Some(ForwardOrder::Settle));
}

#[test]
fn patience_ends_and_says_whether_something_may_have_been_done() {
    let mut forward = sent(false);
    let end = at(0) + policy().patience;
    assert_eq!(forward.poll(end), Some(ForwardOrder::Settle));
    let mut forward = sent(false);
    forward.sent(at(2), Sent::Unreached);
    let refused = ForwardOrder::Refuse(NotForwarded::Held);
    assert_eq!(forward.poll(end), Some(refused));
    assert_eq!(forward.poll(end), None, "it is said once");
}

#[test]
fn what_is_not_found_is_refused_with_the_reason() {
    for (found, why) in [
        (Found::Absent, NotForwarded::Absent),
        (Found::Declined, NotForwarded::Declined),
    ] {
        let mut forward = Forward::new(at(0), policy(), false, None);
        assert!(forward.poll(at(0)).is_some());
        forward.found(at(1), found);
        assert_eq!(forward.poll(at(1)), Some(ForwardOrder::Refuse(why)));
    }
}

/// Looks at the store whenever it is time to, and is told this. When and why it is given up.
fn given_up(forward: &mut Forward, found: impl Fn(Time) -> Found) -> (Time, ForwardOrder) {
    let mut now = at(0);
    loop {
        match forward.poll(now) {
            Some(ForwardOrder::Claim) => forward.found(now, found(now)),
            Some(order) => return (now, order),
            None => now = forward.deadline().expect("a deadline"),
        }
    }
}

/// No SDK repeats a request that was refused with status 503.
#[test]
fn an_owner_that_is_found_nowhere_is_waited_for_until_its_lease_is_over() {
    let mut forward = Forward::new(at(0), policy(), false, None);
    let end = given_up(&mut forward, |_| Found::Held(A, false));
    let refused = ForwardOrder::Refuse(NotForwarded::Held);
    assert_eq!(end, (at(0) + policy().patience, refused));
    let lease = at(15_000);
    let mut forward = Forward::new(at(0), policy(), false, None);
    let (served, order) = given_up(&mut forward, |now| match now < lease {
        true => Found::Held(A, false),
        false => Found::Granted,
    });
    assert_eq!(order, ForwardOrder::Serve);
    assert!(lease <= served && served <= lease + policy().retry);
}

#[test]
fn a_store_that_is_started_again_is_waited_for_and_one_that_is_gone_is_not() {
    let refused = ForwardOrder::Refuse(NotForwarded::Unkept);
    let mut forward = Forward::new(at(0), policy(), false, None);
    let (when, order) = given_up(&mut forward, |_| Found::Failed);
    assert_eq!(order, refused);
    assert!(when >= at(0) + policy().outage && when <= at(0) + policy().outage + policy().retry);
    let mut forward = Forward::new(at(0), policy(), false, None);
    let (_, order) = given_up(&mut forward, |now| match now < at(2000) {
        true => Found::Failed,
        false => Found::Granted,
    });
    assert_eq!(order, ForwardOrder::Serve);
    // Each outage has its own time, and all of them together no more than anything else.
    let mut forward = Forward::new(at(0), policy(), false, None);
    let last = std::cell::Cell::new(NotForwarded::Held);
    let (when, order) = given_up(&mut forward, |now| {
        let is_out = now.since_start().as_millis() / 2000 % 2 == 0;
        let (found, why) = match is_out {
            true => (Found::Failed, NotForwarded::Unkept),
            false => (Found::Held(A, false), NotForwarded::Held),
        };
        last.set(why);
        found
    });
    let why = last.get();
    assert_eq!(order, ForwardOrder::Refuse(why));
    assert_eq!(when, at(0) + policy().patience);
}

/// What a schedule has come across.
#[derive(Debug, Default)]
struct Seen {
    served: u64,
    settled: u64,
    refused: u64,
    answered: u64,
    repeated: u64,
    timed_out: u64,
}

/// One request, and all that can happen to it. Owners may get what was sent at any time, twice if the network wants,
/// and the edge may hear of it or not.
fn schedule(seed: u64, seen: &mut Seen) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let repeatable = dice.below(2) == 0;
    let known = (dice.below(3) == 0).then_some(A);
    let policy = policy();
    let mut forward = Forward::new(at(0), policy, repeatable, known);
    let (mut now, mut ends, mut executed, mut sends) = (at(0), 0, 0, 0);
    // What was sent, and whether its owner has got it. An owner does not get it again (the nonces see to that).
    let (mut on_way, mut looking) = (None::<(Owner, bool)>, false);
    let mut maybe_heard = 0;
    let mut nonces = Nonces::default();
    loop {
        while let Some(order) = forward.poll(now) {
            if ends > 0 {
                return Err(format!("{order:?} after the end"));
            }
            match order {
                ForwardOrder::Claim => looking = true,
                ForwardOrder::Send(owner) => {
                    sends += 1;
                    if maybe_heard > 0 && !repeatable {
                        return Err("what is not safe is sent again".into());
                    }
                    seen.repeated += u64::from(maybe_heard > 0);
                    on_way = Some((owner, false));
                }
                ForwardOrder::Serve => {
                    executed += 1;
                    ends += 1;
                    seen.served += 1;
                }
                ForwardOrder::Settle => {
                    ends += 1;
                    seen.settled += 1;
                    // What was on its way may have arrived; else something was lost before.
                    if maybe_heard == 0 && on_way.is_none() {
                        return Err("settled although nobody can have got it".into());
                    }
                }
                ForwardOrder::Refuse(_) => {
                    ends += 1;
                    seen.refused += 1;
                    if executed > 0 {
                        return Err("it was done, and it is said that nothing was".into());
                    }
                }
            }
        }
        let most = if repeatable { 2 } else { 1 };
        if executed > most {
            return Err(format!("executed {executed} times"));
        }
        let patience = at(0) + policy.patience;
        if ends > 0 || !forward.is_sent() && on_way.is_none() && forward.deadline().is_none() {
            break;
        }
        if now > patience {
            return Err("it waits for ever".into());
        }
        match dice.below(12) {
            0..=2 => {
                seen.timed_out += u64::from(forward.deadline().is_some_and(|it| it >= patience));
                now = forward.deadline().unwrap_or(now).max(now);
            }
            3 => now = now + Duration::from_millis(dice.below(4000)),
            4..=6 if looking => {
                looking = false;
                let found = match dice.below(8) {
                    0 => Found::Granted,
                    1 => Found::Absent,
                    2 => Found::Failed,
                    7 => Found::Declined,
                    3 => Found::Held(B, dice.below(4) > 0),
                    _ => Found::Held(A, dice.below(8) > 0),
                };
                // The store says so only when the lease of whoever was asked is over: it does nothing from now on.
                let is_over = |asked: Owner| match found {
                    Found::Granted => true,
                    Found::Held(owner, _) => owner != asked,
                    Found::Absent | Found::Failed | Found::Declined => false,
                };
                if on_way.take_if(|(asked, _)| is_over(*asked)).is_some() {
                    maybe_heard += 1;
                }
                forward.found(now, found);
            }
            7..=8 => {
                if let Some((owner, heard)) = &mut on_way {
                    // Once or twice, by whatever is between them.
                    for _ in 0..=dice.below(2) {
                        if nonces.admit(owner.0, sends, WALL, now) {
                            executed += 1;
                        }
                    }
                    *heard = true;
                }
            }
            9.. => {
                if let Some((_, heard)) = on_way.take() {
                    let sent = match (heard, dice.below(3)) {
                        (true, 0) => Sent::Answered,
                        (false, 0) => Sent::Unreached,
                        (false, 1) => Sent::Elsewhere,
                        _ => Sent::Lost,
                    };
                    maybe_heard += u32::from(sent == Sent::Lost);
                    seen.answered += u64::from(sent == Sent::Answered);
                    ends += u32::from(sent == Sent::Answered);
                    forward.sent(now, sent);
                }
            }
            _ => {}
        }
    }
    match ends {
        1 => Ok(()),
        _ => Err(format!("it has ended {ends} times")),
    }
}

#[test]
fn a_request_ends_once_and_in_time_and_nothing_unsafe_is_done_twice() {
    let schedules = number("OUTLIVE_SCHEDULES").unwrap_or(20_000);
    let mut seen = Seen::default();
    for seed in 0..schedules {
        if let Err(why) = schedule(seed, &mut seen) {
            panic!("seed {seed}: {why}");
        }
    }
    let Seen {
        served,
        settled,
        refused,
        answered,
        repeated,
        timed_out,
    } = seen;
    let all = [served, settled, refused, answered, repeated, timed_out];
    assert!(all.iter().all(|it| *it > 0), "{seen:?}");
}

#[test]
fn a_number_is_heard_once_whatever_its_order() {
    let mut nonces = Nonces::default();
    let mut dice = Dice::new(7);
    let mut heard = std::collections::BTreeSet::new();
    let mut highest = 0;
    for _ in 0..50_000 {
        let number = match dice.below(4) {
            0 => highest + 1 + dice.below(3),
            1 if dice.below(200) == 0 => highest + dice.below(2 * WINDOW),
            _ => highest.saturating_sub(dice.below(2 * WINDOW)),
        };
        highest = highest.max(number);
        let is_new = nonces.admit(1, number, WALL, at(0));
        let may_be_new = number > 0 && number + WINDOW > highest;
        assert_eq!(is_new, may_be_new && heard.insert(number), "{number}");
        if is_new {
            heard.insert(number);
        }
    }
}

#[test]
fn senders_are_bounded_and_forgotten_when_all_they_sent_is_stale() {
    let mut nonces = Nonces::default();
    assert!(nonces.is_empty());
    let senders = (0..).take_while(|sender| nonces.admit(*sender, 1, WALL, at(0)));
    let most = senders.count();
    assert!((2..=1024).contains(&most), "{most}");
    assert_eq!(nonces.len(), most);
    assert!(
        nonces.admit(0, 2, WALL, at(0)),
        "those that are known go on"
    );
    let (later, made) = (at(0) + FRESH * 2, WALL + FRESH * 2);
    let just_before = at(0) + (FRESH * 2 - Duration::from_millis(1));
    assert!(!nonces.admit(5000, 1, made, just_before), "all are known");
    assert!(nonces.admit(5000, 1, made, later) && nonces.len() == 1);
}

/// A wall clock that is set back makes an old request fresh again, but not new.
#[test]
fn what_a_forgotten_sender_has_sent_is_not_heard_again_whatever_the_date() {
    let mut nonces = Nonces::default();
    let most = (0..).take_while(|sender| nonces.admit(*sender, 1, WALL, at(0)));
    let most = most.count() as u64;
    let later = at(0) + FRESH * 2;
    let second = Duration::from_secs(1);
    assert!(nonces.admit(most + 1, 1, WALL + second, later));
    assert_eq!(nonces.len(), 1);
    assert!(
        !nonces.admit(0, 1, WALL, later),
        "it was heard, and forgotten"
    );
    assert!(nonces.admit(0, 2, WALL + second, later), "this is new");
    assert!(!nonces.admit(0, 2, WALL + second, later));
}

#[test]
fn a_forgotten_sender_is_remembered_by_the_last_that_it_made() {
    let (second, later) = (Duration::from_secs(1), at(0) + FRESH * 2);
    let mut nonces = Nonces::default();
    assert!(nonces.admit(1, 1, WALL, at(0)));
    assert!(nonces.admit(1, 2, WALL + second * 5, at(0)));
    // Its clock is set back: what it has signed before counts all the same.
    assert!(nonces.admit(1, 3, WALL - second, at(0)));
    assert!(!nonces.is_empty());
    let more = (1000..).take_while(|sender| nonces.admit(*sender, 1, WALL, at(0)));
    let most = more.count() as u64 + 1;
    // Those that have said nothing since are forgotten, and these two are not.
    for sender in [1000, 1001] {
        assert!(nonces.admit(sender, 2, WALL, later));
    }
    assert!(nonces.admit(2, 1, WALL + second * 7, later));
    assert_eq!(nonces.len(), 3);
    for (number, made) in [(1, WALL), (2, WALL + second * 5)] {
        assert!(!nonces.admit(1, number, made, later), "it was heard");
    }
    // What is remembered of them does not shrink with the next that are forgotten, whose clocks are behind.
    let much_later = later + FRESH * 2;
    assert!(nonces.admit(2, 2, WALL + second * 8, much_later));
    for sender in 5000..5000 + most - 2 {
        assert!(nonces.admit(sender, 1, WALL + second * 9, much_later));
    }
    assert_eq!(nonces.len() as u64, most - 1, "two were forgotten");
    assert!(!nonces.admit(1, 2, WALL + second * 5, much_later));
}

#[test]
fn numbers_that_leap_take_no_time_and_do_not_overflow() {
    let mut nonces = Nonces::default();
    for number in [1, 1 << 40, u64::MAX - WINDOW, u64::MAX] {
        assert!(nonces.admit(1, number, WALL, at(0)), "{number}");
        assert!(!nonces.admit(1, number, WALL, at(0)), "{number}");
    }
    assert!(!nonces.admit(1, 1, WALL, at(0)));
}

#[test]
fn a_request_waits_longer_than_a_lease_and_looks_often_enough() {
    let ForwardPolicy {
        patience,
        retry,
        silence,
        ..
    } = policy();
    let millis = Duration::from_millis;
    assert_eq!((patience, silence), (millis(20_000), millis(5000)));
    assert_eq!(retry, millis(250));
    assert_eq!(ForwardPolicy::of(millis(1500)).retry, millis(100));
    // Whatever it waits for, it is looked at when its patience ends.
    let mut forward = Forward::new(at(0), policy(), false, None);
    assert!(forward.poll(at(0)).is_some() && !forward.is_sent());
    assert_eq!(forward.deadline(), Some(at(20_000)));
    forward.found(at(1), Found::Held(A, true));
    assert!(forward.poll(at(1)).is_some() && forward.is_sent());
    forward.sent(at(2), Sent::Unreached);
    assert!(!forward.is_sent());
    assert_eq!(forward.deadline(), Some(at(252)));
}
