//! What was accepted of servers whose definitions are pinned, on disk.
//!
//! # Theory
//!
//! A record says what was accepted of a server. It goes by the server's name and by what starts it, so that no other
//! command inherits what was accepted of this one. A command that has no record is trusted by itself only if its name
//! has none either: once something was accepted under a name, another command behind that name is shown to nobody until
//! somebody accepts it, and the old record stays, should the old command come back.
//!
//! | file | what is in it |
//! |---|---|
//! | `NAME.ORIGIN.accepted` | what was accepted |
//! | `NAME.ORIGIN.pending` | what the server offers instead, as long as that is something else |
//! | `lock` | held by whoever writes, so that no two overwrite each other |
//!
//! Each is written whole or not at all, has a version and a fingerprint, and can be read by its user only. A record
//! that cannot be read counts as none that was ever accepted, and not as one that was never made. Records do not give
//! way to each other: whoever has too many is told to remove some.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use outlive_core::protocol::List;
use outlive_core::roster::{Difference, MOST_BYTES, Offer, Pinned, accepting, pin};
use serde_json::{Value, json};

use super::offer_files::{make_directory, replace};

/// Files in the directory.
const MOST_FILES: usize = 4096;

/// A longer file is none of ours.
const LONGEST: u64 = 2 * MOST_BYTES as u64;

/// Whoever writes has no more to do than that.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// A draft that is older will not be finished.
const OLD_DRAFT: Duration = Duration::from_secs(3600);

const ACCEPTED: &str = "accepted";
const PENDING: &str = "pending";

/// Letters of a digest. Nobody finds two offers that have these in common.
const DIGEST_LETTERS: usize = 40;

/// What is known to be accepted of a server.
#[derive(Clone, Debug)]
pub(super) enum Trust {
    /// Nothing was ever accepted under its name: what it offers first is.
    FirstUse,
    /// This.
    Accepted(Box<Offer>),
    /// Nothing, for this reason; this was accepted before, if that is known.
    Nothing(Reason, Option<Box<Offer>>),
}

impl Trust {
    /// What clients are shown of this, and how that differs.
    pub(super) fn pinned(&self, live: &Offer) -> Pinned {
        match self {
            Trust::FirstUse => Pinned::nothing(None, live),
            Trust::Accepted(accepted) => pin(accepted, live),
            Trust::Nothing(_, before) => Pinned::nothing(before.as_deref(), live),
        }
    }

    pub(super) fn accepted(&self) -> Option<&Offer> {
        match self {
            Trust::Accepted(accepted) => Some(accepted),
            _ => None,
        }
    }
}

/// Why something of a server is withheld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It offers something else than what was accepted.
    Changed,
    /// Something else was started, or is at another address, when its definitions were accepted.
    OtherOrigin,
    /// The record of what was accepted cannot be read or written: this is why.
    Record(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Changed => f.write_str("its definitions have changed since they were accepted"),
            Reason::OtherOrigin => f.write_str(
                "another command or address has this name than when its definitions were accepted",
            ),
            Reason::Record(why) => {
                write!(f, "the record of what was accepted cannot be used: {why}")
            }
        }
    }
}

/// What is withheld of a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Withheld {
    /// The name of the server.
    pub name: String,
    /// Names what starts it, or its address.
    pub origin: String,
    /// Why it is withheld.
    pub reason: Reason,
    /// What differs from what was accepted. There may be nothing if the reason is another than
    /// [`Changed`](Reason::Changed): then everything is withheld.
    pub differences: Vec<Difference>,
    /// Stands for what would be accepted: a server that changes once more has another.
    pub digest: String,
    accepting: Offer,
}

