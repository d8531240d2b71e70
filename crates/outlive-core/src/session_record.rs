//! What a successor must know of the session of a legacy client over HTTP, in parts that are written one by one.
//!
//! # Theory
//!
//! Whoever answers for a session may end without a word. What the client could tell apart is kept before it can rely on
//! it: what it has said that a server must be told again ([`Record`]), the requests it was promised a stream for
//! ([`OpenRequests`]), and what was sent on those streams. A store keeps them as [parts](Part): bytes under a name. A
//! part is written and taken away as a whole, and those that belong together at once.
//!
//! - **Nothing that passes promptly is a part.** See [`replay_buffer`](crate::replay_buffer) for what is recorded.
//! - **A part has a version.** One that is not known is refused, not guessed at, and stays as it is.
//! - **A record is bounded** by what a session may have: subscriptions, and the bounds of the replay buffer.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use crate::message::{Id, Kind, Message};
use crate::replay_buffer::{Change, KeptChannel};
use crate::server::Channel;
use crate::snapshot::ResumeError;
use crate::snapshot::codec::{Read, Reader, Writer, seal, unseal};
use crate::time::Time;

const HEAD: &[u8] = b"outlive-session";
const OPEN: &[u8] = b"outlive-open";
const VERSION: u8 = 1;

/// Subscriptions that are kept.
const MOST_SUBSCRIPTIONS: usize = 1024;
/// A longer request to subscribe is not kept.
const LONGEST_SUBSCRIPTION: usize = 16 << 10;

/// Channels and events have lower numbers: whoever goes on counts from the highest there is.
const MOST_NUMBERED: u64 = 1 << 53;

/// The name of a part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The [`Record`].
    Head,
    /// The [`OpenRequests`] of a channel.
    Open(Channel),
    /// An event of a channel, by its number: the bytes of a message.
    Event(Channel, u64),
    /// Everything has been sent on a channel.
    End(Channel),
}

impl Part {
    /// Reads a name as it is [written](fmt::Display).
    pub fn read(name: &str) -> Option<Part> {
        let mut words = name.split('/');
        let kind = words.next()?;
        let mut number = || words.next()?.parse().ok();
        let part = match kind {
            "head" => Part::Head,
            "open" => Part::Open(Channel(number()?)),
            "event" => Part::Event(Channel(number()?), number()?),
            "end" => Part::End(Channel(number()?)),
            _ => return None,
        };
        words.next().is_none().then_some(part)
    }
}

impl Part {
    /// Whether somebody can have given its numbers.
    fn is_sensible(self) -> bool {
        let is_number = |n: u64| n < MOST_NUMBERED;
        match self {
            Part::Head => true,
            Part::Open(channel) | Part::End(channel) => is_number(channel.0),
            Part::Event(channel, number) => is_number(channel.0) && is_number(number),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Head => f.write_str("head"),
            Part::Open(channel) => write!(f, "open/{}", channel.0),
            Part::Event(channel, number) => write!(f, "event/{}/{number}", channel.0),
            Part::End(channel) => write!(f, "end/{}", channel.0),
        }
    }
}

/// A part that is written, or taken away.
pub type Write = (Part, Option<Bytes>);

/// What a change of a replay buffer means to a store. The end of a channel settles its requests in the same write.
pub fn writes(change: Change<Message>, into: &mut Vec<Write>) {
    match change {
        Change::Event(channel, number, message) => {
            into.push((Part::Event(channel, number), Some(message.into_bytes())));
        }
        Change::Ended(channel) => {
            into.push((Part::End(channel), Some(Bytes::new())));
            into.push((Part::Open(channel), None));
        }
        Change::Forgotten(channel, number) => into.push((Part::Event(channel, number), None)),
        Change::Dropped(channel, events) => {
            into.extend(events.map(|number| (Part::Event(channel, number), None)));
            into.push((Part::End(channel), None));
            into.push((Part::Open(channel), None));
        }
    }
}

/// What a client has said that the next server must be told, and whose the session is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it was opened.
    pub endpoint: Box<str>,
    /// Its `initialize`.
    pub initialize: Message,
    /// The version that was agreed on.
    pub version: Option<String>,
    /// Its `notifications/initialized`.
    pub initialized: Option<Message>,
    /// Its last `logging/setLevel`.
    pub level: Option<Message>,
    /// Its `resources/subscribe` requests, by URI.
    pub subscriptions: BTreeMap<String, Message>,
}

