//! Work that waits for the disk, away from the threads that carry messages.
//!
//! `tokio::task::spawn_blocking` panics when the system has no thread for it. Here the work is then done at once, by
//! whoever ordered it: a gateway that may not have another thread is slower for a moment, and goes on.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Enough for reading and writing small files.
const STACK: usize = 512 << 10;

/// Does something on a thread of its own; what it returns can be waited for. To be called inside the runtime.
pub(super) fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> oneshot::Receiver<T> {
    let (tell, told) = oneshot::channel();
    let runtime = Handle::current();
    let work = move || {
        let _inside = runtime.enter();
        // Whoever has gone since does not want to know.
        let _ = tell.send(work());
    };
    // A closure that was handed to a thread is not given back when there is none.
    let ordered = Arc::new(Mutex::new(Some(work)));
    let taken = ordered.clone();
    let carry_out = move || {
        let work = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(work) = work {
            work();
        }
    };
    let builder = thread::Builder::new().name("outlive-aside".into());
    if builder.stack_size(STACK).spawn(carry_out).is_err() {
        let work = ordered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(work) = work {
            work();
        }
    }
    told
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn what_was_done_is_told() {
        let inside = super::run(|| tokio::runtime::Handle::try_current().is_ok());
        assert_eq!(inside.await, Ok(true));
    }
}
