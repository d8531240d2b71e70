//! A session that is kept in a [store](crate::store): what is written of it, and who waits for that.
//!
//! What is to be written is noted where it happens, and written by one task for each session, whatever has come
//! together by then at once. Nobody on the way of a prompt call waits for it. A store that cannot be reached is asked
//! again until it can; what depends on it waits. When the store says that the session has another owner, nothing more
//! is said in it.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use outlive_core::message::Kind as MessageKind;
use outlive_core::meter::{Histogram, Latency};
use outlive_core::replay_buffer::Lease;
use outlive_core::session_record::{self, OpenRequests, Part, Record, Write};
use outlive_core::tenure::{self, ForwardPolicy, LeaseOrder, LeasePolicy, Owner, Renewal, Tenure};
use outlive_core::{Frame, Message, Time};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::listener::Tell;
use super::replay_buffer::ReplayBuffer;
use super::replicas::Replicas;
use crate::store::{Answer, NewSession, Store, StoreError};

/// How long a store may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// KiB of requests that wait for the owners of their sessions, over all clients. Each counts as one at least.
pub(super) const WAITING_KIB: usize = 64 << 10;

/// How long after a store has failed it is asked again.
pub(super) const REST: Duration = Duration::from_millis(250);

/// How a store does.
#[cfg_attr(
    not(feature = "gateway"),
    expect(dead_code, reason = "only a gateway shows it")
)]
pub(crate) struct StoreStats {
    /// Why sessions cannot be kept at the moment, if they cannot.
    pub(crate) trouble: Option<String>,
    /// Whether this process has a lease, or needs none.
    pub(crate) may_act: bool,
    pub(crate) latency: Histogram,
    pub(crate) failures: u64,
}

/// A store, and who we are to it.
pub(crate) struct Durability {
    store: Arc<dyn Store>,
    owner: AtomicU64,
    /// How long a session is kept that nobody uses.
    ttl: Duration,
    /// What the store has failed with last, until it works again.
    trouble: Mutex<Option<String>>,
    /// Until when we may act, in nanoseconds of the [clock](boot_time); for ever where there are no leases.
    until: AtomicU64,
    /// A session is taken over once at a time; those that share a lock wait for each other.
    takeovers: [tokio::sync::Mutex<()>; 64],
    /// Where others find us; empty if they do not.
    address: String,
    /// The others, if we forward to them.
    pub(crate) replicas: Option<Arc<Replicas>>,
    /// Room for requests that wait for the owners of their sessions, or for the store.
    pub(super) waiting: Arc<Semaphore>,
    /// Sessions that were taken over, and leases that were lost.
    pub(crate) taken_over: AtomicU64,
    pub(crate) stood_down: AtomicU64,
    /// This process ends, and takes nothing over any more.
    pub(super) hands_over: AtomicBool,
    /// How long the store took to answer, also that it cannot.
    latency: Latency,
    /// How often it has failed.
    failures: AtomicU64,
    tell: Tell,
}

