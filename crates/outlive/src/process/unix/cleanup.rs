//! A thread that ends what servers leave behind.
//!
//! Ending a tree of processes takes reading `/proc`, waiting a moment, and looking again: nothing for a thread that
//! carries messages. Whoever has to end one orders it here and is told when it is done. All trees that are to be
//! ended at a time are looked for in one pass over the process table, however many they are.
//!
//! A tree is ended when a pass finds nobody of it and its server has ended. The server itself is not collected before:
//! until then the kernel keeps its number, and with it its group's.
//!
//! In a process that does nothing but run servers, orphans become our own children ([`own_orphans`]). Whose they are is
//! on them ([`tree`]). One that shows nothing can only be of a server that is older than itself, so it is ended when
//! there is no such server any more.
//!
//! The thread also collects orphans that have ended, and the servers of drivers that were dropped. A program that
//! ends in good order waits for it, for at most [`PATIENCE`].

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use outlive_core::cause::Exit;
use rustix::process::{Pid, Signal, WaitOptions};
use tokio::sync::mpsc::UnboundedSender;

use super::os;
use super::tree::{self, Seen, Tree};
use crate::process::orphan_reaper::OrphanReaper;

/// How long the end of what was killed is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The pauses between passes begin with this and grow to …
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// … this.
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

/// Only system calls and small tables are kept on it.
const STACK: usize = 256 << 10;

static SWEEPER: Sweeper = Sweeper {
    state: Mutex::new(None),
    ordered: Condvar::new(),
    done: Condvar::new(),
};

struct Sweeper {
    state: Mutex<Option<State>>,
    /// There is something to do.
    ordered: Condvar,
    /// Something was done.
    done: Condvar,
}

#[derive(Default)]
struct State {
    /// Servers that have not been collected, by their process ids.
    servers: HashMap<Pid, Known>,
    /// Servers that are being started: children of ours that are not known yet.
    starting: usize,
    /// Children of ours that are no servers.
    others: Vec<Pid>,
    /// All other children are orphans.
    owns_orphans: bool,
    /// What the thread has not taken on yet.
    orders: Vec<Order>,
    /// Orphans are to be looked at.
    tidy: bool,
    /// The thread is at work.
    busy: bool,
}

struct Known {
    tree: Tree,
    born: u64,
    /// It has ended, or is to.
    ending: bool,
}

struct Order {
    leader: Pid,
    tree: Tree,
    begun: Instant,
    last: Last,
}

/// What is done in the end.
enum Last {
    /// Whoever ordered it is told, and collects the server.
    Tell(Arc<AtomicBool>, Option<UnboundedSender<()>>),
    /// Nobody waits for it: the server is collected here, and the orphan reaper need not guard it.
    Collect(Option<OrphanReaper>),
}

/// A sweep that was ordered.
#[derive(Debug)]
pub(crate) struct Sweep(Arc<AtomicBool>);

