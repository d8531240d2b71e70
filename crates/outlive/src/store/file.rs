//! Sessions in a directory, for one process at a time.
//!
//! The database is [redb](https://docs.rs/redb). A thread of its own does all that is asked of it: whatever waits by
//! then is done in one transaction, so that many sessions share one `fsync`.
//!
//! The database is locked while it is open. That is not enough: one that has failed to write, as on a full disk, is
//! closed and opened again, and somebody else could have it in between while we still answer for its sessions. So there
//! is a lock of our own, which lasts as long as the store.

use std::fs;
use std::io::{Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use outlive_core::tenure::{Admission, Claim, Fence, Tenancy};
use redb::{
    Database, DatabaseError, ReadableTable, ReadableTableMetadata, Table, TableDefinition,
    WriteTransaction,
};
use tokio::sync::oneshot;

use super::{Answer, Claimed, NewSession, Owner, Part, Store, StoreError, Tenure, Write};

/// The file in the directory.
const FILE: &str = "sessions.redb";
/// The file that is locked.
const LOCK: &str = "sessions.lock";
/// The version of its tables.
const VERSION: u64 = 1;
/// Sessions that are kept at once. Those that nobody uses run out.
const MOST_SESSIONS: u64 = 200_000;
/// Requests that share a transaction.
const MOST_AT_ONCE: usize = 1024;

const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");
/// Whose each session is: see [`Row`].
const SESSIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("sessions");
const PARTS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("parts");

/// Keeps sessions in a directory, for one process at a time. What it has answered is on the disk.
#[derive(Debug)]
pub struct FileStore {
    asks: Sender<Ask>,
    /// Held also if the thread has ended before its time.
    _lock: Arc<fs::File>,
}

impl FileStore {
    /// Opens the store in this directory, and makes it if there is none. Only one process can have it open: another
    /// gets an error of the kind [`ErrorKind::WouldBlock`].
    pub fn open(directory: impl AsRef<Path>) -> Result<FileStore, Error> {
        let directory = directory.as_ref();
        make_private(directory).map_err(|error| {
            let (kind, directory) = (error.kind(), directory.display());
            let sentence = format!(
                "cannot keep sessions in {directory}, which has to be a directory: {error}"
            );
            Error::new(kind, sentence)
        })?;
        let path = directory.join(FILE);
        let lock = Arc::new(lock(directory, &path)?);
        let database = open(&path)?;
        let (asks, asked) = channel();
        let held = lock.clone();
        thread::Builder::new()
            .name("outlive-store".into())
            .spawn(move || {
                work(&path, database, &asked);
                drop(held);
            })?;
        Ok(FileStore { asks, _lock: lock })
    }

    fn ask<T: Send + 'static>(
        &self,
        make: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Ask,
    ) -> Answer<'_, T> {
        let (answer, answered) = oneshot::channel();
        // If the thread has ended, nobody holds the other end.
        let _ = self.asks.send(make(answer));
        Box::pin(async move {
            match answered.await {
                Ok(answer) => answer,
                Err(_) => Err(self.trouble().await),
            }
        })
    }
}

impl FileStore {
    /// Why something was not answered.
    async fn trouble(&self) -> StoreError {
        let (tell, told) = oneshot::channel();
        let _ = self.asks.send(Ask::Trouble(tell));
        let trouble = told.await.ok().flatten();
        trouble.unwrap_or_else(|| StoreError::new("the store of sessions has given no answer"))
    }
}

/// Makes the directory ours for as long as the file is open.
fn lock(directory: &Path, database: &Path) -> Result<fs::File, Error> {
    let path = directory.join(LOCK);
    let open = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path);
    let unusable = |error: Error| {
        let (path, kind) = (path.display(), error.kind());
        Error::new(kind, format!("cannot use the sessions in {path}: {error}"))
    };
    let file = open.map_err(unusable)?;
    private(&path).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            Err(failed(database, DatabaseError::DatabaseAlreadyOpen))
        }
        Err(fs::TryLockError::Error(error)) => Err(unusable(error)),
    }
}

