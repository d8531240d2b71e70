//! A relay between `outlive` and a server that fails as networks do: connections become black holes, are
//! reset, slow, or ended when nothing passes for a while. New ones work.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

/// A connection that was taken, and its way on.
struct Passage {
    /// None: it was reset.
    client: Option<TcpStream>,
    server: TcpStream,
    /// When something last passed.
    passed: Instant,
    /// Nothing passes any more.
    swallowed: bool,
    over: bool,
}

#[derive(Default)]
struct Shared {
    passages: Mutex<Vec<Passage>>,
    /// How long everything takes.
    delay: Mutex<Duration>,
}

pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Relay {
    /// A relay to this address.
    pub fn to(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::<Shared>::default();
        let taking = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Ok(server) = TcpStream::connect(server) {
                    taking.clone().take(client, server);
                }
            }
        });
        Relay { address, shared }
    }

    /// Ends every connection on which nothing passes for this long, as load balancers do.
    pub fn cutting_idle(self, patience: Duration) -> Relay {
        let shared = self.shared.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(patience / 10);
                shared.each(|passage| {
                    if !passage.over && passage.passed.elapsed() > patience {
                        passage.end();
                    }
                });
            }
        });
        self
    }

    /// Lets everything take this much longer.
    pub fn delaying(self, delay: Duration) -> Relay {
        *self.shared.delay.lock().unwrap() = delay;
        self
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// How many connections were made.
    pub fn taken(&self) -> usize {
        self.shared.passages.lock().unwrap().len()
    }

    /// Whatever is connected now is heard no more.
    pub fn swallow(&self) {
        self.shared.each(|passage| passage.swallowed = true);
    }

    /// Resets the connection on which something passed last; all others are heard no more.
    pub fn reset_last_and_swallow_the_rest(&self) {
        let mut passages = self.shared.passages.lock().unwrap();
        let last = passages.iter().map(|passage| passage.passed).max();
        for passage in passages.iter_mut() {
            match Some(passage.passed) == last {
                true => passage.reset(),
                false => passage.swallowed = true,
            }
        }
    }
}

impl Passage {
    fn end(&mut self) {
        self.over = true;
        for stream in self.client.iter().chain([&self.server]) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// The last descriptor's end resets: whoever reads lets go of it, and so do we.
    fn reset(&mut self) {
        self.over = true;
        if let Some(client) = self.client.take() {
            let _ = set_socket_linger(&client, Some(Duration::ZERO));
            let _ = client.shutdown(Shutdown::Read);
        }
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

impl Shared {
    fn each(&self, mut each: impl FnMut(&mut Passage)) {
        self.passages.lock().unwrap().iter_mut().for_each(&mut each);
    }

    fn take(self: Arc<Shared>, client: TcpStream, server: TcpStream) {
        let (Ok(to_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        let mut passages = self.passages.lock().unwrap();
        let number = passages.len();
        passages.push(Passage {
            client: Some(client),
            server,
            passed: Instant::now(),
            swallowed: false,
            over: false,
        });
        drop(passages);
        for (from, to) in [(from_client, to_server), (from_server, to_client)] {
            let shared = self.clone();
            thread::spawn(move || shared.pass(from, to, number));
        }
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, number: usize) {
        let mut piece = [0; 8192];
        while let Ok(n @ 1..) = from.read(&mut piece) {
            let mut passages = self.passages.lock().unwrap();
            let swallowed = passages[number].swallowed;
            passages[number].passed = Instant::now();
            drop(passages);
            thread::sleep(*self.delay.lock().unwrap());
            if !swallowed && to.write_all(&piece[..n]).is_err() {
                return;
            }
        }
        let passage = &self.passages.lock().unwrap()[number];
        if !passage.swallowed && !passage.over {
            let _ = to.shutdown(Shutdown::Write);
        }
    }
}
