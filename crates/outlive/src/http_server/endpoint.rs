//! One request and its response.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, ORIGIN};
use hyper::{Method, Request, StatusCode};
use memchr::memmem;
use outlive_core::message::{Defect, Kind as MessageKind};
use outlive_core::principal::Principal;
use outlive_core::protocol::header::LAST_EVENT_ID;
use outlive_core::protocol::{code, version};
use outlive_core::replay_buffer::Delivery;
use outlive_core::session_record::Record;
use outlive_core::sse::EventId;
use outlive_core::{Error, Frame, Id, Message};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::access::{AccessRules, header};
use super::arrival::Arrival;
use super::bearer;
use super::body::{Source, Unread};
use super::deadline::DeadlineTimer;
use super::durable::{Durable, requests_of};
use super::forward::{self, Wanted, elsewhere};
use super::head::{Head, Revision};
use super::listener::{Endpoint, HttpListener};
use super::passport::FORWARD;
use super::reader::Reader;
use super::replay_buffer::{Beginning, ReplayBuffer};
use super::replicas::{ANSWERED, REFUSED, Replicas};
use super::reply::{self, Reply, SESSION_ID, VERSION};
use super::request_metadata;
use super::session::{ClientSession, ExchangeGuard, Unopened};
use super::takeover::unkept;
use super::token::Identity;
use super::user::USER_LABEL;
use super::{Kind, Room, Route, cors, sse};

/// An answer that comes this soon is a plain response; for a later one a stream is opened, so
/// that everybody on the way sees that something is going on.
const PROMPT: Duration = Duration::from_millis(250);

/// A refusal on the way.
pub(super) type Refused<T> = Result<T, Box<Reply>>;

/// Who sends a request.
pub(super) struct Caller<'a> {
    /// The alarm of its connection.
    deadline: &'a DeadlineTimer,
    /// What its headers say.
    head: Head,
    /// Who that is.
    pub(super) identity: Identity,
    /// Another replica has forwarded it.
    pub(super) is_forwarded: bool,
    /// Where it sends it.
    pub(super) endpoint: &'a Arc<Endpoint>,
}

impl Caller<'_> {
    /// Whether its token is still good.
    pub(super) fn check(&self) -> Refused<()> {
        match self.identity.is_good() {
            true => Ok(()),
            false => Err(reply::unauthorized("The token is not the right one.").into()),
        }
    }

    pub(super) fn principal(&self) -> Principal {
        self.identity.principal()
    }
}

impl HttpListener {
    /// Answers a request.
    pub(crate) async fn answer(
        self: &Arc<HttpListener>,
        mut request: Request<Source>,
        deadline: &DeadlineTimer,
    ) -> Reply {
        let head = Head::read(request.headers_mut());
        let request = Unread::of(request, head.waits, self.limits.body_time);
        if let Err(refusal) = AccessRules::check_single(request.headers(), request.uri()) {
            return *refusal;
        }
        if let Some(reply) = self.probe(&request) {
            return reply;
        }
        if head.has_passport && self.replicas().is_some() {
            let answered = self.forwarded(request, head, deadline).await;
            return answered.unwrap_or_else(|refusal| *refusal);
        }
        if let Err(refusal) = self.access.check_names(request.headers(), request.uri()) {
            return *refusal;
        }
        let origin = match head.has_origin {
            true => request.headers().get(ORIGIN).cloned(),
            false => None,
        };
        let mut reply = match cors::is_question(request.method(), request.headers()) {
            true => cors::answer(request.headers()),
            false => {
                let admitted = self.admit(request, head, deadline).await;
                admitted.unwrap_or_else(|refusal| *refusal)
            }
        };
        if let Some(origin) = origin {
            cors::show(&mut reply, origin);
        }
        reply
    }

    /// The other replicas, if there may be any.
    pub(super) fn replicas(&self) -> Option<&Arc<Replicas>> {
        self.durability.as_ref()?.replicas.as_ref()
    }

