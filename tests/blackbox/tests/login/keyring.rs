//! Logins that only the system's keyring can open: GNOME Keyring on a bus of its own, and buses that are none.
//!
//! `tests/keyring/setup` installs the programs.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::person::{Login, asked, link_of};
use crate::provider::Provider;
use crate::rig::{Host, Setup, until};

const HOUR: Duration = Duration::from_secs(3600);
/// What only a hang takes.
const LONG: Duration = Duration::from_secs(60);

/// A folder for logins, and the bus that outlive is told of.
struct Desktop {
    folder: tempfile::TempDir,
    children: Vec<Child>,
}

impl Drop for Desktop {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Desktop {
    /// One without a bus.
    fn empty() -> Desktop {
        let folder = tempfile::tempdir().expect("a folder");
        let children = Vec::new();
        Desktop { folder, children }
    }

    /// One with a bus, and a keyring that is unlocked.
    fn start() -> Desktop {
        let mut desktop = Desktop::empty();
        fs::create_dir(desktop.path("data")).expect("a folder");
        let bus = desktop.path("bus");
        let config = desktop.path("bus.conf");
        // Nothing is started by the bus itself: a second keyring would be an empty one.
        let text = format!(
            r#"<busconfig><type>session</type><listen>unix:path={}</listen><policy context="default">
            <allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>"#,
            bus.display()
        );
        fs::write(&config, text).expect("a file");
        let mut daemon = desktop.command("dbus-daemon");
        daemon
            .args(["--nofork", "--nopidfile"])
            .arg(format!("--config-file={}", config.display()));
        desktop.spawn(daemon);
        until("a bus", || bus.exists().then_some(()));
        desktop.start_keyring();
        desktop
    }

    fn start_keyring(&mut self) {
        let mut daemon = self.command("gnome-keyring-daemon");
        daemon.args(["--unlock", "--foreground", "--components=secrets"]);
        let mut input = self.spawn(daemon).stdin.take().expect("a pipe");
        input.write_all(b"a password").expect("it reads");
        drop(input);
        until("a keyring", || {
            let found = self.secret_tool(&["search", "--all", "nobody", "has"]);
            found.status.success().then_some(())
        });
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn address(&self) -> String {
        format!("unix:path={}", self.path("bus").display())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("DBUS_SESSION_BUS_ADDRESS", self.address())
            .env("HOME", self.folder.path())
            .env("XDG_DATA_HOME", self.path("data"))
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .env_remove("DISPLAY")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn spawn(&mut self, mut command: Command) -> &mut Child {
        let child = command.spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("{command:?}: {error} (tests/keyring/setup installs it)")
        });
        self.children.push(child);
        self.children.last_mut().expect("it was begun")
    }

    /// The program that was started last is killed.
    fn kill_last(&mut self) {
        let mut child = self.children.pop().expect("a child");
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
    }

    fn secret_tool(&self, args: &[&str]) -> Output {
        let mut command = self.command("secret-tool");
        command.args(args).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.output().expect("tests/keyring/setup installs it")
    }

    /// The key that the keyring holds.
    fn key(&self) -> String {
        let found = self.secret_tool(&["lookup", "application", "outlive"]);
        String::from_utf8(found.stdout).expect("text")
    }

    fn setup(&self) -> Setup {
        Setup::new()
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address())
            .env(
                "XDG_RUNTIME_DIR",
                self.folder.path().to_str().expect("UTF-8"),
            )
            .env(
                "OUTLIVE_STATE_DIR",
                self.path("state").to_str().expect("UTF-8"),
            )
    }

    /// What `outlive` says to these words.
    fn outlive(&self, words: &[&str]) -> String {
        let output = self.setup().outlive_says(words);
        String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8")
    }

    fn run(&self, provider: &Provider) -> Setup {
        self.setup()
            .flags(&["--login", "link"])
            .server(&[&provider.url()])
    }

    /// Logs in; what was said.
    fn log_in(&self, provider: &Provider) -> String {
        let login = Login::start_in(self.setup(), provider, "auto", &[]);
        login.link().log_in(provider);
        let (status, said) = login.end();
        assert!(status.success(), "{said}");
        provider.check_hidden(&said);
        said
    }

    /// The file of the one login, and what is in it.
    fn file(&self) -> (PathBuf, String) {
        let files = fs::read_dir(self.path("state").join("logins")).expect("a folder");
        let mut files: Vec<PathBuf> = files.map(|it| it.expect("a file").path()).collect();
        files.retain(|it| it.extension().is_some_and(|it| it == "login"));
        assert_eq!(files.len(), 1, "{files:?}");
        let text = fs::read_to_string(&files[0]).expect("a file");
        (files.remove(0), text)
    }