impl Withheld {
    /// What is withheld of a server that offers this, if something is.
    pub(super) fn of(name: &str, origin: &str, trust: &Trust, live: &Offer) -> Option<Withheld> {
        let (reason, before) = match trust {
            Trust::FirstUse => return None,
            Trust::Accepted(accepted) => (Reason::Changed, Some(&**accepted)),
            Trust::Nothing(reason, _) => (reason.clone(), None),
        };
        let differences = trust.pinned(live).differences;
        if reason == Reason::Changed && differences.is_empty() {
            return None;
        }
        let mut accepting = accepting(before, live);
        if before.is_none() {
            // This is no first time: what could not be read is not accepted when it comes.
            for list in List::ALL {
                if accepting.offers(list) && accepting.list(list).is_none() {
                    accepting.set_list(list, Vec::new());
                }
            }
        }
        Some(Withheld {
            name: name.into(),
            origin: origin.into(),
            reason,
            differences,
            digest: digest(&accepting),
            accepting,
        })
    }

    /// What would be accepted.
    pub(super) fn accepting(&self) -> &Offer {
        &self.accepting
    }

    /// The same for programs.
    pub fn to_json(&self) -> Value {
        let definition = |json: &Bytes| serde_json::from_slice::<Value>(json).ok();
        let difference = |it: &Difference| {
            json!({
                "kind": it.list.map_or("server", List::noun),
                "name": it.key,
                "change": it.kind.as_str(),
                "accepted": it.accepted.as_ref().and_then(definition),
                "live": it.live.as_ref().and_then(definition),
            })
        };
        let reason = match self.reason {
            Reason::Changed => "changed",
            Reason::OtherOrigin => "other_origin",
            Reason::Record(_) => "record",
        };
        json!({
            "server": self.name,
            "reason": reason,
            "sentence": self.reason.to_string(),
            "digest": self.digest,
            "differences": self.differences.iter().map(difference).collect::<Vec<_>>(),
        })
    }

    /// All of it in a sentence, for a log: `docs: …`.
    pub fn sentence(&self) -> String {
        const MOST: usize = 5;
        let Withheld { name, reason, .. } = self;
        let shown = self.differences.iter().take(MOST).map(|it| {
            let what = it.list.map_or("", |list| list.noun());
            format!("{what} {:?} is {}", it.key, it.kind)
        });
        let mut shown: Vec<String> = shown.map(|it| it.trim_start().to_owned()).collect();
        if self.differences.len() > MOST {
            shown.push(format!("and {} more", self.differences.len() - MOST));
        }
        let shown = match shown.is_empty() {
            true => String::new(),
            false => format!(" ({})", shown.join(", ")),
        };
        let what = match reason {
            Reason::Changed => "What is new or changed is withheld",
            _ => "All of it is withheld",
        };
        format!("{name}: {reason}{shown}. {what} until it is accepted: outlive accept {name}")
    }
}

fn digest(offer: &Offer) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, &offer.encode());
    let letters = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    letters.collect::<String>()[..DIGEST_LETTERS].to_owned()
}

/// What can be told of a file without reading it.
pub(super) type Stamp = Option<(SystemTime, u64)>;

/// The directory in which it is kept what was accepted of servers.
///
/// A gateway whose targets are [pinned](super::Builder::pin) keeps its records here. So whoever may write to the
/// directory can accept something, also while a gateway runs, which takes it up within a second or two.
#[derive(Clone, Debug)]
pub struct Pins {
    directory: PathBuf,
}

impl Pins {
    /// The records in this directory, which is made when there is something to keep. It should be its user's alone.
    pub fn new(directory: impl Into<PathBuf>) -> Pins {
        Pins {
            directory: directory.into(),
        }
    }

    /// What is withheld of servers, by name, as far as gateways have seen it: of all of them, or of those with this
    /// name. There may be several of one name that are started in different ways.
    pub fn withheld(&self, name: Option<&str>) -> Result<Vec<Withheld>, String> {
        let mut all = Vec::new();
        for (found, origin) in self.listed(PENDING)? {
            if name.is_some_and(|name| name != found) {
                continue;
            }
            let path = self.path(&found, &origin, PENDING);
            let live = read(&path).map_err(|why| {
                format!(
                    "{}: {why}. Remove it; a gateway writes it again when the server runs.",
                    path.display()
                )
            })?;
            let trust = self.trust(&found, &origin);
            let withheld = live.and_then(|live| Withheld::of(&found, &origin, &trust, &live));
            all.extend(withheld);
        }
        Ok(all)
    }

