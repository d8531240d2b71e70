//! A gateway of several targets, each under its name.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::sync::Arc;

use super::{Builder, Gateway};
use crate::observer::Observer;
use crate::process::orphan_reaper::OrphanReaper;
use crate::run::misconfigured;

/// A longer name of a target is refused: it stands in addresses and in sentences.
pub const LONGEST_NAME: usize = 128;

/// How a gateway of several targets is set up. See [`Gateway::of`].
pub struct Several {
    targets: Vec<(String, Builder)>,
    orphan_reaper: Option<OrphanReaper>,
    observer: Arc<dyn Observer>,
}

impl Several {
    pub(super) fn new(targets: Vec<(String, Builder)>) -> Several {
        Several {
            targets,
            orphan_reaper: None,
            observer: Arc::new(()),
        }
    }

    /// Who ends what its servers have started if this process is ended with `SIGKILL` (nobody).
    #[must_use]
    pub fn orphan_reaper(mut self, orphan_reaper: OrphanReaper) -> Several {
        self.orphan_reaper = Some(orphan_reaper);
        self
    }

    /// Who is told what happens to the servers of all targets.
    #[must_use]
    pub fn observer(mut self, observer: impl Observer) -> Several {
        self.observer = Arc::new(observer);
        self
    }

    /// The gateway, or what is wrong with the names of its targets. Nothing is started yet.
    pub fn build(self) -> io::Result<Gateway> {
        let names = self.targets.iter().map(|(name, _)| name.as_str());
        check_names(names).map_err(misconfigured)?;
        let targets = self.targets.into_iter();
        let targets = targets.map(|(name, builder)| builder.named(name)).collect();
        Ok(Gateway::over(
            targets,
            true,
            self.orphan_reaper,
            self.observer,
        ))
    }
}

impl fmt::Debug for Several {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.targets.iter().map(|(name, builder)| (name, builder)))
            .finish()
    }
}

/// What is wrong with these names, if something is: each is to be one segment of a path, and no two are the same.
pub(super) fn check_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<(), String> {
    let mut seen = HashSet::new();
    for name in names {
        check_name(name)?;
        if !seen.insert(name) {
            return Err(format!(
                "two servers are called {name:?}: rename one of them"
            ));
        }
    }
    match seen.is_empty() {
        true => Err("there are no servers: name at least one".into()),
        false => Ok(()),
    }
}

/// What is wrong with this name, if something is: it is to be one segment of a path as it stands.
fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if name.is_empty() {
        return Err("a server has an empty name: give it one".into());
    }
    if name.len() > LONGEST_NAME {
        let begin: String = name.chars().take(20).collect();
        return Err(format!(
            "the name that begins with {begin:?} is longer than {LONGEST_NAME} bytes: shorten it"
        ));
    }
    if name == "." || name == ".." {
        return Err(format!("no server can be called {name:?}: rename it"));
    }
    match name.chars().find(|c| !plain(*c)) {
        Some(c) => Err(format!(
            "the name {name:?} cannot stand in an address because of {c:?}: use ASCII letters, digits, - . _ and ~"
        )),
        None => Ok(()),
    }
}
