//! A session that another process has begun is taken over.
//!
//! The rules are those of [`revival`](outlive_core::revival). The client is let in at once: it may read what it was
//! sent before, and what it says waits until a server has been told what the one before knew.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive_core::error::{Error, Limit};
use outlive_core::message::Kind as MessageKind;
use outlive_core::policy::Retry;
use outlive_core::revival::{Output, Revival};
use outlive_core::server::Channel;
use outlive_core::session_record::KeptSession;
use outlive_core::snapshot::ResumeError;
use outlive_core::{Frame, Generation, Message};

use super::arrival::Arrival;
use super::durable::{Durability, Durable, Lost, requests_of};
use super::endpoint::Caller;
use super::listener::HttpListener;
use super::mirrored::Mirrored;
use super::opening::Newcomer;
use super::reader::Reader;
use super::refusal::{Refused, session_not_found};
use super::replay_buffer::{Beginning, ReplayBuffer};
use super::reply;
use super::session::ClientSession;
use super::{Kind, Room, Route};
use crate::store::{Claimed, Owner, Tenure};

/// What comes of looking for a session that is not here.
pub(super) enum Taken {
    /// It is here by now.
    Here(Arc<ClientSession>),
    /// It is somebody else's, who is found at this address, if it is not empty.
    Held(Owner, String),
    /// The store does not answer, or this process may not act at the moment.
    Unkept,
    /// It is neither, for this reason.
    Refused(Box<reply::Reply>),
}

impl From<Refused<Arc<ClientSession>>> for Taken {
    fn from(found: Refused<Arc<ClientSession>>) -> Taken {
        match found {
            Ok(session) => Taken::Here(session),
            Err(refusal) => Taken::Refused(refusal),
        }
    }
}

/// Messages that wait for a session to be revived.
const MOST_WAITING: usize = 1024;

impl HttpListener {
    /// The session of this id, which is not here, from the store, or whose it is.
    pub(super) async fn take_over(
        &self,
        id: &str,
        arrival: &Arc<Arrival>,
        caller: &Caller<'_>,
    ) -> Taken {
        let Some(durability) = &self.durability else {
            return Taken::Refused(session_not_found());
        };
        let _one = durability.takeover(id).await;
        // Somebody else may have done it meanwhile; and what is here is not claimed, whoever asks for it.
        if self.sessions.has(id) {
            return self.find_session(id, false, caller).into();
        }
        if caller.endpoint.replay.is_sealed() || durability.hands_over() {
            return Taken::Refused(reply::busy("The server is shutting down.").into());
        }
        if !durability.may_act() {
            return Taken::Unkept;
        }
        let (store, by) = (durability.store(), durability.owner());
        let claimed = durability
            .ask(store.claim(id, &caller.identity.label(), by))
            .await;
        let (tenure, parts) = match claimed {
            Ok(Claimed::Granted(tenure, parts)) => (tenure, parts),
            Ok(Claimed::Absent) => return Taken::Refused(session_not_found()),
            Ok(Claimed::Held { owner, address }) => return Taken::Held(owner, address),
            // What is wrong was told when it began.
            Err(_) => return Taken::Unkept,
        };
        let kept = KeptSession::read(parts);
        let taken = match &kept {
            // The lease has run out while the store was asked.
            _ if !durability.may_act_under(tenure) => Err(unkept()),
            Ok(kept) if *kept.record.endpoint != *caller.endpoint.path => Err(session_not_found()),
            Ok(kept) => {
                self.adopt(durability, id, tenure, kept, arrival, caller)
                    .await
            }
            Err(why @ ResumeError::UnknownVersion(_)) => {
                (self.tell)(&format!("a session cannot be taken over: {why}"));
                let sentence = format!(
                    "The session is kept, but this process cannot read it: {why}. Try again later: a newer process may."
                );
                Err(reply::busy(&sentence).into())
            }
            // Nobody will ever read it: its client had better begin anew than wait.
            Err(why) => {
                (self.tell)(&format!(
                    "what is kept of a session cannot be read, so that it has ended: {why}"
                ));
                Err(session_not_found())
            }
        };
        let _ = match &taken {
            Err(_) => durability.ask(store.release(id, tenure)).await,
            // It may have been about to run out.
            Ok(_) => {
                let touched = store.touch(vec![(id.to_owned(), tenure)], durability.ttl());
                durability.ask(touched).await
            }
        };
        match taken {
            // The store may grant it to the name that this process has next.
            Err(_) if !durability.may_act_under(tenure) => Taken::Unkept,
            taken => taken.into(),
        }
    }

    /// A session that is ours now.
    async fn adopt(
        &self,
        durability: &Arc<Durability>,
        id: &str,
        tenure: Tenure,
        kept: &KeptSession,
        arrival: &Arc<Arrival>,
        caller: &Caller<'_>,
    ) -> Refused<Arc<ClientSession>> {
        if !self.sessions.make_room() {
            return Err(self.too_many_sessions(caller));
        }
        let replay = Arc::new(ReplayBuffer::restored(kept.channels.clone()));
        let (number, principal) = (caller.endpoint.number, caller.principal());
        let kind = Kind::Session(principal, Some(&kept.record.initialize));
        let mut newcomer = Newcomer::new(self.backend.open(number, replay.clone(), kind));
        self.wait_for_room(&*newcomer.route, caller).await?;
        caller.check()?;
        self.skip_channels(kept.highest_channel());
        let record = kept.record.clone();
        let durable = Durable::taken_over(durability, id, tenure, record, &replay);
        replay.record(durable.clone());
        let route = Arc::new(RevivedRoute {
            route: newcomer.route.clone(),
            replay: replay.clone(),
            waiting: Mutex::new(Some(Vec::new())),
        });
        let opened = self
            .sessions
            .adopt(id, number, principal, replay, route.clone());
        let Ok(session) = opened else {
            return Err(self.too_many_sessions(caller));
        };
        newcomer.has_session = true;
        session.belongs_to(&caller.identity);
        session.keep(durable.clone());
        if !durable.is_here() {
            session.route.end();
            return Err(unkept());
        }
        session.confirm();
        let revival = Revival::new(kept, route.retry(), route.label());
        durability.taken_over.fetch_add(1, Ordering::Relaxed);
        (self.tell)("a session goes on that another process had begun");
        tokio::spawn(revive(
            revival,
            route,
            durable,
            arrival.clone(),
            self.fresh_channels(),
        ));
        Ok(session)
    }
}

