//! A gateway of several targets, each under its name.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use outlive_core::gateway::TargetId;
use outlive_core::roster::{Entry, Expose, Filter, Naming, View};
use outlive_core::router::RouterPolicy;

use super::catalogue::{Catalogue, Content, Showing};
use super::layout::{Layout, Numbers};
use super::pin_files::Pins;
use super::pinning::Wanted;
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
    naming: Naming,
    expose: Expose,
    views: Vec<(String, View)>,
    router: RouterPolicy,
    catalogue: Option<PathBuf>,
    pins: Option<Pins>,
    orphan_reaper: Option<OrphanReaper>,
    observer: Arc<dyn Observer>,
}

impl Several {
    pub(super) fn new(targets: Vec<(String, Builder)>) -> Several {
        Several {
            targets,
            naming: Naming::default(),
            expose: Expose::default(),
            views: Vec::new(),
            router: RouterPolicy::default(),
            catalogue: None,
            pins: None,
            orphan_reaper: None,
            observer: Arc::new(()),
        }
    }

    /// How the names of tools and prompts are made.
    #[must_use]
    pub fn naming(mut self, naming: Naming) -> Several {
        self.naming = naming;
        self
    }

    /// How the tools of all servers are shown: in one list, or as two tools that find and call the others.
    #[must_use]
    pub fn expose(mut self, expose: Expose) -> Several {
        self.expose = expose;
        self
    }

    /// A part of what there is, at `/view/NAME/mcp`.
    #[must_use]
    pub fn view(mut self, name: impl Into<String>, view: View) -> Several {
        self.views.push((name.into(), view));
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

    /// Where it is kept what was accepted of targets that are [pinned](Builder::pin). Without it that is forgotten with
    /// the gateway, and the next one accepts what it sees first.
    #[must_use]
    pub fn pins(mut self, pins: Pins) -> Several {
        self.pins = Some(pins);
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
        let drafts = self.drafts()?;
        let mut numbers = Numbers::default();
        let ids = (0..drafts.len()).map(TargetId);
        let (layout, content) = self.parts(0, ids.zip(drafts).collect(), &mut numbers);
        let (router, reaper, observer) = (self.router, self.orphan_reaper, self.observer);
        let catalogue = Catalogue::new(content, self.catalogue, observer.clone());
        let catalogue = Some(Arc::new(catalogue));
        Ok(Gateway::over(Upstreams::new(
            layout, numbers, catalogue, router, reaper, observer,
        )))
    }

    /// Has a gateway serve this from now on. See [`Gateway::update`].
    pub(super) fn update(mut self, upstreams: &Arc<Upstreams>) -> io::Result<Changes> {
        let catalogue = upstreams.catalogue.as_ref().ok_or_else(|| {
            misconfigured("a gateway of one server stays what it is: build it with `Gateway::of`")
        })?;
        let drafts = self.drafts()?;
        for draft in &drafts {
            draft.target.check()?;
        }
        let numbers = upstreams.updating.lock();
        let mut numbers = numbers.unwrap_or_else(PoisonError::into_inner);
        let before = upstreams.layout();
        let mut changes = Changes::default();
        let mut targets = Vec::new();
        for mut draft in drafts {
            let mut known = before.targets.iter();
            let known = known.find(|(_, it)| it.name == draft.target.name);
            let id = match known {
                Some((id, same)) if same.is_like(&draft.target) => {
                    draft.target = same.clone();
                    *id
                }
                _ => {
                    let news = match known {
                        Some(_) => &mut changes.changed,
                        None => &mut changes.added,
                    };
                    news.push(draft.target.name.clone());
                    upstreams.add_target(draft.target.clone())
                }
            };
            targets.push((id, draft));
        }
        let stays = |id: TargetId| targets.iter().any(|(it, _)| *it == id);
        let gone = before.targets.iter().filter(|(id, _)| !stays(*id));
        let gone: Vec<(TargetId, String)> = gone.map(|(id, it)| (*id, it.name.clone())).collect();
        let (layout, content) = self.parts(before.edition + 1, targets, &mut numbers);
        // Routers first: they tell their clients what has become of a server that is about to end.
        catalogue.update(content);
        for (id, name) in gone {
            upstreams.remove_target(id);
            if !changes.changed.contains(&name) {
                changes.removed.push(name);
            }
        }
        // Endpoints last: whoever finds that one is gone finds its target gone, too.
        upstreams.set_layout(layout);
        Ok(changes)
    }

    /// What each target becomes, in their order, or what is wrong with the names of targets and views.
    fn drafts(&mut self) -> io::Result<Vec<Draft>> {
        let names = self.targets.iter().map(|(name, _)| name.as_str());
        check_names(names).map_err(misconfigured)?;
        let mut seen = HashSet::new();
        for (name, _) in &self.views {
            check_name("view", name).map_err(misconfigured)?;
            if !seen.insert(name) {
                let sentence = format!("two views are called {name:?}: rename one of them");
                return Err(misconfigured(sentence));
            }
        }
        let targets = std::mem::take(&mut self.targets).into_iter();
        let draft = |(name, builder): (String, Builder)| {
            Draft {
                // Its number is not known yet.
                entry: builder.entry(TargetId(usize::MAX), &name),
                pinned: builder.pin.then(|| builder.origin()),
                target: Arc::new(builder.named(name)),
            }
        };
        Ok(targets.map(draft).collect())
    }

    /// What is served, and how it is shown.
    fn parts(
        &mut self,
        edition: u64,
        drafts: Vec<(TargetId, Draft)>,
        numbers: &mut Numbers,
    ) -> (Layout, Content) {
        let keys = drafts.iter().map(|(id, draft)| (*id, draft.target.key()));
        let keys = keys.collect();
        let (mut entries, mut served, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
        let mut filtered = Vec::new();
        for (target, draft) in drafts {
            let entry = Entry {
                target,
                ..draft.entry
            };
            // Where it is alone, a target is shown as it is among the others.
            if entry.filter != Filter::default() || draft.pinned.is_some() {
                filtered.push(target);
            }
            wanted.extend(draft.pinned.map(|origin| Wanted {
                target,
                name: draft.target.name.clone(),
                origin,
            }));
            entries.push(entry);
            served.push((target, draft.target));
        }
        let views = std::mem::take(&mut self.views);
        let names: Vec<String> = views.iter().map(|(name, _)| name.clone()).collect();
        let is_filtered = |target| filtered.contains(&target);
        let layout = Layout::of_several(edition, served, is_filtered, &names, numbers);
        let views = views.into_iter();
        let views = views.map(|(name, view)| (numbers.of_view(&name), name, view));
        let views = views.collect();
        let filtered = filtered.into_iter();
        let filtered = filtered.map(|target| (numbers.of_filtered(target), target));
        let content = Content {
            showing: Showing {
                naming: self.naming.clone(),
                expose: self.expose,
                views,
                filtered: filtered.collect(),
            },
            entries,
            keys,
            pins: self.pins.take(),
            pinned: wanted,
        };
        (layout, content)
    }
}

/// What a target becomes.
struct Draft {
    entry: Entry,
    target: Arc<Target>,
    /// Names what starts it, if its definitions are pinned.
    pinned: Option<String>,
}

/// What an [update](Gateway::update) has changed: targets by name, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Targets that were not there before.
    pub added: Vec<String>,
    /// Targets that have new servers from now on.
    pub changed: Vec<String>,
    /// Targets that are there no more.
    pub removed: Vec<String>,
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
