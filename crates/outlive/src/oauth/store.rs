//! Where logins are kept: a folder that only the user can read, with a file for each server.
//!
//! A file is replaced whole or not at all (written beside, synced, renamed), so that whoever reads it needs no lock.
//! What cannot be read is no login: a person is asked again, and nothing breaks. Beside each file is one that is locked
//! by whoever exchanges something; the kernel gives that lock back when its owner dies.
//!
//! A file may be sealed with a key that the system's [keyring](super::keyring) holds (`vault`). What it says about the
//! login can be read without that; its secrets, and where they are sent, cannot.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use outlive_core::login::{Grant, GrantId};
use reqwest::Url;
use ring::digest;
use serde::{Deserialize, Serialize};

use super::client::Client;
use super::discovery::canonical;
use super::keyring::Entry;
use super::plain;
use super::vault::Vault;

/// The ending of a login.
const ENDING: &str = "login";
/// Whoever waits for the lock looks this often.
const LOOK: Duration = Duration::from_millis(40);
/// A file that is longer is no login.
const LONGEST: u64 = 1 << 20;

/// Where logins are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenStore {
    /// In this folder.
    Folder(PathBuf),
    /// In this folder, sealed with keys that the system's keyring holds.
    Keyring {
        /// The folder.
        folder: PathBuf,
        /// Where there is no keyring, or none that can be used, a login is kept as in [`TokenStore::Folder`].
        or_plain: bool,
    },
    /// Nowhere: they end with the process, and no other process shares them.
    Memory,
}

/// A login as it is kept.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) server: String,
    pub(super) client: Client,
    pub(super) token_endpoint: String,
    pub(super) resource: String,
    pub(super) grant: Option<KeptGrant>,
}

/// A grant, with its secrets.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct KeptGrant {
    pub(super) id: u64,
    pub(super) access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refresh_token: Option<String>,
    /// Milliseconds since 1970.
    pub(super) issued: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<u64>,
    #[serde(default)]
    pub(super) in_doubt: bool,
    #[serde(default)]
    pub(super) by_login: bool,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
}

impl KeptGrant {
    /// The same without its secrets.
    pub(super) fn grant(&self) -> Grant {
        Grant {
            id: GrantId(self.id),
            issued: Duration::from_millis(self.issued),
            expires: self.expires.map(Duration::from_millis),
            renewable: self.refresh_token.is_some(),
            in_doubt: self.in_doubt,
            by_login: self.by_login,
            scopes: self.scopes.clone(),
        }
    }
}

/// A login as it is kept where there is a keyring.
#[derive(Serialize, Deserialize)]
struct Sealed {
    /// For whoever lists logins.
    about: About,
    /// A [`Kept`].
    sealed: String,
}

/// What may be known of a login.
#[derive(Serialize, Deserialize)]
struct About {
    server: String,
    issuer: String,
    client_id: String,
    scopes: Vec<String>,
    /// Milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    renewable: bool,
}

impl About {
    fn login(self, sealed: bool) -> StoredLogin {
        StoredLogin {
            server: plain(&self.server),
            issuer: plain(&self.issuer),
            client_id: plain(&self.client_id),
            scopes: self.scopes.iter().map(|it| plain(it)).collect(),
            expires: self.expires.map(Duration::from_millis),
            renewable: self.renewable,
            sealed,
        }
    }
}

/// What a file holds.
enum Found {
    Plain(Box<Kept>),
    Sealed(Sealed),
    /// There is none, or none that can be read.
    Nothing,
}

/// What is known of a login that is kept; never its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredLogin {
    /// The server.
    pub server: String,
    /// Who has let us in.
    pub issuer: String,
    /// Who we are there.
    pub client_id: String,
    /// The scopes that were asked for.
    pub scopes: Vec<String>,
    /// When its access token expires, since 1970, if that was told.
    pub expires: Option<Duration>,
    /// It is renewed by itself.
    pub renewable: bool,
    /// It can be read only with a key that the system's keyring holds.
    pub sealed: bool,
}

