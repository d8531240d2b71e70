//! One request and its response.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use hyper::header::ORIGIN;
use hyper::{Method, Request, StatusCode};
use outlive_core::message::Kind as MessageKind;
use outlive_core::principal::Principal;
use outlive_core::protocol::code;
use outlive_core::protocol::header::LAST_EVENT_ID;
use outlive_core::replay_buffer::Delivery;
use outlive_core::sse::EventId;
use outlive_core::{Frame, Message};
use tokio::sync::OwnedSemaphorePermit;

use super::access::{AccessRules, header};
use super::arrival::{Arrival, Arrived};
use super::bearer;
use super::body::{Source, Unread};
use super::deadline::DeadlineTimer;
use super::exchange::HttpExchange;
use super::forward::{Wanted, elsewhere};
use super::head::{Head, Revision};
use super::listener::{Endpoint, HttpListener};
use super::passport::FORWARD;
use super::reader::Reader;
use super::refusal::{
    Refused, accepts, accepts_both, malformed, must_be_json, must_be_of_a_session,
    must_not_be_modern, places, session_not_found, shutting_down, unknown_version,
};
use super::replicas::{ANSWERED, REFUSED, Replicas};
use super::reply::{self, Reply, SESSION_ID};
use super::request_metadata;
use super::session::{ClientSession, ExchangeGuard, is_id};
use super::token::Identity;
use super::user::USER_LABEL;
use super::{cors, sse};

