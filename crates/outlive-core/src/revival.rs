//! How the session of a client goes on in another process.
//!
//! # Theory
//!
//! The former owner of a session has ended, and with it its server. What it has left is a
//! [`KeptSession`]. To whatever answers now (a server, several behind a router) a
//! client begins that knows nothing yet. So the client's own words are said again, and then what was open is settled as
//! after the death of a server:
//!
//! | step | what follows |
//! |---|---|
//! | `initialize`, and the answer is waited for | refused, or another version: the session is not revived, and stays kept |
//! | `notifications/initialized`, log level, subscriptions | nobody reads the answers: they were read before |
//! | `tools/list`, if a call depends on it | what cannot be read allows nothing |
//! | open requests, in the order of their channels | sent again if that is safe, else failed with outcome unknown |
//! | what the client may have missed | questions that are void, lists and resources that may have changed, a new server |
//!
//! **A request is sent again only if that is safe**: by its method, or by what the *current* list says of its tool, or
//! because the user said so ([`Retry`]). One that was open at two deaths in a row is not. That it was tried once more
//! is written before it is sent.
//!
//! The driver does what [`Revival::poll`] says, in that order, until it returns `None`; then it waits for the answer to
//! the last [`Output::Ask`]. Nothing else reaches the route before [`Output::Ready`].

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::catalog::{Catalog, Page, Seen};
use crate::cause::{Cause, Phase, Reason};
use crate::error::{Error, Outcome};
use crate::label::Label;
use crate::ledger::in_words;
use crate::link::Generation;
use crate::message::{Kind, Message};
use crate::policy::Retry;
use crate::protocol::{List, method};
use crate::replacement::wants_warnings;
use crate::server::Channel;
use crate::session::POISON;
use crate::session_record::{KeptSession, OpenRequests, Part, Record, Write, version_of};

/// A server that has more pages of tools than this is not asked for the rest.
const MOST_PAGES: u32 = 1000;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Hand this request to the route on a channel that the client does not know, and give its answer back.
    Ask(Message),
    /// Hand this to the route; nobody reads the answer.
    Say(Message),
    /// Write this, and wait for it.
    Write(Vec<Write>),
    /// Hand this request of the client to the route, on its channel.
    Hear(Channel, Message),
    /// Send this to the client.
    Send(Channel, Message),
    /// Everything has been sent on this channel.
    Done(Channel),
    /// Everything that the client sends is handed on from now on. Nothing follows.
    Ready,
    /// There is no server for the session now. What the client has sent since is answered with this error, a JSON
    /// object. The session stays kept, and the next request tries again. Nothing follows.
    Failed(Box<[u8]>),
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handshake,
    Tools { pages: u32 },
    Over,
}

/// A session that goes on. See the [module](self).
#[derive(Debug)]
pub struct Revival {
    record: Record,
    /// What the client waits for.
    open: Vec<(Channel, OpenRequests)>,
    /// What the former server has asked, by the ids the client knows, and where.
    asks: Vec<(Channel, Message)>,
    retry: Retry,
    label: Label,
    /// The lists that the server offers.
    offered: Vec<List>,
    catalog: Catalog,
    stage: Stage,
    own: u64,
    out: VecDeque<Output>,
}

impl Revival {
    /// Begins. `label` is what the server is called in sentences.
    pub fn new(kept: &KeptSession, retry: Retry, label: impl Into<Label>) -> Revival {
        let asks = kept.channels.iter().filter(|it| !it.ended).flat_map(|it| {
            let asks = it.events.iter().filter(|it| it.kind() == Kind::Request);
            asks.map(|ask| (it.channel, ask.clone()))
        });
        let mut revival = Revival {
            record: kept.record.clone(),
            asks: asks.collect(),
            open: kept.open.clone().into_iter().collect(),
            retry,
            label: label.into(),
            offered: Vec::new(),
            catalog: Catalog::default(),
            stage: Stage::Handshake,
            own: 0,
            out: VecDeque::new(),
        };
        let initialize = revival.renamed(&kept.record.initialize);
        revival.out.push_back(Output::Ask(initialize));
        revival
    }