impl Kept {
    /// What may be known of it; none if it has no grant.
    fn about(&self) -> Option<About> {
        let grant = self.grant.as_ref()?;
        Some(About {
            server: self.server.clone(),
            issuer: self.client.issuer.clone(),
            client_id: self.client.id.clone(),
            scopes: grant.scopes.clone(),
            expires: grant.expires,
            renewable: grant.refresh_token.is_some(),
        })
    }
}

/// The place of one login.
#[derive(Clone, Debug)]
pub(super) struct Place {
    folder: PathBuf,
    name: String,
    /// Where its key is, if it may have one.
    vault: Option<Arc<Vault>>,
}

/// A name that nobody else has, of letters and digits.
fn name(of: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, of);
    let hash = hash.as_ref()[..12].iter();
    hash.map(|byte| format!("{byte:02x}")).collect()
}

/// A folder by the one name it has, whatever links lead to it and whether it is there yet or not.
fn real(folder: &Path) -> PathBuf {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let found = whole.ancestors().find_map(|there| {
        let mut real = there.canonicalize().ok()?;
        // Joined by parts: an empty rest would leave a separator at the end.
        real.extend(whole.strip_prefix(there).ok()?);
        Some(real)
    });
    found.unwrap_or(whole)
}

impl TokenStore {
    fn folder(&self) -> Option<&Path> {
        match self {
            TokenStore::Folder(folder) | TokenStore::Keyring { folder, .. } => Some(folder),
            TokenStore::Memory => None,
        }
    }

    pub(super) fn place(&self, server: &Url) -> Option<Place> {
        let folder = self.folder()?.to_owned();
        let server = canonical(server);
        let vault = match self {
            TokenStore::Keyring { or_plain, .. } => {
                // Another folder has other logins, and so other keys.
                let mut whole = real(&folder).into_os_string().into_encoded_bytes();
                whole.push(0);
                whole.extend_from_slice(server.as_bytes());
                let name = name(&whole);
                let entry = Entry {
                    name,
                    server: server.clone(),
                };
                Some(Arc::new(Vault::new(entry, *or_plain)))
            }
            _ => None,
        };
        Some(Place {
            folder,
            name: name(server.as_bytes()),
            vault,
        })
    }

    /// All logins that are kept, by server. What is sealed is listed, too: no secret is read for that.
    pub fn logins(&self) -> io::Result<Vec<StoredLogin>> {
        let Some(folder) = self.folder() else {
            return Ok(Vec::new());
        };
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == ENDING) {
                all.extend(match read(&path) {
                    Found::Plain(kept) => kept.about().map(|it| it.login(false)),
                    Found::Sealed(Sealed { about, .. }) => Some(about.login(true)),
                    Found::Nothing => None,
                });
            }
        }
        all.sort_by(|a, b| a.server.cmp(&b.server));
        Ok(all)
    }
}

