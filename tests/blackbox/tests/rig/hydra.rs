//! A tree of processes that takes long to end.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Puts a process into the tree of a server whenever one was ended there: ending it takes its time.
pub struct Hydra {
    cut: Arc<AtomicBool>,
    heads: Vec<thread::JoinHandle<()>>,
}

impl Hydra {
    /// In the tree of this server.
    pub fn of(server: u32) -> Hydra {
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
}

/// Ends them.
impl Drop for Hydra {
    fn drop(&mut self) {
        self.cut.store(true, Ordering::SeqCst);
        for head in self.heads.drain(..) {
            let _ = head.join();
        }
    }
}
