//! A pipe whose one end, ours, does not block.
//!
//! The pipes that the system makes without a name block on both sides. So each has a name that nobody can guess, and
//! one connection, which is made at once.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{FromRawHandle, OwnedHandle};

use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_FIRST_PIPE_INSTANCE, FILE_FLAG_OVERLAPPED, PIPE_ACCESS_INBOUND, PIPE_ACCESS_OUTBOUND,
    SECURITY_ANONYMOUS,
};
use windows_sys::Win32::System::Pipes::{
    CreateNamedPipeW, PIPE_READMODE_BYTE, PIPE_REJECT_REMOTE_CLIENTS, PIPE_TYPE_BYTE, PIPE_WAIT,
};

/// What a pipe holds.
pub(crate) const CAPACITY: usize = 64 << 10;

/// What we do at our end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ours {
    Reads,
    Writes,
}

/// A pipe: our end, for overlapped operations, and the other, which blocks and is not inherited.
pub(crate) fn pair(ours: Ours) -> io::Result<(OwnedHandle, File)> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let (pid, random) = (std::process::id(), u128::from_ne_bytes(random));
    let name = std::ffi::OsString::from(format!(r"\\.\pipe\outlive.{pid}.{random:032x}"));
    let wide: Vec<u16> = name.encode_wide().chain([0]).collect();
    let access = match ours {
        Ours::Reads => PIPE_ACCESS_INBOUND,
        Ours::Writes => PIPE_ACCESS_OUTBOUND,
    };
    // SAFETY: the name ends with a zero and lives for as long as the call takes.
    #[expect(unsafe_code)]
    let handle = unsafe {
        CreateNamedPipeW(
            wide.as_ptr(),
            access | FILE_FLAG_FIRST_PIPE_INSTANCE | FILE_FLAG_OVERLAPPED,
            PIPE_TYPE_BYTE | PIPE_READMODE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS,
            1,
            CAPACITY as u32,
            CAPACITY as u32,
            0,
            std::ptr::null(),
        )
    };
    if handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was opened just now, and nobody else has it.
    #[expect(unsafe_code)]
    let end = unsafe { OwnedHandle::from_raw_handle(handle) };
    let theirs = OpenOptions::new()
        .read(ours == Ours::Writes)
        .write(ours == Ours::Reads)
        .share_mode(0)
        .security_qos_flags(SECURITY_ANONYMOUS)
        .open(name)?;
    Ok((end, theirs))
}
