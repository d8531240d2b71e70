//! Servers start, hang, die and are left; what is known of them outlives them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive::client::Era;
use outlive::gateway::{Builder, RouterPolicy, Several};
use outlive::policy::Policy;
use outlive::{Command, Error, Gateway, Observer, Time, event};
use serde_json::json;

use crate::rig::{Fleet, in_time, named, named_server, said, tools, until};

/// An example of this crate, as a program.
fn program(name: &str) -> Command {
    let own = std::env::current_exe().expect("this program");
    let folder = own.ancestors().nth(2).expect("its folder");
    let program: PathBuf = folder.join("examples").join(name);
    assert!(
        program.is_file(),
        "cargo build -p outlive --examples --all-features"
    );
    Command::from(program.as_path())
}

fn dying() -> Builder {
    Gateway::command(program("dying_server"))
}

/// A process that takes everything and never answers.
fn hanging() -> Builder {
    Gateway::command(Command::new("sh", ["-c", "exec cat >/dev/null"]))
}

fn hasty() -> RouterPolicy {
    RouterPolicy {
        list_wait: Duration::from_millis(200),
        ..RouterPolicy::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_costs_its_own_calls_and_nothing_else() {
    for era in [Era::Legacy, Era::Modern] {
        let fleet = Fleet::of([("a", dying()), ("b", dying()), ("c", named("c"))]).await;
        let client = fleet.client_of(era).await;
        let all = [
            "a__ping", "a__crash", "b__ping", "b__crash", "c__who", "c__c",
        ];
        assert_eq!(tools(&client).await, all, "{era:?}");
        for _ in 0..3 {
            let crash = in_time(client.call("a__crash", json!({}))).await;
            let Err(Error::Remote { message, .. }) = crash else {
                panic!("{era:?}: {crash:?}");
            };
            assert!(message.contains("exited with code 1"), "{era:?}: {message}");
            assert_eq!(said(&client, "b__ping").await, "pong", "{era:?}");
            assert_eq!(said(&client, "c__who").await, "c", "{era:?}");
            assert_eq!(said(&client, "a__ping").await, "pong", "{era:?}");
        }
        drop(client);
        fleet.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_in_its_handshake_delays_nobody_for_long() {
    let several = Gateway::of([("a", named("a")), ("stuck", hanging()), ("b", named("b"))]);
    let fleet = Fleet::new(several.router(hasty())).await;
    let client = fleet.client().await;
    assert_eq!(tools(&client).await, ["a__who", "a__a", "b__who", "b__b"]);
    assert_eq!(said(&client, "b__who").await, "b");
    drop(client);
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_started_is_told_in_words() {
    let mut policy = Policy::default();
    policy.hold = Duration::from_millis(50);
    let none = Gateway::command(Command::new("/no/such/program", [""; 0])).policy(policy);
    let several = Gateway::of([("a", named("a")), ("none", none)]);
    let fleet = Fleet::new(several.router(hasty())).await;
    let client = fleet.client().await;
    assert_eq!(tools(&client).await, ["a__who", "a__a"]);
    assert_eq!(said(&client, "a__who").await, "a");
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_ends_its_servers() {
    let fleet = Fleet::of([("a", dying()), ("b", dying())]).await;
    let client = fleet.client().await;
    assert_eq!(tools(&client).await.len(), 4);
    until("both run", async || fleet.running().len() == 2).await;
    in_time(client.close()).await;
    until("none runs", async || fleet.running().is_empty()).await;
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_for_which_there_is_no_server_waits_and_is_told_why_while_others_go_on() {
    let mut policy = Policy::default();
    (policy.stop_grace, policy.term_grace) = (Duration::ZERO, Duration::ZERO);
    let few = dying().max_servers(1).policy(policy);
    let fleet = Fleet::of([("few", few), ("c", named("c"))]).await;
    let first = fleet.client().await;
    assert_eq!(tools(&first).await.len(), 4);
    assert_eq!(said(&first, "few__ping").await, "pong");
    let second = fleet.client().await;
    assert_eq!(tools(&second).await.len(), 4, "it is known by now");
    let refused = second.call("few__ping", json!({})).start();
    assert_eq!(said(&second, "c__who").await, "c", "nobody waits for it");
    let Err(Error::Remote { message, .. }) = in_time(refused).await else {
        panic!("there was one");
    };
    assert!(message.contains("as many as there may be"), "{message}");
    // One that waits gets the place of one that leaves.
    let waits = second.call("few__ping", json!({})).start();
    in_time(first.close()).await;
    assert_eq!(in_time(waits).await.expect("a server").text(), "pong");
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_ended_from_any_thread() {
    let fleet = Fleet::of([("a", named("a")), ("b", named("b"))]).await;
    let (legacy, modern) = (fleet.client().await, fleet.client_of(Era::Modern).await);
    assert_eq!(tools(&legacy).await, tools(&modern).await);
    let gateway = fleet.gateway.clone();
    let ending = std::thread::spawn(move || gateway.shutdown());
    ending.join().expect("no panic");
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_changes_its_tools_is_heard_by_every_client() {
    let server = named_server("a").build();
    let handle = server.handle();
    let fleet = Fleet::of([("a", Gateway::server(&server)), ("b", named("b"))]).await;
    let clients = [fleet.client().await, fleet.client().await];
    for client in &clients {
        assert_eq!(tools(client).await.len(), 4);
    }
    handle.add_tool("new", "", |_, (): ()| async { "new" });
    for client in &clients {
        until("it is listed", async || {
            tools(client).await.contains(&"a__new".into())
        })
        .await;
        assert_eq!(said(client, "a__new").await, "new");
    }
    assert!(handle.remove_tool("new"));
    for client in &clients {
        until("it is gone", async || tools(client).await.len() == 4).await;
    }
    fleet.end().await;
}

fn kept(directory: &Path) -> Several {
    // What starts them differs, or they would be one in the catalogue.
    let other = Gateway::command(program("dying_server").env("OTHER", "1"));
    Gateway::of([("a", dying()), ("b", other)]).catalogue(directory)
}

/// A gateway that has seen its servers and ended.
async fn seen(directory: &Path) {
    let fleet = Fleet::new(kept(directory)).await;
    let client = fleet.client().await;
    assert_eq!(tools(&client).await.len(), 4);
    // A draft is none yet.
    let is_whole = |path: PathBuf| path.extension().is_some_and(|it| it == "offer");
    let count = || {
        let listed = fs::read_dir(directory).into_iter().flatten().flatten();
        listed.filter(|it| is_whole(it.path())).count()
    };
    until("both are written down", async || count() == 2).await;
    fleet.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_seen_once_is_listed_before_anything_runs() {
    for era in [Era::Legacy, Era::Modern] {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path().join("deep/er");
        seen(&directory).await;
        let fleet = Fleet::new(kept(&directory)).await;
        let client = fleet.client_of(era).await;
        let all = ["a__ping", "a__crash", "b__ping", "b__crash"];
        assert_eq!(tools(&client).await, all, "{era:?}");
        assert!(
            fleet.gateway.upstreams().is_empty(),
            "{era:?}: nothing runs"
        );
        assert_eq!(said(&client, "b__ping").await, "pong", "{era:?}");
        let running: Vec<String> = fleet.running().into_iter().collect();
        assert_eq!(running, ["b"], "{era:?}");
        fleet.end().await;
    }
}

/// Who is told in sentences.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Observer for Notes {
    fn event(&self, _session: Option<u64>, _now: Time, _event: &event::Event) {}

    fn note(&self, sentence: &str) {
        self.0.lock().expect("notes").push(sentence.to_owned());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_ignored_and_written_anew() {
    let directory = tempfile::tempdir().expect("a directory");
    seen(directory.path()).await;
    let files: Vec<PathBuf> = fs::read_dir(directory.path())
        .expect("a directory")
        .map(|it| it.expect("a file").path())
        .collect();
    let whole: Vec<Vec<u8>> = files
        .iter()
        .map(|it| fs::read(it).expect("bytes"))
        .collect();
    fs::write(&files[0], &whole[0][..whole[0].len() / 2]).expect("cut");
    fs::write(&files[1], b"nothing of ours").expect("overwritten");
    let notes = Notes::default();
    let fleet = Fleet::new(kept(directory.path()).observer(notes.clone())).await;
    let said = notes.0.lock().expect("notes").clone();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said.iter().all(|it| it.contains("is ignored")), "{said:?}");
    let client = fleet.client().await;
    assert_eq!(tools(&client).await.len(), 4);
    let read = || files.iter().map(|it| fs::read(it).unwrap_or_default());
    until("they are whole again", async || {
        read().eq(whole.iter().cloned())
    })
    .await;
    fleet.end().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path().join("catalogue");
    seen(&directory).await;
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&directory), 0o700);
    for file in fs::read_dir(&directory).expect("a directory") {
        let path = file.expect("a file").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_flight_finishes_while_the_gateway_ends() {
    let server = outlive::Server::builder("a", "1").tool("slow", "", |_, (): ()| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        "done"
    });
    let mut policy = Policy::default();
    policy.drain = Duration::from_secs(20);
    let a = Gateway::server(&server.build()).policy(policy);
    let fleet = Fleet::of([("a", a), ("b", named("b"))]).await;
    let client = fleet.client().await;
    assert_eq!(tools(&client).await.len(), 3);
    let running = client.call("a__slow", json!({})).start();
    let upstreams = || fleet.gateway.upstreams().into_iter();
    until("it runs", async || upstreams().any(|it| it.in_flight > 0)).await;
    fleet.gateway.shutdown();
    assert_eq!(in_time(running).await.expect("its result").text(), "done");
    drop(client);
    fleet.end().await;
}
