//! Several processes that share a store and its lock, an authorization server that rotates refresh tokens, a server
//! that refuses tokens, a person who logs in or does not, a network that loses what it likes, and two clocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use outlive_core::Time;
use outlive_core::login::{
    Grant, GrantId, Input, Login, LoginPolicy, Moment, NoToken, Output, Refreshed, Ticket, Want,
};

use crate::random::Dice;

/// An invariant that does not hold.
#[derive(Debug)]
pub struct Broken {
    pub invariant: u8,
    pub how: String,
}

fn broken<T>(invariant: u8, how: impl Into<String>) -> Result<T, Broken> {
    let how = how.into();
    Err(Broken { invariant, how })
}

macro_rules! seen {
    ($($name:ident),* $(,)?) => {
        /// What schedules came across.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Seen {
            $(pub $name: usize,)*
        }

        impl Seen {
            pub fn add(&mut self, other: &Seen) {
                $(self.$name += other.$name;)*
            }

            pub fn check(&self) {
                $(assert!(self.$name >= 10, "{}: {} in {self:?}", stringify!($name), self.$name);)*
            }
        }
    };
}

seen!(
    wants,
    answered,
    answered_from_the_store,
    refreshes,
    early_refreshes,
    refused,
    unsent,
    unknown,
    answers_lost,
    tried_in_doubt,
    logins,
    logins_failed,
    logins_stopped,
    step_ups,
    still_refused,
    scope_refused,
    login_failed,
    declined,
    told_declined,
    login_pending,
    other_process,
    unavailable,
    killed,
    killed_with_the_lock,
    killed_in_a_refresh,
    killed_in_a_login,
    clock_jumps,
    corrupted,
    forgotten,
    unmarked,
    unkept,
    unkept_refreshed,
    left,
    left_in_a_refresh,
    left_while_marking,
    left_in_a_login,
    left_too_late,
    told_leaving,
);

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Time passes: as many milliseconds.
    Pass(u64),
    /// The clock on the wall jumps by so many seconds.
    Jump(i64),
    /// Somebody in a process wants a token: with the one it has refused or not.
    Want {
        process: usize,
        refused: bool,
        step_up: bool,
        patience: u64,
    },
    /// Somebody in a process does not wait any more.
    Forget(usize),
    /// The server accepts what this process has.
    Accept(usize),
    /// The next thing that a process has asked for happens; `how` says in which way.
    Work { process: usize, how: u8 },
    /// A process is killed, and another started in its place.
    Kill(usize),
    /// A process leaves in order, and another is started in its place when it has left.
    Leave(usize),
    /// Whoever is asked to log in does not want to.
    Decline(usize),
    /// The store is corrupted, or somebody logs out.
    Corrupt,
    /// The authorization server withdraws all refresh tokens.
    Withdraw,
}

pub fn draw(dice: &mut Dice, steps: usize) -> Vec<Step> {
    (0..steps)
        .map(|_| {
            let process = dice.below(8) as usize;
            match dice.below(100) {
                0..=13 => Step::Pass([1, 10, 100, 1000, 5000, 30_000][dice.below(6) as usize]),
                14 => Step::Pass(400_000),
                15 => Step::Jump([-100_000, -60, -5, 5, 60, 100_000][dice.below(6) as usize]),
                16..=35 => Step::Want {
                    process,
                    refused: dice.below(3) == 0,
                    step_up: dice.below(8) == 0,
                    patience: [50, 1000, 20_000, 600_000][dice.below(4) as usize],
                },
                36 => Step::Forget(process),
                37..=39 => Step::Accept(process),
                40 => Step::Decline(process),
                41..=95 => Step::Work {
                    process,
                    how: dice.below(256) as u8,
                },
                96 => Step::Kill(process),
                97 => Step::Leave(process),
                98 => Step::Corrupt,
                _ => Step::Withdraw,
            }
        })
        .collect()
}

/// Something a process has asked for.
#[derive(Clone, Debug)]
enum Task {
    Load,
    Save(Grant),
    Refresh(GrantId),
    Login(Vec<String>),
}

struct Process {
    login: Login,
    tasks: VecDeque<Task>,
    wants_lock: bool,
    /// What its callers use.
    has: Option<GrantId>,
    /// A grant that it could not keep, and which one the store held then.
    unkept: Option<(Grant, Option<GrantId>)>,
    open: BTreeMap<Ticket, (Want, Time)>,
    /// It leaves, and is to have left at this moment.
    leaving: Option<Time>,
}