impl Place {
    fn file(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.name))
    }

    /// The login there is; none if there is none, or none that can be read with the key there is.
    pub(super) fn load(&self) -> Option<Kept> {
        match read(&self.file(ENDING)) {
            Found::Plain(kept) => Some(*kept),
            Found::Sealed(Sealed { sealed, .. }) => {
                let text = self.vault.as_ref()?.open(&self.name, &sealed)?;
                serde_json::from_slice(&text).ok()
            }
            Found::Nothing => None,
        }
    }

    /// Whether there is a login that the keyring has to be asked for.
    pub(super) fn is_locked(&self) -> bool {
        match read(&self.file(ENDING)) {
            Found::Sealed(Sealed { sealed, .. }) => {
                let vault = self.vault.as_ref();
                vault.is_some_and(|it| it.open(&self.name, &sealed).is_none())
            }
            _ => false,
        }
    }

    /// Whether there is a login, and it is sealed.
    pub(super) fn is_sealed(&self) -> bool {
        matches!(read(&self.file(ENDING)), Found::Sealed(_))
    }

    /// Whether there is a login that is sealed, and no keyring is to be asked for its key.
    pub(super) fn is_out_of_reach(&self) -> bool {
        self.vault.is_none() && self.is_sealed()
    }

    /// Whether a login is sealed when it is saved. What was kept in the plain stays so until somebody logs in again:
    /// there is a process of this user that cannot reach the keyring.
    fn seals(&self, vault: &Vault, by_login: bool) -> bool {
        by_login || !vault.or_plain() || !matches!(read(&self.file(ENDING)), Found::Plain(_))
    }

    /// Where its key is, if it may have one.
    pub(super) fn vault(&self) -> Option<&Arc<Vault>> {
        self.vault.as_ref()
    }

    /// What is written for a login.
    fn text(&self, kept: &Kept, by_login: bool) -> io::Result<Vec<u8>> {
        let text = serde_json::to_vec_pretty(kept)?;
        let Some(vault) = self.vault.as_ref().filter(|it| self.seals(it, by_login)) else {
            return Ok(text);
        };
        match (vault.seal(&self.name, &text), kept.about()) {
            (Ok(sealed), Some(about)) => Ok(serde_json::to_vec_pretty(&Sealed { about, sealed })?),
            (Err(_), _) if vault.or_plain() => Ok(text),
            (Err(why), _) => Err(io::Error::other(why.to_string())),
            (Ok(_), None) => Err(io::Error::other("there is no login")),
        }
    }

    /// Keeps a login; `by_login`: a person has just made it.
    pub(super) fn save(&self, kept: &Kept, by_login: bool) -> io::Result<()> {
        make_folder(&self.folder)?;
        let beside = self.file(&format!("new-{}", std::process::id()));
        let text = self.text(kept, by_login)?;
        let written = private(&beside, true).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        let replaced = written.and_then(|()| fs::rename(&beside, self.file(ENDING)));
        match &replaced {
            Ok(()) => sync_folder(&self.folder),
            Err(_) => drop(fs::remove_file(&beside)),
        }
        replaced
    }

    /// Forgets the login. Whether there was one.
    pub(super) fn remove(&self) -> io::Result<bool> {
        match fs::remove_file(self.file(ENDING)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for the lock; it is given back when it is dropped.
    pub(super) async fn lock(&self) -> io::Result<File> {
        make_folder(&self.folder)?;
        let file = private(&self.file("lock"), false)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }
}

fn read(path: &Path) -> Found {
    let mut text = Vec::new();
    let whole = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut text));
    if whole.is_err() {
        return Found::Nothing;
    }
    if let Ok(kept) = serde_json::from_slice(&text) {
        return Found::Plain(Box::new(kept));
    }
    serde_json::from_slice(&text).map_or(Found::Nothing, Found::Sealed)
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Has the system write down which files there are: after a power failure the old login would be there, whose refresh
/// token is spent. Where a folder cannot be synced, the new file is in its place all the same.
fn sync_folder(folder: &Path) {
    #[cfg(unix)]
    let _ = File::open(folder).and_then(|it| it.sync_all());
    #[cfg(not(unix))]
    let _ = folder;
}

