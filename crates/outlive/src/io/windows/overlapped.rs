//! One operation on a pipe, which may be complete at once or later.
//!
//! The kernel reads from and writes to a buffer of ours for as long as the operation takes. So there is one at a time,
//! with a buffer of its own, and neither is freed before it is complete or cancelled.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, FromRawHandle, OwnedHandle};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use windows_sys::Win32::Foundation::{
    ERROR_HANDLE_EOF, ERROR_IO_INCOMPLETE, ERROR_IO_PENDING, ERROR_NO_DATA,
};
use windows_sys::Win32::Storage::FileSystem::{ReadFile, WriteFile};
use windows_sys::Win32::System::IO::{CancelIoEx, GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Threading::CreateEventW;

use super::watch::{Times, Watch};

/// The end of a pipe, and what is done with it.
#[derive(Debug)]
pub(super) struct Overlapped {
    /// Ends before the event does, which it waits for.
    watch: Option<Watch>,
    handle: OwnedHandle,
    event: OwnedHandle,
    waker: Arc<Mutex<Option<Waker>>>,
    operation: Box<Operation>,
    pending: bool,
}

struct Operation {
    overlapped: OVERLAPPED,
    buffer: Box<[u8]>,
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Operation").finish_non_exhaustive()
    }
}

// SAFETY: the pointers in it are the kernel's and a handle's; it is used by one thread at a time.
#[expect(unsafe_code)]
unsafe impl Send for Operation {}
// SAFETY: as above; a shared reference gives access to the buffer alone, while nothing is pending.
#[expect(unsafe_code)]
unsafe impl Sync for Operation {}

impl Overlapped {
    /// Operations on this handle, of at most so many bytes each.
    pub(super) fn new(handle: OwnedHandle, size: usize) -> io::Result<Overlapped> {
        // SAFETY: no pointer is given. Waiting for the event resets it.
        #[expect(unsafe_code)]
        let event = unsafe {
            let event = CreateEventW(std::ptr::null(), 0, 0, std::ptr::null());
            if event.is_null() {
                return Err(io::Error::last_os_error());
            }
            OwnedHandle::from_raw_handle(event)
        };
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let woken = waker.clone();
        let watch = Watch::new(event.as_handle(), Times::Each, move || {
            let waker = woken.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(waker) = waker {
                waker.wake();
            }
        })?;
        let operation = Operation {
            overlapped: OVERLAPPED {
                hEvent: event.as_raw_handle(),
                ..OVERLAPPED::default()
            },
            buffer: vec![0; size].into(),
        };
        Ok(Overlapped {
            watch: Some(watch),
            handle,
            event,
            waker,
            operation: Box::new(operation),
            pending: false,
        })
    }

    pub(super) fn handle(&self) -> &OwnedHandle {
        &self.handle
    }

    /// Whether an operation was begun whose result was not asked for yet.
    pub(super) fn is_pending(&self) -> bool {
        self.pending
    }

    /// What was read by the last operation, up to its result.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.operation.buffer
    }

    /// Begins to read. Nothing must be pending.
    pub(super) fn read(&mut self) -> io::Result<()> {
        debug_assert!(!self.pending);
        let Operation { overlapped, buffer } = &mut *self.operation;
        // SAFETY: the handle is open; buffer and structure are freed after the operation is complete, see `drop`.
        #[expect(unsafe_code)]
        let done = unsafe {
            ReadFile(
                self.handle.as_raw_handle(),
                buffer.as_mut_ptr(),
                buffer.len() as u32,
                std::ptr::null_mut(),
                overlapped,
            )
        };
        self.begun(done)
    }

    /// Begins to write what `fill` puts into the buffer; it tells how much that is. Nothing must be pending.
    pub(super) fn write(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> io::Result<usize> {
        debug_assert!(!self.pending);
        let Operation { overlapped, buffer } = &mut *self.operation;
        let length = fill(buffer);
        // SAFETY: as for reading.
        #[expect(unsafe_code)]
        let done = unsafe {
            WriteFile(
                self.handle.as_raw_handle(),
                buffer.as_ptr(),
                length as u32,
                std::ptr::null_mut(),
                overlapped,
            )
        };
        self.begun(done)?;
        Ok(length)
    }

    fn begun(&mut self, done: i32) -> io::Result<()> {
        if done == 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(ERROR_IO_PENDING as i32) {
                return Err(error);
            }
        }
        self.pending = true;
        Ok(())
    }

    /// The result of what is pending: how many bytes. `cx` is woken when there is one.
    pub(super) fn poll(&mut self, cx: Option<&mut Context<'_>>) -> Poll<io::Result<usize>> {
        // In this order: whoever completes it after the look wakes.
        if let Some(cx) = cx {
            let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
            if !waker
                .as_ref()
                .is_some_and(|known| known.will_wake(cx.waker()))
            {
                *waker = Some(cx.waker().clone());
            }
        }
        match self.result(false) {
            Err(error) if error.raw_os_error() == Some(ERROR_IO_INCOMPLETE as i32) => Poll::Pending,
            result => {
                self.pending = false;
                Poll::Ready(result)
            }
        }
    }

    fn result(&mut self, wait: bool) -> io::Result<usize> {
        let mut transferred = 0;
        // SAFETY: the structure is that of an operation that was begun on this handle.
        #[expect(unsafe_code)]
        let done = unsafe {
            GetOverlappedResult(
                self.handle.as_raw_handle(),
                &raw const self.operation.overlapped,
                &raw mut transferred,
                wait.into(),
            )
        };
        match done {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(transferred as usize),
        }
    }
}

impl Drop for Overlapped {
    fn drop(&mut self) {
        // First: from now on nobody else waits for the event.
        self.watch = None;
        if self.pending {
            // SAFETY: the operation was begun on this handle, which is open.
            #[expect(unsafe_code)]
            unsafe {
                CancelIoEx(
                    self.handle.as_raw_handle(),
                    &raw const self.operation.overlapped,
                );
            }
            // Until then the kernel may write to the buffer. What is cancelled is complete at once.
            let _ = self.result(true);
        }
        let _ = &self.event;
    }
}

/// Whether an error means that the other end is closed.
pub(super) fn is_closed(error: &io::Error) -> bool {
    let code = error.raw_os_error().unwrap_or_default().cast_unsigned();
    error.kind() == io::ErrorKind::BrokenPipe || matches!(code, ERROR_HANDLE_EOF | ERROR_NO_DATA)
}