impl Process {
    fn new(seed: u64) -> Process {
        Process {
            login: Login::new(policy(), seed),
            tasks: VecDeque::new(),
            wants_lock: false,
            has: None,
            unkept: None,
            open: BTreeMap::new(),
            leaving: None,
        }
    }
}

pub fn policy() -> LoginPolicy {
    LoginPolicy {
        login: Duration::from_secs(60),
        ..LoginPolicy::default()
    }
}

pub struct World {
    processes: Vec<Process>,
    now: Moment,
    life: Option<Duration>,
    rotates: bool,
    store: Option<Grant>,
    lock: Option<usize>,
    next: u64,
    /// Refresh tokens that would be exchanged.
    good: BTreeSet<GrantId>,
    /// Refresh tokens that were exchanged, and whose answer arrived at whoever asked.
    spent: BTreeSet<GrantId>,
    /// Refresh tokens whose exchange, or its answer, was lost.
    lost: BTreeSet<GrantId>,
    /// Which token each that came of a refresh was exchanged for.
    exchanged_for: BTreeMap<GrantId, GrantId>,
    /// How many of the next writes to the store fail.
    unwritable: u8,
    pub seen: Seen,
    pub log: Vec<String>,
}

impl World {
    pub fn new(dice: &mut Dice) -> World {
        let count = [1, 2, 2, 3, 8][dice.below(5) as usize];
        let life = [Some(5), Some(60), Some(3600), None][dice.below(4) as usize];
        let mut world = World {
            processes: (0..count).map(Process::new).collect(),
            now: Moment {
                time: Time::ZERO,
                wall: Duration::from_secs(1_000_000),
            },
            life: life.map(Duration::from_secs),
            rotates: dice.below(4) > 0,
            store: None,
            lock: None,
            next: 100,
            good: BTreeSet::new(),
            spent: BTreeSet::new(),
            lost: BTreeSet::new(),
            exchanged_for: BTreeMap::new(),
            unwritable: 0,
            seen: Seen::default(),
            log: Vec::new(),
        };
        if dice.below(4) > 0 {
            let grant = world.grant(true, Vec::new());
            world.store = Some(grant);
        }
        world
    }

    fn grant(&mut self, by_login: bool, scopes: Vec<String>) -> Grant {
        self.next += 1;
        let id = GrantId(self.next);
        self.good.insert(id);
        Grant {
            id,
            issued: self.now.wall,
            expires: self.life.map(|life| self.now.wall + life),
            renewable: true,
            in_doubt: false,
            by_login,
            scopes,
        }
    }

    pub fn step(&mut self, step: Step) -> Result<(), Broken> {
        self.log
            .push(format!("{:?} {step:?}", self.now.time.since_start()));
        let count = self.processes.len();
        match step {
            Step::Pass(ms) => return self.pass(Duration::from_millis(ms)),
            Step::Jump(seconds) => {
                self.seen.clock_jumps += 1;
                let by = Duration::from_secs(seconds.unsigned_abs());
                self.now.wall = match seconds < 0 {
                    true => self.now.wall.saturating_sub(by),
                    false => self.now.wall + by,
                };
            }
            Step::Want {
                process,
                refused,
                step_up,
                patience,
            } => {
                let at = process % count;
                let has = self.processes[at].has;
                self.next += 1;
                let want = Want {
                    refused: has.filter(|_| refused || step_up),
                    scopes: match step_up {
                        true => vec![format!("s{}", self.next % 3)],
                        false => Vec::new(),
                    },
                    step_up: step_up && has.is_some(),
                    patience: Duration::from_millis(patience),
                };
                self.seen.wants += 1;
                let ticket = Ticket(self.next);
                let until = self.now.time + want.patience;
                let known = (want.clone(), until);
                self.processes[at].open.insert(ticket, known);
                return self.feed(at, Input::Want(ticket, want));
            }
            Step::Forget(process) => {
                let at = process % count;
                let first = self.processes[at].open.keys().next().copied();
                if let Some(ticket) = first {
                    self.seen.forgotten += 1;
                    self.processes[at].open.remove(&ticket);
                    return self.feed(at, Input::Forget(ticket));
                }
            }
            Step::Accept(process) => {
                let at = process % count;
                if let Some(id) = self.processes[at].has {
                    return self.feed(at, Input::Accepted(id));
                }
            }
            Step::Work { process, how } => return self.work(process % count, how),
            Step::Kill(process) => return self.kill(process % count),
            Step::Leave(process) => return self.leave(process % count),
            Step::Corrupt if self.lock.is_none() => {
                self.seen.corrupted += 1;
                self.store = None;
            }
            Step::Corrupt => {}
            Step::Withdraw => self.good.clear(),
            Step::Decline(process) => return self.decline(process % count),
        }
        Ok(())
    }

