//! Processes: starting one, and watching it.
//!
//! A server runs in a session and process group of its own, so that a Ctrl-C in the terminal
//! does not reach it (FM-66) and a signal to the group reaches all of `sh -c …`, `npx …` (FM-09).
//! Its exit is first only looked at, not collected: until it is, the kernel keeps its process id
//! and with it the group's, and what is left of the group can be killed without hitting a stranger.
//!
//! On Linux the server is killed when we are (`PR_SET_PDEATHSIG`). What it has started, also outside of its
//! group, is found and ended as [`tree`] and [`cleanup`](super::cleanup) say.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};

use outlive_core::cause::{Exit, StartFailure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

use super::native;
use super::programs;
use super::tree::{self, Tree};
use crate::process::command::Command;
use crate::secrets::Secrets;

/// A stopped server is looked for behind so many wrappers.
const WRAPPERS: usize = 8;

/// Starts `command` with three pipes, as the root of `tree`.
pub(crate) fn spawn(command: &Command, tree: &Tree) -> Result<Child, StartFailure> {
    let parent = rustix::process::getpid();
    let mut child = std::process::Command::new(&command.program);
    for name in Secrets::VARIABLES {
        child.env_remove(name);
    }
    child
        .args(&command.args)
        .envs(command.env.iter().map(|(name, value)| (name, value)))
        .env(tree::VARIABLE, tree.value())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &command.cwd {
        child.current_dir(cwd);
    }
    let tree = tree.clone();
    let is_linux = native::is_linux();
    // SAFETY: between fork and exec only system calls are made: no allocation, no lock.
    #[expect(unsafe_code)]
    unsafe {
        child.pre_exec(move || detach(parent, &tree, is_linux))
    };
    child
        .spawn()
        .map_err(|error| programs::start_failure(command, &error))
}

/// Runs in the child, before the program does.
fn detach(parent: Pid, tree: &Tree, is_linux: bool) -> io::Result<()> {
    rustix::process::setsid()?;
    tree.mark();
    #[cfg(target_os = "linux")]
    if is_linux {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before the line above; then nobody would tell the child.
        if rustix::process::getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
    }
    let _ = (parent, is_linux);
    Ok(())
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

/// How a process has ended that is not collected yet.
pub(crate) fn exit_of(pid: Pid) -> Exit {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let Ok(Some(status)) = rustix::process::waitid(WaitId::Pid(pid), look) else {
        return Exit::Unknown;
    };
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
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

/// Waits for the end of a process, for as long as it takes. It is not collected.
pub(crate) fn wait_for_end(pid: Pid) {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), look) {}
}

/// Asks the group of `leader` to end; a stopped process is continued so that it can.
pub(crate) fn terminate(leader: Pid) {
    let _ = rustix::process::kill_process_group(leader, Signal::TERM);
    let _ = rustix::process::kill_process_group(leader, Signal::CONT);
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
    for _ in 0..WRAPPERS {
        if state_of(pid) == Some('T') {
            return true;
        }
        match tree::children(pid)[..] {
            [only] => pid = only.pid,
            _ => return false,
        }
    }
    false
}

/// The kernel's letter for the state of a process.
fn state_of(pid: Pid) -> Option<char> {
    if !native::is_linux() {
        return None;
    }
    let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name before it is in parentheses and may contain anything, also `)`.
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(name_ends + 2).map(|letter| char::from(*letter))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::programs::obstacle;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    /// Long enough that only a hang exceeds it.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn start(command: &Command) -> Result<Child, StartFailure> {
        spawn(command, &Tree::new())
    }

    fn sh(script: &str) -> Child {
        start(&Command::new("sh", ["-c", script])).unwrap()
    }

    fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[cfg(target_os = "linux")]
    fn pid_from(child: &mut Child) -> Pid {
        use std::io::{BufRead, BufReader};
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        Pid::from_raw(line.trim().parse().unwrap()).unwrap()
    }

    #[test]
    fn an_exit_can_be_looked_at_before_it_is_collected() {
        for (script, exit) in [("exit 3", Exit::Code(3)), ("kill -9 $$", Exit::Signal(9))] {
            let pid = Pid::from_child(&sh(script));
            eventually("it ends", || has_ended(pid));
            assert!(has_ended(pid));
            assert_eq!(exit_of(pid), exit);
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
                failure = start(&Command::new(&path, [""])).err();
                !failure
                    .as_ref()
                    .is_some_and(|why| why.to_string().contains("busy"))
            });
            failure.unwrap()
        };
        assert_eq!(file("plain", "text", 0o644), StartFailure::NotExecutable);
        let looked = |program: &str| obstacle(&Command::new(dir.join(program), [""]));
        assert_eq!(looked("plain"), Some(StartFailure::NotExecutable));
        assert_eq!(looked("none"), Some(StartFailure::NoFile));
        assert_eq!(obstacle(&Command::from("sh")), None);
        let nowhere = obstacle(&Command::from("no-such-program-anywhere"));
        assert_eq!(nowhere, Some(StartFailure::NotFound));
        let script = file("script", "#!/no/such/interpreter\n", 0o755).to_string();
        assert!(script.contains("interpreter"), "{script}");
        let none = Command::new(dir.join("none"), [""]);
        assert_eq!(start(&none).unwrap_err(), StartFailure::NoFile);
        for (program, words) in [
            ("no-such-program-anywhere", "PATH"),
            ("python3 server.py", "each argument"),
            ("htps://example.com/mcp", "https://"),
        ] {
            let failure = start(&Command::new(program, [""])).unwrap_err().to_string();
            assert!(failure.contains(words), "{program}: {failure}");
        }
        let mut elsewhere = Command::new("sh", ["-c", "exit"]);
        elsewhere.cwd = Some(dir.join("none"));
        let elsewhere = start(&elsewhere).unwrap_err().to_string();
        assert!(elsewhere.contains("no directory"), "{elsewhere}");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn our_secrets_are_not_a_servers_unless_it_is_given_them() {
        // SAFETY: no other test of this crate reads or writes these variables.
        #[expect(unsafe_code)]
        unsafe {
            std::env::set_var("OUTLIVE_TOKEN", "hunter22");
            std::env::set_var("OUTLIVE_HEADER", "Authorization: hunter22");
        }
        let command = Command::new("sh", ["-c", "echo \"<$OUTLIVE_TOKEN$OUTLIVE_HEADER>\""]);
        for (command, said) in [
            (command.clone(), "<>\n"),
            (command.env("OUTLIVE_TOKEN", "its own"), "<its own>\n"),
        ] {
            let output = start(&command).unwrap().wait_with_output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), said);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_stopped_server_is_seen_behind_its_wrapper() {
        let mut child = sh("sh -c 'echo $$; exec sleep 1000'; true");
        let (leader, server) = (Pid::from_child(&child), pid_from(&mut child));
        assert_ne!(leader, server);
        assert!(!is_stopped(leader));
        rustix::process::kill_process(server, Signal::STOP).unwrap();
        eventually("it stops", || is_stopped(leader));
        rustix::process::kill_process_group(leader, Signal::KILL).unwrap();
        wait_for_end(leader);
        collect(leader);
    }
}
