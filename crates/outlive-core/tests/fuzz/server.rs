//! Arbitrary bytes as a schedule of everything that can happen to a server.
//!
//! Whatever the client, the handlers and the driver do, also what they never should: no panic, no
//! answer that was not asked for, no line that is no message, no timer that is due for ever, and an
//! end that is reached and final.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use outlive_core::framer::TooLong;
use outlive_core::message::Kind;
use outlive_core::protocol::List;
use outlive_core::server::{
    Answer, Ask, AskId, Channel, CloseKind, Input, Level, Output, RpcError, Server, ServerPolicy,
    Ticket,
};
use outlive_core::{Frame, Id, Message, Time};

use crate::bytes::Schedule;

pub fn run(data: &[u8]) {
    let mut world = World::new(Schedule(data));
    while !world.schedule.0.is_empty() && !world.closed {
        world.step();
    }
    world.end();
}

struct World<'a> {
    schedule: Schedule<'a>,
    server: Server,
    now: Time,
    /// How often the client has sent something under this id, less the answers it got.
    owed: HashMap<Id, u32>,
    /// Handlers that were started and not dropped; answered ones stay, to answer again.
    tickets: Vec<Ticket>,
    /// Questions that have not ended.
    asked: HashMap<u64, bool>,
    next_ask: u64,
    /// The newest state the client was given.
    state: String,
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
    "\"outlive-ask-1\"",
];

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}},"progressToken":1}"#;