impl Record {
    /// The record of a client that has begun with this message at this endpoint, and got this answer.
    pub fn new(endpoint: &str, initialize: Message, answer: &Message) -> Record {
        Record {
            endpoint: endpoint.into(),
            initialize,
            version: answer.result().and_then(version_of),
            initialized: None,
            level: None,
            subscriptions: BTreeMap::new(),
        }
    }

    /// The client says this. What it asks for is noted before it is known whether it gets it: a server that has refused
    /// it once refuses it again. True if the record has changed by it, and is to be written before it is handed on.
    pub fn note(&mut self, said: &Message) -> bool {
        match (said.kind(), said.method()) {
            (Kind::Notification, "notifications/initialized") => {
                let is_new = self.initialized.as_ref() != Some(said);
                self.initialized = Some(said.clone());
                is_new
            }
            (Kind::Request, "logging/setLevel") => {
                self.level = Some(said.clone());
                true
            }
            (Kind::Request, "resources/subscribe") => match said.uri() {
                Some(uri)
                    if said.bytes().len() <= LONGEST_SUBSCRIPTION
                        && self.subscriptions.len() < MOST_SUBSCRIPTIONS =>
                {
                    self.subscriptions.insert(uri.into_owned(), said.clone());
                    true
                }
                _ => false,
            },
            (Kind::Request, "resources/unsubscribe") => {
                let uri = said.uri().unwrap_or_default();
                self.subscriptions.remove(&*uri).is_some()
            }
            _ => false,
        }
    }

    /// The record as bytes.
    pub fn encode(&self) -> Bytes {
        let write = |out: &mut Writer| {
            out.text(&self.endpoint);
            out.message(&self.initialize);
            out.maybe(self.version.as_deref(), Writer::text);
            out.maybe(self.initialized.as_ref(), Writer::message);
            out.maybe(self.level.as_ref(), Writer::message);
            out.all(self.subscriptions.values(), Writer::message);
        };
        seal(HEAD, VERSION, Time::ZERO, write).into()
    }

    /// Reads what [`encode`](Record::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Record, ResumeError> {
        unseal(HEAD, VERSION, bytes, |from| {
            let endpoint = from.text("its endpoint")?.into();
            let initialize = from.message_of(Kind::Request, "initialize", "its handshake")?;
            let version = from.maybe("its version", |from| from.text("its version"))?;
            let initialized = from.maybe("its handshake", |from| {
                let method = "notifications/initialized";
                from.message_of(Kind::Notification, method, "its handshake")
            })?;
            let level = from.maybe("its log level", |from| {
                from.message_of(Kind::Request, "logging/setLevel", "its log level")
            })?;
            let subscriptions = from.all("a subscription", |from| {
                let method = "resources/subscribe";
                let it = from.message_of(Kind::Request, method, "a subscription")?;
                let uri = it.uri().map(|uri| uri.into_owned());
                Ok((uri.ok_or(ResumeError::Malformed("a subscription"))?, it))
            })?;
            Ok(Record {
                endpoint,
                initialize,
                version,
                initialized,
                level,
                subscriptions: subscriptions.into_iter().collect(),
            })
        })
    }
}

/// The protocol version that a result of `initialize` agrees on.
pub(crate) fn version_of(result: &[u8]) -> Option<String> {
    crate::memory::Welcome::read(result).version
}

/// The requests of one exchange that its client was promised a stream for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRequests {
    /// Several only in a batch of 2025-03-26.
    pub requests: Vec<Message>,
    /// How many owners have had them and ended.
    pub deaths: u32,
}

impl OpenRequests {
    /// The requests as bytes.
    pub fn encode(&self) -> Bytes {
        let write = |out: &mut Writer| {
            out.number(self.deaths.into());
            out.all(self.requests.iter(), Writer::message);
        };
        seal(OPEN, VERSION, Time::ZERO, write).into()
    }

    /// Reads what [`encode`](OpenRequests::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<OpenRequests, ResumeError> {
        unseal(OPEN, VERSION, bytes, |from: &mut Reader| -> Read<_> {
            Ok(OpenRequests {
                deaths: from.few("the tries of a request")?,
                requests: from.all("a request", |from| from.message(Kind::Request, "a request"))?,
            })
        })
    }
}

/// A session as a store has kept it.
#[derive(Clone, Debug)]
pub struct KeptSession {
    /// What its client has said.
    pub record: Record,
    /// What was sent to it.
    pub channels: Vec<KeptChannel<Message>>,
    /// What it waits for, by channel: what was answered is not among it.
    pub open: BTreeMap<Channel, OpenRequests>,
}