    /// Whether anything was ever accepted of a server of this name.
    pub fn knows(&self, name: &str) -> bool {
        let listed = self.listed(ACCEPTED).unwrap_or_default();
        listed.into_iter().any(|(known, _)| known == name)
    }

    /// Accepts exactly this, whatever the server offers by now.
    pub fn accept(&self, withheld: &Withheld) -> Result<(), String> {
        let Withheld { name, origin, .. } = withheld;
        let _lock = self.lock()?;
        self.write(name, origin, ACCEPTED, &withheld.accepting)?;
        // A server that has changed once more has another pending offer, which stays.
        let path = self.path(name, origin, PENDING);
        if read(&path).is_ok_and(|live| {
            live.is_some_and(|live| pin(&withheld.accepting, &live).differences.is_empty())
        }) {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    /// What is known to be accepted of a server.
    pub(super) fn trust(&self, name: &str, origin: &str) -> Trust {
        match read(&self.path(name, origin, ACCEPTED)) {
            Ok(Some(offer)) => return Trust::Accepted(Box::new(offer)),
            Ok(None) => {}
            Err(why) => {
                let path = self.path(name, origin, ACCEPTED);
                let why = format!("{}: {why}", path.display());
                return Trust::Nothing(Reason::Record(why), None);
            }
        }
        let others = match self.listed(ACCEPTED) {
            Ok(listed) => listed.into_iter().filter(|(known, _)| known == name),
            Err(why) => return Trust::Nothing(Reason::Record(why), None),
        };
        let others: Vec<(String, String)> = others.collect();
        if others.is_empty() {
            return Trust::FirstUse;
        }
        // The one that was accepted last is what it is compared with.
        let path = |(name, origin): &(String, String)| self.path(name, origin, ACCEPTED);
        let newest = others.iter().map(path).max_by_key(|path| stamp(path));
        let newest = newest.and_then(|path| read(&path).ok()?);
        Trust::Nothing(Reason::OtherOrigin, newest.map(Box::new))
    }

    /// Whether a record may be another one than before.
    pub(super) fn stamp(&self, name: &str, origin: &str) -> Stamp {
        stamp(&self.path(name, origin, ACCEPTED))
    }

    /// Accepts what a server offers for the first time, unless somebody else has been faster.
    pub(super) fn accept_first(
        &self,
        name: &str,
        origin: &str,
        first: impl FnOnce(Option<&Offer>) -> Option<Offer>,
    ) -> Result<Trust, String> {
        let _lock = self.lock()?;
        let trust = self.trust(name, origin);
        let first = match &trust {
            Trust::FirstUse => first(None),
            Trust::Accepted(accepted) => first(Some(accepted)),
            Trust::Nothing(..) => None,
        };
        match first {
            Some(offer) => {
                self.write(name, origin, ACCEPTED, &offer)?;
                Ok(Trust::Accepted(Box::new(offer)))
            }
            None => Ok(trust),
        }
    }

    /// Keeps what a server offers that is not accepted, or that there is nothing of that kind.
    pub(super) fn set_pending(
        &self,
        name: &str,
        origin: &str,
        live: Option<&Offer>,
    ) -> Result<(), String> {
        let path = self.path(name, origin, PENDING);
        match live {
            None if stamp(&path).is_none() => Ok(()),
            None => {
                let _lock = self.lock()?;
                fs::remove_file(&path).or_else(|error| match error.kind() {
                    io::ErrorKind::NotFound => Ok(()),
                    _ => Err(format!("{}: {error}", path.display())),
                })
            }
            Some(live) => {
                let _lock = self.lock()?;
                self.write(name, origin, PENDING, live)
            }
        }
    }

    fn path(&self, name: &str, origin: &str, kind: &str) -> PathBuf {
        self.directory.join(format!("{name}.{origin}.{kind}"))
    }

    /// The names and origins of all files of a kind.
    fn listed(&self, kind: &str) -> Result<BTreeSet<(String, String)>, String> {
        let listed = match fs::read_dir(&self.directory) {
            Ok(listed) => listed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(format!("{}: {error}", self.directory.display())),
        };
        let read = |entry: io::Result<fs::DirEntry>| {
            let file = entry.ok()?.file_name().into_string().ok()?;
            let (name, origin) = file
                .strip_suffix(kind)?
                .strip_suffix('.')?
                .rsplit_once('.')?;
            Some((name.to_owned(), origin.to_owned()))
        };
        Ok(listed.filter_map(read).collect())
    }

    fn lock(&self) -> Result<File, String> {
        let wrong = |error: io::Error| format!("{}: {error}", self.directory.display());
        make_directory(&self.directory).map_err(wrong)?;
        let path = self.directory.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = file.map_err(wrong)?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_PATIENCE => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => return Err(format!("{}: {error}", path.display())),
            }
        }
    }