    /// Whoever is asked does not want to: nobody is asked any more, and nobody waits for it here.
    fn decline(&mut self, at: usize) -> Result<(), Broken> {
        let asked = self.processes[at].login.is_asking();
        self.feed(at, Input::Declined)?;
        if !asked {
            return Ok(());
        }
        self.seen.declined += 1;
        let tasks = &self.processes[at].tasks;
        match tasks.iter().any(|task| matches!(task, Task::Login(_))) {
            true => broken(9, "somebody who has declined is still asked"),
            false => Ok(()),
        }
    }

    /// A process is told to leave.
    fn leave(&mut self, at: usize) -> Result<(), Broken> {
        let process = &mut self.processes[at];
        if process.leaving.is_none() {
            process.leaving = Some(self.now.time + policy().farewell);
            match process.tasks.front() {
                Some(Task::Refresh(_)) => self.seen.left_in_a_refresh += 1,
                Some(Task::Login(_)) => self.seen.left_in_a_login += 1,
                Some(Task::Save(grant)) if grant.in_doubt => self.seen.left_while_marking += 1,
                _ => {}
            }
        }
        self.feed(at, Input::Leave)
    }

    /// A process has left, and another is started in its place. What it has sent may be lost if it has waited for it
    /// long enough, and not before.
    fn left(&mut self, at: usize) -> Result<(), Broken> {
        let process = &self.processes[at];
        if !process.open.is_empty() {
            return broken(3, format!("process {at} has left, and somebody waits"));
        }
        if self.lock == Some(at) {
            return broken(7, format!("process {at} has left with the lock"));
        }
        let mut tasks = process.tasks.iter();
        let unfinished = tasks.find(|it| matches!(it, Task::Refresh(_) | Task::Save(_)));
        self.seen.left += 1;
        match unfinished {
            None => {
                self.next += 1;
                self.processes[at] = Process::new(self.next);
                Ok(())
            }
            Some(_) if process.leaving.is_some_and(|until| until <= self.now.time) => {
                self.seen.left_too_late += 1;
                self.kill(at)
            }
            Some(task) => broken(10, format!("process {at} has left in {task:?}")),
        }
    }

    /// Time passes, and whoever wants to be woken meanwhile is.
    fn pass(&mut self, by: Duration) -> Result<(), Broken> {
        let end = self.now.time + by;
        for round in 0.. {
            if round > 5000 {
                return broken(9, "somebody is woken again and again");
            }
            let due = |(at, it): (usize, &Process)| Some((it.login.deadline()?, at));
            let next = self.processes.iter().enumerate().filter_map(due).min();
            let Some((time, at)) = next.filter(|(time, _)| *time <= end) else {
                break;
            };
            let wait = time - self.now.time;
            self.now.wall += wait;
            self.now.time = self.now.time + wait;
            self.feed(at, Input::Tick)?;
        }
        let rest = end - self.now.time;
        self.now.wall += rest;
        self.now.time = end;
        self.check_patience()
    }

    fn check_patience(&self) -> Result<(), Broken> {
        for (at, it) in self.processes.iter().enumerate() {
            if it.leaving.is_some_and(|until| until < self.now.time) {
                return broken(10, format!("process {at} is still here"));
            }
            for (ticket, (_, until)) in &it.open {
                if *until < self.now.time {
                    return broken(3, format!("{ticket:?} of process {at} still waits"));
                }
            }
        }
        Ok(())
    }

    fn feed(&mut self, at: usize, input: Input) -> Result<(), Broken> {
        self.log.push(format!("  {at} <- {input:?}"));
        self.processes[at].login.handle(self.now, input);
        while let Some(output) = self.processes[at].login.poll() {
            self.log.push(format!("  {at} -> {output:?}"));
            self.take(at, output)?;
        }
        self.hand_out_lock()?;
        if self.processes[at].login.is_idle() && self.lock == Some(at) {
            return broken(7, format!("process {at} keeps the lock"));
        }
        match self.processes[at].login.has_left() {
            true => self.left(at),
            false => Ok(()),
        }
    }

