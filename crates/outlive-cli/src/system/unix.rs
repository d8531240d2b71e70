//! Unix.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::io::AsyncWrite;
use tokio::signal::unix::{SignalKind, signal};

use super::{Parent, variable};

/// Descriptors that we would like to have: a client takes one, a server of its own three.
const DESCRIPTORS: u64 = 1 << 16;

/// Folders that are emptied when the machine or the user's last session ends, the best first.
pub fn runtime_folders() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let bases = [
        variable("XDG_RUNTIME_DIR"),
        // Where systemd puts it, for those whose host has told them nothing.
        Some(format!("/run/user/{user}").into()),
    ];
    let bases = bases.into_iter().flatten();
    // A base that is not there is not ours to make.
    let mut folders: Vec<PathBuf> = bases
        .filter(|base| base.is_absolute() && base.is_dir())
        .map(|base| base.join("outlive"))
        .collect();
    for base in [std::env::temp_dir(), "/tmp".into()] {
        folders.push(base.join(format!("outlive-{user}")));
    }
    folders
}

/// Folders for what is kept, the best first.
pub fn state_folders() -> Vec<PathBuf> {
    let home = |parts: &[&str]| Some(variable("HOME")?.join(parts.iter().collect::<PathBuf>()));
    let usual = match cfg!(target_os = "macos") {
        true => home(&["Library", "Application Support", "outlive"]),
        false => home(&[".local", "state", "outlive"]),
    };
    let wanted = variable("XDG_STATE_HOME").map(|base| base.join("outlive"));
    let folders = [wanted, usual].into_iter().flatten();
    folders.filter(|folder| folder.is_absolute()).collect()
}

/// The folder for what can be made anew.
pub fn cache_folder() -> Option<PathBuf> {
    let home = |parts: &[&str]| Some(variable("HOME")?.join(parts.iter().collect::<PathBuf>()));
    let usual = match cfg!(target_os = "macos") {
        true => home(&["Library", "Caches", "outlive"]),
        false => home(&[".cache", "outlive"]),
    };
    let wanted = variable("XDG_CACHE_HOME").map(|base| base.join("outlive"));
    let mut folders = [wanted, usual].into_iter().flatten();
    folders.find(|folder| folder.is_absolute())
}

/// Makes folders that nobody but this user can use.
pub fn private_folders() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
}

/// Makes what is opened a file that nobody but this user can use; a symbolic link is not followed.
pub fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    let nofollow = OFlags::NOFOLLOW.bits();
    options.mode(0o600).custom_flags(nofollow.cast_signed())
}

/// Why a folder is not this user's alone, if it is not.
pub fn owner_problem(found: &Metadata) -> Option<String> {
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Some("belongs to another user".into());
    }
    match found.permissions().mode() & 0o777 {
        mode if mode & 0o077 != 0 => Some(format!(
            "is open to other users (its mode is {mode:o}, not 700)"
        )),
        _ => None,
    }
}

/// The locked file; none if somebody else has it.
pub fn lock(path: &Path, create: bool) -> io::Result<Option<File>> {
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(create);
        let file = private_file(&mut options).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        // Whoever puts a file away removes it while it is locked: this one may be gone already.
        match fs::symlink_metadata(path) {
            Ok(there) if id(&there) == id(&file.metadata()?) => return Ok(Some(file)),
            Err(error) if !create => return Err(error),
            _ => {}
        }
    }
}

/// What tells one file from another.
pub fn id(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// When anything about a file last changed, its permissions included.
pub fn changed(file: &Metadata) -> (i64, i64) {
    (file.ctime(), file.ctime_nsec())
}

/// Gives a new file to the owner of another.
pub fn chown_like(file: &File, like: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        // Not by its name: whoever owns the folder may have put a link there.
        fchown(file, Some(like.uid()), Some(like.gid()))?;
    }
    Ok(())
}

