//! A server process, and all that it has started.
//!
//! It gets a process group of its own, so that a Ctrl-C in the console does not reach it (FM-66), and is put into a job
//! before it runs (FM-09). Between the two it is suspended: were it not, what it starts first might be outside.

use std::fs::File;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, OwnedHandle};
use std::os::windows::process::CommandExt;
use std::process::Stdio;
use std::sync::{Arc, Once};
use std::task::{Context, Poll};

use outlive_core::cause::{Exit, StartFailure};
use tokio::sync::mpsc::UnboundedSender;
use windows_sys::Win32::Foundation::{
    HANDLE_FLAG_INHERIT, INVALID_HANDLE_VALUE, SetHandleInformation, WAIT_OBJECT_0,
};
use windows_sys::Win32::System::Console::{
    CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent, GetConsoleCP, GetStdHandle, STD_ERROR_HANDLE,
    STD_INPUT_HANDLE, STD_OUTPUT_HANDLE,
};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CREATE_NO_WINDOW, CREATE_SUSPENDED, GetExitCodeProcess, OpenThread,
    ResumeThread, THREAD_SUSPEND_RESUME, TerminateProcess, WaitForSingleObject,
};

use super::cleanup;
pub(crate) use super::cleanup::Sweep;
use super::job::Job;
use super::programs;
use crate::io::pipe::{self, Ours};
use crate::io::stream::{Sink, Source};
use crate::io::watch::{Times, Watch};
use crate::process::command::Command;
use crate::process::orphan_reaper::OrphanReaper;
use crate::secrets::Secrets;

/// What comes of a start.
pub(crate) type Started = Result<(Server, Pipes), StartFailure>;

/// A server that was started. It and what it has started are ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    /// Ends before the handle is closed that it waits for.
    watch: Option<Watch>,
    member: Arc<Member>,
}

/// The process and its job, for those who wait for their end.
#[derive(Debug)]
pub(super) struct Member {
    pid: u32,
    process: OwnedHandle,
    pub(super) job: Job,
}

impl Member {
    fn has_ended(&self) -> bool {
        // SAFETY: the handle is open, and nothing is waited for.
        #[expect(unsafe_code)]
        let waited = unsafe { WaitForSingleObject(self.process.as_raw_handle(), 0) };
        waited == WAIT_OBJECT_0
    }

    /// Whether it has ended, and all that it has started.
    pub(super) fn is_gone(&self) -> bool {
        self.has_ended() && self.job.is_empty()
    }
}

/// Starts a command in a job. Whether there is an orphan reaper makes no difference: the kernel is it.
pub(crate) fn launch(command: &Command, _orphan_reaper: Option<OrphanReaper>) -> Started {
    let pipes = Ends::new().map_err(|error| StartFailure::Other(error.to_string()))?;
    keep_streams_to_ourselves();
    // Found here and not by the system, which knows programs that end in `.exe` only. The standard library quotes
    // arguments for batch files, or refuses those that cannot be.
    let file = command.file();
    let program = file
        .as_deref()
        .map_or(&*command.program, |file| file.as_os_str());
    let mut process = std::process::Command::new(program);
    for name in Secrets::VARIABLES {
        process.env_remove(name);
    }
    process
        .args(&command.args)
        .envs(command.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::from(pipes.stdin))
        .stdout(Stdio::from(pipes.stdout))
        .stderr(Stdio::from(pipes.stderr))
        .creation_flags(CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP | window());
    if let Some(cwd) = &command.cwd {
        process.current_dir(cwd);
    }
    let failed = |error: io::Error| programs::start_failure(command, &error);
    let job = Job::new().map_err(failed)?;
    let child = process.spawn().map_err(failed)?;
    let contained = job.add(child.as_handle()).and_then(|()| resume(child.id()));
    let pid = child.id();
    let handle = OwnedHandle::from(child);
    if let Err(error) = contained {
        // SAFETY: the handle is open. It has not run yet.
        #[expect(unsafe_code)]
        unsafe {
            TerminateProcess(handle.as_raw_handle(), 1);
        }
        let why = format!("it could not be put into a job: {error}");
        return Err(StartFailure::Other(why));
    }
    let member = Arc::new(Member {
        pid,
        process: handle,
        job,
    });
    let server = Server {
        watch: None,
        member,
    };
    Ok((server, pipes.ours))
}

/// Without a console of our own each server would get a window.
fn window() -> u32 {
    // SAFETY: it only asks.
    #[expect(unsafe_code)]
    match unsafe { GetConsoleCP() } {
        0 => CREATE_NO_WINDOW,
        _ => 0,
    }
}

/// No child inherits the streams that the host has given us: it would keep them open when we are gone.
pub(crate) fn keep_streams_to_ourselves() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for stream in [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE] {
            // SAFETY: it changes a flag of a handle; one that is not open is refused.
            #[expect(unsafe_code)]
            unsafe {
                SetHandleInformation(GetStdHandle(stream), HANDLE_FLAG_INHERIT, 0);
            }
        }
    });
}

