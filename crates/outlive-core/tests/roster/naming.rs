//! Names of tools and prompts.

use std::collections::HashSet;

use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::roster::{Entry, Filter, Naming, Prefix, Roster, View};
use proptest::prelude::*;

use crate::servers::{keys, roster, server, tools, with};

fn named(prefix: Prefix, servers: &[Entry]) -> Vec<String> {
    let naming = Naming {
        prefix,
        ..Naming::default()
    };
    keys(
        &Roster::new(servers, &naming, &View::default()),
        List::Tools,
    )
}

#[test]
fn a_prefix_of_ones_own_stands_for_the_name() {
    let mut entry = tools(0, "a very long name", &["t"]);
    entry.prefix = Some("gh".into());
    assert_eq!(keys(&roster(&[entry]), List::Tools), ["gh__t"]);
}

#[test]
fn the_separator_is_what_was_chosen() {
    for (separator, expected) in [("-", "s-t"), ("/", "s_t"), ("", "s_t"), (".:", "s__t")] {
        let naming = Naming {
            separator: separator.into(),
            ..Naming::default()
        };
        let roster = Roster::new(&[tools(0, "s", &["t"])], &naming, &View::default());
        assert_eq!(keys(&roster, List::Tools), [expected]);
    }
}

#[test]
fn a_name_that_is_too_long_is_cut_and_ends_with_a_hash() {
    let long = "x".repeat(200);
    let longer = "x".repeat(201);
    let names = keys(
        &roster(&[tools(0, "server", &[&long, &longer, "y"])]),
        List::Tools,
    );
    assert!(
        names[0].starts_with("server__xxxx") && names[0].len() == 50,
        "{names:?}"
    );
    assert!(
        names[1].starts_with("server__xxxx") && names[1].len() == 50,
        "{names:?}"
    );
    assert_ne!(names[0], names[1]);
    let other = keys(&roster(&[tools(0, "server", &[&longer])]), List::Tools);
    assert_eq!(other, names[1..2], "the hash is that of the name alone");
    let fits = "z".repeat(50 - "server__".len());
    let names = keys(&roster(&[tools(0, "server", &[&fits])]), List::Tools);
    assert_eq!(names, [format!("server__{fits}")]);
}

#[test]
fn of_names_that_become_alike_the_one_that_needed_no_change_keeps_it() {
    let names = keys(
        &roster(&[tools(0, "s", &["a.b", "a/b", "a_b"])]),
        List::Tools,
    );
    assert_eq!(names[2], "s__a_b");
    assert!(names[0].starts_with("s__a_b_") && names[1].starts_with("s__a_b_"));
    let alone = keys(&roster(&[tools(0, "s", &["a.b", "a/b"])]), List::Tools);
    assert_eq!(alone[0], "s__a_b", "then the first");
    assert_eq!(alone[1], names[1], "and the hash is the same");
}

#[test]
fn prefixes_of_two_servers_are_never_alike_whatever_the_servers_are_called() {
    let servers = [
        tools(0, "a", &["b__t", "_t"]),
        tools(1, "a__b", &["t"]),
        tools(2, "a_", &["t"]),
        tools(3, "a!", &["t"]),
        tools(4, "a?", &["t"]),
        tools(5, "", &["t"]),
        tools(6, "日本", &["t"]),
    ];
    let all = roster(&servers);
    let names = keys(&all, List::Tools);
    assert_eq!(
        names.iter().collect::<HashSet<_>>().len(),
        names.len(),
        "{names:?}"
    );
    assert_eq!(names[0], "a__b__t");
    // Each alone has the names it has among the others, so long as the configuration is the same.
    for alone in 0..servers.len() {
        let mut servers = servers.clone();
        for (at, entry) in servers.iter_mut().enumerate() {
            entry.offer.take_if(|_| at != alone);
        }
        let fewer = roster(&servers);
        let offer = servers[alone].offer.as_ref().expect("an offer");
        for tool in offer.list(List::Tools).expect("a list").iter() {
            let name = |roster: &Roster| {
                roster
                    .exposed_tool(TargetId(alone), tool.key())
                    .map(str::to_string)
            };
            assert_eq!(name(&fewer), name(&all), "{tool:?} of server {alone}");
        }
    }
}

#[test]
fn a_server_with_a_name_in_another_script_has_a_prefix_of_its_own_whoever_else_is_there() {
    let (one, other) = ("\u{9ad8}\u{5fb7}", "\u{5730}\u{56fe}");
    let both = [tools(0, one, &["x"]), tools(1, other, &["x"])];
    let both = named(Prefix::Always, &both);
    let alone = named(Prefix::Always, &[tools(0, other, &["x"])]);
    assert_eq!(both[1..], alone);
    assert_ne!(both[0], both[1]);
    for name in &both {
        let (prefix, rest) = name.split_once("__").expect("a prefix");
        assert_eq!((prefix.len(), rest), (6, "x"), "{name}");
        assert!(prefix.chars().all(|c| c.is_ascii_alphanumeric()), "{name}");
    }
}

