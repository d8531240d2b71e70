//! All servers of a gateway: the rules for them, their clock, and who carries out what the rules order.
//!
//! The rules are those of the [gateway machine](outlive_core::gateway), behind one lock. The order of locks: a client,
//! the machine, a server. Whoever holds the lock of a server asks the machine nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Instant, SystemTime};

use outlive_core::gateway::{
    Admission, Gateway, NoServer, Opening, Order, ServerId, TargetId, TargetLimits,
};
use outlive_core::router::RouterPolicy;
use outlive_core::switch::{Client, Sharing};
use outlive_core::{Event, Meter, Time};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Upstream;
use super::catalogue::Catalogue;
use super::layout::{Layout, Numbers};
use super::outlet::Outlet;
use super::router_session::Work;
use super::target::Target;
use super::upstream_session::{EVERYBODY, GatewayDownstream, UpstreamSession};
use super::way::Way;
use crate::http_server::{ReplayBuffer, Room};
use crate::io::spin::Thread;
use crate::observer::Observer;
use crate::process::orphan_reaper::OrphanReaper;

/// The rules, and the sessions they are about.
pub(super) type Machine = Gateway<Arc<UpstreamSession>>;

/// All servers of a gateway.
pub(crate) struct Upstreams {
    /// The targets that servers may be started of.
    targets: RwLock<BTreeMap<TargetId, Arc<Target>>>,
    layout: RwLock<Arc<Layout>>,
    /// How often there was another layout.
    pub(super) edition: AtomicU64,
    /// One changes the layout at a time; the numbers that it has given to endpoints.
    pub(super) updating: Mutex<Numbers>,
    /// Rings when there is another layout.
    pub(super) layout_bell: Arc<Notify>,
    /// What is wrong with the settings, if they could not be read again.
    pub(super) problem: Mutex<Option<String>>,
    /// What is known of the targets. There is one if clients can reach all of them through one endpoint; then each
    /// target is at a path that begins with its name, also if it is the only one.
    pub(super) catalogue: Option<Arc<Catalogue>>,
    /// How routers behave.
    pub(super) router_policy: RouterPolicy,
    /// Tells the requests of this gateway from those of others.
    pub(super) via: String,
    pub(super) observer: Arc<dyn Observer>,
    /// What all sessions count.
    pub(super) meter: Arc<Meter>,
    pub(super) begun: SystemTime,
    pub(super) clock: Instant,
    reaper: Option<OrphanReaper>,
    machine: Mutex<Machine>,
    clients: AtomicU64,
    keeps_time: AtomicBool,
    /// One host has the thread to itself.
    owns_thread: AtomicBool,
    /// Rings when the machine wants to be told the time sooner than before.
    alarm: Arc<Notify>,
    /// Rings when a client that waits for a server may ask again.
    room: Arc<Notify>,
}

