//! Who is measured: the server alone, the bare relay, outlive, and the peers.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::traffic::ECHO;

/// What a contender is to the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// No one in the middle.
    Direct,
    /// The bare relay.
    Relay,
    /// What is being judged.
    Outlive,
    /// The same, as it was before.
    Earlier,
    /// A peer that passes lines on without reading them.
    Carrier,
    /// A peer that reads the protocol.
    Reader,
}

/// A command that behaves as the echo server does.
#[derive(Clone, Debug)]
pub struct Contender {
    /// How it is called in tables.
    pub name: String,
    /// What it is to the comparison.
    pub role: Role,
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// How the echo tool is called there.
    pub tool: &'static str,
    /// Variables set for it.
    pub variables: Vec<(&'static str, &'static str)>,
}

/// Where the programs are.
pub struct Programs {
    /// The echo server.
    pub echo: PathBuf,
    /// The bare relay.
    pub relay: PathBuf,
    /// The bare HTTP relay.
    pub http_relay: PathBuf,
    /// outlive: `OUTLIVE_BIN`, or the one built beside this program.
    pub outlive: PathBuf,
    /// An earlier outlive to be compared with: `OUTLIVE_EARLIER`.
    pub earlier: Option<PathBuf>,
    /// A folder for configurations and captured standard errors.
    pub scratch: PathBuf,
}

impl Programs {
    /// The programs built beside this one.
    pub fn locate() -> io::Result<Programs> {
        let own = env::current_exe()?;
        let folder = own.parent().unwrap_or(Path::new("."));
        let programs = Programs {
            echo: folder.join("echo"),
            relay: folder.join("relay"),
            http_relay: folder.join("http_relay"),
            earlier: env::var_os("OUTLIVE_EARLIER").map(PathBuf::from),
            outlive: env::var_os("OUTLIVE_BIN").map_or(folder.join("outlive"), PathBuf::from),
            scratch: folder.join("bench-scratch"),
        };
        let built = [
            &programs.echo,
            &programs.relay,
            &programs.http_relay,
            &programs.outlive,
        ];
        for program in built.into_iter().chain(&programs.earlier) {
            if !program.is_file() {
                return Err(io::Error::other(format!(
                    "{} is missing; `bench/run` builds it, or set OUTLIVE_BIN",
                    program.display()
                )));
            }
        }
        fs::create_dir_all(&programs.scratch)?;
        Ok(programs)
    }

    /// The server itself.
    pub fn direct(&self) -> Contender {
        contender("direct", Role::Direct, vec![self.echo.clone().into()])
    }

    /// The bare relay before it.
    pub fn relay(&self) -> Contender {
        contender(
            "bare relay",
            Role::Relay,
            vec![self.relay.clone().into(), self.echo.clone().into()],
        )
    }

    /// outlive before it, as a user would have it: every setting at its default.
    pub fn outlive(&self) -> Contender {
        self.outlive_with(&[], vec![self.echo.clone().into()])
    }

    /// An earlier outlive in its place, if there is one.
    pub fn earlier(&self) -> Option<Contender> {
        let mut earlier = self.outlive();
        earlier.command[0] = self.earlier.clone()?.into();
        earlier.name = "outlive, earlier".into();
        earlier.role = Role::Earlier;
        Some(earlier)
    }

    /// outlive with other settings, before another server.
    pub fn outlive_with(&self, settings: &[&str], server: Vec<OsString>) -> Contender {
        let mut command: Vec<OsString> = vec![self.outlive.clone().into(), "run".into()];
        command.extend(settings.iter().map(OsString::from));
        command.push("--".into());
        command.extend(server);
        contender("outlive", Role::Outlive, command)
    }

    /// The peers that `bench/setup` installed in `folder`.
    pub fn peers(&self, folder: &Path) -> io::Result<Vec<Contender>> {
        let folder = folder.canonicalize()?;
        // `bench/setup` writes the version last: where there is none, nothing whole was installed.
        let named = |name: &str, file: &str| {
            let version = fs::read_to_string(folder.join(file).with_extension("version"));
            let missing = |_| io::Error::other(format!("{name} is missing; run bench/setup"));
            version
                .map(|version| format!("{name} {}", version.trim()))
                .map_err(missing)
        };
        // mcpmon watches a folder for changes; nothing ever changes in this one.
        let quiet = self.scratch.join("unwatched");
        fs::create_dir_all(&quiet)?;
        let mcpmon = contender(
            named("mcpmon", "mcpmon")?,
            Role::Carrier,
            vec![
                folder.join("mcpmon/bin/mcpmon").into(),
                "--quiet".into(),
                "--watch".into(),
                quiet.into(),
                "--".into(),
                self.echo.clone().into(),
            ],
        );

        let configuration = self.scratch.join("mcp-hub.toml");
        fs::write(
            &configuration,
            format!("[servers.echo]\ncommand = {:?}\n", self.echo),
        )?;
        let mut hub = contender(
            named("mcp-hub", "mcp-hub")?,
            Role::Reader,
            vec![
                folder.join("mcp-hub/bin/mcp-hub").into(),
                configuration.into(),
            ],
        );
        // Its default writes a log line per call, which is not what we compare.
        hub.variables.push(("RUST_LOG", "warn"));

        let fastmcp = contender(
            named("FastMCP proxy", "fastmcp")?,
            Role::Reader,
            vec![
                folder.join("fastmcp/bin/python").into(),
                folder.join("../fastmcp_proxy.py").into(),
                self.echo.clone().into(),
            ],
        );
        Ok(vec![mcpmon, hub, fastmcp])
    }
}

fn contender(name: impl Into<String>, role: Role, command: Vec<OsString>) -> Contender {
    Contender {
        name: name.into(),
        role,
        command,
        tool: ECHO,
        variables: Vec::new(),
    }
}
