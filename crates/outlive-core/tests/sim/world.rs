//! A world around one session: a host, the servers it goes through, and a clock. The world keeps its
//! own books, independent of the session's, and checks the ten invariants after every step.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;
use outlive_core::cause::{Exit, StartFailure};
use outlive_core::framer::{Frame, TooLong};
use outlive_core::message::Kind;
use outlive_core::policy::{Cancel, Policy, Retry};
use outlive_core::{Event, Generation, Id, Input, LinkInput, LinkOrder, Message, Output, Session};
use outlive_core::{State, Time};

use crate::schedule::{Dice, Method, Step};

/// The invariant that broke, and how.
pub type Broken = String;

/// A request the host has made.
#[derive(Clone, Debug)]
struct Asked {
    id: String,
    method: Method,
    /// Its place among all that the host has sent.
    seq: u64,
    open: bool,
    cancelled: bool,
    /// The links it was sent on, and as which frame.
    sends: Vec<(Generation, u64)>,
    /// Deaths of links it had been written to and not answered by.
    unknown: u32,
    acknowledged: u32,
}

/// What a server was sent and has not answered.
#[derive(Debug, Clone)]
struct Todo {
    id: String,
    method: String,
    asked: Option<usize>,
    frame: u64,
}

/// A server process and the link to it.
#[derive(Clone, Debug)]
struct Server {
    generation: Generation,
    up: bool,
    /// The session has been told that it is dead.
    dead: bool,
    /// Its process runs.
    runs: bool,
    killed: bool,
    /// It takes no input any more, but may still speak.
    deaf: bool,
    frames: u64,
    /// No frame up to here can have been lost: it answered one that came after.
    taken: u64,
    todo: Vec<Todo>,
    done: Vec<Todo>,
    /// Its requests to the host that are not answered, by its own ids.
    asks: BTreeSet<String>,
    next_ask: u64,
    /// It was asked for its tools by the session itself, and has answered.
    listed: bool,
    greeted: bool,
    initialized: bool,
    level: bool,
    subscribed: BTreeSet<String>,
    cancelled: BTreeSet<String>,
    /// The host had its handshake before this server was born.
    successor: bool,
    /// The place of the last message of the host that it was sent.
    last_seq: Option<u64>,
}

#[derive(Clone)]
pub struct World {
    session: Session,
    now: Time,
    pub modern: bool,
    policy: Policy,
    asked: Vec<Asked>,
    /// Requests that are open, by id.
    open: HashMap<String, usize>,
    next_seq: u64,
    /// The sequence numbers of notifications, by their marker.
    server: Option<Server>,
    old: Vec<Server>,
    /// The server's requests as the host knows them: id there → link and its own id.
    shown: Vec<(String, Generation, String)>,
    state: State,
    closed: bool,
    stopping: bool,
    host_closed: bool,
    /// When the host left.
    left: Time,
    stop_asked: bool,
    /// What the host believes to have.
    greeted: bool,
    initialized: bool,
    level: bool,
    subscribed: BTreeSet<String>,
    /// The version of the tool list the host has last seen, and whether it was told of a change.
    seen_tools: Option<u64>,
    told_changed: bool,
    updated: BTreeMap<String, u64>,
    /// When the answer to a duplicate is owed: its id.
    duplicate: Option<String>,
    blocked: bool,
    pub log: Vec<String>,
    pub verbose: bool,
}

const TOO_LONG: u64 = 1 << 30;

impl World {
    pub fn new(dice: &mut Dice) -> World {
        let modern = dice.below(3) == 0;
        let mut policy = Policy {
            retry: [Retry::Safe, Retry::Safe, Retry::Never, Retry::Always][dice.below(4) as usize],
            cancel: [Cancel::Auto, Cancel::Auto, Cancel::Forward, Cancel::Absorb]
                [dice.below(4) as usize],
            request_timeout: (dice.below(3) == 0).then(|| Duration::from_secs(3)),
            request_ceiling: (dice.below(4) == 0).then(|| Duration::from_secs(9)),
            ..Policy::default()
        };
        policy.limits.held = 5;
        policy.limits.tombstones = 4;
        policy.limits.asks = 3;
        policy.limits.in_flight = 8;
        policy.limits.subscriptions = 2;
        policy.limits.held_bytes = 1200;
        policy.limits.message = 400;
        policy.breaker.failures = 3 + dice.below(6) as u32;
        World::with(policy, modern, dice.roll())
    }

    pub fn with(policy: Policy, modern: bool, seed: u64) -> World {
        World {
            session: Session::new(policy.clone(), seed),
            now: Time::ZERO,
            modern,
            policy,
            asked: Vec::new(),
            open: HashMap::new(),
            next_seq: 0,
            server: None,
            old: Vec::new(),
            shown: Vec::new(),
            state: State::Connecting { attempt: 1 },
            closed: false,
            stopping: false,
            host_closed: false,
            left: Time::ZERO,
            stop_asked: false,
            greeted: false,
            initialized: false,
            level: false,
            subscribed: BTreeSet::new(),
            seen_tools: None,
            told_changed: false,
            updated: BTreeMap::new(),
            duplicate: None,
            blocked: false,
            log: Vec::new(),
            verbose: false,
        }
    }