impl KeptSession {
    /// Reads the parts that a store has kept.
    pub fn read(
        parts: impl IntoIterator<Item = (Part, Bytes)>,
    ) -> Result<KeptSession, ResumeError> {
        let (mut head, mut open) = (None, BTreeMap::new());
        let mut events: BTreeMap<Channel, BTreeMap<u64, Message>> = BTreeMap::new();
        let mut ended = Vec::new();
        for (part, bytes) in parts {
            if !part.is_sensible() {
                return Err(ResumeError::Malformed("the number of a channel or event"));
            }
            match part {
                Part::Head => head = Some(Record::decode(&bytes)?),
                Part::Open(channel) => {
                    open.insert(channel, OpenRequests::decode(&bytes)?);
                    events.entry(channel).or_default();
                }
                Part::Event(channel, number) => {
                    let message = Message::read(bytes);
                    let message = message.map_err(|_| ResumeError::Malformed("an event"))?;
                    events.entry(channel).or_default().insert(number, message);
                }
                Part::End(channel) => ended.push(channel),
            }
        }
        let record = head.ok_or(ResumeError::Malformed("its head"))?;
        for channel in &ended {
            open.remove(channel);
        }
        for (channel, open) in &mut open {
            let sent = events.get(channel);
            let answers = sent.into_iter().flat_map(BTreeMap::values);
            let answered: Vec<&Id> = answers
                .filter(|it| it.kind() == Kind::Response)
                .filter_map(Message::id)
                .collect();
            let waits = |it: &Message| it.id().is_none_or(|id| !answered.contains(&id));
            open.requests.retain(waits);
        }
        let channels = events.into_iter().map(|(channel, events)| KeptChannel {
            channel,
            first: events.keys().next().copied().unwrap_or(1),
            ended: ended.contains(&channel),
            events: unbroken(events),
        });
        Ok(KeptSession {
            channels: channels.collect(),
            record,
            open,
        })
    }

    /// The highest channel that a client may know: the next one is above it.
    pub fn highest_channel(&self) -> u64 {
        let channels = self.channels.iter().map(|it| it.channel.0);
        channels.max().unwrap_or(0)
    }
}

