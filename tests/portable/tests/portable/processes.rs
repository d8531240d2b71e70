//! Processes by their numbers.

use crate::until;

/// Whether a process is there and has not ended.
#[cfg(unix)]
pub fn lives(pid: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    let there = Pid::from_raw(pid.cast_signed()).is_some_and(|pid| test_kill_process(pid).is_ok());
    // One that nobody has collected yet has ended all the same; only Linux shows that.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ended = stat
        .rsplit(')')
        .next()
        .is_some_and(|rest| rest.starts_with(" Z"));
    there && !ended
}

/// Kills a process, and waits until it is dead: it may take what was just sent to it to the grave.
pub fn kill(pid: u32) {
    strike(pid);
    until("it is dead", || !lives(pid));
}

#[cfg(unix)]
fn strike(pid: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = Pid::from_raw(pid.cast_signed()).expect("a process");
    kill_process(pid, Signal::KILL).expect("it is killed");
}

/// What the cause of a call says that was lost when its server was killed, and when it wrote to where nothing is.
#[cfg(unix)]
pub const SHOWN: [&str; 2] = ["SIGKILL", "SIGSEGV"];

#[cfg(windows)]
pub const SHOWN: [&str; 2] = ["exited with code 77", "0xC0000005 (access violation)"];

#[cfg(windows)]
fn with_process<T>(
    pid: u32,
    access: u32,
    act: impl FnOnce(*mut std::ffi::c_void) -> T,
) -> Option<T> {
    use windows_sys::Win32::Foundation::CloseHandle;
    use windows_sys::Win32::System::Threading::OpenProcess;
    // SAFETY: the handle is closed after it was used.
    unsafe {
        let process = OpenProcess(access, 0, pid);
        if process.is_null() {
            return None;
        }
        let result = act(process);
        CloseHandle(process);
        Some(result)
    }
}

/// Whether a process is there and has not ended.
#[cfg(windows)]
pub fn lives(pid: u32) -> bool {
    use windows_sys::Win32::Foundation::WAIT_TIMEOUT;
    use windows_sys::Win32::System::Threading::{PROCESS_SYNCHRONIZE, WaitForSingleObject};
    // SAFETY: the handle is open, and nothing is waited for.
    let waits = |process| unsafe { WaitForSingleObject(process, 0) == WAIT_TIMEOUT };
    with_process(pid, PROCESS_SYNCHRONIZE, waits).unwrap_or(false)
}

#[cfg(windows)]
fn strike(pid: u32) {
    use windows_sys::Win32::System::Threading::{PROCESS_TERMINATE, TerminateProcess};
    // SAFETY: the handle is open.
    let end = |process| unsafe { TerminateProcess(process, 77) };
    assert_ne!(with_process(pid, PROCESS_TERMINATE, end), Some(0));
}
