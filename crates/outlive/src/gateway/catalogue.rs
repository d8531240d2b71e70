//! What each target offers, as it was last seen: shared by all routers of a gateway, and kept on disk.
//!
//! # Theory
//!
//! A server tells what it offers when a router has shaken hands with it. The catalogue remembers that, so the next
//! router answers `initialize` and lists before any server runs. From what is known of all targets it makes a
//! [`Roster`] for each view, and hands a new one to every router there is when something has changed.
//!
//! Of targets whose definitions are [pinned](super::pinning) a roster has no more than was accepted, whether that was
//! done here or elsewhere, by the hand of `outlive accept`.
//!
//! Servers come and go: when the settings of a gateway are read again, the catalogue is given what there is from then
//! on. What was known of a server that was changed stays until it tells itself what it offers, so that no list is
//! shorter because something is starting.
//!
//! Rosters have numbers, and a router takes none that is older than the one it has: they are handed out by tasks, which
//! may overtake each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::roster::{Entry, Expose, Naming, Offer, Prefix, Roster, View};
use tokio::runtime::Handle;

use super::aside;
use super::layout::EVERYTHING;
use super::offer_files::OfferFiles;
use super::pin_files::{Pins, Withheld};
use super::pinning::{Pinning, Wanted};
use super::router_session::RouterSession;
use crate::observer::Observer;

/// How often it is looked whether something was accepted elsewhere.
const PIN_POLL: Duration = Duration::from_secs(1);

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
    /// The views beside the one that contains everything, by number and name.
    pub(super) views: Vec<(usize, String, View)>,
    /// Targets that not all tools are shown of, also where they are alone. Each has a view of its own there, and its
    /// number.
    pub(super) filtered: Vec<(usize, TargetId)>,
}

/// What there is to show.
pub(super) struct Content {
    /// The targets in their order; nothing is known of them yet.
    pub(super) entries: Vec<Entry>,
    /// What starts the servers of each.
    pub(super) keys: BTreeMap<TargetId, String>,
    /// Where it is kept what was accepted. Without it that stays where it was.
    pub(super) pins: Option<Pins>,
    /// The targets whose definitions are pinned.
    pub(super) pinned: Vec<Wanted>,
    pub(super) showing: Showing,
}

/// What is known of all targets.
pub(super) struct Catalogue {
    inner: Mutex<Inner>,
    files: Option<OfferFiles>,
    observer: Arc<dyn Observer>,
    /// One writes at a time about what was accepted, so that the newest is written last.
    pinning: Mutex<()>,
    /// Where routers run.
    runtime: OnceLock<Handle>,
    /// Somebody looks for what was accepted elsewhere.
    is_watched: AtomicBool,
}

struct Inner {
    pins: Pinning,
    showing: Showing,
    entries: Vec<Entry>,
    /// What starts the servers of each.
    keys: BTreeMap<TargetId, String>,
    /// Targets of which what is known was told by others that had their names.
    doubtful: BTreeSet<TargetId>,
    number: u64,
    /// One for each view, by its number; that of everything is 0.
    rosters: BTreeMap<usize, Arc<Roster>>,
    routers: Vec<Weak<RouterSession>>,
}

impl Catalogue {
    /// The catalogue of these targets. With a directory it begins with what is known there. Of those that are pinned,
    /// no more is shown than was accepted.
    pub(super) fn new(
        content: Content,
        directory: Option<PathBuf>,
        observer: Arc<dyn Observer>,
    ) -> Catalogue {
        let inner = Inner {
            pins: Pinning::default(),
            showing: Showing::default(),
            entries: Vec::new(),
            keys: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            number: 0,
            rosters: BTreeMap::new(),
            routers: Vec::new(),
        };
        let catalogue = Catalogue {
            inner: Mutex::new(inner),
            files: directory.map(OfferFiles::new),
            observer,
            pinning: Mutex::default(),
            runtime: OnceLock::new(),
            is_watched: AtomicBool::new(false),
        };
        catalogue.replace(content);
        catalogue
    }

    /// This is what there is from now on. Routers are told when this returns, or are about to hear of it. No lock of a
    /// server or a client may be held.
    pub(super) fn update(self: &Arc<Catalogue>, content: Content) {
        // It counts for whoever has the name from now on.
        self.settle_unwritten();
        self.replace(content);
        self.tell_routers();
        self.watch_pins();
    }

    fn replace(&self, content: Content) {
        let Content {
            mut entries,
            keys,
            pins,
            pinned,
            showing,
        } = content;
        if let Some(files) = &self.files {
            files.set_keys(keys.iter().map(|(target, key)| (target.0, key.clone())));
        }
        let is_new = |entry: &Entry| !self.lock().keys.contains_key(&entry.target);
        for entry in entries.iter_mut().filter(|entry| is_new(entry)) {
            let read = self.files.as_ref().map(|files| files.read(entry.target.0));
            match read.unwrap_or(Ok(None)) {
                Ok(offer) => entry.offer = offer.map(Arc::new),
                Err(why) => self.observer.note(&why),
            }
        }
        let turn = self.pinning.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.lock();
        for entry in &mut entries {
            inner.remember(entry, &keys);
        }
        let targets: Vec<TargetId> = entries.iter().map(|it| it.target).collect();
        inner.doubtful.retain(|target| keys.contains_key(target));
        (inner.entries, inner.keys, inner.showing) = (entries, keys, showing);
        inner.pins.replace(pins, pinned);
        inner.repin(&targets);
        drop(inner);
        drop(turn);
        for target in targets {
            self.settle(target);
        }
    }

