//! `outlive status`: what runs, for whom, and how it stands; and who is not let in on it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Host, Setup, tree, until};

/// What `outlive status --json` says, and its exit code.
pub fn status(setup: &Setup) -> (Value, Option<i32>) {
    let output = setup.outlive_says(&["status", "--json"]);
    let said = serde_json::from_slice(&output.stdout).expect("JSON");
    (said, output.status.code())
}

/// The table that a person sees.
fn table(setup: &Setup) -> String {
    let output = setup.outlive_says(&["status"]);
    let table = String::from_utf8(output.stdout).expect("text");
    // Only a path that somebody has to mend is not cut.
    let fits = |line: &str| line.chars().count() <= 100 || line.starts_with("Not looked at");
    assert!(table.lines().all(fits), "{table}");
    assert!(
        !table.contains('\x1b'),
        "colours are for terminals: {table}"
    );
    table
}

/// Everything that is in the files below this folder, and the mode of each.
pub fn kept(folder: &Path) -> Vec<(String, u32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, about) = (entry.path(), entry.metadata().expect("its metadata"));
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        found.push((
            path.display().to_string(),
            about.permissions().mode() & 0o777,
            text,
        ));
        if about.is_dir() {
            found.extend(kept(&path));
        }
    }
    found
}

#[test]
fn a_session_is_shown_with_its_host_its_state_and_its_calls() {
    let mut host = Host::ready(Setup::new());
    let id = host.call("sleep", json!({ "ms": 60_000 }));
    let running = until("the call", || {
        let (said, code) = status(&host.setup);
        assert_eq!(code, Some(0));
        let running = said["running"][0].clone();
        (running["in_flight"] == 1).then_some(running)
    });
    assert_eq!(running["name"], "fake");
    assert_eq!(running["mode"], "run");
    assert_eq!(running["state"], "ready");
    assert_eq!(running["restarts"], 0);
    assert_eq!(running["last_loss"], Value::Null);
    assert_eq!(running["pid"], host.pid());
    assert_eq!(running["for"]["pid"], std::process::id());
    let directory = running["directory"].as_str().expect("a folder");
    assert_eq!(
        fs::canonicalize(directory).expect("a folder"),
        fs::canonicalize(host.setup.dir.path()).expect("a folder")
    );
    assert!(
        running["serves"]
            .as_str()
            .expect("a command")
            .contains("fake --state")
    );
    let table = table(&host.setup);
    assert!(table.contains("fake") && table.contains("ready"), "{table}");

    host.cancel(id);
    host.hang_up();
    host.exit();
    let (said, code) = status(&host.setup);
    assert_eq!((&said["running"], code), (&json!([]), Some(0)));
    assert_eq!(said["ended"][0]["name"], "fake");
    assert_eq!(kept(&host.setup.state().join("run")), []);
}

#[test]
fn nothing_running_is_said_in_a_sentence() {
    let setup = Setup::new();
    assert!(table(&setup).starts_with("No outlive is running."));
    assert_eq!(status(&setup).1, Some(0));
}

#[test]
fn a_lost_server_is_shown_with_the_cause() {
    let mut host = Host::ready(Setup::new());
    host.ask("stderr", json!({ "text": "out of cheese", "count": 1 }));
    tree::kill(host.server(1), Signal::KILL);
    host.ready_event(2);
    host.ping();
    let (said, code) = status(&host.setup);
    let running = &said["running"][0];
    assert_eq!(code, Some(0), "it is back");
    assert_eq!(
        (&running["state"], &running["generation"]),
        (&json!("ready"), &json!(2))
    );
    assert_eq!(running["restarts"], 1);
    assert_eq!(running["last_loss"]["cause"]["signal"], 9);
    let table = table(&host.setup);
    assert!(
        table.contains("the server was ended by signal 9"),
        "{table}"
    );
}

#[test]
fn a_server_that_keeps_failing_shows_in_the_exit_code() {
    let setup = Setup::new()
        .flags(&[
            "--backoff-base",
            "10ms",
            "--breaker-failures",
            "2",
            "--breaker-retry",
            "600s",
        ])
        .server(&["sh", "-c", "echo no such cheese >&2; exit 3"]);
    let host = setup.start();
    host.event("the breaker", |e| {
        e["event"] == "state" && e["state"] == "failed"
    });
    let (said, code) = status(&host.setup);
    assert_eq!(code, Some(1));
    assert_eq!(said["running"][0]["state"], "failed");
    assert_eq!(said["running"][0]["restarts"], 2);
    let table = table(&host.setup);
    assert!(
        table.contains("exited with code 3") && table.contains("no such cheese"),
        "{table}"
    );
}

#[test]
fn a_killed_outlive_leaves_no_ghost_and_its_name_is_free() {
    let host = Host::ready(Setup::new());
    let setup = Setup::new().env(
        "OUTLIVE_STATE_DIR",
        &host.setup.state().display().to_string(),
    );
    host.signal(Signal::KILL);
    let said = until("its end", || {
        let said = status(&host.setup).0;
        (said["running"] == json!([])).then_some(said)
    });
    let how = said["ended"][0]["how"].as_str().expect("an end");
    assert!(how.contains("outlive itself was killed"), "{how}");
    assert_eq!(
        kept(&host.setup.state().join("run")),
        [],
        "leftovers are put away"
    );
    let next = Host::ready(setup);
    assert_eq!(status(&host.setup).0["running"][0]["pid"], next.pid());
    assert_eq!(status(&host.setup).0["running"][0]["name"], "fake");
}

