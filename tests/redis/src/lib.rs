//! Real Redis servers for tests, on free ports of the loopback address, in folders of their own.
//!
//! They end with the value that stands for them, and with the thread that has started them, however that ends: so a
//! test that is killed leaves none behind. `tests/redis/setup` installs the programs. A machine without them fails the
//! tests.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long a server may take to do something. Generous: it is only there so that nothing hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// One `redis-server`.
pub struct Redis {
    /// Where it listens.
    pub port: u16,
    folder: TempDir,
    flags: Vec<String>,
    child: Child,
}

impl Redis {
    /// One that keeps its data in a file, so that it survives [`kill`](Redis::kill).
    pub fn start() -> Redis {
        Redis::with(&[])
    }

    /// One with these settings as well.
    pub fn with(flags: &[&str]) -> Redis {
        let flags: Vec<String> = flags.iter().map(|it| it.to_string()).collect();
        let folder = tempfile::tempdir().expect("a folder");
        for _ in 0..5 {
            let port = free_port();
            let mut child = spawn(port, folder.path(), &flags);
            if came_up(&mut child, port, &flags) {
                return Redis {
                    port,
                    folder,
                    flags,
                    child,
                };
            }
            // Somebody else has taken the port meanwhile.
            let _ = (child.kill(), child.wait());
        }
        panic!("redis-server does not start: {}", log(folder.path()));
    }

    /// As `--store` has it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }

    /// Starts it again at the same port, with the data that it had written.
    pub fn start_again(&mut self) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.child = spawn(self.port, self.folder.path(), &self.flags);
            if came_up(&mut self.child, self.port, &self.flags) {
                return;
            }
            let _ = (self.child.kill(), self.child.wait());
            assert!(Instant::now() < until, "redis-server does not start again");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Forgets all of its data. It must not run.
    pub fn forget(&self) {
        let _ = std::fs::remove_dir_all(self.folder.path().join("appendonlydir"));
    }

    /// It stands still, or goes on.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process");
        kill_process(pid, signal).expect("signalled");
    }

    /// What `redis-cli` says to this.
    pub fn ask(&self, words: &[&str]) -> String {
        ask(self.port, &self.flags, words)
    }

    /// All keys.
    pub fn keys(&self) -> Vec<String> {
        self.ask(&["--scan"]).lines().map(str::to_owned).collect()
    }

    /// A number of `INFO`.
    pub fn info(&self, name: &str) -> u64 {
        let all = self.ask(&["INFO"]);
        let found = all
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}:")));
        found
            .and_then(|it| it.trim().parse().ok())
            .unwrap_or_else(|| panic!("no {name} in {all}"))
    }

    /// What is in its files.
    pub fn stored(&self) -> Vec<u8> {
        let folder = self.folder.path().join("appendonlydir");
        let files = std::fs::read_dir(folder).expect("its files");
        files
            .flat_map(|file| std::fs::read(file.expect("a file").path()).expect("its bytes"))
            .collect()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A master, a replica, and three sentinels that watch them.
pub struct Sentinels {
    /// The master, at first.
    pub master: Redis,
    /// Its replica, which becomes the master.
    pub replica: Redis,
    nodes: Vec<Redis>,
}

impl Sentinels {
    /// Returns when all of them know each other.
    pub fn start() -> Sentinels {
        let master = Redis::start();
        let port = master.port.to_string();
        let replica = Redis::with(&[
            "--replicaof",
            "127.0.0.1",
            &port,
            "--repl-diskless-sync-delay",
            "0",
        ]);
        until("the replica", || {
            replica
                .ask(&["INFO", "replication"])
                .contains("master_link_status:up")
        });
        let nodes: Vec<Redis> = (0..3).map(|_| sentinel(master.port)).collect();
        until("the sentinels", || {
            let known = |node: &Redis| {
                let it = node.ask(&["SENTINEL", "MASTER", "mymaster"]);
                let number = |name: &str| {
                    it.lines()
                        .skip_while(|it| *it != name)
                        .nth(1)
                        .map(str::to_owned)
                };
                number("num-other-sentinels").as_deref() == Some("2")
                    && number("num-slaves").as_deref() == Some("1")
            };
            nodes.iter().all(known)
        });
        Sentinels {
            master,
            replica,
            nodes,
        }
    }

    /// As `--store` has it.
    pub fn url(&self) -> String {
        let nodes: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port))
            .collect();
        format!("redis+sentinel://{}/mymaster", nodes.join(","))
    }

    /// Waits until the replica is the master.
    pub fn wait_for_failover(&self) {
        until("the failover", || {
            self.replica.ask(&["ROLE"]).starts_with("master")
        });
    }
}

