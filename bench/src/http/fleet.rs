//! Connections, one request in flight on each, all driven by one thread.
//!
//! A driver with threads of its own would compete with what it measures for the processors. So one `epoll` watches all
//! connections; a reply that came in one piece is read where it arrived, and the next request leaves at once. A single
//! connection needs no `epoll` either: one blocking write, one blocking read.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::wire::{Call, Reply};

/// How long a peer may stay silent. Only a hang takes this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What is read at once.
const CHUNK: usize = 256 * 1024;

/// One connection.
struct Connection {
    stream: TcpStream,
    /// The beginning of a reply that has not come whole.
    pending: Vec<u8>,
    /// The call in flight, and since when.
    number: u64,
    since: Instant,
}

impl Connection {
    fn open(port: u16) -> io::Result<Connection> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection {
            stream,
            pending: Vec::new(),
            number: 0,
            since: Instant::now(),
        })
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.since = Instant::now();
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut wanted = [PollFd::new(&self.stream, PollFlags::OUT)];
                    poll(&mut wanted, Some(&timespec(PATIENCE)))?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads once. What `seen` makes of the reply, if that completed it.
    fn receive<R>(
        &mut self,
        buffer: &mut [u8],
        seen: impl FnOnce(&Connection, &Reply<'_>) -> io::Result<R>,
    ) -> io::Result<Option<R>> {
        let count = match self.stream.read(buffer) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Ok(count) => count,
            // A blocking read that has waited long enough says the same.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return match self.since.elapsed() < PATIENCE {
                    true => Ok(None),
                    false => Err(io::Error::from(io::ErrorKind::TimedOut)),
                };
            }
            Err(error) => return Err(error),
        };
        let fresh = &buffer[..count];
        if !self.pending.is_empty() {
            self.pending.extend_from_slice(fresh);
        }
        let bytes = match self.pending.is_empty() {
            true => fresh,
            false => &self.pending[..],
        };
        let outcome = match Reply::read(bytes)? {
            Some(reply) if reply.length == bytes.len() => Some(seen(self, &reply)?),
            Some(reply) => return Err(reply.wrong("more than one reply")),
            None => None,
        };
        match outcome {
            Some(_) => self.pending.clear(),
            None if self.pending.is_empty() => self.pending.extend_from_slice(fresh),
            None => {}
        }
        Ok(outcome)
    }
}

/// Connections to one port.
pub struct Fleet {
    connections: Vec<Connection>,
    epoll: OwnedFd,
    buffer: Vec<u8>,
}

/// Calls made, and how long each took.
pub struct Flow {
    /// From the first byte written to the last reply read.
    pub took: Duration,
    /// Each call, in order of length.
    pub each: Vec<Duration>,
}

/// What came of one request.
#[derive(Debug)]
pub struct Outcome {
    /// Its status.
    pub status: u16,
    /// The session named in it.
    pub session: Option<String>,
    /// Its body.
    pub body: String,
}

impl Fleet {
    /// So many connections.
    pub fn connect(port: u16, count: usize) -> io::Result<Fleet> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(count);
        for index in 0..count {
            let connection = Connection::open(port)?;
            if count > 1 {
                connection.stream.set_nonblocking(true)?;
                let data = EventData::new_u64(index as u64);
                epoll::add(&epoll, &connection.stream, data, EventFlags::IN)?;
            }
            connections.push(connection);
        }
        Ok(Fleet {
            connections,
            epoll,
            buffer: vec![0; CHUNK],
        })
    }

    /// One request on each connection, whose replies nobody waits for.
    pub fn tell(&mut self, mut request: impl FnMut(usize) -> Vec<u8>) -> io::Result<()> {
        let mut all = self.connections.iter_mut().enumerate();
        all.try_for_each(|(index, connection)| connection.send(&request(index)))
    }

    /// One call after the other on each connection, for `least` calls and as long as `time` lasts.
    pub fn stream(&mut self, call: &mut Call, time: Duration, least: u64) -> io::Result<Flow> {
        let start = Instant::now();
        let mut each = Vec::with_capacity(1 << 16);
        let mut sent = 0;
        for connection in &mut self.connections {
            connection.number = sent;
            connection.send(call.stamp(sent))?;
            sent += 1;
        }
        let mut ready = Vec::with_capacity(self.connections.len());
        while (each.len() as u64) < sent {
            wait(&self.epoll, self.connections.len(), &mut ready)?;
            for &index in &ready {
                let connection = &mut self.connections[index];
                let answered = connection.receive(&mut self.buffer, |connection, reply| {
                    call.check(reply, connection.number)
                })?;
                if answered.is_none() {
                    continue;
                }
                let now = Instant::now();
                each.push(now - connection.since);
                if sent < least || now - start < time {
                    connection.number = sent;
                    connection.send(call.stamp(sent))?;
                    sent += 1;
                }
            }
        }
        let took = start.elapsed();
        each.sort_unstable();
        Ok(Flow { took, each })
    }

    /// One request on each connection, all at once; also how many were in flight at the most.
    pub fn ask(
        &mut self,
        mut request: impl FnMut(usize) -> Vec<u8>,
    ) -> io::Result<(Vec<Outcome>, usize)> {
        let count = self.connections.len();
        let mut outcomes: Vec<Option<Outcome>> = Vec::new();
        outcomes.resize_with(count, || None);
        let (mut sent, mut answered, mut most) = (0, 0, 0);
        let mut ready = Vec::with_capacity(count);
        while answered < count {
            if sent < count {
                self.connections[sent].send(&request(sent))?;
                sent += 1;
                most = most.max(sent - answered);
                // Replies are taken in between, as a client would.
                if !sent.is_multiple_of(64) && sent < count {
                    continue;
                }
            }
            let patience = match sent < count {
                true => Duration::ZERO,
                false => PATIENCE,
            };
            wait_for(&self.epoll, count, &mut ready, patience)?;
            for &index in &ready {
                let outcome = self.connections[index].receive(&mut self.buffer, |_, reply| {
                    Ok(Outcome {
                        status: reply.status,
                        session: reply.header("mcp-session-id"),
                        body: String::from_utf8_lossy(&reply.body).into_owned(),
                    })
                })?;
                if outcome.is_some() {
                    answered += 1;
                    outcomes[index] = outcome;
                }
            }
        }
        Ok((outcomes.into_iter().flatten().collect(), most))
    }
}

/// Waits until a connection can be read; a single one is simply read.
fn wait(epoll: &OwnedFd, connections: usize, ready: &mut Vec<usize>) -> io::Result<()> {
    wait_for(epoll, connections, ready, PATIENCE)?;
    match ready.is_empty() {
        true => Err(io::Error::from(io::ErrorKind::TimedOut)),
        false => Ok(()),
    }
}

fn wait_for(
    epoll: &OwnedFd,
    connections: usize,
    ready: &mut Vec<usize>,
    patience: Duration,
) -> io::Result<()> {
    ready.clear();
    if connections == 1 {
        ready.push(0);
        return Ok(());
    }
    let mut events = Vec::with_capacity(connections.min(1024));
    loop {
        match epoll::wait(
            epoll,
            spare_capacity(&mut events),
            Some(&timespec(patience)),
        ) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    ready.extend(events.iter().map(|event| event.data.u64() as usize));
    Ok(())
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs() as i64,
        tv_nsec: time.subsec_nanos().into(),
    }
}
