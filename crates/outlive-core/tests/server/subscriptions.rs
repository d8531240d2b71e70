//! Who hears of changes.

use outlive_core::protocol::List;
use outlive_core::server::Input;
use serde_json::json;

use crate::pair::*;

fn subscribe(id: u64, method: &str, uri: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/{method}","params":{{"uri":"{uri}"}}}}"#
    )
}

fn listen(id: u64, filter: &str) -> String {
    modern_request(
        id,
        "subscriptions/listen",
        &format!(r#""notifications":{filter},"#),
    )
}

fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}"{params}}}"#)
}

fn changed(p: &mut Pair, list: List) -> Vec<String> {
    p.forget();
    p.feed(Input::Changed(list));
    p.sent()
}

fn updated(p: &mut Pair, uri: &str) -> Vec<String> {
    p.forget();
    p.feed(Input::Updated { uri: uri.into() });
    p.sent()
}

#[test]
fn a_legacy_client_hears_of_lists_once_it_has_shaken_hands() {
    let mut p = Pair::new(policy());
    assert_eq!(changed(&mut p, List::Tools), [""; 0]);
    let mut p = Pair::ready();
    for (list, method) in [
        (List::Tools, "tools/list_changed"),
        (List::Prompts, "prompts/list_changed"),
        (List::Resources, "resources/list_changed"),
        (List::Templates, "resources/list_changed"),
    ] {
        assert_eq!(changed(&mut p, list), [notification(method, "")]);
    }
}

#[test]
fn nothing_is_announced_that_was_not_declared() {
    let mut p = Pair::ready_with(|policy| {
        policy.capabilities =
            r#"{"tools":{"listChanged":true},"prompts":{},"resources":{"listChanged":false}}"#
                .into();
    });
    assert_eq!(changed(&mut p, List::Tools).len(), 1);
    for list in [List::Prompts, List::Resources, List::Templates] {
        assert_eq!(changed(&mut p, list), [""; 0], "{list:?}");
    }
    p.client(&listen(
        1,
        r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["u"]}"#,
    ));
    let ack = p.reply();
    assert_eq!(
        ack["params"]["notifications"],
        json!({"toolsListChanged": true})
    );
    assert_eq!(updated(&mut p, "u"), [""; 0]);
}

#[test]
fn a_legacy_client_hears_of_the_resources_it_has_subscribed_to() {
    let mut p = Pair::ready();
    for line in [
        subscribe(1, "subscribe", "file:///a b"),
        subscribe(1, "subscribe", "file:///a b"),
        subscribe(1, "subscribe", "c"),
        subscribe(1, "unsubscribe", "c"),
        subscribe(1, "unsubscribe", "never"),
    ] {
        p.client(&line);
        assert_eq!(p.sent(), [result(1, "{}")]);
    }
    assert_eq!(
        updated(&mut p, "file:///a b"),
        [notification(
            "resources/updated",
            r#","params":{"uri":"file:///a b"}"#
        )]
    );
    assert_eq!(updated(&mut p, "c"), [""; 0]);
    p.client(&request(1, "resources/subscribe"));
    let failure = p.failure();
    assert_eq!(
        (failure.code, &*failure.message),
        (-32602, "`uri` must be a string.")
    );
}

#[test]
fn legacy_subscriptions_are_bounded() {
    let mut p = Pair::ready_with(|policy| policy.subscriptions = 2);
    for (uri, fits) in [("a", true), ("b", true), ("c", false), ("a", true)] {
        p.client(&subscribe(1, "subscribe", uri));
        assert_eq!(p.sent()[0].contains("result"), fits, "{uri}");
    }
    let mut p = Pair::ready_with(|policy| policy.queue_bytes = 8);
    for (uri, fits) in [("12345678", true), ("9", false)] {
        p.client(&subscribe(1, "subscribe", uri));
        assert_eq!(p.sent()[0].contains("result"), fits, "{uri}");
    }
    assert_eq!(p.server.sizes().subscriptions, (1, 8));
}

