//! A function that is called when a handle becomes signalled.
//!
//! The thread pool of the process waits, one thread for many handles. The function is called on that thread: it has to
//! be short.

use std::ffi::c_void;
use std::fmt;
use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle};

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Threading::{
    INFINITE, RegisterWaitForSingleObject, UnregisterWaitEx, WT_EXECUTEINWAITTHREAD,
    WT_EXECUTEONLYONCE,
};

type Call = Box<dyn Fn() + Send + Sync>;

/// How often it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// The handle stays signalled: a process that has ended.
    Once,
    /// Waiting makes it unsignalled again: an event.
    Each,
}

/// The function is not called any more once this is dropped. The handle has to stay open until then.
pub(crate) struct Watch {
    registration: HANDLE,
    /// Where it is must not change: the pool has its address.
    call: *mut Call,
}

// SAFETY: the registration may be ended on any thread, and the function may be called on any.
#[expect(unsafe_code)]
unsafe impl Send for Watch {}
// SAFETY: as above; nothing can be done through a shared reference.
#[expect(unsafe_code)]
unsafe impl Sync for Watch {}

impl Watch {
    pub(crate) fn new(
        handle: BorrowedHandle<'_>,
        times: Times,
        call: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Watch> {
        let call: *mut Call = Box::into_raw(Box::new(Box::new(call)));
        let mut registration = std::ptr::null_mut();
        let once = match times {
            Times::Once => WT_EXECUTEONLYONCE,
            Times::Each => 0,
        };
        // SAFETY: the handle is open, and what the context points to is freed after the registration has ended.
        #[expect(unsafe_code)]
        let done = unsafe {
            RegisterWaitForSingleObject(
                &raw mut registration,
                handle.as_raw_handle(),
                Some(signalled),
                call.cast(),
                INFINITE,
                WT_EXECUTEINWAITTHREAD | once,
            )
        };
        if done == 0 {
            let error = io::Error::last_os_error();
            // SAFETY: it was made above, and nobody else has it.
            #[expect(unsafe_code)]
            drop(unsafe { Box::from_raw(call) });
            return Err(error);
        }
        Ok(Watch { registration, call })
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: the call waits until the function has returned and will not be called again; only then is it freed.
        #[expect(unsafe_code)]
        unsafe {
            UnregisterWaitEx(self.registration, INVALID_HANDLE_VALUE);
            drop(Box::from_raw(self.call));
        }
    }
}

#[expect(unsafe_code)]
unsafe extern "system" fn signalled(context: *mut c_void, _timed_out: bool) {
    // SAFETY: the context is what `Watch::new` has given, and is there as long as this may be called.
    let call = unsafe { &*context.cast::<Call>() };
    call();
}
