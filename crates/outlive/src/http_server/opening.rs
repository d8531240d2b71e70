//! How a session begins: whether there is room for it, the handshake, and that it is kept before anybody knows it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use outlive_core::Message;
use outlive_core::replay_buffer::Delivery;
use outlive_core::session_record::Record;
use tokio::time::{sleep, timeout};

use super::arrival::Arrival;
use super::durable::{Durable, REST};
use super::endpoint::Caller;
use super::exchange::HttpExchange;
use super::listener::HttpListener;
use super::refusal::{Refused, shutting_down};
use super::replay_buffer::ReplayBuffer;
use super::reply::{self, Reply, SESSION_ID};
use super::session::{ClientSession, ExchangeGuard, Unopened};
use super::takeover::unkept;
use super::{Kind, Room, Route};

impl HttpListener {
    /// A new session for a client that begins like this, if there may be one more.
    pub(super) async fn open_session(
        &self,
        replay: ReplayBuffer,
        opening: Option<&Message>,
        caller: &Caller<'_>,
    ) -> Refused<Arc<ClientSession>> {
        if caller.endpoint.replay.is_sealed() || self.is_leaving() {
            return Err(shutting_down());
        }
        if !self.sessions.make_room() {
            return Err(self.too_many_sessions(caller));
        }
        let (number, replay) = (caller.endpoint.number, Arc::new(replay));
        let kind = Kind::Session(caller.principal(), opening);
        let mut newcomer = Newcomer::new(self.backend.open(number, replay.clone(), kind));
        self.wait_for_room(&*newcomer.route, caller).await?;
        caller.check()?;
        // Before the answer is out: the client may use it at once.
        let route = newcomer.route.clone();
        let principal = caller.principal();
        let opened = self.sessions.open(number, principal, replay, route);
        let session = opened.map_err(|unopened| match unopened {
            Unopened::Full => self.too_many_sessions(caller),
            Unopened::NoRandomness => {
                let sentence = "The server has no randomness for a session id.";
                reply::refusal(StatusCode::INTERNAL_SERVER_ERROR, sentence).into()
            }
        })?;
        session.belongs_to(&caller.identity);
        newcomer.has_session = true;
        Ok(session)
    }

    /// Waits until a client may have a session.
    pub(super) async fn wait_for_room(
        &self,
        route: &dyn Route,
        caller: &Caller<'_>,
    ) -> Refused<()> {
        loop {
            let mut bell = pin!(self.room_bell.notified());
            // In this order: a change between the two is not missed.
            bell.as_mut().enable();
            match route.room() {
                Room::Free => return Ok(()),
                Room::Soon(most) => drop(timeout(most, bell).await),
                Room::GiveWay if self.sessions.give_way(caller.endpoint.number) => {}
                Room::ShuttingDown => return Err(shutting_down()),
                Room::Removed => {
                    let sentence = "The server at this address was removed from the file of servers, or changed there. \
                                    Try again.";
                    return Err(reply::refusal(StatusCode::NOT_FOUND, sentence).into());
                }
                Room::GiveWay | Room::Full => {
                    let how = match self.access.flags {
                        true => "raise --max-servers, or let sessions --share one",
                        false => "raise `max_servers`, or let sessions `share` one",
                    };
                    let sentence = format!(
                        "Each session has a server to itself, there are as many of them as there may be, and none has \
                         been unused for long. Try again later. Whoever runs this gateway can {how}."
                    );
                    return Err(self.full(caller, &sentence));
                }
            }
        }
    }

    /// What a setting is called by whoever runs this.
    pub(super) fn setting(&self, method: &str) -> String {
        match self.access.flags {
            true => format!("--{}", method.replace('_', "-")),
            false => format!("`{method}`"),
        }
    }

    pub(super) fn too_many_sessions(&self, caller: &Caller<'_>) -> Box<Reply> {
        let (most, setting) = (self.limits.sessions, self.setting("max_sessions"));
        let sentence = format!(
            "The server has {most} sessions, as many as it may have, and none has been unused for long. Try again later. \
             Whoever runs it can raise {setting}."
        );
        self.full(caller, &sentence)
    }

    fn full(&self, caller: &Caller<'_>, sentence: &str) -> Box<Reply> {
        self.tell_full(&caller.identity.name(), sentence);
        reply::busy(sentence).into()
    }

    /// A legacy client shakes hands.
    pub(super) async fn begin(
        &self,
        opening: Message,
        arrival: Arc<Arrival>,
        caller: &Caller<'_>,
    ) -> Refused<Reply> {
        let session = self
            .open_session(
                ReplayBuffer::new(Delivery::Resumable),
                Some(&opening),
                caller,
            )
            .await?;
        let _guard = ExchangeGuard::of(&session);
        let exchange = HttpExchange {
            http_listener: self,
            replay: &session.replay,
            route: &session.route,
            durable: None,
            primed: false,
            caller,
        };
        // If the client goes away now, nobody knows the id.
        let mut unknown = Unknown {
            http_listener: self,
            session: &session,
            is_answered: false,
            is_known: false,
        };
        let (mut reply, shaken) = exchange.handshake(opening.clone(), arrival).await;
        unknown.is_answered = true;
        if let Some(answer) = shaken
            && let Ok(id) = HeaderValue::from_str(&session.id)
        {
            self.keep(&session, opening, &answer, caller).await?;
            reply.headers_mut().insert(SESSION_ID, id);
            unknown.is_known = true;
        }
        Ok(reply)
    }

    /// Keeps a session that begins where it outlives this process, if there is such a place: before anybody knows its
    /// id.
    async fn keep(
        &self,
        session: &Arc<ClientSession>,
        opening: Message,
        answer: &Message,
        caller: &Caller<'_>,
    ) -> Refused<()> {
        let Some(durability) = &self.durability else {
            return Ok(());
        };
        let record = Record::new(&caller.endpoint.path, opening, answer);
        let (id, replay) = (&session.id, &session.replay);
        // A store that is started again is waited for: clients do not come back by themselves.
        let patience = durability.outage();
        let begun = Instant::now();
        let kept = loop {
            let principal = caller.identity.label();
            let kept = Durable::begin(durability, id, principal, record.clone(), replay).await;
            if kept.is_ok() || begun.elapsed() >= patience || durability.hands_over() {
                break kept;
            }
            sleep(REST).await;
        };
        let durable = kept.map_err(|_| unkept())?;
        session.keep(durable.clone());
        match durable.is_here() {
            true => Ok(()),
            false => Err(unkept()),
        }
    }
}

/// A client that has no session yet; dropped without one, its route is ended.
pub(super) struct Newcomer {
    pub(super) route: Arc<dyn Route>,
    pub(super) has_session: bool,
}

impl Newcomer {
    pub(super) fn new(route: Arc<dyn Route>) -> Newcomer {
        Newcomer {
            route,
            has_session: false,
        }
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        if !self.has_session {
            self.route.end();
        }
    }
}

/// A session whose id nobody has been told; dropped, it is ended.
struct Unknown<'a> {
    http_listener: &'a HttpListener,
    session: &'a ClientSession,
    /// The handshake has ended, and the client is told how.
    is_answered: bool,
    /// The client is told the id.
    is_known: bool,
}

impl Drop for Unknown<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.session.route.unanswered();
        }
        if !self.is_known {
            self.http_listener.sessions.end(&self.session.id);
        }
    }
}
