//! What people read: events, reasons and errors.

use outlive_core::event::DropReason;
use outlive_core::server::{CancelReason, CloseKind, Level, RpcError, ServerEvent};
use serde_json::json;

fn events() -> Vec<(ServerEvent, bool, serde_json::Value, &'static str)> {
    let dropped = |reason| ServerEvent::Dropped {
        reason,
        detail: "d".into(),
    };
    vec![
        (
            ServerEvent::Connected {
                client: Some("c 1".into()),
                version: "v".into(),
            },
            false,
            json!({"event": "connected", "client": "c 1", "version": "v"}),
            "serving c 1 (v)",
        ),
        (
            ServerEvent::Connected {
                client: None,
                version: "v".into(),
            },
            false,
            json!({"event": "connected", "client": null, "version": "v"}),
            "serving a client (v)",
        ),
        (
            ServerEvent::Refused {
                id: "1".into(),
                method: "m".into(),
                kind: "k",
            },
            true,
            json!({"event": "refused", "id": "1", "method": "m", "kind": "k"}),
            "answered m (id 1) with k",
        ),
        (
            dropped(DropReason::NotAMessage),
            true,
            json!({"event": "dropped", "reason": "not_a_message", "detail": "d"}),
            "dropped: not_a_message (d)",
        ),
        (
            dropped(DropReason::TooLarge),
            true,
            json!({"event": "dropped", "reason": "too_large", "detail": "d"}),
            "dropped: too_large (d)",
        ),
        (
            dropped(DropReason::LateAnswer),
            false,
            json!({"event": "dropped", "reason": "late_answer", "detail": "d"}),
            "dropped: late_answer (d)",
        ),
        (
            ServerEvent::Faulted {
                method: "m".into(),
                words: "w".into(),
            },
            true,
            json!({"event": "faulted", "method": "m", "words": "w"}),
            "the handler of m failed: w",
        ),
        (
            ServerEvent::Draining {
                why: "shutdown".into(),
                in_flight: 0,
            },
            false,
            json!({"event": "draining", "why": "shutdown", "in_flight": 0}),
            "closing: shutdown",
        ),
        (
            ServerEvent::Draining {
                why: "shutdown".into(),
                in_flight: 1,
            },
            false,
            json!({"event": "draining", "why": "shutdown", "in_flight": 1}),
            "closing: shutdown; 1 request may still finish",
        ),
        (
            ServerEvent::Draining {
                why: "end of input".into(),
                in_flight: 2,
            },
            false,
            json!({"event": "draining", "why": "end of input", "in_flight": 2}),
            "closing: end of input; 2 requests may still finish",
        ),
    ]
}

#[test]
fn events_are_told_as_data_and_in_words() {
    for (event, notable, data, words) in events() {
        assert_eq!(event.to_json(), data);
        assert_eq!(event.to_string(), words);
        assert_eq!(event.is_notable(), notable, "{event}");
        assert_eq!(data["event"], event.name());
    }
}

#[test]
fn reasons_are_told_in_words() {
    for (reason, word, words) in [
        (
            CancelReason::Client(Some("why".into())),
            "client",
            "the client cancelled the request: why",
        ),
        (
            CancelReason::Client(None),
            "client",
            "the client cancelled the request",
        ),
        (
            CancelReason::TransportClosed,
            "transport_closed",
            "the client is gone",
        ),
        (
            CancelReason::Deadline,
            "deadline",
            "the request took too long",
        ),
        (
            CancelReason::Shutdown,
            "shutdown",
            "the server is shutting down",
        ),
    ] {
        assert_eq!((reason.as_str(), &*reason.to_string()), (word, words));
    }
    for (kind, words) in [
        (CloseKind::Eof, "end of input"),
        (CloseKind::BrokenPipe, "broken pipe"),
        (CloseKind::Reset, "connection reset"),
        (CloseKind::Failed("odd".into()), "odd"),
    ] {
        assert_eq!(kind.to_string(), words);
    }
}

#[test]
fn levels_have_names_and_an_order() {
    for pair in Level::ALL.windows(2) {
        assert!(pair[0] < pair[1]);
    }
    for level in Level::ALL {
        assert_eq!(Level::of(level.as_str()), Some(level));
    }
    assert_eq!(Level::of("loud"), None);
}

#[test]
fn an_error_is_an_object_with_or_without_data() {
    let mut error = RpcError::new(-5, "a \"b\"");
    assert_eq!(error.to_json(), r#"{"code":-5,"message":"a \"b\""}"#);
    error.data = Some("[1]".into());
    assert_eq!(
        error.to_json(),
        r#"{"code":-5,"message":"a \"b\"","data":[1]}"#
    );
}
