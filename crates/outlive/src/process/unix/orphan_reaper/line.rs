//! What ties the orphan reaper to the process it works for. Nothing here may allocate, lock or panic.
//!
//! Orders come over a socket, and its end is the end of the other process: nobody else has the other end. On macOS the
//! kernel is asked to tell of that end as well (`EVFILT_PROC`, `NOTE_EXIT`): a program that forks without becoming
//! another one would keep the socket open.

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::process::Pid;

/// The end of the socket, and who is to tell that its other end is gone.
pub(super) struct Line<'f> {
    socket: BorrowedFd<'f>,
    #[cfg(target_vendor = "apple")]
    queue: Option<rustix::fd::OwnedFd>,
}

impl<'f> Line<'f> {
    /// The line to this process.
    pub(super) fn to(other: Pid, socket: BorrowedFd<'f>) -> Line<'f> {
        #[cfg(not(target_vendor = "apple"))]
        let _ = other;
        Line {
            socket,
            #[cfg(target_vendor = "apple")]
            queue: watch(other, socket),
        }
    }

    /// Reads some orders, and waits for them; `None` once the other process has ended.
    pub(super) fn read(&self, orders: &mut [u8]) -> Option<usize> {
        loop {
            #[cfg(target_vendor = "apple")]
            if let Some(queue) = &self.queue
                && has_exited(queue)
            {
                return None;
            }
            match rustix::io::read(self.socket, &mut *orders) {
                Ok(0) => return None,
                Ok(read) => return Some(read),
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
}

/// A queue that tells when there are orders and when the process has ended. None: the socket has to do.
#[cfg(target_vendor = "apple")]
fn watch(other: Pid, socket: BorrowedFd<'_>) -> Option<rustix::fd::OwnedFd> {
    use rustix::event::kqueue::{Event, EventFilter, EventFlags, ProcessEvents, kevent, kqueue};
    use std::os::fd::AsRawFd;

    let queue = kqueue().ok()?;
    let none = std::ptr::null_mut();
    let changes = [
        Event::new(EventFilter::Read(socket.as_raw_fd()), EventFlags::ADD, none),
        Event::new(
            EventFilter::Proc {
                pid: other,
                flags: ProcessEvents::EXIT,
            },
            EventFlags::ADD,
            none,
        ),
    ];
    let mut nothing: [Event; 0] = [];
    // SAFETY: the socket stays open for as long as this process lives, and the queue is closed with it.
    #[expect(unsafe_code)]
    let added = unsafe {
        kevent(
            &queue,
            &changes,
            &mut nothing[..],
            Some(std::time::Duration::ZERO),
        )
    };
    // A process that has ended already cannot be watched; the socket tells.
    added.ok().map(|_| queue)
}

/// Waits until there are orders or the process has ended. Whether it has.
#[cfg(target_vendor = "apple")]
fn has_exited(queue: &rustix::fd::OwnedFd) -> bool {
    use rustix::event::kqueue::{Event, EventFilter, EventFlags, kevent};

    let mut told = [Event::new(
        EventFilter::Timer {
            ident: 0,
            timer: None,
        },
        EventFlags::empty(),
        std::ptr::null_mut(),
    )];
    // SAFETY: nothing is added to the queue.
    #[expect(unsafe_code)]
    let told_count = unsafe { kevent(queue, &[], &mut told[..], None) };
    match told_count {
        Ok(1..) => matches!(told[0].filter(), EventFilter::Proc { .. }),
        _ => false,
    }
}
