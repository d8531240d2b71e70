//! What a host is told when its server was replaced (FM-74).
//!
//! MCP has no message for that. A log message is shown by hosts that have asked for log messages, and passes unseen by
//! all others. It is sent only if the server that is gone had been asked something that may have changed its state:
//! one that dies while nobody uses it has lost nothing of its host's.

use serde::Deserialize;
use serde_json::json;

use crate::message::Message;

/// Tells that the server of this name was replaced.
pub(crate) fn server_replaced(server: &str) -> Message {
    let params = json!({
        "level": "warning",
        "logger": "outlive",
        "data": {
            "event": "server_replaced",
            "server": server,
            "message": "The server was lost, and a new one is in service, or a new session with it. What the old one \
                        kept in memory is gone.",
        },
    });
    Message::notification("notifications/message", params.to_string().as_bytes())
}

/// Whether a log message is [this one](server_replaced), to the byte: then it says nothing about any client, and all of
/// them may know it.
pub(crate) fn is_server_replaced(message: &Message) -> bool {
    #[derive(Deserialize)]
    struct Params {
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        server: String,
    }
    let params: Option<Params> = serde_json::from_slice(message.params().unwrap_or_default()).ok();
    params.is_some_and(|it| server_replaced(&it.data.server).bytes() == message.bytes())
}

/// Whether a host that has sent this `logging/setLevel` wants to hear warnings.
pub(crate) fn wants_warnings(set_level: &Message) -> bool {
    let level = set_level.level();
    matches!(
        level.as_deref(),
        Some("debug" | "info" | "notice" | "warning")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_again_and_nothing_else_is_taken_for_it() {
        let told = server_replaced("time \"1\"");
        assert!(told.is("notifications/message") && is_server_replaced(&told));
        assert_eq!(told.level().as_deref(), Some("warning"));
        let text = String::from_utf8(told.bytes().to_vec()).expect("text");
        for other in [
            text.replacen("gone.", "gone: 42.", 1),
            text.replacen("warning", "error", 1),
            text.replacen("\"server\":", "\"more\":1,\"server\":", 1),
            text.replacen("\"server\":", "\"client\":", 1),
        ] {
            let other = Message::read(other.into_bytes().into()).expect("a message");
            assert!(!is_server_replaced(&other), "{other:?}");
        }
    }

    #[test]
    fn warnings_are_wanted_from_levels_below_them() {
        for (level, wanted) in [
            ("debug", true),
            ("info", true),
            ("notice", true),
            ("warning", true),
            ("error", false),
            ("emergency", false),
            ("loud", false),
        ] {
            let params = json!({ "level": level }).to_string();
            let asked = Message::request(b"1", "logging/setLevel", params.as_bytes());
            assert_eq!(wants_warnings(&asked), wanted, "{level}");
        }
    }
}
