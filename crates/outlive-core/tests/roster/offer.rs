//! What one server offers.

use bytes::Bytes;
use outlive_core::protocol::List;
use outlive_core::roster::{Item, MOST_BYTES, Offer, read_page};

use crate::servers::{item, offer};

#[test]
fn a_page_is_read_entry_by_entry() {
    let result = br#"{"nextCursor":"2","tools":[ {"name":"a"} , 7, {"nameless":1},{"name":"b\u0062","x":[1]}]}"#;
    let (items, next) = read_page(List::Tools, result).expect("a page");
    assert_eq!(next.as_deref(), Some("2"));
    let read: Vec<(&str, &[u8])> = items
        .iter()
        .map(|item| (item.key(), &item.json()[..]))
        .collect();
    assert_eq!(
        read,
        [
            ("a", &br#"{"name":"a"}"#[..]),
            ("bb", br#"{"name":"b\u0062","x":[1]}"#)
        ]
    );
    assert_eq!(&items[1].json()[items[1].key_span()], br#""b\u0062""#);

    let (items, next) = read_page(
        List::Templates,
        br#"{"resourceTemplates":[],"nextCursor":""}"#,
    )
    .expect("a page");
    assert!(items.is_empty() && next.is_none());
    for other in [
        &br#"{"prompts":[]}"#[..],
        b"[]",
        br#"{"tools":{}}"#,
        b"",
        br#"{"tools":[}"#,
    ] {
        assert!(read_page(List::Tools, other).is_none());
    }
}

#[test]
fn an_entry_that_would_cost_clients_all_others_is_left_out() {
    let deep = format!(
        r#"{{"name":"deep","x":{}{}}}"#,
        "[".repeat(101),
        "]".repeat(101)
    );
    let result = format!(r#"{{"tools":[{{"name":"nan","x":NaN}},{deep},{{"name":"ok"}}]}}"#);
    let (items, _) = read_page(List::Tools, result.as_bytes()).expect("a page");
    assert_eq!(items.iter().map(Item::key).collect::<Vec<_>>(), ["ok"]);
    assert!(Item::read(List::Tools, Bytes::from_static(b"{\"name\":\"a\xff\"}")).is_none());
    assert!(Item::read(List::Tools, Bytes::from_static(br#"{"name":"a"} {}"#)).is_none());
}

#[test]
fn an_entry_is_one_line() {
    let item = item(List::Resources, "{\r\n \"uri\":\n\"x:1\"}");
    assert_eq!(item.json(), "{   \"uri\": \"x:1\"}");
    assert_eq!(item.json_with_key("y:\n"), "{   \"uri\": \"y:\\n\"}");
}

#[test]
fn of_entries_with_one_key_the_first_stays() {
    let tools = offer(&[(
        List::Tools,
        &[
            r#"{"name":"a","v":1}"#,
            r#"{"name":"b"}"#,
            r#"{"v":2,"name":"a"}"#,
        ],
    )]);
    let list = tools.list(List::Tools).expect("a list");
    assert_eq!(list.len(), 2);
    assert_eq!(list[0].json(), r#"{"name":"a","v":1}"#);
    assert!(!tools.is_cut());
}

#[test]
fn an_offer_is_bounded_by_count_and_bytes() {
    let many = (0..100_001)
        .map(|at| item(List::Tools, &format!(r#"{{"name":"{at}"}}"#)))
        .collect();
    let tools = offer(&[]).with_list(List::Tools, many);
    assert_eq!(tools.list(List::Tools).expect("a list").len(), 100_000);
    assert!(tools.is_cut());

    let long = "x".repeat(MOST_BYTES / 4);
    let large = (0..5)
        .map(|at| item(List::Tools, &format!(r#"{{"name":"{at}","x":"{long}"}}"#)))
        .collect();
    let tools = offer(&[]).with_list(List::Tools, large);
    assert_eq!(tools.list(List::Tools).expect("a list").len(), 3);
    assert!(tools.is_cut() && tools.size() <= MOST_BYTES);
}

#[test]
fn an_offer_is_read_from_either_handshake() {
    let old = Offer::of_handshake(
        br#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{"subscribe":true},"logging":{}},
            "serverInfo":{"name":"s"},"instructions":"Ask \"first\"."}"#,
    )
    .expect("an offer");
    assert_eq!(old.protocol_version(), "2025-06-18");
    assert_eq!(old.server_info(), r#"{"name":"s"}"#);
    assert_eq!(old.instructions(), Some(r#"Ask "first"."#));
    assert!(old.offers(List::Tools) && old.offers(List::Templates) && !old.offers(List::Prompts));
    assert!(old.can_subscribe() && old.logging() && !old.completions());
    assert!(List::ALL.iter().all(|list| old.list(*list).is_none()));

    let modern = Offer::of_handshake(
        br#"{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"completions":{},"resources":{}},
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m"}}}"#,
    )
    .expect("an offer");
    assert_eq!(
        (modern.protocol_version(), &modern.server_info()[..]),
        ("2026-07-28", &br#"{"name":"m"}"#[..])
    );
    assert!(modern.completions() && !modern.can_subscribe() && modern.instructions().is_none());
    assert!(Offer::of_handshake(br#"{"tools":[]}"#).is_none());
}

#[test]
fn what_is_no_object_is_an_empty_one() {
    let odd = Offer::new("v", b"7", br#"{"tools":NaN}"#, Some(""));
    assert_eq!(
        (&odd.server_info()[..], &odd.capabilities()[..]),
        (&b"{}"[..], &b"{}"[..])
    );
    assert_eq!(odd.instructions(), None);
}

#[test]
fn a_fingerprint_tells_lists_apart() {
    let print = |items: &[&str]| offer(&[(List::Tools, items)]).fingerprint(List::Tools);
    let (a, b) = (r#"{"name":"a"}"#, r#"{"name":"b"}"#);
    assert_eq!(print(&[a, b]), print(&[a, b]));
    assert_ne!(print(&[a, b]), print(&[b, a]));
    assert_ne!(print(&[a]), print(&[]));
    assert_eq!(offer(&[]).fingerprint(List::Tools), None);
}
