//! A host, a session, its links over HTTP and a server, with books of their own.
//!
//! The session is the real one: that nothing is executed twice is seen where it matters, at the server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use outlive_core::http_upstream::{
    Attempt, Config, Failure, Head, HttpUpstream, Input, Known, Location, MOST_CHALLENGES,
    MOST_REDIRECTS, Output, QUIET, Transport,
};
use outlive_core::policy::Retry;
use outlive_core::{
    Frame, Generation, Id, Input as SessionInput, LinkInput, LinkOrder, Message,
    Output as SessionOutput, Policy, Session, Time,
};
use serde_json::{Value, json};

use super::schedule::{Reply, Step, Talk};
use crate::random::Dice;

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
}

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        for ((_, mine), (_, theirs)) in self.all().into_iter().zip(other.clone().all()) {
            *mine += *theirs;
        }
    }

    pub fn all(&mut self) -> [(&'static str, &mut u32); 14] {
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
    closed: bool,
    pub log: Vec<String>,
    pub seen: Seen,
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

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
        };
        self.calls.insert(id, call);
        let tool = if safe { "look" } else { "act" };
        let meta = if self.modern {
            format!(",{META}")
        } else {
            String::new()
        };
        self.host(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"n":{id}}}{meta}}}}}"#
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

    fn write(&mut self, link: usize, attempt: Attempt) -> Result<(), Broken> {
        if let Some(flight) = self.links[link].flights.get_mut(&attempt) {
            flight.written = true;
        }
        self.http(link, Input::Written(attempt))
    }

    /// The server has executed what is in this POST.
    fn execute(&mut self, message: &Message) -> Result<(), Broken> {
        if !message.is("tools/call") {
            return Ok(());
        }
        let params: Value =
            serde_json::from_slice(message.params().unwrap_or_default()).unwrap_or_default();
        let Some(call) = params["arguments"]["n"]
            .as_i64()
            .and_then(|n| self.calls.get_mut(&n))
        else {
            return Ok(());
        };
        call.executed += 1;
        if call.executed > 1 {
            self.seen.executed_twice += 1;
        }
        if call.executed > 1 && (!call.safe || self.policy == Retry::Never) {
            return broken(4, format!("{params} was executed twice"));
        }
        Ok(())
    }

    fn result(&self, message: &Message) -> Value {
        match message.method() {
            "initialize" => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
            }
            "server/discover" => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
            }
            "tools/list" => json!({"tools": [
                {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
                {"name": "act", "inputSchema": {"type": "object"}},
            ]}),
            "tools/call" => json!({"content": []}),
            _ => json!({}),
        }
    }

    fn answer_to(&self, message: &Message) -> String {
        let id: Value = serde_json::from_slice(message.id_json()).unwrap_or_default();
        json!({"jsonrpc": "2.0", "id": id, "result": self.result(message)}).to_string()
    }

    fn reply(&mut self, link: usize, attempt: Attempt, reply: Reply) -> Result<(), Broken> {
        let flight = self.links[link].flights[&attempt].clone();
        let message = flight.message.clone().expect("a POST");
        self.say(format!(
            "{}: {attempt:?} {} {reply:?}",
            link,
            message.method()
        ));
        if reply == Reply::Absent {
            return self.end(link, attempt, Some(Failure::Unsent("nobody".into())));
        }
        if let Reply::Break(executed) = reply {
            if executed {
                self.execute(&message)?;
            }
            return self.end(link, attempt, Some(Failure::Broken("it broke".into())));
        }
        if !flight.written {
            self.write(link, attempt)?;
        }
        // The server's own rules come first.
        let reply = match reply {
            _ if flight.turn < self.wanted && self.login => Reply::Refuse(401),
            _ if flight.in_session && !self.links[link].known => Reply::Refuse(404),
            Reply::Mismatch if flight.mirrored == self.tools => Reply::Answer,
            Reply::Refuse(404) if !flight.in_session => Reply::Answer,
            // Some servers refuse a transport they do not know; this one does not know the newer one.
            Reply::Refuse(400) if message.is("initialize") => Reply::Refuse(405),
            other => other,
        };
        let request = message.id().is_some() && message.method() != "";
        let mut head = Head {
            status: 200,
            turn: flight.turn,
            mirrored: flight.mirrored,
            ..Head::default()
        };
        let mut body: Option<String> = None;
        match reply {
            Reply::Answer if request => {
                self.execute(&message)?;
                head.names_session = message.is("initialize");
                body = Some(self.answer_to(&message));
            }
            Reply::Answer => head.status = 202,
            Reply::Stream(ids) if request => {
                self.execute(&message)?;
                head.names_session = message.is("initialize");
                head.stream = true;
                self.seen.streams += 1;
                if let Some(flight) = self.links[link].flights.get_mut(&attempt) {
                    flight.stream = true;
                    flight.ids = ids;
                }
            }
            Reply::Stream(_) | Reply::Junk if !request => head.status = 202,
            Reply::Junk => {
                self.execute(&message)?;
                body = Some("what?".into());
            }
            Reply::Refuse(status) | Reply::Mumble(status) => {
                head.status = status;
                head.authenticate = (status == 401).then(|| "Bearer".into());
                body = Some("no".into());
            }
            Reply::Perhaps(status, executed) => {
                if executed {
                    self.execute(&message)?;
                }
                head.status = status;
                body = Some("no".into());
            }
            Reply::Move(status) => {
                if status == 302 {
                    self.execute(&message)?;
                }
                head.status = status;
                self.seen.redirects += 1;
                head.location = Some(Location {
                    to: "http://here/again".into(),
                    other_origin: None,
                });
            }
            Reply::Elsewhere => {
                head.status = 307;
                head.location = Some(Location {
                    to: "http://there/".into(),
                    other_origin: Some("http://there".into()),
                });
            }
            Reply::Mismatch => {
                head.status = 400;
                body = Some(
                    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"headers"}}"#
                        .into(),
                );
            }
            Reply::Stream(_) | Reply::Break(_) | Reply::Absent => {}
        }
        if let Some(flight) = self.links[link].flights.get_mut(&attempt) {
            flight.begun = true;
        }
        let stream = head.stream;
        self.http(link, Input::Response(attempt, head))?;
        if let Some(body) = body {
            self.http(link, Input::Chunk(attempt, Bytes::from(body)))?;
        }
        // The first event tells where to go on.
        if reply == Reply::Stream(true) && stream {
            let primer = format!(
                "id: {}\ndata:\n\n",
                String::from_utf8_lossy(message.bytes())
            );
            self.http(link, Input::Chunk(attempt, primer.into()))?;
        }
        match stream || matches!(reply, Reply::Mumble(_)) {
            true => Ok(()),
            false => self.end(link, attempt, None),
        }
    }

    /// A response ends.
    fn end(
        &mut self,
        link: usize,
        attempt: Attempt,
        failure: Option<Failure>,
    ) -> Result<(), Broken> {
        if self.links[link].flights.remove(&attempt).is_none() {
            return Ok(());
        }
        if matches!(failure, Some(Failure::Broken(_))) {
            self.links[link].broke = Some(self.now);
        }
        self.links[link].dead.insert(attempt);
        self.http(
            link,
            match failure {
                None => Input::End(attempt),
                Some(failure) => Input::Failed(attempt, failure),
            },
        )
    }

    fn get(&mut self, link: usize, attempt: Attempt, status: Option<u16>) -> Result<(), Broken> {
        self.say(format!("{link}: GET {attempt:?} {status:?}"));
        let flight = self.links[link].flights.get_mut(&attempt).expect("a GET");
        flight.begun = true;
        flight.ids = true;
        let turn = flight.turn;
        let status = match status {
            _ if turn < self.wanted && self.login => 401,
            None => 200,
            Some(status) => status,
        };
        let stream = status == 200;
        flight.stream = stream;
        if flight.cursor.is_some() && stream {
            self.seen.resumed += 1;
        }
        let head = Head {
            status,
            stream,
            turn,
            location: (status == 307).then(|| Location {
                to: "http://here/stream".into(),
                other_origin: None,
            }),
            ..Head::default()
        };
        self.http(link, Input::Response(attempt, head))?;
        if !stream {
            return self.end(link, attempt, None);
        }
        if self.known.transport == Some(Transport::Sse) {
            self.seen.channels += 1;
        }
        if self.links[link].flights.contains_key(&attempt) && self.is_channel(link) {
            let endpoint = "event: endpoint\ndata: /messages\n\n";
            return self.http(link, Input::Chunk(attempt, endpoint.into()));
        }
        Ok(())
    }

    /// Whether the stream of this link is that of an HTTP+SSE server.
    fn is_channel(&self, link: usize) -> bool {
        let link = &self.links[link];
        !link.named && self.known.transport != Some(Transport::Streamable)
    }

    fn talk(&mut self, link: usize, attempt: Attempt, talk: Talk) -> Result<(), Broken> {
        self.say(format!("{link}: {attempt:?} {talk:?}"));
        let flight = self.links[link].flights[&attempt].clone();
        // Whose stream it is: of a request, its rest, or nobody's.
        let message = flight.message.clone().or_else(|| {
            let cursor = flight.cursor.as_ref()?;
            Message::read(cursor.clone().into()).ok()
        });
        let event = |data: &str| match (&message, flight.ids) {
            // The whole request is its cursor: the server knows what it has to go on with.
            (Some(message), true) => {
                format!(
                    "id: {}\ndata: {data}\n\n",
                    String::from_utf8_lossy(message.bytes())
                )
            }
            _ => format!("data: {data}\n\n"),
        };
        let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
        let text = match talk {
            Talk::Answer | Talk::AnswerAndStay => match &message {
                Some(message) => event(&self.answer_to(message)),
                None => event(note),
            },
            Talk::Notify => event(note),
            Talk::Comment => ": here\n\n".into(),
            Talk::End | Talk::Break => String::new(),
        };
        if matches!(talk, Talk::Answer | Talk::AnswerAndStay)
            && let Some(flight) = self.links[link].flights.get_mut(&attempt)
        {
            flight.answered = true;
        }
        if !text.is_empty() {
            self.http(link, Input::Chunk(attempt, text.into()))?;
        }
        match talk {
            Talk::Answer if message.is_some() => self.end(link, attempt, None),
            Talk::End => {
                if message.is_some() && !flight.answered {
                    self.links[link].broke = Some(self.now);
                }
                self.end(link, attempt, None)
            }
            Talk::Break => self.end(link, attempt, Some(Failure::Broken("it broke".into()))),
            _ => Ok(()),
        }
    }

    fn log_in(&mut self, found: bool) -> Result<(), Broken> {
        for at in 0..self.links.len() {
            let Some(turn) = self.links[at].asked_for_login.take() else {
                continue;
            };
            self.say(format!("{at}: others than {turn}: {found}"));
            // Somebody else may have got others meanwhile.
            if found && turn == self.turn {
                self.turn += 1;
            }
            self.http(at, Input::Authenticated(found || turn < self.turn))?;
        }
        Ok(())
    }

    /// Something comes from a request that was given up, or is over: nobody hears it.
    fn stale(&mut self, n: u8) -> Result<(), Broken> {
        for at in 0..self.links.len() {
            let Some(attempt) = self.links[at].dead.iter().nth_back(n.into()).copied() else {
                continue;
            };
            let head = Head {
                status: 200,
                ..Head::default()
            };
            for input in [
                Input::Written(attempt),
                Input::Response(attempt, head),
                Input::Chunk(attempt, "{}".into()),
                Input::End(attempt),
            ] {
                let link = &mut self.links[at];
                if link
                    .http
                    .deadline()
                    .is_some_and(|due| due <= Time::after(self.now - link.begun))
                {
                    continue;
                }
                link.http
                    .handle(Time::after(self.now - link.begun), input.clone());
                if let Some(output) = link.http.poll() {
                    return broken(
                        6,
                        format!("{input:?} of an HTTP request that is over: {output:?}"),
                    );
                }
            }
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), Broken> {
        match self.next_deadline() {
            Some(at) => self.wait_until(at),
            None => Ok(()),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let links = self.links.iter().filter_map(|link| {
            let due = link.http.deadline()?;
            Some(link.begun + due.since_start())
        });
        links.chain(self.session.deadline()).min()
    }

    fn wait_until(&mut self, to: Time) -> Result<(), Broken> {
        for _ in 0..10_000 {
            let Some(at) = self.next_deadline().filter(|at| *at <= to) else {
                self.now = self.now.max(to);
                return Ok(());
            };
            self.now = self.now.max(at);
            for link in 0..self.links.len() {
                self.http(link, Input::Tick)?;
            }
            self.session(SessionInput::Tick)?;
        }
        broken(3, "a deadline that stays")
    }

    fn session(&mut self, input: SessionInput) -> Result<(), Broken> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.session.handle(self.now, input);
            while let Some(output) = self.session.poll() {
                self.carry_out(output, &mut inputs)?;
            }
        }
        Ok(())
    }

    fn carry_out(
        &mut self,
        output: SessionOutput,
        inputs: &mut VecDeque<SessionInput>,
    ) -> Result<(), Broken> {
        match output {
            SessionOutput::ToHost(line) | SessionOutput::ToHostOf(_, line) => self.host_gets(&line),
            SessionOutput::Refuse(refusal) => self.host_gets(&refusal.to_response()),
            SessionOutput::Connect(generation) => {
                self.say(format!("connect {generation}"));
                let http = HttpUpstream::new(Config {
                    limit: 1 << 20,
                    stall: Duration::from_secs(60),
                    transport: None,
                    handshake: true,
                    login: self.login,
                    known: self.known,
                });
                self.links.push(Link {
                    generation,
                    http,
                    begun: self.now,
                    flights: BTreeMap::new(),
                    dead: BTreeSet::new(),
                    sent: BTreeMap::new(),
                    named: false,
                    known: true,
                    broke: None,
                    over: false,
                    ended: false,
                    asked_for_login: None,
                    denied: false,
                });
                let at = self.links.len() - 1;
                inputs.push_back(SessionInput::Link(generation, LinkInput::Up));
                self.drain(at, inputs)
            }
            SessionOutput::ToLink(generation, message) => {
                let Some(at) = self.link_of(generation) else {
                    return Ok(());
                };
                if let (Some(id), true) = (message.id(), !message.method().is_empty()) {
                    let sent = self.links[at].sent.entry(id.to_string()).or_default();
                    sent.allowed += 1;
                    sent.cancelled = false;
                }
                if let Some(of) = message
                    .request_id()
                    .filter(|_| message.is("notifications/cancelled"))
                {
                    self.links[at]
                        .sent
                        .entry(of.to_string())
                        .or_default()
                        .cancelled = true;
                }
                self.feed(at, Input::Send(message), inputs)
            }
            SessionOutput::Link(generation, order) => match (self.link_of(generation), order) {
                (Some(at), LinkOrder::CloseInput) => self.feed(at, Input::Close, inputs),
                (Some(at), LinkOrder::Kill | LinkOrder::Terminate) => {
                    self.feed(at, Input::Kill, inputs)
                }
                _ => Ok(()),
            },
            SessionOutput::Resend {
                generation,
                id,
                granted,
            } => {
                let Some(at) = self.link_of(generation) else {
                    return Ok(());
                };
                match granted {
                    true => self.seen.granted += 1,
                    false => self.seen.denied += 1,
                }
                self.say(format!("{at}: {id} is sent again: {granted}"));
                if granted {
                    self.links[at]
                        .sent
                        .entry(id.to_string())
                        .or_default()
                        .allowed += 1;
                }
                self.feed(at, Input::Resend(id, granted), inputs)
            }
            SessionOutput::Closed => {
                self.closed = true;
                Ok(())
            }
            SessionOutput::Over(_) | SessionOutput::Initialized | SessionOutput::Event(_) => Ok(()),
        }
    }

    fn link_of(&self, generation: Generation) -> Option<usize> {
        self.links
            .iter()
            .position(|link| link.generation == generation && !link.ended)
    }

    fn host_gets(&mut self, message: &Message) -> Result<(), Broken> {
        let text = String::from_utf8_lossy(message.bytes()).into_owned();
        self.say(format!("host gets {text}"));
        if !message.method().is_empty() {
            return Ok(());
        }
        let Some(Id::Int(id)) = message.id().cloned() else {
            return Ok(());
        };
        let Some(call) = self.calls.get_mut(&id) else {
            return Ok(());
        };
        if call.cancelled {
            return broken(2, format!("{id} was cancelled and is answered"));
        }
        if std::mem::replace(&mut call.answered, true) {
            return broken(1, format!("{id} is answered twice"));
        }
        self.seen.answers += 1;
        let unexecuted =
            text.contains(r#""outcome":"not_sent""#) || text.contains(r#""outcome":"rejected""#);
        if unexecuted && call.executed > 0 {
            return broken(
                4,
                format!("{id} was executed, and the host is told that it was not"),
            );
        }
        Ok(())
    }

    /// Something happens on a link.
    fn http(&mut self, at: usize, input: Input) -> Result<(), Broken> {
        let mut inputs = VecDeque::new();
        self.feed(at, input, &mut inputs)?;
        while let Some(input) = inputs.pop_front() {
            self.session(input)?;
        }
        Ok(())
    }

    fn feed(
        &mut self,
        at: usize,
        input: Input,
        inputs: &mut VecDeque<SessionInput>,
    ) -> Result<(), Broken> {
        let now = Time::after(self.now - self.links[at].begun);
        self.links[at].http.handle(now, input);
        self.drain(at, inputs)
    }

    fn drain(&mut self, at: usize, inputs: &mut VecDeque<SessionInput>) -> Result<(), Broken> {
        while let Some(output) = self.links[at].http.poll() {
            let reply = self.perform(at, output, inputs)?;
            if let Some(reply) = reply {
                let now = Time::after(self.now - self.links[at].begun);
                self.links[at].http.handle(now, reply);
            }
        }
        let link = &self.links[at];
        // A request under way has an exchange, and a link two streams and a list beside them.
        if link.http.under_way() != link.flights.len() {
            return broken(
                7,
                format!(
                    "{} under way, {} are",
                    link.http.under_way(),
                    link.flights.len()
                ),
            );
        }
        Ok(())
    }

    fn fly(
        &mut self,
        at: usize,
        attempt: Attempt,
        message: Option<Message>,
        cursor: Option<String>,
    ) -> Result<(), Broken> {
        let (turn, mirrored) = (self.turn, self.mirror);
        let link = &mut self.links[at];
        if link.ended {
            return broken(6, format!("{attempt:?} leaves after the end"));
        }
        let flight = Flight {
            message,
            written: false,
            begun: false,
            stream: false,
            ids: false,
            turn,
            mirrored,
            in_session: link.named,
            cursor,
            delete: false,
            answered: false,
        };
        match link.flights.insert(attempt, flight) {
            None => Ok(()),
            Some(_) => broken(6, format!("{attempt:?} twice")),
        }
    }

    /// Something but a farewell is sent: not into a break.
    fn is_quiet(&mut self, at: usize, attempt: Attempt) -> Result<(), Broken> {
        let link = &mut self.links[at];
        if let Some(broke) = link.broke {
            if self.now - broke < QUIET {
                return broken(8, format!("{attempt:?} leaves into a break"));
            }
            self.seen.quiet += 1;
            link.broke = None;
        }
        Ok(())
    }

    fn perform(
        &mut self,
        at: usize,
        output: Output,
        inputs: &mut VecDeque<SessionInput>,
    ) -> Result<Option<Input>, Broken> {
        match output {
            Output::Post {
                attempt,
                message,
                to,
            } => {
                self.say(format!(
                    "{at}: POST {attempt:?} {}",
                    String::from_utf8_lossy(message.bytes())
                ));
                self.posted(at, &message, to.is_some())?;
                self.is_quiet(at, attempt)?;
                self.fly(at, attempt, Some(message), None)?;
            }
            Output::Get {
                attempt, cursor, ..
            } => {
                if self.links[at].over {
                    return broken(6, format!("{attempt:?} GET after the end"));
                }
                self.is_quiet(at, attempt)?;
                self.fly(at, attempt, None, cursor)?;
            }
            Output::Delete { attempt, .. } => {
                self.seen.deletes += 1;
                self.left(at)?;
                self.fly(at, attempt, None, None)?;
                if let Some(flight) = self.links[at].flights.get_mut(&attempt) {
                    flight.delete = true;
                }
            }
            Output::Leave { .. } => self.left(at)?,
            Output::Abort(attempt) => {
                let link = &mut self.links[at];
                if link.flights.remove(&attempt).is_none() && !link.dead.contains(&attempt) {
                    return broken(6, format!("{attempt:?} is given up and was never made"));
                }
                link.dead.insert(attempt);
            }
            Output::Authenticate { turn, .. } => {
                self.seen.logins += 1;
                let link = &mut self.links[at];
                if !self.login || link.asked_for_login.replace(turn).is_some() {
                    return broken(9, "credentials are asked for twice at once");
                }
            }
            Output::Compare { number, had, .. } => {
                self.seen.listings += 1;
                return Ok(Some(Input::Compared(number, self.mirror != had)));
            }
            Output::Learn(_) => self.mirror = self.tools,
            Output::PassList(list) => {
                self.mirror = self.tools;
                let frame = Frame::Message(list);
                self.reported(at, &LinkInput::Frame(frame.clone()))?;
                let generation = self.links[at].generation;
                inputs.push_back(SessionInput::Link(generation, LinkInput::Frame(frame)));
            }
            Output::Locate(_) => return Ok(Some(Input::Located(Ok(())))),
            Output::Named => self.links[at].named = true,
            Output::Know(known) => self.known = known,
            Output::Link(input) => {
                self.say(format!("{at}: {input:?}"));
                self.reported(at, &input)?;
                let generation = self.links[at].generation;
                inputs.push_back(SessionInput::Link(generation, input));
            }
            Output::Ended => {
                let link = &mut self.links[at];
                link.ended = true;
                link.flights.clear();
                let (generation, sent) = (link.generation, link.http.sent());
                let exit = outlive_core::cause::Exit::Unknown;
                inputs.push_back(SessionInput::Link(
                    generation,
                    LinkInput::Exited { exit, sent },
                ));
            }
            Output::Renew | Output::Settle(_) | Output::Version(_) => {}
        }
        Ok(None)
    }

    /// The server is told that a session is over.
    fn left(&self, at: usize) -> Result<(), Broken> {
        let link = &self.links[at];
        match link.denied || link.over || !link.named {
            true => broken(
                6,
                "leave is taken of a session that was denied, or never was",
            ),
            false => Ok(()),
        }
    }

    fn posted(&mut self, at: usize, message: &Message, moved: bool) -> Result<(), Broken> {
        let link = &mut self.links[at];
        if link.over {
            return broken(
                6,
                format!("{} leaves after the end of its link", message.method()),
            );
        }
        if message.is("notifications/cancelled") {
            let of = message
                .request_id()
                .map(|id| id.to_string())
                .unwrap_or_default();
            let sent = link.sent.entry(of.clone()).or_default();
            sent.cancellations += 1;
            // Sent again at another address, or with other credentials, it is the same one.
            let most = 1 + MOST_REDIRECTS + MOST_CHALLENGES;
            return match (sent.posted, sent.cancellations) {
                (0, _) => broken(
                    2,
                    format!("the cancellation of {of} leaves, and {of} has not"),
                ),
                (_, n) if n > most => {
                    broken(2, format!("the cancellation of {of} leaves {n} times"))
                }
                _ => Ok(()),
            };
        }
        let Some(id) = message.id().filter(|_| !message.method().is_empty()) else {
            return Ok(());
        };
        // Lists for the sake of a call's headers are the link's own.
        if id.to_string().contains("outlive-tools") {
            return Ok(());
        }
        let sent = link.sent.entry(id.to_string()).or_default();
        sent.posted += 1;
        sent.moved += u32::from(moved);
        if sent.posted > sent.allowed {
            return broken(
                4,
                format!(
                    "{id} leaves {} times, and the ledger knows of {}",
                    sent.posted, sent.allowed
                ),
            );
        }
        if sent.cancelled && !message.is("initialize") {
            return broken(2, format!("{id} leaves after it was cancelled"));
        }
        Ok(())
    }

    /// A link says what became of a request, once.
    fn reported(&mut self, at: usize, input: &LinkInput) -> Result<(), Broken> {
        let link = &mut self.links[at];
        match input {
            LinkInput::Expired { .. } => link.denied = true,
            LinkInput::Frame(_) => link.denied = false,
            LinkInput::Disconnected { .. } | LinkInput::Refused { .. } => link.over = true,
            _ => {}
        }
        let id = match input {
            LinkInput::Unanswered { id, failure } => {
                link.over |= matches!(failure, outlive_core::link::RequestFailure::Unsent(_));
                Some(id.clone())
            }
            LinkInput::Expired { id, .. } => id.clone(),
            LinkInput::Frame(frame) => {
                let answer = frame.message().filter(|it| it.method().is_empty());
                answer.and_then(|it| it.id().cloned())
            }
            _ => None,
        };
        let Some(sent) = id
            .as_ref()
            .and_then(|id| link.sent.get_mut(&id.to_string()))
        else {
            return Ok(());
        };
        sent.reports += 1;
        // The session may send a request again on the same link: each time has an end of its own.
        match sent.reports > sent.allowed {
            true => broken(
                5,
                format!(
                    "{id:?} ends {} times, and was sent {}",
                    sent.reports, sent.allowed
                ),
            ),
            false => Ok(()),
        }
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