    /// Answers a request that another replica has forwarded, if it has: then it knows who the client is.
    async fn forwarded(
        self: &Arc<HttpListener>,
        request: Request<Unread>,
        head: Head,
        deadline: &DeadlineTimer,
    ) -> Refused<Reply> {
        let (Some(durability), Some(replicas)) = (&self.durability, self.replicas()) else {
            return Err(session_not_found());
        };
        let refused = |sentence: String| {
            let mut reply = reply::refusal(StatusCode::FORBIDDEN, sentence);
            reply.headers_mut().insert(FORWARD, REFUSED);
            reply
        };
        let (headers, method) = (request.headers(), request.method());
        let session = header(headers, SESSION_ID).unwrap_or_default();
        let mut passports = headers.get_all(FORWARD).iter();
        let (Some(passport), None) = (passports.next(), passports.next()) else {
            return Ok(refused("There are two passports.".into()));
        };
        let admitted = replicas.admit(passport, method, request.uri(), session);
        let passport = match admitted {
            Ok(passport) => passport,
            Err(sentence) => {
                replicas.stats.strangers.fetch_add(1, Ordering::Relaxed);
                return Ok(refused(sentence));
            }
        };
        replicas.stats.received.fetch_add(1, Ordering::Relaxed);
        if passport.owner != durability.owner() || !durability.may_act() {
            return Ok(elsewhere());
        }
        let identity = match self.access.vouched(&passport.principal) {
            Some(identity) => Some(identity),
            // Whom an identity provider vouches for shows the token here, too: it says what they may see.
            None if passport.principal.starts_with(USER_LABEL) => {
                let shown = self.access.authenticate(headers, request.uri().path());
                let identity = shown.settled().await?;
                Some(identity).filter(|it| it.label() == passport.principal)
            }
            None => None,
        };
        let Some(identity) = identity else {
            let sentence = "The token of the client is not good here. The tokens or identity providers of two replicas \
                            differ.";
            return Ok(refused(sentence.into()));
        };
        let answered = self.admitted(request, head, identity, true, deadline).await;
        let mut reply = answered.unwrap_or_else(|refusal| *refusal);
        reply.headers_mut().entry(FORWARD).or_insert(ANSWERED);
        Ok(reply)
    }

    async fn admit(
        self: &Arc<HttpListener>,
        request: Request<Unread>,
        head: Head,
        deadline: &DeadlineTimer,
    ) -> Refused<Reply> {
        let (method, path) = (request.method(), request.uri().path());
        if let Some(page) = self.page(method, path, request.headers()).await {
            return page;
        }
        if let Some(metadata) = self.resource_metadata(method, path) {
            return Ok(metadata);
        }
        let authentication = self.access.authenticate(request.headers(), path);
        let identity = authentication.settled().await?;
        let identity = identity.or(request.extensions().get().copied());
        self.admitted(request, head, identity, false, deadline)
            .await
    }

    /// Answers a client that may come in.
    async fn admitted(
        self: &Arc<HttpListener>,
        mut request: Request<Unread>,
        head: Head,
        identity: Identity,
        is_forwarded: bool,
        deadline: &DeadlineTimer,
    ) -> Refused<Reply> {
        if let Some(user) = identity.user() {
            request.extensions_mut().insert(user.clone());
        }
        if head.has_via && self.backend.is_own(request.headers()) {
            let sentence = "This gateway has sent this request to itself: the address of one of its servers leads \
                            back here (cyclic).";
            return Ok(reply::refusal(StatusCode::LOOP_DETECTED, sentence));
        }
        let endpoints = self.endpoints();
        let path = request.uri().path();
        let (first, named) = (self.first.clone(), self.endpoint_at(path));
        let (first, named) = match identity.view() {
            None => (first, named),
            Some(view) => self.within_view(view, path, named)?,
        };
        let caller = &Caller {
            deadline,
            head,
            identity,
            is_forwarded,
            // The paths of HTTP+SSE are those of the first.
            endpoint: named.as_ref().unwrap_or(&first),
        };
        match path {
            _ if named.is_some() => match *request.method() {
                Method::POST | Method::GET | Method::DELETE => {
                    let (parts, body) = request.into_parts();
                    let arrival = &Arc::new(Arrival::new(parts, caller.principal()));
                    match arrival.parts.method {
                        Method::POST => self.post(arrival, body, caller).await,
                        Method::GET => self.get(arrival, caller).await,
                        _ => self.delete(arrival, caller).await,
                    }
                }
                _ => Ok(reply::only("POST, GET, DELETE")),
            },
            sse::STREAM => self.sse_stream(&request, caller).await,
            sse::MESSAGES => self.sse_message(request, caller).await,
            _ => {
                let sentence = match &endpoints.all[..] {
                    [only] => format!("There is nothing here. The server is at {}.", only.path),
                    several => format!("There is nothing here. {}.", places(several)),
                };
                Ok(reply::refusal(StatusCode::NOT_FOUND, sentence))
            }
        }
    }