/// A socket that nobody else may connect to.
#[derive(Debug)]
pub struct Listener(net::UnixListener);

impl Listener {
    /// Makes it at this path.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        let listener = net::UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Listener(listener))
    }

    /// To be called inside the runtime that is to accept.
    pub fn accepting(self) -> io::Result<Accepting> {
        Ok(Accepting(tokio::net::UnixListener::from_std(self.0)?))
    }
}

/// A socket at work.
#[derive(Debug)]
pub struct Accepting(tokio::net::UnixListener);

impl Accepting {
    /// The next who asks.
    pub async fn accept(&self) -> io::Result<impl AsyncWrite + Unpin + use<>> {
        Ok(self.0.accept().await?.0)
    }
}

/// Asks whoever listens at this path.
pub fn ask(path: &Path, timeout: Duration) -> io::Result<impl Read + use<>> {
    let stream = net::UnixStream::connect(path)?;
    stream.set_read_timeout(Some(timeout))?;
    Ok(stream)
}

/// The process that started this one, if it still lives.
pub fn parent() -> Option<Parent> {
    let parent = rustix::process::getppid()?;
    let pid = parent.as_raw_nonzero().get().unsigned_abs();
    let words = words(pid);
    Some(Parent { pid, words })
}

#[cfg(target_os = "linux")]
fn words(pid: u32) -> Option<(String, Vec<String>)> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0);
    let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
    Some((name.trim_end().to_owned(), words.collect()))
}

/// macOS tells the name of a process to whoever asks, and its arguments not to everybody.
#[cfg(target_os = "macos")]
fn words(pid: u32) -> Option<(String, Vec<String>)> {
    let mut name = [0_u8; 64];
    // SAFETY: the system writes no more than it is told there is room for.
    let length = unsafe {
        libc::proc_name(
            i32::try_from(pid).ok()?,
            name.as_mut_ptr().cast(),
            name.len() as u32,
        )
    };
    let name = name.get(..usize::try_from(length).ok()?)?;
    let name = String::from_utf8_lossy(name).into_owned();
    (!name.is_empty()).then_some((name, Vec::new()))
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn words(_pid: u32) -> Option<(String, Vec<String>)> {
    None
}

/// A process that is to be struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(Pid);

impl Process {
    /// What kills, and what is shown of it in a cause.
    pub const KILL: (&'static str, &'static str) = ("SIGKILL", "SIGKILL");
    /// What stops.
    pub const STOP: &'static str = "SIGSTOP";

    /// The process of this number.
    pub fn of(pid: i64) -> Option<Process> {
        i32::try_from(pid).ok().and_then(Pid::from_raw).map(Process)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0.as_raw_nonzero().get().unsigned_abs()
    }

    /// Kills it.
    pub fn kill(self) -> io::Result<()> {
        Ok(kill_process(self.0, Signal::KILL)?)
    }

    /// Stops it: it stays, and does nothing any more.
    pub fn stop(self) -> io::Result<()> {
        Ok(kill_process(self.0, Signal::STOP)?)
    }

    /// Whether it is still there.
    pub fn lives(self) -> bool {
        test_kill_process(self.0).is_ok()
    }
}

/// The number of the signal that tells us to stop, once one has come.
pub async fn stopped() -> u8 {
    let wait = async |kind: SignalKind| match signal(kind) {
        Ok(mut signals) => drop(signals.recv().await),
        // Then it kills us, and the orphan reaper sees to the rest.
        Err(_) => std::future::pending().await,
    };
    tokio::select! {
        () = wait(SignalKind::hangup()) => 1,
        () = wait(SignalKind::interrupt()) => 2,
        () = wait(SignalKind::terminate()) => 15,
    }
}

/// Asks for as many descriptors as we may have, within reason: the usual limit is that of a program with
/// one user.
pub fn raise_limits() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    if limit.current.is_some_and(|current| current < most) {
        limit.current = Some(most);
        // It may fail: then there is room for fewer clients.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
