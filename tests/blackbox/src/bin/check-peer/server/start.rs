//! What goes wrong before the first message.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::defects::Defects;

/// Does what the defects want at the start.
pub fn before(defects: &Defects) {
    if defects.has("ignores-sigterm") && std::env::var_os("CHECK_PEER_DEAF").is_none() {
        // What a shell ignores, the program it becomes ignores.
        let program = std::env::current_exe().unwrap_or_default();
        let error = Command::new("sh")
            .args(["-c", "trap '' TERM; exec \"$0\" \"$@\""])
            .arg(program)
            .args(std::env::args_os().skip(1))
            .env("CHECK_PEER_DEAF", "1")
            .exec();
        eprintln!("check-peer: sh: {error}");
    }
    if defects.has("spins") {
        std::thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    if defects.has("leaves-a-child") {
        let quiet = Stdio::null;
        let mut sleep = Command::new("sleep");
        sleep
            .arg("60")
            .stdin(quiet())
            .stdout(quiet())
            .stderr(quiet());
        let _ = sleep.spawn();
    }
    if defects.has("prints-a-banner") {
        println!("Welcome!");
    }
}
