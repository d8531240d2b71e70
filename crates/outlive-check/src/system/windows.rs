//! Windows.

use std::io;
use std::mem::size_of_val;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::process::ExitStatus;

use tokio::process::{Child, ChildStderr, Command};
use tokio::signal::windows::{CtrlBreak, ctrl_break};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, OpenProcess, PROCESS_TERMINATE, TerminateProcess,
};

/// A job: it ends with the check, whatever ends that.
#[derive(Debug)]
pub struct Group(OwnedHandle);

impl Group {
    /// FM-66: a Ctrl-C meant for the check is not meant for the program under test.
    pub fn prepare(command: &mut Command) {
        command.creation_flags(CREATE_NEW_PROCESS_GROUP);
    }

    /// A job for a process that was just started. (What it starts in its first moments may be outside.)
    pub fn of(child: &Child) -> io::Result<Group> {
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the handles are open, and the structure is the one that belongs to this class of information.
        unsafe {
            let job = CreateJobObjectW(std::ptr::null(), std::ptr::null());
            if job.is_null() {
                return Err(io::Error::last_os_error());
            }
            let job = Group(OwnedHandle::from_raw_handle(job));
            SetInformationJobObject(
                job.0.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of_val(&limits) as u32,
            );
            // One that has ended already cannot be put anywhere.
            if let Some(process) = child.raw_handle() {
                AssignProcessToJobObject(job.0.as_raw_handle(), process);
            }
            Ok(job)
        }
    }

    /// Ends all in it.
    pub fn kill(&self) {
        // SAFETY: the handle is open.
        unsafe {
            TerminateJobObject(self.0.as_raw_handle(), 1);
        }
    }

    /// Windows has no way to ask a process to end that all servers would know.
    pub fn terminate(&self) -> Result<(), &'static str> {
        Err("Windows has no SIGTERM.")
    }
}

/// Ends a process.
pub fn kill(pid: u32) {
    // SAFETY: the handle that comes back is nobody else's, and closed in the end.
    unsafe {
        let process = OpenProcess(PROCESS_TERMINATE, 0, pid);
        if !process.is_null() {
            let process = OwnedHandle::from_raw_handle(process);
            TerminateProcess(process.as_raw_handle(), 1);
        }
    }
}

/// How a process ended, in words: `exited with status 1`.
pub fn ending(status: ExitStatus) -> String {
    match status.code() {
        Some(code @ ..0) => format!("exited with status {code:#010X}"),
        Some(code) => format!("exited with status {code}"),
        None => "ended".into(),
    }
}

/// The size of a pipe stays as it was made: 4096 bytes.
pub fn shrink(_pipe: &ChildStderr) {}

/// A Ctrl-Break that is caught does not kill.
#[derive(Debug, Default)]
pub struct Deafness(Vec<CtrlBreak>);

impl Deafness {
    /// From now on.
    pub fn begin(&mut self) -> io::Result<()> {
        self.0.push(ctrl_break()?);
        Ok(())
    }
}

/// How the system counts time that was computed: nothing is read that says so.
pub fn ticks_per_second() -> u64 {
    1
}
