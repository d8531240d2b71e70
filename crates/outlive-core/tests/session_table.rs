//! The session table of a listener, and the bytes of unfinished messages, in virtual time.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use outlive_core::Time;
use outlive_core::byte_budget::{ByteBudget, NoRoom, STALLED};
use outlive_core::session_table::{Activity, Ends, Principal, SessionTable, TableLimits, Tracked};

const A: Principal = Principal::Token(1);
const B: Principal = Principal::Token(2);

fn at(seconds: u64) -> Time {
    Time::after(Duration::from_secs(seconds))
}

/// A session of which the test says what it does.
#[derive(Clone, Debug, Default)]
struct Session {
    name: u64,
    activity: Rc<Cell<Activity>>,
}

impl Tracked for Session {
    fn activity(&self) -> Activity {
        self.activity.get()
    }
}

impl Session {
    fn change(&self, change: impl FnOnce(&mut Activity)) {
        let mut activity = self.activity.get();
        change(&mut activity);
        self.activity.set(activity);
    }
}

struct Rig {
    table: SessionTable<Session>,
    names: u64,
}

impl Rig {
    fn new(limits: TableLimits) -> Rig {
        Rig {
            table: SessionTable::new(limits),
            names: 0,
        }
    }

    /// A client that is let in and confirms its session.
    #[track_caller]
    fn client(&mut self, principal: Principal, now: Time) -> Session {
        let session = self.open(principal, now).expect("there is room");
        session.change(|it| it.confirmed = true);
        session
    }

    fn open(&mut self, principal: Principal, now: Time) -> Result<Session, Session> {
        self.names += 1;
        let session = Session {
            name: self.names,
            ..Session::default()
        };
        session.change(|it| it.last = now);
        let id = self.names.to_string();
        self.table.open(id, principal, session.clone(), now)?;
        Ok(session)
    }

    /// Whether a newcomer is refused.
    fn is_full(&mut self, now: Time) -> bool {
        self.open(B, now).is_err()
    }

    /// The names of those that were ended.
    fn ended(&mut self) -> Vec<u64> {
        let ended = self.table.take_ended();
        ended.iter().map(|session| session.name).collect()
    }
}

#[test]
fn invariant_a_session_exists_for_the_principal_that_opened_it_alone() {
    let mut rig = Rig::new(TableLimits::default());
    rig.client(A, at(0));
    assert!(rig.table.find("1", A).is_some());
    assert!(rig.table.find("1", B).is_none());
    assert!(rig.table.find("1", Principal::Anyone).is_none());
    assert!(rig.table.find("2", A).is_none());
}

#[test]
fn sessions_of_a_principal_that_is_withdrawn_end() {
    let mut rig = Rig::new(TableLimits::default());
    rig.client(A, at(0));
    let busy = rig.client(A, at(0));
    busy.change(|it| it.in_use = true);
    rig.client(B, at(0));
    rig.table.withdraw(|principal| principal == B);
    let mut ended = rig.ended();
    ended.sort_unstable();
    assert_eq!((ended, rig.table.len()), (vec![1, 2], 1));
}

#[test]
fn fm_39_a_session_ends_when_its_time_has_come_and_not_before() {
    let limits = TableLimits {
        ttl: Duration::from_secs(100),
        ..TableLimits::default()
    };
    let mut rig = Rig::new(limits);
    let session = rig.client(A, at(0));
    rig.table.expire(at(100));
    assert_eq!(rig.table.len(), 1);
    session.change(|it| it.last = at(50));
    rig.table.expire(at(150));
    assert_eq!(rig.table.len(), 1);
    let (_, _, used, ends) = rig.table.iter(at(150)).next().expect("a session");
    assert_eq!((used, ends), (at(50), Ends::At(at(150))));
    rig.table.expire(at(151));
    assert_eq!(rig.ended(), [1]);
}

