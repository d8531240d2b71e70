//! What each method of the protocol is.

use std::borrow::Cow;

use crate::message::Message;

/// Requests that change nothing at the server, or nothing but what a session replays anyway.
const READ_ONLY: [&str; 16] = [
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "logging/setLevel",
    "completion/complete",
    "tasks/get",
    "tasks/list",
    "tasks/result",
];

/// Requests during which a modern server may ask its client something (2026-07-28, multi round-trip requests).
const MAY_ASK: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// What a server may ask its client. Each is asked on behalf of a call, so somebody owns it.
const QUESTIONS: [&str; 3] = ["elicitation/create", "sampling/createMessage", "roots/list"];

/// Requests that only a session has; 2026-07-28 is without them.
const LEGACY_REQUESTS: [&str; 5] = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
];

/// Requests of 2026-07-28 that no session has.
const MODERN_REQUESTS: [&str; 2] = ["server/discover", "subscriptions/listen"];

/// Notifications of clients that only a session has.
const LEGACY_NOTIFICATIONS: [&str; 3] = [
    "notifications/initialized",
    "notifications/progress",
    "notifications/roots/list_changed",
];

/// Whether a request changes nothing at the server, or nothing but what a session replays anyway. What a tool
/// does, only its annotations tell.
pub fn is_read_only(method: &str) -> bool {
    READ_ONLY.contains(&method)
}

/// Whether a modern server may ask its client something while it works on this request.
pub fn may_ask(method: &str) -> bool {
    MAY_ASK.contains(&method)
}

/// Whether a request of a server asks its client for something that concerns one call, and so needs an owner.
pub fn is_question(method: &str) -> bool {
    QUESTIONS.contains(&method)
}

/// Whether a client's request exists in sessions only (up to 2025-11-25).
pub fn is_legacy_request(method: &str) -> bool {
    LEGACY_REQUESTS.contains(&method)
}

/// Whether a client's request exists outside of sessions only (from 2026-07-28 on).
pub fn is_modern_request(method: &str) -> bool {
    MODERN_REQUESTS.contains(&method)
}

/// Whether a client's notification exists in sessions only (up to 2025-11-25).
pub fn is_legacy_notification(method: &str) -> bool {
    LEGACY_NOTIFICATIONS.contains(&method)
}

/// Whether a server's notification reaches a modern client through a subscription only (2026-07-28), so that none
/// is about a request.
pub fn is_of_subscriptions(method: &str) -> bool {
    method.ends_with("/list_changed") || method == "notifications/resources/updated"
}

/// What a request is about, as its header `Mcp-Name` repeats it: a tool, a prompt, a resource.
pub fn subject(message: &Message) -> Option<Cow<'_, str>> {
    match message.method() {
        "tools/call" | "prompts/get" => message.name(),
        "resources/read" => message.uri(),
        _ => None,
    }
}