    fn take(&mut self, at: usize, output: Output) -> Result<(), Broken> {
        let ours = self.lock == Some(at);
        let begins = matches!(
            output,
            Output::Load | Output::Lock | Output::Refresh(_) | Output::LogIn(_)
        );
        if begins && self.processes[at].leaving.is_some() {
            return broken(10, format!("process {at} leaves, and begins {output:?}"));
        }
        match output {
            Output::Load => self.processes[at].tasks.push_back(Task::Load),
            Output::Lock => self.processes[at].wants_lock = true,
            Output::Unlock => {
                self.processes[at].wants_lock = false;
                if ours {
                    self.lock = None;
                }
            }
            Output::Save(grant) => {
                if !ours {
                    return broken(5, format!("process {at} keeps {grant:?} without the lock"));
                }
                self.processes[at].tasks.push_back(Task::Save(grant));
            }
            Output::Refresh(id) => {
                if !ours {
                    return broken(2, format!("process {at} refreshes without the lock"));
                }
                self.check_doubt(at, id)?;
                self.seen.refreshes += 1;
                self.processes[at].tasks.push_back(Task::Refresh(id));
            }
            Output::LogIn(scopes) => {
                if !ours {
                    return broken(2, format!("process {at} logs in without the lock"));
                }
                self.check_reason(at)?;
                self.seen.logins += 1;
                self.processes[at].tasks.push_back(Task::Login(scopes));
            }
            Output::StopLogin => {
                self.seen.logins_stopped += 1;
                let tasks = &mut self.processes[at].tasks;
                tasks.retain(|task| !matches!(task, Task::Login(_)));
            }
            Output::Answer(ticket, how) => self.answered(at, ticket, how)?,
        }
        let busy = self.processes.iter().flat_map(|it| &it.tasks);
        let exchanges = busy.filter(|it| matches!(it, Task::Refresh(_) | Task::Login(_)));
        match exchanges.count() {
            0 | 1 => Ok(()),
            several => broken(2, format!("{several} exchanges at a time")),
        }
    }

    /// A refresh token is about to be sent. If nobody knows what came of it the last time, it is the last resort.
    fn check_doubt(&mut self, at: usize, id: GrantId) -> Result<(), Broken> {
        if !self.lost.contains(&id) {
            return Ok(());
        }
        self.seen.tried_in_doubt += 1;
        let expired = self
            .seen_by(at)
            .is_some_and(|it| it.is_expired(self.now.wall));
        let wanted = |(want, _): &(Want, Time)| expired || want.refused == Some(id);
        match self.processes[at].open.values().any(wanted) {
            true => Ok(()),
            false => broken(1, "a token in doubt is tried, and nobody needs it"),
        }
    }

    /// Somebody is asked to log in: there must be no other way, for somebody who waits.
    fn check_reason(&mut self, at: usize) -> Result<(), Broken> {
        let Some(grant) = self.seen_by(at) else {
            return Ok(());
        };
        let wall = self.now.wall;
        let reason = self.processes[at].open.values().any(|(want, _)| {
            let refused = want.refused == Some(grant.id);
            let step_up = want.step_up && !want.scopes.iter().all(|it| grant.scopes.contains(it));
            step_up && !grant.is_expired(wall)
                || (refused || grant.is_expired(wall)) && !grant.renewable
                || refused && !grant.by_login
        });
        match reason {
            true => Ok(()),
            false => broken(
                4,
                format!("process {at} logs in although there is {grant:?}"),
            ),
        }
    }

