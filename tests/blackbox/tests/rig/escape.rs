//! Ways in which a process leaves the tree it was started in, none of which listens to polite signals.

use std::fs;

use super::tree;

/// Stays for long and writes its number into a file. Standard output and error stay what they were: it holds the
/// pipes of the server it comes from.
const STAY: &str = r#"sh -c "trap '' TERM HUP INT; echo \$\$ > FILE; exec sleep 9999""#;

/// What a shell script has to do to let `STAY` escape, by a name for it.
pub const WAYS: [(&str, &str); 4] = [
    ("a session of its own", "exec setsid STAY"),
    ("forked twice", "(STAY &) ; exit"),
    (
        "forked twice, a session of its own",
        "(setsid STAY &) ; exit",
    ),
    ("nohup", "nohup STAY & exit"),
];

/// The same without an environment.
#[allow(
    dead_code,
    reason = "what a check starts is known by its environment alone"
)]
pub const BARE: (&str, &str) = (
    "forked twice, a session of its own, no environment",
    "(setsid env -i PATH=\"$PATH\" STAY &) ; exit",
);

/// The script of a way; the process leaves its number in `file`.
pub fn script(way: &str, file: &str) -> String {
    way.replace("STAY", STAY).replace("FILE", file)
}

/// A process that has escaped: its number, and when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Escaped(u32, String);

impl Escaped {
    /// The one that left its number in the file.
    pub fn find(file: &str) -> Option<Escaped> {
        let pid = fs::read_to_string(file).ok()?.trim().parse().ok()?;
        Some(Escaped(pid, born(pid)?))
    }

    /// Whether it has ended.
    pub fn is_gone(&self) -> bool {
        born(self.0).as_ref() != Some(&self.1)
    }

    /// Ends it, for a test that has failed.
    pub fn kill(&self) {
        if !self.is_gone() {
            tree::kill(self.0, rustix::process::Signal::KILL);
        }
    }
}

/// When a process began; none that has ended.
fn born(pid: u32) -> Option<String> {
    let stat = tree::stat(pid)?;
    (stat[0] != "Z").then(|| stat[19].clone())
}
