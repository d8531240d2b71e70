//! Whose a resource is.

use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::roster::{Entry, Offer, Roster};
use proptest::prelude::*;

use crate::servers::{keys, roster, server, tools, with};

fn owner<'a>(roster: &Roster, uri: &'a str) -> Option<(usize, &'a str)> {
    let found = roster.resource(uri).ok();
    found.map(|(target, uri)| (target.0, uri))
}

#[test]
fn of_two_that_list_a_uri_the_first_keeps_it_and_the_other_is_explicit() {
    let servers = [
        with(0, "a", List::Resources, &["x:1", "x:2"]),
        with(1, "b", List::Resources, &["x:2", "x:3"]),
    ];
    let roster = roster(&servers);
    assert_eq!(
        keys(&roster, List::Resources),
        ["x:1", "x:2", "outlive:b:x:2", "x:3"]
    );
    assert_eq!(owner(&roster, "x:2"), Some((0, "x:2")));
    assert_eq!(owner(&roster, "x:3"), Some((1, "x:3")));
    assert_eq!(owner(&roster, "outlive:b:x:2"), Some((1, "x:2")));
    assert_eq!(
        owner(&roster, "outlive:a:x:3"),
        Some((0, "x:3")),
        "whether it is listed or not"
    );
    assert_eq!(owner(&roster, "outlive:c:x:3"), None);
    assert_eq!(roster.exposed_uri(TargetId(1), "x:2"), "outlive:b:x:2");
    assert_eq!(roster.exposed_uri(TargetId(1), "x:3"), "x:3");
    assert_eq!(roster.exposed_uri(TargetId(0), "x:3"), "outlive:a:x:3");
    assert_eq!(roster.exposed_uri(TargetId(0), "y:new"), "outlive:a:y:new");
}

#[test]
fn no_server_can_pass_for_another() {
    let servers = [
        with(0, "evil", List::Resources, &["outlive:bank:x:1"]),
        with(1, "bank", List::Resources, &["x:1"]),
    ];
    let roster = roster(&servers);
    assert_eq!(
        keys(&roster, List::Resources),
        ["outlive:evil:outlive:bank:x:1", "x:1"]
    );
    assert_eq!(owner(&roster, "outlive:bank:x:1"), Some((1, "x:1")));
    let through = "outlive:evil:outlive:bank:x:1";
    assert_eq!(owner(&roster, through), Some((0, "outlive:bank:x:1")));
}

#[test]
fn names_of_servers_are_encoded_in_the_explicit_form() {
    let servers = [
        with(0, "a:b", List::Resources, &["x:1"]),
        with(1, "a", List::Resources, &["b:x:1", "x:1"]),
        with(2, "é %", List::Resources, &["x:1"]),
    ];
    let roster = roster(&servers);
    assert_eq!(
        keys(&roster, List::Resources)[2..],
        ["outlive:a:x:1", "outlive:%C3%A9%20%25:x:1"]
    );
    assert_eq!(owner(&roster, "outlive:a:b:x:1"), Some((1, "b:x:1")));
    assert_eq!(owner(&roster, "outlive:a%3Ab:x:1"), Some((0, "x:1")));
    assert_eq!(owner(&roster, "outlive:%C3%A9%20%25:x:1"), Some((2, "x:1")));
}

#[test]
fn what_nobody_lists_goes_to_the_template_that_says_most() {
    let servers = [
        with(0, "a", List::Templates, &["{+anything}", "db://{table}"]),
        with(
            1,
            "b",
            List::Templates,
            &["db://{table}/rows/{row}", "db://{table}"],
        ),
    ];
    let roster = roster(&servers);
    assert_eq!(
        owner(&roster, "db://users/rows/7"),
        Some((1, "db://users/rows/7"))
    );
    assert_eq!(
        owner(&roster, "db://users"),
        Some((0, "db://users")),
        "of two the first"
    );
    assert_eq!(owner(&roster, "other:thing"), Some((0, "other:thing")));
    assert_eq!(
        keys(&roster, List::Templates),
        [
            "{+anything}",
            "db://{table}",
            "db://{table}/rows/{row}",
            "outlive:b:db://{table}"
        ]
    );
    assert_eq!(
        owner(&roster, "outlive:b:db://users"),
        Some((1, "db://users"))
    );
    let found = roster
        .template("outlive:b:db://{table}")
        .expect("a template");
    assert_eq!(
        (found.target, found.item.key()),
        (TargetId(1), "db://{table}")
    );
    assert_eq!(
        roster.template("db://{table}").expect("a template").target,
        TargetId(0)
    );
    let explicit = roster
        .template("outlive:a:db://{table}")
        .expect("a template");
    assert_eq!(explicit.target, TargetId(0));
    assert!(roster.template("db://{other}").is_none());
}