#[test]
fn fm_40_a_session_in_use_does_not_end_and_its_time_begins_afterwards() {
    let mut rig = Rig::new(TableLimits::default());
    let session = rig.client(A, at(0));
    session.change(|it| it.in_use = true);
    rig.table.expire(at(10_000));
    assert_eq!(rig.table.len(), 1);
    let (_, _, _, ends) = rig.table.iter(at(10_000)).next().expect("a session");
    assert_eq!(ends, Ends::InUse);
    session.change(|it| it.in_use = false);
    rig.table.expire(at(10_000 + 1800));
    assert_eq!(rig.table.len(), 1);
    rig.table.expire(at(10_000 + 1801));
    assert_eq!(rig.ended(), [1]);
}

#[test]
fn fm_39_a_client_that_never_used_its_id_is_soon_forgotten() {
    let mut rig = Rig::new(TableLimits::default());
    let silent = rig.client(A, at(0));
    silent.change(|it| it.confirmed = false);
    rig.client(A, at(0));
    rig.table.expire(at(60));
    assert_eq!(rig.table.len(), 2);
    rig.table.expire(at(61));
    assert_eq!(rig.ended(), [1]);
    // Where sessions last for less than that, so do these.
    let limits = TableLimits {
        ttl: Duration::from_secs(5),
        ..TableLimits::default()
    };
    let mut rig = Rig::new(limits);
    rig.client(A, at(0)).change(|it| it.confirmed = false);
    rig.table.expire(at(6));
    assert_eq!(rig.ended(), [1]);
}

#[test]
fn one_that_nobody_can_use_ends_at_once() {
    let mut rig = Rig::new(TableLimits::default());
    rig.client(A, at(0)).change(|it| it.over = true);
    rig.table.expire(at(0));
    assert_eq!(rig.ended(), [1]);
}

#[test]
fn fm_39_the_longest_unused_gives_way() {
    let limits = TableLimits {
        sessions: 3,
        ..TableLimits::default()
    };
    let mut rig = Rig::new(limits);
    let busy = rig.client(A, at(0));
    busy.change(|it| it.in_use = true);
    rig.client(A, at(1));
    rig.client(A, at(2));
    assert!(rig.is_full(at(60)));
    rig.client(B, at(61));
    assert_eq!(rig.ended(), [2]);
    rig.client(B, at(62));
    assert_eq!(rig.ended(), [3]);
    assert!(rig.is_full(at(63)));
}

#[test]
fn of_several_the_one_that_was_unused_longest_gives_way() {
    let limits = TableLimits {
        sessions: 3,
        ..TableLimits::default()
    };
    let mut rig = Rig::new(limits);
    for name in 1..=3 {
        rig.client(A, at(name)).change(|it| it.last = at(10 - name));
    }
    for gone in [3, 2, 1] {
        rig.client(B, at(200));
        assert_eq!(rig.ended(), [gone]);
    }
}

#[test]
fn one_whose_client_closed_its_stream_gives_way_sooner() {
    let limits = TableLimits {
        sessions: 2,
        ..TableLimits::default()
    };
    let mut rig = Rig::new(limits);
    rig.client(A, at(0));
    rig.client(A, at(10)).change(|it| it.left = true);
    assert!(rig.is_full(at(19)));
    rig.client(A, at(20));
    assert_eq!(rig.ended(), [2]);
}

