//! The bare relay: spawns a command and copies two pipes.
//!
//! Nothing that stands between a host and its server can do less, so this is the physical limit that outlive is
//! measured against. It knows no protocol, restarts nothing and settles nothing.

#![forbid(unsafe_code)]

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio, exit};
use std::thread;

fn main() -> io::Result<()> {
    let mut command = env::args_os().skip(1);
    let Some(program) = command.next() else {
        eprintln!("usage: relay CMD [ARGS]...");
        exit(1);
    };
    let mut child = Command::new(program)
        .args(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;

    // The standard handles of `std` are buffered; files on the same descriptors are not.
    let from_host = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let to_host = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let to_server = child.stdin.take();
    let from_server = child.stdout.take();

    thread::spawn(move || to_server.map(|pipe| copy(from_host, pipe)));
    if let Some(pipe) = from_server {
        copy(pipe, to_host);
    }
    exit(child.wait()?.code().unwrap_or(1));
}

/// Copies until either end is gone. An error means just that, so it needs no other answer.
fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}
