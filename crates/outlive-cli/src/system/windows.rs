//! Windows.
//!
//! Users' files are in folders that only they can open, so nothing is said about single files. What has no place in a
//! folder there is a socket with a name: an instance listens at a port of this machine instead, and tells it, with a
//! word that has to be said first, in a file of the user's.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWrite};
use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_logoff, ctrl_shutdown};
use windows_sys::Win32::Foundation::{
    ERROR_INVALID_PARAMETER, ERROR_SHARING_VIOLATION, INVALID_HANDLE_VALUE, WAIT_OBJECT_0,
    WAIT_TIMEOUT,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_OPEN_REPARSE_POINT, FILE_SHARE_DELETE, FILE_SHARE_READ,
};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
    TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::Threading::{
    INFINITE, OpenProcess, OpenThread, PROCESS_SYNCHRONIZE, PROCESS_TERMINATE, SuspendThread,
    THREAD_SUSPEND_RESUME, TerminateProcess, WaitForSingleObject,
};

use super::{Parent, variable};

/// How long whoever connects may take to say the word.
const WORD_TIMEOUT: Duration = Duration::from_secs(1);

/// Of the word, in hexadecimal digits.
const WORD: usize = 32;

/// What the demo has a server exit with that it kills: unlike anything a server would say of itself.
const KILLED: u32 = 0xDEAD;

fn local(part: &str) -> Option<PathBuf> {
    let usual = || Some(variable("USERPROFILE")?.join("AppData").join("Local"));
    let base = variable("LOCALAPPDATA").or_else(usual)?;
    base.is_absolute().then(|| base.join("outlive").join(part))
}

/// Folders for what is of no use after a restart, the best first.
pub fn runtime_folders() -> Vec<PathBuf> {
    let temporary = std::env::temp_dir().join("outlive").join("run");
    [local("run"), Some(temporary)]
        .into_iter()
        .flatten()
        .collect()
}

/// Folders for what is kept, the best first.
pub fn state_folders() -> Vec<PathBuf> {
    local("state").into_iter().collect()
}

/// The folder for what can be made anew.
pub fn cache_folder() -> Option<PathBuf> {
    local("cache")
}

/// Makes folders; who may use them is inherited.
pub fn private_folders() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    builder
}

/// Makes what is opened a file that nobody but this user can use; a symbolic link is not followed.
pub fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(FILE_FLAG_OPEN_REPARSE_POINT)
}

/// Why a folder is not this user's alone, if it is not. Its place says so.
pub fn owner_problem(_found: &Metadata) -> Option<String> {
    None
}

/// The locked file; none if somebody else has it. Nobody else can open it for writing as long as it is open.
pub fn lock(path: &Path, create: bool) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(create)
        .share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE);
    match private_file(&mut options).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if is_taken(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// One that is being removed cannot be opened either.
fn is_taken(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ERROR_SHARING_VIOLATION as i32)
        || error.kind() == io::ErrorKind::PermissionDenied
}

/// What tells one file from another, as far as it can be told without opening both.
pub fn id(file: &Metadata) -> (u64, u64) {
    (file.creation_time(), 0)
}

/// When anything about a file last changed: here only what [`Metadata::modified`] tells is known.
pub fn changed(_file: &Metadata) -> (i64, i64) {
    (0, 0)
}

/// Gives a new file to the owner of another. It inherits its owner from its folder.
pub fn chown_like(_file: &File, _like: &Metadata) -> io::Result<()> {
    Ok(())
}

/// A port of this machine, and the word that has to be said there.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    word: String,
}

impl Listener {
    /// Makes it, and tells it in a file at this path.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let random = || RandomState::new().build_hasher().finish();
        let word = format!("{:016x}{:016x}", random(), random());
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        let mut file = private_file(options).open(path)?;
        write!(file, "{} {word}", listener.local_addr()?.port())?;
        Ok(Listener { listener, word })
    }

    /// To be called inside the runtime that is to accept.
    pub fn accepting(self) -> io::Result<Accepting> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        Ok(Accepting {
            listener,
            word: self.word,
        })
    }
}

/// A port at work.
#[derive(Debug)]
pub struct Accepting {
    listener: tokio::net::TcpListener,
    word: String,
}

impl Accepting {
    /// The next who asks and knows the word.
    pub async fn accept(&self) -> io::Result<impl AsyncWrite + Unpin + use<>> {
        loop {
            let (mut stream, _) = self.listener.accept().await?;
            let mut said = [0; WORD];
            let read = tokio::time::timeout(WORD_TIMEOUT, stream.read_exact(&mut said));
            if matches!(read.await, Ok(Ok(_))) && said == self.word.as_bytes() {
                return Ok(stream);
            }
        }
    }
}

/// Asks whoever listens there.
pub fn ask(path: &Path, timeout: Duration) -> io::Result<impl Read + use<>> {
    let told = std::fs::read_to_string(path)?;
    let (port, word) = told
        .split_once(' ')
        .and_then(|(port, word)| Some((port.parse::<u16>().ok()?, word)))
        .ok_or(io::ErrorKind::InvalidData)?;
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(word.as_bytes())?;
    Ok(stream)
}

