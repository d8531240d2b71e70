//! Threads that start servers.
//!
//! On Linux a server dies with the thread that started it, and threads of a runtime come and go: so servers are
//! started on one that never ends. And starting takes as long as the file system takes to find the program: nothing
//! for a thread that carries messages.
//!
//! Servers are started one after the other: a process that is being started holds the pipes of all that are started at
//! the same moment. But one whose file system does not answer is not waited for ([`HOLD`]): another thread goes on.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::process::command::Command;
use crate::process::orphan_reaper::OrphanReaper;
use crate::process::server::{self, Started};

/// How long a start holds up the next one.
const HOLD: Duration = Duration::from_millis(200);

/// Threads at most. There is one for each start that hangs, and one or two more.
const THREADS: usize = 64;

static STARTER: Starter = Starter {
    queue: Mutex::new(Queue {
        orders: VecDeque::new(),
        latest: None,
        threads: 0,
        idle: 0,
    }),
    changed: Condvar::new(),
};

struct Starter {
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    orders: VecDeque<Order>,
    /// When the latest start began, unless it is done.
    latest: Option<Instant>,
    threads: usize,
    /// Those that are starting nothing.
    idle: usize,
}

struct Order {
    command: Command,
    orphan_reaper: Option<OrphanReaper>,
    reply: oneshot::Sender<Started>,
}

/// Starts a command; an orphan reaper guards it.
pub(crate) fn start(
    command: &Command,
    orphan_reaper: Option<&OrphanReaper>,
) -> oneshot::Receiver<Started> {
    let (reply, started) = oneshot::channel();
    let mut queue = STARTER.lock();
    queue.orders.push_back(Order {
        command: command.clone(),
        orphan_reaper: orphan_reaper.cloned(),
        reply,
    });
    queue.ensure_thread();
    STARTER.changed.notify_one();
    started
}

impl Queue {
    /// Sees to it that there is a thread for what waits.
    fn ensure_thread(&mut self) {
        if self.orders.is_empty() || self.idle > 0 || self.threads == THREADS {
            return;
        }
        let thread = thread::Builder::new().name("outlive-starter".into());
        match thread.spawn(|| STARTER.work()) {
            Ok(_) => (self.threads, self.idle) = (self.threads + 1, self.idle + 1),
            // Nobody will ever carry them out. Dropped with their replies, they say so.
            Err(_) if self.threads == 0 => self.orders.clear(),
            Err(_) => {}
        }
    }
}

