//! Processes: starting one, watching it, and making sure that nothing of it stays behind.
//!
//! A server runs in a session and process group of its own, so that a Ctrl-C in the terminal
//! does not reach it (FM-66) and a signal to the group reaches all of `sh -c …`, `npx …` (FM-09).
//! Its exit is first only looked at, not collected: until it is, the kernel keeps its process id
//! and with it the group's, and what is left of the group can be killed without hitting a stranger.
//!
//! On Linux three more things hold: the server is killed when we are (`PR_SET_PDEATHSIG`),
//! descendants that left the group are found by walking `/proc`, and orphans among them become
//! our own children (`PR_SET_CHILD_SUBREAPER`) rather than disappear from sight.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use outlive_core::cause::{Exit, StartFailure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

use crate::command::Command;

/// Passes over the process table when descendants are killed: one that forks while it is being
/// killed is caught by the next pass.
const PASSES: usize = 8;

/// How long the end of a killed process is waited for.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// Starts `command` with three pipes.
pub(crate) fn spawn(command: &Command) -> Result<Child, StartFailure> {
    let parent = rustix::process::getpid();
    let mut child = std::process::Command::new(&command.program);
    child
        .args(&command.args)
        .envs(command.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &command.cwd {
        child.current_dir(cwd);
    }
    // SAFETY: between fork and exec only system calls are made: no allocation, no lock.
    #[expect(unsafe_code)]
    unsafe {
        child.pre_exec(move || detach(parent))
    };
    child
        .spawn()
        .map_err(|error| start_failure(command, &error))
}

/// Runs in the child, before the program does.
fn detach(parent: Pid) -> io::Result<()> {
    rustix::process::setsid()?;
    #[cfg(target_os = "linux")]
    {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before the line above; then nobody would tell the child.
        if rustix::process::getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
    }
    let _ = parent;
    Ok(())
}

/// What the refusal means. `ENOENT` alone does not say which file was missing.
fn start_failure(command: &Command, error: &io::Error) -> StartFailure {
    if let Some(cwd) = &command.cwd
        && !cwd.is_dir()
    {
        return StartFailure::Other(format!("there is no directory {}", cwd.display()));
    }
    match Errno::from_io_error(error) {
        Some(Errno::NOENT) if command.file().is_some() => StartFailure::Other(
            "the file exists, but the interpreter its #! line names does not".into(),
        ),
        Some(Errno::NOENT) => missing(&command.program.to_string_lossy()),
        Some(Errno::ACCESS) => StartFailure::NotExecutable,
        Some(Errno::NOEXEC) => StartFailure::Other(
            "the file is not a program this system can run (is its #! line missing?)".into(),
        ),
        _ => StartFailure::Other(error.to_string()),
    }
}

/// What is not there, and why it may be looked for in vain.
fn missing(program: &str) -> StartFailure {
    let words = if program.contains("://") {
        "an address begins with http:// or https://"
    } else if program.contains(char::is_whitespace) {
        "there is no such program; its name has blanks in it: give the program and each argument as a word of its own"
    } else if program.contains('/') {
        return StartFailure::NoFile;
    } else {
        return StartFailure::NotFound;
    };
    StartFailure::Other(words.into())
}

/// The process id of a child that has not been collected.
pub(crate) fn id_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Whether the process has ended. It is not collected.
pub(crate) fn has_ended(pid: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match rustix::process::waitid(WaitId::Pid(pid), look) {
        Ok(status) => status.is_some(),
        // Somebody else has collected it: it has certainly ended.
        Err(error) => error == Errno::CHILD,
    }
}

/// Collects a process that has ended and tells how.
pub(crate) fn collect(pid: Pid) -> Exit {
    let Ok(Some((_, status))) = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) else {
        return Exit::Unknown;
    };
    let status = ExitStatus::from_raw(status.as_raw());
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

/// Collects a process that has been killed. `SIGKILL` takes a moment; a process that the kernel does
/// not let go of is left to a thread of its own, so that no zombie stays in a host that lives on.
pub(crate) fn collect_killed(pid: Pid) {
    let begun = Instant::now();
    while let Ok(None) = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
        if begun.elapsed() > KILL_PATIENCE {
            let wait = move || rustix::process::waitpid(Some(pid), WaitOptions::empty());
            // Without a thread there is nobody to wait for it.
            let _ = thread::Builder::new().spawn(wait);
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Asks the group of `leader` to end; a stopped process is continued so that it can.
pub(crate) fn terminate(leader: Pid) {
    let _ = rustix::process::kill_process_group(leader, Signal::TERM);
    let _ = rustix::process::kill_process_group(leader, Signal::CONT);
}

/// Ends `leader`, its group, and what descends from it.
pub(crate) fn kill(leader: Pid) {
    for _ in 0..PASSES {
        // Descendants are looked up first: once their parents are dead, the tree is gone.
        let descendants = descendants(leader);
        let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        if !kill_each(&descendants) {
            break;
        }
    }
}

/// Ends all children of this process that are not `known`, with what descends from them.
///
/// They are orphans of dead servers: see [`adopt_orphans`].
pub(crate) fn kill_orphans(known: &[Pid]) {
    for _ in 0..PASSES {
        let orphans = orphans(known);
        if orphans.is_empty() {
            break;
        }
        for orphan in orphans {
            let family = descendants(orphan);
            let _ = rustix::process::kill_process(orphan, Signal::KILL);
            kill_each(&family);
        }
        collect_orphans(known);
    }
}

/// Collects orphans that have ended by themselves.
pub(crate) fn collect_orphans(known: &[Pid]) {
    for orphan in orphans(known) {
        let _ = rustix::process::waitpid(Some(orphan), WaitOptions::NOHANG);
    }
}

fn orphans(known: &[Pid]) -> Vec<Pid> {
    let mut orphans = children(rustix::process::getpid());
    orphans.retain(|pid| !known.contains(pid));
    orphans
}

/// Whether any of them was still there to be killed.
fn kill_each(pids: &[Pid]) -> bool {
    let alive = |pid: &&Pid| {
        rustix::process::kill_process(**pid, Signal::KILL).is_ok() && state_of(**pid) != Some('Z')
    };
    pids.iter().filter(alive).count() > 0
}

/// Makes orphaned descendants children of this process, where the system can.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Lets the signals we live by reach us: their mask is inherited, and some hosts block them.
pub(crate) fn unblock_signals() {
    // SAFETY: the set is initialised by `sigemptyset` before it is used, and all pointers are
    // valid for the duration of the calls.
    #[expect(unsafe_code)]
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGCHLD, libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut());
    }
}

/// Whether the system shows the server as stopped. Behind a wrapper (`sh -c`, `npx`) the
/// server is the only child of an only child.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    let mut pid = pid;
    for _ in 0..PASSES {
        if state_of(pid) == Some('T') {
            return true;
        }
        match children(pid)[..] {
            [only] => pid = only,
            _ => return false,
        }
    }
    false
}