fn open(path: &Path) -> Result<Database, Error> {
    let database = Database::create(path).map_err(|error| failed(path, error))?;
    private(path)?;
    check_version(&database, path)?;
    Ok(database)
}

fn make_private(directory: &Path) -> Result<(), Error> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
    }
    #[cfg(not(unix))]
    fs::create_dir_all(directory)
}

/// What is in it is as secret as tokens are.
fn private(path: &Path) -> Result<(), Error> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    }
    let _ = path;
    Ok(())
}

fn failed(path: &Path, error: DatabaseError) -> Error {
    let path = path.display();
    match error {
        DatabaseError::DatabaseAlreadyOpen => {
            let sentence = format!("another process uses the sessions in {path}");
            Error::new(ErrorKind::WouldBlock, sentence)
        }
        DatabaseError::UpgradeRequired(version) => Error::new(
            ErrorKind::InvalidData,
            format!(
                "{path} has version {version} of a file format that this program does not write any more; start with \
                 another directory, and clients begin new sessions"
            ),
        ),
        error => Error::other(format!("cannot use the sessions in {path}: {error}")),
    }
}

/// Whether the tables are those that this program knows.
fn check_version(database: &Database, path: &Path) -> Result<(), Error> {
    let found = (|| {
        let transaction = database.begin_write()?;
        let found = {
            let mut about = transaction.open_table(ABOUT)?;
            let found = about.get("version")?.map(|it| it.value());
            if found.is_none() {
                about.insert("version", VERSION)?;
            }
            transaction.open_table(SESSIONS)?;
            transaction.open_table(PARTS)?;
            found
        };
        transaction.commit()?;
        Ok::<_, redb::Error>(found.unwrap_or(VERSION))
    })();
    match found {
        Ok(VERSION) => Ok(()),
        Ok(other) => Err(Error::new(
            ErrorKind::InvalidData,
            format!(
                "the sessions in {} have version {other}, and this program knows version {VERSION}; use the newer \
                 program, or another directory",
                path.display()
            ),
        )),
        Err(error) => Err(Error::other(format!(
            "cannot use the sessions in {}: {error}",
            path.display()
        ))),
    }
}

/// Who waits for an answer.
type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// Something to be done.
enum Ask {
    Begin(NewSession, Reply<Tenure>),
    Claim(String, String, Owner, Reply<Claimed>),
    Write(String, Tenure, u64, Vec<Write>, Reply<bool>),
    Touch(Vec<(String, Tenure)>, Duration, Reply<()>),
    Release(String, Tenure, Reply<()>),
    End(String, Tenure, Reply<()>),
    /// What went wrong last, if what was asked before has failed.
    Trouble(oneshot::Sender<Option<StoreError>>),
}

/// Something that was done, whose answer is given when it is on the disk.
type Settle = Box<dyn FnOnce(Option<&StoreError>)>;

fn settle<T: 'static>(reply: Reply<T>, done: T) -> Settle {
    Box::new(move |failed| {
        let answer = match failed {
            None => Ok(done),
            Some(error) => Err(error.clone()),
        };
        // Whoever asked may have gone.
        let _ = reply.send(answer);
    })
}

/// Does what is asked until nobody can ask any more. A database that has failed to write takes nothing more, so it is
/// opened again.
fn work(path: &Path, database: Database, asked: &Receiver<Ask>) {
    let (mut database, mut trouble) = (Some(database), None::<StoreError>);
    while let Ok(first) = asked.recv() {
        let mut asks = Vec::new();
        for ask in std::iter::once(first).chain(asked.try_iter().take(MOST_AT_ONCE)) {
            match ask {
                Ask::Trouble(tell) => drop(tell.send(trouble.clone())),
                ask => asks.push(ask),
            }
        }
        if asks.is_empty() {
            continue;
        }
        let mut settles: Vec<Settle> = Vec::new();
        let done = match database.take().map_or_else(|| open(path), Ok) {
            Ok(opened) => {
                let done = together(&opened, asks, &mut settles);
                database = done.is_ok().then_some(opened);
                done.map_err(|error| StoreError::new(error.to_string()))
            }
            Err(error) => Err(StoreError::new(error.to_string())),
        };
        trouble = done.err();
        for settle in settles {
            settle(trouble.as_ref());
        }
    }
}

