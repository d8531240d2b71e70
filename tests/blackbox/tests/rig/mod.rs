//! The rig: a host that starts `outlive run … -- fake …` and sees everything on both sides.
//!
//! Nothing is timed. A test waits for what must happen ([`Host::answer`], [`Host::event`]) with
//! a patience that only a hang can exhaust, and shows that something did *not* happen by making
//! something later happen: order is kept per direction, so once a call made afterwards is
//! answered, whatever was to come before it has come. The server's side is seen through the
//! [`tap`] that every fake of a test appends to, the processes through [`tree`].

mod answer;
#[allow(dead_code)] // It serves other tests too.
pub mod escape;
mod host;
#[allow(dead_code)] // It serves other tests too.
pub mod hydra;
mod inbox;
mod setup;
mod tap;
pub mod tree;

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub use answer::Answer;
pub use host::Host;
pub use setup::{Setup, quoted};

/// Only a hang takes longer.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// Asks again and again until there is something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Locks, whatever happened to the last holder.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
