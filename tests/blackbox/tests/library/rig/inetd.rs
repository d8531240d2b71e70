//! A server behind a socket, in the manner of inetd: each connection gets a process of its own,
//! whose standard input and output it is.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// Listens on a port of its own for as long as the tests run. A process that is killed takes its
/// connection with it at once: the other side sees it reset.
pub fn start(command: &outlive::Command) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("its number");
    let command = command.clone();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            set_socket_linger(&connection, Some(Duration::ZERO)).expect("a socket option");
            let output: OwnedFd = connection.try_clone().expect("a descriptor").into();
            let mut child = Command::new(&command.program)
                .args(&command.args)
                .envs(command.env.iter().cloned())
                .stdin(Stdio::from(OwnedFd::from(connection)))
                .stdout(Stdio::from(output))
                .spawn()
                .expect("a process");
            thread::spawn(move || child.wait());
        }
    });
    addr
}
