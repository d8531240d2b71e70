//! A gateway of several targets, each under its name.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use outlive_core::gateway::TargetId;
use outlive_core::roster::{Entry, Expose, Filter, Naming, View};
use outlive_core::router::RouterPolicy;

use super::catalogue::{Catalogue, Showing};
use super::target::Target;
use super::upstreams::Upstreams;
use super::{Builder, Gateway};
use crate::observer::Observer;
use crate::process::orphan_reaper::OrphanReaper;
use crate::run::misconfigured;

/// A longer name of a target is refused: it stands in addresses and in sentences.
pub const LONGEST_NAME: usize = 128;

/// How a gateway of several targets is set up. See [`Gateway::of`].
pub struct Several {
    targets: Vec<(String, Builder)>,
    showing: Showing,
    router: RouterPolicy,
    catalogue: Option<PathBuf>,
    orphan_reaper: Option<OrphanReaper>,
    observer: Arc<dyn Observer>,
}

impl Several {
    pub(super) fn new(targets: Vec<(String, Builder)>) -> Several {
        Several {
            targets,
            showing: Showing::default(),
            router: RouterPolicy::default(),
            catalogue: None,
            orphan_reaper: None,
            observer: Arc::new(()),
        }
    }

    /// How the names of tools and prompts are made.
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Several {
        self.showing.naming = naming;
        self
    }

    /// How the tools of all servers are shown: in one list, or as two tools that find and call the others.
    #[must_use]
    pub fn expose(mut self, expose: Expose) -> Several {
        self.showing.expose = expose;
        self
    }

    /// A part of what there is, at `/view/NAME/mcp`.
    #[must_use]
    pub fn view(mut self, name: impl Into<String>, view: View) -> Several {
        self.showing.views.push((name.into(), view));
        self
    }

    /// How the router behaves that is at `/mcp`.
    #[must_use]
    pub fn router(mut self, policy: RouterPolicy) -> Several {
        self.router = policy;
        self
    }

    /// The directory in which it is kept what servers offer (none). With that, `initialize` and lists are answered
    /// before any server runs, also after a restart. It is made if it is not there.
    #[must_use]
    pub fn catalogue(mut self, directory: impl Into<PathBuf>) -> Several {
        self.catalogue = Some(directory.into());
        self
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
    pub fn build(mut self) -> io::Result<Gateway> {
        let names = self.targets.iter().map(|(name, _)| name.as_str());
        check_names(names).map_err(misconfigured)?;
        let mut seen = HashSet::new();
        for (name, _) in &self.showing.views {
            check_name("view", name).map_err(misconfigured)?;
            if !seen.insert(name) {
                let sentence = format!("two views are called {name:?}: rename one of them");
                return Err(misconfigured(sentence));
            }
        }
        let targets = self.targets.iter().enumerate();
        let entries = targets.map(|(n, (name, builder))| builder.entry(TargetId(n), name));
        let entries: Vec<Entry> = entries.collect();
        let filtered = |entry: &&Entry| entry.filter != Filter::default();
        let filtered = entries.iter().filter(filtered).map(|it| it.target);
        self.showing.filtered = filtered.collect();
        let targets = self.targets.into_iter();
        let targets: Vec<Target> = targets.map(|(name, it)| it.named(name)).collect();
        let keys = targets.iter().map(Target::key).collect();
        let observer = self.observer;
        let catalogue = Catalogue::new(
            entries,
            keys,
            self.showing,
            self.catalogue,
            observer.clone(),
        );
        let catalogue = Some(Arc::new(catalogue));
        let (router, reaper) = (self.router, self.orphan_reaper);
        Ok(Gateway::over(Upstreams::new(
            targets, catalogue, router, reaper, observer,
        )))
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
        check_name("server", name)?;
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

/// What is wrong with this name of a server or view, if something is: it is to be one segment of a path as it stands.
fn check_name(what: &str, name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if name.is_empty() {
        return Err(format!("a {what} has an empty name: give it one"));
    }
    if name.len() > LONGEST_NAME {
        let begin: String = name.chars().take(20).collect();
        return Err(format!(
            "the name that begins with {begin:?} is longer than {LONGEST_NAME} bytes: shorten it"
        ));
    }
    if name == "." || name == ".." {
        return Err(format!("no {what} can be called {name:?}: rename it"));
    }
    match name.chars().find(|c| !plain(*c)) {
        Some(c) => Err(format!(
            "the name {name:?} cannot stand in an address because of {c:?}: use ASCII letters, digits, - . _ and ~"
        )),
        None => Ok(()),
    }
}
