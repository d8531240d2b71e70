//! The system refuses another process or thread (`EAGAIN`): supergateway#177.
//!
//! `RLIMIT_NPROC` is lowered for the running program, and raised again. It counts what a user has, and does not bind
//! root: as root the program is started as another user, who may still read everything (`setpriv`).

use std::os::unix::fs::chown;
use std::process::{Command, Stdio};

use rustix::process::{Resource, Signal, getuid};
use serde_json::{Value, json};

use crate::fleet::{self, Fleet};
use crate::place::Place;
use crate::rig::{Setup, tree, until};

/// A user that no other process of this test is of.
const STRANGER: u32 = 64_177;

/// A command as a user whom the limit binds.
fn as_stranger(command: &Command) -> Command {
    let user = STRANGER.to_string();
    let mut stranger = Command::new("setpriv");
    stranger
        .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
        .args([
            "--inh-caps",
            "+dac_override",
            "--ambient-caps",
            "+dac_override",
        ])
        .arg("--")
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => stranger.env(name, value),
            None => stranger.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        stranger.current_dir(folder);
    }
    stranger.stdin(Stdio::null()).stdout(Stdio::null());
    stranger
}

/// The program with the servers of a place.
fn serve(place: &Place, servers: &Value, flags: &[&str]) -> Fleet {
    let setup = Setup::new();
    let named = place.flags(servers);
    let named = named.iter().map(String::as_str);
    let all: Vec<&str> = named.chain(flags.iter().copied()).collect();
    let mut command = fleet::command(&setup, &all);
    if getuid().is_root() {
        for folder in [setup.path("."), place.path(".")] {
            chown(folder, Some(STRANGER), Some(STRANGER)).expect("a folder of ours");
        }
        command = as_stranger(&command);
    }
    Fleet::spawn(setup, command)
}

/// Lets the program have as many processes and threads as this. Its user has more than one already.
fn allow(fleet: &Fleet, most: &str) {
    let mut command = Command::new("prlimit");
    command.args([
        "--pid",
        &fleet.pid().to_string(),
        &format!("--nproc={most}:"),
    ]);
    if getuid().is_root() {
        command = as_stranger(&command);
    }
    assert!(command.status().expect("prlimit").success());
}

fn pid_of(answer: &Value) -> Option<u64> {
    answer["result"]["structuredContent"]["pid"].as_u64()
}

#[test]
fn supergateway_177_a_process_that_cannot_be_created_costs_its_own_calls_alone() {
    let place = Place::new();
    let set = place.write("set", "v1");
    let servers = json!({
        "one": place.fake("one", &["--tools", &set]),
        "two": place.fake("two", &[]),
        "three": place.fake("three", &[]),
    });
    // One after the other: all of them at once are so many tools that a search takes their place.
    for (name, entry) in servers.as_object().expect("entries") {
        place.learn(&json!({ name: entry }));
    }
    let mut fleet = serve(&place, &servers, &["--hold", "200ms", "--expose", "list"]);
    let session = fleet.all();
    let call = |fleet: &Fleet, tool: &str| fleet.call_all(&session, tool, json!({}));
    let one = pid_of(&call(&fleet, "one__ping")).expect("it runs");
    let two = pid_of(&call(&fleet, "two__ping")).expect("it runs");
    let tools = fleet.tools(&session);
    let usual = rustix::process::getrlimit(Resource::Nproc).current;
    let usual = usual.map_or("unlimited".into(), |most| most.to_string());
    allow(&fleet, "1");
    // One that has never run, and one that has to be started again.
    tree::kill(two as u32, Signal::KILL);
    for tool in ["three__ping", "two__ping", "three__ping"] {
        let refused = call(&fleet, tool);
        let error = refused["error"]["message"].as_str().unwrap_or_default();
        let (server, _) = tool.split_once("__").expect("a name");
        assert!(error.contains(server), "{refused}");
        assert!(
            error.contains("Resource temporarily unavailable"),
            "{refused}"
        );
        assert_eq!(
            pid_of(&call(&fleet, "one__ping")),
            Some(one),
            "the other one goes on"
        );
    }
    // What is learnt meanwhile is told and written down, though there is no thread for it.
    place.write("set", "v2");
    let change = json!({ "method": "notifications/tools/list_changed", "params": {} });
    assert!(fleet.call_all(&session, "one__notify", change)["result"].is_object());
    let tools = until("the change", || {
        Some(fleet.tools(&session)).filter(|now| *now != tools)
    });
    // Whoever comes now is let in, and sees everything; a call that needs no process is answered.
    let other = fleet.all();
    assert_eq!(fleet.tools(&other), tools);
    assert_eq!(fleet.get("/health").status, 200);
    assert!(fleet.get("/").text().contains("three"));
    assert!(fleet.is_running(), "the gateway has died");
    assert_eq!(
        (place.spawns("two"), place.spawns("three")),
        (2, 1),
        "nothing could be started"
    );
    allow(&fleet, &usual);
    for tool in ["two__ping", "three__ping"] {
        until("it is started after all", || pid_of(&call(&fleet, tool)));
    }
    assert_eq!(pid_of(&call(&fleet, "one__ping")), Some(one));
    assert!(pid_of(&fleet.call_all(&other, "three__ping", json!({}))).is_some());
}
