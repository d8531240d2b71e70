//! An exchange of a session that another replica answers for.
//!
//! When it is forwarded, waits or is given up is decided by [`tenure::Forward`](outlive_core::tenure::Forward); here
//! the store is asked, the request is sent, and the response is handed on as it comes.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use hyper::body::{Frame as BodyFrame, SizeHint};
use hyper::header::{CONTENT_TYPE, HOST, HeaderName};
use hyper::{Method, Response, StatusCode};
use outlive_core::cause::{Cause, Phase, Reason};
use outlive_core::error::Outcome;
use outlive_core::message::Kind as MessageKind;
use outlive_core::protocol::header;
use outlive_core::protocol::method::is_read_only;
use outlive_core::tenure::{
    Forward, ForwardOrder, ForwardPolicy, Found, NotForwarded, Owner, Sent,
};
use outlive_core::{Error, Frame, Generation, Message, Time};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};

use super::arrival::Arrival;
use super::durable::{Durability, WAITING_KIB, requests_of};
use super::endpoint::Caller;
use super::listener::HttpListener;
use super::passport::{self, FORWARD, Request as Signed};
use super::peer_connection::{Connection, Outgoing, ResponseHead};
use super::peers::{NoResponse, Peer};
use super::reader::Cut;
use super::refusal::{Refused, session_not_found};
use super::replicas::{ANSWERED, ELSEWHERE, REFUSED, ReplicaStats, Replicas};
use super::reply::{self, Content, Reply};
use super::session::ClientSession;
use super::takeover::{Taken, unkept};
use super::token::TOKEN_LABEL;

/// A response of this length is waited for as a whole: if it breaks off, its client is told so.
const WHOLE: u64 = 1 << 20;

/// Whether a client's header goes to the owner of its session. Some belong to one connection, or are written anew; the
/// origin of a page was judged here.
fn goes_along(name: &HeaderName) -> bool {
    !matches!(
        name.as_str(),
        "connection"
            | "content-length"
            | "expect"
            | "host"
            | "keep-alive"
            | "origin"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
            | passport::NAME
    )
}

/// What a client wants of its session.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// To hand on this message, which came as these bytes if they may be needed again.
    Say(&'a Frame, Option<&'a Bytes>),
    /// To read, or to leave.
    Other,
}

impl Wanted<'_> {
    /// Whether it may be done more than once.
    fn is_repeatable(self) -> bool {
        match self {
            Wanted::Other => true,
            Wanted::Say(frame, _) => frame.message().is_some_and(|message| {
                message.kind() == MessageKind::Request && is_read_only(message.method())
            }),
        }
    }

    /// A refusal, as the answer to the request if it is one.
    fn refused(self, refusal: Reply) -> Reply {
        match self {
            Wanted::Say(frame, _) => match frame.message() {
                Some(message) if message.kind() == MessageKind::Request => {
                    reply::addressed(refusal, message.id_json())
                }
                _ => refusal,
            },
            Wanted::Other => refusal,
        }
    }

    fn body(self) -> Bytes {
        match self {
            Wanted::Say(_, Some(body)) => body.clone(),
            _ => Bytes::new(),
        }
    }

    /// The answer when nobody knows whether it was done.
    fn settled(self, label: &str) -> Reply {
        let requests = match self {
            Wanted::Say(frame, _) => requests_of(frame),
            Wanted::Other => Vec::new(),
        };
        let answers: Vec<Message> = requests.iter().map(|it| lost(it, label)).collect();
        match (&answers[..], self) {
            ([answer], Wanted::Say(Frame::Message(_), _)) => {
                reply::json(StatusCode::OK, answer.bytes().clone())
            }
            ([], _) => {
                let sentence = "The process that answers for this session has ended, or cannot be reached any more, \
                                and it is not known whether it has got this. The session goes on.";
                reply::refusal(StatusCode::BAD_GATEWAY, sentence)
            }
            (several, _) => {
                let all: Vec<_> = several.iter().map(|it| &it.bytes()[..]).collect();
                let body = [b"[", &all.join(&b","[..])[..], b"]"].concat();
                reply::json(StatusCode::OK, body.into())
            }
        }
    }
}