    fn answered(
        &mut self,
        at: usize,
        ticket: Ticket,
        how: Result<GrantId, NoToken>,
    ) -> Result<(), Broken> {
        let Some((want, until)) = self.processes[at].open.remove(&ticket) else {
            return broken(8, format!("{ticket:?} is answered, but does not wait"));
        };
        match how {
            Ok(id) => {
                self.seen.answered += 1;
                if want.refused == Some(id) {
                    return broken(6, format!("{ticket:?} gets what was refused"));
                }
                if self.store.as_ref().is_some_and(|it| it.id == id) && self.lock != Some(at) {
                    self.seen.answered_from_the_store += 1;
                }
                self.processes[at].has = Some(id);
            }
            Err(why) => {
                let seen = &mut self.seen;
                match why {
                    NoToken::LoginPending => seen.login_pending += 1,
                    NoToken::OtherProcess => seen.other_process += 1,
                    NoToken::Unavailable => seen.unavailable += 1,
                    NoToken::LoginFailed => seen.login_failed += 1,
                    NoToken::Declined => seen.told_declined += 1,
                    NoToken::StillRefused => seen.still_refused += 1,
                    NoToken::ScopeRefused => seen.scope_refused += 1,
                    NoToken::Leaving => seen.told_leaving += 1,
                }
                let early = matches!(why, NoToken::LoginPending | NoToken::OtherProcess)
                    && self.now.time < until;
                if early {
                    return broken(3, format!("{ticket:?} is given up before its time"));
                }
            }
        }
        Ok(())
    }

    fn hand_out_lock(&mut self) -> Result<(), Broken> {
        if self.lock.is_some() {
            return Ok(());
        }
        let Some(at) = self.processes.iter().position(|it| it.wants_lock) else {
            return Ok(());
        };
        self.processes[at].wants_lock = false;
        self.lock = Some(at);
        self.feed(at, Input::Locked)
    }

    fn work(&mut self, at: usize, how: u8) -> Result<(), Broken> {
        let Some(task) = self.processes[at].tasks.pop_front() else {
            return Ok(());
        };
        let input = match task {
            Task::Load => {
                let stored = self.store.as_ref().map(|it| it.id);
                let unkept = &mut self.processes[at].unkept;
                unkept.take_if(|(_, before)| *before != stored);
                Input::Loaded(self.store.clone())
            }
            Task::Save(grant) if self.disk_is_full(how) => {
                self.cannot_keep(at, grant);
                Input::Unsaved
            }
            Task::Save(grant) => {
                self.store = Some(grant);
                self.processes[at].unkept = None;
                Input::Saved
            }
            Task::Refresh(id) => Input::Refreshed(self.refresh(at, id, how)?),
            Task::Login(scopes) if how < 150 => {
                if scopes.iter().any(|it| it.starts_with('s')) {
                    self.seen.step_ups += 1;
                }
                Input::LoggedIn(Some(self.grant(true, scopes)))
            }
            Task::Login(scopes) if how < 200 => {
                // The person thinks.
                self.processes[at].tasks.push_back(Task::Login(scopes));
                return Ok(());
            }
            Task::Login(_) => {
                self.seen.logins_failed += 1;
                Input::LoggedIn(None)
            }
        };
        let granted = match &input {
            Input::Refreshed(Refreshed::Granted(grant)) => Some(grant.id),
            _ => None,
        };
        self.feed(at, input)?;
        // It has not left: what it was given is to be kept first.
        let mut tasks = self.processes[at].tasks.iter();
        let kept = |id| tasks.any(|task| matches!(task, Task::Save(grant) if grant.id == id));
        match granted.is_none_or(kept) {
            true => Ok(()),
            false => broken(10, format!("process {at} throws away what it was given")),
        }
    }

    /// Whether the disk is full, or may not be written: mostly not for one write alone.
    fn disk_is_full(&mut self, how: u8) -> bool {
        self.unwritable = match how {
            235.. => how % 8,
            _ => self.unwritable.saturating_sub(1),
        };
        how >= 235 || self.unwritable > 0
    }

    /// What cannot be written stays with the process that has it.
    fn cannot_keep(&mut self, at: usize, grant: Grant) {
        let stored = self.store.as_ref().map(|it| it.id);
        let same = stored == Some(grant.id);
        if same && grant.in_doubt && grant.renewable {
            self.seen.unmarked += 1;
            return;
        }
        self.seen.unkept += 1;
        self.exchanged_in_vain(&grant);
        self.processes[at].unkept = Some((grant, stored));
    }

    /// What was exchanged is not kept: if the store has the token that it was exchanged for, that one is in doubt.
    fn exchanged_in_vain(&mut self, grant: &Grant) {
        let stored = self.store.as_ref().map(|it| it.id);
        if let Some(before) = self.exchanged_for.get(&grant.id)
            && stored == Some(*before)
        {
            self.lost.insert(*before);
            self.spent.remove(before);
        }
    }

