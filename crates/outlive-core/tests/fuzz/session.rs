//! Arbitrary bytes as a schedule of everything that can happen to a session.
//!
//! Whatever the host, the servers and the driver do, also what they never should: no panic, no
//! answer that was not asked for, no line that is no message, no timer that is due for ever, and an
//! end that is reached and final.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use outlive_core::cause::{Exit, StartFailure};
use outlive_core::framer::TooLong;
use outlive_core::message::Kind;
use outlive_core::policy::{Cancel, Retry};
use outlive_core::{
    Frame, Generation, Id, Input, LinkInput, Message, Output, Policy, Session, Time,
};

use crate::bytes::Schedule;

pub fn run(data: &[u8]) {
    let mut world = World::new(Schedule(data));
    world.handle(Input::Start);
    while !world.schedule.0.is_empty() && !world.closed {
        world.step();
    }
    world.end();
}

struct World<'a> {
    schedule: Schedule<'a>,
    session: Session,
    now: Time,
    /// How often the host has sent something under this id, less the answers it got.
    owed: HashMap<Id, u32>,
    /// Requests written to the newest link: id as written and method.
    asked: VecDeque<(Bytes, String)>,
    /// Requests of servers as the host got them.
    shown: VecDeque<Bytes>,
    newest: Option<Generation>,
    closed: bool,
}

const IDS: &[&str] = &[
    "0",
    "1",
    "2",
    "3.0",
    "\"1\"",
    "\"a\"",
    "-7",
    "1.5",
    "\"outlive-1-1\"",
];

