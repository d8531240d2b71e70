//! What a view does not contain does not exist.

use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::roster::{Entry, Filter, Naming, Roster, View};

use crate::servers::{keys, tools, with};

fn seen(servers: &[Entry], view: &View) -> Roster {
    Roster::new(servers, &Naming::default(), view)
}

fn both() -> [Entry; 2] {
    [
        tools(0, "github", &["get_issue", "delete_issue"]),
        tools(1, "files", &["get_file", "delete_file"]),
    ]
}

#[test]
fn a_server_that_is_not_allowed_is_not_there() {
    let view = View {
        servers: Filter::new(["git*"], []),
        ..View::default()
    };
    let roster = seen(&both(), &view);
    assert_eq!(
        roster
            .servers()
            .map(|(_, name, _)| name)
            .collect::<Vec<_>>(),
        ["github"]
    );
    assert!(!roster.contains(TargetId(1)) && roster.name(TargetId(1)).is_none());
    assert!(roster.tool("files__get_file").is_none());
    assert_eq!(
        keys(&roster, List::Tools),
        ["github__get_issue", "github__delete_issue"]
    );
}

#[test]
fn tools_are_left_out_by_either_name_and_deny_wins() {
    for (allow, deny, expected) in [
        (
            &["get_*"][..],
            &[][..],
            &["github__get_issue", "files__get_file"][..],
        ),
        (
            &["files__*"],
            &[],
            &["files__get_file", "files__delete_file"],
        ),
        (
            &[],
            &["delete_*"],
            &["github__get_issue", "files__get_file"],
        ),
        (
            &["*"],
            &["github__*"],
            &["files__get_file", "files__delete_file"],
        ),
        (&["get_file"], &["files__get_*"], &[]),
    ] {
        let view = View {
            tools: Filter::new(allow.iter().copied(), deny.iter().copied()),
            ..View::default()
        };
        let roster = seen(&both(), &view);
        assert_eq!(keys(&roster, List::Tools), expected);
        let hidden = [
            "github__get_issue",
            "github__delete_issue",
            "files__get_file",
            "files__delete_file",
        ];
        for name in hidden {
            assert_eq!(
                roster.tool(name).is_some(),
                expected.contains(&name),
                "{name}"
            );
        }
    }
}

#[test]
fn a_filter_of_one_server_leaves_others_alone() {
    let mut servers = both();
    servers[0].filter = Filter::new(["get_*"], []);
    let roster = seen(&servers, &View::default());
    assert_eq!(
        keys(&roster, List::Tools),
        ["github__get_issue", "files__get_file", "files__delete_file"]
    );
    assert!(roster.exposed_tool(TargetId(0), "delete_issue").is_none());
}

#[test]
fn prompts_have_a_filter_of_their_own() {
    let servers = [with(0, "s", List::Prompts, &["a", "b"])];
    let view = View {
        prompts: Filter::new([], ["s__a"]),
        tools: Filter::new([], ["*"]),
        ..View::default()
    };
    assert_eq!(keys(&seen(&servers, &view), List::Prompts), ["s__b"]);
}

#[test]
fn a_resource_that_is_denied_is_not_reached_by_any_way() {
    let mut entry = with(0, "s", List::Resources, &["x:open", "x:secret/1"]);
    let offer = (*entry.offer.clone().expect("an offer")).clone();
    let template = crate::servers::item(List::Templates, r#"{"uriTemplate":"x:{+any}"}"#);
    entry.offer = Some(offer.with_list(List::Templates, vec![template]).into());
    for deny in ["x:secret/*", "outlive:s:x:secret/*"] {
        let view = View {
            resources: Filter::new([], [deny]),
            ..View::default()
        };
        let roster = seen(std::slice::from_ref(&entry), &view);
        assert_eq!(keys(&roster, List::Resources), ["x:open"]);
        for uri in [
            "x:secret/1",
            "x:secret/2",
            "outlive:s:x:secret/1",
            // Other spellings, which the template fits, too.
            "x:%73ecret/1",
            "x:open/../secret/1",
            "x:SECRET/1",
            "X:secret/1",
            "outlive:s:x:%2573ecret/1",
        ] {
            assert!(roster.resource(uri).is_err(), "{uri}");
            let own = uri.strip_prefix("outlive:s:").unwrap_or(uri);
            assert!(!roster.shows_resource(TargetId(0), own), "{uri}");
        }
        for uri in ["x:open", "outlive:s:x:open", "x:other"] {
            assert!(roster.resource(uri).is_ok(), "{uri}");
        }
    }
}

#[test]
fn a_template_that_is_not_in_the_view_matches_nothing() {
    let servers = [
        with(0, "a", List::Templates, &["x:{id}"]),
        with(1, "b", List::Templates, &["y:{id}"]),
    ];
    let view = View {
        resources: Filter::new([], ["x:*"]),
        ..View::default()
    };
    let roster = seen(&servers, &view);
    assert_eq!(keys(&roster, List::Templates), ["y:{id}"]);
    assert!(roster.template("x:{id}").is_none() && roster.template("outlive:a:x:{id}").is_none());
    assert!(roster.resource("x:1").is_err());
    assert!(roster.resource("y:1").is_ok());
}

#[test]
fn names_are_the_same_in_every_view() {
    let servers = [tools(0, "a!", &["t"]), tools(1, "a?", &["t"])];
    let all = keys(&seen(&servers, &View::default()), List::Tools);
    let view = View {
        servers: Filter::new([], ["a!"]),
        ..View::default()
    };
    assert_eq!(keys(&seen(&servers, &view), List::Tools), all[1..]);
}