/// A file that only this user can read.
fn private(path: &Path, anew: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(anew);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(token: &str) -> Kept {
        Kept {
            server: "https://a.example/mcp".into(),
            client: Client {
                issuer: "https://as.example".into(),
                id: "me".into(),
                secret: None,
                method: "none".into(),
                redirect_uri: None,
            },
            token_endpoint: "https://as.example/token".into(),
            resource: "https://a.example/mcp".into(),
            grant: Some(KeptGrant {
                id: 1,
                access_token: token.into(),
                refresh_token: Some("r".into()),
                issued: 1,
                expires: Some(2),
                in_doubt: false,
                by_login: true,
                scopes: Vec::new(),
            }),
        }
    }

    #[tokio::test]
    async fn a_login_is_kept_for_this_user_alone_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::Folder(folder.path().join("a").join("logins"));
        let place = store
            .place(&"https://a.example/mcp".parse().unwrap())
            .unwrap();
        assert!(place.load().is_none() && store.logins().unwrap().is_empty());
        place.save(&kept("hunter66"), true).unwrap();
        place.save(&kept("hunter77"), false).unwrap();
        assert_eq!(
            place.load().unwrap().grant.unwrap().access_token,
            "hunter77"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(
                (mode(&place.folder), mode(&place.file(ENDING))),
                (0o700, 0o600)
            );
        }
        let logins = store.logins().unwrap();
        assert_eq!(logins[0].server, "https://a.example/mcp");
        assert!(!format!("{logins:?}").contains("hunter"));
        fs::write(place.file(ENDING), "{\"server\": tr").unwrap();
        assert!(place.load().is_none(), "what is damaged is no login");
        assert!(place.remove().unwrap() && !place.remove().unwrap());
    }

    /// An authorization server chooses its name, and what it calls us.
    #[test]
    fn names_that_others_chose_move_no_cursor() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::Folder(folder.path().into());
        let mut kept = kept("hunter66");
        kept.client.issuer = "https://as.example/\u{1b}[2J\u{202e}x".into();
        kept.client.id = "me\r\n".into();
        let place = store.place(&kept.server.parse().unwrap()).unwrap();
        place.save(&kept, true).unwrap();
        let login = &store.logins().unwrap()[0];
        assert_eq!(login.issuer, "https://as.example/[2Jx");
        assert_eq!(login.client_id, "me");
    }

    /// The key of a login is found by its name, so that is one, however the folder is spelled.
    #[cfg(unix)]
    #[test]
    fn a_folder_has_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap().join("home");
        let link = folder.path().join("link");
        fs::create_dir(&home).unwrap();
        std::os::unix::fs::symlink(&home, &link).unwrap();
        let logins = home.join("state").join("logins");
        let linked = link.join("state/./logins/");
        assert_eq!(real(&linked).as_os_str(), logins.as_os_str());
        fs::create_dir_all(&logins).unwrap();
        for folder in [&linked, &logins, &link.join("state/../state/logins")] {
            assert_eq!(real(folder).as_os_str(), logins.as_os_str());
        }
        assert_ne!(real(&home), real(&logins));
    }

    /// What is sealed cannot be read by a store that asks no keyring, and it knows that.
    #[test]
    fn a_sealed_login_is_out_of_reach_without_a_keyring() {
        let folder = tempfile::tempdir().unwrap();
        let server = "https://a.example/mcp".parse().unwrap();
        let place = TokenStore::Folder(folder.path().into()).place(&server);
        let place = place.unwrap();
        assert!(!place.is_out_of_reach(), "there is none");
        place.save(&kept("hunter66"), true).unwrap();
        assert!(!place.is_out_of_reach(), "it is plain");
        let sealed = Sealed {
            about: kept("hunter66").about().unwrap(),
            sealed: "AAAA".into(),
        };
        fs::write(place.file(ENDING), serde_json::to_vec(&sealed).unwrap()).unwrap();
        assert!(place.is_out_of_reach() && !place.is_locked());
        let keyring = TokenStore::Keyring {
            folder: folder.path().into(),
            or_plain: true,
        };
        let place = keyring.place(&server).unwrap();
        assert!(!place.is_out_of_reach() && place.is_locked());
    }

    #[tokio::test]
    async fn one_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenStore::Folder(folder.path().into());
        let place = store
            .place(&"https://a.example/mcp".parse().unwrap())
            .unwrap();
        let lock = place.lock().await.unwrap();
        let other = tokio::time::timeout(LOOK * 5, place.lock()).await;
        assert!(other.is_err(), "it is taken");
        drop(lock);
        place.lock().await.unwrap();
    }
}