impl Starter {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        loop {
            let (order, begun) = self.take();
            let outcome = order.carry_out();
            let mut queue = self.lock();
            queue.idle += 1;
            queue.latest.take_if(|latest| *latest == begun);
            drop(queue);
            self.changed.notify_one();
            // Only now: whoever hears of it may order the next one at once, and needs no other thread for that.
            if let Some((reply, started)) = outcome {
                // If nobody waits for it any more, it is dropped here, and ended.
                let _ = reply.send(started);
            }
        }
    }

    /// Waits for an order whose turn it is.
    fn take(&self) -> (Order, Instant) {
        let mut queue = self.lock();
        loop {
            let hold = queue
                .latest
                .map(|latest| HOLD.saturating_sub(latest.elapsed()));
            let hold = hold.filter(|hold| !hold.is_zero() && !queue.orders.is_empty());
            if let Some(hold) = hold {
                let waited = self.changed.wait_timeout(queue, hold);
                queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else if let Some(order) = queue.orders.pop_front() {
                queue.idle -= 1;
                let begun = Instant::now();
                queue.latest = Some(begun);
                queue.ensure_thread();
                return (order, begun);
            } else {
                queue = self
                    .changed
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Order {
    /// What was started, and who is to be told; nothing, if nobody wants to know any more.
    fn carry_out(self) -> Option<(oneshot::Sender<Started>, Started)> {
        if self.reply.is_closed() {
            return None;
        }
        let started = server::launch(&self.command, self.orphan_reaper);
        Some((self.reply, started))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::process::server::{Pipes, Server};
    use crate::process::tree::Seen;
    use outlive_core::cause::Exit;
    use rustix::process::Pid;
    use std::io::{BufRead, BufReader};
    use std::time::{Duration, Instant};

    /// Long enough that only a hang exceeds it.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn sh(script: &str) -> (Server, Pipes) {
        let starting = start(&Command::new("sh", ["-c", script]), None);
        starting.blocking_recv().unwrap().unwrap()
    }

    fn numbers(pipes: &mut Pipes, count: usize) -> Vec<Pid> {
        let lines = BufReader::new(&mut pipes.stdout).lines();
        let number = |line: String| Pid::from_raw(line.trim().parse().ok()?);
        let numbers = lines.map_while(Result::ok).filter_map(number);
        numbers.take(count).collect()
    }

    fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_alive(pid: Pid) -> bool {
        Seen::look(pid).is_some_and(|seen| !seen.ended)
    }

    /// In its group, in a session of its own, adopted by somebody else, and without an environment.
    const FAMILY: &str = "sleep 1000 & echo $!; setsid sleep 1000 & echo $!; \
        (setsid sh -c 'echo $$; exec sleep 1000' &); env -i setsid sleep 1000 & echo $!; wait";

    #[test]
    fn all_of_it_has_ended_when_that_is_told() {
        let (server, mut pipes) = sh(FAMILY);
        let family = numbers(&mut pipes, 4);
        assert_eq!(family.len(), 4);
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let sweep = server.end(tell);
        told.blocking_recv().unwrap();
        assert!(sweep.is_done());
        assert!(!family.iter().any(|pid| is_alive(*pid)));
        assert_eq!(server.collect(), Exit::Signal(9));
    }

    #[test]
    fn what_is_dropped_is_ended_and_collected() {
        let (server, mut pipes) = sh(FAMILY);
        let (pid, family) = (server.pid(), numbers(&mut pipes, 4));
        drop(server);
        eventually("it is collected", || Seen::look(pid).is_none());
        assert!(!family.iter().any(|pid| is_alive(*pid)));
    }

    /// `fcntl`: which signal tells of a lease that is to be broken.
    const F_SETSIG: i32 = 10;

    /// A program that does not start as long as there is a lease on its file.
    struct Sluggish {
        file: std::fs::File,
        path: std::path::PathBuf,
    }

    impl Sluggish {
        fn new() -> Sluggish {
            let name = format!("outlive-sluggish-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            // By another process: a program cannot be run while somebody has it open for writing.
            let copied = std::process::Command::new("cp")
                .args([std::path::Path::new("/bin/sleep"), &path])
                .status();
            assert!(copied.unwrap().success());
            let file = std::fs::File::open(&path).unwrap();
            let sluggish = Sluggish { file, path };
            sluggish.lease(libc::F_WRLCK);
            sluggish
        }

        fn lease(&self, kind: i32) {
            use std::os::fd::AsRawFd;
            // SAFETY: it is an open file. Its holder is told with a signal that nobody minds.
            #[expect(unsafe_code)]
            let done = unsafe {
                libc::fcntl(self.file.as_raw_fd(), F_SETSIG, libc::SIGURG) == 0
                    && libc::fcntl(self.file.as_raw_fd(), libc::F_SETLEASE, kind) == 0
            };
            assert!(done, "{}", std::io::Error::last_os_error());
        }
    }

    impl Drop for Sluggish {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    #[test]
    fn starts_that_hang_do_not_hold_up_others() {
        let sluggish = Sluggish::new();
        let command = Command::new(&sluggish.path, ["1000"]);
        let mut hang: Vec<_> = (0..3).map(|_| start(&command, None)).collect();
        for _ in 0..3 {
            let (_server, mut pipes) = sh("echo 7");
            assert_eq!(numbers(&mut pipes, 1), [Pid::from_raw(7).unwrap()]);
        }
        for starting in &mut hang {
            assert!(starting.try_recv().is_err(), "it has not hung");
        }
        sluggish.lease(libc::F_UNLCK);
        for starting in hang {
            assert!(starting.blocking_recv().unwrap().is_ok());
        }
    }

    #[test]
    fn a_server_that_nobody_waits_for_any_more_is_ended() {
        let marker = std::env::temp_dir().join(format!("outlive-unwanted-{}", std::process::id()));
        let script = format!("echo $$ > {}; exec sleep 1000", marker.display());
        // The first keeps the thread at work for a moment; what becomes of the second is seen either way.
        let first = start(&Command::new("true", [""]), None);
        drop(start(&Command::new("sh", ["-c", &script]), None));
        let second = start(&Command::new("true", [""]), None);
        drop((first.blocking_recv(), second.blocking_recv()));
        eventually("it is gone, or never was", || {
            let text = std::fs::read_to_string(&marker).unwrap_or_default();
            let pid = text.trim().parse().ok().and_then(Pid::from_raw);
            pid.is_none_or(|pid| !is_alive(pid))
        });
        let _ = std::fs::remove_file(marker);
    }
}