    fn is_sealed(&self) -> bool {
        let text: Value = serde_json::from_str(&self.file().1).expect("JSON");
        text["sealed"].is_string()
    }
}

fn initialize(host: &mut Host) -> i64 {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
    });
    host.request("initialize", params)
}

/// A host that has to log in first; how often its log warns of this.
fn logs_in_anew(desktop: &Desktop, provider: &Provider, words: &str) -> Host {
    let mut host = desktop.run(provider).start();
    let id = initialize(&mut host);
    link_of(&host, 1).log_in(provider);
    host.answer(id).result();
    let warned = |it: &Value| it["why"].as_str().is_some_and(|why| why.contains(words));
    host.logged(1, "login_warning", warned);
    host.notify("notifications/initialized", json!({}));
    host.ask("echo", json!({})).result();
    host
}

/// What is kept cannot be read without the keyring: not its tokens, not by anybody. With it everything is as always, a
/// refresh and a logout included.
#[test]
fn a_login_is_sealed_where_there_is_a_keyring() {
    let provider = Provider::start(HOUR);
    let desktop = Desktop::start();
    desktop.log_in(&provider);
    assert!(desktop.is_sealed());
    assert_eq!(desktop.key().len(), 44, "32 bytes in base64");
    let mut host = Host::ready(desktop.run(&provider));
    host.ask("echo", json!({})).result();
    provider.withdraw_access();
    host.ask("echo", json!({})).result();
    assert_eq!((asked(&host), provider.books().refreshes), (0, 1));
    let (_, text) = desktop.file();
    assert!(desktop.is_sealed());
    provider.check_hidden(&text);
    assert!(!text.contains("token_endpoint"), "{text}");

    let listed = desktop.outlive(&["logins", "--json"]);
    provider.check_hidden(&listed);
    assert!(!listed.contains(&desktop.key()));
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        (&listed["server"], &listed["keyring"]),
        (&json!(provider.url()), &json!(true))
    );
    let log = fs::read_to_string(host.setup.path("log.jsonl")).unwrap();
    assert!(!log.contains(&desktop.key()));
    let out = desktop.outlive(&["logout", &provider.url()]);
    assert!(out.contains("logged out"), "{out}");
    assert_eq!(desktop.key(), "", "the keyring forgets it, too");
    assert_eq!(desktop.outlive(&["logins", "--json"]), "");
    let revoked = provider
        .web
        .wait_for(1, "the revocation", |it| it.path == "/revoke");
    assert_eq!(revoked.len(), 1);
    provider.check();
}

/// FM-28 with a keyring: several processes, many expiries, one refresh each, and no token is used twice.
#[test]
fn fm_28_processes_that_share_a_sealed_login_refresh_once() {
    const EXPIRIES: usize = 100;
    let provider = Provider::start(HOUR);
    let desktop = Desktop::start();
    desktop.log_in(&provider);
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for n in 0..4 {
            let (provider, desktop, barrier) = (&provider, &desktop, &barrier);
            scope.spawn(move || {
                let mut host = Host::ready(desktop.run(provider));
                host.ask("echo", json!({})).result();
                for _ in 0..EXPIRIES {
                    barrier.wait();
                    if n == 0 {
                        provider.withdraw_access();
                    }
                    barrier.wait();
                    host.ask("echo", json!({})).result();
                }
                assert_eq!(asked(&host), 0);
            });
        }
    });
    assert!(desktop.is_sealed());
    provider.check();
    let books = provider.books();
    assert_eq!((books.logins, books.refreshes), (1, EXPIRIES));
}

/// A keyring that leaves in the middle of a session costs that session nothing. Who comes later is told, logs in, and
/// that is kept as where there is no keyring; and stays so for all, whoever has the key.
#[test]
fn a_keyring_that_leaves_costs_a_login_and_says_so() {
    let provider = Provider::start(HOUR);
    let mut desktop = Desktop::start();
    desktop.log_in(&provider);
    let mut first = Host::ready(desktop.run(&provider));
    first.ask("echo", json!({})).result();
    desktop.kill_last();
    desktop.kill_last();
    provider.withdraw_access();
    first.ask("echo", json!({})).result();
    assert_eq!((asked(&first), provider.books().logins), (0, 1));
    assert!(desktop.is_sealed());

    let mut second = logs_in_anew(&desktop, &provider, "cannot be read");
    assert!(!desktop.is_sealed());
    // Each refreshes, and the other one reads what it got.
    provider.withdraw_access();
    second.ask("echo", json!({})).result();
    first.ask("echo", json!({})).result();
    assert!(!desktop.is_sealed(), "the second one could not read it");
    provider.withdraw_access();
    first.ask("echo", json!({})).result();
    second.ask("echo", json!({})).result();
    assert!(!desktop.is_sealed(), "the second one could not read it");
    assert_eq!((asked(&first), provider.books().logins), (0, 2));
    provider.check();
}

