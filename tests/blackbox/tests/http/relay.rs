//! A relay between `outlive` and a server that can turn into a black hole: connections it has taken stay
//! open, and nothing passes any more. New ones work.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub struct Relay {
    address: SocketAddr,
    /// Connections before this one are black holes.
    swallowed: Arc<AtomicUsize>,
    taken: Arc<AtomicUsize>,
}

impl Relay {
    /// A relay to this address.
    pub fn to(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let relay = Relay {
            address: listener.local_addr().expect("an address"),
            swallowed: Arc::default(),
            taken: Arc::default(),
        };
        let (swallowed, taken) = (relay.swallowed.clone(), relay.taken.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let number = taken.fetch_add(1, Ordering::SeqCst);
                let Ok(server) = TcpStream::connect(server) else {
                    continue;
                };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone(), to.try_clone());
                    let (Ok(from), Ok(to)) = (from, to) else {
                        continue;
                    };
                    let swallowed = swallowed.clone();
                    thread::spawn(move || pass(from, to, number, &swallowed));
                }
            }
        });
        relay
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Whatever is connected now is heard no more.
    pub fn swallow(&self) {
        let taken = self.taken.load(Ordering::SeqCst);
        self.swallowed.store(taken, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, number: usize, swallowed: &AtomicUsize) {
    let mut piece = [0; 8192];
    while let Ok(n @ 1..) = from.read(&mut piece) {
        if number < swallowed.load(Ordering::SeqCst) {
            continue;
        }
        if to.write_all(&piece[..n]).is_err() {
            return;
        }
    }
    if number >= swallowed.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Write);
    }
}