/// Lets a process run that was started suspended. It has one thread, which only a list of all threads shows.
fn resume(pid: u32) -> io::Result<()> {
    // SAFETY: the handles are closed when they are not needed any more, and the structure says how long it is.
    #[expect(unsafe_code)]
    unsafe {
        use std::os::windows::io::FromRawHandle;
        let all = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
        if all == INVALID_HANDLE_VALUE {
            return Err(io::Error::last_os_error());
        }
        let all = OwnedHandle::from_raw_handle(all);
        let mut entry = THREADENTRY32 {
            dwSize: size_of::<THREADENTRY32>() as u32,
            ..THREADENTRY32::default()
        };
        let mut more = Thread32First(all.as_raw_handle(), &raw mut entry);
        while more != 0 {
            if entry.th32OwnerProcessID == pid {
                let thread = OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID);
                if thread.is_null() {
                    return Err(io::Error::last_os_error());
                }
                let thread = OwnedHandle::from_raw_handle(thread);
                return match ResumeThread(thread.as_raw_handle()) {
                    u32::MAX => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                };
            }
            more = Thread32Next(all.as_raw_handle(), &raw mut entry);
        }
    }
    Err(io::Error::other("it has no thread"))
}

impl Server {
    /// `done` is told when it ends.
    pub(crate) fn watch(&mut self, done: &UnboundedSender<()>) -> io::Result<()> {
        let done = done.clone();
        let tell = move || {
            // Whoever has gone since does not wait for it.
            let _ = done.send(());
        };
        self.watch = Some(Watch::new(
            self.member.process.as_handle(),
            Times::Once,
            tell,
        )?);
        Ok(())
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.member.has_ended()
    }

    /// How it has ended, if it has.
    pub(crate) fn exit(&self) -> Exit {
        let mut code = 0;
        // SAFETY: the handle is open, and the number lives for as long as the call takes.
        #[expect(unsafe_code)]
        let done =
            unsafe { GetExitCodeProcess(self.member.process.as_raw_handle(), &raw mut code) };
        match done != 0 && self.has_ended() {
            true => Exit::Code(code.cast_signed()),
            false => Exit::Unknown,
        }
    }

    /// Asks its group to end, with a Ctrl-Break. Where it cannot be asked (it does not share our console) it is ended.
    pub(crate) fn terminate(&self) {
        // SAFETY: no pointer is given.
        #[expect(unsafe_code)]
        let asked = unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, self.member.pid) };
        if asked == 0 {
            self.member.job.end();
        }
    }

    /// Whether the system shows it as stopped. Windows does not: what hangs is found by asking it.
    pub(crate) fn is_stopped(&self) -> bool {
        false
    }

    /// Ends it with all that belongs to it. `done` is told when that is done.
    pub(crate) fn end(&self, done: UnboundedSender<()>) -> Sweep {
        cleanup::end(&self.member, Some(done))
    }

    /// Ends it with all that belongs to it, and waits until that is done, for a bounded time.
    pub(crate) fn end_now(&self) {
        cleanup::end_now(&self.member);
    }

    /// How it has ended, with all that belongs to it.
    pub(crate) fn collect(self) -> Exit {
        self.exit()
    }
}

/// Nothing is left to be collected: the job ends with the last handle to it.
impl Drop for Server {
    fn drop(&mut self) {
        self.watch = None;
        self.member.job.end();
    }
}

/// The three streams of a server, all ends of them.
struct Ends {
    ours: Pipes,
    stdin: File,
    stdout: File,
    stderr: File,
}

impl Ends {
    fn new() -> io::Result<Ends> {
        let (input, stdin) = pipe::pair(Ours::Writes)?;
        let (output, stdout) = pipe::pair(Ours::Reads)?;
        let (errors, stderr) = pipe::pair(Ours::Reads)?;
        let ours = Pipes {
            input,
            reader: stdin.try_clone()?,
            output,
            errors,
        };
        Ok(Ends {
            ours,
            stdin,
            stdout,
            stderr,
        })
    }
}

/// The three streams of a server.
#[derive(Debug)]
pub(crate) struct Pipes {
    input: OwnedHandle,
    reader: File,
    output: OwnedHandle,
    errors: OwnedHandle,
}

impl Pipes {
    /// Its input, output and standard error.
    pub(crate) fn open(self) -> io::Result<(Sink, Source, Source)> {
        Ok((
            Sink::new(self.input, Some(self.reader))?,
            Source::new(self.output)?,
            Source::new(self.errors)?,
        ))
    }
}

/// Tells that a server may have ended. Here [`Server::watch`] does.
#[derive(Debug)]
pub(crate) struct Exits;

impl Exits {
    pub(crate) fn new() -> io::Result<Exits> {
        Ok(Exits)
    }

    pub(crate) fn poll(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// Nobody is orphaned: what a server leaves behind stays in its job.
pub(crate) fn own_orphans() {}

/// There are none to be looked at.
pub(crate) fn tidy() {}
