//! A thread that waits for the end of jobs.
//!
//! The kernel ends everybody in a job, but does not say when it is done: somebody has to look. Whoever has to end one
//! orders it here and is told when it is done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::server::Member;

/// How long the end of what was killed is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pauses between looks begin with this and grow to …
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// … this.
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

/// Only system calls and small tables are kept on it.
const STACK: usize = 256 << 10;

static ORDERS: Mutex<Vec<Order>> = Mutex::new(Vec::new());
static ORDERED: Condvar = Condvar::new();

struct Order {
    member: Arc<Member>,
    begun: Instant,
    done: Arc<AtomicBool>,
    told: Option<UnboundedSender<()>>,
}

/// A sweep that was ordered.
#[derive(Debug)]
pub(crate) struct Sweep(Arc<AtomicBool>);

impl Sweep {
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Ends all of a server. `told` is told when that is done.
pub(super) fn end(member: &Arc<Member>, told: Option<UnboundedSender<()>>) -> Sweep {
    static THREAD: Once = Once::new();
    member.job.end();
    let done = Arc::new(AtomicBool::new(false));
    lock().push(Order {
        member: member.clone(),
        begun: Instant::now(),
        done: done.clone(),
        told,
    });
    THREAD.call_once(|| {
        let thread = thread::Builder::new().name("outlive-cleanup".into());
        // Without it everybody ends all the same, and nobody is told.
        let _ = thread.stack_size(STACK).spawn(work);
    });
    ORDERED.notify_one();
    Sweep(done)
}

/// Ends all of a server, and waits until that is done, for a bounded time.
pub(super) fn end_now(member: &Member) {
    member.job.end();
    let begun = Instant::now();
    while !member.is_gone() && begun.elapsed() < PATIENCE {
        thread::sleep(SHORTEST_PAUSE);
    }
}

fn lock() -> MutexGuard<'static, Vec<Order>> {
    ORDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn work() {
    let mut active: Vec<Order> = Vec::new();
    let mut pause = SHORTEST_PAUSE;
    loop {
        let mut orders = lock();
        if active.is_empty() {
            let waited = ORDERED.wait_while(orders, |orders| orders.is_empty());
            orders = waited.unwrap_or_else(PoisonError::into_inner);
            pause = SHORTEST_PAUSE;
        }
        active.append(&mut orders);
        drop(orders);
        active.retain(|order| {
            let over = order.member.is_gone() || order.begun.elapsed() >= PATIENCE;
            if over {
                order.done.store(true, Ordering::Release);
                // Whoever has gone since does not wait for it.
                let _ = order.told.as_ref().map(|told| told.send(()));
            }
            !over
        });
        if !active.is_empty() {
            thread::sleep(pause);
            pause = LONGEST_PAUSE.min(2 * pause);
        }
    }
}