/// Does all of this in one transaction.
fn together(
    database: &Database,
    asks: Vec<Ask>,
    settles: &mut Vec<Settle>,
) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    let mut failed = None;
    for ask in asks {
        // What follows one that failed is answered with the same.
        let done = match failed {
            None => each(&transaction, ask, settles),
            Some(_) => Ok(()),
        };
        failed = failed.or(done.err());
    }
    match failed {
        None => Ok(transaction.commit()?),
        Some(error) => {
            let _ = transaction.abort();
            Err(error)
        }
    }
}

fn each(
    transaction: &WriteTransaction,
    ask: Ask,
    settles: &mut Vec<Settle>,
) -> Result<(), redb::Error> {
    let mut sessions = transaction.open_table(SESSIONS)?;
    let mut parts = transaction.open_table(PARTS)?;
    match ask {
        // It needs no database.
        Ask::Trouble(_) => {}
        Ask::Begin(session, reply) => {
            if sessions.len()? >= MOST_SESSIONS {
                let full = format!("{MOST_SESSIONS} sessions are kept, as many as there may be");
                let _ = reply.send(Err(StoreError::new(full)));
                return Ok(());
            }
            let (tenancy, tenure) = Tenancy::begun(session.owner);
            let row = Row {
                tenancy,
                until: seconds(session.ttl),
                principal: session.principal,
            };
            sessions.insert(&*session.id, &*row.write())?;
            for (part, bytes) in session.parts {
                parts.insert((&*session.id, &*part.to_string()), &*bytes)?;
            }
            settles.push(settle(reply, tenure));
        }
        Ask::Claim(id, principal, by, reply) => {
            let row = Row::of(&sessions, &id)?;
            let row = row.filter(|row| row.principal == principal && now() < row.until);
            let claimed = match row {
                None => Claimed::Absent,
                // The file is ours alone, so whoever had the session is gone.
                Some(mut row) => match row.tenancy.claim(by, |_| false) {
                    Claim::Held(owner) => Claimed::Held {
                        owner,
                        address: String::new(),
                    },
                    Claim::Granted(tenure) => {
                        sessions.insert(&*id, &*row.write())?;
                        Claimed::Granted(tenure, all(&parts, &id)?)
                    }
                },
            };
            settles.push(settle(reply, claimed));
        }
        Ask::Write(id, tenure, number, writes, reply) => {
            let mut row = Row::of(&sessions, &id)?;
            let admission = row.as_mut().map(|row| row.tenancy.admit(tenure, number));
            if let (Some(row), Some(Admission::New)) = (row, admission) {
                sessions.insert(&*id, &*row.write())?;
                for (part, bytes) in writes {
                    let part = part.to_string();
                    match bytes {
                        Some(bytes) => drop(parts.insert((&*id, &*part), &*bytes)?),
                        None => drop(parts.remove((&*id, &*part))?),
                    }
                }
            }
            let admitted = matches!(admission, Some(Admission::New | Admission::Known));
            settles.push(settle(reply, admitted));
        }
        Ask::Touch(touched, ttl, reply) => {
            for (id, tenure) in touched {
                if let Some(mut row) = Row::of(&sessions, &id)?
                    && row.tenancy.admits(tenure)
                {
                    row.until = seconds(ttl);
                    sessions.insert(&*id, &*row.write())?;
                }
            }
            let now = now();
            let over = sessions
                .iter()?
                .filter_map(|it| {
                    let (id, row) = it.ok()?;
                    let row = Row::read(row.value());
                    let over = row.is_none_or(|row| row.until <= now);
                    over.then(|| id.value().to_owned())
                })
                .collect::<Vec<String>>();
            for id in over {
                sessions.remove(&*id)?;
                forget(&mut parts, &id)?;
            }
            settles.push(settle(reply, ()));
        }
        Ask::Release(id, tenure, reply) => {
            if let Some(mut row) = Row::of(&sessions, &id)?
                && row.tenancy.release(tenure)
            {
                sessions.insert(&*id, &*row.write())?;
            }
            settles.push(settle(reply, ()));
        }
        Ask::End(id, tenure, reply) => {
            if Row::of(&sessions, &id)?.is_some_and(|row| row.tenancy.admits(tenure)) {
                sessions.remove(&*id)?;
                forget(&mut parts, &id)?;
            }
            settles.push(settle(reply, ()));
        }
    }
    Ok(())
}

