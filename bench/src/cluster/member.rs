//! One replica, process after process at the same port.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::contender::Programs;
use crate::process::Process;

/// How long a replica may take for anything. Only a hang takes as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the replicas share.
pub struct Shared<'a> {
    pub programs: &'a Programs,
    /// As `--store` has it; `None` for memory.
    pub store: Option<String>,
    /// The file of the replica secret.
    pub secret: &'a Path,
}

/// A replica.
pub struct Member {
    command: Vec<OsString>,
    port: u16,
    errors: std::path::PathBuf,
    child: Child,
}

impl Member {
    /// Starts one with these settings before this server, and waits until it is ready.
    pub fn start(shared: &Shared<'_>, settings: &[&str], server: &[&str]) -> io::Result<Member> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let address = format!("127.0.0.1:{port}");
        let mut command: Vec<OsString> = vec![shared.programs.outlive.clone().into()];
        command.extend(["serve", "--listen", &address].map(OsString::from));
        if let Some(store) = &shared.store {
            let found_at = format!("http://{address}");
            command.extend(["--store", store, "--advertise", &found_at].map(OsString::from));
            command.push("--replica-secret-file".into());
            command.push(shared.secret.into());
        }
        command.extend(settings.iter().map(OsString::from));
        command.push("--".into());
        command.push(shared.programs.echo.clone().into());
        command.extend(server.iter().map(OsString::from));
        let errors = shared
            .programs
            .scratch
            .join(format!("replica-{port}.stderr"));
        let child = spawn(&command, &errors)?;
        let mut member = Member {
            command,
            port,
            errors,
            child,
        };
        member.wait()?;
        Ok(member)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    fn wait(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let ready = http_peer::send(self.address(), "GET", "/ready", &[], "");
            if ready.is_ok_and(|it| it.status == 200) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                let said = std::fs::read_to_string(&self.errors).unwrap_or_default();
                return Err(io::Error::other(format!(
                    "a replica left: {status}\n{said}"
                )));
            }
            if begun.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it in order, and starts the next one.
    pub fn restart(&mut self) -> io::Result<()> {
        if let Some(process) = Pid::from_raw(self.child.id() as i32) {
            kill_process(process, Signal::TERM)?;
        }
        self.child.wait()?;
        self.child = spawn(&self.command, &self.errors)?;
        self.wait()
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn spawn(command: &[OsString], errors: &Path) -> io::Result<Child> {
    Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(errors)?)
        .spawn()
}
