//! Servers that do what a scenario says.
//!
//! # Theory
//!
//! A client starts its server itself, so the check cannot be that process. What the client is given to
//! start is a small program, the puppet, which connects back to the check over the loopback and from
//! then on does nothing of its own: what comes on its standard input is passed on, what the check orders
//! is written to its standard output or error, and it exits, or refuses to, as it is told. The process
//! and the pipes are real, the mind is the check's.
//!
//! What a scenario does not care about is answered by habit ([`Habits`]): the handshake of either era, the
//! list of tools, a tool that echoes. What it does care about it does itself, with [`Puppet`].

mod frames;
mod habits;
mod program;

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::inbox::{Inbox, Letters};
use crate::journal::{Journal, Leg};
use crate::system;
use crate::verdict::Finding;

use frames::{Order, Report};
pub use habits::{End, Habits, Start};
pub(crate) use habits::{is_modern, outcome};
pub use program::main;

/// Every start of the scripted server in one scenario.
#[derive(Debug)]
pub struct Puppets {
    program: Vec<OsString>,
    address: SocketAddr,
    arrivals: mpsc::UnboundedReceiver<Puppet>,
    starts: Arc<AtomicUsize>,
    timeout: Duration,
    accepting: JoinHandle<()>,
}

impl Puppets {
    /// Waits for starts. `habits` says what the nth of them, counted from 1, does by itself.
    pub async fn open(
        program: &[OsString],
        journal: &Journal,
        timeout: Duration,
        habits: impl Fn(usize) -> Habits + Send + 'static,
    ) -> Result<Puppets, Finding> {
        let listening = async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            io::Result::Ok((listener, address))
        };
        let (listener, address) = listening.await.map_err(|error| {
            Finding::NotApplicable(format!("the loopback cannot be listened on: {error}"))
        })?;
        let starts = Arc::new(AtomicUsize::new(0));
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let (journal, counted) = (journal.clone(), starts.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let nth = counted.fetch_add(1, Ordering::SeqCst) + 1;
                let leg = journal.leg(match nth {
                    1 => "server".to_owned(),
                    n => format!("server {n}"),
                });
                let (arrived, habits) = (arrived.clone(), habits(nth));
                tokio::spawn(async move {
                    if let Ok(puppet) = Puppet::take(socket, habits, leg, timeout).await {
                        let _ = arrived.send(puppet);
                    }
                });
            }
        });
        Ok(Puppets {
            program: program.to_vec(),
            address,
            arrivals,
            starts,
            timeout,
            accepting,
        })
    }

    /// What starts the server.
    pub fn command(&self) -> Vec<OsString> {
        let mut command = self.program.clone();
        command.push(self.address.to_string().into());
        command
    }

    /// How often the server was started.
    pub fn starts(&self) -> usize {
        self.starts.load(Ordering::SeqCst)
    }

    /// The next server to be started, within the patience.
    pub async fn next(&mut self) -> Result<Puppet, Finding> {
        match self.next_within(self.timeout).await {
            Some(puppet) => Ok(puppet),
            None => Finding::broken(format!(
                "The server was not started within {:?}.",
                self.timeout
            )),
        }
    }

    /// The first server that is asked this, and the request. Some clients start another one before, only
    /// to look which era it speaks.
    pub async fn asked(&mut self, method: &str) -> Result<(Puppet, Value), Finding> {
        let mut puppet = self.next().await?;
        loop {
            tokio::select! {
                request = puppet.asked(method) => return Ok((puppet, request?)),
                Some(next) = self.arrivals.recv() => puppet = next,
            }
        }
    }

    /// The server that is kept. Some clients start one only to look which era it speaks, end it, and take
    /// themselves for connected before they have started the next.
    pub async fn kept(&mut self, first: Puppet) -> Result<Puppet, Finding> {
        const MOMENT: Duration = Duration::from_millis(50);
        let mut kept = first;
        while let Some(next) = self.next_within(MOMENT).await {
            kept = next;
        }
        match kept.gone(Duration::ZERO).await {
            true => self.next().await,
            false => Ok(kept),
        }
    }

    /// The next server to be started, if that is soon.
    pub async fn next_within(&mut self, timeout: Duration) -> Option<Puppet> {
        tokio::time::timeout(timeout, self.arrivals.recv())
            .await
            .ok()
            .flatten()
    }
}

impl Drop for Puppets {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// How far a puppet's life has come.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    eof: bool,
    ended: bool,
}

/// A server process, in the hands of a scenario. It leaves when this is dropped.
#[derive(Debug)]
pub struct Puppet {
    pid: u32,
    inbox: Arc<Inbox>,
    leg: Leg,
    orders: mpsc::UnboundedSender<Order>,
    life: watch::Receiver<Life>,
    timeout: Duration,
    tasks: [JoinHandle<()>; 2],
}