/// The process that started this one: its number and, if it still lives, its name.
pub fn parent() -> Option<Parent> {
    let all = processes();
    let this = all
        .iter()
        .find(|entry| entry.th32ProcessID == std::process::id())?;
    let pid = this.th32ParentProcessID;
    let parent = all.iter().find(|entry| entry.th32ProcessID == pid);
    let words = parent.map(|entry| {
        let name = &entry.szExeFile;
        let end = name
            .iter()
            .position(|unit| *unit == 0)
            .unwrap_or(name.len());
        let name = String::from_utf16_lossy(&name[..end]);
        let plain = name.strip_suffix(".exe").map(str::to_owned);
        (plain.unwrap_or(name), Vec::new())
    });
    Some(Parent { pid, words })
}

fn processes() -> Vec<PROCESSENTRY32W> {
    let mut all = Vec::new();
    let mut entry = PROCESSENTRY32W {
        dwSize: size_of::<PROCESSENTRY32W>() as u32,
        ..PROCESSENTRY32W::default()
    };
    // SAFETY: the handle is closed in the end, and the structure says how long it is.
    unsafe {
        let list = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
        if list == INVALID_HANDLE_VALUE {
            return all;
        }
        let list = OwnedHandle::from_raw_handle(list);
        let mut more = Process32FirstW(list.as_raw_handle(), &raw mut entry);
        while more != 0 {
            all.push(entry);
            more = Process32NextW(list.as_raw_handle(), &raw mut entry);
        }
    }
    all
}

/// A process that is to be struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// What kills, and what is shown of it in a cause.
    pub const KILL: (&'static str, &'static str) = ("TerminateProcess", "code 57005");
    /// What stops.
    pub const STOP: &'static str = "SuspendThread";

    /// The process of this number.
    pub fn of(pid: i64) -> Option<Process> {
        u32::try_from(pid).ok().filter(|pid| *pid > 0).map(Process)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Kills it.
    pub fn kill(self) -> io::Result<()> {
        let process = self.open(PROCESS_TERMINATE)?;
        // SAFETY: the handle is open.
        match unsafe { TerminateProcess(process.as_raw_handle(), KILLED) } {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Waits until it has ended; whether it has, as far as we may know.
    pub fn wait(self) -> bool {
        let process = match self.open(PROCESS_SYNCHRONIZE) {
            Ok(process) => process,
            // So it is for a number that no process has.
            Err(error) => return error.raw_os_error() == Some(ERROR_INVALID_PARAMETER as i32),
        };
        // SAFETY: the handle is open until after the wait.
        unsafe { WaitForSingleObject(process.as_raw_handle(), INFINITE) == WAIT_OBJECT_0 }
    }

    /// Stops it: it stays, and does nothing any more.
    pub fn stop(self) -> io::Result<()> {
        let mut entry = THREADENTRY32 {
            dwSize: size_of::<THREADENTRY32>() as u32,
            ..THREADENTRY32::default()
        };
        // SAFETY: the handles are closed in the end, and the structure says how long it is.
        unsafe {
            let list = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
            if list == INVALID_HANDLE_VALUE {
                return Err(io::Error::last_os_error());
            }
            let list = OwnedHandle::from_raw_handle(list);
            let mut more = Thread32First(list.as_raw_handle(), &raw mut entry);
            while more != 0 {
                if entry.th32OwnerProcessID == self.0 {
                    let thread = OpenThread(THREAD_SUSPEND_RESUME, 0, entry.th32ThreadID);
                    if !thread.is_null() {
                        SuspendThread(OwnedHandle::from_raw_handle(thread).as_raw_handle());
                    }
                }
                more = Thread32Next(list.as_raw_handle(), &raw mut entry);
            }
        }
        Ok(())
    }

    /// Whether it is still there.
    pub fn lives(self) -> bool {
        let Ok(process) = self.open(PROCESS_SYNCHRONIZE) else {
            return false;
        };
        // SAFETY: the handle is open, and nothing is waited for.
        unsafe { WaitForSingleObject(process.as_raw_handle(), 0) == WAIT_TIMEOUT }
    }

    fn open(self, access: u32) -> io::Result<OwnedHandle> {
        // SAFETY: the handle that comes back is nobody else's.
        unsafe {
            let handle = OpenProcess(access, 0, self.0);
            if handle.is_null() {
                return Err(io::Error::last_os_error());
            }
            Ok(OwnedHandle::from_raw_handle(handle))
        }
    }
}

/// The number that goes with what tells us to stop, once it has come: that of the signal on other systems.
pub async fn stopped() -> u8 {
    let signals = (
        ctrl_c(),
        ctrl_break(),
        ctrl_close(),
        ctrl_logoff(),
        ctrl_shutdown(),
    );
    let (Ok(mut c), Ok(mut pause), Ok(mut close), Ok(mut logoff), Ok(mut shutdown)) = signals
    else {
        // Then it ends us, and the kernel sees to the rest.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = c.recv() => 2,
        _ = pause.recv() => 15,
        _ = close.recv() => 1,
        _ = logoff.recv() => 1,
        _ = shutdown.recv() => 15,
    }
}

/// There is no limit to be raised.
pub fn raise_limits() {}