/// The answer to a request that was handed to an owner which has ended since.
pub(super) fn lost(request: &Message, label: &str) -> Message {
    let error = Error::ConnectionLost {
        cause: Cause::new(Reason::OwnerEnded, Phase::Service, label),
        outcome: Outcome::Unknown,
        poison: false,
    };
    error.to_response(request.id_json(), request.method(), Generation::FIRST)
}

/// What the driver waits for.
enum News {
    Claimed(Taken),
    Sent(Result<Reply, Unsent>),
    Tick,
}

/// Why there is no response.
enum Unsent {
    Elsewhere,
    Unreached,
    Lost,
    /// Whoever got it does not believe that we are a replica.
    Refused(String),
}

impl HttpListener {
    /// Finds the session of an exchange that is not here: takes it over, or has the exchange answered by its owner.
    /// That answer is then the refusal.
    pub(super) async fn look_elsewhere(
        &self,
        durability: &Arc<Durability>,
        id: &str,
        arrival: &Arc<Arrival>,
        caller: &Caller<'_>,
        wanted: Wanted<'_>,
    ) -> Refused<Arc<ClientSession>> {
        let begins = matches!(wanted, Wanted::Say(frame, _) if frame.message().is_some_and(|it| it.is("initialize")));
        let policy = match durability.store().lease() {
            Some(lease) if !caller.is_forwarded && !begins => ForwardPolicy::of(lease),
            _ => {
                return match self.take_over(id, arrival, caller).await {
                    Taken::Here(session) => Ok(session),
                    Taken::Held(..) if caller.is_forwarded => Err(elsewhere().into()),
                    Taken::Held(..) => Err(held().into()),
                    Taken::Refused(_) | Taken::Unkept
                        if caller.is_forwarded && durability.hands_over() =>
                    {
                        Err(elsewhere().into())
                    }
                    Taken::Unkept => Err(unkept()),
                    Taken::Refused(refusal) => Err(refusal),
                };
            }
        };
        let body = wanted.body();
        let size = u32::try_from(body.len() / 1024 + 1).unwrap_or(WAITING_KIB as u32);
        let waiting = durability.waiting.clone();
        let Ok(_room) = waiting.try_acquire_many_owned(size.min(WAITING_KIB as u32)) else {
            let sentence =
                "Too many requests wait for other replicas. Nothing was done. Try again later.";
            return Err(reply::busy(sentence).into());
        };
        let place = match arrival.parts.method {
            Method::GET => Some(self.stream_place()?),
            _ => None,
        };
        let mut exchange = Exchange {
            listener: self,
            replicas: durability.replicas.as_ref(),
            policy,
            id,
            arrival,
            caller,
            body,
            whose: caller.identity.label(),
            place: Some(place),
        };
        exchange.run(wanted).await
    }
}

/// One exchange on its way.
struct Exchange<'a> {
    listener: &'a HttpListener,
    /// The others, if this process may speak to them. Else it waits until they have left the session.
    replicas: Option<&'a Arc<Replicas>>,
    policy: ForwardPolicy,
    id: &'a str,
    arrival: &'a Arc<Arrival>,
    caller: &'a Caller<'a>,
    body: Bytes,
    /// A word for who the client is.
    whose: String,
    /// What its stream takes up here.
    place: Option<Option<OwnedSemaphorePermit>>,
}

