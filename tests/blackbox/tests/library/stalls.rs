//! Nothing that processes do holds up the thread that carries messages, though it is the only one.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use outlive::Error;
use outlive::cause::{Exit, Reason};
use serde_json::json;

use crate::rig::{Rig, until, within};

/// So often the runtime has to come to other things while a server is being ended.
const TICKS: usize = 10;

/// Puts more processes into the tree of a server for as long as this is there: ending it takes its time.
struct Hydra {
    cut: Arc<AtomicBool>,
    heads: Vec<thread::JoinHandle<()>>,
}

impl Hydra {
    fn of(server: u32) -> Hydra {
        let environ = std::fs::read(format!("/proc/{server}/environ")).expect("its environment");
        let environ = String::from_utf8(environ).expect("text");
        let tree = environ
            .split('\0')
            .find_map(|variable| variable.strip_prefix("OUTLIVE_TREE="))
            .expect("its tree")
            .to_owned();
        let cut = Arc::new(AtomicBool::new(false));
        let heads = (0..4).map(|_| {
            let (cut, tree) = (cut.clone(), tree.clone());
            thread::spawn(move || {
                while !cut.load(Ordering::SeqCst) {
                    let mut head = Command::new("sleep");
                    head.arg("1000").env("OUTLIVE_TREE", &tree);
                    let mut head = head.spawn().expect("sleep");
                    while head.try_wait().expect("a child").is_none() {
                        if cut.load(Ordering::SeqCst) {
                            let _ = head.kill();
                        }
                        thread::sleep(Duration::from_millis(1));
                    }
                }
            })
        });
        let heads = heads.collect();
        Hydra { cut, heads }
    }

    /// Ends with the last of them.
    fn cut(self) {
        self.cut.store(true, Ordering::SeqCst);
        for head in self.heads {
            head.join().expect("no panic");
        }
    }
}

/// Counts how often the runtime comes to it.
fn ticks() -> Arc<AtomicUsize> {
    let ticks = Arc::new(AtomicUsize::new(0));
    let count = ticks.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    ticks
}

fn rig() -> Rig {
    let short = Duration::from_millis(10);
    Rig::legacy().policy(|policy| {
        policy.stop_grace = short;
        policy.term_grace = short;
        policy.drain = short;
    })
}

/// FM-05: a tree that takes long to end does not stop the runtime, and the call that was running is told how its server
/// ended.
#[tokio::test]
async fn fm_05_a_tree_that_is_slow_to_end_stalls_nobody_and_hides_no_exit_status() {
    let rig = rig();
    let client = rig.connect().await;
    let hydra = Hydra::of(rig.pid());
    let ticks = ticks();
    tokio::task::yield_now().await;
    let lost = within(client.call("crash", json!({ "code": 3 }))).await;
    let ticked = ticks.load(Ordering::SeqCst);
    hydra.cut();
    let Err(Error::ConnectionLost { cause, .. }) = lost else {
        panic!("{lost:?}");
    };
    assert_eq!(cause.reason, Reason::Exited(Exit::Code(3)));
    assert!(ticked >= TICKS, "{ticked} ticks");
}

/// FM-67: nor when a client is closed, or dropped.
#[tokio::test]
async fn fm_67_the_end_of_a_client_stalls_nobody() {
    for close in [true, false] {
        let rig = rig();
        let client = rig.connect().await;
        let server = rig.pid();
        let hydra = Hydra::of(server);
        let ticks = ticks();
        tokio::task::yield_now().await;
        match close {
            true => within(client.close()).await,
            false => drop(client),
        }
        until("its end", || {
            (!std::fs::exists(format!("/proc/{server}")).unwrap_or(true)).then_some(())
        })
        .await;
        let ticked = ticks.load(Ordering::SeqCst);
        hydra.cut();
        assert!(ticked >= TICKS, "{ticked} ticks, closed: {close}");
    }
}
