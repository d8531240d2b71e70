//! Responses.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use outlive_core::protocol::{code, header};
use outlive_core::server::RpcError;

use super::forward::Forwarded;
use super::reader::{Cut, Reader};

pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static(header::SESSION_ID);
pub(crate) const VERSION: HeaderName = HeaderName::from_static(header::PROTOCOL_VERSION);
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// What a page may do, whatever is in it: run our script, ask us, and show a picture that is part of it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A response.
pub(crate) type Reply = Response<Content>;

/// What a response consists of.
pub(crate) enum Content {
    /// These bytes, if they have not been sent.
    Whole(Option<Bytes>),
    /// What a reader reads.
    Stream(Box<Reader>),
    /// What another replica answers.
    Forwarded(Box<Forwarded>),
}

impl Body for Content {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match &mut *self {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Stream(reader) => reader
                .poll_piece(cx)
                .map(|piece| piece.map(|piece| piece.map(Frame::data))),
            Content::Forwarded(body) => body.poll_piece(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Content::Whole(bytes) => bytes.is_none(),
            Content::Stream(_) => false,
            Content::Forwarded(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64)
            }
            Content::Stream(_) => SizeHint::default(),
            Content::Forwarded(body) => body.size_hint(),
        }
    }
}

fn reply(status: StatusCode, content: Content) -> Reply {
    let mut reply = Response::new(content);
    *reply.status_mut() = status;
    reply
}

/// Nothing but a status.
pub(crate) fn bare(status: StatusCode) -> Reply {
    reply(status, Content::Whole(None))
}

/// A JSON document.
pub(crate) fn json(status: StatusCode, body: Bytes) -> Reply {
    let mut reply = reply(status, Content::Whole(Some(body)));
    let json = HeaderValue::from_static("application/json");
    reply.headers_mut().insert(CONTENT_TYPE, json);
    reply
}

/// A page that changes all the time, for whoever watches the server.
pub(crate) fn page(status: StatusCode, kind: &'static str, body: String) -> Reply {
    let mut reply = reply(status, Content::Whole(Some(body.into())));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let sniffing = HeaderValue::from_static("nosniff");
    headers.insert(X_CONTENT_TYPE_OPTIONS, sniffing);
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    reply
}

/// A stream of events. Nobody on the way is to hold it back (FM-73).
pub(crate) fn stream(reader: Reader) -> Reply {
    let mut reply = reply(StatusCode::OK, Content::Stream(Box::new(reader)));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    reply
}

/// How an error begins that answers no request in particular.
const ANONYMOUS: &str = r#"{"jsonrpc":"2.0","error":"#;

/// An error of ours that answers the request of this id, or none in particular.
pub(crate) fn error(status: StatusCode, id_json: &[u8], code: i64, sentence: String) -> Reply {
    let error = RpcError::new(code, sentence).to_json();
    let body = match std::str::from_utf8(id_json) {
        Ok(id) if !id.is_empty() => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#),
        _ => format!("{ANONYMOUS}{error}}}"),
    };
    json(status, body.into())
}

/// The refusal of what a gateway has sent to itself.
pub(crate) fn cyclic() -> Reply {
    let sentence = "This gateway has sent this request to itself: the address of one of its servers leads back here \
                    (cyclic). Nothing was executed. Remove that server from the file of one of the gateways.";
    let about = r#"{"outlive":{"kind":"cyclic","outcome":"rejected","retryable":false}}"#;
    let error = RpcError {
        code: code::CYCLIC,
        message: sentence.into(),
        data: Some(about.into()),
    };
    let body = format!("{ANONYMOUS}{}}}", error.to_json());
    json(StatusCode::LOOP_DETECTED, body.into())
}

/// A refusal of the whole exchange.
pub(crate) fn refusal(status: StatusCode, sentence: impl Into<String>) -> Reply {
    error(status, b"", code::INVALID_REQUEST, sentence.into())
}

/// A refusal as the answer to the request of this id. Some clients tell their caller of nothing else.
pub(crate) fn addressed(mut refusal: Reply, id_json: &[u8]) -> Reply {
    if let Content::Whole(Some(body)) = refusal.body()
        && let Some(rest) = body.strip_prefix(ANONYMOUS.as_bytes())
        && !id_json.is_empty()
    {
        let parts: [&[u8]; 4] = [br#"{"jsonrpc":"2.0","id":"#, id_json, br#","error":"#, rest];
        let body = Bytes::from(parts.concat());
        *refusal.body_mut() = Content::Whole(Some(body));
    }
    refusal
}

/// Come again later.
pub(crate) fn busy(sentence: &str) -> Reply {
    after_a_second(refusal(StatusCode::SERVICE_UNAVAILABLE, sentence))
}

/// Come again later, in the words of this error.
pub(crate) fn later(error: Bytes) -> Reply {
    after_a_second(json(StatusCode::SERVICE_UNAVAILABLE, error))
}

fn after_a_second(mut reply: Reply) -> Reply {
    let second = HeaderValue::from_static("1");
    reply.headers_mut().insert(RETRY_AFTER, second);
    reply
}

/// A token is needed.
pub(crate) fn unauthorized(sentence: &str) -> Reply {
    let mut reply = refusal(StatusCode::UNAUTHORIZED, sentence);
    reply
        .headers_mut()
        .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    reply
}

/// Only these methods.
pub(crate) fn only(methods: &'static str) -> Reply {
    let sentence = format!("This address takes {methods} only.");
    let mut reply = refusal(StatusCode::METHOD_NOT_ALLOWED, sentence);
    reply
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(methods));
    reply
}