#[test]
fn under_conflict_only_names_that_several_servers_have_get_a_prefix() {
    let servers = [
        tools(0, "a", &["x", "y"]),
        tools(1, "b", &["y", "z", "a__y"]),
    ];
    let names = named(Prefix::Conflict, &servers);
    assert_eq!(names[0], "x");
    assert_eq!(names[2], "b__y");
    assert_eq!(names[3], "z");
    // One server's prefixed name is another one's own.
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), 5, "{names:?}");
    assert_eq!(named(Prefix::Conflict, &servers[1..]), ["y", "z", "a__y"]);
}

#[test]
fn a_tool_that_is_filtered_out_makes_no_conflict() {
    let mut servers = [tools(0, "a", &["x", "y"]), tools(1, "b", &["y", "z"])];
    servers[1].filter = Filter::new([], ["y"]);
    assert_eq!(named(Prefix::Conflict, &servers), ["x", "y", "z"]);
}

#[test]
fn under_never_the_first_in_the_file_keeps_its_name_and_both_are_reached() {
    let servers = [tools(0, "a", &["x", "y"]), tools(1, "b", &["y", "z"])];
    assert_eq!(named(Prefix::Never, &servers), ["x", "y", "b__y", "z"]);
    let naming = Naming {
        prefix: Prefix::Never,
        ..Naming::default()
    };
    let roster = Roster::new(&servers, &naming, &View::default());
    assert_eq!(roster.tool("y").expect("a tool").target, TargetId(0));
    assert_eq!(roster.tool("b__y").expect("a tool").target, TargetId(1));
}

#[test]
fn prompts_have_names_of_their_own() {
    let servers = [
        with(0, "a", List::Prompts, &["p"]),
        with(1, "b", List::Prompts, &["p"]),
    ];
    let roster = roster(&servers);
    assert_eq!(keys(&roster, List::Prompts), ["a__p", "b__p"]);
    assert_eq!(roster.prompt("b__p").expect("a prompt").target, TargetId(1));
    assert_eq!(roster.exposed_prompt(TargetId(1), "p"), Some("b__p"));
    assert!(roster.tool("b__p").is_none());
}

#[test]
fn a_server_of_which_nothing_is_known_changes_no_name() {
    let known = tools(1, "b", &["t"]);
    let with_unknown = [server(0, "a", None), known.clone()];
    assert_eq!(
        keys(&roster(&with_unknown), List::Tools),
        keys(&roster(&[known]), List::Tools)
    );
}

/// Names that are likely to become alike.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab_.]{0,4}",
        "[a_]{0,3}(__|_|-)[a_.]{0,3}",
        "(x|y|é){40,60}",
        any::<String>(),
    ]
}

fn servers() -> impl Strategy<Value = Vec<Entry>> {
    let tools_of = prop::collection::vec(hostile(), 0..12);
    let one = (hostile(), prop::option::of(hostile()), tools_of);
    prop::collection::vec(one, 1..8).prop_map(|all| {
        let entry =
            |(at, (name, prefix, names)): (usize, (String, Option<String>, Vec<String>))| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let mut entry = tools(at, &name, &names);
                entry.prefix = prefix.map(Into::into);
                entry
            };
        all.into_iter().enumerate().map(entry).collect()
    })
}

fn naming() -> impl Strategy<Value = Naming> {
    let prefix = prop_oneof![
        Just(Prefix::Always),
        Just(Prefix::Conflict),
        Just(Prefix::Never)
    ];
    let separator = prop_oneof![Just("__".to_string()), "[_a-]{0,2}", any::<String>()];
    (prefix, separator, 0_usize..80).prop_map(|(prefix, separator, longest)| Naming {
        prefix,
        separator: separator.into(),
        longest,
    })
}

proptest! {
    #[test]
    fn names_are_never_alike_and_lead_back(servers in servers(), naming in naming()) {
        let roster = Roster::new(&servers, &naming, &View::default());
        let names = keys(&roster, List::Tools);
        prop_assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{:?}", names);
        for name in &names {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            prop_assert!(name.chars().all(allowed) && !name.is_empty(), "{}", name);
            prop_assert!(name.len() <= naming.longest.max(24), "{}", name);
            let found = roster.tool(name).expect("what is listed is found");
            prop_assert_eq!(roster.exposed_tool(found.target, found.item.key()), Some(name.as_str()));
        }
        let lists = servers.iter().filter_map(|entry| entry.offer.as_ref()?.list(List::Tools));
        prop_assert_eq!(lists.map(|list| list.len()).sum::<usize>(), names.len(), "none is missing");
    }

    #[test]
    fn under_always_no_name_depends_on_another_server(servers in servers(), hidden in any::<u8>()) {
        let before = keys(&roster(&servers), List::Tools);
        let mut fewer = servers.clone();
        for (at, entry) in fewer.iter_mut().enumerate() {
            entry.offer.take_if(|_| hidden >> at & 1 == 1);
        }
        let after = keys(&roster(&fewer), List::Tools);
        let mut rest = before.iter();
        prop_assert!(after.iter().all(|name| rest.any(|other| other == name)), "{:?} {:?}", before, after);
    }
}
