//! A host, a session, its links over HTTP and a server, with books of their own.
//!
//! The session is the real one: that nothing is executed twice is seen where it matters, at the server.

mod books;
mod driver;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outlive_core::http_upstream::{Attempt, HttpUpstream, Known, Transport};
use outlive_core::policy::Retry;
use outlive_core::{Frame, Generation, Input as SessionInput, Message, Policy, Session, Time};

use crate::random::Dice;
use crate::schedule::{Reply, Step, Talk};

/// An invariant that does not hold.
#[derive(Debug)]
pub struct Broken {
    pub invariant: u8,
    pub how: String,
}

fn broken<T>(invariant: u8, how: impl Into<String>) -> Result<T, Broken> {
    let how = how.into();
    Err(Broken { invariant, how })
}

/// What a schedule came across.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub answers: u32,
    pub streams: u32,
    pub resumed: u32,
    pub granted: u32,
    pub denied: u32,
    pub logins: u32,
    pub redirects: u32,
    pub listings: u32,
    pub cancelled_at_home: u32,
    pub cancelled: u32,
    pub deletes: u32,
    pub quiet: u32,
    pub channels: u32,
    pub executed_twice: u32,
    pub told_of_a_login: u32,
    pub came_back: u32,
}

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        for ((_, mine), (_, theirs)) in self.all().into_iter().zip(other.clone().all()) {
            *mine += *theirs;
        }
    }

    pub fn all(&mut self) -> [(&'static str, &mut u32); 16] {
        [
            ("answers", &mut self.answers),
            ("streams", &mut self.streams),
            ("resumed", &mut self.resumed),
            ("granted", &mut self.granted),
            ("denied", &mut self.denied),
            ("logins", &mut self.logins),
            ("redirects", &mut self.redirects),
            ("listings", &mut self.listings),
            ("cancelled at home", &mut self.cancelled_at_home),
            ("cancelled", &mut self.cancelled),
            ("deletes", &mut self.deletes),
            ("quiet", &mut self.quiet),
            ("channels", &mut self.channels),
            ("executed twice", &mut self.executed_twice),
            ("told of a login", &mut self.told_of_a_login),
            ("came back", &mut self.came_back),
        ]
    }
}

/// A request of the host.
#[derive(Clone, Debug)]
struct Call {
    safe: bool,
    executed: u32,
    answered: bool,
    cancelled: bool,
    /// It was answered with the wish for a login.
    told: bool,
}

/// An HTTP request under way.
#[derive(Clone, Debug)]
struct Flight {
    message: Option<Message>,
    written: bool,
    begun: bool,
    stream: bool,
    /// The server's events have ids.
    ids: bool,
    turn: u64,
    mirrored: u64,
    in_session: bool,
    /// The request whose rest is asked for.
    cursor: Option<String>,
    delete: bool,
    answered: bool,
}

/// What a link has been told to send, by the id on the link.
#[derive(Clone, Debug, Default)]
struct Sent {
    /// How often it may be posted: once, and once for each time the session said so.
    allowed: u32,
    posted: u32,
    moved: u32,
    /// The link has said what became of it.
    reports: u32,
    cancelled: bool,
    /// A cancellation was posted.
    cancellations: u32,
}

struct Link {
    generation: Generation,
    http: HttpUpstream,
    begun: Time,
    flights: BTreeMap<Attempt, Flight>,
    dead: BTreeSet<Attempt>,
    sent: BTreeMap<String, Sent>,
    named: bool,
    /// The server knows its session.
    known: bool,
    /// A connection broke then.
    broke: Option<Time>,
    over: bool,
    ended: bool,
    asked_for_login: Option<u64>,
    denied: bool,
}

pub struct World {
    session: Session,
    modern: bool,
    policy: Retry,
    login: bool,
    now: Time,
    links: Vec<Link>,
    calls: BTreeMap<i64, Call>,
    next_id: i64,
    /// Which credentials there are, and which the server wants.
    turn: u64,
    wanted: u64,
    /// Which headers the client knows of, and which the server wants.
    mirror: u64,
    tools: u64,
    known: Known,
    /// The state that the host comes back with.
    round: Option<String>,
    closed: bool,
    pub log: Vec<String>,
    pub seen: Seen,
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{}}}}"#;