const REQUESTS: &[(&str, &str)] = &[
    (
        "initialize",
        r#""protocolVersion":"2025-11-25","capabilities":{"roots":{}}"#,
    ),
    ("tools/call", r#""name":"a","_meta":{"progressToken":1}"#),
    ("tools/call", r#""name":"a",META"#),
    (
        "tools/call",
        r#""name":"a","requestState":STATE,"inputResponses":{"ask-1":{}},META"#,
    ),
    ("tools/call", r#""name":"a","requestState":STATE,META"#),
    ("tools/list", "META"),
    ("ping", ""),
    ("server/discover", "META"),
    (
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["u"]},META"#,
    ),
    ("resources/subscribe", r#""uri":"u""#),
    ("resources/unsubscribe", r#""uri":"u""#),
    ("logging/setLevel", r#""level":"debug""#),
    ("unheard/of", ""),
];

impl<'a> World<'a> {
    fn new(mut schedule: Schedule<'a>) -> World<'a> {
        let second = Duration::from_secs(1);
        let policy = ServerPolicy {
            capabilities: Bytes::from_static(
                br#"{"logging":{},"resources":{"subscribe":true},"tools":{"listChanged":true}}"#,
            ),
            methods: ["tools/call", "tools/list"].map(Into::into).into(),
            concurrency: 2,
            queue: 2,
            queue_bytes: schedule.pick(&[300, 1 << 20]),
            running_bytes: schedule.pick(&[300, 1 << 20]),
            asks: 2,
            subscriptions: 2,
            tombstones: 2,
            parked: 1,
            deadline: schedule.pick(&[None, Some(second)]),
            ask_timeout: schedule.pick(&[None, Some(second)]),
            ..ServerPolicy::default()
        };
        World {
            server: Server::new(policy, [7; 16]),
            schedule,
            now: Time::ZERO,
            owed: HashMap::new(),
            tickets: Vec::new(),
            asked: HashMap::new(),
            next_ask: 0,
            state: "x".into(),
            closed: false,
        }
    }

    fn step(&mut self) {
        match self.schedule.below(16) {
            0 => {
                let frame = self.raw_line();
                self.client(frame);
            }
            1..=4 => {
                let line = self.request();
                self.client(Frame::read(line.into()));
            }
            5 => {
                let id = self.schedule.pick(IDS);
                let line = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                );
                self.client(Frame::read(line.into()));
            }
            6 => {
                let id = self.schedule.below(8);
                let line = format!(r#"{{"jsonrpc":"2.0","id":"outlive-ask-{id}","result":{{}}}}"#);
                self.client(Frame::read(line.into()));
            }
            7 | 8 => {
                let Some(ticket) = self.ticket() else { return };
                let answer = match self.schedule.below(4) {
                    0 => Answer::Error(RpcError::new(-1, "no")),
                    1 => Answer::Dropped,
                    2 => Answer::Panicked("ouch".into()),
                    _ => Answer::Result(Bytes::from_static(b"{\n}")),
                };
                self.handle(Input::Answer(ticket, answer));
            }
            9 => self.ask(),
            10 => {
                let id = self.schedule.below(8) as u64;
                self.asked.insert(id, false);
                self.handle(Input::Unask(AskId(id)));
            }
            11 => self.notice(),
            12 => {
                let wait = self.schedule.pick(&[0, 1, 100, 1_000, 10_000, 100_000]);
                self.now = self.now + Duration::from_millis(wait);
                self.handle(Input::Tick);
            }
            13 | 14 => self.tick(),
            _ => {
                let input = match self.schedule.below(6) {
                    0 => Input::Closed(CloseKind::Eof),
                    1 => Input::Closed(CloseKind::BrokenPipe),
                    2 => Input::Shutdown,
                    3 => Input::Updated { uri: "u".into() },
                    _ => Input::Changed(List::Tools),
                };
                self.handle(input);
            }
        }
    }

    fn ticket(&mut self) -> Option<Ticket> {
        let n = self.schedule.below(self.tickets.len().max(1));
        self.tickets.get(n).copied()
    }

    fn request(&mut self) -> String {
        let id = self.schedule.pick(IDS);
        let (method, params) = self.schedule.pick(REQUESTS);
        let state = format!("{:?}", self.state);
        let params = params.replace("META", META).replace("STATE", &state);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
    }

    fn ask(&mut self) {
        let within = match self.schedule.below(4) {
            0 => None,
            _ => self.ticket(),
        };
        let count = 1 + self.schedule.below(2);
        let mut asks = Vec::new();
        for _ in 0..count {
            let id = self.next_ask;
            self.next_ask += 1;
            self.asked.insert(id, true);
            asks.push(Ask {
                id: AskId(id),
                method: self.schedule.pick(&["roots/list", "ping"]).into(),
                params: Bytes::new(),
                key: self.schedule.pick(&[None, Some("k")]).map(Into::into),
            });
        }
        self.handle(Input::Ask { within, asks });
    }

    fn notice(&mut self) {
        let within = self.ticket();
        let input = match (self.schedule.below(3), within) {
            (0, Some(ticket)) => Input::Progress {
                ticket,
                progress: f64::from(self.schedule.byte()),
                total: self.schedule.pick(&[None, Some(f64::NAN), Some(2.5)]),
                message: None,
            },
            (1, within) => Input::Log {
                within,
                level: self.schedule.pick(&Level::ALL),
                logger: None,
                data: Bytes::from_static(b"\"x\""),
            },
            (_, within) => Input::Notify {
                within,
                method: "notifications/x".into(),
                params: Bytes::from_static(b"{}"),
            },
        };
        self.handle(input);
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
        let bytes = self.schedule.bytes();
        let line: Vec<u8> = bytes.iter().copied().filter(|b| *b != b'\n').collect();
        match line.is_empty() {
            true => Frame::read("?".into()),
            false => Frame::read(line.into()),
        }
    }

    fn client(&mut self, frame: Frame) {
        self.expect_answers(&frame);
        self.handle(Input::Frame(Channel::MAIN, frame));
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

    /// Lets the next timer fire. It must not be due again at once for ever.
    fn tick(&mut self) {
        for _ in 0..50 {
            match self.server.deadline() {
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
        self.server.handle(self.now, input);
        while let Some(output) = self.server.poll() {
            assert!(!self.closed, "after the end: {output:?}");
            match output {
                Output::Send(_, message) => self.reaches_client(&message),
                Output::Start(ticket, _) => self.tickets.push(ticket),
                Output::Drop(ticket) => self.tickets.retain(|known| *known != ticket),
                Output::Cancel(ticket, reason) => {
                    assert!(self.tickets.contains(&ticket), "{reason}");
                }
                Output::Asked(id, _) => {
                    assert_eq!(
                        self.asked.insert(id.0, false),
                        Some(true),
                        "{id:?} ended twice"
                    );
                }
                Output::Event(event) => {
                    let _ = (event.to_string(), event.to_json());
                }
                Output::Notified(_) | Output::Done(_) => {}
                Output::Closed => self.closed = true,
            }
        }
        let _ = self.server.wants_input();
    }

    /// What leaves the server is one message on one line.
    fn reaches_client(&mut self, sent: &Message) {
        assert!(!sent.bytes().contains(&b'\n'));
        let message = Message::read(sent.bytes().clone()).expect("a message");
        assert_eq!(
            (sent.kind(), sent.id(), sent.method()),
            (message.kind(), message.id(), message.method())
        );
        let Some(id) = message.id().filter(|_| message.kind() == Kind::Response) else {
            return;
        };
        let owed = self.owed.get_mut(id).filter(|n| **n > 0);
        *owed.unwrap_or_else(|| panic!("nobody asked: {message:?}")) -= 1;
        let result: serde_json::Value =
            serde_json::from_slice(message.result().unwrap_or(b"null")).expect("JSON");
        if let Some(state) = result["requestState"].as_str() {
            self.state = state.into();
        }
    }

    /// A server that is told to end twice does so at once.
    fn end(&mut self) {
        self.handle(Input::Shutdown);
        self.handle(Input::Shutdown);
        assert!(self.closed, "it does not end");
        assert_eq!(self.server.deadline(), None);
        assert!(!self.server.wants_input());
        self.handle(Input::Tick);
        self.handle(Input::Changed(List::Tools));
    }
}