    /// What a process goes by: the store, unless it has something that it could not put there.
    fn seen_by(&self, at: usize) -> Option<Grant> {
        let stored = self.store.as_ref().map(|it| it.id);
        let unkept = self.processes[at].unkept.as_ref();
        let unkept = unkept.filter(|(_, before)| *before == stored);
        match (unkept, self.store.clone()) {
            (Some((grant, _)), Some(stored)) if grant.id == stored.id => Some(Grant {
                renewable: grant.renewable && stored.renewable,
                ..stored
            }),
            (Some((grant, _)), _) => Some(grant.clone()),
            (None, stored) => stored,
        }
    }

    /// The authorization server is asked to exchange a refresh token.
    fn refresh(&mut self, at: usize, id: GrantId, how: u8) -> Result<Refreshed, Broken> {
        let Some(grant) = self.seen_by(at).filter(|it| it.id == id) else {
            return broken(1, "a token is sent that is not in the store".to_string());
        };
        let stored = self.store.as_ref().filter(|it| it.id == id);
        match stored {
            Some(stored) if !stored.in_doubt => {
                return broken(1, "a token is sent that is not marked".to_string());
            }
            Some(_) => {}
            None => self.seen.unkept_refreshed += 1,
        }
        if self.processes[at].open.is_empty() {
            self.seen.early_refreshes += 1;
        }
        if how < 20 {
            self.seen.unsent += 1;
            return Ok(Refreshed::Unsent);
        }
        if self.spent.contains(&id) {
            return broken(1, format!("{id:?} was exchanged before"));
        }
        if (20..40).contains(&how) {
            self.seen.unknown += 1;
            self.lost.insert(id);
            return Ok(Refreshed::Unknown);
        }
        if !self.exchange(id) {
            self.seen.refused += 1;
            return Ok(Refreshed::Refused);
        }
        if (40..55).contains(&how) {
            self.seen.answers_lost += 1;
            self.lost.insert(id);
            return Ok(Refreshed::Unknown);
        }
        if self.rotates {
            self.spent.insert(id);
        }
        let new = self.grant(false, grant.scopes);
        self.exchanged_for.insert(new.id, id);
        Ok(Refreshed::Granted(new))
    }

    /// Whether it is good; a rotating server then takes it for good, and reuse costs the family.
    fn exchange(&mut self, id: GrantId) -> bool {
        match self.rotates {
            true => self.good.remove(&id),
            false => self.good.contains(&id),
        }
    }

    fn kill(&mut self, at: usize) -> Result<(), Broken> {
        self.seen.killed += 1;
        self.next += 1;
        let killed = std::mem::replace(&mut self.processes[at], Process::new(self.next));
        for task in killed.tasks {
            match task {
                Task::Refresh(id) => {
                    self.seen.killed_in_a_refresh += 1;
                    self.lost.insert(id);
                    // It may have arrived.
                    if self.next.is_multiple_of(2) {
                        self.exchange(id);
                    }
                }
                Task::Login(_) => self.seen.killed_in_a_login += 1,
                // The file is replaced whole, or not at all.
                Task::Save(grant) => match self.next.is_multiple_of(2) {
                    true => self.store = Some(grant),
                    false => self.exchanged_in_vain(&grant),
                },
                Task::Load => {}
            }
        }
        if self.lock == Some(at) {
            self.seen.killed_with_the_lock += 1;
            self.lock = None;
            return self.hand_out_lock();
        }
        Ok(())
    }

    /// Everything that was asked for happens, and time passes: then nobody waits, and nobody has the lock.
    pub fn end(&mut self) -> Result<(), Broken> {
        for _ in 0..40 {
            for _ in 0..10 {
                for at in 0..self.processes.len() {
                    self.work(at, 100)?;
                }
            }
            self.pass(Duration::from_secs(30))?;
        }
        self.check_patience()?;
        for it in &self.processes {
            if !it.open.is_empty() {
                return broken(3, format!("{:?} still wait", it.open));
            }
        }
        // With tokens that live for seconds somebody always refreshes; what is begun must come to its end.
        for _ in 0..100 {
            for at in 0..self.processes.len() {
                self.work(at, 100)?;
            }
        }
        match self.lock {
            Some(at) => broken(7, format!("process {at} has the lock at the end")),
            None => Ok(()),
        }
    }
}