type Parts<'a> = Table<'a, (&'static str, &'static str), &'static [u8]>;

/// The parts of a session. A name that is not known is of a later version: its head has that, too.
fn all(parts: &Parts<'_>, id: &str) -> Result<Vec<(Part, Bytes)>, redb::Error> {
    let mut found = Vec::new();
    for entry in parts.range((id, "")..=(id, "\u{10ffff}"))? {
        let (name, bytes) = entry?;
        if let Some(part) = Part::read(name.value().1) {
            found.push((part, Bytes::copy_from_slice(bytes.value())));
        }
    }
    Ok(found)
}

fn forget(parts: &mut Parts<'_>, id: &str) -> Result<(), redb::Error> {
    Ok(parts.retain_in((id, "")..=(id, "\u{10ffff}"), |_, _| false)?)
}

/// Whose a session is, and how long it is kept.
struct Row {
    tenancy: Tenancy,
    /// In seconds since 1970.
    until: u64,
    principal: String,
}

impl Row {
    fn of(
        sessions: &Table<'_, &'static str, &'static [u8]>,
        id: &str,
    ) -> Result<Option<Row>, redb::Error> {
        Ok(sessions.get(id)?.and_then(|row| Row::read(row.value())))
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let owner = self.tenancy.owner;
        bytes.push(owner.is_some().into());
        let Tenancy { fence, written, .. } = self.tenancy;
        for number in [owner.map_or(0, |it| it.0), fence.0, written, self.until] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(self.principal.as_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Row> {
        let (owned, rest) = bytes.split_first()?;
        let (numbers, principal) = rest.split_at_checked(32)?;
        let number = |n: usize| {
            let bytes = numbers.get(n * 8..n * 8 + 8)?.try_into().ok()?;
            Some(u64::from_le_bytes(bytes))
        };
        let owner = Owner(number(0)?);
        Some(Row {
            tenancy: Tenancy {
                owner: (*owned == 1).then_some(owner),
                fence: Fence(number(1)?),
                written: number(2)?,
            },
            until: number(3)?,
            principal: String::from_utf8(principal.to_vec()).ok()?,
        })
    }
}

/// The time of day: it goes on while nobody has the file open.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |it| it.as_secs())
}

/// The moment so long from now, in seconds since 1970.
fn seconds(ttl: Duration) -> u64 {
    now().saturating_add(ttl.as_secs().max(1))
}

impl Store for FileStore {
    fn renew<'a>(&'a self, _: Owner, _: &'a str, _: bool) -> Answer<'a, bool> {
        Box::pin(std::future::ready(Ok(true)))
    }

    fn leave(&self, _: Owner) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn begin(&self, session: NewSession) -> Answer<'_, Tenure> {
        self.ask(|reply| Ask::Begin(session, reply))
    }

    fn claim(&self, id: &str, principal: &str, by: Owner) -> Answer<'_, Claimed> {
        self.ask(|reply| Ask::Claim(id.to_owned(), principal.to_owned(), by, reply))
    }

    fn write(&self, id: &str, tenure: Tenure, number: u64, writes: Vec<Write>) -> Answer<'_, bool> {
        self.ask(|reply| Ask::Write(id.to_owned(), tenure, number, writes, reply))
    }

    fn touch(&self, sessions: Vec<(String, Tenure)>, ttl: Duration) -> Answer<'_, ()> {
        self.ask(|reply| Ask::Touch(sessions, ttl, reply))
    }

    fn release(&self, id: &str, tenure: Tenure) -> Answer<'_, ()> {
        self.ask(|reply| Ask::Release(id.to_owned(), tenure, reply))
    }

    fn end(&self, id: &str, tenure: Tenure) -> Answer<'_, ()> {
        self.ask(|reply| Ask::End(id.to_owned(), tenure, reply))
    }
}