/// Who sends a request.
pub(super) struct Caller<'a> {
    /// The alarm of its connection.
    pub(super) deadline: &'a DeadlineTimer,
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
    /// A request that is to be [answered](HttpListener::answer).
    pub(crate) fn arrived(&self, request: Request<Source>) -> Arrived {
        Arrived::new(request, self.limits.body_time)
    }

    /// Answers a request.
    pub(crate) async fn answer(
        self: &Arc<HttpListener>,
        arrived: Arrived,
        deadline: &DeadlineTimer,
    ) -> Reply {
        let (arrival, head) = (&arrived.arrival, arrived.head);
        let (headers, uri) = (arrival.headers(), arrival.uri());
        if let Err(refusal) = AccessRules::check_single(headers, uri) {
            return *refusal;
        }
        if let Some(reply) = self.probe(arrival) {
            return reply;
        }
        if head.has_passport && self.replicas().is_some() {
            let answered = Box::pin(self.forwarded(arrived, deadline));
            let mut reply = answered.await.unwrap_or_else(|refusal| *refusal);
            // Whatever is said here, nothing of it was lost on the way.
            reply.headers_mut().entry(FORWARD).or_insert(ANSWERED);
            return reply;
        }
        // What nearly every client says needs no closer look.
        let is_usual = head.is_called_local && !head.has_origin && uri.authority().is_none();
        if !is_usual && let Err(refusal) = self.access.check_names(headers, uri) {
            return *refusal;
        }
        let origin = match head.has_origin {
            true => headers.get(ORIGIN).cloned(),
            false => None,
        };
        let mut reply = match cors::is_question(arrival.method(), headers) {
            true => cors::answer(headers),
            false => {
                let admitted = self.admit(arrived, deadline).await;
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
        arrived: Arrived,
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
        let arrival = &arrived.arrival;
        let (headers, method) = (arrival.headers(), arrival.method());
        let session = header(headers, SESSION_ID).unwrap_or_default();
        let mut passports = headers.get_all(FORWARD).iter();
        let (Some(passport), None) = (passports.next(), passports.next()) else {
            return Ok(refused("There are two passports.".into()));
        };
        let admitted = replicas.admit(passport, method, arrival.uri(), session);
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
                let shown = self.access.authenticate(headers, arrival.uri().path());
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
        let named = self.endpoint_at(arrival.uri().path());
        let answered = self.admitted(arrived, named, identity, true, deadline);
        answered.await
    }

    async fn admit(
        self: &Arc<HttpListener>,
        arrived: Arrived,
        deadline: &DeadlineTimer,
    ) -> Refused<Reply> {
        let arrival = &arrived.arrival;
        let (method, path) = (arrival.method(), arrival.uri().path());
        let named = self.endpoint_at(path);
        if named.is_none() {
            // Rare and large: not in the future of every request.
            let page = Box::pin(self.page(method, path, arrival.headers()));
            if let Some(page) = page.await {
                return page;
            }
        }
        if let Some(metadata) = self.resource_metadata(method, path) {
            return Ok(metadata);
        }
        let authentication = self.access.authenticate(arrival.headers(), path);
        let identity = authentication.settled().await?;
        let identity = identity.or(arrival.parts.extensions.get().copied());
        self.admitted(arrived, named, identity, false, deadline)
            .await
    }

    /// Answers a client that may come in. `named`: the endpoint at the path of its request.
    async fn admitted(
        self: &Arc<HttpListener>,
        arrived: Arrived,
        named: Option<Arc<Endpoint>>,
        identity: Identity,
        is_forwarded: bool,
        deadline: &DeadlineTimer,
    ) -> Refused<Reply> {
        let Arrived {
            mut arrival,
            head,
            body,
        } = arrived;
        // Nobody else has it yet.
        if let Some(arrival) = Arc::get_mut(&mut arrival) {
            arrival.principal = identity.principal();
            if let Some(user) = identity.user() {
                arrival.parts.extensions.insert(user.clone());
            }
        }
        if head.has_via && self.backend.is_own(arrival.headers()) {
            return Ok(reply::cyclic());
        }
        let path = arrival.uri().path();
        let of_view;
        let (first, named) = match identity.view() {
            None => (&self.first, named),
            Some(view) => {
                let (first, named) = self.within_view(view, path, named)?;
                of_view = first;
                (&of_view, named)
            }
        };
        let caller = &Caller {
            deadline,
            head,
            identity,
            is_forwarded,
            // The paths of HTTP+SSE are those of the first.
            endpoint: named.as_ref().unwrap_or(first),
        };
        match path {
            _ if named.is_some() => match *arrival.method() {
                Method::POST => self.post(arrival, body, caller).await,
                // Rare and large: not in the future of every request.
                Method::GET => Box::pin(self.get(&arrival, caller)).await,
                Method::DELETE => Box::pin(self.delete(&arrival, caller)).await,
                _ => Ok(reply::only("POST, GET, DELETE")),
            },
            sse::STREAM => Box::pin(self.sse_stream(&arrival, caller)).await,
            sse::MESSAGES => Box::pin(self.sse_message(&arrival, body, caller)).await,
            _ => {
                let sentence = match &self.endpoints().all[..] {
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
        arrival: Arc<Arrival>,
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
            self.session(&arrival, caller, wanted).await?;
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
        arrival: Arc<Arrival>,
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
            caller,
        };
        Ok(exchange.run(frame, arrival).await)
    }

    async fn legacy(
        &self,
        arrival: Arc<Arrival>,
        frame: Frame,
        body: Option<Bytes>,
        caller: &Caller<'_>,
    ) -> Refused<Reply> {
        let wanted = Wanted::Say(&frame, body.as_ref());
        let (session, frame) = match (self.session(&arrival, caller, wanted).await, frame) {
            (Ok(session), frame) => (session, frame),
            // A client that begins anew may still carry its old id (FM-04).
            (Err(_), Frame::Message(message)) if begins(&message) => {
                return Box::pin(self.begin(message, arrival, caller)).await;
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
            caller,
        };
        Ok(exchange.run(frame, arrival).await)
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
        match (self.known_session(id, false, caller), &self.durability) {
            (None, Some(durability)) if is_id(id) => {
                // Large: not in the future of every request.
                Box::pin(self.look_elsewhere(durability, id, arrival, caller, wanted)).await
            }
            (found, _) => found.ok_or_else(session_not_found),
        }
    }

    /// The session of this id, if it is the caller's, and if it is one of HTTP+SSE, or is none.
    pub(super) fn find_session(
        &self,
        id: &str,
        sse: bool,
        caller: &Caller<'_>,
    ) -> Refused<Arc<ClientSession>> {
        let session = self.known_session(id, sse, caller);
        session.ok_or_else(session_not_found)
    }

    fn known_session(
        &self,
        id: &str,
        sse: bool,
        caller: &Caller<'_>,
    ) -> Option<Arc<ClientSession>> {
        let session = self.sessions.get(id, caller.principal());
        let session = session.filter(|session| session.endpoint == caller.endpoint.number);
        session.filter(|session| (session.replay.delivery == Delivery::OneStream) == sse)
    }

    /// Reads a body within its bounds. Nobody behind the listener reads it again.
    pub(super) async fn read(&self, body: Unread, caller: &Caller<'_>) -> Refused<Frame> {
        let limit = self.message_limit.load(Ordering::Relaxed);
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
        let limit = self.message_limit.load(Ordering::Relaxed);
        let body = body.read(limit, &self.bodies, caller.deadline).await?;
        caller.check()?;
        Ok((Frame::read_body(body.clone()), Some(body)))
    }
}

/// Whether a legacy client shakes hands with this.
fn begins(message: &Message) -> bool {
    message.kind() == MessageKind::Request && message.is("initialize")
}
