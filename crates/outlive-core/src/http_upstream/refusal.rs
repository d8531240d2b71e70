//! What a response without an answer means for its request.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::frame::Frame;
use crate::link::{LinkInput, RequestFailure};
use crate::message::{Id, Kind, Message};
use crate::protocol::{code, method};

/// What is said where a session is lost, beside 404 (FM-04).
const LOST: [&str; 10] = [
    "session not found",
    "session has been terminated",
    "session terminated",
    "session expired",
    "session has expired",
    "invalid session",
    "unknown session",
    "no valid session",
    "no such session",
    "server not initialized",
];

/// Whether this is an error in the words of a modern server: over HTTP it says of an unknown method that it is not
/// found, too (2026-07-28, Backward Compatibility).
fn is_modern(code: i64) -> bool {
    code::is_modern_only(code) || code == code::METHOD_NOT_FOUND
}

/// A response that is no answer.
#[derive(Debug)]
pub(super) struct HttpRefusal {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
    /// The JSON-RPC error in the body, if that is what it is. Gateways and identity providers have an `error` in
    /// theirs, too, which is a word and no answer.
    error: Option<Message>,
    /// The request named a session.
    pub(super) in_session: bool,
}

impl HttpRefusal {
    pub(super) fn new(
        status: u16,
        retry_after: Option<Duration>,
        body: Bytes,
        in_session: bool,
    ) -> HttpRefusal {
        let error = match Frame::read_body(body.clone()) {
            Frame::Message(it) if it.kind() == Kind::Response && has_error(&it) => Some(it),
            _ => None,
        };
        HttpRefusal {
            status,
            retry_after,
            body,
            error,
            in_session,
        }
    }

    /// Whether it has words in it that servers have for a session they do not know.
    fn sounds_lost(&self) -> bool {
        let text = String::from_utf8_lossy(&self.body).to_lowercase();
        LOST.iter().any(|words| text.contains(words))
    }

    /// Whether the server says that it has forgotten the session.
    pub(super) fn is_session_lost(&self) -> bool {
        match self.status {
            _ if !self.in_session => false,
            404 => true,
            400 | 410 => self.sounds_lost(),
            // Servers built with early versions of rmcp. Any other words in a 401 may be about a login.
            401 => self.body.ends_with(b"Session not found"),
            _ => false,
        }
    }

    /// The code of the JSON-RPC error in the body.
    pub(super) fn code(&self) -> Option<i64> {
        let error = self.error.as_ref()?;
        let error: Value = serde_json::from_slice(error.error()?).ok()?;
        error["code"].as_i64()
    }

    /// Whether there may be an HTTP+SSE server: it refuses the method or the address, and not in the
    /// words of a newer one.
    pub(super) fn may_be_sse(&self) -> bool {
        matches!(self.status, 400 | 404 | 405) && !self.code().is_some_and(is_modern)
    }

    /// Whether a server of the legacy era would refuse a modern request so: not for who asks or how often,
    /// and not in the words of a newer one.
    pub(super) fn is_of_legacy(&self) -> bool {
        let about_it = matches!(self.status, 400 | 404 | 405 | 406 | 415 | 422 | 501);
        about_it && !self.code().is_some_and(is_modern)
    }

    /// What it means for this request, and whether the session is to be asked if it is still known.
    pub(super) fn conclusion(self, request: &Message) -> (LinkInput, bool) {
        let id = request.id().cloned().unwrap_or(Id::Null);
        let status = self.status;
        let lost = self.is_session_lost();
        let own = self.error.as_ref().is_some_and(|error| is_own(error, &id));
        // Whoever answers a request by its id has read it, and may have executed it: a tool that says 404 of what it
        // did not find. Such an answer is passed on, and the session is asked. Servers that look for the session before
        // they read answer without that id. Only if the words are about a session, and nothing is done by the request,
        // is it sent again all the same, since some of them do have the id.
        if lost && !(own && !(self.sounds_lost() && changes_nothing(request))) {
            let id = Some(id);
            return (LinkInput::Expired { id, status }, false);
        }
        let credentials = matches!(status, 401 | 403);
        let busy = status == 429 || status == 503 && (self.retry_after.is_some() || !own);
        if let Some(error) = self.error.filter(|_| !credentials && !busy) {
            // The id is often null or made up; whom it answers is plain.
            let error = error.with_id(id.to_json().as_bytes());
            return (LinkInput::Frame(Frame::Message(error)), lost);
        }
        let failure = match status {
            // Whoever was behind the gateway may have executed it; a request that took too long may have, too; and
            // what was executed is redirected with any of these, but 307 and 308.
            300..=306 | 309..=399 | 408 | 500 | 502 | 504.. => {
                RequestFailure::Lost(format!("status {status}"))
            }
            status => RequestFailure::Rejected {
                status,
                retry_after: self.retry_after,
            },
        };
        (LinkInput::Unanswered { id, failure }, false)
    }
}

