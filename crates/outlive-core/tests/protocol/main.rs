//! `outlive_core::protocol` against the published schemas.
//!
//! `schemas.json` has, of each schema, the methods by who sends them (`ClientRequest`, `ServerNotification`, …; the
//! questions of 2026-07-28 are its `InputRequest`) and the constants that stand as codes of errors.

use std::collections::BTreeMap;

use outlive_core::Message;
use outlive_core::protocol::{Era, List, code, method, version};
use serde::Deserialize;

#[derive(Deserialize)]
struct Schema {
    #[serde(rename = "client requests")]
    client_requests: Vec<String>,
    #[serde(rename = "client notifications", default)]
    client_notifications: Vec<String>,
    #[serde(rename = "server requests", default)]
    server_requests: Vec<String>,
    #[serde(rename = "server notifications")]
    server_notifications: Vec<String>,
    codes: Vec<i64>,
}

fn schemas() -> BTreeMap<String, Schema> {
    serde_json::from_str(include_str!("schemas.json")).expect("the extract is JSON")
}

fn legacy() -> Vec<Schema> {
    let of_legacy = |(name, schema)| (name != version::MODERN).then_some(schema);
    schemas().into_iter().filter_map(of_legacy).collect()
}

fn modern() -> Schema {
    schemas()
        .remove(version::MODERN)
        .expect("the modern schema")
}

#[test]
fn each_published_version_has_its_era() {
    let mut known: Vec<&str> = version::LEGACY.to_vec();
    known.push(version::MODERN);
    assert!(known.is_sorted());
    assert_eq!(schemas().into_keys().collect::<Vec<_>>(), known);
    for version in version::LEGACY {
        assert_eq!(version::era(version), Some(Era::Legacy));
    }
    assert_eq!(version::era(version::MODERN), Some(Era::Modern));
    assert_eq!(version::era("2027-01-01"), None);
    assert_eq!(Era::Legacy.newest(), "2025-11-25");
    assert_eq!(Era::Modern.newest(), "2026-07-28");
}

#[test]
fn only_codes_that_no_older_schema_has_are_modern() {
    for schema in legacy() {
        for code in schema.codes {
            assert!(!code::is_modern_only(code), "{code}");
        }
    }
    let found = modern().codes.into_iter();
    let found: Vec<i64> = found.filter(|code| code::is_modern_only(*code)).collect();
    assert_eq!(
        found,
        [
            code::UNSUPPORTED_PROTOCOL_VERSION,
            code::MISSING_CLIENT_CAPABILITY,
            code::HEADER_MISMATCH,
        ]
    );
    for code in [code::RESOURCE_NOT_FOUND, -32000, -32019, -32100, 0] {
        assert!(!code::is_modern_only(code), "{code}");
    }
    // Of a revision to come.
    assert!(code::is_modern_only(-32023) && code::is_modern_only(-32099));
}

#[test]
fn every_request_is_read_only_or_known_to_change_something() {
    let changing = ["tools/call", "tasks/cancel", "subscriptions/listen"];
    for schema in schemas().into_values() {
        for request in schema.client_requests {
            let read_only = method::is_read_only(&request);
            assert_ne!(read_only, changing.contains(&&*request), "{request}");
        }
    }
    assert!(!method::is_read_only("vendor/method"));
}

#[test]
fn requests_of_one_era_are_known_as_such() {
    let modern = modern().client_requests;
    let legacy: Vec<String> = legacy()
        .into_iter()
        .flat_map(|s| s.client_requests)
        .collect();
    for request in &modern {
        assert!(!method::is_legacy_request(request), "{request}");
        assert_eq!(
            method::is_modern_request(request),
            !legacy.contains(request),
            "{request}"
        );
    }
    for request in &legacy {
        assert!(!method::is_modern_request(request), "{request}");
        // Tasks are an extension since.
        let dropped = !modern.contains(request) && !request.starts_with("tasks/");
        assert_eq!(method::is_legacy_request(request), dropped, "{request}");
    }
}

#[test]
fn a_modern_client_has_no_notifications_of_its_own() {
    assert_eq!(modern().client_notifications, Vec::<String>::new());
    for told in legacy().into_iter().flat_map(|s| s.client_notifications) {
        // A modern client cancels by closing its stream; tasks are an extension since.
        let otherwise = ["notifications/cancelled", "notifications/tasks/status"];
        assert_eq!(
            method::is_legacy_notification(&told),
            !otherwise.contains(&&*told),
            "{told}"
        );
    }
}

#[test]
fn questions_are_what_a_server_asks_about_a_call() {
    for schema in schemas().into_values() {
        for request in schema.server_requests {
            let own = request == "ping" || request.starts_with("tasks/");
            assert_eq!(method::is_question(&request), !own, "{request}");
        }
    }
    for request in modern().client_requests {
        let asks = ["tools/call", "prompts/get", "resources/read"].contains(&&*request);
        assert_eq!(method::may_ask(&request), asks, "{request}");
    }
}

#[test]
fn lists_have_the_methods_of_the_schemas() {
    let known = modern();
    for list in List::ALL {
        assert!(known.client_requests.iter().any(|m| m == list.method()));
        assert!(
            known
                .server_notifications
                .iter()
                .any(|m| m == list.changed_method())
        );
        assert!(method::is_of_subscriptions(list.changed_method()));
        assert_eq!(List::of_method(list.method()), Some(list));
    }
    let lists = known
        .client_requests
        .iter()
        .filter(|m| m.ends_with("/list"));
    assert_eq!(lists.count(), List::ALL.len());
    assert_eq!(List::of_method("tools/call"), None);
    assert!(method::is_of_subscriptions(
        "notifications/resources/updated"
    ));
    assert!(!method::is_of_subscriptions("notifications/message"));
}

#[test]
fn a_request_is_about_a_tool_a_prompt_or_a_resource() {
    for (method, params, expected) in [
        ("tools/call", r#"{"name":"t"}"#, Some("t")),
        ("prompts/get", r#"{"name":"p"}"#, Some("p")),
        ("resources/read", r#"{"uri":"a://b"}"#, Some("a://b")),
        ("resources/subscribe", r#"{"uri":"a://b"}"#, None),
        ("tools/list", r#"{"name":"t"}"#, None),
        ("tools/call", "{}", None),
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let message = Message::read(text.into()).expect("a message");
        assert_eq!(method::subject(&message).as_deref(), expected, "{method}");
    }
}