    pub fn start(&mut self) -> Result<(), Broken> {
        self.feed(Input::Start)
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.verbose {
            let line = format!("{:>9.3}  {}", self.now.since_start().as_secs_f64(), line());
            self.log.push(line);
        }
    }

    /// Carries out a step; one that does not apply does nothing.
    pub fn step(&mut self, step: Step) -> Result<(), Broken> {
        if self.closed {
            return Ok(());
        }
        match step {
            Step::Request(method, id) => self.request(method, id),
            Step::Cancel(n) => self.cancel(n),
            Step::CancelUnknown => self.host_line(cancel_line("\"never\"")),
            Step::Initialized => self.send_initialized(),
            Step::HostNotification => {
                let seq = self.seq();
                self.host_line(format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/custom","params":{{"seq":{seq}}}}}"#
                ))
            }
            Step::HostAnswer(n) => {
                let Some((id, ..)) = pick(&self.shown, n) else {
                    return Ok(());
                };
                let line = format!(r#"{{"id":{id},"result":{{}}}}"#);
                self.host_line(line)
            }
            Step::HostJunk => self.host_line("junk {".into()),
            Step::HostTooLong => self.too_long(),
            Step::Up => self.up(),
            Step::Unmade => self.unmade(),
            Step::Answer(n, ok) => self.answer(n, ok),
            Step::AnswerAgain(n) => {
                let Some(server) = self.live() else {
                    return Ok(());
                };
                let Some(todo) = pick(&server.done, n).cloned() else {
                    return Ok(());
                };
                // If the host has used the id again, nobody could tell which request is meant.
                if self.open.contains_key(&todo.id) {
                    return Ok(());
                }
                self.server_line(format!(r#"{{"id":{},"result":{{"again":true}}}}"#, todo.id))
            }
            Step::AnswerAll => {
                let todo = self.live().map_or(0, |s| s.todo.len());
                for _ in 0..todo {
                    self.answer(0, true)?;
                }
                Ok(())
            }
            Step::Ask(n) => self.ask(n),
            Step::TakeBack(n) => {
                let Some(server) = self.live() else {
                    return Ok(());
                };
                let asks: Vec<String> = server.asks.iter().cloned().collect();
                let Some(id) = pick(&asks, n).cloned() else {
                    return Ok(());
                };
                if let Some(server) = self.live() {
                    server.asks.remove(&id);
                }
                self.server_line(cancel_line(&id))
            }
            Step::Progress(n) => self.progress(n),
            Step::ServerNotification => self.server_line(
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#.into(),
            ),
            Step::ServerJunk => self.server_line("Listening on stdio…".into()),
            Step::Stderr => self.server_says(LinkInput::Stderr("a word\u{7}".into())),
            Step::Eof(lost) => self.die(lost, |sent| LinkInput::Eof { sent }, false),
            Step::WriteFails(lost) => {
                if let Some(server) = self.live() {
                    server.deaf = true;
                }
                let error = "EPIPE".to_string();
                self.die(
                    lost,
                    move |sent| LinkInput::WriteFailed {
                        error: error.clone(),
                        sent,
                    },
                    false,
                )
            }
            Step::Exit(lost, signal) => {
                let exit = if signal {
                    Exit::Signal(9)
                } else {
                    Exit::Code(1)
                };
                self.die(lost, |sent| LinkInput::Exited { exit, sent }, true)
            }
            Step::OldExit => self.old_exit(),
            Step::OldFrame => {
                let Some(generation) = self.old.last().map(|s| s.generation) else {
                    return Ok(());
                };
                let line = Bytes::from_static(br#"{"id":1,"result":{"stale":true}}"#);
                self.feed(Input::Link(generation, LinkInput::Frame(Frame::Line(line))))
            }
            Step::Inspected(stopped) => self.server_says(LinkInput::Inspected { stopped }),
            Step::Tick => self.tick(),
            Step::Wait(ms) => {
                self.now = self.now + Duration::from_millis(ms.into());
                self.feed(Input::Tick)
            }
            Step::Sleep(seconds) => {
                self.now = self.now + Duration::from_secs(seconds.into());
                self.feed(Input::Tick)
            }
            Step::HostBlocked(blocked) => {
                self.blocked = blocked;
                self.feed(Input::HostBlocked(blocked))
            }
            Step::Restart => self.feed(Input::Restart),
            Step::Stop => {
                self.stopping = true;
                self.stop_asked = true;
                self.feed(Input::Stop)
            }
            Step::HostCloses => {
                self.stopping = true;
                if !self.host_closed {
                    self.left = self.now;
                }
                self.host_closed = true;
                self.feed(Input::HostClosed)
            }
        }
    }

    /// Whether a step would do anything at all.
    pub fn applies(&self, step: Step) -> bool {
        let server = self.server.as_ref();
        match step {
            Step::Up | Step::Unmade => server.is_some_and(|s| !s.up && !s.dead),
            Step::Answer(n, _) => {
                server.is_some_and(|s| s.up && !s.dead && s.todo.len() > usize::from(n))
            }
            Step::Exit(lost, _) => server
                .is_some_and(|s| s.up && s.runs && s.frames.saturating_sub(lost.into()) >= s.taken),
            Step::Eof(lost) | Step::WriteFails(lost) => server.is_some_and(|s| {
                s.up && !s.dead && s.frames.saturating_sub(lost.into()) >= s.taken
            }),
            Step::OldExit => self.old.iter().any(|s| s.runs),
            Step::Cancel(n) => self.asked.len() > usize::from(n),
            Step::Tick => self.session.deadline().is_some(),
            _ => !self.closed,
        }
    }

    /// The server whose words still reach the session: also one that no longer listens.
    fn speaking(&mut self) -> Option<&mut Server> {
        self.server
            .as_mut()
            .filter(|s| s.up && (!s.dead || s.deaf && s.runs))
    }

    fn live(&mut self) -> Option<&mut Server> {
        self.server.as_mut().filter(|s| s.up && !s.dead)
    }

    fn seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq
    }

    fn host_line(&mut self, line: String) -> Result<(), Broken> {
        if self.host_closed {
            return Ok(());
        }
        self.note(|| format!("host   > {line}"));
        self.feed(Input::Host(Frame::Line(line.into())))
    }

    fn server_line(&mut self, line: String) -> Result<(), Broken> {
        self.note(|| format!("server > {line}"));
        self.server_says(LinkInput::Frame(Frame::Line(line.into())))
    }

    fn server_says(&mut self, input: LinkInput) -> Result<(), Broken> {
        match self.speaking().map(|s| s.generation) {
            Some(generation) => self.feed(Input::Link(generation, input)),
            None => Ok(()),
        }
    }

    fn request(&mut self, method: Method, id: u8) -> Result<(), Broken> {
        // Back-pressure: a host that is not read cannot send.
        if self.host_closed || !self.session.wants_host() {
            return Ok(());
        }
        let id = if id % 3 == 2 {
            format!("\"{id}\"")
        } else {
            id.to_string()
        };
        let seq = self.seq();
        let index = self.asked.len();
        let meta = match self.modern {
            true => r#""io.modelcontextprotocol/protocolVersion":"m1","progressToken":"#,
            false => r#""progressToken":"#,
        };
        let more = match method {
            Method::CallSafe => r#","name":"safe""#.to_string(),
            Method::CallUnsafe => r#","name":"unsafe""#.to_string(),
            Method::Subscribe | Method::Unsubscribe => format!(r#","uri":"u{}""#, seq % 3),
            Method::Listen => r#","notifications":{"toolsListChanged":true}"#.to_string(),
            _ => String::new(),
        };
        let line = format!(
            r#"{{"method":"{}","params":{{"asked":{index},"_meta":{{{meta}{index}}}{more}}},"id":{id}}}"#,
            method.name()
        );
        let duplicate = self.open.contains_key(&id);
        if duplicate {
            self.duplicate = Some(id.clone());
        } else {
            self.open.insert(id.clone(), index);
        }
        self.asked.push(Asked {
            id: id.clone(),
            method,
            seq,
            open: !duplicate,
            cancelled: false,
            sends: Vec::new(),
            unknown: 0,
            acknowledged: 0,
        });
        self.host_line(line)?;
        match self.duplicate.take() {
            Some(id) => Err(format!("1: the duplicate of {id} was not answered")),
            None => Ok(()),
        }
    }

    fn cancel(&mut self, n: u8) -> Result<(), Broken> {
        let len = self.asked.len();
        if self.host_closed || len == 0 {
            return Ok(());
        }
        let index = len - 1 - usize::from(n) % len;
        let id = self.asked[index].id.clone();
        // The cancellation is of whichever request is open under that id.
        if let Some(&open) = self.open.get(&id)
            && self.asked[open].method != Method::Initialize
        {
            self.asked[open].open = false;
            self.asked[open].cancelled = true;
            self.open.remove(&id);
        }
        self.host_line(cancel_line(&id))
    }

    fn send_initialized(&mut self) -> Result<(), Broken> {
        if self.host_closed {
            return Ok(());
        }
        self.initialized = true;
        if let Some(server) = self.live() {
            // Whether it is passed on at once is not checked, only that a later server has it.
            server.initialized = true;
        }
        self.host_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into())
    }

    fn too_long(&mut self) -> Result<(), Broken> {
        if self.host_closed {
            return Ok(());
        }
        let id = "\"long\"";
        self.duplicate = Some(id.into());
        self.feed(Input::Host(Frame::TooLong(TooLong {
            id: Id::read(id.as_bytes()),
            id_json: Bytes::from_static(b"\"long\""),
            has_method: true,
            len: TOO_LONG,
        })))?;
        match self.duplicate.take() {
            Some(_) => Err("1: a request that was too long was not answered".into()),
            None => Ok(()),
        }
    }

    fn up(&mut self) -> Result<(), Broken> {
        let Some(server) = self.server.as_mut().filter(|s| !s.up && !s.dead) else {
            return Ok(());
        };
        server.up = true;
        server.runs = true;
        let generation = server.generation;
        self.note(|| format!("link {generation} is up"));
        self.feed(Input::Link(generation, LinkInput::Up))
    }

    fn unmade(&mut self) -> Result<(), Broken> {
        let Some(server) = self.server.as_mut().filter(|s| !s.up && !s.dead) else {
            return Ok(());
        };
        server.dead = true;
        let generation = server.generation;
        self.note(|| format!("link {generation} cannot be made"));
        self.feed(Input::Link(
            generation,
            LinkInput::Unmade(StartFailure::NotFound),
        ))
    }

    /// The server of this generation: every second one has other tools.
    fn tools_version(generation: Generation) -> u64 {
        generation.number() / 2 % 2
    }

    fn answer(&mut self, n: u8, ok: bool) -> Result<(), Broken> {
        let Some(server) = self.speaking() else {
            return Ok(());
        };
        if server.todo.is_empty() {
            return Ok(());
        }
        let todo = server.todo.remove(usize::from(n) % server.todo.len());
        server.taken = server.taken.max(todo.frame + 1);
        let version = World::tools_version(server.generation);
        let result = match todo.method.as_str() {
            "initialize" => {
                server.greeted |= ok;
                r#"{"protocolVersion":"v1","capabilities":{"tools":{}},"serverInfo":{"name":"s"}}"#
            }
            "server/discover" => r#"{"supportedVersions":["m1"],"capabilities":{}}"#,
            "tools/list" => {
                server.listed |= ok && todo.asked.is_none();
                match version {
                    0 => {
                        r#"{"tools":[{"name":"safe","annotations":{"idempotentHint":true}},{"name":"unsafe"}]}"#
                    }
                    _ => r#"{"tools":[{"name":"safe"},{"name":"unsafe"}]}"#,
                }
            }
            _ => "{}",
        };
        let line = match ok {
            true => format!(r#"{{"id":{},"result":{result}}}"#, todo.id),
            false => format!(
                r#"{{"id":{},"error":{{"code":-1,"message":"no"}}}}"#,
                todo.id
            ),
        };
        let acknowledge = ok && todo.method == "subscriptions/listen";
        if acknowledge {
            // It stays open; what is sent is the acknowledgement.
            server.todo.push(todo.clone());
            return self.server_line(format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}}}}}"#,
                todo.id
            ));
        }
        server.done.push(todo);
        self.server_line(line)
    }

    fn ask(&mut self, n: u8) -> Result<(), Broken> {
        let Some(server) = self.live() else {
            return Ok(());
        };
        // A server may use an id again once it is answered.
        server.next_ask += 1;
        let id = format!("{}", 100 + u64::from(n) % server.next_ask);
        if !server.asks.insert(id.clone()) {
            return Ok(());
        }
        self.server_line(format!(
            r#"{{"method":"elicitation/create","id":{id},"params":{{}}}}"#
        ))
    }

    fn progress(&mut self, n: u8) -> Result<(), Broken> {
        let len = self.asked.len();
        if len == 0 {
            return Ok(());
        }
        let index = len - 1 - usize::from(n) % len;
        self.server_line(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{index},"progress":1}}}}"#
        ))
    }

    /// The link of the live server dies, as far as the session is told.
    fn die(
        &mut self,
        lost: u8,
        input: impl Fn(u64) -> LinkInput,
        exits: bool,
    ) -> Result<(), Broken> {
        let Some(server) = self
            .server
            .as_mut()
            .filter(|s| s.up && (!s.dead || (exits && s.runs)))
        else {
            return Ok(());
        };
        let first = !server.dead;
        let sent = match first {
            true => server.frames.saturating_sub(lost.into()).max(server.taken),
            false => server.taken,
        };
        let generation = server.generation;
        if first {
            server.taken = sent;
        }
        server.dead = true;
        server.runs &= !exits;
        let todo = server.todo.clone();
        if first {
            for todo in todo {
                if let Some(index) = todo.asked
                    && todo.frame < sent
                {
                    self.asked[index].unknown += 1;
                }
            }
        }
        self.note(|| format!("link {generation} dies, {sent} frames taken, exits: {exits}"));
        self.feed(Input::Link(generation, input(sent)))
    }

    /// A process that is no longer in service ends.
    fn old_exit(&mut self) -> Result<(), Broken> {
        let Some(server) = self.old.iter_mut().find(|s| s.runs) else {
            return Ok(());
        };
        server.runs = false;
        let generation = server.generation;
        let sent = server.taken;
        self.note(|| format!("old process {generation} ends"));
        self.feed(Input::Link(
            generation,
            LinkInput::Exited {
                exit: Exit::Signal(9),
                sent,
            },
        ))
    }

    fn tick(&mut self) -> Result<(), Broken> {
        let Some(deadline) = self.session.deadline() else {
            return Ok(());
        };
        self.now = self.now.max(deadline);
        self.feed(Input::Tick)
    }

    /// Hands an input to the session, carries out what it says, and checks everything.
    fn feed(&mut self, input: Input) -> Result<(), Broken> {
        self.session.handle(self.now, input);
        while let Some(output) = self.session.poll() {
            if self.closed {
                return Err(format!("10: {output:?} after Closed"));
            }
            self.carry_out(output)?;
        }
        self.check()
    }

    fn carry_out(&mut self, output: Output) -> Result<(), Broken> {
        match output {
            Output::ToHost(bytes) => self.host_gets(bytes),
            Output::ToLink(generation, bytes) => self.server_gets(generation, bytes),
            Output::Connect(generation) => self.connect(generation),
            Output::Link(generation, order) => self.order(generation, order),
            Output::Event(Event::State(state)) => {
                self.note(|| format!("state  = {}", state.name()));
                if let State::Ready { generation } = &state {
                    self.became_ready(*generation)?;
                }
                self.state = state;
                Ok(())
            }
            Output::Event(event) => {
                self.note(|| format!("event  = {event}"));
                Ok(())
            }
            Output::Closed => {
                self.closed = true;
                let left = self
                    .server
                    .iter()
                    .chain(&self.old)
                    .find(|s| s.runs && !s.killed);
                match left {
                    Some(s) => Err(format!(
                        "10: the process of {} was left behind",
                        s.generation
                    )),
                    None => Ok(()),
                }
            }
        }
    }

    fn connect(&mut self, generation: Generation) -> Result<(), Broken> {
        self.note(|| format!("connect {generation}"));
        if let Some(last) = self.server.take() {
            if generation <= last.generation {
                return Err(format!(
                    "6: generation {generation} after {}",
                    last.generation
                ));
            }
            if !last.dead && last.up {
                return Err("6: a second link beside a live one".into());
            }
            self.old.push(last);
        }
        self.server = Some(Server {
            generation,
            up: false,
            dead: false,
            runs: false,
            killed: false,
            deaf: false,
            frames: 0,
            taken: 0,
            todo: Vec::new(),
            done: Vec::new(),
            asks: BTreeSet::new(),
            next_ask: 0,
            listed: false,
            greeted: false,
            initialized: false,
            level: false,
            subscribed: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            successor: self.greeted,
            last_seq: None,
        });
        Ok(())
    }

    fn order(&mut self, generation: Generation, order: LinkOrder) -> Result<(), Broken> {
        self.note(|| format!("order {order:?} for {generation}"));
        if order == LinkOrder::Inspect {
            return Ok(());
        }
        // A link that is told to end is no longer in service, whoever began it.
        if let Some(server) = self.server.take_if(|s| s.generation == generation) {
            let mut server = server;
            if !server.dead {
                // It had taken all there was when it was told to end.
                server.taken = server.frames;
                for todo in server.todo.clone() {
                    if let Some(index) = todo.asked {
                        self.asked[index].unknown += 1;
                    }
                }
            }
            server.dead = true;
            self.old.push(server);
        }
        for server in self.old.iter_mut().filter(|s| s.generation == generation) {
            server.killed |= order == LinkOrder::Kill;
        }
        Ok(())
    }

    fn became_ready(&mut self, generation: Generation) -> Result<(), Broken> {
        let live = self
            .server
            .as_ref()
            .is_some_and(|s| s.generation == generation && s.up && !s.dead);
        if !live {
            return Err(format!("5: Ready for {generation}, which is not alive"));
        }
        if self.server.as_ref().is_some_and(|s| s.successor) {
            for uri in self.subscribed.clone() {
                self.updated.insert(uri, generation.number());
            }
        }
        Ok(())
    }

    fn host_gets(&mut self, bytes: Bytes) -> Result<(), Broken> {
        self.note(|| format!("host   < {}", String::from_utf8_lossy(&bytes)));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let message = Message::read(bytes).map_err(|d| format!("junk to the host: {d:?}"))?;
        match message.kind() {
            Kind::Response => self.host_is_answered(&message, &text),
            Kind::Request => {
                let id = String::from_utf8_lossy(message.id_json()).into_owned();
                let server = self.server.as_ref().filter(|s| !s.dead);
                let Some(server) = server else {
                    return Err("6: a request of a dead server".into());
                };
                if self
                    .shown
                    .iter()
                    .any(|(known, generation, _)| *known == id && *generation != server.generation)
                {
                    return Err(format!("6: id {id} was the id of another link's request"));
                }
                // Which of its own ids this is, the answer will show.
                self.shown.push((id, server.generation, String::new()));
                Ok(())
            }
            Kind::Notification => self.host_is_told(&message),
        }
    }

    fn host_is_answered(&mut self, message: &Message, text: &str) -> Result<(), Broken> {
        let id = String::from_utf8_lossy(message.id_json()).into_owned();
        if self.duplicate.as_ref() == Some(&id) && message.is_error() {
            self.duplicate = None;
            return Ok(());
        }
        if text.contains(r#""again":true"#) || text.contains(r#""stale":true"#) {
            return Err(format!(
                "1: a second or stale answer reached the host: {text}"
            ));
        }
        let Some(index) = self.open.remove(&id) else {
            return Err(format!("1/2: an answer nobody waits for: {text}"));
        };
        let asked = &mut self.asked[index];
        asked.open = false;
        if text.contains("connection_lost")
            && let State::Ready { generation } = &self.state
            && asked.sends.iter().any(|(sent, _)| sent == generation)
        {
            return Err("5: connection_lost while Ready is published for that link".into());
        }
        if message.is_error() {
            return Ok(());
        }
        match asked.method {
            Method::Initialize => {
                self.greeted = true;
                self.level = false;
                self.subscribed.clear();
                if !text.contains(r#""tools":{"listChanged":true}"#) {
                    return Err("9: listChanged is not promised".into());
                }
            }
            Method::SetLevel => self.level = true,
            Method::Subscribe => {
                let uri = format!("u{}", asked.seq % 3);
                if self.subscribed.len() < self.policy.limits.subscriptions {
                    self.subscribed.insert(uri);
                }
            }
            Method::Unsubscribe => {
                let uri = format!("u{}", asked.seq % 3);
                self.subscribed.remove(&uri);
            }
            Method::ToolsList => {
                self.seen_tools = Some(u64::from(!text.contains("idempotentHint")));
                self.told_changed = false;
            }
            _ => {}
        }
        Ok(())
    }

    fn host_is_told(&mut self, message: &Message) -> Result<(), Broken> {
        match message.method() {
            "notifications/progress" => {
                let index = match message.progress_token() {
                    Some(Id::Int(index)) => index as usize,
                    other => return Err(format!("progress for {other:?}")),
                };
                match self.asked[index].open {
                    true => Ok(()),
                    false => Err("2: progress for a request that is over".into()),
                }
            }
            "notifications/tools/list_changed" => {
                self.told_changed = true;
                Ok(())
            }
            "notifications/resources/updated" => {
                if let Some(uri) = message.uri() {
                    self.updated.remove(&*uri);
                }
                Ok(())
            }
            "notifications/subscriptions/acknowledged" => {
                let id = message
                    .subscription_id()
                    .map(|id| id.to_json())
                    .unwrap_or_default();
                let Some(&index) = self.open.get(&id) else {
                    return Ok(());
                };
                self.asked[index].acknowledged += 1;
                // A server that acknowledges twice is its own affair; a replay must not show.
                Ok(())
            }
            "notifications/cancelled" => {
                let id = message
                    .request_id()
                    .map(|id| id.to_json())
                    .unwrap_or_default();
                match self.shown.iter().any(|(known, ..)| *known == id) {
                    true => Ok(()),
                    false => Err(format!(
                        "6: the host is told that {id} is cancelled, unknown to it"
                    )),
                }
            }
            _ => Ok(()),
        }
    }

    fn server_gets(&mut self, generation: Generation, bytes: Bytes) -> Result<(), Broken> {
        self.note(|| format!("server < {}", String::from_utf8_lossy(&bytes)));
        let message = Message::read(bytes).map_err(|d| format!("junk to the server: {d:?}"))?;
        let Some(server) = self.server.as_mut().filter(|s| s.generation == generation) else {
            return Err(format!(
                "6: a message for {generation}, which is not in service"
            ));
        };
        if !server.up || server.dead {
            return Err(format!("6: a message for {generation}, which is not alive"));
        }
        let frame = server.frames;
        server.frames += 1;
        match message.kind() {
            Kind::Request => self.server_is_asked(message, frame),
            Kind::Response => {
                let id = String::from_utf8_lossy(message.id_json()).into_owned();
                // The session answers by itself what is over its bound.
                match server.asks.remove(&id) {
                    true => Ok(()),
                    false => Err(format!(
                        "6: an answer to {id}, which {generation} did not ask"
                    )),
                }
            }
            Kind::Notification => {
                if message.is("notifications/cancelled") {
                    let id = message
                        .request_id()
                        .map(|id| id.to_json())
                        .unwrap_or_default();
                    let todo = server.todo.iter().find(|t| t.id == id);
                    match todo {
                        None => {
                            return Err(format!("2: a useless cancel of {id} reached the server"));
                        }
                        Some(t) if t.method == "initialize" => {
                            return Err("2: initialize was cancelled".into());
                        }
                        Some(_) => {}
                    }
                    if !server.cancelled.insert(id.clone()) {
                        return Err(format!("2: {id} was cancelled twice"));
                    }
                } else if message.is("notifications/initialized") {
                    server.initialized = true;
                }
                Ok(())
            }
        }
    }

    fn server_is_asked(&mut self, message: Message, frame: u64) -> Result<(), Broken> {
        let Some(server) = self.server.as_mut() else {
            return Ok(());
        };
        let id = String::from_utf8_lossy(message.id_json()).into_owned();
        if server.todo.iter().any(|t| t.id == id) {
            return Err(format!("6: two requests {id} in flight on one link"));
        }
        let ours = id.starts_with("\"outlive-");
        let index = String::from_utf8_lossy(message.params().unwrap_or_default())
            .split_once(r#""asked":"#)
            .and_then(|(_, rest)| rest.split(',').next()?.parse::<usize>().ok());
        let replayed = ours && index.is_some_and(|i| !self.asked[i].open);
        let asked = index.filter(|_| !replayed);
        match message.method() {
            "logging/setLevel" => server.level = true,
            "resources/subscribe" => {
                if let Some(uri) = message.uri() {
                    server.subscribed.insert(uri.into_owned());
                }
            }
            _ => {}
        }
        server.cancelled.remove(&id);
        server.todo.push(Todo {
            id,
            method: message.method().to_string(),
            asked,
            frame,
        });
        match asked {
            Some(index) => self.host_request_is_sent(index, frame),
            None => Ok(()),
        }
    }

    fn host_request_is_sent(&mut self, index: usize, frame: u64) -> Result<(), Broken> {
        let Some(server) = self.server.as_mut() else {
            return Ok(());
        };
        let asked = &mut self.asked[index];
        if !asked.open {
            return Err(format!("2: {} was sent after it was settled", asked.id));
        }
        if server.last_seq.is_some_and(|last| last >= asked.seq) {
            return Err(format!("8: {} was overtaken", asked.id));
        }
        server.last_seq = Some(asked.seq);
        if asked
            .sends
            .iter()
            .any(|(generation, _)| *generation == server.generation)
        {
            return Err(format!("1: {} was sent twice on one link", asked.id));
        }
        asked.sends.push((server.generation, frame));
        if asked.unknown > 0 && asked.method != Method::Listen {
            if asked.unknown >= 2 {
                return Err(format!("4: {} was sent again after two deaths", asked.id));
            }
            let declared = World::tools_version(server.generation) == 0 && server.listed;
            let safe = match self.policy.retry {
                Retry::Always => true,
                Retry::Never => false,
                Retry::Safe => {
                    asked.method.is_read_only() || (asked.method == Method::CallSafe && declared)
                }
            };
            if !safe && asked.method != Method::Initialize {
                return Err(format!("4: {:?} was repeated", asked.method));
            }
        }
        // What the host believes to have, the server has been told first.
        if self.greeted && asked.method != Method::Initialize {
            let told = server.greeted
                && (server.initialized || !self.initialized)
                && (server.level || !self.level)
                && self.subscribed.is_subset(&server.subscribed);
            if !told && server.generation != Generation::FIRST {
                return Err(format!(
                    "9: {} was sent before the session was restored",
                    asked.id
                ));
            }
        }
        Ok(())
    }

    /// What must hold after every step.
    fn check(&mut self) -> Result<(), Broken> {
        if self.session.state() != &self.state {
            return Err(format!("5: {:?} is not published", self.session.state()));
        }
        if let State::Ready { generation } = self.session.state() {
            let live = |s: &Server| s.generation == *generation && s.up && !s.dead;
            if !self.server.as_ref().is_some_and(live) {
                return Err(format!("5: Ready for {generation}, which is dead"));
            }
        }
        if let Some(deadline) = self.session.deadline()
            && deadline <= self.now
        {
            return Err(format!(
                "3: a timer of {deadline:?} is overdue at {:?}",
                self.now
            ));
        }
        if let Some((uri, _)) = self.updated.first_key_value()
            && !self.closed
        {
            return Err(format!("9: no update of {uri} after a restart"));
        }
        let (sizes, limits) = (self.session.sizes(), &self.policy.limits);
        let listens = self
            .asked
            .iter()
            .filter(|a| a.open && a.method == Method::Listen)
            .count();
        let bounds = [
            ("ledger", sizes.ledger.0, limits.in_flight + 2 * limits.held),
            ("queue", sizes.queue, limits.in_flight + 3 * limits.held),
            ("tombstones", sizes.tombstones, limits.tombstones),
            ("asks", sizes.asks, limits.asks),
            ("own", sizes.own, 8 + limits.subscriptions),
            ("subscriptions", sizes.subscriptions, limits.subscriptions),
            (
                "held bytes",
                sizes.held.1 + sizes.note_bytes,
                (limits.in_flight + 3 * limits.held) * limits.message,
            ),
            // What was in flight may come back to what is held, but new requests may not.
            (
                "held",
                sizes.held.0,
                limits.in_flight + 2 * limits.held + listens,
            ),
        ];
        for (what, size, limit) in bounds {
            if size > limit {
                return Err(format!("7: {what}: {size} > {limit}"));
            }
        }
        // A host that has left is owed nothing once the time to finish is over.
        let awaited = self
            .asked
            .iter()
            .any(|a| a.open && a.method != Method::Listen);
        let over = !awaited || self.stop_asked || self.now - self.left >= self.policy.drain;
        if self.host_closed && over && sizes.ledger.0 == 0 {
            self.open.clear();
            self.asked.iter_mut().for_each(|a| a.open = false);
        }
        let open = self.asked.iter().filter(|a| a.open).count();
        if sizes.ledger.0 != open {
            return Err(format!(
                "1: the ledger has {} requests, the host waits for {open}",
                sizes.ledger.0
            ));
        }
        Ok(())
    }

    /// No server will ever come again: everything must be settled within its bound all the same.
    pub fn end_dead(&mut self) -> Result<(), Broken> {
        self.die(
            0,
            |sent| LinkInput::Exited {
                exit: Exit::Code(1),
                sent,
            },
            true,
        )?;
        let from = self.now;
        for _ in 0..400 {
            self.unmade()?;
            self.old_exit()?;
            if self
                .asked
                .iter()
                .all(|a| !a.open || a.method == Method::Listen)
            {
                return Ok(());
            }
            self.tick()?;
        }
        let left = self
            .asked
            .iter()
            .find(|a| a.open && a.method != Method::Listen);
        Err(format!(
            "3: {left:?} still waits after {:?}",
            self.now - from
        ))
    }

    /// A healthy server answers all: everything must be answered, and what changed be told.
    pub fn end_well(&mut self) -> Result<(), Broken> {
        self.step(Step::HostBlocked(false))?;
        for _ in 0..400 {
            self.up()?;
            self.old_exit()?;
            self.step(Step::AnswerAll)?;
            let idle = self
                .live()
                .is_some_and(|s| s.todo.iter().all(|t| t.method == "subscriptions/listen"));
            let settled = self
                .asked
                .iter()
                .all(|a| !a.open || a.method == Method::Listen);
            if settled && (idle || self.closed) {
                break;
            }
            if self.live().is_some_and(|s| s.dead) {
                self.die(
                    0,
                    |sent| LinkInput::Exited {
                        exit: Exit::Code(1),
                        sent,
                    },
                    true,
                )?;
            }
            self.tick()?;
        }
        if let Some(left) = self
            .asked
            .iter()
            .find(|a| a.open && a.method != Method::Listen)
        {
            return Err(format!("3: {left:?} still waits for a healthy server"));
        }
        let Some(server) = self.server.as_ref().filter(|s| s.up && !s.dead) else {
            return Ok(());
        };
        let version = World::tools_version(server.generation);
        if self.greeted
            && !self.modern
            && server.greeted
            && server.listed
            && self.seen_tools.is_some_and(|seen| seen != version)
            && !self.told_changed
        {
            return Err("9: the tools changed and the host was not told".into());
        }
        Ok(())
    }

    /// The session is stopped: everything is settled within a bound and nothing is left behind.
    pub fn end_stop(&mut self) -> Result<(), Broken> {
        self.step(Step::Stop)?;
        let from = self.now;
        for _ in 0..60 {
            if self.closed {
                break;
            }
            self.tick()?;
        }
        if !self.closed {
            return Err("10: stop does not end".into());
        }
        let policy = &self.policy;
        let bound = policy.drain + policy.stop_grace + policy.term_grace + Duration::from_secs(3);
        if self.now - from > bound {
            return Err(format!("10: stop took {:?}", self.now - from));
        }
        match self.asked.iter().find(|a| a.open) {
            Some(left) => Err(format!("10: {left:?} was never settled")),
            None => Ok(()),
        }
    }
}

fn cancel_line(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
}

fn pick<T>(items: &[T], n: u8) -> Option<&T> {
    match items.is_empty() {
        true => None,
        false => items.get(items.len() - 1 - usize::from(n) % items.len()),
    }
}