impl Exchange<'_> {
    async fn run(&mut self, wanted: Wanted<'_>) -> Refused<Arc<ClientSession>> {
        let begun = Instant::now();
        let now = || Time::after(begun.elapsed());
        let (replicas, id) = (self.replicas, self.id);
        let known = replicas.and_then(|it| it.owner_of(id, &self.whose));
        let (owner, mut peer) = known.unzip();
        let repeatable = wanted.is_repeatable();
        let mut forward = Forward::new(now(), self.policy, repeatable, owner);
        let (mut asked, mut taken, mut refusal) = (owner, None, None::<Box<Reply>>);
        let mut claiming: Option<Pin<Box<dyn Future<Output = Taken> + Send + '_>>> = None;
        type Sending = Pin<Box<dyn Future<Output = Result<Reply, Unsent>> + Send>>;
        let mut sending: Option<Sending> = None;
        loop {
            match forward.poll(now()) {
                Some(ForwardOrder::Claim) => {
                    let claim = self.listener.take_over(id, self.arrival, self.caller);
                    claiming = Some(Box::pin(claim));
                    continue;
                }
                Some(ForwardOrder::Send(owner)) => {
                    asked = Some(owner);
                    match peer.as_ref().and_then(|it| self.send(it, owner)) {
                        Some(sent) => sending = Some(Box::pin(sent)),
                        None => forward.sent(now(), Sent::Unreached),
                    }
                    continue;
                }
                Some(ForwardOrder::Serve) => return taken.ok_or_else(unkept),
                Some(ForwardOrder::Settle) => {
                    if let (Some(peer), Some(_)) = (&peer, &sending) {
                        peer.suspect();
                    }
                    let label = self.caller.endpoint.route.label();
                    return Err(wanted.settled(&label).into());
                }
                Some(ForwardOrder::Refuse(why)) => {
                    let refusal = match (why, refusal) {
                        (NotForwarded::Declined, Some(refusal)) => *refusal,
                        (NotForwarded::Unkept | NotForwarded::Declined, _) => *unkept(),
                        (NotForwarded::Absent, _) => return Err(session_not_found()),
                        (NotForwarded::Held, _) => held(),
                    };
                    return Err(wanted.refused(refusal).into());
                }
                None => {}
            }
            let left = forward.deadline().map(|at| at - now()).unwrap_or_default();
            let mut alarm = self.caller.deadline.wait(left);
            let news = poll_fn(|cx| {
                if let Some(sent) = &mut sending
                    && let Poll::Ready(sent) = sent.as_mut().poll(cx)
                {
                    sending = None;
                    return Poll::Ready(News::Sent(sent));
                }
                if let Some(claim) = &mut claiming
                    && let Poll::Ready(taken) = claim.as_mut().poll(cx)
                {
                    claiming = None;
                    return Poll::Ready(News::Claimed(taken));
                }
                alarm.poll(cx).map(|()| News::Tick)
            });
            match news.await {
                News::Tick => {}
                News::Claimed(Taken::Here(session)) => {
                    taken = Some(session);
                    forward.found(now(), Found::Granted);
                }
                News::Claimed(Taken::Held(owner, at)) => {
                    let told = replicas.filter(|_| !at.is_empty());
                    if let Some(replicas) = told {
                        peer = replicas.learn(id, &self.whose, owner, &at);
                    }
                    forward.found(now(), Found::Held(owner, told.is_some()));
                }
                News::Claimed(Taken::Unkept) => forward.found(now(), Found::Failed),
                News::Claimed(Taken::Refused(why)) => {
                    let found = match why.status() {
                        StatusCode::NOT_FOUND => Found::Absent,
                        _ => Found::Declined,
                    };
                    refusal = Some(why);
                    forward.found(now(), found);
                }
                News::Sent(Ok(reply)) => {
                    if let Some(Replicas { stats, .. }) = replicas.map(|it| &**it) {
                        stats.answered.fetch_add(1, Ordering::Relaxed);
                        stats.latency.note(begun.elapsed());
                    }
                    return Err(reply.into());
                }
                News::Sent(Err(unsent)) => {
                    if let (Some(replicas), Some(owner)) = (replicas, asked) {
                        replicas.forget(id, owner);
                    }
                    let sent = self.note(&unsent);
                    if let Unsent::Refused(why) = unsent {
                        let sentence = format!(
                            "The replica that answers for this session does not accept what this one forwards: {why}"
                        );
                        (self.listener.tell)(&sentence);
                        return Err(wanted.refused(reply::busy(&sentence)).into());
                    }
                    forward.sent(now(), sent);
                }
            }
        }
    }

    fn note(&self, unsent: &Unsent) -> Sent {
        type Count = fn(&ReplicaStats) -> &AtomicU64;
        let (count, sent): (Count, Sent) = match unsent {
            Unsent::Elsewhere => (|it| &it.elsewhere, Sent::Elsewhere),
            Unsent::Unreached => (|it| &it.unreached, Sent::Unreached),
            Unsent::Lost => (|it| &it.lost, Sent::Lost),
            Unsent::Refused(_) => (|it| &it.refused, Sent::Unreached),
        };
        if let Some(replicas) = self.replicas {
            count(&replicas.stats).fetch_add(1, Ordering::Relaxed);
        }
        sent
    }

    /// Sends the request to its owner. What comes of it; `None` if it cannot be sent.
    fn send(
        &mut self,
        peer: &Arc<Peer>,
        owner: Owner,
    ) -> Option<impl Future<Output = Result<Reply, Unsent>> + Send + use<>> {
        let replicas = self.replicas?;
        let request = self.request(replicas, peer, owner, self.id, self.body.clone())?;
        let question = match peer.is_suspect() {
            true => Some(self.request(replicas, peer, owner, "", Bytes::new())?),
            false => None,
        };
        let hand_on = HandOn {
            peer: peer.clone(),
            silence: replicas.silence,
            place: self.place.take().flatten(),
        };
        // A place is for one stream; a request that is sent again has had none.
        self.place = Some(None);
        Some(async move {
            if let Some(question) = question
                && !hand_on.peer.answers(&question).await
            {
                return Err(Unsent::Unreached);
            }
            hand_on.exchange(request).await
        })
    }

    /// The request as its owner gets it; without a session, one that has no consequence.
    fn request(
        &self,
        replicas: &Replicas,
        peer: &Peer,
        owner: Owner,
        session: &str,
        body: Bytes,
    ) -> Option<Outgoing> {
        let parts = &self.arrival.parts;
        let path = parts.uri.path_and_query().map_or("/", |it| it.as_str());
        let method = match session.is_empty() {
            false => &parts.method,
            true => &Method::GET,
        };
        let signed = Signed {
            method,
            path,
            session,
        };
        let passport = replicas.sign(&signed, owner, &self.whose)?;
        // It was checked here, and is nobody else's business.
        let keeps_token = self.whose.starts_with(TOKEN_LABEL);
        let goes_along = |name: &HeaderName| match name.as_str() {
            "authorization" => !keeps_token,
            header::SESSION_ID => !session.is_empty(),
            _ => goes_along(name),
        };
        let own = [(&HOST, &peer.place.authority), (&FORWARD, &passport)];
        let clients = parts.headers.iter().filter(|(name, _)| goes_along(name));
        let headers = own.into_iter().chain(clients);
        Some(Outgoing::new(
            method,
            [&peer.place.base, path],
            headers,
            body,
        ))
    }
}