    /// Writes a file. To be called with the lock.
    fn write(&self, name: &str, origin: &str, kind: &str, offer: &Offer) -> Result<(), String> {
        let path = self.path(name, origin, kind);
        if stamp(&path).is_none() && self.count() >= MOST_FILES {
            return Err(format!(
                "{} has {MOST_FILES} files. Remove those of servers that you no longer have.",
                self.directory.display()
            ));
        }
        let written = replace(&self.directory, &path, &offer.encode());
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// How many files there are; drafts that nobody is about to finish are removed.
    fn count(&self) -> usize {
        let listed = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let mut count = 0;
        for entry in listed {
            let path = entry.path();
            let is_draft = path.extension().is_some_and(|it| it == "draft");
            let age = stamp(&path).and_then(|(written, _)| written.elapsed().ok());
            match is_draft && age.is_some_and(|age| age > OLD_DRAFT) {
                true => drop(fs::remove_file(path)),
                false => count += 1,
            }
        }
        count
    }
}

fn stamp(path: &Path) -> Stamp {
    let about = fs::metadata(path).ok()?;
    Some((about.modified().ok()?, about.len()))
}

/// The offer in a file; none if there is no file.
fn read(path: &Path) -> Result<Option<Offer>, String> {
    // To open anything else may take for ever.
    match fs::metadata(path) {
        Ok(about) if !about.is_file() => return Err("it is no file".into()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    read.map_err(|error| error.to_string())?;
    let offer = Offer::decode(&bytes).map_err(|error| error.to_string())?;
    Ok(Some(offer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlive_core::roster::{first_use, read_page};

    fn offer(tools: &str) -> Offer {
        let offer = Offer::new("v", b"{}", br#"{"tools":{}}"#, None);
        let page = format!(r#"{{"tools":{tools}}}"#);
        let (items, _) = read_page(List::Tools, page.as_bytes()).expect("a page");
        offer.with_list(List::Tools, items)
    }

    fn first(pins: &Pins, origin: &str, live: &Offer) -> Trust {
        let first = |accepted: Option<&Offer>| first_use(accepted, live);
        pins.accept_first("docs", origin, first).expect("written")
    }

    #[test]
    fn the_first_is_accepted_and_whoever_comes_later_takes_what_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let pins = Pins::new(folder.path().join("pins"));
        let (one, other) = (offer(r#"[{"name":"a"}]"#), offer(r#"[{"name":"b"}]"#));
        assert!(matches!(pins.trust("docs", "x"), Trust::FirstUse));
        assert_eq!(first(&pins, "x", &one).accepted(), Some(&one));
        assert_eq!(first(&pins, "x", &other).accepted(), Some(&one));
        assert_eq!(pins.trust("docs", "x").accepted(), Some(&one));
    }

    #[test]
    fn another_command_neither_inherits_trust_nor_gets_it_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let pins = Pins::new(folder.path());
        let live = offer(r#"[{"name":"a"}]"#);
        first(&pins, "x", &live);
        let trust = first(&pins, "y", &live);
        assert!(matches!(
            &trust,
            Trust::Nothing(Reason::OtherOrigin, Some(_))
        ));
        let shown = trust.pinned(&live);
        assert_eq!(shown.offer.list(List::Tools).expect("tools").len(), 0);
        pins.set_pending("docs", "y", Some(&live)).expect("written");
        let withheld = pins.withheld(Some("docs")).expect("read");
        assert_eq!(withheld.len(), 1);
        assert_eq!(withheld[0].differences, []);
        pins.accept(&withheld[0]).expect("accepted");
        assert_eq!(pins.trust("docs", "y").accepted(), Some(&live));
        assert_eq!(pins.trust("docs", "x").accepted(), Some(&live));
        assert!(pins.withheld(None).expect("read").is_empty());
        // A name that another begins with is another name.
        assert!(matches!(pins.trust("doc", "x"), Trust::FirstUse));
        assert!(matches!(pins.trust("docs.x", "x"), Trust::FirstUse));
    }

    #[test]
    fn a_damaged_record_is_no_first_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let pins = Pins::new(folder.path());
        let live = offer(r#"[{"name":"a"}]"#);
        first(&pins, "x", &live);
        let path = pins.path("docs", "x", ACCEPTED);
        let mut bytes = fs::read(&path).expect("a record");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).expect("damaged");
        let trust = first(&pins, "x", &live);
        assert!(matches!(&trust, Trust::Nothing(Reason::Record(_), None)));
        let withheld = Withheld::of("docs", "x", &trust, &live).expect("something");
        assert_eq!(withheld.differences.len(), 1);
        assert!(withheld.sentence().contains("outlive accept docs"));
        fs::write(&path, "").expect("emptied");
        assert!(matches!(pins.trust("docs", "x"), Trust::Nothing(..)));
        // It is not forgotten because another has the name.
        assert!(matches!(pins.trust("docs", "y"), Trust::Nothing(..)));
        pins.accept(&withheld).expect("accepted");
        assert_eq!(pins.trust("docs", "x").accepted(), Some(&live));
    }

    #[test]
    fn what_was_shown_is_accepted_and_nothing_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let pins = Pins::new(folder.path());
        let [one, two, three] = [1, 2, 3].map(|n| offer(&format!(r#"[{{"name":"a","n":{n}}}]"#)));
        first(&pins, "x", &one);
        pins.set_pending("docs", "x", Some(&two)).expect("written");
        let shown = pins.withheld(Some("docs")).expect("read").remove(0);
        pins.set_pending("docs", "x", Some(&three))
            .expect("written");
        pins.accept(&shown).expect("accepted");
        assert_eq!(pins.trust("docs", "x").accepted(), Some(&two));
        let still = pins.withheld(Some("docs")).expect("read").remove(0);
        assert_ne!(still.digest, shown.digest);
        assert_eq!(still.differences[0].lines(), ["- n: 2", "+ n: 3"]);
    }

    #[cfg(unix)]
    #[test]
    fn files_are_private_and_bounded() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let pins = Pins::new(folder.path().join("a").join("pins"));
        let live = offer(r#"[{"name":"a"}]"#);
        first(&pins, "x", &live);
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&pins.directory), 0o700);
        assert_eq!(mode(&pins.path("docs", "x", ACCEPTED)), 0o600);
        for n in 0..MOST_FILES {
            fs::write(pins.directory.join(n.to_string()), "").expect("written");
        }
        let why = pins.accept_first("other", "x", |_| Some(live.clone()));
        assert!(why.expect_err("too many").contains("Remove those"));
        pins.set_pending("docs", "x", None).expect("nothing to do");
        assert_eq!(first(&pins, "x", &live).accepted(), Some(&live));
    }
}
