//! A thread that starts servers.
//!
//! On Linux a server dies with the thread that started it, and threads of a runtime come and go: so servers are
//! started on one that never ends. And starting takes as long as the file system takes to find the program: nothing
//! for a thread that carries messages.

use std::process::Child;
use std::sync::{OnceLock, mpsc};
use std::thread;

use outlive_core::cause::{Exit, StartFailure};
use rustix::process::Pid;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::command::Command;
use crate::process;
use crate::sweeper::{self, Sweep};
use crate::tree::Tree;
use crate::warden::Warden;

/// What comes of a start.
pub(crate) type Started = Result<(Server, Child), StartFailure>;

/// A server that was started. It and what it has started are ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    /// It leads its group, and is not collected before [`Server::collect`].
    pid: Pid,
    tree: Tree,
    warden: Option<Warden>,
    collected: bool,
}

impl Server {
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Ends it with all that belongs to it. `done` is told when that is done.
    pub(crate) fn end(&self, done: UnboundedSender<()>) -> Sweep {
        sweeper::end(self.pid, &self.tree, done)
    }

    /// Ends it with all that belongs to it, and waits until that is done, for a bounded time.
    pub(crate) fn end_now(&self) {
        sweeper::end_now(self.pid, &self.tree);
    }

    /// Collects it, once it has ended with all that belongs to it, and tells how.
    pub(crate) fn collect(mut self) -> Exit {
        self.collected = true;
        // In this order: once it is collected, its number may become somebody else's.
        if let Some(warden) = &self.warden {
            warden.release(self.pid);
        }
        sweeper::collect(self.pid)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.collected {
            sweeper::abandon(self.pid, &self.tree, self.warden.take());
        }
    }
}

struct Order {
    command: Command,
    warden: Option<Warden>,
    reply: oneshot::Sender<Started>,
}

/// Starts a command; a warden guards it.
pub(crate) fn start(command: &Command, warden: Option<&Warden>) -> oneshot::Receiver<Started> {
    static STARTER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (starter, orders) = mpsc::channel::<Order>();
        let work = move || orders.into_iter().for_each(Order::carry_out);
        // Without a thread the channel is closed, and the order below is dropped with its reply.
        let _ = thread::Builder::new()
            .name("outlive-starter".into())
            .spawn(work);
        starter
    });
    let (reply, started) = oneshot::channel();
    let order = Order {
        command: command.clone(),
        warden: warden.cloned(),
        reply,
    };
    let _ = starter.send(order);
    started
}

impl Order {
    fn carry_out(self) {
        if self.reply.is_closed() {
            return;
        }
        let tree = Tree::new();
        sweeper::begin_start();
        let spawned = process::spawn(&self.command, &tree);
        let pid = spawned.as_ref().ok().map(Pid::from_child);
        sweeper::end_start(pid.map(|pid| (pid, &tree)));
        let started = spawned.map(|child| {
            let pid = Pid::from_child(&child);
            if let Some(warden) = &self.warden {
                warden.guard(pid);
            }
            let server = Server {
                pid,
                tree,
                warden: self.warden,
                collected: false,
            };
            (server, child)
        });
        // If nobody waits for it any more, it is dropped here, and ended.
        let _ = self.reply.send(started);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::tree::Seen;
    use std::io::{BufRead, BufReader};
    use std::time::{Duration, Instant};

    /// Long enough that only a hang exceeds it.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn sh(script: &str) -> (Server, Child) {
        let starting = start(&Command::new("sh", ["-c", script]), None);
        starting.blocking_recv().unwrap().unwrap()
    }

    fn numbers(child: &mut Child, count: usize) -> Vec<Pid> {
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
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
        let (server, mut child) = sh(FAMILY);
        let family = numbers(&mut child, 4);
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
        let (server, mut child) = sh(FAMILY);
        let (pid, family) = (server.pid(), numbers(&mut child, 4));
        drop(server);
        eventually("it is collected", || Seen::look(pid).is_none());
        assert!(!family.iter().any(|pid| is_alive(*pid)));
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
