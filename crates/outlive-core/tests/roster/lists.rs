//! What is listed, and how it is found again.

use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;

use crate::servers::{keys, offer, roster, server, tools};

#[test]
fn tools_are_listed_in_order_and_found_by_the_names_clients_see() {
    let both = [
        tools(0, "git hub", &["create.issue", "search"]),
        tools(1, "files", &["search"]),
    ];
    let roster = roster(&both);
    assert_eq!(
        keys(&roster, List::Tools),
        ["git_hub__create_issue", "git_hub__search", "files__search"]
    );
    let found = roster.tool("git_hub__create_issue").expect("a tool");
    assert_eq!(
        (found.target, found.item.key()),
        (TargetId(0), "create.issue")
    );
    assert_eq!(
        roster.tool("files__search").expect("a tool").target,
        TargetId(1)
    );
    assert_eq!(
        roster.exposed_tool(TargetId(1), "search"),
        Some("files__search")
    );
    assert_eq!(roster.exposed_tool(TargetId(1), "create.issue"), None);
    assert!(roster.tool("search").is_none() && roster.prompt("files__search").is_none());
}

#[test]
fn nothing_of_an_entry_changes_but_its_name() {
    let odd = concat!(
        r#"{ "inputSchema" : {"properties":{"name":{"type":"string","const":1.50e1}}} ,"#,
        r#""title":"Ünï \u00e9 \"name\":\"x\"","#,
        r#" "name" :  "a\u002eb" , "_meta":{"name":"inner"},"x-unknown":[ 1,null ]}"#
    );
    let roster = roster(&[server(0, "s", Some(offer(&[(List::Tools, &[odd])])))]);
    let expected = odd.replace(r#""a\u002eb""#, r#""s__a_b""#);
    assert_eq!(roster.items(List::Tools), [expected]);
    assert_eq!(roster.tool("s__a_b").expect("a tool").item.json(), odd);
}
