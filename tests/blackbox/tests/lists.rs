//! What the host believes the server offers.

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{Host, Setup, tree, until};

/// FM-15: after a restart the tools differ. The host, which was promised to be told, is told
/// once; it then sees the new tool and the new schema, and a tool that is gone says so.
#[test]
fn fm_15_changed_tools_are_announced_after_a_restart() {
    let setup = Setup::new();
    let tools = setup.file("tools", "v1");
    let mut host = setup.knobs(&["--tools", &tools]).start();
    let capabilities = host.initialize()["capabilities"].clone();
    for list in ["tools", "prompts", "resources"] {
        assert_eq!(capabilities[list]["listChanged"], true, "{list}");
    }
    assert_eq!(
        capabilities["resources"]["subscribe"], true,
        "what the server said is kept"
    );
    host.list_tools();
    assert_eq!(host.ask("removed", json!({})).text(), "removed");

    std::fs::write(&tools, "v2").expect("the tools");
    tree::kill(host.server(1), Signal::KILL);
    host.wait_for("list_changed", |m| {
        m["method"] == "notifications/tools/list_changed"
    });
    let changed = host.event("list_changed", |e| e["event"] == "list_changed");
    assert_eq!(changed["list"], "tools");
    assert_eq!(changed["added"], json!(["added"]));
    assert_eq!(changed["removed"], json!(["removed"]));
    assert_eq!(changed["changed"], json!(["changing"]));

    let listed = host.list_tools();
    assert!(listed.iter().any(|tool| tool["name"] == "added"));
    let changing = listed
        .iter()
        .find(|tool| tool["name"] == "changing")
        .expect("changing");
    assert_eq!(changing["inputSchema"]["required"], json!(["x"]));
    assert_eq!(host.ask("added", json!({})).text(), "added");
    let gone = host.ask("removed", json!({}));
    assert!(
        gone.message().contains("Unknown tool: removed"),
        "{}",
        gone.message()
    );

    assert_eq!(host.notified("notifications/tools/list_changed").len(), 1);
    assert!(
        host.notified("notifications/prompts/list_changed")
            .is_empty()
    );
    assert!(
        host.notified("notifications/resources/list_changed")
            .is_empty()
    );
}

/// FM-15: lists that did not change are not announced, restart after restart.
#[test]
fn fm_15_unchanged_lists_are_not_announced() {
    let mut host = Host::ready(Setup::new());
    for generation in 1..=3 {
        tree::kill(host.server(generation), Signal::KILL);
        host.ready_event(generation as u64 + 1);
        host.ping();
        // The comparison has been made when the new server has been asked for its tools.
        until("the comparison", || {
            let asked = host.tap().received(generation + 1);
            asked
                .iter()
                .any(|record| record["method"] == "tools/list")
                .then_some(())
        });
        host.ping();
    }
    let told: Vec<_> = host
        .received()
        .into_iter()
        .filter(|m| {
            m["method"]
                .as_str()
                .is_some_and(|method| method.ends_with("list_changed"))
        })
        .collect();
    assert!(told.is_empty(), "{told:?}");
}

/// FM-15: the server dies between two pages of a list, and the second comes from another one. The host, which now has
/// tools of both, is told that its list is not what the server has; one that is the same by chance is not announced.
#[test]
fn fm_15_pages_of_two_servers_are_announced() {
    for (set, times) in [("v3", 1), ("v1", 0)] {
        let setup = Setup::new();
        let tools = setup.file("tools", "v1");
        let mut host = setup.knobs(&["--tools", &tools, "--page", "20"]).start();
        host.initialize();
        let page = host.request("tools/list", json!({}));
        let cursor = host.answer(page).result()["nextCursor"].clone();
        std::fs::write(&tools, set).expect("the tools");
        tree::kill(host.server(1), Signal::KILL);
        host.ready_event(2);
        let page = host.request("tools/list", json!({ "cursor": cursor }));
        assert!(host.answer(page).result().get("nextCursor").is_none());
        // Compared when all pages were asked for.
        until("the comparison", || {
            let asked = host.tap().received(2);
            let lists = asked
                .iter()
                .filter(|record| record["method"] == "tools/list");
            (lists.count() == 3).then_some(())
        });
        host.ping();
        let told = || host.notified("notifications/tools/list_changed").len();
        until("the announcement", || (told() >= times).then_some(()));
        assert_eq!(told(), times, "{set}");
    }
}