/// Whether the `error` of a response is one of JSON-RPC.
pub(super) fn has_error(message: &Message) -> bool {
    let error = message.error().map(serde_json::from_slice::<Value>);
    error.is_some_and(|error| error.is_ok_and(|error| error["code"].is_number()))
}

/// Whether a response has the id of this request, perhaps as a text instead of a number.
pub(super) fn is_own(answer: &Message, id: &Id) -> bool {
    answer
        .id()
        .is_some_and(|theirs| theirs == id || theirs.other_type().as_ref() == Some(id))
}

/// Whether it does no harm if a server has this twice.
pub(super) fn changes_nothing(message: &Message) -> bool {
    message.kind() != Kind::Request || method::is_read_only(message.method())
}

/// Whether an answer sounds as if the server had forgotten the session, although its status does not say so (FM-04).
/// That proves nothing: the tool may have sessions of its own, and have been executed.
pub(super) fn sounds_lost(answer: &Message) -> bool {
    let Some(error) = answer.error().filter(|error| error.len() < 500) else {
        return false;
    };
    let error: Value = serde_json::from_slice(error).unwrap_or_default();
    let message = error["message"].as_str().unwrap_or_default().to_lowercase();
    matches!(error["code"].as_i64(), Some(-32001 | -32600 | -32602))
        && LOST.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, body: &str, in_session: bool) -> HttpRefusal {
        HttpRefusal::new(status, None, body.to_string().into(), in_session)
    }

    fn conclusion(status: u16, body: &str, in_session: bool) -> String {
        verdict_on("tools/call", status, body, in_session)
    }

    fn verdict_on(method: &str, status: u16, body: &str, in_session: bool) -> String {
        let request = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}"}}"#);
        let request = Message::read(request.into()).unwrap();
        let (input, asks) = refusal(status, body, in_session).conclusion(&request);
        match input {
            LinkInput::Expired { .. } => "expired".into(),
            LinkInput::Frame(Frame::Message(it)) if asks => {
                format!("asks about {}", String::from_utf8_lossy(it.bytes()))
            }
            LinkInput::Frame(Frame::Message(it)) => {
                String::from_utf8_lossy(it.bytes()).into_owned()
            }
            LinkInput::Unanswered { failure, .. } => match failure {
                RequestFailure::Rejected { status, .. } => format!("rejected {status}"),
                RequestFailure::WrongEra(why) => format!("wrong era: {why}"),
                RequestFailure::Lost(why) => format!("lost: {why}"),
                RequestFailure::Unsent(why) => format!("unsent: {why}"),
                RequestFailure::Elsewhere { why, .. } => format!("elsewhere: {why}"),
            },
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_session_is_lost_if_the_server_says_so_to_somebody_who_named_one() {
        let python = r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}"#;
        for (status, body) in [
            (404, ""),
            (404, "<html>Not Found</html>"),
            (404, python),
            (400, python),
            (400, "Bad Request: Server not initialized"),
            (410, "Session expired"),
            (401, "Unauthorized: Session not found"),
        ] {
            assert_eq!(conclusion(status, body, true), "expired", "{status} {body}");
            assert_ne!(
                conclusion(status, body, false),
                "expired",
                "{status} {body}"
            );
        }
        assert_eq!(conclusion(400, "no", true), "rejected 400");
        assert_eq!(conclusion(401, "session expired", true), "rejected 401");
        assert_eq!(conclusion(403, "session not found", true), "rejected 403");
    }

    #[test]
    fn who_answers_a_call_by_its_id_may_have_executed_it() {
        let says = |id: &str, words: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32001,"message":"{words}"}}}}"#
            )
        };
        for (status, words) in [
            (404, "no such file"),
            (404, "Session not found"),
            (400, "Session not found"),
            (410, "session expired"),
        ] {
            for id in ["7", "\"7\""] {
                let told = conclusion(status, &says(id, words), true);
                assert!(told.starts_with("asks about"), "{status} {words}: {told}");
                assert!(told.contains(words), "{status} {words}: {told}");
            }
            for id in ["null", "\"server-error\"", "8"] {
                assert_eq!(conclusion(status, &says(id, words), true), "expired");
            }
            // Where nothing is done, it is sent again if that is what the words are about.
            let listed = verdict_on("tools/list", status, &says("7", words), true);
            assert_eq!(listed == "expired", words != "no such file", "{listed}");
        }
        // Without a session there is none to ask for.
        assert_eq!(
            conclusion(404, &says("7", "no such file"), false),
            says("7", "no such file")
        );
    }

    #[test]
    fn an_error_of_the_server_reaches_whom_it_answers() {
        let body = "{\n \"jsonrpc\": \"2.0\", \"id\": null,\n \"error\": {\"code\": -32022, \"message\": \"no\"}}\n";
        let told = conclusion(400, body, false);
        assert!(told.contains("\"id\": 7"), "{told}");
        assert!(told.contains("-32022"), "{told}");
    }

    #[test]
    fn an_error_that_is_no_json_rpc_is_no_answer() {
        for body in [
            r#"{"error":"invalid_request","error_description":"x"}"#,
            r#"{"error":null}"#,
            r#"{"error":{"message":"no code"}}"#,
        ] {
            assert_eq!(conclusion(400, body, true), "rejected 400", "{body}");
            assert_eq!(conclusion(502, body, true), "lost: status 502", "{body}");
            assert_eq!(conclusion(303, body, true), "lost: status 303", "{body}");
        }
    }

    #[test]
    fn what_may_have_been_executed_is_not_called_rejected() {
        for status in [300, 301, 302, 303, 304, 408, 500, 502, 504, 520] {
            assert_eq!(
                conclusion(status, "", true),
                format!("lost: status {status}")
            );
        }
        for status in [307, 308, 401, 403, 413, 429, 503, 501] {
            let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}"#;
            assert_eq!(conclusion(status, "", true), format!("rejected {status}"));
            if matches!(status, 401 | 403 | 429 | 503) {
                assert_eq!(
                    conclusion(status, error, true),
                    format!("rejected {status}")
                );
            }
        }
    }

    #[test]
    fn only_an_old_server_is_looked_for_behind_a_refusal() {
        let modern = |code| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"no"}}}}"#)
        };
        for status in [400, 404, 405] {
            assert!(refusal(status, "", false).may_be_sse());
            assert!(refusal(status, &modern(-32600), false).may_be_sse());
            for code in [-32020, -32021, -32022, -32601] {
                assert!(!refusal(status, &modern(code), false).may_be_sse());
            }
        }
        for status in [401, 403, 406, 429, 500, 502, 503] {
            assert!(!refusal(status, "", false).may_be_sse(), "{status}");
        }
    }

    #[test]
    fn a_legacy_server_is_known_by_what_a_modern_one_would_not_say() {
        let error = |code| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"no"}}}}"#)
        };
        for status in [400, 404, 405, 406, 415, 422, 501] {
            assert!(refusal(status, "<html>", false).is_of_legacy());
            assert!(refusal(status, &error(-32600), false).is_of_legacy());
            for code in [-32020, -32021, -32022, -32601] {
                assert!(!refusal(status, &error(code), false).is_of_legacy());
            }
        }
        for status in [401, 403, 408, 413, 429, 500, 503] {
            assert!(!refusal(status, "", false).is_of_legacy(), "{status}");
        }
    }
}