impl Puppet {
    async fn take(
        socket: TcpStream,
        habits: Habits,
        leg: Leg,
        timeout: Duration,
    ) -> io::Result<Puppet> {
        socket.set_nodelay(true)?;
        let (mut from, mut to) = socket.into_split();
        let Some(Report::Hello(pid)) = Report::read(&mut from).await? else {
            return Err(io::Error::other("it did not say who it is"));
        };
        leg.note(format!(
            "process {pid} was started by the program under test"
        ));
        let inbox = Arc::new(Inbox::default());
        let (orders, mut queue) = mpsc::unbounded_channel::<Order>();
        let (living, life) = watch::channel(Life::default());
        let writing = tokio::spawn(async move {
            while let Some(order) = queue.recv().await {
                if order.write(&mut to).await.is_err() {
                    return;
                }
            }
        });
        let reading = tokio::spawn({
            let mut mind = habits.mind(inbox.clone(), orders.clone(), leg.clone());
            let leg = leg.clone();
            async move {
                mind.start().await;
                while let Ok(Some(news)) = Report::read(&mut from).await {
                    match news {
                        Report::Hello(_) => {}
                        Report::Input(bytes) => mind.hear(&bytes),
                        Report::Eof => {
                            leg.note("its input ended");
                            living.send_modify(|life| life.eof = true);
                            mind.eof();
                        }
                    }
                }
                leg.note("the server's process is gone");
                living.send_modify(|life| life.ended = true);
                mind.over();
            }
        });
        Ok(Puppet {
            pid,
            inbox,
            leg,
            orders,
            life,
            timeout,
            tasks: [reading, writing],
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    // ---- saying

    /// Writes bytes to its standard output as they are.
    pub fn raw(&self, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        self.leg.sent(&bytes);
        let _ = self.orders.send(Order::Out(bytes));
    }

    /// Writes bytes to its standard error.
    pub fn stderr(&self, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        self.leg
            .note(format!("{} bytes on standard error", bytes.len()));
        let _ = self.orders.send(Order::Err(bytes));
    }

    /// Sends a message.
    pub fn send(&self, message: &Value) {
        self.raw(format!("{message}\n"));
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request.
    pub fn request(&self, id: impl Into<Value>, method: &str, params: Value) {
        let id: Value = id.into();
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
    }

    /// Answers a call with a text.
    pub fn answer(&self, call: &Value, text: &str) {
        self.send(&answer(call, text));
    }

    // ---- doing

    /// Is killed, as by the system.
    pub fn die(&self) {
        self.leg.note(format!("process {} is killed", self.pid));
        self.kill();
    }

    fn kill(&self) {
        // Its socket is open, so the number is still its own.
        if !self.life.borrow().ended {
            system::kill(self.pid);
        }
    }

    /// Exits by itself.
    pub fn exit(&self, status: u8) {
        self.leg.note(format!("it exits with status {status}"));
        let _ = self.orders.send(Order::Exit(status));
    }

    /// Reads no more of what it is sent.
    pub fn stop_reading(&self) {
        self.leg.note("it reads no further");
        let _ = self.orders.send(Order::StopReading);
    }

    // ---- hearing

    /// Waits for a request of a method.
    pub async fn asked(&self, method: &str) -> Result<Value, Finding> {
        self.wait_for(&format!("{method} from the client"), |letters| {
            letters
                .requests
                .iter()
                .find(|r| r["method"] == method)
                .cloned()
        })
        .await
    }

    /// Waits for a call of a tool.
    pub async fn called(&self, tool: &str) -> Result<Value, Finding> {
        self.called_times(tool, 1).await
    }

    /// Waits for the nth call of a tool, counted from 1.
    pub async fn called_times(&self, tool: &str, nth: usize) -> Result<Value, Finding> {
        self.wait_for(&format!("a call of {tool:?}"), |letters| {
            let calls = letters.requests.iter();
            let mut calls =
                calls.filter(|r| r["method"] == "tools/call" && r["params"]["name"] == tool);
            calls.nth(nth - 1).cloned()
        })
        .await
    }

    /// Waits for something among what came.
    pub async fn wait_for<T>(
        &self,
        what: &str,
        look: impl FnMut(&Letters) -> Option<T>,
    ) -> Result<T, Finding> {
        let timeout = self.timeout;
        match self.wait(what, timeout, look).await {
            Some(found) => Ok(found),
            None => Finding::broken(format!("{what} did not come within {timeout:?}.")),
        }
    }

    /// Waits for something among what came, for a while.
    pub async fn wait<T>(
        &self,
        what: &str,
        timeout: Duration,
        look: impl FnMut(&Letters) -> Option<T>,
    ) -> Option<T> {
        self.leg.waits_for(what);
        self.inbox.until(timeout, look).await
    }

    /// Looks at what came so far.
    pub fn look<T>(&self, look: impl FnOnce(&Letters) -> T) -> T {
        look(&self.inbox.letters())
    }

    /// Waits until its input has ended.
    pub async fn input_ended(&mut self, timeout: Duration) -> bool {
        let ended = self.life.wait_for(|life| life.eof || life.ended);
        let ended = tokio::time::timeout(timeout, ended).await;
        matches!(ended, Ok(Ok(life)) if life.eof)
    }

    /// Waits until its process is gone.
    pub async fn gone(&mut self, timeout: Duration) -> bool {
        self.leg.waits_for("the end of the server");
        let ended = self.life.wait_for(|life| life.ended);
        tokio::time::timeout(timeout, ended)
            .await
            .is_ok_and(|life| life.is_ok())
    }

    /// Writes a remark into the journal.
    pub fn note(&self, text: impl Into<String>) {
        self.leg.note(text);
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        // The program leaves when its socket closes, unless it is stuck in a write.
        self.kill();
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// The answer to a call: a text.
pub fn answer(call: &Value, text: &str) -> Value {
    let mut result = json!({ "content": [{ "type": "text", "text": text }] });
    if habits::is_modern(call) {
        result["resultType"] = "complete".into();
    }
    json!({ "jsonrpc": "2.0", "id": call["id"], "result": result })
}