/// A keyring that is locked, with nobody there to unlock it: the same, and a logout says what it could not do.
#[test]
fn a_keyring_that_is_locked_costs_a_login_and_says_so() {
    let provider = Provider::start(HOUR);
    let desktop = Desktop::start();
    desktop.log_in(&provider);
    let mut first = Host::ready(desktop.run(&provider));
    first.ask("echo", json!({})).result();
    // Some versions of it crash when they have done it.
    desktop.secret_tool(&["lock", "--collection=login"]);
    assert_eq!(desktop.key(), "", "it is locked");
    provider.withdraw_access();
    first.ask("echo", json!({})).result();
    assert_eq!(asked(&first), 0);
    let login = Login::start_in(desktop.setup(), &provider, "keyring", &[]);
    assert!(!login.has_link(), "nobody is asked for what cannot be kept");
    let (status, said) = login.end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("locked"), "{said}");
    assert!(desktop.is_sealed(), "nothing is lost by that");
    logs_in_anew(
        &desktop,
        &provider,
        "cannot be read: the system's keyring is locked",
    );
    assert!(!desktop.is_sealed());
    provider.check();
}

#[test]
fn a_logout_that_cannot_be_told_says_so() {
    let provider = Provider::start(HOUR);
    let mut desktop = Desktop::start();
    desktop.log_in(&provider);
    desktop.kill_last();
    desktop.kill_last();
    let out = desktop.outlive(&["logout", &provider.url()]);
    assert!(
        out.contains("could not be told") && out.contains("logged out"),
        "{out}"
    );
    assert_eq!(desktop.outlive(&["logins", "--json"]), "");
}

/// Whoever deletes the entry in their keyring has deleted the login, and the next one is sealed again.
#[test]
fn without_its_key_a_login_is_none() {
    let provider = Provider::start(HOUR);
    let desktop = Desktop::start();
    desktop.log_in(&provider);
    let before = desktop.key();
    let cleared = desktop.secret_tool(&["clear", "application", "outlive"]);
    assert!(cleared.status.success(), "{cleared:?}");
    let mut host = logs_in_anew(&desktop, &provider, "not in the system's keyring any more");
    assert!(desktop.is_sealed());
    assert_ne!(desktop.key(), before);
    provider.withdraw_access();
    host.ask("echo", json!({})).result();
    provider.check();
}

/// A file that was changed, cut off, or sealed for another server is no login, and nothing worse.
#[test]
fn a_sealed_login_that_was_changed_is_none() {
    let provider = Provider::start(HOUR);
    let desktop = Desktop::start();
    for change in [
        |text: &str| text[..text.len() / 2].to_owned(),
        |text: &str| text.replacen("\"sealed\": \"", "\"sealed\": \"AAAA", 1),
        |_: &str| r#"{"about":{},"sealed":"AAAA"}"#.to_owned(),
        |_: &str| String::new(),
    ] {
        desktop.log_in(&provider);
        let (path, text) = desktop.file();
        fs::write(&path, change(&text)).unwrap();
        let mut host = desktop.run(&provider).start();
        let id = initialize(&mut host);
        link_of(&host, 1).log_in(&provider);
        host.answer(id).result();
        assert!(desktop.is_sealed());
    }
    provider.check();
}

/// Without a bus there is no keyring, which is nothing to speak of; `--token-store keyring` says so, and asks nobody.
#[test]
fn without_a_bus_a_file_is_taken() {
    let provider = Provider::start(HOUR);
    let desktop = Desktop::empty();
    let said = desktop.log_in(&provider);
    assert!(!said.contains("keyring"), "{said}");
    assert!(!desktop.is_sealed());
    let mut host = Host::ready(desktop.run(&provider));
    host.ask("echo", json!({})).result();
    let login = Login::start_in(desktop.setup(), &provider, "keyring", &[]);
    assert!(!login.has_link());
    let (status, said) = login.end();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("no keyring here"), "{said}");
    assert_eq!(provider.books().logins, 1);
}

/// `--token-store file` asks no keyring.
#[test]
fn a_file_is_taken_where_one_is_wanted() {
    let provider = Provider::start(HOUR);
    let desktop = Desktop::start();
    let login = Login::start_in(desktop.setup(), &provider, "file", &[]);
    login.link().log_in(&provider);
    assert!(login.end().0.success());
    assert!(!desktop.is_sealed());
    assert_eq!(desktop.key(), "");
}