    /// What is said about what is at an address to whoever needs a token for it (RFC 9728), if that is asked.
    fn resource_metadata(&self, method: &Method, path: &str) -> Option<Reply> {
        let verifier = self.access.verifier.as_deref()?;
        let rest = path.strip_prefix(bearer::WELL_KNOWN)?;
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Some(reply::only("GET"));
        }
        let is_here = |path: &str| path == sse::STREAM || self.endpoint_at(path).is_some();
        // In front of us there may be somebody who takes off the beginning of a path.
        let cuts = rest.char_indices().filter(|(_, it)| *it == '/');
        let mut tails = cuts.map(|(at, _)| &rest[at..]);
        let asked = match rest.trim_end_matches('/') {
            "" => Some(self.first.path.as_str()),
            _ => tails.find(|tail| is_here(tail)),
        };
        asked.map(|asked| bearer::metadata(&verifier.metadata(asked)))
    }

    /// The endpoints that a client finds who may see a view only: that of everything, and the one at a path.
    fn within_view(
        &self,
        view: &str,
        path: &str,
        named: Option<Arc<Endpoint>>,
    ) -> Refused<(Arc<Endpoint>, Option<Arc<Endpoint>>)> {
        let everything = &self.first;
        let own = self.endpoint_at(&format!("/view/{view}{}", everything.path));
        let Some(own) = own else {
            let sentence = format!("This token is good for the view {view:?}, which there is not.");
            return Err(reply::refusal(StatusCode::FORBIDDEN, sentence).into());
        };
        match named {
            Some(named) if named.number == own.number => Ok((own.clone(), Some(own))),
            Some(named) if named.number == everything.number => Ok((own.clone(), Some(own))),
            None if matches!(path, sse::STREAM | sse::MESSAGES) => Ok((own, None)),
            _ => {
                let (path, own) = (&everything.path, &own.path);
                let sentence = format!(
                    "This token is good for the view {view:?} only, which is at {path} and at {own}."
                );
                Err(reply::refusal(StatusCode::NOT_FOUND, sentence).into())
            }
        }
    }

    /// The endpoint at this path. A router that took off what leads here has left `/`.
    pub(super) fn endpoint_at(&self, path: &str) -> Option<Arc<Endpoint>> {
        let endpoints = self.endpoints();
        match &endpoints.all[..] {
            [only] if self.mounted && path == "/" => Some(only.clone()),
            _ => endpoints.at(path).cloned(),
        }
    }

    async fn post(
        &self,
        arrival: &Arc<Arrival>,
        body: Unread,
        caller: &Caller<'_>,
    ) -> Refused<Reply> {
        let (headers, head) = (arrival.headers(), caller.head);
        if !head.is_json {
            must_be_json(headers)?;
        }
        if !head.accepts_both && !accepts_both(headers) {
            let sentence = "The client must accept both application/json and text/event-stream.";
            return Ok(reply::refusal(StatusCode::NOT_ACCEPTABLE, sentence));
        }
        let (frame, body) = self.read_whole(body, caller).await?;
        let speaks_for_itself = frame.message().is_some_and(Message::is_modern);
        let modern = speaks_for_itself || head.revision == Some(Revision::Other);
        if modern && !speaks_for_itself && headers.contains_key(SESSION_ID) {
            // It belongs to a session, if there is one, and those are of revisions we know.
            let wanted = Wanted::Say(&frame, body.as_ref());
            self.session(arrival, caller, wanted).await?;
            let id = frame.message().map_or(&b""[..], Message::id_json);
            return Ok(unknown_version(headers, id));
        }
        match modern {
            true => self.modern(arrival, frame, caller).await,
            false => self.legacy(arrival, frame, body, caller).await,
        }
    }

    async fn modern(
        &self,
        arrival: &Arc<Arrival>,
        frame: Frame,
        caller: &Caller<'_>,
    ) -> Refused<Reply> {
        let headers = arrival.headers();
        if let Frame::Batch(_) = frame {
            // 2026-07-28, Streamable HTTP: the body is a single message.
            let sentence =
                "Nothing was executed: 2026-07-28 has no batches. Send each message by itself.";
            let status = StatusCode::BAD_REQUEST;
            return Ok(reply::error(
                status,
                b"",
                code::INVALID_REQUEST,
                sentence.into(),
            ));
        }
        if let Some(message) = frame.message()
            && message.kind() == MessageKind::Request
            && message.is_modern()
            && let Some(sentence) = request_metadata::mismatch(headers, message, || {
                caller.endpoint.route.mirrored(message)
            })
        {
            let (status, id) = (StatusCode::BAD_REQUEST, message.id_json());
            return Ok(reply::error(status, id, code::HEADER_MISMATCH, sentence));
        }
        let exchange = HttpExchange {
            http_listener: self,
            replay: &caller.endpoint.replay,
            route: &caller.endpoint.route,
            durable: None,
            primed: false,
            arrival,
            caller,
        };
        Ok(exchange.run(frame).await)
    }

    async fn legacy(
        &self,
        arrival: &Arc<Arrival>,
        frame: Frame,
        body: Option<Bytes>,
        caller: &Caller<'_>,
    ) -> Refused<Reply> {
        let wanted = Wanted::Say(&frame, body.as_ref());
        let (session, frame) = match (self.session(arrival, caller, wanted).await, frame) {
            (Ok(session), frame) => (session, frame),
            // A client that begins anew may still carry its old id (FM-04).
            (Err(_), Frame::Message(message)) if begins(&message) => {
                return self.begin(message, arrival, caller).await;
            }
            (Err(refusal), frame) => {
                return Err(match frame.defect() {
                    Some(defect) => malformed(defect).into(),
                    None => refusal,
                });
            }
        };
        let _guard = ExchangeGuard::of(&session);
        if session.is_leaving() {
            return Err(match caller.is_forwarded {
                true => elsewhere().into(),
                false => shutting_down(),
            });
        }
        session.confirm();
        let exchange = HttpExchange {
            http_listener: self,
            replay: &session.replay,
            route: &session.route,
            durable: session.durable(),
            primed: caller.head.revision == Some(Revision::Primed),
            arrival,
            caller,
        };
        Ok(exchange.run(frame).await)
    }

    /// A place for one more client that listens.
    pub(super) fn stream_place(&self) -> Refused<OwnedSemaphorePermit> {
        self.streams.clone().try_acquire_owned().map_err(|_| {
            let (most, setting) = (self.limits.streams, self.setting("max_streams"));
            reply::busy(&format!(
                "The server has {most} open streams, as many as it may have. Try again later. Whoever runs it can raise \
                 {setting}."
            ))
            .into()
        })
    }

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
    fn setting(&self, method: &str) -> String {
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
    async fn begin(
        &self,
        opening: Message,
        arrival: &Arc<Arrival>,
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
            arrival,
            caller,
        };
        // If the client goes away now, nobody knows the id.
        let mut unknown = Unknown {
            http_listener: self,
            session: &session,
            is_answered: false,
            is_known: false,
        };
        let (mut reply, shaken) = exchange.handshake(opening.clone()).await;
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
        let (id, principal) = (&session.id, caller.identity.label());
        let kept = Durable::begin(durability, id, principal, record, &session.replay).await;
        session.keep(kept.map_err(|_| unkept())?);
        Ok(())
    }

    /// The standalone stream of a legacy client, or one that was cut.
    async fn get(
        self: &Arc<HttpListener>,
        arrival: &Arc<Arrival>,
        caller: &Caller<'_>,
    ) -> Refused<Reply> {
        let headers = arrival.headers();
        must_not_be_modern(headers)?;
        if !headers.contains_key(SESSION_ID) {
            let sentence = format!(
                "A GET opens the standalone stream of a session, and this one has no Mcp-Session-Id. Send \
                 `initialize` first and repeat the Mcp-Session-Id of its answer. A client of 2024-11-05 begins at {}.",
                sse::STREAM
            );
            return Ok(reply::refusal(StatusCode::BAD_REQUEST, sentence));
        }
        let session = self.session(arrival, caller, Wanted::Other).await?;
        must_be_of_a_session(headers)?;
        session.confirm();
        if !accepts(headers, "text/event-stream") {
            let sentence = "The client must accept text/event-stream.";
            return Ok(reply::refusal(StatusCode::NOT_ACCEPTABLE, sentence));
        }
        let place = self.stream_place()?;
        let cursor = header(headers, LAST_EVENT_ID).filter(|id| !id.is_empty());
        let lease = match cursor {
            None => Some(session.replay.listen()),
            Some(id) => {
                EventId::read(id).and_then(|id| session.replay.resume(id.channel, id.number).ok())
            }
        };
        let Some(lease) = lease else {
            let sentence = "What followed this Last-Event-ID is no longer kept.";
            return Ok(reply::refusal(StatusCode::BAD_REQUEST, sentence));
        };
        let (replay, route) = (session.replay.clone(), session.route.clone());
        let reader = Reader::new(replay, route, lease, self.limits.keep_alive).binding(place);
        let reader = reader.until(&caller.identity);
        let reader = reader.expiring(&caller.identity);
        Ok(reply::stream(
            match cursor.is_none() && caller.head.revision == Some(Revision::Primed) {
                true => reader.primed(),
                false => reader.greeting(),
            },
        ))
    }

    /// A legacy client leaves.
    async fn delete(&self, arrival: &Arc<Arrival>, caller: &Caller<'_>) -> Refused<Reply> {
        let headers = arrival.headers();
        must_not_be_modern(headers)?;
        let session = self.session(arrival, caller, Wanted::Other).await?;
        must_be_of_a_session(headers)?;
        self.sessions.end(&session.id);
        Ok(reply::bare(StatusCode::OK))
    }

    async fn session(
        &self,
        arrival: &Arc<Arrival>,
        caller: &Caller<'_>,
        wanted: Wanted<'_>,
    ) -> Refused<Arc<ClientSession>> {
        let Some(id) = header(arrival.headers(), SESSION_ID) else {
            let sentence = "The request belongs to no session. Send `initialize` first and repeat the \
                            Mcp-Session-Id of its answer, or send MCP-Protocol-Version and metadata \
                            with each request (2026-07-28).";
            return Err(reply::refusal(StatusCode::BAD_REQUEST, sentence).into());
        };
        match (self.find_session(id, false, caller), &self.durability) {
            (Err(_), Some(durability)) => {
                // Large: not in the future of every request.
                Box::pin(self.look_elsewhere(durability, id, arrival, caller, wanted)).await
            }
            (found, _) => found,
        }
    }

    /// The session of this id, if it is the caller's, and if it is one of HTTP+SSE, or is none.
    pub(super) fn find_session(
        &self,
        id: &str,
        sse: bool,
        caller: &Caller<'_>,
    ) -> Refused<Arc<ClientSession>> {
        let session = self.sessions.get(id, caller.principal());
        let session = session.filter(|session| session.endpoint == caller.endpoint.number);
        let session =
            session.filter(|session| (session.replay.delivery == Delivery::OneStream) == sse);
        session.ok_or_else(session_not_found)
    }

    /// Reads a body within its bounds. Nobody behind the listener reads it again.
    pub(super) async fn read(&self, body: Unread, caller: &Caller<'_>) -> Refused<Frame> {
        let limit = self.backend.message_limit();
        let body = body.read(limit, &self.bodies, caller.deadline).await?;
        // It may have taken a while.
        caller.check()?;
        Ok(Frame::read_body(body))
    }

    /// The same; with its bytes, if they may be sent to somebody else.
    async fn read_whole(
        &self,
        body: Unread,
        caller: &Caller<'_>,
    ) -> Refused<(Frame, Option<Bytes>)> {
        if self.replicas().is_none() || caller.is_forwarded {
            return Ok((self.read(body, caller).await?, None));
        }
        let limit = self.backend.message_limit();
        let body = body.read(limit, &self.bodies, caller.deadline).await?;
        caller.check()?;
        Ok((Frame::read_body(body.clone()), Some(body)))
    }
}