impl World {
    pub fn new(dice: &mut Dice) -> World {
        let modern = dice.below(3) == 0;
        let mut policy = Policy::default();
        policy.retry = [Retry::Safe, Retry::Safe, Retry::Never][dice.below(3) as usize];
        policy.request_timeout = Some(Duration::from_secs(120));
        let login = dice.below(3) > 0;
        let transport = (!modern && dice.below(6) == 0).then_some(Transport::Sse);
        let retry = policy.retry;
        World {
            session: Session::new(policy, dice.below(1 << 20)),
            modern,
            policy: retry,
            login,
            now: Time::ZERO,
            links: Vec::new(),
            calls: BTreeMap::new(),
            next_id: 10,
            turn: 0,
            wanted: 0,
            mirror: 0,
            tools: 0,
            known: Known {
                transport,
                ..Known::default()
            },
            round: None,
            closed: false,
            log: Vec::new(),
            seen: Seen::default(),
        }
    }

    fn say(&mut self, what: impl Into<String>) {
        let at = self.now.since_start().as_millis();
        self.log.push(format!("{at:>7} {}", what.into()));
    }

    /// The host begins.
    pub fn start(&mut self) -> Result<(), Broken> {
        self.session(SessionInput::Start)?;
        match self.modern {
            true => self.host(format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{{META}}}}}"#
            ))?,
            false => {
                self.host(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}"#.into())?;
                self.host(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into())?;
            }
        }
        let meta = if self.modern { META } else { "" };
        self.host(format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{{{meta}}}}}"#
        ))
    }

    fn host(&mut self, line: String) -> Result<(), Broken> {
        self.say(format!("host: {line}"));
        self.session(SessionInput::Host(Frame::read(line.into())))
    }

    pub fn step(&mut self, step: Step) -> Result<(), Broken> {
        match step {
            Step::Call(safe) => self.call(safe),
            Step::Notify => {
                self.host(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#.into())
            }
            Step::Ping if self.modern => Ok(()),
            Step::Ping => {
                self.next_id += 1;
                let id = self.next_id;
                self.host(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))
            }
            Step::Cancel(n) => self.cancel(n),
            Step::Write(n) => {
                match self.pick(n, |flight| flight.message.is_some() && !flight.written) {
                    Some((link, attempt)) => self.write(link, attempt),
                    None => Ok(()),
                }
            }
            Step::Reply(n, reply) => {
                match self.pick(n, |flight| flight.message.is_some() && !flight.begun) {
                    Some((link, attempt)) => self.reply(link, attempt, reply),
                    None => Ok(()),
                }
            }
            Step::Get(n, status) => {
                let gets = |flight: &Flight| flight.message.is_none() && !flight.begun;
                match self.pick(n, gets) {
                    Some((link, attempt)) => self.get(link, attempt, status),
                    None => Ok(()),
                }
            }
            Step::Talk(n, talk) => match self.pick(n, |flight| flight.stream) {
                Some((link, attempt)) => self.talk(link, attempt, talk),
                None => Ok(()),
            },
            Step::Login(found) => self.log_in(found),
            Step::Expire => {
                self.wanted = self.turn + 1;
                Ok(())
            }
            Step::Relist => {
                self.tools += 1;
                Ok(())
            }
            Step::Forget => {
                self.say("the server forgets its sessions");
                for link in &mut self.links {
                    link.known = false;
                }
                Ok(())
            }
            Step::Stale(n) => self.stale(n),
            Step::Wait(ms) => {
                let until = self.now + Duration::from_millis(ms.into());
                self.wait_until(until)
            }
            Step::Tick => self.tick(),
            Step::Restart => self.session(SessionInput::Restart),
        }
    }

    fn call(&mut self, safe: bool) -> Result<(), Broken> {
        self.next_id += 1;
        let id = self.next_id;
        let call = Call {
            safe,
            executed: 0,
            answered: false,
            cancelled: false,
            told: false,
        };
        self.calls.insert(id, call);
        let tool = if safe { "look" } else { "act" };
        let meta = if self.modern {
            format!(",{META}")
        } else {
            String::new()
        };
        let round = self.round.take().map(|state| {
            self.seen.came_back += 1;
            let action = ["accept", "decline", "cancel"][id as usize % 3];
            format!(r#","requestState":"{state}","inputResponses":{{"outlive-login":{{"action":"{action}"}}}}"#)
        });
        let round = round.unwrap_or_default();
        self.host(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"n":{id}}}{meta}{round}}}}}"#
        ))
    }

    fn cancel(&mut self, n: u8) -> Result<(), Broken> {
        let open = |(_, call): &(&i64, &mut Call)| !call.answered && !call.cancelled;
        let Some((&id, call)) = self.calls.iter_mut().filter(open).nth_back(n.into()) else {
            return Ok(());
        };
        call.cancelled = true;
        let name = id.to_string();
        let home = |link: &Link| {
            link.sent.get(&name).is_some_and(|sent| sent.posted > 0)
                && !link.flights.values().any(|flight| is_of(flight, &name))
        };
        self.seen.cancelled_at_home += u32::from(self.links.iter().any(home));
        self.seen.cancelled += 1;
        self.host(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        ))
    }

    /// The n-th HTTP request of which this is true.
    fn pick(&self, n: u8, which: impl Fn(&Flight) -> bool) -> Option<(usize, Attempt)> {
        let all = self.links.iter().enumerate().flat_map(|(at, link)| {
            let fits = link
                .flights
                .iter()
                .filter(|(_, flight)| !flight.delete && which(flight));
            fits.map(move |(attempt, _)| (at, *attempt))
        });
        let all: Vec<_> = all.collect();
        let last = all.len().checked_sub(1)?;
        Some(all[usize::from(n) % (last + 1)])
    }

    /// The server answers everything: every call is answered, and nothing is left.
    pub fn end_well(&mut self) -> Result<(), Broken> {
        self.wanted = 0;
        for _ in 0..3_000 {
            if self
                .calls
                .values()
                .all(|call| call.answered || call.cancelled)
            {
                return self.stop();
            }
            self.log_in(true)?;
            // Nothing is answered at once: whoever asks anew with each answer is not asked for ever.
            self.wait_until(self.now + Duration::from_millis(20))?;
            if let Some((link, attempt)) =
                self.pick(0, |flight| flight.message.is_some() && !flight.begun)
            {
                self.reply(link, attempt, Reply::Answer)?;
            } else if let Some((link, attempt)) =
                self.pick(0, |flight| flight.message.is_none() && !flight.begun)
            {
                self.get(link, attempt, None)?;
            } else if let Some((link, attempt)) = self.pick(0, |flight| {
                flight.stream && (flight.message.is_some() || flight.cursor.is_some())
            }) {
                self.talk(link, attempt, Talk::Answer)?;
            } else {
                self.tick()?;
            }
        }
        broken(3, "a call is never answered")
    }

    /// The server does nothing any more: every call is told so.
    pub fn end_mute(&mut self) -> Result<(), Broken> {
        for _ in 0..3_000 {
            if self
                .calls
                .values()
                .all(|call| call.answered || call.cancelled)
            {
                return self.stop();
            }
            self.tick()?;
        }
        broken(3, "a call hangs")
    }

    /// The host leaves: everything ends, in bounded time.
    fn stop(&mut self) -> Result<(), Broken> {
        self.session(SessionInput::Stop)?;
        let last = self.now + Duration::from_secs(30);
        while !self.closed && self.now < last {
            self.tick()?;
            if self.next_deadline().is_none() {
                break;
            }
        }
        match self.closed {
            true => Ok(()),
            false => broken(10, "the session does not end"),
        }
    }
}

/// Whether this HTTP request is about the request of that id.
fn is_of(flight: &Flight, id: &str) -> bool {
    let of = |message: &Message| message.id().is_some_and(|it| it.to_string() == id);
    flight.message.as_ref().is_some_and(of)
        || flight
            .cursor
            .as_ref()
            .is_some_and(|cursor| cursor.contains(&format!(r#""id":{id},"#)))
}
