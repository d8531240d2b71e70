//! What is said where a host and a server are of different eras.
//!
//! Neither is translated into the other. A server refuses what is not of its era in words of its own choice,
//! or in none; the specification tells how to know (2026-07-28, Backward Compatibility), and what is known is
//! said. A host that speaks both then goes on in the other way.

use serde_json::Value;

use super::refusal::HttpRefusal;
use crate::link::RequestFailure;
use crate::message::Message;
use crate::protocol::code;

/// How much of a server's words is repeated.
const WORDS: usize = 200;

/// A modern request was refused as by a legacy server.
pub(super) fn legacy_only(refusal: &HttpRefusal) -> RequestFailure {
    RequestFailure::WrongEra(format!(
        "The server refused it with status {}{}, as servers do that speak only versions of the protocol \
         before 2026-07-28. A host can use it that begins with `initialize`.",
        refusal.status,
        words(&refusal.body)
    ))
}

/// What a server said, shortened, to stand behind a status.
fn words(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(answer) => answer["error"]["message"].as_str().map(str::to_string),
        Err(_) => None,
    };
    let text = text.unwrap_or_default();
    match text.trim() {
        "" => String::new(),
        text => format!(" ({:?})", text.chars().take(WORDS).collect::<String>()),
    }
}

/// The answer to `initialize`, with what it means if it is that of a server that knows no handshake.
pub(super) fn explain(answer: Message) -> Message {
    explained(&answer).unwrap_or(answer)
}

fn explained(answer: &Message) -> Option<Message> {
    let mut error: Value = serde_json::from_slice(answer.error()?).ok()?;
    let code = error["code"].as_i64()?;
    let versions = error["data"]["supported"].as_array();
    let versions: Vec<&str> = versions
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    // Of two eras, it only does not like the version it was offered.
    let dual = versions.iter().any(|version| *version < "2026");
    // To a server that has no handshake, all its methods are unknown.
    if dual || !code::is_modern_only(code) && code != code::METHOD_NOT_FOUND {
        return None;
    }
    let versions = match versions.is_empty() {
        true => "2026-07-28 or later".into(),
        false => versions.join(", "),
    };
    let said = error["message"].as_str().unwrap_or_default();
    let sentence = format!(
        "The server speaks only versions of the protocol that have no handshake ({versions}), and a host that \
         begins with `initialize` cannot use it. It said: {said}"
    );
    error["message"] = sentence.into();
    let error = error.to_string();
    Some(Message::failure(answer.id_json(), error.as_bytes()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn explained_message(error: Value) -> String {
        let answer = json!({"jsonrpc": "2.0", "id": 7, "error": error});
        let answer = explain(Message::read(answer.to_string().into()).unwrap());
        let answer: Value = serde_json::from_slice(answer.bytes()).unwrap();
        assert_eq!(answer["id"], 7);
        assert_eq!(answer["error"]["code"], error["code"]);
        assert_eq!(answer["error"]["data"], error["data"]);
        answer["error"]["message"].as_str().unwrap().to_string()
    }

    #[test]
    fn a_server_without_handshakes_is_told_from_one_that_dislikes_this_one() {
        for error in [
            json!({"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}),
            json!({"code": -32020, "message": "no"}),
            json!({"code": -32601, "message": "no"}),
        ] {
            let told = explained_message(error);
            assert!(
                told.contains("2026-07-28") && told.contains("`initialize`"),
                "{told}"
            );
            assert!(told.ends_with("It said: no"), "{told}");
        }
        let both = json!(["2026-07-28", "2025-06-18"]);
        for error in [
            json!({"code": -32022, "message": "no", "data": {"supported": both}}),
            json!({"code": -32602, "message": "no"}),
            json!({"code": 1, "message": "no"}),
        ] {
            assert_eq!(explained_message(error), "no");
        }
    }
}
