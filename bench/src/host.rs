//! The host's side of a contender: starts it, shakes hands, makes calls and times them.
//!
//! One call at a time is a blocking write and a blocking read, nothing else. Many calls in flight are one thread and
//! one `poll` over both pipes: a driver with threads of its own would compete with what it measures for the processors,
//! and one that only writes while it cannot read would block with a server that only writes while it cannot read.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::contender::{Contender, Role};
use crate::process::Process;
use crate::traffic::{Answers, Batch};

/// How long a contender may stay silent. Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running contender.
pub struct Host {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    buffer: Vec<u8>,
    next_id: u64,
}

/// Calls made, and how long they took in all.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// How many.
    pub calls: u64,
    /// From the first byte written to the last answer read.
    pub took: Duration,
}

impl Host {
    /// Starts a contender and shakes hands with it. Its standard error goes to a file in `scratch`.
    pub fn start(contender: &Contender, scratch: &Path) -> io::Result<Host> {
        let errors = scratch.join(format!("{}.stderr", contender.name.replace(' ', "-")));
        let host = Host::spawn(contender, Stdio::from(File::create(&errors)?));
        host.and_then(|mut host| host.shake_hands(contender.tool).map(|()| host))
            .map_err(|error| {
                let said = fs::read_to_string(&errors).unwrap_or_default();
                io::Error::other(format!("{} did not start: {error}\n{said}", contender.name))
            })
    }

    /// Starts a contender without a word to it.
    pub fn spawn(contender: &Contender, stderr: Stdio) -> io::Result<Host> {
        let mut child = Command::new(&contender.command[0])
            .args(&contender.command[1..])
            .envs(contender.variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        Ok(Host {
            stdin: child.stdin.take().ok_or_else(missing)?,
            stdout: child.stdout.take().ok_or_else(missing)?,
            child,
            buffer: vec![0; 256 * 1024],
            next_id: 1,
        })
    }

    /// Its process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// The pipe of its standard error, if it was spawned with one.
    pub fn take_stderr(&mut self) -> Option<std::process::ChildStderr> {
        self.child.stderr.take()
    }

    /// The processes that stand in the middle: all but the server.
    pub fn middle(&self, role: Role) -> io::Result<Vec<Process>> {
        match role {
            Role::Direct => Ok(Vec::new()),
            _ => self.process().tree("echo"),
        }
    }

    /// `initialize`, `initialized`, and the tool list that a host always asks for.
    pub fn shake_hands(&mut self, tool: &str) -> io::Result<()> {
        self.initialize()?;
        let tools = self.request("tools/list", "{}")?;
        if !tools.contains(&format!("\"{tool}\"")) {
            return Err(io::Error::other(format!("no tool named {tool}: {tools}")));
        }
        Ok(())
    }

    /// `initialize` and `initialized`.
    pub fn initialize(&mut self) -> io::Result<()> {
        self.request(
            "initialize",
            "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\
             \"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}",
        )?;
        self.stdin
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
    }

    /// Makes a request and waits for its result, passing over anything else that comes.
    pub fn request(&mut self, method: &str, params: &str) -> io::Result<String> {
        let id = self.next_id;
        self.next_id += 1;
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"
        );
        self.stdin.write_all(line.as_bytes())?;
        let mark = format!("\"id\":{id},");
        let mut text = Vec::new();
        loop {
            self.await_answer()?;
            let count = read(&mut self.stdout, &mut self.buffer)?;
            text.extend_from_slice(&self.buffer[..count]);
            while let Some(end) = memchr::memchr(b'\n', &text) {
                let line: Vec<u8> = text.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                if line.contains(&mark) {
                    return match line.contains("\"result\"") {
                        true => Ok(line.into_owned()),
                        false => Err(io::Error::other(format!("{method} failed: {line}"))),
                    };
                }
            }
        }
    }

    /// Waits until there is something to read, up to the limit of patience.
    fn await_answer(&self) -> io::Result<()> {
        wait(&mut [PollFd::new(&self.stdout, PollFlags::IN)])
    }

