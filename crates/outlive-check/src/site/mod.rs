//! A server over HTTP that does what a scenario says.
//!
//! # Theory
//!
//! A client reaches a server over HTTP by itself, so the check can be that server: it listens on the
//! loopback, and every socket is in its own hands. Each request is [noted](Seen). What a scenario does not
//! care about is served as a good server would; what it does care about is named by its
//! [script](Site::script), and is either answered on the spot or left as a [`Visit`], which the scenario takes
//! and does anything with: answer it, stream, cut the stream, reset the connection, or nothing at all.

mod answer;
mod seen;
mod usual;
mod visit;

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};

use crate::Era;
use crate::journal::{Journal, Leg};
use crate::puppet;
use crate::verdict::Finding;

pub use answer::Answer;
pub use seen::Seen;
use usual::Sessions;
pub use visit::Visit;

/// What is done about a request.
#[derive(Debug)]
pub enum Act {
    /// What a good server does.
    Usual,
    /// What a good server does, after a while.
    Late(Duration),
    /// It is answered so.
    Say(Answer),
    /// The scenario does something about it.
    Leave,
    /// A stream on which nothing is said, for as long as the client likes.
    Listen,
}

impl Act {
    /// A call is answered with a text.
    pub fn answer(call: &Seen, text: &str) -> Act {
        let answer = puppet::answer(&call.message, text);
        Act::Say(Answer::json(200, &answer))
    }
}

type Script = Box<dyn Fn(&Seen) -> Act + Send>;

/// What all connections share.
struct Register {
    era: Era,
    leg: Leg,
    script: Mutex<Script>,
    sessions: Mutex<Sessions>,
    seen: Mutex<Vec<Seen>>,
    left: Mutex<Vec<Visit>>,
    news: Notify,
}

/// A scripted server over HTTP.
pub struct Site {
    register: Arc<Register>,
    address: SocketAddr,
    timeout: Duration,
    accepting: JoinHandle<()>,
    /// While nobody listens the port is kept, so that nobody else does.
    kept: Option<TcpSocket>,
}

