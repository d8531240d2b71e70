//! Files that name servers, as hosts and peers have them, and the directory in which outlive keeps what these offer.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::contender::{Contender, Programs, Role};
use crate::host::Host;

/// The first server's echo tool, as it is called behind a router.
pub const FIRST_TOOL: &str = "s000__echo";

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers that are alike but for their names.
pub struct ServerFile {
    /// How many there are.
    pub servers: usize,
    /// How many tools each of them has.
    pub tools: usize,
    folder: PathBuf,
}

impl ServerFile {
    /// Writes the files, and has outlive learn what the servers offer.
    pub fn new(programs: &Programs, servers: usize, tools: usize) -> io::Result<ServerFile> {
        let folder = programs.scratch.join(format!("servers-{servers}x{tools}"));
        fs::create_dir_all(&folder)?;
        let file = ServerFile {
            servers,
            tools,
            folder,
        };
        let echo = programs.echo.to_string_lossy();
        let (mut json, mut toml) = (String::new(), String::new());
        for number in 0..servers {
            let name = format!("s{number:03}");
            let separator = if number > 0 { "," } else { "" };
            let arguments = format!(r#"["--tools", "{tools}", "--name", "{name}"]"#);
            let _ = write!(
                json,
                "{separator}\n  \"{name}\": {{ \"command\": {echo:?}, \"args\": {arguments} }}"
            );
            // mcp-hub wants names that differ and adds nothing to them.
            let arguments = arguments.replace(']', r#", "--own-names"]"#);
            let _ = write!(
                toml,
                "[servers.{name}]\ncommand = {echo:?}\nargs = {arguments}\n\n"
            );
        }
        let servers = format!("{{{json}\n}}");
        fs::write(file.json(), format!("{{ \"mcpServers\": {servers} }}\n"))?;
        let gateway = format!("{{ \"mcp-gateway\": {{ \"servers\": {servers} }} }}");
        fs::write(file.nested(), format!("{{ \"mcpServers\": {gateway} }}\n"))?;
        fs::write(file.toml(), toml)?;
        file.learn(programs)?;
        Ok(file)
    }

    /// How many tools there are in all.
    pub fn all_tools(&self) -> usize {
        self.servers * self.tools
    }

    /// As most hosts have it.
    pub fn json(&self) -> PathBuf {
        self.folder.join("servers.json")
    }

    /// As mcp-gateway has it: below its own entry.
    pub fn nested(&self) -> PathBuf {
        self.folder.join("nested.json")
    }

    /// As mcp-hub has it.
    pub fn toml(&self) -> PathBuf {
        self.folder.join("servers.toml")
    }

    fn catalogue(&self) -> PathBuf {
        self.folder.join("catalogue")
    }

    /// The settings that make outlive stand before these servers. All tools are listed: nothing is to be searched for.
    pub fn settings(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["--servers".into(), self.json().into()];
        words.extend(["--catalogue".into(), self.catalogue().into()]);
        words.extend(["--expose".into(), "list".into()]);
        words
    }

    /// `outlive run` before these servers.
    pub fn run(&self, programs: &Programs) -> Contender {
        let mut contender = programs.outlive();
        contender.command.truncate(2);
        contender.command.extend(self.settings());
        Contender {
            name: format!("outlive run --servers, {}", self.servers),
            role: Role::Outlive,
            tool: FIRST_TOOL,
            ..contender
        }
    }

    /// Lets outlive start every server once, and waits until it has written down what they offer.
    fn learn(&self, programs: &Programs) -> io::Result<()> {
        let written = || fs::read_dir(self.catalogue()).map_or(0, |files| files.flatten().count());
        let mut host = Host::start(&self.run(programs), &programs.scratch)?;
        let begun = Instant::now();
        while count_tools(&host.request("tools/list", "{}")?) < self.all_tools()
            || written() < self.servers
        {
            if begun.elapsed() > PATIENCE {
                return Err(io::Error::other(format!(
                    "outlive knows {} of {} servers after a minute",
                    written(),
                    self.servers
                )));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// How many tools there are in a list.
pub fn count_tools(list: &str) -> usize {
    memchr::memmem::find_iter(list.as_bytes(), b"\"inputSchema\"").count()
}
