//! How `outlive` and its server are to be started.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use super::host::Host;
use super::tap::Tap;
use super::tree;

/// A test's own directory, its mark, and the command line in the making.
pub struct Setup {
    pub dir: TempDir,
    pub mark: String,
    flags: Vec<String>,
    env: Vec<(String, String)>,
    server: Vec<String>,
    knobs: Vec<String>,
    log: bool,
}

impl Setup {
    /// Defaults: a fake without faults, every event logged as JSON to a file.
    pub fn new() -> Setup {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mark = format!(
            "{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::SeqCst)
        );
        Setup {
            dir: TempDir::new().expect("a temporary directory"),
            mark,
            flags: Vec::new(),
            env: Vec::new(),
            server: Vec::new(),
            knobs: Vec::new(),
            log: true,
        }
    }

    /// Adds arguments to `outlive run`.
    pub fn flags(mut self, flags: &[&str]) -> Setup {
        self.flags.extend(flags.iter().map(|flag| flag.to_string()));
        self
    }

    /// Adds knobs to the fake.
    pub fn knobs(mut self, knobs: &[&str]) -> Setup {
        self.knobs.extend(knobs.iter().map(|knob| knob.to_string()));
        self
    }

    /// Runs this instead of the fake alone.
    pub fn server(mut self, command: &[&str]) -> Setup {
        self.server = command.iter().map(|word| word.to_string()).collect();
        self
    }

    /// Runs this shell script, in which `FAKE` stands for the fake with its knobs.
    pub fn script(self, script: &str) -> Setup {
        let fake: Vec<String> = self.fake().iter().map(|word| quoted(word)).collect();
        let script = script.replace("FAKE", &fake.join(" "));
        self.server(&["sh", "-c", &script])
    }

    /// Sets a variable for `outlive`.
    pub fn env(mut self, name: &str, value: &str) -> Setup {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Leaves the log to the test's own flags.
    pub fn no_log(mut self) -> Setup {
        self.log = false;
        self
    }

    /// A path in the test's directory, as text.
    pub fn path(&self, name: &str) -> String {
        self.dir
            .path()
            .join(name)
            .to_str()
            .expect("a path in UTF-8")
            .into()
    }

    /// Writes a file in the test's directory and returns its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file in the temporary directory");
        path
    }

    /// Where `outlive` keeps its status and its logs.
    pub fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// What another command of `outlive` says in this test's environment.
    pub fn outlive_says(&self, args: &[&str]) -> Output {
        let mut command = Command::new(Setup::outlive());
        self.dress(&mut command);
        command.args(args).stdin(Stdio::null());
        command.output().expect("outlive is built")
    }

    /// What the servers record.
    pub fn tap(&self) -> Tap {
        Tap {
            path: self.dir.path().join("tap.jsonl"),
        }
    }

    /// The fake's command line.
    pub fn fake(&self) -> Vec<String> {
        let mut words = vec![env!("CARGO_BIN_EXE_fake").to_owned()];
        words.extend(["--state".into(), self.path("tap.jsonl")]);
        words.extend(self.knobs.iter().cloned());
        words
    }

    /// The whole command line, `outlive` first.
    pub fn command_line(&self) -> Vec<String> {
        let outlive = Setup::outlive();
        let mut words = vec![
            outlive.to_str().expect("a path in UTF-8").to_owned(),
            "run".into(),
        ];
        if self.log {
            words.extend(["--log-format", "json", "--log-level", "debug"].map(String::from));
            words.extend(["--log-file".into(), self.path("log.jsonl")]);
        }
        words.extend(self.flags.iter().cloned());
        words.push("--".into());
        words.extend(if self.server.is_empty() {
            self.fake()
        } else {
            self.server.clone()
        });
        words
    }

    /// The command, with pipes on all three streams.
    pub fn command(&self) -> Command {
        let words = self.command_line();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        self.dress(&mut command);
        command
    }

    /// Gives a command this test's environment, directory and pipes.
    pub fn dress(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name
                .to_str()
                .is_some_and(|name| name.starts_with("OUTLIVE_"))
            {
                command.env_remove(name);
            }
        }
        command
            .env(tree::MARK, &self.mark)
            // What outlive remembers between runs belongs to the test, not to the user.
            .env("XDG_CACHE_HOME", self.dir.path())
            .env("XDG_STATE_HOME", self.dir.path())
            // So does what `outlive status` and `outlive logs` show.
            .env("OUTLIVE_STATE_DIR", self.state())
            .envs(self.env.iter().cloned())
            .current_dir(self.dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    /// Starts it.
    pub fn start(self) -> Host {
        let command = self.command();
        Host::spawn(self, command)
    }

    /// The binary under test: `OUTLIVE_BIN`, or the one built beside this test.
    pub fn outlive() -> PathBuf {
        if let Some(path) = std::env::var_os("OUTLIVE_BIN") {
            return path.into();
        }
        let path = Path::new(env!("CARGO_BIN_EXE_fake")).with_file_name("outlive");
        assert!(
            path.exists(),
            "there is no {}; build it first with `cargo build -p outlive-cli`",
            path.display()
        );
        path
    }
}

/// A word for the shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