/// A sentinel is a server of another mode, with a file that it writes to.
fn sentinel(master: u16) -> Redis {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sentinel.conf");
    for _ in 0..5 {
        let port = free_port();
        let text = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nlogfile log\n\
             sentinel monitor mymaster 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds mymaster 500\n\
             sentinel failover-timeout mymaster 3000\n",
            folder.path().display()
        );
        let mut file = std::fs::File::create(&path).expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        let mut command = program("redis-sentinel");
        let mut child = command.arg(&path).spawn().expect("redis-sentinel");
        if came_up(&mut child, port, &[]) {
            let flags = Vec::new();
            return Redis {
                port,
                folder,
                flags,
                child,
            };
        }
        let _ = (child.kill(), child.wait());
    }
    panic!("redis-sentinel does not start: {}", log(folder.path()));
}

/// A cluster of three masters.
pub struct Cluster {
    /// Its masters.
    pub nodes: Vec<Redis>,
}

impl Cluster {
    /// Returns when it is up.
    pub fn start() -> Cluster {
        let flags = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        // The port that the nodes speak at among themselves is chosen for each.
        let nodes: Vec<Redis> = (0..3)
            .map(|_| {
                let bus = free_port().to_string();
                Redis::with(&[&flags[..], &["--cluster-port", &bus]].concat())
            })
            .collect();
        let names: Vec<String> = nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port))
            .collect();
        let mut words = vec!["--cluster", "create"];
        words.extend(names.iter().map(String::as_str));
        words.extend(["--cluster-replicas", "0", "--cluster-yes"]);
        let made = nodes[0].ask(&words);
        assert!(made.contains("All 16384 slots covered"), "{made}");
        let is_up = |node: &Redis| node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
        until("the cluster", || nodes.iter().all(is_up));
        Cluster { nodes }
    }

    /// As `--store` has it.
    pub fn url(&self) -> String {
        let nodes: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port))
            .collect();
        format!("redis+cluster://{}", nodes.join(","))
    }
}

fn spawn(port: u16, folder: &Path, flags: &[String]) -> Child {
    let mut command = program("redis-server");
    command.args([
        "--bind",
        "127.0.0.1",
        "--port",
        &port.to_string(),
        "--logfile",
        "log",
    ]);
    command.arg("--dir").arg(folder);
    command.args([
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "everysec",
    ]);
    command.args(flags).spawn().expect("redis-server")
}

/// A program of Redis that the kernel ends with this thread.
fn program(name: &str) -> Command {
    let found = Command::new(name)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    assert!(
        found.is_ok_and(|it| it.success()),
        "{name} is missing: tests/redis/setup installs it"
    );
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", name]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// Waits until a server answers. False if it ends instead.
fn came_up(child: &mut Child, port: u16, flags: &[String]) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if child.try_wait().expect("a status").is_some() {
            return false;
        }
        if ask(port, flags, &["PING"]).contains("PONG") {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

fn ask(port: u16, flags: &[String], words: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    command.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
    if let Some(at) = flags.iter().position(|flag| flag == "--requirepass") {
        command.env("REDISCLI_AUTH", &flags[at + 1]);
    }
    let said = command
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("redis-cli");
    String::from_utf8_lossy(&said.stdout).into_owned()
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