/// Also if nobody asked for the status in between.
#[test]
fn leftovers_do_not_keep_a_name_from_the_next() {
    let mut host = Host::ready(Setup::new());
    let state = host.setup.state().display().to_string();
    host.signal(Signal::KILL);
    host.exit();
    host.wait_for_empty_tree();
    assert_eq!(kept(Path::new(&state).join("run").as_path()).len(), 2);
    let next = Host::ready(Setup::new().env("OUTLIVE_STATE_DIR", &state));
    let (said, _) = status(&host.setup);
    assert_eq!(said["running"].as_array().map(Vec::len), Some(1));
    assert_eq!(said["running"][0]["name"], "fake");
    assert_eq!(said["running"][0]["pid"], next.pid());
}

#[test]
fn one_that_does_not_answer_is_shown_as_such() {
    let host = Host::ready(Setup::new());
    host.signal(Signal::STOP);
    let (said, code) = status(&host.setup);
    host.signal(Signal::CONT);
    assert_eq!(code, Some(1));
    assert_eq!(said["running"][0]["state"], "no answer");
    assert_eq!(said["running"][0]["name"], "fake");
    assert_eq!(said["running"][0]["pid"], host.pid());
    assert_eq!(status(&host.setup).0["running"][0]["state"], "ready");
}

#[test]
fn names_are_distinct_and_can_be_chosen() {
    let first = Host::ready(Setup::new());
    let state = first.setup.state().display().to_string();
    let more =
        |flags: &[&str]| Host::ready(Setup::new().env("OUTLIVE_STATE_DIR", &state).flags(flags));
    let _hosts = [more(&[]), more(&["--name", "my-own"])];
    let (said, _) = status(&first.setup);
    let running = said["running"].as_array().expect("a list");
    let names: Vec<_> = running.iter().map(|it| it["name"].as_str()).collect();
    assert_eq!(names, [Some("fake"), Some("fake-2"), Some("my-own")]);

    let output = first
        .setup
        .outlive_says(&["run", "--name", "../up", "--", "cat"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("a name consists of"));
}

/// Whatever is wrong with the folders, the session works and nobody is told twice.
#[test]
fn folders_that_cannot_be_trusted_or_used_cost_nothing() {
    type Spoil = fn(&Setup, &Path);
    let spoils: [(&str, Spoil); 4] = [
        ("is open to other users", |_, folder| {
            fs::create_dir(folder).expect("a folder");
            fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("its mode");
        }),
        ("is a symbolic link", |setup, folder| {
            let target = setup.dir.path().join("elsewhere");
            fs::create_dir_all(&target).expect("a folder");
            fs::set_permissions(&target, Permissions::from_mode(0o700)).expect("its mode");
            symlink(target, folder).expect("a link");
        }),
        ("is not a folder", |_, folder| {
            fs::write(folder, "").expect("a file")
        }),
        ("belongs to another user", |_, folder| {
            fs::create_dir(folder).expect("a folder");
            fs::set_permissions(folder, Permissions::from_mode(0o700)).expect("its mode");
            // Only root can give it away; to others the other cases have to do.
            if std::os::unix::fs::chown(folder, Some(12_345), None).is_err() {
                fs::set_permissions(folder, Permissions::from_mode(0o777)).expect("its mode");
            }
        }),
    ];
    for (why, spoil) in spoils {
        let setup = Setup::new();
        let state = setup.state();
        fs::create_dir(&state).expect("a folder");
        for name in ["run", "logs"] {
            spoil(&setup, &state.join(name));
        }
        let mut host = Host::ready(setup);
        host.ping();
        host.logged(1, "unregistered", |_| true);
        let table = table(&host.setup);
        assert!(
            table.contains("Not looked at") && table.contains(why),
            "{why}: {table}"
        );
        let (said, code) = status(&host.setup);
        assert_eq!((&said["running"], code), (&json!([]), Some(0)));
        let output = host.setup.outlive_says(&["logs", "fake"]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let inside = kept(&host.setup.dir.path().join("elsewhere"));
        assert_eq!(inside, [], "{why}: nothing is written there");
        let stderr = host.last_stderr();
        assert!(!stderr.contains("status"), "{why}: {stderr}");
    }
}

#[test]
fn files_are_the_users_alone() {
    let host = Host::ready(Setup::new());
    let found = until("a log", || {
        let found = kept(&host.setup.state());
        found
            .iter()
            .any(|(path, ..)| path.ends_with("fake.jsonl"))
            .then_some(found)
    });
    for (path, mode, _) in found {
        let is_folder = Path::new(&path).is_dir();
        assert_eq!(mode, if is_folder { 0o700 } else { 0o600 }, "{path}");
    }
}

/// Hosts pass hardly any environment on; the person at a terminal has all of it.
#[test]
fn a_host_that_passes_no_environment_on_is_found_from_a_terminal() {
    let setup = Setup::new();
    let name = format!("stripped-{}", setup.mark);
    let home = setup.dir.path();
    let bare = |command: &mut Command| {
        for variable in ["OUTLIVE_STATE_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"] {
            command.env_remove(variable);
        }
        command.env("HOME", home).env("TMPDIR", home);
    };
    let words = setup.command_line();
    let mut command = Command::new(&words[0]);
    setup.dress(&mut command);
    bare(&mut command);
    command
        .args(["run", "--name", &name, "--"])
        .args(setup.fake());
    let mut reader = Command::new(&words[0]);
    setup.dress(&mut reader);
    bare(&mut reader);
    let runtime = home.join("runtime");
    fs::create_dir(&runtime).expect("a folder");
    reader
        .env("XDG_RUNTIME_DIR", &runtime)
        .env("XDG_STATE_HOME", home.join("xdg"));
    let mut host = Host::spawn(setup, command);
    host.initialize();
    let table = String::from_utf8(reader.arg("status").output().expect("outlive").stdout);
    assert!(
        table.as_ref().is_ok_and(|table| table.contains(&name)),
        "{table:?}"
    );
}
