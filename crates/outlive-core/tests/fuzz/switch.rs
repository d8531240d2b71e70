//! Arbitrary bytes as a schedule of everything that can happen to a switch.
//!
//! Whatever clients, the session and the server say, in whichever order: no panic, no answer that its client did not
//! ask for on that channel, nothing on a channel that is done, no id used twice for what the session waits for, bounds
//! on everything, and an end that leaves nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use outlive_core::cause::{Cause, Phase, Reason};
use outlive_core::error::{Error, Outcome, Refusal};
use outlive_core::framer::TooLong;
use outlive_core::message::Kind;
use outlive_core::server::Channel;
use outlive_core::switch::{Client, Input, Output, Sharing, Switch, SwitchLimits};
use outlive_core::{Frame, Generation, Id, Message};

use crate::bytes::Schedule;

const LIMITS: SwitchLimits = SwitchLimits {
    calls: 8,
    bytes: 4 << 10,
    calls_each: 5,
    subscriptions: 3,
    abandoned: 4,
};

pub fn run(data: &[u8]) {
    let mut world = World::new(Schedule(data));
    while !world.schedule.0.is_empty() {
        world.step();
    }
    world.end();
}

const IDS: &[&str] = &["0", "1", "2", "3.0", "\"1\"", "\"a\"", "-7"];

const META: &str =
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1}"#;