impl Upstreams {
    pub(super) fn new(
        layout: Layout,
        numbers: Numbers,
        catalogue: Option<Arc<Catalogue>>,
        router_policy: RouterPolicy,
        reaper: Option<OrphanReaper>,
        observer: Arc<dyn Observer>,
    ) -> Upstreams {
        let targets = layout.targets.iter();
        let limits: Vec<TargetLimits> = targets.map(|(_, target)| target.limits).collect();
        Upstreams {
            targets: RwLock::new(layout.targets.iter().cloned().collect()),
            edition: AtomicU64::new(layout.edition),
            layout: RwLock::new(Arc::new(layout)),
            updating: Mutex::new(numbers),
            layout_bell: Arc::default(),
            problem: Mutex::default(),
            catalogue,
            router_policy,
            via: format!("{:016x}", crate::run::seed()),
            observer,
            meter: Arc::default(),
            begun: SystemTime::now(),
            clock: Instant::now(),
            reaper,
            machine: Mutex::new(Gateway::new(limits)),
            clients: AtomicU64::new(0),
            keeps_time: AtomicBool::new(false),
            owns_thread: AtomicBool::new(false),
            alarm: Arc::default(),
            room: Arc::default(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether each target is at a path that begins with its name.
    pub(super) fn by_name(&self) -> bool {
        self.catalogue.is_some()
    }

    /// The time since there has been a gateway.
    pub(super) fn now(&self) -> Time {
        Time::after(self.clock.elapsed())
    }

    /// What is served at the moment, and where.
    pub(super) fn layout(&self) -> Arc<Layout> {
        let layout = self.layout.read();
        layout.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A target that servers may be started of.
    pub(super) fn target(&self, id: TargetId) -> Option<Arc<Target>> {
        let targets = self.targets.read().unwrap_or_else(PoisonError::into_inner);
        targets.get(&id).cloned()
    }

    /// A target comes. It is not in the layout yet.
    pub(super) fn add_target(&self, target: Arc<Target>) -> TargetId {
        let id = self.lock().add_target(target.limits);
        let targets = self.targets.write();
        targets
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, target);
        id
    }

    /// A target goes: what is in flight at its servers may finish. Routers have been told before.
    pub(super) fn remove_target(self: &Arc<Upstreams>, id: TargetId) {
        self.change(|machine, now| machine.remove_target(id, now));
        let targets = self.targets.write();
        targets.unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.room.notify_waiters();
    }

    /// From now on this is served.
    pub(super) fn set_layout(&self, layout: Layout) {
        let edition = layout.edition;
        let known = self.layout.write();
        *known.unwrap_or_else(PoisonError::into_inner) = Arc::new(layout);
        self.edition.store(edition, Ordering::Release);
        self.layout_bell.notify_waiters();
    }

    /// What is wrong with the settings, if they could not be read again.
    pub(super) fn problem(&self) -> Option<String> {
        let problem = self.problem.lock();
        problem.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks or tells the machine something, and carries out what it orders.
    fn change<T>(self: &Arc<Upstreams>, change: impl FnOnce(&mut Machine, Time) -> T) -> T {
        self.change_then(None, change, |_, done| done)
    }

    /// The same; looks at the machine again afterwards, before anybody else does. `way` is that of the client that a
    /// server may be started for.
    fn change_then<T, U>(
        self: &Arc<Upstreams>,
        way: Option<&Way>,
        change: impl FnOnce(&mut Machine, Time) -> T,
        then: impl FnOnce(&Machine, T) -> U,
    ) -> U {
        let mut machine = self.lock();
        let before = machine.deadline();
        let done = change(&mut machine, self.now());
        let (mut started, mut is_over) = (Vec::new(), false);
        while let Some(order) = machine.poll() {
            match order {
                Order::Start(id, target, sharing) => {
                    // There is one for as long as the machine knows it.
                    if let Some(known) = self.target(target) {
                        let upstream = self.upstream(id, &known, sharing);
                        machine.attach(id, upstream.clone());
                        started.push((target, known, upstream));
                    }
                }
                Order::Stop(id, urgency) => {
                    if let Some(upstream) = session(&machine, id) {
                        upstream.stop(urgency);
                    }
                }
                Order::Restart(id) => {
                    if let Some(upstream) = session(&machine, id) {
                        upstream.restart();
                    }
                }
                Order::Over => is_over = true,
            }
        }
        let after = machine.deadline();
        let sooner = after.is_some_and(|at| before.is_none_or(|before| at < before));
        let done = then(&machine, done);
        drop(machine);
        // Not before: a runtime that is being dropped ends a session in this very moment.
        for (id, target, upstream) in started {
            let name = self.catalogue.is_some().then_some(&*target.name);
            self.observer.began(upstream.id.0, name);
            let via = match way {
                // What all sessions share serves others, too: one client's way must not close it to them.
                Some(way) if upstream.sharing != Sharing::Shared => way.through(&self.via),
                _ => self.via.clone(),
            };
            let downstream = GatewayDownstream::new(upstream, id, self);
            target.drive(downstream, &via, self.reaper.clone());
        }
        if sooner {
            self.alarm.notify_one();
        }
        if is_over {
            self.seal();
        }
        done
    }

    /// The session with a server that is to be started.
    fn upstream(
        &self,
        id: ServerId,
        target: &Arc<Target>,
        sharing: Sharing,
    ) -> Arc<UpstreamSession> {
        let upstream = UpstreamSession::new(id, sharing, target.clone(), self.clock);
        if sharing == Sharing::Pooled
            && let Some(replay) = target.modern()
        {
            upstream.join(EVERYBODY, &Outlet::Buffer(replay));
        }
        Arc::new(upstream)
    }

    /// Modern requests at this target are answered here. To be called inside the runtime.
    pub(super) fn serve_modern(
        self: &Arc<Upstreams>,
        target: TargetId,
        replay: &Arc<ReplayBuffer>,
    ) {
        let known = self.target(target);
        let is_first = known.is_some_and(|it| it.serve_modern(replay));
        // It may have been served before, and hidden meanwhile.
        for upstream in self.pooled(target).iter().filter(|_| is_first) {
            upstream.join(EVERYBODY, &Outlet::Buffer(replay.clone()));
        }
        // A gateway is served once.
        if !is_first || self.lock().is_over() {
            replay.seal();
        }
    }

    /// Tells the machine the time from now on. To be called inside the runtime.
    pub(super) fn keep_time(self: &Arc<Upstreams>) {
        if !self.keeps_time.swap(true, Ordering::Relaxed) {
            tokio::spawn(keep_time(Arc::downgrade(self), self.alarm.clone()));
        }
    }

    /// Nobody is answered any more.
    fn seal(&self) {
        if let Some(catalogue) = &self.catalogue {
            catalogue.settle_unwritten();
        }
        let routers = self.catalogue.iter().flat_map(|it| it.routers());
        routers.for_each(|router| router.put(Work::Over));
        for (_, target) in &self.layout().targets {
            if let Some(replay) = target.modern() {
                replay.seal();
            }
        }
    }

    /// Whether everything has ended.
    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// Bounds the dedicated servers of each target: a session whose server has not ended yet counts for one, too.
    pub(super) fn bound_servers(&self, sessions: usize) {
        self.lock().bound_servers(sessions);
    }

    /// Rings when a client that waits for a server may ask again.
    pub(super) fn room_bell(&self) -> Arc<Notify> {
        self.room.clone()
    }

    /// A client that there has not been before.
    pub(super) fn fresh_client(&self) -> Client {
        Client(self.clients.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// A client comes that wants a session, and may have shown how it begins.
    pub(super) fn arrive(
        self: &Arc<Upstreams>,
        target: TargetId,
        opening: Option<Opening>,
    ) -> Client {
        let client = self.fresh_client();
        self.change(|machine, now| machine.arrive(client, target, opening, now));
        client
    }

    /// Whether a client that has arrived may have a server.
    pub(super) fn room(self: &Arc<Upstreams>, client: Client) -> Room {
        self.change(|machine, now| match machine.admit(client, now) {
            Admission::Admitted => Room::Free,
            Admission::Wait(until) => Room::Soon(until - now),
            Admission::GiveWay => Room::GiveWay,
            Admission::Refused(NoServer::Full) => Room::Full,
            Admission::Refused(NoServer::Removed) => Room::Removed,
            Admission::Refused(NoServer::ShuttingDown | NoServer::Gone) => Room::ShuttingDown,
        })
    }

    /// The server that a client uses from now on, who sends its first message and has come this way.
    pub(super) fn join(
        self: &Arc<Upstreams>,
        client: Client,
        opening: Option<Opening>,
        way: Option<&Way>,
    ) -> Result<Arc<UpstreamSession>, NoServer> {
        self.change_then(
            way,
            |machine, now| machine.join(client, opening, now),
            |machine, joined| session(machine, joined?).ok_or(NoServer::Gone),
        )
    }

    /// A client is gone, and its server knows that. `unanswered`: it was not told how its handshake ended.
    pub(super) fn leave(self: &Arc<Upstreams>, client: Client, unanswered: bool) {
        self.change(|machine, now| match unanswered {
            true => machine.leave_unanswered(client, now),
            false => machine.leave(client, now),
        });
        self.room.notify_waiters();
    }

    /// The server for a modern request that has come this way, which [expects](UpstreamSession::expect) it.
    pub(super) fn request(
        self: &Arc<Upstreams>,
        target: TargetId,
        way: Option<&Way>,
    ) -> Result<Arc<UpstreamSession>, NoServer> {
        // Only servers over HTTP are told of ways.
        let is_told = |_: &&Way| self.target(target).is_some_and(|it| it.confirms());
        let way = way.filter(is_told);
        self.change_then(
            way,
            |machine, now| match way {
                None => machine.request(target, now),
                Some(way) => machine.request_along(target, way.lane(), now),
            },
            |machine, assigned| {
                let upstream = session(machine, assigned?).ok_or(NoServer::Gone)?;
                upstream.expect();
                Ok(upstream)
            },
        )
    }

    /// The servers for modern requests at this target, those that are being stopped included.
    pub(super) fn pooled(&self, target: TargetId) -> Vec<Arc<UpstreamSession>> {
        let machine = self.lock();
        let pooled = machine
            .servers()
            .filter(|(_, it)| it.target() == target && it.sharing() == Sharing::Pooled);
        let sessions = pooled.filter_map(|(_, it)| it.session());
        sessions.cloned().collect()
    }

    pub(super) fn observe(self: &Arc<Upstreams>, id: ServerId, event: &Event) {
        self.change(|machine, now| machine.observe(id, event, now));
    }

    /// A server has ended.
    pub(super) fn ended(self: &Arc<Upstreams>, id: ServerId) {
        self.change(|machine, now| machine.ended(id, now));
        self.room.notify_waiters();
    }

    /// Puts new servers under all sessions.
    pub(super) fn restart(self: &Arc<Upstreams>) {
        self.change(|machine, _| machine.restart());
    }

    /// Puts new servers under all sessions with servers of a target. Tells how many.
    pub(super) fn restart_target(self: &Arc<Upstreams>, target: TargetId) -> usize {
        self.change(|machine, _| machine.restart_target(target))
    }

    /// Stops all servers of a target; whoever needs one next has one started. Tells how many.
    pub(super) fn stop_target(self: &Arc<Upstreams>, target: TargetId) -> usize {
        self.change(|machine, now| machine.stop_target(target, now))
    }

    /// Ends everything: the first time gracefully, the second time at once.
    pub(super) fn shutdown(self: &Arc<Upstreams>) {
        let routers = self.catalogue.iter().flat_map(|it| it.routers());
        routers.for_each(|router| router.put(Work::Shutdown));
        self.change(Machine::shutdown);
        self.room.notify_waiters();
    }

    /// One host is served on this thread, and nothing else: whoever waits for a server may look for its answer.
    pub(super) fn own_thread(&self) {
        self.owns_thread.store(true, Ordering::Relaxed);
    }

    /// Whose the thread is that sessions run on, if it may be kept busy to look for news.
    pub(super) fn thread(&self) -> Option<Thread> {
        let owned = self.owns_thread.load(Ordering::Relaxed);
        owned.then_some(Thread::Shared)
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.lock().is_shutting_down()
    }

    pub(super) fn all(&self) -> Vec<Upstream> {
        let (now, machine) = (self.now(), self.lock());
        let seen = machine.servers().filter_map(|(id, server)| {
            let upstream = server.session()?;
            Some(Upstream {
                number: id.0,
                target: upstream.target.name.clone(),
                sharing: server.sharing(),
                state: upstream.state(),
                in_flight: upstream.in_flight(),
                clients: server.clients(),
                client: upstream.client_name(),
                unused: now - upstream.last_use(),
            })
        });
        seen.collect()
    }
}

/// Whoever tells the machine the time finds out that there is none any more.
impl Drop for Upstreams {
    fn drop(&mut self) {
        self.alarm.notify_one();
    }
}

fn session(machine: &Machine, id: ServerId) -> Option<Arc<UpstreamSession>> {
    machine.server(id)?.session().cloned()
}

/// Tells the machine the time, as long as there is one.
async fn keep_time(upstreams: Weak<Upstreams>, alarm: Arc<Notify>) {
    while let Some(upstreams) = upstreams.upgrade() {
        let left = upstreams.change(|machine, now| {
            if machine.deadline().is_some_and(|at| at <= now) {
                machine.tick(now);
            }
            machine.deadline().map(|at| at - now)
        });
        drop(upstreams);
        match left {
            Some(left) => drop(timeout(left, alarm.notified()).await),
            None => alarm.notified().await,
        }
    }
}
