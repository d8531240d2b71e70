//! The targets of a gateway whose definitions are pinned: what was accepted of each, and what is on its way to disk.
//!
//! What is decided here is decided in memory, at once, and written behind: a first list must not wait for a disk. If it
//! turns out that it cannot be written, it does not count any more, and all of the server is withheld.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlive_core::gateway::TargetId;
use outlive_core::roster::{Entry, Offer, Pinned, first_use};

use super::pin_files::{Pins, Reason, Stamp, Trust, Withheld};

/// One target.
struct Pin {
    name: String,
    origin: String,
    trust: Trust,
    /// What was accepted for the first time, and is not written yet.
    is_unwritten: bool,
    /// Of the record that was last read.
    stamp: Stamp,
    /// The digest of what was last told to be withheld.
    told: Option<String>,
}

impl Pin {
    /// The same, where this is known to be accepted of another that had its name: there may be no record of that.
    fn after(mut self, other: Trust) -> Pin {
        self.trust = match (self.trust, other) {
            (Trust::FirstUse, Trust::Accepted(before)) => {
                Trust::Nothing(Reason::OtherOrigin, Some(before))
            }
            (Trust::FirstUse, Trust::Nothing(_, before)) => {
                Trust::Nothing(Reason::OtherOrigin, before)
            }
            (trust, _) => trust,
        };
        self
    }
}

/// A target that is to be pinned.
pub(super) struct Wanted {
    pub(super) target: TargetId,
    pub(super) name: String,
    /// Names what starts it.
    pub(super) origin: String,
}

/// All targets that are pinned.
#[derive(Default)]
pub(super) struct Pinning {
    /// Where it is kept what was accepted; without it that is forgotten with the gateway.
    files: Option<Pins>,
    each: BTreeMap<TargetId, Pin>,
}

/// Something to be written, for one target.
pub(super) struct Chore {
    files: Pins,
    name: String,
    origin: String,
    is_unwritten: bool,
    live: Arc<Offer>,
}

/// What came of it.
pub(super) struct Written {
    trust: Option<Trust>,
    stamp: Stamp,
    wrong: Option<String>,
}

impl Pinning {
    /// These targets are pinned from now on, and no others. One that has the name of another that was pinned, and
    /// starts something else, inherits nothing.
    pub(super) fn replace(&mut self, files: Option<Pins>, all: Vec<Wanted>) {
        self.files = files.or(self.files.take());
        let mut before: BTreeMap<String, Pin> = BTreeMap::new();
        for pin in std::mem::take(&mut self.each).into_values() {
            before.insert(pin.name.clone(), pin);
        }
        for wanted in all {
            let target = wanted.target;
            let pin = match before.remove(&wanted.name) {
                Some(same) if same.origin == wanted.origin => same,
                Some(other) => self.read(wanted).after(other.trust),
                None => self.read(wanted),
            };
            self.each.insert(target, pin);
        }
    }

    fn read(&self, Wanted { name, origin, .. }: Wanted) -> Pin {
        let files = self.files.as_ref();
        Pin {
            stamp: files.and_then(|files| files.stamp(&name, &origin)),
            trust: files.map_or(Trust::FirstUse, |files| files.trust(&name, &origin)),
            name,
            origin,
            is_unwritten: false,
            told: None,
        }
    }