/// A login that was kept in a file is refreshed where everything is to be sealed, and is sealed from then on.
#[test]
fn a_plain_login_is_sealed_when_it_is_refreshed() {
    let provider = Provider::start(HOUR);
    let desktop = Desktop::start();
    let login = Login::start_in(desktop.setup(), &provider, "file", &[]);
    login.link().log_in(&provider);
    assert!(login.end().0.success());
    assert!(!desktop.is_sealed());
    let strict = desktop
        .setup()
        .flags(&["--login", "link", "--token-store", "keyring"])
        .server(&[&provider.url()]);
    let mut host = Host::ready(strict);
    host.ask("echo", json!({})).result();
    provider.withdraw_access();
    host.ask("echo", json!({})).result();
    assert!(desktop.is_sealed());
    assert_eq!((asked(&host), provider.books().refreshes), (0, 1));
    let mut other = Host::ready(desktop.run(&provider));
    other.ask("echo", json!({})).result();
    assert_eq!((asked(&other), provider.books().logins), (0, 1));
    provider.check();
}

/// A process that knows a key which was deleted meanwhile seals a new login with the one that the keyring holds: other
/// processes can read it.
#[test]
fn a_new_login_is_not_sealed_with_a_key_that_was_deleted() {
    let provider = Provider::start(HOUR);
    let desktop = Desktop::start();
    desktop.log_in(&provider);
    let before = desktop.key();
    let mut first = Host::ready(desktop.run(&provider));
    first.ask("echo", json!({})).result();
    let cleared = desktop.secret_tool(&["clear", "application", "outlive"]);
    assert!(cleared.status.success(), "{cleared:?}");
    provider.withdraw_all();
    let id = first.call("echo", json!({}));
    link_of(&first, 1).log_in(&provider);
    first.answer(id).result();
    assert!(desktop.is_sealed());
    assert_eq!(desktop.key().len(), 44, "there is a key again");
    assert_ne!(desktop.key(), before);
    let mut second = Host::ready(desktop.run(&provider));
    second.ask("echo", json!({})).result();
    assert_eq!((asked(&second), provider.books().logins), (0, 2));
    provider.check();
}

/// `--token-store file` says that it cannot read what is sealed, before it is replaced or forgotten.
#[test]
fn a_sealed_login_that_is_not_to_be_opened_is_told_of() {
    const WORDS: &str = "--token-store file does not ask";
    let provider = Provider::start(HOUR);
    let desktop = Desktop::start();
    desktop.log_in(&provider);
    let login = Login::start_in(desktop.setup(), &provider, "file", &[]);
    login.link().log_in(&provider);
    let (status, said) = login.end();
    assert!(status.success() && said.contains(WORDS), "{said}");
    assert!(!desktop.is_sealed());
    desktop.log_in(&provider);
    assert!(desktop.is_sealed());
    let out = desktop.outlive(&["logout", "--token-store", "file", &provider.url()]);
    assert!(out.contains(WORDS), "{out}");
    assert!(out.contains("its key stays in the keyring"), "{out}");
    assert_eq!(desktop.outlive(&["logins", "--json"]), "");
}

/// A bus that takes connections and says nothing, or nonsense, or leaves: it is waited for a while, and told of.
#[test]
fn a_bus_that_is_none_is_not_waited_for() {
    type Behaviour = fn(std::os::unix::net::UnixStream);
    let silent: Behaviour =
        |stream| thread::sleep(LONG * if stream.peer_addr().is_ok() { 2 } else { 1 });
    let nonsense: Behaviour = |mut stream| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"OK 1234deadbeef\r\n");
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(&[0xff; 4096]);
        let _ = stream.read(&mut [0; 1024]);
    };
    let leaving: Behaviour = |mut stream| {
        let _ = stream.read(&mut [0; 16]);
    };
    for behaviour in [silent, nonsense, leaving] {
        let provider = Provider::start(HOUR);
        let desktop = Desktop::empty();
        let listener = UnixListener::bind(desktop.path("bus")).expect("a socket");
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || behaviour(stream));
            }
        });
        let begun = Instant::now();
        let said = desktop.log_in(&provider);
        assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
        assert!(said.contains("the system's keyring"), "{said}");
        assert!(said.contains("in a file that only you can read"), "{said}");
        assert!(!desktop.is_sealed());
        let mut host = Host::ready(desktop.run(&provider));
        host.ask("echo", json!({})).result();
        provider.check();
    }
}