/// The kernel's letter for the state of a process.
fn state_of(pid: Pid) -> Option<char> {
    let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name before it is in parentheses and may contain anything, also `)`.
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(name_ends + 2).map(|letter| char::from(*letter))
}

/// All that descends from a process, parents first.
fn descendants(pid: Pid) -> Vec<Pid> {
    let mut found = children(pid);
    let mut next = 0;
    while next < found.len() {
        let more = children(found[next]);
        found.extend(
            more.into_iter()
                .filter(|pid| !found.contains(pid))
                .collect::<Vec<_>>(),
        );
        next += 1;
    }
    found
}

/// The children of a process; none where the system does not tell.
fn children(pid: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let lists = tasks.into_iter().flatten().flatten().filter_map(|task| {
        // A list for each thread: children belong to the thread that made them.
        std::fs::read_to_string(task.path().join("children")).ok()
    });
    let parse = |list: String| -> Vec<Pid> {
        list.split_whitespace()
            .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            .collect()
    };
    lists.flat_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    /// Long enough that only a hang exceeds it.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn sh(script: &str) -> Child {
        spawn(&Command::new("sh", ["-c", script])).unwrap()
    }

    fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn pid_from(child: &mut Child) -> Pid {
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        Pid::from_raw(line.trim().parse().unwrap()).unwrap()
    }

    fn is_gone(pid: Pid) -> bool {
        matches!(state_of(pid), None | Some('Z'))
    }

    #[test]
    fn an_exit_can_be_looked_at_before_it_is_collected() {
        for (script, exit) in [("exit 3", Exit::Code(3)), ("kill -9 $$", Exit::Signal(9))] {
            let pid = id_of(&sh(script));
            eventually("it ends", || has_ended(pid));
            assert!(has_ended(pid));
            assert_eq!(collect(pid), exit);
            assert_eq!(collect(pid), Exit::Unknown);
        }
    }

    #[test]
    fn each_way_not_to_start_reads_differently() {
        let dir = std::env::temp_dir().join(format!("outlive-start-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let file = |name: &str, text: &str, mode| {
            let path = dir.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let mut failure = None;
            // Busy while a fork of another test still has it open for writing.
            eventually("it is not busy", || {
                failure = spawn(&Command::new(&path, [""])).err();
                !failure
                    .as_ref()
                    .is_some_and(|why| why.to_string().contains("busy"))
            });
            failure.unwrap()
        };
        assert_eq!(file("plain", "text", 0o644), StartFailure::NotExecutable);
        let script = file("script", "#!/no/such/interpreter\n", 0o755).to_string();
        assert!(script.contains("interpreter"), "{script}");
        let none = Command::new(dir.join("none"), [""]);
        assert_eq!(spawn(&none).unwrap_err(), StartFailure::NoFile);
        for (program, words) in [
            ("no-such-program-anywhere", "PATH"),
            ("python3 server.py", "each argument"),
            ("htps://example.com/mcp", "https://"),
        ] {
            let failure = spawn(&Command::new(program, [""])).unwrap_err().to_string();
            assert!(failure.contains(words), "{program}: {failure}");
        }
        let mut elsewhere = Command::new("sh", ["-c", "exit"]);
        elsewhere.cwd = Some(dir.join("none"));
        let elsewhere = spawn(&elsewhere).unwrap_err().to_string();
        assert!(elsewhere.contains("no directory"), "{elsewhere}");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn killing_reaches_the_group_and_those_who_left_it() {
        for script in [
            "sleep 1000 & echo $!; wait",
            "setsid sleep 1000 & echo $!; wait",
        ] {
            let mut child = sh(script);
            let (leader, descendant) = (id_of(&child), pid_from(&mut child));
            kill(leader);
            eventually("the leader ends", || has_ended(leader));
            eventually("the descendant ends", || is_gone(descendant));
            assert_eq!(collect(leader), Exit::Signal(9));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_stopped_server_is_seen_behind_its_wrapper() {
        let mut child = sh("sh -c 'echo $$; exec sleep 1000'; true");
        let (leader, server) = (id_of(&child), pid_from(&mut child));
        assert_ne!(leader, server);
        assert!(!is_stopped(leader));
        rustix::process::kill_process(server, Signal::STOP).unwrap();
        eventually("it stops", || is_stopped(leader));
        kill(leader);
        eventually("the leader ends", || has_ended(leader));
        collect(leader);
    }
}