/// A message on its way to a route, and what comes back.
struct HttpExchange<'a> {
    http_listener: &'a HttpListener,
    replay: &'a Arc<ReplayBuffer>,
    route: &'a Arc<dyn Route>,
    /// What is kept of its session elsewhere, if anything is.
    durable: Option<&'a Arc<Durable>>,
    /// The client knows events without a message.
    primed: bool,
    arrival: &'a Arc<Arrival>,
    caller: &'a Caller<'a>,
}

impl HttpExchange<'_> {
    async fn run(&self, frame: Frame) -> Reply {
        let (defect, message) = (frame.defect().cloned(), frame.message());
        let asked = message.filter(|message| message.kind() == MessageKind::Request);
        // What is no request has no answer that could come on a stream: it is accepted when the route has it.
        let told = asked.is_none() && message.is_some();
        let asked = asked.cloned();
        if self.replay.is_sealed() {
            return match self.caller.check() {
                Ok(()) => reply::busy("The server is shutting down."),
                Err(refusal) => *refusal,
            };
        }
        let requests = self.durable.map(|_| requests_of(&frame));
        if let Some(durable) = self.durable
            && (durable.note(&frame).await.is_err() || !durable.may_act())
        {
            return match self.caller.is_forwarded {
                true => elsewhere(),
                false => lost(),
            };
        }
        let (mut reader, at_once) = self.hear(frame);
        let prompt = (!told).then_some((self.caller.deadline, PROMPT));
        match reader.beginning(prompt).await {
            // Whoever has the session by now knows nothing of this; so it is settled here.
            Beginning::Silence | Beginning::Answer(_)
                if asked.is_some() && self.durable.is_some_and(|it| !it.may_act()) =>
            {
                self.settled(asked.as_ref())
            }
            Beginning::Silence => match (&defect, &asked) {
                (Some(defect), _) => malformed(defect),
                (None, Some(asked)) if self.replay.is_sealed() || reader.is_withdrawn() => {
                    reply::json(StatusCode::OK, reader.unfinished(asked).into_bytes())
                }
                (None, _) => reply::bare(StatusCode::ACCEPTED),
            },
            Beginning::Answer(_) if self.durable.is_some_and(|it| !it.may_act()) => {
                self.settled(asked.as_ref())
            }
            Beginning::Answer(answer) => {
                let refused = told.then(|| refused_notification(&answer)).flatten();
                let status = match (refused, self.replay.is_resumable()) {
                    (Some(code::INVALID_REQUEST), _) => StatusCode::BAD_REQUEST,
                    (Some(_), _) => return reply::later(answer.into_bytes()),
                    (None, true) if defect.is_some() => StatusCode::BAD_REQUEST,
                    (None, true) => StatusCode::OK,
                    (None, false) => modern_status(&answer, at_once),
                };
                reply::json(status, answer.into_bytes())
            }
            Beginning::Stream => {
                let reader = match self.durable {
                    // If this process ends, another answers on this stream.
                    Some(durable) => {
                        let requests = requests.unwrap_or_default();
                        let promise = durable.promise(self.replay, reader.lease(), requests);
                        if promise.await.is_err() {
                            return self.settled(asked.as_ref());
                        }
                        reader
                    }
                    None => reader.answering(asked.as_ref()),
                };
                reply::stream(match self.primed {
                    true => reader.primed(),
                    false => reader,
                })
            }
        }
    }

    /// The answer when the session was lost after the message was handed on: nobody knows whether it was carried out.
    fn settled(&self, asked: Option<&Message>) -> Reply {
        match asked {
            Some(asked) => {
                let answer = forward::lost(asked, &self.route.label());
                reply::json(StatusCode::OK, answer.into_bytes())
            }
            None => reply::refusal(
                StatusCode::BAD_GATEWAY,
                "Another process answers for this session by now, and it is not known what became of this.",
            ),
        }
    }

    /// As [`Exchange::run`]; with the answer, if it is a result.
    async fn handshake(&self, opening: Message) -> (Reply, Option<Message>) {
        let (mut reader, _) = self.hear(Frame::Message(opening));
        // However long the route takes: there is no stream before there is a session.
        match reader.beginning(None).await {
            Beginning::Answer(answer) => {
                let shaken = error_code(&answer).is_none().then(|| answer.clone());
                (reply::json(StatusCode::OK, answer.into_bytes()), shaken)
            }
            Beginning::Silence | Beginning::Stream => {
                let sentence = match self.replay.is_sealed() {
                    true => "The server is shutting down.",
                    false => "The server has not answered.",
                };
                (reply::busy(sentence), None)
            }
        }
    }

    /// Hands a frame on. True if the route was done with it at once.
    fn hear(&self, frame: Frame) -> (Reader, bool) {
        let channel = self.http_listener.fresh_channel();
        let lease = self.replay.open(channel);
        let keep_alive = self.http_listener.limits.keep_alive;
        let mut reader = Reader::new(self.replay.clone(), self.route.clone(), lease, keep_alive)
            .until(&self.caller.identity);
        if frame
            .message()
            .is_some_and(|it| it.is("subscriptions/listen"))
        {
            reader = reader.expiring(&self.caller.identity);
        }
        let at_once = self.route.hear(channel, frame, self.arrival);
        (reader, at_once)
    }
}

