//! The session table of a listener, and the bytes of unfinished messages, in virtual time.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use outlive_core::Time;
use outlive_core::byte_budget::{ByteBudget, NoRoom, STALLED};
use outlive_core::session_table::{
    Activity, Admission, Ends, Full, Principal, SessionKey, SessionTable, TableLimits, Tracked,
};

const A: Principal = Principal(1);
const B: Principal = Principal(2);

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
        let ticket = self.table.arrive(now);
        assert_eq!(self.table.admit(ticket, now), Admission::Admitted);
        let session = self.open(principal, now);
        session.change(|it| it.confirmed = true);
        session
    }

    fn open(&mut self, principal: Principal, now: Time) -> Session {
        self.names += 1;
        let session = Session {
            name: self.names,
            ..Session::default()
        };
        session.change(|it| it.last = now);
        let id = self.names.to_string();
        self.table.open(id, principal, session.clone(), now);
        session
    }

    fn arrive(&mut self, now: Time) -> (SessionKey, Admission) {
        let ticket = self.table.arrive(now);
        (ticket, self.table.admit(ticket, now))
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
    assert!(rig.table.find("1", Principal::ANYONE).is_none());
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
    let (_, refused) = rig.arrive(at(60));
    assert_eq!(refused, Admission::Full(Full::Sessions));
    assert_eq!(rig.table.waiting(), 0);
    rig.client(B, at(61));
    assert_eq!(rig.ended(), [2]);
    rig.client(B, at(62));
    assert_eq!(rig.ended(), [3]);
    let (_, refused) = rig.arrive(at(63));
    assert_eq!(refused, Admission::Full(Full::Sessions));
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
fn nobody_gives_way_to_one_that_is_refused() {
    let mut rig = Rig::new(few_servers(2));
    rig.client(A, at(0));
    rig.client(A, at(0));
    let (late, waits) = rig.arrive(at(100));
    assert_eq!((waits, rig.ended().len()), (Admission::Wait(at(110)), 1));
    let refused = rig.table.admit(late, at(110));
    assert_eq!(refused, Admission::Full(Full::Servers));
    assert_eq!((rig.ended().len(), rig.table.len()), (0, 1));
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
    let (_, refused) = rig.arrive(at(19));
    assert_eq!(refused, Admission::Full(Full::Sessions));
    rig.client(A, at(20));
    assert_eq!(rig.ended(), [2]);
}

fn few_servers(servers: usize) -> TableLimits {
    TableLimits {
        servers,
        ..TableLimits::default()
    }
}

#[test]
fn fm_32_a_server_that_is_being_stopped_still_has_its_place() {
    let mut rig = Rig::new(few_servers(2));
    rig.client(A, at(0));
    rig.client(A, at(0));
    let (_, refused) = rig.arrive(at(1));
    assert_eq!(refused, Admission::Full(Full::Servers));
    rig.table.end("1");
    // Its server has not ended yet.
    let (first, waits) = rig.arrive(at(1));
    assert_eq!(waits, Admission::Wait(at(11)));
    // There is one place to come, and one who waits for it.
    let (_, refused) = rig.arrive(at(2));
    assert_eq!(refused, Admission::Full(Full::Servers));
    assert_eq!(rig.table.admit(first, at(3)), Admission::Wait(at(11)));
    rig.table.release();
    assert_eq!(rig.table.admit(first, at(4)), Admission::Admitted);
    rig.open(A, at(4));
    assert_eq!((rig.table.len(), rig.table.taken()), (2, 2));
}

#[test]
fn fm_32_whoever_gives_way_is_waited_for_and_no_longer_than_that() {
    let mut rig = Rig::new(few_servers(2));
    rig.client(A, at(0));
    rig.client(A, at(0));
    let (first, waits) = rig.arrive(at(100));
    assert_eq!(waits, Admission::Wait(at(110)));
    assert_eq!(rig.ended().len(), 1);
    // Asking again ends nobody else.
    assert_eq!(rig.table.admit(first, at(101)), Admission::Wait(at(110)));
    assert_eq!(rig.ended(), [0; 0]);
    // Another one has another place.
    let (second, waits) = rig.arrive(at(101));
    assert_eq!(waits, Admission::Wait(at(111)));
    assert_eq!(rig.ended().len(), 1);
    // In turn.
    rig.table.release();
    assert_eq!(rig.table.admit(second, at(102)), Admission::Wait(at(111)));
    assert_eq!(rig.table.admit(first, at(102)), Admission::Admitted);
    assert_eq!(rig.table.admit(second, at(110)), Admission::Wait(at(111)));
    let late = rig.table.admit(second, at(111));
    assert_eq!(late, Admission::Full(Full::Servers));
    assert_eq!(rig.table.waiting(), 0);
}

#[test]
fn one_who_leaves_the_queue_lets_the_next_one_in() {
    let mut rig = Rig::new(few_servers(1));
    rig.client(A, at(0));
    rig.table.end("1");
    let (first, _) = rig.arrive(at(0));
    rig.table.depart(first);
    let (second, waits) = rig.arrive(at(0));
    assert_eq!(waits, Admission::Wait(at(10)));
    rig.table.release();
    assert_eq!(rig.table.admit(second, at(1)), Admission::Admitted);
    // It opens nothing after all.
    rig.table.decline();
    rig.table.release();
    rig.client(A, at(2));
    assert_eq!((rig.table.len(), rig.table.taken()), (1, 1));
}

#[test]
fn fm_12_a_client_whose_server_is_kept_needs_no_place() {
    let mut rig = Rig::new(few_servers(1));
    rig.client(A, at(0));
    rig.table.end("1");
    let ticket = rig.table.arrive(at(1));
    let admitted = rig.table.admit_to_kept(ticket, at(1));
    assert_eq!((admitted, rig.table.waiting()), (Admission::Admitted, 0));
    rig.open(A, at(1));
    // It has the kept one, and gives back its own.
    rig.table.release();
    assert_eq!((rig.table.len(), rig.table.taken()), (1, 1));
    let limits = TableLimits {
        sessions: 1,
        ..few_servers(1)
    };
    let mut rig = Rig::new(limits);
    rig.client(A, at(0));
    let ticket = rig.table.arrive(at(1));
    let refused = rig.table.admit_to_kept(ticket, at(1));
    assert_eq!(refused, Admission::Full(Full::Sessions));
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

/// Clients come, use their sessions, vanish; servers end late; time passes. The bounds hold after every step, nobody
/// in use is ended for a newcomer, and nobody waits longer than it may.
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
        servers: 1 + dice.roll(6) as usize,
        ..TableLimits::default()
    };
    let mut rig = Rig::new(limits);
    let mut now = 0;
    let mut open: BTreeMap<u64, Session> = BTreeMap::new();
    // Servers that are alive: of sessions, and of those that have ended.
    let mut servers = 0;
    let mut ending = 0;
    let mut waiting: Vec<(SessionKey, u64)> = Vec::new();
    for _ in 0..120 {
        match dice.roll(9) {
            0 | 1 => waiting.push((rig.table.arrive(at(now)), now)),
            2 => {
                let which = dice.roll(open.len().max(1) as u64) as usize;
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
            3 => {
                let which = dice.roll(open.len().max(1) as u64) as usize;
                if let Some(name) = open.keys().nth(which).copied() {
                    open.remove(&name);
                    assert!(rig.table.end(&name.to_string()).is_some());
                    ending += 1;
                }
            }
            4 | 5 if ending > 0 => {
                rig.table.release();
                (ending, servers) = (ending - 1, servers - 1);
            }
            6 => now += 1 + dice.roll(90),
            7 => {
                let before = rig.table.len();
                rig.table.expire(at(now));
                for name in rig.ended() {
                    let session = open.remove(&name).expect("a session of ours");
                    assert!(!session.activity().in_use, "seed {seed}");
                    ending += 1;
                }
                assert!(rig.table.len() <= before);
            }
            _ => {
                let asked = std::mem::take(&mut waiting);
                for (ticket, since) in asked {
                    let admission = rig.table.admit(ticket, at(now));
                    for name in rig.ended() {
                        let session = open.remove(&name).expect("a session of ours");
                        assert!(!session.activity().in_use, "seed {seed}");
                        ending += 1;
                    }
                    match admission {
                        Admission::Admitted => {
                            let session = rig.open(A, at(now));
                            open.insert(session.name, session);
                            servers += 1;
                        }
                        Admission::Wait(until) => {
                            assert_eq!(until, at(since) + limits.wait, "seed {seed}");
                            assert!(ending > 0, "seed {seed}: it waits for nobody");
                            assert!(at(now) < until, "seed {seed}: it waits for ever");
                            waiting.push((ticket, since));
                        }
                        Admission::Full(Full::Sessions) => {}
                        Admission::Full(Full::Servers) => {
                            let room = limits.servers.saturating_sub(servers);
                            assert!(waiting.len() >= room, "seed {seed}: there is room");
                        }
                    }
                }
            }
        }
        assert_eq!(rig.table.len(), open.len(), "seed {seed}");
        assert_eq!(rig.table.taken(), servers, "seed {seed}");
        assert_eq!(rig.table.waiting(), waiting.len(), "seed {seed}");
        assert!(open.len() <= limits.sessions, "seed {seed}");
        assert!(servers <= limits.servers, "seed {seed}");
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