    /// Makes calls one at a time, for `least` calls and as long as `time` lasts; returns how long each took.
    pub fn one_by_one(
        &mut self,
        batch: &mut Batch,
        time: Duration,
        least: u64,
    ) -> io::Result<Vec<Duration>> {
        let _guard = self.guard(time);
        let mut took = Vec::new();
        let mut answers = Answers::to(batch);
        let start = Instant::now();
        let mut now = start;
        while now - start < time || answers.count() < least {
            let sent = took.len() as u64;
            let request = batch.stamp(sent, 1);
            let before = Instant::now();
            self.stdin.write_all(request)?;
            while answers.count() == sent {
                let count = read(&mut self.stdout, &mut self.buffer)?;
                answers
                    .take(&self.buffer[..count], sent + 1)
                    .map_err(wrong)?;
            }
            now = Instant::now();
            took.push(now - before);
        }
        Ok(took)
    }

    /// Kills the contender if the slice that holds this takes far too long: a blocking read has no limit of its own.
    fn guard(&self, time: Duration) -> mpsc::Sender<()> {
        let (guard, dropped) = mpsc::channel();
        let process = self.process();
        thread::spawn(move || {
            if dropped.recv_timeout(time + PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = process.kill();
            }
        });
        guard
    }

    /// Keeps `in_flight` calls in flight, for `least` calls and as long as `time` lasts, and waits for the rest.
    pub fn many_at_once(
        &mut self,
        batch: &mut Batch,
        in_flight: u64,
        time: Duration,
        least: u64,
    ) -> io::Result<Flow> {
        set_blocking(self.stdin.as_fd(), false)?;
        set_blocking(self.stdout.as_fd(), false)?;
        let flow = self.stream(batch, in_flight, time, least);
        set_blocking(self.stdin.as_fd(), true)?;
        set_blocking(self.stdout.as_fd(), true)?;
        flow
    }

    fn stream(
        &mut self,
        batch: &mut Batch,
        in_flight: u64,
        time: Duration,
        least: u64,
    ) -> io::Result<Flow> {
        let mut answers = Answers::to(batch);
        let (mut sent, mut stamped, mut written) = (0, 0, 0);
        let start = Instant::now();
        loop {
            let room = in_flight - (sent - answers.count());
            let more = sent < least || start.elapsed() < time;
            if written == batch.stamped(stamped).len() {
                stamped = 0;
                written = 0;
                if more && room > 0 {
                    stamped = batch.capacity().min(room as usize);
                    batch.stamp(sent, stamped);
                    sent += stamped as u64;
                } else if !more && answers.count() == sent {
                    break;
                }
            }
            let wants = match stamped {
                0 => PollFlags::empty(),
                _ => PollFlags::OUT,
            };
            let mut pipes = [
                PollFd::new(&self.stdin, wants),
                PollFd::new(&self.stdout, PollFlags::IN),
            ];
            wait(&mut pipes)?;
            let [writable, readable] = pipes.map(|pipe| pipe.revents());
            if stamped > 0 && !writable.is_empty() {
                match self.stdin.write(&batch.stamped(stamped)[written..]) {
                    Ok(count) => written += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            if !readable.is_empty() {
                let count = read(&mut self.stdout, &mut self.buffer)?;
                answers.take(&self.buffer[..count], sent).map_err(wrong)?;
            }
        }
        Ok(Flow {
            calls: sent,
            took: start.elapsed(),
        })
    }
}

impl Drop for Host {
    /// A contender is not asked to leave: mcpmon, for one, does not when its input ends. The server behind it leaves
    /// when its own input ends, and that happens here.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(pipes: &mut [PollFd<'_>]) -> io::Result<()> {
    let patience = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    match poll(pipes, Some(&patience)) {
        Ok(0) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads at least one byte, or says that there will be none.
fn read(pipe: &mut ChildStdout, buffer: &mut [u8]) -> io::Result<usize> {
    match pipe.read(buffer)? {
        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
        count => Ok(count),
    }
}

fn set_blocking(pipe: BorrowedFd<'_>, blocking: bool) -> io::Result<()> {
    let mut flags = fcntl_getfl(pipe)?;
    flags.set(OFlags::NONBLOCK, !blocking);
    Ok(fcntl_setfl(pipe, flags)?)
}

fn wrong(what: crate::traffic::Wrong) -> io::Error {
    io::Error::other(what.to_string())
}