#[test]
fn the_only_server_with_resources_is_asked_for_what_nobody_lists() {
    let no_resources = Offer::new("2025-11-25", b"{}", br#"{"tools":{}}"#, None);
    let servers = [
        server(0, "a", Some(no_resources)),
        with(1, "b", List::Resources, &["x:1"]),
    ];
    assert_eq!(owner(&roster(&servers), "y:1"), Some((1, "y:1")));
}

#[test]
fn what_may_be_anybodys_is_refused_with_a_way_to_say_whose() {
    let servers = [
        with(0, "a b", List::Resources, &[]),
        with(1, "c", List::Resources, &[]),
        server(2, "d", None),
    ];
    let error = roster(&servers).resource("y:1").expect_err("nobody's");
    assert_eq!(
        error.to_string(),
        "no server lists the resource \"y:1\"; these offer resources: a b, c; these have not been reached yet: d. \
         To say which server is meant, write it before the URI, as in outlive:a%20b:y:1"
    );
    assert_eq!(error.unknown, ["d".into()]);
}

#[test]
fn a_server_of_which_nothing_is_known_may_have_anything() {
    let servers = [
        with(0, "a", List::Resources, &["x:1"]),
        server(1, "b", None),
    ];
    let both = roster(&servers);
    assert_eq!(owner(&both, "x:1"), Some((0, "x:1")));
    assert_eq!(owner(&both, "y:1"), None);
    assert_eq!(owner(&both, "outlive:b:y:1"), Some((1, "y:1")));
    assert_eq!(owner(&roster(&servers[1..]), "y:1"), Some((1, "y:1")));
}

#[test]
fn an_error_is_short_whatever_was_asked_for() {
    let names: Vec<String> = (0..100).map(|at| format!("server-{at}")).collect();
    let servers: Vec<Entry> = names
        .iter()
        .enumerate()
        .map(|(at, name)| with(at, name, List::Resources, &[]))
        .collect();
    let error = roster(&servers)
        .resource(&"é".repeat(10_000))
        .expect_err("nobody's")
        .to_string();
    assert!(
        error.len() < 1_500 && error.contains("and 92 more"),
        "{error}"
    );
    let none = roster(&[])
        .resource("y:1")
        .expect_err("nobody's")
        .to_string();
    assert_eq!(
        none,
        "there is no resource \"y:1\": no server here offers resources"
    );
    let no_resources = Offer::new("2025-11-25", b"{}", b"{}", None);
    let tools = server(0, "t", Some(no_resources));
    assert!(roster(&[tools]).resource("y:1").is_err());
}

#[test]
fn a_server_that_is_not_there_has_its_own_uris() {
    assert_eq!(
        roster(&[tools(0, "a", &[])]).exposed_uri(TargetId(9), "x:1"),
        "x:1"
    );
}

proptest! {
    #[test]
    fn an_exposed_uri_leads_back(
        names in prop::collection::hash_set("[a:% é]{0,3}", 1..5),
        uris in prop::collection::vec((0_usize..5, "(outlive:)?[a:x]{0,4}"), 0..12),
        templates in prop::collection::vec((0_usize..5, "[a:x]{0,2}(\\{\\+?v\\})?"), 0..6),
        asked in "(outlive:)?[a:x]{0,5}",
    ) {
        let of = |all: &[(usize, String)], at: usize| -> Vec<String> {
            all.iter().filter(|(owner, _)| *owner == at).map(|(_, uri)| uri.clone()).collect()
        };
        let servers: Vec<Entry> = names.iter().enumerate().map(|(at, name)| {
            let uris = of(&uris, at);
            let mut entry = with(at, name, List::Resources, &uris.iter().map(String::as_str).collect::<Vec<_>>());
            let templates = of(&templates, at);
            let items = templates.iter().map(|key| {
                crate::servers::item(List::Templates, &crate::servers::keyed(List::Templates, key))
            });
            let offer = (*entry.offer.clone().expect("an offer")).clone();
            entry.offer = Some(offer.with_list(List::Templates, items.collect()).into());
            entry
        }).collect();
        let roster = roster(&servers);
        for at in 0..servers.len() {
            for uri in of(&uris, at).iter().chain([&asked]) {
                let exposed = roster.exposed_uri(TargetId(at), uri);
                prop_assert_eq!(owner(&roster, &exposed), Some((at, uri.as_str())), "{}", exposed);
            }
        }
        for key in keys(&roster, List::Resources) {
            prop_assert!(roster.resource(&key).is_ok());
        }
        let mut listed = keys(&roster, List::Resources);
        listed.sort();
        listed.dedup();
        prop_assert_eq!(listed.len(), roster.items(List::Resources).len());
    }
}
