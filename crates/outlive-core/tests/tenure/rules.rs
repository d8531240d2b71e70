//! The rules of leases and claims, one by one.

use std::time::Duration;

use outlive_core::Time;
use outlive_core::tenure::{
    Admission, Claim, Fence, Lease, LeaseOrder, LeasePolicy, LeaseTable, Owner, Renewal, Tenancy,
    Tenure,
};

const A: Owner = Owner(1);
const B: Owner = Owner(2);

fn at(millis: u64) -> Time {
    Time::after(Duration::from_millis(millis))
}

fn policy() -> LeasePolicy {
    LeasePolicy::of(Duration::from_secs(15))
}

/// A lease that was asked for at 1 s and granted at 2 s.
fn granted() -> Lease {
    let mut lease = Lease::new(policy());
    assert_eq!(lease.poll(at(1000)), Some(LeaseOrder::Ask { begins: true }));
    assert!(!lease.may_act(at(1000)));
    lease.answered(at(2000), Renewal::Granted);
    lease
}

#[test]
fn a_lease_counts_from_the_question_and_is_shorter_than_the_stores() {
    let mut lease = granted();
    assert_eq!(lease.until(), Some(at(13_000)));
    assert!(lease.may_act(at(12_999)) && !lease.may_act(at(13_000)));
    assert_eq!(lease.poll(at(5999)), None);
    assert_eq!(lease.deadline(), Some(at(6000)));
    let again = LeaseOrder::Ask { begins: false };
    assert_eq!(lease.poll(at(6000)), Some(again));
    assert_eq!(lease.poll(at(6000)), None, "one question at a time");
}

#[test]
fn a_lease_that_has_run_out_is_over_for_good() {
    let mut lease = granted();
    assert!(lease.poll(at(6000)).is_some());
    assert_eq!(lease.deadline(), Some(at(13_000)));
    assert_eq!(lease.poll(at(13_000)), Some(LeaseOrder::StandDown));
    assert_eq!(lease.poll(at(13_000)), None, "it is said once");
    lease.answered(at(13_001), Renewal::Granted);
    assert!(lease.is_over() && !lease.may_act(at(13_001)));
    assert_eq!((lease.until(), lease.deadline()), (None, None));
}

#[test]
fn an_answer_that_comes_too_late_grants_nothing() {
    let mut lease = Lease::new(policy());
    assert!(lease.poll(at(1000)).is_some());
    lease.answered(at(13_000), Renewal::Granted);
    assert!(!lease.may_act(at(13_000)) && !lease.is_over());
    assert_eq!(
        lease.poll(at(13_000)),
        Some(LeaseOrder::Ask { begins: true })
    );
}

#[test]
fn a_question_that_failed_is_asked_again_soon() {
    let mut lease = granted();
    assert!(lease.poll(at(6000)).is_some());
    lease.answered(at(7000), Renewal::Failed);
    assert!(lease.may_act(at(7000)));
    assert_eq!(lease.deadline(), Some(at(8000)));
    assert_eq!(lease.poll(at(7999)), None);
    assert!(lease.poll(at(8000)).is_some());
}

#[test]
fn an_owner_that_the_store_does_not_know_any_more_stands_down_at_once() {
    let mut lease = granted();
    assert!(lease.poll(at(6000)).is_some());
    lease.answered(at(6001), Renewal::Refused);
    assert!(!lease.may_act(at(6001)));
    assert_eq!(lease.poll(at(6001)), Some(LeaseOrder::StandDown));
}

#[test]
fn the_store_forgets_an_owner_that_was_silent_for_the_length_of_a_lease() {
    let (mut leases, length) = (LeaseTable::default(), policy().length);
    assert!(!leases.renew(A, false, length, at(0)), "it has to begin");
    assert!(leases.renew(A, true, length, at(0)));
    assert!(leases.renew(A, false, length, at(14_999)));
    assert!(leases.lives(A, at(29_998)) && !leases.lives(A, at(29_999)));
    assert!(!leases.renew(A, false, length, at(29_999)));
    assert!(leases.renew(B, true, length, at(30_000)));
    leases.expire(at(50_000));
    assert!(leases.is_empty());
    assert!(leases.renew(A, true, length, at(50_000)));
    leases.release(A);
    assert!(!leases.lives(A, at(50_000)));
}

