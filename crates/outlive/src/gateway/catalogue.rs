//! What each target offers, as it was last seen: shared by all routers of a gateway, and kept on disk.
//!
//! # Theory
//!
//! A server tells what it offers when a router has shaken hands with it. The catalogue remembers that, so the next
//! router answers `initialize` and lists before any server runs. From what is known of all targets it makes a
//! [`Roster`] for each view, and hands a new one to every router there is when something has changed.
//!
//! Rosters have numbers, and a router takes none that is older than the one it has: they are handed out by tasks, which
//! may overtake each other.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use outlive_core::gateway::TargetId;
use outlive_core::roster::{Entry, Expose, Naming, Offer, Prefix, Roster, View};

use super::offer_files::OfferFiles;
use super::router_session::RouterSession;
use crate::observer::Observer;

/// A roster, and how many there were before it.
#[derive(Clone)]
pub(super) struct Edition {
    pub(super) number: u64,
    pub(super) roster: Arc<Roster>,
}

/// How what servers offer is shown to clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Showing {
    pub(super) naming: Naming,
    /// How tools are shown.
    pub(super) expose: Expose,
    /// The views beside the one that contains everything, by name.
    pub(super) views: Vec<(String, View)>,
    /// Targets that not all tools are shown of, also where they are alone. Each has a view of its own there.
    pub(super) filtered: Vec<TargetId>,
}

/// What is known of all targets.
pub(super) struct Catalogue {
    showing: Showing,
    inner: Mutex<Inner>,
    files: Option<OfferFiles>,
    observer: Arc<dyn Observer>,
}

struct Inner {
    entries: Vec<Entry>,
    number: u64,
    /// One for each view, that of everything first.
    rosters: Vec<Arc<Roster>>,
    routers: Vec<Weak<RouterSession>>,
}

impl Catalogue {
    /// The catalogue of these targets, each with the key of what starts its servers. With a directory it begins with
    /// what is known there.
    pub(super) fn new(
        mut entries: Vec<Entry>,
        keys: Vec<String>,
        showing: Showing,
        directory: Option<PathBuf>,
        observer: Arc<dyn Observer>,
    ) -> Catalogue {
        let files = directory.map(|directory| OfferFiles::new(directory, keys));
        if let Some(files) = &files {
            for entry in &mut entries {
                match files.read(entry.target.0) {
                    Ok(offer) => entry.offer = offer.map(Arc::new),
                    Err(why) => observer.note(&why),
                }
            }
        }
        let rosters = rosters(&entries, &showing);
        let inner = Inner {
            entries,
            number: 0,
            rosters,
            routers: Vec::new(),
        };
        Catalogue {
            showing,
            inner: Mutex::new(inner),
            files,
            observer,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The views beside the one that contains everything, by name.
    pub(super) fn views(&self) -> impl Iterator<Item = &str> {
        self.showing.views.iter().map(|(name, _)| name.as_str())
    }

    /// The view of a target where it is alone, if not all of its tools are shown.
    pub(super) fn view_of(&self, target: TargetId) -> Option<usize> {
        let at = self.showing.filtered.iter().position(|it| *it == target)?;
        Some(1 + self.showing.views.len() + at)
    }

    /// What there is to see in a view, counted from that of everything.
    pub(super) fn edition(&self, view: usize) -> Edition {
        self.lock().edition(view)
    }

    /// From now on a router is handed what is new.
    pub(super) fn register(&self, router: Weak<RouterSession>) {
        let mut inner = self.lock();
        inner.routers.retain(|it| it.strong_count() > 0);
        inner.routers.push(router);
    }

    /// All routers there are.
    pub(super) fn routers(&self) -> Vec<Arc<RouterSession>> {
        let inner = self.lock();
        inner.routers.iter().filter_map(Weak::upgrade).collect()
    }

    /// A server turned out to offer this. Routers are told by a task, but for the one that has learnt it, which looks
    /// for itself. To be called inside the runtime, without any lock.
    pub(super) fn learn(self: &Arc<Catalogue>, target: TargetId, offer: Offer) {
        let mut inner = self.lock();
        let Some(entry) = inner.entries.iter_mut().find(|it| it.target == target) else {
            return;
        };
        if entry.offer.as_deref() == Some(&offer) {
            return;
        }
        entry.offer = Some(Arc::new(offer));
        inner.rosters = rosters(&inner.entries, &self.showing);
        inner.number += 1;
        drop(inner);
        let catalogue = self.clone();
        tokio::spawn(async move {
            for router in catalogue.routers() {
                let edition = catalogue.edition(router.view());
                router.take(edition);
            }
        });
        if self.files.is_some() {
            let catalogue = self.clone();
            tokio::task::spawn_blocking(move || catalogue.keep(target));
        }
    }

    /// Writes down what is known of a target.
    fn keep(&self, target: TargetId) {
        let Some(files) = &self.files else {
            return;
        };
        let offer = || {
            let inner = self.lock();
            let entry = inner.entries.iter().find(|it| it.target == target);
            entry.and_then(|entry| entry.offer.clone())
        };
        if let Err(why) = files.write(target.0, offer) {
            self.observer.note(&why);
        }
    }
}

impl Inner {
    fn edition(&self, view: usize) -> Edition {
        Edition {
            number: self.number,
            roster: self.rosters[view].clone(),
        }
    }
}

/// What there is to see in each view.
fn rosters(entries: &[Entry], showing: &Showing) -> Vec<Arc<Roster>> {
    let everything = View::default();
    let views = showing.views.iter().map(|(_, view)| view);
    let all = std::iter::once(&everything).chain(views);
    let roster = |view| Roster::new(entries, &showing.naming, view);
    let all = all.map(|view| showing.expose.apply(roster(view)));
    // What is alone keeps its names.
    let naming = Naming {
        prefix: Prefix::Never,
        longest: usize::MAX,
        ..Naming::default()
    };
    let alone = showing.filtered.iter().filter_map(|target| {
        let entry = entries.iter().find(|it| it.target == *target)?;
        Some(Roster::new(
            std::slice::from_ref(entry),
            &naming,
            &everything,
        ))
    });
    all.chain(alone).map(Arc::new).collect()
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalogue").finish_non_exhaustive()
    }
}