impl Site {
    /// Listens, as a good server that speaks only this era.
    pub async fn open(journal: &Journal, era: Era, timeout: Duration) -> Result<Site, Finding> {
        let listening = async {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            io::Result::Ok((listener, address))
        };
        let (listener, address) = listening.await.map_err(unlistened)?;
        let register = Arc::new(Register {
            era,
            leg: journal.leg("server"),
            script: Mutex::new(Box::new(|_| Act::Usual)),
            sessions: Mutex::default(),
            seen: Mutex::default(),
            left: Mutex::default(),
            news: Notify::new(),
        });
        let accepting = tokio::spawn(accept(listener, register.clone()));
        Ok(Site {
            register,
            address,
            timeout,
            accepting,
            kept: None,
        })
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    // ---- doing

    /// What is done about requests from now on.
    pub fn script(&self, script: impl Fn(&Seen) -> Act + Send + 'static) {
        *locked(&self.register.script) = Box::new(script);
    }

    /// Forgets all sessions, as a server does that was started anew behind the same address.
    pub fn forget_sessions(&self) {
        self.register.leg.note("all sessions are forgotten");
        locked(&self.register.sessions).forget();
    }

    /// Is gone: connections are refused, and those there were are closed.
    pub async fn goes_down(&mut self) -> Result<(), Finding> {
        self.register.leg.note("the server goes down");
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
        locked(&self.register.left).clear();
        locked(&self.register.sessions).forget();
        let keep = || {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.bind(self.address)?;
            io::Result::Ok(socket)
        };
        self.kept = Some(keep().map_err(unlistened)?);
        Ok(())
    }

    /// Is there again.
    pub fn comes_up(&mut self) -> Result<(), Finding> {
        if let Some(socket) = self.kept.take() {
            let listener = socket.listen(128).map_err(unlistened)?;
            self.register.leg.note("the server is there again");
            self.accepting = tokio::spawn(accept(listener, self.register.clone()));
        }
        Ok(())
    }

    // ---- hearing

    /// Takes the first request that was left and is meant.
    pub async fn visited(
        &self,
        what: &str,
        meant: impl Fn(&Seen) -> bool,
    ) -> Result<Visit, Finding> {
        let timeout = self.timeout;
        match self.visited_within(what, timeout, meant).await {
            Some(visit) => Ok(visit),
            None => Finding::broken(format!("{what} did not come within {timeout:?}.")),
        }
    }

    /// Takes the first request that was left and is meant, if it comes soon.
    pub async fn visited_within(
        &self,
        what: &str,
        timeout: Duration,
        meant: impl Fn(&Seen) -> bool,
    ) -> Option<Visit> {
        let take = |register: &Register| {
            let mut left = locked(&register.left);
            let at = left.iter().position(|visit| meant(&visit.seen))?;
            Some(left.remove(at))
        };
        self.until(what, timeout, take).await
    }

    /// A call of the tool that is never answered by itself.
    pub async fn slow_call(&self) -> Result<Visit, Finding> {
        self.visited("a call of \"slow\"", |seen| seen.calls("slow"))
            .await
    }

    /// Waits for something among all requests that came.
    pub async fn wait_for<T>(
        &self,
        what: &str,
        look: impl Fn(&[Seen]) -> Option<T>,
    ) -> Result<T, Finding> {
        let timeout = self.timeout;
        match self.wait(what, timeout, look).await {
            Some(found) => Ok(found),
            None => Finding::broken(format!("{what} did not come within {timeout:?}.")),
        }
    }

    /// Waits for something among all requests that came, for a while.
    pub async fn wait<T>(
        &self,
        what: &str,
        timeout: Duration,
        look: impl Fn(&[Seen]) -> Option<T>,
    ) -> Option<T> {
        let look = |register: &Register| look(&locked(&register.seen));
        self.until(what, timeout, look).await
    }

    /// Looks at all requests that came.
    pub fn look<T>(&self, look: impl FnOnce(&[Seen]) -> T) -> T {
        look(&locked(&self.register.seen))
    }

    /// How many requests came that are meant.
    pub fn count(&self, meant: impl Fn(&Seen) -> bool) -> usize {
        self.look(|all| all.iter().filter(|seen| meant(seen)).count())
    }

    /// Writes a remark into the journal.
    pub fn note(&self, text: impl Into<String>) {
        self.register.leg.note(text);
    }

    async fn until<T>(
        &self,
        what: &str,
        timeout: Duration,
        look: impl Fn(&Register) -> Option<T>,
    ) -> Option<T> {
        self.register.leg.waits_for(what);
        let deadline = Instant::now() + timeout;
        loop {
            let mut news = pin!(self.register.news.notified());
            news.as_mut().enable();
            let found = look(&self.register);
            if found.is_some() {
                return found;
            }
            if timeout_at(deadline, news).await.is_err() {
                return look(&self.register);
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Register {
    /// Serves a connection until it ends, or a scenario takes it.
    async fn serve(self: Arc<Self>, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut raw = Vec::new();
        loop {
            let seen = Seen::read(&mut stream, &mut raw).await?;
            self.leg.received(seen.words().as_bytes());
            let act = match (locked(&self.script))(&seen) {
                Act::Usual => self.usual(&seen),
                act => act,
            };
            locked(&self.seen).push(seen.clone());
            let act = match act {
                Act::Late(time) => {
                    sleep(time).await;
                    self.usual(&seen)
                }
                act => act,
            };
            let mut visit = Visit::new(seen, stream, self.leg.clone());
            match act {
                Act::Say(answer) => {
                    self.news.notify_waiters();
                    self.leg.sent(answer.words().as_bytes());
                    stream = visit.into_stream();
                    stream.write_all(&answer.bytes(true)).await?;
                }
                Act::Listen => {
                    visit.open_stream(None).await;
                    self.news.notify_waiters();
                    visit.left_alone().await;
                    return Ok(());
                }
                Act::Leave | Act::Usual | Act::Late(_) => {
                    locked(&self.left).push(visit);
                    self.news.notify_waiters();
                    return Ok(());
                }
            }
        }
    }
}

/// Serves connections; they end with this.
async fn accept(listener: TcpListener, register: Arc<Register>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(register.clone().serve(stream));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

fn unlistened(error: io::Error) -> Finding {
    Finding::NotApplicable(format!("the loopback cannot be listened on: {error}"))
}

fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|broken| broken.into_inner())
}