    /// Hands what there is to see to every router.
    fn tell_routers(&self) {
        for router in self.routers() {
            router.take(self.edition(router.view()));
        }
    }

    /// The same, by a task. To be called inside the runtime.
    fn tell_routers_soon(self: &Arc<Catalogue>) {
        let catalogue = self.clone();
        tokio::spawn(async move { catalogue.tell_routers() });
    }

    /// Looks for what is accepted elsewhere from now on, if something is pinned and there are clients.
    fn watch_pins(self: &Arc<Catalogue>) {
        let is_pinned = !self.lock().pins.is_empty();
        let Some(runtime) = self.runtime.get().filter(|_| is_pinned) else {
            return;
        };
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            runtime.spawn(watch(Arc::downgrade(self)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a view of this name beside the one that contains everything.
    pub(super) fn has_view(&self, name: &str) -> bool {
        let inner = self.lock();
        inner.showing.views.iter().any(|(_, view, _)| view == name)
    }

    /// What there is to see in a view, by its number. In one that there is no more, there is nothing.
    pub(super) fn edition(&self, view: usize) -> Edition {
        self.lock().edition(view)
    }

    /// From now on a router is handed what is new.
    pub(super) fn register(self: &Arc<Catalogue>, router: Weak<RouterSession>) {
        let mut inner = self.lock();
        inner.routers.retain(|it| it.strong_count() > 0);
        inner.routers.push(router);
        drop(inner);
        self.runtime.get_or_init(Handle::current);
        self.watch_pins();
    }

    /// All routers there are.
    pub(super) fn routers(&self) -> Vec<Arc<RouterSession>> {
        let inner = self.lock();
        inner.routers.iter().filter_map(Weak::upgrade).collect()
    }

    /// A server turned out to offer this. Routers are told by a task, but for the one that has learnt it, which looks
    /// for itself. To be called inside the runtime, without any lock.
    pub(super) fn learn(self: &Arc<Catalogue>, target: TargetId, offer: Offer) {
        let mut guard = self.lock();
        let inner = &mut *guard;
        let Some(entry) = inner.entries.iter_mut().find(|it| it.target == target) else {
            return;
        };
        let known = entry.offer.as_deref() == Some(&offer);
        entry.offer = Some(Arc::new(offer));
        if !inner.doubtful.remove(&target) && known {
            return;
        }
        let is_pinned = inner.pins.contains(target);
        inner.repin(&[target]);
        drop(guard);
        self.tell_routers_soon();
        if is_pinned {
            let catalogue = self.clone();
            drop(aside::run(move || {
                if catalogue.settle(target) {
                    catalogue.tell_routers_soon();
                }
            }));
        }
        if self.files.is_some() {
            let catalogue = self.clone();
            drop(aside::run(move || catalogue.keep(target)));
        }
    }

    /// Writes down what was accepted of a target, and what is withheld of it, and tells whoever runs the gateway. True
    /// if it turns out that something else is accepted.
    fn settle(&self, target: TargetId) -> bool {
        let _turn = self.pinning.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = self.lock();
        if !inner.pins.contains(target) {
            return false;
        }
        let live = inner.told(target).cloned();
        let chore = inner.pins.chore(target, live.as_ref());
        drop(inner);
        let written = chore.map(|chore| chore.run());
        if let Some(why) = written.as_ref().and_then(|it| it.wrong()) {
            self.observer.note(why);
        }
        let mut inner = self.lock();
        let changed = written.is_some_and(|it| inner.pins.written(target, it));
        if changed {
            inner.repin(&[target]);
        }
        let news = inner.pins.news(target, live.as_deref());
        drop(inner);
        if let Some(news) = news {
            self.observer.note(&news);
        }
        changed
    }

    /// Waits until everything is written down that was accepted: what a gateway has shown as accepted counts at its next
    /// start, too.
    pub(super) fn settle_unwritten(&self) {
        let unwritten = self.lock().pins.unwritten();
        for target in unwritten {
            self.settle(target);
        }
    }

    /// Takes up what somebody else has accepted. True if something has changed.
    fn look(&self) -> bool {
        let _turn = self.pinning.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inner = self.lock();
        let (changed, notes) = inner.pins.look();
        if !changed.is_empty() {
            inner.repin(&changed);
        }
        drop(inner);
        notes.iter().for_each(|note| self.observer.note(note));
        !changed.is_empty()
    }

    /// What is withheld of the targets that are pinned.
    pub(super) fn withheld(&self) -> Vec<Withheld> {
        let inner = self.lock();
        let targets = inner.entries.iter().map(|it| it.target);
        let live = |target| inner.told(target).map(|it| &**it);
        let each = targets.filter_map(|target| inner.pins.withheld(target, live(target)));
        each.collect()
    }

    /// Accepts what is withheld of a target, if it is what this digest stands for. Tells what was done, or why nothing
    /// was. To be called inside the runtime.
    pub(super) fn accept(
        self: &Arc<Catalogue>,
        target: TargetId,
        digest: &str,
    ) -> Result<String, String> {
        let turn = self.pinning.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = self.lock();
        let live = inner.told(target).cloned();
        let withheld = inner.pins.withheld(target, live.as_deref());
        let files = inner.pins.files().cloned();
        drop(inner);
        let Some(withheld) = withheld else {
            return Err("Nothing of it is withheld; nothing was done.".into());
        };
        if withheld.digest != digest {
            return Err(
                "It has changed once more since this was shown. Nothing was accepted: look again."
                    .into(),
            );
        }
        if let Some(files) = files {
            let accepted = files.accept(&withheld);
            accepted.map_err(|why| format!("Nothing was accepted: {why}"))?;
        }
        let mut inner = self.lock();
        inner.pins.accept(target, &withheld);
        inner.repin(&[target]);
        drop(inner);
        drop(turn);
        self.tell_routers_soon();
        let catalogue = self.clone();
        drop(aside::run(move || catalogue.settle(target)));
        Ok("Accepted. Clients see it from now on.".into())
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
    /// What a target offers, as it has told itself.
    fn told(&self, target: TargetId) -> Option<&Arc<Offer>> {
        let mut entries = self.entries.iter();
        let entry = entries.find(|it| it.target == target && !self.doubtful.contains(&target));
        entry.and_then(|entry| entry.offer.as_ref())
    }

    fn edition(&self, view: usize) -> Edition {
        Edition {
            number: self.number,
            roster: self.rosters.get(&view).cloned().unwrap_or_else(|| {
                let (naming, everything) = (Naming::default(), View::default());
                Arc::new(Roster::new(&[], &naming, &everything))
            }),
        }
    }

    /// What is known of a target stays; one that is new may have been kept, or be another that had its name.
    fn remember(&mut self, entry: &mut Entry, keys: &BTreeMap<TargetId, String>) {
        let mut known = self.entries.iter();
        if let Some(same) = known.find(|it| it.target == entry.target) {
            entry.offer.clone_from(&same.offer);
            return;
        }
        let mut known = self.entries.iter();
        let namesake = known.find(|it| it.name == entry.name);
        let Some(namesake) = namesake.filter(|_| entry.offer.is_none()) else {
            return;
        };
        entry.offer.clone_from(&namesake.offer);
        let is_sure = self.keys.get(&namesake.target) == keys.get(&entry.target)
            && !self.doubtful.contains(&namesake.target);
        if entry.offer.is_some() && !is_sure {
            self.doubtful.insert(entry.target);
        }
    }

    /// Makes the rosters anew after these targets offer something else, or something else is accepted of them.
    fn repin(&mut self, targets: &[TargetId]) {
        let changed = |entry: &&mut Entry| targets.contains(&entry.target);
        for entry in self.entries.iter_mut().filter(changed) {
            let is_doubtful = self.doubtful.contains(&entry.target);
            self.pins.apply(entry, is_doubtful);
        }
        let rosters = rosters(&self.entries, &self.showing).into_iter();
        let rosters = rosters.map(|(number, roster)| {
            let roster = roster.doubting(|target| self.doubtful.contains(&target));
            (number, Arc::new(roster))
        });
        self.rosters = rosters.collect();
        self.number += 1;
    }
}

/// Looks for what was accepted elsewhere, as long as there is a catalogue.
async fn watch(catalogue: Weak<Catalogue>) {
    loop {
        tokio::time::sleep(PIN_POLL).await;
        let Some(catalogue) = catalogue.upgrade() else {
            return;
        };
        let looking = catalogue.clone();
        let changed = aside::run(move || looking.look());
        if changed.await.unwrap_or(false) {
            catalogue.tell_routers_soon();
        }
    }
}

/// What there is to see in each view.
fn rosters(entries: &[Entry], showing: &Showing) -> Vec<(usize, Roster)> {
    let everything = View::default();
    let views = showing
        .views
        .iter()
        .map(|(number, _, view)| (*number, view));
    let all = std::iter::once((EVERYTHING, &everything)).chain(views);
    let all = all.map(|(number, view)| (number, Roster::new(entries, &showing.naming, view)));
    let all = all.map(|(number, roster)| (number, showing.expose.apply(roster)));
    // What is alone keeps its names.
    let naming = Naming {
        prefix: Prefix::Never,
        longest: usize::MAX,
        ..Naming::default()
    };
    let alone = showing.filtered.iter().filter_map(|(number, target)| {
        let entry = entries.iter().find(|it| it.target == *target)?;
        let alone = std::slice::from_ref(entry);
        Some((*number, Roster::new(alone, &naming, &everything)))
    });
    all.chain(alone).collect()
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalogue").finish_non_exhaustive()
    }
}