/// How a response is handed on.
struct HandOn {
    peer: Arc<Peer>,
    silence: std::time::Duration,
    place: Option<OwnedSemaphorePermit>,
}

impl HandOn {
    async fn exchange(self, request: Outgoing) -> Result<Reply, Unsent> {
        let peer = self.peer.clone();
        let answered = self.answered(request).await;
        if let Err(Unsent::Unreached | Unsent::Lost) = answered {
            peer.suspect();
        }
        answered
    }

    async fn answered(self, request: Outgoing) -> Result<Reply, Unsent> {
        let sent = self.peer.send(&request).await;
        let (head, connection) = sent.map_err(|why| match why {
            NoResponse::Unreached => Unsent::Unreached,
            NoResponse::Lost => Unsent::Lost,
        })?;
        let ResponseHead {
            status,
            headers,
            said,
        } = head;
        let is_stream = headers
            .get(CONTENT_TYPE)
            .is_some_and(|it| it == "text/event-stream");
        let length = connection.length();
        let mut body = Forwarded {
            connection: Some(connection),
            peer: self.peer,
            is_stream,
            silence: self.silence,
            alarm: None,
            _place: self.place,
        };
        let is_short = !is_stream && length.is_some_and(|length| length <= WHOLE);
        let content = match is_short {
            true => Content::Whole(body.whole().await?),
            false => Content::Forwarded(Box::new(body)),
        };
        match said {
            Some(said) if said == ANSWERED => {}
            Some(said) if said == ELSEWHERE => return Err(Unsent::Elsewhere),
            Some(said) if said == REFUSED => {
                let sentence = match content {
                    Content::Whole(Some(bytes)) => sentence_of(&bytes),
                    _ => String::new(),
                };
                return Err(Unsent::Refused(sentence));
            }
            // Whoever that was, it may have done something.
            _ => return Err(Unsent::Lost),
        }
        let mut reply = Response::new(content);
        *reply.status_mut() = status;
        *reply.headers_mut() = headers;
        Ok(reply)
    }
}

