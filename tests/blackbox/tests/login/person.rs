//! Somebody with a browser, and `outlive login` at a terminal.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus};

use crate::provider::{Provider, form};
use crate::rig::{Host, Setup, until};

/// Where a login begins, and where it ends.
#[derive(Clone, Debug)]
pub struct Link {
    pub asked: HashMap<String, String>,
}

impl Link {
    pub fn read(link: &str) -> Link {
        let query = link.split_once('?').map_or("", |(_, query)| query);
        Link { asked: form(query) }
    }

    /// The address on this machine that it ends at.
    pub fn end(&self) -> SocketAddr {
        let uri = self.asked["redirect_uri"]
            .strip_prefix("http://")
            .expect("this machine");
        uri.strip_suffix("/callback")
            .expect("the page")
            .parse()
            .expect("an address")
    }

    /// The browser is sent there with this query; the status of the page.
    pub fn visit(&self, query: &str) -> u16 {
        let path = format!("/callback?{query}");
        let reply = http_peer::send(self.end(), "GET", &path, &[], "");
        reply.expect("a page").status
    }

    /// The person logs in.
    pub fn log_in(&self, provider: &Provider) {
        let code = provider.approve(&self.asked);
        let state = &self.asked["state"];
        let status = self.visit(&format!(
            "code={code}&state={state}&iss={}",
            provider.origin()
        ));
        assert_eq!(status, 200);
    }
}

/// The link that a host's log shows, the `n`th.
pub fn link_of(host: &Host, n: usize) -> Link {
    let found = host.logged(n, "login_wanted", |_| true);
    Link::read(found[n - 1]["link"].as_str().expect("a link"))
}

/// How often a person was asked.
pub fn asked(host: &Host) -> usize {
    let events = host.events();
    events
        .iter()
        .filter(|it| it["event"] == "login_wanted")
        .count()
}

/// Runs an `outlive run` that tells the link only, with a store that all of a test share.
pub fn setup(provider: &Provider, store: &str) -> Setup {
    Setup::new()
        .flags(&["--login", "link", "--token-store", store])
        .server(&[&provider.url()])
}

/// A store with a login in it.
pub fn logged_in(provider: &Provider) -> (tempfile::TempDir, String) {
    let (folder, store) = store();
    let login = Login::start(provider, &store, &[]);
    login.link().log_in(provider);
    let (status, said) = login.end();
    assert!(status.success(), "{said}");
    provider.check_hidden(&said);
    (folder, store)
}

/// An empty store.
pub fn store() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder
        .path()
        .join("logins")
        .to_str()
        .expect("UTF-8")
        .to_owned();
    (folder, store)
}

/// A running `outlive login`.
pub struct Login {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
    said: String,
    link: Option<Link>,
    _setup: Setup,
}

impl Login {
    pub fn start(provider: &Provider, store: &str, flags: &[&str]) -> Login {
        Login::start_in(Setup::new(), provider, store, flags)
    }

    /// The same, with the variables of this setup.
    pub fn start_in(setup: Setup, provider: &Provider, store: &str, flags: &[&str]) -> Login {
        Login::start_at(setup, &provider.url(), store, flags)
    }

    /// The same, at the server with this address.
    pub fn start_at(setup: Setup, url: &str, store: &str, flags: &[&str]) -> Login {
        let mut command = Command::new(Setup::outlive());
        setup.dress(&mut command);
        command.args(["login", "--token-store", store]);
        if !flags.contains(&"--login") {
            command.args(["--login", "link"]);
        }
        command.args(flags).arg(url);
        let mut child = command.spawn().expect("outlive is built");
        let stderr = child.stderr.take().expect("a pipe");
        let mut login = Login {
            child,
            lines: BufReader::new(stderr),
            said: String::new(),
            link: None,
            _setup: setup,
        };
        login.read_link();
        login
    }

    /// Reads up to the link, or to the end if there is none.
    fn read_link(&mut self) {
        let mut line = String::new();
        while self.lines.read_line(&mut line).is_ok_and(|n| n > 0) {
            self.said.push_str(&line);
            if let Some(at) = line
                .find("http://")
                .filter(|_| line.contains("wants a login"))
            {
                self.link = Some(Link::read(line[at..].split_whitespace().next().unwrap()));
                return;
            }
            line.clear();
        }
    }

    #[track_caller]
    pub fn link(&self) -> Link {
        self.link
            .clone()
            .unwrap_or_else(|| panic!("no link: {}", self.said))
    }

    pub fn has_link(&self) -> bool {
        self.link.is_some()
    }

    /// Pastes a line.
    pub fn paste(&mut self, text: &str) {
        use std::io::Write;
        let input = self.child.stdin.as_mut().expect("a pipe");
        writeln!(input, "{text}").expect("it reads");
    }

    /// How it ended, and all it said.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = until("the end of a login", || {
            self.child.try_wait().expect("a child")
        });
        let _ = self.lines.read_to_string(&mut self.said);
        (status, std::mem::take(&mut self.said))
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