    /// The targets of which something was accepted that is not written yet.
    pub(super) fn unwritten(&self) -> Vec<TargetId> {
        let each = self.each.iter().filter(|(_, pin)| pin.is_unwritten);
        each.map(|(target, _)| *target).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    pub(super) fn contains(&self, target: TargetId) -> bool {
        self.each.contains_key(&target)
    }

    /// Keeps what is shown of a target to what was accepted; what is seen for the first time is, unless it is doubtful,
    /// because another has told it.
    pub(super) fn apply(&mut self, entry: &mut Entry, is_doubtful: bool) {
        let Some(pin) = self.each.get_mut(&entry.target) else {
            return;
        };
        let is_unseen = is_doubtful && matches!(pin.trust, Trust::FirstUse);
        let Some(live) = entry.offer.as_ref().filter(|_| !is_unseen) else {
            entry.pinned = Some(Arc::new(Pinned::unknown()));
            return;
        };
        let first = match &pin.trust {
            _ if is_doubtful => None,
            Trust::FirstUse => first_use(None, live),
            Trust::Accepted(accepted) => first_use(Some(accepted), live),
            Trust::Nothing(..) => None,
        };
        if let Some(first) = first {
            pin.trust = Trust::Accepted(Box::new(first));
            pin.is_unwritten = true;
        }
        entry.pinned = Some(Arc::new(pin.trust.pinned(live)));
    }

    /// What is to be written about a target that offers this.
    pub(super) fn chore(&self, target: TargetId, live: Option<&Arc<Offer>>) -> Option<Chore> {
        let pin = self.each.get(&target)?;
        Some(Chore {
            files: self.files.clone()?,
            name: pin.name.clone(),
            origin: pin.origin.clone(),
            is_unwritten: pin.is_unwritten,
            live: live?.clone(),
        })
    }

    /// Takes note of what came of it. True if something else is accepted than before.
    pub(super) fn written(&mut self, target: TargetId, written: Written) -> bool {
        let Some(pin) = self.each.get_mut(&target) else {
            return false;
        };
        let Some(trust) = written.trust else {
            return false;
        };
        let changed = trust.accepted() != pin.trust.accepted();
        (pin.trust, pin.stamp, pin.is_unwritten) = (trust, written.stamp, false);
        changed
    }

    /// Reads records again that somebody else has written. Tells whose.
    pub(super) fn look(&mut self) -> (Vec<TargetId>, Vec<String>) {
        let (mut changed, mut notes) = (Vec::new(), Vec::new());
        let Some(files) = &self.files else {
            return (changed, notes);
        };
        for (target, pin) in &mut self.each {
            let stamp = files.stamp(&pin.name, &pin.origin);
            // What was removed counts until the next start: it was accepted.
            if stamp == pin.stamp || stamp.is_none() || pin.is_unwritten {
                continue;
            }
            pin.stamp = stamp;
            match files.trust(&pin.name, &pin.origin) {
                Trust::Nothing(Reason::Record(why), _) if pin.trust.accepted().is_some() => {
                    notes.push(format!(
                        "{}: what was accepted before still holds, for its new record cannot be read: {why}",
                        pin.name
                    ));
                }
                trust => {
                    if trust.accepted() != pin.trust.accepted() {
                        notes.push(format!("{}: its definitions were accepted", pin.name));
                    }
                    pin.trust = trust;
                    changed.push(*target);
                }
            }
        }
        (changed, notes)
    }

    /// What is withheld of a target that offers this.
    pub(super) fn withheld(&self, target: TargetId, live: Option<&Offer>) -> Option<Withheld> {
        let pin = self.each.get(&target)?;
        Withheld::of(&pin.name, &pin.origin, &pin.trust, live?)
    }

    /// The same, unless it was told before.
    pub(super) fn news(&mut self, target: TargetId, live: Option<&Offer>) -> Option<String> {
        let withheld = self.withheld(target, live);
        let pin = self.each.get_mut(&target)?;
        let digest = withheld.as_ref().map(|it| it.digest.clone());
        if digest == pin.told {
            return None;
        }
        pin.told = digest;
        withheld.map(|it| it.sentence())
    }

    /// Where it is kept what was accepted.
    pub(super) fn files(&self) -> Option<&Pins> {
        self.files.as_ref()
    }

    /// This was accepted of a target, and is written down if it can be.
    pub(super) fn accept(&mut self, target: TargetId, withheld: &Withheld) {
        let files = self.files.as_ref();
        if let Some(pin) = self.each.get_mut(&target) {
            pin.trust = Trust::Accepted(Box::new(withheld.accepting().clone()));
            pin.stamp = files.and_then(|files| files.stamp(&pin.name, &pin.origin));
            pin.is_unwritten = false;
        }
    }
}

impl Chore {
    /// Writes what is to be written. It may take a while.
    pub(super) fn run(self) -> Written {
        let Chore {
            files,
            name,
            origin,
            is_unwritten,
            live,
        } = self;
        let mut wrong = None;
        let trust = is_unwritten.then(|| {
            let first = |accepted: Option<&Offer>| first_use(accepted, &live);
            files
                .accept_first(&name, &origin, first)
                .unwrap_or_else(|why| Trust::Nothing(Reason::Record(why), None))
        });
        let stamp = files.stamp(&name, &origin);
        let now = trust.clone().unwrap_or_else(|| files.trust(&name, &origin));
        let is_withheld = Withheld::of(&name, &origin, &now, &live).is_some();
        let pending = is_withheld.then_some(&*live);
        if let Err(why) = files.set_pending(&name, &origin, pending) {
            wrong = Some(format!(
                "{name}: what is withheld of it cannot be kept for `outlive accept`: {why}"
            ));
        }
        Written {
            trust,
            stamp,
            wrong,
        }
    }
}

impl Written {
    /// What could not be written, in a sentence.
    pub(super) fn wrong(&self) -> Option<&str> {
        self.wrong.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use outlive_core::protocol::List;
    use outlive_core::roster::{ToolFilter, read_page};

    use super::*;

    fn wanted(target: usize, origin: &str) -> Vec<Wanted> {
        let (name, origin) = ("docs".into(), origin.into());
        let target = TargetId(target);
        vec![Wanted {
            target,
            name,
            origin,
        }]
    }

    /// How many tools are shown of a target that offers this one.
    fn shown(pins: &mut Pinning, target: usize, tool: &str, is_doubtful: bool) -> usize {
        let page = format!(r#"{{"tools":[{{"name":"{tool}"}}]}}"#);
        let (items, _) = read_page(List::Tools, page.as_bytes()).expect("a page");
        let offer = Offer::new("v", b"{}", br#"{"tools":{}}"#, None);
        let mut entry = Entry {
            target: TargetId(target),
            name: "docs".into(),
            prefix: None,
            filter: ToolFilter::default(),
            eager: false,
            offer: Some(Arc::new(offer.with_list(List::Tools, items))),
            pinned: None,
        };
        pins.apply(&mut entry, is_doubtful);
        let tools = entry
            .pinned
            .expect("pinned")
            .offer
            .list(List::Tools)
            .map(|it| it.len());
        tools.unwrap_or(0)
    }

    #[test]
    fn a_target_that_is_changed_inherits_what_was_accepted_of_the_same_origin_only() {
        let mut pins = Pinning::default();
        pins.replace(None, wanted(0, "x"));
        assert_eq!(shown(&mut pins, 0, "a", false), 1, "the first time");
        pins.replace(None, wanted(1, "x"));
        assert!(!pins.contains(TargetId(0)));
        assert_eq!(shown(&mut pins, 1, "b", false), 0, "this is no first time");
        assert_eq!(shown(&mut pins, 1, "a", false), 1);
        pins.replace(None, wanted(2, "y"));
        assert_eq!(shown(&mut pins, 2, "a", false), 0, "another origin");
        pins.replace(None, wanted(3, "z"));
        assert_eq!(shown(&mut pins, 3, "a", false), 0, "one more");
    }

    #[test]
    fn what_another_has_told_is_no_first_time() {
        let mut pins = Pinning::default();
        pins.replace(None, wanted(0, "x"));
        assert_eq!(shown(&mut pins, 0, "a", true), 0);
        assert_eq!(shown(&mut pins, 0, "b", false), 1);
        assert_eq!(shown(&mut pins, 0, "a", true), 0);
        assert_eq!(shown(&mut pins, 0, "b", true), 1, "it was accepted");
    }
}
