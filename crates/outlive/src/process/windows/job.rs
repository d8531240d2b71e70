//! A job: all processes of one server.

use std::io;
use std::mem::size_of_val;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};

use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectBasicAccountingInformation, JobObjectExtendedLimitInformation,
    QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};

/// What processes exit with that are ended here: as `taskkill` has it.
const ENDED: u32 = 1;

/// All in it are ended when this is dropped, or this process ends.
#[derive(Debug)]
pub(super) struct Job(OwnedHandle);

impl Job {
    /// A job without processes.
    pub(super) fn new() -> io::Result<Job> {
        // SAFETY: no pointer is given; the handle that comes back is nobody else's.
        #[expect(unsafe_code)]
        let job = unsafe {
            let handle = CreateJobObjectW(std::ptr::null(), std::ptr::null());
            if handle.is_null() {
                return Err(io::Error::last_os_error());
            }
            Job(OwnedHandle::from_raw_handle(handle))
        };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: the structure is the one that belongs to this class of information.
        #[expect(unsafe_code)]
        let done = unsafe {
            SetInformationJobObject(
                job.0.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of_val(&limits) as u32,
            )
        };
        outcome(done).map(|()| job)
    }

    /// Puts a process into it.
    pub(super) fn add(&self, process: BorrowedHandle<'_>) -> io::Result<()> {
        // SAFETY: both handles are open.
        #[expect(unsafe_code)]
        let done =
            unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), process.as_raw_handle()) };
        outcome(done)
    }

    /// Ends all in it.
    pub(super) fn end(&self) {
        // SAFETY: the handle is open.
        #[expect(unsafe_code)]
        unsafe {
            TerminateJobObject(self.0.as_raw_handle(), ENDED);
        }
    }

    /// Whether nobody in it is left.
    pub(super) fn is_empty(&self) -> bool {
        let mut accounting = JOBOBJECT_BASIC_ACCOUNTING_INFORMATION::default();
        // SAFETY: the structure is the one that belongs to this class of information.
        #[expect(unsafe_code)]
        let done = unsafe {
            QueryInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectBasicAccountingInformation,
                (&raw mut accounting).cast(),
                size_of_val(&accounting) as u32,
                std::ptr::null_mut(),
            )
        };
        done != 0 && accounting.ActiveProcesses == 0
    }
}

fn outcome(done: i32) -> io::Result<()> {
    match done {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::windows::io::AsHandle;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    /// Long enough that only a hang exceeds it.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn all_in_a_job_end_with_it_and_are_counted() {
        for ends_by_itself in [true, false] {
            let job = Job::new().unwrap();
            assert!(job.is_empty());
            let mut child = Command::new("cmd")
                .arg("/k")
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            job.add(child.as_handle()).unwrap();
            assert!(!job.is_empty());
            match ends_by_itself {
                true => drop(job),
                false => {
                    job.end();
                    let begun = Instant::now();
                    while !job.is_empty() {
                        assert!(begun.elapsed() < PATIENCE, "it is still there");
                    }
                }
            }
            child.wait().unwrap();
        }
    }
}