/// The events from the first on, up to a gap. There is none unless a store has lost something.
fn unbroken(events: BTreeMap<u64, Message>) -> Vec<Message> {
    let first = events.keys().next().copied().unwrap_or(1);
    let numbered = (first..).zip(events);
    let unbroken = numbered.take_while(|(expected, (number, _))| expected == number);
    unbroken.map(|(_, (_, message))| message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(json: &str) -> Message {
        Message::read(Bytes::copy_from_slice(json.as_bytes())).expect("a message")
    }

    fn record() -> Record {
        let initialize = message(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#);
        let answer =
            message(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#);
        Record::new("/mcp", initialize, &answer)
    }

    fn request(id: u32, method: &str, params: &str) -> Message {
        let id = id.to_string();
        Message::request(id.as_bytes(), method, params.as_bytes())
    }

    #[test]
    fn a_part_is_read_by_the_name_it_has() {
        for part in [
            Part::Head,
            Part::Open(Channel(7)),
            Part::Event(Channel(0), 12),
            Part::End(Channel(u64::MAX)),
        ] {
            assert_eq!(Part::read(&part.to_string()), Some(part));
        }
        for name in [
            "",
            "heads",
            "head/1",
            "open",
            "open/x",
            "event/1",
            "end/1/2",
            "event/1/2/3",
        ] {
            assert_eq!(Part::read(name), None, "{name}");
        }
    }

    #[test]
    fn what_a_server_must_be_told_again_is_noted_and_nothing_else() {
        let mut record = record();
        let initialized = Message::notification("notifications/initialized", b"");
        assert!(record.note(&initialized));
        assert!(!record.note(&initialized));
        let level = request(1, "logging/setLevel", r#"{"level":"info"}"#);
        assert!(record.note(&level));
        let subscribe = request(2, "resources/subscribe", r#"{"uri":"x://a"}"#);
        assert!(record.note(&subscribe));
        assert!(!record.note(&request(4, "tools/list", "{}")));
        let call = request(5, "tools/call", r#"{"name":"echo"}"#);
        assert!(!record.note(&call));
        assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
        let unsubscribe = request(6, "resources/unsubscribe", r#"{"uri":"x://a"}"#);
        assert!(record.note(&unsubscribe));
        assert!(!record.note(&unsubscribe));
        assert!(record.subscriptions.is_empty());
    }

    #[test]
    fn subscriptions_are_bounded_in_number_and_size() {
        let subscribe = |uri: &str| {
            let params = format!(r#"{{"uri":"{uri}"}}"#);
            request(2, "resources/subscribe", &params)
        };
        let mut record = record();
        let short = subscribe("").bytes().len();
        let longest = "x".repeat(LONGEST_SUBSCRIPTION - short);
        assert!(record.note(&subscribe(&longest)));
        assert!(!record.note(&subscribe(&format!("{longest}x"))));
        for n in 1..MOST_SUBSCRIPTIONS {
            assert!(record.note(&subscribe(&n.to_string())), "{n}");
        }
        assert!(!record.note(&subscribe("one more")));
        assert_eq!(record.subscriptions.len(), MOST_SUBSCRIPTIONS);
    }

    #[test]
    fn what_follows_a_gap_is_not_kept_and_a_question_is_no_answer() {
        let event = |n: u64| Message::notification("x", format!(r#"{{"n":{n}}}"#).as_bytes());
        let open = OpenRequests {
            requests: vec![request(1, "tools/call", "{}")],
            deaths: 0,
        };
        let part = |n: u64, message: Message| (Part::Event(Channel(4), n), message.into_bytes());
        let kept = KeptSession::read([
            (Part::Head, record().encode()),
            (Part::Open(Channel(4)), open.encode()),
            part(2, event(2)),
            part(3, request(1, "roots/list", "{}")),
            part(5, event(5)),
        ]);
        let kept = kept.expect("a session");
        let channel = &kept.channels[0];
        assert_eq!((channel.first, channel.events.len()), (2, 2));
        assert_eq!(kept.open[&Channel(4)].requests.len(), 1);
    }

    #[test]
    fn a_later_version_is_refused_and_damage_is_found() {
        let mut bytes = record().encode().to_vec();
        bytes[HEAD.len()] = 9;
        assert_eq!(Record::decode(&bytes), Err(ResumeError::UnknownVersion(9)));
        let mut bytes = record().encode().to_vec();
        bytes[HEAD.len() + 9] ^= 1;
        assert_eq!(Record::decode(&bytes), Err(ResumeError::Damaged));
        assert_eq!(Record::decode(b"other"), Err(ResumeError::NotASnapshot));
    }

    #[test]
    fn numbers_that_nobody_can_have_given_are_refused() {
        let read = |part: Part, bytes: Bytes| {
            let head = (Part::Head, record().encode());
            KeptSession::read([head, (part, bytes)]).map(|it| it.highest_channel())
        };
        let event = || Message::notification("x", b"").into_bytes();
        let open = || {
            let requests = vec![request(1, "tools/call", "{}")];
            OpenRequests {
                requests,
                deaths: 0,
            }
            .encode()
        };
        let last = MOST_NUMBERED - 1;
        assert_eq!(read(Part::Event(Channel(last), last), event()), Ok(last));
        assert_eq!(read(Part::Open(Channel(last)), open()), Ok(last));
        for number in [MOST_NUMBERED, u64::MAX] {
            for (part, bytes) in [
                (Part::Event(Channel(number), 1), event()),
                (Part::Event(Channel(1), number), event()),
                (Part::Open(Channel(number)), open()),
                (Part::End(Channel(number)), Bytes::new()),
            ] {
                let refused = read(part, bytes).expect_err("refused");
                assert!(matches!(refused, ResumeError::Malformed(_)), "{part}");
            }
        }
    }

    #[test]
    fn what_was_answered_is_not_open() {
        let open = OpenRequests {
            requests: vec![
                request(1, "tools/call", "{}"),
                request(2, "tools/call", "{}"),
            ],
            deaths: 1,
        };
        let parts = |more: Vec<(Part, Bytes)>| {
            let head = (Part::Head, record().encode());
            let of = |n: u64| (Part::Open(Channel(n)), open.encode());
            let parts = [head, of(4), of(5)].into_iter().chain(more);
            KeptSession::read(parts).expect("a session")
        };
        let answer = Message::response(b"2", b"{}").into_bytes();
        let kept = parts(vec![
            (Part::Event(Channel(4), 3), answer),
            (Part::End(Channel(5)), Bytes::new()),
        ]);
        assert_eq!(kept.open.len(), 1);
        assert_eq!(kept.open[&Channel(4)].requests, open.requests[..1]);
        assert_eq!(kept.highest_channel(), 5);
        let first: Vec<u64> = kept.channels.iter().map(|it| it.first).collect();
        assert_eq!(first, [3, 1]);
        assert!(kept.channels[1].ended && !kept.channels[0].ended);
    }
}
