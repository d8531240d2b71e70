//! For whom an instance works: the process that started it.

use serde_json::{Value, json};

use crate::system::{self, Parent};

/// Programs whose own name says nothing about what they run.
const INTERPRETERS: [&str; 7] = ["bun", "deno", "node", "python", "python3", "sh", "bash"];

/// The process that started this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pid: u32,
    /// None if the system does not tell.
    process: Option<String>,
}

impl Host {
    /// The parent of this process, if it still lives.
    pub fn find() -> Option<Host> {
        let Parent { pid, words } = system::parent()?;
        let process = words.map(|(name, words)| called(&name, &words));
        Some(Host { pid, process })
    }

    /// For a program.
    pub fn to_json(&self) -> Value {
        json!({ "pid": self.pid, "process": self.process })
    }
}

/// The process by its name, and by the script it runs if it is an interpreter.
fn called(name: &str, words: &[String]) -> String {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !INTERPRETERS.contains(&name) && !INTERPRETERS.contains(&plain) {
        return name.to_owned();
    }
    let script = words.iter().skip(1).find(|word| !word.starts_with('-'));
    let script = script.and_then(|word| word.rsplit('/').next());
    // What follows `-c` or `-e` is a program, not the name of one.
    let is_name = |word: &&str| !word.is_empty() && !word.contains(char::is_whitespace);
    match script.filter(is_name) {
        Some(script) => format!("{name} {script}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, line: &str) -> String {
        let words: Vec<String> = line.split('|').map(str::to_owned).collect();
        called(name, &words)
    }

    #[test]
    fn interpreters_are_called_by_what_they_run() {
        assert_eq!(named("claude", "claude|--x"), "claude");
        assert_eq!(
            named("node", "node|--no-warnings|/usr/lib/cli.js|a"),
            "node cli.js"
        );
        assert_eq!(
            named("python3.11", "python|agent.py"),
            "python3.11 agent.py"
        );
        assert_eq!(named("bash", "bash"), "bash");
        assert_eq!(named("sh", "sh|-c|exec outlive run"), "sh");
    }
}