/// The sentence of a refusal.
fn sentence_of(body: &[u8]) -> String {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let sentence = body["error"]["message"].as_str().unwrap_or_default();
    sentence.chars().take(300).collect()
}

/// The body of a response, as it comes from another replica.
pub(crate) struct Forwarded {
    /// `None` when it was read to its end.
    connection: Option<Connection>,
    peer: Arc<Peer>,
    is_stream: bool,
    silence: std::time::Duration,
    alarm: Option<Pin<Box<Sleep>>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Forwarded {
    /// The next piece. A stream that breaks off, or is silent for too long, ends: its client comes back for the rest.
    pub(super) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Cut>>> {
        let Some(connection) = &mut self.connection else {
            return Poll::Ready(None);
        };
        match connection.poll_body(cx) {
            Poll::Ready(Some(Ok(piece))) => {
                self.alarm = None;
                Poll::Ready(Some(Ok(BodyFrame::data(piece))))
            }
            Poll::Ready(None) => {
                if let Some(connection) = self.connection.take() {
                    self.peer.give_back(connection);
                }
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(_))) if self.is_stream => Poll::Ready(None),
            Poll::Ready(Some(Err(_))) => Poll::Ready(Some(Err(Cut))),
            Poll::Pending if self.is_stream => {
                let silence = self.silence;
                let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(silence)));
                alarm.as_mut().poll(cx).map(|()| None)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn length(&self) -> Option<u64> {
        let connection = self.connection.as_ref();
        connection.map_or(Some(0), Connection::length)
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.length().map(SizeHint::with_exact).unwrap_or_default()
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.length() == Some(0)
    }

    /// All of it, which is short. Most come in one piece.
    async fn whole(&mut self) -> Result<Option<Bytes>, Unsent> {
        let mut whole = Bytes::new();
        while let Some(piece) = poll_fn(|cx| self.poll_piece(cx)).await {
            let piece = piece.map_err(|Cut| Unsent::Lost)?;
            let piece = piece.into_data().unwrap_or_default();
            whole = match whole.is_empty() {
                true => piece,
                false => {
                    let mut longer = BytesMut::from(whole);
                    longer.extend_from_slice(&piece);
                    longer.freeze()
                }
            };
        }
        Ok((!whole.is_empty()).then_some(whole))
    }
}

/// The answer to a replica that takes us for the owner of a session.
pub(super) fn elsewhere() -> Reply {
    let sentence = "This process does not answer for this session. Nothing was done.";
    let mut reply = reply::refusal(StatusCode::MISDIRECTED_REQUEST, sentence);
    reply.headers_mut().insert(FORWARD, ELSEWHERE);
    reply
}

/// The answer to a client whose session somebody else has who cannot be reached.
fn held() -> Reply {
    reply::busy(
        "Another process answers for this session at the moment, and cannot be reached from here. Nothing was done. \
         Try again later.",
    )
}