#[test]
fn a_session_has_one_owner_and_each_has_a_higher_fence() {
    let (mut tenancy, first) = Tenancy::begun(A);
    assert_eq!(tenancy.claim(B, |_| true), Claim::Held(A));
    assert!(tenancy.admits(first));
    let second = Tenure {
        owner: B,
        fence: Fence(2),
    };
    assert_eq!(tenancy.claim(B, |_| false), Claim::Granted(second));
    assert!(tenancy.admits(second) && !tenancy.admits(first));
    assert!(!tenancy.release(first));
    // Its owner may claim it again, and then the claim before counts no more.
    let Claim::Granted(third) = tenancy.claim(B, |_| true) else {
        panic!("it is its own");
    };
    assert!(!tenancy.admits(second) && tenancy.release(third));
    assert!(matches!(tenancy.claim(A, |_| true), Claim::Granted(it) if it.fence == Fence(4)));
}

#[test]
fn a_write_is_carried_out_once_and_in_order() {
    let (mut tenancy, first) = Tenancy::begun(A);
    assert_eq!(tenancy.admit(first, 1), Admission::New);
    assert_eq!(tenancy.admit(first, 1), Admission::Known);
    assert_eq!(tenancy.admit(first, 2), Admission::New);
    assert_eq!(tenancy.admit(first, 1), Admission::Known);
    let Claim::Granted(second) = tenancy.claim(B, |_| false) else {
        panic!("its owner is gone");
    };
    assert_eq!(tenancy.admit(first, 3), Admission::Fenced);
    assert_eq!(tenancy.admit(second, 1), Admission::New);
}

#[test]
fn an_owner_that_is_over_asks_for_nothing_and_is_told_at_once() {
    let mut lease = granted();
    assert!(lease.poll(at(6000)).is_some());
    lease.answered(at(6001), Renewal::Refused);
    assert_eq!(lease.deadline(), Some(Time::ZERO), "it is to be told");
    assert_eq!(lease.poll(at(6001)), Some(LeaseOrder::StandDown));
    assert_eq!(lease.deadline(), None);
    assert_eq!(lease.poll(at(60_000)), None, "its name is of no use");
}

#[test]
fn an_owner_that_may_not_begin_tries_again_not_at_once() {
    let mut lease = Lease::new(policy());
    assert!(lease.poll(at(1000)).is_some());
    lease.answered(at(1500), Renewal::Refused);
    assert_eq!(lease.deadline(), Some(at(2500)));
    assert!(lease.poll(at(2499)).is_none() && lease.poll(at(2500)).is_some());
    // An answer that took longer than the next question could wait.
    lease.answered(at(9000), Renewal::Granted);
    assert_eq!(lease.deadline(), Some(at(9000)));
}

#[test]
fn a_fence_is_nothing_without_its_owner() {
    let (mut tenancy, first) = Tenancy::begun(A);
    let stranger = Tenure { owner: B, ..first };
    assert!(!tenancy.admits(stranger) && !tenancy.release(stranger));
    assert!(tenancy.release(first) && !tenancy.admits(first));
    assert_eq!(tenancy.admit(first, 1), Admission::Fenced);
}

#[test]
fn leases_are_counted() {
    let (mut leases, length) = (LeaseTable::default(), policy().length);
    assert!(leases.is_empty());
    assert_eq!(leases.len(), 0);
    assert!(leases.renew(A, true, length, at(0)) && leases.renew(B, true, length, at(1)));
    assert!(!leases.is_empty() && leases.len() == 2);
    leases.expire(at(15_000));
    assert_eq!(leases.len(), 1);
}
