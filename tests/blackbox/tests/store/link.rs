//! A way between two processes that can be cut, as networks are: nothing passes and nobody is told, or nobody is there.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Open,
    /// What is sent arrives when the link is mended.
    Silent,
    /// Connections break, and nobody listens.
    Refused,
}

struct Shared {
    address: SocketAddr,
    target: SocketAddr,
    flow: Mutex<Flow>,
    changed: Condvar,
    streams: Mutex<Vec<TcpStream>>,
}

/// A relay on the loopback address.
pub struct Link(Arc<Shared>);

impl Link {
    /// A way to this address.
    pub fn to(target: SocketAddr) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let shared = Arc::new(Shared {
            address: listener.local_addr().expect("an address"),
            target,
            flow: Mutex::new(Flow::Open),
            changed: Condvar::new(),
            streams: Mutex::default(),
        });
        let accepting = shared.clone();
        thread::spawn(move || accepting.accept(listener));
        Link(shared)
    }

    /// Where it begins.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Nothing passes any more, and nobody is told.
    pub fn silence(&self) {
        self.0.set(Flow::Silent);
    }

    /// All connections break, and nobody listens.
    pub fn refuse(&self) {
        self.0.set(Flow::Refused);
    }

    pub fn mend(&self) {
        self.0.set(Flow::Open);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.refuse();
    }
}

impl Shared {
    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, flow: Flow) {
        *self.flow() = flow;
        self.changed.notify_all();
        if flow == Flow::Refused {
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            for stream in streams.drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Waits until something passes. False if connections break instead.
    fn passes(&self) -> bool {
        let mut flow = self.flow();
        while *flow == Flow::Silent {
            flow = self
                .changed
                .wait(flow)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *flow == Flow::Open
    }

    fn accept(self: Arc<Shared>, listener: TcpListener) {
        listener.set_nonblocking(true).expect("a listener");
        let mut listener = Some(listener);
        loop {
            let is_refused = *self.flow() == Flow::Refused;
            if is_refused {
                listener = None;
                // Nobody is left who could mend it.
                if Arc::strong_count(&self) == 1 {
                    return;
                }
            } else if listener.is_none() {
                let again = TcpListener::bind(self.address).expect("its port");
                again.set_nonblocking(true).expect("a listener");
                listener = Some(again);
            }
            match listener.as_ref().map(TcpListener::accept) {
                Some(Ok((client, _))) => {
                    let shared = self.clone();
                    thread::spawn(move || shared.carry(client));
                }
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn carry(self: Arc<Shared>, client: TcpStream) -> Option<()> {
        client.set_nonblocking(false).ok()?;
        if !self.passes() {
            return None;
        }
        let server = TcpStream::connect(self.target).ok()?;
        let ends = [
            (client.try_clone().ok()?, server.try_clone().ok()?),
            (server.try_clone().ok()?, client.try_clone().ok()?),
        ];
        let streams = self.streams.lock();
        streams
            .unwrap_or_else(PoisonError::into_inner)
            .extend([client, server]);
        for (from, to) in ends {
            let shared = self.clone();
            thread::spawn(move || shared.pass(from, to));
        }
        Some(())
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut piece = [0; 8192];
        while let Ok(n @ 1..) = from.read(&mut piece) {
            if !self.passes() || to.write_all(&piece[..n]).is_err() {
                break;
            }
        }
        if self.passes() {
            let _ = to.shutdown(Shutdown::Both);
        }
    }
}