#[test]
fn a_stream_is_acknowledged_first_and_then_carries_what_it_asked_for() {
    let mut p = Pair::modern();
    p.client(&listen(
        4,
        r#"{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["u","u","v"],"x":true}"#,
    ));
    let meta = r#""_meta":{"io.modelcontextprotocol/subscriptionId":4}"#;
    assert_eq!(
        p.all(),
        [format!(
            "send {}",
            notification(
                "subscriptions/acknowledged",
                &format!(
                    r#","params":{{{meta},"notifications":{{"resourceSubscriptions":["u","v"],"toolsListChanged":true}}}}"#
                )
            )
        )]
    );
    assert_eq!(
        changed(&mut p, List::Tools),
        [notification(
            "tools/list_changed",
            &format!(r#","params":{{{meta}}}"#)
        )]
    );
    assert_eq!(changed(&mut p, List::Prompts), [""; 0]);
    assert_eq!(
        updated(&mut p, "v"),
        [notification(
            "resources/updated",
            &format!(r#","params":{{{meta},"uri":"v"}}"#)
        )]
    );
    assert_eq!(updated(&mut p, "w"), [""; 0]);
}

#[test]
fn the_list_of_templates_is_one_of_resources() {
    let mut p = Pair::modern();
    p.client(&listen(4, r#"{"resourcesListChanged":true}"#));
    assert_eq!(changed(&mut p, List::Templates).len(), 1);
    assert_eq!(changed(&mut p, List::Resources).len(), 1);
    assert_eq!(changed(&mut p, List::Tools).len(), 0);
}

#[test]
fn each_stream_is_told_under_its_own_id() {
    let mut p = Pair::ready();
    p.client(&listen(1, r#"{"toolsListChanged":true}"#));
    p.client(&listen(2, r#"{"promptsListChanged":true}"#));
    p.client(&listen(3, r#"{"toolsListChanged":true}"#).replace(r#""id":3"#, r#""id":"x""#));
    let told = changed(&mut p, List::Tools);
    assert_eq!(told.len(), 3, "the legacy client hears it too");
    assert!(!told[0].contains("subscriptionId"));
    assert!(told[1].contains(r#""io.modelcontextprotocol/subscriptionId":1"#));
    assert!(told[2].contains(r#""io.modelcontextprotocol/subscriptionId":"x""#));
}

#[test]
fn a_stream_that_is_cancelled_is_silent_and_gets_no_response() {
    let mut p = Pair::modern();
    p.client(&listen(1, r#"{"toolsListChanged":true}"#));
    p.forget();
    p.cancel(1);
    assert_eq!(p.all(), [""; 0]);
    assert_eq!(changed(&mut p, List::Tools), [""; 0]);
    p.cancel(1);
    assert_eq!(p.all(), ["dropped useless_cancel"]);
    p.client(&listen(1, r#"{"toolsListChanged":true}"#));
    assert_eq!(p.sent().len(), 1, "the id is free again");
}

#[test]
fn the_id_of_an_open_stream_is_taken() {
    let mut p = Pair::modern();
    p.client(&listen(1, "{}"));
    p.forget();
    p.client(&modern_request(1, "tools/call", r#""name":"a","#));
    assert_eq!(p.failure().code, -32600);
    p.client(&listen(1, "{}"));
    assert_eq!(p.failure().code, -32600);
}

#[test]
fn streams_and_what_they_name_are_bounded() {
    let mut p = Pair::modern_with(|policy| policy.subscriptions = 4);
    p.client(&listen(1, r#"{"resourceSubscriptions":["a","b","c"]}"#));
    p.client(&listen(2, "{}"));
    let sent = p.sent();
    assert!(sent[0].contains("acknowledged"));
    let refused = failure(&sent[1]);
    assert_eq!((refused.code, refused.kind()), (-31002, "unavailable"));
    assert_eq!(p.server.sizes().subscriptions, (4, 3));
    p.cancel(1);
    p.client(&listen(2, "{}"));
    assert_eq!(p.sent().len(), 1);
    let mut p = Pair::modern_with(|policy| policy.queue_bytes = 5);
    p.client(&listen(1, r#"{"resourceSubscriptions":["aaa","bbb"]}"#));
    assert_eq!(p.failure().code, -31002);
}

#[test]
fn where_nothing_is_announced_there_is_nothing_to_listen_to() {
    let mut p = Pair::modern_with(|policy| policy.capabilities = r#"{"tools":{}}"#.into());
    p.client(&listen(1, r#"{"toolsListChanged":true}"#));
    assert_eq!(p.failure().code, -32601);
}