/// The answer to a client of a session that there is not.
pub(super) fn session_not_found() -> Box<Reply> {
    let sentence = "Session not found: it has ended. Send `initialize` to begin another.";
    reply::error(
        StatusCode::NOT_FOUND,
        b"",
        Error::SessionExpired.code(),
        sentence.into(),
    )
    .into()
}

/// The answer to a client of a session that another process answers for by now.
fn lost() -> Reply {
    reply::busy("Another process answers for this session by now. Send the request again.")
}

fn shutting_down() -> Box<Reply> {
    reply::busy("The server is shutting down.").into()
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

/// Whether a legacy client shakes hands with this.
fn begins(message: &Message) -> bool {
    message.kind() == MessageKind::Request && message.is("initialize")
}

pub(super) fn malformed(defect: &Defect) -> Reply {
    let sentence = format!("The body is not a message: {}.", defect.detail);
    reply::error(
        StatusCode::BAD_REQUEST,
        &defect.id_json,
        code::PARSE_ERROR,
        sentence,
    )
}

/// Modern clients know neither sessions nor standalone streams, and so neither GET nor DELETE (2026-07-28, earlier
/// Streamable HTTP revisions). One that names a session is told what is wrong with that instead.
fn must_not_be_modern(headers: &HeaderMap) -> Refused<()> {
    let modern = header(headers, VERSION).is_some_and(|it| it.trim() == version::MODERN);
    match modern && !headers.contains_key(SESSION_ID) {
        true => Err(reply::only("POST").into()),
        false => Ok(()),
    }
}

/// Refuses a request of a session that names a revision which no session has.
fn must_be_of_a_session(headers: &HeaderMap) -> Refused<()> {
    match header(headers, VERSION) {
        Some(version) if !version::LEGACY.contains(&version.trim()) => {
            Err(unknown_version(headers, b"").into())
        }
        _ => Ok(()),
    }
}

/// A request of a session names a revision that no session has (2025-11-25, transports: status 400).
fn unknown_version(headers: &HeaderMap, id_json: &[u8]) -> Reply {
    let version = header(headers, VERSION).unwrap_or_default();
    let shown: String = version.chars().take(40).collect();
    let sentence = format!(
        "Unsupported protocol version: MCP-Protocol-Version is {shown:?}, which is no revision of a session. \
         Nothing was executed. Send the revision that `initialize` agreed on, one of {}.",
        version::LEGACY.join(", ")
    );
    reply::error(
        StatusCode::BAD_REQUEST,
        id_json,
        code::INVALID_REQUEST,
        sentence,
    )
}

/// The code of the error that this message is.
fn error_code(answer: &Message) -> Option<i64> {
    #[derive(Deserialize)]
    struct Coded {
        code: i64,
    }
    let error: Coded = serde_json::from_slice(answer.error()?).ok()?;
    Some(error.code)
}

/// The code of an error without an id: it refuses a notification (2026-07-28, transports).
fn refused_notification(answer: &Message) -> Option<i64> {
    let nobodys = answer.id() == Some(&Id::Null);
    nobodys.then(|| error_code(answer)).flatten()
}

/// Whether this error says that the server knows no modern requests: then a client that knows both
/// eras has to see a status that makes it fall back (2026-07-28, versioning).
fn is_unsupported(answer: &Message) -> bool {
    let error = answer.error().unwrap_or_default();
    memmem::find(error, br#""outlive":{"kind":"unsupported""#).is_some()
}

/// The status that 2026-07-28 wants for an answer. What the request itself got wrong is found out
/// before anything runs, so those errors are there at once; the same code from a handler is a
/// matter between it and its caller.
fn modern_status(answer: &Message, at_once: bool) -> StatusCode {
    match error_code(answer) {
        Some(code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(code) if code::is_modern_only(code) => StatusCode::BAD_REQUEST,
        Some(code::INVALID_PARAMS | code::INVALID_REQUEST | code::PARSE_ERROR) if at_once => {
            StatusCode::BAD_REQUEST
        }
        Some(code::INVALID_REQUEST) if is_unsupported(answer) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// Where the endpoints are, as far as they fit into a sentence.
fn places(endpoints: &[Arc<Endpoint>]) -> String {
    const MOST: usize = 20;
    let paths = endpoints.iter().take(MOST).map(|it| it.path.as_str());
    let paths = paths.collect::<Vec<_>>().join(", ");
    match endpoints.len().checked_sub(MOST) {
        None | Some(0) => format!("The servers are at {paths}"),
        Some(more) => format!("The servers are at {paths}, and {more} more"),
    }
}

/// Refuses a body of another kind: no form of a web page may send one (FM-72).
pub(super) fn must_be_json(headers: &HeaderMap) -> Refused<()> {
    let kind = header(headers, CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => {
            let sentence = "The body must be JSON: Content-Type: application/json.";
            Err(reply::refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, sentence).into())
        }
    }
}

/// Whether the client takes what a call may be answered with.
fn accepts_both(headers: &HeaderMap) -> bool {
    accepts(headers, "application/json") && accepts(headers, "text/event-stream")
}

/// Whether the client takes this type. One that does not say what it takes takes everything.
pub(super) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let mut all = headers.get_all(ACCEPT).iter().peekable();
    if all.peek().is_none() {
        return true;
    }
    let (family, _) = kind.split_once('/').unwrap_or((kind, ""));
    all.filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|range| range.split(';').next().unwrap_or_default().trim())
        .any(|range| {
            range == "*/*"
                || range.eq_ignore_ascii_case(kind)
                || range
                    .strip_suffix("/*")
                    .is_some_and(|it| it.eq_ignore_ascii_case(family))
        })
}