const REQUESTS: &[(&str, &str)] = &[
    (
        "initialize",
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"f","version":"1"}}"#,
    ),
    ("tools/list", "{}"),
    ("tools/list", r#"{"cursor":"2"}"#),
    (
        "tools/call",
        r#"{"name":"safe","arguments":{},"_meta":{"progressToken":1}}"#,
    ),
    (
        "tools/call",
        r#"{"name":"unsafe","_meta":{"progressToken":"a"}}"#,
    ),
    ("tools/call", r#"{"name":"safe","task":{"ttl":1}}"#),
    ("resources/subscribe", r#"{"uri":"a:b"}"#),
    ("resources/unsubscribe", r#"{"uri":"a:b"}"#),
    ("resources/read", r#"{"uri":"a:b"}"#),
    ("logging/setLevel", r#"{"level":"info"}"#),
    ("ping", "{}"),
    ("prompts/list", "{}"),
    (
        "server/discover",
        r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
    ),
    (
        "subscriptions/listen",
        r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
    ),
    (
        "tools/call",
        r#"{"name":"safe","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#,
    ),
    ("unheard/of", "[]"),
];

const RESULTS: &[&str] = &[
    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#,
    r#"{"tools":[{"name":"safe","annotations":{"readOnlyHint":true}},{"name":"unsafe"}]}"#,
    r#"{"tools":[{"name":"safe","annotations":{"idempotentHint":false}}],"nextCursor":"2"}"#,
    r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#,
    r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}"#,
    "{}",
    "null",
];

const NOTIFICATIONS: &[(&str, &str)] = &[
    ("notifications/initialized", "{}"),
    (
        "notifications/progress",
        r#"{"progressToken":1,"progress":1}"#,
    ),
    (
        "notifications/progress",
        r#"{"progressToken":"a","progress":1}"#,
    ),
    (
        "notifications/progress",
        r#"{"progressToken":"zz","progress":1}"#,
    ),
    ("notifications/tools/list_changed", "{}"),
    ("notifications/resources/updated", r#"{"uri":"a:b"}"#),
    (
        "notifications/message",
        r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}"#,
    ),
    ("notifications/roots/list_changed", "{}"),
];

const ASKS: &[&str] = &[
    "ping",
    "roots/list",
    "sampling/createMessage",
    "elicitation/create",
];

impl<'a> World<'a> {
    fn new(mut schedule: Schedule<'a>) -> World<'a> {
        let mut policy = Policy::default();
        policy.retry = schedule.pick(&[Retry::Safe, Retry::Never, Retry::Always]);
        policy.cancel = schedule.pick(&[Cancel::Auto, Cancel::Forward, Cancel::Absorb]);
        policy.request_timeout = schedule.pick(&[None, Some(Duration::from_secs(3))]);
        policy.request_ceiling = schedule.pick(&[None, Some(Duration::from_secs(9))]);
        policy.refuse_discover = schedule.pick(&[false, true]);
        policy.limits.in_flight = 8;
        policy.limits.held = 4;
        policy.limits.held_bytes = 800;
        policy.limits.tombstones = 3;
        policy.limits.asks = 3;
        policy.limits.subscriptions = 2;
        policy.breaker.failures = 3;
        World {
            session: Session::new(policy, 7),
            schedule,
            now: Time::ZERO,
            owed: HashMap::new(),
            asked: VecDeque::new(),
            shown: VecDeque::new(),
            newest: None,
            closed: false,
        }
    }

    fn step(&mut self) {
        match self.schedule.below(20) {
            0 => {
                let line = self.raw_line();
                self.host(line);
            }
            1..=4 => {
                let id = self.schedule.pick(IDS);
                let (method, params) = self.schedule.pick(REQUESTS);
                self.host_text(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
                ));
            }
            5 => {
                let id = self.schedule.pick(IDS);
                self.host_text(cancelled(id));
            }
            6 => {
                let line = self.notification();
                self.host_text(line);
            }
            7 => {
                let n = self.schedule.below(self.shown.len().max(1));
                if let Some(id) = self.shown.get(n).cloned() {
                    let line = self.answer(&id);
                    self.host_text(line);
                }
            }
            8 => {
                let line = self.raw_line();
                self.server(line);
            }
            9..=11 => {
                let n = self.schedule.below(self.asked.len().max(1));
                if let Some((id, method)) = self.asked.get(n).cloned() {
                    let line = self.fitting_answer(&id, &method);
                    self.server_text(line);
                }
            }
            12 => {
                let id = self.schedule.pick(IDS);
                let method = self.schedule.pick(ASKS);
                self.server_text(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#
                ));
            }
            13 => {
                let line = match self.schedule.below(3) {
                    0 => cancelled(self.schedule.pick(IDS)),
                    _ => self.notification(),
                };
                self.server_text(line);
            }
            14 => self.link(LinkInput::Up),
            15 => {
                let input = self.accident();
                self.link(input);
            }
            16 => {
                let generation = self.any_generation();
                let input = self.accident();
                self.handle(Input::Link(generation, input));
            }
            17 => {
                let wait = self.schedule.pick(&[0, 1, 100, 1_000, 10_000, 100_000]);
                self.now = self.now + Duration::from_millis(wait);
                self.handle(Input::Tick);
            }
            18 => self.tick(),
            _ => {
                let input = match self.schedule.below(8) {
                    0 => Input::Stop,
                    1 => Input::HostClosed,
                    2 => Input::HostGone,
                    3 => Input::Restart,
                    4 => Input::Start,
                    n => Input::HostBlocked(n == 5),
                };
                self.handle(input);
            }
        }
    }

    /// Something that happens to a link apart from messages.
    fn accident(&mut self) -> LinkInput {
        let sent = self.schedule.pick(&[0, 1, 2, 5, u64::MAX]);
        match self.schedule.below(9) {
            0 => LinkInput::Unmade(StartFailure::NotFound),
            1 => LinkInput::Stderr(String::from_utf8_lossy(self.schedule.bytes()).into_owned()),
            2 => LinkInput::Inspected { stopped: true },
            3 => LinkInput::Inspected { stopped: false },
            4 => LinkInput::Eof { sent },
            5 => LinkInput::WriteFailed {
                error: "broken pipe".into(),
                sent,
            },
            6 => LinkInput::Exited {
                exit: Exit::Code(1),
                sent,
            },
            7 => LinkInput::Exited {
                exit: Exit::Signal(9),
                sent,
            },
            _ => LinkInput::Up,
        }
    }

    fn any_generation(&mut self) -> Generation {
        (0..self.schedule.below(6)).fold(Generation::FIRST, |g, _| g.next())
    }

    /// A line of arbitrary bytes, or word of one that was too long.
    fn raw_line(&mut self) -> Frame {
        if self.schedule.below(6) == 0 {
            let id_json = self.schedule.pick(IDS);
            return Frame::TooLong(TooLong {
                id: Id::read(id_json.as_bytes()),
                id_json: Bytes::from_static(id_json.as_bytes()),
                has_method: self.schedule.pick(&[true, false]),
                len: 1 << 30,
            });
        }
        let line: Vec<u8> = self
            .schedule
            .bytes()
            .iter()
            .copied()
            .filter(|b| *b != b'\n')
            .collect();
        Frame::read(if line.is_empty() {
            "?".into()
        } else {
            line.into()
        })
    }

    fn notification(&mut self) -> String {
        let (method, params) = self.schedule.pick(NOTIFICATIONS);
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
    }

    fn answer(&mut self, id: &[u8]) -> String {
        let id = String::from_utf8_lossy(id);
        match self.schedule.below(RESULTS.len() + 2) {
            n if n < RESULTS.len() => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, RESULTS[n])
            }
            n if n == RESULTS.len() => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no"}}}}"#)
            }
            _ => format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#),
        }
    }

    /// Mostly the result the method asks for: little happens without a handshake.
    fn fitting_answer(&mut self, id: &[u8], method: &str) -> String {
        if self.schedule.below(4) == 0 {
            return self.answer(id);
        }
        let result = match method {
            "initialize" => RESULTS[0],
            "tools/list" => self.schedule.pick(&RESULTS[1..3]),
            "server/discover" => RESULTS[3],
            _ => "{}",
        };
        let id = String::from_utf8_lossy(id);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
    }

    fn host_text(&mut self, line: String) {
        self.host(Frame::read(line.into()));
    }

    fn host(&mut self, frame: Frame) {
        if !self.session.wants_host() {
            return;
        }
        self.expect_answers(&frame);
        self.handle(Input::Host(frame));
    }

    /// Whatever has an id may be answered, once.
    fn expect_answers(&mut self, frame: &Frame) {
        let mut owe = |id: Option<Id>| {
            if let Some(id) = id {
                *self.owed.entry(id).or_default() += 1;
            }
        };
        match frame {
            Frame::TooLong(long) => owe(long.id.clone()),
            Frame::Message(m) if m.kind() == Kind::Request => owe(m.id().cloned()),
            Frame::Message(_) => {}
            Frame::Batch(all) => {
                for read in all {
                    match read {
                        Ok(m) if m.kind() == Kind::Request => owe(m.id().cloned()),
                        Ok(_) => {}
                        Err(defect) => owe(defect.id.clone()),
                    }
                }
            }
            Frame::Defect(defect) => owe(defect.id.clone()),
        }
    }

    fn server_text(&mut self, line: String) {
        self.server(Frame::read(line.into()));
    }

    fn server(&mut self, frame: Frame) {
        self.link(LinkInput::Frame(frame));
    }

    fn link(&mut self, input: LinkInput) {
        if let Some(generation) = self.newest {
            self.handle(Input::Link(generation, input));
        }
    }

    /// Lets the next timer fire. It must not be due again at once for ever.
    fn tick(&mut self) {
        for _ in 0..50 {
            match self.session.deadline() {
                Some(due) if due > self.now => {
                    self.now = due;
                    return self.handle(Input::Tick);
                }
                Some(_) => self.handle(Input::Tick),
                None => return,
            }
        }
        panic!("a timer that is due for ever");
    }

    fn handle(&mut self, input: Input) {
        self.session.handle(self.now, input);
        while let Some(output) = self.session.poll() {
            assert!(!self.closed, "after the end: {output:?}");
            match output {
                Output::ToHost(message) | Output::ToHostOf(_, message) => {
                    self.reaches_host(&message)
                }
                Output::Over(_) | Output::Initialized | Output::Resend { .. } => {}
                Output::Refuse(refusal) => self.reaches_host(&refusal.to_response()),
                Output::ToLink(generation, message) => {
                    assert_eq!(Some(generation), self.newest, "a message to an old link");
                    let message = read(&message);
                    if message.kind() == Kind::Request {
                        let id = Bytes::copy_from_slice(message.id_json());
                        self.asked.push_front((id, message.method().to_owned()));
                        self.asked.truncate(16);
                    }
                }
                Output::Connect(generation) => {
                    let expected = self.newest.map_or(Generation::FIRST, Generation::next);
                    assert_eq!(generation, expected);
                    self.newest = Some(generation);
                    self.asked.clear();
                }
                Output::Link(..) => {}
                Output::Event(event) => {
                    let _ = (event.to_string(), event.to_json(self.now));
                }
                Output::Closed => self.closed = true,
            }
        }
    }

    fn reaches_host(&mut self, message: &Message) {
        let message = read(message);
        match (message.kind(), message.id()) {
            (Kind::Request, _) => {
                self.shown
                    .push_front(Bytes::copy_from_slice(message.id_json()));
                self.shown.truncate(8);
            }
            (Kind::Response, Some(id)) if *id != Id::Null => {
                let owed = self.owed.get_mut(id).filter(|n| **n > 0);
                *owed.unwrap_or_else(|| panic!("nobody asked: {message:?}")) -= 1;
            }
            _ => {}
        }
    }

    /// A session that is told to stop twice ends as soon as its processes have.
    fn end(&mut self) {
        self.handle(Input::Stop);
        self.handle(Input::Stop);
        for _ in 0..200 {
            if self.closed {
                break;
            }
            let mut generation = Generation::FIRST;
            while Some(generation) <= self.newest {
                let exit = Exit::Signal(9);
                self.handle(Input::Link(generation, LinkInput::Exited { exit, sent: 0 }));
                generation = generation.next();
            }
            self.tick();
        }
        assert!(self.closed, "it does not end");
        assert_eq!(self.session.deadline(), None);
        self.handle(Input::Tick);
        self.handle(Input::Restart);
    }
}

/// What leaves the session is one message on one line, and what is known of it is what a reading says.
fn read(sent: &Message) -> Message {
    assert!(!sent.bytes().contains(&b'\n'));
    let message = Message::read(sent.bytes().clone()).expect("a message");
    assert_eq!(
        (sent.kind(), sent.id(), sent.method()),
        (message.kind(), message.id(), message.method())
    );
    message
}

fn cancelled(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
}