#[test]
fn one_that_is_of_no_use_to_the_newcomer_does_not_give_way() {
    let mut rig = Rig::new(TableLimits::default());
    for _ in 1..=3 {
        rig.client(A, at(0));
    }
    assert!(!rig.table.give_way(at(59), |_| true));
    assert!(rig.table.give_way(at(60), |session| session.name == 2));
    assert_eq!(rig.ended(), [2]);
    assert!(!rig.table.give_way(at(60), |session| session.name == 2));
    assert_eq!((rig.ended().len(), rig.table.len()), (0, 2));
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Clients come, use their sessions, vanish; time passes. The bound holds after every step, and nobody in use is ended
/// for a newcomer.
#[test]
fn invariant_the_bounds_hold_in_random_schedules() {
    for seed in 1..=3000 {
        schedule(seed);
    }
}

fn schedule(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let limits = TableLimits {
        sessions: 1 + dice.roll(6) as usize,
        ..TableLimits::default()
    };
    let mut rig = Rig::new(limits);
    let mut now = 0;
    let mut open: BTreeMap<u64, Session> = BTreeMap::new();
    for _ in 0..120 {
        let which = dice.roll(open.len().max(1) as u64) as usize;
        let room = open.len() < limits.sessions;
        match dice.roll(8) {
            0..=2 => match rig.open(A, at(now)) {
                Ok(session) => drop(open.insert(session.name, session)),
                Err(_) => assert!(!room, "seed {seed}: there is room"),
            },
            3 => {
                if let Some(session) = open.values().nth(which) {
                    let (use_it, left) = (dice.roll(2) == 0, dice.roll(4) == 0);
                    session.change(|it| {
                        *it = Activity {
                            in_use: use_it,
                            last: at(now),
                            confirmed: true,
                            left,
                            over: false,
                        }
                    });
                }
            }
            4 => {
                if let Some(name) = open.keys().nth(which).copied() {
                    open.remove(&name);
                    assert!(rig.table.end(&name.to_string()).is_some());
                }
            }
            5 => now += 1 + dice.roll(90),
            6 => rig.table.expire(at(now)),
            _ => drop(rig.table.give_way(at(now), |session| session.name % 2 == 0)),
        }
        for name in rig.ended() {
            let session = open.remove(&name).expect("a session of ours");
            assert!(!session.activity().in_use, "seed {seed}");
        }
        assert_eq!(rig.table.len(), open.len(), "seed {seed}");
        assert!(open.len() <= limits.sessions, "seed {seed}");
    }
}

#[test]
fn fm_60_unfinished_messages_have_a_bound_together() {
    let mut budget = ByteBudget::new(100);
    let (a, b) = (budget.begin(at(0)), budget.begin(at(0)));
    assert_eq!(budget.grow(a, 60, at(0)), Ok(vec![]));
    assert_eq!(budget.grow(b, 41, at(0)), Err(NoRoom));
    assert_eq!(budget.grow(b, 40, at(0)), Ok(vec![]));
    assert_eq!(budget.used(), 100);
    budget.end(a);
    assert_eq!((budget.used(), budget.has(a)), (40, false));
    assert_eq!(budget.grow(a, 1, at(0)), Err(NoRoom), "it has ended");
    assert_eq!(budget.used(), 40);
}

#[test]
fn fm_60_those_that_send_nothing_give_way_longest_first() {
    let mut budget = ByteBudget::new(100);
    let all: Vec<_> = (0..3).map(|n| budget.begin(at(n))).collect();
    for (n, share) in all.iter().enumerate() {
        assert_eq!(budget.grow(*share, 30, at(n as u64)), Ok(vec![]));
    }
    budget.progress(all[0], at(3));
    let late = budget.begin(at(4));
    assert_eq!(budget.grow(late, 50, at(4)), Err(NoRoom), "nobody stalls");
    let stalled = at(1) + STALLED;
    assert_eq!(budget.grow(late, 50, stalled), Err(NoRoom), "one does");
    assert!(budget.has(all[1]), "and it would not be enough");
    let stalled = at(2) + STALLED;
    assert_eq!(budget.grow(late, 50, stalled), Ok(vec![all[1], all[2]]));
    assert_eq!(budget.used(), 80);
    assert!(budget.has(all[0]) && !budget.has(all[1]));
    // One does not give way to itself.
    assert_eq!(budget.grow(late, 70, at(100)), Err(NoRoom));
    assert!(budget.has(late) && budget.has(all[0]));
}

#[test]
fn fm_60_the_one_that_stalls_longest_gives_way_first() {
    let mut budget = ByteBudget::new(60);
    let (a, b) = (budget.begin(at(0)), budget.begin(at(0)));
    assert_eq!(budget.grow(a, 30, at(0)), Ok(vec![]));
    assert_eq!(budget.grow(b, 30, at(0)), Ok(vec![]));
    budget.progress(a, at(1));
    let late = budget.begin(at(100));
    assert_eq!(budget.grow(late, 30, at(100)), Ok(vec![b]));
    assert!(budget.has(a));
}