/// The answer to a client whose session cannot be kept.
pub(super) fn unkept() -> Box<reply::Reply> {
    let sentence = "The store of sessions does not answer, so no session can be begun or taken over. Try again later.";
    reply::busy(sentence).into()
}

/// Says again what the client has said, and settles what was open.
async fn revive(
    mut revival: Revival,
    route: Arc<RevivedRoute>,
    durable: Arc<Durable>,
    arrival: Arc<Arrival>,
    mut fresh_channel: impl FnMut() -> Channel,
) {
    let (inner, replay) = (&route.route, &route.replay);
    loop {
        let Some(output) = revival.poll() else {
            return;
        };
        match output {
            Output::Ask(request) => {
                let channel = fresh_channel();
                let lease = replay.open(channel);
                let keep_alive = std::time::Duration::from_secs(60);
                let mut reader = Reader::new(replay.clone(), inner.clone(), lease, keep_alive);
                inner.hear(channel, Frame::Message(request), &arrival);
                let answer = match reader.beginning(None).await {
                    Beginning::Answer(answer) => Some(answer),
                    Beginning::Silence => None,
                    Beginning::Stream => reader.last().await,
                };
                revival.answered(answer.as_ref());
            }
            Output::Say(message) => {
                inner.hear(fresh_channel(), Frame::Message(message), &arrival);
            }
            Output::Write(writes) => {
                if let Err(Lost) = durable.write(writes).await {
                    return inner.end();
                }
            }
            Output::Hear(channel, message) => {
                inner.hear(channel, Frame::Message(message), &arrival);
            }
            Output::Send(channel, message) => replay.send(channel, message),
            Output::Done(channel) => replay.done(channel),
            Output::Ready => route.open(),
            Output::Failed(error) => {
                route.fail(&error);
                durable.settled().await;
                // The next request of the client tries again.
                durable.retire();
                inner.end();
            }
        }
        replay.flush();
    }
}

/// Something that a client has said, and on which channel.
type Waiting = (Channel, Frame, Arc<Arrival>);

/// The route of a session that was taken over: what the client says waits until the server is ready for it.
pub(super) struct RevivedRoute {
    route: Arc<dyn Route>,
    replay: Arc<ReplayBuffer>,
    /// What waits, until it need not.
    waiting: Mutex<Option<Vec<Waiting>>>,
}

impl RevivedRoute {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands on what has waited, and from now on whatever comes.
    fn open(&self) {
        let mut waiting = self.lock();
        for (channel, frame, arrival) in waiting.take().unwrap_or_default() {
            self.route.hear(channel, frame, &arrival);
        }
    }

    /// Answers what has waited with this error.
    fn fail(&self, error: &[u8]) {
        for (channel, frame, _) in self.lock().take().unwrap_or_default() {
            for request in requests_of(&frame) {
                let answer = Message::failure(request.id_json(), error);
                self.replay.send(channel, answer);
            }
            self.replay.done(channel);
        }
        self.replay.flush();
    }

    fn refuse(&self, channel: Channel, frame: &Frame) {
        if let Some(request) = frame
            .message()
            .filter(|it| it.kind() == MessageKind::Request)
        {
            let error = Error::Overloaded {
                limit: Limit::held(MOST_WAITING),
            };
            let (id, what) = (request.id_json(), request.method());
            let answer = error.to_response(id, what, Generation::FIRST);
            self.replay.send(channel, answer);
        }
        self.replay.done(channel);
        self.replay.flush();
    }
}

impl Route for RevivedRoute {
    fn hear(&self, channel: Channel, frame: Frame, arrival: &Arc<Arrival>) -> bool {
        let mut waiting = self.lock();
        if let Some(waiting) = &mut *waiting {
            if waiting.len() >= MOST_WAITING {
                self.refuse(channel, &frame);
                return true;
            }
            let told = frame
                .message()
                .is_some_and(|it| it.kind() != MessageKind::Request);
            waiting.push((channel, frame, arrival.clone()));
            if told {
                // It has no answer: it is accepted when it is kept.
                self.replay.done(channel);
            }
            return false;
        }
        drop(waiting);
        self.route.hear(channel, frame, arrival)
    }

    fn left(&self, channel: Channel) {
        self.route.left(channel);
    }

    fn withdraw(&self, channel: Channel) {
        self.route.withdraw(channel);
    }

    fn room(&self) -> Room {
        self.route.room()
    }

    fn mirrored(&self, call: &Message) -> Vec<Mirrored> {
        self.route.mirrored(call)
    }

    fn is_busy(&self) -> bool {
        self.lock().is_some() || self.route.is_busy()
    }

    fn servers(&self) -> Vec<u64> {
        self.route.servers()
    }

    fn retry(&self) -> Retry {
        self.route.retry()
    }

    fn label(&self) -> String {
        self.route.label()
    }

    fn unanswered(&self) {
        self.route.unanswered();
    }

    fn retire(&self) {
        self.route.retire();
    }

    fn end(&self) {
        self.route.end();
    }

    fn shutdown(&self) {
        self.route.shutdown();
    }
}