const REQUESTS: &[(&str, &str)] = &[
    (
        "initialize",
        r#""protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"f","version":"1"}"#,
    ),
    ("tools/call", r#""name":"a","_meta":{"progressToken":1}"#),
    (
        "tools/call",
        r#""name":"a","task":{"ttl":1},"_meta":{"progressToken":"t"}"#,
    ),
    ("tools/call", r#""name":"a",META"#),
    ("tools/list", ""),
    ("tools/list", "META"),
    ("ping", ""),
    ("server/discover", "META"),
    (
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true},META"#,
    ),
    ("resources/subscribe", r#""uri":"x://u""#),
    ("resources/unsubscribe", r#""uri":"x://u""#),
    ("logging/setLevel", r#""level":"debug""#),
    ("logging/setLevel", r#""level":"error""#),
    ("unheard/of", ""),
];

const RESULTS: &[&str] = &[
    r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}"#,
    r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}"#,
    r#""result":{"task":{"taskId":"t"}}"#,
    r#""result":{}"#,
    r#""error":{"code":-32601,"message":"no"}"#,
    r#""error":{"code":-32022,"message":"no","data":{"supported":["2025-11-25"]}}"#,
];

const SAYINGS: &[&str] = &[
    r#""method":"notifications/progress","params":{"progressToken":1,"progress":1}"#,
    r#""method":"notifications/progress","params":{"progressToken":"t","progress":2}"#,
    r#""method":"notifications/message","params":{"level":"error","data":1}"#,
    r#""method":"notifications/tools/list_changed""#,
    r#""method":"notifications/resources/updated","params":{"uri":"x://u/part"}"#,
    r#""method":"notifications/cancelled","params":{"requestId":1}"#,
    r#""method":"notifications/vendor/thing","params":{}"#,
    r#""id":"s1","method":"roots/list""#,
    r#""id":1,"method":"ping""#,
    r#""id":"s2","method":"sampling/createMessage","params":{}"#,
];

struct World<'a> {
    schedule: Schedule<'a>,
    switch: Switch,
    sharing: Sharing,
    /// The newest channel.
    channels: u64,
    /// What was sent on each channel and not answered: how often each id was.
    owed: BTreeMap<(Client, Channel), HashMap<Id, u32>>,
    done: BTreeSet<Channel>,
    /// Requests the session has.
    calls: Vec<Id>,
    generation: Generation,
    ended: bool,
}

impl<'a> World<'a> {
    fn new(mut schedule: Schedule<'a>) -> World<'a> {
        let sharing = schedule.pick(&[Sharing::Dedicated, Sharing::Shared, Sharing::Pooled]);
        let switch = Switch::new(sharing, LIMITS);
        World {
            switch: match schedule.below(2) {
                0 => switch,
                _ => switch.confirming(),
            },
            schedule,
            sharing,
            channels: 0,
            owed: BTreeMap::new(),
            done: BTreeSet::new(),
            calls: Vec::new(),
            generation: Generation::FIRST,
            ended: false,
        }
    }

    fn client(&mut self) -> Client {
        match self.sharing {
            Sharing::Dedicated => Client(1),
            Sharing::Pooled => Client(0),
            Sharing::Shared => Client(1 + self.schedule.below(3) as u64),
        }
    }

    /// A channel that has been used, or the main one.
    fn used_channel(&mut self) -> Channel {
        Channel(self.schedule.below(self.channels as usize + 1) as u64)
    }

    fn call(&mut self) -> Option<Id> {
        let n = self.schedule.below(self.calls.len().max(1));
        self.calls.get(n).cloned()
    }

    fn step(&mut self) {
        match self.schedule.below(20) {
            0..=5 => {
                let id = self.schedule.pick(IDS);
                let (method, params) = self.schedule.pick(REQUESTS);
                let params = params.replace("META", META);
                self.frame(Frame::read(
                    format!(
                        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#
                    )
                    .into(),
                ));
            }
            6 => {
                let id = self.schedule.pick(IDS);
                let line = match self.schedule.below(3) {
                    0 => r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
                    1 => format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                    ),
                    _ => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#),
                };
                self.frame(Frame::read(line.into()));
            }
            7 => {
                let frame = self.raw_frame();
                self.frame(frame);
            }
            8..=11 => {
                let Some(id) = self.call() else { return };
                let result = self.schedule.pick(RESULTS);
                self.said(&format!(
                    r#"{{"jsonrpc":"2.0","id":{},{result}}}"#,
                    id.to_json()
                ));
            }
            12..=14 => {
                let saying = self.schedule.pick(SAYINGS);
                self.said(&format!(r#"{{"jsonrpc":"2.0",{saying}}}"#));
            }
            15 => {
                let (client, channel) = (self.client(), self.used_channel());
                let input = match self.schedule.below(4) {
                    0 => Input::Withdrawn(client, channel),
                    1 => Input::Gone(client),
                    _ => Input::Left(client, channel),
                };
                self.handle(input);
            }
            16 => {
                let Some(id) = self.call() else { return };
                self.handle(Input::Over(id));
            }
            17 => {
                let lost = self.generation;
                self.generation = lost.next();
                self.handle(Input::Lost(lost));
            }
            18 => self.refuse(),
            _ => match self.schedule.below(16) {
                0 => {
                    self.handle(Input::Ended);
                    self.ended = true;
                }
                _ => self.handle(Input::Initialized),
            },
        }
    }

    /// A client sends a frame, on a channel of its own.
    fn frame(&mut self, frame: Frame) {
        let client = self.client();
        self.channels += 1;
        let channel = Channel(self.channels);
        let owed = self.owed.entry((client, channel)).or_default();
        let mut owe = |id: Option<&Id>| {
            if let Some(id) = id {
                *owed.entry(id.clone()).or_default() += 1;
            }
        };
        match &frame {
            Frame::TooLong(long) => owe(long.id.as_ref()),
            Frame::Message(message) if message.kind() == Kind::Request => owe(message.id()),
            Frame::Message(_) => {}
            Frame::Batch(all) => {
                for read in all {
                    match read {
                        Ok(message) if message.kind() == Kind::Request => owe(message.id()),
                        Ok(_) => {}
                        Err(defect) => owe(defect.id.as_ref()),
                    }
                }
            }
            Frame::Defect(defect) => owe(defect.id.as_ref()),
        }
        self.handle(Input::Frame(client, channel, frame));
    }

    fn raw_frame(&mut self) -> Frame {
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

    /// The session says something, perhaps on the stream of a request.
    fn said(&mut self, line: &str) {
        let message = Message::read(line.to_owned().into()).expect("a message");
        let input = match self.schedule.below(4) {
            0 => Input::SaidOf(self.call(), message),
            1 => Input::SaidOf(None, message),
            _ => Input::Said(message),
        };
        self.handle(input);
    }

    fn refuse(&mut self) {
        let Some(id) = self.call() else { return };
        let cause = Cause::new(Reason::Eof, Phase::Service, "server");
        let error = match self.schedule.below(4) {
            0 => Error::ShuttingDown {
                outcome: Outcome::Unknown,
            },
            1 => Error::SessionExpired,
            2 => Error::ConnectionLost {
                cause,
                outcome: Outcome::Unknown,
                poison: false,
            },
            _ => Error::TokenWithdrawn {
                outcome: Outcome::NotSent,
            },
        };
        let refusal = Refusal {
            id_json: id.to_json().into(),
            what: "the request".into(),
            error,
            generation: self.generation,
        };
        self.handle(Input::Refused(refusal.into()));
    }

    fn handle(&mut self, input: Input) {
        self.switch.handle(input);
        while let Some(output) = self.switch.poll() {
            match output {
                Output::Call(id, message) => {
                    assert!(!self.ended, "a call after the end: {message:?}");
                    assert_eq!(message.id(), Some(&id));
                    self.calls.push(id);
                }
                Output::Cancel(id, ..) => assert!(self.calls.contains(&id), "nobody called {id:?}"),
                Output::Answer(message) => assert_eq!(message.kind(), Kind::Response),
                Output::Notify(_, _, message) => assert_eq!(message.kind(), Kind::Notification),
                Output::Send(client, channel, message)
                | Output::Offer(client, channel, message) => {
                    self.reaches(client, channel, &message);
                }
                Output::Done(_, channel) => {
                    assert!(self.done.insert(channel), "{channel:?} is done twice")
                }
            }
        }
        let sizes = self.switch.sizes();
        assert!(sizes.table.0 <= LIMITS.calls + 2, "{sizes:?}");
        assert!(sizes.subscriptions <= LIMITS.subscriptions, "{sizes:?}");
        assert!(sizes.abandoned <= LIMITS.abandoned, "{sizes:?}");
    }

    /// What a client gets is one message on one line, on a channel that is not done, and an answer is its own.
    fn reaches(&mut self, client: Client, channel: Channel, message: &Message) {
        assert!(!message.bytes().contains(&b'\n'));
        assert!(
            !self.done.contains(&channel),
            "{channel:?} is done: {message:?}"
        );
        let Some(id) = message
            .id()
            .filter(|id| message.kind() == Kind::Response && **id != Id::Null)
        else {
            return;
        };
        let owed = self
            .owed
            .get_mut(&(client, channel))
            .and_then(|ids| ids.get_mut(id));
        let owed = owed.filter(|count| **count > 0);
        *owed.unwrap_or_else(|| panic!("{client:?} has not asked on {channel:?}: {message:?}")) -=
            1;
    }

    /// Without a session nobody waits for anything.
    fn end(&mut self) {
        self.handle(Input::Ended);
        self.ended = true;
        let sizes = self.switch.sizes();
        assert_eq!((sizes.table, sizes.channels, sizes.asks), ((0, 0), 0, 0));
        self.said(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    }
}