impl Sweep {
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Orphaned descendants become children of this process, where the system can, and all children that are not servers
/// are orphans.
pub(crate) fn own_orphans() {
    #[cfg(target_os = "linux")]
    if super::native::is_linux()
        && rustix::process::set_child_subreaper(Some(rustix::process::getpid())).is_ok()
    {
        with_state(|state| state.owns_orphans = true);
    }
}

/// A server is about to be started.
pub(crate) fn begin_start() {
    with_state(|state| state.starting += 1);
}

/// It was started, or could not be.
pub(crate) fn end_start(started: Option<(Pid, &Tree)>) {
    let known = started.map(|(pid, tree)| {
        let born = Seen::look(pid).map_or(0, |seen| seen.born);
        let (tree, ending) = (tree.clone(), false);
        (pid, Known { tree, born, ending })
    });
    with_state(|state| {
        state.starting -= 1;
        state.servers.extend(known);
    });
    SWEEPER.ordered.notify_one();
    SWEEPER.done.notify_all();
}

/// A child of this process that is no orphan, from now on or no longer.
pub(crate) fn spare(pid: Pid, spare: bool) {
    with_state(|state| {
        state.others.retain(|other| *other != pid);
        if spare {
            state.others.push(pid);
        }
    });
}

/// Ends the tree of a server, itself included. `done` is told when that is done.
pub(crate) fn end(leader: Pid, tree: &Tree, done: UnboundedSender<()>) -> Sweep {
    let flag = Arc::new(AtomicBool::new(false));
    order(leader, tree, Last::Tell(flag.clone(), Some(done)));
    Sweep(flag)
}

/// Ends the tree of a server, itself included, and waits until that is done, for a bounded time.
pub(crate) fn end_now(leader: Pid, tree: &Tree) {
    let flag = Arc::new(AtomicBool::new(false));
    order(leader, tree, Last::Tell(flag.clone(), None));
    let waits = |_: &mut _| !flag.load(Ordering::Acquire);
    // It takes no longer than its patience, but for what was being done when it was ordered.
    let _ = SWEEPER.done.wait_timeout_while(lock(), 2 * PATIENCE, waits);
}

/// Ends the tree of a server that nobody looks after any more.
pub(crate) fn abandon(leader: Pid, tree: &Tree, orphan_reaper: Option<OrphanReaper>) {
    order(leader, tree, Last::Collect(orphan_reaper));
}

/// Collects a server that has ended with all that belongs to it, and tells how.
pub(crate) fn collect(leader: Pid) -> Exit {
    // In one step: until it is collected it is no orphan, and then its number may become another server's.
    with_state(|state| {
        let exit = os::collect(leader);
        state.servers.remove(&leader);
        exit
    })
}

/// A child of this process has ended: it may be an orphan.
pub(crate) fn tidy() {
    let wanted = with_state(|state| {
        let first = state.owns_orphans && !state.tidy;
        state.tidy |= first;
        first
    });
    if wanted {
        wake();
    }
}

/// Waits until all that was ordered is done, but not for long.
fn settle() {
    let state = lock();
    let busy = |state: &mut Option<State>| {
        let busy = |state: &State| state.busy || state.starting > 0 || !state.orders.is_empty();
        state.as_ref().is_some_and(busy)
    };
    let _ = SWEEPER.done.wait_timeout_while(state, PATIENCE, busy);
}

extern "C" fn settle_at_exit() {
    settle();
}

fn lock() -> MutexGuard<'static, Option<State>> {
    SWEEPER.state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_state<T>(change: impl FnOnce(&mut State) -> T) -> T {
    change(lock().get_or_insert_default())
}

fn order(leader: Pid, tree: &Tree, last: Last) {
    let order = Order {
        leader,
        tree: tree.clone(),
        begun: Instant::now(),
        last,
    };
    with_state(|state| {
        if let Some(known) = state.servers.get_mut(&leader) {
            known.ending = true;
        }
        state.orders.push(order);
    });
    wake();
}

/// Sees to it that there is a thread that ends trees. There is none to spare when the system has no more of them: so
/// this is done before a server is started. One that nobody could end would never be replaced either.
pub(crate) fn ensure_thread() -> io::Result<()> {
    static THREAD: Mutex<bool> = Mutex::new(false);
    let mut is_there = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if !*is_there {
        let thread = thread::Builder::new().name("outlive-cleanup".into());
        thread.stack_size(STACK).spawn(work)?;
        // SAFETY: the function takes a lock, waits a bounded time, and allocates nothing.
        #[expect(unsafe_code)]
        unsafe {
            libc::atexit(settle_at_exit)
        };
        *is_there = true;
    }
    Ok(())
}

/// Tells the thread that there is something to do.
fn wake() {
    // Without it the servers still end with this process, but not what they have started.
    let _ = ensure_thread();
    SWEEPER.ordered.notify_one();
}

fn work() {
    let mut active = Vec::new();
    let mut pause = SHORTEST_PAUSE;
    loop {
        if take(&mut active, pause) {
            pause = SHORTEST_PAUSE;
        }
        pass(&mut active);
        pause = LONGEST_PAUSE.min(2 * pause);
    }
}

/// Waits for something to do; as long as something is being done, for no longer than `pause`. Whether there is more.
fn take(active: &mut Vec<Order>, pause: Duration) -> bool {
    let mut guard = lock();
    let nothing = |state: &mut Option<State>| {
        let some = |state: &State| state.tidy && state.starting == 0 || !state.orders.is_empty();
        !state.as_ref().is_some_and(some)
    };
    if active.is_empty() {
        guard.get_or_insert_default().busy = false;
        SWEEPER.done.notify_all();
        guard = SWEEPER
            .ordered
            .wait_while(guard, nothing)
            .unwrap_or_else(PoisonError::into_inner);
    } else {
        let waited = SWEEPER.ordered.wait_timeout_while(guard, pause, nothing);
        guard = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    let state = guard.get_or_insert_default();
    state.busy = true;
    let more = !state.orders.is_empty();
    active.append(&mut state.orders);
    more
}

/// Looks once for everybody who is to be ended, and ends them.
fn pass(active: &mut Vec<Order>) {
    let trees: Vec<Tree> = active.iter().map(|order| order.tree.clone()).collect();
    let mut found: Vec<Vec<Seen>> = trees.iter().map(|_| Vec::new()).collect();
    // Children are looked up first: once their parents are dead, nobody knows whose they were.
    for (order, found) in active.iter().zip(&mut found) {
        tree::add_descendants(order.leader, found);
    }
    if !trees.is_empty() {
        for (nth, seen) in tree::members(&trees) {
            let found = &mut found[nth];
            if seen.pid != active[nth].leader && !found.iter().any(|known| known.pid == seen.pid) {
                found.push(seen);
                tree::add_descendants(seen.pid, found);
            }
        }
    }
    for (order, found) in active.iter().zip(&found) {
        let _ = rustix::process::kill_process_group(order.leader, Signal::KILL);
        for seen in found {
            seen.kill();
        }
    }
    let orphans = with_state(tidy_orphans);
    let mut found = found.iter();
    active.retain(|order| {
        let alone = found.next().is_none_or(Vec::is_empty) && orphans == 0;
        let over = alone && os::has_ended(order.leader);
        if over || order.begun.elapsed() >= PATIENCE {
            order.finish();
            return false;
        }
        true
    });
    // Locked, so that nobody is between looking and waiting.
    drop(lock());
    SWEEPER.done.notify_all();
}

impl Order {
    fn finish(&self) {
        match &self.last {
            Last::Tell(done, told) => {
                done.store(true, Ordering::Release);
                // Whoever has gone since does not wait for it.
                let _ = told.as_ref().map(|told| told.send(()));
            }
            Last::Collect(orphan_reaper) => {
                if let Some(orphan_reaper) = orphan_reaper {
                    orphan_reaper.release(self.leader);
                }
                if os::has_ended(self.leader) {
                    collect(self.leader);
                } else {
                    // The kernel does not let go of it. Without a thread there is nobody to wait for it.
                    let leader = self.leader;
                    let wait = thread::Builder::new().stack_size(STACK);
                    let _ = wait.spawn(move || {
                        os::wait_for_end(leader);
                        collect(leader);
                    });
                }
            }
        }
    }
}

/// Collects the orphans that have ended and ends those whose server is no more. How many those were.
fn tidy_orphans(state: &mut State) -> usize {
    // A child that is just being started is none.
    state.tidy = state.owns_orphans && state.starting > 0;
    if !state.owns_orphans || state.tidy {
        return 0;
    }
    let mut doomed = Vec::new();
    for child in tree::children(rustix::process::getpid()) {
        if state.servers.contains_key(&child.pid) || state.others.contains(&child.pid) {
            continue;
        }
        if child.ended {
            let _ = rustix::process::waitpid(Some(child.pid), WaitOptions::NOHANG);
        } else if state.is_doomed(&child) {
            doomed.push(child);
            tree::add_descendants(child.pid, &mut doomed);
        }
    }
    doomed.iter().filter(|seen| seen.kill()).count()
}

impl State {
    /// Whether the server that an orphan comes from has ended.
    fn is_doomed(&self, orphan: &Seen) -> bool {
        let living = || self.servers.values().filter(|known| !known.ending);
        let trees: Vec<Tree> = living().map(|known| known.tree.clone()).collect();
        if tree::is_of(orphan.pid, &trees) {
            return false;
        }
        tree::is_of_ours(orphan.pid) || !living().any(|known| known.born <= orphan.born)
    }
}