    /// The next thing to do, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Whether there is nothing more to come.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over && self.out.is_empty()
    }

    /// The answer to what was asked; `None` if there will be none.
    pub fn answered(&mut self, answer: Option<&Message>) {
        match self.stage {
            Stage::Handshake => self.shaken(answer),
            Stage::Tools { pages } => self.listed(pages, answer),
            Stage::Over => {}
        }
    }

    fn shaken(&mut self, answer: Option<&Message>) {
        let Some(result) = answer.and_then(Message::result) else {
            let error = answer.and_then(Message::error).map(Box::from);
            let nobody = || self.unavailable(Reason::OwnerEnded);
            let error = error.unwrap_or_else(nobody);
            return self.end(Output::Failed(error));
        };
        let (held, offered) = (&self.record.version, version_of(result));
        if let Some((held, offered)) = held.as_ref().zip(offered.as_ref())
            && held != offered
        {
            let changed = Reason::VersionChanged {
                held: held.as_str().into(),
                offered: offered.as_str().into(),
            };
            let error = self.unavailable(changed);
            return self.end(Output::Failed(error));
        }
        self.offered = lists_of(result);
        let record = self.record.clone();
        self.out.extend(record.initialized.map(Output::Say));
        for said in record.level.iter().chain(record.subscriptions.values()) {
            let said = self.renamed(said);
            self.out.push_back(Output::Say(said));
        }
        let depends = |it: &Message| it.is("tools/call");
        let mut requests = self.open.iter().flat_map(|(_, it)| &it.requests);
        match self.retry == Retry::Safe && requests.any(depends) {
            true => self.ask_tools(0, None),
            false => self.settle(),
        }
    }

    fn ask_tools(&mut self, pages: u32, cursor: Option<&str>) {
        self.stage = Stage::Tools { pages };
        let params = cursor.map_or(json!({}), |cursor| json!({ "cursor": cursor }));
        let (id, params) = (self.own_id(), params.to_string());
        let request = Message::request(id.as_bytes(), List::Tools.method(), params.as_bytes());
        self.out.push_back(Output::Ask(request));
    }

    /// A page of tools. What cannot be read to the end allows nothing: a later page may take back what one has said.
    fn listed(&mut self, pages: u32, answer: Option<&Message>) {
        let page = answer.and_then(Message::result);
        let page = page.and_then(|result| Page::read(List::Tools, result));
        // The cursor that was asked with is the one that the catalogue waits for.
        let cursor = self.catalog.next_cursor(List::Tools);
        let seen = page.map(|page| self.catalog.we_saw(List::Tools, cursor.as_deref(), page));
        match seen {
            Some(Seen::More(next)) if pages < MOST_PAGES => self.ask_tools(pages + 1, Some(&next)),
            Some(Seen::All(_)) => self.settle(),
            _ => {
                self.catalog = Catalog::default();
                self.settle();
            }
        }
    }

    /// Decides on what was open, and tells the client what it may have missed.
    fn settle(&mut self) {
        for (channel, ask) in std::mem::take(&mut self.asks) {
            let reason = "the server that asked is gone";
            let id = String::from_utf8_lossy(ask.id_json()).into_owned();
            let params = format!(r#"{{"requestId":{id},"reason":"{reason}"}}"#);
            let void = Message::notification("notifications/cancelled", params.as_bytes());
            self.out.push_back(Output::Send(channel, void));
        }
        for (channel, mut open) in std::mem::take(&mut self.open) {
            open.deaths += 1;
            let poison = open.deaths >= POISON;
            let (again, lost): (Vec<Message>, Vec<Message>) = std::mem::take(&mut open.requests)
                .into_iter()
                .partition(|it| !poison && self.is_safe(it));
            for request in lost {
                let answer = self.lost(&request, poison);
                self.out.push_back(Output::Send(channel, answer));
            }
            if again.is_empty() {
                self.out.push_back(Output::Done(channel));
                continue;
            }
            open.requests = again.clone();
            let write = (Part::Open(channel), Some(open.encode()));
            self.out.push_back(Output::Write(vec![write]));
            let again = again.into_iter();
            self.out.extend(again.map(|it| Output::Hear(channel, it)));
        }
        self.catch_up();
        self.end(Output::Ready);
    }

    /// Whether a request may be sent again although it may have been executed.
    fn is_safe(&self, request: &Message) -> bool {
        match self.retry {
            Retry::Never => false,
            Retry::Always => true,
            Retry::Safe if request.is("tools/call") => {
                let tool = request.name();
                tool.is_some_and(|tool| self.catalog.is_safe(&tool))
            }
            Retry::Safe => method::is_read_only(request.method()),
        }
    }

    /// What the client may have missed, and that the server is another one (FM-74).
    fn catch_up(&mut self) {
        for uri in self.record.subscriptions.keys() {
            let params = json!({ "uri": uri }).to_string();
            let method = "notifications/resources/updated";
            let updated = Message::notification(method, params.as_bytes());
            self.out.push_back(Output::Send(Channel::MAIN, updated));
        }
        let offered = self.offered.iter().copied();
        let mut changed: Vec<&str> = offered.map(List::changed_method).collect();
        changed.dedup();
        for method in changed {
            let changed = Message::notification(method, b"");
            self.out.push_back(Output::Send(Channel::MAIN, changed));
        }
        if self.record.level.as_ref().is_some_and(wants_warnings) {
            let params = json!({
                "level": "warning",
                "logger": "outlive",
                "data": {
                    "event": "server_replaced",
                    "message": "The server was lost with the process that had started it, and a new one has been \
                                started. What the old one kept in memory is gone.",
                },
            });
            let told =
                Message::notification("notifications/message", params.to_string().as_bytes());
            self.out.push_back(Output::Send(Channel::MAIN, told));
        }
    }

    fn end(&mut self, with: Output) {
        self.stage = Stage::Over;
        self.out.push_back(with);
    }

    /// The answer to a request that is not sent again.
    fn lost(&self, request: &Message, poison: bool) -> Message {
        let error = Error::ConnectionLost {
            cause: self.cause(Reason::OwnerEnded),
            outcome: Outcome::Unknown,
            poison,
        };
        error.to_response(request.id_json(), &in_words(request), Generation::FIRST)
    }

    fn cause(&self, reason: Reason) -> Cause {
        Cause::new(reason, Phase::Service, self.label.clone())
    }

    fn unavailable(&self, reason: Reason) -> Box<[u8]> {
        let error = Error::Unavailable {
            cause: Some(self.cause(reason)),
            held: std::time::Duration::ZERO,
            outcome: Outcome::NotSent,
            retry_after: None,
        };
        let answer = error.to_response(b"0", "the request", Generation::FIRST);
        answer.error().unwrap_or_default().into()
    }

    /// A message of the client under an id that no request of it has.
    fn renamed(&mut self, message: &Message) -> Message {
        let id = self.own_id();
        message.clone().with_id(id.as_bytes())
    }

    fn own_id(&mut self) -> String {
        self.own += 1;
        format!(r#""outlive-revival-{}""#, self.own)
    }
}

/// The lists that a server offers by this result of `initialize`.
fn lists_of(result: &[u8]) -> Vec<List> {
    #[derive(Default, Deserialize)]
    struct Welcome {
        #[serde(default)]
        capabilities: BTreeMap<String, IgnoredAny>,
    }
    let welcome: Welcome = serde_json::from_slice(result).unwrap_or_default();
    let offers = |list: &List| welcome.capabilities.contains_key(list.capability());
    List::ALL.into_iter().filter(offers).collect()
}