impl Durability {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        ttl: Duration,
        tell: Tell,
        address: String,
        replicas: Option<Arc<Replicas>>,
    ) -> Durability {
        let leased = store.lease().is_some();
        Durability {
            store,
            owner: AtomicU64::new(fresh_owner().0),
            ttl,
            trouble: Mutex::default(),
            until: AtomicU64::new(match leased {
                true => 0,
                false => u64::MAX,
            }),
            takeovers: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            address,
            replicas,
            waiting: Arc::new(Semaphore::new(WAITING_KIB)),
            taken_over: AtomicU64::new(0),
            stood_down: AtomicU64::new(0),
            hands_over: AtomicBool::new(false),
            latency: Latency::default(),
            failures: AtomicU64::new(0),
            tell,
        }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Who we are to the store.
    pub(crate) fn owner(&self) -> Owner {
        Owner(self.owner.load(Ordering::SeqCst))
    }

    /// Whether we may act for sessions.
    pub(crate) fn may_act(&self) -> bool {
        let until = self.until.load(Ordering::Acquire);
        until == u64::MAX || boot_time() < Time::after(Duration::from_nanos(until))
    }

    /// Whether we may act under this right: it was given to the name that we have, whose lease lasts. What was asked
    /// for under an earlier name may be granted after its lease is over, and is nothing to us.
    pub(crate) fn may_act_under(&self, tenure: Tenure) -> bool {
        tenure.owner == self.owner() && self.may_act()
    }

    /// Keeps the lease, for as long as this is polled. Whenever it is lost, `stand_down` ends all that we do, and we
    /// become somebody else.
    pub(crate) async fn keep_lease(&self, stand_down: impl Fn()) {
        let Some(length) = self.store.lease() else {
            return std::future::pending().await;
        };
        let policy = LeasePolicy::of(length);
        let mut lease = tenure::Lease::new(policy);
        loop {
            match lease.poll(boot_time()) {
                Some(LeaseOrder::Ask { begins }) => {
                    let renewed = self.ask(self.store.renew(self.owner(), &self.address, begins));
                    // No answer is worth waiting for longer than the lease lasts.
                    let left = lease.deadline().map_or(policy.renew, |at| at - boot_time());
                    let renewal = match timeout(left.min(policy.renew), renewed).await {
                        Ok(Ok(true)) => Renewal::Granted,
                        Ok(Ok(false)) => Renewal::Refused,
                        Ok(Err(_)) | Err(_) => Renewal::Failed,
                    };
                    lease.answered(boot_time(), renewal);
                }
                Some(LeaseOrder::StandDown) => {
                    self.until.store(0, Ordering::Release);
                    self.stood_down.fetch_add(1, Ordering::Relaxed);
                    (self.tell)(
                        "the lease of this process has run out: another one may answer for its sessions, so it ends \
                         them here",
                    );
                    // In this order: what comes to be here while all are ended looks at the name afterwards.
                    self.owner.store(fresh_owner().0, Ordering::SeqCst);
                    stand_down();
                    lease = tenure::Lease::new(policy);
                }
                None => {
                    let left = lease.deadline().map_or(policy.retry, |at| at - boot_time());
                    // In steps: the timers of the runtime stand still while the machine sleeps.
                    sleep(left.min(policy.retry)).await;
                }
            }
            let until = lease
                .until()
                .map_or(0, |at| at.since_start().as_nanos() as u64);
            self.until.store(until, Ordering::Release);
        }
    }

    /// How long a request waits for a store that fails. One that is this process's alone is not started again.
    pub(super) fn outage(&self) -> Duration {
        let lease = self.store.lease();
        lease.map_or(Duration::ZERO, |it| ForwardPolicy::of(it).outage)
    }

    /// Whether this process ends, and takes nothing over any more.
    pub(super) fn hands_over(&self) -> bool {
        self.hands_over.load(Ordering::Acquire)
    }

    /// Waits until nobody else takes this session over.
    pub(super) async fn takeover(&self, id: &str) -> tokio::sync::MutexGuard<'_, ()> {
        let mut hasher = rustc_hash::FxHasher::default();
        id.hash(&mut hasher);
        self.takeovers[(hasher.finish() % 64) as usize].lock().await
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Why sessions cannot be kept at the moment, if they cannot.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock();
        trouble.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How the store does, for those who watch.
    pub(crate) fn stats(&self) -> StoreStats {
        StoreStats {
            trouble: self.trouble(),
            may_act: self.may_act(),
            latency: self.latency.read(),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    /// What the store answers, within the time it has.
    pub(crate) async fn ask<T>(&self, answer: Answer<'_, T>) -> Result<T, StoreError> {
        let late = |_| StoreError::new(format!("it has not answered for {} s", PATIENCE.as_secs()));
        let asked = Instant::now();
        let answer = timeout(PATIENCE, answer).await.map_err(late);
        let answer = answer.and_then(|answer| answer);
        self.latency.note(asked.elapsed());
        if answer.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        let failed = answer.as_ref().err().map(StoreError::to_string);
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *trouble, failed.clone());
        drop(trouble);
        match (before, failed) {
            (None, Some(why)) => (self.tell)(&format!(
                "the store of sessions does not work: {why}; sessions in use go on, and no other is begun or taken over"
            )),
            (Some(_), None) => (self.tell)("the store of sessions works again"),
            _ => {}
        }
        answer
    }
}

/// The time since the machine was started, which goes on while it sleeps.
#[cfg(unix)]
fn boot_time() -> Time {
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let now = rustix::time::clock_gettime(clock);
    let (seconds, nanos) = (now.tv_sec.max(0) as u64, now.tv_nsec.max(0) as u32);
    Time::after(Duration::new(seconds, nanos))
}

/// The time since somebody first asked, which goes on while the machine sleeps.
#[cfg(not(unix))]
fn boot_time() -> Time {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    Time::after(BEGUN.get_or_init(std::time::Instant::now).elapsed())
}

/// A name that nobody else has.
fn fresh_owner() -> Owner {
    Owner(crate::run::seed())
}

/// A session that is kept.
pub(crate) struct Durable {
    durability: Arc<Durability>,
    id: String,
    tenure: Tenure,
    replay: Weak<ReplayBuffer>,
    /// Routes send from threads that have no runtime.
    runtime: Handle,
    inside: Mutex<Inside>,
    /// Up to which number everything that was noted is written; the last one if nothing more will be.
    written: watch::Sender<u64>,
}

struct Inside {
    record: Record,
    /// The record is not written as it is.
    dirty: bool,
    writes: Vec<Write>,
    /// How often something was noted.
    noted: u64,
    /// A task is writing.
    writing: bool,
    /// The number of the last write.
    number: u64,
    /// Nothing more is written: the session has another owner, or has ended.
    lost: bool,
}

/// The session is not ours any more.
#[derive(Debug)]
pub(crate) struct Lost;

impl Durable {
    /// Keeps a session that begins.
    pub(crate) async fn begin(
        durability: &Arc<Durability>,
        id: &str,
        principal: String,
        record: Record,
        replay: &Arc<ReplayBuffer>,
    ) -> Result<Arc<Durable>, StoreError> {
        if !durability.may_act() {
            return Err(StoreError::new("this process has no lease"));
        }
        let parts = vec![(Part::Head, record.encode())];
        let owner = durability.owner();
        let session = NewSession::new(id, principal, owner, parts, durability.ttl);
        let tenure = durability.ask(durability.store.begin(session)).await?;
        let durable = Durable::taken_over(durability, id, tenure, record, replay);
        replay.record(durable.clone());
        Ok(durable)
    }

    /// Goes on to keep a session that was taken over.
    pub(crate) fn taken_over(
        durability: &Arc<Durability>,
        id: &str,
        tenure: Tenure,
        record: Record,
        replay: &Arc<ReplayBuffer>,
    ) -> Arc<Durable> {
        Arc::new(Durable {
            durability: durability.clone(),
            id: id.to_owned(),
            tenure,
            replay: Arc::downgrade(replay),
            runtime: Handle::current(),
            inside: Mutex::new(Inside {
                record,
                dirty: false,
                writes: Vec::new(),
                noted: 0,
                writing: false,
                number: 0,
                lost: false,
            }),
            written: watch::Sender::new(0),
        })
    }

    /// The session is here by now, where [`keep_lease`](Durability::keep_lease) finds it. If our name has changed
    /// before, nothing is said in it.
    pub(crate) fn is_here(&self) -> bool {
        let is_ours = self.durability.owner() == self.tenure.owner;
        if !is_ours {
            self.lose();
        }
        is_ours
    }

    pub(crate) fn tenure(&self) -> Tenure {
        self.tenure
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the session is not ours any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.lock().lost
    }

    /// Whether something may be said in it.
    pub(crate) fn may_act(&self) -> bool {
        self.durability.may_act_under(self.tenure) && !self.is_lost()
    }

    /// The client says this. Returns when what a successor must know of it is written.
    pub(crate) async fn note(self: &Arc<Durable>, frame: &Frame) -> Result<(), Lost> {
        let Some(message) = frame.message() else {
            // Batches (2025-03-26) neither set up a session nor change it.
            return Ok(());
        };
        let noted = {
            let mut inside = self.lock();
            if !inside.record.note(message) {
                return Ok(());
            }
            inside.dirty = true;
            inside.noted += 1;
            inside.noted
        };
        self.kick();
        self.wait(noted).await
    }

    /// Promises a stream to the client of these requests. Returns when a successor would know of it.
    pub(crate) async fn promise(
        self: &Arc<Durable>,
        replay: &ReplayBuffer,
        lease: Lease,
        requests: Vec<Message>,
    ) -> Result<(), Lost> {
        let open = OpenRequests {
            requests,
            deaths: 0,
        };
        let write = (Part::Open(lease.channel), Some(open.encode()));
        // In this order: the end of the channel settles what is open on it.
        let noted = self.put(vec![write]);
        replay.promise(lease);
        self.kick();
        self.wait(noted).await
    }

    /// Writes this, and returns when it is written.
    pub(crate) async fn write(self: &Arc<Durable>, writes: Vec<Write>) -> Result<(), Lost> {
        let noted = self.put(writes);
        self.kick();
        self.wait(noted).await
    }

    fn put(&self, writes: Vec<Write>) -> u64 {
        let mut inside = self.lock();
        inside.writes.extend(writes);
        inside.noted += 1;
        inside.noted
    }

    /// Waits until all that was noted up to now is written, or never will be.
    pub(crate) async fn settled(self: &Arc<Durable>) {
        while self.lock().writing {
            let mut written = self.written.subscribe();
            if timeout(REST, written.changed())
                .await
                .is_ok_and(|it| it.is_err())
            {
                return;
            }
        }
    }

    async fn wait(&self, noted: u64) -> Result<(), Lost> {
        let mut written = self.written.subscribe();
        let reached = written.wait_for(|written| *written >= noted).await.is_ok();
        match reached && !self.is_lost() {
            true => Ok(()),
            false => Err(Lost),
        }
    }

    /// Has somebody write what there is to be written.
    pub(crate) fn kick(self: &Arc<Durable>) {
        let mut inside = self.lock();
        if !inside.lost && !std::mem::replace(&mut inside.writing, true) {
            self.runtime.spawn(self.clone().write_all());
        }
    }

    async fn write_all(self: Arc<Durable>) {
        loop {
            // In this order: what ends a channel comes behind what has opened it.
            let replay = self.replay.upgrade();
            let (changes, upto) = replay
                .as_ref()
                .map_or_else(|| (Vec::new(), 0), |replay| replay.take_changes());
            let (mut writes, noted) = self.lock().take();
            for change in changes {
                session_record::writes(change, &mut writes);
            }
            if writes.is_empty() {
                self.written.send_replace(noted);
                self.lock().writing = false;
                // Something may have come in between the two.
                let more = replay.is_some_and(|replay| replay.has_changes());
                if more || self.lock().has_more() {
                    self.kick();
                }
                return;
            }
            if !self.write_once(writes).await {
                return self.lose();
            }
            if let Some(replay) = replay {
                replay.written(upto);
            }
            self.written.send_replace(noted);
        }
    }

    /// Writes this, however long that takes. False if the session is not ours any more.
    async fn write_once(&self, writes: Vec<Write>) -> bool {
        let store = &self.durability.store;
        let number = {
            let mut inside = self.lock();
            inside.number += 1;
            inside.number
        };
        loop {
            let written = store.write(&self.id, self.tenure, number, writes.clone());
            match self.durability.ask(written).await {
                Ok(written) => return written,
                Err(_) if self.is_lost() => return false,
                Err(_) => sleep(REST).await,
            }
        }
    }

    /// Writes nothing more. What is written may still be read.
    pub(crate) fn retire(&self) {
        {
            let mut inside = self.lock();
            (inside.lost, inside.writing) = (true, false);
            inside.writes.clear();
        }
        self.written.send_replace(u64::MAX);
    }

    /// Says nothing more in this session: it has another owner, or has ended. Its clients come back, and are answered
    /// by whoever has it.
    pub(crate) fn lose(&self) {
        self.retire();
        if let Some(replay) = self.replay.upgrade() {
            replay.hang_up_all();
        }
    }

    /// The session has ended, and is kept no longer.
    pub(crate) fn end(self: &Arc<Durable>) {
        let this = self.clone();
        self.runtime.spawn(async move {
            let store = this.durability.store.clone();
            let ended = store.end(&this.id, this.tenure);
            // If it fails, the session runs out by itself.
            let _ = this.durability.ask(ended).await;
            this.lose();
        });
    }

    /// This process ends, and says nothing more in the session; what was promised is left to whoever takes it over, who
    /// need not wait.
    pub(crate) async fn hand_over(self: &Arc<Durable>) {
        let _ = timeout(PATIENCE, self.settled()).await;
        self.retire();
        let released = self.durability.store.release(&self.id, self.tenure);
        let _ = self.durability.ask(released).await;
        // In this order: a client that comes back at once need not wait.
        self.lose();
    }

    /// This process ends: whoever takes the session over need not wait.
    pub(crate) async fn release(self: &Arc<Durable>) {
        let _ = timeout(PATIENCE, self.settled()).await;
        let store = self.durability.store.clone();
        let _ = self
            .durability
            .ask(store.release(&self.id, self.tenure))
            .await;
    }
}

impl Inside {
    fn take(&mut self) -> (Vec<Write>, u64) {
        let mut writes = std::mem::take(&mut self.writes);
        if std::mem::take(&mut self.dirty) {
            writes.push((Part::Head, Some(self.record.encode())));
        }
        (writes, self.noted)
    }

    fn has_more(&self) -> bool {
        self.dirty || !self.writes.is_empty()
    }
}

/// The requests in a frame.
pub(super) fn requests_of(frame: &Frame) -> Vec<Message> {
    let is_request = |message: &&Message| message.kind() == MessageKind::Request;
    match frame {
        Frame::Message(message) => Some(message)
            .filter(is_request)
            .into_iter()
            .cloned()
            .collect(),
        Frame::Batch(all) => {
            let messages = all.iter().filter_map(|it| it.as_ref().ok());
            messages.filter(is_request).cloned().collect()
        }
        Frame::Defect(_) | Frame::TooLong(_) => Vec::new(),
    }
}
